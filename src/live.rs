//! Live cameras through the loop: source → slot → stages → result → sinks, one segment without
//! an end.
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use serde::{Deserialize, Serialize};

use crate::{
    calib::{self, CalibError, Rectification, Rig},
    config::Config,
    frame::{Mask, Size},
    frame_loop::{
        Backend, BackendChoice, Chain, Clock, CpuBackend, CpuMono, FrameLoop, Monitor, MonoShape,
        Pace, Shape, Slot,
    },
    replay::{self, ReplayError},
    service::Patience,
    sink::{Announced, Sink},
    source::{LiveShape, LiveSource, SourceError},
    stage::{logo::Templates, rectify::usable_pixels},
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
    mono_mask: Option<Mask>,
    logos: Option<Arc<Templates>>,
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
            mono_mask: None,
            logos: None,
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

    /// Looks for these logos.
    #[must_use]
    pub fn with_logos(mut self, logos: Option<Arc<Templates>>) -> Self {
        self.logos = logos;
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

    /// What is computed from the mono images, or from the left ones in their place.
    fn mono_shape(&self, config: &Config) -> Option<MonoShape> {
        let LiveShape { stereo, mono } = self.shape;
        let foreground = config.wants_foreground(stereo.is_none());
        let shape = MonoShape::of(mono, stereo, foreground, self.logos.clone())?;
        let mask = match (mono, &self.rectification) {
            (Some(_), _) => self.mono_mask.clone(),
            (None, Some(r)) => usable_pixels(r, self.mask.as_ref()),
            (None, None) => None,
        };
        Some(shape.with_mask(mask))
    }

    /// Whether there is anything to compute.
    pub fn is_idle(&self, config: &Config) -> bool {
        self.shape.stereo.is_none() && self.mono_shape(config).is_none()
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
        self.run_on(
            config,
            clock,
            source,
            sink,
            monitor,
            stop,
            |rectification, shape| {
                let backend = CpuBackend::new(config, rectification, shape)?;
                let slot = backend.slot();
                Ok((backend, slot))
            },
        )
    }

    /// The same with the backend for the street that `make` makes.
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
        make: impl FnOnce(&Rectification, &Shape) -> Result<(B, Slot), crate::frame_loop::ChainError>,
    ) -> Result<Option<Vec<u8>>, ReplayError> {
        let mut street = None;
        let mut slot = Slot::empty();
        if let (Some((size, colour)), Some(rectification)) =
            (self.shape.stereo, &self.rectification)
        {
            let shape = Shape {
                size,
                colour,
                stored_disparity: false,
                mask: self.mask.clone(),
            };
            let (backend, its) = make(rectification, &shape)?;
            street = Some(backend);
            slot = its;
        }
        let mut mono = None;
        if let Some(shape) = self.mono_shape(config) {
            shape.furnish(&mut slot);
            mono = Some(CpuMono::new(config, &shape)?);
        }
        let mut backend = Chain::new(street, mono);
        if let Some(snapshot) = &self.background {
            replay::wake(&mut backend, config, snapshot);
        }
        let names: Vec<String> = match &self.logos {
            Some(logos) => logos.names().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        sink.begin(&Announced {
            camera: self.rectification.as_ref().map(|r| r.camera),
            shape: &slot.result,
            colour: self.shape.stereo.is_some_and(|(_, colour)| colour),
            mono: self.shape.mono,
            logo_names: &names,
            set: Some(&self.shape.frame_set()),
            rig: self.rig.as_ref().filter(|_| self.shape.stereo.is_some()),
            mask: self.mask.as_ref(),
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
