//! What a unit is expected to take, learnt from its runs, and whether it is launched.
//!
//! Everything here is a function of recorded numbers: of what was left of the deadline before each
//! launch and of what each run took. There is no clock and no memory that grows.
use super::{AdmissionConfig, window::Window};

/// Durations remembered a unit.
const WINDOW: usize = 256;

/// Runs, warm-up aside, after which the measured p99 replaces the configured budget.
pub(super) const LEARNT: usize = 8;

/// The longest pause before a unit that takes too long is tried again, as a multiple of the
/// configured one.
const LONGEST_PAUSE: u32 = 16;

/// Whether a unit is being launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// As long as it fits; for so many runs by now.
    On { runs: u32 },
    /// It did not fit. Frames in a row in which it would have fitted with the margin, and how many
    /// frames ago the next one's last launch will be.
    Off { fits: u32, frames: u32 },
    /// Launched to see whether it is as slow as it was, with so much left.
    Trial { left_ns: u64 },
}

/// The expected duration of one unit, and its admission.
///
/// | | expected |
/// |---|---|
/// | until [`LEARNT`] runs are known, those of the warm-up aside | the configured budget |
/// | then | the p99 of the last [`WINDOW`] runs |
/// | after a trial, until [`LEARNT`] runs are known again | the longest since, and the margin |
///
/// A unit that is expected to take longer than what is left is skipped. It comes back
/// - when it would have fitted, with a margin, in `readmit_frames` frames in a row: the stages
///   before it are quick again;
/// - or, where that never happens, after a trial: `retry_frames` after its last launch it is launched
///   once where its budget, or the least that it ever took, fits, and what it took then is what is
///   known of it. Each
///   trial in vain doubles the pause, up to [`LONGEST_PAUSE`] times.
#[derive(Clone, Debug)]
pub struct Expectation {
    config: AdmissionConfig,
    budget_ns: u64,
    /// Runs left that are not learnt from.
    warm_up: u32,
    learnt: bool,
    window: Window<WINDOW>,
    /// The least that a run ever took.
    least_ns: u64,
    state: State,
    pause: u32,
}

impl Expectation {
    /// Nothing measured yet: expects the budget.
    pub fn new(budget_ns: u64, config: &AdmissionConfig) -> Self {
        Self {
            budget_ns,
            warm_up: config.warm_up_runs,
            learnt: false,
            window: Window::default(),
            least_ns: u64::MAX,
            state: State::On { runs: 0 },
            pause: config.retry_frames,
            config: config.clone(),
        }
    }

    /// Whether it is launched with so much left of the deadline. Where this says yes the unit is
    /// to be run and [`Expectation::measured`] to be told.
    pub fn admits(&mut self, left_ns: u64) -> bool {
        let (state, admitted) = self.decide(left_ns);
        self.state = state;
        admitted
    }

    /// Whether it would be.
    pub fn would_admit(&self, left_ns: u64) -> bool {
        self.decide(left_ns).1
    }

    fn decide(&self, left_ns: u64) -> (State, bool) {
        let expected = self.expected_ns();
        let (fits, frames) = match self.state {
            State::Off { fits, frames } => (fits, frames),
            on if left_ns >= expected => return (on, true),
            _ => return (State::Off { fits: 0, frames: 2 }, false),
        };
        let with_margin = expected.saturating_add(margin(&self.config, expected));
        let roomy = left_ns >= with_margin;
        let fits = if roomy { fits + 1 } else { 0 };
        if fits >= self.config.readmit_frames {
            return (State::On { runs: 0 }, true);
        }
        let least = if self.learnt {
            self.budget_ns.min(self.least_ns)
        } else {
            self.budget_ns
        };
        if frames >= self.pause && !roomy && left_ns >= least {
            return (State::Trial { left_ns }, true);
        }
        let frames = frames.saturating_add(1);
        (State::Off { fits, frames }, false)
    }

