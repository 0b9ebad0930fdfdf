//! The stixel stage on the GPU: the same bytes as [`cpu`](super::cpu), from a disparity and a
//! road in device memory to lists in device memory.
//!
//! Two kernels: the ground of the frame, one thread a row (`kernels/stixel_ground.cu`); then one
//! block a column (`kernels/stixel.cu`). As many blocks run as the GPU holds at once, each with its
//! own scratch memory, and take column after column. Images too tall for 32-bit costs and sums or
//! for shared memory go through a slower kernel of the same text in 64 bits.
use crate::{
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape,
        Module, Stream,
    },
    device_struct,
    frame::{Camera, Class, Size, Stixel, Stixels},
};

use super::{
    InvalidPixels, Params, ParamsError, Reduction, RoadModel, Rounding,
    tables::{IMPOSSIBLE, Tables},
};

/// Rows that are solved together.
const TILE: usize = 32;
/// Words of a ground row and of the frame's state in device memory.
const GROUND_WORDS: usize = 8;
const FRAME_WORDS: usize = 4;
/// Most device memory for the scratch of tall images' columns.
const TALL_SCRATCH: usize = 1 << 29;
/// Threads of a block: fewer where many columns share a multiprocessor.
const FEW_THREADS: u32 = 160;
const MANY_THREADS: u32 = 320;
/// Most columns that are put in order.
const MAX_RANKED: usize = 1024;

/// Why there is no plan for the GPU.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The stage refuses its parameters.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU does not take the plan.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

device_struct! {
    /// `Tables` of kernels/stixel.cuh.
    #[derive(Debug)]
    struct Arguments {
        object: DevicePtr<i16>,
        cut: DevicePtr<i32>,
        mantissa: DevicePtr<i32>,
        same: DevicePtr<i32>,
        reciprocals: DevicePtr<u64>,
        short_reciprocals: DevicePtr<u32>,
        ln: DevicePtr<f64>,
        erf: DevicePtr<f64>,
        rows: DevicePtr<i32>,
        frame: DevicePtr<i32>,
        lut: DevicePtr<i32>,
        cuts: DevicePtr<u64>,
        ground_sums: DevicePtr<i32>,
        sky_sums: DevicePtr<i32>,
        path: DevicePtr<u64>,
        row_memory: DevicePtr<u64>,
        links: DevicePtr<u64>,
        effort: DevicePtr<u32>,
        order: DevicePtr<u32>,
        row_bytes: u64,
        link_bytes: u64,
        lut_rows: u64,
        unit_reciprocal: u64,
        focal_px: f64,
        cy: f64,
        baseline_m: f64,
        sigma_ground_px: f64,
        sigma_height_m: f64,
        sigma_tilt_rad: f64,
        ground_normaliser: f64,
        sky_below_px: f64,
        sky_base: f32,
        sky_weight: f32,
        height: i32,
        columns: i32,
        disparities: i32,
        unit: i32,
        width: i32,
        capacity: i32,
        pixel_limit: i32,
        left_border: i32,
        unseen_border: i32,
        invalid_as_zero: i32,
        median: i32,
        nearest: i32,
        reference_road: i32,
        steps: i32,
        half_step: i32,
        missing_rows: i32,
        short_unit_reciprocal: u32,
        object_outlier: i32,
        ground_outlier: i32,
        ground_missing: i32,
        sky_outlier: i32,
        sky_missing: i32,
        sky_missing_at_top: i32,
        ground_tolerance: i32,
        sky_tolerance: i32,
        ln_2: i32,
        ln_range: i32,
        ground_next: i32,
        object_next: i32,
        nearer: i32,
        farther: i32,
        flying: i32,
        sunken: i32,
        standing: i32,
        on_sky: i32,
        ln2: i32,
        ln_unit: i32,
        reciprocals_at: i32,
        tile_at: i32,
        rows_at: i32,
        sums_at: i32,
        keys_at: i32,
        counts_at: i32,
        object_rows_at: i32,
        links_at: i32,
        list_at: i32,
        slack_at: i32,
        sms: i32,
        slowest_first: i32,
    }
}

