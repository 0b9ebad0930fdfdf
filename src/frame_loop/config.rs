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

/// `[frame_loop.admission]`: which optional stages are left out where time is short, and when they
/// come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionConfig {
    /// Optional stages, the most important first: they are launched in this order, so that the last
    /// are the first to be skipped. Egomotion goes with the foreground; what is not named comes
    /// last.
    pub importance: Vec<StageId>,
    /// Runs of a stage, from its first, whose duration says nothing of those to come. 0 to 10000.
    pub warm_up_runs: u32,
    /// A skipped stage comes back when it would have fitted in so many frames in a row. 1 to 10000.
    pub readmit_frames: u32,
    /// With so much more room than it is expected to take. 0 to 1000.
    pub readmit_margin_percent: u32,
    /// Frames after which a stage that took too long is tried again, at first. 1 to 10000.
    pub retry_frames: u32,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        Self {
            importance: vec![StageId::Foreground, StageId::Logo, StageId::Forest],
            warm_up_runs: 10,
            readmit_frames: 5,
            readmit_margin_percent: 10,
            retry_frames: 30,
        }
    }
}

impl AdmissionConfig {
    /// The place of a unit of these stages among the optional ones.
    pub(super) fn rank(&self, stages: &[StageId]) -> usize {
        let mut named = self.importance.iter();
        named
            .position(|s| stages.contains(s))
            .unwrap_or(self.importance.len())
    }

    fn validate(&self) -> Result<(), LoopConfigError> {
        for (n, stage) in self.importance.iter().enumerate() {
            if stage.required() || self.importance[..n].contains(stage) {
                return Err(LoopConfigError::Importance(*stage));
            }
        }
        for (key, found, low, high) in [
            ("warm_up_runs", self.warm_up_runs, 0, 10_000),
            ("readmit_frames", self.readmit_frames, 1, 10_000),
            (
                "readmit_margin_percent",
                self.readmit_margin_percent,
                0,
                1000,
            ),
            ("retry_frames", self.retry_frames, 1, 10_000),
        ] {
            if !(low..=high).contains(&found) {
                return Err(LoopConfigError::Admission {
                    key,
                    found,
                    low,
                    high,
                });
            }
        }
        Ok(())
    }
}

/// When results are handed out to other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Publish {
    /// As soon as they are complete.
    #[default]
    WhenReady,
    /// The configured latency after the frame was taken.
    AtLatency,
}

/// Whether a section says nothing: it is left out of a file then.
fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}

const LATENCY_US: u64 = 50_000;
const STRICT_MISSES: u32 = 10;

fn is_usual_latency(us: &u64) -> bool {
    *us == LATENCY_US
}

fn is_true(said: &bool) -> bool {
    *said
}

fn is_usual_strictness(misses: &u32) -> bool {
    *misses == STRICT_MISSES
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
    /// When results are handed out to other processes.
    #[serde(skip_serializing_if = "is_default")]
    pub publish: Publish,
    /// With `publish = "at_latency"` from a frame's arrival (live: its time stamp) to that instant;
    /// the deadline is never later. 1000 to 1000000.
    #[serde(skip_serializing_if = "is_usual_latency")]
    pub latency_us: u64,
    /// Whether the loop ends, as a failure, when the required stages miss the deadline again and
    /// again.
    #[serde(skip_serializing_if = "is_default")]
    pub strict: bool,
    /// After so many frames in a row. 1 to 1000000.
    #[serde(skip_serializing_if = "is_usual_strictness")]
    pub strict_misses: u32,
    /// Whether what need not wait for each other is under way at the same time, where the backend
    /// can. Results are the same either way.
    #[serde(skip_serializing_if = "is_true")]
    pub overlap: bool,
    /// Whether, with `overlap`, the stages that read the mono camera's picture begin beside the
    /// required ones where both are computed on the CPU, too. Without, they begin behind them.
    #[serde(skip_serializing_if = "is_default")]
    pub overlap_on_cpu: bool,
    /// What each stage may take.
    pub budget_us: Budgets,
    /// Which stages are left out where time is short.
    #[serde(skip_serializing_if = "is_default")]
    pub admission: AdmissionConfig,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            deadline_us: 100_000,
            stall_periods: 3,
            publish: Publish::default(),
            latency_us: LATENCY_US,
            strict: false,
            strict_misses: STRICT_MISSES,
            overlap: true,
            overlap_on_cpu: false,
            budget_us: Budgets::default(),
            admission: AdmissionConfig::default(),
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
    /// A stage that always runs, or that is named twice.
    #[error(
        "frame_loop.admission.importance names {0}, expected each once: egomotion, foreground, \
         logo, forest"
    )]
    Importance(StageId),
    /// A number of the admission that can't be used.
    #[error("frame_loop.admission.{key} is {found}, expected {low} to {high}")]
    Admission {
        /// Which.
        key: &'static str,
        /// Its value.
        found: u32,
        /// The least.
        low: u32,
        /// The most.
        high: u32,
    },
    /// A latency of nothing, or of more than a second.
    #[error("frame_loop.latency_us is {0}, expected 1000 to 1000000")]
    Latency(u64),
    /// No misses, or unreasonably many.
    #[error("frame_loop.strict_misses is {0}, expected 1 to 1000000")]
    StrictMisses(u32),
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
        self.admission.validate()?;
        if !(1000..=1_000_000).contains(&self.latency_us) {
            return Err(LoopConfigError::Latency(self.latency_us));
        }
        if !(1..=1_000_000).contains(&self.strict_misses) {
            return Err(LoopConfigError::StrictMisses(self.strict_misses));
        }
        Ok(())
    }

    /// The lines of the section, as a file has them, that are left out of it where they have
    /// their defaults.
    pub(crate) fn unsaid(&self) -> String {
        let mut lines = String::new();
        let mut line = |key: &str, said: bool, value: &dyn std::fmt::Display| {
            if !said {
                lines += &format!("{key} = {value}\n");
            }
        };
        let publish = self.publish == Publish::AtLatency;
        line("publish", publish, &"\"when_ready\"");
        let (latency, misses) = (self.latency_us, self.strict_misses);
        line("latency_us", !is_usual_latency(&latency), &latency);
        line("strict", self.strict, &false);
        line("strict_misses", !is_usual_strictness(&misses), &misses);
        line("overlap", !self.overlap, &true);
        line("overlap_on_cpu", self.overlap_on_cpu, &false);
        lines
    }

    /// From a frame's arrival to the instant by which all is to be complete, ns: the deadline, or
    /// the fixed latency where that is sooner.
    pub fn deadline_ns(&self) -> u64 {
        let us = match self.publish {
            Publish::WhenReady => self.deadline_us,
            Publish::AtLatency => self.deadline_us.min(self.latency_us),
        };
        us.saturating_mul(1000)
    }
}
