//! Labels on CUDA: the forest as one graph behind the stereo chain's. It reads what that has left
//! on the device, so that nothing goes there, and only labels come back.
use std::rc::Rc;

use crate::{
    config::Config,
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, Event, GpuError, GraphExec, Pinned, Priority,
        Stream,
    },
    frame::{LabelState, Labels, Timestamp},
    frame_loop::{
        Backend, BackendError, ChainError, LabelShape, Laps, Slot, StageId, Unit,
        labels::{UNITS, withdraw},
    },
    stage::{
        forest::cuda::{Depth, Outputs, Plan},
        state::StateError,
    },
};

use super::{
    CudaBackend,
    errors::failed,
    launched::{Launched, nanoseconds, wait_until},
    pixels::unpack,
};

/// The forest's plan, as [`super::CpuLabels`] and with its results.
pub struct CudaLabels {
    graph: GraphExec,
    stream: Stream,
    /// Alive for as long as the graph uses its memory.
    _plan: Plan,
    labels: Pinned<u8>,
    confidence: Pinned<u16>,
    posteriors: Option<Pinned<u16>>,
    /// Before the first kernel, and behind the labels' way back.
    marks: [Rc<Event>; 2],
    /// Where it begins in a frame that it was launched on behind the chain.
    street: Launched,
    device_bytes: u64,
}

impl CudaLabels {
    /// Takes all memory that the stage needs and records the graph. `street` is what computes
    /// before it on the same frames; it keeps the left image ([`super::Wanted::left`]) in colour
    /// where [`LabelShape::reads_colour`], else in grey.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver, or over a memory limit of the context.
    pub fn new(
        context: &Context,
        config: &Config,
        shape: &LabelShape,
        street: &CudaBackend,
    ) -> Result<Self, ChainError> {
        shape.check()?;
        let params = &config.forest;
        let colour = shape.reads_colour();
        let camera = Some(&shape.camera);
        let plan = Plan::new(context, &shape.forest, params, shape.size, camera, colour)?;
        let gpu = |e: GpuError| ChainError::from(e.in_stage("forest"));
        let Some(left) = street.left() else {
            return Err(gpu(GpuError::Unsupported {
                what: "labels behind the stereo chain",
                found: "no left image on the device".into(),
                expected: "a chain that keeps it there",
            }));
        };
        let cells = plan.grid().area();
        let classes = shape.forest.meta.classes.len();
        let places = Places::new(cells, if params.posteriors { classes } else { 0 });
        let mut layout = ArenaLayout::new();
        let results = layout.reserve::<u8>("labels", places.bytes);
        let own_bytes = layout.bytes();
        let arena = Arena::new(context, "labels", layout).map_err(gpu)?;
        let results = arena.buffer(results)?;
        let host = Pinned::<u8>::new(context, "labels", places.bytes).map_err(gpu)?;
        let labels = results.slice(places.labels())?;
        let confidence: DeviceBuffer<u16> = results.slice(places.confidence())?.view()?;
        let posteriors = params
            .posteriors
            .then(|| results.slice(places.posteriors()));
        let posteriors = posteriors
            .transpose()?
            .map(|p| p.view::<u16>())
            .transpose()?;

        let stream = Stream::new(context, Priority::Normal)?;
        let marks = [Rc::new(Event::new(context)?), Rc::new(Event::new(context)?)];
        let outputs = Outputs {
            labels: &labels,
            confidence: &confidence,
            posteriors: posteriors.as_ref(),
        };
        let graph = stream
            .capture::<GpuError>(|stream| {
                stream.record_in_graph(&marks[0])?;
                let depth = Depth::Disparity(street.disparity());
                plan.enqueue(stream, left, depth, outputs)?;
                stream.copy_to_host(&results, &host)?;
                stream.record_in_graph(&marks[1])
            })
            .map_err(gpu)?
            .instantiate()?;
        graph.upload(&stream)?;
        stream.synchronize()?;
        let wanted = params.posteriors.then(|| host.slice(places.posteriors()));
        Ok(Self {
            device_bytes: own_bytes + plan.device_bytes(),
            graph,
            stream,
            _plan: plan,
            labels: host.slice(places.labels())?,
            confidence: host.slice(places.confidence())?.view()?,
            posteriors: wanted.transpose()?.map(|p| p.view()).transpose()?,
            marks,
            street: street.launched(),
        })
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Takes the labels over of a graph that was launched at `launched`, where that is known.
    fn take(
        &self,
        launched: Option<Timestamp>,
        labels: &mut Labels,
        laps: &mut Laps<'_>,
    ) -> Result<(), GpuError> {
        self.stream.synchronize()?;
        laps.arrived();
        labels.state = LabelState::Valid;
        unpack(&self.labels.read()?, &mut labels.labels);
        unpack(&self.confidence.read()?, &mut labels.confidence);
        if let Some(posteriors) = &self.posteriors {
            labels.posteriors.copy_from_slice(&posteriors.read()?);
        }
        let duration = nanoseconds(self.marks[1].microseconds_since(&self.marks[0])?);
        let from = match launched {
            Some(launched) => launched,
            None => self.street.instant_of(&self.marks[0])?,
        };
        laps.note(StageId::Forest, from, duration);
        Ok(())
    }
}

impl Backend for CudaLabels {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn units(&self) -> &[Unit] {
        UNITS
    }

    /// The time is the device's, between events of the graph.
    fn run(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        match &mut slot.result.labels {
            Some(labels) => {
                let launched = laps.now();
                self.graph.launch(&self.stream).map_err(failed)?;
                self.take(Some(launched), labels, laps).map_err(failed)
            }
            None => {
                laps.skip(StageId::Forest);
                Ok(())
            }
        }
    }

    /// Behind the chain's graph, on the device.
    /// Labels that a frame has gone out without are read from what the next one's chain writes: nobody
    /// looks at them any more, and nothing is learnt.
    fn start(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        _laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        if slot.result.labels.is_none() {
            return Ok(false);
        }
        self.stream.wait(self.street.done()).map_err(failed)?;
        self.graph.launch(&self.stream).map_err(failed)?;
        Ok(true)
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
        match &mut slot.result.labels {
            Some(labels) => self.take(None, labels, laps).map_err(failed),
            None => Ok(()),
        }
    }

    fn withdraw(&mut self, _unit: usize, slot: &mut Slot) {
        withdraw(&mut slot.result);
    }

    /// It learns nothing from frame to frame.
    fn save(&self, _to: &mut Vec<u8>) -> bool {
        true
    }

    fn load(&mut self, _state: &[u8]) -> Result<(), StateError> {
        Ok(())
    }
}

/// Where results lie, one behind the other: posteriors, confidences, labels.
struct Places {
    confidence: usize,
    labels: usize,
    bytes: usize,
}

impl Places {
    fn new(cells: usize, classes: usize) -> Self {
        let confidence = 2 * classes * cells;
        let labels = confidence + 2 * cells;
        Self {
            confidence,
            labels,
            bytes: labels + cells,
        }
    }

    fn posteriors(&self) -> std::ops::Range<usize> {
        0..self.confidence
    }

    fn confidence(&self) -> std::ops::Range<usize> {
        self.confidence..self.labels
    }

    fn labels(&self) -> std::ops::Range<usize> {
        self.labels..self.bytes
    }
}
