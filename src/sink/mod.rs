//! Where results go.
//!
//! | file | what |
//! |---|---|
//! | [`digest`] | whether two replays gave the same results |
//! | [`table`] | `stixels.csv`, `timing.csv`, `motion.csv`, `logos.csv` |
//! | [`summary`] | counts, percentiles, provenance: `summary.json` |
//! | [`overlay`] | the left image with its stixels |
//! | [`pictures`] | the thread that writes pictures |
//! | [`counters`] | what a live loop has done, for the threads that watch it |
//! | [`at_latency`] | results to other processes at a fixed latency |
//! | [`fan_out`] | several sinks as one |
//! | [`recorder`] | MCAP files of what came in and what came out |
//! | `conveyor` | boxes that go round between the loop and such a thread |
//! | [`socket`] | lists to other processes |
//! | [`folder`] | all of these as the folder of a replay |
//! | [`report`] | the HTML page on a replay |
pub mod at_latency;
mod conveyor;
pub mod counters;
pub mod digest;
mod error;
pub mod fan_out;
pub mod folder;
pub mod overlay;
pub mod pictures;
pub mod recorder;
pub mod report;
mod save;
pub mod socket;
pub mod summary;
pub mod table;

pub use error::SinkError;
pub use folder::{FolderOptions, ReplayFolder, check_apart, is_result, lies_in};
pub use pictures::{Full, PictureWriter};
pub use save::{Save, SaveError, SaveSet};

use crate::{
    calib::Rig,
    frame::{
        Camera, FrameId, FrameResult, FrameSet, Gap, Image, Mask, MonoImage, PixelKind, Rgb, Size,
    },
};

/// The images that a result belongs to, for sinks that show them.
#[derive(Clone, Copy, Default)]
pub struct View<'a> {
    /// Left image, grey, rectified, of the size of the result's disparity; `None` on a mono
    /// drive.
    pub left: Option<&'a Image<u8>>,
    /// The same in colour, where the source has colour.
    pub left_rgb: Option<&'a Rgb>,
    /// The mono camera's, which foreground and logos belong to; `None` where this frame has
    /// none. Without a mono camera they belong to the left image.
    pub mono: Option<&'a MonoImage>,
    /// What came in: the pictures before rectification.
    pub set: Option<&'a FrameSet>,
}

/// What the frames to come look like.
#[derive(Clone, Copy)]
pub struct Announced<'a> {
    /// The rectified camera; `None` on a mono drive.
    pub camera: Option<Camera>,
    /// A result of their shape.
    pub shape: &'a FrameResult,
    /// Whether views will have colour.
    pub colour: bool,
    /// What the mono camera's pictures are, where there is one.
    pub mono: Option<(PixelKind, Size)>,
    /// The names of the logos that results tell by number.
    pub logo_names: &'a [String],
    /// A frame set of their shape, for sinks that keep what came in.
    pub set: Option<&'a FrameSet>,
    /// The cameras of the pictures as they come in; `None` on a mono drive.
    pub rig: Option<&'a Rig>,
    /// Pixels of the left picture that are never used.
    pub mask: Option<&'a Mask>,
    /// The same of the mono picture.
    pub mono_mask: Option<&'a Mask>,
}

impl<'a> Announced<'a> {
    /// Results of the stereo chain alone.
    pub fn street(camera: Camera, shape: &'a FrameResult, colour: bool) -> Self {
        Self {
            camera: Some(camera),
            shape,
            colour,
            mono: None,
            logo_names: &[],
            set: None,
            rig: None,
            mask: None,
            mono_mask: None,
        }
    }
}

/// Where the loop hands its results, in frame order.
pub trait Sink {
    /// Told before the first frame, and again where the camera or the size changes.
    ///
    /// # Errors
    /// When what is needed for the frames to come can't be made.
    fn begin(&mut self, _announced: &Announced<'_>) -> Result<(), SinkError> {
        Ok(())
    }

    /// Asked before a frame is computed: room for what the stages have learnt up to then, where
    /// the sink wants it. Left empty where the backend can't say.
    fn state_room(&mut self, _next: FrameId) -> Option<&mut Vec<u8>> {
        None
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

    /// No more will come: completes what is written. The live loop calls it; a folder of results
    /// has an end of its own.
    ///
    /// # Errors
    /// As [`Sink::frame`].
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
