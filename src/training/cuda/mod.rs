//! The trainer on a GPU (`kernels/training.cu`): the trees of the CPU, byte for byte.
//!
//! Images' tables, candidates, histograms and gains are on the device. The host keeps which pixel
//! is in which node and sorts pixels by node; the device says where they go. What comes back of
//! a slice of the frontier is the winner of each node.
//!
//! Memory: a third of the limit is for histograms and candidates (half of it with what is in
//! reserve), three eighths for images (or their own limit where that is less), the rest for
//! pixels. Images stay on the device where all of them fit, else they pass by once a level for
//! uniform thresholds, twice for those from responses, and once or twice more for each slice of
//! the frontier behind the first, unless responses are kept ([`kept`]): batches go through slots,
//! one of which is filled while another is worked on.
mod images;
mod kept;
mod kernels;
mod memory;

use rayon::prelude::*;

use self::{
    images::{Images, SLOTS, Slot, There},
    kept::{Keeper, Keeping},
    kernels::{
        BEST_THREADS, DIRECT_WARPS, FEW, Found, Kernels, NONE, NodePlace, Options, WARP, Work,
        XlogTables,
    },
    memory::{Pair, Room},
};
use super::{
    Job, Reducer, Resources, Traffic, TrainError,
    grow::{self, Engine, Grower, leads_to},
    growing::Growing,
    histogram::{Candidate, Picked, Picks, Place, Slice, Winner, bins_of, keep_best},
    store::Store,
};
use crate::{
    cuda::{Context, DeviceBuffer, GpuError, LaunchShape, Pinned, Priority, Stream},
    stage::forest::{
        Feature, Forest, LEAF, Node, Theta, ThresholdSource, cuda::words, feature::LARGEST,
    },
};

/// Pixels that a block counts.
const CHUNK: u32 = 1024;

/// Pixels of a batch, at most.
const MOST_PIXELS: u64 = 1 << 22;

/// Bytes of a pixel in a batch's lists, with what is in reserve, in all slots.
const PIXEL_BYTES: u64 = 54 * SLOTS as u64;

/// Numbers that go to other ranks at a time.
const EXCHANGED: usize = 1 << 22;

/// Candidates that are looked at at a time, at most.
const MOST_CANDIDATES: u64 = 1 << 20;

/// A GPU, and how much of its memory training may take.
pub struct Gpu {
    context: Context,
    memory_limit: u64,
    image_limit: u64,
}

impl Gpu {
    /// With a limit in bytes: for histograms, images and pixels. Without one three quarters of
    /// what is free. An image and the bins of one candidate are kept whatever it is. The context's
    /// own limits must not be less.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &Context, memory_limit: Option<u64>) -> Result<Self, GpuError> {
        Ok(Self {
            context: context.clone(),
            memory_limit: match memory_limit {
                Some(limit) => limit,
                None => context.free_memory()?.0 / 4 * 3,
            },
            image_limit: u64::MAX,
        })
    }

    /// With a limit in bytes for images alone, within that of all memory. An image is kept
    /// whatever it is.
    pub fn with_image_limit(self, image_limit: u64) -> Self {
        Self {
            image_limit,
            ..self
        }
    }

    /// The limit, bytes.
    pub fn memory_limit(&self) -> u64 {
        self.memory_limit
    }
}

/// [`super::train`] on a GPU: the same forest. The memory limit of `resources` is that of the host.
///
/// # Errors
/// As there, and [`TrainError::Gpu`].
pub fn train(
    job: &Job<'_>,
    resources: &Resources<'_>,
    resume: Option<Forest>,
    gpu: &Gpu,
) -> Result<Forest, TrainError> {
    grow::train_on(job, resources, resume, Some(gpu))
}

pub(super) struct Trainer<'a> {
    context: Context,
    kernels: Kernels,
    images: Images<'a>,
    slots: [Slot; SLOTS],
    /// Brings images and pixels, and routes; the other one counts.
    copy: Stream,
    work: Stream,
    options: Options,
    limit: u64,
    /// The tree whose streams and logarithms are in use.
    tree: Option<u32>,
    small: Pair<i64>,
    log: Pair<u32>,
    xlog: Option<XlogTables>,
    nodes: Pair<[u32; 8]>,
    places: Pair<NodePlace>,
    totals: Pair<u32>,
    weights: Pair<u32>,
    thetas: Room<[u32; 4]>,
    drawn: Room<i32>,
    sorted: Room<i32>,
    order: Room<u16>,
    bins: Room<u32>,
    gains: Room<i64>,
    ranks: Room<u32>,
    found: Room<Found>,
    lefts: Room<u32>,
    found_host: Pair<Found>,
    lefts_host: Pair<u32>,
    keeper: Keeper,
    exchange: Option<Pinned<u32>>,
}

