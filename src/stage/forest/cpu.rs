//! The forest on the CPU.
use rayon::prelude::*;

use super::{
    Depth, Forest, Input, LEAF, Labels, Node, Params, ParamsError, PlaneBuilder, Planes, Theta,
    Tree,
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
    /// The splits of all trees.
    splits: Vec<Split>,
    /// Where each tree begins.
    roots: Vec<At>,
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

/// A split, or a leaf of the whole forest with [`AT_LEAF`] set.
type At = u32;

/// Set where an [`At`] is a leaf.
const AT_LEAF: u32 = 1 << 31;

/// A node with where its left and its right side lead, so that a leaf is known without a look
/// at it.
struct Split {
    theta: Theta,
    tau: i32,
    sides: [At; 2],
}

/// What a row of the grid needs while it is computed.
struct Row {
    /// Where each pixel is in each tree.
    at: Vec<At>,
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
        let mut splits = Vec::new();
        let mut roots = Vec::new();
        for (tree, first) in forest.trees.iter().zip(first) {
            roots.push(flatten(tree, first, &mut splits)?);
        }
        let grid = params.grid(size);
        let mut builder = PlaneBuilder::new(&meta.input);
        if meta.feature.needs().colour {
            builder.reserve(size);
        }
        let row = || Row {
            at: vec![0; grid.width * roots.len()],
            active: Vec::with_capacity(grid.width),
        };
        Ok(Self {
            params: *params,
            feature: meta.feature,
            rows: (0..grid.height).map(|_| row()).collect(),
            splits,
            roots,
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

/// Adds a tree's splits, in the order of its nodes; returns its root.
fn flatten(tree: &Tree, first_leaf: u32, splits: &mut Vec<Split>) -> Result<At, ParamsError> {
    // Of each node where it goes.
    let mut next = splits.len() as u64;
    let mut place = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        place.push(match node.leaf_number() {
            Some(leaf) => (first_leaf + leaf) | AT_LEAF,
            None => next as At,
        });
        next += u64::from(node.left != LEAF);
    }
    if next >= AT_LEAF.into() {
        let text = format!("{next} splits, expected fewer than {AT_LEAF}");
        return Err(ParamsError::Forest(text));
    }
    let split = |node: &Node| Split {
        theta: node.theta,
        tau: node.tau,
        sides: [place[node.left as usize], place[node.left as usize + 1]],
    };
    let inner = tree.nodes.iter().filter(|node| node.left != LEAF);
    splits.extend(inner.map(split));
    Ok(place[0])
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
            roots: &self.roots,
            splits: &self.splits,
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
    roots: &'a [At],
    splits: &'a [Split],
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
        let cells = row.at.len() / self.roots.len();
        let y = self.pixel(y, height);
        for (at, &root) in row.at.chunks_exact_mut(cells).zip(self.roots) {
            at.fill(root);
            row.active.clear();
            if root & AT_LEAF == 0 {
                row.active.extend(0..cells as u16);
            }
            while !row.active.is_empty() {
                let mut kept = 0;
                for i in 0..row.active.len() {
                    let cell = row.active[i];
                    let at = &mut at[usize::from(cell)];
                    let split = &self.splits[*at as usize];
                    let x = self.pixel(cell.into(), width);
                    let response = feature.response(self.planes, &split.theta, x, y);
                    *at = split.sides[usize::from(response > split.tau)];
                    row.active[kept] = cell;
                    kept += usize::from(*at & AT_LEAF == 0);
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
        let (classes, trees) = (self.indices.len(), self.roots.len());
        let cells = row.at.len() / trees;
        let mut sums = [0u32; super::MAX_CLASSES];
        let sums = &mut sums[..classes];
        for cell in 0..cells {
            sums.fill(0);
            for t in 0..trees {
                let leaf = (row.at[t * cells + cell] & !AT_LEAF) as usize;
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
