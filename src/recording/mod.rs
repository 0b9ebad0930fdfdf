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

/// The names of topics.
pub mod topic {
    /// Left picture, grey.
    pub const LEFT: &str = "/stereo/left/image_raw";
    /// Right picture, grey.
    pub const RIGHT: &str = "/stereo/right/image_raw";
    /// Left picture in colour.
    pub const COLOUR: &str = "/stereo/left/image_color";
    /// Stored disparity.
    pub const STORED: &str = "/stereo/disparity";
    /// Mono picture.
    pub const MONO: &str = "/mono/image_raw";
    /// Left camera.
    pub const LEFT_INFO: &str = "/stereo/left/camera_info";
    /// Right camera.
    pub const RIGHT_INFO: &str = "/stereo/right/camera_info";
    /// Usable pixels.
    pub const MASK: &str = "/stereo/mask";
    /// Results.
    pub const FRAME: &str = "/roadloop/frame";
    /// Frames without a result.
    pub const GAP: &str = "/roadloop/gap";
    /// What the stages had learnt.
    pub const STATE: &str = "/roadloop/state";
    /// Disparities of the stereo stage.
    pub const DISPARITY: &str = "/roadloop/disparity";
    /// The mask of what moves.
    pub const FOREGROUND: &str = "/roadloop/foreground";
    /// What is put behind the topic of pictures that are files.
    pub const COMPRESSED: &str = "/compressed";
}

/// Name of the metadata record that makes a file one of ours.
pub const METADATA: &str = "roadloop";

/// Value of the key `format` in it; goes up with every change that older versions can't read.
pub const FORMAT: &str = "1";
