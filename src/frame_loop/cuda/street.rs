//! The stereo chain on CUDA: all that a frame needs as one graph. Uploads from page-locked memory,
//! rectification, stereo, road, stixels, downloads: one launch, one wait, no step of the host in
//! between. What a stage hands to the next stays on the device.
//!
//! A side branch of the graph carries what no stage waits for: pictures for the sinks, and the
//! disparity on its way to the host.
use std::rc::Rc;

use crate::{
    calib::Rectification,
    config::Config,
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, Event, GpuError, GraphExec, Priority, Stream,
    },
    frame::{Camera, Gap, INVALID, Mask, RoadOrigin, StereoFrame, Stixels, Street, Timestamp},
    frame_loop::{
        Backend, BackendError, ChainError, Laps, Shape, Slot, StageId, Unit, backend::sections,
        cpu::invalidate, slot::StreetSlot,
    },
    stage::{
        rectify::{self, Rectified},
        road,
        state::StateError,
        stereo, stixel,
    },
};

use super::{
    errors::failed,
    launched::{Launched, nanoseconds, wait_until},
    memory::{HostMemory, device_memory, host_memory},
    pixels::{pack, unpack},
    recording::Recording,
};

/// What comes back to the host besides road and stixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The disparity. Without it the result's is invalid everywhere.
    pub disparity: bool,
    /// The rectified left image, in colour too where the source has colour. Without it the
    /// slot's are black.
    pub pictures: bool,
    /// The time of each stage; costs a few microseconds a frame. Without it the first stage
    /// carries the time of the whole unit, and the others none.
    pub stage_times: bool,
    /// What stays on the device of the left image, for what is computed behind the chain.
    pub left: LeftImage,
}

/// The rectified left image on the device ([`CudaBackend::left`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeftImage {
    /// Nothing that could be relied on.
    #[default]
    None,
    /// In grey, a byte a pixel.
    Grey,
    /// In colour, three bytes a pixel; in grey where the source has none.
    Colour,
}

impl Wanted {
    /// Everything, as a replay needs it for digests and pictures.
    pub const ALL: Self = Self {
        disparity: true,
        pictures: true,
        stage_times: true,
        left: LeftImage::None,
    };
    /// Road and stixels alone.
    pub const STIXELS: Self = Self {
        disparity: false,
        pictures: false,
        stage_times: false,
        left: LeftImage::None,
    };
}

/// The chain for one shape on one GPU.
pub struct CudaBackend {
    graph: GraphExec,
    stream: Stream,
    /// What is known from earlier frames is there.
    road: road::cuda::Plan,
    stixel: stixel::cuda::Plan,
    host: HostMemory,
    disparity: DeviceBuffer<u16>,
    left: Option<DeviceBuffer<u8>>,
    /// The start of the graph's work, then the end of each stage.
    marks: Vec<Rc<Event>>,
    launched: Launched,
    unit: [Unit; 1],
    camera: Camera,
    mask: Option<Mask>,
    identity: bool,
    shape: Shape,
    wanted: Wanted,
    capacity: Stixels,
    device_bytes: u64,
}

pub(super) struct Stages {
    pub rectify: rectify::cuda::Plan,
    pub stereo: Option<stereo::cuda::Plan>,
    pub road: road::cuda::Plan,
}

