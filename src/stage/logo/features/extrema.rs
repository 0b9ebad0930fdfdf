//! Extrema of the difference of Gaussians (rules 3 and 4 of the contract).
use super::MAX_STEPS;
use crate::frame::Size;

/// What `flag_row` looks at: layer `i` and the layers before and after it, at row `y`.
pub struct Rows<'a> {
    /// Row `y` of the layer.
    pub(super) at: &'a [i16],
    /// Row `y - 1`.
    pub(super) above: &'a [i16],
    /// Row `y + 1`.
    pub(super) below: &'a [i16],
    /// Greatest of 3x3 pixels of the layer before (row 1 up to the last but one pixel).
    pub(super) most_before: &'a [i16],
    /// Least.
    pub(super) least_before: &'a [i16],
    /// Greatest of 3x3 pixels of the layer after.
    pub(super) most_after: &'a [i16],
    /// Least.
    pub(super) least_after: &'a [i16],
}

/// `above - below`, the levels `i + 1` and `i`.
#[inline(always)]
pub(super) fn difference_row(above: &[u16], below: &[u16], out: &mut [i16]) {
    for ((out, &a), &b) in out.iter_mut().zip(above).zip(below) {
        *out = a as i16 - b as i16;
    }
}

/// Greatest and least of the 3x3 pixels about each; the first and the last are left alone.
#[inline(always)]
pub(super) fn box_row(rows: [&[i16]; 3], most: &mut [i16], least: &mut [i16]) {
    let n = most.len();
    if n < 3 {
        return;
    }
    let [a, b, c] = rows.map(|row| &row[..n]);
    let least = &mut least[..n];
    let inner = n - 2;
    let (most, least) = (&mut most[1..][..inner], &mut least[1..][..inner]);
    let [a0, a1, a2] = [0, 1, 2].map(|i| &a[i..][..inner]);
    let [b0, b1, b2] = [0, 1, 2].map(|i| &b[i..][..inner]);
    let [c0, c1, c2] = [0, 1, 2].map(|i| &c[i..][..inner]);
    for x in 0..inner {
        let (p, q) = (a0[x].max(a1[x]).max(a2[x]), b0[x].max(b1[x]).max(b2[x]));
        most[x] = p.max(q).max(c0[x].max(c1[x]).max(c2[x]));
        let (p, q) = (a0[x].min(a1[x]).min(a2[x]), b0[x].min(b1[x]).min(b2[x]));
        least[x] = p.min(q).min(c0[x].min(c1[x]).min(c2[x]));
    }
}

/// 1 where there is a maximum above `threshold` or a minimum below its negative; the first and the
/// last pixel are left alone.
#[inline(always)]
pub(super) fn flag_row(rows: &Rows<'_>, threshold: i16, flags: &mut [u8]) {
    let n = flags.len();
    if n < 3 {
        return;
    }
    let inner = n - 2;
    let flags = &mut flags[1..][..inner];
    let [a0, a1, a2] = [0, 1, 2].map(|i| &rows.above[i..][..inner]);
    let [b0, b1, b2] = [0, 1, 2].map(|i| &rows.at[i..][..inner]);
    let [c0, c1, c2] = [0, 1, 2].map(|i| &rows.below[i..][..inner]);
    let (most_before, least_before) = (
        &rows.most_before[1..][..inner],
        &rows.least_before[1..][..inner],
    );
    let (most_after, least_after) = (
        &rows.most_after[1..][..inner],
        &rows.least_after[1..][..inner],
    );
    for x in 0..inner {
        let v = b1[x];
        let most = most_before[x].max(a0[x]).max(a1[x]).max(a2[x]).max(b0[x]);
        let after = most_after[x].max(c0[x]).max(c1[x]).max(c2[x]).max(b2[x]);
        let greatest = (v > threshold) & (v >= most) & (v > after);
        let least = least_before[x].min(a0[x]).min(a1[x]).min(a2[x]).min(b0[x]);
        let after = least_after[x].min(c0[x]).min(c1[x]).min(c2[x]).min(b2[x]);
        let smallest = (v < -threshold) & (v <= least) & (v < after);
        flags[x] = u8::from(greatest | smallest);
    }
}

/// The levels of one octave, to look at single pixels.
pub struct Octave<'a> {
    /// Rows packed.
    pub levels: &'a [Vec<u16>],
    /// Of each level.
    pub size: Size,
    /// Layers where points may be.
    pub intervals: usize,
    /// Pixels from the border.
    pub border: usize,
}

