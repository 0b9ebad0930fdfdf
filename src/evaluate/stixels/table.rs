//! Stixels against true stixels.
use std::{fmt, path::Path};

use serde::Serialize;

use crate::{
    evaluate::{
        EvaluateError, Unmatched, files, percent, share,
        stixel_table::{self, Row, StixelTable},
    },
    frame::Class,
};

/// Stixels counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    truth: u64,
    results: u64,
    matched: u64,
    exact: u64,
}

impl Counts {
    fn scores(&self) -> Scores {
        Scores {
            truth_stixels: self.truth,
            result_stixels: self.results,
            matched: self.matched,
            exact: self.exact,
            precision: share(self.matched, self.results),
            recall: share(self.matched, self.truth),
            f: share(2 * self.matched, self.results + self.truth),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.truth += other.truth;
        self.results += other.results;
        self.matched += other.matched;
        self.exact += other.exact;
    }
}

/// Stixels found: of the same column and class, top and base within the tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// True stixels.
    pub truth_stixels: u64,
    /// Stixels in the result.
    pub result_stixels: u64,
    /// Those matched, one to one.
    pub matched: u64,
    /// Those equal in class, top and base.
    pub exact: u64,
    /// Matched of the result's.
    pub precision: Option<f64>,
    /// Matched of the true ones.
    pub recall: Option<f64>,
    /// Harmonic mean of both.
    pub f: Option<f64>,
}

/// Scores by class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerClass {
    /// Ground.
    pub ground: Scores,
    /// Object.
    pub object: Scores,
    /// Sky.
    pub sky: Scores,
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

/// Stixels against true stixels: totals at the top.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Rows by which top and base may differ.
    pub tolerance_px: u32,
    /// Over all frames and classes.
    #[serde(flatten)]
    pub total: Scores,
    /// Columns in truth or result.
    pub columns: u64,
    /// Of these, columns that are equal in class, top and base of every stixel.
    pub columns_equal: u64,
    /// By class.
    pub per_class: PerClass,
    /// Frame by frame.
    pub frames: Vec<FrameScores>,
    /// Frames without a partner.
    pub unmatched: Unmatched,
}

/// Counts a column by class. Stixels of a column do not overlap, so going down both lists once
/// and taking the first partner of each true stixel matches as many as can be.
fn count(result: &[Row], truth: &[Row], tolerance: u32) -> [Counts; 3] {
    let mut counts = [Counts::default(); 3];
    for (c, class) in [Class::Ground, Class::Object, Class::Sky]
        .iter()
        .enumerate()
    {
        let of_class = |list: &[Row]| -> Vec<(u32, u32)> {
            list.iter()
                .filter(|s| s.class == *class)
                .map(|s| (u32::from(s.top), u32::from(s.base)))
                .collect()
        };
        let (result, truth) = (of_class(result), of_class(truth));
        let mut next = 0;
        let mut matched = 0;
        for t in &truth {
            let near =
                |r: &(u32, u32)| r.0.abs_diff(t.0) <= tolerance && r.1.abs_diff(t.1) <= tolerance;
            if let Some(i) = result[next..].iter().position(near) {
                next += i + 1;
                matched += 1;
            }
        }
        counts[c] = Counts {
            truth: truth.len() as u64,
            results: result.len() as u64,
            matched,
            exact: truth.iter().filter(|t| result.contains(t)).count() as u64,
        };
    }
    counts
}

pub(super) fn evaluate(
    results: &StixelTable,
    truth: &Path,
    tolerance_px: u32,
) -> Result<Report, EvaluateError> {
    let truth = stixel_table::read(&if truth.is_dir() {
        files::inner(truth, &["truth"])
    } else {
        truth.into()
    })?;
    let (pairs, unmatched) = files::matched(
        (&results.path, &results.frames),
        (&truth.path, &truth.frames),
    )?;
    let mut classes = [Counts::default(); 3];
    let mut frames = Vec::with_capacity(pairs.len());
    let (mut columns, mut columns_equal) = (0, 0);
    for (frame, result, truth) in pairs {
        if result.width != truth.width {
            return Err(EvaluateError::Width {
                frame,
                found: result.width,
                expected: truth.width,
            });
        }
        let mut of_frame = Counts::default();
        for u in 0..result.columns().max(truth.columns()) {
            let (a, b) = (result.column(u), truth.column(u));
            let key = |s: &Row| (s.class, s.top, s.base);
            columns += 1;
            columns_equal += u64::from(a.iter().map(key).eq(b.iter().map(key)));
            for (total, counts) in classes.iter_mut().zip(count(a, b, tolerance_px)) {
                total.merge(&counts);
                of_frame.merge(&counts);
            }
        }
        frames.push(FrameScores {
            frame,
            scores: of_frame.scores(),
        });
    }
    let mut total = Counts::default();
    classes.iter().for_each(|c| total.merge(c));
    let [ground, object, sky] = classes.map(|c| c.scores());
    Ok(Report {
        tolerance_px,
        total: total.scores(),
        columns,
        columns_equal,
        per_class: PerClass {
            ground,
            object,
            sky,
        },
        frames,
        unmatched,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "frame       truth  result  matched  exact  precision %  recall %    F %   (within {} px)",
            self.tolerance_px
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, s: &Scores| {
            writeln!(
                f,
                "{name:<8} {:>8} {:>7} {:>8} {:>6} {:>12} {:>9} {:>6}",
                s.truth_stixels,
                s.result_stixels,
                s.matched,
                s.exact,
                percent(s.precision),
                percent(s.recall),
                percent(s.f),
            )
        };
        for s in &self.frames {
            line(f, &s.frame.to_string(), &s.scores)?;
        }
        line(f, "total", &self.total)?;
        line(f, "ground", &self.per_class.ground)?;
        line(f, "object", &self.per_class.object)?;
        line(f, "sky", &self.per_class.sky)?;
        writeln!(
            f,
            "columns equal: {} of {}",
            self.columns_equal, self.columns
        )?;
        write!(f, "{}", self.unmatched)
    }
}
