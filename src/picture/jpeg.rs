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

/// What a decoder that needs more than a scan holds reads next: ones, stuffed. Sixteen of them
/// are no Huffman code (ITU-T T.81, C.2: codes of all ones are reserved), so it fails where it
/// would fill up with grey. What is whole ends before them.
///
/// Not found that way: a progressive file that lost whole scans at its end, and a refinement
/// scan cut within a run of blocks without new coefficients.
const BEYOND: &[u8] = &{
    let mut ones = [0xFF; 64];
    let mut i = 1;
    while i < ones.len() {
        ones[i] = 0;
        i += 2;
    }
    ones
};

/// The file up to the end of its last scan, and from the end marker on. A whole file has one
/// after its last scan; one before that is the end of a preview.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), PictureError> {
    let find = |from: &[u8]| from.windows(2).position(|w| w == [0xFF, 0xD9]);
    let scan = bytes.windows(2).rposition(|w| w == [0xFF, 0xDA]);
    let end = scan.and_then(|at| Some(at + find(&bytes[at..])?));
    let end = end.ok_or_else(|| PictureError::Truncated("JPEG: no end marker".into()))?;
    let mut scans = &bytes[..end];
    // Fill bytes before the marker would swallow what is put after them.
    while let [before @ .., 0xFF] = scans {
        scans = before;
    }
    Ok((scans, &bytes[end..]))
}

/// Decodes a whole JPEG.
pub(super) fn decode(bytes: &[u8], picture: &mut Picture) -> Result<(), PictureError> {
    let (scans, rest) = split(bytes)?;
    let mut decoder = Decoder::new(scans.chain(BEYOND).chain(rest));
    decoder.set_max_decoding_buffer_size(4 * MAX_PIXELS);
    let (size, format) = head(&mut decoder)?;
    if !matches!(format, PixelFormat::L8 | PixelFormat::RGB24) {
        return Err(PictureError::Format(format!(
            "a JPEG of pixel format {format:?}; grey of 8 bits and RGB are supported"
        )));
    }
    let pixels = decoder.decode().map_err(|e| match e {
        // So it also ends where the data itself is damaged.
        Error::Format(text) if text.contains("huffman") => PictureError::Truncated(format!(
            "or damaged JPEG: its scan does not hold all pixels ({text})"
        )),
        e => error(e),
    })?;
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
