//! The loop itself.
use std::{
    mem,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    frame::{
        Decisions, FrameId, FrameSet, Gap, GapSet, MAX_STAGES, Outcome, StageTiming, Timestamp,
        Timing,
    },
    sink::{Sink, SinkError},
    source::{Next, Source},
};

use super::{
    Backend, BackendError, Clock, Doing, Laps, LoopConfig, Monitor, Slot, StageId, Unit,
    admission::{Expectation, Together},
    backend::Watch,
};

/// How frames are fed and whether the clock decides anything; see [`super`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Pace {
    /// As fast as they can be computed; nothing is skipped or dropped.
    #[default]
    Max,
    /// By their timestamps, under the deadline.
    Realtime,
}

/// Why a loop ended before its source.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// A result can't be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The backend can't go on. What was finished before has reached the sink.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// `strict`: the required stages can't keep the deadline. Every result before has reached the
    /// sink.
    #[error(
        "frame_loop.strict: the required stages missed the deadline of {deadline_us} us in {misses} \
         frames in a row, in the last by {late_us} us; the longest of its stages was {longest} with \
         {longest_us} us"
    )]
    Missed {
        /// Frames in a row.
        misses: u32,
        /// What they had, us.
        deadline_us: u64,
        /// By how much the last of them was late, us.
        late_us: u64,
        /// The required stage that took longest in it.
        longest: &'static str,
        /// What that took, us.
        longest_us: u64,
    },
}

/// How long one wait for the source may last: the bound within which a stop is noticed.
const WAIT_NS: u64 = 50_000_000;

/// A wait for a frame that is worth a word.
const LONG_WAIT_NS: u64 = 10_000_000_000;

/// Gaps that are looked past for a newer frame.
const LATER: usize = 16;

/// Most units that a backend may have.
const MAX_UNITS: usize = MAX_STAGES;

/// Period assumed before two frames have been seen.
const FIRST_PERIOD_NS: u64 = 100_000_000;

/// One loop over one source. Owns the slot; allocates nothing once built.
pub struct FrameLoop<'a, B, C> {
    backend: &'a mut B,
    clock: &'a C,
    config: LoopConfig,
    pace: Pace,
    slot: Slot,
    expected: heapless::Vec<Expectation, MAX_UNITS>,
    together: heapless::Vec<Together, MAX_UNITS>,
    /// Clock time and timestamp of the first frame: where the drive's time lies on the clock.
    epoch: Option<(Timestamp, Timestamp)>,
    /// The last frame seen, computed or not.
    last: Option<FrameId>,
    period_ns: u64,
    /// What came after a frame that was looked past, and waits for its turn.
    ahead: Option<Next>,
    /// Gaps behind the frame in hand: they are told after it, so that all goes out in order.
    later: heapless::Vec<(FrameId, Gap), LATER>,
    /// When the source last gave something.
    heard: Timestamp,
    lost: bool,
    live: bool,
    monitor: Option<&'a Monitor>,
    /// The backend's units in the order in which they are launched: the required ones, then the
    /// others by importance.
    order: heapless::Vec<usize, MAX_UNITS>,
    /// Whether decisions that came with a frame are followed.
    follows: bool,
    /// Frames in a row whose required stages were late.
    misses: u32,
}

impl<'a, B: Backend, C: Clock> FrameLoop<'a, B, C> {
    /// A loop that computes with `backend` in `slot`.
    pub fn new(
        backend: &'a mut B,
        clock: &'a C,
        slot: Slot,
        config: &LoopConfig,
        pace: Pace,
    ) -> Self {
        let expected = backend
            .units()
            .iter()
            .map(|unit| {
                let budget = unit.stages.iter().map(|&s| config.budget_us.ns(s)).sum();
                Expectation::new(budget, &config.admission)
            })
            .collect();
        let units = backend.units();
        let together = units.iter().map(|_| Together::new(&config.admission));
        let together = together.collect();
        let mut order: heapless::Vec<usize, MAX_UNITS> = (0..units.len()).collect();
        order.sort_unstable_by_key(|&n| match units[n].required() {
            true => (0, n),
            false => (1 + config.admission.rank(units[n].stages), n),
        });
        Self {
            backend,
            clock,
            config: config.clone(),
            pace,
            slot,
            expected,
            together,
            epoch: None,
            last: None,
            period_ns: FIRST_PERIOD_NS,
            ahead: None,
            later: heapless::Vec::new(),
            heard: clock.now(),
            lost: false,
            live: false,
            monitor: None,
            order,
            follows: true,
            misses: 0,
        }
    }

