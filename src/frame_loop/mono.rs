//! What is computed from the mono image, on the CPU: egomotion, foreground, logos.
use std::{mem, sync::Arc};

use crate::{
    config::Config,
    frame::{
        Foreground, FrameResult, Image, Logos, Mask, MonoImage, Motion, MotionState, PixelKind,
        Size,
    },
    stage::{
        Stage as _, egomotion,
        foreground::{self, SnapshotError},
        logo::{self, Templates},
        rectify::Rectified,
        state::StateError,
    },
};

use super::{Backend, BackendError, ChainError, Laps, Slot, StageId, Unit, backend::sections};

/// What the mono images of a drive look like, and what is to be computed from them.
#[derive(Clone, Debug)]
pub struct MonoShape {
    /// What they are made of.
    pub kind: PixelKind,
    /// Their size.
    pub size: Size,
    /// Whether the foreground is computed, and with it how the camera moves.
    pub foreground: bool,
    /// The logos that are looked for.
    pub logos: Option<Arc<Templates>>,
    /// Pixels that may be used: those that are 0 are neither foreground nor part of a logo, and say
    /// nothing of how the camera moves.
    pub mask: Option<Mask>,
}

impl MonoShape {
    /// Of the mono camera's images where there is one (their kind and size), else of the rectified
    /// left ones (their size, and whether in colour); `None` where nothing is to be computed.
    pub fn of(
        mono: Option<(PixelKind, Size)>,
        stereo: Option<(Size, bool)>,
        foreground: bool,
        logos: Option<Arc<Templates>>,
    ) -> Option<Self> {
        let (kind, size) = match (mono, stereo) {
            (Some(mono), _) => mono,
            (None, Some((size, true))) => (PixelKind::Rgb8, size),
            (None, Some((size, false))) => (PixelKind::Grey8, size),
            (None, None) => return None,
        };
        let shape = Self {
            kind,
            size,
            foreground,
            logos,
            mask: None,
        };
        (!shape.is_idle()).then_some(shape)
    }

    /// Never uses the pixels that are 0 in the mask.
    #[must_use]
    pub fn with_mask(mut self, mask: Option<Mask>) -> Self {
        self.mask = mask;
        self
    }

    /// Whether there is anything to compute.
    pub fn is_idle(&self) -> bool {
        !self.foreground && self.logos.is_none()
    }

    /// Makes room in a slot for the results.
    pub fn furnish(&self, slot: &mut Slot) {
        if self.foreground {
            slot.result.motion = Some(Motion::default());
            slot.result.foreground = Some(Foreground::new(self.size));
        }
        if self.logos.is_some() {
            slot.result.logos = Some(Logos::new());
        }
    }
}

/// Plans of the stages that read the mono image.
///
/// The image is the mono camera's where the drive has one, else the rectified left one, in
/// colour where the source has colour: so that results lie where those of the stereo chain do.
/// Foreground is never computed without egomotion: the two are one unit, admitted, skipped and
/// withdrawn together. A frame without a usable image leaves every plan as it is.
pub struct CpuMono {
    still: Option<(egomotion::cpu::Plan, foreground::cpu::Plan)>,
    logo: Option<logo::cpu::Plan>,
    units: Vec<Unit>,
}

pub(super) const STILL: Unit = Unit {
    stages: &[StageId::Egomotion, StageId::Foreground],
};
pub(super) const LOGO: Unit = Unit {
    stages: &[StageId::Logo],
};

impl CpuMono {
    /// Takes all memory that the stages need.
    ///
    /// # Errors
    /// When a stage can't work with its parameters or this shape.
    pub fn new(config: &Config, shape: &MonoShape) -> Result<Self, ChainError> {
        let MonoShape { kind, size, .. } = *shape;
        let mask = shape.mask.as_ref();
        let mut units = Vec::new();
        let mut still = None;
        if shape.foreground {
            still = Some((
                egomotion::cpu::Plan::with_mask(&config.egomotion, kind, size, mask)?,
                foreground::cpu::Plan::with_mask(&config.foreground, kind, size, mask)?,
            ));
            units.push(STILL);
        }
        let mut logo = None;
        if let Some(templates) = &shape.logos {
            let templates = Arc::clone(templates);
            let plan = logo::cpu::Plan::with_mask(&config.logo, templates, kind, size, mask)?;
            logo = Some(plan);
            units.push(LOGO);
        }
        Ok(Self { still, logo, units })
    }

