//! Vectors, colours, hashing and noise. Only `+ - * /` and `sqrt`, in a fixed order, so that
//! every processor draws the same street.
use std::ops::{Add, Mul, Neg, Sub};

/// A point or direction, m: x right, y up, z along the street.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct V {
    pub x: f64,
    pub y: f64,
    pub z: f64,
}

pub(crate) const fn v(x: f64, y: f64, z: f64) -> V {
    V { x, y, z }
}

impl V {
    pub fn dot(self, o: V) -> f64 {
        self.x * o.x + self.y * o.y + self.z * o.z
    }

    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    pub fn unit(self) -> V {
        self * (1.0 / self.length())
    }
}

impl Add for V {
    type Output = V;
    fn add(self, o: V) -> V {
        v(self.x + o.x, self.y + o.y, self.z + o.z)
    }
}

impl Sub for V {
    type Output = V;
    fn sub(self, o: V) -> V {
        v(self.x - o.x, self.y - o.y, self.z - o.z)
    }
}

impl Mul<f64> for V {
    type Output = V;
    fn mul(self, k: f64) -> V {
        v(self.x * k, self.y * k, self.z * k)
    }
}

impl Neg for V {
    type Output = V;
    fn neg(self) -> V {
        v(-self.x, -self.y, -self.z)
    }
}

/// Where something stands and which way it faces: a turn about the vertical, then a shift.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pose {
    pub at: V,
    /// Cosine and sine of the heading; heading 0 faces +z, a right turn faces +x.
    pub cos: f64,
    pub sin: f64,
}

impl Pose {
    /// At `at`, facing along the direction (`dx`, `dz`), which need not be of unit length.
    pub fn facing(at: V, dx: f64, dz: f64) -> Self {
        let n = (dx * dx + dz * dz).sqrt();
        Self {
            at,
            cos: dz / n,
            sin: dx / n,
        }
    }

    pub fn turn_in(&self, d: V) -> V {
        v(
            self.cos * d.x - self.sin * d.z,
            d.y,
            self.sin * d.x + self.cos * d.z,
        )
    }

    pub fn turn_out(&self, d: V) -> V {
        v(
            self.cos * d.x + self.sin * d.z,
            d.y,
            self.cos * d.z - self.sin * d.x,
        )
    }

    pub fn inside(&self, p: V) -> V {
        self.turn_in(p - self.at)
    }

    pub fn outside(&self, p: V) -> V {
        self.turn_out(p) + self.at
    }
}

/// Linear light, red, green, blue; 1 is white in full daylight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Light(pub [f32; 3]);

/// From display values 0-255 (gamma 2).
pub(crate) fn rgb(r: u8, g: u8, b: u8) -> Light {
    let lin = |c: u8| {
        let c = f32::from(c) / 255.0;
        c * c
    };
    Light([lin(r), lin(g), lin(b)])
}

impl Light {
    pub fn mix(self, o: Light, t: f32) -> Light {
        self * (1.0 - t) + o * t
    }

    pub fn luma(self) -> f32 {
        0.3 * self.0[0] + 0.59 * self.0[1] + 0.11 * self.0[2]
    }
}

impl Add for Light {
    type Output = Light;
    fn add(self, o: Light) -> Light {
        let ([a, b, c], [d, e, f]) = (self.0, o.0);
        Light([a + d, b + e, c + f])
    }
}

impl Mul<f32> for Light {
    type Output = Light;
    fn mul(self, k: f32) -> Light {
        let [a, b, c] = self.0;
        Light([a * k, b * k, c * k])
    }
}

impl Mul<Light> for Light {
    type Output = Light;
    fn mul(self, o: Light) -> Light {
        let ([a, b, c], [d, e, f]) = (self.0, o.0);
        Light([a * d, b * e, c * f])
    }
}

/// Mixes 32 bits well (a multiply-xorshift finaliser).
#[inline]
pub(crate) fn mix32(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x7FEB_352D);
    h ^= h >> 15;
    h = h.wrapping_mul(0x846C_A68B);
    h ^ (h >> 16)
}

/// Hash of a lattice point.
#[inline]
pub(crate) fn hash(x: i32, y: i32, salt: u32) -> u32 {
    let h = (x as u32).wrapping_mul(0x9E37_79B1) ^ salt;
    mix32(
        h.rotate_left(15)
            .wrapping_add((y as u32).wrapping_mul(0x85EB_CA77)),
    )
}

