//! Is it known whether the camera stands, shakes or drives?
mod common;

use std::path::Path;

use roadloop::{
    frame::{Image, MonoImage, Motion, MotionState, PixelKind, Size},
    source::picture::{self, Picture},
    stage::{
        Stage as _,
        egomotion::{Input, Params, cpu::Plan},
    },
};

fn read(path: &Path) -> MonoImage {
    match picture::read(path).unwrap() {
        Picture::Grey8(i) => MonoImage::Grey8(i),
        Picture::Grey16(i) => MonoImage::Grey16(i),
        Picture::Rgb8(i) => MonoImage::Rgb8(i),
    }
}

fn drive(frames: impl IntoIterator<Item = MonoImage>) -> Vec<Motion> {
    let mut plan: Option<Plan> = None;
    let mut out = Vec::new();
    for image in frames {
        let plan = plan.get_or_insert_with(|| {
            Plan::new(&Params::default(), image.kind(), image.size()).unwrap()
        });
        let mut motion = Motion::default();
        plan.run(
            Input {
                image: &image,
                speed_mps: None,
            },
            &mut motion,
        );
        out.push(motion);
    }
    out
}

#[test]
fn probe_kitti() {
    let dir = common::data("kitti_odom_06").unwrap();
    let m = drive((0..51).map(|i| read(&dir.join(format!("image_l/{i:06}.png")))));
    for (i, m) in m.iter().enumerate() {
        println!("{i} {:?} {} {}", m.state, m.tracked, m.inliers);
    }
}

#[test]
fn probe_highway() {
    let dir = common::data("cdnet_highway").unwrap();
    let m = drive((1..541).map(|i| read(&dir.join(format!("input/in{i:06}.jpg")))));
    for (i, m) in m.iter().enumerate() {
        println!("{i} {:?} {} {}", m.state, m.tracked, m.inliers);
    }
}

/// The part of a picture at an offset in 1/64 px.
fn moved(image: &MonoImage, [dx, dy]: [i32; 2]) -> MonoImage {
    let MonoImage::Rgb8(image) = image else {
        panic!("colour")
    };
    let margin = 4;
    let Size { width, height } = image.size();
    MonoImage::Rgb8(Image::from_fn(
        width - 2 * margin,
        height - 2 * margin,
        |x, y| {
            let (x, y) = ((x + margin) as i32 * 64 + dx, (y + margin) as i32 * 64 + dy);
            let (px, py, a, b) = ((x >> 6) as usize, (y >> 6) as usize, x & 63, y & 63);
            [0, 1, 2].map(|c| {
                let at = |i: usize, j: usize| {
                    i32::from(image.get((px + i).min(width - 1), (py + j).min(height - 1))[c])
                };
                let top = (64 - a) * at(0, 0) + a * at(1, 0);
                let bottom = (64 - a) * at(0, 1) + a * at(1, 1);
                (((64 - b) * top + b * bottom + 2048) >> 12) as u8
            })
        },
    ))
}

#[test]
fn probe_shaken() {
    let dir = common::data("cdnet_highway").unwrap();
    let whole = std::env::var_os("WHOLE").is_some();
    let m = drive((1..541).map(|i| {
        let r = |k| (roadloop::maths::random::hash(1, i, k) % 385) as i32 - 192;
        let mut o = [r(0), r(1)];
        if whole {
            o = o.map(|v| (v + 32) >> 6 << 6);
        }
        moved(&read(&dir.join(format!("input/in{i:06}.jpg"))), o)
    }));
    for (i, m) in m.iter().enumerate() {
        println!("{i} {:?} {} {}", m.state, m.tracked, m.inliers);
    }
}
