//! The mono chain on CUDA: one graph for egomotion and foreground, one for the logos' features and
//! their matches; what the logos' tracker does with those is the host's.
//!
//! The picture goes to the device once for each of the two graphs: which of them runs on a frame
//! is decided frame by frame. Nothing else goes there, and only results come back.
use std::sync::Arc;

use crate::{
    config::Config,
    cuda::{Context, GpuError},
    frame::{FrameResult, MonoImage, Timestamp},
    frame_loop::{
        Advance, Backend, BackendError, ChainError, Laps, MonoShape, Slot, StageId, Unit,
        backend::sections,
        mono::{LOGO, STILL, on_picture, pass_by, withdraw},
    },
    stage::{
        Stage as _,
        foreground::{SnapshotError, cuda::RestoreError},
        logo::{
            self,
            features::{Mode, cuda::MAX_KEYPOINTS},
        },
        state::StateError,
    },
};

use super::{errors::failed, launched::wait_until, marks::Marks, still::Still};

/// The stages that read the mono image, as [`super::CpuMono`] and with its results.
///
/// What the kernels do not do (`logo.features.mode = "paper"`, more keypoints than they have room
/// for) is done on the CPU.
pub struct CudaMono {
    still: Option<Still>,
    logo: Option<Logo>,
    units: Vec<Unit>,
    device_bytes: u64,
}

enum Logo {
    Device(Box<Marks>),
    Host(Box<logo::cpu::Plan>),
}

