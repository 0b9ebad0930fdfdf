//! What moves while the vehicle stands.
use serde::{Deserialize, Serialize};

use super::{Image, Size};

/// Whether a mask means anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForegroundState {
    /// The background is still being learnt; the mask is empty.
    #[default]
    WarmingUp,
    /// The mask is valid.
    Valid,
    /// Invalid: the camera moves too much for a background; the mask is empty.
    Driving,
    /// Invalid: how the camera moves is not known; the mask is empty.
    MotionUnknown,
    /// Invalid: there was no picture, or no time; the mask is empty.
    Skipped,
}

impl ForegroundState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::WarmingUp,
        Self::Valid,
        Self::Driving,
        Self::MotionUnknown,
        Self::Skipped,
    ];

    /// The name in results and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WarmingUp => "warming_up",
            Self::Valid => "valid",
            Self::Driving => "driving",
            Self::MotionUnknown => "motion_unknown",
            Self::Skipped => "skipped",
        }
    }
}

/// The moving foreground of one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreground {
    /// Whether the mask is valid, and if not, why.
    pub state: ForegroundState,
    /// [`Foreground::MOVING`], [`Foreground::SHADOW`] or 0 a pixel.
    pub mask: Image<u8>,
}

impl Foreground {
    /// A pixel that moves.
    pub const MOVING: u8 = 255;
    /// A pixel of background in the shadow of something that moves.
    pub const SHADOW: u8 = 127;

    /// An empty mask.
    pub fn new(size: Size) -> Self {
        Self {
            state: ForegroundState::default(),
            mask: Image::new(size.width, size.height),
        }
    }

    /// There was nothing to compute it from, or no time.
    pub fn skip(&mut self) {
        self.state = ForegroundState::Skipped;
        self.mask.fill(0);
    }

    /// Takes everything from another of the same size; allocates nothing.
    ///
    /// # Panics
    /// When the sizes differ.
    pub fn copy_from(&mut self, other: &Self) {
        self.state = other.state;
        self.mask.copy_from(&other.mask);
    }
}
