//! What is understood of calibration files, and what is refused.
mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use roadloop::{
    calib::{self, Distortion, Format, Pair, Rig},
    frame::{Camera, Size},
};
use tempfile::TempDir;

fn rigs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("calib")
}

fn near(a: Camera, b: Camera, tolerance: f64) {
    for (a, b) in [
        (a.focal_px, b.focal_px),
        (a.cx, b.cx),
        (a.cy, b.cy),
        (a.baseline_m, b.baseline_m),
    ] {
        assert!((a - b).abs() <= tolerance, "{a} for {b}");
    }
}

/// Reads a text as a file of this name.
fn text(name: &str, text: &str) -> Result<Rig, String> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    calib::read(&path, Pair::First).map_err(|e| e.to_string())
}

/// The message for a text, which must name the file and hold these words.
fn refused(content: &str, words: &[&str]) {
    let message = text("some.file", content).expect_err(content);
    assert!(message.contains("some.file"), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
}

#[test]
fn the_rigs_that_come_along() {
    let odometry = calib::read(&rigs().join("kitti_odometry_06.txt"), Pair::First).unwrap();
    let kitti = Camera {
        focal_px: 707.0912,
        cx: 601.8873,
        cy: 183.1104,
        baseline_m: 379.8145 / 707.0912,
    };
    assert_eq!(odometry.rectified_camera(), Some(kitti));
    assert_eq!(odometry.format(), Format::KittiProjections);

    let path = rigs().join("kitti_2015.txt");
    let colour = calib::read(&path, Pair::Second).unwrap();
    assert_eq!(colour.image_size(), Some(Size::new(1242, 375)));
    let c = colour.rectified_camera().unwrap();
    assert_eq!(c.baseline_m, (44.85728 + 339.5242) / 721.5377);
    let grey = calib::read(&path, Pair::First).unwrap();
    assert_eq!(
        grey.rectified_camera().unwrap().baseline_m,
        387.5744 / 721.5377
    );

    let euroc = calib::read(&rigs().join("euroc_v1.yaml"), Pair::First).unwrap();
    assert_eq!(euroc.format(), Format::Kalibr);
    assert_eq!(euroc.image_size(), Some(Size::new(752, 480)));
    let pair = euroc.raw_pair().unwrap();
    assert!((pair.translation.norm() - 0.110_078).abs() < 1e-6);
    assert_eq!(
        pair.lenses[0].distortion,
        Distortion::RadialTangential4([-0.28340811, 0.07395907, 0.00019359, 1.76187114e-05])
    );

    let template = calib::read(&rigs().join("template.yaml"), Pair::First).unwrap();
    assert_eq!(template.format(), Format::OpenCv);
    assert_eq!(template.warnings(), [""; 0]);
    let pair = template.raw_pair().unwrap();
    assert_eq!(pair.translation.x, -0.2396);
    let synthetic = calib::read(&rigs().join("synthetic.yaml"), Pair::First).unwrap();
    let street = Camera {
        focal_px: 0.58 * 1024.0,
        cx: 511.5,
        cy: 0.45 * 439.0,
        baseline_m: 0.54,
    };
    near(synthetic.rectified_camera().unwrap(), street, 1e-12);
    assert_eq!(synthetic.image_size(), Some(Size::new(1024, 440)));
    for entry in fs::read_dir(rigs()).unwrap() {
        let path = entry.unwrap().path();
        let rig = calib::read(&path, Pair::First).unwrap();
        assert_eq!(rig.warnings(), [""; 0], "{}", path.display());
        let shown = roadloop::calib::describe(&path, None).unwrap();
        assert!(shown.contains("field of view"), "{shown}");
    }
}

#[test]
fn real_files_say_the_same_as_our_rigs() {
    if let Some(path) = common::data("kitti_odom_06/calib.txt") {
        // Two bare rows of twelve.
        let rig = calib::read(&path, Pair::First).unwrap();
        let ours = calib::read(&rigs().join("kitti_odometry_06.txt"), Pair::First).unwrap();
        assert_eq!(rig.rectified_camera(), ours.rectified_camera());
        // The folder of the drive does as well; of two rows each pair is the same.
        let folder = path.parent().unwrap();
        assert_eq!(calib::read(folder, Pair::Second).unwrap(), rig);
    }
    if let Some(folder) = common::data("kitti2015/calib_cam_to_cam/training") {
        let ours = calib::read(&rigs().join("kitti_2015.txt"), Pair::Second).unwrap();
        let mut equal = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let rig = calib::read(&path, Pair::Second).unwrap();
            assert_eq!(rig.format(), Format::KittiCamToCam);
            assert!(rig.is_rectified() && rig.image_size().is_some());
            equal += usize::from(rig == ours);
        }
        assert!(equal > 0, "none is the typical one");
    }
    if let Some(folder) = common::data("euroc_micro") {
        let rig = calib::read(&folder, Pair::First).unwrap();
        assert_eq!(rig.format(), Format::Euroc);
        let ours = calib::read(&rigs().join("euroc_v1.yaml"), Pair::First).unwrap();
        let (a, b) = (rig.raw_pair().unwrap(), ours.raw_pair().unwrap());
        assert_eq!(a.lenses, b.lenses);
        assert!((a.rotation - b.rotation).abs().max() < 1e-9);
        assert!((a.translation - b.translation).abs().max() < 1e-9);
        // One of the two files finds the other, whichever it is; so does the pair.
        let [left, right] = [0, 1].map(|i| folder.join(format!("mav0/cam{i}/sensor.yaml")));
        assert_eq!(calib::read(&left, Pair::First).unwrap(), rig);
        assert_eq!(calib::read(&right, Pair::First).unwrap(), rig);
        assert_eq!(calib::read_pair(&left, &right).unwrap(), rig);
        let swapped = calib::read_pair(&right, &left).unwrap_err().to_string();
        assert!(swapped.contains("swapped"), "{swapped}");
    }
    if let Some(folder) = common::data("opencv_stereo") {
        let path = folder.join("DERIVED_stereo_calibration.yml");
        let rig = calib::read(&path, Pair::First).unwrap();
        assert!(
            rig.warnings()
                .iter()
                .any(|w| w.contains("chessboard squares"))
        );
        let of = |name: &str| calib::read(&folder.join(name), Pair::First).unwrap_err();
        // Camera matrices alone, one camera alone, a list of pictures.
        assert!(of("intrinsics.yml").to_string().contains("no R"));
        assert!(of("left_intrinsics.yml").to_string().contains("one camera"));
        assert!(of("stereo_calib.xml").to_string().contains("found XML"));
    }
}

