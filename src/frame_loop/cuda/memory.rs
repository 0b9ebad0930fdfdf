//! The stereo chain's memory: page-locked on the host, and on the device.
use crate::{
    cuda::{Arena, ArenaLayout, Context, DeviceBuffer, GpuError, Pinned},
    frame::Size,
    frame_loop::Shape,
    stage::road::cuda::Road,
};

use super::Wanted;

/// Page-locked memory; what is written by the host and what by the device lies apart.
pub(super) struct HostMemory {
    /// Left, then right; or left alone.
    pub grey: Option<Pinned<u8>>,
    pub rgb: Option<Pinned<u8>>,
    pub stored: Option<Pinned<u16>>,
    /// The stixels' words, then the road.
    pub results: Pinned<u8>,
    pub words: Pinned<u64>,
    pub road: Pinned<Road>,
    pub disparity: Option<Pinned<u16>>,
    pub left: Option<Pinned<u8>>,
    pub left_rgb: Option<Pinned<u8>>,
}

/// The same on the device.
pub(super) struct DeviceMemory {
    pub raw: Option<DeviceBuffer<u8>>,
    pub raw_rgb: Option<DeviceBuffer<u8>>,
    /// Left, then right; where images are rectified already, `raw`.
    pub grey: Option<DeviceBuffer<u8>>,
    /// Where images are rectified already, `raw_rgb`.
    pub rgb: Option<DeviceBuffer<u8>>,
    pub disparity: DeviceBuffer<u16>,
    pub results: DeviceBuffer<u8>,
    pub words: DeviceBuffer<u64>,
    pub road: DeviceBuffer<Road>,
}

pub(super) fn device_memory(
    context: &Context,
    size: Size,
    images: usize,
    colour: bool,
    identity: bool,
    words: usize,
) -> Result<(DeviceMemory, u64), GpuError> {
    let area = size.area();
    let mut layout = ArenaLayout::new();
    let mut image = |name, wanted: bool, bytes| wanted.then(|| layout.reserve::<u8>(name, bytes));
    let raw = image("raw images", images > 0, images * area);
    let grey = image("rectified images", images > 0 && !identity, images * area);
    let raw_rgb = image("raw colour", colour, 3 * area);
    let rgb = image("rectified colour", colour && !identity, 3 * area);
    let disparity = layout.reserve::<u16>("disparity", area);
    let results = layout.reserve::<u8>("results", words * 8 + size_of::<Road>());
    let bytes = layout.bytes();
    let arena = Arena::new(context, "chain", layout)?;
    let buffer = |slot: Option<_>| slot.map(|slot| arena.buffer(slot)).transpose();
    let (raw, raw_rgb) = (buffer(raw)?, buffer(raw_rgb)?);
    let results = arena.buffer(results)?;
    let memory = DeviceMemory {
        grey: if identity { raw.clone() } else { buffer(grey)? },
        rgb: if identity {
            raw_rgb.clone()
        } else {
            buffer(rgb)?
        },
        raw,
        raw_rgb,
        disparity: arena.buffer(disparity)?,
        words: results.slice(0..words * 8)?.view()?,
        road: results.slice(words * 8..results.len())?.view()?,
        results,
    };
    Ok((memory, bytes))
}

pub(super) fn host_memory(
    context: &Context,
    shape: &Shape,
    wanted: Wanted,
    (images, colour): (usize, bool),
    pictures: bool,
    words: usize,
) -> Result<HostMemory, GpuError> {
    let area = shape.size.area();
    let bytes = |name, wanted: bool, n| wanted.then(|| Pinned::<u8>::new(context, name, n));
    let pixels = |name, wanted: bool| wanted.then(|| Pinned::<u16>::new(context, name, area));
    let stored = shape.stored_disparity;
    let results = Pinned::<u8>::new(context, "results", words * 8 + size_of::<Road>())?;
    Ok(HostMemory {
        grey: bytes("images to the device", images > 0, images * area).transpose()?,
        rgb: bytes("colour to the device", colour, 3 * area).transpose()?,
        stored: pixels("stored disparity", stored).transpose()?,
        words: results.slice(0..words * 8)?.view()?,
        road: results.slice(words * 8..results.len())?.view()?,
        results,
        disparity: pixels("disparity", wanted.disparity && !stored).transpose()?,
        left: bytes("rectified image", pictures, area).transpose()?,
        left_rgb: bytes("rectified colour", pictures && shape.colour, 3 * area).transpose()?,
    })
}
