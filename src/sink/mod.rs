//! Where results go.
pub mod png;
