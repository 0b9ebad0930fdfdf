//! Is the foreground of a sequence of frames on the GPU the CPU's, and the model too, bit by bit?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use gpu::{device, host, random, setup};
use roadloop::{
    cuda::*,
    frame::{
        self, Foreground, ForegroundState, Image, Mask, MonoImage, MotionState, PixelKind, Size,
    },
    stage::{
        Stage as _,
        foreground::{
            Params,
            cpu::{self, Input},
            cuda::{Buffers, Motion, Plan, RestoreError, state_of},
        },
    },
};

gpu_tests![
    every_shape_gives_the_same_masks_and_models,
    parameters_count_alike,
    noise_and_flat_pictures_count_alike,
    a_moving_camera_is_followed_alike,
    steps_of_the_gain_are_evened_out_alike,
    known_foreground_counts_alike,
    masked_pixels_count_alike,
    rates_and_snapshots_count_alike,
    a_captured_frame_follows_the_frames_before,
    buffers_of_other_sizes_are_refused,
    small_masks; always: the_host_lays_motion_out_as_the_kernels
];

const KINDS: [PixelKind; 3] = [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8];

fn the_host_lays_motion_out_as_the_kernels() {
    assert_eq!((size_of::<Motion>(), align_of::<Motion>()), (44, 4));
    for (n, state) in MotionState::ALL.into_iter().enumerate() {
        assert_eq!(Motion::from(frame::Motion::of(state)).state, n as u32);
    }
    let states = [0, 1, 2, 3, 4].map(state_of);
    assert_eq!(states[1], ForegroundState::Valid);
    assert_eq!(states[4], ForegroundState::Skipped);
}

/// A ground in patches, noise, and shares of pixels that are something else.
#[derive(Clone, Copy)]
struct Scene {
    kind: PixelKind,
    size: Size,
    seed: u64,
    /// Of 64 pixels, how many are anything.
    wild: u64,
    /// In 1/64.
    gain: u64,
    shift: (i32, i32),
}

impl Scene {
    fn new(kind: PixelKind, size: Size, seed: u64) -> Self {
        Self {
            kind,
            size,
            seed,
            wild: 3,
            gain: 64,
            shift: (0, 0),
        }
    }

    fn picture(&self, t: u64) -> MonoImage {
        let mut noise = random(self.seed ^ (t << 32));
        let mut level = |x: usize, y: usize, c: u64| {
            let (x, y) = (x as i32 - self.shift.0, y as i32 - self.shift.1);
            let cell = (x.div_euclid(5) * 7919 + y.div_euclid(4)) as u32;
            let ground = random(self.seed ^ u64::from(cell) ^ (c << 60))
                .next()
                .unwrap()
                % 50000;
            let n = noise.next().unwrap();
            let level = match n % 64 {
                k if k < self.wild => n >> 48,
                k if k < self.wild + 2 => ground * 3 / 4,
                _ => 6000 + ground + (n >> 32) % 1500,
            };
            (level * self.gain / 64).min(65535) as u16
        };
        let (w, h) = (self.size.width, self.size.height);
        match self.kind {
            PixelKind::Grey8 => {
                MonoImage::Grey8(Image::from_fn(w, h, |x, y| (level(x, y, 0) >> 8) as u8))
            }
            PixelKind::Grey16 => MonoImage::Grey16(Image::from_fn(w, h, |x, y| level(x, y, 0))),
            PixelKind::Rgb8 => MonoImage::Rgb8(Image::from_fn(w, h, |x, y| {
                [0, 1, 2].map(|c| (level(x, y, c) >> 8) as u8)
            })),
        }
    }
}

fn bytes(image: &MonoImage) -> Vec<u8> {
    match image {
        MonoImage::Grey8(i) => i.pixels().copied().collect(),
        MonoImage::Grey16(i) => i.pixels().flat_map(|p| p.to_le_bytes()).collect(),
        MonoImage::Rgb8(i) => i.pixels().flatten().copied().collect(),
    }
}

