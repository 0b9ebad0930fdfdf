//! What the stereo stage takes on a GPU:
//! `gpu_stereo [--sms N] [--launches N] [--shape N] [--full] [--size WxH] [--input street|noise]`.
//! Times between events around and inside the launch of a graph, in microseconds; a line for
//! people and one of JSON for each size, input and number of paths.
use std::rc::Rc;

use roadloop::{
    cuda::*,
    frame::{Image, Rgb, Size},
    picture,
    source::synth::{Options, Street},
    stage::stereo::{Params, cuda},
};

/// Median and 99th percentile.
fn summary(times: &mut [f32]) -> (f32, f32) {
    times.sort_by(f32::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn street(size: Size) -> Result<[Vec<u8>; 2], Box<dyn std::error::Error>> {
    let options = Options {
        frames: 20,
        seed: 3,
        size,
        ..Options::default()
    };
    let frame = Street::new(&options)?.render(15);
    let grey = |rgb: &Rgb| -> Vec<u8> {
        let grey = Image::from_fn(size.width, size.height, |x, y| {
            picture::grey_of(rgb.get(x, y))
        });
        grey.pixels().copied().collect()
    };
    Ok([grey(&frame.left_rgb), grey(&frame.right_rgb)])
}

fn noise(size: Size) -> [Vec<u8>; 2] {
    let pixel = |i: usize| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8;
    [0, 7919].map(|salt| (0..size.area()).map(|i| pixel(i * 31 + salt)).collect())
}

/// GB/s of a kernel that reads memory, and of one that copies it (bytes read and written).
fn bandwidth(context: &Context, stream: &Stream) -> Result<[f32; 2], GpuError> {
    const WORDS: usize = 1 << 26;
    let read = Module::load(context, "selftest")?
        .function::<(DevicePtr<u32>, DevicePtr<u32>, u64)>("selftest_bandwidth")?;
    let mut layout = ArenaLayout::new();
    let slots = ["from", "to"].map(|name| layout.reserve::<u32>(name, WORDS));
    let arena = Arena::new(context, "bandwidth", layout)?;
    let [from, to] = [arena.buffer(slots[0])?, arena.buffer(slots[1])?];
    stream.fill(&from, 0u32)?;
    let (start, end) = (Event::new(context)?, Event::new(context)?);
    let mut best = [0f32; 2];
    for (copies, best) in best.iter_mut().enumerate() {
        let to = if copies == 1 {
            to.ptr()
        } else {
            DevicePtr::NULL
        };
        for _ in 0..20 {
            stream.record(&start)?;
            read.launch(
                stream,
                LaunchShape::linear(8 * context.sms(), 256),
                &(from.ptr(), to, WORDS as u64 / 4),
            )?;
            stream.record(&end)?;
            stream.synchronize()?;
            let bytes = (4 * WORDS * (1 + copies)) as f32;
            *best = best.max(bytes / end.microseconds_since(&start)? / 1000.0);
        }
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |key: &str| {
        let at = arguments.iter().position(|a| a == key)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let number = |key: &str| text(key)?.parse::<u32>().ok();
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
    let [reads, copies] = bandwidth(&context, &stream)?;
    println!("memory: {reads:.0} GB/s read, {copies:.0} GB/s copied (both ways)");
    let mut sizes = vec![Size::new(1280, 480), Size::new(1024, 768)];
    if arguments.iter().any(|a| a == "--full") {
        sizes.extend([
            Size::new(640, 480),
            Size::new(1024, 440),
            Size::new(1280, 720),
            Size::new(1920, 1080),
        ]);
    }
    if let Some((w, h)) = text("--size").and_then(|s| s.split_once('x')) {
        sizes = vec![Size::new(w.parse()?, h.parse()?)];
    }
    for size in sizes {
        for input in ["street", "noise"] {
            if text("--input").is_some_and(|only| only != input) {
                continue;
            }
            let images = if input == "street" {
                street(size)?
            } else {
                noise(size)
            };
            for paths in [4, 8] {
                if input == "noise" && paths == 8 {
                    continue;
                }
                let params = Params {
                    paths,
                    ..Params::default()
                };
                let mut layout = ArenaLayout::new();
                let reserved = cuda::Reserved::new(&params, size, false, &mut layout)?;
                let buffers = [(); 2].map(|()| layout.reserve::<u8>("image", size.area()));
                let out = layout.reserve::<u16>("disparity", size.area());
                let bytes = layout.bytes();
                let arena = Arena::new(&context, "stereo", layout)?;
                let plan = match number("--shape") {
                    Some(shape) => cuda::Plan::with_shape(
                        &context,
                        &stream,
                        &arena,
                        &reserved,
                        None,
                        cuda::PathShape::ALL[shape as usize % cuda::PathShape::ALL.len()],
                    )?,
                    None => cuda::Plan::new(&context, &stream, &arena, &reserved, None)?,
                };
                let [left, right] = [arena.buffer(buffers[0])?, arena.buffer(buffers[1])?];
                stream.upload(&images[0], &left)?;
                stream.upload(&images[1], &right)?;
                let out = arena.buffer(out)?;

                // Once with events between the steps, once without.
                let mut marks = vec![("start", Rc::new(Event::new(&context)?))];
                let marked = stream.capture::<GpuError>(|stream| {
                    stream.record_in_graph(&marks[0].1)?;
                    plan.enqueue_marked(stream, &left, &right, &out, |name| {
                        let event = Rc::new(Event::new(&context)?);
                        stream.record_in_graph(&event)?;
                        marks.push((name, event));
                        Ok(())
                    })
                })?;
                let marked = marked.instantiate()?;
                let whole = stream
                    .capture::<GpuError>(|stream| plan.enqueue(stream, &left, &right, &out))?
                    .instantiate()?;
                let (start, end) = (Event::new(&context)?, Event::new(&context)?);
                let mut all = Vec::with_capacity(launches);
                let mut steps = vec![Vec::with_capacity(launches); marks.len()];
                for i in 0..launches + 20 {
                    stream.record(&start)?;
                    whole.launch(&stream)?;
                    stream.record(&end)?;
                    stream.synchronize()?;
                    let time = end.microseconds_since(&start)?;
                    marked.launch(&stream)?;
                    stream.synchronize()?;
                    if i < 20 {
                        continue;
                    }
                    all.push(time);
                    for (n, pair) in marks.windows(2).enumerate() {
                        steps[n].push(pair[1].1.microseconds_since(&pair[0].1)?);
                    }
                    // Up to the median, which is what other implementations do.
                    let median = marks.iter().position(|m| m.0 == "median").unwrap_or(1);
                    steps[marks.len() - 1].push(marks[median].1.microseconds_since(&marks[0].1)?);
                }
                let (median, p99) = summary(&mut all);
                let mut line =
                    format!("{size} {input} {paths} paths: {median:.0} us, p99 {p99:.0};");
                let mut json = serde_json::json!({
                    "bench": "gpu_stereo", "gpu": context.device().name, "sms": context.sms(),
                    "width": size.width, "height": size.height, "input": input, "paths": paths,
                    "disparities": params.disparities, "launches": launches, "device_bytes": bytes,
                    "median_us": median, "p99_us": p99,
                });
                for (n, times) in steps.iter_mut().enumerate() {
                    let name = marks.get(n + 1).map_or("up to the median filter", |m| m.0);
                    let (median, p99) = summary(times);
                    line += &format!(" {name} {median:.1}");
                    json["steps"][name] = serde_json::json!({"median_us": median, "p99_us": p99});
                }
                println!("{line}\n{json}");
            }
        }
    }
    Ok(())
}
