//! A recorded drive: its frames, their calibration, and what part of it is to be replayed.
use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    DriveKind, DriveOptions, FrameFiles, InputConfig, MonoConfig, SourceError, StereoFiles,
    layout::{self, Layout, OwnCalibration, Times},
    mcap::{self, Recording},
    options::MaskSource,
    prepare::{Prepare, mask_of_polygons},
    speed,
};
use crate::picture::{self, Picture, PictureError};
use crate::{
    calib::{self, Rig},
    frame::{Mask, PixelKind, Size, Timestamp},
};

/// The largest images for the stages, px: 8K video. Their plans take some 30 bytes a pixel.
pub(super) const MAX_STAGE_PIXELS: usize = 1 << 25;

/// Consecutive frames of one size from one rig. Only KITTI stereo has several in a drive; each
/// starts cold.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Places in the drive, as [`crate::frame::FrameId::index`] counts them.
    pub frames: Range<usize>,
    /// What the stereo camera gives; `None` on a mono drive.
    pub stereo: Option<StereoSegment>,
    /// What the mono camera gives, where there is one.
    pub mono: Option<MonoSegment>,
}

/// The stereo images of a segment.
#[derive(Clone, Debug)]
pub struct StereoSegment {
    /// The cameras of the images as they leave the source: after crop and scale.
    pub rig: Rig,
    /// Size of the images, after crop and scale.
    pub size: Size,
    /// Pixels of the left image never to be used, after crop and scale: 0 there, else 255.
    pub mask: Option<Mask>,
    /// Frame sets bring the left image in colour too.
    pub colour: bool,
    /// Frame sets bring a right image.
    pub has_right: bool,
    /// Frame sets bring stored disparities.
    pub stored_disparity: bool,
    pub(super) file_size: Size,
    pub(super) prepare: Prepare,
}

/// The mono images of a segment.
#[derive(Clone, Debug)]
pub struct MonoSegment {
    /// What they are made of: what the first picture is.
    pub kind: PixelKind,
    /// Their size, after crop and scale.
    pub size: Size,
    /// `[mono] mask`: which pixels of the images may be used (0 = never).
    pub mask: Option<Mask>,
    pub(super) file_size: Size,
    pub(super) prepare: Prepare,
}

/// How stored disparities are to be understood.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    /// For 8-bit files: px a unit.
    pub scale: Option<f64>,
    pub zero_is_measured: bool,
}

/// A recorded drive. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Drive {
    kind: DriveKind,
    path: PathBuf,
    frames: Arc<[FrameFiles]>,
    segments: Arc<[Segment]>,
    total: usize,
    times: String,
    calibration: String,
    mono_times: String,
    speeds: bool,
    pub(super) stored: Stored,
    pub(super) recording: Option<Arc<Recording>>,
}

impl Drive {
    /// Recognises the layout of a folder, lists its frames, reads its calibration and decodes its
    /// first frame.
    ///
    /// The calibration is that of `--calib`, else `[camera]`, else the drive's own.
    ///
    /// # Errors
    /// When the folder is no drive, a first frame or the calibration is missing or unreadable,
    /// they do not fit together, or the configuration does not fit them.
    pub fn open(path: &Path, options: &DriveOptions) -> Result<Self, SourceError> {
        options.input.validate()?;
        options.source.validate()?;
        options.mono.validate()?;
        if mcap::is_recording(path) {
            return mcap::open(path, options);
        }
        let Layout {
            kind,
            mut frames,
            calibration,
            pair,
            times,
        } = layout::recognise(path, options)?;
        let times = set_times(&mut frames, times, options.source.rate_hz);
        let speeds = speed::attach(path, &mut frames)?;
        let total = frames.len();
        let range = part(options.frames.clone(), total)?;
        if let Some(dir) = &options.disparity {
            layout::match_disparities(dir, &mut frames)?;
        }
        let mut drive = Self {
            kind,
            path: path.into(),
            frames: Arc::new([]),
            segments: Arc::new([]),
            total,
            times,
            calibration: String::new(),
            mono_times: String::new(),
            speeds,
            stored: Stored {
                scale: options.source.disparity_scale,
                zero_is_measured: options.zero_is_measured,
            },
            recording: None,
        };
        if let DriveKind::Mono(_) = kind {
            drive.frames = frames[range.clone()].into();
            drive.calibration = "none: no stereo".into();
            if options.input.changes_geometry() || options.input.mask.is_some() {
                log::warn!("[input] is for stereo pictures; those of a mono drive go by [mono]");
            }
            drive.segments = Arc::new([Segment {
                // The range holds a frame, so there is a first one.
                mono: Some(mono_segment(options, drive.frames[0].picture())?),
                stereo: None,
                frames: range,
            }]);
            return Ok(drive);
        }
        let mono = layout::mono::attach(path, &mut frames, &options.mono)?;
        drive.frames = frames[range.clone()].into();
        let (mut segments, calibration) =
            drive.stereo_segments(options, calibration, range, pair)?;
        if let Some(camera) = mono {
            let first = drive.frames.iter().find_map(|f| f.mono.as_ref());
            let first = first.map_or(camera.first.as_path(), |m| m.file.as_path());
            let mono = mono_segment(options, first)?;
            for segment in &mut segments {
                segment.mono = Some(mono.clone());
            }
            let tolerance = camera.tolerance_ns as f64 / 1e6;
            drive.mono_times = format!("{}, within {tolerance:.3} ms", camera.times);
        }
        drive.segments = segments.into();
        drive.calibration = calibration;
        Ok(drive)
    }

