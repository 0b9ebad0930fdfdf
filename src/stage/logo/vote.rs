//! From matches to clusters of pairs that agree: steps 3 and 4 of the contract.
use super::{
    MAX_PAIRS, Params,
    features::{ANGLES, Isa, Keypoint, matcher::Match},
    simd,
    templates::{Template, Templates},
};
use crate::frame::Size;

/// Pairs that agree have sizes within this factor.
const SIZE_FACTOR: f32 = 1.6;

/// And turns within 30 degrees, in 1/[`ANGLES`] of a turn.
const TURN: u16 = 85;

/// And middles within this share of the height, and of the distance to the other's keypoint; the
/// two add in squares.
const REACH: [f32; 2] = [0.36, 0.15];

/// Square of the second.
const FAR: f32 = REACH[1] * REACH[1];

/// Clusters of one template that may be looked at in a frame.
const MAX_CLUSTERS: usize = 6;

/// An unambiguous pair's vote; others weigh 1.
const CLEAR_WEIGHT: u32 = 3;

/// Pairs and votes are counted in one number: a pair is so much, and its vote besides.
const PAIR: u32 = 4096;

/// Most bits in which descriptors differ.
const BITS: usize = 256;

/// Pairs looked at at once.
const LANES: usize = 8;

/// A keypoint of the frame and one of a template that may be the same, and where the logo would
/// be if they were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The frame's keypoint, px.
    pub at: [f32; 2],
    /// The template's, in its plane.
    pub plane: [f32; 2],
    /// Height of the logo, px.
    pub scale: f32,
    /// Its turn, in 1/[`ANGLES`] and as a unit vector.
    angle: u16,
    pub turn: [f32; 2],
    /// Its middle, px.
    pub middle: [f32; 2],
    /// How much its vote weighs.
    weight: u32,
}

/// Pairs of one template that agree: a part of the members.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub template: u16,
    /// Sum of its votes.
    pub weight: u32,
    start: usize,
    end: usize,
}

/// A match that passed, by its place among the matches.
#[derive(Clone, Copy, Debug)]
struct Passed {
    index: u32,
    distance: u16,
    /// Whether this is the keypoint's second nearest.
    second: bool,
}

/// The pairs of one template in the order of their angles, twice around the circle, a list for
/// each of what their agreement depends on.
#[derive(Debug)]
pub struct Ballot {
    x: Vec<f32>,
    y: Vec<f32>,
    middle_x: Vec<f32>,
    middle_y: Vec<f32>,
    scale: Vec<f32>,
    /// What each counts; 0 for those used.
    counts: Vec<u32>,
    angles: Vec<u16>,
    /// From the first of those whose turns agree to behind the last, for each pair.
    windows: Vec<[u16; 2]>,
}

impl Ballot {
    fn new() -> Self {
        let list = || vec![0.0; 2 * MAX_PAIRS + LANES];
        Self {
            x: list(),
            y: list(),
            middle_x: list(),
            middle_y: list(),
            scale: list(),
            counts: vec![0; 2 * MAX_PAIRS + LANES],
            angles: Vec::with_capacity(2 * MAX_PAIRS),
            windows: Vec::with_capacity(MAX_PAIRS),
        }
    }

    /// Takes pairs in the order of their angles.
    fn fill(&mut self, all: &[Candidate], order: &[u16]) {
        let n = order.len();
        for (place, &i) in order.iter().enumerate() {
            let c = &all[usize::from(i)];
            for place in [place, place + n] {
                [self.x[place], self.y[place]] = c.at;
                [self.middle_x[place], self.middle_y[place]] = c.middle;
                self.scale[place] = c.scale;
                self.counts[place] = PAIR + c.weight;
            }
        }
        self.angles.clear();
        self.angles
            .extend(order.iter().map(|&i| all[usize::from(i)].angle));
        self.angles.extend_from_within(..);
        for angle in &mut self.angles[n..] {
            *angle += ANGLES;
        }
        let angles = &self.angles;
        self.windows.clear();
        self.windows.resize(n, [0; 2]);
        // Leaders in the order of angles, from TURN to a round further.
        let first = angles[..n].partition_point(|&a| a < TURN);
        let (mut from, mut to) = (0, first);
        for p in first..first + n {
            let leader = angles[p];
            while angles[from] + TURN < leader {
                from += 1;
            }
            while angles.get(to).is_some_and(|&a| a <= leader + TURN) {
                to += 1;
            }
            self.windows[if p >= n { p - n } else { p }] = [from as u16, to as u16];
        }
    }

