//! A frame whose stereo pictures are missing: the mono camera goes on, and the result says so.
use std::sync::atomic::AtomicBool;

use roadloop::{
    config::Config,
    frame::{
        ForegroundState, FrameId, FrameResult, FrameSet, Gap, INVALID, Image, Outcome, PixelKind,
        RoadOrigin, Size,
    },
    frame_loop::{Monitor, MonotonicClock},
    live::Live,
    service::{Lifeline, Notifier, Patience},
    sink::{Sink, SinkError, View, fan_out::FanOut},
    source::{LiveShape, LiveSource, Next, Source, SyntheticCameras, SyntheticConfig},
};

const SIZE: Size = Size::new(96, 64);

/// The street, with these frames blind on the stereo side; then the end.
struct Blind<S>(S, &'static [bool]);

impl<S: Source> Source for Blind<S> {
    fn next(&mut self, wait_ns: u64) -> Next {
        let Some((&blind, rest)) = self.1.split_first() else {
            return Next::End;
        };
        match self.0.next(wait_ns) {
            Next::Frame(mut set) => {
                self.1 = rest;
                set.stereo_gap = blind.then_some(Gap::CameraLost);
                Next::Frame(set)
            }
            other => other,
        }
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.0.recycle(set);
    }
}

impl<S: LiveSource> LiveSource for Blind<S> {
    fn shape(&self) -> LiveShape {
        self.0.shape()
    }
}

struct Keep<'a>(&'a mut Vec<Kept>);

/// A result and its left picture.
type Kept = (FrameResult, Option<Image<u8>>);

impl Sink for Keep<'_> {
    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        assert!(view.mono.is_some());
        self.0.push((result.clone(), view.left.cloned()));
        Ok(())
    }

    fn gap(&mut self, _: FrameId, _: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

fn run(blind: &'static [bool]) -> (Vec<Kept>, bool) {
    let clock = &MonotonicClock;
    let mut config = Config::default();
    config.stereo.disparities = 64;
    config.foreground.enabled = Some(true);
    config.frame_loop.deadline_us = 60_000_000;
    let street = SyntheticConfig {
        width: SIZE.width,
        height: SIZE.height,
        frames: 4,
        ..SyntheticConfig::default()
    };
    // So slow that no frame is dropped for want of time.
    let cameras = SyntheticCameras::new(&street, 2.0, clock).unwrap();
    let live = Live::new(cameras.shape(), cameras.rig()).unwrap();
    assert_eq!(cameras.shape().mono, Some((PixelKind::Grey8, SIZE)));
    let notifier = Notifier::default();
    let patience = Patience {
        first_ns: u64::MAX,
        next_ns: u64::MAX,
    };
    let lifeline = Lifeline::new(&notifier, clock, patience);
    let mut kept = Vec::new();
    let mut sinks = FanOut::new()
        .with("keep", Keep(&mut kept))
        .with("service manager", lifeline.sink());
    let (monitor, stop) = (Monitor::default(), AtomicBool::new(false));
    let mut source = Blind(cameras, blind);
    live.run(&config, clock, &mut source, &mut sinks, &monitor, &stop)
        .unwrap();
    drop(sinks);
    (kept, lifeline.is_ready())
}

#[test]
fn the_street_is_empty_and_the_mono_camera_goes_on() {
    let (kept, ready) = run(&[false, true, false]);
    assert!(ready);
    let [(first, _), (blind, left), (after, _)] = &kept[..] else {
        panic!("{} results", kept.len());
    };
    assert!(first.street.as_ref().unwrap().stixels.total() > 0);
    let street = blind.street.as_ref().unwrap();
    assert!(street.disparity.pixels().all(|&d| d == INVALID));
    assert_eq!(street.stixels.total(), 0);
    assert_eq!(street.road.confidence, 0.0);
    assert_ne!(street.road.origin, RoadOrigin::Measured);
    assert!(blind.gaps.contains(Gap::CameraLost));
    // Nothing of the frame before is shown in its place.
    assert!(left.as_ref().unwrap().pixels().all(|&p| p == 0));
    let outcome = |r: &FrameResult, name| {
        let stage = r.timing.stages.iter().find(|s| s.stage == name);
        stage.map(|s| s.outcome == Outcome::Skipped)
    };
    for stage in ["rectify", "stereo", "road", "stixel"] {
        assert_eq!(outcome(blind, stage), Some(true), "{stage}");
        assert_eq!(outcome(after, stage), Some(false), "{stage}");
    }
    for stage in ["egomotion", "foreground"] {
        assert_eq!(outcome(blind, stage), Some(false), "{stage}");
    }
    // Too small a picture to tell how it moves, but looked at.
    assert_ne!(
        blind.foreground.as_ref().unwrap().state,
        ForegroundState::Skipped
    );
    assert!(!after.gaps.contains(Gap::CameraLost));
    assert!(after.street.as_ref().unwrap().stixels.total() > 0);
}

#[test]
fn a_service_is_not_ready_without_its_street() {
    let (kept, ready) = run(&[true, true]);
    assert_eq!(kept.len(), 2);
    assert!(!ready);
}
