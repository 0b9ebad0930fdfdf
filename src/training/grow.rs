//! Level by level.
use std::sync::atomic::Ordering;

use rayon::prelude::*;

#[cfg(feature = "cuda")]
use super::cuda::Gpu;
use super::{
    Job, Resources, TrainError,
    data::Facts,
    gain::Xlog,
    growing::Growing,
    histogram::{Candidate, Picked, Picks, Slice, Tile, Winner, bytes_of, keep_best},
    job::{check_resumed, describe},
    reduce,
    samples::{self, Sample, VOID},
    store::{Store, View},
};
use crate::stage::forest::{
    Feature, Forest, LEAF, Meta, PlaneBuilder, Planes, Progress, Purpose, Recipe, Seed,
    ThresholdSource, Tree, dispatch,
};

/// Trains a forest, or goes on with an unfinished one.
///
/// # Errors
/// As [`TrainError`] says; the checkpoint then has the last whole level.
pub fn train(
    job: &Job<'_>,
    resources: &Resources<'_>,
    resume: Option<Forest>,
) -> Result<Forest, TrainError> {
    train_on(job, resources, resume, None)
}

/// What finds the best candidates: responses, histograms, gains. Everything else of a training is
/// the same for all of them.
pub(super) trait Engine<F: Feature> {
    /// Bytes that histograms and candidates may have.
    fn histogram_bytes(&self) -> u64;

    /// Bytes that a node of such pixels takes for one candidate.
    fn bytes_of(&self, counts: &[u32], thresholds: usize) -> u64;

    /// Whether [`Engine::split_slice`] can route while it takes thresholds from responses; else
    /// pixels are routed before.
    fn routes_while_picking(&self, _: &Grower<'_, F>) -> bool {
        false
    }

    /// Brings all pixels to the nodes of the last level.
    fn route(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
    ) -> Result<(), TrainError>;

    /// The best candidates of all nodes, without the histograms that ask for so many slices;
    /// `None` where that takes as many passes, or there is no such way. It routes besides, once
    /// it is done.
    fn split_kept(
        &mut self,
        _: &mut Grower<'_, F>,
        _growing: &Growing,
        _frontier: &[Candidate],
        _slices: usize,
    ) -> Result<Option<Vec<Option<Winner>>>, TrainError> {
        Ok(None)
    }

    /// The best candidates of some nodes, in as many passes as memory asks for. Unless `routed`,
    /// it routes besides.
    fn split_slice(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
        nodes: &[Candidate],
        routed: &mut bool,
    ) -> Result<Vec<Option<Winner>>, TrainError>;
}

/// All of it on the processor, on as many threads as there are.
struct Cpu {
    histogram_bytes: u64,
}

impl<F: Feature> Engine<F> for Cpu {
    fn histogram_bytes(&self) -> u64 {
        self.histogram_bytes
    }

    fn bytes_of(&self, counts: &[u32], thresholds: usize) -> u64 {
        bytes_of(counts, thresholds)
    }

    fn route(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
    ) -> Result<(), TrainError> {
        grower.route(growing, frontier)
    }

    fn split_slice(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
        nodes: &[Candidate],
        routed: &mut bool,
    ) -> Result<Vec<Option<Winner>>, TrainError> {
        grower.split_slice(growing, frontier, nodes, routed)
    }
}

/// A GPU where there is none in this build.
#[cfg(not(feature = "cuda"))]
pub(super) enum Gpu {}

/// [`train`] on a GPU, or (without one) on the processor.
pub(super) fn train_on(
    job: &Job<'_>,
    resources: &Resources<'_>,
    resume: Option<Forest>,
    gpu: Option<&Gpu>,
) -> Result<Forest, TrainError> {
    let meta = describe(job)?;
    if let Some(forest) = &resume {
        check_resumed(forest, &meta)?;
    }
    if resources.ranks.ranks() > 1 {
        check_ranks(&meta, resources, resume.as_ref())?;
        let what = "what computes, processor or GPU";
        reduce::same(resources.ranks, what, gpu.is_some().into())?;
    }
    let mut forest = resume.unwrap_or(Forest {
        meta,
        trees: Vec::new(),
    });
    if forest.meta.progress.is_none() && forest.trees.len() == job.recipe.trees as usize {
        return Ok(forest);
    }
    dispatch!(&job.feature, feature => grow(feature, job, resources, &mut forest, gpu))?;
    forest.meta.progress = None;
    Ok(forest)
}

