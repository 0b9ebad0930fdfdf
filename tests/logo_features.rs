//! Are the features of an image those of the plain text of the contract, wherever it lies, however
//! it is turned, on any size?
use std::collections::HashSet;

use proptest::prelude::*;
use roadloop::{
    frame::{Image, Mask, Size},
    stage::logo::features::{
        BORDER, BorderPolicy, Descriptor, FeatureParams, Features, Keypoint, MAX_STEPS, Mode,
        Region,
        cpu::{Input, Plan},
        matcher::{self, Match},
        orientation,
        tables::{Octaves, Tables, WINDOW},
    },
};

#[path = "common/logo_plain.rs"]
mod plain;

/// Blobs of several sizes over noise, so that there is something at each scale.
fn picture(size: Size, seed: u64) -> Image<u8> {
    let hash = |a: usize, b: usize, c: usize| {
        let mut v = seed ^ (a as u64) << 40 ^ (b as u64) << 20 ^ c as u64;
        for _ in 0..3 {
            v = (v ^ v >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        (v >> 40) as usize
    };
    Image::from_fn(size.width, size.height, |x, y| {
        let mut grey = 100 + hash(x, y, 9) % 8;
        for cell in [5, 9, 17, 33] {
            let (u, v) = (x % cell * 2, y % cell * 2);
            let reach = (u.abs_diff(cell)).max(v.abs_diff(cell));
            if reach < cell * (hash(x / cell, y / cell, cell) % 3) / 2 {
                grey += hash(x / cell, y / cell, cell + 1) % 50;
            }
        }
        grey.min(255) as u8
    })
}

fn features(params: &FeatureParams, image: &Image<u8>) -> Features {
    let mut out = Features::new(params);
    Plan::new(params, image.size())
        .unwrap()
        .run(image, &mut out);
    out
}

fn check(params: &FeatureParams, image: &Image<u8>, mask: Option<&Mask>) {
    let expected = plain::features(params, image, mask);
    for mut plan in Plan::each(params, image.size()).unwrap() {
        let mut out = Features::new(params);
        for _ in 0..2 {
            let region = None;
            plan.run(
                Input {
                    image,
                    region,
                    mask,
                },
                &mut out,
            );
            assert_eq!(out.found, expected.found);
            assert_eq!(out.kept, expected.kept);
            assert_eq!(out.keypoints, expected.keypoints);
            assert_eq!(out, expected);
        }
        for (octave, size) in Octaves::new(params, image.size()).sizes.iter().enumerate() {
            assert_eq!(plan.pyramid().level(octave, 0).1, *size);
        }
    }
}

prop_compose! {
    fn any_params()(
        upsample in any::<bool>(),
        octaves in 0u8..4,
        intervals in 2u8..=5,
        sigma0 in prop::sample::select(vec![0.8f32, 1.0, 1.3, 1.6, 2.0]),
        contrast in prop::sample::select(vec![0.005f32, 0.02, 0.04]),
        edge_ratio in prop::sample::select(vec![5.0f32, 10.0, 100.0]),
        max_keypoints in prop::sample::select(vec![1u32, 10, 40, 1000]),
        (cell_px, cell_budget) in (prop::sample::select(vec![0u32, 8, 20]), 1u32..5),
        oriented in any::<bool>(),
        max_orientations in 1u8..=4,
        scaled in any::<bool>(),
        drop in any::<bool>(),
    ) -> FeatureParams {
        FeatureParams {
            upsample, octaves, intervals, sigma0, contrast, edge_ratio, max_keypoints, cell_px,
            cell_budget, oriented, max_orientations, scaled,
            input_blur: if upsample { 0.3 } else { 0.5 },
            border: if drop { BorderPolicy::Drop } else { BorderPolicy::Clamp },
            ..FeatureParams::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn fast_is_plain(params in any_params(), w in 1usize..70, h in 1usize..70, seed in any::<u64>(), masked in any::<bool>()) {
        let image = picture(Size::new(w, h), seed);
        let mask = masked.then(|| Mask::from_fn(w, h, |x, y| u8::from((x / 7 + y / 5) % 3 > 0)));
        check(&params, &image, mask.as_ref());
    }

    #[test]
    fn fast_paper_is_plain(w in 1usize..60, h in 1usize..60, seed in any::<u64>(), most in 1u32..200) {
        let params = FeatureParams { max_keypoints: most, ..FeatureParams::paper() };
        check(&params, &picture(Size::new(w, h), seed), None);
    }

    #[test]
    fn matches_are_those_of_all_pairs(
        query in prop::collection::vec(any::<[u32; 8]>(), 0..150),
        train in prop::collection::vec(any::<[u32; 8]>(), 0..600),
        bits in prop::sample::select(vec![0u32, 1, 0x0101_0101, u32::MAX]),
        groups in 1u32..40,
    ) {
        // Few bits: many ties.
        let few = |d: Vec<[u32; 8]>| -> Vec<_> { d.iter().map(|d| Descriptor(d.map(|w| w & bits))).collect() };
        let (query, train) = (few(query), few(train));
        let groups: Vec<u32> = (0..train.len() as u32).map(|i| i * 7 % groups).collect();
        for groups in [None, Some(&groups[..])] {
            let expected = plain::matches(&query, &train, groups);
            for out in matcher::each(&query, &train, groups) {
                prop_assert_eq!(&out, &expected);
            }
        }
    }
}

#[test]
fn real_sizes_and_noise() {
    let noise = |w, h| {
        Image::from_fn(w, h, |x, y| {
            ((x * 7919) ^ (y * 104_729) ^ (x * y * 31)) as u8
        })
    };
    for (w, h) in [
        (16, 16),
        (31, 33),
        (1, 50),
        (50, 1),
        (257, 129),
        (2, 2),
        (11, 11),
    ] {
        check(&FeatureParams::default(), &noise(w, h), None);
        check(
            &FeatureParams::default(),
            &picture(Size::new(w, h), 3),
            None,
        );
    }
}

#[test]
fn flat_images_have_nothing() {
    for grey in [0, 128, 255] {
        for (w, h) in [(16, 16), (640, 480)] {
            let image = Image::filled(w, h, grey);
            for params in [FeatureParams::default(), FeatureParams::paper()] {
                let out = features(&params, &image);
                assert_eq!((out.found, out.keypoints.len()), (0, 0));
            }
        }
    }
}

/// A blurred spot on a grey ground, one flat-topped square besides.
fn spots(w: usize, h: usize, x0: usize, y0: usize) -> Image<u8> {
    Image::from_fn(w, h, |x, y| {
        let square =
            |x1: usize, y1: usize, n: usize| (x1..x1 + n).contains(&x) && (y1..y1 + n).contains(&y);
        let dark = [(0, 0, 6), (20, 4, 9), (7, 23, 4), (25, 25, 5)]
            .iter()
            .any(|&(u, v, n)| square(x0 + u, y0 + v, n));
        if dark { 30 } else { 200 }
    })
}

#[test]
fn a_shift_of_the_image_shifts_the_keypoints() {
    // Whole pixels of the coarsest octave: 8.
    let params = FeatureParams {
        octaves: 4,
        ..FeatureParams::default()
    };
    let a = features(&params, &spots(256, 256, 96, 88));
    let b = features(&params, &spots(256, 256, 96 + 24, 88 + 16));
    assert!(a.keypoints.len() > 4);
    assert_eq!(a.descriptors, b.descriptors);
    for (a, b) in a.keypoints.iter().zip(&b.keypoints) {
        assert!((a.x + 24.0 - b.x).abs() < 1e-4 && (a.y + 16.0 - b.y).abs() < 1e-4);
        assert_eq!(
            (a.sigma, a.angle, a.response),
            (b.sigma, b.angle, b.response)
        );
    }
}

#[test]
fn brighter_is_the_same() {
    let dark = picture(Size::new(200, 150), 5);
    let bright = Image::from_fn(200, 150, |x, y| dark.get(x, y) / 2 + 20);
    let brighter = Image::from_fn(200, 150, |x, y| dark.get(x, y) / 2 + 100);
    let params = FeatureParams::default();
    let (a, b) = (features(&params, &bright), features(&params, &brighter));
    assert!(a.keypoints.len() > 50);
    assert_eq!(a, b);
}

#[test]
fn more_contrast_with_a_threshold_to_match_is_the_same() {
    let image = picture(Size::new(200, 150), 5);
    let dim = Image::from_fn(200, 150, |x, y| image.get(x, y) / 4);
    let strong = Image::from_fn(200, 150, |x, y| dim.get(x, y) * 4);
    let of = |contrast, image: &Image<u8>| {
        let params = FeatureParams {
            contrast,
            ..FeatureParams::default()
        };
        features(&params, image)
    };
    let (a, b) = (of(0.01, &dim), of(0.04, &strong));
    // Rounding to 1/64 grey differs, which weak points feel.
    let near = |k: &Keypoint| {
        b.keypoints
            .iter()
            .any(|o| (k.x - o.x).hypot(k.y - o.y) < 0.25 && k.sign == o.sign)
    };
    let found = a.keypoints.iter().filter(|k| near(k)).count();
    assert!(
        found * 100 >= a.keypoints.len() * 90,
        "{found} of {}",
        a.keypoints.len()
    );
}

#[test]
fn a_quarter_turn_turns_the_keypoints() {
    // 2^k n + 1 pixels: every octave has the corner pixels.
    let n = 193;
    let image = picture(Size::new(n, n), 11);
    // (x, y) goes to (n - 1 - y, x): a turn by 90 degrees from x towards y.
    let turned = Image::from_fn(n, n, |x, y| image.get(y, n - 1 - x));
    let params = FeatureParams::default();
    let (a, b) = (features(&params, &image), features(&params, &turned));
    assert!(a.keypoints.len() > 100);
    let (mut bits, mut same_angle, mut lost) = (0, 0, 0);
    for (k, d) in a.keypoints.iter().zip(&a.descriptors) {
        let (x, y) = ((n - 1) as f32 - k.y, k.x);
        let at: Vec<usize> = (0..b.keypoints.len())
            .filter(|&i| {
                let o = &b.keypoints[i];
                (o.x - x).abs() < 1e-3 && (o.y - y).abs() < 1e-3 && o.response == k.response
            })
            .collect();
        if at.is_empty() {
            eprintln!("{k:?}");
            lost += 1;
            continue;
        }
        let angle = (k.angle + 256) % 1024;
        let turn = |i: &usize| {
            let off = b.keypoints[*i].angle.abs_diff(angle);
            off.min(1024 - off)
        };
        let nearest = at.iter().min_by_key(|i| turn(i)).unwrap();
        if turn(nearest) <= 2 {
            same_angle += 1;
            let distance = d.distance(&b.descriptors[*nearest]);
            assert!(distance <= 16, "{distance} bits");
            bits += distance;
        }
    }
    // Of neighbours that are equal the later one is the candidate, which a turn changes.
    assert!(lost * 100 <= a.keypoints.len(), "{lost} lost");
    assert!(same_angle * 100 >= 98 * a.keypoints.len(), "{same_angle}");
    assert!(
        bits as usize <= 3 * same_angle,
        "{bits} bits of {same_angle}"
    );
}

#[test]
fn too_many_leave_the_strongest() {
    let image = picture(Size::new(300, 200), 8);
    let params = |max_keypoints| FeatureParams {
        max_keypoints,
        max_orientations: 1,
        ..FeatureParams::default()
    };
    let all = features(&params(60_000), &image);
    let few = features(&params(50), &image);
    assert_eq!((few.found, few.kept), (all.found, 50));
    assert_eq!(all.kept, all.found);
    let mut best = all.keypoints.clone();
    best.sort_by(|a, b| b.response.total_cmp(&a.response));
    let least = best[49].response;
    assert!(few.keypoints.iter().all(|k| k.response >= least));
    // In the same order.
    let mut rest = all.keypoints.iter();
    assert!(few.keypoints.iter().all(|k| rest.any(|o| o == k)));
}

#[test]
fn cells_share_out_the_points() {
    let image = picture(Size::new(320, 240), 2);
    let params = FeatureParams {
        cell_px: 40,
        cell_budget: 3,
        ..FeatureParams::default()
    };
    let out = features(&params, &image);
    let mut cells = [0; 48];
    let mut points = HashSet::new();
    for k in &out.keypoints {
        if points.insert((k.x.to_bits(), k.y.to_bits())) {
            cells[k.y as usize / 40 * 8 + k.x as usize / 40] += 1;
        }
    }
    assert!(cells.iter().all(|&n| n <= 3), "{cells:?}");
    assert!(cells.iter().filter(|&&n| n == 3).count() > 30, "{cells:?}");
}

#[test]
fn every_run_and_number_of_threads_gives_the_same() {
    let image = picture(Size::new(333, 251), 4);
    let params = FeatureParams {
        max_keypoints: 150,
        ..FeatureParams::default()
    };
    let expected = features(&params, &image);
    for threads in [1, 2, 3, 8] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let mut plan = Plan::new(&params, image.size()).unwrap();
            let mut out = Features::new(&params);
            for _ in 0..25 {
                plan.run(&image, &mut out);
                assert_eq!(out, expected);
            }
        });
    }
}

#[test]
fn a_region_is_an_image_of_its_own() {
    let image = picture(Size::new(200, 160), 6);
    let params = FeatureParams::default();
    let region = Region {
        x: 37,
        y: 21,
        size: Size::new(101, 90),
    };
    let crop = Image::from_fn(101, 90, |x, y| image.get(37 + x, 21 + y));
    let mut expected = features(&params, &crop);
    for k in &mut expected.keypoints {
        (k.x, k.y) = (k.x + 37.0, k.y + 21.0);
    }
    let mut plan = Plan::new(&params, image.size()).unwrap();
    let mut out = Features::new(&params);
    let input = |region| Input {
        image: &image,
        region: Some(region),
        mask: None,
    };
    plan.run(input(region), &mut out);
    assert!(!out.keypoints.is_empty());
    assert_eq!(out, expected);
    // Cut at the border; outside there is nothing.
    let wide = Region {
        x: 150,
        size: Size::new(999, 999),
        ..region
    };
    plan.run(input(wide), &mut out);
    assert!(
        out.keypoints
            .iter()
            .all(|k| k.x >= 150.0 && k.x <= 199.0 && k.y <= 159.0)
    );
    plan.run(input(Region { x: 500, ..region }), &mut out);
    assert_eq!(out.found, 0);
}

#[test]
fn dropped_keypoints_leave_their_numbers() {
    let image = picture(Size::new(160, 120), 1);
    let clamp = FeatureParams::default();
    let drop = FeatureParams {
        border: BorderPolicy::Drop,
        ..clamp.clone()
    };
    let (all, some) = (features(&clamp, &image), features(&drop, &image));
    assert_eq!(some.oriented, all.keypoints.len());
    assert!(!some.keypoints.is_empty() && some.keypoints.len() < all.keypoints.len());
    for ((k, d), &i) in some
        .keypoints
        .iter()
        .zip(&some.descriptors)
        .zip(&some.original)
    {
        assert_eq!(*k, all.keypoints[i as usize]);
        assert_eq!(*d, all.descriptors[i as usize]);
        let reach = 12.0 * k.sigma;
        assert!(k.x >= reach && k.y >= reach && k.x + reach <= 159.0 && k.y + reach <= 119.0);
    }
    // Clamped ones stay in the image too.
    let inside = |k: &Keypoint| (0.0..=159.0).contains(&k.x) && (0.0..=119.0).contains(&k.y);
    assert!(all.keypoints.iter().all(inside));
}

#[test]
fn a_gradient_has_the_direction_of_its_angle() {
    let mut sum = 0.0;
    for degrees in (0..360).step_by(5) {
        let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
        // A spot on a slope.
        let image = Image::from_fn(64, 64, |x, y| {
            let (x, y) = (x as f64 - 32.0, y as f64 - 32.0);
            let spot = 40.0 * (-(x * x + y * y) / 18.0).exp();
            (110.0 + 2.5 * (x * cos + y * sin) + spot) as u8
        });
        let out = features(&FeatureParams::default(), &image);
        let spot = |k: &&Keypoint| (k.x - 32.0).hypot(k.y - 32.0) < 3.0;
        let best = |a: &&Keypoint, b: &&Keypoint| a.response.total_cmp(&b.response);
        let strongest = out.keypoints.iter().filter(spot).max_by(best).unwrap();
        assert_eq!(strongest.sign, -1);
        // It may have a second direction.
        let off = |k: &Keypoint| {
            let off = k.radians().to_degrees() - degrees as f32;
            ((off + 540.0).rem_euclid(360.0) - 180.0).abs()
        };
        let same = out
            .keypoints
            .iter()
            .filter(|k| k.response == strongest.response);
        let off = same.map(off).fold(f32::MAX, f32::min);
        // The window is a few pixels wide.
        assert!(off < 16.0, "{degrees}: off by {off}");
        sum += off;
    }
    assert!(sum < 72.0 * 6.0, "{sum}");
}

#[test]
fn refused_parameters() {
    let refused = |change: fn(&mut FeatureParams), w, h| {
        let mut params = FeatureParams::default();
        change(&mut params);
        Plan::new(&params, Size::new(w, h))
            .err()
            .unwrap()
            .to_string()
    };
    assert_eq!(
        refused(|p| p.intervals = 6, 9, 9),
        "logo.features.intervals is 6, expected 2 to 5"
    );
    assert_eq!(
        refused(|_| (), 0, 9),
        "logo: images of 0x9, expected 1x1 to 8192x8192"
    );
    assert_eq!(
        refused(|p| p.contrast = f32::NAN, 9, 9),
        "logo.features.contrast is NaN, expected 0 to 1"
    );
}
