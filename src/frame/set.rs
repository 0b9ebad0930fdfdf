use super::{Disparity, Image, Rgb, Size, Timestamp};

/// Which frame of its drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameId {
    /// Place in the drive, 0-based, counting frames that are missing.
    pub index: usize,
    /// The source file's own number where it has one, else `index`; names files of results.
    pub number: u64,
    /// When it was taken.
    pub timestamp: Timestamp,
}

/// What enters the loop for one instant. All images have the size of their source; those that
/// a source does not have are `None` for the whole drive.
#[derive(Clone, Debug)]
pub struct FrameSet {
    /// Which frame.
    pub id: FrameId,
    /// Left image, grey.
    pub left: Image<u8>,
    /// Right image, grey; absent where disparities are stored or the drive is mono.
    pub right: Option<Image<u8>>,
    /// The left image in colour, where the source has colour.
    pub left_rgb: Option<Rgb>,
    /// Disparities stored with the drive, in place of a right image; already rectified.
    pub stored_disparity: Option<Disparity>,
}

impl FrameSet {
    /// A black stereo pair of this size, without colour.
    pub fn stereo(size: Size) -> Self {
        let black = Image::new(size.width, size.height);
        Self {
            id: FrameId::default(),
            left: black.clone(),
            right: Some(black),
            left_rgb: None,
            stored_disparity: None,
        }
    }
}
