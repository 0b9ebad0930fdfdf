//! Recorded drives from folders: every layout, every way in which one can be wrong.
mod common;
#[path = "common/folders.rs"]
mod folders;

use std::{
    fs,
    path::{Path, PathBuf},
};

use folders::*;
use roadloop::{
    frame::{Gap, Size},
    source::{CameraPair, Drive, DriveKind, DriveOptions, ExitKind, describe},
};

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
        assert_eq!(segment.frames, 0..3);
        assert!(segment.mono.is_none());
        let segment = stereo(&drive);
        assert_eq!(segment.size, Size::new(10, 8));
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
        let camera = stereo(&drive).rig.rectified_camera().unwrap();
        (camera.focal_px, camera.baseline_m, stereo(&drive).colour)
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
            "source.pair: DIR has no folder image_l or image_2".into(),
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
    let rig = stereo(&open(dir.path(), &options)).rig.clone();
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
         gaps         5 (by names and heads of the files; what is damaged inside shows in a replay)\n\
         \x20            frame 1: missing: DIR/image_r/000001.png: not there\n\
         \x20            frame 2: missing: DIR/image_l/000002.png: not there\n\
         \x20            frame 4: missing: DIR/image_l/000004.png: not there\n\
         \x20            frame 5: size_changed: DIR/image_r/000005.png: 9x8 px\n\
         \x20            frame 6: unreadable: DIR/image_l/000006.png: not a PNG, PGM, PPM, JPEG or BMP \
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
        let focal = |n: usize| {
            segments[n]
                .stereo
                .as_ref()
                .unwrap()
                .rig
                .rectified_camera()
                .unwrap()
        };
        assert_eq!((focal(0).focal_px, focal(1).focal_px), (700.0, 720.0));
        assert!((focal(0).baseline_m - 0.5).abs() < 1e-12);
        assert!(segments[0].stereo.as_ref().unwrap().colour);
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
    let sizes: Vec<_> = drive
        .segments()
        .iter()
        .map(|s| s.stereo.as_ref().unwrap().size)
        .collect();
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
    let camera = stereo(&drive).rig.rectified_camera().unwrap();
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
fn real_drives() {
    let focal = |drive: &Drive| stereo(drive).rig.rectified_camera().unwrap().focal_px;
    if let Some(path) = common::data("kitti_odom_06") {
        let drive = open(&path, &DriveOptions::default());
        assert_eq!(
            (drive.kind(), drive.total()),
            (DriveKind::KittiOdometry, 51)
        );
        assert_eq!(stereo(&drive).size, Size::new(1226, 370));
        assert!((focal(&drive) - 707.0912).abs() < 1e-4);
        assert!(describe(&drive).contains("\ngaps         0 ("));
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
        assert!(stereo(&drive).colour);
        assert!((focal(&drive) - 721.5377).abs() < 1e-4);
        assert_eq!(all(&drive).len(), 8);
    }
    if let Some(path) = common::data("euroc_micro") {
        let drive = open(&path, &DriveOptions::default());
        assert_eq!((drive.kind(), drive.total()), (DriveKind::Euroc, 2));
        assert!(!stereo(&drive).rig.is_rectified());
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
            text.starts_with("input.crop: the pictures of this drive are not"),
            "{text}"
        );
        assert_eq!(exit, ExitKind::Configuration);
    }
}

#[test]
fn a_picture_of_another_size_in_mid_drive_is_a_gap() {
    let dir = folder();
    let root = dir.path();
    for n in 0..4u8 {
        for camera in [2, 3] {
            let path = format!("training/image_{camera}/{n:06}_10.png");
            colour(&root.join(path), [n; 3]);
        }
        let calib = root.join(format!("calib_cam_to_cam/training/{n:06}.txt"));
        fs::create_dir_all(calib.parent().unwrap()).unwrap();
        fs::write(calib, cam_to_cam(700)).unwrap();
    }
    sized(&root.join("training/image_2/000002_10.png"), 6, 5, 2);
    let drive = open(root, &DriveOptions::default());
    assert_eq!(drive.segments().len(), 1);
    let seen = |n: u8| Seen::Frame(n.into(), n, Some(n));
    let gap = Seen::Gap(2, Gap::SizeChanged);
    assert_eq!(all(&drive), [seen(0), seen(1), gap, seen(3)]);
}

#[test]
fn numbers_to_the_end_of_their_range() {
    let dir = folder();
    numbered(dir.path(), "left", "right", &[0, 1]);
    let last = u64::MAX;
    for (camera, value) in [("left", 4), ("right", 5)] {
        grey(&dir.path().join(format!("{camera}/{last}.png")), value);
    }
    let drive = open(dir.path(), &with_camera());
    assert_eq!(
        all(&drive),
        [frame(0), frame(1), Seen::Frame(last, 4, Some(5))]
    );
}

#[test]
fn a_calibration_of_one_pair_is_that_pair_s() {
    let dir = folder();
    numbered(dir.path(), "image_2", "image_3", &[0]);
    let calib = dir.path().join("own.txt");
    let options = DriveOptions {
        calib: Some(calib.clone()),
        ..DriveOptions::default()
    };
    let focal = || {
        let drive = open(dir.path(), &options);
        stereo(&drive).rig.rectified_camera().unwrap().focal_px
    };
    fs::write(&calib, format!("P0: {P}\nP1: {P_RIGHT}\n")).unwrap();
    assert_eq!(focal(), 700.0);
    fs::write(
        &calib,
        format!("P0: {P}\nP1: {P_RIGHT}\nP2: {P2}\nP3: {P3}\n"),
    )
    .unwrap();
    assert_eq!(focal(), 710.0);
    // Half of the pair that is meant is a damaged file, not one of another pair.
    fs::write(&calib, format!("P0: {P}\nP1: {P_RIGHT}\nP2: {P2}\n")).unwrap();
    let (text, exit) = failure(dir.path(), dir.path(), &options);
    assert!(text.starts_with("DIR/own.txt: no P3"), "{text}");
    assert_eq!(exit, ExitKind::Data);
    let camera = "camera_model: pinhole\n  intrinsics: [700, 700, 5, 4]\n  \
                  distortion_model: none\n  distortion_coeffs: []\n  resolution: [10, 8]\n";
    let place = "T_cn_cnm1: [[1, 0, 0, -0.5], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]";
    let yaml = dir.path().join("camchain.yaml");
    fs::write(
        &yaml,
        format!("cam0:\n  {camera}cam1:\n  {camera}  {place}\n"),
    )
    .unwrap();
    let options = DriveOptions {
        calib: Some(yaml),
        ..DriveOptions::default()
    };
    assert!(stereo(&open(dir.path(), &options)).rig.raw_pair().is_some());
}

#[test]
fn images_too_large_for_the_stages_are_refused_by_their_head() {
    let dir = folder();
    for camera in ["left", "right"] {
        fs::create_dir_all(dir.path().join(camera)).unwrap();
        // Nothing but a head: it is not read further.
        let file = dir.path().join(camera).join("0.pgm");
        fs::write(file, "P5 16384 4096 255\n").unwrap();
    }
    assert_eq!(
        failure(dir.path(), dir.path(), &with_camera()),
        (
            "DIR/left/0.pgm: images of 16384x4096 px, expected at most 33554432 px in all; \
             [input] crop or scale_down make them smaller"
                .into(),
            ExitKind::Data
        )
    );
    let mut options = with_camera();
    options.input.scale_down = 2;
    let (text, _) = failure(dir.path(), dir.path(), &options);
    assert!(text.contains("truncated"), "{text}");
}