/// Candidates of the nodes of a slice, on the device.
struct Candidates {
    n: u32,
    places: DeviceBuffer<NodePlace>,
    thetas: DeviceBuffer<[u32; 4]>,
    drawn: DeviceBuffer<i32>,
    sorted: DeviceBuffer<i32>,
    order: DeviceBuffer<u16>,
    bins: DeviceBuffer<u32>,
}

/// What is done with each batch.
enum Task<'t> {
    /// No more than routing.
    Route,
    /// Thresholds from pixels of each view.
    Pick(&'t Slice, &'t Candidates, &'t [Vec<Picked>]),
    /// The same of pixels whose nodes are known only once they are there.
    PickRouted(&'t Slice, &'t Candidates, &'t mut Picks),
    Count(&'t Slice, &'t Candidates),
    /// Responses to where they are kept.
    Keep(&'t Slice, &'t mut Keeping),
}

/// The nodes of a batch's pixels, once they are there, and how many of each view there are.
struct Moved {
    nodes: Pinned<u32>,
    counts: Vec<usize>,
}

/// Where pixels go: the tree, and for each of its nodes whether its pixels are of interest.
struct Routing<'t> {
    growing: &'t Growing,
    moves: Vec<bool>,
}

impl<'a> Trainer<'a> {
    pub fn new(
        gpu: &Gpu,
        job: &Job<'_>,
        resources: &Resources<'_>,
        store: &'a Store<'a>,
    ) -> Result<Self, TrainError> {
        let context = gpu.context.clone();
        // Slices are the same on all ranks.
        let limits = super::reduce::gathered(resources.ranks, gpu.memory_limit)?;
        let limit = limits.into_iter().min().unwrap_or(gpu.memory_limit);
        let budget = (limit / 8 * 3).min(gpu.image_limit);
        let budgets = (budget, resources.memory_limit / 2);
        let (images, slots) = Images::new(&context, store, job.recipe.flip, budgets)?;
        log::debug!(
            "GPU: {limit} bytes; images {}",
            match images.is_resident() {
                true => "stay there",
                false => "pass by anew for each level",
            }
        );
        Ok(Self {
            kernels: Kernels::new(&context, &job.feature)?,
            images,
            slots,
            copy: Stream::new(&context, Priority::High)?,
            work: Stream::new(&context, Priority::Normal)?,
            options: Options::new(&job.feature, &job.input),
            limit,
            tree: None,
            small: Pair::new("n log n"),
            log: Pair::new("logarithms"),
            xlog: None,
            nodes: Pair::new("a tree's nodes"),
            places: Pair::new("nodes of a slice"),
            totals: Pair::new("pixels by class"),
            weights: Pair::new("weights of classes"),
            thetas: Room::new("candidates"),
            drawn: Room::new("thresholds"),
            sorted: Room::new("sorted thresholds"),
            order: Room::new("order of thresholds"),
            bins: Room::new("histograms"),
            gains: Room::new("gains"),
            ranks: Room::new("best thresholds"),
            found: Room::new("winners"),
            lefts: Room::new("winners' counts"),
            found_host: Pair::new("winners"),
            lefts_host: Pair::new("winners' counts"),
            keeper: Keeper::new(),
            exchange: None,
            context,
        })
    }

    /// Streams and logarithms of the tree that is about to grow.
    fn begin<F: Feature>(&mut self, grower: &Grower<'_, F>) -> Result<(), TrainError> {
        if self.tree == Some(grower.tree) {
            return Ok(());
        }
        self.options = self.options.of_tree(grower.seed, grower.tree);
        let (small, log) = grower.xlog.tables();
        self.xlog = Some(XlogTables {
            small: self.small.load(&self.work, small)?.ptr(),
            log: self.log.load(&self.work, log)?.ptr(),
            bits: grower.xlog.bits(),
            unused: 0,
        });
        self.work.synchronize()?;
        self.tree = Some(grower.tree);
        Ok(())
    }

