//! Marks laid into street frames, with exact truth.
use super::marks::{MARKS, Mark};
use crate::frame::{Image, Size};

/// Height of the pictures that are laid into frames, px.
const MASTER_HEIGHT: usize = 320;

/// Around a mark without ground of its own its paint reaches this far, in its heights.
const PAINT_MARGIN: f64 = 0.3;

/// Samples a pixel each way.
const FINE: usize = 3;

/// Positions that make up motion blur.
const SMEAR: usize = 9;

/// Numbers that depend on their place in the sequence alone (SplitMix64, Steele et al. 2014).
#[derive(Clone, Copy, Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Evenly between two numbers.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.bits() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (((self.bits() >> 32) * n as u64) >> 32) as usize
    }
}

/// How a mark lies in a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placing {
    /// Which of [`MARKS`].
    pub mark: usize,
    /// Corners in px: upper left, upper right, lower right, lower left of the mark.
    pub quad: [[f64; 2]; 4],
    /// Mean length of its upright sides, px.
    pub height: f64,
    /// Turn in the image plane, degrees, clockwise.
    pub turn_deg: f64,
    /// What its greys are multiplied with.
    pub gain: f64,
    /// Motion blur: from first to last position, px.
    pub smear: [f64; 2],
}

impl Placing {
    /// By chance: a height of `low` to `high` px, turned by up to 45 degrees, seen from up to 40
    /// degrees left or right and 20 above or below, gain 0.6 to 1.1, smeared by up to 5 px. What
    /// would not fit into the frame is made smaller.
    pub fn by_chance(
        chance: &mut Chance,
        mark: usize,
        (low, high): (f64, f64),
        size: Size,
    ) -> Self {
        let turn_deg = chance.between(-45.0, 45.0);
        let radians = |deg: f64| deg * (std::f64::consts::PI / 180.0);
        let turn = radians(turn_deg);
        let yaw = radians(chance.between(-40.0, 40.0));
        let pitch = radians(chance.between(-20.0, 20.0));
        let height = chance.between(low, high);
        let gain = chance.between(0.6, 1.1);
        let smear = chance.between(0.0, 5.0);
        let towards = chance.between(0.0, std::f64::consts::TAU);
        let aspect = MARKS[mark].aspect;
        let away = 3.0 * (aspect * aspect + 1.0).sqrt();
        let (sin, cos) = (libm::sin, libm::cos);
        let a = 0.5 * aspect;
        let seen = [(-a, -0.5), (a, -0.5), (a, 0.5), (-a, 0.5)].map(|(x, y)| {
            // Out of its plane first, then turned in the image.
            let (x, z) = (x * cos(yaw), x * sin(yaw));
            let (y, z) = (
                y * cos(pitch) - z * sin(pitch),
                y * sin(pitch) + z * cos(pitch),
            );
            let w = away / (away + z);
            let (x, y) = (x * w, y * w);
            [x * cos(turn) - y * sin(turn), x * sin(turn) + y * cos(turn)]
        });
        let side = |p: [f64; 2], q: [f64; 2]| {
            ((p[0] - q[0]) * (p[0] - q[0]) + (p[1] - q[1]) * (p[1] - q[1])).sqrt()
        };
        let mean = 0.5 * (side(seen[0], seen[3]) + side(seen[1], seen[2]));
        let least = |c: usize| seen.iter().map(|p| p[c]).fold(f64::INFINITY, f64::min);
        let most = |c: usize| seen.iter().map(|p| p[c]).fold(f64::NEG_INFINITY, f64::max);
        let (w, h) = (size.width as f64 - 24.0, size.height as f64 - 24.0);
        let fits = (w / (most(0) - least(0))).min(h / (most(1) - least(1)));
        let scale = (height / mean).min(fits);
        let room =
            |low: f64, high: f64, total: f64| (12.0 - low * scale, total - 12.0 - high * scale);
        let (x0, x1) = room(least(0), most(0), size.width as f64);
        let (y0, y1) = room(least(1), most(1), size.height as f64);
        let (x, y) = (chance.between(x0, x1), chance.between(y0, y1));
        Self {
            mark,
            quad: seen.map(|p| [p[0] * scale + x, p[1] * scale + y]),
            height: mean * scale,
            turn_deg,
            gain,
            smear: [smear * cos(towards), smear * sin(towards)],
        }
    }
}

