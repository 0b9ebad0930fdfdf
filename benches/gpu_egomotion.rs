//! What the egomotion stage takes on a GPU: `gpu_egomotion [--sms N] [--launches N] [--full]`.
//! Times between events around the launch of a graph with one frame, in microseconds; a line for
//! people and one of JSON for each size and input.
use roadloop::{
    cuda::*,
    frame::{PixelKind, Size},
    maths::random::hash,
    source::synth::{Motion, Options, Street},
    stage::egomotion::{Params, cuda},
};

/// Median and 99th percentile.
fn summary(times: &mut [f32]) -> (f32, f32) {
    times.sort_by(f32::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// Two frames in a row of a drive, RGB.
fn street(size: Size) -> Result<[Vec<u8>; 2], Box<dyn std::error::Error>> {
    let options = Options {
        frames: 20,
        seed: 3,
        size,
        motion: Motion::Drive,
    };
    let street = Street::new(&options)?;
    Ok([14, 15].map(|i| {
        street
            .render(i)
            .left_rgb
            .pixels()
            .flatten()
            .copied()
            .collect()
    }))
}

/// Corners everywhere, none of which is found again.
fn noise(size: Size) -> [Vec<u8>; 2] {
    [0, 1].map(|seed| {
        (0..3 * size.area())
            .map(|i| (hash(seed, i as u32 / 3, 0) >> 24) as u8)
            .collect()
    })
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
    let mut sizes = vec![Size::new(1280, 480)];
    if arguments.iter().any(|a| a == "--full") {
        sizes.extend([
            Size::new(320, 240),
            Size::new(640, 480),
            Size::new(1920, 1080),
        ]);
    }
    for size in sizes {
        for (input, frames) in [("street", street(size)?), ("noise", noise(size))] {
            let plan = cuda::Plan::new(&context, &Params::default(), PixelKind::Rgb8, size)?;
            let mut layout = ArenaLayout::new();
            let images = [(); 2].map(|()| layout.reserve::<u8>("image", 3 * size.area()));
            let out = layout.reserve::<cuda::Motion>("motion", 1);
            let arena = Arena::new(&context, "egomotion bench", layout)?;
            let out = arena.buffer(out)?;
            let mut graphs = Vec::new();
            for (image, pixels) in images.into_iter().zip(&frames) {
                let image = arena.buffer(image)?;
                stream.upload(pixels, &image)?;
                let captured =
                    stream.capture::<GpuError>(|s| plan.enqueue(s, &image, None, &out))?;
                graphs.push(captured.instantiate()?);
            }
            let (start, end) = (Event::new(&context)?, Event::new(&context)?);
            let mut times = Vec::with_capacity(launches);
            for i in 0..launches + 20 {
                stream.record(&start)?;
                graphs[i % 2].launch(&stream)?;
                stream.record(&end)?;
                stream.synchronize()?;
                if i >= 20 {
                    times.push(end.microseconds_since(&start)?);
                }
            }
            let mut motion = [cuda::Motion::default()];
            stream.download(&out, &mut motion)?;
            let (median, p99) = summary(&mut times);
            let [motion] = motion;
            println!(
                "{size} RGB {input}: {median:.1} us, p99 {p99:.1}; {} points",
                motion.tracked
            );
            println!(
                "{}",
                serde_json::json!({
                    "bench": "gpu_egomotion", "gpu": context.device().name, "sms": context.sms(),
                    "width": size.width, "height": size.height, "input": input,
                    "launches": launches, "device_bytes": plan.device_bytes(),
                    "points": motion.tracked, "median_us": median, "p99_us": p99,
                })
            );
        }
    }
    Ok(())
}
