//! Are the trees the ones that the text defines, whatever memory, threads and interruptions?
#[path = "common/columns.rs"]
mod columns;
#[path = "common/toy.rs"]
mod toy;

use std::sync::atomic::{AtomicBool, Ordering};

use roadloop::{
    stage::forest::{
        Colour, Feature, FeatureSpec, Forest, InputSpec, LEAF, Mapping, Node, Norm, Planes,
        Purpose, Recipe, Region, Sampling, Theta, ThresholdSource, Tree,
        feature::{INVALID, LARGEST},
    },
    training::{
        Job, Observer, Silent, TrainError,
        samples::{self, Sample},
    },
};

/// Every candidate of every node by the plainest means: no histograms, no levels, no order of
/// images but the one in the text, entropies in floating point.
struct Plain<'a> {
    job: &'a Job<'a>,
    feature: Region,
    tree: u32,
    planes: Vec<Planes>,
    nodes: Vec<PlainNode>,
}

type Pixels = Vec<(usize, Sample)>;

/// Number in the full tree, split, pixels by class.
type PlainNode = (u32, Option<(Theta, i32)>, Vec<u32>);

impl Plain<'_> {
    fn response(&self, theta: &Theta, pixel: &(usize, Sample)) -> i32 {
        let (view, s) = pixel;
        self.feature
            .response(&self.planes[*view], theta, s.x.into(), s.y.into())
    }

    fn counts(&self, pixels: &Pixels) -> Vec<u32> {
        let mut counts = vec![0; self.job.data.classes().len()];
        pixels
            .iter()
            .for_each(|(_, s)| counts[usize::from(s.class)] += 1);
        counts
    }

    /// `n log n` summed: minus the entropy times the pixels.
    fn purity(&self, counts: &[u32]) -> f64 {
        let weight = |c: usize| self.job.recipe.class_weights.get(c).map_or(1, |w| *w);
        let x = |n: f64| if n > 0.0 { n * n.log2() } else { 0.0 };
        let n: Vec<f64> = (0..counts.len())
            .map(|c| f64::from(counts[c]) * f64::from(weight(c)))
            .collect();
        n.iter().map(|&n| x(n)).sum::<f64>() - x(n.iter().sum())
    }

    fn grow(&mut self, heap: u32, level: u32, pixels: Pixels) {
        let recipe = &self.job.recipe;
        let counts = self.counts(&pixels);
        let mut best: Option<(f64, Theta, i32)> = None;
        let mixed = counts.iter().filter(|&&n| n > 0).count() > 1;
        if level < recipe.depth && pixels.len() > recipe.min_pixels as usize && mixed {
            let seed = recipe.randomness();
            let mut picks = seed.stream(Purpose::Picks, self.tree, heap, 0);
            let picks: Vec<usize> = (0..recipe.thresholds)
                .map(|_| picks.below(pixels.len() as u32) as usize)
                .collect();
            for f in 0..recipe.features {
                let theta =
                    self.feature
                        .draw(&mut seed.stream(Purpose::Feature, self.tree, heap, f));
                let (low, high) = self.feature.threshold_range(&theta);
                let mut words = seed.stream(Purpose::Thresholds, self.tree, heap, f);
                for &pick in &picks {
                    let tau = match recipe.threshold_source {
                        ThresholdSource::Uniform => words.within(low, high),
                        ThresholdSource::Responses => match self.response(&theta, &pixels[pick]) {
                            INVALID => LARGEST,
                            r => r,
                        },
                    };
                    let (left, right): (Pixels, Pixels) = pixels
                        .iter()
                        .partition(|pixel| self.response(&theta, pixel) <= tau);
                    if left.is_empty() || right.is_empty() {
                        continue;
                    }
                    let gain = self.purity(&self.counts(&left)) + self.purity(&self.counts(&right))
                        - self.purity(&counts);
                    if best.is_none_or(|b| gain > b.0 + 1e-6) {
                        best = Some((gain, theta, tau));
                    }
                }
            }
        }
        match best.filter(|b| b.0 > 1e-5) {
            None => self.nodes.push((heap, None, counts)),
            Some((_, theta, tau)) => {
                self.nodes.push((heap, Some((theta, tau)), counts));
                let (left, right) = pixels
                    .into_iter()
                    .partition(|pixel| self.response(&theta, pixel) <= tau);
                self.grow(2 * heap + 1, level + 1, left);
                self.grow(2 * heap + 2, level + 1, right);
            }
        }
    }

    /// Level by level, as trees are kept.
    fn tree(mut self) -> Tree {
        self.nodes.sort_by_key(|n| n.0);
        let place = |heap: u32| self.nodes.iter().position(|n| n.0 == heap).unwrap() as u32;
        let mut tree = Tree::default();
        for (heap, split, counts) in &self.nodes {
            tree.nodes.push(match split {
                Some((theta, tau)) => Node {
                    left: place(2 * heap + 1),
                    theta: *theta,
                    tau: *tau,
                },
                None => {
                    tree.counts.extend(counts);
                    Node::leaf((tree.counts.len() / counts.len()) as u32 - 1)
                }
            });
        }
        tree
    }
}

