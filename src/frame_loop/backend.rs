//! What computes: the CPU, a GPU, in tests a pretence.
use crate::{
    frame::{FrameId, Outcome, StageTiming, Timestamp, Timing},
    stage::{foreground::SnapshotError, state::StateError},
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

/// What the host has done for a unit whose device's part comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// There is nothing to do, or it has been done.
    Nothing,
    /// The device is not done.
    Waits,
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

    /// Launches unit number `unit` and returns without a wait for it, so that others can be under
    /// way beside it. False where it can't be: nothing was done then, and it is to be
    /// [run](Backend::run) in its turn. A unit that was launched is to be
    /// [finished](Backend::finish) before it is launched again, or run; until then other units may
    /// be launched, run, finished and withdrawn. An optional one may stay under way while the slot
    /// is lent out and the next frames are computed: its result is for none of them then, and it
    /// writes nothing of theirs, nor reads it if it learns from what it reads. One that [needs the stereo images](Unit::needs_stereo)
    /// is launched only behind all required ones of the same frame, which were launched, too. No
    /// stage is noted in `laps`.
    ///
    /// # Errors
    /// When the device fails.
    fn start(
        &mut self,
        _unit: usize,
        _slot: &mut Slot,
        _laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// The same when the required units of the frame are done: what they give is in the slot.
    ///
    /// # Errors
    /// When the device fails.
    fn start_behind(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        self.start(unit, slot, laps)
    }

    /// What the host can do for a unit that was [launched](Backend::start) while devices work:
    /// called once for each launch, when all that is launched at the time has been.
    fn meanwhile(&mut self, _unit: usize, _slot: &mut Slot, _laps: &Laps<'_>) {}

    /// Does what is the host's after the device's part of a unit that was
    /// [launched](Backend::start), if that part is done, so that to [finish](Backend::finish) it
    /// takes little: asked again and again while required units are under way.
    ///
    /// # Errors
    /// When the device fails.
    fn advance(
        &mut self,
        _unit: usize,
        _slot: &mut Slot,
        _laps: &Laps<'_>,
    ) -> Result<Advance, BackendError> {
        Ok(Advance::Nothing)
    }

    /// Waits for a unit that was [launched](Backend::start), until `until` at most: whether it is
    /// done, so that to finish it takes no wait. A backend that can't tell says that it is.
    ///
    /// # Errors
    /// When the device fails.
    fn wait(
        &mut self,
        _unit: usize,
        _until: Timestamp,
        _laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        Ok(true)
    }

    /// Waits for a unit that was [launched](Backend::start), and takes its result over; `laps` is
    /// told when the wait [ended](Laps::arrived), and each stage's time.
    ///
    /// # Errors
    /// When the device fails; what is in the slot then is no result.
    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        self.run(unit, slot, laps)
    }

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

    /// Appends all that its stages have learnt from earlier frames, for [`Backend::load`]: a
    /// recording that begins here gives the results that the loop gives from here on. False
    /// where the backend can't say it, as while a unit is under way; nothing is appended then.
    fn save(&self, _to: &mut Vec<u8>) -> bool {
        false
    }

    /// Takes up what a backend of the same shape and configuration has saved.
    ///
    /// # Errors
    /// Why the state is refused; stages that are named in the error, and those after them, are
    /// as freshly built then.
    fn load(&mut self, _state: &[u8]) -> Result<(), StateError> {
        Err(StateError::Unknown(format!("{} keeps none", self.name())))
    }
}

/// The saved states of a backend: one section a stage, of a name, a length and bytes.
pub(super) mod sections {
    use std::convert::Infallible;

    use super::{StageId, StateError};
    use crate::stage::{
        Stage,
        state::{StateReader, StateWriter},
    };

    /// Appends the section of a stage.
    pub fn save(to: &mut Vec<u8>, stage: StageId, plan: &impl Stage) {
        let Ok(()) = write::<Infallible>(to, stage, |to| {
            plan.save(to);
            Ok(())
        });
    }

    /// Appends a section with what `f` writes; what there is of it stays when that fails.
    pub fn write<E>(
        to: &mut Vec<u8>,
        stage: StageId,
        f: impl FnOnce(&mut StateWriter<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let name = stage.name();
        to.push(name.len() as u8);
        to.extend_from_slice(name.as_bytes());
        let at = to.len();
        to.extend_from_slice(&[0; 4]);
        f(&mut StateWriter(to))?;
        let length = (to.len() - at - 4) as u32;
        to[at..at + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// Loads the section of a stage; a stage that has none there stays as it is.
    pub fn load(state: &[u8], stage: StageId, plan: &mut impl Stage) -> Result<(), StateError> {
        read(state, stage, |from| plan.load(from))
    }

    /// Has `f` read the section of a stage, where there is one.
    pub fn read(
        state: &[u8],
        stage: StageId,
        f: impl FnOnce(&mut StateReader<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let name = stage.name();
        for section in sections(state) {
            let (found, bytes) = section?;
            if found == name.as_bytes() {
                return f(&mut StateReader::new(name, bytes));
            }
        }
        Ok(())
    }

    fn sections(mut rest: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), StateError>> {
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let section = (|| {
                let (&length, more) = rest.split_first()?;
                let (name, more) = more.split_at_checked(length.into())?;
                let (&length, more) = more.split_first_chunk::<4>()?;
                let (bytes, more) = more.split_at_checked(u32::from_le_bytes(length) as usize)?;
                rest = more;
                Some((name, bytes))
            })();
            if section.is_none() {
                rest = &[];
            }
            Some(section.ok_or_else(|| StateError::Unknown("it is cut short".into())))
        })
    }
}

/// Notes when stages start and end, relative to the frame's arrival.
pub struct Laps<'a> {
    clock: &'a dyn Clock,
    arrival: Timestamp,
    timing: &'a mut Timing,
    watch: Option<Watch<'a>>,
    arrived: Option<Timestamp>,
    own_ns: Option<u64>,
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
            arrived: None,
            own_ns: None,
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

    /// Notes that what was launched is done; the rest is the host's.
    pub fn arrived(&mut self) {
        self.arrived = Some(self.clock.now());
    }

    /// Notes what a unit that was launched took of its own, on device and host. Without it that is
    /// the sum of its stages, what the host took to launch it, and what it took after the wait.
    pub fn took(&mut self, own_ns: u64) {
        self.own_ns = Some(own_ns);
    }

    /// When what was launched was done, and what it took, where that was noted.
    pub(super) fn noted(&self) -> (Option<Timestamp>, Option<u64>) {
        (self.arrived, self.own_ns)
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
