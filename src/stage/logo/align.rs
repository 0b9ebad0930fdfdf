//! Fits a pose to the pixels: the template's picture laid over the frame until they agree best.
//!
//! Inverse-compositional Gauss-Newton (Baker and Matthews 2004, section 3.2) over the eight
//! parameters of a homography, on pictures of zero mean and equal contrast; what a change of
//! gain looks like is projected out of the steepest-descent images (ibid., part 3), so light does
//! not push the pose. Frame values are read bilinearly from the pyramid's level whose pixels are
//! about as large as the template's. Sums are `f64` in the order of the samples.
use super::{
    pose::{self, Pose, Quad},
    pyramid::{LEVELS, Pyramid, Rect},
};
use crate::frame::{Image, Size};

/// Parameters of a homography.
const N: usize = 8;

/// Fewest samples in view that say anything, as a share of all.
const MIN_IN_VIEW: f64 = 0.35;

/// A step that moves no corner by more than this, px, is the last.
const SETTLED_PX: f64 = 0.05;

/// After this many steps a pose must agree by this much to be worth more of them.
const GIVE_UP: (usize, f64) = (3, 0.25);

/// One pixel of a template's picture.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Place in the logo's plane.
    x: f32,
    y: f32,
    /// Grey, zero mean and unit length over all samples.
    value: f32,
    /// How the value changes with each parameter, without what gain and offset do.
    descent: [f32; N],
}

/// A template's picture at one size, ready to be laid over frames.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    aspect: f64,
    samples: Vec<Sample>,
    /// Size of the picture, px.
    size: Size,
    /// Normal equations of all samples.
    normal: [[f64; N]; N],
}

/// How well a pose fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    pub pose: Pose,
    /// Normalised cross-correlation, -1 to 1.
    pub ncc: f64,
    /// Share of the samples that lie in the frame.
    pub in_view: f64,
}

/// Memory for one alignment.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    values: Vec<f32>,
}

impl Scratch {
    pub fn new(samples: usize) -> Self {
        Self {
            values: vec![0.0; samples],
        }
    }
}

/// Stands for a sample that lies outside the frame.
const OUTSIDE: f32 = -1.0;

impl Face {
    /// `grey` is the picture, `mask` is 0 where it is transparent. `None` where it is too small
    /// or shows nothing.
    pub fn new(aspect: f64, grey: &Image<u8>, mask: &Image<u8>) -> Option<Self> {
        let Size { width, height } = grey.size();
        let at = |x: isize, y: isize| {
            let x = x.clamp(0, width as isize - 1) as usize;
            let y = y.clamp(0, height as isize - 1) as usize;
            f64::from(grey.get(x, y))
        };
        // Plane units a pixel.
        let (step_x, step_y) = (aspect / width as f64, 1.0 / height as f64);
        let mut raw = Vec::new();
        for y in 0..height {
            for x in 0..width {
                if mask.get(x, y) == 0 {
                    continue;
                }
                let (i, j) = (x as isize, y as isize);
                let gx = 0.5 * (at(i + 1, j) - at(i - 1, j)) / step_x;
                let gy = 0.5 * (at(i, j + 1) - at(i, j - 1)) / step_y;
                let px = (x as f64 + 0.5) * step_x - 0.5 * aspect;
                let py = (y as f64 + 0.5) * step_y - 0.5;
                let along = gx * px + gy * py;
                let descent = [
                    gx * px,
                    gy * px,
                    gx * py,
                    gy * py,
                    gx,
                    gy,
                    -along * px,
                    -along * py,
                ];
                raw.push((px, py, at(i, j), descent));
            }
        }
        let n = raw.len() as f64;
        if raw.len() < 64 {
            return None;
        }
        let mean = raw.iter().map(|r| r.2).sum::<f64>() / n;
        let length = raw
            .iter()
            .map(|r| (r.2 - mean) * (r.2 - mean))
            .sum::<f64>()
            .sqrt();
        if length < n.sqrt() {
            return None;
        }
        let mut average = [0.0; N];
        let mut along = [0.0; N];
        for (_, _, value, descent) in &raw {
            for k in 0..N {
                average[k] += descent[k] / n;
                along[k] += descent[k] * (value - mean) / length;
            }
        }
        let samples: Vec<Sample> = raw
            .iter()
            .map(|&(x, y, value, descent)| {
                let value = (value - mean) / length;
                let mut clean = [0.0f32; N];
                for k in 0..N {
                    clean[k] = ((descent[k] - average[k] - along[k] * value) / length) as f32;
                }
                Sample {
                    x: x as f32,
                    y: y as f32,
                    value: value as f32,
                    descent: clean,
                }
            })
            .collect();
        let mut normal = [[0.0; N]; N];
        for s in &samples {
            add_outer(&mut normal, &s.descent);
        }
        Some(Self {
            aspect,
            samples,
            size: grey.size(),
            normal,
        })
    }

