//! Does a live loop label what it sees as a replay of its recording does?
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use roadloop::{
    config::Config,
    frame::{FrameId, FrameResult, Gap, LabelState, PixelKind, Size, Timestamp},
    frame_loop::{MockClock, Models, Monitor, MonotonicClock, Pace},
    live::Live,
    replay::Replay,
    sink::{
        Announced, Full, Sink, SinkError, View,
        digest::{Digest, Hash, Part},
        recorder::{About, Recorder},
    },
    source::{
        Drive, DriveOptions, FaultConfig, FaultInjector, LiveShape, LiveSource as _,
        SyntheticCameras, SyntheticConfig,
    },
    stage::forest::{Forest, street},
};

const FRAMES: usize = 12;
const SIZE: Size = Size::new(203, 97);

fn forest() -> Arc<Forest> {
    Arc::new(street().unwrap())
}

fn models() -> Models {
    Models {
        logos: None,
        forest: Some(forest()),
    }
}

fn config() -> Config {
    let text = "
        [stereo]
        disparities = 64
        [foreground]
        enabled = true
        warm_up_frames = 4
        [forest]
        step = 2
        [record]
        rotate_s = 1
    ";
    Config::parse(text, None, "test").unwrap()
}

/// Results frame by frame, in a recording, too.
#[derive(Default)]
struct Kept {
    frames: Vec<Hash>,
    digest: Digest,
    classes: Vec<usize>,
    recorder: Option<Recorder>,
}

impl Sink for Kept {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.recorder
            .as_mut()
            .map_or(Ok(()), |r| r.begin(announced))
    }

    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        self.recorder.as_mut()?.state_room(next)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let mut one = Digest::new();
        one.frame(result)?;
        self.frames.push(one.digests().whole);
        self.digest.frame(result)?;
        if let Some(labels) = &result.labels {
            assert_eq!(labels.state, LabelState::Valid);
            let mut seen: Vec<u8> = labels.labels.pixels().copied().collect();
            seen.sort_unstable();
            seen.dedup();
            self.classes.push(seen.len());
        }
        self.recorder
            .as_mut()
            .map_or(Ok(()), |r| r.frame(view, result))
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

/// The synthetic street at 5 Hz, recorded into `to`.
fn live(config: &Config, colour: bool, to: &Path) -> Kept {
    // Nothing takes time by it, so that nothing is ever late.
    let clock = &MockClock::at(Timestamp(1_000_000_000));
    let options = SyntheticConfig {
        width: SIZE.width,
        height: SIZE.height,
        frames: 6,
        colour,
        ..SyntheticConfig::default()
    };
    let cameras = SyntheticCameras::new(&options, 5.0, clock).unwrap();
    let end = FaultConfig {
        end_after: FRAMES,
        ..FaultConfig::default()
    };
    let live = Live::new(cameras.shape(), cameras.rig())
        .unwrap()
        .with_models(models());
    let mut source = FaultInjector::new(cameras, &end, clock);
    let recorder = Recorder::create(to, &config.record, About::default(), Full::Wait).unwrap();
    let mut sink = Kept {
        recorder: Some(recorder),
        ..Kept::default()
    };
    let (monitor, stop) = (Monitor::default(), AtomicBool::new(false));
    live.run(config, clock, &mut source, &mut sink, &monitor, &stop)
        .unwrap();
    let status = sink.recorder.take().unwrap().finish();
    assert_eq!((status.frames, status.dropped, status.files), (12, 0, 3));
    sink
}

fn replayed(path: &Path, config: &Config) -> Kept {
    let drive = Drive::open(path, &DriveOptions::default()).unwrap();
    let replay = Replay::new(&drive).unwrap().with_forest(forest());
    let (mut sink, stop) = (Kept::default(), AtomicBool::new(false));
    replay
        .run(config, Pace::Max, &MonotonicClock, &mut sink, &stop)
        .unwrap();
    sink
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn a_recording_gives_the_labels_of_the_loop_and_each_file_alone_its_own() {
    let tmp = tempfile::tempdir().unwrap();
    let config = config();
    for colour in [false, true] {
        let recorded = tmp.path().join(format!("colour {colour}"));
        let live = live(&config, colour, &recorded);
        assert_eq!(live.classes.len(), FRAMES);
        assert!(live.classes.iter().all(|&n| n > 3), "{:?}", live.classes);
        let digests = live.digest.digests();
        let parts: Vec<Part> = digests.parts.iter().map(|(part, _)| *part).collect();
        let all = [
            Part::Disparity,
            Part::Stixels,
            Part::Foreground,
            Part::Labels,
        ];
        assert_eq!(parts, all);
        let again = replayed(&recorded, &config);
        assert_eq!(again.digest.digests(), digests);
        for (n, file) in files(&recorded).iter().enumerate() {
            let expected = &live.frames[5 * n..(5 * n + 5).min(FRAMES)];
            let alone = replayed(file, &config);
            assert_eq!(alone.frames, expected, "colour {colour}, file {n}");
        }
    }
}

#[test]
fn a_mono_camera_alone_is_not_labelled() {
    let shape = LiveShape {
        stereo: None,
        mono: Some((PixelKind::Grey8, SIZE)),
    };
    let live = Live::new(shape, None).unwrap().with_models(models());
    let mut config = config();
    assert!(!live.is_idle(&config));
    config.foreground.enabled = Some(false);
    assert!(live.is_idle(&config));
}
