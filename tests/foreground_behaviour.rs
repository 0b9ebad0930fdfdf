//! What does the foreground stage do when the light, the camera or a file changes?
use roadloop::{
    frame::{Foreground, ForegroundState, Image, MonoImage, Motion, MotionState, PixelKind, Size},
    stage::{
        Stage as _,
        foreground::{
            Params, ParamsError, SnapshotError,
            cpu::{Input, Plan},
        },
    },
};

const KINDS: [PixelKind; 3] = [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8];
const SIZE: Size = Size::new(160, 90);

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A textured ground with camera noise, seen through a gain and with the picture shifted, and
/// something that passes in front of it.
#[derive(Clone, Copy)]
struct Scene {
    kind: PixelKind,
    size: Size,
    gain: f64,
    shift: (i32, i32),
    object: Option<(i32, i32)>,
}

impl Scene {
    const fn new(kind: PixelKind) -> Self {
        Self {
            kind,
            size: SIZE,
            gain: 1.0,
            shift: (0, 0),
            object: None,
        }
    }

    fn is_object(&self, x: i32, y: i32) -> bool {
        self.object.is_some_and(|(left, top)| {
            (left..left + 24).contains(&x) && (top..top + 16).contains(&y)
        })
    }

    fn picture(&self, t: u64) -> MonoImage {
        let mut noise = random(t);
        let mut level = |x: usize, y: usize, c: u32| {
            let (x, y) = (x as i32 - self.shift.0, y as i32 - self.shift.1);
            let patch = random((x.div_euclid(6) * 1000 + y.div_euclid(6)) as u32 as u64)();
            let fine = random((x * 4099 + y) as u32 as u64)();
            let ground = 40.0 + (patch % 160) as f64 + (fine % 12) as f64 + 10.0 * f64::from(c);
            let n = noise();
            let gauss = (n & 0xFF) as f64 + (n >> 8 & 0xFF) as f64 - 255.0;
            let light = if self.is_object(x, y) {
                (ground + 90.0) % 256.0
            } else {
                ground
            };
            light * self.gain + gauss / 60.0
        };
        let byte = |v: f64| v.clamp(0.0, 255.0) as u8;
        let (w, h) = (self.size.width, self.size.height);
        match self.kind {
            PixelKind::Grey8 => MonoImage::Grey8(Image::from_fn(w, h, |x, y| byte(level(x, y, 0)))),
            PixelKind::Grey16 => MonoImage::Grey16(Image::from_fn(w, h, |x, y| {
                (level(x, y, 0) * 256.0).clamp(0.0, 65535.0) as u16
            })),
            PixelKind::Rgb8 => MonoImage::Rgb8(Image::from_fn(w, h, |x, y| {
                [0, 1, 2].map(|c| byte(level(x, y, c)))
            })),
        }
    }
}

/// A plan and its output.
struct Run {
    plan: Plan,
    out: Foreground,
    t: u64,
}

impl Run {
    fn new(params: &Params, kind: PixelKind) -> Self {
        Self {
            plan: Plan::new(params, kind, SIZE).unwrap(),
            out: Foreground::new(SIZE),
            t: 0,
        }
    }

    fn frame(&mut self, scene: Scene, motion: &Motion) -> ForegroundState {
        self.t += 1;
        let image = scene.picture(self.t);
        let input = Input {
            image: &image,
            motion,
            known_foreground: None,
        };
        self.plan.run(input, &mut self.out);
        self.out.state
    }

    fn still(&mut self, scene: Scene, frames: usize) -> ForegroundState {
        for _ in 0..frames {
            self.frame(scene, &Motion::of(MotionState::Still));
        }
        self.out.state
    }

    /// Share of the mask that is not background.
    fn share(&self) -> f64 {
        let n = self.out.mask.pixels().filter(|&&m| m != 0).count();
        n as f64 / SIZE.area() as f64
    }
}

#[test]
fn the_first_frames_are_a_warm_up_with_an_empty_mask() {
    for kind in KINDS {
        let params = Params::default();
        let mut run = Run::new(&params, kind);
        // The very first frame's motion is never known.
        let state = run.frame(Scene::new(kind), &Motion::default());
        assert_eq!((state, run.share()), (ForegroundState::WarmingUp, 0.0));
        for _ in 1..params.warm_up_frames {
            assert_eq!(run.still(Scene::new(kind), 1), ForegroundState::WarmingUp);
            assert_eq!(run.share(), 0.0);
        }
        assert_eq!(run.still(Scene::new(kind), 1), ForegroundState::Valid);
        assert!(run.share() < 0.01, "{kind:?}: {}", run.share());
    }
}

