//! The ground line from the v-disparity histogram.
//!
//! # The numeric contract
//! 1. **Histogram.** Row by row, usable pixels (not [`INVALID`](crate::frame::INVALID), not
//!    masked, below the disparity range) are counted in bins of 1/4 px together with the sum of
//!    their disparities, then summed up along the row, so that count and sum of any band of
//!    disparities are one subtraction.
//! 2. **Search.** Every line of a grid whose camera height and pitch are plausible is scored:
//!    per row the pixels within [`Params::inlier_px`] plus [`Params::inlier_ratio`] (and half
//!    the grid's step) speak for it, those clearly below the ground speak against it with half
//!    the weight, and each row's say is limited to half the width. A wall, however large, is a
//!    vertical stroke in v-disparity and crosses any plausible line in a few rows only. The
//!    highest score wins, then the first line of the grid. The line of the frame before stands in as well and wins
//!    when it has 7/8 of that score.
//! 3. **Fit.** Least squares over the rows' mean disparities of the pixels within the band
//!    around the line, weight limited as in 2: once in the band of 2, twice without the grid's
//!    step, three times in a narrower one. Sums are exact integers; the division that ends them
//!    is `f64`.
//! 4. **Judgement.** The line counts as measured when height and pitch are plausible, enough of
//!    the rows that it crosses show ground ([`Params::min_support`]; a row does with a sixteenth
//!    of its valid pixels and 1/256 of its width in the band), and the inliers spread over more
//!    disparities than a wall in the band could.
//! 5. **Tracking.** The slope (camera height) follows slowly, the horizon (pitch) quickly; see
//!    [`Params`]. Where nothing is measured the last good line is held, and before there is
//!    one, the assumed camera stands in. A frame never goes without.
//!
//! `confidence` of a measured line: `min(1, 2 * rows with ground / rows crossed)` times
//! `for / (for + against)`, the pixels of step 2; held: the last one times
//! [`Params::held_decay`] for each frame since; assumed: 0; fixed: 1.
//!
//! The line and the camera (H height, a pitch, b baseline, f focal length, c row of the
//! principal point): `d(row) = (b/H) cos a * row + (b/H) (f sin a - c cos a)`, so
//! `tan a = (c - horizon) / f` and `H = b cos a / slope`.
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod geometry;
mod track;

use serde::{Deserialize, Serialize};

/// Parameters of the road stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Takes this line for every frame, and measures nothing.
    pub fixed: Option<Fixed>,
    /// Camera height above the ground until one is measured, m.
    pub camera_height_m: f64,
    /// Camera pitch until one is measured, positive looks down.
    pub pitch_rad: f64,
    /// Lowest plausible camera, m.
    pub min_camera_height_m: f64,
    /// Highest plausible camera, m.
    pub max_camera_height_m: f64,
    /// Largest plausible pitch up or down.
    pub max_pitch_rad: f64,
    /// How far from the line a disparity is still ground.
    pub inlier_px: f64,
    /// Added to [`Params::inlier_px`]: this share of the line's disparity, for crossfall and a
    /// stereo that errs in proportion to disparity.
    pub inlier_ratio: f64,
    /// Ground farther than this (nearer to the horizon) is not looked at.
    pub min_disparity_px: f64,
    /// Share of the rows crossed that must show ground, 0-1.
    pub min_support: f64,
    /// How much of a new slope enters the tracked one, above 0 to 1.
    pub height_gain: f64,
    /// How much of a new horizon enters the tracked one, above 0 to 1.
    pub pitch_gain: f64,
    /// Largest believable change of the slope from frame to frame, as a share of it.
    pub max_height_step_ratio: f64,
    /// Largest believable change of the pitch from frame to frame.
    pub max_pitch_step_rad: f64,
    /// Frames in a row that must agree on an unbelievable change before it is believed.
    pub reacquire_frames: u32,
    /// What a held line's confidence is multiplied with each frame, 0-1.
    pub held_decay: f64,
}

