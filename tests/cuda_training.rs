//! Does the GPU grow the CPU's trees, byte for byte, whatever memory, batches and interruptions?
//!
//! Where there is a C++ compiler the same tests run a second time on an emulated device
//! (tests/emulator): the kernels' own text on the processor.
#[path = "common/columns.rs"]
mod columns;
#[path = "common/gpu.rs"]
mod gpu;
#[path = "common/ranks.rs"]
mod ranks;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use columns::noise;
use roadloop::{
    cuda::{Context, ContextOptions},
    frame::{Image, png},
    stage::forest::{
        Colour, DepthDifference, FeatureSpec, Forest, InputSpec, Mapping, Norm, Recipe, Region,
        Rgbd, Sampling, ThresholdSource,
    },
    training::{
        Job, Local, Observer, Reducer, Resources, Silent, Traffic, TrainError,
        cuda::{Gpu, train},
        data::{DataOptions, Dataset, Facts},
    },
};

gpu_tests![
    small_training,
    every_feature_and_option,
    channels_and_bits,
    thresholds_and_classes,
    neither_memory_nor_batches_change_a_tree,
    kept_responses_split_as_histograms_do,
    what_was_stopped_and_resumed_is_the_same_forest,
    several_ranks_grow_the_trees_of_one,
    larger_sets;
    always: the_same_on_an_emulated_device
];

/// Set in the process that has the emulated device.
const EMULATED: &str = "ROADLOOP_EMULATED_DEVICE";

const SIZES: [(usize, usize); 6] = [(24, 20), (31, 33), (40, 17), (24, 20), (1, 32), (65, 31)];

/// A set that is made on the spot: images of so many channels, depth with holes.
struct Set {
    tmp: tempfile::TempDir,
    data: Dataset,
    facts: Vec<Facts>,
    input: InputSpec,
}

/// What a pixel is of.
fn class(image: usize, x: usize, y: usize, classes: usize) -> u8 {
    let cell = noise(x / 5 + 100 * image, y / 7) as usize;
    // The rest is void.
    (cell % (classes + 1)) as u8
}

fn sample(image: usize, (x, y): (usize, usize), c: usize, classes: usize, most: u64) -> u64 {
    let class = u64::from(class(image, x, y, classes));
    let n = noise(x + 1000 * image, y + 5000 * c);
    (class * (c as u64 + 3) * most / 40 + n % (most / 3)) % (most + 1)
}

impl Set {
    fn new(sizes: &[(usize, usize)], channels: usize, bits: u8, classes: usize) -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let dir = |name: &str| {
            let dir = tmp.path().join(name);
            fs::create_dir_all(&dir).unwrap();
            dir
        };
        let most = if bits == 8 { 255 } else { 65_535 };
        let (labels, depth) = (dir("labels"), dir("depth"));
        let rgb = channels == 3 && bits == 8;
        let folders: Vec<PathBuf> = (0..if rgb { 1 } else { channels })
            .map(|c| dir(&format!("images{c}")))
            .collect();
        for (i, &(w, h)) in sizes.iter().enumerate() {
            let name = format!("p{i:03}.png");
            let at = |x, y, c| sample(i, (x, y), c, classes, most);
            let image = Image::from_fn(w, h, |x, y| class(i, x, y, classes));
            png::write_grey(&labels.join(&name), &image).unwrap();
            let image = Image::from_fn(w, h, |x, y| match noise(x, y + 7 * i) % 6 {
                0 => 0,
                n => (300 + 150 * u64::from(class(i, x, y, classes)) + 20 * n) as u16,
            });
            png::write_grey16(&depth.join(&name), &image).unwrap();
            for (c, folder) in folders.iter().enumerate() {
                let path = folder.join(&name);
                if rgb {
                    let image = Image::from_fn(w, h, |x, y| [0, 1, 2].map(|c| at(x, y, c) as u8));
                    png::write_rgb(&path, &image).unwrap();
                } else if bits == 8 {
                    let image = Image::from_fn(w, h, |x, y| at(x, y, c) as u8);
                    png::write_grey(&path, &image).unwrap();
                } else {
                    let image = Image::from_fn(w, h, |x, y| at(x, y, c) as u16);
                    png::write_grey16(&path, &image).unwrap();
                }
            }
        }
        let mut table = String::from("index,name,r,g,b\n0,void,0,0,0\n");
        for c in 1..=classes {
            table += &format!("{c},class{c},{c},0,1\n");
        }
        let csv = tmp.path().join("classes.csv");
        fs::write(&csv, table).unwrap();
        let options = DataOptions {
            images: folders,
            labels: Some(labels),
            classes: Some(csv),
            depth: Some(depth),
            ..DataOptions::default()
        };
        let data = Dataset::open(&options).unwrap();
        let facts = data.scan().unwrap();
        let input = InputSpec {
            channels: channels as u8,
            bits,
            ..InputSpec::default()
        };
        Self {
            tmp,
            data,
            facts,
            input,
        }
    }

    fn small() -> Self {
        Self::new(&SIZES, 3, 8, 3)
    }

    fn job(&self, feature: FeatureSpec) -> Job<'_> {
        Job {
            data: &self.data,
            facts: &self.facts,
            feature,
            input: self.input,
            recipe: recipe(),
            allow_small_set: true,
        }
    }
}

