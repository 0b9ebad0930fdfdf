use std::path::PathBuf;

use super::drive::MAX_STAGE_PIXELS;
use crate::picture::PictureError;
use crate::{calib::CalibError, files};

/// Why a drive can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A folder can't be listed or a file not be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the file system says.
        error: std::io::Error,
    },
    /// The path given is a file.
    #[error("{}: a file; a drive is a folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder is laid out in no way that is known.
    #[error(
        "{}: no drive is recognised here. Expected one of: image_l + image_r, image_0 + image_1 or \
         image_2 + image_3 (KITTI odometry); training/image_2 + image_3 with NNNNNN_10.png (KITTI \
         stereo 2015); image_00/data + image_01/data or image_02/data + image_03/data (KITTI raw); \
         mav0/cam0/data + mav0/cam1/data (EuRoC); left + right (with --calib); pictures of one \
         camera in mono, input, image_02/data or frames, or in the folder itself",
        path.display()
    )]
    Unrecognised {
        /// The folder.
        path: PathBuf,
    },
    /// There are no pictures.
    #[error("{}: no pictures (.png, .pgm, .ppm, .pnm, .jpg, .jpeg) in this folder", path.display())]
    NoPictures {
        /// The folder without any.
        path: PathBuf,
    },
    /// There are no right images, nor stored disparities in their place.
    #[error(
        "{}: no right images; this folder is missing or empty. With --disparity DIR none are needed",
        path.display()
    )]
    NoRightImages {
        /// The folder where they should be.
        path: PathBuf,
    },
    /// A file of the first frame is missing.
    #[error("no first frame: {} is missing", path.display())]
    NoFirstFrame {
        /// The file, or the folder where it should be.
        path: PathBuf,
    },
    /// The part asked for holds no frame.
    #[error("frames {}: the drive has frames 0..{frames}", part_in_words(*start, *end))]
    NoSuchFrames {
        /// First frame asked for.
        start: usize,
        /// First frame no longer asked for.
        end: usize,
        /// How many frames there are.
        frames: usize,
    },
    /// Nothing says what the cameras are.
    #[error(
        "no calibration: {} is missing; give --calib FILE or [camera] in the configuration",
        path.display()
    )]
    NoCalibration {
        /// Where the drive would have kept it.
        path: PathBuf,
    },
    /// The calibration can't be used.
    #[error("{0}")]
    Calibration(#[from] CalibError),
    /// The calibration is for pictures of another size.
    #[error(
        "{}: {found} px, but the calibration is for pictures of {expected} px",
        path.display()
    )]
    CalibrationSize {
        /// The picture.
        path: PathBuf,
        /// Its size.
        found: crate::frame::Size,
        /// The size in the calibration.
        expected: crate::frame::Size,
    },
    /// The images are larger than what the stages take memory for.
    #[error(
        "{}: images of {found} px, expected at most {MAX_STAGE_PIXELS} px in all; [{section}] crop \
         or scale_down make them smaller",
        path.display()
    )]
    TooLarge {
        /// A picture.
        path: PathBuf,
        /// The size of its image, after crop and scale.
        found: crate::frame::Size,
        /// The part of the configuration that makes it smaller.
        section: &'static str,
    },
    /// A picture of the first frame can't be decoded.
    #[error("{}: {error}", path.display())]
    Picture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: PictureError,
    },
    /// The pictures of the first frame do not fit together.
    #[error("{}: {text}", path.display())]
    FirstFrame {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        text: String,
    },
    /// A table of times is wrong.
    #[error("{}{}: {text}", path.display(), line.map_or(String::new(), |n| format!(" line {n}")))]
    Table {
        /// The file.
        path: PathBuf,
        /// The line, from 1, where there is one to name.
        line: Option<usize>,
        /// What was found and what was expected.
        text: String,
    },
    /// A recording can't be replayed.
    #[error("{}: {text}", path.display())]
    Recording {
        /// The file, or the folder.
        path: PathBuf,
        /// What was found and what was expected.
        text: String,
    },
    /// A key of the configuration does not fit.
    #[error("{section}.{key}: {text}")]
    Config {
        /// `input` or `source`.
        section: &'static str,
        /// The key.
        key: &'static str,
        /// What was found and what was expected.
        text: String,
    },
}

/// `A..B` as it was asked for.
fn part_in_words(start: usize, end: usize) -> String {
    match end {
        usize::MAX => format!("{start}.."),
        _ => format!("{start}..{end}"),
    }
}

/// What kind of failure it is, for the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// Something that was asked for is not there: 66.
    NoInput,
    /// A file is damaged or does not fit: 65.
    Data,
    /// The configuration is at fault: 78.
    Configuration,
}

impl ExitKind {
    /// The exit status (sysexits).
    pub const fn code(self) -> u8 {
        match self {
            Self::NoInput => 66,
            Self::Data => 65,
            Self::Configuration => 78,
        }
    }
}

impl SourceError {
    /// Which exit status it stands for.
    pub fn exit(&self) -> ExitKind {
        match self {
            Self::Io { error, .. } if files::is_data(error) => ExitKind::Data,
            Self::Calibration(CalibError::Io { source, .. }) if !files::is_data(source) => {
                ExitKind::NoInput
            }
            Self::Io { .. }
            | Self::NotAFolder { .. }
            | Self::Unrecognised { .. }
            | Self::NoPictures { .. }
            | Self::NoRightImages { .. }
            | Self::NoFirstFrame { .. }
            | Self::NoSuchFrames { .. }
            | Self::NoCalibration { .. } => ExitKind::NoInput,
            Self::Calibration(_)
            | Self::CalibrationSize { .. }
            | Self::TooLarge { .. }
            | Self::Picture { .. }
            | Self::FirstFrame { .. }
            | Self::Recording { .. }
            | Self::Table { .. } => ExitKind::Data,
            Self::Config { .. } => ExitKind::Configuration,
        }
    }
}