#[test]
fn what_passes_is_found_and_nothing_else() {
    for kind in KINDS {
        let mut run = Run::new(&Params::default(), kind);
        let scene = Scene::new(kind);
        run.still(scene, 60);
        for step in 0..20 {
            let scene = Scene {
                object: Some((20 + 5 * step, 30)),
                ..scene
            };
            run.still(scene, 1);
            let (mut hits, mut others) = (0, 0);
            for y in 0..SIZE.height {
                for x in 0..SIZE.width {
                    if run.out.mask.get(x, y) != 0 {
                        let object = scene.is_object(x as i32, y as i32);
                        *if object { &mut hits } else { &mut others } += 1;
                    }
                }
            }
            assert!(hits > 24 * 16 * 8 / 10, "{kind:?} step {step}: {hits}");
            assert!(others < 40, "{kind:?} step {step}: {others}");
        }
    }
}

#[test]
fn a_step_of_the_gain_is_no_foreground() {
    for kind in KINDS {
        for gain in [1.05, 1.10, 1.20, 0.95, 0.9, 0.8, 0.6, 1.5] {
            let mut run = Run::new(&Params::default(), kind);
            let scene = Scene::new(kind);
            run.still(scene, 120);
            let before = run.share();
            let scene = Scene { gain, ..scene };
            for frame in 1..=20 {
                run.still(scene, 1);
                let share = run.share();
                assert!(
                    share <= before + 0.01,
                    "{kind:?} x{gain} frame {frame}: {before} to {share}, gain {}",
                    run.plan.gain()
                );
            }
            // And what moves is still found.
            let object = Some((60, 30));
            run.still(Scene { object, ..scene }, 1);
            let found = run.share() * SIZE.area() as f64;
            assert!(found > 24.0 * 16.0 * 0.7, "{kind:?} x{gain}: {found}");
        }
    }
}

#[test]
fn without_compensation_a_step_of_the_gain_is_foreground() {
    let params = Params {
        gain_compensation: false,
        ..Params::default()
    };
    let mut run = Run::new(&params, PixelKind::Grey8);
    let scene = Scene::new(PixelKind::Grey8);
    run.still(scene, 120);
    run.still(Scene { gain: 1.2, ..scene }, 1);
    assert!(run.share() > 0.3, "{}", run.share());
}

#[test]
fn rate_0_leaves_every_bit_of_the_model() {
    for kind in KINDS {
        let mut run = Run::new(&Params::default(), kind);
        let scene = Scene::new(kind);
        run.still(scene, 40);
        run.still(
            Scene {
                object: Some((30, 20)),
                ..scene
            },
            3,
        );
        let model = run.plan.snapshot();
        run.plan.set_learning_rate(Some(0.0)).unwrap();
        for t in 0..20 {
            let object = Some((5 * t, 40));
            let gain = if t % 3 == 0 { 1.0 } else { 1.1 };
            run.still(
                Scene {
                    object,
                    gain,
                    ..scene
                },
                1,
            );
            assert!(run.share() > 0.01);
        }
        assert!(run.plan.snapshot() == model, "{kind:?}");
        run.plan.set_learning_rate(None).unwrap();
        run.still(scene, 1);
        assert!(run.plan.snapshot() != model);
    }
}

#[test]
fn driving_empties_the_mask_and_the_model_warms_up_again() {
    let kind = PixelKind::Grey8;
    let params = Params::default();
    let mut run = Run::new(&params, kind);
    let scene = Scene::new(kind);
    assert_eq!(run.still(scene, 30), ForegroundState::Valid);
    let state = run.frame(scene, &Motion::of(MotionState::Driving));
    assert_eq!((state, run.share()), (ForegroundState::Driving, 0.0));
    for _ in 0..params.warm_up_frames {
        assert_eq!(run.still(scene, 1), ForegroundState::WarmingUp);
        assert_eq!(run.share(), 0.0);
    }
    assert_eq!(run.still(scene, 1), ForegroundState::Valid);
    // The same as from a fresh plan.
    let mut fresh = Run::new(&params, kind);
    fresh.t = run.t - u64::from(params.warm_up_frames) - 1;
    fresh.still(scene, params.warm_up_frames as usize + 1);
    assert!(fresh.plan.snapshot() == run.plan.snapshot());
}

