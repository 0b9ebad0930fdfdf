//! The kernels of `kernels/training.cu`, and what they take.
use crate::{
    cuda::{Context, DevicePtr, Function, GpuError, Module},
    device_struct,
    stage::forest::{Colour, FeatureSpec, InputSpec, Mapping, Needs, Norm, Seed, colour::LAB_BIAS},
};

/// Threads of a row's warp, and of blocks, as in the kernel file.
pub const WARP: usize = 32;
pub const ROW_WARPS: usize = 4;
pub const COLUMN_WARPS: usize = 32;
pub const DIRECT_WARPS: usize = 4;
pub const BEST_THREADS: usize = 128;
/// Thresholds that lie in shared memory, at most.
pub const FEW: usize = 64;
pub const KEEP_WARPS: usize = 4;
pub const SPLIT_WARPS: usize = 8;
/// Shared memory that a block of `split` has of its own, at most, bytes.
const SPLIT_STATIC: u32 = (SPLIT_WARPS * WARP * 16) as u32;
/// No candidate.
pub const NONE: u32 = u32::MAX;

device_struct! {
    /// As in the kernel file.
    pub struct Options {
        pub tree: u32,
        pub purpose_seed: u32,
        pub papers_mapping: u32,
        pub channels: i32,
        pub offset: i32,
        pub half: i32,
        pub depth_share: i32,
        pub row_share: i32,
        pub single_share: i32,
        pub one_offset: i32,
        pub differences: [i32; 2],
        pub singles: [i32; 2],
        pub depths: [i32; 2],
        pub sum: i32,
        pub shrink: i32,
        pub reference: i32,
        pub background: i32,
        pub bias: i32,
    }
}

impl Options {
    /// Of a feature; the tree is set later.
    pub fn new(feature: &FeatureSpec, input: &InputSpec) -> Self {
        let none = [0, 0];
        let mut o = Self {
            tree: 0,
            purpose_seed: 0,
            papers_mapping: 0,
            channels: input.channels.into(),
            offset: 0,
            half: 1,
            depth_share: 0,
            row_share: 0,
            single_share: 0,
            one_offset: 0,
            differences: none,
            singles: none,
            depths: none,
            sum: 0,
            shrink: 0,
            reference: 1,
            background: 0,
            bias: match input.colour {
                Colour::Lab => LAB_BIAS.into(),
                Colour::Raw => 0,
            },
        };
        match *feature {
            FeatureSpec::Region(f) => {
                (o.offset, o.half) = (f.offset_px, f.region_px);
                (o.row_share, o.single_share) = (f.row_share as i32, f.single_share as i32);
                o.differences = f.thresholds.into();
                o.singles = f.single_thresholds.into();
                (o.sum, o.shrink) = ((f.norm == Norm::Sum).into(), f.shrink.into());
            }
            FeatureSpec::Rgbd(f) => {
                (o.offset, o.half) = (f.offset_px, f.region_px);
                (o.row_share, o.single_share) = (f.row_share as i32, f.single_share as i32);
                o.depth_share = f.depth_share as i32;
                o.differences = f.thresholds.into();
                o.singles = f.single_thresholds.into();
                o.depths = f.depth_thresholds.into();
                (o.sum, o.shrink) = ((f.norm == Norm::Sum).into(), f.shrink.into());
                o.reference = f.reference;
            }
            FeatureSpec::Depth(f) => {
                o.offset = f.offset_px;
                o.one_offset = f.one_offset.into();
                o.depths = f.thresholds.into();
                (o.reference, o.background) = (f.reference, f.background);
            }
        }
        o
    }

    /// With the streams of a tree.
    pub fn of_tree(mut self, seed: Seed, tree: u32) -> Self {
        let ([first, fourth], mapping) = seed.parts();
        self.tree = tree ^ first;
        self.purpose_seed = fourth;
        self.papers_mapping = (mapping == Mapping::Padenti).into();
        self
    }
}

