//! Does `evaluate` say what can be counted by hand, and name what is wrong?
mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Parser as _;
use roadloop::{
    cli::evaluate::{Args, run},
    frame::Image,
    frame::png,
};
use serde_json::{Value, json};

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

/// Runs `evaluate` with these arguments.
fn evaluate(args: &[&str]) -> Result<String, (u8, String)> {
    let args = std::iter::once("evaluate").chain(args.iter().copied());
    let command = Command::try_parse_from(args).map_err(|e| (64, e.to_string()))?;
    let mut out = Vec::new();
    run(&command.args, &mut out).map_err(|e| (e.exit_status(), e.to_string()))?;
    Ok(String::from_utf8(out).unwrap())
}

fn json_of(args: &[&str]) -> Value {
    let text = evaluate(&[args, &["--json"]].concat()).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn error_of(args: &[&str]) -> (u8, String) {
    evaluate(args).unwrap_err()
}

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A path in it, its folder made.
    fn path(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn str(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn text(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.str(name)
    }

    /// Disparities in 1/256 px (0 = none), 4 px wide.
    fn disparity(&self, name: &str, values: &[u16]) {
        let values = values.iter().map(|&v| if v == 0 { u16::MAX } else { v });
        let image = Image::from_vec(4, values.len() / 4, values.collect()).unwrap();
        png::write_disparity(&self.path(name), &image).unwrap();
    }

    fn labels(&self, name: &str, width: usize, values: &[u8]) {
        let image = Image::from_vec(width, values.len() / width, values.to_vec()).unwrap();
        png::write_grey(&self.path(name), &image).unwrap();
    }
}

fn px(v: f64) -> u16 {
    (v * 256.0) as u16
}

#[test]
fn disparity_is_counted_as_kitti_does() {
    let dir = Dir::new();
    // Names differ as a replay's do from KITTI's.
    dir.disparity(
        "out/disparity/000003.png",
        &[
            px(10.0),
            px(12.0),
            px(14.0),
            0,
            px(104.0),
            px(50.0),
            px(9.0),
            px(9.0),
        ],
    );
    dir.disparity(
        "kitti/training/disp_noc_0/000003_10.png",
        &[
            px(10.0),
            px(10.0),
            px(10.0),
            px(10.0),
            px(100.0),
            0,
            0,
            px(10.0),
        ],
    );
    dir.disparity("out/disparity/000005.png", &[px(20.0); 4]);
    dir.disparity(
        "kitti/training/disp_noc_0/000005_10.png",
        &[0, 0, 0, px(20.5)],
    );
    dir.disparity("out/disparity/000006.png", &[px(20.0); 4]);
    dir.disparity("kitti/training/disp_noc_0/000009_10.png", &[px(20.0); 4]);
    dir.disparity("kitti/training/disp_noc_0/000009_11.png", &[px(20.0); 4]);
    let report = json_of(&["disparity", &dir.str("out"), &dir.str("kitti")]);
    // Frame 3: errors 0, 2, 4, hole, 4 of 100, 1; one of 6 is beyond both limits.
    assert_eq!(
        report["frames"][0],
        json!({
            "frame": 3, "truth_pixels": 6, "filled_pixels": 5, "density": 5.0 / 6.0,
            "d1": 0.2, "bad1": 0.6, "bad3": 0.4, "mean_error_px": 11.0 / 5.0,
            "all": {"d1": 2.0 / 6.0, "bad1": 4.0 / 6.0, "bad3": 0.5},
        })
    );
    assert_eq!(report["frames"][1]["mean_error_px"], 0.5);
    assert_eq!(report["frames"].as_array().unwrap().len(), 2);
    // Over all pixels, not the mean of the frames.
    assert_eq!(report["truth_pixels"], 7);
    assert_eq!(report["density"], 6.0 / 7.0);
    assert_eq!(report["d1"], 1.0 / 6.0);
    assert_eq!(report["mean_error_px"], 11.5 / 6.0);
    assert_eq!(report["all"]["bad3"], 3.0 / 7.0);
    assert_eq!(report["unmatched"], json!({"results": [6], "truth": [9]}));
    // The folder itself does as well, and the table says the same.
    let table = evaluate(&[
        "disparity",
        &dir.str("out/disparity"),
        &dir.str("kitti/training/disp_noc_0"),
    ])
    .unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(
        lines[3].split_whitespace().collect::<Vec<_>>(),
        [
            "total", "7", "85.71", "16.67", "50.00", "33.33", "1.917", "|", "28.57", "57.14",
            "42.86"
        ]
    );
    assert_eq!(lines[4], "1 results without truth: frames 6");
    assert_eq!(lines[5], "1 truth without results: frames 9");
}

#[test]
fn the_keys_of_the_report_are_fixed() {
    let dir = Dir::new();
    dir.disparity("a/1.png", &[px(5.0); 4]);
    let report = json_of(&["disparity", &dir.str("a"), &dir.str("a")]);
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "truth_pixels",
            "filled_pixels",
            "density",
            "d1",
            "bad1",
            "bad3",
            "mean_error_px",
            "all",
            "frames",
            "unmatched"
        ]
    );
}

