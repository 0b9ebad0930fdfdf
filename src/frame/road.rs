use serde::{Deserialize, Serialize};

/// Where a [`Road`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoadOrigin {
    /// Fixed by the configuration.
    Fixed,
    /// Fitted to this frame's disparities.
    Measured,
    /// Not measurable in this frame: the last good one.
    Held,
    /// Never measured yet: from camera height and pitch of the calibration or configuration.
    Assumed,
}

/// The ground as a line in the v-disparity plane: `d(row) = slope * row + offset`, in px of
/// disparity, row 0 at the top; positive below the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Road {
    /// Disparity gained per row downwards, px.
    pub slope: f32,
    /// Disparity at row 0, px (negative when the horizon is inside the image).
    pub offset: f32,
    /// Row where the disparity is 0: `-offset / slope`; may lie outside the image.
    pub horizon_row: f32,
    /// Camera pitch in radians, positive when it looks down.
    pub pitch_rad: f32,
    /// Height of the camera above the ground, m.
    pub camera_height_m: f32,
    /// 0 (a guess) to 1.
    pub confidence: f32,
    /// Where it comes from.
    pub origin: RoadOrigin,
}

impl Road {
    /// The ground's disparity at an image row, px; not clamped.
    pub fn disparity_px(&self, row: f32) -> f32 {
        self.slope * row + self.offset
    }
}
