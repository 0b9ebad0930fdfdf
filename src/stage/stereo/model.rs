//! The numeric contract of [`super`] as plain code: slow, obvious, and what every backend must
//! equal byte for byte.
use super::{Input, MAX_COST, Params, ParamsError};
use crate::frame::{Disparity, INVALID, Image, Mask};

/// Disparity of the left image.
///
/// # Errors
/// As [`super::cpu::Plan::new`].
///
/// # Panics
/// When the two images differ in size.
pub fn disparity(
    params: &Params,
    input: Input<'_>,
    mask: Option<&Mask>,
) -> Result<Disparity, ParamsError> {
    params.check_size(input.left.size(), mask.map(Image::size))?;
    assert_eq!(input.left.size(), input.right.size(), "sizes of a pair");
    let sums = sums(params, input, mask);
    let mut out = winners(params, &sums, input.left.width(), input.left.height(), mask);
    if params.median {
        out = median(&out);
    }
    speckles(params, &mut out);
    let rows = gaps(params, &out);
    out = transposed(&gaps(params, &transposed(&rows)));
    for (x, y) in places(&out) {
        if masked(mask, x, y) {
            out.set(x, y, INVALID);
        }
    }
    Ok(out)
}

fn places<T>(image: &Image<T>) -> impl Iterator<Item = (usize, usize)> + use<T> {
    let (w, h) = (image.width(), image.height());
    (0..h).flat_map(move |y| (0..w).map(move |x| (x, y)))
}

fn masked(mask: Option<&Mask>, x: usize, y: usize) -> bool {
    mask.is_some_and(|m| m.get(x, y) == 0)
}

fn census(image: &Image<u8>) -> Image<u32> {
    let (w, h) = (image.width() as isize, image.height() as isize);
    let at = |x: isize, y: isize| image.get(x.clamp(0, w - 1) as usize, y.clamp(0, h - 1) as usize);
    Image::from_fn(image.width(), image.height(), |x, y| {
        let (x, y) = (x as isize, y as isize);
        (0..31).fold(0, |word, bit| {
            let (k, m) = (bit / 9, bit % 9);
            let set = at(x - 4 + m, y - 3 + k) >= at(x + 4 - m, y + 3 - k);
            word | u32::from(set) << bit
        })
    })
}

/// One value for each pixel and disparity.
struct Volume {
    width: usize,
    depth: usize,
    values: Vec<u16>,
}

impl Volume {
    fn new(width: usize, height: usize, depth: usize) -> Self {
        let values = vec![0; width * height * depth];
        Self {
            width,
            depth,
            values,
        }
    }

    fn at(&self, x: usize, y: usize) -> &[u16] {
        &self.values[(y * self.width + x) * self.depth..][..self.depth]
    }

    fn at_mut(&mut self, x: usize, y: usize) -> &mut [u16] {
        &mut self.values[(y * self.width + x) * self.depth..][..self.depth]
    }
}

fn costs(params: &Params, input: Input<'_>, mask: Option<&Mask>) -> Volume {
    let (left, right) = (census(input.left), census(input.right));
    let (w, h) = (left.width(), left.height());
    let mut costs = Volume::new(w, h, params.disparities.into());
    for (x, y) in places(&left) {
        for (d, cost) in costs.at_mut(x, y).iter_mut().enumerate() {
            *cost = if masked(mask, x, y) {
                MAX_COST
            } else if d > x {
                params.outside_cost
            } else {
                (left.get(x, y) ^ right.get(x - d, y)).count_ones() as u16
            };
        }
    }
    costs
}

fn sums(params: &Params, input: Input<'_>, mask: Option<&Mask>) -> Volume {
    let (w, h) = (input.left.width(), input.left.height());
    let n = usize::from(params.disparities);
    let costs = costs(params, input, mask);
    let p2 = params.p2_table();
    let mut sums = Volume::new(w, h, n);
    for &(dx, dy) in params.directions() {
        let mut paths = Volume::new(w, h, n);
        // Row by row in the order in which every predecessor comes first.
        let forward = dy > 0 || (dy == 0 && dx > 0);
        for i in 0..w * h {
            let i = if forward { i } else { w * h - 1 - i };
            let (x, y) = (i % w, i / w);
            let mut path = costs.at(x, y).to_vec();
            let from = (x.checked_add_signed(-dx), y.checked_add_signed(-dy));
            if let (Some(fx), Some(fy)) = from
                && fx < w
                && fy < h
            {
                let before = paths.at(fx, fy);
                let least = before.iter().min().copied().unwrap_or(0);
                let step = input.left.get(x, y).abs_diff(input.left.get(fx, fy));
                for d in 0..n {
                    let mut m = (before[d] - least).min(p2[usize::from(step)].into());
                    if d > 0 {
                        m = m.min(before[d - 1] - least + params.p1);
                    }
                    if d + 1 < n {
                        m = m.min(before[d + 1] - least + params.p1);
                    }
                    path[d] += m;
                }
            }
            for (sum, l) in sums.at_mut(x, y).iter_mut().zip(&path) {
                *sum += l;
            }
            paths.at_mut(x, y).copy_from_slice(&path);
        }
    }
    sums
}