const ODOMETRY: &str =
    "P0: 700 0 600 0 0 700 180 0 0 0 1 0\nP1: 700 0 600 -350 0 700 180 0 0 0 1 0\n";

#[test]
fn kitti_rows() {
    let expected = Camera {
        focal_px: 700.0,
        cx: 600.0,
        cy: 180.0,
        baseline_m: 0.5,
    };
    let rig = text("calib.txt", ODOMETRY).unwrap();
    assert_eq!(rig.rectified_camera(), Some(expected));
    let windows = format!("\u{feff}{}", ODOMETRY.replace('\n', "\r\n"));
    assert_eq!(text("calib.txt", &windows).as_ref(), Ok(&rig));
    let bare = ODOMETRY.replace("P0: ", "").replace("P1: ", "");
    let rig = text("calib.txt", &bare).unwrap();
    assert_eq!(rig.rectified_camera(), Some(expected));

    refused(
        &ODOMETRY.replace("-350", "350"),
        &["P1 (line 2)", "swapped"],
    );
    refused(
        &ODOMETRY.replace("-350", "0"),
        &["P1 (line 2)", "base line"],
    );
    refused(
        &ODOMETRY.replace("-350", "nan"),
        &["P1 (line 2)", "nan", "finite"],
    );
    refused(
        &ODOMETRY.replace("P1: 700", "P1: 701"),
        &["P1", "fx 701", "700"],
    );
    refused(
        &ODOMETRY.replace("700", "-700"),
        &["P0 (line 1)", "-700", "focal lengths of 1 to"],
    );
    refused(
        &ODOMETRY.replace("P0: 700", "P0:"),
        &["P0 (line 1)", "11 numbers", "12"],
    );
    refused(ODOMETRY.lines().next().unwrap(), &["no P1"]);
    refused(
        &bare.repeat(2).replacen("700", "", 1),
        &["line 1", "11 numbers"],
    );
    refused(bare.lines().next().unwrap(), &["found 1", "2 (P0 and P1)"]);
    let sizes = "S_rect_00: 1242 375\nS_rect_01: 1242 376\n";
    let labelled = ODOMETRY.replace('P', "P_rect_0");
    refused(&format!("{labelled}{sizes}"), &["1242x376", "1242x375"]);
    refused(
        &format!("{labelled}S_rect_00: 1e9 375\n"),
        &["S_rect_00", "65535"],
    );
}

