//! Are rectified images on the GPU the CPU's?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use gpu::{device, host, random, setup};
use nalgebra::{Rotation3, Vector3};
use roadloop::{
    calib::{Distortion, Lens, Pinhole, RawPair, Rectification, Rig},
    frame::{Camera, INVALID, Image, Mask, Rgb, Size},
    stage::{
        Stage as _,
        rectify::{Input, Rectified, cpu, cuda::Plan},
    },
};

gpu_tests![
    maps_give_the_same_images,
    rectified_images_are_copied,
    masks_go_to_stored_disparities,
    small_images,
];

/// Two bent cameras that look aside by some degrees.
fn rectification(size: Size, k1: f64) -> Option<Rectification> {
    let (w, h) = (size.width as f64, size.height as f64);
    let lens = |shift: f64| Lens {
        pinhole: Pinhole {
            fx: 0.9 * w.max(8.0),
            fy: 0.9 * w.max(8.0),
            cx: w / 2.0 + shift,
            cy: h / 2.0 - shift,
        },
        distortion: Distortion::RadialTangential4([k1, 0.05, 0.001, -0.002]),
    };
    let pair = RawPair {
        lenses: [lens(0.0), lens(0.7)],
        rotation: *Rotation3::from_euler_angles(0.01, -0.02, 0.015).matrix(),
        translation: Vector3::new(-0.3, 0.004, 0.01),
        given: None,
    };
    Rig::raw(pair, None).rectification(size).ok()
}

fn pixels<T: Clone>(image: &Image<T>) -> Vec<T> {
    image.rows().flatten().cloned().collect()
}

fn flat(image: &Rgb) -> Vec<u8> {
    image.rows().flatten().flatten().copied().collect()
}

fn compare(rectification: &Rectification, raw_mask: Option<&Mask>) {
    let size = rectification.size;
    let (context, stream) = setup();
    let mut numbers = random(size.area() as u64);
    let mut grey = || {
        Image::from_fn(size.width, size.height, |_, _| {
            numbers.next().unwrap() as u8
        })
    };
    let (left, right) = (grey(), grey());
    let rgb = Rgb::from_fn(size.width, size.height, |x, y| {
        [left.get(x, y), right.get(x, y), (x * 31 + y) as u8]
    });
    let mut reference = cpu::Plan::new(rectification, size, raw_mask).unwrap();
    let mut expected = Rectified::new(size, true, true);
    reference.run(
        Input {
            left: &left,
            right: Some(&right),
            left_rgb: Some(&rgb),
        },
        &mut expected,
    );

    let plan = Plan::new(&context, rectification, size, raw_mask).unwrap();
    assert_eq!(plan.mask(), reference.mask());
    assert_eq!(plan.is_identity(), reference.is_identity());
    let [raw_left, raw_right] = [&left, &right].map(|i| device(&context, &stream, &pixels(i)));
    let raw_rgb = device(&context, &stream, &flat(&rgb));
    let [out_left, out_right, only_left] =
        [(); 3].map(|()| device(&context, &stream, &vec![99u8; size.area()]));
    let out_rgb = device(&context, &stream, &vec![99u8; 3 * size.area()]);
    plan.enqueue(
        &stream,
        (&raw_left, &out_left),
        Some((&raw_right, &out_right)),
    )
    .unwrap();
    plan.enqueue(&stream, (&raw_left, &only_left), None)
        .unwrap();
    plan.enqueue_rgb(&stream, &raw_rgb, &out_rgb).unwrap();
    for (what, found, expected) in [
        ("left", &out_left, pixels(&expected.left)),
        ("left alone", &only_left, pixels(&expected.left)),
        (
            "right",
            &out_right,
            pixels(expected.right.as_ref().unwrap()),
        ),
        (
            "colour",
            &out_rgb,
            flat(expected.left_rgb.as_ref().unwrap()),
        ),
    ] {
        assert!(host(&stream, found, 0) == expected, "{what} at {size}");
    }
}

fn maps_give_the_same_images() {
    let sizes = [
        (1, 1),
        (2, 31),
        (31, 2),
        (33, 32),
        (641, 375),
        (752, 480),
        (97, 1023),
        (1025, 33),
        (401, 2160),
    ];
    let mut compared = 0;
    for (w, h) in sizes {
        let size = Size::new(w, h);
        for k1 in [0.0, -0.25] {
            if let Some(r) = rectification(size, k1) {
                let mask = Image::from_fn(w, h, |x, y| u8::from((x + 2 * y) % 5 > 0) * 255);
                compare(&r, None);
                compare(&r, Some(&mask));
                compared += 1;
            }
        }
    }
    assert!(compared >= 8, "{compared} of the sizes have a common view");
}

/// Every kernel of the stage, small enough for the sanitizers.
fn small_images() {
    let size = Size::new(131, 67);
    let mask = Image::from_fn(131, 67, |x, y| u8::from((x + 2 * y) % 5 > 0) * 255);
    let bent = rectification(size, -0.1).expect("a common view");
    for r in [&bent, &straight(size)] {
        compare(r, Some(&mask));
    }
}

fn straight(size: Size) -> Rectification {
    let camera = Camera {
        focal_px: 100.0,
        cx: 10.0,
        cy: 10.0,
        baseline_m: 0.5,
    };
    Rig::rectified(camera).rectification(size).unwrap()
}

fn rectified_images_are_copied() {
    compare(&straight(Size::new(101, 37)), None);
}

fn masks_go_to_stored_disparities() {
    let size = Size::new(203, 61);
    let (context, stream) = setup();
    let mask = Image::from_fn(203, 61, |x, y| u8::from((x * y) % 3 > 0));
    let plan = Plan::new(&context, &straight(size), size, Some(&mask)).unwrap();
    let stored: Vec<u16> = random(1).take(size.area()).map(|n| n as u16).collect();
    let buffer = device(&context, &stream, &stored);
    plan.enqueue_mask(&stream, &buffer).unwrap();
    let expected: Vec<u16> = (stored.iter().zip(mask.pixels()))
        .map(|(&d, &m)| if m == 0 { INVALID } else { d })
        .collect();
    assert!(host(&stream, &buffer, 0) == expected);
}
