//! Region difference on colour (Schroff et al., BMVC 2008; Pianu et al., eq. 6).
//!
//! `f = m(R1, c1) - m(R2, c2)`, `m` the mean or the sum of a channel over a region around
//! `p + (x, y)`. Besides the difference there may be single regions (`f = m(R1, c1)`) and the
//! pixel's row (`f = floor((2 y + 1) 2^15 / height)`, 0 to 65535 from top to bottom).
use serde::{Deserialize, Serialize};

use super::{Feature, INVALID, LARGEST, SMALLEST, Theta, check_range, check_within};
use crate::stage::forest::{
    Corners,
    planes::{InputSpec, MAX_HALF, Needs, Planes, Region as Area},
    random::Words,
};

/// [`Theta::kind`] of a difference of two regions.
pub const DIFFERENCE: u8 = 0;
/// [`Theta::kind`] of a single region.
pub const SINGLE: u8 = 1;
/// [`Theta::kind`] of the row.
pub const ROW: u8 = 2;

/// What is taken of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// Its mean, as eq. 6 has it.
    #[default]
    Mean,
    /// Its sum, which keeps the region's size in the response.
    Sum,
}

/// Options of the region difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Channels of the images.
    pub channels: u8,
    /// Largest offset in x and y, px.
    pub offset_px: i32,
    /// Largest half size of a region, px.
    pub region_px: i32,
    /// Mean or sum.
    pub norm: Norm,
    /// Whether a region is cut at the border; else one that is not wholly inside is invalid.
    pub shrink: bool,
    /// Candidates in 256 that are single regions.
    pub single_share: u32,
    /// Candidates in 256 that are the row.
    pub row_share: u32,
    /// Uniform thresholds of differences: 1/256 of a step (mean) or steps (sum).
    pub thresholds: (i32, i32),
    /// Uniform thresholds of single regions, in the same units.
    pub single_thresholds: (i32, i32),
}

impl Default for Region {
    /// The paper's for MSRC2: offsets to 95 px, half sizes to 12 px, thresholds to 152 of 255.
    fn default() -> Self {
        Self {
            channels: 3,
            offset_px: 95,
            region_px: 12,
            norm: Norm::Mean,
            shrink: false,
            single_share: 0,
            row_share: 0,
            thresholds: (-152 * 256, 152 * 256),
            single_thresholds: (0, 255 * 256),
        }
    }
}

impl Region {
    pub(super) fn validate(&self, input: &InputSpec) -> Result<(), String> {
        if self.channels != input.channels {
            return Err(format!(
                "a feature of {} channels on images of {}",
                self.channels, input.channels
            ));
        }
        check_within("offset_px", self.offset_px.into(), 0, 16_383)?;
        check_within("region_px", self.region_px.into(), 1, MAX_HALF.into())?;
        let shares = i64::from(self.single_share) + i64::from(self.row_share);
        check_within("single_share + row_share", shares, 0, 256)?;
        check_range("thresholds", self.thresholds)?;
        check_range("single_thresholds", self.single_thresholds)
    }
}

/// The ten numbers of two regions, in the paper's order.
pub(super) fn draw_regions(words: &mut Words, offset: i32, half: i32, channels: u8) -> Theta {
    let mut theta = Theta::default();
    for k in 0..2 {
        theta.offsets[2 * k] = words.within(-offset, offset) as i16;
        theta.offsets[2 * k + 1] = words.within(-offset, offset) as i16;
        theta.sizes[2 * k] = words.within(1, half) as u8;
        theta.sizes[2 * k + 1] = words.within(1, half) as u8;
        theta.channels[k] = words.below(channels.into()) as u8;
    }
    theta
}

pub(super) fn check_regions(theta: &Theta, channels: usize) -> Result<(), &'static str> {
    if theta.channels.iter().any(|&c| usize::from(c) >= channels) {
        return Err("a channel that the images do not have");
    }
    if theta
        .sizes
        .iter()
        .any(|&s| s == 0 || i32::from(s) > MAX_HALF)
    {
        return Err("a region of half size 0 or above 127");
    }
    Ok(())
}

/// The mean in 1/256, without the bias; `floor(256 S / n)` is exact in f64 (`256 S < 2^40`,
/// and the quotient, below 2^24, is at least `1 / n > 2^-16` from a whole number or is one).
#[inline(always)]
pub(in crate::stage::forest) fn mean(sum: u32, area: u32) -> i32 {
    (f64::from(sum) * 256.0 / f64::from(area)) as i32
}