    /// Images of some views pass by. Nothing is in flight before and after.
    fn pass<F: Feature>(
        &mut self,
        grower: &mut Grower<'_, F>,
        level: u32,
        wanted: &[usize],
        routing: Option<&Routing<'_>>,
        task: Task<'_>,
    ) -> Result<(), TrainError> {
        let done = self.batches(grower, level, wanted, routing, task);
        let ended = self.copy.synchronize().and(self.work.synchronize());
        done?;
        Ok(ended?)
    }

    fn batches<F: Feature>(
        &mut self,
        grower: &mut Grower<'_, F>,
        level: u32,
        wanted: &[usize],
        routing: Option<&Routing<'_>>,
        mut task: Task<'_>,
    ) -> Result<(), TrainError> {
        if wanted.is_empty() {
            return Ok(());
        }
        self.images.read_ahead(&grower.views, wanted)?;
        let tree = match routing {
            Some(routing) => {
                let split = |n: &Node| words(&n.theta, n.tau, [n.left, LEAF]);
                let list: Vec<[u32; 8]> = routing.growing.nodes.iter().map(split).collect();
                Some(self.nodes.load(&self.copy, &list)?)
            }
            None => None,
        };
        let routing = routing.zip(tree.as_ref());
        let most = (self.limit / 8 / PIXEL_BYTES).clamp(1, MOST_PIXELS) as usize;
        let pixels = |view: usize| grower.samples[view].len();
        let batches = self.images.batches(&grower.views, wanted, pixels, most);
        let copied = self.images.copied();
        let mut next = Some(self.bring(grower, 0, batches[0], routing)?);
        for (k, batch) in batches.iter().enumerate() {
            grower.go_on(level)?;
            let Some((there, moved)) = next.take() else {
                break;
            };
            // The next one is on its way before the host waits for this one.
            if let Some(batch) = batches.get(k + 1) {
                next = Some(self.bring(grower, k + 1, batch, routing)?);
            }
            if let (Some((routing, _)), Some(moved)) = (routing, moved) {
                self.slots[k % SLOTS].ready.synchronize()?;
                settle(grower, batch, routing, &moved.nodes.read()?, &moved.counts);
            }
            match &mut task {
                Task::Route => {}
                Task::Pick(slice, candidates, picks) => {
                    let of = |&view: &usize| picks[view].clone();
                    let picked: Vec<_> = batch.iter().map(of).collect();
                    self.pick(grower, k, batch, there, (*slice, *candidates, &picked))?;
                }
                Task::PickRouted(slice, candidates, picks) => {
                    let of = |&view: &usize| picks.of(slice, &grower.samples[view]);
                    let picked: Vec<_> = batch.iter().map(of).collect();
                    self.pick(grower, k, batch, there, (*slice, *candidates, &picked))?;
                }
                Task::Count(slice, candidates) => {
                    let n = self.count(grower, k, batch, there, (*slice, *candidates))?;
                    grower.resources.observer.responses(n);
                }
                Task::Keep(slice, keeping) => {
                    let n = self.keep(grower, k, batch, there, (*slice, &mut **keeping))?;
                    grower.resources.observer.responses(n);
                }
            }
            self.work.record(&self.slots[k % SLOTS].done)?;
        }
        grower.resources.observer.traffic(&Traffic {
            passes: 1,
            batches: batches.len() as u64,
            images: self.images.copied() - copied,
            kept: 0,
        });
        Ok(())
    }

