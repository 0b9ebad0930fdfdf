//! Messages of pictures to pictures.
use crate::{
    frame::{Image, Rgb, Size},
    picture::{self, Picture},
    recording::message::{self, ImageHead},
};

/// What messages of a channel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `sensor_msgs/msg/Image`.
    Image,
    /// `sensor_msgs/msg/CompressedImage`.
    Compressed,
}

/// Decodes a message; keeps the memory of `picture` where kind and size are the same. After an
/// error `picture` holds anything.
pub fn decode(
    kind: Kind,
    message: &[u8],
    line: &mut Vec<u8>,
    picture: &mut Picture,
) -> Result<(), String> {
    match kind {
        Kind::Image => {
            let head = message::read_image(message).map_err(|e| e.to_string())?;
            raw(&head, picture)
        }
        Kind::Compressed => {
            let file = message::read_compressed_image(message)
                .map_err(|e| e.to_string())?
                .1;
            picture::decode_into(file, line, picture).map_err(|e| e.to_string())
        }
    }
}

fn raw(head: &ImageHead<'_>, picture: &mut Picture) -> Result<(), String> {
    let size = head.size;
    picture::checked(size.width as u64, size.height as u64).map_err(|e| e.to_string())?;
    let rows = |bytes: usize| {
        let row = size.width * bytes;
        let last = (head.step as u64) * (size.height as u64 - 1) + row as u64;
        if head.step < row || (head.data.len() as u64) < last {
            return Err(format!(
                "{} bytes in rows of {}, expected {} rows of {row}",
                head.data.len(),
                head.step,
                size.height
            ));
        }
        Ok(head
            .data
            .chunks(head.step)
            .take(size.height)
            .map(move |r| &r[..row]))
    };
    match head.encoding {
        "mono8" | "8UC1" => {
            let out = picture.as_grey8(size);
            for (to, from) in out.rows_mut().zip(rows(1)?) {
                to.copy_from_slice(from);
            }
        }
        "mono16" | "16UC1" => {
            let big = head.big_endian;
            let out = picture.as_grey16(size);
            for (to, from) in out.rows_mut().zip(rows(2)?) {
                for (to, &from) in to.iter_mut().zip(from.as_chunks().0) {
                    *to = if big {
                        u16::from_be_bytes(from)
                    } else {
                        u16::from_le_bytes(from)
                    };
                }
            }
        }
        "rgb8" => colour(picture.as_rgb8(size), rows(3)?, |&[r, g, b]| [r, g, b]),
        "bgr8" | "8UC3" => colour(picture.as_rgb8(size), rows(3)?, |&[b, g, r]| [r, g, b]),
        "rgba8" => colour(picture.as_rgb8(size), rows(4)?, |&[r, g, b, _]| [r, g, b]),
        "bgra8" | "8UC4" => colour(picture.as_rgb8(size), rows(4)?, |&[b, g, r, _]| [r, g, b]),
        name => {
            let red = match name {
                "bayer_rggb8" => [0, 0],
                "bayer_grbg8" => [1, 0],
                "bayer_gbrg8" => [0, 1],
                "bayer_bggr8" => [1, 1],
                _ => {
                    let name: String = name.chars().take(32).collect();
                    return Err(format!(
                        "pixels of {name:?}, expected mono8, mono16, 16UC1, rgb8, bgr8, rgba8, \
                         bgra8 or bayer_rggb8, _grbg8, _gbrg8, _bggr8"
                    ));
                }
            };
            let rows: Vec<&[u8]> = rows(1)?.collect();
            debayer(&rows, size, red, picture.as_rgb8(size));
        }
    }
    Ok(())
}

fn colour<'a, const N: usize>(
    out: &mut Rgb,
    rows: impl Iterator<Item = &'a [u8]>,
    pixel: impl Fn(&[u8; N]) -> [u8; 3],
) {
    for (to, from) in out.rows_mut().zip(rows) {
        for (to, from) in to.iter_mut().zip(from.as_chunks().0) {
            *to = pixel(from);
        }
    }
}

