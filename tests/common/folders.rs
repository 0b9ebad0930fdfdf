//! Drives in temporary folders, and what comes out of them.
#![allow(dead_code)]
use std::{fs, path::Path};

use roadloop::{
    frame::{Camera, FrameSet, Gap, Image},
    source::{Drive, DriveOptions, ExitKind, Next, Prefetch, Source, StereoSegment},
};
use tempfile::TempDir;

pub const CAMERA: Camera = Camera {
    focal_px: 700.0,
    cx: 5.0,
    cy: 4.0,
    baseline_m: 0.5,
};

/// Options with a configured camera, for drives that bring no calibration.
pub fn with_camera() -> DriveOptions {
    DriveOptions {
        camera: Some(CAMERA),
        ..DriveOptions::default()
    }
}

pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A grey picture of 10 x 8 px whose pixels are `value`.
pub fn grey(path: &Path, value: u8) {
    sized(path, 10, 8, value);
}

pub fn sized(path: &Path, width: usize, height: usize, value: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    roadloop::frame::png::write_grey(path, &Image::filled(width, height, value)).unwrap();
}

pub fn colour(path: &Path, value: [u8; 3]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    roadloop::frame::png::write_rgb(path, &Image::filled(10, 8, value)).unwrap();
}

/// A 16-bit picture of 10 x 8 px.
pub fn deep(path: &Path, f: impl Fn(usize, usize) -> u16) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = b"P5 10 8 65535\n".to_vec();
    for y in 0..8 {
        for x in 0..10 {
            file.extend(f(x, y).to_be_bytes());
        }
    }
    fs::write(path, file).unwrap();
}

/// Pictures `{:06}.png` of two folders; left ones hold 2 n, right ones 2 n + 1.
pub fn numbered(root: &Path, left: &str, right: &str, numbers: &[u64]) {
    for &n in numbers {
        grey(&root.join(format!("{left}/{n:06}.png")), 2 * n as u8);
        grey(&root.join(format!("{right}/{n:06}.png")), 2 * n as u8 + 1);
    }
}

pub const P: &str = "700 0 5 0 0 700 4 0 0 0 1 0";
pub const P_RIGHT: &str = "700 0 5 -350 0 700 4 0 0 0 1 0";
pub const P2: &str = "710 0 5 40 0 710 4 0 0 0 1 0";
pub const P3: &str = "710 0 5 -315 0 710 4 0 0 0 1 0";

pub fn open(path: &Path, options: &DriveOptions) -> Drive {
    match Drive::open(path, options) {
        Ok(drive) => drive,
        Err(e) => panic!("{e}"),
    }
}

/// The failure of a drive in `dir`, with that folder's name taken out of the text.
pub fn failure(dir: &Path, path: &Path, options: &DriveOptions) -> (String, ExitKind) {
    let error = Drive::open(path, options).expect_err("a failure");
    let text = error.to_string().replace(&dir.display().to_string(), "DIR");
    (text, error.exit())
}

#[derive(Debug, PartialEq)]
pub enum Seen {
    /// Number, first pixel left, first pixel right.
    Frame(u64, u8, Option<u8>),
    Gap(u64, Gap),
}

pub fn all(drive: &Drive) -> Vec<Seen> {
    let mut seen = Vec::new();
    visit(drive, |item| {
        seen.push(match item {
            Ok(set) => {
                let stereo = set.stereo.as_ref().unwrap();
                let right = stereo.right.as_ref().map(|r| r.get(0, 0));
                Seen::Frame(set.id.number, stereo.left.get(0, 0), right)
            }
            Err((number, gap)) => Seen::Gap(number, gap),
        });
    });
    seen
}

pub fn visit(drive: &Drive, mut f: impl FnMut(Result<&FrameSet, (u64, Gap)>)) {
    for segment in 0..drive.segments().len() {
        let mut source = Prefetch::start(drive, segment, 2).unwrap();
        loop {
            match source.next(u64::MAX) {
                Next::Frame(set) => {
                    f(Ok(&set));
                    source.recycle(set);
                }
                Next::Gap(id, gap) => f(Err((id.number, gap))),
                Next::Nothing => panic!("nothing within all time"),
                Next::End => break,
            }
        }
    }
}

/// The stereo images of a drive's first segment.
pub fn stereo(drive: &Drive) -> &StereoSegment {
    drive.segments()[0].stereo.as_ref().unwrap()
}

pub fn frame(n: u64) -> Seen {
    Seen::Frame(n, 2 * n as u8, Some(2 * n as u8 + 1))
}

pub fn stamps(drive: &Drive) -> Vec<u64> {
    drive.frames().iter().map(|f| f.id.timestamp.0).collect()
}
