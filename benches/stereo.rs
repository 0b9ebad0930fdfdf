//! What one thread takes for a frame of the stereo stage.
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use roadloop::{
    frame::{Disparity, Image, Size},
    stage::{
        Stage as _,
        stereo::{Input, Params, cpu::Plan},
    },
};

/// Smooth noise over a slanted ground, so that the filters have something to do.
fn pair(size: Size) -> (Image<u8>, Image<u8>) {
    let noise = |x: usize, y: usize| {
        let mut v = (x as u64) << 20 ^ y as u64;
        for _ in 0..3 {
            v = (v ^ v >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        (v >> 40 & 63) as u8
    };
    let texture = |x: usize, y: usize| noise(x / 3, y / 2) + noise(x, y) / 4 + 60;
    let left = Image::from_fn(size.width, size.height, texture);
    let right = Image::from_fn(size.width, size.height, |x, y| texture(x + y / 8, y));
    (left, right)
}

fn bench(c: &mut Criterion) {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("a thread");
    let mut group = c.benchmark_group("stereo");
    group.sample_size(10);
    for (w, h) in [(640, 480), (1024, 440), (1226, 370), (1280, 720)] {
        let size = Size::new(w, h);
        let (left, right) = pair(size);
        for paths in [4, 8] {
            let params = Params {
                paths,
                ..Params::default()
            };
            let id = BenchmarkId::new(format!("{paths} paths"), size);
            group.bench_function(id, |b| {
                pool.install(|| {
                    let mut plan = Plan::new(&params, size, None).expect("default parameters");
                    let mut out = Disparity::new(w, h);
                    b.iter(|| {
                        let (left, right) = (black_box(&left), black_box(&right));
                        plan.run(Input { left, right }, &mut out);
                    });
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
