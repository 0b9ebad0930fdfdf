//! What does the command line make of places and files that are not what they should be? One
//! clear error, nothing lost, nothing waited for.
#![cfg(target_os = "linux")]
#[path = "common/folders.rs"]
mod folders;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use folders::{P, P_RIGHT, folder};
use roadloop::frame::{Image, png};

const ROADLOOP: &str = env!("CARGO_BIN_EXE_roadloop");

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The exit status and what was said on stderr.
fn said(args: &[&str]) -> (i32, String) {
    let output = Command::new(ROADLOOP)
        .args(args)
        .env("RUST_LOG", "info")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), text)
}

#[track_caller]
fn refused(args: &[&str], status: i32, parts: &[&str]) {
    let (code, text) = said(args);
    assert_eq!(code, status, "{args:?}: {text}");
    let errors = text.lines().filter(|l| l.contains("ERROR")).count();
    assert_eq!(errors, 1, "one error: {text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[track_caller]
fn works(args: &[&str]) {
    let (code, text) = said(args);
    assert_eq!(code, 0, "{args:?}: {text}");
}

/// Stripes that the right picture shows 4 px further left.
fn picture(path: &Path, shift: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let image = Image::from_fn(64, 48, |x, y| (((x + shift) * 37 + y * 11) % 251) as u8);
    png::write_grey(path, &image).unwrap();
}

/// `left` and `right` with a calibration of their own.
fn drive(root: &Path, frames: usize) -> PathBuf {
    let dir = root.join("drive");
    for n in 0..frames {
        picture(&dir.join(format!("left/{n:06}.png")), 0);
        picture(&dir.join(format!("right/{n:06}.png")), 4);
    }
    fs::write(dir.join("calib.txt"), format!("P0: {P}\nP1: {P_RIGHT}\n")).unwrap();
    dir
}

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn results_do_not_go_where_input_comes_from() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 3);
    let out = root.join("out");
    let truth = drive.join("truth");
    works(&[
        "replay",
        path(&drive),
        "--out",
        path(&out),
        "--save",
        "disparity",
    ]);
    fs::create_dir_all(&truth).unwrap();
    fs::rename(out.join("disparity"), truth.join("disparity")).unwrap();
    fs::copy(out.join("stixels.csv"), truth.join("stixels.csv")).unwrap();
    let stored = truth.join("disparity");
    for place in [&truth, &drive, &drive.join("new"), &root.to_path_buf()] {
        let args = ["replay", path(&drive), "--out", path(place), "--force"];
        refused(&args, 64, &["--out", path(place), "which is read"]);
    }
    let elsewhere = root.join("stored");
    fs::create_dir(&elsewhere).unwrap();
    fs::rename(&stored, elsewhere.join("disparity")).unwrap();
    symlink(&elsewhere, root.join("link")).unwrap();
    let stored = elsewhere.join("disparity");
    let own = root.join("link");
    let args = ["replay", path(&drive), "--disparity", path(&stored)];
    refused(
        &[&args[..], &["--out", path(&own), "--force"]].concat(),
        64,
        &["which is read", path(&stored)],
    );
    assert_eq!(count(&stored), 3);
    assert!(truth.join("stixels.csv").exists());
    // A calibration that would be taken for an earlier picture.
    fs::create_dir_all(out.join("overlay")).unwrap();
    let calib = out.join("overlay/000000.png");
    fs::copy(drive.join("calib.txt"), &calib).unwrap();
    let args = ["replay", path(&drive), "--calib", path(&calib)];
    refused(
        &[&args[..], &["--out", path(&out), "--force"]].concat(),
        64,
        &["which is read", path(&calib)],
    );
    assert!(calib.exists());
    // The report does not take the place of what it is on.
    let summary = out.join("summary.json");
    let before = fs::read(&summary).unwrap();
    refused(
        &["report", path(&out), "--out", path(&summary)],
        64,
        &["summary.json"],
    );
    assert_eq!(fs::read(&summary).unwrap(), before);
}

