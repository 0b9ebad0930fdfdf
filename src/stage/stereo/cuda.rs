//! The stereo stage on a GPU: `kernels/stereo*.cu`, the bytes of [`super::cpu::Plan`].
//!
//! # How the work is cut
//! Census words (and the P2 of every step), one volume of costs, one volume of path costs for
//! each direction (all directions in one launch, a byte a disparity), then one block a row that
//! sums the paths up and finds winners and right disparities on the way; filters a pixel a thread.
//! Whatever depends on the frame is in device memory; [`Plan::enqueue`] only gives work to the
//! stream and can be captured.
use super::{Params, ParamsError};
use crate::{
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape,
        Module, Slot, Stream,
    },
    device_struct,
    frame::{DISPARITY_ONE, Image, Mask, Size},
};

/// What can go wrong when the plan is made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A parameter or size is not usable.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// The buffers of the stage, planned in a layout that other stages can share.
#[derive(Debug, Clone)]
pub struct Reserved {
    params: Params,
    size: Size,
    masked: bool,
    map_len: usize,
    left_census: Slot<u32>,
    right_census: Slot<u32>,
    p2_of_step: Slot<u8>,
    p2: Slot<u32>,
    mask: Slot<u8>,
    cost: Slot<u8>,
    paths: Slot<u8>,
    winners: Slot<u16>,
    best: Slot<u8>,
    right: Slot<u16>,
    medians: Slot<u16>,
    rows: Slot<u16>,
    labels: Slot<u32>,
    areas: Slot<u32>,
}

impl Reserved {
    /// Plans the buffers for images of `size`; `masked`: there will be a mask.
    ///
    /// # Errors
    /// When a parameter or the size is not usable.
    pub fn new(
        params: &Params,
        size: Size,
        masked: bool,
        layout: &mut ArenaLayout,
    ) -> Result<Self, ParamsError> {
        params.check_size(size, None)?;
        let area = size.area();
        let volume = area * usize::from(params.disparities);
        // Paths look up to a row and a pixel outside the map, without using what they find.
        let map_len = area + 2 * guard(size);
        let speckles = if params.speckle_max_area_px > 0 {
            area
        } else {
            0
        };
        let rights = if params.left_right { area } else { 0 };
        Ok(Self {
            params: params.clone(),
            size,
            masked,
            map_len,
            left_census: layout.reserve("stereo: left census", area),
            right_census: layout.reserve("stereo: right census", area),
            p2_of_step: layout.reserve("stereo: P2 table", 256),
            p2: layout.reserve("stereo: P2 of steps", maps(params) * map_len),
            mask: layout.reserve("stereo: mask", if masked { area } else { 0 }),
            cost: layout.reserve("stereo: costs", volume),
            paths: layout.reserve("stereo: paths", volume * usize::from(params.paths)),
            winners: layout.reserve("stereo: winners", area),
            best: layout.reserve("stereo: whole disparities", area),
            right: layout.reserve("stereo: right disparities", rights),
            medians: layout.reserve("stereo: medians", area),
            rows: layout.reserve("stereo: rows closed", area),
            labels: layout.reserve("stereo: regions", speckles),
            areas: layout.reserve("stereo: areas", speckles),
        })
    }
}

/// Directions between neighbours whose grey steps are looked up, without the sign.
fn maps(params: &Params) -> usize {
    usize::from(params.paths / 2)
}

/// Elements before and behind each map of P2.
fn guard(size: Size) -> usize {
    size.width + 2
}

device_struct! {
    struct WinnerArguments {
        paths: DevicePtr<u8>,
        volume_len: u64,
        mask: DevicePtr<u8>,
        winners: DevicePtr<u16>,
        best: DevicePtr<u8>,
        right: DevicePtr<u16>,
        width: u32,
        uniqueness: u32,
        left_right: u32,
        left_right_max: u32,
        subpixel: u32,
        reserved: u32,
    }
}

type P8 = DevicePtr<u8>;
type P16 = DevicePtr<u16>;
type P32 = DevicePtr<u32>;

#[expect(
    clippy::type_complexity,
    reason = "the parameters of the kernels, in their order"
)]
struct Kernels {
    census: Function<(P8, P8, P32, P32, P8, P32, u64, u32, u32, u32, u32)>,
    costs: Function<(P32, P32, P8, P8, u32)>,
    paths: Function<(P8, P8, u64, P32, u64, u32, u32, u32, u32, u32, u32)>,
    winners: Function<(WinnerArguments,)>,
    median: Function<(P16, P16, u32, u32)>,
    speckle_runs: Function<(P16, P32, P32, u32, u32, u32)>,
    speckle_join: Function<(P16, P32, u32, u32, u32)>,
    speckle_areas: Function<(P16, P32, P32, u32, u32, u32, u32)>,
    gaps_rows: Function<(P16, P32, P32, P16, u32, u32, u32, u32)>,
    gaps_columns: Function<(P16, P8, P16, u32, u32, u32, u32)>,
}

