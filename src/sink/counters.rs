//! What the loop has done, in atomics: counted by the loop, read by any thread at any time.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Sink, SinkError, View};
use crate::{
    frame::{FrameId, FrameResult, Gap, Outcome, Timestamp},
    frame_loop::StageId,
};

/// Upper ends of the buckets, microseconds; what is longer counts in one more.
pub const BUCKETS_US: [u64; 20] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 33_333, 50_000, 66_667,
    100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
];

/// Durations in buckets.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Durations {
    pub(super) fn record(&self, ns: u64) {
        let at = BUCKETS_US.partition_point(|&us| us * 1000 < ns);
        self.buckets[at].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
    }

    /// How many in each bucket; the last has no upper end.
    pub fn buckets(&self) -> [u64; BUCKETS_US.len() + 1] {
        std::array::from_fn(|n| self.buckets[n].load(Relaxed))
    }

    /// All together, ns.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Relaxed)
    }

    /// The longest, ns.
    pub fn max_ns(&self) -> u64 {
        self.max_ns.load(Relaxed)
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.buckets().iter().sum()
    }

    /// This quantile (0 to 1), ns, as if the durations of a bucket lay evenly in it: up to the
    /// longest.
    pub fn estimate_ns(&self, q: f64) -> u64 {
        let buckets = self.buckets();
        let all: u64 = buckets.iter().sum();
        let wanted = q * all as f64;
        let (mut seen, mut from) = (0u64, 0u64);
        for (&n, us) in buckets.iter().zip(BUCKETS_US) {
            let to = (us * 1000).min(self.max_ns());
            if n > 0 && (seen + n) as f64 >= wanted {
                let share = ((wanted - seen as f64) / n as f64).clamp(0.0, 1.0);
                return from + (to.saturating_sub(from) as f64 * share) as u64;
            }
            seen += n;
            from = to;
        }
        self.max_ns()
    }
}

/// How one stage does.
#[derive(Debug, Default)]
pub struct StageCounters {
    /// Of the runs.
    pub durations: Durations,
    outcomes: [AtomicU64; 4],
}

impl StageCounters {
    /// How often it ended so.
    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Relaxed)
    }
}

/// What the loop has done so far.
#[derive(Debug, Default)]
pub struct Counters {
    frames: AtomicU64,
    gaps: [AtomicU64; Gap::ALL.len()],
    /// From a frame's arrival (live: its stamp) to its result.
    pub latency: Durations,
    /// Differences of the latencies of one frame and the next.
    pub jitter: Durations,
    stages: [StageCounters; StageId::ORDER.len()],
    last_index: AtomicU64,
    last_stamp: AtomicU64,
    last_latency: AtomicU64,
}

impl Counters {
    /// Frames with a result.
    pub fn frames(&self) -> u64 {
        self.frames.load(Relaxed)
    }

    /// How often there was this gap.
    pub fn gap(&self, gap: Gap) -> u64 {
        self.gaps[gap as usize].load(Relaxed)
    }

    /// How a stage does.
    pub fn stage(&self, stage: StageId) -> &StageCounters {
        &self.stages[stage as usize]
    }

    /// Place and stamp of the last frame that was heard of.
    pub fn last(&self) -> (u64, Timestamp) {
        let stamp = Timestamp(self.last_stamp.load(Relaxed));
        (self.last_index.load(Relaxed), stamp)
    }

    fn heard(&self, id: FrameId) {
        self.last_index.store(id.index as u64, Relaxed);
        self.last_stamp.store(id.timestamp.0, Relaxed);
    }

    /// Counts a result.
    pub fn count(&self, result: &FrameResult) {
        self.heard(result.id);
        for gap in result.gaps.iter() {
            self.gaps[gap as usize].fetch_add(1, Relaxed);
        }
        for timing in &result.timing.stages {
            let Some(stage) = StageId::ORDER.iter().find(|s| s.name() == timing.stage) else {
                continue;
            };
            let counters = self.stage(*stage);
            counters.outcomes[timing.outcome as usize].fetch_add(1, Relaxed);
            if timing.outcome != Outcome::Skipped {
                counters.durations.record(timing.duration_ns);
            }
        }
        let latency = result.timing.duration_ns;
        self.latency.record(latency);
        let before = self.last_latency.swap(latency, Relaxed);
        // Only the loop counts, so that this is the number of results before this one.
        if self.frames.fetch_add(1, Relaxed) > 0 {
            self.jitter.record(latency.abs_diff(before));
        }
    }

    /// Counts a frame without a result.
    pub fn count_gap(&self, id: FrameId, gap: Gap) {
        self.heard(id);
        self.gaps[gap as usize].fetch_add(1, Relaxed);
    }
}

impl Sink for &Counters {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.count(result);
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.count_gap(id, gap);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::StageTiming;

    fn result(index: usize, duration_ns: u64, outcome: Outcome) -> FrameResult {
        let mut result = FrameResult::default();
        result.id.index = index;
        result.timing.duration_ns = duration_ns;
        let stage = StageTiming {
            stage: "stereo",
            start_ns: 0,
            duration_ns: duration_ns / 2,
            outcome,
        };
        result.timing.stages.push(stage).unwrap();
        result
    }

    #[test]
    fn results_and_gaps_are_counted() {
        let counters = Counters::default();
        counters.count(&result(0, 1_000_000, Outcome::Done));
        let mut late = result(1, 3_000_000, Outcome::Late);
        late.gaps.insert(Gap::Late);
        counters.count(&late);
        counters.count(&result(2, 0, Outcome::Skipped));
        let id = FrameId {
            index: 3,
            number: 3,
            timestamp: Timestamp(77),
        };
        counters.count_gap(id, Gap::Dropped);
        assert_eq!(counters.frames(), 3);
        assert_eq!(
            (counters.gap(Gap::Late), counters.gap(Gap::Dropped)),
            (1, 1)
        );
        assert_eq!(counters.last(), (3, Timestamp(77)));
        let stereo = counters.stage(StageId::Stereo);
        assert_eq!(stereo.durations.count(), 2);
        assert_eq!(stereo.outcome(Outcome::Skipped), 1);
        assert_eq!(counters.latency.max_ns(), 3_000_000);
        assert_eq!(counters.jitter.count(), 2);
        assert_eq!(counters.jitter.sum_ns(), 5_000_000);
    }

    #[test]
    fn durations_fall_into_the_bucket_that_holds_them() {
        let durations = Durations::default();
        for us in [10, 11, 20, 5_000_000, 5_000_001] {
            durations.record(us * 1000);
        }
        let buckets = durations.buckets();
        assert_eq!(buckets[..3], [1, 2, 0]);
        assert_eq!(buckets[BUCKETS_US.len() - 1..], [1, 1]);
        // Two of five lie in it: one is half of them.
        assert_eq!(durations.estimate_ns(0.4), 15_000);
        assert_eq!(durations.estimate_ns(0.6), 20_000);
        assert_eq!(durations.estimate_ns(1.0), 5_000_001_000);
        assert_eq!(Durations::default().estimate_ns(0.99), 0);
    }
}
