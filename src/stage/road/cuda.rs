//! The road stage on the GPU (`kernels/road.cu`): three kernels, nothing of it on the host; what
//! is known from earlier frames stays in device memory.
use super::{
    Params, ParamsError, cpu,
    geometry::Line,
    track::{Tracked, Tracker},
};
use crate::{
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape,
        Module, Stream,
    },
    device_struct,
    frame::{self, Camera, Mask, RoadOrigin, Size},
    stage::state::{StateError, StateReader, StateWriter},
};

/// Threads a block of `road_histogram`, `road_search` and `road_fit`.
const HISTOGRAM_THREADS: u32 = 256;
const SEARCH_THREADS: u32 = 256;
const FIT_THREADS: u32 = 512;
/// Lines that a block of `road_search` scores.
const LINES_A_BLOCK: usize = 32;
/// Shared memory of `road_histogram`, bytes a bin.
const BYTES_A_BIN: usize = 12;
/// A reach as wide as this covers every disparity.
const WIDEST: i64 = 1 << 28;

device_struct! {
    /// [`frame::Road`] as the kernels write and read it (`Road` in `kernels/common.cuh`).
    #[derive(Debug, Default, PartialEq)]
    pub struct Road {
        /// Disparity gained per row downwards, px.
        pub slope: f32,
        /// Disparity at row 0, px.
        pub offset: f32,
        /// Row where the disparity is 0.
        pub horizon_row: f32,
        /// Camera pitch in radians.
        pub pitch_rad: f32,
        /// Height of the camera above the ground, m.
        pub camera_height_m: f32,
        /// 0 to 1.
        pub confidence: f32,
        /// 0 fixed, 1 measured, 2 held, 3 assumed.
        pub origin: u32,
    }
}

impl From<frame::Road> for Road {
    fn from(road: frame::Road) -> Self {
        Self {
            slope: road.slope,
            offset: road.offset,
            horizon_row: road.horizon_row,
            pitch_rad: road.pitch_rad,
            camera_height_m: road.camera_height_m,
            confidence: road.confidence,
            origin: match road.origin {
                RoadOrigin::Fixed => 0,
                RoadOrigin::Measured => 1,
                RoadOrigin::Held => 2,
                RoadOrigin::Assumed => 3,
            },
        }
    }
}

impl From<Road> for frame::Road {
    fn from(road: Road) -> Self {
        Self {
            slope: road.slope,
            offset: road.offset,
            horizon_row: road.horizon_row,
            pitch_rad: road.pitch_rad,
            camera_height_m: road.camera_height_m,
            confidence: road.confidence,
            origin: match road.origin {
                0 => RoadOrigin::Fixed,
                1 => RoadOrigin::Measured,
                2 => RoadOrigin::Held,
                _ => RoadOrigin::Assumed,
            },
        }
    }
}

