//! Does anything in the mono chain depend on pixels that are never to be used?
use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, OnceLock},
};

use roadloop::{
    evaluate::logos::{
        composite::{Chance, Master, Placing, add_noise, lay},
        marks::MARKS,
    },
    frame::{
        Foreground, ForegroundState, Image, Logo, Logos, Mask, MonoImage, Motion, MotionState,
        PixelKind, Size, png,
    },
    maths::random::hash,
    picture::{self, Picture},
    source::synth::{self, Options, write::write_drive},
    stage::{
        Stage as _, egomotion, foreground,
        logo::{self, BuildOptions, Templates},
    },
};

const KINDS: [PixelKind; 3] = [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8];
const SIZE: Size = Size::new(203, 117);

/// A bonnet with a slanted edge, and a spot.
fn mask() -> Mask {
    Mask::from_fn(SIZE.width, SIZE.height, |x, y| {
        let bonnet = y * 4 > 340 + x;
        let spot = (150..171).contains(&x) && (20..33).contains(&y);
        if bonnet || spot { 0 } else { 255 }
    })
}

/// Patches with a little noise, shifted; what the mask hides is as `under` says.
fn picture(kind: PixelKind, t: u32, shift: (i32, i32), under: Option<u32>) -> MonoImage {
    let mask = mask();
    let level = |x: usize, y: usize, c: u32| -> u8 {
        if let (0, Some(seed)) = (mask.get(x, y), under) {
            return (hash(seed + c, (x / 3) as u32, (y / 3) as u32 + 1000 * t) >> 24) as u8;
        }
        let (u, v) = (x as i32 - shift.0 + 500, y as i32 - shift.1 + 500);
        let patch = hash(7 + c, (u / 6) as u32, (v / 5) as u32) % 160;
        let noise = hash(t, (y * SIZE.width + x) as u32, c) % 4;
        (40 + patch + noise) as u8
    };
    let (w, h) = (SIZE.width, SIZE.height);
    match kind {
        PixelKind::Grey8 => MonoImage::Grey8(Image::from_fn(w, h, |x, y| level(x, y, 0))),
        PixelKind::Grey16 => {
            MonoImage::Grey16(Image::from_fn(w, h, |x, y| u16::from(level(x, y, 0)) << 8))
        }
        PixelKind::Rgb8 => MonoImage::Rgb8(Image::from_fn(w, h, |x, y| {
            [0, 1, 2].map(|c| level(x, y, c))
        })),
    }
}

/// Where the camera's picture lies in frame `t`: at rest, then shaken.
fn shaken(t: u32) -> (i32, i32) {
    if t < 12 {
        return (0, 0);
    }
    let of = |c| (hash(99, t, c) % 5) as i32 - 2;
    (of(0), of(1))
}

#[test]
fn the_foreground_does_not_depend_on_them_and_they_are_never_foreground() {
    for kind in KINDS {
        let params = foreground::Params {
            warm_up_frames: 4,
            ..foreground::Params::default()
        };
        let plan = || {
            foreground::cpu::Plan::with_mask(&params, kind, SIZE, Some(&mask()))
                .expect("default parameters")
        };
        let (mut quiet, mut loud) = (plan(), plan());
        let mut open = foreground::cpu::Plan::new(&params, kind, SIZE).unwrap();
        let known = Mask::from_fn(SIZE.width, SIZE.height, |x, _| {
            if (40..60).contains(&x) { 255 } else { 0 }
        });
        let (mut hidden, mut seen) = (0, 0);
        for t in 0..30 {
            let mut motion = Motion::of(MotionState::Still);
            if t >= 12 {
                let ((x, y), (u, v)) = (shaken(t), shaken(t - 1));
                motion = Motion::of(MotionState::SmallMotion);
                (motion.homography[2], motion.homography[5]) = ((u - x) as f32, (v - y) as f32);
            }
            let run = |plan: &mut foreground::cpu::Plan, image: &MonoImage| {
                let mut out = Foreground::new(SIZE);
                let input = foreground::cpu::Input {
                    image,
                    motion: &motion,
                    known_foreground: (t % 5 == 3).then_some(&known),
                };
                plan.run(input, &mut out);
                out
            };
            let wild = picture(kind, t, shaken(t), Some(3));
            let a = run(&mut quiet, &picture(kind, t, shaken(t), None));
            let b = run(&mut loud, &wild);
            let c = run(&mut open, &wild);
            assert_eq!(a, b, "frame {t}, {kind:?}");
            assert_eq!(quiet.gain(), loud.gain());
            let masked = mask();
            let count = |out: &Foreground| {
                let pairs = out.mask.pixels().zip(masked.pixels());
                pairs.filter(|&(&m, &usable)| m != 0 && usable == 0).count()
            };
            assert_eq!(count(&b), 0, "frame {t}");
            hidden += count(&c);
            seen += usize::from(b.state == ForegroundState::Valid);
        }
        assert_eq!(quiet.snapshot(), loud.snapshot());
        assert!(hidden > 10_000 && seen > 20, "{hidden} {seen}");
    }
}

