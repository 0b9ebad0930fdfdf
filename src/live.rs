//! Live cameras through the loop: source → slot → stages → result → sinks, one segment without
//! an end.
use std::{path::PathBuf, sync::atomic::AtomicBool};

use serde::{Deserialize, Serialize};

use crate::{
    calib::{self, CalibError, Rectification, Rig},
    config::Config,
    frame::{Mask, Size},
    frame_loop::{
        Backend, BackendChoice, ChainError, Clock, FrameLoop, Models, Monitor, Pace, Parts, Shape,
        Slot,
    },
    replay::{self, ReplayError},
    service::Patience,
    sink::{Announced, Sink},
    source::{LiveShape, LiveSource, SourceError},
};

/// `[live]`: how `roadloop run` runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LiveConfig {
    /// Where to compute.
    pub backend: BackendChoice,
    /// Threads that compute; without, one for each of `realtime.cpus`, else one a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u16>,
    /// How long the first result may take, s, 1 to 3600; then the program ends with status 69.
    pub first_result_s: u32,
    /// How long all cameras may be silent, s, 1 to 86400; then the program ends with status 69,
    /// for the service manager to start it anew.
    pub silence_s: u32,
}

impl Default for LiveConfig {
    fn default() -> Self {
        Self {
            backend: BackendChoice::default(),
            threads: None,
            first_result_s: 30,
            silence_s: 60,
        }
    }
}

impl LiveConfig {
    /// How long the loop may be without results and frames.
    pub fn patience(&self) -> Patience {
        Patience {
            first_ns: u64::from(self.first_result_s) * 1_000_000_000,
            next_ns: u64::from(self.silence_s) * 1_000_000_000,
        }
    }

    /// Refuses values that can't be used.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), SourceError> {
        let range = |key, value: u32, high| {
            if (1..=high).contains(&value) {
                return Ok(());
            }
            Err(SourceError::Config {
                section: "live",
                key,
                text: format!("{value}, expected 1 to {high}"),
            })
        };
        range("first_result_s", self.first_result_s, 3600)?;
        range("silence_s", self.silence_s, 86_400)?;
        range("threads", self.threads.unwrap_or(1).into(), 1024)
    }
}

/// `[calibration]`: where the calibration of live cameras lies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CalibrationConfig {
    /// A calibration file, or the folder of one; see `roadloop check calib`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The right camera's file, where it is not found beside the left one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<PathBuf>,
}

impl CalibrationConfig {
    /// The rig that it names.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn rig(&self) -> Result<Option<Rig>, CalibError> {
        match (&self.file, &self.right) {
            (Some(left), Some(right)) => calib::read_pair(left, right).map(Some),
            (Some(file), None) => calib::read(file, calib::Pair::First).map(Some),
            (None, _) => Ok(None),
        }
    }
}

/// What a live loop is made of, beside its source.
pub struct Live {
    shape: LiveShape,
    rig: Option<Rig>,
    rectification: Option<Rectification>,
    mask: Option<Mask>,
    models: Models,
    mono_mask: Option<Mask>,
    background: Option<Vec<u8>>,
}

impl Live {
    /// For a source of this shape. `rig` is that of the images as they enter the loop.
    ///
    /// # Errors
    /// When the rig is for images of another size, or can't be rectified.
    pub fn new(shape: LiveShape, rig: Option<Rig>) -> Result<Self, LiveError> {
        let mut rectification = None;
        if let Some((size, _)) = shape.stereo {
            let rig = rig.as_ref().ok_or(LiveError::NoCalibration)?;
            if let Some(expected) = rig.image_size()
                && expected != size
            {
                return Err(LiveError::Size {
                    found: size,
                    expected,
                });
            }
            for warning in rig.warnings() {
                log::warn!("calibration: {warning}");
            }
            rectification = Some(rig.rectification(size)?);
        }
        Ok(Self {
            shape,
            rig,
            rectification,
            mask: None,
            models: Models::default(),
            mono_mask: None,
            background: None,
        })
    }

    /// Never uses the pixels of the left image that are 0 in `mask`.
    #[must_use]
    pub fn with_mask(mut self, mask: Option<Mask>) -> Self {
        self.mask = mask;
        self
    }

    /// Never uses the pixels of the mono image that are 0 in `mask`.
    #[must_use]
    pub fn with_mono_mask(mut self, mask: Option<Mask>) -> Self {
        self.mono_mask = mask;
        self
    }

