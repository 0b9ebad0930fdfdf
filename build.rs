//! Feature "cuda" only: compiles `kernels/*.cu` with nvcc, one fatbin per kernel file and
//! toolkit, and writes the table that `src/cuda/images.rs` embeds. Without the feature nothing
//! happens here.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `ROADLOOP_NVCC` | nvcc, or several of different toolkits, separated by `:` | the first of `PATH`, `$CUDA_HOME/bin`, `/usr/local/cuda/bin`; else all of `.cuda/*/bin` |
//! | `ROADLOOP_CUDA_ARCHS` | compute capabilities, such as `87,90` | 11.x: 72, 87; 12.x: 72, 87, 90; 13.x: 87, 90, 110 |
//! | `ROADLOOP_CUDA_LINEINFO` | 1: line numbers for profilers and sanitizers | 0 |
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fmt::Write as _, fs, thread};

const NO_NVCC: &str = "no nvcc found, and the feature \"cuda\" needs one.
  On a Jetson or with an installed toolkit: put its bin folder (often /usr/local/cuda/bin) on PATH, or set CUDA_HOME.
  On an x86-64 machine without one: `make cuda-setup` fetches compilers into .cuda (no root, no GPU needed).
  Elsewhere: set ROADLOOP_NVCC to the path of an nvcc, 11.4 or newer.";

/// One CUDA toolkit.
struct Toolkit {
    nvcc: PathBuf,
    version: (u32, u32),
    archs: Vec<u32>,
    /// The arch whose PTX is embedded besides; only the oldest toolkit's drivers all can read.
    ptx: Option<u32>,
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    if let Err(message) = build() {
        eprintln!("roadloop: {message}");
        std::process::exit(1);
    }
}

/// nvcc's own: more flags, -D for experiments.
const NVCC_FLAGS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

