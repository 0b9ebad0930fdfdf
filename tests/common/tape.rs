//! Small recordings, made without a loop, and all that can be read of one.
#![allow(dead_code)]
use std::{fs, path::Path};

use roadloop::{
    calib::Rig,
    frame::{
        Camera, Class, FrameId, FrameResult, FrameSet, Gap, Image, MonoFrame, MonoImage, PixelKind,
        Size, StereoFrame, Stixel, Stixels, Street, Timestamp,
    },
    sink::{
        Announced, Full, Sink as _, View,
        recorder::{About, RecordConfig, Recorder},
    },
    source::{Drive, DriveOptions, Next, Prefetch, Source as _},
};

pub const SIZE: Size = Size::new(32, 24);

pub const CAMERA: Camera = Camera {
    focal_px: 31.7,
    cx: 15.1,
    cy: 11.3,
    baseline_m: 0.117,
};

/// What the cameras see in frame `n`.
pub fn set(n: usize) -> FrameSet {
    let noise = |salt: usize| {
        Image::from_fn(SIZE.width, SIZE.height, |x, y| {
            let v = (x * 31 + y * 57 + n * 101 + salt * 7).wrapping_mul(0x9E37_79B1);
            (v >> 13) as u8
        })
    };
    let mut set: FrameSet = StereoFrame {
        right: Some(noise(1)),
        left: noise(0),
        left_rgb: None,
        stored_disparity: None,
    }
    .into();
    let mut mono = MonoFrame::new(PixelKind::Grey8, SIZE);
    mono.image = MonoImage::Grey8(noise(2));
    mono.timestamp = Timestamp(n as u64 * 100_000_000 + 5);
    set.mono = Some(mono);
    set.speed_mps = (!n.is_multiple_of(3)).then_some(n as f32 * 0.1);
    set.id = FrameId {
        index: n,
        number: n as u64,
        timestamp: Timestamp(n as u64 * 100_000_000),
    };
    set
}

pub fn result(set: &FrameSet) -> FrameResult {
    let mut street = Street::new(SIZE, Stixels::new(6, 5, 3));
    let (counts, lists) = street.stixels.columns_mut();
    for (count, list) in counts.iter_mut().zip(lists) {
        *count = 1;
        list[0] = Stixel {
            class: Class::Object,
            top: 0,
            base: 23,
            disparity: 512,
            confidence: 9,
        };
    }
    let mut result: FrameResult = street.into();
    result.id = set.id;
    result
}

/// A chunk a frame.
pub fn config() -> RecordConfig {
    RecordConfig {
        chunk_ms: 10,
        fsync_ms: 0,
        min_free_mib: 0,
        rotate_s: 3600,
        ..RecordConfig::default()
    }
}

/// Records frames; `state` is kept at the start of each file.
pub fn record(recorder: &mut Recorder, frames: impl IntoIterator<Item = usize>, state: &[u8]) {
    let shape = result(&set(0));
    let rig = Rig::rectified(CAMERA);
    let first = set(0);
    recorder
        .begin(&Announced {
            set: Some(&first),
            rig: Some(&rig),
            ..Announced::street(CAMERA, &shape, false)
        })
        .unwrap();
    for n in frames {
        let set = set(n);
        let view = View {
            set: Some(&set),
            ..View::default()
        };
        if let Some(room) = recorder.state_room(set.id) {
            room.clear();
            room.extend_from_slice(state);
        }
        recorder.frame(view, &result(&set)).unwrap();
    }
}

/// The bytes of a recording of so many frames in one file.
pub fn tape(frames: usize) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tape");
    let mut recorder = Recorder::create(&folder, &config(), About::default(), Full::Wait).unwrap();
    record(&mut recorder, 0..frames, b"state");
    let status = recorder.finish();
    assert_eq!((status.files, status.stopped), (1, None));
    fs::read(folder.join("000000.mcap")).unwrap()
}

/// A frame, or the gap in its place.
pub type Found = Result<FrameSet, (FrameId, Gap)>;

/// All that a drive gives: frames or gaps.
pub fn read(path: &Path) -> Result<Vec<Found>, String> {
    read_with(path, &DriveOptions::default())
}

pub fn read_with(path: &Path, options: &DriveOptions) -> Result<Vec<Found>, String> {
    let drive = Drive::open(path, options).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    for segment in 0..drive.segments().len() {
        let mut source = Prefetch::with_threads(&drive, segment, 2, 1).unwrap();
        loop {
            match source.next(1_000_000_000) {
                Next::Frame(set) => {
                    all.push(Ok((*set).clone()));
                    source.recycle(set);
                }
                Next::Gap(id, gap) => all.push(Err((id, gap))),
                Next::Nothing => {}
                Next::End => break,
            }
        }
    }
    Ok(all)
}

/// Whether a frame set shows what frame `n` did.
pub fn same(found: &FrameSet, n: usize) -> bool {
    let expected = set(n);
    let (a, b) = (found.stereo.as_ref(), expected.stereo.as_ref());
    let stereo = a
        .zip(b)
        .is_some_and(|(a, b)| a.left == b.left && a.right == b.right);
    found.id == expected.id
        && stereo
        && found.mono == expected.mono
        && found.speed_mps == expected.speed_mps
}