/// The difference of two regions that are there.
#[inline(always)]
pub(super) fn difference(
    planes: &Planes,
    norm: Norm,
    one: (usize, Area),
    two: (usize, Area),
) -> i32 {
    let (s1, n1) = (planes.sum(one.0, one.1), one.1.area());
    let (s2, n2) = (planes.sum(two.0, two.1), two.1.area());
    let (b1, b2) = (planes.bias(one.0), planes.bias(two.0));
    match norm {
        Norm::Mean => (mean(s1, n1) - 256 * b1 as i32) - (mean(s2, n2) - 256 * b2 as i32),
        Norm::Sum => {
            let of = |s: u32, b: u32, n: u32| i64::from(s) - i64::from(b) * i64::from(n);
            saturated(of(s1, b1, n1) - of(s2, b2, n2))
        }
    }
}

#[inline(always)]
pub(super) fn single(planes: &Planes, norm: Norm, (c, region): (usize, Area)) -> i32 {
    let (s, n, b) = (planes.sum(c, region), region.area(), planes.bias(c));
    match norm {
        Norm::Mean => mean(s, n) - 256 * b as i32,
        Norm::Sum => saturated(i64::from(s) - i64::from(b) * i64::from(n)),
    }
}

#[inline(always)]
fn saturated(v: i64) -> i32 {
    v.clamp(SMALLEST.into(), LARGEST.into()) as i32
}

#[inline(always)]
pub(super) fn row(planes: &Planes, y: i32) -> i32 {
    ((2 * y + 1) << 15) / (planes.size().height as i32)
}

impl Feature for Region {
    fn needs(&self) -> Needs {
        Needs {
            colour: true,
            depth: false,
            depth_sums: false,
        }
    }

    /// `x1, y1, w1, h1, c1, x2, y2, w2, h2, c2`, then the kind.
    fn draw(&self, words: &mut Words) -> Theta {
        let mut theta = draw_regions(words, self.offset_px, self.region_px, self.channels);
        let at = words.below(256);
        theta.kind = if at < self.row_share {
            ROW
        } else if at < self.row_share + self.single_share {
            SINGLE
        } else {
            DIFFERENCE
        };
        theta
    }

    fn threshold_range(&self, theta: &Theta) -> (i32, i32) {
        match theta.kind {
            ROW => (0, 65_535),
            SINGLE => self.single_thresholds,
            _ => self.thresholds,
        }
    }

