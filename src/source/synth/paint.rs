//! What surfaces look like close up: colour, gloss and small relief at a point of a solid.
use super::facade::Facade;
use super::mark::{ASPECT, MARKS};
use super::maths::{Light, V, band, grain, hash, noise2, noise3, ramp, rgb, split, unit, v};

/// A point of a surface, before light falls on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surface {
    pub colour: Light,
    /// How much of the surroundings it mirrors, 0 to 1.
    pub gloss: f32,
    /// Light of its own.
    pub glow: Light,
    /// Added to the normal before shading.
    pub relief: V,
}

/// Measures of a car that its paint needs; the car's origin is on the ground below its middle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub colour: Light,
    pub half_w: f64,
    pub half_l: f64,
    pub axles: (f64, f64),
    pub wheel: f64,
    pub waist: f64,
    pub roof: f64,
    /// Where the cabin's glass begins and ends at the waist, rear and front.
    pub glass: (f64, f64),
    /// Where a pillar divides the side windows.
    pub pillar: f64,
}

/// How a solid is painted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    /// One colour with grain.
    Plain {
        colour: Light,
        gloss: f32,
    },
    Car(Body),
    Cabin(Body),
    /// Body of a van or lorry.
    Panel(Light),
    Wheel(f64),
    House(Facade),
    Roof(Light),
    Brickwork(Light),
    Fence(Light),
    Leaves(Light, u32),
    Bark,
    Cloth(Light, u32),
    /// Mark number, height of the mark, colour of the vehicle.
    Mark(usize, f64, Light),
    /// A round traffic sign with a number.
    Sign(u32),
    Glow(Light),
}

/// Noise on whichever plane the surface lies in.
fn skin(p: V, n: V, px: f64, salt: u32) -> f32 {
    let (ax, ay, az) = (n.x.abs(), n.y.abs(), n.z.abs());
    if ax >= ay && ax >= az {
        grain(p.z, p.y, px, px, salt)
    } else if ay >= az {
        grain(p.x, p.z, px, px, salt)
    } else {
        grain(p.x, p.y, px, px, salt)
    }
}

