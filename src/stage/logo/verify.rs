//! From pairs of keypoints to poses that the pixels confirm: steps 3 to 7 of the contract.
use super::{
    MAX_PAIRS, Params,
    align::{Fit, Scratch},
    features::{ANGLES, Keypoint, matcher::Match},
    pose::{self, Pose, Quad},
    pyramid::Pyramid,
    templates::{Template, Templates},
};
use crate::{
    frame::Size,
    maths::homography::{Pair, Ransac},
};

/// Heights of a logo's picture are so many px in the homography's first picture.
const PLANE_PX: f64 = 256.0;

/// Pairs that agree have sizes within this factor.
const SIZE_FACTOR: f32 = 1.6;

/// And turns within 30 degrees: the cosine.
const TURN_COS: f32 = 0.866;

/// Coarse correlation, as a share of the least that does in the end, for a finer look.
const COARSE_SHARE: f64 = 0.6;

/// Names the random numbers.
const SEED: u32 = 0x1060;

/// A keypoint of the frame and one of a template that may be the same, and where the logo would
/// be if they were.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The frame's keypoint, px.
    at: [f32; 2],
    /// The template's, in its plane.
    plane: [f32; 2],
    /// Height of the logo, px.
    scale: f32,
    /// Its turn, as a unit vector.
    turn: [f32; 2],
    /// Its middle, px.
    middle: [f32; 2],
    distance: u32,
    query: u32,
    /// How much its vote weighs.
    weight: u32,
    used: bool,
}

/// Pairs of one template that agree: a part of [`Verifier::members`].
#[derive(Clone, Copy, Debug)]
struct Cluster {
    template: u16,
    /// Sum of its votes.
    weight: u32,
    start: usize,
    end: usize,
}

/// Clusters of one template that may be looked at in a frame.
const MAX_CLUSTERS: usize = 8;

/// An unambiguous pair's vote; others weigh 1.
const CLEAR_WEIGHT: u32 = 3;

impl Candidate {
    fn agrees(&self, other: &Self) -> bool {
        if self.scale > SIZE_FACTOR * other.scale || other.scale > SIZE_FACTOR * self.scale {
            return false;
        }
        if self.turn[0] * other.turn[0] + self.turn[1] * other.turn[1] < TURN_COS {
            return false;
        }
        let square = |a: [f32; 2], b: [f32; 2]| {
            let (x, y) = (a[0] - b[0], a[1] - b[1]);
            x * x + y * y
        };
        let far = square(other.at, self.middle).sqrt();
        let reach = 0.3 * self.scale + 0.125 * far;
        square(self.middle, other.middle) <= reach * reach
    }
}

/// A logo found in a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Detection {
    pub template: u16,
    pub quad: Quad,
    pub ncc: f64,
}

/// Looks for templates among pairs.
#[derive(Debug)]
pub(super) struct Verifier {
    params: Params,
    size: Size,
    /// Cosine and sine of each angle.
    turns: Vec<[f32; 2]>,
    /// Pairs of one template.
    candidates: Vec<Candidate>,
    votes: Vec<u32>,
    /// The clusters of all templates, and their pairs.
    clusters: Vec<Cluster>,
    members: Vec<Candidate>,
    pairs: Vec<Pair>,
    inliers: Vec<bool>,
    scratch: Scratch,
}

impl Verifier {
    pub fn new(params: &Params, templates: &Templates, size: Size, keypoints: usize) -> Self {
        let turns = (0..ANGLES)
            .map(|a| {
                let angle = f64::from(a) * (std::f64::consts::TAU / f64::from(ANGLES));
                [libm::cos(angle) as f32, libm::sin(angle) as f32]
            })
            .collect();
        let n = templates.list().len();
        Self {
            params: params.clone(),
            size,
            turns,
            candidates: Vec::with_capacity(2 * keypoints),
            votes: Vec::with_capacity(MAX_PAIRS),
            clusters: Vec::with_capacity(n * MAX_CLUSTERS),
            members: Vec::with_capacity(n * MAX_PAIRS),
            pairs: Vec::with_capacity(MAX_PAIRS),
            inliers: vec![false; MAX_PAIRS],
            scratch: Scratch::new(templates.most_samples()),
        }
    }

