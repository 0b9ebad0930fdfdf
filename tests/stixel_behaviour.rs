//! What does the stixel stage do with streets, holes, noise, odd shapes, odd roads and odd
//! parameters?
use proptest::prelude::*;
use roadloop::{
    frame::{Camera, Class, Disparity, INVALID, Road, RoadOrigin, Size, Stixel, Stixels},
    picture::{self, Picture},
    stage::{
        Stage as _,
        stixel::{Input, Params, ParamsError, cpu::Plan},
    },
};

mod common;

const CAMERA: Camera = Camera {
    focal_px: 707.0,
    cx: 600.0,
    cy: 183.0,
    baseline_m: 0.54,
};

fn road(slope: f32, horizon_row: f32) -> Road {
    Road {
        slope,
        offset: -slope * horizon_row,
        horizon_row,
        pitch_rad: 0.0,
        camera_height_m: 1.65,
        confidence: 1.0,
        origin: RoadOrigin::Fixed,
    }
}

fn presets() -> [Params; 2] {
    [Params::default(), Params::paper()]
}

fn run(plan: &mut Plan, disparity: &Disparity, road: &Road) -> Stixels {
    let mut stixels = plan.output();
    plan.run(Input { disparity, road }, &mut stixels);
    stixels
}

fn stixels_of(params: &Params, disparity: &Disparity, road: &Road) -> Stixels {
    let mut plan = Plan::new(params, disparity.size(), &CAMERA, 128).unwrap();
    run(&mut plan, disparity, road)
}

