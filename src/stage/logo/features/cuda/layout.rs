//! Where levels lie on the device, and which launches a plan has.
use super::{
    BLUR_REGION, BLUR_ROWS, BLUR_SUMS, BLUR_THREADS, EXTREMA_THREADS, EXTREMA_TILE, PITCH, RADII,
    kernels::{Few, Geometry, Job, MOST_LEVELS, Tiles},
};
use crate::{
    cuda::LaunchShape,
    stage::logo::features::{
        FeatureParams, MAX_OCTAVES,
        tables::{MAX_RADIUS, Octaves, Tables, Weights},
    },
};

/// Octaves of up to so many pixels have several levels a launch.
const SMALL: usize = 1 << 14;
/// A tile of `logo_blur_few`, its threads, and how far its blurs may reach together.
const FEW_TILE: usize = 32;
const FEW_THREADS: u32 = 1024;
const MOST_REACH: usize = 16;

/// A launch of the blur. There are a dozen, made once: their size does not matter.
#[allow(clippy::large_enum_variant)]
pub(super) enum Launch {
    One(Job, LaunchShape),
    Few(Box<Few>, LaunchShape),
}

/// Levels `first + 1` onwards of an octave that is not the first, in one launch; `None` where they
/// don't fit into it.
fn few(octave: usize, octaves: &Octaves, first: usize, steps: &[Weights]) -> Option<Launch> {
    let size = octaves.sizes[octave];
    let reach: usize = steps.iter().map(Weights::radius).sum();
    if octave == 0 || size.area() > SMALL || reach > MOST_REACH || steps.len() > MOST_LEVELS {
        return None;
    }
    let mut few = Few {
        octave: octave as u32,
        first: first as u32,
        count: steps.len() as u32,
        reach: reach as u32,
        radius: [0; MOST_LEVELS],
        reserved: 0,
        weights: [[0; MAX_RADIUS + 1]; MOST_LEVELS],
    };
    for (i, step) in steps.iter().enumerate() {
        few.radius[i] = step.radius() as u32;
        few.weights[i][..step.half.len()].copy_from_slice(&step.half);
    }
    let blocks = |side: usize| side.div_ceil(FEW_TILE) as u32;
    let grid = [blocks(size.width), blocks(size.height), 1];
    Some(Launch::Few(
        Box::new(few),
        LaunchShape::new(grid, [FEW_THREADS, 1, 1]),
    ))
}

/// Where levels lie, and pixels in all.
pub(super) fn geometry(params: &FeatureParams, octaves: &Octaves) -> (Geometry, usize) {
    let mut geometry = Geometry {
        offset: [0; MAX_OCTAVES],
        plane: [0; MAX_OCTAVES],
        pitch: [0; MAX_OCTAVES],
        octaves: octaves.sizes.len() as u32,
        upsample: params.upsample.into(),
        intervals: params.intervals.into(),
        image_pitch: octaves.image.width as u32,
    };
    let mut pixels = 0;
    for (i, size) in octaves.sizes.iter().enumerate() {
        // Threads read and write several pixels at once, beyond the width too.
        let pitch = size.width.next_multiple_of(PITCH);
        let plane = pitch * size.height;
        geometry.offset[i] = pixels as u64;
        geometry.plane[i] = plane as u64;
        geometry.pitch[i] = pitch as u32;
        pixels += plane * (usize::from(params.intervals) + 3);
    }
    (geometry, pixels)
}

