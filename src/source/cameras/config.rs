//! `[cameras]`: which cameras there are, and how they are to be set.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::PixelFormat;
use crate::{frame::Size, source::SourceError};

/// `[cameras]`: live cameras.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CamerasConfig {
    /// Frames a second that every camera is asked for, 0.1 to 1000.
    pub rate_hz: f64,
    /// How far apart in time left and right may be taken to be a pair, us, inclusive; at most half
    /// a period.
    pub tolerance_us: u64,
    /// How long a picture waits for what belongs to it, us, 0 to 10000000; one period without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_wait_us: Option<u64>,
    /// Buffers asked of each driver, 2 to 32.
    pub buffers: u32,
    /// Converted pictures of each camera that go round, 3 to 32: one less can wait for the loop,
    /// then the oldest is dropped.
    pub pictures: usize,
    /// Silence that counts as a stall, in periods, 1 to 1000.
    pub stall_periods: u32,
    /// How long the first frame after a start may take, ms, 1 to 60000.
    pub start_timeout_ms: u64,
    /// Rest between two attempts to open a camera, at first, ms, 1 to 60000; it doubles.
    pub retry_ms: u64,
    /// Up to this many ms, `retry_ms` to 60000.
    pub retry_max_ms: u64,
    /// Older than this when they come, frames are refused, ms, 1 to 60000.
    pub max_age_ms: u64,
    /// Takes `/dev/videoN` as a name, which is another camera's after a re-plug.
    pub allow_unstable_name: bool,
    /// The left camera; never without the right one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<CameraConfig>,
    /// The right camera.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<CameraConfig>,
    /// The mono camera.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mono: Option<CameraConfig>,
}

impl Default for CamerasConfig {
    fn default() -> Self {
        Self {
            rate_hz: 30.0,
            tolerance_us: 2_000,
            pair_wait_us: None,
            buffers: 4,
            pictures: 4,
            stall_periods: 3,
            start_timeout_ms: 2_000,
            retry_ms: 250,
            retry_max_ms: 1_000,
            max_age_ms: 1_000,
            allow_unstable_name: false,
            left: None,
            right: None,
            mono: None,
        }
    }
}

/// `[cameras.left]`, `[cameras.right]`, `[cameras.mono]`: one camera.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraConfig {
    /// A name that stays: in /dev/v4l/by-path or /dev/v4l/by-id, or a link that a udev rule
    /// makes.
    pub device: PathBuf,
    /// Columns, 1 to 16384.
    pub width: usize,
    /// Rows, 1 to 16384.
    pub height: usize,
    /// What the camera sends.
    pub format: PixelFormat,
    /// Whether the pictures come in colour, too. Without: the mono camera's where its format has
    /// colour, the left one's not; the right one's never do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colour: Option<bool>,
    /// Samples of more than 8 bits come down to 8 by this shift, 0 to 15; larger values become
    /// 255. Without: the shift that keeps the top 8 of the format's bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift_bits: Option<u32>,
    /// Exposure time, us; automatic exposure is turned off for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure_us: Option<u64>,
    /// Gain, in the driver's units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<i64>,
    /// Other controls by the driver's name for them, in the driver's units; set in the order of
    /// their names, before exposure and gain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controls: BTreeMap<String, i64>,
    /// The clock of the driver's time stamps.
    #[serde(default)]
    pub clock: ClockChoice,
    /// Whose memory the driver writes to.
    #[serde(default)]
    pub memory: MemoryChoice,
}

