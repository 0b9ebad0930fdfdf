//! What was measured, as JSON and as a table.
use std::fmt::Write as _;

use serde::Serialize;

use super::{
    machine::Facts,
    meter::{HandedOut, Meter, Times},
};
use crate::{
    config::Config,
    frame::{Gap, Outcome},
    frame_loop::{Publish, StageId},
    sink::summary::Ordered,
};

/// Quantiles of durations, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Durations measured.
    pub count: u64,
    /// Half of them took at most this.
    pub p50_us: f64,
    /// 90 %.
    pub p90_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// 99.99 %.
    pub p9999_us: f64,
    /// All of them; exact.
    pub max_us: f64,
}

impl Quantiles {
    /// Of these durations.
    pub fn of(times: &Times) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |q| us(times.quantile_ns(q));
        Self {
            count: times.count(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: us(times.max_ns()),
        }
    }

    fn all(&self) -> [f64; 6] {
        [
            self.p50_us,
            self.p90_us,
            self.p99_us,
            self.p999_us,
            self.p9999_us,
            self.max_us,
        ]
    }
}

/// How one stage did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stage {
    /// Of its runs.
    #[serde(flatten)]
    pub duration: Quantiles,
    /// What it may take.
    pub budget_us: u64,
    /// Runs over it.
    pub over_budget: u64,
    /// Runs that ended after the deadline: the results were thrown away.
    pub late: u64,
    /// Frames on which it was not run.
    pub skipped: u64,
}

/// Durations that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// The durations.
    #[serde(flatten)]
    pub duration: Quantiles,
    /// Differences of one and the next.
    pub jitter: Quantiles,
}

impl Course {
    fn of(course: &super::meter::Course) -> Self {
        Self {
            duration: Quantiles::of(&course.times),
            jitter: Quantiles::of(&course.jitter),
        }
    }
}

/// When results were handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Handing {
    /// From a frame's arrival until then.
    #[serde(flatten)]
    pub course: Course,
    /// Before the fixed latency; never.
    pub early: u64,
    /// Flagged as late.
    pub late: u64,
}

/// Frames that did not keep the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Misses {
    /// With a result that was complete after it.
    pub late: u64,
    /// Of these, those whose required stages were.
    pub required_late: u64,
    /// Without a result.
    pub without_result: u64,
}

/// How it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// What went through the loop.
    pub input: String,
    /// Frames a second.
    pub rate_hz: f64,
    /// Frames before the first that counts.
    pub warm_up: usize,
    /// Whether another load ran beside the loop on purpose.
    pub contend: bool,
    /// From a frame's arrival, us.
    pub deadline_us: u64,
    /// When results were handed out.
    pub publish: Publish,
    /// The fixed latency, us, where that is when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
}

impl Settings {
    /// Those that a configuration states; the others are the caller's to enter.
    pub fn of(config: &Config) -> Self {
        let l = &config.frame_loop;
        Self {
            deadline_us: l.deadline_ns() / 1000,
            publish: l.publish,
            latency_us: (l.publish == Publish::AtLatency).then_some(l.latency_us),
            ..Self::default()
        }
    }
}

/// With what it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Provenance {
    /// Of roadloop.
    pub version: String,
    /// `ROADLOOP_COMMIT`, or `unknown`.
    pub commit: String,
    /// `cpu` or `cuda`.
    pub backend: String,
    /// The GPU, where it computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Multiprocessors that the loop's work runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sms: Option<u32>,
    /// Of the configuration, 16 hexadecimal digits.
    pub config_hash: String,
    /// Whether the program is optimised.
    pub optimised: bool,
    /// The machine.
    pub machine: Facts,
}

/// What `roadloop bench latency` has measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// With what.
    pub provenance: Provenance,
    /// How.
    pub settings: Settings,
    /// Whether it was stopped before all frames had come.
    pub stopped: bool,
    /// What makes the figures doubtful; empty where nothing does.
    pub doubts: Vec<String>,
    /// Frames with a result.
    pub frames: u64,
    /// Those that did not keep the deadline.
    pub misses: Misses,
    /// Each gap, of frames with and without result.
    pub gaps: Ordered<u64>,
    /// In the order of the loop; those that ran or were skipped.
    pub stages: Ordered<Stage>,
    /// From a frame's arrival until its required stages were complete.
    pub required: Quantiles,
    /// From a frame's arrival until its result was complete.
    pub frame: Course,
    /// From a frame's arrival until its result was handed out.
    pub handed_out: Handing,
    /// How many took how long, us, by what is measured; see [`Report::histogram`].
    pub histograms: Ordered<Vec<(f64, u64)>>,
}

