//! Object stixels against true disparity: does one disparity explain the pixels inside?
use std::{fmt, path::Path};

use serde::Serialize;

use super::check_size;
use crate::{
    evaluate::{
        EvaluateError, Unmatched,
        disparity::Tally,
        files, percent, share,
        stixel_table::{FrameStixels, StixelTable},
    },
    frame::{Class, Image},
};

/// Shares (0 to 1) of the pixels with truth that lie in object stixels with a disparity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Pixels with truth.
    pub truth_pixels: u64,
    /// Of these, pixels in object stixels.
    pub object_pixels: u64,
    /// Share of the pixels with truth that lie in object stixels.
    pub density: Option<f64>,
    /// The stixel's disparity is within 3 px or 5 % of the truth: `1 - d1`.
    pub explained: Option<f64>,
    /// Off by more than 3 px and more than 5 %.
    pub d1: Option<f64>,
    /// Off by more than 1 px.
    pub bad1: Option<f64>,
    /// Off by more than 3 px.
    pub bad3: Option<f64>,
    /// Mean absolute error, px.
    pub mean_error_px: Option<f64>,
}

impl From<&Tally> for Scores {
    fn from(t: &Tally) -> Self {
        let s = t.scores();
        Self {
            truth_pixels: t.truth,
            object_pixels: t.filled,
            density: s.density,
            explained: share(t.filled - t.d1, t.filled),
            d1: s.d1,
            bad1: s.bad1,
            bad3: s.bad3,
            mean_error_px: s.mean_error_px,
        }
    }
}

/// One frame's scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameScores {
    /// Its number.
    pub frame: u64,
    /// Its scores.
    #[serde(flatten)]
    pub scores: Scores,
}

/// Stixels against disparity: totals at the top, then frame by frame.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Over all pixels of all frames.
    #[serde(flatten)]
    pub total: Scores,
    /// Frame by frame.
    pub frames: Vec<FrameScores>,
    /// Frames without a partner.
    pub unmatched: Unmatched,
}

/// Counts a frame.
fn tally(stixels: &FrameStixels, truth: &Image<u16>) -> Tally {
    let mut object = vec![0u16; truth.height()];
    let mut tally = Tally::default();
    let width = stixels.width as usize;
    for u in 0..stixels.columns() {
        let column = stixels.column(u);
        object.fill(0);
        for s in column.iter().filter(|s| s.class == Class::Object) {
            if let Some(px) = s.disparity_px {
                let d = (px * 256.0).round().clamp(1.0, 65534.0) as u16;
                object[usize::from(s.top)..=usize::from(s.base)].fill(d);
            }
        }
        for (y, &d) in object.iter().enumerate() {
            for &truth in &truth.row(y)[u * width..][..width] {
                tally.add(d, truth);
            }
        }
    }
    tally
}

pub(super) fn evaluate(results: &StixelTable, truth: &Path) -> Result<Report, EvaluateError> {
    let folder = files::disparities(truth)?;
    let (pairs, unmatched) = files::matched(
        (&results.path, &results.frames),
        (&folder.path, &folder.frames),
    )?;
    let mut total = Tally::default();
    let mut frames = Vec::with_capacity(pairs.len());
    for (frame, stixels, file) in pairs {
        let truth = files::read_disparity(file)?;
        check_size(results, stixels, file, truth.size())?;
        let tally = tally(stixels, &truth);
        total.merge(&tally);
        frames.push(FrameScores {
            frame,
            scores: Scores::from(&tally),
        });
    }
    Ok(Report {
        total: Scores::from(&total),
        frames,
        unmatched,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "frame      truth px  in objects %  explained %  bad-1 %  bad-3 %  mean px"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, s: &Scores| {
            writeln!(
                f,
                "{name:<8} {:>10}  {:>12}  {:>11}  {:>7}  {:>7}  {:>7}",
                s.truth_pixels,
                percent(s.density),
                percent(s.explained),
                percent(s.bad1),
                percent(s.bad3),
                s.mean_error_px
                    .map_or_else(|| "-".into(), |e| format!("{e:.3}")),
            )
        };
        for frame in &self.frames {
            line(f, &frame.frame.to_string(), &frame.scores)?;
        }
        line(f, "total", &self.total)?;
        write!(f, "{}", self.unmatched)
    }
}
