//! What a stage is expected to take, learnt from its last runs, in bounded memory.

/// Durations remembered a stage.
const WINDOW: usize = 64;

/// Runs after which the measured p99 replaces the configured budget.
const LEARNT: usize = 8;

/// The expected duration of one stage.
///
/// Until [`LEARNT`] runs are known it is the configured budget, then the p99 of the last
/// [`WINDOW`] runs (their second largest from 100 on, so with this window the largest). Each
/// skipped run forgets the oldest duration: a stage that was slow for a while is tried again
/// after at most [`WINDOW`] skips instead of never.
#[derive(Clone, Debug)]
pub struct Expectation {
    budget_ns: u64,
    window: heapless::Deque<u64, WINDOW>,
}

impl Expectation {
    /// Nothing measured yet: expects the budget.
    pub fn new(budget_ns: u64) -> Self {
        Self {
            budget_ns,
            window: heapless::Deque::new(),
        }
    }

    /// Notes a run.
    pub fn measured(&mut self, duration_ns: u64) {
        if self.window.is_full() {
            self.window.pop_front();
        }
        // Not full: just made sure.
        let _ = self.window.push_back(duration_ns);
    }

    /// Notes that a run was skipped.
    pub fn skipped(&mut self) {
        self.window.pop_front();
    }

    /// What the next run is expected to take at most, ns.
    pub fn expected_ns(&self) -> u64 {
        if self.window.len() < LEARNT {
            return self.budget_ns;
        }
        self.window.iter().copied().max().unwrap_or(self.budget_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_counts_until_enough_is_measured() {
        let mut e = Expectation::new(1000);
        for _ in 0..LEARNT - 1 {
            e.measured(10);
            assert_eq!(e.expected_ns(), 1000);
        }
        e.measured(12);
        assert_eq!(e.expected_ns(), 12);
    }

    #[test]
    fn an_old_peak_is_forgotten() {
        let mut e = Expectation::new(1000);
        e.measured(5000);
        for _ in 0..WINDOW - 1 {
            e.measured(10);
        }
        assert_eq!(e.expected_ns(), 5000);
        e.measured(10);
        assert_eq!(e.expected_ns(), 10);
    }

    #[test]
    fn a_stage_that_was_slow_is_tried_again() {
        let mut e = Expectation::new(1000);
        for _ in 0..WINDOW {
            e.measured(5000);
        }
        let skips = (0..).take_while(|_| {
            let skip = e.expected_ns() > 2000;
            if skip {
                e.skipped();
            }
            skip
        });
        assert_eq!(skips.count(), WINDOW - LEARNT + 1);
    }
}
