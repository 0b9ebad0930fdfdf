//! `summary.json`: counts, percentiles, digests and where they come from.
use std::{
    fmt,
    fs::{self, File},
    io::Write as _,
    marker::PhantomData,
    path::Path,
};

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{SinkError, digest::Digests};
use crate::frame::{Gap, GapSet, MAX_STAGES, Outcome, Timing};

/// A JSON object whose keys keep their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered<T>(pub Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Ordered<T> {
    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0.iter().map(|(k, v)| (k, v)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = map.next_entry()? {
                    items.push(item);
                }
                Ok(Ordered(items))
            }
        }
        d.deserialize_map(Visitor(PhantomData))
    }
}

/// Percentiles of durations, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of them took at most this.
    pub p50_us: f64,
    /// 99 % of them.
    pub p99_us: f64,
    /// 99.9 % of them.
    pub p999_us: f64,
    /// All of them; exact.
    pub max_us: f64,
}

/// How one stage did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    /// Durations of those that ran.
    #[serde(flatten)]
    pub duration: Percentiles,
    /// How often it ran.
    #[serde(default)]
    pub count: u64,
    /// Of these, over their budget.
    #[serde(default)]
    pub over_budget: u64,
    /// Of these, complete after the deadline.
    #[serde(default)]
    pub late: u64,
    /// Not run for lack of time.
    #[serde(default)]
    pub skipped: u64,
}

/// How the frames did as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameSummary {
    /// From taking a frame up to its result.
    #[serde(flatten)]
    pub duration: Percentiles,
    /// Complete after the deadline.
    #[serde(default)]
    pub late: u64,
    /// Difference of the durations of one frame and the next.
    #[serde(default)]
    pub jitter: Percentiles,
}

/// What became of the pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pictures {
    /// Files written.
    pub written: u64,
    /// Frames without pictures because the writer had no room (pace realtime alone).
    pub dropped: u64,
}

/// Where results come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// `cpu` or `cuda`.
    pub backend: String,
    /// `default` or `paper`.
    pub preset: String,
    /// Of roadloop.
    pub version: String,
    /// Of the configuration, 16 hexadecimal digits.
    pub config_hash: String,
    /// Of the calibration, 16 hexadecimal digits.
    pub calib_hash: String,
}

/// What `summary.json` says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Frames with a result.
    pub frames: u64,
    /// Over the parts present, 16 hexadecimal digits.
    pub digest: String,
    /// Of each part present.
    pub digests: Ordered<String>,
    /// For each [`Gap`] the number of frames that have it; all names, also those with 0.
    pub gaps: Ordered<u64>,
    /// For each stage, in the order of the loop.
    pub stages: Ordered<StageSummary>,
    /// For the frames as a whole.
    pub frame: FrameSummary,
    /// Pictures asked for by `--save`.
    #[serde(default)]
    pub pictures: Pictures,
    /// Backend, preset, version, hashes.
    #[serde(flatten)]
    pub provenance: Provenance,
}

impl Summary {
    /// Enters the digests.
    pub fn set_digests(&mut self, digests: &Digests) {
        self.digest = digests.whole.to_string();
        let text = |(part, hash): &(super::digest::Part, super::digest::Hash)| {
            (part.name().to_owned(), hash.to_string())
        };
        self.digests = Ordered(digests.parts.iter().map(text).collect());
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        // Numbers and strings alone: this can't fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Writes the file in one step: a reader sees all of it or the earlier one.
    ///
    /// # Errors
    /// When it can't be written; then no half of it is left behind.
    pub fn write(&self, path: &Path) -> Result<(), SinkError> {
        write_atomically(path, self.to_json().as_bytes())
    }
}

/// Writes a file beside its place and then moves it there.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), SinkError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    File::create(&part)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path))
        .map_err(|source| {
            // The first error is the one to tell.
            let _ = fs::remove_file(&part);
            SinkError::io(path)(source)
        })
}