impl Paint {
    /// The surface at `p` with normal `n`, both in the coordinates of the object; `px` is the
    /// size of a pixel there, m.
    pub fn surface(&self, p: V, n: V, px: f64) -> Surface {
        let plain = |colour| Surface {
            colour,
            ..Surface::default()
        };
        match *self {
            Paint::Plain { colour, gloss } => Surface {
                colour: colour * (1.0 + 0.35 * skin(p, n, px, 51)),
                gloss,
                ..Surface::default()
            },
            Paint::Car(body) => body.shell(p, n, px),
            Paint::Cabin(body) => body.cabin(p, n, px),
            Paint::Panel(colour) => {
                let dirt =
                    noise2(p.z * 0.8 + p.x, p.y * 1.5, 61) * (1.0 - ramp(p.y, 0.4, 1.8) as f32);
                let (_, rib) = split((p.z + p.x) / 1.2);
                let seam = band(f64::from(rib), 0.0, 0.02, px / 1.2);
                let c = colour * (1.0 - 0.35 * dirt - 0.3 * seam + 0.14 * skin(p, n, px, 62));
                Surface {
                    colour: c,
                    gloss: 0.3,
                    ..Surface::default()
                }
            }
            Paint::Wheel(radius) => wheel(p, n, radius, px),
            Paint::House(f) => {
                let front = n.x.abs() > 0.5;
                f.surface(if front { p.z } else { p.x }, p.y, px, front)
            }
            Paint::Roof(colour) => {
                let (row, f) = split(p.y / 0.16);
                let (col, _) = split(p.z / 0.24 + if row & 1 == 0 { 0.0 } else { 0.5 });
                let fade = 1.0 - ramp(px, 0.06, 0.2) as f32;
                let tone = (unit(hash(row, col, 63)) - 0.5) * 0.4 + (f - 0.5) * 0.3;
                plain(colour * (1.0 + tone * fade + 0.3 * skin(p, n, px, 64)))
            }
            Paint::Brickwork(colour) => {
                let run = p.x + p.z;
                let (row, f) = split(p.y / 0.13);
                let (col, h) = split(run / 0.34 + if row & 1 == 0 { 0.0 } else { 0.5 });
                let fade = 1.0 - ramp(px, 0.03, 0.13) as f32;
                let joint = band(f64::from(f), -1.0, 0.12, px / 0.13).max(band(
                    f64::from(h),
                    -1.0,
                    0.05,
                    px / 0.34,
                ));
                let tone = unit(hash(row, col, 65)) - 0.5;
                let c = colour * (1.0 + 0.4 * tone * fade + 0.45 * skin(p, n, px, 66));
                plain(c.mix(rgb(150, 146, 138), 0.5 * joint * fade))
            }
            Paint::Fence(colour) => {
                let (board, f) = split((p.x + p.z) / 0.14);
                let gap = band(f64::from(f), -1.0, 0.09, px / 0.14);
                let tone = unit(hash(board, 0, 67)) - 0.5;
                let wood = noise2((p.x + p.z) * 30.0, p.y * 2.0, 68) - 0.5;
                let fade = 1.0 - ramp(px, 0.02, 0.1) as f32;
                plain(
                    colour
                        * ((1.0 + 0.45 * tone + 0.3 * wood * fade + 0.3 * skin(p, n, px, 69))
                            * (1.0 - 0.75 * gap)),
                )
            }
            Paint::Leaves(colour, salt) => leaves(p, colour, salt, px),
            Paint::Bark => {
                let ridge = noise2((p.x + p.z) * 14.0, p.y * 2.2, 71);
                plain(rgb(96, 78, 62) * (0.45 + 0.8 * ridge + 0.5 * skin(p, n, px, 72)))
            }
            Paint::Cloth(colour, salt) => {
                let fold = noise3(v(p.x * 7.0, p.y * 3.0, p.z * 7.0), salt) - 0.5;
                plain(colour * (1.0 + 0.55 * fold + 0.35 * skin(p, n, px, salt)))
            }
            Paint::Mark(which, height, colour) => {
                // The plate's middle is the origin; seen from outside x (or z) runs either way.
                let across = if n.x.abs() > 0.5 {
                    n.x * p.z
                } else {
                    -n.z * p.x
                };
                let (mu, mv) = (across / height + ASPECT * 0.5, 0.5 - p.y / height);
                let c = MARKS[which].ink(mu, mv).unwrap_or(colour);
                Surface {
                    colour: c * (1.0 + 0.12 * skin(p, n, px, 62)),
                    gloss: 0.25,
                    ..Surface::default()
                }
            }
            Paint::Sign(kind) => plain(sign(p, n, kind) * (1.0 + 0.4 * skin(p, n, px, 74))),
            Paint::Glow(glow) => Surface {
                colour: glow * 0.5,
                glow,
                gloss: 0.4,
                ..Surface::default()
            },
        }
    }
}

fn leaves(p: V, colour: Light, salt: u32, px: f64) -> Surface {
    let fine = px.max(0.045) * 1.6;
    let at = |k: f64, s: u32| noise3(p * (1.0 / k), salt ^ s) - 0.5;
    let clump = at(0.55, 1);
    let leaf = at(fine, 2);
    let twig = at(fine * 2.6, 3);
    let c = colour * (1.0 + 0.55 * clump + 1.0 * leaf + 0.7 * twig).max(0.12);
    let warm = Light([1.0 + 0.25 * clump, 1.0, 1.0 - 0.2 * clump]);
    Surface {
        colour: c * warm,
        relief: v(f64::from(clump), f64::from(twig), f64::from(leaf)) * 1.5,
        ..Surface::default()
    }
}

