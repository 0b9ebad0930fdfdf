//! Are a frame's results the same whichever of its units is done first, and however many threads
//! there are?
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use roadloop::{
    config::Config,
    evaluate::logos::marks::MARKS,
    frame::{FrameId, FrameResult, Gap, Outcome, Size, Timestamp},
    frame_loop::{Backend, BackendError, Laps, MockClock, Models, Monitor, Slot, Unit},
    live::Live,
    sink::{
        Sink, SinkError, View,
        digest::{Digest, Digests, Part},
    },
    source::{FaultConfig, FaultInjector, LiveSource as _, SyntheticCameras, SyntheticConfig},
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
