//! Homographies: from four pairs of points, from many, and from many of which most are wrong.
//!
//! # The numeric contract
//! Homographies are `f64`; what is done for each pair ([`Scorer`], sums of the refit) is `f32`,
//! since that is most of the work and small devices have little `f64`. `+ - * /` alone, in the
//! order written here.
//! 1. **Four points** ([`Homography::through`]). With the points as homogeneous vectors
//!    `p1..p4 -> q1..q4` and `l_i`, `m_i` the signed areas of the triangles that take the place
//!    of point `i` by the fourth, `H = SUM_i m_i l_j l_k q_i (p_j x p_k)^T` (i, j, k cyclic over
//!    the first three): the map between the two projective frames, without a division (Hartley
//!    and Zisserman, Multiple View Geometry, 2.3). The areas also say when three points are
//!    nearly in line, and their signs when a map would turn the picture inside out.
//! 2. **Hypotheses.** Number `t` takes the four pairs that a hash of `(seed, t)` names. The one
//!    with the most inliers wins, then the lower number.
//! 3. **Refit** ([`refit`]): Gauss-Newton steps on the transfer error in the second picture,
//!    in coordinates that are centred on the inliers' bounding box and scaled by the power of 2
//!    above its half side (minima and maxima depend on no order). Residuals are of the `f32`
//!    map at hand, so that rounding ends at some 1e-7 of the box. The 27 sums are each 32 partial sums, of the pairs
//!    whose number is `l` modulo 32, each in ascending order, then added up in halves:
//!    `s[l] += s[l + 16]`, 8, 4, 2, 1: what the lanes of a warp do. The normal equations are
//!    reduced to 3x3 and 2x2 (Schur complement).
use super::random;

/// Lanes of a sum; see the module.
pub const LANES: usize = 32;

/// A point and where it went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    /// x and y in the first picture, px.
    pub from: [f32; 2],
    /// x and y in the second picture, px.
    pub to: [f32; 2],
}

/// A 3x3 matrix, row-major, that maps `(x, y, 1)`. Its scale is free; homographies made here are
/// positive (`h6 x + h7 y + h8 > 0`) where the points that made them lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Homography(pub [f64; 9]);

