//! Levels whose histograms do not fit, where images do not stay on the device either.
//!
//! Cut into slices of the frontier, each slice asks for a pass of all images: a node of few pixels
//! has them in as many images. What does fit is bytes that are proportional to pixels: for S = F =
//! 512 and 335 images a level has 88 million responses (335 MiB) and, of some thousand nodes, half
//! a GiB of histograms. So responses are kept in page-locked memory, in one pass, where the device
//! writes each once in place; then a block for each node and 32 candidates reads its own again and
//! has its thresholds, its histogram and its gains in shared memory alone. Of candidates the device
//! has their parameters (16 bytes for each node), and where those or the kept responses are too
//! much, a part of the candidates at a time, with a pass for each.
//!
//! What bounds it is the bus, which each response crosses twice: at 50 GB/s 7 ms a direction for
//! the level above, against 1.4 ms for each pass of the images (137 MB of 16 bits a sample, 2.7
//! ms). Thresholds from responses need no pass of their own: the pixels are among those kept.
use super::{
    Found, MOST_CANDIDATES, NONE, Routing, SLOTS, Task, There, Trainer, WARP,
    kernels::{KEEP_WARPS, Kept, NodePlace, SPLIT_WARPS},
    memory::Pair,
    theta,
};
use crate::{
    cuda::{DevicePtr, LaunchShape, Pinned},
    stage::forest::{Feature, ThresholdSource},
    training::{
        Traffic, TrainError,
        grow::{Grower, leads_to},
        growing::Growing,
        histogram::{Candidate, Slice, Winner, keep_best},
    },
};

/// Bytes of a row: a pixel's responses to 32 candidates.
const ROW: u64 = 4 * WARP as u64;

/// What levels with kept responses need besides.
pub struct Keeper {
    responses: Option<Pinned<i32>>,
    classes: Pair<u8>,
    picks: Pair<u32>,
    items: Pair<u32>,
    /// Whether the last level's responses were kept.
    keeps: bool,
}

impl Keeper {
    pub fn new() -> Self {
        Self {
            responses: None,
            classes: Pair::new("classes of pixels"),
            picks: Pair::new("pixels of thresholds"),
            items: Pair::new("nodes to be split"),
            keeps: false,
        }
    }
}

/// Responses of some candidates on their way to where they are kept.
pub struct Keeping {
    candidates: u32,
    places: DevicePtr<NodePlace>,
    thetas: DevicePtr<[u32; 4]>,
    responses: DevicePtr<i32>,
    /// Of each node the pixels of those before, and its own that were passed.
    before: Vec<usize>,
    passed: Vec<u32>,
    /// Of each pixel the class among its node's.
    classes: Vec<u8>,
}

/// Shared memory of a block that splits, bytes.
fn split_bytes(classes: usize, thresholds: usize) -> usize {
    WARP * (4 * ((thresholds + 1) * classes + thresholds) + 2 * thresholds)
}

