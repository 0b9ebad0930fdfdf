//! Is the synthetic street the same bytes on every run, for any number of threads and on every
//! processor?
use std::path::{Path, PathBuf};

use roadloop::frame::Size;
use roadloop::source::synth::{Motion, Options, Street, SynthError, write};
use xxhash_rust::xxh3::Xxh3;

fn small() -> Options {
    Options {
        frames: 2,
        seed: 7,
        size: Size::new(161, 75),
        motion: Motion::Mixed,
    }
}

fn files(dir: &Path, list: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, list);
        } else {
            list.push(path);
        }
    }
    list.sort();
}

/// Names and bytes of all files below `dir`.
fn digest(dir: &Path) -> u64 {
    let mut list = Vec::new();
    files(dir, &mut list);
    let mut hash = Xxh3::new();
    for path in list {
        hash.update(path.strip_prefix(dir).unwrap().to_str().unwrap().as_bytes());
        hash.update(&std::fs::read(&path).unwrap());
    }
    hash.digest()
}

#[test]
fn a_drive_is_the_same_bytes_for_any_number_of_threads() {
    let of = |threads: usize| {
        let dir = tempfile::tempdir().unwrap();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let mut seen = Vec::new();
        pool.install(|| write::write_drive(&small(), dir.path(), &mut |i, n| seen.push((i, n))))
            .unwrap();
        assert_eq!(seen, [(1, 2), (2, 2)]);
        digest(dir.path())
    };
    let one = of(1);
    assert_eq!(one, of(1));
    assert_eq!(one, of(2));
    assert_eq!(one, of(5));
}

#[test]
fn seeds_differ() {
    let left = |seed| {
        let options = Options { seed, ..small() };
        Street::new(&options).unwrap().render(0).left_rgb
    };
    assert_ne!(left(1), left(2));
}

/// The pixels of one frame, truth included, as they were on x86-64 and on aarch64 when this was
/// written. A change means that the street looks different, or that a processor computes differently.
#[test]
fn a_frame_has_the_known_digest() {
    let r = Street::new(&small()).unwrap().render(1);
    let mut hash = Xxh3::new();
    for image in [&r.left_rgb, &r.right_rgb] {
        image.pixels().for_each(|p| hash.update(p));
    }
    for image in [&r.mono, &r.labels, &r.moving] {
        image.pixels().for_each(|&p| hash.update(&[p]));
    }
    for image in [&r.disparity, &r.depth] {
        image.pixels().for_each(|p| hash.update(&p.to_le_bytes()));
    }
    for logo in &r.logos {
        for (x, y) in logo.quad {
            hash.update(&x.to_le_bytes());
            hash.update(&y.to_le_bytes());
        }
    }
    assert_eq!(format!("{:016x}", hash.digest()), "8681f94d93462401");
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let with = |frames, size| {
        let options = Options {
            frames,
            size,
            ..small()
        };
        Street::new(&options).map(|_| ())
    };
    assert!(matches!(with(0, small().size), Err(SynthError::Frames(0))));
    assert!(matches!(
        with(1, Size::new(15, 75)),
        Err(SynthError::Size(_))
    ));
    assert!(matches!(
        with(1, Size::new(161, 4097)),
        Err(SynthError::Size(_))
    ));
    assert!(with(1, Size::new(16, 16)).is_ok());
}

#[test]
fn a_folder_in_use_is_refused_unless_forced() {
    let dir = tempfile::tempdir().unwrap();
    write::prepare(dir.path(), false).unwrap();
    write::prepare(&dir.path().join("new"), false).unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    std::fs::create_dir_all(dir.path().join("truth/labels")).unwrap();
    assert!(matches!(
        write::prepare(dir.path(), false),
        Err(SynthError::NotEmpty(_))
    ));
    // A recorded drive has no such marks; its pictures must stay.
    assert!(matches!(
        write::prepare(dir.path(), true),
        Err(SynthError::NotOurs { .. })
    ));
    std::fs::write(dir.path().join("truth/classes.csv"), "").unwrap();
    std::fs::write(dir.path().join("speed.csv"), "").unwrap();
    let labels = dir.path().join("truth/labels");
    for name in ["000003.png", "mine.png", "000003.txt"] {
        std::fs::write(labels.join(name), "").unwrap();
    }
    write::prepare(dir.path(), true).unwrap();
    assert!(dir.path().join("notes.txt").exists());
    assert!(!labels.join("000003.png").exists());
    assert!(labels.join("mine.png").exists() && labels.join("000003.txt").exists());
    // What a link leads to is not the drive's.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("000000.png"), "").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("image_2")).unwrap();
    assert!(matches!(
        write::prepare(dir.path(), true),
        Err(SynthError::NotAFolder(_))
    ));
    assert!(elsewhere.path().join("000000.png").exists());
}
