//! Is it known whether the camera stands, shakes or drives?
mod common;
#[path = "common/heap.rs"]
mod heap;

use std::path::Path;

use roadloop::{
    frame::{Image, MonoImage, Motion, MotionState, PixelKind, Size},
    maths::random::hash,
    picture::{self, Picture},
    source::synth::{self, Options, Street},
    stage::{
        Stage as _,
        egomotion::{Input, Params, ParamsError, cpu::Plan},
    },
};

const SIZE: Size = Size::new(320, 240);

fn read(path: &Path) -> MonoImage {
    match picture::read(path).unwrap() {
        Picture::Grey8(i) => MonoImage::Grey8(i),
        Picture::Grey16(i) => MonoImage::Grey16(i),
        Picture::Rgb8(i) => MonoImage::Rgb8(i),
    }
}

fn plan(image: &MonoImage) -> Plan {
    Plan::new(&Params::default(), image.kind(), image.size()).unwrap()
}

fn step(plan: &mut Plan, image: &MonoImage, speed_mps: Option<f32>) -> Motion {
    let mut motion = Motion::default();
    plan.run(Input { image, speed_mps }, &mut motion);
    motion
}

/// A fresh plan over all frames.
fn drive(frames: impl IntoIterator<Item = MonoImage>) -> Vec<Motion> {
    let mut frames = frames.into_iter().peekable();
    let mut plan = plan(frames.peek().unwrap());
    frames.map(|image| step(&mut plan, &image, None)).collect()
}

fn states(motions: &[Motion]) -> Vec<MotionState> {
    motions.iter().map(|m| m.state).collect()
}

fn kitti(frames: std::ops::Range<usize>) -> Option<impl Iterator<Item = MonoImage>> {
    let dir = common::data("kitti_odom_06")?;
    Some(frames.map(move |i| read(&dir.join(format!("image_l/{i:06}.png")))))
}

fn highway() -> Option<impl Iterator<Item = MonoImage>> {
    let dir = common::data("cdnet_highway")?;
    Some((1..541).map(move |i| read(&dir.join(format!("input/in{i:06}.jpg")))))
}

/// The part of a picture at an offset in 1/64 px, at most 4 px; bilinear.
fn part(image: &MonoImage, [dx, dy]: [i32; 2]) -> MonoImage {
    let MonoImage::Rgb8(image) = image else {
        panic!("expected colour");
    };
    let Size { width, height } = image.size();
    MonoImage::Rgb8(Image::from_fn(width - 8, height - 8, |x, y| {
        let (x, y) = ((x + 4) as i32 * 64 + dx, (y + 4) as i32 * 64 + dy);
        let (px, py, a, b) = ((x >> 6) as usize, (y >> 6) as usize, x & 63, y & 63);
        [0, 1, 2].map(|c| {
            let at = |i: usize, j: usize| {
                i32::from(image.get((px + i).min(width - 1), (py + j).min(height - 1))[c])
            };
            let top = (64 - a) * at(0, 0) + a * at(1, 0);
            let bottom = (64 - a) * at(0, 1) + a * at(1, 1);
            (((64 - b) * top + b * bottom + 2048) >> 12) as u8
        })
    }))
}

/// Smooth blotches without end, 0 to 255; `layer` names the pattern.
fn texture(layer: u32, x: f64, y: f64) -> f64 {
    let (x, y) = (x / 7.0 + 1000.0, y / 7.0 + 1000.0);
    let (px, py) = (x.floor(), y.floor());
    let (a, b) = (x - px, y - py);
    let at = |i: f64, j: f64| f64::from(hash(layer, (px + i) as u32, (py + j) as u32) >> 24);
    let top = at(0.0, 0.0) * (1.0 - a) + at(1.0, 0.0) * a;
    let bottom = at(0.0, 1.0) * (1.0 - a) + at(1.0, 1.0) * a;
    top * (1.0 - b) + bottom * b
}

fn grey(size: Size, f: impl Fn(f64, f64) -> f64) -> MonoImage {
    MonoImage::Grey8(Image::from_fn(size.width, size.height, |x, y| {
        f(x as f64, y as f64).clamp(0.0, 255.0) as u8
    }))
}

