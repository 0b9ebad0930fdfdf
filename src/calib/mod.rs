//! Rigs from files, rectification maps, metric geometry.
use std::path::Path;

use crate::frame::{Camera, Size};

/// Which two cameras of a file that holds several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pair {
    /// Cameras 0 and 1 (KITTI: grey).
    #[default]
    First,
    /// Cameras 2 and 3 (KITTI: colour).
    Second,
}

/// What is wrong with a calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibError {}

/// A stereo rig: two cameras and how they stand to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Rig {
    rectified: Camera,
}

impl Rig {
    /// A rig whose images are rectified already.
    pub fn rectified(camera: Camera) -> Self {
        Self { rectified: camera }
    }

    /// Whether its images are rectified already.
    pub fn is_rectified(&self) -> bool {
        true
    }

    /// The image size that the file states, if it does.
    pub fn image_size(&self) -> Option<Size> {
        None
    }

    /// The rig of the images cut to `size` at `(x, y)`.
    pub fn cropped(&self, _x: usize, _y: usize, _size: Size) -> Self {
        self.clone()
    }

    /// The rig of the images made smaller by averaging `n` x `n` pixels.
    pub fn scaled_down(&self, _n: usize) -> Self {
        self.clone()
    }
}

/// Reads a calibration file, recognised by its content.
///
/// # Errors
/// With file, line or key, what was found and what was expected.
pub fn read(_path: &Path, _pair: Pair) -> Result<Rig, CalibError> {
    todo!()
}

/// Reads a rig kept as one file a camera (EuRoC `sensor.yaml`, ROS `camera_info`).
///
/// # Errors
/// As [`read`].
pub fn read_pair(_left: &Path, _right: &Path) -> Result<Rig, CalibError> {
    todo!()
}
