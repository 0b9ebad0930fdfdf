//! The command line, one file a command.
pub mod bench;
pub mod check;
mod computer;
pub mod demo;
pub mod evaluate;
mod failure;
pub mod forest;
pub mod logos;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod synth;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::{CommandFactory as _, Parser, Subcommand};

pub use failure::Failure;

use crate::service::journal;

/// The perception loop of a vehicle: stereo and mono images in, stixels, foreground, logos and
/// labels out, a fixed time later.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A synthetic drive, replayed, with pictures and a report; needs no input
    Demo(demo::Args),
    /// A recorded drive to stixels, foreground, logos, labels, pictures, timing and a digest
    Replay(replay::Args),
    /// Live cameras to stixels, foreground, logos and labels; what the service starts
    Run(run::Args),
    /// What run does, recorded as MCAP
    Record(record::Args),
    /// Writes a synthetic street with exact truth
    Synth(synth::Args),
    /// Compares results with truth
    Evaluate(evaluate::Args),
    /// Makes the templates that the logo stage looks for
    Logos(logos::Args),
    /// Validates a file and prints what was understood
    Check(check::Args),
    /// Measures the loop: percentiles of stages and frames, jitter, misses, skips
    Bench(bench::Args),
    /// Trains, tests and describes the pixel classifier
    Forest(forest::Args),
    /// One HTML page from the results of a replay
    Report(report::Args),
}

/// The command line's description, for completions and man pages.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line and runs the command.
///
/// stdout is data, stderr is log. The exit status says what kind of thing went wrong:
/// 64 usage, 65 data, 66 no input, 69 device unavailable, 70 internal, 78 configuration.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are answers, not errors. A closed pipe is nobody's fault.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 64 } else { 0 });
        }
    };
    let mut log =
        env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info"));
    log.format_target(false);
    if journal::is_journal() {
        log.format(journal::format);
    }
    log.init();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log::error!("{}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Replay(args) => replay::run(&args, stop_flag()?.as_ref()),
        Command::Demo(args) => demo::run(&args, stop_flag),
        Command::Run(args) => run::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Synth(args) => Ok(synth::run(&args)?),
        Command::Evaluate(args) => {
            let mut report = Vec::new();
            evaluate::run(&args, &mut report)?;
            failure::say(&String::from_utf8_lossy(&report))
        }
        Command::Logos(args) => logos::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Bench(args) => bench::run(&args, stop_flag),
        Command::Forest(args) => forest::run(&args, stop_flag),
        Command::Report(args) => Ok(report::run(&args)?),
    }
}

/// Set by Ctrl-C and SIGTERM: what runs then ends after the frame in flight, with its results
/// written. A second one ends the process at once, with status 130, whatever it waits for.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    let on_signal = move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        log::info!("stopping; once more to end at once");
    };
    ctrlc::set_handler(on_signal)
        .map_err(|e| Failure::internal(format!("no handler for Ctrl-C: {e}")))?;
    Ok(stop)
}
