//! The loop under a mock clock: budgets, deadlines, bursts, stalls. Nothing here sleeps.
use std::{collections::VecDeque, sync::atomic::AtomicBool};

use roadloop::{
    frame::{Decisions, FrameId, FrameResult, FrameSet, Gap, Outcome, Size, Timestamp},
    frame_loop::{
        Advance, Backend, BackendError, Clock, Doing, FrameLoop, Laps, LoopConfig, LoopError,
        MockClock, Monitor, Pace, Slot, StageId, Unit,
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

/// Pretends to compute several units at once, as graphs on a GPU with room for all of them: those
/// that need the stereo images behind the required one, the others beside it.
struct Beside<'a, F> {
    clock: &'a MockClock,
    cost: F,
    units: Vec<Unit>,
    /// Start and end of what is under way, by unit.
    under_way: [Option<(Timestamp, Timestamp)>; 4],
    street_done: Timestamp,
    /// What the host does behind the device's part of the foreground, ns, and whether it has.
    rest_ns: u64,
    rested: bool,
    /// Index, what was done, and to which unit.
    log: Vec<(usize, &'static str, usize)>,
}

impl<'a, F: FnMut(usize, StageId) -> u64> Beside<'a, F> {
    fn new(clock: &'a MockClock, units: &[Unit], cost: F) -> Self {
        Self {
            clock,
            cost,
            units: units.to_vec(),
            under_way: [None; 4],
            street_done: Timestamp(0),
            rest_ns: 0,
            rested: false,
            log: vec![],
        }
    }

    fn launch(&mut self, unit: usize, frame: usize) {
        let this = self.units[unit];
        let now = self.clock.now();
        let from = match this.needs_stereo() && !this.required() {
            true => now.max(self.street_done),
            false => now,
        };
        let takes = this.stages.iter().map(|&s| (self.cost)(frame, s)).sum();
        let to = from.plus_ns(takes);
        if this.required() {
            self.street_done = to;
        }
        assert_eq!(self.under_way[unit].replace((from, to)), None);
    }

    fn collect(&mut self, unit: usize, frame: usize, laps: &mut Laps<'_>) {
        let (from, to) = self.under_way[unit].take().unwrap();
        self.clock.sleep_until(to);
        laps.arrived();
        let mut start = from;
        let stages = self.units[unit].stages;
        if stages == FOREGROUND.stages && self.rest_ns > 0 {
            if !std::mem::take(&mut self.rested) {
                self.clock.advance_ns(self.rest_ns);
            }
            laps.took(to.since(from) + self.rest_ns);
        }
        for &stage in stages {
            // Perhaps of an earlier frame.
            let takes = match stages.len() {
                1 => to.since(from),
                _ => (self.cost)(frame, stage),
            };
            laps.note(stage, start, takes);
            start = start.plus_ns(takes);
        }
    }
}

impl<F: FnMut(usize, StageId) -> u64> Backend for Beside<'_, F> {
    fn name(&self) -> &'static str {
        "beside"
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
        self.log.push((frame, "run", unit));
        self.launch(unit, frame);
        self.collect(unit, frame, laps);
        Ok(())
    }

    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        _laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let frame = slot.set.id.index;
        self.log.push((frame, "start", unit));
        self.launch(unit, frame);
        Ok(true)
    }

    fn meanwhile(&mut self, unit: usize, slot: &mut Slot, _laps: &Laps<'_>) {
        self.log.push((slot.set.id.index, "meanwhile", unit));
    }

    fn advance(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &Laps<'_>,
    ) -> Result<Advance, BackendError> {
        if self.units[unit] != FOREGROUND || self.rest_ns == 0 || self.rested {
            return Ok(Advance::Nothing);
        }
        let (_, to) = self.under_way[unit].unwrap();
        if laps.now() < to {
            // To look costs time.
            self.clock.advance_ns(MS / 10);
            return Ok(Advance::Waits);
        }
        self.clock.advance_ns(self.rest_ns);
        self.rested = true;
        self.log.push((slot.set.id.index, "advance", unit));
        Ok(Advance::Nothing)
    }

    fn wait(
        &mut self,
        unit: usize,
        until: Timestamp,
        _laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        let (_, to) = self.under_way[unit].unwrap();
        self.clock.sleep_until(to.min(until));
        Ok(to <= until)
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let frame = slot.set.id.index;
        self.log.push((frame, "finish", unit));
        self.collect(unit, frame, laps);
        Ok(())
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        self.log.push((slot.set.id.index, "withdraw", unit));
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

/// So many frames whose stages have these costs, ms.
fn beside(
    pace: Pace,
    config: &LoopConfig,
    frames: usize,
    mut cost: impl FnMut(usize, StageId) -> u64,
) -> (Seen, Vec<(usize, &'static str, usize)>) {
    let clock = MockClock::at(START);
    let mut source = Script {
        clock: &clock,
        steps: (0..frames).map(Step::Frame).collect(),
        recycled: 0,
        skipped_before: Vec::new(),
    };
    let units = [STEREO, FOREST, FOREGROUND];
    let mut backend = Beside::new(&clock, &units, |frame, stage| cost(frame, stage) * MS);
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    let mut seen = Seen::default();
    FrameLoop::new(&mut backend, &clock, slot, config, pace)
        .run(&mut source, &mut seen, &AtomicBool::new(false))
        .unwrap();
    (seen, backend.log)
}

/// 10 ms of the required stages, 3 of the forest behind them, and beside them 4 of the foreground on
/// the device and 5 on the host: the frames, and those whose 5 were done beside the required stages.
fn with_a_rest(pace: Pace, deadline_us: u64) -> (Seen, Vec<usize>) {
    let clock = MockClock::at(START);
    let mut source = Script {
        clock: &clock,
        steps: (0..40).map(Step::Frame).collect(),
        recycled: 0,
        skipped_before: Vec::new(),
    };
    let units = [STEREO, FOREST, FOREGROUND];
    let mut backend = Beside::new(&clock, &units, |_, stage| match stage {
        StageId::Foreground => 4 * MS,
        stage => usual(stage) * MS,
    });
    backend.rest_ns = 5 * MS;
    let config = LoopConfig {
        deadline_us,
        ..tight()
    };
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    let mut seen = Seen::default();
    FrameLoop::new(&mut backend, &clock, slot, &config, pace)
        .run(&mut source, &mut seen, &AtomicBool::new(false))
        .unwrap();
    let advanced = backend.log.iter().filter(|(_, what, _)| *what == "advance");
    let advanced = advanced.map(|l| l.0).collect();
    (seen, advanced)
}

#[test]
fn the_hosts_part_of_a_unit_is_done_while_the_required_ones_are_under_way() {
    for pace in [Pace::Max, Pace::Realtime] {
        let (seen, advanced) = with_a_rest(pace, 50_000);
        assert_eq!(advanced, Vec::from_iter(0..40));
        // Behind the required stages it would have been 15.
        assert!(
            seen.lag_ns.iter().all(|&lag| lag == 13 * MS),
            "{:?}",
            seen.lag_ns
        );
    }
}

#[test]
fn nor_is_it_where_the_required_ones_might_be_late_for_it() {
    // 10 and 9 do not fit into 18 one after the other.
    let (seen, advanced) = with_a_rest(Pace::Realtime, 18_000);
    assert!(advanced.iter().all(|&n| n < 8), "{advanced:?}");
    assert!(seen.frames.iter().all(|f| !f.1), "{:?}", seen.frames);
    assert_eq!(seen.outcome(39, StageId::Foreground), Some(Outcome::Done));
}

/// 10 ms of the required stages, then 3 of the forest behind them, 6 of the foreground beside.
fn usual(stage: StageId) -> u64 {
    match stage {
        StageId::Stereo => 10,
        StageId::Forest => 3,
        StageId::Foreground => 6,
        _ => 0,
    }
}

/// A deadline that holds all of it only side by side, and budgets to begin with.
fn tight() -> LoopConfig {
    let mut config = LoopConfig {
        deadline_us: 14_000,
        ..LoopConfig::default()
    };
    let budgets = &mut config.budget_us;
    (budgets.rectify, budgets.stereo, budgets.road) = (1, 10_000, 1);
    (budgets.stixel, budgets.foreground, budgets.forest) = (1, 6_000, 3_000);
    config.admission.retry_frames = 6;
    config
}

#[test]
fn what_need_not_wait_for_each_other_is_under_way_at_once() {
    let (seen, log) = beside(Pace::Max, &tight(), 2, |_, stage| usual(stage));
    assert_eq!(seen.lag_ns, [13 * MS; 2]);
    // The required unit, then the foreground, which is more important than the forest.
    let each = ["start", "meanwhile", "finish"].map(|what| [0, 2, 1].map(|unit| (what, unit)));
    let log: Vec<_> = log.iter().map(|&(_, what, unit)| (what, unit)).collect();
    assert_eq!(log, [each.concat(), each.concat()].concat());

    let mut apart = tight();
    apart.overlap = false;
    let (one_by_one, log) = beside(Pace::Max, &apart, 2, |_, stage| usual(stage));
    assert_eq!(one_by_one.lag_ns, [19 * MS; 2]);
    assert!(log.iter().all(|(_, what, _)| *what == "run"));
    // Whichever way: the same stages, in the same order, with the same outcomes.
    assert_eq!(one_by_one.frames, seen.frames);
}

#[test]
fn what_fits_only_side_by_side_is_launched_and_done_in_time() {
    let (seen, _) = beside(Pace::Realtime, &tight(), 100, |_, stage| usual(stage));
    assert_eq!(seen.frames.len(), 100);
    for (index, late, stages) in seen.frames {
        let done = stages.iter().all(|(_, outcome)| *outcome == Outcome::Done);
        assert!(!late && done, "{index}: {stages:?}");
    }
}

#[test]
fn where_it_is_tight_optional_units_wait_for_the_required_ones() {
    // For 60 frames the required stages take 13 of 14 ms.
    let slow = |frame, stage| match stage {
        StageId::Stereo if (100..160).contains(&frame) => 13,
        _ => usual(stage),
    };
    let (seen, log) = beside(Pace::Realtime, &tight(), 800, slow);
    assert_eq!(seen.frames.len(), 800);
    let late: Vec<usize> = seen.frames.iter().filter(|f| f.1).map(|f| f.0).collect();
    // Only where it could not be foreseen.
    assert!(late.iter().all(|n| (100..103).contains(n)), "{late:?}");
    for n in 110..160 {
        assert_eq!(seen.outcome(n, StageId::Forest), Some(Outcome::Skipped));
        assert_eq!(seen.outcome(n, StageId::Stereo), Some(Outcome::OverBudget));
        // The foreground fits beside them still.
        assert_eq!(seen.outcome(n, StageId::Foreground), Some(Outcome::Done));
    }
    // The cause is gone: all is back.
    for n in 170..800 {
        for stage in [StageId::Forest, StageId::Foreground] {
            assert_eq!(seen.outcome(n, stage), Some(Outcome::Done), "{n} {stage}");
        }
    }
    // What is launched is finished, once, in its frame.
    let count = |what| log.iter().filter(|l| l.1 == what).count();
    assert_eq!(count("start"), count("finish"));
}

#[test]
fn a_unit_that_fits_only_side_by_side_comes_back_after_it_was_slow() {
    let slow = |frame, stage| match stage {
        StageId::Foreground if (100..130).contains(&frame) => 20,
        _ => usual(stage),
    };
    let (seen, _) = beside(Pace::Realtime, &tight(), 600, slow);
    let of = |n| seen.outcome(n, StageId::Foreground);
    assert_eq!(of(99), Some(Outcome::Done));
    assert_eq!(of(100), Some(Outcome::Late));
    let skipped = (100..130).filter(|&n| of(n) == Some(Outcome::Skipped));
    assert!(skipped.count() > 20);
    assert!((500..600).all(|n| of(n) == Some(Outcome::Done)));
}

#[test]
fn the_same_times_give_the_same_decisions_side_by_side() {
    let noisy =
        |frame: usize, stage: StageId| usual(stage) + (frame * 7 + stage as usize) as u64 % 5;
    let once = || beside(Pace::Realtime, &tight(), 300, noisy);
    let (a, b) = (once(), once());
    assert_eq!(a.0.frames, b.0.frames);
    assert_eq!(a.1, b.1);
}

/// The foreground takes more than two periods once: nothing else is touched by it.
#[test]
fn a_frame_goes_out_at_its_deadline_without_what_is_late() {
    let slow = |frame, stage| match stage {
        StageId::Foreground if frame == 50 => 250,
        _ => usual(stage),
    };
    let (seen, log) = beside(Pace::Realtime, &tight(), 100, slow);
    assert_eq!(seen.frames.len(), 100);
    assert!(seen.frames.iter().all(|f| !f.1), "no frame is late");
    for (n, &lag) in seen.lag_ns.iter().enumerate() {
        // In frame 58 it is tried, behind the others.
        let waited = [50, 58].contains(&n);
        assert_eq!(lag, if waited { 14 * MS } else { 13 * MS }, "{n}");
        for stage in [StageId::Stixel, StageId::Forest] {
            assert_eq!(seen.outcome(n, stage), Some(Outcome::Done), "{n} {stage}");
        }
    }
    let of = |n| seen.outcome(n, StageId::Foreground).unwrap();
    assert_eq!((of(50), of(58)), (Outcome::Late, Outcome::Late));
    // It is under way still, and then known to be too slow; until it is tried.
    assert!((51..58).all(|n| of(n) == Outcome::Skipped));
    assert!((59..100).all(|n| of(n) == Outcome::Done));
    // It was taken back before it was launched again: with frame 52 in the slot still.
    let of_unit = log
        .iter()
        .filter(|l| l.2 == 2 && ["start", "finish"].contains(&l.1));
    let (mut under_way, mut taken_back) = (false, None);
    for &(frame, what, _) in of_unit {
        assert_ne!(under_way, what == "start");
        under_way = what == "start";
        if what == "finish" && (50..56).contains(&frame) {
            taken_back = Some(frame);
        }
    }
    assert_eq!((under_way, taken_back), (false, Some(52)));
}

/// What a late unit was launched on, and what it was left out of, is done again.
#[test]
fn what_is_late_is_launched_again_where_it_is_replayed() {
    let slow = |frame: usize, stage| match stage {
        StageId::Foreground if frame.is_multiple_of(40) => 250,
        StageId::Forest if frame.is_multiple_of(70) => 130,
        _ => usual(stage),
    };
    let (seen, log) = beside(Pace::Realtime, &tight(), 200, slow);
    let clock = MockClock::at(START);
    let steps = seen.frames.iter().map(|(index, _, stages)| {
        let mut decisions = Decisions::default();
        for (stage, outcome) in stages {
            decisions.insert(StageId::named(stage).unwrap() as usize, *outcome);
        }
        let mut set = set(*index);
        set.decisions = Some(decisions);
        set
    });
    let mut source = Sets(steps.collect());
    let units = [STEREO, FOREST, FOREGROUND];
    let mut backend = Beside::new(&clock, &units, |_, stage| usual(stage) * MS);
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    let mut again = Seen::default();
    FrameLoop::new(&mut backend, &clock, slot, &tight(), Pace::Max)
        .run(&mut source, &mut again, &AtomicBool::new(false))
        .unwrap();
    let ran = |log: &[(usize, &'static str, usize)]| {
        let started = log.iter().filter(|l| l.1 == "start");
        let mut started: Vec<_> = started.map(|l| (l.0, l.2)).collect();
        started.sort_unstable();
        started
    };
    assert_eq!(ran(&backend.log), ran(&log));
    let kept = |seen: &Seen| -> Vec<Vec<bool>> {
        let gone = |o: &Outcome| matches!(o, Outcome::Late | Outcome::Skipped);
        let frames = seen.frames.iter();
        frames
            .map(|f| f.2.iter().map(|(_, o)| gone(o)).collect())
            .collect()
    };
    assert_eq!(kept(&again), kept(&seen));
    assert!(
        seen.frames
            .iter()
            .any(|f| f.2.iter().any(|s| s.1 == Outcome::Late))
    );
}

struct Sets(VecDeque<Box<FrameSet>>);

impl Source for Sets {
    fn next(&mut self, _wait_ns: u64) -> Next {
        self.0.pop_front().map_or(Next::End, Next::Frame)
    }

    fn recycle(&mut self, _set: Box<FrameSet>) {}
}

/// What the sink would have recorded of the decisions is followed side by side, too.
#[test]
fn recorded_decisions_are_followed_side_by_side() {
    let clock = MockClock::at(START);
    let mut decisions = Decisions::default();
    decisions.insert(StageId::Forest as usize, Outcome::Skipped);
    decisions.insert(StageId::Foreground as usize, Outcome::Late);
    let mut frame = set(0);
    frame.decisions = Some(decisions);
    let mut source = Once(Some(frame));
    let units = [STEREO, FOREST, FOREGROUND];
    let mut backend = Beside::new(&clock, &units, |_, stage| usual(stage) * MS);
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    let mut seen = Seen::default();
    FrameLoop::new(&mut backend, &clock, slot, &tight(), Pace::Max)
        .run(&mut source, &mut seen, &AtomicBool::new(false))
        .unwrap();
    assert_eq!(seen.outcome(0, StageId::Forest), Some(Outcome::Skipped));
    assert_eq!(seen.outcome(0, StageId::Foreground), Some(Outcome::Late));
    let log: Vec<_> = backend.log.iter().map(|l| (l.1, l.2)).collect();
    let each = ["start", "meanwhile", "finish"].map(|what| [0, 2].map(|unit| (what, unit)));
    let withdrawn = [("withdraw", 2), ("withdraw", 1)];
    assert_eq!(log, [each.concat(), withdrawn.to_vec()].concat());
}

/// A watcher sees the unit that is waited for, not the one that was launched last.
#[test]
fn a_unit_that_does_not_come_back_is_the_one_that_is_seen() {
    struct Watched<'a>(&'a Monitor, Vec<Doing>);
    impl Backend for Watched<'_> {
        fn name(&self) -> &'static str {
            "watched"
        }

        fn units(&self) -> &[Unit] {
            &[STEREO, FOREST]
        }

        fn run(
            &mut self,
            _unit: usize,
            _slot: &mut Slot,
            _laps: &mut Laps<'_>,
        ) -> Result<(), BackendError> {
            self.1.push(self.0.probe.look().doing);
            Ok(())
        }

        fn start(
            &mut self,
            unit: usize,
            slot: &mut Slot,
            laps: &mut Laps<'_>,
        ) -> Result<bool, BackendError> {
            self.run(unit, slot, laps).map(|()| true)
        }

        fn withdraw(&mut self, _unit: usize, _slot: &mut Slot) {}
    }
    let (clock, monitor) = (MockClock::at(START), Monitor::default());
    let mut backend = Watched(&monitor, vec![]);
    let slot = Slot::stereo(Size::new(4, 3), 5, 8);
    FrameLoop::new(&mut backend, &clock, slot, &tight(), Pace::Max)
        .watched(&monitor)
        .run(
            &mut Once(Some(set(0))),
            &mut Seen::default(),
            &AtomicBool::new(false),
        )
        .unwrap();
    let [first, behind] = [StageId::Rectify, StageId::Forest].map(Doing::Stage);
    assert_eq!(backend.1, [first, behind, first, behind]);
}

struct Once(Option<Box<FrameSet>>);

impl Source for Once {
    fn next(&mut self, _wait_ns: u64) -> Next {
        self.0.take().map_or(Next::End, Next::Frame)
    }

    fn recycle(&mut self, _set: Box<FrameSet>) {}
}
