//! The stages and their order: the one place that knows it.
use std::fmt;

use serde::{Deserialize, Serialize};

/// A stage of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum StageId {
    /// Raw images to the rectified camera.
    Rectify,
    /// Disparity by semi-global matching.
    Stereo,
    /// The ground line.
    Road,
    /// Stixels.
    Stixel,
    /// How the vehicle moves, from the mono image.
    Egomotion,
    /// What moves while the vehicle stands.
    Foreground,
    /// Logos on vehicles.
    Logo,
    /// Labels per pixel.
    Forest,
}

// Stages index arrays by their number.
const _: () = {
    let mut i = 0;
    while i < StageId::ORDER.len() {
        assert!(StageId::ORDER[i] as usize == i);
        i += 1;
    }
    assert!(StageId::Forest as usize + 1 == StageId::ORDER.len());
};

impl StageId {
    /// Every stage, in the order in which a frame passes them.
    pub const ORDER: [StageId; 8] = [
        StageId::Rectify,
        StageId::Stereo,
        StageId::Road,
        StageId::Stixel,
        StageId::Egomotion,
        StageId::Foreground,
        StageId::Logo,
        StageId::Forest,
    ];

    /// The stage of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ORDER.into_iter().find(|s| s.name() == name)
    }

    /// The name in configuration, tables and logs.
    pub const fn name(self) -> &'static str {
        match self {
            StageId::Rectify => "rectify",
            StageId::Stereo => "stereo",
            StageId::Road => "road",
            StageId::Stixel => "stixel",
            StageId::Egomotion => "egomotion",
            StageId::Foreground => "foreground",
            StageId::Logo => "logo",
            StageId::Forest => "forest",
        }
    }

    /// Whether a frame is nothing without it: the stereo chain always runs, the others are
    /// admitted one by one.
    pub const fn required(self) -> bool {
        matches!(
            self,
            StageId::Rectify | StageId::Stereo | StageId::Road | StageId::Stixel
        )
    }

    /// Whether it computes from the stereo camera's images, or from what comes of them.
    pub const fn needs_stereo(self) -> bool {
        self.required() || matches!(self, StageId::Forest)
    }
}

impl fmt::Display for StageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