/// A mark's picture, large, with its paint around.
#[derive(Clone, Debug)]
pub struct Master {
    aspect: f64,
    /// Around the mark on each side, in heights.
    margin: f64,
    grey: Image<u8>,
}

impl Master {
    /// The picture of a mark.
    pub fn new(mark: &Mark) -> Self {
        let (grey, _) = mark.picture(MASTER_HEIGHT);
        Self {
            aspect: grey.width() as f64 / grey.height() as f64,
            margin: if mark.ground.is_none() {
                PAINT_MARGIN
            } else {
                0.0
            },
            grey,
        }
    }

    /// Grey at a point of the unit square that the mark fills; paint around it.
    fn at(&self, u: f64, v: f64) -> Option<f64> {
        let (mx, my) = (self.margin / self.aspect, self.margin);
        if !(u >= -mx && u <= 1.0 + mx && v >= -my && v <= 1.0 + my) {
            return None;
        }
        let Size { width, height } = self.grey.size();
        let x = (u * width as f64 - 0.5).clamp(0.0, (width - 1) as f64);
        let y = (v * height as f64 - 0.5).clamp(0.0, (height - 1) as f64);
        let (i, j) = (x as usize, y as usize);
        let (k, l) = ((i + 1).min(width - 1), (j + 1).min(height - 1));
        let (fx, fy) = (x - i as f64, y - j as f64);
        let g = |x: usize, y: usize| f64::from(self.grey.get(x, y));
        let top = g(i, j) + fx * (g(k, j) - g(i, j));
        let low = g(i, l) + fx * (g(k, l) - g(i, l));
        Some(top + fy * (low - top))
    }
}

/// Lays a mark into a frame.
pub fn lay(frame: &mut Image<u8>, master: &Master, placing: &Placing) {
    let Some(back) = back(&placing.quad) else {
        return;
    };
    let Size { width, height } = frame.size();
    // The paint around, and the smear.
    let around = master.margin * 2.0 * placing.height + 8.0;
    let low = |c: usize| {
        placing
            .quad
            .iter()
            .map(|p| p[c])
            .fold(f64::INFINITY, f64::min)
            - around
    };
    let high = |c: usize| placing.quad.iter().map(|p| p[c]).fold(0.0, f64::max) + around;
    let clip = |v: f64, most: usize| v.max(0.0).min(most as f64) as usize;
    let (x0, x1) = (clip(low(0), width), clip(high(0), width));
    let (y0, y1) = (clip(low(1), height), clip(high(1), height));
    let (w, h) = (x1 - x0, y1 - y0);
    // Grey times how much of the pixel is covered, and that share; sharp.
    let mut layer = vec![[0.0f32; 2]; w * h];
    let n = (FINE * FINE) as f64;
    for y in 0..h {
        for x in 0..w {
            let (mut grey, mut cover) = (0.0, 0.0);
            for k in 0..FINE * FINE {
                let part = |i: usize| (i as f64 + 0.5) / FINE as f64 - 0.5;
                let px = (x0 + x) as f64 + part(k % FINE);
                let py = (y0 + y) as f64 + part(k / FINE);
                let q = 1.0 / (back[6] * px + back[7] * py + back[8]);
                let u = (back[0] * px + back[1] * py + back[2]) * q;
                let v = (back[3] * px + back[4] * py + back[5]) * q;
                if q > 0.0
                    && let Some(g) = master.at(u, v)
                {
                    grey += g;
                    cover += 1.0;
                }
            }
            layer[y * w + x] = [(grey / n) as f32, (cover / n) as f32];
        }
    }
    let read = |x: f64, y: f64| -> [f32; 2] {
        let (i, j) = (libm::floor(x), libm::floor(y));
        let (fx, fy) = ((x - i) as f32, (y - j) as f32);
        let at = |i: f64, j: f64| {
            if i >= 0.0 && j >= 0.0 && i < w as f64 && j < h as f64 {
                layer[j as usize * w + i as usize]
            } else {
                [0.0; 2]
            }
        };
        let (a, b, c, d) = (
            at(i, j),
            at(i + 1.0, j),
            at(i, j + 1.0),
            at(i + 1.0, j + 1.0),
        );
        std::array::from_fn(|k| {
            let top = a[k] + fx * (b[k] - a[k]);
            let low = c[k] + fx * (d[k] - c[k]);
            top + fy * (low - top)
        })
    };
    for y in 0..h {
        let row = &mut frame.row_mut(y0 + y)[x0..x1];
        for (x, to) in row.iter_mut().enumerate() {
            let mut sum = [0.0f32; 2];
            for k in 0..SMEAR {
                let t = k as f64 / (SMEAR - 1) as f64 - 0.5;
                let v = read(
                    x as f64 + t * placing.smear[0],
                    y as f64 + t * placing.smear[1],
                );
                sum = [sum[0] + v[0], sum[1] + v[1]];
            }
            let [grey, cover] = sum.map(|v| v / SMEAR as f32);
            let v = f32::from(*to) * (1.0 - cover) + grey * placing.gain as f32;
            *to = (v + 0.5).clamp(0.0, 255.0) as u8;
        }
    }
}

