//! Are the labels of an image on the GPU the CPU's, whatever the forest asks?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;
#[path = "common/random_forest.rs"]
mod random_forest;

use gpu::{device, host, setup};
use random_forest::{depth, forest, input, region, rgbd};
use roadloop::{
    cuda::*,
    frame::{Camera, Disparity, INVALID, Image, Rgb, Size},
    maths::random::hash,
    stage::{
        Stage as _,
        forest::{
            Colour, Depth, FeatureSpec, Forest, Input, Norm, Params, Pixels, cpu, cuda,
            cuda::{Outputs, Plan},
        },
    },
};

gpu_tests![
    every_feature_gives_the_same_labels,
    every_size_and_step_gives_the_same_labels,
    forests_of_any_size_give_the_same_labels,
    depth_comes_from_where_it_may,
    a_hundred_runs_of_a_graph_give_one_result,
    what_can_not_be_used_is_refused,
    small_labels; always: the_forests_tell_pixels_apart
];

const CAMERA: Camera = Camera {
    focal_px: 300.0,
    cx: 160.0,
    cy: 90.0,
    baseline_m: 0.5,
};

fn picture(size: Size, seed: u32) -> Rgb {
    Image::from_fn(size.width, size.height, |x, y| {
        let (x, y) = (x as u32, y as u32);
        [0, 1, 2].map(|c| {
            let blotch = hash(seed + c, x / 9, y / 7) >> 25;
            (blotch + x / 8 % 90 + (hash(seed + c, x, y) >> 28)) as u8
        })
    })
}

/// Near at the bottom, with holes and rows without any.
fn disparity(size: Size) -> Disparity {
    Image::from_fn(size.width, size.height, |x, y| {
        let (x, y) = (x as u32, y as u32);
        match hash(7, x / 5, y / 3) % 9 {
            0..3 => INVALID,
            _ if y % 23 == 4 => INVALID,
            8 if x % 7 == 0 => 0,
            n => (256 * (2 + n) + 60 * y + x) as u16 / 16 * 16,
        }
    })
}