    /// Samples in all.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// The pyramid level whose pixels are about as large as this picture's under `quad`.
    fn level(&self, quad: &Quad) -> usize {
        let (across, down) = pose::sides(quad);
        let area = across * down / (self.size.width * self.size.height) as f64;
        // Pixels of the frame to one of the picture, as an area: 4 to the level.
        let mut level = 0;
        let mut limit = 3.0;
        while level + 1 < LEVELS && area > limit {
            level += 1;
            limit *= 4.0;
        }
        level
    }

    /// Improves a pose in at most `steps` steps; the best pose seen. `None` where too little of
    /// it lies in the frame.
    pub fn align(
        &self,
        pyramid: &mut Pyramid,
        scratch: &mut Scratch,
        pose: &Pose,
        steps: usize,
    ) -> Option<Fit> {
        let quad = pose.quad(self.aspect)?;
        let level = self.level(&quad);
        let rect = around(&quad, pyramid.level(0).size())?;
        pyramid.prepare(level, rect);
        let image = pyramid.level(level);
        // Where steps may read: what was prepared.
        let limit = Limit::new(image, rect, level)?;
        let values = &mut scratch.values[..self.samples.len()];

        let mut pose = *pose;
        let mut quad = quad;
        let mut best: Option<Fit> = None;
        for step in 0..=steps {
            let Some(sums) = self.read(image, &limit, level, &pose, values) else {
                break;
            };
            let fit = Fit {
                pose,
                ncc: sums.ncc(),
                in_view: sums.n / self.samples.len() as f64,
            };
            let better = best.is_none_or(|b| fit.ncc > b.ncc);
            if better {
                best = Some(fit);
            } else if best.is_some_and(|b| fit.ncc < b.ncc - 0.05) {
                break;
            }
            let hopeless = step >= GIVE_UP.0 && best.is_none_or(|b| b.ncc < GIVE_UP.1);
            if step == steps || hopeless {
                break;
            }
            let Some(change) = self.change(&sums, values) else {
                break;
            };
            let Some(next) = compose_inverse(&pose, &change) else {
                break;
            };
            let Some(moved) = next.quad(self.aspect) else {
                break;
            };
            let mut most = 0.0f64;
            for (a, b) in moved.iter().flatten().zip(quad.iter().flatten()) {
                most = most.max((a - b).abs());
            }
            pose = next;
            quad = moved;
            if most < SETTLED_PX {
                break;
            }
        }
        best
    }