/// Adds noise of about normal distribution and this standard deviation, in grey levels.
pub fn add_noise(frame: &mut Image<u8>, chance: &mut Chance, deviation: f64) {
    for row in frame.rows_mut() {
        for v in row {
            let bits = chance.bits();
            // Four numbers of 16 bits: mean 2 * 65535, variance 4 / 12 * 65536^2.
            let sum: u64 = (0..4).map(|k| bits >> (16 * k) & 0xFFFF).sum();
            let normal = (sum as f64 - 131_070.0) / 37_837.0;
            *v = (f64::from(*v) + deviation * normal + 0.5).clamp(0.0, 255.0) as u8;
        }
    }
}

/// From the image to the unit square.
fn back(quad: &[[f64; 2]; 4]) -> Option<[f64; 9]> {
    use crate::maths::homography::{Homography, Pair};
    let unit = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]];
    let mut pairs = [Pair::default(); 4];
    for ((pair, from), to) in pairs.iter_mut().zip(unit).zip(quad) {
        *pair = Pair {
            from,
            to: to.map(|v| v as f32),
        };
    }
    Some(Homography::through(&pairs, 0.0)?.inverse()?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lies_where_it_is_said_to() {
        let mut chance = Chance(5);
        let size = Size::new(640, 480);
        for (mark, drawn) in MARKS.iter().enumerate() {
            let placing = Placing::by_chance(&mut chance, mark, (50.0, 240.0), size);
            for [x, y] in placing.quad {
                assert!(x > 8.0 && x < 632.0 && y > 8.0 && y < 472.0);
            }
            let mut frame = Image::filled(640, 480, 128);
            lay(&mut frame, &Master::new(drawn), &placing);
            // What changed surrounds the quad and little more.
            let changed = frame.pixels().filter(|v| **v != 128).count() as f64;
            let area = 0.5
                * (0..4)
                    .map(|i| {
                        let ([x0, y0], [x1, y1]) = (placing.quad[i], placing.quad[(i + 1) % 4]);
                        x0 * y1 - x1 * y0
                    })
                    .sum::<f64>();
            assert!(changed > 0.9 * area, "{changed} {area}");
            if drawn.ground.is_some() {
                let rim = 2.0 * (placing.height * drawn.aspect + placing.height) * 6.0;
                assert!(changed < area + rim, "{changed} {area}");
            }
        }
    }

    #[test]
    fn noise_has_the_deviation_asked_for() {
        let mut frame = Image::filled(256, 256, 128);
        add_noise(&mut frame, &mut Chance(1), 3.0);
        let n = 65_536.0;
        let mean = frame.pixels().map(|v| f64::from(*v)).sum::<f64>() / n;
        let squares = frame
            .pixels()
            .map(|v| (f64::from(*v) - mean).powi(2))
            .sum::<f64>()
            / n;
        assert!((mean - 128.0).abs() < 0.1, "{mean}");
        assert!((squares.sqrt() - 3.0).abs() < 0.1, "{}", squares.sqrt());
    }
}