impl Trainer<'_> {
    /// How many candidates of all nodes are looked at at a time, if that takes fewer passes of the
    /// images than slices do.
    fn kept_block<F: Feature>(
        &self,
        grower: &Grower<'_, F>,
        frontier: &[Candidate],
        slices: usize,
    ) -> Option<u32> {
        let (recipe, resources) = (&grower.job.recipe, grower.resources);
        if slices < 2 || self.images.is_resident() || resources.ranks.ranks() > 1 {
            return None;
        }
        let t = recipe.thresholds as usize;
        let classes = |c: &Candidate| c.counts.iter().filter(|&&n| n > 0).count();
        let fits = |c| split_bytes(classes(c), t) <= self.kernels.split_shared as usize;
        if !frontier.iter().all(fits) {
            return None;
        }
        let sum = |of: &dyn Fn(&Candidate) -> u64| frontier.iter().map(of).sum::<u64>();
        let pixels = sum(&|c| c.counts.iter().map(|&n| u64::from(n)).sum());
        let (nodes, classes) = (frontier.len() as u64, sum(&|c| classes(c) as u64));
        // Half of the limit, which histograms have else with what is in reserve; lists have half
        // as much again.
        let lists = pixels + nodes * (4 * t as u64 + 32) + 8 * classes;
        let tile = nodes * (16 * WARP as u64 + 48) + 6 * classes;
        let device = (self.limit / 2).saturating_sub(lists / 2 * 3) / tile.max(1);
        let host = resources.memory_limit / 2 / (ROW * pixels).max(1);
        let most = device.min(host).min(MOST_CANDIDATES / WARP as u64);
        let tiles = u64::from(recipe.features.div_ceil(WARP as u32));
        let passes = tiles.div_ceil(most.max(1));
        let each = match recipe.threshold_source {
            ThresholdSource::Uniform => 1,
            ThresholdSource::Responses => 2,
        };
        if most == 0 || passes >= slices as u64 * each {
            return None;
        }
        Some(tiles.div_ceil(passes) as u32 * WARP as u32)
    }

    pub(super) fn split_by_kept<F: Feature>(
        &mut self,
        grower: &mut Grower<'_, F>,
        growing: &Growing,
        frontier: &[Candidate],
        slices: usize,
    ) -> Result<Option<Vec<Option<Winner>>>, TrainError> {
        let Some(block) = self.kept_block(grower, frontier, slices) else {
            return Ok(None);
        };
        self.begin(grower)?;
        self.make_room(true);
        let recipe = &grower.job.recipe;
        let slice = Slice::new(frontier, recipe);
        let (mut before, mut pixels) = (Vec::with_capacity(slice.len()), 0);
        for place in &slice.places {
            before.push(pixels);
            pixels += place.totals.iter().sum::<u32>() as usize;
        }
        let places = self.load_places(&slice, |place, _| before[place] as u64)?;
        let picks = match recipe.threshold_source {
            ThresholdSource::Uniform => DevicePtr::NULL,
            ThresholdSource::Responses => {
                let mut list = vec![0; slice.len() * slice.thresholds];
                for (place, list) in list.chunks_exact_mut(slice.thresholds).enumerate() {
                    for (rank, j) in slice.picks(place, grower.seed, grower.tree) {
                        list[j as usize] = rank;
                    }
                }
                self.keeper.picks.load(&self.work, &list)?.ptr()
            }
        };
        let mut winners = vec![None; frontier.len()];
        let mut routing = {
            let moves = leads_to(growing, frontier);
            Some(Routing { growing, moves })
        };
        for from in (0..recipe.features).step_by(block as usize) {
            let candidates = block.min(recipe.features - from);
            let tiles = candidates.div_ceil(WARP as u32) as usize;
            let thetas = self
                .thetas
                .exactly(&self.context, slice.len() * candidates as usize)?;
            let all = slice.len() * candidates as usize;
            let n = slice.len() as u32;
            let none = DevicePtr::NULL;
            let arguments = (
                self.options,
                places.ptr(),
                n,
                from,
                candidates,
                0,
                0,
                thetas.ptr(),
                none,
            );
            let shape = LaunchShape::covering(all, 128);
            self.kernels.draw.launch(&self.work, shape, &arguments)?;
            let responses = self.kept(pixels * tiles * WARP)?;
            let routing = routing.take();
            let wanted = grower.views_with(|node| {
                slice.place(node).is_some()
                    || routing.as_ref().is_some_and(|r| r.moves[node as usize])
            });
            let mut keeping = Keeping {
                candidates,
                places: places.ptr(),
                thetas: thetas.ptr(),
                responses: responses.ptr(),
                before: before.clone(),
                passed: vec![0; slice.len()],
                classes: vec![0; pixels],
            };
            let task = Task::Keep(&slice, &mut keeping);
            self.pass(grower, growing.level, &wanted, routing.as_ref(), task)?;
            let bytes = responses.bytes() as u64;
            grower.resources.observer.traffic(&Traffic {
                kept: bytes,
                ..Traffic::default()
            });
            let classes = self.keeper.classes.load(&self.work, &keeping.classes)?;
            let kept = Kept {
                items: DevicePtr::NULL,
                places: places.ptr(),
                totals: DevicePtr::NULL,
                weights: DevicePtr::NULL,
                thetas: thetas.ptr(),
                picks,
                classes: classes.ptr(),
                responses: responses.ptr(),
                results: DevicePtr::NULL,
                lefts: DevicePtr::NULL,
                first: from,
                candidates,
                thresholds: slice.thresholds as u32,
                unused: 0,
            };
            let found = self.split(&slice, kept, tiles)?;
            keep_best(&mut winners, found);
        }
        Ok(Some(winners))
    }

    /// Before a level: what levels of the other kind need is given back.
    pub(super) fn make_room(&mut self, keeps: bool) {
        if std::mem::replace(&mut self.keeper.keeps, keeps) == keeps {
            return;
        }
        self.thetas.release();
        self.drawn.release();
        self.sorted.release();
        self.order.release();
        self.bins.release();
        self.gains.release();
        self.ranks.release();
        self.found.release();
        self.lefts.release();
    }

    /// Room for kept responses.
    fn kept(&mut self, n: usize) -> Result<Pinned<i32>, TrainError> {
        if self.keeper.responses.as_ref().is_none_or(|r| r.len() < n) {
            self.keeper.responses = None;
        }
        let responses = match self.keeper.responses.take() {
            Some(responses) => responses,
            None => Pinned::new(&self.context, "kept responses", n)?,
        };
        let part = responses.slice(0..n)?;
        self.keeper.responses = Some(responses);
        Ok(part)
    }

    /// A batch's pixels and their responses.
    pub(super) fn keep<F: Feature>(
        &mut self,
        grower: &Grower<'_, F>,
        k: usize,
        batch: &[usize],
        there: There,
        (slice, keeping): (&Slice, &mut Keeping),
    ) -> Result<u64, TrainError> {
        let mut list = Vec::new();
        for (i, &view) in batch.iter().enumerate() {
            for run in grower.samples[view].chunk_by(|a, b| a.node == b.node) {
                let Some(at) = slice.place(run[0].node) else {
                    continue;
                };
                let local = &slice.places[at].local;
                let first = keeping.passed[at];
                keeping.passed[at] += run.len() as u32;
                let classes = &mut keeping.classes[keeping.before[at] + first as usize..];
                for ((s, class), pixel) in run.iter().zip(classes).zip(first..) {
                    *class = local[usize::from(s.class)];
                    let xy = u32::from(s.x) | u32::from(s.y) << 16;
                    list.push([xy, i as u32, at as u32, pixel]);
                }
            }
        }
        if list.is_empty() {
            return Ok(0);
        }
        let pixels = self.slots[k % SLOTS].items.load(&self.work, &list)?;
        let n = keeping.candidates;
        let grid = [
            list.len().div_ceil(KEEP_WARPS) as u32,
            n.div_ceil(WARP as u32),
            1,
        ];
        self.kernels.keep.launch(
            &self.work,
            LaunchShape::new(grid, [(KEEP_WARPS * WARP) as u32, 1, 1]),
            &(
                self.options,
                there.planes,
                there.views,
                pixels.ptr(),
                list.len() as u32,
                keeping.places,
                keeping.thetas,
                n,
                keeping.responses,
            ),
        )?;
        Ok(list.len() as u64 * u64::from(n))
    }

    /// The best of some candidates of each node, by their kept responses.
    fn split(
        &mut self,
        slice: &Slice,
        kept: Kept,
        tiles: usize,
    ) -> Result<Vec<Option<Winner>>, TrainError> {
        let Some(xlog) = self.xlog else {
            return Ok(vec![None; slice.len()]);
        };
        let context = &self.context;
        let classes = slice.places.iter().map(|p| p.totals.len()).sum();
        let found = self.found.get(context, slice.len() * tiles)?;
        let lefts = self.lefts.get(context, classes * tiles)?;
        let kept = Kept {
            totals: self.totals.there(context, classes)?.ptr(),
            weights: self.weights.there(context, classes)?.ptr(),
            results: found.ptr(),
            lefts: lefts.ptr(),
            ..kept
        };
        // Blocks of like shared memory run together, the largest nodes first.
        let bytes =
            |&at: &u32| split_bytes(slice.places[at as usize].totals.len(), slice.thresholds);
        let pixels = |&at: &u32| slice.places[at as usize].totals.iter().sum::<u32>();
        let kind = |at: &u32| bytes(at) >> 13;
        let mut items: Vec<u32> = (0..slice.len() as u32).collect();
        items.sort_by_key(|at| (kind(at), std::cmp::Reverse(pixels(at))));
        let list = self.keeper.items.load(&self.work, &items)?;
        let mut first = 0;
        for run in items.chunk_by(|a, b| kind(a) == kind(b)) {
            let kept = Kept {
                items: list.slice(first..first + run.len())?.ptr(),
                ..kept
            };
            first += run.len();
            let shared = run.iter().map(bytes).max().unwrap_or(0);
            let grid = [run.len() as u32, tiles as u32, 1];
            let shape = LaunchShape::new(grid, [(SPLIT_WARPS * WARP) as u32, 1, 1]);
            let shape = shape.with_shared(shared as u32);
            let arguments = (self.options, xlog, kept);
            self.kernels.split.launch(&self.work, shape, &arguments)?;
        }
        let found = self.found_host.fetch(&self.work, &found)?;
        let lefts = self.lefts_host.fetch(&self.work, &lefts)?;
        self.work.synchronize()?;
        let (found, lefts) = (found.read()?, lefts.read()?);
        let mut rest = &lefts[..];
        let mut winners = Vec::with_capacity(slice.len());
        for (place, found) in slice.places.iter().zip(found.chunks_exact(tiles)) {
            let classes = place.totals.len();
            let (lefts, tail) = rest.split_at(classes * tiles);
            rest = tail;
            let mut best: Option<(usize, &Found)> = None;
            for (tile, found) in found.iter().enumerate() {
                let better = |&(_, b): &(usize, &Found)| found.gain > b.gain;
                if found.candidate != NONE && best.as_ref().is_none_or(better) {
                    best = Some((tile, found));
                }
            }
            winners.push(best.map(|(tile, found)| Winner {
                gain: found.gain,
                theta: theta(&found.theta),
                tau: found.tau,
                left: lefts[tile * classes..][..classes].to_vec(),
            }));
        }
        Ok(winners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_a_histogram_thresholds_and_their_order() {
        assert_eq!(split_bytes(22, 20), 32 * (4 * 21 * 22 + 4 * 20 + 2 * 20));
    }
}
