//! What cameras do, and what is made of it: on the kernel's virtual cameras (vivid), in a virtual
//! machine. Where there are none, nothing is judged, and the tests say so.
//!
//! One test at a time: the cameras are the same for all (`--test-threads 1` keeps the times
//! apart).
#![cfg(feature = "v4l2")]

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use roadloop::{
    frame::{CameraState, FrameSet, Gap, MonoImage, PixelKind},
    frame_loop::{Clock, MonotonicClock},
    source::{
        LiveSource, Next, Source,
        cameras::{
            CameraConfig, CameraStatus, Cameras, CamerasConfig, CamerasError, ClockKind,
            PixelFormat, Which, v4l2,
        },
    },
};

const SECOND: u64 = 1_000_000_000;

/// The virtual cameras, one test at a time; `None`, said aloud, where there are not three.
fn cameras() -> Option<(MutexGuard<'static, ()>, [PathBuf; 3])> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let paths = [0, 1, 2]
        .map(|n| PathBuf::from(format!("/dev/v4l/by-path/platform-vivid.{n}-video-index0")));
    if !paths.iter().all(|p| p.exists()) {
        assert!(
            std::env::var_os("ROADLOOP_REQUIRE_CAMERAS").is_none(),
            "no vivid cameras, and ROADLOOP_REQUIRE_CAMERAS is set"
        );
        eprintln!("SKIPPED: no vivid cameras on this machine");
        return None;
    }
    for path in &paths {
        calm(path);
    }
    Some((guard, paths))
}

/// No faults.
fn calm(device: &Path) {
    for name in [
        "Percentage of Dropped Buffers",
        "Wrap Sequence Number",
        "Wrap Timestamp",
    ] {
        let _ = v4l2::set_control(device, name, 0);
    }
}

fn inject(device: &Path, name: &str, value: i64) {
    v4l2::set_control(device, name, value).unwrap_or_else(|e| panic!("{name}: {e}"));
}

fn camera(device: &Path, format: PixelFormat, width: usize, height: usize) -> CameraConfig {
    let text = format!(
        "device = {:?}\nwidth = {width}\nheight = {height}\nformat = {:?}",
        device.display().to_string(),
        format.name()
    );
    toml::from_str(&text).unwrap()
}

fn small(device: &Path) -> CameraConfig {
    camera(device, PixelFormat::Grey, 320, 180)
}

fn mono(camera: CameraConfig) -> CamerasConfig {
    CamerasConfig {
        rate_hz: 10.0,
        start_timeout_ms: 1000,
        mono: Some(camera),
        ..CamerasConfig::default()
    }
}

fn three([left, right, mono]: &[PathBuf; 3]) -> CamerasConfig {
    CamerasConfig {
        rate_hz: 10.0,
        // The cameras do not know of each other.
        tolerance_us: 50_000,
        left: Some(small(left)),
        right: Some(small(right)),
        mono: Some(small(mono)),
        ..CamerasConfig::default()
    }
}

/// What came in a while.
#[derive(Debug, Default)]
struct Seen {
    frames: usize,
    gaps: Vec<Gap>,
    without_stereo: usize,
    without_mono: usize,
}

/// Takes what comes until `enough` or for `limit_s`; checks the order of everything.
struct Taker {
    cameras: Cameras,
    next: usize,
    last: u64,
}

impl Taker {
    fn new(config: &CamerasConfig) -> Self {
        config.validate().unwrap();
        Self {
            cameras: Cameras::open(config, None).unwrap(),
            next: 0,
            last: 0,
        }
    }