    /// Whether it is launched as a matter of course, where it fits.
    pub fn runs(&self) -> bool {
        matches!(self.state, State::On { .. })
    }

    /// It was launched and had nothing to run on: that says nothing of what it takes.
    pub fn idle(&mut self) {
        if let State::Trial { .. } = self.state {
            let frames = self.pause;
            self.state = State::Off { fits: 0, frames };
        }
    }

    /// Notes what a run took.
    pub fn measured(&mut self, duration_ns: u64) {
        self.least_ns = self.least_ns.min(duration_ns);
        if let State::Trial { left_ns } = self.state {
            self.tried(duration_ns, left_ns);
            return;
        }
        if let State::On { runs } = &mut self.state {
            *runs = runs.saturating_add(1);
            if *runs >= self.pause.saturating_mul(2) {
                self.pause = self.config.retry_frames;
            }
        }
        if self.warm_up > 0 {
            self.warm_up -= 1;
            return;
        }
        self.window.push(duration_ns);
        self.learnt |= self.window.len() >= LEARNT;
    }

    fn tried(&mut self, duration_ns: u64, left_ns: u64) {
        let longest = self.config.retry_frames.saturating_mul(LONGEST_PAUSE);
        self.pause = self.pause.saturating_mul(2).min(longest);
        if self.warm_up > 0 {
            self.warm_up -= 1;
        } else if self.learnt {
            self.window.restart(duration_ns);
        } else {
            self.window.push(duration_ns);
            self.learnt = self.window.len() >= LEARNT;
        }
        let needed = duration_ns.saturating_add(margin(&self.config, duration_ns));
        self.state = if needed <= left_ns {
            State::On { runs: 0 }
        } else {
            State::Off { fits: 0, frames: 1 }
        };
    }

    /// What the next run is expected to take at most, ns.
    pub fn expected_ns(&self) -> u64 {
        match self.window.p99() {
            Some(p99) if self.learnt && self.window.len() >= LEARNT => p99,
            Some(p99) if self.learnt => p99.saturating_add(margin(&self.config, p99)),
            _ => self.budget_ns,
        }
    }
}

/// What a unit takes from its launch to its result when others are under way beside it: whether it
/// may be launched with them.
///
/// That is the longest of the last [`TOGETHER`] times. They are forgotten after a pause of
/// `retry_frames` without such a launch, so that one stall keeps nothing apart for good.
#[derive(Clone, Debug)]
pub struct Together {
    window: Window<TOGETHER>,
    pause: u32,
    apart: u32,
    able: bool,
}

/// Launches remembered.
const TOGETHER: usize = 64;

impl Together {
    /// Nothing is known.
    pub fn new(config: &AdmissionConfig) -> Self {
        Self {
            window: Window::default(),
            pause: config.retry_frames,
            apart: 0,
            able: false,
        }
    }

    /// Whether nothing that is known speaks against it, with so much left of the deadline.
    pub fn fits(&self, left_ns: u64) -> bool {
        self.window.p99().is_none_or(|longest| longest <= left_ns)
    }

    /// Whether it was launched so the last time that this was tried.
    pub fn is_able(&self) -> bool {
        self.able
    }

    /// It was tried: whether it could be launched so.
    pub fn tried(&mut self, able: bool) {
        self.able = able;
    }

    /// Notes a launch together with others.
    pub fn measured(&mut self, duration_ns: u64) {
        self.apart = 0;
        self.window.push(duration_ns);
    }

    /// Notes that it waited for the required ones.
    pub fn waited(&mut self) {
        self.apart += 1;
        if self.apart >= self.pause {
            self.apart = 0;
            self.window = Window::default();
        }
    }
}