fn opencv(m1: &str, d1: &str, r: &str, t: &str) -> String {
    format!(
        "%YAML:1.0\n---\nimage_width: 640\nimage_height: 480\n\
         M1: !!opencv-matrix\n   rows: 3\n   cols: 3\n   dt: d\n   data: [ {m1} ]\n\
         D1: !!opencv-matrix\n   rows: 1\n   cols: 5\n   dt: d\n   data: [ {d1} ]\n\
         M2: !!opencv-matrix\n   rows: 3\n   cols: 3\n   dt: d\n   data: [ {m1} ]\n\
         R: !!opencv-matrix\n   rows: 3\n   cols: 3\n   dt: d\n   data: [ {r} ]\n\
         T: !!opencv-matrix\n   rows: 3\n   cols: 1\n   dt: d\n   data: [ {t} ]\n"
    )
}

const M: &str = "500., 0., 320., 0., 5.0e+02,\n       240., 0., 0., 1.";
const D: &str = "-0.1, 0.01, 0., 0., 0.";
const R: &str = "1., 0., 0., 0., 1., 0., 0., 0., 1.";
const T: &str = "-0.2, 0., 0.";

#[test]
fn opencv_matrices() {
    let good = opencv(M, D, R, T);
    let rig = text("a.yml", &good).unwrap();
    let pair = rig.raw_pair().unwrap();
    assert_eq!(pair.lenses[0].pinhole.fy, 500.0);
    assert_eq!(pair.lenses[1].distortion, Distortion::None);
    assert_eq!(pair.translation.x, -0.2);
    assert_eq!(rig.image_size(), Some(Size::new(640, 480)));
    let windows = format!("\u{feff}{}", good.replace('\n', "\r\n"));
    assert_eq!(text("a.yml", &windows).as_ref(), Ok(&rig));
    // Other headers, and none.
    for header in ["%YAML 1.2\n---\n", "---\n", ""] {
        let other = good.replace("%YAML:1.0\n---\n", header);
        assert_eq!(text("a.yml", &other).as_ref(), Ok(&rig));
    }
    let mm = text(
        "a.yml",
        &format!("{good}unit: mm\n").replace(T, "-200., 0, 0"),
    )
    .unwrap();
    assert_eq!(mm.raw_pair().unwrap().translation.x, -0.2);
    let squares = text(
        "a.yml",
        &format!("{good}unit: 0.025\n").replace(T, "-8, 0, 0"),
    )
    .unwrap();
    assert_eq!(squares.raw_pair().unwrap().translation.x, -0.2);
    let of = |t: &str| good.replace(T, t);
    // No stage takes what these are in metres.
    for (t, found) in [("-200., 0, 0", "200.0 m"), ("-1e-6, 0, 0", "1e-6 m")] {
        refused(&of(t), &["T (line", found, "0.0001 to 100 m", "unit: mm"]);
    }
    let metres = text("a.yml", &of("-20., 0, 0")).unwrap();
    assert!(
        metres.warnings()[0].contains("unit"),
        "{:?}",
        metres.warnings()
    );

    refused(
        &opencv("500, 0, 320, 0", D, R, T),
        &["M1 (line 5)", "4 numbers", "3 x 3"],
    );
    refused(
        &opencv(&M.replace("500", "0"), D, R, T),
        &["M1", "focal", "focal lengths of 1 to"],
    );
    refused(
        &opencv(&M.replace("500", ".nan"), D, R, T),
        &["M1", ".nan", "finite"],
    );
    refused(
        &opencv(M, D, &R.replace("1.", "1.1"), T),
        &["R (line", "determinant 1.331"],
    );
    refused(
        &opencv(M, D, &R.replacen("1.", "-1.", 1), T),
        &["R (line", "determinant -1"],
    );
    refused(&opencv(M, D, R, "0.2, 0., 0."), &["T (line", "swapped"]);
    refused(&opencv(M, D, R, "0., 0.2, 0."), &["T (line", "45 degrees"]);
    refused(&opencv(M, D, R, "0., 0., 0."), &["T (line", "base line 0"]);
    refused(&opencv(M, "1, 2, 3, 4, x", R, T), &["D1", "\"x\""]);
    refused(
        &good.replace("cols: 5", "cols: 6"),
        &["D1", "5 numbers", "1 x 6"],
    );
    refused(
        &good.replace(
            "rows: 3\n   cols: 1",
            "rows: 18446744073709551615\n   cols: 18446744073709551615",
        ),
        &["T (line"],
    );
    refused(&good.replace("T: ", "U: "), &["no T"]);
    refused(&good.replace("M2: ", "X: "), &["no M2"]);
    refused(&good.replace("T: ", "R: "), &["R for the second time"]);
    refused(
        &good.replace("image_width: 640", "image_width: -1"),
        &["image_width (line 3)", "-1"],
    );
}

