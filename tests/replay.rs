//! A whole drive through the program: what is written, what is equal, what is a gap.
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::AtomicBool,
};

use roadloop::{
    config::Config,
    frame::{FrameId, FrameResult, Gap, Size, Timestamp, png},
    frame_loop::{MockClock, Pace},
    picture::{self, Picture},
    replay::Replay,
    sink::{Sink, SinkError, View, digest::Digest},
    source::{
        Drive, DriveOptions,
        synth::{Motion, Options, write::write_drive},
    },
};
use serde_json::Value;

mod common;

const FRAMES: usize = 8;

/// A small synthetic drive in `dir`.
fn small_drive(dir: &Path, seed: u64) -> PathBuf {
    let out = dir.join(format!("drive{seed}"));
    let options = Options {
        frames: FRAMES,
        seed,
        size: Size::new(203, 97),
        motion: Motion::Drive,
    };
    write_drive(&options, &out, &mut |_, _| {}).unwrap();
    out
}

fn roadloop(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(args)
        .output()
        .unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Replays with these extra arguments; gives the summary.
#[track_caller]
fn replay(drive: &Path, out: &Path, extra: &[&str]) -> Value {
    let mut args = vec!["replay", text(drive), "--out", text(out)];
    args.extend(extra);
    let output = roadloop(&args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    summary(out)
}

fn summary(out: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .map(|d| {
            d.map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}

fn frames_in(csv: &Path) -> Vec<u64> {
    let mut frames: Vec<u64> = fs::read_to_string(csv)
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    frames.dedup();
    frames
}

#[test]
fn the_files_of_a_replay() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, out) = (small_drive(tmp.path(), 1), tmp.path().join("out"));
    let save = "overlay,disparity,disparity-colour";
    let summary = replay(&drive, &out, &["--frames", "2..6", "--save", save]);
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
    let pictures = ["000002.png", "000003.png", "000004.png", "000005.png"];
    for kind in save.split(',') {
        assert_eq!(names(&out.join(kind)), pictures);
    }
    assert_eq!(frames_in(&out.join("stixels.csv")), [2, 3, 4, 5]);
    assert_eq!(frames_in(&out.join("timing.csv")), [2, 3, 4, 5]);
    assert_eq!(summary["frames"], 4);
    for key in ["digest", "config_hash", "calib_hash"] {
        let hash = summary[key].as_str().unwrap();
        assert!(
            hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok(),
            "{key}: {hash}"
        );
    }
    let parts: Vec<_> = summary["digests"].as_object().unwrap().keys().collect();
    assert_eq!(parts, ["disparity", "stixels"]);
    let stages: Vec<_> = summary["stages"].as_object().unwrap().keys().collect();
    assert_eq!(stages, ["rectify", "stereo", "road", "stixel"]);
    for place in stages
        .iter()
        .map(|s| &summary["stages"][s])
        .chain([&summary["frame"]])
    {
        for key in ["p50_us", "p99_us", "p999_us", "max_us"] {
            assert!(place[key].as_f64().unwrap() > 0.0);
        }
    }
    for (key, value) in [
        ("backend", "cpu"),
        ("preset", "default"),
        ("version", env!("CARGO_PKG_VERSION")),
    ] {
        assert_eq!(summary[key], value);
    }
    assert!(
        summary["gaps"]
            .as_object()
            .unwrap()
            .values()
            .all(|n| n.as_u64().is_some())
    );
}

#[test]
fn results_are_the_same_bytes_on_every_run_and_thread_count() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = small_drive(tmp.path(), 1);
    let run = |name: &str, threads: &str| {
        let out = tmp.path().join(name);
        let summary = replay(&drive, &out, &["--threads", threads]);
        let stixels = fs::read(out.join("stixels.csv")).unwrap();
        (
            summary["digest"].clone(),
            summary["digests"].clone(),
            stixels,
        )
    };
    let one = run("one", "1");
    assert_eq!(one, run("again", "1"));
    assert_eq!(one, run("two", "2"));
    assert_eq!(one, run("five", "5"));
    let other = replay(&small_drive(tmp.path(), 2), &tmp.path().join("other"), &[]);
    assert_ne!(
        one.0, other["digest"],
        "another street gives another digest"
    );
}

/// The digests of one small street under both presets. They change when the model, its defaults,
/// the street or the encoding change: then on purpose, and with a line in the changelog; and
/// never between machines.
#[test]
fn the_same_bytes_on_every_machine() {
    const DIGESTS: [(&str, &str); 2] = [
        ("default", "80bdad8b2fd6dc26"),
        ("paper", "217ea97b6127d804"),
    ];
    let tmp = tempfile::tempdir().unwrap();
    let drive = small_drive(tmp.path(), 1);
    let digest = |preset: &str| {
        let summary = replay(&drive, &tmp.path().join(preset), &["--preset", preset]);
        summary["digest"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        DIGESTS.map(|(preset, _)| (preset, digest(preset))),
        DIGESTS.map(|(preset, expected)| (preset, expected.to_owned()))
    );
}

/// Digest and gaps, nothing else.
#[derive(Default)]
struct Digesting {
    digest: Digest,
    gaps: Vec<(usize, Gap)>,
}

impl Sink for Digesting {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        Ok(self.digest.frame(result)?)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.gaps.push((id.index, gap));
        Ok(())
    }
}

#[test]
fn both_paces_give_the_same_digest_when_nothing_is_late() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = Drive::open(&small_drive(tmp.path(), 1), &DriveOptions::default()).unwrap();
    let replay = Replay::new(&drive).unwrap();
    let run = |pace| {
        // Computing takes no time on this clock: only the pace moves it.
        let clock = MockClock::at(Timestamp(7));
        let mut sink = Digesting::default();
        replay
            .run(
                &Config::default(),
                pace,
                &clock,
                &mut sink,
                &AtomicBool::new(false),
            )
            .unwrap();
        assert_eq!(sink.gaps, []);
        sink.digest.digests()
    };
    assert_eq!(run(Pace::Max), run(Pace::Realtime));
}

