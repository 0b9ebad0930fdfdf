//! What does a recording know of frames that a lost camera has no part in? Live cameras that come
//! and go, recorded, and replayed.
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use roadloop::{
    calib::Rig,
    config::Config,
    frame::{Camera, CameraState, FrameId, FrameResult, FrameSet, Gap, GapSet},
    frame_loop::{Clock, Monitor, MonotonicClock, Pace},
    live::Live,
    replay::Replay,
    sink::{
        Announced, Full, Sink, SinkError, View,
        digest::{Digest, Hash},
        recorder::{About, Encoding, Recorder},
    },
    source::{
        Drive, DriveOptions, LiveShape, LiveSource, Next, Source,
        cameras::{
            Buffer, Cameras, CamerasConfig, Negotiated, PixelFormat, Queue, QueueError, Ready,
            StampFlag, Which,
        },
    },
};
use rustix::io::Errno;

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
const FRAMES: u32 = 26;
/// From one stamp to the next: four frames a file of a second.
const STEP_NS: u64 = 300_000_000;

/// Files of four frames each: the second without stereo, the third beginning so, the fifth
/// without a mono picture.
fn is_gone(which: Which, n: u32) -> bool {
    match which {
        Which::Left => n == 24,
        Which::Right => (3..10).contains(&n) || n == 13,
        Which::Mono => (15..21).contains(&n),
    }
}

/// Number and stamp of the frame that was last taken.
type Trigger = Arc<(Mutex<(u32, u64)>, Condvar)>;

/// A camera that takes a picture when it is triggered, unless it is unplugged.
struct Triggered {
    which: Which,
    trigger: Trigger,
    unplugged: Arc<AtomicBool>,
    seen: u32,
    bytes: Vec<u8>,
}

/// Texture that moves to the left, and 5 px more in the right picture.
fn pixel(which: Which, n: u32, x: usize, y: usize) -> u8 {
    let shift = match which {
        Which::Left => 0,
        Which::Right => 5,
        Which::Mono => 40,
    };
    let still = which == Which::Mono && !(20..40).contains(&x);
    let x = x + shift + if still { 0 } else { n as usize };
    let v = ((x / 2 * 73) ^ (y / 2 * 151)).wrapping_mul(0x9E37_79B1);
    (v >> 11) as u8
}

impl Queue for Triggered {
    fn open(&mut self) -> Result<Negotiated, QueueError> {
        if self.unplugged.load(Ordering::SeqCst) {
            let (call, errno) = ("open", Errno::NOENT);
            return Err(QueueError::Os { call, errno });
        }
        self.seen = self.trigger.0.lock().unwrap().0;
        Ok(Negotiated {
            format: PixelFormat::Grey,
            width: WIDTH,
            height: HEIGHT,
            stride: WIDTH,
            rate_hz: Some(1.0),
            buffers: 2,
            device: "triggered".into(),
            differences: Vec::new(),
        })
    }

    fn close(&mut self) {}

    fn start(&mut self) -> Result<(), QueueError> {
        Ok(())
    }

    fn stop(&mut self) -> Result<(), QueueError> {
        Ok(())
    }

    fn poll(&mut self, wait_ns: u64) -> Result<Ready, QueueError> {
        let (state, changed) = &*self.trigger;
        let nothing =
            |s: &mut (u32, u64)| s.0 == self.seen && !self.unplugged.load(Ordering::SeqCst);
        let wait = Duration::from_nanos(wait_ns);
        let (state, _) = changed
            .wait_timeout_while(state.lock().unwrap(), wait, nothing)
            .unwrap();
        Ok(if self.unplugged.load(Ordering::SeqCst) {
            Ready::Gone
        } else if state.0 == self.seen {
            Ready::Nothing
        } else {
            Ready::Frame
        })
    }