/// One plan of each kind, frame after frame.
struct Both {
    context: Context,
    stream: Stream,
    gpu: Plan,
    cpu: cpu::Plan,
    out: Foreground,
    image: DeviceBuffer<u8>,
    mask: DeviceBuffer<u8>,
    verdict: DeviceBuffer<u32>,
    frames: usize,
}

impl Both {
    fn new(params: &Params, kind: PixelKind, size: Size) -> Self {
        Self::with_mask(params, kind, size, None)
    }

    fn with_mask(params: &Params, kind: PixelKind, size: Size, mask: Option<&Mask>) -> Self {
        let (context, stream) = setup();
        let image = bytes(&MonoImage::new(kind, size));
        Self {
            gpu: Plan::with_mask(&context, params, kind, size, mask).unwrap(),
            cpu: cpu::Plan::with_mask(params, kind, size, mask).unwrap(),
            out: Foreground::new(size),
            image: device(&context, &stream, &image),
            mask: device(&context, &stream, &vec![9u8; size.area()]),
            verdict: device(&context, &stream, &[77u32]),
            frames: 0,
            context,
            stream,
        }
    }

    fn frame(&mut self, image: &MonoImage, motion: &frame::Motion, known: Option<&Mask>) {
        self.frames += 1;
        let input = Input {
            image,
            motion,
            known_foreground: known,
        };
        self.cpu.run(input, &mut self.out);
        self.stream.upload(&bytes(image), &self.image).unwrap();
        let motion = device(&self.context, &self.stream, &[Motion::from(*motion)]);
        let known = known.map(|known| {
            let pixels: Vec<u8> = known.pixels().copied().collect();
            device(&self.context, &self.stream, &pixels)
        });
        let buffers = Buffers {
            image: &self.image,
            motion: &motion,
            known_foreground: known.as_ref(),
            mask: &self.mask,
            verdict: &self.verdict,
        };
        self.gpu.enqueue(&self.stream, buffers).unwrap();
        self.compare();
    }

    fn compare(&self) {
        let what = format!("{} frame {}", self.out.mask.size(), self.frames);
        let state = state_of(host(&self.stream, &self.verdict, 0)[0]);
        assert_eq!(state, self.out.state, "{what}");
        let gain = self.gpu.gain(&self.stream).unwrap();
        assert_eq!(gain.to_bits(), self.cpu.gain().to_bits(), "gain, {what}");
        let mask = host(&self.stream, &self.mask, 0);
        let wrong = mask
            .iter()
            .zip(self.out.mask.pixels())
            .position(|(a, b)| a != b);
        assert_eq!(wrong, None, "mask, {what}");
        let (gpu, cpu) = (
            self.gpu.snapshot(&self.stream).unwrap(),
            self.cpu.snapshot(),
        );
        let wrong = gpu.iter().zip(&cpu).position(|(a, b)| a != b);
        assert!(gpu == cpu, "model, {what}: byte {wrong:?} of {}", cpu.len());
    }

    fn still(&mut self, scene: Scene, frames: u64) {
        for t in 0..frames {
            let image = scene.picture(self.frames as u64 + t * 1000);
            self.frame(&image, &frame::Motion::of(MotionState::Still), None);
        }
    }
}

fn quick() -> Params {
    Params {
        warm_up_frames: 3,
        history_frames: 40,
        ..Params::default()
    }
}

fn every_shape_gives_the_same_masks_and_models() {
    let sizes = [
        (1, 1),
        (1, 37),
        (41, 1),
        (3, 3),
        (16, 16),
        (31, 33),
        (127, 9),
        (129, 17),
        (320, 31),
        (333, 75),
        (17, 1025),
        (1021, 40),
    ];
    for (n, (w, h)) in sizes.into_iter().enumerate() {
        for kind in KINDS {
            let size = Size::new(w, h);
            Both::new(&quick(), kind, size).still(Scene::new(kind, size, n as u64), 12);
        }
    }
}

