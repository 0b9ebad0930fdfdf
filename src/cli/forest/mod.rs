//! `roadloop forest`: the pixel classifier's trainer.
mod data;
mod info;
mod ranks;
mod test;
mod train;

use std::sync::{Arc, atomic::AtomicBool};

use clap::Subcommand;

use super::Failure;
use crate::{
    stage::forest::ModelError,
    training::{TrainError, data::DataError},
};

pub use data::DataArgs;

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Trains a forest from labelled images
    Train(Box<train::Args>),
    /// Labels images and judges them against their truth
    Test(Box<test::Args>),
    /// Prints what a forest is
    Info(info::Args),
}

/// Runs the command; `stop_flag` gives a flag that Ctrl-C sets.
///
/// # Errors
/// As the commands have them.
pub fn run(
    args: &Args,
    stop_flag: impl FnOnce() -> Result<Arc<AtomicBool>, Failure>,
) -> Result<(), Failure> {
    match &args.command {
        Command::Train(args) => train::run(args, stop_flag),
        Command::Test(args) => test::run(args),
        Command::Info(args) => info::run(args),
    }
}

/// Runs something with so many threads.
fn with_threads<R: Send>(threads: Option<u16>, f: impl FnOnce() -> R + Send) -> Result<R, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or(0, usize::from))
        .build()
        .map_err(|e| {
            let asked = threads.map_or("one a core".into(), |n| n.to_string());
            Failure::internal(format!(
                "the threads that compute ({asked}) are refused: {e}; fewer with --threads N"
            ))
        })?;
    Ok(pool.install(f))
}

impl From<ModelError> for Failure {
    fn from(e: ModelError) -> Self {
        if e.is_data() {
            Failure::data(e)
        } else {
            Failure::no_input(e)
        }
    }
}

impl From<DataError> for Failure {
    fn from(e: DataError) -> Self {
        match e {
            DataError::Option(_) => Failure::usage(e),
            e if e.is_data() => Failure::data(e),
            e => Failure::no_input(e),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(e: TrainError) -> Self {
        match e {
            TrainError::Data(e) => e.into(),
            TrainError::Option(_) => Failure::usage(e),
            #[cfg(feature = "cuda")]
            TrainError::Gpu(e) => Failure::gpu(&e),
            TrainError::Set(_) | TrainError::Resume { .. } => Failure::data(e),
            TrainError::Checkpoint(_) | TrainError::Ranks(_) | TrainError::Stopped { .. } => {
                Failure::internal(e)
            }
        }
    }
}
