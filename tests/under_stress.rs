//! What becomes of a frame when something beside it goes wrong for a while? With a mock clock and a
//! backend that takes what the test says. Nothing here sleeps.
use std::{cell::RefCell, collections::VecDeque, sync::atomic::AtomicBool};

use proptest::prelude::*;
use roadloop::{
    frame::{
        Decisions, FrameId, FrameResult, FrameSet, Gap, MonoFrame, Outcome, PixelKind, Size,
        Timestamp,
    },
    frame_loop::{
        AdmissionConfig, Backend, BackendError, Clock, FrameLoop, Laps, LoopConfig, LoopError,
        MockClock, Monitor, Pace, Publish, Slot, SlowConfig, StageId, Unit,
    },
    sink::{Sink, SinkError, View},
    source::{Next, Source},
};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 33 * MS;
const START: Timestamp = Timestamp(5_000 * MS);
const SIZE: Size = Size {
    width: 4,
    height: 3,
};

const STEREO: Unit = Unit {
    stages: &[
        StageId::Rectify,
        StageId::Stereo,
        StageId::Road,
        StageId::Stixel,
    ],
};
const FOREGROUND: Unit = Unit {
    stages: &[StageId::Egomotion, StageId::Foreground],
};
const LOGO: Unit = Unit {
    stages: &[StageId::Logo],
};
const FOREST: Unit = Unit {
    stages: &[StageId::Forest],
};
/// As the chain has them; and at the granularity of a CPU.
const GRAPHS: [Unit; 4] = [STEREO, FOREGROUND, LOGO, FOREST];
const ALONE: [Unit; 7] = [
    Unit {
        stages: &[StageId::Rectify],
    },
    Unit {
        stages: &[StageId::Stereo],
    },
    Unit {
        stages: &[StageId::Road],
    },
    Unit {
        stages: &[StageId::Stixel],
    },
    FOREGROUND,
    LOGO,
    FOREST,
];

/// In quiet times, all together: 28 of 33 ms.
fn quiet(stage: StageId) -> u64 {
    MS * match stage {
        StageId::Rectify | StageId::Stereo | StageId::Road | StageId::Stixel => 4,
        StageId::Egomotion | StageId::Foreground => 2,
        StageId::Logo => 3,
        StageId::Forest => 5,
    }
}

fn config() -> LoopConfig {
    let mut config = LoopConfig {
        deadline_us: PERIOD / 1000,
        ..LoopConfig::default()
    };
    let budget = &mut config.budget_us;
    (budget.egomotion, budget.foreground) = (2500, 2500);
    (budget.logo, budget.forest) = (4000, 6000);
    config
}

enum Step {
    Frame(usize),
    /// Without the stereo camera's pictures; the mono camera goes on.
    Blind(usize),
    /// Of a recording, with what was decided of it.
    Decided(usize, Decisions),
    /// The disk hangs for so long.
    Stall(u64),
    /// No camera says anything for so long.
    Gone(u64),
}

struct Script<'a> {
    clock: &'a MockClock,
    steps: VecDeque<Step>,
}

fn set(index: usize) -> Box<FrameSet> {
    let mut set = FrameSet::stereo(SIZE);
    set.mono = Some(MonoFrame::new(PixelKind::Grey8, SIZE));
    set.id = FrameId {
        index,
        number: index as u64,
        timestamp: Timestamp(index as u64 * PERIOD),
    };
    Box::new(set)
}

impl Source for Script<'_> {
    fn next(&mut self, wait_ns: u64) -> Next {
        match self.steps.front_mut() {
            None => return Next::End,
            Some(Step::Stall(_) | Step::Gone(_)) if wait_ns == 0 => return Next::Nothing,
            Some(Step::Gone(left)) if *left > 0 => {
                let now = wait_ns.min(*left);
                *left -= now;
                self.clock.advance_ns(now);
                return Next::Nothing;
            }
            Some(_) => {}
        }
        match self.steps.pop_front() {
            Some(Step::Frame(index)) => Next::Frame(set(index)),
            Some(Step::Blind(index)) => {
                let mut set = set(index);
                set.stereo_gap = Some(Gap::CameraLost);
                Next::Frame(set)
            }
            Some(Step::Decided(index, decisions)) => {
                let mut set = set(index);
                set.decisions = Some(decisions);
                Next::Frame(set)
            }
            Some(Step::Stall(ns)) => {
                self.clock.advance_ns(ns);
                self.next(wait_ns)
            }
            Some(Step::Gone(_)) => self.next(wait_ns),
            None => Next::End,
        }
    }

    fn recycle(&mut self, _set: Box<FrameSet>) {}
}

