//! Mono cameras: the folder `mono` beside a stereo camera's, and drives that have nothing else.
use std::path::{Path, PathBuf};

use super::{
    DriveKind, FrameFiles, Layout, MonoFile, OwnCalibration, Times,
    listing::{self, Named, Numbering},
    times,
};
use crate::{
    calib::Pair,
    frame::{FrameId, Timestamp},
    source::{MonoConfig, SourceError, pairing},
};

/// The folder of a mono camera.
const MONO: &str = "mono";

/// Where a mono drive keeps its pictures: the first that is there and holds some. The last, with
/// an empty name, is the drive's folder itself.
const FOLDERS: [&str; 5] = [MONO, "input", "image_02/data", "frames", ""];

/// Names of so many digits are time stamps in ns, shorter ones numbers: no camera counts that
/// far, and none is read within the first quarter of an hour of a clock in ns.
const STAMP_DIGITS: usize = 12;

/// A drive without stereo pictures; `None` where there are no others either.
pub(super) fn open(path: &Path) -> Option<Result<Layout, SourceError>> {
    FOLDERS.iter().find_map(|&name| {
        let dir = if name.is_empty() {
            path.into()
        } else {
            path.join(name)
        };
        if !dir.is_dir() {
            return None;
        }
        match listing::pictures(&dir, Numbering::Names) {
            Ok(pictures) if pictures.is_empty() => None,
            Ok(pictures) => Some(layout(path, name, &dir, pictures)),
            Err(e) => Some(Err(e)),
        }
    })
}

fn layout(
    path: &Path,
    name: &'static str,
    dir: &Path,
    pictures: Vec<Named>,
) -> Result<Layout, SourceError> {
    let pictures = numbered(dir, pictures);
    let stamps = stamps_of(&pictures);
    let pictures = if stamps.is_some() {
        pictures
    } else {
        with_holes(dir, pictures)
    };
    // A number names a result file, so it is of use only where no two frames share one.
    let own = pictures.iter().all(|p| p.number.is_some())
        && pictures.windows(2).all(|w| w[0].number < w[1].number);
    if stamps.is_none()
        && let Some(two) = pictures
            .windows(2)
            .find(|w| w[0].number.is_some() && w[0].number == w[1].number)
    {
        log::warn!(
            "{} and {} have the same number: frames are counted by their place, from 0",
            two[0].path.display(),
            two[1].path.display()
        );
    }
    let frames: Vec<FrameFiles> = pictures
        .into_iter()
        .enumerate()
        .map(|(index, picture)| FrameFiles {
            id: FrameId {
                index,
                number: picture.number.filter(|_| own).unwrap_or(index as u64),
                timestamp: Timestamp(0),
            },
            stereo: None,
            mono: Some(MonoFile {
                file: picture.path,
                timestamp: Timestamp(0),
            }),
            speed_mps: None,
        })
        .collect();
    let numbers: Vec<u64> = frames.iter().map(|f| f.id.number).collect();
    let mut found = match stamps {
        Some(stamps) => Times::Stamps(stamps, "names of the pictures"),
        None => Times::Rate,
    };
    let dates = dir.with_file_name("timestamps.txt");
    for table in [dir.join("times.txt"), path.join("times.txt")] {
        if matches!(found, Times::Rate) {
            found = times::seconds_if_there(&table, &numbers)?;
        }
    }
    if matches!(found, Times::Rate) && name.ends_with("/data") {
        found = times::dates_if_there(&dates, &numbers)?;
    }
    Ok(Layout {
        kind: DriveKind::Mono(name),
        frames,
        calibration: OwnCalibration::None(path.join("calib.txt")),
        pair: Pair::First,
        times: found,
    })
}

/// Leaves out the pictures without a number where most have one: a preview, a cover. It would
/// put all frames after it in another place.
fn numbered(dir: &Path, pictures: Vec<Named>) -> Vec<Named> {
    let with = pictures.iter().filter(|p| p.number.is_some()).count();
    if 2 * with <= pictures.len() || with == pictures.len() {
        return pictures;
    }
    let (with, without): (Vec<_>, Vec<_>) = pictures.into_iter().partition(|p| p.number.is_some());
    log::warn!(
        "{}: {} without a number in its name ({}): left out, since the others have one",
        dir.display(),
        if without.len() == 1 {
            "a picture".into()
        } else {
            format!("{} pictures", without.len())
        },
        without[0]
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
    );
    with
}

/// The time stamps that the names are, ns, where all of them are such and increase.
fn stamps_of(pictures: &[Named]) -> Option<Vec<u64>> {
    let stamp = |p: &Named| {
        let digits = p.stem.len() >= STAMP_DIGITS && p.stem.bytes().all(|c| c.is_ascii_digit());
        p.stem.parse().ok().filter(|_| digits)
    };
    let stamps: Vec<u64> = pictures.iter().map(stamp).collect::<Option<_>>()?;
    stamps.is_sorted_by(|a, b| a < b).then_some(stamps)
}

