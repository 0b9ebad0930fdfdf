//! Files to rigs.
use std::path::Path;

use super::{CalibError, Pair, Rig};

/// Reads a calibration file, recognised by its content, or the calibration in a folder.
///
/// # Errors
/// With file, line or key, what was found and what was expected.
pub fn read(_path: &Path, _pair: Pair) -> Result<Rig, CalibError> {
    todo!()
}

/// Reads a rig kept as one file a camera (EuRoC `sensor.yaml`, ROS `camera_info`), or as
/// OpenCV's `intrinsics.yml` and `extrinsics.yml`.
///
/// # Errors
/// As [`read`].
pub fn read_pair(_left: &Path, _right: &Path) -> Result<Rig, CalibError> {
    todo!()
}