/// How paths are cut: the same bytes, another speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum PathShape {
    /// They read batches of 8 pixels ahead, which hides most latency, and diagonals go on at the
    /// other side of the image; for large GPUs.
    Deep,
    /// Batches of 2: twice as many warps at a time; diagonals go from border to border, and the
    /// winners ask ahead for what the paths have left in memory.
    Dense,
}

impl PathShape {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Deep, Self::Dense];

    /// The best for so many multiprocessors.
    pub fn of_sms(sms: u32) -> Self {
        const FEW_SMS: u32 = 40;
        if sms <= FEW_SMS {
            Self::Dense
        } else {
            Self::Deep
        }
    }
}

/// Disparities of a lane of a path.
const LANE_DISPARITIES: usize = 16;

/// Threads of a block of paths.
const PATH_THREADS: usize = 64;

/// The stereo stage for one image size on a GPU.
pub struct Plan {
    params: Params,
    size: Size,
    map_len: usize,
    kernels: Kernels,
    shape: PathShape,
    left_census: DeviceBuffer<u32>,
    right_census: DeviceBuffer<u32>,
    p2_of_step: DeviceBuffer<u8>,
    p2: DeviceBuffer<u32>,
    mask: Option<DeviceBuffer<u8>>,
    cost: DeviceBuffer<u8>,
    paths: DeviceBuffer<u8>,
    winners: DeviceBuffer<u16>,
    best: DeviceBuffer<u8>,
    right: DeviceBuffer<u16>,
    medians: DeviceBuffer<u16>,
    rows: DeviceBuffer<u16>,
    labels: DeviceBuffer<u32>,
    areas: DeviceBuffer<u32>,
}

impl Plan {
    /// The plan over an arena in which `reserved` was planned. Fills tables on `stream` and
    /// waits: at start only. The mask must be there if and only if it was planned.
    ///
    /// # Errors
    /// When the mask has another size (or 0x0 stands for none where one was planned); from the GPU.
    pub fn new(
        context: &Context,
        stream: &Stream,
        arena: &Arena,
        reserved: &Reserved,
        mask: Option<&Mask>,
    ) -> Result<Self, Error> {
        let shape = PathShape::of_sms(context.sms());
        Self::with_shape(context, stream, arena, reserved, mask, shape)
    }