#[test]
fn while_the_motion_is_unknown_nothing_is_learnt() {
    let mut run = Run::new(&Params::default(), PixelKind::Rgb8);
    let scene = Scene::new(PixelKind::Rgb8);
    run.still(scene, 30);
    let model = run.plan.snapshot();
    let state = run.frame(scene, &Motion::default());
    assert_eq!((state, run.share()), (ForegroundState::MotionUnknown, 0.0));
    assert!(run.plan.snapshot() == model);
    assert_eq!(run.still(scene, 1), ForegroundState::Valid);
}

/// From a place of the picture to another.
fn motion(from: (i32, i32), to: (i32, i32)) -> Motion {
    let mut motion = Motion::of(MotionState::SmallMotion);
    motion.homography[2] = (from.0 - to.0) as f32;
    motion.homography[5] = (from.1 - to.1) as f32;
    motion
}

#[test]
fn a_shaking_camera_sees_the_same_background() {
    for kind in KINDS {
        let mut run = Run::new(&Params::default(), kind);
        let mut scene = Scene::new(kind);
        run.still(scene, 60);
        let mut noise = random(5);
        for t in 0..30 {
            let to = ((noise() % 7) as i32 - 3, (noise() % 7) as i32 - 3);
            let motion = motion(scene.shift, to);
            scene.shift = to;
            assert_eq!(run.frame(scene, &motion), ForegroundState::Valid);
            assert!(run.share() < 0.01, "{kind:?} frame {t}: {}", run.share());
        }
        // A frame that is not looked at.
        let to = (2, -3);
        run.plan.skip(&motion(scene.shift, to));
        scene.shift = to;
        run.still(scene, 1);
        assert!(run.share() < 0.01, "{kind:?}: {}", run.share());
        // What moves is where it is in the picture.
        scene.object = Some((60, 30));
        run.still(scene, 1);
        let moves = |x: usize, y: usize| run.out.mask.get(x, y) != 0;
        assert!((65..80).all(|x| (32..40).all(|y| moves(x, y))), "{kind:?}");
        assert!(run.share() * (SIZE.area() as f64) < 24.0 * 16.0 * 1.2);
    }
}

#[test]
fn a_camera_that_creeps_far_starts_a_new_model() {
    let kind = PixelKind::Grey8;
    let mut run = Run::new(&Params::default(), kind);
    let mut scene = Scene::new(kind);
    run.still(scene, 30);
    let mut states = Vec::new();
    for t in 1..=60 {
        let to = (-t, 0);
        let motion = motion(scene.shift, to);
        scene.shift = to;
        states.push(run.frame(scene, &motion));
        assert!(run.share() < 0.02, "frame {t}: {}", run.share());
    }
    let warming = states
        .iter()
        .filter(|&&s| s == ForegroundState::WarmingUp)
        .count();
    assert_eq!(warming as u32, Params::default().warm_up_frames);
}

#[test]
fn homographies_that_are_none_start_a_new_model() {
    let broken = [f32::NAN, f32::INFINITY, 0.0, -1.0, 1e30];
    for value in broken {
        for entry in [0, 2, 6, 8] {
            let mut run = Run::new(&Params::default(), PixelKind::Grey8);
            let scene = Scene::new(PixelKind::Grey8);
            run.still(scene, 12);
            let mut motion = Motion::of(MotionState::SmallMotion);
            motion.homography[entry] = value;
            run.frame(scene, &motion);
            run.still(scene, 1);
            assert!(run.share() < 0.3, "{value} at {entry}");
        }
    }
}

