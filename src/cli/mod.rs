//! The command line, one file a command.
pub mod synth;

use std::process::ExitCode;

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    ExitCode::from(64)
}
