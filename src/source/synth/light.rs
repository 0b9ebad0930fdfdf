//! Sun, sky, haze and what they make of a surface.
use super::ground;
use super::labels::Label;
use super::maths::{Light, Rng, V, grain, mix32, noise2, ramp, rgb, v};
use super::paint::Surface;
use super::scene::{Hit, Scene, View, What};

/// The weather of a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sky {
    /// Towards the sun, unit length.
    pub sun: V,
    cover: f32,
    salt: u32,
}

const SUN: Light = Light([2.15, 1.88, 1.48]);
const AMBIENT: Light = Light([0.46, 0.56, 0.72]);
const HAZE: Light = Light([0.68, 0.78, 0.90]);

impl Sky {
    /// By seed: a sun behind the own vehicle's left shoulder or so, and some clouds.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0, 100);
        let sun = v(
            -rng.range(0.42, 0.7),
            rng.range(0.85, 1.1),
            -rng.range(0.35, 0.65),
        )
        .unit();
        Self {
            sun,
            cover: rng.range(0.44, 0.53) as f32,
            salt: rng.bits() as u32,
        }
    }

    /// The sky in a direction (need not be of unit length); a pixel there spans `px` radians.
    pub fn colour(&self, d: V, px: f64) -> Light {
        let length = d.length();
        let up = d.y / length;
        let k = ramp(up, -0.02, 0.55) as f32;
        let blue = (rgb(204, 222, 240).mix(rgb(72, 126, 206), k)) * 1.25;
        let lift = up + 0.09;
        if lift < 0.03 {
            return blue;
        }
        // A layer of cloud, curved down towards the horizon.
        let (x, z) = (d.x / length / lift * 1.1, d.z / length / lift * 0.9);
        let at = |k: f64, s: u32| noise2(x * k, z * k, self.salt ^ mix32(s));
        let base = 0.5 * at(1.3, 1) + 0.26 * at(2.9, 2);
        let n = base + 0.14 * at(6.1, 3) + 0.07 * at(13.0, 4) + 0.05 * at(27.0, 5);
        // Wisps as fine as the picture shows.
        let (fx, fz) = (1.1 * px / lift, 0.9 * px / (lift * lift));
        let wisp = grain(x, z, fx, fz, self.salt ^ 6)
            + 1.3 * grain(x, z, 3.0 * fx, 3.0 * fz, self.salt ^ 7)
            + 1.3 * grain(x, z, 9.0 * fx, 9.0 * fz, self.salt ^ 8);
        let cover = f64::from(self.cover);
        let cloud = ramp(f64::from(n + 0.05 * wisp), cover, cover + 0.2) as f32;
        // Thick parts are greyer underneath.
        let thick = ramp(f64::from(base), cover - 0.1, 0.72) as f32;
        let white = (rgb(252, 250, 246).mix(rgb(190, 198, 210), 0.7 * thick)) * 1.5;
        let shown = cloud * (0.55 + 0.4 * ramp(up, 0.0, 0.15) as f32);
        blue.mix(white, shown) * (1.0 + (0.07 + 0.09 * shown) * wisp)
    }

    /// What a mirror sees in a direction: sky, or street.
    fn surroundings(&self, d: V) -> Light {
        let up = d.y;
        let horizon = rgb(150, 140, 126) * 0.55;
        let sky = rgb(210, 222, 236).mix(rgb(100, 146, 204), ramp(up, 0.1, 0.9) as f32);
        let road = rgb(96, 94, 92) * 0.7;
        let houses = 0.12 + 0.3 * f64::from(noise2(d.x * 5.0, d.z * 5.0, 7));
        let k = ramp(up, houses, houses + 0.06) as f32;
        let low = ramp(up, -0.06, 0.0) as f32;
        road.mix(horizon, low).mix(sky, k)
    }

    /// Light from a hit towards the camera, and what is seen.
    pub fn shade(&self, scene: &Scene, view: &View, d: V, hit: Hit) -> (Light, Label) {
        let length = d.length();
        let p = view.at + d * hit.depth;
        let px = hit.depth / view.focal;
        let (surface, n, label) = match hit.what {
            What::Sky => return (self.colour(d, 1.0 / view.focal), Label::Sky),
            What::Ground(face) => {
                let n = match face {
                    ground::Face::Kerb(n) => n,
                    _ => v(0.0, 1.0, 0.0),
                };
                let fz = px * (length / -d.y).min(60.0);
                let (colour, label) = ground::paint(p, face, px, fz, self.salt);
                let surface = Surface {
                    colour,
                    ..Surface::default()
                };
                (surface, n, label)
            }
            What::Part(i, face) => {
                let part = &scene.content.parts[i];
                let q = part.pose.inside(p);
                let n = part.solid.normal(q, face);
                let surface = part.paint.surface(q, n, px);
                let bent = (n + surface.relief).unit();
                (surface, part.pose.turn_out(bent), part.label)
            }
        };
        // The geometric normal lifts the shadow ray off its own surface.
        let flat = match hit.what {
            What::Part(i, face) => {
                let part = &scene.content.parts[i];
                part.pose
                    .turn_out(part.solid.normal(part.pose.inside(p), face))
            }
            _ => n,
        };
        let facing = n.dot(self.sun).max(0.0) as f32;
        let lit = facing > 0.0 && flat.dot(self.sun) > 0.0 && scene.sunlit(p + flat * 0.004);
        let open = if p.y < 0.4 {
            let ground_open = scene.openness(p);
            ground_open + (1.0 - ground_open) * (p.y / 0.4).clamp(0.0, 1.0) as f32
        } else {
            1.0
        };
        let low = match hit.what {
            What::Part(..) => 0.72 + 0.28 * ramp(p.y, 0.0, 1.2) as f32,
            _ => 1.0,
        };
        let up = n.y as f32;
        let sky = AMBIENT * ((0.62 + 0.38 * up) * open * low);
        let bounce = Light([0.20, 0.185, 0.16]) * ((0.5 - 0.5 * up) * open);
        let mut light = sky + bounce;
        if lit {
            light = light + SUN * (facing * (0.4 + 0.6 * open));
        }
        let mut c = surface.colour * light + surface.glow;
        if surface.gloss > 0.0 {
            let e = d * (1.0 / length);
            let cos = (-e.dot(n)).max(0.0);
            let r = e + n * (2.0 * cos);
            let m = (1.0 - cos) as f32;
            let fresnel = surface.gloss * (0.08 + 0.8 * m * m * m * m * m);
            c = c * (1.0 - fresnel) + self.surroundings(r) * fresnel;
            if lit {
                // (s^8)^8: a highlight a few degrees wide.
                let mut s = r.dot(self.sun).max(0.0) as f32;
                for _ in 0..6 {
                    s *= s;
                }
                c = c + SUN * (s * surface.gloss * 1.6);
            }
        }
        let far = (hit.depth * length) as f32;
        let k = far / (far + 820.0);
        (c.mix(HAZE, k), label)
    }
}
