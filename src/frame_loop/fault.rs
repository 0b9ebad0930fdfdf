//! A stage that hangs, on demand: how the watchdog is tested.
use serde::{Deserialize, Serialize};

use super::StageId;

/// Which stage hangs, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HangConfig {
    /// The stage's name; it must be the first of those that the backend launches as one.
    pub stage: String,
    /// The frame's place, from 0, from which on it hangs.
    pub frame: usize,
}

impl HangConfig {
    /// Never returns when the time has come.
    pub(super) fn strike(&self, stages: &[StageId], frame: usize) {
        if frame < self.frame || stages.first().is_none_or(|s| s.name() != self.stage) {
            return;
        }
        log::warn!("fault injection: stage {} hangs from now on", self.stage);
        loop {
            std::thread::park();
        }
    }
}