/// Whether all ranks are about to train the same, in the same steps.
fn check_ranks(
    meta: &Meta,
    resources: &Resources<'_>,
    resume: Option<&Forest>,
) -> Result<(), TrainError> {
    let ranks = resources.ranks;
    let hash = |text: &str| xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    reduce::same(ranks, "what is trained", hash(&format!("{meta:?}")))?;
    reduce::same(ranks, "the memory limit", resources.memory_limit)?;
    let at = resume.map_or(0, Forest::digest);
    reduce::same(ranks, "the checkpoint", at)?;
    Ok(())
}

/// What one tree is grown from.
pub(super) struct Grower<'a, F> {
    feature: &'a F,
    pub job: &'a Job<'a>,
    pub resources: &'a Resources<'a>,
    store: &'a Store<'a>,
    pub seed: Seed,
    pub tree: u32,
    pub views: Vec<View>,
    /// The pixels of each view, sorted by node; none of another rank's views.
    pub samples: Vec<Vec<Sample>>,
    /// Parts of the candidates that are counted side by side; the same number on all ranks.
    tiles: u32,
    pub xlog: Xlog,
}

fn grow<F: Feature>(
    feature: &F,
    job: &Job<'_>,
    resources: &Resources<'_>,
    forest: &mut Forest,
    gpu: Option<&Gpu>,
) -> Result<(), TrainError> {
    let recipe = &job.recipe;
    let needs = feature.needs();
    let half = resources.memory_limit / 2;
    let builder = PlaneBuilder::new(&job.input);
    let store = Store::new(job.data, job.facts, builder, needs, half, recipe.flip);
    let mut engine: Box<dyn Engine<F> + '_> = match gpu {
        None => Box::new(Cpu {
            histogram_bytes: half,
        }),
        #[cfg(feature = "cuda")]
        Some(gpu) => Box::new(super::cuda::Trainer::new(gpu, job, resources, &store)?),
        #[cfg(not(feature = "cuda"))]
        Some(none) => match *none {},
    };
    let classes = job.data.classes().len();
    let done = forest.meta.progress.map_or(0, |p| p.trees);
    let mut partial = forest
        .trees
        .split_off((done as usize).min(forest.trees.len()))
        .pop();
    for tree in done..recipe.trees {
        let (mut grower, totals) = Grower::new(feature, job, resources, &store, tree)?;
        let mut growing = match partial.take() {
            Some(tree) => Growing::resumed(&tree, classes),
            None => Growing::root(totals),
        };
        while growing.level < recipe.depth {
            let frontier = growing.frontier(recipe.min_pixels);
            if frontier.is_empty() {
                break;
            }
            let winners = grower.split_level(&mut *engine, &growing, &frontier)?;
            let go_on = grower.go_on(growing.level);
            grower.agreed(growing.level, go_on)?;
            if !growing.split(&frontier, winners) {
                break;
            }
            let progress = Progress {
                trees: tree,
                levels: growing.level,
            };
            let saved = save(resources, forest, Some(growing.tree()), progress);
            grower.agreed(growing.level, saved)?;
        }
        forest.trees.push(growing.tree());
        resources.observer.tree_ends(tree, growing.nodes.len());
        let progress = Progress {
            trees: tree + 1,
            levels: 0,
        };
        let saved = save(resources, forest, None, progress);
        grower.agreed(growing.level, saved)?;
    }
    Ok(())
}

/// Writes the checkpoint: the finished trees and the one that grows.
fn save(
    resources: &Resources<'_>,
    forest: &mut Forest,
    growing: Option<Tree>,
    progress: Progress,
) -> Result<(), TrainError> {
    forest.meta.progress = Some(progress);
    let path = match &resources.checkpoint {
        Some(path) if resources.ranks.rank() == 0 => path,
        _ => return Ok(()),
    };
    let partial = growing.is_some();
    forest.trees.extend(growing);
    let saved = forest.save(path).map_err(TrainError::Checkpoint);
    if partial {
        forest.trees.pop();
    }
    saved
}