#[test]
fn the_background_is_what_was_seen() {
    for kind in KINDS {
        let mut run = Run::new(&Params::default(), kind);
        let mut image = MonoImage::new(kind, SIZE);
        let mut confidence = Image::filled(SIZE.width, SIZE.height, 9);
        run.plan.background(&mut image, &mut confidence);
        assert!(confidence.pixels().all(|&c| c == 0));
        assert_eq!(image, MonoImage::new(kind, SIZE));
        let scene = Scene::new(kind);
        run.still(scene, 80);
        run.plan.background(&mut image, &mut confidence);
        let sure = confidence.pixels().filter(|&&c| c > 200).count();
        assert!(sure > SIZE.area() * 9 / 10, "{kind:?}: {sure}");
        let seen = scene.picture(1);
        let far = match (&image, &seen) {
            (MonoImage::Grey8(a), MonoImage::Grey8(b)) => a
                .pixels()
                .zip(b.pixels())
                .filter(|(a, b)| a.abs_diff(**b) > 12)
                .count(),
            (MonoImage::Grey16(a), MonoImage::Grey16(b)) => a
                .pixels()
                .zip(b.pixels())
                .filter(|(a, b)| a.abs_diff(**b) > 12 << 8)
                .count(),
            (MonoImage::Rgb8(a), MonoImage::Rgb8(b)) => a
                .pixels()
                .zip(b.pixels())
                .filter(|(a, b)| a[1].abs_diff(b[1]) > 12)
                .count(),
            _ => unreachable!(),
        };
        assert!(far < SIZE.area() / 100, "{kind:?}: {far}");
    }
}

#[test]
fn a_parked_vehicle_wakes_with_its_background() {
    for kind in KINDS {
        let mut run = Run::new(&Params::default(), kind);
        let scene = Scene::new(kind);
        run.still(scene, 40);
        let bytes = run.plan.snapshot();
        let mut woken = Run::new(&Params::default(), kind);
        woken.plan.restore(&bytes).unwrap();
        assert!(woken.plan.snapshot() == bytes);
        woken.t = run.t;
        for _ in 0..3 {
            assert_eq!(woken.still(scene, 1), ForegroundState::Valid);
            run.still(scene, 1);
            assert_eq!(woken.out, run.out);
        }
        assert!(woken.plan.snapshot() == run.plan.snapshot());
    }
}

#[test]
fn a_damaged_snapshot_is_refused_and_the_model_is_fresh() {
    let small = Size::new(17, 9);
    let plan = || Plan::new(&Params::default(), PixelKind::Rgb8, small).unwrap();
    let mut learnt = plan();
    let mut out = Foreground::new(small);
    for t in 0..12 {
        let scene = Scene {
            size: small,
            ..Scene::new(PixelKind::Rgb8)
        };
        let image = scene.picture(t);
        let motion = Motion::of(MotionState::Still);
        let input = Input {
            image: &image,
            motion: &motion,
            known_foreground: None,
        };
        learnt.run(input, &mut out);
    }
    let bytes = learnt.snapshot();
    let fresh = plan().snapshot();
    let mut plan = plan();
    let mut refused = |bytes: &[u8], what: &str| {
        plan.restore(&learnt.snapshot()).unwrap();
        let error = plan.restore(bytes).expect_err(what);
        assert!(plan.snapshot() == fresh, "{what}");
        error
    };
    for length in 0..bytes.len() {
        refused(&bytes[..length], "cut");
    }
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            refused(&bytes, "flipped");
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(
        refused(&longer, "longer"),
        SnapshotError::Checksum { .. }
    ));
    assert_eq!(refused(b"", "empty"), SnapshotError::Magic);
    assert_eq!(refused(b"RLFGMODL", "short"), SnapshotError::Short);
    let resealed = |mut bytes: Vec<u8>| {
        let end = bytes.len() - 4;
        let sum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let mut later = bytes.clone();
    later[8] = 2;
    assert_eq!(
        refused(&resealed(later), "version"),
        SnapshotError::Version {
            found: 2,
            expected: 1
        }
    );
    // Each byte, with a checksum that is right: an error or another model, never a panic.
    for at in 8..bytes.len() - 4 {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x85;
        let _ = plan.restore(&resealed(bytes));
    }
}

