//! Is the ground line found, whatever stands on the road?
mod common;

use roadloop::{
    frame::{Camera, Disparity, INVALID, Image, Mask, Road, RoadOrigin, Size},
    picture::{self, Picture},
    stage::{
        Stage as _,
        road::{Fixed, Params, cpu::Plan},
    },
};

const KITTI: Camera = Camera {
    focal_px: 707.0912,
    cx: 601.8873,
    cy: 183.1104,
    baseline_m: 0.5372,
};
const SIZE: Size = Size::new(621, 370);
/// The line of a camera 1.65 m above the road that looks down by 0.015.
const SLOPE: f64 = 0.32554;
const HORIZON: f64 = 172.5;

/// Deterministic noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    /// Evenly from `-a` to `a`.
    fn even(&mut self, a: f64) -> f64 {
        a * (self.next() as f64 / (1u64 << 30) as f64 - 1.0)
    }
}

/// Disparities of `d(x, y)` px; negative ones and those beyond 127 px are invalid.
fn scene(size: Size, mut d: impl FnMut(usize, usize) -> f64) -> Disparity {
    Image::from_fn(size.width, size.height, |x, y| {
        let v = d(x, y);
        if (0.0..127.9).contains(&v) {
            (v * 16.0).round() as u16 * 16
        } else {
            INVALID
        }
    })
}

fn ground(y: usize) -> f64 {
    SLOPE * (y as f64 - HORIZON)
}

fn plan(size: Size) -> Plan {
    Plan::new(&Params::default(), size, &KITTI, 128, None).unwrap()
}

fn blank() -> Road {
    Road {
        slope: f32::NAN,
        offset: f32::NAN,
        horizon_row: f32::NAN,
        pitch_rad: f32::NAN,
        camera_height_m: f32::NAN,
        confidence: f32::NAN,
        origin: RoadOrigin::Fixed,
    }
}

fn run(plan: &mut Plan, d: &Disparity) -> Road {
    let mut road = blank();
    plan.run(d, &mut road);
    let Road {
        slope,
        offset,
        horizon_row,
        pitch_rad,
        camera_height_m,
        confidence,
        ..
    } = road;
    for v in [
        slope,
        offset,
        horizon_row,
        pitch_rad,
        camera_height_m,
        confidence,
    ] {
        assert!(v.is_finite(), "{road:?}");
    }
    assert!((0.0..=1.0).contains(&confidence), "{road:?}");
    road
}

#[track_caller]
fn assert_line(road: &Road, slope: f64, horizon: f64, slope_share: f64, rows: f64) {
    assert_eq!(road.origin, RoadOrigin::Measured, "{road:?}");
    assert!(
        (f64::from(road.slope) / slope - 1.0).abs() <= slope_share
            && (f64::from(road.horizon_row) - horizon).abs() <= rows,
        "{road:?}, expected slope {slope} and horizon {horizon}"
    );
}

#[test]
fn a_bare_road_is_found_exactly() {
    let road = run(&mut plan(SIZE), &scene(SIZE, |_, y| ground(y)));
    assert_line(&road, SLOPE, HORIZON, 1e-3, 0.1);
    assert!((road.camera_height_m - 1.65).abs() < 0.005, "{road:?}");
    assert!((road.pitch_rad - 0.015).abs() < 0.0005, "{road:?}");
    assert!((road.offset + road.slope * road.horizon_row).abs() < 1e-3);
    assert_eq!(road.confidence, 1.0);
}

#[test]
fn noise_outliers_and_holes_do_not_move_it() {
    let mut n = Noise(1);
    let d = scene(SIZE, |_, y| match n.next() % 10 {
        0..=3 => -1.0,
        4 => 64.0 + n.even(63.0),
        _ => ground(y) + n.even(1.0),
    });
    assert_line(&run(&mut plan(SIZE), &d), SLOPE, HORIZON, 0.01, 1.0);
}

