//! `roadloop record --config F --out DIR`: `roadloop run`, recorded.
use std::path::PathBuf;

use super::{Failure, run as live};

/// Live cameras through the loop, and all of it into MCAP files.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Configuration (roadloop.toml); its section `record` says how, enabled or not
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Folder of the recording; made where it is not there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Records until SIGTERM or Ctrl-C.
///
/// # Errors
/// As [`live::run`]; when the folder holds a recording already.
pub fn run(args: &Args) -> Result<(), Failure> {
    live::live(&args.config, |_| Some(args.out.clone()))
}