/// Whole numbers from a seed, as good as random.
fn noise(x: usize, y: usize, seed: u64) -> u64 {
    let mut z = seed ^ (x as u64) << 32 ^ y as u64;
    for _ in 0..3 {
        z = (z ^ z >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    z ^ z >> 32
}

fn noisy(size: Size, seed: u64) -> Disparity {
    Disparity::from_fn(size.width, size.height, |x, y| match noise(x, y, seed) {
        n if n % 4 == 0 => INVALID,
        n => (n >> 8) as u16,
    })
}

/// Panics unless every row of every column belongs to one stixel, in order.
fn assert_covered(stixels: &Stixels, size: Size, width: usize) {
    assert_eq!(stixels.columns(), size.width / width);
    for u in 0..stixels.columns() {
        let mut next = 0;
        for s in stixels.column(u) {
            assert_eq!(usize::from(s.top), next, "column {u}");
            assert!(s.base >= s.top, "column {u}");
            next = usize::from(s.base) + 1;
        }
        assert_eq!(next, size.height, "column {u}");
    }
}

/// A road from row 180 down, a car 10 m ahead (38 px) in columns 40 to 59, sky above row 120 and
/// a wall at 8 px between.
fn street(size: Size) -> (Disparity, Road) {
    let ground = road(0.33, 180.0);
    let disparity = Disparity::from_fn(size.width, size.height, |x, y| {
        let on_ground = 0.33 * (y as f64 - 180.0);
        let wall = if y >= 120 { 8.0 } else { 0.0 };
        let car = (200..300).contains(&x) && (230..295).contains(&y);
        let clean = if car { 38.0 } else { on_ground.max(wall) };
        let jitter = (noise(x, y, 1) % 128) as f64 - 64.0;
        (clean * 256.0 + jitter).max(0.0) as u16
    });
    (disparity, ground)
}

/// The first column in which no match lies outside the right image: to its left, what is
/// missing may also be a near object (`unseen_border_px`).
const SEEN: usize = 128usize.div_ceil(5);

fn classes(column: &[Stixel]) -> Vec<Class> {
    column.iter().map(|s| s.class).collect()
}

#[test]
fn a_street_is_ground_objects_and_sky() {
    use Class::{Ground, Object, Sky};
    let size = Size::new(400, 370);
    let (disparity, road) = street(size);
    let stixels = stixels_of(&Params::default(), &disparity, &road);
    assert_covered(&stixels, size, 5);
    for u in 42..58 {
        let column = stixels.column(u);
        let expected = [Sky, Object, Ground, Object, Ground];
        assert_eq!(classes(column), expected, "column {u}");
        let [sky, wall, _, car, ground] = column else {
            unreachable!()
        };
        assert!(sky.base.abs_diff(119) <= 1, "column {u}: {sky:?}");
        // The wall stands where the ground has its disparity.
        assert!(wall.base.abs_diff(204) <= 5, "column {u}: {wall:?}");
        assert!(car.top.abs_diff(230) <= 2, "column {u}: {car:?}");
        assert!(
            wall.disparity.abs_diff(8 * 256) < 64,
            "column {u}: {wall:?}"
        );
        assert!(car.base.abs_diff(294) <= 10, "column {u}: {car:?}");
        assert!(car.disparity.abs_diff(38 * 256) < 64, "column {u}: {car:?}");
        assert!(ground.confidence > 128, "column {u}: {ground:?}");
        assert!(car.confidence > 128, "column {u}: {car:?}");
    }
    for u in (20..38).chain(62..80) {
        let column = stixels.column(u);
        assert_eq!(classes(column), [Sky, Object, Ground], "column {u}");
        assert!(column[1].base.abs_diff(204) <= 5, "column {u}: {column:?}");
    }
}

#[test]
fn holes_do_not_change_what_is_there() {
    let size = Size::new(400, 370);
    let (whole, road) = street(size);
    let mut holes = whole.clone();
    for y in 0..size.height {
        for x in 0..size.width {
            // Speckles everywhere, a band across the road, nothing at the top of the image.
            let hole = noise(x, y, 5).is_multiple_of(8) || (320..340).contains(&y) || y < 60;
            if hole {
                holes.set(x, y, INVALID);
            }
        }
    }
    let params = Params::default();
    let expected = stixels_of(&params, &whole, &road);
    let found = stixels_of(&params, &holes, &road);
    assert_covered(&found, size, 5);
    for u in SEEN..80 {
        let (e, f) = (expected.column(u), found.column(u));
        assert_eq!(classes(e), classes(f), "column {u}");
        for (e, f) in e.iter().zip(f) {
            assert!(e.base.abs_diff(f.base) <= 6, "column {u}: {e:?} {f:?}");
        }
    }
}

#[test]
fn what_is_missing_at_the_top_is_sky() {
    let size = Size::new(400, 370);
    let (mut disparity, road) = street(size);
    for y in 0..120 {
        disparity.row_mut(y).fill(INVALID);
    }
    let stixels = stixels_of(&Params::default(), &disparity, &road);
    for u in SEEN..80 {
        let [sky, object, ..] = stixels.column(u) else {
            panic!("column {u}: {:?}", stixels.column(u));
        };
        assert_eq!((sky.class, object.class), (Class::Sky, Class::Object));
        assert_eq!((sky.top, sky.base, sky.disparity), (0, 119, INVALID));
        assert_eq!(sky.confidence, 0);
    }
}

#[test]
fn nothing_measured_is_what_is_likelier_to_be_missing() {
    let size = Size::new(1000, 370);
    let disparity = Disparity::filled(size.width, size.height, INVALID);
    let stixels = stixels_of(
        &Params {
            p_ground_if_missing: 0.4,
            p_sky_if_missing: 0.4,
            p_object_if_missing: 0.3,
            ..Params::default()
        },
        &disparity,
        &road(0.33, 180.0),
    );
    for u in SEEN..200 {
        let [sky, ground] = stixels.column(u) else {
            panic!("column {u}: {:?}", stixels.column(u));
        };
        assert_eq!((sky.class, ground.class), (Class::Sky, Class::Ground));
        assert_eq!((sky.base, ground.top), (180, 181), "column {u}");
        assert_eq!((sky.disparity, ground.disparity), (INVALID, INVALID));
        assert_eq!((sky.confidence, ground.confidence), (0, 0));
    }
}

#[test]
fn no_sky_of_one_row_between_objects() {
    let Some(data) = common::data("stixel_reference") else {
        return;
    };
    let path = data.join("disparities/ap_000_29-02-2016_09-00-09_000002.png");
    let Picture::Grey16(disparity) = picture::read(&path).unwrap() else {
        panic!("expected 16-bit grey");
    };
    let camera = Camera {
        focal_px: 704.7082,
        cx: 512.0,
        cy: 384.0,
        baseline_m: 0.8,
    };
    let count = |params: &Params| {
        let mut plan = Plan::new(params, disparity.size(), &camera, 128).unwrap();
        let stixels = run(&mut plan, &disparity, &road(0.230868, 303.0));
        (0..stixels.columns())
            .flat_map(|u| stixels.column(u).windows(3))
            .filter(|w| {
                w[1].class == Class::Sky
                    && w[1].top == w[1].base
                    && w[0].class == Class::Object
                    && w[2].class == Class::Object
            })
            .count()
    };
    assert!(count(&Params::paper()) > 0);
    assert_eq!(count(&Params::default()), 0);
}

#[test]
fn any_shape() {
    for params in presets() {
        for height in [1, 2, 15, 16, 17, 31, 32, 33, 375, 1023, 1024, 1025, 2160] {
            for width in [1, 4, 5, 13] {
                let size = Size::new(width, height);
                for disparity in [
                    noisy(size, height as u64),
                    Disparity::filled(width, height, INVALID),
                    Disparity::filled(width, height, 0),
                    Disparity::filled(width, height, INVALID - 1),
                ] {
                    let stixels = stixels_of(&params, &disparity, &road(0.3, height as f32 / 2.0));
                    assert_covered(&stixels, size, 5);
                }
            }
        }
    }
}

#[test]
fn the_tallest_image_fits_32_bits() {
    for params in presets() {
        let size = Size::new(params.stixel_width, 65_535);
        let disparity = Disparity::filled(size.width, size.height, 0);
        let mut plan = Plan::new(&params, size, &CAMERA, 64).unwrap();
        let stixels = run(&mut plan, &disparity, &road(0.002, 30_000.0));
        let column = stixels.column(0);
        assert_eq!(column.last().unwrap().base, 65_534);
        assert_eq!(column[0].top, 0);
        // The range of costs alone, without the memory that 256 disparities take.
        let size = Size::new(0, 65_535);
        assert!(Plan::new(&params, size, &CAMERA, 256).is_ok());
    }
}

#[test]
fn threads_and_history_do_not_show() {
    let size = Size::new(333, 150);
    let (first, second) = (noisy(size, 1), street(size).0);
    let road = road(0.33, 70.0);
    for params in presets() {
        let alone = stixels_of(&params, &second, &road);
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let mut plan = Plan::new(&params, size, &CAMERA, 128).unwrap();
                run(&mut plan, &first, &road);
                assert_eq!(run(&mut plan, &second, &road), alone, "{threads} threads");
            });
        }
    }
}

