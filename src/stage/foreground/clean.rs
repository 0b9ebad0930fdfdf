//! The median that cleans the mask up.
// Lanes are indices here, of several arrays at once.
#![allow(clippy::needless_range_loop)]

use super::kernel::{MOVING, SHADOW};
use crate::frame::Foreground;

/// Columns taken at once.
const TILE: usize = 256;

/// What a pixel is where `moving` of the `area` codes around it are no background, and `shadows`
/// of those look as a shadow does: the median's verdict, and shadow where four in five are.
#[inline(always)]
fn verdict(moving: u16, shadows: u16, area: u16) -> u8 {
    if 2 * moving <= area {
        0
    } else if 5 * shadows >= 4 * moving {
        Foreground::SHADOW
    } else {
        Foreground::MOVING
    }
}

/// One row of the mask from the `SIDE` rows of codes around it; beyond its ends a row goes on
/// as it ends.
#[inline(always)]
pub fn row<const SIDE: usize>(rows: [&[u8]; SIDE], out: &mut [u8]) {
    let r = SIDE / 2;
    let w = out.len();
    let mut sums = [0u16; TILE + 4];
    // Moving pixels in the low byte, shadows in the high one.
    let spread = |code: u8| u16::from(code & MOVING) | u16::from(code & SHADOW) << 7;
    for (t, out) in out.chunks_mut(TILE).enumerate() {
        let (x0, n) = (t * TILE, out.len());
        let sums = &mut sums[..n + 2 * r];
        let first = x0.max(r) - r;
        let last = (x0 + n + r).min(w);
        let offset = first + r - x0;
        sums.fill(0);
        for codes in rows {
            let codes = &codes[first..last];
            for (sum, &code) in sums[offset..].iter_mut().zip(codes) {
                *sum += spread(code);
            }
        }
        let (head, tail) = (sums[offset], sums[offset + last - first - 1]);
        sums[..offset].fill(head);
        sums[offset + last - first..].fill(tail);
        for i in 0..n {
            let mut sum = 0;
            for k in 0..SIDE {
                sum += sums[i + k];
            }
            out[i] = verdict(sum & 0xff, sum >> 8, (SIDE * SIDE) as u16);
        }
    }
}

/// One row of the mask without a median.
pub fn plain(codes: &[u8], out: &mut [u8]) {
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = verdict(u16::from(code & MOVING), u16::from(code & SHADOW) >> 1, 1);
    }
}