    fn compute(
        &mut self,
        unit: Unit,
        image: &MonoImage,
        speed_mps: Option<f32>,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) {
        let from = laps.now();
        if unit == LOGO {
            if let (Some(plan), Some(logos)) = (&mut self.logo, &mut result.logos) {
                plan.run(logo::Input { image }, logos);
            }
            laps.lap(StageId::Logo, from);
            return;
        }
        let (Some((egomotion, foreground)), Some(motion), Some(mask)) =
            (&mut self.still, &mut result.motion, &mut result.foreground)
        else {
            return;
        };
        egomotion.run(egomotion::Input { image, speed_mps }, motion);
        let from = laps.lap(StageId::Egomotion, from);
        let input = foreground::cpu::Input {
            image,
            motion,
            known_foreground: None,
        };
        foreground.run(input, mask);
        laps.lap(StageId::Foreground, from);
    }
}

impl Backend for CpuMono {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let this = self.units[unit];
        let ran = on_picture(slot, |image, speed, result| {
            self.compute(this, image, speed, result, laps);
        });
        if ran.is_none() {
            pass_by(this, slot, laps);
        }
        Ok(())
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        withdraw(self.units[unit], slot);
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        match &mut self.still {
            Some((_, foreground)) => foreground.restore(snapshot),
            None => Ok(()),
        }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        self.still
            .as_ref()
            .map(|(_, foreground)| foreground.snapshot())
    }

    fn save(&self, to: &mut Vec<u8>) -> bool {
        if let Some((egomotion, foreground)) = &self.still {
            sections::save(to, StageId::Egomotion, egomotion);
            sections::save(to, StageId::Foreground, foreground);
        }
        if let Some(logo) = &self.logo {
            sections::save(to, StageId::Logo, logo);
        }
        true
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        if let Some((egomotion, foreground)) = &mut self.still {
            sections::load(state, StageId::Egomotion, egomotion)?;
            sections::load(state, StageId::Foreground, foreground)?;
        }
        match &mut self.logo {
            Some(logo) => sections::load(state, StageId::Logo, logo),
            None => Ok(()),
        }
    }
}

/// Calls `f` with the picture of the frame, the speed that is known, and the result: the mono
/// camera's picture, or the left one in its place. `None` where there is none to look at.
pub(super) fn on_picture<R>(
    slot: &mut Slot,
    f: impl FnOnce(&MonoImage, Option<f32>, &mut FrameResult) -> R,
) -> Option<R> {
    let Slot {
        set,
        rectified,
        result,
    } = slot;
    let speed = set.speed_mps;
    match (set.mono.as_ref().map(|mono| mono.usable()), rectified) {
        (Some(Some(image)), _) => Some(f(image, speed, result)),
        (None, Some(rectified)) => Some(lend_left(rectified, |image| f(image, speed, result))),
        (Some(None), _) | (None, None) => None,
    }
}

/// What a unit does without a picture.
pub(super) fn pass_by(unit: Unit, slot: &mut Slot, laps: &mut Laps<'_>) {
    withdraw(unit, slot);
    unit.stages.iter().for_each(|&stage| laps.skip(stage));
}

/// Takes a unit's result out of the slot.
pub(super) fn withdraw(unit: Unit, slot: &mut Slot) {
    let result = &mut slot.result;
    if unit == LOGO {
        result.logos.iter_mut().for_each(Logos::clear);
    } else {
        if let Some(motion) = &mut result.motion {
            *motion = Motion::of(MotionState::Unknown);
        }
        result.foreground.iter_mut().for_each(Foreground::skip);
    }
}

/// Lends the left image as a mono image: moved there and back, so that no pixel is copied.
fn lend_left<R>(rectified: &mut Rectified, f: impl FnOnce(&MonoImage) -> R) -> R {
    let image = match rectified.left_rgb.take() {
        Some(rgb) => MonoImage::Rgb8(rgb),
        None => MonoImage::Grey8(mem::replace(&mut rectified.left, Image::new(0, 0))),
    };
    let outcome = f(&image);
    match image {
        MonoImage::Rgb8(rgb) => rectified.left_rgb = Some(rgb),
        MonoImage::Grey8(left) => rectified.left = left,
        MonoImage::Grey16(_) => {}
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_images_come_back() {
        let size = Size::new(3, 2);
        for colour in [false, true] {
            let mut rectified = Rectified::new(size, false, colour);
            rectified.left.set(1, 1, 7);
            let before = rectified.clone();
            lend_left(&mut rectified, |image| {
                assert_eq!(image.size(), size);
                assert_eq!(image.kind() == PixelKind::Rgb8, colour);
            });
            assert_eq!(rectified, before);
        }
    }
}
