//! What is computed from the mono image, on the CPU: egomotion, foreground, logos.
use std::{mem, sync::Arc};

use crate::{
    config::Config,
    frame::{
        Foreground, FrameResult, Image, Logos, Mask, MonoImage, Motion, MotionState, PixelKind,
        Size, Timestamp,
    },
    stage::{
        Stage as _, egomotion,
        foreground::{self, SnapshotError},
        logo::{self, Templates},
        rectify::Rectified,
        state::StateError,
    },
};

use super::{
    Backend, BackendError, ChainError, Laps, Slot, StageId, Unit,
    aside::{Crew, Seat, Work},
    backend::sections,
};

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
///
/// With `frame_loop.overlap` each of its units can be computed by a thread beside the loop's, on a
/// copy of the picture.
pub struct CpuMono {
    still: Option<Seat<Still>>,
    logo: Option<Seat<Marks>>,
    units: Vec<Unit>,
    /// Whether they begin before the stereo chain is done.
    beside: bool,
    _crew: Option<Crew>,
}

pub(super) const STILL: Unit = Unit {
    stages: &[StageId::Egomotion, StageId::Foreground],
};
pub(super) const LOGO: Unit = Unit {
    stages: &[StageId::Logo],
};

/// What a thread aside reads: it has a picture of its own.
struct Lent {
    picture: MonoImage,
    speed_mps: Option<f32>,
}

impl Lent {
    fn new(shape: &MonoShape) -> Self {
        Self {
            picture: MonoImage::new(shape.kind, shape.size),
            speed_mps: None,
        }
    }

    fn copy(&mut self, image: &MonoImage, speed_mps: Option<f32>) {
        self.picture.copy_from(image);
        self.speed_mps = speed_mps;
    }
}

/// Egomotion, then foreground.
struct Still {
    egomotion: egomotion::cpu::Plan,
    foreground: foreground::cpu::Plan,
    /// Of a thread aside: what it reads and writes.
    aside: Option<(Lent, Motion, Foreground)>,
}

impl Still {
    fn compute(
        egomotion: &mut egomotion::cpu::Plan,
        foreground: &mut foreground::cpu::Plan,
        (image, speed_mps): (&MonoImage, Option<f32>),
        (motion, mask): (&mut Motion, &mut Foreground),
        done: &mut dyn FnMut(StageId),
    ) {
        egomotion.run(egomotion::Input { image, speed_mps }, motion);
        done(StageId::Egomotion);
        let input = foreground::cpu::Input {
            image,
            motion,
            known_foreground: None,
        };
        foreground.run(input, mask);
        done(StageId::Foreground);
    }
}

impl Work for Still {
    fn run(&mut self, done: &mut dyn FnMut(StageId)) {
        if let Some((lent, motion, mask)) = &mut self.aside {
            let input = (&lent.picture, lent.speed_mps);
            let (egomotion, foreground) = (&mut self.egomotion, &mut self.foreground);
            Self::compute(egomotion, foreground, input, (motion, mask), done);
        }
    }
}

/// Logos.
struct Marks {
    plan: logo::cpu::Plan,
    aside: Option<(Lent, Logos)>,
}

impl Work for Marks {
    fn run(&mut self, done: &mut dyn FnMut(StageId)) {
        if let Some((lent, logos)) = &mut self.aside {
            let image = &lent.picture;
            self.plan.run(logo::Input { image }, logos);
            done(StageId::Logo);
        }
    }
}

impl CpuMono {
    /// Takes all memory that the stages need.
    ///
    /// # Errors
    /// When a stage can't work with its parameters or this shape, or threads are refused.
    pub fn new(config: &Config, shape: &MonoShape) -> Result<Self, ChainError> {
        let MonoShape { kind, size, .. } = *shape;
        let mask = shape.mask.as_ref();
        let overlap = config.frame_loop.overlap;
        let wanted = usize::from(shape.foreground) + usize::from(shape.logos.is_some());
        let crew = overlap.then(|| Crew::new(wanted)).transpose()?;
        let mut units = Vec::new();
        let mut still = None;
        if shape.foreground {
            let work = Still {
                egomotion: egomotion::cpu::Plan::with_mask(&config.egomotion, kind, size, mask)?,
                foreground: foreground::cpu::Plan::with_mask(&config.foreground, kind, size, mask)?,
                aside: overlap.then(|| {
                    let result = (Motion::default(), Foreground::new(size));
                    (Lent::new(shape), result.0, result.1)
                }),
            };
            still = Some(Seat::new(STILL, work, crew.as_ref()));
            units.push(STILL);
        }
        let mut logo = None;
        if let Some(templates) = &shape.logos {
            let templates = Arc::clone(templates);
            let plan = logo::cpu::Plan::with_mask(&config.logo, templates, kind, size, mask)?;
            let aside = overlap.then(|| (Lent::new(shape), Logos::new()));
            logo = Some(Seat::new(LOGO, Marks { plan, aside }, crew.as_ref()));
            units.push(LOGO);
        }
        Ok(Self {
            still,
            logo,
            units,
            beside: true,
            _crew: crew,
        })
    }

