//! Are a frame's results the same whichever of its units is done first, and however many threads
//! there are?
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use roadloop::{
    config::Config,
    evaluate::logos::marks::MARKS,
    frame::{Decisions, FrameId, FrameResult, FrameSet, Gap, Outcome, Size, Timestamp},
    frame_loop::{
        Backend, BackendError, FrameLoop, Laps, MockClock, Models, Monitor, Pace, Parts, Shape,
        Slot, SlowConfig, StageId, Unit,
    },
    live::Live,
    sink::{
        Sink, SinkError, View,
        digest::{Digest, Digests, Part},
    },
    source::{
        FaultConfig, FaultInjector, LiveSource as _, Next, Source, SyntheticCameras,
        SyntheticConfig,
    },
    stage::{
        forest::street,
        logo::{BuildOptions, Templates, features::FeatureParams},
    },
};

const FRAMES: usize = 5;
const SIZE: Size = Size::new(203, 97);

/// When a unit that was launched is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// Nothing is launched ahead.
    InTurn,
    /// What reads the mono camera's picture at once, before the street; the rest in its turn.
    MonoFirst,
    /// All in its turn.
    Last,
}

/// Computes what it is made of at another time.
struct Shuffled<B> {
    inner: B,
    when: When,
    computed: [bool; 8],
    /// Units that were computed before the street.
    ahead: Arc<AtomicUsize>,
}

impl<B: Backend> Backend for Shuffled<B> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn units(&self) -> &[Unit] {
        self.inner.units()
    }

    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        self.inner.run(unit, slot, laps)
    }

    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        if self.when == When::InTurn {
            return Ok(false);
        }
        let beside = !self.units()[unit].needs_stereo();
        self.computed[unit] = beside && self.when == When::MonoFirst;
        if self.computed[unit] {
            self.ahead.fetch_add(1, Ordering::Relaxed);
            self.inner.run(unit, slot, laps)?;
        }
        Ok(true)
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        match std::mem::take(&mut self.computed[unit]) {
            true => Ok(()),
            false => self.inner.run(unit, slot, laps),
        }
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        self.inner.withdraw(unit, slot);
    }
}

#[derive(Default)]
struct Kept {
    frames: usize,
    digest: Digest,
}

impl Sink for Kept {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let stages = &result.timing.stages;
        assert!(stages.iter().all(|s| s.outcome == Outcome::Done));
        self.frames += 1;
        Ok(self.digest.frame(result)?)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

fn models() -> Models {
    let pictures = MARKS[..2].iter().map(|mark| {
        let (grey, alpha) = mark.picture(128);
        (mark.name.to_owned(), grey, Some(alpha))
    });
    let options = BuildOptions {
        heights: vec![64],
        views: false,
        ..BuildOptions::default()
    };
    let params = FeatureParams::default();
    let logos = Templates::of_pictures(pictures.collect(), &params, &options).unwrap();
    Models {
        logos: Some(Arc::new(logos)),
        forest: Some(Arc::new(street().unwrap())),
    }
}

fn config() -> Config {
    let text = "
        [frame_loop]
        deadline_us = 1000000
        [stereo]
        disparities = 64
        [foreground]
        enabled = true
        warm_up_frames = 2
        [forest]
        step = 2
    ";
    Config::parse(text, None, "test").unwrap()
}

/// The digests of the synthetic street, with all that there is, and how many units were computed
/// before the street.
fn live(when: When, threads: usize, models: &Models) -> (Digests, usize) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.unwrap().install(|| {
        // Nothing takes time by it, so that nothing is ever late.
        let clock = &MockClock::at(Timestamp(1_000_000_000));
        let options = SyntheticConfig {
            width: SIZE.width,
            height: SIZE.height,
            frames: 5,
            colour: true,
            ..SyntheticConfig::default()
        };
        let cameras = SyntheticCameras::new(&options, 5.0, clock).unwrap();
        let end = FaultConfig {
            end_after: FRAMES,
            ..FaultConfig::default()
        };
        let live = Live::new(cameras.shape(), cameras.rig())
            .unwrap()
            .with_models(models.clone());
        let mut source = FaultInjector::new(cameras, &end, clock);
        let (monitor, stop) = (Monitor::default(), AtomicBool::new(false));
        let (config, mut sink, ahead) = (config(), Kept::default(), Arc::default());
        let (source, sink_of, stop) = (&mut source, &mut sink, &stop);
        live.run_on(&config, clock, source, sink_of, &monitor, stop, |parts| {
            let (inner, slot) = parts.on_cpu(&config)?;
            let computed = [false; 8];
            let ahead = Arc::clone(&ahead);
            let backend = Shuffled {
                inner,
                when,
                computed,
                ahead,
            };
            Ok((backend, slot))
        })
        .unwrap();
        assert_eq!(sink.frames, FRAMES);
        let ahead = ahead.load(Ordering::Relaxed);
        (sink.digest.digests(), ahead)
    })
}