/// Which clock the time stamps of a driver are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockChoice {
    /// Found out from the first frames.
    #[default]
    Auto,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_REALTIME`.
    Realtime,
    /// The processor's counter (Tegra's TSC), whatever the driver calls it.
    Counter,
    /// None that is known: its offset is that of the frame that came soonest after its stamp.
    Unknown,
    /// No stamps: a frame is stamped when it comes.
    Arrival,
}

/// Whose memory a driver writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryChoice {
    /// The driver's own, mapped.
    #[default]
    Mmap,
    /// The program's; the driver's own where the driver refuses.
    Userptr,
}

impl CamerasConfig {
    /// Refuses values that can't be used.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), SourceError> {
        if !(0.1..=1000.0).contains(&self.rate_hz) {
            return refuse("rate_hz", format!("{}, expected 0.1 to 1000", self.rate_hz));
        }
        let half_us = self.period_ns() / 2000;
        for (key, value, low, high) in [
            ("tolerance_us", self.tolerance_us, 0, half_us),
            (
                "pair_wait_us",
                self.pair_wait_us.unwrap_or(0),
                0,
                10_000_000,
            ),
            ("buffers", self.buffers.into(), 2, 32),
            ("pictures", self.pictures as u64, 3, 32),
            ("stall_periods", self.stall_periods.into(), 1, 1000),
            ("start_timeout_ms", self.start_timeout_ms, 1, 60_000),
            ("retry_ms", self.retry_ms, 1, 60_000),
            ("retry_max_ms", self.retry_max_ms, self.retry_ms, 60_000),
            ("max_age_ms", self.max_age_ms, 1, 60_000),
        ] {
            if !(low..=high).contains(&value) {
                return refuse(key, format!("{value}, expected {low} to {high}"));
            }
        }
        for (keys, camera) in [
            (&KEYS[0], &self.left),
            (&KEYS[1], &self.right),
            (&KEYS[2], &self.mono),
        ] {
            if let Some(camera) = camera {
                camera.validate(keys, self.allow_unstable_name)?;
            }
        }
        match (&self.left, &self.right) {
            (None, None) => {}
            (Some(left), Some(right)) => {
                if left.size() != right.size() {
                    let text = format!(
                        "{}, expected {} as of cameras.left",
                        right.size(),
                        left.size()
                    );
                    return refuse("right.width", text);
                }
                if right.colour == Some(true) {
                    let text = "true, expected false: only the left picture is used in colour";
                    return refuse("right.colour", text.into());
                }
            }
            (Some(_), None) => return refuse("right", "missing, expected beside left".into()),
            (None, Some(_)) => return refuse("left", "missing, expected beside right".into()),
        }
        let names = [&self.left, &self.right, &self.mono].map(|c| c.as_ref().map(|c| &c.device));
        for (at, key) in [(1, "right.device"), (2, "mono.device")] {
            if names[at].is_some() && names[..at].contains(&names[at]) {
                let name = names[at].map(|n| n.display().to_string());
                let text = format!("{}, another camera has that name", name.unwrap_or_default());
                return refuse(key, text);
            }
        }
        Ok(())
    }

    /// From one frame to the next as it is asked for, ns.
    pub fn period_ns(&self) -> u64 {
        (1e9 / self.rate_hz) as u64
    }

    /// How long a picture waits for what belongs to it, ns.
    pub fn pair_wait_ns(&self) -> u64 {
        self.pair_wait_us
            .map_or(self.period_ns(), |us| us.saturating_mul(1000))
    }

    /// Whether there is no camera.
    pub fn is_empty(&self) -> bool {
        self.left.is_none() && self.right.is_none() && self.mono.is_none()
    }

    /// Name and settings of the cameras that there are.
    pub fn iter(&self) -> impl Iterator<Item = (Which, &CameraConfig)> {
        let all = [&self.left, &self.right, &self.mono];
        Which::ALL
            .into_iter()
            .zip(all)
            .filter_map(|(which, camera)| Some((which, camera.as_ref()?)))
    }
}

/// One of the cameras.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the cameras")]
pub enum Which {
    Left,
    Right,
    Mono,
}

impl Which {
    /// All cameras.
    pub const ALL: [Self; 3] = [Self::Left, Self::Right, Self::Mono];

    /// The name in configuration, log and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Mono => "mono",
        }
    }
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl CameraConfig {
    /// Width and height.
    pub fn size(&self) -> Size {
        Size::new(self.width, self.height)
    }

    /// Whether the pictures of this camera come in colour.
    pub fn in_colour(&self, which: Which) -> bool {
        match which {
            Which::Left => self.colour.unwrap_or(false),
            Which::Right => false,
            Which::Mono => self.colour.unwrap_or(self.format.has_colour()),
        }
    }

    /// The shift that brings its samples to 8 bits.
    pub fn shift(&self) -> u32 {
        self.shift_bits.unwrap_or(self.format.shift_bits())
    }

    fn validate(&self, keys: &Keys, unstable: bool) -> Result<(), SourceError> {
        if !self.device.is_absolute() {
            let text = format!("{:?}, expected an absolute path", self.device);
            return refuse(keys.device, text);
        }
        if !unstable && is_unstable(&self.device) {
            let text = format!(
                "{}, which may be another camera after a re-plug or a restart; expected a name in \
                 /dev/v4l/by-path or /dev/v4l/by-id, or a link made by a udev rule (or \
                 cameras.allow_unstable_name = true)",
                self.device.display()
            );
            return refuse(keys.device, text);
        }
        for (key, value) in [(keys.width, self.width), (keys.height, self.height)] {
            if !(1..=16384).contains(&value) {
                return refuse(key, format!("{value}, expected 1 to 16384"));
            }
        }
        if let Some(shift) = self.shift_bits
            && shift > 15
        {
            return refuse(keys.shift_bits, format!("{shift}, expected 0 to 15"));
        }
        if self.colour == Some(true) && !self.format.has_colour() {
            let text = format!("true, but {} has none", self.format);
            return refuse(keys.colour, text);
        }
        if let Some(us) = self.exposure_us
            && !(1..=60_000_000).contains(&us)
        {
            return refuse(keys.exposure_us, format!("{us}, expected 1 to 60000000"));
        }
        Ok(())
    }
}

/// Whether a device is named by its number alone.
fn is_unstable(device: &Path) -> bool {
    let number = device
        .file_name()
        .and_then(|name| name.to_str()?.strip_prefix("video"));
    device.parent() == Some(Path::new("/dev"))
        && number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

struct Keys {
    device: &'static str,
    width: &'static str,
    height: &'static str,
    shift_bits: &'static str,
    colour: &'static str,
    exposure_us: &'static str,
}

macro_rules! keys {
    ($($name:literal),*) => { [$(Keys {
        device: concat!($name, ".device"),
        width: concat!($name, ".width"),
        height: concat!($name, ".height"),
        shift_bits: concat!($name, ".shift_bits"),
        colour: concat!($name, ".colour"),
        exposure_us: concat!($name, ".exposure_us"),
    }),*] };
}

const KEYS: [Keys; 3] = keys!["left", "right", "mono"];

fn refuse<T>(key: &'static str, text: String) -> Result<T, SourceError> {
    Err(SourceError::Config {
        section: "cameras",
        key,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEREO: &str = "
        rate_hz = 25
        tolerance_us = 1000
        [left]
        device = '/dev/v4l/by-path/platform-a-video-index0'
        width = 640
        height = 480
        format = 'RGGB10'
        exposure_us = 5000
        controls = { 'Test Pattern' = 2 }
        [right]
        device = '/dev/camera-right'
        width = 640
        height = 480
        format = 'GREY'
        clock = 'counter'
        [mono]
        device = '/dev/v4l/by-id/usb-m'
        width = 320
        height = 240
        format = 'YUYV'
    ";

    fn parse(text: &str) -> CamerasConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_file_as_it_is_meant() {
        let config = parse(STEREO);
        config.validate().unwrap();
        assert_eq!(config.period_ns(), 40_000_000);
        assert_eq!(config.pair_wait_ns(), 40_000_000);
        let left = config.left.as_ref().unwrap();
        assert_eq!(left.shift(), 2);
        assert!(!left.in_colour(Which::Left));
        assert!(config.mono.as_ref().unwrap().in_colour(Which::Mono));
        assert_eq!(config.iter().count(), 3);
        CamerasConfig::default().validate().unwrap();
        let again: CamerasConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_its_key() {
        for (from, to, key) in [
            ("rate_hz = 25", "rate_hz = 0", "rate_hz"),
            (
                "tolerance_us = 1000",
                "tolerance_us = 20001",
                "tolerance_us",
            ),
            ("tolerance_us = 1000", "buffers = 1", "buffers"),
            ("tolerance_us = 1000", "pictures = 2", "pictures"),
            ("tolerance_us = 1000", "retry_max_ms = 249", "retry_max_ms"),
            ("/dev/camera-right", "/dev/video2", "right.device"),
            ("/dev/camera-right", "camera", "right.device"),
            ("/dev/v4l/by-id/usb-m", "/dev/camera-right", "mono.device"),
            (
                "format = 'GREY'",
                "format = 'GREY'\ncolour = true",
                "right.colour",
            ),
            ("width = 320", "width = 0", "mono.width"),
            ("exposure_us = 5000", "exposure_us = 0", "left.exposure_us"),
            ("exposure_us = 5000", "shift_bits = 16", "left.shift_bits"),
            (
                "format = 'RGGB10'",
                "format = 'Y10'\ncolour = true",
                "left.colour",
            ),
        ] {
            let text = STEREO.replacen(from, to, 1);
            assert_ne!(text, STEREO, "{from}");
            let error = parse(&text).validate().unwrap_err();
            let SourceError::Config { key: found, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(*found, key, "{error}");
        }
        let alone = parse("[left]\ndevice='/dev/a'\nwidth=1\nheight=1\nformat='GREY'");
        assert!(alone.validate().unwrap_err().to_string().contains("right"));
        assert!(toml::from_str::<CamerasConfig>("left = { speed = 1 }").is_err());
    }

    #[test]
    fn numbers_are_no_names_unless_allowed() {
        for (device, unstable) in [
            ("/dev/video0", true),
            ("/dev/video17", true),
            ("/dev/video", false),
            ("/dev/video-left", false),
            ("/dev/v4l/by-path/video0", false),
        ] {
            assert_eq!(is_unstable(Path::new(device)), unstable, "{device}");
        }
        let text = STEREO.replacen("/dev/camera-right", "/dev/video2", 1);
        let config = parse(&format!("allow_unstable_name = true\n{text}"));
        config.validate().unwrap();
    }
}
