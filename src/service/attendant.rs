//! The thread beside the loop: log, state, metrics, health. It may take its time; the loop never
//! waits for it.
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use super::{Asked, Device, Lifeline, Notifier, Throttle, metrics};
use crate::{
    frame::{CameraStates, Gap, Health, Timestamp},
    frame_loop::{Clock, Doing, Monitor, Sight},
    realtime::{PageFaults, page_faults},
    sink::{at_latency::Punctuality, counters::Counters, recorder::RecordMonitor, socket::Traffic},
    source::cameras::{self, Which},
};

/// From one look at the loop to the next.
const LOOK: Duration = Duration::from_millis(100);

/// From one report to the next, ns.
const REPORT_NS: u64 = 1_000_000_000;

/// How long anything in the loop may take before it is said aloud, where no watchdog says how
/// long, ns.
const LONG_NS: u64 = 2_000_000_000;

/// What the attendant looks at.
pub struct Watched<'a, C> {
    /// Where the loop is; takes up how the device is.
    pub monitor: &'a Monitor,
    /// What the loop has done.
    pub counters: &'a Counters,
    /// Whether it lives.
    pub lifeline: &'a Lifeline<'a, C>,
    /// Who reads the results.
    pub traffic: Option<&'a Traffic>,
    /// How punctual they get them.
    pub punctuality: Option<&'a Punctuality>,
    /// How capture is doing, where there are cameras.
    pub capture: Option<&'a cameras::Monitor>,
    /// How the recording stands, where there is one.
    pub recording: Option<&'a RecordMonitor>,
    /// What signals have asked for.
    pub asked: &'a Asked,
}

/// A report's numbers, all of one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Results a second since the last report.
    pub rate_hz: f64,
    /// How the device is.
    pub health: Health,
    /// What the cameras do.
    pub cameras: CameraStates,
    /// What came of their frames, where there are cameras.
    pub capture: Option<cameras::Status>,
    /// When this was.
    pub now: Timestamp,
    /// Of the whole process.
    pub faults: PageFaults,
    /// Of the whole process since it was ready.
    pub faults_ready: Option<PageFaults>,
    /// Results since it was ready.
    pub frames_ready: u64,
}

impl Report {
    /// Page faults a thousand frames since the loop was ready.
    pub fn faults_per_1000(&self) -> Option<[f64; 2]> {
        let faults = self.faults_ready.filter(|_| self.frames_ready > 0)?;
        let per = |n: u64| n as f64 * 1000.0 / self.frames_ready as f64;
        Some([per(faults.minor), per(faults.major)])
    }

    /// What each camera does, and what went wrong with it so far, each after a comma.
    pub fn cameras_in_words(&self) -> String {
        let mut text = String::new();
        for (name, state) in self.cameras.iter() {
            text += &format!(", {name} {}", state.name());
            let which = Which::ALL.into_iter().find(|w| w.name() == name);
            let status = self.capture.as_ref().zip(which);
            let status = status.and_then(|(capture, which)| capture.of(which));
            let troubles = status.map(|s| s.troubles(self.now)).unwrap_or_default();
            if !troubles.is_empty() {
                text += &format!(" ({troubles})");
            }
        }
        text
    }
}

/// See the module.
pub struct Attendant<'a, C> {
    watched: Watched<'a, C>,
    notifier: &'a Notifier,
    clock: &'a C,
    device: Device,
    metrics: Option<PathBuf>,
    metrics_failed: Throttle,
    told_hang: Option<Sight>,
    seen_gaps: [u64; Gap::ALL.len()],
    gaps: [Throttle; Gap::ALL.len()],
    cameras: CameraStates,
    last_report: Option<(Timestamp, u64)>,
    /// Faults and results when it was ready, and when that was.
    at_ready: Option<(PageFaults, u64, Timestamp)>,
    was_throttled: bool,
}

