//! What a frame takes on the GPU: percentiles of each stage (events inside the graph) and of the
//! whole frame (host clock), on the synthetic street.
//!
//! `cargo bench --features cuda --bench gpu_latency -- [--sms N] [--frames N] [--sizes WxH,..]
//! [--cases NAME,..] [--json FILE]`
//!
//! | row | from | to |
//! |---|---|---|
//! | `frame` | images in page-locked memory | stixels and road there |
//! | `loop` | images in the loop's slot | results in the slot |
//! | a stage | the graph's event before it | the one behind it; uploads in the first, the download in the last |
use std::{
    fmt::Write as _,
    process::ExitCode,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use nalgebra::{Rotation3, Vector3};
use roadloop::{
    calib::{Distortion, Lens, Pinhole, RawPair, Rectification, Rig},
    config::Config,
    cuda::{Arena, ArenaLayout, Context, ContextOptions, GpuError, Module, Priority, Stream},
    frame::{Camera, Disparity, Image, Rgb, Size, StereoFrame},
    frame_loop::{CudaBackend, Shape, Wanted},
    picture::grey_of,
    source::synth::{Options, Street},
    stage::{rectify, road},
};
use serde_json::{Value, json};

const SIZES: &str = "640x480,1024x440,1280x480,1024x768,1280x720,1920x1080";
/// `pair`: two uploads, rectified already; `raw`: with rectification; `paths8`: as `pair` with 8
/// paths; `stored`: a stored disparity in place of stereo.
const CASES: &str = "pair,raw,paths8,stored";
const WARM_UP: usize = 30;

struct Arguments {
    sms: Option<u32>,
    frames: usize,
    sizes: Vec<Size>,
    cases: Vec<String>,
    json: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments {
        sms: None,
        frames: 2000,
        sizes: Vec::new(),
        cases: Vec::new(),
        json: None,
    };
    let (mut sizes, mut cases) = (SIZES.to_string(), CASES.to_string());
    let mut rest = std::env::args().skip(1);
    while let Some(key) = rest.next() {
        if key == "--bench" {
            continue;
        }
        let value = rest.next().ok_or(format!("{key}: expected a value"))?;
        let number = || {
            value
                .parse()
                .map_err(|_| format!("{key} {value}: expected a number"))
        };
        match key.as_str() {
            "--sms" => out.sms = Some(number()?),
            "--frames" => out.frames = number()?.max(1) as usize,
            "--sizes" => sizes = value,
            "--cases" => cases = value,
            "--json" => out.json = Some(value),
            _ => {
                return Err(format!(
                    "{key}: expected --sms, --frames, --sizes, --cases or --json"
                ));
            }
        }
    }
    for size in sizes.split(',') {
        let parsed = size
            .split_once('x')
            .and_then(|(w, h)| Some(Size::new(w.parse().ok()?, h.parse().ok()?)));
        out.sizes
            .push(parsed.ok_or(format!("--sizes {size}: expected WxH"))?);
    }
    out.cases = cases.split(',').map(str::to_string).collect();
    Ok(out)
}

/// Sorted microseconds.
struct Times(Vec<f64>);

impl Times {
    fn new(mut us: Vec<f64>) -> Self {
        us.sort_by(f64::total_cmp);
        Self(us)
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share).round() as usize]
    }

    fn json(&self) -> Value {
        let round = |v: f64| (v * 100.0).round() / 100.0;
        json!({
            "n": self.0.len(),
            "min_us": round(self.at(0.0)),
            "p50_us": round(self.at(0.5)),
            "p90_us": round(self.at(0.9)),
            "p99_us": round(self.at(0.99)),
            "p999_us": round(self.at(0.999)),
            "max_us": round(self.at(1.0)),
            "jitter_p999_over_p50": round(self.at(0.999) / self.at(0.5)),
        })
    }
}

struct Report(Vec<Value>);

impl Report {
    fn row(&mut self, size: Size, case: &str, what: &str, us: Vec<f64>) {
        let times = Times::new(us);
        let mut line = format!("{size:>10} {case:<8} {what:<10}", size = size.to_string());
        for share in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let _ = write!(line, " {:>9.1}", times.at(share));
        }
        println!("{line}");
        let (width, height) = (size.width, size.height);
        self.0.push(json!({"width": width, "height": height, "case": case, "what": what, "times": times.json()}));
    }
}

struct Scene {
    set: StereoFrame,
    disparity: Disparity,
    camera: Camera,
}

