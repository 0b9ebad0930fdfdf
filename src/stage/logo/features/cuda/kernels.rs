//! The kernels' parameters, as `kernels/logo_*.cu` have them.
use super::{Counts, Keypoint};
use crate::{
    cuda::{DevicePtr, Function},
    device_struct,
    stage::logo::features::{MAX_OCTAVES, tables::MAX_RADIUS},
};

device_struct! {
    pub(super) struct Geometry {
        pub(super) offset: [u64; MAX_OCTAVES],
        pub(super) plane: [u64; MAX_OCTAVES],
        pub(super) pitch: [u32; MAX_OCTAVES],
        pub(super) octaves: u32,
        pub(super) upsample: u32,
        pub(super) intervals: u32,
        pub(super) image_pitch: u32,
    }
}

device_struct! {
    pub(super) struct Job {
        pub(super) octave: u32,
        pub(super) level: u32,
        pub(super) source: u32,
        pub(super) radius: u32,
        pub(super) reserved: [u32; 2],
        pub(super) weights: [f32; MAX_RADIUS + 1],
        pub(super) whole_weights: [u32; MAX_RADIUS + 1],
    }
}

/// Levels of a launch of `logo_blur_few`.
pub(super) const MOST_LEVELS: usize = 5;

device_struct! {
    pub(super) struct Few {
        pub(super) octave: u32,
        pub(super) first: u32,
        pub(super) count: u32,
        pub(super) reach: u32,
        pub(super) radius: [u32; MOST_LEVELS],
        pub(super) reserved: u32,
        pub(super) weights: [[u32; MAX_RADIUS + 1]; MOST_LEVELS],
    }
}

device_struct! {
    pub(super) struct Tiles {
        pub(super) octave: u32,
        pub(super) end: u32,
        pub(super) blocks_x: [u32; MAX_OCTAVES],
        pub(super) blocks: [u32; MAX_OCTAVES],
    }
}

device_struct! {
    pub(super) struct Cells {
        pub(super) side: u32,
        pub(super) budget: u32,
    }
}

device_struct! {
    pub(super) struct DescribeParams {
        pub(super) window: DevicePtr<u32>,
        pub(super) window_radius: DevicePtr<u8>,
        pub(super) sigma: DevicePtr<f32>,
        pub(super) sigma_fixed: DevicePtr<i32>,
        pub(super) turn: DevicePtr<i32>,
        pub(super) pattern: DevicePtr<u64>,
        pub(super) least: f32,
        pub(super) edge: f32,
        pub(super) oriented: u32,
        pub(super) most_orientations: u32,
        pub(super) each: u32,
        pub(super) scaled: u32,
        pub(super) drop: u32,
        pub(super) unscaled_octave: u32,
        pub(super) unscaled_layer: u32,
        pub(super) reserved: u32,
    }
}

pub(super) type Blur = Function<(
    Geometry,
    Job,
    DevicePtr<[u32; 4]>,
    DevicePtr<u8>,
    DevicePtr<u16>,
)>;
pub(super) type BlurFew = Function<(Geometry, Few, DevicePtr<[u32; 4]>, DevicePtr<u16>)>;
pub(super) type Extrema = Function<(
    Geometry,
    Tiles,
    DevicePtr<[u32; 4]>,
    DevicePtr<u16>,
    i32,
    DevicePtr<u32>,
    DevicePtr<Counts>,
)>;
pub(super) type Refine = Function<(
    Geometry,
    Cells,
    DevicePtr<[u32; 4]>,
    DevicePtr<u16>,
    DevicePtr<u32>,
    f32,
    f32,
    DevicePtr<u32>,
    DevicePtr<u64>,
    DevicePtr<u32>,
    DevicePtr<Counts>,
    DevicePtr<u8>,
)>;
pub(super) type CellsOf = Function<(
    Cells,
    DevicePtr<u64>,
    DevicePtr<u32>,
    DevicePtr<Counts>,
    DevicePtr<u64>,
)>;
pub(super) type Select = Function<(
    Cells,
    u32,
    DevicePtr<u64>,
    DevicePtr<u32>,
    DevicePtr<u64>,
    DevicePtr<u32>,
    DevicePtr<Counts>,
)>;
pub(super) type Describe = Function<(
    Geometry,
    DescribeParams,
    DevicePtr<[u32; 4]>,
    DevicePtr<u16>,
    DevicePtr<u32>,
    DevicePtr<Counts>,
    DevicePtr<Keypoint>,
    DevicePtr<[u32; 8]>,
    DevicePtr<u8>,
)>;
pub(super) type Gather = Function<(
    u32,
    DevicePtr<u8>,
    DevicePtr<Keypoint>,
    DevicePtr<[u32; 8]>,
    DevicePtr<Keypoint>,
    DevicePtr<[u32; 8]>,
    DevicePtr<u32>,
    DevicePtr<Counts>,
)>;