    /// At [`Pace::Max`] runs also what the loop that recorded a frame did not run or threw away;
    /// else its decisions are taken over, so that the results are those that it gave.
    #[must_use]
    pub fn deciding_anew(mut self, anew: bool) -> Self {
        self.follows = !anew;
        self
    }

    /// The source's time stamps are on the loop's clock: a frame has arrived when it is there, and
    /// its deadline counts from its stamp.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    /// Says where it is, and takes up how the device is.
    #[must_use]
    pub fn watched(mut self, monitor: &'a Monitor) -> Self {
        self.monitor = Some(monitor);
        self
    }

    fn mark(&self, doing: Doing, frame: FrameId) {
        if let Some(monitor) = self.monitor {
            monitor.probe.mark(doing, frame, self.clock.now());
        }
    }

    /// Runs until the source ends or `stop` is set.
    ///
    /// # Errors
    /// Those of the sink and of the backend.
    pub fn run(
        &mut self,
        source: &mut impl Source,
        sink: &mut impl Sink,
        stop: &AtomicBool,
    ) -> Result<(), LoopError> {
        while !stop.load(Ordering::Relaxed) {
            self.mark(Doing::Waiting, self.last.unwrap_or_default());
            match self.ahead.take().unwrap_or_else(|| source.next(WAIT_NS)) {
                Next::End => break,
                Next::Gap(id, gap) => {
                    self.heard(id);
                    sink.gap(id, gap)?;
                }
                Next::Nothing => self.nothing(sink)?,
                Next::Frame(set) => {
                    self.heard(set.id);
                    self.frame(set, source, sink, stop)?;
                    self.tell_later(sink)?;
                }
            }
        }
        Ok(())
    }

    /// Tells the gaps behind a frame that has gone out, or was dropped.
    fn tell_later(&mut self, sink: &mut impl Sink) -> Result<(), SinkError> {
        for (id, gap) in mem::take(&mut self.later) {
            sink.gap(id, gap)?;
        }
        Ok(())
    }

    /// Something came: the camera is there. Frames left out do not lengthen the period.
    fn heard(&mut self, id: FrameId) {
        if let Some(last) = self.last.replace(id)
            && id.index > last.index
            && id.timestamp > last.timestamp
        {
            self.period_ns = id.timestamp.since(last.timestamp) / (id.index - last.index) as u64;
        }
        self.heard = self.clock.now();
        self.lost = false;
    }

    /// Nothing came: says so once when it has lasted too long, under the last frame that came.
    fn nothing(&mut self, sink: &mut impl Sink) -> Result<(), SinkError> {
        let bound = self.period_ns.saturating_mul(self.config.stall_periods);
        let silence = self.clock.now().since(self.heard);
        if let Some(last) = self.last
            && self.pace == Pace::Realtime
            && !self.lost
            && silence > bound
        {
            self.lost = true;
            sink.gap(last, Gap::CameraLost)?;
        }
        Ok(())
    }

    /// When a frame arrives on the clock: at its timestamp, counted from the first frame's.
    fn arrival(&mut self, id: FrameId) -> Timestamp {
        if self.pace == Pace::Max {
            return self.clock.now();
        }
        let stamp = id.timestamp;
        if self.live {
            // A stamp may lie a little ahead of its frame.
            return stamp.min(self.clock.now());
        }
        let (clock, first) = *self.epoch.get_or_insert_with(|| (self.clock.now(), stamp));
        clock.plus_ns(stamp.since(first))
    }

    /// Sleeps until `until`, a bounded while at a time; false when told to stop before.
    fn wait(&self, until: Timestamp, stop: &AtomicBool) -> bool {
        let far_ns = until.since(self.clock.now());
        if far_ns > LONG_WAIT_NS {
            log::warn!(
                "the next frame is {} s away by its time stamp",
                far_ns / 1_000_000_000
            );
        }
        loop {
            let now = self.clock.now();
            if now >= until {
                return true;
            }
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            self.clock.sleep_until(until.min(now.plus_ns(WAIT_NS)));
        }
    }