/// Where a column's row arrays lie.
#[derive(Debug, Clone, Copy)]
struct RowMemory {
    sums: usize,
    keys: usize,
    counts: usize,
    object_rows: usize,
    links: usize,
    list: usize,
    slack: usize,
    bytes: usize,
}

impl RowMemory {
    fn new(height: usize, tall: bool, links: bool) -> Self {
        let (wide, narrow) = if tall { (8, 4) } else { (4, 2) };
        let mut end = 0;
        let mut take = |bytes: usize| {
            let at = end;
            end = (at + bytes).next_multiple_of(16);
            at
        };
        Self {
            sums: take(wide * (height + 1)),
            keys: take(wide * height),
            counts: take(narrow * (height + 1)),
            object_rows: take(2 * height),
            links: take(if links { 3 * narrow * height } else { 0 }),
            list: take(2 * height),
            slack: take(wide * height.div_ceil(TILE)),
            bytes: end,
        }
    }
}

/// The stixel stage for one image size, on a GPU. Owns its tables and scratch memory there.
pub struct Plan {
    tables: Tables,
    size: Size,
    columns: usize,
    arguments: Arguments,
    ground: Function<(Arguments, DevicePtr<f32>, DevicePtr<u64>)>,
    solve: Function<(Arguments, DevicePtr<u16>, u64, DevicePtr<u64>)>,
    shape: LaunchShape,
    tall: bool,
    arena: Arena,
}

impl Plan {
    /// A plan as [`cpu::Plan::new`](super::cpu::Plan::new) makes it. The tables are uploaded on
    /// `stream`, and waited for.
    ///
    /// # Errors
    /// What the CPU's plan refuses; from the driver, or over the context's memory limit.
    pub fn new(
        context: &Context,
        stream: &Stream,
        params: &Params,
        size: Size,
        camera: &Camera,
        disparities: usize,
    ) -> Result<Self, PlanError> {
        Self::with_threads(context, stream, params, size, camera, disparities, None)
    }

