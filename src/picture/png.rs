//! PNG files.
use std::io::{Cursor, ErrorKind};

use ::png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::{Picture, PictureError, checked, to_8_bits};
use crate::frame::Size;

/// Deflate makes at most 1,032 bytes of one, so a short file can't hold a large picture.
const MAX_INFLATION: usize = 1032;

/// Width and height from the first 24 bytes: signature, chunk length, `IHDR`, two numbers.
pub(super) fn size(head: &[u8]) -> Result<Size, PictureError> {
    let number = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    match (head.get(12..16), number(16), number(20)) {
        (Some(b"IHDR"), Some(width), Some(height)) => checked(width.into(), height.into()),
        (Some(other), Some(_), Some(_)) => Err(PictureError::Format(format!(
            "damaged PNG: begins with a chunk {:?} instead of IHDR",
            String::from_utf8_lossy(other)
        ))),
        _ => Err(PictureError::Truncated("PNG in its header".into())),
    }
}

/// How a row that the decoder gives becomes pixels.
struct Rows {
    samples: usize,
    deep: bool,
    /// Bits of an index, and the colours, R G B each: the decoder itself would take indices
    /// beyond them for black.
    palette: Option<(usize, Vec<u8>)>,
}

impl Rows {
    /// Whether a row is the pixels' memory already.
    fn is_plain(&self) -> bool {
        !self.deep && self.palette.is_none() && matches!(self.samples, 1 | 3)
    }

    /// Bytes of a row that the decoder gives.
    fn bytes(&self, width: usize) -> usize {
        match &self.palette {
            Some((bits, _)) => (width * bits).div_ceil(8),
            None => width * self.samples * (1 + usize::from(self.deep)),
        }
    }

    fn indexed(bits: usize, palette: &[u8], line: &[u8], row: &mut [[u8; 3]]) -> Result<(), usize> {
        let (colours, _) = palette.as_chunks::<3>();
        for (x, to) in row.iter_mut().enumerate() {
            let at = x * bits;
            let index = usize::from(line[at / 8] >> (8 - bits - at % 8)) & ((1 << bits) - 1);
            *to = *colours.get(index).ok_or(index)?;
        }
        Ok(())
    }

    fn grey8(&self, line: &[u8], row: &mut [u8]) {
        for (to, from) in row.iter_mut().zip(line.chunks_exact(self.samples)) {
            *to = from[0];
        }
    }

    fn grey16(&self, line: &[u8], row: &mut [u16]) {
        for (to, from) in row.iter_mut().zip(line.chunks_exact(2 * self.samples)) {
            *to = u16::from_be_bytes([from[0], from[1]]);
        }
    }

    fn rgb8(&self, line: &[u8], row: &mut [[u8; 3]]) {
        if self.deep {
            for (to, from) in row.iter_mut().zip(line.chunks_exact(2 * self.samples)) {
                let sample = |i| to_8_bits(u16::from_be_bytes([from[i], from[i + 1]]), u16::MAX);
                *to = [sample(0), sample(2), sample(4)];
            }
        } else {
            for (to, from) in row.iter_mut().zip(line.chunks_exact(self.samples)) {
                *to = [from[0], from[1], from[2]];
            }
        }
    }
}

/// A row of `picture` as bytes, when it lies in memory as PNG writes it.
fn plain_row(picture: &mut Picture, y: usize) -> &mut [u8] {
    match picture {
        Picture::Grey8(image) => image.row_mut(y),
        Picture::Rgb8(image) => image.row_mut(y).as_flattened_mut(),
        Picture::Grey16(_) => &mut [],
    }
}

fn convert_row(
    rows: &Rows,
    line: &[u8],
    picture: &mut Picture,
    y: usize,
) -> Result<(), PictureError> {
    match (picture, &rows.palette) {
        (Picture::Grey8(image), _) => rows.grey8(line, image.row_mut(y)),
        (Picture::Grey16(image), _) => rows.grey16(line, image.row_mut(y)),
        (Picture::Rgb8(image), None) => rows.rgb8(line, image.row_mut(y)),
        (Picture::Rgb8(image), Some((bits, palette))) => {
            Rows::indexed(*bits, palette, line, image.row_mut(y)).map_err(|index| {
                PictureError::Format(format!(
                    "damaged PNG: colour {index} in row {y}, of a palette of {}",
                    palette.len() / 3
                ))
            })?;
        }
    }
    Ok(())
}