fn scene(size: Size) -> Scene {
    let options = Options {
        size,
        ..Options::default()
    };
    let street = Street::new(&options).expect("a size that is drawn");
    let rendered = street.render(20);
    let grey =
        |image: &Rgb| Image::from_fn(size.width, size.height, |x, y| grey_of(image.get(x, y)));
    let mut set = StereoFrame::new(size);
    set.left = grey(&rendered.left_rgb);
    set.right = Some(grey(&rendered.right_rgb));
    Scene {
        set,
        disparity: rendered.disparity,
        camera: street.camera(),
    }
}

/// The same cameras with a lens and a small turn.
fn raw(camera: &Camera, size: Size) -> Rectification {
    let lens = Lens {
        pinhole: Pinhole {
            fx: camera.focal_px,
            fy: camera.focal_px,
            cx: camera.cx,
            cy: camera.cy,
        },
        distortion: Distortion::RadialTangential4([-0.1, 0.02, 0.0, 0.0]),
    };
    let pair = RawPair {
        lenses: [lens; 2],
        rotation: *Rotation3::from_euler_angles(0.002, -0.003, 0.002).matrix(),
        translation: Vector3::new(-camera.baseline_m, 0.0, 0.0),
        given: None,
    };
    Rig::raw(pair, None)
        .rectification(size)
        .expect("a common view")
}

