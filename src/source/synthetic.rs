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
    rig: Rig,
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
            Box::new(FrameSet {
                stereo: Some(StereoFrame {
                    left: grey(&drawn.left_rgb),
                    right: Some(grey(&drawn.right_rgb)),
                    left_rgb: config.colour.then_some(drawn.left_rgb),
                    stored_disparity: None,
                }),
                mono: config.mono.then(|| MonoFrame {
                    timestamp: Timestamp(0),
                    image: MonoImage::Grey8(drawn.mono),
                    gap: None,
                }),
                ..FrameSet::default()
            })
        };
        Ok(Self {
            clock,
            shape: LiveShape {
                stereo: Some((size, config.colour)),
                mono: config.mono.then_some((PixelKind::Grey8, size)),
            },
            rig: Rig::rectified(street.camera()),
            period_ns: (1e9 / rate_hz) as u64,
            sets: (0..config.frames).map(|frame| Some(set(frame))).collect(),
            start: None,
            next: 0,
        })
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
        Some(self.rig.clone())
    }
}
