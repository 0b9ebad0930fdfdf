//! Recorded drives from folders: every layout, every way in which one can be wrong.
mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use roadloop::{
    frame::{Camera, FrameSet, Gap, Image, Size},
    sink,
    source::{
        CameraPair, Crop, Drive, DriveKind, DriveOptions, ExitKind, MaskSource, Next, Prefetch,
        Source, SourceError, describe,
    },
};
use tempfile::TempDir;

const CAMERA: Camera = Camera {
    focal_px: 700.0,
    cx: 5.0,
    cy: 4.0,
    baseline_m: 0.5,
};

/// Options with a configured camera, for drives that bring no calibration.
fn with_camera() -> DriveOptions {
    DriveOptions {
        camera: Some(CAMERA),
        ..DriveOptions::default()
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A grey picture of 10 x 8 px whose pixels are `value`.
fn grey(path: &Path, value: u8) {
    sized(path, 10, 8, value);
}

fn sized(path: &Path, width: usize, height: usize, value: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    sink::png::write_grey(path, &Image::filled(width, height, value)).unwrap();
}

fn colour(path: &Path, value: [u8; 3]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    sink::png::write_rgb(path, &Image::filled(10, 8, value)).unwrap();
}

/// A 16-bit picture of 10 x 8 px.
fn deep(path: &Path, f: impl Fn(usize, usize) -> u16) {
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
fn numbered(root: &Path, left: &str, right: &str, numbers: &[u64]) {
    for &n in numbers {
        grey(&root.join(format!("{left}/{n:06}.png")), 2 * n as u8);
        grey(&root.join(format!("{right}/{n:06}.png")), 2 * n as u8 + 1);
    }
}

const P: &str = "700 0 5 0 0 700 4 0 0 0 1 0";
const P_RIGHT: &str = "700 0 5 -350 0 700 4 0 0 0 1 0";
const P2: &str = "710 0 5 40 0 710 4 0 0 0 1 0";
const P3: &str = "710 0 5 -315 0 710 4 0 0 0 1 0";

fn open(path: &Path, options: &DriveOptions) -> Drive {
    match Drive::open(path, options) {
        Ok(drive) => drive,
        Err(e) => panic!("{e}"),
    }
}

/// The failure of a drive in `dir`, with that folder's name taken out of the text.
fn failure(dir: &Path, path: &Path, options: &DriveOptions) -> (String, ExitKind) {
    let error = Drive::open(path, options).expect_err("a failure");
    let text = error.to_string().replace(&dir.display().to_string(), "DIR");
    (text, error.exit())
}

#[derive(Debug, PartialEq)]
enum Seen {
    /// Number, first pixel left, first pixel right.
    Frame(u64, u8, Option<u8>),
    Gap(u64, Gap),
}

fn all(drive: &Drive) -> Vec<Seen> {
    let mut seen = Vec::new();
    visit(drive, |item| {
        seen.push(match item {
            Ok(set) => Seen::Frame(
                set.id.number,
                set.left.get(0, 0),
                set.right.as_ref().map(|r| r.get(0, 0)),
            ),
            Err((number, gap)) => Seen::Gap(number, gap),
        });
    });
    seen
}

fn visit(drive: &Drive, mut f: impl FnMut(Result<&FrameSet, (u64, Gap)>)) {
    for segment in 0..drive.segments().len() {
        let mut source = Prefetch::start(drive, segment, 2);
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

fn frame(n: u64) -> Seen {
    Seen::Frame(n, 2 * n as u8, Some(2 * n as u8 + 1))
}

fn stamps(drive: &Drive) -> Vec<u64> {
    drive.frames().iter().map(|f| f.id.timestamp.0).collect()
}

#[test]
fn kitti_odometry_in_its_three_spellings() {
    for (left, right) in [
        ("image_l", "image_r"),
        ("image_0", "image_1"),
        ("image_2", "image_3"),
    ] {
        let dir = folder();
        numbered(dir.path(), left, right, &[0, 1, 2]);
        let drive = open(dir.path(), &with_camera());
        assert_eq!(drive.kind(), DriveKind::KittiOdometry);
        assert_eq!(all(&drive), [frame(0), frame(1), frame(2)]);
        assert_eq!(stamps(&drive), [0, 100_000_000, 200_000_000]);
        let [segment] = drive.segments() else {
            panic!("one segment")
        };
        assert_eq!(segment.size, Size::new(10, 8));
        assert_eq!(segment.frames, 0..3);
        assert_eq!(segment.rig.rectified_camera(), Some(CAMERA));
        assert!(segment.has_right && !segment.colour && !segment.stored_disparity);
        assert!(segment.mask.is_none());
    }
}

#[test]
fn the_grey_pair_goes_first_and_rows_of_the_calibration_follow_the_pair() {
    let dir = folder();
    numbered(dir.path(), "image_0", "image_1", &[0]);
    colour(&dir.path().join("image_2/000000.png"), [9, 9, 9]);
    colour(&dir.path().join("image_3/000000.png"), [8, 8, 8]);
    let rows = format!("P0: {P}\nP1: {P_RIGHT}\nP2: {P2}\nP3: {P3}\n");
    fs::write(dir.path().join("calib.txt"), rows).unwrap();
    let focal = |options: &DriveOptions| {
        let drive = open(dir.path(), options);
        let camera = drive.segments()[0].rig.rectified_camera().unwrap();
        (
            camera.focal_px,
            camera.baseline_m,
            drive.segments()[0].colour,
        )
    };
    let mut options = DriveOptions::default();
    assert_eq!(focal(&options), (700.0, 0.5, false));
    options.source.pair = Some(CameraPair::Colour);
    assert_eq!(focal(&options), (710.0, 0.5, true));
    // Explicit words go before the drive's own file.
    options.camera = Some(CAMERA);
    assert_eq!(focal(&options), (700.0, 0.5, true));
    let other = dir.path().join("other.txt");
    fs::write(&other, format!("{P}\n{P_RIGHT}\n").replace("700", "900")).unwrap();
    options.calib = Some(other);
    assert_eq!(focal(&options).0, 900.0);
}

#[test]
fn a_pair_that_is_not_there() {
    let dir = folder();
    numbered(dir.path(), "image_0", "image_1", &[0]);
    let mut options = with_camera();
    options.source.pair = Some(CameraPair::Colour);
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "[source] pair: DIR has no folder image_l or image_2".into(),
            ExitKind::Configuration
        )
    );
}

#[test]
fn bare_rows_and_broken_calibrations() {
    let dir = folder();
    numbered(dir.path(), "image_l", "image_r", &[0]);
    let calib = dir.path().join("calib.txt");
    let options = DriveOptions::default();
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "no calibration: DIR/calib.txt is missing; give --calib FILE or [camera] in the \
             configuration"
                .into(),
            ExitKind::NoInput
        )
    );
    fs::write(&calib, format!("{P}\n{P_RIGHT}")).unwrap();
    let rig = open(dir.path(), &options).segments()[0].rig.clone();
    assert_eq!(rig.rectified_camera(), Some(CAMERA));
    fs::write(&calib, "P0: 1 2 three").unwrap();
    let (text, exit) = failure(dir.path(), dir.path(), &options);
    assert!(text.contains("calib.txt"), "{text}");
    assert_eq!(exit, ExitKind::Data);
    let options = DriveOptions {
        calib: Some(dir.path().join("none.yml")),
        ..options
    };
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "DIR/none.yml: No such file or directory (os error 2)".into(),
            ExitKind::NoInput
        )
    );
}

