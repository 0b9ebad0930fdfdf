//! The frame in grey at full, half, quarter ... size, as far as somebody looks at it.
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

/// Rows of a level that are made at once.
const BAND: usize = 32;

/// The frame and its smaller copies. A pixel of a level is the rounded mean of four of the level
/// below; what is odd at the right or bottom is left out. Levels are made in bands of rows, when
/// somebody asks for them.
#[derive(Clone, Debug)]
pub(crate) struct Pyramid {
    levels: [Image<u8>; LEVELS],
    /// Which bands are made.
    ready: [Vec<bool>; LEVELS],
}

impl Pyramid {
    pub fn new(size: Size) -> Self {
        let bands = |l: usize| (size.height >> l).div_ceil(BAND);
        Self {
            levels: std::array::from_fn(|l| Image::new(size.width >> l, size.height >> l)),
            ready: std::array::from_fn(|l| vec![false; bands(l)]),
        }
    }

    /// The full size, to be written. The other levels are forgotten.
    pub fn full_mut(&mut self) -> &mut Image<u8> {
        self.ready.iter_mut().for_each(|r| r.fill(false));
        &mut self.levels[0]
    }

    pub fn level(&self, level: usize) -> &Image<u8> {
        &self.levels[level]
    }

    /// Makes levels up to `level` hold what the full size shows in `rect` (in px of the full
    /// size) and the pixels next to it.
    pub fn prepare(&mut self, level: usize, rect: Rect) {
        let level = level.min(LEVELS - 1);
        // A row more: bilinear readings look below.
        let (first, last) = ((rect.y0 >> level) / BAND, ((rect.y1 >> level) + 1) / BAND);
        for l in 1..=level {
            let fine = level - l;
            for band in first << fine..(last + 1) << fine {
                if self.ready[l].get(band) == Some(&false) {
                    self.make(l, band);
                }
            }
        }
    }

    fn make(&mut self, l: usize, band: usize) {
        self.ready[l][band] = true;
        let (below, above) = self.levels.split_at_mut(l);
        let (from, to) = (&below[l - 1], &mut above[0]);
        let Size { width, height } = to.size();
        for y in band * BAND..((band + 1) * BAND).min(height) {
            let a = &from.row(2 * y)[..2 * width];
            let b = &from.row(2 * y + 1)[..2 * width];
            let row = &mut to.row_mut(y)[..width];
            for ((to, a), b) in row.iter_mut().zip(a.as_chunks().0).zip(b.as_chunks().0) {
                let ([a, b], [c, d]): (&[u8; 2], &[u8; 2]) = (a, b);
                let sum = u16::from(*a) + u16::from(*b) + u16::from(*c) + u16::from(*d);
                *to = ((sum + 2) >> 2) as u8;
            }
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
