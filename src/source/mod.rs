//! Where frames come from.
//!
//! A recorded drive is a folder ([`Drive::open`]); its pictures are decoded ahead of the loop in
//! a thread ([`Prefetch`]), which is a [`Source`].
//!
//! # What is a frame, what is a gap
//! Frames are the pairs of a drive, in the order of the numbers in their file names. Where all
//! names are whole numbers and the layout counts frames by them (KITTI odometry and raw, `left`
//! and `right`), a number left out is a missing frame: the step is the smallest difference of
//! neighbours, and there may not be more holes than pictures, else the numbers are names only.
//! The numbers of KITTI stereo are separate pictures, the stamps of EuRoC times: no holes there.
//!
//! A drive begins with a whole frame, or it is refused (EuRoC, whose cameras do not start at
//! once: at the first pair). After that a frame of which a file is missing, damaged or of another size than the first of its segment
//! is a [`Gap`], in its place.
//!
//! # The mono camera
//! Beside a stereo camera each frame has the mono picture nearest in time, within
//! [`MonoConfig::tolerance_us`]. Where there is none, or it can't be read, the frame says so
//! ([`crate::frame::MonoFrame::gap`]) and is a frame all the same. A drive of mono pictures alone
//! has the frames and gaps of any other; `in000001.jpg` counts frames, too.
pub mod cameras;
mod decode;
mod describe;
mod drive;
mod error;
mod fault;
mod layout;
mod live;
mod mcap;
mod options;
mod pairing;
mod prefetch;
mod prepare;
mod speed;
pub mod synth;
mod synthetic;

pub use decode::frame_set;
pub use describe::describe;
pub use drive::{Drive, MonoSegment, Segment, StereoSegment, mask_of, mono_mask_of};
pub use error::{ExitKind, SourceError};
pub use fault::{FaultConfig, FaultInjector};
pub use layout::{DriveKind, FrameFiles, MonoFile, StereoFiles, number_of};
pub use live::{LiveShape, LiveSource, SourceKind};
pub use options::{
    CameraPair, Crop, DriveOptions, InputConfig, MaskSource, MonoConfig, SourceConfig, Topics,
};
pub use prefetch::Prefetch;
pub use speed::{SPEED, SPEED_TOLERANCE_NS};
pub use synthetic::{SyntheticCameras, SyntheticConfig};

use crate::frame::{CameraStates, FrameId, FrameSet, Gap, Timestamp};

/// What a source has to say when asked for the next frame.
#[derive(Debug)]
pub enum Next {
    /// A whole frame; give it back with [`Source::recycle`].
    Frame(Box<FrameSet>),
    /// A frame that should be there and isn't; the reason has been logged.
    Gap(FrameId, Gap),
    /// Nothing within the time that was allowed.
    Nothing,
    /// There will be no more.
    End,
}

/// Where frames come from. Frame sets go round: what the loop is done with is given back, so
/// that nothing is allocated per frame.
pub trait Source {
    /// The next frame in order, waiting at most `wait_ns`.
    fn next(&mut self, wait_ns: u64) -> Next;

    /// Frames stamped before this instant are of no use any more: where they are not there yet,
    /// they may come as a [`Gap::Dropped`] instead, so that a source that has fallen behind
    /// catches up.
    fn skip_before(&mut self, _stamp: Timestamp) {}

    /// What the cameras of a live source do; recorded drives have none.
    fn cameras(&self) -> CameraStates {
        CameraStates::default()
    }

    /// Takes a frame set back for reuse.
    fn recycle(&mut self, set: Box<FrameSet>);
}