impl<'a, C: Clock> Attendant<'a, C> {
    /// Writes `metrics`, where there is a path, and tells `notifier`.
    pub fn new(
        watched: Watched<'a, C>,
        notifier: &'a Notifier,
        clock: &'a C,
        device: Device,
        metrics: Option<PathBuf>,
    ) -> Self {
        Self {
            watched,
            notifier,
            clock,
            device,
            metrics,
            metrics_failed: Throttle::default(),
            told_hang: None,
            seen_gaps: [0; Gap::ALL.len()],
            gaps: [Throttle::default(); Gap::ALL.len()],
            cameras: CameraStates::default(),
            last_report: None,
            at_ready: None,
            was_throttled: false,
        }
    }

    /// Looks and reports until `ended`; then once more.
    pub fn run(mut self, ended: &AtomicBool) {
        while !ended.load(Relaxed) {
            self.turn();
            thread::park_timeout(LOOK);
        }
        let mut report = self.report(self.clock.now());
        // Of all the time: since the last report only a few frames have come.
        if let Some((_, before, since)) = self.at_ready {
            report.rate_hz = rate_hz(self.watched.counters.frames() - before, report.now, since);
        }
        log::info!("ends after {}", self.state(&report));
    }

    /// One look, and a report where it is time for one.
    pub fn turn(&mut self) {
        let now = self.clock.now();
        self.look(now);
        if self.at_ready.is_none() && self.watched.lifeline.is_ready() {
            let faults = page_faults(None).unwrap_or_default();
            self.at_ready = Some((faults, self.watched.counters.frames(), now));
            log::info!("ready: the first result is out");
        }
        let due = |&(last, _): &(Timestamp, u64)| now.since(last) >= REPORT_NS;
        let asked = self.watched.asked.state.swap(false, Relaxed);
        if self.last_report.as_ref().is_none_or(due) || asked {
            let report = self.report(now);
            self.notifier
                .tell(&format!("STATUS={}", self.state(&report)));
            if asked {
                log::info!("{}", self.state(&report));
            }
        }
    }

    /// Says when something in the loop takes too long, once.
    fn look(&mut self, now: Timestamp) {
        let sight = self.watched.monitor.probe.look();
        let bound = self.notifier.watchdog().map(|w| w.as_nanos() as u64 / 2);
        let held = now.since(sight.since);
        if sight.doing != Doing::Starting
            && held > bound.unwrap_or(LONG_NS)
            && self.told_hang != Some(sight)
        {
            self.told_hang = Some(sight);
            log::error!(
                "{} of frame {} has not ended for {} ms",
                sight.doing,
                sight.frame,
                held / 1_000_000
            );
        }
    }

    fn report(&mut self, now: Timestamp) -> Report {
        let frames = self.watched.counters.frames();
        let (last, before) = self.last_report.replace((now, frames)).unwrap_or((now, 0));
        let health = self.device.health();
        self.watched.monitor.health.set(&health);
        let faults = page_faults(None).unwrap_or_default();
        let report = Report {
            rate_hz: rate_hz(frames - before, now, last),
            health,
            cameras: self.watched.lifeline.cameras(),
            capture: self.watched.capture.map(cameras::Monitor::status),
            now,
            faults,
            faults_ready: self.at_ready.map(|(then, ..)| PageFaults {
                minor: faults.minor.saturating_sub(then.minor),
                major: faults.major.saturating_sub(then.major),
            }),
            frames_ready: self.at_ready.map_or(0, |(_, then, _)| frames - then),
        };
        self.tell_gaps(now);
        self.tell_changes(&report);
        self.write_metrics(&report, now);
        report
    }