fn recipe() -> Recipe {
    Recipe {
        trees: 2,
        depth: 7,
        samples: 100,
        features: 40,
        thresholds: 5,
        min_pixels: 6,
        ..Recipe::default()
    }
}

fn region(channels: u8) -> FeatureSpec {
    FeatureSpec::Region(Region {
        channels,
        offset_px: 6,
        region_px: 3,
        single_share: 100,
        row_share: 20,
        ..Region::default()
    })
}

fn rgbd() -> FeatureSpec {
    FeatureSpec::Rgbd(Rgbd {
        offset_px: 6,
        region_px: 3,
        reference: 500,
        depth_share: 120,
        single_share: 40,
        row_share: 20,
        ..Rgbd::default()
    })
}

fn depth(one_offset: bool) -> FeatureSpec {
    FeatureSpec::Depth(DepthDifference {
        offset_px: 8,
        one_offset,
        thresholds: (-600, 600),
        ..DepthDifference::default()
    })
}

/// Where training runs and what it may take there.
struct Where<'a> {
    host: u64,
    device: u64,
    /// Of it, for images.
    images: u64,
    observer: &'a dyn Observer,
    stop: &'a AtomicBool,
    checkpoint: Option<PathBuf>,
    ranks: &'a dyn Reducer,
}

const PLENTY: u64 = 1 << 28;

/// One for all trainings of a thread: making a context takes longer than most of them.
fn context() -> Context {
    thread_local! {
        static CONTEXT: Context = Context::new(&ContextOptions::default()).unwrap();
    }
    CONTEXT.with(Context::clone)
}

fn on_gpu(job: &Job<'_>, at: Where<'_>, resume: Option<Forest>) -> Result<Forest, TrainError> {
    let context = context();
    let gpu = Gpu::new(&context, Some(at.device))
        .unwrap()
        .with_image_limit(at.images);
    let resources = Resources {
        memory_limit: at.host,
        stop: at.stop,
        checkpoint: at.checkpoint,
        observer: at.observer,
        ranks: at.ranks,
    };
    let trained = train(job, &resources, resume, &gpu);
    context.take_error().unwrap();
    trained
}

fn limited(job: &Job<'_>, host: u64, device: u64, observer: &dyn Observer) -> Forest {
    with_limits(job, (host, device, PLENTY), observer)
}

fn with_limits(
    job: &Job<'_>,
    (host, device, images): (u64, u64, u64),
    observer: &dyn Observer,
) -> Forest {
    let stop = AtomicBool::new(false);
    let at = Where {
        host,
        device,
        images,
        observer,
        stop: &stop,
        checkpoint: None,
        ranks: &Local,
    };
    on_gpu(job, at, None).unwrap()
}

fn on_cpu(job: &Job<'_>) -> Forest {
    let resources = Resources {
        memory_limit: PLENTY,
        stop: &AtomicBool::new(false),
        checkpoint: None,
        observer: &Silent,
        ranks: &Local,
    };
    roadloop::training::train(job, &resources, None).unwrap()
}

/// The first difference, so that a failure says where to look.
fn same(found: &Forest, expected: &Forest, what: &str) {
    for (t, (a, b)) in found.trees.iter().zip(&expected.trees).enumerate() {
        for (i, (a, b)) in a.nodes.iter().zip(&b.nodes).enumerate() {
            assert_eq!(a, b, "{what}: tree {t}, node {i}");
        }
        assert_eq!(a.nodes.len(), b.nodes.len(), "{what}: nodes of tree {t}");
        assert!(a.counts == b.counts, "{what}: counts of tree {t}");
    }
    assert!(found == expected, "{what}");
}

