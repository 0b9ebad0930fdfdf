//! What the foreground stage takes on a GPU: `gpu_foreground [--sms N] [--launches N]`.
//! Times between events around and inside the launch of a graph, in microseconds; a line for
//! people and one of JSON for each size, kind and share of random pixels that match nothing, and
//! for a camera that shakes. "static" is a ground with camera noise of 2 levels.
use std::rc::Rc;

use roadloop::{
    cuda::*,
    frame::{self, MotionState, PixelKind, Size},
    stage::foreground::{
        Params,
        cuda::{Buffers, Motion, Plan},
    },
};

/// Pictures that are shown in turn.
const PICTURES: usize = 8;

/// Median and 99th percentile.
fn summary(times: &mut [f32]) -> (f32, f32) {
    times.sort_by(f32::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn hash(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A ground with noise; of 100 pixels so many are anything.
fn picture(size: Size, channels: usize, wild: u64, t: u64) -> Vec<u8> {
    let byte = |i: usize| {
        let pixel = (i / channels) as u64;
        let ground = hash(i as u64 ^ 0xABCD) % 180;
        let n = hash(i as u64 | t << 40);
        if hash(pixel | t << 40 | 1 << 60) % 100 < wild {
            return (n >> 56) as u8;
        }
        let noise = (n & 0xFF) + (n >> 8 & 0xFF) + (n >> 16 & 0xFF) + (n >> 24 & 0xFF);
        (30 + ground + noise / 74) as u8
    };
    (0..size.area() * channels).map(byte).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |key: &str| {
        let at = arguments.iter().position(|a| a == key)?;
        arguments.get(at + 1)?.parse::<u32>().ok()
    };
    let options = ContextOptions {
        sms: number("--sms"),
        device_limit: 8 << 30,
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
    let hd = Size::new(1920, 1080);
    let grey = PixelKind::Grey8;
    let mut cases = Vec::new();
    for size in [
        Size::new(256, 256),
        Size::new(640, 480),
        Size::new(1280, 720),
        hd,
    ] {
        cases.extend([(size, grey, 0, false), (size, PixelKind::Rgb8, 0, false)]);
    }
    for kind in [grey, PixelKind::Rgb8] {
        cases.extend([2, 10, 25, 50, 75, 100].map(|wild| (hd, kind, wild, false)));
        cases.push((hd, kind, 2, true));
    }
    for (size, kind, wild, shaken) in cases {
        let channels = if kind == grey { 1 } else { 3 };
        let plan = Plan::new(&context, &Params::default(), kind, size)?;
        let mut layout = ArenaLayout::new();
        let bytes = size.area() * channels;
        let shown = layout.reserve::<u8>("picture", bytes);
        let all = [(); PICTURES].map(|()| layout.reserve::<u8>("pictures", bytes));
        let motion = layout.reserve::<Motion>("motion", 1);
        let mask = layout.reserve::<u8>("mask", size.area());
        let verdict = layout.reserve::<u32>("verdict", 1);
        let arena = Arena::new(&context, "bench", layout)?;
        let shown = arena.buffer(shown)?;
        let mut pictures = Vec::new();
        for (t, slot) in all.into_iter().enumerate() {
            let buffer = arena.buffer(slot)?;
            stream.upload(&picture(size, channels, wild, t as u64), &buffer)?;
            pictures.push(buffer);
        }
        let mut moves = frame::Motion::of(MotionState::Still);
        if shaken {
            moves = frame::Motion::of(MotionState::SmallMotion);
            moves.homography[2] = 0.02;
        }
        let motion = arena.buffer(motion)?;
        stream.upload(&[Motion::from(moves)], &motion)?;
        let (mask, verdict) = (arena.buffer(mask)?, arena.buffer(verdict)?);
        let buffers = Buffers {
            image: &shown,
            motion: &motion,
            known_foreground: None,
            mask: &mask,
            verdict: &verdict,
        };
        let mut marks = vec![("start", Rc::new(Event::new(&context)?))];
        let marked = stream
            .capture::<GpuError>(|stream| {
                stream.record_in_graph(&marks[0].1)?;
                plan.enqueue_marked(stream, buffers, |name| {
                    let event = Rc::new(Event::new(&context)?);
                    stream.record_in_graph(&event)?;
                    marks.push((name, event));
                    Ok(())
                })
            })?
            .instantiate()?;
        let whole = stream
            .capture::<GpuError>(|stream| plan.enqueue(stream, buffers))?
            .instantiate()?;
        let (start, end) = (Event::new(&context)?, Event::new(&context)?);
        let mut all = Vec::new();
        let mut steps = vec![Vec::new(); marks.len() - 1];
        // The model settles before anything is timed.
        for i in 0..launches + 60 {
            let even = i % 2 == 0;
            stream.copy_on_device(&pictures[i % PICTURES], &shown)?;
            stream.record(&start)?;
            if even { &whole } else { &marked }.launch(&stream)?;
            stream.record(&end)?;
            stream.synchronize()?;
            if i < 60 {
                continue;
            }
            if even {
                all.push(end.microseconds_since(&start)?);
                continue;
            }
            for (n, pair) in marks.windows(2).enumerate() {
                steps[n].push(pair[1].1.microseconds_since(&pair[0].1)?);
            }
        }
        let mut moving = vec![0u8; size.area()];
        stream.download(&mask, &mut moving)?;
        let share = moving.iter().filter(|&&m| m == 255).count() as f64 / size.area() as f64;
        let (median, p99) = summary(&mut all);
        let kind_name = if channels == 1 { "grey" } else { "rgb" };
        let input = if shaken { "shaken" } else { "static" };
        let mut line = format!(
            "{size} {kind_name} {input} {wild} % random ({:.0} % moving): {median:.1} us, p99 {p99:.1};",
            100.0 * share
        );
        let mut json = serde_json::json!({
            "bench": "gpu_foreground", "gpu": context.device().name, "sms": context.sms(),
            "width": size.width, "height": size.height, "kind": kind_name, "input": input,
            "random_percent": wild, "launches": launches, "device_bytes": plan.device_bytes(),
            "median_us": median, "p99_us": p99,
        });
        for (n, times) in steps.iter_mut().enumerate() {
            let name = marks[n + 1].0;
            let (median, p99) = summary(times);
            line += &format!(" {name} {median:.1}");
            json["steps"][name] = serde_json::json!({"median_us": median, "p99_us": p99});
        }
        println!("{line}\n{json}");
    }
    Ok(())
}