fn micros(
    mut work: impl FnMut() -> Result<(), GpuError>,
    frames: usize,
) -> Result<Vec<f64>, GpuError> {
    for _ in 0..WARM_UP {
        work()?;
    }
    let mut us = Vec::with_capacity(frames);
    for _ in 0..frames {
        let start = Instant::now();
        work()?;
        us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(us)
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn chain(
    context: &Context,
    scene: &Scene,
    case: &str,
    frames: usize,
    report: &mut Report,
) -> Outcome {
    let size = scene.set.left.size();
    let mut config = Config::default();
    let mut set = scene.set.clone();
    let rectification = if case == "raw" {
        raw(&scene.camera, size)
    } else {
        Rig::rectified(scene.camera).rectification(size)?
    };
    if case == "paths8" {
        config.stereo.paths = 8;
    }
    let stored = case == "stored";
    if stored {
        set.right = None;
        set.stored_disparity = Some(scene.disparity.clone());
    }
    let shape = Shape {
        size,
        colour: false,
        stored_disparity: stored,
        mask: None,
    };
    let timed = Wanted {
        stage_times: true,
        ..Wanted::STIXELS
    };
    {
        let backend = CudaBackend::new(context, &config, &rectification, &shape, Wanted::STIXELS)?;
        backend.stage(&set)?;
        report.row(
            size,
            case,
            "frame",
            micros(|| backend.launch_and_wait(), frames)?,
        );
        let (device, pinned) = context.allocated();
        println!(
            "{:>10} {case:<8} memory: device {:.1} MiB, page-locked {:.1} MiB",
            size.to_string(),
            device as f64 / 1048576.0,
            pinned as f64 / 1048576.0
        );
        report.0.push(json!({"width": size.width, "height": size.height, "case": case, "what": "memory", "device_bytes": device, "pinned_bytes": pinned}));
        let mut slot = backend.slot();
        *slot.set = set.clone().into();
        let whole = micros(
            || {
                backend.stage(slot.set.stereo.as_ref().expect("a pair"))?;
                backend.launch_and_wait()?;
                backend.take(&mut slot)
            },
            frames,
        )?;
        report.row(size, case, "loop", whole);
    }
    let backend = CudaBackend::new(context, &config, &rectification, &shape, timed)?;
    backend.stage(&set)?;
    let mut stages: Vec<(&str, Vec<f64>)> = Vec::new();
    for frame in 0..WARM_UP + frames.min(1000) {
        backend.launch_and_wait()?;
        if frame < WARM_UP {
            continue;
        }
        for (i, time) in backend.stage_times().enumerate() {
            let (stage, us) = time?;
            if stages.len() <= i {
                stages.push((stage.name(), Vec::new()));
            }
            stages[i].1.push(f64::from(us));
        }
    }
    for (stage, us) in stages {
        report.row(size, case, stage, us);
    }
    Ok(())
}

/// The stages of this file's own that stand alone: launch and wait of a graph of theirs.
fn alone(context: &Context, scene: &Scene, frames: usize, report: &mut Report) -> Outcome {
    let size = scene.set.left.size();
    let area = size.area();
    let stream = Stream::new(context, Priority::High)?;
    let mut layout = ArenaLayout::new();
    let disparity = layout.reserve::<u16>("disparity", area);
    let result = layout.reserve::<road::cuda::Road>("road", 1);
    let images = [(); 4].map(|()| layout.reserve::<u8>("image", area));
    let arena = Arena::new(context, "bench", layout)?;
    let (disparity, result) = (arena.buffer(disparity)?, arena.buffer(result)?);
    let pixels: Vec<u16> = scene.disparity.pixels().copied().collect();
    stream.upload(&pixels, &disparity)?;
    let empty = stream
        .capture::<GpuError>(|s| s.fill(&result.view::<u32>()?, 0))?
        .instantiate()?;
    let floor = micros(
        || {
            empty.launch(&stream)?;
            stream.synchronize()
        },
        frames,
    )?;
    report.row(size, "alone", "nothing", floor);
    let plan = road::cuda::Plan::new(
        context,
        &Config::default().road,
        size,
        &scene.camera,
        128,
        None,
    )?;
    let graph = stream
        .capture::<GpuError>(|s| plan.enqueue(s, &disparity, &result))?
        .instantiate()?;
    let us = micros(
        || {
            graph.launch(&stream)?;
            stream.synchronize()
        },
        frames,
    )?;
    report.row(size, "alone", "road", us);
    let rectification = raw(&scene.camera, size);
    let plan = rectify::cuda::Plan::new(context, &rectification, size, None)?;
    let [a, b, c, d] = images.map(|slot| arena.buffer(slot));
    let (a, b, c, d) = (a?, b?, c?, d?);
    let graph = stream
        .capture::<GpuError>(|s| plan.enqueue(s, (&a, &b), Some((&c, &d))))?
        .instantiate()?;
    let us = micros(
        || {
            graph.launch(&stream)?;
            stream.synchronize()
        },
        frames,
    )?;
    report.row(size, "alone", "rectify", us);
    Ok(())
}

fn run() -> Outcome {
    let arguments = arguments()?;
    let context = Context::new(&ContextOptions {
        sms: arguments.sms,
        // 1920x1080 with 8 paths takes 2.3 GiB.
        device_limit: 8 << 30,
        ..ContextOptions::default()
    })?;
    let toolkit = Module::load(&context, "road")?.toolkit();
    let date = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let commit = std::env::var("ROADLOOP_COMMIT").unwrap_or_else(|_| "unknown".into());
    let provenance = json!({
        "device": context.device(),
        "sms_used": context.sms(),
        "kernels_toolkit": format!("{}.{}", toolkit.0, toolkit.1),
        "roadloop": env!("CARGO_PKG_VERSION"),
        "commit": commit,
        "unix_time": date,
        "optimised_host": !cfg!(debug_assertions),
        "frames": arguments.frames,
        "disparities": Config::default().stereo.disparities,
        "stixel_width": Config::default().stixel.stixel_width,
        "scene": "synthetic street, frame 20, seed 1",
    });
    println!(
        "# {}, {} SMs used, kernels by CUDA {}.{}, commit {commit}, unix time {date}",
        context.device(),
        context.sms(),
        toolkit.0,
        toolkit.1
    );
    println!(
        "{:>10} {:<8} {:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "size", "case", "what, us", "min", "p50", "p90", "p99", "p99.9", "max"
    );
    let mut report = Report(Vec::new());
    let mut failed = None;
    for &size in &arguments.sizes {
        let scene = scene(size);
        alone(&context, &scene, arguments.frames.min(1000), &mut report)?;
        for case in &arguments.cases {
            if let Err(e) = chain(&context, &scene, case, arguments.frames, &mut report) {
                println!("{:>10} {case:<8} failed: {e}", size.to_string());
                failed = Some(e);
            }
        }
    }
    let whole = json!({"provenance": provenance, "rows": report.0});
    match &arguments.json {
        Some(path) => std::fs::write(path, serde_json::to_string_pretty(&whole)?)?,
        None => println!("{whole}"),
    }
    failed.map_or(Ok(()), Err)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let missing = e
                .downcast_ref::<GpuError>()
                .is_some_and(GpuError::is_no_device);
            println!("{}: {e}", if missing { "SKIPPED" } else { "gpu_latency" });
            ExitCode::from(if missing { 0 } else { 70 })
        }
    }
}