fn wheel(p: V, n: V, radius: f64, px: f64) -> Surface {
    let r = ((p.y - radius) * (p.y - radius) + p.z * p.z).sqrt() / radius;
    let rubber = rgb(34, 34, 36) * (1.0 + 0.5 * skin(p, n, px, 73));
    let plain = |colour, gloss| Surface {
        colour,
        gloss,
        ..Surface::default()
    };
    if n.x.abs() < 0.5 || r > 0.66 {
        return plain(rubber, 0.0);
    }
    // Five spokes: near a spoke's line the product below is small.
    let (a, b) = ((p.y - radius) / radius, p.z / radius);
    let spoke = [
        (1.0, 0.0),
        (0.309, 0.951),
        (-0.809, 0.588),
        (-0.809, -0.588),
        (0.309, -0.951),
    ]
    .iter()
    .any(|&(c, s)| a * c + b * s > 0.0 && (a * s - b * c).abs() < 0.11);
    if spoke || !(0.18..=0.58).contains(&r) {
        plain(rgb(178, 180, 184), 0.4)
    } else {
        plain(rgb(30, 30, 32), 0.0)
    }
}

fn sign(p: V, n: V, kind: u32) -> Light {
    if n.z > 0.5 {
        return rgb(120, 122, 124);
    }
    let (x, y) = (p.x, p.y);
    let r = (x * x + y * y).sqrt() / 0.33;
    let red = rgb(214, 38, 42);
    match kind % 3 {
        0 => {
            // 30 in a red ring.
            if r > 0.78 {
                return if r > 0.96 { rgb(230, 230, 226) } else { red };
            }
            let (u, w) = (x / 0.33, y / 0.33);
            let three = (-0.48..-0.06).contains(&u)
                && w.abs() < 0.4
                && (w.abs() > 0.28 || u > -0.2 || (w.abs() < 0.06 && u > -0.38));
            let nought = (0.06..0.48).contains(&u)
                && w.abs() < 0.4
                && (w.abs() > 0.28 || !(0.19..0.35).contains(&u));
            if three || nought {
                rgb(20, 20, 20)
            } else {
                rgb(236, 236, 232)
            }
        }
        1 => {
            // No waiting: red ring and bar on blue.
            if r > 0.8 || (x + y).abs() < 0.05 {
                red
            } else {
                rgb(18, 48, 124)
            }
        }
        _ => {
            // Ahead only: white arrow on blue.
            let shaft = x.abs() < 0.045 && y > -0.2 && y < 0.05;
            let head = y > 0.02 && y < 0.22 && x.abs() < (0.22 - y) * 0.8;
            if shaft || head || (r > 0.93) {
                rgb(236, 236, 236)
            } else {
                rgb(18, 48, 124)
            }
        }
    }
}

impl Body {
    fn lacquer(&self, p: V, n: V, px: f64) -> Surface {
        let dirt = noise2(p.z * 1.1 + p.x, p.y * 2.0, 81) * (1.0 - ramp(p.y, 0.2, 0.9) as f32);
        let c = self.colour.mix(rgb(120, 112, 100), 0.25 * dirt) * (1.0 + 0.2 * skin(p, n, px, 82));
        Surface {
            colour: c,
            gloss: 0.8,
            ..Surface::default()
        }
    }

