//! Leaf posteriors from the counts in a model file.
use serde::{Deserialize, Serialize};

use super::model::{Forest, Meta};

/// 1 in a posterior.
pub const POSTERIOR_ONE: u16 = u16::MAX;

/// How counts become posteriors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeafOptions {
    /// Taken off each class's count, as a share of the leaf's, 0 to below 1: quietens classes
    /// that a leaf has seen seldom (Schulz et al., VISAPP 2015).
    pub bias: f64,
    /// Whether a class counts as much as it has pixels in the training images.
    pub prior: bool,
    /// Added to every class's count (Laplace).
    pub alpha: f64,
    /// A class counts by its share of the training images' pixels to the power of minus this,
    /// 0 to 2: more of the seldom classes is found, and less of the others.
    pub balance: f64,
}

impl Default for LeafOptions {
    /// Frequencies as they are.
    fn default() -> Self {
        Self {
            bias: 0.0,
            prior: false,
            alpha: 0.0,
            balance: 0.0,
        }
    }
}

impl LeafOptions {
    pub(super) fn validate(&self) -> Result<(), String> {
        if !(0.0..1.0).contains(&self.bias) {
            return Err(format!("bias is {}, expected 0 to below 1", self.bias));
        }
        if !(0.0..=1e6).contains(&self.alpha) {
            return Err(format!("alpha is {}, expected 0 to 1e6", self.alpha));
        }
        if !(0.0..=2.0).contains(&self.balance) {
            return Err(format!("balance is {}, expected 0 to 2", self.balance));
        }
        Ok(())
    }

    /// What a class counts: its pixels in the training images where that is wanted, and their
    /// share to the power of `-balance`.
    fn factors(&self, meta: &Meta) -> Vec<f64> {
        let all = meta.class_pixels.iter().sum::<u64>().max(1) as f64;
        let factor = |&pixels: &u64| {
            let prior = if self.prior { pixels as f64 } else { 1.0 };
            if self.balance == 0.0 {
                return prior;
            }
            prior * libm::pow(pixels.max(1) as f64 / all, -self.balance)
        };
        meta.class_pixels.iter().map(factor).collect()
    }

    /// A leaf's posterior in 1/65535: `q_c = max(0, w_c (n_c + alpha) - bias n)` with `n` the sum
    /// of `w_c (n_c + alpha)`, times the class's factor, over their sum. All 0 where that is 0.
    fn posterior(&self, meta: &Meta, factors: &[f64], counts: &[u32], to: &mut Vec<u16>) {
        let weight = |c: usize| match meta.recipe.class_weights.get(c) {
            Some(&w) => f64::from(w) / 256.0,
            None => 1.0,
        };
        let count = |c: usize| weight(c) * (f64::from(counts[c]) + self.alpha);
        // f64 sums in the order of classes: the same everywhere.
        let all = (0..counts.len()).fold(0.0, |sum, c| sum + count(c));
        let value = |c: usize| {
            let q = count(c) - self.bias * all;
            if q > 0.0 { q * factors[c] } else { 0.0 }
        };
        let sum = (0..counts.len()).fold(0.0, |sum, c| sum + value(c));
        to.extend((0..counts.len()).map(|c| {
            if sum > 0.0 {
                (value(c) / sum * f64::from(POSTERIOR_ONE) + 0.5) as u16
            } else {
                0
            }
        }));
    }

    /// The posteriors of all leaves, tree after tree, a value for each class; and where each
    /// tree's begin, in leaves.
    pub(super) fn table(&self, forest: &Forest) -> (Vec<u16>, Vec<u32>) {
        let classes = forest.meta.classes.len();
        let factors = self.factors(&forest.meta);
        let counts = forest.trees.iter().map(|t| t.counts.len()).sum();
        let (mut table, mut first) = (Vec::with_capacity(counts), Vec::new());
        for tree in &forest.trees {
            first.push((table.len() / classes) as u32);
            for leaf in tree.counts.chunks_exact(classes) {
                self.posterior(&forest.meta, &factors, leaf, &mut table);
            }
        }
        (table, first)
    }
}
