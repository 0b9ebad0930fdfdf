//! How the vehicle moves, as seen by the mono camera.
use serde::{Deserialize, Serialize};

/// Whether the camera stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MotionState {
    /// Not known: the first frame, or too little to see.
    #[default]
    Unknown,
    /// Neither the vehicle nor the camera moves.
    Still,
    /// The camera shakes or creeps: one homography explains the image.
    SmallMotion,
    /// The vehicle drives: parallax, no single homography.
    Driving,
}

impl MotionState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Still, Self::SmallMotion, Self::Driving];

    /// The name in results and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Still => "still",
            Self::SmallMotion => "small_motion",
            Self::Driving => "driving",
        }
    }
}

/// What is known of the camera's motion since the frame before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Motion {
    /// Whether it moves.
    pub state: MotionState,
    /// Where a pixel of this frame lay in the frame before: row-major, `h[8] = 1`, in pixels,
    /// pixel centres at whole numbers. The identity unless the state is
    /// [`MotionState::SmallMotion`].
    pub homography: [f32; 9],
    /// Points that could be followed from the frame before.
    pub tracked: u16,
    /// Those of them that the homography explains.
    pub inliers: u16,
}

impl Motion {
    /// The homography that moves nothing.
    pub const IDENTITY: [f32; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];

    /// A state of which nothing more is known.
    pub const fn of(state: MotionState) -> Self {
        Self {
            state,
            homography: Self::IDENTITY,
            tracked: 0,
            inliers: 0,
        }
    }
}

impl Default for Motion {
    fn default() -> Self {
        Self::of(MotionState::Unknown)
    }
}
