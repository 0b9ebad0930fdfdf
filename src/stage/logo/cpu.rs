//! The reference: features, matches, verification and tracking on the CPU.
use std::sync::Arc;

use super::{
    Follower, Input, Params, ParamsError, Templates,
    features::{self, Features, matcher},
};
use crate::{
    frame::{Logos, Mask, PixelKind, Size},
    stage::{
        Stage,
        state::{StateError, StateReader, StateWriter},
    },
};

/// Everything for one size of picture.
pub struct Plan {
    kind: PixelKind,
    features: features::cpu::Plan,
    found: Features,
    matches: Vec<Vec<matcher::Match>>,
    follower: Follower,
}

impl Plan {
    /// Takes all memory.
    ///
    /// # Errors
    /// As [`Follower::new`].
    pub fn new(
        params: &Params,
        templates: Arc<Templates>,
        kind: PixelKind,
        size: Size,
    ) -> Result<Self, ParamsError> {
        Self::with_mask(params, templates, kind, size, None)
    }

    /// The same; pixels that are 0 in `mask` are never used.
    ///
    /// # Errors
    /// As [`Follower::with_mask`].
    pub fn with_mask(
        params: &Params,
        templates: Arc<Templates>,
        kind: PixelKind,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, ParamsError> {
        let follower = Follower::with_mask(params, templates, size, mask)?;
        let keypoints = params.features.capacity();
        Ok(Self {
            kind,
            features: features::cpu::Plan::new(&params.features, size)?,
            found: Features::new(&params.features),
            matches: vec![Vec::with_capacity(keypoints); follower.templates().list().len()],
            follower,
        })
    }

    /// What was found in the last picture.
    pub fn features(&self) -> &Features {
        &self.found
    }
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Logos;

    fn run(&mut self, input: Input<'_>, output: &mut Logos) {
        assert_eq!(input.image.kind(), self.kind, "picture of another kind");
        self.follower.grey(input.image);
        let seen = features::cpu::Input {
            image: self.follower.picture(),
            region: None,
            mask: self.follower.mask(),
        };
        self.features.run(seen, &mut self.found);
        for (template, matches) in self
            .follower
            .templates()
            .list()
            .iter()
            .zip(&mut self.matches)
        {
            matcher::two_nearest_apart(
                &self.found.descriptors,
                template.descriptors(),
                template.groups(),
                matches,
            );
        }
        self.follower
            .step(&self.found.keypoints, &self.matches, output);
    }

    fn reset(&mut self) {
        self.follower.reset();
    }

    fn save(&self, to: &mut StateWriter<'_>) {
        self.follower.save(to);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.follower.load(from)
    }
}