fn parameters_count_alike() {
    let size = Size::new(93, 21);
    let mut noise = random(11);
    for n in 0..40u64 {
        let mut pick = |from: &[f32]| from[noise.next().unwrap() as usize % from.len()];
        let params = Params {
            modes: pick(&[1.0, 2.0, 3.0, 4.0, 5.0]) as usize,
            history_frames: pick(&[1.0, 7.0, 30.0, 500.0]) as u32,
            learning_rate: [None, None, Some(0.05), Some(0.5), Some(1.0)][n as usize % 5],
            warm_up_frames: pick(&[1.0, 4.0]) as u32,
            match_threshold: pick(&[2.0, 6.0, 40.0]),
            background_threshold: pick(&[4.0, 16.0, 36.0]),
            background_ratio: pick(&[0.0, 0.3, 0.6, 0.9, 1.0]),
            variance_init: pick(&[4.0, 15.0, 60.0]),
            complexity_prior: pick(&[0.0, 0.05, 0.5]),
            shadow: [None, Some(true), Some(false)][n as usize % 3],
            median_px: pick(&[0.0, 3.0, 5.0]) as u32,
            gain_compensation: n % 4 != 0,
            ..Params::default()
        };
        let kind = KINDS[n as usize % 3];
        let mut both = Both::new(&params, kind, size);
        let scene = Scene {
            wild: 8,
            ..Scene::new(kind, size, n)
        };
        both.still(scene, 20);
    }
}

fn noise_and_flat_pictures_count_alike() {
    let size = Size::new(200, 60);
    for kind in KINDS {
        let mut both = Both::new(&quick(), kind, size);
        for wild in [64, 0, 64, 20] {
            let scene = Scene {
                wild,
                ..Scene::new(kind, size, wild)
            };
            both.still(scene, 6);
        }
        let flat = MonoImage::new(kind, size);
        for _ in 0..5 {
            both.frame(&flat, &frame::Motion::of(MotionState::Still), None);
        }
    }
}

fn a_moving_camera_is_followed_alike() {
    for (kind, size) in [
        (PixelKind::Grey8, Size::new(211, 120)),
        (PixelKind::Rgb8, Size::new(320, 90)),
        (PixelKind::Grey16, Size::new(64, 64)),
        (PixelKind::Grey8, Size::new(16, 5)),
    ] {
        let mut both = Both::new(&quick(), kind, size);
        let mut scene = Scene::new(kind, size, 5);
        both.frame(&scene.picture(0), &frame::Motion::default(), None);
        both.still(scene, 8);
        let mut noise = random(3);
        let mut small = |scale: f32| (noise.next().unwrap() % 2001) as f32 * 1e-3 * scale - scale;
        for t in 0..40u64 {
            let to = if t > 30 {
                (scene.shift.0 + 9, 0)
            } else {
                ((t as i32 * 5) % 7 - 3, (t as i32 * 3) % 7 - 3)
            };
            let mut motion = frame::Motion::of(MotionState::SmallMotion);
            motion.homography = [
                1.0 + small(3e-4),
                small(3e-4),
                (scene.shift.0 - to.0) as f32 + small(0.2),
                small(3e-4),
                1.0 + small(3e-4),
                (scene.shift.1 - to.1) as f32 + small(0.2),
                small(1e-6),
                small(1e-6),
                1.0,
            ];
            scene.shift = to;
            let known = Image::from_fn(size.width, size.height, |x, y| u8::from(x / 9 + y == 7));
            let known = (t % 3 == 0).then_some(&known);
            both.frame(&scene.picture(t), &motion, known);
            if t % 5 == 4 {
                both.still(scene, 1);
            }
            if t == 20 {
                let unknown = frame::Motion::default();
                both.frame(&scene.picture(t), &unknown, None);
            }
        }
        let driving = frame::Motion::of(MotionState::Driving);
        both.frame(&scene.picture(1), &driving, None);
        both.still(scene, 6);
        let mut broken = frame::Motion::of(MotionState::SmallMotion);
        broken.homography[4] = f32::NAN;
        both.frame(&scene.picture(2), &broken, None);
        both.still(scene, 5);
    }
}

