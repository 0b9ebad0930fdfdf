//! Does a recording give back what the loop saw and computed, whatever has happened to its files?
use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
};

use roadloop::{
    config::Config,
    frame::{FrameId, FrameResult, Gap, Outcome, Size, Timestamp},
    frame_loop::{AdmissionConfig, Clock, MonotonicClock, Pace},
    replay::Replay,
    sink::{
        Announced, Full, Sink, SinkError, View,
        digest::{Digest, Hash},
        recorder::{About, Encoding, RecordStatus, Recorder},
    },
    source::{
        Drive, DriveOptions,
        synth::{Motion, Options, write::write_drive},
    },
};

const FRAMES: usize = 24;

/// A synthetic street at 10 Hz whose left camera is a mono camera, too.
fn drive(dir: &Path, motion: Motion) -> PathBuf {
    drive_of(dir, motion, Size::new(203, 97))
}

fn drive_of(dir: &Path, motion: Motion, size: Size) -> PathBuf {
    let out = dir.join("drive");
    let options = Options {
        frames: FRAMES,
        seed: 3,
        size,
        motion,
    };
    write_drive(&options, &out, &mut |_, _| {}).unwrap();
    fs::create_dir_all(out.join("mono")).unwrap();
    for n in 0..FRAMES {
        let name = format!("{n:06}.png");
        fs::copy(
            out.join("image_2").join(&name),
            out.join("mono").join(&name),
        )
        .unwrap();
    }
    out
}

fn config() -> Config {
    let text = "[foreground]\nenabled = true\nwarm_up_frames = 4\n[record]\nrotate_s = 1\n";
    Config::parse(text, None, "test").unwrap()
}

/// Results frame by frame, in a recording, too.
#[derive(Default)]
struct Kept {
    frames: Vec<(usize, Hash)>,
    gaps: Vec<(usize, Gap)>,
    digest: Digest,
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
        self.frames.push((result.id.index, one.digests().whole));
        self.digest.frame(result)?;
        self.recorder
            .as_mut()
            .map_or(Ok(()), |r| r.frame(view, result))
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.gaps.push((id.index, gap));
        self.recorder.as_mut().map_or(Ok(()), |r| r.gap(id, gap))
    }
}

struct Run {
    frames: Vec<(usize, Hash)>,
    gaps: Vec<(usize, Gap)>,
    whole: Hash,
    status: Option<RecordStatus>,
}

fn run_with(path: &Path, config: &Config, options: &DriveOptions, record: Option<&Path>) -> Run {
    let drive = Drive::open(path, options).unwrap();
    let replay = Replay::new(&drive).unwrap();
    let recorder = record.map(|folder| {
        Recorder::create(folder, &config.record, About::default(), Full::Wait).unwrap()
    });
    let mut sink = Kept {
        recorder,
        ..Kept::default()
    };
    let stop = AtomicBool::new(false);
    replay
        .run(config, Pace::Max, &MonotonicClock, &mut sink, &stop)
        .unwrap();
    Run {
        whole: sink.digest.digests().whole,
        frames: sink.frames,
        gaps: sink.gaps,
        status: sink.recorder.map(Recorder::finish),
    }
}

fn run(path: &Path, config: &Config, record: Option<&Path>) -> Run {
    run_with(path, config, &DriveOptions::default(), record)
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
fn a_recording_gives_the_results_of_the_loop_and_each_file_alone_its_own() {
    let tmp = tempfile::tempdir().unwrap();
    for (compression, motion) in [
        (Encoding::Raw, Motion::Mixed),
        (Encoding::Png, Motion::Still),
    ] {
        let dir = tmp.path().join(format!("{motion:?}"));
        let (mut config, recorded) = (config(), dir.join("recorded"));
        config.record.compression = compression;
        let live = run(&drive(&dir, motion), &config, Some(&recorded));
        assert_eq!(live.frames.len(), FRAMES);
        let status = live.status.unwrap();
        assert_eq!((status.frames, status.dropped, status.files), (24, 0, 3));
        assert_eq!(status.stopped, None);
        assert_eq!(status.digest, Some(live.whole));
        let again = run(&recorded, &config, None);
        assert_eq!(again.frames, live.frames);
        assert_eq!(again.whole, live.whole);
        for (n, file) in files(&recorded).iter().enumerate() {
            let alone = run(file, &config, None);
            let expected = &live.frames[10 * n..(10 * n + 10).min(FRAMES)];
            assert_eq!(alone.frames, expected, "{motion:?} {n}");
        }
    }
}

#[test]
fn gaps_keep_their_names_and_places() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = drive(tmp.path(), Motion::Drive);
    fs::remove_file(drive.join("image_3/000003.png")).unwrap();
    fs::write(drive.join("image_2/000015.png"), b"damaged").unwrap();
    fs::remove_file(drive.join("mono/000006.png")).unwrap();
    let (config, recorded) = (config(), tmp.path().join("recorded"));
    let live = run(&drive, &config, Some(&recorded));
    assert_eq!(live.gaps, [(3, Gap::Missing), (15, Gap::Unreadable)]);
    let again = run(&recorded, &config, None);
    assert_eq!(again.frames, live.frames);
    assert_eq!(again.gaps, live.gaps);
    // A file that is lost is a hole of that many frames, what it knew of their gaps with it.
    fs::remove_file(&files(&recorded)[1]).unwrap();
    let holed = run(&recorded, &config, None);
    let missing = [3].into_iter().chain(10..20).map(|n| (n, Gap::Missing));
    assert_eq!(holed.gaps, missing.collect::<Vec<_>>());
}