device_struct! {
    /// A line in 1/65536 px.
    #[derive(Debug)]
    struct Candidate {
        slope: i64,
        offset: i64,
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct RoadParams {
        width: u32,
        height: u32,
        bins: u32,
        every: u32,
        candidates: u32,
        reacquire: u32,
        cap: i32,
        ground: i32,
        wide: i32,
        inlier: i32,
        inlier_ratio: i32,
        reserved: i32,
        least: i64,
        focal_px: f64,
        cy: f64,
        baseline_m: f64,
        min_height_m: f64,
        max_height_m: f64,
        max_pitch_rad: f64,
        min_support: f64,
        inlier_px: f64,
        inlier_share: f64,
        height_gain: f64,
        pitch_gain: f64,
        height_step: f64,
        pitch_step: f64,
        decay: f64,
        assumed: Road,
        pad: u32,
    }
}

device_struct! {
    /// As in the kernel file; all zero: nothing known yet.
    #[derive(Debug, Default)]
    struct TrackState {
        slope: f64,
        horizon: f64,
        confidence: f64,
        pending_slope: f64,
        pending_horizon: f64,
        tracked: u32,
        blind: u32,
        seen: u32,
        pad: u32,
    }
}

impl TrackState {
    fn tell(self, tracker: &mut Tracker) {
        let line = |slope, horizon| Line { slope, horizon };
        tracker.state = (self.tracked != 0).then_some(Tracked {
            line: line(self.slope, self.horizon),
            confidence: self.confidence,
            blind: self.blind,
        });
        let pending = line(self.pending_slope, self.pending_horizon);
        tracker.pending = (self.seen != 0).then_some((pending, self.seen));
    }

    fn of(tracker: &Tracker) -> Self {
        let mut state = Self::default();
        if let Some(tracked) = &tracker.state {
            (state.slope, state.horizon) = (tracked.line.slope, tracked.line.horizon);
            (state.confidence, state.blind) = (tracked.confidence, tracked.blind);
            state.tracked = 1;
        }
        if let Some((line, seen)) = &tracker.pending {
            (state.pending_slope, state.pending_horizon) = (line.slope, line.horizon);
            state.seen = *seen;
        }
        state
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// What the CPU refuses too.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU.
    #[error("road: {0}")]
    Gpu(#[from] GpuError),
}

type Histogram = Function<(
    DevicePtr<u16>,
    DevicePtr<u8>,
    DevicePtr<u16>,
    DevicePtr<u32>,
    DevicePtr<u64>,
    u32,
    u32,
)>;
type Search = Function<(
    RoadParams,
    DevicePtr<Candidate>,
    DevicePtr<u16>,
    DevicePtr<u64>,
)>;
type Fit = Function<(
    RoadParams,
    DevicePtr<Candidate>,
    DevicePtr<u64>,
    DevicePtr<u16>,
    DevicePtr<u32>,
    DevicePtr<TrackState>,
    DevicePtr<Road>,
)>;

/// The road stage for one image size.
pub struct Plan {
    size: Size,
    bytes: u64,
    /// As it is without anything known.
    tracker: Tracker,
    work: Work,
}

enum Work {
    /// The line is known.
    Fixed(DeviceBuffer<Road>),
    Measured(Box<Measured>),
}

struct Measured {
    params: RoadParams,
    histogram: Histogram,
    search: Search,
    fit: Fit,
    mask: Option<DeviceBuffer<u8>>,
    counts: DeviceBuffer<u16>,
    sums: DeviceBuffer<u32>,
    candidates: DeviceBuffer<Candidate>,
    best: DeviceBuffer<u64>,
    state: DeviceBuffer<TrackState>,
}

impl Plan {
    /// As [`cpu::Plan::new`]; waits until its tables are on the device.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver.
    pub fn new(
        context: &Context,
        params: &Params,
        size: Size,
        camera: &Camera,
        disparities: usize,
        mask: Option<&Mask>,
    ) -> Result<Self, PlanError> {
        let reference = cpu::Plan::new(params, size, camera, disparities, mask)?;
        let stream = Stream::new(context, crate::cuda::Priority::Normal)?;
        let mut layout = ArenaLayout::new();
        if let Some(fixed) = reference.fixed {
            let slot = layout.reserve::<Road>("road", 1);
            let bytes = layout.bytes();
            let road = Arena::new(context, "road", layout)?.buffer(slot)?;
            stream.upload(&[fixed.into()], &road)?;
            return Ok(Self {
                size,
                bytes,
                tracker: reference.tracker,
                work: Work::Fixed(road),
            });
        }
        let lines = lines(&reference);
        let entries = size.height * (reference.bins + 1);
        let counts = layout.reserve::<u16>("road counts", entries);
        let sums = layout.reserve::<u32>("road sums", entries);
        let candidates = layout.reserve::<Candidate>("road lines", lines.len());
        let best = layout.reserve::<u64>("road best line", 1);
        let state = layout.reserve::<TrackState>("road state", 1);
        let usable = mask.map(|mask| (mask, layout.reserve::<u8>("road mask", size.area())));
        let bytes = layout.bytes();
        let arena = Arena::new(context, "road", layout)?;
        let module = Module::load(context, "road")?;
        let measured = Measured {
            params: kernel_params(params, size, camera, &reference, lines.len()),
            histogram: module.function("road_histogram")?,
            search: module.function("road_search")?,
            fit: module.function("road_fit")?,
            mask: usable.map(|(_, slot)| arena.buffer(slot)).transpose()?,
            counts: arena.buffer(counts)?,
            sums: arena.buffer(sums)?,
            candidates: arena.buffer(candidates)?,
            best: arena.buffer(best)?,
            state: arena.buffer(state)?,
        };
        stream.upload(&lines, &measured.candidates)?;
        if let (Some((mask, _)), Some(buffer)) = (usable, &measured.mask) {
            let pixels: Vec<u8> = mask.pixels().copied().collect();
            stream.upload(&pixels, buffer)?;
        }
        stream.upload(&[TrackState::default()], &measured.state)?;
        Ok(Self {
            size,
            bytes,
            tracker: reference.tracker,
            work: Work::Measured(Box::new(measured)),
        })
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the work of a frame to the stream: the road of a disparity image of the plan's size
    /// (rows one after the other), following those of the frames before.
    ///
    /// # Errors
    /// [`GpuError::Size`] for buffers of other sizes; from the driver.
    pub fn enqueue(
        &self,
        stream: &Stream,
        disparity: &DeviceBuffer<u16>,
        road: &DeviceBuffer<Road>,
    ) -> Result<(), GpuError> {
        for (what, found, expected) in [
            (
                "road: pixels of the disparity",
                disparity.len(),
                self.size.area(),
            ),
            ("road: results", road.len(), 1),
        ] {
            if found != expected {
                return Err(GpuError::Size {
                    what,
                    found: found as u64,
                    expected: expected as u64,
                });
            }
        }
        let m = match &self.work {
            Work::Fixed(fixed) => return stream.copy_on_device(fixed, road),
            Work::Measured(measured) => measured,
        };
        let bins = m.params.bins;
        m.histogram.launch(
            stream,
            LaunchShape::linear(m.params.height, HISTOGRAM_THREADS)
                .with_shared(bins * BYTES_A_BIN as u32),
            &(
                disparity.ptr(),
                m.mask.as_ref().map_or(DevicePtr::NULL, DeviceBuffer::ptr),
                m.counts.ptr(),
                m.sums.ptr(),
                m.best.ptr(),
                m.params.width,
                bins,
            ),
        )?;
        let blocks = (m.params.candidates as usize)
            .div_ceil(LINES_A_BLOCK)
            .max(1);
        m.search.launch(
            stream,
            LaunchShape::linear(blocks as u32, SEARCH_THREADS),
            &(m.params, m.candidates.ptr(), m.counts.ptr(), m.best.ptr()),
        )?;
        m.fit.launch(
            stream,
            LaunchShape::linear(1, FIT_THREADS),
            &(
                m.params,
                m.candidates.ptr(),
                m.best.ptr(),
                m.counts.ptr(),
                m.sums.ptr(),
                m.state.ptr(),
                road.ptr(),
            ),
        )
    }

    /// Forgets everything learnt from earlier frames, in the stream's order.
    ///
    /// # Errors
    /// From the driver.
    pub fn reset(&self, stream: &Stream) -> Result<(), GpuError> {
        match &self.work {
            Work::Fixed(_) => Ok(()),
            Work::Measured(measured) => stream.fill(&measured.state.view::<u32>()?, 0u32),
        }
    }

    /// Appends what is known from earlier frames, the bytes of [`cpu::Plan`]; waits for the
    /// stream.
    ///
    /// # Errors
    /// From the driver.
    pub fn save(&self, stream: &Stream, to: &mut StateWriter<'_>) -> Result<(), GpuError> {
        let mut tracker = self.tracker.clone();
        if let Work::Measured(measured) = &self.work {
            let mut state = [TrackState::default()];
            stream.download(&measured.state, &mut state)?;
            state[0].tell(&mut tracker);
        }
        to.shape(cpu::STATE, None, self.size);
        tracker.save(to);
        Ok(())
    }

    /// Takes up what a plan of the same shape and parameters has saved, on the CPU too; waits for
    /// the stream.
    ///
    /// # Errors
    /// Why the state is refused; nothing is known then.
    pub fn load(&self, stream: &Stream, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.reset(stream)?;
        from.shape(cpu::STATE, None, self.size)?;
        let mut tracker = self.tracker.clone();
        tracker.load(from)?;
        if let Work::Measured(measured) = &self.work {
            stream.upload(&[TrackState::of(&tracker)], &measured.state)?;
        }
        Ok(())
    }
}

/// The grid, line by line, in the order in which ties are broken.
fn lines(reference: &cpu::Plan) -> Vec<Candidate> {
    let fan = |fan: &cpu::Fan| {
        let cpu::Fan {
            slope,
            first,
            count,
        } = *fan;
        let step = reference.step;
        (0..i64::from(count)).map(move |j| Candidate {
            slope,
            offset: first + j * step,
        })
    };
    reference.fans.iter().flat_map(fan).collect()
}

fn kernel_params(
    params: &Params,
    size: Size,
    camera: &Camera,
    reference: &cpu::Plan,
    lines: usize,
) -> RoadParams {
    let inlier = (params.inlier_px * cpu::ONE) as i64;
    let reach = |d: i64| d.min(WIDEST) as i32;
    RoadParams {
        width: size.width as u32,
        height: size.height as u32,
        bins: reference.bins as u32,
        every: reference.every() as u32,
        candidates: lines as u32,
        reacquire: params.reacquire_frames,
        cap: reference.cap as i32,
        ground: reference.ground as i32,
        wide: reach(inlier.saturating_add(reference.step / 2)),
        inlier: reach(inlier),
        inlier_ratio: reference.inlier_ratio as i32,
        reserved: 0,
        least: (params.min_disparity_px * cpu::ONE) as i64,
        focal_px: camera.focal_px,
        cy: camera.cy,
        baseline_m: camera.baseline_m,
        min_height_m: params.min_camera_height_m,
        max_height_m: params.max_camera_height_m,
        max_pitch_rad: params.max_pitch_rad,
        min_support: params.min_support,
        inlier_px: params.inlier_px,
        inlier_share: params.inlier_ratio,
        height_gain: params.height_gain,
        pitch_gain: params.pitch_gain,
        height_step: params.max_height_step_ratio,
        pitch_step: params.max_pitch_step_rad,
        decay: params.held_decay,
        assumed: reference.tracker.assumed().into(),
        pad: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_keeps_its_numbers_on_the_way() {
        assert_eq!(size_of::<TrackState>(), 56);
        let camera = Camera {
            focal_px: 500.0,
            cx: 320.0,
            cy: 180.0,
            baseline_m: 0.5,
        };
        let line = |slope, horizon| Line { slope, horizon };
        let tracked = Tracked {
            line: line(0.25, 171.5),
            confidence: 0.75,
            blind: 3,
        };
        let bytes = |tracker: &Tracker| {
            let mut bytes = Vec::new();
            tracker.save(&mut StateWriter(&mut bytes));
            bytes
        };
        for state in [None, Some(tracked)] {
            for pending in [None, Some((line(0.5, -20.0), 2))] {
                let mut tracker = Tracker::new(&Params::default(), &camera);
                let mut back = tracker.clone();
                back.state = Some(tracked);
                (tracker.state, tracker.pending) = (state, pending);
                TrackState::of(&tracker).tell(&mut back);
                assert_eq!(bytes(&back), bytes(&tracker));
            }
        }
    }
}
