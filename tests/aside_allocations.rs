//! Once warm, no thread allocates per frame where optional stages are computed beside the loop.
//! Alone in its program: what other tests allocate would be counted, too.
#[path = "common/heap.rs"]
mod heap;

use std::sync::{Arc, atomic::AtomicBool};

use roadloop::{
    config::Config,
    evaluate::logos::marks::MARKS,
    frame::{FrameId, FrameResult, Gap, Outcome, Timestamp},
    frame_loop::{MockClock, Models, Monitor},
    live::Live,
    sink::{Sink, SinkError, View},
    source::{FaultConfig, FaultInjector, LiveSource as _, SyntheticCameras, SyntheticConfig},
    stage::{
        forest::street,
        logo::{BuildOptions, Templates, features::FeatureParams},
    },
};

const FRAMES: usize = 24;
const WARM_UP: usize = 8;

struct Counts(Vec<u64>);

impl Sink for Counts {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let stages = &result.timing.stages;
        assert!(stages.iter().all(|s| s.outcome != Outcome::Skipped));
        self.0.push(heap::allocations_of_all());
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

#[test]
fn no_thread_allocates_once_warm() {
    let pictures = MARKS[..2].iter().map(|mark| {
        let (grey, alpha) = mark.picture(128);
        (mark.name.to_owned(), grey, Some(alpha))
    });
    let options = BuildOptions {
        heights: vec![64],
        views: false,
        ..BuildOptions::default()
    };
    let logos =
        Templates::of_pictures(pictures.collect(), &FeatureParams::default(), &options).unwrap();
    let models = Models {
        logos: Some(Arc::new(logos)),
        forest: Some(Arc::new(street().unwrap())),
    };
    let text = "[frame_loop]\noverlap_on_cpu = true\n[stereo]\ndisparities = 64\n[foreground]\nenabled = true\n[forest]\nstep = 2\n";
    let config = Config::parse(text, None, "test").unwrap();
    let mut counts = Counts(Vec::with_capacity(FRAMES));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.unwrap().install(|| {
        // Nothing takes time by it, so that nothing is ever late.
        let clock = &MockClock::at(Timestamp(1_000_000_000));
        let options = SyntheticConfig {
            width: 160,
            height: 96,
            frames: 6,
            ..SyntheticConfig::default()
        };
        let cameras = SyntheticCameras::new(&options, 5.0, clock).unwrap();
        let live = Live::new(cameras.shape(), cameras.rig()).unwrap();
        let live = live.with_models(models);
        let end = FaultConfig {
            end_after: FRAMES,
            ..FaultConfig::default()
        };
        let mut source = FaultInjector::new(cameras, &end, clock);
        let (monitor, stop) = (Monitor::default(), AtomicBool::new(false));
        live.run(&config, clock, &mut source, &mut counts, &monitor, &stop)
            .unwrap();
    });
    let spent: Vec<u64> = counts.0.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(spent.len(), FRAMES - 1);
    assert_eq!(spent[WARM_UP..], [0; FRAMES - 1 - WARM_UP], "{spent:?}");
}
