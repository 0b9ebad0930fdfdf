//! Decoding ahead of the loop: order, waiting, buffers that go round, the end.
mod common;
#[path = "common/heap.rs"]
mod heap;

use std::{fs, path::Path, sync::Mutex};

use heap::allocations;
use roadloop::{
    frame::{Camera, FrameSet, Gap, Image, Size},
    source::{Drive, DriveOptions, Next, Prefetch, Source},
};
use tempfile::TempDir;

fn options() -> DriveOptions {
    DriveOptions {
        camera: Some(Camera {
            focal_px: 700.0,
            cx: 16.0,
            cy: 8.0,
            baseline_m: 0.5,
        }),
        ..DriveOptions::default()
    }
}

/// `n` pairs of 33 x 17 px; each tenth frame but the first has no right picture.
fn drive(n: usize) -> (TempDir, Drive) {
    let dir = tempfile::tempdir().unwrap();
    let save = |camera: &str, k: usize| {
        let path = dir.path().join(camera).join(format!("{k:06}.png"));
        let image = Image::from_fn(33, 17, |x, y| (x * y + k) as u8);
        roadloop::frame::png::write_grey(&path, &image).unwrap();
    };
    for camera in ["left", "right"] {
        fs::create_dir(dir.path().join(camera)).unwrap();
    }
    for k in 0..n {
        save("left", k);
        if k == 0 || k % 10 != 0 {
            save("right", k);
        }
    }
    let drive = Drive::open(dir.path(), &options()).unwrap();
    (dir, drive)
}

fn check(set: &FrameSet, k: usize) {
    assert_eq!((set.id.index, set.id.number), (k, k as u64));
    let expected = Image::from_fn(33, 17, |x, y| (x * y + k) as u8);
    let stereo = set.stereo.as_ref().unwrap();
    assert_eq!(stereo.left, expected);
    assert_eq!(stereo.right.as_ref(), Some(&expected));
}

#[test]
fn every_frame_once_in_order_for_any_number_of_slots_and_threads() {
    let (_dir, drive) = drive(35);
    for (slots, threads) in [
        (0, 0),
        (1, 1),
        (1, 4),
        (2, 2),
        (3, 2),
        (3, 8),
        (8, 5),
        (100, 3),
    ] {
        let mut source = Prefetch::with_threads(&drive, 0, slots, threads).unwrap();
        for k in 0..35 {
            assert_eq!(source.remaining(), 35 - k);
            match source.next(u64::MAX) {
                Next::Frame(set) => {
                    check(&set, k);
                    assert!(k == 0 || k % 10 != 0);
                    source.recycle(set);
                }
                Next::Gap(id, gap) => {
                    assert_eq!((id.index, gap), (k, Gap::Missing));
                    assert!(k > 0 && k % 10 == 0);
                }
                other => panic!("{other:?}"),
            }
        }
        for _ in 0..3 {
            assert!(matches!(source.next(u64::MAX), Next::End));
        }
    }
}