/// Rules 5 to 8.
fn winners(params: &Params, sums: &Volume, w: usize, h: usize, mask: Option<&Mask>) -> Disparity {
    let n = usize::from(params.disparities);
    let right = Image::from_fn(w, h, |k, y| {
        let voters = (0..n).filter(|d| k + d < w && !masked(mask, k + d, y));
        voters.min_by_key(|&d| sums.at(k + d, y)[d])
    });
    Image::from_fn(w, h, |x, y| {
        if masked(mask, x, y) {
            return INVALID;
        }
        let s = |d: usize| i32::from(sums.at(x, y)[d]);
        let best = (0..n).min_by_key(|&d| s(d)).unwrap_or(0);
        let least = i32::from(100 - params.uniqueness_percent);
        let rival = |d: usize| d.abs_diff(best) > 1 && s(d) * least < s(best) * 100;
        if best > x || (0..n).any(rival) {
            return INVALID;
        }
        let max = usize::from(params.left_right_max_px);
        let agrees = |other: Option<usize>| other.is_some_and(|d| d.abs_diff(best) <= max);
        if params.left_right && !agrees(right.get(x - best, y)) {
            return INVALID;
        }
        let mut sixteenths = best as i32 * 16;
        if params.subpixel && 0 < best && best + 1 < n {
            let (before, at, after) = (s(best - 1), s(best), s(best + 1));
            let q = before - 2 * at + after;
            if q > 0 {
                // 16 (before - after) / (2 q), half away from 0.
                let towards = (before - after).signum();
                let size = (16 * (before - after).abs() + q) / (2 * q);
                sixteenths += towards * size;
            }
        }
        (sixteenths * 16) as u16
    })
}

fn median(disparity: &Disparity) -> Disparity {
    let (w, h) = (disparity.width(), disparity.height());
    Image::from_fn(w, h, |x, y| {
        if disparity.get(x, y) == INVALID {
            return INVALID;
        }
        let rows = y.saturating_sub(1)..(y + 2).min(h);
        let mut values: Vec<u16> = rows
            .flat_map(|y| (x.saturating_sub(1)..(x + 2).min(w)).map(move |x| (x, y)))
            .map(|(x, y)| disparity.get(x, y))
            .filter(|&d| d != INVALID)
            .collect();
        values.sort_unstable();
        values[(values.len() - 1) / 2]
    })
}

fn speckles(params: &Params, disparity: &mut Disparity) {
    let (w, h) = (disparity.width(), disparity.height());
    let max = params.speckle_max_step_px * crate::frame::DISPARITY_ONE;
    let mut seen = Image::<bool>::new(w, h);
    for (x, y) in places(disparity) {
        if seen.get(x, y) || disparity.get(x, y) == INVALID {
            continue;
        }
        seen.set(x, y, true);
        let mut region = vec![(x, y)];
        let mut next = 0;
        while next < region.len() {
            let (x, y) = region[next];
            next += 1;
            for (dx, dy) in [(1, 0), (-1, 0), (0, 1), (0, -1)] {
                let (Some(nx), Some(ny)) = (x.checked_add_signed(dx), y.checked_add_signed(dy))
                else {
                    continue;
                };
                if nx >= w || ny >= h || seen.get(nx, ny) || disparity.get(nx, ny) == INVALID {
                    continue;
                }
                if disparity.get(nx, ny).abs_diff(disparity.get(x, y)) <= max {
                    seen.set(nx, ny, true);
                    region.push((nx, ny));
                }
            }
        }
        if region.len() <= params.speckle_max_area_px as usize {
            for (x, y) in region {
                disparity.set(x, y, INVALID);
            }
        }
    }
}

/// Closes gaps along the rows.
fn gaps(params: &Params, disparity: &Disparity) -> Disparity {
    let max_step = params.gap_max_step_px * crate::frame::DISPARITY_ONE;
    Image::from_fn(disparity.width(), disparity.height(), |x, y| {
        let row = disparity.row(y);
        if row[x] != INVALID {
            return row[x];
        }
        let before = row[..x].iter().rposition(|&d| d != INVALID);
        let after = row[x..].iter().position(|&d| d != INVALID);
        let (Some(before), Some(after)) = (before, after.map(|n| x + n)) else {
            return INVALID;
        };
        let (a, b) = (row[before], row[after]);
        let n = after - before;
        if n - 1 > usize::from(params.gap_max_px) || a.abs_diff(b) > max_step {
            return INVALID;
        }
        let (a, b, t) = (usize::from(a / 16), usize::from(b / 16), x - before);
        ((a * (n - t) + b * t + n / 2) / n * 16) as u16
    })
}

fn transposed(disparity: &Disparity) -> Disparity {
    Image::from_fn(disparity.height(), disparity.width(), |y, x| {
        disparity.get(x, y)
    })
}
