//! What does the folder of a replay hold, and what stays when something goes wrong?
use std::{fs, path::Path};

use roadloop::{
    frame::{
        Camera, Class, FrameId, FrameResult, Gap, Image, Outcome, Size, StageTiming, Stixel,
        Stixels, Street, Timestamp,
    },
    picture::{Picture, read},
    sink::{
        Announced, FolderOptions, Full, ReplayFolder, SaveSet, Sink, SinkError, View,
        digest::Digest, overlay::FOOTER, report, summary::Provenance,
    },
};

const SIZE: Size = Size::new(33, 20);

const CAMERA: Camera = Camera {
    focal_px: 700.0,
    cx: 16.0,
    cy: 10.0,
    baseline_m: 0.5,
};

/// A folder that expects results of the shape that [`result`] gives.
fn begun(out: &Path, options: FolderOptions) -> ReplayFolder {
    let mut folder = ReplayFolder::create(out, options).unwrap();
    folder
        .begin(&Announced::street(CAMERA, &result(0), false))
        .unwrap();
    folder
}

fn options(save: &str) -> FolderOptions {
    FolderOptions {
        save: save.parse().unwrap(),
        force: false,
        full: Full::Wait,
        provenance: Provenance {
            backend: "cpu".into(),
            preset: "default".into(),
            version: "0.1.0".into(),
            config_hash: "0123456789abcdef".into(),
            calib_hash: "<&>".into(),
            drive: "drives/06".into(),
            pace: "max".into(),
            ..Provenance::default()
        },
    }
}

fn result(number: u64) -> FrameResult {
    let mut street = Street::new(SIZE, Stixels::new(6, 5, 3));
    street.disparity.set(1, 0, 0);
    street.disparity.set(2, 0, 256 * 10 + number as u16);
    let (counts, lists) = street.stixels.columns_mut();
    for (count, list) in counts.iter_mut().zip(lists) {
        *count = 1;
        list[0] = Stixel {
            class: Class::Object,
            top: 0,
            base: 19,
            disparity: 2560,
            confidence: 255,
        };
    }
    let mut result = FrameResult::from(street);
    result.id = FrameId {
        index: number as usize,
        number,
        timestamp: Timestamp(number * 100_000_000),
    };
    let stage = StageTiming {
        stage: "stereo",
        start_ns: 1000,
        duration_ns: 2_000_000 + number * 1000,
        outcome: Outcome::Done,
    };
    result.timing.stages.push(stage).unwrap();
    result.timing.duration_ns = 3_000_000;
    result
}

const TIMING: &str = "frame,timestamp_ns,stage,start_us,duration_us,outcome";

fn hand(folder: &mut ReplayFolder, number: u64) -> Result<(), SinkError> {
    let left = Image::filled(SIZE.width, SIZE.height, 77);
    let view = View {
        left: Some(&left),
        ..View::default()
    };
    folder.frame(view, &result(number))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn a_replay_with_a_gap() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("new").join("out");
    let all = "overlay,disparity,disparity-colour";
    let mut folder = begun(&out, options(all));
    let mut digest = Digest::new();
    for number in [0, 1, 3, 1_234_567] {
        hand(&mut folder, number).unwrap();
        digest.frame(&result(number)).unwrap();
    }
    let lost = FrameId {
        index: 2,
        number: 2,
        timestamp: Timestamp(7),
    };
    folder.gap(lost, Gap::Missing).unwrap();
    assert!(!out.join("summary.json").exists(), "not before the end");
    let summary = folder.finish(false).unwrap();

    assert_eq!(
        names(&out),
        [
            "disparity",
            "disparity-colour",
            "overlay",
            "stixels.csv",
            "summary.json",
            "timing.csv"
        ]
    );
    let pictures = ["000000.png", "000001.png", "000003.png", "1234567.png"];
    for kind in ["overlay", "disparity", "disparity-colour"] {
        assert_eq!(names(&out.join(kind)), pictures);
    }
    assert_eq!(summary.frames, 4);
    assert_eq!(summary.gaps.get("missing"), Some(&1));
    assert_eq!(summary.digest, digest.digests().whole.to_string());
    assert_eq!(
        (summary.pictures.written, summary.pictures.dropped),
        (12, 0)
    );
    let json = fs::read_to_string(out.join("summary.json")).unwrap();
    assert_eq!(json, summary.to_json());
    assert_eq!(lines(&out.join("stixels.csv")), 1 + 4 * 6);
    let timing = fs::read_to_string(out.join("timing.csv")).unwrap();
    assert!(
        timing.ends_with("\n2,7,frame,0.000,0.000,missing\n"),
        "{timing}"
    );

    let Picture::Grey16(d) = read(&out.join("disparity/000003.png")).unwrap() else {
        panic!("disparity is 16-bit grey");
    };
    assert_eq!(
        &d.row(0)[..4],
        [0, 1, 2563, 0],
        "invalid is 0, a valid 0 is 1"
    );
    let Picture::Rgb8(overlay) = read(&out.join("overlay/000000.png")).unwrap() else {
        panic!("the overlay is RGB");
    };
    assert_eq!(overlay.size(), Size::new(33, 20 + FOOTER));
}

