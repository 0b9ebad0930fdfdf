//! `roadloop bench latency`: is what it says consistent, and what does it refuse?
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(["bench", "latency", "--backend", "cpu"])
        .args(args)
        .env("RUST_LOG", "info")
        .output()
        .unwrap()
}

#[track_caller]
fn measured(args: &[&str]) -> Value {
    let output = bench(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

const QUANTILES: [&str; 6] = [
    "p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us",
];

#[track_caller]
fn rising(what: &str, quantiles: &Value) {
    let all = QUANTILES.map(|q| quantiles[q].as_f64().unwrap());
    assert!(all.is_sorted(), "{what}: {all:?}");
}

/// Everything that must add up, whatever the machine did meanwhile.
#[track_caller]
fn consistent(report: &Value, due: u64) {
    let frames = number(&report["frames"]);
    let misses = &report["misses"];
    assert_eq!(frames + number(&misses["without_result"]), due);
    assert!(number(&misses["required_late"]) <= number(&misses["late"]));
    assert!(number(&misses["late"]) <= frames);
    for (name, stage) in report["stages"].as_object().unwrap() {
        let ran = number(&stage["count"]);
        assert_eq!(ran + number(&stage["skipped"]), frames, "{name}");
        assert!(number(&stage["over_budget"]) + number(&stage["late"]) <= ran);
        rising(name, stage);
    }
    for name in ["required", "frame", "handed_out"] {
        assert_eq!(number(&report[name]["count"]), frames, "{name}");
        rising(name, &report[name]);
    }
    for name in ["frame", "handed_out"] {
        let jitter = &report[name]["jitter"];
        assert_eq!(number(&jitter["count"]), frames - 1, "{name}");
        rising(name, jitter);
    }
    let stages = report["stages"].as_object().unwrap();
    for (name, counts) in report["histograms"].as_object().unwrap() {
        let sum: u64 = counts
            .as_array()
            .unwrap()
            .iter()
            .map(|c| number(&c[1]))
            .sum();
        let of = stages.get(name).unwrap_or(&report[name]);
        assert_eq!(sum, number(&of["count"]), "{name}");
    }
    assert!(!report["doubts"].as_array().unwrap().is_empty());
}

/// Small, so that it keeps up also where it is not optimised.
fn config(dir: &Path, text: &str) -> String {
    let path = dir.join("roadloop.toml");
    let text = format!(
        "[stereo]\ndisparities = 64\n[synthetic]\nwidth = 128\nheight = 72\nframes = 4\n\
         [foreground]\nenabled = true\n{text}"
    );
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_numbers_add_up_and_the_page_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "");
    let page = dir.path().join("page.html");
    let report = measured(&[
        "--config",
        &config,
        "--rate",
        "20",
        "--frames",
        "30",
        "--warm-up",
        "5",
        "--json",
        "--report",
        page.to_str().unwrap(),
    ]);
    consistent(&report, 30);
    assert_eq!(report["settings"]["rate_hz"], 20.0);
    assert_eq!(report["settings"]["publish"], "when_ready");
    assert_eq!(report["stopped"], false);
    assert_eq!(report["provenance"]["backend"], "cpu");
    for stage in [
        "rectify",
        "stereo",
        "road",
        "stixel",
        "egomotion",
        "foreground",
    ] {
        assert!(report["stages"][stage]["budget_us"].is_u64(), "{stage}");
    }
    let doubts = report["doubts"].to_string();
    assert!(doubts.contains("p99.99 of"), "{doubts}");
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "<svg",
        "stixel",
        "whole frame",
        "handed out",
        "Doubtful:",
        "128x72",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    assert!(
        !page.contains("http"),
        "the page needs something from elsewhere"
    );
}

#[test]
fn at_a_fixed_latency_nothing_comes_early() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(
        dir.path(),
        "[frame_loop]\npublish = \"at_latency\"\nlatency_us = 150000\ndeadline_us = 150000\n",
    );
    let args = ["--rate", "20", "--frames", "20", "--warm-up", "5", "--json"];
    let report = measured(&[&["--config", &config], &args[..]].concat());
    consistent(&report, 20);
    assert_eq!(report["settings"]["latency_us"], 150_000);
    let out = &report["handed_out"];
    assert_eq!(out["early"], 0);
    // Three digits are told apart.
    assert!(out["p50_us"].as_f64().unwrap() >= 149_850.0, "{out}");
}