    /// Brings a batch to the device and its pixels to their nodes; gives the pixels' nodes, which
    /// are there once the slot is ready.
    fn bring<F: Feature>(
        &mut self,
        grower: &Grower<'_, F>,
        k: usize,
        batch: &[usize],
        routing: Option<(&Routing<'_>, &DeviceBuffer<[u32; 8]>)>,
    ) -> Result<(There, Option<Moved>), TrainError> {
        let slot = &mut self.slots[k % SLOTS];
        // What it had before is done with, and the host may write.
        if k >= SLOTS {
            slot.ready.synchronize()?;
            slot.done.synchronize()?;
        }
        let there = self
            .images
            .bring(&self.kernels, &self.copy, slot, &grower.views, batch)?;
        let mut moved = None;
        if let Some((routing, tree)) = routing {
            let (mut pixels, mut nodes) = (Vec::new(), Vec::new());
            let mut counts = Vec::with_capacity(batch.len());
            for (i, &view) in batch.iter().enumerate() {
                let before = nodes.len();
                for s in &grower.samples[view] {
                    if routing.moves[s.node as usize] {
                        pixels.push([u32::from(s.x) | u32::from(s.y) << 16, i as u32]);
                        nodes.push(s.node);
                    }
                }
                counts.push(nodes.len() - before);
            }
            let pixels = slot.moved.load(&self.copy, &pixels)?;
            let nodes = slot.nodes.load(&self.copy, &nodes)?;
            let n = nodes.len();
            if n > 0 {
                let shape = LaunchShape::covering(n, 128);
                let (planes, views) = (there.planes, there.views);
                let (tree, pixels, to) = (tree.ptr(), pixels.ptr(), nodes.ptr());
                let arguments = (self.options, planes, views, tree, pixels, n as u32, to);
                self.kernels.route.launch(&self.copy, shape, &arguments)?;
            }
            moved = Some(Moved {
                nodes: slot.nodes.fetch(&self.copy, &nodes)?,
                counts,
            });
        }
        self.copy.record(&slot.ready)?;
        self.work.wait(&slot.ready)?;
        Ok((there, moved))
    }

    /// Responses of a batch's picked pixels, those of each view, become thresholds.
    fn pick<F: Feature>(
        &mut self,
        grower: &Grower<'_, F>,
        k: usize,
        batch: &[usize],
        there: There,
        (slice, candidates, picks): (&Slice, &Candidates, &[Vec<Picked>]),
    ) -> Result<(), TrainError> {
        let mut list = Vec::new();
        for (i, (&view, picks)) in batch.iter().zip(picks).enumerate() {
            for &(place, j, s) in picks {
                let s = &grower.samples[view][s];
                let xy = u32::from(s.x) | u32::from(s.y) << 16;
                list.push([place as u32, j, xy, i as u32]);
            }
        }
        let slot = &mut self.slots[k % SLOTS];
        for part in list.chunks(1 << 24) {
            if !std::ptr::eq(part, &raw const list[..]) {
                self.work.synchronize()?;
            }
            let picks = slot.items.load(&self.work, part)?;
            let n = candidates.n;
            let shape = LaunchShape::covering(part.len() * n as usize, 128);
            self.kernels.pick.launch(
                &self.work,
                shape,
                &(
                    self.options,
                    there.planes,
                    there.views,
                    picks.ptr(),
                    part.len() as u32,
                    n,
                    slice.thresholds as u32,
                    candidates.thetas.ptr(),
                    candidates.drawn.ptr(),
                ),
            )?;
        }
        Ok(())
    }

    /// Counts a batch's pixels; gives how many responses that takes.
    fn count<F: Feature>(
        &mut self,
        grower: &Grower<'_, F>,
        k: usize,
        batch: &[usize],
        there: There,
        (slice, candidates): (&Slice, &Candidates),
    ) -> Result<u64, TrainError> {
        let plan = CountPlan::new(grower, batch, slice, self.kernels.shared);
        if plan.list.is_empty() {
            return Ok(0);
        }
        let slot = &mut self.slots[k % SLOTS];
        let samples = slot.list.load(&self.work, &plan.list)?;
        let items = slot.items.load(&self.work, &plan.items)?;
        let tiles = candidates.n.div_ceil(WARP as u32);
        // Blocks are counted in 31 bits.
        let most = ((1usize << 30) / tiles as usize).max(1);
        let mut first = 0;
        for launch in &plan.launches {
            let end = first + launch.items;
            while first < end {
                let n = most.min(end - first);
                let work = Work {
                    planes: there.planes,
                    views: there.views,
                    samples: samples.ptr(),
                    items: items.slice(first..first + n)?.ptr(),
                    places: candidates.places.ptr(),
                    thetas: candidates.thetas.ptr(),
                    taus: candidates.sorted.ptr(),
                    bins: candidates.bins.ptr(),
                    candidates: candidates.n,
                    thresholds: slice.thresholds as u32,
                    items_count: n as u32,
                    tiles,
                };
                let arguments = (self.options, work);
                let all = n as u32 * tiles;
                if launch.shared == 0 {
                    let threads = (DIRECT_WARPS * WARP) as u32;
                    let shape = LaunchShape::linear(all.div_ceil(DIRECT_WARPS as u32), threads);
                    self.kernels.direct.launch(&self.work, shape, &arguments)?;
                } else {
                    // Where few blocks fit side by side, each has more warps.
                    let threads = if launch.shared > 16 << 10 { 256 } else { 128 };
                    let shape = LaunchShape::linear(all, threads).with_shared(launch.shared);
                    self.kernels.count.launch(&self.work, shape, &arguments)?;
                }
                first += n;
            }
        }
        Ok(plan.list.len() as u64 * u64::from(candidates.n))
    }

    /// The nodes of a slice, their pixels by class and the weights of those.
    fn load_places(
        &mut self,
        slice: &Slice,
        base: impl Fn(usize, &Place) -> u64,
    ) -> Result<DeviceBuffer<NodePlace>, GpuError> {
        let mut list = Vec::with_capacity(slice.len());
        let (mut totals, mut weights) = (Vec::new(), Vec::new());
        for (i, place) in slice.places.iter().enumerate() {
            list.push(NodePlace {
                base: base(i, place),
                heap: place.heap,
                classes: place.totals.len() as u32,
                first_class: totals.len() as u32,
                pixels: place.totals.iter().sum(),
            });
            totals.extend_from_slice(&place.totals);
            weights.extend_from_slice(&place.weights);
        }
        self.totals.load(&self.work, &totals)?;
        self.weights.load(&self.work, &weights)?;
        self.places.load(&self.work, &list)
    }

    /// Draws candidates `from..` of each node, and their thresholds where those are uniform.
    fn draw(
        &mut self,
        slice: &Slice,
        (from, n): (u32, u32),
        uniform: bool,
    ) -> Result<Candidates, TrainError> {
        let list = self.load_places(slice, |_, place| place.base as u64)?;
        let context = &self.context;
        let (places, t) = (slice.len(), slice.thresholds);
        let all = places * n as usize;
        let candidates = Candidates {
            n,
            places: list,
            thetas: self.thetas.get(context, all)?,
            drawn: self.drawn.get(context, all * t)?,
            sorted: self.sorted.get(context, all * t)?,
            order: self.order.get(context, all * t)?,
            bins: self.bins.get(context, slice.bins * n as usize)?,
        };
        let shape = LaunchShape::covering(all, 128);
        self.kernels.draw.launch(
            &self.work,
            shape,
            &(
                self.options,
                candidates.places.ptr(),
                places as u32,
                from,
                n,
                t as u32,
                u32::from(uniform),
                candidates.thetas.ptr(),
                candidates.drawn.ptr(),
            ),
        )?;
        self.work.fill(&candidates.bins, 0)?;
        Ok(candidates)
    }

    /// Ranks the thresholds.
    fn sort(&mut self, slice: &Slice, candidates: &Candidates) -> Result<(), TrainError> {
        let (places, t) = (slice.len(), slice.thresholds);
        let shape = LaunchShape::covering(candidates.drawn.len(), 256);
        self.kernels.sort.launch(
            &self.work,
            shape,
            &(
                places as u32,
                candidates.n,
                t as u32,
                candidates.drawn.ptr(),
                candidates.sorted.ptr(),
                candidates.order.ptr(),
            ),
        )?;
        Ok(())
    }

    /// The best candidate of each node, where one splits it.
    fn best(
        &mut self,
        slice: &Slice,
        candidates: &Candidates,
    ) -> Result<Vec<Option<Winner>>, TrainError> {
        let Some(xlog) = self.xlog else {
            return Ok(vec![None; slice.len()]);
        };
        let context = &self.context;
        let (places, n, t) = (slice.len(), candidates.n, slice.thresholds as u32);
        let all = places * n as usize;
        let classes = slice.places.iter().map(|p| p.totals.len()).sum();
        let gains = self.gains.get(context, all)?;
        let ranks = self.ranks.get(context, all)?;
        let found = self.found.get(context, places)?;
        let lefts = self.lefts.get(context, classes)?;
        let totals = self.totals.there(context, classes)?.ptr();
        let weights = self.weights.there(context, classes)?.ptr();
        let tiles = n.div_ceil(BEST_THREADS as u32) as usize;
        self.kernels.score.launch(
            &self.work,
            LaunchShape::covering(places * tiles * BEST_THREADS, BEST_THREADS as u32),
            &(
                xlog,
                candidates.places.ptr(),
                totals,
                weights,
                n,
                t,
                candidates.order.ptr(),
                candidates.bins.ptr(),
                gains.ptr(),
                ranks.ptr(),
            ),
        )?;
        self.kernels.best.launch(
            &self.work,
            LaunchShape::linear(places as u32, BEST_THREADS as u32),
            &(
                candidates.places.ptr(),
                n,
                t,
                candidates.thetas.ptr(),
                candidates.sorted.ptr(),
                candidates.bins.ptr(),
                gains.ptr(),
                ranks.ptr(),
                found.ptr(),
                lefts.ptr(),
            ),
        )?;
        let found = self.found_host.fetch(&self.work, &found)?;
        let lefts = self.lefts_host.fetch(&self.work, &lefts)?;
        self.work.synchronize()?;
        let (found, lefts) = (found.read()?, lefts.read()?);
        let mut rest = &lefts[..];
        let winner = |(place, found): (&Place, &Found)| {
            let (left, tail) = rest.split_at(place.totals.len());
            rest = tail;
            (found.candidate != NONE).then(|| Winner {
                gain: found.gain,
                theta: theta(&found.theta),
                tau: found.tau,
                left: left.to_vec(),
            })
        };
        Ok(slice.places.iter().zip(found.iter()).map(winner).collect())
    }

    /// Sums over all ranks, through page-locked memory. Before and after it each number is what
    /// `turned` makes of it.
    fn sum(
        &mut self,
        numbers: &DeviceBuffer<u32>,
        ranks: &dyn Reducer,
        turned: impl Fn(u32) -> u32,
    ) -> Result<(), TrainError> {
        if ranks.ranks() == 1 {
            return Ok(());
        }
        let host = match self.exchange.take() {
            Some(host) => host,
            None => Pinned::new(&self.context, "sums over ranks", EXCHANGED)?,
        };
        for from in (0..numbers.len()).step_by(EXCHANGED) {
            let part = numbers.slice(from..numbers.len().min(from + EXCHANGED))?;
            let host = host.slice(0..part.len())?;
            self.work.copy_to_host(&part, &host)?;
            self.work.synchronize()?;
            {
                let mut values = host.write()?;
                values.iter_mut().for_each(|v| *v = turned(*v));
                ranks.sum_u32(&mut values)?;
                values.iter_mut().for_each(|v| *v = turned(*v));
            }
            self.work.copy_to_device(&host, &part)?;
            self.work.synchronize()?;
        }
        self.exchange = Some(host);
        Ok(())
    }
}

impl<F: Feature> Engine<F> for Trainer<'_> {
    fn histogram_bytes(&self) -> u64 {
        self.limit / 3
    }