#[test]
fn times_in_seconds() {
    let dir = folder();
    numbered(dir.path(), "image_0", "image_1", &[0, 1, 2]);
    let times = dir.path().join("times.txt");
    fs::write(&times, "0.000000e+00\n1.036224e-01\n2.0\n").unwrap();
    let drive = open(dir.path(), &with_camera());
    assert_eq!(stamps(&drive), [0, 103_622_400, 2_000_000_000]);
    assert_eq!(drive.times(), "times.txt: 1.000 Hz on average");
    for (lines, text) in [
        (
            "0\nsoon\n2",
            "DIR/times.txt line 2: \"soon\", expected a time",
        ),
        ("0\n-1\n2", "DIR/times.txt line 2: \"-1\", expected a time"),
        (
            "0\nnan\n2",
            "DIR/times.txt line 2: \"nan\", expected a time",
        ),
        (
            "0\n1\n1",
            "DIR/times.txt line 3: \"1\" is not later than the line before",
        ),
        (
            "0\n1",
            "DIR/times.txt: 2 times for 3 frames with numbers up to 2",
        ),
        (
            "",
            "DIR/times.txt: 0 times for 3 frames with numbers up to 2",
        ),
    ] {
        fs::write(&times, lines).unwrap();
        let expected = (text.into(), ExitKind::Data);
        assert_eq!(failure(dir.path(), dir.path(), &with_camera()), expected);
    }
}

#[test]
fn a_part_of_a_sequence_takes_its_own_lines_of_the_table() {
    let dir = folder();
    numbered(dir.path(), "image_0", "image_1", &[3, 4]);
    fs::write(dir.path().join("times.txt"), "0\n1\n2\n3\n4\n5").unwrap();
    let drive = open(dir.path(), &with_camera());
    assert_eq!(stamps(&drive), [3_000_000_000, 4_000_000_000]);
    assert_eq!(all(&drive), [frame(3), frame(4)]);
}

#[test]
fn the_rate_of_the_configuration() {
    let dir = folder();
    numbered(dir.path(), "image_l", "image_r", &[0, 1, 3]);
    let mut options = with_camera();
    options.source.rate_hz = 30.0;
    let drive = open(dir.path(), &options);
    assert_eq!(stamps(&drive), [0, 33_333_333, 66_666_667, 100_000_000]);
    assert_eq!(drive.times(), "no time stamps: taken as 30 Hz");
}

#[test]
fn gaps_in_mid_drive_stand_in_their_place() {
    let dir = folder();
    numbered(dir.path(), "image_l", "image_r", &[0, 1, 2, 3, 5, 6, 7, 8]);
    let path = |camera: &str, n: u64| dir.path().join(format!("image_{camera}/{n:06}.png"));
    fs::remove_file(path("r", 1)).unwrap();
    fs::remove_file(path("l", 2)).unwrap();
    let whole = fs::read(path("l", 3)).unwrap();
    fs::write(path("l", 3), &whole[..whole.len() - 20]).unwrap();
    sized(&path("r", 5), 9, 8, 0);
    fs::write(path("l", 6), "no picture").unwrap();
    let drive = open(dir.path(), &with_camera());
    assert_eq!(
        all(&drive),
        [
            frame(0),
            Seen::Gap(1, Gap::Missing),
            Seen::Gap(2, Gap::Missing),
            Seen::Gap(3, Gap::Unreadable),
            Seen::Gap(4, Gap::Missing),
            Seen::Gap(5, Gap::SizeChanged),
            Seen::Gap(6, Gap::Unreadable),
            frame(7),
            frame(8),
        ]
    );
    assert_eq!(drive.segments().len(), 1);
    let indices: Vec<_> = drive.frames().iter().map(|f| f.id.index).collect();
    assert_eq!(indices, (0..9).collect::<Vec<_>>());
    let text = describe(&drive).replace(&dir.path().display().to_string(), "DIR");
    assert_eq!(
        text,
        "drive        DIR\n\
         layout       KITTI odometry\n\
         frames       9\n\
         times        no time stamps: taken as 10 Hz\n\
         calibration  [camera]\n\
         pictures     10x8, grey, left and right\n\
         camera       rectified, f 700.000 px, centre (5.000, 4.000), baseline 0.5000 m\n\
         gaps         5\n\
         \x20            frame 1: missing: DIR/image_r/000001.png: not there\n\
         \x20            frame 2: missing: DIR/image_l/000002.png: not there\n\
         \x20            frame 4: missing: DIR/image_l/000004.png: not there\n\
         \x20            frame 5: size_changed: DIR/image_r/000005.png: 9x8 px\n\
         \x20            frame 6: unreadable: DIR/image_l/000006.png: not a PNG, PGM, PPM or JPEG \
         picture (begins with 6E 6F 20 70)\n"
    );
}

