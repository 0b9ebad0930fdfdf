//! The frame in grey at full, half, quarter ... size, as far as somebody looks at it.
use super::{features::Isa, simd};
use crate::{
    frame::{Image, MonoImage, Size},
    picture::grey_of,
};

/// Sizes kept: full to a sixteenth.
pub(crate) const LEVELS: usize = 5;

/// A rectangle of pixels, the far edges exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rect {
    pub x0: usize,
    pub y0: usize,
    pub x1: usize,
    pub y1: usize,
}

/// Side of a tile in the full size, px.
const TILE: usize = 64;

/// The frame and its smaller copies. A pixel of a level is the rounded mean of four of the level
/// below; what is odd at the right or bottom is left out. Levels are made in tiles, when
/// somebody asks for them.
#[derive(Clone, Debug)]
pub(crate) struct Pyramid {
    isa: Isa,
    levels: [Image<u8>; LEVELS],
    /// Tiles in a row.
    across: usize,
    /// Of each tile, row by row: up to which level it is made.
    made: Vec<u8>,
}

impl Pyramid {
    pub fn new(size: Size) -> Self {
        let (across, down) = (size.width.div_ceil(TILE), size.height.div_ceil(TILE));
        Self {
            isa: Isa::detect(),
            levels: std::array::from_fn(|l| Image::new(size.width >> l, size.height >> l)),
            across,
            made: vec![0; across * down],
        }
    }

    /// The full size, to be written. The other levels are forgotten.
    pub fn full_mut(&mut self) -> &mut Image<u8> {
        self.made.fill(0);
        &mut self.levels[0]
    }

    pub fn level(&self, level: usize) -> &Image<u8> {
        &self.levels[level]
    }

    /// Makes levels up to `level` hold what the full size shows in `rect` (in px of the full
    /// size) and the pixels next to it.
    pub fn prepare(&mut self, level: usize, rect: Rect) {
        let level = level.min(LEVELS - 1);
        let down = self.made.len() / self.across.max(1);
        // The far edges too: bilinear readings look there.
        for y in rect.y0 / TILE..(rect.y1 / TILE + 1).min(down) {
            for x in rect.x0 / TILE..(rect.x1 / TILE + 1).min(self.across) {
                let made = &mut self.made[y * self.across + x];
                let first = usize::from(*made) + 1;
                *made = (*made).max(level as u8);
                for l in first..=level {
                    self.make(l, x, y);
                }
            }
        }
    }

    fn make(&mut self, l: usize, x: usize, y: usize) {
        let (below, above) = self.levels.split_at_mut(l);
        let (from, to) = (&below[l - 1], &mut above[0]);
        let side = TILE >> l;
        let (x, y) = (x * side, y * side);
        let width = side.min(to.width().saturating_sub(x));
        let height = side.min(to.height().saturating_sub(y));
        if width == 0 || height == 0 {
            return;
        }
        let (from_stride, to_stride) = (from.stride(), to.stride());
        let from = &from.data()[2 * (y * from_stride + x)..];
        let to = &mut to.data_mut()[y * to_stride + x..];
        let size = Size::new(width, height);
        simd::halve(self.isa, from, from_stride, to, to_stride, size);
    }
}

/// Rounded means of 2 x 2 pixels; `size` is that of what is written.
#[inline(always)]
pub fn halve(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize, size: Size) {
    let Size { width, height } = size;
    for y in 0..height {
        let a = &from[2 * y * from_stride..][..2 * width];
        let b = &from[(2 * y + 1) * from_stride..][..2 * width];
        let to = &mut to[y * to_stride..][..width];
        for ((to, a), b) in to.iter_mut().zip(a.as_chunks().0).zip(b.as_chunks().0) {
            let (a, b) = (u16::from_le_bytes(*a), u16::from_le_bytes(*b));
            let sum = (a & 0xff) + (a >> 8) + (b & 0xff) + (b >> 8);
            *to = ((sum + 2) >> 2) as u8;
        }
    }
}

