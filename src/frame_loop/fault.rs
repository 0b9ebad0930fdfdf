//! A stage that hangs, or takes longer, on demand: how watchdog and admission are tested.
use serde::{Deserialize, Serialize};

use super::{Clock, StageId};

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

/// Which stage takes longer, when, and by how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowConfig {
    /// The stage's name; it must be the first of those that the backend launches as one.
    pub stage: String,
    /// The frame's place, from 0, from which on it is slow.
    pub frame: usize,
    /// For so many frames; 0: for good.
    #[serde(default)]
    pub frames: usize,
    /// So much longer, ms, 1 to 10000.
    pub ms: u64,
}

impl SlowConfig {
    /// How much longer these stages take on a frame, ns.
    pub(super) fn ns(&self, stages: &[StageId], frame: usize) -> u64 {
        let end = match self.frames {
            0 => usize::MAX,
            n => self.frame.saturating_add(n),
        };
        let named = stages.first().is_some_and(|s| s.name() == self.stage);
        if named && (self.frame..end).contains(&frame) {
            self.ms.saturating_mul(1_000_000)
        } else {
            0
        }
    }

    /// Passes the time, and says how much, ns.
    pub(super) fn strike(&self, stages: &[StageId], frame: usize, clock: &impl Clock) -> u64 {
        let ns = self.ns(stages, frame);
        if ns == 0 {
            return 0;
        }
        let before = clock.now();
        clock.sleep_until(before.plus_ns(ns));
        clock.now().since(before)
    }
}
