//! What the user may say about a drive: `[input]` and `[source]` of the configuration, and the
//! options of the command line.
use std::{ops::Range, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{SourceError, SourceKind, prepare::Prepare};
use crate::{
    calib::Pair,
    frame::{Camera, Size},
};

/// `[input]`: what is done to the stereo pictures before anything else sees them, in this order: 16
/// bits to 8, RGB to grey, crop, scale down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InputConfig {
    /// The part of each picture to use; all of it without.
    pub crop: Option<Crop>,
    /// Averages `n` x `n` pixels to one (rounded half up), 1 to 8; what is left over at the right
    /// and lower edge is cut off.
    pub scale_down: usize,
    /// Pixels never to be used, such as one's own bonnet, in the coordinates of the left picture
    /// files as they lie on disk.
    pub mask: Option<MaskSource>,
    /// 16-bit grey pictures come down to 8 bits by this shift, 0 to 15; larger values become
    /// 255. A 12-bit camera in 16-bit files wants 4.
    pub shift_bits: u32,
}

impl Default for InputConfig {
    fn default() -> Self {
        Self {
            crop: None,
            scale_down: 1,
            mask: None,
            shift_bits: 8,
        }
    }
}

/// A part of a picture, px.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crop {
    /// First column.
    pub x: usize,
    /// First row.
    pub y: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Where a mask comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a file name, a polygon [[x, y], ...] or a list of polygons"
)]
pub enum MaskSource {
    /// A picture of the size of the left pictures: black (0) pixels are never used.
    Picture(PathBuf),
    /// One polygon, `[[x, y], …]` px: pixels whose centre (whole numbers) lies inside or on the
    /// outline are never used. Where the outline crosses itself, even-odd.
    Polygon(Vec<[f64; 2]>),
    /// Several polygons.
    Polygons(Vec<Vec<[f64; 2]>>),
}

/// `[source]`: where live frames come from, and how files are to be understood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SourceConfig {
    /// Where live frames come from; replays go by their drive.
    #[serde(skip_serializing_if = "is_cameras")]
    pub kind: SourceKind,
    /// Frames a second of live cameras, and of drives without time stamps, 0.001 to 10000.
    pub rate_hz: f64,
    /// Pixels of disparity that one unit of an 8-bit stored disparity stands for. 16-bit ones
    /// are always 1/256 px.
    pub disparity_scale: Option<f64>,
    /// Which two cameras, where a drive has several pairs; else the grey ones where there are
    /// any.
    pub pair: Option<CameraPair>,
    /// Which topics of a recording (MCAP) are the cameras; else they are found by their
    /// `CameraInfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Topics>,
}

/// Topics of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// Pictures of the left camera: `sensor_msgs/msg/Image` or `CompressedImage`.
    pub left: String,
    /// Those of the right one.
    pub right: String,
    /// `sensor_msgs/msg/CameraInfo` of the left camera; else the `camera_info` beside its
    /// pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_info: Option<String>,
    /// That of the right one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right_info: Option<String>,
    /// Pictures of a mono camera.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mono: Option<String>,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            kind: SourceKind::default(),
            rate_hz: 10.0,
            disparity_scale: None,
            pair: None,
            topics: None,
        }
    }
}

/// Left out of a file, so that the hash of configurations for replays stays.
fn is_cameras(kind: &SourceKind) -> bool {
    *kind == SourceKind::Cameras
}

/// `[mono]`: the mono camera, beside a stereo camera or alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MonoConfig {
    /// How far in time from a stereo frame its mono picture may be, us, 0 to 10000000; without,
    /// half of what lies between the drive's frames on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance_us: Option<u64>,
    /// The part of each picture to use; all of it without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<Crop>,
    /// Averages `n` x `n` pixels to one, 1 to 8, as [`InputConfig::scale_down`].
    pub scale_down: usize,
    /// Pixels never to be used, as [`InputConfig::mask`], in the coordinates of the mono picture
    /// files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskSource>,
}

impl Default for MonoConfig {
    fn default() -> Self {
        Self {
            tolerance_us: None,
            crop: None,
            scale_down: 1,
            mask: None,
        }
    }
}

impl MonoConfig {
    /// The tolerance of a drive of a single frame, which has no period, ns.
    pub const TOLERANCE_OF_ONE_NS: u64 = 50_000_000;

    /// Refuses values that fit no drive.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), SourceError> {
        if let Some(us) = self.tolerance_us
            && us > 10_000_000
        {
            return refuse(
                "mono",
                "tolerance_us",
                format!("{us}, expected 0 to 10000000"),
            );
        }
        scale_and_crop("mono", self.scale_down, self.crop)?;
        polygons("mono", self.mask.as_ref())
    }
}

/// Two cameras of a KITTI drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameraPair {
    /// Cameras 0 and 1.
    Grey,
    /// Cameras 2 and 3.
    #[serde(alias = "color")]
    Colour,
}

impl From<CameraPair> for Pair {
    fn from(pair: CameraPair) -> Self {
        match pair {
            CameraPair::Grey => Self::First,
            CameraPair::Colour => Self::Second,
        }
    }
}

