//! `logos.csv` against truth, and a benchmark that makes its own truth.
//!
//! In each frame results and truth of one name are paired, nearest first, by the mean distance
//! of their corners; a pair below [`Options::tolerance_px`] is a success. Every result without
//! success is a wrong pose. Logos that the truth has as `partial` need not be found, but may be;
//! their corners may be off by [`PARTIAL_SHARE`] of their longer side, as far as that is more: what
//! lies outside the image, or behind something, can't be measured as well.
//! Results that are `lost` are not judged.
pub mod benchmark;
pub mod composite;
pub mod marks;
pub mod table;

use std::{collections::BTreeSet, fmt, path::Path};

use serde::Serialize;

use super::{EvaluateError, frames_in_words, percent, share};
use table::Row;

/// Mean distance of the corners of a partial logo that is right, as a share of its longer side.
pub const PARTIAL_SHARE: f64 = 0.05;

/// How logos are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Mean distance of the corners below which a logo is found, px.
    pub tolerance_px: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { tolerance_px: 4.0 }
    }
}

/// Found of all, for true logos of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Count {
    /// True logos, wholly visible.
    pub truth: u64,
    /// Those of them that were found.
    pub found: u64,
    /// Their share, `null` without any.
    pub recall: Option<f64>,
}

impl Count {
    fn add(&mut self, found: bool) {
        self.truth += 1;
        self.found += u64::from(found);
        self.recall = share(self.found, self.truth);
    }
}

/// True logos by their height, px.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BySize {
    /// Below 80 px.
    pub below_80: Count,
    /// 80 to 130 px.
    pub from_80: Count,
    /// 130 px and more.
    pub from_130: Count,
}

/// How logos compare with the truth.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Frames that have logos in either table.
    pub frames: u64,
    /// Mean distance of corners below which a logo counts as found, px.
    pub tolerance_px: f64,
    /// Logos reported, those lost aside.
    pub reported: u64,
    /// Reported ones that are where a true logo of that name is, visible or partial.
    pub right: u64,
    /// Reported ones that are not.
    pub wrong: u64,
    /// Share of the reported that is right.
    pub precision: Option<f64>,
    /// Share of the visible true ones that was found.
    pub recall: Option<f64>,
    /// Harmonic mean of both.
    pub f: Option<f64>,
    /// Mean distance of corners of the right ones, px.
    pub mean_error_px: Option<f64>,
    /// Visible true ones.
    pub visible: Count,
    /// Partial true ones: cut by the image's edge or half hidden.
    pub partial: Count,
    /// Visible true ones by height.
    pub by_size: BySize,
    /// Tracks that showed one true logo after another: changes of the true id.
    pub id_switches: u64,
}

/// Compares two tables of logos.
///
/// # Errors
/// When one can't be read, or no frame has a chance: the truth is empty.
pub fn evaluate(results: &Path, truth: &Path, options: &Options) -> Result<Report, EvaluateError> {
    let (results, truth) = (table::read(results)?, table::read(truth)?);
    let numbers: BTreeSet<u64> = results
        .frames
        .keys()
        .chain(truth.frames.keys())
        .copied()
        .collect();
    let (first, last) = (
        results.frames.keys().next(),
        results.frames.keys().next_back(),
    );
    // Tables from different drives, or different numbers for the same frames.
    if let (Some(first), Some(last)) = (first, last)
        && !truth.frames.is_empty()
        && truth.frames.range(first..=last).next().is_none()
    {
        let words =
            |t: &table::Table| frames_in_words(&t.frames.keys().copied().collect::<Vec<_>>());
        return Err(EvaluateError::NoPartner {
            results_frames: words(&results),
            truth_frames: words(&truth),
            results: results.path,
            truth: truth.path,
        });
    }
    let mut report = Report {
        frames: numbers.len() as u64,
        tolerance_px: options.tolerance_px,
        ..Report::default()
    };
    let mut errors = 0.0;
    // What each track showed last.
    let mut shown: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    for n in &numbers {
        let none = Vec::new();
        let seen: Vec<&Row> = results
            .frames
            .get(n)
            .unwrap_or(&none)
            .iter()
            .filter(|r| r.state != "lost")
            .collect();
        let real = truth.frames.get(n).unwrap_or(&none);
        let pairs = pairs(&seen, real, options.tolerance_px);
        report.reported += seen.len() as u64;
        report.right += pairs.len() as u64;
        for (i, j, error) in &pairs {
            errors += error;
            let before = shown.insert(seen[*i].id, real[*j].id);
            report.id_switches += u64::from(before.is_some_and(|id| id != real[*j].id));
        }
        for (j, row) in real.iter().enumerate() {
            let found = pairs.iter().any(|p| p.1 == j);
            if row.state == "partial" {
                report.partial.add(found);
                continue;
            }
            report.visible.add(found);
            match sides(&row.quad).1 {
                h if h < 80.0 => report.by_size.below_80.add(found),
                h if h < 130.0 => report.by_size.from_80.add(found),
                _ => report.by_size.from_130.add(found),
            }
        }
    }
    report.wrong = report.reported - report.right;
    report.precision = share(report.right, report.reported);
    report.recall = report.visible.recall;
    report.f = match (report.precision, report.recall) {
        (Some(p), Some(r)) if p + r > 0.0 => Some(2.0 * p * r / (p + r)),
        (Some(_), Some(_)) => Some(0.0),
        _ => None,
    };
    report.mean_error_px = (report.right > 0).then(|| errors / report.right as f64);
    Ok(report)
}

