//! Grey pictures of falling size, with borders.
use rayon::prelude::*;

use crate::{
    frame::{Mask, MonoImage, Size},
    stage::state::{StateError, StateReader, StateWriter},
};

/// Pixels around each level that repeat its border, so that windows around any pixel can be read.
pub(super) const PAD: usize = 16;
/// The most levels.
pub(super) const MAX_LEVELS: usize = 5;
/// A level has at least so many pixels and rows; the first may have fewer.
const LEAST_SIDE: usize = 16;
/// Rows that a thread takes at a time.
const BAND: usize = 32;
/// What masked pixels are taken for.
const MASKED: u8 = 128;

/// Sizes of the levels for images of this size: each is half the one before, rounded down.
pub(super) fn levels(size: Size) -> heapless::Vec<Size, MAX_LEVELS> {
    let mut levels = heapless::Vec::new();
    let mut next = size;
    while levels.push(next).is_ok() {
        next = Size::new(next.width / 2, next.height / 2);
        if next.width < LEAST_SIDE || next.height < LEAST_SIDE {
            break;
        }
    }
    levels
}

/// One level.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) size: Size,
    pub(super) stride: usize,
    data: Vec<u8>,
}

impl Level {
    pub(super) fn new(size: Size) -> Self {
        let stride = size.width + 2 * PAD;
        Self {
            size,
            stride,
            data: vec![0; stride * (size.height + 2 * PAD)],
        }
    }

    /// All pixels, and where pixel (0, 0) is among them.
    pub(super) fn pixels(&self) -> (&[u8], usize) {
        (&self.data, PAD * self.stride + PAD)
    }

    /// Row `y` without its border.
    pub(super) fn row(&self, y: usize) -> &[u8] {
        &self.data[(y + PAD) * self.stride + PAD..][..self.size.width]
    }

    /// Fills rows by `f(y, row)`, then the border.
    fn fill(&mut self, f: impl Fn(usize, &mut [u8]) + Sync) {
        let (stride, Size { width, height }) = (self.stride, self.size);
        self.data[PAD * stride..][..height * stride]
            .par_chunks_mut(BAND * stride)
            .enumerate()
            .for_each(|(band, rows)| {
                for (i, row) in rows.chunks_exact_mut(stride).enumerate() {
                    f(band * BAND + i, &mut row[PAD..][..width]);
                    let (first, last) = (row[PAD], row[PAD + width - 1]);
                    row[..PAD].fill(first);
                    row[PAD + width..].fill(last);
                }
            });
        let (above, rest) = self.data.split_at_mut(PAD * stride);
        let (inside, below) = rest.split_at_mut(height * stride);
        let edges = [
            (above, &inside[..stride]),
            (below, &inside[(height - 1) * stride..]),
        ];
        for (border, edge) in edges {
            for row in border.chunks_exact_mut(stride) {
                row.copy_from_slice(edge);
            }
        }
    }
}

/// All levels of one frame.
#[derive(Clone, Debug)]
pub(super) struct Pyramid {
    pub(super) levels: Vec<Level>,
}

impl Pyramid {
    pub(super) fn new(size: Size) -> Self {
        Self {
            levels: levels(size).iter().map(|s| Level::new(*s)).collect(),
        }
    }

    /// Takes a frame; `shift` brings 16 bits to 8. Pixels that are 0 in `mask` are not looked at.
    pub(super) fn build(&mut self, image: &MonoImage, shift: u32, mask: Option<&Mask>) {
        let first = &mut self.levels[0];
        let hide = |y: usize, row: &mut [u8]| {
            let Some(mask) = mask else { return };
            for (to, &usable) in row.iter_mut().zip(mask.row(y)) {
                *to = if usable == 0 { MASKED } else { *to };
            }
        };
        match image {
            MonoImage::Grey8(grey) => first.fill(|y, row| {
                row.copy_from_slice(grey.row(y));
                hide(y, row);
            }),
            MonoImage::Grey16(grey) => first.fill(|y, row| {
                for (to, from) in row.iter_mut().zip(grey.row(y)) {
                    *to = (from >> shift).min(255) as u8;
                }
                hide(y, row);
            }),
            MonoImage::Rgb8(rgb) => first.fill(|y, row| {
                for (to, [r, g, b]) in row.iter_mut().zip(rgb.row(y)) {
                    let [r, g, b] = [*r, *g, *b].map(u32::from);
                    *to = ((77 * r + 150 * g + 29 * b + 128) >> 8) as u8;
                }
                hide(y, row);
            }),
        }
        self.coarser();
    }

