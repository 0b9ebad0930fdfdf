use std::{io, path::PathBuf};

/// What can go wrong where results go.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// A file or folder can't be made or written (disk full, no permission). What was written
    /// before stays.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// As the file system has it.
        source: io::Error,
    },
    /// The folder for results exists and is not empty.
    #[error(
        "{}: holds files already (such as {found:?}); expected an empty or new folder; \
         choose another --out, or overwrite earlier results with --force", path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// What should be the folder for results is something else.
    #[error("{}: is not a folder; expected a folder for results", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder holds something that an earlier replay did not write and this one would remove.
    #[error(
        "{}: holds {found:?}, but neither the summary.json nor the timing.csv of a replay; expected \
         earlier results, which alone --force replaces; choose another --out", path.display()
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// What would have been removed first.
        found: String,
    },
    /// The folder for results belongs to what is read.
    #[error(
        "--out {}: would write over or into {}, which is read; expected a folder apart from all input",
        path.display(), input.display()
    )]
    Input {
        /// The folder for results.
        path: PathBuf,
        /// What is read.
        input: PathBuf,
    },
    /// Another replay writes into the folder at this moment.
    #[error("{}: another replay is writing here; expected another --out, or wait for its end", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The thread that writes pictures is refused.
    #[error("no thread to write pictures with: {0}")]
    Thread(io::Error),
    /// The thread that hands results out is refused, or has ended before its time.
    #[error("no thread to hand results out with: {0}")]
    HandOut(io::Error),
    /// A result can't be encoded for its digest.
    #[error("encoding for the digest: {0}")]
    Encoding(#[from] postcard::Error),
    /// The thread that writes pictures ended before its time.
    #[error("the picture writer stopped; pictures after that are missing")]
    WriterGone,
}

impl SinkError {
    /// An I/O error with the file that it happened to.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
