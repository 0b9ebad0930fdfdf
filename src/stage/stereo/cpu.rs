//! The backend where there is no GPU: [`model`](super::model)'s bytes, fast.
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use super::{
    Input, Params, ParamsError,
    filter::{Gaps, Speckles},
    kernel::{BLOCK, Frame, Scratch, Winner, bounds, state_len},
    simd::{self, Isa},
};
use crate::{
    frame::{DISPARITY_ONE, Disparity, INVALID, Image, Mask, Size},
    stage::Stage,
};

/// Columns that one task sweeps where no path crosses columns: their state fits into the cache.
const SWEPT_COLUMNS: usize = 64;

/// Pixels of the border of a census window.
const BORDER: usize = 4;

/// Paths through some columns in one vertical direction.
struct Sweep {
    up: bool,
    x0: usize,
    columns: usize,
    states: Vec<u8>,
    checkpoints: Vec<u8>,
}

/// The stereo stage for one image size.
pub struct Plan {
    params: Params,
    size: Size,
    isa: Isa,
    mask: Vec<u8>,
    p2: [u8; 256],
    bounds: Vec<u16>,
    left: Vec<u8>,
    /// The two images with [`BORDER`] more pixels on both sides.
    padded: [Vec<u8>; 2],
    left_census: Vec<[u8; 4]>,
    /// Planes of the left census before they are packed, one row after the other.
    left_planes: Vec<u8>,
    right_census: Vec<u8>,
    sweeps: Vec<Sweep>,
    /// One for each thread that may be at work.
    scratch: Vec<Mutex<Scratch>>,
    /// Winners, one invalid pixel around them.
    winners: Vec<u16>,
    filtered: Vec<u16>,
    speckles: Speckles,
    last_valid: Vec<u32>,
}

impl Plan {
    /// A plan for images of `size`, to be run by the threads of the current rayon pool (it works
    /// in any other, perhaps not as fast). Pixels where `mask` is 0 stay invalid.
    ///
    /// # Errors
    /// When a parameter, the size or the mask's size is not usable.
    pub fn new(params: &Params, size: Size, mask: Option<&Mask>) -> Result<Self, ParamsError> {
        Self::with_isa(params, size, mask, Isa::detect())
    }

    /// As [`Plan::new`], once for each set of instructions that this processor has; to compare
    /// them.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn each(
        params: &Params,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Vec<Self>, ParamsError> {
        Isa::available()
            .map(|isa| Self::with_isa(params, size, mask, isa))
            .collect()
    }

    fn with_isa(
        params: &Params,
        size: Size,
        mask: Option<&Mask>,
        isa: Isa,
    ) -> Result<Self, ParamsError> {
        params.check_size(size, mask.map(Image::size))?;
        let Size { width, height } = size;
        let d = usize::from(params.disparities);
        let (n, columns) = match params.paths {
            8 => (3, width),
            _ => (1, SWEPT_COLUMNS),
        };
        let blocks = height.div_ceil(BLOCK);
        let sweeps = (0..width)
            .step_by(columns)
            .flat_map(|x0| [(x0, false), (x0, true)])
            .map(|(x0, up)| {
                let columns = columns.min(width - x0);
                let states = vec![u8::MAX; n * columns * state_len(d)];
                Sweep {
                    up,
                    x0,
                    columns,
                    checkpoints: vec![0; blocks * states.len()],
                    states,
                }
            })
            .collect();
        let threads = rayon::current_num_threads().clamp(1, blocks);
        let scratch = (0..threads).map(|_| Mutex::new(Scratch::new(width, d, n)));
        let padded = vec![0; (width + 2 * BORDER) * height];
        Ok(Self {
            params: params.clone(),
            size,
            isa,
            mask: mask.map_or(Vec::new(), |m| m.pixels().copied().collect()),
            p2: params.p2_table(),
            bounds: bounds(params.uniqueness_percent),
            left: vec![0; size.area()],
            padded: [padded.clone(), padded],
            left_census: vec![[0; 4]; size.area()],
            left_planes: vec![0; 4 * size.area()],
            right_census: vec![0; 4 * (width + d) * height],
            sweeps,
            scratch: scratch.collect(),
            winners: vec![INVALID; (width + 2) * (height + 2)],
            filtered: vec![INVALID; size.area()],
            speckles: Speckles::new(width, height),
            last_valid: vec![0; width],
        })
    }

    /// The images' size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Bytes that the plan owns.
    pub fn bytes(&self) -> usize {
        let bytes = [
            &self.mask,
            &self.left,
            &self.padded[0],
            &self.padded[1],
            &self.left_planes,
            &self.right_census,
        ];
        let sweeps = self.sweeps.iter();
        bytes.iter().map(|b| b.len()).sum::<usize>()
            + sweeps
                .map(|s| s.states.len() + s.checkpoints.len())
                .sum::<usize>()
            + self.scratch.iter().map(|s| lock(s).bytes()).sum::<usize>()
            + 2 * (self.winners.len() + self.filtered.len() + self.bounds.len())
            + self.speckles.bytes()
            + 4 * (self.last_valid.len() + self.left_census.len())
    }

