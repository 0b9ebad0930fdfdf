//! `roadloop forest test`.
use std::{
    collections::HashMap,
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;

use super::{DataArgs, Failure, with_threads};
use crate::{
    cli::failure::say,
    evaluate::labels::{Confusion, Report, Unmatched},
    frame::{Image, Size, png},
    stage::{
        Stage as _,
        forest::{Depth, Forest, Input, LeafOptions, Params, cpu::Plan},
    },
    training::{data::Dataset, samples::VOID},
};

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The forest
    pub model: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    /// Writes labels/, colours/ and confidence/ there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace pictures in a folder that is not empty
    #[arg(long, requires = "out")]
    force: bool,
    /// Judge one pixel in N x N, and give its label to the others
    #[arg(long, value_name = "N", default_value_t = 1)]
    step: u32,
    /// Use the first N trees only
    #[arg(long, value_name = "N")]
    trees: Option<NonZeroUsize>,
    /// Share of a leaf's pixels that is taken off each class, 0 to below 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    bias: f64,
    /// Weight classes by their share of the training images
    #[arg(long)]
    prior: bool,
    /// Added to every class of a leaf
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    alpha: f64,
    /// Weight classes by their share of the training images to the power of -P, 0 to 2: finds
    /// more of the seldom ones
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    balance: f64,
    /// Writes JSON in place of a table
    #[arg(long)]
    json: bool,
    /// Threads [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl Args {
    fn params(&self) -> Params {
        Params {
            step: self.step,
            leaves: LeafOptions {
                bias: self.bias,
                prior: self.prior,
                alpha: self.alpha,
                balance: self.balance,
            },
            ..Params::default()
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    args.params().validate().map_err(Failure::usage)?;
    if let Some(out) = &args.out {
        let used = fs::read_dir(out).is_ok_and(|mut dir| dir.next().is_some());
        if used && !args.force {
            let out = out.display();
            return Err(Failure::usage(format!(
                "{out} is not empty; --force replaces pictures"
            )));
        }
        for name in ["labels", "colours", "confidence"] {
            args.data.check_apart(&out.join(name))?;
        }
        for name in ["labels", "colours", "confidence"] {
            let dir = out.join(name);
            fs::create_dir_all(&dir)
                .map_err(|e| Failure::internal(format!("{}: {e}", dir.display())))?;
        }
    }
    let report = with_threads(args.threads, || work(args))??;
    if args.json {
        let json = serde_json::to_string_pretty(&report).map_err(Failure::internal)?;
        say(&(json + "\n"))
    } else {
        say(&report.to_string())
    }
}

fn work(args: &Args) -> Result<Report, Failure> {
    let mut forest = Forest::load(&args.model)?;
    if forest.meta.progress.is_some() {
        log::warn!("{}: an unfinished forest", args.model.display());
    }
    if let Some(n) = args.trees {
        forest.trees.truncate(n.into());
    }
    let mut options = args.data.options().map_err(Failure::usage)?;
    let known = |name: &str| forest.meta.classes.iter().any(|c| c.name == name);
    // What the forest does not know is not judged.
    let data = Dataset::open(&options)?;
    let names = data.classes().iter().map(|c| c.name.clone());
    let foreign: Vec<String> = names.filter(|name| !known(name)).collect();
    let data = if foreign.is_empty() {
        data
    } else {
        log::info!(
            "not judged, the forest does not know them: {}",
            foreign.join(", ")
        );
        options.void.extend(foreign);
        Dataset::open(&options)?
    };
    let params = args.params();
    // The forest's values to the data set's classes.
    let mut class_of = [VOID; 256];
    for class in &forest.meta.classes {
        let same = data.classes().iter().position(|c| c.name == class.name);
        class_of[usize::from(class.index)] = same.map_or(VOID, |c| c as u8);
    }
    let mut plans: HashMap<(usize, usize), Plan> = HashMap::new();
    let mut confusion = Confusion::new(data.classes());
    let bar = ProgressBar::new(data.items().len() as u64).with_message("test");
    let (mut took, mut pixels, mut fastest) = (Duration::ZERO, 0usize, f64::INFINITY);
    let facts = data.scan()?;
    data.check_input(&facts, &forest.meta.feature, &forest.meta.input)?;
    for (i, item) in data.items().iter().enumerate() {
        let raster = data.raster(i)?;
        let size = raster.pixels().size();
        let steps = forest.meta.input.depth_steps_per_m;
        let depth = data.depth(i, size, steps)?;
        let plan = match plans.entry((size.width, size.height)) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => {
                e.insert(Plan::new(&forest, &params, size, None).map_err(Failure::data)?)
            }
        };
        let mut output = plan.output();
        let start = Instant::now();
        let input = Input {
            pixels: raster.pixels(),
            depth: depth.as_ref().map_or(Depth::None, Depth::Steps),
        };
        plan.run(input, &mut output);
        let elapsed = start.elapsed();
        took += elapsed;
        pixels += size.area();
        fastest = fastest.min(elapsed.as_nanos() as f64 / size.area() as f64);
        let step = args.step as usize;
        let labels = enlarged(&output.labels, size, step);
        let confidence = enlarged(&output.confidence, size, step);
        let (w, h) = (size.width, size.height);
        let classes = Image::from_fn(w, h, |x, y| class_of[usize::from(labels.get(x, y))]);
        confusion.add(&item.name, &classes, &data.labels(i)?, Some(&confidence));
        if let Some(out) = &args.out {
            write(out, &item.name, &labels, &confidence, &forest)?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    log::info!(
        "{} trees, {:.1} ns a pixel, {fastest:.1} in the fastest image, on {} threads",
        forest.trees.len(),
        took.as_nanos() as f64 / pixels.max(1) as f64,
        rayon::current_num_threads()
    );
    Ok(confusion.report(Unmatched::default()))
}

/// Each cell of a grid as `step` x `step` pixels.
fn enlarged<T: Copy>(grid: &Image<T>, size: Size, step: usize) -> Image<T> {
    Image::from_fn(size.width, size.height, |x, y| grid.get(x / step, y / step))
}

fn write(
    out: &Path,
    name: &str,
    labels: &Image<u8>,
    confidence: &Image<u16>,
    forest: &Forest,
) -> Result<(), Failure> {
    let file = format!("{name}.png");
    let mut colours = [[0u8; 3]; 256];
    for class in &forest.meta.classes {
        colours[usize::from(class.index)] = class.colour;
    }
    let (w, h) = (labels.width(), labels.height());
    let colours = Image::from_fn(w, h, |x, y| colours[usize::from(labels.get(x, y))]);
    let failed = |path: PathBuf| move |e| Failure::internal(format!("{}: {e}", path.display()));
    let path = |folder: &str| out.join(folder).join(&file);
    png::write_grey(&path("labels"), labels).map_err(failed(path("labels")))?;
    png::write_rgb(&path("colours"), &colours).map_err(failed(path("colours")))?;
    png::write_grey16(&path("confidence"), confidence).map_err(failed(path("confidence")))
}
