//! Are logos followed from frame to frame: the same ids, smooth places, lost when they are gone?
#[path = "common/heap.rs"]
mod heap;

use std::sync::{Arc, OnceLock};

use roadloop::{
    evaluate::logos::{
        composite::{Chance, Master, Placing, add_noise, lay},
        marks::MARKS,
    },
    frame::{Image, Logo, LogoState, Logos, MonoImage, PixelKind, Size},
    stage::{
        Stage as _,
        logo::{BuildOptions, Follower, Input, Params, Templates, cpu::Plan, features::matcher},
    },
};

const SIZE: Size = Size::new(640, 360);

/// Two marks: "brontek" and "cisquil".
const USED: [usize; 2] = [1, 2];

fn templates() -> Arc<Templates> {
    static TEMPLATES: OnceLock<Arc<Templates>> = OnceLock::new();
    let build = || {
        let pictures = USED.map(|i| {
            let (grey, alpha) = MARKS[i].picture(128);
            (MARKS[i].name.to_owned(), grey, Some(alpha))
        });
        let options = BuildOptions {
            heights: vec![128, 64],
            views: false,
            ..BuildOptions::default()
        };
        let params = Params::default();
        Arc::new(Templates::of_pictures(pictures.into(), &params.features, &options).unwrap())
    };
    TEMPLATES.get_or_init(build).clone()
}

fn plan() -> Plan {
    Plan::new(&Params::default(), templates(), PixelKind::Grey8, SIZE).unwrap()
}

fn master(mark: usize) -> &'static Master {
    static MASTERS: OnceLock<Vec<Master>> = OnceLock::new();
    let masters = MASTERS.get_or_init(|| USED.map(|i| Master::new(&MARKS[i])).into());
    &masters[USED.iter().position(|i| *i == mark).unwrap()]
}

/// A wall of soft blotches.
fn wall(chance: &mut Chance) -> Image<u8> {
    let mut frame = Image::from_fn(SIZE.width, SIZE.height, |x, y| {
        let (a, b) = (x / 24, y / 17);
        (100 + (a * 13 + b * 29 + a * b * 7) % 60) as u8
    });
    add_noise(&mut frame, chance, 2.0);
    frame
}

/// A frame with marks: which of [`USED`], left upper corner, height.
fn frame(n: u64, marks: &[(usize, f64, f64, f64)]) -> (MonoImage, Vec<[[f64; 2]; 4]>) {
    let mut chance = Chance(100 + n);
    let mut image = wall(&mut chance);
    let mut quads = Vec::new();
    for &(which, x, y, height) in marks {
        let mark = USED[which];
        let width = height * MARKS[mark].aspect;
        let quad = [
            [x, y],
            [x + width, y + 3.0],
            [x + width, y + 3.0 + height],
            [x, y + height],
        ];
        let placing = Placing {
            mark,
            quad,
            height,
            turn_deg: 0.0,
            gain: 0.9,
            smear: [1.0, 0.0],
        };
        lay(&mut image, master(mark), &placing);
        quads.push(quad);
    }
    (MonoImage::Grey8(image), quads)
}

fn run(plan: &mut Plan, image: &MonoImage) -> Vec<Logo> {
    let mut logos = Logos::new();
    plan.run(Input { image }, &mut logos);
    logos.to_vec()
}

fn error(logo: &Logo, quad: &[[f64; 2]; 4]) -> f64 {
    let pairs = logo.quad.iter().zip(quad);
    pairs
        .map(|(p, q)| {
            let (x, y) = (f64::from(p[0]) - q[0], f64::from(p[1]) - q[1]);
            (x * x + y * y).sqrt()
        })
        .fold(0.0, f64::max)
}