device_struct! {
    /// What tables of an image there are, as in the kernel file.
    pub struct Tables {
        pub channels: i32,
        pub depth_sums: i32,
        pub depth: i32,
    }
}

impl Tables {
    pub fn new(needs: Needs, channels: u8) -> Self {
        Self {
            channels: if needs.colour { channels.into() } else { 0 },
            depth_sums: needs.depth_sums.into(),
            depth: needs.depth.into(),
        }
    }

    /// Sum tables, and besides them depth.
    pub fn counts(self) -> (u32, u32) {
        (
            (self.channels + 2 * self.depth_sums) as u32,
            self.depth as u32,
        )
    }
}

device_struct! {
    /// Where an image's tables are, as in the kernel file.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub struct ViewTables {
        pub sums: u64,
        pub depth_sums: u64,
        pub depth: u64,
        pub raw: u64,
        pub width: i32,
        pub height: i32,
    }
}

device_struct! {
    /// A node of the slice, as in the kernel file.
    #[derive(Default)]
    pub struct NodePlace {
        pub base: u64,
        pub heap: u32,
        pub classes: u32,
        pub first_class: u32,
        pub pixels: u32,
    }
}

device_struct! {
    /// What is counted, as in the kernel file.
    pub struct Work {
        pub planes: DevicePtr<u32>,
        pub views: DevicePtr<ViewTables>,
        pub samples: DevicePtr<[u32; 2]>,
        pub items: DevicePtr<[u32; 4]>,
        pub places: DevicePtr<NodePlace>,
        pub thetas: DevicePtr<[u32; 4]>,
        pub taus: DevicePtr<i32>,
        pub bins: DevicePtr<u32>,
        pub candidates: u32,
        pub thresholds: u32,
        pub items_count: u32,
        pub tiles: u32,
    }
}

device_struct! {
    /// `n log2 n`, as in the kernel file.
    pub struct XlogTables {
        pub small: DevicePtr<i64>,
        pub log: DevicePtr<u32>,
        pub bits: u32,
        pub unused: u32,
    }
}

device_struct! {
    /// A node's best candidate, as in the kernel file.
    #[derive(Default)]
    pub struct Found {
        pub gain: i64,
        pub candidate: u32,
        pub tau: i32,
        pub theta: [u32; 4],
    }
}

device_struct! {
    /// What is split by kept responses, as in the kernel file.
    pub struct Kept {
        pub items: DevicePtr<u32>,
        pub places: DevicePtr<NodePlace>,
        pub totals: DevicePtr<u32>,
        pub weights: DevicePtr<u32>,
        pub thetas: DevicePtr<[u32; 4]>,
        pub picks: DevicePtr<u32>,
        pub classes: DevicePtr<u8>,
        pub responses: DevicePtr<i32>,
        pub results: DevicePtr<Found>,
        pub lefts: DevicePtr<u32>,
        pub first: u32,
        pub candidates: u32,
        pub thresholds: u32,
        pub unused: u32,
    }
}

