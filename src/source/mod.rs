//! Where frames come from.
pub mod picture;
pub mod synth;

use crate::frame::{FrameId, FrameSet, Gap};

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

    /// Takes a frame set back for reuse.
    fn recycle(&mut self, set: Box<FrameSet>);
}
