//! What is to be trained, and with what.
use std::{path::PathBuf, sync::atomic::AtomicBool};

use xxhash_rust::xxh3::Xxh3;

use super::{
    Reducer, TrainError,
    data::{Dataset, Facts},
};
use crate::stage::forest::{FeatureSpec, Forest, InputSpec, Meta, Progress, Recipe};

/// What decides a forest.
pub struct Job<'a> {
    /// The images.
    pub data: &'a Dataset,
    /// What is known of them, as [`Dataset::scan`] gives it.
    pub facts: &'a [Facts],
    /// The feature.
    pub feature: FeatureSpec,
    /// What it reads.
    pub input: InputSpec,
    /// Everything else.
    pub recipe: Recipe,
    /// Whether one image, or a class without pixels, will do.
    pub allow_small_set: bool,
}

/// What decides how it is trained, and not a bit of the result.
pub struct Resources<'a> {
    /// Bytes for histograms (half) and images (half). At least an image and the bins of one
    /// candidate are kept whatever it is.
    pub memory_limit: u64,
    /// Ends the training once set.
    pub stop: &'a AtomicBool,
    /// Where the forest is written after each level.
    pub checkpoint: Option<PathBuf>,
    /// Who is told of progress.
    pub observer: &'a dyn Observer,
    /// The ranks that train together; [`Local`](super::Local) for one alone. Only the first
    /// writes checkpoints.
    pub ranks: &'a dyn Reducer,
}

/// What was moved to and from a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How often the images passed by.
    pub passes: u64,
    /// In how many batches.
    pub batches: u64,
    /// Bytes of images that were copied to the device.
    pub images: u64,
    /// Bytes of responses that were written to the host's memory and read there again.
    pub kept: u64,
}

/// Who is told of progress. Called from several threads.
pub trait Observer: Sync {
    /// A level of a tree begins, with so many nodes to split, in so many slices, by about so
    /// many responses.
    fn level_begins(&self, tree: u32, level: u32, nodes: usize, slices: usize, responses: u64) {
        let _ = (tree, level, nodes, slices, responses);
    }
    /// So many responses were computed.
    fn responses(&self, n: u64) {
        let _ = n;
    }
    /// Bytes were moved; of a level all that is told until the next one begins.
    fn traffic(&self, traffic: &Traffic) {
        let _ = traffic;
    }
    /// A tree is done, with so many nodes.
    fn tree_ends(&self, tree: u32, nodes: usize) {
        let _ = (tree, nodes);
    }
}

/// Tells nobody.
pub struct Silent;

impl Observer for Silent {}

/// Checks the set and the options, and says what will be trained.
pub(super) fn describe(job: &Job<'_>) -> Result<Meta, TrainError> {
    let classes = job.data.classes();
    job.feature
        .validate(&job.input)
        .map_err(TrainError::Option)?;
    job.recipe
        .validate(classes.len())
        .map_err(TrainError::Option)?;
    job.data.check_input(job.facts, &job.feature, &job.input)?;
    let mut class_pixels = vec![0u64; classes.len()];
    let mut digest = Xxh3::new();
    for facts in job.facts {
        digest.update(&facts.digest.to_le_bytes());
        for (sum, n) in class_pixels.iter_mut().zip(&facts.class_pixels) {
            *sum += n;
        }
    }
    let names = |wanted: &dyn Fn(u64) -> bool| -> Vec<&str> {
        let all = classes.iter().zip(&class_pixels);
        all.filter(|&(_, &n)| wanted(n))
            .map(|(c, _)| c.name.as_str())
            .collect()
    };
    let present = names(&|n| n > 0);
    if present.len() < 2 {
        return Err(TrainError::Set(match present.first() {
            Some(name) => {
                format!("all labelled pixels are of one class, {name}; expected two or more")
            }
            None => "no pixel has a label of a class".into(),
        }));
    }
    let absent = names(&|n| n == 0);
    if !absent.is_empty() && !job.allow_small_set {
        return Err(TrainError::Set(format!(
            "no pixel is of class {}; name it as void, or allow small sets",
            absent.join(", ")
        )));
    }
    if job.facts.len() < 2 && !job.allow_small_set {
        return Err(TrainError::Set(
            "one image, expected two or more, or that small sets are allowed".into(),
        ));
    }
    Ok(Meta {
        feature: job.feature,
        input: job.input,
        classes: classes.to_vec(),
        void: job.data.class_table().void_index(),
        recipe: job.recipe.clone(),
        images: job.facts.len() as u64,
        class_pixels,
        data_digest: digest.digest(),
        progress: Some(Progress {
            trees: 0,
            levels: 0,
        }),
        program: concat!("roadloop ", env!("CARGO_PKG_VERSION")).into(),
    })
}

/// Whether a forest is an earlier state of what will be trained.
pub(super) fn check_resumed(forest: &Forest, here: &Meta) -> Result<(), TrainError> {
    let there = &forest.meta;
    let same = |what, found: String, expected: String| {
        if found == expected {
            Ok(())
        } else {
            Err(TrainError::Resume {
                what,
                found,
                expected,
            })
        }
    };
    let text = |v: &dyn std::fmt::Debug| format!("{v:?}");
    let digest = |m: &Meta| format!("{:016x}", m.data_digest);
    same("the data's digest", digest(there), digest(here))?;
    same("the feature", text(&there.feature), text(&here.feature))?;
    same("the input", text(&there.input), text(&here.input))?;
    same("the recipe", text(&there.recipe), text(&here.recipe))?;
    let names = |m: &Meta| text(&m.classes.iter().map(|c| &c.name).collect::<Vec<_>>());
    same("the list of classes", names(there), names(here))?;
    // Finished trees, and perhaps one that grows.
    let done = there.progress.map_or(here.recipe.trees, |p| p.trees);
    let extra = (forest.trees.len() as u64).saturating_sub(done.into());
    let growing = u64::from(there.progress.is_some() && done < here.recipe.trees);
    let expected = u64::from(done) + extra.min(growing);
    let found = forest.trees.len().to_string();
    same("the number of trees", found, expected.to_string())
}
