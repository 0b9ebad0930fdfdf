//! How long does the stixel stage take on the GPU? Ground tables, reduction, object costs,
//! dynamic programme, backtrack and confidences, as one graph, between events in it.
//!
//! `gpu_stixel [--sms N] [--runs N] [--threads 96..320] [--preset default|paper] [--more-sizes]
//! [DISPARITY.png ...]`
//!
//! Inputs: the synthetic street matched by the CPU's stereo stage, a drawn street, noise, and
//! recorded disparities, cut or repeated to the sizes. Lines for humans, then one of JSON.
#[path = "../tests/common/columns.rs"]
mod columns;

use std::rc::Rc;

use roadloop::{
    cuda::*,
    frame::{Camera, Disparity, INVALID, Image, Rgb, Road, Size},
    picture::{self, Picture},
    source::synth,
    stage::{
        Stage as _, stereo,
        stixel::{Input, Params, cpu, cuda::Plan},
    },
};

fn matched(size: Size) -> Option<(Disparity, Road, Camera)> {
    let options = synth::Options {
        frames: 20,
        seed: 3,
        size,
        motion: synth::Motion::Drive,
    };
    let street = synth::Street::new(&options).ok()?;
    let rendered = street.render(9);
    let mut plan = stereo::cpu::Plan::new(&stereo::Params::default(), size, None).ok()?;
    let mut disparity = Disparity::new(size.width, size.height);
    let grey = |image: &Rgb| {
        Image::from_fn(size.width, size.height, |x, y| {
            let [r, g, b] = image.get(x, y).map(u32::from);
            ((77 * r + 150 * g + 29 * b) >> 8) as u8
        })
    };
    let (left, right) = (grey(&rendered.left_rgb), grey(&rendered.right_rgb));
    let input = stereo::Input {
        left: &left,
        right: &right,
    };
    plan.run(input, &mut disparity);
    Some((disparity, street.road(9), street.camera()))
}