/// The images that a tree sees.
fn bag(facts: &[Facts], recipe: &Recipe, seed: Seed, tree: u32) -> Vec<View> {
    let n = facts.len();
    // f64 product and ceiling: the same everywhere.
    let take = ((n as f64 * recipe.bag).ceil() as usize).clamp(1, n);
    let mut order: Vec<(u32, usize)> = facts
        .iter()
        .enumerate()
        .map(|(i, f)| (seed.stream(Purpose::Bag, tree, f.key, 0).word(), i))
        .collect();
    if take < n {
        order.sort_unstable();
        order.truncate(take);
        order.sort_unstable_by_key(|&(_, i)| i);
    }
    let sides: &[bool] = if recipe.flip {
        &[false, true]
    } else {
        &[false]
    };
    let sides = |(_, image)| sides.iter().map(move |&mirrored| View { image, mirrored });
    order.into_iter().flat_map(sides).collect()
}

impl<'a, F: Feature> Grower<'a, F> {
    /// Draws the tree's pixels and counts them by class.
    fn new(
        feature: &'a F,
        job: &'a Job<'a>,
        resources: &'a Resources<'a>,
        store: &'a Store<'a>,
        tree: u32,
    ) -> Result<(Self, Vec<u32>), TrainError> {
        let recipe = &job.recipe;
        let seed = recipe.randomness();
        let views = bag(job.facts, recipe, seed, tree);
        let classes = job.data.classes().len();
        let needs_depth = feature.needs().depth;
        let draw = |view: &View| -> Result<Vec<Sample>, TrainError> {
            let (i, facts) = (view.image, &job.facts[view.image]);
            let (size, mut labels) = (facts.size, job.data.labels(i)?);
            if needs_depth && !job.input.fill_depth {
                // Of a pixel without depth nothing could be asked.
                let depth = job.data.depth(i, size, job.input.depth_steps_per_m)?;
                for (labels, depth) in labels.rows_mut().zip(depth.iter().flat_map(|d| d.rows())) {
                    for (label, _) in labels.iter_mut().zip(depth).filter(|(_, d)| **d == 0) {
                        *label = VOID;
                    }
                }
            }
            let mut list = samples::draw(
                labels.data(),
                size.width,
                recipe.sampling,
                recipe.samples,
                classes,
                (seed, tree, facts.key),
            );
            if view.mirrored {
                for s in &mut list {
                    s.x = (size.width - 1) as u16 - s.x;
                }
            }
            Ok(list)
        };
        let ranks = resources.ranks;
        let stopped = || TrainError::Stopped { tree, level: 1 };
        let mine = reduce::part(ranks, views.len());
        let drawn = views[mine.clone()]
            .par_iter()
            .map(draw)
            .collect::<Result<Vec<_>, _>>();
        let mut samples = vec![Vec::new(); views.len()];
        for (to, list) in samples[mine]
            .iter_mut()
            .zip(reduce::agreed(ranks, stopped, drawn)?)
        {
            *to = list;
        }
        let mut counts = vec![0u64; classes];
        for s in samples.iter().flatten() {
            counts[usize::from(s.class)] += 1;
        }
        ranks.sum_u64(&mut counts)?;
        // Two tiles a thread: one that ends early finds another.
        let tiles = 2 * rayon::current_num_threads() as u64;
        let tiles = reduce::gathered(ranks, tiles)?.into_iter().max();
        let all: u64 = counts.iter().sum();
        if all > u32::MAX.into() {
            let text = format!(
                "{all} training pixels a tree, expected at most {}",
                u32::MAX
            );
            return Err(TrainError::Set(text));
        }
        let weight = |c: usize| u64::from(recipe.class_weights.get(c).copied().unwrap_or(1));
        let weighted = (0..classes).map(|c| counts[c] * weight(c)).sum();
        let xlog = Xlog::new(weighted).ok_or_else(|| {
            TrainError::Set(format!(
                "{all} training pixels with such weights are too many"
            ))
        })?;
        let grower = Self {
            feature,
            job,
            resources,
            store,
            seed,
            tree,
            views,
            samples,
            tiles: tiles.unwrap_or(1) as u32,
            xlog,
        };
        Ok((grower, counts.iter().map(|&n| n as u32).collect()))
    }

