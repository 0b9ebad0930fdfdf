//! Keypoints and binary descriptors: extrema of the difference of Gaussians (Lowe, IJCV 2004),
//! described by BRIEF-256 (Calonder et al., ECCV 2010) sampled in scale space, with the scale and
//! the angle of the keypoint.
//!
//! # Numeric contract
//! Whole numbers wherever sums could be taken in another order; `f32` with `+ - * / sqrt` in the
//! order written here. Every backend gives the same bytes.
//!
//! 1. **Levels** hold grey values in 1/64 (`u16`). The base of octave `first` is the image, or with
//!    `upsample` the image at half the pixel distance (`first` = -1, `2 w - 1` by `2 h - 1` pixels,
//!    pixel `2 x` is pixel `x`, those between are means; positions need no shift).
//! 2. **Blur** with a Gaussian whose weights are whole numbers of sum 512 ([`tables::weights`]), in
//!    both directions without rounding between:
//!    `(sum over i, j of w_i w_j v(x + i, y + j) + 2^17) >> 18`; pixels outside the image are
//!    reflected about the border's pixels. So a level does not depend on the order of directions.
//!    Level 0 of the first octave has blur `sigma0` (the image itself is taken to have
//!    `input_blur`), level `i` has `sigma0 2^(i / intervals)` and is made from level `i - 1`; level 0
//!    of the next octave is every second pixel of level `intervals`. An octave has
//!    `intervals + 3` levels.
//! 3. **Difference** `D_i = G_(i+1) - G_i`. A candidate is a pixel of `D_1` to `D_intervals`, at least
//!    [`BORDER`] pixels from the border, with `|D|` above half the contrast, and greater (smaller for
//!    negative ones) than its 26 neighbours; a neighbour earlier in the order (layer, y, x) may be
//!    equal, so that a flat top gives one point.
//! 4. **Refinement** ([`extrema::refine`]): Newton steps of one pixel or layer, at most
//!    [`MAX_STEPS`]; gradient and Hessian are whole numbers, the solution is a quotient of
//!    determinants. What leaves the layers or the border, does not come to rest, has too little
//!    contrast or lies on an edge is dropped; what comes to rest at another's pixel is that point.
//! 5. **Selection**: of each cell of `cell_px` pixels the `cell_budget` strongest, then of all the
//!    `max_keypoints` strongest; of equal ones the first in the order (octave, layer, y, x), which is
//!    also the order of the result. `found` is the number before selection.
//! 6. **Orientation** ([`orientation`]): 36 bins of gradient directions, weighted in fixed point,
//!    smoothed; the highest peaks, each a keypoint, in order of direction. Angles are multiples of
//!    1/[`ANGLES`] of a turn.
//! 7. **Descriptor** ([`brief`]): bit `i` tells whether the level of the keypoint is darker at the
//!    first point of pair `i` than at the second.
pub mod brief;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod extrema;
pub mod matcher;
pub mod orientation;
mod paper;
pub mod pyramid;
mod select;
mod simd;
pub mod tables;

use serde::{Deserialize, Serialize};

use crate::frame::Size;

pub(super) use simd::Isa;

/// Pixels at the border of an octave's level where no keypoint is looked for.
pub const BORDER: usize = 5;

/// Newton steps before a candidate is given up.
pub const MAX_STEPS: usize = 5;

/// Angles in a turn.
pub const ANGLES: u16 = 1024;

/// Longest side of an image, px.
pub const MAX_SIDE: usize = 8192;

/// Most octaves.
pub const MAX_OCTAVES: usize = 12;

/// Most intervals in an octave.
pub const MAX_INTERVALS: usize = 5;

/// Most orientations of a point.
pub const MAX_ORIENTATIONS: usize = 4;

/// Which detector and descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Scale space, refined.
    #[default]
    ScaleSpace,
    /// What the report "cu-BRIEF" computes: six blurs of the whole image, extrema with `>=`, upright
    /// pairs in a 9x9 patch of the image itself. For comparison.
    Paper,
}

/// What happens to a keypoint whose descriptor would need pixels outside the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BorderPolicy {
    /// It is left out; [`Features::original`] tells which remain.
    Drop,
    /// Points outside read the nearest pixel of the border.
    #[default]
    Clamp,
}

