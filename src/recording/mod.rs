//! What a recording is: topics, schemas and messages of roadloop's MCAP files.
//!
//! Written by [`crate::sink::recorder`], read by the source for MCAP files. For users:
//! `docs/recording.md`.
//!
//! | topic | type | what |
//! |---|---|---|
//! | `/stereo/left/image_raw`, `/stereo/right/image_raw` | `sensor_msgs/msg/Image`, mono8 | what came in, before rectification |
//! | `/stereo/left/image_color` | the same, rgb8 | where the source has colour |
//! | `/stereo/disparity` | the same, 16UC1, 1/256 px | disparities that were stored with the drive |
//! | `/mono/image_raw` | the same, mono8, mono16 or rgb8 | the mono camera |
//! | `/stereo/left/camera_info`, `/stereo/right/camera_info` | `sensor_msgs/msg/CameraInfo` | `P[3]` of the right one is `-fx B` |
//! | `/stereo/mask` | `sensor_msgs/msg/Image`, mono8 | once a file: 0 = pixels that are never used |
//! | `/mono/mask` | `sensor_msgs/msg/Image`, mono8 | the same of the mono pictures |
//! | `/roadloop/frame` | `roadloop_msgs/msg/Frame` | the result, after the pictures that it belongs to |
//! | `/roadloop/gap` | `roadloop_msgs/msg/Gap` | a frame without a result |
//! | `/roadloop/state` | `roadloop_msgs/msg/State` | once a file: what the stages had learnt |
//! | `/roadloop/disparity`, `/roadloop/foreground` | `sensor_msgs/msg/Image` | where asked for |
//!
//! With `encoding = "png"` pictures are `sensor_msgs/msg/CompressedImage` under the same topic
//! with `/compressed` behind it. The `sequence` of a message is the frame's index.
pub mod cdr;
pub mod message;
pub mod schema;

use std::collections::BTreeMap;

use schema::{CAMERA_INFO, COMPRESSED_IMAGE, FRAME, GAP, IMAGE, STATE, Schema};

/// A topic of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Left picture, grey.
    Left,
    /// Right picture, grey.
    Right,
    /// Left picture in colour.
    Colour,
    /// Stored disparity.
    Stored,
    /// Mono picture.
    Mono,
    /// Usable pixels.
    Mask,
    /// Disparities of the stereo stage.
    Disparity,
    /// The mask of what moves.
    Foreground,
    /// Left camera.
    LeftInfo,
    /// Right camera.
    RightInfo,
    /// Results.
    Frame,
    /// Frames without a result.
    Gap,
    /// What the stages had learnt.
    State,
    /// Usable pixels of the mono pictures.
    MonoMask,
}

impl Topic {
    /// All topics, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Left,
        Self::Right,
        Self::Colour,
        Self::Stored,
        Self::Mono,
        Self::Mask,
        Self::Disparity,
        Self::Foreground,
        Self::LeftInfo,
        Self::RightInfo,
        Self::Frame,
        Self::Gap,
        Self::State,
        Self::MonoMask,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "/stereo/left/image_raw",
            Self::Right => "/stereo/right/image_raw",
            Self::Colour => "/stereo/left/image_color",
            Self::Stored => "/stereo/disparity",
            Self::Mono => "/mono/image_raw",
            Self::Mask => "/stereo/mask",
            Self::Disparity => "/roadloop/disparity",
            Self::Foreground => "/roadloop/foreground",
            Self::LeftInfo => "/stereo/left/camera_info",
            Self::RightInfo => "/stereo/right/camera_info",
            Self::Frame => "/roadloop/frame",
            Self::Gap => "/roadloop/gap",
            Self::State => "/roadloop/state",
            Self::MonoMask => "/mono/mask",
        }
    }

    /// The name of its channel, of pictures or of pictures that are files.
    pub fn path(self, png: bool) -> String {
        format!("{}{}", self.name(), if png { COMPRESSED } else { "" })
    }

    /// What its messages are.
    pub const fn schema(self, png: bool) -> Schema {
        match self {
            Self::LeftInfo | Self::RightInfo => CAMERA_INFO,
            Self::Frame => FRAME,
            Self::Gap => GAP,
            Self::State => STATE,
            _ if png => COMPRESSED_IMAGE,
            _ => IMAGE,
        }
    }

    /// The number of its channel in files of ours. A message that changes gets a new one, so that
    /// a damaged file is read right, too.
    pub const fn channel(self, png: bool) -> u16 {
        match self {
            Self::Frame => 27,
            Self::MonoMask => 28 + png as u16,
            _ => 1 + 2 * self as u16 + png as u16,
        }
    }

    /// The topic, whether its pictures are files, and the format, by the number of a channel.
    pub fn of_channel(channel: u16) -> Option<(Self, bool, u32)> {
        if channel == FRAME_1 {
            return Some((Self::Frame, false, 1));
        }
        let all = Self::ALL.into_iter().flat_map(|t| [(t, false), (t, true)]);
        all.into_iter()
            .find(|(topic, png)| topic.channel(*png) == channel)
            .map(|(topic, png)| (topic, png, FORMAT))
    }
}

/// What is put behind the topic of pictures that are files.
pub const COMPRESSED: &str = "/compressed";

/// The checksum of a metadata record, its entry `crc32` aside.
pub fn checksum(metadata: &BTreeMap<String, String>) -> String {
    let mut hash = crc32fast::Hasher::new();
    for text in (metadata.iter())
        .filter(|(key, _)| *key != "crc32")
        .flat_map(|(k, v)| [k, v])
    {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    format!("{:08x}", hash.finalize())
}

/// Name of the metadata record that makes a file one of ours.
pub const METADATA: &str = "roadloop";

/// Value of the key `format` in it; goes up with every change that older versions can't read.
/// Those up to this one are read.
///
/// | format | what changed |
/// |---|---|
/// | 1 | |
/// | 2 | `Frame` has `stereo_gap` |
pub const FORMAT: u32 = 2;

/// The channel of [`Topic::Frame`] in files of format 1.
const FRAME_1: u16 = 1 + 2 * Topic::Frame as u16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_one_number_and_a_number_one_channel() {
        let mut seen = std::collections::BTreeSet::from([FRAME_1]);
        for topic in Topic::ALL {
            let pictures = topic.schema(true) != topic.schema(false);
            for png in [false, true].into_iter().filter(|png| pictures || !png) {
                let number = topic.channel(png);
                assert!(seen.insert(number), "{topic:?} {png}");
                assert_eq!(Topic::of_channel(number), Some((topic, png, FORMAT)));
            }
        }
        assert_eq!(Topic::of_channel(21), Some((Topic::Frame, false, 1)));
        assert_eq!(Topic::of_channel(0), None);
    }
}
