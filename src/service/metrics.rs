//! What the loop has done as a text file for Prometheus (node_exporter's textfile collector).
use std::{fmt::Write as _, fs, io, path::Path};

use super::Report;
use crate::{
    frame::{CameraState, Gap, Outcome, Timestamp},
    frame_loop::StageId,
    sink::{
        at_latency::Punctuality,
        counters::{BUCKETS_US, Counters, Durations},
        recorder::RecordStatus,
        socket::Traffic,
    },
    source::cameras::{Status, Which},
};

/// The text of the file.
pub fn text(
    counters: &Counters,
    traffic: Option<&Traffic>,
    punctuality: Option<&Punctuality>,
    recording: Option<&RecordStatus>,
    report: &Report,
) -> String {
    let mut t = Text(String::with_capacity(16 * 1024));
    let version = env!("CARGO_PKG_VERSION");
    t.head("roadloop_info", "gauge", "Version.");
    t.value("roadloop_info", &format!("version=\"{version}\""), 1);
    t.head("roadloop_frames_total", "counter", "Frames with a result.");
    t.value("roadloop_frames_total", "", counters.frames());
    t.head("roadloop_gaps_total", "counter", "Gaps by name.");
    for gap in Gap::ALL {
        t.value(
            "roadloop_gaps_total",
            &format!("gap=\"{gap}\""),
            counters.gap(gap),
        );
    }
    let name = "roadloop_latency_seconds";
    t.head(
        name,
        "histogram",
        "From a frame's time stamp to its result.",
    );
    t.durations(name, "", &counters.latency);
    let name = "roadloop_jitter_seconds";
    t.head(name, "histogram", "Difference of one latency and the next.");
    t.durations(name, "", &counters.jitter);
    if let Some(p) = punctuality {
        let name = "roadloop_handed_out_seconds";
        let help = "From a frame's time stamp until its result went to the socket.";
        t.head(name, "histogram", help);
        t.durations(name, "", &p.latency);
        let name = "roadloop_handed_out_jitter_seconds";
        t.head(
            name,
            "histogram",
            "Difference of one of these and the next.",
        );
        t.durations(name, "", &p.jitter);
        for (name, help, value) in [
            ("late", "Results that went there late, flagged.", p.late()),
            ("lost", "Results that there was no room for.", p.lost()),
        ] {
            let name = format!("roadloop_handed_out_{name}_total");
            t.head(&name, "counter", help);
            t.value(&name, "", value);
        }
    }
    let name = "roadloop_stage_seconds";
    t.head(name, "histogram", "Durations of the stages.");
    let ran = || {
        let all = StageId::ORDER.map(|stage| (stage, counters.stage(stage)));
        all.into_iter().filter(|(_, c)| {
            let skipped = c.outcome(Outcome::Skipped);
            c.durations.count() + skipped > 0
        })
    };
    for (stage, c) in ran() {
        t.durations(name, &format!("stage=\"{stage}\""), &c.durations);
    }
    let name = "roadloop_stage_outcomes_total";
    t.head(name, "counter", "How the stages ended.");
    for (stage, c) in ran() {
        for outcome in [
            Outcome::Done,
            Outcome::OverBudget,
            Outcome::Late,
            Outcome::Skipped,
        ] {
            let labels = format!("stage=\"{stage}\",outcome=\"{}\"", outcome.name());
            t.value(name, &labels, c.outcome(outcome));
        }
    }
    let name = "roadloop_camera_state";
    t.head(name, "gauge", "1 for the state that a camera is in.");
    for (camera, state) in report.cameras.iter() {
        for s in CameraState::ALL {
            let labels = format!("camera=\"{camera}\",state=\"{}\"", s.name());
            t.value(name, &labels, u8::from(s == state));
        }
    }
    if let Some(capture) = &report.capture {
        t.cameras(capture, report.now);
    }
    if let Some(traffic) = traffic {
        for (name, kind, help, value) in [
            (
                "readers",
                "gauge",
                "Readers of the socket.",
                traffic.readers(),
            ),
            ("sent_total", "counter", "Messages sent.", traffic.sent()),
            (
                "dropped_total",
                "counter",
                "Messages that a slow reader did not get.",
                traffic.dropped(),
            ),
        ] {
            let name = format!("roadloop_socket_{name}");
            t.head(&name, kind, help);
            t.value(&name, "", value);
        }
    }
    if let Some(recording) = recording {
        let stopped = u64::from(recording.stopped.is_some());
        for (name, kind, help, value) in [
            (
                "frames_total",
                "counter",
                "Frames recorded.",
                recording.frames,
            ),
            (
                "dropped_total",
                "counter",
                "Frames that are not in the recording.",
                recording.dropped,
            ),
            (
                "files_total",
                "counter",
                "Files begun.",
                recording.files.into(),
            ),
            ("bytes_total", "counter", "Bytes written.", recording.bytes),
            ("stopped", "gauge", "1 where it ended by itself.", stopped),
        ] {
            let name = format!("roadloop_recording_{name}");
            t.head(&name, kind, help);
            t.value(&name, "", value);
        }
    }
    let name = "roadloop_page_faults_total";
    t.head(name, "counter", "Page faults of the process.");
    t.value(name, "kind=\"minor\"", report.faults.minor);
    t.value(name, "kind=\"major\"", report.faults.major);
    if let Some(per) = report.faults_per_1000() {
        let name = "roadloop_page_faults_per_1000_frames";
        t.head(name, "gauge", "Page faults since the first result.");
        for (kind, n) in ["minor", "major"].into_iter().zip(per) {
            t.value(name, &format!("kind=\"{kind}\""), n);
        }
    }
    let h = &report.health;
    let degrees = h.temperature_mdeg.map(|t| f64::from(t) / 1000.0);
    t.health("temperature_celsius", "gauge", "Hottest zone.", degrees);
    let hz = |khz: Option<u32>| khz.map(|k| f64::from(k) * 1000.0);
    t.health("cpu_hertz", "gauge", "Fastest core's clock.", hz(h.cpu_khz));
    t.health("gpu_hertz", "gauge", "The GPU's clock.", hz(h.gpu_khz));
    let throttled = h.throttled.map(|on| f64::from(u8::from(on)));
    t.health("throttled", "gauge", "Clocks are held back.", throttled);
    let count = |n: Option<u32>| n.map(f64::from);
    t.health(
        "throttle_events_total",
        "counter",
        "Throttled by heat.",
        count(h.throttle_events),
    );
    t.health(
        "over_current_events_total",
        "counter",
        "Supply current too high.",
        count(h.over_current_events),
    );
    t.0
}

