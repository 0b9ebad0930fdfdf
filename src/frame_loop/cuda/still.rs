//! Egomotion and foreground as one graph.
use std::rc::Rc;

use crate::{
    config::Config,
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, Event, GpuError, GraphExec, Pinned, Priority,
        Stream,
    },
    frame::{FrameResult, MonoImage, Timestamp},
    frame_loop::{ChainError, Laps, MonoShape, mono::STILL},
    stage::{
        device::Motion,
        egomotion,
        foreground::{self, cuda::RestoreError},
    },
};

use super::{
    launched::nanoseconds,
    pixels::{pack_mono, unpack},
};

/// What stands before the picture on its way to the device, so that the picture is aligned.
const HEAD: usize = 16;
/// What stands before the mask on its way back: the motion, then the verdict.
const RESULT_HEAD: usize = 64;
const VERDICT: usize = 48;

/// Egomotion, then foreground.
pub(super) struct Still {
    graph: GraphExec,
    pub stream: Stream,
    pub egomotion: egomotion::cuda::Plan,
    pub foreground: foreground::cuda::Plan,
    /// Not a number where the speed is not known.
    speed: Pinned<f32>,
    picture: Pinned<u8>,
    motion: Pinned<Motion>,
    verdict: Pinned<u32>,
    mask: Pinned<u8>,
    /// Before the picture's upload, behind the egomotion, behind the mask's download.
    marks: [Rc<Event>; 3],
    launched: Timestamp,
    pub device_bytes: u64,
}

impl Still {
    pub fn new(context: &Context, config: &Config, shape: &MonoShape) -> Result<Self, ChainError> {
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

    pub fn launch(
        &mut self,
        image: &MonoImage,
        speed_mps: Option<f32>,
        laps: &Laps<'_>,
    ) -> Result<(), GpuError> {
        self.speed.write()?[0] = speed_mps.unwrap_or(f32::NAN);
        pack_mono(image, &mut self.picture.write()?);
        self.launched = laps.now();
        self.graph.launch(&self.stream)
    }

    pub fn collect(
        &mut self,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) -> Result<(), GpuError> {
        self.stream.synchronize()?;
        laps.arrived();
        let (Some(motion), Some(foreground)) = (&mut result.motion, &mut result.foreground) else {
            return Ok(());
        };
        *motion = self.motion.read()?[0].into();
        foreground.state = foreground::cuda::state_of(self.verdict.read()?[0]);
        unpack(&self.mask.read()?, &mut foreground.mask);
        let mut start = self.launched;
        for (stage, mark) in STILL.stages.iter().zip(self.marks.windows(2)) {
            let duration = nanoseconds(mark[1].microseconds_since(&mark[0])?);
            laps.note(*stage, start, duration);
            start = start.plus_ns(duration);
        }
        Ok(())
    }

    pub fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.foreground.restore(&self.stream, snapshot)
    }

    pub fn snapshot(&self) -> Result<Vec<u8>, GpuError> {
        self.foreground.snapshot(&self.stream)
    }
}
