//! The candidates of a slice of the frontier, and how many pixels each sends where.
//!
//! Of the histogram `H[node][candidate][threshold][class]` of left counts its differences are
//! kept: thresholds are sorted, a pixel adds 1 to the bin that its response falls into, and sums
//! over bins are the left counts. That is one addition a pixel and candidate, whatever the number
//! of thresholds. Of a node only the classes that it has are kept.
use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    RankError, Reducer,
    gain::{Scorer, Xlog},
    samples::Sample,
};
use crate::stage::forest::{
    Feature, Planes, Purpose, Recipe, Seed, Theta, ThresholdSource,
    feature::{INVALID, LARGEST},
};

/// Responses that are computed before they are counted.
const AT_ONCE: usize = 1024;

/// No place in a slice.
const NONE: u32 = u32::MAX;

/// A node whose split is looked for.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its place in the tree.
    pub node: u32,
    /// Its number in the full binary tree.
    pub heap: u32,
    /// Its pixels by class.
    pub counts: Vec<u32>,
}

pub(super) struct Place {
    pub heap: u32,
    /// Of a class of the forest, its place among the node's.
    pub local: Vec<u8>,
    pub totals: Vec<u32>,
    pub weights: Vec<u32>,
    /// Bins of the nodes before, for one candidate.
    pub base: usize,
    pub bins: usize,
}

/// Some nodes of the frontier.
pub(super) struct Slice {
    first: u32,
    place_of: Vec<u32>,
    pub places: Vec<Place>,
    pub thresholds: usize,
    /// Bins of all nodes for one candidate.
    pub bins: usize,
}

/// Bins of a node for one candidate.
pub(super) fn bins_of(counts: &[u32], thresholds: usize) -> usize {
    counts.iter().filter(|&&n| n > 0).count() * (thresholds + 1)
}

/// Bytes that a node takes for one candidate.
pub(super) fn bytes_of(counts: &[u32], thresholds: usize) -> u64 {
    let candidate = size_of::<Theta>() + thresholds * (size_of::<i32>() + size_of::<u16>());
    (4 * bins_of(counts, thresholds) + candidate) as u64
}

impl Slice {
    pub fn new(nodes: &[Candidate], recipe: &Recipe) -> Self {
        let thresholds = recipe.thresholds as usize;
        let first = nodes.iter().map(|n| n.node).min().unwrap_or(0);
        let last = nodes.iter().map(|n| n.node).max().unwrap_or(0);
        let mut place_of = vec![NONE; (last - first) as usize + 1];
        let mut places = Vec::with_capacity(nodes.len());
        let mut base = 0;
        for (i, node) in nodes.iter().enumerate() {
            place_of[(node.node - first) as usize] = i as u32;
            let (mut local, mut totals, mut weights) = (Vec::new(), Vec::new(), Vec::new());
            for (c, &n) in node.counts.iter().enumerate() {
                local.push(totals.len() as u8);
                if n > 0 {
                    totals.push(n);
                    weights.push(recipe.class_weights.get(c).copied().unwrap_or(1));
                }
            }
            let bins = bins_of(&node.counts, thresholds);
            places.push(Place {
                heap: node.heap,
                local,
                totals,
                weights,
                base,
                bins,
            });
            base += bins;
        }
        Self {
            first,
            place_of,
            places,
            thresholds,
            bins: base,
        }
    }

    /// The place of a node, if it is in this slice.
    pub fn place(&self, node: u32) -> Option<usize> {
        let at = node.checked_sub(self.first)? as usize;
        let place = *self.place_of.get(at)?;
        (place != NONE).then_some(place as usize)
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Ranks of the pixels whose responses become thresholds: `(rank, threshold)` by rising rank.
    pub fn picks(&self, place: usize, seed: Seed, tree: u32) -> Vec<(u32, u32)> {
        let p = &self.places[place];
        let pixels: u32 = p.totals.iter().sum();
        let mut words = seed.stream(Purpose::Picks, tree, p.heap, 0);
        let mut picks: Vec<(u32, u32)> = (0..self.thresholds as u32)
            .map(|j| (words.below(pixels), j))
            .collect();
        picks.sort_unstable();
        picks
    }
}

/// A pixel whose responses become thresholds: its node's place in the slice, which threshold, and
/// which of its view's pixels it is.
pub(super) type Picked = (usize, u32, usize);

/// Which pixels' responses become thresholds, view after view.
pub(super) struct Picks {
    /// Of each node, `(rank, threshold)` by rising rank.
    picks: Vec<Vec<(u32, u32)>>,
    /// Of each node, pixels and picks that were passed.
    passed: Vec<(u32, usize)>,
}

impl Picks {
    /// `before`: of each node the pixels that were passed elsewhere.
    pub fn new(slice: &Slice, before: &[u32], (seed, tree): (Seed, u32)) -> Self {
        let picks: Vec<_> = (0..slice.len())
            .map(|place| slice.picks(place, seed, tree))
            .collect();
        let passed = before
            .iter()
            .zip(&picks)
            .map(|(&rank, picks)| (rank, picks.partition_point(|p| p.0 < rank)))
            .collect();
        Self { picks, passed }
    }

