//! What stands beside the road: trees, lamps, signs, bins; and people on foot.
use super::labels::Label;
use super::maths::{Light, Pose, Rng, V, rgb, v};
use super::paint::Paint;
use super::scene::{Builder, Content};
use super::shape::Solid;

fn upright(at: V) -> Pose {
    Pose::facing(at, 0.0, 1.0)
}

fn plain(r: u8, g: u8, b: u8) -> Paint {
    Paint::Plain {
        colour: rgb(r, g, b),
        gloss: 0.15,
    }
}

/// A street tree of a height of 6 to 9 m.
pub(crate) fn tree(out: &mut Content, at: V, rng: &mut Rng) {
    let mut b = Builder::new(out, upright(at), false, Label::Vegetation);
    let salt = rng.bits() as u32;
    let size = rng.range(0.85, 1.2);
    let fork = 2.5 * size;
    let lean = v(rng.range(-0.12, 0.12), 0.0, rng.range(-0.15, 0.15));
    b.add(
        Solid::capsule(V::default(), v(lean.x, fork, lean.z), 0.15 * size),
        Paint::Bark,
    );
    b.add(
        Solid::capsule(v(0.0, -0.1, 0.0), v(0.0, 0.18, 0.0), 0.22 * size),
        Paint::Bark,
    );
    let greens = [
        rgb(82, 118, 44),
        rgb(98, 126, 48),
        rgb(70, 108, 52),
        rgb(122, 132, 52),
    ];
    let green = rng.pick(&greens) * 0.8;
    for i in 0..5 {
        let k = f64::from(i) * 0.2;
        let tip = v(
            rng.range(-1.1, 1.1),
            fork + 1.0 + rng.range(0.4, 1.2),
            rng.range(-1.1, 1.1),
        );
        b.add(
            Solid::capsule(v(lean.x, fork - 0.2 - k, lean.z), tip * size, 0.055),
            Paint::Bark,
        );
    }
    for i in 0..8 {
        let up = f64::from(i) / 7.0;
        // A crown: wide in the middle, narrow above.
        let spread = 1.25 * (1.0 - (up - 0.3) * (up - 0.3) * 1.6);
        let c = v(
            rng.range(-1.0, 1.0) * spread,
            fork + 0.6 + up * 3.3,
            rng.range(-1.0, 1.0) * spread,
        );
        let r = rng.range(1.0, 1.45) * (1.15 - 0.4 * up);
        let radii = v(r, r * rng.range(0.7, 0.9), r * rng.range(0.9, 1.1));
        // A ragged shell of leaves over a darker core.
        let leaves = green * (0.78 + 0.4 * up as f32);
        let shell = Solid::foliage(c * size, radii * size, 0.24, salt ^ i);
        b.add(shell, Paint::Leaves(leaves, salt));
        let core = Solid::ellipsoid(c * size, radii * (size * 0.85));
        b.add(core, Paint::Leaves(leaves * 0.62, salt));
    }
    b.contact((0.1, 0.1), 0.5, 0.5);
}

/// A lamp post whose arm reaches over the road on the side `side` (-1 left, 1 right).
pub(crate) fn lamp(out: &mut Content, at: V, side: f64) {
    let mut b = Builder::new(out, upright(at), false, Label::Pole);
    let grey = plain(96, 104, 102);
    let y = v(0.0, 1.0, 0.0);
    b.add(Solid::cylinder(v(0.0, 0.45, 0.0), y, 0.45, 0.105), grey);
    b.add(Solid::cylinder(v(0.0, 3.6, 0.0), y, 3.3, 0.062), grey);
    let knee = v(-side * 0.25, 7.15, 0.0);
    b.add(Solid::capsule(v(0.0, 6.85, 0.0), knee, 0.045), grey);
    b.add(Solid::capsule(knee, v(-side * 1.7, 7.3, 0.0), 0.04), grey);
    b.add(
        Solid::ellipsoid(v(-side * 1.95, 7.27, 0.0), v(0.42, 0.075, 0.15)),
        plain(150, 152, 150),
    );
    b.contact((0.05, 0.05), 0.35, 0.5);
}

/// A traffic sign that faces traffic driving along (0, `dz`).
pub(crate) fn sign(out: &mut Content, at: V, dz: f64, kind: u32) {
    let mut b = Builder::new(out, Pose::facing(at, 0.0, dz), false, Label::Pole);
    let pole = plain(150, 152, 154);
    b.add(
        Solid::cylinder(v(0.0, 1.35, 0.0), v(0.0, 1.0, 0.0), 1.35, 0.032),
        pole,
    );
    let disc = Solid::cylinder(v(0.0, 0.0, -0.05), v(0.0, 0.0, 1.0), 0.012, 0.33);
    b.add_at(disc, Paint::Sign(kind), v(0.0, 2.42, 0.0));
    b.contact((0.02, 0.02), 0.25, 0.4);
}

/// A litter bin.
pub(crate) fn bin(out: &mut Content, at: V) {
    let mut b = Builder::new(out, upright(at), false, Label::Pole);
    let y = v(0.0, 1.0, 0.0);
    b.add(
        Solid::cylinder(v(0.0, 0.45, 0.0), y, 0.45, 0.24),
        plain(52, 78, 62),
    );
    b.add(
        Solid::cylinder(v(0.0, 0.93, 0.0), y, 0.035, 0.27),
        plain(34, 36, 38),
    );
    b.contact((0.1, 0.1), 0.4, 0.6);
}

