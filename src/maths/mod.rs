//! Numerics that several stages share: basic operations (`+ - * /` and square roots) in a fixed
//! order, nothing fused, no state and no allocation, so that host and device compute the same
//! bits. Where a sum runs over many items its order is part of the contract.
pub mod homography;
pub mod random;