#[test]
fn opencv_distortions() {
    let of = |d: &str, more: &str| {
        let content = opencv(M, D, R, T)
            .replace("   rows: 1\n   cols: 5\n", "")
            .replace(D, d);
        text("some.file", &format!("{content}{more}"))
            .map(|rig| rig.raw_pair().unwrap().lenses[0].distortion)
    };
    assert_eq!(
        of("1, 2, 3, 4", ""),
        Ok(Distortion::RadialTangential4([1.0, 2.0, 3.0, 4.0]))
    );
    assert_eq!(
        of("1, 2, 3, 4", "distortion_model: equidistant\n"),
        Ok(Distortion::Equidistant4([1.0, 2.0, 3.0, 4.0]))
    );
    let rational = Distortion::Rational8([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    // OpenCV writes 14 where it has fitted 8.
    assert_eq!(
        of("1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0", ""),
        Ok(rational)
    );
    assert_eq!(of("1, 2, 3, 4, 5, 6, 7, 8", ""), Ok(rational));
    for bad in [
        "1",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0",
        "1, 2, 3, 4, 5, 6",
    ] {
        let message = of(bad, "").unwrap_err();
        assert!(message.contains("D1 (line"), "{message}");
    }
}

#[test]
fn opencv_rectified_and_given() {
    let p = |cx2: &str, last: &str| {
        format!(
            "%YAML:1.0\nP1: [700., 0, 600, 0, 0, 700, 180, 0, 0, 0, 1, 0]\n\
             P2: [[700., 0, {cx2}, {last}], [0, 700, 180, 0], [0, 0, 1, 0]]\n"
        )
    };
    let rig = text("a.yml", &p("600", "-350")).unwrap();
    assert!(rig.is_rectified());
    assert_eq!(rig.rectified_camera().unwrap().baseline_m, 0.5);
    // Another principal column in the right camera: moved by whole pixels here, by a map.
    let shifted = text("a.yml", &p("610", "-350")).unwrap();
    assert!(!shifted.is_rectified() && shifted.warnings().len() == 1);
    let r = shifted.rectification(Size::new(50, 20)).unwrap();
    assert_eq!(r.camera, rig.rectified_camera().unwrap());
    let [left, right] = r.maps.unwrap();
    assert_eq!(left.source_of(7, 3), Some([7 * 256, 3 * 256]));
    assert_eq!(right.source_of(7, 3), Some([17 * 256, 3 * 256]));
    assert_eq!(right.source_of(40, 3), None);
    refused(&p("600", "-350").replace("P1", "X"), &["no P1"]);
    // R1 says that the images are raw, but then M1 is missing.
    let turned = format!("{}R1: [0, -1, 0, 1, 0, 0, 0, 0, 1]\n", p("600", "-350"));
    refused(&turned, &["no M1"]);
    // Q alone: f 700, base line 0.5.
    let q = "Q: [1, 0, 0, -600, 0, 1, 0, -180, 0, 0, 0, 700, 0, 0, 2, 0]\n";
    assert_eq!(
        text("q.yml", q).unwrap().rectified_camera(),
        rig.rectified_camera()
    );
    // A given rectification is used where it agrees with R and T, and refused where it can't.
    let given = format!(
        "{}R1: [1, 0, 0, 0, 1, 0, 0, 0, 1]\nR2: [1, 0, 0, 0, 1, 0, 0, 0, 1]\n\
         P1: [480, 0, 310, 0, 0, 480, 230, 0, 0, 0, 1, 0]\n\
         P2: [480, 0, 310, -96, 0, 480, 230, 0, 0, 0, 1, 0]\n",
        opencv(M, D, R, T)
    );
    let rig = text("a.yml", &given).unwrap();
    let r = rig.rectification(Size::new(640, 480)).unwrap();
    let expected = Camera {
        focal_px: 480.0,
        cx: 310.0,
        cy: 230.0,
        baseline_m: 0.2,
    };
    assert_eq!(r.camera, expected);
    assert_eq!(rig.warnings(), [""; 0]);
    let wrong = given.replace(T, "-0.2, 0.05, 0.");
    refused(&wrong, &["T (line", "given rectification"]);
    let wrong = text("a.yml", &given.replace(T, "-0.2, 0.001, 0.")).unwrap();
    assert!(
        wrong.warnings()[0].contains("2.40 px"),
        "{:?}",
        wrong.warnings()
    );
}

#[test]
fn opencv_in_two_files() {
    let folder = TempDir::new().unwrap();
    let whole = opencv(M, D, R, T);
    let (inner, outer) = whole.split_at(whole.find("R: ").unwrap());
    let [a, b] = ["intrinsics.yml", "extrinsics.yml"].map(|n| folder.path().join(n));
    fs::write(&a, inner).unwrap();
    let alone = calib::read(&a, Pair::First).unwrap_err().to_string();
    assert!(
        alone.contains("no R") && alone.contains("extrinsics.yml"),
        "{alone}"
    );
    fs::write(&b, format!("%YAML:1.0\n---\n{outer}")).unwrap();
    let rig = text("a.yml", &whole).unwrap();
    assert_eq!(calib::read(&a, Pair::First).unwrap(), rig);
    assert_eq!(calib::read(&b, Pair::First).unwrap(), rig);
    assert_eq!(calib::read(folder.path(), Pair::First).unwrap(), rig);
}

fn camera_info(p3: &str, model: &str, d: &str) -> String {
    format!(
        "image_width: 640\nimage_height: 480\ncamera_name: some\ncamera_matrix:\n  rows: 3\n  cols: 3\n  \
         data: [500, 0, 320, 0, 500, 240, 0, 0, 1]\ndistortion_model: {model}\n\
         distortion_coefficients:\n  rows: 1\n  cols: 5\n  data: [{d}]\n\
         rectification_matrix:\n  rows: 3\n  cols: 3\n  data: [1, 0, 0, 0, 1, 0, 0, 0, 1]\n\
         projection_matrix:\n  rows: 3\n  cols: 4\n  \
         data: [480, 0, 310, {p3}, 0, 480, 230, 0, 0, 0, 1, 0]\n"
    )
}

#[test]
fn ros_pairs() {
    let folder = TempDir::new().unwrap();
    let [left, right] = ["left.yaml", "right.yaml"].map(|n| folder.path().join(n));
    fs::write(&left, camera_info("0", "plumb_bob", "-0.1, 0.01, 0, 0, 0")).unwrap();
    let alone = calib::read(&left, Pair::First).unwrap_err().to_string();
    assert!(
        alone.contains("one camera") && alone.contains("folder"),
        "{alone}"
    );
    fs::write(
        &right,
        camera_info("-96", "plumb_bob", "-0.1, 0.01, 0, 0, 0"),
    )
    .unwrap();
    let rig = calib::read(&right, Pair::First).unwrap();
    assert_eq!(rig.format(), Format::RosCameraInfo);
    assert!(!rig.is_rectified());
    let r = rig.rectification(Size::new(640, 480)).unwrap();
    let expected = Camera {
        focal_px: 480.0,
        cx: 310.0,
        cy: 230.0,
        baseline_m: 0.2,
    };
    near(r.camera, expected, 1e-12);
    let error = rig.rectification(Size::new(640, 481)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "images are 640x481, the calibration is for 640x480"
    );
    // The other distortion models, and one that is not known.
    let model = |name: &str, d: &str| {
        let d = camera_info("-96", name, d).replace("rows: 1\n  cols: 5\n", "");
        fs::write(&right, d).unwrap();
        calib::read(&right, Pair::First)
            .map(|rig| rig.raw_pair().unwrap().lenses[1].distortion)
            .map_err(|e| e.to_string())
    };
    assert_eq!(
        model("rational_polynomial", "1, 2, 3, 4, 5, 6, 7, 8"),
        Ok(Distortion::Rational8([
            1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0
        ]))
    );
    assert_eq!(
        model("equidistant", "1, 2, 3, 4"),
        Ok(Distortion::Equidistant4([1.0, 2.0, 3.0, 4.0]))
    );
    let message = model("thin_prism", "1").unwrap_err();
    assert!(
        message.contains("thin_prism") && message.contains("plumb_bob"),
        "{message}"
    );
    let message = model("plumb_bob", "1, 2, 3").unwrap_err();
    assert!(message.contains("3 coefficients"), "{message}");
    // Without distortion, and K as P: rectified already.
    let plain = |p3: &str| {
        camera_info(p3, "plumb_bob", "0, 0, 0, 0, 0")
            .replace("480, 0, 310", "500, 0, 320")
            .replace("480, 230", "500, 240")
    };
    fs::write(&left, plain("0")).unwrap();
    fs::write(&right, plain("-100")).unwrap();
    let rig = calib::read(folder.path(), Pair::First).unwrap();
    assert_eq!(rig.rectified_camera().unwrap().baseline_m, 0.2);
}

#[test]
fn what_is_no_calibration() {
    refused("", &["empty"]);
    refused("hello", &["\"hello\"", "OpenCV YAML"]);
    refused("a: 1\nb: 2\n", &["\"a\", \"b\""]);
    refused("a: [1, 2\nb: }", &["some.file:", "YAML"]);
    refused("a: &x [1]\nb: *x\n", &["some.file:2", "alias"]);
    refused(&"[".repeat(100_000), &["recursion limit"]);
    refused(&"- ".repeat(100_000), &["levels of nesting"]);
    refused(&"x ".repeat(1 << 20), &["2097152 bytes", "1048576"]);
    refused(
        "cam0: {camera_model: omni, intrinsics: [1, 2, 3, 4]}\ncam1: {T_cn_cnm1: \
         [[1, 0, 0, -1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]}\n",
        &["cam0.camera_model (line 1)", "omni", "pinhole"],
    );
    // A size that would take 64 GB of maps is refused before any is taken.
    let huge = opencv(M, D, R, T)
        .replace("width: 640", "width: 65535")
        .replace("height: 480", "height: 65535");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("huge.yml");
    fs::write(&path, huge).unwrap();
    let message = roadloop::calib::describe(&path, None)
        .unwrap_err()
        .to_string();
    assert!(message.contains("65535x65535"), "{message}");
    refused("cam0: {a: 1}\n", &["no cam1"]);
    let folder = TempDir::new().unwrap();
    assert!(calib::read(folder.path(), Pair::First).is_err());
    let missing = calib::read(&folder.path().join("no.yaml"), Pair::First).unwrap_err();
    assert!(missing.to_string().contains("no.yaml"), "{missing}");
}

#[test]
fn what_check_says() {
    let say = |name: &str| roadloop::calib::describe(&rigs().join(name), None).unwrap();
    let lines = |text: &str, wanted: &[&str]| {
        for line in wanted {
            assert!(text.lines().any(|l| l == *line), "no {line:?} in\n{text}");
        }
    };
    lines(
        &say("synthetic.yaml"),
        &[
            "format            OpenCV YAML",
            "image size        1024x440",
            "images            rectified already",
            "rectified camera  f 593.920 px, cx 511.500, cy 197.550",
            "base line         0.5400 m",
            // 2 atan(512 / 593.92); atan(198.05 / 593.92) + atan(241.95 / 593.92).
            "field of view     81.5 x 40.6 degrees",
            "depth             320.7 m at 1 px, 5.01 m at 64 px, 2.51 m at 128 px, 1.25 m at 256 px",
        ],
    );
    lines(
        &say("euroc_v1.yaml"),
        &[
            "images            raw, will be rectified",
            "left camera       fx 458.654 px, fy 457.296 px, cx 367.215, cy 248.375",
            "right in left     x 0.1101 m, y -0.0002 m, z 0.0009 m; turned by 0.818 degrees",
            "                  rows agree with R and T within 0.000 px",
            "                  not seen by the left camera 0.00 %, by the right one 0.00 %",
        ],
    );
    let both = say("kitti_2015.txt");
    lines(
        &both,
        &[
            "cameras 0 and 1",
            "cameras 2 and 3",
            "base line         0.5327 m",
        ],
    );
    let missing = roadloop::calib::describe(Path::new("no.yaml"), None).unwrap_err();
    assert!(missing.to_string().starts_with("no.yaml: "), "{missing}");
}
