//! A recorded drive through the loop: source → slot → stages → result → sink, segment by
//! segment.
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use xxhash_rust::xxh3::Xxh3;

use crate::{
    calib::{CalibError, Rectification, Rig},
    config::Config,
    frame::Image,
    frame_loop::{
        Backend, BackendError, ChainError, Clock, FrameLoop, LoopError, Models, Pace, Parts, Shape,
        Slot,
    },
    sink::{Announced, Sink, SinkError},
    source::{self, Drive, Prefetch, Segment},
    stage::{forest::Forest, logo::Templates},
};

/// Frame sets that go round between the decoding thread and the loop.
const FRAME_SETS: usize = 4;

/// Why a replay ended before its drive.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A rig can't be rectified.
    #[error(transparent)]
    Calib(#[from] CalibError),
    /// The stages can't be built.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The threads that decode are refused.
    #[error("no thread to decode pictures with: {0}")]
    Threads(std::io::Error),
    /// Results can't be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The device that computes was lost.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The loop is strict and can't keep its deadline ([`LoopError::Missed`]).
    #[error("{0}")]
    Missed(String),
}

impl From<LoopError> for ReplayError {
    fn from(e: LoopError) -> Self {
        match e {
            LoopError::Sink(e) => e.into(),
            LoopError::Backend(e) => e.into(),
            e @ LoopError::Missed { .. } => Self::Missed(e.to_string()),
        }
    }
}

/// A drive with the rectification of each of its segments.
pub struct Replay<'a> {
    drive: &'a Drive,
    /// `None` where there is no stereo camera.
    rectifications: Vec<Option<Rectification>>,
    models: Models,
    background: Option<Vec<u8>>,
    anew: bool,
}