#[test]
fn the_realtime_pace_of_the_program_drops_nothing_when_there_is_time() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = small_drive(tmp.path(), 1);
    let config = tmp.path().join("roadloop.toml");
    // Frames of 20,000 pixels, a second apart: even a busy machine is in time.
    fs::write(&config, "[frame_loop]\ndeadline_us = 60000000\n").unwrap();
    fs::write(drive.join("times.txt"), "0\n1\n2\n3\n4\n5\n6\n7\n").unwrap();
    let common = ["--frames", "0..3", "--strict", "--config", text(&config)];
    let run = |name: &str, pace: &str| {
        let extra: Vec<&str> = common.into_iter().chain(["--pace", pace]).collect();
        replay(&drive, &tmp.path().join(name), &extra)
    };
    let (max, realtime) = (run("max", "max"), run("realtime", "realtime"));
    assert_eq!(max["digest"], realtime["digest"]);
    assert_eq!(
        (&realtime["frames"], &realtime["gaps"]["dropped"]),
        (&3.into(), &0.into())
    );
    assert_eq!(realtime["interrupted"], false);
}

#[test]
fn masked_pixels_say_nothing_whatever_the_disparity_comes_from() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = small_drive(tmp.path(), 1);
    let config = tmp.path().join("roadloop.toml");
    fs::write(
        &config,
        "[input]\nmask = [[0, 80], [202, 80], [202, 96], [0, 96]]\n",
    )
    .unwrap();
    let (open, masked, stored) = (
        tmp.path().join("open"),
        tmp.path().join("masked"),
        tmp.path().join("stored"),
    );
    let save = ["--save", "disparity", "--frames", "0..1"];
    replay(&drive, &open, &save);
    let with_mask: Vec<&str> = save
        .into_iter()
        .chain(["--config", text(&config)])
        .collect();
    let computed = replay(&drive, &masked, &with_mask);
    let folder = open.join("disparity");
    let from_stored: Vec<&str> = with_mask
        .iter()
        .copied()
        .chain(["--disparity", text(&folder)])
        .collect();
    let unmasked = summary(&open);
    assert_ne!(computed["config_hash"], unmasked["config_hash"]);
    replay(&drive, &stored, &from_stored);
    let filled_below_row_80 = |out: &Path| {
        let picture = picture::read(&out.join("disparity/000000.png")).unwrap();
        let Picture::Grey16(picture) = picture else {
            panic!("16-bit grey")
        };
        picture
            .rows()
            .skip(80)
            .flatten()
            .filter(|d| **d != 0)
            .count()
    };
    assert!(filled_below_row_80(&open) > 1000);
    assert_eq!(filled_below_row_80(&masked), 0);
    assert_eq!(filled_below_row_80(&stored), 0);
}