    /// Whether its units may be under way beside the stereo chain; they may where this is not
    /// called.
    #[must_use]
    pub fn beside(mut self, beside: bool) -> Self {
        self.beside = beside;
        self
    }

    fn compute(
        &mut self,
        unit: Unit,
        image: &MonoImage,
        speed_mps: Option<f32>,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) {
        let mut from = laps.now();
        let mut done = |stage| from = laps.lap(stage, from);
        if unit == LOGO {
            let work = self.logo.as_mut().and_then(Seat::here_mut);
            if let (Some(work), Some(logos)) = (work, &mut result.logos) {
                work.plan.run(logo::Input { image }, logos);
                done(StageId::Logo);
            }
            return;
        }
        let work = self.still.as_mut().and_then(Seat::here_mut);
        if let (Some(work), Some(motion), Some(mask)) =
            (work, &mut result.motion, &mut result.foreground)
        {
            let (egomotion, foreground) = (&mut work.egomotion, &mut work.foreground);
            let (input, output) = ((image, speed_mps), (motion, mask));
            Still::compute(egomotion, foreground, input, output, &mut done);
        }
    }

    /// Sends a unit's work to its thread with a copy of the picture.
    fn send(
        &mut self,
        unit: Unit,
        image: &MonoImage,
        speed_mps: Option<f32>,
        laps: &Laps<'_>,
    ) -> bool {
        if unit == LOGO {
            let Some(seat) = self.logo.as_mut().filter(|seat| seat.is_ready()) else {
                return false;
            };
            if let Some(work) = seat.here_mut()
                && let Some((lent, _)) = &mut work.aside
            {
                lent.copy(image, speed_mps);
            }
            return seat.send(laps);
        }
        let Some(seat) = self.still.as_mut().filter(|seat| seat.is_ready()) else {
            return false;
        };
        if let Some(work) = seat.here_mut()
            && let Some((lent, ..)) = &mut work.aside
        {
            lent.copy(image, speed_mps);
        }
        seat.send(laps)
    }

    /// Takes a unit's work back, and its result over.
    fn take_back(
        &mut self,
        unit: Unit,
        result: &mut FrameResult,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        if unit == LOGO {
            if let Some(seat) = &mut self.logo
                && let Some(work) = seat.take_back(laps)?
                && let (Some((_, found)), Some(logos)) = (&mut work.aside, &mut result.logos)
            {
                mem::swap(found, logos);
            }
            return Ok(());
        }
        if let Some(seat) = &mut self.still
            && let Some(work) = seat.take_back(laps)?
            && let (Some((_, found, mask)), Some(motion), Some(foreground)) =
                (&mut work.aside, &mut result.motion, &mut result.foreground)
        {
            *motion = *found;
            mem::swap(mask, foreground);
        }
        Ok(())
    }

    fn still(&self) -> Option<&Still> {
        self.still.as_ref().and_then(Seat::here)
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

    /// Only with a picture of the mono camera's: the left one in its place is not there before the
    /// stereo chain is done.
    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let this = self.units[unit];
        let picture = slot.set.mono.as_ref().filter(|_| self.beside);
        let picture = picture.and_then(|mono| mono.usable());
        Ok(picture.is_some_and(|image| self.send(this, image, slot.set.speed_mps, laps)))
    }

    fn start_behind(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let this = self.units[unit];
        let sent = on_picture(slot, |image, speed, _| self.send(this, image, speed, laps));
        Ok(sent.unwrap_or(false))
    }

    fn wait(
        &mut self,
        unit: usize,
        until: Timestamp,
        laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        Ok(match self.units[unit] {
            LOGO => self.logo.as_ref().is_none_or(|s| s.wait(until, laps)),
            _ => self.still.as_ref().is_none_or(|s| s.wait(until, laps)),
        })
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        self.take_back(self.units[unit], &mut slot.result, laps)
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        withdraw(self.units[unit], slot);
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        match self.still.as_mut().and_then(Seat::here_mut) {
            Some(work) => work.foreground.restore(snapshot),
            None => Ok(()),
        }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        self.still().map(|work| work.foreground.snapshot())
    }

    fn save(&self, to: &mut Vec<u8>) -> bool {
        let logo = self.logo.as_ref().map(Seat::here);
        let still = self.still.as_ref().map(Seat::here);
        if matches!(still, Some(None)) || matches!(logo, Some(None)) {
            // A thread aside has it.
            return false;
        }
        if let Some(Some(work)) = still {
            sections::save(to, StageId::Egomotion, &work.egomotion);
            sections::save(to, StageId::Foreground, &work.foreground);
        }
        if let Some(Some(work)) = logo {
            sections::save(to, StageId::Logo, &work.plan);
        }
        true
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        if let Some(work) = self.still.as_mut().and_then(Seat::here_mut) {
            sections::load(state, StageId::Egomotion, &mut work.egomotion)?;
            sections::load(state, StageId::Foreground, &mut work.foreground)?;
        }
        match self.logo.as_mut().and_then(Seat::here_mut) {
            Some(work) => sections::load(state, StageId::Logo, &mut work.plan),
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
