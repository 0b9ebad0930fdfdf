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