#[test]
fn a_wall_that_dominates_the_histogram_loses() {
    // Most of the image at one distance, the road before it in the last 110 rows.
    let d = scene(SIZE, |_, y| ground(y).max(28.4));
    let road = run(&mut plan(SIZE), &d);
    assert_line(&road, SLOPE, HORIZON, 0.01, 2.0);
    // To the last row in four fifths of the columns.
    let mut n = Noise(2);
    let d = scene(SIZE, |x, y| {
        let g = ground(y) + n.even(0.5);
        if x < 500 {
            g.max(60.0 + n.even(0.5))
        } else {
            g
        }
    });
    assert_line(&run(&mut plan(SIZE), &d), SLOPE, HORIZON, 0.01, 1.0);
}

#[test]
fn vehicles_and_a_slanted_building_stand_on_it() {
    let mut n = Noise(3);
    let d = scene(SIZE, |x, y| {
        let g = ground(y) + n.even(0.4);
        let building = if x < 250 { 70.0 - 0.25 * x as f64 } else { 0.0 };
        let cars = match x {
            300..380 if y > 120 => 15.0,
            420..560 if y > 100 => 33.0,
            _ => 0.0,
        };
        g.max(building).max(cars)
    });
    assert_line(&run(&mut plan(SIZE), &d), SLOPE, HORIZON, 0.01, 1.0);
}

#[test]
fn pavements_do_not_pull_the_line() {
    // A kerb of 8 cm makes the pavement 5 % nearer: inside the band far away, outside nearby.
    let d = scene(SIZE, |x, y| {
        let pavement = if x < 220 { 1.65 / 1.57 } else { 1.0 };
        (ground(y) * pavement).max(4.0)
    });
    assert_line(&run(&mut plan(SIZE), &d), SLOPE, HORIZON, 0.004, 0.5);
}

#[test]
fn the_lane_wins_over_lower_ground_beside_it() {
    // A parking lane a tenth of the disparity lower, on two fifths of the columns.
    let d = scene(SIZE, |x, y| ground(y) * if x < 250 { 0.88 } else { 1.0 });
    assert_line(&run(&mut plan(SIZE), &d), SLOPE, HORIZON, 0.01, 1.0);
}

#[test]
fn the_horizon_may_lie_above_or_far_below_the_middle() {
    for (horizon, slope) in [(-25.0, 0.25), (0.0, 0.31), (330.0, 0.5), (60.0, 0.16)] {
        let d = scene(SIZE, |_, y| slope * (y as f64 - horizon));
        let road = run(&mut plan(SIZE), &d);
        assert_line(&road, slope, horizon, 0.01, 1.0);
        assert_eq!(road.pitch_rad > 0.0, horizon < KITTI.cy);
    }
}

#[test]
fn nothing_to_see_is_assumed_and_later_held() {
    let nothing = scene(SIZE, |_, _| -1.0);
    let good = scene(SIZE, |_, y| ground(y));
    let mut plan = plan(SIZE);
    let road = run(&mut plan, &nothing);
    assert_eq!(road.origin, RoadOrigin::Assumed);
    assert_eq!((road.camera_height_m, road.pitch_rad), (1.5, 0.0));
    assert_eq!(road.horizon_row, 183.1104);
    assert_eq!(road.confidence, 0.0);
    let measured = run(&mut plan, &good);
    assert_eq!(measured.origin, RoadOrigin::Measured);
    for n in 1..5 {
        let held = run(&mut plan, &nothing);
        assert_eq!(held.origin, RoadOrigin::Held);
        assert_eq!((held.slope, held.offset), (measured.slope, measured.offset));
        assert!((held.confidence - 0.9f32.powi(n)).abs() < 1e-6, "{held:?}");
    }
    assert_eq!(run(&mut plan, &good).origin, RoadOrigin::Measured);
    plan.reset();
    assert_eq!(run(&mut plan, &nothing).origin, RoadOrigin::Assumed);
}

#[test]
fn what_is_no_road_is_not_taken_for_one() {
    let mut n = Noise(4);
    // One wall everywhere (slope 0), a ceiling, noise alone, zeros, two walls.
    let scenes = [
        scene(SIZE, |_, _| 40.0),
        scene(SIZE, |_, y| 0.3 * (200.0 - y as f64)),
        scene(SIZE, |_, _| 64.0 + n.even(63.0)),
        scene(SIZE, |_, _| 0.0),
        scene(SIZE, |_, y| if y < 250 { 20.0 } else { 50.0 }),
    ];
    for (i, d) in scenes.iter().enumerate() {
        let road = run(&mut plan(SIZE), d);
        assert_eq!(road.origin, RoadOrigin::Assumed, "scene {i}: {road:?}");
    }
}