    fn census(&mut self, input: Input<'_>) {
        let Size { width, height } = self.size;
        let wide = width + 2 * BORDER;
        for (padded, image) in self.padded.iter_mut().zip([input.left, input.right]) {
            assert_eq!(image.size(), self.size, "an image of another size");
            for (to, from) in padded.chunks_exact_mut(wide).zip(image.rows()) {
                to[..BORDER].fill(from[0]);
                to[BORDER..][..width].copy_from_slice(from);
                to[BORDER + width..].fill(from[width - 1]);
            }
        }
        for (to, from) in self.left.chunks_exact_mut(width).zip(input.left.rows()) {
            to.copy_from_slice(from);
        }
        let isa = self.isa;
        let window = |image: &'_ [u8], y: usize, planes: &mut [u8]| {
            let row = |i: usize| {
                let y = (y + i).saturating_sub(3).min(height - 1);
                &image[y * wide..][..wide]
            };
            let rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6)];
            simd::census_row(isa, rows, planes);
        };
        let [left, right] = &self.padded;
        let d = usize::from(self.params.disparities);
        self.left_census
            .par_chunks_exact_mut(width)
            .zip(self.left_planes.par_chunks_exact_mut(4 * width))
            .zip(self.right_census.par_chunks_exact_mut(4 * (width + d)))
            .enumerate()
            .for_each(|(y, ((to_left, planes), to_right))| {
                window(left, y, planes);
                for (x, to) in to_left.iter_mut().enumerate() {
                    *to = std::array::from_fn(|i| planes[i * width + x]);
                }
                // Packed first; then mirrored, the last plane first, to its place.
                window(right, y, &mut to_right[..4 * width]);
                for plane in (0..4).rev() {
                    to_right.copy_within(plane * width..(plane + 1) * width, plane * (width + d));
                    to_right[plane * (width + d)..][..width].reverse();
                }
            });
    }

    fn aggregate<const D: usize, const N: usize>(&mut self) {
        let Size { width, height } = self.size;
        let isa = self.isa;
        let frame = Frame {
            width,
            height,
            left: &self.left,
            left_census: &self.left_census,
            right_census: &self.right_census,
            mask: &self.mask,
            p1: self.params.p1 as u8,
            p2: &self.p2,
            outside: self.params.outside_cost as u8,
        };
        let winner = Winner {
            bounds: &self.bounds,
            isa,
            left_right_max: self
                .params
                .left_right
                .then_some(self.params.left_right_max_px),
            subpixel: self.params.subpixel,
        };
        self.sweeps.par_iter_mut().for_each(|sweep| {
            let columns = (sweep.x0, sweep.columns);
            let (states, checkpoints) = (&mut sweep.states, &mut sweep.checkpoints);
            simd::sweep::<D, N>(isa, &frame, columns, sweep.up, states, checkpoints);
        });

        let (sweeps, scratch) = (&self.sweeps, &self.scratch);
        let wide = width + 2;
        self.winners[wide..][..height * wide]
            .par_chunks_mut(BLOCK * wide)
            .enumerate()
            .for_each(|(block, out)| {
                let mut scratch = free(scratch);
                for sweep in sweeps {
                    let states = if sweep.up {
                        &mut scratch.up_states
                    } else {
                        &mut scratch.down_states
                    };
                    let len = sweep.states.len();
                    states[sweep.x0 * state_len(D)..][..len]
                        .copy_from_slice(&sweep.checkpoints[block * len..][..len]);
                }
                let rows = (block * BLOCK, ((block + 1) * BLOCK).min(height));
                simd::block::<D, N>(isa, &frame, rows, winner, &mut scratch, out);
            });
    }

    fn filter(&mut self, output: &mut Disparity) {
        let Size { width, .. } = self.size;
        let wide = width + 2;
        let (isa, winners, median) = (self.isa, &self.winners, self.params.median);
        self.filtered
            .par_chunks_exact_mut(width)
            .enumerate()
            .for_each(|(y, to)| {
                let row = |i: usize| &winners[(y + i) * wide..][..wide];
                if median {
                    simd::median_row(isa, [row(0), row(1), row(2)], to);
                } else {
                    to.copy_from_slice(&row(1)[1..=width]);
                }
            });
        let params = &self.params;
        if params.speckle_max_area_px > 0 {
            let step = params.speckle_max_step_px * DISPARITY_ONE;
            let area = params.speckle_max_area_px;
            self.speckles.remove(&mut self.filtered, width, area, step);
        }
        if params.gap_max_px > 0 {
            let gaps = Gaps {
                max_len: params.gap_max_px.into(),
                max_step: params.gap_max_step_px * DISPARITY_ONE,
            };
            self.filtered
                .par_chunks_exact_mut(width)
                .for_each(|row| gaps.close_row(row));
            gaps.close_columns(&mut self.filtered, &mut self.last_valid);
        }
        for (disparity, mask) in self.filtered.iter_mut().zip(&self.mask) {
            if *mask == 0 {
                *disparity = INVALID;
            }
        }
        for (to, from) in output.rows_mut().zip(self.filtered.chunks_exact(width)) {
            to.copy_from_slice(from);
        }
    }
}

fn lock(scratch: &Mutex<Scratch>) -> MutexGuard<'_, Scratch> {
    // A scratch holds nothing from one block to the next that could be half done.
    scratch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scratch that no other thread uses; there are as many as threads, unless the pool has grown.
fn free(scratch: &[Mutex<Scratch>]) -> MutexGuard<'_, Scratch> {
    let own = rayon::current_thread_index().unwrap_or(0) % scratch.len();
    let (before, from_own) = scratch.split_at(own);
    from_own
        .iter()
        .chain(before)
        .find_map(|s| s.try_lock().ok())
        .unwrap_or_else(|| lock(&scratch[own]))
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Disparity;

    fn run(&mut self, input: Input<'_>, output: &mut Disparity) {
        assert_eq!(output.size(), self.size, "an output of another size");
        self.census(input);

        match (self.params.disparities, self.params.paths) {
            (64, 4) => self.aggregate::<64, 1>(),
            (128, 4) => self.aggregate::<128, 1>(),
            (_, 4) => self.aggregate::<256, 1>(),
            (64, _) => self.aggregate::<64, 3>(),
            (128, _) => self.aggregate::<128, 3>(),
            _ => self.aggregate::<256, 3>(),
        }
        self.filter(output);
    }
}