#[test]
fn the_motion_does_not_depend_on_them() {
    for kind in KINDS {
        let plan = |mask: Option<&Mask>| {
            egomotion::cpu::Plan::with_mask(&egomotion::Params::default(), kind, SIZE, mask)
                .expect("default parameters")
        };
        let mask = mask();
        let (mut quiet, mut loud) = (plan(Some(&mask)), plan(Some(&mask)));
        let mut states = Vec::new();
        for t in 0..30 {
            let run = |plan: &mut egomotion::cpu::Plan, under| {
                let mut motion = Motion::default();
                let image = picture(kind, t, shaken(t), under);
                let input = egomotion::Input {
                    image: &image,
                    speed_mps: None,
                };
                plan.run(input, &mut motion);
                motion
            };
            let motion = run(&mut quiet, None);
            assert_eq!(motion, run(&mut loud, Some(3)), "frame {t}");
            states.push(motion.state);
        }
        assert!(states[1..12].iter().all(|&s| s == MotionState::Still));
        assert!(states[14..].contains(&MotionState::SmallMotion));
    }
}

/// The bonnet fills most of the picture and rests with the camera, the world moves.
#[test]
fn a_bonnet_that_rests_does_not_hide_the_drive() {
    let size = Size::new(320, 240);
    let bonnet = 90;
    let mask = Mask::from_fn(
        size.width,
        size.height,
        |_, y| {
            if y >= bonnet { 0 } else { 255 }
        },
    );
    let state = |mask: Option<&Mask>| {
        let params = egomotion::Params::default();
        let mut plan =
            egomotion::cpu::Plan::with_mask(&params, PixelKind::Grey8, size, mask).unwrap();
        let mut motion = Motion::default();
        for t in 0..12 {
            // Rows flow down, faster the lower they are: no one homography explains them all.
            let image = Image::from_fn(size.width, size.height, |x, y| {
                let (mut u, mut v) = (x + 1000, y + 1000);
                if y < bonnet {
                    let side = if (x / 64) % 2 == 0 { 1 } else { 2 };
                    (u, v) = (u - 2 * side * t, v - side * t);
                }
                (60 + hash(3, (u / 7) as u32, (v / 6) as u32) % 140) as u8
            });
            let image = MonoImage::Grey8(image);
            let input = egomotion::Input {
                image: &image,
                speed_mps: None,
            };
            plan.run(input, &mut motion);
        }
        motion.state
    };
    assert_eq!(state(None), MotionState::Still);
    assert_eq!(state(Some(&mask)), MotionState::Driving);
}

const WALL: Size = Size::new(640, 360);

fn templates() -> Arc<Templates> {
    static TEMPLATES: OnceLock<Arc<Templates>> = OnceLock::new();
    let build = || {
        let (grey, alpha) = MARKS[1].picture(128);
        let pictures = vec![(MARKS[1].name.to_owned(), grey, Some(alpha))];
        let options = BuildOptions {
            heights: vec![128, 64],
            views: false,
            ..BuildOptions::default()
        };
        let features = logo::Params::default().features;
        Arc::new(Templates::of_pictures(pictures, &features, &options).unwrap())
    };
    TEMPLATES.get_or_init(build).clone()
}

