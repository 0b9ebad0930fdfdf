//! Rigs from files, rectification maps, metric geometry.
//!
//! [`read`] and [`read_pair`] recognise a file by its content and give a [`Rig`];
//! [`Rig::rectification`] gives, for an image size, the rectified [`Camera`](crate::frame::Camera)
//! and, where the images must be rectified, the maps that [`crate::stage::rectify`] applies;
//! [`metric`] turns pixels and disparities into metres.
//!
//! # Formats
//! | format | known by | images |
//! |---|---|---|
//! | KITTI odometry, object | `P0:` .. `P3:`, or bare rows of 12 | rectified |
//! | KITTI `calib_cam_to_cam` | `P_rect_00:` .. | rectified, of size `S_rect` |
//! | OpenCV YAML | `M1 D1 M2 D2 R T` (and `R1 R2 P1 P2`) | raw |
//! | OpenCV YAML | `P1 P2` alone | rectified |
//! | Kalibr camchain | `cam0`, `cam1` with `T_cn_cnm1` | raw |
//! | EuRoC `sensor.yaml` | `T_BS`, one file a camera | raw |
//! | ROS `camera_info` | `camera_matrix`, `projection_matrix`, one file a camera | raw |
//!
//! Raw cameras without distortion whose given rectification changes nothing count as rectified.
//! Lengths are metres; an OpenCV file may say otherwise under `unit:` (`m`, `cm`, `mm`, or metres
//! per unit as a number).
mod describe;
mod distortion;
mod error;
mod exact;
mod map;
pub mod metric;
mod read;
mod rectification;
mod rig;

pub use describe::describe;
pub use distortion::Distortion;
pub use error::CalibError;
pub use map::{MAP_ONE, OUTSIDE, RectifyMap};
pub use read::{of_camera_infos, read, read_pair};
pub use rectification::{Rectification, View};
pub use rig::{Format, Given, Lens, Pinhole, RawPair, Rig};

/// Which two cameras of a file that holds several; of a file with one pair, that pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pair {
    /// Cameras 0 and 1 (KITTI: grey).
    #[default]
    First,
    /// Cameras 2 and 3 (KITTI: colour).
    Second,
}

impl Pair {
    /// The names of the cameras to take: the other pair's only where nothing of this one is
    /// there and the other is whole.
    fn choose<'a>(
        self,
        first: [&'a str; 2],
        second: [&'a str; 2],
        has: impl Fn(&'a str) -> bool,
    ) -> [&'a str; 2] {
        let (asked, other) = match self {
            Self::First => (first, second),
            Self::Second => (second, first),
        };
        if !asked.iter().any(|name| has(name)) && other.iter().all(|name| has(name)) {
            return other;
        }
        asked
    }
}