    /// The drive of a recording that has been read through.
    #[expect(clippy::too_many_arguments, reason = "as many as a drive has fields")]
    pub(super) fn of_recording(
        kind: DriveKind,
        path: &Path,
        recording: Recording,
        frames: Vec<FrameFiles>,
        segments: Vec<Segment>,
        total: usize,
        times: String,
        calibration: String,
        mono_times: String,
    ) -> Self {
        Self {
            kind,
            path: path.into(),
            speeds: frames.iter().any(|f| f.speed_mps.is_some()),
            frames: frames.into(),
            segments: segments.into(),
            total,
            times,
            calibration,
            mono_times,
            stored: Stored {
                scale: None,
                zero_is_measured: true,
            },
            recording: Some(Arc::new(recording)),
        }
    }

    /// What the stages had learnt before the first frame, where a recording begins there.
    pub fn state(&self) -> Option<Vec<u8>> {
        self.recording.as_ref()?.state()
    }

    /// The parts of one size and rig, and where the calibration comes from.
    fn stereo_segments(
        &self,
        options: &DriveOptions,
        calibration: OwnCalibration,
        range: Range<usize>,
        pair: calib::Pair,
    ) -> Result<(Vec<Segment>, String), SourceError> {
        let frames = &self.frames;
        let stereo: Vec<&StereoFiles> = frames.iter().filter_map(|f| f.stereo.as_ref()).collect();
        // The range holds a frame, so there is a first one. Small files can hold large pictures.
        if let Ok(size) = picture::size(&stereo[0].left) {
            prepare(options, &stereo[0].left, size)?;
        }
        let (file_size, colour) = first_frame(stereo[0], self.stored)?;
        let mut rigs = Rigs::new(options, calibration, range.start, pair)?;
        let masks = Masks::new("input", options.input.mask.as_ref())?;
        let mut segments: Vec<Segment> = Vec::new();
        let mut files_rig: Option<Rig> = None;
        let mut size = file_size;
        for (at, files) in stereo.into_iter().enumerate() {
            let rig = rigs.of(at)?;
            if self.kind == DriveKind::KittiStereo && at > 0 {
                // The calibration has the word: a picture of another size is a gap then. Where it
                // states none, an unreadable picture is a gap of the segment that it stands in.
                size = match rig.image_size() {
                    Some(expected) => expected,
                    None => picture::size(&files.left).unwrap_or(size),
                };
            }
            let index = range.start + at;
            if let Some(segment) = segments.last_mut()
                && segment.stereo.as_ref().is_some_and(|s| s.file_size == size)
                && files_rig.as_ref().is_some_and(|before| same(before, &rig))
            {
                segment.frames.end = index + 1;
                continue;
            }
            if let Some(expected) = rig.image_size()
                && expected != size
            {
                return Err(SourceError::CalibrationSize {
                    path: files.left.clone(),
                    found: size,
                    expected,
                });
            }
            if files.disparity.is_some() && !rig.is_rectified() && options.input.changes_geometry()
            {
                return Err(SourceError::Config {
                    section: "input",
                    key: "crop",
                    text: "the pictures of this drive are not rectified, stored disparities are; \
                           crop and scale_down can't fit both"
                        .into(),
                });
            }
            let prepare = prepare(options, &files.left, size)?;
            segments.push(Segment {
                frames: index..index + 1,
                stereo: Some(StereoSegment {
                    rig: adjusted(&rig, size, &prepare),
                    size: prepare.size(),
                    mask: masks.of(size, &prepare)?,
                    colour,
                    has_right: files.right.is_some(),
                    stored_disparity: files.disparity.is_some(),
                    file_size: size,
                    prepare,
                }),
                mono: None,
            });
            files_rig = Some(rig);
            if self.kind != DriveKind::KittiStereo {
                // One rig, and another size in mid-drive is a gap.
                if let Some(segment) = segments.last_mut() {
                    segment.frames.end = range.end;
                }
                break;
            }
        }
        Ok((segments, rigs.name))
    }

