//! What to do about a camera that fails: a ladder, under whatever clock it is told.
//!
//! ```text
//! closed ──open──▶ streaming ──stall or error──▶ STREAMOFF, STREAMON ──again──▶ close
//!   ▲                  │ device gone                                              │
//!   └──────────────────┴───────────────◀── rest, doubling up to a bound ◀─────────┘
//! ```
//! A camera that has delivered [`HEALTHY`] frames since is as good as new: the next stall begins
//! at the first rung, and the rest between attempts is the shortest again.
use crate::frame::Timestamp;

use super::CamerasConfig;

/// Frames after which a camera's past is forgotten.
pub const HEALTHY: u32 = 30;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open the device, set everything, start.
    Open,
    /// Wait for a frame until this instant, no longer.
    Wait(Timestamp),
    /// Stop streaming and start it again.
    Restart,
    /// Close the device.
    Close,
    /// Nothing until this instant.
    Rest(Timestamp),
}

/// What a camera does, as far as its ladder goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To be opened at this instant.
    Closed(Timestamp),
    /// No frame since this start.
    Starting(Timestamp),
    /// The last frame came at this instant.
    Running(Timestamp),
    /// Streaming is to be started anew.
    Broken,
    /// The device is to be closed.
    Dead,
}

/// The ladder of one camera.
#[derive(Clone, Debug)]
pub struct Recovery {
    phase: Phase,
    /// Silence that counts as a stall, ns.
    stall_ns: u64,
    stall_periods: u64,
    start_ns: u64,
    retry_ns: u64,
    retry_max_ns: u64,
    /// The next rest, ns.
    rest_ns: u64,
    /// Whether the first rung has been tried since the camera was last healthy.
    restarted: bool,
    /// Frames since the last start.
    frames: u32,
    /// Whether there was trouble since the camera was last healthy.
    troubled: bool,
}

impl Recovery {
    /// A camera that is to be opened at once.
    pub fn new(config: &CamerasConfig) -> Self {
        let ms = |ms: u64| ms.saturating_mul(1_000_000);
        Self {
            phase: Phase::Closed(Timestamp(0)),
            stall_ns: config
                .period_ns()
                .saturating_mul(config.stall_periods.into()),
            stall_periods: config.stall_periods.into(),
            start_ns: ms(config.start_timeout_ms),
            retry_ns: ms(config.retry_ms),
            retry_max_ns: ms(config.retry_max_ms),
            rest_ns: ms(config.retry_ms),
            restarted: false,
            frames: 0,
            troubled: false,
        }
    }

    /// The camera's own period, when it becomes known.
    pub fn set_period(&mut self, period_ns: u64) {
        self.stall_ns = period_ns.saturating_mul(self.stall_periods);
    }

    /// What is to be done.
    pub fn step(&self, now: Timestamp) -> Step {
        let wait = |since: Timestamp, ns: u64| {
            let until = since.plus_ns(ns);
            if now >= until {
                None
            } else {
                Some(Step::Wait(until))
            }
        };
        let stalled = if self.restarted {
            Step::Close
        } else {
            Step::Restart
        };
        match self.phase {
            Phase::Closed(at) if now >= at => Step::Open,
            Phase::Closed(at) => Step::Rest(at),
            Phase::Starting(since) => {
                wait(since, self.start_ns.max(self.stall_ns)).unwrap_or(stalled)
            }
            Phase::Running(since) => wait(since, self.stall_ns).unwrap_or(stalled),
            Phase::Broken => stalled,
            Phase::Dead => Step::Close,
        }
    }

    /// Streaming has started: the device was opened, or [`Step::Restart`] worked.
    pub fn started(&mut self, now: Timestamp) {
        self.phase = Phase::Starting(now);
        self.frames = 0;
    }

    /// A whole frame came.
    pub fn frame(&mut self, now: Timestamp) {
        self.phase = Phase::Running(now);
        self.frames = self.frames.saturating_add(1);
        if self.frames >= HEALTHY {
            self.restarted = false;
            self.troubled = false;
            self.rest_ns = self.retry_ns;
        }
    }