#[test]
fn any_size_works() {
    for h in [1, 2, 3, 31, 32, 33, 375, 1023, 1024, 1025] {
        for w in [1, 7, 64, 333] {
            let size = Size::new(w, h);
            let camera = Camera {
                cy: h as f64 / 2.0,
                focal_px: 2.0 * h as f64,
                ..KITTI
            };
            let params = Params::default();
            let mut plan = Plan::new(&params, size, &camera, 128, None).unwrap();
            let road = run(
                &mut plan,
                &scene(size, |_, y| 0.3 * (y as f64 - 0.45 * h as f64)),
            );
            if h >= 375 {
                assert_line(&road, 0.3, 0.45 * h as f64, 0.02, 1.0);
            } else if h <= 3 {
                assert_eq!(road.origin, RoadOrigin::Assumed, "{size}: {road:?}");
            }
        }
    }
}

#[test]
fn the_line_follows_pitch_quickly_and_height_slowly() {
    let mut plan = plan(SIZE);
    let pitched = |rows: f64, scale: f64| {
        scene(SIZE, move |_, y| {
            scale * SLOPE * (y as f64 - HORIZON - rows)
        })
    };
    run(&mut plan, &pitched(0.0, 1.0));
    let road = run(&mut plan, &pitched(5.0, 1.0));
    // pitch_gain of 5 rows.
    assert_line(&road, SLOPE, HORIZON + 4.0, 1e-3, 0.2);
    plan.reset();
    run(&mut plan, &pitched(0.0, 1.0));
    let road = run(&mut plan, &pitched(0.0, 1.05));
    // height_gain of 5 %.
    assert!(
        (f64::from(road.slope) / SLOPE - 1.01).abs() < 1e-3,
        "{road:?}"
    );
    for _ in 0..40 {
        run(&mut plan, &pitched(0.0, 1.05));
    }
    assert_line(
        &run(&mut plan, &pitched(0.0, 1.05)),
        1.05 * SLOPE,
        HORIZON,
        1e-3,
        0.2,
    );
}

#[test]
fn a_jump_is_held_until_frames_agree_on_it() {
    let mut plan = plan(SIZE);
    let good = scene(SIZE, |_, y| ground(y));
    let other = scene(SIZE, |_, y| 0.5 * (y as f64 - 120.0));
    let before = run(&mut plan, &good);
    // Once: forgotten.
    assert_eq!(run(&mut plan, &other).origin, RoadOrigin::Held);
    let after = run(&mut plan, &good);
    assert_eq!(
        (after.slope, after.origin),
        (before.slope, RoadOrigin::Measured)
    );
    // Again and again: believed with the fourth frame.
    let origins: Vec<_> = (0..4).map(|_| run(&mut plan, &other).origin).collect();
    use RoadOrigin::{Held, Measured};
    assert_eq!(origins, [Held, Held, Held, Measured]);
    assert_line(&run(&mut plan, &other), 0.5, 120.0, 1e-3, 0.2);
}

#[test]
fn masked_pixels_are_not_looked_at() {
    // A bonnet that looks like a steeper, lower ground.
    let d = scene(SIZE, |_, y| {
        if y < 240 {
            ground(y)
        } else {
            0.5 * (y as f64 - 220.0)
        }
    });
    let mask: Mask = Image::from_fn(SIZE.width, SIZE.height, |_, y| u8::from(y < 240) * 255);
    let params = Params::default();
    let mut masked = Plan::new(&params, SIZE, &KITTI, 128, Some(&mask)).unwrap();
    // 67 of 197 rows crossed show ground: just enough.
    assert_line(&run(&mut masked, &d), SLOPE, HORIZON, 0.01, 0.5);
    let mut bare = plan(SIZE);
    let road = run(&mut bare, &d);
    assert!(
        (f64::from(road.slope) / SLOPE - 1.0).abs() > 0.05,
        "{road:?}"
    );
}

