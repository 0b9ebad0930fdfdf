//! How the cameras are doing, for results, metrics and the status line.
use std::fmt;

use super::{ClockKind, StampFault, Which};
use crate::frame::{CameraState, Timestamp};

/// One camera, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameraStatus {
    /// What it does.
    pub state: CameraState,
    /// From one frame to the next: as the driver says, else as configured, ns.
    pub period_ns: u64,
    /// The clock of its stamps, once known.
    pub clock: Option<ClockKind>,
    /// What is added to its stamps, ns.
    pub offset_ns: i64,
    /// Whole frames, passed on to the loop.
    pub frames: u64,
    /// Of these, dropped because the loop was not ready for them.
    pub dropped: u64,
    /// Of these, without partner.
    pub unpaired: u64,
    /// Frames left out, by the driver's sequence numbers.
    pub missed: u64,
    /// Sequence numbers that were not after the one before.
    pub disordered: u64,
    /// Frames that the driver marked as damaged.
    pub damaged: u64,
    /// Frames of too few bytes.
    pub short: u64,
    /// Frames whose stamp was not after the one before.
    pub backward: u64,
    /// Frames stamped more than a period in the future.
    pub future: u64,
    /// Frames that were too old when they came.
    pub stale: u64,
    /// Frames before the clock of their stamps was known.
    pub no_clock: u64,
    /// Waits that ended without a frame for too long.
    pub stalls: u64,
    /// Times that streaming was stopped and started anew.
    pub restarts: u64,
    /// Times that the device was opened, the first included.
    pub opens: u64,
    /// Times that it could not be opened.
    pub open_failures: u64,
    /// Errors of the queue, buffers that could not be given back included.
    pub errors: u64,
    /// When something last went wrong, on the monotonic clock.
    pub last_error: Option<Timestamp>,
}

impl CameraStatus {
    pub(crate) fn new(period_ns: u64) -> Self {
        Self {
            state: CameraState::Starting,
            period_ns,
            clock: None,
            offset_ns: 0,
            frames: 0,
            dropped: 0,
            unpaired: 0,
            missed: 0,
            disordered: 0,
            damaged: 0,
            short: 0,
            backward: 0,
            future: 0,
            stale: 0,
            no_clock: 0,
            stalls: 0,
            restarts: 0,
            opens: 0,
            open_failures: 0,
            errors: 0,
            last_error: None,
        }
    }

    pub(super) fn refused(&mut self, fault: StampFault) {
        let count = match fault {
            StampFault::Backward => &mut self.backward,
            StampFault::Future => &mut self.future,
            StampFault::Stale => &mut self.stale,
            StampFault::NoClock => &mut self.no_clock,
        };
        *count += 1;
    }

    /// Frames that did not come to a result, by cause.
    pub fn lost(&self) -> [(&'static str, u64); 9] {
        [
            ("dropped", self.dropped),
            ("unpaired", self.unpaired),
            ("missed", self.missed),
            ("damaged", self.damaged),
            ("short", self.short),
            ("backward", self.backward),
            ("future", self.future),
            ("stale", self.stale),
            ("no_clock", self.no_clock),
        ]
    }

    /// Name and value of every count.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let frames = [("frames", self.frames)];
        let all = frames.into_iter().chain(self.lost());
        all.chain(self.events()).collect()
    }

    /// What happened to the camera, by name.
    pub fn events(&self) -> [(&'static str, u64); 6] {
        [
            ("stalls", self.stalls),
            ("restarts", self.restarts),
            ("opens", self.opens),
            ("open_failures", self.open_failures),
            ("errors", self.errors),
            ("disordered", self.disordered),
        ]
    }

    /// How long ago something last went wrong, ns.
    pub fn error_age_ns(&self, now: Timestamp) -> Option<u64> {
        self.last_error.map(|at| now.since(at))
    }

    /// What went wrong with the camera so far, for a status line: `missed 3, restarts 1, last
    /// error 5 s ago`; empty where nothing did.
    pub fn troubles(&self, now: Timestamp) -> String {
        // Each camera is opened once.
        let new = |&(name, n): &(&str, u64)| n > u64::from(name == "opens");
        let all = self.lost().into_iter().chain(self.events()).filter(new);
        let mut all: Vec<String> = all.map(|(name, n)| format!("{name} {n}")).collect();
        if let Some(ns) = self.error_age_ns(now) {
            all.push(format!("last error {} s ago", ns / 1_000_000_000));
        }
        all.join(", ")
    }
}

/// What became of the cameras' pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairStatus {
    /// Frame sets with stereo (or of a mono camera alone).
    pub whole: u64,
    /// Frame sets without stereo that should have it.
    pub degraded: u64,
    /// Frame sets without a mono picture that should have one.
    pub without_mono: u64,
    /// Frames that were named as gaps.
    pub gaps: u64,
}

impl PairStatus {
    /// Name and value of every count, for metrics.
    pub fn counts(&self) -> [(&'static str, u64); 4] {
        [
            ("whole", self.whole),
            ("without_stereo", self.degraded),
            ("without_mono", self.without_mono),
            ("gap", self.gaps),
        ]
    }
}

/// How all cameras are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Left, right, mono; `None` for what there is not.
    pub cameras: [Option<CameraStatus>; 3],
    /// What became of their pictures.
    pub pairs: PairStatus,
}

impl Status {
    /// One camera.
    pub fn of(&self, which: Which) -> Option<&CameraStatus> {
        self.cameras[which as usize].as_ref()
    }

    /// The cameras that there are.
    pub fn iter(&self) -> impl Iterator<Item = (Which, &CameraStatus)> {
        let cameras = Which::ALL.into_iter().zip(&self.cameras);
        cameras.filter_map(|(which, camera)| Some((which, camera.as_ref()?)))
    }
}

/// Fit for a status line: `left streaming, right lost, mono streaming`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (which, camera)) in self.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}{which} {}", camera.state.name())?;
        }
        Ok(())
    }
}
