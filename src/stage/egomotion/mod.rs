//! Whether the camera stands, shakes or drives, from its pictures; and, while it shakes, the
//! homography that takes a pixel of this frame to the one before.
//!
//! # The numeric contract
//! 1. **Pyramid.** 8-bit grey (colour by [`grey_of`](crate::picture::grey_of), 16 bits by
//!    [`Params::grey16_shift`]), then up to five levels, each the rounded mean of 2x2 pixels of
//!    the one before, while both sides have at least 16. Borders are repeated.
//! 2. **Corners.** Of each cell of 32x24 px (a multiple of it where that makes more than 1,024
//!    cells) the pixel at half size with the largest determinant over trace of the structure
//!    tensor of 5x5 px (Noble's measure; sums are exact integers, the quotient is `f32`), at
//!    least [`Params::min_texture`], then the upper, then the left one. With a mask, masked pixels
//!    are 128 in the first level, and no corner lies within 7 px of one, in columns and in rows.
//! 3. **Tracks.** Each corner is followed into the frame before by pyramidal Lucas-Kanade
//!    (Bouguet) with windows of 8x8 px, whose template lies on whole pixels. Displacements are
//!    whole 1/128 px, interpolated grey is in 1/16; sums are exact integers, a step of them is
//!    `f32` in a fixed order. Each window has a gain and an offset of its own, so that exposure
//!    may change. A point counts when the correlation of its windows is high enough and it is
//!    found back from there.
//! 4. **Homography.** [`maths::homography`](crate::maths::homography) over all points.
//! 5. **State**, by whole numbers alone. A frame by itself says
//!
//!    | evidence | when, in this order |
//!    |---|---|
//!    | blind | fewer than [`Params::min_points`] corners |
//!    | lost | fewer points than that, or than [`Params::lost_share`] of the corners, were found in the frame before |
//!    | still | half of the points moved at most [`Params::still_px`] ([`Params::stay_px`] when it stood still before), and their mean does not add up to [`Params::creep_px`] |
//!    | small | the homography explains [`Params::small_motion_share`] of the points |
//!    | crowded | [`Params::standing_share`] of the points stand still: a standing camera and much traffic |
//!    | shaky | the homography explains half of the points, and what it moves does not add up to [`Params::sway_ratio`]: a shaken camera and some traffic |
//!    | driving | else |
//!
//!    and the states follow from it so:
//!
//!    | before | blind | lost | still | small | crowded | shaky | driving |
//!    |---|---|---|---|---|---|---|---|
//!    | unknown | unknown | unknown | still | small motion | still | driving | driving |
//!    | still | held | unknown | still | small motion | still | small motion | the second in a row |
//!    | small motion | held | unknown | after some | small motion | small motion | small motion | the second in a row |
//!    | driving | held | driving | after some | after some | driving | after some | driving |
//!
//!    Held: for [`Params::hold_frames`], then unknown. After some: that state, or small motion,
//!    once [`Params::still_frames`] in a row have spoken for it. The first frame is unknown. Where the vehicle's speed is known, it decides whether it
//!    drives, and the picture only between still and small motion (unknown when lost).
//!
//! The homography is given in small motion, when the frame's evidence is small or shaky, or
//! still with a mean displacement above [`Params::drift_px`]; else it is the identity.
//!
//! What it cannot tell: a lorry that covers nearly all of the picture moves like the world does;
//! a drive through a scene so far away that one homography explains it is a small motion.
mod corner;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod pyramid;
mod state;
mod track;

use serde::{Deserialize, Serialize};

use crate::frame::{MonoImage, Size};

