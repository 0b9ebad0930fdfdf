//! The mono camera's picture.
use super::{Gap, Image, Rgb, Size, Timestamp};

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

impl PixelKind {
    /// What it is, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grey8 => "8-bit grey",
            Self::Grey16 => "16-bit grey",
            Self::Rgb8 => "RGB",
        }
    }
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

    /// Copies the pixels of a picture of the same kind and size; allocates nothing.
    ///
    /// # Panics
    /// When kinds or sizes differ.
    pub fn copy_from(&mut self, other: &Self) {
        match (self, other) {
            (Self::Grey8(to), Self::Grey8(from)) => to.copy_from(from),
            (Self::Grey16(to), Self::Grey16(from)) => to.copy_from(from),
            (Self::Rgb8(to), Self::Rgb8(from)) => to.copy_from(from),
            (to, from) => panic!("copy from {} to {}", from.kind().name(), to.kind().name()),
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
    /// Why it is not to be looked at: none was taken near enough in time to the set, or its file
    /// is missing, unreadable or of another size.
    pub gap: Option<Gap>,
}

impl MonoFrame {
    /// A black picture.
    pub fn new(kind: PixelKind, size: Size) -> Self {
        Self {
            timestamp: Timestamp(0),
            image: MonoImage::new(kind, size),
            gap: None,
        }
    }

    /// The picture, where it is to be looked at.
    pub fn usable(&self) -> Option<&MonoImage> {
        self.gap.is_none().then_some(&self.image)
    }
}