#[test]
fn numbers_that_do_not_count_frames_have_no_holes() {
    let dir = folder();
    numbered(dir.path(), "left", "right", &[0, 7, 90]);
    let drive = open(dir.path(), &with_camera());
    assert_eq!(all(&drive), [frame(0), frame(7), frame(90)]);
    // Every fifth frame of a drive, one left out.
    let dir = folder();
    numbered(dir.path(), "left", "right", &[0, 5, 15]);
    let drive = open(dir.path(), &with_camera());
    assert_eq!(
        all(&drive),
        [frame(0), frame(5), Seen::Gap(10, Gap::Missing), frame(15)]
    );
}

#[test]
fn frames_from_to_are_half_open() {
    let dir = folder();
    numbered(dir.path(), "image_l", "image_r", &[10, 11, 13, 14]);
    let part = |frames| DriveOptions {
        frames: Some(frames),
        ..with_camera()
    };
    let drive = open(dir.path(), &part(1..4));
    assert_eq!(
        all(&drive),
        [frame(11), Seen::Gap(12, Gap::Missing), frame(13)]
    );
    assert_eq!(drive.segments()[0].frames, 1..4);
    assert_eq!(drive.frames()[0].id.index, 1);
    assert_eq!(stamps(&drive), [100_000_000, 200_000_000, 300_000_000]);
    assert_eq!(drive.total(), 5);
    assert!(describe(&drive).contains("frames       3 (1..4 of 5)\n"));
    assert_eq!(all(&open(dir.path(), &part(4..1000))), [frame(14)]);
    for (range, text) in [
        (5..9, "frames 5..9: the drive has frames 0..5"),
        (2..2, "frames 2..2: the drive has frames 0..5"),
    ] {
        let failed = failure(dir.path(), dir.path(), &part(range));
        assert_eq!(failed, (text.into(), ExitKind::NoInput));
    }
    // A part must begin with a frame.
    assert_eq!(
        failure(dir.path(), dir.path(), &part(2..4)),
        (
            "no first frame: DIR/image_l/000012.png is missing".into(),
            ExitKind::NoInput
        )
    );
}

#[test]
fn no_drive() {
    let dir = folder();
    let root = dir.path();
    let options = with_camera();
    assert_eq!(
        failure(root, &root.join("none"), &options),
        (
            "DIR/none: No such file or directory (os error 2)".into(),
            ExitKind::NoInput
        )
    );
    fs::write(root.join("file"), "").unwrap();
    assert_eq!(
        failure(root, &root.join("file"), &options),
        (
            "DIR/file: a file; a drive is a folder".into(),
            ExitKind::NoInput
        )
    );
    let (text, exit) = failure(root, root, &options);
    assert!(
        text.starts_with("DIR: no drive is recognised here. Expected one of: image_l"),
        "{text}"
    );
    assert_eq!(exit, ExitKind::NoInput);
    fs::create_dir(root.join("image_l")).unwrap();
    assert_eq!(
        failure(root, root, &options),
        (
            "DIR/image_l: no pictures (.png, .pgm, .ppm, .pnm, .jpg, .jpeg) in this folder".into(),
            ExitKind::NoInput
        )
    );
    grey(&root.join("image_l/000000.png"), 0);
    let no_right = (
        "DIR/image_r: no right images; this folder is missing or empty. With --disparity DIR \
         none are needed"
            .to_string(),
        ExitKind::NoInput,
    );
    assert_eq!(failure(root, root, &options), no_right);
    fs::create_dir(root.join("image_r")).unwrap();
    assert_eq!(failure(root, root, &options), no_right);
    grey(&root.join("image_r/000001.png"), 0);
    grey(&root.join("image_r/000002.png"), 0);
    assert_eq!(
        failure(root, root, &options),
        (
            "no first frame: DIR/image_r/000000.png is missing".into(),
            ExitKind::NoInput
        )
    );
    sized(&root.join("image_r/000000.png"), 10, 9, 0);
    assert_eq!(
        failure(root, root, &options),
        (
            "DIR/image_r/000000.png: 10x9 px, but DIR/image_l/000000.png has 10x8 px".into(),
            ExitKind::Data
        )
    );
    fs::write(root.join("image_l/000000.png"), b"P5 10 8 255 abc").unwrap();
    assert_eq!(
        failure(root, root, &options),
        (
            "DIR/image_l/000000.png: truncated PGM/PPM: it ends after row 0 of 8".into(),
            ExitKind::Data
        )
    );
    assert_eq!(ExitKind::NoInput.code(), 66);
    assert_eq!(ExitKind::Data.code(), 65);
    assert_eq!(ExitKind::Configuration.code(), 78);
}

fn cam_to_cam(focal: u32) -> String {
    let size = |n| format!("S_0{n}: 20 16\nS_rect_0{n}: 10 8\n");
    let camera = |n: u32, tx: i32| {
        format!(
            "K_0{n}: 700 0 9 0 700 8 0 0 1\nD_0{n}: 0 0 0 0 0\nR_0{n}: 1 0 0 0 1 0 0 0 1\n\
             T_0{n}: 0 0 0\n{}R_rect_0{n}: 1 0 0 0 1 0 0 0 1\n\
             P_rect_0{n}: {focal} 0 5 {tx} 0 {focal} 4 0 0 0 1 0\n",
            size(n)
        )
    };
    let cameras = [(0, 0), (1, -350), (2, 40), (3, -310)];
    let cameras: String = cameras.map(|(n, tx)| camera(n, tx)).concat();
    format!("calib_time: 09-Jan-2012 13:57:47\ncorner_dist: 9.950000e-02\n{cameras}")
}

