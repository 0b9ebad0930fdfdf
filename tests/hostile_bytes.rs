//! Can bytes from outside, whatever they are, make a reader panic or take memory without bound?
//!
//! Real files with bytes changed, cut and copied to other places. `make fuzz` tries far more of
//! them: `PROPTEST_CASES` says how many.
#[path = "common/tape.rs"]
mod tape;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs,
    path::Path,
    sync::{
        LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use proptest::prelude::*;
use roadloop::{
    calib::{self, Pair, Rig},
    config::Config,
    frame::{
        Foreground, FrameId, FrameResult, FrameSet, Gap, Image, MonoFrame, MonoImage, Motion,
        PixelKind, Size,
    },
    frame_loop::{Backend as _, CpuMono, FrameLoop, LoopConfig, MockClock, MonoShape, Pace, Slot},
    picture,
    recording::message,
    sink::{Sink, SinkError, View},
    source::{Next, Source},
    stage::logo::Templates,
};

/// The largest piece of memory that was asked for.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watching;

// SAFETY: hands everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        LARGEST.fetch_max(new_size, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// More than any reader may take at once for inputs as small as these. Pictures of up to 64
/// megapixels may come out of a few bytes, with three bytes a pixel.
const BOUND: usize = 300 << 20;

#[track_caller]
fn bounded() {
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest <= BOUND, "{largest} bytes were asked for at once");
}

/// What happens to bytes.
#[derive(Clone, Debug)]
enum Harm {
    Set(usize, u8),
    /// A number of four or eight bytes.
    Number(usize, bool, u64),
    Cut(usize),
    Insert(usize, Vec<u8>),
    /// From, to, how many.
    Copy(usize, usize, usize),
}

fn harms() -> impl Strategy<Value = Vec<Harm>> {
    let numbers = prop_oneof![
        any::<u64>(),
        0..70_000u64,
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        (0..64u32).prop_map(|n| 1 << n),
    ];
    let at = || any::<u32>().prop_map(|n| n as usize);
    let harm = prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, v)| Harm::Set(at, v)),
        4 => (at(), any::<bool>(), numbers).prop_map(|(at, wide, v)| Harm::Number(at, wide, v)),
        1 => at().prop_map(Harm::Cut),
        1 => (at(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(a, v)| Harm::Insert(a, v)),
        1 => (at(), at(), 0..200usize).prop_map(|(a, b, n)| Harm::Copy(a, b, n)),
    ];
    prop::collection::vec(harm, 1..6)
}

fn harmed(bytes: &[u8], harms: &[Harm]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for harm in harms {
        let n = bytes.len().max(1);
        match harm {
            Harm::Set(at, v) => {
                if let Some(byte) = bytes.get_mut(at % n) {
                    *byte = *v;
                }
            }
            Harm::Number(at, wide, v) => {
                let v = &v.to_le_bytes()[..if *wide { 8 } else { 4 }];
                if let Some(place) = bytes.get_mut(at % n..at % n + v.len()) {
                    place.copy_from_slice(v);
                }
            }
            Harm::Cut(at) => bytes.truncate(at % n),
            Harm::Insert(at, v) => {
                bytes.splice(at % n..at % n, v.iter().copied());
            }
            Harm::Copy(from, to, length) => {
                let piece = bytes[from % n..]
                    .iter()
                    .take(*length)
                    .copied()
                    .collect::<Vec<_>>();
                bytes.splice(to % n..to % n, piece);
            }
        }
    }
    bytes
}

fn temporary(name: &str, bytes: &[u8], f: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    f(&path);
}

static TAPE: LazyLock<Vec<u8>> = LazyLock::new(|| tape::tape(3));

/// Each message of the tape.
static MESSAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let stream = mcap::MessageStream::new(&TAPE).unwrap();
    stream.map(|m| m.unwrap().data.into_owned()).collect()
});

const SMALL: Size = Size::new(48, 40);

fn learnt() -> CpuMono {
    let config = Config::default();
    let shape = MonoShape {
        kind: PixelKind::Grey8,
        size: SMALL,
        foreground: true,
        logos: None::<std::sync::Arc<Templates>>,
        mask: None,
    };
    CpuMono::new(&config, &shape).unwrap()
}

/// One frame through the stages.
fn compute(mono: &mut CpuMono, n: usize) {
    let picture = Image::from_fn(SMALL.width, SMALL.height, |x, y| {
        (x * 5 + y * (3 + n)) as u8
    });
    let mut slot = Slot::empty();
    slot.result.motion = Some(Motion::default());
    slot.result.foreground = Some(Foreground::new(SMALL));
    let mut frame = MonoFrame::new(PixelKind::Grey8, SMALL);
    frame.image = MonoImage::Grey8(picture);
    let set = FrameSet {
        mono: Some(frame),
        ..FrameSet::default()
    };
    struct Once(Option<Box<FrameSet>>);
    impl Source for Once {
        fn next(&mut self, _: u64) -> Next {
            self.0.take().map_or(Next::End, Next::Frame)
        }
        fn recycle(&mut self, _: Box<FrameSet>) {}
    }
    struct Nowhere;
    impl Sink for Nowhere {
        fn frame(&mut self, _: View<'_>, _: &FrameResult) -> Result<(), SinkError> {
            Ok(())
        }
        fn gap(&mut self, _: FrameId, _: Gap) -> Result<(), SinkError> {
            Ok(())
        }
    }
    let (config, clock, stop) = (
        LoopConfig::default(),
        MockClock::default(),
        AtomicBool::new(false),
    );
    FrameLoop::new(mono, &clock, slot, &config, Pace::Max)
        .run(&mut Once(Some(Box::new(set))), &mut Nowhere, &stop)
        .unwrap();
}

static STATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = Vec::new();
    let mut mono = learnt();
    (0..3).for_each(|n| compute(&mut mono, n));
    assert!(mono.save(&mut state));
    state
});

const CALIBRATIONS: [(&str, &str); 3] = [
    (
        "calib.txt",
        "P0: 707 0 601 0 0 707 183 0 0 0 1 0\nP1: 707 0 601 -379 0 707 183 0 0 0 1 0\n",
    ),
    (
        "stereo.yaml",
        "%YAML:1.0\nM1: !!opencv-matrix\n   rows: 3\n   cols: 3\n   dt: d\n   data: [ 700., 0., 320., \
         0., 700., 240., 0., 0., 1. ]\nD1: !!opencv-matrix\n   rows: 1\n   cols: 5\n   dt: d\n   \
         data: [ -0.1, 0.01, 0., 0., 0. ]\n",
    ),
    (
        "camchain.yaml",
        "cam0:\n  camera_model: pinhole\n  intrinsics: [461.6, 460.3, 363.0, 248.1]\n  \
         distortion_model: radtan\n  distortion_coeffs: [-0.27, 0.06, 0.0, 0.0]\n  resolution: \
         [752, 480]\ncam1:\n  camera_model: pinhole\n  intrinsics: [461.6, 460.3, 363.0, 248.1]\n  \
         distortion_model: radtan\n  distortion_coeffs: [-0.27, 0.06, 0.0, 0.0]\n  resolution: \
         [752, 480]\n  T_cn_cnm1:\n  - [1.0, 0.0, 0.0, -0.11]\n  - [0.0, 1.0, 0.0, 0.0]\n  - [0.0, \
         0.0, 1.0, 0.0]\n  - [0.0, 0.0, 0.0, 1.0]\n",
    ),
];

proptest! {
    #[test]
    fn recordings(harms in harms()) {
        temporary("a.mcap", &harmed(&TAPE, &harms), |path| {
            let _ = tape::read(path);
        });
        bounded();
    }

    #[test]
    fn bytes_that_begin_as_a_recording(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        temporary("a.mcap", &[b"\x89MCAP0\r\n", &bytes[..]].concat(), |path| {
            let _ = tape::read(path);
        });
        bounded();
    }

    #[test]
    fn messages(which in any::<prop::sample::Index>(), harms in harms()) {
        let bytes = harmed(which.get::<Vec<u8>>(&MESSAGES), &harms);
        if let Ok(head) = message::read_image(&bytes) {
            prop_assert!(head.data.len() <= bytes.len());
        }
        let _ = message::read_compressed_image(&bytes);
        let _ = message::CameraInfo::read(&bytes);
        let _ = message::read_frame(&bytes, bytes.len() as u32 % 3);
        let _ = message::read_gap(&bytes);
        let _ = message::read_state(&bytes);
        if let Ok(info) = message::CameraInfo::read(&bytes)
            && let Ok(rig) =
                calib::of_camera_infos(Path::new("a"), ["l", "r"], [&info, &info], false)
        {
            let _ = rig.rectification(SMALL);
        }
        bounded();
    }

    #[test]
    fn states(harms in harms()) {
        let mut mono = learnt();
        let _ = mono.load(&harmed(&STATE, &harms));
        // Whatever was taken up, the stages go on from there.
        for n in 0..3 {
            compute(&mut mono, n);
        }
        bounded();
    }

    #[test]
    fn calibrations(which in 0..CALIBRATIONS.len(), harms in harms()) {
        let (name, text) = CALIBRATIONS[which];
        temporary(name, &harmed(text.as_bytes(), &harms), |path| {
            if let Ok(rig) = calib::read(path, Pair::First) {
                let _ = rig.rectification(SMALL);
                let _ = Rig::from_line(&rig.to_line());
            }
        });
        bounded();
    }

    #[test]
    fn configurations(harms in harms()) {
        let text = Config::default().to_toml();
        let text = String::from_utf8_lossy(&harmed(text.as_bytes(), &harms)).into_owned();
        if let Ok(config) = Config::parse(&text, None, "fuzz") {
            prop_assert!(config.validate("fuzz").is_ok());
        }
        bounded();
    }

    #[test]
    fn backgrounds(harms in harms()) {
        let mut mono = learnt();
        let snapshot = mono.snapshot().unwrap();
        let _ = mono.restore(&harmed(&snapshot, &harms));
        bounded();
    }

    #[test]
    fn pictures(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4usize) {
        let magic: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"P5\n", b"\xff\xd8", b"BM"];
        let _ = picture::decode(&[magic[kind], &bytes].concat());
        bounded();
    }
}