    fn bytes_of(&self, counts: &[u32], thresholds: usize) -> u64 {
        let (theta, tau, best) = (16, 2 * size_of::<i32>() + size_of::<u16>(), 12);
        (4 * bins_of(counts, thresholds) + theta + thresholds * tau + best) as u64
    }

    fn routes_while_picking(&self, grower: &Grower<'_, F>) -> bool {
        // Ranks of pixels count those of earlier ranks' images.
        grower.resources.ranks.ranks() == 1
    }

    fn route(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
    ) -> Result<(), TrainError> {
        self.begin(grower)?;
        let moves = leads_to(growing, frontier);
        let wanted = grower.views_with(|node| moves[node as usize]);
        let routing = Routing { growing, moves };
        self.pass(grower, growing.level, &wanted, Some(&routing), Task::Route)
    }

    fn split_kept(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
        slices: usize,
    ) -> Result<Option<Vec<Option<Winner>>>, TrainError> {
        self.split_by_kept(grower, growing, frontier, slices)
    }

    fn split_slice(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
        nodes: &[Candidate],
        routed: &mut bool,
    ) -> Result<Vec<Option<Winner>>, TrainError> {
        self.begin(grower)?;
        self.make_room(false);
        let (recipe, level) = (&grower.job.recipe, growing.level);
        let slice = Slice::new(nodes, recipe);
        let thresholds = recipe.thresholds as usize;
        let per_candidate: u64 = nodes
            .iter()
            .map(|n| Engine::<F>::bytes_of(self, &n.counts, thresholds))
            .sum();
        let fit = self.limit / 3 / per_candidate.max(1);
        let features = recipe.features;
        let block = fit.clamp(1, MOST_CANDIDATES.min(features.into())) as u32;
        let uniform = recipe.threshold_source == ThresholdSource::Uniform;
        let mut winners = vec![None; nodes.len()];
        for from in (0..features).step_by(block as usize) {
            let n = block.min(features - from);
            let candidates = self.draw(&slice, (from, n), uniform)?;
            if !uniform && !*routed {
                let moves = leads_to(growing, frontier);
                let wanted =
                    grower.views_with(|node| moves[node as usize] || slice.place(node).is_some());
                let routing = Routing { growing, moves };
                let mut picks = grower.picks(&slice)?;
                let task = Task::PickRouted(&slice, &candidates, &mut picks);
                let done = self.pass(grower, level, &wanted, Some(&routing), task);
                *routed |= done.is_ok();
                grower.agreed(level, done)?;
            } else if !uniform {
                let picks = grower.picked(&slice)?;
                let wanted: Vec<usize> =
                    (0..picks.len()).filter(|&v| !picks[v].is_empty()).collect();
                let task = Task::Pick(&slice, &candidates, &picks);
                let done = self.pass(grower, level, &wanted, None, task);
                grower.agreed(level, done)?;
                let drawn = candidates.drawn.view::<u32>()?;
                // What no rank has a response for stays the largest.
                let below = |tau: u32| (LARGEST as u32).wrapping_sub(tau);
                self.sum(&drawn, grower.resources.ranks, below)?;
            }
            self.sort(&slice, &candidates)?;
            let task = Task::Count(&slice, &candidates);
            let done = if *routed {
                let wanted = grower.views_with(|node| slice.place(node).is_some());
                self.pass(grower, level, &wanted, None, task)
            } else {
                let moves = leads_to(growing, frontier);
                let wanted =
                    grower.views_with(|node| moves[node as usize] || slice.place(node).is_some());
                let routing = Routing { growing, moves };
                self.pass(grower, level, &wanted, Some(&routing), task)
            };
            *routed |= done.is_ok();
            grower.agreed(level, done)?;
            self.sum(&candidates.bins, grower.resources.ranks, |v| v)?;
            let found = self.best(&slice, &candidates)?;
            keep_best(&mut winners, found);
        }
        Ok(winners)
    }
}

