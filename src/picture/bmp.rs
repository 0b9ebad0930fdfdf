//! BMP files, uncompressed.
use embedded_graphics::{
    geometry::Point,
    pixelcolor::{
        Rgb888, RgbColor as _,
        raw::{RawData as _, RawU24},
    },
};
use tinybmp::{Bpp, CompressionMethod, ParseError, RawBmp};

use super::{Picture, PictureError, checked};
use crate::frame::{Image, Size};

/// The length of the shortest header that is read (BITMAPINFOHEADER).
const HEADER: u32 = 40;

/// Width and height from the head of the file.
pub(super) fn size(head: &[u8]) -> Result<Size, PictureError> {
    let number = |at: usize| {
        let bytes = head.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let (Some(header), Some(width), Some(height)) = (number(14), number(18), number(22)) else {
        return Err(PictureError::Truncated("BMP in its header".into()));
    };
    if header < HEADER {
        return Err(PictureError::Format(format!(
            "a BMP with a header of {header} bytes, expected {HEADER} or more"
        )));
    }
    // A negative height says that the rows begin at the top.
    let height = (height as i32).unsigned_abs();
    checked(width.into(), height.into())
}

/// Decodes a whole file. Palettes and colours of grey alone give grey.
pub(super) fn decode(bytes: &[u8], picture: &mut Picture) -> Result<(), PictureError> {
    let expected = size(bytes)?;
    let bmp = RawBmp::from_slice(bytes).map_err(|e| match e {
        ParseError::UnexpectedEndOfFile => PictureError::Truncated("BMP".into()),
        e => PictureError::Format(format!("a damaged or unusual BMP: {e:?}")),
    })?;
    let header = bmp.header();
    let found = (
        header.image_size.width as usize,
        header.image_size.height as usize,
    );
    if found != (expected.width, expected.height) {
        return Err(PictureError::Format("damaged BMP: its size".into()));
    }
    if matches!(
        header.compression_method,
        CompressionMethod::Rle4 | CompressionMethod::Rle8
    ) {
        return Err(PictureError::Format(
            "a compressed BMP; uncompressed ones are supported".into(),
        ));
    }
    if header.bpp == Bpp::Bits16 {
        return Err(PictureError::Format(
            "a BMP of 16 bits a pixel; 1, 4, 8, 24 and 32 are supported".into(),
        ));
    }
    let indexed = header.bpp.bits() <= 8;
    if indexed && bmp.color_table().is_none() {
        return Err(PictureError::Format(
            "a BMP of indices without a palette".into(),
        ));
    }
    // One by one: the iterators of tinybmp 0.7 disagree on which row of a file that begins at
    // the bottom is the first.
    let colour = |x: usize, y: usize| -> Option<[u8; 3]> {
        let raw = bmp.pixel(Point::new(x as i32, y as i32))?;
        let colour = match bmp.color_table().filter(|_| indexed) {
            Some(palette) => palette.get(raw)?,
            None => Rgb888::from(RawU24::from_u32(raw)),
        };
        Some([colour.r(), colour.g(), colour.b()])
    };
    let damaged = || PictureError::Format("damaged BMP: an index beyond its palette".into());
    let Size { width, height } = expected;
    let image = picture.as_rgb8(expected);
    for y in 0..height {
        for x in 0..width {
            image.set(x, y, colour(x, y).ok_or_else(damaged)?);
        }
    }
    if indexed && image.pixels().all(|[r, g, b]| r == g && g == b) {
        let grey = Image::from_fn(width, height, |x, y| image.get(x, y)[0]);
        *picture = Picture::Grey8(grey);
    }
    Ok(())
}