/// Twice the signed area of a triangle.
#[inline]
fn area(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

impl Homography {
    /// Moves nothing.
    pub const IDENTITY: Self = Self([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);

    /// The homography through four pairs, with `h6 x + h7 y + h8 = 1` at the fourth.
    ///
    /// `None` where twice the area of any triangle of three of the points, in either picture, is
    /// below `min_area` (px^2; at least 0, and an area of 0 is always refused), or where a
    /// triangle's orientation changes: no camera sees a plane so.
    pub fn through(pairs: &[Pair; 4], min_area: f64) -> Option<Self> {
        let point = |p: [f32; 2]| [f64::from(p[0]), f64::from(p[1])];
        let (origin, target) = (point(pairs[3].from), point(pairs[3].to));
        // Relative to the fourth point, which becomes the origin of both pictures.
        let mut p = [[0.0; 2]; 3];
        let mut q = [[0.0; 2]; 3];
        for i in 0..3 {
            let (from, to) = (point(pairs[i].from), point(pairs[i].to));
            p[i] = [from[0] - origin[0], from[1] - origin[1]];
            q[i] = [to[0] - target[0], to[1] - target[1]];
        }
        // p_j x p_k of homogeneous vectors ends in the triangle (4, j, k)'s area.
        let cross = |a: [f64; 2], b: [f64; 2]| a[0] * b[1] - a[1] * b[0];
        let l = [cross(p[1], p[2]), cross(p[2], p[0]), cross(p[0], p[1])];
        let m = [cross(q[1], q[2]), cross(q[2], q[0]), cross(q[0], q[1])];
        let (whole, target_whole) = (area(p[0], p[1], p[2]), area(q[0], q[1], q[2]));
        let fits = |a: f64, b: f64| {
            let (a, b) = if a < 0.0 { (-a, -b) } else { (a, b) };
            a > 0.0 && b > 0.0 && a >= min_area && b >= min_area
        };
        if !(fits(l[0], m[0]) && fits(l[1], m[1]) && fits(l[2], m[2]) && fits(whole, target_whole))
        {
            return None;
        }
        let mut h = [0.0; 9];
        for i in 0..3 {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            let c = m[i] * (l[j] * l[k]);
            let normal = [c * (p[j][1] - p[k][1]), c * (p[k][0] - p[j][0]), c * l[i]];
            for n in 0..3 {
                h[n] += q[i][0] * normal[n];
                h[3 + n] += q[i][1] * normal[n];
                h[6 + n] += normal[n];
            }
        }
        let w = h[8];
        for v in &mut h {
            *v /= w;
        }
        // Back to the pictures' own origins.
        h[2] -= h[0] * origin[0] + h[1] * origin[1];
        h[5] -= h[3] * origin[0] + h[4] * origin[1];
        h[8] -= h[6] * origin[0] + h[7] * origin[1];
        for n in 0..3 {
            h[n] += target[0] * h[6 + n];
            h[3 + n] += target[1] * h[6 + n];
        }
        h.iter().all(|v| v.is_finite()).then_some(Self(h))
    }

    /// Where a point goes; `None` on or behind the horizon.
    #[inline]
    pub fn apply(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        let h = &self.0;
        let w = h[6] * x + h[7] * y + h[8];
        (w > 0.0).then(|| {
            [
                (h[0] * x + h[1] * y + h[2]) / w,
                (h[3] * x + h[4] * y + h[5]) / w,
            ]
        })
    }

    /// The determinant.
    pub fn determinant(&self) -> f64 {
        let h = &self.0;
        h[0] * (h[4] * h[8] - h[5] * h[7]) - h[1] * (h[3] * h[8] - h[5] * h[6])
            + h[2] * (h[3] * h[7] - h[4] * h[6])
    }

    /// The transposed cofactors: the way back but for a factor, and there for every matrix.
    pub fn adjugate(&self) -> [f64; 9] {
        let h = &self.0;
        [
            h[4] * h[8] - h[5] * h[7],
            h[2] * h[7] - h[1] * h[8],
            h[1] * h[5] - h[2] * h[4],
            h[5] * h[6] - h[3] * h[8],
            h[0] * h[8] - h[2] * h[6],
            h[2] * h[3] - h[0] * h[5],
            h[3] * h[7] - h[4] * h[6],
            h[1] * h[6] - h[0] * h[7],
            h[0] * h[4] - h[1] * h[3],
        ]
    }

    /// The way back, positive where this one's points land; `None` for a singular matrix.
    pub fn inverse(&self) -> Option<Self> {
        let d = self.determinant();
        let inverse = self.adjugate().map(|v| v / d);
        (d != 0.0 && inverse.iter().all(|v| v.is_finite())).then_some(Self(inverse))
    }

    /// First this one, then `next`.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        let (a, b) = (&next.0, &self.0);
        let mut h = [0.0; 9];
        for row in 0..3 {
            for column in 0..3 {
                h[3 * row + column] = a[3 * row] * b[column]
                    + a[3 * row + 1] * b[3 + column]
                    + a[3 * row + 2] * b[6 + column];
            }
        }
        Self(h)
    }

    /// The same map with `h8 = 1`; `None` where the origin lies on or behind the horizon.
    pub fn normalised(&self) -> Option<Self> {
        let w = self.0[8];
        let h = self.0.map(|v| v / w);
        (w > 0.0 && h.iter().all(|v| v.is_finite())).then_some(Self(h))
    }

    /// Rounded to `f32`.
    pub fn to_f32(&self) -> [f32; 9] {
        self.0.map(|v| v as f32)
    }
}

/// Tests pairs against one homography.
#[derive(Clone, Copy, Debug)]
pub struct Scorer {
    h: [f32; 9],
    /// Squared distance.
    limit: f32,
}

impl Scorer {
    /// Pairs whose second point lies within `threshold_px` of where the map puts the first.
    pub fn new(homography: &Homography, threshold_px: f32) -> Self {
        Self {
            h: homography.to_f32(),
            limit: threshold_px * threshold_px,
        }
    }

    /// Whether the map explains the pair. No division: `|H p - w q|^2 <= t^2 w^2` and `w > 0`.
    #[inline]
    pub fn fits(&self, pair: &Pair) -> bool {
        let ([x, y], [u, v], h) = (pair.from, pair.to, &self.h);
        let w = (h[6] * x + h[7] * y) + h[8];
        let dx = ((h[0] * x + h[1] * y) + h[2]) - w * u;
        let dy = ((h[3] * x + h[4] * y) + h[5]) - w * v;
        (dx * dx + dy * dy <= self.limit * (w * w)) & (w > 0.0)
    }

    /// How many of the pairs it explains.
    pub fn count(&self, pairs: &[Pair]) -> u32 {
        pairs.iter().map(|p| u32::from(self.fits(p))).sum()
    }

    /// Which of the pairs it explains; how many.
    ///
    /// # Panics
    /// When `inliers` is shorter than `pairs`.
    pub fn mark(&self, pairs: &[Pair], inliers: &mut [bool]) -> u32 {
        let inliers = &mut inliers[..pairs.len()];
        let mut count = 0;
        for (pair, inlier) in pairs.iter().zip(inliers) {
            *inlier = self.fits(pair);
            count += u32::from(*inlier);
        }
        count
    }
}

/// How a homography is looked for among pairs of which many are wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ransac {
    /// Hypotheses tried; always all of them. 256 find a map that 40 % of the pairs obey with
    /// 99.8 %, 1,024 one that 29 % obey.
    pub hypotheses: u32,
    /// How far from its place a pair's second point may lie, px.
    pub threshold_px: f32,
    /// Twice the least area of a triangle of the sample, px^2, in both pictures.
    pub min_area: f64,
    /// Names the random numbers.
    pub seed: u32,
    /// The pairs are sorted, best first: early hypotheses draw from the best alone. Number `t`
    /// of `T` draws from the first `4 + (n - 4) (t + 1) / T` (a linear PROSAC).
    pub progressive: bool,
    /// Rounds of refitting to all inliers and looking for the inliers again.
    pub refits: u32,
    /// Gauss-Newton steps of each round.
    pub steps: u32,
}