/// Parameters of detector and descriptor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureParams {
    /// Which detector and descriptor.
    pub mode: Mode,
    /// Whether the first octave has half the pixel distance of the image.
    pub upsample: bool,
    /// Most octaves; 0: as many as the image has room for.
    pub octaves: u8,
    /// Layers an octave, 2 to 5.
    pub intervals: u8,
    /// Blur of an octave's first level, pixels of the octave, 0.8 to 2.
    pub sigma0: f32,
    /// Blur that the image is taken to have, px.
    pub input_blur: f32,
    /// Least contrast of an extremum, as a share of the range of grey values, times `intervals`.
    pub contrast: f32,
    /// Largest ratio of the two curvatures.
    pub edge_ratio: f32,
    /// Most points (each may have several orientations).
    pub max_keypoints: u32,
    /// Side of the cells that share out the points, px; 0: none.
    pub cell_px: u32,
    /// Most points of a cell.
    pub cell_budget: u32,
    /// Whether keypoints have an angle.
    pub oriented: bool,
    /// Most orientations of a point, 1 to 4.
    pub max_orientations: u8,
    /// Whether the descriptor's pattern grows with the keypoint; else it is 48 pixels wide.
    pub scaled: bool,
    /// Keypoints at the border.
    pub border: BorderPolicy,
}

impl Default for FeatureParams {
    /// With `sigma0` 1 the first octave holds the scales that 1.6 and `upsample` find, at a quarter
    /// of the pixels. Correct matches of two KITTI pictures with turned, scaled, tilted, darker copies
    /// (1,000 points each, ratio 0.8): 1.6 2,718, 1.0 4,657, 1.6 with `upsample` 4,975, OpenCV's SIFT
    /// 4,351.
    fn default() -> Self {
        Self {
            mode: Mode::ScaleSpace,
            upsample: false,
            octaves: 0,
            intervals: 3,
            sigma0: 1.0,
            input_blur: 0.5,
            contrast: 0.03,
            edge_ratio: 10.0,
            max_keypoints: 1000,
            cell_px: 0,
            cell_budget: 8,
            oriented: true,
            max_orientations: 2,
            scaled: true,
            border: BorderPolicy::Clamp,
        }
    }
}

/// What is wrong with the parameters of the features, or with the sizes they meet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FeatureError {
    /// A value outside what can be done.
    #[error("logo.features.{key} is {found}, expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What it holds.
        found: f64,
        /// What it may hold.
        expected: &'static str,
    },
    /// Images too small or too large.
    #[error("logo: images of {found}, expected 1x1 to {MAX_SIDE}x{MAX_SIDE}")]
    Size {
        /// The size.
        found: Size,
    },
}

impl FeatureParams {
    /// The detector and descriptor of the report "cu-BRIEF", for comparison.
    pub fn paper() -> Self {
        Self {
            mode: Mode::Paper,
            max_keypoints: 12_000,
            oriented: false,
            max_orientations: 1,
            scaled: false,
            border: BorderPolicy::Drop,
            ..Self::default()
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`FeatureError::Value`] with key, found and expected.
    pub fn validate(&self) -> Result<(), FeatureError> {
        let check = |good: bool, key, found: f64, expected| {
            if good {
                Ok(())
            } else {
                Err(FeatureError::Value {
                    key,
                    found,
                    expected,
                })
            }
        };
        let within = |key, v: f32, low: f32, high: f32, text| {
            check(v >= low && v <= high, key, v.into(), text)
        };
        let n = self.octaves;
        check(n <= 12, "octaves", n.into(), "0 to 12")?;
        let n = self.intervals;
        check((2..=5).contains(&n), "intervals", n.into(), "2 to 5")?;
        within("sigma0", self.sigma0, 0.8, 2.0, "0.8 to 2")?;
        within("input_blur", self.input_blur, 0.0, 0.7, "0 to 0.7")?;
        check(
            !self.upsample || self.sigma0 > 2.0 * self.input_blur,
            "input_blur",
            self.input_blur.into(),
            "less than sigma0, and less than half of it with upsample",
        )?;
        within("contrast", self.contrast, 0.0, 1.0, "0 to 1")?;
        within("edge_ratio", self.edge_ratio, 1.0, 1000.0, "1 to 1000")?;
        let n = self.max_keypoints;
        check(
            (1..=65_536).contains(&n),
            "max_keypoints",
            n.into(),
            "1 to 65536",
        )?;
        let n = self.cell_px;
        check(
            n == 0 || (8..=8192).contains(&n),
            "cell_px",
            n.into(),
            "0 or 8 to 8192",
        )?;
        let n = self.cell_budget;
        check(
            (1..=65_536).contains(&n),
            "cell_budget",
            n.into(),
            "1 to 65536",
        )?;
        let n = self.max_orientations;
        check((1..=4).contains(&n), "max_orientations", n.into(), "1 to 4")
    }

    /// What every backend refuses.
    ///
    /// # Errors
    /// As [`Self::validate`], and for a size that can't be had.
    pub fn check_size(&self, size: Size) -> Result<(), FeatureError> {
        self.validate()?;
        let side = 1..=MAX_SIDE;
        if side.contains(&size.width) && side.contains(&size.height) {
            Ok(())
        } else {
            Err(FeatureError::Size { found: size })
        }
    }

    /// The most keypoints that come out: points times orientations.
    pub fn capacity(&self) -> usize {
        let each = if self.oriented {
            usize::from(self.max_orientations)
        } else {
            1
        };
        self.max_keypoints as usize * each
    }
}

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Left column.
    pub x: usize,
    /// Top row.
    pub y: usize,
    /// Columns and rows.
    pub size: Size,
}

