//! Carriageway, kerbs, pavements and gardens: where they are and how they look.
use super::labels::Label;
use super::maths::{Light, V, band, floor, grain, hash, noise2, ramp, rgb, split, unit, v};

/// The street repeats its crossing every so many metres.
pub(crate) const BLOCK: f64 = 96.0;
/// Where in a block the side street lies.
pub(crate) const CROSS: (f64, f64) = (22.0, 31.0);
/// Outer edge of the driving lanes, m from the middle.
pub(crate) const LANE: f64 = 3.2;
/// The kerb, m from the middle.
pub(crate) const KERB: f64 = 5.3;
/// Where gardens and house fronts begin.
pub(crate) const FRONT: f64 = 8.2;
/// Height of the pavement above the road.
pub(crate) const RISE: f64 = 0.08;

/// Which part of the ground a ray meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Face {
    Road,
    Raised,
    Kerb(V),
}

/// Place along the street within its block.
pub(crate) fn in_block(z: f64) -> f64 {
    z - BLOCK * floor(z / BLOCK)
}

fn crossing(z: f64) -> bool {
    let z = in_block(z);
    z > CROSS.0 && z < CROSS.1
}

fn raised(x: f64, z: f64) -> bool {
    x.abs() > KERB && !crossing(z)
}

/// Where the ray `o + t d` from above meets the ground.
pub(crate) fn hit(o: V, d: V) -> Option<(f64, Face)> {
    if d.y >= -1e-9 {
        return None;
    }
    let high = (RISE - o.y) / d.y;
    let low = -o.y / d.y;
    let (a, b) = (o + d * high, o + d * low);
    if high > 0.0 && raised(a.x, a.z) {
        return Some((high, Face::Raised));
    }
    if raised(b.x, b.z) {
        // Between the two heights the ray runs into a kerb: along the street or across it.
        if a.x.abs() <= KERB {
            let side = if b.x > 0.0 { 1.0 } else { -1.0 };
            let t = (side * KERB - o.x) / d.x;
            if !crossing(o.z + d.z * t) {
                return Some((t, Face::Kerb(v(-side, 0.0, 0.0))));
            }
        }
        let base = BLOCK * floor(a.z / BLOCK);
        let (edge, n) = if b.z > a.z {
            (CROSS.1, -1.0)
        } else {
            (CROSS.0, 1.0)
        };
        return Some(((base + edge - o.z) / d.z, Face::Kerb(v(0.0, 0.0, n))));
    }
    Some((low, Face::Road))
}

/// Colour and label of the ground at a point; a pixel there covers `fx` by `fz` metres.
pub(crate) fn paint(p: V, face: Face, fx: f64, fz: f64, salt: u32) -> (Light, Label) {
    match face {
        Face::Kerb(_) => {
            let c = 0.26 + 0.25 * grain(p.x + p.z, p.y, fx, fx, salt ^ 11);
            (Light([c, c, c * 0.97]), Label::Pavement)
        }
        Face::Raised => raised_paint(p, fx, fz, salt),
        Face::Road => road_paint(p, fx, fz, salt),
    }
}

fn raised_paint(p: V, fx: f64, fz: f64, salt: u32) -> (Light, Label) {
    let side = p.x.abs();
    let zb = in_block(p.z);
    let g = grain(p.x, p.z, fx, fz, salt ^ 12);
    let along = (zb > CROSS.0 - 2.0 && zb < CROSS.0) || (zb > CROSS.1 && zb < CROSS.1 + 2.0);
    let kerb = side < KERB + 0.16
        || (side > KERB
            && ((zb > CROSS.0 - 0.16 && zb < CROSS.0) || (zb > CROSS.1 && zb < CROSS.1 + 0.16)));
    if kerb {
        // Granite stones, 1 m each.
        let run = if side < KERB + 0.16 { p.z } else { p.x };
        let (stone, f) = split(run);
        let joint = band(f64::from(f), 0.0, 0.02, fz.max(0.01));
        let c = (0.30 + 0.08 * unit(hash(stone, 3, salt)) + 0.16 * g) * (1.0 - 0.6 * joint);
        return (Light([c, c * 0.99, c * 0.96]), Label::Pavement);
    }
    if side < FRONT || along {
        // Concrete slabs, half a metre wide, in bond.
        let row = split(p.z / 0.5);
        let shift = if row.0 & 1 == 0 { 0.0 } else { 0.25 };
        let col = split((p.x + shift) / 0.5);
        let joint = band(f64::from(row.1) * 0.5, -1.0, 0.022, fz.max(0.012)).max(band(
            f64::from(col.1) * 0.5,
            -1.0,
            0.018,
            fx.max(0.012),
        ));
        let joint = joint * (1.0 - ramp(fz, 0.12, 0.4) as f32);
        let slab = unit(hash(row.0, col.0, salt ^ 5));
        let stain = noise2(p.x * 0.7, p.z * 0.35, salt ^ 6);
        let c = (0.235 + 0.07 * slab + 0.08 * stain + 0.18 * g) * (1.0 - 0.55 * joint);
        return (Light([c * 1.02, c * 0.99, c * 0.93]), Label::Pavement);
    }
    let tuft = noise2(p.x * 1.3, p.z * 1.3, salt ^ 7);
    let blade = grain(p.x, p.z, fx, fz, salt ^ 8);
    let c = rgb(72, 96, 40).mix(rgb(122, 128, 62), tuft);
    (c * (0.75 + 1.1 * blade + 0.25), Label::Terrain)
}