    /// Appends the first level.
    pub(super) fn save(&self, to: &mut StateWriter<'_>) {
        let first = &self.levels[0];
        (0..first.size.height).for_each(|y| to.bytes(first.row(y)));
    }

    /// Takes the first level, and makes the others.
    pub(super) fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let first = &mut self.levels[0];
        let width = first.size.width;
        let pixels = from.bytes(first.size.area())?;
        first.fill(|y, row| row.copy_from_slice(&pixels[y * width..][..width]));
        self.coarser();
        Ok(())
    }

    /// Each level from the finer one.
    fn coarser(&mut self) {
        for l in 1..self.levels.len() {
            let (finer, coarser) = self.levels.split_at_mut(l);
            let finer = &finer[l - 1];
            coarser[0].fill(|y, row| {
                let pairs = |y| finer.row(y).as_chunks::<2>().0;
                for ((to, a), b) in row.iter_mut().zip(pairs(2 * y)).zip(pairs(2 * y + 1)) {
                    let sum = u16::from(a[0]) + u16::from(a[1]) + u16::from(b[0]) + u16::from(b[1]);
                    *to = ((sum + 2) >> 2) as u8;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Image;

    #[test]
    fn levels_end_before_they_are_too_small() {
        let sides = |w, h| levels(Size::new(w, h)).len();
        assert_eq!(sides(1, 1), 1);
        assert_eq!(sides(31, 500), 1);
        assert_eq!(sides(32, 32), 2);
        assert_eq!(sides(1226, 370), 5);
        assert_eq!(sides(10_000, 10_000), MAX_LEVELS);
    }

    #[test]
    fn a_level_is_the_rounded_mean_with_repeated_borders() {
        let image = Image::from_fn(35, 33, |x, y| ((x * 7 + y * 13) % 256) as u8);
        let mut pyramid = Pyramid::new(image.size());
        pyramid.build(&MonoImage::Grey8(image.clone()), 8, None);
        let level = &pyramid.levels[1];
        assert_eq!(level.size, Size::new(17, 16));
        let mean = |x: i64, y: i64| {
            let (x, y) = (x.clamp(0, 16) as usize * 2, y.clamp(0, 15) as usize * 2);
            let sum: u32 = [(0, 0), (1, 0), (0, 1), (1, 1)]
                .map(|(a, b)| u32::from(image.get(x + a, y + b)))
                .iter()
                .sum();
            ((sum + 2) / 4) as u8
        };
        let (data, origin) = level.pixels();
        let pad = PAD as i64;
        for y in -pad..16 + pad {
            for x in -pad..17 + pad {
                let at = origin as i64 + y * level.stride as i64 + x;
                assert_eq!(data[at as usize], mean(x, y), "{x},{y}");
            }
        }
    }

    #[test]
    fn colour_and_16_bits_become_8_bit_grey() {
        let size = Size::new(3, 2);
        let mut pyramid = Pyramid::new(size);
        pyramid.build(
            &MonoImage::Rgb8(Image::filled(3, 2, [255, 255, 255])),
            8,
            None,
        );
        assert_eq!(pyramid.levels[0].row(1), [255; 3]);
        pyramid.build(&MonoImage::Grey16(Image::filled(3, 2, 0x1234)), 8, None);
        assert_eq!(pyramid.levels[0].row(1), [0x12; 3]);
        pyramid.build(&MonoImage::Grey16(Image::filled(3, 2, 0x1234)), 4, None);
        assert_eq!(pyramid.levels[0].row(0), [255; 3]);
    }
}
