//! How the device and the cameras are.
use serde::{Deserialize, Serialize};

/// What a camera does, as its source sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameraState {
    /// Opened, no frame yet.
    #[default]
    Starting,
    /// Frames come.
    Streaming,
    /// None has come for too long; streaming is being started anew.
    Stalled,
    /// The device is gone, or closed to be opened again.
    Lost,
}

impl CameraState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Starting, Self::Streaming, Self::Stalled, Self::Lost];

    /// The name in results, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Streaming => "streaming",
            Self::Stalled => "stalled",
            Self::Lost => "lost",
        }
    }
}

/// The states of the cameras of a live source; `None` for what it does not have, and on recorded
/// drives throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CameraStates {
    /// Left camera.
    pub left: Option<CameraState>,
    /// Right camera.
    pub right: Option<CameraState>,
    /// Mono camera.
    pub mono: Option<CameraState>,
}

impl CameraStates {
    /// Name and state of those that there are.
    pub fn iter(self) -> impl Iterator<Item = (&'static str, CameraState)> {
        [
            ("left", self.left),
            ("right", self.right),
            ("mono", self.mono),
        ]
        .into_iter()
        .filter_map(|(name, state)| Some((name, state?)))
    }
}

/// How the device was when a frame was computed; never part of a digest. Nothing of it on
/// recorded drives; a value that the device does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The hottest thermal zone, 1/1000 degree Celsius.
    pub temperature_mdeg: Option<i32>,
    /// The fastest core's clock, kHz.
    pub cpu_khz: Option<u32>,
    /// The GPU's clock, kHz.
    pub gpu_khz: Option<u32>,
    /// Whether a cooling device other than a fan holds a clock back.
    pub throttled: Option<bool>,
    /// How often clocks were throttled by heat since the device started.
    pub throttle_events: Option<u32>,
    /// How often supply current was too high since the device started.
    pub over_current_events: Option<u32>,
    /// What the cameras do.
    pub cameras: CameraStates,
}
