//! What parameters, camera and image height fix: cost tables and priors, built once on the host.
use crate::frame::{Camera, Size};

use super::{
    InvalidPixels, Params, ParamsError, Reduction, RoadModel, Rounding, SigmaOf,
    math::{COST_PER_NAT, Functions, LogTable, Reciprocals, cost, cost_of_ln, mass_inside},
};

/// The cost of what can't be. Compared, never added.
pub(super) const IMPOSSIBLE: i32 = i32::MAX;

/// A measurement that is missing, among measurements in units.
pub(super) const MISSING: i32 = -1;

/// The least mass of a Gaussian within the disparity range: a ground that is nearer than the
/// range would else make every pixel infinitely welcome.
pub(super) const LEAST_MASS: f64 = 1.0 / 128.0;

/// Probability that an object without a measurement is missing because it is too near the left
/// border to be seen, where that can be. Less than the 1 of a ground, whose disparity is known.
const P_UNSEEN: f64 = 0.95;

/// Cost units in a coarse cost: so coarse that [`TILE`] rows fit 16 bits.
pub(super) const COARSE: i16 = TILE as i16;

/// Rows whose coarse costs are summed together.
pub(super) const TILE: usize = 16;

/// Room for the priors of a path's last segments in the range of costs.
const PRIORS_ROOM: i64 = 1 << 20;

/// Costs of a pixel of one class, apart from how far it lies from the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct PixelCosts {
    /// An outlier: `ln D - ln p_outlier`, and what being measured costs.
    pub outlier: i32,
    /// A missing measurement.
    pub missing: i32,
    /// `ln sqrt(2 pi) - ln(1 - p_outlier)`, and what being measured costs, nats: the part of
    /// the Gaussian's normaliser that depends on neither model nor spread.
    pub normaliser: f64,
}

/// What a Gaussian adds to a pixel: `base + weight * (d - model)^2`, in cost units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauss {
    pub model_px: f32,
    pub base: f32,
    pub weight: f32,
}

impl Gauss {
    /// The cheaper of Gaussian and outlier for a measurement in px, rounded half up.
    #[inline]
    pub(super) fn cost(&self, d_px: f32, outlier: i32) -> i32 {
        let e = d_px - self.model_px;
        let g = self.base + e * e * self.weight;
        if g < outlier as f32 {
            (g + 0.5).floor() as i32
        } else {
            outlier
        }
    }
}

/// Priors that depend on nothing but parameters and range, cost units.
#[derive(Clone, Debug)]
pub(super) struct Priors {
    pub ln_2: i32,
    pub ln_range: i32,
    pub ground_next: i32,
    pub object_next: i32,
    pub nearer: i32,
    pub farther: i32,
    /// [`IMPOSSIBLE`] where objects within the separation are never two.
    pub same: i32,
    pub flying: i32,
    pub sunken: i32,
    /// Standing on the ground, with the width of the tolerance.
    pub standing: i32,
    /// Object on sky, with the range that is left to it.
    pub on_sky: i32,
}

#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub params: Params,
    pub camera: Camera,
    pub height: usize,
    /// Disparity range, px.
    pub disparities: usize,
    /// Measurements and means are whole numbers of 1/`unit` px.
    pub unit: u32,
    /// Costs of an object pixel: a row of `disparities` models for each step of a measurement,
    /// then a row for a missing one in a column that sees no disparity of `edge` px or more,
    /// for each `edge` from 0 to `disparities`.
    pub object: Vec<i16>,
    /// The same, in 1/[`COARSE`] of the precision, rounded down.
    object_coarse: Vec<i16>,
    /// The least of each row.
    pub object_least: Vec<i32>,
    /// The first row for a missing measurement.
    pub missing_rows: usize,
    /// `x * unit_reciprocal >> 40` is `x / unit` for whole numbers below 2^24.
    pub unit_reciprocal: u64,
    pub half_step: u32,
    pub object_pixel: PixelCosts,
    pub ground_pixel: PixelCosts,
    pub sky_pixel: PixelCosts,
    /// Missing at the top of the image, as sky.
    pub sky_missing_at_top: i32,
    pub sky: Gauss,
    /// `ln(h - B)`, the prior of a cut below row B.
    pub cut: Vec<i32>,
    /// Half the width of the separation around each whole disparity, units.
    pub separation: Vec<i32>,
    pub ground_tolerance: i32,
    pub sky_tolerance: i32,
    pub priors: Priors,
    pub log: LogTable,
    pub functions: Functions,
    pub reciprocals: Reciprocals,
    /// Largest cost of a pixel less the smallest; the smallest is at most 0.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    pub cost_range: i64,
}