#[test]
fn recorded_frames_go_round_and_another_load_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let drive = dir.path().join("drive");
    let drive = drive.to_str().unwrap();
    let synth = [
        "synth", "--out", drive, "--frames", "4", "--width", "128", "--height", "72",
    ];
    let made = Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(synth)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let args = [
        "--rate",
        "10",
        "--seconds",
        "1",
        "--warm-up",
        "2",
        "--contend",
    ];
    let config = config(dir.path(), "");
    let with = ["--config", &config, "--drive", drive];
    let report = measured(&[&with, &args[..], &["--json"]].concat());
    consistent(&report, 10);
    let input = report["settings"]["input"].as_str().unwrap();
    assert_eq!(input, format!("{drive}, 4 frames over and over"));
    assert_eq!(report["settings"]["contend"], true);
    assert!(report["doubts"].to_string().contains("on purpose"));
    // The same as a table.
    let output = bench(&[&with, &args[..]].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    for part in [
        "# DOUBTFUL: another load",
        "p99.99",
        "required stages",
        "frames: ",
    ] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
}

#[track_caller]
fn refused(args: &[&str], status: i32, parts: &[&str]) {
    let output = bench(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    for (args, part) in [
        (["--rate", "0"], "--rate 0: expected 0.1 to 1000"),
        (["--rate", "fast"], "--rate fast: expected"),
        (["--frames", "0"], "--frames 0: expected 1 to"),
        (["--size", "12"], "--size 12: expected WxH"),
        (["--sms", "4"], "--sms 4: a part of a GPU"),
        (["--size", "9x9"], "synthetic.width: 9, expected 16 to 4096"),
        (
            ["--report", "/nowhere/r.html"],
            "/nowhere is no folder, expected a file",
        ),
        (
            ["--report", "/tmp"],
            "--report /tmp: a folder, expected a file",
        ),
    ] {
        refused(&args, 64, &[part]);
    }
    refused(&["--frames", "5", "--seconds", "5"], 64, &["--seconds"]);
    refused(&["--drive", "/nowhere/drive"], 66, &["/nowhere/drive"]);
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "[frame_loop]\nlatency_us = 5\n");
    let part = "frame_loop.latency_us is 5, expected 1000 to 1000000";
    refused(&["--config", &config], 78, &["roadloop.toml", part]);
}

/// Ticks of processor time that a process has taken.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|n| n.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn a_measurement_that_is_stopped_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "");
    let page = dir.path().join("page.html");
    let mut child = Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(["bench", "latency", "--backend", "cpu", "--json"])
        .args(["--config", &config, "--report", page.to_str().unwrap()])
        .args(["--frames", "1000000", "--warm-up", "0", "--rate", "50"])
        .env("RUST_LOG", "info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let begun = |line: &String| line.contains("1000000 frames at 50 Hz");
    while !begun(&lines.next().unwrap().unwrap()) {}
    // Some frames are through.
    let before = ticks(child.id());
    while ticks(child.id()) < before + 50 {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{said:?}");
    let last = said.last().unwrap();
    assert!(
        last.contains("stopped before the end: the figures are those of"),
        "{last}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["stopped"], true);
    let doubt = report["doubts"][0].as_str().unwrap();
    let due = number(&report["frames"]) + number(&report["misses"]["without_result"]);
    assert_eq!(doubt, format!("stopped after {due} of 1000000 frames"));
    assert!(fs::read_to_string(page).unwrap().contains(doubt));
}
