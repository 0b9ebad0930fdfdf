//! Picture files to images: PNG, PGM/PPM, JPEG and BMP, recognised by content.
//!
//! What becomes of each kind:
//!
//! | file | picture |
//! |---|---|
//! | grey of 1, 2, 4 or 8 bits | [`Picture::Grey8`]; fewer than 8 bits are stretched to 0-255 |
//! | grey of 16 bits (PGM: maximum above 255) | [`Picture::Grey16`], samples as they are |
//! | RGB of 8 bits, palette | [`Picture::Rgb8`] |
//! | RGB of 16 bits | [`Picture::Rgb8`], `(255 v + max / 2) / max` of each sample (PNG: max = 65535) |
//! | alpha, transparent colours | dropped, the colour stays as it is |
//! | PGM/PPM with a maximum below 255 | stretched by the same formula |
//! | BMP, uncompressed | [`Picture::Rgb8`]; [`Picture::Grey8`] where its palette's colours in use are grey |
//! | JPEG | grey or RGB as it was written; CMYK and 16-bit grey JPEG are refused |
//!
//! A file that ends too early or is damaged is an error, never a part of a picture.
mod bmp;
mod jpeg;
mod png;
mod pnm;

use std::{
    fs::File,
    io::{BufReader, ErrorKind, Read, Take},
    path::Path,
};

use crate::{
    files,
    frame::{Image, Rgb, Size},
};

/// The longest side of a picture, px.
pub const MAX_SIDE: usize = 16_384;

/// The largest picture, px: twice 8K video.
pub const MAX_PIXELS: usize = 1 << 26;

/// The largest picture file, bytes.
pub const MAX_FILE: u64 = 1 << 29;

/// A decoded picture file.
#[derive(Clone, Debug, PartialEq)]
pub enum Picture {
    /// 8-bit grey.
    Grey8(Image<u8>),
    /// 16-bit grey.
    Grey16(Image<u16>),
    /// 8-bit colour.
    Rgb8(Rgb),
}

impl Default for Picture {
    /// A grey picture without pixels.
    fn default() -> Self {
        Self::Grey8(Image::new(0, 0))
    }
}

impl Picture {
    /// Width and height.
    pub fn size(&self) -> Size {
        match self {
            Self::Grey8(image) => image.size(),
            Self::Grey16(image) => image.size(),
            Self::Rgb8(image) => image.size(),
        }
    }

    /// What the pixels are, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Grey8(_) => "8-bit grey",
            Self::Grey16(_) => "16-bit grey",
            Self::Rgb8(_) => "RGB",
        }
    }

    /// Becomes 8-bit grey of this size; keeps its memory when it was that already.
    pub(crate) fn as_grey8(&mut self, size: Size) -> &mut Image<u8> {
        if !matches!(self, Self::Grey8(image) if image.size() == size) {
            *self = Self::Grey8(Image::new(size.width, size.height));
        }
        match self {
            Self::Grey8(image) => image,
            _ => unreachable!("just made so"),
        }
    }

    /// As [`Picture::as_grey8`], 16-bit grey.
    pub(crate) fn as_grey16(&mut self, size: Size) -> &mut Image<u16> {
        if !matches!(self, Self::Grey16(image) if image.size() == size) {
            *self = Self::Grey16(Image::new(size.width, size.height));
        }
        match self {
            Self::Grey16(image) => image,
            _ => unreachable!("just made so"),
        }
    }

    /// As [`Picture::as_grey8`], colour.
    pub(crate) fn as_rgb8(&mut self, size: Size) -> &mut Rgb {
        if !matches!(self, Self::Rgb8(image) if image.size() == size) {
            *self = Self::Rgb8(Image::new(size.width, size.height));
        }
        match self {
            Self::Rgb8(image) => image,
            _ => unreachable!("just made so"),
        }
    }
}

/// What is wrong with a picture file. The texts do not name the file; who asked for it does.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The file can't be opened or read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The first bytes are of no kind that is known.
    #[error("not a PNG, PGM, PPM, JPEG or BMP picture (begins with {0})")]
    Unknown(String),
    /// The file ends before the picture does.
    #[error("truncated {0}")]
    Truncated(String),
    /// More pixels or bytes than are accepted.
    #[error(
        "too large: {0}; a picture may have up to {MAX_SIDE} px a side, {MAX_PIXELS} px in all, and {MAX_FILE} bytes"
    )]
    TooLarge(String),
    /// The file is damaged or of a variant that is not supported.
    #[error("{0}")]
    Format(String),
}

/// The kinds of files, by their first bytes.
enum Kind {
    Png,
    Pnm,
    Jpeg,
    Bmp,
}