/// Durations in the histograms are told apart to this share.
const FINE: f64 = 0.02;

/// Neighbouring durations together, where they hardly differ.
fn histogram(times: &Times) -> Vec<(f64, u64)> {
    let mut out: Vec<(f64, u64)> = Vec::new();
    let mut first = 0.0;
    for (ns, n) in times.counts() {
        let us = ns as f64 / 1000.0;
        match out.last_mut() {
            Some((last, count)) if us <= first * (1.0 + FINE) => {
                *last = us;
                *count += n;
            }
            _ => {
                first = us;
                out.push((us, n));
            }
        }
    }
    out
}

/// The name of whole frames among the histograms.
pub const FRAME: &str = "frame";
/// That of the required stages.
pub const REQUIRED: &str = "required";
/// That of results handed out.
pub const HANDED_OUT: &str = "handed_out";

impl Report {
    /// What the sinks have measured.
    pub fn new(
        provenance: Provenance,
        settings: Settings,
        config: &Config,
        meter: &Meter,
        handed_out: &HandedOut,
    ) -> Self {
        let mut doubts = provenance.machine.doubts();
        if !provenance.optimised {
            doubts.push("the program is not optimised (build with --release)".into());
        }
        if provenance.gpu.is_some() {
            doubts.push("whether the GPU's clocks are locked is unknown".into());
        }
        if settings.contend {
            doubts.push("another load ran beside the loop, on purpose".into());
        }
        // The rank of the p99.99 must leave one above it.
        for (name, least) in [("p99.99", 10_000), ("p99.9", 1000), ("p99", 100)] {
            if meter.frames < least {
                doubts.push(format!(
                    "{name} of {} frames is the longest of them, expected {least} frames or more",
                    meter.frames
                ));
            }
        }
        let measured = || {
            let all = StageId::ORDER.into_iter().zip(&meter.stages);
            all.filter(|(_, s)| s.outcomes.iter().any(|&n| n > 0))
        };
        let stage = |(id, s): (StageId, &super::meter::StageTimes)| {
            let stage = Stage {
                duration: Quantiles::of(&s.times),
                budget_us: config.frame_loop.budget_us.ns(id) / 1000,
                over_budget: s.outcomes[Outcome::OverBudget as usize],
                late: s.outcomes[Outcome::Late as usize],
                skipped: s.outcomes[Outcome::Skipped as usize],
            };
            (id.name().to_owned(), stage)
        };
        let whole = [
            (REQUIRED, &meter.required),
            (FRAME, &meter.frame.times),
            (HANDED_OUT, &handed_out.course.times),
        ];
        let histograms = measured()
            .map(|(id, s)| (id.name(), &s.times))
            .chain(whole)
            .map(|(name, times)| (name.to_owned(), histogram(times)))
            .collect();
        let gaps = Gap::ALL.map(|g| (g.name().to_owned(), meter.gaps[g as usize]));
        Self {
            provenance,
            settings,
            stopped: false,
            doubts,
            frames: meter.frames,
            misses: Misses {
                late: meter.late,
                required_late: meter.required_late,
                without_result: meter.without,
            },
            gaps: Ordered(gaps.into()),
            stages: Ordered(measured().map(stage).collect()),
            required: Quantiles::of(&meter.required),
            frame: Course::of(&meter.frame),
            handed_out: Handing {
                course: Course::of(&handed_out.course),
                early: handed_out.early,
                late: handed_out.late,
            },
            histograms: Ordered(histograms),
        }
    }