    /// How it is laid out.
    pub fn kind(&self) -> DriveKind {
        self.kind
    }

    /// The folder that was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its parts of one size and rig, in order; at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The files of every frame of the part that is replayed, in order.
    pub fn frames(&self) -> &[FrameFiles] {
        &self.frames
    }

    /// How many frames the whole drive has, missing ones included.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Where the time stamps come from, in words.
    pub fn times(&self) -> &str {
        &self.times
    }

    /// Where the calibration comes from: a file, `[camera]`, or one file a frame.
    pub fn calibration(&self) -> &str {
        &self.calibration
    }

    /// Whether it has no stereo camera.
    pub fn is_mono(&self) -> bool {
        matches!(self.kind, DriveKind::Mono(_) | DriveKind::MonoRecording)
    }

    /// Where the time stamps of a mono camera beside the stereo camera come from, and how near a
    /// picture must be, in words; empty without one.
    pub fn mono_times(&self) -> &str {
        &self.mono_times
    }

    /// Whether the vehicle's speed is recorded.
    pub fn has_speeds(&self) -> bool {
        self.speeds
    }

    /// Where the frames of a segment lie in [`Drive::frames`].
    pub(super) fn slots(&self, segment: &Segment) -> Range<usize> {
        let first = self.frames.first().map_or(0, |f| f.id.index);
        segment.frames.start - first..segment.frames.end - first
    }

    pub(super) fn shared_frames(&self) -> Arc<[FrameFiles]> {
        Arc::clone(&self.frames)
    }
}

/// The mask of `[input]` for left images of this size that are neither cut nor made smaller.
///
/// # Errors
/// When its picture can't be read or has another size.
pub fn mask_of(input: &InputConfig, size: Size) -> Result<Option<Mask>, SourceError> {
    Masks::new("input", input.mask.as_ref())?.of(size, &input.prepare(size)?)
}

/// The mask of `[mono]` for images of this size that are neither cut nor made smaller.
///
/// # Errors
/// As [`mask_of`].
pub fn mono_mask_of(mono: &MonoConfig, size: Size) -> Result<Option<Mask>, SourceError> {
    Masks::new("mono", mono.mask.as_ref())?.of(size, &mono.prepare(size)?)
}

/// What becomes of pictures of this size.
fn prepare(options: &DriveOptions, path: &Path, size: Size) -> Result<Prepare, SourceError> {
    within_bounds(options.input.prepare(size)?, path, "input")
}

pub(super) fn within_bounds(
    prepare: Prepare,
    path: &Path,
    section: &'static str,
) -> Result<Prepare, SourceError> {
    let found = prepare.size();
    if found.area() > MAX_STAGE_PIXELS {
        return Err(SourceError::TooLarge {
            path: path.into(),
            found,
            section,
        });
    }
    Ok(prepare)
}

/// Decodes the first picture of a mono camera whole.
fn mono_segment(options: &DriveOptions, path: &Path) -> Result<MonoSegment, SourceError> {
    // Small files can hold large pictures.
    if let Ok(size) = picture::size(path) {
        within_bounds(options.mono.prepare(size)?, path, "mono")?;
    }
    let first = first_picture(path)?;
    let file_size = first.size();
    let prepare = within_bounds(options.mono.prepare(file_size)?, path, "mono")?;
    Ok(MonoSegment {
        kind: match first {
            Picture::Grey8(_) => PixelKind::Grey8,
            Picture::Grey16(_) => PixelKind::Grey16,
            Picture::Rgb8(_) => PixelKind::Rgb8,
        },
        size: prepare.size(),
        mask: Masks::new("mono", options.mono.mask.as_ref())?.of(file_size, &prepare)?,
        file_size,
        prepare,
    })
}

