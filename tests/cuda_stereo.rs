//! Is the stereo stage on the GPU that on the CPU, byte for byte?
mod common;
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use std::{collections::BTreeMap, path::Path};

use gpu::{device, host, random, setup};
use roadloop::{
    cuda::*,
    frame::{Disparity, INVALID, Image, Mask, Size},
    picture::{self, Picture},
    source::synth::{Options, Street},
    stage::{
        Stage as _,
        stereo::{self, Input, Params, cuda},
    },
};

gpu_tests![
    the_street,
    real_pairs,
    shapes_at_the_edges_of_blocks,
    any_parameters,
    small_images,
    tall_and_wide,
    a_thousand_runs_of_a_graph;
    always: wrong_masks_are_refused_before_anything_is_allocated,
];

fn upload(context: &Context, stream: &Stream, image: &Image<u8>) -> DeviceBuffer<u8> {
    device(
        context,
        stream,
        &image.pixels().copied().collect::<Vec<_>>(),
    )
}

/// The GPU's result, from memory full of rubbish, twice.
fn on_gpu(
    (context, stream): (&Context, &Stream),
    params: &Params,
    (left, right): (&Image<u8>, &Image<u8>),
    mask: Option<&Mask>,
    shape: cuda::PathShape,
) -> Disparity {
    let size = left.size();
    let mut layout = ArenaLayout::new();
    let reserved = cuda::Reserved::new(params, size, mask.is_some(), &mut layout).unwrap();
    let arena = Arena::new(context, "stereo", layout).unwrap();
    arena.fill(stream, 0xa5).unwrap();
    let plan = cuda::Plan::with_shape(context, stream, &arena, &reserved, mask, shape).unwrap();
    let (left, right) = (
        upload(context, stream, left),
        upload(context, stream, right),
    );
    let out = device(context, stream, &vec![7u16; size.area()]);
    let mut runs = Vec::new();
    for _ in 0..2 {
        plan.enqueue(stream, &left, &right, &out).unwrap();
        runs.push(host(stream, &out, 0));
        stream.fill(&out, 9u16).unwrap();
    }
    assert!(
        runs[0] == runs[1],
        "a second run differs: {size}, {params:?}"
    );
    Image::from_vec(size.width, size.height, runs.remove(0)).unwrap()
}

fn on_cpu(
    params: &Params,
    (left, right): (&Image<u8>, &Image<u8>),
    mask: Option<&Mask>,
) -> Disparity {
    let mut plan = stereo::cpu::Plan::new(params, left.size(), mask).unwrap();
    let mut out = Disparity::filled(left.width(), left.height(), 7);
    plan.run(Input { left, right }, &mut out);
    out
}

/// Compares; gives the part of valid pixels.
fn check(
    gpu: (&Context, &Stream),
    params: &Params,
    pair: (&Image<u8>, &Image<u8>),
    mask: Option<&Mask>,
) -> f64 {
    let size = pair.0.size();
    let cpu = on_cpu(params, pair, mask);
    for shape in cuda::PathShape::ALL {
        let found = on_gpu(gpu, params, pair, mask, shape);
        for (y, (a, b)) in cpu.rows().zip(found.rows()).enumerate() {
            if let Some(x) = a.iter().zip(b).position(|(a, b)| a != b) {
                panic!(
                    "({x}, {y}) of {size}: {} on the CPU, {} on the GPU, {shape:?}, mask {}, {params:?}",
                    a[x],
                    b[x],
                    mask.is_some()
                );
            }
        }
    }
    let valid = cpu.pixels().filter(|&&d| d != INVALID).count();
    valid as f64 / size.area() as f64
}

