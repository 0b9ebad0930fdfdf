//! What a camera sends to what the loop takes: 8-bit grey, RGB.
//!
//! # The formulas
//! Integers throughout; the same bytes on every machine.
//! - Samples of more than 8 bits: `min(sample >> shift, 255)`, before anything else.
//! - Grey of YUYV, UYVY, NV12: Y as it is. Grey of Bayer: [`grey_of`] the interpolated RGB.
//! - RGB of Y, U, V (ITU-R BT.601, Y 16-235, U and V 16-240), each clamped to 0-255, with
//!   `c = 298 (Y - 16) + 128`, `d = U - 128`, `e = V - 128`:
//!   `R = (c + 409 e) >> 8`, `G = (c - 100 d - 208 e) >> 8`, `B = (c + 516 d) >> 8`.
//!   Each U, V stands for all the pixels that share it.
//! - RGB of Bayer: bilinear. A colour that a pixel lacks is the mean of its two or four nearest
//!   neighbours of that colour, `(a + b + 1) >> 1` or `(a + b + c + d + 2) >> 2`. Beyond the edge
//!   lies the picture's mirror image (row -1 is row 1), so that colours keep their places; a
//!   picture of one row or column is its own neighbour there.
use super::{
    PixelFormat,
    format::{Bayer, Packing},
};
use crate::{
    frame::{Image, Rgb, Size},
    picture::grey_of,
};

/// The bytes are too few for the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} bytes, expected {expected} or more")]
pub struct Short {
    /// Bytes that there are.
    pub found: usize,
    /// Bytes that the picture takes.
    pub expected: usize,
}

/// Converts pictures of one format and size; keeps what memory it needs.
#[derive(Clone, Debug)]
pub struct Converter {
    format: PixelFormat,
    size: Size,
    shift: u32,
    /// Three rows of samples, a mirrored pixel before and behind.
    lines: [Vec<u8>; 3],
    /// Red, green, blue of a row.
    planes: [Vec<u8>; 3],
}

impl Converter {
    /// For pictures of this format and size whose samples come down to 8 bits by `shift`.
    pub fn new(format: PixelFormat, size: Size, shift: u32) -> Self {
        let bayer = format.bayer().is_some();
        let line = |extra| vec![0; if bayer { size.width + extra } else { 0 }];
        Self {
            format,
            size,
            shift: shift.min(15),
            lines: std::array::from_fn(|_| line(2)),
            planes: std::array::from_fn(|_| line(0)),
        }
    }

    /// Converts a picture whose rows lie `stride` bytes apart to grey, to RGB, or to both.
    /// RGB of a format without colour is its grey, three times. Allocates nothing.
    ///
    /// # Errors
    /// When there are too few bytes, or `stride` is less than a row.
    ///
    /// # Panics
    /// When an output is of another size.
    pub fn convert(
        &mut self,
        bytes: &[u8],
        stride: usize,
        mut grey: Option<&mut Image<u8>>,
        mut rgb: Option<&mut Rgb>,
    ) -> Result<(), Short> {
        let Size { width, height } = self.size;
        for size in [
            grey.as_ref().map(|i| i.size()),
            rgb.as_ref().map(|i| i.size()),
        ]
        .into_iter()
        .flatten()
        {
            assert_eq!(size, self.size, "a picture of another size");
        }
        let row_bytes = self.format.row_bytes(width);
        let (found, expected) = (
            bytes.len(),
            self.format.picture_bytes(width, height, stride),
        );
        if width == 0 || height == 0 {
            return Ok(());
        }
        if stride < row_bytes {
            let (found, expected) = (stride, row_bytes);
            return Err(Short { found, expected });
        }
        if found < expected {
            return Err(Short { found, expected });
        }
        if let Some(bayer) = self.format.bayer() {
            self.bayer(bayer, bytes, stride, grey, rgb);
            return Ok(());
        }
        let shift = self.shift;
        let chroma = bytes.get(height * stride..).unwrap_or_default();
        for y in 0..height {
            let row = &bytes[y * stride..][..row_bytes];
            if let Some(grey) = grey.as_deref_mut() {
                let out = grey.row_mut(y);
                match self.format.packing() {
                    Packing::Bytes | Packing::Nv12 => out.copy_from_slice(row),
                    Packing::Words(_) => words(row, shift, out),
                    Packing::Yuyv => every_second(row, 0, out),
                    Packing::Uyvy => every_second(row, 1, out),
                }
            }
            let Some(rgb) = rgb.as_deref_mut() else {
                continue;
            };
            let out = rgb.row_mut(y);
            match self.format.packing() {
                Packing::Bytes => {
                    out.iter_mut().zip(row).for_each(|(out, &v)| *out = [v; 3]);
                }
                Packing::Words(_) => {
                    for (out, &sample) in out.iter_mut().zip(row.as_chunks().0) {
                        *out = [to_8_bits(sample, shift); 3];
                    }
                }
                Packing::Yuyv => {
                    for (out, &[y0, u, y1, v]) in out.chunks_mut(2).zip(row.as_chunks().0) {
                        pair(out, [y0, y1], u, v);
                    }
                }
                Packing::Uyvy => {
                    for (out, &[u, y0, v, y1]) in out.chunks_mut(2).zip(row.as_chunks().0) {
                        pair(out, [y0, y1], u, v);
                    }
                }
                Packing::Nv12 => {
                    let chroma = &chroma[y / 2 * stride..];
                    let pairs = row.chunks(2).zip(chroma.as_chunks().0);
                    for (out, (luma, &[u, v])) in out.chunks_mut(2).zip(pairs) {
                        let last = luma[luma.len() - 1];
                        pair(out, [luma[0], last], u, v);
                    }
                }
            }
        }
        Ok(())
    }

