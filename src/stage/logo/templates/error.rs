//! What can be wrong with templates.
use std::path::PathBuf;

use super::super::features::FeatureError;
use super::{MAX_TEMPLATES, VERSION};
use crate::{frame::Size, picture::PictureError};

/// Why there are no templates.
#[derive(Debug, thiserror::Error)]
pub enum TemplatesError {
    /// A file or folder can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A picture is damaged.
    #[error("{}: {source}", path.display())]
    Picture {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: PictureError,
    },
    /// No picture in the folder.
    #[error("{}: found no PNG files, expected one picture a logo, named as the logo", path.display())]
    Empty {
        /// Which folder.
        path: PathBuf,
    },
    /// More pictures than templates may be.
    #[error("{}: {found} pictures, expected at most {MAX_TEMPLATES}", path.display())]
    TooMany {
        /// Which folder.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// A name that can't stand in a table.
    #[error(
        "{}: the name is {name:?}, expected 1 to 64 characters without commas, quotes and control \
         characters", path.display()
    )]
    Name {
        /// Which file.
        path: PathBuf,
        /// Its name without the ending.
        name: String,
    },
    /// A picture of a size that can't be worked on.
    #[error("{}: {found}, expected sides of {} to {} px and at most 8 to 1 of them", path.display(),
        super::build::MIN_SIDE, super::build::MAX_SIDE)]
    Size {
        /// Which file.
        path: PathBuf,
        /// Its size.
        found: Size,
    },
    /// A picture with too little in it to be found again.
    #[error(
        "{}: {found} keypoints, expected at least {expected}; a larger picture, or one with more \
         contrast and detail, has more", path.display()
    )]
    TooFewKeypoints {
        /// Which file.
        path: PathBuf,
        /// Keypoints found, at all sizes.
        found: usize,
        /// Fewest that do.
        expected: usize,
    },
    /// A picture of one grey.
    #[error("{}: shows nothing: one grey all over; expected a picture with contrast", path.display())]
    Plain {
        /// Which file.
        path: PathBuf,
    },
    /// Parameters of the features that can't be used.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// The file is of another kind.
    #[error("{}: not a file of logo templates (begins with {found})", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Its first bytes.
        found: String,
    },
    /// The file is of another version.
    #[error("{}: version {found}, expected {VERSION}; build the templates again", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file ends early, goes on too long, or its bytes have changed.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What was found and what was expected.
        what: String,
    },
}
