//! The layouts of the KITTI vision benchmark: odometry, stereo 2015, raw.
use std::path::{Path, PathBuf};

use super::{
    DriveKind, Layout, OwnCalibration, choose_pair,
    listing::{self, Numbering},
    numbers, pair_or, stereo_frames, times,
};
use crate::{
    calib::Pair,
    source::{CameraPair, DriveOptions, SourceError},
};

/// Odometry: a folder a camera, `calib.txt`, `times.txt` in seconds. The grey pair goes before
/// the colour pair unless `[source] pair` says otherwise; with `image_l` it says which rows of
/// the calibration are meant.
pub(super) fn open_odometry(
    path: &Path,
    options: &DriveOptions,
) -> Option<Result<Layout, SourceError>> {
    let lettered = pair_or(options, Pair::First);
    let candidates = [
        ("image_l", "image_r", lettered),
        ("image_0", "image_1", Pair::First),
        ("image_2", "image_3", Pair::Second),
    ];
    let (left, right, pair) = match choose_pair(path, &candidates, options.source.pair) {
        Ok(found) => *found?,
        Err(e) => return Some(Err(e)),
    };
    let open = || {
        let (left, right) = (path.join(left), path.join(right));
        let frames = stereo_frames(&left, &right, options, Numbering::Consecutive)?;
        let calib = path.join("calib.txt");
        let times = times::seconds_if_there(&path.join("times.txt"), &numbers(&frames))?;
        Ok(Layout {
            kind: DriveKind::KittiOdometry,
            frames,
            calibration: if calib.is_file() {
                OwnCalibration::File(calib)
            } else {
                OwnCalibration::None(calib)
            },
            pair,
            times,
        })
    };
    Some(open())
}

/// Raw: `image_0N/data` and `image_0N/timestamps.txt`; `calib_cam_to_cam.txt` in the folder of
/// the drive or the one above it (the recording day).
pub(super) fn open_raw(path: &Path, options: &DriveOptions) -> Option<Result<Layout, SourceError>> {
    const CANDIDATES: [(&str, &str, Pair); 2] = [
        ("image_00/data", "image_01/data", Pair::First),
        ("image_02/data", "image_03/data", Pair::Second),
    ];
    let (left, right, pair) = match choose_pair(path, &CANDIDATES, options.source.pair) {
        Ok(found) => *found?,
        Err(e) => return Some(Err(e)),
    };
    let open = || {
        let (left, right) = (path.join(left), path.join(right));
        let frames = stereo_frames(&left, &right, options, Numbering::Consecutive)?;
        let stamps = left.with_file_name("timestamps.txt");
        let times = times::dates_if_there(&stamps, &numbers(&frames))?;
        let here = path.join("calib_cam_to_cam.txt");
        let above = above(path).join("calib_cam_to_cam.txt");
        let own = [&here, &above].into_iter().find(|p| p.is_file()).cloned();
        let calibration = match own {
            Some(file) => OwnCalibration::File(file),
            None => OwnCalibration::None(here),
        };
        Ok(Layout {
            kind: DriveKind::KittiRaw,
            frames,
            calibration,
            pair,
            times,
        })
    };
    Some(open())
}

/// Stereo 2015: `image_2`/`image_3` with `NNNNNN_10` (the later `_11` are passed over) in the
/// folder given or its `training`; a calibration for each.
pub(super) fn open_stereo(
    path: &Path,
    options: &DriveOptions,
) -> Option<Result<Layout, SourceError>> {
    let base = [path.join("training"), path.to_path_buf()]
        .into_iter()
        .find(|base| {
            let left = base.join("image_2");
            left.is_dir()
                && listing::pictures(&left, Numbering::KittiStereo).is_ok_and(|p| !p.is_empty())
        })?;
    if options.source.pair == Some(CameraPair::Grey) {
        return Some(Err(SourceError::Config {
            section: "source",
            key: "pair",
            text: format!("{} has colour pictures only", base.display()),
        }));
    }
    let open = || {
        let (left, right) = (base.join("image_2"), base.join("image_3"));
        let frames = stereo_frames(&left, &right, options, Numbering::KittiStereo)?;
        let root = above(&base);
        let name = whole(&base).file_name().map(PathBuf::from);
        let beside = root
            .join("calib_cam_to_cam")
            .join(name.unwrap_or_else(|| "training".into()));
        let within = base.join("calib_cam_to_cam");
        let dir = if within.is_dir() { within } else { beside };
        let calibration = if dir.is_dir() {
            let file = |f: &super::FrameFiles| {
                let stem = f
                    .picture()
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy();
                dir.join(format!("{}.txt", stem.trim_end_matches("_10")))
            };
            OwnCalibration::PerFrame(frames.iter().map(file).collect())
        } else {
            OwnCalibration::None(dir)
        };
        Ok(Layout {
            kind: DriveKind::KittiStereo,
            frames,
            calibration,
            pair: Pair::Second,
            times: super::Times::Rate,
        })
    };
    Some(open())
}

fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}

/// The folder above, also of `.`; as short a path as was given where that is possible.
fn above(path: &Path) -> PathBuf {
    match (path.file_name(), path.parent()) {
        (Some(_), Some(parent)) => parent.into(),
        _ => whole(path).parent().unwrap_or(path).into(),
    }
}
