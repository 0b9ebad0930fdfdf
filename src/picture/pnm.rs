//! PGM and PPM files, binary (P5, P6) and in text (P2, P3).
use super::{Picture, PictureError, checked, to_8_bits};
use crate::frame::Size;

/// What the head of a file says.
struct Head {
    colour: bool,
    text: bool,
    size: Size,
    max: u16,
    /// Where the samples begin.
    at: usize,
}

/// Numbers in text, between white space and comments (`#` to the end of the line).
struct Numbers<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Numbers<'_> {
    fn next(&mut self, what: &str) -> Result<u64, PictureError> {
        loop {
            match self.bytes.get(self.at) {
                None => {
                    return Err(PictureError::Truncated(format!(
                        "PGM/PPM before its {what}"
                    )));
                }
                Some(b'#') => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest
                        .iter()
                        .position(|&b| matches!(b, b'\n' | b'\r'))
                        .unwrap_or(rest.len());
                }
                Some(b) if b.is_ascii_whitespace() => self.at += 1,
                Some(b) if b.is_ascii_digit() => break,
                Some(&b) => {
                    return Err(PictureError::Format(format!(
                        "damaged PGM/PPM: {:?} at byte {} instead of its {what}",
                        char::from(b),
                        self.at
                    )));
                }
            }
        }
        let mut value = 0u64;
        while let Some(b) = self.bytes.get(self.at).filter(|b| b.is_ascii_digit()) {
            value = value.saturating_mul(10).saturating_add(u64::from(b - b'0'));
            self.at += 1;
        }
        Ok(value)
    }
}

fn head(bytes: &[u8]) -> Result<Head, PictureError> {
    let kind = bytes.get(1).copied().unwrap_or_default();
    let mut numbers = Numbers { bytes, at: 2 };
    let width = numbers.next("width")?;
    let height = numbers.next("height")?;
    let size = checked(width.min(1 << 31), height.min(1 << 31))?;
    let max = numbers.next("maximum")?;
    let max = u16::try_from(max).ok().filter(|&m| m > 0).ok_or_else(|| {
        PictureError::Format(format!(
            "damaged PGM/PPM: maximum {max}, expected 1 to 65535"
        ))
    })?;
    match bytes.get(numbers.at) {
        Some(b) if b.is_ascii_whitespace() => {}
        None => {
            return Err(PictureError::Truncated(
                "PGM/PPM before its first row".into(),
            ));
        }
        Some(_) => {
            return Err(PictureError::Format(
                "damaged PGM/PPM: no white space after its maximum".into(),
            ));
        }
    }
    Ok(Head {
        colour: matches!(kind, b'3' | b'6'),
        text: matches!(kind, b'2' | b'3'),
        size,
        max,
        at: numbers.at + 1,
    })
}

/// Width and height.
pub(super) fn size(bytes: &[u8]) -> Result<Size, PictureError> {
    head(bytes).map(|head| head.size)
}

/// Decodes the first picture of a file.
pub(super) fn decode(bytes: &[u8], picture: &mut Picture) -> Result<(), PictureError> {
    let head = head(bytes)?;
    let body = bytes.get(head.at..).unwrap_or_default();
    let Size { width, height } = head.size;
    let samples = width * if head.colour { 3 } else { 1 };
    // In text a sample takes a digit and, but for the last, white space.
    let (sample_bytes, need) = match (head.text, head.max > 255) {
        (true, _) => (2, 2 * samples * height - 1),
        (false, false) => (1, samples * height),
        (false, true) => (2, 2 * samples * height),
    };
    if body.len() < need {
        return Err(PictureError::Truncated(format!(
            "PGM/PPM: it ends after row {} of {height}",
            body.len() / (samples * sample_bytes)
        )));
    }
    let mut numbers = Numbers { bytes: body, at: 0 };
    let mut next = |row: usize| -> Result<u16, PictureError> {
        let value = if head.text {
            match numbers.next("samples") {
                Err(PictureError::Truncated(_)) => {
                    return Err(PictureError::Truncated(format!(
                        "PGM/PPM: it ends after row {row} of {height}"
                    )));
                }
                value => value?,
            }
        } else if head.max > 255 {
            let at = numbers.at;
            numbers.at += 2;
            u64::from(u16::from_be_bytes([body[at], body[at + 1]]))
        } else {
            let at = numbers.at;
            numbers.at += 1;
            u64::from(body[at])
        };
        u16::try_from(value)
            .ok()
            .filter(|&v| v <= head.max)
            .ok_or_else(|| {
                PictureError::Format(format!(
                    "damaged PGM/PPM: a sample of {value} in row {row}, its maximum is {}",
                    head.max
                ))
            })
    };
    if head.colour {
        for (y, row) in picture.as_rgb8(head.size).rows_mut().enumerate() {
            for sample in row.as_flattened_mut() {
                *sample = to_8_bits(next(y)?, head.max);
            }
        }
    } else if head.max > 255 {
        for (y, row) in picture.as_grey16(head.size).rows_mut().enumerate() {
            for sample in row {
                *sample = next(y)?;
            }
        }
    } else {
        let image = picture.as_grey8(head.size);
        if !head.text && head.max == 255 {
            for (row, from) in image.rows_mut().zip(body.chunks_exact(width)) {
                row.copy_from_slice(from);
            }
        } else {
            for (y, row) in image.rows_mut().enumerate() {
                for sample in row {
                    *sample = to_8_bits(next(y)?, head.max);
                }
            }
        }
    }
    Ok(())
}
