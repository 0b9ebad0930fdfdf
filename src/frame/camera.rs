use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The rectified stereo camera that disparities belong to: two pinhole cameras of the same
/// focal length whose rows coincide.
///
/// `depth = focal_px * baseline_m / disparity_px`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Camera {
    /// Focal length, px.
    pub focal_px: f64,
    /// Column of the principal point of the left camera, px.
    pub cx: f64,
    /// Row of the principal point, px.
    pub cy: f64,
    /// Distance of the two optical centres, m.
    pub baseline_m: f64,
}

impl Camera {
    /// Focal lengths that are taken, px: beyond these the tables of the stages lose their sense.
    pub const FOCAL_PX: RangeInclusive<f64> = 1.0..=1e6;
    /// Places of the principal point that are taken, px.
    pub const PRINCIPAL_PX: RangeInclusive<f64> = -1e6..=1e6;
    /// Base lines that are taken, m.
    pub const BASELINE_M: RangeInclusive<f64> = 1e-4..=100.0;

    /// Depth in metres of a disparity in pixels; infinite at 0.
    pub fn depth_m(&self, disparity_px: f64) -> f64 {
        self.focal_px * self.baseline_m / disparity_px
    }
}