impl CudaBackend {
    /// Takes all memory that the stages need, records the graph, and sends it to the device.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver, or over a memory limit of the context.
    pub fn new(
        context: &Context,
        config: &Config,
        rectification: &Rectification,
        shape: &Shape,
        wanted: Wanted,
    ) -> Result<Self, ChainError> {
        let size = shape.size;
        let camera = rectification.camera;
        let stream = Stream::new(context, Priority::High)?;
        let side = Stream::new(context, Priority::Normal)?;
        let rectify = rectify::cuda::Plan::new(context, rectification, size, shape.mask.as_ref())?;
        let range = usize::from(config.stereo.disparities);
        let mask = rectify.mask();
        let mut stereo_bytes = 0;
        let stereo = if shape.stored_disparity {
            None
        } else {
            let mut layout = ArenaLayout::new();
            let reserved =
                stereo::cuda::Reserved::new(&config.stereo, size, mask.is_some(), &mut layout)?;
            stereo_bytes = layout.bytes();
            let arena = Arena::new(context, "stereo", layout)?;
            Some(stereo::cuda::Plan::new(
                context, &stream, &arena, &reserved, mask,
            )?)
        };
        let stages = Stages {
            stereo,
            road: road::cuda::Plan::new(context, &config.road, size, &camera, range, mask)?,
            rectify,
        };
        let stixel =
            stixel::cuda::Plan::new(context, &stream, &config.stixel, size, &camera, range)?;

        let identity = stages.rectify.is_identity();
        let pictures = wanted.pictures && !identity;
        let left = match wanted.left {
            LeftImage::Colour if !shape.colour => LeftImage::Grey,
            left => left,
        };
        let images = match (&stages.stereo, pictures || left == LeftImage::Grey) {
            (Some(_), _) => 2,
            (None, true) => 1,
            (None, false) => 0,
        };
        let colour = shape.colour && (pictures || left == LeftImage::Colour);
        let words = stixel.output_words();
        let (device, own_bytes) = device_memory(context, size, images, colour, identity, words)?;
        let up = (images, colour);
        let host = host_memory(context, shape, wanted, up, pictures, words)?;
        let unit = Unit {
            stages: if stages.stereo.is_some() {
                &[
                    StageId::Rectify,
                    StageId::Stereo,
                    StageId::Road,
                    StageId::Stixel,
                ]
            } else {
                &[StageId::Rectify, StageId::Road, StageId::Stixel]
            },
        };
        let marks = if wanted.stage_times {
            (0..=unit.stages.len())
                .map(|_| Event::new(context).map(Rc::new))
                .collect::<Result<_, _>>()?
        } else {
            Vec::new()
        };
        let order = Event::for_order(context, false)?;
        let recording = Recording {
            stages: &stages,
            stixel: &stixel,
            host: &host,
            device: &device,
            marks: &marks,
            side: &side,
            order: &order,
            size,
        };
        // What lies behind the ends of lists is copied with them, and never looked at.
        stream.fill(&device.results, 0u8)?;
        let graph = stream
            .capture::<GpuError>(|main| recording.record(main))?
            .instantiate()?;
        graph.upload(&stream)?;
        stream.synchronize()?;
        Ok(Self {
            device_bytes: own_bytes
                + stages.rectify.device_bytes()
                + stereo_bytes
                + stages.road.device_bytes()
                + stixel.device_bytes(),
            mask: stages.rectify.mask().cloned(),
            disparity: device.disparity.clone(),
            left: match (left, &device.grey, &device.rgb) {
                (LeftImage::Grey, Some(grey), _) => Some(grey.slice(0..size.area())?),
                (LeftImage::Colour, _, Some(rgb)) => Some(rgb.clone()),
                _ => None,
            },
            capacity: stixel.output(),
            graph,
            stream,
            road: stages.road,
            stixel,
            host,
            launched: Launched {
                done: Rc::new(Event::for_order(context, false)?),
                begin: marks.first().cloned(),
                staged: Rc::default(),
                at: Rc::default(),
            },
            marks,
            unit: [unit],
            camera,
            identity,
            shape: shape.clone(),
            wanted,
        })
    }

    /// The rectified camera.
    pub fn camera(&self) -> Camera {
        self.camera
    }

    /// The disparity of the frame that was computed last, on the device, rows one after the other;
    /// steady until the next frame begins.
    pub fn disparity(&self) -> &DeviceBuffer<u16> {
        &self.disparity
    }

    /// Its rectified left image in the same way, as [`Wanted::left`] asks for it.
    pub fn left(&self) -> Option<&DeviceBuffer<u8>> {
        self.left.as_ref()
    }

    /// The place behind the graph that was launched last, for what is launched behind it.
    pub(super) fn launched(&self) -> Launched {
        self.launched.clone()
    }

    /// Bytes of device memory that the chain holds.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// A slot for frames of this shape.
    pub fn slot(&self) -> Slot {
        let Shape { size, colour, .. } = self.shape;
        let mut set = StereoFrame::new(size);
        if self.shape.stored_disparity {
            set.right = None;
        }
        Slot {
            set: Box::new(set.into()),
            rectified: Some(Rectified::new(size, false, colour)),
            result: Street::new(size, self.capacity.clone()).into(),
        }
    }

    /// Copies the frame's images to where the device reads them. For benches; part of `run`.
    ///
    /// # Errors
    /// From the driver.
    #[doc(hidden)]
    pub fn stage(&self, set: &StereoFrame) -> Result<(), GpuError> {
        if let Some(grey) = &self.host.grey {
            let area = self.shape.size.area();
            let mut to = grey.write()?;
            let (left, right) = to.split_at_mut(area);
            pack(&set.left, left);
            if !right.is_empty() {
                match &set.right {
                    Some(image) => pack(image, right),
                    None => right.fill(0),
                }
            }
        }
        if let Some(rgb) = &self.host.rgb {
            let mut to = rgb.write()?;
            match &set.left_rgb {
                Some(image) => pack(image, to.as_chunks_mut().0),
                None => to.fill(0),
            }
        }
        if let Some(stored) = &self.host.stored {
            let mut to = stored.write()?;
            match &set.stored_disparity {
                Some(image) => pack(image, &mut to),
                None => to.fill(INVALID),
            }
        }
        Ok(())
    }

    /// What needs nothing from the device: done while it works.
    fn pass_through(&self, slot: &mut StreetSlot<'_>) {
        let StreetSlot {
            set,
            rectified,
            street: result,
            ..
        } = slot;
        if self.wanted.pictures && self.identity {
            rectified.left.copy_from(&set.left);
            if let Some(out) = &mut rectified.left_rgb {
                match &set.left_rgb {
                    Some(rgb) => out.copy_from(rgb),
                    None => out.fill([0; 3]),
                }
            }
        }
        if self.wanted.disparity
            && let Some(stored) = &set.stored_disparity
        {
            result.disparity.copy_from(stored);
            if let Some(mask) = &self.mask {
                invalidate(&mut result.disparity, mask);
            }
        }
    }