#[test]
fn a_part_of_a_recording_starts_cold() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, config) = (drive(tmp.path(), Motion::Still), config());
    let recorded = tmp.path().join("recorded");
    run(&drive, &config, Some(&recorded));
    let part = DriveOptions {
        frames: Some(5..12),
        ..DriveOptions::default()
    };
    let [a, b] = [&drive, &recorded].map(|d| run_with(d, &config, &part, None));
    assert_eq!(a.frames, b.frames);
    assert_eq!(a.frames.len(), 7);
}

/// Time passes whenever it is asked for, as if by chance, sometimes much of it.
struct Jumpy(Cell<u64>, Cell<u64>);

impl Clock for Jumpy {
    fn now(&self) -> Timestamp {
        let mut x = self.1.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.1.set(x);
        let ms = if x.is_multiple_of(9) {
            25
        } else {
            (x >> 20) % 5
        };
        self.0.set(self.0.get() + ms * 1_000_000);
        Timestamp(self.0.get())
    }

    fn sleep_until(&self, until: Timestamp) {
        self.0.set(self.0.get().max(until.0));
    }
}

/// Counts how optional stages ended.
#[derive(Default)]
struct Ended {
    kept: Kept,
    skipped: usize,
    late: usize,
}

impl Sink for Ended {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.kept.begin(announced)
    }

    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        self.kept.state_room(next)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let ended = |o| {
            let stages = result.timing.stages.iter();
            usize::from(
                stages
                    .into_iter()
                    .any(|s| s.stage == "foreground" && s.outcome == o),
            )
        };
        self.skipped += ended(Outcome::Skipped);
        self.late += ended(Outcome::Late);
        self.kept.frame(view, result)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.kept.gap(id, gap)
    }
}

#[test]
fn a_recording_with_its_decisions_gives_what_the_loop_gave_under_its_deadline() {
    let tmp = tempfile::tempdir().unwrap();
    let path = drive_of(tmp.path(), Motion::Still, Size::new(80, 48));
    let recorded = tmp.path().join("recorded");
    let mut config = config();
    config.stereo.disparities = 64;
    config.frame_loop.deadline_us = 200_000;
    config.frame_loop.admission = AdmissionConfig {
        warm_up_runs: 0,
        readmit_frames: 1,
        retry_frames: 2,
        ..AdmissionConfig::default()
    };
    let run = |path: &Path, pace, anew, record: Option<&Path>| {
        let drive = Drive::open(path, &DriveOptions::default()).unwrap();
        let replay = Replay::new(&drive).unwrap().deciding_anew(anew);
        let mut sink = Ended::default();
        sink.kept.recorder = record.map(|folder| {
            Recorder::create(folder, &config.record, About::default(), Full::Wait).unwrap()
        });
        let (clock, stop) = (
            Jumpy(Cell::new(1_000_000_000), Cell::new(77)),
            AtomicBool::new(false),
        );
        replay.run(&config, pace, &clock, &mut sink, &stop).unwrap();
        if let Some(recorder) = sink.kept.recorder.take() {
            assert_eq!(recorder.finish().dropped, 0);
        }
        sink
    };
    let live = run(&path, Pace::Realtime, false, Some(&recorded));
    let (skipped, late) = (live.skipped, live.late);
    assert!(
        skipped > 0 && late > 0 && skipped + late < live.kept.frames.len(),
        "{skipped} {late}"
    );
    let again = run(&recorded, Pace::Max, false, None);
    assert_eq!((again.skipped, again.late), (skipped, late));
    assert_eq!(again.kept.frames, live.kept.frames);
    assert_eq!(again.kept.gaps, live.kept.gaps);
    assert_eq!(again.kept.digest.digests(), live.kept.digest.digests());
    let anew = run(&recorded, Pace::Max, true, None);
    assert_eq!((anew.skipped, anew.late), (0, 0));
    assert_ne!(anew.kept.frames, live.kept.frames);
}

/// With python3 and the packages mcap and mcap-ros2-support; skipped, said aloud, without them.
#[test]
fn python_tools_read_a_recording() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, mut config) = (drive(tmp.path(), Motion::Still), config());
    (config.record.disparity, config.record.foreground) = (true, true);
    let recorded = tmp.path().join("recorded");
    run(&drive, &config, Some(&recorded));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/check_recording.py");
    let python = std::env::var_os("ROADLOOP_PYTHON").unwrap_or("python3".into());
    let output = Command::new(python)
        .arg(script)
        .args(files(&recorded))
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: no python3");
        return;
    };
    let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    match output.status.code() {
        Some(77) => eprintln!("{}", said[0].trim_end()),
        Some(0) => assert_eq!(said[0].matches("/roadloop/state").count(), 3, "{said:?}"),
        _ => panic!("{said:?}"),
    }
}
