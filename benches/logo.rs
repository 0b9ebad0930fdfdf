//! What one thread takes for the features of an image, and for matching them. Processor time.
#[path = "common/thread_time.rs"]
mod thread_time;

use std::hint::black_box;

use roadloop::{
    frame::{Image, Size},
    stage::logo::features::{Descriptor, FeatureParams, Features, cpu::Plan, matcher},
};

fn hash(a: usize, b: usize, c: usize) -> u64 {
    let mut v = (a as u64) << 40 ^ (b as u64) << 20 ^ c as u64;
    for _ in 0..3 {
        v = (v ^ v >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    v >> 32
}

/// Squares of several sizes over a little noise.
fn picture(size: Size) -> Image<u8> {
    Image::from_fn(size.width, size.height, |x, y| {
        let grey: u64 = [4, 11, 23, 57]
            .map(|n| hash(x / n, y / n, n) % 48)
            .iter()
            .sum();
        (20 + grey + hash(x, y, 1) % 6) as u8
    })
}

fn main() {
    let squares = [32, 64, 128, 256, 512, 1024, 2048, 4096].map(|n| (n, n));
    for (w, h) in squares
        .into_iter()
        .chain([(640, 480), (1280, 720), (1920, 1080)])
    {
        let size = Size::new(w, h);
        let image = picture(size);
        for (name, params) in [
            ("default", FeatureParams::default()),
            (
                "upsample",
                FeatureParams {
                    sigma0: 1.6,
                    upsample: true,
                    ..FeatureParams::default()
                },
            ),
            ("paper", FeatureParams::paper()),
        ] {
            if name != "default" && w > 2048 {
                continue;
            }
            let mut plan = Plan::new(&params, size).expect("parameters");
            let mut out = Features::new(&params);
            let runs = if size.area() > 1 << 20 { 4 } else { 10 };
            let times = thread_time::thread_time(1, runs, || plan.run(black_box(&image), &mut out));
            let case = format!("{name}, {} keypoints", out.keypoints.len());
            thread_time::tell("logo features", &case, &size.to_string(), times);
        }
    }
    for n in [100, 1000, 10_000] {
        let some = |salt| -> Vec<Descriptor> {
            (0..n)
                .map(|i| Descriptor(std::array::from_fn(|w| hash(i, w, salt) as u32)))
                .collect()
        };
        let (query, train) = (some(1), some(2));
        let groups: Vec<u32> = (0..n as u32).map(|i| i / 3).collect();
        let mut out = Vec::with_capacity(n);
        let runs = if n == 10_000 { 5 } else { 40 };
        let size = format!("{n} x {n}");
        let times = thread_time::thread_time(1, runs, || {
            matcher::two_nearest(black_box(&query), &train, &mut out);
        });
        thread_time::tell("logo matches", "two nearest", &size, times);
        let times = thread_time::thread_time(1, runs, || {
            matcher::two_nearest_apart(black_box(&query), &train, &groups, &mut out);
        });
        thread_time::tell("logo matches", "two nearest apart", &size, times);
    }
}