#[test]
fn a_fixed_line_is_what_was_fixed() {
    let params = Params {
        fixed: Some(Fixed {
            slope: 0.230868,
            horizon_row: 303.0,
        }),
        ..Params::default()
    };
    let camera = Camera {
        focal_px: 704.7082,
        cx: 512.0,
        cy: 384.0,
        baseline_m: 0.8,
    };
    let mut plan = Plan::new(&params, SIZE, &camera, 128, None).unwrap();
    let road = run(&mut plan, &scene(SIZE, |_, y| ground(y)));
    assert_eq!(road.origin, RoadOrigin::Fixed);
    assert_eq!((road.slope, road.horizon_row), (0.230868, 303.0));
    // The reference's own numbers (its pitch has the opposite sign).
    assert!((road.camera_height_m - 3.44212).abs() < 1e-3, "{road:?}");
    assert!((road.pitch_rad - 0.11443).abs() < 1e-4, "{road:?}");
    assert_eq!(road.confidence, 1.0);
}

#[test]
fn threads_do_not_change_it() {
    let mut n = Noise(5);
    let frames: Vec<_> = (0..3)
        .map(|i| {
            scene(SIZE, |x, y| {
                let g = ground(y) + f64::from(i) + n.even(3.0);
                if x % 3 == 0 { 30.0 } else { g }
            })
        })
        .collect();
    let results: Vec<Vec<Road>> = [1, 2, 5]
        .iter()
        .map(|&threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let mut plan = plan(SIZE);
                frames.iter().map(|d| run(&mut plan, d)).collect()
            })
        })
        .collect();
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

#[test]
fn the_reference_disparity_gives_the_least_squares_line() {
    let Some(folder) = common::data("stixel_reference/disparities") else {
        return;
    };
    let file = folder.join("ap_000_29-02-2016_09-00-09_000002.png");
    let Picture::Grey16(mut d) = picture::read(&file).unwrap() else {
        panic!("16 bit expected");
    };
    for v in d.data_mut() {
        if *v == 0 {
            *v = INVALID;
        }
    }
    let camera = Camera {
        focal_px: 704.7082,
        cx: 512.0,
        cy: 384.0,
        baseline_m: 0.8,
    };
    let mut plan = Plan::new(&Params::default(), d.size(), &camera, 128, None).unwrap();
    let road = run(&mut plan, &d);
    // Of this map's road by hand: 0.23287, 301.5.
    assert_line(&road, 0.23287, 301.5, 0.005, 1.0);
    // At the last row within half a pixel; a Hough line of 1 degree and 1 px is off by 1.4.
    let last = road.disparity_px(767.0);
    assert!((last - 108.4).abs() < 0.5, "{last}");
}

/// Disparities by plain block matching (sum of absolute differences, 7x7 px) in every 8th
/// column, where the best is clearly better than all but its neighbours.
fn block_matches(left: &Image<u8>, right: &Image<u8>) -> Disparity {
    let (w, h) = (left.width(), left.height());
    let mut result = Image::filled(w, h, INVALID);
    let cost = |x: usize, y: usize, d: usize| -> u32 {
        (y - 3..=y + 3)
            .map(|row| {
                let a = &left.row(row)[x - 3..x + 4];
                let b = &right.row(row)[x - d - 3..x - d + 4];
                a.iter()
                    .zip(b)
                    .map(|(a, b)| u32::from(a.abs_diff(*b)))
                    .sum::<u32>()
            })
            .sum()
    };
    for y in 3..h - 3 {
        for x in (132..w - 4).step_by(8) {
            let costs: [u32; 128] = std::array::from_fn(|d| cost(x, y, d));
            let best = (0..128).min_by_key(|&d| costs[d]).unwrap();
            let other = (0..128usize)
                .filter(|d| d.abs_diff(best) > 1)
                .map(|d| costs[d])
                .min();
            if best > 0 && best < 127 && other.unwrap() * 4 > costs[best] * 5 {
                let (a, b, c) = (costs[best - 1], costs[best], costs[best + 1]);
                let q = f64::from(a + c - 2 * b).max(1.0);
                let d = best as f64 + (f64::from(a) - f64::from(c)) / (2.0 * q);
                result.set(x, y, (d * 256.0) as u16);
            }
        }
    }
    result
}

