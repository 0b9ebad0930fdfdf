use std::fmt;

use serde::{Deserialize, Serialize};

/// Why something that was expected is not there. Every gap is counted, in the result, the log
/// and the summary, under [`Gap::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Gap {
    /// The loop had no slot, or no time, for the frame: it was never started.
    Dropped,
    /// The frame was finished after its deadline.
    Late,
    /// An optional stage did not fit into what was left of the deadline.
    Skipped,
    /// A picture of the set has no partner in time.
    Unsynchronised,
    /// A camera stopped delivering.
    CameraLost,
    /// A file of the drive is missing.
    Missing,
    /// A file of the drive can't be decoded.
    Unreadable,
    /// A picture has another size than the first of its drive.
    SizeChanged,
    /// A column had more stixels than its list holds; the nearest ones were kept.
    StixelOverflow,
    /// The road could not be measured: the last good one, or the assumed camera, stands in.
    RoadHeld,
}

impl Gap {
    /// All gaps, in the order in which tables show them.
    pub const ALL: [Gap; 10] = [
        Gap::Dropped,
        Gap::Late,
        Gap::Skipped,
        Gap::Unsynchronised,
        Gap::CameraLost,
        Gap::Missing,
        Gap::Unreadable,
        Gap::SizeChanged,
        Gap::StixelOverflow,
        Gap::RoadHeld,
    ];

    /// The name in logs, results and `summary.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Gap::Dropped => "dropped",
            Gap::Late => "late",
            Gap::Skipped => "skipped",
            Gap::Unsynchronised => "unsynchronised",
            Gap::CameraLost => "camera_lost",
            Gap::Missing => "missing",
            Gap::Unreadable => "unreadable",
            Gap::SizeChanged => "size_changed",
            Gap::StixelOverflow => "stixel_overflow",
            Gap::RoadHeld => "road_held",
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
