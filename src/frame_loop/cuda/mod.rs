//! The loop's stages on a GPU, one graph for what is launched as one.
//!
//! | file | what |
//! |---|---|
//! | [`street`] | the stereo chain: what it is, its frames |
//! | [`recording`], [`memory`] | the order of its work, and the memory that it needs |
//! | [`mono`] | what reads the mono image: [`still`] (egomotion, foreground) and [`marks`] (logos) |
//! | [`labels`] | the forest behind the stereo chain |
//! | [`launched`], [`pixels`], [`errors`] | what they share |
mod errors;
mod labels;
mod launched;
mod marks;
mod memory;
mod mono;
mod pixels;
mod recording;
mod still;
mod street;

pub use labels::CudaLabels;
pub use mono::CudaMono;
pub use street::{CudaBackend, LeftImage, Wanted};