#[test]
fn kitti_stereo_pictures_each_with_its_calibration() {
    let dir = folder();
    let root = dir.path();
    for (n, focal) in [(1, 700), (2, 700), (4, 720), (5, 720)] {
        for camera in [2, 3] {
            for part in [10, 11] {
                let path = format!("training/image_{camera}/{n:06}_{part}.png");
                colour(&root.join(path), [n; 3]);
            }
        }
        let calib = root.join(format!("calib_cam_to_cam/training/{n:06}.txt"));
        fs::create_dir_all(calib.parent().unwrap()).unwrap();
        fs::write(calib, cam_to_cam(focal)).unwrap();
    }
    for given in [root.to_path_buf(), root.join("training")] {
        let drive = open(&given, &DriveOptions::default());
        assert_eq!(drive.kind(), DriveKind::KittiStereo);
        let numbers: Vec<_> = drive.frames().iter().map(|f| f.id.number).collect();
        assert_eq!(numbers, [1, 2, 4, 5]);
        let segments = drive.segments();
        let frames: Vec<_> = segments.iter().map(|s| s.frames.clone()).collect();
        assert_eq!(frames, [0..2, 2..4]);
        let focal = |n: usize| segments[n].rig.rectified_camera().unwrap();
        assert_eq!((focal(0).focal_px, focal(1).focal_px), (700.0, 720.0));
        assert!((focal(0).baseline_m - 0.5).abs() < 1e-12);
        assert!(segments[0].colour);
        assert_eq!(all(&drive)[2], Seen::Frame(4, 4, Some(4)));
    }
    // Another size: another segment, with its own crop of nothing.
    for camera in [2, 3] {
        sized(
            &root.join(format!("training/image_{camera}/000005_10.png")),
            12,
            8,
            5,
        );
    }
    let sized = cam_to_cam(720).replace("rect_02: 10 8", "rect_02: 12 8");
    let sized = sized.replace("rect_03: 10 8", "rect_03: 12 8");
    let calib = root.join("calib_cam_to_cam/training/000005.txt");
    fs::write(&calib, sized).unwrap();
    let drive = open(root, &DriveOptions::default());
    let sizes: Vec<_> = drive.segments().iter().map(|s| s.size).collect();
    assert_eq!(
        sizes,
        [Size::new(10, 8), Size::new(10, 8), Size::new(12, 8)]
    );
    assert_eq!(all(&drive).len(), 4);
    fs::remove_file(&calib).unwrap();
    assert_eq!(
        failure(root, root, &DriveOptions::default()),
        (
            "DIR/calib_cam_to_cam/training/000005.txt: No such file or directory (os error 2)"
                .into(),
            ExitKind::NoInput
        )
    );
    // The calibration may lie within the part, as in the archive of the benchmark.
    fs::rename(
        root.join("calib_cam_to_cam/training"),
        root.join("training/calib_cam_to_cam"),
    )
    .unwrap();
    fs::remove_dir(root.join("calib_cam_to_cam")).unwrap();
    let options = DriveOptions {
        frames: Some(0..3),
        ..DriveOptions::default()
    };
    assert_eq!(open(root, &options).segments().len(), 2);
}

#[test]
fn calibrations_for_another_size() {
    let dir = folder();
    let root = dir.path();
    for camera in [2, 3] {
        sized(
            &root.join(format!("training/image_{camera}/000001_10.png")),
            12,
            8,
            0,
        );
    }
    let calib = root.join("c.txt");
    fs::write(&calib, cam_to_cam(700)).unwrap();
    let options = DriveOptions {
        calib: Some(calib),
        ..DriveOptions::default()
    };
    assert_eq!(
        failure(root, root, &options),
        (
            "DIR/training/image_2/000001_10.png: 12x8 px, but the calibration is for pictures \
             of 10x8 px"
                .into(),
            ExitKind::Data
        )
    );
}

#[test]
fn kitti_raw() {
    let dir = folder();
    let root = dir.path().join("2011_09_26_drive_0001_sync");
    numbered(&root, "image_00/data", "image_01/data", &[0, 1, 3]);
    numbered(&root, "image_02/data", "image_03/data", &[0, 1, 3]);
    for camera in ["image_00", "image_02"] {
        let lines = (0..4).map(|n| format!("2011-09-26 13:02:25.{n}64389445\n"));
        fs::write(
            root.join(camera).join("timestamps.txt"),
            lines.collect::<String>(),
        )
        .unwrap();
    }
    fs::write(dir.path().join("calib_cam_to_cam.txt"), cam_to_cam(700)).unwrap();
    let drive = open(&root, &DriveOptions::default());
    assert_eq!(drive.kind(), DriveKind::KittiRaw);
    let missing = Seen::Gap(2, Gap::Missing);
    assert_eq!(all(&drive), [frame(0), frame(1), missing, frame(3)]);
    let first = 1_317_042_145_064_389_445;
    let expected = [0, 1, 2, 3].map(|n| first + n * 100_000_000);
    assert_eq!(stamps(&drive), expected);
    let camera = drive.segments()[0].rig.rectified_camera().unwrap();
    assert!((camera.baseline_m - 0.5).abs() < 1e-12);
    fs::remove_file(dir.path().join("calib_cam_to_cam.txt")).unwrap();
    let (text, _) = failure(dir.path(), &root, &DriveOptions::default());
    assert!(
        text.starts_with("no calibration: DIR/2011_09_26_drive_0001_sync/calib_cam_to_cam.txt"),
        "{text}"
    );
}

fn euroc(root: &Path, camera: u32, stamps: &[u64]) -> PathBuf {
    let cam = root.join(format!("mav0/cam{camera}"));
    for (n, stamp) in stamps.iter().enumerate() {
        grey(&cam.join(format!("data/{stamp}.png")), n as u8);
    }
    cam
}

