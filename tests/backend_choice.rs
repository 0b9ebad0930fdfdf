//! Which backend is used, what is said where it is not there, and what `[cuda]` may say.
use std::{fs, path::Path, process::Command};

use roadloop::{
    config::{Config, CudaConfig, GpuWait},
    frame::Size,
    source::synth::{Motion, Options, write::write_drive},
};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, None, "roadloop.toml").map_err(|e| e.to_string())
}

#[test]
fn every_build_reads_the_section_cuda() {
    let text = "[cuda]\ndevice = 1\nwait = \"block\"\ndevice_memory_mib = 300\npinned_memory_mib = 20\nmono = true\nlabels = true";
    let config = parse(text).unwrap();
    let expected = CudaConfig {
        device: 1,
        wait: GpuWait::Block,
        device_memory_mib: 300,
        pinned_memory_mib: 20,
        mono: true,
        labels: true,
    };
    assert_eq!(config.cuda, expected);
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    // Where it is computed changes no result.
    assert_eq!(config.hash(), Config::default().hash());
}

#[test]
fn every_build_refuses_what_it_does_not_know() {
    for (text, parts) in [
        ("[cuda]\nordinal = 1", ["ordinal", "line 2"]),
        ("[cuda]\nwait = \"sleep\"", ["sleep", "block"]),
        ("[cuda]\ndevice = -1", ["device", "-1"]),
        (
            "[cuda]\ndevice_memory_mib = 0",
            ["roadloop.toml", "cuda.device_memory_mib is 0"],
        ),
        (
            "[cuda]\npinned_memory_mib = 0",
            ["roadloop.toml", "cuda.pinned_memory_mib is 0"],
        ),
    ] {
        let said = parse(text).unwrap_err();
        for part in parts {
            assert!(said.contains(part), "no {part:?} in {said:?}");
        }
    }
}

fn has_gpu() -> bool {
    #[cfg(feature = "cuda")]
    return roadloop::cuda::DeviceInfo::all().is_ok_and(|all| !all.is_empty());
    #[cfg(not(feature = "cuda"))]
    false
}

fn replay(drive: &Path, out: &Path, backend: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(["replay", "--save", "none", "--backend", backend, "--out"])
        .args([out, drive])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn auto_takes_the_cpu_where_there_is_no_gpu_and_cuda_says_why_not() {
    let tmp = tempfile::tempdir().unwrap();
    let (drive, out) = (tmp.path().join("drive"), tmp.path().join("out"));
    let options = Options {
        frames: 2,
        seed: 1,
        size: Size::new(103, 57),
        motion: Motion::Drive,
    };
    write_drive(&options, &drive, &mut |_, _| {}).unwrap();
    let (status, said) = replay(&drive, &out, "auto");
    assert_eq!(status, Some(0), "{said}");
    let summary = fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let expected = if has_gpu() { "cuda" } else { "cpu" };
    assert_eq!(summary["backend"], expected);
    assert!(said.contains("computing on"), "{said}");
    if has_gpu() {
        eprintln!("SKIPPED: there is a GPU");
        return;
    }
    let refused = tmp.path().join("refused");
    let (status, said) = replay(&drive, &refused, "cuda");
    assert_eq!(status, Some(69), "{said}");
    assert!(
        said.contains("--backend cuda") && said.contains("CUDA"),
        "{said}"
    );
    assert!(!refused.exists(), "nothing is begun");
}
