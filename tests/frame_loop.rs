//! The loop under a mock clock: budgets, deadlines, bursts, stalls. Nothing here sleeps.
use std::{collections::VecDeque, sync::atomic::AtomicBool};

use roadloop::{
    frame::{FrameId, FrameResult, FrameSet, Gap, Outcome, Size, Timestamp},
    frame_loop::{
        Backend, BackendError, Clock, FrameLoop, Laps, LoopConfig, LoopError, MockClock, Pace,
        Slot, StageId, Unit,
    },
    sink::{Sink, SinkError, View},
    source::{Next, Source},
};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 100 * MS;

/// Where the mock clock stands when a test begins: not 0, so that differences are seen.
const START: Timestamp = Timestamp(5_000 * MS);

/// What the script of a source says.
enum Step {
    /// A frame with this index, stamped index * 100 ms.
    Frame(usize),
    Gap(usize, Gap),
    /// Nothing comes for one wait; the clock moves on by it.
    Silence,
    /// The source delivers only after this delay.
    Stall(u64),
}

struct Script<'a> {
    clock: &'a MockClock,
    steps: VecDeque<Step>,
    recycled: usize,
    skipped_before: Vec<Timestamp>,
}

fn id(index: usize) -> FrameId {
    FrameId {
        index,
        number: index as u64,
        timestamp: Timestamp(index as u64 * PERIOD),
    }
}

fn set(index: usize) -> Box<FrameSet> {
    let mut set = FrameSet::stereo(Size::new(4, 3));
    set.id = id(index);
    Box::new(set)
}

impl Source for Script<'_> {
    fn next(&mut self, wait_ns: u64) -> Next {
        if wait_ns == 0 && !matches!(self.steps.front(), Some(Step::Frame(_) | Step::Gap(..))) {
            return Next::Nothing;
        }
        match self.steps.pop_front() {
            None => Next::End,
            Some(Step::Frame(index)) => Next::Frame(set(index)),
            Some(Step::Gap(index, gap)) => Next::Gap(id(index), gap),
            Some(Step::Silence) => {
                self.clock.advance_ns(wait_ns);
                Next::Nothing
            }
            Some(Step::Stall(ns)) => {
                self.clock.advance_ns(ns);
                self.next(wait_ns)
            }
        }
    }

    fn skip_before(&mut self, stamp: Timestamp) {
        self.skipped_before.push(stamp);
    }

    fn recycle(&mut self, _set: Box<FrameSet>) {
        self.recycled += 1;
    }
}

/// Pretends to compute: moves the clock by what `cost` says for (frame, stage).
struct Pretend<'a, F> {
    clock: &'a MockClock,
    units: Vec<Unit>,
    cost: F,
    withdrawn: Vec<(usize, usize)>,
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
        let mut from = laps.now();
        for &stage in self.units[unit].stages {
            self.clock.advance_ns((self.cost)(slot.set.id.index, stage));
            from = laps.lap(stage, from);
        }
        Ok(())
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        self.withdrawn.push((slot.set.id.index, unit));
    }
}