    /// The split of each node of the frontier, where there is one. What it gives once `stop` is
    /// set means nothing.
    fn split_level(
        &mut self,
        engine: &mut dyn Engine<F>,
        growing: &Growing,
        frontier: &[Candidate],
    ) -> Result<Vec<Option<Winner>>, TrainError> {
        let recipe = &self.job.recipe;
        let thresholds = recipe.thresholds as usize;
        let budget = engine.histogram_bytes();
        let mut slices = Vec::new();
        let (mut begin, mut bytes) = (0, 0);
        for (end, candidate) in frontier.iter().enumerate() {
            let one = engine.bytes_of(&candidate.counts, thresholds);
            let more = one * u64::from(recipe.features);
            if end > begin && bytes + more > budget {
                slices.push(&frontier[begin..end]);
                (begin, bytes) = (end, 0);
            }
            bytes += more;
        }
        slices.push(&frontier[begin..]);
        let pixels = |c: &Candidate| c.counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        let responses = frontier.iter().map(pixels).sum::<u64>() * u64::from(recipe.features);
        let (tree, level, n) = (self.tree, growing.level, frontier.len());
        let observer = self.resources.observer;
        observer.level_begins(tree, level, n, slices.len(), responses);
        let mut winners = match engine.split_kept(self, growing, frontier, slices.len())? {
            Some(winners) => winners,
            None => self.split_slices(engine, growing, frontier, slices)?,
        };
        for (winner, candidate) in winners.iter_mut().zip(frontier) {
            let weight = |c: usize| u64::from(recipe.class_weights.get(c).copied().unwrap_or(1));
            let counts = candidate.counts.iter().enumerate();
            let weighted = counts.map(|(c, &n)| u64::from(n) * weight(c)).sum();
            let least = self.xlog.least(weighted, recipe.min_gain);
            if winner.as_ref().is_some_and(|w: &Winner| w.gain < least) {
                *winner = None;
            }
        }
        Ok(winners)
    }

    fn split_slices(
        &mut self,
        engine: &mut dyn Engine<F>,
        growing: &Growing,
        frontier: &[Candidate],
        slices: Vec<&[Candidate]>,
    ) -> Result<Vec<Option<Winner>>, TrainError> {
        // With thresholds from responses ranks must be known before anything is counted.
        let mut routed = false;
        let responses = self.job.recipe.threshold_source == ThresholdSource::Responses;
        if responses && !engine.routes_while_picking(self) {
            let done = engine.route(self, growing, frontier);
            self.agreed(growing.level, done)?;
            routed = true;
        }
        let mut winners = Vec::with_capacity(frontier.len());
        for nodes in slices {
            winners.extend(engine.split_slice(self, growing, frontier, nodes, &mut routed)?);
        }
        Ok(winners)
    }

    fn stopped(&self) -> bool {
        self.resources.stop.load(Ordering::Relaxed)
    }

    /// [`reduce::agreed`].
    pub fn agreed<T>(&self, level: u32, mine: Result<T, TrainError>) -> Result<T, TrainError> {
        let tree = self.tree;
        let stopped = || TrainError::Stopped { tree, level };
        reduce::agreed(self.resources.ranks, stopped, mine)
    }

    /// The views with a pixel in a node for which `wanted` holds.
    pub fn views_with(&self, wanted: impl Fn(u32) -> bool + Sync) -> Vec<usize> {
        (0..self.views.len())
            .filter(|&v| {
                self.samples[v]
                    .chunk_by(|a, b| a.node == b.node)
                    .any(|run| wanted(run[0].node))
            })
            .collect()
    }

    /// Brings all pixels to the nodes of the last level.
    fn route(&mut self, growing: &Growing, frontier: &[Candidate]) -> Result<(), TrainError> {
        let moves = leads_to(growing, frontier);
        let wanted = self.views_with(|node| moves[node as usize]);
        let (store, views, feature) = (self.store, &self.views, self.feature);
        let (samples, stop) = (&mut self.samples, self.resources.stop);
        store.for_batches(views, &wanted, |batch, planes| {
            route_batch(feature, growing, samples, batch, planes);
            if stop.load(Ordering::Relaxed) {
                return Err(TrainError::Stopped {
                    tree: self.tree,
                    level: growing.level,
                });
            }
            Ok(())
        })
    }