/// Takes down where a batch's pixels went, and sorts them by node; within a node they keep their
/// order.
fn settle<F>(
    grower: &mut Grower<'_, F>,
    batch: &[usize],
    routing: &Routing<'_>,
    mut nodes: &[u32],
    counts: &[usize],
) {
    let mut lists = Vec::with_capacity(batch.len());
    let (mut rest, mut passed) = (&mut grower.samples[..], 0);
    for (&view, &n) in batch.iter().zip(counts) {
        // Batches rise.
        let (_, tail) = std::mem::take(&mut rest).split_at_mut(view - passed);
        let (own, tail_nodes) = nodes.split_at(n);
        nodes = tail_nodes;
        if let Some((list, tail)) = tail.split_first_mut() {
            lists.push((list, own));
            rest = tail;
        }
        passed = view + 1;
    }
    lists.into_par_iter().for_each(|(list, nodes)| {
        let mut next = nodes.iter();
        for s in list.iter_mut() {
            if routing.moves[s.node as usize]
                && let Some(&node) = next.next()
            {
                s.node = node;
            }
        }
        list.sort_by_key(|s| s.node);
    });
}

/// Work of a batch: its pixels by node, and who counts them.
struct CountPlan {
    /// `x` and `y`, class among the node's and view of the batch.
    list: Vec<[u32; 2]>,
    /// Place, first pixel, behind the last; launch by launch.
    items: Vec<[u32; 4]>,
    launches: Vec<Launch>,
}

