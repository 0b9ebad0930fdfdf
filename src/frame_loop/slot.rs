//! The buffers that one frame in flight needs.
use crate::{
    frame::{FrameResult, FrameSet, Image, Size},
    stage::rectify::Rectified,
};

/// Everything that belongs to the frame in flight. Allocated once, before the first frame.
#[derive(Debug)]
pub struct Slot {
    /// What came in.
    pub set: Box<FrameSet>,
    /// Its images in the rectified camera.
    pub rectified: Rectified,
    /// What goes out.
    pub result: FrameResult,
}

impl Slot {
    /// A slot for grey pairs of `size` that need no rectification, with
    /// `size.width / stixel_width` columns of up to `capacity` stixels.
    pub fn stereo(size: Size, stixel_width: usize, capacity: usize) -> Self {
        let black = Image::new(size.width, size.height);
        let columns = size.width / stixel_width.max(1);
        Self {
            set: Box::new(FrameSet::stereo(size)),
            rectified: Rectified {
                left: black.clone(),
                right: Some(black),
                left_rgb: None,
            },
            result: FrameResult::new(size, columns, stixel_width, capacity),
        }
    }
}
