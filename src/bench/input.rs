//! Frames in memory, over and over, at a rate: so that neither disk nor decoding is measured.
use crate::{
    calib::Rig,
    config::Config,
    frame::{CameraStates, FrameSet, Mask, Timestamp},
    frame_loop::Clock,
    source::{
        Drive, LiveShape, LiveSource, Next, Prefetch, Source, SyntheticCameras, synth::SynthError,
    },
};

/// The most frames of a drive that are kept.
pub const MOST_FRAMES: usize = 64;

/// How long one wait for a decoded picture may last.
const PATIENCE_NS: u64 = 1_000_000_000;

/// What goes round.
pub struct Input<'a, C> {
    /// The frames, as cameras.
    pub cameras: Bounded<SyntheticCameras<'a, C>>,
    /// Pixels of the left image never to be used.
    pub mask: Option<Mask>,
    /// What it is, for the report.
    pub what: String,
}

/// Why a drive can't be measured with.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The street can't be drawn.
    #[error(transparent)]
    Synth(#[from] SynthError),
    /// No threads to decode with.
    #[error("no thread to decode pictures with: {0}")]
    Threads(std::io::Error),
    /// The drive has disparities in place of right pictures.
    #[error(
        "--drive {0}: it has stored disparities, expected left and right pictures, or a mono camera's"
    )]
    Stored(String),
    /// Fewer frames than what goes round needs.
    #[error("--drive {path}: {found} whole frames, expected 4 or more")]
    Few {
        /// The drive.
        path: String,
        /// Frames that could be read.
        found: usize,
    },
}

impl<'a, C: Clock> Input<'a, C> {
    /// The synthetic street of `[synthetic]`.
    ///
    /// # Errors
    /// When it can't be drawn.
    pub fn synthetic(
        config: &Config,
        (rate_hz, frames): (f64, usize),
        clock: &'a C,
    ) -> Result<Self, InputError> {
        let s = &config.synthetic;
        let mono = if s.mono { ", with a mono camera" } else { "" };
        Ok(Self {
            what: format!(
                "synthetic street {}x{}, seed {}, {} frames over and over{mono}",
                s.width, s.height, s.seed, s.frames
            ),
            cameras: Bounded::new(SyntheticCameras::new(s, rate_hz, clock)?, frames),
            mask: None,
        })
    }

    /// The first frames of a drive's first segment.
    ///
    /// # Errors
    /// When there are too few, or they are not what cameras give.
    pub fn recorded(
        drive: &Drive,
        (rate_hz, frames): (f64, usize),
        clock: &'a C,
    ) -> Result<Self, InputError> {
        let path = || drive.path().display().to_string();
        let few = |found| InputError::Few {
            path: path(),
            found,
        };
        let segment = drive.segments().first().ok_or_else(|| few(0))?;
        if segment.stereo.as_ref().is_some_and(|s| s.stored_disparity) {
            return Err(InputError::Stored(path()));
        }
        let shape = LiveShape {
            stereo: segment.stereo.as_ref().map(|s| (s.size, s.colour)),
            mono: segment.mono.as_ref().map(|m| (m.kind, m.size)),
        };
        let mut source = Prefetch::start(drive, 0, 4).map_err(InputError::Threads)?;
        let mut sets: Vec<FrameSet> = Vec::new();
        while sets.len() < MOST_FRAMES {
            match source.next(PATIENCE_NS) {
                Next::Frame(set) => {
                    sets.push(FrameSet {
                        decisions: None,
                        ..(*set).clone()
                    });
                    source.recycle(set);
                }
                Next::Gap(..) | Next::Nothing => {}
                Next::End => break,
            }
        }
        if sets.len() < 4 {
            return Err(few(sets.len()));
        }
        let rig = segment.stereo.as_ref().map(|s| s.rig.clone());
        let mask = segment.stereo.as_ref().and_then(|s| s.mask.clone());
        Ok(Self {
            what: format!("{}, {} frames over and over", path(), sets.len()),
            cameras: Bounded::new(
                SyntheticCameras::of(sets, shape, rig, rate_hz, clock),
                frames,
            ),
            mask,
        })
    }
}

/// A source that ends after so many frames, with a result or without.
pub struct Bounded<S> {
    inner: S,
    frames: usize,
    given: usize,
}

impl<S> Bounded<S> {
    fn new(inner: S, frames: usize) -> Self {
        Self {
            inner,
            frames,
            given: 0,
        }
    }
}

impl<S: Source> Source for Bounded<S> {
    fn next(&mut self, wait_ns: u64) -> Next {
        if self.given >= self.frames {
            return Next::End;
        }
        let next = self.inner.next(wait_ns);
        self.given += usize::from(matches!(next, Next::Frame(_) | Next::Gap(..)));
        next
    }

    fn skip_before(&mut self, stamp: Timestamp) {
        self.inner.skip_before(stamp);
    }

    fn cameras(&self) -> CameraStates {
        self.inner.cameras()
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.inner.recycle(set);
    }
}

impl<S: LiveSource> LiveSource for Bounded<S> {
    fn shape(&self) -> LiveShape {
        self.inner.shape()
    }

    fn rig(&self) -> Option<Rig> {
        self.inner.rig()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frame_loop::MockClock, source::SyntheticConfig};

    #[test]
    fn it_ends_after_so_many_frames() {
        let clock = MockClock::at(Timestamp(7));
        let config = Config {
            synthetic: SyntheticConfig {
                width: 32,
                height: 24,
                frames: 4,
                ..SyntheticConfig::default()
            },
            ..Config::default()
        };
        let mut input = Input::synthetic(&config, (10.0, 6), &clock).unwrap();
        let mut seen = 0;
        loop {
            match input.cameras.next(1_000_000_000) {
                Next::Frame(set) => {
                    assert_eq!(set.id.index, seen);
                    seen += 1;
                    input.cameras.recycle(set);
                }
                Next::End => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, 6);
        assert!(input.what.contains("32x24"), "{}", input.what);
    }
}