#[test]
fn a_real_drive_keeps_its_camera_height() {
    let Some(drive) = common::data("kitti_odom_06") else {
        return;
    };
    let read =
        |side: &str, n: usize| match picture::read(&drive.join(side).join(format!("{n:06}.png"))) {
            Ok(Picture::Grey8(image)) => image,
            other => panic!("8-bit grey expected: {other:?}"),
        };
    let mut plan = None;
    let mut before: Option<Road> = None;
    for n in [10, 11, 12] {
        let d = block_matches(&read("image_l", n), &read("image_r", n));
        let plan = plan.get_or_insert_with(|| self::plan(d.size()));
        let road = run(plan, &d);
        assert_eq!(road.origin, RoadOrigin::Measured, "frame {n}: {road:?}");
        // KITTI's cameras are 1.65 m above the road.
        assert!(
            (road.camera_height_m - 1.65).abs() < 0.06,
            "frame {n}: {road:?}"
        );
        assert!(
            (road.horizon_row - 172.0).abs() < 5.0,
            "frame {n}: {road:?}"
        );
        if let Some(before) = before {
            assert!(
                (road.horizon_row - before.horizon_row).abs() < 3.0,
                "frame {n}: {road:?}"
            );
        }
        before = Some(road);
    }
}

#[test]
fn wrong_parameters_are_named() {
    let size = Size::new(10, 10);
    let error = |p: &Params, s: Size, c: &Camera, d: usize, m: Option<&Mask>| {
        Plan::new(p, s, c, d, m).unwrap_err().to_string()
    };
    let p = Params::default();
    let with = |f: fn(&mut Params)| {
        let mut p = Params::default();
        f(&mut p);
        error(&p, size, &KITTI, 128, None)
    };
    assert_eq!(
        with(|p| p.fixed = Some(Fixed {
            slope: 0.0,
            horizon_row: 1.0
        })),
        "road.fixed.slope is 0, expected 0.000001 to 1000"
    );
    assert_eq!(
        with(|p| p.fixed = Some(Fixed {
            slope: 1.0,
            horizon_row: f64::NAN
        })),
        "road.fixed.horizon_row is NaN, expected -1000000 to 1000000"
    );
    assert_eq!(
        with(|p| p.min_camera_height_m = 4.0),
        "road.min_camera_height_m is 4, expected less than road.max_camera_height_m, 4"
    );
    assert_eq!(
        with(|p| p.pitch_gain = 0.0),
        "road.pitch_gain is 0, expected above 0 to 1"
    );
    assert_eq!(
        with(|p| p.min_support = 2.0),
        "road.min_support is 2, expected 0 to 1"
    );
    assert_eq!(
        with(|p| p.reacquire_frames = 0),
        "road.reacquire_frames is 0, expected 1 or more"
    );
    assert_eq!(
        error(&p, Size::new(0, 5), &KITTI, 128, None),
        "image size is 0x5, expected 1x1 to 65535x65535"
    );
    assert_eq!(
        error(&p, size, &KITTI, 0, None),
        "disparity range is 0 px, expected 1 to 256"
    );
    assert_eq!(
        error(
            &p,
            size,
            &Camera {
                baseline_m: 0.0,
                ..KITTI
            },
            128,
            None
        ),
        "camera baseline_m is 0, expected a length of 0.0001 to 100 m"
    );
    let mask = Image::filled(3, 4, 255);
    assert_eq!(
        error(&p, size, &KITTI, 128, Some(&mask)),
        "mask is 3x4, expected the image's 10x10"
    );
}

#[test]
fn parameters_come_from_toml() {
    let p: Params = toml::from_str("fixed = { slope = 0.230868, horizon_row = 303 }").unwrap();
    assert_eq!(
        p.fixed,
        Some(Fixed {
            slope: 0.230868,
            horizon_row: 303.0
        })
    );
    let e = toml::from_str::<Params>("camera_height = 1.5").unwrap_err();
    assert!(
        e.to_string().contains("unknown field `camera_height`"),
        "{e}"
    );
}