/// The launches of the blur, by octave: levels up to the one that the next octave starts from, then
/// the others.
pub(super) fn blurs(tables: &Tables, octaves: &Octaves, intervals: usize) -> Vec<[Vec<Launch>; 2]> {
    let launch = |octave: usize, level: usize, source: u32, weights: &Weights| {
        let size = octaves.sizes[octave];
        let radius = RADII.into_iter().find(|&r| r >= weights.radius());
        let radius = radius.unwrap_or(MAX_RADIUS);
        let mut job = Job {
            octave: octave as u32,
            level: level as u32,
            source,
            radius: radius as u32,
            reserved: [0; 2],
            weights: [0.0; MAX_RADIUS + 1],
            whole_weights: [0; MAX_RADIUS + 1],
        };
        for (i, &w) in weights.half.iter().enumerate() {
            job.weights[i] = w as f32;
            job.whole_weights[i] = w;
        }
        let reach = radius.next_multiple_of(4);
        let grid = [
            size.width.div_ceil(BLUR_REGION - 2 * reach) as u32,
            size.height.div_ceil(BLUR_ROWS) as u32,
            1,
        ];
        let shape = LaunchShape {
            grid,
            block: [BLUR_THREADS, 1, 1],
            // Two numbers a lane of a row, and the sums.
            shared: (8 * 32 * (BLUR_ROWS + 2 * radius) + 4 * BLUR_SUMS) as u32,
        };
        Launch::One(job, shape)
    };
    let octave = |octave: usize| {
        let base = (octave == 0).then(|| launch(0, 0, 2, &tables.base));
        let mut levels = tables.steps.iter().enumerate().map(|(i, weights)| {
            let source = u32::from(octave > 0 && i == 0);
            launch(octave, i + 1, source, weights)
        });
        let first = base.into_iter().chain(levels.by_ref().take(intervals));
        let (first, rest): (Vec<_>, Vec<_>) = (first.collect(), levels.collect());
        let steps = tables.steps.split_at(intervals);
        let or = |few: Option<Launch>, single| few.map_or(single, |few| vec![few]);
        [
            or(few(octave, octaves, 0, steps.0), first),
            or(few(octave, octaves, intervals, steps.1), rest),
        ]
    };
    (0..octaves.sizes.len()).map(octave).collect()
}

