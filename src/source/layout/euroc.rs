//! EuRoC (ASL) drives: `mav0/cam0` and `mav0/cam1`, each with `data`, `data.csv` and
//! `sensor.yaml`.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    DriveKind, FrameFiles, Layout, OwnCalibration, StereoFiles, Times,
    listing::{self, Numbering},
    times,
};
use crate::{
    calib::Pair,
    files,
    frame::{FrameId, Timestamp},
    source::{DriveOptions, SourceError},
};

/// Opens `path` or its `mav0`; pairs are pictures of equal stamp. Pictures of one camera alone
/// before the first and after the last pair are passed over: the cameras do not start and stop at
/// once.
///
/// What `data.csv` lists counts as a picture only where its file is there, as far as the two ends
/// are concerned; between them it is a gap.
pub(super) fn open(path: &Path, options: &DriveOptions) -> Option<Result<Layout, SourceError>> {
    let base = [path.join("mav0"), path.to_path_buf()]
        .into_iter()
        .find(|base| base.join("cam0/data").is_dir())?;
    Some(open_base(&base, options))
}

fn open_base(base: &Path, options: &DriveOptions) -> Result<Layout, SourceError> {
    let (left, right) = (base.join("cam0"), base.join("cam1"));
    let mut pairs: BTreeMap<u64, [Option<PathBuf>; 2]> = BTreeMap::new();
    for (stamp, file) in camera(&left)? {
        pairs.entry(stamp).or_default()[0] = Some(file);
    }
    if pairs.is_empty() {
        return Err(SourceError::NoPictures {
            path: left.join("data"),
        });
    }
    let stereo = options.disparity.is_none();
    if stereo {
        let data = right.join("data");
        let rights = if data.is_dir() {
            camera(&right)?
        } else {
            vec![]
        };
        if rights.is_empty() {
            return Err(SourceError::NoRightImages { path: data });
        }
        for (stamp, file) in rights {
            pairs.entry(stamp).or_default()[1] = Some(file);
        }
    }
    if !trim(&mut pairs, if stereo { 2 } else { 1 }) {
        return Err(SourceError::FirstFrame {
            path: base.into(),
            text: "no first frame: no time stamp has a picture of each camera".into(),
        });
    }
    let mut frames = Vec::with_capacity(pairs.len());
    let mut stamps = Vec::with_capacity(pairs.len());
    for (index, (stamp, [l, r])) in pairs.into_iter().enumerate() {
        let expected = |camera: &Path| camera.join("data").join(format!("{stamp}.png"));
        stamps.push(stamp);
        frames.push(FrameFiles {
            id: FrameId {
                index,
                number: stamp,
                timestamp: Timestamp(stamp),
            },
            stereo: Some(StereoFiles {
                left: l.unwrap_or_else(|| expected(&left)),
                right: stereo.then(|| r.unwrap_or_else(|| expected(&right))),
                disparity: None,
            }),
            mono: None,
            speed_mps: None,
        });
    }
    let (l, r) = (left.join("sensor.yaml"), right.join("sensor.yaml"));
    let missing = [&l, &r].into_iter().find(|p| !p.is_file()).cloned();
    let calibration = missing.map_or_else(|| OwnCalibration::PerCamera(l, r), OwnCalibration::None);
    Ok(Layout {
        kind: DriveKind::Euroc,
        frames,
        calibration,
        pair: Pair::First,
        times: Times::Stamps(stamps, "stamps"),
    })
}

/// Cuts off what is not whole at both ends; false where nothing is.
fn trim(pairs: &mut BTreeMap<u64, [Option<PathBuf>; 2]>, cameras: usize) -> bool {
    let there = |file: &Option<PathBuf>| file.as_ref().is_some_and(|f| f.exists());
    let whole = |(stamp, files): (&u64, &[Option<PathBuf>; 2])| {
        files[..cameras].iter().all(there).then_some(*stamp)
    };
    let first = pairs.iter().find_map(whole);
    let last = pairs.iter().rev().find_map(whole);
    let (Some(first), Some(last)) = (first, last) else {
        return false;
    };
    let listed = pairs.len();
    pairs.retain(|stamp, _| (first..=last).contains(stamp));
    if pairs.len() != listed {
        log::warn!(
            "{} time stamps before the first pair or after the last one are passed over",
            listed - pairs.len()
        );
    }
    true
}

/// The pictures of one camera with their stamps, ns: from `data.csv`, else from the file names.
fn camera(dir: &Path) -> Result<Vec<(u64, PathBuf)>, SourceError> {
    let data = dir.join("data");
    let table = dir.join("data.csv");
    if files::present(&table) {
        return times::euroc_table(&table, &data);
    }
    listing::pictures(&data, Numbering::Names)?
        .into_iter()
        .map(|p| match p.stem.parse() {
            Ok(stamp) => Ok((stamp, p.path)),
            Err(_) => Err(SourceError::Table {
                path: p.path,
                line: None,
                text: "a file name that is no time stamp in ns, and there is no data.csv".into(),
            }),
        })
        .collect()
}