fn build() -> Result<(), String> {
    for name in [
        "ROADLOOP_NVCC",
        "ROADLOOP_CUDA_ARCHS",
        "ROADLOOP_CUDA_LINEINFO",
        "CUDA_HOME",
    ]
    .iter()
    .chain(&NVCC_FLAGS)
    {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=kernels");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let sources = files_in(&root.join("kernels"), "cu")?;
    let headers = files_in(&root.join("kernels"), "cuh")?;
    let toolkits = toolkits(&root)?;

    let mut jobs = Vec::new();
    for toolkit in &toolkits {
        let folder = out.join(format!("cuda-{}.{}", toolkit.version.0, toolkit.version.1));
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for source in &sources {
            jobs.push((
                toolkit,
                source.as_path(),
                folder.join(stem(source)).with_extension("fatbin"),
            ));
        }
    }
    let queue = Mutex::new(jobs.iter());
    let failures = Mutex::new(Vec::new());
    let workers = env::var("NUM_JOBS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1usize);
    thread::scope(|scope| {
        for _ in 0..workers.min(jobs.len()) {
            scope.spawn(|| {
                while let Some((toolkit, source, fatbin)) = { queue.lock().unwrap().next() } {
                    if let Err(e) = compile(&root, toolkit, source, &headers, fatbin) {
                        failures.lock().unwrap().push(e);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    if !failures.is_empty() {
        return Err(failures.join("\n"));
    }

    let mut table = String::from("pub(super) static TOOLKITS: &[Toolkit] = &[\n");
    for toolkit in &toolkits {
        let Toolkit {
            version,
            archs,
            ptx,
            ..
        } = toolkit;
        let _ = writeln!(
            table,
            "Toolkit {{ version: {version:?}, archs: &{archs:?}, ptx: {ptx:?}, images: &["
        );
        for (_, source, fatbin) in jobs.iter().filter(|j| std::ptr::eq(j.0, toolkit)) {
            let _ = writeln!(
                table,
                "({:?}, &Aligned(*include_bytes!({fatbin:?}))),",
                stem(source)
            );
        }
        table.push_str("] },\n");
    }
    table.push_str("];\n");
    let file = out.join("images.rs");
    fs::write(&file, table).map_err(|e| format!("{}: {e}", file.display()))
}

/// Compiles one kernel file, unless it was compiled from the same bytes before.
fn compile(
    root: &Path,
    toolkit: &Toolkit,
    source: &Path,
    headers: &[PathBuf],
    fatbin: &Path,
) -> Result<(), String> {
    let flags = root.join("kernels/nvcc.flags");
    let mut command = Command::new(&toolkit.nvcc);
    command
        .arg("-fatbin")
        // A quarter of the size; every program of a bundle carries all images.
        .args(["-Xfatbin", "-compress-all"])
        .arg("--options-file")
        .arg(&flags)
        .arg("-I")
        .arg(root.join("kernels"));
    for arch in &toolkit.archs {
        command
            .arg("-gencode")
            .arg(format!("arch=compute_{arch},code=sm_{arch}"));
    }
    if let Some(ptx) = toolkit.ptx {
        command
            .arg("-gencode")
            .arg(format!("arch=compute_{ptx},code=compute_{ptx}"));
    }
    if env::var("ROADLOOP_CUDA_LINEINFO").is_ok_and(|v| v == "1") {
        command.arg("-lineinfo");
    }
    command.arg(source).arg("-o").arg(fatbin);

    let mut hasher = DefaultHasher::new();
    format!("{command:?} {:?}", toolkit.version).hash(&mut hasher);
    for name in NVCC_FLAGS {
        env::var_os(name).hash(&mut hasher);
    }
    for file in headers.iter().map(PathBuf::as_path).chain([source, &flags]) {
        fs::read(file)
            .map_err(|e| format!("{}: {e}", file.display()))?
            .hash(&mut hasher);
    }
    let (stamp, made) = (
        fatbin.with_extension("stamp"),
        format!("{:016x}", hasher.finish()),
    );
    if fatbin.exists() && fs::read_to_string(&stamp).is_ok_and(|s| s == made) {
        return Ok(());
    }
    let _ = fs::remove_file(&stamp);
    let output = command
        .output()
        .map_err(|e| format!("{}: {e}", toolkit.nvcc.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} does not compile ({command:?}):\n{}{}",
            source.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    fs::write(&stamp, made).map_err(|e| format!("{}: {e}", stamp.display()))
}

/// The toolkits to compile with, the newest first.
fn toolkits(root: &Path) -> Result<Vec<Toolkit>, String> {
    let wanted = wanted_archs()?;
    let mut toolkits = Vec::new();
    for nvcc in compilers(root)? {
        println!("cargo:rerun-if-changed={}", nvcc.display());
        let version = version(&nvcc)?;
        let known = known_archs(&nvcc)?;
        let defaults: &[u32] = match version.0 {
            ..=11 => &[72, 87],
            12 => &[72, 87, 90],
            _ => &[87, 90, 110],
        };
        let mut archs = wanted.clone().unwrap_or_else(|| defaults.to_vec());
        archs.retain(|a| known.contains(a));
        if !archs.is_empty() {
            toolkits.push(Toolkit {
                nvcc,
                version,
                archs,
                ptx: None,
            });
        }
    }
    toolkits.sort_by_key(|t| std::cmp::Reverse(t.version));
    toolkits.dedup_by_key(|t| t.version);
    for arch in wanted.iter().flatten() {
        if !toolkits.iter().any(|t| t.archs.contains(arch)) {
            return Err(format!(
                "ROADLOOP_CUDA_ARCHS: no nvcc here compiles for {arch}; see `nvcc --list-gpu-arch`"
            ));
        }
    }
    // PTX is for GPUs without a cubin here. A driver reads no PTX newer than itself, so the oldest.
    match toolkits.last_mut() {
        Some(oldest) => oldest.ptx = oldest.archs.iter().min().copied(),
        None => {
            return Err("none of the compilers knows any of the default GPU architectures".into());
        }
    }
    Ok(toolkits)
}

fn compilers(root: &Path) -> Result<Vec<PathBuf>, String> {
    if let Some(list) = env::var_os("ROADLOOP_NVCC").filter(|l| !l.is_empty()) {
        let list: Vec<PathBuf> = env::split_paths(&list)
            .filter(|p| !p.as_os_str().is_empty())
            .collect();
        return match list.iter().find(|p| !p.is_file()) {
            Some(missing) => Err(format!(
                "ROADLOOP_NVCC: {} is no file; expected the path of an nvcc",
                missing.display()
            )),
            None => Ok(list),
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = env::split_paths(&path)
        .chain(env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin")))
        .chain([PathBuf::from("/usr/local/cuda/bin")])
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file());
    if let Some(nvcc) = installed {
        return Ok(vec![nvcc]);
    }
    let fetched: Vec<PathBuf> = fs::read_dir(root.join(".cuda"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin/nvcc"))
        .filter(|nvcc| nvcc.is_file())
        .collect();
    if fetched.is_empty() {
        Err(NO_NVCC.into())
    } else {
        Ok(fetched)
    }
}

fn wanted_archs() -> Result<Option<Vec<u32>>, String> {
    let Some(list) = env::var("ROADLOOP_CUDA_ARCHS")
        .ok()
        .filter(|l| !l.trim().is_empty())
    else {
        return Ok(None);
    };
    let archs =
        list.split([',', ' ', ';'])
            .filter(|a| !a.is_empty())
            .map(|a| {
                a.trim_start_matches("sm_").parse().map_err(|_| {
            format!("ROADLOOP_CUDA_ARCHS: found {a:?}; expected compute capabilities such as 87,90")
        })
            });
    archs.collect::<Result<_, _>>().map(Some)
}

/// `Cuda compilation tools, release 12.4, V12.4.131` → (12, 4).
fn version(nvcc: &Path) -> Result<(u32, u32), String> {
    let text = answer(nvcc, "--version")?;
    let release = text
        .split("release ")
        .nth(1)
        .and_then(|rest| rest.split(',').next())
        .unwrap_or("");
    let (major, minor) = release.split_once('.').unwrap_or((release, "0"));
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => Ok((major, minor)),
        _ => Err(format!(
            "{} --version: no release number in {text:?}",
            nvcc.display()
        )),
    }
}

fn known_archs(nvcc: &Path) -> Result<Vec<u32>, String> {
    let text = answer(nvcc, "--list-gpu-arch")?;
    Ok(text
        .lines()
        .filter_map(|l| l.trim().strip_prefix("compute_")?.parse().ok())
        .collect())
}

fn answer(nvcc: &Path, option: &str) -> Result<String, String> {
    let output = Command::new(nvcc)
        .arg(option)
        .output()
        .map_err(|e| format!("{}: {e}", nvcc.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{} {option}: {}",
            nvcc.display(),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

fn files_in(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect();
    files.sort();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    Ok(files)
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
