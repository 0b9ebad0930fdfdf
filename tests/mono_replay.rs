//! A drive with a mono camera through the program: what is written, what is equal, what is a gap.
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use roadloop::{
    config::Config,
    frame::{Image, Size, png},
    picture::{self, Picture},
    source::synth::{Motion, Options, write::write_drive},
};
use serde_json::Value;

const FRAMES: usize = 8;

fn synthetic(dir: &Path) -> PathBuf {
    let out = dir.join("stereo");
    let options = Options {
        frames: FRAMES,
        seed: 1,
        size: Size::new(203, 97),
        motion: Motion::Drive,
    };
    write_drive(&options, &out, &mut |_, _| {}).unwrap();
    out
}

/// The left pictures of a drive as a mono camera's.
fn copy_left(drive: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for n in 0..FRAMES {
        let name = format!("{n:06}.png");
        fs::copy(drive.join("image_2").join(&name), to.join(&name)).unwrap();
    }
}

fn mono_drive(dir: &Path) -> PathBuf {
    let (stereo, mono) = (synthetic(dir), dir.join("alone"));
    copy_left(&stereo, &mono.join("frames"));
    mono
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn roadloop(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(args)
        .output()
        .unwrap()
}

#[track_caller]
fn replay(drive: &Path, out: &Path, extra: &[&str]) -> Value {
    let mut args = vec!["replay", text(drive), "--out", text(out)];
    args.extend(extra);
    let output = roadloop(&args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap()
}

/// Exit status and the last line of the log, without its time.
fn refused(args: &[&str]) -> (i32, String) {
    let output = roadloop(args);
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim_end().lines().last().unwrap_or_default();
    let message = last
        .split_once("ERROR] ")
        .map_or(last, |(_, message)| message);
    (output.status.code().unwrap(), message.to_owned())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn sum(value: &Value) -> u64 {
    value
        .as_object()
        .unwrap()
        .values()
        .map(|n| n.as_u64().unwrap())
        .sum()
}

#[test]
fn the_files_of_a_mono_replay() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, out) = (mono_drive(tmp.path()), tmp.path().join("out"));
    let summary = replay(
        &drive,
        &out,
        &["--frames", "1..6", "--save", "foreground,overlay"],
    );
    assert_eq!(
        names(&out),
        [
            "foreground",
            "motion.csv",
            "overlay",
            "summary.json",
            "timing.csv"
        ]
    );
    let pictures = [
        "000001.png",
        "000002.png",
        "000003.png",
        "000004.png",
        "000005.png",
    ];
    for folder in ["foreground", "overlay"] {
        assert_eq!(names(&out.join(folder)), pictures);
    }
    assert_eq!(summary["frames"], 5);
    assert_eq!(keys(&summary["digests"]), ["foreground"]);
    assert_eq!(keys(&summary["stages"]), ["egomotion", "foreground"]);
    assert_eq!(
        keys(&summary["motion"]),
        ["unknown", "still", "small_motion", "driving"]
    );
    assert_eq!(
        keys(&summary["foreground"]),
        [
            "warming_up",
            "valid",
            "driving",
            "motion_unknown",
            "skipped"
        ]
    );
    assert_eq!(
        (sum(&summary["motion"]), sum(&summary["foreground"])),
        (5, 5)
    );
    let table = fs::read_to_string(out.join("motion.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "frame,timestamp_ns,state,tracked,inliers,foreground_state"
    );
    assert!(lines[1].starts_with("1,100000000,unknown,"), "{}", lines[1]);
    assert_eq!(lines.len(), 6);
    for name in pictures {
        let Picture::Grey8(mask) = picture::read(&out.join("foreground").join(name)).unwrap()
        else {
            panic!("8-bit grey")
        };
        assert_eq!(mask.size(), Size::new(203, 97));
        assert!(mask.pixels().all(|v| [0, 127, 255].contains(v)));
    }
    let overlay = picture::read(&out.join("overlay/000001.png")).unwrap();
    assert_eq!(
        overlay.size(),
        Size::new(203, 97 + roadloop::sink::overlay::FOOTER)
    );
    let report = tmp.path().join("report.html");
    let made = roadloop(&["report", text(&out), "--out", text(&report)]);
    assert!(made.status.success());
}

#[test]
fn a_stereo_drive_keeps_its_digests_with_the_foreground_on() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = synthetic(tmp.path());
    let plain = replay(&drive, &tmp.path().join("plain"), &["--save", "none"]);
    assert_eq!(keys(&plain["digests"]), ["disparity", "stixels"]);
    assert!(plain.get("motion").is_none() && plain.get("foreground").is_none());
    let run = |name: &str, threads: &str| {
        let out = tmp.path().join(name);
        let summary = replay(
            &drive,
            &out,
            &["--save", "foreground", "--threads", threads],
        );
        let motion = fs::read(out.join("motion.csv")).unwrap();
        (
            summary["digest"].clone(),
            summary["digests"].clone(),
            motion,
        )
    };
    let one = run("one", "1");
    assert_eq!(one, run("two", "2"));
    assert_eq!(keys(&one.1), ["disparity", "stixels", "foreground"]);
    for part in ["disparity", "stixels"] {
        assert_eq!(one.1[part], plain["digests"][part]);
    }
    // The same by the configuration, and with an equal mono camera beside the stereo camera.
    let config = tmp.path().join("roadloop.toml");
    fs::write(&config, "[foreground]\nenabled = true\n").unwrap();
    let configured = replay(
        &drive,
        &tmp.path().join("configured"),
        &["--config", text(&config)],
    );
    assert_eq!(configured["digests"], one.1);
    copy_left(&drive, &drive.join("mono"));
    let camera = replay(
        &drive,
        &tmp.path().join("camera"),
        &["--config", text(&config)],
    );
    assert_eq!(camera["digests"], one.1);
    let overlay = picture::read(&tmp.path().join("camera/overlay/000000.png")).unwrap();
    assert_eq!(
        overlay.size(),
        Size::new(203, 2 * 97 + roadloop::sink::overlay::FOOTER)
    );
}

#[test]
fn frames_without_a_mono_picture_are_counted_and_skipped() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = synthetic(tmp.path());
    copy_left(&drive, &drive.join("mono"));
    fs::remove_file(drive.join("mono/000003.png")).unwrap();
    fs::write(drive.join("mono/000005.png"), "no picture").unwrap();
    let out = tmp.path().join("out");
    let summary = replay(&drive, &out, &["--save", "foreground"]);
    assert_eq!(summary["frames"], 8);
    assert_eq!(summary["gaps"]["unsynchronised"], 1);
    assert_eq!(summary["gaps"]["unreadable"], 1);
    assert_eq!(summary["foreground"]["skipped"], 2);
    for stage in ["egomotion", "foreground"] {
        assert_eq!(summary["stages"][stage]["skipped"], 2, "{stage}");
        assert_eq!(summary["stages"][stage]["count"], 6, "{stage}");
    }
    assert_eq!(summary["gaps"]["skipped"], 0, "time was not what lacked");
    let table = fs::read_to_string(out.join("motion.csv")).unwrap();
    let of = |frame: usize| table.lines().nth(frame + 1).unwrap();
    assert!(of(3).ends_with(",unknown,0,0,skipped"), "{}", of(3));
    assert!(of(5).ends_with(",unknown,0,0,skipped"), "{}", of(5));
    assert_eq!(names(&out.join("foreground")).len(), 8);
    let timing = fs::read_to_string(out.join("timing.csv")).unwrap();
    let skipped = timing.lines().filter(|l| l.ends_with(",skipped"));
    let frames: Vec<&str> = skipped.map(|l| l.split(',').next().unwrap()).collect();
    assert_eq!(frames, ["3", "3", "5", "5"]);
    let strict = refused(&[
        "replay",
        text(&drive),
        "--out",
        text(&tmp.path().join("s")),
        "--save",
        "foreground",
        "--strict",
    ]);
    assert_eq!(
        strict,
        (65, "--strict: unsynchronised 1, unreadable 1".into())
    );
}