fn road_paint(p: V, fx: f64, fz: f64, salt: u32) -> (Light, Label) {
    let (x, z) = (p.x, p.z);
    let side = x.abs();
    let zb = in_block(z);
    let g = grain(x, z, fx, fz, salt ^ 1);
    let stone = grain(x + 9.7, z + 3.1, fx * 4.0, fz * 4.0, salt ^ 2);
    let patchy = noise2(x * 0.45, z * 0.11, salt ^ 3) - 0.5;
    // Tyres polish two tracks in each lane; oil darkens the middle between them.
    let lane = (side - 1.6).abs();
    let track = 1.0 - ramp((lane - 0.75).abs(), 0.1, 0.45) as f32;
    let oil = 1.0 - ramp(lane, 0.0, 0.4) as f32;
    let mut c = 0.135 + 0.035 * patchy + 0.095 * g + 0.05 * stone + 0.016 * track - 0.012 * oil;
    let mut warm = 0.0;
    if side > LANE && side < KERB && !(zb > CROSS.0 && zb < CROSS.1) {
        c *= 0.9;
        // Gutter with sand and leaves.
        let gutter = ramp(side, KERB - 0.45, KERB) as f32;
        c += gutter * 0.05 * noise2(x * 4.0, z * 1.1, salt ^ 4);
        warm = 0.12 * gutter;
    }
    c = mended(x, z, c, fx, fz, salt);
    let c = Light([c * (1.0 + warm), c, c * (1.0 - warm) * 1.02]);
    // Paint, worn where tyres run.
    let wear = noise2(x * 3.0, z * 3.0, salt ^ 9) * 0.45 + g * 0.6;
    let cover = marking(x, z, zb, fx, fz) * (0.9 - wear.max(0.0) * 0.8);
    if cover > 0.0 {
        let white = Light([0.62, 0.62, 0.58]) * (1.0 + 0.35 * g);
        let label = if cover > 0.4 {
            Label::Marking
        } else {
            Label::Road
        };
        return (c.mix(white, cover), label);
    }
    if let Some(iron) = manhole(x, z, fz, salt) {
        return (
            Light([iron, iron * 0.97, iron * 0.93]) * (1.0 + g),
            Label::Road,
        );
    }
    (c, Label::Road)
}

/// Repair patches and cracks filled with tar.
fn mended(x: f64, z: f64, mut c: f32, fx: f64, fz: f64, salt: u32) -> f32 {
    let (cell, f) = split(z / 11.0);
    let h = hash(cell, i32::from(x > 0.0), salt ^ 21);
    if h.is_multiple_of(3) {
        let x0 = f64::from(unit(h ^ 0x55)) * 2.0 - 0.2;
        let (w, l) = (
            1.0 + f64::from(h >> 28) * 0.1,
            0.12 + f64::from(unit(h ^ 0x99)) * 0.3,
        );
        let f = f64::from(f);
        let inside = band(x.abs(), x0, x0 + w, fx) * band(f, 0.2, 0.2 + l, fz / 11.0);
        let seam = inside
            - band(x.abs(), x0 + 0.05, x0 + w - 0.05, fx)
                * band(f, 0.2 + 0.004, 0.2 + l - 0.004, fz / 11.0);
        c = c * (1.0 - 0.28 * inside) - 0.05 * seam.max(0.0) * c / 0.12;
    }
    // A crack is where slow noise passes one half.
    let n = noise2(
        x * 0.9 + 0.3 * f64::from(noise2(x * 3.0, z * 3.0, salt ^ 23)),
        z * 0.28,
        salt ^ 22,
    ) - 0.5;
    let width = 0.011;
    let fade = 1.0 - ramp(fz, 0.05, 0.35) as f32;
    if n.abs() < width && noise2(x * 0.3, z * 0.12, salt ^ 24) > 0.52 {
        c *= 1.0 - 0.55 * fade * (1.0 - n.abs() / width);
    }
    c
}

