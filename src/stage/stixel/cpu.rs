//! The reference, and the backend where there is no GPU.
use rayon::prelude::*;

use crate::{
    frame::{Camera, Disparity, Size, Stixel, Stixels},
    stage::Stage,
};

use super::{
    Input, Params, ParamsError, backtrack::backtrack, dp::Scratch, ground::Ground, reduce::reduce,
    tables::Tables,
};

/// Chunks of columns for each thread of the pool that the plan is built in, so that a thread
/// with easy columns finds more to do. The result does not depend on it.
const CHUNKS_PER_THREAD: usize = 4;

/// The stixel stage for one image size.
#[derive(Debug)]
pub struct Plan {
    size: Size,
    columns: usize,
    tables: Tables,
    ground: Ground,
    workers: Vec<Worker>,
}

/// Memory for one chunk of neighbouring columns.
#[derive(Debug)]
struct Worker {
    first: usize,
    scratch: Scratch,
    counts: Vec<u16>,
    stixels: Vec<Stixel>,
    overflowed: u32,
}

impl Plan {
    /// A plan for disparity images of `size`, from `camera`, whose disparities lie in
    /// `0..disparities` px (64, 128 or 256). There are `width / stixel_width` columns, which may
    /// be none; pixels to the right of the last whole column are not looked at.
    ///
    /// # Errors
    /// When a parameter, the camera, the range or the height is not usable.
    pub fn new(
        params: &Params,
        size: Size,
        camera: &Camera,
        disparities: usize,
    ) -> Result<Self, ParamsError> {
        let tables = Tables::new(params, size, camera, disparities)?;
        let columns = size.width / params.stixel_width;
        let chunks = (rayon::current_num_threads() * CHUNKS_PER_THREAD).clamp(1, columns.max(1));
        let chunk = columns.div_ceil(chunks).max(1);
        let capacity = params.max_stixels_per_column;
        let workers = (0..columns)
            .step_by(chunk)
            .map(|first| {
                let n = chunk.min(columns - first);
                Worker {
                    first,
                    scratch: Scratch::new(size.height, disparities),
                    counts: vec![0; n],
                    stixels: vec![Stixel::default(); n * capacity],
                    overflowed: 0,
                }
            })
            .collect();
        Ok(Self {
            size,
            columns,
            ground: Ground::new(size.height),
            tables,
            workers,
        })
    }

    /// Lists of this plan's shape, for [`Stage::run`].
    pub fn output(&self) -> Stixels {
        let params = &self.tables.params;
        Stixels::new(
            self.columns,
            params.stixel_width,
            params.max_stixels_per_column,
        )
    }

    /// The image size that it was built for.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Columns of its output.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of the buffers that it holds, tables apart.
    pub fn scratch_bytes(&self) -> usize {
        self.workers
            .iter()
            .map(|w| w.scratch.bytes() + w.stixels.len() * size_of::<Stixel>())
            .sum()
    }
}

impl Worker {
    fn run(&mut self, tables: &Tables, ground: &Ground, disparity: &Disparity) {
        self.overflowed = 0;
        let capacity = tables.params.max_stixels_per_column;
        let lists = self.stixels.chunks_exact_mut(capacity);
        for (i, (count, list)) in self.counts.iter_mut().zip(lists).enumerate() {
            let scratch = &mut self.scratch;
            reduce(tables, disparity, self.first + i, &mut scratch.measured);
            scratch.edge = tables.edge(self.first + i);
            scratch.solve(tables, ground);
            let (n, short) = backtrack(tables, ground, scratch, list);
            *count = n;
            self.overflowed += u32::from(short);
        }
    }
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Stixels;

    /// # Panics
    /// When the disparity has another size than the plan, or the output another shape.
    fn run(&mut self, input: Input<'_>, output: &mut Stixels) {
        assert_eq!(
            input.disparity.size(),
            self.size,
            "disparity of another size than the stixel plan"
        );
        assert_eq!(
            (output.columns(), output.capacity()),
            (self.columns, self.tables.params.max_stixels_per_column),
            "stixels of another shape than the stixel plan"
        );
        let (tables, ground) = (&self.tables, &mut self.ground);
        ground.set(tables, input.road);
        let ground = &*ground;
        self.workers
            .par_iter_mut()
            .with_max_len(1)
            .for_each(|worker| worker.run(tables, ground, input.disparity));
        output.clear();
        let mut overflowed = 0;
        let (counts, lists) = output.columns_mut();
        let mut columns = counts.iter_mut().zip(lists);
        for worker in &self.workers {
            overflowed += worker.overflowed;
            let capacity = self.tables.params.max_stixels_per_column;
            let solved = worker
                .counts
                .iter()
                .zip(worker.stixels.chunks_exact(capacity));
            for ((&n, from), (count, to)) in solved.zip(&mut columns) {
                *count = n;
                to[..usize::from(n)].copy_from_slice(&from[..usize::from(n)]);
            }
        }
        output.set_overflowed(overflowed);
    }
}