impl<'a> Replay<'a> {
    /// Rectifies the rig of every segment.
    ///
    /// # Errors
    /// When one can't be.
    pub fn new(drive: &'a Drive) -> Result<Self, CalibError> {
        let mut told: Option<&Rig> = None;
        let rectify = |segment: &'a Segment| {
            let Some(stereo) = &segment.stereo else {
                return Ok(None);
            };
            // A rig that many segments share has its say once.
            if told.is_none_or(|rig| rig.warnings() != stereo.rig.warnings()) {
                told = Some(&stereo.rig);
                for warning in stereo.rig.warnings() {
                    log::warn!("{}: {warning}", drive.calibration());
                }
            }
            stereo.rig.rectification(stereo.size).map(Some)
        };
        Ok(Self {
            drive,
            rectifications: drive
                .segments()
                .iter()
                .map(rectify)
                .collect::<Result<_, _>>()?,
            models: Models::default(),
            background: None,
            anew: false,
        })
    }

    /// Of a recording, runs also what the loop that recorded it skipped or threw away
    /// ([`FrameLoop::deciding_anew`]).
    #[must_use]
    pub fn deciding_anew(mut self, anew: bool) -> Self {
        self.anew = anew;
        self
    }

    /// Looks for these logos.
    #[must_use]
    pub fn with_logos(mut self, logos: Arc<Templates>) -> Self {
        self.models.logos = Some(logos);
        self
    }

    /// Labels the left images with this forest; nothing on a mono drive.
    #[must_use]
    pub fn with_forest(mut self, forest: Arc<Forest>) -> Self {
        self.models.forest = Some(forest);
        self
    }

    /// Looks for these logos and labels with this forest, each where it is there.
    #[must_use]
    pub fn with_models(mut self, models: Models) -> Self {
        self.models = models;
        self
    }

    /// Begins with the background that an earlier run has learnt ([`Replay::run_on`] gives it).
    #[must_use]
    pub fn with_background(mut self, snapshot: Option<Vec<u8>>) -> Self {
        self.background = snapshot;
        self
    }

    /// What is computed of the frames of a segment.
    fn parts<'b>(
        &self,
        config: &Config,
        segment: &Segment,
        rectification: Option<&'b Rectification>,
    ) -> Parts<'b> {
        let street = rectification.zip(segment.stereo.as_ref());
        let street = street.map(|(rectification, stereo)| {
            let shape = Shape {
                size: stereo.size,
                colour: stereo.colour,
                stored_disparity: stereo.stored_disparity,
                mask: stereo.mask.clone(),
            };
            (rectification, shape)
        });
        let mono = segment.mono.as_ref();
        let mono = mono.map(|m| (m.kind, m.size, m.mask.clone()));
        let foreground = config.wants_foreground(self.drive.is_mono());
        Parts::new(street, mono, foreground, &self.models)
    }

    /// A hash of what calibration and mask make of pixels: the rectified cameras, the maps and
    /// the usable pixels.
    pub fn calib_hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (segment, r) in self.drive.segments().iter().zip(&self.rectifications) {
            for usable in (segment.mono.iter().flat_map(|m| &m.mask)).flat_map(Image::pixels) {
                hash.update(&[*usable]);
            }
            let (Some(stereo), Some(r)) = (&segment.stereo, r) else {
                continue;
            };
            for usable in stereo.mask.iter().flat_map(Image::pixels) {
                hash.update(&[*usable]);
            }
            let c = &r.camera;
            for value in [c.focal_px, c.cx, c.cy, c.baseline_m] {
                hash.update(&value.to_le_bytes());
            }
            for map in r.maps.iter().flatten() {
                for &[x, y] in map.entries().pixels() {
                    hash.update(&x.to_le_bytes());
                    hash.update(&y.to_le_bytes());
                }
            }
        }
        hash.digest()
    }

    /// Runs the drive through the loop on the CPU, in the thread (and the pool) that calls.
    /// Ends early, in good order, when `stop` is set.
    ///
    /// # Errors
    /// As [`Replay::run_on`].
    pub fn run(
        &self,
        config: &Config,
        pace: Pace,
        clock: &impl Clock,
        sink: &mut impl Sink,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, ReplayError> {
        self.run_on(config, pace, clock, sink, stop, |parts| {
            parts.on_cpu(config)
        })
    }

    /// The same with the backend and the slot that `make` makes of what is to be computed, for
    /// each segment of the drive; those before are gone by then. Gives what was learnt of the
    /// background, where `[foreground] snapshot` asks for it ([`Replay::with_background`]).
    ///
    /// # Errors
    /// When a stage can't be built for a segment, the sink or the backend fails. What the sink
    /// has stays.
    pub fn run_on<B: Backend>(
        &self,
        config: &Config,
        pace: Pace,
        clock: &impl Clock,
        sink: &mut impl Sink,
        stop: &AtomicBool,
        mut make: impl FnMut(&Parts<'_>) -> Result<(B, Slot), ChainError>,
    ) -> Result<Option<Vec<u8>>, ReplayError> {
        let names = self.models.logo_names();
        let mut background = None;
        let segments = self.drive.segments();
        for (number, (segment, rectification)) in
            segments.iter().zip(&self.rectifications).enumerate()
        {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let parts = self.parts(config, segment, rectification.as_ref());
            let (mut backend, slot) = make(&parts)?;
            if let (0, Some(snapshot)) = (number, &self.background) {
                wake(&mut backend, config, snapshot);
            }
            if number == 0
                && let Some(state) = self.drive.state()
                && let Err(reason) = backend.load(&state)
            {
                log::warn!("what the stages had learnt when it was recorded is lost: {reason}");
            }
            let mut source =
                Prefetch::start(self.drive, number, FRAME_SETS).map_err(ReplayError::Threads)?;
            // Last: earlier results go only where nothing can be refused any more.
            sink.begin(&Announced {
                camera: rectification.as_ref().map(|r| r.camera),
                shape: &slot.result,
                colour: segment.stereo.as_ref().is_some_and(|s| s.colour),
                mono: segment.mono.as_ref().map(|m| (m.kind, m.size)),
                logo_names: &names,
                set: Some(&source::frame_set(segment)),
                rig: segment.stereo.as_ref().map(|s| &s.rig),
                mask: segment.stereo.as_ref().and_then(|s| s.mask.as_ref()),
                mono_mask: segment.mono.as_ref().and_then(|m| m.mask.as_ref()),
            })?;
            FrameLoop::new(&mut backend, clock, slot, &config.frame_loop, pace)
                .deciding_anew(self.anew)
                .run(&mut source, sink, stop)?;
            if config.foreground.snapshot.is_some() {
                background = backend.snapshot();
            }
        }
        Ok(background)
    }
}

/// Begins with a background that was learnt before. One that can't be used is told, and learnt
/// afresh.
pub(crate) fn wake(backend: &mut impl Backend, config: &Config, snapshot: &[u8]) {
    if let Err(reason) = backend.restore(snapshot) {
        let path = config.foreground.snapshot.as_deref();
        log::warn!(
            "foreground.snapshot: {}: {reason}; the background is learnt afresh",
            path.unwrap_or(Path::new("")).display()
        );
    }
}
