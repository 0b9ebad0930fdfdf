//! Dense disparity from a rectified pair by semi-global matching (Hirschmüller, PAMI 2008) on
//! the centre-symmetric census transform (Spangenberg et al., CAIP 2013).
//!
//! # Numeric contract
//! Everything is whole numbers; there is no order in which sums may be taken differently.
//! [`model`] is this text as plain code, and the definition; every backend gives its bytes.
//! `w x h` is the image size, `D` the number of disparities, `I_L`, `I_R` the images.
//!
//! 1. **Census.** 31 pairs of pixels mirrored through the centre of a window 9 wide and 7 high:
//!    for `k` in 0..=3 and `m` in 0..=8 (0..=3 where `k` = 3), bit `9 k + m` is
//!    `I(x - 4 + m, y - 3 + k) >= I(x + 4 - m, y + 3 - k)`. Pixels outside the image repeat the
//!    nearest pixel of the border.
//! 2. **Cost.** `C(x, y, d)` = number of differing bits of the left word at `(x, y)` and the
//!    right word at `(x - d, y)`, 0..=31. It is [`OUTSIDE_COST`] = 12 for every `d > x` (the match
//!    lies outside the right image), and 31 for every `d` at a masked pixel (which then says nothing
//!    about `d`).
//! 3. **Paths.** For each direction `r` (the predecessor of `p` is `p - r`), with `L` of the
//!    predecessor brought to a minimum of 0 (`L'(d) = L(d) - min L`):
//!    `M_r(p, d) = min(L'(d), L'(d - 1) + P1, L'(d + 1) + P1, P2)`, `L_r(p, d) = C(p, d) + M_r(p, d)`;
//!    a neighbour outside `0..D` is not there; where the predecessor lies outside the image
//!    `M_r = 0`. 4 paths: along and against x and y; 8 paths: the diagonals besides.
//! 4. **P2 follows the image.** `g = |I_L(p) - I_L(p - r)|`;
//!    `P2(g) = max(p2_min, p2 * s / (s + g))` rounded down, `s = p2_half_step`; `s = 0`: `p2`.
//! 5. **Winner.** `S(p, d)` = sum of `L_r(p, d)`; the smallest wins, the smaller `d` among equals.
//!    A winner `d > x` is invalid (its match is cut off by the frame).
//! 6. **Uniqueness** `u` %: invalid when some `d` with `|d - winner| > 1` has
//!    `S(d) * (100 - u) < S(winner) * 100`.
//! 7. **Sub-pixel.** For `0 < d < D - 1` the vertex of the parabola through the winner and its
//!    neighbours, `d + (S(d-1) - S(d+1)) / (2 q)`, `q = S(d-1) - 2 S(d) + S(d+1)`, rounded to
//!    1/16 px, half away from the winner; the winner itself where `q = 0`. The result is a
//!    multiple of 16 in the 1/256 px of a [`crate::frame::Disparity`].
//! 8. **Left-right check.** The right pixel `k` takes the `d` of smallest `S(k + d, y, d)`
//!    (`k + d < w`, not masked; the smaller `d` among equals). The left winner `d` (its sub-pixel
//!    value rounded, half down) is invalid when the right `d` at `x - d` differs from it by more
//!    than `left_right_max_px`.
//! 9. **Median** of each valid pixel over the valid ones of its 3x3 window (cut at the borders):
//!    of `n` sorted values the one at `(n - 1) / 2`. Invalid stays invalid.
//! 10. **Speckles.** Valid pixels that touch by an edge and differ by at most
//!     `speckle_max_step_px` are connected; components of at most `speckle_max_area_px` pixels
//!     become invalid.
//! 11. **Gaps.** In each row, a run of at most `gap_max_px` invalid pixels between two valid ones
//!     that differ by at most `gap_max_step_px` is filled linearly: with `n` = run + 1 and
//!     `t` = 1..n from the first side `a` to the second `b` (in 1/16 px),
//!     `(a (n - t) + b t + n / 2) / n` rounded down. Then the same in each column, on that result.
//! 12. Masked pixels are invalid.
//!
//! The mask is the left image's. A masked left pixel votes for no right pixel; which pixels of
//! the right image are usable is not asked (the same bonnet covers other pixels there).
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod filter;
mod kernel;
pub mod model;
mod simd;

use serde::{Deserialize, Serialize};

use crate::frame::Size;

/// Highest census cost: the number of compared pairs.
pub const MAX_COST: u16 = 31;

/// Cost of a disparity whose match lies outside the right image: below what a bad match costs, so
/// that a pixel whose match is cut off by the frame ends up there, and thus invalid, and not at
/// whatever is least bad inside. On street and KITTI pairs 9 to 16 do about as well. Not a
/// parameter, so that the inner loop works with constants alone.
pub const OUTSIDE_COST: u16 = 12;

