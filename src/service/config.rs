//! `[output]` of the configuration.
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[output]`: where a live loop's results and numbers go; nowhere by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputConfig {
    /// A unix socket (`SOCK_SEQPACKET`) for the lists of each result; see `docs/socket.md`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// A text file for Prometheus, replaced once a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<PathBuf>,
}