    fn dequeue(&mut self) -> Result<Buffer, QueueError> {
        let (number, stamp_ns) = *self.trigger.0.lock().unwrap();
        self.seen = number;
        let rows = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
        self.bytes.clear();
        (self.bytes).extend(rows.map(|(x, y)| pixel(self.which, number, x, y)));
        Ok(Buffer {
            index: 0,
            sequence: number,
            stamp_ns,
            flag: StampFlag::Monotonic,
            bytes_used: self.bytes.len(),
            ..Buffer::default()
        })
    }

    fn bytes(&self, _buffer: &Buffer) -> &[u8] {
        &self.bytes
    }

    fn requeue(&mut self, _index: usize) -> Result<(), QueueError> {
        Ok(())
    }
}

/// The cameras, triggered for each frame that the loop asks for.
struct Street {
    cameras: Cameras,
    trigger: Trigger,
    unplugged: Vec<(Which, Arc<AtomicBool>)>,
    start: u64,
    taken: u32,
    /// The last one taken has come.
    came: bool,
}

impl Street {
    fn new() -> Self {
        let camera = "width = 96, height = 64, format = 'GREY', clock = 'monotonic'";
        let config: CamerasConfig = toml::from_str(&format!(
            "rate_hz = 1
             max_age_ms = 60000
             stall_periods = 1000
             start_timeout_ms = 60000
             retry_ms = 1
             retry_max_ms = 1
             pair_wait_us = 10000000
             left = {{ device = '/dev/l', {camera} }}
             right = {{ device = '/dev/r', {camera} }}
             mono = {{ device = '/dev/m', {camera} }}"
        ))
        .unwrap();
        config.validate().unwrap();
        let trigger = Trigger::default();
        let mut unplugged = Vec::new();
        let cameras = Cameras::start(&config, None, |which, _| {
            let switch = Arc::new(AtomicBool::new(false));
            unplugged.push((which, Arc::clone(&switch)));
            Triggered {
                which,
                trigger: Arc::clone(&trigger),
                unplugged: switch,
                seen: 0,
                bytes: Vec::new(),
            }
        })
        .unwrap();
        Self {
            cameras,
            trigger,
            unplugged,
            // All stamps lie in the past.
            start: MonotonicClock.now().0 - 20_000_000_000,
            taken: 0,
            came: true,
        }
    }

    /// Plugs cameras in and out as frame `n` wants it, and waits until that is known.
    fn plug(&self, n: u32) {
        let held = self.trigger.0.lock().unwrap();
        for (which, switch) in &self.unplugged {
            switch.store(is_gone(*which, n), Ordering::SeqCst);
        }
        drop(held);
        self.trigger.1.notify_all();
        for (which, _) in &self.unplugged {
            let lost = |state| state == CameraState::Lost;
            while lost(self.cameras.status().of(*which).unwrap().state) != is_gone(*which, n) {
                std::thread::yield_now();
            }
        }
    }
}

impl Source for Street {
    fn next(&mut self, wait_ns: u64) -> Next {
        if self.came && wait_ns > 0 {
            if self.taken == FRAMES {
                return Next::End;
            }
            self.plug(self.taken);
            let stamp = self.start + u64::from(self.taken) * STEP_NS;
            self.taken += 1;
            *self.trigger.0.lock().unwrap() = (self.taken, stamp);
            self.trigger.1.notify_all();
            self.came = false;
        }
        let next = self.cameras.next(wait_ns);
        self.came |= !matches!(next, Next::Nothing);
        next
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.cameras.recycle(set);
    }
}

impl LiveSource for Street {
    fn shape(&self) -> LiveShape {
        self.cameras.shape()
    }
}

#[derive(Default)]
struct Kept {
    frames: Vec<(usize, Hash, GapSet)>,
    gaps: Vec<(usize, Gap)>,
    stereo_gaps: Vec<(usize, Gap)>,
    mono_gaps: Vec<(usize, Gap)>,
    digest: Digest,
    recorder: Option<Recorder>,
}

