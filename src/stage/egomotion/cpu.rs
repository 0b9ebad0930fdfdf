//! The reference, and the backend where there is no GPU.
use rayon::prelude::*;

use super::{
    Input, MAX_SIDE, Params, ParamsError,
    corner::{self, Corner, Grid, Scratch},
    pyramid::{self, Pyramid},
    state::{self, Measured, Memory, Rules},
    track::{self, Shift, UNIT},
};
use crate::{
    frame::{Mask, Motion, PixelKind, Size},
    maths::homography::{Pair, Ransac},
    stage::{
        Stage,
        state::{StateError, StateReader, StateWriter},
    },
};

/// Goes up with every change of a saved state.
pub(super) const STATE: u8 = 1;

/// Points that a thread follows at a time.
const BATCH: usize = 32;

/// The egomotion stage for frames of one kind and size.
#[derive(Clone, Debug)]
pub struct Plan {
    kind: PixelKind,
    size: Size,
    pub(super) shift: u32,
    pub(super) min_texture: f32,
    pub(super) min_correlation: f32,
    pub(super) max_return: i32,
    pub(super) ransac: Ransac,
    pub(super) rules: Rules,
    pub(super) grid: Grid,
    /// Pixels that may be used, and which of the grid's level may be corners.
    pub(super) usable: Option<[Mask; 2]>,
    /// This frame and the one before.
    now: Pyramid,
    before: Pyramid,
    scratch: Vec<Scratch>,
    corners: Vec<Corner>,
    shifts: Vec<Option<Shift>>,
    pairs: Vec<Pair>,
    inliers: Vec<bool>,
    memory: Memory,
}

impl Plan {
    /// A plan for frames of this kind and size.
    ///
    /// # Errors
    /// With the first parameter that is out of its range; for sizes without pixels and for sides
    /// above [`MAX_SIDE`].
    pub fn new(params: &Params, kind: PixelKind, size: Size) -> Result<Self, ParamsError> {
        Self::with_mask(params, kind, size, None)
    }

    /// The same; pixels that are 0 in `mask` are never used.
    ///
    /// # Errors
    /// As [`Plan::new`], and for a mask of another size.
    pub fn with_mask(
        params: &Params,
        kind: PixelKind,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, ParamsError> {
        params.validate()?;
        let sides = 1..=MAX_SIDE;
        if !(sides.contains(&size.width) && sides.contains(&size.height)) {
            return Err(ParamsError::Size(size));
        }
        if let Some(mask) = mask
            && mask.size() != size
        {
            return Err(ParamsError::Mask {
                found: mask.size(),
                expected: size,
            });
        }
        let levels = pyramid::levels(size);
        let grid = Grid::new(&levels);
        let usable = mask.map(|mask| [mask.clone(), grid.allowed(levels[grid.level], mask)]);
        Ok(Self {
            kind,
            size,
            shift: params.grey16_shift,
            min_texture: params.min_texture,
            min_correlation: params.min_correlation,
            max_return: (params.max_return_px * UNIT as f32) as i32,
            ransac: Ransac {
                hypotheses: params.hypotheses,
                threshold_px: params.inlier_px,
                min_area: 256.0,
                ..Ransac::default()
            },
            rules: Rules::new(params, size),
            now: Pyramid::new(size),
            before: Pyramid::new(size),
            scratch: vec![Scratch::new(levels[grid.level].width); grid.rows],
            corners: vec![Corner::default(); grid.cells()],
            shifts: vec![None; grid.cells()],
            pairs: Vec::with_capacity(grid.cells()),
            inliers: vec![false; grid.cells()],
            memory: Memory::default(),
            usable,
            grid,
        })
    }

    /// Follows this frame's corners into the frame before.
    fn follow(&mut self) {
        let (now, before) = (&self.now.levels, &self.before.levels);
        let (correlation, back) = (self.min_correlation, self.max_return);
        self.shifts
            .par_chunks_mut(BATCH)
            .zip(self.corners.par_chunks(BATCH))
            .for_each(|(shifts, corners)| {
                for (shift, corner) in shifts.iter_mut().zip(corners) {
                    let (x, y) = (corner.x.into(), corner.y.into());
                    *shift = if corner.found {
                        track::follow(now, before, x, y, correlation, back)
                    } else {
                        None
                    };
                }
            });
    }

    fn measure(&mut self) -> (Measured, Option<[f32; 9]>) {
        let mut measured = Measured::default();
        self.pairs.clear();
        for (corner, shift) in self.corners.iter().zip(&self.shifts) {
            measured.corners += u32::from(corner.found);
            let Some(shift) = shift else { continue };
            measured.add(*shift, &self.rules);
            let from = [f32::from(corner.x), f32::from(corner.y)];
            let to = |i: usize| from[i] + shift[i] as f32 / UNIT as f32;
            self.pairs.push(Pair {
                from,
                to: [to(0), to(1)],
            });
        }
        let estimate = self.ransac.estimate(&self.pairs, &mut self.inliers);
        let found = estimate.and_then(|e| Some((e.homography.normalised()?.to_f32(), e.inliers)));
        if let Some((homography, inliers)) = found {
            measured.inliers = inliers;
            measured.sway = state::sway(&homography, self.size);
        }
        (measured, found.map(|f| f.0))
    }
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Motion;

    /// # Panics
    /// When the frame is of another kind or size than the plan.
    fn run(&mut self, input: Input<'_>, output: &mut Motion) {
        assert_eq!(
            (input.image.kind(), input.image.size()),
            (self.kind, self.size),
            "a frame of another kind or size"
        );
        std::mem::swap(&mut self.now, &mut self.before);
        let [mask, allowed] = match &self.usable {
            Some([mask, allowed]) => [Some(mask), Some(allowed)],
            None => [None, None],
        };
        self.now.build(input.image, self.shift, mask);
        let (measured, homography) = if self.memory.frames == 0 {
            (Measured::default(), None)
        } else {
            corner::find(
                &self.now.levels[self.grid.level],
                &self.grid,
                allowed,
                self.min_texture,
                &mut self.scratch,
                &mut self.corners,
            );
            self.follow();
            self.measure()
        };
        let speed = input.speed_mps.filter(|speed| !speed.is_nan());
        let moved = self.memory.advance(&measured, speed, &self.rules);
        *output = Motion {
            state: self.memory.state,
            homography: homography.filter(|_| moved).unwrap_or(Motion::IDENTITY),
            tracked: measured.tracked as u16,
            inliers: measured.inliers as u16,
        };
    }

    fn reset(&mut self) {
        self.memory = Memory::default();
    }

    fn save(&self, to: &mut StateWriter<'_>) {
        to.shape(STATE, Some(self.kind), self.size);
        self.memory.save(to);
        // The next frame's corners are looked for in this one; its levels follow from the first.
        self.now.save(to);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.reset();
        from.shape(STATE, Some(self.kind), self.size)?;
        let memory = Memory::load(from)?;
        self.now.load(from)?;
        from.end()?;
        self.memory = memory;
        Ok(())
    }
}