    fn tell_gaps(&mut self, now: Timestamp) {
        let counters = self.watched.counters;
        for gap in Gap::ALL {
            let (all, at) = (counters.gap(gap), gap as usize);
            let new = all - std::mem::replace(&mut self.seen_gaps[at], all);
            let Some(n) = self.gaps[at].note(new, now) else {
                continue;
            };
            let level = match gap {
                Gap::CameraLost => log::Level::Error,
                // What a stage says about its certainty.
                Gap::RoadHeld | Gap::StixelOverflow => log::Level::Debug,
                _ => log::Level::Warn,
            };
            let (last, _) = counters.last();
            log::log!(level, "{gap}: {n} more, {all} in all, up to frame {last}");
        }
    }

    fn tell_changes(&mut self, report: &Report) {
        let before = std::mem::replace(&mut self.cameras, report.cameras);
        for (name, state) in report.cameras.iter() {
            if !before.iter().any(|b| b == (name, state)) {
                log::info!("{name} camera: {}", state.name());
            }
        }
        let throttled = report.health.throttled == Some(true);
        if throttled != self.was_throttled {
            self.was_throttled = throttled;
            if throttled {
                log::warn!("the device holds clocks back (heat or current)");
            } else {
                log::info!("the device no longer holds clocks back");
            }
        }
    }

    fn write_metrics(&mut self, report: &Report, now: Timestamp) {
        let Some(path) = &self.metrics else {
            return;
        };
        let text = metrics::text(
            self.watched.counters,
            self.watched.traffic,
            self.watched.punctuality,
            self.watched.recording.map(RecordMonitor::status).as_ref(),
            report,
        );
        if let Err(e) = metrics::replace(path, &text)
            && let Some(n) = self.metrics_failed.note(1, now)
        {
            log::warn!("metrics: {}: {e} ({n} times)", path.display());
        }
    }

    /// How things are, in one line.
    fn state(&self, report: &Report) -> String {
        let counters = self.watched.counters;
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut text = format!(
            "{} frames, {:.1} Hz, latency p50 {:.1} p99 {:.1} max {:.1} ms, jitter p99 {:.1} ms",
            counters.frames(),
            report.rate_hz,
            ms(counters.latency.estimate_ns(0.5)),
            ms(counters.latency.estimate_ns(0.99)),
            ms(counters.latency.max_ns()),
            ms(counters.jitter.estimate_ns(0.99)),
        );
        for gap in Gap::ALL {
            match counters.gap(gap) {
                0 => {}
                n => text += &format!(", {gap} {n}"),
            }
        }
        text += &report.cameras_in_words();
        if let Some([minor, major]) = report.faults_per_1000() {
            text += &format!(", page faults a 1000 frames: {minor:.0} minor, {major:.0} major");
        }
        if let Some(mdeg) = report.health.temperature_mdeg {
            text += &format!(", {} C", mdeg / 1000);
        }
        text
    }
}

/// So many frames from `since` to `now`, a second.
fn rate_hz(frames: u64, now: Timestamp, since: Timestamp) -> f64 {
    match now.since(since) {
        0 => 0.0,
        ns => frames as f64 * 1e9 / ns as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frame::CameraState, service::metrics::tests::troubled};

    #[test]
    fn a_rate_is_that_of_the_whole_time() {
        let at = Timestamp;
        assert_eq!(rate_hz(30, at(3_000_000_000), at(1_000_000_000)), 15.0);
        assert_eq!(rate_hz(30, at(7), at(7)), 0.0);
    }

    #[test]
    fn the_status_line_says_what_went_wrong_with_a_camera() {
        let mut report = Report {
            cameras: CameraStates {
                left: Some(CameraState::Stalled),
                right: None,
                mono: Some(CameraState::Streaming),
            },
            now: Timestamp(10_000_000_000),
            ..Report::default()
        };
        // Drawn cameras have no counts.
        assert_eq!(report.cameras_in_words(), ", left stalled, mono streaming");
        report.capture = Some(troubled());
        assert_eq!(
            report.cameras_in_words(),
            ", left stalled (dropped 4, missed 3, restarts 1, opens 2, last error 2 s ago), \
             mono streaming"
        );
    }
}
