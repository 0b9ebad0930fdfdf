//! What the road fixes for one frame: where ground and sky may be, the ground's disparity and
//! spread on each row, and the priors of an object that stands on it.
use crate::frame::Road;

use super::{
    math::{COST_PER_NAT, atan, mass_inside},
    tables::{Gauss, IMPOSSIBLE, LEAST_MASS, Tables},
};

/// Priors of an object above ground that ends on a row, cut prior included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OnGround {
    /// Means above this are nearer than the ground, units.
    pub high: i32,
    /// Means below this are farther than the ground, units.
    pub low: i32,
    pub nearer: i32,
    pub farther: i32,
    pub standing: i32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroundRow {
    pub gauss: Gauss,
    /// For an object that begins on the next row up.
    pub on: OnGround,
    /// Whether sky may begin on the next row up.
    pub sky_next: bool,
}

/// Rows count from the bottom.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// Where the horizon is: rows below `horizon` are ground's. May be negative or above the image.
    pub horizon: i32,
    /// Ground may be on rows below this, 0 to h.
    pub end: usize,
    /// Sky may begin at this row and above, 0 to h.
    pub sky: usize,
    pub rows: Vec<GroundRow>,
}

/// No image is as tall.
const FAR: f64 = 1e6;

impl Ground {
    pub(super) fn new(height: usize) -> Self {
        Self {
            horizon: 0,
            end: 0,
            sky: 0,
            rows: vec![GroundRow::default(); height],
        }
    }

    /// Whether a column of this edge can't see ground on row `v`.
    pub(super) fn unseen(&self, v: usize, edge: usize, tables: &Tables) -> bool {
        edge < tables.disparities && self.rows[v].gauss.model_px >= edge as f32
    }

    /// Fills every row. A road that does not rise downwards, or is no number, is no ground: the
    /// horizon then lies below the image.
    pub(super) fn set(&mut self, tables: &Tables, road: &Road) {
        let h = self.rows.len();
        let reference = tables.reference_road();
        let (slope, row) = (f64::from(road.slope), f64::from(road.horizon_row));
        let bottom = (h - 1) as f64;
        let usable = slope > 0.0 && slope.is_finite() && row.is_finite();
        let slope = if usable { slope.clamp(1e-6, 1e6) } else { 1.0 };
        let row = if usable { row.clamp(-FAR, FAR) } else { FAR };
        // Height of the horizon above the bottom row.
        let rise = if reference {
            bottom - row.ceil()
        } else {
            bottom - row
        };
        self.horizon = rise.ceil() as i32;
        self.end = self.horizon.clamp(0, h as i32) as usize;
        self.sky = if reference {
            // The cut below a sky lies on or above the horizon.
            (self.horizon.max(0) + 1).min(h as i32) as usize
        } else {
            self.end
        };

        let camera = &tables.camera;
        let params = &tables.params;
        let f = camera.focal_px;
        let t = (camera.cy - (bottom - rise)) / f;
        let cos = 1.0 / (1.0 + t * t).sqrt();
        let pitch = if reference { -atan(t) } else { 0.0 };
        let tilt = params.sigma_tilt_deg * (std::f64::consts::PI / 180.0);
        // f b / H = f * slope / cos(pitch), and the relative uncertainty of 1 / H.
        let gain = f * slope / cos;
        let height_m = camera.baseline_m * cos / slope;
        let relative = params.sigma_height_m / height_m;
        let sigma_2 = params.sigma_ground_px * params.sigma_ground_px;
        let range = tables.disparities as f64;
        let functions = &tables.functions;
        for (v, out) in self.rows.iter_mut().enumerate() {
            let below = rise - v as f64;
            let model = slope * below;
            let angle = pitch + below / f;
            let road_2 = gain * gain * (relative * relative * angle * angle + tilt * tilt);
            let sigma = (sigma_2 + road_2).sqrt();
            let mass = mass_inside(|x| functions.erf(x), model, sigma, range).max(LEAST_MASS);
            let base = functions.ln(mass) + functions.ln(sigma) + tables.ground_pixel.normaliser;
            let scale = f64::from(COST_PER_NAT);
            out.gauss = Gauss {
                model_px: model as f32,
                base: (base * scale) as f32,
                weight: (scale / (2.0 * sigma * sigma)) as f32,
            };
            let ground = model.clamp(0.0, 2.0 * range);
            out.sky_next = (v as i64) < i64::from(self.horizon) && v + 1 >= self.sky && !reference;
            out.on = on_ground(tables, v, (ground * f64::from(tables.unit)).floor() as i32);
        }
    }
}

/// Priors of an object on a ground that ends on row `v` with disparity `ground`, units.
fn on_ground(tables: &Tables, v: usize, ground: i32) -> OnGround {
    let Some(&cut) = tables.cut.get(v + 1) else {
        return OnGround::default();
    };
    let priors = &tables.priors;
    let high = ground + tables.ground_tolerance;
    let low = ground - tables.ground_tolerance;
    let base = priors.object_next + cut;
    let add = |c: i32| if c == IMPOSSIBLE { c } else { base + c };
    OnGround {
        high,
        low,
        nearer: add(tables.spread_over(priors.flying, tables.largest() + 1 - high)),
        farther: add(tables.spread_over(priors.sunken, low)),
        standing: base + priors.standing,
    }
}