impl Octave<'_> {
    /// `D_layer` at a pixel.
    fn difference(&self, x: usize, y: usize, layer: usize) -> i32 {
        let at = y * self.size.width + x;
        i32::from(self.levels[layer + 1][at]) - i32::from(self.levels[layer][at])
    }
}

/// A point between the pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Pixel.
    pub x: usize,
    /// Row.
    pub y: usize,
    /// Layer.
    pub layer: usize,
    /// What is to be added to each, at most 0.5.
    pub offset: [f32; 3],
    /// `D` there, 1/64 grey.
    pub value: f32,
}

/// Moves a candidate to the extremum of the parabola through its neighbours.
///
/// With `2 g` and `4 H` whole numbers (central differences), `offset = -H^-1 g` is the quotient of
/// two determinants of 64-bit whole numbers, each converted to `f32`. While a component's size
/// is above 0.5 the point moves one pixel or layer that way. `least` is the least contrast
/// (`|D|` in 1/64 grey), `edge` the largest ratio of curvatures.
pub fn refine(
    octave: &Octave<'_>,
    x: usize,
    y: usize,
    layer: usize,
    least: f32,
    edge: f32,
) -> Option<Point> {
    let (mut x, mut y, mut layer) = (x, y, layer);
    for _ in 0..MAX_STEPS {
        let d = |dx: isize, dy: isize, dl: isize| {
            let at = |v: usize, d: isize| v.wrapping_add_signed(d);
            octave.difference(at(x, dx), at(y, dy), at(layer, dl))
        };
        let v = d(0, 0, 0);
        let g = [
            d(1, 0, 0) - d(-1, 0, 0),
            d(0, 1, 0) - d(0, -1, 0),
            d(0, 0, 1) - d(0, 0, -1),
        ]
        .map(i64::from);
        let xx = i64::from(4 * (d(1, 0, 0) + d(-1, 0, 0) - 2 * v));
        let yy = i64::from(4 * (d(0, 1, 0) + d(0, -1, 0) - 2 * v));
        let ss = i64::from(4 * (d(0, 0, 1) + d(0, 0, -1) - 2 * v));
        let xy = i64::from(d(1, 1, 0) - d(-1, 1, 0) - d(1, -1, 0) + d(-1, -1, 0));
        let xs = i64::from(d(1, 0, 1) - d(-1, 0, 1) - d(1, 0, -1) + d(-1, 0, -1));
        let ys = i64::from(d(0, 1, 1) - d(0, -1, 1) - d(0, 1, -1) + d(0, -1, -1));
        // Cofactors of 4 H, which is symmetric.
        let (cxx, cyy, css) = (yy * ss - ys * ys, xx * ss - xs * xs, xx * yy - xy * xy);
        let (cxy, cxs, cys) = (xs * ys - xy * ss, xy * ys - yy * xs, xy * xs - xx * ys);
        let determinant = xx * cxx + xy * cxy + xs * cxs;
        if determinant == 0 {
            return None;
        }
        // 4 H offset = -2 (2 g).
        let offset = [
            -2 * (cxx * g[0] + cxy * g[1] + cxs * g[2]),
            -2 * (cxy * g[0] + cyy * g[1] + cys * g[2]),
            -2 * (cxs * g[0] + cys * g[1] + css * g[2]),
        ]
        .map(|n| n as f32 / determinant as f32);
        let step = offset.map(|o| isize::from(o > 0.5) - isize::from(o < -0.5));
        if step == [0; 3] {
            let along = g[0] as f32 * offset[0] + g[1] as f32 * offset[1];
            let value = v as f32 + (along + g[2] as f32 * offset[2]) * 0.25;
            // Of 4 H in the plane, thus 16 times.
            let trace = (xx + yy) as f32;
            let bound = (edge + 1.0) * (edge + 1.0);
            if value.abs() < least || css <= 0 || trace * trace * edge >= bound * css as f32 {
                return None;
            }
            return Some(Point {
                x,
                y,
                layer,
                offset,
                value,
            });
        }
        x = x.wrapping_add_signed(step[0]);
        y = y.wrapping_add_signed(step[1]);
        layer = layer.wrapping_add_signed(step[2]);
        let inside = |v: usize, n: usize| v >= octave.border && v + octave.border < n;
        if !inside(x, octave.size.width)
            || !inside(y, octave.size.height)
            || !(1..=octave.intervals).contains(&layer)
        {
            return None;
        }
    }
    None
}
