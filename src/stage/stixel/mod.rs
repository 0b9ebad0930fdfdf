//! Stixels from disparity and road by dynamic programming.
pub mod cpu;

use serde::{Deserialize, Serialize};

/// Parameters of the stixel stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

/// What the stixel stage reads.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Disparity of the left image.
    pub disparity: &'a crate::frame::Disparity,
    /// The ground of this frame.
    pub road: &'a crate::frame::Road,
}
