//! What features and matches take on a GPU: `gpu_logo [--sms N] [--launches N] [--full]`. Times between
//! events around and inside the launch of a graph, in microseconds; a line for people and one of
//! JSON for each size and input. Last the whole stage at 1280x720 with five templates, three of which
//! are in the picture, from the picture in host memory to the tracks there: wall time of a frame,
//! for each turn of the search that templates take.
//! `--stage` has that alone.
use std::{
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
};

use roadloop::{
    config::Config,
    cuda::*,
    evaluate::logos::{
        composite::{Chance, Master, Placing, add_noise, lay},
        marks::MARKS,
    },
    frame::{FrameId, FrameResult, FrameSet, Gap, Image, MonoFrame, MonoImage, PixelKind, Size},
    frame_loop::{CudaMono, FrameLoop, MonoShape, MonotonicClock, Pace, Slot},
    picture,
    sink::{Sink, SinkError, View},
    source::{
        Next, Source,
        synth::{Options, Street},
    },
    stage::logo::{
        BuildOptions, Templates,
        features::{
            FeatureParams,
            cuda::{Counts, Match, Matcher, Plan, Train},
        },
    },
};

/// Median and 99th percentile.
fn summary(times: &mut [f32]) -> (f32, f32) {
    times.sort_by(f32::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn hash(a: usize, b: usize, c: usize) -> u64 {
    let mut v = (a as u64) << 40 ^ (b as u64) << 20 ^ c as u64;
    for _ in 0..3 {
        v = (v ^ v >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    v >> 32
}

/// Squares of several sizes over a little noise: more points than the budget.
fn squares(size: Size) -> Image<u8> {
    Image::from_fn(size.width, size.height, |x, y| {
        let grey: u64 = [4, 11, 23, 57]
            .map(|n| hash(x / n, y / n, n) % 48)
            .iter()
            .sum();
        (20 + grey + hash(x, y, 1) % 6) as u8
    })
}

fn street(size: Size) -> Result<Image<u8>, Box<dyn std::error::Error>> {
    let options = Options {
        frames: 20,
        seed: 3,
        size,
        ..Options::default()
    };
    let rgb = Street::new(&options)?.render(15).left_rgb;
    Ok(Image::from_fn(size.width, size.height, |x, y| {
        picture::grey_of(rgb.get(x, y))
    }))
}

fn buffer<T: Element>(
    context: &Context,
    stream: &Stream,
    values: &[T],
) -> Result<DeviceBuffer<T>, GpuError> {
    let mut layout = ArenaLayout::new();
    let slot = layout.reserve::<T>("bench", values.len());
    let buffer = Arena::new(context, "bench", layout)?.buffer(slot)?;
    stream.upload(values, &buffer)?;
    Ok(buffer)
}

/// Median and 99th percentile of a graph's launches.
fn time(
    context: &Context,
    stream: &Stream,
    graph: &mut GraphExec,
    launches: usize,
) -> Result<(f32, f32), GpuError> {
    let (start, end) = (Event::new(context)?, Event::new(context)?);
    let mut times = Vec::with_capacity(launches);
    for i in 0..launches + 20 {
        stream.record(&start)?;
        graph.launch(stream)?;
        stream.record(&end)?;
        stream.synchronize()?;
        if i >= 20 {
            times.push(end.microseconds_since(&start)?);
        }
    }
    Ok(summary(&mut times))
}

/// A wall with three of the first five marks.
fn wall(size: Size) -> Image<u8> {
    let mut image = Image::from_fn(size.width, size.height, |x, y| {
        let (a, b) = (x / 24, y / 17);
        (100 + (a * 13 + b * 29 + a * b * 7) % 60) as u8
    });
    for (mark, x) in [(0, 60.0), (1, 500.0), (3, 800.0)] {
        let width = 90.0 * MARKS[mark].aspect;
        let placing = Placing {
            mark,
            quad: [
                [x, 300.0],
                [x + width, 310.0],
                [x + width, 400.0],
                [x, 390.0],
            ],
            height: 90.0,
            turn_deg: 0.0,
            gain: 0.9,
            smear: [2.0, 0.0],
        };
        lay(&mut image, &Master::new(&MARKS[mark]), &placing);
    }
    add_noise(&mut image, &mut Chance(1), 3.0);
    image
}

/// One picture again and again.
struct Shown {
    set: FrameSet,
    #[expect(clippy::vec_box, reason = "frame sets change hands in their boxes")]
    spare: Vec<Box<FrameSet>>,
    left: usize,
}

impl Source for Shown {
    fn next(&mut self, _wait_ns: u64) -> Next {
        if self.left == 0 {
            return Next::End;
        }
        let Some(mut set) = self.spare.pop() else {
            return Next::Nothing;
        };
        // The slot's own set, on its first round.
        if set.mono.is_none() {
            *set = self.set.clone();
        }
        self.left -= 1;
        Next::Frame(set)
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.spare.push(set);
    }
}

/// What the loop says of the stage's time, us.
#[derive(Default)]
struct Stage {
    times: Vec<f32>,
    tracks: usize,
}

impl Sink for Stage {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let ns: u64 = result.timing.stages.iter().map(|s| s.duration_ns).sum();
        self.times.push(ns as f32 / 1000.0);
        self.tracks = result.logos.as_ref().map_or(0, |logos| logos.len());
        Ok(())
    }

    fn gap(&mut self, _id: FrameId, _gap: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

fn stage(context: &Context, frames: usize) -> Result<(), Box<dyn std::error::Error>> {
    let size = Size::new(1280, 720);
    let config = Config::default();
    let pictures = (0..5).map(|i| {
        let (grey, alpha) = MARKS[i].picture(128);
        (MARKS[i].name.to_owned(), grey, Some(alpha))
    });
    let features = &config.logo.features;
    let templates = Templates::of_pictures(pictures.collect(), features, &BuildOptions::default())?;
    let descriptors: usize = templates.list().iter().map(|t| t.descriptors().len()).sum();
    let shape = MonoShape {
        kind: PixelKind::Grey8,
        size,
        foreground: false,
        logos: Some(Arc::new(templates)),
        mask: None,
    };
    let mut mono = CudaMono::new(context, &config, &shape)?;
    let mut slot = Slot::empty();
    shape.furnish(&mut slot);
    let mut picture = MonoFrame::new(shape.kind, size);
    picture.image = MonoImage::Grey8(wall(size));
    let set = FrameSet {
        mono: Some(picture),
        ..FrameSet::default()
    };
    let mut shown = Shown {
        spare: vec![Box::new(set.clone()), Box::new(set.clone())],
        set,
        left: frames + 20,
    };
    let mut stage = Stage::default();
    FrameLoop::new(
        &mut mono,
        &MonotonicClock,
        slot,
        &config.frame_loop,
        Pace::Max,
    )
    .run(&mut shown, &mut stage, &AtomicBool::new(false))?;
    let tracks = stage.tracks;
    // Every so many frames all of the image is searched: those take longer.
    let turn = config.logo.full_search_frames as usize;
    let mut turns = vec![Vec::new(); turn];
    for (i, us) in stage.times.into_iter().enumerate().skip(20) {
        turns[i % turn].push(us);
    }
    for (n, times) in turns.iter_mut().enumerate() {
        let what = format!("frame {n} of {turn}");
        let (median, p99) = summary(times);
        println!(
            "whole logo stage {size}, 5 templates of {descriptors} descriptors, {tracks} tracks, \
             {what}: {median:.0} us, p99 {p99:.0}"
        );
        let json = serde_json::json!({
            "bench": "gpu_logo_stage", "gpu": context.device().name, "sms": context.sms(),
            "width": size.width, "height": size.height, "templates": 5_u32,
            "descriptors": descriptors, "tracks": tracks, "frames": what, "launches": times.len(),
            "median_us": median, "p99_us": p99,
        });
        println!("{json}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |key: &str| {
        let at = arguments.iter().position(|a| a == key)?;
        arguments.get(at + 1)?.parse::<u32>().ok()
    };
    let options = ContextOptions {
        sms: number("--sms"),
        device_limit: 16 << 30,
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
    let full = arguments.iter().any(|a| a == "--full");
    if arguments.iter().any(|a| a == "--stage") {
        return stage(&context, launches);
    }
    let hd = Size::new(1280, 720);
    let default = FeatureParams {
        // About 1,000 keypoints with second orientations.
        max_keypoints: 850,
        ..FeatureParams::default()
    };
    let upsample = FeatureParams {
        sigma0: 1.6,
        upsample: true,
        ..default.clone()
    };
    let mut cases = vec![
        ("street", street(hd)?, &default),
        ("squares", squares(hd), &default),
    ];
    if full {
        cases.push(("squares, upsampled", squares(hd), &upsample));
        for n in [32, 64, 128, 256, 512, 1024, 2048, 4096] {
            cases.push(("squares", squares(Size::new(n, n)), &default));
        }
        for (w, h) in [(640, 480), (1920, 1080)] {
            cases.push(("squares", squares(Size::new(w, h)), &default));
        }
    }
    for (input, image, params) in cases {
        let size = image.size();
        let plan = Plan::new(&context, params, size)?;
        let pixels: Vec<u8> = image.pixels().copied().collect();
        let pixels = buffer(&context, &stream, &pixels)?;
        let mut marks = vec![("start", Rc::new(Event::new(&context)?))];
        let marked = stream.capture::<GpuError>(|stream| {
            stream.record_in_graph(&marks[0].1)?;
            plan.enqueue_marked(stream, &pixels, |name| {
                let event = Rc::new(Event::new(&context)?);
                stream.record_in_graph(&event)?;
                marks.push((name, event));
                Ok(())
            })
        })?;
        let marked = marked.instantiate()?;
        let mut whole = stream
            .capture::<GpuError>(|stream| plan.enqueue(stream, &pixels))?
            .instantiate()?;
        let (median, p99) = time(&context, &stream, &mut whole, launches)?;
        let mut steps = vec![Vec::with_capacity(launches); marks.len() - 1];
        for _ in 0..launches {
            marked.launch(&stream)?;
            stream.synchronize()?;
            for (times, pair) in steps.iter_mut().zip(marks.windows(2)) {
                times.push(pair[1].1.microseconds_since(&pair[0].1)?);
            }
        }
        let mut counts = [Counts::default()];
        stream.download(&plan.found().counts, &mut counts)?;
        let [counts] = counts;
        let mut line = format!(
            "{size} {input}: {median:.0} us, p99 {p99:.0}; {} extrema, {} points, {} keypoints;",
            counts.candidates, counts.found, counts.count
        );
        let mut json = serde_json::json!({
            "bench": "gpu_logo", "gpu": context.device().name, "sms": context.sms(),
            "width": size.width, "height": size.height, "input": input, "launches": launches,
            "device_bytes": plan.device_bytes(), "points": counts.found, "keypoints": counts.count,
            "median_us": median, "p99_us": p99,
        });
        for (times, mark) in steps.iter_mut().zip(&marks[1..]) {
            let (median, p99) = summary(times);
            line += &format!(" {} {median:.1}", mark.0);
            json["steps"][mark.0] = serde_json::json!({"median_us": median, "p99_us": p99});
        }
        println!("{line}\n{json}");
    }

    let matcher = Matcher::new(&context)?;
    for n in if full {
        vec![100, 1000, 10_000]
    } else {
        vec![1000]
    } {
        let some = |salt| -> Vec<[u32; 8]> {
            (0..n)
                .map(|i| std::array::from_fn(|w| hash(i, w, salt) as u32))
                .collect()
        };
        let query = buffer(&context, &stream, &some(1))?;
        let train = buffer(&context, &stream, &some(2))?;
        let count = buffer(&context, &stream, &[n as u32])?;
        let out = buffer(&context, &stream, &vec![Match::default(); n])?;
        let train = Train {
            descriptors: &train,
            count: &count,
            groups: None,
        };
        let mut graph = stream
            .capture::<GpuError>(|stream| {
                matcher.enqueue_lists(stream, &query, &count, train, &out)
            })?
            .instantiate()?;
        let (median, p99) = time(&context, &stream, &mut graph, launches)?;
        println!("2-NN {n} x {n}: {median:.1} us, p99 {p99:.1}");
        let json = serde_json::json!({
            "bench": "gpu_logo_match", "gpu": context.device().name, "sms": context.sms(),
            "query": n, "train": n, "launches": launches, "median_us": median, "p99_us": p99,
        });
        println!("{json}");
    }
    stage(&context, launches)
}