/// Takes what `cost` says for a frame and a stage.
struct Pretend<'a, F> {
    clock: &'a MockClock,
    units: Vec<Unit>,
    cost: F,
    /// What was launched on which frame, and what was taken out of the slot.
    launched: Vec<(usize, StageId)>,
    withdrawn: Vec<(usize, StageId)>,
}

impl<F: FnMut(usize, StageId) -> u64> Backend for Pretend<'_, F> {
    fn name(&self) -> &'static str {
        "pretend"
    }

    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let frame = slot.set.id.index;
        self.launched.push((frame, self.units[unit].stages[0]));
        let mut from = laps.now();
        for &stage in self.units[unit].stages {
            self.clock.advance_ns((self.cost)(frame, stage));
            from = laps.lap(stage, from);
        }
        Ok(())
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        let stage = self.units[unit].stages[0];
        self.withdrawn.push((slot.set.id.index, stage));
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Frame {
    index: usize,
    late: bool,
    /// From its arrival until its required stages were complete, and until all was.
    required_ns: Option<u64>,
    lag_ns: u64,
    stages: Vec<(&'static str, Outcome)>,
    gaps: Vec<Gap>,
}

impl Frame {
    fn outcome(&self, stage: StageId) -> Outcome {
        let named = |s: &&(&str, Outcome)| s.0 == stage.name();
        self.stages.iter().find(named).unwrap().1
    }
}

/// What came out, and a disk that hangs for a while in one frame.
#[derive(Default)]
struct Seen<'a> {
    frames: Vec<Frame>,
    gaps: Vec<(usize, Gap)>,
    hangs: Option<(usize, u64, &'a MockClock)>,
}

impl Sink for Seen<'_> {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let timing = &result.timing;
        let required = timing.stages.iter().filter(|s| {
            let id = StageId::named(s.stage).unwrap();
            id.required() && s.outcome != Outcome::Skipped
        });
        self.frames.push(Frame {
            index: result.id.index,
            late: timing.outcome == Outcome::Late,
            required_ns: required.map(|s| s.start_ns + s.duration_ns).max(),
            lag_ns: timing.duration_ns,
            stages: timing.stages.iter().map(|s| (s.stage, s.outcome)).collect(),
            gaps: result.gaps.iter().collect(),
        });
        if let Some((frame, ns, clock)) = self.hangs
            && frame == result.id.index
        {
            clock.advance_ns(ns);
        }
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.gaps.push((id.index, gap));
        Ok(())
    }
}

struct Ran {
    frames: Vec<Frame>,
    gaps: Vec<(usize, Gap)>,
    launched: Vec<(usize, StageId)>,
    withdrawn: Vec<(usize, StageId)>,
    ended: Result<(), LoopError>,
}

impl Ran {
    fn frame(&self, index: usize) -> &Frame {
        self.frames.iter().find(|f| f.index == index).unwrap()
    }

    /// Frames on which a stage ended so.
    fn ended(&self, stage: StageId, outcome: Outcome) -> Vec<usize> {
        let so = |f: &&Frame| f.outcome(stage) == outcome;
        self.frames.iter().filter(so).map(|f| f.index).collect()
    }

    /// Required stages keep the deadline, and what is not there is named.
    #[track_caller]
    fn hold(&self) {
        self.hold_but(&[]);
    }

    /// The same, but for frames that could not begin in time.
    #[track_caller]
    fn hold_but(&self, late: &[usize]) {
        for frame in &self.frames {
            if let Some(ns) = frame.required_ns {
                assert_eq!(ns > PERIOD, late.contains(&frame.index), "{frame:?}");
            }
            let any = |o| frame.stages.iter().any(|s| s.1 == o);
            let named = |gap| frame.gaps.contains(&gap);
            let blind = named(Gap::CameraLost);
            assert_eq!(
                any(Outcome::Skipped),
                named(Gap::Skipped) || blind,
                "{frame:?}"
            );
            assert_eq!(
                any(Outcome::Late) || frame.late,
                named(Gap::Late),
                "{frame:?}"
            );
        }
    }

