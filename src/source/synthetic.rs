//! The synthetic street as live cameras: a few frames, drawn before the first, over and over,
//! stamped with the monotonic clock. For tests, soaks and machines without cameras.
use serde::{Deserialize, Serialize};

use super::{
    LiveShape, LiveSource, Next, Source, SourceError,
    synth::{self, Motion, Street, SynthError},
};
use crate::{
    calib::Rig,
    frame::{
        CameraState, CameraStates, FrameId, FrameSet, MonoFrame, MonoImage, PixelKind, Size,
        StereoFrame, Timestamp,
    },
    frame_loop::Clock,
    picture::grey_of,
};

/// `[synthetic]`: the street that stands in for cameras where `source.kind` is `synthetic`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SyntheticConfig {
    /// Columns of every image, 16 to 4096.
    pub width: usize,
    /// Rows of every image, 16 to 4096.
    pub height: usize,
    /// Chooses the street.
    pub seed: u64,
    /// Different frames that are drawn and then shown over and over, 4 to 64.
    pub frames: usize,
    /// Whether the left image comes in colour too.
    pub colour: bool,
    /// Whether there is a mono camera.
    pub mono: bool,
}

impl Default for SyntheticConfig {
    fn default() -> Self {
        Self {
            width: 640,
            height: 360,
            seed: 1,
            frames: 8,
            colour: false,
            mono: true,
        }
    }
}

impl SyntheticConfig {
    /// Refuses values that can't be used.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), SourceError> {
        for (key, value, low, high) in [
            ("width", self.width, 16, 4096),
            ("height", self.height, 16, 4096),
            ("frames", self.frames, 4, 64),
        ] {
            if !(low..=high).contains(&value) {
                return Err(SourceError::Config {
                    section: "synthetic",
                    key,
                    text: format!("{value}, expected {low} to {high}"),
                });
            }
        }
        Ok(())
    }
}

/// Cameras on the synthetic street. A frame that is due while the one before it is still in the
/// loop waits for its turn; what can't be kept up with is named as dropped.
#[derive(Debug)]
pub struct SyntheticCameras<'a, C> {
    clock: &'a C,
    shape: LiveShape,
    rig: Option<Rig>,
    period_ns: u64,
    /// By place in the cycle; `None` while the loop has it.
    sets: Vec<Option<Box<FrameSet>>>,
    /// When frame 0 is taken; known when it is first asked for.
    start: Option<Timestamp>,
    next: usize,
}

/// Frames that may wait for the loop, as in a camera's own queue; older ones are dropped.
const QUEUE: u64 = 2;

impl<'a, C: Clock> SyntheticCameras<'a, C> {
    /// Draws the street.
    ///
    /// # Errors
    /// When the size is out of range.
    pub fn new(config: &SyntheticConfig, rate_hz: f64, clock: &'a C) -> Result<Self, SynthError> {
        let size = Size::new(config.width, config.height);
        let street = Street::new(&synth::Options {
            frames: config.frames,
            seed: config.seed,
            size,
            motion: Motion::Drive,
        })?;
        let set = |frame| {
            let drawn = street.render(frame);
            let grey = |rgb: &crate::frame::Rgb| {
                crate::frame::Image::from_fn(size.width, size.height, |x, y| grey_of(rgb.get(x, y)))
            };
            FrameSet {
                stereo: Some(StereoFrame {
                    left: grey(&drawn.left_rgb),
                    right: Some(grey(&drawn.right_rgb)),
                    left_rgb: config.colour.then_some(drawn.left_rgb),
                    stored_disparity: None,
                }),
                mono: config.mono.then_some(MonoFrame {
                    timestamp: Timestamp(0),
                    image: MonoImage::Grey8(drawn.mono),
                    gap: None,
                }),
                ..FrameSet::default()
            }
        };
        let shape = LiveShape {
            stereo: Some((size, config.colour)),
            mono: config.mono.then_some((PixelKind::Grey8, size)),
        };
        let sets = (0..config.frames).map(set).collect();
        let rig = Some(Rig::rectified(street.camera()));
        Ok(Self::of(sets, shape, rig, rate_hz, clock))
    }

    /// Cameras that show these frames, all of this shape, over and over.
    pub fn of(
        sets: Vec<FrameSet>,
        shape: LiveShape,
        rig: Option<Rig>,
        rate_hz: f64,
        clock: &'a C,
    ) -> Self {
        Self {
            clock,
            shape,
            rig,
            period_ns: (1e9 / rate_hz) as u64,
            sets: sets.into_iter().map(|set| Some(Box::new(set))).collect(),
            start: None,
            next: 0,
        }
    }

    fn due(&self, start: Timestamp) -> Timestamp {
        start.plus_ns(self.period_ns.saturating_mul(self.next as u64))
    }
}