/// A mark on the left, and another that is not seen where the right half is masked.
fn wall(right: bool) -> MonoImage {
    let mut image = Image::from_fn(WALL.width, WALL.height, |x, y| {
        let (a, b) = (x / 24, y / 17);
        (100 + (a * 13 + b * 29 + a * b * 7) % 60) as u8
    });
    let height = 70.0;
    for x in [40.0].into_iter().chain(right.then_some(400.0)) {
        let width = height * MARKS[1].aspect;
        let quad = [
            [x, 100.0],
            [x + width, 103.0],
            [x + width, 173.0],
            [x, 170.0],
        ];
        let placing = Placing {
            mark: 1,
            quad,
            height,
            turn_deg: 0.0,
            gain: 0.9,
            smear: [1.0, 0.0],
        };
        lay(&mut image, &Master::new(&MARKS[1]), &placing);
    }
    add_noise(&mut image, &mut Chance(5), 2.0);
    if !right {
        return MonoImage::Grey8(image);
    }
    // What is masked changes more than that.
    MonoImage::Grey8(Image::from_fn(WALL.width, WALL.height, |x, y| {
        let grey = image.get(x, y);
        if y >= 300 { grey ^ 0x55 } else { grey }
    }))
}

#[test]
fn logos_do_not_depend_on_them() {
    let mask = Mask::from_fn(WALL.width, WALL.height, |x, y| {
        if x >= 380 || y >= 300 { 0 } else { 255 }
    });
    let run = |mask: Option<&Mask>, right: bool| -> (Vec<Logo>, _) {
        let params = logo::Params::default();
        let kind = PixelKind::Grey8;
        let mut plan = logo::cpu::Plan::with_mask(&params, templates(), kind, WALL, mask).unwrap();
        let mut logos = Logos::new();
        for _ in 0..3 {
            let image = wall(right);
            plan.run(logo::Input { image: &image }, &mut logos);
        }
        (logos.to_vec(), plan.features().clone())
    };
    let (all, _) = run(None, true);
    assert_eq!(all.len(), 2);
    let (one, features) = run(Some(&mask), true);
    assert_eq!(one.len(), 1);
    assert!(one[0].quad.iter().all(|p| p[0] < 380.0));
    assert_eq!((one, features.clone()), run(Some(&mask), false));
    let hidden =
        |k: &logo::features::Keypoint| mask.get((k.x + 0.5) as usize, (k.y + 0.5) as usize) == 0;
    assert!(!features.keypoints.iter().any(hidden));
}

#[test]
fn masks_of_other_sizes_are_refused() {
    let wrong = Mask::new(7, 5);
    let said = "the mask is 7x5 px, the images are 203x117";
    let kind = PixelKind::Grey8;
    let plan =
        egomotion::cpu::Plan::with_mask(&egomotion::Params::default(), kind, SIZE, Some(&wrong));
    assert_eq!(plan.unwrap_err().to_string(), said);
    let params = foreground::Params::default();
    let plan = foreground::cpu::Plan::with_mask(&params, kind, SIZE, Some(&wrong));
    assert_eq!(plan.err().unwrap().to_string(), said);
    let params = logo::Params::default();
    let plan = logo::cpu::Plan::with_mask(&params, templates(), kind, SIZE, Some(&wrong));
    assert_eq!(plan.err().unwrap().to_string(), said);
}

fn replay(drive: &Path, out: &Path, config: &Path) {
    replay_and(drive, out, config, &[]);
}