#[test]
fn results_do_not_depend_on_what_is_saved() {
    let digest = |save: &str| {
        let temp = tempfile::tempdir().unwrap();
        let mut folder = begun(temp.path(), options(save));
        for number in 0..20 {
            hand(&mut folder, number).unwrap();
        }
        let stixels = fs::read(temp.path().join("stixels.csv")).unwrap();
        (folder.finish(false).unwrap().digest, stixels)
    };
    assert_eq!(digest(""), digest("overlay,disparity"));
}

#[test]
fn a_folder_in_use_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let refused = |path: &Path, force: bool| {
        let options = FolderOptions {
            force,
            ..options("")
        };
        let folder = ReplayFolder::create(path, options);
        folder.err().map(|e| e.to_string())
    };
    let out = temp.path().join("out");
    fs::create_dir(&out).unwrap();
    assert_eq!(refused(&out, false), None, "empty is as good as new");
    assert_eq!(
        names(&out),
        [""; 0],
        "nothing is made before the first frame"
    );
    fs::write(out.join("stixels.csv"), "").unwrap();
    assert_eq!(
        refused(&out, false).unwrap(),
        format!(
            "{}: holds files already (such as \"stixels.csv\"); expected an empty or new folder; \
             choose another --out, or overwrite earlier results with --force",
            out.display()
        )
    );
    let file = out.join("stixels.csv");
    assert_eq!(
        refused(&file, true).unwrap(),
        format!(
            "{}: is not a folder; expected a folder for results",
            file.display()
        )
    );
}

#[test]
fn force_removes_earlier_results_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    fs::create_dir_all(out.join("overlay")).unwrap();
    for name in ["overlay/000099.png", "overlay/mine.png", "notes.txt"] {
        fs::write(out.join(name), "old").unwrap();
    }
    fs::write(out.join("timing.csv"), format!("{TIMING}\n")).unwrap();
    let options = FolderOptions {
        force: true,
        ..options("overlay")
    };
    let mut folder = begun(out, options);
    assert_eq!(
        names(out),
        ["notes.txt", "overlay", "stixels.csv", "timing.csv"]
    );
    hand(&mut folder, 5).unwrap();
    folder.finish(false).unwrap();
    assert_eq!(names(&out.join("overlay")), ["000005.png", "mine.png"]);
}

#[test]
fn earlier_results_stay_until_new_ones_begin() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    let mut folder = begun(out, options("overlay"));
    hand(&mut folder, 0).unwrap();
    folder.finish(false).unwrap();
    let content = || {
        let files = [
            "summary.json",
            "stixels.csv",
            "timing.csv",
            "overlay/000000.png",
        ];
        files.map(|name| fs::read(out.join(name)).unwrap())
    };
    let before = content();
    let forced = || {
        let options = FolderOptions {
            force: true,
            ..options("")
        };
        ReplayFolder::create(out, options).unwrap()
    };
    drop(forced());
    forced().finish(false).unwrap();
    assert!(
        content() == before,
        "a replay that never began changes nothing"
    );
    forced()
        .begin(&Announced::street(CAMERA, &result(0), false))
        .unwrap();
    assert_eq!(names(out), ["overlay", "stixels.csv", "timing.csv"]);
    assert_eq!(names(&out.join("overlay")), [""; 0]);
}

