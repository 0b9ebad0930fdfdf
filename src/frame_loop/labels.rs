//! What each pixel of the left image shows, on the CPU.
use std::{mem, sync::Arc};

use crate::{
    config::Config,
    frame::{Camera, Disparity, FrameResult, Image, Labels, Rgb, Size, Timestamp},
    stage::{
        Stage as _,
        forest::{self, Depth, Forest, Input, Pixels, cpu::Plan},
        state::StateError,
    },
};

use super::{
    Backend, BackendError, ChainError, Laps, Slot, StageId, Unit,
    aside::{Crew, Seat, Work},
};

/// What the left images of a drive look like, and the forest that labels them.
#[derive(Clone, Debug)]
pub struct LabelShape {
    /// Their size.
    pub size: Size,
    /// Whether they have colour.
    pub colour: bool,
    /// The rectified camera: what disparities mean.
    pub camera: Camera,
    /// The forest.
    pub forest: Arc<Forest>,
}

impl LabelShape {
    /// Makes room in a slot for the result.
    pub fn furnish(&self, config: &Config, slot: &mut Slot) {
        slot.result.labels = Some(self.labels(config));
    }

    fn labels(&self, config: &Config) -> Labels {
        let (step, posteriors) = (config.forest.step, config.forest.posteriors);
        let table = Arc::new(self.forest.meta.table());
        Labels::new(self.size, step, posteriors, table)
    }

    /// Whether the forest is lent the left image in colour, else in grey.
    pub fn reads_colour(&self) -> bool {
        self.colour && self.forest.meta.input.channels == 3
    }

    /// Refuses a forest that left images are not for, and tells what grey ones stand for.
    pub(super) fn check(&self) -> Result<(), forest::ParamsError> {
        let meta = &self.forest.meta;
        let (bits, channels) = (meta.input.bits, meta.input.channels);
        if bits != 8 {
            let text = format!("it reads samples of {bits} bits, left images have 8");
            return Err(forest::ParamsError::Forest(text));
        }
        if meta.feature.needs().colour && channels > 1 && !self.reads_colour() {
            log::warn!("forest: left images are grey, which stands for all {channels} channels");
        }
        Ok(())
    }
}

/// The forest's plan: one optional unit behind the stereo chain, whose rectified left image (in
/// colour where the source has colour) and disparity it reads. With `frame_loop.overlap` a thread
/// beside the loop's can compute it, on copies of them.
pub struct CpuLabels {
    seat: Seat<Trees>,
    /// Whether it is lent the image in colour.
    colour: bool,
    _crew: Option<Crew>,
}

struct Trees {
    plan: Plan,
    aside: Option<Aside>,
}

/// What a thread aside reads and writes.
struct Aside {
    picture: Picture,
    disparity: Disparity,
    labels: Labels,
}

enum Picture {
    Grey(Image<u8>),
    Rgb(Rgb),
}

impl Work for Trees {
    fn run(&mut self, done: &mut dyn FnMut(StageId)) {
        let Some(aside) = &mut self.aside else {
            return;
        };
        let pixels = match &aside.picture {
            Picture::Grey(image) => Pixels::Grey(image),
            Picture::Rgb(image) => Pixels::Rgb(image),
        };
        let depth = Depth::Disparity(&aside.disparity);
        self.plan.run(Input { pixels, depth }, &mut aside.labels);
        done(StageId::Forest);
    }
}

pub(super) const UNITS: &[Unit] = &[Unit {
    stages: &[StageId::Forest],
}];

impl CpuLabels {
    /// Takes all memory that the stage needs.
    ///
    /// # Errors
    /// When the stage can't work with its parameters, this forest or this shape, or threads are
    /// refused.
    pub fn new(config: &Config, shape: &LabelShape) -> Result<Self, ChainError> {
        shape.check()?;
        let size = shape.size;
        let camera = Some(&shape.camera);
        let plan = Plan::new(&shape.forest, &config.forest, size, camera)?;
        let overlap = config.frame_loop.overlap;
        let crew = overlap.then(|| Crew::new(1)).transpose()?;
        let aside = overlap.then(|| Aside {
            picture: if shape.reads_colour() {
                Picture::Rgb(Image::new(size.width, size.height))
            } else {
                Picture::Grey(Image::new(size.width, size.height))
            },
            disparity: Image::new(size.width, size.height),
            labels: shape.labels(config),
        });
        Ok(Self {
            seat: Seat::new(UNITS[0], Trees { plan, aside }, crew.as_ref()),
            colour: shape.reads_colour(),
            _crew: crew,
        })
    }
}

/// Takes the labels out of a result.
pub(super) fn withdraw(result: &mut FrameResult) {
    result.labels.iter_mut().for_each(Labels::skip);
}

impl Backend for CpuLabels {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn units(&self) -> &[Unit] {
        UNITS
    }

    fn run(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let from = laps.now();
        let FrameResult { street, labels, .. } = &mut slot.result;
        let work = self.seat.here_mut();
        let (Some(rectified), Some(street), Some(labels), Some(work)) =
            (&slot.rectified, street, labels, work)
        else {
            withdraw(&mut slot.result);
            laps.skip(StageId::Forest);
            return Ok(());
        };
        let pixels = match &rectified.left_rgb {
            Some(rgb) if self.colour => Pixels::Rgb(rgb),
            _ => Pixels::Grey(&rectified.left),
        };
        let depth = Depth::Disparity(&street.disparity);
        work.plan.run(Input { pixels, depth }, labels);
        laps.lap(StageId::Forest, from);
        Ok(())
    }

    /// Not before the disparity is there.
    fn start_behind(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let (Some(rectified), Some(street)) = (&slot.rectified, &slot.result.street) else {
            return Ok(false);
        };
        if slot.result.labels.is_none() || !self.seat.is_ready() {
            return Ok(false);
        }
        if let Some(work) = self.seat.here_mut()
            && let Some(aside) = &mut work.aside
        {
            match (&mut aside.picture, &rectified.left_rgb) {
                (Picture::Rgb(to), Some(rgb)) => to.copy_from(rgb),
                (Picture::Grey(to), _) => to.copy_from(&rectified.left),
                // In colour where there is colour.
                (Picture::Rgb(_), None) => return Ok(false),
            }
            aside.disparity.copy_from(&street.disparity);
        }
        Ok(self.seat.send(laps))
    }

    fn wait(
        &mut self,
        _unit: usize,
        until: Timestamp,
        laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        Ok(self.seat.wait(until, laps))
    }

    fn finish(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        if let Some(work) = self.seat.take_back(laps)?
            && let (Some(aside), Some(labels)) = (&mut work.aside, &mut slot.result.labels)
        {
            mem::swap(&mut aside.labels, labels);
        }
        Ok(())
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
