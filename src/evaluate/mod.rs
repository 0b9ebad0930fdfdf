//! Results against truth.
//!
//! Every evaluation gives a report that is serialisable (keys as DESIGN fixes them; shares are
//! 0 to 1, `null` where nothing was judged) and printable as a table for people.
//!
//! Frames are matched by the number in their files' names: the digits at the beginning, else
//! those at the end (`000013_10.png` is 13); where a folder's names give no such number for each
//! file, or one twice, by their place in the order of names. Of KITTI's `_10` and `_11` pictures
//! only `_10` count.
use std::path::{Path, PathBuf};

use crate::{frame::Size, picture::PictureError};

pub mod disparity;
mod files;
pub mod foreground;
pub mod labels;
mod lines;
pub mod logos;
pub mod stixel_table;
pub mod stixels;

/// Why results can't be judged.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// A file or folder can't be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A picture is damaged.
    #[error("{}: {source}", path.display())]
    Picture {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: PictureError,
    },
    /// A picture is of another kind than it has to be.
    #[error("{}: {found}, expected {expected}", path.display())]
    Kind {
        /// Which file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Result and truth differ in size.
    #[error("{}: {found}, expected {expected} as {}", path.display(), truth.display())]
    Size {
        /// The result.
        path: PathBuf,
        /// Its size.
        found: Size,
        /// The truth.
        truth: PathBuf,
        /// Its size.
        expected: Size,
    },
    /// A table has a wrong line.
    #[error("{}:{line}: {what}", path.display())]
    Table {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// A label picture has a value that the class table does not explain.
    #[error("{}: label {label} at ({x}, {y}) is not in {}", path.display(), classes.display())]
    Label {
        /// The picture.
        path: PathBuf,
        /// The value.
        label: u8,
        /// Column.
        x: usize,
        /// Row.
        y: usize,
        /// The class table.
        classes: PathBuf,
    },
    /// A mask of truth has a value that means nothing.
    #[error(
        "{}: value {found} at ({x}, {y}), expected 0 static, 50 shadow, 85 outside, 170 unknown or \
         255 moving", path.display()
    )]
    Code {
        /// The mask.
        path: PathBuf,
        /// The value.
        found: u8,
        /// Column.
        x: usize,
        /// Row.
        y: usize,
    },
    /// A folder holds nothing to read.
    #[error("{}: found no {expected}", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
        /// What was looked for.
        expected: &'static str,
    },
    /// The kind of truth can't be told.
    #[error("{}: not known as truth for {what}, expected {expected}", path.display())]
    UnknownTruth {
        /// Which.
        path: PathBuf,
        /// What is to be judged.
        what: &'static str,
        /// What would do.
        expected: &'static str,
    },
    /// No frame is in both.
    #[error(
        "no frame of {} ({results_frames}) has a partner in {} ({truth_frames}); frames are \
         matched by number",
        results.display(), truth.display()
    )]
    NoPartner {
        /// The results.
        results: PathBuf,
        /// Their frames.
        results_frames: String,
        /// The truth.
        truth: PathBuf,
        /// Its frames.
        truth_frames: String,
    },
    /// Result and truth cut the image into different columns.
    #[error("frame {frame}: columns of {found} px, expected {expected} px as in the truth")]
    Width {
        /// Which frame.
        frame: u64,
        /// Width in the result, px.
        found: u32,
        /// Width in the truth, px.
        expected: u32,
    },
    /// Labels or their class table can't be read.
    #[error(transparent)]
    Data(#[from] crate::training::data::DataError),
    /// The report can't be written.
    #[error("the report can't be written: {0}")]
    Report(#[source] std::io::Error),
}

impl EvaluateError {
    /// The exit status of a program that ends with this (as sysexits.h has them): 66 where input
    /// is missing, 70 where the report can't be written, else 65.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Io { source, .. } if crate::files::is_data(source) => 65,
            Self::Io { .. } | Self::Empty { .. } => 66,
            Self::Data(e) if !e.is_data() => 66,
            Self::Report(_) => 70,
            _ => 65,
        }
    }

    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Frames that only one side has, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Unmatched {
    /// Results without truth.
    pub results: Vec<u64>,
    /// Truth without results.
    pub truth: Vec<u64>,
}

impl std::fmt::Display for Unmatched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (list, what) in [
            (&self.results, "results without truth"),
            (&self.truth, "truth without results"),
        ] {
            if !list.is_empty() {
                writeln!(f, "{} {what}: frames {}", list.len(), ranges(list))?;
            }
        }
        Ok(())
    }
}

/// `a / b`, or nothing when `b` is 0.
fn share(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// A share in per cent, or a dash.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{:.2}", 100.0 * s))
}

/// Ascending numbers as `1-3, 7`.
fn ranges(numbers: &[u64]) -> String {
    let mut text = String::new();
    let mut i = 0;
    while i < numbers.len() {
        let first = numbers[i];
        while i + 1 < numbers.len() && numbers[i + 1].checked_sub(numbers[i]) == Some(1) {
            i += 1;
        }
        let comma = if text.is_empty() { "" } else { ", " };
        text += &if first == numbers[i] {
            format!("{comma}{first}")
        } else {
            format!("{comma}{first}-{}", numbers[i])
        };
        i += 1;
    }
    text
}

/// How many frames and which, for messages.
fn frames_in_words(numbers: &[u64]) -> String {
    match numbers {
        [] => "no frames".into(),
        [one] => format!("frame {one}"),
        [first, .., last] => format!("{} frames, {first} to {last}", numbers.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_briefly() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
        assert_eq!(frames_in_words(&[2, 4, 9]), "3 frames, 2 to 9");
        assert_eq!(percent(share(1, 3)), "33.33");
        assert_eq!(percent(share(0, 0)), "-");
    }
}
