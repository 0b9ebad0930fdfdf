//! Do rows coincide after rectification, and does the fixed-point map do what the geometry says?
mod common;

use std::path::Path;

use nalgebra::{Matrix3, Rotation3, Vector3};
use proptest::prelude::*;
use roadloop::{
    calib::{self, Distortion, Lens, MAP_ONE, OUTSIDE, Pair, Pinhole, RawPair, Rectification, Rig},
    frame::{Camera, Image, Mask, Rgb, Size},
    stage::{
        Stage,
        rectify::{Input, Rectified, RectifyError, cpu::Plan},
    },
};

/// Median row difference of matched corners, px.
const EUROC_BEFORE: std::ops::Range<f64> = 12.0..13.5;
const EUROC_AFTER: f64 = 0.3;
const CHESSBOARD_BEFORE: std::ops::Range<f64> = 12.3..13.3;
const CHESSBOARD_AFTER: f64 = 0.6;
/// How far a map entry may be from the exact place, px: half of 1/256, both ways.
const MAP_ERROR: f64 = 1.0 / 512.0 + 1e-9;

/// Corner pairs of a table in tests/data, of one image pair or of all: left x, y, right x, y.
fn corners(name: &str, pair: Option<u32>) -> Vec<[f64; 4]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_path(path)
        .unwrap();
    reader
        .deserialize::<(u32, f64, f64, f64, f64)>()
        .map(Result::unwrap)
        .filter(|row| pair.is_none_or(|pair| row.0 == pair))
        .map(|(_, a, b, c, d)| [a, b, c, d])
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty());
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Median row differences before and after.
fn medians(rectification: &Rectification, corners: &[[f64; 4]]) -> (f64, f64) {
    let [left, right] = rectification.views.as_ref().unwrap();
    let before = corners.iter().map(|c| (c[1] - c[3]).abs()).collect();
    let after = corners.iter().map(|c| {
        let l = left.rectified_of([c[0], c[1]]).unwrap();
        let r = right.rectified_of([c[2], c[3]]).unwrap();
        // Near or far, nothing is beyond infinity.
        assert!(l[0] - r[0] > -2.0, "disparity {}", l[0] - r[0]);
        (l[1] - r[1]).abs()
    });
    (median(before), median(after.collect()))
}

fn euroc() -> Rectification {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("calib/euroc_v1.yaml");
    let rig = calib::read(&path, Pair::First).unwrap();
    rig.rectification(Size::new(752, 480)).unwrap()
}

#[test]
fn rows_of_euroc_coincide() {
    let (before, after) = medians(&euroc(), &corners("euroc_corners.csv", None));
    println!("EuRoC: median |dy| {before:.3} px, rectified {after:.3} px");
    assert!(EUROC_BEFORE.contains(&before), "{before}");
    assert!(after < EUROC_AFTER, "{after}");
}

#[test]
fn rows_of_the_chessboards_coincide() {
    let Some(folder) = common::data("opencv_stereo") else {
        return;
    };
    let path = folder.join("DERIVED_stereo_calibration.yml");
    let rig = calib::read(&path, Pair::First).unwrap();
    let rectification = rig.rectification(Size::new(640, 480)).unwrap();
    let (before, after) = medians(&rectification, &corners("chessboard_corners.csv", None));
    println!("chessboards: median |dy| {before:.3} px, rectified {after:.3} px");
    assert!(CHESSBOARD_BEFORE.contains(&before), "{before}");
    assert!(after < CHESSBOARD_AFTER, "{after}");
}

