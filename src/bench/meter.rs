//! The sinks that measure.
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;

use crate::{
    frame::{FrameId, FrameResult, Gap, Outcome},
    frame_loop::{Clock, StageId},
    sink::{Sink, SinkError, View},
};

/// Longest duration that is told apart, ns; longer ones count as this long.
const LONGEST_NS: u64 = 60_000_000_000;

/// Durations, to three significant digits; the longest is exact. Memory is taken at the start.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    max_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        // The bounds are constants for which this can't fail.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .unwrap_or_else(|e| unreachable!("histogram bounds: {e}"));
        Self {
            histogram,
            max_ns: 0,
        }
    }
}

impl Times {
    /// Takes one more.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The longest, ns.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The duration that a share `q` of them did not exceed, ns; 0 of none.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        // A bucket's upper end can lie above the longest that was in it.
        self.histogram.value_at_quantile(q).min(self.max_ns)
    }

    /// How many took how long: durations (ns, ends of narrow buckets) and counts, shortest first.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|v| {
            let ns = v.value_iterated_to().min(self.max_ns);
            (ns, v.count_since_last_iteration())
        })
    }
}

/// Of durations that follow each other, also their differences.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The durations.
    pub times: Times,
    /// Differences of one and the next.
    pub jitter: Times,
    last: Option<u64>,
}

impl Course {
    fn record(&mut self, ns: u64) {
        self.times.record(ns);
        if let Some(last) = self.last.replace(ns) {
            self.jitter.record(last.abs_diff(ns));
        }
    }
}

/// How one stage did.
#[derive(Clone, Debug, Default)]
pub struct StageTimes {
    /// Of its runs.
    pub times: Times,
    /// How often each [`Outcome`], in the order of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::ALL.len()],
}

/// Measures results as the loop gives them.
#[derive(Clone, Debug)]
pub struct Meter {
    warm_up: usize,
    deadline_ns: u64,
    /// Frames with a result.
    pub frames: u64,
    /// Frames without one.
    pub without: u64,
    /// Each gap: of frames with and without result.
    pub gaps: [u64; Gap::ALL.len()],
    /// Frames that were complete after the deadline.
    pub late: u64,
    /// Of these, those whose required stages were.
    pub required_late: u64,
    /// By place in [`StageId::ORDER`].
    pub stages: [StageTimes; StageId::ORDER.len()],
    /// From a frame's arrival until its required stages were complete.
    pub required: Times,
    /// From a frame's arrival until its result was complete.
    pub frame: Course,
}

impl Meter {
    /// Leaves out frames before `warm_up`.
    pub fn new(warm_up: usize, deadline_ns: u64) -> Self {
        Self {
            warm_up,
            deadline_ns,
            frames: 0,
            without: 0,
            gaps: Default::default(),
            late: 0,
            required_late: 0,
            stages: Default::default(),
            required: Times::default(),
            frame: Course::default(),
        }
    }
}

impl Sink for Meter {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        if result.id.index < self.warm_up {
            return Ok(());
        }
        self.frames += 1;
        for gap in result.gaps.iter() {
            self.gaps[gap as usize] += 1;
        }
        let timing = &result.timing;
        let mut required = None;
        for lap in &timing.stages {
            let Some(stage) = StageId::named(lap.stage) else {
                continue;
            };
            let times = &mut self.stages[stage as usize];
            times.outcomes[lap.outcome as usize] += 1;
            if lap.outcome == Outcome::Skipped {
                continue;
            }
            times.times.record(lap.duration_ns);
            if stage.required() {
                required = required.max(Some(lap.start_ns + lap.duration_ns));
            }
        }
        if let Some(ns) = required {
            self.required.record(ns);
            self.required_late += u64::from(ns > self.deadline_ns);
        }
        self.late += u64::from(timing.outcome == Outcome::Late);
        self.frame.record(timing.duration_ns);
        Ok(())
    }

    /// A lost camera is an event; its frames are counted when they come, or do not.
    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        if id.index >= self.warm_up {
            self.gaps[gap as usize] += 1;
            self.without += u64::from(gap != Gap::CameraLost);
        }
        Ok(())
    }
}

/// When results were handed out.
#[derive(Debug, Default)]
pub struct HandedOut {
    /// From a frame's arrival until then.
    pub course: Course,
    /// Of those at a fixed latency, how many too early, and flagged as late.
    pub early: u64,
    /// Flagged as late.
    pub late: u64,
}

/// The sink that results are handed out to; whoever has a clone of `times` reads it afterwards.
pub struct HandOut<C> {
    clock: C,
    warm_up: usize,
    latency_ns: u64,
    times: Arc<Mutex<HandedOut>>,
}

impl<C: Clock> HandOut<C> {
    /// Leaves out frames before `warm_up`; earlier than `latency_ns` is too early.
    pub fn new(clock: C, warm_up: usize, latency_ns: u64, times: &Arc<Mutex<HandedOut>>) -> Self {
        Self {
            clock,
            warm_up,
            latency_ns,
            times: Arc::clone(times),
        }
    }
}

