//! `roadloop forest train`.
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::{DataArgs, Failure, ranks::Ranks, with_threads};
#[cfg(feature = "cuda")]
use crate::training::cuda::Gpu;
use crate::{
    frame_loop::BackendChoice,
    stage::forest::{
        Colour, DepthDifference, FeatureSpec, Forest, InputSpec, Mapping, Norm, Recipe, Region,
        Rgbd, Sampling, ThresholdSource,
    },
    training::{
        Job, Observer, Resources, Silent, TrainError,
        data::{Dataset, Facts},
        reduce, train,
    },
};

/// The kinds of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Difference of two regions' colours
    #[default]
    Region,
    /// The same at a size that follows depth, and of depths
    Rgbd,
    /// Difference of two pixels' depths
    Depth,
}

/// What becomes of regions at the image's border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Border {
    /// The feature is invalid there, and the pixel goes right
    Invalid,
    /// The region is cut
    Shrink,
}

/// Where defaults come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// What does best on MSRC-v2's validation images: Lab, sums, some single regions, regions cut
    /// at the border, thresholds from responses
    #[default]
    Default,
    /// As the paper has it: RGB, means, pairs of regions, uniform thresholds
    Paper,
}

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// The forest to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace FILE
    #[arg(long)]
    force: bool,
    /// Go on where an interrupted training stopped (FILE.part)
    #[arg(long)]
    resume: bool,
    /// Where defaults come from
    #[arg(long, value_enum, default_value_t = Preset::Default)]
    preset: Preset,

    /// Feature
    #[arg(long, value_enum, default_value_t = Kind::Region, help_heading = "Feature")]
    feature: Kind,
    /// Colour space [default: lab for RGB, else raw]
    #[arg(long, value_enum, help_heading = "Feature")]
    colour: Option<Colour>,
    /// Mean or sum of a region's colours [default: sum]
    #[arg(long, value_enum, help_heading = "Feature")]
    norm: Option<Norm>,
    /// Largest offset, px (rgbd, depth: at the reference depth) [default: 95, 111, 60]
    #[arg(long, value_name = "PX", help_heading = "Feature")]
    offset: Option<i32>,
    /// Largest half side of a region, px (rgbd: at the reference depth) [default: 12, 3]
    #[arg(long, value_name = "PX", help_heading = "Feature")]
    region: Option<i32>,
    /// What becomes of regions at the image's border [default: shrink; paper: invalid]
    #[arg(long, value_enum, help_heading = "Feature")]
    border: Option<Border>,
    /// Candidates in 256 that are single regions [default: 64; paper: 0]
    #[arg(long, value_name = "N", help_heading = "Feature")]
    single_share: Option<u32>,
    /// Candidates in 256 that are the pixel's row
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Feature")]
    row_share: u32,
    /// rgbd: candidates in 256 that compare depths
    #[arg(
        long,
        value_name = "N",
        default_value_t = 128,
        help_heading = "Feature"
    )]
    depth_share: u32,
    /// Reference depth, steps [default: rgbd 1000, depth 500]
    #[arg(long, value_name = "STEPS", help_heading = "Feature")]
    reference: Option<i32>,
    /// Steps of depth in a metre
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        help_heading = "Feature"
    )]
    depth_steps: u32,
    /// Fill missing depth from neighbours
    #[arg(long, help_heading = "Feature")]
    fill_depth: bool,
    /// depth: background, steps
    #[arg(
        long,
        value_name = "STEPS",
        default_value_t = 10_000,
        help_heading = "Feature"
    )]
    background: i32,
    /// depth: two offsets, in place of one
    #[arg(long, help_heading = "Feature")]
    two_offsets: bool,
    /// Uniform thresholds to +-N: of 0-255, of Lab, or times pixels with sums; depth: steps
    /// [default: 152, rgbd 267, sums 20000, depth 200]
    #[arg(long, value_name = "N", help_heading = "Feature")]
    range: Option<f64>,
    /// rgbd: uniform thresholds of depths to +-N steps
    #[arg(
        long,
        value_name = "N",
        default_value_t = 267.0,
        help_heading = "Feature"
    )]
    depth_range: f64,

    /// Trees
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Training")]
    trees: u32,
    /// Most levels of a tree
    #[arg(
        long,
        value_name = "D",
        default_value_t = 20,
        help_heading = "Training"
    )]
    depth_levels: u32,
    /// Pixels of an image, for a tree
    #[arg(
        long,
        value_name = "S",
        default_value_t = 512,
        help_heading = "Training"
    )]
    samples: u32,
    /// Candidates of a node
    #[arg(
        long,
        value_name = "F",
        default_value_t = 512,
        help_heading = "Training"
    )]
    features: u32,
    /// Thresholds of a candidate
    #[arg(
        long,
        value_name = "T",
        default_value_t = 20,
        help_heading = "Training"
    )]
    thresholds: u32,
    /// Where thresholds come from [default: responses; paper: uniform]
    #[arg(long, value_enum, help_heading = "Training")]
    threshold_source: Option<ThresholdSource>,
    /// Nodes of so many pixels or fewer are leaves
    #[arg(
        long,
        value_name = "M",
        default_value_t = 38,
        help_heading = "Training"
    )]
    min_pixels: u32,
    /// Least gain of a split, bits a pixel
    #[arg(
        long,
        value_name = "G",
        default_value_t = 0.0,
        help_heading = "Training"
    )]
    min_gain: f64,
    /// Changes every random choice
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 0,
        help_heading = "Training"
    )]
    seed: u64,
    /// How random words become parameters
    #[arg(long, value_enum, default_value_t = Mapping::Exact, help_heading = "Training")]
    mapping: Mapping,
    /// How pixels are drawn
    #[arg(long, value_enum, default_value_t = Sampling::Uniform, help_heading = "Training")]
    sampling: Sampling,
    /// Share of the images that a tree sees
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 1.0,
        help_heading = "Training"
    )]
    bag: f64,
    /// Use every image mirrored besides
    #[arg(long, help_heading = "Training")]
    flip: bool,
    /// Weight of a class in gain and leaves, NAME=W; balance^P for its share to the power of -P,
    /// balance for P 1
    #[arg(
        long,
        value_name = "NAME=W",
        value_delimiter = ',',
        help_heading = "Training"
    )]
    weight: Vec<String>,
    /// Take sets of one image, and classes without a pixel
    #[arg(long, help_heading = "Training")]
    allow_small_set: bool,

    /// Where it is trained; decides nothing but time
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    backend: BackendChoice,
    /// Memory for histograms and images, in MiB; decides nothing but time
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    memory_limit: u64,
    /// The same of a GPU's memory [default: three quarters of what is free]
    #[arg(long, value_name = "MIB")]
    device_memory_limit: Option<u64>,
    /// Memory of a GPU for images, within its limit, in MiB [default: three eighths of it]
    #[arg(long, value_name = "MIB")]
    device_image_limit: Option<u64>,
    /// Threads [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl Args {
    /// The feature and what it reads, for images of so many channels and bits.
    fn feature(&self, channels: u8, bits: u8) -> Result<(FeatureSpec, InputSpec), String> {
        let paper = self.preset == Preset::Paper;
        let can_lab = channels == 3 && bits == 8 && self.feature != Kind::Depth;
        let colour = self.colour.unwrap_or(match can_lab && !paper {
            true => Colour::Lab,
            false => Colour::Raw,
        });
        let norm = self
            .norm
            .unwrap_or(if paper { Norm::Mean } else { Norm::Sum });
        let border = self.border.unwrap_or(match paper {
            true => Border::Invalid,
            false => Border::Shrink,
        });
        let shrink = border == Border::Shrink;
        // No more of them than the other shares leave room for.
        let others = self.row_share.saturating_add(match self.feature {
            Kind::Rgbd => self.depth_share,
            _ => 0,
        });
        let usual = if paper { 0 } else { 64 };
        let single_share = self
            .single_share
            .unwrap_or(256u32.saturating_sub(others).min(usual));
        let input = InputSpec {
            colour,
            channels,
            bits,
            depth_steps_per_m: self.depth_steps,
            fill_depth: self.fill_depth,
        };
        // From units of the user to those of responses.
        let one = match colour {
            Colour::Lab => f64::from(crate::stage::forest::colour::LAB_ONE),
            Colour::Raw => 1.0,
        };
        let unit = match norm {
            Norm::Mean => 256.0 * one,
            Norm::Sum => one,
        };
        let fixed = |name: &str, v: f64| -> Result<i32, String> {
            let scaled = v.round();
            if (0.0..=f64::from(i32::MAX - 1)).contains(&scaled) {
                Ok(scaled as i32)
            } else {
                Err(format!(
                    "{name} is too large or negative: {scaled} in units of responses"
                ))
            }
        };
        let usual = |mean: f64| if norm == Norm::Sum { 20_000.0 } else { mean };
        let symmetric = |default: f64| -> Result<(i32, i32), String> {
            let limit = fixed("--range", self.range.unwrap_or(default) * unit)?;
            Ok((-limit, limit))
        };
        // Single regions of raw channels are above 0; a and b of Lab are not.
        let single = |(low, high): (i32, i32)| match colour {
            Colour::Raw => (0, high),
            Colour::Lab => (low, high),
        };
        let feature = match self.feature {
            Kind::Region => {
                let thresholds = symmetric(usual(152.0))?;
                FeatureSpec::Region(Region {
                    channels,
                    offset_px: self.offset.unwrap_or(95),
                    region_px: self.region.unwrap_or(12),
                    norm,
                    shrink,
                    single_share,
                    row_share: self.row_share,
                    thresholds,
                    single_thresholds: single(thresholds),
                })
            }
            Kind::Rgbd => {
                let thresholds = symmetric(usual(267.0))?;
                let depth = fixed("--depth-range", self.depth_range * 256.0)?;
                FeatureSpec::Rgbd(Rgbd {
                    channels,
                    offset_px: self.offset.unwrap_or(111),
                    region_px: self.region.unwrap_or(3),
                    reference: self.reference.unwrap_or(1000),
                    norm,
                    shrink,
                    depth_share: self.depth_share,
                    single_share,
                    row_share: self.row_share,
                    thresholds,
                    single_thresholds: single(thresholds),
                    depth_thresholds: (-depth, depth),
                })
            }
            Kind::Depth => {
                let limit = fixed("--range", self.range.unwrap_or(200.0))?;
                FeatureSpec::Depth(DepthDifference {
                    offset_px: self.offset.unwrap_or(60),
                    reference: self.reference.unwrap_or(500),
                    background: self.background,
                    one_offset: !self.two_offsets,
                    thresholds: (-limit, limit),
                })
            }
        };
        Ok((feature, input))
    }

    fn recipe(&self, data: &Dataset, facts: &[Facts]) -> Result<Recipe, String> {
        let source = match self.preset {
            Preset::Paper => ThresholdSource::Uniform,
            Preset::Default => ThresholdSource::Responses,
        };
        Ok(Recipe {
            trees: self.trees,
            depth: self.depth_levels,
            samples: self.samples,
            features: self.features,
            thresholds: self.thresholds,
            min_pixels: self.min_pixels,
            min_gain: self.min_gain,
            seed: self.seed,
            mapping: self.mapping,
            sampling: self.sampling,
            threshold_source: self.threshold_source.unwrap_or(source),
            bag: self.bag,
            flip: self.flip,
            class_weights: self.weights(data, facts)?,
        })
    }

    /// Weights in 1/256; none where all are alike.
    fn weights(&self, data: &Dataset, facts: &[Facts]) -> Result<Vec<u32>, String> {
        let classes = data.classes();
        if self.weight.is_empty() {
            return Ok(Vec::new());
        }
        let mut weights = vec![256u32; classes.len()];
        for text in &self.weight {
            if let Some(power) = balance(text)? {
                let pixels = |c: usize| facts.iter().map(|f| f.class_pixels[c]).sum::<u64>();
                let all: u64 = (0..classes.len()).map(pixels).sum();
                for (c, weight) in weights.iter_mut().enumerate() {
                    let mean = all as f64 / classes.len() as f64;
                    let w = 256.0 * libm::pow(mean / pixels(c).max(1) as f64, power);
                    *weight = w.round().clamp(1.0, 65_535.0) as u32;
                }
                continue;
            }
            let wrong = || format!("--weight {text}, expected NAME=W with W of 1/256 to 255");
            let (name, value) = text.split_once('=').ok_or_else(wrong)?;
            let value: f64 = value.parse().map_err(|_| wrong())?;
            let fixed = (value * 256.0).round();
            if !(1.0..=65_535.0).contains(&fixed) {
                return Err(wrong());
            }
            let class = classes
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(name));
            let class =
                class.ok_or_else(|| format!("--weight {text}: no class is called {name}"))?;
            weights[class] = fixed as u32;
        }
        Ok(weights)
    }
}