    /// Reads the frame at all samples.
    fn read(
        &self,
        image: &Image<u8>,
        limit: &Limit,
        level: usize,
        pose: &Pose,
        values: &mut [f32],
    ) -> Option<Sums> {
        // Level l's pixel (x, y) lies at ((x + 1/2) 2^l - 1/2) of the full size.
        let scale = 1.0 / (1u32 << level) as f64;
        let shift = 0.5 * scale - 0.5;
        let h: [f32; 9] = {
            let h = &pose.0;
            let row = |r: usize, k: usize| h[3 * r + k] * scale + shift * h[6 + k];
            [
                row(0, 0),
                row(0, 1),
                row(0, 2),
                row(1, 0),
                row(1, 1),
                row(1, 2),
                h[6],
                h[7],
                h[8],
            ]
            .map(|v| v as f32)
        };
        let mut sums = Sums::default();
        let (data, stride) = (image.data(), image.stride());
        for (s, to) in self.samples.iter().zip(values.iter_mut()) {
            let w = 1.0 / (h[6] * s.x + h[7] * s.y + h[8]);
            let x = (h[0] * s.x + h[1] * s.y + h[2]) * w;
            let y = (h[3] * s.x + h[4] * s.y + h[5]) * w;
            *to = OUTSIDE;
            if !(x >= limit.x0 && x < limit.x1 && y >= limit.y0 && y < limit.y1) {
                continue;
            }
            let (i, j) = (x as usize, y as usize);
            let (fx, fy) = (x - i as f32, y - j as f32);
            let at = j * stride + i;
            let (Some(&[a, b]), Some(&[c, d])) = (
                data[at..].first_chunk::<2>(),
                data[at + stride..].first_chunk::<2>(),
            ) else {
                continue;
            };
            let [a, b, c, d] = [a, b, c, d].map(f32::from);
            let top = a + fx * (b - a);
            let low = c + fx * (d - c);
            let v = top + fy * (low - top);
            *to = v;
            let (v, t) = (f64::from(v), f64::from(s.value));
            sums.n += 1.0;
            sums.i += v;
            sums.ii += v * v;
            sums.t += t;
            sums.tt += t * t;
            sums.it += v * t;
        }
        (sums.n >= MIN_IN_VIEW * self.samples.len() as f64).then_some(sums)
    }

    /// The change of the parameters that explains the difference best.
    fn change(&self, sums: &Sums, values: &[f32]) -> Option<[f64; N]> {
        let (mean_i, mean_t) = (sums.i / sums.n, sums.t / sums.n);
        let (var_i, var_t) = sums.variances();
        if var_i <= 0.0 || var_t <= 0.0 {
            return None;
        }
        let gain = (var_t / var_i).sqrt();
        let mut right = [0.0; N];
        let whole = sums.n as usize == self.samples.len();
        let mut part = [[0.0; N]; N];
        for (s, &v) in self.samples.iter().zip(values) {
            if v == OUTSIDE {
                continue;
            }
            let error = gain * (f64::from(v) - mean_i) - (f64::from(s.value) - mean_t);
            for (to, d) in right.iter_mut().zip(&s.descent) {
                *to += error * f64::from(*d);
            }
            if !whole {
                add_outer(&mut part, &s.descent);
            }
        }
        solve(if whole { &self.normal } else { &part }, &right)
    }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    i: f64,
    ii: f64,
    t: f64,
    tt: f64,
    it: f64,
}

impl Sums {
    fn variances(&self) -> (f64, f64) {
        (
            self.ii - self.i * self.i / self.n,
            self.tt - self.t * self.t / self.n,
        )
    }

    fn ncc(&self) -> f64 {
        let (i, t) = self.variances();
        // A frame without any contrast (1 grey level) agrees with nothing.
        if i < self.n || t <= 0.0 {
            return 0.0;
        }
        (self.it - self.i * self.t / self.n) / (i * t).sqrt()
    }
}

/// Where bilinear reading is defined, in px of a level.
struct Limit {
    x0: f32,
    x1: f32,
    y0: f32,
    y1: f32,
}

impl Limit {
    fn new(image: &Image<u8>, rect: Rect, level: usize) -> Option<Self> {
        let Size { width, height } = image.size();
        let (x0, y0) = (rect.x0 >> level, rect.y0 >> level);
        let x1 = (rect.x1 >> level).min(width.checked_sub(1)?);
        let y1 = (rect.y1 >> level).min(height.checked_sub(1)?);
        (x0 < x1 && y0 < y1).then_some(Self {
            x0: x0 as f32,
            x1: x1 as f32,
            y0: y0 as f32,
            y1: y1 as f32,
        })
    }
}