/// A line known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Disparity gained per row downwards, px; positive.
    pub slope: f64,
    /// Image row (from the top, may lie outside) where the ground's disparity is 0.
    pub horizon_row: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            fixed: None,
            camera_height_m: 1.5,
            pitch_rad: 0.0,
            min_camera_height_m: 0.8,
            max_camera_height_m: 4.0,
            max_pitch_rad: 0.3,
            inlier_px: 1.0,
            inlier_ratio: 0.02,
            min_disparity_px: 1.0,
            min_support: 0.3,
            height_gain: 0.2,
            pitch_gain: 0.8,
            max_height_step_ratio: 0.2,
            max_pitch_step_rad: 0.03,
            reacquire_frames: 4,
            held_decay: 0.9,
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// A parameter is out of its range.
    #[error("road.{key} is {found}, expected {expected}")]
    Range {
        /// The parameter's key.
        key: &'static str,
        /// Its value.
        found: f64,
        /// The range in words.
        expected: &'static str,
    },
    /// The least plausible height is not below the greatest.
    #[error(
        "road.min_camera_height_m is {min}, expected less than road.max_camera_height_m, {max}"
    )]
    Heights {
        /// Least height, m.
        min: f64,
        /// Greatest height, m.
        max: f64,
    },
    /// A camera that can't measure.
    #[error("camera {key} is {found}, expected {expected}")]
    Camera {
        /// Which quantity of the camera.
        key: &'static str,
        /// Its value.
        found: f64,
        /// The range in words.
        expected: &'static str,
    },
    /// An image size that can't be worked on.
    #[error("image size is {0}, expected 1x1 to 65535x65535")]
    Size(crate::frame::Size),
    /// A disparity range that can't be worked on.
    #[error("disparity range is {0} px, expected 1 to 256")]
    Disparities(usize),
    /// A mask of another size than the image.
    #[error("mask is {mask}, expected the image's {image}")]
    Mask {
        /// The mask's size.
        mask: crate::frame::Size,
        /// The image's size.
        image: crate::frame::Size,
    },
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// With the first key that is out of its range.
    pub fn validate(&self) -> Result<(), ParamsError> {
        let check = |key, found: f64, ok: bool, expected| {
            if found.is_finite() && ok {
                Ok(())
            } else {
                Err(ParamsError::Range {
                    key,
                    found,
                    expected,
                })
            }
        };
        let positive = |key, v: f64| check(key, v, v > 0.0 && v <= 1000.0, "above 0 to 1000");
        let share = |key, v: f64| check(key, v, (0.0..=1.0).contains(&v), "0 to 1");
        let gain = |key, v: f64| check(key, v, v > 0.0 && v <= 1.0, "above 0 to 1");
        if let Some(Fixed { slope, horizon_row }) = self.fixed {
            check(
                "fixed.slope",
                slope,
                (1e-6..=1e3).contains(&slope),
                "0.000001 to 1000",
            )?;
            check(
                "fixed.horizon_row",
                horizon_row,
                horizon_row.abs() <= 1e6,
                "-1000000 to 1000000",
            )?;
        }
        let height = |key, v: f64| check(key, v, (0.01..=1000.0).contains(&v), "0.01 to 1000");
        height("camera_height_m", self.camera_height_m)?;
        let angle = |key, v: f64| check(key, v, v.abs() <= 1.0, "-1 to 1");
        angle("pitch_rad", self.pitch_rad)?;
        height("min_camera_height_m", self.min_camera_height_m)?;
        height("max_camera_height_m", self.max_camera_height_m)?;
        if self.min_camera_height_m >= self.max_camera_height_m {
            return Err(ParamsError::Heights {
                min: self.min_camera_height_m,
                max: self.max_camera_height_m,
            });
        }
        gain("max_pitch_rad", self.max_pitch_rad)?;
        check(
            "inlier_px",
            self.inlier_px,
            (0.25..=16.0).contains(&self.inlier_px),
            "0.25 to 16",
        )?;
        check(
            "inlier_ratio",
            self.inlier_ratio,
            (0.0..=0.25).contains(&self.inlier_ratio),
            "0 to 0.25",
        )?;
        check(
            "min_disparity_px",
            self.min_disparity_px,
            (0.0..=64.0).contains(&self.min_disparity_px),
            "0 to 64",
        )?;
        share("min_support", self.min_support)?;
        gain("height_gain", self.height_gain)?;
        gain("pitch_gain", self.pitch_gain)?;
        positive("max_height_step_ratio", self.max_height_step_ratio)?;
        positive("max_pitch_step_rad", self.max_pitch_step_rad)?;
        check(
            "reacquire_frames",
            f64::from(self.reacquire_frames),
            self.reacquire_frames > 0,
            "1 or more",
        )?;
        share("held_decay", self.held_decay)
    }
}
