//! Levels of an octave: blurs in whole numbers (rules 1 and 2 of the contract).
use std::ops::Range;

use rayon::prelude::*;

use super::{
    FeatureParams, Mode, Region,
    simd::{self, Isa},
    tables::{MAX_RADIUS, Octaves, Tables, Weights},
};
use crate::frame::{Image, Size};

/// Rows a task.
pub(super) const BAND: usize = 16;

/// Grey values are in 1/64.
pub const GREY_SHIFT: u32 = 6;

/// Pixels that the inner loop takes at once.
const LANES: usize = 32;

/// Where index `i` lies when an image of `n` pixels is mirrored about its first and last pixel, as
/// often as needed.
pub fn reflect(i: isize, n: usize) -> usize {
    if n <= 1 {
        return 0;
    }
    let period = 2 * (n as isize - 1);
    let i = i.rem_euclid(period);
    i.min(period - i) as usize
}

/// A level to blur.
pub struct Blur<'a> {
    pub(super) source: &'a [u16],
    pub(super) size: Size,
    pub(super) weights: &'a Weights,
}

/// Scratch of [`blur_rows`] for rows of `width` pixels.
pub(super) const fn scratch_len(width: usize) -> usize {
    width.next_multiple_of(LANES) + 2 * MAX_RADIUS
}

/// Some rows of the blurred level.
#[inline(always)]
pub(super) fn blur_rows(job: &Blur<'_>, rows: Range<usize>, out: &mut [u16], scratch: &mut [u32]) {
    let Size { width, height } = job.size;
    let half = &job.weights.half[..];
    let radius = job.weights.radius();
    let row = |y: isize| &job.source[reflect(y, height) * width..][..width];
    for (y, out) in rows.zip(out.chunks_mut(width)) {
        let y = y as isize;
        let mut pairs = [(&job.source[..0], &job.source[..0]); MAX_RADIUS + 1];
        for (k, pair) in pairs.iter_mut().enumerate().take(radius + 1) {
            *pair = (row(y - k as isize), row(y + k as isize));
        }
        let sums = &mut scratch[radius..radius + width];
        vertical(&pairs[..=radius], half, sums);
        for k in 1..=radius {
            scratch[radius - k] = scratch[radius + reflect(-(k as isize), width)];
            let right = reflect((width - 1 + k) as isize, width);
            scratch[radius + width - 1 + k] = scratch[radius + right];
        }
        horizontal(scratch, half, out);
    }
}

/// Sums over a column, without rounding.
#[inline(always)]
fn vertical(pairs: &[(&[u16], &[u16])], half: &[u32], sums: &mut [u32]) {
    let width = sums.len();
    let mut x = 0;
    while x + LANES <= width {
        let mut acc = [0u32; LANES];
        centre(&mut acc, pairs[0].0, half[0], x);
        for ((above, below), &w) in pairs[1..].iter().zip(&half[1..]) {
            let above: &[u16; LANES] = above[x..].first_chunk().unwrap_or(&[0; LANES]);
            let below: &[u16; LANES] = below[x..].first_chunk().unwrap_or(&[0; LANES]);
            for lane in 0..LANES {
                acc[lane] += w * (u32::from(above[lane]) + u32::from(below[lane]));
            }
        }
        sums[x..x + LANES].copy_from_slice(&acc);
        x += LANES;
    }
    for (x, sum) in sums.iter_mut().enumerate().skip(x) {
        *sum = half[0] * u32::from(pairs[0].0[x]);
        for ((above, below), &w) in pairs[1..].iter().zip(&half[1..]) {
            *sum += w * (u32::from(above[x]) + u32::from(below[x]));
        }
    }
}

#[inline(always)]
fn centre(acc: &mut [u32; LANES], row: &[u16], w: u32, x: usize) {
    let row: &[u16; LANES] = row[x..].first_chunk().unwrap_or(&[0; LANES]);
    for lane in 0..LANES {
        acc[lane] = w * u32::from(row[lane]);
    }
}

/// Sums along a row whose pixel 0 is at `sums[radius]`, rounded.
#[inline(always)]
fn horizontal(sums: &[u32], half: &[u32], out: &mut [u16]) {
    let radius = half.len() - 1;
    let width = out.len();
    let mut x = 0;
    while x + LANES <= width {
        let mut acc = [1u32 << 17; LANES];
        let at: &[u32; LANES] = sums[x + radius..].first_chunk().unwrap_or(&[0; LANES]);
        for lane in 0..LANES {
            acc[lane] += half[0] * at[lane];
        }
        for (k, &w) in half.iter().enumerate().skip(1) {
            let left: &[u32; LANES] = sums[x + radius - k..].first_chunk().unwrap_or(&[0; LANES]);
            let right: &[u32; LANES] = sums[x + radius + k..].first_chunk().unwrap_or(&[0; LANES]);
            for lane in 0..LANES {
                acc[lane] += w * (left[lane] + right[lane]);
            }
        }
        for lane in 0..LANES {
            out[x + lane] = (acc[lane] >> 18) as u16;
        }
        x += LANES;
    }
    for (x, out) in out.iter_mut().enumerate().skip(x) {
        let mut sum = (1u32 << 17) + half[0] * sums[x + radius];
        for (k, &w) in half.iter().enumerate().skip(1) {
            sum += w * (sums[x + radius - k] + sums[x + radius + k]);
        }
        *out = (sum >> 18) as u16;
    }
}

