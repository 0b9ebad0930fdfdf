//! What a loop computes of the frames of one shape, and who computes it.
use std::sync::Arc;

use crate::{
    calib::Rectification,
    config::Config,
    frame::{Mask, PixelKind, Size},
    stage::{forest::Forest, logo::Templates, rectify::usable_pixels},
};

use super::{
    Backend, Chain, ChainError, CpuBackend, CpuLabels, CpuMono, LabelShape, MonoShape, Shape, Slot,
};

/// What stages look for, made outside the loop.
#[derive(Clone, Debug, Default)]
pub struct Models {
    /// The logos that are looked for.
    pub logos: Option<Arc<Templates>>,
    /// The forest that labels the left images.
    pub forest: Option<Arc<Forest>>,
}

impl Models {
    /// The names of the logos.
    pub fn logo_names(&self) -> Vec<String> {
        let names = self.logos.iter().flat_map(|logos| logos.names());
        names.map(str::to_owned).collect()
    }
}

/// Stereo chain, mono chain and labels, in the order in which they are computed.
pub type AllParts<S, M, L> = Chain<Chain<S, M>, L>;

/// The parts of a loop: each is there where there is something to compute it from, and where it
/// is asked for.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// The stereo chain.
    pub street: Option<(&'a Rectification, Shape)>,
    /// What is computed from the mono images, or from the left ones in their place.
    pub mono: Option<MonoShape>,
    /// Labels of the left images; only behind the stereo chain.
    pub labels: Option<LabelShape>,
}

impl<'a> Parts<'a> {
    /// Of frames with stereo images of this shape, mono images of this kind and size (and of
    /// these usable pixels), or both.
    pub fn new(
        street: Option<(&'a Rectification, Shape)>,
        mono: Option<(PixelKind, Size, Option<Mask>)>,
        foreground: bool,
        models: &Models,
    ) -> Self {
        let stereo = street.as_ref().map(|(_, shape)| (shape.size, shape.colour));
        let labels = street.as_ref().zip(models.forest.as_ref());
        let (mono, mask) = match (mono, &street) {
            (Some((kind, size, mask)), _) => (Some((kind, size)), mask),
            (None, Some((rectification, shape))) => {
                (None, usable_pixels(rectification, shape.mask.as_ref()))
            }
            (None, None) => (None, None),
        };
        let mono = MonoShape::of(mono, stereo, foreground, models.logos.clone());
        Self {
            mono: mono.map(|shape| shape.with_mask(mask)),
            labels: labels.map(|((rectification, shape), forest)| LabelShape {
                size: shape.size,
                colour: shape.colour,
                camera: rectification.camera,
                forest: Arc::clone(forest),
            }),
            street,
        }
    }

    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        self.street.is_none() && self.mono.is_none()
    }

    /// All of it on the CPU, with a slot.
    ///
    /// # Errors
    /// When a stage can't work with its parameters or these shapes.
    pub fn on_cpu(&self, config: &Config) -> Result<(impl Backend + use<>, Slot), ChainError> {
        self.assemble(
            config,
            |rectification, shape| {
                let backend = CpuBackend::new(config, rectification, shape)?;
                let slot = backend.slot();
                Ok((backend, slot))
            },
            |shape| {
                // Without a stereo chain there is nothing to be slowed down.
                let beside = config.frame_loop.overlap_on_cpu || self.street.is_none();
                Ok(CpuMono::new(config, shape)?.beside(beside))
            },
            |shape, _| CpuLabels::new(config, shape),
        )
    }

    /// The street on a GPU, and of the rest what `[cuda]` says; what it does not is on the CPU.
    ///
    /// # Errors
    /// As [`Parts::on_cpu`]; from the driver, or over a memory limit of the context.
    #[cfg(feature = "cuda")]
    pub fn on_cuda(
        &self,
        context: &crate::cuda::Context,
        config: &Config,
    ) -> Result<(impl Backend + use<>, Slot), ChainError> {
        use super::{CudaBackend, CudaLabels, CudaMono, LeftImage, Wanted};
        let wanted = Wanted {
            left: match &self.labels {
                Some(labels) if config.cuda.labels && labels.reads_colour() => LeftImage::Colour,
                Some(_) if config.cuda.labels => LeftImage::Grey,
                _ => LeftImage::None,
            },
            ..Wanted::ALL
        };
        self.assemble(
            config,
            |rectification, shape| {
                let backend = CudaBackend::new(context, config, rectification, shape, wanted)?;
                let slot = backend.slot();
                Ok((backend, slot))
            },
            |shape| -> Result<Box<dyn Backend>, ChainError> {
                Ok(if config.cuda.mono {
                    Box::new(CudaMono::new(context, config, shape)?)
                } else {
                    Box::new(CpuMono::new(config, shape)?)
                })
            },
            |shape, street| -> Result<Box<dyn Backend>, ChainError> {
                Ok(match street {
                    Some(street) if config.cuda.labels => {
                        Box::new(CudaLabels::new(context, config, shape, street)?)
                    }
                    _ => Box::new(CpuLabels::new(config, shape)?),
                })
            },
        )
    }

    /// The backends that are made for the parts (the stereo chain's with a slot; what labels sees
    /// it) as one, and a slot with room for all results.
    ///
    /// # Errors
    /// When one of them can't be made.
    pub fn assemble<S: Backend, M: Backend, L: Backend>(
        &self,
        config: &Config,
        street: impl FnOnce(&Rectification, &Shape) -> Result<(S, Slot), ChainError>,
        mono: impl FnOnce(&MonoShape) -> Result<M, ChainError>,
        labels: impl FnOnce(&LabelShape, Option<&S>) -> Result<L, ChainError>,
    ) -> Result<(AllParts<S, M, L>, Slot), ChainError> {
        let made = self.street.as_ref();
        let made = made.map(|(rectification, shape)| street(rectification, shape));
        let (made_street, mut slot) = match made.transpose()? {
            Some((backend, slot)) => (Some(backend), slot),
            None => (None, Slot::empty()),
        };
        let mut made_mono = None;
        if let Some(shape) = &self.mono {
            shape.furnish(&mut slot);
            made_mono = Some(mono(shape)?);
        }
        let mut made_labels = None;
        if let Some(shape) = &self.labels {
            shape.furnish(config, &mut slot);
            made_labels = Some(labels(shape, made_street.as_ref())?);
        }
        let before = Chain::new(made_street, made_mono);
        Ok((Chain::new(Some(before), made_labels), slot))
    }
}