    /// The best candidates of some nodes, in as many passes as memory asks for.
    fn split_slice(
        &mut self,
        growing: &Growing,
        frontier: &[Candidate],
        nodes: &[Candidate],
        routed: &mut bool,
    ) -> Result<Vec<Option<Winner>>, TrainError> {
        let recipe = &self.job.recipe;
        let slice = Slice::new(nodes, recipe);
        let per_candidate: u64 = nodes
            .iter()
            .map(|n| bytes_of(&n.counts, recipe.thresholds as usize))
            .sum();
        let fit = (self.resources.memory_limit / 2 / per_candidate.max(1)).max(1);
        let block = fit.min(recipe.features.into()) as u32;
        let mut winners = vec![None; nodes.len()];
        let mut from = 0;
        while from < recipe.features {
            let to = recipe.features.min(from.saturating_add(block));
            let tiles = self.tiles.min(to - from);
            let edge =
                |i: u32| from + ((u64::from(to - from) * u64::from(i)) / u64::from(tiles)) as u32;
            let mut tiles: Vec<Tile> = (0..tiles)
                .map(|i| Tile::new(edge(i), edge(i + 1)))
                .collect();
            let (feature, seed, tree) = (self.feature, self.seed, self.tree);
            tiles
                .par_iter_mut()
                .for_each(|tile| tile.draw(feature, &slice, recipe, seed, tree));
            if recipe.threshold_source == ThresholdSource::Responses {
                self.pick(&slice, &mut tiles, growing.level)?;
                for tile in &mut tiles {
                    tile.sum_picks(self.resources.ranks)?;
                }
            }
            tiles.par_iter_mut().for_each(|tile| tile.sort(&slice));
            let done = self.count(growing, frontier, &slice, &mut tiles, routed);
            self.agreed(growing.level, done)?;
            for tile in &mut tiles {
                tile.sum_bins(self.resources.ranks)?;
            }
            let found: Vec<_> = tiles
                .par_iter()
                .map(|tile| tile.best(&slice, &self.xlog))
                .collect();
            for found in found {
                keep_best(&mut winners, found);
            }
            from = to;
        }
        Ok(winners)
    }

    /// The ranks of the pixels whose responses become thresholds; this rank's views come next.
    pub fn picks(&self, slice: &Slice) -> Result<Picks, TrainError> {
        let before = self.before(slice)?;
        Ok(Picks::new(slice, &before, (self.seed, self.tree)))
    }

    /// The pixels of each view whose responses become thresholds.
    pub fn picked(&self, slice: &Slice) -> Result<Vec<Vec<Picked>>, TrainError> {
        let mut picks = self.picks(slice)?;
        let of = |samples: &Vec<Sample>| picks.of(slice, samples);
        Ok(self.samples.iter().map(of).collect())
    }

    /// Thresholds from the responses of pixels of each node.
    fn pick(&self, slice: &Slice, tiles: &mut [Tile], level: u32) -> Result<(), TrainError> {
        let by_view = self.picked(slice)?;
        let wanted: Vec<usize> = (0..self.views.len())
            .filter(|&v| !by_view[v].is_empty())
            .collect();
        let feature = self.feature;
        let done = self
            .store
            .for_batches(&self.views, &wanted, |batch, planes| {
                tiles.par_iter_mut().for_each(|tile| {
                    for (&view, planes) in batch.iter().zip(planes) {
                        for &(place, j, s) in &by_view[view] {
                            let sample = &self.samples[view][s];
                            tile.pick(feature, planes, slice, (place, j), sample);
                        }
                    }
                });
                self.go_on(level)
            });
        self.agreed(level, done)
    }

    /// Of each node the pixels that earlier ranks have.
    fn before(&self, slice: &Slice) -> Result<Vec<u32>, TrainError> {
        let (ranks, n) = (self.resources.ranks, slice.len());
        if ranks.ranks() == 1 {
            return Ok(vec![0; n]);
        }
        let mut counts = vec![0u32; n * ranks.ranks()];
        let (earlier, mine) = counts.split_at_mut(n * ranks.rank());
        for samples in &self.samples {
            for run in samples.chunk_by(|a, b| a.node == b.node) {
                if let Some(place) = slice.place(run[0].node) {
                    mine[place] += run.len() as u32;
                }
            }
        }
        let rows = earlier.len();
        ranks.sum_u32(&mut counts)?;
        let mut before = vec![0u32; n];
        for row in counts[..rows].chunks_exact(n) {
            for (sum, n) in before.iter_mut().zip(row) {
                *sum += n;
            }
        }
        Ok(before)
    }