struct Launch {
    items: usize,
    /// Bytes of shared memory; none: counted where the bins are.
    shared: u32,
}

impl CountPlan {
    fn new<F>(grower: &Grower<'_, F>, batch: &[usize], slice: &Slice, shared: u32) -> Self {
        let runs = |view: usize| {
            grower.samples[view]
                .chunk_by(|a, b| a.node == b.node)
                .filter_map(|run| Some((slice.place(run[0].node)?, run)))
        };
        let mut ends = vec![0usize; slice.len()];
        for &view in batch {
            runs(view).for_each(|(place, run)| ends[place] += run.len());
        }
        let mut sum = 0;
        for end in &mut ends {
            let n = *end;
            *end = sum;
            sum += n;
        }
        let mut list = vec![[0; 2]; sum];
        for (i, &view) in batch.iter().enumerate() {
            for (place, run) in runs(view) {
                let local = &slice.places[place].local;
                let first = ends[place];
                for (to, s) in list[first..].iter_mut().zip(run) {
                    let class = u32::from(local[usize::from(s.class)]);
                    *to = [
                        u32::from(s.x) | u32::from(s.y) << 16,
                        class | (i as u32) << 8,
                    ];
                }
                ends[place] = first + run.len();
            }
        }
        let mut kinds: [Vec<[u32; 4]>; 5] = Default::default();
        let mut begin = 0;
        for (place, &end) in ends.iter().enumerate() {
            let classes = slice.places[place].totals.len();
            let kind = kind(end - begin, classes, slice.thresholds, shared);
            let step = if kind == 0 { u32::MAX } else { CHUNK };
            let (mut from, end) = (begin as u32, end as u32);
            while from < end {
                let to = end.min(from.saturating_add(step));
                kinds[kind].push([place as u32, from, to, 0]);
                from = to;
            }
            begin = end as usize;
        }
        let launch = |(kind, items): (usize, &Vec<[u32; 4]>)| Launch {
            items: items.len(),
            shared: if kind == 0 {
                0
            } else {
                let of = |i: &[u32; 4]| {
                    shared_bytes(slice.places[i[0] as usize].totals.len(), slice.thresholds)
                };
                items.iter().map(of).max().unwrap_or(0) as u32
            },
        };
        Self {
            launches: kinds.iter().enumerate().map(launch).collect(),
            items: kinds.concat(),
            list,
        }
    }
}

