//! The reference, and the backend where there is no GPU.
use rayon::prelude::*;

use super::{
    Params, ParamsError,
    geometry::Line,
    track::{Fit, Tracker},
};
use crate::{
    frame::{Camera, Disparity, INVALID, Mask, Road, RoadOrigin, Size},
    stage::{
        Stage,
        state::{StateError, StateReader, StateWriter},
    },
};

/// Lines are fixed point: 1/65536 px.
pub(super) const ONE: f64 = 65536.0;
/// A bin is 1/4 px: 64 units of a disparity, 2^14 units of a line.
const BIN_SHIFT: u32 = 6;
const LINE_BIN_SHIFT: u32 = 14;
const BINS_PER_PX: usize = 4;
/// The grid's step doubles from 1/4 px until there are no more candidates than this.
const MAX_CANDIDATES: usize = 12_000;
/// About as many rows are looked at in the search.
const SEARCH_ROWS: usize = 96;

/// `slope * row + offset`, in 1/65536 px.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    slope: i64,
    offset: i64,
}

impl Candidate {
    fn new(line: &Line) -> Self {
        Self {
            slope: (line.slope * ONE) as i64,
            offset: (-line.slope * line.horizon * ONE) as i64,
        }
    }

    fn at(self, row: usize) -> i64 {
        self.slope * row as i64 + self.offset
    }
}

/// Candidates of one slope: offsets `first, first + step, ...`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fan {
    pub(super) slope: i64,
    pub(super) first: i64,
    pub(super) count: u32,
}

/// What speaks for and against a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Votes {
    /// Pixels in the band, limited per row.
    inside: i64,
    /// Pixels below the ground, limited per row.
    below: i64,
    /// Rows crossed.
    rows: i64,
    /// Rows crossed that show ground.
    ground_rows: i64,
}

impl Votes {
    fn score(&self) -> i64 {
        2 * self.inside - self.below
    }
}

/// The road stage's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    size: Size,
    camera: Camera,
    params: Params,
    mask: Option<Mask>,
    pub(super) fixed: Option<Road>,
    pub(super) bins: usize,
    /// Per row `bins + 1` prefix sums: pixels below the bin in the upper half, the sum of their
    /// disparities in the lower (65,535 pixels of less than 65,535 stay below 2^32).
    sums: Vec<u64>,
    pub(super) fans: Vec<Fan>,
    pub(super) step: i64,
    /// [`Params::inlier_ratio`] in 1/65536.
    pub(super) inlier_ratio: i64,
    /// What one row may say at most, and how many pixels at least make it a row with ground
    /// (besides a sixteenth of its valid ones, more than evenly spread noise has in the band).
    pub(super) cap: i64,
    pub(super) ground: i64,
    pub(super) tracker: Tracker,
}

impl Plan {
    /// A plan for disparities of `size` below `disparities` px; pixels where `mask` is 0 are
    /// never looked at.
    ///
    /// # Errors
    /// When a parameter, the camera or a size is out of range.
    pub fn new(
        params: &Params,
        size: Size,
        camera: &Camera,
        disparities: usize,
        mask: Option<&Mask>,
    ) -> Result<Self, ParamsError> {
        params.validate()?;
        let limit = 1..=65535;
        if !limit.contains(&size.width) || !limit.contains(&size.height) {
            return Err(ParamsError::Size(size));
        }
        if !(1..=256).contains(&disparities) {
            return Err(ParamsError::Disparities(disparities));
        }
        check_camera(camera)?;
        if let Some(mask) = mask
            && mask.size() != size
        {
            return Err(ParamsError::Mask {
                mask: mask.size(),
                image: size,
            });
        }
        let fixed = params.fixed.map(|f| {
            Line {
                slope: f.slope,
                horizon: f.horizon_row,
            }
            .road(camera, 1.0, RoadOrigin::Fixed)
        });
        let bins = disparities * BINS_PER_PX;
        let (fans, step) = if fixed.is_some() {
            (Vec::new(), 1)
        } else {
            grid(params, size, camera)
        };
        let sums = if fixed.is_some() {
            Vec::new()
        } else {
            vec![0; size.height * (bins + 1)]
        };
        Ok(Self {
            size,
            camera: *camera,
            params: params.clone(),
            mask: mask.cloned(),
            fixed,
            bins,
            sums,
            fans,
            step,
            inlier_ratio: (params.inlier_ratio * ONE) as i64,
            cap: (size.width as i64 / 2).max(1),
            ground: (size.width as i64 / 256).max(1),
            tracker: Tracker::new(params, camera),
        })
    }