/// Both ways between rectified and raw image agree, and the map with them.
fn agree(r: &Rectification, step: usize) -> usize {
    let size = r.size;
    let (Some(maps), Some(views)) = (&r.maps, &r.views) else {
        panic!("rectified already");
    };
    let mut compared = 0;
    for (map, view) in maps.iter().zip(views) {
        assert_eq!(map.source_size(), size);
        for y in (0..size.height).step_by(step) {
            for x in (0..size.width).step_by(step) {
                let exact = view.raw_of([x as f64, y as f64]);
                let inside = |[u, v]: [f64; 2]| {
                    let fits = |c: f64, side: usize| c >= -0.5 && c <= side as f64 - 0.5;
                    fits(u, size.width) && fits(v, size.height)
                };
                match (map.source_of(x, y), exact.filter(|&p| inside(p))) {
                    (None, None) => {}
                    (Some([u, v]), Some([a, b])) => {
                        let one = f64::from(MAP_ONE);
                        let at = |c: f64, side: usize| c.clamp(0.0, side as f64 - 1.0);
                        let (a, b) = (at(a, size.width), at(b, size.height));
                        assert!((f64::from(u) / one - a).abs() <= MAP_ERROR, "{u} {a}");
                        assert!((f64::from(v) / one - b).abs() <= MAP_ERROR, "{v} {b}");
                        compared += 1;
                        let back = view.rectified_of(exact.unwrap()).unwrap();
                        assert!((back[0] - x as f64).abs() < 1e-4, "{back:?} for {x}");
                        assert!((back[1] - y as f64).abs() < 1e-4, "{back:?} for {y}");
                    }
                    (map, exact) => panic!("({x}, {y}): map {map:?}, exact {exact:?}"),
                }
            }
        }
    }
    compared
}

#[test]
fn the_map_is_the_geometry() {
    let r = euroc();
    assert!(agree(&r, 3) > 70_000);
    // Only valid pixels, and not much zoomed: the view of both cameras is nearly kept.
    for map in r.maps.as_ref().unwrap() {
        assert!(map.entries().pixels().all(|&e| e != OUTSIDE));
    }
    assert!(
        (400.0..500.0).contains(&r.camera.focal_px),
        "{:?}",
        r.camera
    );
    assert!((r.camera.baseline_m - 0.110_078).abs() < 1e-6);
}

#[test]
fn the_view_reaches_the_border_of_a_camera() {
    // No wider view would be valid: in one direction both ends touch the outermost pixels.
    let r = euroc();
    let Size { width, height } = r.size;
    let mut ends = [f64::MAX, f64::MIN, f64::MAX, f64::MIN];
    for view in r.views.as_ref().unwrap() {
        let mut see = |x: usize, y: usize| {
            let [u, v] = view.raw_of([x as f64, y as f64]).unwrap();
            ends = [
                ends[0].min(u),
                ends[1].max(u),
                ends[2].min(v),
                ends[3].max(v),
            ];
        };
        (0..height).for_each(|y| [0, width - 1].iter().for_each(|&x| see(x, y)));
        (0..width).for_each(|x| [0, height - 1].iter().for_each(|&y| see(x, y)));
    }
    let slack = [
        ends[0],
        width as f64 - 1.0 - ends[1],
        ends[2],
        height as f64 - 1.0 - ends[3],
    ];
    println!("left over at left, right, top, bottom: {slack:.2?} px");
    assert!(slack.iter().all(|&s| s > -0.01));
    assert!(slack[0].max(slack[1]) < 3.0 || slack[2].max(slack[3]) < 3.0);
}

const CENTRE: Pinhole = Pinhole {
    fx: 40.0,
    fy: 40.0,
    cx: 20.0,
    cy: 15.0,
};

fn rig(rotation: Matrix3<f64>, translation: [f64; 3], distortion: [Distortion; 2]) -> Rig {
    let lenses = distortion.map(|distortion| Lens {
        pinhole: CENTRE,
        distortion,
    });
    let pair = RawPair {
        lenses,
        rotation,
        translation: Vector3::from(translation),
        given: None,
    };
    Rig::raw(pair, None)
}

#[test]
fn cameras_that_are_level_already_keep_their_view() {
    let rig = rig(
        Matrix3::identity(),
        [-0.25, 0.0, 0.0],
        [Distortion::None; 2],
    );
    let r = rig.rectification(Size::new(41, 31)).unwrap();
    let expected = Camera {
        focal_px: 40.0,
        cx: 20.0,
        cy: 15.0,
        baseline_m: 0.25,
    };
    let c = r.camera;
    assert!((c.focal_px - expected.focal_px).abs() < 1e-9, "{c:?}");
    assert!((c.cx - 20.0).abs() < 1e-9 && (c.cy - 15.0).abs() < 1e-9);
    for map in r.maps.unwrap() {
        let same = Image::from_fn(41, 31, |x, y| [256 * x as i32, 256 * y as i32]);
        assert_eq!(*map.entries(), same);
    }
}