/// Shared memory of a block, bytes: a histogram of 32 candidates, and thresholds where they are
/// few.
fn shared_bytes(classes: usize, thresholds: usize) -> usize {
    let taus = if thresholds <= FEW { thresholds } else { 0 };
    4 * WARP * ((thresholds + 1) * classes + taus)
}

/// How pixels of a node are counted: 0 where the bins are; else in shared memory, by how much of
/// it they take.
fn kind(pixels: usize, classes: usize, thresholds: usize, shared: u32) -> usize {
    let bytes = shared_bytes(classes, thresholds);
    let cells = classes * (thresholds + 1);
    // A block empties and adds up all its cells, however few pixels there are.
    if bytes > shared as usize || 8 * pixels <= cells {
        return 0;
    }
    match bytes >> 10 {
        0..16 => 1,
        16..32 => 2,
        32..64 => 3,
        _ => 4,
    }
}

fn theta(words: &[u32; 4]) -> Theta {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let offset = |k: usize| i16::from_le_bytes([bytes[2 * k], bytes[2 * k + 1]]);
    Theta {
        offsets: std::array::from_fn(offset),
        sizes: std::array::from_fn(|k| bytes[8 + k]),
        channels: [bytes[12], bytes[13]],
        kind: bytes[14],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_comes_back_as_it_went() {
        let sent = Theta {
            offsets: [1, -2, 300, -400],
            sizes: [5, 6, 7, 127],
            channels: [9, 15],
            kind: 3,
        };
        let [a, b, c, d, ..] = words(&sent, -1, [0, 0]);
        assert_eq!(theta(&[a, b, c, d]), sent);
    }

    #[test]
    fn few_pixels_and_large_histograms_are_counted_directly() {
        assert_eq!(shared_bytes(21, 20), 128 * (21 * 21 + 20));
        assert_eq!(shared_bytes(21, 65), 128 * 66 * 21);
        assert_eq!(kind(1000, 21, 20, 227 << 10), 3);
        assert_eq!(kind(55, 21, 20, 227 << 10), 0);
        assert_eq!(kind(1000, 2, 20, 227 << 10), 1);
        assert_eq!(kind(1000, 254, 20, 227 << 10), 0);
    }
}
