//! From the features of a frame to its logos: what both backends do on the host.
use std::sync::Arc;

use super::{
    Params, ParamsError,
    features::{Keypoint, matcher::Match},
    pose::{self, Quad},
    pyramid::{Pyramid, grey_into},
    templates::{Kind, Templates},
    tracker::Tracker,
    verify::{Detection, Verifier},
};
use crate::{
    frame::{Image, Logos, MAX_LOGOS, Mask, MonoImage, Size},
    stage::state::{StateError, StateReader, StateWriter},
};

/// Goes up with every change of a saved state.
const STATE: u8 = 2;

/// Detections of one frame before those that overlap are told apart.
const MAX_DETECTIONS: usize = 64;

/// What masked pixels are taken for.
const MASKED: u8 = 128;

/// Boxes that have this much in common show one thing.
const SAME: f64 = 0.3;

/// Steps 2 to 8 of the stage's contract: verification and tracking, on the host.
///
/// For each frame: [`Follower::grey`], then the features of that picture, and
/// [`Follower::step`].
#[derive(Debug)]
pub struct Follower {
    params: Params,
    templates: Arc<Templates>,
    /// Pixels that may be used.
    mask: Option<Mask>,
    pyramid: Pyramid,
    verifier: Verifier,
    tracker: Tracker,
    detections: heapless::Vec<Detection, MAX_DETECTIONS>,
    /// Which templates' turn it is to be looked for in all of the image.
    turn: u32,
    /// Whether all of them are, in this frame.
    all: bool,
}

impl Follower {
    /// Takes all memory.
    ///
    /// # Errors
    /// When a parameter or the size is out of range, or the templates were made with other
    /// descriptors.
    pub fn new(
        params: &Params,
        templates: Arc<Templates>,
        size: Size,
    ) -> Result<Self, ParamsError> {
        Self::with_mask(params, templates, size, None)
    }

    /// The same; pixels that are 0 in `mask` are never used.
    ///
    /// # Errors
    /// As [`Follower::new`], and for a mask of another size.
    pub fn with_mask(
        params: &Params,
        templates: Arc<Templates>,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, ParamsError> {
        params.validate()?;
        if let Some(mask) = mask
            && mask.size() != size
        {
            return Err(ParamsError::Mask {
                found: mask.size(),
                expected: size,
            });
        }
        params.features.check_size(size)?;
        let expected = Kind::of(&params.features);
        if templates.kind() != expected {
            return Err(ParamsError::Descriptors {
                found: templates.kind(),
                expected,
            });
        }
        let keypoints = params.features.capacity();
        Ok(Self {
            verifier: Verifier::new(params, &templates, size, keypoints),
            tracker: Tracker::new(params, size),
            pyramid: Pyramid::new(size),
            params: params.clone(),
            templates,
            mask: mask.cloned(),
            detections: heapless::Vec::new(),
            turn: 0,
            all: true,
        })
    }

    /// The templates it looks for.
    pub fn templates(&self) -> &Arc<Templates> {
        &self.templates
    }

    /// Pixels that may be used: where it is 0, [`Follower::step`] wants no keypoints.
    pub fn mask(&self) -> Option<&Mask> {
        self.mask.as_ref()
    }

    /// Takes the frame's picture; gives it in grey, as the features are to see it: without what
    /// is masked.
    ///
    /// # Panics
    /// When the picture has another size than this was made for.
    pub fn grey(&mut self, image: &MonoImage) -> &Image<u8> {
        let full = self.pyramid.full_mut();
        grey_into(image, full);
        if let Some(mask) = &self.mask {
            for (row, usable) in full.rows_mut().zip(mask.rows()) {
                for (grey, &usable) in row.iter_mut().zip(usable) {
                    *grey = if usable == 0 { MASKED } else { *grey };
                }
            }
        }
        self.pyramid.level(0)
    }

    /// The picture that [`Follower::grey`] gave last.
    pub fn picture(&self) -> &Image<u8> {
        self.pyramid.level(0)
    }

    /// Appends the tracks.
    pub fn save(&self, to: &mut StateWriter<'_>) {
        to.shape(STATE, None, self.pyramid.level(0).size());
        to.u32(self.templates.list().len() as u32);
        to.u32(self.turn);
        self.tracker.save(to);
    }

    /// Takes up the tracks of a follower of the same templates and size.
    ///
    /// # Errors
    /// Why they are refused; there are none then.
    pub fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.reset();
        from.shape(STATE, None, self.pyramid.level(0).size())?;
        let templates = self.templates.list().len();
        let found = from.u32()? as usize;
        from.same("number of templates", found, templates)?;
        let turn = from.u32()? % self.params.full_search_frames;
        let loaded = self.tracker.load(from, templates);
        if let Err(e) = loaded.and_then(|()| from.end()) {
            self.reset();
            return Err(e);
        }
        self.turn = turn;
        Ok(())
    }

    /// Forgets all tracks.
    pub fn reset(&mut self) {
        self.tracker.reset();
        self.turn = 0;
    }