/// Longest duration that is told apart, ns; longer ones count as this long.
const LONGEST_NS: u64 = 60_000_000_000;

/// Durations with three significant digits; memory is taken at the start.
struct Durations {
    histogram: Histogram<u64>,
    max_ns: u64,
}

impl Durations {
    fn new() -> Self {
        // The bounds are constants for which this can't fail.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .unwrap_or_else(|e| unreachable!("histogram bounds: {e}"));
        Self {
            histogram,
            max_ns: 0,
        }
    }

    fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    fn percentiles(&self) -> Percentiles {
        if self.histogram.is_empty() {
            return Percentiles::default();
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        // A bucket's upper end can lie above the longest that was in it.
        let at = |q| us(self.histogram.value_at_quantile(q).min(self.max_ns));
        Percentiles {
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(self.max_ns),
        }
    }
}

struct Stage {
    name: &'static str,
    durations: Durations,
    outcomes: [u64; 4],
}

/// Counts while the loop runs. The first time that a stage appears costs memory, no later one.
pub struct Statistics {
    frames: u64,
    gaps: [u64; Gap::ALL.len()],
    stages: heapless::Vec<Stage, MAX_STAGES>,
    frame: Durations,
    frame_outcomes: [u64; 4],
    jitter: Durations,
    previous_ns: Option<u64>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl Statistics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            frames: 0,
            gaps: [0; Gap::ALL.len()],
            stages: heapless::Vec::new(),
            frame: Durations::new(),
            frame_outcomes: [0; 4],
            jitter: Durations::new(),
            previous_ns: None,
        }
    }

    /// Counts a frame with a result, and the gaps in it. Stages beyond [`MAX_STAGES`] different
    /// names are left out.
    pub fn frame(&mut self, timing: &Timing, gaps: GapSet) {
        self.frames += 1;
        for gap in gaps.iter() {
            self.gap(gap);
        }
        for timing in &timing.stages {
            let at = self.stages.iter().position(|s| s.name == timing.stage);
            let at = at.unwrap_or_else(|| {
                let _ = self.stages.push(Stage {
                    name: timing.stage,
                    durations: Durations::new(),
                    outcomes: [0; 4],
                });
                self.stages.len() - 1
            });
            let Some(stage) = self.stages.get_mut(at).filter(|s| s.name == timing.stage) else {
                continue;
            };
            stage.outcomes[timing.outcome as usize] += 1;
            if timing.outcome != Outcome::Skipped {
                stage.durations.record(timing.duration_ns);
            }
        }
        self.frame_outcomes[timing.outcome as usize] += 1;
        self.frame.record(timing.duration_ns);
        if let Some(previous) = self.previous_ns.replace(timing.duration_ns) {
            self.jitter.record(previous.abs_diff(timing.duration_ns));
        }
    }

    /// Counts a gap.
    pub fn gap(&mut self, gap: Gap) {
        self.gaps[gap as usize] += 1;
    }

    /// What was counted so far; digests and pictures are the caller's to enter.
    pub fn summary(&self, provenance: &Provenance) -> Summary {
        let gaps = Gap::ALL.map(|g| (g.name().to_owned(), self.gaps[g as usize]));
        let stages = self.stages.iter().map(|s| {
            let [done, over_budget, late, skipped] = s.outcomes;
            let summary = StageSummary {
                duration: s.durations.percentiles(),
                count: done + over_budget + late,
                over_budget,
                late,
                skipped,
            };
            (s.name.to_owned(), summary)
        });
        Summary {
            frames: self.frames,
            gaps: Ordered(gaps.to_vec()),
            stages: Ordered(stages.collect()),
            frame: FrameSummary {
                duration: self.frame.percentiles(),
                late: self.frame_outcomes[Outcome::Late as usize],
                jitter: self.jitter.percentiles(),
            },
            provenance: provenance.clone(),
            ..Summary::default()
        }
    }
}