fn steps_of_the_gain_are_evened_out_alike() {
    let size = Size::new(400, 300);
    for kind in KINDS {
        let mut both = Both::new(&quick(), kind, size);
        for gain in [64, 67, 70, 77, 58, 64, 90, 30] {
            let scene = Scene {
                gain,
                ..Scene::new(kind, size, 9)
            };
            both.still(scene, 4);
        }
    }
}

fn known_foreground_counts_alike() {
    let size = Size::new(101, 33);
    for kind in KINDS {
        let mut both = Both::new(&quick(), kind, size);
        let scene = Scene::new(kind, size, 2);
        for t in 0..10u64 {
            let mut noise = random(t);
            let known = Image::from_fn(size.width, size.height, |_, _| {
                u8::from(noise.next().unwrap().is_multiple_of(5)) * 3
            });
            let motion = frame::Motion::of(MotionState::Still);
            both.frame(&scene.picture(t), &motion, Some(&known));
        }
    }
}

/// At rest, shaken, and with pixels that are known too.
fn masked_pixels_count_alike() {
    for (w, h) in [(101, 33), (128, 96), (17, 5), (3, 70)] {
        let size = Size::new(w, h);
        let mut noise = random(5);
        let mask = Image::from_fn(w, h, |x, y| {
            let speck = noise.next().unwrap().is_multiple_of(40);
            u8::from(!(speck || 3 * y > 2 * h + x / 4)) * 7
        });
        for kind in KINDS {
            let mut both = Both::with_mask(&quick(), kind, size, Some(&mask));
            let mut scene = Scene::new(kind, size, 2);
            for t in 0..24u64 {
                let mut motion = frame::Motion::of(MotionState::Still);
                if t >= 10 {
                    let step = [(1, 0), (0, 1), (-1, 0), (0, -1)][t as usize % 4];
                    scene.shift = (scene.shift.0 + step.0, scene.shift.1 + step.1);
                    motion = frame::Motion::of(MotionState::SmallMotion);
                    motion.homography[2] = -step.0 as f32 + 0.04;
                    motion.homography[5] = -step.1 as f32;
                }
                let known = Image::from_fn(w, h, |x, _| u8::from(x % 9 < 3));
                let known = (t % 4 == 1).then_some(&known);
                both.frame(&scene.picture(t), &motion, known);
                let hidden = both.out.mask.pixels().zip(mask.pixels());
                assert!(hidden.filter(|p| *p.1 == 0).all(|p| *p.0 == 0));
            }
        }
    }
}

fn rates_and_snapshots_count_alike() {
    let size = Size::new(77, 40);
    for kind in KINDS {
        let mut both = Both::new(&quick(), kind, size);
        let scene = Scene::new(kind, size, 4);
        both.still(scene, 8);
        both.cpu.set_learning_rate(Some(0.0)).unwrap();
        both.gpu.set_learning_rate(&both.stream, Some(0.0)).unwrap();
        let before = both.gpu.snapshot(&both.stream).unwrap();
        both.still(scene, 3);
        assert!(both.gpu.snapshot(&both.stream).unwrap() == before);
        both.cpu.set_learning_rate(None).unwrap();
        both.gpu.set_learning_rate(&both.stream, None).unwrap();
        both.still(scene, 2);
        // The GPU's model on the CPU, and back.
        let bytes = both.gpu.snapshot(&both.stream).unwrap();
        let mut other = Both::new(&quick(), kind, size);
        other.cpu.restore(&bytes).unwrap();
        other
            .gpu
            .restore(&other.stream, &both.cpu.snapshot())
            .unwrap();
        other.still(scene, 3);
        let mut damaged = bytes;
        damaged[30] ^= 4;
        let error = other.gpu.restore(&other.stream, &damaged).unwrap_err();
        assert!(matches!(error, RestoreError::Snapshot(_)), "{error}");
        other.cpu.restore(&damaged).unwrap_err();
        other.still(scene, 3);
        other.cpu.reset();
        other.gpu.reset(&other.stream).unwrap();
        other.still(scene, 3);
        // A frame that is not looked at.
        let mut motion = frame::Motion::of(MotionState::SmallMotion);
        motion.homography[2] = 1.5;
        other.cpu.skip(&motion);
        let on_device = device(&other.context, &other.stream, &[Motion::from(motion)]);
        other
            .gpu
            .enqueue_skip(&other.stream, &on_device, &other.verdict)
            .unwrap();
        assert_eq!(host(&other.stream, &other.verdict, 0), [4]);
        other.still(scene, 2);
    }
}