    fn until(
        &mut self,
        limit_s: u64,
        mut enough: impl FnMut(&Seen, Option<&FrameSet>, &Cameras) -> bool,
    ) -> Seen {
        let mut seen = Seen::default();
        let start = Instant::now();
        loop {
            let next = self.cameras.next(SECOND / 10);
            let id = match &next {
                Next::Frame(set) => Some(set.id),
                Next::Gap(id, _) => Some(*id),
                Next::Nothing => None,
                Next::End => panic!("cameras never end"),
            };
            if let Some(id) = id {
                // Each instant has its number, be it a frame or a gap, and its time.
                assert_eq!(id.index, self.next);
                assert!(id.timestamp.0 > self.last, "{id:?} after {}", self.last);
                self.next += 1;
                self.last = id.timestamp.0;
            }
            let mut set = None;
            match next {
                Next::Frame(frame) => {
                    seen.frames += 1;
                    seen.without_stereo += usize::from(frame.stereo_gap.is_some());
                    seen.without_mono +=
                        usize::from(frame.mono.as_ref().is_some_and(|m| m.gap.is_some()));
                    // On the loop's clock, not in the future, not old.
                    let now = MonotonicClock.now();
                    let stamp = frame.id.timestamp;
                    assert!(now.plus_ns(SECOND / 10) > stamp, "{stamp} at {now}");
                    assert!(now.since(stamp) < 2 * SECOND, "{stamp} at {now}");
                    set = Some(frame);
                }
                Next::Gap(_, gap) => seen.gaps.push(gap),
                _ => {}
            }
            let over = enough(&seen, set.as_deref(), &self.cameras);
            if let Some(set) = set {
                self.cameras.recycle(set);
            }
            if over {
                return seen;
            }
            assert!(
                start.elapsed() < Duration::from_secs(limit_s),
                "not within {limit_s} s: {seen:?}, {:#?}",
                self.cameras.status()
            );
        }
    }

    fn frames(&mut self, count: usize, limit_s: u64) -> Seen {
        self.until(limit_s, |seen, _, _| seen.frames >= count)
    }

    /// Waits for a whole frame.
    fn recovers(&mut self, limit_s: u64) -> Duration {
        let start = Instant::now();
        self.until(limit_s, |_, set, cameras| {
            set.is_some_and(|s| s.stereo_gap.is_none())
                && cameras
                    .status()
                    .iter()
                    .all(|(_, c)| c.state == CameraState::Streaming)
        });
        start.elapsed()
    }
}

/// CPU time of the process, ms.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |n: usize| fields[n].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) * 10.0
}

#[test]
fn cameras_are_listed_by_names_that_stay() {
    let Some((_one, paths)) = cameras() else {
        return;
    };
    let listed = v4l2::list();
    for path in &paths {
        let found = listed.iter().find(|l| l.names.contains(path)).unwrap();
        assert!(found.description.contains("vivid"), "{found:?}");
        assert!(found.formats.contains("YUYV"), "{found:?}");
        let offers = found.offers.as_ref().unwrap();
        let grey = offers.iter().find(|o| o.code == *b"GREY").unwrap();
        let small = grey.sizes.iter().find(|s| s.least == [320, 180]).unwrap();
        assert!(small.rates.len() > 1, "{small:?}");
    }
}

#[test]
fn the_configured_cameras_are_checked_against_what_there_is() {
    let Some((_one, paths)) = cameras() else {
        return;
    };
    // In another machine than that of the build it lies elsewhere.
    let program = std::env::var_os("ROADLOOP_PROGRAM");
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_roadloop").into());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("roadloop.toml");
    let check = |cameras: &CamerasConfig| {
        let text = toml::to_string(cameras).unwrap();
        let table: toml::Table = text.parse().unwrap();
        let whole = toml::Table::from_iter([("cameras".to_owned(), table.into())]);
        std::fs::write(&file, toml::to_string(&whole).unwrap()).unwrap();
        let output = std::process::Command::new(&program)
            .args(["check", "cameras", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), out, err)
    };
    let (status, out, err) = check(&three(&paths));
    eprintln!("note: {out}");
    assert_eq!(status, Some(0), "{err}");
    for (which, path) in ["left", "right", "mono"].into_iter().zip(&paths) {
        let name = format!("camera {which} ({}, which is /dev/video", path.display());
        let line = out.lines().find(|l| l.starts_with(&name)).unwrap();
        assert!(line.contains("): "), "{line}");
    }
    let (status, out, err) = check(&mono(camera(&paths[0], PixelFormat::Grey, 333, 222)));
    assert_eq!(status, Some(78), "{out}");
    assert!(
        err.contains("333x222 of GREY is not offered; there are 320x180"),
        "{err}"
    );
}

