//! Features and matches on the GPU (`kernels/logo_*.cu`): the CPU's bytes, no step on the host.
mod kernels;
mod layout;
mod matcher;

pub use matcher::{Match, Matcher, Train};

use super::{
    ANGLES, Descriptor, FeatureError, FeatureParams, Features, MAX_ORIENTATIONS, Mode,
    cpu::{least_value, unscaled_layer},
    tables::{Octaves, Tables, WINDOW},
};
use kernels::{
    Blur, BlurFew, Cells, CellsOf, Describe, DescribeParams, Extrema, Gather, Geometry, Refine,
    Select, Tiles,
};
use layout::{Launch, blurs, geometry, tiles};

use crate::{
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Event, GpuError, LaunchShape, Module,
        Stream,
    },
    device_struct,
    frame::{Mask, Size},
};

/// A row of a level takes a multiple of so many pixels.
const PITCH: usize = 64;
/// What a block of the blur has: columns with those at either side that are its neighbours', rows,
/// threads.
const BLUR_REGION: usize = 64;
const BLUR_ROWS: usize = 32;
/// Words of its sums: 65 a row, and 12 more from one four rows to the next.
const BLUR_SUMS: usize = 31 * 65 + 7 * 12 + 64;
const BLUR_THREADS: u32 = 128;
/// Radii that the blur is compiled for.
const RADII: [usize; 9] = [2, 3, 4, 5, 6, 8, 10, 13, 16];
/// Up to here radii are those of `logo_blur`; wider ones have a kernel of their own.
const NARROW: u32 = 8;
/// Tiles of the search for extrema.
const EXTREMA_TILE: (usize, usize) = (60, 16);
const EXTREMA_THREADS: u32 = 256;
const REFINE_THREADS: u32 = 128;
const CELL_THREADS: u32 = 256;
const SELECT_THREADS: u32 = 1024;
/// Threads of a block of `logo_describe`, which has one point.
const DESCRIBE_THREADS: u32 = 128;
const GATHER_THREADS: u32 = 256;

/// Most points: each looks through all others for its rank.
pub const MAX_KEYPOINTS: u32 = 16_384;

device_struct! {
    /// A keypoint as the kernels write it; see [`super::Keypoint`].
    #[derive(Debug, Default, PartialEq)]
    pub struct Keypoint {
        /// Column, px.
        pub x: f32,
        /// Row, px.
        pub y: f32,
        /// Scale, px.
        pub sigma: f32,
        /// Absolute difference of Gaussians, grey values.
        pub response: f32,
        /// 1/1024 of a turn.
        pub angle: u32,
        /// As [`super::Keypoint::octave`].
        pub octave: i32,
        /// As [`super::Keypoint::layer`].
        pub layer: u32,
        /// As [`super::Keypoint::sign`].
        pub sign: i32,
    }
}

impl From<Keypoint> for super::Keypoint {
    fn from(k: Keypoint) -> Self {
        Self {
            x: k.x,
            y: k.y,
            sigma: k.sigma,
            angle: k.angle as u16,
            response: k.response,
            octave: k.octave as i8,
            layer: k.layer as u8,
            sign: k.sign as i8,
        }
    }
}