    fn bayer(
        &mut self,
        bayer: Bayer,
        bytes: &[u8],
        stride: usize,
        mut grey: Option<&mut Image<u8>>,
        mut rgb: Option<&mut Rgb>,
    ) {
        let height = self.size.height;
        self.load(bytes, stride, 0);
        for y in 0..height {
            if y + 1 < height {
                self.load(bytes, stride, y + 1);
            }
            // The row above and the row below are among the three that are kept.
            let above = &self.lines[mirrored(y.checked_sub(1), height) % 3];
            let below = &self.lines[mirrored(Some(y + 1), height) % 3];
            let here = &self.lines[y % 3];
            let even = y.is_multiple_of(2);
            let (red_row, first) = match bayer {
                Bayer::Rggb => (even, !even),
                Bayer::Bggr => (!even, !even),
                Bayer::Grbg => (even, even),
                Bayer::Gbrg => (!even, even),
            };
            let [r, g, b] = &mut self.planes;
            let (own, other) = if red_row { (r, b) } else { (b, r) };
            interpolate([above, here, below], usize::from(first), own, g, other);
            let [r, g, b] = &self.planes;
            if let Some(rgb) = rgb.as_deref_mut() {
                let channels = r.iter().zip(g).zip(b);
                for (out, ((&r, &g), &b)) in rgb.row_mut(y).iter_mut().zip(channels) {
                    *out = [r, g, b];
                }
            }
            if let Some(grey) = grey.as_deref_mut() {
                let channels = r.iter().zip(g).zip(b);
                for (out, ((&r, &g), &b)) in grey.row_mut(y).iter_mut().zip(channels) {
                    *out = grey_of([r, g, b]);
                }
            }
        }
    }

    /// Brings row `y` to 8 bits.
    fn load(&mut self, bytes: &[u8], stride: usize, y: usize) {
        let width = self.size.width;
        let row = &bytes[y * stride..][..self.format.row_bytes(width)];
        let line = &mut self.lines[y % 3];
        match self.format.packing() {
            Packing::Words(_) => words(row, self.shift, &mut line[1..=width]),
            _ => line[1..=width].copy_from_slice(row),
        }
        line[0] = line[1 + mirrored(None, width)];
        line[width + 1] = line[1 + mirrored(Some(width), width)];
    }
}

/// A row or column of a picture of `length`, mirrored from beyond the edge; `None` is -1.
fn mirrored(at: Option<usize>, length: usize) -> usize {
    match at {
        None => 1.min(length - 1),
        Some(at) if at < length => at,
        Some(_) => length.saturating_sub(2),
    }
}

/// One row of a Bayer picture: its own colour stands at columns of the parity `first`, green at
/// the others; the other colour stands above and below the greens. Rows have a pixel before and
/// behind.
fn interpolate(
    [above, here, below]: [&[u8]; 3],
    first: usize,
    own: &mut [u8],
    green: &mut [u8],
    other: &mut [u8],
) {
    let width = own.len();
    let (above, here, below) = (&above[..width + 2], &here[..width + 2], &below[..width + 2]);
    let (green, other) = (&mut green[..width], &mut other[..width]);
    let two = |a: u8, b: u8| (u16::from(a) + u16::from(b)).div_ceil(2) as u8;
    let four = |a: u8, b: u8, c: u8, d: u8| {
        ((u16::from(a) + u16::from(b) + u16::from(c) + u16::from(d) + 2) >> 2) as u8
    };
    for x in 0..width {
        let centre = here[x + 1];
        let sides = two(here[x], here[x + 2]);
        let upright = two(above[x + 1], below[x + 1]);
        let cross = four(here[x], here[x + 2], above[x + 1], below[x + 1]);
        let corners = four(above[x], above[x + 2], below[x], below[x + 2]);
        let is_own = x & 1 == first;
        own[x] = if is_own { centre } else { sides };
        green[x] = if is_own { cross } else { centre };
        other[x] = if is_own { corners } else { upright };
    }
}