#[test]
fn three_hundred_frames_of_three_cameras() {
    let Some((_one, paths)) = cameras() else {
        return;
    };
    let mut taker = Taker::new(&three(&paths));
    let cpu = cpu_ms();
    let seen = taker.frames(300, 90);
    let cpu = cpu_ms() - cpu;
    let status = taker.cameras.status();
    eprintln!(
        "note: 300 frame sets of three 320x180 cameras, {} gaps, {} without stereo, {} without \
         mono, {:.2} ms of CPU a set in the guest",
        seen.gaps.len(),
        seen.without_stereo,
        seen.without_mono,
        cpu / 300.0
    );
    for (which, c) in status.iter() {
        eprintln!("note: {which}: {:?} {:?}", c.clock, c.counts());
        assert_eq!(c.clock, Some(ClockKind::Monotonic));
        assert_eq!((c.damaged, c.short, c.errors, c.disordered), (0, 0, 0, 0));
        // A guest that is short of time may be taken for a camera that stalls.
        assert!(c.opens <= 3, "{c:?}");
    }
    // Most are whole, and whatever is not has a name.
    let whole = seen.frames - seen.without_stereo;
    assert!(whole >= 200, "{seen:?} {status:#?}");
    assert_eq!(status.pairs.gaps, seen.gaps.len() as u64);
    assert_eq!(status.pairs.degraded, seen.without_stereo as u64);
    assert_eq!(status.pairs.without_mono, seen.without_mono as u64);
    let left = status.of(Which::Left).unwrap();
    let named =
        left.missed + left.dropped + left.damaged + left.backward + left.future + left.stale;
    let dropped = seen.gaps.iter().filter(|g| **g == Gap::Dropped).count() as u64;
    // What is lost after the last frame is not named yet; what is lost before the first never is.
    assert!(dropped <= named + 2, "{dropped} {left:?}");
}

#[test]
fn every_format_that_the_driver_offers() {
    let Some((_one, [device, ..])) = cameras() else {
        return;
    };
    let listed = v4l2::list();
    let offered = &listed
        .iter()
        .find(|l| l.names.contains(&device))
        .unwrap()
        .formats;
    let mut seen = Vec::new();
    for format in PixelFormat::ALL {
        if !offered.split(", ").any(|name| name == format.name()) {
            continue;
        }
        let mut taker = Taker::new(&mono(camera(&device, format, 320, 180)));
        let mut picture = None;
        taker.until(20, |seen, set, _| {
            if let Some(frame) = set.and_then(|s| s.mono.as_ref()) {
                picture = Some(frame.image.clone());
            }
            seen.frames >= 3
        });
        // Bars, the first of them white at 75 %, the last black; text lies over the upper part.
        let picture = picture.unwrap();
        let (first, last) = match &picture {
            MonoImage::Grey8(image) => ([image.get(8, 170); 3], [image.get(312, 170); 3]),
            MonoImage::Rgb8(image) => (image.get(8, 170), image.get(312, 170)),
            MonoImage::Grey16(_) => panic!("no camera gives 16 bits"),
        };
        let colour = picture.kind() == PixelKind::Rgb8;
        assert_eq!(colour, format.has_colour());
        eprintln!("note: {format}: white {first:?}, black {last:?}");
        assert!(first.iter().all(|&v| v > 150), "{format} {first:?}");
        assert!(last.iter().all(|&v| v < 40), "{format} {last:?}");
        let spread = first.iter().max().unwrap() - first.iter().min().unwrap();
        assert!(spread < 12, "{format} {first:?}");
        seen.push(format);
    }
    for format in [PixelFormat::Grey, PixelFormat::Yuyv, PixelFormat::Rggb8] {
        assert!(seen.contains(&format), "{format} is not among {offered}");
    }
}

