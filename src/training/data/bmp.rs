//! BMP files as MSRC-v2 has them: 24 or 32 bits a pixel, not compressed.
use crate::{
    frame::Rgb,
    picture::{MAX_PIXELS, MAX_SIDE, PictureError},
};

/// Decodes a whole BMP.
pub(super) fn decode(bytes: &[u8]) -> Result<Rgb, PictureError> {
    let short = || PictureError::Truncated("BMP in its header".into());
    let format = |what: String| PictureError::Format(what);
    let word = |at: usize| -> Result<u32, PictureError> {
        let part = bytes.get(at..at + 4).ok_or_else(short)?;
        Ok(u32::from_le_bytes([part[0], part[1], part[2], part[3]]))
    };
    let head = bytes.get(..2).ok_or_else(short)?;
    if head != b"BM" {
        return Err(PictureError::Unknown(format!(
            "{:02X} {:02X}",
            head[0], head[1]
        )));
    }
    let (start, header) = (word(10)? as usize, word(14)?);
    if header < 40 {
        return Err(format(format!(
            "a BMP with a header of {header} bytes, expected 40 or more"
        )));
    }
    let (width, height) = (word(18)? as i32, word(22)? as i32);
    let bits = word(28 - 2)? >> 16;
    let compression = word(30)?;
    if !matches!(bits, 24 | 32) || compression != 0 {
        return Err(format(format!(
            "a BMP of {bits} bits a pixel, compression {compression}; expected 24 or 32, 0"
        )));
    }
    // A negative height counts rows from the top.
    let (w, h) = (i64::from(width), i64::from(height).abs());
    let side = MAX_SIDE as i64;
    if w <= 0 || h == 0 {
        return Err(format(format!("a picture of {w}x{h} px has no pixels")));
    }
    if w > side || h > side || w * h > MAX_PIXELS as i64 {
        return Err(PictureError::TooLarge(format!("{w}x{h} px")));
    }
    let (w, h, pixel) = (w as usize, h as usize, bits as usize / 8);
    let stride = (w * pixel).next_multiple_of(4);
    let body = bytes.get(start..).ok_or_else(short)?;
    if body.len() < stride * (h - 1) + w * pixel {
        return Err(PictureError::Truncated(format!(
            "BMP: it ends after row {} of {h}",
            body.len() / stride
        )));
    }
    Ok(Rgb::from_fn(w, h, |x, y| {
        let row = if height < 0 { y } else { h - 1 - y };
        let at = row * stride + x * pixel;
        [body[at + 2], body[at + 1], body[at]]
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bmp(width: u32, height: i32, bits: u32, body: &[u8]) -> Vec<u8> {
        let mut file = b"BM".to_vec();
        for word in [
            0,
            0,
            54,
            40,
            width,
            height as u32,
            1 | bits << 16,
            0,
            0,
            0,
            0,
            0,
            0,
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(body);
        file
    }

    #[test]
    fn rows_from_below_and_from_above() {
        // Three bytes a pixel, rows of 4.
        let body = [1, 2, 3, 0, 4, 5, 6, 0];
        let picture = decode(&bmp(1, 2, 24, &body)).unwrap();
        assert_eq!(
            (picture.get(0, 0), picture.get(0, 1)),
            ([6, 5, 4], [3, 2, 1])
        );
        let picture = decode(&bmp(1, -2, 32, &body)).unwrap();
        assert_eq!(picture.get(0, 0), [3, 2, 1]);
    }

    #[test]
    fn every_cut_is_refused() {
        let file = bmp(3, 2, 24, &[7; 24]);
        assert!(decode(&file).is_ok());
        // The last row's padding may be missing.
        for n in 0..file.len() - 3 {
            assert!(decode(&file[..n]).is_err(), "{n}");
        }
        assert!(decode(&bmp(1 << 30, 1 << 30, 24, &[])).is_err());
        assert!(decode(&bmp(2, i32::MIN, 24, &[])).is_err());
        assert!(decode(&bmp(1, 1, 8, &[0; 4])).is_err());
    }
}