fn check(job: &Job<'_>, what: &str) {
    let expected = on_cpu(job);
    assert_eq!(expected.validate(), Ok(()));
    let nodes: usize = expected.trees.iter().map(|t| t.nodes.len()).sum();
    assert!(nodes > 10, "{what}: {nodes} nodes");
    same(&limited(job, PLENTY, PLENTY, &Silent), &expected, what);
    // Images pass by, and responses are kept where histograms are many.
    let forest = with_limits(job, (PLENTY, 60_000, 0), &Silent);
    same(&forest, &expected, &format!("{what}, little memory"));
}

const SOURCES: [ThresholdSource; 2] = [ThresholdSource::Uniform, ThresholdSource::Responses];

/// Every kernel, small enough for the sanitizers.
fn small_training() {
    let set = Set::small();
    for feature in [region(3), rgbd(), depth(true)] {
        for source in SOURCES {
            let mut job = set.job(feature);
            job.recipe.threshold_source = source;
            job.recipe.trees = 1;
            job.recipe.depth = 4;
            job.recipe.samples = 60;
            check(&job, &format!("{} {source:?}", feature.name()));
        }
    }
}

fn every_feature_and_option() {
    let set = Set::small();
    type Change = fn(&mut Job<'_>);
    let changes: [(&str, Change); 12] = [
        ("plain", |_| {}),
        ("flip", |job| job.recipe.flip = true),
        ("bag", |job| job.recipe.bag = 0.5),
        ("weights", |job| {
            job.recipe.class_weights = vec![40, 256, 65_535]
        }),
        ("balanced, a seed", |job| {
            job.recipe.sampling = Sampling::Balanced;
            job.recipe.seed = 77;
        }),
        ("the paper's mapping", |job| {
            job.recipe.mapping = Mapping::Padenti
        }),
        ("Lab", |job| job.input.colour = Colour::Lab),
        ("filled depth", |job| job.input.fill_depth = true),
        ("sums", |job| match &mut job.feature {
            FeatureSpec::Region(f) => {
                (f.norm, f.shrink, f.thresholds) = (Norm::Sum, true, (-9000, 9000))
            }
            FeatureSpec::Rgbd(f) => {
                (f.norm, f.shrink, f.thresholds) = (Norm::Sum, true, (-9000, 9000))
            }
            FeatureSpec::Depth(f) => f.one_offset = false,
        }),
        ("33 candidates", |job| job.recipe.features = 33),
        ("1 candidate", |job| {
            job.recipe.features = 1;
            job.recipe.depth = 12;
        }),
        ("a least gain", |job| job.recipe.min_gain = 0.05),
    ];
    for feature in [region(3), rgbd(), depth(true)] {
        for source in SOURCES {
            for (what, change) in changes {
                let mut job = set.job(feature);
                job.recipe.threshold_source = source;
                job.recipe.depth = 5;
                change(&mut job);
                check(&job, &format!("{} {source:?} {what}", feature.name()));
            }
        }
    }
}

fn channels_and_bits() {
    for (channels, bits) in [(1, 8), (2, 8), (3, 16), (5, 8), (16, 8), (16, 16), (1, 16)] {
        let set = Set::new(&SIZES, channels, bits, 4);
        let mut job = set.job(region(channels as u8));
        job.recipe.threshold_source = ThresholdSource::Responses;
        check(&job, &format!("{channels} channels of {bits} bits"));
        let mut feature = rgbd();
        if let FeatureSpec::Rgbd(f) = &mut feature {
            f.channels = channels as u8;
            f.norm = Norm::Sum;
        }
        check(
            &set.job(feature),
            &format!("{channels} channels of {bits} bits and depth"),
        );
    }
}

fn thresholds_and_classes() {
    let set = Set::small();
    for thresholds in [1, 2, 31, 32, 33, 64, 65, 300] {
        for source in SOURCES {
            let mut job = set.job(region(3));
            job.recipe.thresholds = thresholds;
            job.recipe.threshold_source = source;
            job.recipe.features = 10;
            check(&job, &format!("{thresholds} thresholds {source:?}"));
        }
    }
    // Few responses are equal where ranges are narrow; the first as drawn counts.
    let mut job = set.job(depth(true));
    if let FeatureSpec::Depth(f) = &mut job.feature {
        f.thresholds = (-3, 3);
    }
    job.recipe.thresholds = 40;
    check(&job, "equal thresholds");
    for classes in [2, 40, 250] {
        let set = Set::new(&[(65, 77), (120, 60), (33, 90)], 3, 8, classes);
        for thresholds in [6, 20] {
            let mut job = set.job(region(3));
            job.recipe.samples = 1500;
            job.recipe.features = 12;
            job.recipe.thresholds = thresholds;
            check(&job, &format!("{classes} classes, {thresholds} thresholds"));
        }
    }
}

/// What memory asked for: most slices of a level, passes of the images, and bytes that were kept.
#[derive(Default)]
struct Seen {
    slices: AtomicUsize,
    levels: AtomicU64,
    passes: AtomicU64,
    kept: AtomicU64,
}

impl Observer for Seen {
    fn level_begins(&self, _: u32, _: u32, _: usize, slices: usize, _: u64) {
        self.slices.fetch_max(slices, Ordering::Relaxed);
        self.levels.fetch_add(1, Ordering::Relaxed);
    }

    fn traffic(&self, traffic: &Traffic) {
        self.passes.fetch_add(traffic.passes, Ordering::Relaxed);
        self.kept.fetch_add(traffic.kept, Ordering::Relaxed);
    }
}

fn neither_memory_nor_batches_change_a_tree() {
    let set = Set::small();
    for feature in [region(3), rgbd(), depth(false)] {
        for source in SOURCES {
            let mut job = set.job(feature);
            job.recipe.threshold_source = source;
            job.recipe.flip = true;
            job.recipe.trees = 1;
            // An image, a node and a candidate at a time.
            job.recipe.depth = 4;
            job.recipe.features = 6;
            let forest = limited(&job, 0, 0, &Silent);
            same(
                &forest,
                &on_cpu(&job),
                &format!("{} {source:?}", feature.name()),
            );
            // Read anew or kept on the host, up to all at once.
            job.recipe.features = 40;
            job.recipe.depth = 8;
            job.recipe.min_pixels = 2;
            let expected = on_cpu(&job);
            for (host, device) in [
                (0, 200_000),
                (PLENTY, 200_000),
                (0, 1 << 20),
                (PLENTY, 1 << 20),
                (0, PLENTY),
            ] {
                let seen = Seen::default();
                let forest = limited(&job, host, device, &seen);
                let what = format!("{} {source:?}, {host} and {device} bytes", feature.name());
                same(&forest, &expected, &what);
                let (slices, kept) = (seen.slices.into_inner(), seen.kept.into_inner());
                assert!(slices > 1 || device > 200_000, "{what}: {slices} slices");
                // Depth images stay on the device.
                let passing = !matches!(job.feature, FeatureSpec::Depth(_));
                let keeps = passing && host == PLENTY && device == 200_000;
                assert_eq!(kept > 0, keeps, "{what}: {kept} bytes kept");
            }
            // Images pass by, one or a few at a time, and histograms are whole.
            for (host, images) in [(0, 0), (PLENTY, 0), (0, 60_000), (PLENTY, 60_000)] {
                let seen = Seen::default();
                let forest = with_limits(&job, (host, PLENTY, images), &seen);
                let what = format!("{} {source:?}, images in {images} bytes", feature.name());
                same(&forest, &expected, &what);
                assert_eq!(seen.slices.into_inner(), 1, "{what}");
            }
        }
    }
}

/// Responses of a level are kept in the host's memory: a pass of the images for each part of the
/// candidates, whatever the number of slices that histograms would take.
fn kept_responses_split_as_histograms_do() {
    let set = Set::small();
    for feature in [region(3), rgbd(), depth(true)] {
        for source in SOURCES {
            let mut job = set.job(feature);
            job.recipe.threshold_source = source;
            job.recipe.trees = 1;
            job.recipe.features = 130;
            job.recipe.thresholds = 9;
            job.recipe.min_pixels = 2;
            job.recipe.class_weights = vec![3, 1, 2];
            let expected = on_cpu(&job);
            let mut last = u64::MAX;
            for device in [30_000, 60_000, 400_000] {
                let seen = Seen::default();
                let forest = with_limits(&job, (PLENTY, device, 0), &seen);
                let what = format!("{} {source:?}, {device} bytes", feature.name());
                same(&forest, &expected, &what);
                let (passes, levels) = (seen.passes.into_inner(), seen.levels.into_inner());
                let kept = seen.kept.into_inner();
                assert!(kept > 0 || device == 400_000, "{what}: nothing was kept");
                assert!(passes <= last, "{what}: {passes} passes, {last} with less");
                last = passes;
                if device == 400_000 {
                    // Once a level, and for responses a second time where histograms are whole.
                    let most = levels * if source == SOURCES[0] { 1 } else { 2 };
                    assert!(passes <= most, "{what}: {passes} passes, {levels} levels");
                }
            }
        }
    }
}

/// Stops when a level begins.
struct StopAt<'a> {
    stop: &'a AtomicBool,
    tree: u32,
    level: u32,
}