#[test]
fn what_is_missing_or_damaged_in_mid_drive_is_a_counted_gap() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, out) = (small_drive(tmp.path(), 1), tmp.path().join("out"));
    fs::remove_file(drive.join("image_3/000002.png")).unwrap();
    let cut = drive.join("image_2/000004.png");
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let other = roadloop::frame::Rgb::new(50, 40);
    png::write_rgb(&drive.join("image_2/000005.png"), &other).unwrap();

    let whole = replay(&drive, &out, &[]);
    assert_eq!(whole["frames"], 5);
    for (gap, count) in [
        ("missing", 1),
        ("unreadable", 1),
        ("size_changed", 1),
        ("dropped", 0),
    ] {
        assert_eq!(whole["gaps"][gap], count, "{gap}");
    }
    assert_eq!(frames_in(&out.join("stixels.csv")), [0, 1, 3, 6, 7]);
    assert_eq!(frames_in(&out.join("timing.csv")), [0, 1, 2, 3, 4, 5, 6, 7]);

    let strict = tmp.path().join("strict");
    let output = roadloop(&["replay", text(&drive), "--out", text(&strict), "--strict"]);
    assert_eq!(output.status.code(), Some(65));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "missing 1",
        "unreadable 1",
        "size_changed 1",
        "000002",
        "000004",
        "000005",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert_eq!(
        summary(&strict)["digest"],
        whole["digest"],
        "results are written all the same"
    );
}

#[test]
fn an_out_folder_in_use_is_refused_and_left_alone() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, out) = (small_drive(tmp.path(), 1), tmp.path().join("out"));
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.txt"), "ten years").unwrap();
    let output = roadloop(&["replay", text(&drive), "--out", text(&out)]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--force"));
    assert_eq!(names(&out), ["thesis.txt"]);
    replay(
        &drive,
        &out,
        &["--force", "--frames", "..2", "--save", "none"],
    );
    assert_eq!(
        names(&out),
        ["stixels.csv", "summary.json", "thesis.txt", "timing.csv"]
    );
}

#[test]
fn a_stop_ends_in_good_order() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, out) = (tmp.path().join("drive"), tmp.path().join("out"));
    let options = Options {
        frames: 3,
        seed: 1,
        size: Size::new(203, 97),
        motion: Motion::Drive,
    };
    write_drive(&options, &drive, &mut |_, _| {}).unwrap();
    // Frames a minute apart: the loop is waiting for the second when it is told to stop.
    fs::write(drive.join("times.txt"), "0\n60\n120\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args([
            "replay",
            text(&drive),
            "--out",
            text(&out),
            "--pace",
            "realtime",
        ])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let patience = std::time::Instant::now();
    while !out.join("stixels.csv").exists() || frames_in(&out.join("stixels.csv")).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself");
        assert!(patience.elapsed().as_secs() < 60, "no first frame");
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(child.wait().unwrap().success());
    let summary = summary(&out);
    assert_eq!(
        (&summary["frames"], &summary["interrupted"]),
        (&1.into(), &true.into())
    );
}

#[test]
fn disparities_of_a_replay_can_be_replayed() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = small_drive(tmp.path(), 1);
    let (first, second) = (tmp.path().join("first"), tmp.path().join("second"));
    let computed = replay(&drive, &first, &["--save", "disparity"]);
    let stored = first.join("disparity");
    let extra = ["--disparity", text(&stored), "--save", "disparity"];
    let from_stored = replay(&drive, &second, &extra);
    assert_eq!(computed["frames"], from_stored["frames"]);
    let pictures = names(&stored);
    assert_eq!(
        (pictures.len(), &pictures),
        (FRAMES, &names(&second.join("disparity")))
    );
    for name in pictures {
        let [a, b] = [&stored, &second.join("disparity")].map(|d| fs::read(d.join(&name)).unwrap());
        assert!(a == b, "{name} changed");
    }
    let stages: Vec<_> = from_stored["stages"].as_object().unwrap().keys().collect();
    assert_eq!(stages, ["rectify", "road", "stixel"]);
}

