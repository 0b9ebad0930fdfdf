//! Where the picture lies on the model: the camera's motion since the model began.
// Rows and columns of small matrices are indices here.
#![allow(clippy::needless_range_loop)]

use rayon::prelude::*;

use crate::{
    frame::{Image, Mask, Size},
    maths::homography::Homography,
};

/// Positions of samples in 1 px.
pub const PARTS: i32 = 8;
/// Keeps places positive while they are rounded.
const OFFSET: i32 = 16 * PARTS;
/// Corners nearer to their place than this have not moved, px.
const AT_REST: f64 = 1.0 / 16.0;
/// The model is given up when a corner has moved by this share of the picture.
const FARTHEST: f64 = 0.25;

/// A homography, row-major, that takes pixels of one grid to another.
pub type Grid = [f32; 9];

/// The homography from the picture to the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    h: [f64; 9],
}

impl Anchor {
    pub const REST: Self = Self {
        h: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
    };

    /// Its matrix, row-major.
    pub fn numbers(&self) -> [f64; 9] {
        self.h
    }

    /// The anchor of a matrix that [`Anchor::numbers`] gave; `None` for one that it can't give.
    pub fn of(h: [f64; 9], size: Size) -> Option<Self> {
        Self { h }.checked(size)
    }

    /// The next frame, whose pixels lay in the frame before where `step` says. `None` where the
    /// two no longer cover each other well.
    pub fn follow(self, step: &Grid, size: Size) -> Option<Self> {
        let step = step.map(f64::from);
        let mut h = [0.0; 9];
        for r in 0..3 {
            for c in 0..3 {
                let a = self.h[3 * r] * step[c];
                let b = self.h[3 * r + 1] * step[3 + c];
                h[3 * r + c] = a + b + self.h[3 * r + 2] * step[6 + c];
            }
        }
        let scale = h[8];
        if !(0.5..=2.0).contains(&scale) {
            return None;
        }
        for h in &mut h {
            *h /= scale;
        }
        Self { h }.checked(size)
    }

    /// Itself, unless a corner has moved too far.
    fn checked(self, size: Size) -> Option<Self> {
        let (w, h) = (size.width as f64, size.height as f64);
        let near = self.corners(size).into_iter().all(|corner| {
            corner.is_some_and(|(dx, dy)| {
                let (dx, dy) = (
                    if dx < 0.0 { -dx } else { dx },
                    if dy < 0.0 { -dy } else { dy },
                );
                dx <= FARTHEST * w && dy <= FARTHEST * h
            })
        });
        near.then_some(self)
    }

    /// Moved to where the samples say that the model shows the picture, so that errors of single
    /// motions do not add up; perspective, which they do not tell, fades. Itself where they say
    /// little.
    pub fn aligned(self, drift: &Drift, size: Size) -> Option<Self> {
        let Some(a) = drift.solve() else {
            return Some(self);
        };
        let small = |a: f64, most: f64| (-most..=most).contains(&a);
        if !(a[..2].iter().all(|&a| small(a, 1.0)) && a[2..].iter().all(|&a| small(a, 0.1))) {
            return Some(self);
        }
        let unit = Drift::UNITS as f64 / size.width.max(size.height) as f64;
        let [ux, vx, uy, vy] = [a[2] * unit, a[3] * unit, a[4] * unit, a[5] * unit];
        let (cx, cy) = ((size.width / 2) as f64, (size.height / 2) as f64);
        let step = [
            [1.0 + ux, vx, a[0] - ux * cx - vx * cy],
            [uy, 1.0 + vy, a[1] - uy * cx - vy * cy],
        ];
        let mut h = self.h;
        for (r, step) in step.iter().enumerate() {
            for c in 0..3 {
                let a = step[0] * self.h[c];
                let b = step[1] * self.h[3 + c];
                h[3 * r + c] = a + b + step[2] * self.h[6 + c];
            }
        }
        h[6] *= 0.9375;
        h[7] *= 0.9375;
        Self { h }.checked(size)
    }

    /// By how much the corners moved.
    fn corners(&self, size: Size) -> [Option<(f64, f64)>; 4] {
        let (right, bottom) = ((size.width - 1) as f64, (size.height - 1) as f64);
        [(0.0, 0.0), (right, 0.0), (0.0, bottom), (right, bottom)].map(|(x, y)| {
            let h = &self.h;
            let den = h[6] * x + h[7] * y + h[8];
            // Also where it is no number.
            if !(0.5..=2.0).contains(&den) {
                return None;
            }
            let u = (h[0] * x + h[1] * y + h[2]) / den;
            let v = (h[3] * x + h[4] * y + h[5]) / den;
            Some((u - x, v - y))
        })
    }