#[test]
fn cameras_that_look_apart_have_no_common_view() {
    let turned = *Rotation3::from_axis_angle(&Vector3::y_axis(), 1.3).matrix();
    let rig = rig(turned, [-0.25, 0.0, 0.0], [Distortion::None; 2]);
    let error = rig.rectification(Size::new(41, 31)).unwrap_err();
    assert!(error.to_string().contains("do not overlap"), "{error}");
    for size in [
        Size::new(0, 31),
        Size::new(41, 70_000),
        Size::new(65_535, 65_535),
    ] {
        assert!(rig.rectification(size).is_err());
    }
}

fn distortion() -> impl Strategy<Value = Distortion> {
    prop_oneof![
        Just(Distortion::None),
        (-0.3..0.1f64, 0.0..0.1f64, -1e-3..1e-3f64)
            .prop_map(|(a, b, p)| Distortion::RadialTangential4([a, b, p, -p])),
        (-0.3..0.1f64, 0.0..0.1f64, -1e-3..1e-3f64, 0.0..0.02f64)
            .prop_map(|(a, b, p, c)| Distortion::RadialTangential5([a, b, p, -p, c])),
        (-0.3..0.1f64, 0.0..0.1f64, 0.0..0.1f64)
            .prop_map(|(a, b, c)| Distortion::Rational8([a, b, 0.0, 0.0, 0.0, c, 0.0, 0.0])),
        (-0.05..0.05f64, -0.01..0.01f64)
            .prop_map(|(a, b)| Distortion::Equidistant4([a, b, 0.0, 0.0])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A point in space falls on the same row of both rectified images, at `x - d`.
    #[test]
    fn points_in_space_fall_on_one_row(
        turn in prop::array::uniform3(-0.08..0.08f64),
        y in -0.05..0.05f64, z in -0.05..0.05f64,
        lenses in prop::array::uniform2(distortion()),
        point in (-1.5..1.5f64, -1.0..1.0f64, 3.0..30.0f64),
    ) {
        let rotation = *Rotation3::new(Vector3::from(turn)).matrix();
        let rig = rig(rotation, [-0.5, y, z], lenses);
        let r = rig.rectification(Size::new(41, 31)).unwrap();
        agree(&r, 5);
        let pair = rig.raw_pair().unwrap();
        let [left, right] = r.views.as_ref().unwrap();
        let in_left = Vector3::new(point.0, point.1, point.2);
        let raw = |p: Vector3<f64>, lens: &Lens| {
            let [a, b] = lens.distortion.distort([p.x / p.z, p.y / p.z]);
            [40.0 * a + 20.0, 40.0 * b + 15.0]
        };
        let l = left.rectified_of(raw(in_left, &pair.lenses[0])).unwrap();
        let in_right = pair.rotation * in_left + pair.translation;
        let rr = right.rectified_of(raw(in_right, &pair.lenses[1])).unwrap();
        prop_assert!((l[1] - rr[1]).abs() < 1e-6, "{l:?} {rr:?}");
        let depth = (left.rotation() * in_left).z;
        let d = r.camera.focal_px * r.camera.baseline_m / depth;
        prop_assert!((l[0] - rr[0] - d).abs() < 1e-6);
    }

    /// The plan against the written formula, for odd shapes and rows that are padded.
    #[test]
    fn the_plan_is_the_formula(
        width in 1usize..40, height in 1usize..40, seed in any::<u32>(),
        turn in prop::array::uniform3(-0.02..0.02f64),
    ) {
        let rotation = *Rotation3::new(Vector3::from(turn)).matrix();
        let size = Size::new(width, height);
        let lens = Distortion::RadialTangential4([-0.2, 0.02, 0.001, 0.0]);
        let mut pair = *rig(rotation, [-0.5, 0.01, 0.0], [lens; 2]).raw_pair().unwrap();
        // A given camera in the middle of the image that also looks past its borders.
        let (cx, cy) = (0.5 * (width as f64 - 1.0), 0.5 * (height as f64 - 1.0));
        for lens in &mut pair.lenses {
            (lens.pinhole.cx, lens.pinhole.cy) = (cx, cy);
        }
        pair.given = Some(calib::Given {
            rotations: [rotation, rotation.transpose()],
            camera: Camera { focal_px: 38.0, cx: cx + 0.3, cy: cy - 0.2, baseline_m: 0.5 },
        });
        // The smallest images may show nothing at all.
        let Ok(r) = Rig::raw(pair, None).rectification(size) else { return Ok(()) };
        let noise = |k: u32| Image::from_fn(width, height, |x, y| {
            let v = (x as u32 * 7919 + y as u32 * 104_729 + k).wrapping_mul(seed | 1);
            (v >> 13) as u8
        });
        let (left, right) = (noise(1), noise(2));
        let rgb = Image::from_fn(width, height, |x, y| [left.get(x, y), right.get(x, y), 255]);
        let raw_mask = Image::from_fn(width, height, |x, y| u8::from((x + y) % 7 != 0));
        let mut plan = Plan::new(&r, size, Some(&raw_mask)).unwrap();
        prop_assert!(!plan.is_identity());
        let mut out = Rectified::new(size, true, true);
        out.left.fill(77);
        let input = Input { left: &left, right: Some(&right), left_rgb: Some(&rgb) };
        plan.run(input, &mut out);
        let maps = r.maps.as_ref().unwrap();
        let formula = |raw: &Image<u8>, map: &calib::RectifyMap| {
            Image::from_fn(width, height, |x, y| {
                let Some([u, v]) = map.source_of(x, y) else { return 0 };
                let at = |x: i32, y: i32| -> u32 {
                    let (x, y) = (x as usize, y as usize);
                    if x < width && y < height { raw.get(x, y).into() } else { 0 }
                };
                let (x0, y0) = (u >> 8, v >> 8);
                let (a, b) = ((u & 255) as u32, (v & 255) as u32);
                let sum = (256 - a) * (256 - b) * at(x0, y0) + a * (256 - b) * at(x0 + 1, y0)
                    + (256 - a) * b * at(x0, y0 + 1) + a * b * at(x0 + 1, y0 + 1);
                ((sum + 32_768) >> 16) as u8
            })
        };
        prop_assert_eq!(&out.left, &formula(&left, &maps[0]));
        prop_assert_eq!(out.right.as_ref().unwrap(), &formula(&right, &maps[1]));
        let colours = [formula(&left, &maps[0]), formula(&right, &maps[0])];
        for (i, pixel) in out.left_rgb.as_ref().unwrap().pixels().enumerate() {
            let (x, y) = (i % width, i / width);
            prop_assert_eq!([pixel[0], pixel[1]], [0, 1].map(|c: usize| colours[c].get(x, y)));
        }
        let expected: Mask = Image::from_fn(width, height, |x, y| {
            match maps[0].source_of(x, y) {
                Some([u, v]) if raw_mask.get((u as usize + 128) / 256, (v as usize + 128) / 256) != 0 => 255,
                _ => 0,
            }
        });
        match plan.mask() {
            Some(mask) => prop_assert_eq!(mask, &expected),
            None => prop_assert!(expected.pixels().all(|&m| m == 255)),
        }
    }
}

#[test]
fn rectified_images_are_copied() {
    let camera = Camera {
        focal_px: 40.0,
        cx: 20.0,
        cy: 15.0,
        baseline_m: 0.25,
    };
    for (width, height) in [(1, 1), (31, 33), (1226, 3)] {
        let size = Size::new(width, height);
        let r = Rig::rectified(camera).rectification(size).unwrap();
        assert_eq!((r.camera, &r.maps), (camera, &None));
        let mut plan = Plan::new(&r, size, None).unwrap();
        assert!(plan.is_identity() && plan.mask().is_none());
        let left = Image::from_fn(width, height, |x, y| (3 * x + y) as u8);
        let mut out = Rectified::new(size, true, false);
        out.right.as_mut().unwrap().fill(9);
        let input = Input {
            left: &left,
            right: None,
            left_rgb: None,
        };
        plan.run(input, &mut out);
        assert_eq!(out.left, left);
        assert_eq!(out.right, Some(Image::new(width, height)), "black");
        // A mask stays as it is.
        let mask = Image::from_fn(width, height, |x, _| if x == 0 { 0 } else { 255 });
        let plan = Plan::new(&r, size, Some(&mask)).unwrap();
        assert_eq!(plan.mask(), Some(&mask));
    }
}

#[test]
fn sizes_must_fit() {
    let r = euroc();
    let error = |size: Size, mask: Option<&Mask>| Plan::new(&r, size, mask).unwrap_err();
    let (expected, found) = (Size::new(752, 480), Size::new(751, 480));
    assert_eq!(
        error(found, None),
        RectifyError::ImageSize { found, expected }
    );
    let mask = Image::new(751, 480);
    assert_eq!(
        error(expected, Some(&mask)),
        RectifyError::MaskSize { found, expected }
    );
}

#[test]
fn threads_change_nothing() {
    let r = euroc();
    let size = r.size;
    let left = Image::from_fn(size.width, size.height, |x, y| (x * x + 31 * y) as u8);
    let rgb: Rgb = Image::from_fn(size.width, size.height, |x, y| [x as u8, y as u8, 7]);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let mut plan = Plan::new(&r, size, None).unwrap();
        let mut out = Rectified::new(size, true, true);
        let input = Input {
            left: &left,
            right: Some(&left),
            left_rgb: Some(&rgb),
        };
        pool.install(|| plan.run(input, &mut out));
        out
    };
    let one = run(1);
    assert!([2, 3, 7].iter().all(|&n| run(n) == one));
}

/// The images themselves: a patch around a left corner is found again in the right image on its
/// own row, within the pixel that the calibration promises.
#[test]
fn patches_of_euroc_lie_on_their_rows() {
    let Some(folder) = common::data("euroc_micro") else {
        return;
    };
    let r = euroc();
    let [view, other] = r.views.as_ref().unwrap();
    let load = |camera: u32| {
        let path = folder.join(format!("mav0/cam{camera}/data/1403715273262142976.png"));
        match roadloop::picture::read(&path).unwrap() {
            roadloop::picture::Picture::Grey8(image) => image,
            other => panic!("{other:?}"),
        }
    };
    let (left, right) = (load(0), load(1));
    let mut out = Rectified::new(r.size, true, false);
    let input = Input {
        left: &left,
        right: Some(&right),
        left_rgb: None,
    };
    Plan::new(&r, r.size, None).unwrap().run(input, &mut out);
    let right = out.right.unwrap();
    const HALF: usize = 5;
    // The two cameras are not equally bright: patches without their mean.
    let patch = |image: &Image<u8>, x: usize, y: usize| -> Vec<i32> {
        let grey: Vec<i32> = (y - HALF..=y + HALF)
            .flat_map(|y| (x - HALF..=x + HALF).map(move |x| (x, y)))
            .map(|(x, y)| i32::from(image.get(x, y)))
            .collect();
        let mean = grey.iter().sum::<i32>() / grey.len() as i32;
        grey.iter().map(|v| v - mean).collect()
    };
    let inside = |p: [f64; 2]| {
        let fits = |c: f64, side: usize| c > 14.0 && c < side as f64 - 15.0;
        fits(p[0], r.size.width) && fits(p[1], r.size.height)
    };
    // On the row, within one row of it, in all. A slanted edge that falls between two columns
    // fits better a row off.
    let (mut on_row, mut near, mut all) = (0, 0, 0);
    for c in corners("euroc_corners.csv", Some(0)) {
        let at = [
            view.rectified_of([c[0], c[1]]).unwrap(),
            other.rectified_of([c[2], c[3]]).unwrap(),
        ];
        if !at.iter().all(|&p| inside(p)) {
            continue;
        }
        let [x, y] = at[0].map(|c| c.round() as usize);
        let there = at[1][0].round() as usize;
        let wanted = patch(&out.left, x, y);
        let best = (0..=16)
            .flat_map(|dy| (0..=4).map(move |dx| (dx, dy)))
            .min_by_key(|&(dx, dy)| {
                let found = patch(&right, there + dx - 2, y + dy - 8);
                let difference = wanted.iter().zip(&found).map(|(a, b)| (a - b).abs());
                difference.sum::<i32>()
            })
            .unwrap();
        all += 1;
        on_row += i32::from(best.1 == 8);
        near += i32::from((7..=9).contains(&best.1));
    }
    println!("{on_row} of {all} patches on their row, {near} within one");
    assert!(all > 100);
    assert!(on_row * 100 >= all * 95, "{on_row} of {all}");
    assert!(near * 100 >= all * 98, "{near} of {all}");
}