    fn shell(&self, p: V, n: V, px: f64) -> Surface {
        let mut s = self.lacquer(p, n, px);
        let dark = Surface {
            colour: rgb(30, 30, 32) * (1.0 + 0.4 * skin(p, n, px, 83)),
            gloss: 0.1,
            ..Surface::default()
        };
        let x = p.x.abs();
        // Panels bulge: the normal turns with height and length.
        let mid = (self.waist + 0.22) * 0.5;
        s.relief = v(0.0, (p.y - mid) * 0.9, 0.0) + v(p.x * 0.25, 0.0, p.z * 0.06);
        if n.x.abs() > 0.6 {
            for axle in [self.axles.0, self.axles.1] {
                let (dy, dz) = (p.y - self.wheel, p.z - axle);
                let r = (dy * dy + dz * dz).sqrt();
                if r < self.wheel * 1.17 {
                    return Surface {
                        colour: rgb(14, 14, 15),
                        ..Surface::default()
                    };
                }
            }
            if p.y < 0.31 {
                return dark;
            }
            let (rear, front) = self.glass;
            let mid = (rear + front) * 0.5;
            let seams = [front - 0.32, mid - 0.05, (rear + mid) * 0.5 - 0.5];
            for z in seams {
                let line = band(p.z, z - 0.01, z + 0.01, px.max(0.01));
                s.colour = s.colour * (1.0 - 0.75 * line);
            }
            for z in [mid + 0.1, seams[2] + 0.15] {
                if (p.z - z).abs() < 0.1 && (p.y - (self.waist - 0.14)).abs() < 0.02 {
                    return dark;
                }
            }
            let crease = band(p.y, self.waist - 0.27, self.waist - 0.24, px.max(0.01));
            s.colour = s.colour * (1.0 - 0.3 * crease);
            if p.z > self.half_l - 0.42 && (p.y - 0.66).abs() < 0.07 {
                return lamp(rgb(225, 228, 232), 0.15);
            }
            if p.z < -self.half_l + 0.3 && (p.y - (self.waist - 0.14)).abs() < 0.1 {
                return lamp(rgb(170, 20, 20), 0.25);
            }
            return s;
        }
        if n.y > 0.75 {
            // Bonnet and boot seams.
            let seam = band((x - self.half_w + 0.2).abs(), -1.0, 0.008, px.max(0.01));
            s.colour = s.colour * (1.0 - 0.6 * seam);
            return s;
        }
        let plate = x < 0.26;
        if n.z > 0.0 {
            if p.y < 0.36 || (x < 0.5 && (p.y - 0.5).abs() < 0.075) {
                if plate && (p.y - 0.44).abs() < 0.055 {
                    return number_plate(p, rgb(235, 235, 230));
                }
                return dark;
            }
            if x > self.half_w - 0.5 && (p.y - 0.66).abs() < 0.07 {
                return lamp(rgb(228, 232, 236), 0.2);
            }
        } else {
            if p.y < 0.38 {
                return dark;
            }
            if plate && (p.y - 0.56).abs() < 0.055 {
                return number_plate(p, rgb(235, 225, 170));
            }
            if x > self.half_w - 0.36 && (p.y - (self.waist - 0.14)).abs() < 0.1 {
                return lamp(rgb(176, 18, 18), 0.35);
            }
            let seam = band(p.y, 0.64, 0.66, px.max(0.01));
            s.colour = s.colour * (1.0 - 0.5 * seam);
        }
        s
    }

    fn cabin(&self, p: V, n: V, px: f64) -> Surface {
        let mut s = self.lacquer(p, n, px);
        s.relief = v(p.x * 0.35, 0.0, p.z * 0.12);
        if n.y > 0.8 {
            return s;
        }
        let (lo, hi) = (self.waist + 0.04, self.roof - 0.1);
        if p.y < lo || p.y > hi {
            return s;
        }
        let k = (p.y - self.waist) / (self.roof - self.waist);
        let inside = if n.z.abs() > 0.35 {
            p.x.abs() < self.half_w - 0.13 - 0.16 * k
        } else {
            let (rear, front) = self.glass;
            p.z > rear + 0.28 + 0.3 * k
                && p.z < front - 0.3 - 0.62 * k
                && (p.z - self.pillar).abs() > 0.055
        };
        if !inside {
            return s;
        }
        // Seats and far windows show faintly through the glass.
        let seats = noise2(p.x * 2.6 + p.z * 2.2, p.y * 3.5, 85);
        Surface {
            colour: rgb(30, 33, 36) * (0.5 + 1.1 * seats),
            gloss: 1.0,
            relief: v(p.x * 0.2, 0.12, p.z * 0.1),
            ..Surface::default()
        }
    }
}

fn lamp(colour: Light, glow: f32) -> Surface {
    Surface {
        colour,
        gloss: 0.6,
        glow: colour * glow,
        ..Surface::default()
    }
}

fn number_plate(p: V, ground: Light) -> Surface {
    let (n, f) = split(p.x / 0.062);
    let ink = unit(hash(n, 4, 99)) > 0.2
        && f > 0.25
        && (p.x.abs() < 0.22)
        && unit(hash(n, 5, 99)) > f * 0.4;
    Surface {
        colour: if ink { rgb(28, 28, 34) } else { ground },
        gloss: 0.1,
        ..Surface::default()
    }
}
