//! A trained forest in memory.
use serde::{Deserialize, Serialize};

use super::{
    feature::{FeatureSpec, Theta},
    planes::InputSpec,
    random::{Mapping, Seed},
};

pub use crate::frame::LabelClass as Class;
use crate::frame::LabelTable;

/// How training pixels are drawn from an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Uniformly over labelled pixels, with replacement.
    #[default]
    Uniform,
    /// Of each class that is there at most `ceil(samples / classes)`, without replacement.
    Balanced,
}

/// Where thresholds come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdSource {
    /// Uniform in the feature's range.
    #[default]
    Uniform,
    /// The responses of pixels drawn from the node.
    Responses,
}

/// What a forest is trained with, besides feature and input. All of it decides the trees; memory
/// and threads do not, and are not here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Trees.
    pub trees: u32,
    /// Most levels of a tree, the root's is 1.
    pub depth: u32,
    /// Pixels of an image, for a tree.
    pub samples: u32,
    /// Candidates of a node.
    pub features: u32,
    /// Thresholds of a candidate.
    pub thresholds: u32,
    /// A node is split only if it has more pixels than this.
    pub min_pixels: u32,
    /// A split must gain more than this, bits a pixel.
    pub min_gain: f64,
    /// Changes every random choice; below 2^56.
    pub seed: u64,
    /// How random words become parameters and thresholds.
    pub mapping: Mapping,
    /// How pixels are drawn.
    pub sampling: Sampling,
    /// Where thresholds come from.
    pub threshold_source: ThresholdSource,
    /// Share of the images that a tree sees, 0 to 1.
    pub bag: f64,
    /// Whether every image is used from right to left besides.
    pub flip: bool,
    /// Weight of each class in the gain and in the leaves, 1/256; empty: all alike.
    pub class_weights: Vec<u32>,
}

impl Default for Recipe {
    /// The paper's for MSRC2, at its smallest S and F.
    fn default() -> Self {
        Self {
            trees: 5,
            depth: 20,
            samples: 512,
            features: 512,
            thresholds: 20,
            min_pixels: 38,
            min_gain: 0.0,
            seed: 0,
            mapping: Mapping::Exact,
            sampling: Sampling::Uniform,
            threshold_source: ThresholdSource::Uniform,
            bag: 1.0,
            flip: false,
            class_weights: Vec::new(),
        }
    }
}

/// Deepest tree: a node's number in its full tree stays below 2^31.
pub const MAX_DEPTH: u32 = 31;

/// Most classes: label pictures have 8 bits, void and one value more are for others.
pub const MAX_CLASSES: usize = 254;

impl Recipe {
    /// The source of every random choice.
    pub fn randomness(&self) -> Seed {
        Seed::new(self.seed).mapped(self.mapping)
    }

    /// Checks what a file or user gave.
    ///
    /// # Errors
    /// The option, what was found and what was expected.
    pub fn validate(&self, classes: usize) -> Result<(), String> {
        let within = |name: &str, found: u64, low: u64, high: u64| {
            if (low..=high).contains(&found) {
                Ok(())
            } else {
                Err(format!("{name} is {found}, expected {low} to {high}"))
            }
        };
        within("trees", self.trees.into(), 1, 1024)?;
        within("depth", self.depth.into(), 1, MAX_DEPTH.into())?;
        within("samples", self.samples.into(), 1, 1 << 24)?;
        within("features", self.features.into(), 1, 1 << 24)?;
        within("thresholds", self.thresholds.into(), 1, 1 << 12)?;
        within("seed", self.seed, 0, (1 << 56) - 1)?;
        if !(0.0..=64.0).contains(&self.min_gain) {
            return Err(format!("min_gain is {}, expected 0 to 64", self.min_gain));
        }
        if !(self.bag > 0.0 && self.bag <= 1.0) {
            return Err(format!("bag is {}, expected above 0 to 1", self.bag));
        }
        let weights = &self.class_weights;
        if !weights.is_empty() && weights.len() != classes {
            let n = weights.len();
            return Err(format!(
                "{n} class weights, expected one for each of {classes} classes"
            ));
        }
        match weights.iter().find(|&&w| !(1..=65_535).contains(&w)) {
            Some(w) => Err(format!(
                "a class weight of {w}/256, expected 1/256 to 65535/256"
            )),
            None => Ok(()),
        }
    }
}

/// How far an unfinished forest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Finished trees; the next one, if it is there, is unfinished.
    pub trees: u32,
    /// Levels of that one that are there.
    pub levels: u32,
}

/// Everything about a forest but its trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// The feature and its options.
    pub feature: FeatureSpec,
    /// What it reads.
    pub input: InputSpec,
    /// The classes that it knows, by rising index.
    pub classes: Vec<Class>,
    /// The value of "no class" in label pictures.
    pub void: u8,
    /// What it was trained with.
    pub recipe: Recipe,
    /// Images that it was trained on.
    pub images: u64,
    /// Pixels of each class in these images.
    pub class_pixels: Vec<u64>,
    /// xxh3-64 over the images and labels that it was trained on.
    pub data_digest: u64,
    /// How far it is, unless it is finished.
    pub progress: Option<Progress>,
    /// The program that wrote it.
    pub program: String,
}

