//! Invented marks on vans and lorries: where ink is.
use super::maths::{Light, rgb};
use crate::frame::{Image, Rgb};

/// A mark: a figure and a word, on a ground of its own or on the vehicle's paint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub name: &'static str,
    word: &'static str,
    ink: [u8; 3],
    accent: [u8; 3],
    ground: Option<[u8; 3]>,
    figure: Figure,
}

#[derive(Clone, Copy, Debug)]
enum Figure {
    /// A sun over two waves.
    Waves,
    /// A leaning tower of three bricks in a ring.
    Bricks,
    /// A fox's head of triangles.
    Fox,
}

/// The marks that vehicles of the street carry. Invented; no such companies are known.
pub(crate) const MARKS: [Mark; 3] = [
    Mark {
        name: "zemblo",
        word: "ZEMBLO",
        ink: [18, 52, 120],
        accent: [240, 140, 20],
        ground: None,
        figure: Figure::Waves,
    },
    Mark {
        name: "kestoval",
        word: "KESTOVAL",
        ink: [250, 250, 245],
        accent: [250, 205, 40],
        ground: Some([20, 110, 70]),
        figure: Figure::Bricks,
    },
    Mark {
        name: "faruni",
        word: "FARUNI",
        ink: [150, 24, 36],
        accent: [225, 95, 30],
        ground: Some([245, 240, 225]),
        figure: Figure::Fox,
    },
];

/// Width of a mark divided by its height.
pub(crate) const ASPECT: f64 = 2.5;

impl Mark {
    /// Ink at (`u`, `v`), both in units of the mark's height: u from 0 (left) to [`ASPECT`],
    /// v from 0 (top) to 1. `None` where the vehicle's paint shows.
    pub fn ink(&self, u: f64, v: f64) -> Option<Light> {
        let c = |[r, g, b]: [u8; 3]| rgb(r, g, b);
        let ground = self.ground.map(c);
        let (x, y) = (u - 0.5, v - 0.5);
        let figure = match self.figure {
            Figure::Waves => waves(x, y),
            Figure::Bricks => bricks(x, y),
            Figure::Fox => fox(x, y),
        };
        match figure {
            1 => return Some(c(self.ink)),
            2 => return Some(c(self.accent)),
            _ => {}
        }
        // The word, right of the figure, and a rule under it.
        let room = ASPECT - 1.05 - 0.08;
        let n = self.word.len() as f64;
        let step = room / n;
        let (wu, wv) = ((u - 1.05) / step, (v - 0.28) / 0.4);
        if wu >= 0.0 && wu < n && (0.0..1.0).contains(&wv) {
            let letter = self.word.as_bytes()[wu as usize];
            let (col, row) = (
                ((wu - wu as usize as f64) * 6.0) as usize,
                (wv * 7.0) as usize,
            );
            if col < 5 && glyph(letter)[row] >> (4 - col) & 1 == 1 {
                return Some(c(self.ink));
            }
        }
        if (1.05..ASPECT - 0.15).contains(&u) && (0.76..0.83).contains(&v) {
            return Some(c(self.accent));
        }
        ground
    }
}

impl Mark {
    /// The mark as a picture of this height, and how opaque it is (255: wholly).
    pub fn picture(&self, height: usize) -> (Rgb, Image<u8>) {
        const FINE: usize = 4;
        let width = (height as f64 * ASPECT + 0.5) as usize;
        let mut alpha = Image::new(width, height);
        let colour = Image::from_fn(width, height, |x, y| {
            let (mut sum, mut n) = ([0.0f32; 3], 0u16);
            for k in 0..FINE * FINE {
                let at = |p: usize, k: usize| p as f64 + (k as f64 + 0.5) / FINE as f64;
                let u = at(x, k % FINE) * ASPECT / width as f64;
                let v = at(y, k / FINE) / height as f64;
                if let Some(Light(ink)) = self.ink(u, v) {
                    n += 1;
                    for (sum, ink) in sum.iter_mut().zip(ink) {
                        *sum += ink;
                    }
                }
            }
            alpha.set(x, y, (255 * n / (FINE * FINE) as u16) as u8);
            // Display values: gamma 2.
            sum.map(|v| ((v / f32::from(n.max(1))).sqrt() * 255.0 + 0.5) as u8)
        });
        (colour, alpha)
    }
}

fn waves(x: f64, y: f64) -> u8 {
    let r2 = x * x + y * y;
    if r2 > 0.44 * 0.44 {
        return 0;
    }
    // Parabolic arcs stand for waves.
    let wave = |shift: f64| {
        let t = (x + shift + 2.0) * 2.2;
        let f = t - (t as i64) as f64;
        4.0 * f * (1.0 - f) * 0.07
    };
    let a = y - 0.06 + wave(0.0);
    let b = y - 0.24 + wave(0.23);
    if (0.0..0.09).contains(&a) || b > 0.0 {
        return 1;
    }
    let s2 = x * x + (y + 0.08) * (y + 0.08);
    if a < 0.0 && s2 < 0.24 * 0.24 { 2 } else { 0 }
}

fn bricks(x: f64, y: f64) -> u8 {
    let r = (x * x + y * y).sqrt();
    if (0.37..0.45).contains(&r) {
        return 1;
    }
    for (cx, cy) in [(-0.08, 0.16), (0.0, 0.0), (0.08, -0.16)] {
        if (x - cx).abs() < 0.17 && (y - cy).abs() < 0.065 {
            return 2;
        }
    }
    0
}

fn fox(x: f64, y: f64) -> u8 {
    let a = x.abs();
    // Ears, face, muzzle: half-planes.
    let ear = y > -0.42 && y < -0.05 && a > 0.08 && a < 0.36 && (y + 0.42) > (a - 0.3).abs() * 1.4;
    let face = y > -0.16 && y < 0.40 && a * 1.25 + (y + 0.16) * 0.62 < 0.46;
    if !(ear || face) {
        return 0;
    }
    let eye = (a - 0.15) * (a - 0.15) + (y - 0.0) * (y - 0.0) < 0.035 * 0.035;
    let nose = y > 0.3;
    if eye || nose || (ear && y < -0.28) {
        1
    } else {
        2
    }
}

fn glyph(letter: u8) -> [u8; 7] {
    match letter {
        b'A' => [0x0E, 0x11, 0x11, 0x1F, 0x11, 0x11, 0x11],
        b'B' => [0x1E, 0x11, 0x11, 0x1E, 0x11, 0x11, 0x1E],
        b'E' => [0x1F, 0x10, 0x10, 0x1E, 0x10, 0x10, 0x1F],
        b'F' => [0x1F, 0x10, 0x10, 0x1E, 0x10, 0x10, 0x10],
        b'I' => [0x0E, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0E],
        b'K' => [0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11],
        b'L' => [0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1F],
        b'M' => [0x11, 0x1B, 0x15, 0x15, 0x11, 0x11, 0x11],
        b'N' => [0x11, 0x19, 0x15, 0x13, 0x11, 0x11, 0x11],
        b'O' => [0x0E, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0E],
        b'R' => [0x1E, 0x11, 0x11, 0x1E, 0x14, 0x12, 0x11],
        b'S' => [0x0F, 0x10, 0x10, 0x0E, 0x01, 0x01, 0x1E],
        b'T' => [0x1F, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04],
        b'U' => [0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0E],
        b'V' => [0x11, 0x11, 0x11, 0x11, 0x11, 0x0A, 0x04],
        b'Z' => [0x1F, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1F],
        _ => [0; 7],
    }
}
