//! The stereo chain on the CPU: the stages' reference plans in the order of the loop.
use crate::{
    calib::Rectification,
    config::Config,
    frame::{Camera, Disparity, Gap, INVALID, Mask, RoadOrigin, Size, StereoFrame, Street},
    stage::{
        Stage as _, egomotion, foreground, forest, logo,
        rectify::{self, Rectified},
        road,
        state::StateError,
        stereo, stixel,
    },
};

use super::{
    Backend, BackendError, Laps, Slot, StageId, Unit, backend::sections, slot::StreetSlot,
};

/// On the CPU each stage is a unit of its own.
const fn unit(stage: StageId) -> Unit {
    Unit {
        stages: match stage {
            StageId::Rectify => &[StageId::Rectify],
            StageId::Stereo => &[StageId::Stereo],
            StageId::Road => &[StageId::Road],
            StageId::Stixel => &[StageId::Stixel],
            StageId::Egomotion => &[StageId::Egomotion],
            StageId::Foreground => &[StageId::Foreground],
            StageId::Logo => &[StageId::Logo],
            StageId::Forest => &[StageId::Forest],
        },
    }
}

/// Why a chain of stages can't be built.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The rectification does not fit.
    #[error(transparent)]
    Rectify(#[from] rectify::RectifyError),
    /// Parameters of the stereo stage.
    #[error(transparent)]
    Stereo(#[from] stereo::ParamsError),
    /// Parameters of the road stage.
    #[error(transparent)]
    Road(#[from] road::ParamsError),
    /// Parameters of the stixel stage.
    #[error(transparent)]
    Stixel(#[from] stixel::ParamsError),
    /// Parameters of the egomotion stage.
    #[error(transparent)]
    Egomotion(#[from] egomotion::ParamsError),
    /// Parameters of the foreground stage.
    #[error(transparent)]
    Foreground(#[from] foreground::ParamsError),
    /// Parameters or templates of the logo stage.
    #[error(transparent)]
    Logo(#[from] logo::ParamsError),
    /// Parameters or the model of the label stage.
    #[error(transparent)]
    Forest(#[from] forest::ParamsError),
    /// The threads that compute beside the loop's are refused.
    #[error(
        "the threads that compute beside the loop are refused: {0}; frame_loop.overlap = false does without"
    )]
    Threads(String),
    /// The GPU: memory, kernels, driver.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Gpu(#[from] crate::cuda::GpuError),
}

/// What the stereo images of a drive (or of a part with one camera and one size) look like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Of the pictures.
    pub size: Size,
    /// Whether they have colour.
    pub colour: bool,
    /// Whether disparities are stored with them.
    pub stored_disparity: bool,
    /// Which raw pixels may be used.
    pub mask: Option<Mask>,
}

/// Plans of the stages of the stereo chain for one shape.
pub struct CpuBackend {
    rectify: rectify::cpu::Plan,
    stereo: Option<stereo::cpu::Plan>,
    road: road::cpu::Plan,
    stixel: stixel::cpu::Plan,
    camera: Camera,
    shape: Shape,
    units: Vec<Unit>,
}

impl CpuBackend {
    /// Takes all memory that the stages need.
    ///
    /// # Errors
    /// When a stage can't work with its parameters or this shape.
    pub fn new(
        config: &Config,
        rectification: &Rectification,
        shape: &Shape,
    ) -> Result<Self, ChainError> {
        let size = shape.size;
        let camera = rectification.camera;
        let rectify = rectify::cpu::Plan::new(rectification, size, shape.mask.as_ref())?;
        let range = usize::from(config.stereo.disparities);
        let stereo = (!shape.stored_disparity)
            .then(|| stereo::cpu::Plan::new(&config.stereo, size, rectify.mask()))
            .transpose()?;
        Ok(Self {
            road: road::cpu::Plan::new(&config.road, size, &camera, range, rectify.mask())?,
            stixel: stixel::cpu::Plan::new(&config.stixel, size, &camera, range)?,
            units: StageId::ORDER
                .into_iter()
                .filter(|stage| match stage {
                    StageId::Rectify | StageId::Road | StageId::Stixel => true,
                    StageId::Stereo => stereo.is_some(),
                    _ => false,
                })
                .map(unit)
                .collect(),
            rectify,
            stereo,
            camera,
            shape: shape.clone(),
        })
    }

    /// The rectified camera.
    pub fn camera(&self) -> Camera {
        self.camera
    }

    /// A slot for frames of this shape.
    pub fn slot(&self) -> Slot {
        let Shape { size, colour, .. } = self.shape;
        let mut set = StereoFrame::new(size);
        if self.shape.stored_disparity {
            set.right = None;
        }
        Slot {
            set: Box::new(set.into()),
            rectified: Some(Rectified::new(size, self.stereo.is_some(), colour)),
            result: Street::new(size, self.stixel.output()).into(),
        }
    }
}

impl Backend for CpuBackend {
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
        let from = laps.now();
        // Slots of this backend have one.
        let Some(StreetSlot {
            set,
            rectified,
            street: result,
            gaps,
        }) = slot.street()
        else {
            return Ok(());
        };
        let stage = self.units()[unit].stages[0];
        match stage {
            StageId::Rectify => {
                let input = rectify::Input {
                    left: &set.left,
                    right: set.right.as_ref().filter(|_| rectified.right.is_some()),
                    left_rgb: set.left_rgb.as_ref(),
                };
                self.rectify.run(input, rectified);
                if let Some(stored) = &set.stored_disparity {
                    result.disparity.copy_from(stored);
                    if let Some(mask) = self.rectify.mask() {
                        invalidate(&mut result.disparity, mask);
                    }
                }
            }
            StageId::Stereo => {
                if let (Some(plan), Some(right)) = (&mut self.stereo, &rectified.right) {
                    let left = &rectified.left;
                    plan.run(stereo::Input { left, right }, &mut result.disparity);
                }
            }
            StageId::Road => {
                self.road.run(&result.disparity, &mut result.road);
                if matches!(result.road.origin, RoadOrigin::Held | RoadOrigin::Assumed) {
                    gaps.insert(Gap::RoadHeld);
                }
            }
            StageId::Stixel => {
                let input = stixel::Input {
                    disparity: &result.disparity,
                    road: &result.road,
                };
                self.stixel.run(input, &mut result.stixels);
                if result.stixels.overflowed() > 0 {
                    gaps.insert(Gap::StixelOverflow);
                }
            }
            // Not of the stereo chain.
            StageId::Egomotion | StageId::Foreground | StageId::Logo | StageId::Forest => {}
        }
        laps.lap(stage, from);
        Ok(())
    }

    fn withdraw(&mut self, _unit: usize, _slot: &mut Slot) {
        // No unit of this backend is optional.
    }

    fn save(&self, to: &mut Vec<u8>) -> bool {
        sections::save(to, StageId::Road, &self.road);
        true
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        sections::load(state, StageId::Road, &mut self.road)
    }
}

/// Masked pixels say nothing, wherever their disparity comes from.
pub(super) fn invalidate(disparity: &mut Disparity, mask: &Mask) {
    for (row, usable) in disparity.rows_mut().zip(mask.rows()) {
        for (d, _) in row.iter_mut().zip(usable).filter(|(_, m)| **m == 0) {
            *d = INVALID;
        }
    }
}