    /// As [`Plan::new`], with paths cut as told.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn with_shape(
        context: &Context,
        stream: &Stream,
        arena: &Arena,
        reserved: &Reserved,
        mask: Option<&Mask>,
        shape: PathShape,
    ) -> Result<Self, Error> {
        let Reserved { params, size, .. } = reserved;
        params.check_size(*size, mask.map(Image::size))?;
        if reserved.masked != mask.is_some() {
            let expected = if reserved.masked {
                *size
            } else {
                Size::new(0, 0)
            };
            let found = mask.map_or(Size::new(0, 0), Image::size);
            return Err(ParamsError::MaskSize { found, expected }.into());
        }
        let kernels = kernels(context, params, *size, shape)?;
        let plan = Self {
            params: params.clone(),
            size: *size,
            map_len: reserved.map_len,
            kernels,
            shape,
            left_census: arena.buffer(reserved.left_census)?,
            right_census: arena.buffer(reserved.right_census)?,
            p2_of_step: arena.buffer(reserved.p2_of_step)?,
            p2: arena.buffer(reserved.p2)?,
            mask: mask.map(|_| arena.buffer(reserved.mask)).transpose()?,
            cost: arena.buffer(reserved.cost)?,
            paths: arena.buffer(reserved.paths)?,
            winners: arena.buffer(reserved.winners)?,
            best: arena.buffer(reserved.best)?,
            right: arena.buffer(reserved.right)?,
            medians: arena.buffer(reserved.medians)?,
            rows: arena.buffer(reserved.rows)?,
            labels: arena.buffer(reserved.labels)?,
            areas: arena.buffer(reserved.areas)?,
        };
        stream.upload(&params.p2_table(), &plan.p2_of_step)?;
        stream.fill(&plan.p2, 0x7000_7000u32)?;
        if let (Some(mask), Some(to)) = (mask, &plan.mask) {
            let packed: Vec<u8> = mask.pixels().copied().collect();
            stream.upload(&packed, to)?;
        }
        stream.synchronize()?;
        Ok(plan)
    }

    /// The images' size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Gives a frame's work to the stream: from two images to the disparity of the left one, all
    /// with packed rows. Can be captured.
    ///
    /// # Errors
    /// [`GpuError::Size`] for a buffer of another size; from the driver.
    pub fn enqueue(
        &self,
        stream: &Stream,
        left: &DeviceBuffer<u8>,
        right: &DeviceBuffer<u8>,
        disparity: &DeviceBuffer<u16>,
    ) -> Result<(), GpuError> {
        self.enqueue_marked(stream, left, right, disparity, |_| Ok(()))
    }

    /// As [`Plan::enqueue`]; calls `mark` with the name of each step behind it, to take times.
    ///
    /// # Errors
    /// As [`Plan::enqueue`], and what `mark` returns.
    pub fn enqueue_marked(
        &self,
        stream: &Stream,
        left: &DeviceBuffer<u8>,
        right: &DeviceBuffer<u8>,
        disparity: &DeviceBuffer<u16>,
        mut mark: impl FnMut(&'static str) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        for len in [left.len(), right.len(), disparity.len()] {
            if len != self.size.area() {
                return Err(GpuError::Size {
                    what: "stereo: pixels of a buffer",
                    found: len as u64,
                    expected: self.size.area() as u64,
                });
            }
        }
        self.matching(stream, left, right, &mut mark)?;
        self.filters(stream, disparity, &mut mark)
    }

    /// Census to winners.
    fn matching(
        &self,
        stream: &Stream,
        left: &DeviceBuffer<u8>,
        right: &DeviceBuffer<u8>,
        mark: &mut impl FnMut(&'static str) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let Size { width, height } = self.size;
        let (w, h) = (width as u32, height as u32);
        let d = usize::from(self.params.disparities);
        let volume_len = self.cost.len() as u64;
        let mask = self
            .mask
            .as_ref()
            .map_or(DevicePtr::NULL, DeviceBuffer::ptr);
        let p2 = self.p2.slice(guard(self.size)..self.p2.len())?;
        self.kernels.census.launch(
            stream,
            LaunchShape::new([w.div_ceil(128), h.div_ceil(8), 2], [256, 1, 1]),
            &(
                left.ptr(),
                right.ptr(),
                self.left_census.ptr(),
                self.right_census.ptr(),
                self.p2_of_step.ptr(),
                p2.ptr(),
                self.map_len as u64,
                w,
                h,
                maps(&self.params) as u32,
                self.params.p1.into(),
            ),
        )?;
        mark("census")?;
        self.kernels.costs.launch(
            stream,
            LaunchShape::new([w.div_ceil(256), h, 1], [128, 1, 1]),
            &(
                self.left_census.ptr(),
                self.right_census.ptr(),
                mask,
                self.cost.ptr(),
                w,
            ),
        )?;
        mark("costs")?;
        let diagonals = match (self.params.paths, self.shape) {
            (4, _) => 0,
            (_, PathShape::Deep) => width,
            (_, PathShape::Dense) => width + height - 1,
        };
        let chains = PATH_THREADS * LANE_DISPARITIES / d;
        let [row_blocks, column_blocks, diagonal_blocks] =
            [height, width, diagonals].map(|paths| paths.div_ceil(chains));
        let blocks = 2 * row_blocks + 2 * column_blocks + 4 * diagonal_blocks;
        self.kernels.paths.launch(
            stream,
            LaunchShape::linear(blocks as u32, PATH_THREADS as u32),
            &(
                self.cost.ptr(),
                self.paths.ptr(),
                volume_len,
                p2.ptr(),
                self.map_len as u64,
                w,
                h,
                self.params.p1.into(),
                row_blocks as u32,
                column_blocks as u32,
                diagonal_blocks as u32,
            ),
        )?;
        mark("paths")?;
        self.kernels.winners.launch(
            stream,
            LaunchShape::linear(h, 256).with_shared(winner_shared(d)),
            &(WinnerArguments {
                paths: self.paths.ptr(),
                volume_len,
                mask,
                winners: self.winners.ptr(),
                best: self.best.ptr(),
                right: self.right.ptr(),
                width: w,
                uniqueness: self.params.uniqueness_percent.into(),
                left_right: self.params.left_right.into(),
                left_right_max: self.params.left_right_max_px.into(),
                subpixel: self.params.subpixel.into(),
                reserved: 0,
            },),
        )?;
        mark("winners")
    }

    /// Median to the end.
    fn filters(
        &self,
        stream: &Stream,
        disparity: &DeviceBuffer<u16>,
        mark: &mut impl FnMut(&'static str) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let Params {
            speckle_max_area_px: max_area,
            gap_max_px: gap,
            ..
        } = self.params;
        let (w, h) = (self.size.width as u32, self.size.height as u32);
        let tiles = LaunchShape::new([w.div_ceil(32), h.div_ceil(8), 1], [32, 8, 1]);
        let (labels, areas) = (self.labels.ptr(), self.areas.ptr());
        let mut checked = self.winners.ptr();
        if self.params.median {
            checked = self.medians.ptr();
            self.kernels.median.launch(
                stream,
                LaunchShape::new([w.div_ceil(64), h.div_ceil(8), 1], [32, 8, 1]),
                &(self.winners.ptr(), checked, w, h),
            )?;
        }
        mark("median")?;
        if max_area > 0 {
            let step = u32::from(self.params.speckle_max_step_px * DISPARITY_ONE);
            let kernels = &self.kernels;
            kernels
                .speckle_runs
                .launch(stream, tiles, &(checked, labels, areas, w, h, step))?;
            kernels
                .speckle_join
                .launch(stream, tiles, &(checked, labels, w, h, step))?;
            kernels.speckle_areas.launch(
                stream,
                tiles,
                &(checked, labels, areas, w, h, step, max_area),
            )?;
            mark("speckles")?;
        }
        let step = u32::from(self.params.gap_max_step_px * DISPARITY_ONE);
        let mut last = checked;
        if max_area > 0 || gap > 0 {
            let (labels, areas) = if max_area > 0 {
                (labels, areas)
            } else {
                (DevicePtr::NULL, DevicePtr::NULL)
            };
            last = self.rows.ptr();
            self.kernels.gaps_rows.launch(
                stream,
                LaunchShape::linear(h, 256).with_shared(gaps_shared(w)),
                &(checked, labels, areas, last, w, max_area, gap.into(), step),
            )?;
            mark("gaps in rows")?;
        }
        let mask = self
            .mask
            .as_ref()
            .map_or(DevicePtr::NULL, DeviceBuffer::ptr);
        self.kernels.gaps_columns.launch(
            stream,
            LaunchShape::new([w.div_ceil(32), h.div_ceil(128), 1], [32, 4, 1]),
            &(last, mask, disparity.ptr(), w, h, gap.into(), step),
        )?;
        mark("gaps in columns")
    }
}

