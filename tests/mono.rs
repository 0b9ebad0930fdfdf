//! What is a mono camera to a drive, and which of its pictures belongs to which frame?
#[path = "common/folders.rs"]
mod folders;

use std::{fs, path::Path};

use folders::*;
use roadloop::{
    frame::{Gap, MonoImage, PixelKind, Size},
    source::{Crop, Drive, DriveKind, DriveOptions, ExitKind, describe},
};

/// Number, and first pixel of the mono picture or why there is none.
type Seen = (u64, Result<u16, Gap>);

fn first(image: &MonoImage) -> u16 {
    match image {
        MonoImage::Grey8(i) => i.get(0, 0).into(),
        MonoImage::Grey16(i) => i.get(0, 0),
        MonoImage::Rgb8(i) => i.get(0, 0)[0].into(),
    }
}

fn monos(drive: &Drive) -> Vec<Seen> {
    let mut seen = Vec::new();
    visit(drive, |item| {
        seen.push(match item {
            Ok(set) => {
                let mono = set.mono.as_ref().unwrap();
                let image = mono.gap.map_or_else(|| Ok(first(&mono.image)), Err);
                assert_eq!(mono.usable().is_some(), image.is_ok());
                (set.id.number, image)
            }
            Err((number, gap)) => (number, Err(gap)),
        });
    });
    seen
}

fn plain() -> DriveOptions {
    DriveOptions::default()
}

#[test]
fn every_layout_of_a_mono_drive() {
    for (folder_name, name, kind) in [
        ("mono", "000001.png", "mono, pictures in mono"),
        ("input", "in000001.png", "mono, pictures in input"),
        (
            "image_02/data",
            "0000000001.png",
            "mono, pictures in image_02/data",
        ),
        ("frames", "frame-1.png", "mono, pictures in frames"),
        ("", "1.png", "mono, pictures in the folder itself"),
    ] {
        let dir = folder();
        grey(&dir.path().join(folder_name).join(name), 5);
        grey(
            &dir.path().join(folder_name).join(name.replace('1', "2")),
            6,
        );
        let drive = open(dir.path(), &plain());
        assert_eq!(drive.kind().to_string(), kind);
        assert!(drive.is_mono());
        assert_eq!(monos(&drive), [(1, Ok(5)), (2, Ok(6))], "{folder_name}");
        assert_eq!(stamps(&drive), [0, 100_000_000]);
        let [segment] = drive.segments() else {
            panic!("one segment")
        };
        let mono = segment.mono.as_ref().unwrap();
        assert!(segment.stereo.is_none());
        assert_eq!((mono.kind, mono.size), (PixelKind::Grey8, Size::new(10, 8)));
    }
}

#[test]
fn what_can_be_read_as_stereo_stays_stereo() {
    let dir = folder();
    numbered(dir.path(), "left", "right", &[0, 1]);
    for name in [
        "input/0.png",
        "frames/0.png",
        "0.png",
        "image_02/data/0.png",
    ] {
        grey(&dir.path().join(name), 1);
    }
    // Half a pair, KITTI raw's camera 2 alone, and a whole pair beside it.
    let drive = open(dir.path(), &with_camera());
    assert_eq!(drive.kind(), DriveKind::Plain);
    assert!(
        drive.segments()[0].mono.is_none(),
        "input is no camera of a stereo drive"
    );
    fs::remove_dir_all(dir.path().join("right")).unwrap();
    let (text, _) = failure(dir.path(), dir.path(), &with_camera());
    assert!(text.starts_with("DIR/right: no right images"), "{text}");
    let empty = folder();
    let (text, exit) = failure(empty.path(), empty.path(), &plain());
    assert!(
        text.contains("mono, input, image_02/data or frames"),
        "{text}"
    );
    assert_eq!(exit, ExitKind::NoInput);
}

#[test]
fn numbers_left_out_are_missing_pictures() {
    let dir = folder();
    for n in [3, 4, 6] {
        grey(&dir.path().join(format!("input/in{n:06}.png")), n);
    }
    let drive = open(dir.path(), &plain());
    let expected = [(3, Ok(3)), (4, Ok(4)), (5, Err(Gap::Missing)), (6, Ok(6))];
    assert_eq!(monos(&drive), expected);
    let mut options = plain();
    options.frames = Some(1..3);
    assert_eq!(monos(&open(dir.path(), &options)), expected[1..3]);
    assert!(describe(&drive).contains("frame 2: missing: ",));
    // Other words: names only.
    grey(&dir.path().join("input/other9.png"), 9);
    assert_eq!(open(dir.path(), &plain()).total(), 4);
}

