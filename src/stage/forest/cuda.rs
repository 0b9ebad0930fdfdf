//! The forest on the GPU (`kernels/forest.cu`): the bytes of [`super::cpu::Plan`]. Sum tables,
//! walks and votes are on the device; one kernel for all trees.
use super::{
    Colour, FeatureSpec, Forest, LEAF, Node, Norm, Params, ParamsError, Theta, Tree,
    colour::{LAB_BIAS, LabTables},
    cpu::depth_table,
    planes::MAX_SIDE,
};
use crate::{
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape,
        Module, Priority, Stream,
    },
    device_struct,
    frame::{Camera, Size},
};

/// Threads a block, as in the kernel file.
const ROW_THREADS: u32 = 128;
const COLUMN_THREADS: u32 = 1024;
const LABEL_THREADS: u32 = 256;
const WARP: usize = 32;
/// Set where a place is a leaf, as in the kernel file.
const AT_LEAF: u32 = 1 << 31;

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct ForestParams {
        width: i32,
        height: i32,
        grid_width: i32,
        grid_height: i32,
        step: i32,
        tables: i32,
        trees: i32,
        classes: i32,
        sum: i32,
        shrink: i32,
        reference: i32,
        background: i32,
        bias: i32,
        blank: i32,
        void_without_depth: i32,
    }
}

