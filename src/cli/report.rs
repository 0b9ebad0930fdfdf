//! `roadloop report RESULTS --out report.html`
use std::path::PathBuf;

use crate::sink::report::{self, ReportError};

/// A self-contained HTML page on a replay: times of the stages, gaps, pictures, provenance.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder that `roadloop replay` wrote
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// The page to write
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Overlay pictures to put into it, evenly spaced
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub pictures: usize,
}

/// Writes the page.
///
/// # Errors
/// When the results are not those of a replay, or the page can't be written.
pub fn run(args: &Args) -> Result<(), ReportError> {
    report::write(&args.results, &args.out, args.pictures)
}

/// The exit status for an error: 66 no input, 65 damaged input, 70 all else.
pub fn exit_status(error: &ReportError) -> u8 {
    match error {
        ReportError::NoSummary { .. } => 66,
        ReportError::Summary { .. } | ReportError::Timing { .. } => 65,
        ReportError::Io { .. } | ReportError::Write(_) => 70,
    }
}
