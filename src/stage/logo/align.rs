//! Fits a pose to the pixels: the template's picture laid over the frame until they agree best.
//!
//! Inverse-compositional Gauss-Newton (Baker and Matthews 2004, section 3.2) over the eight
//! parameters of a homography, on pictures of zero mean and equal contrast; what a change of
//! gain looks like is projected out of the steepest-descent images (ibid., part 3), so light does
//! not push the pose. Frame values are read bilinearly from the pyramid's level whose pixels are
//! about as large as the template's. [`kernel`] has the order of the sums.
pub(super) mod kernel;

use super::{
    features::Isa,
    pose::{self, Pose, Quad},
    pyramid::{LEVELS, Pyramid, Rect},
    simd,
};
use crate::frame::{Image, Size};
use kernel::{Block, LANES, N, Own, Sums, View};

/// Fewest samples in view that say anything, as a share of all.
const MIN_IN_VIEW: f64 = 0.35;

/// A step that moves no corner by more than this, px, is the last.
const SETTLED_PX: f64 = 0.05;

/// Correlation that a pose must have reached at the start, after a step, after two ... to be worth
/// more of them; the last holds for all later ones. Of the right ones in the benchmark nine in ten
/// begin above 0.4; of the wrong ones two in three begin below the first of these.
const PROMISE: [f64; 5] = [0.1, 0.17, 0.25, 0.3, 0.35];

/// A template's picture at one size, ready to be laid over frames.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    aspect: f64,
    blocks: Vec<Block>,
    /// Size of the picture, px.
    size: Size,
    /// Of all samples.
    whole: Own,
    /// Of their normal equations; `None` where they say too little.
    factor: Option<Factor>,
}

/// Cholesky's, of normal equations.
type Factor = [[f64; N]; N];

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
    isa: Isa,
    weights: Vec<[f32; LANES]>,
}

impl Scratch {
    pub fn new(samples: usize) -> Self {
        Self {
            isa: Isa::detect(),
            weights: vec![[0.0; LANES]; samples.div_ceil(LANES)],
        }
    }
}