/// Real drives: every frame gets a result.
#[test]
fn real_drives() {
    for (name, frames, extra) in [
        ("kitti_odom_06", 3, &["--frames", "0..3"][..]),
        ("kitti2015", 2, &["--frames", "0..2"]),
        ("kitti2015/training", 1, &["--frames", "7..8"]),
        ("euroc_micro", 2, &[]),
    ] {
        let Some(drive) = common::data(name) else {
            continue;
        };
        let tmp = tempfile::tempdir().unwrap();
        let out = tmp.path().join("out");
        let mut args = vec!["--strict", "--save", "overlay,disparity"];
        args.extend(extra);
        let summary = replay(&drive, &out, &args);
        assert_eq!(summary["frames"], frames, "{name}");
        assert_eq!(names(&out.join("overlay")).len(), frames, "{name}");
    }
}

#[test]
fn drives_without_a_calibration_take_a_camera_from_the_configuration() {
    let Some(drive) = common::data("sgm_reference") else {
        return;
    };
    let tmp = tempfile::tempdir().unwrap();
    let config = tmp.path().join("roadloop.toml");
    let output = roadloop(&[
        "replay",
        text(&drive),
        "--out",
        text(&tmp.path().join("none")),
    ]);
    assert!(matches!(output.status.code(), Some(65 | 66)), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("--calib") && said.contains("[camera]"),
        "{said}"
    );
    // Two pictures of two places, one looking down by 0.34: more than a vehicle's camera does,
    // and than the road stage believes by default.
    let camera = "[camera]\nfocal_px = 704.7\ncx = 640.0\ncy = 240.0\nbaseline_m = 0.2\n\
                  [road]\nmax_pitch_rad = 0.4\nmax_pitch_step_rad = 0.3\n";
    fs::write(&config, camera).unwrap();
    let summary = replay(
        &drive,
        &tmp.path().join("out"),
        &["--config", text(&config), "--strict"],
    );
    assert_eq!(summary["frames"], 2);
    assert_eq!(summary["gaps"]["road_held"], 0, "both roads are found");
}

#[test]
fn a_plain_pair_of_folders_with_a_calibration() {
    let Some(pictures) = common::data("opencv_stereo") else {
        return;
    };
    let tmp = tempfile::tempdir().unwrap();
    let drive = tmp.path().join("aloe");
    for (side, file) in [("left", "aloeL.jpg"), ("right", "aloeR.jpg")] {
        fs::create_dir_all(drive.join(side)).unwrap();
        fs::copy(pictures.join(file), drive.join(side).join("0.jpg")).unwrap();
    }
    let calib = tmp.path().join("calib.txt");
    let row = |tx: f64| format!("1000 0 640 {tx} 0 1000 555 0 0 0 1 0\n");
    fs::write(&calib, row(0.0) + &row(-160.0)).unwrap();
    let out = tmp.path().join("out");
    let config = tmp.path().join("roadloop.toml");
    fs::write(&config, "[stereo]\ndisparities = 256\n").unwrap();
    let extra = [
        "--calib",
        text(&calib),
        "--config",
        text(&config),
        "--strict",
    ];
    assert_eq!(replay(&drive, &out, &extra)["frames"], 1);
}

/// The reference's own stixels, through the whole program (the `paper` preset's limits stand in
/// `tests/stixel_reference.rs`).
#[test]
fn the_paper_preset_from_stored_disparities() {
    let Some(drive) = common::data("stixel_reference") else {
        return;
    };
    let tmp = tempfile::tempdir().unwrap();
    let config = tmp.path().join("roadloop.toml");
    fs::write(
        &config,
        "preset = \"paper\"\n\
         [camera]\nfocal_px = 704.7082\ncx = 512.0\ncy = 384.0\nbaseline_m = 0.8\n\
         [road]\nfixed = { slope = 0.230868, horizon_row = 303 }\n",
    )
    .unwrap();
    let out = tmp.path().join("out");
    let stored = drive.join("disparities");
    let extra = [
        "--config",
        text(&config),
        "--disparity",
        text(&stored),
        "--strict",
    ];
    let summary = replay(&drive, &out, &extra);
    assert_eq!(summary["preset"], "paper");
    let table = fs::read_to_string(out.join("stixels.csv")).unwrap();
    let stixels = table.lines().count() - 1;
    assert!((960..=975).contains(&stixels), "{stixels} stixels");
}
