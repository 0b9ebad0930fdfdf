//! RGB-D region difference (Stückler et al., 2012): offsets and regions shrink with distance.
//!
//! With `z` the depth of the pixel and `Z` the reference depth, in steps: offsets become
//! `trunc(x Z / z)`, half sizes `trunc(w Z / z)`, brought into 1 to 127. A candidate compares
//! either colours, as [`super::region`] does, or mean depths: the sum of the depths that are
//! there over their number, in 1/256 of a step; a region without any is invalid. Where the pixel
//! itself has no depth everything is invalid, the row excepted.
use serde::{Deserialize, Serialize};

use super::{
    Feature, INVALID, Norm, Theta, check_range, check_within,
    region::{self, ROW, SINGLE, draw_regions},
};
use crate::stage::forest::{
    planes::{InputSpec, MAX_HALF, Needs, Planes, Region as Area},
    random::Words,
};

/// [`Theta::kind`] of a difference of two regions' depths; below it are those of
/// [`super::region`].
pub const DEPTH: u8 = 3;

/// Options of the RGB-D region difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rgbd {
    /// Channels of the images.
    pub channels: u8,
    /// Largest offset in x and y at the reference depth, px.
    pub offset_px: i32,
    /// Largest half size of a region at the reference depth, px.
    pub region_px: i32,
    /// The reference depth, steps.
    pub reference: i32,
    /// Mean or sum of colours; of depths it is always the mean.
    pub norm: Norm,
    /// Whether a region is cut at the border; else one that is not wholly inside is invalid.
    pub shrink: bool,
    /// Candidates in 256 that compare depths.
    pub depth_share: u32,
    /// Candidates in 256 that are single regions of colour.
    pub single_share: u32,
    /// Candidates in 256 that are the row.
    pub row_share: u32,
    /// Uniform thresholds of colour differences: 1/256 of a step (mean) or steps (sum).
    pub thresholds: (i32, i32),
    /// Uniform thresholds of single regions, in the same units.
    pub single_thresholds: (i32, i32),
    /// Uniform thresholds of differences of depth, 1/256 of a step of depth.
    pub depth_thresholds: (i32, i32),
}

impl Default for Rgbd {
    /// The paper's for NYU Depth v2, half of the candidates on depth.
    fn default() -> Self {
        Self {
            channels: 3,
            offset_px: 111,
            region_px: 3,
            reference: 1000,
            norm: Norm::Mean,
            shrink: false,
            depth_share: 128,
            single_share: 0,
            row_share: 0,
            thresholds: (-267 * 256, 267 * 256),
            single_thresholds: (0, 255 * 256),
            depth_thresholds: (-267 * 256, 267 * 256),
        }
    }
}

impl Rgbd {
    pub(super) fn validate(&self, input: &InputSpec) -> Result<(), String> {
        if self.channels != input.channels {
            return Err(format!(
                "a feature of {} channels on images of {}",
                self.channels, input.channels
            ));
        }
        check_within("offset_px", self.offset_px.into(), 0, 16_383)?;
        check_within("region_px", self.region_px.into(), 1, MAX_HALF.into())?;
        // The product with an offset stays below 2^30.
        check_within("reference", self.reference.into(), 1, 65_535)?;
        let shares =
            i64::from(self.depth_share) + i64::from(self.single_share) + i64::from(self.row_share);
        check_within("depth_share + single_share + row_share", shares, 0, 256)?;
        check_range("thresholds", self.thresholds)?;
        check_range("single_thresholds", self.single_thresholds)?;
        check_range("depth_thresholds", self.depth_thresholds)
    }

    /// Region `k` of a candidate around a pixel of depth `z`.
    #[inline(always)]
    fn region(
        &self,
        planes: &Planes,
        theta: &Theta,
        k: usize,
        x: i32,
        y: i32,
        z: i32,
    ) -> Option<Area> {
        // Exact: the product is below 2^30, and a quotient that is not whole is at least 2^-16
        // away from one that is. Quicker than whole numbers' division, which has no vectors.
        let (reference, z) = (f64::from(self.reference), f64::from(z));
        let scaled = |v: i32| (f64::from(v) * reference / z) as i32;
        let half = |v: u8| scaled(v.into()).clamp(1, MAX_HALF);
        planes.region(
            x + scaled(theta.offsets[2 * k].into()),
            y + scaled(theta.offsets[2 * k + 1].into()),
            half(theta.sizes[2 * k]),
            half(theta.sizes[2 * k + 1]),
            self.shrink,
        )
    }
}

/// Mean depth in 1/256 of a step.
#[inline(always)]
fn mean_depth(planes: &Planes, region: Area) -> Option<i32> {
    let (sum, count) = planes.depth_sum(region);
    (count > 0).then(|| region::mean(sum, count))
}