/// The power of `balance` or `balance^P`; `None`: something else.
fn balance(text: &str) -> Result<Option<f64>, String> {
    let power = match text.strip_prefix("balance") {
        Some("") => return Ok(Some(1.0)),
        Some(rest) => rest.strip_prefix('^'),
        None => None,
    };
    let Some(power) = power else {
        return Ok(None);
    };
    match power.parse() {
        Ok(p) if (0.0..=2.0).contains(&p) => Ok(Some(p)),
        _ => Err(format!(
            "--weight {text}, expected balance^P with P of 0 to 2"
        )),
    }
}

/// Progress on a terminal, a line a level in the log.
struct Bar {
    bar: ProgressBar,
    start: Instant,
}

impl Observer for Bar {
    fn level_begins(&self, tree: u32, level: u32, nodes: usize, slices: usize, responses: u64) {
        self.bar.reset();
        self.bar.set_length(responses);
        self.bar
            .set_message(format!("tree {tree} level {level}, {nodes} nodes"));
        log::debug!(
            "{:.2} s: tree {tree} level {level}: {nodes} nodes in {slices} slices, {} responses",
            self.start.elapsed().as_secs_f64(),
            HumanCount(responses)
        );
    }

    fn responses(&self, n: u64) {
        self.bar.inc(n);
    }

