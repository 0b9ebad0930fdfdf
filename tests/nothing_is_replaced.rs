//! Is a file that is no result of roadloop's safe from its commands?
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

#[path = "common/folders.rs"]
mod folders;
use folders::grey;

fn roadloop(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .current_dir(dir)
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs, and gives what was said on stderr; `file` has to keep its bytes.
fn refused(dir: &Path, arguments: &[&str], status: i32, file: &str) -> String {
    let before = fs::read(dir.join(file)).unwrap();
    let output = roadloop(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(fs::read(dir.join(file)).unwrap(), before, "{file} changed");
    said
}

#[test]
fn templates_replace_templates_alone() {
    let tmp = tempfile::tempdir().unwrap();
    fs::create_dir(tmp.path().join("logos")).unwrap();
    grey(&tmp.path().join("logos/a.png"), 9);
    fs::write(tmp.path().join("notes.txt"), "precious").unwrap();
    let build = ["logos", "build", "logos", "--out"];
    let to = |out: &'static str| [&build[..], &[out]].concat();
    let said = refused(tmp.path(), &to("notes.txt"), 64, "notes.txt");
    assert!(
        said.contains("--out notes.txt: it is there and holds no templates"),
        "{said}"
    );
    refused(tmp.path(), &to("logos/a.png"), 64, "logos/a.png");
}

#[test]
fn a_background_replaces_a_background_alone() {
    let tmp = tempfile::tempdir().unwrap();
    fs::create_dir(tmp.path().join("mono")).unwrap();
    for i in 0..3 {
        grey(&tmp.path().join(format!("mono/{i:06}.png")), 90);
    }
    let settings = "[foreground]\nsnapshot = \"s.toml\"\n";
    fs::write(tmp.path().join("s.toml"), settings).unwrap();
    let replay = ["replay", "mono", "--out", "out", "--config", "s.toml"];
    let said = refused(tmp.path(), &replay, 78, "s.toml");
    assert!(
        said.contains("foreground.snapshot: s.toml: it holds something else"),
        "{said}"
    );

    let settings = "[foreground]\nsnapshot = \"no/such.bin\"\n";
    fs::write(tmp.path().join("s.toml"), settings).unwrap();
    let said = refused(tmp.path(), &replay, 78, "s.toml");
    assert!(said.contains("no/such.bin: no is no folder"), "{said}");
    assert!(!tmp.path().join("out").exists());
}

#[test]
fn predictions_do_not_replace_truth() {
    let tmp = tempfile::tempdir().unwrap();
    for folder in ["set", "set/images", "set/labels"] {
        fs::create_dir(tmp.path().join(folder)).unwrap();
    }
    grey(&tmp.path().join("set/images/1.png"), 50);
    grey(&tmp.path().join("set/labels/1.png"), 1);
    fs::write(tmp.path().join("f.forest"), "no forest").unwrap();
    let test = [
        "forest", "test", "f.forest", "set", "--out", "set", "--force",
    ];
    refused(tmp.path(), &test, 64, "set/labels/1.png");
    let train = [
        "forest",
        "train",
        "set",
        "--out",
        "set/images/1.png",
        "--force",
    ];
    refused(tmp.path(), &train, 64, "set/images/1.png");
    let train = ["forest", "train", "set", "--out", "no/f.forest"];
    let said = refused(tmp.path(), &train, 64, "f.forest");
    assert!(
        said.contains("--out no/f.forest: no is no folder"),
        "{said}"
    );
}

#[test]
fn pages_replace_pages_alone() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path();
    fs::create_dir(dir.join("mono")).unwrap();
    for i in 0..3 {
        grey(&dir.join(format!("mono/{i:06}.png")), 90);
    }
    let replayed = roadloop(dir, &["replay", "mono", "--out", "out"]);
    assert!(replayed.status.success());
    fs::write(dir.join("notes.txt"), "precious").unwrap();
    let said = refused(
        dir,
        &["report", "out", "--out", "notes.txt"],
        64,
        "notes.txt",
    );
    let expected = "notes.txt: it is there and is no page of roadloop's, which alone is replaced";
    assert!(said.contains(&format!("--out {expected}")), "{said}");
    let bench = [
        "bench",
        "latency",
        "--report",
        "notes.txt",
        "--backend",
        "cpu",
    ];
    let said = refused(dir, &bench, 64, "notes.txt");
    assert!(said.contains(&format!("--report {expected}")), "{said}");
    // Its own are.
    for _ in 0..2 {
        let written = roadloop(dir, &["report", "out", "--out", "page.html"]);
        assert!(written.status.success());
    }
}

#[test]
fn a_recording_does_not_go_into_its_results() {
    let tmp = tempfile::tempdir().unwrap();
    fs::create_dir(tmp.path().join("mono")).unwrap();
    for i in 0..3 {
        grey(&tmp.path().join(format!("mono/{i:06}.png")), 90);
    }
    for (record, out) in [("x/rec", "x"), ("x", "x"), ("x", "x/out")] {
        let output = roadloop(
            tmp.path(),
            &["replay", "mono", "--out", out, "--record", record],
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        let expected =
            format!("--record {record}: lies in --out {out}, or that in it; expected a folder");
        assert!(said.contains(&expected), "{said}");
        assert!(!tmp.path().join("x").exists());
    }
}
