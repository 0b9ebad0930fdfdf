//! `roadloop forest` and `roadloop evaluate labels`: statuses, files, and that all agree.
#[path = "common/columns.rs"]
mod columns;
#[path = "common/toy.rs"]
mod toy;

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

fn said(args: &[&str]) -> (i32, String, String) {
    let output = roadloop(args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[track_caller]
fn refused(args: &[&str], status: i32, part: &str) {
    let (code, _, text) = said(args);
    assert_eq!(code, status, "{text}");
    assert!(text.contains(part), "no {part:?} in: {text}");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

const SMALL: [&str; 12] = [
    "--trees",
    "2",
    "--samples",
    "100",
    "--features",
    "40",
    "--offset",
    "5",
    "--region",
    "3",
    "--min-pixels",
    "5",
];

#[test]
fn train_test_info_and_evaluate() {
    let tmp = toy::folder();
    let (data, model) = (tmp.path(), tmp.path().join("f.forest"));
    let mut train = vec!["forest", "train", path(data), "--out", path(&model)];
    train.extend(SMALL);
    let (code, _, text) = said(&train);
    assert_eq!(code, 0, "{text}");
    assert!(!tmp.path().join("f.forest.part").exists());
    let first = fs::read(&model).unwrap();
    refused(&train, 64, "exists; --force replaces it");
    let mut onto = vec![
        "forest",
        "train",
        path(data),
        "--out",
        path(data),
        "--force",
    ];
    onto.extend(SMALL);
    refused(&onto, 64, "not a file, which alone --force would replace");
    // The same again with another number of threads and hardly any memory.
    let more = ["--force", "--threads", "1", "--memory-limit", "0"];
    let (code, _, text) = said(&[&train[..], &more].concat());
    assert_eq!(code, 0, "{text}");
    assert!(fs::read(&model).unwrap() == first);

    let (code, text, _) = said(&["forest", "info", path(&model)]);
    assert_eq!(code, 0);
    for part in [
        "feature          region",
        "class 4",
        "tree 1",
        "seed             0",
    ] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    let (_, text, _) = said(&["forest", "info", path(&model), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["meta"]["recipe"]["trees"], 2);

    let out = tmp.path().join("out");
    let (code, text, log) = said(&[
        "forest",
        "test",
        path(&model),
        path(data),
        "--out",
        path(&out),
        "--json",
    ]);
    assert_eq!(code, 0, "{log}");
    let tested: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(tested["accuracy"].as_f64().unwrap() > 0.6, "{text}");
    // What was written is judged alike, calibration too.
    let (code, text, log) = said(&["evaluate", "labels", path(&out), path(data), "--json"]);
    assert_eq!(code, 0, "{log}");
    let judged: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in [
        "accuracy",
        "class_accuracy",
        "image_accuracy",
        "iou",
        "per_class",
        "confusion",
        "calibration_error",
    ] {
        assert_eq!(judged[key], tested[key], "{key}");
    }
    let (_, text, _) = said(&[
        "evaluate",
        "labels",
        path(&out),
        path(data),
        "--void",
        "red",
    ]);
    assert!(
        text.contains("per-class %") && !text.contains("red"),
        "{text}"
    );
    // A grid judges fewer pixels, and labels all.
    let (code, text, _) = said(&["forest", "test", path(&model), path(data), "--step", "3"]);
    assert!(
        code == 0 && text.contains("images                 5"),
        "{text}"
    );
    let prior = ["--prior", "--bias", "0.1", "--alpha", "1", "--trees", "1"];
    let (code, ..) = said(&[&["forest", "test", path(&model), path(data)], &prior[..]].concat());
    assert_eq!(code, 0);
}

#[test]
fn weights_follow_shares_of_pixels() {
    let tmp = toy::folder();
    let (data, model) = (tmp.path(), tmp.path().join("f.forest"));
    let of = |weight: &str| {
        let train = [
            "forest",
            "train",
            path(data),
            "--out",
            path(&model),
            "--force",
        ];
        assert_eq!(
            said(&[&train[..], &SMALL, &["--weight", weight]].concat()).0,
            0
        );
        roadloop::stage::forest::Forest::load(&model).unwrap()
    };
    let forest = of("balance^0.5");
    let pixels = &forest.meta.class_pixels;
    let mean = pixels.iter().sum::<u64>() as f64 / pixels.len() as f64;
    for (&w, &n) in forest.meta.recipe.class_weights.iter().zip(pixels) {
        assert_eq!(w, (256.0 * (mean / n as f64).sqrt()).round() as u32);
    }
    assert!(
        of("balance^0")
            .meta
            .recipe
            .class_weights
            .iter()
            .all(|&w| w == 256)
    );
    assert_eq!(
        of("balance").meta.recipe.class_weights,
        of("balance^1").meta.recipe.class_weights
    );
}

#[test]
fn a_gpu_trains_the_same_forest_or_is_said_to_be_missing() {
    let tmp = toy::folder();
    let train = |name: &str, backend: &str| {
        let model = tmp.path().join(name);
        let args = ["forest", "train", path(tmp.path()), "--out", path(&model)];
        let said = said(&[&args[..], &SMALL, &["--backend", backend]].concat());
        (said.0, said.2, fs::read(&model).ok())
    };
    let (code, _, expected) = train("cpu.forest", "cpu");
    assert!(code == 0 && expected.is_some());
    let (code, text, auto) = train("auto.forest", "auto");
    assert!(code == 0 && auto == expected, "{text}");
    match train("cuda.forest", "cuda") {
        (0, text, found) => assert!(found == expected, "{text}"),
        (code, text, found) => {
            assert_eq!((code, found), (69, None), "{text}");
            let why = match cfg!(feature = "cuda") {
                true => "CUDA_ERROR_NO_DEVICE",
                false => "this build has no CUDA backend (feature \"cuda\"); use --backend cpu",
            };
            assert!(
                text.contains("--backend cuda: ") && text.contains(why),
                "{text}"
            );
            assert!(!tmp.path().join("cuda.forest.part").exists());
        }
    }
}

#[test]
fn an_interrupted_training_is_resumed() {
    let tmp = toy::folder();
    let (data, model) = (tmp.path(), tmp.path().join("f.forest"));
    let part = tmp.path().join("f.forest.part");
    let mut train = vec!["forest", "train", path(data), "--out", path(&model)];
    train.extend(SMALL);
    assert_eq!(said(&train).0, 0);
    let whole = fs::read(&model).unwrap();
    // A checkpoint as it is left behind: the first tree only.
    let mut forest = roadloop::stage::forest::Forest::load(&model).unwrap();
    fs::remove_file(&model).unwrap();
    forest.trees.truncate(1);
    forest.meta.progress = Some(roadloop::stage::forest::Progress {
        trees: 1,
        levels: 0,
    });
    forest.save(&part).unwrap();
    refused(&train, 64, "--resume goes on with it");
    let resume = [&train[..], &["--resume"]].concat();
    refused(
        &[&resume[..], &["--seed", "3"]].concat(),
        65,
        "the recipe is",
    );
    assert_eq!(said(&resume).0, 0);
    assert!(fs::read(&model).unwrap() == whole && !part.exists());
}

#[test]
fn refusals_have_their_status() {
    let tmp = toy::folder();
    let (data, model) = (path(tmp.path()), tmp.path().join("f.forest"));
    let train = ["forest", "train", data, "--out", path(&model)];
    let with = |more: &[&'static str]| [&train[..], more].concat();
    refused(&with(&["--void", "grey"]), 64, "no class is called grey");
    refused(
        &with(&["--depth-levels", "40"]),
        64,
        "depth is 40, expected 1 to 31",
    );
    refused(&with(&["--weight", "red"]), 64, "expected NAME=W");
    for wrong in ["balance^", "balance^-1", "balance^2.5", "balance^x"] {
        let text = format!("--weight {wrong}, expected balance^P with P of 0 to 2");
        refused(&[&train[..], &["--weight", wrong]].concat(), 64, &text);
    }
    // A class may be called so.
    refused(
        &with(&["--weight", "balance=2"]),
        64,
        "no class is called balance",
    );
    refused(&with(&["--feature", "rgbd"]), 65, "no depth for it");
    refused(
        &["forest", "train", "/nothing", "--out", path(&model)],
        66,
        "/nothing",
    );
    refused(&["forest", "info", "/nothing"], 66, "/nothing");
    fs::write(&model, "RLFORESTxx").unwrap();
    refused(
        &["forest", "info", path(&model)],
        65,
        "10 bytes, expected 16",
    );
    fs::write(&model, "text").unwrap();
    refused(&["forest", "test", path(&model), data], 65, "not a forest");
}