/// Noise, and a right image that is the left one shifted by parts, so that something matches.
fn noise(size: Size, seed: u64, levels: u64) -> (Image<u8>, Image<u8>) {
    let Size { width, height } = size;
    let noise = |x: usize, y: usize| {
        let mut v = seed ^ (x as u64) << 32 ^ (y as u64) << 8;
        for _ in 0..3 {
            v = (v ^ v >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        (v >> 32 & levels) as u8
    };
    let left = Image::from_fn(width, height, noise);
    let right = Image::from_fn(width, height, |x, y| {
        noise(x + 3 + 5 * (y / 4) + x / 9, y).saturating_add((seed & 3) as u8)
    });
    (left, right)
}

fn street(size: Size, seed: u64) -> (Image<u8>, Image<u8>) {
    let options = Options {
        frames: 20,
        seed,
        size,
        ..Options::default()
    };
    let frame = Street::new(&options).unwrap().render(15);
    let grey = |rgb: &roadloop::frame::Rgb| {
        Image::from_fn(size.width, size.height, |x, y| {
            picture::grey_of(rgb.get(x, y))
        })
    };
    (grey(&frame.left_rgb), grey(&frame.right_rgb))
}

fn the_street() {
    let (context, stream) = setup();
    for (size, disparities, paths) in [
        (Size::new(1280, 480), 128, 4),
        (Size::new(1280, 480), 128, 8),
        (Size::new(1024, 440), 128, 4),
        (Size::new(633, 375), 64, 4),
        (Size::new(633, 375), 64, 8),
        (Size::new(801, 333), 256, 4),
        (Size::new(801, 333), 256, 8),
    ] {
        let (left, right) = street(size, 3);
        let params = Params {
            disparities,
            paths,
            ..Params::default()
        };
        let mask = Mask::from_fn(size.width, size.height, |x, y| {
            u8::from(y < size.height * 9 / 10 || x < size.width / 4)
        });
        let density = check((&context, &stream), &params, (&left, &right), None);
        println!(
            "  street {size} D {disparities} {paths} paths: equal, {:.1} % valid",
            100. * density
        );
        assert!(density > 0.5);
        check((&context, &stream), &params, (&left, &right), Some(&mask));
        check((&context, &stream), &params, (&right, &left), None);
    }
}

fn grey(path: &Path) -> Image<u8> {
    match picture::read(path).unwrap() {
        Picture::Grey8(image) => image,
        Picture::Rgb8(rgb) => Image::from_fn(rgb.width(), rgb.height(), |x, y| {
            picture::grey_of(rgb.get(x, y))
        }),
        Picture::Grey16(_) => panic!("{} has 16 bits", path.display()),
    }
}

/// Up to three pairs of each real drive that is there.
fn real_pairs() {
    let (context, stream) = setup();
    for (folder, left, right) in [
        ("kitti2015/training", "image_2", "image_3"),
        ("kitti_odom_06", "image_l", "image_r"),
    ] {
        let Some(root) = common::data(folder) else {
            continue;
        };
        let mut pairs = BTreeMap::new();
        for entry in std::fs::read_dir(root.join(left)).unwrap() {
            let path = entry.unwrap().path();
            let other = root.join(right).join(path.file_name().unwrap());
            if other.exists() {
                pairs.insert(path, other);
            }
        }
        assert!(!pairs.is_empty(), "no pairs in {}", root.display());
        for (left, right) in pairs.into_iter().take(3) {
            let pair = (&grey(&left), &grey(&right));
            for paths in [4, 8] {
                let params = Params {
                    paths,
                    ..Params::default()
                };
                let density = check((&context, &stream), &params, pair, None);
                println!(
                    "  {} {paths} paths: equal, {:.1} % valid",
                    left.display(),
                    100. * density
                );
            }
        }
    }
}

/// Widths and heights at and beside the sizes of blocks, tiles and lanes.
fn shapes_at_the_edges_of_blocks() {
    let (context, stream) = setup();
    let sizes = [
        (1, 1),
        (1, 31),
        (31, 1),
        (2, 2),
        (33, 32),
        (64, 16),
        (65, 17),
        (127, 31),
        (128, 8),
        (129, 7),
        (2, 375),
        (3, 1025),
        (7, 1023),
        (1024, 2),
        (300, 9),
        (257, 33),
    ];
    for (i, (w, h)) in sizes.into_iter().enumerate() {
        for disparities in [64, 128, 256] {
            for paths in [4, 8] {
                let params = Params {
                    disparities,
                    paths,
                    speckle_max_area_px: 10,
                    ..Params::default()
                };
                let size = Size::new(w, h);
                let (left, right) = noise(size, i as u64, if i % 2 == 0 { 255 } else { 1 });
                let mask = Mask::from_fn(w, h, |x, y| u8::from((x * 7 + y * 3 + i) % 13 > 1));
                check((&context, &stream), &params, (&left, &right), None);
                check((&context, &stream), &params, (&left, &right), Some(&mask));
            }
        }
    }
}

/// A few small images and both numbers of paths: what a sanitizer, which makes everything some
/// hundred times slower, gets through (`cuda_stereo small_images`).
fn small_images() {
    let (context, stream) = setup();
    for (w, h) in [(37, 9), (66, 4), (300, 2)] {
        for (disparities, paths) in [(64, 8), (128, 4), (128, 8), (256, 4)] {
            let params = Params {
                disparities,
                paths,
                speckle_max_area_px: 10,
                ..Params::default()
            };
            let (left, right) = noise(Size::new(w, h), 3, 255);
            let mask = Mask::from_fn(w, h, |x, y| u8::from((x * 7 + y * 3) % 13 > 1));
            check((&context, &stream), &params, (&left, &right), Some(&mask));
        }
    }
}

/// Parameters at their limits and between, on noise with and without a match, masks of holes,
/// and images without any texture.
fn any_parameters() {
    let (context, stream) = setup();
    for seed in 0..150u64 {
        let mut dice = random(seed);
        let mut up_to = |n: u64| dice.next().unwrap() % (n + 1);
        let mut penalties = [up_to(100), up_to(124), up_to(124)].map(|p| p as u16);
        penalties.sort_unstable();
        if up_to(9) == 0 {
            penalties = [0, 0, 224];
        }
        if up_to(9) == 0 {
            penalties = [0, 0, 0];
        }
        let params = Params {
            disparities: [64, 128, 256][up_to(2) as usize],
            paths: [4, 8][up_to(1) as usize],
            p1: penalties[0],
            p2_min: penalties[1],
            p2: penalties[2],
            p2_half_step: (up_to(1) * up_to(255)) as u16,
            uniqueness_percent: (up_to(1) * up_to(99)) as u16,
            left_right: up_to(3) > 0,
            left_right_max_px: up_to(4) as u16,
            subpixel: up_to(3) > 0,
            median: up_to(3) > 0,
            speckle_max_area_px: (up_to(2) * up_to(40)) as u32,
            speckle_max_step_px: up_to(8) as u16,
            gap_max_px: (up_to(2) * up_to(20)) as u16,
            gap_max_step_px: up_to(20) as u16,
        };
        let size = Size::new(1 + up_to(400) as usize, 1 + up_to(60) as usize);
        let levels = [0, 1, 15, 255][up_to(3) as usize];
        let (left, right) = noise(size, seed, levels);
        let hole = up_to(12) as usize;
        let mask = match up_to(5) {
            0 => Some(Mask::from_fn(size.width, size.height, |x, y| {
                u8::from((x * 7 + y * 3 + hole) % 13 > 1 && x + y != 20)
            })),
            1 => Some(Mask::new(size.width, size.height)),
            _ => None,
        };
        check((&context, &stream), &params, (&left, &right), mask.as_ref());
    }
}

fn tall_and_wide() {
    let (context, stream) = setup();
    for (w, h) in [(101, 2160), (4096, 19), (16_384, 3), (130, 1024)] {
        let size = Size::new(w, h);
        let (left, right) = noise(size, 5, 255);
        check(
            (&context, &stream),
            &Params::default(),
            (&left, &right),
            None,
        );
        let params = Params {
            paths: 8,
            disparities: 256,
            speckle_max_area_px: 1000,
            speckle_max_step_px: 255,
            gap_max_px: 16_384,
            gap_max_step_px: 255,
            ..Params::default()
        };
        check((&context, &stream), &params, (&left, &right), None);
    }
}

fn a_thousand_runs_of_a_graph() {
    let (context, stream) = setup();
    let size = Size::new(640, 240);
    let (left, right) = street(size, 1);
    let params = Params::default();
    let expected: Vec<u16> = on_cpu(&params, (&left, &right), None)
        .pixels()
        .copied()
        .collect();
    let mut layout = ArenaLayout::new();
    let reserved = cuda::Reserved::new(&params, size, false, &mut layout).unwrap();
    let arena = Arena::new(&context, "stereo", layout).unwrap();
    let plan = cuda::Plan::new(&context, &stream, &arena, &reserved, None).unwrap();
    let (left, right) = (
        upload(&context, &stream, &left),
        upload(&context, &stream, &right),
    );
    let out = device(&context, &stream, &vec![0u16; size.area()]);
    let to = Pinned::<u16>::new(&context, "disparity", size.area()).unwrap();
    let graph = stream
        .capture::<GpuError>(|stream| {
            plan.enqueue(stream, &left, &right, &out)?;
            stream.copy_to_host(&out, &to)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    for run in 0..1000 {
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(to.read().unwrap()[..] == expected[..], "run {run} differs");
    }
}

fn wrong_masks_are_refused_before_anything_is_allocated() {
    let mut layout = ArenaLayout::new();
    let refused = cuda::Reserved::new(&Params::default(), Size::new(0, 5), false, &mut layout);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "stereo: images of 0x5, expected 1x1 to 16384x16384"
    );
    assert_eq!(layout.bytes(), 0);
    cuda::Reserved::new(&Params::default(), Size::new(1280, 480), false, &mut layout).unwrap();
    let bytes = layout.bytes() as f64 / (1280. * 480.);
    assert!(
        5. * 128. < bytes && bytes < 5. * 128. + 50.,
        "{bytes} bytes a pixel"
    );
}
