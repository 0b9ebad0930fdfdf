//! Errors as the shell sees them: a message and an exit status.
use std::io::{ErrorKind, Write as _};

use crate::{calib::CalibError, files};

/// Writes to stdout. A reader that has left (`| head`) is no failure.
pub(super) fn say(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::internal(format!("stdout: {e}")))
        }
        _ => Ok(()),
    }
}

/// Why a command ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit status, after sysexits.h.
    pub status: u8,
    /// One clear error: file, line or key, found, expected.
    pub message: String,
}

impl Failure {
    /// The command line makes no sense.
    pub fn usage(message: impl ToString) -> Self {
        Self::new(64, message)
    }

    /// Input that can't be used.
    pub fn data(message: impl ToString) -> Self {
        Self::new(65, message)
    }

    /// Input that isn't there.
    pub fn no_input(message: impl ToString) -> Self {
        Self::new(66, message)
    }

    /// A device that isn't there.
    pub fn unavailable(message: impl ToString) -> Self {
        Self::new(69, message)
    }

    /// Something that should work and didn't: disk full, threads refused.
    pub fn internal(message: impl ToString) -> Self {
        Self::new(70, message)
    }

    /// A configuration that can't be used.
    pub fn config(message: impl ToString) -> Self {
        Self::new(78, message)
    }

    /// A GPU that is not there, too small for what is configured, or broken.
    #[cfg(feature = "cuda")]
    pub fn gpu(error: &crate::cuda::GpuError) -> Self {
        Self::new(error.exit_status(), format!("--backend cuda: {error}"))
    }

    /// The same, of what this key names.
    pub fn of(self, key: &str) -> Self {
        Self::new(self.status, format!("{key}: {}", self.message))
    }

    fn new(status: u8, message: impl ToString) -> Self {
        Self {
            status,
            message: message.to_string(),
        }
    }
}

impl From<CalibError> for Failure {
    fn from(e: CalibError) -> Self {
        match e {
            CalibError::Io { ref source, .. } if !files::is_data(source) => Failure::no_input(e),
            _ => Failure::data(e),
        }
    }
}