impl Tables {
    pub(super) fn new(
        params: &Params,
        size: Size,
        camera: &Camera,
        disparities: usize,
    ) -> Result<Self, ParamsError> {
        params.validate()?;
        if ![64, 128, 256].contains(&disparities) {
            return Err(ParamsError::Disparities { found: disparities });
        }
        let height = size.height;
        if !(1..=usize::from(u16::MAX)).contains(&height) {
            return Err(ParamsError::Height { found: height });
        }
        for (key, found) in [
            ("focal_px", camera.focal_px),
            ("baseline_m", camera.baseline_m),
        ] {
            if !(found > 0.0 && found.is_finite()) {
                return Err(ParamsError::Camera { key, found });
            }
        }
        if !camera.cy.is_finite() {
            let (key, found) = ("cy", camera.cy);
            return Err(ParamsError::Camera { key, found });
        }

        let range = disparities as f64;
        // Sums of whole columns stay exact where every pixel counts.
        let exact_sums = params.invalid_pixels == InvalidPixels::Zero;
        let unit = match params.reduction {
            Reduction::Mean if exact_sums => 256 * params.stixel_width as u32,
            _ => 256,
        };
        let units = |px: f64| (px * f64::from(unit)).floor() as i32;

        let pixel = |p_outlier: f64, if_missing: f64| {
            // Bayes with equal class priors.
            let q = match params.invalid_pixels {
                InvalidPixels::Honoured => 3.0 * if_missing * params.p_missing,
                InvalidPixels::Zero => 0.0,
            };
            let measured = -libm::log(1.0 - q);
            let root = 0.5 * libm::log(2.0 * std::f64::consts::PI);
            PixelCosts {
                outlier: cost_of_ln(libm::log(p_outlier) - libm::log(range) - measured),
                missing: if q > 0.0 { cost(q) } else { 0 },
                normaliser: root - libm::log(1.0 - p_outlier) + measured,
            }
        };
        let object_pixel = pixel(params.p_outlier_object, params.p_object_if_missing);
        let ground_pixel = pixel(params.p_outlier_ground, params.p_ground_if_missing);
        let sky_pixel = pixel(params.p_outlier_sky, params.p_sky_if_missing);

        let sky_at_top = pixel(params.p_outlier_sky, params.p_sky_if_missing_at_top);

        let sky_mass = mass_inside(libm::erf, 0.0, params.sigma_sky_px, range);
        let sky = Gauss {
            model_px: 0.0,
            base: ((libm::log(sky_mass) + libm::log(params.sigma_sky_px) + sky_pixel.normaliser)
                * f64::from(COST_PER_NAT)) as f32,
            weight: (f64::from(COST_PER_NAT) / (2.0 * params.sigma_sky_px * params.sigma_sky_px))
                as f32,
        };

        let fb = camera.focal_px * camera.baseline_m;
        let object = object_table(params, &object_pixel, fb, disparities);
        let object_least: Vec<i32> = object
            .chunks_exact(disparities)
            .filter_map(|row| row.iter().min().map(|&c| i32::from(c)))
            .collect();

        let object_coarse = object.iter().map(|&c| c.div_euclid(COARSE)).collect();

        // No sum over a column, nor a difference of two, may leave 32 bits.
        let ground_least = libm::log(LEAST_MASS) + libm::log(params.sigma_ground_px);
        let least = [
            0,
            object_least.iter().copied().min().unwrap_or(0),
            sky.base.floor() as i32,
            cost_of_ln(-(ground_least + ground_pixel.normaliser)) - 1,
        ]
        .into_iter()
        .min()
        .unwrap_or(0);
        let most = [object_pixel, ground_pixel, sky_pixel]
            .iter()
            .map(|p| p.outlier.max(p.missing))
            .chain([sky_at_top.missing])
            .max()
            .unwrap_or(0);
        let cost_range = i64::from(most) - i64::from(least);
        if cost_range * height as i64 + PRIORS_ROOM > i64::from(i32::MAX) {
            return Err(ParamsError::CostRange {
                range: cost_range,
                rows: height,
            });
        }

        let tolerance = params.ground_tolerance_px;
        let priors = Priors {
            ln_2: cost(0.5),
            ln_range: cost(1.0 / range),
            ground_next: cost(0.3),
            object_next: cost(0.7),
            nearer: cost(params.p_order),
            farther: cost(1.0 - params.p_order - params.p_same_depth),
            same: if params.p_same_depth > 0.0 {
                cost(params.p_same_depth)
            } else {
                IMPOSSIBLE
            },
            flying: cost(params.p_gravity),
            sunken: cost(params.p_below_ground),
            standing: cost((1.0 - params.p_gravity - params.p_below_ground) / (2.0 * tolerance)),
            on_sky: cost(params.p_object_on_sky / (range - params.sky_tolerance_px)),
        };
        let separation = (0..disparities)
            .map(|d| {
                let d = d as f64;
                let depth = if d > 0.0 {
                    d - fb / (fb / d + params.separation_m)
                } else {
                    0.0
                };
                units(depth.max(params.separation_px))
            })
            .collect();
        Ok(Self {
            params: params.clone(),
            camera: *camera,
            height,
            disparities,
            unit,
            object,
            object_coarse,
            missing_rows: object_least.len() - 1 - disparities,
            object_least,
            unit_reciprocal: (1u64 << 40).div_ceil(u64::from(unit)),
            half_step: match params.rounding {
                Rounding::Floor => 0,
                Rounding::Nearest => unit / 2,
            },
            object_pixel,
            ground_pixel,
            sky_pixel,
            sky_missing_at_top: sky_at_top.missing,
            sky,
            cut: (0..height)
                .map(|b| cost(1.0 / (height - b) as f64))
                .collect(),
            separation,
            ground_tolerance: units(tolerance),
            sky_tolerance: units(params.sky_tolerance_px),
            priors,
            log: LogTable::new(unit),
            functions: Functions::new(),
            reciprocals: Reciprocals::new(height),
            cost_range,
        })
    }