    /// From a frame on all is as in quiet times.
    #[track_caller]
    fn recovered(&self, from: usize, until: usize) {
        let lag: u64 = StageId::ORDER.map(quiet).iter().sum();
        for index in from..until {
            let frame = self.frame(index);
            assert_eq!((frame.late, frame.lag_ns), (false, lag), "{frame:?}");
            assert!(frame.gaps.is_empty(), "{frame:?}");
        }
    }
}

fn run_with(
    config: &LoopConfig,
    pace: Pace,
    units: &[Unit],
    steps: Vec<Step>,
    hangs: Option<(usize, u64)>,
    cost: impl FnMut(usize, StageId) -> u64,
) -> Ran {
    let clock = MockClock::at(START);
    let mut source = Script {
        clock: &clock,
        steps: steps.into(),
    };
    let mut backend = Pretend {
        clock: &clock,
        units: units.to_vec(),
        cost,
        launched: Vec::new(),
        withdrawn: Vec::new(),
    };
    let slot = Slot::stereo(SIZE, 5, 8);
    let mut seen = Seen {
        hangs: hangs.map(|(frame, ns)| (frame, ns, &clock)),
        ..Seen::default()
    };
    let ended = FrameLoop::new(&mut backend, &clock, slot, config, pace).run(
        &mut source,
        &mut seen,
        &AtomicBool::new(false),
    );
    Ran {
        frames: seen.frames,
        gaps: seen.gaps,
        launched: backend.launched,
        withdrawn: backend.withdrawn,
        ended,
    }
}

fn run(units: &[Unit], steps: Vec<Step>, cost: impl FnMut(usize, StageId) -> u64) -> Ran {
    let ran = run_with(&config(), Pace::Realtime, units, steps, None, cost);
    assert!(ran.ended.is_ok());
    ran
}

fn frames(n: usize) -> Vec<Step> {
    (0..n).map(Step::Frame).collect()
}

#[test]
fn a_required_stage_three_times_slower_costs_the_least_important_stages() {
    for units in [&GRAPHS[..], &ALONE] {
        let ran = run(units, frames(300), |frame, stage| {
            let slow = (100..200).contains(&frame) && stage == StageId::Stereo;
            quiet(stage) * if slow { 3 } else { 1 }
        });
        ran.hold();
        assert_eq!((ran.frames.len(), ran.gaps.len()), (300, 0));
        assert!(ran.frames.iter().all(|f| !f.late));
        // 24 ms for what is required, 7 for foreground and logos: 2 are no room for the forest.
        let skipped: Vec<usize> = (100..204).collect();
        assert_eq!(ran.ended(StageId::Forest, Outcome::Skipped), skipped);
        assert_eq!(ran.ended(StageId::Logo, Outcome::Skipped), [0; 0]);
        ran.recovered(0, 100);
        ran.recovered(204, 300);
    }
}

#[test]
fn what_is_skipped_first_is_configured() {
    let mut config = config();
    config.admission.importance = vec![StageId::Forest, StageId::Logo, StageId::Foreground];
    let slow = |frame, stage| {
        let slow = (100..200).contains(&frame) && stage == StageId::Stereo;
        quiet(stage) * if slow { 3 } else { 1 }
    };
    let ran = run_with(&config, Pace::Realtime, &GRAPHS, frames(300), None, slow);
    ran.hold();
    // 5 of the 9 ms that are left go to the forest, 3 to the logos.
    assert_eq!(ran.ended(StageId::Forest, Outcome::Skipped), [0; 0]);
    assert_eq!(ran.ended(StageId::Logo, Outcome::Skipped), [0; 0]);
    let skipped: Vec<usize> = (100..204).collect();
    assert_eq!(ran.ended(StageId::Foreground, Outcome::Skipped), skipped);
    assert_eq!(ran.ended(StageId::Egomotion, Outcome::Skipped), skipped);
    let order: Vec<&str> = ran.frame(0).stages.iter().map(|s| s.0).collect();
    assert_eq!(order[4..], ["forest", "logo", "egomotion", "foreground"]);
}