/// Bilinear: each colour that a pixel has not measured is the mean, rounded half up, of those of
/// its eight neighbours that have; at the border of those that there are. `red`: column and row
/// of the first red pixel.
fn debayer(rows: &[&[u8]], size: Size, red: [usize; 2], out: &mut Image<[u8; 3]>) {
    let colour_at = |x: usize, y: usize| match ((x + red[0]) % 2, (y + red[1]) % 2) {
        (0, 0) => 0,
        (1, 1) => 2,
        _ => 1,
    };
    for y in 0..size.height {
        for x in 0..size.width {
            let own = colour_at(x, y);
            let (mut sums, mut counts) = ([0u32; 3], [0u32; 3]);
            let rows_near = rows
                .iter()
                .enumerate()
                .take(y + 2)
                .skip(y.saturating_sub(1));
            for (v, row) in rows_near {
                for (u, &value) in row.iter().enumerate().take(x + 2).skip(x.saturating_sub(1)) {
                    let c = colour_at(u, v);
                    // Green of a green pixel is its own; its diagonals are green, too.
                    if c != own {
                        sums[c] += u32::from(value);
                        counts[c] += 1;
                    }
                }
            }
            let mut pixel = [0; 3];
            for (c, p) in pixel.iter_mut().enumerate() {
                // A single row or column lacks a colour.
                *p = match counts[c] {
                    0 => rows[y][x],
                    n => ((sums[c] + n / 2) / n) as u8,
                };
            }
            pixel[own] = rows[y][x];
            out.set(x, y, pixel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frame::Timestamp, recording::cdr::CdrWriter};

    fn message(encoding: &str, bytes: usize, size: Size, data: &[u8]) -> Vec<u8> {
        let mut w = CdrWriter::default();
        message::image(&mut w, Timestamp(7), "f", (encoding, bytes), size);
        w.raw(data);
        w.message().to_vec()
    }

    fn read(encoding: &str, bytes: usize, size: Size, data: &[u8]) -> Result<Picture, String> {
        let mut picture = Picture::default();
        let message = message(encoding, bytes, size, data);
        decode(Kind::Image, &message, &mut Vec::new(), &mut picture).map(|()| picture)
    }

    #[test]
    fn pixels_of_each_kind() {
        let size = Size::new(2, 1);
        let grey = Image::from_vec(2, 1, vec![1, 2]).unwrap();
        assert_eq!(read("mono8", 1, size, &[1, 2]), Ok(Picture::Grey8(grey)));
        let deep = Image::from_vec(2, 1, vec![0x201, 0x403]).unwrap();
        assert_eq!(
            read("16UC1", 2, size, &[1, 2, 3, 4]),
            Ok(Picture::Grey16(deep))
        );
        let rgb = |a, b| Ok(Picture::Rgb8(Image::from_vec(2, 1, vec![a, b]).unwrap()));
        let six = [1, 2, 3, 4, 5, 6];
        assert_eq!(read("rgb8", 3, size, &six), rgb([1, 2, 3], [4, 5, 6]));
        assert_eq!(read("bgr8", 3, size, &six), rgb([3, 2, 1], [6, 5, 4]));
        let eight = [1, 2, 3, 0, 4, 5, 6, 0];
        assert_eq!(read("bgra8", 4, size, &eight), rgb([3, 2, 1], [6, 5, 4]));
    }

    #[test]
    fn a_plain_colour_comes_out_of_every_bayer_pattern() {
        let size = Size::new(5, 3);
        let want = [200, 120, 40];
        for (name, pattern) in [
            ("bayer_rggb8", [[0, 1], [1, 2]]),
            ("bayer_grbg8", [[1, 0], [2, 1]]),
            ("bayer_gbrg8", [[1, 2], [0, 1]]),
            ("bayer_bggr8", [[2, 1], [1, 0]]),
        ] {
            let data: Vec<u8> = (0..15)
                .map(|i| want[pattern[(i / 5) % 2][i % 5 % 2]])
                .collect();
            let expected = Picture::Rgb8(Image::filled(5, 3, want));
            assert_eq!(read(name, 1, size, &data), Ok(expected), "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = read("mono8", 1, Size::new(4, 2), &[0; 7]).unwrap_err();
        // The count of the bytes says 8, so the message itself is short.
        assert!(error.contains("data"), "{error}");
        let error = read("yuv422", 2, Size::new(1, 1), &[0; 2]).unwrap_err();
        assert!(
            error.contains("yuv422") && error.contains("mono8"),
            "{error}"
        );
        let error = read("mono8", 1, Size::new(100_000, 1), &[0; 100_000]).unwrap_err();
        assert!(error.contains("too large"), "{error}");
        assert!(read("mono8", 1, Size::new(0, 1), &[]).is_err());
    }
}