    /// Whether the picture lies where the model does.
    pub fn at_rest(&self, size: Size) -> bool {
        self.corners(size).into_iter().all(|corner| {
            corner.is_some_and(|(dx, dy)| {
                (-AT_REST..=AT_REST).contains(&dx) && (-AT_REST..=AT_REST).contains(&dy)
            })
        })
    }

    /// From the picture to the model.
    pub fn to_model(self) -> Grid {
        self.h.map(|h| h as f32)
    }

    /// From the model to the picture.
    pub fn to_picture(self) -> Grid {
        let adjugate = Homography(self.h).adjugate();
        // Corners near their places keep the last away from 0.
        adjugate.map(|a| (a / adjugate[8]) as f32)
    }
}

/// Where a grid's pixel lies, in 1/[`PARTS`] px; `None` outside the picture.
#[inline(always)]
pub fn position(grid: &Grid, x: usize, y: usize, size: Size) -> Option<(i32, i32)> {
    place(grid, x, y, 0.0, size)
}

/// The same for up to `beyond` px outside the picture.
#[inline(always)]
pub fn place(grid: &Grid, x: usize, y: usize, beyond: f32, size: Size) -> Option<(i32, i32)> {
    let (x, y) = (x as f32, y as f32);
    let den = grid[6] * x + grid[7] * y + grid[8];
    let u = (grid[0] * x + grid[1] * y + grid[2]) / den;
    let v = (grid[3] * x + grid[4] * y + grid[5]) / den;
    let inside = |p: f32, n: usize| p >= -0.5 - beyond && p < n as f32 - 0.5 + beyond;
    if !(inside(u, size.width) && inside(v, size.height)) {
        return None;
    }
    // To the nearest, without a function that a processor may not have.
    let nearest = |p: f32| (p * PARTS as f32 + (OFFSET as f32 + 0.5)) as i32 - OFFSET;
    Some((nearest(u), nearest(v)))
}

/// The pixel nearest to a position.
#[inline(always)]
pub fn nearest((u, v): (i32, i32), size: Size) -> (usize, usize) {
    let of = |p: i32, n: usize| {
        let p = (p + PARTS / 2).div_euclid(PARTS);
        (p.max(0) as usize).min(n - 1)
    };
    (of(u, size.width), of(v, size.height))
}

/// The four pixels around a position and the weights of the later ones, in 1/[`PARTS`].
#[inline(always)]
pub fn around(p: i32, n: usize) -> (usize, usize, u32) {
    let first = p.div_euclid(PARTS);
    let last = n as i32 - 1;
    (
        first.clamp(0, last) as usize,
        (first + 1).clamp(0, last) as usize,
        p.rem_euclid(PARTS) as u32,
    )
}

/// Least squares for a small affine motion of the model under the picture: brightness differs
/// by gradient times displacement. Whole numbers, so that the order does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drift {
    samples: u32,
    /// Upper triangle of the normal equations, row by row.
    products: [i64; PRODUCTS],
    /// Their right side.
    right: [i64; UNKNOWNS],
}

/// Shift to the right and down, and how both grow to the right and down.
const UNKNOWNS: usize = 6;
const PRODUCTS: usize = UNKNOWNS * (UNKNOWNS + 1) / 2;

impl Drift {
    /// The larger side, in the unit in which places are measured.
    pub const UNITS: i64 = 64;
    /// Most samples, about.
    pub const SAMPLES: usize = 16384;
    const MIN_SAMPLES: u32 = 64;

    /// A sample at (x, y): twice the gradient, and by how much the picture is brighter.
    pub fn add(&mut self, (x, y): (usize, usize), size: Size, gradient: [i32; 2], brighter: i32) {
        let side = size.width.max(size.height) as i64;
        let place = |p: usize, n: usize| (p as i64 - (n / 2) as i64) * Self::UNITS / side;
        let (u, v) = (place(x, size.width), place(y, size.height));
        let [gx, gy] = gradient.map(i64::from);
        let row = [gx, gy, gx * u, gx * v, gy * u, gy * v];
        let mut next = self.products.iter_mut();
        for i in 0..UNKNOWNS {
            for j in i..UNKNOWNS {
                if let Some(sum) = next.next() {
                    *sum += row[i] * row[j];
                }
            }
            self.right[i] += row[i] * 2 * i64::from(brighter);
        }
        self.samples += 1;
    }

