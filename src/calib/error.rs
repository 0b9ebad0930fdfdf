use std::path::{Path, PathBuf};

use crate::frame::Size;

/// What is wrong with a calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibError {
    /// The file can't be opened or read, or is too large to be a calibration.
    #[error("{}: {source}", file.display())]
    Io {
        /// Which file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The text can't be parsed at all.
    #[error("{}:{line}: {found}, expected {expected}", file.display())]
    Syntax {
        /// Which file.
        file: PathBuf,
        /// 1-based line.
        line: usize,
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },
    /// The content is none of the known formats.
    #[error(
        "{}: found {found}, expected a stereo calibration: OpenCV YAML, KITTI calib.txt or \
         calib_cam_to_cam.txt, Kalibr camchain, EuRoC sensor.yaml or ROS camera_info", file.display()
    )]
    UnknownFormat {
        /// Which file or folder.
        file: PathBuf,
        /// What it seems to hold.
        found: String,
    },
    /// A key that this format needs is not there.
    #[error("{}: no {key}, expected {expected}", file.display())]
    Missing {
        /// Which file.
        file: PathBuf,
        /// The key that was looked for.
        key: String,
        /// What it should hold.
        expected: String,
    },
    /// A value has the wrong shape or can't be true.
    #[error("{}: {key}: found {found}, expected {expected}", file.display())]
    Value {
        /// Which file.
        file: PathBuf,
        /// The key, with its line where known.
        key: String,
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },
    /// The file holds a single camera and its partner was not found.
    #[error("{}: found one camera, expected two: {hint}", file.display())]
    OneCamera {
        /// Which file.
        file: PathBuf,
        /// What the user can do.
        hint: String,
    },
    /// The images have another size than the calibration states.
    #[error("images are {found}, the calibration is for {expected}")]
    ImageSize {
        /// The images' size.
        found: Size,
        /// The calibration's.
        expected: Size,
    },
    /// The image size can't be rectified: empty, a side above 65,535 px, or more than 2^26 px.
    #[error("image size {found}, expected sides from 1 to 65535 and at most 67108864 pixels")]
    Unsupported {
        /// The size that was asked for.
        found: Size,
    },
    /// Rectified, the two cameras see nothing in common.
    #[error("the rectified views of the two cameras do not overlap: {found}")]
    NoCommonView {
        /// The ranges of the views.
        found: String,
    },
}

impl CalibError {
    pub(super) fn value(
        file: &Path,
        key: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Value {
            file: file.into(),
            key: key.into(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    pub(super) fn missing(
        file: &Path,
        key: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Missing {
            file: file.into(),
            key: key.into(),
            expected: expected.into(),
        }
    }
}
