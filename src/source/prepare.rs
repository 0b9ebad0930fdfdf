//! What `[input]` does to the pictures, pixel by pixel.
use std::ops::Range;

use super::options::Crop;
use crate::frame::{Disparity, INVALID, Image, Mask, MonoImage, Rgb, Size};
use crate::picture::{Picture, grey_of};

/// One channel of a pixel.
trait Sample: Into<u32> + Copy {
    /// From a mean, which is no larger than its samples.
    fn of(mean: u32) -> Self;
}

impl Sample for u8 {
    fn of(mean: u32) -> Self {
        mean as u8
    }
}

impl Sample for u16 {
    fn of(mean: u32) -> Self {
        mean as u16
    }
}

/// How picture files of one size become images of the frame sets.
#[derive(Clone, Debug)]
pub(super) struct Prepare {
    /// The part that is used: whole blocks of `scale_down`.
    pub part: Crop,
    pub scale_down: usize,
    pub shift_bits: u32,
}

impl Prepare {
    /// Leaves pictures of this size as they are.
    pub fn nothing(size: Size) -> Self {
        Self {
            part: Crop {
                x: 0,
                y: 0,
                width: size.width,
                height: size.height,
            },
            scale_down: 1,
            shift_bits: 8,
        }
    }

    /// The size of the images.
    pub fn size(&self) -> Size {
        Size::new(
            self.part.width / self.scale_down,
            self.part.height / self.scale_down,
        )
    }

    /// Grey: RGB by [`grey_of`], 16 bits by the shift; then the mean of each block, rounded half
    /// up.
    pub fn grey(&self, picture: &Picture, out: &mut Image<u8>) {
        match picture {
            Picture::Grey8(image) => self.mean(image, |v| [v], |[v]| v, out),
            Picture::Grey16(image) => {
                let shift = self.shift_bits;
                self.mean(image, |v| [(v >> shift).min(255) as u8], |[v]| v, out);
            }
            Picture::Rgb8(image) => self.mean(image, |v| [grey_of(v)], |[v]| v, out),
        }
    }

    /// Colour: the mean of each channel of each block; grey pictures give grey.
    pub fn rgb(&self, picture: &Picture, out: &mut Rgb) {
        match picture {
            Picture::Grey8(image) => self.mean(image, |v| [v; 3], |v| v, out),
            Picture::Grey16(image) => {
                let shift = self.shift_bits;
                self.mean(image, |v| [(v >> shift).min(255) as u8; 3], |v| v, out);
            }
            Picture::Rgb8(image) => self.mean(image, |v| v, |v| v, out),
        }
    }

    /// The mono camera's picture: the mean of each block, rounded half up, 16 bits in full. Grey
    /// of 8 bits becomes colour, and colour grey ([`grey_of`]), as the drive's first picture
    /// wants it; false where 16 bits are on one side alone.
    pub fn mono(&self, picture: &Picture, out: &mut MonoImage) -> bool {
        match (picture, out) {
            (Picture::Grey16(image), MonoImage::Grey16(out)) => {
                self.mean(image, |v| [v], |[v]| v, out);
            }
            (Picture::Grey16(_), _) | (_, MonoImage::Grey16(_)) => return false,
            (picture, MonoImage::Grey8(out)) => self.grey(picture, out),
            (picture, MonoImage::Rgb8(out)) => self.rgb(picture, out),
        }
        true
    }