    /// Shift in px, and its growth in px for each unit of place.
    fn solve(&self) -> Option<[f64; UNKNOWNS]> {
        if self.samples < Self::MIN_SAMPLES {
            return None;
        }
        let mut a = [[0.0; UNKNOWNS + 1]; UNKNOWNS];
        let mut least = [0.0; UNKNOWNS];
        let mut next = self.products.iter();
        for i in 0..UNKNOWNS {
            for j in i..UNKNOWNS {
                let sum = next.next().map_or(0.0, |&s| s as f64);
                a[i][j] = sum;
                a[j][i] = sum;
            }
            least[i] = 1e-3 * a[i][i];
            a[i][UNKNOWNS] = self.right[i] as f64;
        }
        for i in 0..UNKNOWNS {
            // Of a flat picture, or one with lines of one direction only, nothing is known.
            if a[i][i] <= least[i] {
                return None;
            }
            for r in i + 1..UNKNOWNS {
                let factor = a[r][i] / a[i][i];
                for c in i..=UNKNOWNS {
                    a[r][c] -= factor * a[i][c];
                }
            }
        }
        let mut x = [0.0; UNKNOWNS];
        for i in (0..UNKNOWNS).rev() {
            let mut rest = a[i][UNKNOWNS];
            for c in i + 1..UNKNOWNS {
                rest -= a[i][c] * x[c];
            }
            x[i] = rest / a[i][i];
        }
        Some(x)
    }
}

/// What can be sampled between pixels.
pub trait Mix: Copy + Send + Sync {
    /// The mean with these weights, which sum up to 64.
    fn mix(pixels: [Self; 4], weights: [u32; 4]) -> Self;
}

fn mean(pixels: [u32; 4], weights: [u32; 4]) -> u32 {
    let sum: u32 = pixels.iter().zip(weights).map(|(p, w)| p * w).sum();
    (sum + 32) >> 6
}

impl Mix for u8 {
    #[inline(always)]
    fn mix(pixels: [Self; 4], weights: [u32; 4]) -> Self {
        mean(pixels.map(u32::from), weights) as Self
    }
}

impl Mix for u16 {
    #[inline(always)]
    fn mix(pixels: [Self; 4], weights: [u32; 4]) -> Self {
        mean(pixels.map(u32::from), weights) as Self
    }
}

impl Mix for [u8; 3] {
    #[inline(always)]
    fn mix(pixels: [Self; 4], weights: [u32; 4]) -> Self {
        std::array::from_fn(|c| mean(pixels.map(|p| u32::from(p[c])), weights) as u8)
    }
}

/// The picture where a pixel of the model's grid lies; `None` outside.
#[inline(always)]
pub fn sample<P: Mix>(grid: &Grid, image: &Image<P>, x: usize, y: usize) -> Option<P> {
    let size = image.size();
    let (u, v) = position(grid, x, y, size)?;
    let (x0, x1, a) = around(u, size.width);
    let (y0, y1, b) = around(v, size.height);
    let (top, bottom) = (image.row(y0), image.row(y1));
    let part = PARTS as u32;
    Some(P::mix(
        [top[x0], top[x1], bottom[x0], bottom[x1]],
        [
            (part - a) * (part - b),
            a * (part - b),
            (part - a) * b,
            a * b,
        ],
    ))
}

/// Whether one of the pixels that [`sample`] reads is 0 in the mask; also where it reads none.
#[inline(always)]
pub fn is_masked(grid: &Grid, mask: &Mask, x: usize, y: usize) -> bool {
    let size = mask.size();
    let Some((u, v)) = position(grid, x, y, size) else {
        return true;
    };
    let (x0, x1, _) = around(u, size.width);
    let (y0, y1, _) = around(v, size.height);
    let (top, bottom) = (mask.row(y0), mask.row(y1));
    [top[x0], top[x1], bottom[x0], bottom[x1]].contains(&0)
}

/// The picture as the model's grid sees it; what lies outside is left as it is.
pub fn sample_all<P: Mix>(grid: &Grid, image: &Image<P>, out: &mut [P]) {
    out.par_chunks_mut(image.width())
        .enumerate()
        .for_each(|(y, row)| {
            for (x, out) in row.iter_mut().enumerate() {
                *out = sample(grid, image, x, y).unwrap_or(*out);
            }
        });
}