    fn frame(
        &mut self,
        mut set: Box<FrameSet>,
        source: &mut impl Source,
        sink: &mut impl Sink,
        stop: &AtomicBool,
    ) -> Result<(), LoopError> {
        let mut arrival = self.arrival(set.id);
        if self.pace == Pace::Realtime {
            if !self.wait(arrival, stop) {
                source.recycle(set);
                return Ok(());
            }
            // A burst: only the newest of the frames that have arrived is worth the time.
            loop {
                match source.next(0) {
                    Next::Frame(newer) if self.arrival(newer.id) <= self.clock.now() => {
                        self.heard(newer.id);
                        arrival = self.arrival(newer.id);
                        let older = mem::replace(&mut set, newer);
                        sink.gap(older.id, Gap::Dropped)?;
                        source.recycle(older);
                        self.tell_later(sink)?;
                    }
                    // What can't come keeps no newer frame waiting.
                    Next::Gap(id, gap) if self.arrival(id) <= self.clock.now() => {
                        self.heard(id);
                        if self.later.push((id, gap)).is_err() {
                            self.ahead = Some(Next::Gap(id, gap));
                            break;
                        }
                    }
                    Next::Nothing => break,
                    other => {
                        self.ahead = Some(other);
                        break;
                    }
                }
            }
            let now = self.clock.now();
            let deadline = arrival.plus_ns(self.config.deadline_ns());
            if deadline <= now {
                // What is as far behind need not even be decoded.
                source.skip_before(set.id.timestamp.plus_ns(now.since(deadline)));
                sink.gap(set.id, Gap::Dropped)?;
                source.recycle(set);
                return Ok(());
            }
        }
        let spent = mem::replace(&mut self.slot.set, set);
        self.slot.result.health = self.monitor.map(|m| m.health.get()).unwrap_or_default();
        self.slot.result.health.cameras = source.cameras();
        if let Some(room) = sink.state_room(self.slot.set.id) {
            room.clear();
            if !self.backend.save(room) {
                room.clear();
            }
        }
        self.compute(arrival)?;
        self.mark(Doing::Publishing, self.slot.result.id);
        let outcome = sink.frame(self.slot.view(), &self.slot.result);
        source.recycle(spent);
        outcome?;
        self.judge()
    }

    /// With `strict`, whether the required stages have been late too often.
    fn judge(&self) -> Result<(), LoopError> {
        let LoopConfig {
            strict,
            strict_misses,
            ..
        } = self.config;
        if !strict || self.misses < strict_misses {
            return Ok(());
        }
        let required = |name| StageId::named(name).is_some_and(StageId::required);
        let stages = self.slot.result.timing.stages.iter();
        let stages = stages.filter(|s| required(s.stage));
        let end = stages.clone().map(|s| s.start_ns + s.duration_ns).max();
        let longest = stages.max_by_key(|s| s.duration_ns);
        Err(LoopError::Missed {
            misses: self.misses,
            deadline_us: self.config.deadline_ns() / 1000,
            late_us: end.unwrap_or(0).saturating_sub(self.config.deadline_ns()) / 1000,
            longest: longest.map_or("", |s| s.stage),
            longest_us: longest.map_or(0, |s| s.duration_ns / 1000),
        })
    }

    /// Runs the units of the frame in the slot and judges them by the clock: what can be under way
    /// at once is launched first, then each has its turn.
    fn compute(&mut self, arrival: Timestamp) -> Result<(), BackendError> {
        let decides = self.pace == Pace::Realtime;
        self.slot.result.id = self.slot.set.id;
        self.slot.result.gaps = GapSet::EMPTY;
        if let Some(gap) = self.slot.set.mono.as_ref().and_then(|mono| mono.gap) {
            self.slot.result.gaps.insert(gap);
        }
        let blind = self.slot.set.stereo_gap;
        if let Some(gap) = blind {
            self.slot.result.gaps.insert(gap);
            self.slot.blank_street();
        }
        let frame = Frame {
            id: self.slot.set.id,
            arrival,
            deadline: arrival.plus_ns(self.config.deadline_ns()),
            decides,
            recorded: self.slot.set.decisions.filter(|_| self.follows && !decides),
            blind: blind.is_some(),
            // Where there is no mono camera the other stages, too, look at the stereo camera's
            // image.
            all_blind: blind.is_some() && self.slot.set.mono.is_none(),
        };
        // Timing is lent out while the backend writes the rest of the result.
        let mut timing = mem::take(&mut self.slot.result.timing);
        timing.start = arrival;
        timing.stages.clear();
        let mut ahead = [Ahead::Apart { room_ns: 0 }; MAX_UNITS];
        if self.config.overlap {
            self.start(&frame, &mut ahead, &mut timing)?;
        }
        let mut required_ran = None;
        for at in 0..self.order.len() {
            let unit = self.order[at];
            let ran = self.turn(&frame, unit, ahead[unit], &mut timing)?;
            if self.backend.units()[unit].required() {
                required_ran = ran.or(required_ran);
            }
        }
        if let Some(complete) = required_ran {
            let missed = decides && complete > frame.deadline;
            self.misses = if missed { self.misses + 1 } else { 0 };
        }
        let now = self.clock.now();
        timing.duration_ns = now.since(arrival);
        timing.outcome = Outcome::Done;
        if decides && now > frame.deadline {
            timing.outcome = Outcome::Late;
            self.slot.result.gaps.insert(Gap::Late);
        }
        self.slot.result.timing = timing;
        Ok(())
    }