/// A textured wall, seen `(x, y)` px further right and down.
fn wall(size: Size, x: f64, y: f64) -> MonoImage {
    grey(size, |px, py| texture(1, px + x, py + y))
}

/// A wall, and a lorry that covers a part of the width and moves by 9 px a frame.
fn lorry(frame: usize, part: f64, shake: f64) -> MonoImage {
    grey(SIZE, |x, y| {
        if (x - 20.0) / 320.0 < part && x >= 20.0 {
            texture(2, x - 9.0 * frame as f64, y)
        } else {
            texture(1, x + shake, y)
        }
    })
}

#[test]
fn a_drive_is_driving() {
    let Some(frames) = kitti(0..51) else { return };
    let motions = drive(frames);
    assert_eq!(motions[0], Motion::of(MotionState::Unknown));
    let driving = motions[1..]
        .iter()
        .filter(|m| m.state == MotionState::Driving)
        .count();
    assert!(driving * 100 >= 95 * 50, "{driving} of 50");
    assert!(motions.iter().all(|m| m.homography == Motion::IDENTITY));
}

#[test]
fn waiting_at_a_red_light_beside_a_rolling_lorry_is_still() {
    let Some(dir) = common::data("logo_kravag_truck") else {
        return;
    };
    let frames = (62..66).map(|i| read(&dir.join(format!("frames/{i:010}.png"))));
    let found = states(&drive(frames));
    assert_eq!(found[1..], [MotionState::Still; 3]);
}

#[test]
fn a_camera_over_a_motorway_is_still() {
    let Some(frames) = highway() else { return };
    let motions = drive(frames);
    assert_eq!(motions[0].state, MotionState::Unknown);
    let other = motions[1..]
        .iter()
        .position(|m| m.state != MotionState::Still || m.homography != Motion::IDENTITY);
    assert_eq!(other, None);
}