    /// Looks for these logos, and labels the left images with this forest; without a stereo camera
    /// nothing is labelled.
    #[must_use]
    pub fn with_models(mut self, models: Models) -> Self {
        self.models = models;
        self
    }

    /// Begins with the background that an earlier run has learnt.
    #[must_use]
    pub fn with_background(mut self, snapshot: Option<Vec<u8>>) -> Self {
        self.background = snapshot;
        self
    }

    /// The rig of the images as they enter the loop.
    pub fn rig(&self) -> Option<&Rig> {
        self.rig.as_ref()
    }

    /// What is computed of its frames.
    fn parts(&self, config: &Config) -> Parts<'_> {
        let LiveShape { stereo, mono } = self.shape;
        let street = stereo.zip(self.rectification.as_ref());
        let street = street.map(|((size, colour), rectification)| {
            let shape = Shape {
                size,
                colour,
                stored_disparity: false,
                mask: self.mask.clone(),
            };
            (rectification, shape)
        });
        let foreground = config.wants_foreground(stereo.is_none());
        Parts::new(
            street,
            mono.map(|(kind, size)| (kind, size, self.mono_mask.clone())),
            foreground,
            &self.models,
        )
    }

    /// Whether there is nothing to compute.
    pub fn is_idle(&self, config: &Config) -> bool {
        self.parts(config).is_empty()
    }

    /// Runs until `stop` is set or the source ends, on the CPU, in the thread (and the pool) that
    /// calls. Gives what was learnt of the background, where `[foreground] snapshot` asks for it.
    ///
    /// # Errors
    /// As [`Live::run_on`].
    pub fn run(
        &self,
        config: &Config,
        clock: &impl Clock,
        source: &mut impl LiveSource,
        sink: &mut impl Sink,
        monitor: &Monitor,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, ReplayError> {
        self.run_on(config, clock, source, sink, monitor, stop, |parts| {
            parts.on_cpu(config)
        })
    }

    /// The same with the backend and the slot that `make` makes for what is to be computed.
    ///
    /// # Errors
    /// When a stage can't be built, a sink can't begin, or the backend fails. The sinks are told
    /// that it is over in any case.
    #[expect(clippy::too_many_arguments, reason = "the parts of a loop")]
    pub fn run_on<B: Backend>(
        &self,
        config: &Config,
        clock: &impl Clock,
        source: &mut impl LiveSource,
        sink: &mut impl Sink,
        monitor: &Monitor,
        stop: &AtomicBool,
        make: impl FnOnce(&Parts<'_>) -> Result<(B, Slot), ChainError>,
    ) -> Result<Option<Vec<u8>>, ReplayError> {
        let (mut backend, slot) = make(&self.parts(config))?;
        if let Some(snapshot) = &self.background {
            replay::wake(&mut backend, config, snapshot);
        }
        let names = self.models.logo_names();
        sink.begin(&Announced {
            camera: self.rectification.as_ref().map(|r| r.camera),
            shape: &slot.result,
            colour: self.shape.stereo.is_some_and(|(_, colour)| colour),
            mono: self.shape.mono,
            logo_names: &names,
            set: Some(&self.shape.frame_set()),
            rig: self.rig.as_ref().filter(|_| self.shape.stereo.is_some()),
            mask: self.mask.as_ref(),
            mono_mask: self.mono_mask.as_ref(),
        })?;
        let ran = FrameLoop::new(
            &mut backend,
            clock,
            slot,
            &config.frame_loop,
            Pace::Realtime,
        )
        .live()
        .watched(monitor)
        .run(source, sink, stop);
        // What is being written is completed also when the device was lost.
        sink.finish()?;
        ran?;
        Ok(config
            .foreground
            .snapshot
            .as_ref()
            .and_then(|_| backend.snapshot()))
    }
}

/// Why a live loop can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Nothing says what the cameras are.
    #[error(
        "no calibration: expected [calibration] file, or [camera] for images that are rectified"
    )]
    NoCalibration,
    /// The calibration is for images of another size.
    #[error("calibration: for images of {expected} px, but the cameras give {found} px")]
    Size {
        /// The images' size.
        found: Size,
        /// The calibration's.
        expected: Size,
    },
    /// The rig can't be rectified.
    #[error(transparent)]
    Calib(#[from] CalibError),
}