/// Parameters of the stereo stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Disparities that are tried, 0 up: 64, 128 or 256 px.
    pub disparities: u16,
    /// Directions of aggregation: 4 or 8.
    pub paths: u16,
    /// Penalty for a change of disparity by 1 px.
    pub p1: u16,
    /// Penalty for a larger change, where the image is flat.
    pub p2: u16,
    /// Least penalty for a larger change, at strong edges.
    pub p2_min: u16,
    /// Grey step at which `p2` is halved; 0 = `p2` everywhere.
    pub p2_half_step: u16,
    /// By how much, in percent, every other disparity must be worse than the winner; 0 = off.
    pub uniqueness_percent: u16,
    /// Whether disparities must agree with those of the right image.
    pub left_right: bool,
    /// Largest difference to the right image's disparity, px.
    pub left_right_max_px: u16,
    /// Whether disparities are refined to 1/16 px.
    pub subpixel: bool,
    /// Whether the 3x3 median is taken.
    pub median: bool,
    /// Largest connected region that is taken for a speckle, pixels; 0 = off.
    pub speckle_max_area_px: u32,
    /// Largest step of disparity inside a region, px.
    pub speckle_max_step_px: u16,
    /// Longest gap in a row or column that is closed, pixels; 0 = off.
    pub gap_max_px: u16,
    /// Largest difference of disparity between the two sides of such a gap, px.
    pub gap_max_step_px: u16,
}

impl Default for Params {
    /// Tuned on the KITTI 2015 pairs (`tests/stereo_accuracy.rs`). A larger speckle area in place
    /// of uniqueness would score the same there, but takes small objects for speckles.
    fn default() -> Self {
        Self {
            disparities: 128,
            paths: 4,
            p1: 15,
            p2: 100,
            p2_min: 18,
            p2_half_step: 12,
            uniqueness_percent: 4,
            left_right: true,
            left_right_max_px: 1,
            subpixel: true,
            median: true,
            speckle_max_area_px: 400,
            speckle_max_step_px: 1,
            gap_max_px: 20,
            gap_max_step_px: 2,
        }
    }
}

/// What is wrong with the parameters of the stereo stage, or with the sizes they meet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// A value outside what the stage can do.
    #[error("stereo.{key} is {found}, expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What it holds.
        found: u32,
        /// What it may hold.
        expected: String,
    },
    /// Images too small or too large.
    #[error("stereo: images of {found}, expected 1x1 to {MAX_SIDE}x{MAX_SIDE}")]
    Size {
        /// The size.
        found: Size,
    },
    /// The mask has another size than the images.
    #[error("stereo: a mask of {found}, expected {expected} as the images")]
    MaskSize {
        /// The mask's size.
        found: Size,
        /// The images' size.
        expected: Size,
    },
}

/// Longest side of an image.
pub const MAX_SIDE: usize = 16_384;

impl Params {
    /// Checks every value.
    ///
    /// # Errors
    /// [`ParamsError::Value`] with key, found and expected.
    pub fn validate(&self) -> Result<(), ParamsError> {
        let check = |good: bool, key, found: u32, expected: String| {
            if good {
                Ok(())
            } else {
                Err(ParamsError::Value {
                    key,
                    found,
                    expected,
                })
            }
        };
        let within = |key, found: u32, low: u32, high: u32| {
            let good = (low..=high).contains(&found);
            check(good, key, found, format!("{low} to {high}"))
        };
        let (d, paths) = (self.disparities, self.paths);
        let good = matches!(d, 64 | 128 | 256);
        check(good, "disparities", d.into(), "64, 128 or 256".into())?;
        let good = matches!(paths, 4 | 8);
        check(good, "paths", paths.into(), "4 or 8".into())?;
        let room = 255 - u32::from(MAX_COST);
        let (p1, p2) = (u32::from(self.p1), u32::from(self.p2));
        within("p1", p1, 0, room / 2)?;
        check(
            p1 <= p2 && p2 <= room - p1,
            "p2",
            p2,
            format!(
                "{p1} to {} (p1 <= p2, and p1 + p2 + {MAX_COST} <= 255)",
                room - p1
            ),
        )?;
        within("p2_half_step", self.p2_half_step.into(), 0, 255)?;
        if self.p2_half_step > 0 {
            let p2_min = u32::from(self.p2_min);
            check(
                (p1..=p2).contains(&p2_min),
                "p2_min",
                p2_min,
                format!("{p1} to {p2} (p1 <= p2_min <= p2)"),
            )?;
        }
        within("uniqueness_percent", self.uniqueness_percent.into(), 0, 99)?;
        within("left_right_max_px", self.left_right_max_px.into(), 0, 255)?;
        within(
            "speckle_max_step_px",
            self.speckle_max_step_px.into(),
            0,
            255,
        )?;
        let longest = MAX_SIDE as u32;
        within("gap_max_px", self.gap_max_px.into(), 0, longest)?;
        within("gap_max_step_px", self.gap_max_step_px.into(), 0, 255)
    }