    /// The largest measurement, units.
    pub(super) fn largest(&self) -> i32 {
        self.disparities as i32 * self.unit as i32 - 1
    }

    /// The least disparity, px, that pixels of column `u` can't see because the match would lie
    /// outside the right image; the disparity range where that is not looked at.
    pub(super) fn edge(&self, u: usize) -> usize {
        let params = &self.params;
        let centre = u * params.stixel_width + params.stixel_width / 2;
        if centre >= params.unseen_border_px || params.invalid_pixels == InvalidPixels::Zero {
            return self.disparities;
        }
        (centre + 1).min(self.disparities)
    }

    /// The mean of an object in a column of this edge without a measurement, units: the least
    /// that is not seen, or 0 where all is seen.
    pub(super) fn unseen(&self, edge: usize) -> i32 {
        if edge < self.disparities {
            edge as i32 * self.unit as i32
        } else {
            0
        }
    }

    /// Which row of the object table a measurement (or [`MISSING`]) reads in a column of this
    /// edge.
    #[inline]
    pub(super) fn object_row(&self, d: i32, edge: usize) -> usize {
        if d == MISSING {
            return self.missing_rows + edge;
        }
        ((d as u32 * self.params.object_steps_per_px as u32 + self.half_step) / self.unit) as usize
    }

    /// The costs of one row of the object table, one a model disparity.
    #[inline]
    pub(super) fn object_costs(&self, row: usize) -> &[i16] {
        &self.object[row * self.disparities..][..self.disparities]
    }

    /// The same row in coarse costs.
    #[inline]
    pub(super) fn object_coarse(&self, row: usize) -> &[i16] {
        &self.object_coarse[row * self.disparities..][..self.disparities]
    }

    /// The least of them.
    #[inline]
    pub(super) fn object_least(&self, row: usize) -> i32 {
        self.object_least[row]
    }

    /// The mean of measurements, units, rounded down; `unseen` without any.
    #[inline]
    pub(super) fn mean(&self, sum: u64, count: u32, unseen: i32) -> i32 {
        if count == 0 {
            unseen
        } else {
            self.reciprocals.divide(sum, count) as i32
        }
    }

    /// The model disparity of a mean, px.
    #[inline]
    pub(super) fn model(&self, mean: i32) -> usize {
        let steps = (u64::from(mean as u32 + self.half_step) * self.unit_reciprocal) >> 40;
        (steps as usize).min(self.disparities - 1)
    }

    /// ln of a width in units, and a prior's own cost; [`IMPOSSIBLE`] where nothing is left.
    #[inline]
    pub(super) fn spread_over(&self, prior: i32, width: i32) -> i32 {
        match self.log.ln(width) {
            Some(ln) if prior != IMPOSSIBLE => prior + ln,
            _ => IMPOSSIBLE,
        }
    }

    /// Whether the ground line is used as the reference does.
    pub(super) fn reference_road(&self) -> bool {
        self.params.road_model == RoadModel::Reference
    }
}

/// Costs of an object pixel for each step of a measurement and each model (specification 5).
fn object_table(params: &Params, pixel: &PixelCosts, fb: f64, disparities: usize) -> Vec<i16> {
    let range = disparities as f64;
    let steps = params.object_steps_per_px;
    let sigma_at = |d: f64| {
        let spread = d * d * params.object_depth_m / fb;
        (params.sigma_object_px * params.sigma_object_px + spread * spread).sqrt()
    };
    let narrow = |c: i32| c.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    let mut table = Vec::with_capacity((disparities * (steps + 1) + 2) * disparities);
    for step in 0..=disparities * steps {
        let d = step as f64 / steps as f64;
        for n in 0..disparities {
            let n = n as f64;
            let at = match params.object_sigma_of {
                SigmaOf::Measurement => d.min(range - 1.0),
                SigmaOf::Model => n,
            };
            let sigma = sigma_at(at);
            let mass = mass_inside(libm::erf, at, sigma, range);
            let e = (d - n) / sigma;
            if n < params.farthest_object_px {
                table.push(narrow(pixel.outlier));
                continue;
            }
            let gauss = libm::log(mass) + libm::log(sigma) + pixel.normaliser + 0.5 * e * e;
            table.push(narrow(cost_of_ln(-gauss).min(pixel.outlier)));
        }
    }
    for edge in 0..=disparities {
        // What can't be seen is missing for certain.
        let unseen = narrow(cost(P_UNSEEN));
        let cost = |n| {
            if n >= edge {
                unseen
            } else {
                narrow(pixel.missing)
            }
        };
        table.extend((0..disparities).map(cost));
    }
    table
}
