//! Logos on vehicles: which, where, and the same one from frame to frame.
//!
//! # The numeric contract
//! 1. **Keypoints and descriptors** of the frame, and for each template the nearest and second
//!    nearest of its descriptors: [`features`]. These may come from either backend; what follows
//!    runs on the host for both ([`Follower`]), in `f64` with `+ - * /` and `sqrt` in a fixed
//!    order.
//! 2. **Known tracks first**, by id. A track's corners are predicted with constant velocity, and
//!    the template's picture is laid over the frame there and fitted to the pixels (step 6). If
//!    that passes step 7 the track is found without any keypoints.
//! 3. **Pairs.** A keypoint and each of the template's two nearest descriptors are a pair when
//!    their distance is at most [`Params::max_distance`] and both are dark or both bright. The
//!    nearest passes the ratio test when it is below [`Params::ratio`] times the second: its vote
//!    then weighs 3, else 1. (Marks repeat themselves, letters and rings above all; dropping
//!    what the test does not pass loses these.) Pairs that speak for a logo more than a factor of
//!    1.6 below or above the sizes of step 7 are dropped. Keypoints on logos found in step 2 are
//!    left out. While there is no track all others are looked at, for every template. Else the
//!    templates take turns: number n is looked for everywhere in every
//!    [`Params::full_search_frames`]th frame, so that a frame has its share of them; and in the
//!    others only within the predicted quads of its tracks not found, and a margin.
//! 4. **Vote.** Each pair alone says where the logo's middle lies, its size and its turn. Pairs
//!    that agree (sizes within a factor of 1.6, turns within 30 degrees, the middles within 0.36
//!    heights and 0.15 of the distance to the other's keypoint, added in squares) vote for each
//!    other; the one with the most votes, then the smallest distance, then the first, leads a
//!    cluster. What one cluster used is not used again, so that there may be several of one
//!    template. The clusters of all templates are looked at by their votes, then the template's
//!    number, but for those whose middle lies on a logo found before.
//! 5. **Pose.** A least-squares affinity of the cluster. Where the coarse fit of that stays below
//!    [`Params::min_ncc`] and the votes are those of [`Params::min_inliers`] unambiguous pairs, also
//!    RANSAC for a homography with counter-based random numbers over the cluster
//!    ([`crate::maths::homography`]), pairs sorted by distance; the better coarse fit goes on.
//! 6. **Fit to the pixels**, first on a coarse picture of the template, then on a finer one:
//!    inverse-compositional Gauss-Newton on zero-mean, equal-contrast pictures (Baker and
//!    Matthews 2004). It ends where it gains little, or correlates less than what right poses have
//!    at that step. A track whose prediction correlates well goes to the finer picture at once.
//! 7. **Judgement.** The quad is convex and seen from its front, its sides' ratio is within
//!    [`Params::max_side_ratio`] of the template's, its area between [`Params::min_side_px`]
//!    squared and the image, and the picture under it correlates with the template's (NCC) by
//!    [`Params::min_ncc`] or more; new ones that fewer than [`Params::min_inliers`] pairs speak for
//!    need more, up to three fifths of the way to 1. Of two that overlap the better correlated stays.
//! 8. **Tracks.** What was found goes on as the track of the same template whose prediction it
//!    overlaps most (then the lower id), else begins one. A track is TENTATIVE until its
//!    [`Params::confirm_hits`]th hit, then TRACKED; unseen it is carried along its velocity with
//!    falling confidence, and after [`Params::lost_misses`] frames reported once as LOST. A
//!    tentative track that is not seen is not reported, and forgotten after
//!    [`Params::tentative_misses`] frames.
//!
//! With a mask, masked pixels are 128 in what the stage sees, and the point of a keypoint is never one
//! of them: the result does not depend on what they show.
//!
//! Work is bounded: at most [`MAX_PAIRS`] pairs a template, [`Params::max_candidates`] clusters
//! a frame, [`crate::frame::MAX_LOGOS`] tracks, and fixed numbers of hypotheses and steps.
mod align;
pub mod cpu;
mod estimate;
pub mod features;
mod follower;
mod picture;
mod pose;
mod pyramid;
mod simd;
pub mod templates;
mod tracker;
mod verify;
mod vote;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::frame::{MonoImage, Size};
use features::{FeatureError, FeatureParams};

pub use follower::Follower;
pub use templates::{BuildOptions, Templates, TemplatesError};

/// What the stage reads.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The mono camera's picture. 16-bit grey loses its lower 8 bits, colour becomes luma.
    pub image: &'a MonoImage,
}

/// Most pairs of one template that are looked at in a frame: those of the least distance.
pub const MAX_PAIRS: usize = 384;

