//! What a whole frame takes, from the raw pair to stixels, on the synthetic street; and the
//! rectification alone. Decoding and writing are not in it: they run in threads of their own.
use std::{
    hint::black_box,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use roadloop::{
    calib::{self, Pair, Rig},
    config::Config,
    frame::{FrameId, FrameResult, FrameSet, Gap, Image, Rgb, Size, StereoFrame},
    frame_loop::{CpuBackend, FrameLoop, MonotonicClock, Pace, Shape},
    picture::grey_of,
    sink::{Sink, SinkError, View},
    source::{
        Next, Source,
        synth::{Options, Street},
    },
    stage::{
        Stage as _,
        rectify::{Input, Rectified, cpu::Plan},
    },
};

const SIZES: [(usize, usize); 4] = [(640, 480), (1024, 440), (1226, 370), (1280, 720)];

fn grey(image: &Rgb) -> Image<u8> {
    Image::from_fn(image.width(), image.height(), |x, y| {
        grey_of(image.get(x, y))
    })
}

/// The same frame, again and again.
#[expect(clippy::vec_box, reason = "frame sets change hands in their boxes")]
struct Again {
    left: usize,
    spare: Vec<Box<FrameSet>>,
}

impl Source for Again {
    fn next(&mut self, _wait_ns: u64) -> Next {
        match (self.left, self.spare.pop()) {
            (0, _) => Next::End,
            (_, Some(set)) => {
                self.left -= 1;
                Next::Frame(set)
            }
            (_, None) => Next::Nothing,
        }
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.spare.push(set);
    }
}

/// Takes results and forgets them.
struct Nowhere;

impl Sink for Nowhere {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        black_box(result);
        Ok(())
    }

    fn gap(&mut self, _id: FrameId, _gap: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Frames through the loop, timed from the first to the last.
fn run(frames: u64, config: &Config, rig: &Rig, set: &FrameSet) -> Duration {
    let size = set.stereo.as_ref().expect("a pair").left.size();
    let shape = Shape {
        size,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    let rectification = rig.rectification(size).expect("a rig of this size");
    let mut backend = CpuBackend::new(config, &rectification, &shape).expect("defaults fit");
    let slot = backend.slot();
    let mut source = Again {
        left: frames as usize,
        spare: vec![Box::new(set.clone()); 2],
    };
    let start = Instant::now();
    FrameLoop::new(
        &mut backend,
        &MonotonicClock,
        slot,
        &config.frame_loop,
        Pace::Max,
    )
    .run(&mut source, &mut Nowhere, &AtomicBool::new(false))
    .expect("nothing to write");
    start.elapsed()
}

fn whole_frame(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    group.sample_size(10);
    for (w, h) in SIZES {
        let size = Size::new(w, h);
        let options = Options {
            size,
            ..Options::default()
        };
        let street = Street::new(&options).expect("a size that is drawn");
        let rendered = street.render(20);
        let mut set = StereoFrame::new(size);
        set.left = grey(&rendered.left_rgb);
        set.right = Some(grey(&rendered.right_rgb));
        let rig = Rig::rectified(street.camera());
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("threads");
            let id = BenchmarkId::new(format!("{threads} threads"), size);
            group.bench_function(id, |b| {
                b.iter_custom(|n| {
                    pool.install(|| run(n, &Config::default(), &rig, &set.clone().into()))
                });
            });
        }
    }
    group.finish();
}

fn rectify(c: &mut Criterion) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/calib/euroc_v1.yaml");
    let rig = calib::read(file.as_ref(), Pair::First).expect("a rig of our own");
    let size = rig.image_size().expect("a size");
    let rectification = rig
        .rectification(size)
        .expect("a rig that can be rectified");
    let mut plan = Plan::new(&rectification, size, None).expect("the same size");
    let left = Image::from_fn(size.width, size.height, |x, y| (x * 7 + y * 13) as u8);
    let mut out = Rectified::new(size, true, false);
    c.bench_function("rectify/pair 752x480", |b| {
        b.iter(|| {
            let left = black_box(&left);
            plan.run(
                Input {
                    left,
                    right: Some(left),
                    left_rgb: None,
                },
                &mut out,
            );
        });
    });
}

criterion_group!(benches, rectify, whole_frame);
criterion_main!(benches);