    fn tree_ends(&self, tree: u32, nodes: usize) {
        self.bar.suspend(|| {
            log::info!(
                "tree {tree}: {nodes} nodes, {:.1} s since the start",
                self.start.elapsed().as_secs_f64()
            );
        });
    }
}

pub(super) fn run(
    args: &Args,
    stop_flag: impl FnOnce() -> Result<Arc<AtomicBool>, Failure>,
) -> Result<(), Failure> {
    let mut name = args.out.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = args.out.with_file_name(name);
    if let Some(folder) = crate::files::missing_folder(&args.out) {
        return Err(Failure::usage(format!(
            "--out {}: {} is no folder",
            args.out.display(),
            folder.display()
        )));
    }
    if std::fs::metadata(&args.out).is_ok_and(|m| !m.is_file()) {
        return Err(Failure::usage(format!(
            "--out {}: not a file, which alone --force would replace",
            args.out.display()
        )));
    }
    if !args.force && crate::files::present(&args.out) {
        let out = args.out.display();
        return Err(Failure::usage(format!("{out} exists; --force replaces it")));
    }
    // A forest may lie beside its data; none of theirs is replaced.
    if crate::files::present(&args.out) && Forest::load(&args.out).is_err() {
        args.data.check_apart(&args.out)?;
    }
    if !args.force && !args.resume && crate::files::present(&part) {
        return Err(Failure::usage(format!(
            "{} is of an interrupted training; --resume goes on with it, --force replaces it",
            part.display()
        )));
    }
    let stop = stop_flag()?;
    let ranks = Ranks::start(&stop)?;
    let trained = with_threads(args.threads, || work(args, &part, &stop, &ranks));
    let forest = match trained.and_then(|trained| trained) {
        Ok(forest) => forest,
        // All ranks have stopped at the same place.
        Err(failure) if failure.status == STOPPED => return Err(failure),
        Err(failure) => return Err(ranks.fail(failure)),
    };
    if ranks.reducer().rank() == 0 {
        forest
            .save(&args.out)
            .map_err(|e| ranks.fail(Failure::internal(e)))?;
        let _ = std::fs::remove_file(&part);
        log::info!("{} written", args.out.display());
    }
    Ok(())
}

