//! What does `evaluate foreground` say of masks, and how does it refuse what is none?
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use roadloop::{
    evaluate::foreground::evaluate,
    frame::{Image, png},
};

mod common;

fn grey(path: &Path, width: usize, pixels: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let image = Image::from_vec(width, pixels.len() / width, pixels.to_vec()).unwrap();
    png::write_grey(path, &image).unwrap();
}

/// Frames 3 and 4 of four pixels, of which the region of interest leaves out the last; frame 2
/// is before the frames that are judged.
fn small(dir: &Path) -> (PathBuf, PathBuf) {
    let (results, truth) = (dir.join("out"), dir.join("truth"));
    for (number, result, mask) in [
        (2, [255; 4], [0; 4]),
        (3, [255, 0, 255, 0], [255, 255, 0, 255]),
        (4, [255, 127, 0, 255], [255, 50, 170, 0]),
    ] {
        grey(
            &results.join(format!("foreground/{number:06}.png")),
            2,
            &result,
        );
        grey(
            &truth.join(format!("groundtruth/gt{number:06}.png")),
            2,
            &mask,
        );
    }
    grey(&truth.join("ROI.png"), 2, &[255, 255, 255, 0]);
    fs::write(truth.join("temporalROI.txt"), "3 4\n").unwrap();
    (results, truth)
}

#[test]
fn small_masks_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let (results, truth) = small(dir.path());
    let report = evaluate(&results, &truth).unwrap();
    // Frame 3: TP, FN, FP; frame 4: TP, TN (shadow).
    let s = report.total;
    assert_eq!(s.pixels, 5);
    assert_eq!(
        (s.recall, s.precision, s.f),
        (Some(2.0 / 3.0), Some(2.0 / 3.0), Some(2.0 / 3.0))
    );
    assert_eq!(
        (s.specificity, s.fpr, s.fnr),
        (Some(0.5), Some(0.5), Some(1.0 / 3.0))
    );
    assert_eq!((s.pwc, s.shadow_fpr), (Some(40.0), Some(0.0)));
    assert_eq!(
        report.frames.iter().map(|f| f.frame).collect::<Vec<_>>(),
        [3, 4]
    );
    assert_eq!(report.frames[1].scores.f, Some(1.0));
    assert_eq!(report.unmatched, Default::default());
    assert_eq!(report.temporal_roi, Some([3, 4]));
    // The truth's own folder knows its region too.
    assert_eq!(
        evaluate(&results, &truth.join("groundtruth")).unwrap(),
        report
    );
    let json = serde_json::to_value(&report).unwrap();
    for key in [
        "recall",
        "specificity",
        "fpr",
        "fnr",
        "pwc",
        "precision",
        "f",
    ] {
        assert!(json[key].is_f64(), "{key}");
    }
    assert_eq!(json["frames"].as_array().unwrap().len(), 2);
}

#[test]
fn refusals_name_the_file_and_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |results: &Path, truth: &Path| {
        let text = evaluate(results, truth).unwrap_err().to_string();
        text.replace(&dir.path().display().to_string(), "DIR")
    };
    let (results, truth) = small(dir.path());
    grey(&truth.join("groundtruth/gt000004.png"), 2, &[255, 7, 0, 0]);
    assert_eq!(
        refused(&results, &truth),
        "DIR/truth/groundtruth/gt000004.png: value 7 at (1, 0), expected 0 static, 50 shadow, 85 \
         outside, 170 unknown or 255 moving"
    );
    grey(&truth.join("ROI.png"), 4, &[0; 4]);
    assert_eq!(
        refused(&results, &truth),
        "DIR/truth/ROI.png: 4x1, expected 2x2 as DIR/truth/groundtruth/gt000003.png"
    );
    fs::write(truth.join("temporalROI.txt"), "4 to 3").unwrap();
    assert_eq!(
        refused(&results, &truth),
        "DIR/truth/temporalROI.txt:1: \"4 to 3\", expected the first and the last frame's number"
    );
    fs::create_dir(dir.path().join("empty")).unwrap();
    assert_eq!(
        refused(&dir.path().join("empty"), &truth),
        "DIR/empty: found no masks (8-bit PNG; a replay writes them with --save foreground)"
    );
}

fn roadloop(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(args)
        .output()
        .unwrap()
}

/// Palette masks, a BMP as region, and a limit in time: the public data as it lies there.
#[test]
fn truth_is_as_good_as_truth() {
    let Some(highway) = common::data("cdnet_highway") else {
        return;
    };
    let truth = highway.join("groundtruth");
    let args = [
        "evaluate",
        "foreground",
        truth.to_str().unwrap(),
        highway.to_str().unwrap(),
        "--json",
    ];
    let output = roadloop(&args);
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for (key, value) in [
        ("f", 1.0),
        ("recall", 1.0),
        ("precision", 1.0),
        ("pwc", 0.0),
        ("fpr", 0.0),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
    assert_eq!(json["frames"].as_array().unwrap().len(), 71);
    assert!(json["roi"].as_str().unwrap().ends_with("ROI.bmp"));
    assert_eq!(json["temporal_roi"], serde_json::json!([470, 1700]));
    let table = roadloop(&args[..4]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("\ntotal ") && table.contains(" 100.00"),
        "{table}"
    );
    let wrong = roadloop(&[&args[..4], &["--truth", "labels"][..]].concat());
    assert_eq!(wrong.status.code(), Some(65));
}
