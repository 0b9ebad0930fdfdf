//! The label of each pixel, by a random forest on local features (Pianu et al., "A novel approach
//! to train random forests on GPU for computer vision applications using local features").
//!
//! # The numeric contract
//! 1. **Image.** Channels as they come, or CIELab ([`colour`]); sum tables in whole numbers
//!    ([`Planes`]). Depth is in steps, 0 = missing; from a disparity `d` (1/256 px) it is
//!    `floor(256 f B s / d + 1/2)` of the camera's `f`, `B` and `s` steps in a metre, brought
//!    into 1 to 65535; 65535 at `d = 0`.
//! 2. **Walk.** From each tree's root; left iff `response <= tau` ([`feature`]).
//! 3. **Posterior.** Each leaf's is a whole number of 1/65535 a class ([`LeafOptions`]); the sum
//!    over trees decides: the greatest wins, the class of smallest index among equals. The
//!    posterior given out is the sum over the number of trees, rounded down.
//! 4. **Void** where all posteriors are 0, and with `void_without_depth` where a forest that
//!    reads depth finds none at the pixel.
//! 5. **Grid.** With `step` above 1 one pixel of each cell of `step` x `step` is judged, the one
//!    at `floor(step / 2)` in x and y, or the last of the row or column where that is outside.
//!    The output has a pixel a cell.
pub mod colour;
mod corners;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod feature;
mod file;
mod leaves;
mod model;
mod planes;
mod random;
mod shipped;
mod walk;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use corners::{Corners, Stated};
pub use feature::{DepthDifference, Feature, FeatureSpec, Norm, Region, Rgbd, Theta, dispatch};
pub use file::{MAX_FILE, ModelError, VERSION};
pub use leaves::{LeafOptions, POSTERIOR_ONE};
pub use model::{
    Class, Forest, LEAF, MAX_CLASSES, MAX_DEPTH, Meta, Node, Progress, Recipe, Sampling,
    ThresholdSource, Tree,
};
pub use planes::{
    Colour, InputSpec, MAX_CHANNELS, MAX_HALF, MAX_SIDE, Needs, Pixels, PlaneBuilder, Planes,
};
pub use random::{Mapping, Purpose, Seed, Words, md5};
pub use shipped::{STREET, street};

use crate::frame::{Disparity, Image, Size};
pub use crate::frame::{LabelTable, Labels};

/// Parameters of the stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The forest (`roadloop forest train`). Without one the stage does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// Pixels from one judged pixel to the next, in x and y.
    pub step: u32,
    /// Whether the posteriors of all classes are given out, besides the winner's.
    pub posteriors: bool,
    /// Whether a pixel without depth is void, of a forest that reads depth.
    pub void_without_depth: bool,
    /// How counts become posteriors.
    pub leaves: LeafOptions,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            model: None,
            step: 1,
            posteriors: false,
            void_without_depth: false,
            leaves: LeafOptions::default(),
        }
    }
}

/// What is wrong with parameters, sizes or a forest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// A value outside what the stage can do.
    #[error("forest.{0}")]
    Value(String),
    /// Images too small or too large.
    #[error("forest: images of {found}, expected 1x1 to {MAX_SIDE}x{MAX_SIDE}")]
    Size {
        /// The size.
        found: Size,
    },
    /// The forest can't be used.
    #[error("forest: {0}")]
    Forest(String),
}

impl Params {
    /// Checks every value.
    ///
    /// # Errors
    /// [`ParamsError::Value`] with key, found and expected.
    pub fn validate(&self) -> Result<(), ParamsError> {
        if !(1..=256).contains(&self.step) {
            let text = format!("step is {}, expected 1 to 256", self.step);
            return Err(ParamsError::Value(text));
        }
        self.leaves.validate().map_err(ParamsError::Value)
    }

    /// The size of the output for images of a size.
    pub fn grid(&self, size: Size) -> Size {
        Labels::grid(size, self.step)
    }
}

/// Depth, where there is some.
#[derive(Clone, Copy)]
pub enum Depth<'a> {
    /// None: every pixel's is missing.
    None,
    /// In the forest's steps, 0 = missing.
    Steps(&'a Image<u16>),
    /// As the stereo stage gives it; needs a camera.
    Disparity(&'a Disparity),
}

/// One image.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Its pixels. Grey stands for each channel of a forest that reads more.
    pub pixels: Pixels<'a>,
    /// Its depth.
    pub depth: Depth<'a>,
}