/// A sign of many patches on a dull wall that slides past, two pixels a frame.
fn sign_drive(dir: &Path) -> (PathBuf, PathBuf) {
    let noise = |x: usize, y: usize| {
        let mut h = (x as u64 + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((y as u64 + 3) << 32);
        h = (h ^ (h >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (h >> 56) as u8
    };
    let sign = Image::from_fn(120, 72, |x, y| noise(x / 8, y / 8));
    let (pictures, drive) = (dir.join("logos"), dir.join("drive"));
    fs::create_dir_all(&pictures).unwrap();
    fs::create_dir_all(drive.join("input")).unwrap();
    png::write_grey(&pictures.join("sign.png"), &sign).unwrap();
    for n in 0..6 {
        let frame = Image::from_fn(320, 200, |x, y| {
            let (left, top) = (60 + 2 * n, 50);
            match (x.checked_sub(left), y.checked_sub(top)) {
                (Some(u), Some(v)) if u < 120 && v < 72 => sign.get(u, v),
                _ => 120 + noise(x, y) / 64,
            }
        });
        png::write_grey(&drive.join(format!("input/in{:06}.png", n + 1)), &frame).unwrap();
    }
    (pictures, drive)
}

#[test]
fn logos_from_pictures_to_a_table() {
    let tmp = tempfile::tempdir().unwrap();
    let (pictures, drive) = sign_drive(tmp.path());
    let (templates, config) = (
        tmp.path().join("logos.bin"),
        tmp.path().join("roadloop.toml"),
    );
    let built = roadloop(&["logos", "build", text(&pictures), "--out", text(&templates)]);
    assert!(built.status.success(), "{built:?}");
    let said = String::from_utf8(built.stdout).unwrap();
    assert!(said.starts_with("logo sign: 120x72 px, "), "{said}");
    // Relative to the configuration.
    fs::write(&config, "[logo]\ntemplates = \"logos.bin\"\n").unwrap();
    let run = |name: &str, threads: &str| {
        let out = tmp.path().join(name);
        let args = [
            "--config",
            text(&config),
            "--save",
            "logos,overlay",
            "--threads",
            threads,
        ];
        let summary = replay(&drive, &out, &args);
        let table = fs::read_to_string(out.join("logos.csv")).unwrap();
        (
            summary["digests"].clone(),
            summary["config_hash"].clone(),
            table,
        )
    };
    let (digests, hash, table) = run("one", "1");
    assert_eq!(
        (digests.clone(), hash.clone(), table.clone()),
        run("two", "2")
    );
    assert_eq!(keys(&digests), ["foreground", "logos"]);
    let mut lines = table.lines();
    assert_eq!(
        lines.next(),
        Some("frame,id,name,state,x0,y0,x1,y1,x2,y2,x3,y3,confidence")
    );
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split(',').collect()).collect();
    assert!(rows.len() >= 4, "{table}");
    for row in &rows {
        let frame: f32 = row[0].parse().unwrap();
        let corners: Vec<f32> = row[4..12].iter().map(|v| v.parse().unwrap()).collect();
        assert_eq!((row[1], row[2]), ("1", "sign"));
        let left = 60.0 + 2.0 * (frame - 1.0);
        for (found, expected) in corners.iter().zip([
            left,
            50.0,
            left + 120.0,
            50.0,
            left + 120.0,
            122.0,
            left,
            122.0,
        ]) {
            assert!((found - expected).abs() < 3.0, "{row:?}");
        }
    }
    assert_eq!(rows.last().unwrap()[3], "tracked");
    // Other templates are another configuration, wherever they lie.
    fs::rename(&templates, tmp.path().join("moved.bin")).unwrap();
    fs::write(&config, "[logo]\ntemplates = \"moved.bin\"\n").unwrap();
    assert_eq!(run("moved", "2").1, hash);
    let other = Image::from_fn(
        96,
        64,
        |x, y| if (x / 9 + y / 7) % 3 == 0 { 20 } else { 230 },
    );
    png::write_grey(&pictures.join("sign.png"), &other).unwrap();
    roadloop(&[
        "logos",
        "build",
        text(&pictures),
        "--out",
        text(&tmp.path().join("moved.bin")),
    ]);
    assert_ne!(run("other", "2").1, hash);
}

#[test]
fn refusals() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = mono_drive(tmp.path());
    let out = tmp.path().join("out");
    let config = tmp.path().join("roadloop.toml");
    let run = |extra: &[&str]| {
        let args = [&["replay", text(&drive), "--out", text(&out)][..], extra].concat();
        let (status, said) = refused(&args);
        (status, said.replace(text(tmp.path()), "DIR"))
    };
    assert_eq!(
        run(&["--save", "logos"]),
        (
            78,
            "logo.templates is not set, expected the file that roadloop logos build wrote: --save \
             logos needs it"
                .into()
        )
    );
    assert_eq!(
        run(&["--save", "disparity"]),
        (
            64,
            "--save disparity: DIR/alone has no stereo pictures".into()
        )
    );
    let configured = |text_: &str| {
        fs::write(&config, text_).unwrap();
        run(&["--config", text(&config)])
    };
    assert_eq!(
        configured("[foreground]\nenabled = false\n"),
        (
            78,
            "foreground.enabled is false and logo.templates is not set: there is nothing to \
             compute of a mono drive"
                .into()
        )
    );
    assert_eq!(
        configured("[mono]\ntolerance_us = 10000001\n"),
        (
            78,
            "DIR/roadloop.toml: mono.tolerance_us: 10000001, expected 0 to 10000000".into()
        )
    );
    assert_eq!(
        configured("[mono]\nscale_down = 9\n"),
        (
            78,
            "DIR/roadloop.toml: mono.scale_down: 9, expected 1 to 8".into()
        )
    );
    assert_eq!(
        configured("[foreground]\nmodes = 6\n"),
        (
            78,
            "DIR/roadloop.toml: foreground.modes is 6, expected 1 to 5".into()
        )
    );
    assert_eq!(configured("[logo]\ntemplates = \"none.bin\"\n").0, 66);
    fs::write(tmp.path().join("bad.bin"), "bad").unwrap();
    let (status, said) = configured("[logo]\ntemplates = \"bad.bin\"\n");
    assert_eq!(status, 65);
    assert!(said.starts_with("logo.templates: DIR/bad.bin: "), "{said}");
    for section in ["mono", "egomotion", "foreground", "logo"] {
        let (status, said) = configured(&format!("[{section}]\nnonsense = 1\n"));
        assert_eq!(status, 78);
        fs::write(&config, format!("[{section}]\nnonsense = 1\n")).unwrap();
        let all = roadloop(&["check", "config", text(&config)]);
        let all = String::from_utf8_lossy(&all.stderr).into_owned();
        assert!(
            all.contains("unknown field `nonsense`") && all.contains("line 2"),
            "{said} {all}"
        );
    }
    assert!(!out.exists(), "nothing was written");
}

#[test]
fn check_config_prints_every_section() {
    let tmp = tempfile::tempdir().unwrap();
    let config = tmp.path().join("roadloop.toml");
    for stated in [
        "",
        "[foreground]\nhistory_frames = 7\n",
        "[mono]\ncrop = { x = 1, y = 2, width = 3, height = 4 }\n",
    ] {
        fs::write(&config, stated).unwrap();
        let output = roadloop(&["check", "config", text(&config)]);
        let printed = String::from_utf8(output.stdout).unwrap();
        for section in ["stereo", "mono", "egomotion", "foreground", "logo"] {
            assert_eq!(
                printed.matches(&format!("\n[{section}]\n")).count(),
                1,
                "{printed}"
            );
        }
        let again = Config::parse(&printed, None, "again").unwrap();
        assert_eq!(again, Config::load(&config, None).unwrap());
    }
    let default = Config::default();
    let mut stated = default.clone();
    stated.foreground.history_frames = 7;
    assert_ne!(stated.hash(), default.hash());
}

#[test]
fn the_background_outlives_the_replay() {
    let tmp = tempfile::tempdir().unwrap();
    // A dull wall that stands still, with noise.
    let drive = tmp.path().join("drive");
    fs::create_dir_all(drive.join("frames")).unwrap();
    for n in 0..16usize {
        let frame = Image::from_fn(96, 64, |x, y| {
            let texture = if (x / 8 + y / 8) % 2 == 0 { 60 } else { 150 };
            texture + ((x * 31 + y * 17 + n * 7) % 5) as u8
        });
        png::write_grey(&drive.join(format!("frames/{n:06}.png")), &frame).unwrap();
    }
    let config = tmp.path().join("roadloop.toml");
    fs::write(&config, "[foreground]\nsnapshot = \"background.bin\"\n").unwrap();
    let file = tmp.path().join("background.bin");
    let run = |name: &str| {
        let out = tmp.path().join(name);
        let args = [
            "replay",
            text(&drive),
            "--out",
            text(&out),
            "--config",
            text(&config),
        ];
        let output = roadloop(&[&args[..], &["--save", "foreground"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let summary = fs::read_to_string(out.join("summary.json")).unwrap();
        (serde_json::from_str::<Value>(&summary).unwrap(), said)
    };
    let (first, said) = run("first");
    assert!(!said.contains("WARN"), "{said}");
    let learnt = fs::read(&file).unwrap();
    assert!(!learnt.is_empty());
    let (second, said) = run("second");
    assert!(!said.contains("WARN"), "{said}");
    let warming = |summary: &Value| summary["foreground"]["warming_up"].as_u64().unwrap();
    assert!(
        warming(&second) < warming(&first),
        "it wakes with its background"
    );
    assert_ne!(
        first["config_hash"], second["config_hash"],
        "it decides of results"
    );
    let mut damaged = learnt.clone();
    damaged[learnt.len() / 2] ^= 1;
    fs::write(&file, &damaged).unwrap();
    let (fresh, said) = run("damaged");
    assert!(
        said.contains(&format!("WARN ] foreground.snapshot: {}: ", file.display()))
            && said.contains("the background is learnt afresh"),
        "{said}"
    );
    assert_eq!(fresh["digests"], first["digests"], "as if there were none");
    assert_ne!(
        fs::read(&file).unwrap(),
        damaged,
        "and a whole one takes its place"
    );
    assert!(
        names(tmp.path())
            .iter()
            .all(|name| !name.ends_with(".part"))
    );
}

/// What a drive brings and nothing can be made of is told, and no error.
#[test]
fn what_fits_nothing_is_told() {
    let tmp = tempfile::tempdir().unwrap();
    let drive = tmp.path().join("drive");
    fs::create_dir_all(drive.join("frames")).unwrap();
    let frame = Image::from_vec(48, 32, vec![90; 48 * 32]).unwrap();
    for name in ["a1", "a2", "b2"] {
        png::write_grey(&drive.join(format!("frames/{name}.png")), &frame).unwrap();
    }
    let speeds = "timestamp_ns,speed_mps\n900000000000,3\n";
    fs::write(drive.join("speed.csv"), speeds).unwrap();
    let out = tmp.path().join("out");
    let save = ["--save", "foreground"];
    let args = ["replay", text(&drive), "--out", text(&out)];
    let output = roadloop(&[&args[..], &save].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("b2.png have the same number: frames are counted by their place, from 0"),
        "{said}"
    );
    assert!(
        said.contains("speed.csv: no line lies within 200 ms of a frame"),
        "{said}"
    );
}