impl Feature for Rgbd {
    fn needs(&self) -> Needs {
        Needs {
            colour: self.depth_share < 256,
            depth: true,
            depth_sums: self.depth_share > 0,
        }
    }

    /// `x1, y1, w1, h1, c1, x2, y2, w2, h2, c2`, then the kind.
    fn draw(&self, words: &mut Words) -> Theta {
        let mut theta = draw_regions(words, self.offset_px, self.region_px, self.channels);
        let at = words.below(256);
        let (depth, row, single) = (self.depth_share, self.row_share, self.single_share);
        theta.kind = if at < depth {
            DEPTH
        } else if at < depth + row {
            ROW
        } else if at < depth + row + single {
            SINGLE
        } else {
            region::DIFFERENCE
        };
        theta
    }

    fn threshold_range(&self, theta: &Theta) -> (i32, i32) {
        match theta.kind {
            DEPTH => self.depth_thresholds,
            ROW => (0, 65_535),
            SINGLE => self.single_thresholds,
            _ => self.thresholds,
        }
    }

    fn check(&self, theta: &Theta, channels: usize) -> Result<(), &'static str> {
        if theta.kind > DEPTH {
            return Err("a kind that RGB-D features do not have");
        }
        let needs = self.needs();
        if (theta.kind == DEPTH && !needs.depth_sums) || (theta.kind < ROW && !needs.colour) {
            return Err("a kind that its options exclude");
        }
        if theta.offsets.iter().any(|v| v.unsigned_abs() > 16_383) {
            return Err("an offset above 16383 px");
        }
        region::check_regions(theta, channels)
    }

    #[inline(always)]
    fn response(&self, planes: &Planes, theta: &Theta, x: i32, y: i32) -> i32 {
        if theta.kind == ROW {
            return region::row(planes, y);
        }
        let z = i32::from(planes.depth(x, y));
        if z == 0 {
            return INVALID;
        }
        let Some(one) = self.region(planes, theta, 0, x, y, z) else {
            return INVALID;
        };
        let [c1, c2] = theta.channels.map(usize::from);
        if theta.kind == SINGLE {
            return region::single(planes, self.norm, (c1, one));
        }
        let Some(two) = self.region(planes, theta, 1, x, y, z) else {
            return INVALID;
        };
        if theta.kind == DEPTH {
            return match (mean_depth(planes, one), mean_depth(planes, two)) {
                (Some(a), Some(b)) => a - b,
                _ => INVALID,
            };
        }
        region::difference(planes, self.norm, (c1, one), (c2, two))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::Image,
        stage::forest::planes::{Pixels, PlaneBuilder},
    };

    /// Depth is 2 m left of column 20, 4 m right of it, and missing in columns 10 to 12.
    fn planes() -> Planes {
        let spec = InputSpec::default();
        let mut planes = Planes::new(
            crate::frame::Size::new(40, 30),
            &spec,
            Rgbd::default().needs(),
        );
        let mut builder = PlaneBuilder::new(&spec);
        let picture = Image::from_fn(40, 30, |x, _| [(x * 5) as u8; 3]);
        builder.fill(&mut planes, Pixels::Rgb(&picture), false);
        builder.fill_depth(
            &mut planes,
            |x, _| match x {
                10..=12 => 0,
                x if x < 20 => 2000,
                _ => 4000,
            },
            false,
        );
        planes
    }

    #[test]
    fn offsets_and_regions_shrink_with_depth() {
        let (feature, planes) = (Rgbd::default(), planes());
        let depth = Theta {
            // At 2 m: x + 9 and x - 1, regions of half size 1.
            offsets: [18, 0, -3, 0],
            sizes: [3, 3, 1, 1],
            kind: DEPTH,
            ..Theta::default()
        };
        assert_eq!(feature.response(&planes, &depth, 15, 15), 2000 * 256);
        // (4..=5) and (12..=13): one column of the latter has depth.
        assert_eq!(
            feature.response(
                &planes,
                &Theta {
                    offsets: [16, 0, 0, 0],
                    ..depth
                },
                5,
                15
            ),
            0
        );
        // (10..=11): none.
        assert_eq!(
            feature.response(
                &planes,
                &Theta {
                    offsets: [12, 0, 0, 0],
                    ..depth
                },
                4,
                15
            ),
            INVALID
        );
        // The pixel itself has none.
        assert_eq!(feature.response(&planes, &depth, 11, 15), INVALID);
        // Toward zero: -3 / 2 is -1, and colour likewise.
        let colour = Theta { kind: 0, ..depth };
        let mean = |x: i32| 256 * (5 * (x + x + 1)) / 2;
        assert_eq!(
            feature.response(&planes, &colour, 15, 15),
            mean(24) - mean(14)
        );
        let row = Theta { kind: ROW, ..depth };
        assert_eq!(feature.response(&planes, &row, 11, 0), 32_768 / 30);
    }
}