#[test]
fn euroc_pairs_by_equal_stamp() {
    let dir = folder();
    let root = dir.path();
    const T: u64 = 1_403_715_273_262_142_976;
    euroc(root, 0, &[T, T + 50, T + 100, T + 150]);
    euroc(root, 1, &[T - 50, T, T + 100, T + 150, T + 200]);
    for given in [root.to_path_buf(), root.join("mav0")] {
        let drive = open(&given, &with_camera());
        assert_eq!(drive.kind(), DriveKind::Euroc);
        assert_eq!(
            all(&drive),
            [
                Seen::Frame(T, 0, Some(1)),
                Seen::Gap(T + 50, Gap::Missing),
                Seen::Frame(T + 100, 2, Some(2)),
                Seen::Frame(T + 150, 3, Some(3)),
            ]
        );
        assert_eq!(stamps(&drive), [T, T + 50, T + 100, T + 150]);
    }
    let (text, exit) = failure(root, root, &DriveOptions::default());
    assert!(
        text.starts_with("no calibration: DIR/mav0/cam0/sensor.yaml is missing"),
        "{text}"
    );
    assert_eq!(exit, ExitKind::NoInput);
    grey(&root.join("mav0/cam0/data/first.png"), 0);
    assert_eq!(
        failure(root, root, &with_camera()).0,
        "DIR/mav0/cam0/data/first.png: a file name that is no time stamp in ns, and there is no \
         data.csv"
    );
}

#[test]
fn euroc_tables() {
    let dir = folder();
    let root = dir.path();
    let left = euroc(root, 0, &[7, 8]);
    let right = euroc(root, 1, &[7, 8]);
    let head = "#timestamp [ns],filename\r\n";
    fs::write(
        left.join("data.csv"),
        format!("{head}50,5.png\r\n100,7.png\r\n200,9.png\r\n300,8.png\r\n400,10.png\r\n"),
    )
    .unwrap();
    fs::write(
        right.join("data.csv"),
        format!("{head}100,7.png\n200,8.png\n300,8.png\n400,8.png\n"),
    )
    .unwrap();
    let drive = open(root, &with_camera());
    assert_eq!(
        all(&drive),
        [
            Seen::Frame(100, 0, Some(0)),
            Seen::Gap(200, Gap::Missing),
            Seen::Frame(300, 1, Some(1)),
        ],
        "a clip of a longer table"
    );
    for (rows, text) in [
        (
            "101,7.png\n102,8.png",
            "DIR/mav0: no first frame: no time stamp has a picture of each camera",
        ),
        (
            "100,7.png\n90,8.png",
            "DIR/mav0/cam0/data.csv line 3: 90 is not later than the line before",
        ),
        (
            "x,7.png",
            "DIR/mav0/cam0/data.csv line 2: \"x,7.png\", expected \"stamp in ns,file name\"",
        ),
        (
            "1,../7.png",
            "DIR/mav0/cam0/data.csv line 2: \"1,../7.png\", expected \"stamp in ns,file name\"",
        ),
    ] {
        fs::write(left.join("data.csv"), format!("{head}{rows}")).unwrap();
        let expected = (text.into(), ExitKind::Data);
        assert_eq!(failure(root, root, &with_camera()), expected);
    }
}

#[test]
fn left_and_right_by_stem_number_or_order() {
    // By stem, whatever the extension; natural order; other files are passed over.
    let dir = folder();
    for n in [10u8, 9, 1] {
        grey(&dir.path().join(format!("left/{n}.png")), n);
        fs::create_dir_all(dir.path().join("right")).unwrap();
        let pgm = [b"P5 10 8 255 ".to_vec(), vec![n; 80]].concat();
        fs::write(dir.path().join(format!("right/{n}.PGM")), pgm).unwrap();
    }
    fs::write(dir.path().join("left/notes.txt"), "").unwrap();
    fs::write(dir.path().join("left/._1.png"), "").unwrap();
    let mut options = with_camera();
    let names = ["a1", "a9", "a10"];
    let drive = open(dir.path(), &options);
    assert_eq!(drive.kind(), DriveKind::Plain);
    let same = |n: u64| Seen::Frame(n, n as u8, Some(n as u8));
    // 1, 9, 10: more holes than pictures, so no counting.
    assert_eq!(all(&drive), [same(1), same(9), same(10)]);
    // Stems that differ in letters: by number.
    let dir = folder();
    for n in [2, 1] {
        grey(&dir.path().join(format!("left/left{n:02}.png")), n);
        grey(&dir.path().join(format!("right/right{n:02}.png")), n);
    }
    grey(&dir.path().join("right/right03.png"), 3);
    let drive = open(dir.path(), &options);
    assert_eq!(all(&drive), [same(1), same(2), Seen::Gap(3, Gap::Missing)]);
    // One each: a pair.
    let dir = folder();
    grey(&dir.path().join("left/aloeL.png"), 0);
    grey(&dir.path().join("right/aloeR.png"), 0);
    assert_eq!(all(&open(dir.path(), &options)), [same(0)]);
    // Names without numbers: numbered by their place.
    let dir = folder();
    for name in ["b", "a"] {
        grey(&dir.path().join(format!("left/{name}.png")), 0);
        grey(&dir.path().join(format!("right/{name}.png")), 0);
    }
    let numbers: Vec<_> = open(dir.path(), &options)
        .frames()
        .iter()
        .map(|f| f.id.number)
        .collect();
    assert_eq!(numbers, [0, 1]);
    options.camera = None;
    let (text, exit) = failure(dir.path(), dir.path(), &options);
    assert!(text.contains("give --calib FILE or [camera]"), "{text}");
    assert_eq!((exit, names.len()), (ExitKind::NoInput, 3));
}

#[test]
fn colour_is_kept_beside_grey() {
    let dir = folder();
    colour(&dir.path().join("left/0.png"), [255, 0, 0]);
    grey(&dir.path().join("right/0.png"), 9);
    grey(&dir.path().join("left/1.png"), 8);
    colour(&dir.path().join("right/1.png"), [0, 0, 255]);
    let drive = open(dir.path(), &with_camera());
    assert!(drive.segments()[0].colour);
    let mut seen = Vec::new();
    visit(&drive, |item| {
        let set = item.unwrap();
        let rgb = set.left_rgb.as_ref().unwrap();
        seen.push((
            set.left.get(9, 7),
            rgb.get(9, 7),
            set.right.as_ref().unwrap().get(0, 0),
        ));
    });
    assert_eq!(seen, [(77, [255, 0, 0], 9), (8, [8; 3], 29)]);
}

