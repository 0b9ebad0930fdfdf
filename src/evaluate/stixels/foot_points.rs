//! Object stixels against obstacles' lowest points.
//!
//! A text file of lines `IMAGE_FILE X Y [MARK]`, `#` begins a comment: in the picture of that
//! name (matched by number) an obstacle's lowest pixel is at column X, row Y, in the coordinates
//! of a camera beside the one that the stixels are of. Each object stixel is moved into that
//! camera with its own depth (`x + shift_px_m / depth_m`, no shift without a depth), so truth
//! needs no depth. A point is found when such a stixel, in the point's column or one to the left
//! or right, has its base row within the tolerance.
use std::{collections::BTreeMap, fmt, fs, path::Path};

use serde::Serialize;

use super::Options;
use crate::{
    evaluate::{
        EvaluateError, Unmatched, files, percent, share,
        stixel_table::{FrameStixels, StixelTable},
    },
    frame::Class,
    source::number_of,
};

/// Rows within which points are counted in every report.
const SWEEP: [u32; 3] = [5, 10, 20];

/// An obstacle's lowest point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Column, px.
    pub x: f64,
    /// Row, px.
    pub y: f64,
}

/// A line: frame number and point.
pub(super) fn parse(line: &str) -> Result<(u64, Point), String> {
    let mut fields = line.split_whitespace();
    let [Some(file), Some(x), Some(y)] = [fields.next(), fields.next(), fields.next()] else {
        return Err(format!("`{line}`, expected `IMAGE_FILE X Y`"));
    };
    // The list may have been written on another system.
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let number = number_of(stem)
        .ok_or_else(|| format!("image file is `{file}`, expected a name with a number"))?;
    let coordinate = |name: &str, text: &str| match text.parse::<f64>() {
        Ok(v) if v.is_finite() && v.abs() <= 1e6 => Ok(v),
        _ => Err(format!("{name} is `{text}`, expected a number of px")),
    };
    let point = Point {
        x: coordinate("x", x)?,
        y: coordinate("y", y)?,
    };
    Ok((number, point))
}

fn read(path: &Path) -> Result<BTreeMap<u64, Vec<Point>>, EvaluateError> {
    let bytes = fs::read(path).map_err(EvaluateError::io(path))?;
    let mut points = BTreeMap::<u64, Vec<Point>>::new();
    for (i, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (frame, point) = parse(line).map_err(|what| EvaluateError::Table {
            path: path.into(),
            line: i as u64 + 1,
            what,
        })?;
        points.entry(frame).or_default().push(point);
    }
    if points.is_empty() {
        return Err(EvaluateError::Empty {
            path: path.into(),
            expected: "foot points (lines `IMAGE_FILE X Y`)",
        });
    }
    Ok(points)
}

/// Points found within some rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Within {
    /// The tolerance, rows.
    pub tolerance_px: u32,
    /// Share of the points found.
    pub recall: Option<f64>,
}

/// One frame's points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameScores {
    /// Its number.
    pub frame: u64,
    /// Its points.
    pub points: u64,
    /// Share of them found.
    pub recall: Option<f64>,
}

/// Stixels against foot points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Points on frames that have results.
    pub points: u64,
    /// The tolerance, rows.
    pub tolerance_px: u32,
    /// Share of the points found.
    pub recall: Option<f64>,
    /// The same at other tolerances.
    pub within: Vec<Within>,
    /// Median over the points of base row less point row, of the nearest stixel, px; positive
    /// where stixels reach too low. Points without any stixel are left out.
    pub median_offset_px: Option<f64>,
    /// Points in whose columns there is no object stixel at all.
    pub without_stixel: u64,
    /// Frame by frame.
    pub frames: Vec<FrameScores>,
    /// Frames without a partner.
    pub unmatched: Unmatched,
}

/// Base row less point row of the object stixel whose base is nearest to the point; the higher
/// one of two at equal distance.
fn offset(stixels: &FrameStixels, point: &Point, shift_px_m: f64) -> Option<f64> {
    let width = f64::from(stixels.width);
    let mut best: Option<f64> = None;
    for (u, column) in stixels.lists() {
        for s in column.iter().filter(|s| s.class == Class::Object) {
            let shift = match s.depth_m {
                Some(z) if z > 0.0 => shift_px_m / z,
                _ => 0.0,
            };
            let at = ((point.x - shift) / width).floor();
            if (at - u as f64).abs() > 1.0 {
                continue;
            }
            let offset = f64::from(s.base) - point.y;
            if best.is_none_or(|b| offset.abs() < b.abs()) {
                best = Some(offset);
            }
        }
    }
    best
}

pub(super) fn evaluate(
    results: &StixelTable,
    truth: &Path,
    options: &Options,
) -> Result<Report, EvaluateError> {
    let points = read(truth)?;
    let (pairs, mut unmatched) =
        files::matched((&results.path, &results.frames), (truth, &points))?;
    // Truth names a few frames only: the others are not missing.
    unmatched.results.clear();
    let tolerance = f64::from(options.tolerance_px);
    let mut offsets: Vec<f64> = Vec::new();
    let mut frames = Vec::with_capacity(pairs.len());
    let mut total = 0;
    for (frame, stixels, points) in pairs {
        let of_frame: Vec<f64> = points
            .iter()
            .filter_map(|p| offset(stixels, p, options.shift_px_m))
            .collect();
        let found = of_frame.iter().filter(|o| o.abs() <= tolerance).count();
        frames.push(FrameScores {
            frame,
            points: points.len() as u64,
            recall: share(found as u64, points.len() as u64),
        });
        total += points.len() as u64;
        offsets.extend(of_frame);
    }
    offsets.sort_by(f64::total_cmp);
    let within = |rows: u32| {
        let found = offsets.iter().filter(|o| o.abs() <= f64::from(rows));
        share(found.count() as u64, total)
    };
    let middle = offsets.len() / 2;
    Ok(Report {
        points: total,
        tolerance_px: options.tolerance_px,
        recall: within(options.tolerance_px),
        within: SWEEP
            .iter()
            .map(|&tolerance_px| Within {
                tolerance_px,
                recall: within(tolerance_px),
            })
            .collect(),
        median_offset_px: match offsets.len() {
            0 => None,
            n if n % 2 == 1 => Some(offsets[middle]),
            _ => Some((offsets[middle - 1] + offsets[middle]) / 2.0),
        },
        without_stixel: total - offsets.len() as u64,
        frames,
        unmatched,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "frame      points  found within {} px %",
            self.tolerance_px
        )?;
        for s in &self.frames {
            writeln!(f, "{:<8} {:>8}  {}", s.frame, s.points, percent(s.recall))?;
        }
        writeln!(
            f,
            "{:<8} {:>8}  {}",
            "total",
            self.points,
            percent(self.recall)
        )?;
        for w in &self.within {
            writeln!(
                f,
                "within {:>2} px: {} %",
                w.tolerance_px,
                percent(w.recall)
            )?;
        }
        if let Some(offset) = self.median_offset_px {
            writeln!(f, "median offset of the base: {offset:+.1} px")?;
        }
        if self.without_stixel > 0 {
            writeln!(
                f,
                "points without any object stixel: {}",
                self.without_stixel
            )?;
        }
        write!(f, "{}", self.unmatched)
    }
}
