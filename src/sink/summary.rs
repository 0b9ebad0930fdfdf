//! `summary.json`: counts, percentiles, digests and where they come from.
use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File, OpenOptions},
    io::Write as _,
    marker::PhantomData,
    path::Path,
};

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{SinkError, digest::Digests};
use crate::frame::{
    ForegroundState, FrameResult, Gap, GapSet, LabelState, MAX_STAGES, MotionState, Outcome, Timing,
};

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
    /// The drive as it was named, and the places of its frames where only a part was replayed.
    #[serde(default)]
    pub drive: String,
    /// `max` or `realtime`.
    #[serde(default)]
    pub pace: String,
    /// What each stage may take, and under `frame` what a frame may, us.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub budgets_us: BTreeMap<String, u64>,
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
    /// For each state of motion the number of frames in it, where it is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub motion: Option<Ordered<u64>>,
    /// For each state of the foreground the number of frames in it, where it is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreground: Option<Ordered<u64>>,
    /// For each state of the labels the number of frames in it, where they are computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Ordered<u64>>,
    /// Whether the replay was stopped before the end of its drive: then the digest is that of a
    /// part.
    #[serde(default)]
    pub interrupted: bool,
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
    // A pipe or device is written into, never replaced; a link stays one.
    if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(SinkError::io(path));
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let path = target.as_path();
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
    motion: Option<[u64; MotionState::ALL.len()]>,
    foreground: Option<[u64; ForegroundState::ALL.len()]>,
    labels: Option<[u64; LabelState::ALL.len()]>,
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
            motion: None,
            foreground: None,
            labels: None,
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

    /// Counts in which states of motion, foreground and labels a frame is.
    pub fn states(&mut self, result: &FrameResult) {
        if let Some(motion) = &result.motion {
            self.motion.get_or_insert_default()[motion.state as usize] += 1;
        }
        if let Some(foreground) = &result.foreground {
            self.foreground.get_or_insert_default()[foreground.state as usize] += 1;
        }
        if let Some(labels) = &result.labels {
            self.labels.get_or_insert_default()[labels.state as usize] += 1;
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
            motion: self
                .motion
                .map(|counts| named(MotionState::ALL.map(MotionState::name), counts)),
            foreground: self
                .foreground
                .map(|counts| named(ForegroundState::ALL.map(ForegroundState::name), counts)),
            labels: self
                .labels
                .map(|counts| named(LabelState::ALL.map(LabelState::name), counts)),
            provenance: provenance.clone(),
            ..Summary::default()
        }
    }
}

fn named<const N: usize>(names: [&str; N], counts: [u64; N]) -> Ordered<u64> {
    Ordered(names.map(str::to_owned).into_iter().zip(counts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::StageTiming;

    fn timing(duration_ns: u64, stage: StageTiming) -> Timing {
        let mut timing = Timing {
            duration_ns,
            ..Timing::default()
        };
        timing.stages.push(stage).unwrap();
        timing
    }

    const STEREO: StageTiming = StageTiming {
        stage: "stereo",
        start_ns: 0,
        duration_ns: 0,
        outcome: Outcome::Done,
    };

    #[test]
    fn keys_and_values() {
        let mut statistics = Statistics::new();
        let mut gaps = GapSet::EMPTY;
        gaps.insert(Gap::RoadHeld);
        for i in 1..=1000 {
            let duration_ns = i * 1000;
            let outcome = match i {
                1000 => Outcome::OverBudget,
                _ => Outcome::Done,
            };
            let stage = StageTiming {
                duration_ns,
                outcome,
                ..STEREO
            };
            let gaps = if i == 5 { gaps } else { GapSet::EMPTY };
            statistics.frame(&timing(2 * duration_ns, stage), gaps);
        }
        let skipped = StageTiming {
            outcome: Outcome::Skipped,
            ..STEREO
        };
        statistics.frame(&timing(2_000_000, skipped), GapSet::EMPTY);
        statistics.gap(Gap::Missing);
        let mut summary = statistics.summary(&Provenance {
            backend: "cpu".into(),
            preset: "paper".into(),
            version: "1.2.3".into(),
            config_hash: "00".into(),
            calib_hash: "11".into(),
            drive: "d".into(),
            pace: "max".into(),
            ..Provenance::default()
        });
        let mut digest = super::super::digest::Digest::new();
        digest
            .disparity(&crate::frame::Image::filled(1, 1, 0))
            .unwrap();
        summary.set_digests(&digest.digests());

        let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "frames",
                "digest",
                "digests",
                "gaps",
                "stages",
                "frame",
                "interrupted",
                "pictures",
                "backend",
                "preset",
                "version",
                "config_hash",
                "calib_hash",
                "drive",
                "pace"
            ]
        );
        assert_eq!(json["frames"], 1001);
        assert_eq!(json["digest"].as_str().unwrap().len(), 16);
        assert_eq!(json["digests"].as_object().unwrap().len(), 1);
        assert_eq!(json["digests"]["disparity"].as_str().unwrap().len(), 16);
        assert_eq!(json["gaps"].as_object().unwrap().len(), Gap::ALL.len());
        assert_eq!(json["gaps"]["missing"], 1);
        assert_eq!(json["gaps"]["road_held"], 1);
        assert_eq!(json["gaps"]["late"], 0);
        let stereo = &json["stages"]["stereo"];
        // Three significant digits; the maximum is exact.
        assert_eq!(stereo["p50_us"], 500.223);
        assert_eq!(stereo["p99_us"], 990.207);
        assert_eq!(stereo["p999_us"], 999.423);
        assert_eq!(stereo["max_us"], 1000.0);
        assert_eq!(stereo["count"], 1000);
        assert_eq!(stereo["over_budget"], 1);
        assert_eq!(stereo["skipped"], 1);
        assert_eq!(json["frame"]["max_us"], 2000.0);
        assert_eq!(json["frame"]["jitter"]["p50_us"], 2.0);
        assert_eq!(json["backend"], "cpu");
        assert_eq!(json["preset"], "paper");
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
    }

    #[test]
    fn no_frames_and_very_long_ones() {
        let mut statistics = Statistics::new();
        let summary = statistics.summary(&Provenance::default());
        assert_eq!(summary.frame, FrameSummary::default());
        let stage = StageTiming {
            duration_ns: u64::MAX,
            ..STEREO
        };
        statistics.frame(&timing(u64::MAX, stage), GapSet::EMPTY);
        let summary = statistics.summary(&Provenance::default());
        assert_eq!(summary.frame.duration.max_us, u64::MAX as f64 / 1000.0);
        assert!(summary.frame.duration.p50_us >= 60e6);
    }

    #[test]
    fn more_stages_than_there_is_room_for() {
        const NAMES: [&str; MAX_STAGES + 1] = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q",
        ];
        let mut statistics = Statistics::new();
        for stage in NAMES {
            statistics.frame(&timing(1, StageTiming { stage, ..STEREO }), GapSet::EMPTY);
        }
        let summary = statistics.summary(&Provenance::default());
        assert_eq!(summary.stages.0.len(), MAX_STAGES);
        assert_eq!(summary.frames, MAX_STAGES as u64 + 1);
    }

    #[test]
    fn written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.json");
        Summary::default().write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, Summary::default().to_json());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let path = folder.path().join("none").join("summary.json");
        let error = Summary::default().write(&path).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
}