/// How far a fit goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Most steps.
    pub steps: usize,
    /// Correlation of the start below which there is none.
    pub least: f64,
    /// A step that gains less correlation than this is the last,
    pub gain: f64,
    /// but for so many of them in a row: behind one that loses, the next may gain.
    pub patience: usize,
}

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
        let mut blocks = Vec::with_capacity(raw.len().div_ceil(LANES));
        for part in raw.chunks(LANES) {
            let mut block = Block {
                // Behind the last, the first again, which weighs nothing there.
                x: [part[0].0 as f32; LANES],
                y: [part[0].1 as f32; LANES],
                value: [0.0; LANES],
                weight: [0.0; LANES],
                descent: [[0.0; LANES]; N],
            };
            for (k, &(x, y, value, descent)) in part.iter().enumerate() {
                let value = (value - mean) / length;
                block.x[k] = x as f32;
                block.y[k] = y as f32;
                block.value[k] = value as f32;
                block.weight[k] = 1.0;
                for p in 0..N {
                    block.descent[p][k] =
                        ((descent[p] - average[p] - along[p] * value) / length) as f32;
                }
            }
            blocks.push(block);
        }
        let weights: Vec<_> = blocks.iter().map(|b| b.weight).collect();
        let (mut whole, mut normal) = (Own::default(), [[0.0; N]; N]);
        let isa = Isa::detect();
        simd::own(isa, &blocks, &weights, &mut whole);
        simd::normal(isa, &blocks, &weights, &mut normal);
        Some(Self {
            aspect,
            blocks,
            size: grey.size(),
            whole,
            factor: factor(&normal),
        })
    }

    /// Samples in all.
    pub fn len(&self) -> usize {
        self.whole.n as usize
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

    /// Improves a pose in at most so many steps; the best pose seen. `None` where too little of
    /// it lies in the frame.
    pub fn align(
        &self,
        pyramid: &mut Pyramid,
        scratch: &mut Scratch,
        pose: &Pose,
        effort: Effort,
    ) -> Option<Fit> {
        let quad = pose.quad(self.aspect)?;
        let level = self.level(&quad);
        let rect = around(&quad, pyramid.level(0).size())?;
        pyramid.prepare(level, rect);
        let image = pyramid.level(level);
        // Where steps may read: what was prepared.
        let limit = Limit::new(image, rect, level)?;
        let isa = scratch.isa;
        let weights = &mut scratch.weights[..self.blocks.len()];

        let (mut pose, mut quad) = (*pose, quad);
        let mut best: Option<Fit> = None;
        // Of the samples in view, where these are not all. Their normal equations are those of the
        // first step: they change how fast the fit comes near, not where it ends.
        let mut own = Own::default();
        let mut part: Option<Option<Factor>> = None;
        let mut idle = 0;
        for step in 0..=effort.steps {
            let mut sums = Sums::default();
            let view = limit.view(image, level, &pose);
            simd::read(isa, &view, &self.blocks, weights, &mut sums);
            if sums.n < MIN_IN_VIEW * self.whole.n {
                break;
            }
            let all = sums.n == self.whole.n;
            if all {
                own = self.whole;
            } else {
                simd::own(isa, &self.blocks, weights, &mut own);
            }
            let fit = Fit {
                pose,
                ncc: ncc(&sums, &own),
                in_view: sums.n / self.whole.n,
            };
            let before = best.map_or(f64::NEG_INFINITY, |b| b.ncc);
            if fit.ncc > before {
                best = Some(fit);
            }
            idle = match fit.ncc < before + effort.gain {
                true => idle + 1,
                false => 0,
            };
            let promise = PROMISE[step.min(PROMISE.len() - 1)];
            if step == effort.steps
                || idle > effort.patience
                || fit.ncc < promise
                || step == 0 && fit.ncc < effort.least
            {
                break;
            }
            let factor = match all {
                true => &self.factor,
                false => part.get_or_insert_with(|| {
                    let mut normal = [[0.0; N]; N];
                    simd::normal(isa, &self.blocks, weights, &mut normal);
                    factor(&normal)
                }),
            };
            let change = factor.as_ref().and_then(|f| change(&sums, &own, f));
            let Some(change) = change else {
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
}

/// The change of the parameters that explains the difference best.
fn change(sums: &Sums, own: &Own, factor: &Factor) -> Option<[f64; N]> {
    let (mean_i, mean_t) = (sums.i / sums.n, own.t / own.n);
    let (var_i, var_t) = variances(sums, own);
    if var_i <= 0.0 || var_t <= 0.0 {
        return None;
    }
    let gain = (var_t / var_i).sqrt();
    let right = std::array::from_fn(|k| {
        gain * (sums.descent[k] - mean_i * own.d[k]) - (own.td[k] - mean_t * own.d[k])
    });
    solve(factor, &right)
}

/// Of the frame and of the template.
fn variances(sums: &Sums, own: &Own) -> (f64, f64) {
    (
        sums.ii - sums.i * sums.i / sums.n,
        own.tt - own.t * own.t / own.n,
    )
}

fn ncc(sums: &Sums, own: &Own) -> f64 {
    let (i, t) = variances(sums, own);
    // A frame without any contrast (1 grey level) agrees with nothing.
    if i < sums.n || t <= 0.0 {
        return 0.0;
    }
    (sums.it - sums.i * own.t / sums.n) / (i * t).sqrt()
}

/// Where bilinear reading is defined, in px of a level.
struct Limit {
    x: [f32; 2],
    y: [f32; 2],
}

impl Limit {
    fn new(image: &Image<u8>, rect: Rect, level: usize) -> Option<Self> {
        let Size { width, height } = image.size();
        let (x0, y0) = (rect.x0 >> level, rect.y0 >> level);
        let x1 = (rect.x1 >> level).min(width.checked_sub(1)?);
        let y1 = (rect.y1 >> level).min(height.checked_sub(1)?);
        (x0 < x1 && y0 < y1).then_some(Self {
            x: [x0 as f32, x1 as f32],
            y: [y0 as f32, y1 as f32],
        })
    }

    /// The frame's level under a pose.
    fn view<'a>(&self, image: &'a Image<u8>, level: usize, pose: &Pose) -> View<'a> {
        // Level l's pixel (x, y) lies at ((x + 1/2) 2^l - 1/2) of the full size.
        let scale = 1.0 / (1u32 << level) as f64;
        let shift = 0.5 * scale - 0.5;
        let h = &pose.0;
        let row = |r: usize, k: usize| h[3 * r + k] * scale + shift * h[6 + k];
        let h = [
            row(0, 0),
            row(0, 1),
            row(0, 2),
            row(1, 0),
            row(1, 1),
            row(1, 2),
            h[6],
            h[7],
            h[8],
        ];
        View {
            data: image.data(),
            stride: image.stride(),
            h: h.map(|v| v as f32),
            x: self.x,
            y: self.y,
        }
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

/// Cholesky's factor of a symmetric matrix (lower half given), a little stiffened.
fn factor(normal: &[[f64; N]; N]) -> Option<Factor> {
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
    Some(l)
}

/// Solves the system whose matrix has this factor.
fn solve(l: &Factor, right: &[f64; N]) -> Option<[f64; N]> {
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

    fn steps(steps: usize) -> Effort {
        Effort {
            steps,
            least: -1.0,
            gain: 0.0,
            patience: 0,
        }
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
                let fit = face
                    .align(&mut pyramid, &mut scratch, &start, steps(20))
                    .unwrap();
                assert!(off(&start, &truth) > 4.0);
                assert!(off(&fit.pose, &truth) < 0.7, "{}", off(&fit.pose, &truth));
                assert!(fit.ncc > 0.99, "{}", fit.ncc);
                let again = face.align(&mut pyramid, &mut scratch, &start, steps(20));
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
        let fit = face
            .align(&mut pyramid, &mut scratch, &truth, steps(0))
            .unwrap();
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
        let fit = face
            .align(&mut pyramid, &mut scratch, &pose, steps(5))
            .unwrap();
        assert_eq!((fit.ncc, fit.in_view), (0.0, 1.0));
        let beside = Pose::of_quad(2.0, &quad.map(|[x, y]| [x + 900.0, y])).unwrap();
        assert_eq!(
            face.align(&mut pyramid, &mut scratch, &beside, steps(5)),
            None
        );
        // Frames too small to be read.
        for (w, h) in [(1, 1), (1, 40), (40, 1), (2, 2)] {
            let mut small = Pyramid::new(Size::new(w, h));
            assert_eq!(face.align(&mut small, &mut scratch, &pose, steps(5)), None);
        }
        let flat = Image::filled(64, 32, 7);
        let mask = Image::filled(64, 32, 1);
        assert!(Face::new(2.0, &flat, &mask).is_none());
    }

    #[test]
    fn sums_are_the_same_with_all_instructions() {
        let face = face(29);
        let mut pyramid = frame(
            &Pose::of_quad(
                2.0,
                &[[60.0, 60.0], [190.0, 70.0], [200.0, 140.0], [55.0, 125.0]],
            )
            .unwrap(),
            1.0,
            0.0,
        );
        let cut = [[-20.0, 61.0], [191.0, 70.0], [200.0, 145.0], [-15.0, 125.0]];
        let pose = Pose::of_quad(2.0, &cut).unwrap();
        let rect = around(&cut, Size::new(320, 240)).unwrap();
        pyramid.prepare(1, rect);
        for level in [0, 1] {
            let image = pyramid.level(level);
            let limit = Limit::new(image, rect, level).unwrap();
            let view = limit.view(image, level, &pose);
            let of = |isa| {
                let mut weights = vec![[0.0; LANES]; face.blocks.len()];
                let (mut sums, mut own) = (Sums::default(), Own::default());
                let mut normal = [[0.0; N]; N];
                simd::read(isa, &view, &face.blocks, &mut weights, &mut sums);
                simd::own(isa, &face.blocks, &weights, &mut own);
                simd::normal(isa, &face.blocks, &weights, &mut normal);
                (sums, own, normal)
            };
            let expected = of(Isa::Baseline);
            assert!(expected.0.n > 100.0 && expected.0.n < face.whole.n);
            for isa in Isa::available() {
                assert_eq!(of(isa), expected, "{isa:?}");
            }
            // One by one, in f64.
            let (mut n, mut sum, mut along) = (0.0, 0.0, 0.0);
            for b in &face.blocks {
                for k in (0..LANES).filter(|&k| b.weight[k] > 0.0) {
                    let [x, y] = pose.map(b.x[k].into(), b.y[k].into());
                    let (x, y) = match level {
                        0 => (x, y),
                        _ => (0.5 * x - 0.25, 0.5 * y - 0.25),
                    };
                    let within = |v: f64, [low, high]: [f32; 2]| v >= low.into() && v < high.into();
                    if !(within(x, limit.x) && within(y, limit.y)) {
                        continue;
                    }
                    let (i, j) = (x as usize, y as usize);
                    let (fx, fy) = (x - i as f64, y - j as f64);
                    let at = |i, j| f64::from(image.get(i, j));
                    let above = (1.0 - fx) * at(i, j) + fx * at(i + 1, j);
                    let below = (1.0 - fx) * at(i, j + 1) + fx * at(i + 1, j + 1);
                    let v = (1.0 - fy) * above + fy * below - 128.0;
                    n += 1.0;
                    sum += v;
                    along += v * f64::from(b.descent[4][k]);
                }
            }
            let sums = expected.0;
            assert_eq!(sums.n, n);
            assert!((sums.i - sum).abs() < 0.05, "{} {sum}", sums.i);
            let off = (sums.descent[4] - along).abs();
            assert!(
                off < 1e-3 * (1.0 + along.abs()),
                "{} {along}",
                sums.descent[4]
            );
        }
    }
}