/// How to open a drive.
#[derive(Clone, Debug, Default)]
pub struct DriveOptions {
    /// `[input]`.
    pub input: InputConfig,
    /// `[source]`.
    pub source: SourceConfig,
    /// `[mono]`.
    pub mono: MonoConfig,
    /// `--calib`: goes before `camera` and before what the drive brings.
    pub calib: Option<PathBuf>,
    /// `--disparity`: a folder of stored disparities, matched to the left pictures by file name
    /// or number; the right pictures are not read then.
    pub disparity: Option<PathBuf>,
    /// `[camera]`: a rectified rig; goes before what the drive brings.
    pub camera: Option<Camera>,
    /// `--frames`: half-open, 0-based places in the drive; an end beyond the drive is its end.
    pub frames: Option<Range<usize>>,
    /// A stored disparity of 0 is a measured 0 (the `paper` preset), not "no measurement".
    pub zero_is_measured: bool,
}

fn refuse<T>(section: &'static str, key: &'static str, text: String) -> Result<T, SourceError> {
    Err(SourceError::Config { section, key, text })
}

/// Refuses outlines that are none.
fn polygons(section: &'static str, mask: Option<&MaskSource>) -> Result<(), SourceError> {
    let polygons = match mask {
        Some(MaskSource::Polygon(polygon)) => std::slice::from_ref(polygon),
        Some(MaskSource::Polygons(polygons)) => polygons,
        _ => &[],
    };
    for polygon in polygons {
        if polygon.len() < 3 {
            let text = format!("a polygon of {} points, expected 3 or more", polygon.len());
            return refuse(section, "mask", text);
        }
        if let Some([x, y]) = polygon
            .iter()
            .find(|p| p.iter().any(|c| !c.is_finite() || c.abs() > 1e6))
        {
            let text = format!("a point at [{x}, {y}], expected -1000000 to 1000000");
            return refuse(section, "mask", text);
        }
    }
    Ok(())
}

impl InputConfig {
    /// Whether pictures are cut or made smaller.
    pub fn changes_geometry(&self) -> bool {
        self.crop.is_some() || self.scale_down != 1
    }

    /// Refuses values that fit no drive.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), SourceError> {
        scale_and_crop("input", self.scale_down, self.crop)?;
        if self.shift_bits > 15 {
            let text = format!("{}, expected 0 to 15", self.shift_bits);
            return refuse("input", "shift_bits", text);
        }
        polygons("input", self.mask.as_ref())
    }

    /// What becomes of pictures of this size.
    pub(super) fn prepare(&self, size: Size) -> Result<Prepare, SourceError> {
        Ok(Prepare {
            part: part_of("input", self.crop, self.scale_down, size)?,
            scale_down: self.scale_down,
            shift_bits: self.shift_bits,
        })
    }
}

impl MonoConfig {
    /// What becomes of pictures of this size.
    pub(super) fn prepare(&self, size: Size) -> Result<Prepare, SourceError> {
        Ok(Prepare {
            part: part_of("mono", self.crop, self.scale_down, size)?,
            scale_down: self.scale_down,
            shift_bits: 0,
        })
    }
}

fn scale_and_crop(
    section: &'static str,
    scale_down: usize,
    crop: Option<Crop>,
) -> Result<(), SourceError> {
    if !(1..=8).contains(&scale_down) {
        let text = format!("{scale_down}, expected 1 to 8");
        return refuse(section, "scale_down", text);
    }
    if let Some(crop) = crop
        && (crop.width == 0 || crop.height == 0)
    {
        let text = format!("{}x{} px has no pixels", crop.width, crop.height);
        return refuse(section, "crop", text);
    }
    Ok(())
}

/// The part of a picture of this size that is used, cut to whole blocks of `scale_down`.
fn part_of(
    section: &'static str,
    crop: Option<Crop>,
    scale_down: usize,
    size: Size,
) -> Result<Crop, SourceError> {
    let whole = Crop {
        x: 0,
        y: 0,
        width: size.width,
        height: size.height,
    };
    let mut part = crop.unwrap_or(whole);
    let inside =
        |from: usize, len: usize, all: usize| from.checked_add(len).is_some_and(|end| end <= all);
    if !inside(part.x, part.width, size.width) || !inside(part.y, part.height, size.height) {
        let Crop {
            x,
            y,
            width,
            height,
        } = part;
        let text = format!("{width}x{height} px at ({x}, {y}) reach out of a picture of {size} px");
        return refuse(section, "crop", text);
    }
    part.width -= part.width % scale_down;
    part.height -= part.height % scale_down;
    if part.width == 0 || part.height == 0 {
        let text = format!("{scale_down} leaves nothing of {size} px");
        return refuse(section, "scale_down", text);
    }
    Ok(part)
}

impl SourceConfig {
    /// Refuses values that fit no drive.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), SourceError> {
        if !(0.001..=10_000.0).contains(&self.rate_hz) {
            let text = format!("{}, expected 0.001 to 10000", self.rate_hz);
            return refuse("source", "rate_hz", text);
        }
        if let Some(scale) = self.disparity_scale
            && !(scale > 0.0 && scale <= 256.0)
        {
            let text = format!("{scale}, expected above 0 and up to 256 px a unit");
            return refuse("source", "disparity_scale", text);
        }
        Ok(())
    }
}