    fn leader(&self, place: usize) -> Leader {
        let scale = self.scale[place];
        Leader {
            x: self.middle_x[place],
            y: self.middle_y[place],
            scale,
            most: SIZE_FACTOR * scale,
            near: REACH[0] * scale * (REACH[0] * scale),
        }
    }

    /// Takes a pair out.
    fn take(&mut self, place: usize) {
        let n = self.windows.len();
        (self.counts[place], self.counts[place + n]) = (0, 0);
    }
}

/// What others are compared with.
#[derive(Clone, Copy)]
struct Leader {
    x: f32,
    y: f32,
    scale: f32,
    /// Most that another's may be.
    most: f32,
    /// Square of the least reach.
    near: f32,
}

impl Leader {
    /// Whether size and middle of a pair agree; the turn is the caller's.
    #[inline(always)]
    fn agrees(&self, [x, y]: [f32; 2], [mx, my]: [f32; 2], scale: f32) -> bool {
        let (off_x, off_y) = (mx - self.x, my - self.y);
        let (far_x, far_y) = (x - self.x, y - self.y);
        let off = off_x * off_x + off_y * off_y;
        let reach = self.near + FAR * (far_x * far_x + far_y * far_y);
        (off <= reach) & (scale <= self.most) & (self.scale <= SIZE_FACTOR * scale)
    }
}

/// Counts for the pairs from place `first` on those that agree with them, themselves included.
#[inline(always)]
pub fn count(ballot: &Ballot, first: usize, votes: &mut [u32]) {
    for (place, votes) in (first..).zip(votes) {
        let leader = ballot.leader(place);
        let [from, to] = ballot.windows[place].map(usize::from);
        // There is room behind the last.
        let end = from + (to - from).next_multiple_of(LANES);
        let x = ballot.x[from..end].as_chunks::<LANES>().0;
        let y = &ballot.y[from..end].as_chunks::<LANES>().0[..x.len()];
        let middle_x = &ballot.middle_x[from..end].as_chunks::<LANES>().0[..x.len()];
        let middle_y = &ballot.middle_y[from..end].as_chunks::<LANES>().0[..x.len()];
        let scale = &ballot.scale[from..end].as_chunks::<LANES>().0[..x.len()];
        let counts = &ballot.counts[from..end].as_chunks::<LANES>().0[..x.len()];
        let mut sums = [0u32; LANES];
        let mut left = (to - from) as u32;
        for i in 0..x.len() {
            let (x, y, scale, counts) = (x[i], y[i], scale[i], counts[i]);
            let (mx, my) = (middle_x[i], middle_y[i]);
            for k in 0..LANES {
                let agrees = leader.agrees([x[k], y[k]], [mx[k], my[k]], scale[k]);
                let counted = agrees & ((k as u32) < left);
                sums[k] += counts[k] & 0u32.wrapping_sub(u32::from(counted));
            }
            left = left.saturating_sub(LANES as u32);
        }
        *votes = sums.iter().sum();
    }
}

/// Finds clusters of pairs.
#[derive(Debug)]
pub(super) struct Voter {
    isa: Isa,
    size: Size,
    ratio: f64,
    max_distance: u32,
    min_votes: usize,
    min_side_px: f64,
    /// Cosine and sine of each angle.
    turns: Vec<[f32; 2]>,
    passed: Vec<Passed>,
    /// Those of the least distance, by it.
    nearest: Vec<u32>,
    /// Pairs of one template, by distance.
    candidates: Vec<Candidate>,
    /// The pairs by their angle.
    order: Vec<u16>,
    ballot: Ballot,
    /// By place in that order.
    votes: Vec<u32>,
    /// Those that may lead a cluster, the best last: votes, then what is the more the less the
    /// distance, and the place.
    leaders: Vec<(u32, u16, u16)>,
    /// The clusters of all templates, and their pairs.
    clusters: Vec<Cluster>,
    members: Vec<Candidate>,
    chosen: Vec<u16>,
}