    /// From one row that the search looks at to the next.
    pub(super) fn every(&self) -> usize {
        (self.size.height / SEARCH_ROWS).max(1)
    }

    fn fill(&mut self, disparity: &Disparity) {
        let mask = self.mask.as_ref();
        let bins = self.bins;
        self.sums
            .par_chunks_mut(bins + 1)
            .with_min_len(8)
            .enumerate()
            .for_each(|(y, sums)| {
                sums.fill(0);
                let row = disparity.row(y);
                match mask {
                    None => row.iter().for_each(|&d| count(sums, d)),
                    Some(mask) => row.iter().zip(mask.row(y)).for_each(|(&d, &m)| {
                        if m != 0 {
                            count(sums, d);
                        }
                    }),
                }
                let mut sum = 0;
                for s in sums {
                    sum += *s;
                    *s = sum;
                }
            });
    }

    /// Prefix sums of a row.
    fn row(&self, y: usize) -> &[u64] {
        &self.sums[y * (self.bins + 1)..][..self.bins + 1]
    }

    /// Rows that a line crosses in the image between the least disparity and the range's end.
    fn crossed(&self, line: Candidate) -> (usize, usize) {
        let least = (self.params.min_disparity_px * ONE) as i64;
        let most = (self.bins as i64) << LINE_BIN_SHIFT;
        let h = self.size.height as i64;
        if line.slope <= 0 {
            return (0, 0);
        }
        let first_at = |d: i64| (d - line.offset + line.slope - 1).div_euclid(line.slope);
        let (a, b) = (first_at(least).clamp(0, h), first_at(most).clamp(0, h));
        (a as usize, b.max(a) as usize)
    }

    /// Count (upper half) and sum (lower half) of the pixels within reach of the line's `d`, and
    /// the count clearly below the ground: by a quarter of `d` and twice `least`. (Parking lanes
    /// and a crowned road lie lower than the lane by a tenth or more, and don't speak against.)
    #[inline]
    fn band(&self, row: &[u64], d: i64, least: i64, ratio: i64) -> (u64, i64) {
        let reach = least + ((d * ratio) >> 16);
        let bins = self.bins as i64;
        let bin = |d: i64| ((d >> LINE_BIN_SHIFT).clamp(0, bins)) as usize;
        let inside = row[bin(d + reach + (1 << (LINE_BIN_SHIFT - 1)))]
            - row[bin(d - reach + (1 << (LINE_BIN_SHIFT - 1)))];
        (inside, (row[bin(d - d / 4 - 2 * least)] >> 32) as i64)
    }

    fn votes(&self, line: Candidate, reach: i64, every: usize) -> Votes {
        let (a, b) = self.crossed(line);
        let mut v = Votes::default();
        let mut y = a.div_ceil(every) * every;
        while y < b {
            let row = self.row(y);
            let (inside, below) = self.band(row, line.at(y), reach, self.inlier_ratio);
            let inside = (inside >> 32) as i64;
            v.inside += inside.min(self.cap);
            v.below += below.min(self.cap);
            v.rows += 1;
            let valid = (row[self.bins] >> 32) as i64;
            v.ground_rows += i64::from(inside >= self.ground && 16 * inside >= valid);
            y += every;
        }
        v
    }

