//! Raw images to the rectified camera by fixed-point maps.
//!
//! # The numeric contract
//! A rectified pixel whose map entry is `[x, y]` in 1/256 px takes, per channel, the bilinear mean
//! of the four raw pixels around it, with `x0 = x >> 8`, `a = x & 255`, `y0 = y >> 8`,
//! `b = y & 255`:
//!
//! `((256 - a)(256 - b) p(x0, y0) + a (256 - b) p(x0 + 1, y0) + (256 - a) b p(x0, y0 + 1)
//!  + a b p(x0 + 1, y0 + 1) + 32768) >> 16`
//!
//! in unsigned 32 bits: halves go up, and pixels beyond the last column or row have weight 0. A
//! pixel that is [`OUTSIDE`](crate::calib::OUTSIDE) becomes 0 and is 0 in the mask. Images that
//! are rectified already are copied.
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use crate::frame::{Image, Rgb, Size};

pub use cpu::usable_pixels;

/// The raw images of an instant.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Left image.
    pub left: &'a Image<u8>,
    /// Right image, where there is one.
    pub right: Option<&'a Image<u8>>,
    /// The left image in colour, where there is one.
    pub left_rgb: Option<&'a Rgb>,
}

/// The rectified images of an instant. What is `None` is not computed; what is wanted and not in
/// the input becomes black.
#[derive(Clone, Debug, PartialEq)]
pub struct Rectified {
    /// Left image.
    pub left: Image<u8>,
    /// Right image, where wanted.
    pub right: Option<Image<u8>>,
    /// The left image in colour, where wanted.
    pub left_rgb: Option<Rgb>,
}

impl Rectified {
    /// Black images of this size.
    pub fn new(size: Size, right: bool, left_rgb: bool) -> Self {
        let Size { width, height } = size;
        Self {
            left: Image::new(width, height),
            right: right.then(|| Image::new(width, height)),
            left_rgb: left_rgb.then(|| Image::new(width, height)),
        }
    }
}

/// Why a plan can't be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RectifyError {
    /// The images have another size than the rectification was made for.
    #[error("images are {found}, the rectification is for {expected}")]
    ImageSize {
        /// The images' size.
        found: Size,
        /// The rectification's.
        expected: Size,
    },
    /// The mask has another size than the images.
    #[error("the mask is {found}, the images are {expected}")]
    MaskSize {
        /// The mask's size.
        found: Size,
        /// The images'.
        expected: Size,
    },
}