#[test]
fn results_do_not_depend_on_which_unit_is_done_first() {
    let models = models();
    let (expected, _) = live(When::InTurn, 1, &models);
    let parts: Vec<Part> = expected.parts.iter().map(|(part, _)| *part).collect();
    for part in [Part::Stixels, Part::Foreground, Part::Logos, Part::Labels] {
        assert!(parts.contains(&part), "{parts:?}");
    }
    let ways = [
        (When::InTurn, 2),
        (When::MonoFirst, 1),
        (When::MonoFirst, 3),
        (When::Last, 2),
    ];
    for (when, threads) in ways {
        let (found, ahead) = live(when, threads, &models);
        assert_eq!(found, expected, "{when:?}, {threads} threads");
        // Egomotion with foreground, and the logos.
        let units = if when == When::MonoFirst {
            2 * FRAMES
        } else {
            0
        };
        assert_eq!(ahead, units, "{when:?}");
    }
}

const SMALL: Size = Size::new(131, 67);

/// Frames as they went through a loop, with what was decided of each.
#[derive(Default)]
struct Recorded {
    sets: Vec<FrameSet>,
    outcomes: Vec<Vec<(StageId, Outcome)>>,
    digest: Digest,
}

impl Sink for Recorded {
    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let stages = result.timing.stages.iter();
        let outcomes: Vec<_> = stages
            .map(|s| (StageId::named(s.stage).unwrap(), s.outcome))
            .collect();
        let mut decisions = Decisions::default();
        for (stage, outcome) in &outcomes {
            decisions.insert(*stage as usize, *outcome);
        }
        let mut set = view.set.unwrap().clone();
        set.decisions = Some(decisions);
        self.sets.push(set);
        self.outcomes.push(outcomes);
        Ok(self.digest.frame(result)?)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

struct Stored(std::vec::IntoIter<FrameSet>);

impl Source for Stored {
    fn next(&mut self, _wait_ns: u64) -> Next {
        let set = self.0.next().map(Box::new);
        set.map_or(Next::End, Next::Frame)
    }