/// Cover of road paint at a point, 0 to 1.
fn marking(x: f64, z: f64, zb: f64, fx: f64, fz: f64) -> f32 {
    let side = x.abs();
    let (a, b) = CROSS;
    if zb > a - 4.2 && zb < b + 0.5 {
        if side > KERB + 3.6 {
            return 0.0;
        }
        // Zebra: bars along the street, 0.5 m each.
        let zebra = band(zb, a - 3.8, a - 0.8, fz);
        if zebra > 0.0 && side < KERB - 0.2 {
            let (_, f) = split((x + 20.25) / 1.0);
            return zebra * band(f64::from(f), 0.0, 0.5, fx);
        }
        // Give-way bar of the side street.
        if side > KERB + 0.3 && zb > a && zb < b {
            let mid = (a + b) * 0.5;
            let own = if x > 0.0 { zb > mid } else { zb < mid };
            let (_, f) = split(zb / 0.75);
            let bar = if own {
                band(f64::from(f), 0.0, 0.66, fz)
            } else {
                0.0
            };
            return bar * band(side, KERB + 0.4, KERB + 0.8, fx);
        }
        return 0.0;
    }
    // Stop line ahead of the zebra, in each direction's own lane.
    let line = if x > 0.0 {
        band(zb, a - 5.6, a - 5.1, fz)
    } else {
        band(zb, b + 1.6, b + 2.1, fz)
    };
    let stop = line * band(side, 0.15, LANE - 0.05, fx);
    let near = zb < a && zb > a - 14.0 || zb > b && zb < b + 10.0;
    let (_, f) = split(z / 6.0);
    let dash = if near {
        1.0
    } else {
        band(f64::from(f), 0.25, 0.75, fz / 6.0)
    };
    let middle = dash * band(side, -1.0, 0.07, fx);
    // Edge of the parking strip, with a T at each bay.
    let (_, bay) = split(z / 6.0);
    let tee = band(f64::from(bay), 0.0, 0.1 / 6.0, fz / 6.0) * band(side, LANE, LANE + 0.9, fx);
    let edge = band(side, LANE - 0.06, LANE + 0.06, fx) * if near { 1.0 } else { 0.92 };
    stop.max(middle).max(edge).max(tee)
}

/// Shade of a manhole cover, if there is one here.
fn manhole(x: f64, z: f64, fz: f64, salt: u32) -> Option<f32> {
    let (cell, f) = split(z / 17.0);
    let h = hash(cell, 7, salt ^ 31);
    let cx = f64::from(unit(h)) * 4.6 - 2.3;
    let cz = 2.0 + f64::from(unit(h ^ 0x1234_5678)) * 12.0;
    let (dx, dz) = (x - cx, f64::from(f) * 17.0 - cz);
    let r = (dx * dx + dz * dz).sqrt();
    if r > 0.36 {
        return None;
    }
    if r > 0.31 {
        return Some(0.05);
    }
    let (_, a) = split(dx / 0.09);
    let (_, b) = split(dz / 0.09);
    let stud = (a - 0.5).abs() < 0.28 && (b - 0.5).abs() < 0.28;
    let detail = 1.0 - ramp(fz, 0.03, 0.15) as f32;
    Some(0.10 + if stud { 0.06 } else { -0.03 } * detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rays_meet_road_kerb_and_pavement() {
        let o = v(0.0, 1.5, 50.0);
        let to = |p: V| hit(o, p - o).map(|(t, f)| (o + (p - o) * t, f));
        let (p, f) = to(v(1.0, 0.0, 55.0)).unwrap();
        assert_eq!(f, Face::Road);
        assert!(p.y.abs() < 1e-12);
        let (p, f) = to(v(7.0, RISE, 55.0)).unwrap();
        assert_eq!(f, Face::Raised);
        assert!((p.y - RISE).abs() < 1e-12);
        let (p, f) = to(v(KERB, 0.04, 55.0)).unwrap();
        assert_eq!(f, Face::Kerb(v(-1.0, 0.0, 0.0)));
        assert!((p.x - KERB).abs() < 1e-9);
        // The far kerb of the side street, 31 m into block 0.
        let o = v(0.0, 1.5, 10.0);
        let d = v(7.0, 0.04, 31.0) - o;
        let (t, f) = hit(o, d).unwrap();
        assert_eq!(f, Face::Kerb(v(0.0, 0.0, -1.0)));
        assert!((t - 1.0).abs() < 1e-9);
        assert_eq!(hit(o, v(0.0, 0.0, 1.0)), None);
    }
}