#[test]
fn two_logos_keep_their_ids_to_a_fraction_of_a_pixel() {
    let mut plan = plan();
    for n in 0..12 {
        let t = n as f64;
        let (image, quads) = frame(
            n,
            &[
                (0, 40.0 + 7.3 * t, 60.0 + 1.5 * t, 50.0 + t),
                (1, 480.0 - 11.0 * t, 200.0 - 2.0 * t, 70.0),
            ],
        );
        let seen = run(&mut plan, &image);
        assert_eq!(seen.len(), 2, "frame {n}: {seen:?}");
        for logo in &seen {
            let quad = &quads[usize::from(logo.template)];
            assert!(
                error(logo, quad) < 1.0,
                "frame {n}: {} px",
                error(logo, quad)
            );
            assert_eq!(logo.state == LogoState::Tracked, n > 0);
            assert!(logo.confidence > 200);
        }
        let mut ids: Vec<(u32, u16)> = seen.iter().map(|l| (l.id, l.template)).collect();
        assert!(ids.is_sorted());
        ids.sort_by_key(|i| i.1);
        // Which of them began first is all the same; from then on it holds.
        let first = ids[0].0;
        assert_eq!((first, ids[1].0), if first == 1 { (1, 2) } else { (2, 1) });
        if n > 6 {
            let moving = seen.iter().find(|l| l.template == 1).unwrap();
            assert!(
                (moving.velocity[0] + 11.0).abs() < 0.5,
                "{:?}",
                moving.velocity
            );
            assert!(
                (moving.velocity[1] + 2.0).abs() < 0.5,
                "{:?}",
                moving.velocity
            );
        }
    }
}

#[test]
fn two_of_one_template() {
    let mut plan = plan();
    for n in 0..8 {
        let t = n as f64;
        let (image, quads) = frame(
            n,
            &[
                (0, 30.0 + 5.0 * t, 40.0, 60.0),
                (0, 350.0 - 4.0 * t, 230.0, 60.0),
            ],
        );
        let seen = run(&mut plan, &image);
        assert_eq!(seen.len(), 2, "frame {n}: {seen:?}");
        for quad in &quads {
            assert!(seen.iter().any(|l| error(l, quad) < 1.0), "frame {n}");
        }
        assert_eq!([seen[0].id, seen[1].id], [1, 2]);
        // The one that was above stays so.
        let above = seen[0].quad[0][1] < 100.0;
        assert_eq!(seen[1].quad[0][1] < 100.0, !above);
    }
}

#[test]
fn hidden_it_is_carried_on_and_found_again_then_lost() {
    let mut plan = plan();
    let place = |n: u64| (0usize, 40.0 + 8.0 * n as f64, 100.0, 60.0);
    for n in 0..6 {
        let seen = run(&mut plan, &frame(n, &[place(n)]).0);
        assert_eq!(seen.len(), 1, "frame {n}");
    }
    for n in 6..9 {
        let seen = run(&mut plan, &frame(n, &[]).0);
        assert_eq!(
            (seen.len(), seen[0].state),
            (1, LogoState::Tracked),
            "frame {n}"
        );
        let (_, x, y, _) = place(n);
        let [px, py] = seen[0].quad[0].map(f64::from);
        assert!(
            (px - x).abs() < 4.0 && (py - y).abs() < 4.0,
            "frame {n}: {px} {py}"
        );
        assert!(seen[0].confidence < 250);
    }
    let (image, quads) = frame(9, &[place(9)]);
    let seen = run(&mut plan, &image);
    assert_eq!((seen.len(), seen[0].id), (1, 1));
    assert!(error(&seen[0], &quads[0]) < 1.0);
    for n in 10..19 {
        let seen = run(&mut plan, &frame(n, &[]).0);
        assert_eq!(
            (seen.len(), seen[0].state),
            (1, LogoState::Tracked),
            "frame {n}"
        );
    }
    let seen = run(&mut plan, &frame(19, &[]).0);
    assert_eq!((seen.len(), seen[0].state), (1, LogoState::Lost));
    assert!(run(&mut plan, &frame(20, &[]).0).is_empty());
    // Afterwards it is another.
    assert_eq!(run(&mut plan, &frame(21, &[place(3)]).0)[0].id, 2);
}

#[test]
fn a_new_logo_is_seen_within_the_interval_of_full_searches() {
    let params = Params::default();
    let mut plan = plan();
    let old = (1usize, 400.0, 200.0, 70.0);
    for n in 0..3 {
        assert_eq!(run(&mut plan, &frame(n, &[old]).0).len(), 1);
    }
    let mut waited = 0;
    for n in 3.. {
        if run(&mut plan, &frame(n, &[old, (0, 40.0, 60.0, 60.0)]).0).len() == 2 {
            break;
        }
        waited += 1;
        assert!(waited < params.full_search_frames);
    }
}