/// A recorded disparity at this size: rows around the horizon, columns again and again.
fn cut(image: &Disparity, size: Size, horizon: usize) -> Disparity {
    let first = horizon.saturating_sub(size.height * 2 / 5);
    Disparity::from_fn(size.width, size.height, |x, y| {
        let turns = x / image.width();
        let x = if turns.is_multiple_of(2) {
            x % image.width()
        } else {
            image.width() - 1 - x % image.width()
        };
        match image.get(x, (first + y).min(image.height() - 1)) {
            0 => INVALID,
            d => d,
        }
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        arguments
            .iter()
            .position(|a| a == name)
            .and_then(|i| arguments.get(i + 1))
    };
    let number = |name: &str| value(name).and_then(|v| v.parse::<u32>().ok());
    let runs = number("--runs").unwrap_or(300);
    let preset = value("--preset").map_or("default", |p| p);
    let params = if preset == "paper" {
        Params::paper()
    } else {
        Params::default()
    };
    let options = ContextOptions {
        sms: number("--sms"),
        ..ContextOptions::default()
    };
    let context = match Context::new(&options) {
        Ok(context) => context,
        Err(e) => {
            println!("SKIPPED: no CUDA device ({e})");
            return;
        }
    };
    let stream = Stream::new(&context, Priority::High).expect("a stream");
    println!(
        "{}, {} SMs, preset {preset}, {runs} runs",
        context.device(),
        context.sms()
    );
    let recorded: Vec<_> = arguments
        .iter()
        .filter(|a| a.ends_with(".png"))
        .filter_map(|a| match picture::read(a.as_ref()) {
            Ok(Picture::Grey16(image)) => Some(image),
            _ => None,
        })
        .collect();
    let mut results = Vec::new();
    let mut sizes = vec![Size::new(1280, 480), Size::new(1024, 768)];
    if arguments.iter().any(|a| a == "--more-sizes") {
        let more = [(640, 480), (1242, 375), (1024, 440), (1920, 1080)];
        sizes.extend(more.map(|(width, height)| Size::new(width, height)));
    }
    for size in sizes {
        let horizon = size.height as f32 * 0.4;
        let line = columns::road(0.33, horizon);
        let camera = columns::camera(size);
        let mut inputs = vec![
            (
                "drawn".to_string(),
                columns::street(size, &line),
                line,
                camera,
            ),
            (
                "noise".to_string(),
                columns::random(size, 128, 1),
                line,
                camera,
            ),
        ];
        if let Some((disparity, road, camera)) = matched(size) {
            inputs.push(("synthetic street".to_string(), disparity, road, camera));
        }
        for (i, image) in recorded.iter().enumerate() {
            // The example of the paper's authors.
            let first = 303usize.saturating_sub(size.height * 2 / 5);
            let road = columns::road(0.230868, 303.0 - first as f32);
            let camera = Camera {
                focal_px: 704.7,
                cy: size.height as f64 / 2.0,
                cx: 512.0,
                baseline_m: 0.8,
            };
            inputs.push((format!("recorded {i}"), cut(image, size, 303), road, camera));
        }
        for (name, disparity, road, camera) in inputs {
            let plan = Plan::with_threads(
                &context,
                &stream,
                &params,
                size,
                &camera,
                128,
                number("--threads"),
            )
            .expect("a plan");
            let mut layout = ArenaLayout::new();
            let pixels = layout.reserve::<u16>("disparity", size.area());
            let line = layout.reserve::<f32>("road", 3);
            let words = layout.reserve::<u64>("stixels", plan.output_words() + 64);
            let arena = Arena::new(&context, "bench", layout).expect("memory");
            let (pixels, line, words) = (
                arena.buffer(pixels).expect("ours"),
                arena.buffer(line).expect("ours"),
                arena.buffer(words).expect("ours"),
            );
            stream.upload(disparity.data(), &pixels).expect("an upload");
            stream
                .upload(&[road.slope, road.offset, road.horizon_row], &line)
                .expect("an upload");
            let [start, end] = [(); 2].map(|()| Rc::new(Event::new(&context).expect("an event")));
            let graph = stream
                .capture::<GpuError>(|s| {
                    s.record_in_graph(&start)?;
                    plan.enqueue(s, &pixels, size.width, &line, &words)?;
                    s.record_in_graph(&end)
                })
                .and_then(Graph::instantiate)
                .expect("a graph");
            let mut times = Vec::new();
            for run in 0..runs + 20 {
                graph.launch(&stream).expect("a launch");
                stream.synchronize().expect("the end of it");
                if run >= 20 {
                    times.push(end.microseconds_since(&start).expect("recorded"));
                }
            }
            if std::env::var_os("STIXEL_PROFILE").is_some() {
                let tail = words
                    .slice(plan.output_words()..plan.output_words() + 64)
                    .expect("ours");
                stream.fill(&tail, 0u64).expect("a fill");
                graph.launch(&stream).expect("a launch");
                let mut cycles = vec![0u64; 64];
                stream.download(&tail, &mut cycles).expect("a download");
                for warp in [0, 16] {
                    let per: Vec<u64> = cycles[warp..warp + 16]
                        .iter()
                        .map(|c| c / plan.columns() as u64)
                        .collect();
                    println!("cycles a column {per:?}");
                }
                println!("cycles of the longest column {}", cycles[32]);
            }
            times.sort_by(f32::total_cmp);
            let at = |p: f64| times[((times.len() - 1) as f64 * p) as usize];
            let mut found = vec![0u64; plan.output_words()];
            let words = words.slice(0..plan.output_words()).expect("ours");
            stream.download(&words, &mut found).expect("a download");
            let (mut ours, mut expected) = (plan.output(), plan.output());
            plan.decode(&found, &mut ours);
            let mut reference = cpu::Plan::new(&params, size, &camera, 128).expect("a plan");
            reference.run(
                Input {
                    disparity: &disparity,
                    road: &road,
                },
                &mut expected,
            );
            let equal = ours == expected;
            let shape = plan.shape();
            println!(
                "{size} {name:18} median {:7.1} us  p99 {:7.1}  min {:7.1}  {} stixels, equal to the CPU's: {equal}; {} blocks of {}, {} KB shared, {} MB",
                at(0.5),
                at(0.99),
                at(0.0),
                ours.total(),
                shape.grid[0],
                shape.block[0],
                shape.shared / 1024,
                plan.device_bytes() >> 20,
            );
            results.push(serde_json::json!({
                "stage": "stixel", "preset": preset, "size": size.to_string(), "input": name, "sms": context.sms(),
                "threads": shape.block[0], "median_us": at(0.5), "p99_us": at(0.99), "min_us": at(0.0), "equal": equal,
            }));
        }
    }
    println!(
        "{}",
        serde_json::json!({ "gpu": context.device().to_string(), "results": results })
    );
}