    /// Launches the required units, and beside and behind them the optional ones that are
    /// expected to be done in time so. Where one does not fit, it and those that are less important
    /// wait until the required ones are done, and what is left is known; those that are skipped at
    /// present keep nobody waiting.
    fn start(
        &mut self,
        frame: &Frame,
        ahead: &mut [Ahead; MAX_UNITS],
        timing: &mut Timing,
    ) -> Result<(), BackendError> {
        let mut required_ns = 0u64;
        for at in 0..self.order.len() {
            let unit = self.order[at];
            let this = self.backend.units()[unit];
            if frame.passes(&this) {
                continue;
            }
            let before = self.clock.now();
            let (expected, together) = (&self.expected[unit], &self.together[unit]);
            let decides = frame.decides && !this.required();
            let mut room_ns = 0;
            if this.required() {
                required_ns = required_ns.saturating_add(expected.expected_ns());
            } else if decides {
                let left_ns = frame.deadline.since(before);
                room_ns = match left_ns.checked_sub(required_ns) {
                    Some(behind_ns) if this.needs_stereo() => behind_ns,
                    Some(_) => left_ns,
                    None => 0,
                };
                if !expected.would_admit(room_ns) || !together.fits(left_ns) {
                    if expected.runs() {
                        break;
                    }
                    if together.is_able() {
                        ahead[unit] = Ahead::Apart { room_ns };
                    }
                    continue;
                }
            } else if frame.was(this.stages, Decisions::skipped) {
                continue;
            }
            if let (Some(monitor), Some(&stage)) = (self.monitor, this.stages.first()) {
                monitor.probe.mark(Doing::Stage(stage), frame.id, before);
            }
            let mut laps = Laps::new(self.clock, frame.arrival, timing);
            let launched = self.backend.start(unit, &mut self.slot, &mut laps)?;
            self.together[unit].tried(launched);
            if launched {
                if decides {
                    self.expected[unit].admits(room_ns);
                }
                let took_ns = self.clock.now().since(before);
                ahead[unit] = Ahead::Launched { before, took_ns };
            } else if this.required() {
                // Nothing beside it.
                break;
            }
        }
        for at in 0..self.order.len() {
            let unit = self.order[at];
            if let Ahead::Launched { took_ns, .. } = &mut ahead[unit] {
                let before = self.clock.now();
                let laps = Laps::new(self.clock, frame.arrival, timing);
                self.backend.meanwhile(unit, &mut self.slot, &laps);
                *took_ns += self.clock.now().since(before);
            }
        }
        Ok(())
    }

