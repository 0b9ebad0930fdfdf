//! The mono camera's picture.
use super::{Image, Rgb, Size, Timestamp};

/// What a mono picture is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PixelKind {
    /// 8-bit grey.
    Grey8,
    /// 16-bit grey.
    Grey16,
    /// RGB, 8 bits a channel.
    Rgb8,
}

/// A mono picture. Buffers are kept for a drive, so the variant is that of the drive.
#[derive(Clone, Debug, PartialEq)]
pub enum MonoImage {
    /// 8-bit grey.
    Grey8(Image<u8>),
    /// 16-bit grey, the full range in use.
    Grey16(Image<u16>),
    /// RGB, 8 bits a channel.
    Rgb8(Rgb),
}

impl MonoImage {
    /// A black picture.
    pub fn new(kind: PixelKind, size: Size) -> Self {
        match kind {
            PixelKind::Grey8 => Self::Grey8(Image::new(size.width, size.height)),
            PixelKind::Grey16 => Self::Grey16(Image::new(size.width, size.height)),
            PixelKind::Rgb8 => Self::Rgb8(Image::new(size.width, size.height)),
        }
    }

    /// What it is made of.
    pub const fn kind(&self) -> PixelKind {
        match self {
            Self::Grey8(_) => PixelKind::Grey8,
            Self::Grey16(_) => PixelKind::Grey16,
            Self::Rgb8(_) => PixelKind::Rgb8,
        }
    }

    /// Width and height.
    pub fn size(&self) -> Size {
        match self {
            Self::Grey8(i) => i.size(),
            Self::Grey16(i) => i.size(),
            Self::Rgb8(i) => i.size(),
        }
    }
}

/// The mono camera's frame that belongs to a frame set.
#[derive(Clone, Debug, PartialEq)]
pub struct MonoFrame {
    /// When it was taken.
    pub timestamp: Timestamp,
    /// What it shows.
    pub image: MonoImage,
    /// Whether it was taken near enough in time to the set; if not it is not looked at.
    pub synchronised: bool,
}
