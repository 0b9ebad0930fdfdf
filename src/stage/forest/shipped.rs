//! The forest that comes with roadloop.
use std::path::Path;

use super::{Forest, ModelError};

/// The file, as `scripts/street-forest.sh` makes it.
pub const STREET: &[u8] = include_bytes!("../../../models/street.forest");

/// The forest for the streets of `roadloop synth`, on colour and disparity.
///
/// # Errors
/// Only when the program was built with another file in its place.
pub fn street() -> Result<Forest, ModelError> {
    Forest::parse(STREET, Path::new("models/street.forest"))
}
