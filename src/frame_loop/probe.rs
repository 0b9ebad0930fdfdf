//! Where the loop is: two atomics that any thread may read while the loop runs, or hangs.
use std::sync::atomic::{AtomicU64, Ordering};

use super::StageId;
use crate::frame::{FrameId, Timestamp};

/// What the loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing yet.
    Starting,
    /// Waits for a frame.
    Waiting,
    /// Runs a stage; of stages that are launched as one, the first.
    Stage(StageId),
    /// Hands a result, or a gap, to the sinks.
    Publishing,
}

impl std::fmt::Display for Doing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Starting => f.write_str("the start"),
            Self::Waiting => f.write_str("the wait for a frame"),
            Self::Stage(stage) => write!(f, "stage {stage}"),
            Self::Publishing => f.write_str("publishing"),
        }
    }
}

/// What the loop did when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// What it does.
    pub doing: Doing,
    /// The frame that it does it for: [`FrameId::index`]. While it waits, the last one.
    pub frame: u64,
    /// Since when, on the loop's clock.
    pub since: Timestamp,
}

const FRAME_BITS: u32 = 56;
const FIRST_STAGE: u64 = 3;

/// The marker of where the loop is. Set by the loop, read by whoever watches it.
#[derive(Debug, Default)]
pub struct Probe {
    /// What in the upper 8 bits, the frame's index in the others.
    marker: AtomicU64,
    since: AtomicU64,
}

impl Probe {
    /// The loop begins with something at `now`.
    pub fn mark(&self, doing: Doing, frame: FrameId, now: Timestamp) {
        let what = match doing {
            Doing::Starting => 0,
            Doing::Waiting => 1,
            Doing::Publishing => 2,
            Doing::Stage(stage) => FIRST_STAGE + stage as u64,
        };
        let frame = frame.index as u64 & ((1 << FRAME_BITS) - 1);
        // First: who reads the old marker with the new time sees something that has just begun.
        self.since.store(now.0, Ordering::Release);
        self.marker
            .store(what << FRAME_BITS | frame, Ordering::Release);
    }

    /// What the loop does now.
    pub fn look(&self) -> Sight {
        let marker = self.marker.load(Ordering::Acquire);
        let since = Timestamp(self.since.load(Ordering::Acquire));
        let doing = match marker >> FRAME_BITS {
            0 => Doing::Starting,
            1 => Doing::Waiting,
            2 => Doing::Publishing,
            stage => {
                let at = (stage - FIRST_STAGE) as usize;
                StageId::ORDER
                    .get(at)
                    .map_or(Doing::Starting, |&s| Doing::Stage(s))
            }
        };
        Sight {
            doing,
            frame: marker & ((1 << FRAME_BITS) - 1),
            since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_seen() {
        let probe = Probe::default();
        assert_eq!(probe.look().doing, Doing::Starting);
        let all = [Doing::Starting, Doing::Waiting, Doing::Publishing]
            .into_iter()
            .chain(StageId::ORDER.map(Doing::Stage));
        for (n, doing) in all.enumerate() {
            let id = FrameId {
                index: 1_000_000_007 * n,
                ..FrameId::default()
            };
            let since = Timestamp(n as u64);
            probe.mark(doing, id, since);
            let frame = id.index as u64;
            assert_eq!(
                probe.look(),
                Sight {
                    doing,
                    frame,
                    since
                }
            );
        }
    }

    #[test]
    fn a_post_mortem_names_the_stage() {
        assert_eq!(Doing::Stage(StageId::Stereo).to_string(), "stage stereo");
    }
}