#[test]
fn sixteen_bit_pictures_come_down_by_the_shift() {
    let dir = folder();
    for camera in ["left", "right"] {
        deep(&dir.path().join(camera).join("0.pgm"), |x, _| {
            [0, 255, 256, 4095, 65_535][x % 5]
        });
    }
    for (shift, expected) in [(8, [0, 0, 1, 15, 255]), (4, [0, 15, 16, 255, 255])] {
        let mut options = with_camera();
        options.input.shift_bits = shift;
        visit(&open(dir.path(), &options), |item| {
            assert_eq!(item.unwrap().left.row(3)[..5], expected);
        });
    }
}

/// A drive of one pair whose left pixel at (x, y) is `f(x, y)`, the right one 255 minus that.
fn picture_drive(f: impl Fn(usize, usize) -> u8) -> TempDir {
    let dir = folder();
    for (camera, flip) in [("left", 0), ("right", 255)] {
        let image = Image::from_fn(10, 8, |x, y| f(x, y) ^ flip);
        let path = dir.path().join(camera).join("0.png");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        sink::png::write_grey(&path, &image).unwrap();
    }
    dir
}

#[test]
fn crop_and_scale_exactly() {
    let dir = picture_drive(|x, y| (20 * y + x) as u8);
    let mut options = with_camera();
    options.input.crop = Some(Crop {
        x: 3,
        y: 2,
        width: 5,
        height: 5,
    });
    let drive = open(dir.path(), &options);
    let segment = &drive.segments()[0];
    assert_eq!(segment.size, Size::new(5, 5));
    let camera = segment.rig.rectified_camera().unwrap();
    assert_eq!((camera.focal_px, camera.cx, camera.cy), (700.0, 2.0, 2.0));
    visit(&drive, |item| {
        let set = item.unwrap();
        assert_eq!(
            set.left,
            Image::from_fn(5, 5, |x, y| (20 * (y + 2) + x + 3) as u8)
        );
        let right = set.right.as_ref().unwrap();
        assert_eq!(right.get(4, 4), 255 - (20 * 6 + 7));
    });
    options.input.scale_down = 2;
    let drive = open(dir.path(), &options);
    let segment = &drive.segments()[0];
    // The fifth row and column are left over.
    assert_eq!(segment.size, Size::new(2, 2));
    let camera = segment.rig.rectified_camera().unwrap();
    assert_eq!((camera.focal_px, camera.baseline_m), (350.0, 0.5));
    assert_eq!((camera.cx, camera.cy), (0.75, 0.75));
    assert!(describe(&drive).contains("pictures     2x2 (files 10x8), grey, left and right\n"));
    visit(&drive, |item| {
        // The mean of 43, 44, 63, 64 is 53.5: half up.
        let expected = vec![54, 56, 94, 96];
        assert_eq!(item.unwrap().left, Image::from_vec(2, 2, expected).unwrap());
    });
}

#[test]
fn masks_in_the_coordinates_of_the_files() {
    let dir = picture_drive(|_, _| 0);
    let mut options = with_camera();
    // Corners count: x 2 to 4, y 1 to 3.
    let square = vec![[2.0, 1.0], [4.0, 1.0], [4.0, 3.0], [2.0, 3.0]];
    let mask = |options: &DriveOptions| {
        let drive = open(dir.path(), options);
        drive.segments()[0].mask.clone().unwrap()
    };
    let inside = |x: usize, y: usize| (2..=4).contains(&x) && (1..=3).contains(&y);
    let expected = |x, y| if inside(x, y) { 0 } else { 255 };
    options.input.mask = Some(MaskSource::Polygon(square.clone()));
    assert_eq!(mask(&options), Image::from_fn(10, 8, expected));
    options.input.crop = Some(Crop {
        x: 1,
        y: 1,
        width: 8,
        height: 7,
    });
    assert_eq!(
        mask(&options),
        Image::from_fn(8, 7, |x, y| expected(x + 1, y + 1))
    );
    // Blocks of 2 x 2 from (1, 1): masked as soon as they hold a masked pixel.
    options.input.scale_down = 2;
    assert_eq!(
        mask(&options),
        Image::from_vec(
            4,
            3,
            vec![0, 0, 255, 255, 0, 0, 255, 255, 255, 255, 255, 255]
        )
        .unwrap()
    );
    // A triangle and another polygon; partly outside.
    options.input = Default::default();
    let triangle = vec![[-1.0, 7.5], [1.5, 4.9], [20.0, 7.5]];
    options.input.mask = Some(MaskSource::Polygons(vec![square, triangle]));
    let two = mask(&options);
    assert_eq!((two.get(1, 5), two.get(2, 5), two.get(0, 6)), (255, 0, 255));
    assert_eq!((two.get(0, 7), two.get(9, 7), two.get(3, 2)), (0, 0, 0));
    // A picture: black is masked.
    let path = dir.path().join("mask.png");
    let picture = Image::from_fn(10, 8, |x, y| if inside(x, y) { 0 } else { 1 });
    sink::png::write_grey(&path, &picture).unwrap();
    options.input.mask = Some(MaskSource::Picture(path.clone()));
    assert_eq!(mask(&options), Image::from_fn(10, 8, expected));
    assert!(describe(&open(dir.path(), &options)).contains(", 9 px masked\n"));
    sized(&path, 9, 8, 0);
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "[input] mask: DIR/mask.png: 9x8 px, but the left pictures have 10x8 px".into(),
            ExitKind::Configuration
        )
    );
    fs::remove_file(&path).unwrap();
    assert_eq!(
        failure(dir.path(), dir.path(), &options).0,
        "[input] mask: DIR/mask.png: No such file or directory (os error 2)"
    );
}