    /// Those among the pixels of the next view, which are sorted by node. Views without pixels in
    /// the slice may be left out.
    pub fn of(&mut self, slice: &Slice, samples: &[Sample]) -> Vec<Picked> {
        let (mut picked, mut at) = (Vec::new(), 0);
        for run in samples.chunk_by(|a, b| a.node == b.node) {
            if let Some(place) = slice.place(run[0].node) {
                let (rank, next) = &mut self.passed[place];
                let end = *rank + run.len() as u32;
                while let Some(&(pick, j)) = self.picks[place].get(*next).filter(|p| p.0 < end) {
                    picked.push((place, j, at + (pick - *rank) as usize));
                    *next += 1;
                }
                *rank = end;
            }
            at += run.len();
        }
        picked
    }
}

/// A candidate that is the best of its node so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Winner {
    pub gain: i64,
    pub theta: Theta,
    pub tau: i32,
    /// Pixels by class that go left.
    pub left: Vec<u32>,
}

/// Some candidates of each node of a slice.
pub(super) struct Tile {
    from: u32,
    to: u32,
    thetas: Vec<Theta>,
    taus: Vec<i32>,
    order: Vec<u16>,
    bins: Vec<u32>,
    hits: Vec<usize>,
}

impl Tile {
    pub fn new(from: u32, to: u32) -> Self {
        Self {
            from,
            to,
            thetas: Vec::new(),
            taus: Vec::new(),
            order: Vec::new(),
            bins: Vec::new(),
            hits: Vec::with_capacity(AT_ONCE),
        }
    }

    fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Draws parameters and, unless they are responses, thresholds; empties the bins.
    pub fn draw<F: Feature>(
        &mut self,
        feature: &F,
        slice: &Slice,
        recipe: &Recipe,
        seed: Seed,
        tree: u32,
    ) {
        let uniform = recipe.threshold_source == ThresholdSource::Uniform;
        self.bins.resize(slice.bins * self.len(), 0);
        self.taus
            .resize(slice.len() * self.len() * slice.thresholds, LARGEST);
        let mut taus = self.taus.chunks_exact_mut(slice.thresholds);
        for place in &slice.places {
            for f in self.from..self.to {
                let mut words = seed.stream(Purpose::Feature, tree, place.heap, f);
                let theta = feature.draw(&mut words);
                self.thetas.push(theta);
                if let (true, Some(taus)) = (uniform, taus.next()) {
                    let (low, high) = feature.threshold_range(&theta);
                    let mut words = seed.stream(Purpose::Thresholds, tree, place.heap, f);
                    taus.fill_with(|| words.within(low, high));
                }
            }
        }
    }

    /// Takes the responses of a picked pixel of a node as threshold `j`.
    pub fn pick<F: Feature>(
        &mut self,
        feature: &F,
        planes: &Planes,
        slice: &Slice,
        (place, j): (usize, u32),
        sample: &Sample,
    ) {
        let first = place * self.len();
        for (i, theta) in self.thetas[first..first + self.len()].iter().enumerate() {
            let response = feature.response(planes, theta, sample.x.into(), sample.y.into());
            if response != INVALID {
                self.taus[(first + i) * slice.thresholds + j as usize] = response;
            }
        }
    }

    /// The thresholds that other ranks have picked: each pixel is one rank's, and what no rank has
    /// a response for stays [`LARGEST`].
    pub fn sum_picks(&mut self, ranks: &dyn Reducer) -> Result<(), RankError> {
        if ranks.ranks() == 1 {
            return Ok(());
        }
        let below = |tau: i32| LARGEST.wrapping_sub(tau) as u32;
        let mut sums: Vec<u32> = self.taus.iter().map(|&tau| below(tau)).collect();
        ranks.sum_u32(&mut sums)?;
        for (tau, sum) in self.taus.iter_mut().zip(sums) {
            *tau = LARGEST.wrapping_sub(sum as i32);
        }
        Ok(())
    }

    /// The bins of all ranks.
    pub fn sum_bins(&mut self, ranks: &dyn Reducer) -> Result<(), RankError> {
        ranks.sum_u32(&mut self.bins)
    }

    /// Sorts each candidate's thresholds; equal ones stay in the order in which they were drawn.
    pub fn sort(&mut self, slice: &Slice) {
        let t = slice.thresholds;
        self.order.reserve(self.taus.len());
        let mut pairs: Vec<(i32, u16)> = Vec::with_capacity(t);
        for taus in self.taus.chunks_exact_mut(t) {
            pairs.clear();
            pairs.extend(taus.iter().copied().zip(0..));
            pairs.sort_unstable();
            for (tau, &(sorted, j)) in taus.iter_mut().zip(&pairs) {
                *tau = sorted;
                self.order.push(j);
            }
        }
    }