fn replay_and(drive: &Path, out: &Path, config: &Path, more: &[&str]) {
    let text = |p: &Path| p.to_str().unwrap().to_owned();
    let output = Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(["replay", &text(drive), "--out", &text(out)])
        .args(["--config", &text(config), "--save", "foreground"])
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Pixels of the foreground above and from row 40 on, over all frames.
fn moving(out: &Path, frames: usize) -> [usize; 2] {
    let mut counts = [0; 2];
    for n in 0..frames {
        let path = out.join(format!("foreground/{n:06}.png"));
        let Picture::Grey8(mask) = picture::read(&path).unwrap() else {
            panic!("grey")
        };
        for (y, row) in mask.rows().enumerate() {
            counts[usize::from(y >= 40)] += row.iter().filter(|&&m| m != 0).count();
        }
    }
    counts
}

/// The mask of the left camera holds where its image stands in for a mono camera's, that of the
/// mono camera on a drive of its own.
#[test]
fn masks_of_the_configuration_reach_the_mono_chain() {
    let frames = 20;
    let tmp = tempfile::tempdir().unwrap();
    let path = |name: &str| tmp.path().join(name);
    let options = Options {
        frames,
        seed: 1,
        size: Size::new(128, 72),
        motion: synth::Motion::Still,
    };
    write_drive(&options, &path("stereo"), &mut |_, _| {}).unwrap();
    // Without a mono camera of its own the left image stands in.
    fs::remove_dir_all(path("stereo/mono")).unwrap();
    fs::create_dir_all(path("mono/frames")).unwrap();
    for n in 0..frames {
        let name = format!("{n:06}.png");
        // Two blocks pass in front of patches, one above the mask and one on it.
        let image = Image::from_fn(128, 72, |x, y| {
            let block = (10 + 5 * n..24 + 5 * n).contains(&x) && (y / 12) % 3 == 1;
            let patch = 40 + hash(1, (x / 6) as u32, (y / 5) as u32) % 100;
            [if block { 240 } else { patch as u8 }; 3]
        });
        png::write_rgb(&path("stereo/image_2").join(&name), &image).unwrap();
        png::write_rgb(&path("mono/frames").join(&name), &image).unwrap();
    }
    let polygon = "mask = [[0, 40], [127, 40], [127, 71], [0, 71]]\n";
    let foreground = "[stereo]\ndisparities = 64\n[egomotion]\nmin_points = 4\n\
                      [foreground]\nenabled = true\nwarm_up_frames = 3\n";
    for (name, section) in [("open", ""), ("stereo", "[input]\n"), ("mono", "[mono]\n")] {
        let mask = if section.is_empty() { "" } else { polygon };
        let text = format!("{foreground}{section}{mask}");
        fs::write(path(&format!("{name}.toml")), text).unwrap();
    }
    for drive in ["stereo", "mono"] {
        let open = path(&format!("open_{drive}"));
        replay(&path(drive), &open, &path("open.toml"));
        let masked = path(&format!("masked_{drive}"));
        replay(&path(drive), &masked, &path(&format!("{drive}.toml")));
        let [_, below] = moving(&open, frames);
        assert!(below > 500, "{drive}: {below}");
        let [above, below] = moving(&masked, frames);
        assert!(above > 500 && below == 0, "{drive}: {above}, {below}");
        // A recording holds them, and its replay has the same masks of what moves.
        let config = path(&format!("{drive}.toml"));
        let (taped, tape) = (
            path(&format!("taped_{drive}")),
            path(&format!("tape_{drive}")),
        );
        replay_and(
            &path(drive),
            &taped,
            &config,
            &["--record", tape.to_str().unwrap()],
        );
        let again = path(&format!("again_{drive}"));
        replay(&tape, &again, &path("open.toml"));
        for n in 0..frames {
            let name = format!("foreground/{n:06}.png");
            let [a, b] = [&taped, &again].map(|out| fs::read(out.join(&name)).unwrap());
            assert!(a == b, "{drive} {n}");
        }
    }

    let picture = path("mask.png");
    png::write_grey(&picture, &Image::<u8>::new(5, 4)).unwrap();
    fs::write(path("wrong.toml"), "[mono]\nmask = \"mask.png\"\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .arg("replay")
        .arg(path("mono"))
        .arg("--out")
        .arg(path("no"))
        .arg("--config")
        .arg(path("wrong.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("mask.png: 5x4 px, but the mono pictures have 128x72 px"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(78));
}
