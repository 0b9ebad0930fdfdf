//! Moving foreground against truth, as changedetection.net measures it (Goyette et al., CVPRW
//! 2012; Wang et al., CVPRW 2014).
//!
//! Truth has a code a pixel: 0 static, 50 shadow (counts as background), 85 outside the region
//! of interest and 170 unknown (neither is judged), 255 moving. In results 255 is moving and all
//! else background. The measures are of all judged pixels of all frames together.
use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{EvaluateError, Unmatched, files, percent, share};
use crate::{
    files as inputs,
    frame::{Image, Size},
    picture::{Picture, grey_of},
};

/// What a pixel of truth is.
mod code {
    pub const STATIC: u8 = 0;
    pub const SHADOW: u8 = 50;
    pub const OUTSIDE: u8 = 85;
    pub const UNKNOWN: u8 = 170;
    pub const MOVING: u8 = 255;
}

/// Counts of judged pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Moving, found.
    pub true_positives: u64,
    /// Not moving, but found.
    pub false_positives: u64,
    /// Not moving, not found.
    pub true_negatives: u64,
    /// Moving, but not found.
    pub false_negatives: u64,
    /// Of the false positives those in shadow.
    pub shadow_positives: u64,
    /// Pixels in shadow.
    pub shadow: u64,
}

impl Tally {
    /// Counts a pixel; false where the code of the truth is none.
    pub fn add(&mut self, result: u8, truth: u8) -> bool {
        let found = result == code::MOVING;
        match truth {
            code::MOVING if found => self.true_positives += 1,
            code::MOVING => self.false_negatives += 1,
            code::STATIC | code::SHADOW => {
                let shadow = u64::from(truth == code::SHADOW);
                self.shadow += shadow;
                if found {
                    self.false_positives += 1;
                    self.shadow_positives += shadow;
                } else {
                    self.true_negatives += 1;
                }
            }
            code::OUTSIDE | code::UNKNOWN => {}
            _ => return false,
        }
        true
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        self.true_positives += other.true_positives;
        self.false_positives += other.false_positives;
        self.true_negatives += other.true_negatives;
        self.false_negatives += other.false_negatives;
        self.shadow_positives += other.shadow_positives;
        self.shadow += other.shadow;
    }

    /// The measures.
    pub fn scores(&self) -> Scores {
        let Self {
            true_positives: tp,
            false_positives: fp,
            true_negatives: tn,
            false_negatives: fn_,
            shadow_positives,
            shadow,
        } = *self;
        let all = tp + fp + tn + fn_;
        Scores {
            pixels: all,
            recall: share(tp, tp + fn_),
            specificity: share(tn, tn + fp),
            fpr: share(fp, fp + tn),
            fnr: share(fn_, tp + fn_),
            pwc: share(100 * (fp + fn_), all),
            precision: share(tp, tp + fp),
            // 2 Pr Re / (Pr + Re), without the detour that has no value where nothing is found.
            f: share(2 * tp, 2 * tp + fp + fn_),
            shadow_fpr: share(shadow_positives, shadow),
        }
    }
}

/// The measures; shares are 0 to 1, `pwc` is per cent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Pixels that were judged.
    pub pixels: u64,
    /// Re: share of what moves that is found.
    pub recall: Option<f64>,
    /// Sp: share of what does not move that is not found.
    pub specificity: Option<f64>,
    /// FPR: share of what does not move that is found.
    pub fpr: Option<f64>,
    /// FNR: share of what moves that is not found.
    pub fnr: Option<f64>,
    /// PWC: pixels judged wrongly, per cent of all.
    pub pwc: Option<f64>,
    /// Pr: share of what is found that moves.
    pub precision: Option<f64>,
    /// F: harmonic mean of precision and recall.
    pub f: Option<f64>,
    /// FPR of the pixels in shadow.
    pub shadow_fpr: Option<f64>,
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

