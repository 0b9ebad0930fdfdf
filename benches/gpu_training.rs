//! What a tree takes on a GPU: `gpu_training [--depth N] [--small] [--trees N] [--host-mib N]
//! [--device-mib N] [--image-mib N] [--levels N] [--sms N]`.
//!
//! On MSRC-v2's training and validation images (`$ROADLOOP_DATA/msrc2`), or where they are not
//! there on 335 images of 320x213 that are made on the spot (22 classes), with the paper's
//! feature, T 20, depth 20, more than 38 pixels: S = F = 512 and S = F = 4096, with all images on
//! the device, with a tenth of their tables' bytes for images (`--image-mib`), and with a tenth
//! (`--device-mib`) for everything. `--small` leaves 4096 out.
//!
//! `--depth N`: N synthetic depth images of 320x240, S = F = 2048, more than 93 pixels; with
//! `--host-mib 0` they are read from the disk anew for each level.
//!
//! A line for people for each level and tree, and one of JSON for each training.
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use rayon::prelude::*;
use roadloop::{
    cuda::*,
    frame::{Image, png},
    stage::forest::{DepthDifference, FeatureSpec, InputSpec, Recipe, Region},
    training::{
        Job, Local, Observer, Resources, Traffic,
        cuda::{Gpu, train},
        data::{DataOptions, Dataset, Facts},
    },
};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// When levels began and trees ended.
#[derive(Default)]
struct Times(Mutex<Vec<Mark>>);

const MIB: f64 = 1048576.0;

struct Mark {
    at: Instant,
    tree: u32,
    level: u32,
    nodes: usize,
    slices: usize,
    responses: u64,
    traffic: Traffic,
}

impl Observer for Times {
    fn level_begins(&self, tree: u32, level: u32, nodes: usize, slices: usize, responses: u64) {
        let at = Instant::now();
        self.0.lock().unwrap().push(Mark {
            at,
            tree,
            level,
            nodes,
            slices,
            responses,
            traffic: Traffic::default(),
        });
    }

    fn traffic(&self, more: &Traffic) {
        if let Some(mark) = self.0.lock().unwrap().last_mut() {
            mark.traffic.passes += more.passes;
            mark.traffic.batches += more.batches;
            mark.traffic.images += more.images;
            mark.traffic.kept += more.kept;
        }
    }

    fn tree_ends(&self, tree: u32, nodes: usize) {
        self.0.lock().unwrap().push(Mark {
            at: Instant::now(),
            tree,
            level: 0,
            nodes,
            slices: 0,
            responses: 0,
            traffic: Traffic::default(),
        });
    }
}