#[test]
fn keys_that_fit_no_drive() {
    let dir = picture_drive(|_, _| 0);
    let crop = |x, y, width, height| {
        move |o: &mut DriveOptions| {
            o.input.crop = Some(Crop {
                x,
                y,
                width,
                height,
            });
        }
    };
    type Change = Box<dyn Fn(&mut DriveOptions)>;
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(crop(3, 0, 8, 8)),
            "[input] crop: 8x8 px at (3, 0) reach out of a picture of 10x8 px",
        ),
        (
            Box::new(crop(usize::MAX, 0, 8, 8)),
            "[input] crop: 8x8 px at (18446744073709551615, 0) reach out of a picture of 10x8 px",
        ),
        (
            Box::new(crop(0, 0, 0, 8)),
            "[input] crop: 0x8 px has no pixels",
        ),
        (
            Box::new(|o| o.input.scale_down = 9),
            "[input] scale_down: 9, expected 1 to 8",
        ),
        (
            Box::new(|o| o.input.scale_down = 0),
            "[input] scale_down: 0, expected 1 to 8",
        ),
        (
            Box::new(move |o| {
                crop(0, 0, 3, 8)(o);
                o.input.scale_down = 4;
            }),
            "[input] scale_down: 4 leaves nothing of 10x8 px",
        ),
        (
            Box::new(|o| o.input.shift_bits = 16),
            "[input] shift_bits: 16, expected 0 to 15",
        ),
        (
            Box::new(|o| o.input.mask = Some(MaskSource::Polygon(vec![[0.0; 2]; 2]))),
            "[input] mask: a polygon of 2 points, expected 3 or more",
        ),
        (
            Box::new(|o| o.input.mask = Some(MaskSource::Polygon(vec![[f64::NAN, 0.0]; 3]))),
            "[input] mask: a point at [NaN, 0], expected -1000000 to 1000000",
        ),
        (
            Box::new(|o| o.source.rate_hz = 0.0),
            "[source] rate_hz: 0, expected above 0 and up to 10000",
        ),
        (
            Box::new(|o| o.source.rate_hz = f64::NAN),
            "[source] rate_hz: NaN, expected above 0 and up to 10000",
        ),
        (
            Box::new(|o| o.source.disparity_scale = Some(-1.0)),
            "[source] disparity_scale: -1, expected above 0 and up to 256 px a unit",
        ),
    ];
    for (change, text) in cases {
        let mut options = with_camera();
        change(&mut options);
        let expected = (text.to_string(), ExitKind::Configuration);
        assert_eq!(failure(dir.path(), dir.path(), &options), expected);
    }
}

#[test]
fn configuration_in_toml() {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        input: roadloop::source::InputConfig,
        #[serde(default)]
        source: roadloop::source::SourceConfig,
    }
    let text = "[input]\ncrop = { x = 1, y = 2, width = 3, height = 4 }\nscale_down = 2\n\
                mask = [[0, 1], [2.5, 3], [4, 5]]\nshift_bits = 4\n\
                [source]\nrate_hz = 20\npair = \"colour\"\ndisparity_scale = 0.5\n";
    let file: File = toml::from_str(text).unwrap();
    assert_eq!(file.input.crop.unwrap().height, 4);
    let polygon = vec![[0.0, 1.0], [2.5, 3.0], [4.0, 5.0]];
    assert_eq!(file.input.mask, Some(MaskSource::Polygon(polygon)));
    assert_eq!((file.input.scale_down, file.input.shift_bits), (2, 4));
    assert_eq!(file.source.rate_hz, 20.0);
    assert_eq!(file.source.pair, Some(CameraPair::Colour));
    assert_eq!(file.source.disparity_scale, Some(0.5));
    let mask = |text: &str| toml::from_str::<File>(text).map(|f| f.input.mask);
    assert_eq!(
        mask("[input]\nmask = \"bonnet.png\"").unwrap(),
        Some(MaskSource::Picture("bonnet.png".into()))
    );
    assert!(matches!(
        mask("[input]\nmask = [[[0, 0], [1, 0], [0, 1]]]").unwrap(),
        Some(MaskSource::Polygons(_))
    ));
    assert!(mask("[input]\nmsak = 1").is_err());
    let file: File = toml::from_str("").unwrap();
    assert_eq!((file.input.shift_bits, file.input.scale_down), (8, 1));
    assert_eq!(file.source.rate_hz, 10.0);
}

/// The stored disparities of a drive's frames.
fn disparities(drive: &Drive) -> Vec<Result<Image<u16>, Gap>> {
    let mut seen = Vec::new();
    visit(drive, |item| {
        seen.push(match item {
            Ok(set) => {
                assert!(set.right.is_none());
                Ok(set.stored_disparity.clone().unwrap())
            }
            Err((_, gap)) => Err(gap),
        });
    });
    seen
}

#[test]
fn stored_disparities_in_sixteen_bits() {
    let dir = folder();
    grey(&dir.path().join("left/7.png"), 0);
    deep(&dir.path().join("d/000007_10.pgm"), |x, y| {
        [0, 1, 256, 65_534, 65_535][(x + y) % 5]
    });
    let mut options = with_camera();
    options.disparity = Some(dir.path().join("d"));
    let drive = open(dir.path(), &options);
    let segment = &drive.segments()[0];
    assert!(!segment.has_right && segment.stored_disparity);
    assert!(describe(&drive).contains("pictures     10x8, grey, stored disparities\n"));
    let first = disparities(&drive)[0].clone().unwrap();
    assert_eq!(first.row(0)[..5], [0xFFFF, 1, 256, 65_534, 0xFFFF]);
    options.zero_is_measured = true;
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    assert_eq!(first.row(0)[..5], [0, 1, 256, 65_534, 0xFFFF]);
}