#[test]
fn pipes_devices_and_endless_files_are_refused_at_once() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 2);
    let out = root.join("out");
    works(&["replay", path(&drive), "--out", path(&out)]);
    let pipe = root.join("pipe");
    fifo(&pipe);
    let zero = root.join("zero");
    symlink("/dev/zero", &zero).unwrap();
    let sparse = root.join("sparse");
    fs::File::create(&sparse)
        .unwrap()
        .set_len(64 << 30)
        .unwrap();
    let new = root.join("new");
    for (file, text) in [
        (&pipe, "not a file"),
        (&zero, "not a file"),
        (&sparse, "expected at most"),
    ] {
        let file = path(file);
        let part = &[file, text];
        let replay = ["replay", path(&drive), "--out", path(&new)];
        refused(&[&replay[..], &["--config", file]].concat(), 78, part);
        refused(&[&replay[..], &["--calib", file]].concat(), 65, part);
        refused(&["check", "config", file], 78, part);
        refused(&["check", "calib", file], 65, part);
        refused(&["evaluate", "stixels", file, path(&out)], 65, part);
        refused(&["evaluate", "stixels", path(&out), file], 65, part);
        let points = [
            "evaluate",
            "stixels",
            path(&out),
            file,
            "--truth",
            "foot-points",
        ];
        refused(&points, 65, part);
        // In the place of a drive's own files and of results.
        let times = drive.join("times.txt");
        symlink(file, &times).unwrap();
        refused(&replay, 65, &["times.txt", text]);
        fs::remove_file(&times).unwrap();
        for name in ["summary.json", "timing.csv"] {
            let place = out.join(name);
            let kept = fs::read(&place).unwrap();
            fs::remove_file(&place).unwrap();
            symlink(file, &place).unwrap();
            refused(
                &["report", path(&out), "--out", "/dev/null"],
                65,
                &[name, text],
            );
            fs::remove_file(&place).unwrap();
            fs::write(&place, kept).unwrap();
        }
    }
    assert!(!new.exists());
}

#[test]
fn what_is_missing_and_what_is_damaged_differ() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 2);
    let out = root.join("out");
    let page = root.join("page.html");
    works(&["replay", path(&drive), "--out", path(&out)]);
    let report = ["report", path(&out), "--out", path(&page)];
    let gone = root.join("gone");
    let replay = ["replay", path(&drive), "--out", path(&gone)];
    refused(
        &[&replay[..], &["--config", path(&gone)]].concat(),
        66,
        &["gone"],
    );
    refused(
        &[&replay[..], &["--calib", path(&gone)]].concat(),
        66,
        &["gone"],
    );
    refused(
        &[&replay[..], &["--frames", "99.."]].concat(),
        66,
        &["frames 99..: the drive has frames 0..2"],
    );
    symlink(&gone, drive.join("times.txt")).unwrap();
    refused(&replay, 66, &["times.txt"]);
    fs::remove_file(drive.join("times.txt")).unwrap();
    fs::create_dir(drive.join("times.txt")).unwrap();
    refused(&replay, 65, &["times.txt", "not a file"]);
    fs::remove_file(out.join("timing.csv")).unwrap();
    refused(&report, 66, &["timing.csv: No such file"]);
    fs::write(out.join("summary.json"), [b'{', 0xFF, 0xFE]).unwrap();
    refused(&report, 65, &["summary.json"]);
    fs::remove_file(out.join("summary.json")).unwrap();
    fs::create_dir(out.join("summary.json")).unwrap();
    refused(&report, 65, &["summary.json", "a folder"]);
    refused(
        &["report", path(&page), "--out", path(&page)],
        66,
        &["page.html"],
    );
    assert!(!page.exists());
    symlink(&gone, root.join("dangling")).unwrap();
    let dangling = root.join("dangling");
    let args = ["replay", path(&drive), "--out", path(&dangling)];
    fs::remove_dir(drive.join("times.txt")).unwrap();
    refused(&args, 64, &["dangling", "not a folder"]);
}