    /// A unit's turn: it is finished where it was launched, else run, or skipped. Says when it was
    /// done, where it was run.
    fn turn(
        &mut self,
        frame: &Frame,
        unit: usize,
        ahead: Ahead,
        timing: &mut Timing,
    ) -> Result<Option<Timestamp>, BackendError> {
        let Frame {
            arrival, deadline, ..
        } = *frame;
        let this = self.backend.units()[unit];
        let stages = this.stages;
        let required = this.required();
        if frame.passes(&this) {
            let mut laps = Laps::new(self.clock, arrival, timing);
            stages.iter().for_each(|&stage| laps.skip(stage));
            self.backend.withdraw(unit, &mut self.slot);
            return Ok(None);
        }
        let before = self.clock.now();
        let admitted = match ahead {
            Ahead::Launched { .. } => true,
            Ahead::Apart { room_ns } => {
                self.together[unit].waited();
                if frame.decides && !required {
                    let left_ns = deadline.since(before).max(room_ns);
                    self.expected[unit].admits(left_ns)
                } else {
                    required || !frame.was(stages, Decisions::skipped)
                }
            }
        };
        if !admitted {
            for stage in stages {
                // Room for more stages than there are.
                let _ = timing.stages.push(StageTiming {
                    stage: stage.name(),
                    start_ns: before.since(arrival),
                    duration_ns: 0,
                    outcome: Outcome::Skipped,
                });
            }
            self.slot.result.gaps.insert(Gap::Skipped);
            self.backend.withdraw(unit, &mut self.slot);
            return Ok(None);
        }
        let first = timing.stages.len();
        let watch = self.monitor.map(|monitor| Watch {
            probe: &monitor.probe,
            frame: frame.id,
            stages,
        });
        let mut slowed = 0;
        if let (Some(monitor), Some(&stage)) = (self.monitor, stages.first()) {
            monitor.probe.mark(Doing::Stage(stage), frame.id, before);
            if let Some(hang) = &monitor.hang {
                hang.strike(stages, frame.id.index);
            }
            if let Some(slow) = &monitor.slow {
                slowed = slow.strike(stages, frame.id.index, self.clock);
            }
        }
        let mut laps = Laps::new(self.clock, arrival, timing).watched(watch);
        match ahead {
            Ahead::Launched { .. } => self.backend.finish(unit, &mut self.slot, &mut laps)?,
            Ahead::Apart { .. } => self.backend.run(unit, &mut self.slot, &mut laps)?,
        }
        let (arrived, own_ns) = laps.noted();
        let after = self.clock.now();
        if let Some(lap) = timing.stages.get_mut(first) {
            lap.start_ns = lap.start_ns.saturating_sub(slowed);
            lap.duration_ns += slowed;
        }
        let laps = &timing.stages[first..];
        if laps.iter().all(|lap| lap.outcome == Outcome::Skipped) {
            // There was nothing to run on: that says nothing of what it takes.
            self.expected[unit].idle();
            return Ok(None);
        }
        let took_ns = match ahead {
            // What it waited for others is not its own.
            Ahead::Launched { before, took_ns } => {
                self.together[unit].measured(after.since(before));
                let host_ns = arrived.map_or(0, |arrived| after.since(arrived));
                let stages_ns: u64 = laps.iter().map(|lap| lap.duration_ns).sum();
                match own_ns {
                    Some(own_ns) => own_ns + slowed,
                    None => took_ns + stages_ns + host_ns,
                }
            }
            Ahead::Apart { .. } => after.since(before),
        };
        self.expected[unit].measured(took_ns);
        let late =
            !required && (frame.decides && after > deadline || frame.was(stages, Decisions::late));
        for (ran, &stage) in timing.stages[first..].iter_mut().zip(stages) {
            if late {
                ran.outcome = Outcome::Late;
                self.slot.result.gaps.insert(Gap::Late);
            } else if ran.duration_ns > self.config.budget_us.ns(stage) {
                ran.outcome = Outcome::OverBudget;
            }
        }
        if late {
            self.backend.withdraw(unit, &mut self.slot);
        }
        Ok(Some(after))
    }
}

/// What is known of the frame in the slot before it is computed.
struct Frame {
    id: FrameId,
    arrival: Timestamp,
    deadline: Timestamp,
    /// Whether the clock decides.
    decides: bool,
    /// What was decided when it was recorded, where that is followed.
    recorded: Option<Decisions>,
    /// Without stereo images.
    blind: bool,
    all_blind: bool,
}

impl Frame {
    /// Whether a unit has nothing to run on.
    fn passes(&self, unit: &Unit) -> bool {
        self.all_blind || self.blind && unit.needs_stereo()
    }

    /// Whether one of the stages was dealt with so when the frame was recorded.
    fn was(&self, stages: &[StageId], how: fn(&Decisions, usize) -> bool) -> bool {
        let recorded = self.recorded.as_ref();
        recorded.is_some_and(|d| stages.iter().any(|&s| how(d, s as usize)))
    }
}

/// What was done about a unit before its turn.
#[derive(Clone, Copy)]
enum Ahead {
    /// Nothing. Of one that is skipped at present: what it would have had if it had been launched
    /// together with the required ones.
    Apart { room_ns: u64 },
    /// It was launched; the host took so long for that.
    Launched { before: Timestamp, took_ns: u64 },
}
