//! The mono chain on CUDA: one graph for egomotion and foreground, one for the logos' features and
//! their matches; what the logos' tracker does with those is the host's.
//!
//! The picture goes to the device once for each of the two graphs: which of them runs on a frame
//! is decided frame by frame. Nothing else goes there, and only results come back.
use std::{rc::Rc, sync::Arc};

use crate::{
    config::Config,
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, Event, GpuError, GraphExec, Pinned, Priority,
        Stream,
    },
    frame::{FrameResult, Image, Logos, Mask, MonoImage, Size, Timestamp},
    stage::{
        Stage as _,
        device::Motion,
        egomotion,
        foreground::{self, SnapshotError, cuda::RestoreError},
        logo::{
            self, Follower, Templates,
            features::{
                self, Mode,
                cuda::{Counts, MAX_KEYPOINTS, Match, Matcher, Train},
                matcher,
            },
        },
        state::StateError,
    },
};

use super::{
    Backend, BackendError, ChainError, Laps, MonoShape, Slot, StageId, Unit,
    backend::sections,
    cuda::nanoseconds,
    mono::{LOGO, STILL, on_picture, pass_by, withdraw},
};

/// What stands before the picture on its way to the device, so that the picture is aligned.
const HEAD: usize = 16;
/// What stands before the mask on its way back: the motion, then the verdict.
const RESULT_HEAD: usize = 64;
const VERDICT: usize = 48;
/// Most bits in which two descriptors differ; more means that there is no second.
const MAX_DISTANCE: u32 = 256;

/// The stages that read the mono image, as [`super::CpuMono`] and with its results.
///
/// What the kernels do not do (`logo.features.mode = "paper"`, more keypoints than they have room
/// for) is done on the CPU.
pub struct CudaMono {
    still: Option<Still>,
    logo: Option<Logo>,
    units: Vec<Unit>,
    device_bytes: u64,
}

enum Logo {
    Device(Box<Marks>),
    Host(Box<logo::cpu::Plan>),
}