    pub fn go_on(&self, level: u32) -> Result<(), TrainError> {
        if self.stopped() {
            let tree = self.tree;
            return Err(TrainError::Stopped { tree, level });
        }
        Ok(())
    }

    /// Fills the bins; the first pass of a level routes the pixels besides.
    fn count(
        &mut self,
        growing: &Growing,
        frontier: &[Candidate],
        slice: &Slice,
        tiles: &mut [Tile],
        routed: &mut bool,
    ) -> Result<(), TrainError> {
        let wanted = if *routed {
            self.views_with(|node| slice.place(node).is_some())
        } else {
            let moves = leads_to(growing, frontier);
            self.views_with(|node| moves[node as usize] || slice.place(node).is_some())
        };
        let (store, views, feature) = (self.store, &self.views, self.feature);
        let (samples, resources) = (&mut self.samples, self.resources);
        let (tree, level, route) = (self.tree, growing.level, !*routed);
        store.for_batches(views, &wanted, |batch, planes| {
            if route {
                route_batch(feature, growing, samples, batch, planes);
            }
            let samples = &*samples;
            let mut at = 0;
            for planes in near(planes) {
                let views = &batch[at..at + planes.len()];
                at += planes.len();
                tiles.par_iter_mut().for_each(|tile| {
                    for (&view, planes) in views.iter().zip(planes) {
                        let list = &samples[view];
                        let n = tile.add(feature, planes, slice, list, resources.stop);
                        resources.observer.responses(n);
                    }
                });
            }
            if resources.stop.load(Ordering::Relaxed) {
                return Err(TrainError::Stopped { tree, level });
            }
            Ok(())
        })?;
        *routed = true;
        Ok(())
    }
}

/// Runs of images that fit into a processor's last cache together: the threads, which have other
/// candidates each, read them from memory once.
fn near<'p>(planes: &'p [&'p Planes]) -> impl Iterator<Item = &'p [&'p Planes]> {
    const CACHE: u64 = 8 << 20;
    let mut rest = planes;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fit = rest.iter().take_while(|p| {
            bytes += p.bytes();
            bytes <= CACHE
        });
        let n = fit.count().max(1).min(rest.len());
        let (run, tail) = rest.split_at(n);
        rest = tail;
        (n > 0).then_some(run)
    })
}

/// For each node whether pixels that are in it may be in the frontier after routing.
pub(super) fn leads_to(growing: &Growing, frontier: &[Candidate]) -> Vec<bool> {
    let mut leads = vec![false; growing.nodes.len()];
    for candidate in frontier {
        leads[candidate.node as usize] = true;
    }
    for (i, node) in growing.nodes.iter().enumerate().rev() {
        if node.left != LEAF {
            let left = node.left as usize;
            leads[i] = leads[left] || leads[left + 1];
        }
    }
    leads
}

/// Brings the pixels of some views to their leaves, and sorts them by node; within a node they
/// keep their order.
fn route_batch<F: Feature>(
    feature: &F,
    growing: &Growing,
    samples: &mut [Vec<Sample>],
    batch: &[usize],
    planes: &[&Planes],
) {
    let mut lists: Vec<(&mut Vec<Sample>, &Planes)> = Vec::with_capacity(batch.len());
    let mut rest = samples;
    let mut passed = 0;
    for (&view, planes) in batch.iter().zip(planes) {
        // Batches rise.
        let (_, tail) = std::mem::take(&mut rest).split_at_mut(view - passed);
        if let Some((list, tail)) = tail.split_first_mut() {
            lists.push((list, planes));
            rest = tail;
        }
        passed = view + 1;
    }
    lists.par_iter_mut().for_each(|(list, planes)| {
        for s in list.iter_mut() {
            let mut node = &growing.nodes[s.node as usize];
            while node.left != LEAF {
                let response = feature.response(planes, &node.theta, s.x.into(), s.y.into());
                s.node = node.left + u32::from(response > node.tau);
                node = &growing.nodes[s.node as usize];
            }
        }
        list.sort_by_key(|s| s.node);
    });
}