/// Parameters of the logo stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The file of templates (`roadloop logos build`). Without one the stage does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templates: Option<PathBuf>,
    /// A pair whose distance is below this share of that to the second nearest is unambiguous: its
    /// vote weighs three times that of others.
    pub ratio: f64,
    /// Most bits in which the descriptors of a pair differ.
    pub max_distance: u32,
    /// Fewest pairs that must agree on a place, size and turn.
    pub min_votes: usize,
    /// How far from its place a pair of a homography may lie, px.
    pub inlier_px: f64,
    /// Fewest pairs that a homography must explain.
    pub min_inliers: usize,
    /// Homographies tried for a cluster of pairs.
    pub hypotheses: u32,
    /// Steps of the fit to the pixels, on each of its two pictures.
    pub fit_steps: usize,
    /// Largest factor between the quad's and the template's ratio of width to height.
    pub max_side_ratio: f64,
    /// Side of the square whose area a quad must have.
    pub min_side_px: f64,
    /// Least correlation of the rectified patch with the template.
    pub min_ncc: f64,
    /// Clusters of pairs looked at in a frame.
    pub max_candidates: usize,
    /// While there are tracks, each template is looked for in all of the image every so many frames.
    /// They take turns.
    pub full_search_frames: u32,
    /// Around a predicted quad this share of its longer side is searched too.
    pub search_margin_ratio: f64,
    /// Frames in which a track must have been found to be TRACKED.
    pub confirm_hits: u32,
    /// Frames in a row without a tracked logo until it is LOST.
    pub lost_misses: u32,
    /// Frames in a row without a tentative one until it is forgotten.
    pub tentative_misses: u32,
    /// Keypoints and descriptors.
    pub features: FeatureParams,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            templates: None,
            ratio: 0.85,
            max_distance: 72,
            min_votes: 3,
            inlier_px: 3.0,
            min_inliers: 8,
            hypotheses: 192,
            fit_steps: 8,
            max_side_ratio: 4.0,
            min_side_px: 24.0,
            min_ncc: 0.75,
            max_candidates: 16,
            full_search_frames: 4,
            search_margin_ratio: 0.3,
            confirm_hits: 2,
            lost_misses: 10,
            tentative_misses: 3,
            features: FeatureParams::default(),
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// A parameter is out of its range.
    #[error("logo.{key} is {found}, expected {expected}")]
    Range {
        /// The parameter's key.
        key: &'static str,
        /// Its value.
        found: f64,
        /// The range in words.
        expected: &'static str,
    },
    /// Parameters of the features, or a size that they can't be had of.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// A mask of another size than the images.
    #[error("the mask is {found} px, the images are {expected}")]
    Mask {
        /// The mask's size.
        found: Size,
        /// The images' size.
        expected: Size,
    },
    /// Templates made with other descriptors than the configuration asks for.
    #[error(
        "logo.templates were built with {found}, logo.features expects {expected}; build them again"
    )]
    Descriptors {
        /// Those of the templates.
        found: templates::Kind,
        /// Those of the configuration.
        expected: templates::Kind,
    },
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// With the first key that is out of its range.
    pub fn validate(&self) -> Result<(), ParamsError> {
        let check = |key, found: f64, low: f64, high: f64, expected| {
            if (low..=high).contains(&found) {
                Ok(())
            } else {
                Err(ParamsError::Range {
                    key,
                    found,
                    expected,
                })
            }
        };
        check("ratio", self.ratio, 0.1, 1.0, "0.1 to 1")?;
        let distance = f64::from(self.max_distance);
        check("max_distance", distance, 1.0, 256.0, "1 to 256")?;
        let count = |n: usize| n as f64;
        check("min_votes", count(self.min_votes), 3.0, 64.0, "3 to 64")?;
        check("inlier_px", self.inlier_px, 0.1, 64.0, "0.1 to 64")?;
        check(
            "min_inliers",
            count(self.min_inliers),
            4.0,
            256.0,
            "4 to 256",
        )?;
        let hypotheses = f64::from(self.hypotheses);
        check("hypotheses", hypotheses, 1.0, 2000.0, "1 to 2000")?;
        check("fit_steps", count(self.fit_steps), 0.0, 64.0, "0 to 64")?;
        check(
            "max_side_ratio",
            self.max_side_ratio,
            1.0,
            100.0,
            "1 to 100",
        )?;
        check("min_side_px", self.min_side_px, 4.0, 4096.0, "4 to 4096")?;
        check("min_ncc", self.min_ncc, 0.0, 1.0, "0 to 1")?;
        let candidates = count(self.max_candidates);
        check("max_candidates", candidates, 1.0, 256.0, "1 to 256")?;
        let whole = |key, n: u32| check(key, f64::from(n), 1.0, 1000.0, "1 to 1000");
        whole("full_search_frames", self.full_search_frames)?;
        check(
            "search_margin_ratio",
            self.search_margin_ratio,
            0.0,
            4.0,
            "0 to 4",
        )?;
        whole("confirm_hits", self.confirm_hits)?;
        whole("lost_misses", self.lost_misses)?;
        whole("tentative_misses", self.tentative_misses)?;
        Ok(self.features.validate()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range_and_what_is_not_is_named() {
        assert_eq!(Params::default().validate(), Ok(()));
        let wrong = |change: fn(&mut Params)| {
            let mut params = Params::default();
            change(&mut params);
            params.validate().unwrap_err().to_string()
        };
        assert_eq!(
            wrong(|p| p.min_ncc = f64::NAN),
            "logo.min_ncc is NaN, expected 0 to 1"
        );
        assert_eq!(
            wrong(|p| p.lost_misses = 0),
            "logo.lost_misses is 0, expected 1 to 1000"
        );
        assert_eq!(
            wrong(|p| p.min_votes = 2),
            "logo.min_votes is 2, expected 3 to 64"
        );
    }
}
