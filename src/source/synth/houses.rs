//! Houses, gardens, walls and hedges.
use super::facade::Facade;
use super::labels::Label;
use super::maths::{Pose, Rng, V, rgb, v};
use super::paint::Paint;
use super::scene::{Builder, Content};
use super::shape::Solid;

const DEPTH: f64 = 10.0;

/// A house whose front, `2 half` wide, stands at the pose's origin; it reaches away from the
/// street along the pose's x (`side` 1) or against it (-1).
pub(crate) fn house(out: &mut Content, pose: Pose, side: f64, half: f64, rng: &mut Rng) {
    let storeys = rng.pick(&[2.0, 3.0, 3.0, 4.0]);
    let storey = rng.range(2.95, 3.25);
    let height = storeys * storey + 0.5;
    let bays = ((2.0 * half / rng.range(2.3, 3.1)) as i64).max(1) as f64;
    let walls = [
        rgb(222, 204, 168),
        rgb(206, 178, 140),
        rgb(214, 206, 192),
        rgb(196, 148, 116),
        rgb(176, 182, 176),
        rgb(226, 214, 150),
        rgb(178, 196, 206),
    ];
    let brick = rng.chance(0.35);
    let bricks = [rgb(164, 92, 70), rgb(142, 78, 62), rgb(178, 128, 96)];
    let facade = Facade {
        colour: if brick {
            rng.pick(&bricks)
        } else {
            rng.pick(&walls)
        },
        trim: rng.pick(&[rgb(222, 216, 204), rgb(196, 186, 168), rgb(236, 234, 228)]),
        brick,
        shop: rng.chance(0.4),
        shutters: !brick && rng.chance(0.4),
        storey,
        bay: 2.0 * half / bays,
        height,
        half,
        salt: rng.bits() as u32,
    };
    let deep = side * DEPTH;
    let box_of = |x0: f64, x1: f64, y0: f64, y1: f64, z: f64| {
        Solid::cuboid(v(x0.min(x1), y0, -z), v(x0.max(x1), y1, z))
    };
    let mut b = Builder::new(out, pose, false, Label::Building);
    b.add(box_of(0.0, deep, -0.1, height, half), Paint::House(facade));
    // Roof: eaves over the front, the ridge along the street.
    let tiles = rng.pick(&[rgb(150, 80, 58), rgb(112, 66, 54), rgb(84, 84, 90)]);
    let eave = 0.4;
    let rise = rng.range(0.55, 0.85);
    let roof = box_of(-side * eave, deep + side * eave, height, height + 5.0, half)
        .cut(
            v(-side * eave, height + 0.14, 0.0),
            v(-side * rise, 1.0, 0.0),
        )
        .cut(
            v(deep + side * eave, height + 0.14, 0.0),
            v(side * rise, 1.0, 0.0),
        );
    b.add(roof, Paint::Roof(tiles));
    for _ in 0..2 {
        let z = rng.range(-half * 0.8, half * 0.8);
        let x = deep * 0.4;
        let top = height + rise * 4.4 + 1.2;
        let stack = Solid::cuboid(v(x - 0.4, height, z - 0.35), v(x + 0.4, top, z + 0.35));
        b.add(stack, Paint::Brickwork(rgb(140, 84, 66)));
    }
    if facade.shop && rng.chance(0.7) {
        // An awning, striped by its own grain of boards.
        let tone = rng.pick(&[rgb(170, 60, 50), rgb(60, 110, 90), rgb(210, 190, 140)]);
        let z = half * rng.range(0.45, 0.9);
        let cloth = box_of(0.0, -side * 1.1, 2.15, 2.75, z)
            .cut(v(-side * 1.1, 2.3, 0.0), v(-side * 0.4, 1.0, 0.0))
            .cut(v(-side * 1.1, 2.22, 0.0), v(side * 0.4, -1.0, 0.0));
        b.add(cloth, Paint::Fence(tone));
    } else if storeys > 2.5 && rng.chance(0.5) {
        let tone = Paint::Plain {
            colour: rgb(120, 122, 124),
            gloss: 0.1,
        };
        for i in 1..storeys as i32 {
            let y = f64::from(i) * storey;
            let z = facade.bay * 0.48;
            b.add(
                box_of(0.0, -side * 0.95, y - 0.1, y + 0.06, z),
                facade_slab(),
            );
            b.add(
                box_of(-side * 0.9, -side * 0.95, y + 0.06, y + 0.98, z),
                tone,
            );
        }
    }
}