/// Bytes of dynamic shared memory of the winners' kernel, as laid out there.
fn winner_shared(d: usize) -> u32 {
    let chain = d / 2;
    let (pixels, parts) = if d == 256 { (16, 8) } else { (32, 4) };
    let ring = chain.max(pixels) + 2 * pixels;
    let found = 3 * 2 * parts * (pixels + 32 / parts);
    let waiting = 256;
    (((ring + pixels) * (chain + parts) + found + waiting) * 4) as u32
}

/// Bytes of dynamic shared memory of the kernel that closes gaps in rows of `width`.
fn gaps_shared(width: u32) -> u32 {
    4 * width.div_ceil(32) + 2 * width
}

fn kernels(
    context: &Context,
    params: &Params,
    size: Size,
    shape: PathShape,
) -> Result<Kernels, GpuError> {
    let matching = Module::load(context, "stereo")?;
    let winners = Module::load(context, "stereo_winners")?;
    let filters = Module::load(context, "stereo_filters")?;
    let (costs, paths, winner) = match params.disparities {
        64 => (
            "stereo_costs_64",
            ["stereo_paths_64_4_8", "stereo_paths_64_4_2"],
            [
                ["stereo_winners_64_4", "stereo_winners_64_8"],
                ["stereo_winners_ahead_64_4", "stereo_winners_ahead_64_8"],
            ],
        ),
        128 => (
            "stereo_costs_128",
            ["stereo_paths_128_4_8", "stereo_paths_128_4_2"],
            [
                ["stereo_winners_128_4", "stereo_winners_128_8"],
                ["stereo_winners_ahead_128_4", "stereo_winners_ahead_128_8"],
            ],
        ),
        _ => (
            "stereo_costs_256",
            ["stereo_paths_256_4_8", "stereo_paths_256_4_2"],
            [
                ["stereo_winners_256_4", "stereo_winners_256_8"],
                ["stereo_winners_ahead_256_4", "stereo_winners_ahead_256_8"],
            ],
        ),
    };
    let kernels = Kernels {
        census: matching.function("stereo_census")?,
        costs: matching.function(costs)?,
        paths: matching.function(paths[shape as usize])?,
        winners: winners.function(winner[shape as usize][usize::from(params.paths == 8)])?,
        median: filters.function("stereo_median")?,
        speckle_runs: filters.function("stereo_speckle_runs")?,
        speckle_join: filters.function("stereo_speckle_join")?,
        speckle_areas: filters.function("stereo_speckle_areas")?,
        gaps_rows: filters.function("stereo_gaps_rows")?,
        gaps_columns: filters.function("stereo_gaps_columns")?,
    };
    kernels
        .winners
        .allow_shared(winner_shared(params.disparities.into()))?;
    kernels.winners.prefer_shared(100)?;
    kernels
        .gaps_rows
        .allow_shared(gaps_shared(size.width as u32))?;
    Ok(kernels)
}
