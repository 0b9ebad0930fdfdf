//! The stereo chain on CUDA: all that a frame needs as one graph. Uploads from page-locked memory,
//! rectification, stereo, road, stixels, downloads: one launch, one wait, no step of the host in
//! between. What a stage hands to the next stays on the device.
//!
//! A side branch of the graph carries what no stage waits for: pictures for the sinks, and the
//! disparity on its way to the host.
use std::{cell::Cell, rc::Rc};

use crate::{
    calib::Rectification,
    config::Config,
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, Event, GpuError, GraphExec, Pinned, Priority,
        Stream,
    },
    frame::{
        Camera, Gap, INVALID, Image, Mask, RoadOrigin, Size, StereoFrame, Stixels, Street,
        Timestamp,
    },
    stage::{
        rectify::{self, Rectified},
        road::{self, cuda::Road},
        state::StateError,
        stereo, stixel,
    },
};

use super::{
    Backend, BackendError, ChainError, Laps, Shape, Slot, StageId, Unit, backend::sections,
    cpu::invalidate, slot::StreetSlot,
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

/// Page-locked memory; what is written by the host and what by the device lies apart.
struct HostMemory {
    /// Left, then right; or left alone.
    grey: Option<Pinned<u8>>,
    rgb: Option<Pinned<u8>>,
    stored: Option<Pinned<u16>>,
    /// The stixels' words, then the road.
    results: Pinned<u8>,
    words: Pinned<u64>,
    road: Pinned<Road>,
    disparity: Option<Pinned<u16>>,
    left: Option<Pinned<u8>>,
    left_rgb: Option<Pinned<u8>>,
}

/// The same on the device.
struct DeviceMemory {
    raw: Option<DeviceBuffer<u8>>,
    raw_rgb: Option<DeviceBuffer<u8>>,
    /// Left, then right; where images are rectified already, `raw`.
    grey: Option<DeviceBuffer<u8>>,
    /// Where images are rectified already, `raw_rgb`.
    rgb: Option<DeviceBuffer<u8>>,
    disparity: DeviceBuffer<u16>,
    results: DeviceBuffer<u8>,
    words: DeviceBuffer<u64>,
    road: DeviceBuffer<Road>,
}

struct Stages {
    rectify: rectify::cuda::Plan,
    stereo: Option<stereo::cuda::Plan>,
    road: road::cuda::Plan,
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

/// A graph that was launched, for what follows it on the device.
#[derive(Clone)]
pub(super) struct Launched {
    /// Behind all its work.
    done: Rc<Event>,
    /// Where its work begins, where the time is taken.
    begin: Option<Rc<Event>>,
    /// When the host began with it.
    staged: Rc<Cell<Timestamp>>,
    /// When it was launched.
    at: Rc<Cell<Timestamp>>,
}

impl Launched {
    /// What to wait for behind it.
    pub fn done(&self) -> &Event {
        &self.done
    }

    /// When, by the host's clock, an event took place that lies behind the graph; without times,
    /// when the graph was launched.
    pub fn instant_of(&self, event: &Event) -> Result<Timestamp, GpuError> {
        let at = self.at.get();
        match &self.begin {
            Some(begin) => Ok(at.plus_ns(nanoseconds(event.microseconds_since(begin)?))),
            None => Ok(at),
        }
    }
}

pub(super) fn nanoseconds(us: f32) -> u64 {
    (f64::from(us) * 1000.0) as u64
}

fn failed(e: GpuError) -> BackendError {
    BackendError {
        backend: "cuda",
        message: e.to_string(),
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

/// All that is recorded into the graph.
struct Recording<'a> {
    stages: &'a Stages,
    stixel: &'a stixel::cuda::Plan,
    host: &'a HostMemory,
    device: &'a DeviceMemory,
    marks: &'a [Rc<Event>],
    side: &'a Stream,
    order: &'a Event,
    size: Size,
}

impl Recording<'_> {
    fn record(&self, main: &Stream) -> Result<(), GpuError> {
        let (host, device) = (self.host, self.device);
        let mut marks = self.marks.iter();
        let mut mark = || match marks.next() {
            Some(event) => main.record_in_graph(event),
            None => Ok(()),
        };
        mark()?;
        let mut branched = false;
        if let (Some(from), Some(raw), Some(out)) = (&host.rgb, &device.raw_rgb, &device.rgb) {
            self.branch(main, &mut branched)?;
            self.side.copy_to_device(from, raw)?;
            if !self.stages.rectify.is_identity() {
                self.stages.rectify.enqueue_rgb(self.side, raw, out)?;
            }
            if let Some(to) = &host.left_rgb {
                self.side.copy_to_host(out, to)?;
            }
        }

        if let Some(stored) = &host.stored {
            main.copy_to_device(stored, &device.disparity)?;
            self.stages.rectify.enqueue_mask(main, &device.disparity)?;
        }
        if let (Some(from), Some(raw), Some(out)) = (&host.grey, &device.raw, &device.grey) {
            main.copy_to_device(from, raw)?;
            if !self.stages.rectify.is_identity() {
                let (raw_left, raw_right) = self.halves(raw)?;
                let (left, right) = self.halves(out)?;
                let right = raw_right.as_ref().zip(right.as_ref());
                self.stages
                    .rectify
                    .enqueue(main, (&raw_left, &left), right)?;
                if let Some(to) = &host.left {
                    self.branch(main, &mut branched)?;
                    self.side.copy_to_host(&left, to)?;
                }
            }
        }
        mark()?;
        if let (Some(stereo), Some(grey)) = (&self.stages.stereo, &device.grey) {
            if let (left, Some(right)) = self.halves(grey)? {
                stereo.enqueue(main, &left, &right, &device.disparity)?;
            }
            if let Some(to) = &host.disparity {
                self.branch(main, &mut branched)?;
                self.side.copy_to_host(&device.disparity, to)?;
            }
            mark()?;
        }
        self.stages
            .road
            .enqueue(main, &device.disparity, &device.road)?;
        mark()?;
        self.stixel.enqueue(
            main,
            &device.disparity,
            self.size.width,
            &device.road.view()?,
            &device.words,
        )?;
        main.copy_to_host(&device.results, &host.results)?;
        mark()?;
        if branched {
            self.side.record(self.order)?;
            main.wait(self.order)?;
        }
        Ok(())
    }

    /// What the side stream is given from here on waits for the main stream so far.
    fn branch(&self, main: &Stream, branched: &mut bool) -> Result<(), GpuError> {
        *branched = true;
        main.record(self.order)?;
        self.side.wait(self.order)
    }

    /// The left image and, where there is one, the right one.
    fn halves(
        &self,
        images: &DeviceBuffer<u8>,
    ) -> Result<(DeviceBuffer<u8>, Option<DeviceBuffer<u8>>), GpuError> {
        let area = self.size.area();
        let right = (images.len() > area).then(|| images.slice(area..2 * area));
        Ok((images.slice(0..area)?, right.transpose()?))
    }
}

fn device_memory(
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

fn host_memory(
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

/// An image's rows one after the other.
fn pack<T: Copy>(image: &Image<T>, to: &mut [T]) {
    for (row, to) in image.rows().zip(to.chunks_exact_mut(image.width().max(1))) {
        to.copy_from_slice(row);
    }
}

pub(super) fn unpack<T: Copy>(from: &[T], image: &mut Image<T>) {
    let width = image.width().max(1);
    for (row, from) in image.rows_mut().zip(from.chunks_exact(width)) {
        row.copy_from_slice(from);
    }
}

impl From<rectify::cuda::PlanError> for ChainError {
    fn from(e: rectify::cuda::PlanError) -> Self {
        match e {
            rectify::cuda::PlanError::Rectify(e) => e.into(),
            rectify::cuda::PlanError::Gpu(e) => e.in_stage("rectify").into(),
        }
    }
}

impl From<stereo::cuda::Error> for ChainError {
    fn from(e: stereo::cuda::Error) -> Self {
        match e {
            stereo::cuda::Error::Params(e) => e.into(),
            stereo::cuda::Error::Gpu(e) => e.in_stage("stereo").into(),
        }
    }
}

impl From<road::cuda::PlanError> for ChainError {
    fn from(e: road::cuda::PlanError) -> Self {
        match e {
            road::cuda::PlanError::Params(e) => e.into(),
            road::cuda::PlanError::Gpu(e) => e.in_stage("road").into(),
        }
    }
}

impl From<stixel::cuda::PlanError> for ChainError {
    fn from(e: stixel::cuda::PlanError) -> Self {
        match e {
            stixel::cuda::PlanError::Params(e) => e.into(),
            stixel::cuda::PlanError::Gpu(e) => e.in_stage("stixel").into(),
        }
    }
}