#[test]
fn a_frame_kept_back_does_not_stop_the_rest() {
    let (_dir, drive) = drive(35);
    for threads in [1, 2, 3] {
        let mut source = Prefetch::with_threads(&drive, 0, 3, threads).unwrap();
        let mut kept = None;
        for k in 0..35 {
            match source.next(u64::MAX) {
                Next::Frame(set) => {
                    check(&set, k);
                    // As a loop that needs the frame before.
                    if let Some(set) = kept.replace(set) {
                        source.recycle(set);
                    }
                }
                Next::Gap(..) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn asking_allocates_nothing() {
    let (_dir, drive) = drive(400);
    for threads in [1, 2] {
        let mut source = Prefetch::with_threads(&drive, 0, 3, threads).unwrap();
        let before = allocations();
        for k in 0..400 {
            match source.next(u64::MAX) {
                Next::Frame(set) => source.recycle(set),
                Next::Gap(..) => assert_eq!(k % 10, 0),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(allocations() - before, 0, "allocations in 400 frames");
    }
}

#[test]
fn who_keeps_all_slots_gets_nothing_until_one_is_given_back() {
    let (_dir, drive) = drive(9);
    let mut source = Prefetch::start(&drive, 0, 2).unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        match source.next(u64::MAX) {
            Next::Frame(set) => held.push(set),
            other => panic!("{other:?}"),
        }
    }
    for wait_ns in [0, 1, 1000] {
        assert!(matches!(source.next(wait_ns), Next::Nothing));
    }
    assert_eq!(source.remaining(), 7);
    source.recycle(held.remove(0));
    match source.next(u64::MAX) {
        Next::Frame(set) => check(&set, 2),
        other => panic!("{other:?}"),
    }
    // What is still out was not touched.
    check(&held[0], 1);
}

#[test]
fn frame_sets_from_elsewhere_are_made_to_fit() {
    let (_dir, drive) = drive(9);
    let mut source = Prefetch::start(&drive, 0, 1).unwrap();
    for k in 0..9 {
        match source.next(u64::MAX) {
            Next::Frame(set) => {
                check(&set, k);
                source.recycle(Box::new(FrameSet::stereo(Size::new(5, 3 + k))));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn dropping_ends_the_thread_whatever_it_waits_for() {
    let (_dir, drive) = drive(30);
    // At work or with a full queue.
    drop(Prefetch::start(&drive, 0, 2).unwrap());
    // With nothing to decode into.
    let mut source = Prefetch::start(&drive, 0, 1).unwrap();
    let held = source.next(u64::MAX);
    drop(source);
    assert!(matches!(held, Next::Frame(_)));
}

#[test]
fn a_drive_that_goes_away_ends_in_gaps() {
    let (dir, drive) = drive(20);
    drop(dir);
    let mut source = Prefetch::start(&drive, 0, 2).unwrap();
    let mut gaps = 0;
    loop {
        match source.next(u64::MAX) {
            Next::Gap(id, Gap::Missing) => assert_eq!(id.index, gaps),
            Next::End => break,
            other => panic!("{other:?}"),
        }
        gaps += 1;
    }
    assert_eq!(gaps, 20);
}

/// Keeps what is logged.
struct Lines;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.level(), record.args());
        LINES.lock().unwrap().push(line);
    }
    fn flush(&self) {}
}

#[test]
fn gaps_are_logged_with_their_files() {
    static LOGGER: Lines = Lines;
    log::set_logger(&LOGGER).unwrap();
    log::set_max_level(log::LevelFilter::Debug);
    let (dir, drive) = drive(40);
    let left = |k: usize| dir.path().join(format!("left/{k:06}.png"));
    fs::write(left(3), b"P5 33 17 255 abc").unwrap();
    for k in 11..40 {
        fs::remove_file(left(k)).unwrap();
    }
    let mut source = Prefetch::start(&drive, 0, 2).unwrap();
    loop {
        match source.next(u64::MAX) {
            Next::Frame(set) => source.recycle(set),
            Next::End => break,
            _ => {}
        }
    }
    drop(source);
    let root = dir.path().display().to_string();
    let lines = LINES.lock().unwrap();
    let ours = |level: &str| {
        let ours = lines.iter().filter(|l| l.contains(&root));
        let ours: Vec<_> = ours.filter_map(|l| l.strip_prefix(level)).collect();
        ours.join("\n").replace(&root, "DIR")
    };
    let warnings = ours("WARN ");
    let first: Vec<_> = warnings.lines().take(3).collect();
    assert_eq!(
        first,
        [
            "frame 3: unreadable: DIR/left/000003.png: truncated PGM/PPM: it ends after row 0 of 17",
            "frame 10: missing: DIR/right/000010.png: the file is missing",
            "frame 11: missing: DIR/left/000011.png: the file is missing",
        ]
    );
    // The log does not fill up when a whole camera is gone.
    assert_eq!(warnings.lines().count(), 20);
    assert_eq!(ours("DEBUG ").lines().count(), 11);
    assert!(lines.contains(&"WARN 31 gaps in 40 frames".to_string()));
}

#[test]
fn the_same_bytes_each_time() {
    let Some(path) = common::data("kitti_odom_06") else {
        return;
    };
    let sums = |path: &Path| {
        let mut options = options();
        options.frames = Some(0..4);
        let drive = Drive::open(path, &options).unwrap();
        let mut source = Prefetch::start(&drive, 0, 3).unwrap();
        let mut sums = Vec::new();
        while let Next::Frame(set) = source.next(u64::MAX) {
            let hash = xxhash_rust::xxh3::xxh3_64(set.stereo.as_ref().unwrap().left.data());
            sums.push((set.id, hash));
            source.recycle(set);
        }
        sums
    };
    let first = sums(&path);
    assert_eq!(first.len(), 4);
    assert_eq!(sums(&path), first);
}