#[test]
fn nothing_to_judge_is_null() {
    let dir = Dir::new();
    dir.disparity("a/1.png", &[0; 4]);
    let report = json_of(&["disparity", &dir.str("a"), &dir.str("a")]);
    assert_eq!(report["density"], Value::Null);
    assert_eq!(report["d1"], Value::Null);
}

#[test]
fn what_is_wrong_with_disparities_is_named() {
    let dir = Dir::new();
    dir.disparity("a/1.png", &[px(5.0); 4]);
    dir.disparity("b/2.png", &[px(5.0); 4]);
    dir.disparity("b/3.png", &[px(5.0); 4]);
    dir.disparity("c/1.png", &[px(5.0); 8]);
    dir.labels("d/1.png", 4, &[1; 4]);
    fs::create_dir(dir.path("e")).unwrap();
    let bytes = fs::read(dir.path("c/1.png")).unwrap();
    fs::write(dir.path("f/1.png"), &bytes[..bytes.len() - 30]).unwrap();
    let (a, b, c) = (&dir.str("a"), &dir.str("b"), &dir.str("c"));
    let (d, e, f) = (&dir.str("d"), &dir.str("e"), &dir.str("f"));
    let none = &dir.str("none");
    assert_eq!(
        error_of(&["disparity", a, b]),
        (
            65,
            format!(
                "no frame of {a} (frame 1) has a partner in {b} (2 frames, 2 to 3); frames are \
                 matched by number"
            )
        )
    );
    assert_eq!(
        error_of(&["disparity", a, c]),
        (65, format!("{a}/1.png: 4x1, expected 4x2 as {c}/1.png"))
    );
    assert_eq!(
        error_of(&["disparity", a, d]),
        (65, format!("{d}/1.png: 8-bit grey, expected 16-bit grey"))
    );
    assert_eq!(
        error_of(&["disparity", a, e]),
        (66, format!("{e}: found no disparity pictures (16-bit PNG)"))
    );
    let (status, text) = error_of(&["disparity", a, f]);
    assert_eq!(status, 65);
    assert!(text.starts_with(&format!("{f}/1.png: ")), "{text}");
    let (status, text) = error_of(&["disparity", a, none]);
    assert_eq!(status, 66);
    assert!(text.starts_with(&format!("{none}: No such file")), "{text}");
    assert_eq!(
        error_of(&["disparity", a, a, "--truth", "labels"]),
        (
            65,
            format!("{a}: not known as truth for disparity, expected --truth disparity, or none")
        )
    );
    assert_eq!(error_of(&["disparity", a]).0, 64);
    assert_eq!(error_of(&["weather", a, a]).0, 64);
}

const HEAD: &str = "frame,column,x,width,class,top,base,disparity_px,depth_m,height_m,confidence\n";

/// One frame, 2 px columns, of a 5x4 image: column 0 sky, object (10 px), ground; column 1 object
/// (20 px) above ground.
fn small() -> String {
    format!(
        "{HEAD}\
         4,0,0,2,sky,0,0,,,,1.000\n\
         4,0,0,2,object,1,2,10.0000,22.45,1.00,0.500\n\
         4,0,0,2,ground,3,3,12.0000,18.00,0.00,1.000\n\
         4,1,2,2,object,0,1,20.0000,11.22,1.00,0.500\n\
         4,1,2,2,ground,2,3,25.0000,9.00,0.00,1.000\n"
    )
}

