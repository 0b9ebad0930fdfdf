//! Deadline and budgets, section `[frame_loop]`.
use serde::{Deserialize, Serialize};

use super::StageId;

/// What each stage may take, microseconds. A stage over its budget is flagged in the timing;
/// before anything is measured the budget is also what admission expects of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "one key a stage, named after it")]
pub struct Budgets {
    pub rectify: u64,
    pub stereo: u64,
    pub road: u64,
    pub stixel: u64,
    pub egomotion: u64,
    pub foreground: u64,
    pub logo: u64,
    pub forest: u64,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            rectify: 5_000,
            stereo: 60_000,
            road: 3_000,
            stixel: 20_000,
            egomotion: 5_000,
            foreground: 10_000,
            logo: 20_000,
            forest: 30_000,
        }
    }
}

impl Budgets {
    /// The budget of a stage, ns.
    pub fn ns(&self, stage: StageId) -> u64 {
        let us = match stage {
            StageId::Rectify => self.rectify,
            StageId::Stereo => self.stereo,
            StageId::Road => self.road,
            StageId::Stixel => self.stixel,
            StageId::Egomotion => self.egomotion,
            StageId::Foreground => self.foreground,
            StageId::Logo => self.logo,
            StageId::Forest => self.forest,
        };
        us.saturating_mul(1000)
    }
}

/// Where results are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// CUDA where it is built and a device is there, else the CPU
    #[default]
    Auto,
    /// The CPU
    Cpu,
    /// An NVIDIA GPU
    Cuda,
}

/// Section `[frame_loop]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoopConfig {
    /// From a frame's arrival (live: its time stamp) to the instant by which its result must be
    /// there.
    pub deadline_us: u64,
    /// Silence of the source that counts as a lost camera, in frame periods.
    pub stall_periods: u64,
    /// What each stage may take.
    pub budget_us: Budgets,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            deadline_us: 100_000,
            stall_periods: 3,
            budget_us: Budgets::default(),
        }
    }
}

/// A value of `[frame_loop]` that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoopConfigError {
    /// A deadline of nothing, or of more than a minute.
    #[error("frame_loop.deadline_us is {0}, expected 1 to 60000000")]
    Deadline(u64),
    /// A budget of nothing, or of more than a minute.
    #[error("frame_loop.budget_us.{stage} is {found}, expected 1 to 60000000")]
    Budget {
        /// Whose.
        stage: StageId,
        /// Its value, microseconds.
        found: u64,
    },
    /// No silence, or an unreasonable one.
    #[error("frame_loop.stall_periods is {0}, expected 1 to 1000")]
    Stall(u64),
}

impl LoopConfig {
    /// Refuses values that can't be used.
    ///
    /// # Errors
    /// With key, what was found and what was expected.
    pub fn validate(&self) -> Result<(), LoopConfigError> {
        if !(1..=60_000_000).contains(&self.deadline_us) {
            return Err(LoopConfigError::Deadline(self.deadline_us));
        }
        for stage in StageId::ORDER {
            let found = self.budget_us.ns(stage) / 1000;
            if !(1..=60_000_000).contains(&found) {
                return Err(LoopConfigError::Budget { stage, found });
            }
        }
        if !(1..=1000).contains(&self.stall_periods) {
            return Err(LoopConfigError::Stall(self.stall_periods));
        }
        Ok(())
    }
}