    /// How many took how long: upper ends of buckets (us) and counts, shortest first.
    pub fn histogram(&self, name: &str) -> &[(f64, u64)] {
        self.histograms.get(name).map_or(&[], Vec::as_slice)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        // Numbers and strings alone: this can't fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The provenance, line by line.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let (p, s) = (&self.provenance, &self.settings);
        let m = &p.machine;
        let mut facts = vec![
            (
                "roadloop",
                format!(
                    "{}, commit {}, {}",
                    p.version,
                    p.commit,
                    if p.optimised {
                        "optimised"
                    } else {
                        "not optimised"
                    }
                ),
            ),
            ("backend", p.backend.clone()),
        ];
        if let Some(gpu) = &p.gpu {
            let sms = p.sms.map_or(String::new(), |n| format!(", {n} SMs used"));
            facts.push(("GPU", format!("{gpu}{sms}")));
        }
        let load = m.load.map_or(String::new(), |l| format!(", load {l:.2}"));
        facts.extend([
            (
                "processor",
                format!("{}, {} threads{load}", m.processor, m.processors),
            ),
            ("kernel", m.kernel.clone()),
            ("input", s.input.clone()),
            (
                "rate",
                format!("{} Hz, warm-up {} frames", s.rate_hz, s.warm_up),
            ),
            ("deadline", format!("{} us", s.deadline_us)),
            (
                "handed out",
                match s.latency_us {
                    Some(us) => format!("at a latency of {us} us"),
                    None => "when ready".into(),
                },
            ),
            ("configuration, hash", p.config_hash.clone()),
            ("unix time", m.unix_time.to_string()),
        ]);
        facts
    }

    /// As a table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        // To a string this can't fail, here and below.
        for (what, value) in self.facts() {
            let _ = writeln!(text, "# {what}: {value}");
        }
        for doubt in &self.doubts {
            let _ = writeln!(text, "# DOUBTFUL: {doubt}");
        }
        let _ = writeln!(
            text,
            "{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}{:>8}{:>8}",
            "us",
            "budget",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "p99.99",
            "max",
            "over",
            "late",
            "skipped"
        );
        let mut row = |name: &str, budget: Option<u64>, q: &Quantiles, counts: [Option<u64>; 3]| {
            let budget = budget.map_or("-".into(), |b| b.to_string());
            let _ = write!(text, "{name:<22}{budget:>10}");
            for us in q.all() {
                let _ = write!(text, "{us:>10.1}");
            }
            for n in counts {
                let n = n.map_or("-".into(), |n| n.to_string());
                let _ = write!(text, "{n:>8}");
            }
            text.push('\n');
        };
        for (name, s) in &self.stages.0 {
            let counts = [s.over_budget, s.late, s.skipped].map(Some);
            row(name, Some(s.budget_us), &s.duration, counts);
        }
        let deadline = Some(self.settings.deadline_us);
        let late = |n| [None, Some(n), None];
        row(
            "required stages",
            deadline,
            &self.required,
            late(self.misses.required_late),
        );
        let frame = &self.frame;
        row("frame", deadline, &frame.duration, late(self.misses.late));
        row("frame, jitter", None, &frame.jitter, [None; 3]);
        let out = &self.handed_out;
        row(
            "handed out",
            self.settings.latency_us,
            &out.course.duration,
            late(out.late),
        );
        row("handed out, jitter", None, &out.course.jitter, [None; 3]);
        let _ = writeln!(
            text,
            "frames: {}, without result: {}, late: {}",
            self.frames, self.misses.without_result, self.misses.late
        );
        for (name, n) in self.gaps.0.iter().filter(|(_, n)| *n > 0) {
            let _ = writeln!(text, "gap {name}: {n}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn histograms_keep_all_and_their_order(
            all in prop::collection::vec(1u64..5_000_000_000, 0..300)
        ) {
            let mut times = Times::default();
            all.iter().for_each(|&ns| times.record(ns));
            let buckets = histogram(&times);
            prop_assert_eq!(buckets.iter().map(|b| b.1).sum::<u64>(), all.len() as u64);
            prop_assert!(buckets.is_sorted_by(|a, b| a.0 < b.0));
            if let (Some(last), Some(max)) = (buckets.last(), all.iter().max()) {
                prop_assert_eq!(last.0, *max as f64 / 1000.0);
            }
        }
    }

    #[test]
    fn few_frames_are_a_doubt() {
        let meter = Meter::new(0, 1000);
        let report = Report::new(
            Provenance::default(),
            Settings::default(),
            &Config::default(),
            &meter,
            &HandedOut::default(),
        );
        let text = report.table();
        for doubt in [
            "p99.99 of 0 frames is the longest",
            "not optimised",
            "clocks are locked is unknown",
        ] {
            assert!(text.contains(doubt), "no {doubt:?} in\n{text}");
        }
    }
}