#[test]
fn an_optional_stage_three_times_slower_is_left_out_and_tried_now_and_then() {
    let ran = run(&GRAPHS, frames(500), |frame, stage| {
        let slow = (100..200).contains(&frame) && stage == StageId::Forest;
        quiet(stage) * if slow { 3 } else { 1 }
    });
    ran.hold();
    assert_eq!((ran.frames.len(), ran.gaps.len()), (500, 0));
    // The first of them nobody could foresee; after 30 frames, and after 60 more, it is tried.
    let late = [100, 130, 190];
    assert_eq!(ran.ended(StageId::Forest, Outcome::Late), late);
    let withdrawn = |index: &usize| ran.withdrawn.contains(&(*index, StageId::Forest));
    assert!(late.iter().all(withdrawn));
    // 120 frames after its last launch it is tried again, and is as quick as it was.
    let skipped = ran.ended(StageId::Forest, Outcome::Skipped);
    assert_eq!(skipped.last(), Some(&309));
    assert_eq!(skipped.len(), 310 - 100 - late.len());
    ran.recovered(0, 100);
    ran.recovered(310, 500);
    // The frame after a late one begins late, and is not late itself.
    assert_eq!(ran.frame(101).lag_ns, (38 - 33 + 23) * MS);
}

#[test]
fn a_gpu_that_is_shared_for_a_while_gives_what_is_required() {
    // Everything takes half as long again.
    let ran = run(&GRAPHS, frames(400), |frame, stage| {
        let shared = (100..200).contains(&frame);
        quiet(stage) * if shared { 3 } else { 2 } / 2
    });
    ran.hold();
    assert_eq!((ran.frames.len(), ran.gaps.len()), (400, 0));
    let late: Vec<usize> = (ran.frames.iter().filter(|f| f.late))
        .map(|f| f.index)
        .collect();
    // In frame 100 logos were expected to take 3 of the 3 ms that were left; twice they are tried.
    assert_eq!(late, [100, 130, 190]);
    assert_eq!(ran.ended(StageId::Foreground, Outcome::Skipped), [0; 0]);
    ran.recovered(0, 100);
    ran.recovered(204, 400);
}

#[test]
fn a_stall_of_the_disk_costs_the_frames_that_it_lasts() {
    // Where the drive comes from.
    let mut steps = frames(50);
    steps.push(Step::Stall(200 * MS));
    steps.extend((50..150).map(Step::Frame));
    let read = run(&GRAPHS, steps, |_, stage| quiet(stage));
    // Where results go to, if it were in the loop's thread.
    let hangs = Some((49, 200 * MS));
    let config = config();
    let written = run_with(
        &config,
        Pace::Realtime,
        &GRAPHS,
        frames(150),
        hangs,
        |_, s| quiet(s),
    );
    for (ran, late) in [(read, &[55][..]), (written, &[55])] {
        ran.hold_but(late);
        assert!(!ran.gaps.is_empty());
        let named = |(index, gap): &(usize, Gap)| (50..57).contains(index) && *gap == Gap::Dropped;
        assert!(ran.gaps.iter().all(named), "{:?}", ran.gaps);
        assert_eq!(ran.frames.len() + ran.gaps.len(), 150);
        ran.recovered(0, 50);
        // One frame begins late, and has no time for all; its stages come back with the next five.
        ran.recovered(64, 150);
    }
}

#[test]
fn a_camera_that_is_gone_is_said_once_and_costs_nothing_when_it_is_back() {
    let mut steps = frames(50);
    steps.push(Step::Gone(3300 * MS));
    steps.extend((150..250).map(Step::Frame));
    let ran = run(&GRAPHS, steps, |_, stage| quiet(stage));
    ran.hold();
    assert_eq!(ran.gaps[0], (49, Gap::CameraLost));
    let dropped = |(index, gap): &(usize, Gap)| *index < 152 && *gap == Gap::Dropped;
    assert!(ran.gaps[1..].iter().all(dropped), "{:?}", ran.gaps);
    ran.recovered(0, 50);
    ran.recovered(160, 250);
}

