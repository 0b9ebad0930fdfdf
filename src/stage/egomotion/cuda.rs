//! The egomotion stage on the GPU (`kernels/egomotion.cu`): five kernels, nothing of it on the
//! host; the frame before and what is known from earlier ones stay in device memory.
use super::{
    Params, ParamsError, cpu,
    pyramid::{self, MAX_LEVELS, PAD, Pyramid},
    state::{Memory, Rules},
};
use crate::{
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape,
        Module, Stream,
    },
    device_struct,
    frame::{Mask, MotionState, PixelKind, Size},
    maths::homography::Ransac,
    stage::state::{StateError, StateReader, StateWriter},
};

/// A tile of `ego_pyramid`, px.
const TILE: usize = 64;
/// Threads a block.
const PYRAMID_THREADS: u32 = 256;
const CORNER_THREADS: u32 = 192;
const FOLLOW_THREADS: u32 = 128;
const JUDGE_THREADS: u32 = 256;
const WARP: u32 = 32;
/// Strides are multiples of this, bytes.
const ALIGN: usize = 16;

pub use crate::stage::device::Motion;

device_struct! {
    /// As in the kernel file.
    #[derive(Debug, Default)]
    struct Level {
        width: u32,
        height: u32,
        stride: u32,
        origin: u32,
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct RulesParams {
        still: u32,
        near: u32,
        drift: u32,
        creep: u32,
        sway: u32,
        min_points: u32,
        lost: u32,
        standing: u32,
        small: u32,
        still_frames: u32,
        hold_frames: u32,
        standing_mps: f32,
    }
}

device_struct! {
    /// As in `kernels/homography.cuh`.
    #[derive(Debug)]
    struct RansacParams {
        hypotheses: u32,
        seed: u32,
        progressive: u32,
        refits: u32,
        steps: u32,
        threshold_px: f32,
        min_area: f64,
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct EgoParams {
        levels: [Level; MAX_LEVELS],
        count: u32,
        kind: u32,
        shift: u32,
        bytes: u32,
        grid_level: u32,
        cell_width: u32,
        cell_height: u32,
        columns: u32,
        rows: u32,
        min_texture: f32,
        min_correlation: f32,
        max_return: i32,
        rules: RulesParams,
        ransac: RansacParams,
        usable: DevicePtr<u8>,
        allowed: DevicePtr<u8>,
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct Track {
        place: u32,
        found: u32,
        dx: i32,
        dy: i32,
    }
}

device_struct! {
    /// As in the kernel file; all zero: nothing known yet.
    #[derive(Debug, Default)]
    struct EgoState {
        state: u32,
        frames: u32,
        still: u32,
        calm: u32,
        driving: u32,
        blind: u32,
        creep: [i32; 2],
        sway: [i32; 8],
        parity: u32,
        pad: u32,
        best: u64,
    }
}

impl EgoState {
    fn memory(self) -> Memory {
        let state = MotionState::ALL.get(self.state as usize);
        Memory {
            state: state.copied().unwrap_or_default(),
            frames: self.frames,
            still: self.still,
            calm: self.calm,
            driving: self.driving,
            blind: self.blind,
            creep: self.creep,
            sway: self.sway,
        }
    }

    /// With the frame before in the first of the two pyramids.
    fn of(memory: &Memory) -> Self {
        let state = MotionState::ALL.iter().position(|&s| s == memory.state);
        Self {
            state: state.unwrap_or(0) as u32,
            frames: memory.frames,
            still: memory.still,
            calm: memory.calm,
            driving: memory.driving,
            blind: memory.blind,
            creep: memory.creep,
            sway: memory.sway,
            parity: 1,
            ..Self::default()
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// What the CPU refuses too.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU.
    #[error("egomotion: {0}")]
    Gpu(#[from] GpuError),
}

type State = DevicePtr<EgoState>;
type Build = Function<(EgoParams, DevicePtr<u8>, DevicePtr<u8>, State)>;
type Follow = Function<(EgoParams, DevicePtr<u8>, State, DevicePtr<Track>)>;
type Hypotheses = Function<(EgoParams, DevicePtr<Track>, State)>;
type Judge = Function<(
    EgoParams,
    DevicePtr<Track>,
    DevicePtr<f32>,
    State,
    DevicePtr<Motion>,
)>;

/// The egomotion stage for frames of one kind and size.
pub struct Plan {
    kind: PixelKind,
    size: Size,
    input_bytes: usize,
    bytes: u64,
    params: EgoParams,
    pyramid: Build,
    corners: Follow,
    follow: Follow,
    hypotheses: Hypotheses,
    judge: Judge,
    pyramids: DeviceBuffer<u8>,
    tracks: DeviceBuffer<Track>,
    state: DeviceBuffer<EgoState>,
}

impl Plan {
    /// As [`cpu::Plan::new`]; waits until its memory is cleared.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver.
    pub fn new(
        context: &Context,
        params: &Params,
        kind: PixelKind,
        size: Size,
    ) -> Result<Self, PlanError> {
        Self::with_mask(context, params, kind, size, None)
    }

    /// As [`cpu::Plan::with_mask`]; waits until its memory is ready.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver.
    pub fn with_mask(
        context: &Context,
        params: &Params,
        kind: PixelKind,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, PlanError> {
        let reference = cpu::Plan::with_mask(params, kind, size, mask)?;
        let mut params = kernel_params(&reference, kind, size);
        let mut layout = ArenaLayout::new();
        let masks = reference.usable.as_ref().map(|masks| {
            let pixels = masks
                .each_ref()
                .map(|m| m.pixels().copied().collect::<Vec<u8>>());
            let slots = pixels
                .each_ref()
                .map(|p| layout.reserve::<u8>("egomotion mask", p.len()));
            (pixels, slots)
        });
        let pyramids = layout.reserve::<u8>("egomotion pyramids", 2 * params.bytes as usize);
        let tracks = layout.reserve::<Track>("egomotion tracks", reference.grid.cells());
        let state = layout.reserve::<EgoState>("egomotion state", 1);
        let bytes = layout.bytes();
        let arena = Arena::new(context, "egomotion", layout)?;
        let stream = Stream::new(context, crate::cuda::Priority::Normal)?;
        arena.fill(&stream, 0)?;
        if let Some((pixels, slots)) = masks {
            let buffers = [arena.buffer(slots[0])?, arena.buffer(slots[1])?];
            for (pixels, buffer) in pixels.iter().zip(&buffers) {
                stream.upload(pixels, buffer)?;
            }
            // The arena's memory stays where the plan's other buffers are.
            params.usable = buffers[0].ptr();
            params.allowed = buffers[1].ptr();
        }
        stream.synchronize()?;
        let module = Module::load(context, "egomotion")?;
        Ok(Self {
            kind,
            size,
            input_bytes: size.area() * bytes_a_pixel(kind),
            bytes,
            params,
            pyramid: module.function("ego_pyramid")?,
            corners: module.function("ego_corners")?,
            follow: module.function("ego_follow")?,
            hypotheses: module.function("ego_hypotheses")?,
            judge: module.function("ego_judge")?,
            pyramids: arena.buffer(pyramids)?,
            tracks: arena.buffer(tracks)?,
            state: arena.buffer(state)?,
        })
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the work of a frame to the stream: how the camera moved since the frame that was
    /// given before.
    ///
    /// `image`: the frame's bytes, rows one after the other: 1 a pixel of 8-bit grey, 2 (little
    /// endian) of 16-bit grey, 3 (R, G, B) of colour. `speed_mps`: one number, read by the
    /// kernels; not a number where the speed is not known.
    ///
    /// # Errors
    /// [`GpuError::Size`] for buffers of other sizes; from the driver.
    pub fn enqueue(
        &self,
        stream: &Stream,
        image: &DeviceBuffer<u8>,
        speed_mps: Option<&DeviceBuffer<f32>>,
        motion: &DeviceBuffer<Motion>,
    ) -> Result<(), GpuError> {
        for (what, found, expected) in [
            (
                "egomotion: bytes of the frame",
                image.len(),
                self.input_bytes,
            ),
            (
                "egomotion: speeds",
                speed_mps.map_or(1, DeviceBuffer::len),
                1,
            ),
            ("egomotion: results", motion.len(), 1),
        ] {
            if found != expected {
                return Err(GpuError::Size {
                    what,
                    found: found as u64,
                    expected: expected as u64,
                });
            }
        }
        let p = self.params;
        let (pyramids, tracks, state) = (self.pyramids.ptr(), self.tracks.ptr(), self.state.ptr());
        let tiles = |side: usize| side.div_ceil(TILE) as u32;
        let grid = [tiles(self.size.width), tiles(self.size.height), 1];
        self.pyramid.launch(
            stream,
            LaunchShape::new(grid, [PYRAMID_THREADS, 1, 1]),
            &(p, image.ptr(), pyramids, state),
        )?;
        let cells = p.columns * p.rows;
        self.corners.launch(
            stream,
            LaunchShape::linear(cells, CORNER_THREADS),
            &(p, pyramids, state, tracks),
        )?;
        self.follow.launch(
            stream,
            LaunchShape::linear(cells.div_ceil(FOLLOW_THREADS / WARP), FOLLOW_THREADS),
            &(p, pyramids, state, tracks),
        )?;
        self.hypotheses.launch(
            stream,
            LaunchShape::linear(p.ransac.hypotheses.div_ceil(WARP), JUDGE_THREADS),
            &(p, tracks, state),
        )?;
        self.judge.launch(
            stream,
            LaunchShape::linear(1, JUDGE_THREADS),
            &(
                p,
                tracks,
                speed_mps.map_or(DevicePtr::NULL, DeviceBuffer::ptr),
                state,
                motion.ptr(),
            ),
        )
    }

    /// Forgets everything learnt from earlier frames, in the stream's order.
    ///
    /// # Errors
    /// From the driver.
    pub fn reset(&self, stream: &Stream) -> Result<(), GpuError> {
        stream.fill(&self.state.view::<u32>()?, 0u32)
    }

    /// Appends what is known from earlier frames, the bytes of [`cpu::Plan`]; waits for the
    /// stream.
    ///
    /// # Errors
    /// From the driver.
    pub fn save(&self, stream: &Stream, to: &mut StateWriter<'_>) -> Result<(), GpuError> {
        let mut state = [EgoState::default()];
        stream.download(&self.state, &mut state)?;
        let [state] = state;
        // The last frame's is not the next frame's.
        let last = (1 - state.parity % 2) as usize * self.params.bytes as usize;
        let first = &self.params.levels[0];
        let at = last + first.origin as usize;
        let stride = first.stride as usize;
        let Size { width, height } = self.size;
        let mut pixels = vec![0; stride * (height - 1) + width];
        let level = self.pyramids.slice(at..at + pixels.len())?;
        stream.download(&level, &mut pixels)?;
        to.shape(cpu::STATE, Some(self.kind), self.size);
        state.memory().save(to);
        for row in pixels.chunks(stride) {
            to.bytes(&row[..width]);
        }
        Ok(())
    }

    /// Takes up what a plan of the same shape and parameters has saved, on the CPU too; waits for
    /// the stream.
    ///
    /// # Errors
    /// Why the state is refused; nothing is known then.
    pub fn load(&self, stream: &Stream, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.reset(stream)?;
        from.shape(cpu::STATE, Some(self.kind), self.size)?;
        let memory = Memory::load(from)?;
        let mut before = Pyramid::new(self.size);
        before.load(from)?;
        from.end()?;
        let bytes = laid_out(&self.params, &before);
        stream.upload(&bytes, &self.pyramids.slice(0..bytes.len())?)?;
        stream.upload(&[EgoState::of(&memory)], &self.state)?;
        Ok(())
    }
}

/// A pyramid as the kernels have it.
fn laid_out(params: &EgoParams, pyramid: &Pyramid) -> Vec<u8> {
    let mut bytes = vec![0; params.bytes as usize];
    for (to, level) in params.levels.iter().zip(&pyramid.levels) {
        let stride = to.stride as usize;
        let start = to.origin as usize - PAD * (stride + 1);
        // With the border, which is as wide there.
        let rows = level.pixels().0.chunks_exact(level.stride);
        for (row, to) in rows.zip(bytes[start..].chunks_mut(stride)) {
            to[..row.len()].copy_from_slice(row);
        }
    }
    bytes
}

/// Bytes of a pixel in a frame on the device.
pub const fn bytes_a_pixel(kind: PixelKind) -> usize {
    match kind {
        PixelKind::Grey8 => 1,
        PixelKind::Grey16 => 2,
        PixelKind::Rgb8 => 3,
    }
}

fn kernel_params(reference: &cpu::Plan, kind: PixelKind, size: Size) -> EgoParams {
    let sizes = pyramid::levels(size);
    let mut levels = [Level::default(); MAX_LEVELS];
    let mut bytes = 0;
    for (level, size) in levels.iter_mut().zip(&sizes) {
        let stride = (size.width + 2 * PAD).next_multiple_of(ALIGN);
        *level = Level {
            width: size.width as u32,
            height: size.height as u32,
            stride: stride as u32,
            origin: (bytes + PAD * stride + PAD) as u32,
        };
        bytes += stride * (size.height + 2 * PAD);
    }
    let grid = reference.grid;
    let Rules {
        still,
        near,
        drift,
        creep,
        sway,
        min_points,
        lost,
        standing,
        small,
        still_frames,
        hold_frames,
        standing_mps,
    } = reference.rules;
    let Ransac {
        hypotheses,
        threshold_px,
        min_area,
        seed,
        progressive,
        refits,
        steps,
    } = reference.ransac;
    EgoParams {
        levels,
        count: sizes.len() as u32,
        kind: match kind {
            PixelKind::Grey8 => 0,
            PixelKind::Grey16 => 1,
            PixelKind::Rgb8 => 2,
        },
        shift: reference.shift,
        bytes: bytes as u32,
        grid_level: grid.level as u32,
        cell_width: grid.cell.width as u32,
        cell_height: grid.cell.height as u32,
        columns: grid.columns as u32,
        rows: grid.rows as u32,
        min_texture: reference.min_texture,
        min_correlation: reference.min_correlation,
        max_return: reference.max_return,
        rules: RulesParams {
            still,
            near,
            drift,
            creep,
            sway,
            min_points,
            lost,
            standing,
            small,
            still_frames,
            hold_frames,
            standing_mps,
        },
        ransac: RansacParams {
            hypotheses,
            seed,
            progressive: progressive.into(),
            refits,
            steps,
            threshold_px,
            min_area,
        },
        usable: DevicePtr::NULL,
        allowed: DevicePtr::NULL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Image, MonoImage};

    #[test]
    fn memory_keeps_its_numbers_on_the_way() {
        assert_eq!(size_of::<EgoState>(), 80);
        assert_eq!(EgoState::default().memory(), Memory::default());
        for state in MotionState::ALL {
            let memory = Memory {
                state,
                frames: 1,
                still: 2,
                calm: 3,
                driving: 4,
                blind: 5,
                creep: [-6, 7],
                sway: [8, -9, 10, 11, 12, 13, 14, -15],
            };
            let there = EgoState::of(&memory);
            assert_eq!((there.parity, there.best), (1, 0));
            assert_eq!(there.memory(), memory);
        }
    }

    #[test]
    fn a_pyramid_lies_where_the_kernels_read_it() {
        for (width, height) in [(1, 1), (33, 31), (131, 97)] {
            let size = Size::new(width, height);
            let kind = PixelKind::Grey8;
            let reference = cpu::Plan::new(&Params::default(), kind, size).unwrap();
            let params = kernel_params(&reference, kind, size);
            let mut pyramid = Pyramid::new(size);
            let image = Image::from_fn(width, height, |x, y| (7 * x + 31 * y + x * y) as u8);
            pyramid.build(&MonoImage::Grey8(image), 0, None);
            let bytes = laid_out(&params, &pyramid);
            assert_eq!(params.count as usize, pyramid.levels.len());
            let pad = PAD as isize;
            for (at, level) in params.levels.iter().zip(&pyramid.levels) {
                let (w, h) = (at.width as isize, at.height as isize);
                for y in -pad..h + pad {
                    let row = level.row(y.clamp(0, h - 1) as usize);
                    for x in -pad..w + pad {
                        let place = at.origin as isize + y * at.stride as isize + x;
                        let expected = row[x.clamp(0, w - 1) as usize];
                        assert_eq!(bytes[place as usize], expected, "{size}: {x} {y}");
                    }
                }
            }
        }
    }
}
