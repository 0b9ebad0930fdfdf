//! Is the camera's motion over a sequence of frames on the GPU the CPU's, bit by bit?
mod common;
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use gpu::{device, host, random, setup};
use roadloop::{
    cuda::*,
    frame::{self, Image, Mask, MonoImage, MotionState, PixelKind, Rgb, Size},
    maths::random::hash,
    picture::{self, Picture},
    source::synth::{self, Street},
    stage::{
        Stage as _,
        egomotion::{
            Input, Params, cpu,
            cuda::{Motion, Plan},
        },
    },
};

gpu_tests![
    real_drives_give_the_same_motions,
    a_shaken_real_camera_gives_the_same_motions,
    a_drive_gives_the_same_motions,
    every_shape_and_kind_gives_the_same_motions,
    every_state_comes_at_the_same_frame,
    parameters_count_alike,
    masked_pixels_count_alike,
    a_thousand_runs_give_one_motion,
    small_motions; always: the_host_lays_the_motion_out_as_the_kernels
];

fn the_host_lays_the_motion_out_as_the_kernels() {
    assert_eq!((size_of::<Motion>(), align_of::<Motion>()), (44, 4));
    for (i, state) in MotionState::ALL.into_iter().enumerate() {
        let motion = frame::Motion {
            state,
            homography: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0],
            tracked: 300,
            inliers: 200,
        };
        assert_eq!(Motion::from(motion).state, i as u32);
        assert_eq!(frame::Motion::from(Motion::from(motion)), motion);
    }
}

fn bits(motion: &Motion) -> (u32, u16, u16, [u32; 9]) {
    let homography = motion.homography.map(f32::to_bits);
    (motion.state, motion.tracked, motion.inliers, homography)
}

fn bytes(image: &MonoImage) -> Vec<u8> {
    match image {
        MonoImage::Grey8(image) => image.pixels().copied().collect(),
        MonoImage::Grey16(image) => image.pixels().flat_map(|v| v.to_le_bytes()).collect(),
        MonoImage::Rgb8(image) => image.pixels().flatten().copied().collect(),
    }
}

/// One plan of each kind, frame after frame.
struct Both {
    stream: Stream,
    gpu: Plan,
    cpu: cpu::Plan,
    image: DeviceBuffer<u8>,
    speed: DeviceBuffer<f32>,
    out: DeviceBuffer<Motion>,
}

impl Both {
    fn new(params: &Params, kind: PixelKind, size: Size) -> Self {
        Self::with_mask(params, kind, size, None)
    }

    fn with_mask(params: &Params, kind: PixelKind, size: Size, mask: Option<&Mask>) -> Self {
        let (context, stream) = setup();
        let black = bytes(&MonoImage::new(kind, size));
        Self {
            gpu: Plan::with_mask(&context, params, kind, size, mask).unwrap(),
            cpu: cpu::Plan::with_mask(params, kind, size, mask).unwrap(),
            image: device(&context, &stream, &black),
            speed: device(&context, &stream, &[0f32]),
            out: device(&context, &stream, &[Motion::default()]),
            stream,
        }
    }

    fn for_frames(image: &MonoImage) -> Self {
        Self::new(&Params::default(), image.kind(), image.size())
    }

    fn same(&mut self, image: &MonoImage, speed_mps: Option<f32>, what: &str) -> frame::Motion {
        let mut expected = frame::Motion::default();
        self.cpu.run(Input { image, speed_mps }, &mut expected);
        self.stream.upload(&bytes(image), &self.image).unwrap();
        let speed = speed_mps.map(|speed| {
            self.stream.upload(&[speed], &self.speed).unwrap();
            &self.speed
        });
        self.gpu
            .enqueue(&self.stream, &self.image, speed, &self.out)
            .unwrap();
        let found = host(&self.stream, &self.out, Motion::default())[0];
        assert_eq!(
            bits(&found),
            bits(&expected.into()),
            "{what}: {found:?}, CPU {expected:?}"
        );
        expected
    }

    fn reset(&mut self) {
        self.cpu.reset();
        self.gpu.reset(&self.stream).unwrap();
    }
}