impl CudaMono {
    /// Takes all memory that the stages need and records the graphs.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver, or over a memory limit of the context.
    pub fn new(context: &Context, config: &Config, shape: &MonoShape) -> Result<Self, ChainError> {
        let (mut units, mut device_bytes) = (Vec::new(), 0);
        let mut still = None;
        if shape.foreground {
            let made = Still::new(context, config, shape)?;
            device_bytes += made.device_bytes;
            still = Some(made);
            units.push(STILL);
        }
        let mut logo = None;
        if let Some(templates) = &shape.logos {
            let templates = Arc::clone(templates);
            let (params, size) = (&config.logo, shape.size);
            let mask = shape.mask.as_ref();
            let features = &params.features;
            let on_host = features.mode == Mode::Paper || features.max_keypoints > MAX_KEYPOINTS;
            logo = Some(if on_host {
                log::info!("logos are looked for on the CPU: the GPU has not this mode");
                let plan = logo::cpu::Plan::with_mask(params, templates, shape.kind, size, mask)?;
                Logo::Host(Box::new(plan))
            } else {
                let made = Marks::new(context, params, templates, size, mask)?;
                device_bytes += made.device_bytes;
                Logo::Device(Box::new(made))
            });
            units.push(LOGO);
        }
        Ok(Self {
            still,
            logo,
            units,
            device_bytes,
        })
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    fn save_all(&self, to: &mut Vec<u8>) -> Result<(), GpuError> {
        if let Some(still) = &self.still {
            sections::write(to, StageId::Egomotion, |to| {
                still.egomotion.save(&still.stream, to)
            })?;
            sections::write(to, StageId::Foreground, |to| {
                still.foreground.save(&still.stream, to)
            })?;
        }
        match &self.logo {
            Some(Logo::Device(marks)) => sections::write(to, StageId::Logo, |to| {
                marks.follower.save(to);
                Ok(())
            }),
            Some(Logo::Host(plan)) => {
                sections::save(to, StageId::Logo, plan.as_ref());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sends the picture to the device and launches the unit's graph. False where that can't be
    /// done ahead.
    fn launch(
        &mut self,
        unit: Unit,
        image: &MonoImage,
        speed_mps: Option<f32>,
        laps: &Laps<'_>,
    ) -> Result<bool, GpuError> {
        match (unit == STILL, &mut self.still, &mut self.logo) {
            (true, Some(still), _) => still.launch(image, speed_mps, laps)?,
            (false, _, Some(Logo::Device(marks))) => marks.launch(image, laps)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What the logos' tracker does while the device looks for features.
    fn follow(&mut self, unit: Unit, laps: &Laps<'_>) {
        if let (true, Some(Logo::Device(marks))) = (unit == LOGO, &mut self.logo) {
            marks.follow(laps);
        }
    }

    /// Waits for what was launched, and does the rest.
    fn collect(
        &mut self,
        unit: Unit,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) -> Result<(), GpuError> {
        match (unit == STILL, &mut self.still, &mut self.logo) {
            (true, Some(still), _) => still.collect(result, laps),
            (false, _, Some(Logo::Device(marks))) => match &mut result.logos {
                Some(logos) => marks.collect(logos, laps),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn compute(
        &mut self,
        unit: Unit,
        image: &MonoImage,
        speed_mps: Option<f32>,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) -> Result<(), GpuError> {
        if self.launch(unit, image, speed_mps, laps)? {
            self.follow(unit, laps);
            return self.collect(unit, result, laps);
        }
        let from = laps.now();
        if let (Some(Logo::Host(plan)), Some(logos)) = (&mut self.logo, &mut result.logos) {
            plan.run(logo::Input { image }, logos);
        }
        laps.lap(StageId::Logo, from);
        Ok(())
    }
}

impl Backend for CudaMono {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The times of egomotion and foreground are the device's, between events of the graph: the
    /// picture's way there counts to the first, the mask's way back to the second. That of the
    /// logos is the device's, and what the host does before and after.
    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let this = self.units[unit];
        match on_picture(slot, |image, speed, result| {
            self.compute(this, image, speed, result, laps)
        }) {
            Some(outcome) => outcome.map_err(failed),
            None => {
                pass_by(this, slot, laps);
                Ok(())
            }
        }
    }

    /// Only with a picture of the mono camera's: the left one in its place is not there before the
    /// stereo chain is done.
    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let this = self.units[unit];
        let mono = slot.set.mono.as_ref();
        match mono.and_then(|mono| mono.usable()) {
            Some(image) => self
                .launch(this, image, slot.set.speed_mps, laps)
                .map_err(failed),
            None => Ok(false),
        }
    }

    fn start_behind(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let this = self.units[unit];
        on_picture(slot, |image, speed, _| {
            self.launch(this, image, speed, laps)
        })
        .transpose()
        .map(|launched| launched.unwrap_or(false))
        .map_err(failed)
    }

    fn wait(
        &mut self,
        unit: usize,
        until: Timestamp,
        laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        let stream = match (self.units[unit] == STILL, &self.still, &self.logo) {
            (true, Some(still), _) => &still.stream,
            (false, _, Some(Logo::Device(marks))) => &marks.stream,
            _ => return Ok(true),
        };
        wait_until(stream, until, laps).map_err(failed)
    }

    fn advance(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &Laps<'_>,
    ) -> Result<Advance, BackendError> {
        match (self.units[unit], &mut self.logo, &mut slot.result.logos) {
            (LOGO, Some(Logo::Device(marks)), Some(logos)) => {
                marks.advance(logos, laps).map_err(failed)
            }
            _ => Ok(Advance::Nothing),
        }
    }

    fn meanwhile(&mut self, unit: usize, _slot: &mut Slot, laps: &Laps<'_>) {
        self.follow(self.units[unit], laps);
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let this = self.units[unit];
        self.collect(this, &mut slot.result, laps).map_err(failed)
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        withdraw(self.units[unit], slot);
    }

    /// Where the device fails, its next frame says so too: here the background is learnt afresh.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        match self.still.as_mut().map(|still| still.restore(snapshot)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(RestoreError::Snapshot(reason))) => Err(reason),
            Some(Err(RestoreError::Gpu(e))) => {
                log::error!("foreground.snapshot: {e}");
                Ok(())
            }
        }
    }

    /// Where the device fails, nothing: what is known from earlier runs stays as it is.
    fn snapshot(&self) -> Option<Vec<u8>> {
        let taken = self.still.as_ref()?.snapshot();
        taken
            .inspect_err(|e| log::error!("foreground.snapshot: {e}"))
            .ok()
    }

    /// As [`super::CpuMono`]'s. The model of the background comes from the device: milliseconds,
    /// for the one frame that a recording's next file begins with.
    fn save(&self, to: &mut Vec<u8>) -> bool {
        let length = to.len();
        let saved = self.save_all(to);
        if let Err(e) = &saved {
            log::error!("what the stages have learnt stays on the device: {e}");
            to.truncate(length);
        }
        saved.is_ok()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        if let Some(still) = &self.still {
            sections::read(state, StageId::Egomotion, |from| {
                still.egomotion.load(&still.stream, from)
            })?;
            sections::read(state, StageId::Foreground, |from| {
                still.foreground.load(&still.stream, from)
            })?;
        }
        match &mut self.logo {
            Some(Logo::Device(marks)) => {
                sections::read(state, StageId::Logo, |from| marks.follower.load(from))
            }
            Some(Logo::Host(plan)) => sections::load(state, StageId::Logo, plan.as_mut()),
            None => Ok(()),
        }
    }
}