fn margin(config: &AdmissionConfig, ns: u64) -> u64 {
    (u128::from(ns) * u128::from(config.readmit_margin_percent) / 100) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config() -> AdmissionConfig {
        AdmissionConfig {
            warm_up_runs: 2,
            readmit_frames: 3,
            readmit_margin_percent: 10,
            retry_frames: 6,
            ..AdmissionConfig::default()
        }
    }

    fn fresh() -> Expectation {
        Expectation::new(1000, &config())
    }

    /// One frame: whether it was launched.
    fn frame(e: &mut Expectation, left: u64, takes: u64) -> bool {
        let admitted = e.admits(left);
        if admitted {
            e.measured(takes);
        }
        admitted
    }

    fn learnt(takes: u64) -> Expectation {
        let mut e = fresh();
        for _ in 0..2 + LEARNT {
            assert!(frame(&mut e, 5000, takes));
        }
        e
    }

    #[test]
    fn the_budget_counts_until_enough_is_measured_and_the_warm_up_is_left_out() {
        let mut e = fresh();
        for takes in [900_000, 800_000] {
            e.measured(takes);
        }
        for _ in 0..LEARNT - 1 {
            e.measured(10);
            assert_eq!(e.expected_ns(), 1000);
        }
        e.measured(12);
        assert_eq!(e.expected_ns(), 12);
    }

    #[test]
    fn an_old_peak_is_forgotten() {
        let mut e = learnt(10);
        e.measured(5000);
        assert_eq!(e.expected_ns(), 5000);
        // One in a hundred is what a p99 leaves out.
        for _ in 0..100 {
            e.measured(10);
        }
        assert_eq!(e.expected_ns(), 10);
    }

    #[test]
    fn it_comes_back_only_after_it_would_have_fitted_several_times() {
        let mut e = learnt(1000);
        assert!(!frame(&mut e, 999, 1000));
        // With the margin 1100 must be left, three times in a row.
        let left = [1100, 1099, 1100, 1100, 1100, 1000];
        let launched = left.map(|left| frame(&mut e, left, 1000));
        assert_eq!(launched, [false, false, false, false, true, true]);
    }

    #[test]
    fn a_unit_that_was_slow_is_tried_again_with_longer_and_longer_pauses() {
        let mut e = learnt(1000);
        e.measured(5000);
        let launches: Vec<usize> = (1..=300).filter(|_| frame(&mut e, 2000, 5000)).collect();
        // 6 frames after its last launch, then 12, 24, 48, 96, and no more than 96.
        assert_eq!(launches, [6, 18, 42, 90, 186, 282]);
        // The cause is gone: at the next trial it is back for good.
        let back = (0..200).position(|_| frame(&mut e, 2000, 1000)).unwrap();
        assert!(back <= 96, "{back}");
        assert!((0..300).all(|_| frame(&mut e, 2000, 1000)));
        // And what it learnt in the bad times is forgotten: the pauses are short again.
        e.measured(5000);
        e.measured(5000);
        e.measured(5000);
        let launches: Vec<usize> = (1..=20).filter(|_| frame(&mut e, 2000, 5000)).collect();
        assert_eq!(launches, [6, 18]);
    }

    #[test]
    fn one_that_does_not_even_fit_at_its_best_is_not_tried() {
        let mut e = learnt(1000);
        assert!((0..500).all(|_| !frame(&mut e, 800, 1000)));
        let mut unknown = fresh();
        assert!((0..500).all(|_| !frame(&mut unknown, 999, 1)));
        assert_eq!((0..50).filter(|_| frame(&mut unknown, 1000, 1)).count(), 50);
    }

    #[test]
    fn what_is_launched_beside_others_is_remembered_until_a_pause_without() {
        let mut together = Together::new(&config());
        assert!(together.fits(0));
        for took in [300, 900, 400] {
            together.measured(took);
        }
        (0..5).for_each(|_| together.waited());
        assert!(together.fits(900) && !together.fits(899));
        together.waited();
        assert!(together.fits(0));
        // A peak is forgotten when as many have come after it as are remembered.
        together.measured(900);
        (0..TOGETHER).for_each(|_| together.measured(5));
        assert!(together.fits(5) && !together.fits(4));
    }

    struct Past {
        left: u64,
        expected: u64,
        /// What it took, where it was launched.
        took: Option<u64>,
        trial: bool,
    }

    impl Past {
        fn roomy(&self) -> bool {
            self.left >= self.expected + self.expected / 10
        }

        fn in_vain(&self) -> bool {
            self.trial && self.took.is_some_and(|t| t + t / 10 > self.left)
        }
    }

    /// What is to be expected after all that ever happened, without an eye on time and memory.
    fn slow_expectation(past: &[Past]) -> u64 {
        let (mut runs, mut learnt): (Vec<u64>, _) = (vec![], false);
        let launched = past.iter().filter_map(|f| Some((f.took?, f.trial)));
        for (took, trial) in launched.skip(2) {
            if trial && learnt {
                runs.clear();
            }
            runs.push(took);
            learnt |= runs.len() >= LEARNT;
        }
        let mut last: Vec<u64> = runs.iter().rev().take(WINDOW).copied().collect();
        last.sort_unstable();
        let rank = (0.99 * last.len() as f64).ceil() as usize;
        match (learnt, last.len()) {
            (true, n) if n >= LEARNT => last[rank - 1],
            (true, _) => last[rank - 1] + last[rank - 1] / 10,
            (false, _) => 1000,
        }
    }

    proptest! {
        /// What is left and what a run takes, in stretches: stages are slow for a while.
        #[test]
        fn it_expects_what_all_that_happened_says_and_does_not_flap(
            stretches in prop::collection::vec((500u64..4000, 200u64..3000, 1usize..60), 1..20)
        ) {
            let mut e = fresh();
            let mut past: Vec<Past> = Vec::new();
            for (left, takes, frames) in stretches {
                for n in 0..frames as u64 {
                    // Not all alike.
                    let takes = takes + 7 * (n % 5);
                    let expected = slow_expectation(&past);
                    prop_assert_eq!(e.expected_ns(), expected);
                    let admitted = e.admits(left);
                    let mut this = Past { left, expected, took: admitted.then_some(takes), trial: false };
                    let skips = past.iter().rev().take_while(|f| f.took.is_none()).count();
                    if skips == 0 {
                        let in_vain = past.last().is_some_and(Past::in_vain);
                        prop_assert_eq!(admitted, left >= expected && !in_vain);
                    } else {
                        let row = past[past.len() - skips..].iter().rev().take(2);
                        let steady = row.filter(|f| f.roomy()).count() == 2 && this.roomy();
                        prop_assert!(admitted || !steady);
                        this.trial = admitted && !steady;
                        if this.trial {
                            let learnt = past.iter().filter(|f| f.took.is_some()).count() >= 2 + LEARNT;
                            let least = past.iter().filter_map(|f| f.took).min().filter(|_| learnt);
                            prop_assert!(skips >= 5 && !this.roomy(), "{} skips", skips);
                            prop_assert!(left >= least.unwrap_or(1000).min(1000));
                        }
                    }
                    if admitted {
                        e.measured(takes);
                    }
                    past.push(this);
                }
            }
        }

        /// Whatever has happened: with room for it, it is back within the longest pause, and stays.
        #[test]
        fn recovery_is_complete(
            past in prop::collection::vec((0u64..10_000, 0u64..10_000), 0..400),
            takes in 100u64..1000,
        ) {
            let mut e = fresh();
            for (left, takes) in past {
                frame(&mut e, left, takes);
            }
            for _ in 0..2 * 96 {
                frame(&mut e, 2000, takes);
            }
            for _ in 0..300 {
                prop_assert!(frame(&mut e, 2000, takes));
            }
        }

        #[test]
        fn the_same_numbers_give_the_same_decisions(
            past in prop::collection::vec((0u64..4000, 0u64..4000), 0..300)
        ) {
            let decide = || -> Vec<bool> {
                let mut e = fresh();
                past.iter().map(|&(left, takes)| frame(&mut e, left, takes)).collect()
            };
            prop_assert_eq!(decide(), decide());
        }
    }
}
