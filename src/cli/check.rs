//! `roadloop check`: says what was understood of a file.
use std::path::Path;

use crate::calib::CalibError;

/// What was understood of a calibration, for people; `right` where the rig is kept as one file a
/// camera and the second is not found beside the first.
///
/// # Errors
/// When it can't be read or can't be true.
pub fn calib(_path: &Path, _right: Option<&Path>) -> Result<String, CalibError> {
    todo!()
}
