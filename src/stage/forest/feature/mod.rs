//! Features: what a node of a tree asks of a pixel.
//!
//! # The numeric contract
//! A response is a whole number; a pixel goes **left iff `response <= tau`**. [`INVALID`] is
//! above every threshold, so what can't be said goes right, on every device alike.
//!
//! A region of half sizes `w`, `h` around `(a, b)` is `(a - w, a + w] x (b - h, b + h]`. Its mean
//! is `floor(256 S / n)` in 1/256 of a sample's step, with `S` the sum and `n` the number of its
//! pixels; a channel's bias (a and b of Lab) is taken off as `256 bias`, from a sum as `n bias`.
//!
//! # Your own feature
//! One file with a struct that is [`Feature`], and one line each in [`FeatureSpec`] and
//! [`dispatch!`](crate::stage::forest::feature::dispatch). Candidates, training, model file and
//! inference then work as for the others; a device function of the same name and the same 16
//! bytes of [`Theta`] does for the GPU. A feature that compares two pixels of channel 0:
//!
//! ```
//! use roadloop::stage::forest::{
//!     Needs, Planes, Theta, Words,
//!     feature::{Feature, INVALID},
//! };
//!
//! struct PixelPair {
//!     offset_px: i32,
//! }
//!
//! impl Feature for PixelPair {
//!     fn needs(&self) -> Needs {
//!         Needs { colour: true, depth: false, depth_sums: false }
//!     }
//!     fn draw(&self, words: &mut Words) -> Theta {
//!         let r = self.offset_px;
//!         let offsets = std::array::from_fn(|_| words.within(-r, r) as i16);
//!         Theta { offsets, ..Theta::default() }
//!     }
//!     fn threshold_range(&self, _: &Theta) -> (i32, i32) {
//!         (-1020, 1020)
//!     }
//!     fn check(&self, theta: &Theta, _channels: usize) -> Result<(), &'static str> {
//!         if theta.kind == 0 { Ok(()) } else { Err("a kind that pixel pairs do not have") }
//!     }
//!     fn response(&self, planes: &Planes, theta: &Theta, x: i32, y: i32) -> i32 {
//!         // Two by two pixels are the smallest region.
//!         let sum = |dx: i16, dy: i16| {
//!             let region = planes.region(x + i32::from(dx), y + i32::from(dy), 1, 1, false)?;
//!             Some(planes.sum(0, region) as i32)
//!         };
//!         let [x1, y1, x2, y2] = theta.offsets;
//!         match (sum(x1, y1), sum(x2, y2)) {
//!             (Some(a), Some(b)) => a - b,
//!             _ => INVALID,
//!         }
//!     }
//! }
//! ```
pub mod depth;
pub mod region;
pub mod rgbd;

use serde::{Deserialize, Serialize};

pub use depth::DepthDifference;
pub use region::{Norm, Region};
pub use rgbd::Rgbd;

use super::{
    Corners,
    planes::{InputSpec, Needs, Planes},
    random::Words,
};

/// The response where none can be given: goes right at every node.
pub const INVALID: i32 = i32::MAX;

/// The largest response and threshold: what is valid goes left there.
pub const LARGEST: i32 = i32::MAX - 1;

/// The smallest response.
pub const SMALLEST: i32 = -LARGEST;

/// The parameters of one question: 15 bytes whose meaning is the feature's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Theta {
    /// `x1, y1, x2, y2`, px.
    pub offsets: [i16; 4],
    /// Half sizes `w1, h1, w2, h2`, px.
    pub sizes: [u8; 4],
    /// Channels of the first and the second region.
    pub channels: [u8; 2],
    /// Which of the feature's kinds of question this is.
    pub kind: u8,
}

/// A kind of question: the paper's `ComputeFeature`, with how its parameters are drawn.
pub trait Feature: Sync {
    /// Which tables of an image it reads.
    fn needs(&self) -> Needs;

