//! Is the fast stereo stage the plain model, byte for byte?
use proptest::prelude::*;
use roadloop::{
    frame::{Disparity, INVALID, Image, Mask, Size},
    stage::{
        Stage as _,
        stereo::{Input, Params, cpu::Plan, model},
    },
};

/// Noise, and a right image that is the left one shifted by parts, so that something matches.
fn pair(size: Size, seed: u64, levels: u64) -> (Image<u8>, Image<u8>) {
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

fn run(mut plan: Plan, left: &Image<u8>, right: &Image<u8>) -> Disparity {
    let mut out = Disparity::filled(left.width(), left.height(), 7);
    plan.run(Input { left, right }, &mut out);
    let mut again = Disparity::filled(left.width(), left.height(), 9);
    plan.run(Input { left, right }, &mut again);
    assert_eq!(out, again, "a second run differs");
    out
}

fn check(params: &Params, size: Size, seed: u64, levels: u64, mask: Option<&Mask>) {
    let (left, right) = pair(size, seed, levels);
    let input = Input {
        left: &left,
        right: &right,
    };
    let model = model::disparity(params, input, mask).unwrap();
    for plan in Plan::each(params, size, mask).unwrap() {
        let fast = run(plan, &left, &right);
        for (y, (a, b)) in model.rows().zip(fast.rows()).enumerate() {
            assert_eq!(a, b, "row {y} of {size}, {params:?}");
        }
    }
}

prop_compose! {
    fn any_params()(
        disparities in prop::sample::select(vec![64, 128, 256]),
        paths in prop::sample::select(vec![4, 8]),
        outside_cost in 0u16..32,
        p1 in 0u16..100,
        p2 in 0u16..125,
        p2_min in 0u16..125,
        p2_half_step in prop_oneof![Just(0u16), 1u16..256],
        uniqueness_percent in prop_oneof![Just(0u16), 1u16..60],
        left_right in any::<bool>(),
        left_right_max_px in 0u16..4,
        (subpixel, median) in any::<(bool, bool)>(),
        speckle_max_area_px in prop_oneof![Just(0u32), 1u32..60],
        speckle_max_step_px in 0u16..8,
        gap_max_px in prop_oneof![Just(0u16), 1u16..20],
        gap_max_step_px in 0u16..20,
    ) -> Params {
        let mut p = [p1, p2_min, p2];
        p.sort_unstable();
        Params {
            disparities, paths, outside_cost, p1: p[0], p2: p[2], p2_min: p[1], p2_half_step,
            uniqueness_percent, left_right, left_right_max_px, subpixel, median,
            speckle_max_area_px, speckle_max_step_px, gap_max_px, gap_max_step_px,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_parameters_any_shape(
        params in any_params(),
        width in 1usize..150,
        height in 1usize..40,
        seed in any::<u64>(),
        levels in prop::sample::select(vec![1u64, 15, 255]),
        masked in any::<bool>(),
    ) {
        let size = Size::new(width, height);
        let mask = Mask::from_fn(width, height, |x, y| {
            u8::from((x * 7 + y * 3 + seed as usize % 11) % 13 > 1 && x + y != 20)
        });
        check(&params, size, seed, levels, masked.then_some(&mask));
    }
}

/// Widths and heights at and beside the sizes of blocks, lanes and sweeps.
#[test]
fn shapes_at_the_edges_of_blocks() {
    let sizes = [
        (1, 1),
        (1, 31),
        (31, 1),
        (33, 32),
        (64, 16),
        (65, 17),
        (129, 7),
        (2, 375),
        (3, 1025),
        (1024, 2),
        (300, 9),
    ];
    for paths in [4, 8] {
        for (i, (w, h)) in sizes.into_iter().enumerate() {
            let params = Params {
                paths,
                speckle_max_area_px: 10,
                ..Params::default()
            };
            check(&params, Size::new(w, h), i as u64, 255, None);
        }
    }
}

/// Equal images, or images without texture, or noise without a match.
#[test]
fn what_can_not_be_matched() {
    let size = Size::new(100, 20);
    let params = Params {
        disparities: 64,
        speckle_max_area_px: 0,
        gap_max_px: 0,
        ..Params::default()
    };
    let (left, noise) = pair(size, 1, 255);
    let same = run(Plan::new(&params, size, None).unwrap(), &left, &left);
    assert!(same.pixels().all(|&d| d < 16 * 16 || d == INVALID));
    let inner = (0..20).flat_map(|y| (10..90).map(move |x| (x, y)));
    assert!(inner.clone().all(|(x, y)| same.get(x, y) < 128));
    // Nothing but equal costs: the smallest disparity.
    let flat = Image::filled(100, 20, 50u8);
    let none = run(Plan::new(&params, size, None).unwrap(), &flat, &flat);
    assert!(none.pixels().all(|&d| d == 0));
    check(&params, size, 5, 0, None);
    run(Plan::new(&params, size, None).unwrap(), &flat, &noise);
}

/// A texture shifted by a whole number and by parts of a pixel.
#[test]
fn a_known_shift() {
    let size = Size::new(300, 40);
    for shift in [0usize, 1, 17, 63, 100] {
        let texture = |x: usize, y: usize| ((x * x * 7 + y * 31 + x * y * 13) % 251) as u8;
        let left = Image::from_fn(300, 40, texture);
        let right = Image::from_fn(300, 40, |x, y| texture(x + shift, y));
        let out = run(
            Plan::new(&Params::default(), size, None).unwrap(),
            &left,
            &right,
        );
        for y in 0..40 {
            for x in shift + 8..292 {
                assert_eq!((out.get(x, y) + 128) / 256, shift as u16, "({x}, {y})");
            }
            // No match outside the right image.
            let cut =
                |(x, &d): (usize, &u16)| d == INVALID || usize::from(d - d % 16) <= x * 256 + 128;
            assert!(out.row(y)[..shift].iter().enumerate().all(cut), "row {y}");
        }
    }
}

#[test]
fn masked_pixels_stay_invalid() {
    let size = Size::new(200, 30);
    let (left, _) = pair(size, 3, 255);
    let mask = Mask::from_fn(200, 30, |x, y| u8::from(!(60..70).contains(&x) || y < 10));
    let out = run(
        Plan::new(&Params::default(), size, Some(&mask)).unwrap(),
        &left,
        &left,
    );
    for y in 0..30 {
        for x in 20..180 {
            assert_eq!(out.get(x, y) == INVALID, mask.get(x, y) == 0, "({x}, {y})");
        }
    }
}

/// The same bytes for any number of threads, also more than the plan was built for.
#[test]
fn any_number_of_threads() {
    let size = Size::new(333, 77);
    let (left, right) = pair(size, 9, 255);
    for paths in [4, 8] {
        let params = Params {
            paths,
            speckle_max_area_px: 20,
            ..Params::default()
        };
        let pool = |n| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(n)
                .build()
                .unwrap()
        };
        let one = pool(1).install(|| run(Plan::new(&params, size, None).unwrap(), &left, &right));
        for n in [2, 3, 8] {
            let plan = Plan::new(&params, size, None).unwrap();
            let many = pool(n).install(|| run(plan, &left, &right));
            assert_eq!(one, many, "{n} threads");
        }
        let plan = pool(1).install(|| Plan::new(&params, size, None).unwrap());
        assert_eq!(one, pool(5).install(|| run(plan, &left, &right)));
    }
}