impl Observer for StopAt<'_> {
    fn level_begins(&self, tree: u32, level: u32, _: usize, _: usize, _: u64) {
        if (tree, level) == (self.tree, self.level) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn what_was_stopped_and_resumed_is_the_same_forest() {
    let set = Set::small();
    let path = set.tmp.path().join("f.part");
    for source in SOURCES {
        let mut job = set.job(region(3));
        job.recipe.threshold_source = source;
        let expected = on_cpu(&job);
        for (tree, level) in [(0, 1), (0, 3), (1, 1), (1, 5)] {
            let _ = fs::remove_file(&path);
            let stop = AtomicBool::new(false);
            let observer = StopAt {
                stop: &stop,
                tree,
                level,
            };
            let at = Where {
                host: PLENTY,
                device: 300_000,
                images: PLENTY,
                observer: &observer,
                stop: &stop,
                checkpoint: Some(path.clone()),
                ranks: &Local,
            };
            let text = on_gpu(&job, at, None).unwrap_err().to_string();
            assert_eq!(text, format!("stopped at level {level} of tree {tree}"));
            let resume = path.exists().then(|| Forest::load(&path).unwrap());
            // It goes on anywhere.
            let stop = AtomicBool::new(false);
            let resources = Resources {
                memory_limit: PLENTY,
                stop: &stop,
                checkpoint: None,
                observer: &Silent,
                ranks: &Local,
            };
            let there = roadloop::training::train(&job, &resources, resume.clone()).unwrap();
            same(&there, &expected, "resumed on the CPU");
            let at = Where {
                host: PLENTY,
                device: PLENTY,
                images: PLENTY,
                observer: &Silent,
                stop: &stop,
                checkpoint: None,
                ranks: &Local,
            };
            let here = on_gpu(&job, at, resume).unwrap();
            same(&here, &expected, &format!("tree {tree}, level {level}"));
        }
    }
}

fn several_ranks_grow_the_trees_of_one() {
    let set = Set::small();
    for source in SOURCES {
        let mut job = set.job(rgbd());
        job.recipe.threshold_source = source;
        let expected = on_cpu(&job);
        for n in [2, 3] {
            let board = ranks::Board::new(n);
            let forests: Vec<Forest> = std::thread::scope(|scope| {
                let start = |rank| {
                    let (job, board) = (&job, &board);
                    scope.spawn(move || {
                        let stop = AtomicBool::new(false);
                        let at = Where {
                            host: PLENTY,
                            // The least of all decides.
                            device: if rank == 0 { 400_000 } else { PLENTY },
                            images: PLENTY,
                            observer: &Silent,
                            stop: &stop,
                            checkpoint: None,
                            ranks: &ranks::Rank {
                                rank,
                                ranks: n,
                                board,
                            },
                        };
                        on_gpu(job, at, None).unwrap()
                    })
                };
                let threads: Vec<_> = (0..n).map(start).collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            for forest in &forests {
                same(forest, &expected, &format!("{n} ranks, {source:?}"));
            }
        }
    }
}

/// Sizes at which nodes are counted in parts and side by side. Too much for an emulation.
fn larger_sets() {
    if std::env::var_os(EMULATED).is_some() {
        return;
    }
    let sizes: Vec<(usize, usize)> = (0..12).map(|i| (320 - i % 3, 213 + 27 * (i % 2))).collect();
    let set = Set::new(&sizes, 3, 8, 21);
    for (feature, source) in [
        (region(3), ThresholdSource::Uniform),
        (region(3), ThresholdSource::Responses),
        (rgbd(), ThresholdSource::Uniform),
        (depth(true), ThresholdSource::Responses),
    ] {
        let mut job = set.job(feature);
        job.recipe = Recipe {
            trees: 1,
            depth: 10,
            samples: 1400,
            features: 40,
            threshold_source: source,
            ..Recipe::default()
        };
        let expected = on_cpu(&job);
        for limits in [
            (PLENTY, 1 << 30, PLENTY),
            (PLENTY, 1 << 30, 3 << 20),
            (PLENTY, 3 << 20, PLENTY),
            (0, 3 << 20, PLENTY),
        ] {
            let forest = with_limits(&job, limits, &Silent);
            same(
                &forest,
                &expected,
                &format!("{} {limits:?}", feature.name()),
            );
        }
    }
}

/// Builds the driver that runs kernels on the processor, if there is a compiler.
fn emulator(dir: &Path) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var_os("CXX").unwrap_or("c++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        return None;
    }
    for name in [
        "training.cu",
        "training.cuh",
        "training_kept.cuh",
        "forest.cuh",
        "common.cuh",
    ] {
        let text = fs::read_to_string(root.join("kernels").join(name)).ok()?;
        let text = text.replace(
            "extern __shared__ std::uint32_t shared[];",
            "std::uint32_t *const shared = EMULATED_SHARED;",
        );
        fs::write(dir.join(name), text).unwrap();
    }
    let library = dir.join("libcuda.so.1");
    let built = Command::new(&compiler)
        .args([
            "-std=c++17",
            "-O2",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
            // Threads of a block change stacks by longjmp, which the checked one takes for damage.
            "-U_FORTIFY_SOURCE",
        ])
        .args(["-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-I"])
        .arg(dir)
        .arg(root.join("tests/emulator/driver.cpp"))
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");
    Some(library)
}

fn the_same_on_an_emulated_device() {
    if std::env::var_os(EMULATED).is_some() {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let Some(_) = emulator(tmp.path()) else {
        println!("no C++ compiler or no kernels here: nothing is emulated");
        return;
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .env("LD_LIBRARY_PATH", tmp.path())
        .env(EMULATED, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("GPU: emulated") && text.contains("0 skipped"),
        "{text}\n{errors}"
    );
    the_command_is_stopped_and_resumed(tmp.path());
}

/// `roadloop forest train --backend cuda` on the emulated device, stopped by Ctrl-C.
fn the_command_is_stopped_and_resumed(driver: &Path) {
    let set = Set::small();
    let (data, out) = (set.tmp.path(), set.tmp.path().join("f.forest"));
    let part = set.tmp.path().join("f.forest.part");
    let command = |backend: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roadloop"));
        let (images, labels) = (data.join("images0"), data.join("labels"));
        command
            .args(["forest", "train", "--backend", backend, "--out"])
            .arg(&out)
            .arg("--images")
            .arg(images)
            .arg("--labels")
            .arg(labels)
            .arg("--classes")
            .arg(data.join("classes.csv"))
            .args(["--trees", "20", "--samples", "60", "--features", "20"])
            .args([
                "--thresholds",
                "5",
                "--depth-levels",
                "6",
                "--min-pixels",
                "6",
            ])
            .args(["--device-image-limit", "0"])
            .args(more)
            .env("LD_LIBRARY_PATH", driver)
            .env("RUST_LOG", "info")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped());
        command
    };
    let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let cpu = command("cpu", &[]).output().unwrap();
    assert!(cpu.status.success(), "{}", text(&cpu));
    let expected = fs::read(&out).unwrap();
    fs::remove_file(&out).unwrap();
    let mut child = command("cuda", &[]).spawn().unwrap();
    while !part.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &id]).status().unwrap();
    let stopped = child.wait_with_output().unwrap();
    let said = text(&stopped);
    assert!(killed.success(), "{said}");
    assert_eq!(stopped.status.code(), Some(130), "{said}");
    let hint = format!("--resume goes on from {}", part.display());
    assert!(
        said.contains("on emulated") && said.contains(&hint),
        "{said}"
    );
    assert!(!out.exists());
    let resumed = command("cuda", &["--resume"]).output().unwrap();
    assert!(resumed.status.success(), "{}", text(&resumed));
    assert!(fs::read(&out).unwrap() == expected && !part.exists());
}
