//! The model as bytes, so that a parked vehicle wakes with its background.
use crate::frame::{PixelKind, Size};

/// Why a snapshot was refused; the model is then as freshly built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SnapshotError {
    /// Fewer bytes than a snapshot has, or more.
    #[error("snapshot has {found} bytes, expected {expected}")]
    Length {
        /// Bytes given.
        found: usize,
        /// Bytes that a snapshot of this plan has.
        expected: usize,
    },
    /// It does not begin as a snapshot does.
    #[error("not a snapshot of the foreground's model")]
    Magic,
    /// It was written by a version with another layout.
    #[error("snapshot has version {found}, expected {expected}")]
    Version {
        /// Its version.
        found: u32,
        /// The version of this program.
        expected: u32,
    },
    /// Its bytes are not those that were written.
    #[error("snapshot is damaged: checksum is {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Checksum of the bytes.
        found: u32,
        /// Checksum that was written.
        expected: u32,
    },
    /// It can't be decoded although its checksum is right.
    #[error("snapshot can't be decoded: {0}")]
    Decode(String),
    /// It is of images of another size or kind.
    #[error("snapshot is of {found_kind:?} images of {found}, expected {kind:?} of {expected}")]
    Images {
        /// Size of its images.
        found: Size,
        /// Kind of its pixels.
        found_kind: PixelKind,
        /// Size of the plan.
        expected: Size,
        /// Kind of the plan.
        kind: PixelKind,
    },
    /// The model was learnt with other parameters.
    #[error("snapshot was made with foreground.{key} = {found}, expected {expected}")]
    Parameter {
        /// The parameter's key.
        key: &'static str,
        /// Its value in the snapshot.
        found: f64,
        /// Its value in this plan.
        expected: f64,
    },
    /// A number of the model is out of its range.
    #[error("snapshot holds {what} {found} at pixel {pixel}, which no model has")]
    State {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Index of the pixel, row by row.
        pixel: usize,
    },
}