impl Voter {
    pub fn new(params: &Params, templates: &Templates, size: Size, keypoints: usize) -> Self {
        let turns = (0..ANGLES)
            .map(|a| {
                let angle = f64::from(a) * (std::f64::consts::TAU / f64::from(ANGLES));
                [libm::cos(angle) as f32, libm::sin(angle) as f32]
            })
            .collect();
        let n = templates.list().len();
        Self {
            isa: Isa::detect(),
            size,
            ratio: params.ratio,
            max_distance: params.max_distance,
            min_votes: params.min_votes,
            min_side_px: params.min_side_px,
            turns,
            passed: Vec::with_capacity(2 * keypoints),
            nearest: Vec::with_capacity(MAX_PAIRS),
            candidates: Vec::with_capacity(MAX_PAIRS),
            order: Vec::with_capacity(MAX_PAIRS),
            ballot: Ballot::new(),
            votes: Vec::with_capacity(MAX_PAIRS),
            leaders: Vec::with_capacity(MAX_PAIRS),
            clusters: Vec::with_capacity(n * MAX_CLUSTERS),
            members: Vec::with_capacity(n * MAX_PAIRS),
            chosen: Vec::with_capacity(MAX_PAIRS),
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
        self.pass(template, keypoints, matches, wanted);
        self.candidates.clear();
        for &i in &self.nearest {
            let Passed { index, second, .. } = self.passed[i as usize];
            let m = &matches[index as usize];
            let clear = f64::from(m.distance) < self.ratio * f64::from(m.second_distance);
            let (train, weight) = match second {
                true => (m.second, 1),
                false => (m.train, if clear { CLEAR_WEIGHT } else { 1 }),
            };
            let (k, p) = (
                &keypoints[m.query as usize],
                &template.points()[train as usize],
            );
            let angle = (k.angle + ANGLES - p.angle) % ANGLES;
            let turn = self.turns[usize::from(angle)];
            let scale = k.sigma / p.sigma;
            let [c, s] = turn;
            self.candidates.push(Candidate {
                at: [k.x, k.y],
                plane: [p.x, p.y],
                scale,
                angle,
                turn,
                middle: [
                    k.x - scale * (c * p.x - s * p.y),
                    k.y - scale * (s * p.x + c * p.y),
                ],
                weight,
            });
        }
        self.cluster(index);
    }

    /// The pairs that are near enough, by their distance, then by their match's place; no more
    /// than there is room for.
    fn pass(
        &mut self,
        template: &Template,
        keypoints: &[Keypoint],
        matches: &[Match],
        wanted: impl Fn(&Keypoint) -> bool,
    ) {
        let points = template.points();
        // Logos much smaller or larger than those that are let pass in the end.
        let aspect = template.aspect();
        let least = (self.min_side_px / aspect.sqrt()) as f32 / SIZE_FACTOR;
        let most = (2.0 * self.size.area() as f64 / aspect).sqrt() as f32 * SIZE_FACTOR;
        self.passed.clear();
        let mut starts = [0u16; BITS + 2];
        for (index, m) in matches.iter().enumerate() {
            if m.distance > self.max_distance {
                continue;
            }
            let Some(k) = keypoints.get(m.query as usize).filter(|k| wanted(k)) else {
                continue;
            };
            for (train, distance, second) in [
                (m.train, m.distance, false),
                (m.second, m.second_distance, true),
            ] {
                if distance > self.max_distance {
                    continue;
                }
                let Some(p) = points.get(train as usize).filter(|p| p.sign == k.sign) else {
                    continue;
                };
                let fits = k.sigma >= least * p.sigma && k.sigma <= most * p.sigma;
                if !fits || self.passed.len() == self.passed.capacity() {
                    continue;
                }
                self.passed.push(Passed {
                    index: index as u32,
                    distance: distance as u16,
                    second,
                });
                starts[distance as usize + 1] += 1;
            }
        }
        for d in 0..=BITS {
            starts[d + 1] += starts[d];
        }
        self.nearest.clear();
        self.nearest.resize(self.passed.len().min(MAX_PAIRS), 0);
        for (i, passed) in (0..).zip(&self.passed) {
            let place = &mut starts[usize::from(passed.distance)];
            if let Some(to) = self.nearest.get_mut(usize::from(*place)) {
                *to = i;
            }
            *place += 1;
        }
    }

    /// Largest first: what agrees with a leader goes with it, and leads nothing itself.
    fn cluster(&mut self, index: u16) {
        let Self {
            candidates: all,
            ballot,
            votes,
            order,
            leaders,
            chosen,
            clusters,
            members,
            isa,
            ..
        } = self;
        by_angle(all, order);
        ballot.fill(all, order);
        votes.clear();
        votes.resize(order.len(), 0);
        simd::count(*isa, ballot, 0, votes);
        let entry = |votes: &[u32], place: usize| {
            let votes = votes[place];
            let enough = (votes / PAIR) as usize >= self.min_votes;
            enough.then_some((votes % PAIR, u16::MAX - order[place], place as u16))
        };
        leaders.clear();
        leaders.extend((0..order.len()).filter_map(|p| entry(votes, p)));
        leaders.sort_unstable();
        let first = clusters.len();
        while clusters.len() < first + MAX_CLUSTERS
            && let Some(best) = leaders.pop()
        {
            let (weight, _, leader) = best;
            let leader = usize::from(leader);
            if ballot.counts[leader] == 0 {
                continue;
            }
            // Votes only fall while pairs are used: the first whose count still holds leads.
            simd::count(*isa, ballot, leader, &mut votes[leader..=leader]);
            let again = entry(votes, leader);
            if again != Some(best) {
                if let Some(again) = again {
                    let at = leaders.partition_point(|l| *l < again);
                    leaders.insert(at, again);
                }
                continue;
            }
            chosen.clear();
            let [from, to] = ballot.windows[leader].map(usize::from);
            let lead = ballot.leader(leader);
            for place in from..to {
                let at = [ballot.x[place], ballot.y[place]];
                let middle = [ballot.middle_x[place], ballot.middle_y[place]];
                if ballot.counts[place] > 0 && lead.agrees(at, middle, ballot.scale[place]) {
                    let place = place % order.len();
                    ballot.take(place);
                    chosen.push(order[place]);
                }
            }
            chosen.sort_unstable();
            let start = members.len();
            members.extend(chosen.iter().map(|&i| all[usize::from(i)]));
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

    /// Cluster number `rank`.
    pub fn cluster_of(&self, rank: usize) -> Cluster {
        self.clusters[rank]
    }

    /// Its pairs, the nearest descriptors first.
    pub fn members(&self, cluster: &Cluster) -> &[Candidate] {
        &self.members[cluster.start..cluster.end]
    }
}

/// The places of pairs in the order of their angles, then of their own.
fn by_angle(all: &[Candidate], order: &mut Vec<u16>) {
    let mut starts = [0u16; ANGLES as usize + 1];
    for c in all {
        starts[usize::from(c.angle) + 1] += 1;
    }
    for a in 0..usize::from(ANGLES) {
        starts[a + 1] += starts[a];
    }
    order.clear();
    order.resize(all.len(), 0);
    for (i, c) in (0..).zip(all) {
        let start = &mut starts[usize::from(c.angle)];
        order[usize::from(*start)] = i;
        *start += 1;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::{BuildOptions, features::FeatureParams, pose::Pose},
        *,
    };
    use crate::evaluate::logos::{composite::Chance, marks::MARKS};

    pub const SIZE: Size = Size::new(1280, 720);

    pub fn templates() -> Templates {
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
    pub fn seen(
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
    pub fn noise(
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

    fn voter(templates: &Templates) -> Voter {
        Voter::new(&Params::default(), templates, SIZE, 4000)
    }

    /// Slowly: the pairs that agree with `leader`, itself included.
    fn agreeing(all: &[Candidate], leader: usize, used: &[bool]) -> Vec<usize> {
        let l = &all[leader];
        let square = |a: [f32; 2], b: [f32; 2]| {
            let (x, y) = (a[0] - b[0], a[1] - b[1]);
            x * x + y * y
        };
        let near = REACH[0] * l.scale * (REACH[0] * l.scale);
        (0..all.len())
            .filter(|&i| {
                let c = &all[i];
                let turn = (c.angle + ANGLES - l.angle) % ANGLES;
                !used[i]
                    && turn.min(ANGLES - turn) <= TURN
                    && c.scale.max(l.scale) <= SIZE_FACTOR * c.scale.min(l.scale)
                    && square(c.middle, l.middle) <= near + FAR * square(c.at, l.middle)
            })
            .collect()
    }

    #[test]
    fn clusters_are_those_of_the_slow_way() {
        let templates = templates();
        let template = &templates.list()[0];
        let mut voter = voter(&templates);
        for (round, count) in [0, 1, 2, 7, 60, 300, 900].into_iter().enumerate() {
            let (mut keypoints, mut matches) = (Vec::new(), Vec::new());
            let mut chance = Chance(9 + round as u64);
            let pose = Pose::similarity(90.0, (0.8, 0.6), (400.0, 300.0));
            let looks = (90.0, 105);
            if round % 2 == 1 {
                seen(template, &pose, looks, 4, &mut keypoints, &mut matches);
            }
            noise(template, count, &mut chance, &mut keypoints, &mut matches);
            voter.clear();
            voter.gather(0, template, &keypoints, &matches, |_| true);
            let all = voter.candidates.clone();
            assert!(all.len() <= MAX_PAIRS);
            let mut used = vec![false; all.len()];
            let mut expected = Vec::new();
            while expected.len() < MAX_CLUSTERS {
                let led = |i: usize| {
                    let with = agreeing(&all, i, &used);
                    let weight: u32 = with.iter().map(|&i| all[i].weight).sum();
                    (weight, std::cmp::Reverse(i), with)
                };
                let best = (0..all.len())
                    .filter(|&i| !used[i])
                    .map(led)
                    .filter(|(.., with)| with.len() >= 3)
                    .max_by_key(|(weight, i, _)| (*weight, *i));
                let Some((weight, _, with)) = best else {
                    break;
                };
                with.iter().for_each(|&i| used[i] = true);
                expected.push((weight, with));
            }
            let found: Vec<_> = voter
                .clusters
                .iter()
                .map(|c| {
                    let places = voter.members(c).iter().map(|m| {
                        let same = |c: &Candidate| (c.at, c.plane) == (m.at, m.plane);
                        all.iter().position(same).unwrap()
                    });
                    (c.weight, places.collect::<Vec<_>>())
                })
                .collect();
            assert_eq!(found, expected, "{count} wrong pairs");
        }
    }

    #[test]
    fn counts_are_the_same_with_all_instructions() {
        let templates = templates();
        let template = &templates.list()[0];
        let mut voter = voter(&templates);
        let (mut keypoints, mut matches) = (Vec::new(), Vec::new());
        noise(template, 251, &mut Chance(2), &mut keypoints, &mut matches);
        voter.gather(0, template, &keypoints, &matches, |_| true);
        voter.ballot.fill(&voter.candidates, &voter.order);
        let n = voter.order.len();
        let of = |isa| {
            let mut votes = vec![0; n];
            simd::count(isa, &voter.ballot, 0, &mut votes);
            votes
        };
        let expected = of(Isa::Baseline);
        assert!(expected.iter().any(|v| v / PAIR > 1));
        for isa in Isa::available() {
            assert_eq!(of(isa), expected, "{isa:?}");
        }
    }

    #[test]
    fn the_nearest_pairs_stay_where_there_are_too_many() {
        let templates = templates();
        let template = &templates.list()[0];
        let mut voter = voter(&templates);
        let (mut keypoints, mut matches) = (Vec::new(), Vec::new());
        noise(template, 900, &mut Chance(5), &mut keypoints, &mut matches);
        voter.pass(template, &keypoints, &matches, |_| true);
        let mut expected: Vec<_> = voter
            .passed
            .iter()
            .map(|p| (p.distance, p.index, p.second))
            .collect();
        assert!(expected.len() > MAX_PAIRS, "{}", expected.len());
        expected.sort_unstable();
        expected.truncate(MAX_PAIRS);
        let found: Vec<_> = voter
            .nearest
            .iter()
            .map(|&i| voter.passed[i as usize])
            .map(|p| (p.distance, p.index, p.second))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn wrong_pairs_alone_have_few_votes() {
        let templates = templates();
        let template = &templates.list()[0];
        let mut voter = voter(&templates);
        let (mut keypoints, mut matches) = (Vec::new(), Vec::new());
        noise(template, 300, &mut Chance(4), &mut keypoints, &mut matches);
        voter.clear();
        voter.gather(0, template, &keypoints, &matches, |_| true);
        for rank in 0..voter.rank() {
            let c = voter.clusters[rank];
            assert!(c.end - c.start < 8, "{c:?}");
        }
        // Nothing to take, and matches of keypoints and points that are not there.
        voter.clear();
        voter.gather(0, template, &[], &matches, |_| true);
        assert_eq!(voter.rank(), 0);
        matches[0].train = 1 << 20;
        voter.gather(0, template, &keypoints, &matches, |_| true);
    }
}
