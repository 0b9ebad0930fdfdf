//! From clusters of pairs to poses that the pixels confirm: steps 5 to 7 of the contract.
use super::{
    Params,
    align::{Effort, Fit, Scratch},
    estimate::{self, Projective},
    pose::{self, Pose, Quad},
    pyramid::Pyramid,
    templates::{Template, Templates},
    vote::{Candidate, Voter},
};
use crate::frame::Size;

/// Coarse correlation, as a share of the least that does in the end, for a finer look.
const COARSE_SHARE: f64 = 0.7;

/// Gains of correlation that are worth another step of the coarse and of the fine fit.
const GAINS: [f64; 2] = [0.01, 0.0002];

/// Share of the way from the least correlation to 1 that a logo without any pair would have to
/// make up.
const MISSING_SHARE: f64 = 0.6;

/// Votes, for each of the pairs that a homography needs, from which one is looked for.
const STRONG: usize = 3;

/// Correlation, as a share of the least that does in the end, from which the fine fit needs no
/// coarse one before it.
const NEAR_SHARE: f64 = 0.8;

/// A logo found in a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Detection {
    pub template: u16,
    pub quad: Quad,
    pub ncc: f64,
}

/// The correlation that a logo needs which so many pairs speak for: the fewer, the higher. A ring
/// or a triangle alone correlates well with road signs.
fn needed_ncc(params: &Params, support: usize) -> f64 {
    let missing = params.min_inliers.saturating_sub(support) as f64 / params.min_inliers as f64;
    params.min_ncc + MISSING_SHARE * missing * (1.0 - params.min_ncc)
}

/// Looks for templates where pairs or tracks say that they are.
#[derive(Debug)]
pub(super) struct Verifier {
    params: Params,
    size: Size,
    pub voter: Voter,
    projective: Projective,
    scratch: Scratch,
}

impl Verifier {
    pub fn new(params: &Params, templates: &Templates, size: Size, keypoints: usize) -> Self {
        Self {
            params: params.clone(),
            size,
            voter: Voter::new(params, templates, size, keypoints),
            projective: Projective::new(params),
            scratch: Scratch::new(templates.most_samples()),
        }
    }

    /// The template of cluster number `rank`, and where it puts the logo's middle.
    pub fn cluster_of(&self, rank: usize) -> (u16, [f64; 2]) {
        let cluster = self.voter.cluster_of(rank);
        // Of the pair with the nearest descriptors.
        let middle = self.voter.members(&cluster)[0].middle.map(f64::from);
        (cluster.template, middle)
    }

    /// The pose of cluster number `rank`, if the pixels confirm it.
    pub fn confirm(
        &mut self,
        rank: usize,
        template: &Template,
        pyramid: &mut Pyramid,
    ) -> Option<Detection> {
        let cluster = self.voter.cluster_of(rank);
        let members = self.voter.members(&cluster);
        // Parallel lines first: where the pixels agree with that, they find the rest.
        let affine = estimate::affinity(members)?;
        let mut best = self.coarse(&affine, template, pyramid);
        let strong = cluster.weight as usize >= STRONG * self.params.min_inliers;
        if strong && best.is_none_or(|b| b.ncc < self.params.min_ncc) {
            let members = self.voter.members(&cluster);
            if let Some(projective) = self.projective.estimate(members) {
                let fit = self.coarse(&projective, template, pyramid);
                best = match (best, fit) {
                    (Some(a), Some(b)) => Some(if b.ncc > a.ncc { b } else { a }),
                    (a, b) => a.or(b),
                };
            }
        }
        let best = best.filter(|b| b.ncc >= COARSE_SHARE * self.params.min_ncc)?;
        let (detection, pose) = self.finish(cluster.template, template, pyramid, &best.pose)?;
        let support = support(
            self.voter.members(&cluster),
            self.params.inlier_px,
            &pose,
            &detection.quad,
        );
        (detection.ncc >= needed_ncc(&self.params, support)).then_some(detection)
    }

