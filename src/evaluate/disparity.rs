//! Disparity against truth, as KITTI measures it (Menze and Geiger, CVPR 2015).
use std::{fmt, path::Path};

use serde::Serialize;

use super::{EvaluateError, Unmatched, files, percent, share};
use crate::frame::Image;

/// Counts over pixels that have truth; errors in 1/256 px, so everything is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pixels with truth.
    pub truth: u64,
    /// Of these, pixels with a result.
    pub filled: u64,
    /// Of these, off by more than 3 px and more than 5 % of the truth.
    pub d1: u64,
    /// Off by more than 1 px.
    pub bad1: u64,
    /// Off by more than 3 px.
    pub bad3: u64,
    /// Sum of the absolute errors, 1/256 px.
    pub error: u64,
}

impl Tally {
    /// Counts a pixel: result (0 = none) and truth (0 = none), 1/256 px.
    pub fn add(&mut self, result: u16, truth: u16) {
        if truth == 0 {
            return;
        }
        self.truth += 1;
        if result == 0 {
            return;
        }
        let error = u64::from(result.abs_diff(truth));
        self.filled += 1;
        self.error += error;
        self.bad1 += u64::from(error > 256);
        self.bad3 += u64::from(error > 3 * 256);
        self.d1 += u64::from(error > 3 * 256 && 20 * error > u64::from(truth));
    }

    /// Counts an image.
    pub fn add_image(&mut self, result: &Image<u16>, truth: &Image<u16>) {
        for (result, truth) in result.pixels().zip(truth.pixels()) {
            self.add(*result, *truth);
        }
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        self.truth += other.truth;
        self.filled += other.filled;
        self.d1 += other.d1;
        self.bad1 += other.bad1;
        self.bad3 += other.bad3;
        self.error += other.error;
    }

    /// Shares of the counts.
    pub fn scores(&self) -> Scores {
        let missing = self.truth - self.filled;
        Scores {
            truth_pixels: self.truth,
            filled_pixels: self.filled,
            density: share(self.filled, self.truth),
            d1: share(self.d1, self.filled),
            bad1: share(self.bad1, self.filled),
            bad3: share(self.bad3, self.filled),
            mean_error_px: share(self.error, self.filled * 256),
            all: All {
                d1: share(self.d1 + missing, self.truth),
                bad1: share(self.bad1 + missing, self.truth),
                bad3: share(self.bad3 + missing, self.truth),
            },
        }
    }
}

/// Shares (0 to 1) of the pixels that have truth and a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Pixels with truth.
    pub truth_pixels: u64,
    /// Of these, pixels with a result.
    pub filled_pixels: u64,
    /// Share of the pixels with truth that have a result.
    pub density: Option<f64>,
    /// Off by more than 3 px and more than 5 % of the truth.
    pub d1: Option<f64>,
    /// Off by more than 1 px.
    pub bad1: Option<f64>,
    /// Off by more than 3 px.
    pub bad3: Option<f64>,
    /// Mean absolute error, px.
    pub mean_error_px: Option<f64>,
    /// The same on all pixels with truth.
    pub all: All,
}

/// Shares (0 to 1) of all pixels that have truth; one without a result counts as wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct All {
    /// As [`Scores::d1`].
    pub d1: Option<f64>,
    /// As [`Scores::bad1`].
    pub bad1: Option<f64>,
    /// As [`Scores::bad3`].
    pub bad3: Option<f64>,
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

/// Disparity against truth. In JSON: the totals over all pixels of all frames at the top
/// (`d1`, `bad1`, `bad3`, `density`, `mean_error_px` of filled pixels, `all` of all), `frames`
/// with the same for each, and `unmatched`.
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

/// Judges disparities. `results`: a folder of 16-bit PNG or a replay's folder; `truth`: a folder
/// of 16-bit PNG, a KITTI folder (non-occluded truth where there is such) or a synthetic drive.
///
/// # Errors
/// When a file is missing, damaged or of another kind or size, or no frame has a partner.
pub fn evaluate(results: &Path, truth: &Path) -> Result<Report, EvaluateError> {
    let results = files::Folder::read(
        &files::inner(results, &["disparity"]),
        "disparity pictures (16-bit PNG; a replay writes them with --save disparity)",
    )?;
    let truth = files::disparities(truth)?;
    let (pairs, unmatched) = files::matched(
        (&results.path, &results.frames),
        (&truth.path, &truth.frames),
    )?;
    let mut total = Tally::default();
    let mut frames = Vec::with_capacity(pairs.len());
    for (frame, result, truth) in pairs {
        let (a, b) = (
            files::read_disparity(result)?,
            files::read_disparity(truth)?,
        );
        if a.size() != b.size() {
            return Err(EvaluateError::Size {
                path: result.into(),
                found: a.size(),
                truth: truth.into(),
                expected: b.size(),
            });
        }
        let mut tally = Tally::default();
        tally.add_image(&a, &b);
        total.merge(&tally);
        frames.push(FrameScores {
            frame,
            scores: tally.scores(),
        });
    }
    Ok(Report {
        total: total.scores(),
        frames,
        unmatched,
    })
}

impl fmt::Display for Report {
    /// A table, shares in per cent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "frame      truth px  density %   D1 %  bad-1 %  bad-3 %  mean px | all: D1 %  bad-1 %  bad-3 %"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, s: &Scores| {
            writeln!(
                f,
                "{name:<8} {:>10}  {:>9} {:>6}  {:>7}  {:>7}  {:>7} | {:>9}  {:>7}  {:>7}",
                s.truth_pixels,
                percent(s.density),
                percent(s.d1),
                percent(s.bad1),
                percent(s.bad3),
                s.mean_error_px
                    .map_or_else(|| "-".into(), |e| format!("{e:.3}")),
                percent(s.all.d1),
                percent(s.all.bad1),
                percent(s.all.bad3),
            )
        };
        for frame in &self.frames {
            line(f, &frame.frame.to_string(), &frame.scores)?;
        }
        line(f, "total", &self.total)?;
        write!(f, "{}", self.unmatched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_exclusive() {
        let of = |result, truth| {
            let mut t = Tally::default();
            t.add(result, truth);
            (t.d1, t.bad1, t.bad3)
        };
        // 1 px, then a hair more; 3 px, then a hair more; 5 % of 80 px is 4 px.
        assert_eq!(of(5120 + 256, 5120), (0, 0, 0));
        assert_eq!(of(5120 + 257, 5120), (0, 1, 0));
        assert_eq!(of(5120 - 768, 5120), (0, 1, 0));
        assert_eq!(of(5120 - 769, 5120), (1, 1, 1));
        assert_eq!(of(20480 + 1024, 20480), (0, 1, 1));
        assert_eq!(of(20480 + 1025, 20480), (1, 1, 1));
    }

    #[test]
    fn pixels_without_truth_do_not_count_and_holes_count_on_all() {
        let mut t = Tally::default();
        for (result, truth) in [
            (256, 0),
            (0, 0),
            (0, 256),
            (256, 256),
            (512, 256),
            (5120, 256),
        ] {
            t.add(result, truth);
        }
        let s = t.scores();
        assert_eq!((s.truth_pixels, s.filled_pixels), (4, 3));
        assert_eq!(s.density, Some(0.75));
        assert_eq!(s.d1, Some(1.0 / 3.0));
        assert_eq!(s.all.d1, Some(0.5));
        assert_eq!(s.mean_error_px, Some(20.0 / 3.0));
        assert_eq!(Tally::default().scores().d1, None);
    }
}