impl<C: Clock> Sink for HandOut<C> {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let ns = self.clock.now().since(result.timing.start);
        if result.id.index >= self.warm_up {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.course.record(ns);
            times.early += u64::from(ns < self.latency_ns);
            times.late += u64::from(result.timing.outcome == Outcome::Late);
        }
        Ok(())
    }

    fn gap(&mut self, _id: FrameId, _gap: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{StageTiming, Timestamp};
    use crate::frame_loop::MockClock;
    use proptest::prelude::*;

    fn result(index: usize, laps: &[(&'static str, u64, u64, Outcome)], all: u64) -> FrameResult {
        let mut result = FrameResult::default();
        result.id.index = index;
        for &(stage, start_ns, duration_ns, outcome) in laps {
            let lap = StageTiming {
                stage,
                start_ns,
                duration_ns,
                outcome,
            };
            result.timing.stages.push(lap).unwrap();
        }
        result.timing.duration_ns = all;
        if all > 1000 {
            result.timing.outcome = Outcome::Late;
            result.gaps.insert(Gap::Late);
        }
        result
    }

    #[test]
    fn what_is_counted_adds_up_and_the_warm_up_is_left_out() {
        let mut meter = Meter::new(2, 1000);
        let (done, skipped, late) = (Outcome::Done, Outcome::Skipped, Outcome::Late);
        for result in [
            result(1, &[("stereo", 0, 9999, done)], 9999),
            result(
                2,
                &[("stereo", 5, 400, done), ("logo", 405, 0, skipped)],
                410,
            ),
            result(
                3,
                &[("stereo", 5, 500, done), ("logo", 505, 700, late)],
                1205,
            ),
            result(
                4,
                &[("stereo", 5, 1500, done), ("logo", 1505, 0, skipped)],
                1510,
            ),
        ] {
            meter.frame(View::default(), &result).unwrap();
        }
        let id = |index| FrameId {
            index,
            ..FrameId::default()
        };
        meter.gap(id(0), Gap::Dropped).unwrap();
        meter.gap(id(5), Gap::Dropped).unwrap();
        meter.gap(id(5), Gap::CameraLost).unwrap();
        assert_eq!((meter.frames, meter.without), (3, 1));
        assert_eq!((meter.late, meter.required_late), (2, 1));
        let stereo = &meter.stages[StageId::Stereo as usize];
        assert_eq!(stereo.outcomes, [3, 0, 0, 0]);
        assert_eq!(stereo.times.max_ns(), 1500);
        assert_eq!(meter.stages[StageId::Logo as usize].outcomes, [0, 0, 1, 2]);
        assert_eq!(meter.required.count(), 3);
        assert_eq!(meter.required.max_ns(), 1505);
        // 795 and 305.
        assert_eq!(meter.frame.jitter.count(), 2);
        assert_eq!(meter.frame.jitter.max_ns(), 795);
        assert_eq!(meter.gaps[Gap::Dropped as usize], 1);
        assert_eq!(meter.gaps[Gap::Late as usize], 2);
    }

    #[test]
    fn handing_out_is_measured_from_the_arrival() {
        let clock = MockClock::at(Timestamp(10_000));
        let times = Arc::<Mutex<HandedOut>>::default();
        struct Lent<'a>(&'a MockClock);
        impl Clock for Lent<'_> {
            fn now(&self) -> Timestamp {
                self.0.now()
            }
            fn sleep_until(&self, until: Timestamp) {
                self.0.sleep_until(until);
            }
        }
        let mut sink = HandOut::new(Lent(&clock), 1, 500, &times);
        for (index, ago) in [(0, 9999), (1, 500), (2, 499), (3, 1100)] {
            let mut result = result(index, &[], ago);
            result.timing.start = Timestamp(10_000 - ago);
            sink.frame(View::default(), &result).unwrap();
        }
        let times = times.lock().unwrap();
        assert_eq!((times.early, times.late), (1, 1));
        assert_eq!(times.course.times.count(), 3);
        assert_eq!(times.course.times.max_ns(), 1100);
        assert_eq!(times.course.jitter.count(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn quantiles_are_those_of_the_sorted_durations_to_three_digits(
            all in prop::collection::vec(1u64..50_000_000_000, 1..400)
        ) {
            let mut times = Times::default();
            all.iter().for_each(|&ns| times.record(ns));
            let mut sorted = all.clone();
            sorted.sort_unstable();
            for q in [0.5, 0.9, 0.99, 0.999, 0.9999] {
                let rank = (q * all.len() as f64).ceil() as usize;
                let exact = sorted[rank.max(1) - 1];
                let found = times.quantile_ns(q);
                prop_assert!(found.abs_diff(exact) <= exact / 1000 + 1, "{q}: {found}, {exact}");
            }
            prop_assert_eq!(times.counts().map(|c| c.1).sum::<u64>(), all.len() as u64);
            prop_assert_eq!(times.max_ns(), sorted[all.len() - 1]);
        }
    }
}