    /// The same with so many threads a block (a multiple of 32 from 96 to 320); for measurements. The result does not
    /// depend on it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[doc(hidden)]
    pub fn with_threads(
        context: &Context,
        stream: &Stream,
        params: &Params,
        size: Size,
        camera: &Camera,
        disparities: usize,
        threads: Option<u32>,
    ) -> Result<Self, PlanError> {
        let tables = Tables::new(params, size, camera, disparities)?;
        let columns = size.width / params.stixel_width;
        let h = size.height;
        let sms = context.sms();
        let crowded = columns > 3 * sms as usize;
        let threads = threads.unwrap_or(if crowded { FEW_THREADS } else { MANY_THREADS });

        let module = Module::load(context, "stixel")?;
        let largest = tables.largest() as u64;
        let same_bytes = 8 * disparities;
        let tile_bytes = 4 * disparities * (TILE + 1);
        let short_rows = RowMemory::new(h, false, !crowded);
        let bytes_of_reciprocals = (4 * (h + 1)).next_multiple_of(16);
        let shared = |tall: bool| {
            same_bytes
                + tile_bytes
                + if tall {
                    0
                } else {
                    bytes_of_reciprocals + short_rows.bytes
                }
        };
        let fits = |function: &Function<_>| {
            let limit = context.device().shared_per_block;
            let limit = limit.saturating_sub(function.info().static_shared) as usize;
            shared(false) <= limit
        };
        let short = module.function("stixel_columns")?;
        let tall = h >= 1 << 14
            || largest * h as u64 >= 1 << 30
            || (largest + 1 + u64::from(tables.half_step)) * u64::from(tables.unit) >= 1 << 32
            || tables.cost_range * h as i64 + (1 << 20) >= 1 << 27
            || !fits(&short);
        let solve = if tall {
            module.function("stixel_columns_tall")?
        } else {
            short
        };
        let shared = shared(tall) as u32;
        let reciprocal_bytes = if tall { 0 } else { bytes_of_reciprocals };
        solve.allow_shared(shared)?;

        let rows = RowMemory::new(h, tall, tall || !crowded);
        let lut_rows = h.next_multiple_of(TILE) + 1;
        let cut_bytes = if tall { 80 } else { 48 };
        let row_bytes = if tall { rows.bytes } else { 0 };
        // Where many blocks share a multiprocessor, shared memory decides how many.
        let link_bytes = if tall || !crowded {
            0
        } else {
            (6 * h).next_multiple_of(8)
        };
        let slot_bytes =
            4 * lut_rows * disparities + h * (cut_bytes + 8) + 8 * (h + 1) + row_bytes + link_bytes;
        let resident = (solve.blocks_per_sm(threads, shared)?.max(1) * sms.max(1)) as usize;
        let slots = if tall {
            resident.min(TALL_SCRATCH / slot_bytes).max(1)
        } else {
            resident
        };
        let slots = slots.min(columns).max(1);

        let priors = &tables.priors;
        let same: Vec<i32> = tables
            .separation
            .iter()
            .flat_map(|&s| [s, tables.spread_over(priors.same, 2 * s)])
            .collect();
        // Exact for doubled sums below 2^31, see Column::mean.
        let short_reciprocals: Vec<u32> = (0..=h as u64)
            .map(|n| match n {
                0 => 0,
                n => (1u64 << (31 + n.ilog2())).div_ceil(n) as u32,
            })
            .collect();

        let mut layout = ArenaLayout::new();
        let effort = layout.reserve::<u32>("stixel: efforts", columns.max(1));
        let order_slot = layout.reserve::<u32>("stixel: order of columns", columns.max(1));
        let object = layout.reserve::<i16>("stixel: object costs", tables.object.len());
        let cut = layout.reserve::<i32>("stixel: priors of cuts", h);
        let mantissa = layout.reserve::<i32>("stixel: logarithms", tables.log.mantissa.len());
        let same_slot = layout.reserve::<i32>("stixel: separation", same.len());
        let reciprocals = layout.reserve::<u64>("stixel: reciprocals", h + 1);
        let short_slot = layout.reserve::<u32>("stixel: short reciprocals", h + 1);
        let ln = layout.reserve::<f64>("stixel: ln", tables.functions.ln.len());
        let erf = layout.reserve::<f64>("stixel: erf", tables.functions.erf.len());
        let ground_rows = layout.reserve::<i32>("stixel: ground", h * GROUND_WORDS);
        let frame = layout.reserve::<i32>("stixel: frame", FRAME_WORDS);
        let lut = layout.reserve::<i32>(
            "stixel: sums of object costs",
            slots * lut_rows * disparities,
        );
        let cuts = layout.reserve::<u64>("stixel: cuts", slots * h * cut_bytes / 8);
        let [ground_sums, sky_sums] = ["ground", "sky"].map(|of| {
            layout.reserve::<i32>(format!("stixel: sums of {of} costs"), slots * (h + 1))
        });
        let path = layout.reserve::<u64>("stixel: paths", slots * h);
        let row_memory = layout.reserve::<u64>("stixel: rows", (slots * row_bytes / 8).max(1));
        let links = layout.reserve::<u64>("stixel: links", (slots * link_bytes / 8).max(1));
        let arena = Arena::new(context, "stixel", layout)?;

        stream.upload(&tables.object, &arena.buffer(object)?)?;
        stream.upload(&tables.cut, &arena.buffer(cut)?)?;
        stream.upload(&tables.log.mantissa, &arena.buffer(mantissa)?)?;
        stream.upload(&same, &arena.buffer(same_slot)?)?;
        stream.upload(&tables.reciprocals.0, &arena.buffer(reciprocals)?)?;
        stream.upload(&short_reciprocals, &arena.buffer(short_slot)?)?;
        stream.upload(&tables.functions.ln, &arena.buffer(ln)?)?;
        stream.upload(&tables.functions.erf, &arena.buffer(erf)?)?;

        // Nothing is known before the first frame.
        let order: Vec<u32> = (0..columns.max(1) as u32).collect();
        stream.upload(&order, &arena.buffer(order_slot)?)?;
        stream.fill(&arena.buffer(effort)?, 0u32)?;

        let flag = |on: bool| i32::from(on);
        let arguments = Arguments {
            object: arena.buffer(object)?.ptr(),
            cut: arena.buffer(cut)?.ptr(),
            mantissa: arena.buffer(mantissa)?.ptr(),
            same: arena.buffer(same_slot)?.ptr(),
            reciprocals: arena.buffer(reciprocals)?.ptr(),
            short_reciprocals: arena.buffer(short_slot)?.ptr(),
            ln: arena.buffer(ln)?.ptr(),
            erf: arena.buffer(erf)?.ptr(),
            rows: arena.buffer(ground_rows)?.ptr(),
            frame: arena.buffer(frame)?.ptr(),
            lut: arena.buffer(lut)?.ptr(),
            cuts: arena.buffer(cuts)?.ptr(),
            ground_sums: arena.buffer(ground_sums)?.ptr(),
            sky_sums: arena.buffer(sky_sums)?.ptr(),
            path: arena.buffer(path)?.ptr(),
            row_memory: arena.buffer(row_memory)?.ptr(),
            links: arena.buffer(links)?.ptr(),
            effort: arena.buffer(effort)?.ptr(),
            order: arena.buffer(order_slot)?.ptr(),
            row_bytes: row_bytes as u64,
            link_bytes: link_bytes as u64,
            lut_rows: lut_rows as u64,
            unit_reciprocal: tables.unit_reciprocal,
            focal_px: camera.focal_px,
            cy: camera.cy,
            baseline_m: camera.baseline_m,
            sigma_ground_px: params.sigma_ground_px,
            sigma_height_m: params.sigma_height_m,
            sigma_tilt_rad: params.sigma_tilt_deg * (std::f64::consts::PI / 180.0),
            ground_normaliser: tables.ground_pixel.normaliser,
            sky_below_px: params.sky_below_px,
            sky_base: tables.sky.base,
            sky_weight: tables.sky.weight,
            height: h as i32,
            columns: columns as i32,
            disparities: disparities as i32,
            unit: tables.unit as i32,
            width: params.stixel_width as i32,
            capacity: params.max_stixels_per_column as i32,
            pixel_limit: (disparities * 256 - 1).min(usize::from(crate::frame::INVALID) - 1) as i32,
            left_border: params.left_border_px as i32,
            unseen_border: params.unseen_border_px as i32,
            invalid_as_zero: flag(params.invalid_pixels == InvalidPixels::Zero),
            median: flag(params.reduction == Reduction::Median),
            nearest: flag(params.rounding == Rounding::Nearest),
            reference_road: flag(params.road_model == RoadModel::Reference),
            steps: params.object_steps_per_px as i32,
            half_step: tables.half_step as i32,
            missing_rows: tables.missing_rows as i32,
            short_unit_reciprocal: (1u64 << 32).div_ceil(u64::from(tables.unit)) as u32,
            object_outlier: tables.object_pixel.outlier,
            ground_outlier: tables.ground_pixel.outlier,
            ground_missing: tables.ground_pixel.missing,
            sky_outlier: tables.sky_pixel.outlier,
            sky_missing: tables.sky_pixel.missing,
            sky_missing_at_top: tables.sky_missing_at_top,
            ground_tolerance: tables.ground_tolerance,
            sky_tolerance: tables.sky_tolerance,
            ln_2: priors.ln_2,
            ln_range: priors.ln_range,
            ground_next: priors.ground_next,
            object_next: priors.object_next,
            nearer: priors.nearer,
            farther: priors.farther,
            flying: priors.flying,
            sunken: priors.sunken,
            standing: priors.standing,
            on_sky: priors.on_sky,
            ln2: tables.log.ln2,
            ln_unit: tables.log.ln_unit,
            reciprocals_at: same_bytes as i32,
            tile_at: (same_bytes + reciprocal_bytes) as i32,
            rows_at: (same_bytes + reciprocal_bytes + tile_bytes) as i32,
            sums_at: rows.sums as i32,
            keys_at: rows.keys as i32,
            counts_at: rows.counts as i32,
            object_rows_at: rows.object_rows as i32,
            links_at: if link_bytes > 0 {
                -1
            } else {
                rows.links as i32
            },
            list_at: rows.list as i32,
            slack_at: rows.slack as i32,
            sms: sms.max(1) as i32,
            slowest_first: flag(columns <= MAX_RANKED),
        };
        debug_assert!(priors.same == IMPOSSIBLE || priors.same >= 0);
        Ok(Self {
            size,
            columns,
            arguments,
            ground: Module::load(context, "stixel_ground")?.function("stixel_ground")?,
            solve,
            shape: LaunchShape::linear(slots as u32, threads).with_shared(shared),
            tall,
            arena,
            tables,
        })
    }