/// The frames asked for; an end beyond the drive is its end.
pub(super) fn part(
    asked: Option<Range<usize>>,
    frames: usize,
) -> Result<Range<usize>, SourceError> {
    let asked = asked.unwrap_or(0..frames);
    let range = asked.start..asked.end.min(frames);
    if range.is_empty() {
        return Err(SourceError::NoSuchFrames {
            start: asked.start,
            end: asked.end,
            frames,
        });
    }
    Ok(range)
}

fn set_times(frames: &mut [FrameFiles], times: Times, rate_hz: f64) -> String {
    match times {
        Times::Rate => {
            for frame in frames {
                let ns = frame.id.index as f64 * 1e9 / rate_hz;
                frame.set_time(Timestamp(ns.round() as u64));
            }
            format!("no time stamps: taken as {rate_hz} Hz")
        }
        Times::Stamps(stamps, name) => {
            for (frame, &ns) in frames.iter_mut().zip(&stamps) {
                frame.set_time(Timestamp(ns));
            }
            let (first, last) = (stamps.first(), stamps.last());
            match (first, last) {
                (Some(first), Some(last)) if last > first => {
                    let hz = (stamps.len() - 1) as f64 * 1e9 / (last - first) as f64;
                    format!("{name}: {hz:.3} Hz on average")
                }
                _ => name.to_string(),
            }
        }
    }
}

fn first_picture(path: &Path) -> Result<Picture, SourceError> {
    picture::read(path).map_err(|error| match error {
        PictureError::Io(e) if e.kind() == std::io::ErrorKind::NotFound => {
            SourceError::NoFirstFrame { path: path.into() }
        }
        error => SourceError::Picture {
            path: path.into(),
            error,
        },
    })
}

/// Decodes the first frame whole; gives its size and whether it has colour.
fn first_frame(files: &StereoFiles, stored: Stored) -> Result<(Size, bool), SourceError> {
    let left = first_picture(&files.left)?;
    let others = [&files.right, &files.disparity];
    for path in others.into_iter().flatten() {
        let other = first_picture(path)?;
        if other.size() != left.size() {
            return Err(SourceError::FirstFrame {
                path: path.clone(),
                text: format!(
                    "{} px, but {} has {} px",
                    other.size(),
                    files.left.display(),
                    left.size()
                ),
            });
        }
        if files.disparity.is_some() {
            stored_kind(path, &other, stored)?;
        }
    }
    Ok((left.size(), matches!(left, Picture::Rgb8(_))))
}

fn stored_kind(path: &Path, picture: &Picture, stored: Stored) -> Result<(), SourceError> {
    match picture {
        Picture::Grey16(_) => Ok(()),
        Picture::Grey8(_) if stored.scale.is_some() => Ok(()),
        Picture::Grey8(_) => Err(SourceError::Config {
            section: "source",
            key: "disparity_scale",
            text: format!(
                "{} is 8-bit; state how many px of disparity one unit stands for",
                path.display()
            ),
        }),
        Picture::Rgb8(_) => Err(SourceError::FirstFrame {
            path: path.into(),
            text: "RGB; stored disparities are 16-bit grey (1/256 px) or 8-bit grey".into(),
        }),
    }
}

/// Whether two rigs are the same cameras; what their files are and warn of does not count.
fn same(a: &Rig, b: &Rig) -> bool {
    a.image_size() == b.image_size()
        && a.rectified_camera() == b.rectified_camera()
        && a.raw_pair() == b.raw_pair()
}

pub(super) fn adjusted(rig: &Rig, size: Size, prepare: &Prepare) -> Rig {
    let part = prepare.part;
    let cut = Size::new(part.width, part.height);
    let mut rig = if cut == size {
        rig.clone()
    } else {
        rig.cropped(part.x, part.y, cut)
    };
    if prepare.scale_down != 1 {
        rig = rig.scaled_down(prepare.scale_down);
    }
    rig
}

/// The rig of each frame, each file read once.
struct Rigs {
    one: Option<Rig>,
    per_frame: Vec<PathBuf>,
    known: HashMap<PathBuf, Rig>,
    first: usize,
    pair: calib::Pair,
    name: String,
}