/// A number without a pattern.
fn noise(x: usize, y: usize) -> u64 {
    let mut z = (x as u64) << 32 ^ y as u64;
    for _ in 0..3 {
        z = (z ^ z >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    z ^ z >> 32
}

/// Regions of a class: cells of uneven sides, a fifth of them void.
fn class(image: usize, x: usize, y: usize) -> usize {
    let cell = noise((x + image * 37) / 41 + 97 * image, (y + image * 11) / 33) as usize;
    match cell % 5 {
        0 => 0,
        _ => 1 + cell / 5 % 22,
    }
}

fn classes(dir: &Path) -> Outcome<PathBuf> {
    let mut table = String::from("index,name,r,g,b\n0,void,0,0,0\n");
    for c in 1..=22 {
        table += &format!("{c},class{c},{c},0,1\n");
    }
    let path = dir.join("classes.csv");
    fs::write(&path, table)?;
    Ok(path)
}

/// Colour images whose classes differ in colour and texture.
fn coloured(dir: &Path, n: usize) -> Outcome<DataOptions> {
    let (images, labels) = (dir.join("images"), dir.join("labels"));
    fs::create_dir_all(&images)?;
    fs::create_dir_all(&labels)?;
    (0..n).into_par_iter().try_for_each(|i| {
        let colour = |x, y| {
            let (c, n) = (class(i, x, y) as u64, noise(x + 1000 * i, y));
            [5, 7, 11].map(|k| ((c * k * 9) % 150 + (n >> k) % (20 + 4 * c)) as u8)
        };
        let name = format!("{i:05}.png");
        png::write_rgb(&images.join(&name), &Image::from_fn(320, 213, colour))?;
        let label = |x, y| class(i, x, y) as u8;
        png::write_grey(&labels.join(&name), &Image::from_fn(320, 213, label))
    })?;
    Ok(DataOptions {
        images: vec![images],
        labels: Some(labels),
        classes: Some(classes(dir)?),
        ..DataOptions::default()
    })
}

/// Depth images whose classes lie at different depths and slopes.
fn deep(dir: &Path, n: usize) -> Outcome<DataOptions> {
    let (depth, labels) = (dir.join("depth"), dir.join("labels"));
    fs::create_dir_all(&depth)?;
    fs::create_dir_all(&labels)?;
    (0..n).into_par_iter().try_for_each(|i| {
        let at = |x: usize, y: usize| {
            let c = class(i, x, y);
            let slope = x % 41 * (c % 5) + y % 33 * (c % 7);
            (700 + 45 * c + slope + noise(x, y + 977 * i) as usize % 8) as u16
        };
        let name = format!("{i:06}.png");
        png::write_grey16(&depth.join(&name), &Image::from_fn(320, 240, at))?;
        let label = |x, y| class(i, x, y) as u8;
        png::write_grey(&labels.join(&name), &Image::from_fn(320, 240, label))
    })?;
    Ok(DataOptions {
        images: vec![depth.clone()],
        depth: Some(depth),
        labels: Some(labels),
        classes: Some(classes(dir)?),
        ..DataOptions::default()
    })
}

/// One folder of both parts of MSRC-v2.
fn msrc(dir: &Path) -> Option<DataOptions> {
    let root = PathBuf::from(std::env::var_os("ROADLOOP_DATA")?).join("msrc2");
    for part in ["train", "validation"] {
        for kind in ["images", "labels"] {
            let to = dir.join(kind);
            fs::create_dir_all(&to).ok()?;
            for entry in fs::read_dir(root.join(part).join(kind)).ok()? {
                let entry = entry.ok()?;
                fs::copy(entry.path(), to.join(entry.file_name())).ok()?;
            }
        }
    }
    fs::copy(root.join("classes.csv"), dir.join("classes.csv")).ok()?;
    Some(DataOptions {
        folder: Some(dir.into()),
        void: ["horse", "mountain"].map(String::from).into(),
        ..DataOptions::default()
    })
}

struct Set<'a> {
    name: &'a str,
    data: &'a Dataset,
    facts: &'a [Facts],
    feature: FeatureSpec,
    input: InputSpec,
    /// Bytes of all tables.
    bytes: u64,
}

impl Set<'_> {
    fn run(
        &self,
        context: &Context,
        recipe: Recipe,
        (host, device, images): (u64, Option<u64>, Option<u64>),
    ) -> Outcome<()> {
        let mut gpu = Gpu::new(context, device)?;
        if let Some(limit) = images {
            gpu = gpu.with_image_limit(limit);
        }
        let image_limit = images;
        let (times, stop) = (Times::default(), AtomicBool::new(false));
        let job = Job {
            data: self.data,
            facts: self.facts,
            feature: self.feature,
            input: self.input,
            recipe,
            allow_small_set: true,
        };
        let resources = Resources {
            memory_limit: host,
            stop: &stop,
            checkpoint: None,
            observer: &times,
            ranks: &Local,
        };
        let start = Instant::now();
        let forest = train(&job, &resources, None, &gpu)?;
        let all = start.elapsed();
        let recipe = &job.recipe;
        let (s, f, images) = (recipe.samples, recipe.features, self.facts.len());
        println!(
            "{}: {images} images, S {s}, F {f}, device memory {} MiB, of it for images {} (tables {} MiB)",
            self.name,
            gpu.memory_limit() >> 20,
            image_limit.map_or("as needed".into(), |n| format!("{} MiB", n >> 20)),
            self.bytes >> 20
        );
        let (mut trees, mut levels) = (Vec::new(), Vec::new());
        let mut before = start;
        let marks = times.0.into_inner()?;
        for (mark, next) in marks.iter().zip(marks.iter().skip(1)) {
            let took = next.at - mark.at;
            if mark.level == 0 {
                continue;
            }
            println!(
                "  tree {} level {:2}: {:8.2} ms, {:6} nodes, {} slices, {} passes of {} batches, \
                 {:.1} MiB of images, {:.1} MiB kept, {:.3} G responses/s, {:.0} images/s",
                mark.tree,
                mark.level,
                ms(took),
                mark.nodes,
                mark.slices,
                mark.traffic.passes,
                mark.traffic.batches,
                mark.traffic.images as f64 / MIB,
                mark.traffic.kept as f64 / MIB,
                mark.responses as f64 / took.as_secs_f64() / 1e9,
                images as f64 / took.as_secs_f64(),
            );
            levels.push(serde_json::json!({
                "tree": mark.tree, "level": mark.level, "ms": ms(took), "nodes": mark.nodes,
                "slices": mark.slices, "responses": mark.responses,
                "passes": mark.traffic.passes, "batches": mark.traffic.batches,
                "image_bytes": mark.traffic.images, "kept_bytes": mark.traffic.kept,
            }));
        }
        for mark in marks.iter().filter(|m| m.level == 0) {
            let took = mark.at - before;
            println!(
                "  tree {}: {:.3} s, {} nodes",
                mark.tree,
                took.as_secs_f64(),
                mark.nodes
            );
            trees.push(took.as_secs_f64());
            before = mark.at;
        }
        println!(
            "  in all {:.3} s, digest {:016x}",
            all.as_secs_f64(),
            forest.digest()
        );
        println!(
            "{}",
            serde_json::json!({
                "bench": "gpu_training", "gpu": context.device().name, "sms": context.sms(),
                "set": self.name, "images": images, "samples": s, "features": f,
                "thresholds": recipe.thresholds, "depth": recipe.depth,
                "device_memory": gpu.memory_limit(), "image_memory": image_limit,
                "host_memory": host,
                "table_bytes": self.bytes, "tree_s": trees, "levels": levels,
                "digest": format!("{:016x}", forest.digest()),
            })
        );
        Ok(())
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |key: &str| {
        let at = arguments.iter().position(|a| a == key)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let has = |key: &str| arguments.iter().any(|a| a == key);
    let options = ContextOptions {
        sms: number("--sms").map(|n| n as u32),
        device_limit: u64::MAX,
        pinned_limit: u64::MAX,
        ..ContextOptions::default()
    };
    let context = match Context::new(&options) {
        Err(e) if e.is_no_device() => {
            println!("SKIPPED: no CUDA device ({e})");
            return Ok(());
        }
        other => other?,
    };
    println!("{}, {} SMs in use", context.device(), context.sms());
    let dir = std::env::temp_dir().join(format!("roadloop-gpu-training-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let done = bench(&context, &dir, &number, &has);
    fs::remove_dir_all(&dir)?;
    done
}

fn bench(
    context: &Context,
    dir: &Path,
    number: &dyn Fn(&str) -> Option<u64>,
    has: &dyn Fn(&str) -> bool,
) -> Outcome<()> {
    let mib = |key| number(key).map(|n| n << 20);
    let host = mib("--host-mib").unwrap_or(16 << 30);
    let start = Instant::now();
    let (name, options, feature, input) = if let Some(n) = number("--depth") {
        let feature = FeatureSpec::Depth(DepthDifference::default());
        let input = InputSpec {
            channels: 1,
            bits: 16,
            ..InputSpec::default()
        };
        ("depth", deep(dir, n as usize)?, feature, input)
    } else {
        let feature = FeatureSpec::Region(Region::default());
        let (name, options) = match msrc(dir) {
            Some(options) => ("msrc2", options),
            None => ("synthetic", coloured(dir, 335)?),
        };
        (name, options, feature, InputSpec::default())
    };
    let data = Dataset::open(&options)?;
    let facts = data.scan()?;
    println!(
        "images made and read in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    let (needs, channels) = (feature.needs(), input.channels.into());
    let set = Set {
        name,
        data: &data,
        facts: &facts,
        feature,
        input,
        bytes: facts.iter().map(|f| needs.bytes(f.size, channels)).sum(),
    };
    let recipe = |s: u32, trees: u32, min_pixels: u32| Recipe {
        trees: number("--trees").map_or(trees, |n| n as u32),
        depth: number("--levels").map_or(20, |n| n as u32),
        samples: s,
        features: s,
        min_pixels,
        ..Recipe::default()
    };
    let (device, images) = (mib("--device-mib"), mib("--image-mib"));
    if name == "depth" {
        return set.run(context, recipe(2048, 1, 93), (host, device, images));
    }
    let tenth = set.bytes / 10;
    let limits = [
        (host, None, None),
        (host, None, Some(images.unwrap_or(tenth))),
        (host, Some(device.unwrap_or(tenth)), None),
    ];
    for (size, trees) in [(512, 3), (4096, 1)] {
        if size > 512 && has("--small") {
            continue;
        }
        for limits in limits {
            set.run(context, recipe(size, trees, 38), limits)?;
        }
    }
    Ok(())
}