/// Foreground against truth. In JSON: the measures over all frames at the top (`recall`,
/// `specificity`, `fpr`, `fnr`, `pwc`, `precision`, `f`), `frames` with the same for each, and
/// `unmatched`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Over all pixels of all frames.
    #[serde(flatten)]
    pub total: Scores,
    /// The picture of the region of interest, where there is one.
    pub roi: Option<PathBuf>,
    /// First and last number of the frames that are judged, where that is limited.
    pub temporal_roi: Option<[u64; 2]>,
    /// Frame by frame.
    pub frames: Vec<FrameScores>,
    /// Frames without a partner, of those to be judged.
    pub unmatched: Unmatched,
}

/// Judges foreground. `results`: a replay's folder or a folder of masks; `truth`: a folder of
/// changedetection.net (`groundtruth/`, with `ROI.bmp`, `.png` or `.jpg` and `temporalROI.txt`
/// where they are), its `groundtruth/` itself, a synthetic drive, or a folder of masks.
///
/// # Errors
/// When a file is missing, damaged, of another size or holds another code, or no frame has a
/// partner.
pub fn evaluate(results: &Path, truth: &Path) -> Result<Report, EvaluateError> {
    let mut results = files::Folder::read(
        &files::inner(results, &["foreground"]),
        "masks (8-bit PNG; a replay writes them with --save foreground)",
    )?;
    if truth.join("truth/moving").is_dir() && truth.join("mono").is_dir() {
        log::warn!(
            "{}: the truth is the left camera's: masks of the mono camera, which this drive has, see \
             the street from elsewhere and are judged too low",
            truth.display()
        );
    }
    let mut truth = files::Folder::read(
        &files::inner(truth, &["groundtruth", "truth/moving", "moving"]),
        "masks (8-bit PNG)",
    )?;
    let base = match truth.path.parent() {
        Some(parent) if truth.path.ends_with("groundtruth") => Some(parent.to_path_buf()),
        _ => None,
    };
    let mut roi = None;
    let mut temporal_roi = None;
    if let Some(base) = &base {
        roi = read_roi(base)?;
        temporal_roi = read_temporal_roi(&base.join("temporalROI.txt"))?;
    }
    if let Some([first, last]) = temporal_roi {
        let counts = |number: &u64| (first..=last).contains(number);
        truth.frames.retain(|number, _| counts(number));
        // Where none counts the error is to say which there are.
        if results.frames.keys().any(counts) {
            results.frames.retain(|number, _| counts(number));
        }
    }
    let (pairs, unmatched) = files::matched(
        (&results.path, &results.frames),
        (&truth.path, &truth.frames),
    )?;
    let mut total = Tally::default();
    let mut frames = Vec::with_capacity(pairs.len());
    for (frame, result, truth) in pairs {
        let found = mask(result)?;
        let expected = mask(truth)?;
        same_size(result, found.size(), truth, expected.size())?;
        if let Some((path, roi)) = &roi {
            same_size(path, roi.size(), truth, expected.size())?;
        }
        let mut tally = Tally::default();
        for y in 0..found.height() {
            for x in 0..found.width() {
                if roi.as_ref().is_some_and(|(_, roi)| !roi.get(x, y)) {
                    continue;
                }
                let value = expected.get(x, y);
                if !tally.add(found.get(x, y), value) {
                    return Err(EvaluateError::Code {
                        path: truth.into(),
                        found: value,
                        x,
                        y,
                    });
                }
            }
        }
        total.merge(&tally);
        frames.push(FrameScores {
            frame,
            scores: tally.scores(),
        });
    }
    Ok(Report {
        total: total.scores(),
        roi: roi.map(|(path, _)| path),
        temporal_roi,
        frames,
        unmatched,
    })
}

fn same_size(path: &Path, found: Size, truth: &Path, expected: Size) -> Result<(), EvaluateError> {
    if found == expected {
        return Ok(());
    }
    Err(EvaluateError::Size {
        path: path.into(),
        found,
        truth: truth.into(),
        expected,
    })
}

