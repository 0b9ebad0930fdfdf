//! `[record]`: what is recorded, and where.
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How pictures are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As `sensor_msgs/msg/Image`: no work, and all of their bytes.
    #[default]
    Raw,
    /// As PNG files in `sensor_msgs/msg/CompressedImage`: half to a third of the bytes, for some
    /// ten milliseconds of a core for each megapixel.
    Png,
}

/// `[record]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordConfig {
    /// Whether `roadloop run` records; `roadloop record` does in any case.
    pub enabled: bool,
    /// Where recordings go, each into a folder of its own that is named by the time at which it
    /// began; must be set where `enabled` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// How pictures are stored.
    pub compression: Encoding,
    /// Records disparities, too (they follow from the pictures): 2 bytes a pixel.
    pub disparity: bool,
    /// Records the mask of what moves, too (it follows from the pictures): 1 byte a pixel.
    pub foreground: bool,
    /// A new file begins after so many MiB, 1 to 1048576.
    pub rotate_mib: u64,
    /// And after so many seconds, 1 to 86400.
    pub rotate_s: u64,
    /// A chunk is closed after so many milliseconds, 10 to 1000.
    pub chunk_ms: u64,
    /// What is written is forced onto the disk after so many milliseconds, 0 (after every
    /// chunk) to 1000. Together with `chunk_ms` at most 1000: more is never lost.
    pub fsync_ms: u64,
    /// The oldest files are deleted where all recordings in `folder` take more MiB; 0: never.
    pub quota_mib: u64,
    /// The recording stops (or with `quota_mib` deletes its oldest files) where the disk has
    /// fewer MiB left.
    pub min_free_mib: u64,
    /// Frames that may wait for the disk, 2 to 1024; what comes when none may is left out, and
    /// counted.
    pub queue_frames: usize,
}

impl Default for RecordConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            folder: None,
            compression: Encoding::Raw,
            disparity: false,
            foreground: false,
            rotate_mib: 1024,
            rotate_s: 60,
            chunk_ms: 400,
            fsync_ms: 400,
            quota_mib: 0,
            min_free_mib: 64,
            queue_frames: 16,
        }
    }
}

/// A value of `[record]` that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordConfigError {
    /// A number out of its range.
    #[error("record.{key} is {found}, expected {expected}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        found: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// Chunks and writes to the disk that together lose more than a second.
    #[error("record.chunk_ms and record.fsync_ms are {0} together, expected at most 1000")]
    Loss(u64),
    /// Nowhere to record to.
    #[error("record.folder is not set, expected a folder: record.enabled is true")]
    NoFolder,
}

impl RecordConfig {
    /// Refuses values that can't be used.
    ///
    /// # Errors
    /// With key, what was found and what was expected.
    pub fn validate(&self) -> Result<(), RecordConfigError> {
        let ranges = [
            ("rotate_mib", self.rotate_mib, 1..=1 << 20, "1 to 1048576"),
            ("rotate_s", self.rotate_s, 1..=86_400, "1 to 86400"),
            ("chunk_ms", self.chunk_ms, 10..=1000, "10 to 1000"),
            ("fsync_ms", self.fsync_ms, 0..=1000, "0 to 1000"),
            (
                "quota_mib",
                self.quota_mib,
                0..=1 << 40,
                "0 to 1099511627776",
            ),
            (
                "min_free_mib",
                self.min_free_mib,
                0..=1 << 30,
                "0 to 1073741824",
            ),
            (
                "queue_frames",
                self.queue_frames as u64,
                2..=1024,
                "2 to 1024",
            ),
        ];
        for (key, found, range, expected) in ranges {
            if !range.contains(&found) {
                return Err(RecordConfigError::Range {
                    key,
                    found,
                    expected,
                });
            }
        }
        let together = self.chunk_ms + self.fsync_ms;
        if together > 1000 {
            return Err(RecordConfigError::Loss(together));
        }
        if self.enabled && self.folder.is_none() {
            return Err(RecordConfigError::NoFolder);
        }
        Ok(())
    }
}