impl CudaMono {
    /// Takes all memory that the stages need and records the graphs.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver, or over a memory limit of the context.
    pub fn new(context: &Context, config: &Config, shape: &MonoShape) -> Result<Self, ChainError> {
        let (mut units, mut device_bytes) = (Vec::new(), 0);
        let mut still = None;
        if shape.foreground {
            let made = Still::new(context, config, shape)?;
            device_bytes += made.device_bytes;
            still = Some(made);
            units.push(STILL);
        }
        let mut logo = None;
        if let Some(templates) = &shape.logos {
            let templates = Arc::clone(templates);
            let (params, size) = (&config.logo, shape.size);
            let mask = shape.mask.as_ref();
            let features = &params.features;
            let on_host = features.mode == Mode::Paper || features.max_keypoints > MAX_KEYPOINTS;
            logo = Some(if on_host {
                log::info!("logos are looked for on the CPU: the GPU has not this mode");
                let plan = logo::cpu::Plan::with_mask(params, templates, shape.kind, size, mask)?;
                Logo::Host(Box::new(plan))
            } else {
                let made = Marks::new(context, params, templates, size, mask)?;
                device_bytes += made.device_bytes;
                Logo::Device(Box::new(made))
            });
            units.push(LOGO);
        }
        Ok(Self {
            still,
            logo,
            units,
            device_bytes,
        })
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    fn save_all(&self, to: &mut Vec<u8>) -> Result<(), GpuError> {
        if let Some(still) = &self.still {
            sections::write(to, StageId::Egomotion, |to| {
                still.egomotion.save(&still.stream, to)
            })?;
            sections::write(to, StageId::Foreground, |to| {
                still.foreground.save(&still.stream, to)
            })?;
        }
        match &self.logo {
            Some(Logo::Device(marks)) => sections::write(to, StageId::Logo, |to| {
                marks.follower.save(to);
                Ok(())
            }),
            Some(Logo::Host(plan)) => {
                sections::save(to, StageId::Logo, plan.as_ref());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sends the picture to the device and launches the unit's graph. False where that can't be
    /// done ahead.
    fn launch(
        &mut self,
        unit: Unit,
        image: &MonoImage,
        speed_mps: Option<f32>,
        laps: &Laps<'_>,
    ) -> Result<bool, GpuError> {
        match (unit == STILL, &mut self.still, &mut self.logo) {
            (true, Some(still), _) => still.launch(image, speed_mps, laps)?,
            (false, _, Some(Logo::Device(marks))) => marks.launch(image, laps)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What the logos' tracker does while the device looks for features.
    fn follow(&mut self, unit: Unit, laps: &Laps<'_>) {
        if let (true, Some(Logo::Device(marks))) = (unit == LOGO, &mut self.logo) {
            marks.follow(laps);
        }
    }

    /// Waits for what was launched, and does the rest.
    fn collect(
        &mut self,
        unit: Unit,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) -> Result<(), GpuError> {
        match (unit == STILL, &mut self.still, &mut self.logo) {
            (true, Some(still), _) => still.collect(result, laps),
            (false, _, Some(Logo::Device(marks))) => match &mut result.logos {
                Some(logos) => marks.collect(logos, laps),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn compute(
        &mut self,
        unit: Unit,
        image: &MonoImage,
        speed_mps: Option<f32>,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) -> Result<(), GpuError> {
        if self.launch(unit, image, speed_mps, laps)? {
            self.follow(unit, laps);
            return self.collect(unit, result, laps);
        }
        let from = laps.now();
        if let (Some(Logo::Host(plan)), Some(logos)) = (&mut self.logo, &mut result.logos) {
            plan.run(logo::Input { image }, logos);
        }
        laps.lap(StageId::Logo, from);
        Ok(())
    }
}

fn failed(e: GpuError) -> BackendError {
    BackendError {
        backend: "cuda",
        message: e.to_string(),
    }
}

impl Backend for CudaMono {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The times of egomotion and foreground are the device's, between events of the graph: the
    /// picture's way there counts to the first, the mask's way back to the second. That of the
    /// logos is the device's, and what the host does before and after.
    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let this = self.units[unit];
        match on_picture(slot, |image, speed, result| {
            self.compute(this, image, speed, result, laps)
        }) {
            Some(outcome) => outcome.map_err(failed),
            None => {
                pass_by(this, slot, laps);
                Ok(())
            }
        }
    }

    /// Only with a picture of the mono camera's: the left one in its place is not there before the
    /// stereo chain is done.
    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let this = self.units[unit];
        let mono = slot.set.mono.as_ref();
        match mono.and_then(|mono| mono.usable()) {
            Some(image) => self
                .launch(this, image, slot.set.speed_mps, laps)
                .map_err(failed),
            None => Ok(false),
        }
    }

    fn meanwhile(&mut self, unit: usize, _slot: &mut Slot, laps: &Laps<'_>) {
        self.follow(self.units[unit], laps);
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let this = self.units[unit];
        self.collect(this, &mut slot.result, laps).map_err(failed)
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        withdraw(self.units[unit], slot);
    }

    /// Where the device fails, its next frame says so too: here the background is learnt afresh.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        match self.still.as_mut().map(|still| still.restore(snapshot)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(RestoreError::Snapshot(reason))) => Err(reason),
            Some(Err(RestoreError::Gpu(e))) => {
                log::error!("foreground.snapshot: {e}");
                Ok(())
            }
        }
    }

    /// Where the device fails, nothing: what is known from earlier runs stays as it is.
    fn snapshot(&self) -> Option<Vec<u8>> {
        let taken = self.still.as_ref()?.snapshot();
        taken
            .inspect_err(|e| log::error!("foreground.snapshot: {e}"))
            .ok()
    }

    /// As [`super::CpuMono`]'s. The model of the background comes from the device: milliseconds,
    /// for the one frame that a recording's next file begins with.
    fn save(&self, to: &mut Vec<u8>) -> bool {
        let length = to.len();
        let saved = self.save_all(to);
        if let Err(e) = &saved {
            log::error!("what the stages have learnt stays on the device: {e}");
            to.truncate(length);
        }
        saved.is_ok()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        if let Some(still) = &self.still {
            sections::read(state, StageId::Egomotion, |from| {
                still.egomotion.load(&still.stream, from)
            })?;
            sections::read(state, StageId::Foreground, |from| {
                still.foreground.load(&still.stream, from)
            })?;
        }
        match &mut self.logo {
            Some(Logo::Device(marks)) => {
                sections::read(state, StageId::Logo, |from| marks.follower.load(from))
            }
            Some(Logo::Host(plan)) => sections::load(state, StageId::Logo, plan.as_mut()),
            None => Ok(()),
        }
    }
}

/// Egomotion, then foreground.
struct Still {
    graph: GraphExec,
    stream: Stream,
    egomotion: egomotion::cuda::Plan,
    foreground: foreground::cuda::Plan,
    /// Not a number where the speed is not known.
    speed: Pinned<f32>,
    picture: Pinned<u8>,
    motion: Pinned<Motion>,
    verdict: Pinned<u32>,
    mask: Pinned<u8>,
    /// Before the picture's upload, behind the egomotion, behind the mask's download.
    marks: [Rc<Event>; 3],
    launched: Timestamp,
    device_bytes: u64,
}

impl Still {
    fn new(context: &Context, config: &Config, shape: &MonoShape) -> Result<Self, ChainError> {
        let MonoShape { kind, size, .. } = *shape;
        let mask = shape.mask.as_ref();
        let egomotion =
            egomotion::cuda::Plan::with_mask(context, &config.egomotion, kind, size, mask)?;
        let foreground =
            foreground::cuda::Plan::with_mask(context, &config.foreground, kind, size, mask)?;
        let area = size.area();
        let bytes = area * egomotion::cuda::bytes_a_pixel(kind);
        let mut layout = ArenaLayout::new();
        let input = layout.reserve::<u8>("mono picture", HEAD + bytes);
        let output = layout.reserve::<u8>("foreground mask", RESULT_HEAD + area);
        let own_bytes = layout.bytes();
        let arena = Arena::new(context, "mono", layout)?;
        let (input, output) = (arena.buffer(input)?, arena.buffer(output)?);
        let host_input = Pinned::<u8>::new(context, "mono picture", HEAD + bytes)?;
        let host_output = Pinned::<u8>::new(context, "foreground mask", RESULT_HEAD + area)?;

        let speed: DeviceBuffer<f32> = input.slice(0..4)?.view()?;
        let picture = input.slice(HEAD..input.len())?;
        let motion: DeviceBuffer<Motion> = output.slice(0..size_of::<Motion>())?.view()?;
        let verdict: DeviceBuffer<u32> = output.slice(VERDICT..VERDICT + 4)?.view()?;
        let mask = output.slice(RESULT_HEAD..output.len())?;

        let stream = Stream::new(context, Priority::Normal)?;
        // What lies between the results comes back with them, and is never looked at.
        stream.fill(&output, 0u8)?;
        let marks = [
            Rc::new(Event::new(context)?),
            Rc::new(Event::new(context)?),
            Rc::new(Event::new(context)?),
        ];
        let graph = stream
            .capture::<GpuError>(|stream| {
                stream.record_in_graph(&marks[0])?;
                stream.copy_to_device(&host_input, &input)?;
                egomotion.enqueue(stream, &picture, Some(&speed), &motion)?;
                stream.record_in_graph(&marks[1])?;
                foreground.enqueue(
                    stream,
                    foreground::cuda::Buffers {
                        image: &picture,
                        motion: &motion,
                        known_foreground: None,
                        mask: &mask,
                        verdict: &verdict,
                    },
                )?;
                stream.copy_to_host(&output, &host_output)?;
                stream.record_in_graph(&marks[2])
            })?
            .instantiate()?;
        graph.upload(&stream)?;
        stream.synchronize()?;
        Ok(Self {
            device_bytes: own_bytes + egomotion.device_bytes() + foreground.device_bytes(),
            graph,
            stream,
            egomotion,
            foreground,
            speed: host_input.slice(0..4)?.view()?,
            picture: host_input.slice(HEAD..host_input.len())?,
            motion: host_output.slice(0..size_of::<Motion>())?.view()?,
            verdict: host_output.slice(VERDICT..VERDICT + 4)?.view()?,
            mask: host_output.slice(RESULT_HEAD..host_output.len())?,
            marks,
            launched: Timestamp::default(),
        })
    }

    fn launch(
        &mut self,
        image: &MonoImage,
        speed_mps: Option<f32>,
        laps: &Laps<'_>,
    ) -> Result<(), GpuError> {
        self.speed.write()?[0] = speed_mps.unwrap_or(f32::NAN);
        pack(image, &mut self.picture.write()?);
        self.launched = laps.now();
        self.graph.launch(&self.stream)
    }

    fn collect(&mut self, result: &mut FrameResult, laps: &mut Laps<'_>) -> Result<(), GpuError> {
        self.stream.synchronize()?;
        laps.arrived();
        let (Some(motion), Some(foreground)) = (&mut result.motion, &mut result.foreground) else {
            return Ok(());
        };
        *motion = self.motion.read()?[0].into();
        foreground.state = foreground::cuda::state_of(self.verdict.read()?[0]);
        rows(&self.mask.read()?, &mut foreground.mask);
        let mut start = self.launched;
        for (stage, mark) in STILL.stages.iter().zip(self.marks.windows(2)) {
            let duration = nanoseconds(mark[1].microseconds_since(&mark[0])?);
            laps.note(*stage, start, duration);
            start = start.plus_ns(duration);
        }
        Ok(())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.foreground.restore(&self.stream, snapshot)
    }

    fn snapshot(&self) -> Result<Vec<u8>, GpuError> {
        self.foreground.snapshot(&self.stream)
    }
}

/// The logos' features and matches on the device, the rest on the host.
struct Marks {
    graph: GraphExec,
    stream: Stream,
    follower: Follower,
    /// What the graph uses.
    _features: features::cuda::Plan,
    _matcher: Matcher,
    picture: Pinned<u8>,
    counts: Pinned<Counts>,
    keypoints: Pinned<features::cuda::Keypoint>,
    /// As many for each template as there may be keypoints.
    matches: Pinned<Match>,
    found: Vec<features::Keypoint>,
    found_matches: Vec<Vec<matcher::Match>>,
    capacity: usize,
    /// Around the graph's work.
    marks: [Rc<Event>; 2],
    launched: Timestamp,
    /// What the host took for it until its features are waited for.
    host_ns: u64,
    device_bytes: u64,
}

impl Marks {
    fn new(
        context: &Context,
        params: &logo::Params,
        templates: Arc<Templates>,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, ChainError> {
        let follower = Follower::with_mask(params, Arc::clone(&templates), size, mask)?;
        let features = features::cuda::Plan::with_mask(context, &params.features, size, mask)?;
        let gpu = |e: GpuError| ChainError::from(e.in_stage("logo"));
        let matcher = Matcher::new(context).map_err(gpu)?;
        let list = templates.list();
        let capacity = features.found().keypoints.len();

        let mut layout = ArenaLayout::new();
        let picture = layout.reserve::<u8>("logo picture", size.area());
        let matches = layout.reserve::<Match>("logo matches", list.len() * capacity);
        let trains: Vec<_> = list
            .iter()
            .map(|template| {
                let n = template.descriptors().len();
                (
                    layout.reserve::<[u32; 8]>("logo template", n),
                    layout.reserve::<u32>("logo template's points", n),
                    layout.reserve::<u32>("logo template's size", 1),
                )
            })
            .collect();
        let own_bytes = layout.bytes();
        let arena = Arena::new(context, "logo templates", layout).map_err(gpu)?;
        let stream = Stream::new(context, Priority::Normal)?;
        let picture = arena.buffer(picture)?;
        let matches = arena.buffer(matches)?;
        let mut on_device = Vec::new();
        for (template, (descriptors, groups, count)) in list.iter().zip(trains) {
            let words: Vec<[u32; 8]> = template.descriptors().iter().map(|d| d.0).collect();
            let buffers = (
                arena.buffer(descriptors)?,
                arena.buffer(groups)?,
                arena.buffer(count)?,
            );
            stream.upload(&words, &buffers.0)?;
            stream.upload(template.groups(), &buffers.1)?;
            stream.upload(&[words.len() as u32], &buffers.2)?;
            on_device.push(buffers);
        }

        let host_picture = Pinned::<u8>::new(context, "logo picture", size.area())?;
        let host_counts = Pinned::<Counts>::new(context, "logo counts", 1)?;
        let host_keypoints = Pinned::new(context, "logo keypoints", capacity)?;
        let host_matches = Pinned::<Match>::new(context, "logo matches", matches.len())?;
        // What lies behind the ends of lists is copied with them, and never looked at.
        stream.fill(&matches.view::<u32>()?, 0u32)?;
        stream.fill(&features.found().keypoints.view::<u32>()?, 0u32)?;
        let marks = [Rc::new(Event::new(context)?), Rc::new(Event::new(context)?)];
        let graph = stream
            .capture::<GpuError>(|stream| {
                stream.record_in_graph(&marks[0])?;
                stream.copy_to_device(&host_picture, &picture)?;
                features.enqueue(stream, &picture)?;
                let found = features.found();
                let mut lists = Vec::new();
                for (i, (descriptors, groups, count)) in on_device.iter().enumerate() {
                    // With fewer there is no second to compare with.
                    if descriptors.len() < 2 {
                        continue;
                    }
                    let train = Train {
                        descriptors,
                        count,
                        groups: Some(groups),
                    };
                    lists.push((train, matches.slice(i * capacity..(i + 1) * capacity)?));
                }
                let lists: Vec<_> = lists.iter().map(|(train, out)| (*train, out)).collect();
                matcher.enqueue_all(stream, found, &lists)?;
                stream.copy_to_host(&found.counts, &host_counts)?;
                stream.copy_to_host(&found.keypoints, &host_keypoints)?;
                stream.copy_to_host(&matches, &host_matches)?;
                stream.record_in_graph(&marks[1])
            })?
            .instantiate()?;
        graph.upload(&stream)?;
        stream.synchronize()?;
        Ok(Self {
            device_bytes: own_bytes + features.device_bytes(),
            found: Vec::with_capacity(capacity),
            found_matches: vec![Vec::with_capacity(capacity); list.len()],
            graph,
            stream,
            follower,
            _features: features,
            _matcher: matcher,
            picture: host_picture,
            counts: host_counts,
            keypoints: host_keypoints,
            matches: host_matches,
            capacity,
            marks,
            launched: Timestamp::default(),
            host_ns: 0,
        })
    }

    fn launch(&mut self, image: &MonoImage, laps: &Laps<'_>) -> Result<(), GpuError> {
        let from = laps.now();
        bytes(self.follower.grey(image), &mut self.picture.write()?);
        self.launched = laps.now();
        self.host_ns = self.launched.since(from);
        self.graph.launch(&self.stream)
    }

    fn follow(&mut self, laps: &Laps<'_>) {
        let from = laps.now();
        self.follower.follow();
        self.host_ns += laps.now().since(from);
    }

    fn collect(&mut self, logos: &mut Logos, laps: &mut Laps<'_>) -> Result<(), GpuError> {
        self.stream.synchronize()?;
        let arrived = laps.now();
        let n = (self.counts.read()?[0].count as usize).min(self.capacity);
        self.found.clear();
        let keypoints = self.keypoints.read()?;
        self.found
            .extend(keypoints[..n].iter().map(|&k| features::Keypoint::from(k)));
        let matches = self.matches.read()?;
        let list = self.follower.templates().list();
        for (i, (template, out)) in list.iter().zip(&mut self.found_matches).enumerate() {
            out.clear();
            if template.descriptors().len() < 2 {
                continue;
            }
            let of_template = &matches[i * self.capacity..][..n];
            out.extend((0u32..).zip(of_template).filter_map(of_device));
        }
        self.follower
            .settle(&self.found, &self.found_matches, logos);
        let device = nanoseconds(self.marks[1].microseconds_since(&self.marks[0])?);
        let duration = self.host_ns + device + laps.now().since(arrived);
        laps.note(StageId::Logo, self.launched, duration);
        laps.took(duration);
        Ok(())
    }
}

/// A match as the follower wants it; `None` where the device says that there is none.
fn of_device((query, found): (u32, &Match)) -> Option<matcher::Match> {
    (found.second_distance <= MAX_DISTANCE).then_some(matcher::Match {
        query,
        train: found.train,
        distance: found.distance,
        second: found.second,
        second_distance: found.second_distance,
    })
}

/// A picture's bytes, row after row, as the kernels read them.
fn pack(image: &MonoImage, to: &mut [u8]) {
    match image {
        MonoImage::Grey8(image) => bytes(image, to),
        MonoImage::Grey16(image) => {
            let mut to = to.as_chunks_mut::<2>().0.iter_mut();
            for row in image.rows() {
                for (pixel, to) in row.iter().zip(&mut to) {
                    *to = pixel.to_le_bytes();
                }
            }
        }
        MonoImage::Rgb8(image) => bytes(image, to.as_chunks_mut::<3>().0),
    }
}

fn bytes<T: Copy>(image: &Image<T>, to: &mut [T]) {
    for (row, to) in image.rows().zip(to.chunks_exact_mut(image.width().max(1))) {
        to.copy_from_slice(row);
    }
}

fn rows(from: &[u8], image: &mut Image<u8>) {
    let width = image.width().max(1);
    for (row, from) in image.rows_mut().zip(from.chunks_exact(width)) {
        row.copy_from_slice(from);
    }
}

impl From<egomotion::cuda::PlanError> for ChainError {
    fn from(e: egomotion::cuda::PlanError) -> Self {
        match e {
            egomotion::cuda::PlanError::Params(e) => e.into(),
            egomotion::cuda::PlanError::Gpu(e) => e.in_stage("egomotion").into(),
        }
    }
}

impl From<foreground::cuda::PlanError> for ChainError {
    fn from(e: foreground::cuda::PlanError) -> Self {
        match e {
            foreground::cuda::PlanError::Params(e) => e.into(),
            foreground::cuda::PlanError::Gpu(e) => e.in_stage("foreground").into(),
        }
    }
}

impl From<features::cuda::PlanError> for ChainError {
    fn from(e: features::cuda::PlanError) -> Self {
        use features::cuda::PlanError;
        match e {
            PlanError::Params(e) => logo::ParamsError::from(e).into(),
            PlanError::Gpu(e) => e.in_stage("logo").into(),
            PlanError::CpuOnly { key, found, .. } => GpuError::Unsupported {
                what: key,
                found,
                expected: "what is computed on the GPU",
            }
            .in_stage("logo")
            .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_packed_as_the_kernels_read_them() {
        let mut grey = Image::with_stride(2, 2, 5, 9u16);
        grey.set(0, 0, 0x1234);
        grey.set(1, 1, 0xabcd);
        let mut to = [7; 9];
        pack(&MonoImage::Grey16(grey), &mut to[..8]);
        assert_eq!(to, [0x34, 0x12, 9, 0, 9, 0, 0xcd, 0xab, 7]);
        let colour = Image::from_fn(2, 1, |x, _| [x as u8, 5, 6]);
        let mut to = [0; 6];
        pack(&MonoImage::Rgb8(colour), &mut to);
        assert_eq!(to, [0, 5, 6, 1, 5, 6]);
    }

    #[test]
    fn a_query_without_a_second_neighbour_has_no_match() {
        let found = |second_distance| Match {
            train: 3,
            distance: 7,
            second: 5,
            second_distance,
        };
        assert_eq!(of_device((4, &found(257))), None);
        assert_eq!(of_device((4, &found(256))).unwrap().query, 4);
    }
}