const CLASSES: &str = "id,name,r,g,b,stixel_class\n0,void,0,0,0,void\n1,road,0,0,0,ground\n\
                       2,car,0,0,0,object\n3,house,0,0,0,object\n4,sky,0,0,0,sky\n";

#[test]
fn stixels_against_labels_are_counted_by_class() {
    let dir = Dir::new();
    dir.text("out/stixels.csv", &small());
    dir.text("drive/truth/classes.csv", CLASSES);
    // The fifth column of the picture is right of the last stixel and not judged.
    let labels = [
        4, 4, 2, 3, 1, //
        4, 2, 2, 2, 1, //
        2, 2, 1, 2, 1, //
        1, 0, 1, 1, 1,
    ];
    dir.labels("drive/truth/labels/000004.png", 5, &labels);
    let (out, drive) = (&dir.str("out"), &dir.str("drive"));
    let report = json_of(&["stixels", out, drive]);
    assert_eq!(report["truth"], "labels");
    assert_eq!(report["pixels"], 15);
    // Wrong: the sky in the object (row 1), the car on the ground (row 2).
    assert_eq!(report["accuracy"], 13.0 / 15.0);
    assert_eq!(
        report["confusion"],
        json!({
            "ground": {"ground": 4, "object": 0, "sky": 0, "none": 0},
            "object": {"ground": 1, "object": 7, "sky": 0, "none": 0},
            "sky": {"ground": 0, "object": 1, "sky": 2, "none": 0},
        })
    );
    assert_eq!(
        report["per_class"]["object"],
        json!({"truth_pixels": 8, "result_pixels": 8, "iou": 7.0 / 9.0, "precision": 0.875, "recall": 0.875})
    );
    assert_eq!(report["per_class"]["sky"]["precision"], 1.0);
    assert_eq!(report["per_class"]["ground"]["iou"], 0.8);
    assert_eq!(report["iou"], (0.8 + 7.0 / 9.0 + 2.0 / 3.0) / 3.0);
    assert_eq!(report["frames"][0]["accuracy"], 13.0 / 15.0);
    // The folder of labels does as well; so does a table elsewhere.
    let same = json_of(&["stixels", out, &dir.str("drive/truth/labels")]);
    assert_eq!(same, report);
    let other = dir.text(
        "other.csv",
        &CLASSES.replace("car,0,0,0,object", "car,0,0,0,void"),
    );
    let fewer = json_of(&["stixels", out, drive, "--classes", &other]);
    assert_eq!(fewer["pixels"], 8);
    let table = evaluate(&["stixels", out, drive]).unwrap();
    assert!(
        table.contains("\ntotal             15       86.67       74.81\n"),
        "{table}"
    );
}

#[test]
fn pixels_in_no_stixel_are_wrong() {
    let dir = Dir::new();
    let rows: Vec<String> = small().lines().map(str::to_owned).collect();
    let without_sky = [&rows[..1], &rows[2..]].concat().join("\n");
    dir.text("out/stixels.csv", &without_sky);
    dir.text("l/classes.csv", CLASSES);
    dir.labels("l/4.png", 5, &[4; 20]);
    let report = json_of(&["stixels", &dir.str("out"), &dir.str("l")]);
    assert_eq!(
        report["confusion"]["sky"],
        json!({"ground": 6, "object": 8, "sky": 0, "none": 2})
    );
    assert_eq!(report["accuracy"], 0.0);
    assert_eq!(report["per_class"]["ground"]["recall"], Value::Null);
}