    /// [`Step::Restart`] is being tried.
    pub fn restarting(&mut self) {
        self.restarted = true;
        self.troubled = true;
    }

    /// The queue is in an error state: starting it anew may help.
    pub fn broken(&mut self) {
        if !matches!(self.phase, Phase::Closed(_) | Phase::Dead) {
            self.phase = Phase::Broken;
            self.troubled = true;
        }
    }

    /// The device is gone, or a rung failed: only opening it anew may help.
    pub fn dead(&mut self) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.phase = Phase::Dead;
            self.troubled = true;
        }
    }

    /// The device was closed, or could not be opened.
    pub fn closed(&mut self, now: Timestamp) {
        self.phase = Phase::Closed(now.plus_ns(self.rest_ns));
        self.rest_ns = self.rest_ns.saturating_mul(2).min(self.retry_max_ns);
        self.restarted = false;
        self.troubled = true;
        self.frames = 0;
    }

    /// Whether frames come.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// Whether the device is open.
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Closed(_))
    }

    /// Whether there was trouble since the camera was last healthy.
    pub fn is_troubled(&self) -> bool {
        self.troubled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Timestamp {
        Timestamp(ms * MS)
    }

    fn ladder() -> Recovery {
        let mut ladder = Recovery::new(&CamerasConfig {
            start_timeout_ms: 500,
            retry_ms: 100,
            retry_max_ms: 400,
            ..CamerasConfig::default()
        });
        ladder.set_period(40 * MS);
        ladder
    }

    #[test]
    fn a_stall_is_noticed_after_three_periods_and_climbs_the_ladder() {
        let mut r = ladder();
        assert_eq!(r.step(at(0)), Step::Open);
        r.started(at(0));
        // The first frame may take longer.
        assert_eq!(r.step(at(499)), Step::Wait(at(500)));
        r.frame(at(499));
        assert_eq!(r.step(at(618)), Step::Wait(at(619)));
        assert_eq!(r.step(at(619)), Step::Restart);
        r.restarting();
        r.started(at(620));
        assert_eq!(r.step(at(700)), Step::Wait(at(1120)));
        assert_eq!(r.step(at(1120)), Step::Close);
        r.closed(at(1120));
        assert_eq!(r.step(at(1120)), Step::Rest(at(1220)));
        assert_eq!(r.step(at(1220)), Step::Open);
    }

    #[test]
    fn rests_double_up_to_a_bound_and_for_ever() {
        let mut r = ladder();
        let mut now = 0;
        for rest in [100, 200, 400, 400, 400, 400] {
            assert_eq!(r.step(at(now)), Step::Open);
            r.closed(at(now));
            assert_eq!(r.step(at(now)), Step::Rest(at(now + rest)));
            assert_eq!(r.step(at(now + rest - 1)), Step::Rest(at(now + rest)));
            now += rest;
        }
    }

    #[test]
    fn only_health_forgets() {
        let mut r = ladder();
        r.started(at(0));
        r.frame(at(1));
        r.broken();
        assert_eq!(r.step(at(2)), Step::Restart);
        r.restarting();
        r.started(at(2));
        for n in 0..HEALTHY - 1 {
            r.frame(at(3 + u64::from(n)));
        }
        r.broken();
        // It failed again too soon.
        assert_eq!(r.step(at(40)), Step::Close);
        r.closed(at(40));
        r.started(at(140));
        for n in 0..HEALTHY {
            r.frame(at(141 + u64::from(n)));
        }
        assert!(!r.is_troubled());
        r.broken();
        assert_eq!(r.step(at(200)), Step::Restart);
        r.dead();
        assert_eq!(r.step(at(200)), Step::Close);
        r.closed(at(200));
        assert_eq!(r.step(at(200)), Step::Rest(at(300)));
    }

    #[test]
    fn a_device_that_is_gone_is_closed_at_once() {
        let mut r = ladder();
        r.started(at(0));
        r.frame(at(10));
        r.dead();
        assert_eq!(r.step(at(10)), Step::Close);
        r.closed(at(10));
        r.dead();
        r.broken();
        assert_eq!(r.step(at(10)), Step::Rest(at(110)));
        assert!(!r.is_open());
    }
}