#[test]
fn what_the_driver_changes_is_said_and_what_cannot_be_is_refused() {
    let Some((_one, [device, ..])) = cameras() else {
        return;
    };
    use roadloop::source::cameras::Queue as _;
    // vivid has 25 frames a second of this size.
    let mut config = mono(camera(&device, PixelFormat::Grey, 640, 480));
    config.rate_hz = 30.0;
    let camera_config = config.mono.as_mut().unwrap();
    camera_config.gain = Some(100);
    camera_config.controls.insert("Brightness".into(), 77);
    camera_config.controls.insert("Contrast".into(), 100_000);
    camera_config.controls.insert("Nonsense".into(), 1);
    camera_config.exposure_us = Some(5000);
    let mut queue = v4l2::Device::new(&config, config.mono.as_ref().unwrap());
    let negotiated = queue.open().unwrap();
    queue.close();
    let rate = negotiated.rate_hz.unwrap();
    assert!((rate - 25.0).abs() < 0.1, "{rate}");
    let all = negotiated.differences.join("\n");
    eprintln!("note: {all}");
    for expected in [
        "rate_hz: 30 was asked for",
        "Contrast",
        "Nonsense",
        "exposure",
    ] {
        assert!(all.contains(expected), "{expected} in {all}");
    }
    assert!(!all.contains("Brightness\": 77"), "{all}");
    for (width, height, expected) in [(333, 222, "nearest"), (640, 481, "nearest")] {
        let config = mono(camera(&device, PixelFormat::Grey, width, height));
        let error = Cameras::open(&config, None).unwrap_err();
        assert!(matches!(error, CamerasError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let nowhere = mono(small(Path::new("/dev/v4l/by-path/none")));
    let error = Cameras::open(&nowhere, None).unwrap_err();
    assert!(matches!(error, CamerasError::NoneOpens { .. }), "{error}");
    let null = mono(small(Path::new("/dev/null")));
    let error = Cameras::open(&null, None).unwrap_err();
    assert!(error.to_string().contains("no V4L2 device"), "{error}");
}

#[test]
fn user_pointers_and_mapped_buffers_show_the_same() {
    let Some((_one, [device, ..])) = cameras() else {
        return;
    };
    let mut config = mono(small(&device));
    config.mono.as_mut().unwrap().memory = roadloop::source::cameras::MemoryChoice::Userptr;
    let mut taker = Taker::new(&config);
    let mut white = 0;
    taker.until(20, |seen, set, _| {
        if let Some(MonoImage::Grey8(image)) = set.and_then(|s| s.mono.as_ref()).map(|m| &m.image) {
            white = image.get(8, 170);
        }
        seen.frames >= 5
    });
    assert!(white > 150, "{white}");
}

#[test]
fn damaged_and_dropped_frames_are_counted_and_named() {
    let Some((_one, [device, ..])) = cameras() else {
        return;
    };
    let mut taker = Taker::new(&mono(small(&device)));
    taker.frames(5, 20);
    inject(&device, "Inject V4L2_BUF_FLAG_ERROR", 1);
    let seen = taker.until(20, |seen, _, _| seen.gaps.contains(&Gap::Dropped));
    assert_eq!(
        taker.cameras.status().of(Which::Mono).unwrap().damaged,
        1,
        "{seen:?}"
    );
    inject(&device, "Percentage of Dropped Buffers", 50);
    let before = *taker.cameras.status().of(Which::Mono).unwrap();
    let seen = taker.until(60, |seen, _, _| seen.frames >= 20);
    inject(&device, "Percentage of Dropped Buffers", 0);
    let after = *taker.cameras.status().of(Which::Mono).unwrap();
    eprintln!(
        "note: {} missed, {} gaps",
        after.missed - before.missed,
        seen.gaps.len()
    );
    assert!(after.missed > before.missed, "{after:?}");
    assert!(!seen.gaps.is_empty());
    taker.recovers(20);
}

#[test]
fn a_silent_camera_is_noticed_and_comes_back() {
    let Some((_one, [device, ..])) = cameras() else {
        return;
    };
    let mut taker = Taker::new(&mono(small(&device)));
    taker.frames(5, 20);
    inject(&device, "Percentage of Dropped Buffers", 100);
    let start = Instant::now();
    let seen = taker.until(20, |_, _, cameras| {
        cameras.status().of(Which::Mono).unwrap().state != CameraState::Streaming
    });
    let noticed = start.elapsed();
    // Gaps have names all the while.
    let seen2 = taker.until(20, |seen, _, _| seen.gaps.len() >= 10);
    assert!(seen2.gaps.contains(&Gap::CameraLost), "{seen:?} {seen2:?}");
    inject(&device, "Percentage of Dropped Buffers", 0);
    let back = taker.recovers(20);
    let status = taker.cameras.status();
    let camera = status.of(Which::Mono).unwrap();
    eprintln!(
        "note: noticed after {noticed:?}, back after {back:?}, {:?}",
        camera.counts()
    );
    assert!(camera.stalls >= 1 && camera.restarts >= 1);
}

#[test]
fn errors_of_the_queue_are_recovered_from() {
    let Some((_one, [device, ..])) = cameras() else {
        return;
    };
    let mut taker = Taker::new(&mono(small(&device)));
    taker.frames(5, 20);
    // Each fault, and what makes the stream meet it.
    for (fault, cause, restarts) in [
        ("Inject VIDIOC_QBUF Error", None, 0),
        ("Inject Fatal Streaming Error", None, 1),
        (
            "Inject VIDIOC_STREAMON Error",
            Some("Inject Fatal Streaming Error"),
            1,
        ),
        ("Inject VIDIOC_REQBUFS Error", Some("Disconnect"), 0),
    ] {
        // Healthy, so that the ladder begins at its first rung.
        taker.frames(35, 40);
        let before = *taker.cameras.status().of(Which::Mono).unwrap();
        inject(&device, fault, 1);
        if let Some(cause) = cause {
            inject(&device, cause, 1);
        }
        let start = Instant::now();
        let failures = |c: &CameraStatus| c.errors + c.open_failures;
        let met = if fault.contains("REQBUFS") {
            |c: &CameraStatus| c.open_failures
        } else {
            |c: &CameraStatus| c.errors
        };
        taker.until(20, |_, _, cameras| {
            met(cameras.status().of(Which::Mono).unwrap()) > met(&before)
        });
        taker.recovers(20);
        let after = *taker.cameras.status().of(Which::Mono).unwrap();
        eprintln!(
            "note: {fault}: frames again after {:?}, {} failures counted",
            start.elapsed(),
            failures(&after) - failures(&before)
        );
        assert!(
            after.restarts >= before.restarts + restarts,
            "{fault}: {after:?}"
        );
        assert_eq!(after.state, CameraState::Streaming);
    }
}

#[test]
fn wrapped_sequence_numbers_and_stamps_do_no_harm() {
    let Some((_one, [device, ..])) = cameras() else {
        return;
    };
    inject(&device, "Wrap Sequence Number", 1);
    let mut taker = Taker::new(&mono(small(&device)));
    // The driver begins 128 before the end.
    taker.frames(150, 90);
    let camera = *taker.cameras.status().of(Which::Mono).unwrap();
    assert_eq!(camera.disordered, 0, "{camera:?}");
    assert!(camera.missed < 100, "{camera:?}");
    drop(taker);
    inject(&device, "Wrap Sequence Number", 0);
    if let Err(error) = v4l2::set_control(&device, "Wrap Timestamp", 1) {
        eprintln!("note: no Wrap Timestamp: {error}");
        return;
    }
    let mut taker = Taker::new(&mono(small(&device)));
    // The driver begins 16 s before the end.
    taker.frames(190, 60);
    let camera = *taker.cameras.status().of(Which::Mono).unwrap();
    eprintln!("note: {:?} {:?}", camera.clock, camera.counts());
    calm(&device);
    assert_eq!(camera.backward, 0, "{camera:?}");
}

#[test]
fn an_unplugged_camera_is_back_two_seconds_after_it_is_plugged_in() {
    let Some((_one, paths)) = cameras() else {
        return;
    };
    let [_, right, _] = &paths;
    let mut taker = Taker::new(&three(&paths));
    taker.frames(10, 30);
    // ENODEV until the last descriptor is closed: unplugged and plugged in at once.
    inject(right, "Disconnect", 1);
    let start = Instant::now();
    let mut degraded = 0;
    taker.until(20, |seen, _, cameras| {
        degraded = seen.without_stereo;
        cameras.status().of(Which::Right).unwrap().opens == 2
    });
    let back = taker.recovers(20);
    let all = start.elapsed();
    let status = taker.cameras.status();
    eprintln!(
        "note: opened again and paired after {all:?} ({back:?} of it after opening), {degraded} \
         frames without stereo meanwhile"
    );
    assert_eq!(status.of(Which::Left).unwrap().opens, 1);
    assert!(all < Duration::from_secs(2), "{all:?}");
}

#[test]
fn without_one_stereo_camera_the_mono_camera_goes_on() {
    let Some((_one, paths)) = cameras() else {
        return;
    };
    let [left, ..] = &paths;
    let mut taker = Taker::new(&three(&paths));
    taker.frames(10, 30);
    inject(left, "Percentage of Dropped Buffers", 100);
    let seen = taker.until(30, |seen, _, _| seen.without_stereo >= 15);
    eprintln!(
        "note: {} frames, {} gaps meanwhile",
        seen.frames,
        seen.gaps.len()
    );
    inject(left, "Percentage of Dropped Buffers", 0);
    taker.recovers(30);
    let seen = taker.frames(20, 30);
    assert!(seen.without_stereo <= 10, "{seen:?}");
    assert_eq!(
        taker.cameras.shape().mono.map(|m| m.0),
        Some(PixelKind::Grey8)
    );
}