#[test]
fn a_list_that_is_too_short_keeps_the_lowest_and_is_counted() {
    let size = Size::new(400, 370);
    let (disparity, road) = street(size);
    let whole = stixels_of(&Params::default(), &disparity, &road);
    for capacity in 1..4 {
        let params = Params {
            max_stixels_per_column: capacity,
            ..Params::default()
        };
        let short = stixels_of(&params, &disparity, &road);
        assert_covered(&short, size, 5);
        let mut overflowed = 0;
        for u in 0..whole.columns() {
            let (all, kept) = (whole.column(u), short.column(u));
            if all.len() <= capacity {
                assert_eq!(all, kept);
                continue;
            }
            overflowed += 1;
            let lowest = &all[all.len() - capacity..];
            assert_eq!(lowest[1..], kept[1..]);
            let stretched = Stixel {
                top: 0,
                confidence: 0,
                ..lowest[0]
            };
            assert_eq!(kept[0], stretched);
        }
        assert_eq!(short.overflowed(), overflowed);
    }
    assert_eq!(whole.overflowed(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_road_any_noise(
        slope in prop_oneof![any::<f32>(), -1f32..1.0],
        horizon in prop_oneof![any::<f32>(), -300f32..300.0],
        (width, height) in (1usize..40, 1usize..120),
        stixel_width in 1usize..20,
        seed: u64,
        paper: bool,
        disparities in prop::sample::select(vec![64usize, 128, 256]),
    ) {
        let base = if paper { Params::paper() } else { Params::default() };
        let params = Params { stixel_width, ..base };
        let size = Size::new(width, height);
        let mut plan = Plan::new(&params, size, &CAMERA, disparities).unwrap();
        let stixels = run(&mut plan, &noisy(size, seed), &road(slope, horizon));
        assert_covered(&stixels, size, stixel_width);
    }
}

#[test]
fn unusable_parameters_are_named() {
    let size = Size::new(100, 100);
    let error = |params: &Params| Plan::new(params, size, &CAMERA, 128).unwrap_err();
    let d = Params::default();
    let e = error(&Params {
        stixel_width: 0,
        ..d.clone()
    });
    assert_eq!(e.to_string(), "stixel.stixel_width is 0, expected 1 to 255");
    let e = error(&Params {
        sigma_sky_px: f64::NAN,
        ..d.clone()
    });
    assert_eq!(
        e.to_string(),
        "stixel.sigma_sky_px is NaN, expected 0.05 to 64"
    );
    let e = error(&Params {
        p_gravity: 0.9,
        p_below_ground: 0.1,
        ..d.clone()
    });
    assert!(e.to_string().contains("p_gravity"), "{e}");
    for disparities in [0, 100, 512] {
        let e = Plan::new(&d, size, &CAMERA, disparities).unwrap_err();
        assert_eq!(e, ParamsError::Disparities { found: disparities });
    }
    for height in [0, 65_536] {
        let e = Plan::new(&d, Size::new(5, height), &CAMERA, 64).unwrap_err();
        assert_eq!(e, ParamsError::Height { found: height });
    }
    let blind = Camera {
        baseline_m: 0.0,
        ..CAMERA
    };
    let e = Plan::new(&d, size, &blind, 64).unwrap_err();
    assert!(matches!(
        e,
        ParamsError::Camera {
            key: "baseline_m",
            ..
        }
    ));
    let sure = Params {
        p_outlier_object: 0.001,
        p_outlier_ground: 0.001,
        sigma_ground_px: 0.05,
        ..d
    };
    let e = Plan::new(&sure, Size::new(5, 65_535), &CAMERA, 64).unwrap_err();
    assert!(matches!(e, ParamsError::CostRange { .. }), "{e}");
}

#[test]
fn keys_are_checked() {
    assert!(toml::from_str::<Params>("stixel_width = 7").is_ok());
    let e = toml::from_str::<Params>("stixel_widht = 7").unwrap_err();
    assert!(e.to_string().contains("stixel_widht"), "{e}");
}
