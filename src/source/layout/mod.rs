//! How recorded drives lie in folders. One file a layout; each gives the same thing: for every
//! frame the files that should be there, when it was taken, and where the calibration is.
mod euroc;
mod kitti;
mod listing;
pub(super) mod mono;
pub(super) mod times;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{CameraPair, DriveOptions, SourceError};
use crate::{
    calib::Pair,
    frame::{FrameId, Timestamp},
};
pub use listing::number_of;
use listing::{Listed, Numbering};

/// How a drive is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveKind {
    /// `image_l`/`image_r`, `image_0`/`image_1` or `image_2`/`image_3` with `calib.txt`.
    KittiOdometry,
    /// `image_2`/`image_3` with `NNNNNN_10.png`: separate pictures, each with its calibration.
    KittiStereo,
    /// `image_00/data`… with `timestamps.txt`.
    KittiRaw,
    /// `mav0/cam0/data`… with `sensor.yaml`, unrectified.
    Euroc,
    /// `left` and `right`.
    Plain,
    /// MCAP files with a stereo camera in them.
    Recording,
    /// MCAP files of ours with a mono camera alone.
    MonoRecording,
    /// Pictures of one camera, in this folder of the drive; an empty name is the drive's own.
    Mono(&'static str),
}

impl fmt::Display for DriveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KittiOdometry => "KITTI odometry",
            Self::KittiStereo => "KITTI stereo 2015",
            Self::KittiRaw => "KITTI raw",
            Self::Euroc => "EuRoC",
            Self::Plain => "left and right folders",
            Self::Recording => "recording (MCAP)",
            Self::MonoRecording => "recording (MCAP), mono",
            Self::Mono("") => "mono, pictures in the folder itself",
            Self::Mono(folder) => return write!(f, "mono, pictures in {folder}"),
        })
    }
}

/// The files of one frame. They are where they should be; whether they exist shows when they
/// are read.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameFiles {
    /// Which frame.
    pub id: FrameId,
    /// The stereo camera's; `None` on a mono drive.
    pub stereo: Option<StereoFiles>,
    /// The mono camera's; `None` where there is none within the tolerance in time, or no such
    /// camera.
    pub mono: Option<MonoFile>,
    /// Speed of the vehicle, m/s, where it is recorded.
    pub speed_mps: Option<f32>,
}

/// The files of a stereo frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StereoFiles {
    /// The left picture.
    pub left: PathBuf,
    /// The right picture, unless disparities are stored.
    pub right: Option<PathBuf>,
    /// The stored disparity.
    pub disparity: Option<PathBuf>,
}

/// A picture of a mono camera.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonoFile {
    /// The picture.
    pub file: PathBuf,
    /// When it was taken.
    pub timestamp: Timestamp,
}

impl FrameFiles {
    /// The picture that stands for the frame: the left one, or the mono camera's.
    pub fn picture(&self) -> &Path {
        let left = self.stereo.as_ref().map(|s| &s.left);
        let mono = || self.mono.as_ref().map(|m| &m.file);
        left.or_else(mono).map_or(Path::new(""), PathBuf::as_path)
    }

    /// Sets when it was taken: on a mono drive also when its picture was.
    pub(super) fn set_time(&mut self, timestamp: Timestamp) {
        self.id.timestamp = timestamp;
        if let Some(mono) = &mut self.mono {
            mono.timestamp = timestamp;
        }
    }

    /// All its files.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        let stereo = self.stereo.iter().flat_map(|s| {
            [Some(&s.left), s.right.as_ref(), s.disparity.as_ref()]
                .into_iter()
                .flatten()
        });
        stereo
            .chain(self.mono.as_ref().map(|m| &m.file))
            .map(PathBuf::as_path)
    }
}