#[test]
fn stixels_against_disparity_are_judged_inside_objects() {
    let dir = Dir::new();
    dir.text("out/stixels.csv", &small());
    let p = px;
    let truth = [
        [p(1.0), 0, p(20.0), p(21.0)],
        [p(10.5), p(14.0), p(24.0), p(22.0)],
        [p(10.0), 0, p(30.0), p(30.0)],
        [p(33.0), p(33.0), p(33.0), p(33.0)],
    ];
    dir.disparity("t/4.png", truth.as_flattened());
    let report = json_of(&["stixels", &dir.str("out"), &dir.str("t")]);
    // Inside: 10.5, 14, 10 against 10; 20, 21, 24, 22 against 20.
    assert_eq!(report["truth"], "disparity");
    assert_eq!(
        (&report["truth_pixels"], &report["object_pixels"]),
        (&json!(14), &json!(7))
    );
    assert_eq!(report["density"], 0.5);
    assert_eq!(report["d1"], 2.0 / 7.0);
    assert_eq!(report["explained"], 5.0 / 7.0);
    assert_eq!(report["bad1"], 3.0 / 7.0);
    assert_eq!(report["mean_error_px"], (0.5 + 4.0 + 1.0 + 4.0 + 2.0) / 7.0);
    assert_eq!(report["frames"][0]["frame"], 4);
}

#[test]
fn foot_points_are_looked_for_with_each_stixels_own_depth() {
    let dir = Dir::new();
    // Columns of 10 px; objects in column 3 at 44.9 m (shift 1 px), in 7 at 4.49 m (10 px).
    dir.text(
        "out/stixels.csv",
        &format!(
            "{HEAD}\
             6,3,30,10,object,50,100,8.0000,44.90,1.00,0.5\n\
             6,7,70,10,object,50,100,80.0000,4.49,1.00,0.5\n\
             6,7,70,10,ground,101,200,80.0000,4.49,0.00,0.5\n\
             7,0,0,10,object,0,10,,,,0.5\n"
        ),
    );
    let truth = dir.text(
        "points.txt",
        "# image_file x y\n\
         drive/image/000006.png 41 105 Train\n\
         drive/image/000006.png 20.9 90 Test\n\
         drive/image/000006.png 51 100 Train\n\
         drive\\image\\000006.png 99 112 Train\n\
         drive/image/000006.png 69 130\n\n\
         drive/image/000099.png 1 1 Train\n",
    );
    let report = json_of(&["stixels", &dir.str("out"), &truth]);
    assert_eq!(report["truth"], "foot_points");
    // At 40 (column 4): -5. At 19.9 (column 1): nothing. At 50: nothing, but column 4 of the
    // near one at 41: nothing. At 89 (column 8): -12. At 59 (column 5): nothing; at 68: nothing.
    assert_eq!(report["points"], 5);
    assert_eq!(report["without_stixel"], 3);
    assert_eq!(report["recall"], 0.2);
    assert_eq!(
        report["within"],
        json!([
            {"tolerance_px": 5, "recall": 0.2},
            {"tolerance_px": 10, "recall": 0.2},
            {"tolerance_px": 20, "recall": 0.4},
        ])
    );
    assert_eq!(report["median_offset_px"], -8.5);
    assert_eq!(
        report["frames"],
        json!([{"frame": 6, "points": 5, "recall": 0.2}])
    );
    assert_eq!(report["unmatched"], json!({"results": [], "truth": [99]}));
    // Another tolerance; the same camera: at 41, 20.9, 51, 99 and 69 without a shift.
    let report = json_of(&["stixels", &dir.str("out"), &truth, "--tolerance-px", "12"]);
    assert_eq!(report["recall"], 0.4);
    let report = json_of(&["stixels", &dir.str("out"), &truth, "--shift-px-m", "0"]);
    assert_eq!(report["without_stixel"], 2);
    assert_eq!(report["within"][1]["recall"], 0.4);
    assert_eq!(
        error_of(&["stixels", "a", "b", "--shift-px-m", "nan"]).0,
        64
    );
}

#[test]
fn what_is_wrong_with_foot_points_is_said_with_its_line() {
    let dir = Dir::new();
    let out = &dir.text("out/stixels.csv", &small());
    for (line, what) in [
        (
            "000004.png 12",
            "`000004.png 12`, expected `IMAGE_FILE X Y`",
        ),
        (
            "a.png 1 2",
            "image file is `a.png`, expected a name with a number",
        ),
        ("4.png x 2", "x is `x`, expected a number of px"),
        ("4.png 1 inf", "y is `inf`, expected a number of px"),
    ] {
        let truth = dir.text("points.txt", &format!("# points\n4.png 1 1\n{line}\n"));
        assert_eq!(
            error_of(&["stixels", out, &truth]),
            (65, format!("{truth}:3: {what}"))
        );
    }
    let truth = dir.text("points.txt", "# nothing\n");
    assert_eq!(
        error_of(&["stixels", out, &truth]),
        (
            66,
            format!("{truth}: found no foot points (lines `IMAGE_FILE X Y`)")
        )
    );
}