/// The part of the frame that a quad may reach while it is fitted; `None` beside the frame.
fn around(quad: &Quad, size: Size) -> Option<Rect> {
    let [x0, y0, x1, y1] = pose::bounds(quad);
    let margin = 8.0 + 0.25 * (x1 - x0).max(y1 - y0);
    let clamp = |v: f64, most: usize| v.max(0.0).min(most as f64) as usize;
    let rect = Rect {
        x0: clamp(x0 - margin, size.width),
        y0: clamp(y0 - margin, size.height),
        x1: clamp(x1 + margin, size.width),
        y1: clamp(y1 + margin, size.height),
    };
    (rect.x0 < rect.x1 && rect.y0 < rect.y1).then_some(rect)
}

fn add_outer(to: &mut [[f64; N]; N], v: &[f32; N]) {
    for (r, row) in to.iter_mut().enumerate() {
        let a = f64::from(v[r]);
        for (to, b) in row.iter_mut().zip(v).take(r + 1) {
            *to += a * f64::from(*b);
        }
    }
}

/// `pose` after the inverse of the small homography of `p`.
fn compose_inverse(pose: &Pose, p: &[f64; N]) -> Option<Pose> {
    let change = [
        1.0 + p[0],
        p[2],
        p[4],
        p[1],
        1.0 + p[3],
        p[5],
        p[6],
        p[7],
        1.0,
    ];
    let inverse = pose::inverse(&change)?;
    Pose(pose.after(&inverse)).normalised()
}

