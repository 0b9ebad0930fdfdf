//! What computes: the CPU, a GPU, in tests a pretence.
use crate::{
    frame::{FrameId, Outcome, StageTiming, Timestamp, Timing},
    stage::foreground::SnapshotError,
};

use super::{Clock, Doing, Probe, Slot, StageId};

/// Stages that are launched together: on the CPU each alone, on a GPU one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its stages, in order; not empty, and all required or all optional.
    pub stages: &'static [StageId],
}

impl Unit {
    /// Whether it runs on every frame, whatever the clock says.
    pub fn required(&self) -> bool {
        self.stages.iter().all(|s| s.required())
    }

    /// Whether it has nothing to run on without the stereo camera's images.
    pub fn needs_stereo(&self) -> bool {
        self.stages.iter().any(|s| s.needs_stereo())
    }
}

/// A backend that can't go on: its device is lost. Nothing of the frame in flight is to be
/// published, and the process is to end with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{backend}: {message}")]
pub struct BackendError {
    /// [`Backend::name`].
    pub backend: &'static str,
    /// What the device said.
    pub message: String,
}

/// Computes the units of a frame in a slot.
pub trait Backend {
    /// The name in `summary.json`.
    fn name(&self) -> &'static str;

    /// What there is to run, in order; the same for the backend's whole life.
    fn units(&self) -> &[Unit];

    /// Runs unit number `unit` on the slot, noting each stage's time in `laps`.
    ///
    /// # Errors
    /// When the device fails; what is in the slot then is no result.
    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError>;

    /// Takes the result of an optional unit out of the slot: it was skipped, or came too late.
    fn withdraw(&mut self, unit: usize, slot: &mut Slot);

    /// Takes up what an earlier run of the program had learnt of the background
    /// ([`Backend::snapshot`]); nothing where there is no such thing to take up.
    ///
    /// # Errors
    /// Why the snapshot is refused; the backend is as fresh as before then.
    fn restore(&mut self, _snapshot: &[u8]) -> Result<(), SnapshotError> {
        Ok(())
    }

    /// What was learnt of the background, for a later run; `None` where nothing learns.
    fn snapshot(&self) -> Option<Vec<u8>> {
        None
    }
}

/// Notes when stages start and end, relative to the frame's arrival.
pub struct Laps<'a> {
    clock: &'a dyn Clock,
    arrival: Timestamp,
    timing: &'a mut Timing,
    watch: Option<Watch<'a>>,
}

/// Who is told when the next stage of a unit begins.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    pub probe: &'a Probe,
    pub frame: FrameId,
    pub stages: &'static [StageId],
}

impl<'a> Laps<'a> {
    pub(super) fn new(clock: &'a dyn Clock, arrival: Timestamp, timing: &'a mut Timing) -> Self {
        Self {
            clock,
            arrival,
            timing,
            watch: None,
        }
    }

    pub(super) fn watched(mut self, watch: Option<Watch<'a>>) -> Self {
        self.watch = watch;
        self
    }

    /// Notes a stage that ran from `from` until now, and returns now.
    pub fn lap(&mut self, stage: StageId, from: Timestamp) -> Timestamp {
        let now = self.clock.now();
        self.note(stage, from, now.since(from));
        if let Some(watch) = self.watch
            && let Some(at) = watch.stages.iter().position(|&s| s == stage)
            && let Some(&next) = watch.stages.get(at + 1)
        {
            watch.probe.mark(Doing::Stage(next), watch.frame, now);
        }
        now
    }

    /// Notes a stage that had nothing to run on.
    pub fn skip(&mut self, stage: StageId) {
        let start_ns = self.clock.now().since(self.arrival);
        let _ = self.timing.stages.push(StageTiming {
            stage: stage.name(),
            start_ns,
            duration_ns: 0,
            outcome: Outcome::Skipped,
        });
    }

    /// Notes a stage that ran for so long from `from` on, by another clock: a GPU's.
    pub fn note(&mut self, stage: StageId, from: Timestamp, duration_ns: u64) {
        // Room for more stages than there are.
        let _ = self.timing.stages.push(StageTiming {
            stage: stage.name(),
            start_ns: from.since(self.arrival),
            duration_ns,
            outcome: Outcome::Done,
        });
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
