//! Stixels against truth of four kinds.
use std::{
    fmt, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{EvaluateError, files, stixel_table};
use crate::{files as inputs, picture::Picture};

pub mod disparity;
pub mod foot_points;
pub mod labels;
pub mod table;

/// What the truth is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TruthKind {
    /// A folder of 16-bit disparity PNG.
    Disparity,
    /// A folder of 8-bit PNG of class indices, with classes.csv.
    Labels,
    /// A text file of obstacles' lowest points.
    FootPoints,
    /// A stixels.csv.
    Stixels,
}

/// How to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What the truth is; `None`: told by its content.
    pub truth: Option<TruthKind>,
    /// Rows by which top and base may differ from a point or true stixel.
    pub tolerance_px: u32,
    /// Foot points are in a camera to the left by this much times the focal length: a point at
    /// x there is at `x - shift_px_m / depth_m` here.
    pub shift_px_m: f64,
    /// The class table of labels; `None`: classes.csv in their folder or the one above.
    pub classes: Option<PathBuf>,
}

impl Default for Options {
    /// Kind by content, 10 rows, and the 44.9 px m from KITTI's left colour to its left grey
    /// camera (6.35 cm).
    fn default() -> Self {
        Self {
            truth: None,
            tolerance_px: 10,
            shift_px_m: 44.9,
            classes: None,
        }
    }
}

/// Stixels against truth; in JSON the kind is `truth`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "truth", rename_all = "snake_case")]
pub enum Report {
    /// Against disparity.
    Disparity(disparity::Report),
    /// Against labels.
    Labels(labels::Report),
    /// Against foot points.
    FootPoints(foot_points::Report),
    /// Against other stixels.
    Stixels(table::Report),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disparity(r) => r.fmt(f),
            Self::Labels(r) => r.fmt(f),
            Self::FootPoints(r) => r.fmt(f),
            Self::Stixels(r) => r.fmt(f),
        }
    }
}

/// Judges stixels. `results`: a replay's folder or its `stixels.csv`; `truth`: as
/// [`TruthKind`] says, or a synthetic drive (labels, unless another kind is asked for).
///
/// # Errors
/// When a file is missing, damaged or does not fit, the kind of truth can't be told, or no frame
/// has a partner.
pub fn evaluate(results: &Path, truth: &Path, options: &Options) -> Result<Report, EvaluateError> {
    let results = stixel_table::read(results)?;
    let kind = match options.truth {
        Some(kind) => kind,
        None => kind_of(truth)?,
    };
    Ok(match kind {
        TruthKind::Disparity => Report::Disparity(disparity::evaluate(&results, truth)?),
        TruthKind::Labels => Report::Labels(labels::evaluate(
            &results,
            truth,
            options.classes.as_deref(),
        )?),
        TruthKind::FootPoints => {
            Report::FootPoints(foot_points::evaluate(&results, truth, options)?)
        }
        TruthKind::Stixels => {
            Report::Stixels(table::evaluate(&results, truth, options.tolerance_px)?)
        }
    })
}

/// Tells truth by its content.
fn kind_of(truth: &Path) -> Result<TruthKind, EvaluateError> {
    let unknown = || EvaluateError::UnknownTruth {
        path: truth.into(),
        what: "stixels",
        expected: "16-bit disparity pictures, 8-bit label pictures, foot points, stixels.csv, or \
                   --truth",
    };
    let meta = fs::metadata(truth).map_err(EvaluateError::io(truth))?;
    if !meta.is_dir() {
        let file = inputs::open(truth, inputs::MAX_STIXELS).map_err(EvaluateError::io(truth))?;
        let mut line = Vec::new();
        // A first line longer than any of ours is none of ours.
        std::io::Read::take(BufReader::new(file), 4096)
            .read_until(b'\n', &mut line)
            .map_err(EvaluateError::io(truth))?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        return if line == stixel_table::HEADER.join(",") {
            Ok(TruthKind::Stixels)
        } else if line.starts_with('#') || foot_points::parse(line).is_ok() {
            Ok(TruthKind::FootPoints)
        } else {
            Err(unknown())
        };
    }
    let has = |name: &str| truth.join(name).is_dir();
    if has("truth/labels") || has("labels") {
        return Ok(TruthKind::Labels);
    }
    if truth.join("stixels.csv").is_file() {
        return Ok(TruthKind::Stixels);
    }
    let folder = files::disparities(truth).map_err(|e| match e {
        EvaluateError::Empty { .. } => unknown(),
        other => other,
    })?;
    match folder.frames.values().next().map(|f| files::read(f)) {
        Some(Ok(Picture::Grey16(_))) => Ok(TruthKind::Disparity),
        Some(Ok(Picture::Grey8(_))) => Ok(TruthKind::Labels),
        Some(Err(e)) => Err(e),
        _ => Err(unknown()),
    }
}

/// Checks that stixels are of an image of the truth's size: all rows, and as many columns as fit.
fn check_size(
    results: &stixel_table::StixelTable,
    stixels: &stixel_table::FrameStixels,
    truth: &Path,
    size: crate::frame::Size,
) -> Result<(), EvaluateError> {
    let rows = stixels.lists().flat_map(|(_, list)| list).map(|s| s.base);
    let height = rows.max().map_or(0, |base| usize::from(base) + 1);
    let width = stixels.columns() * stixels.width as usize;
    let rest = size.width.checked_sub(width);
    if height == size.height && rest.is_some_and(|rest| rest < stixels.width as usize) {
        return Ok(());
    }
    Err(EvaluateError::Size {
        path: results.path.clone(),
        found: crate::frame::Size::new(width, height),
        truth: truth.into(),
        expected: size,
    })
}