/// Where a drive keeps its own calibration.
pub(super) enum OwnCalibration {
    /// Nowhere; the path is where it would be looked for.
    None(PathBuf),
    /// One file.
    File(PathBuf),
    /// One file a camera.
    PerCamera(PathBuf, PathBuf),
    /// One file a frame, in the order of the frames.
    PerFrame(Vec<PathBuf>),
}

/// Where the times of the frames come from.
pub(super) enum Times {
    /// From `[source] rate_hz`.
    Rate,
    /// Nanoseconds of each frame, increasing; the text names the origin.
    Stamps(Vec<u64>, &'static str),
}

/// What a layout understood.
pub(super) struct Layout {
    pub kind: DriveKind,
    /// Every frame, those that are missing too; the time stamps are not set yet.
    pub frames: Vec<FrameFiles>,
    pub calibration: OwnCalibration,
    /// Which cameras of a calibration with several.
    pub pair: Pair,
    pub times: Times,
}

/// Recognises the layout of a folder and lists its frames.
pub(super) fn recognise(path: &Path, options: &DriveOptions) -> Result<Layout, SourceError> {
    let meta = std::fs::metadata(path).map_err(|error| SourceError::Io {
        path: path.into(),
        error,
    })?;
    if !meta.is_dir() {
        return Err(SourceError::NotAFolder { path: path.into() });
    }
    // Layouts that do not apply say `None`; the first that applies has the word.
    let layouts = [
        euroc::open,
        kitti::open_raw,
        kitti::open_stereo,
        kitti::open_odometry,
        open_plain,
    ];
    // Camera 2 of a KITTI raw drive alone is a mono drive, unless there is a pair elsewhere or
    // one is asked for.
    let mut lacking = None;
    for open in layouts {
        match open(path, options) {
            None => {}
            Some(Err(e @ SourceError::NoRightImages { .. })) if is_camera_2(&e, options) => {
                lacking = Some(e);
            }
            Some(result) => return result,
        }
    }
    let mono = options.disparity.is_none().then(|| mono::open(path));
    mono.flatten().unwrap_or_else(|| {
        Err(lacking.unwrap_or_else(|| SourceError::Unrecognised { path: path.into() }))
    })
}

/// Whether what is missing is camera 3 of a KITTI raw drive whose cameras nobody has chosen.
fn is_camera_2(e: &SourceError, options: &DriveOptions) -> bool {
    matches!(e, SourceError::NoRightImages { path } if path.ends_with("image_03/data"))
        && options.source.pair.is_none()
}

/// The frames' numbers.
fn numbers(frames: &[FrameFiles]) -> Vec<u64> {
    frames.iter().map(|f| f.id.number).collect()
}

/// `left` + `right`; own calibration only where the user put one beside them.
fn open_plain(path: &Path, options: &DriveOptions) -> Option<Result<Layout, SourceError>> {
    let (left, right) = (path.join("left"), path.join("right"));
    if !left.is_dir() {
        return None;
    }
    let open = || {
        let frames = stereo_frames(&left, &right, options, Numbering::Consecutive)?;
        let names = ["calib.txt", "calib.yml", "calib.yaml"];
        let own = names.iter().map(|n| path.join(n)).find(|p| p.is_file());
        let calibration = match own {
            Some(file) => OwnCalibration::File(file),
            None => OwnCalibration::None(path.join(names[0])),
        };
        let times = times::seconds_if_there(&path.join("times.txt"), &numbers(&frames))?;
        Ok(Layout {
            kind: DriveKind::Plain,
            frames,
            calibration,
            pair: pair_or(options, Pair::First),
            times,
        })
    };
    Some(open())
}

fn pair_or(options: &DriveOptions, pair: Pair) -> Pair {
    options.source.pair.map_or(pair, Pair::from)
}

/// Two folders of pictures as frames; the right one is not looked at where disparities are
/// stored.
fn stereo_frames(
    left: &Path,
    right: &Path,
    options: &DriveOptions,
    numbering: Numbering,
) -> Result<Vec<FrameFiles>, SourceError> {
    let lefts = listing::pictures(left, numbering)?;
    if lefts.is_empty() {
        return Err(SourceError::NoPictures { path: left.into() });
    }
    let rights = if options.disparity.is_some() {
        None
    } else {
        let none = || SourceError::NoRightImages { path: right.into() };
        if !right.is_dir() {
            return Err(none());
        }
        let rights = listing::pictures(right, numbering)?;
        if rights.is_empty() {
            return Err(none());
        }
        Some(rights)
    };
    let listed = listing::join(left, lefts, right, rights, numbering);
    Ok(frames_of(listed))
}

/// Frames with their places and numbers.
fn frames_of(listed: Vec<Listed>) -> Vec<FrameFiles> {
    // A number names a result file, so it is of use only where no two frames share one.
    let own = listed.iter().all(|l| l.number.is_some())
        && listed.windows(2).all(|w| w[0].number < w[1].number);
    listed
        .into_iter()
        .enumerate()
        .map(|(index, l)| FrameFiles {
            id: FrameId {
                index,
                number: l.number.filter(|_| own).unwrap_or(index as u64),
                timestamp: Timestamp(0),
            },
            stereo: Some(StereoFiles {
                left: l.left,
                right: l.right,
                disparity: None,
            }),
            mono: None,
            speed_mps: None,
        })
        .collect()
}

/// Finds the stored disparity of each frame: by the stem of the left file, else by its number.
pub(super) fn match_disparities(dir: &Path, frames: &mut [FrameFiles]) -> Result<(), SourceError> {
    let stored = listing::pictures(dir, Numbering::Names)?;
    if stored.is_empty() {
        return Err(SourceError::NoPictures { path: dir.into() });
    }
    let by_stem: std::collections::HashMap<&str, &PathBuf> =
        stored.iter().map(|p| (p.stem.as_str(), &p.path)).collect();
    let mut by_number = std::collections::HashMap::new();
    for p in &stored {
        if let Some(number) = p.number {
            // Of several files with the same number the first has it, as 000001_10 of _10, _11.
            by_number.entry(number).or_insert(&p.path);
        }
    }
    for frame in frames {
        let Some(files) = &mut frame.stereo else {
            continue;
        };
        let stem = files.left.file_stem().unwrap_or_default().to_string_lossy();
        let number = listing::number_of(&stem).unwrap_or(frame.id.number);
        let found = by_stem
            .get(stem.as_ref())
            .or_else(|| by_number.get(&number));
        files.disparity = Some(found.map_or_else(
            || dir.join(files.left.file_name().unwrap_or_default()),
            |path| (*path).clone(),
        ));
        files.right = None;
    }
    Ok(())
}

/// Which of the pairs of cameras of a drive to take: the one that is asked for, else the first
/// that has both folders, else (with stored disparities) the first that has a left one.
fn choose_pair<'a, const N: usize>(
    path: &Path,
    candidates: &'a [(&'a str, &'a str, Pair); N],
    asked: Option<CameraPair>,
) -> Result<Option<&'a (&'a str, &'a str, Pair)>, SourceError> {
    let any = candidates.iter().any(|(l, ..)| path.join(l).is_dir());
    if !any {
        return Ok(None);
    }
    let fits = |c: &&(&str, &str, Pair)| asked.is_none_or(|a| Pair::from(a) == c.2);
    let both = |c: &&(&str, &str, Pair)| path.join(c.0).is_dir() && path.join(c.1).is_dir();
    let found = candidates.iter().filter(fits).find(both).or_else(|| {
        candidates
            .iter()
            .filter(fits)
            .find(|c| path.join(c.0).is_dir())
    });
    if found.is_none() {
        let names: Vec<_> = candidates.iter().filter(fits).map(|c| c.0).collect();
        return Err(SourceError::Config {
            section: "source",
            key: "pair",
            text: format!("{} has no folder {}", path.display(), names.join(" or ")),
        });
    }
    Ok(found)
}