#[test]
fn force_takes_only_the_folder_of_a_replay() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let other = temp.path().join("other");
    fs::create_dir_all(out.join("disparity")).unwrap();
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("000000.png"), "mine").unwrap();
    fs::write(out.join("disparity/000000.png"), "truth").unwrap();
    fs::write(out.join("stixels.csv"), "truth").unwrap();
    fs::write(out.join("summary.json"), "{\"of\": \"something else\"}").unwrap();
    let refused = || {
        let options = FolderOptions {
            force: true,
            ..options("overlay")
        };
        let error = ReplayFolder::create(&out, options).err().unwrap();
        error.to_string().replace(&out.display().to_string(), "OUT")
    };
    assert_eq!(
        refused(),
        "OUT: holds \"summary.json\", but neither the summary.json nor the timing.csv of a replay; \
         expected earlier results, which alone --force replaces; choose another --out"
    );
    assert_eq!(
        fs::read_to_string(out.join("disparity/000000.png")).unwrap(),
        "truth"
    );
    // A folder of ours, but one that leads elsewhere.
    fs::write(out.join("timing.csv"), format!("{TIMING}\n")).unwrap();
    std::os::unix::fs::symlink(&other, out.join("overlay")).unwrap();
    assert_eq!(
        refused(),
        "OUT/overlay: is not a folder; expected a folder for results"
    );
    assert_eq!(names(&other), ["000000.png"]);
    let dangling = temp.path().join("dangling");
    std::os::unix::fs::symlink(temp.path().join("gone"), &dangling).unwrap();
    let error = ReplayFolder::create(&dangling, options("")).err().unwrap();
    assert!(matches!(error, SinkError::NotAFolder { .. }), "{error}");
}

#[test]
fn two_replays_do_not_share_a_folder() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    let forced = || {
        let options = FolderOptions {
            force: true,
            ..options("")
        };
        ReplayFolder::create(out, options).unwrap()
    };
    let (mut first, mut second) = (forced(), forced());
    first
        .begin(&Announced::street(CAMERA, &result(0), false))
        .unwrap();
    hand(&mut first, 0).unwrap();
    let error = second
        .begin(&Announced::street(CAMERA, &result(0), false))
        .unwrap_err();
    assert!(matches!(error, SinkError::Busy { .. }), "{error}");
    first.finish(false).unwrap();
    assert_eq!(lines(&out.join("stixels.csv")), 1 + 6);
    // The end of the first frees the folder.
    second
        .begin(&Announced::street(CAMERA, &result(0), false))
        .unwrap();
}

#[test]
fn without_an_end_everything_finished_stays() {
    let temp = tempfile::tempdir().unwrap();
    let mut folder = begun(temp.path(), options("disparity"));
    for number in 0..10 {
        hand(&mut folder, number).unwrap();
        assert_eq!(
            lines(&temp.path().join("stixels.csv")),
            1 + 6 * (number as usize + 1)
        );
        assert_eq!(
            lines(&temp.path().join("timing.csv")),
            1 + 2 * (number as usize + 1)
        );
    }
    drop(folder);
    assert_eq!(names(&temp.path().join("disparity")).len(), 10);
    assert!(!temp.path().join("summary.json").exists());
}

#[test]
fn a_picture_that_cannot_be_written_is_named_once() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    let mut folder = begun(out, options("overlay"));
    let blocked = out.join("overlay/000001.png");
    fs::create_dir(&blocked).unwrap();
    // The writer works behind the loop: the error comes with a later frame or the end.
    let mut errors: Vec<_> = (0..20).filter_map(|n| hand(&mut folder, n).err()).collect();
    errors.extend(folder.finish(false).err());
    assert_eq!(errors.len(), 1);
    let text = errors[0].to_string();
    assert!(
        text.starts_with(&format!("{}: ", blocked.display())),
        "{text}"
    );
    assert!(out.join("overlay/000000.png").exists());
    assert!(out.join("summary.json").exists());
    assert_eq!(lines(&out.join("stixels.csv")), 1 + 6 * 20);
}

#[test]
fn of_several_errors_the_first_is_told() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    let mut folder = begun(out, options("overlay"));
    let blocked = out.join("overlay/000001.png");
    fs::create_dir(&blocked).unwrap();
    fs::create_dir(out.join("summary.json")).unwrap();
    hand(&mut folder, 1).unwrap();
    let text = folder.finish(false).unwrap_err().to_string();
    assert!(text.contains("overlay/000001.png"), "{text}");
}

/// A named pipe in place of the first picture holds the writer until the test reads it.
#[test]
#[cfg(target_os = "linux")]
fn pictures_are_left_out_where_the_loop_must_not_wait() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    let options = FolderOptions {
        full: Full::Drop,
        ..options("disparity")
    };
    let mut folder = begun(out, options);
    let pipe = out.join("disparity/000000.png");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|s| s.success()) {
        eprintln!("SKIPPED: no mkfifo");
        return;
    }
    for number in 0..20 {
        hand(&mut folder, number).unwrap();
    }
    assert!(!fs::read(&pipe).unwrap().is_empty());
    let summary = folder.finish(false).unwrap();
    assert_eq!(
        (summary.pictures.written, summary.pictures.dropped),
        (8, 12)
    );
    assert_eq!(summary.frames, 20);
    assert_eq!(
        lines(&out.join("stixels.csv")),
        1 + 6 * 20,
        "tables are whole"
    );
    assert_eq!(names(&out.join("disparity")).last().unwrap(), "000007.png");
}