device_struct! {
    /// As in the kernel file.
    #[derive(Debug)]
    struct ForestPlanes {
        sums: DevicePtr<u32>,
        depth: DevicePtr<u16>,
        depth_sums: DevicePtr<u32>,
        depth_counts: DevicePtr<u32>,
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// What the CPU refuses too.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU.
    #[error("forest: {0}")]
    Gpu(#[from] GpuError),
}

type Rows = Function<(ForestParams, DevicePtr<u8>, DevicePtr<u32>, DevicePtr<u32>)>;
type Depths = Function<(
    ForestParams,
    DevicePtr<u16>,
    DevicePtr<u16>,
    i32,
    DevicePtr<u16>,
    DevicePtr<u32>,
)>;
type Fill = Function<(ForestParams, DevicePtr<u32>, DevicePtr<u16>)>;
type DepthRows = Function<(ForestParams, DevicePtr<u16>, DevicePtr<u32>)>;
type Columns = Function<(ForestParams, DevicePtr<u32>)>;
type Label = Function<(
    ForestParams,
    ForestPlanes,
    DevicePtr<[u32; 8]>,
    DevicePtr<u32>,
    DevicePtr<u16>,
    DevicePtr<u8>,
    DevicePtr<u32>,
    DevicePtr<u8>,
    DevicePtr<u16>,
    DevicePtr<u16>,
)>;

/// Depth of an image on the device, rows one after the other.
#[derive(Clone, Copy)]
pub enum Depth<'a> {
    /// There is none.
    None,
    /// In the forest's steps, 0 = missing.
    Steps(&'a DeviceBuffer<u16>),
    /// Disparities in 1/256 px of the plan's camera; without one they count as missing.
    Disparity(&'a DeviceBuffer<u16>),
}

/// Where results go, a pixel a cell of the grid, rows one after the other.
#[derive(Clone, Copy)]
pub struct Outputs<'a> {
    /// As [`super::Labels::labels`].
    pub labels: &'a DeviceBuffer<u8>,
    /// As [`super::Labels::confidence`].
    pub confidence: &'a DeviceBuffer<u16>,
    /// As [`super::Labels::posteriors`], where they are wanted.
    pub posteriors: Option<&'a DeviceBuffer<u16>>,
}

/// The forest for images of one size, all grey or all RGB.
pub struct Plan {
    params: ForestParams,
    size: Size,
    grid: Size,
    colour: bool,
    fill_depth: bool,
    bytes: u64,
    rows: Rows,
    depths: Depths,
    fill: Fill,
    depth_rows: DepthRows,
    columns: Columns,
    label: Label,
    splits: DeviceBuffer<[u32; 8]>,
    roots: DeviceBuffer<u32>,
    posteriors: DeviceBuffer<u16>,
    indices: DeviceBuffer<u8>,
    leaves: DeviceBuffer<u32>,
    lab: Option<DeviceBuffer<u32>>,
    steps: Option<DeviceBuffer<u16>>,
    sums: Option<DeviceBuffer<u32>>,
    depth: Option<DeviceBuffer<u16>>,
    last: Option<DeviceBuffer<u32>>,
    /// Sums of depth, then of pixels that have one.
    depth_sums: Option<DeviceBuffer<u32>>,
}

/// What the kernels read of a forest.
struct Packed {
    params: ForestParams,
    splits: Vec<[u32; 8]>,
    roots: Vec<u32>,
    posteriors: Vec<u16>,
    indices: Vec<u8>,
    lab: Vec<u32>,
    steps: Vec<u16>,
}

impl Packed {
    fn new(
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
        if meta.input.bits != 8 {
            let text = format!("samples of {} bits, on the GPU 8", meta.input.bits);
            return Err(ParamsError::Forest(text));
        }
        let (posteriors, first) = params.leaves.table(forest);
        if u32::try_from(posteriors.len()).is_err() {
            let text = format!(
                "{} posteriors, on the GPU fewer than 2^32",
                posteriors.len()
            );
            return Err(ParamsError::Forest(text));
        }
        let (mut splits, mut roots) = (Vec::new(), Vec::new());
        for (tree, first) in forest.trees.iter().zip(first) {
            roots.push(flatten(tree, first, &mut splits)?);
        }
        let (norm, shrink, reference, background) = match meta.feature {
            FeatureSpec::Region(f) => (f.norm, f.shrink, 1, 0),
            FeatureSpec::Rgbd(f) => (f.norm, f.shrink, f.reference, 0),
            FeatureSpec::Depth(f) => (Norm::Mean, false, f.reference, f.background),
        };
        let lab = meta.input.colour == Colour::Lab;
        let grid = params.grid(size);
        let needs = meta.feature.needs();
        Ok(Self {
            params: ForestParams {
                width: size.width as i32,
                height: size.height as i32,
                grid_width: grid.width as i32,
                grid_height: grid.height as i32,
                step: params.step as i32,
                tables: 1,
                trees: roots.len() as i32,
                classes: meta.classes.len() as i32,
                sum: (norm == Norm::Sum).into(),
                shrink: shrink.into(),
                reference,
                background,
                bias: if lab { LAB_BIAS.into() } else { 0 },
                blank: meta.void.into(),
                void_without_depth: (params.void_without_depth && needs.depth).into(),
            },
            splits,
            roots,
            posteriors,
            indices: meta.classes.iter().map(|c| c.index).collect(),
            lab: if lab {
                LabTables::new().words()
            } else {
                Vec::new()
            },
            steps: camera
                .filter(|_| needs.depth)
                .map_or_else(Vec::new, |camera| {
                    depth_table(camera, meta.input.depth_steps_per_m)
                }),
        })
    }
}

impl Plan {
    /// As [`super::cpu::Plan::new`], for RGB images where `colour` is set, else for grey ones;
    /// waits until the forest is on the device.
    ///
    /// # Errors
    /// What the CPU refuses; a forest of 16-bit samples; colour for a forest that has not three
    /// channels; from the driver.
    pub fn new(
        context: &Context,
        forest: &Forest,
        params: &Params,
        size: Size,
        camera: Option<&Camera>,
        colour: bool,
    ) -> Result<Self, PlanError> {
        let mut packed = Packed::new(forest, params, size, camera)?;
        let meta = &forest.meta;
        if colour && meta.input.channels != 3 {
            let text = format!("{} channels, of RGB 3", meta.input.channels);
            return Err(ParamsError::Forest(text).into());
        }
        // Channels that are alike share a table.
        let tables = if colour || !packed.lab.is_empty() {
            3
        } else {
            1
        };
        packed.params.tables = tables;
        let needs = meta.feature.needs();
        let (grid, area) = (params.grid(size), size.area());
        let table = (size.width + 1) * (size.height + 1);
        let fill_depth = needs.depth && meta.input.fill_depth;

        let mut layout = ArenaLayout::new();
        let splits = layout.reserve("forest splits", packed.splits.len().max(1));
        let roots = layout.reserve("forest roots", packed.roots.len());
        let posteriors = layout.reserve("forest posteriors", packed.posteriors.len());
        let indices = layout.reserve("forest classes", packed.indices.len());
        let leaves = layout.reserve("forest leaves", packed.roots.len() * grid.area());
        let (n_lab, n_steps) = (packed.lab.len(), packed.steps.len());
        let lab = (n_lab > 0).then(|| layout.reserve("forest Lab", n_lab));
        let steps = (n_steps > 0).then(|| layout.reserve("forest depths", n_steps));
        let colours = tables as usize * table;
        let sums = (needs.colour).then(|| layout.reserve("forest sums", colours));
        let depth = (needs.depth).then(|| layout.reserve("forest depth", area));
        let last = (needs.depth).then(|| layout.reserve("forest rows", size.height));
        let depth_sums = (needs.depth_sums).then(|| layout.reserve("forest depth sums", 2 * table));
        let bytes = layout.bytes();
        let arena = Arena::new(context, "forest", layout)?;
        let wide = |slot: Option<_>| slot.map(|slot| arena.buffer::<u32>(slot)).transpose();
        let short = |slot: Option<_>| slot.map(|slot| arena.buffer::<u16>(slot)).transpose();

        let module = Module::load(context, "forest")?;
        let plan = Self {
            params: packed.params,
            size,
            grid,
            colour,
            fill_depth,
            bytes,
            rows: module.function(if colour {
                "forest_rows_rgb"
            } else {
                "forest_rows_grey"
            })?,
            depths: module.function("forest_depth")?,
            fill: module.function("forest_fill")?,
            depth_rows: module.function("forest_rows_depth")?,
            columns: module.function("forest_columns")?,
            label: module.function(match meta.feature {
                FeatureSpec::Region(_) => "forest_label_region",
                FeatureSpec::Rgbd(_) => "forest_label_rgbd",
                FeatureSpec::Depth(_) => "forest_label_depth",
            })?,
            splits: arena.buffer(splits)?,
            roots: arena.buffer(roots)?,
            posteriors: arena.buffer(posteriors)?,
            indices: arena.buffer(indices)?,
            leaves: arena.buffer(leaves)?,
            lab: wide(lab)?,
            steps: short(steps)?,
            sums: wide(sums)?,
            depth: short(depth)?,
            last: wide(last)?,
            depth_sums: wide(depth_sums)?,
        };
        let stream = Stream::new(context, Priority::Normal)?;
        // Trees of a leaf alone have no splits.
        packed.splits.resize(plan.splits.len(), [0; 8]);
        stream.upload(&packed.splits, &plan.splits)?;
        stream.upload(&packed.roots, &plan.roots)?;
        stream.upload(&packed.posteriors, &plan.posteriors)?;
        stream.upload(&packed.indices, &plan.indices)?;
        if let Some(to) = &plan.lab {
            stream.upload(&packed.lab, to)?;
        }
        if let Some(to) = &plan.steps {
            stream.upload(&packed.steps, to)?;
        }
        Ok(plan)
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }

    /// Size of the results.
    pub fn grid(&self) -> Size {
        self.grid
    }

    /// Gives the work of a frame to the stream. `image`: rows one after the other, a byte or (RGB)
    /// three a pixel.
    ///
    /// # Errors
    /// [`GpuError::Size`] for buffers of other sizes; from the driver.
    pub fn enqueue(
        &self,
        stream: &Stream,
        image: &DeviceBuffer<u8>,
        depth: Depth<'_>,
        out: Outputs<'_>,
    ) -> Result<(), GpuError> {
        self.enqueue_marked(stream, image, depth, out, |_| Ok(()))
    }

    /// As [`Plan::enqueue`]; `mark` is called with the name of each step behind it.
    ///
    /// # Errors
    /// As there, and those of `mark`.
    pub fn enqueue_marked(
        &self,
        stream: &Stream,
        image: &DeviceBuffer<u8>,
        depth: Depth<'_>,
        out: Outputs<'_>,
        mut mark: impl FnMut(&'static str) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        self.check(image, depth, &out)?;
        let p = self.params;
        let Size { width, height } = self.size;
        let null = DevicePtr::NULL;
        // A warp a row; of sum tables there is one row more.
        let rows = |n: usize| LaunchShape::covering(n * WARP, ROW_THREADS);
        let columns = |tables: u32| {
            let blocks = (width + 1).div_ceil(WARP) as u32;
            LaunchShape::new([blocks, tables, 1], [COLUMN_THREADS, 1, 1])
        };
        if let Some(sums) = &self.sums {
            let lab = self.lab.as_ref().map_or(null, DeviceBuffer::ptr);
            self.rows
                .launch(stream, rows(height + 1), &(p, image.ptr(), lab, sums.ptr()))?;
            mark("rows")?;
            self.columns
                .launch(stream, columns(p.tables as u32), &(p, sums.ptr()))?;
            mark("columns")?;
        }
        if let (Some(to), Some(last)) = (&self.depth, &self.last) {
            let (from, steps) = match (depth, &self.steps) {
                (Depth::Steps(from), _) => (from.ptr(), DevicePtr::NULL),
                (Depth::Disparity(from), Some(steps)) => (from.ptr(), steps.ptr()),
                (Depth::None | Depth::Disparity(_), _) => (DevicePtr::NULL, DevicePtr::NULL),
            };
            let fill = i32::from(self.fill_depth);
            self.depths.launch(
                stream,
                rows(height),
                &(p, from, steps, fill, to.ptr(), last.ptr()),
            )?;
            if self.fill_depth {
                self.fill
                    .launch(stream, rows(height), &(p, last.ptr(), to.ptr()))?;
            }
            mark("depth")?;
            if let Some(sums) = &self.depth_sums {
                self.depth_rows
                    .launch(stream, rows(height + 1), &(p, to.ptr(), sums.ptr()))?;
                self.columns.launch(stream, columns(2), &(p, sums.ptr()))?;
                mark("depth sums")?;
            }
        }
        let counts = match &self.depth_sums {
            Some(sums) => sums.slice(sums.len() / 2..sums.len())?.ptr(),
            None => null,
        };
        let planes = ForestPlanes {
            sums: self.sums.as_ref().map_or(null, DeviceBuffer::ptr),
            depth: self
                .depth
                .as_ref()
                .map_or(DevicePtr::NULL, DeviceBuffer::ptr),
            depth_sums: self.depth_sums.as_ref().map_or(null, DeviceBuffer::ptr),
            depth_counts: counts,
        };
        self.label.launch(
            stream,
            LaunchShape::covering(self.grid.area(), LABEL_THREADS),
            &(
                p,
                planes,
                self.splits.ptr(),
                self.roots.ptr(),
                self.posteriors.ptr(),
                self.indices.ptr(),
                self.leaves.ptr(),
                out.labels.ptr(),
                out.confidence.ptr(),
                out.posteriors.map_or(DevicePtr::NULL, DeviceBuffer::ptr),
            ),
        )?;
        mark("labels")
    }

    fn check(
        &self,
        image: &DeviceBuffer<u8>,
        depth: Depth<'_>,
        out: &Outputs<'_>,
    ) -> Result<(), GpuError> {
        let (area, cells) = (self.size.area(), self.grid.area());
        let bytes = if self.colour { 3 * area } else { area };
        let classes = self.params.classes as usize;
        let depths = match depth {
            Depth::None => area,
            Depth::Steps(depth) | Depth::Disparity(depth) => depth.len(),
        };
        let all = out.posteriors.map_or(cells * classes, DeviceBuffer::len);
        for (what, found, expected) in [
            ("forest: bytes of the image", image.len(), bytes),
            ("forest: depths", depths, area),
            ("forest: labels", out.labels.len(), cells),
            ("forest: confidences", out.confidence.len(), cells),
            ("forest: posteriors", all, cells * classes),
        ] {
            if found != expected {
                return Err(GpuError::Size {
                    what,
                    found: found as u64,
                    expected: expected as u64,
                });
            }
        }
        Ok(())
    }
}

/// Adds a tree's splits, in the order of its nodes; returns its root.
fn flatten(tree: &Tree, first_leaf: u32, splits: &mut Vec<[u32; 8]>) -> Result<u32, ParamsError> {
    // Of each node where it goes.
    let mut next = splits.len() as u64;
    let mut place = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        place.push(match node.leaf_number() {
            Some(leaf) => (first_leaf + leaf) | AT_LEAF,
            None => next as u32,
        });
        next += u64::from(node.left != LEAF);
    }
    if next >= AT_LEAF.into() {
        let text = format!("{next} splits, expected fewer than {AT_LEAF}");
        return Err(ParamsError::Forest(text));
    }
    let split = |node: &Node| {
        let left = node.left as usize;
        words(&node.theta, node.tau, [place[left], place[left + 1]])
    };
    let inner = tree.nodes.iter().filter(|node| node.left != LEAF);
    splits.extend(inner.map(split));
    Ok(place[0])
}

/// The kernel file's `Split`, low bytes first.
pub(crate) fn words(theta: &Theta, tau: i32, [left, right]: [u32; 2]) -> [u32; 8] {
    let [x1, y1, x2, y2] = theta.offsets.map(|v| u32::from(v as u16));
    let [c1, c2] = theta.channels;
    [
        x1 | y1 << 16,
        x2 | y2 << 16,
        u32::from_le_bytes(theta.sizes),
        u32::from_le_bytes([c1, c2, theta.kind, 0]),
        tau as u32,
        left,
        right,
        0,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_has_the_layout_of_the_kernels() {
        assert_eq!(
            (size_of::<ForestParams>(), size_of::<ForestPlanes>()),
            (60, 32)
        );
        let theta = Theta {
            offsets: [1, -2, 3, -4],
            sizes: [5, 6, 7, 8],
            channels: [9, 10],
            kind: 2,
        };
        let words = words(&theta, -11, [12, AT_LEAF | 13]);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let start = [1, 0, 254, 255, 3, 0, 252, 255, 5, 6, 7, 8, 9, 10, 2, 0];
        assert_eq!(bytes[..16], start);
        assert_eq!(bytes[16..20], (-11i32).to_le_bytes());
        assert_eq!(words[5..], [12, AT_LEAF | 13, 0]);
    }
}
