//! Picture files to images.
use std::{fs::File, io::BufReader, path::Path};

use crate::frame::{Image, Rgb};

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

/// What is wrong with a picture file.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The file can't be opened or read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file is damaged or of a kind that is not supported.
    #[error("{0}")]
    Format(String),
}

/// Reads a picture file.
///
/// # Errors
/// When it can't be opened, is truncated or of an unknown kind.
pub fn read(path: &Path) -> Result<Picture, PictureError> {
    let err = |e: &dyn std::fmt::Display| PictureError::Format(e.to_string());
    let mut reader = png::Decoder::new(BufReader::new(File::open(path)?))
        .read_info()
        .map_err(|e| err(&e))?;
    let size = reader
        .output_buffer_size()
        .ok_or_else(|| err(&"too large"))?;
    let mut bytes = vec![0; size];
    let info = reader.next_frame(&mut bytes).map_err(|e| err(&e))?;
    let (w, h) = (info.width as usize, info.height as usize);
    let picture = match (info.color_type, info.bit_depth) {
        (png::ColorType::Grayscale, png::BitDepth::Eight) => {
            Image::from_vec(w, h, bytes).map(Picture::Grey8)
        }
        (png::ColorType::Grayscale, png::BitDepth::Sixteen) => {
            let pixels = bytes
                .chunks_exact(2)
                .map(|b| u16::from_be_bytes([b[0], b[1]]));
            Image::from_vec(w, h, pixels.collect()).map(Picture::Grey16)
        }
        (png::ColorType::Rgb, png::BitDepth::Eight) => {
            let pixels = bytes.chunks_exact(3).map(|b| [b[0], b[1], b[2]]);
            Image::from_vec(w, h, pixels.collect()).map(Picture::Rgb8)
        }
        _ => None,
    };
    picture.ok_or_else(|| err(&"unsupported PNG"))
}

/// Grey of an RGB pixel: `(77 r + 150 g + 29 b + 128) >> 8` (Rec. 601 luma in 1/256).
pub fn grey_of([r, g, b]: [u8; 3]) -> u8 {
    ((77 * u32::from(r) + 150 * u32::from(g) + 29 * u32::from(b) + 128) >> 8) as u8
}
