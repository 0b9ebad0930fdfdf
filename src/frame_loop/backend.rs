//! What computes: the CPU, later a GPU, in tests a pretence.
use crate::frame::{Outcome, StageTiming, Timestamp, Timing};

use super::{Clock, Slot, StageId};

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
}

/// Computes the units of a frame in a slot.
pub trait Backend {
    /// The name in `summary.json`.
    fn name(&self) -> &'static str;

    /// What there is to run, in order; the same for the backend's whole life.
    fn units(&self) -> &[Unit];

    /// Runs unit number `unit` on the slot, noting each stage's time in `laps`.
    fn run(&mut self, unit: usize, slot: &mut Slot, laps: &mut Laps<'_>);

    /// Takes the result of an optional unit out of the slot: it was skipped, or came too late.
    fn withdraw(&mut self, unit: usize, slot: &mut Slot);
}

/// Notes when stages start and end, relative to the frame's arrival.
pub struct Laps<'a> {
    clock: &'a dyn Clock,
    arrival: Timestamp,
    timing: &'a mut Timing,
}

impl<'a> Laps<'a> {
    pub(super) fn new(clock: &'a dyn Clock, arrival: Timestamp, timing: &'a mut Timing) -> Self {
        Self {
            clock,
            arrival,
            timing,
        }
    }

    /// Notes a stage that ran from `from` until now, and returns now.
    pub fn lap(&mut self, stage: StageId, from: Timestamp) -> Timestamp {
        let now = self.clock.now();
        // Room for more stages than there are.
        let _ = self.timing.stages.push(StageTiming {
            stage: stage.name(),
            start_ns: from.since(self.arrival),
            duration_ns: now.since(from),
            outcome: Outcome::Done,
        });
        now
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
