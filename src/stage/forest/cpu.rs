//! The forest on the CPU.
use rayon::prelude::*;

use super::{
    Depth, Forest, Input, LEAF, Labels, Node, Params, ParamsError, PlaneBuilder, Planes,
    feature::{Feature, FeatureSpec, dispatch},
    planes::{MAX_SIDE, Pixels},
};
use crate::{
    frame::{Camera, INVALID, Image, Size},
    stage::Stage,
};

/// Everything for images of one size.
pub struct Plan {
    params: Params,
    feature: FeatureSpec,
    /// Nodes of all trees, children counted within the tree.
    nodes: Vec<Node>,
    /// Where each tree's nodes begin and end, and its first leaf.
    trees: Vec<(usize, usize, u32)>,
    posteriors: Vec<u16>,
    /// Indices in label pictures.
    indices: Vec<u8>,
    void: u8,
    channels: u8,
    depth_of: Vec<u16>,
    builder: PlaneBuilder,
    planes: Planes,
    rows: Vec<Row>,
}

/// What a row of the grid needs while it is computed.
struct Row {
    /// A node, then a leaf of the whole forest, for each tree and pixel.
    at: Vec<u32>,
    /// Pixels that are not at a leaf yet.
    active: Vec<u16>,
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
        let (posteriors, first) = params.leaves.table(forest);
        let mut nodes = Vec::new();
        let mut trees = Vec::new();
        for (tree, first) in forest.trees.iter().zip(first) {
            let begin = nodes.len();
            nodes.extend_from_slice(&tree.nodes);
            trees.push((begin, nodes.len(), first));
        }
        let grid = params.grid(size);
        let mut builder = PlaneBuilder::new(&meta.input);
        if meta.feature.needs().colour {
            builder.reserve(size);
        }
        let row = || Row {
            at: vec![0; grid.width * trees.len()],
            active: Vec::with_capacity(grid.width),
        };
        Ok(Self {
            params: *params,
            feature: meta.feature,
            rows: (0..grid.height).map(|_| row()).collect(),
            nodes,
            trees,
            posteriors,
            indices: meta.classes.iter().map(|c| c.index).collect(),
            void: meta.void,
            channels: meta.input.channels,
            depth_of: camera.map_or_else(Vec::new, |camera| {
                depth_table(camera, meta.input.depth_steps_per_m)
            }),
            builder,
            planes: Planes::new(size, &meta.input, meta.feature.needs()),
        })
    }

    /// What the stage gives, not yet computed.
    pub fn output(&self) -> Labels {
        let Size { width, height } = self.params.grid(self.planes.size());
        let posteriors = if self.params.posteriors {
            width * height * self.indices.len()
        } else {
            0
        };
        Labels {
            labels: Image::filled(width, height, self.void),
            confidence: Image::new(width, height),
            posteriors: vec![0; posteriors],
        }
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
            plan_trees: &self.trees,
            nodes: &self.nodes,
            posteriors: &self.posteriors,
            indices: &self.indices,
            void: self.void,
            step: self.params.step as usize,
            void_without_depth,
            planes: &self.planes,
        };
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
        // Chunks of nothing where posteriors are not wanted.
        let posterior_row = if wanted { grid.width * classes } else { 0 };
        dispatch!(&self.feature, feature => {
            let rows = self
                .rows
                .par_iter_mut()
                .zip(output.labels.data_mut().par_chunks_mut(stride))
                .zip(output.confidence.data_mut().par_chunks_mut(confidence_stride))
                .enumerate();
            if wanted {
                rows.zip(output.posteriors.par_chunks_mut(posterior_row)).for_each(
                    |((y, ((row, labels), confidence)), posteriors)| {
                        judge.walk(feature, y, row);
                        judge.decide(y, row, labels, confidence, Some(posteriors));
                    },
                );
            } else {
                rows.for_each(|(y, ((row, labels), confidence))| {
                    judge.walk(feature, y, row);
                    judge.decide(y, row, labels, confidence, None);
                });
            }
        });
    }
}

/// What all rows share.
struct Judge<'a> {
    plan_trees: &'a [(usize, usize, u32)],
    nodes: &'a [Node],
    posteriors: &'a [u16],
    indices: &'a [u8],
    void: u8,
    step: usize,
    void_without_depth: bool,
    planes: &'a Planes,
}

impl Judge<'_> {
    /// The judged pixel of a cell.
    #[inline(always)]
    fn pixel(&self, cell: usize, side: usize) -> i32 {
        (cell * self.step + self.step / 2).min(side - 1) as i32
    }

    /// The leaf of each pixel in each tree. All pixels of the row take a step down before any
    /// takes the next: the steps are independent, so that the processor can overlap their reads.
    fn walk<F: Feature>(&self, feature: &F, y: usize, row: &mut Row) {
        let Size { width, height } = self.planes.size();
        let cells = row.at.len() / self.plan_trees.len();
        let y = self.pixel(y, height);
        for (at, &(begin, end, leaf)) in row.at.chunks_exact_mut(cells).zip(self.plan_trees) {
            let nodes = &self.nodes[begin..end];
            at.fill(0);
            row.active.clear();
            if nodes[0].left == LEAF {
                at.fill(leaf);
                continue;
            }
            row.active.extend(0..cells as u16);
            while !row.active.is_empty() {
                let mut kept = 0;
                for i in 0..row.active.len() {
                    let cell = row.active[i];
                    let node = &nodes[at[usize::from(cell)] as usize];
                    let x = self.pixel(cell.into(), width);
                    let response = feature.response(self.planes, &node.theta, x, y);
                    let next = node.left + u32::from(response > node.tau);
                    let child = &nodes[next as usize];
                    let is_leaf = child.left == LEAF;
                    at[usize::from(cell)] = if is_leaf {
                        leaf + child.tau as u32
                    } else {
                        next
                    };
                    row.active[kept] = cell;
                    kept += usize::from(!is_leaf);
                }
                row.active.truncate(kept);
            }
        }
    }

    /// Sums the leaves' posteriors and takes the greatest.
    fn decide(
        &self,
        y: usize,
        row: &Row,
        labels: &mut [u8],
        confidence: &mut [u16],
        mut posteriors: Option<&mut [u16]>,
    ) {
        let Size { width, height } = self.planes.size();
        let (classes, trees) = (self.indices.len(), self.plan_trees.len());
        let cells = row.at.len() / trees;
        let mut sums = [0u32; super::MAX_CLASSES];
        let sums = &mut sums[..classes];
        for cell in 0..cells {
            sums.fill(0);
            for t in 0..trees {
                let leaf = row.at[t * cells + cell] as usize;
                for (sum, &p) in sums.iter_mut().zip(&self.posteriors[leaf * classes..]) {
                    *sum += u32::from(p);
                }
            }
            if self.void_without_depth {
                let (x, y) = (self.pixel(cell, width), self.pixel(y, height));
                if self.planes.depth(x, y) == 0 {
                    sums.fill(0);
                }
            }
            let mut best = 0;
            for (c, &sum) in sums.iter().enumerate() {
                if sum > sums[best] {
                    best = c;
                }
            }
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
