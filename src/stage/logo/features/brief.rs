//! BRIEF-256 in scale space (rule 7 of the contract).
use super::{
    Descriptor,
    tables::{POINT_ONE, REACH},
};
use crate::frame::Size;

const LANES: usize = 16;

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
            // Rounding may add a pixel, the offset another.
            reach: ((scale * REACH) >> 10) + 2,
        }
    }

    /// Whether every point of the pattern lies inside a level of this size.
    pub fn is_inside(&self, size: Size) -> bool {
        let within = |v: i32, n: usize| v >= self.reach && v + self.reach < n as i32;
        within(self.x, size.width) && within(self.y, size.height)
    }

    /// The pixel nearest to a point of the pattern, perhaps outside the level.
    #[inline(always)]
    fn pixel(&self, u: i16, v: i16) -> [i32; 2] {
        let (u, v) = (i32::from(u), i32::from(v));
        const { assert!(POINT_ONE == 256) };
        let dx = self.cos * u - self.sin * v + self.fraction[0];
        let dy = self.sin * u + self.cos * v + self.fraction[1];
        let half = 1 << (FRACTION - 1);
        [
            self.x + ((dx + half) >> FRACTION),
            self.y + ((dy + half) >> FRACTION),
        ]
    }
}

/// The descriptor of a keypoint: bit `i` is set where the level at the first point of pair `i` is
/// less than at the second. Points outside read the nearest pixel.
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
            let (mut first, mut second) = ([0i32; LANES], [0i32; LANES]);
            for (lane, &[a, b, c, d]) in pairs.iter().enumerate().take(LANES) {
                let index = |[x, y]: [i32; 2]| y.clamp(0, bottom) * width + x.clamp(0, right);
                first[lane] = index(place.pixel(a, b));
                second[lane] = index(place.pixel(c, d));
            }
            for lane in 0..LANES {
                let darker = level[first[lane] as usize] < level[second[lane] as usize];
                *word |= u32::from(darker) << (half * LANES + lane);
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