/// A mono picture as 8-bit grey: 16 bits lose their lower half, colour becomes luma.
///
/// # Panics
/// When the sizes differ.
pub(crate) fn grey_into(image: &MonoImage, to: &mut Image<u8>) {
    assert_eq!(
        image.size(),
        to.size(),
        "picture of another size than the plan's"
    );
    match image {
        MonoImage::Grey8(from) => to.copy_from(from),
        MonoImage::Grey16(from) => {
            for (to, from) in to.rows_mut().zip(from.rows()) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = (from >> 8) as u8;
                }
            }
        }
        MonoImage::Rgb8(from) => {
            for (to, from) in to.rows_mut().zip(from.rows()) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = grey_of(*from);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_means_of_four() {
        for (w, h) in [(1, 1), (2, 2), (33, 17), (64, 31), (1, 40)] {
            let mut p = Pyramid::new(Size::new(w, h));
            *p.full_mut() = Image::from_fn(w, h, |x, y| (x * 37 + y * 91 + x * y) as u8);
            let all = Rect {
                x0: 0,
                y0: 0,
                x1: w,
                y1: h,
            };
            p.prepare(LEVELS - 1, all);
            for l in 1..LEVELS {
                let (from, to) = (p.level(l - 1), p.level(l));
                assert_eq!(to.size(), Size::new(w >> l, h >> l));
                for y in 0..to.height() {
                    for x in 0..to.width() {
                        let sum: u32 = [(0, 0), (1, 0), (0, 1), (1, 1)]
                            .map(|(i, j)| u32::from(from.get(2 * x + i, 2 * y + j)))
                            .iter()
                            .sum();
                        assert_eq!(
                            u32::from(to.get(x, y)),
                            (sum + 2) / 4,
                            "{w}x{h} {l} {x} {y}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_new_picture_makes_new_levels() {
        let mut p = Pyramid::new(Size::new(64, 64));
        let all = Rect {
            x0: 0,
            y0: 0,
            x1: 64,
            y1: 64,
        };
        for grey in [9, 200] {
            p.full_mut().fill(grey);
            p.prepare(4, all);
            assert_eq!(p.level(4).get(3, 3), grey);
        }
    }

    #[test]
    fn a_part_is_as_in_the_whole() {
        let size = Size::new(200, 120);
        let picture = Image::from_fn(200, 120, |x, y| ((x * 7) ^ (y * 13)) as u8);
        let mut whole = Pyramid::new(size);
        *whole.full_mut() = picture.clone();
        whole.prepare(
            4,
            Rect {
                x0: 0,
                y0: 0,
                x1: 200,
                y1: 120,
            },
        );
        let mut part = Pyramid::new(size);
        *part.full_mut() = picture;
        let rect = Rect {
            x0: 64,
            y0: 48,
            x1: 129,
            y1: 97,
        };
        part.prepare(4, rect);
        for l in 0..LEVELS {
            for y in rect.y0 >> l..=(rect.y1 >> l).min((120 >> l) - 1) {
                for x in rect.x0 >> l..=(rect.x1 >> l).min((200 >> l) - 1) {
                    assert_eq!(
                        part.level(l).get(x, y),
                        whole.level(l).get(x, y),
                        "{l} {x} {y}"
                    );
                }
            }
        }
    }

    #[test]
    fn grey_of_every_kind() {
        let mut to = Image::new(2, 1);
        grey_into(&MonoImage::Grey16(Image::filled(2, 1, 0x12FF)), &mut to);
        assert_eq!(to.row(0), [0x12, 0x12]);
        grey_into(
            &MonoImage::Rgb8(Image::filled(2, 1, [255, 255, 255])),
            &mut to,
        );
        assert_eq!(to.row(0), [255, 255]);
        grey_into(&MonoImage::Grey8(Image::filled(2, 1, 7)), &mut to);
        assert_eq!(to.row(0), [7, 7]);
    }
}