#[test]
fn stixels_against_true_stixels_are_matched_one_to_one() {
    let dir = Dir::new();
    let truth = dir.text("truth/stixels.csv", &small());
    let result = format!(
        "{HEAD}\
         4,0,0,2,sky,0,0,,,,1.000\n\
         4,0,0,2,object,1,2,10.0000,22.45,1.00,0.500\n\
         4,0,0,2,ground,3,3,12.0000,18.00,0.00,1.000\n\
         4,1,2,2,object,0,2,20.0000,11.22,1.00,0.500\n\
         4,1,2,2,object,3,9,25.0000,9.00,0.00,1.000\n\
         4,2,4,2,ground,0,3,25.0000,9.00,0.00,1.000\n"
    );
    let out = &dir.text("out/stixels.csv", &result);
    let report = json_of(&["stixels", out, &truth, "--tolerance-px", "1"]);
    assert_eq!(report["truth"], "stixels");
    assert_eq!(
        (
            &report["matched"],
            &report["exact"],
            &report["columns"],
            &report["columns_equal"]
        ),
        (&json!(4), &json!(3), &json!(3), &json!(1))
    );
    assert_eq!(report["precision"], 4.0 / 6.0);
    assert_eq!(report["recall"], 0.8);
    assert_eq!(report["f"], 8.0 / 11.0);
    assert_eq!(report["per_class"]["ground"]["recall"], 0.5);
    assert_eq!(report["per_class"]["object"]["precision"], 2.0 / 3.0);
    // A drive with all kinds of truth: asked for by name.
    let drive = dir.str("");
    let by_name = json_of(&[
        "stixels",
        out,
        &drive,
        "--truth",
        "stixels",
        "--tolerance-px",
        "1",
    ]);
    assert_eq!(by_name, report);
    let strict = json_of(&["stixels", out, &truth, "--tolerance-px", "0"]);
    assert_eq!(strict["matched"], 3);
}

#[test]
fn what_is_wrong_with_stixel_truth_is_named() {
    let dir = Dir::new();
    let out = &dir.text("out/stixels.csv", &small());
    let classes = dir.text("l/classes.csv", CLASSES);
    let l = &dir.str("l");
    let wrong_table = |text: &str| {
        let file = dir.text("wrong.csv", text);
        let (status, error) = error_of(&["stixels", out, l, "--classes", &file]);
        assert_eq!(status, 65);
        error.strip_prefix(&format!("{file}:")).unwrap().to_owned()
    };
    dir.labels("l/000004.png", 5, &[9; 20]);
    assert_eq!(
        error_of(&["stixels", out, l]),
        (
            65,
            format!("{l}/000004.png: label 9 at (0, 0) is not in {classes}")
        )
    );
    assert_eq!(
        wrong_table("index,name,r,g,b\n0,void,0,0,0\n"),
        "1: columns are `index,name,r,g,b`, expected one called stixel_class (ground, object, \
         sky or void)"
    );
    assert_eq!(
        wrong_table("name,stixel_class\n"),
        "1: columns are `name,stixel_class`, expected one called id or index"
    );
    assert_eq!(
        wrong_table("id,stixel_class\n1,tree\n"),
        "2: stixel_class is `tree`, expected ground, object, sky or void"
    );
    assert_eq!(
        wrong_table("id,stixel_class\n1,sky\n256,sky\n"),
        "3: id is `256`, expected a whole number up to 255"
    );
    assert_eq!(
        wrong_table("id,stixel_class\n1,sky\n1,sky\n"),
        "3: 1 for the second time"
    );
    assert!(wrong_table("id,stixel_class\n1\n").starts_with("2: "));
    dir.labels("l/000004.png", 7, &[1; 28]);
    assert_eq!(
        error_of(&["stixels", out, l]),
        (65, format!("{out}: 4x4, expected 7x4 as {l}/000004.png"))
    );
    dir.labels("bare/labels/000004.png", 5, &[1; 20]);
    let bare = &dir.str("bare");
    assert_eq!(
        error_of(&["stixels", out, bare]),
        (
            66,
            format!(
                "{bare}/labels: found no classes.csv (columns id, name, stixel_class), nor in \
                 the folder above"
            )
        )
    );
    let unknown = "not known as truth for stixels, expected 16-bit disparity pictures, 8-bit \
                   label pictures, foot points, stixels.csv, or --truth";
    let text = &dir.text("poem.txt", "The street is wide");
    assert_eq!(
        error_of(&["stixels", out, text]),
        (65, format!("{text}: {unknown}"))
    );
    fs::create_dir(dir.path("empty")).unwrap();
    let empty = &dir.str("empty");
    assert_eq!(
        error_of(&["stixels", out, empty]),
        (65, format!("{empty}: {unknown}"))
    );
    let wide = &dir.text("wide.csv", &format!("{HEAD}4,0,0,5,sky,0,3,,,,1.000\n"));
    assert_eq!(
        error_of(&["stixels", out, wide]),
        (
            65,
            "frame 4: columns of 2 px, expected 5 px as in the truth".into()
        )
    );
    let later = &dir.text("later.csv", &format!("{HEAD}8,0,0,2,sky,0,3,,,,1.000\n"));
    let (status, error) = error_of(&["stixels", out, later]);
    assert_eq!(status, 65);
    assert!(
        error.contains("(frame 4) has a partner in") && error.contains("(frame 8)"),
        "{error}"
    );
    // Cut off in the middle of a line.
    let cut = &dir.text("cut.csv", &small()[..small().len() - 20]);
    assert_eq!(
        error_of(&["stixels", cut, out]),
        (65, format!("{cut}:6: 8 fields, expected 11"))
    );
}

