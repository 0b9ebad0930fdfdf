//! How long does the forest take: 5 trees of depth 20 on every pixel of 640x480, one thread. The
//! least processor time of 30 runs is printed too (Linux), which other programs disturb less.
//!
//! The forest is trained on the spot on pictures of coloured noise in blocks, so that its trees
//! are as deep and as wide as those of real ones.
use std::{path::Path, sync::atomic::AtomicBool};

use criterion::{Criterion, criterion_group, criterion_main};
use roadloop::{
    frame::{Image, Rgb, Size, png},
    stage::{
        Stage as _,
        forest::{
            Colour, Depth, FeatureSpec, Forest, Input, InputSpec, Norm, Params, Pixels, Recipe,
            Region, ThresholdSource, cpu::Plan,
        },
    },
    training::{
        Job, Local, Resources, Silent,
        data::{DataOptions, Dataset},
        train,
    },
};

fn hash(x: usize, y: usize, k: usize) -> usize {
    let mut z = (x as u64) << 40 ^ (y as u64) << 20 ^ k as u64;
    for _ in 0..3 {
        z = (z ^ z >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    (z ^ z >> 32) as usize
}

/// The class of a block of pixels.
fn class(k: usize, x: usize, y: usize) -> usize {
    hash(x / 37, y / 29, k) % 20
}

fn picture(k: usize, size: Size) -> Rgb {
    Image::from_fn(size.width, size.height, |x, y| {
        let (c, n) = (class(k, x, y), hash(x, y, k + 1000));
        std::array::from_fn(|i| ((c * (5 + 3 * i)) % 120 + (n >> (8 * i)) % 136) as u8)
    })
}

fn forest(dir: &Path) -> Forest {
    let size = Size::new(320, 240);
    for folder in ["images", "labels"] {
        std::fs::create_dir_all(dir.join(folder)).unwrap();
    }
    let mut classes = String::from("index,name,r,g,b\n");
    for c in 0..20 {
        classes += &format!("{c},c{c},{c},0,0\n");
    }
    std::fs::write(dir.join("classes.csv"), classes).unwrap();
    for k in 0..40 {
        let labels = Image::from_fn(size.width, size.height, |x, y| class(k, x, y) as u8);
        png::write_rgb(&dir.join(format!("images/{k}.png")), &picture(k, size)).unwrap();
        png::write_grey(&dir.join(format!("labels/{k}.png")), &labels).unwrap();
    }
    let options = DataOptions {
        folder: Some(dir.into()),
        ..DataOptions::default()
    };
    let data = Dataset::open(&options).unwrap();
    let facts = data.scan().unwrap();
    let job = Job {
        data: &data,
        facts: &facts,
        feature: FeatureSpec::Region(Region {
            norm: Norm::Sum,
            ..Region::default()
        }),
        input: InputSpec {
            colour: Colour::Lab,
            ..InputSpec::default()
        },
        recipe: Recipe {
            samples: 1024,
            features: 32,
            min_pixels: 10,
            threshold_source: ThresholdSource::Responses,
            ..Recipe::default()
        },
        allow_small_set: false,
    };
    let resources = Resources {
        memory_limit: 1 << 32,
        stop: &AtomicBool::new(false),
        checkpoint: None,
        observer: &Silent,
        ranks: &Local,
    };
    train(&job, &resources, None).unwrap()
}

/// Processor time of this thread, ms.
fn processor_ms() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns as f64 / 1e6)
}

fn inference(c: &mut Criterion) {
    let dir = std::env::temp_dir().join(format!("roadloop-forest-{}", std::process::id()));
    let forest = forest(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    let nodes: usize = forest.trees.iter().map(|t| t.nodes.len()).sum();
    let size = Size::new(640, 480);
    let picture = picture(99, size);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    for step in [1, 2, 4] {
        let params = Params {
            step,
            ..Params::default()
        };
        let mut plan = Plan::new(&forest, &params, size, None).unwrap();
        let mut output = plan.output();
        let name = format!("forest 640x480, 5 trees of {nodes} nodes, step {step}");
        let mut least: Option<f64> = None;
        for _ in 0..30 {
            let input = Input {
                pixels: Pixels::Rgb(&picture),
                depth: Depth::None,
            };
            let took = pool.install(|| {
                let before = processor_ms()?;
                plan.run(input, &mut output);
                Some(processor_ms()? - before)
            });
            least = took.map(|ms| least.map_or(ms, |least| least.min(ms)));
        }
        if let Some(ms) = least {
            println!("{name}: {ms:.1} ms of processor time");
        }
        c.bench_function(&name, |b| {
            b.iter(|| {
                let input = Input {
                    pixels: Pixels::Rgb(&picture),
                    depth: Depth::None,
                };
                pool.install(|| plan.run(input, &mut output));
            });
        });
    }
}

criterion_group!(benches, inference);
criterion_main!(benches);
