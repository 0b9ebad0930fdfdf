//! JPEG files. The decoder's portable code is used, so that the pixels are the same on every
//! processor.
use std::io::{ErrorKind, Read};

use jpeg_decoder::{Decoder, Error, PixelFormat};

use super::{MAX_PIXELS, Picture, PictureError, checked};
use crate::frame::Size;

/// Width and height.
pub(super) fn size(reader: impl Read) -> Result<Size, PictureError> {
    head(&mut Decoder::new(reader)).map(|(size, _)| size)
}

fn head<R: Read>(decoder: &mut Decoder<R>) -> Result<(Size, PixelFormat), PictureError> {
    decoder.read_info().map_err(error)?;
    let info = decoder
        .info()
        .ok_or_else(|| PictureError::Format("damaged JPEG: no header".into()))?;
    let size = checked(info.width.into(), info.height.into())?;
    Ok((size, info.pixel_format))
}

/// Decodes a whole JPEG.
pub(super) fn decode(bytes: &[u8], picture: &mut Picture) -> Result<(), PictureError> {
    // The decoder fills up what is missing at the end. A whole file has an end marker after its
    // last scan; one before that is the end of a preview.
    let scan = bytes.windows(2).rposition(|w| w == [0xFF, 0xDA]);
    if !scan.is_some_and(|at| bytes[at..].windows(2).any(|w| w == [0xFF, 0xD9])) {
        return Err(PictureError::Truncated("JPEG: no end marker".into()));
    }
    let mut decoder = Decoder::new(bytes);
    decoder.set_max_decoding_buffer_size(4 * MAX_PIXELS);
    let (size, format) = head(&mut decoder)?;
    if !matches!(format, PixelFormat::L8 | PixelFormat::RGB24) {
        return Err(PictureError::Format(format!(
            "a JPEG of pixel format {format:?}; grey of 8 bits and RGB are supported"
        )));
    }
    let pixels = decoder.decode().map_err(error)?;
    let short = || PictureError::Truncated("JPEG: fewer pixels than its header says".into());
    match format {
        PixelFormat::L8 => {
            let from = pixels.get(..size.area()).ok_or_else(short)?;
            let image = picture.as_grey8(size);
            for (row, from) in image.rows_mut().zip(from.chunks_exact(size.width)) {
                row.copy_from_slice(from);
            }
        }
        _ => {
            let from = pixels.get(..3 * size.area()).ok_or_else(short)?;
            let image = picture.as_rgb8(size);
            for (row, from) in image.rows_mut().zip(from.chunks_exact(3 * size.width)) {
                row.as_flattened_mut().copy_from_slice(from);
            }
        }
    }
    Ok(())
}

fn error(e: Error) -> PictureError {
    match e {
        Error::Io(e) if e.kind() == ErrorKind::UnexpectedEof => {
            PictureError::Truncated("JPEG".into())
        }
        Error::Format(text) => PictureError::Format(format!("damaged JPEG: {text}")),
        e => PictureError::Format(format!("JPEG: {e}")),
    }
}
