//! How well is the moving foreground of CDnet's highway found (Wang et al., CVPRW 2014)?
mod common;

use std::path::Path;

use roadloop::{
    frame::{Foreground, Image, MonoImage, Motion, MotionState, Rgb},
    picture::{self, Picture},
    stage::{
        Stage as _,
        foreground::{
            Params,
            cpu::{Input, Plan},
        },
    },
};

/// Frames there are, and the first with truth, counted from 1.
const FRAMES: usize = 540;
const FIRST: usize = 470;

fn colour(path: &Path) -> Rgb {
    match picture::read(path).unwrap() {
        Picture::Rgb8(rgb) => rgb,
        _ => panic!("{} is no colour picture", path.display()),
    }
}

fn grey(rgb: &Rgb) -> Image<u8> {
    Image::from_fn(rgb.width(), rgb.height(), |x, y| {
        picture::grey_of(rgb.get(x, y))
    })
}

fn truth(path: &Path) -> Image<u8> {
    match picture::read(path).unwrap() {
        Picture::Grey8(image) => image,
        Picture::Rgb8(rgb) => Image::from_fn(rgb.width(), rgb.height(), |x, y| rgb.get(x, y)[0]),
        Picture::Grey16(_) => panic!("{} has 16 bits", path.display()),
    }
}

#[derive(Default)]
struct Score {
    hits: u64,
    false_alarms: u64,
    misses: u64,
}

impl Score {
    /// Moving against not moving; 85 and 170 in the truth are not judged, 50 is shadow.
    fn add(&mut self, mask: &Image<u8>, truth: &Image<u8>) {
        for (&mask, &truth) in mask.pixels().zip(truth.pixels()) {
            let moving = mask == Foreground::MOVING;
            match truth {
                85 | 170 => {}
                255 if moving => self.hits += 1,
                255 => self.misses += 1,
                _ if moving => self.false_alarms += 1,
                _ => {}
            }
        }
    }

    fn f(&self) -> f64 {
        let twice = 2 * self.hits;
        twice as f64 / (twice + self.false_alarms + self.misses) as f64
    }
}

/// F of each run, frame by frame over the same pictures. A run makes its picture and motion from
/// the frame, and gives the mask in the frame's place.
struct Run {
    plan: Plan,
    out: Foreground,
    picture: fn(usize, &Rgb) -> MonoImage,
    shift: fn(usize) -> (i32, i32),
    score: Score,
    /// The same without the margin that a shaken camera does not see.
    inner: Score,
}

impl Run {
    fn new(picture: fn(usize, &Rgb) -> MonoImage, shift: fn(usize) -> (i32, i32)) -> Self {
        let seen = picture(0, &Rgb::new(320, 240));
        let (size, kind) = (seen.size(), seen.kind());
        Self {
            plan: Plan::new(&Params::default(), kind, size).unwrap(),
            out: Foreground::new(size),
            picture,
            shift,
            score: Score::default(),
            inner: Score::default(),
        }
    }

    fn frame(&mut self, n: usize, rgb: &Rgb) {
        let image = (self.picture)(n, rgb);
        let ((x, y), (x0, y0)) = ((self.shift)(n), (self.shift)(n.saturating_sub(1)));
        let mut motion = Motion::of(MotionState::Still);
        if (x, y) != (x0, y0) {
            motion.state = MotionState::SmallMotion;
            motion.homography[2] = (x0 - x) as f32;
            motion.homography[5] = (y0 - y) as f32;
            // As measured from pictures: not exactly.
            let mut error = n as u32;
            for entry in [2, 5] {
                error = error.wrapping_mul(0x9E37_79B9).rotate_left(9);
                motion.homography[entry] += (error % 1000) as f32 * 2e-4 - 0.1;
            }
            motion.homography[1] += (error % 777) as f32 * 1e-6 - 0.00035;
        }
        if n == 1 {
            motion = Motion::default();
        }
        let input = Input {
            image: &image,
            motion: &motion,
            known_foreground: None,
        };
        self.plan.run(input, &mut self.out);
    }

    fn judge(&mut self, n: usize, truth: &Image<u8>) {
        if self.out.mask.size() == truth.size() {
            self.score.add(&self.out.mask, truth);
            self.inner
                .add(&inner(&self.out.mask, (0, 0)), &inner(truth, (0, 0)));
        } else {
            self.score
                .add(&self.out.mask, &inner(truth, (self.shift)(n)));
        }
    }
}

/// What a camera sees that is shifted by up to 3 px inside a larger picture.
fn inner<T: Copy>(from: &Image<T>, (dx, dy): (i32, i32)) -> Image<T> {
    let at = |p: usize, d: i32| (p as i32 + 3 - d) as usize;
    Image::from_fn(from.width() - 6, from.height() - 6, |x, y| {
        from.get(at(x, dx), at(y, dy))
    })
}

fn still(_: usize) -> (i32, i32) {
    (0, 0)
}

/// Up to 3 px to all sides, another place in each frame.
fn shaken(n: usize) -> (i32, i32) {
    let noise = (n as u32).wrapping_mul(0x9E37_79B9) >> 8;
    ((noise % 7) as i32 - 3, (noise / 7 % 7) as i32 - 3)
}

#[test]
fn vehicles_are_found_in_colour_in_grey_and_while_the_camera_shakes() {
    let Some(folder) = common::data("cdnet_highway") else {
        return;
    };
    let mut runs = [
        Run::new(|_, rgb| MonoImage::Rgb8(rgb.clone()), still),
        Run::new(|_, rgb| MonoImage::Grey8(grey(rgb)), still),
        Run::new(|n, rgb| MonoImage::Rgb8(inner(rgb, shaken(n))), shaken),
        Run::new(
            |n, rgb| MonoImage::Grey8(grey(&inner(rgb, shaken(n)))),
            shaken,
        ),
    ];
    for n in 1..=FRAMES {
        let rgb = colour(&folder.join(format!("input/in{n:06}.jpg")));
        let truth = (n >= FIRST).then(|| truth(&folder.join(format!("groundtruth/gt{n:06}.png"))));
        for run in &mut runs {
            run.frame(n, &rgb);
            if let Some(truth) = &truth {
                run.judge(n, truth);
            }
        }
    }
    for run in &runs {
        println!(
            "{} hits {} false {} missed",
            run.score.hits, run.score.false_alarms, run.score.misses
        );
    }
    let [colour, grey, shaken_colour, shaken_grey] = runs.each_ref().map(|run| run.score.f());
    let [inner_colour, inner_grey, ..] = runs.map(|run| run.inner.f());
    println!("F inside: colour {inner_colour:.4}, grey {inner_grey:.4}");
    println!("F: colour {colour:.4}, grey {grey:.4}, shaken {shaken_colour:.4}, {shaken_grey:.4}");
    assert!(colour >= 0.92, "F {colour:.4} in colour");
    assert!(grey >= 0.90, "F {grey:.4} in grey");
    assert!(
        shaken_colour >= inner_colour - 0.05,
        "F {shaken_colour:.4} in shaken colour"
    );
    assert!(
        shaken_grey >= inner_grey - 0.05,
        "F {shaken_grey:.4} in shaken grey"
    );
}