/// [`Node::left`] of a leaf.
pub const LEAF: u32 = u32::MAX;

/// A node: a split, or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The left child; the right one follows it. [`LEAF`] where there are none.
    pub left: u32,
    /// What is asked of a pixel.
    pub theta: Theta,
    /// The largest response that goes left; of a leaf, its number.
    pub tau: i32,
}

impl Node {
    /// A leaf of this number.
    pub fn leaf(number: u32) -> Self {
        Self {
            left: LEAF,
            theta: Theta::default(),
            tau: number as i32,
        }
    }

    /// The leaf's number, of a leaf.
    pub fn leaf_number(&self) -> Option<u32> {
        (self.left == LEAF).then_some(self.tau as u32)
    }
}

/// A tree: nodes level by level, children side by side; for each leaf the training pixels of
/// each class (not weighted).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The nodes; the root is the first.
    pub nodes: Vec<Node>,
    /// Leaf by leaf, a count for each class.
    pub counts: Vec<u32>,
}

impl Tree {
    /// How many leaves there are.
    pub fn leaves(&self) -> usize {
        self.nodes.iter().filter(|n| n.left == LEAF).count()
    }

    /// Levels, the root's is 1.
    pub fn depth(&self) -> u32 {
        let mut level = vec![1u32; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            if node.left != LEAF {
                let left = node.left as usize;
                level[left] = level[i] + 1;
                level[left + 1] = level[i] + 1;
            }
        }
        level.into_iter().max().unwrap_or(0)
    }
}

impl Meta {
    /// What its labels mean.
    pub fn table(&self) -> LabelTable {
        LabelTable {
            classes: self.classes.clone(),
            void: self.void,
        }
    }
}

/// A forest.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    /// What it is.
    pub meta: Meta,
    /// Its trees.
    pub trees: Vec<Tree>,
}

impl Forest {
    /// Checks everything that using it relies on: options, and that nodes form trees of valid
    /// questions whose leaves have counts.
    ///
    /// # Errors
    /// What is wrong, where.
    pub fn validate(&self) -> Result<(), String> {
        let meta = &self.meta;
        let classes = meta.classes.len();
        if !(1..=MAX_CLASSES).contains(&classes) {
            return Err(format!("{classes} classes, expected 1 to {MAX_CLASSES}"));
        }
        if !meta.classes.is_sorted_by(|a, b| a.index < b.index) {
            return Err("classes that do not rise by index".into());
        }
        if let Some(class) = meta.classes.iter().find(|c| c.index == meta.void) {
            return Err(format!(
                "class {} has the index of void, {}",
                class.name, meta.void
            ));
        }
        if meta.class_pixels.len() != classes {
            let n = meta.class_pixels.len();
            return Err(format!("pixel counts of {n} classes, expected {classes}"));
        }
        meta.feature.validate(&meta.input)?;
        meta.recipe.validate(classes)?;
        if self.trees.is_empty() && meta.progress.is_none() {
            return Err("no tree".into());
        }
        for (t, tree) in self.trees.iter().enumerate() {
            self.check_tree(tree)
                .map_err(|e| format!("tree {t}: {e}"))?;
        }
        Ok(())
    }

    fn check_tree(&self, tree: &Tree) -> Result<(), String> {
        use super::feature::{Feature as _, LARGEST, SMALLEST, dispatch};
        let channels = usize::from(self.meta.input.channels);
        let n = tree.nodes.len();
        if n == 0 {
            return Err("no nodes".into());
        }
        // Children come in pairs in the order of their parents: each has one parent, before it.
        let (mut next, mut leaves) = (1usize, 0u32);
        for (i, node) in tree.nodes.iter().enumerate() {
            if node.left == LEAF {
                if node.tau as u32 != leaves {
                    return Err(format!(
                        "node {i} is leaf {}, expected {leaves}",
                        node.tau as u32
                    ));
                }
                leaves += 1;
                continue;
            }
            if node.left as usize != next || next + 1 >= n {
                return Err(format!(
                    "children of node {i} at {}, expected {next} of {n} nodes",
                    node.left
                ));
            }
            next += 2;
            if !(SMALLEST..=LARGEST).contains(&node.tau) {
                return Err(format!("node {i} has a threshold of {}", node.tau));
            }
            dispatch!(&self.meta.feature, f => f.check(&node.theta, channels))
                .map_err(|e| format!("node {i} has {e}"))?;
        }
        if next != n {
            return Err(format!("{n} nodes of which {next} are reached"));
        }
        let counts = leaves as usize * self.meta.classes.len();
        if tree.counts.len() != counts {
            let found = tree.counts.len();
            return Err(format!("{found} counts in its leaves, expected {counts}"));
        }
        // Breadth first: with children in the order of their parents, depth follows.
        let depth = tree.depth();
        if depth > MAX_DEPTH {
            return Err(format!("{depth} levels, expected at most {MAX_DEPTH}"));
        }
        Ok(())
    }
}