#[test]
fn a_report_goes_into_a_pipe_and_through_a_link() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 2);
    let out = root.join("out");
    works(&["replay", path(&drive), "--out", path(&out)]);
    let pipe = root.join("pipe");
    fifo(&pipe);
    let mut child = Command::new(ROADLOOP)
        .args(["report", path(&out), "--out", path(&pipe)])
        .spawn()
        .unwrap();
    let page = fs::read_to_string(&pipe).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(page.trim_end().ends_with("</html>"));
    use std::os::unix::fs::FileTypeExt as _;
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    let (target, link) = (root.join("page.html"), root.join("link.html"));
    symlink(&target, &link).unwrap();
    fs::write(&target, "old").unwrap();
    let args = ["report", path(&out), "--out", path(&link)];
    refused(
        &args,
        64,
        &["link.html: it is there and is no page of roadloop's"],
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), "old");
    works(&[
        "report",
        path(&out),
        "--out",
        path(&root.join("other.html")),
    ]);
    fs::rename(root.join("other.html"), &target).unwrap();
    works(&["report", path(&out), "--out", path(&link)]);
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), page);
}

/// A limit on file sizes stands in for a full disk: a part of a write succeeds.
#[test]
fn what_does_not_fit_leaves_no_halves() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 30);
    let run = |blocks: &str, save: &str, frames: &str| {
        let out = root.join(format!("out-{blocks}-{save}"));
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &script, ROADLOOP, "replay", path(&drive)])
            .args(["--out", path(&out), "--save", save, "--frames", frames])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(70), "{text}");
        (out, text)
    };
    // 12 columns of at least one stixel, some 40 bytes each: 8 KiB hold some of 30 frames.
    let (out, text) = run("16", "none", "..");
    assert!(text.contains("stixels.csv: File too large"), "{text}");
    let table = fs::read_to_string(out.join("stixels.csv")).unwrap();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert!(table.ends_with('\n') && !rows.is_empty());
    let of = |n: usize| {
        rows.iter()
            .filter(|r| r.starts_with(&format!("{n},")))
            .count()
    };
    let whole = rows
        .last()
        .unwrap()
        .split(',')
        .next()
        .unwrap()
        .parse::<usize>()
        .unwrap();
    // All frames are the same picture.
    assert_eq!(of(whole), of(0), "the last frame is whole");
    assert!(out.join("summary.json").exists());
    let (out, text) = run("8", "overlay", "..1");
    assert!(
        text.contains("overlay/000000.png: File too large"),
        "{text}"
    );
    assert_eq!(count(&out.join("overlay")), 0, "no part of a picture");
}

#[test]
fn a_frame_that_is_far_away_is_told_once() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 3);
    fs::write(drive.join("times.txt"), "0\n0.1\n1000000000\n").unwrap();
    let mut child = Command::new(ROADLOOP)
        .args([
            "replay",
            path(&drive),
            "--pace",
            "realtime",
            "--save",
            "none",
        ])
        .args(["--out", path(&root.join("out"))])
        .env("RUST_LOG", "info")
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let far = |line: &String| line.contains("the next frame is 99999999") && line.contains("away");
    assert!(log.by_ref().map(Result::unwrap).any(|line| far(&line)));
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(sent.success());
    assert!(child.wait().unwrap().success());
    let mut text = String::new();
    child.stdout.unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("frames: 2"), "{text}");
    assert!(!log.any(|line| far(&line.unwrap())), "said once");
}

/// A stdout that is full and read by nobody holds the process for ever.
#[test]
fn a_second_signal_ends_what_waits_for_ever() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 2);
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b' '; 1 << 16]).unwrap();
    let mut child = Command::new(ROADLOOP)
        .args(["replay", path(&drive), "--out", path(&root.join("out"))])
        .env("RUST_LOG", "info")
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut heard = |text: &str| log.by_ref().any(|line| line.unwrap().contains(text));
    let id = child.id().to_string();
    let stop = || Command::new("kill").args(["-TERM", &id]).status().unwrap();
    // Said after the signals are taken care of.
    assert!(heard("principal point"));
    assert!(stop().success());
    assert!(heard("once more to end at once"));
    assert!(stop().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(reader);
}