fn plain_tree(job: &Job<'_>, tree: u32) -> Tree {
    let FeatureSpec::Region(feature) = job.feature else {
        panic!("regions only");
    };
    let recipe = &job.recipe;
    let seed = recipe.randomness();
    let (mut planes, mut pixels) = (Vec::new(), Vec::new());
    let mut builder = roadloop::stage::forest::PlaneBuilder::new(&job.input);
    for (i, facts) in job.facts.iter().enumerate() {
        let labels = job.data.labels(i).unwrap();
        let list = samples::draw(
            labels.data(),
            facts.size.width,
            recipe.sampling,
            recipe.samples,
            job.data.classes().len(),
            (seed, tree, facts.key),
        );
        for mirrored in if recipe.flip {
            &[false, true][..]
        } else {
            &[false]
        } {
            let mut p = Planes::new(facts.size, &job.input, feature.needs());
            builder.fill(&mut p, job.data.raster(i).unwrap().pixels(), *mirrored);
            pixels.extend(list.iter().map(|&s| {
                let x = if *mirrored {
                    facts.size.width as u16 - 1 - s.x
                } else {
                    s.x
                };
                (planes.len(), Sample { x, ..s })
            }));
            planes.push(p);
        }
    }
    let mut plain = Plain {
        job,
        feature,
        tree,
        planes,
        nodes: Vec::new(),
    };
    plain.grow(0, 1, pixels);
    plain.tree()
}

#[test]
fn trees_are_those_of_an_exhaustive_trainer() {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    type Change = fn(&mut Job<'_>);
    let changes: [Change; 7] = [
        |_| {},
        |job| job.recipe.threshold_source = ThresholdSource::Responses,
        |job| {
            job.recipe.sampling = Sampling::Balanced;
            job.recipe.seed = 77;
            job.recipe.mapping = Mapping::Padenti;
        },
        |job| job.recipe.class_weights = vec![40, 256, 1000],
        |job| {
            job.recipe.flip = true;
            job.recipe.samples = 50;
        },
        |job| {
            job.input.colour = Colour::Lab;
            job.feature = FeatureSpec::Region(Region {
                offset_px: 4,
                region_px: 2,
                norm: Norm::Sum,
                shrink: true,
                ..Region::default()
            });
            job.recipe.threshold_source = ThresholdSource::Responses;
        },
        |job| {
            job.recipe.thresholds = 70;
            job.recipe.features = 3;
            job.recipe.samples = 40;
        },
    ];
    for (k, change) in changes.into_iter().enumerate() {
        let mut job = toy::job(&data, &facts);
        change(&mut job);
        let forest = toy::quiet(&job).unwrap();
        assert_eq!(forest.validate(), Ok(()));
        for t in 0..2 {
            let plain = plain_tree(&job, t);
            assert!(
                plain.nodes.len() > 8,
                "case {k}: {} nodes",
                plain.nodes.len()
            );
            assert_eq!(forest.trees[t as usize], plain, "case {k}, tree {t}");
        }
    }
}

fn larger(job: &mut Job<'_>, source: ThresholdSource) {
    job.recipe.features = 30;
    job.recipe.min_pixels = 2;
    job.recipe.depth = 9;
    job.recipe.flip = true;
    job.recipe.threshold_source = source;
}

#[test]
fn neither_memory_nor_threads_change_a_tree() {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    for source in [ThresholdSource::Uniform, ThresholdSource::Responses] {
        let mut job = toy::job(&data, &facts);
        larger(&mut job, source);
        let expected = toy::quiet(&job).unwrap();
        // From one candidate and one image at a time to everything at once.
        for memory in [0, 20_000, 1 << 20] {
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap();
                let stop = AtomicBool::new(false);
                let forest = pool.install(|| toy::with(&job, memory, None, &Silent, &stop, None));
                assert!(
                    forest.unwrap() == expected,
                    "{memory} bytes, {threads} threads"
                );
            }
        }
    }
}