    /// Begins a frame.
    pub fn clear(&mut self) {
        self.clusters.clear();
        self.members.clear();
    }

    /// Takes the clusters of pairs of one template whose keypoint in the frame passes `wanted`.
    pub fn gather(
        &mut self,
        index: u16,
        template: &Template,
        keypoints: &[Keypoint],
        matches: &[Match],
        wanted: impl Fn(&Keypoint) -> bool,
    ) {
        self.candidates.clear();
        for m in matches {
            let Some(k) = keypoints.get(m.query as usize).filter(|k| wanted(k)) else {
                continue;
            };
            let clear = f64::from(m.distance) < self.params.ratio * f64::from(m.second_distance);
            for (train, distance, weight) in [
                (m.train, m.distance, if clear { CLEAR_WEIGHT } else { 1 }),
                (m.second, m.second_distance, 1),
            ] {
                let Some(p) = template.points().get(train as usize) else {
                    continue;
                };
                if distance > self.params.max_distance
                    || k.sign != p.sign
                    || self.candidates.len() == self.candidates.capacity()
                {
                    continue;
                }
                let turn = self.turns[usize::from((k.angle + ANGLES - p.angle) % ANGLES)];
                let scale = k.sigma / p.sigma;
                let [c, s] = turn;
                self.candidates.push(Candidate {
                    at: [k.x, k.y],
                    plane: [p.x, p.y],
                    scale,
                    turn,
                    middle: [
                        k.x - scale * (c * p.x - s * p.y),
                        k.y - scale * (s * p.x + c * p.y),
                    ],
                    distance,
                    query: m.query,
                    weight,
                    used: false,
                });
            }
        }
        // A query's nearest comes before its second by distance, or by weight, or is as good.
        self.candidates
            .sort_unstable_by_key(|c| (c.distance, c.query, CLEAR_WEIGHT - c.weight));
        self.candidates.truncate(MAX_PAIRS);
        self.cluster(index);
    }

    /// Largest first: what agrees with a leader goes with it, and leads nothing itself.
    fn cluster(&mut self, index: u16) {
        let Self {
            candidates: all,
            votes,
            clusters,
            members,
            ..
        } = self;
        let count = |all: &[Candidate], leader: &Candidate| {
            let agree = all.iter().filter(|c| !c.used && leader.agrees(c));
            agree.fold((0, 0), |(n, w), c| (n + 1, w + c.weight))
        };
        votes.clear();
        votes.extend(all.iter().map(|leader| count(all, leader).1));
        for _ in 0..MAX_CLUSTERS {
            // Votes only fall while pairs are used: the first whose count still holds leads.
            let (leader, n, weight) = loop {
                let mut best = (0, 0);
                for (i, v) in votes.iter().enumerate() {
                    if *v > best.0 && !all[i].used {
                        best = (*v, i);
                    }
                }
                if best.0 == 0 {
                    return;
                }
                let (n, weight) = count(all, &all[best.1]);
                if weight == best.0 {
                    break (best.1, n, weight);
                }
                votes[best.1] = weight;
            };
            if n < self.params.min_votes {
                votes[leader] = 0;
                continue;
            }
            let start = members.len();
            let leader = all[leader];
            for c in all.iter_mut() {
                if !c.used && leader.agrees(c) {
                    c.used = true;
                    members.push(*c);
                }
            }
            clusters.push(Cluster {
                template: index,
                weight,
                start,
                end: members.len(),
            });
        }
    }

    /// Sorts the clusters by their votes; how many there are.
    pub fn rank(&mut self) -> usize {
        self.clusters
            .sort_unstable_by_key(|c| (std::cmp::Reverse(c.weight), c.template, c.start));
        self.clusters.len()
    }

    /// The template of cluster number `rank`.
    pub fn template_of(&self, rank: usize) -> u16 {
        self.clusters[rank].template
    }