impl Default for Ransac {
    fn default() -> Self {
        Self {
            hypotheses: 256,
            threshold_px: 1.0,
            min_area: 16.0,
            seed: 0,
            progressive: false,
            refits: 2,
            steps: 2,
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The map.
    pub homography: Homography,
    /// Pairs that it explains.
    pub inliers: u32,
}

impl Ransac {
    /// Hypothesis number `t` of `n >= 4` pairs; `None` for a degenerate sample.
    #[inline]
    pub fn hypothesis(&self, pairs: &[Pair], t: u32) -> Option<Homography> {
        let n = pairs.len() as u32;
        let pool = if self.progressive {
            4 + (u64::from(n - 4) * (u64::from(t) + 1) / u64::from(self.hypotheses)) as u32
        } else {
            n
        };
        let sample = random::four_of(pool, self.seed, t).map(|i| pairs[i as usize]);
        Homography::through(&sample, self.min_area)
    }

    /// The map that explains most of the pairs, refitted to all that it explains, and which these
    /// are (`inliers[i]` belongs to `pairs[i]`; entries beyond the pairs stay as they are).
    /// `None` for fewer than four pairs and where every sample is degenerate; then no pair is an
    /// inlier.
    ///
    /// # Panics
    /// When `inliers` is shorter than `pairs`.
    pub fn estimate(&self, pairs: &[Pair], inliers: &mut [bool]) -> Option<Estimate> {
        inliers[..pairs.len()].fill(false);
        if pairs.len() < 4 {
            return None;
        }
        let mut best: Option<Estimate> = None;
        for t in 0..self.hypotheses {
            let Some(homography) = self.hypothesis(pairs, t) else {
                continue;
            };
            let inliers = Scorer::new(&homography, self.threshold_px).count(pairs);
            if best.is_none_or(|best| inliers > best.inliers) {
                best = Some(Estimate {
                    homography,
                    inliers,
                });
            }
        }
        let mut best = best?;
        for _ in 0..self.refits {
            Scorer::new(&best.homography, self.threshold_px).mark(pairs, inliers);
            let Some(homography) = refit(&best.homography, pairs, inliers, self.steps) else {
                break;
            };
            let count = Scorer::new(&homography, self.threshold_px).count(pairs);
            if count < best.inliers {
                break;
            }
            best = Estimate {
                homography,
                inliers: count,
            };
        }
        Scorer::new(&best.homography, self.threshold_px).mark(pairs, inliers);
        Some(best)
    }
}

/// Centre of a bounding box, and the power of 2 from 1 on that is at least its half side: it
/// scales without rounding.
#[derive(Clone, Copy)]
struct Frame {
    x: f32,
    y: f32,
    scale: f32,
}

impl Frame {
    fn of(low: [f32; 2], high: [f32; 2]) -> Self {
        let (a, b) = ((high[0] - low[0]) * 0.5, (high[1] - low[1]) * 0.5);
        let half = if a > b { a } else { b };
        let mut scale = 1.0;
        while scale < half {
            scale *= 2.0;
        }
        Self {
            x: (low[0] + high[0]) * 0.5,
            y: (low[1] + high[1]) * 0.5,
            scale,
        }
    }

    fn enter(&self, p: [f32; 2]) -> [f32; 2] {
        [(p[0] - self.x) / self.scale, (p[1] - self.y) / self.scale]
    }

    /// Centre and scale.
    fn wide(&self) -> [f64; 3] {
        [self.x, self.y, self.scale].map(f64::from)
    }
}

/// Steps `steps` times from `start` towards the least squared transfer error of the marked pairs.
/// `None` where these do not determine a homography (fewer than four, in line).
///
/// # Panics
/// When `inliers` is shorter than `pairs`.
pub fn refit(
    start: &Homography,
    pairs: &[Pair],
    inliers: &[bool],
    steps: u32,
) -> Option<Homography> {
    let inliers = &inliers[..pairs.len()];
    let chosen = || {
        pairs
            .iter()
            .zip(inliers)
            .filter(|(_, i)| **i)
            .map(|(p, _)| p)
    };
    let (mut low, mut high) = ([f32::MAX; 4], [f32::MIN; 4]);
    let mut count = 0u32;
    for p in chosen() {
        for (i, v) in [p.from[0], p.from[1], p.to[0], p.to[1]]
            .into_iter()
            .enumerate()
        {
            low[i] = if v < low[i] { v } else { low[i] };
            high[i] = if v > high[i] { v } else { high[i] };
        }
        count += 1;
    }
    if count < 4 {
        return None;
    }
    let from = Frame::of([low[0], low[1]], [high[0], high[1]]);
    let to = Frame::of([low[2], low[3]], [high[2], high[3]]);
    // Between the boxes: to^-1 H from, its last element 1.
    let ([fx, fy, from_scale], [tx, ty, to_scale]) = (from.wide(), to.wide());
    let mut h = start.0;
    for row in 0..3 {
        let (a, b, c) = (h[3 * row], h[3 * row + 1], h[3 * row + 2]);
        h[3 * row] = a * from_scale;
        h[3 * row + 1] = b * from_scale;
        h[3 * row + 2] = (a * fx + b * fy) + c;
    }
    for n in 0..3 {
        h[n] = (h[n] - tx * h[6 + n]) / to_scale;
        h[3 + n] = (h[3 + n] - ty * h[6 + n]) / to_scale;
    }
    let w = h[8];
    let in_front = w > 0.0;
    if !in_front {
        return None;
    }
    for v in &mut h {
        *v /= w;
    }
    for _ in 0..steps {
        let rounded = h.map(|v| v as f32);
        let mut lanes = [[0.0; SUMS]; LANES];
        for (i, pair) in pairs.iter().enumerate() {
            if inliers[i] {
                add(
                    &mut lanes[i % LANES],
                    &rounded,
                    from.enter(pair.from),
                    to.enter(pair.to),
                );
            }
        }
        let mut half = LANES / 2;
        while half > 0 {
            let (low, high) = lanes.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                for (low, high) in low.iter_mut().zip(high) {
                    *low += *high;
                }
            }
            half /= 2;
        }
        let step = solve(&lanes[0].map(f64::from))?;
        for (v, d) in h.iter_mut().zip(step) {
            *v += d;
        }
    }
    // And out of the boxes.
    for n in 0..3 {
        h[n] = h[n] * to_scale + tx * h[6 + n];
        h[3 + n] = h[3 + n] * to_scale + ty * h[6 + n];
    }
    for row in 0..3 {
        let (a, b) = (h[3 * row] / from_scale, h[3 * row + 1] / from_scale);
        h[3 * row] = a;
        h[3 * row + 1] = b;
        h[3 * row + 2] -= a * fx + b * fy;
    }
    h.iter().all(|v| v.is_finite()).then_some(Homography(h))
}

/// Sums of the normal equations: `A` 0..6 (xx xy yy x y 1), `Bu` 6..11 (xx xy yy x y), `Bv`
/// 11..16, `C` 16..19 (xx xy yy), right sides 19..27 (u: x y 1, v: x y 1, x y).
const SUMS: usize = 27;

/// Adds one pair to its lane's sums.
#[inline]
fn add(s: &mut [f32; SUMS], h: &[f32; 9], [x, y]: [f32; 2], [u, v]: [f32; 2]) {
    let w = 1.0 / ((h[6] * x + h[7] * y) + 1.0);
    let pu = ((h[0] * x + h[1] * y) + h[2]) * w;
    let pv = ((h[3] * x + h[4] * y) + h[5]) * w;
    let (ru, rv) = ((u - pu) * w, (v - pv) * w);
    let ww = w * w;
    let (wx, wy) = (ww * x, ww * y);
    let (xx, xy, yy) = (wx * x, wx * y, wy * y);
    let rest = pu * pu + pv * pv;
    for (s, m) in s[..6].iter_mut().zip([xx, xy, yy, wx, wy, ww]) {
        *s += m;
    }
    for (s, m) in s[6..11].iter_mut().zip([xx, xy, yy, wx, wy]) {
        *s += pu * m;
    }
    for (s, m) in s[11..16].iter_mut().zip([xx, xy, yy, wx, wy]) {
        *s += pv * m;
    }
    for (s, m) in s[16..19].iter_mut().zip([xx, xy, yy]) {
        *s += rest * m;
    }
    let r = pu * ru + pv * rv;
    for (s, m) in s[19..]
        .iter_mut()
        .zip([ru * x, ru * y, ru, rv * x, rv * y, rv, r * x, r * y])
    {
        *s += m;
    }
}

/// Solves the normal equations: the change of `h0..h7` (and 0 for `h8`).
///
/// With `g = (h6, h7)`, the unknowns of u and of v see `g` through `-Bu` and `-Bv` and share the
/// 3x3 matrix `A`, so `(C - Bu' A^-1 Bu - Bv' A^-1 Bv) g = -(r - Bu' A^-1 ru - Bv' A^-1 rv)`.
fn solve(s: &[f64; SUMS]) -> Option<[f64; 9]> {
    let [xx, xy, yy, x, y, n] = [s[0], s[1], s[2], s[3], s[4], s[5]];
    let c = [
        yy * n - y * y,
        x * y - xy * n,
        xy * y - yy * x,
        xx * n - x * x,
        xy * x - xx * y,
        xx * yy - xy * xy,
    ];
    let d = (xx * c[0] + xy * c[1]) + x * c[2];
    let spread = d > 1e-5 * (n * n * n);
    if !spread {
        return None;
    }
    // A^-1 times a vector.
    let inverse = |v: [f64; 3]| {
        [
            ((c[0] * v[0] + c[1] * v[1]) + c[2] * v[2]) / d,
            ((c[1] * v[0] + c[3] * v[1]) + c[4] * v[2]) / d,
            ((c[2] * v[0] + c[4] * v[1]) + c[5] * v[2]) / d,
        ]
    };
    let dot = |a: [f64; 3], b: [f64; 3]| (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2];
    let b = |at: usize| {
        [
            [s[at], s[at + 1], s[at + 3]],
            [s[at + 1], s[at + 2], s[at + 4]],
        ]
    };
    let (bu, bv) = (b(6), b(11));
    let (ru, rv) = ([s[19], s[20], s[21]], [s[22], s[23], s[24]]);
    let (au, av) = (bu.map(inverse), bv.map(inverse));
    let (iu, iv) = (inverse(ru), inverse(rv));
    let m = [
        (s[16] - dot(bu[0], au[0])) - dot(bv[0], av[0]),
        (s[17] - dot(bu[0], au[1])) - dot(bv[0], av[1]),
        (s[18] - dot(bu[1], au[1])) - dot(bv[1], av[1]),
    ];
    let r = [
        (dot(bu[0], iu) - s[25]) + dot(bv[0], iv),
        (dot(bu[1], iu) - s[26]) + dot(bv[1], iv),
    ];
    let e = m[0] * m[2] - m[1] * m[1];
    let determined = e > 1e-8 * (n * n);
    if !determined {
        return None;
    }
    let g = [
        (m[2] * r[0] - m[1] * r[1]) / e,
        (m[0] * r[1] - m[1] * r[0]) / e,
    ];
    let back = |i: [f64; 3], a: [[f64; 3]; 2]| {
        [
            (i[0] + a[0][0] * g[0]) + a[1][0] * g[1],
            (i[1] + a[0][1] * g[0]) + a[1][1] * g[1],
            (i[2] + a[0][2] * g[0]) + a[1][2] * g[1],
        ]
    };
    let (hu, hv) = (back(iu, au), back(iv, av));
    Some([hu[0], hu[1], hu[2], hv[0], hv[1], hv[2], g[0], g[1], 0.0])
}