/// Decodes a whole PNG; of an animation its still picture.
pub(super) fn decode(
    bytes: &[u8],
    line: &mut Vec<u8>,
    picture: &mut Picture,
) -> Result<(), PictureError> {
    let size = size(bytes)?;
    // A row is at most 4 samples of 2 bytes and the filter byte: what the decoder itself takes
    // is a few rows and what lies in the file.
    let limits = Limits {
        bytes: 16 * 8 * size.width + 2 * bytes.len() + (1 << 20),
    };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    let head = decoder
        .read_header_info()
        .map_err(|e| error(e, "in its header"))?;
    let transformations = match head.color_type {
        ColorType::Indexed => Transformations::IDENTITY,
        _ => Transformations::EXPAND,
    };
    decoder.set_transformations(transformations);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder
        .read_info()
        .map_err(|e| error(e, "before its first row"))?;
    let info = reader.info();
    let raw = info
        .raw_row_length()
        .saturating_sub(1)
        .saturating_mul(size.height);
    if raw / MAX_INFLATION > bytes.len() {
        return Err(PictureError::Truncated(format!(
            "PNG: {} bytes can't hold {size} px",
            bytes.len()
        )));
    }
    if let Some(part) = info.frame_control
        && (part.width as usize, part.height as usize) != (size.width, size.height)
    {
        return Err(PictureError::Format(
            "an animated PNG whose first picture is only a part".into(),
        ));
    }
    let interlaced = info.interlaced;
    let (colour, depth) = reader.output_color_type();
    let deep = depth == BitDepth::Sixteen;
    let palette = (colour == ColorType::Indexed).then(|| {
        let colours = reader.info().palette.as_deref();
        (depth as usize, colours.unwrap_or_default().to_vec())
    });
    let rows = Rows {
        samples: colour.samples(),
        deep,
        palette,
    };
    match (colour, deep) {
        (ColorType::Grayscale | ColorType::GrayscaleAlpha, false) => {
            picture.as_grey8(size);
        }
        (ColorType::Grayscale | ColorType::GrayscaleAlpha, true) => {
            picture.as_grey16(size);
        }
        (ColorType::Rgb | ColorType::Rgba | ColorType::Indexed, _) => {
            picture.as_rgb8(size);
        }
    }
    let line_len = rows.bytes(size.width);
    if interlaced {
        line.resize(line_len * size.height, 0);
        reader
            .next_frame(line)
            .map_err(|e| error(e, "in its interlaced rows"))?;
        for (y, line) in line.chunks_exact(line_len).enumerate() {
            convert_row(&rows, line, picture, y)?;
        }
    } else {
        line.resize(line_len, 0);
        for y in 0..size.height {
            let result = if rows.is_plain() {
                reader.read_row(plain_row(picture, y))
            } else {
                reader.read_row(line)
            };
            match result {
                Ok(Some(_)) if rows.is_plain() => {}
                Ok(Some(_)) => convert_row(&rows, line, picture, y)?,
                Ok(None) => return Err(PictureError::Truncated(after(y, size))),
                Err(e) => return Err(row_error(e, y, size)),
            }
        }
    }
    reader.finish().map_err(|e| row_error(e, size.height, size))
}

/// Where the picture stops, after `y` good rows.
fn after(y: usize, size: Size) -> String {
    format!("PNG: it ends after row {y} of {}", size.height)
}

fn row_error(e: DecodingError, y: usize, size: Size) -> PictureError {
    match error(e, "") {
        PictureError::Truncated(_) => PictureError::Truncated(after(y, size)),
        PictureError::Format(text) => {
            PictureError::Format(format!("{text} (after row {y} of {})", size.height))
        }
        other => other,
    }
}

fn error(e: DecodingError, place: &str) -> PictureError {
    match e {
        DecodingError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => {
            PictureError::Truncated(format!("PNG: it ends {place}"))
        }
        DecodingError::LimitsExceeded => {
            PictureError::TooLarge("PNG chunks beyond the file's own length".into())
        }
        e => PictureError::Format(format!("damaged PNG: {e}")),
    }
}
