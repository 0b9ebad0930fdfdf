//! `roadloop report RESULTS --out report.html`
use std::path::PathBuf;

use super::Failure;
use crate::files;
use crate::sink::report::{self, ReportError};

/// A self-contained HTML page on a replay: times of the stages, gaps, pictures, provenance.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder that `roadloop replay` wrote
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// The page to write; of what is there already, only a page of roadloop's is replaced
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

impl From<ReportError> for Failure {
    fn from(e: ReportError) -> Self {
        match e {
            ReportError::NoSummary { .. } => Failure::no_input(e),
            ReportError::Summary { .. } | ReportError::Timing { .. } => Failure::data(e),
            ReportError::Io { ref source, .. } if files::is_data(source) => Failure::data(e),
            ReportError::Io { .. } => Failure::no_input(e),
            ReportError::OverResults { .. } | ReportError::Replaces(_) => Failure::usage(e),
            ReportError::Write(_) => Failure::internal(e),
        }
    }
}