/// Result, truth and error of each success; nearest first, each used once.
fn pairs(seen: &[&Row], real: &[Row], tolerance: f64) -> Vec<(usize, usize, f64)> {
    let mut all = Vec::new();
    for (i, a) in seen.iter().enumerate() {
        for (j, b) in real.iter().enumerate().filter(|(_, b)| a.name == b.name) {
            let error = corner_error(&a.quad, &b.quad);
            let (across, down) = sides(&b.quad);
            let tolerance = match b.state.as_str() {
                "partial" => tolerance.max(PARTIAL_SHARE * across.max(down)),
                _ => tolerance,
            };
            if error < tolerance {
                all.push((i, j, error));
            }
        }
    }
    all.sort_by(|a, b| a.2.total_cmp(&b.2).then((a.0, a.1).cmp(&(b.0, b.1))));
    let mut taken: Vec<(usize, usize, f64)> = Vec::new();
    for pair in all {
        if taken.iter().all(|t| t.0 != pair.0 && t.1 != pair.1) {
            taken.push(pair);
        }
    }
    taken
}

/// Mean lengths of the level and of the upright sides, px.
fn sides(quad: &[[f64; 2]; 4]) -> (f64, f64) {
    let side = |p: [f64; 2], q: [f64; 2]| {
        let (x, y) = (p[0] - q[0], p[1] - q[1]);
        (x * x + y * y).sqrt()
    };
    (
        0.5 * (side(quad[0], quad[1]) + side(quad[3], quad[2])),
        0.5 * (side(quad[0], quad[3]) + side(quad[1], quad[2])),
    )
}

