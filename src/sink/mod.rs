//! Where results go.
//!
//! | file | what |
//! |---|---|
//! | [`digest`] | whether two replays gave the same results |
//! | [`table`] | `stixels.csv`, `timing.csv` |
//! | [`summary`] | counts, percentiles, provenance: `summary.json` |
//! | [`overlay`] | the left image with its stixels |
//! | [`pictures`] | the thread that writes pictures |
//! | [`folder`] | all of these as the folder of a replay |
//! | [`report`] | the HTML page on a replay |
pub mod digest;
mod error;
pub mod folder;
pub mod overlay;
pub mod pictures;
pub mod report;
mod save;
pub mod summary;
pub mod table;

pub use error::SinkError;
pub use folder::{FolderOptions, ReplayFolder};
pub use pictures::{Full, PictureWriter};
pub use save::{Save, SaveError, SaveSet};

use crate::frame::{Camera, FrameId, FrameResult, Gap, Image, Rgb};

/// The image that a result belongs to, for sinks that show it: rectified, of the size of the
/// result's disparity.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Left image, grey.
    pub left: &'a Image<u8>,
    /// The same in colour, where the source has colour.
    pub left_rgb: Option<&'a Rgb>,
}

/// Where the loop hands its results, in frame order.
pub trait Sink {
    /// Told before the first frame, and again where the camera or the size changes: the
    /// rectified camera, a result of the shape to come, whether views will have colour.
    ///
    /// # Errors
    /// When what is needed for the frames to come can't be made.
    fn begin(
        &mut self,
        _camera: &Camera,
        _shape: &FrameResult,
        _colour: bool,
    ) -> Result<(), SinkError> {
        Ok(())
    }

    /// Takes the result of a frame.
    ///
    /// # Errors
    /// When it can't be written. What was written before stays.
    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError>;

    /// Takes note of a frame that has no result.
    ///
    /// # Errors
    /// As [`Sink::frame`].
    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError>;
}