/// A mask of 8 bits; of a palette or colours, where they are grey.
fn mask(path: &Path) -> Result<Image<u8>, EvaluateError> {
    const EXPECTED: &str = "8-bit grey, or a palette of grey";
    match files::read(path)? {
        Picture::Grey8(image) => Ok(image),
        Picture::Rgb8(image) if image.pixels().all(|[r, g, b]| r == g && g == b) => {
            let Size { width, height } = image.size();
            Ok(Image::from_fn(width, height, |x, y| image.get(x, y)[0]))
        }
        other => Err(files::wrong_kind(path, &other, EXPECTED)),
    }
}

/// Where pixels are judged: not black; the lossy JPEG: not darker than the middle.
fn read_roi(base: &Path) -> Result<Option<(PathBuf, Image<bool>)>, EvaluateError> {
    let there = |name: &&str| inputs::present(&base.join(name));
    let names = ["ROI.bmp", "ROI.png", "ROI.jpg"];
    let Some(name) = names.into_iter().find(there) else {
        return Ok(None);
    };
    let path = base.join(name);
    let least = if name.ends_with("jpg") { 128 } else { 1 };
    let picture = match files::read(&path)? {
        // Compressed colours of grey are not quite grey.
        Picture::Rgb8(image) if name.ends_with("jpg") => {
            let Size { width, height } = image.size();
            Image::from_fn(width, height, |x, y| grey_of(image.get(x, y)))
        }
        _ => mask(&path)?,
    };
    let Size { width, height } = picture.size();
    let roi = Image::from_fn(width, height, |x, y| picture.get(x, y) >= least);
    Ok(Some((path, roi)))
}

/// Numbers of the first and last frame that are judged.
fn read_temporal_roi(path: &Path) -> Result<Option<[u64; 2]>, EvaluateError> {
    if !inputs::present(path) {
        return Ok(None);
    }
    let text = inputs::read_text(path, inputs::MAX_SETTINGS).map_err(EvaluateError::io(path))?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[first, last]) if first <= last => Ok(Some([first, last])),
        _ => Err(EvaluateError::Table {
            path: path.into(),
            line: 1,
            what: format!(
                "{:?}, expected the first and the last frame's number",
                text.trim()
            ),
        }),
    }
}

impl fmt::Display for Report {
    /// A table, in per cent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(roi) = &self.roi {
            writeln!(f, "region of interest: {}", roi.display())?;
        }
        if let Some([first, last]) = self.temporal_roi {
            writeln!(f, "frames judged: {first} to {last}")?;
        }
        writeln!(
            f,
            "frame          pixels   Re %    Sp %   FPR %   FNR %   PWC %    Pr %     F %"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, s: &Scores| {
            write!(f, "{name:<8} {:>12}", s.pixels)?;
            write!(f, " {:>6}", percent(s.recall))?;
            let pwc = s.pwc.map(|pwc| pwc / 100.0);
            for value in [s.specificity, s.fpr, s.fnr, pwc, s.precision, s.f] {
                write!(f, " {:>7}", percent(value))?;
            }
            writeln!(f)
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
    fn every_code_by_hand() {
        let mut t = Tally::default();
        for (result, truth) in [
            (255, 255),
            (255, 255),
            (255, 255),
            (127, 255),
            (255, 0),
            (255, 50),
            (127, 50),
            (0, 0),
            (0, 0),
            (0, 0),
            (255, 85),
            (255, 170),
            (0, 170),
        ] {
            assert!(t.add(result, truth));
        }
        assert!(!t.add(0, 1) && !t.add(0, 254));
        let s = t.scores();
        assert_eq!(s.pixels, 10);
        assert_eq!((s.recall, s.fnr), (Some(0.75), Some(0.25)));
        assert_eq!((s.precision, s.f), (Some(0.6), Some(6.0 / 9.0)));
        assert_eq!((s.specificity, s.fpr), (Some(4.0 / 6.0), Some(2.0 / 6.0)));
        assert_eq!((s.pwc, s.shadow_fpr), (Some(30.0), Some(0.5)));
    }

    #[test]
    fn nothing_moves_and_nothing_is_found() {
        let mut t = Tally::default();
        t.add(0, 0);
        let s = t.scores();
        assert_eq!((s.f, s.recall, s.precision), (None, None, None));
        assert_eq!((s.specificity, s.pwc), (Some(1.0), Some(0.0)));
    }
}