/// A point of the image, with scale and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Keypoint {
    /// Column in pixels of the image; pixel centres at whole numbers.
    pub x: f32,
    /// Row.
    pub y: f32,
    /// Scale: standard deviation of the blur at which it is strongest, px.
    pub sigma: f32,
    /// Direction of the strongest gradients, from x (right) towards y (down), in 1/[`ANGLES`] of a
    /// turn; 0 where keypoints are upright.
    pub angle: u16,
    /// Absolute difference of Gaussians there, in grey values (0 to 255).
    pub response: f32,
    /// Octave: -1 half, 0 the image's, 1 twice the pixel distance of the image, ...
    pub octave: i8,
    /// Layer in the octave, from 1; in mode `paper` from 0.
    pub layer: u8,
    /// 1: darker than its surroundings (`G_(i+1) - G_i > 0`); -1: brighter.
    pub sign: i8,
}

impl Keypoint {
    /// The angle in radians, 0 to 2 pi.
    pub fn radians(&self) -> f32 {
        f32::from(self.angle) * (std::f32::consts::TAU / f32::from(ANGLES))
    }

    /// Cosine and sine of the angle, from `libm`: the same on every processor.
    pub fn direction(&self) -> [f32; 2] {
        let angle = self.radians();
        [libm::cosf(angle), libm::sinf(angle)]
    }
}

/// 256 comparisons: bit `i % 32` of word `i / 32` is comparison `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Descriptor(pub [u32; 8]);

impl Descriptor {
    /// How many bits differ.
    pub fn distance(&self, other: &Self) -> u32 {
        let pairs = self.0.iter().zip(&other.0);
        pairs.map(|(a, b)| (a ^ b).count_ones()).sum()
    }
}

/// What was found in an image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// In the order (octave, layer, y, x, angle).
    pub keypoints: Vec<Keypoint>,
    /// One a keypoint.
    pub descriptors: Vec<Descriptor>,
    /// Which of the keypoints before [`BorderPolicy::Drop`] each is.
    pub original: Vec<u32>,
    /// Points that the detector found.
    pub found: usize,
    /// Points that were kept within the budgets.
    pub kept: usize,
    /// Keypoints of those (several orientations each) before [`BorderPolicy::Drop`].
    pub oriented: usize,
}

impl Features {
    /// Room for what a plan with these parameters can give.
    pub fn new(params: &FeatureParams) -> Self {
        let n = params.capacity();
        Self {
            keypoints: Vec::with_capacity(n),
            descriptors: Vec::with_capacity(n),
            original: Vec::with_capacity(n),
            ..Self::default()
        }
    }

    /// Nothing found; keeps the room.
    pub fn clear(&mut self) {
        self.keypoints.clear();
        self.descriptors.clear();
        self.original.clear();
        (self.found, self.kept, self.oriented) = (0, 0, 0);
    }
}