#[test]
fn without_the_stereo_camera_the_mono_camera_goes_on_and_nothing_is_learnt_of_it() {
    let steps = (0..300).map(|n| match n {
        100..200 => Step::Blind(n),
        _ => Step::Frame(n),
    });
    let ran = run(&GRAPHS, steps.collect(), |_, stage| quiet(stage));
    ran.hold();
    for stage in [StageId::Stereo, StageId::Stixel, StageId::Forest] {
        let skipped = ran.ended(stage, Outcome::Skipped);
        assert_eq!(skipped, (100..200).collect::<Vec<_>>());
    }
    assert_eq!(ran.ended(StageId::Foreground, Outcome::Skipped), [0; 0]);
    assert_eq!(ran.ended(StageId::Logo, Outcome::Skipped), [0; 0]);
    ran.recovered(0, 100);
    ran.recovered(200, 300);
}

#[test]
fn the_fixed_latency_is_what_stages_are_admitted_to() {
    let config = LoopConfig {
        publish: Publish::AtLatency,
        latency_us: 25_000,
        ..config()
    };
    let ran = run_with(
        &config,
        Pace::Realtime,
        &GRAPHS,
        frames(100),
        None,
        |_, s| quiet(s),
    );
    ran.hold();
    // 16 and 7 ms: 2 are left.
    assert!(ran.frames.iter().all(|f| !f.late && f.lag_ns == 23 * MS));
    let skipped = ran.ended(StageId::Forest, Outcome::Skipped);
    assert_eq!(skipped.len(), 100);
}

#[test]
fn strict_ends_the_loop_after_so_many_misses_in_a_row() {
    let strict = LoopConfig {
        strict: true,
        strict_misses: 3,
        ..config()
    };
    // Late alone, twice in a row, then for good; each late frame costs the one behind it.
    let cost = |frame: usize, stage| {
        let slow = [20, 30, 32].contains(&frame) || frame >= 40;
        quiet(stage)
            * if slow && stage == StageId::Stereo {
                6
            } else {
                1
            }
    };
    let ran = run_with(&strict, Pace::Realtime, &GRAPHS, frames(100), None, cost);
    let error = ran.ended.unwrap_err().to_string();
    assert_eq!(
        error,
        "frame_loop.strict: the required stages missed the deadline of 33000 us in 3 frames in a \
         row, in the last by 9000 us; the longest of its stages was stereo with 24000 us"
    );
    // All three are published, flagged.
    let late = ran.frames.iter().filter(|f| f.late).map(|f| f.index);
    assert_eq!(late.collect::<Vec<_>>(), [20, 30, 32, 40, 41, 42]);
    let ran = run_with(&config(), Pace::Realtime, &GRAPHS, frames(100), None, cost);
    assert!(ran.ended.is_ok(), "not strict");
    let max = run_with(&strict, Pace::Max, &GRAPHS, frames(100), None, cost);
    assert!(max.ended.is_ok(), "the clock decides nothing");
}