    /// Draws a candidate's parameters from its stream.
    fn draw(&self, words: &mut Words) -> Theta;

    /// Where thresholds of such a candidate lie, both ends included, in units of the response.
    fn threshold_range(&self, theta: &Theta) -> (i32, i32);

    /// Whether parameters from a file can be used with images of so many channels.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(&self, theta: &Theta, channels: usize) -> Result<(), &'static str>;

    /// The response at pixel `(x, y)` of the image, in [`SMALLEST`]..=[`LARGEST`], or [`INVALID`].
    fn response(&self, planes: &Planes, theta: &Theta, x: i32, y: i32) -> i32;

    /// The same question as sums at fixed distances from the pixel, for images of the size of
    /// `planes`; `None` where it is none. It only makes inference quicker: where the regions lie
    /// inside the image, responses must be those of [`Feature::response`].
    fn corners(&self, planes: &Planes, theta: &Theta) -> Option<Corners> {
        let _ = (planes, theta);
        None
    }
}

/// A feature with its options, as the model file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "feature", rename_all = "snake_case")]
pub enum FeatureSpec {
    /// Difference of two regions' colours.
    Region(Region),
    /// The same at a size that follows depth, and difference of two regions' depths.
    Rgbd(Rgbd),
    /// Difference of two pixels' depths.
    Depth(DepthDifference),
}

/// Runs an expression with the feature that a [`FeatureSpec`] is.
#[macro_export]
macro_rules! dispatch_feature {
    ($spec:expr, $feature:ident => $body:expr) => {
        match $spec {
            $crate::stage::forest::feature::FeatureSpec::Region($feature) => $body,
            $crate::stage::forest::feature::FeatureSpec::Rgbd($feature) => $body,
            $crate::stage::forest::feature::FeatureSpec::Depth($feature) => $body,
        }
    };
}
pub use dispatch_feature as dispatch;

impl FeatureSpec {
    /// The name in the model file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Region(_) => "region",
            Self::Rgbd(_) => "rgbd",
            Self::Depth(_) => "depth",
        }
    }

    /// Which tables of an image it reads.
    pub fn needs(&self) -> Needs {
        dispatch!(self, f => f.needs())
    }

    /// Checks options that a file or user gave.
    ///
    /// # Errors
    /// The option, what was found and what was expected.
    pub fn validate(&self, input: &InputSpec) -> Result<(), String> {
        if input.colour == super::Colour::Lab && (input.channels != 3 || input.bits != 8) {
            return Err(format!(
                "{} channels of {} bits in Lab, expected 3 of 8 bits",
                input.channels, input.bits
            ));
        }
        let most = super::planes::MAX_CHANNELS as u8;
        if !(1..=most).contains(&input.channels) {
            return Err(format!("{} channels, expected 1 to {most}", input.channels));
        }
        if !matches!(input.bits, 8 | 16) {
            return Err(format!("samples of {} bits, expected 8 or 16", input.bits));
        }
        if !(1..=65_535).contains(&input.depth_steps_per_m) {
            return Err(format!(
                "{} steps of depth in a metre, expected 1 to 65535",
                input.depth_steps_per_m
            ));
        }
        match self {
            Self::Region(f) => f.validate(input),
            Self::Rgbd(f) => f.validate(input),
            Self::Depth(f) => f.validate(),
        }
    }
}

/// A threshold range that makes sense.
fn check_range(name: &str, (low, high): (i32, i32)) -> Result<(), String> {
    if SMALLEST <= low && low <= high && high <= LARGEST {
        Ok(())
    } else {
        Err(format!(
            "{name} of {low} to {high}, expected {SMALLEST} <= low <= high <= {LARGEST}"
        ))
    }
}

/// An option within bounds.
fn check_within(name: &str, found: i64, low: i64, high: i64) -> Result<(), String> {
    if (low..=high).contains(&found) {
        Ok(())
    } else {
        Err(format!("{name} is {found}, expected {low} to {high}"))
    }
}
