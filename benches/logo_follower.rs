//! What do verification and tracking of logos cost a frame, features and matches aside?
use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, criterion_group, criterion_main};
use roadloop::{
    evaluate::logos::{
        benchmark,
        composite::{Chance, Master, Placing, add_noise, lay},
        marks::MARKS,
    },
    frame::{Image, Logos, MonoImage, PixelKind, Size},
    stage::{
        Stage as _,
        logo::{BuildOptions, Follower, Input, Params, cpu::Plan, features::matcher},
    },
};

const SIZE: Size = Size::new(1280, 720);

fn follower(c: &mut Criterion) {
    let params = Params::default();
    let templates = Arc::new(
        benchmark::templates(&params, &BuildOptions::default()).expect("marks become templates"),
    );
    let mut chance = Chance(1);
    let mut frame = Image::from_fn(SIZE.width, SIZE.height, |x, y| {
        let (a, b) = (x / 24, y / 17);
        (100 + (a * 13 + b * 29 + a * b * 7) % 60) as u8
    });
    for (i, x) in [(1, 60.0), (3, 500.0), (10, 800.0)] {
        let width = 90.0 * MARKS[i].aspect;
        let quad = [
            [x, 300.0],
            [x + width, 310.0],
            [x + width, 400.0],
            [x, 390.0],
        ];
        let placing = Placing {
            mark: i,
            quad,
            height: 90.0,
            turn_deg: 0.0,
            gain: 0.9,
            smear: [2.0, 0.0],
        };
        lay(&mut frame, &Master::new(&MARKS[i]), &placing);
    }
    add_noise(&mut frame, &mut chance, 3.0);
    let image = MonoImage::Grey8(frame);
    let mut logos = Logos::new();
    let mut plan = Plan::new(&params, templates.clone(), PixelKind::Grey8, SIZE)
        .expect("default parameters are valid");
    plan.run(Input { image: &image }, &mut logos);
    assert_eq!(logos.len(), 3);
    let mut group = c.benchmark_group("logo");
    group.sample_size(20);
    group.bench_function("whole stage, full search", |b| {
        b.iter(|| {
            plan.reset();
            plan.run(Input { image: &image }, &mut logos);
            black_box(&logos);
        });
    });
    let found = plan.features().clone();
    let matches: Vec<_> = templates
        .list()
        .iter()
        .map(|t| {
            let mut out = Vec::new();
            let (d, g) = (t.descriptors(), t.groups());
            matcher::two_nearest_apart(&found.descriptors, d, g, &mut out);
            out
        })
        .collect();
    let mut follower =
        Follower::new(&params, templates.clone(), SIZE).expect("default parameters are valid");
    group.bench_function("follower, full search, 12 templates, 3 logos", |b| {
        b.iter(|| {
            follower.reset();
            follower.grey(&image);
            follower.step(&found.keypoints, &matches, &mut logos);
        });
    });
    group.bench_function("follower, 3 tracks, every 4th frame full", |b| {
        b.iter(|| {
            follower.grey(&image);
            follower.step(&found.keypoints, &matches, &mut logos);
        });
    });
    assert_eq!(logos.len(), 3);
    group.finish();
}

criterion_group!(benches, follower);
criterion_main!(benches);
