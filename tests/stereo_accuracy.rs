//! How good are the disparities, with the default parameters, on real pairs?
mod common;

use std::path::Path;

use roadloop::{
    frame::{Disparity, INVALID, Image},
    picture::{self, Picture},
    stage::{
        Stage as _,
        stereo::{Input, Params, cpu::Plan},
    },
};

// KITTI 2015, the 8 pairs, true disparities of non-occluded pixels.
/// Least part of the true pixels that is filled, %.
const KITTI_DENSITY: f64 = 91.0;
/// Largest part of the filled that is off by more than 3 px and 5 %, %.
const KITTI_D1: f64 = 4.0;
/// Least density of any single pair, %.
const KITTI_DENSITY_OF_ONE: f64 = 75.0;
/// Largest D1 of any single pair, %.
const KITTI_D1_OF_ONE: f64 = 7.5;
// The stored disparities of another implementation, which takes black for what is outside the
// images: columns 256 to 1152, rows 60 to 420, out of the borders' reach.
/// Largest part of the first pair that differs, %.
const REFERENCE_1: f64 = 0.05;
/// Largest part of the second pair that differs, %; its black regions carry the borders inwards.
const REFERENCE_2: f64 = 3.0;

fn grey(path: &Path) -> Image<u8> {
    match picture::read(path).unwrap() {
        Picture::Grey8(image) => image,
        Picture::Rgb8(rgb) => Image::from_fn(rgb.width(), rgb.height(), |x, y| {
            picture::grey_of(rgb.get(x, y))
        }),
        Picture::Grey16(_) => panic!("{} has 16 bits", path.display()),
    }
}

fn disparity(params: &Params, left: &Image<u8>, right: &Image<u8>) -> Disparity {
    let mut plan = Plan::new(params, left.size(), None).unwrap();
    let mut out = Disparity::new(left.width(), left.height());
    plan.run(Input { left, right }, &mut out);
    out
}

#[derive(Clone, Copy, Default)]
struct Score {
    truth: u32,
    filled: u32,
    bad: u32,
}

impl Score {
    fn density(self) -> f64 {
        100. * f64::from(self.filled) / f64::from(self.truth)
    }

    fn d1(self) -> f64 {
        100. * f64::from(self.bad) / f64::from(self.filled)
    }
}

/// Both in 1/256 px; a true 0 is unknown.
fn score(found: &Disparity, truth: &Image<u16>) -> Score {
    let mut score = Score::default();
    for (&d, &t) in found.pixels().zip(truth.pixels()) {
        if t == 0 {
            continue;
        }
        score.truth += 1;
        if d != INVALID {
            let error = u32::from(d.abs_diff(t));
            score.filled += 1;
            score.bad += u32::from(error > 3 * 256 && error * 20 > u32::from(t));
        }
    }
    score
}

#[test]
fn kitti_2015() {
    let Some(root) = common::data("kitti2015/training") else {
        return;
    };
    let mut all = Score::default();
    for i in 1..=8 {
        let file = |folder: &str| root.join(folder).join(format!("{i:06}_10.png"));
        let (left, right) = (grey(&file("image_2")), grey(&file("image_3")));
        let Picture::Grey16(truth) = picture::read(&file("disp_noc_0")).unwrap() else {
            panic!("truth of pair {i} is not 16 bit grey");
        };
        let one = score(&disparity(&Params::default(), &left, &right), &truth);
        println!("{i}: density {:.2} %, D1 {:.2} %", one.density(), one.d1());
        assert!(one.density() >= KITTI_DENSITY_OF_ONE, "pair {i}");
        assert!(one.d1() <= KITTI_D1_OF_ONE, "pair {i}");
        all.truth += one.truth;
        all.filled += one.filled;
        all.bad += one.bad;
    }
    println!("all: density {:.2} %, D1 {:.2} %", all.density(), all.d1());
    assert!(all.density() >= KITTI_DENSITY, "{:.2} %", all.density());
    assert!(all.d1() <= KITTI_D1, "{:.2} %", all.d1());
}

/// The plain algorithm, without anything that this stage adds, is the one that others know.
#[test]
fn another_implementation() {
    let Some(root) = common::data("sgm_reference") else {
        return;
    };
    let params = Params {
        p1: 10,
        p2: 120,
        p2_half_step: 0,
        uniqueness_percent: 0,
        left_right: false,
        subpixel: false,
        speckle_max_area_px: 0,
        gap_max_px: 0,
        ..Params::default()
    };
    for (i, limit) in [(1, REFERENCE_1), (2, REFERENCE_2)] {
        let file = |folder: &str| grey(&root.join(folder).join(format!("{i}.png")));
        let (theirs, found) = (
            file("disparities"),
            disparity(&params, &file("left"), &file("right")),
        );
        let (mut differing, mut all) = (0, 0);
        for (a, b) in found.rows().zip(theirs.rows()).take(420).skip(60) {
            for (a, b) in a[256..1152].iter().zip(&b[256..1152]) {
                all += 1;
                differing += u32::from(*a != u16::from(*b) * 256);
            }
        }
        let percent = 100. * f64::from(differing) / f64::from(all);
        println!("{i}: {percent:.3} % differ");
        assert!(percent <= limit, "pair {i}: {percent:.2} % differ");
    }
}

/// Every pair of a drive gives something, and the disparities of the near street are valid.
#[test]
fn a_drive() {
    let Some(root) = common::data("kitti_odom_06") else {
        return;
    };
    let mut names: Vec<_> = std::fs::read_dir(root.join("image_l"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    for name in names.iter().step_by(10) {
        let file = |folder: &str| grey(&root.join(folder).join(name));
        let found = disparity(&Params::default(), &file("image_l"), &file("image_r"));
        let valid = found.pixels().filter(|&&d| d != INVALID).count();
        assert!(valid * 2 > found.size().area(), "{name:?}");
    }
}
