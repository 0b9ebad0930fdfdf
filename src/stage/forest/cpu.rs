//! The forest on the CPU.
use std::sync::Arc;

use rayon::prelude::*;

use super::{
    Depth, Forest, Input, LabelTable, Labels, Params, ParamsError, PlaneBuilder, Planes,
    feature::{FeatureSpec, dispatch},
    planes::{MAX_SIDE, Pixels},
    walk::{AT_LEAF, Scratch, TILE, Tile, Trees},
};
use crate::{
    frame::{Camera, INVALID, LabelState, Size},
    stage::Stage,
};

/// Classes whose posteriors are summed side by side.
const LANES: usize = 8;

/// Everything for images of one size.
pub struct Plan {
    params: Params,
    feature: FeatureSpec,
    trees: Trees,
    /// Of each leaf, in [`LANES`] at a time; what is beyond the classes is 0.
    posteriors: Vec<u16>,
    /// Indices in label pictures.
    indices: Vec<u8>,
    table: Arc<LabelTable>,
    channels: u8,
    depth_of: Vec<u16>,
    builder: PlaneBuilder,
    planes: Planes,
    /// The columns and rows of the pixels that are judged.
    xs: Vec<i32>,
    ys: Vec<i32>,
    /// One for each band of tiles.
    scratch: Vec<Scratch>,
}

impl Plan {
    /// A plan for images of `size`. Disparities need the `camera` that they belong to; without
    /// one they count as missing.
    ///
    /// # Errors
    /// When parameters, size or forest can't be used.
    pub fn new(
        forest: &Forest,
        params: &Params,
        size: Size,
        camera: Option<&Camera>,
    ) -> Result<Self, ParamsError> {
        params.validate()?;
        forest.validate().map_err(ParamsError::Forest)?;
        if forest.trees.is_empty() {
            return Err(ParamsError::Forest("no tree yet".into()));
        }
        let side = 1..=MAX_SIDE;
        if !side.contains(&size.width) || !side.contains(&size.height) {
            return Err(ParamsError::Size { found: size });
        }
        let meta = &forest.meta;
        let (table, first) = params.leaves.table(forest);
        let classes = meta.classes.len();
        let row = classes.next_multiple_of(LANES);
        let mut posteriors = vec![0; table.len() / classes * row];
        for (to, from) in posteriors
            .chunks_exact_mut(row)
            .zip(table.chunks_exact(classes))
        {
            to[..classes].copy_from_slice(from);
        }
        let planes = Planes::new(size, &meta.input, meta.feature.needs());
        let mut trees = Trees::default();
        for (tree, first) in forest.trees.iter().zip(first) {
            dispatch!(&meta.feature, f => trees.add(f, &planes, tree, first))?;
        }
        let grid = params.grid(size);
        let mut builder = PlaneBuilder::new(&meta.input);
        if meta.feature.needs().colour {
            builder.reserve(size);
        }
        let step = params.step as usize;
        let judged = |cells: usize, side: usize| -> Vec<i32> {
            let of = |cell: usize| (cell * step + step / 2).min(side - 1) as i32;
            (0..cells).map(of).collect()
        };
        let bands = grid.height.div_ceil(TILE.height);
        Ok(Self {
            params: params.clone(),
            feature: meta.feature,
            xs: judged(grid.width, size.width),
            ys: judged(grid.height, size.height),
            scratch: (0..bands)
                .map(|_| Scratch::new(trees.roots.len()))
                .collect(),
            trees,
            posteriors,
            indices: meta.classes.iter().map(|c| c.index).collect(),
            table: Arc::new(meta.table()),
            channels: meta.input.channels,
            depth_of: camera.map_or_else(Vec::new, |camera| {
                depth_table(camera, meta.input.depth_steps_per_m)
            }),
            builder,
            planes,
        })
    }

    /// What the stage gives, not yet computed.
    pub fn output(&self) -> Labels {
        let Params {
            step, posteriors, ..
        } = self.params;
        Labels::new(self.planes.size(), step, posteriors, self.table.clone())
    }

    /// Whether the forest reads depth.
    pub fn needs_depth(&self) -> bool {
        self.feature.needs().depth
    }

    /// Whether grey images will stand for the channels of a forest that reads several: worth a
    /// line in the log where images are grey.
    pub fn replicates_grey(&self) -> bool {
        self.feature.needs().colour && self.channels > 1
    }
}

