//! The foreground stage on the GPU (`kernels/foreground*.cu`): the bytes of [`super::cpu::Plan`].
//! The model stays in device memory, plane after plane; nothing of a frame is done on the host.
use super::{
    MAX_MODES, Params, ParamsError, SnapshotError,
    anchor::Drift,
    cpu::{read_state, write_state},
    gain, kernel,
    snapshot::{self, Model},
};
use crate::{
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape,
        Module, Priority, Stream,
    },
    device_struct,
    frame::{ForegroundState, Mask, PixelKind, Size},
    stage::state::{StateError, StateReader, StateWriter},
};

/// Threads a block, as in the kernel files.
const BEGIN_THREADS: u32 = 256;
const SAMPLE_THREADS: u32 = 256;
const MOVE_THREADS: u32 = 256;
const MODEL_THREADS: u32 = 128;
const CLEAN_THREADS: u32 = 256;
/// Blocks that take the samples.
const DRIFT_BLOCKS: u32 = 32;
const GAIN_BLOCKS: u32 = 16;
/// Blocks a multiprocessor that take the picture to the model's grid: while the camera rests they end
/// at once, and more of them would take longer to begin.
const MOVE_BLOCKS: u32 = 8;
/// A tile of the median.
const TILE: (usize, usize) = (128, 8);
/// Bytes of the kernel file's `FgNow`.
const NOW_BYTES: usize = 12648;

pub use crate::stage::device::Motion;