    /// The fit of the coarse picture.
    fn coarse(&mut self, start: &Pose, template: &Template, pyramid: &mut Pyramid) -> Option<Fit> {
        self.plausible(start, template)?;
        let [coarse, _] = template.faces();
        let effort = Effort {
            steps: self.params.fit_steps,
            least: -1.0,
            gain: GAINS[0],
            patience: 0,
        };
        coarse.align(pyramid, &mut self.scratch, start, effort)
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
        let [_, fine] = template.faces();
        let effort = Effort {
            steps: self.params.fit_steps,
            least: NEAR_SHARE * self.params.min_ncc,
            gain: GAINS[1],
            patience: 1,
        };
        let fit = fine.align(pyramid, &mut self.scratch, &start, effort);
        if let Some(fit) = fit
            && fit.ncc >= effort.least
            && let Some((found, _)) = self.judge(index, template, &fit)
        {
            return Some(found);
        }
        let fit = self.coarse(&start, template, pyramid)?;
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
        let effort = Effort {
            steps: self.params.fit_steps,
            least: COARSE_SHARE * self.params.min_ncc,
            gain: GAINS[1],
            patience: 1,
        };
        let fit = fine.align(pyramid, &mut self.scratch, start, effort)?;
        self.judge(index, template, &fit)
    }

    fn judge(&self, index: u16, template: &Template, fit: &Fit) -> Option<(Detection, Pose)> {
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
}

/// How many points of the template have a pair in the cluster that the pose explains.
fn support(members: &[Candidate], inlier_px: f64, pose: &Pose, quad: &Quad) -> usize {
    let (_, height) = pose::sides(quad);
    let reach = inlier_px.max(0.05 * height);
    let explained = |c: &&Candidate| {
        let [x, y] = pose.map(f64::from(c.plane[0]), f64::from(c.plane[1]));
        let (dx, dy) = (x - f64::from(c.at[0]), y - f64::from(c.at[1]));
        dx * dx + dy * dy <= reach * reach
    };
    members.iter().filter(explained).count()
}

#[cfg(test)]
mod tests {
    use super::{
        super::vote::tests::{SIZE, noise, seen, templates},
        *,
    };
    use crate::evaluate::logos::composite::Chance;

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
        verifier.voter.clear();
        verifier
            .voter
            .gather(0, template, &keypoints, &matches, |_| true);
        let found = verifier.voter.rank();
        assert!(found >= 2, "{found}");
        for (rank, truth, of) in [(0, &first, n), (1, &second, m)] {
            let cluster = verifier.voter.cluster_of(rank);
            let members = verifier.voter.members(&cluster);
            let size = members.len();
            assert!(size * 10 >= of * 8, "{size} of {of}");
            let pose = verifier.projective.estimate(members).unwrap();
            assert!(
                off(&pose, truth, aspect) < 0.1,
                "{}",
                off(&pose, truth, aspect)
            );
            // A guess to start from, as near as parallel lines come to the second's view.
            let affine = estimate::affinity(members).unwrap();
            assert!(
                off(&affine, truth, aspect) < 30.0,
                "{}",
                off(&affine, truth, aspect)
            );
            let quad = pose.quad(aspect).unwrap();
            assert!(support(members, 3.0, &pose, &quad) * 10 >= of * 8);
        }
        // A similarity is an affinity.
        let best = verifier.voter.cluster_of(0);
        let affine = estimate::affinity(verifier.voter.members(&best)).unwrap();
        assert!(
            off(&affine, &first, aspect) < 1.0,
            "{}",
            off(&affine, &first, aspect)
        );
        // Only where it is wanted.
        verifier.voter.clear();
        verifier
            .voter
            .gather(0, template, &keypoints, &matches, |k| k.x > 650.0);
        assert!(verifier.voter.rank() >= 1);
        let best = verifier.voter.cluster_of(0);
        let members = verifier.voter.members(&best);
        let pose = verifier.projective.estimate(members).unwrap();
        assert!(off(&pose, &second, aspect) < 0.1);
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