/// A hash as a number in [0, 1).
#[inline]
pub(crate) fn unit(h: u32) -> f32 {
    (h >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A small generator (SplitMix64) for building the scene.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, a: i64, b: u64) -> Self {
        let mut rng = Self(seed ^ (a as u64).wrapping_mul(0xA24B_AED4_963E_E407));
        rng.0 = rng.bits() ^ b.wrapping_mul(0x9FB2_1C65_1E98_DF25);
        rng.bits();
        rng
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    pub fn range(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * self.unit()
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.bits() >> 33) as usize % of.len()]
    }
}

/// Largest whole number not above `x`, and what is left.
#[inline]
pub(crate) fn split(x: f64) -> (i32, f32) {
    let mut i = x as i32;
    if f64::from(i) > x {
        i -= 1;
    }
    (i, (x - f64::from(i)) as f32)
}

pub(crate) fn floor(x: f64) -> f64 {
    let i = x as i64 as f64;
    if i > x { i - 1.0 } else { i }
}

#[inline]
fn ease(t: f32) -> f32 {
    t * t * (3.0 - 2.0 * t)
}

/// Smooth noise over the plane, 0 to 1, one lattice cell a unit.
#[inline]
pub(crate) fn noise2(x: f64, y: f64, salt: u32) -> f32 {
    let ((xi, xf), (yi, yf)) = (split(x), split(y));
    let (xf, yf) = (ease(xf), ease(yf));
    let at = |dx: i32, dy: i32| unit(hash(xi.wrapping_add(dx), yi.wrapping_add(dy), salt));
    let top = at(0, 0) * (1.0 - xf) + at(1, 0) * xf;
    let bottom = at(0, 1) * (1.0 - xf) + at(1, 1) * xf;
    top * (1.0 - yf) + bottom * yf
}

/// Smooth noise in space, 0 to 1.
#[inline]
pub(crate) fn noise3(p: V, salt: u32) -> f32 {
    let (zi, zf) = split(p.z);
    let zf = ease(zf);
    let layer = |k: i32| {
        let z = zi.wrapping_add(k) as u32;
        noise2(p.x, p.y, salt ^ z.wrapping_mul(0xC2B2_AE3D))
    };
    layer(0) * (1.0 - zf) + layer(1) * zf
}

/// Power of two at or below `x` (for `x > 0`), and how far `x` is towards the next, 0 to 1.
#[inline]
fn octave(x: f64) -> (f64, f32) {
    let bits = x.to_bits();
    let low = f64::from_bits(bits & 0xFFF0_0000_0000_0000);
    (low, (x / low - 1.0) as f32)
}

/// Noise of about zero mean whose grain is always a little coarser than a pixel that covers
/// `fx` by `fy` metres, whatever the distance: fine near by, coarse far away, no aliasing.
pub(crate) fn grain(x: f64, y: f64, fx: f64, fy: f64, salt: u32) -> f32 {
    let ((lx, tx), (ly, ty)) = (octave(fx * 1.7), octave(fy * 1.7));
    let at = |kx: f64, ky: f64| {
        let salt = salt ^ (kx.to_bits() >> 48) as u32 ^ (ky.to_bits() >> 40) as u32;
        noise2(x / kx, y / ky, salt)
    };
    let a = at(lx, ly) * (1.0 - tx) + at(2.0 * lx, ly) * tx;
    let b = at(lx, 2.0 * ly) * (1.0 - tx) + at(2.0 * lx, 2.0 * ly) * tx;
    a * (1.0 - ty) + b * ty - 0.5
}

/// 1 where `lo < x < hi`, 0 outside, with flanks as wide as a pixel of `w` metres.
#[inline]
pub(crate) fn band(x: f64, lo: f64, hi: f64, w: f64) -> f32 {
    let edge = |d: f64| ((d / w + 0.5) as f32).clamp(0.0, 1.0);
    edge(x - lo) * edge(hi - x)
}

/// 0 below `lo`, 1 above `hi`, smooth between.
pub(crate) fn ramp(x: f64, lo: f64, hi: f64) -> f64 {
    let t = ((x - lo) / (hi - lo)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}
