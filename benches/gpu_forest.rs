//! What labels take on a GPU: `gpu_forest [--sms N] [--launches N]`. Times between events around
//! the launch of a graph with one frame, in microseconds; a line for people and one of JSON for
//! each size and feature. The forests are of 5 trees of depth 20 that nobody trained: pixels go
//! further down them than in trained ones, whose branches end sooner.
#[path = "../tests/common/random_forest.rs"]
mod random_forest;

use random_forest::{forest, input, region, rgbd};
use roadloop::{
    cuda::*,
    frame::Size,
    source::synth::{Motion, Options, Street},
    stage::forest::{Colour, Norm, Params, cuda},
};

/// Median and 99th percentile.
fn summary(times: &mut [f32]) -> (f32, f32) {
    times.sort_by(f32::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |key: &str| {
        let at = arguments.iter().position(|a| a == key)?;
        arguments.get(at + 1)?.parse::<u32>().ok()
    };
    let options = ContextOptions {
        sms: number("--sms"),
        ..ContextOptions::default()
    };
    let launches = number("--launches").unwrap_or(300) as usize;
    let context = match Context::new(&options) {
        Err(e) if e.is_no_device() => {
            println!("SKIPPED: no CUDA device ({e})");
            return Ok(());
        }
        other => other?,
    };
    let stream = Stream::new(&context, Priority::High)?;
    println!("{}, {} SMs in use", context.device(), context.sms());
    let forests = [
        ("region", region(3, Norm::Mean, false)),
        ("rgbd", rgbd(3, Norm::Mean, false)),
    ];
    for size in [Size::new(640, 480), Size::new(1280, 480)] {
        let options = Options {
            frames: 8,
            size,
            motion: Motion::Drive,
            ..Options::default()
        };
        let street = Street::new(&options)?;
        let frame = street.render(5);
        let pixels: Vec<u8> = frame.left_rgb.pixels().flatten().copied().collect();
        let depths: Vec<u16> = frame.disparity.pixels().copied().collect();
        for (name, feature) in &forests {
            let forest = forest(*feature, input(3, Colour::Lab, false), 5, 20, 8);
            let nodes: usize = forest.trees.iter().map(|t| t.nodes.len()).sum();
            for step in [1, 2, 4] {
                let params = Params {
                    step,
                    ..Params::default()
                };
                let camera = street.camera();
                let plan = cuda::Plan::new(&context, &forest, &params, size, Some(&camera), true)?;
                let cells = plan.grid().area();
                let mut layout = ArenaLayout::new();
                let image = layout.reserve::<u8>("image", pixels.len());
                let disparity = layout.reserve::<u16>("disparity", depths.len());
                let labels = layout.reserve::<u8>("labels", cells);
                let confidence = layout.reserve::<u16>("confidence", cells);
                let arena = Arena::new(&context, "forest bench", layout)?;
                let (image, disparity) = (arena.buffer(image)?, arena.buffer(disparity)?);
                let (labels, confidence) = (arena.buffer(labels)?, arena.buffer(confidence)?);
                stream.upload(&pixels, &image)?;
                stream.upload(&depths, &disparity)?;
                let out = cuda::Outputs {
                    labels: &labels,
                    confidence: &confidence,
                    posteriors: None,
                };
                let depth = cuda::Depth::Disparity(&disparity);
                let graph = stream
                    .capture::<GpuError>(|s| plan.enqueue(s, &image, depth, out))?
                    .instantiate()?;
                let (start, end) = (Event::new(&context)?, Event::new(&context)?);
                let mut times = Vec::with_capacity(launches);
                for i in 0..launches + 20 {
                    stream.record(&start)?;
                    graph.launch(&stream)?;
                    stream.record(&end)?;
                    stream.synchronize()?;
                    if i >= 20 {
                        times.push(end.microseconds_since(&start)?);
                    }
                }
                let (median, p99) = summary(&mut times);
                println!("{size} {name}, step {step}: {median:.1} us, p99 {p99:.1}; {nodes} nodes");
                println!(
                    "{}",
                    serde_json::json!({
                        "bench": "gpu_forest", "gpu": context.device().name, "sms": context.sms(),
                        "width": size.width, "height": size.height, "feature": name,
                        "trees": 5, "depth": 20, "nodes": nodes, "step": step,
                        "launches": launches, "device_bytes": plan.device_bytes(),
                        "median_us": median, "p99_us": p99,
                    })
                );
            }
        }
    }
    Ok(())
}
