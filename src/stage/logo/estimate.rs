//! From pairs that agree to the pose they speak for: step 5 of the contract.
use super::{MAX_PAIRS, Params, pose::Pose, vote::Candidate};
use crate::maths::homography::{Pair, Ransac};

/// Heights of a logo's picture are so many px in the homography's first picture.
const PLANE_PX: f64 = 256.0;

/// Names the random numbers.
const SEED: u32 = 0x1060;

/// RANSAC for a homography, and its memory.
#[derive(Debug)]
pub(super) struct Projective {
    ransac: Ransac,
    min_inliers: usize,
    pairs: Vec<Pair>,
    inliers: Vec<bool>,
}

impl Projective {
    pub fn new(params: &Params) -> Self {
        Self {
            ransac: Ransac {
                hypotheses: params.hypotheses,
                threshold_px: params.inlier_px as f32,
                min_area: 16.0,
                seed: SEED,
                progressive: true,
                refits: 2,
                steps: 2,
            },
            min_inliers: params.min_inliers,
            pairs: Vec::with_capacity(MAX_PAIRS),
            inliers: vec![false; MAX_PAIRS],
        }
    }

    /// The pose that most of a cluster's pairs agree on; `None` where too few do.
    pub fn estimate(&mut self, members: &[Candidate]) -> Option<Pose> {
        if members.len() < self.min_inliers {
            return None;
        }
        self.pairs.clear();
        for c in members {
            self.pairs.push(Pair {
                from: c.plane.map(|v| v * PLANE_PX as f32),
                to: c.at,
            });
        }
        let found = self.ransac.estimate(&self.pairs, &mut self.inliers)?;
        if (found.inliers as usize) < self.min_inliers {
            return None;
        }
        let mut h = found.homography.0;
        for row in 0..3 {
            h[3 * row] *= PLANE_PX;
            h[3 * row + 1] *= PLANE_PX;
        }
        Pose(h).normalised()
    }
}

/// Least squares over a cluster: a similarity, then an affinity that is held near it where
/// the pairs say little. What lies far off weighs little.
pub(super) fn affinity(members: &[Candidate]) -> Option<Pose> {
    // The nearest descriptors make the first guess.
    let first = members.first()?;
    let [c, s] = first.turn.map(|v| f64::from(v * first.scale));
    let [x, y] = first.middle.map(f64::from);
    let mut a = [c, -s, x, s, c, y];
    for (round, share) in [0.2, 0.12, 0.08, 0.06, 0.05].into_iter().enumerate() {
        let height = (a[0] * a[4] - a[1] * a[3]).abs().sqrt();
        let reach = share * height;
        let weighted = |c: &Candidate| {
            let [px, py] = c.plane.map(f64::from);
            let [qx, qy] = c.at.map(f64::from);
            let (ex, ey) = (
                a[0] * px + a[1] * py + a[2] - qx,
                a[3] * px + a[4] * py + a[5] - qy,
            );
            let w = reach * reach / (reach * reach + ex * ex + ey * ey);
            (w * w, px, py, qx, qy)
        };
        let (mut n, mut mp, mut mq) = (0.0, [0.0; 2], [0.0; 2]);
        for c in members {
            let (w, px, py, qx, qy) = weighted(c);
            n += w;
            mp = [mp[0] + w * px, mp[1] + w * py];
            mq = [mq[0] + w * qx, mq[1] + w * qy];
        }
        if n.is_nan() || n <= 1e-9 {
            return None;
        }
        let (mp, mq) = (mp.map(|v| v / n), mq.map(|v| v / n));
        // Second moments about the means.
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        let (mut xu, mut yu, mut xv, mut yv) = (0.0, 0.0, 0.0, 0.0);
        for c in members {
            let (w, px, py, qx, qy) = weighted(c);
            let (px, py, qx, qy) = (px - mp[0], py - mp[1], qx - mq[0], qy - mq[1]);
            xx += w * px * px;
            xy += w * px * py;
            yy += w * py * py;
            xu += w * px * qx;
            yu += w * py * qx;
            xv += w * px * qy;
            yv += w * py * qy;
        }
        if xx + yy <= 1e-9 {
            return None;
        }
        let (c, s) = ((xu + yv) / (xx + yy), (xv - yu) / (xx + yy));
        let (mut l, mut m) = ([c, -s], [s, c]);
        if round >= 2 {
            let hold = 0.02 * n;
            let (p, q) = (xx + hold, yy + hold);
            let det = p * q - xy * xy;
            let solve = |u: f64, v: f64, to: [f64; 2]| {
                let (u, v) = (u + hold * to[0], v + hold * to[1]);
                [(q * u - xy * v) / det, (p * v - xy * u) / det]
            };
            l = solve(xu, yu, l);
            m = solve(xv, yv, m);
        }
        a = [
            l[0],
            l[1],
            mq[0] - l[0] * mp[0] - l[1] * mp[1],
            m[0],
            m[1],
            mq[1] - m[0] * mp[0] - m[1] * mp[1],
        ];
    }
    let [a, b, x, c, d, y] = a;
    Pose([a, b, x, c, d, y, 0.0, 0.0, 1.0]).normalised()
}
