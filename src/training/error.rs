use super::data::DataError;
use crate::stage::forest::ModelError;

/// Why a forest can't be trained.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The training data can't be read or used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
    /// The data don't do for what is asked.
    #[error("{0}")]
    Set(String),
    /// The checkpoint can't be written.
    #[error("checkpoint: {0}")]
    Checkpoint(#[source] ModelError),
    /// The checkpoint is of another training.
    #[error("this checkpoint can't be resumed: {what} is {found} there, {expected} here")]
    Resume {
        /// What differs.
        what: &'static str,
        /// In the checkpoint.
        found: String,
        /// As asked for.
        expected: String,
    },
    /// Ranks can't go on together.
    #[error(transparent)]
    Ranks(#[from] super::RankError),
    /// The GPU does not go on.
    #[cfg(feature = "cuda")]
    #[error("GPU: {0}")]
    Gpu(#[from] crate::cuda::GpuError),
    /// It was asked to stop. The checkpoint has the last whole level.
    #[error("stopped at level {level} of tree {tree}")]
    Stopped {
        /// The tree that was growing, from 0.
        tree: u32,
        /// The level that is not done, from 1.
        level: u32,
    },
}
