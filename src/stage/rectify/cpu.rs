//! The reference, and the backend where there is no GPU.
use rayon::prelude::*;

use super::{Input, Rectified, RectifyError};
use crate::{
    calib::{MAP_ONE, OUTSIDE, Rectification, RectifyMap},
    frame::{Image, Mask, Size},
    stage::Stage,
};

/// Where four raw pixels and their weights are. Its base is never in the last column or row, so
/// that all four exist; a pixel exactly on the last one has weight 256 there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tap {
    pub(super) x: u16,
    pub(super) y: u16,
    /// Weight of the right pixels, 0..=256, or [`Tap::OUTSIDE`].
    pub(super) a: u16,
    /// Weight of the lower pixels, 0..=256.
    pub(super) b: u16,
}

impl Tap {
    const OUTSIDE: u16 = u16::MAX;

    fn new(entry: [i32; 2], source: Size) -> Self {
        if entry == OUTSIDE {
            return Self {
                x: 0,
                y: 0,
                a: Self::OUTSIDE,
                b: 0,
            };
        }
        let split = |at: i32, side: usize| {
            let base = (at / MAP_ONE).min((side as i32 - 2).max(0));
            (base as u16, (at - base * MAP_ONE) as u16)
        };
        let ((x, a), (y, b)) = (
            split(entry[0], source.width),
            split(entry[1], source.height),
        );
        Self { x, y, a, b }
    }
}

/// The rectification of images of one size.
#[derive(Clone, Debug)]
pub struct Plan {
    size: Size,
    pub(super) taps: Option<[Image<Tap>; 2]>,
    mask: Option<Mask>,
}

impl Plan {
    /// A plan for images of `size`. `raw_mask` says which raw pixels of the left image may be
    /// used (0 = never); it is carried over to the rectified image from the nearest raw pixel
    /// (halves go up).
    ///
    /// # Errors
    /// When the sizes differ.
    pub fn new(
        rectification: &Rectification,
        size: Size,
        raw_mask: Option<&Mask>,
    ) -> Result<Self, RectifyError> {
        if rectification.size != size {
            return Err(RectifyError::ImageSize {
                found: size,
                expected: rectification.size,
            });
        }
        if let Some(mask) = raw_mask
            && mask.size() != size
        {
            return Err(RectifyError::MaskSize {
                found: mask.size(),
                expected: size,
            });
        }
        let maps = rectification.maps.as_ref();
        let taps = |map: &RectifyMap| {
            Image::from_fn(size.width, size.height, |x, y| {
                Tap::new(map.entries().get(x, y), map.source_size())
            })
        };
        Ok(Self {
            size,
            taps: maps.map(|[left, right]| [taps(left), taps(right)]),
            mask: usable_pixels(rectification, raw_mask),
        })
    }

    /// Which pixels of the rectified left image may be used: 0 = never, else 255. `None` when all
    /// of them may.
    pub fn mask(&self) -> Option<&Mask> {
        self.mask.as_ref()
    }

    /// Whether it only copies.
    pub fn is_identity(&self) -> bool {
        self.taps.is_none()
    }

    /// Size of the images.
    pub fn size(&self) -> Size {
        self.size
    }
}

/// As [`Plan::mask`]. `raw` has the images' size.
pub fn usable_pixels(rectification: &Rectification, raw: Option<&Mask>) -> Option<Mask> {
    let size = rectification.size;
    let map = rectification.maps.as_ref().map(|maps| &maps[0]);
    let usable = |x: usize, y: usize| {
        let at = match map {
            None => Some([x, y]),
            Some(map) => map
                .source_of(x, y)
                .map(|[u, v]| [u, v].map(|c| ((c + MAP_ONE / 2) / MAP_ONE) as usize)),
        };
        at.is_some_and(|[u, v]| raw.is_none_or(|raw| raw.get(u, v) != 0))
    };
    let mask = Image::from_fn(
        size.width,
        size.height,
        |x, y| {
            if usable(x, y) { 255 } else { 0 }
        },
    );
    let all = mask.pixels().all(|&m| m != 0);
    (!all).then_some(mask)
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Rectified;

    fn run(&mut self, input: Input<'_>, output: &mut Rectified) {
        let Self { size, taps, .. } = self;
        let [left, right] = match taps {
            Some([left, right]) => [Some(&*left), Some(&*right)],
            None => [None, None],
        };
        one(*size, left, Some(input.left), Some(&mut output.left));
        one(*size, right, input.right, output.right.as_mut());
        one(*size, left, input.left_rgb, output.left_rgb.as_mut());
    }
}

fn one<T: Sample>(
    size: Size,
    taps: Option<&Image<Tap>>,
    input: Option<&Image<T>>,
    output: Option<&mut Image<T>>,
) {
    let Some(output) = output else { return };
    assert_eq!(output.size(), size, "rectified image of another size");
    let Some(input) = input else {
        output.fill(T::default());
        return;
    };
    assert_eq!(input.size(), size, "raw image of another size");
    let Some(taps) = taps else {
        output.copy_from(input);
        return;
    };
    if size.area() == 0 {
        return;
    }
    let (raw, stride) = (input.data(), input.stride());
    // A single column or row has no neighbour; its weight is 0.
    let dx = usize::from(size.width > 1);
    let dy = if size.height > 1 { stride } else { 0 };
    let out_stride = output.stride();
    output
        .data_mut()
        .par_chunks_mut(out_stride)
        .with_min_len(8)
        .take(size.height)
        .enumerate()
        .for_each(|(y, row)| {
            for (out, tap) in row.iter_mut().zip(taps.row(y)) {
                *out = if tap.a == Tap::OUTSIDE {
                    T::default()
                } else {
                    let at = usize::from(tap.y) * stride + usize::from(tap.x);
                    let four = [raw[at], raw[at + dx], raw[at + dy], raw[at + dy + dx]];
                    T::mean(four, tap.a.into(), tap.b.into())
                };
            }
        });
}

/// A pixel that can be interpolated.
trait Sample: Copy + Default + Send + Sync {
    /// The mean of the upper left, upper right, lower left and lower right pixel, `a` to the
    /// right and `b` down in 1/256.
    fn mean(four: [Self; 4], a: u32, b: u32) -> Self;
}

impl Sample for u8 {
    #[inline]
    fn mean(four: [u8; 4], a: u32, b: u32) -> u8 {
        let [p, q, r, s] = four.map(u32::from);
        let upper = (256 - a) * p + a * q;
        let lower = (256 - a) * r + a * s;
        (((256 - b) * upper + b * lower + 32_768) >> 16) as u8
    }
}

impl Sample for [u8; 3] {
    #[inline]
    fn mean(four: [[u8; 3]; 4], a: u32, b: u32) -> [u8; 3] {
        [0, 1, 2].map(|c| u8::mean(four.map(|p| p[c]), a, b))
    }
}