fn a_captured_frame_follows_the_frames_before() {
    let size = Size::new(640, 480);
    let kind = PixelKind::Grey8;
    let mut both = Both::new(&quick(), kind, size);
    let scene = Scene::new(kind, size, 6);
    let motion = frame::Motion::of(MotionState::Still);
    let on_device = device(&both.context, &both.stream, &[Motion::from(motion)]);
    let graph = both
        .stream
        .capture::<GpuError>(|stream| {
            let buffers = Buffers {
                image: &both.image,
                motion: &on_device,
                known_foreground: None,
                mask: &both.mask,
                verdict: &both.verdict,
            };
            both.gpu.enqueue(stream, buffers)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    for t in 0..20 {
        let image = scene.picture(t);
        let input = Input {
            image: &image,
            motion: &motion,
            known_foreground: None,
        };
        both.cpu.run(input, &mut both.out);
        both.stream.upload(&bytes(&image), &both.image).unwrap();
        graph.launch(&both.stream).unwrap();
        both.frames += 1;
        both.compare();
    }
}

fn buffers_of_other_sizes_are_refused() {
    let size = Size::new(20, 10);
    let both = Both::new(&quick(), PixelKind::Rgb8, size);
    let motion = device(
        &both.context,
        &both.stream,
        &[Motion::from(frame::Motion::default())],
    );
    let short = device(&both.context, &both.stream, &[0u8; 200]);
    let buffers = Buffers {
        image: &short,
        motion: &motion,
        known_foreground: None,
        mask: &both.mask,
        verdict: &both.verdict,
    };
    let error = both.gpu.enqueue(&both.stream, buffers).unwrap_err();
    assert!(matches!(error, GpuError::Size { .. }), "{error}");
    let buffers = Buffers {
        image: &both.image,
        mask: &both.image,
        ..buffers
    };
    let error = both.gpu.enqueue(&both.stream, buffers).unwrap_err();
    assert!(matches!(error, GpuError::Size { .. }), "{error}");
}

/// Every kernel, small enough for the sanitizers.
fn small_masks() {
    for kind in KINDS {
        for (size, median_px) in [
            (Size::new(67, 41), 5),
            (Size::new(130, 9), 3),
            (Size::new(33, 17), 0),
        ] {
            let params = Params {
                median_px,
                ..quick()
            };
            let mut both = Both::new(&params, kind, size);
            let scene = Scene::new(kind, size, 5);
            both.still(scene, 5);
            // The camera sways, its gain changes, and some pixels are known.
            let swayed = Scene {
                shift: (2, 1),
                gain: 70,
                ..scene
            };
            let motion = frame::Motion {
                homography: [1.0, 0.0, 2.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
                ..frame::Motion::of(MotionState::SmallMotion)
            };
            let known = Image::from_fn(size.width, size.height, |x, y| u8::from(x + y < 9));
            both.frame(&swayed.picture(70), &motion, Some(&known));
            let moves = frame::Motion::of(MotionState::Driving);
            both.frame(&scene.picture(71), &moves, None);
            both.still(scene, 2);
        }
    }
}