fn read(path: &std::path::Path) -> MonoImage {
    match picture::read(path).unwrap() {
        Picture::Grey8(i) => MonoImage::Grey8(i),
        Picture::Grey16(i) => MonoImage::Grey16(i),
        Picture::Rgb8(i) => MonoImage::Rgb8(i),
    }
}

/// The pictures of a folder in order; none where it does not exist.
fn pictures(drive: &str, folder: &str) -> Vec<MonoImage> {
    let Some(dir) = common::data(drive) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(dir.join(folder)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.iter().take(120).map(|p| read(p)).collect()
}

fn real_drives_give_the_same_motions() {
    for (drive, folder, state) in [
        ("kitti_odom_06", "image_l", MotionState::Driving),
        ("cdnet_highway", "input", MotionState::Still),
    ] {
        let frames = pictures(drive, folder);
        let Some(first) = frames.first() else {
            continue;
        };
        let mut both = Both::for_frames(first);
        let mut seen = 0;
        for (i, image) in frames.iter().enumerate() {
            let motion = both.same(image, None, &format!("{drive}, frame {i}"));
            seen += usize::from(motion.state == state);
        }
        println!("{drive}: {seen} of {} {}", frames.len(), state.name());
        assert!(seen * 100 >= 95 * (frames.len() - 1));
    }
}

fn a_shaken_real_camera_gives_the_same_motions() {
    let frames = pictures("cdnet_highway", "input");
    let part = |image: &Rgb, dx: usize, dy: usize| {
        MonoImage::Rgb8(Image::from_fn(310, 230, |x, y| image.get(x + dx, y + dy)))
    };
    let mut both = Both::new(&Params::default(), PixelKind::Rgb8, Size::new(310, 230));
    let mut small = 0;
    for (i, image) in frames.iter().enumerate() {
        let MonoImage::Rgb8(image) = image else {
            continue;
        };
        let offset = |axis| (hash(3, i as u32, axis) % 7) as usize;
        let image = part(image, offset(0), offset(1));
        let motion = both.same(&image, None, &format!("shaken, frame {i}"));
        small += usize::from(motion.state == MotionState::SmallMotion);
    }
    println!("shaken: {small} of {} small_motion", frames.len());
}

fn a_drive_gives_the_same_motions() {
    let options = synth::Options {
        frames: 20,
        size: Size::new(641, 375),
        motion: synth::Motion::Mixed,
        ..synth::Options::default()
    };
    let street = Street::new(&options).unwrap();
    let mut both = Both::new(&Params::default(), PixelKind::Rgb8, options.size);
    let mut states = Vec::new();
    for i in 0..options.frames {
        let image = MonoImage::Rgb8(street.render(i).left_rgb);
        states.push(both.same(&image, None, &format!("frame {i}")).state);
    }
    assert!(states.contains(&MotionState::Still), "{states:?}");
    assert!(states.contains(&MotionState::Driving), "{states:?}");
}

/// Blotches, seen `(dx, dy)` px further right and down.
fn wall(size: Size, dx: f64, dy: f64) -> Image<u8> {
    Image::from_fn(size.width, size.height, |x, y| {
        let (x, y) = ((x as f64 + dx) / 7.0 + 500.0, (y as f64 + dy) / 7.0 + 500.0);
        let (a, b) = (x.fract(), y.fract());
        let at = |i: u32, j: u32| f64::from(hash(1, x as u32 + i, y as u32 + j) >> 24);
        let top = at(0, 0) * (1.0 - a) + at(1, 0) * a;
        let bottom = at(0, 1) * (1.0 - a) + at(1, 1) * a;
        (top * (1.0 - b) + bottom * b) as u8
    })
}

fn noise(size: Size, seed: u32) -> Image<u8> {
    Image::from_fn(size.width, size.height, |x, y| {
        (hash(seed, x as u32, y as u32) >> 24) as u8
    })
}

fn as_kind(image: &Image<u8>, kind: PixelKind) -> MonoImage {
    let Size { width, height } = image.size();
    match kind {
        PixelKind::Grey8 => MonoImage::Grey8(image.clone()),
        PixelKind::Grey16 => MonoImage::Grey16(Image::from_fn(width, height, |x, y| {
            u16::from(image.get(x, y)) * 255 + 31
        })),
        PixelKind::Rgb8 => MonoImage::Rgb8(Image::from_fn(width, height, |x, y| {
            let v = image.get(x, y);
            [v, v / 2 + (x % 64) as u8, 255 - v]
        })),
    }
}

fn every_shape_and_kind_gives_the_same_motions() {
    let shapes = [
        (1, 1),
        (1, 40),
        (40, 1),
        (16, 16),
        (31, 33),
        (33, 31),
        (32, 32),
        (97, 101),
        (320, 63),
        (641, 375),
        (1242, 375),
        (500, 1023),
        (65, 1025),
        (1920, 1080),
        (300, 2160),
    ];
    for (w, h) in shapes {
        let size = Size::new(w, h);
        for kind in [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8] {
            let mut both = Both::new(&Params::default(), kind, size);
            for (i, dx) in [0.0, 0.0, 2.5, 12.0, 12.3].into_iter().enumerate() {
                let image = as_kind(&wall(size, dx, 0.7 * dx), kind);
                both.same(&image, None, &format!("{size} {kind:?}, wall {i}"));
            }
            for seed in 0..2 {
                let image = as_kind(&noise(size, seed), kind);
                both.same(&image, None, &format!("{size} {kind:?}, noise {seed}"));
            }
            for value in [0, 255] {
                let image = as_kind(&Image::filled(w, h, value), kind);
                both.same(&image, None, &format!("{size} {kind:?}, flat {value}"));
            }
        }
    }
}

fn every_state_comes_at_the_same_frame() {
    let size = Size::new(320, 240);
    let mut both = Both::new(&Params::default(), PixelKind::Grey8, size);
    let mut states = Vec::new();
    for i in 0..200u32 {
        let r = |k| f64::from(hash(5, i, k)) / f64::from(u32::MAX);
        let (mut image, mut speed) = match i {
            0..10 => (wall(size, 0.0, 0.0), None),
            10..20 => (wall(size, 6.0 * r(0), 6.0 * r(1)), None),
            20..30 => (wall(size, 5.0, 5.0), None),
            30..45 => (Image::filled(320, 240, 9), None),
            45..48 => (noise(size, i), None),
            48..60 => (wall(size, 0.1 * f64::from(i), 0.0), None),
            60..70 => (wall(size, 0.0, 0.0), Some(r(0) as f32 / 4.0)),
            70..75 => (wall(size, 4.0 * r(1), 0.0), Some(f32::NAN)),
            _ => {
                // Stripes that each move as they like: parallax.
                let n = 1 + i as usize / 40;
                let mut image = wall(size, 0.0, 0.0);
                for y in 0..240 {
                    let band = (y * n / 240) as u32;
                    let moved = f64::from(i * (hash(6, band, i / 30) % 5));
                    let row = wall(Size::new(320, 1), moved, y as f64);
                    image.row_mut(y).copy_from_slice(row.row(0));
                }
                (image, None)
            }
        };
        if i == 150 {
            both.reset();
        }
        if (100..120).contains(&i) {
            let gain = 0.5 + r(2);
            for row in image.rows_mut() {
                for v in row {
                    *v = (f64::from(*v) * gain).min(255.0) as u8;
                }
            }
        }
        if i == 199 {
            speed = Some(-3.0);
        }
        let image = MonoImage::Grey8(image);
        states.push(both.same(&image, speed, &format!("frame {i}")).state);
    }
    for state in MotionState::ALL {
        let n = states.iter().filter(|s| **s == state).count();
        println!("{}: {n}", state.name());
        assert!(n > 2, "{state:?} in {states:?}");
    }
}

fn parameters_count_alike() {
    let size = Size::new(417, 291);
    let mut numbers = random(5);
    let mut share = || (numbers.next().unwrap() >> 40) as f32 / (1u64 << 24) as f32;
    for round in 0..20 {
        let still_px = 0.1 + share();
        let params = Params {
            grey16_shift: 8,
            min_texture: 10.0 + 2000.0 * share(),
            min_correlation: share(),
            max_return_px: 0.1 + share(),
            hypotheses: 1 + (700.0 * share()) as u32,
            inlier_px: 0.2 + 2.0 * share(),
            min_points: 4 + (40.0 * share()) as u32,
            lost_share: share(),
            still_px,
            stay_px: still_px + share(),
            drift_px: 0.05 + share(),
            creep_px: 0.1 + 2.0 * share(),
            sway_ratio: 0.1 * share(),
            standing_share: share(),
            small_motion_share: share(),
            still_frames: 1 + round % 5,
            hold_frames: 1 + round % 3,
            standing_mps: share(),
        };
        let mut both = Both::new(&params, PixelKind::Grey8, size);
        for i in 0..12 {
            let image = if i % 7 == 6 {
                noise(size, i)
            } else {
                wall(size, f64::from(3.0 * share()), f64::from(share()))
            };
            let what = format!("round {round}, frame {i}: {params:?}");
            both.same(&MonoImage::Grey8(image), None, &what);
        }
    }
}

fn masked_pixels_count_alike() {
    for (w, h) in [(20, 20), (67, 101), (321, 243), (640, 480)] {
        let size = Size::new(w, h);
        let mask = Image::from_fn(w, h, |x, y| {
            let spot = x / 40 % 3 == 1 && y / 30 % 3 == 1;
            u8::from(!(spot || 5 * y > 4 * h + x / 8)) * 9
        });
        for kind in [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8] {
            let mut both = Both::with_mask(&Params::default(), kind, size, Some(&mask));
            for t in 0..10u32 {
                let (dx, dy) = (hash(1, t, 0) % 4, hash(1, t, 1) % 3);
                let grey = |x: usize, y: usize| {
                    let (u, v) = (x as u32 + dx, y as u32 + dy);
                    (30 + hash(2, u / 7, v / 6) % 190) as u8
                };
                let image = match kind {
                    PixelKind::Grey8 => MonoImage::Grey8(Image::from_fn(w, h, grey)),
                    PixelKind::Grey16 => {
                        MonoImage::Grey16(Image::from_fn(w, h, |x, y| u16::from(grey(x, y)) << 8))
                    }
                    PixelKind::Rgb8 => {
                        MonoImage::Rgb8(Image::from_fn(w, h, |x, y| [grey(x, y), grey(y, x), 99]))
                    }
                };
                both.same(&image, None, &format!("{size} {kind:?} frame {t}"));
            }
        }
    }
}

fn a_thousand_runs_give_one_motion() {
    let size = Size::new(640, 480);
    let (context, stream) = setup();
    let plan = Plan::new(&context, &Params::default(), PixelKind::Grey8, size).unwrap();
    let frames = [0.0, 3.5].map(|dx| {
        let pixels: Vec<u8> = wall(size, dx, 0.0).pixels().copied().collect();
        device(&context, &stream, &pixels)
    });
    let out = device(&context, &stream, &[Motion::default()]);
    let graph = stream
        .capture::<GpuError>(|stream| {
            plan.reset(stream)?;
            plan.enqueue(stream, &frames[0], None, &out)?;
            plan.enqueue(stream, &frames[1], None, &out)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    let mut first = None;
    for run in 0..1000 {
        graph.launch(&stream).unwrap();
        let motion = bits(&host(&stream, &out, Motion::default())[0]);
        assert_eq!(*first.get_or_insert(motion), motion, "run {run}");
    }
    assert_eq!(first.unwrap().0, 2, "small motion");
}

/// Every kernel, small enough for the sanitizers.
fn small_motions() {
    let params = Params {
        hypotheses: 64,
        ..Params::default()
    };
    for (w, h) in [(1, 1), (70, 51), (129, 97)] {
        let size = Size::new(w, h);
        for kind in [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8] {
            let mut both = Both::new(&params, kind, size);
            for (i, dx) in [0.0, 0.0, 1.5, 9.0].into_iter().enumerate() {
                let image = as_kind(&wall(size, dx, 0.7 * dx), kind);
                both.same(&image, None, &format!("{size} {kind:?}, wall {i}"));
            }
            both.reset();
            let image = as_kind(&noise(size, 1), kind);
            both.same(&image, Some(0.0), &format!("{size} {kind:?}, noise"));
        }
    }
}