    /// Logos of the frame whose picture was taken last. `matches` holds for each template the
    /// frame's keypoints as queries and the template's points as train
    /// ([`super::features::matcher::two_nearest_apart`]). Allocates nothing.
    pub fn step(&mut self, keypoints: &[Keypoint], matches: &[Vec<Match>], output: &mut Logos) {
        self.follow();
        self.settle(keypoints, matches, output);
    }

    /// The first part of [`Follower::step`]: what needs the picture alone, and can be done while
    /// its keypoints are looked for.
    pub fn follow(&mut self) {
        let Self {
            params,
            templates,
            pyramid,
            verifier,
            tracker,
            turn,
            all,
            ..
        } = self;
        tracker.predict();
        *all = tracker.tracks().is_empty();
        *turn = (*turn + 1) % params.full_search_frames;

        // What is where it was expected.
        for i in 0..tracker.tracks().len() {
            let track = &tracker.tracks()[i];
            let template = &templates.list()[usize::from(track.template)];
            if let Some(found) = verifier.expect(track.template, template, pyramid, &track.quad) {
                tracker.hit(i, &found);
            }
        }
    }

    /// The second part, once a frame behind the first: what its keypoints say.
    pub fn settle(&mut self, keypoints: &[Keypoint], matches: &[Vec<Match>], output: &mut Logos) {
        let Self {
            params,
            templates,
            pyramid,
            verifier,
            tracker,
            detections,
            turn,
            all,
            ..
        } = self;
        verifier.voter.clear();
        for (index, (template, matches)) in templates.list().iter().zip(matches).enumerate() {
            let index = index as u16;
            let full = *all || u32::from(index) % params.full_search_frames == *turn;
            let tracks = tracker.tracks();
            let margin = params.search_margin_ratio;
            let mut seen: heapless::Vec<Area, MAX_LOGOS> = heapless::Vec::new();
            let mut looked_for: heapless::Vec<[f64; 4], MAX_LOGOS> = heapless::Vec::new();
            for track in tracks.iter().filter(|t| t.template == index) {
                // There are no more tracks than room.
                if track.found {
                    let _ = seen.push(Area(track.quad));
                } else {
                    let _ = looked_for.push(grown(&pose::bounds(&track.quad), margin));
                }
            }
            if !full && looked_for.is_empty() {
                continue;
            }
            verifier
                .voter
                .gather(index, template, keypoints, matches, |k| {
                    let (x, y) = (f64::from(k.x), f64::from(k.y));
                    let near = |b: &[f64; 4]| x >= b[0] && y >= b[1] && x <= b[2] && y <= b[3];
                    (full || looked_for.iter().any(near)) && !seen.iter().any(|a| a.holds(x, y))
                });
        }
        detections.clear();
        let mut left = params.max_candidates;
        for rank in 0..verifier.voter.rank() {
            let (index, [x, y]) = verifier.cluster_of(rank);
            // More of what is found already; where two templates lie on each other, the better
            // supported one has come first.
            if detections.iter().any(|d| Area(d.quad).holds(x, y)) {
                continue;
            }
            if left == 0 {
                break;
            }
            left -= 1;
            let template = &templates.list()[usize::from(index)];
            if let Some(found) = verifier.confirm(rank, template, pyramid) {
                let _ = detections.push(found);
            }
        }

        // Of those that lie on each other the best agrees with the pixels.
        detections.sort_unstable_by(|a, b| {
            let (p, q) = (a.quad[0], b.quad[0]);
            (b.ncc.total_cmp(&a.ncc))
                .then(a.template.cmp(&b.template))
                .then(p[0].total_cmp(&q[0]))
                .then(p[1].total_cmp(&q[1]))
        });
        for i in 0..detections.len() {
            let bounds = pose::bounds(&detections[i].quad);
            let overlaps = |quad: &Quad| pose::box_iou(&bounds, &pose::bounds(quad)) > SAME;
            let hidden = detections[..i].iter().any(|d| overlaps(&d.quad))
                || tracker
                    .tracks()
                    .iter()
                    .any(|t| t.found && overlaps(&t.quad));
            if hidden {
                continue;
            }
            match tracker.of(&detections[i]) {
                Some(track) => tracker.hit(track, &detections[i]),
                None => tracker.begin(&detections[i]),
            }
        }
        tracker.report(output);
    }
}

/// The inside of a convex quad.
struct Area(Quad);

impl Area {
    fn holds(&self, x: f64, y: f64) -> bool {
        (0..4).all(|i| {
            let ([ax, ay], [bx, by]) = (self.0[i], self.0[(i + 1) % 4]);
            (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= 0.0
        })
    }
}

/// A box with a margin of `share` of its longer side.
fn grown(b: &[f64; 4], share: f64) -> [f64; 4] {
    let margin = share * (b[2] - b[0]).max(b[3] - b[1]);
    [b[0] - margin, b[1] - margin, b[2] + margin, b[3] + margin]
}