fn facade_slab() -> Paint {
    Paint::Plain {
        colour: rgb(190, 184, 172),
        gloss: 0.0,
    }
}

/// A garden behind a wall, fence or hedge at the pose's origin, the house at its far end.
pub(crate) fn garden(out: &mut Content, pose: Pose, side: f64, half: f64, rng: &mut Rng) {
    let back = Pose {
        at: pose.outside(v(side * rng.range(5.0, 7.0), 0.0, 0.0)),
        ..pose
    };
    house(out, back, side, half, rng);
    border(out, pose, side, half, rng);
    for _ in 0..3 {
        let at = pose.outside(v(
            side * rng.range(1.6, 3.6),
            0.0,
            rng.range(-half, half) * 0.75,
        ));
        bush(out, at, rng);
    }
}

/// A wall, fence or hedge of length `2 half` along the pose's z.
pub(crate) fn border(out: &mut Content, pose: Pose, side: f64, half: f64, rng: &mut Rng) {
    let slab = |t: f64, y0: f64, y1: f64| {
        let (a, b) = (-side * 0.02, side * t);
        Solid::cuboid(v(a.min(b), y0, -half), v(a.max(b), y1, half))
    };
    let mut b = Builder::new(out, pose, false, Label::Wall);
    match rng.bits() % 3 {
        0 => {
            let h = rng.range(0.9, 1.7);
            let tone = rng.pick(&[rgb(160, 104, 82), rgb(170, 160, 140)]);
            b.add(slab(0.24, -0.1, h), Paint::Brickwork(tone));
            let cap = Paint::Plain {
                colour: rgb(176, 172, 162),
                gloss: 0.0,
            };
            let (lo, hi) = (v(-0.08, h, -half), v(0.08, h + 0.07, half));
            b.add(
                Solid::cuboid(
                    lo + v(side * 0.11 - 0.1, 0.0, 0.0),
                    hi + v(side * 0.11 + 0.1, 0.0, 0.0),
                ),
                cap,
            );
        }
        1 => {
            let h = rng.range(1.1, 1.7);
            let tone = rng.pick(&[rgb(128, 92, 62), rgb(196, 192, 180), rgb(96, 84, 70)]);
            b.add(slab(0.07, -0.1, h), Paint::Fence(tone));
        }
        _ => {
            b.label = Label::Vegetation;
            let h = rng.range(1.1, 1.9);
            let salt = rng.bits() as u32;
            b.add(
                slab(0.85, -0.1, h),
                Paint::Leaves(rgb(62, 96, 42) * 0.9, salt),
            );
        }
    }
}

/// A round shrub.
fn bush(out: &mut Content, at: V, rng: &mut Rng) {
    let mut b = Builder::new(out, Pose::facing(at, 0.0, 1.0), false, Label::Vegetation);
    let salt = rng.bits() as u32;
    let tone = rng.pick(&[rgb(84, 116, 52), rgb(70, 100, 60), rgb(120, 116, 60)]) * 0.9;
    for i in 0..3 {
        let r = rng.range(0.5, 0.95);
        let c = v(rng.range(-0.5, 0.5), r * 0.8, rng.range(-0.5, 0.5));
        b.add(
            Solid::foliage(c, v(r, r, r), 0.18, salt ^ i),
            Paint::Leaves(tone, salt),
        );
        let k = r * 0.86;
        b.add(
            Solid::ellipsoid(c, v(k, k, k)),
            Paint::Leaves(tone * 0.65, salt),
        );
    }
}