    /// The image size that it was built for.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Columns of its output.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether the slower kernel for tall images is used.
    pub fn is_tall(&self) -> bool {
        self.tall
    }

    /// Blocks, threads and shared memory of the main kernel.
    pub fn shape(&self) -> LaunchShape {
        self.shape
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.arena.layout().bytes()
    }

    /// Words of the output buffer: the number of columns that were cut short, a `u16` count for
    /// each column, then `max_stixels_per_column` words a column, each a stixel (16 bits each of
    /// top, base and disparity from the low end, 8 bits of class, 8 of confidence).
    pub fn output_words(&self) -> usize {
        1 + self.columns.div_ceil(4) + self.columns * self.tables.params.max_stixels_per_column
    }

    /// Enqueues the stage: `disparity` in rows of `stride` pixels, `road` the floats of a
    /// [`Road`](crate::frame::Road) in their order, `out` of [`output_words`](Self::output_words).
    /// Runs of one plan must not overlap. Nothing waits; it can be captured in a graph.
    ///
    /// # Errors
    /// [`GpuError::Size`] for a buffer that is too small; from the driver.
    pub fn enqueue(
        &self,
        stream: &Stream,
        disparity: &DeviceBuffer<u16>,
        stride: usize,
        road: &DeviceBuffer<f32>,
        out: &DeviceBuffer<u64>,
    ) -> Result<(), GpuError> {
        let pixels = stride * (self.size.height - 1) + self.size.width;
        for (what, found, expected) in [
            (
                "stixel: stride, at least the width",
                stride,
                self.size.width,
            ),
            ("stixel: pixels of the disparity", disparity.len(), pixels),
            ("stixel: floats of the road", road.len(), 3),
            (
                "stixel: words of the output",
                out.len(),
                self.output_words(),
            ),
        ] {
            if found < expected {
                let (found, expected) = (found as u64, expected as u64);
                return Err(GpuError::Size {
                    what,
                    found,
                    expected,
                });
            }
        }
        self.ground.launch(
            stream,
            LaunchShape::covering(self.size.height, 64),
            &(self.arguments, road.ptr(), out.ptr()),
        )?;
        if self.columns == 0 {
            return Ok(());
        }
        self.solve.launch(
            stream,
            self.shape,
            &(self.arguments, disparity.ptr(), stride as u64, out.ptr()),
        )
    }