/// Costs that look like chance and are the same each time.
fn jumpy(seed: u64) -> impl FnMut(usize, StageId) -> u64 {
    let mut x = seed | 1;
    move |_, stage| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let long = if x.is_multiple_of(17) { 4 } else { 1 };
        quiet(stage) * (60 + (x >> 20) % 80) / 100 * long
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// CPU stress: everything takes sometimes more, sometimes much more.
    #[test]
    fn lateness_does_not_add_up(seed in 1u64..u64::MAX, alone in any::<bool>()) {
        let units: &[Unit] = if alone { &ALONE } else { &GRAPHS };
        let ran = run(units, frames(400), jumpy(seed));
        // Each frame is there once, or named once.
        let mut all: Vec<usize> = ran.frames.iter().map(|f| f.index).collect();
        all.extend(ran.gaps.iter().map(|g| g.0));
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..400));
        prop_assert!(ran.gaps.iter().all(|g| g.1 == Gap::Dropped));
        let most: u64 = StageId::ORDER.map(quiet).iter().sum::<u64>() * 4 * 140 / 100;
        for frame in &ran.frames {
            prop_assert!(frame.lag_ns <= PERIOD + most);
            prop_assert_eq!(frame.late, frame.lag_ns > PERIOD);
            let any = |o| frame.stages.iter().any(|s| s.1 == o);
            prop_assert_eq!(any(Outcome::Skipped), frame.gaps.contains(&Gap::Skipped));
        }
        // In the end as in the beginning.
        let lag = |part: &[Frame]| part.iter().map(|f| f.lag_ns).sum::<u64>() / part.len() as u64;
        let half = ran.frames.len() / 2;
        let (before, after) = (lag(&ran.frames[..half]), lag(&ran.frames[half..]));
        prop_assert!(after < before + before / 2, "{before} {after}");
    }

    /// The same times give the same decisions; and with the decisions, whatever the times, the same
    /// is launched and thrown away.
    #[test]
    fn decisions_can_be_taken_over(seed in 1u64..u64::MAX) {
        let config = LoopConfig {
            admission: AdmissionConfig { retry_frames: 7, ..AdmissionConfig::default() },
            ..config()
        };
        let live = || run_with(&config, Pace::Realtime, &GRAPHS, frames(300), None, jumpy(seed));
        let (first, again) = (live(), live());
        prop_assert_eq!(&first.frames, &again.frames);
        prop_assert_eq!(&first.launched, &again.launched);
        let steps = first.frames.iter().map(|frame| {
            let mut decisions = Decisions::default();
            for (stage, outcome) in &frame.stages {
                decisions.insert(StageId::named(stage).unwrap() as usize, *outcome);
            }
            Step::Decided(frame.index, decisions)
        });
        let replay = run_with(&config, Pace::Max, &GRAPHS, steps.collect(), None, |_, _| 77 * MS);
        prop_assert_eq!(&replay.launched, &first.launched);
        prop_assert_eq!(&replay.withdrawn, &first.withdrawn);
        for (a, b) in replay.frames.iter().zip(&first.frames) {
            for stage in [StageId::Foreground, StageId::Logo, StageId::Forest] {
                for outcome in [Outcome::Skipped, Outcome::Late] {
                    prop_assert_eq!(a.outcome(stage) == outcome, b.outcome(stage) == outcome);
                }
            }
        }
    }
}

#[test]
fn a_fault_on_purpose_is_admitted_to_like_any_other() {
    let clock = MockClock::at(START);
    let mut source = Script {
        clock: &clock,
        steps: frames(200).into(),
    };
    let mut backend = Pretend {
        clock: &clock,
        units: GRAPHS.to_vec(),
        cost: |_, stage| quiet(stage),
        launched: Vec::new(),
        withdrawn: Vec::new(),
    };
    let monitor = Monitor {
        slow: Some(SlowConfig {
            stage: "rectify".into(),
            frame: 50,
            frames: 50,
            ms: 8,
        }),
        ..Monitor::default()
    };
    let slot = Slot::stereo(SIZE, 5, 8);
    let mut seen = Seen::default();
    FrameLoop::new(&mut backend, &clock, slot, &config(), Pace::Realtime)
        .watched(&monitor)
        .run(&mut source, &mut seen, &AtomicBool::new(false))
        .unwrap();
    // As with a stereo stage that is so much slower.
    for frame in &seen.frames {
        let slow = (50..100).contains(&frame.index);
        let required = if slow { 24 } else { 16 };
        assert_eq!(frame.required_ns, Some(required * MS), "{frame:?}");
        let skipped = (50..104).contains(&frame.index);
        let forest = frame.outcome(StageId::Forest) == Outcome::Skipped;
        assert_eq!(forest, skipped, "{frame:?}");
    }
}

#[test]
fn a_replay_may_decide_anew() {
    let clock = MockClock::at(START);
    let mut decisions = Decisions::default();
    decisions.insert(StageId::Logo as usize, Outcome::Skipped);
    let launched = RefCell::new(Vec::new());
    for anew in [false, true] {
        let mut source = Script {
            clock: &clock,
            steps: [Step::Decided(0, decisions)].into(),
        };
        let mut backend = Pretend {
            clock: &clock,
            units: GRAPHS.to_vec(),
            cost: |_, stage| quiet(stage),
            launched: Vec::new(),
            withdrawn: Vec::new(),
        };
        let slot = Slot::stereo(SIZE, 5, 8);
        FrameLoop::new(&mut backend, &clock, slot, &config(), Pace::Max)
            .deciding_anew(anew)
            .run(&mut source, &mut Seen::default(), &AtomicBool::new(false))
            .unwrap();
        launched.borrow_mut().push(backend.launched.len());
    }
    assert_eq!(launched.into_inner(), [3, 4]);
    assert!(clock.now() > START);
}