impl Rigs {
    fn new(
        options: &DriveOptions,
        own: OwnCalibration,
        first: usize,
        pair: calib::Pair,
    ) -> Result<Self, SourceError> {
        let mut rigs = Self {
            one: None,
            per_frame: Vec::new(),
            known: HashMap::new(),
            first,
            pair,
            name: String::new(),
        };
        let mut one = |rig: Rig, name: String| {
            rigs.one = Some(rig);
            rigs.name = name;
        };
        if let Some(path) = &options.calib {
            one(read_rig(path, pair)?, path.display().to_string());
        } else if let Some(camera) = options.camera {
            one(Rig::rectified(camera), "[camera]".into());
        } else {
            match own {
                OwnCalibration::None(path) => return Err(SourceError::NoCalibration { path }),
                OwnCalibration::File(path) => {
                    one(read_rig(&path, pair)?, path.display().to_string());
                }
                OwnCalibration::PerCamera(left, right) => {
                    let name = format!("{}, {}", left.display(), right.display());
                    one(calib::read_pair(&left, &right)?, name);
                }
                OwnCalibration::PerFrame(files) => {
                    let dir = files.first().and_then(|f| f.parent());
                    rigs.name =
                        dir.map_or(String::new(), |d| d.join("*.txt").display().to_string());
                    rigs.per_frame = files;
                }
            }
        }
        Ok(rigs)
    }

    /// The rig of a frame, counted from the first that is replayed.
    fn of(&mut self, at: usize) -> Result<Rig, SourceError> {
        if let Some(rig) = &self.one {
            return Ok(rig.clone());
        }
        let path = &self.per_frame[self.first + at];
        if let Some(rig) = self.known.get(path) {
            return Ok(rig.clone());
        }
        let rig = read_rig(path, self.pair)?;
        self.known.insert(path.clone(), rig.clone());
        Ok(rig)
    }
}

pub(super) fn read_rig(path: &Path, pair: calib::Pair) -> Result<Rig, SourceError> {
    // A file that is not there is another failure than one that is wrong.
    std::fs::metadata(path).map_err(|error| SourceError::Io {
        path: path.into(),
        error,
    })?;
    Ok(calib::read(path, pair)?)
}

/// The masks of `[input]` or `[mono]`, for pictures of each size.
pub(super) struct Masks {
    section: &'static str,
    from: Given,
}

enum Given {
    Nothing,
    Polygons(Vec<Vec<[f64; 2]>>),
    Picture(PathBuf, Mask),
}

impl Masks {
    pub(super) fn new(
        section: &'static str,
        mask: Option<&MaskSource>,
    ) -> Result<Self, SourceError> {
        let from = match mask {
            None => Given::Nothing,
            Some(MaskSource::Polygon(polygon)) => Given::Polygons(vec![polygon.clone()]),
            Some(MaskSource::Polygons(polygons)) => Given::Polygons(polygons.clone()),
            Some(MaskSource::Picture(path)) => {
                let picture = picture::read(path)
                    .map_err(|e| mask_error(section, format!("{}: {e}", path.display())))?;
                let Size { width, height } = picture.size();
                let used = |used: bool| if used { 255 } else { 0 };
                let mask = match &picture {
                    Picture::Grey8(i) => Mask::from_fn(width, height, |x, y| used(i.get(x, y) > 0)),
                    Picture::Grey16(i) => {
                        Mask::from_fn(width, height, |x, y| used(i.get(x, y) > 0))
                    }
                    Picture::Rgb8(i) => {
                        Mask::from_fn(width, height, |x, y| used(i.get(x, y) != [0; 3]))
                    }
                };
                Given::Picture(path.clone(), mask)
            }
        };
        Ok(Self { section, from })
    }

    pub(super) fn of(&self, size: Size, prepare: &Prepare) -> Result<Option<Mask>, SourceError> {
        let section = self.section;
        let prepared = |mask: &Mask| Ok(Some(told(section, prepare.mask(mask))));
        match &self.from {
            Given::Nothing => Ok(None),
            Given::Polygons(polygons) => prepared(&mask_of_polygons(size, polygons)),
            Given::Picture(_, mask) if mask.size() == size => prepared(mask),
            Given::Picture(path, mask) => {
                let whose = if section == "mono" { "mono" } else { "left" };
                let (path, found) = (path.display(), mask.size());
                let text = format!("{path}: {found} px, but the {whose} pictures have {size} px");
                Err(mask_error(section, text))
            }
        }
    }
}

/// A mask that leaves little is rather one the wrong way round.
fn told(section: &'static str, mask: Mask) -> Mask {
    let masked = mask.pixels().filter(|m| **m == 0).count();
    if 2 * masked > mask.size().area() {
        log::warn!(
            "{section}.mask: {} % of the picture is masked; in a PNG 0 is masked, all else is used",
            100 * masked / mask.size().area()
        );
    }
    mask
}

fn mask_error(section: &'static str, text: String) -> SourceError {
    SourceError::Config {
        section,
        key: "mask",
        text,
    }
}