    fn recycle(&mut self, _set: Box<FrameSet>) {}
}

/// What there is to compute, how, and in how many threads.
#[derive(Clone, Copy, Debug)]
struct Case {
    mono: bool,
    overlap: bool,
    /// The mono chain begins beside the stereo chain.
    ahead: bool,
    threads: usize,
    pace: Pace,
}

/// The synthetic street, or these frames, through the CPU's stages.
fn on_cpu(
    case: Case,
    models: &Models,
    slow: Option<SlowConfig>,
    stored: Option<Vec<FrameSet>>,
) -> Recorded {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(case.threads);
    pool.build().unwrap().install(|| {
        let clock = &MockClock::at(Timestamp(1_000_000_000));
        let options = SyntheticConfig {
            width: SMALL.width,
            height: SMALL.height,
            frames: 5,
            colour: true,
            mono: case.mono,
            ..SyntheticConfig::default()
        };
        let cameras = SyntheticCameras::new(&options, 5.0, clock).unwrap();
        let rectification = cameras.rig().unwrap().rectification(SMALL).unwrap();
        let shape = Shape {
            size: SMALL,
            colour: true,
            stored_disparity: false,
            mask: None,
        };
        let mono = cameras.shape().mono.map(|(kind, size)| (kind, size, None));
        assert_eq!(mono.is_some(), case.mono);
        let mut config = config();
        config.frame_loop.overlap = case.overlap;
        config.frame_loop.overlap_on_cpu = case.ahead;
        config.frame_loop.deadline_us = 150_000;
        let parts = Parts::new(Some((&rectification, shape)), mono, true, models);
        let (mut backend, slot) = parts.on_cpu(&config).unwrap();
        let monitor = Monitor {
            slow,
            ..Monitor::default()
        };
        let (mut sink, stop) = (Recorded::default(), AtomicBool::new(false));
        let frame_loop = FrameLoop::new(&mut backend, clock, slot, &config.frame_loop, case.pace);
        let mut frame_loop = frame_loop.watched(&monitor);
        match stored {
            Some(sets) => frame_loop.run(&mut Stored(sets.into_iter()), &mut sink, &stop),
            None => {
                let end = FaultConfig {
                    end_after: 7,
                    ..FaultConfig::default()
                };
                let mut source = FaultInjector::new(cameras, &end, clock);
                frame_loop.run(&mut source, &mut sink, &stop)
            }
        }
        .unwrap();
        sink
    })
}

#[test]
fn on_the_cpu_results_are_the_same_beside_and_one_after_the_other() {
    let models = models();
    for mono in [true, false] {
        let case = Case {
            mono,
            overlap: false,
            ahead: false,
            threads: 1,
            pace: Pace::Max,
        };
        let alone = on_cpu(case, &models, None, None);
        let expected = alone.digest.digests();
        for (pace, ahead, threads) in [
            (Pace::Max, true, 1),
            (Pace::Max, false, 2),
            (Pace::Max, true, 4),
            (Pace::Realtime, true, 2),
        ] {
            let case = Case {
                mono,
                overlap: true,
                ahead,
                threads,
                pace,
            };
            let found = on_cpu(case, &models, None, None);
            assert_eq!(found.digest.digests(), expected, "{case:?}");
        }
    }
}

/// Half a second of egomotion holds up no frame; it is missing in this one and in those that come
/// meanwhile, and the recording says so.
#[test]
fn a_frame_goes_out_without_what_is_late_and_its_recording_gives_the_same() {
    let models = models();
    for mono in [true, false] {
        let slow = SlowConfig {
            stage: "egomotion".into(),
            frame: 2,
            frames: 1,
            ms: 500,
        };
        let case = Case {
            mono,
            overlap: true,
            ahead: true,
            threads: 2,
            pace: Pace::Realtime,
        };
        let live = on_cpu(case, &models, Some(slow), None);
        let of = |stage| {
            let outcomes = live.outcomes.iter();
            let found = outcomes.map(move |all| all.iter().find(|(s, _)| *s == stage).unwrap().1);
            found.collect::<Vec<_>>()
        };
        use Outcome::{Done, Late, Skipped};
        let expected = [Done, Done, Late, Skipped, Skipped, Done, Done];
        let as_decided = |o: Vec<Outcome>| -> Vec<Outcome> {
            // Over its budget is done, too.
            let plain = |o| if o == Outcome::OverBudget { Done } else { o };
            o.into_iter().map(plain).collect()
        };
        assert_eq!(as_decided(of(StageId::Egomotion)), expected, "{mono}");
        assert_eq!(as_decided(of(StageId::Foreground)), expected, "{mono}");
        assert_eq!(as_decided(of(StageId::Stixel)), [Done; 7], "{mono}");
        for (overlap, threads) in [(false, 1), (true, 1), (true, 4)] {
            let case = Case {
                mono,
                overlap,
                ahead: threads > 1,
                threads,
                pace: Pace::Max,
            };
            let again = on_cpu(case, &models, None, Some(live.sets.clone()));
            assert_eq!(again.digest.digests(), live.digest.digests(), "{case:?}");
        }
    }
}
