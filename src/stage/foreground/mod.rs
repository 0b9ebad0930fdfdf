//! What moves in front of a camera that stands: Zivkovic's adaptive mixture of Gaussians.
pub mod cpu;
mod params;
mod snapshot;

pub use params::{MAX_MODES, Params, ParamsError};
pub use snapshot::SnapshotError;