impl Sink for Kept {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        let recorder = self.recorder.as_mut();
        recorder.map_or(Ok(()), |r| r.begin(announced))
    }

    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        self.recorder.as_mut()?.state_room(next)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let (set, index) = (view.set.unwrap(), result.id.index);
        let mut one = Digest::new();
        one.frame(result)?;
        self.digest.frame(result)?;
        // When a stage took longer than its budget is another thing each time.
        self.frames.push((index, one.digests().whole, result.gaps));
        self.stereo_gaps.extend(set.stereo_gap.map(|g| (index, g)));
        let mono = set.mono.as_ref().and_then(|m| m.gap);
        self.mono_gaps.extend(mono.map(|g| (index, g)));
        let recorder = self.recorder.as_mut();
        recorder.map_or(Ok(()), |r| r.frame(view, result))
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.gaps.push((id.index, gap));
        self.recorder.as_mut().map_or(Ok(()), |r| r.gap(id, gap))
    }
}

fn config(compression: Encoding) -> Config {
    let text = "[foreground]\nenabled = true\nwarm_up_frames = 3\n[record]\nrotate_s = 1\n\
                [stereo]\ndisparities = 64\n[frame_loop]\ndeadline_us = 60000000\n";
    let mut config = Config::parse(text, None, "test").unwrap();
    config.record.compression = compression;
    config
}

fn live(config: &Config, folder: &Path) -> Kept {
    let rig = Rig::rectified(Camera {
        focal_px: 90.0,
        cx: 47.5,
        cy: 31.5,
        baseline_m: 0.3,
    });
    let mut street = Street::new();
    let live = Live::new(street.shape(), Some(rig)).unwrap();
    let recorder = Recorder::create(folder, &config.record, About::default(), Full::Wait).unwrap();
    let mut kept = Kept {
        recorder: Some(recorder),
        ..Kept::default()
    };
    let (monitor, stop) = (Monitor::default(), AtomicBool::new(false));
    let clock = &MonotonicClock;
    live.run(config, clock, &mut street, &mut kept, &monitor, &stop)
        .unwrap();
    kept
}

fn replay(config: &Config, path: &Path) -> Kept {
    let drive = Drive::open(path, &DriveOptions::default()).unwrap();
    let mut kept = Kept::default();
    let stop = AtomicBool::new(false);
    Replay::new(&drive)
        .unwrap()
        .run(config, Pace::Max, &MonotonicClock, &mut kept, &stop)
        .unwrap();
    kept
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_replay_gives_what_the_loop_gave_while_cameras_were_gone() {
    for compression in [Encoding::Raw, Encoding::Png] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("recorded");
        let config = config(compression);
        let mut live = live(&config, &folder);
        let status = live.recorder.take().unwrap().finish();
        assert_eq!((status.dropped, status.stopped), (0, None));
        assert_eq!(live.gaps, []);
        let gone = |all: &[Which]| -> Vec<_> {
            (0..FRAMES)
                .filter(|&n| all.iter().any(|&w| is_gone(w, n)))
                .map(|n| (n as usize, Gap::CameraLost))
                .collect()
        };
        assert_eq!(live.stereo_gaps, gone(&[Which::Left, Which::Right]));
        assert_eq!(live.mono_gaps, gone(&[Which::Mono]));
        assert_eq!(status.frames, u64::from(FRAMES));

        let again = replay(&config, &folder);
        assert_eq!(again.stereo_gaps, live.stereo_gaps);
        assert_eq!(again.mono_gaps, live.mono_gaps);
        assert_eq!(again.frames, live.frames);
        assert_eq!(again.gaps, []);
        let whole = live.digest.digests();
        assert_eq!(again.digest.digests(), whole);
        assert_eq!(status.digest, Some(whole.whole));

        // Each file alone: also those in which a camera has not one picture.
        let files = files(&folder);
        assert_eq!(files.len(), FRAMES.div_ceil(4) as usize);
        for (file, expected) in files.iter().zip(live.frames.chunks(4)) {
            assert_eq!(replay(&config, file).frames, expected, "{file:?}");
        }
    }
}