#[test]
fn the_same_for_every_kind_of_picture_run_and_number_of_threads() {
    let drive: Vec<MonoImage> = (0..5)
        .map(|n| {
            frame(
                n,
                &[
                    (0, 40.0 + 9.0 * n as f64, 60.0, 60.0),
                    (1, 400.0, 190.0, 80.0),
                ],
            )
            .0
        })
        .collect();
    let of = |threads: usize, change: fn(&Image<u8>) -> MonoImage| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let mut plan: Option<Plan> = None;
            drive
                .iter()
                .map(|image| {
                    let MonoImage::Grey8(grey) = image else {
                        unreachable!()
                    };
                    let image = change(grey);
                    let plan = plan.get_or_insert_with(|| {
                        Plan::new(&Params::default(), templates(), image.kind(), SIZE).unwrap()
                    });
                    run(plan, &image)
                })
                .collect::<Vec<_>>()
        })
    };
    let grey = of(1, |i| MonoImage::Grey8(i.clone()));
    assert!(grey.iter().all(|seen| seen.len() == 2));
    assert_eq!(of(3, |i| MonoImage::Grey8(i.clone())), grey);
    let deep = |i: &Image<u8>| {
        MonoImage::Grey16(Image::from_fn(i.width(), i.height(), |x, y| {
            u16::from(i.get(x, y)) << 8 | 0x55
        }))
    };
    assert_eq!(of(2, deep), grey);
    let colour = |i: &Image<u8>| {
        MonoImage::Rgb8(Image::from_fn(i.width(), i.height(), |x, y| {
            [i.get(x, y); 3]
        }))
    };
    assert_eq!(of(2, colour), grey);
    // A plan that is reset has forgotten everything.
    let mut plan = plan();
    for _ in 0..2 {
        plan.reset();
        let again: Vec<_> = drive.iter().map(|image| run(&mut plan, image)).collect();
        assert_eq!(again, grey);
    }
}

#[test]
fn any_shape_and_any_pixels() {
    let mut chance = Chance(3);
    for (w, h) in [
        (1, 1),
        (1, 31),
        (32, 1),
        (16, 16),
        (33, 1025),
        (1023, 24),
        (101, 77),
    ] {
        let size = Size::new(w, h);
        let mut plan = Plan::new(&Params::default(), templates(), PixelKind::Grey8, size).unwrap();
        for _ in 0..2 {
            let noise = Image::from_fn(w, h, |_, _| chance.bits() as u8);
            assert!(run(&mut plan, &MonoImage::Grey8(noise)).is_empty());
            assert!(run(&mut plan, &MonoImage::Grey8(Image::filled(w, h, 99))).is_empty());
        }
    }
}

#[test]
fn a_run_takes_nothing_from_the_heap() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    pool.install(|| {
        let drive: Vec<MonoImage> = (0..6)
            .map(|n| {
                let mark = (0, 40.0 + 9.0 * n as f64, 60.0, 60.0);
                if n == 4 {
                    frame(n, &[]).0
                } else {
                    frame(n, &[mark, (1, 400.0, 190.0, 80.0)]).0
                }
            })
            .collect();
        let mut plan = plan();
        let mut logos = Logos::new();
        for round in 0..3 {
            plan.reset();
            let before = heap::allocations();
            for image in &drive {
                plan.run(Input { image }, &mut logos);
            }
            let taken = heap::allocations() - before;
            // The pool's own queues grow at first.
            assert!(round == 0 || taken == 0, "{taken} allocations");
            assert_eq!(logos.len(), 2);
        }
        // What runs on the host for both backends: nothing from the first frame on.
        let params = Params::default();
        let templates = templates();
        let mut follower = Follower::new(&params, templates.clone(), SIZE).unwrap();
        for image in &drive {
            plan.reset();
            plan.run(Input { image }, &mut logos);
            let found = plan.features();
            let mut matches = Vec::new();
            for t in templates.list() {
                let mut list = Vec::new();
                let (d, g) = (t.descriptors(), t.groups());
                matcher::two_nearest_apart(&found.descriptors, d, g, &mut list);
                matches.push(list);
            }
            let before = heap::allocations();
            follower.grey(image);
            follower.step(&found.keypoints, &matches, &mut logos);
            assert_eq!(heap::allocations() - before, 0);
        }
        assert_eq!(logos.len(), 2);
    });
}