/// All levels of all octaves, with room for images up to one size.
pub struct Pyramid {
    pub(super) octaves: Octaves,
    /// `levels[octave][level]`, rows packed.
    pub(super) levels: Vec<Vec<Vec<u16>>>,
    /// The first octave's base before its blur; in mode `paper` the image.
    base: Vec<u16>,
    scratch: Vec<Vec<u32>>,
}

impl Pyramid {
    /// Room for images up to `size`.
    pub fn new(params: &FeatureParams, tables: &Tables, size: Size) -> Self {
        let octaves = Octaves::new(params, size);
        let number = match params.mode {
            Mode::ScaleSpace => tables.steps.len() + 1,
            Mode::Paper => tables.steps.len(),
        };
        let levels = octaves.sizes.iter();
        let levels = levels.map(|size| vec![vec![0; size.area()]; number]);
        let first = octaves.sizes.first().copied().unwrap_or(size);
        Self {
            levels: levels.collect(),
            base: vec![0; first.area()],
            scratch: vec![vec![0; scratch_len(first.width)]; first.height.div_ceil(BAND)],
            octaves,
        }
    }

    /// Level `level` of octave `octave`, rows packed.
    pub fn level(&self, octave: usize, level: usize) -> (&[u16], Size) {
        let size = self.octaves.sizes[octave];
        (&self.levels[octave][level][..size.area()], size)
    }

    /// The image itself, before any blur, in 1/64 grey; of the first octave's size.
    pub fn base(&self) -> (&[u16], Size) {
        let size = self.octaves.sizes[0];
        (&self.base[..size.area()], size)
    }

    /// The octaves of the image last given.
    pub fn octaves(&self) -> &Octaves {
        &self.octaves
    }

    /// Computes all levels of a region of an image.
    pub(super) fn fill(
        &mut self,
        params: &FeatureParams,
        tables: &Tables,
        isa: Isa,
        image: &Image<u8>,
        region: Region,
    ) {
        self.octaves = Octaves::new(params, region.size);
        let first = self.octaves.sizes[0];
        let base = &mut self.base[..first.area()];
        let row = |y: usize| &image.row(region.y + y)[region.x..][..region.size.width];
        if self.octaves.first < 0 {
            enlarge(row, first, base);
        } else {
            base.par_chunks_mut(first.width * BAND)
                .enumerate()
                .for_each(|(band, rows)| {
                    for (y, out) in rows.chunks_mut(first.width).enumerate() {
                        for (out, &grey) in out.iter_mut().zip(row(band * BAND + y)) {
                            *out = u16::from(grey) << GREY_SHIFT;
                        }
                    }
                });
        }
        if params.mode == Mode::Paper {
            for (weights, out) in tables.steps.iter().zip(&mut self.levels[0]) {
                blur(isa, &self.base, first, weights, out, &mut self.scratch);
            }
            return;
        }
        let intervals = usize::from(params.intervals);
        for (octave, &size) in self.octaves.sizes.iter().enumerate() {
            let (done, rest) = self.levels.split_at_mut(octave);
            let levels = &mut rest[0];
            match done.last() {
                None => blur(
                    isa,
                    &self.base,
                    size,
                    &tables.base,
                    &mut levels[0],
                    &mut self.scratch,
                ),
                Some(finer) => {
                    let width = self.octaves.sizes[octave - 1].width;
                    halve(&finer[intervals], width, size, &mut levels[0]);
                }
            }
            for (i, weights) in tables.steps.iter().enumerate() {
                let (from, to) = levels.split_at_mut(i + 1);
                blur(isa, &from[i], size, weights, &mut to[0], &mut self.scratch);
            }
        }
    }
}

fn blur(
    isa: Isa,
    source: &[u16],
    size: Size,
    weights: &Weights,
    out: &mut [u16],
    scratch: &mut [Vec<u32>],
) {
    let job = Blur {
        source,
        size,
        weights,
    };
    out[..size.area()]
        .par_chunks_mut(BAND * size.width)
        .zip(scratch.par_iter_mut())
        .enumerate()
        .for_each(|(band, (out, scratch))| {
            let y = band * BAND;
            simd::blur_rows(isa, &job, y..(y + BAND).min(size.height), out, scratch);
        });
}

/// Twice as dense: pixels between are means.
fn enlarge<'a>(row: impl Fn(usize) -> &'a [u8] + Sync, size: Size, out: &mut [u16]) {
    out.par_chunks_mut(size.width * BAND)
        .enumerate()
        .for_each(|(band, rows)| {
            for (i, out) in rows.chunks_mut(size.width).enumerate() {
                let y = band * BAND + i;
                let (above, below) = (row(y / 2), row(y.div_ceil(2)));
                let column = |x: usize| u16::from(above[x]) + u16::from(below[x]);
                for (x, out) in out.iter_mut().enumerate() {
                    *out = (column(x / 2) + column(x.div_ceil(2))) << (GREY_SHIFT - 2);
                }
            }
        });
}

/// Every second pixel of every second row.
fn halve(source: &[u16], width: usize, size: Size, out: &mut [u16]) {
    for (y, out) in out[..size.area()].chunks_mut(size.width).enumerate() {
        let row = &source[2 * y * width..][..width];
        for (out, &v) in out.iter_mut().zip(row.iter().step_by(2)) {
            *out = v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflection() {
        let of = |n: usize| (-4..6).map(|i| reflect(i, n)).collect::<Vec<_>>();
        assert_eq!(of(3), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1]);
        assert_eq!(of(2), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(of(1), [0; 10]);
    }
}
