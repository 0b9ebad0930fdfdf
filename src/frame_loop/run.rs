//! The loop itself: how frames come, are dropped, and go out. What is done with one of them is in
//! [`turns`].
mod turns;

use std::{
    mem,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    frame::{FrameId, FrameSet, Gap, MAX_STAGES, Timestamp},
    sink::{Sink, SinkError},
    source::{Next, Source},
};

use super::{
    Backend, BackendError, Clock, Doing, LoopConfig, Monitor, Slot, StageId,
    admission::{Expectation, Together},
};
use turns::Overdue;

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
    /// By unit, what was launched on an earlier frame that has gone out without it.
    overdue: [Option<Overdue>; MAX_UNITS],
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
            overdue: [None; MAX_UNITS],
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
        // What is learnt from the last frames is whole.
        self.settle(true)?;
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
        let room = sink.state_room(set.id);
        self.settle(room.is_some())?;
        let spent = mem::replace(&mut self.slot.set, set);
        self.slot.result.health = self.monitor.map(|m| m.health.get()).unwrap_or_default();
        self.slot.result.health.cameras = source.cameras();
        if let Some(room) = room {
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
}
