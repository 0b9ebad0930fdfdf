//! Directions of a point: a histogram of gradients (Lowe, IJCV 2004, section 5) in fixed point, so
//! that the order of its sums does not matter (rule 6 of the contract).
use super::{ANGLES, MAX_ORIENTATIONS, tables::WINDOW};
use crate::frame::Size;

/// Bins of the histogram.
pub const BINS: usize = 36;

/// `atan(t) * 36 / (2 pi)` for `t` in 0..=1 is `t` times this polynomial of `t^2`, to 7e-5 bins.
pub const ATAN: [f32; 5] = [
    5.728_812,
    -1.892_506_8,
    1.032_235_9,
    -0.487_908_57,
    0.119_432_98,
];

const LANES: usize = 16;

/// Where to look.
pub struct Window<'a> {
    pub(super) level: &'a [u16],
    pub(super) size: Size,
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) radius: usize,
    /// By distance from the centre, 256 is 1.
    pub(super) weights: &'a [u16],
}

/// Adds up the window's gradients: at each pixel that has four neighbours
/// `(|gradient| w_x w_y) >> 12` goes to the bin nearest to its direction.
#[inline(always)]
pub(super) fn histogram(window: &Window<'_>, bins: &mut [u32; BINS]) {
    let Size { width, height } = window.size;
    *bins = [0; BINS];
    if width < 3 || height < 3 {
        return;
    }
    let range = |at: usize, n: usize| {
        at.saturating_sub(window.radius).max(1)..(at + window.radius + 1).min(n - 1)
    };
    let (columns, rows) = (range(window.x, width), range(window.y, height));
    let mut weights = [0u32; 2 * WINDOW + LANES];
    for (w, x) in weights.iter_mut().zip(columns.clone()) {
        *w = window.weights[x.abs_diff(window.x)].into();
    }
    let n = columns.len();
    for y in rows {
        let weight = u32::from(window.weights[y.abs_diff(window.y)]);
        let row = |y: usize, from: usize| &window.level[y * width + from..][..n];
        let (above, below) = (row(y - 1, columns.start), row(y + 1, columns.start));
        let (left, right) = (row(y, columns.start - 1), row(y, columns.start + 1));
        for at in (0..n).step_by(LANES) {
            let (mut dx, mut dy) = ([0i32; LANES], [0i32; LANES]);
            let many = LANES.min(n - at);
            for lane in 0..many {
                dx[lane] = i32::from(right[at + lane]) - i32::from(left[at + lane]);
                dy[lane] = i32::from(below[at + lane]) - i32::from(above[at + lane]);
            }
            let (mut bin, mut add) = ([0u32; LANES], [0u32; LANES]);
            for lane in 0..LANES {
                (bin[lane], add[lane]) = direction(dx[lane], dy[lane]);
                add[lane] = (add[lane] * (weights[at + lane] * weight)) >> 12;
            }
            for lane in 0..many {
                bins[bin[lane] as usize % BINS] += add[lane];
            }
        }
    }
}

/// Nearest bin and length of a gradient.
#[inline(always)]
pub fn direction(dx: i32, dy: i32) -> (u32, u32) {
    let (fx, fy) = (dx.abs() as f32, dy.abs() as f32);
    let (long, short) = (fx.max(fy), fx.min(fy));
    let t = if long > 0.0 { short / long } else { 0.0 };
    let square = t * t;
    let [a, b, c, d, e] = ATAN;
    let mut angle = t * (a + square * (b + square * (c + square * (d + square * e))));
    angle = if fy > fx { 9.0 - angle } else { angle };
    angle = if dx < 0 { 18.0 - angle } else { angle };
    angle = if dy < 0 { 36.0 - angle } else { angle };
    let bin = (angle + 0.5) as i32;
    let bin = if bin >= BINS as i32 {
        bin - BINS as i32
    } else {
        bin
    };
    let length = (dx * dx + dy * dy) as f32;
    (bin as u32, length.sqrt() as i32 as u32)
}

/// The directions of a histogram: smoothed by (1 4 6 4 1), of its peaks (greater than the bin
/// before, not less than the bin after) those that reach 4/5 of the highest; of these the `most`
/// highest, among equals the first; each moved to the vertex of the parabola through it and its
/// neighbours. In order of their bins. There is always one; 0 where all is flat.
pub fn peaks(bins: &[u32; BINS], most: usize) -> heapless::Vec<u16, MAX_ORIENTATIONS> {
    let at = |i: usize, d: usize| bins[(i + BINS + d - 2) % BINS];
    let smooth: [u32; BINS] =
        std::array::from_fn(|i| at(i, 0) + at(i, 4) + 4 * (at(i, 1) + at(i, 3)) + 6 * at(i, 2));
    let neighbours = |i: usize| (smooth[(i + BINS - 1) % BINS], smooth[(i + 1) % BINS]);
    let highest = smooth.iter().copied().max().unwrap_or(0);
    let peak = |i: usize| {
        let (before, after) = neighbours(i);
        smooth[i] > before
            && smooth[i] >= after
            && 5 * u64::from(smooth[i]) >= 4 * u64::from(highest)
    };
    let mut chosen = [false; BINS];
    for _ in 0..most.min(MAX_ORIENTATIONS) {
        let mut best: Option<usize> = None;
        for i in 0..BINS {
            if peak(i) && !chosen[i] && best.is_none_or(|b| smooth[i] > smooth[b]) {
                best = Some(i);
            }
        }
        if let Some(best) = best {
            chosen[best] = true;
        }
    }
    let mut angles = heapless::Vec::new();
    for i in (0..BINS).filter(|&i| chosen[i]) {
        let (before, after) = neighbours(i);
        let (l, c, r) = (before as f32, smooth[i] as f32, after as f32);
        let offset = 0.5 * (l - r) / (l - 2.0 * c + r);
        let angle = (i as f32 + offset) * (f32::from(ANGLES) / BINS as f32);
        let angle = (angle + f32::from(ANGLES) + 0.5) as i32 % i32::from(ANGLES);
        let _ = angles.push(angle as u16);
    }
    if angles.is_empty() {
        let _ = angles.push(0);
    }
    angles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_of_directions() {
        for degrees in 0..360 {
            // Away from the boundaries between bins.
            if degrees % 10 == 5 {
                continue;
            }
            let angle = f64::from(degrees).to_radians();
            let [dx, dy] = [angle.cos(), angle.sin()].map(|v| (v * 9000.0).round() as i32);
            let (bin, length) = direction(dx, dy);
            assert_eq!(bin, (degrees as u32 + 5) / 10 % 36, "{degrees}");
            assert!((8998..=9001).contains(&length));
        }
        assert_eq!(direction(0, 0), (0, 0));
    }

    #[test]
    fn peaks_are_interpolated_and_limited() {
        let mut bins = [0; BINS];
        bins[9] = 1000;
        assert_eq!(&peaks(&bins, 4)[..], [256]);
        bins[27] = 900;
        assert_eq!(&peaks(&bins, 4)[..], [256, 768]);
        assert_eq!(&peaks(&bins, 1)[..], [256]);
        assert_eq!(&peaks(&[5; BINS], 4)[..], [0]);
        let mut bins = [0; BINS];
        (bins[0], bins[35]) = (700, 700);
        let angle = peaks(&bins, 4);
        // Half a bin before 0.
        assert_eq!(angle.len(), 1);
        assert!((1009..=1011).contains(&angle[0]), "{angle:?}");
    }
}
