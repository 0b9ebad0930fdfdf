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

/// And turns within 30 degrees, in 1/[`ANGLES`] of a turn.
const TURN: u16 = 85;

/// Coarse correlation, as a share of the least that does in the end, for a finer look.
const COARSE_SHARE: f64 = 0.6;

/// Share of the way from the least correlation to 1 that a logo without any pair would have to
/// make up.
const MISSING_SHARE: f64 = 0.6;

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
    /// Its turn, in 1/[`ANGLES`] and as a unit vector.
    angle: u16,
    turn: [f32; 2],
    /// Its middle, px.
    middle: [f32; 2],
    distance: u32,
    query: u32,
    /// Whether this is the keypoint's second nearest.
    second: bool,
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
    /// The order of pairs. A keypoint has two: the nearest and the second.
    fn rank(&self) -> (u32, u32, bool) {
        (self.distance, self.query, self.second)
    }

    /// Whether size and middle agree; the turn is the caller's.
    fn agrees(&self, other: &Self) -> bool {
        if self.scale > SIZE_FACTOR * other.scale || other.scale > SIZE_FACTOR * self.scale {
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

/// The places in `order` (candidates by their angle) of those not used that agree with the one at
/// place `p`, itself included.
fn agreeing<'a>(
    all: &'a [Candidate],
    order: &'a [u16],
    p: usize,
) -> impl Iterator<Item = &'a u16> + 'a {
    let n = order.len();
    let leader = &all[usize::from(order[p])];
    let angle = move |i: usize| all[usize::from(order[i])].angle;
    // Onwards and back from `p`, around the circle; equal angles before `p` are met going back.
    let onwards = (1..n)
        .map(move |k| ((p + k) % n, p + k >= n))
        .take_while(move |&(i, around)| {
            let d = (angle(i) + ANGLES - leader.angle) % ANGLES;
            d <= TURN && !(around && d == 0)
        });
    let back = (1..n)
        .map(move |k| ((p + n - k) % n, k > p))
        .take_while(move |&(i, around)| {
            let d = (leader.angle + ANGLES - angle(i)) % ANGLES;
            d <= TURN && !(around && d == 0)
        });
    std::iter::once((p, false))
        .chain(onwards)
        .chain(back)
        .map(move |(i, _)| &order[i])
        .filter(move |i| {
            let c = &all[usize::from(**i)];
            !c.used && leader.agrees(c)
        })
}

/// The correlation that a logo needs which so many pairs speak for: the fewer, the higher. A ring
/// or a triangle alone correlates well with road signs.
fn needed_ncc(params: &Params, support: usize) -> f64 {
    let missing = params.min_inliers.saturating_sub(support) as f64 / params.min_inliers as f64;
    params.min_ncc + MISSING_SHARE * missing * (1.0 - params.min_ncc)
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
    /// The pairs by their angle, and where in that order each is.
    order: Vec<u16>,
    places: Vec<u16>,
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
            order: Vec::with_capacity(MAX_PAIRS),
            places: Vec::with_capacity(MAX_PAIRS),
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
            let weight = if clear { CLEAR_WEIGHT } else { 1 };
            for (train, distance, weight, second) in [
                (m.train, m.distance, weight, false),
                (m.second, m.second_distance, 1, true),
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
                    angle: (k.angle + ANGLES - p.angle) % ANGLES,
                    turn,
                    middle: [
                        k.x - scale * (c * p.x - s * p.y),
                        k.y - scale * (s * p.x + c * p.y),
                    ],
                    distance,
                    query: m.query,
                    second,
                    weight,
                    used: false,
                });
            }
        }
        if self.candidates.len() > MAX_PAIRS {
            self.candidates
                .select_nth_unstable_by_key(MAX_PAIRS, Candidate::rank);
            self.candidates.truncate(MAX_PAIRS);
        }
        self.candidates.sort_unstable_by_key(Candidate::rank);
        self.cluster(index);
    }

    /// Largest first: what agrees with a leader goes with it, and leads nothing itself.
    fn cluster(&mut self, index: u16) {
        let Self {
            candidates: all,
            votes,
            order,
            places,
            clusters,
            members,
            ..
        } = self;
        let n = all.len() as u16;
        order.clear();
        order.extend(0..n);
        order.sort_unstable_by_key(|&i| (all[usize::from(i)].angle, i));
        places.clear();
        places.resize(all.len(), 0);
        for (place, &i) in (0..n).zip(order.iter()) {
            places[usize::from(i)] = place;
        }
        let count = |all: &[Candidate], i: usize| {
            agreeing(all, order, places[i].into())
                .fold((0, 0), |(n, w), &i| (n + 1, w + all[usize::from(i)].weight))
        };
        votes.clear();
        votes.extend((0..all.len()).map(|i| count(all, i).1));
        for _ in 0..MAX_CLUSTERS {
            // Votes only fall while pairs are used: the first whose count still holds leads.
            let (leader, n) = loop {
                let mut best = (0, 0);
                for (i, v) in votes.iter().enumerate() {
                    if *v > best.0 && !all[i].used {
                        best = (*v, i);
                    }
                }
                // So many pairs weigh at least as much.
                if (best.0 as usize) < self.params.min_votes {
                    return;
                }
                let (n, weight) = count(all, best.1);
                if weight == best.0 {
                    break (best.1, n);
                }
                votes[best.1] = weight;
            };
            if n < self.params.min_votes {
                votes[leader] = 0;
                continue;
            }
            let start = members.len();
            let weight = votes[leader];
            for &i in agreeing(all, order, places[leader].into()) {
                members.push(all[usize::from(i)]);
            }
            members[start..].sort_unstable_by_key(Candidate::rank);
            for c in all.iter_mut() {
                // Those taken, which are the only ones of their rank.
                c.used |= members[start..]
                    .binary_search_by_key(&c.rank(), Candidate::rank)
                    .is_ok();
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

    /// The template of cluster number `rank`, and where it puts the logo's middle.
    pub fn cluster_of(&self, rank: usize) -> (u16, [f64; 2]) {
        let cluster = &self.clusters[rank];
        // Of the pair with the nearest descriptors.
        let middle = self.members[cluster.start].middle.map(f64::from);
        (cluster.template, middle)
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
        let (detection, pose) = self.finish(cluster.template, template, pyramid, &best.pose)?;
        let needed = needed_ncc(&self.params, self.support(&cluster, &pose, &detection.quad));
        (detection.ncc >= needed).then_some(detection)
    }

    /// How many points of the template have a pair in the cluster that the pose explains.
    fn support(&self, cluster: &Cluster, pose: &Pose, quad: &Quad) -> usize {
        let (_, height) = pose::sides(quad);
        let reach = self.params.inlier_px.max(0.05 * height);
        let explained = |c: &&Candidate| {
            let [x, y] = pose.map(f64::from(c.plane[0]), f64::from(c.plane[1]));
            let (dx, dy) = (x - f64::from(c.at[0]), y - f64::from(c.at[1]));
            dx * dx + dy * dy <= reach * reach
        };
        let members = &self.members[cluster.start..cluster.end];
        members.iter().filter(explained).count()
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
        let found = self.finish(index, template, pyramid, &fit.pose)?;
        Some(found.0)
    }

    /// The fine fit and the judgement.
    fn finish(
        &mut self,
        index: u16,
        template: &Template,
        pyramid: &mut Pyramid,
        start: &Pose,
    ) -> Option<(Detection, Pose)> {
        let [_, fine] = template.faces();
        let fit = fine.align(pyramid, &mut self.scratch, start, self.params.fit_steps)?;
        let quad = self.plausible(&fit.pose, template)?;
        let detection = Detection {
            template: index,
            quad,
            ncc: fit.ncc,
        };
        (fit.ncc >= self.params.min_ncc).then_some((detection, fit.pose))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evaluate::logos::{composite::Chance, marks::MARKS},
        stage::logo::{BuildOptions, features::FeatureParams},
    };

    const SIZE: Size = Size::new(1280, 720);

    fn templates() -> Templates {
        let (grey, _) = MARKS[1].picture(128);
        let options = BuildOptions {
            heights: vec![128, 64],
            views: false,
            ..BuildOptions::default()
        };
        let pictures = vec![("m".to_owned(), grey, None)];
        Templates::of_pictures(pictures, &FeatureParams::default(), &options).unwrap()
    }

    /// Every `step`th point of the template as a camera would see it, with a match.
    fn seen(
        template: &Template,
        pose: &Pose,
        (scale, turn): (f32, u16),
        step: usize,
        keypoints: &mut Vec<Keypoint>,
        matches: &mut Vec<Match>,
    ) {
        for (i, p) in template.points().iter().enumerate().step_by(step) {
            let [x, y] = pose.map(p.x.into(), p.y.into());
            matches.push(Match {
                query: keypoints.len() as u32,
                train: i as u32,
                distance: 20 + (i % 7) as u32,
                second: i as u32,
                second_distance: 100,
            });
            keypoints.push(Keypoint {
                x: x as f32,
                y: y as f32,
                sigma: p.sigma * scale,
                angle: (p.angle + turn) % ANGLES,
                sign: p.sign,
                ..Keypoint::default()
            });
        }
    }

    /// Keypoints that match anything.
    fn noise(
        template: &Template,
        count: usize,
        chance: &mut Chance,
        keypoints: &mut Vec<Keypoint>,
        matches: &mut Vec<Match>,
    ) {
        for _ in 0..count {
            let train = chance.below(template.points().len()) as u32;
            matches.push(Match {
                query: keypoints.len() as u32,
                train,
                distance: 30 + chance.below(40) as u32,
                second: train,
                second_distance: 80,
            });
            keypoints.push(Keypoint {
                x: chance.between(0.0, 1280.0) as f32,
                y: chance.between(0.0, 720.0) as f32,
                sigma: chance.between(1.6, 20.0) as f32,
                angle: chance.below(1024) as u16,
                sign: template.points()[train as usize].sign,
                ..Keypoint::default()
            });
        }
    }

    fn off(a: &Pose, b: &Pose, aspect: f64) -> f64 {
        let (a, b) = (a.quad(aspect).unwrap(), b.quad(aspect).unwrap());
        let far = |(p, q): (&[f64; 2], &[f64; 2])| {
            ((p[0] - q[0]) * (p[0] - q[0]) + (p[1] - q[1]) * (p[1] - q[1])).sqrt()
        };
        a.iter().zip(&b).map(far).fold(0.0, f64::max)
    }

    #[test]
    fn two_logos_among_wrong_pairs_are_two_clusters_with_their_poses() {
        let templates = templates();
        let template = &templates.list()[0];
        let aspect = template.aspect();
        let mut verifier = Verifier::new(&Params::default(), &templates, SIZE, 4000);
        let (mut keypoints, mut matches) = (Vec::new(), Vec::new());
        let mut chance = Chance(9);
        // Turned by a twelfth, and seen from the side.
        let angle = std::f64::consts::TAU / 12.0;
        let first = Pose::similarity(90.0, (libm::cos(angle), libm::sin(angle)), (400.0, 300.0));
        let quad = [
            [700.0, 400.0],
            [1000.0, 420.0],
            [1000.0, 500.0],
            [700.0, 510.0],
        ];
        let second = Pose::of_quad(aspect, &quad).unwrap();
        seen(
            template,
            &first,
            (90.0, 85),
            3,
            &mut keypoints,
            &mut matches,
        );
        let n = keypoints.len();
        seen(
            template,
            &second,
            (95.0, 10),
            5,
            &mut keypoints,
            &mut matches,
        );
        let m = keypoints.len() - n;
        noise(template, 60, &mut chance, &mut keypoints, &mut matches);
        verifier.clear();
        verifier.gather(0, template, &keypoints, &matches, |_| true);
        let found = verifier.rank();
        assert!(found >= 2, "{found}");
        for (rank, truth, of) in [(0, &first, n), (1, &second, m)] {
            let cluster = verifier.clusters[rank];
            let size = cluster.end - cluster.start;
            assert!(size * 10 >= of * 8, "{size} of {of}");
            let pose = verifier.projective(&cluster).unwrap();
            assert!(
                off(&pose, truth, aspect) < 0.1,
                "{}",
                off(&pose, truth, aspect)
            );
            // A guess to start from, as near as parallel lines come to the second's view.
            let affine = verifier.affinity(&cluster).unwrap();
            assert!(
                off(&affine, truth, aspect) < 30.0,
                "{}",
                off(&affine, truth, aspect)
            );
            let quad = pose.quad(aspect).unwrap();
            assert!(verifier.support(&cluster, &pose, &quad) * 10 >= of * 8);
        }
        // A similarity is an affinity.
        let affine = verifier.affinity(&verifier.clusters[0]).unwrap();
        assert!(
            off(&affine, &first, aspect) < 1.0,
            "{}",
            off(&affine, &first, aspect)
        );
        // Again the same, and only where it is wanted.
        let ranked: Vec<_> = verifier
            .clusters
            .iter()
            .map(|c| (c.weight, c.start))
            .collect();
        verifier.clear();
        verifier.gather(0, template, &keypoints, &matches, |_| true);
        verifier.rank();
        let again: Vec<_> = verifier
            .clusters
            .iter()
            .map(|c| (c.weight, c.start))
            .collect();
        assert_eq!(ranked, again);
        verifier.clear();
        verifier.gather(0, template, &keypoints, &matches, |k| k.x > 650.0);
        assert!(verifier.rank() >= 1);
        let best = verifier.clusters[0];
        let pose = verifier.projective(&best).unwrap();
        assert!(off(&pose, &second, aspect) < 0.1);
    }

    #[test]
    fn wrong_pairs_alone_have_few_votes() {
        let templates = templates();
        let template = &templates.list()[0];
        let mut verifier = Verifier::new(&Params::default(), &templates, SIZE, 4000);
        let (mut keypoints, mut matches) = (Vec::new(), Vec::new());
        noise(template, 300, &mut Chance(4), &mut keypoints, &mut matches);
        verifier.clear();
        verifier.gather(0, template, &keypoints, &matches, |_| true);
        for rank in 0..verifier.rank() {
            let c = verifier.clusters[rank];
            assert!(c.end - c.start < 8, "{c:?}");
        }
        // Nothing to take, and matches of keypoints and points that are not there.
        verifier.clear();
        verifier.gather(0, template, &[], &matches, |_| true);
        assert_eq!(verifier.rank(), 0);
        matches[0].train = 1 << 20;
        verifier.gather(0, template, &keypoints, &matches, |_| true);
    }

    #[test]
    fn what_no_camera_sees_is_not_plausible() {
        let templates = templates();
        let template = &templates.list()[0];
        let verifier = Verifier::new(&Params::default(), &templates, SIZE, 10);
        let judge = |quad: [[f64; 2]; 4]| {
            let pose = Pose::of_quad(template.aspect(), &quad)?;
            verifier.plausible(&pose, template)
        };
        let rectangle = |w: f64, h: f64| {
            [
                [100.0, 100.0],
                [100.0 + w, 100.0],
                [100.0 + w, 100.0 + h],
                [100.0, 100.0 + h],
            ]
        };
        // The mark is 3.4 to 1.
        assert!(judge(rectangle(170.0, 50.0)).is_some());
        assert!(judge(rectangle(50.0, 50.0)).is_some(), "a factor of 3.4");
        assert!(judge(rectangle(50.0, 170.0)).is_none(), "a factor of 11.6");
        assert!(judge(rectangle(900.0, 50.0)).is_none(), "a factor of 5.3");
        assert!(judge(rectangle(34.0, 10.0)).is_none(), "an area of 340");
        assert!(
            judge(rectangle(4000.0, 1200.0)).is_none(),
            "more than twice the image"
        );
        let [a, b, c, d] = rectangle(170.0, 50.0);
        assert!(judge([b, a, d, c]).is_none(), "a mirror image");
        assert!(judge([c, d, a, b]).is_some(), "upside down");
        assert!(judge([a, c, b, d]).is_none(), "crossed");
    }

    #[test]
    fn few_pairs_need_a_better_picture() {
        let params = Params::default();
        assert_eq!(needed_ncc(&params, 8), params.min_ncc);
        assert_eq!(needed_ncc(&params, 80), params.min_ncc);
        assert!(needed_ncc(&params, 3) > 0.8);
        assert!(needed_ncc(&params, 0) < 1.0);
    }
}