#[test]
fn real_truth_is_understood() {
    if let Some(kitti) = common::data("kitti2015") {
        let kitti = kitti.to_str().unwrap();
        let truth = format!("{kitti}/training/disp_noc_0");
        let report = json_of(&["disparity", &truth, kitti]);
        assert_eq!(report["frames"].as_array().unwrap().len(), 8);
        assert_eq!(
            (&report["d1"], &report["density"]),
            (&json!(0.0), &json!(1.0))
        );
    }
    if let Some(points) = common::data("stixelnet_points/kitti_odom06_seq1.txt") {
        let dir = Dir::new();
        let mut text = HEAD.to_owned();
        for frame in (1..=46).step_by(5) {
            text += &format!("{frame},0,0,5,sky,0,369,,,,1.000\n");
        }
        let out = dir.text("stixels.csv", &text);
        let report = json_of(&["stixels", &out, points.to_str().unwrap()]);
        assert_eq!(report["points"], 295);
        assert_eq!(report["recall"], 0.0);
        assert_eq!(report["without_stixel"], 295);
    }
    if let Some(camvid) = common::data("camvid_smoke/trainannot") {
        camvid_is_understood(&camvid);
    }
}

/// Labels of others, with a class table of one's own.
fn camvid_is_understood(folder: &Path) {
    let dir = Dir::new();
    let classes = dir.text(
        "classes.csv",
        "index,name,stixel_class\n0,sky,sky\n1,building,object\n2,pole,object\n3,road,ground\n\
         4,pavement,ground\n5,tree,object\n6,sign,object\n7,fence,object\n8,car,object\n\
         9,pedestrian,object\n10,bicyclist,object\n11,unlabelled,void\n",
    );
    // Eight frames, by their place; everything is called object.
    let mut text = HEAD.to_owned();
    for frame in 0..8 {
        for column in 0..96 {
            text += &format!("{frame},{column},{},5,object,0,359,,,,1.000\n", 5 * column);
        }
    }
    let out = dir.text("stixels.csv", &text);
    let report = json_of(&[
        "stixels",
        &out,
        folder.to_str().unwrap(),
        "--classes",
        &classes,
    ]);
    assert_eq!(report["frames"].as_array().unwrap().len(), 8);
    assert_eq!(report["per_class"]["object"]["recall"], 1.0);
    assert_eq!(
        report["accuracy"],
        report["per_class"]["object"]["precision"]
    );
    assert!(report["pixels"].as_u64().unwrap() <= 8 * 480 * 360);
}
