//! One measurement a row from the pixels of a column.
use crate::frame::{Disparity, INVALID};

use super::{
    InvalidPixels, Reduction, Rounding,
    tables::{MISSING, Tables},
};

/// Writes the measurements of column `u` in units, bottom row first, [`MISSING`] where fewer
/// than half the pixels are valid. A disparity beyond the range counts as the largest in it.
pub(super) fn reduce(tables: &Tables, disparity: &Disparity, u: usize, out: &mut [i32]) {
    let width = tables.params.stixel_width;
    let limit = (tables.disparities * 256 - 1).min(usize::from(INVALID) - 1) as u16;
    let as_zero = tables.params.invalid_pixels == InvalidPixels::Zero;
    let scale = tables.unit / 256;
    let nearest = tables.params.rounding == Rounding::Nearest;
    let largest = tables.largest();
    let blind = if as_zero {
        0
    } else {
        tables.params.left_border_px
    };
    let blind = blind.saturating_sub(u * width).min(width);
    for (v, out) in out.iter_mut().rev().enumerate() {
        let pixels = &disparity.row(v)[u * width..][..width];
        let reduced = match tables.params.reduction {
            Reduction::Mean if as_zero => Some(
                pixels
                    .iter()
                    .map(|&d| {
                        if d == INVALID {
                            0
                        } else {
                            u32::from(d.min(limit))
                        }
                    })
                    .sum(),
            ),
            Reduction::Mean => {
                let (mut sum, mut count) = (0u32, 0u32);
                for &d in &pixels[blind..] {
                    if d != INVALID {
                        sum += u32::from(d.min(limit));
                        count += 1;
                    }
                }
                let half = if nearest { count / 2 } else { 0 };
                (count as usize * 2 >= width).then(|| (sum + half) / count.max(1))
            }
            Reduction::Median => median(&pixels[blind..], width, as_zero, limit).map(|d| d * scale),
        };
        *out = reduced.map_or(MISSING, |d| (d as i32).min(largest));
    }
}

fn median(pixels: &[u16], width: usize, as_zero: bool, limit: u16) -> Option<u32> {
    let mut sorted = [0u16; 255];
    let mut count = 0;
    for &d in pixels {
        if d != INVALID || as_zero {
            sorted[count] = if d == INVALID { 0 } else { d.min(limit) };
            count += 1;
        }
    }
    if count == 0 || count * 2 < width {
        return None;
    }
    let sorted = &mut sorted[..count];
    sorted.sort_unstable();
    let (low, high) = (sorted[(count - 1) / 2], sorted[count / 2]);
    Some((u32::from(low) + u32::from(high)) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{Camera, Image, Size},
        stage::stixel::Params,
    };

    fn column(params: &Params, pixels: &[u16]) -> i32 {
        let camera = Camera {
            focal_px: 700.0,
            cx: 0.0,
            cy: 0.0,
            baseline_m: 0.5,
        };
        let params = Params {
            stixel_width: pixels.len(),
            left_border_px: 0,
            ..params.clone()
        };
        let tables = Tables::new(&params, Size::new(pixels.len(), 1), &camera, 64).unwrap();
        let image = Image::from_vec(pixels.len(), 1, pixels.to_vec()).unwrap();
        let mut out = [7];
        reduce(&tables, &image, 0, &mut out);
        out[0]
    }

    #[test]
    fn mean_of_valid_pixels_when_half_are_valid() {
        let p = Params::default();
        assert_eq!(column(&p, &[10, 20, 31, INVALID, INVALID]), 20);
        assert_eq!(column(&p, &[10, 21, INVALID, INVALID]), 16);
        assert_eq!(column(&p, &[10, 20, INVALID, INVALID, INVALID]), MISSING);
        assert_eq!(column(&p, &[INVALID]), MISSING);
        assert_eq!(column(&p, &[60_000]), 64 * 256 - 1);
    }

    #[test]
    fn median_of_valid_pixels() {
        let p = Params {
            reduction: Reduction::Median,
            ..Params::default()
        };
        assert_eq!(column(&p, &[500, 20, 31, INVALID, INVALID]), 31);
        assert_eq!(column(&p, &[500, 20, 30, 40]), 35);
        assert_eq!(column(&p, &[10, INVALID, INVALID]), MISSING);
    }

    #[test]
    fn paper_sums_every_pixel_and_takes_a_hole_for_zero() {
        let p = Params::paper();
        assert_eq!(column(&p, &[10, 20, 31, INVALID, 0]), 61);
        let median = Params {
            reduction: Reduction::Median,
            ..p
        };
        assert_eq!(column(&median, &[10, 20, 31, INVALID, 0]), 10);
    }
}