fn to_8_bits(sample: [u8; 2], shift: u32) -> u8 {
    (u16::from_le_bytes(sample) >> shift).min(255) as u8
}

fn words(row: &[u8], shift: u32, out: &mut [u8]) {
    for (out, &sample) in out.iter_mut().zip(row.as_chunks().0) {
        *out = to_8_bits(sample, shift);
    }
}

/// Every second byte, from `first` on.
fn every_second(row: &[u8], first: usize, out: &mut [u8]) {
    for (out, pair) in out.iter_mut().zip(row.as_chunks::<2>().0) {
        *out = pair[first];
    }
}

/// One or two pixels that share their U and V.
fn pair(out: &mut [[u8; 3]], luma: [u8; 2], u: u8, v: u8) {
    let (d, e) = (i32::from(u) - 128, i32::from(v) - 128);
    let (red, green, blue) = (409 * e, -100 * d - 208 * e, 516 * d);
    for (out, y) in out.iter_mut().zip(luma) {
        let c = 298 * (i32::from(y) - 16) + 128;
        *out = [c + red, c + green, c + blue].map(|v| (v >> 8).clamp(0, 255) as u8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The RGB and grey of one pixel, from the formulas above, one pixel at a time.
    fn model(
        format: PixelFormat,
        size: Size,
        shift: u32,
        bytes: &[u8],
        stride: usize,
        x: usize,
        y: usize,
    ) -> (u8, [u8; 3]) {
        let sample = |x: usize, y: usize| -> i64 {
            match format.packing() {
                Packing::Bytes | Packing::Nv12 => bytes[y * stride + x].into(),
                Packing::Words(_) => {
                    let at = y * stride + 2 * x;
                    let v = i64::from(bytes[at]) + 256 * i64::from(bytes[at + 1]);
                    (v / (1 << shift)).min(255)
                }
                Packing::Yuyv => bytes[y * stride + 2 * x].into(),
                Packing::Uyvy => bytes[y * stride + 2 * x + 1].into(),
            }
        };
        let yuv = |u: i64, v: i64| {
            let c = 298 * (sample(x, y) - 16) + 128;
            let (d, e) = (u - 128, v - 128);
            [c + 409 * e, c - 100 * d - 208 * e, c + 516 * d]
                .map(|v| v.div_euclid(256).clamp(0, 255) as u8)
        };
        let at = |i: usize| i64::from(bytes[i]);
        let even = x - x % 2;
        let grey = sample(x, y) as u8;
        match format.packing() {
            Packing::Yuyv => {
                let row = y * stride + 2 * even;
                (grey, yuv(at(row + 1), at(row + 3)))
            }
            Packing::Uyvy => {
                let row = y * stride + 2 * even;
                (grey, yuv(at(row), at(row + 2)))
            }
            Packing::Nv12 => {
                let row = (size.height + y / 2) * stride + even;
                (grey, yuv(at(row), at(row + 1)))
            }
            _ => {
                let Some(bayer) = format.bayer() else {
                    return (grey, [grey; 3]);
                };
                let rgb = std::array::from_fn(|channel| {
                    colour(bayer, size, &sample, channel, x as i64, y as i64)
                });
                (grey_of(rgb), rgb)
            }
        }
    }

    /// The mean of the nearest pixels of that colour, in the mirrored plane.
    fn colour(
        bayer: Bayer,
        size: Size,
        sample: &impl Fn(usize, usize) -> i64,
        channel: usize,
        x: i64,
        y: i64,
    ) -> u8 {
        let tile: [usize; 4] = match bayer {
            Bayer::Rggb => [0, 1, 1, 2],
            Bayer::Grbg => [1, 0, 2, 1],
            Bayer::Gbrg => [1, 2, 0, 1],
            Bayer::Bggr => [2, 1, 1, 0],
        };
        let of = |x: i64, y: i64| tile[(y.rem_euclid(2) * 2 + x.rem_euclid(2)) as usize];
        let fold = |v: i64, n: usize| {
            let last = n as i64 - 1;
            let v = if v < 0 { -v } else { v };
            let v = if v > last { 2 * last - v } else { v };
            v.clamp(0, last) as usize
        };
        if of(x, y) == channel {
            return sample(x as usize, y as usize) as u8;
        }
        for far in [1, 2] {
            let around = (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dx, dy)));
            let near: Vec<i64> = around
                .filter(|(dx, dy): &(i64, i64)| dx.abs() + dy.abs() == far)
                .filter(|(dx, dy)| of(x + dx, y + dy) == channel)
                .map(|(dx, dy)| sample(fold(x + dx, size.width), fold(y + dy, size.height)))
                .collect();
            if !near.is_empty() {
                let n = near.len() as i64;
                return ((near.iter().sum::<i64>() + n / 2) / n) as u8;
            }
        }
        unreachable!("every colour is a neighbour");
    }

    fn check(format: PixelFormat, size: Size, padding: usize, shift: u32, seed: u64) {
        let row = format.row_bytes(size.width).max(2 * size.width.div_ceil(2));
        let stride = row + padding;
        let length = format.picture_bytes(size.width, size.height, stride);
        let mut state = seed | 1;
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        let mut converter = Converter::new(format, size, shift);
        let mut grey = Image::new(size.width, size.height);
        let mut rgb = Image::new(size.width, size.height);
        converter
            .convert(&bytes, stride, Some(&mut grey), Some(&mut rgb))
            .unwrap();
        for y in 0..size.height {
            for x in 0..size.width {
                let expected = model(format, size, shift, &bytes, stride, x, y);
                assert_eq!(
                    (grey.get(x, y), rgb.get(x, y)),
                    expected,
                    "{format} {x} {y}"
                );
            }
        }
        // One alone is the same as both.
        let mut alone = Image::new(size.width, size.height);
        converter
            .convert(&bytes, stride, Some(&mut alone), None)
            .unwrap();
        assert_eq!(alone, grey);
        let mut alone = Image::new(size.width, size.height);
        converter
            .convert(&bytes, stride, None, Some(&mut alone))
            .unwrap();
        assert_eq!(alone, rgb);
        let short = converter.convert(&bytes[..length - 1], stride, Some(&mut grey), None);
        assert!(short.is_err(), "{format}");
    }

    proptest! {
        #[test]
        fn any_picture_as_pixel_by_pixel(
            format in prop::sample::select(PixelFormat::ALL.to_vec()),
            width in 1usize..20, height in 1usize..12, padding in 0usize..7, shift in 0u32..9,
            seed: u64,
        ) {
            check(format, Size::new(width, height), padding, shift, seed);
        }
    }

    #[test]
    fn the_smallest_and_odd_sizes() {
        for format in PixelFormat::ALL {
            for (width, height) in [(1, 1), (1, 2), (2, 1), (3, 3), (33, 31)] {
                check(format, Size::new(width, height), 0, format.shift_bits(), 7);
            }
        }
    }

    #[test]
    fn known_colours() {
        // 75 % bars in BT.601: white, yellow, cyan, green, magenta, red, blue, black.
        let bars = [
            ([180, 128, 128], [191, 191, 191]),
            ([162, 44, 142], [191, 191, 0]),
            ([131, 156, 44], [0, 191, 191]),
            ([112, 72, 58], [1, 191, 0]),
            ([84, 184, 198], [191, 0, 191]),
            ([65, 100, 212], [191, 0, 1]),
            ([35, 212, 114], [0, 0, 191]),
            ([16, 128, 128], [0, 0, 0]),
        ];
        for ([y, u, v], expected) in bars {
            let mut rgb = Image::new(2, 1);
            let mut converter = Converter::new(PixelFormat::Yuyv, rgb.size(), 0);
            converter
                .convert(&[y, u, y, v], 4, None, Some(&mut rgb))
                .unwrap();
            let near = rgb
                .get(0, 0)
                .iter()
                .zip(expected)
                .all(|(a, b): (&u8, u8)| a.abs_diff(b) <= 1);
            assert!(near, "{:?} {expected:?}", rgb.get(0, 0));
        }
    }

    #[test]
    fn flat_bayer_pictures_stay_flat() {
        for format in PixelFormat::ALL.into_iter().filter(|f| f.bayer().is_some()) {
            let size = Size::new(7, 5);
            let value = 200u16 << format.shift_bits();
            let row = format.row_bytes(7);
            let bytes: Vec<u8> = if row == 7 {
                vec![200; 35]
            } else {
                value.to_le_bytes().repeat(35)
            };
            let mut rgb = Image::new(7, 5);
            Converter::new(format, size, format.shift_bits())
                .convert(&bytes, row, None, Some(&mut rgb))
                .unwrap();
            assert!(rgb.pixels().all(|p| *p == [200; 3]), "{format}");
        }
    }

    #[test]
    fn a_stride_of_less_than_a_row_is_refused() {
        let mut grey = Image::new(4, 2);
        let short = Converter::new(PixelFormat::Y10, grey.size(), 2).convert(
            &[0; 64],
            7,
            Some(&mut grey),
            None,
        );
        assert_eq!(
            short,
            Err(Short {
                found: 7,
                expected: 8
            })
        );
    }
}