/// Solves the symmetric system (lower half given) by Cholesky's method, a little stiffened.
fn solve(normal: &[[f64; N]; N], right: &[f64; N]) -> Option<[f64; N]> {
    let trace: f64 = (0..N).map(|k| normal[k][k]).sum();
    let mut l = *normal;
    for k in 0..N {
        l[k][k] += 1e-4 * normal[k][k] + 1e-7 * trace;
    }
    for c in 0..N {
        for k in 0..c {
            l[c][c] -= l[c][k] * l[c][k];
        }
        if l[c][c].is_nan() || l[c][c] <= 0.0 {
            return None;
        }
        l[c][c] = l[c][c].sqrt();
        for r in c + 1..N {
            for k in 0..c {
                l[r][c] -= l[r][k] * l[c][k];
            }
            l[r][c] /= l[c][c];
        }
    }
    let mut x = *right;
    for r in 0..N {
        for k in 0..r {
            x[r] -= l[r][k] * x[k];
        }
        x[r] /= l[r][r];
    }
    for r in (0..N).rev() {
        for k in r + 1..N {
            x[r] -= l[k][r] * x[k];
        }
        x[r] /= l[r][r];
    }
    x.iter().all(|v| v.is_finite()).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A smooth picture without symmetry.
    fn ink(u: f64, v: f64) -> f64 {
        let d = |a: f64, b: f64, r: f64| {
            let (x, y) = (u - a, v - b);
            let t = 1.0 - (x * x + y * y) / (r * r);
            if t > 0.0 { t * t } else { 0.0 }
        };
        120.0 + 100.0 * d(0.3, 0.3, 0.3) - 90.0 * d(1.2, 0.6, 0.4) + 80.0 * d(1.7, 0.3, 0.25)
            - 60.0 * d(0.7, 0.8, 0.25)
    }

    fn face(height: usize) -> Face {
        let grey = Image::from_fn(2 * height, height, |x, y| {
            ink(
                (x as f64 + 0.5) / height as f64,
                (y as f64 + 0.5) / height as f64,
            ) as u8
        });
        let mask = Image::filled(2 * height, height, 1);
        Face::new(2.0, &grey, &mask).unwrap()
    }

    fn frame(pose: &Pose, gain: f64, offset: f64) -> Pyramid {
        let inverse = pose.inverse().unwrap();
        let back = Pose(inverse);
        let mut pyramid = Pyramid::new(Size::new(320, 240));
        *pyramid.full_mut() = Image::from_fn(320, 240, |x, y| {
            let [u, v] = back.map(x as f64, y as f64);
            (gain * ink(u + 1.0, v + 0.5) + offset) as u8
        });
        pyramid
    }

    fn off(a: &Pose, b: &Pose) -> f64 {
        let (a, b) = (a.quad(2.0).unwrap(), b.quad(2.0).unwrap());
        a.iter()
            .zip(&b)
            .map(|(p, q)| ((p[0] - q[0]).powi(2) + (p[1] - q[1]).powi(2)).sqrt())
            .sum::<f64>()
            / 4.0
    }

    #[test]
    fn a_pose_is_found_to_a_fraction_of_a_pixel_whatever_the_light() {
        let face = face(32);
        let mut scratch = Scratch::new(face.len());
        for (truth, start) in [
            (
                [[60.0, 60.0], [190.0, 70.0], [200.0, 140.0], [55.0, 125.0]],
                [[66.0, 57.0], [194.0, 76.0], [196.0, 146.0], [52.0, 121.0]],
            ),
            // Cut by the frame's edge.
            (
                [[200.0, -20.0], [340.0, -15.0], [335.0, 55.0], [203.0, 60.0]],
                [[204.0, -22.0], [337.0, -12.0], [338.0, 58.0], [200.0, 57.0]],
            ),
        ] {
            let truth = Pose::of_quad(2.0, &truth).unwrap();
            let start = Pose::of_quad(2.0, &start).unwrap();
            for (gain, offset) in [(1.0, 0.0), (0.4, 60.0)] {
                let mut pyramid = frame(&truth, gain, offset);
                let fit = face.align(&mut pyramid, &mut scratch, &start, 20).unwrap();
                assert!(off(&start, &truth) > 4.0);
                assert!(off(&fit.pose, &truth) < 0.7, "{}", off(&fit.pose, &truth));
                assert!(fit.ncc > 0.99, "{}", fit.ncc);
                let again = face.align(&mut pyramid, &mut scratch, &start, 20);
                assert_eq!(again, Some(fit));
            }
        }
    }

    #[test]
    fn a_large_logo_is_read_from_a_smaller_frame() {
        let face = face(16);
        let quad = [[20.0, 20.0], [300.0, 24.0], [296.0, 170.0], [24.0, 160.0]];
        assert_eq!(face.level(&quad), 3);
        let truth = Pose::of_quad(2.0, &quad).unwrap();
        let mut pyramid = frame(&truth, 1.0, 0.0);
        let mut scratch = Scratch::new(face.len());
        let fit = face.align(&mut pyramid, &mut scratch, &truth, 0).unwrap();
        assert!(fit.ncc > 0.99, "{}", fit.ncc);
    }

    #[test]
    fn nothing_to_see() {
        let face = face(32);
        let mut scratch = Scratch::new(face.len());
        let mut pyramid = Pyramid::new(Size::new(320, 240));
        pyramid.full_mut().fill(99);
        let quad = [[60.0, 60.0], [190.0, 70.0], [200.0, 140.0], [55.0, 125.0]];
        let pose = Pose::of_quad(2.0, &quad).unwrap();
        let fit = face.align(&mut pyramid, &mut scratch, &pose, 5).unwrap();
        assert_eq!((fit.ncc, fit.in_view), (0.0, 1.0));
        let beside = Pose::of_quad(2.0, &quad.map(|[x, y]| [x + 900.0, y])).unwrap();
        assert_eq!(face.align(&mut pyramid, &mut scratch, &beside, 5), None);
        // Frames too small to be read.
        for (w, h) in [(1, 1), (1, 40), (40, 1), (2, 2)] {
            let mut small = Pyramid::new(Size::new(w, h));
            assert_eq!(face.align(&mut small, &mut scratch, &pose, 5), None);
        }
        let flat = Image::filled(64, 32, 7);
        let mask = Image::filled(64, 32, 1);
        assert!(Face::new(2.0, &flat, &mask).is_none());
    }
}