/// A GPU where there is none in this build.
#[cfg(not(feature = "cuda"))]
enum Gpu {}

/// Trains on what `--backend` asks for: a GPU, or (without one) the processor.
#[cfg(not(feature = "cuda"))]
fn on<R>(args: &Args, train: impl FnOnce(Option<&Gpu>) -> R) -> Result<R, Failure> {
    if args.backend == BackendChoice::Cuda {
        return Err(Failure::unavailable(
            "--backend cuda: this build has no CUDA backend (feature \"cuda\"); use --backend cpu",
        ));
    }
    Ok(train(None))
}

/// The same; of several ranks on a machine each takes the next GPU.
#[cfg(feature = "cuda")]
fn on<R>(args: &Args, train: impl FnOnce(Option<&Gpu>) -> R) -> Result<R, Failure> {
    use crate::cuda::{Context, ContextOptions, DeviceInfo, Wait};
    if args.backend == BackendChoice::Cpu {
        return Ok(train(None));
    }
    let open = || {
        let devices = DeviceInfo::all()?.len().max(1);
        let options = ContextOptions {
            device: (super::ranks::on_this_machine() % devices) as u32,
            wait: Wait::Yield,
            sms: None,
            device_limit: u64::MAX,
            pinned_limit: u64::MAX,
        };
        let context = Context::new(&options)?;
        let limit = args.device_memory_limit.map(|n| n.saturating_mul(1 << 20));
        let mut gpu = Gpu::new(&context, limit)?;
        if let Some(n) = args.device_image_limit {
            gpu = gpu.with_image_limit(n.saturating_mul(1 << 20));
        }
        log::info!(
            "on {}, {} MiB of its memory",
            context.device(),
            gpu.memory_limit() >> 20
        );
        Ok(gpu)
    };
    match open() {
        Ok(gpu) => Ok(train(Some(&gpu))),
        Err(e)
            if args.backend == BackendChoice::Auto && crate::cuda::GpuError::is_no_device(&e) =>
        {
            log::info!("no GPU to train on: {e}");
            Ok(train(None))
        }
        Err(e) => Err(Failure::gpu(&e)),
    }
}