/// The state that a kernel wrote, by its number.
pub fn state_of(verdict: u32) -> ForegroundState {
    match verdict {
        0 => ForegroundState::WarmingUp,
        1 => ForegroundState::Valid,
        2 => ForegroundState::Driving,
        3 => ForegroundState::MotionUnknown,
        _ => ForegroundState::Skipped,
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct FgParams {
        width: u32,
        height: u32,
        area: u32,
        plane: u32,
        step: u32,
        modes: u32,
        history: u32,
        warm_up: u32,
        shadow: u32,
        compensate: u32,
        match_threshold: f32,
        background: f32,
        first: f32,
        background_weight: f32,
        variance_init: f32,
        variance_min: f32,
        variance_max: f32,
        shadow_ratio: f32,
        shadow_max_ratio: f32,
        shadow_threshold: f32,
        prior: f32,
        gain_step: u32,
        never: DevicePtr<u8>,
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct FgState {
        anchor: [f64; 9],
        gain: f32,
        learnt: u32,
        rate: f32,
        pad: u32,
    }
}

impl FgState {
    fn new(rate: Option<f32>) -> Self {
        Self {
            anchor: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            gain: 1.0,
            learnt: 0,
            rate: rate.unwrap_or(-1.0),
            pad: 0,
        }
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct FgModel {
        count: DevicePtr<u8>,
        weight: DevicePtr<u16>,
        variance: DevicePtr<u16>,
        mean: DevicePtr<u16>,
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// What the CPU refuses too.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU.
    #[error("foreground: {0}")]
    Gpu(#[from] GpuError),
}

/// Why a model could not be taken from a snapshot.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RestoreError {
    /// What the CPU refuses too.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The GPU.
    #[error("foreground: {0}")]
    Gpu(#[from] GpuError),
}

type State = DevicePtr<FgState>;
type Now = DevicePtr<u8>;
type Bytes = DevicePtr<u8>;
type Begin = Function<(FgParams, State, Now, DevicePtr<Motion>)>;
type Align = Function<(FgParams, State, Now, FgModel, Bytes)>;
type Gain = Function<(FgParams, State, Now, FgModel, Bytes, Bytes)>;
type Move = Function<(
    FgParams,
    Now,
    FgModel,
    Bytes,
    Bytes,
    Bytes,
    Bytes,
    DevicePtr<u16>,
)>;
type Step = Function<(
    FgParams,
    Now,
    FgModel,
    Bytes,
    Bytes,
    Bytes,
    DevicePtr<u16>,
    Bytes,
    Bytes,
)>;
type Codes = Function<(FgParams, Now, Bytes, Bytes)>;
type Clean = Function<(FgParams, Now, Bytes, Bytes, Bytes, Bytes, DevicePtr<u32>)>;
type Skip = Function<(FgParams, State, DevicePtr<u32>, DevicePtr<Motion>)>;

/// The foreground stage for one image size and kind of pixel.
pub struct Plan {
    host: Params,
    kind: PixelKind,
    size: Size,
    bytes: u64,
    sms: u32,
    params: FgParams,
    begin: Begin,
    align: Align,
    gain: Gain,
    shift: Move,
    step: Step,
    codes_of_picture: Codes,
    clean: Clean,
    skip: Skip,
    state: DeviceBuffer<FgState>,
    fresh: DeviceBuffer<FgState>,
    now: DeviceBuffer<u8>,
    count: DeviceBuffer<u8>,
    weight: DeviceBuffer<u16>,
    variance: DeviceBuffer<u16>,
    mean: DeviceBuffer<u16>,
    codes: DeviceBuffer<u8>,
    moved_codes: DeviceBuffer<u8>,
    sampled: DeviceBuffer<u8>,
    skipped: DeviceBuffer<u8>,
    slack: DeviceBuffer<u16>,
}

/// Device memory that a frame is read from and written to. All but `motion`, `mask` and
/// `verdict` may be read by others at the same time.
#[derive(Clone, Copy)]
pub struct Buffers<'a> {
    /// The picture, rows one after the other; for 16-bit pixels a view of their bytes. It begins
    /// at a multiple of 8 bytes.
    pub image: &'a DeviceBuffer<u8>,
    /// How the camera moved.
    pub motion: &'a DeviceBuffer<Motion>,
    /// Pixels that are foreground whatever the model says, and not learnt from: all but 0.
    pub known_foreground: Option<&'a DeviceBuffer<u8>>,
    /// The mask, rows one after the other; it begins at a multiple of 4 bytes.
    pub mask: &'a DeviceBuffer<u8>,
    /// What [`state_of`] takes.
    pub verdict: &'a DeviceBuffer<u32>,
}

impl Plan {
    /// As [`super::cpu::Plan::new`]; waits until its memory is ready.
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

    /// As [`super::cpu::Plan::with_mask`]; waits until its memory is ready.
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
        params.validate()?;
        let side = 1..=usize::from(u16::MAX);
        if !side.contains(&size.width) || !side.contains(&size.height) {
            return Err(ParamsError::Size(size).into());
        }
        let mask = super::usable(mask, size)?;
        let channels = snapshot::channels(kind);
        let plane = size.area().next_multiple_of(64);
        let modes = params.modes;
        let mut layout = ArenaLayout::new();
        let state = layout.reserve::<FgState>("foreground state", 1);
        let fresh = layout.reserve::<FgState>("foreground fresh state", 1);
        let now = layout.reserve::<u8>("foreground frame", NOW_BYTES);
        let count = layout.reserve::<u8>("foreground counts", plane);
        let weight = layout.reserve::<u16>("foreground weights", plane * modes);
        let variance = layout.reserve::<u16>("foreground variances", plane * modes);
        let mean = layout.reserve::<u16>("foreground means", plane * modes * channels);
        let codes = layout.reserve::<u8>("foreground codes", plane);
        let moved_codes = layout.reserve::<u8>("foreground moved codes", plane);
        let sampled = layout.reserve::<u8>("foreground moved picture", plane * pixel_bytes(kind));
        let skipped = layout.reserve::<u8>("foreground skipped", plane);
        let slack = layout.reserve::<u16>("foreground slack", plane);
        let never = mask.map(|_| layout.reserve::<u8>("foreground mask of pixels", plane));
        let bytes = layout.bytes();
        let arena = Arena::new(context, "foreground", layout)?;
        let stream = Stream::new(context, Priority::Normal)?;
        arena.fill(&stream, 0)?;
        let mut kernel_params = kernel_params(params, kind, size, plane);
        if let (Some(mask), Some(never)) = (mask, never) {
            let mut pixels = vec![0; plane];
            for (skip, &usable) in pixels.iter_mut().zip(mask.pixels()) {
                *skip = if usable == 0 { kernel::SKIP } else { 0 };
            }
            let never = arena.buffer(never)?;
            stream.upload(&pixels, &never)?;
            // The arena's memory stays where the plan's other buffers are.
            kernel_params.never = never.ptr();
        }

        let model = Module::load(context, "foreground")?;
        let frame = Module::load(context, "foreground_frame")?;
        let [align, gain, shift, step] = match kind {
            PixelKind::Grey8 => [
                "foreground_align_grey8",
                "foreground_gain_grey8",
                "foreground_move_grey8",
                "foreground_model_grey8",
            ],
            PixelKind::Grey16 => [
                "foreground_align_grey16",
                "foreground_gain_grey16",
                "foreground_move_grey16",
                "foreground_model_grey16",
            ],
            PixelKind::Rgb8 => [
                "foreground_align_rgb8",
                "foreground_gain_rgb8",
                "foreground_move_rgb8",
                "foreground_model_rgb8",
            ],
        };
        let clean = match params.median_px {
            5 => "foreground_clean_5",
            3 => "foreground_clean_3",
            _ => "foreground_clean_1",
        };
        let plan = Self {
            host: params.clone(),
            kind,
            size,
            bytes,
            sms: context.sms(),
            params: kernel_params,
            begin: frame.function("foreground_begin")?,
            align: frame.function(align)?,
            gain: frame.function(gain)?,
            shift: frame.function(shift)?,
            step: model.function(step)?,
            codes_of_picture: frame.function("foreground_codes")?,
            clean: model.function(clean)?,
            skip: frame.function("foreground_skip")?,
            state: arena.buffer(state)?,
            fresh: arena.buffer(fresh)?,
            now: arena.buffer(now)?,
            count: arena.buffer(count)?,
            weight: arena.buffer(weight)?,
            variance: arena.buffer(variance)?,
            mean: arena.buffer(mean)?,
            codes: arena.buffer(codes)?,
            moved_codes: arena.buffer(moved_codes)?,
            sampled: arena.buffer(sampled)?,
            skipped: arena.buffer(skipped)?,
            slack: arena.buffer(slack)?,
        };
        let first = [FgState::new(params.learning_rate)];
        stream.upload(&first, &plan.state)?;
        stream.upload(&first, &plan.fresh)?;
        stream.synchronize()?;
        Ok(plan)
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the work of a frame to the stream, following that of the frames before.
    ///
    /// # Errors
    /// [`GpuError::Size`] for buffers of other sizes; from the driver.
    pub fn enqueue(&self, stream: &Stream, buffers: Buffers<'_>) -> Result<(), GpuError> {
        self.enqueue_marked(stream, buffers, |_| Ok(()))
    }

    /// The same; `mark` is called behind each step with its name.
    ///
    /// # Errors
    /// As [`Plan::enqueue`], and those of `mark`.
    pub fn enqueue_marked(
        &self,
        stream: &Stream,
        buffers: Buffers<'_>,
        mut mark: impl FnMut(&'static str) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        self.check(&buffers)?;
        let Buffers {
            image,
            motion,
            known_foreground,
            mask,
            verdict,
        } = buffers;
        let known = known_foreground.map_or(DevicePtr::NULL, DeviceBuffer::ptr);
        let (params, state, now) = (self.params, self.state.ptr(), self.now.ptr());
        let (model, image) = (self.model(), image.ptr());
        let drift = LaunchShape::linear(DRIFT_BLOCKS, SAMPLE_THREADS);
        let ratios = LaunchShape::linear(GAIN_BLOCKS, SAMPLE_THREADS);
        let all = self.size.area().div_ceil(MOVE_THREADS as usize);
        let blocks = all.min((MOVE_BLOCKS * self.sms) as usize) as u32;
        let pixels = LaunchShape::linear(blocks, MOVE_THREADS);
        self.begin.launch(
            stream,
            LaunchShape::linear(1, BEGIN_THREADS),
            &(params, state, now, motion.ptr()),
        )?;
        mark("begin")?;
        self.align
            .launch(stream, drift, &(params, state, now, model, image))?;
        mark("align")?;
        self.gain
            .launch(stream, ratios, &(params, state, now, model, image, known))?;
        mark("gain")?;
        let (sampled, skipped) = (self.sampled.ptr(), self.skipped.ptr());
        let slack = self.slack.ptr();
        self.shift.launch(
            stream,
            pixels,
            &(params, now, model, image, known, sampled, skipped, slack),
        )?;
        mark("move")?;
        let codes = self.codes.ptr();
        self.step.launch(
            stream,
            LaunchShape::covering(self.size.area().div_ceil(4), MODEL_THREADS),
            &(
                params, now, model, image, sampled, skipped, slack, known, codes,
            ),
        )?;
        mark("model")?;
        let moved = self.moved_codes.ptr();
        self.codes_of_picture
            .launch(stream, pixels, &(params, now, codes, moved))?;
        mark("codes")?;
        let tiles = |n: usize, tile: usize| n.div_ceil(tile) as u32;
        self.clean.launch(
            stream,
            LaunchShape::new(
                [
                    tiles(self.size.width, TILE.0),
                    tiles(self.size.height, TILE.1),
                    1,
                ],
                [CLEAN_THREADS, 1, 1],
            ),
            &(params, now, codes, moved, known, mask.ptr(), verdict.ptr()),
        )?;
        mark("median")
    }

    /// For a frame for which the stage does not run: keeps the camera's motion for later. The
    /// mask is left as it is.
    ///
    /// # Errors
    /// From the driver.
    pub fn enqueue_skip(
        &self,
        stream: &Stream,
        motion: &DeviceBuffer<Motion>,
        verdict: &DeviceBuffer<u32>,
    ) -> Result<(), GpuError> {
        same("foreground: motions", motion.len(), 1)?;
        same("foreground: verdicts", verdict.len(), 1)?;
        self.skip.launch(
            stream,
            LaunchShape::linear(1, 32),
            &(self.params, self.state.ptr(), verdict.ptr(), motion.ptr()),
        )
    }

    /// Forgets everything learnt from earlier frames, in the stream's order.
    ///
    /// # Errors
    /// From the driver.
    pub fn reset(&self, stream: &Stream) -> Result<(), GpuError> {
        stream.copy_on_device(&self.fresh, &self.state)
    }

    /// Fixes the learning rate, or lets it be automatic; waits for the stream.
    ///
    /// # Errors
    /// When the rate is out of range; from the driver.
    pub fn set_learning_rate(
        &mut self,
        stream: &Stream,
        rate: Option<f32>,
    ) -> Result<(), PlanError> {
        let params = Params {
            learning_rate: rate,
            ..self.host.clone()
        };
        params.validate()?;
        self.host = params;
        let mut state = self.read_state(stream)?;
        state.rate = FgState::new(rate).rate;
        stream.upload(&[state], &self.state)?;
        stream.upload(&[FgState::new(rate)], &self.fresh)?;
        Ok(())
    }

    /// The model as bytes, those of [`super::cpu::Plan::snapshot`]; waits for the stream.
    ///
    /// # Errors
    /// From the driver.
    pub fn snapshot(&self, stream: &Stream) -> Result<Vec<u8>, GpuError> {
        let learnt = self.read_state(stream)?.learnt;
        let model = self.read_model(stream, learnt)?;
        Ok(snapshot::encode(&self.host, self.kind, self.size, model))
    }

    /// Waits for the stream.
    fn read_model(&self, stream: &Stream, learnt: u32) -> Result<Model<'static>, GpuError> {
        let plane = self.params.plane as usize;
        let mut counts = vec![0u8; plane];
        stream.download(&self.count, &mut counts)?;
        counts.truncate(self.size.area());
        if learnt == 0 {
            counts.fill(0);
        }
        let read = |buffer: &DeviceBuffer<u16>| {
            let mut numbers = vec![0u16; buffer.len()];
            stream.download(buffer, &mut numbers).map(|()| numbers)
        };
        let (weight, variance) = (read(&self.weight)?, read(&self.variance)?);
        let mean = read(&self.mean)?;
        let channels = snapshot::channels(self.kind);
        let modes: usize = counts.iter().map(|&n| usize::from(n)).sum();
        let mut numbers = Vec::with_capacity(modes * (2 + channels));
        for (i, &count) in counts.iter().enumerate() {
            for m in 0..usize::from(count) {
                numbers.extend([weight[m * plane + i], variance[m * plane + i]]);
                numbers.extend((0..channels).map(|c| mean[(m * channels + c) * plane + i]));
            }
        }
        Ok(Model {
            learnt,
            counts: counts.into(),
            numbers,
        })
    }

    /// Appends what is known from earlier frames, the bytes of [`super::cpu::Plan`]; waits for the
    /// stream.
    ///
    /// # Errors
    /// From the driver.
    pub fn save(&self, stream: &Stream, to: &mut StateWriter<'_>) -> Result<(), GpuError> {
        let state = self.read_state(stream)?;
        let model = self.read_model(stream, state.learnt)?;
        let known = (state.learnt, state.gain, state.anchor);
        write_state(to, self.kind, self.size, known);
        to.bytes(&model.counts);
        model.numbers.iter().for_each(|&n| to.u16(n));
        Ok(())
    }

    /// Takes up what a plan of the same shape and parameters has saved, on the CPU too; waits for
    /// the stream.
    ///
    /// # Errors
    /// Why the state is refused; nothing is known then.
    pub fn load(&self, stream: &Stream, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.reset(stream)?;
        let (model, gain, anchor) = read_state(from, &self.host, self.kind, self.size)?;
        let state = FgState {
            anchor: anchor.numbers(),
            gain,
            learnt: model.learnt,
            ..FgState::new(self.host.learning_rate)
        };
        self.take_model(stream, &model, state)?;
        Ok(())
    }

    /// Takes the model of a snapshot, a CPU's too; waits for the stream.
    ///
    /// # Errors
    /// As [`super::cpu::Plan::restore`], the model is then as freshly built; from the driver.
    pub fn restore(&mut self, stream: &Stream, bytes: &[u8]) -> Result<(), RestoreError> {
        self.reset(stream)?;
        let found = snapshot::decode(&self.host, self.kind, self.size, bytes)?;
        let state = FgState {
            learnt: found.learnt,
            ..FgState::new(self.host.learning_rate)
        };
        self.take_model(stream, &found, state)?;
        Ok(())
    }

    /// Takes numbers that have been checked.
    fn take_model(
        &self,
        stream: &Stream,
        found: &Model<'_>,
        state: FgState,
    ) -> Result<(), GpuError> {
        let plane = self.params.plane as usize;
        let channels = snapshot::channels(self.kind);
        let mut counts = found.counts.to_vec();
        counts.resize(plane, 0);
        let mut weight = vec![0; self.weight.len()];
        let mut variance = vec![0; self.variance.len()];
        let mut mean = vec![0; self.mean.len()];
        let mut numbers = found.numbers.chunks_exact(2 + channels);
        for (i, &count) in found.counts.iter().enumerate() {
            for (m, mode) in numbers.by_ref().take(usize::from(count)).enumerate() {
                weight[m * plane + i] = mode[0];
                variance[m * plane + i] = mode[1];
                for (c, &level) in mode[2..].iter().enumerate() {
                    mean[(m * channels + c) * plane + i] = level;
                }
            }
        }
        stream.upload(&counts, &self.count)?;
        stream.upload(&weight, &self.weight)?;
        stream.upload(&variance, &self.variance)?;
        stream.upload(&mean, &self.mean)?;
        stream.upload(&[state], &self.state)
    }

    /// The camera's gain since the model began; waits for the stream.
    ///
    /// # Errors
    /// From the driver.
    pub fn gain(&self, stream: &Stream) -> Result<f32, GpuError> {
        Ok(self.read_state(stream)?.gain)
    }

    fn read_state(&self, stream: &Stream) -> Result<FgState, GpuError> {
        let mut state = [FgState::new(None)];
        stream.download(&self.state, &mut state)?;
        Ok(state[0])
    }

    fn model(&self) -> FgModel {
        FgModel {
            count: self.count.ptr(),
            weight: self.weight.ptr(),
            variance: self.variance.ptr(),
            mean: self.mean.ptr(),
        }
    }

    fn check(&self, buffers: &Buffers<'_>) -> Result<(), GpuError> {
        let area = self.size.area();
        let bytes = area * pixel_bytes(self.kind);
        same(
            "foreground: bytes of the picture",
            buffers.image.len(),
            bytes,
        )?;
        same("foreground: motions", buffers.motion.len(), 1)?;
        if let Some(known) = buffers.known_foreground {
            same("foreground: known pixels", known.len(), area)?;
        }
        same("foreground: pixels of the mask", buffers.mask.len(), area)?;
        same("foreground: verdicts", buffers.verdict.len(), 1)
    }
}

fn same(what: &'static str, found: usize, expected: usize) -> Result<(), GpuError> {
    if found == expected {
        return Ok(());
    }
    Err(GpuError::Size {
        what,
        found: found as u64,
        expected: expected as u64,
    })
}

fn pixel_bytes(kind: PixelKind) -> usize {
    match kind {
        PixelKind::Grey8 => 1,
        PixelKind::Grey16 => 2,
        PixelKind::Rgb8 => 3,
    }
}

fn kernel_params(params: &Params, kind: PixelKind, size: Size, plane: usize) -> FgParams {
    // What does not depend on the frame, as the CPU computes it.
    let frame = super::Frame::new(params, params.shadow_of(kind), 0, 1.0);
    debug_assert!(params.modes <= MAX_MODES);
    FgParams {
        width: size.width as u32,
        height: size.height as u32,
        area: size.area() as u32,
        plane: plane as u32,
        step: gain::step(size.area(), Drift::SAMPLES) as u32,
        modes: frame.modes,
        history: params.history_frames,
        warm_up: params.warm_up_frames,
        shadow: u32::from(frame.shadow),
        compensate: u32::from(params.gain_compensation),
        match_threshold: frame.match_threshold,
        background: frame.background_threshold,
        first: frame.first_threshold,
        background_weight: frame.background_weight,
        variance_init: frame.variance_init,
        variance_min: frame.variance_min,
        variance_max: frame.variance_max,
        shadow_ratio: frame.shadow_ratio,
        shadow_max_ratio: frame.shadow_max_ratio,
        shadow_threshold: frame.shadow_threshold,
        prior: params.complexity_prior,
        gain_step: gain::step(size.area(), gain::SAMPLES) as u32,
        never: DevicePtr::NULL,
    }
}