    /// What every backend refuses.
    fn check_size(&self, size: Size, mask: Option<Size>) -> Result<(), ParamsError> {
        self.validate()?;
        let side = 1..=MAX_SIDE;
        if !side.contains(&size.width) || !side.contains(&size.height) {
            return Err(ParamsError::Size { found: size });
        }
        match mask {
            Some(found) if found != size => Err(ParamsError::MaskSize {
                found,
                expected: size,
            }),
            _ => Ok(()),
        }
    }

    /// P2 by the grey step along a path (rule 4); of validated parameters.
    pub fn p2_table(&self) -> [u8; 256] {
        let (p2, s) = (u32::from(self.p2), u32::from(self.p2_half_step));
        std::array::from_fn(|g| {
            let p2 = if s == 0 {
                p2
            } else {
                (p2 * s / (s + g as u32)).max(self.p2_min.into())
            };
            p2 as u8
        })
    }

    /// The steps `(dx, dy)` of the directions, predecessor to pixel: the rows' two, the two
    /// along columns, then the diagonals.
    pub fn directions(&self) -> &'static [(isize, isize)] {
        const ALL: [(isize, isize); 8] = [
            (1, 0),
            (-1, 0),
            (0, 1),
            (0, -1),
            (1, 1),
            (-1, 1),
            (1, -1),
            (-1, -1),
        ];
        if self.paths == 8 { &ALL } else { &ALL[..4] }
    }
}

/// A rectified pair.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Left image.
    pub left: &'a crate::frame::Image<u8>,
    /// Right image.
    pub right: &'a crate::frame::Image<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Params)) -> String {
        let mut params = Params::default();
        change(&mut params);
        params.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Params::default().validate(), Ok(()));
        assert_eq!(toml::from_str::<Params>("").unwrap(), Params::default());
    }

    #[test]
    fn refusals_name_key_found_and_expected() {
        assert_eq!(
            refusal(|p| p.disparities = 100),
            "stereo.disparities is 100, expected 64, 128 or 256"
        );
        assert_eq!(
            refusal(|p| p.paths = 2),
            "stereo.paths is 2, expected 4 or 8"
        );
        assert_eq!(
            refusal(|p| p.p2 = 10),
            "stereo.p2 is 10, expected 15 to 209 (p1 <= p2, and p1 + p2 + 31 <= 255)"
        );
        assert_eq!(
            refusal(|p| p.p2 = 210),
            "stereo.p2 is 210, expected 15 to 209 (p1 <= p2, and p1 + p2 + 31 <= 255)"
        );
        assert_eq!(
            refusal(|p| p.p2_min = 121),
            "stereo.p2_min is 121, expected 15 to 100 (p1 <= p2_min <= p2)"
        );
        assert_eq!(
            refusal(|p| p.uniqueness_percent = 100),
            "stereo.uniqueness_percent is 100, expected 0 to 99"
        );
        let unknown = toml::from_str::<Params>("disparity = 64").unwrap_err();
        assert!(unknown.to_string().contains("disparity"));
    }

    #[test]
    fn a_plan_refuses_sizes() {
        let new = |w, h, mask: Option<&crate::frame::Mask>| {
            cpu::Plan::new(&Params::default(), Size::new(w, h), mask)
                .err()
                .map(|e| e.to_string())
        };
        assert_eq!(
            new(0, 5, None).unwrap(),
            "stereo: images of 0x5, expected 1x1 to 16384x16384"
        );
        assert_eq!(
            new(5, 4, Some(&crate::frame::Mask::new(4, 5))).unwrap(),
            "stereo: a mask of 4x5, expected 5x4 as the images"
        );
        assert_eq!(new(1, 1, None), None);
    }

    #[test]
    fn p2_falls_with_the_grey_step() {
        let params = Params {
            p2: 120,
            p2_min: 40,
            p2_half_step: 30,
            ..Params::default()
        };
        let table = params.p2_table();
        assert_eq!(
            (table[0], table[30], table[60], table[255]),
            (120, 60, 40, 40)
        );
        let flat = Params {
            p2_half_step: 0,
            ..params
        };
        assert_eq!(flat.p2_table(), [120; 256]);
    }
}