/// Index, whether late, and how each stage ended.
type Frame = (usize, bool, Vec<(&'static str, Outcome)>);

/// What came out, a line each.
#[derive(Default)]
struct Seen {
    frames: Vec<Frame>,
    gaps: Vec<(usize, Gap)>,
    /// Of frames and gaps, as they went out.
    order: Vec<usize>,
    lag_ns: Vec<u64>,
}

impl Sink for Seen {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let timing = &result.timing;
        let stages = timing.stages.iter().map(|s| (s.stage, s.outcome));
        let late = timing.outcome == Outcome::Late;
        assert_eq!(
            result.gaps.contains(Gap::Late),
            late || stages.clone().any(|s| s.1 == Outcome::Late)
        );
        self.frames.push((result.id.index, late, stages.collect()));
        self.lag_ns.push(timing.duration_ns);
        self.order.push(result.id.index);
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.gaps.push((id.index, gap));
        self.order.push(id.index);
        Ok(())
    }
}

impl Seen {
    fn indices(&self) -> Vec<usize> {
        self.frames.iter().map(|f| f.0).collect()
    }

    fn outcome(&self, frame: usize, stage: StageId) -> Option<Outcome> {
        let (_, _, stages) = self.frames.iter().find(|f| f.0 == frame)?;
        stages.iter().find(|s| s.0 == stage.name()).map(|s| s.1)
    }
}

const STEREO: Unit = Unit {
    stages: &[
        StageId::Rectify,
        StageId::Stereo,
        StageId::Road,
        StageId::Stixel,
    ],
};
const FOREGROUND: Unit = Unit {
    stages: &[StageId::Foreground],
};
const FOREST: Unit = Unit {
    stages: &[StageId::Forest],
};

fn config() -> LoopConfig {
    LoopConfig {
        deadline_us: 50_000,
        ..LoopConfig::default()
    }
}

fn run(
    pace: Pace,
    units: &[Unit],
    steps: Vec<Step>,
    cost: impl FnMut(usize, StageId) -> u64,
) -> (Seen, Vec<(usize, usize)>, MockClock) {
    let clock = MockClock::at(START);
    let mut source = Script {
        clock: &clock,
        steps: steps.into(),
        recycled: 0,
        skipped_before: Vec::new(),
    };
    let mut backend = Pretend {
        clock: &clock,
        units: units.to_vec(),
        cost,
        withdrawn: Vec::new(),
    };
    let frames_in = source
        .steps
        .iter()
        .filter(|s| matches!(s, Step::Frame(_)))
        .count();
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    let mut seen = Seen::default();
    FrameLoop::new(&mut backend, &clock, slot, &config(), pace)
        .run(&mut source, &mut seen, &AtomicBool::new(false))
        .unwrap();
    // Buffers go round: each frame set that came in is given back or stands in the slot.
    assert_eq!(source.recycled, frames_in);
    let withdrawn = backend.withdrawn;
    (seen, withdrawn, clock)
}

fn frames(n: usize) -> Vec<Step> {
    (0..n).map(Step::Frame).collect()
}

/// 5 ms a stage.
fn quick(_: usize, _: StageId) -> u64 {
    5 * MS
}

#[test]
fn in_time_everything_runs_and_each_frame_waits_for_its_arrival() {
    let (seen, _, clock) = run(Pace::Realtime, &[STEREO, FOREGROUND], frames(4), quick);
    assert_eq!(seen.indices(), [0, 1, 2, 3]);
    assert_eq!(seen.gaps, []);
    assert_eq!(seen.lag_ns, [25 * MS; 4]);
    assert_eq!(clock.now(), START.plus_ns(3 * PERIOD + 25 * MS));
}

#[test]
fn a_stage_over_its_budget_is_flagged() {
    let (seen, ..) = run(Pace::Realtime, &[STEREO], frames(3), |frame, stage| {
        // Its budget is 20 ms.
        if (frame, stage) == (1, StageId::Stixel) {
            21 * MS
        } else {
            5 * MS
        }
    });
    assert_eq!(seen.outcome(0, StageId::Stixel), Some(Outcome::Done));
    assert_eq!(seen.outcome(1, StageId::Stixel), Some(Outcome::OverBudget));
    assert_eq!(seen.outcome(1, StageId::Stereo), Some(Outcome::Done));
    assert_eq!(seen.outcome(2, StageId::Stixel), Some(Outcome::Done));
    assert!(seen.frames.iter().all(|f| !f.1), "late");
}

#[test]
fn what_does_not_fit_is_skipped_and_withdrawn() {
    // 36 ms of stereo in frame 1 leave 14 ms: the foreground (budget 10) fits, the forest
    // (budget 30) does not.
    let (seen, withdrawn, _) = run(
        Pace::Realtime,
        &[STEREO, FOREGROUND, FOREST],
        frames(3),
        |frame, stage| match (frame, stage) {
            (1, StageId::Stereo) => 21 * MS,
            (_, StageId::Foreground | StageId::Forest) => MS,
            _ => 5 * MS,
        },
    );
    assert_eq!(seen.outcome(0, StageId::Forest), Some(Outcome::Skipped));
    assert_eq!(seen.outcome(1, StageId::Foreground), Some(Outcome::Done));
    assert_eq!(seen.outcome(1, StageId::Forest), Some(Outcome::Skipped));
    assert_eq!(withdrawn, [(0, 2), (1, 2), (2, 2)]);
}

#[test]
fn a_stage_known_to_be_quick_is_admitted_past_its_budget() {
    // Stereo leaves 30 ms, the forest's budget is 30 ms; measured it takes 1 ms.
    let (seen, ..) = run(
        Pace::Realtime,
        &[STEREO, FOREST],
        frames(30),
        |frame, stage| match stage {
            StageId::Forest => MS,
            StageId::Stereo if frame >= 20 => 25 * MS,
            _ => 5 * MS,
        },
    );
    assert_eq!(seen.outcome(19, StageId::Forest), Some(Outcome::Done));
    assert_eq!(seen.outcome(20, StageId::Forest), Some(Outcome::Done));
    assert_eq!(seen.gaps, []);
}

#[test]
fn a_late_optional_result_is_withdrawn_and_a_late_frame_flagged() {
    let (seen, withdrawn, _) = run(
        Pace::Realtime,
        &[STEREO, FOREGROUND],
        frames(2),
        |frame, s| {
            if (frame, s) == (0, StageId::Foreground) {
                40 * MS
            } else {
                5 * MS
            }
        },
    );
    assert_eq!(seen.outcome(0, StageId::Foreground), Some(Outcome::Late));
    assert_eq!(withdrawn, [(0, 1)]);
    assert!(seen.frames[0].1 && !seen.frames[1].1);
}

#[test]
fn late_required_results_are_published_flagged() {
    let (seen, withdrawn, _) = run(Pace::Realtime, &[STEREO], frames(2), |frame, _| {
        if frame == 0 { 15 * MS } else { 5 * MS }
    });
    assert_eq!(seen.indices(), [0, 1]);
    assert!(seen.frames[0].1 && !seen.frames[1].1);
    assert_eq!(withdrawn, []);
}

#[test]
fn after_a_slow_frame_only_the_newest_of_a_burst_is_computed() {
    // Frame 0 takes 420 ms: frames 1 to 4 have arrived by then. 4 is the newest, 20 ms old.
    let (seen, ..) = run(Pace::Realtime, &[STEREO], frames(6), |frame, _| {
        if frame == 0 { 105 * MS } else { 5 * MS }
    });
    assert_eq!(seen.indices(), [0, 4, 5]);
    let dropped = |i| (i, Gap::Dropped);
    assert_eq!(seen.gaps, [dropped(1), dropped(2), dropped(3)]);
    assert_eq!(seen.lag_ns, [420 * MS, 40 * MS, 20 * MS]);
}

#[test]
fn a_frame_past_its_deadline_is_dropped_and_lateness_does_not_add_up() {
    // Each frame takes 160 ms, period 100, deadline 50: every second frame would start 60 ms
    // late. They are dropped, and each computed frame starts on its arrival.
    let (seen, ..) = run(Pace::Realtime, &[STEREO], frames(7), |_, _| 40 * MS);
    assert_eq!(seen.indices(), [0, 2, 4, 6]);
    assert_eq!(seen.gaps, [1, 3, 5].map(|i| (i, Gap::Dropped)));
    assert_eq!(seen.lag_ns, [160 * MS; 4]);
}

#[test]
fn a_stalled_source_is_said_once_and_late_frames_are_dropped() {
    // 350 ms of silence: more than 3 periods. Then frames 2 to 5 come at once.
    let mut steps = frames(2);
    steps.extend((0..7).map(|_| Step::Silence));
    steps.extend((2..7).map(Step::Frame));
    let (seen, ..) = run(Pace::Realtime, &[STEREO], steps, quick);
    let mut gaps = vec![(1, Gap::CameraLost)];
    gaps.extend([2, 3, 4].map(|i| (i, Gap::Dropped)));
    assert_eq!(seen.gaps, gaps);
    // At 470 ms, frame 4 (of 400) is past its deadline of 450 and frame 5 is to come.
    assert_eq!(seen.indices(), [0, 1, 5, 6]);
}

#[test]
fn a_stall_of_the_disk_within_a_period_costs_nothing() {
    let mut steps = frames(2);
    steps.push(Step::Stall(60 * MS));
    steps.extend((2..4).map(Step::Frame));
    let (seen, ..) = run(Pace::Realtime, &[STEREO], steps, quick);
    assert_eq!(seen.indices(), [0, 1, 2, 3]);
    assert_eq!(seen.gaps, []);
}

#[test]
fn a_burst_does_not_stop_at_a_gap() {
    // Frame 0 takes 420 ms; frame 3 is missing, frame 4 is the newest.
    let mut steps = frames(3);
    steps.push(Step::Gap(3, Gap::Missing));
    steps.extend((4..6).map(Step::Frame));
    let (seen, ..) = run(Pace::Realtime, &[STEREO], steps, |frame, _| {
        if frame == 0 { 105 * MS } else { 5 * MS }
    });
    assert_eq!(seen.indices(), [0, 4, 5]);
    assert_eq!(
        seen.gaps,
        [(1, Gap::Dropped), (2, Gap::Dropped), (3, Gap::Missing)]
    );
    assert_eq!(seen.order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn gaps_behind_a_frame_are_told_after_it() {
    // While frame 0 is computed frame 1 comes, which then is too old, and gaps, also more than
    // are looked past.
    for more in [2, 40] {
        let mut steps = frames(2);
        steps.extend((2..2 + more).map(|i| Step::Gap(i, Gap::Missing)));
        steps.push(Step::Frame(2 + more));
        let (seen, ..) = run(Pace::Realtime, &[STEREO], steps, |frame, _| {
            let busy = (2 + more) as u64 * PERIOD - 10 * MS;
            if frame == 0 { busy / 4 } else { 5 * MS }
        });
        assert_eq!(seen.indices(), [0, 2 + more]);
        assert_eq!(seen.order, (0..=2 + more).collect::<Vec<_>>());
    }
}

#[test]
fn gaps_keep_their_place() {
    let steps = [
        Step::Frame(0),
        Step::Gap(1, Gap::Missing),
        Step::Frame(2),
        Step::Gap(3, Gap::Unreadable),
    ];
    for pace in [Pace::Max, Pace::Realtime] {
        let steps = steps.iter().map(|s| match s {
            Step::Gap(i, g) => Step::Gap(*i, *g),
            Step::Frame(i) => Step::Frame(*i),
            Step::Silence | Step::Stall(_) => unreachable!("not in this script"),
        });
        let (seen, ..) = run(pace, &[STEREO], steps.collect(), quick);
        assert_eq!(seen.indices(), [0, 2]);
        assert_eq!(seen.gaps, [(1, Gap::Missing), (3, Gap::Unreadable)]);
    }
}

#[test]
fn at_max_pace_the_clock_decides_nothing() {
    let (seen, withdrawn, _) = run(
        Pace::Max,
        &[STEREO, FOREGROUND, FOREST],
        frames(5),
        |_, _| 500 * MS,
    );
    assert_eq!(seen.indices(), [0, 1, 2, 3, 4]);
    assert_eq!((seen.gaps.len(), withdrawn.len()), (0, 0));
    assert!(seen.frames.iter().all(|f| !f.1), "late");
    assert_eq!(seen.outcome(4, StageId::Forest), Some(Outcome::OverBudget));
}

#[test]
fn a_stop_is_obeyed_before_the_next_frame() {
    let clock = MockClock::at(START);
    let mut source = Script {
        clock: &clock,
        steps: frames(3).into(),
        recycled: 0,
        skipped_before: Vec::new(),
    };
    let mut backend = Pretend {
        clock: &clock,
        units: vec![STEREO],
        cost: quick,
        withdrawn: Vec::new(),
    };
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    let mut seen = Seen::default();
    FrameLoop::new(&mut backend, &clock, slot, &config(), Pace::Max)
        .run(&mut source, &mut seen, &AtomicBool::new(true))
        .unwrap();
    assert!(seen.frames.is_empty());
    assert_eq!(source.steps.len(), 3);
}

/// Computes nothing, and is lost at frame `.0`.
struct Lost(usize);

impl Backend for Lost {
    fn name(&self) -> &'static str {
        "lost"
    }

    fn units(&self) -> &[Unit] {
        &[STEREO]
    }

    fn run(
        &mut self,
        _unit: usize,
        slot: &mut Slot,
        _laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        if slot.set.id.index < self.0 {
            return Ok(());
        }
        Err(BackendError {
            backend: "lost",
            message: "illegal address".into(),
        })
    }

    fn withdraw(&mut self, _unit: usize, _slot: &mut Slot) {}
}

#[test]
fn a_lost_device_ends_the_loop_and_publishes_nothing_more() {
    let clock = MockClock::at(START);
    let mut source = Script {
        clock: &clock,
        steps: frames(5).into(),
        recycled: 0,
        skipped_before: Vec::new(),
    };
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    let mut seen = Seen::default();
    let mut backend = Lost(2);
    let ended = FrameLoop::new(&mut backend, &clock, slot, &config(), Pace::Max).run(
        &mut source,
        &mut seen,
        &AtomicBool::new(false),
    );
    match ended {
        Err(LoopError::Backend(e)) => assert_eq!(e.to_string(), "lost: illegal address"),
        other => panic!("{other:?}"),
    }
    let published: Vec<usize> = seen.frames.iter().map(|f| f.0).collect();
    assert_eq!(published, [0, 1]);
    assert_eq!(source.steps.len(), 2, "nothing more is asked of the source");
}
