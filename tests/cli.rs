//! The command line: exit statuses, messages, what is written and what is left alone.
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn roadloop(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(args)
        .env("RUST_LOG", "info")
        .output()
        .unwrap()
}

/// The exit status and what was said.
fn said(args: &[&str]) -> (i32, String) {
    let output = roadloop(args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), text)
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn refused(args: &[&str], status: i32, parts: &[&str]) {
    let (code, text) = said(args);
    assert_eq!(code, status, "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[test]
fn help_and_version_are_answers() {
    for args in [&["--help"][..], &["--version"], &["replay", "--help"]] {
        let output = roadloop(args);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("roadloop"));
    }
}

#[test]
fn a_wrong_command_line_is_usage() {
    refused(&[], 64, &["Usage"]);
    refused(&["fly"], 64, &["fly"]);
    refused(&["replay", "drive"], 64, &["--out"]);
    let tmp = tempfile::tempdir().unwrap();
    let out = path(tmp.path());
    for frames in ["5", "5..3", "a..b", "3..3"] {
        let args = ["replay", "drive", "--out", out, "--frames", frames];
        refused(&args, 64, &["--frames", frames]);
    }
    refused(
        &["replay", "drive", "--out", out, "--save", "holograms"],
        64,
        &["holograms"],
    );
    refused(
        &["replay", "drive", "--out", out, "--threads", "0"],
        64,
        &["--threads"],
    );
}

#[test]
fn a_drive_that_is_not_there_is_no_input() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, out) = (tmp.path().join("nowhere"), tmp.path().join("out"));
    refused(
        &["replay", path(&drive), "--out", path(&out)],
        66,
        &["nowhere"],
    );
    assert!(
        !out.exists(),
        "nothing is made for a drive that can't be read"
    );
    let empty = tmp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    refused(
        &["replay", path(&empty), "--out", path(&out)],
        66,
        &["empty"],
    );
}

#[test]
fn a_bad_configuration_names_line_and_key() {
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join("roadloop.toml");
    fs::write(&file, "[stereo]\npaths = 4\n\n[stixel]\nwhirl = 3\n").unwrap();
    let check = ["check", "config", path(&file)];
    refused(&check, 78, &["roadloop.toml", "line 5", "whirl"]);
    fs::write(&file, "[stereo]\npaths = 5\n").unwrap();
    refused(&check, 78, &["roadloop.toml", "paths", "5", "expected"]);
    fs::write(&file, "[frame_loop]\ndeadline_us = 0\n").unwrap();
    refused(
        &check,
        78,
        &["roadloop.toml", "frame_loop.deadline_us is 0"],
    );
    let gone = tmp.path().join("gone.toml");
    refused(&["check", "config", path(&gone)], 66, &["gone.toml"]);
}

#[test]
fn a_checked_configuration_is_printed_whole_and_can_be_read_again() {
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join("roadloop.toml");
    fs::write(&file, "preset = \"paper\"\n[stixel]\nstixel_width = 7\n").unwrap();
    let first = roadloop(&["check", "config", path(&file)]);
    assert!(first.status.success());
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(
        text.contains("stixel_width = 7") && text.contains("preset = \"paper\""),
        "{text}"
    );
    fs::write(&file, &text).unwrap();
    let again = roadloop(&["check", "config", path(&file)]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
}

#[test]
fn a_damaged_calibration_is_data() {
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join("calib.txt");
    fs::write(&file, "P0: 1 2 3\n").unwrap();
    refused(&["check", "calib", path(&file)], 65, &["calib.txt", "P0"]);
}

#[test]
#[cfg(not(feature = "v4l2"))]
fn a_build_without_cameras_says_so() {
    let expected = "check cameras: this build has no cameras (feature \"v4l2\"); expected";
    refused(&["check", "cameras"], 69, &[expected]);
    refused(&["check", "cameras", "--config", "a.toml"], 69, &[expected]);
}

/// On whatever machine this is: none of these are cameras.
#[test]
#[cfg(feature = "v4l2")]
fn cameras_that_cannot_be_are_refused_by_name() {
    assert!(roadloop(&["check", "cameras"]).status.success());
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join("roadloop.toml");
    let check = ["check", "cameras", "--config", path(&file)];
    let mono = |device: &str| {
        let camera = "width = 640\nheight = 480\nformat = 'GREY'";
        fs::write(
            &file,
            format!("[cameras.mono]\ndevice = '{device}'\n{camera}\n"),
        )
        .unwrap();
    };
    mono("/dev/v4l/by-path/none");
    let none = "mono (/dev/v4l/by-path/none, where nothing is): there is no such device";
    refused(&check, 69, &["roadloop.toml: camera ", none]);
    mono("/dev/null");
    let null = "roadloop.toml: camera mono (/dev/null): that is no capture device";
    refused(&check, 78, &[null]);
    fs::write(&file, "").unwrap();
    refused(
        &check,
        78,
        &["roadloop.toml: no cameras: expected [cameras.left]"],
    );
    refused(
        &["check", "cameras", "--config", "gone.toml"],
        66,
        &["gone.toml"],
    );
}
