//! `roadloop evaluate`: results against truth.
use std::{io::Write, path::PathBuf};

use super::Failure;
use crate::evaluate::{
    EvaluateError, disparity, foreground, labels, logos,
    stixels::{self, TruthKind},
};

/// What is to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum What {
    /// Disparity pictures.
    Disparity,
    /// stixels.csv.
    Stixels,
    /// Masks of what moves.
    Foreground,
    /// logos.csv.
    Logos,
    /// Label pictures.
    Labels,
}

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to judge.
    pub what: What,
    /// A replay's folder, a folder of 16-bit disparity PNG, of masks or of label pictures, a
    /// stixels.csv or a logos.csv.
    pub results: PathBuf,
    /// The truth: a folder of 16-bit disparity PNG (or the KITTI folder that has it), a folder of
    /// label PNG with classes.csv, a text file of foot points, a stixels.csv, a folder of masks
    /// (CDnet's with groundtruth, ROI and temporalROI.txt), a logos.csv, or a synthetic drive.
    pub truth: PathBuf,
    /// What the truth is, for stixels; told by its content if left out.
    #[arg(long = "truth", value_name = "KIND", id = "truth_kind")]
    pub kind: Option<TruthKind>,
    /// Writes JSON in place of a table.
    #[arg(long)]
    pub json: bool,
    /// Rows by which foot points, or top and base of true stixels, may be missed.
    #[arg(long, value_name = "ROWS", default_value_t = 10)]
    pub tolerance_px: u32,
    /// Foot points at x are at x - SHIFT / depth in metres here (44.9: from KITTI's left colour
    /// to its left grey camera; 0: the same camera).
    #[arg(long, value_name = "SHIFT", default_value_t = 44.9, allow_negative_numbers = true,
          value_parser = finite)]
    pub shift_px_m: f64,
    /// The label truth's class table, in place of the classes.csv beside it.
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,
    /// Classes that are not judged, by name, besides void: for labels.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub void: Vec<String>,
}

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() => Ok(v),
        _ => Err("expected a number".into()),
    }
}

/// Judges and writes the report to `out`.
///
/// # Errors
/// As the evaluations give them, and when `out` can't be written.
/// [`EvaluateError::exit_status`] is the command's.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), EvaluateError> {
    match args.what {
        What::Disparity => {
            if args.kind.is_some_and(|kind| kind != TruthKind::Disparity) {
                return Err(EvaluateError::UnknownTruth {
                    path: args.truth.clone(),
                    what: "disparity",
                    expected: "--truth disparity, or none",
                });
            }
            report(&disparity::evaluate(&args.results, &args.truth)?, args, out)
        }
        What::Foreground => {
            if args.kind.is_some() {
                return Err(EvaluateError::UnknownTruth {
                    path: args.truth.clone(),
                    what: "foreground",
                    expected: "no --truth: there is one kind",
                });
            }
            report(
                &foreground::evaluate(&args.results, &args.truth)?,
                args,
                out,
            )
        }
        What::Labels => {
            let options = labels::Options {
                classes: args.classes.clone(),
                void: args.void.clone(),
            };
            report(
                &labels::evaluate(&args.results, &args.truth, &options)?,
                args,
                out,
            )
        }
        What::Stixels => {
            let options = stixels::Options {
                truth: args.kind,
                tolerance_px: args.tolerance_px,
                shift_px_m: args.shift_px_m,
                classes: args.classes.clone(),
            };
            report(
                &stixels::evaluate(&args.results, &args.truth, &options)?,
                args,
                out,
            )
        }
        What::Logos => {
            let options = logos::Options::default();
            let found = logos::evaluate(&args.results, &args.truth, &options)?;
            report(&found, args, out)
        }
    }
}

fn report<R: serde::Serialize + std::fmt::Display>(
    report: &R,
    args: &Args,
    out: &mut dyn Write,
) -> Result<(), EvaluateError> {
    if args.json {
        serde_json::to_writer_pretty(&mut *out, report)
            .map_err(|e| EvaluateError::Report(e.into()))?;
        writeln!(out).map_err(EvaluateError::Report)
    } else {
        write!(out, "{report}").map_err(EvaluateError::Report)
    }
}

impl From<EvaluateError> for Failure {
    fn from(e: EvaluateError) -> Self {
        match e.exit_status() {
            66 => Failure::no_input(e),
            65 => Failure::data(e),
            _ => Failure::internal(e),
        }
    }
}