impl<C: Clock> Source for SyntheticCameras<'_, C> {
    fn next(&mut self, wait_ns: u64) -> Next {
        let start = *self.start.get_or_insert_with(|| self.clock.now());
        let due = self.due(start);
        let mut now = self.clock.now();
        if now < due {
            if wait_ns == 0 {
                return Next::Nothing;
            }
            self.clock.sleep_until(due.min(now.plus_ns(wait_ns)));
            now = self.clock.now();
            if now < due {
                return Next::Nothing;
            }
        }
        let id = FrameId {
            index: self.next,
            number: self.next as u64,
            timestamp: due,
        };
        self.next += 1;
        let place = id.index % self.sets.len();
        let waiting = now.since(due) / self.period_ns.max(1);
        match self.sets[place].take_if(|_| waiting < QUEUE) {
            Some(mut set) => {
                set.id = id;
                if let Some(mono) = &mut set.mono {
                    mono.timestamp = due;
                    mono.gap = None;
                }
                Next::Frame(set)
            }
            None => Next::Gap(id, crate::frame::Gap::Dropped),
        }
    }

    fn cameras(&self) -> CameraStates {
        let streaming = Some(CameraState::Streaming);
        CameraStates {
            left: streaming,
            right: streaming,
            mono: self.shape.mono.and(streaming),
        }
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        // The loop's own first set comes too, at the first frame: it is of no use here.
        let place = set.id.index % self.sets.len();
        if set.id.timestamp != Timestamp(0) && self.sets[place].is_none() {
            self.sets[place] = Some(set);
        }
    }
}

impl<C: Clock> LiveSource for SyntheticCameras<'_, C> {
    fn shape(&self) -> LiveShape {
        self.shape
    }

    fn rig(&self) -> Option<Rig> {
        self.rig.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::Gap,
        frame_loop::MockClock,
        source::{FaultConfig, FaultInjector},
    };

    const PERIOD: u64 = 100_000_000;

    fn config() -> SyntheticConfig {
        SyntheticConfig {
            width: 32,
            height: 24,
            frames: 4,
            colour: true,
            ..SyntheticConfig::default()
        }
    }

    fn cameras(clock: &MockClock) -> SyntheticCameras<'_, MockClock> {
        SyntheticCameras::new(&config(), 10.0, clock).unwrap()
    }

    fn frame(next: Next) -> Box<FrameSet> {
        match next {
            Next::Frame(set) => set,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_come_when_they_are_due_and_are_stamped_so() {
        let clock = MockClock::at(Timestamp(7));
        let mut source = cameras(&clock);
        let start = clock.now();
        for n in 0..10u64 {
            let set = frame(source.next(PERIOD));
            assert_eq!(set.id.timestamp, start.plus_ns(n * PERIOD));
            assert_eq!((set.id.index as u64, set.id.number), (n, n));
            assert_eq!(set.mono.as_ref().unwrap().timestamp, set.id.timestamp);
            assert_eq!(clock.now(), set.id.timestamp);
            source.recycle(set);
            assert!(matches!(source.next(0), Next::Nothing));
            assert!(matches!(source.next(PERIOD / 2), Next::Nothing));
        }
    }

    #[test]
    fn the_same_frames_come_round_and_the_loops_own_set_is_no_frame() {
        let clock = MockClock::at(Timestamp(7));
        let mut source = cameras(&clock);
        let first = frame(source.next(0));
        let left = first.stereo.as_ref().unwrap().left.clone();
        // The loop gives back its first set, then always the one before.
        source.recycle(Box::new(FrameSet::stereo(Size::new(32, 24))));
        let mut before = first;
        for n in 1..=4 {
            let set = frame(source.next(PERIOD));
            source.recycle(std::mem::replace(&mut before, set));
            let again = before.stereo.as_ref().unwrap().left == left;
            assert_eq!(again, n == 4);
        }
    }

    #[test]
    fn what_the_loop_cannot_keep_up_with_is_dropped_by_name() {
        let clock = MockClock::at(Timestamp(7));
        let mut source = cameras(&clock);
        let set = frame(source.next(0));
        source.recycle(set);
        clock.advance_ns(5 * PERIOD);
        let mut dropped = Vec::new();
        let set = loop {
            match source.next(0) {
                Next::Gap(id, Gap::Dropped) => dropped.push(id.index),
                other => break frame(other),
            }
        };
        assert_eq!(dropped, [1, 2, 3]);
        assert_eq!(set.id.index, 4);
    }

    #[test]
    fn faults_come_as_they_are_asked_for() {
        let clock = MockClock::at(Timestamp(7));
        let faults = FaultConfig {
            drop_every: 3,
            unsynchronised_every: 2,
            stall_frame: Some(4),
            stall_ms: 250,
            end_after: 6,
            ..FaultConfig::default()
        };
        let mut source = FaultInjector::new(cameras(&clock), &faults, &clock);
        assert_eq!(source.shape(), cameras(&clock).shape());
        let mut seen = String::new();
        loop {
            match source.next(PERIOD) {
                Next::Frame(set) => {
                    let mono = set.mono.as_ref().unwrap().gap;
                    seen += if mono.is_some() { "u" } else { "f" };
                    source.recycle(set);
                }
                Next::Gap(_, Gap::Dropped) => seen += "d",
                Next::Nothing => {
                    let stalled = source.cameras().left == Some(CameraState::Stalled);
                    seen += if stalled { "s" } else { "." };
                }
                Next::End => break,
                other => panic!("{other:?}"),
            }
        }
        // After the silence what is too old is dropped by the cameras themselves.
        assert_eq!(seen, "fudufss.d");
    }
}