    /// Lists of this plan's shape, for [`decode`](Self::decode).
    pub fn output(&self) -> Stixels {
        let params = &self.tables.params;
        Stixels::new(
            self.columns,
            params.stixel_width,
            params.max_stixels_per_column,
        )
    }

    /// The output buffer's words, on the host, as lists; allocates nothing.
    ///
    /// # Panics
    /// When there are too few words, or the lists have another shape than the plan.
    pub fn decode(&self, words: &[u64], out: &mut Stixels) {
        let capacity = self.tables.params.max_stixels_per_column;
        assert_eq!(
            (out.columns(), out.capacity()),
            (self.columns, capacity),
            "stixels of another shape than the stixel plan"
        );
        let (head, lists) = words[..self.output_words()].split_at(1 + self.columns.div_ceil(4));
        out.set_overflowed(head[0] as u32);
        let (counts, rooms) = out.columns_mut();
        let columns = counts
            .iter_mut()
            .zip(rooms)
            .zip(lists.chunks_exact(capacity));
        for (u, ((count, room), list)) in columns.enumerate() {
            *count = ((head[1 + u / 4] >> (16 * (u % 4))) as u16).min(capacity as u16);
            for (to, &word) in room.iter_mut().zip(list).take(usize::from(*count)) {
                *to = Stixel {
                    class: match (word >> 48) as u8 {
                        0 => Class::Ground,
                        1 => Class::Object,
                        _ => Class::Sky,
                    },
                    top: word as u16,
                    base: (word >> 16) as u16,
                    disparity: (word >> 32) as u16,
                    confidence: (word >> 56) as u8,
                };
            }
        }
    }
}