/// As a shell has it for what Ctrl-C ended.
const STOPPED: u8 = 130;

fn work(
    args: &Args,
    part: &std::path::Path,
    stop: &AtomicBool,
    ranks: &Ranks,
) -> Result<Forest, Failure> {
    let ranks = ranks.reducer();
    let first = ranks.rank() == 0;
    let options = args.data.options().map_err(Failure::usage)?;
    let data = Dataset::open(&options)?;
    let start = Instant::now();
    let facts = reduce::scan(&data, ranks)?;
    let channels = facts.iter().map(|f| f.channels).max().unwrap_or(1) as u8;
    let bits = facts.iter().map(|f| f.bits).max().unwrap_or(8);
    let grey = facts.iter().filter(|f| f.channels == 1).count();
    if first && channels > 1 && grey > 0 {
        log::warn!("{grey} grey images: their channel stands for all {channels}");
    }
    let (feature, input) = args.feature(channels, bits).map_err(Failure::usage)?;
    let recipe = args.recipe(&data, &facts).map_err(Failure::usage)?;
    if first {
        log::info!(
            "{} images of {} channels, {} classes, read in {:.1} s on {} ranks",
            facts.len(),
            channels,
            data.classes().len(),
            start.elapsed().as_secs_f64(),
            ranks.ranks()
        );
    }
    let job = Job {
        data: &data,
        facts: &facts,
        feature,
        input,
        recipe,
        allow_small_set: args.allow_small_set,
    };
    let style = "{msg} {wide_bar} {percent}% {eta}";
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    let observer = Bar {
        bar,
        start: Instant::now(),
    };
    let resources = Resources {
        memory_limit: args.memory_limit.saturating_mul(1 << 20),
        stop,
        checkpoint: Some(part.into()),
        observer: if first { &observer } else { &Silent },
        ranks,
    };
    let resume = match args.resume && crate::files::present(part) {
        true => Some(Forest::load(part)?),
        false => {
            if args.resume && first {
                log::warn!("{} is not there: training begins anew", part.display());
            }
            None
        }
    };
    let trained = on(args, |gpu| match gpu {
        #[cfg(feature = "cuda")]
        Some(gpu) => crate::training::cuda::train(&job, &resources, resume, gpu),
        _ => train(&job, &resources, resume),
    })?;
    observer.bar.finish_and_clear();
    trained.map_err(|e| match e {
        TrainError::Stopped { .. } => Failure {
            status: STOPPED,
            message: match crate::files::present(part) {
                true => format!("{e}; --resume goes on from {}", part.display()),
                false => format!("{e}; no level was done yet"),
            },
        },
        e => e.into(),
    })
}