/// Parameters of the egomotion stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Right shift that brings 16-bit grey to 8 bits; what is brighter becomes white.
    pub grey16_shift: u32,
    /// Least structure of a corner: determinant over trace of the structure tensor of a square
    /// of 5x5 px at half size, gradients as differences over two pixels.
    pub min_texture: f32,
    /// Least correlation of a point's two windows.
    pub min_correlation: f32,
    /// Farthest that a point followed there and back may end from where it started, px.
    pub max_return_px: f32,
    /// Hypotheses for the homography.
    pub hypotheses: u32,
    /// How far from its place a point may lie to be explained by the homography, px.
    pub inlier_px: f32,
    /// Fewer corners are too little to see.
    pub min_points: u32,
    /// Where a smaller share of the corners is found in the frame before, the view has changed.
    pub lost_share: f32,
    /// A point that moved at most so far stands still, px.
    pub still_px: f32,
    /// A point that moved at most so far hardly moves, px: enough for a camera that stood still
    /// in the frame before. At least [`Params::still_px`].
    pub stay_px: f32,
    /// Mean displacement of the points that hardly move, px in x and in y, from which a camera
    /// that is moving already has moved in this frame.
    pub drift_px: f32,
    /// The same, added up over frames with a sixteenth forgotten each time, of a camera that does
    /// not stand still but creeps.
    pub creep_px: f32,
    /// Share of the image's width by which a shaking camera's picture wanders at most, as the
    /// sum of what the homography moves with a sixteenth forgotten each time. Farther, and a
    /// homography that does not explain the share of points asked for is that of a drive.
    pub sway_ratio: f32,
    /// Share of points standing still that no driving camera sees: the rest is traffic.
    pub standing_share: f32,
    /// Share of points that one homography must explain for a small motion.
    pub small_motion_share: f32,
    /// Frames in a row that must agree before a moving camera counts as still again.
    pub still_frames: u32,
    /// Frames in a row with too little to see for which the state is held.
    pub hold_frames: u32,
    /// A vehicle whose known speed is at most this stands.
    pub standing_mps: f32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            grey16_shift: 8,
            min_texture: 400.0,
            min_correlation: 0.8,
            max_return_px: 0.5,
            hypotheses: 256,
            inlier_px: 1.0,
            min_points: 12,
            lost_share: 0.25,
            still_px: 0.3,
            stay_px: 0.5,
            drift_px: 0.125,
            creep_px: 1.0,
            sway_ratio: 0.03125,
            standing_share: 0.2,
            small_motion_share: 0.8,
            still_frames: 5,
            hold_frames: 10,
            standing_mps: 0.1,
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// A parameter is out of its range.
    #[error("egomotion.{key} is {found}, expected {expected}")]
    Range {
        /// The parameter's key.
        key: &'static str,
        /// Its value.
        found: f64,
        /// The range in words.
        expected: &'static str,
    },
    /// An image size that can't be worked on.
    #[error("image size is {0}, expected 1x1 to 16384x16384")]
    Size(Size),
    /// A mask of another size than the images.
    #[error("the mask is {found} px, the images are {expected}")]
    Mask {
        /// The mask's size.
        found: Size,
        /// The images' size.
        expected: Size,
    },
}

/// The longest side of an image, px.
pub const MAX_SIDE: usize = 16_384;

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// With the first key that is out of its range.
    pub fn validate(&self) -> Result<(), ParamsError> {
        let check = |key, found: f64, least: f64, most: f64, expected| {
            if (least..=most).contains(&found) {
                Ok(())
            } else {
                Err(ParamsError::Range {
                    key,
                    found,
                    expected,
                })
            }
        };
        let share = |key, v: f32| check(key, v.into(), 0.0, 1.0, "0 to 1");
        let count =
            |key, v: u32, most: u32, expected| check(key, v.into(), 1.0, most.into(), expected);
        let pixels = |key, v: f32| check(key, v.into(), 0.05, 16.0, "0.05 to 16");
        check("grey16_shift", self.grey16_shift.into(), 0.0, 8.0, "0 to 8")?;
        check(
            "min_texture",
            self.min_texture.into(),
            1.0,
            1e6,
            "1 to 1000000",
        )?;
        share("min_correlation", self.min_correlation)?;
        pixels("max_return_px", self.max_return_px)?;
        count("hypotheses", self.hypotheses, 4096, "1 to 4096")?;
        pixels("inlier_px", self.inlier_px)?;
        check(
            "min_points",
            self.min_points.into(),
            4.0,
            1024.0,
            "4 to 1024",
        )?;
        share("lost_share", self.lost_share)?;
        pixels("still_px", self.still_px)?;
        check(
            "stay_px",
            self.stay_px.into(),
            self.still_px.into(),
            16.0,
            "still_px to 16",
        )?;
        pixels("drift_px", self.drift_px)?;
        pixels("creep_px", self.creep_px)?;
        share("sway_ratio", self.sway_ratio)?;
        share("standing_share", self.standing_share)?;
        share("small_motion_share", self.small_motion_share)?;
        count("still_frames", self.still_frames, 10_000, "1 to 10000")?;
        count("hold_frames", self.hold_frames, 10_000, "1 to 10000")?;
        check(
            "standing_mps",
            self.standing_mps.into(),
            0.0,
            10.0,
            "0 to 10",
        )
    }
}

/// What the stage reads.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The frame, of the plan's kind and size.
    pub image: &'a MonoImage,
    /// The vehicle's speed, where it is known; what is not a number is not known. The sign does
    /// not matter.
    pub speed_mps: Option<f32>,
}
