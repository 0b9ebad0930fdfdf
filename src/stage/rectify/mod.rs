//! Raw images to the rectified camera by fixed-point maps.
pub mod cpu;