#[test]
fn every_kind_of_pixel_keeps_its_range() {
    let dir = folder();
    deep(&dir.path().join("a/mono/0.pgm"), |_, _| 54_321);
    grey(&dir.path().join("a/mono/1.png"), 9);
    colour(&dir.path().join("b/frames/0.png"), [200, 100, 50]);
    grey(&dir.path().join("b/frames/1.png"), 7);
    let sixteen = open(&dir.path().join("a"), &plain());
    assert_eq!(
        sixteen.segments()[0].mono.as_ref().unwrap().kind,
        PixelKind::Grey16
    );
    assert_eq!(
        monos(&sixteen),
        [(0, Ok(54_321)), (1, Err(Gap::Unreadable))]
    );
    let rgb = open(&dir.path().join("b"), &plain());
    assert_eq!(
        rgb.segments()[0].mono.as_ref().unwrap().kind,
        PixelKind::Rgb8
    );
    assert_eq!(monos(&rgb), [(0, Ok(200)), (1, Ok(7))]);
    assert!(describe(&rgb).contains("\nmono         10x8, RGB\n"));
}

#[test]
fn crop_and_scale_of_the_mono_camera() {
    let dir = folder();
    deep(&dir.path().join("mono/0.pgm"), |x, y| (1000 * y + x) as u16);
    let mut options = plain();
    options.mono.crop = Some(Crop {
        x: 2,
        y: 1,
        width: 5,
        height: 4,
    });
    options.mono.scale_down = 2;
    let drive = open(dir.path(), &options);
    visit(&drive, |item| {
        let mono = item.unwrap().mono.as_ref().unwrap();
        let MonoImage::Grey16(image) = &mono.image else {
            panic!("16-bit grey")
        };
        assert_eq!(image.size(), Size::new(2, 2));
        // (1002 + 1003 + 2002 + 2003) / 4, rounded half up.
        assert_eq!(image.get(0, 0), 1503);
    });
    options.mono.crop = Some(Crop {
        x: 9,
        y: 0,
        width: 5,
        height: 4,
    });
    let (text, exit) = failure(dir.path(), dir.path(), &options);
    assert_eq!(
        text,
        "mono.crop: 5x4 px at (9, 0) reach out of a picture of 10x8 px"
    );
    assert_eq!(exit, ExitKind::Configuration);
}

/// A stereo drive of frames at these seconds, with a mono camera at those.
fn timed(dir: &Path, frames: &[f64], pictures: &[f64]) {
    let numbers: Vec<u64> = (0..frames.len() as u64).collect();
    numbered(dir, "image_0", "image_1", &numbers);
    let lines = |seconds: &[f64]| {
        let lines: Vec<String> = seconds.iter().map(|s| format!("{s}\n")).collect();
        lines.concat()
    };
    fs::write(dir.join("times.txt"), lines(frames)).unwrap();
    for n in 0..pictures.len() {
        grey(&dir.join(format!("mono/{n:06}.png")), 100 + n as u8);
    }
    fs::write(dir.join("mono/times.txt"), lines(pictures)).unwrap();
}

#[test]
fn the_nearest_in_time_within_the_tolerance() {
    let dir = folder();
    // Half a period is 50 ms.
    timed(
        dir.path(),
        &[10.0, 10.1, 10.2, 10.3, 10.4],
        &[9.96, 10.04, 10.15, 10.25, 10.46, 10.47],
    );
    let drive = open(dir.path(), &with_camera());
    assert_eq!(
        monos(&drive),
        [
            // 40 ms before and after: the earlier.
            (0, Ok(100)),
            // 50 ms: just within, and nearer than 60.
            (1, Ok(102)),
            (2, Ok(102)),
            (3, Ok(103)),
            (4, Err(Gap::Unsynchronised)),
        ]
    );
    assert!(
        all(&drive)[4] == frame(4),
        "the stereo frame is there all the same"
    );
    let text = describe(&drive);
    assert!(
        text.contains("\nmono times   mono/times.txt, within 50.000 ms\n"),
        "{text}"
    );
    assert!(
        text.contains("frame 4: unsynchronised: no mono picture near enough in time"),
        "{text}"
    );
    let mut options = with_camera();
    options.mono.tolerance_us = Some(40_000);
    let narrow: Vec<_> = monos(&open(dir.path(), &options))
        .into_iter()
        .map(|m| m.1)
        .collect();
    let none = Err(Gap::Unsynchronised);
    assert_eq!(narrow, [Ok(100), none, none, none, none]);
    options.mono.tolerance_us = Some(60_000);
    assert_eq!(monos(&open(dir.path(), &options))[4], (4, Ok(104)));
    // A part of the drive has the same pairs.
    options.frames = Some(2..4);
    assert_eq!(
        monos(&open(dir.path(), &options)),
        [(2, Ok(102)), (3, Ok(103))]
    );
}

#[test]
fn pictures_without_times_go_by_number_then_by_place() {
    let dir = folder();
    numbered(dir.path(), "image_0", "image_1", &[3, 4, 5]);
    for n in [3, 5] {
        grey(&dir.path().join(format!("mono/{n:06}.png")), n as u8);
    }
    let drive = open(dir.path(), &with_camera());
    assert_eq!(
        monos(&drive),
        [(3, Ok(3)), (4, Err(Gap::Unsynchronised)), (5, Ok(5))]
    );
    grey(&dir.path().join("mono/000099.png"), 99);
    assert_eq!(
        monos(&open(dir.path(), &with_camera())),
        [(3, Ok(3)), (4, Ok(5)), (5, Ok(99))]
    );
}