#[test]
fn a_snapshot_of_something_else_is_refused() {
    let plan = |params: &Params, kind, w, h| Plan::new(params, kind, Size::new(w, h)).unwrap();
    let params = Params::default();
    let bytes = plan(&params, PixelKind::Grey8, 8, 6).snapshot();
    for (kind, w, h) in [
        (PixelKind::Grey16, 8, 6),
        (PixelKind::Rgb8, 8, 6),
        (PixelKind::Grey8, 6, 8),
    ] {
        let error = plan(&params, kind, w, h).restore(&bytes).unwrap_err();
        assert!(matches!(error, SnapshotError::Images { .. }), "{error}");
        assert!(error.to_string().contains("8x6"), "{error}");
    }
    let other = Params {
        modes: 3,
        ..params.clone()
    };
    let error = plan(&other, PixelKind::Grey8, 8, 6)
        .restore(&bytes)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "snapshot was made with foreground.modes = 5, expected 3"
    );
    // What only decides is free.
    let other = Params {
        background_threshold: 20.0,
        median_px: 3,
        ..params
    };
    plan(&other, PixelKind::Grey8, 8, 6)
        .restore(&bytes)
        .unwrap();
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let size = Size::new(333, 97);
            let mut plan = Plan::new(&Params::default(), PixelKind::Rgb8, size).unwrap();
            let mut out = Foreground::new(size);
            let mut masks = Vec::new();
            let mut scene = Scene {
                size,
                ..Scene::new(PixelKind::Rgb8)
            };
            for t in 0..24 {
                let to = if t < 15 { (0, 0) } else { (t as i32 % 3, -1) };
                let mut step = motion(scene.shift, to);
                step.homography[1] = if t < 15 { 0.0 } else { 0.001 };
                scene.shift = to;
                scene.object = Some((6 * t as i32, 20));
                let image = scene.picture(t);
                let input = Input {
                    image: &image,
                    motion: &step,
                    known_foreground: None,
                };
                plan.run(input, &mut out);
                masks.push(out.clone());
            }
            (masks, plan.snapshot())
        })
    };
    let one = run(1);
    for threads in [2, 3, 5] {
        assert!(run(threads) == one, "{threads} threads");
    }
}

#[test]
fn padding_between_rows_is_not_looked_at() {
    let mut packed = Plan::new(&Params::default(), PixelKind::Grey8, SIZE).unwrap();
    let mut padded = Plan::new(&Params::default(), PixelKind::Grey8, SIZE).unwrap();
    let mut out = [Foreground::new(SIZE), Foreground::new(SIZE)];
    out[1].mask = Image::with_stride(SIZE.width, SIZE.height, 200, 3);
    let motion = Motion::of(MotionState::Still);
    for t in 0..15 {
        let scene = Scene {
            object: Some((5 * t, 9)),
            ..Scene::new(PixelKind::Grey8)
        };
        let image = scene.picture(t as u64);
        let MonoImage::Grey8(grey) = &image else {
            unreachable!()
        };
        let mut wide = Image::with_stride(SIZE.width, SIZE.height, 193, 77);
        wide.copy_from(grey);
        let wide = MonoImage::Grey8(wide);
        let [first, second] = &mut out;
        for (plan, image, out) in [(&mut packed, &image, first), (&mut padded, &wide, second)] {
            let input = Input {
                image,
                motion: &motion,
                known_foreground: None,
            };
            plan.run(input, out);
        }
        assert_eq!(out[0], out[1]);
    }
    assert!(packed.snapshot() == padded.snapshot());
}

#[test]
fn parameters_out_of_range_are_refused_by_name() {
    let size = Size::new(4, 4);
    let refused = |keys: &str, expected: &str| {
        let params: Params = toml::from_str(keys).unwrap();
        let error = Plan::new(&params, PixelKind::Grey8, size).err().unwrap();
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    refused("modes = 0", "foreground.modes is 0, expected 1 to 5");
    refused("modes = 6", "foreground.modes is 6, expected 1 to 5");
    refused(
        "learning_rate = 1.5",
        "foreground.learning_rate is 1.5, expected 0 to 1",
    );
    refused("learning_rate = nan", "foreground.learning_rate is NaN");
    refused("variance_min = 20", "foreground.variance_init is 15");
    refused("variance_max = 300", "foreground.variance_max is 300");
    refused(
        "median_px = 4",
        "foreground.median_px is 4, expected 0, 3 or 5",
    );
    refused("history_frames = 0", "foreground.history_frames is 0");
    refused("background_ratio = -0.1", "foreground.background_ratio");
    assert!(toml::from_str::<Params>("histroy_frames = 4").is_err());
    let empty = Plan::new(&Params::default(), PixelKind::Grey8, Size::new(0, 4));
    assert_eq!(empty.err(), Some(ParamsError::Size(Size::new(0, 4))));
    let text = toml::to_string(&Params::default()).unwrap();
    assert_eq!(toml::from_str::<Params>(&text).unwrap(), Params::default());
}