/// Steps of depth of every disparity.
pub(crate) fn depth_table(camera: &Camera, steps_per_m: u32) -> Vec<u16> {
    let one = camera.focal_px * camera.baseline_m * 256.0 * f64::from(steps_per_m);
    (0..=u16::MAX)
        .map(|d| match d {
            INVALID => 0,
            0 => u16::MAX,
            d => (one / f64::from(d) + 0.5).clamp(1.0, 65_535.0) as u16,
        })
        .collect()
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Labels;

    fn run(&mut self, input: Input<'_>, output: &mut Labels) {
        let size = self.planes.size();
        let grid = self.params.grid(size);
        assert_eq!(output.labels.size(), grid, "labels of another size");
        assert_eq!(output.confidence.size(), grid, "confidence of another size");
        if let Pixels::Channels(list) = input.pixels {
            assert_eq!(list.len(), usize::from(self.channels), "channels");
        }
        self.builder.fill(&mut self.planes, input.pixels, false);
        let table = &self.depth_of;
        let planes = &mut self.planes;
        match input.depth {
            Depth::Steps(depth) => {
                assert_eq!(depth.size(), size, "depth of another size");
                self.builder
                    .fill_depth(planes, |x, y| depth.get(x, y), false);
            }
            Depth::Disparity(disparity) if !table.is_empty() => {
                assert_eq!(disparity.size(), size, "disparity of another size");
                let steps = |x, y| table[usize::from(disparity.get(x, y))];
                self.builder.fill_depth(planes, steps, false);
            }
            Depth::None | Depth::Disparity(_) => self.builder.fill_depth(planes, |_, _| 0, false),
        }
        let void_without_depth = self.params.void_without_depth && self.needs_depth();
        let judge = Judge {
            trees: &self.trees,
            posteriors: &self.posteriors,
            indices: &self.indices,
            void: self.table.void,
            void_without_depth,
            planes: &self.planes,
            xs: &self.xs,
            ys: &self.ys,
        };
        output.state = LabelState::Valid;
        let classes = self.indices.len();
        let stride = output.labels.stride();
        let confidence_stride = output.confidence.stride();
        let wanted = self.params.posteriors;
        if wanted {
            assert_eq!(
                output.posteriors.len(),
                grid.area() * classes,
                "posteriors of another size"
            );
        }
        let area = (grid.width * TILE.height).max(1);
        // Chunks of nothing where posteriors are not wanted.
        let posterior_rows = if wanted { area * classes } else { 0 };
        dispatch!(&self.feature, feature => {
            let bands = self
                .scratch
                .par_iter_mut()
                .zip(output.labels.data_mut().par_chunks_mut(TILE.height * stride))
                .zip(output.confidence.data_mut().par_chunks_mut(TILE.height * confidence_stride))
                .enumerate();
            let band = |b: usize, scratch: &mut Scratch, labels: &mut [u8], confidence: &mut [u16],
                        mut posteriors: Option<&mut [u16]>| {
                let rows = b * TILE.height..grid.height.min((b + 1) * TILE.height);
                let ys = &judge.ys[rows];
                for (at, xs) in (0..).step_by(TILE.width).zip(judge.xs.chunks(TILE.width)) {
                    let tile = Tile { xs, ys };
                    judge.trees.walk(feature, judge.planes, &tile, scratch);
                    for row in 0..ys.len() {
                        let labels = &mut labels[row * stride + at..][..xs.len()];
                        let confidence = &mut confidence[row * confidence_stride + at..][..xs.len()];
                        let posteriors = posteriors.as_deref_mut().map(|all| {
                            &mut all[(row * grid.width + at) * classes..][..xs.len() * classes]
                        });
                        judge.decide(&tile, row, scratch, labels, confidence, posteriors);
                    }
                }
            };
            if wanted {
                bands.zip(output.posteriors.par_chunks_mut(posterior_rows)).for_each(
                    |((b, ((scratch, labels), confidence)), posteriors)| {
                        band(b, scratch, labels, confidence, Some(posteriors));
                    },
                );
            } else {
                bands.for_each(|(b, ((scratch, labels), confidence))| {
                    band(b, scratch, labels, confidence, None);
                });
            }
        });
    }
}

/// What all tiles share.
struct Judge<'a> {
    trees: &'a Trees,
    posteriors: &'a [u16],
    indices: &'a [u8],
    void: u8,
    void_without_depth: bool,
    planes: &'a Planes,
    xs: &'a [i32],
    ys: &'a [i32],
}

impl Judge<'_> {
    /// Sums the leaves' posteriors and takes the greatest.
    fn decide(
        &self,
        tile: &Tile<'_>,
        row: usize,
        scratch: &Scratch,
        labels: &mut [u8],
        confidence: &mut [u16],
        mut posteriors: Option<&mut [u16]>,
    ) {
        let (classes, trees) = (self.indices.len(), self.trees.roots.len());
        let lanes = classes.next_multiple_of(LANES);
        let mut sums = [0u32; super::MAX_CLASSES.next_multiple_of(LANES)];
        let sums = &mut sums[..lanes];
        for (cell, &x) in tile.xs.iter().enumerate() {
            sums.fill(0);
            for t in 0..trees {
                let leaf = scratch.leaves[t * TILE.area() + row * TILE.width + cell] & !AT_LEAF;
                let leaf = &self.posteriors[leaf as usize * lanes..][..lanes];
                let (sums, leaf) = (sums.as_chunks_mut::<LANES>().0, leaf.as_chunks::<LANES>().0);
                for (sums, leaf) in sums.iter_mut().zip(leaf) {
                    for (sum, &p) in sums.iter_mut().zip(leaf) {
                        *sum += u32::from(p);
                    }
                }
            }
            if self.void_without_depth && self.planes.depth(x, tile.ys[row]) == 0 {
                sums.fill(0);
            }
            // The first of the greatest.
            let most = sums.iter().fold(0, |most, &sum| most.max(sum));
            let best = sums.iter().position(|&sum| sum == most).unwrap_or(0);
            let mean = |sum: u32| (sum / trees as u32) as u16;
            labels[cell] = if sums[best] > 0 {
                self.indices[best]
            } else {
                self.void
            };
            confidence[cell] = mean(sums[best]);
            if let Some(all) = &mut posteriors {
                for (to, &sum) in all[cell * classes..][..classes].iter_mut().zip(sums.iter()) {
                    *to = mean(sum);
                }
            }
        }
    }
}