/// Mean distance of corners, px.
fn corner_error(a: &[[f64; 2]; 4], b: &[[f64; 2]; 4]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(p, q)| {
            let (x, y) = (p[0] - q[0], p[1] - q[1]);
            (x * x + y * y).sqrt()
        })
        .sum::<f64>()
        / 4.0
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| format!("{v:.2}"));
        writeln!(f, "frames             {}", self.frames)?;
        writeln!(f, "reported           {}", self.reported)?;
        writeln!(f, "right (< {:.1} px)   {}", self.tolerance_px, self.right)?;
        writeln!(f, "wrong              {}", self.wrong)?;
        writeln!(f, "precision %        {}", percent(self.precision))?;
        writeln!(f, "recall %           {}", percent(self.recall))?;
        writeln!(f, "F %                {}", percent(self.f))?;
        writeln!(f, "mean error px      {}", number(self.mean_error_px))?;
        writeln!(f, "id switches        {}", self.id_switches)?;
        writeln!(f)?;
        writeln!(f, "truth          logos  found  found %")?;
        let s = &self.by_size;
        for (name, c) in [
            ("visible", &self.visible),
            (" below 80 px", &s.below_80),
            (" 80 - 130 px", &s.from_80),
            (" from 130 px", &s.from_130),
            ("partial", &self.partial),
        ] {
            writeln!(
                f,
                "{name:13} {:6} {:6}  {:>7}",
                c.truth,
                c.found,
                percent(c.recall)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "frame,id,name,state,x0,y0,x1,y1,x2,y2,x3,y3,confidence\n";

    /// A row of a square of this side with its left upper corner there.
    fn row(frame: u64, id: u64, name: &str, state: &str, (x, y, side): (f64, f64, f64)) -> String {
        let (r, b) = (x + side, y + side);
        format!("{frame},{id},{name},{state},{x},{y},{r},{y},{r},{b},{x},{b},0.900\n")
    }

    fn judge(results: &[String], truth: &[String]) -> Result<Report, EvaluateError> {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, rows: &[String]| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("{HEAD}{}", rows.concat())).unwrap();
            path
        };
        let (results, truth) = (write("logos.csv", results), write("truth.csv", truth));
        evaluate(&results, &truth, &Options::default())
    }

    #[test]
    fn by_hand() {
        let truth = [
            row(0, 7, "fox", "visible", (10.0, 10.0, 50.0)),
            row(0, 8, "sun", "visible", (200.0, 10.0, 100.0)),
            row(1, 7, "fox", "visible", (20.0, 10.0, 50.0)),
            row(1, 9, "sun", "partial", (300.0, 10.0, 150.0)),
            row(2, 7, "fox", "visible", (30.0, 10.0, 50.0)),
        ];
        let results = [
            row(0, 1, "fox", "tentative", (13.0, 10.0, 50.0)),
            // The right place, another name.
            row(0, 2, "fox", "tracked", (200.0, 10.0, 100.0)),
            row(1, 1, "fox", "tracked", (20.0, 11.0, 50.0)),
            row(1, 3, "sun", "tracked", (306.0, 10.0, 150.0)),
            // Too far off.
            row(2, 1, "fox", "tracked", (34.0, 10.0, 50.0)),
            // Not judged.
            row(3, 3, "sun", "lost", (300.0, 10.0, 150.0)),
        ];
        let report = judge(&results, &truth).unwrap();
        assert_eq!((report.frames, report.reported), (4, 5));
        assert_eq!((report.right, report.wrong), (3, 2));
        assert_eq!(report.precision, Some(0.6));
        assert_eq!(report.recall, Some(0.5));
        // 3, 1 and, of the partial one, 6 px.
        assert_eq!(report.mean_error_px, Some(10.0 / 3.0));
        assert_eq!((report.visible.truth, report.visible.found), (4, 2));
        assert_eq!((report.partial.truth, report.partial.found), (1, 1));
        assert_eq!(report.by_size.below_80.recall, Some(2.0 / 3.0));
        assert_eq!(report.by_size.from_80.recall, Some(0.0));
        assert_eq!(report.by_size.from_130.recall, None);
        assert_eq!(report.id_switches, 0);
        let text = report.to_string();
        assert!(text.contains("precision %        60.00"), "{text}");
        assert!(
            text.contains(" from 130 px       0      0        -"),
            "{text}"
        );
    }

    #[test]
    fn one_result_finds_one_logo_and_changes_of_it_are_counted() {
        let truth = [
            row(0, 7, "fox", "visible", (10.0, 10.0, 50.0)),
            row(0, 8, "fox", "visible", (12.0, 10.0, 50.0)),
            row(1, 8, "fox", "visible", (12.0, 10.0, 50.0)),
        ];
        let results = [
            row(0, 1, "fox", "tracked", (10.0, 10.0, 50.0)),
            row(1, 1, "fox", "tracked", (12.0, 10.0, 50.0)),
        ];
        let report = judge(&results, &truth).unwrap();
        assert_eq!((report.right, report.visible.found), (2, 2));
        assert_eq!((report.visible.truth, report.id_switches), (3, 1));
    }

    #[test]
    fn nothing_found_and_nothing_to_find() {
        let truth = [row(0, 7, "fox", "visible", (10.0, 10.0, 50.0))];
        let none = judge(&[], &truth).unwrap();
        assert_eq!(
            (none.precision, none.recall, none.f),
            (None, Some(0.0), None)
        );
        let results = [row(0, 7, "fox", "tracked", (10.0, 10.0, 50.0))];
        let wrong = judge(&results, &[]).unwrap();
        assert_eq!(
            (wrong.precision, wrong.recall, wrong.wrong),
            (Some(0.0), None, 1)
        );
        // Frames of different drives.
        let far = [row(9, 7, "fox", "visible", (10.0, 10.0, 50.0))];
        let error = judge(&results, &far).unwrap_err();
        assert!(error.to_string().contains("has a partner"), "{error}");
    }
}
