//! A tree while it grows.
use super::histogram::{Candidate, Winner, spread};
use crate::stage::forest::{LEAF, Node, Tree};

/// A tree while it grows.
#[derive(Default)]
pub(super) struct Growing {
    pub nodes: Vec<Node>,
    heaps: Vec<u32>,
    /// Pixels by class; of nodes that are split, empty.
    counts: Vec<Vec<u32>>,
    /// Where the last level begins.
    last: usize,
    pub level: u32,
}

impl Growing {
    pub fn root(counts: Vec<u32>) -> Self {
        Self {
            nodes: vec![Node::leaf(0)],
            heaps: vec![0],
            counts: vec![counts],
            last: 0,
            level: 1,
        }
    }

    /// Goes on with a tree that was saved.
    pub fn resumed(tree: &Tree, classes: usize) -> Self {
        let n = tree.nodes.len();
        let (mut heaps, mut levels) = (vec![0u32; n], vec![1u32; n]);
        let mut leaves = tree.counts.chunks_exact(classes);
        let mut counts = Vec::with_capacity(n);
        for (i, node) in tree.nodes.iter().enumerate() {
            if node.left == LEAF {
                counts.push(leaves.next().unwrap_or_default().to_vec());
                continue;
            }
            counts.push(Vec::new());
            for side in 0..2u32 {
                let child = (node.left + side) as usize;
                heaps[child] = 2 * heaps[i] + 1 + side;
                levels[child] = levels[i] + 1;
            }
        }
        let level = levels.last().copied().unwrap_or(1);
        Self {
            last: levels.iter().position(|&l| l == level).unwrap_or(0),
            nodes: tree.nodes.clone(),
            heaps,
            counts,
            level,
        }
    }

    /// The nodes of the last level that may be split.
    pub fn frontier(&self, min_pixels: u32) -> Vec<Candidate> {
        let worth = |counts: &[u32]| {
            let pixels: u64 = counts.iter().map(|&n| u64::from(n)).sum();
            pixels > min_pixels.into() && counts.iter().filter(|&&n| n > 0).count() > 1
        };
        (self.last..self.nodes.len())
            .filter(|&i| worth(&self.counts[i]))
            .map(|i| Candidate {
                node: i as u32,
                heap: self.heaps[i],
                counts: self.counts[i].clone(),
            })
            .collect()
    }

    /// Splits the nodes of the last level that have a winner; false if none has.
    pub fn split(&mut self, frontier: &[Candidate], winners: Vec<Option<Winner>>) -> bool {
        let begin = self.nodes.len();
        for (candidate, winner) in frontier.iter().zip(winners) {
            let Some(winner) = winner else { continue };
            let left = spread(&candidate.counts, &winner.left);
            let right = candidate
                .counts
                .iter()
                .zip(&left)
                .map(|(n, l)| n - l)
                .collect();
            let i = candidate.node as usize;
            self.counts[i] = Vec::new();
            self.nodes[i] = Node {
                left: self.nodes.len() as u32,
                theta: winner.theta,
                tau: winner.tau,
            };
            for (side, counts) in [(1, left), (2, right)] {
                self.nodes.push(Node::leaf(0));
                self.heaps.push(2 * candidate.heap + side);
                self.counts.push(counts);
            }
        }
        if begin == self.nodes.len() {
            return false;
        }
        self.last = begin;
        self.level += 1;
        true
    }

    /// As it is saved.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree {
            nodes: self.nodes.clone(),
            counts: Vec::new(),
        };
        let mut leaves = 0;
        for (node, counts) in tree.nodes.iter_mut().zip(&self.counts) {
            if node.left == LEAF {
                *node = Node::leaf(leaves);
                leaves += 1;
                tree.counts.extend(counts);
            }
        }
        tree
    }
}