    /// The best line of the grid.
    fn search(&self, reach: i64, every: usize) -> Option<Candidate> {
        let best = self
            .fans
            .par_iter()
            .with_min_len(4)
            .enumerate()
            .map(|(i, fan)| {
                let mut best = (0, 0, 0);
                for j in 0..fan.count {
                    let line = Candidate {
                        slope: fan.slope,
                        offset: fan.first + i64::from(j) * self.step,
                    };
                    let score = self.votes(line, reach, every).score();
                    if score > best.0 {
                        best = (score, i, j);
                    }
                }
                best
            })
            .reduce(
                || (0, usize::MAX, 0),
                |a, b| {
                    // Ties go to the first line, whatever the order of reduction.
                    if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) {
                        b
                    } else {
                        a
                    }
                },
            );
        (best.0 > 0).then(|| {
            let fan = &self.fans[best.1];
            Candidate {
                slope: fan.slope,
                offset: fan.first + i64::from(best.2) * self.step,
            }
        })
    }

    /// Least squares on the inliers of a line.
    fn refine(&self, line: Candidate, reach: i64, ratio: i64) -> Option<Refined> {
        let (a, b) = self.crossed(line);
        let (mut w, mut wr, mut wrr, mut wd, mut wrd) = (0i64, 0i64, 0i64, 0i64, 0i64);
        for y in a..b {
            let (inside, _) = self.band(self.row(y), line.at(y), reach, ratio);
            let n = (inside >> 32) as i64;
            if n == 0 {
                continue;
            }
            let weight = n.min(self.cap);
            let d = (weight * (inside & 0xFFFF_FFFF) as i64 + n / 2) / n;
            let r = y as i64;
            w += weight;
            wr += weight * r;
            wrr += weight * r * r;
            wd += d;
            wrd += d * r;
        }
        let wide = |a: i64, b: i64, c: i64, d: i64| {
            i128::from(a) * i128::from(b) - i128::from(c) * i128::from(d)
        };
        let det = wide(w, wrr, wr, wr);
        if det <= 0 {
            return None;
        }
        let slope = wide(w, wrd, wr, wd) as f64 / det as f64 / 256.0;
        let mean_row = wr as f64 / w as f64;
        let mean_px = wd as f64 / w as f64 / 256.0;
        if !(1e-6..=1e3).contains(&slope) {
            return None;
        }
        let variance = det as f64 / (w as f64 * w as f64);
        Some(Refined {
            line: Line {
                slope,
                horizon: mean_row - mean_px / slope,
            },
            mean_row,
            mean_px,
            spread: slope * variance.sqrt(),
        })
    }

    fn measure(&self) -> Option<Fit> {
        let every = self.every();
        let inlier = (self.params.inlier_px * ONE) as i64;
        let wide = inlier + self.step / 2;
        let mut line = self.search(wide, every)?;
        if let Some(tracked) = self.tracker.line() {
            let tracked = Candidate::new(&tracked);
            let score = |c| self.votes(c, wide, every).score();
            if score(tracked) * 8 >= score(line) * 7 {
                line = tracked;
            }
        }
        let mut refined = self.refine(line, wide, self.inlier_ratio)?;
        // Pavements, a kerb higher, are inside the full band far away and pull the line up there.
        let full = (inlier, self.inlier_ratio);
        let narrow = (inlier / 2, self.inlier_ratio / 4);
        for (least, ratio) in [full, full, narrow, narrow, narrow] {
            refined = self.refine(Candidate::new(&refined.line), least, ratio)?;
        }
        self.judge(&refined, inlier)
    }

    fn judge(&self, refined: &Refined, inlier: i64) -> Option<Fit> {
        let p = &self.params;
        let line = refined.line;
        let pitch = super::geometry::atan(line.tan_pitch(&self.camera));
        let height = line.height_m(&self.camera);
        let votes = self.votes(Candidate::new(&line), inlier, 1);
        let support = votes.ground_rows as f64 / votes.rows.max(1) as f64;
        let good = (p.min_camera_height_m..=p.max_camera_height_m).contains(&height)
            && pitch.abs() <= p.max_pitch_rad
            && support >= p.min_support
            && votes.score() > 0
            // A wall fills the band evenly: 0.58 of the tolerance.
            && refined.spread >= 2.0 * (p.inlier_px + p.inlier_ratio * refined.mean_px);
        good.then(|| Fit {
            line,
            mean_row: refined.mean_row,
            mean_px: refined.mean_px,
            confidence: (2.0 * support).min(1.0)
                * (votes.inside as f64 / (votes.inside + votes.below) as f64),
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Refined {
    line: Line,
    mean_row: f64,
    mean_px: f64,
    /// Standard deviation of the inliers' disparities along the line, px.
    spread: f64,
}

#[inline]
fn count(sums: &mut [u64], d: u16) {
    // INVALID lies beyond every range but the widest, whose last bin it would fall into.
    let k = usize::from(d >> BIN_SHIFT) + 1;
    if d != INVALID && k < sums.len() {
        sums[k] += (1 << 32) | u64::from(d);
    }
}

fn check_camera(camera: &Camera) -> Result<(), ParamsError> {
    let check = |key, found: f64, ok: bool, expected| {
        if found.is_finite() && ok {
            Ok(())
        } else {
            Err(ParamsError::Camera {
                key,
                found,
                expected,
            })
        }
    };
    let f = camera.focal_px;
    let b = camera.baseline_m;
    check(
        "focal_px",
        f,
        Camera::FOCAL_PX.contains(&f),
        "a length of 1 to 1000000 px",
    )?;
    check(
        "baseline_m",
        b,
        Camera::BASELINE_M.contains(&b),
        "a length of 0.0001 to 100 m",
    )?;
    check(
        "cy",
        camera.cy,
        Camera::PRINCIPAL_PX.contains(&camera.cy),
        "a row of -1000000 to 1000000",
    )
}

/// Lines of plausible height and pitch, at steps that are as fine as the limit on candidates
/// lets them be: fans of one slope, and the step of their offsets.
fn grid(params: &Params, size: Size, camera: &Camera) -> (Vec<Fan>, i64) {
    let tan = libm::tan(params.max_pitch_rad);
    let steepest = camera.baseline_m / params.min_camera_height_m;
    let flattest = camera.baseline_m / params.max_camera_height_m * libm::cos(params.max_pitch_rad);
    // Half the way that the slope's error acts over: from the principal row to the last.
    let below = (size.height as f64 - 1.0 - camera.cy).clamp(8.0, size.height as f64 + 8.0);
    let mut step = 0.25;
    loop {
        let slope_step = step / below;
        let slopes = libm::ceil((steepest - flattest) / slope_step) + 1.0;
        // d at the principal row is slope * f * tan(pitch).
        let offsets = |slope: f64| libm::ceil(2.0 * slope * camera.focal_px * tan / step) + 1.0;
        let mean = offsets((steepest + flattest) / 2.0);
        if slopes * mean > MAX_CANDIDATES as f64 {
            step *= 2.0;
            continue;
        }
        let fans = (0..slopes as usize)
            .map(|i| {
                let slope = flattest + i as f64 * slope_step;
                Fan {
                    slope: (slope * ONE) as i64,
                    first: (-slope * (camera.focal_px * tan + camera.cy) * ONE) as i64,
                    count: offsets(slope) as u32,
                }
            })
            .collect();
        return (fans, (step * ONE) as i64);
    }
}

impl Stage for Plan {
    type Input<'a> = &'a Disparity;
    type Output = Road;

    fn run(&mut self, disparity: &Disparity, road: &mut Road) {
        assert_eq!(disparity.size(), self.size, "disparity of another size");
        if let Some(fixed) = self.fixed {
            *road = fixed;
            return;
        }
        self.fill(disparity);
        let fit = self.measure();
        *road = self.tracker.update(fit);
    }

    fn reset(&mut self) {
        self.tracker.reset();
    }

    fn save(&self, to: &mut StateWriter<'_>) {
        to.shape(STATE, None, self.size);
        self.tracker.save(to);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.reset();
        from.shape(STATE, None, self.size)?;
        self.tracker.load(from)
    }
}

/// Goes up with every change of a saved state.
pub(super) const STATE: u8 = 1;

#[cfg(test)]
mod tests;