    fn check(&self, theta: &Theta, channels: usize) -> Result<(), &'static str> {
        if theta.kind > ROW {
            return Err("a kind that region features do not have");
        }
        check_regions(theta, channels)
    }

    #[inline(always)]
    fn response(&self, planes: &Planes, theta: &Theta, x: i32, y: i32) -> i32 {
        if theta.kind == ROW {
            return row(planes, y);
        }
        let [x1, y1, x2, y2] = theta.offsets.map(i32::from);
        let [w1, h1, w2, h2] = theta.sizes.map(i32::from);
        let [c1, c2] = theta.channels.map(usize::from);
        let Some(one) = planes.region(x + x1, y + y1, w1, h1, self.shrink) else {
            return INVALID;
        };
        if theta.kind == SINGLE {
            return single(planes, self.norm, (c1, one));
        }
        match planes.region(x + x2, y + y2, w2, h2, self.shrink) {
            Some(two) => difference(planes, self.norm, (c1, one), (c2, two)),
            None => INVALID,
        }
    }

    fn corners(&self, planes: &Planes, theta: &Theta) -> Option<Corners> {
        let [x1, y1, x2, y2] = theta.offsets.map(i32::from);
        let [w1, h1, w2, h2] = theta.sizes.map(i32::from);
        let [c1, c2] = theta.channels.map(usize::from);
        let two = (theta.kind == DIFFERENCE).then_some(([x2, y2], [w2, h2], c2));
        if theta.kind == ROW {
            return None;
        }
        let means = self.norm == Norm::Mean;
        let corners = Corners::new(planes, means, ([x1, y1], [w1, h1], c1), two)?;
        Some(if self.shrink {
            corners
        } else {
            corners.or_invalid()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{Image, Rgb},
        stage::forest::{
            planes::{Colour, Pixels, PlaneBuilder},
            random::{Purpose, Seed},
        },
    };

    fn picture() -> Rgb {
        Image::from_fn(40, 31, |x, y| {
            [(x * 6) as u8, (y * 8) as u8, (x * y * 37 % 251) as u8]
        })
    }

    fn planes(spec: &InputSpec) -> Planes {
        let picture = picture();
        let mut planes = Planes::new(picture.size(), spec, Region::default().needs());
        PlaneBuilder::new(spec).fill(&mut planes, Pixels::Rgb(&picture), false);
        planes
    }

    /// Eq. 6, pixel by pixel.
    fn plain(feature: &Region, theta: &Theta, x: i32, y: i32) -> i32 {
        let picture = picture();
        let of = |k: usize| -> Option<(i64, i64)> {
            let (a, b) = (
                x + i32::from(theta.offsets[2 * k]),
                y + i32::from(theta.offsets[2 * k + 1]),
            );
            let (w, h) = (
                i32::from(theta.sizes[2 * k]),
                i32::from(theta.sizes[2 * k + 1]),
            );
            let (mut sum, mut n) = (0i64, 0i64);
            for v in b - h..=b + h {
                for u in a - w..=a + w {
                    let inside = (0..40).contains(&u) && (0..31).contains(&v);
                    if !inside && !feature.shrink {
                        return None;
                    }
                    if inside && u > a - w && v > b - h {
                        let pixel = picture.get(u as usize, v as usize);
                        sum += i64::from(pixel[usize::from(theta.channels[k])]);
                        n += 1;
                    }
                }
            }
            (n > 0).then_some((sum, n))
        };
        let value = |(sum, n): (i64, i64)| match feature.norm {
            Norm::Mean => 256 * sum / n,
            Norm::Sum => sum,
        };
        match (of(0), of(1)) {
            _ if theta.kind == ROW => (2 * y + 1) * 32_768 / 31,
            (Some(one), _) if theta.kind == SINGLE => value(one) as i32,
            (Some(one), Some(two)) => (value(one) - value(two)) as i32,
            _ => INVALID,
        }
    }

    #[test]
    fn responses_are_those_of_the_formula() {
        let spec = InputSpec::default();
        let planes = planes(&spec);
        let mut kinds = [0; 3];
        let mut invalid = 0;
        for (norm, shrink) in [
            (Norm::Mean, false),
            (Norm::Sum, false),
            (Norm::Mean, true),
            (Norm::Sum, true),
        ] {
            let feature = Region {
                offset_px: 12,
                region_px: 5,
                norm,
                shrink,
                single_share: 64,
                row_share: 32,
                ..Region::default()
            };
            for f in 0..60 {
                let mut words = Seed::default().stream(Purpose::Feature, 0, 1, f);
                let theta = feature.draw(&mut words);
                assert_eq!(feature.check(&theta, 3), Ok(()));
                kinds[usize::from(theta.kind)] += 1;
                for (x, y) in [(0, 0), (39, 30), (20, 15), (11, 13), (25, 20)] {
                    let response = feature.response(&planes, &theta, x, y);
                    assert_eq!(response, plain(&feature, &theta, x, y), "{theta:?} {x},{y}");
                    invalid += u32::from(response == INVALID);
                }
            }
        }
        assert!(kinds.iter().all(|&n| n > 5) && invalid > 100);
    }

    #[test]
    fn the_bias_of_lab_is_taken_off() {
        let spec = InputSpec {
            colour: Colour::Lab,
            ..InputSpec::default()
        };
        let picture = Image::filled(20, 20, [90; 3]);
        let mut planes = Planes::new(picture.size(), &spec, Region::default().needs());
        PlaneBuilder::new(&spec).fill(&mut planes, Pixels::Rgb(&picture), false);
        for norm in [Norm::Mean, Norm::Sum] {
            let feature = Region {
                norm,
                ..Region::default()
            };
            // a over 4 pixels, b over 16: grey has neither.
            let theta = Theta {
                sizes: [1, 1, 2, 2],
                channels: [1, 2],
                ..Theta::default()
            };
            assert_eq!(feature.response(&planes, &theta, 9, 9), 0);
        }
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let feature = Region::default();
        let good = Theta {
            sizes: [1; 4],
            ..Theta::default()
        };
        assert_eq!(feature.check(&good, 1), Ok(()));
        for bad in [
            Theta { kind: 3, ..good },
            Theta {
                sizes: [1, 0, 1, 1],
                ..good
            },
            Theta {
                sizes: [1, 1, 128, 1],
                ..good
            },
            Theta {
                channels: [0, 1],
                ..good
            },
        ] {
            assert!(feature.check(&bad, 1).is_err(), "{bad:?}");
        }
    }
}