    /// Takes the results over. For benches; part of `run`.
    ///
    /// # Errors
    /// From the driver.
    #[doc(hidden)]
    pub fn take(&self, slot: &mut Slot) -> Result<(), GpuError> {
        match slot.street() {
            Some(mut street) => self.take_over(&mut street),
            None => Ok(()),
        }
    }

    fn take_over(&self, slot: &mut StreetSlot<'_>) -> Result<(), GpuError> {
        let StreetSlot {
            rectified,
            street: result,
            gaps,
            ..
        } = slot;
        if let Some(disparity) = &self.host.disparity {
            unpack(&disparity.read()?, &mut result.disparity);
        }
        if let Some(left) = &self.host.left {
            unpack(&left.read()?, &mut rectified.left);
        }
        if let (Some(rgb), Some(out)) = (&self.host.left_rgb, &mut rectified.left_rgb) {
            unpack(rgb.read()?.as_chunks().0, out);
        }
        self.stixel
            .decode(&self.host.words.read()?, &mut result.stixels);
        result.road = self.host.road.read()?[0].into();
        if matches!(result.road.origin, RoadOrigin::Held | RoadOrigin::Assumed) {
            gaps.insert(Gap::RoadHeld);
        }
        if result.stixels.overflowed() > 0 {
            gaps.insert(Gap::StixelOverflow);
        }
        Ok(())
    }

    /// Launches the graph on what was staged and waits for it. For benches; part of `run`.
    ///
    /// # Errors
    /// From the driver.
    #[doc(hidden)]
    pub fn launch_and_wait(&self) -> Result<(), GpuError> {
        self.graph.launch(&self.stream)?;
        self.stream.synchronize()
    }

    /// Each stage's microseconds in the last launch; nothing without
    /// [`Wanted::stage_times`].
    ///
    /// # Errors
    /// From the driver.
    pub fn stage_times(&self) -> impl Iterator<Item = Result<(StageId, f32), GpuError>> + '_ {
        let spans = self.marks.windows(2);
        (self.unit[0].stages.iter().zip(spans))
            .map(|(&stage, mark)| Ok((stage, mark[1].microseconds_since(&mark[0])?)))
    }

    /// Stages the frame and launches the graph.
    fn launch(&self, slot: &mut Slot, laps: &Laps<'_>) -> Result<bool, GpuError> {
        // Slots of this backend have one.
        let Some(slot) = slot.street() else {
            return Ok(false);
        };
        self.launched.staged.set(laps.now());
        self.stage(slot.set)?;
        self.launched.at.set(laps.now());
        self.graph.launch(&self.stream)?;
        self.stream.record(&self.launched.done)?;
        Ok(true)
    }

    fn collect(&self, slot: &mut Slot, laps: &mut Laps<'_>) -> Result<(), GpuError> {
        let Some(mut slot) = slot.street() else {
            return Ok(());
        };
        self.stream.synchronize()?;
        laps.arrived();
        self.take_over(&mut slot)?;
        let stages = self.unit[0].stages;
        if self.marks.is_empty() {
            let to = laps.lap(stages[0], self.launched.staged.get());
            for &stage in &stages[1..] {
                laps.note(stage, to, 0);
            }
            return Ok(());
        }
        let mut start = self.launched.at.get();
        for time in self.stage_times() {
            let (stage, us) = time?;
            let duration = nanoseconds(us);
            laps.note(stage, start, duration);
            start = start.plus_ns(duration);
        }
        Ok(())
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn units(&self) -> &[Unit] {
        &self.unit
    }

    /// The stages' times are the device's, between events of the graph: uploads count to the
    /// first, the download of the results to the last. What the host does before the launch and
    /// after the wait is in the frame's time alone.
    fn run(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        match self.launch(slot, laps).map_err(failed)? {
            true => {
                self.meanwhile(0, slot, laps);
                self.collect(slot, laps).map_err(failed)
            }
            false => Ok(()),
        }
    }

    fn start(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        self.launch(slot, laps).map_err(failed)
    }

    fn meanwhile(&mut self, _unit: usize, slot: &mut Slot, _laps: &Laps<'_>) {
        if let Some(mut slot) = slot.street() {
            self.pass_through(&mut slot);
        }
    }

    fn wait(
        &mut self,
        _unit: usize,
        until: Timestamp,
        laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        wait_until(&self.stream, until, laps).map_err(failed)
    }

    fn finish(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        self.collect(slot, laps).map_err(failed)
    }

    fn withdraw(&mut self, _unit: usize, _slot: &mut Slot) {
        // No unit of this backend is optional.
    }

    /// As [`super::CpuBackend`]'s; some bytes come from the device.
    fn save(&self, to: &mut Vec<u8>) -> bool {
        let length = to.len();
        let saved = sections::write(to, StageId::Road, |to| self.road.save(&self.stream, to));
        if let Err(e) = &saved {
            log::error!("what the stages have learnt stays on the device: {e}");
            to.truncate(length);
        }
        saved.is_ok()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        sections::read(state, StageId::Road, |from| {
            self.road.load(&self.stream, from)
        })
    }
}
