//! Does `scripts/predict_orin.py` know every kernel, and predict what its rules say? Needs python3;
//! skipped, said aloud, without it.
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn predict(args: &[PathBuf]) -> Option<Output> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("ROADLOOP_PYTHON").unwrap_or("python3".into());
    let output = Command::new(python)
        .arg(root.join("scripts/predict_orin.py"))
        .args(args)
        .output();
    if output.is_err() {
        eprintln!("SKIPPED: no python3");
    }
    output.ok()
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/orin")
        .join(name)
}

#[track_caller]
fn refused(args: &[PathBuf], says: &[&str]) {
    let Some(output) = predict(args) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(65), "{said}");
    for part in says {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn its_own_checks_pass() {
    let Some(output) = predict(&["--check".into()]) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn an_unknown_kernel_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(sample("kernels.csv")).unwrap();
    let kernels = folder.path().join("kernels.csv");
    std::fs::write(&kernels, text.replace("logo_blur", "wonder_blur")).unwrap();
    refused(
        &[kernels, sample("sms16.json")],
        &["kernel wonder_blur: unknown", "rectify, stereo, road"],
    );
}

#[test]
fn a_missing_metric_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(sample("kernels.csv")).unwrap();
    let kernels = folder.path().join("kernels.csv");
    std::fs::write(
        &kernels,
        text.replace("lts__t_bytes.sum", "lts__t_sectors.sum"),
    )
    .unwrap();
    refused(
        &[kernels, sample("sms16.json")],
        &["no column lts__t_bytes.sum"],
    );
}

#[test]
fn stages_that_were_skipped_are_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(sample("sms16.json")).unwrap();
    let times = folder.path().join("sms16.json");
    std::fs::write(
        &times,
        text.replacen("\"skipped\": 0", "\"skipped\": 40", 1),
    )
    .unwrap();
    refused(
        &[sample("kernels.csv"), times],
        &["stereo: 400 runs, 40 skipped"],
    );
}
