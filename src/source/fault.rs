//! Faults on demand, between any source and the loop.
use serde::{Deserialize, Serialize};

use super::{LiveShape, LiveSource, Next, Source, SourceError};
use crate::{
    calib::Rig,
    frame::{CameraState, CameraStates, FrameId, FrameSet, Gap, Timestamp},
    frame_loop::{Clock, HangConfig, SlowConfig, StageId},
};

/// `[fault]`: what goes wrong on purpose. Only with `source.kind = "synthetic"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultConfig {
    /// Every so manieth frame does not come ([`Gap::Dropped`]); 0: none.
    pub drop_every: usize,
    /// Every so manieth frame has no mono picture ([`Gap::Unsynchronised`]); 0: none.
    pub unsynchronised_every: usize,
    /// From this frame on the cameras are silent for `stall_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_frame: Option<usize>,
    /// How long.
    pub stall_ms: u64,
    /// The source ends after so many frames; 0: never.
    pub end_after: usize,
    /// A stage that never ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang: Option<HangConfig>,
    /// A stage that takes longer for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowConfig>,
}

impl FaultConfig {
    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses values that can't be used.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), SourceError> {
        let refuse = |key, text| {
            let section = "fault";
            Err(SourceError::Config { section, key, text })
        };
        for (key, stage) in [
            ("hang.stage", self.hang.as_ref().map(|h| &h.stage)),
            ("slow.stage", self.slow.as_ref().map(|s| &s.stage)),
        ] {
            if let Some(stage) = stage
                && StageId::named(stage).is_none()
            {
                let names = StageId::ORDER.map(StageId::name).join(", ");
                return refuse(key, format!("{stage:?}, expected one of {names}"));
            }
        }
        if let Some(slow) = &self.slow
            && !(1..=10_000).contains(&slow.ms)
        {
            return refuse("slow.ms", format!("{}, expected 1 to 10000", slow.ms));
        }
        if self.stall_ms > 600_000 {
            return refuse(
                "stall_ms",
                format!("{}, expected 0 to 600000", self.stall_ms),
            );
        }
        Ok(())
    }
}

/// A source with faults.
#[derive(Debug)]
pub struct FaultInjector<'a, S, C> {
    inner: S,
    config: FaultConfig,
    clock: &'a C,
    /// End of the silence, once it has begun.
    silent_until: Option<Timestamp>,
    given: usize,
}

impl<'a, S: Source, C: Clock> FaultInjector<'a, S, C> {
    /// `inner`, with the faults of `config`.
    pub fn new(inner: S, config: &FaultConfig, clock: &'a C) -> Self {
        Self {
            inner,
            config: config.clone(),
            clock,
            silent_until: None,
            given: 0,
        }
    }

    fn silent(&self) -> bool {
        self.silent_until
            .is_some_and(|until| self.clock.now() < until)
    }

    fn every(n: usize, index: usize) -> bool {
        n > 0 && (index + 1).is_multiple_of(n)
    }
}

impl<S: Source, C: Clock> Source for FaultInjector<'_, S, C> {
    fn next(&mut self, wait_ns: u64) -> Next {
        if self.silent() {
            let until = self.silent_until.unwrap_or_default();
            self.clock
                .sleep_until(until.min(self.clock.now().plus_ns(wait_ns)));
            return Next::Nothing;
        }
        if self.config.end_after > 0 && self.given >= self.config.end_after {
            return Next::End;
        }
        match self.inner.next(wait_ns) {
            Next::Frame(mut set) => {
                let FrameId { index, .. } = set.id;
                self.given += 1;
                if self.silent_until.is_none()
                    && self.config.stall_frame.is_some_and(|n| index >= n)
                {
                    let ns = self.config.stall_ms.saturating_mul(1_000_000);
                    self.silent_until = Some(self.clock.now().plus_ns(ns));
                }
                if Self::every(self.config.drop_every, index) {
                    let id = set.id;
                    self.inner.recycle(set);
                    return Next::Gap(id, Gap::Dropped);
                }
                if let Some(mono) = &mut set.mono
                    && Self::every(self.config.unsynchronised_every, index)
                {
                    mono.gap = Some(Gap::Unsynchronised);
                }
                Next::Frame(set)
            }
            other => other,
        }
    }

    fn skip_before(&mut self, stamp: Timestamp) {
        self.inner.skip_before(stamp);
    }

    fn cameras(&self) -> CameraStates {
        let mut states = self.inner.cameras();
        if self.silent() {
            for state in [&mut states.left, &mut states.right, &mut states.mono] {
                *state = state.map(|_| CameraState::Stalled);
            }
        }
        states
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.inner.recycle(set);
    }
}

impl<S: LiveSource, C: Clock> LiveSource for FaultInjector<'_, S, C> {
    fn shape(&self) -> LiveShape {
        self.inner.shape()
    }

    fn rig(&self) -> Option<Rig> {
        self.inner.rig()
    }
}