#[test]
fn stored_disparities_cropped_and_scaled() {
    let dir = folder();
    grey(&dir.path().join("left/0.png"), 0);
    let rows: [[u16; 6]; 2] = [[100, 200, 0, 0, 0, 7], [300, 901, 0, 50, 0, 9]];
    deep(&dir.path().join("d/0.pgm"), |x, y| {
        if (1..3).contains(&y) && (2..8).contains(&x) {
            rows[y - 1][x - 2]
        } else {
            9999
        }
    });
    let mut options = with_camera();
    options.disparity = Some(dir.path().join("d"));
    options.input.crop = Some(Crop {
        x: 2,
        y: 1,
        width: 6,
        height: 2,
    });
    options.input.scale_down = 2;
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    // The lower median 200 by 2; one of four is too few; 7 by 2 is 3.5, half up.
    assert_eq!(first, Image::from_vec(3, 1, vec![100, 0xFFFF, 4]).unwrap());
    options.zero_is_measured = true;
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    assert_eq!(first, Image::from_vec(3, 1, vec![100, 0, 0]).unwrap());
}

#[test]
fn stored_disparities_in_eight_bits_need_their_scale() {
    let dir = folder();
    grey(&dir.path().join("left/1.png"), 0);
    grey(&dir.path().join("left/2.png"), 0);
    grey(&dir.path().join("left/3.png"), 0);
    grey(&dir.path().join("d/1.png"), 3);
    sized(&dir.path().join("d/3.png"), 9, 8, 3);
    let mut options = with_camera();
    options.disparity = Some(dir.path().join("d"));
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "[source] disparity_scale: DIR/d/1.png is 8-bit; state how many px of disparity one \
             unit stands for"
                .into(),
            ExitKind::Configuration
        )
    );
    options.source.disparity_scale = Some(0.5);
    let drive = open(dir.path(), &options);
    assert_eq!(
        disparities(&drive),
        [
            Ok(Image::filled(10, 8, 384)),
            Err(Gap::Missing),
            Err(Gap::SizeChanged)
        ]
    );
    options.source.disparity_scale = Some(256.0);
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    assert_eq!(first.get(0, 0), 0xFFFE);
    colour(&dir.path().join("d/1.png"), [1; 3]);
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "DIR/d/1.png: RGB; stored disparities are 16-bit grey (1/256 px) or 8-bit grey".into(),
            ExitKind::Data
        )
    );
    fs::remove_file(dir.path().join("d/1.png")).unwrap();
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "no first frame: DIR/d/1.png is missing".into(),
            ExitKind::NoInput
        )
    );
    options.disparity = Some(dir.path().join("e"));
    let (text, exit) = failure(dir.path(), dir.path(), &options);
    assert_eq!(text, "DIR/e: No such file or directory (os error 2)");
    assert_eq!(exit, ExitKind::NoInput);
}

#[test]
fn real_drives() {
    let focal = |drive: &Drive| drive.segments()[0].rig.rectified_camera().unwrap().focal_px;
    if let Some(path) = common::data("kitti_odom_06") {
        let drive = open(&path, &DriveOptions::default());
        assert_eq!(
            (drive.kind(), drive.total()),
            (DriveKind::KittiOdometry, 51)
        );
        assert_eq!(drive.segments()[0].size, Size::new(1226, 370));
        assert!((focal(&drive) - 707.0912).abs() < 1e-4);
        assert!(describe(&drive).ends_with("gaps         0\n"));
        let options = DriveOptions {
            frames: Some(10..13),
            ..DriveOptions::default()
        };
        let numbers: Vec<_> = all(&open(&path, &options))
            .into_iter()
            .map(|seen| match seen {
                Seen::Frame(n, ..) => n,
                Seen::Gap(n, gap) => panic!("{gap} at {n}"),
            })
            .collect();
        assert_eq!(numbers, [10, 11, 12]);
    }
    if let Some(path) = common::data("kitti2015") {
        let drive = open(&path, &DriveOptions::default());
        assert_eq!((drive.kind(), drive.total()), (DriveKind::KittiStereo, 8));
        assert!(drive.segments()[0].colour);
        assert!((focal(&drive) - 721.5377).abs() < 1e-4);
        assert_eq!(all(&drive).len(), 8);
    }
    if let Some(path) = common::data("euroc_micro") {
        let drive = open(&path, &DriveOptions::default());
        assert_eq!((drive.kind(), drive.total()), (DriveKind::Euroc, 2));
        assert!(!drive.segments()[0].rig.is_rectified());
        assert_eq!(stamps(&drive)[0], 1_403_715_273_262_142_976);
        assert_eq!(all(&drive).len(), 2);
        let mut options = DriveOptions {
            disparity: Some(path.join("mav0/cam0/data")),
            ..DriveOptions::default()
        };
        options.source.disparity_scale = Some(1.0);
        open(&path, &options);
        options.input.scale_down = 2;
        let (text, exit) = failure(&path, &path, &options);
        assert!(
            text.starts_with("[input] crop: the pictures of this drive are not"),
            "{text}"
        );
        assert_eq!(exit, ExitKind::Configuration);
    }
}

#[test]
fn real_stored_disparities() {
    if let Some(path) = common::data("sgm_reference") {
        let mut options = with_camera();
        let drive = open(&path, &options);
        assert_eq!((drive.kind(), drive.total()), (DriveKind::Plain, 2));
        assert_eq!(drive.segments()[0].size, Size::new(1280, 480));
        options.disparity = Some(path.join("disparities"));
        options.source.disparity_scale = Some(1.0);
        assert!(
            disparities(&open(&path, &options))
                .iter()
                .all(Result::is_ok)
        );
        options.camera = None;
        let error = Drive::open(&path, &options).unwrap_err();
        assert!(
            matches!(error, SourceError::NoCalibration { .. }),
            "{error}"
        );
    }
    if let Some(path) = common::data("stixel_reference") {
        let options = DriveOptions {
            disparity: Some(path.join("disparities")),
            ..with_camera()
        };
        let drive = open(&path, &options);
        assert_eq!(drive.frames()[0].id.number, 2);
        let first = disparities(&drive)[0].clone().unwrap();
        assert_eq!(first.size(), Size::new(1024, 768));
    }
}
