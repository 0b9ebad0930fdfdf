//! What do verification and tracking of logos cost a frame, features and matches aside? Processor
//! time of the three parts that the host does, least and median of many frames, for each kind of
//! frame: `logo_follower [ROUNDS]`.
use std::{hint::black_box, sync::Arc};

use roadloop::{
    evaluate::logos::{
        composite::{Chance, Master, Placing, add_noise, lay},
        marks::MARKS,
    },
    frame::{Image, Logos, MonoImage, Size},
    source::synth::{Options, Street},
    stage::logo::{
        BuildOptions, Follower, Params, Templates,
        features::{Features, cpu, matcher},
    },
};
use rustix::time::{ClockId, clock_gettime};

const SIZE: Size = Size::new(1280, 720);

/// A wall with marks 90 px high.
fn wall(marks: &[(usize, f64)]) -> Image<u8> {
    let mut frame = Image::from_fn(SIZE.width, SIZE.height, |x, y| {
        let (a, b) = (x / 24, y / 17);
        (100 + (a * 13 + b * 29 + a * b * 7) % 60) as u8
    });
    for &(mark, x) in marks {
        let width = 90.0 * MARKS[mark].aspect;
        let quad = [
            [x, 300.0],
            [x + width, 310.0],
            [x + width, 400.0],
            [x, 390.0],
        ];
        let placing = Placing {
            mark,
            quad,
            height: 90.0,
            turn_deg: 0.0,
            gain: 0.9,
            smear: [2.0, 0.0],
        };
        lay(&mut frame, &Master::new(&MARKS[mark]), &placing);
    }
    add_noise(&mut frame, &mut Chance(1), 3.0);
    frame
}

/// A street without any of the marks; there are others on its vehicles.
fn street() -> Image<u8> {
    let options = Options {
        frames: 40,
        seed: 11,
        size: SIZE,
        ..Options::default()
    };
    let street = Street::new(&options).expect("a street of the default kind");
    street.render(4).mono
}

/// A frame and what features and matches are found in it.
struct Seen {
    image: MonoImage,
    features: Features,
    matches: Vec<Vec<matcher::Match>>,
}

impl Seen {
    fn new(image: Image<u8>, params: &Params, templates: &Templates) -> Self {
        let mut plan = cpu::Plan::new(&params.features, SIZE).expect("default parameters");
        let mut features = Features::new(&params.features);
        plan.run(&image, &mut features);
        let of_template = |t: &roadloop::stage::logo::templates::Template| {
            let mut out = Vec::new();
            let (d, g) = (t.descriptors(), t.groups());
            matcher::two_nearest_apart(&features.descriptors, d, g, &mut out);
            out
        };
        Self {
            matches: templates.list().iter().map(of_template).collect(),
            image: MonoImage::Grey8(image),
            features,
        }
    }
}

fn now_us() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}

/// Least and median.
fn summary(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

/// Times of grey, follow and settle, of all three, and the logos reported last.
fn measure(
    follower: &mut Follower,
    seen: &Seen,
    rounds: usize,
    mut before: impl FnMut(&mut Follower, usize) -> bool,
) -> ([Vec<f64>; 4], usize) {
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut logos = Logos::new();
    for round in 0..rounds {
        let counts = before(follower, round);
        let start = now_us();
        follower.grey(black_box(&seen.image));
        let grey = now_us();
        follower.follow();
        let follow = now_us();
        follower.settle(&seen.features.keypoints, &seen.matches, &mut logos);
        let settle = now_us();
        black_box(&logos);
        if counts {
            let parts = [grey - start, follow - grey, settle - follow, settle - start];
            for (to, part) in times.iter_mut().zip(parts) {
                to.push(part);
            }
        }
    }
    (times, logos.len())
}

fn report(what: &str, (mut times, logos): ([Vec<f64>; 4], usize)) {
    let [grey, follow, settle, all] = times.each_mut().map(|t| summary(t));
    println!(
        "{what:42} {logos} logos: all {:6.0} us (median {:6.0}); grey {:4.0}, follow {:5.0} \
         ({:5.0}), settle {:5.0} ({:5.0})",
        all.0, all.1, grey.0, follow.0, follow.1, settle.0, settle.1
    );
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|a| a.parse().ok());
    let rounds: usize = rounds.unwrap_or(400);
    let params = Params::default();
    let turn = params.full_search_frames as usize;
    for (count, marks) in [(5, [0, 1, 3]), (12, [1, 3, 10])] {
        let pictures = MARKS.iter().take(count).map(|mark| {
            let (grey, alpha) = mark.picture(128);
            (mark.name.to_owned(), grey, Some(alpha))
        });
        let templates = Templates::of_pictures(
            pictures.collect(),
            &params.features,
            &BuildOptions::default(),
        );
        let templates = Arc::new(templates.expect("marks become templates"));
        let mut follower =
            Follower::new(&params, templates.clone(), SIZE).expect("default parameters are valid");
        let marks = [(marks[0], 60.0), (marks[1], 500.0), (marks[2], 800.0)];
        let with = Seen::new(wall(&marks), &params, &templates);
        let without = Seen::new(wall(&[]), &params, &templates);
        let street = Seen::new(street(), &params, &templates);
        println!(
            "{count} templates, {} keypoints, {} without logos, {} in the street",
            with.features.keypoints.len(),
            without.features.keypoints.len(),
            street.features.keypoints.len()
        );
        let afresh = |f: &mut Follower, _: usize| {
            f.reset();
            true
        };
        report("first frame", measure(&mut follower, &with, rounds, afresh));
        for n in 0..turn {
            follower.reset();
            let nth = |_: &mut Follower, round: usize| round >= turn && round % turn == n;
            report(
                &format!("tracks, frame {n} of {turn}"),
                measure(&mut follower, &with, turn * rounds, nth),
            );
        }
        report(
            "a wall without logos",
            measure(&mut follower, &without, rounds, afresh),
        );
        report(
            "a street without logos",
            measure(&mut follower, &street, rounds, afresh),
        );
    }
}