fn kind_of(bytes: &[u8]) -> Result<Kind, PictureError> {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
    match bytes {
        [] => Err(PictureError::Truncated("picture: the file is empty".into())),
        _ if bytes.starts_with(PNG) => Ok(Kind::Png),
        _ if bytes.len() < PNG.len() && PNG.starts_with(bytes) => {
            Err(PictureError::Truncated("PNG in its signature".into()))
        }
        [b'P', b'2' | b'3' | b'5' | b'6', ..] => Ok(Kind::Pnm),
        [0xFF, 0xD8, ..] => Ok(Kind::Jpeg),
        [b'B', b'M', ..] => Ok(Kind::Bmp),
        _ => {
            let first: Vec<String> = bytes.iter().take(4).map(|b| format!("{b:02X}")).collect();
            Err(PictureError::Unknown(first.join(" ")))
        }
    }
}

/// Refuses sizes that no memory should be taken for.
pub(crate) fn checked(width: u64, height: u64) -> Result<Size, PictureError> {
    if width == 0 || height == 0 {
        return Err(PictureError::Format(format!(
            "a picture of {width}x{height} px has no pixels"
        )));
    }
    let (side, all) = (MAX_SIDE as u64, MAX_PIXELS as u64);
    if width > side || height > side || width * height > all {
        return Err(PictureError::TooLarge(format!("{width}x{height} px")));
    }
    Ok(Size::new(width as usize, height as usize))
}

/// Reads picture files one after the other, keeping its memory.
#[derive(Debug, Default)]
pub struct PictureReader {
    file: Vec<u8>,
    line: Vec<u8>,
}

impl PictureReader {
    /// A reader that holds no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a picture file into `picture`, whose memory is used again when kind and size are
    /// the same. After an error `picture` holds anything.
    ///
    /// # Errors
    /// When the file can't be read, is truncated, damaged, too large or of an unknown kind.
    pub fn read_into(&mut self, path: &Path, picture: &mut Picture) -> Result<(), PictureError> {
        self.file.clear();
        open(path)?.read_to_end(&mut self.file)?;
        decode_into(&self.file, &mut self.line, picture)
    }
}

/// Opens a plain file; a folder or anything else is refused here, with a clear text.
fn open(path: &Path) -> Result<Take<File>, PictureError> {
    files::open(path, MAX_FILE).map_err(|e| match e.kind() {
        ErrorKind::InvalidInput => PictureError::Format(e.to_string()),
        ErrorKind::FileTooLarge => PictureError::TooLarge(e.to_string()),
        _ => PictureError::Io(e),
    })
}

/// Reads a picture file.
///
/// # Errors
/// As [`PictureReader::read_into`].
pub fn read(path: &Path) -> Result<Picture, PictureError> {
    let mut picture = Picture::default();
    PictureReader::new().read_into(path, &mut picture)?;
    Ok(picture)
}

/// Decodes the bytes of a picture file.
///
/// # Errors
/// As [`PictureReader::read_into`].
pub fn decode(bytes: &[u8]) -> Result<Picture, PictureError> {
    let mut picture = Picture::default();
    decode_into(bytes, &mut Vec::new(), &mut picture)?;
    Ok(picture)
}

/// As [`decode`], into memory that is kept; `line` is for rows on the way.
pub(crate) fn decode_into(
    bytes: &[u8],
    line: &mut Vec<u8>,
    picture: &mut Picture,
) -> Result<(), PictureError> {
    match kind_of(bytes)? {
        Kind::Png => png::decode(bytes, line, picture),
        Kind::Pnm => pnm::decode(bytes, picture),
        Kind::Jpeg => jpeg::decode(bytes, picture),
        Kind::Bmp => bmp::decode(bytes, picture),
    }
}

/// The size of a picture, from the head of its file.
///
/// # Errors
/// As [`PictureReader::read_into`], as far as the head shows it.
pub fn size(path: &Path) -> Result<Size, PictureError> {
    let mut reader = BufReader::new(open(path)?);
    let mut head = Vec::new();
    reader.by_ref().take(4096).read_to_end(&mut head)?;
    match kind_of(&head)? {
        Kind::Png => png::size(&head),
        Kind::Pnm => pnm::size(&head),
        Kind::Jpeg => jpeg::size(head.chain(reader)),
        Kind::Bmp => bmp::size(&head),
    }
}

/// Grey of an RGB pixel: `(77 r + 150 g + 29 b + 128) >> 8` (Rec. 601 luma in 1/256).
pub fn grey_of([r, g, b]: [u8; 3]) -> u8 {
    ((77 * u32::from(r) + 150 * u32::from(g) + 29 * u32::from(b) + 128) >> 8) as u8
}

/// A sample of 0..=`max` as 0..=255, rounded.
fn to_8_bits(sample: u16, max: u16) -> u8 {
    let (v, max) = (u32::from(sample), u32::from(max));
    ((255 * v + max / 2) / max) as u8
}