type Keep = Function<(
    Options,
    DevicePtr<u32>,
    DevicePtr<ViewTables>,
    DevicePtr<[u32; 4]>,
    u32,
    DevicePtr<NodePlace>,
    DevicePtr<[u32; 4]>,
    u32,
    DevicePtr<i32>,
)>;
type Draw = Function<(
    Options,
    DevicePtr<NodePlace>,
    u32,
    u32,
    u32,
    u32,
    u32,
    DevicePtr<[u32; 4]>,
    DevicePtr<i32>,
)>;
type Pick = Function<(
    Options,
    DevicePtr<u32>,
    DevicePtr<ViewTables>,
    DevicePtr<[u32; 4]>,
    u32,
    u32,
    u32,
    DevicePtr<[u32; 4]>,
    DevicePtr<i32>,
)>;
type Sort = Function<(
    u32,
    u32,
    u32,
    DevicePtr<i32>,
    DevicePtr<i32>,
    DevicePtr<u16>,
)>;
type Route = Function<(
    Options,
    DevicePtr<u32>,
    DevicePtr<ViewTables>,
    DevicePtr<[u32; 8]>,
    DevicePtr<[u32; 2]>,
    u32,
    DevicePtr<u32>,
)>;
type Score = Function<(
    XlogTables,
    DevicePtr<NodePlace>,
    DevicePtr<u32>,
    DevicePtr<u32>,
    u32,
    u32,
    DevicePtr<u16>,
    DevicePtr<u32>,
    DevicePtr<i64>,
    DevicePtr<u32>,
)>;
type Best = Function<(
    DevicePtr<NodePlace>,
    u32,
    u32,
    DevicePtr<[u32; 4]>,
    DevicePtr<i32>,
    DevicePtr<u32>,
    DevicePtr<i64>,
    DevicePtr<u32>,
    DevicePtr<Found>,
    DevicePtr<u32>,
)>;
type Rows = Function<(
    Tables,
    DevicePtr<ViewTables>,
    DevicePtr<u16>,
    DevicePtr<u32>,
)>;
type Columns = Function<(Tables, DevicePtr<ViewTables>, DevicePtr<u32>)>;

/// All kernels, for one feature.
pub struct Kernels {
    pub rows: Rows,
    pub columns: Columns,
    pub draw: Draw,
    pub pick: Pick,
    pub sort: Sort,
    pub count: Function<(Options, Work)>,
    pub direct: Function<(Options, Work)>,
    pub route: Route,
    pub score: Score,
    pub best: Best,
    pub keep: Keep,
    pub split: Function<(Options, XlogTables, Kept)>,
    /// Shared memory that a block of `count` may have.
    pub shared: u32,
    /// And one of `split`.
    pub split_shared: u32,
}

impl Kernels {
    pub fn new(context: &Context, feature: &FeatureSpec) -> Result<Self, GpuError> {
        let module = Module::load(context, "training")?;
        let name = |region, rgbd, depth| match feature {
            FeatureSpec::Region(_) => region,
            FeatureSpec::Rgbd(_) => rgbd,
            FeatureSpec::Depth(_) => depth,
        };
        let kernels = Self {
            rows: module.function("training_rows")?,
            columns: module.function("training_columns")?,
            draw: module.function(name(
                "training_draw_region",
                "training_draw_rgbd",
                "training_draw_depth",
            ))?,
            pick: module.function(name(
                "training_pick_region",
                "training_pick_rgbd",
                "training_pick_depth",
            ))?,
            sort: module.function("training_sort")?,
            count: module.function(name(
                "training_count_region",
                "training_count_rgbd",
                "training_count_depth",
            ))?,
            direct: module.function(name(
                "training_direct_region",
                "training_direct_rgbd",
                "training_direct_depth",
            ))?,
            route: module.function(name(
                "training_route_region",
                "training_route_rgbd",
                "training_route_depth",
            ))?,
            score: module.function("training_score")?,
            best: module.function("training_best")?,
            keep: module.function(name(
                "training_keep_region",
                "training_keep_rgbd",
                "training_keep_depth",
            ))?,
            split: module.function(name(
                "training_split_region",
                "training_split_rgbd",
                "training_split_depth",
            ))?,
            shared: context.device().shared_per_block,
            split_shared: context
                .device()
                .shared_per_block
                .saturating_sub(SPLIT_STATIC),
        };
        kernels.count.allow_shared(kernels.shared)?;
        kernels.split.allow_shared(kernels.split_shared)?;
        Ok(kernels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_layout_of_the_kernels() {
        let sizes = [
            size_of::<Options>(),
            size_of::<Tables>(),
            size_of::<ViewTables>(),
            size_of::<NodePlace>(),
            size_of::<Work>(),
            size_of::<XlogTables>(),
            size_of::<Found>(),
            size_of::<Kept>(),
        ];
        assert_eq!(sizes, [84, 12, 40, 24, 80, 24, 32, 96]);
    }
}