    /// The pose of cluster number `rank`, if the pixels confirm it.
    pub fn confirm(
        &mut self,
        rank: usize,
        template: &Template,
        pyramid: &mut Pyramid,
    ) -> Option<Detection> {
        let cluster = self.clusters[rank];
        let affine = self.affinity(&cluster)?;
        let projective = self.projective(&cluster);
        let mut best: Option<Fit> = None;
        let steps = self.params.fit_steps;
        let [coarse, _] = template.faces();
        for start in [projective, Some(affine)].into_iter().flatten() {
            if self.plausible(&start, template).is_none() {
                continue;
            }
            let fit = coarse.align(pyramid, &mut self.scratch, &start, steps);
            if let Some(fit) = fit
                && best.is_none_or(|b| fit.ncc > b.ncc)
            {
                best = Some(fit);
            }
        }
        let best = best.filter(|b| b.ncc >= COARSE_SHARE * self.params.min_ncc)?;
        self.finish(cluster.template, template, pyramid, &best.pose)
    }

    /// Looks for a template where it is expected.
    pub fn expect(
        &mut self,
        index: u16,
        template: &Template,
        pyramid: &mut Pyramid,
        quad: &Quad,
    ) -> Option<Detection> {
        let start = Pose::of_quad(template.aspect(), quad)?;
        self.plausible(&start, template)?;
        let [coarse, _] = template.faces();
        let steps = self.params.fit_steps;
        let fit = coarse.align(pyramid, &mut self.scratch, &start, steps)?;
        (fit.ncc >= COARSE_SHARE * self.params.min_ncc).then_some(())?;
        self.finish(index, template, pyramid, &fit.pose)
    }

    /// The fine fit and the judgement.
    fn finish(
        &mut self,
        index: u16,
        template: &Template,
        pyramid: &mut Pyramid,
        start: &Pose,
    ) -> Option<Detection> {
        let [_, fine] = template.faces();
        let fit = fine.align(pyramid, &mut self.scratch, start, self.params.fit_steps)?;
        let quad = self.plausible(&fit.pose, template)?;
        (fit.ncc >= self.params.min_ncc).then_some(Detection {
            template: index,
            quad,
            ncc: fit.ncc,
        })
    }

    /// The quad of a pose that a camera may see.
    fn plausible(&self, pose: &Pose, template: &Template) -> Option<Quad> {
        let quad = pose.quad(template.aspect())?;
        if !pose::convex(&quad) {
            return None;
        }
        let (across, down) = pose::sides(&quad);
        let ratio = across / (down * template.aspect());
        let most = self.params.max_side_ratio;
        if !(ratio <= most && ratio * most >= 1.0) {
            return None;
        }
        let area = 0.5 * pose::twice_area(&quad);
        let least = self.params.min_side_px;
        // A logo cut by the frame's edge may be larger than what is seen of it.
        let largest = 2.0 * self.size.area() as f64;
        (area >= least * least && area <= largest).then_some(quad)
    }

    /// RANSAC over the cluster.
    fn projective(&mut self, cluster: &Cluster) -> Option<Pose> {
        let members = &self.members[cluster.start..cluster.end];
        if members.len() < self.params.min_inliers {
            return None;
        }
        self.pairs.clear();
        for c in members {
            self.pairs.push(Pair {
                from: c.plane.map(|v| v * PLANE_PX as f32),
                to: c.at,
            });
        }
        let ransac = Ransac {
            hypotheses: self.params.hypotheses,
            threshold_px: self.params.inlier_px as f32,
            min_area: 16.0,
            seed: SEED,
            progressive: true,
            refits: 2,
            steps: 2,
        };
        let found = ransac.estimate(&self.pairs, &mut self.inliers)?;
        if (found.inliers as usize) < self.params.min_inliers {
            return None;
        }
        let mut h = found.homography.0;
        for row in 0..3 {
            h[3 * row] *= PLANE_PX;
            h[3 * row + 1] *= PLANE_PX;
        }
        Pose(h).normalised()
    }

    /// Least squares over the cluster: a similarity, then an affinity that is held near it where
    /// the pairs say little. What lies far off weighs little.
    fn affinity(&self, cluster: &Cluster) -> Option<Pose> {
        let members = &self.members[cluster.start..cluster.end];
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
}
