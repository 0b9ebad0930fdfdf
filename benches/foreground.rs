//! What does the foreground stage take on one thread, by size and by the share of random pixels?
//! Processor time.
#[path = "common/thread_time.rs"]
mod thread_time;

use std::hint::black_box;

use roadloop::{
    frame::{Foreground, Image, MonoImage, Motion, MotionState, PixelKind, Size},
    stage::{
        Stage as _,
        foreground::{
            Params,
            cpu::{Input, Plan},
        },
    },
};

fn hash(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A ground with noise of 2 levels; of 100 pixels so many are anything.
fn picture(kind: PixelKind, size: Size, wild: u64, t: u64) -> MonoImage {
    let byte = |x: usize, y: usize, c: u64| {
        let i = (y * size.width + x) as u64;
        let n = hash(i | t << 40 | c << 50);
        if hash(i | t << 40 | 1 << 60) % 100 < wild {
            return (n >> 56) as u8;
        }
        let noise = (n & 0xFF) + (n >> 8 & 0xFF) + (n >> 16 & 0xFF) + (n >> 24 & 0xFF);
        (30 + hash(i ^ c << 50) % 180 + noise / 74) as u8
    };
    let (w, h) = (size.width, size.height);
    match kind {
        PixelKind::Grey8 => MonoImage::Grey8(Image::from_fn(w, h, |x, y| byte(x, y, 0))),
        PixelKind::Grey16 => {
            MonoImage::Grey16(Image::from_fn(w, h, |x, y| u16::from(byte(x, y, 0)) << 8))
        }
        PixelKind::Rgb8 => MonoImage::Rgb8(Image::from_fn(w, h, |x, y| {
            [0, 1, 2].map(|c| byte(x, y, c))
        })),
    }
}

fn main() {
    let sizes = [(256, 256), (640, 480), (1280, 720), (1920, 1080)].map(|(w, h)| Size::new(w, h));
    let vga = sizes[1];
    let mut cases = Vec::new();
    for size in sizes {
        cases.extend([(PixelKind::Grey8, size, 0), (PixelKind::Rgb8, size, 0)]);
    }
    for kind in [PixelKind::Grey8, PixelKind::Rgb8] {
        cases.extend([2, 10, 25, 50, 75, 100].map(|wild| (kind, vga, wild)));
    }
    cases.push((PixelKind::Grey16, vga, 0));
    for (kind, size, wild) in cases {
        let pictures: Vec<_> = (0..8).map(|t| picture(kind, size, wild, t)).collect();
        let mut plan = Plan::new(&Params::default(), kind, size).expect("defaults");
        let mut out = Foreground::new(size);
        let motion = Motion::of(MotionState::Still);
        let mut t = 0;
        let times = thread_time::thread_time(40, 40, || {
            t += 1;
            let input = Input {
                image: &pictures[t % pictures.len()],
                motion: &motion,
                known_foreground: None,
            };
            plan.run(input, &mut out);
            black_box(&out);
        });
        let case = format!("{} {wild} % random", kind.name());
        thread_time::tell("foreground", &case, &size.to_string(), times);
    }
}