fn steps(size: Size) -> Image<u16> {
    Image::from_fn(size.width, size.height, |x, y| {
        let (x, y) = (x as u32, y as u32);
        match hash(8, x / 4, y / 6) % 7 {
            0 => 0,
            n => (600 + 400 * n + 3 * x + 7 * y) as u16,
        }
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Nothing,
    Disparities,
    Steps,
}

fn packed<T: Copy>(image: &Image<T>) -> Vec<T> {
    image.pixels().copied().collect()
}

fn check(forest: &Forest, params: &Params, size: Size, colour: bool, from: From) {
    let what = format!(
        "{} {:?}, {size}, colour {colour}, {from:?}, {params:?}",
        forest.meta.feature.name(),
        forest.meta.input
    );
    let (context, stream) = setup();
    let rgb = picture(size, 3);
    let grey = Image::from_fn(size.width, size.height, |x, y| rgb.get(x, y)[1]);
    let (disparity, steps) = (disparity(size), steps(size));
    let mut reference = cpu::Plan::new(forest, params, size, Some(&CAMERA)).unwrap();
    let mut expected = reference.output();
    let pixels = if colour {
        Pixels::Rgb(&rgb)
    } else {
        Pixels::Grey(&grey)
    };
    let given = match from {
        From::Nothing => Depth::None,
        From::Disparities => Depth::Disparity(&disparity),
        From::Steps => Depth::Steps(&steps),
    };
    reference.run(
        Input {
            pixels,
            depth: given,
        },
        &mut expected,
    );

    let plan = Plan::new(&context, forest, params, size, Some(&CAMERA), colour).unwrap();
    let bytes = if colour {
        packed(&rgb).into_iter().flatten().collect()
    } else {
        packed(&grey)
    };
    let image = device(&context, &stream, &bytes);
    let (disparity, steps) = (
        device(&context, &stream, &packed(&disparity)),
        device(&context, &stream, &packed(&steps)),
    );
    let depth = match from {
        From::Nothing => cuda::Depth::None,
        From::Disparities => cuda::Depth::Disparity(&disparity),
        From::Steps => cuda::Depth::Steps(&steps),
    };
    let cells = plan.grid().area();
    let labels = device(&context, &stream, &vec![77u8; cells]);
    let confidence = device(&context, &stream, &vec![77u16; cells]);
    let classes = forest.meta.classes.len();
    let posteriors = device(&context, &stream, &vec![77u16; cells * classes]);
    // Twice: nothing is left of the first.
    for _ in 0..2 {
        let out = Outputs {
            labels: &labels,
            confidence: &confidence,
            posteriors: params.posteriors.then_some(&posteriors),
        };
        plan.enqueue(&stream, &image, depth, out).unwrap();
        let differs = |a: &[u16], b: &[u16]| a.iter().zip(b).position(|(a, b)| a != b);
        let found = host(&stream, &confidence, 0);
        let wrong = differs(&found, &packed(&expected.confidence));
        assert_eq!(wrong, None, "confidence, {what}");
        let found = host(&stream, &labels, 0);
        assert!(found == packed(&expected.labels), "labels, {what}");
        if params.posteriors {
            let found = host(&stream, &posteriors, 0);
            assert_eq!(
                differs(&found, &expected.posteriors),
                None,
                "posteriors, {what}"
            );
        }
    }
}

fn all() -> Params {
    Params {
        posteriors: true,
        ..Params::default()
    }
}

fn features() -> Vec<(FeatureSpec, Colour, u8, bool)> {
    let mut list = Vec::new();
    for norm in [Norm::Mean, Norm::Sum] {
        for shrink in [false, true] {
            list.push((region(3, norm, shrink), Colour::Lab, 3, false));
            list.push((region(3, norm, shrink), Colour::Raw, 3, false));
            list.push((rgbd(3, norm, shrink), Colour::Lab, 3, shrink));
            list.push((rgbd(3, norm, shrink), Colour::Raw, 3, !shrink));
        }
    }
    list.push((depth(true), Colour::Raw, 1, false));
    list.push((depth(false), Colour::Raw, 1, true));
    list
}

fn the_forests_tell_pixels_apart() {
    let size = Size::new(151, 107);
    let rgb = picture(size, 3);
    let disparity = disparity(size);
    for (feature, colour, channels, fill) in features() {
        let forest = forest(feature, input(channels, colour, fill), 5, 9, 6);
        let mut plan = cpu::Plan::new(&forest, &all(), size, Some(&CAMERA)).unwrap();
        let mut labels = plan.output();
        let grey = Image::from_fn(size.width, size.height, |x, y| rgb.get(x, y)[1]);
        let pixels = match channels {
            3 => Pixels::Rgb(&rgb),
            _ => Pixels::Grey(&grey),
        };
        let depth = Depth::Disparity(&disparity);
        plan.run(Input { pixels, depth }, &mut labels);
        let mut seen = [0; 7];
        for label in labels.labels.pixels() {
            seen[usize::from(*label)] += 1;
        }
        let some = seen.iter().filter(|n| **n > 100).count();
        assert!(some > 2, "{feature:?}: {seen:?}");
    }
}

fn every_feature_gives_the_same_labels() {
    let size = Size::new(151, 107);
    for (feature, colour, channels, fill) in features() {
        let forest = forest(feature, input(channels, colour, fill), 5, 9, 6);
        for rgb in [false, true] {
            if !rgb || channels == 3 {
                check(&forest, &all(), size, rgb, From::Disparities);
            }
        }
    }
    let forest = forest(
        region(16, Norm::Mean, false),
        input(16, Colour::Raw, false),
        3,
        8,
        4,
    );
    check(&forest, &all(), size, false, From::Nothing);
}

fn every_size_and_step_gives_the_same_labels() {
    let forest = forest(
        rgbd(3, Norm::Mean, true),
        input(3, Colour::Lab, true),
        3,
        8,
        5,
    );
    for (w, h) in [
        (1, 1),
        (1, 40),
        (40, 1),
        (31, 33),
        (33, 31),
        (32, 32),
        (97, 1025),
        (1023, 67),
        (640, 480),
        (1242, 375),
    ] {
        for step in [1, 2, 3, 40] {
            let params = Params { step, ..all() };
            check(&forest, &params, Size::new(w, h), true, From::Disparities);
        }
    }
}

fn forests_of_any_size_give_the_same_labels() {
    let size = Size::new(203, 97);
    for (trees, levels, classes) in [(1, 1, 1), (1, 2, 2), (40, 4, 33), (2, 16, 254), (5, 20, 8)] {
        let feature = region(3, Norm::Mean, false);
        let forest = forest(
            feature,
            input(3, Colour::Raw, false),
            trees,
            levels,
            classes,
        );
        check(&forest, &all(), size, true, From::Nothing);
        check(&forest, &Params::default(), size, true, From::Nothing);
    }
}

fn depth_comes_from_where_it_may() {
    let size = Size::new(133, 71);
    for feature in [rgbd(3, Norm::Mean, false), depth(true)] {
        for fill in [false, true] {
            let forest = forest(feature, input(3, Colour::Raw, fill), 3, 9, 5);
            for from in [From::Nothing, From::Disparities, From::Steps] {
                for void_without_depth in [false, true] {
                    let params = Params {
                        void_without_depth,
                        ..all()
                    };
                    check(&forest, &params, size, true, from);
                }
            }
        }
    }
}

fn a_hundred_runs_of_a_graph_give_one_result() {
    let size = Size::new(640, 480);
    let (context, stream) = setup();
    let forest = forest(
        rgbd(3, Norm::Mean, false),
        input(3, Colour::Raw, true),
        5,
        16,
        8,
    );
    let plan = Plan::new(
        &context,
        &forest,
        &Params::default(),
        size,
        Some(&CAMERA),
        true,
    )
    .unwrap();
    let bytes: Vec<u8> = packed(&picture(size, 5)).into_iter().flatten().collect();
    let image = device(&context, &stream, &bytes);
    let disparity = device(&context, &stream, &packed(&disparity(size)));
    let labels = device(&context, &stream, &vec![0u8; size.area()]);
    let confidence = device(&context, &stream, &vec![0u16; size.area()]);
    let graph = stream
        .capture::<GpuError>(|stream| {
            let out = Outputs {
                labels: &labels,
                confidence: &confidence,
                posteriors: None,
            };
            plan.enqueue(stream, &image, cuda::Depth::Disparity(&disparity), out)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    let mut first = None;
    for run in 0..100 {
        graph.launch(&stream).unwrap();
        let found = (host(&stream, &labels, 0), host(&stream, &confidence, 0));
        assert!(
            *first.get_or_insert_with(|| found.clone()) == found,
            "run {run}"
        );
    }
}

fn what_can_not_be_used_is_refused() {
    let (context, stream) = setup();
    let size = Size::new(64, 48);
    let mut forest = forest(
        region(3, Norm::Mean, false),
        input(3, Colour::Raw, false),
        1,
        3,
        2,
    );
    let plan = Plan::new(&context, &forest, &all(), size, None, true).unwrap();
    let small = device(&context, &stream, &[0u8; 10]);
    let (labels, confidence) = (
        device(&context, &stream, &vec![0u8; size.area()]),
        device(&context, &stream, &vec![0u16; size.area()]),
    );
    let out = Outputs {
        labels: &labels,
        confidence: &confidence,
        posteriors: None,
    };
    let refused = plan.enqueue(&stream, &small, cuda::Depth::None, out);
    assert!(matches!(refused, Err(GpuError::Size { found: 10, .. })));
    forest.meta.input.bits = 16;
    let refused = Plan::new(&context, &forest, &all(), size, None, true).err();
    let text = refused.unwrap().to_string();
    assert!(text.contains("16 bits, on the GPU 8"), "{text}");
}

/// Every kernel, small enough for the sanitizers.
fn small_labels() {
    let size = Size::new(67, 41);
    for (feature, colour, channels, fill) in features() {
        let forest = forest(feature, input(channels, colour, fill), 2, 5, 3);
        let from = if fill { From::Disparities } else { From::Steps };
        check(&forest, &all(), size, channels == 3, from);
    }
}
