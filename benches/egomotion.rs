//! What does the egomotion stage cost a frame? Run with `RAYON_NUM_THREADS=1` for one thread;
//! before each measurement stands the least processor time of a frame on one thread, which other
//! programs disturb less.
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use roadloop::{
    frame::{Image, MonoImage, Motion, PixelKind, Size},
    maths::random::hash,
    stage::{
        Stage as _,
        egomotion::{Input, Params, cpu::Plan},
    },
};

/// Blotches with some noise, moved to the left.
fn scene(size: Size, shift: usize) -> MonoImage {
    let blotch = |x: usize, y: usize| hash(1, (x / 9) as u32, (y / 7) as u32) >> 24;
    MonoImage::Grey8(Image::from_fn(size.width, size.height, |x, y| {
        let noise = hash(2 + shift as u32, x as u32, y as u32) >> 30;
        let smooth: u32 = (0..4)
            .map(|i| blotch(x + shift + 3 * (i % 2), y + 3 * (i / 2)))
            .sum();
        (smooth / 4).min(250) as u8 + noise as u8
    }))
}

/// The least processor time that a frame took one thread.
fn alone(plan: &mut Plan, frames: &[MonoImage; 2]) -> Duration {
    let now = || {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.expect("one thread").install(|| {
        let mut motion = Motion::default();
        let mut frame = |i: usize| {
            let image = &frames[i % 2];
            let start = now();
            plan.run(
                Input {
                    image,
                    speed_mps: None,
                },
                &mut motion,
            );
            now() - start
        };
        (0..60).map(&mut frame).skip(2).min().unwrap_or_default()
    })
}

fn egomotion(c: &mut Criterion) {
    let mut group = c.benchmark_group("egomotion");
    for (width, height) in [(320, 240), (640, 480), (1280, 480), (1920, 1080)] {
        let size = Size::new(width, height);
        let mut plan = Plan::new(&Params::default(), PixelKind::Grey8, size)
            .expect("default parameters are valid");
        let mut motion = Motion::default();
        for (name, step) in [("standing", 0), ("moving", 11)] {
            let frames = [scene(size, 0), scene(size, step)];
            println!("{size} {name}: {:?}", alone(&mut plan, &frames));
            let mut next = 0;
            group.bench_function(format!("{width}x{height}/{name}"), |b| {
                b.iter(|| {
                    let input = Input {
                        image: &frames[next % 2],
                        speed_mps: None,
                    };
                    plan.run(input, &mut motion);
                    next += 1;
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, egomotion);
criterion_main!(benches);