#[test]
fn values_out_of_range_are_named_where_they_stand() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 2);
    let (out, config) = (root.join("out"), root.join("roadloop.toml"));
    let camera = |key: &str, value: &str| {
        let mut values = [
            ("focal_px", "700.0"),
            ("cx", "5.0"),
            ("cy", "4.0"),
            ("baseline_m", "0.5"),
        ];
        values
            .iter_mut()
            .filter(|v| v.0 == key)
            .for_each(|v| v.1 = value);
        let lines = values.iter().map(|(k, v)| format!("{k} = {v}\n"));
        format!("[camera]\n{}", lines.collect::<String>())
    };
    for (key, value) in [
        ("focal_px", "1e9"),
        ("focal_px", "inf"),
        ("cx", "nan"),
        ("cx", "1e308"),
        ("cy", "inf"),
        ("baseline_m", "1e-300"),
    ] {
        fs::write(&config, camera(key, value)).unwrap();
        let key = format!("camera.{key} is");
        let parts = ["roadloop.toml", key.as_str(), "expected"];
        refused(&["check", "config", path(&config)], 78, &parts);
    }
    for text in [
        "[road]\ncamera_height_m = 1e-300\n",
        "[source]\nrate_hz = 1e-300\n",
    ] {
        fs::write(&config, text).unwrap();
        refused(&["check", "config", path(&config)], 78, &["expected 0.0"]);
    }
    let calib = root.join("own.txt");
    for (left, right) in [
        (P.replace("700", "1e9"), P_RIGHT.replace("700", "1e9")),
        (P.into(), P_RIGHT.replace("-350", "-1e-297")),
        (
            P.replace(" 5 ", " 1e300 "),
            P_RIGHT.replace(" 5 ", " 1e300 "),
        ),
    ] {
        fs::write(&calib, format!("P0: {left}\nP1: {right}\n")).unwrap();
        let args = [
            "replay",
            path(&drive),
            "--out",
            path(&out),
            "--calib",
            path(&calib),
        ];
        refused(&args, 65, &["own.txt", "P", "expected"]);
    }
    fs::write(
        &config,
        "[stixel]\nstixel_width = 1\nmax_stixels_per_column = 65535\n",
    )
    .unwrap();
    let args = [
        "replay",
        path(&drive),
        "--out",
        path(&out),
        "--config",
        path(&config),
    ];
    works(&args);
    // The same list of stixels in 400 columns would take 200 MB, ten times.
    for (camera, value) in [("left", 0), ("right", 1)] {
        let wide = drive.join(format!("{camera}/000000.png"));
        folders::sized(&wide, 400, 48, value);
    }
    let forced = [&args[..], &["--force"]].concat();
    let parts = [
        "stixel.max_stixels_per_column is 65535",
        "expected 1 to 10485",
    ];
    refused(&forced, 78, &parts);
    assert!(out.join("summary.json").exists(), "earlier results stay");
}

#[test]
fn the_ends_of_what_is_taken_can_be_computed() {
    let tmp = folder();
    let root = tmp.path();
    let drive = drive(root, 1);
    for (n, text) in [
        "focal_px = 1e6\ncx = 1e6\ncy = 1e6\nbaseline_m = 100.0\n",
        "focal_px = 1e6\ncx = -1e6\ncy = -1e6\nbaseline_m = 1e-4\n",
        "focal_px = 1.0\ncx = 1e6\ncy = -1e6\nbaseline_m = 100.0\n",
        "focal_px = 1.0\ncx = -1e6\ncy = 1e6\nbaseline_m = 1e-4\n",
    ]
    .iter()
    .enumerate()
    {
        let config = root.join("roadloop.toml");
        fs::write(&config, format!("[camera]\n{text}")).unwrap();
        let out = root.join(format!("out{n}"));
        works(&[
            "replay",
            path(&drive),
            "--out",
            path(&out),
            "--config",
            path(&config),
        ]);
    }
}

#[test]
fn a_reader_that_has_left_is_no_failure() {
    let tmp = folder();
    let drive = drive(tmp.path(), 2);
    let out = tmp.path().join("out");
    works(&["replay", path(&drive), "--out", path(&out)]);
    let script = "exec 3>&1; { \"$0\" \"$@\"; echo $? >&3; } | true";
    let mut command = Command::new("sh");
    command.args([
        "-c",
        script,
        ROADLOOP,
        "evaluate",
        "stixels",
        path(&out),
        path(&out),
    ]);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
}
