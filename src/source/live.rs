//! What the live loop must know of a source.
use serde::{Deserialize, Serialize};

use super::Source;
use crate::{
    calib::Rig,
    frame::{PixelKind, Size},
};

/// `[source] kind`: where the frames of `roadloop run` come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// V4L2 cameras (feature `v4l2`).
    #[default]
    Cameras,
    /// The synthetic street; no hardware.
    Synthetic,
}

/// What the frame sets of a live source look like, from its first to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveShape {
    /// Size of the stereo images as they enter the loop, and whether the left one comes in colour
    /// too; `None` without a stereo camera.
    pub stereo: Option<(Size, bool)>,
    /// Kind and size of the mono images; `None` without a mono camera.
    pub mono: Option<(PixelKind, Size)>,
}

/// Frames from now: stamped with the monotonic clock ([`crate::frame_loop::MonotonicClock`]).
pub trait LiveSource: Source {
    /// What its frame sets look like.
    fn shape(&self) -> LiveShape;

    /// The rig of its stereo images, where the source itself knows it; `[calibration]` goes
    /// before it.
    fn rig(&self) -> Option<Rig> {
        None
    }
}
