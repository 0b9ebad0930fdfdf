//! BRIEF-256 in scale space (rule 7 of the contract).
use super::{
    Descriptor,
    tables::{POINT_ONE, REACH},
};
use crate::frame::Size;

const LANES: usize = 16;

/// Scale of keypoints that are described without their own, 1/1024 px: a patch 48 px wide.
pub const UNSCALED: i32 = 2 << 10;

/// Fraction bits of positions in a level.
pub const FRACTION: u32 = 18;

/// Where a keypoint lies in a level, and how its pattern is turned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Pixel of the level.
    pub x: i32,
    /// Row.
    pub y: i32,
    /// What is to be added, 1/2^18 px.
    pub fraction: [i32; 2],
    /// Scale times cosine, 1/1024 px of the level.
    pub cos: i32,
    /// Scale times sine.
    pub sin: i32,
    /// Pixels that the pattern reaches from `(x, y)`.
    pub reach: i32,
}

/// `scale * cos` in 1/1024 px, rounded half up.
fn product(scale: i32, cos: i32) -> i32 {
    (scale * cos + (1 << 13)) >> 14
}

impl Placement {
    /// At pixel `(x, y)` plus `offset`; `scale` in 1/1024 px, `cos` and `sin` in 1/16384.
    pub fn new(x: i32, y: i32, offset: [f32; 2], scale: i32, [cos, sin]: [i32; 2]) -> Self {
        Self {
            x,
            y,
            fraction: offset.map(|o| (o * (1 << FRACTION) as f32) as i32),
            cos: product(scale, cos),
            sin: product(scale, sin),
            reach: Self::reach(scale),
        }
    }

    /// Pixels that a pattern of `scale` in 1/1024 px reaches from its pixel; rounding may add one,
    /// the offset another.
    pub const fn reach(scale: i32) -> i32 {
        ((scale * REACH) >> 10) + 2
    }

    /// Whether every point of the pattern lies inside a level of this size.
    pub fn is_inside(&self, size: Size) -> bool {
        let within = |v: i32, n: usize| v >= self.reach && v + self.reach < n as i32;
        within(self.x, size.width) && within(self.y, size.height)
    }

    /// A point of the pattern: the pixel at its upper left, perhaps outside the level, and how far
    /// it is from there to the next, in 1/256.
    #[inline(always)]
    fn point(&self, u: i16, v: i16) -> [(i32, u32); 2] {
        let (u, v) = (i32::from(u), i32::from(v));
        const { assert!(POINT_ONE == 256) };
        let dx = self.cos * u - self.sin * v + self.fraction[0];
        let dy = self.sin * u + self.cos * v + self.fraction[1];
        let part = |d: i32| (d >> (FRACTION - 8)) as u32 & 255;
        [
            (self.x + (dx >> FRACTION), part(dx)),
            (self.y + (dy >> FRACTION), part(dy)),
        ]
    }
}

/// The descriptor of a keypoint: bit `i` is set where the level at the first point of pair `i` is
/// less than at the second; bilinear between the pixels, in whole numbers. Points outside read the
/// nearest pixel.
#[inline(always)]
pub(super) fn describe(
    level: &[u16],
    size: Size,
    place: &Placement,
    pattern: &[[i16; 4]],
    out: &mut Descriptor,
) {
    let (right, bottom) = (size.width as i32 - 1, size.height as i32 - 1);
    let width = size.width as i32;
    for (word, pairs) in out.0.iter_mut().zip(pattern.chunks(32)) {
        *word = 0;
        for (half, pairs) in pairs.chunks(LANES).enumerate() {
            let mut values = [[0u32; LANES]; 2];
            for (end, values) in values.iter_mut().enumerate() {
                let mut at = [[0i32; LANES]; 4];
                let mut parts = [[0u32; LANES]; 2];
                for (lane, pair) in pairs.iter().enumerate().take(LANES) {
                    let [(x, fx), (y, fy)] = place.point(pair[2 * end], pair[2 * end + 1]);
                    let (x0, x1) = (x.clamp(0, right), (x + 1).clamp(0, right));
                    let rows = [y.clamp(0, bottom) * width, (y + 1).clamp(0, bottom) * width];
                    at[0][lane] = rows[0] + x0;
                    at[1][lane] = rows[0] + x1;
                    at[2][lane] = rows[1] + x0;
                    at[3][lane] = rows[1] + x1;
                    (parts[0][lane], parts[1][lane]) = (fx, fy);
                }
                let grey = at.map(|at| at.map(|i| u32::from(level[i as usize])));
                for (lane, value) in values.iter_mut().enumerate() {
                    let (fx, fy) = (parts[0][lane], parts[1][lane]);
                    let above = grey[0][lane] * (256 - fx) + grey[1][lane] * fx;
                    let below = grey[2][lane] * (256 - fx) + grey[3][lane] * fx;
                    *value = above * (256 - fy) + below * fy;
                }
            }
            let [first, second] = values;
            for (lane, (first, second)) in first.iter().zip(second).enumerate() {
                *word |= u32::from(*first < second) << (half * LANES + lane);
            }
        }
    }
}

/// The report's descriptor: pairs of pixels of the image itself; `place` without scale and angle.
pub(super) fn describe_patch(
    level: &[u16],
    size: Size,
    [x, y]: [i32; 2],
    pattern: &[[i16; 4]],
    out: &mut Descriptor,
) {
    let (right, bottom) = (size.width as i32 - 1, size.height as i32 - 1);
    let value = |u: i16, v: i16| {
        let x = (x + i32::from(u)).clamp(0, right);
        let y = (y + i32::from(v)).clamp(0, bottom);
        level[y as usize * size.width + x as usize]
    };
    for (word, pairs) in out.0.iter_mut().zip(pattern.chunks(32)) {
        *word = 0;
        for (bit, &[a, b, c, d]) in pairs.iter().enumerate() {
            *word |= u32::from(value(a, b) < value(c, d)) << bit;
        }
    }
}