/// Stops when a level begins.
struct StopAt<'a> {
    stop: &'a AtomicBool,
    tree: u32,
    level: u32,
    slices: std::sync::atomic::AtomicUsize,
}

impl Observer for StopAt<'_> {
    fn level_begins(&self, tree: u32, level: u32, _: usize, slices: usize, _: u64) {
        self.slices.fetch_max(slices, Ordering::Relaxed);
        if (tree, level) == (self.tree, self.level) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_was_stopped_and_resumed_is_the_same_forest() {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    let path = tmp.path().join("f.part");
    for source in [ThresholdSource::Uniform, ThresholdSource::Responses] {
        let mut job = toy::job(&data, &facts);
        larger(&mut job, source);
        let expected = toy::quiet(&job).unwrap();
        for (tree, level) in [(0, 1), (0, 2), (0, 5), (1, 1), (1, 3), (1, 8)] {
            let _ = std::fs::remove_file(&path);
            let stop = AtomicBool::new(false);
            let observer = StopAt {
                stop: &stop,
                tree,
                level,
                slices: 0.into(),
            };
            let error = toy::with(&job, 8_000, Some(path.clone()), &observer, &stop, None);
            let text = error.unwrap_err().to_string();
            assert_eq!(text, format!("stopped at level {level} of tree {tree}"));
            assert!(observer.slices.into_inner() > 1 || level == 1);
            // The checkpoint is a forest by itself; before the first level there is none.
            let resume = path.exists().then(|| Forest::load(&path).unwrap());
            assert_eq!(resume.is_none(), (tree, level) == (0, 1));
            if let Some(part) = &resume {
                let progress = part.meta.progress.unwrap();
                assert_eq!(progress.trees, tree);
                assert!(level == 1 || progress.levels == level);
            }
            let stop = AtomicBool::new(false);
            let forest = toy::with(&job, 1 << 30, None, &Silent, &stop, resume).unwrap();
            assert!(forest == expected, "tree {tree}, level {level}");
        }
    }
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    let mut job = toy::job(&data, &facts);
    let mut part = toy::quiet(&job).unwrap();
    part.meta.progress = Some(roadloop::stage::forest::Progress {
        trees: 1,
        levels: 0,
    });
    job.recipe.samples += 1;
    let stop = AtomicBool::new(false);
    let error = toy::with(&job, 1 << 30, None, &Silent, &stop, Some(part.clone())).unwrap_err();
    assert!(error.to_string().contains("the recipe is"), "{error}");
    job.recipe.samples -= 1;
    // More trees than it says, or fewer.
    for n in [0, 3] {
        let mut bad = part.clone();
        bad.trees.resize(n, part.trees[0].clone());
        let error = toy::with(&job, 1 << 30, None, &Silent, &stop, Some(bad)).unwrap_err();
        assert!(
            error.to_string().contains("the number of trees is"),
            "{error}"
        );
    }
    part.meta.data_digest ^= 1;
    let error = toy::with(&job, 1 << 30, None, &Silent, &stop, Some(part)).unwrap_err();
    assert!(
        error.to_string().contains("the data's digest is"),
        "{error}"
    );
}

#[test]
fn void_is_never_counted() {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    let job = toy::job(&data, &facts);
    let forest = toy::quiet(&job).unwrap();
    let mut pixels = [0u64; 3];
    for (i, (w, h)) in toy::sizes().into_iter().enumerate() {
        for (x, y) in (0..h).flat_map(|y| (0..w).map(move |x| (x, y))) {
            match toy::label(i, x, y) {
                1 => pixels[0] += 1,
                4 => pixels[1] += 1,
                9 => pixels[2] += 1,
                _ => {}
            }
        }
    }
    assert_eq!(forest.meta.class_pixels, pixels);
    let names: Vec<&str> = forest
        .meta
        .classes
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!((names, forest.meta.void), (vec!["red", "blue", "flat"], 0));
    for tree in &forest.trees {
        // Every pixel that was drawn ends in one leaf.
        assert_eq!(tree.counts.iter().sum::<u32>(), 5 * job.recipe.samples);
    }
}

#[test]
fn stop_rules() {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    let of = |change: fn(&mut Recipe)| {
        let mut job = toy::job(&data, &facts);
        change(&mut job.recipe);
        toy::quiet(&job).unwrap()
    };
    assert_eq!(of(|r| r.depth = 1).trees[0].nodes.len(), 1);
    assert!(of(|r| r.depth = 4).trees.iter().all(|t| t.depth() == 4));
    assert_eq!(of(|r| r.min_pixels = 600).trees[0].nodes.len(), 1);
    assert!(of(|r| r.min_pixels = 599).trees[0].nodes.len() > 1);
    assert_eq!(of(|r| r.min_gain = 2.0).trees[0].nodes.len(), 1);
    let few = of(|r| r.min_gain = 0.1).trees[0].nodes.len();
    assert!(1 < few && few < of(|_| {}).trees[0].nodes.len());
    // Trees, seeds and bags differ.
    let forest = of(|_| {});
    assert_ne!(forest.trees[0], forest.trees[1]);
    assert_ne!(forest.trees[0], of(|r| r.seed = 1).trees[0]);
    let bag = of(|r| r.bag = 0.5);
    assert_eq!(bag.trees[0].counts.iter().sum::<u32>(), 3 * 120);
    // A leaf of one class is not split further.
    for tree in &of(|r| r.min_pixels = 1).trees {
        let mut pure = 0;
        for (node, counts) in tree
            .nodes
            .iter()
            .filter(|n| n.left == LEAF)
            .zip(tree.counts.chunks(3))
        {
            assert!(node.leaf_number().is_some());
            pure += u32::from(counts.iter().filter(|&&n| n > 0).count() == 1);
        }
        assert!(pure > 3);
    }
}

#[test]
fn sets_that_can_not_be_learnt_from_are_refused() {
    let tmp = toy::folder();
    let relabel = |f: &dyn Fn(u8) -> u8| {
        for (i, (w, h)) in toy::sizes().into_iter().enumerate() {
            let labels = roadloop::frame::Image::from_fn(w, h, |x, y| f(toy::label(i, x, y)));
            let path = tmp.path().join(format!("labels/p{i}.png"));
            roadloop::frame::png::write_grey(&path, &labels).unwrap();
        }
    };
    let refusal = |allow: bool| {
        let (data, facts) = toy::open(tmp.path());
        let mut job = toy::job(&data, &facts);
        job.allow_small_set = allow;
        toy::quiet(&job)
            .map(|f| f.trees.len())
            .map_err(|e| e.to_string())
    };
    relabel(&|l| if l == 0 { 0 } else { 4 });
    assert_eq!(
        refusal(true).unwrap_err(),
        "all labelled pixels are of one class, blue; expected two or more"
    );
    relabel(&|_| 0);
    assert_eq!(
        refusal(true).unwrap_err(),
        "no pixel has a label of a class"
    );
    relabel(&|l| if l == 9 { 0 } else { l });
    assert_eq!(
        refusal(false).unwrap_err(),
        "no pixel is of class flat; name it as void, or allow small sets"
    );
    assert_eq!(refusal(true), Ok(2));
    relabel(&|l| l);
    for i in 1..5 {
        for folder in ["images", "labels"] {
            std::fs::remove_file(tmp.path().join(format!("{folder}/p{i}.png"))).unwrap();
        }
    }
    let text = refusal(false).unwrap_err();
    assert!(
        text.starts_with("one image, expected two or more"),
        "{text}"
    );
    assert_eq!(refusal(true), Ok(2));
}

#[test]
fn options_are_checked() {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    type Change = fn(&mut Job<'_>);
    let cases: [(Change, &str); 7] = [
        (|j| j.recipe.depth = 32, "depth is 32, expected 1 to 31"),
        (|j| j.recipe.features = 0, "features is 0, expected 1 to"),
        (|j| j.recipe.bag = 0.0, "bag is 0, expected above 0 to 1"),
        (
            |j| j.recipe.class_weights = vec![1; 2],
            "2 class weights, expected one for each of 3",
        ),
        (|j| j.input.channels = 17, "17 channels, expected 1 to 16"),
        (
            |j| {
                j.feature = FeatureSpec::Region(Region {
                    region_px: 128,
                    ..Region::default()
                })
            },
            "region_px is 128, expected 1 to 127",
        ),
        (
            |j| {
                j.input = InputSpec {
                    channels: 2,
                    ..InputSpec::default()
                };
            },
            "a feature of 3 channels on images of 2",
        ),
    ];
    for (change, expected) in cases {
        let mut job = toy::job(&data, &facts);
        change(&mut job);
        match toy::quiet(&job).unwrap_err() {
            TrainError::Option(text) => assert!(text.contains(expected), "{text}"),
            other => panic!("{other}"),
        }
    }
}