/// The search for extrema of octaves `from..end`; `None` where there are none.
pub(super) fn tiles(octaves: &Octaves, from: usize, end: usize) -> Option<(Tiles, LaunchShape)> {
    if from >= end {
        return None;
    }
    let mut tiles = Tiles {
        octave: from as u32,
        end: end as u32,
        blocks_x: [0; MAX_OCTAVES],
        blocks: [0; MAX_OCTAVES],
    };
    let mut all = 0;
    for (i, size) in octaves.sizes.iter().enumerate().take(end).skip(from) {
        tiles.blocks_x[i] = size.width.div_ceil(EXTREMA_TILE.0) as u32;
        tiles.blocks[i] = tiles.blocks_x[i] * size.height.div_ceil(EXTREMA_TILE.1) as u32;
        all += tiles.blocks[i];
    }
    Some((tiles, LaunchShape::linear(all, EXTREMA_THREADS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{Image, Size},
        maths::random::hash,
        stage::logo::features::{
            Features,
            cpu::Plan,
            pyramid::{Pyramid, reflect},
        },
    };

    /// `logo_blur_few` as a thread after the other; gives the octave's levels from `few.first` on
    /// (where that is 0: with it).
    fn emulate(job: &Few, grid: [u32; 3], pyramid: &Pyramid) -> Vec<Image<u16>> {
        let octave = job.octave as usize;
        let (_, size) = pyramid.level(octave, 0);
        let reach = job.reach as usize;
        let side = FEW_TILE + 2 * reach;
        let ((source, Size { width, .. }), step) = match job.first {
            0 => (pyramid.level(octave - 1, pyramid.levels[0].len() - 3), 2),
            first => (pyramid.level(octave, first as usize), 1),
        };
        let levels = job.count as usize + usize::from(job.first == 0);
        let mut out = vec![Image::filled(size.width, size.height, u16::MAX); levels];
        for block in 0..grid[0] * grid[1] {
            let x0 = (block % grid[0]) as usize * FEW_TILE;
            let y0 = (block / grid[0]) as usize * FEW_TILE;
            let mut put = |level: usize, i: usize, j: usize, v: u16| {
                let inside = |p: usize| p >= reach && p < reach + FEW_TILE;
                if inside(i) && inside(j) {
                    let (x, y) = (x0 + i - reach, y0 + j - reach);
                    if x < size.width && y < size.height {
                        out[level].set(x, y, v);
                    }
                }
            };
            let mut tile = vec![0u16; side * side];
            let mut sums = vec![u32::MAX; side * side];
            let at = |p: usize, p0: usize, n: usize| {
                step * reflect((p0 + p) as isize - reach as isize, n)
            };
            for j in 0..side {
                for i in 0..side {
                    let (x, y) = (at(i, x0, size.width), at(j, y0, size.height));
                    tile[j * side + i] = source[y * width + x];
                    if job.first == 0 {
                        put(0, i, j, tile[j * side + i]);
                    }
                }
            }
            let mut margin = 0;
            for n in 0..job.count as usize {
                let (radius, weights) = (job.radius[n] as usize, &job.weights[n]);
                let inner = margin + radius;
                for j in inner..side - inner {
                    for i in margin..side - margin {
                        let p = j * side + i;
                        sums[p] = weights[0] * u32::from(tile[p]);
                        for (k, weight) in weights.iter().enumerate().take(radius + 1).skip(1) {
                            let [a, b] = [p - k * side, p + k * side].map(|p| u32::from(tile[p]));
                            sums[p] += weight * (a + b);
                        }
                    }
                }
                for j in inner..side - inner {
                    for i in inner..side - inner {
                        let p = j * side + i;
                        let mut sum = (1 << 17) + weights[0] * sums[p];
                        for (k, weight) in weights.iter().enumerate().take(radius + 1).skip(1) {
                            sum += weight * (sums[p - k] + sums[p + k]);
                        }
                        tile[p] = (sum >> 18) as u16;
                        put(n + usize::from(job.first == 0), i, j, tile[p]);
                    }
                }
                margin = inner;
            }
        }
        out
    }

    #[test]
    fn several_levels_of_a_launch_are_those_of_single_ones() {
        let (mut launches, mut alone) = (0, 0);
        for (width, height) in [(640, 360), (131, 97), (300, 33), (33, 40), (64, 1025)] {
            let image = Image::from_fn(width, height, |x, y| {
                (hash(1, x as u32 / 3, y as u32 / 2) >> 24) as u8
            });
            for (intervals, sigma0, upsample) in [
                (3, 1.0, false),
                (3, 1.6, true),
                (2, 0.8, false),
                (5, 2.0, false),
                (4, 1.2, true),
            ] {
                let params = FeatureParams {
                    intervals,
                    sigma0,
                    upsample,
                    ..FeatureParams::default()
                };
                let size = Size::new(width, height);
                let mut plan = Plan::new(&params, size).unwrap();
                plan.run(&image, &mut Features::new(&params));
                let (tables, pyramid) = (Tables::new(&params), plan.pyramid());
                let octaves = Octaves::new(&params, size);
                for launch in blurs(&tables, &octaves, intervals.into())
                    .iter()
                    .flatten()
                    .flatten()
                {
                    let Launch::Few(job, shape) = launch else {
                        alone += 1;
                        continue;
                    };
                    launches += 1;
                    let first = if job.first == 0 {
                        0
                    } else {
                        job.first as usize + 1
                    };
                    for (n, level) in emulate(job, shape.grid, pyramid).iter().enumerate() {
                        let (expected, _) = pyramid.level(job.octave as usize, first + n);
                        assert!(
                            level.pixels().eq(expected),
                            "{size}, octave {}, level {}",
                            job.octave,
                            first + n
                        );
                    }
                }
            }
        }
        assert!(launches > 40 && alone > 60, "{launches} {alone}");
    }
}
