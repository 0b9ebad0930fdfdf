//! Logos on vehicles: features of the image, matched against templates and tracked.
pub mod features;