device_struct! {
    /// How many there are; see [`Features`].
    #[derive(Debug, Default, PartialEq)]
    pub struct Counts {
        /// Points that the detector found.
        pub found: u32,
        /// Points within the budgets.
        pub kept: u32,
        /// Keypoints of those, before the border's policy.
        pub oriented: u32,
        /// Keypoints in the list.
        pub count: u32,
        /// Extrema before refinement.
        pub candidates: u32,
        reserved: [u32; 3],
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// What the CPU refuses too.
    #[error(transparent)]
    Params(#[from] FeatureError),
    /// What only the CPU does.
    #[error("logo.features.{key}: {found} is for the CPU alone; on the GPU {expected}")]
    CpuOnly {
        /// The key.
        key: &'static str,
        /// What it holds.
        found: String,
        /// What it may hold.
        expected: String,
    },
    /// The GPU.
    #[error("logo: {0}")]
    Gpu(#[from] GpuError),
}

/// Where a frame's features lie on the device.
#[derive(Clone)]
pub struct Found {
    /// `counts.count` of them, in the order of [`Features::keypoints`].
    pub keypoints: DeviceBuffer<Keypoint>,
    /// One a keypoint.
    pub descriptors: DeviceBuffer<[u32; 8]>,
    /// One a keypoint: see [`Features::original`].
    pub original: DeviceBuffer<u32>,
    /// How many.
    pub counts: DeviceBuffer<Counts>,
}

impl Found {
    /// Copies to the host and waits: for tests and reports.
    ///
    /// # Errors
    /// From the driver.
    pub fn download(&self, stream: &Stream, out: &mut Features) -> Result<(), GpuError> {
        let mut counts = [Counts::default()];
        stream.download(&self.counts, &mut counts)?;
        let [counts] = counts;
        let n = (counts.count as usize).min(self.keypoints.len());
        let mut keypoints = vec![Keypoint::default(); n];
        let mut descriptors = vec![[0; 8]; n];
        let mut original = vec![0; n];
        if n > 0 {
            stream.download(&self.keypoints.slice(0..n)?, &mut keypoints)?;
            stream.download(&self.descriptors.slice(0..n)?, &mut descriptors)?;
            stream.download(&self.original.slice(0..n)?, &mut original)?;
        }
        out.clear();
        out.keypoints
            .extend(keypoints.into_iter().map(super::Keypoint::from));
        out.descriptors
            .extend(descriptors.into_iter().map(Descriptor));
        out.original.extend(original);
        out.found = counts.found as usize;
        out.kept = counts.kept as usize;
        out.oriented = counts.oriented as usize;
        Ok(())
    }
}

/// Features of images up to one size.
pub struct Plan {
    size: Size,
    bytes: u64,
    geometry: Geometry,
    /// Of each octave the levels up to the one that the next octave starts from, then the others.
    blurs: Vec<[Vec<Launch>; 2]>,
    tiles: [Option<(Tiles, LaunchShape)>; 2],
    cells: Cells,
    number_of_cells: usize,
    most: u32,
    each: u32,
    pretest: i32,
    least: f32,
    edge: f32,
    describe_params: DescribeParams,
    kernels: Kernels,
    buffers: Buffers,
    upper: Stream,
    side: Stream,
    started: Event,
    ready: Event,
    forked: Event,
    joined: Event,
    sms: u32,
}

struct Kernels {
    blur: Blur,
    blur_wide: Blur,
    blur_few: BlurFew,
    extrema: Extrema,
    refine: Refine,
    cells: CellsOf,
    select: Select,
    describe: Describe,
    gather: Gather,
}

struct Buffers {
    region: DeviceBuffer<[u32; 4]>,
    levels: DeviceBuffer<u16>,
    candidates: DeviceBuffer<u32>,
    claims: DeviceBuffer<u32>,
    keys: DeviceBuffer<u64>,
    cell_of: DeviceBuffer<u32>,
    least: DeviceBuffer<u64>,
    chosen: DeviceBuffer<u32>,
    slots: DeviceBuffer<Keypoint>,
    slot_descriptors: DeviceBuffer<[u32; 8]>,
    flags: DeviceBuffer<u8>,
    /// Where points may be.
    usable: Option<DeviceBuffer<u8>>,
    /// Alive for as long as their addresses in [`DescribeParams`] are used.
    _tables: Arena,
    found: Found,
}

impl Plan {
    /// A plan for images of `size`; waits until its tables are on the device.
    ///
    /// # Errors
    /// What the CPU refuses; mode `paper` and more than [`MAX_KEYPOINTS`] points; from the driver.
    pub fn new(context: &Context, params: &FeatureParams, size: Size) -> Result<Self, PlanError> {
        Self::with_mask(context, params, size, None)
    }

    /// The same; points at pixels that are 0 in `mask` are left out, as those of
    /// [`super::cpu::Input::mask`].
    ///
    /// # Errors
    /// As [`Plan::new`], and for a mask of another size.
    pub fn with_mask(
        context: &Context,
        params: &FeatureParams,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, PlanError> {
        params.check_size(size)?;
        if let Some(mask) = mask
            && mask.size() != size
        {
            return Err(GpuError::Size {
                what: "logo: pixels of the mask",
                found: mask.size().area() as u64,
                expected: size.area() as u64,
            }
            .into());
        }
        if params.mode == Mode::Paper {
            return Err(PlanError::CpuOnly {
                key: "mode",
                found: "paper".into(),
                expected: "scale_space".into(),
            });
        }
        if params.max_keypoints > MAX_KEYPOINTS {
            return Err(PlanError::CpuOnly {
                key: "max_keypoints",
                found: params.max_keypoints.to_string(),
                expected: format!("up to {MAX_KEYPOINTS}"),
            });
        }
        let tables = Tables::new(params);
        let octaves = Octaves::new(params, size);
        let stream = Stream::new(context, crate::cuda::Priority::Normal)?;
        let intervals = usize::from(params.intervals);
        let (geometry, pixels) = geometry(params, &octaves);
        let blurs = blurs(&tables, &octaves, intervals);

        let area = |s: &Size| s.area();
        let positions = octaves.sizes.iter().map(area).sum::<usize>() * intervals;
        // Of the pixels of a 2x2x2 block at most one is a maximum and one a minimum.
        let candidates = octaves
            .sizes
            .iter()
            .map(|s| 2 * s.width.div_ceil(2) * s.height.div_ceil(2) * intervals.div_ceil(2));
        let candidates = candidates.sum::<usize>();
        let number_of_cells = match params.cell_px as usize {
            0 => 0,
            side => size.width.div_ceil(side) * size.height.div_ceil(side),
        };
        let (most, capacity) = (params.max_keypoints as usize, params.capacity());
        let each = capacity / most;

        let mut layout = ArenaLayout::new();
        let region = layout.reserve("logo region", 1);
        let levels = layout.reserve("logo levels", pixels);
        let candidate_list = layout.reserve("logo candidates", candidates);
        let claims = layout.reserve("logo claims", positions.div_ceil(32));
        let keys = layout.reserve("logo keys", candidates);
        let cell_of = layout.reserve(
            "logo cells of points",
            match number_of_cells {
                0 => 1,
                _ => candidates,
            },
        );
        let least = layout.reserve("logo least of cells", number_of_cells.max(1));
        let chosen = layout.reserve("logo chosen", most);
        let slots = layout.reserve("logo keypoints by point", most * each);
        let slot_descriptors = layout.reserve("logo descriptors by point", most * each);
        let flags = layout.reserve("logo flags", most);
        let usable = mask.map(|_| layout.reserve("logo mask", size.area()));
        let keypoints = layout.reserve("logo keypoints", capacity);
        let descriptors = layout.reserve("logo descriptors", capacity);
        let original = layout.reserve("logo original", capacity);
        let counts = layout.reserve("logo counts", 1);
        let mut bytes = layout.bytes();
        let arena = Arena::new(context, "logo", layout)?;

        let mut layout = ArenaLayout::new();
        let window = layout.reserve("logo window", tables.window.len());
        let window_radius = layout.reserve("logo window radius", tables.window_radius.len());
        let sigma = layout.reserve("logo scales", tables.sigma.len());
        let sigma_fixed = layout.reserve("logo scales, fixed", tables.sigma_fixed.len());
        let turn = layout.reserve("logo turns", 2 * usize::from(ANGLES));
        let pattern = layout.reserve("logo pattern", tables.pattern.len());
        bytes += layout.bytes();
        let tables_arena = Arena::new(context, "logo tables", layout)?;
        let window = tables_arena.buffer(window)?;
        let window_radius = tables_arena.buffer(window_radius)?;
        let sigma = tables_arena.buffer(sigma)?;
        let sigma_fixed = tables_arena.buffer(sigma_fixed)?;
        let turn = tables_arena.buffer(turn)?;
        let pattern = tables_arena.buffer(pattern)?;
        debug_assert_eq!(tables.window.len() % WINDOW, 0);
        let wide: Vec<u32> = tables.window.iter().map(|&w| w.into()).collect();
        stream.upload(&wide, &window)?;
        stream.upload(&tables.window_radius, &window_radius)?;
        stream.upload(&tables.sigma, &sigma)?;
        stream.upload(&tables.sigma_fixed, &sigma_fixed)?;
        stream.upload(&[&tables.cos[..], &tables.sin[..]].concat(), &turn)?;
        let words = tables.pattern.iter().map(|pair| {
            let part = |i: usize| u64::from(pair[i] as u16) << (16 * i);
            part(0) | part(1) | part(2) | part(3)
        });
        stream.upload(&words.collect::<Vec<u64>>(), &pattern)?;

        let points = Module::load(context, "logo_points")?;
        let describe = Module::load(context, "logo_describe")?;
        let blurring = Module::load(context, "logo_blur")?;
        let blur: Blur = blurring.function("logo_blur")?;
        let plan = Self {
            size,
            bytes,
            tiles: [
                tiles(&octaves, 0, 1),
                tiles(&octaves, 1, octaves.sizes.len()),
            ],
            geometry,
            blurs,
            cells: Cells {
                side: params.cell_px,
                budget: params.cell_budget,
            },
            number_of_cells,
            most: params.max_keypoints,
            each: each as u32,
            pretest: tables.pretest,
            least: least_value(params),
            edge: params.edge_ratio,
            describe_params: DescribeParams {
                window: window.ptr(),
                window_radius: window_radius.ptr(),
                sigma: sigma.ptr(),
                sigma_fixed: sigma_fixed.ptr(),
                turn: turn.ptr(),
                pattern: pattern.ptr(),
                least: least_value(params),
                edge: params.edge_ratio,
                oriented: params.oriented.into(),
                most_orientations: u32::from(params.max_orientations).min(MAX_ORIENTATIONS as u32),
                each: each as u32,
                scaled: params.scaled.into(),
                drop: (params.border == super::BorderPolicy::Drop).into(),
                unscaled_octave: params.upsample.into(),
                unscaled_layer: unscaled_layer(&tables) as u32,
                reserved: 0,
            },
            kernels: Kernels {
                blur,
                blur_wide: blurring.function("logo_blur_wide")?,
                blur_few: blurring.function("logo_blur_few")?,
                extrema: points.function("logo_extrema")?,
                refine: points.function("logo_refine")?,
                cells: points.function("logo_cells")?,
                select: points.function("logo_select")?,
                describe: describe.function("logo_describe")?,
                gather: describe.function("logo_gather")?,
            },
            buffers: Buffers {
                region: arena.buffer(region)?,
                levels: arena.buffer(levels)?,
                candidates: arena.buffer(candidate_list)?,
                claims: arena.buffer(claims)?,
                keys: arena.buffer(keys)?,
                cell_of: arena.buffer(cell_of)?,
                least: arena.buffer(least)?,
                chosen: arena.buffer(chosen)?,
                slots: arena.buffer(slots)?,
                slot_descriptors: arena.buffer(slot_descriptors)?,
                flags: arena.buffer(flags)?,
                usable: usable.map(|slot| arena.buffer(slot)).transpose()?,
                _tables: tables_arena,
                found: Found {
                    keypoints: arena.buffer(keypoints)?,
                    descriptors: arena.buffer(descriptors)?,
                    original: arena.buffer(original)?,
                    counts: arena.buffer(counts)?,
                },
            },
            side: Stream::new(context, crate::cuda::Priority::High)?,
            upper: Stream::new(context, crate::cuda::Priority::High)?,
            started: Event::for_order(context, false)?,
            ready: Event::for_order(context, false)?,
            forked: Event::for_order(context, false)?,
            joined: Event::for_order(context, false)?,
            sms: context.sms(),
        };
        let whole = [0, 0, size.width as u32, size.height as u32];
        stream.upload(&[whole], &plan.buffers.region)?;
        if let (Some(mask), Some(usable)) = (mask, &plan.buffers.usable) {
            stream.upload(&mask.pixels().copied().collect::<Vec<u8>>(), usable)?;
        }
        stream.fill(&plan.buffers.levels, 0u16)?;
        stream.synchronize()?;
        Ok(plan)
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the result of each frame lies.
    pub fn found(&self) -> &Found {
        &self.buffers.found
    }

    /// The part of the image to look at: x, y, width, height, inside the image; read by each run.
    /// It is the whole image until something else is written there.
    pub fn region(&self) -> &DeviceBuffer<[u32; 4]> {
        &self.buffers.region
    }

    /// Gives the work of a frame to the stream: the features of an image of the plan's size (rows
    /// one after the other), to [`Plan::found`].
    ///
    /// # Errors
    /// [`GpuError::Size`] for an image of another size; from the driver.
    pub fn enqueue(&self, stream: &Stream, image: &DeviceBuffer<u8>) -> Result<(), GpuError> {
        self.enqueue_marked(stream, image, |_| Ok(()))
    }

    /// As [`Plan::enqueue`]; `mark` is called with the name of each step behind it.
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_marked(
        &self,
        stream: &Stream,
        image: &DeviceBuffer<u8>,
        mut mark: impl FnMut(&'static str) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        if image.len() != self.size.area() {
            return Err(GpuError::Size {
                what: "logo: pixels of the image",
                found: image.len() as u64,
                expected: self.size.area() as u64,
            });
        }
        let (b, k) = (&self.buffers, &self.kernels);
        let (region, levels, counts) = (b.region.ptr(), b.levels.ptr(), b.found.counts.ptr());
        // Nothing of this is needed before the extrema.
        stream.record(&self.started)?;
        self.side.wait(&self.started)?;
        self.side.fill(&b.found.counts.view::<u32>()?, 0)?;
        self.side.fill(&b.claims, 0)?;
        let extrema = |stream: &Stream, (tiles, shape): &(Tiles, LaunchShape)| {
            k.extrema.launch(
                stream,
                *shape,
                &(
                    self.geometry,
                    *tiles,
                    region,
                    levels,
                    self.pretest,
                    b.candidates.ptr(),
                    counts,
                ),
            )
        };
        // The next octave waits for a part of the levels only: the others beside it, and the extrema
        // of the first octave, which has most of the pixels, beside all others.
        for (octave, [first, rest]) in self.blurs.iter().enumerate() {
            let blur = |stream: &Stream, launch: &Launch| match launch {
                Launch::One(job, shape) => {
                    let arguments = (self.geometry, *job, region, image.ptr(), levels);
                    let wide = job.radius > NARROW;
                    let blur = if wide { &k.blur_wide } else { &k.blur };
                    blur.launch(stream, *shape, &arguments)
                }
                Launch::Few(few, shape) => {
                    let arguments = (self.geometry, **few, region, levels);
                    k.blur_few.launch(stream, *shape, &arguments)
                }
            };
            first.iter().try_for_each(|job| blur(stream, job))?;
            stream.record(&self.ready)?;
            self.upper.wait(&self.ready)?;
            rest.iter().try_for_each(|job| blur(&self.upper, job))?;
            if octave == 0
                && let Some(tiles) = &self.tiles[0]
            {
                self.upper.record(&self.forked)?;
                self.side.wait(&self.forked)?;
                extrema(&self.side, tiles)?;
                self.side.record(&self.joined)?;
            }
        }
        self.upper.record(&self.ready)?;
        stream.wait(&self.ready)?;
        mark("blurs")?;
        stream.wait(&self.joined)?;
        if let Some(tiles) = &self.tiles[1] {
            extrema(stream, tiles)?;
        }
        mark("extrema")?;
        k.refine.launch(
            stream,
            LaunchShape::linear(4 * self.sms, REFINE_THREADS),
            &(
                self.geometry,
                self.cells,
                region,
                levels,
                b.candidates.ptr(),
                self.least,
                self.edge,
                b.claims.ptr(),
                b.keys.ptr(),
                b.cell_of.ptr(),
                counts,
                b.usable.as_ref().map_or(DevicePtr::NULL, DeviceBuffer::ptr),
            ),
        )?;
        mark("refine")?;
        if self.number_of_cells > 0 {
            k.cells.launch(
                stream,
                LaunchShape::linear(self.number_of_cells as u32, CELL_THREADS),
                &(
                    self.cells,
                    b.keys.ptr(),
                    b.cell_of.ptr(),
                    counts,
                    b.least.ptr(),
                ),
            )?;
        }
        k.select.launch(
            stream,
            LaunchShape::linear(1, SELECT_THREADS),
            &(
                self.cells,
                self.most,
                b.keys.ptr(),
                b.cell_of.ptr(),
                b.least.ptr(),
                b.chosen.ptr(),
                counts,
            ),
        )?;
        mark("select")?;
        let most = self.most as usize;
        k.describe.launch(
            stream,
            LaunchShape::linear(self.most, DESCRIBE_THREADS),
            &(
                self.geometry,
                self.describe_params,
                region,
                levels,
                b.chosen.ptr(),
                counts,
                b.slots.ptr(),
                b.slot_descriptors.ptr(),
                b.flags.ptr(),
            ),
        )?;
        mark("describe")?;
        k.gather.launch(
            stream,
            LaunchShape::covering(most, GATHER_THREADS),
            &(
                self.each,
                b.flags.ptr(),
                b.slots.ptr(),
                b.slot_descriptors.ptr(),
                b.found.keypoints.ptr(),
                b.found.descriptors.ptr(),
                b.found.original.ptr(),
                counts,
            ),
        )?;
        mark("gather")
    }
}
