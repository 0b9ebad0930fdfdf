//! Where levels lie on the device, and which launches a plan has.
use super::{
    BLUR_THREADS, BLUR_TILE, EXTREMA_THREADS, EXTREMA_TILE, RADII,
    kernels::{Geometry, Job, Tiles},
};
use crate::{
    cuda::LaunchShape,
    stage::logo::features::{
        FeatureParams, MAX_OCTAVES,
        tables::{MAX_RADIUS, Octaves, Tables, Weights},
    },
};

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
        // Blocks write whole tiles.
        let pitch = size.width.next_multiple_of(BLUR_TILE.0);
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
pub(super) fn blurs(
    tables: &Tables,
    octaves: &Octaves,
    intervals: usize,
) -> Vec<[Vec<(Job, LaunchShape)>; 2]> {
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
        let pairs = (BLUR_TILE.0 + 2 * reach) / 2;
        let sums = (BLUR_TILE.0 + 2 * reach) | 1;
        let shape = LaunchShape {
            grid: [
                size.width.div_ceil(BLUR_TILE.0) as u32,
                size.height.div_ceil(BLUR_TILE.1) as u32,
                1,
            ],
            block: [BLUR_THREADS, 1, 1],
            shared: 4 * (pairs * (BLUR_TILE.1 + 2 * radius) + sums * BLUR_TILE.1) as u32,
        };
        (job, shape)
    };
    let octave = |octave: usize| {
        let base = (octave == 0).then(|| launch(0, 0, 2, &tables.base));
        let mut levels = tables.steps.iter().enumerate().map(|(i, weights)| {
            let source = u32::from(octave > 0 && i == 0);
            launch(octave, i + 1, source, weights)
        });
        let first = base.into_iter().chain(levels.by_ref().take(intervals));
        [first.collect(), levels.collect()]
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