#[test]
fn names_of_many_digits_are_time_stamps() {
    let dir = folder();
    let base = 1_403_636_579_763_555_584u64;
    for n in 0..3 {
        grey(
            &dir.path()
                .join(format!("mono/{}.png", base + n * 50_000_000)),
            n as u8,
        );
    }
    let drive = open(dir.path(), &plain());
    assert_eq!(
        stamps(&drive),
        [base, base + 50_000_000, base + 100_000_000]
    );
    assert_eq!(drive.frames()[2].id.number, base + 100_000_000);
    assert_eq!(
        drive.frames()[1].mono.as_ref().unwrap().timestamp,
        drive.frames()[1].id.timestamp
    );
    assert_eq!(drive.times(), "names of the pictures: 20.000 Hz on average");
}

#[test]
fn what_is_wrong_with_a_mono_picture_costs_the_mono_frame_alone() {
    let dir = folder();
    numbered(dir.path(), "left", "right", &[0, 1, 2, 3]);
    for n in 0..4 {
        grey(&dir.path().join(format!("mono/{n:06}.png")), n);
    }
    fs::write(dir.path().join("mono/000001.png"), "not a picture").unwrap();
    sized(&dir.path().join("mono/000002.png"), 9, 8, 0);
    let drive = open(dir.path(), &with_camera());
    fs::remove_file(dir.path().join("mono/000003.png")).unwrap();
    assert_eq!(
        monos(&drive),
        [
            (0, Ok(0)),
            (1, Err(Gap::Unreadable)),
            (2, Err(Gap::SizeChanged)),
            (3, Err(Gap::Missing)),
        ]
    );
    assert_eq!(all(&drive), [frame(0), frame(1), frame(2), frame(3)]);
}

#[test]
fn speeds_of_the_nearest_sample() {
    let dir = folder();
    for n in 0..4 {
        grey(&dir.path().join(format!("mono/{n}.png")), n);
    }
    let table = |text: &str| fs::write(dir.path().join("speed.csv"), text).unwrap();
    let speeds = || -> Vec<Option<f32>> {
        let mut seen = Vec::new();
        visit(&open(dir.path(), &plain()), |item| {
            seen.push(item.unwrap().speed_mps)
        });
        seen
    };
    assert_eq!(speeds(), [None; 4]);
    // Frames at 0, 100, 200, 300 ms; samples count up to 200 ms away.
    table("timestamp_ns,speed_mps\n50000000,1.5\n500000000,-2\n");
    assert_eq!(speeds(), [Some(1.5), Some(1.5), Some(1.5), Some(-2.0)]);
    table("timestamp_ns,speed_mps\n500000001,3\n");
    assert_eq!(speeds(), [None, None, None, None]);
    let drive = open(dir.path(), &plain());
    assert!(describe(&drive).contains("\nspeed        speed.csv: known for 0 of 4 frames\n"));
    let wrong = |text: &str| {
        table(text);
        let (text, exit) = failure(dir.path(), dir.path(), &plain());
        assert_eq!(exit, ExitKind::Data);
        text
    };
    assert_eq!(
        wrong("time,speed\n"),
        "DIR/speed.csv line 1: \"time,speed\", expected \"timestamp_ns,speed_mps\""
    );
    let expected = "expected a time in ns and a speed of -200 to 200 m/s";
    for bad in ["1", "1,fast", "-1,2", "1,NaN", "1,201", "1.5,2"] {
        assert_eq!(
            wrong(&format!("timestamp_ns,speed_mps\n{bad}\n")),
            format!("DIR/speed.csv line 2: {bad:?}, {expected}")
        );
    }
    assert_eq!(
        wrong("timestamp_ns,speed_mps\n7,1\n7,2\n"),
        "DIR/speed.csv line 3: 7 is not later than the line before"
    );
}

#[test]
fn the_first_mono_picture_must_be_whole() {
    let dir = folder();
    numbered(dir.path(), "left", "right", &[0]);
    fs::create_dir(dir.path().join("mono")).unwrap();
    let drive = open(dir.path(), &with_camera());
    assert!(
        drive.segments()[0].mono.is_none(),
        "an empty folder is no camera"
    );
    fs::write(dir.path().join("mono/0.png"), "x").unwrap();
    let (text, _) = failure(dir.path(), dir.path(), &with_camera());
    assert!(text.starts_with("DIR/mono/0.png: not a PNG"), "{text}");
}

#[test]
fn a_picture_without_a_number_among_numbered_ones_moves_no_frame() {
    let tmp = folder();
    for n in [460, 461, 463] {
        grey(&tmp.path().join(format!("input/in{n:06}.png")), 9);
    }
    grey(&tmp.path().join("input/cover.png"), 9);
    let numbers: Vec<u64> = open(tmp.path(), &DriveOptions::default())
        .frames()
        .iter()
        .map(|f| f.id.number)
        .collect();
    assert_eq!(numbers, [460, 461, 462, 463]);
}