    /// The rows of the part, from its left edge.
    fn row<'a, P>(&self, image: &'a Image<P>, y: usize) -> &'a [P] {
        &image.row(self.part.y + y)[self.part.x..][..self.part.width]
    }

    fn mean<P: Copy, V: Sample, Q, const N: usize>(
        &self,
        image: &Image<P>,
        channels: impl Fn(P) -> [V; N],
        pixel: impl Fn([V; N]) -> Q,
        out: &mut Image<Q>,
    ) {
        let n = self.scale_down;
        for (y, to) in out.rows_mut().enumerate() {
            if n == 1 {
                for (to, &from) in to.iter_mut().zip(self.row(image, y)) {
                    *to = pixel(channels(from));
                }
                continue;
            }
            for (x, to) in to.iter_mut().enumerate() {
                let mut sums = [0u32; N];
                for dy in 0..n {
                    for &from in &self.row(image, y * n + dy)[x * n..][..n] {
                        for (sum, v) in sums.iter_mut().zip(channels(from)) {
                            *sum += v.into();
                        }
                    }
                }
                let area = (n * n) as u32;
                *to = pixel(sums.map(|sum| V::of((sum + area / 2) / area)));
            }
        }
    }

    /// Disparities in 1/256 px of the file's picture. Of each block the lower median of the valid
    /// ones (edges stay edges), divided by `scale_down` and rounded half up; invalid where fewer
    /// than half are valid.
    pub fn disparity<P: Copy>(
        &self,
        image: &Image<P>,
        value: impl Fn(P) -> u16,
        out: &mut Disparity,
    ) {
        let n = self.scale_down;
        let mut valid = [0u16; 64];
        for (y, to) in out.rows_mut().enumerate() {
            if n == 1 {
                for (to, &from) in to.iter_mut().zip(self.row(image, y)) {
                    *to = value(from);
                }
                continue;
            }
            for (x, to) in to.iter_mut().enumerate() {
                let mut count = 0;
                for dy in 0..n {
                    for &from in &self.row(image, y * n + dy)[x * n..][..n] {
                        let d = value(from);
                        if d != INVALID {
                            valid[count] = d;
                            count += 1;
                        }
                    }
                }
                *to = if count == 0 || 2 * count < n * n {
                    INVALID
                } else {
                    let valid = &mut valid[..count];
                    let (_, median, _) = valid.select_nth_unstable((count - 1) / 2);
                    ((usize::from(*median) + n / 2) / n) as u16
                };
            }
        }
    }

    /// The mask of the images from that of the files: a pixel is masked when any pixel that it
    /// covers is.
    pub fn mask(&self, mask: &Mask) -> Mask {
        let n = self.scale_down;
        let size = self.size();
        Image::from_fn(size.width, size.height, |x, y| {
            let masked = (0..n).any(|dy| self.row(mask, y * n + dy)[x * n..][..n].contains(&0));
            if masked { 0 } else { 255 }
        })
    }
}

/// A mask (0 = never use, else 255) of polygons in the coordinates of an image: pixels whose
/// centre, which has whole coordinates, lies inside (even-odd) or on the outline.
pub(super) fn mask_of_polygons(size: Size, polygons: &[Vec<[f64; 2]>]) -> Mask {
    let mut mask = Image::filled(size.width, size.height, 255);
    for polygon in polygons {
        let columns = whole(polygon.iter().map(|p| p[0]), size.width);
        for y in whole(polygon.iter().map(|p| p[1]), size.height) {
            let row = mask.row_mut(y);
            for x in columns.clone() {
                if covers(polygon, x as f64, y as f64) {
                    row[x] = 0;
                }
            }
        }
    }
    mask
}

/// The whole coordinates from 0 to below `end` within the span of some numbers.
fn whole(numbers: impl Iterator<Item = f64> + Clone, end: usize) -> Range<usize> {
    let from = numbers.clone().fold(f64::INFINITY, f64::min).ceil();
    let to = numbers.fold(f64::NEG_INFINITY, f64::max).floor() + 1.0;
    // Conversion stops at 0.
    from as usize..end.min(to as usize)
}

fn covers(polygon: &[[f64; 2]], x: f64, y: f64) -> bool {
    let mut inside = false;
    let last = polygon.last().copied().unwrap_or_default();
    let mut a = last;
    for &b in polygon {
        // Twice the area of the triangle of the edge and the point: 0 on the edge's line.
        let side = (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]);
        let within = |i: usize, v: f64| (a[i].min(b[i])..=a[i].max(b[i])).contains(&v);
        if side == 0.0 && within(0, x) && within(1, y) {
            return true;
        }
        // The ray to the right crosses edges that lie across its row; an upper end is in, a
        // lower end is out, so that corners count once.
        if (a[1] > y) != (b[1] > y) && (side > 0.0) == (b[1] > a[1]) {
            inside = !inside;
        }
        a = b;
    }
    inside
}
