//! Stixels from disparity and road by dynamic programming.
//!
//! Each column of the image is cut into ground, upright objects and sky so that the cost
//! -ln p(measurements | stixels) - ln p(stixels) is least (Pfeiffer and Franke, BMVC 2011;
//! Hernandez-Juarez et al., WACV 2017).
//!
//! # The numeric contract
//! - Rows count from the bottom inside this room, from the top in results.
//! - Costs are `i32` in 1/2,048 nat ([`COST_PER_NAT`]). What is impossible is a sentinel that is
//!   compared and never added. A plan is refused unless `rows * (largest - smallest pixel cost) +
//!   2^20` fits 31 bits, so no sum can overflow; with the default probabilities that holds for
//!   every height up to 65,535.
//! - Measurements are whole numbers of `1/unit` px: 1/256, or 1/(256 * stixel_width) where whole
//!   columns are summed exactly. Means are exact integer quotients, rounded down.
//! - Tables that depend on nothing but parameters come from the host through `libm`. What depends
//!   on the road is computed once a frame by + - * / sqrt in a fixed order and look-ups, in f64;
//!   the Gaussian of a ground or sky pixel in f32, in a fixed order, rounded half up.
//! - Ties: the lowest cut wins; then object before ground before sky. At the top of the image:
//!   ground before object before sky.
//! - A column without a single measurement is what the `p_..._if_missing` say; its stixels have
//!   no disparity and no confidence.
//! - Confidence: M = data cost of the rows as the best other class less that as their own, nats,
//!   at least 0; `255 * M / (M + 8) * measured rows / rows`, rounded down. Other classes are an
//!   object of the rows' mean, or ground below and sky above the horizon.
//! - A road that does not rise downwards or is no number is no ground: all is object or sky.
mod backtrack;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod dp;
mod ground;
mod math;
mod params;
#[cfg(test)]
mod plain;
mod reduce;
mod tables;

pub use math::COST_PER_NAT;
pub use params::{InvalidPixels, Params, ParamsError, Reduction, RoadModel, Rounding, SigmaOf};

/// What the stixel stage reads.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Disparity of the left image.
    pub disparity: &'a crate::frame::Disparity,
    /// The ground of this frame.
    pub road: &'a crate::frame::Road,
}
