//! The ground line from the v-disparity histogram.
pub mod cpu;

use serde::{Deserialize, Serialize};

/// Parameters of the road stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}