/// A bollard.
pub(crate) fn bollard(out: &mut Content, at: V) {
    let mut b = Builder::new(out, upright(at), false, Label::Pole);
    let y = v(0.0, 1.0, 0.0);
    b.add(
        Solid::cylinder(v(0.0, 0.48, 0.0), y, 0.48, 0.065),
        plain(58, 60, 64),
    );
    b.add(
        Solid::cylinder(v(0.0, 0.8, 0.0), y, 0.06, 0.069),
        plain(225, 225, 220),
    );
    b.add(
        Solid::ellipsoid(v(0.0, 0.97, 0.0), v(0.075, 0.06, 0.075)),
        plain(58, 60, 64),
    );
    b.contact((0.03, 0.03), 0.3, 0.55);
}

/// Somebody on foot; `stride` is the phase of the walk as (sine, cosine), zero for standing.
pub(crate) fn person(
    out: &mut Content,
    pose: Pose,
    stride: (f64, f64),
    moving: bool,
    rng: &mut Rng,
) {
    let mut b = Builder::new(out, pose, moving, Label::Pedestrian);
    let salt = rng.bits() as u32;
    let k = rng.range(0.93, 1.06);
    let coats = [
        rgb(150, 42, 40),
        rgb(44, 66, 110),
        rgb(196, 176, 128),
        rgb(52, 84, 60),
        rgb(60, 58, 66),
        rgb(210, 208, 200),
        rgb(196, 120, 40),
    ];
    let legs = [
        rgb(44, 50, 70),
        rgb(58, 54, 50),
        rgb(96, 88, 76),
        rgb(34, 34, 38),
    ];
    let (coat, trousers) = (rng.pick(&coats), rng.pick(&legs));
    let skin = rng.pick(&[rgb(214, 168, 140), rgb(176, 124, 92), rgb(120, 80, 58)]);
    let hair = rng.pick(&[
        rgb(60, 42, 30),
        rgb(30, 26, 24),
        rgb(140, 104, 62),
        rgb(120, 116, 112),
    ]);
    let cloth = |c: Light, s: u32| Paint::Cloth(c, salt ^ s);
    let (s, c) = stride;
    let hip = 0.9;
    for side in [-1.0, 1.0] {
        // Thigh, shank, shoe; the rear foot lifts a little.
        let swing = side * s * 0.36;
        let lift = (side * c).max(0.0) * 0.1;
        let x = side * 0.1;
        let knee = v(x, 0.48 + 0.3 * lift, swing * 0.5 + 0.5 * lift);
        let ankle = v(x, 0.09 + lift, swing);
        b.add(
            Solid::capsule(v(x * 0.9, hip, 0.0) * k, knee * k, 0.095),
            cloth(trousers, 1),
        );
        b.add(
            Solid::capsule(knee * k, ankle * k, 0.068),
            cloth(trousers, 2),
        );
        b.add(
            Solid::capsule(
                v(x, 0.05 + lift, swing - 0.04) * k,
                v(x, 0.045 + lift, swing + 0.15) * k,
                0.05,
            ),
            plain(38, 32, 30),
        );
        // Arms swing against the legs.
        let (shoulder, back) = (v(side * 0.21, 1.42, 0.0), -swing * 0.8);
        let elbow = v(side * 0.26, 1.14, back * 0.5 - 0.03);
        let hand = v(side * 0.25, 0.9, back + 0.06);
        b.add(
            Solid::capsule(shoulder * k, elbow * k, 0.06),
            cloth(coat, 3),
        );
        b.add(Solid::capsule(elbow * k, hand * k, 0.05), cloth(coat, 3));
        b.add(
            Solid::ellipsoid(hand * k, v(0.05, 0.07, 0.05)),
            Paint::Plain {
                colour: skin,
                gloss: 0.0,
            },
        );
    }
    let torso = Solid::cuboid(v(-0.23, 0.82, -0.14) * k, v(0.23, 1.5, 0.14) * k)
        .cut_both(v(0.2, 1.44, 0.0) * k, v(1.0, 1.3, 0.0))
        .cut_both(v(0.2, 0.95, 0.0) * k, v(1.0, 0.1, 0.0))
        .cut_both(v(0.2, 0.0, 0.11) * k, v(1.0, 0.0, 1.2))
        .cut_both(v(0.2, 0.0, -0.11) * k, v(1.0, 0.0, -1.2));
    b.add(torso, cloth(coat, 4));
    b.add(
        Solid::ellipsoid(v(0.0, 1.3, 0.0) * k, v(0.25, 0.27, 0.165) * k),
        cloth(coat, 4),
    );
    b.add(
        Solid::ellipsoid(v(0.0, 0.92, 0.0) * k, v(0.2, 0.17, 0.15) * k),
        cloth(trousers, 1),
    );
    let face = Paint::Plain {
        colour: skin,
        gloss: 0.0,
    };
    b.add(
        Solid::capsule(v(0.0, 1.45, 0.0) * k, v(0.0, 1.58, 0.01) * k, 0.055),
        face,
    );
    b.add(
        Solid::ellipsoid(v(0.0, 1.655, 0.015) * k, v(0.085, 0.115, 0.1) * k),
        face,
    );
    b.add(
        Solid::ellipsoid(v(0.0, 1.69, -0.015) * k, v(0.094, 0.1, 0.1) * k),
        cloth(hair, 5),
    );
    if rng.chance(0.45) {
        let pack = Solid::ellipsoid(v(0.0, 1.2, -0.2) * k, v(0.16, 0.23, 0.1));
        let tone = rng.pick(&coats) * 0.7;
        b.add(pack, cloth(tone, 6));
    }
    b.contact((0.08, 0.1), 0.3, 0.5);
}