/// Puts the text in the file's place in one step: a reader sees all of it or the one before.
/// Nothing is synced to disk: after a power cut it is of no use.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Collectors take *.prom.
    let part = path.with_extension("part");
    fs::write(&part, text)?;
    fs::rename(&part, path)
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // To a string this can't fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    fn health(&mut self, name: &str, kind: &str, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            let name = format!("roadloop_device_{name}");
            self.head(&name, kind, help);
            self.value(&name, "", value);
        }
    }

    /// What came of the cameras' frames.
    fn cameras(&mut self, capture: &Status, now: Timestamp) {
        let label = |which: Which| format!("camera=\"{which}\"");
        let name = "roadloop_camera_frames_total";
        self.head(name, "counter", "Whole frames of a camera.");
        for (which, camera) in capture.iter() {
            self.value(name, &label(which), camera.frames);
        }
        let name = "roadloop_camera_lost_frames_total";
        let help = "Frames of a camera that came to no result, by cause.";
        self.head(name, "counter", help);
        for (which, camera) in capture.iter() {
            for (cause, n) in camera.lost() {
                self.value(name, &format!("{},cause=\"{cause}\"", label(which)), n);
            }
        }
        let name = "roadloop_camera_events_total";
        let help = "What happened to a camera; opens count the first one, too.";
        self.head(name, "counter", help);
        for (which, camera) in capture.iter() {
            for (event, n) in camera.events() {
                self.value(name, &format!("{},event=\"{event}\"", label(which)), n);
            }
        }
        let name = "roadloop_camera_last_error_age_seconds";
        self.head(
            name,
            "gauge",
            "Since something last went wrong with a camera.",
        );
        for (which, camera) in capture.iter() {
            if let Some(ns) = camera.error_age_ns(now) {
                self.value(name, &label(which), ns as f64 / 1e9);
            }
        }
        let name = "roadloop_camera_frame_sets_total";
        let help = "What the cameras' frames came to: sets that are whole or lack a camera, gaps.";
        self.head(name, "counter", help);
        for (kind, n) in capture.pairs.counts() {
            self.value(name, &format!("kind=\"{kind}\""), n);
        }
    }

    fn durations(&mut self, name: &str, labels: &str, durations: &Durations) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut all = 0;
        let ends = BUCKETS_US.map(|us| (us as f64 / 1e6).to_string());
        let ends = ends.iter().map(String::as_str).chain(["+Inf"]);
        let bucket = format!("{name}_bucket");
        for (n, end) in durations.buckets().iter().zip(ends) {
            all += n;
            self.value(&bucket, &format!("{labels}{comma}le=\"{end}\""), all);
        }
        let seconds = durations.sum_ns() as f64 / 1e9;
        self.value(&format!("{name}_sum"), labels, seconds);
        self.value(&format!("{name}_count"), labels, all);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        frame::{CameraStates, FrameId, FrameResult, Health, StageTiming},
        realtime::PageFaults,
        source::cameras::{CameraStatus, PairStatus},
    };

    /// A left camera that has had its troubles, and a mono camera that has not.
    pub(in crate::service) fn troubled() -> Status {
        let calm = CameraStatus {
            frames: 100,
            opens: 1,
            ..CameraStatus::new(33_333_333)
        };
        let left = CameraStatus {
            dropped: 4,
            missed: 3,
            restarts: 1,
            opens: 2,
            last_error: Some(Timestamp(7_500_000_000)),
            ..calm
        };
        Status {
            cameras: [Some(left), None, Some(calm)],
            pairs: PairStatus {
                whole: 90,
                degraded: 5,
                without_mono: 2,
                gaps: 3,
            },
        }
    }

    fn counted() -> Counters {
        let counters = Counters::default();
        let mut result = FrameResult::default();
        result.timing.duration_ns = 15_000_000;
        let stage = StageTiming {
            stage: "stereo",
            start_ns: 0,
            duration_ns: 9_000_000,
            outcome: Outcome::OverBudget,
        };
        result.timing.stages.push(stage).unwrap();
        counters.count(&result);
        counters.count_gap(FrameId::default(), Gap::Dropped);
        counters
    }

    #[test]
    fn what_was_counted_stands_in_the_text() {
        let report = Report {
            health: Health {
                temperature_mdeg: Some(51_250),
                gpu_khz: Some(918_000),
                ..Health::default()
            },
            cameras: CameraStates {
                left: Some(CameraState::Stalled),
                ..CameraStates::default()
            },
            capture: Some(troubled()),
            now: Timestamp(10_000_000_000),
            faults_ready: Some(PageFaults { minor: 5, major: 0 }),
            frames_ready: 2000,
            ..Report::default()
        };
        let punctuality = Punctuality::default();
        punctuality.note(50_100_000);
        punctuality.note(50_000_000);
        let text = text(
            &counted(),
            Some(&Traffic::default()),
            Some(&punctuality),
            None,
            &report,
        );
        for line in [
            "roadloop_frames_total 1",
            "roadloop_gaps_total{gap=\"dropped\"} 1",
            "roadloop_gaps_total{gap=\"late\"} 0",
            "roadloop_latency_seconds_bucket{le=\"0.01\"} 0",
            "roadloop_latency_seconds_bucket{le=\"0.02\"} 1",
            "roadloop_latency_seconds_bucket{le=\"+Inf\"} 1",
            "roadloop_latency_seconds_sum 0.015",
            "roadloop_latency_seconds_count 1",
            "roadloop_jitter_seconds_count 0",
            "roadloop_stage_seconds_bucket{stage=\"stereo\",le=\"0.01\"} 1",
            "roadloop_stage_outcomes_total{stage=\"stereo\",outcome=\"over_budget\"} 1",
            "roadloop_camera_state{camera=\"left\",state=\"stalled\"} 1",
            "roadloop_camera_state{camera=\"left\",state=\"streaming\"} 0",
            "roadloop_camera_frames_total{camera=\"left\"} 100",
            "roadloop_camera_lost_frames_total{camera=\"left\",cause=\"missed\"} 3",
            "roadloop_camera_lost_frames_total{camera=\"left\",cause=\"dropped\"} 4",
            "roadloop_camera_lost_frames_total{camera=\"mono\",cause=\"dropped\"} 0",
            "roadloop_camera_events_total{camera=\"left\",event=\"restarts\"} 1",
            "roadloop_camera_last_error_age_seconds{camera=\"left\"} 2.5",
            "roadloop_camera_frame_sets_total{kind=\"without_stereo\"} 5",
            "roadloop_socket_readers 0",
            "roadloop_handed_out_seconds_sum 0.1001",
            "roadloop_handed_out_jitter_seconds_bucket{le=\"0.0001\"} 1",
            "roadloop_handed_out_late_total 0",
            "roadloop_page_faults_per_1000_frames{kind=\"minor\"} 2.5",
            "roadloop_device_temperature_celsius 51.25",
            "roadloop_device_gpu_hertz 918000000",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line:?} in\n{text}");
        }
        // What the device does not tell is not made up.
        assert!(!text.contains("over_current"));
        assert!(!text.contains("age_seconds{camera=\"mono\"}"));
        assert!(!text.contains("camera=\"right\",cause"));
    }

    #[test]
    fn each_name_has_its_head_once_and_before_its_values() {
        let text = text(
            &counted(),
            None,
            Some(&Punctuality::default()),
            None,
            &Report {
                capture: Some(troubled()),
                ..Report::default()
            },
        );
        let mut seen = std::collections::HashSet::new();
        let mut current = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                current = rest.split(' ').next().unwrap().into();
                assert!(seen.insert(current.clone()), "{current} twice");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(&current), "{line} under {current}");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn the_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roadloop.prom");
        replace(&path, "one\n").unwrap();
        replace(&path, "two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