#[test]
fn the_report_has_everything_in_it() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let mut folder = begun(&out, options("overlay"));
    for number in 0..7 {
        hand(&mut folder, number).unwrap();
    }
    folder.gap(FrameId::default(), Gap::Unreadable).unwrap();
    let summary = folder.finish(false).unwrap();
    let page = temp.path().join("report.html");
    report::write(&out, &page, 3).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    for text in [
        "stereo",
        "unreadable",
        summary.digest.as_str(),
        "0123456789abcdef",
        "&lt;&amp;&gt;",
        "frame 000000</figcaption>",
        "frame 000003</figcaption>",
        "frame 000006</figcaption>",
    ] {
        assert!(html.contains(text), "no {text}");
    }
    assert!(!html.contains("<&>"));
    assert_eq!(html.matches("data:image/png;base64,iVBOR").count(), 3);
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert!(
        !html.contains("src=\"http") && !html.contains("href="),
        "self-contained"
    );
    assert_eq!(report::html(&out, 0).unwrap().matches("<img").count(), 0);
}

#[test]
fn a_report_on_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let folder = begun(temp.path(), options(""));
    folder.finish(false).unwrap();
    assert!(
        report::html(temp.path(), 4)
            .unwrap()
            .contains("None: every frame")
    );
}

#[test]
fn what_is_no_replay_gets_no_report() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    let error = |expected: &str| {
        let text = report::html(out, 1).unwrap_err().to_string();
        let text = text.replace(&out.display().to_string(), "OUT");
        assert_eq!(text, expected);
    };
    error(
        "OUT/summary.json: not found; expected the results of a finished replay \
         (roadloop replay DRIVE --out DIR)",
    );
    fs::write(out.join("summary.json"), "{\n  \"frames\": -1\n}").unwrap();
    error(
        "OUT/summary.json: invalid value: integer `-1`, expected u64 at line 2 column 14; \
         expected a summary that roadloop replay wrote",
    );
    fs::remove_file(out.join("summary.json")).unwrap();
    let folder = begun(out, options(""));
    folder.finish(false).unwrap();
    let header = "frame,timestamp_ns,stage,start_us,duration_us,outcome\n";
    for (rows, expected) in [
        (
            "a,0,frame,0,1,done\n",
            "line 2: frame is \"a\", expected a number",
        ),
        (
            "0,0,stereo,0,NaN,done\n",
            "line 2: duration_us is \"NaN\", expected microseconds",
        ),
        (
            "0,0,frame,0,1e30,done\n",
            "line 2: duration_us is \"1e30\", expected microseconds",
        ),
    ] {
        fs::write(out.join("timing.csv"), format!("{header}{rows}")).unwrap();
        error(&format!("OUT/timing.csv: {expected}"));
    }
    fs::write(out.join("timing.csv"), "time,frame\n").unwrap();
    error(&format!(
        "OUT/timing.csv: line 1: found the columns \"time,frame\", expected {:?}",
        header.trim_end()
    ));
}

#[test]
fn a_picture_that_is_gone_costs_the_report_no_more() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path();
    let mut folder = begun(out, options("overlay"));
    for number in 0..3 {
        hand(&mut folder, number).unwrap();
    }
    folder.finish(false).unwrap();
    let overlay = out.join("overlay");
    fs::remove_file(overlay.join("000000.png")).unwrap();
    std::os::unix::fs::symlink("gone", overlay.join("000000.png")).unwrap();
    fs::remove_file(overlay.join("000001.png")).unwrap();
    fs::create_dir(overlay.join("000001.png")).unwrap();
    assert_eq!(report::html(out, 3).unwrap().matches("<img").count(), 1);
}

#[test]
fn no_pictures_when_none_are_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let options = options("");
    assert_eq!(options.save, SaveSet::NONE);
    let mut folder = begun(temp.path(), options);
    hand(&mut folder, 0).unwrap();
    folder.finish(false).unwrap();
    assert_eq!(
        names(temp.path()),
        ["stixels.csv", "summary.json", "timing.csv"]
    );
}
