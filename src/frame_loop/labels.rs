//! What each pixel of the left image shows, on the CPU.
use std::sync::Arc;

use crate::{
    config::Config,
    frame::{Camera, FrameResult, Labels, Size},
    stage::{
        Stage as _,
        forest::{self, Depth, Forest, Input, Pixels, cpu::Plan},
        state::StateError,
    },
};

use super::{Backend, BackendError, ChainError, Laps, Slot, StageId, Unit};

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
        let (step, posteriors) = (config.forest.step, config.forest.posteriors);
        let table = Arc::new(self.forest.meta.table());
        slot.result.labels = Some(Labels::new(self.size, step, posteriors, table));
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
/// colour where the source has colour) and disparity it reads.
pub struct CpuLabels {
    plan: Plan,
    /// Whether it is lent the image in colour.
    colour: bool,
}

pub(super) const UNITS: &[Unit] = &[Unit {
    stages: &[StageId::Forest],
}];

impl CpuLabels {
    /// Takes all memory that the stage needs.
    ///
    /// # Errors
    /// When the stage can't work with its parameters, this forest or this shape.
    pub fn new(config: &Config, shape: &LabelShape) -> Result<Self, ChainError> {
        shape.check()?;
        let camera = Some(&shape.camera);
        let plan = Plan::new(&shape.forest, &config.forest, shape.size, camera)?;
        Ok(Self {
            plan,
            colour: shape.reads_colour(),
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
        let (Some(rectified), Some(street), Some(labels)) = (&slot.rectified, street, labels)
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
        self.plan.run(Input { pixels, depth }, labels);
        laps.lap(StageId::Forest, from);
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