#[test]
fn a_shaken_camera_is_in_small_motion() {
    let Some(frames) = highway() else { return };
    let frames: Vec<MonoImage> = frames.collect();
    for whole in [false, true] {
        let offset = |frame: usize| {
            [0, 1].map(|axis| {
                let random = (hash(1, frame as u32, axis) % 385) as i32 - 192;
                if whole {
                    (random + 32) >> 6 << 6
                } else {
                    random
                }
            })
        };
        let shaken = frames.iter().enumerate().map(|(i, f)| part(f, offset(i)));
        let motions = drive(shaken);
        let other = motions[1..]
            .iter()
            .position(|m| m.state != MotionState::SmallMotion);
        assert_eq!(other, None);
        // The homography is the shift, as seen in the middle of the picture.
        let mut errors: Vec<f64> = (1..motions.len())
            .map(|i| {
                let (now, before) = (offset(i), offset(i - 1));
                let h = motions[i].homography.map(f64::from);
                let [x, y] = [156.0, 116.0];
                let w = h[6] * x + h[7] * y + h[8];
                let dx = (h[0] * x + h[1] * y + h[2]) / w - x;
                let dy = (h[3] * x + h[4] * y + h[5]) / w - y;
                let part = |i: usize| f64::from(now[i] - before[i]) / 64.0;
                (dx - part(0)).hypot(dy - part(1))
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        let (median, high) = (errors[errors.len() / 2], errors[errors.len() * 95 / 100]);
        assert!(median < 0.1 && high < 0.4, "{median} {high} px");
    }
}

#[test]
fn a_picture_again_and_again_is_still() {
    let Some(mut frames) = kitti(0..1) else {
        return;
    };
    let picture = frames.next().unwrap();
    let motions = drive(std::iter::repeat_n(picture, 6));
    assert_eq!(motions[0].state, MotionState::Unknown);
    for m in &motions[1..] {
        assert_eq!(
            (m.state, m.homography),
            (MotionState::Still, Motion::IDENTITY)
        );
        assert!(m.tracked > 400 && m.inliers == m.tracked, "{m:?}");
    }
}

#[test]
fn a_step_of_gain_is_no_motion() {
    for gain in [1.05, 1.10, 1.20, 0.8, 0.6] {
        let dim = |gain: f64, offset: f64| {
            grey(SIZE, move |x, y| {
                (40.0 + texture(1, x, y) / 2.0) * gain + offset
            })
        };
        let motions = drive([
            dim(1.0, 0.0),
            dim(1.0, 0.0),
            dim(gain, 0.0),
            dim(gain, 20.0),
        ]);
        assert_eq!(
            states(&motions[1..]),
            [MotionState::Still; 3],
            "gain {gain}"
        );
        assert!(motions[2].tracked > 60);
    }
    let Some(frames) = highway() else { return };
    let frames: Vec<MonoImage> = frames.take(40).collect();
    for gain in [1.05, 1.10, 1.20] {
        let brighter = frames.iter().enumerate().map(|(i, f)| match f {
            MonoImage::Rgb8(f) if i >= 20 => {
                MonoImage::Rgb8(Image::from_fn(f.width(), f.height(), |x, y| {
                    f.get(x, y).map(|v| (f64::from(v) * gain).min(255.0) as u8)
                }))
            }
            other => other.clone(),
        });
        let motions = drive(brighter);
        assert_eq!(
            states(&motions[1..]),
            vec![MotionState::Still; 39],
            "gain {gain}"
        );
    }
}

#[test]
fn a_lorry_in_front_of_a_standing_camera_is_not_the_camera() {
    for part in [0.2, 0.4, 0.6, 0.7] {
        let motions = drive((0..20).map(|i| lorry(i, part, 0.0)));
        assert_eq!(
            states(&motions[1..]),
            vec![MotionState::Still; 19],
            "{part}"
        );
    }
    // While it shakes, less can be told: the lorry must not cover more than half.
    let motions = drive((0..20).map(|i| {
        let part = if i < 4 { 0.0 } else { 0.35 };
        lorry(i, part, [0.0, 2.0, -1.0, -2.5][i % 4])
    }));
    assert_eq!(states(&motions[2..]), vec![MotionState::SmallMotion; 18]);
}

#[test]
fn driving_off_is_seen_at_the_second_frame() {
    let Some(frames) = kitti(0..8) else { return };
    let frames: Vec<MonoImage> = frames.collect();
    let standing = std::iter::repeat_n(frames[0].clone(), 8);
    let motions = drive(standing.chain(frames[1..].iter().cloned()));
    assert_eq!(states(&motions[1..8]), [MotionState::Still; 7]);
    assert_eq!(states(&motions[9..]), [MotionState::Driving; 6]);
}

#[test]
fn stopping_is_believed_after_some_frames() {
    let Some(frames) = kitti(0..5) else { return };
    let frames: Vec<MonoImage> = frames.collect();
    let last = frames[4].clone();
    let motions = drive(frames.into_iter().chain(std::iter::repeat_n(last, 8)));
    let mut expected = vec![MotionState::Driving; 8];
    expected.extend([MotionState::Still; 4]);
    assert_eq!(states(&motions[1..]), expected);
}

#[test]
fn waiting_at_the_kerb_and_pulling_out_are_told_apart() {
    let options = Options {
        frames: 40,
        size: Size::new(640, 375),
        motion: synth::Motion::Mixed,
        ..Options::default()
    };
    let street = Street::new(&options).unwrap();
    let motions = drive((0..40).map(|i| MonoImage::Rgb8(street.render(i).left_rgb)));
    let found = states(&motions);
    // It waits for 16 frames, creeps out of its place and drives.
    assert_eq!(found[1..16], [MotionState::Still; 15]);
    assert_eq!(found[26..], [MotionState::Driving; 14], "{found:?}");
    assert!(!found[18..].contains(&MotionState::Still), "{found:?}");
}

#[test]
fn a_creeping_camera_is_not_still_for_long() {
    // A tenth of a pixel a frame.
    let motions = drive((0..40).map(|i| wall(SIZE, 0.1 * f64::from(i), 0.0)));
    assert_eq!(motions[1].state, MotionState::Still);
    assert_eq!(states(&motions[30..]), [MotionState::SmallMotion; 10]);
    assert!((motions[35].homography[2] - 0.1).abs() < 0.05);
}

#[test]
fn a_moved_camera_is_still_again_after_some_frames() {
    let shifts = [0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0];
    let motions = drive(shifts.map(|x| wall(SIZE, x, 0.0)));
    let small = MotionState::SmallMotion;
    assert_eq!(states(&motions[1..3]), [MotionState::Still; 2]);
    assert_eq!(states(&motions[3..8]), [small; 5]);
    assert_eq!(states(&motions[8..]), [MotionState::Still; 2]);
    assert!(
        (motions[3].homography[2] - 5.0).abs() < 0.1,
        "{:?}",
        motions[3]
    );
    assert_eq!(motions[4].homography, Motion::IDENTITY);
}

#[test]
fn in_darkness_the_state_is_held_and_then_unknown() {
    let dark = || grey(SIZE, |_, _| 3.0);
    let hold = Params::default().hold_frames as usize;
    let frames = std::iter::repeat_n(wall(SIZE, 0.0, 0.0), 3)
        .chain((0..hold + 2).map(|_| dark()))
        .chain(std::iter::repeat_n(wall(SIZE, 0.0, 0.0), 2));
    let found = states(&drive(frames));
    assert_eq!(found[1..3 + hold], vec![MotionState::Still; 2 + hold]);
    assert_eq!(found[3 + hold..6 + hold], [MotionState::Unknown; 3]);
    assert_eq!(found[6 + hold], MotionState::Still);
    let flat = drive((0..4).map(|_| dark()));
    assert_eq!(flat, vec![Motion::default(); 4]);
}

#[test]
fn after_a_cut_nothing_is_known() {
    let other = || grey(SIZE, |x, y| texture(9, 1.7 * x + y, 1.3 * y - x));
    let frames = [0, 0, 0, 1, 1, 1].map(|i| {
        if i == 0 {
            wall(SIZE, 0.0, 0.0)
        } else {
            other()
        }
    });
    let found = states(&drive(frames));
    let (still, unknown) = (MotionState::Still, MotionState::Unknown);
    assert_eq!(found, [unknown, still, still, unknown, still, still]);
}

#[test]
fn noise_is_unknown() {
    let noise = |i: u32| {
        MonoImage::Grey8(Image::from_fn(320, 240, |x, y| {
            (hash(i, x as u32, y as u32) >> 24) as u8
        }))
    };
    let found = states(&drive((0..6).map(noise)));
    assert_eq!(found, [MotionState::Unknown; 6]);
}

#[test]
fn small_images_are_unknown() {
    let sizes = [
        (1, 1),
        (1, 40),
        (40, 1),
        (2, 2),
        (16, 16),
        (31, 33),
        (7, 1000),
        (33, 31),
    ];
    for (width, height) in sizes {
        let size = Size::new(width, height);
        let motions = drive((0..3).map(|i| wall(size, f64::from(i), 0.0)));
        assert_eq!(states(&motions), [MotionState::Unknown; 3], "{size}");
    }
}

#[test]
fn any_size_that_shows_enough_works() {
    for (width, height) in [(97, 101), (320, 63), (1023, 65), (65, 1025), (641, 479)] {
        let size = Size::new(width, height);
        let shifts = [0.0, 0.0, 2.0];
        let motions = drive(shifts.map(|x| wall(size, x, 0.0)));
        let (still, small) = (MotionState::Still, MotionState::SmallMotion);
        assert_eq!(states(&motions[1..]), [still, small], "{size}");
        assert!(
            (motions[2].homography[2] - 2.0).abs() < 0.3,
            "{size} {:?}",
            motions[2]
        );
    }
}

#[test]
fn colour_16_bits_and_strides_show_the_same() {
    let shifts = [0.0, 0.0, 3.5, 7.0];
    let frames = shifts.map(|x| wall(SIZE, x, 2.0 * x));
    let expected = drive(frames.clone());
    let as_grey = |f: &MonoImage| match f {
        MonoImage::Grey8(i) => i.clone(),
        _ => panic!("expected grey"),
    };
    let (width, height) = (SIZE.width, SIZE.height);
    let colour = frames.each_ref().map(|f| {
        let f = as_grey(f);
        MonoImage::Rgb8(Image::from_fn(width, height, |x, y| [f.get(x, y); 3]))
    });
    let deep = frames.each_ref().map(|f| {
        let f = as_grey(f);
        MonoImage::Grey16(Image::from_fn(width, height, |x, y| {
            u16::from(f.get(x, y)) << 8 | 0x7F
        }))
    });
    let wide = frames.each_ref().map(|f| {
        let mut image = Image::with_stride(width, height, width + 13, 99);
        image.copy_from(&as_grey(f));
        MonoImage::Grey8(image)
    });
    assert_eq!(drive(colour), expected);
    assert_eq!(drive(deep), expected);
    assert_eq!(drive(wide), expected);
}

#[test]
fn a_known_speed_decides_whether_the_vehicle_drives() {
    let run = |frames: &[f64], speed: f32| -> Vec<MotionState> {
        let mut plan = plan(&wall(SIZE, 0.0, 0.0));
        frames
            .iter()
            .map(|x| step(&mut plan, &wall(SIZE, *x, 0.0), Some(speed)).state)
            .collect()
    };
    let (still, small) = (MotionState::Still, MotionState::SmallMotion);
    let same = [0.0; 4];
    assert_eq!(run(&same, 5.0)[1..], [MotionState::Driving; 3]);
    assert_eq!(run(&same, -5.0)[1..], [MotionState::Driving; 3]);
    assert_eq!(run(&same, 0.0)[1..], [still; 3]);
    assert_eq!(run(&same, f32::NAN)[1..], [still; 3]);
    assert_eq!(run(&[0.0, 0.0, 2.0, 4.0], 0.0)[1..], [still, small, small]);
    let Some(frames) = kitti(0..6) else { return };
    let frames: Vec<MonoImage> = frames.collect();
    let mut plan = plan(&frames[0]);
    for frame in &frames {
        let motion = step(&mut plan, frame, Some(0.0));
        assert_ne!(motion.state, MotionState::Driving);
    }
}

#[test]
fn threads_change_nothing() {
    let frames: Vec<MonoImage> = (0..4).map(|i| lorry(i, 0.3, f64::from(i as u8))).collect();
    let expected = drive(frames.clone());
    for threads in [1, 2, 3, 7] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert_eq!(pool.install(|| drive(frames.clone())), expected);
    }
}

#[test]
fn a_plan_that_was_reset_is_as_new() {
    let frames: Vec<MonoImage> = (0..6).map(|i| lorry(i, 0.5, f64::from(i as u8))).collect();
    let mut plan = plan(&frames[0]);
    let run =
        |plan: &mut Plan| -> Vec<Motion> { frames.iter().map(|f| step(plan, f, None)).collect() };
    let first = run(&mut plan);
    plan.reset();
    assert_eq!(run(&mut plan), first);
}

#[test]
fn a_frame_takes_nothing_from_the_heap() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    pool.install(|| {
        let frames: Vec<MonoImage> = (0..4).map(|i| lorry(i, 0.5, 0.0)).collect();
        let mut plan = plan(&frames[0]);
        step(&mut plan, &frames[0], None);
        step(&mut plan, &frames[1], None);
        let before = heap::allocations();
        step(&mut plan, &frames[2], None);
        step(&mut plan, &frames[3], None);
        assert_eq!(heap::allocations() - before, 0);
    });
}

#[test]
fn wrong_parameters_are_named() {
    let refused = |change: &dyn Fn(&mut Params)| {
        let mut params = Params::default();
        change(&mut params);
        match Plan::new(&params, PixelKind::Grey8, SIZE) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("expected an error for {params:?}"),
        }
    };
    assert_eq!(
        refused(&|p| p.hypotheses = 0),
        "egomotion.hypotheses is 0, expected 1 to 4096"
    );
    assert_eq!(
        refused(&|p| p.still_px = f32::NAN),
        "egomotion.still_px is NaN, expected 0.05 to 16"
    );
    assert_eq!(
        refused(&|p| p.stay_px = 0.1),
        "egomotion.stay_px is 0.10000000149011612, expected still_px to 16"
    );
    for size in [Size::new(0, 5), Size::new(5, 0), Size::new(16_385, 5)] {
        let plan = Plan::new(&Params::default(), PixelKind::Rgb8, size);
        assert_eq!(plan.err(), Some(ParamsError::Size(size)));
    }
    assert!(toml::from_str::<Params>("still = 3").is_err());
    assert_eq!(toml::from_str::<Params>("").unwrap(), Params::default());
}