/// Where the names are one word and a number of so many digits (`in000001`, `000001`), a number
/// that is left out is a picture that is missing, as far as numbers count
/// ([`listing::step_of`]).
fn with_holes(dir: &Path, pictures: Vec<Named>) -> Vec<Named> {
    let split = |p: &Named| -> Option<(usize, u64)> {
        let digits = p.stem.bytes().rev().take_while(u8::is_ascii_digit).count();
        let at = p.stem.len() - digits;
        Some((at, p.stem[at..].parse().ok()?))
    };
    let Some(first) = pictures.first() else {
        return pictures;
    };
    let Some((at, _)) = split(first) else {
        return pictures;
    };
    let (word, width) = (first.stem[..at].to_owned(), first.stem.len() - at);
    let alike = |p: &Named| {
        split(p)
            .filter(|&(n, _)| n == at && p.stem.starts_with(&word))
            .map(|(_, number)| number)
    };
    let Some(numbers) = pictures.iter().map(alike).collect::<Option<Vec<u64>>>() else {
        return pictures;
    };
    let Some(step) = listing::step_of(&numbers) else {
        return pictures;
    };
    let extension = first
        .path
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut all: Vec<Named> = Vec::with_capacity(pictures.len());
    let mut expected = numbers[0];
    for (picture, number) in pictures.into_iter().zip(numbers) {
        while expected < number {
            let stem = format!("{word}{expected:0width$}");
            all.push(Named {
                path: dir.join(format!("{stem}.{extension}")),
                number: Some(expected),
                stem,
            });
            expected = expected.saturating_add(step);
        }
        all.push(Named {
            number: Some(number),
            ..picture
        });
        expected = expected.saturating_add(step);
    }
    all
}

/// What the folder `mono` beside a stereo camera's gave.
pub(in crate::source) struct Camera {
    /// Where its time stamps come from.
    pub times: &'static str,
    /// Furthest in time from a frame that its picture may be, ns.
    pub tolerance_ns: u64,
    /// Its first picture.
    pub first: PathBuf,
}

/// Gives each frame (its time is known by now) the mono camera's picture that is nearest in
/// time; `None` where the drive has no mono camera.
///
/// The pictures' times: `mono/times.txt` (seconds), else their names where these are stamps in
/// ns, else those of the frames with their numbers, or, where a number is no frame's, of the
/// frames at their places.
pub(in crate::source) fn attach(
    path: &Path,
    frames: &mut [FrameFiles],
    config: &MonoConfig,
) -> Result<Option<Camera>, SourceError> {
    let dir = path.join(MONO);
    if !dir.is_dir() {
        return Ok(None);
    }
    let pictures = numbered(&dir, listing::pictures(&dir, Numbering::Names)?);
    let Some(first) = pictures.first().map(|p| p.path.clone()) else {
        log::warn!(
            "{}: no pictures; the drive has no mono camera",
            dir.display()
        );
        return Ok(None);
    };
    let numbers: Vec<u64> = pictures
        .iter()
        .zip(0..)
        .map(|(p, place)| p.number.unwrap_or(place))
        .collect();
    let (files, stamps, times): (Vec<PathBuf>, Vec<u64>, _) =
        match times::seconds_if_there(&dir.join("times.txt"), &numbers)? {
            Times::Stamps(stamps, _) => (
                pictures.into_iter().map(|p| p.path).collect(),
                stamps,
                "mono/times.txt",
            ),
            Times::Rate => match stamps_of(&pictures) {
                Some(stamps) => (
                    pictures.into_iter().map(|p| p.path).collect(),
                    stamps,
                    "names of the pictures",
                ),
                None => {
                    let (files, stamps) = as_frames(pictures, frames);
                    (files, stamps, "those of the stereo frames")
                }
            },
        };
    let tolerance_ns = match config.tolerance_us {
        Some(us) => us * 1000,
        None => pairing::half_period(frames.iter().map(|f| f.id.timestamp.0))
            .unwrap_or(MonoConfig::TOLERANCE_OF_ONE_NS),
    };
    for frame in frames {
        let place = pairing::nearest(&stamps, frame.id.timestamp.0, tolerance_ns);
        frame.mono = place.map(|place| MonoFile {
            file: files[place].clone(),
            timestamp: Timestamp(stamps[place]),
        });
    }
    Ok(Some(Camera {
        times,
        tolerance_ns,
        first,
    }))
}

/// Pictures without times of their own: with those of the frames of their numbers, or of their
/// places.
fn as_frames(pictures: Vec<Named>, frames: &[FrameFiles]) -> (Vec<PathBuf>, Vec<u64>) {
    let of_number = |p: &Named| {
        let place = frames
            .binary_search_by_key(&p.number?, |f| f.id.number)
            .ok()?;
        Some(frames[place].id.timestamp.0)
    };
    let by_number: Option<Vec<u64>> = pictures.iter().map(of_number).collect();
    let by_number = by_number.filter(|stamps| stamps.is_sorted_by(|a, b| a < b));
    if by_number.is_none() && pictures.iter().any(|p| p.number.is_some()) {
        log::warn!(
            "{MONO}: the numbers of the pictures are not those of the stereo frames; each is taken \
             at its place in the folder"
        );
    }
    let stamps = by_number.unwrap_or_else(|| frames.iter().map(|f| f.id.timestamp.0).collect());
    pictures.into_iter().map(|p| p.path).zip(stamps).unzip()
}