    /// Counts the pixels of an image, which are sorted by node. Returns how many responses that
    /// took. Once `stop` is set it does nothing.
    pub fn add<F: Feature>(
        &mut self,
        feature: &F,
        planes: &Planes,
        slice: &Slice,
        samples: &[Sample],
        stop: &AtomicBool,
    ) -> u64 {
        if stop.load(Ordering::Relaxed) {
            return 0;
        }
        let (n, t) = (self.len(), slice.thresholds);
        let mut responses = 0;
        for run in samples.chunk_by(|a, b| a.node == b.node) {
            let Some(i) = slice.place(run[0].node) else {
                continue;
            };
            let place = &slice.places[i];
            let classes = place.totals.len();
            let thetas = &self.thetas[i * n..][..n];
            let taus = &self.taus[i * n * t..][..n * t];
            let bins = &mut self.bins[place.base * n..][..place.bins * n];
            // All responses of some candidates, then their additions: the processor overlaps
            // what waits for memory better when each kind stands by itself.
            let step = (AT_ONCE / run.len()).max(1);
            for first in (0..n).step_by(step) {
                self.hits.clear();
                for f in first..n.min(first + step) {
                    let (theta, taus) = (&thetas[f], &taus[f * t..][..t]);
                    for s in run {
                        let response = feature.response(planes, theta, s.x.into(), s.y.into());
                        let bin = bin_of(taus, response);
                        let local = usize::from(place.local[usize::from(s.class)]);
                        self.hits.push(f * place.bins + bin * classes + local);
                    }
                }
                for &hit in &self.hits {
                    bins[hit] += 1;
                }
            }
            responses += (n * run.len()) as u64;
        }
        responses
    }

    /// The best candidate of each node, where one splits it.
    pub fn best(&self, slice: &Slice, xlog: &Xlog) -> Vec<Option<Winner>> {
        let (n, t) = (self.len(), slice.thresholds);
        let mut scorer = Scorer::default();
        let of = |i: usize, place: &Place, scorer: &mut Scorer| {
            let bins = &self.bins[place.base * n..][..place.bins * n];
            let mut best: Option<(i64, usize, usize)> = None;
            for f in 0..n {
                let bins = &bins[f * place.bins..][..place.bins];
                let order = &self.order[(i * n + f) * t..][..t];
                let found = scorer.best(xlog, &place.weights, &place.totals, bins, order);
                if let Some(found) = found
                    && best.is_none_or(|(gain, ..)| found.gain > gain)
                {
                    best = Some((found.gain, f, found.rank.into()));
                }
            }
            let (gain, f, rank) = best?;
            let classes = place.totals.len();
            let bins = &bins[f * place.bins..][..(rank + 1) * classes];
            let mut compact = vec![0u32; classes];
            for row in bins.chunks_exact(classes) {
                for (sum, n) in compact.iter_mut().zip(row) {
                    *sum += n;
                }
            }
            Some(Winner {
                gain,
                theta: self.thetas[i * n + f],
                tau: self.taus[(i * n + f) * t + rank],
                left: compact,
            })
        };
        let places = slice.places.iter().enumerate();
        places.map(|(i, place)| of(i, place, &mut scorer)).collect()
    }
}

/// How many of the rising thresholds are below a response: it goes left at the others.
#[inline(always)]
fn bin_of(taus: &[i32], response: i32) -> usize {
    if taus.len() <= 64 {
        // No branches: a few vector comparisons.
        taus.iter()
            .map(|&tau| u32::from(tau < response))
            .sum::<u32>() as usize
    } else {
        taus.partition_point(|&tau| tau < response)
    }
}

/// A winner's left counts for all classes of the forest.
pub(super) fn spread(counts: &[u32], compact: &[u32]) -> Vec<u32> {
    let mut next = compact.iter();
    let of = |&n: &u32| {
        if n > 0 {
            next.next().copied().unwrap_or(0)
        } else {
            0
        }
    };
    counts.iter().map(of).collect()
}

/// Keeps the better of two candidates of each node; `later` are those of greater number.
pub(super) fn keep_best(best: &mut [Option<Winner>], later: Vec<Option<Winner>>) {
    for (best, later) in best.iter_mut().zip(later) {
        if let Some(later) = later
            && best.as_ref().is_none_or(|b| later.gain > b.gain)
        {
            *best = Some(later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_the_thresholds_below() {
        for n in [1, 20, 64, 65, 300] {
            let taus: Vec<i32> = (0..n).map(|i| i / 3 * 10).collect();
            for response in [-1, 0, 1, 10, 11, 40, 10_000, INVALID] {
                let plain = taus.iter().filter(|&&tau| tau < response).count();
                assert_eq!(bin_of(&taus, response), plain);
            }
            assert_eq!(bin_of(&[LARGEST], INVALID), 1);
            assert_eq!(bin_of(&[LARGEST], LARGEST), 0);
        }
    }
}
