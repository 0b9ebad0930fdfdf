//! Dense disparity from a rectified pair by semi-global matching.
pub mod cpu;

use serde::{Deserialize, Serialize};

/// Parameters of the stereo stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

/// A rectified pair.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Left image.
    pub left: &'a crate::frame::Image<u8>,
    /// Right image.
    pub right: &'a crate::frame::Image<u8>,
}
