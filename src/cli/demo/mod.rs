//! `roadloop demo`: everything once, from nothing.
mod page;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use super::{
    Failure, bench,
    failure::say,
    replay::{self, BackendChoice},
    report, synth,
};
use crate::{
    bench::page as latency_page,
    config::Config,
    files,
    frame::Size,
    frame_loop::Pace,
    sink::{
        Save, SaveSet,
        overlay::tour::Tour,
        summary::{Summary, write_atomically},
    },
    source::synth::Motion,
    stage::{
        forest::STREET,
        logo::{BuildOptions, Templates},
    },
};

/// A synthetic drive, replayed, with pictures of all results and reports.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder for the drive, the results and the pages
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub out: PathBuf,
    /// Number of frames, 4 or more
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = parse_frames)]
    pub frames: usize,
    /// Chooses the street
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Size of the images
    #[arg(long, value_name = "WxH", default_value = "1024x440", value_parser = bench::parse_size)]
    pub size: Size,
    /// Measure the loop for about so long, s
    #[arg(long, value_name = "S", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Replace an earlier demo in DIR
    #[arg(long)]
    pub force: bool,
}

/// The configuration's first line: by it an earlier demo's is known.
const MADE: &str = "# Made by roadloop demo.";

/// Beside the stereo chain: what moves while the vehicle stands, logos, labels.
const CONFIGURATION: &str = "
[foreground]
enabled = true
warm_up_frames = 6     # the vehicle stands for a short time only

[logo]
templates = \"logos.bin\"

[forest]
model = \"street.forest\"
step = 2               # every second pixel in x and y

[frame_loop]
deadline_us = 2000000  # whatever the machine: nothing is skipped
";

/// Makes the drive and what its stages need, replays it, measures the loop and writes the pages.
///
/// # Errors
/// As `synth`, `replay`, `bench latency` and `report`.
pub fn run(
    args: &Args,
    stop_flag: impl FnOnce() -> Result<Arc<AtomicBool>, Failure>,
) -> Result<(), Failure> {
    let [drive, results, config] =
        ["drive", "results", "roadloop.toml"].map(|name| args.out.join(name));
    let [index, still, moving, replayed, latency] = [
        "index.html",
        "tour.png",
        "tour.apng",
        "report.html",
        "latency.html",
    ]
    .map(|name| args.out.join(name));
    let others = ["logos.bin", "street.forest"].map(|name| args.out.join(name));
    let pages = [&index, &still, &moving, &replayed, &latency];
    check_ours(&config, pages.into_iter().chain(&others), args.force)?;
    log::info!("making a synthetic street of {} frames", args.frames);
    synth::run(&synth::Args {
        out: drive.clone(),
        frames: args.frames,
        seed: args.seed,
        width: args.size.width,
        height: args.size.height,
        motion: Motion::Mixed,
        force: args.force,
    })?;
    prepare(&args.out, &drive, &config)?;
    log::info!("replaying it");
    // From here on Ctrl-C ends in good order; until here it just ends.
    let stop = stop_flag()?;
    let mut tour = Tour::default();
    let summary = replay::shown(
        &replay::Args {
            record: None,
            drive: drive.clone(),
            out: results.clone(),
            config: Some(config.clone()),
            calib: None,
            disparity: None,
            backend: BackendChoice::Auto,
            preset: None,
            frames: None,
            pace: Pace::Max,
            threads: None,
            strict: true,
            save: [
                Save::Overlay,
                Save::Disparity,
                Save::Foreground,
                Save::Labels,
            ]
            .into_iter()
            .fold(SaveSet::NONE, SaveSet::with),
            force: args.force,
            decide_anew: false,
        },
        Some(&mut tour),
        &stop,
    )?;
    let shown = tour.write(&still, &moving)?;
    report::run(&report::Args {
        results: results.clone(),
        out: replayed.clone(),
        pictures: 4,
    })?;
    let measured = bench::measured(&latency_of(args, &summary, &drive, &config), &stop)?;
    write_atomically(&latency, latency_page::html(&measured).as_bytes())?;
    let page = page::html(&summary, shown, &measured);
    write_atomically(&index, page.as_bytes())?;
    say(&format!(
        "pictures: {}\nreport: {}\nlatency: {}\ntruth: {}\ntour: {}\n",
        results.join("overlay").display(),
        replayed.display(),
        latency.display(),
        drive.join("truth").display(),
        index.display()
    ))
}

/// The loop is measured on these frames, going round.
fn parse_frames(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| n >= 4)
        .ok_or_else(|| "expected 4 or more".into())
}

/// What is not an earlier demo's is never replaced: its configuration tells one.
fn check_ours<'a>(
    config: &Path,
    others: impl IntoIterator<Item = &'a PathBuf>,
    force: bool,
) -> Result<(), Failure> {
    if !files::present(config) {
        return match others.into_iter().find(|path| files::present(path)) {
            Some(path) => Err(Failure::usage(format!(
                "{}: it is no earlier demo's, expected another --out",
                path.display()
            ))),
            None => Ok(()),
        };
    }
    let text = files::read(config, files::MAX_LIST).unwrap_or_default();
    if force && text.starts_with(MADE.as_bytes()) {
        return Ok(());
    }
    let config = config.display();
    Err(Failure::usage(if text.starts_with(MADE.as_bytes()) {
        format!("{config}: an earlier demo's, expected --force to replace it, or another --out")
    } else {
        format!("{config}: it is no earlier demo's, expected another --out")
    }))
}

/// The logos' templates, the forest, and the configuration that names them.
fn prepare(out: &Path, drive: &Path, config: &Path) -> Result<(), Failure> {
    // First: it says whose the others are.
    write_atomically(config, format!("{MADE}\n{CONFIGURATION}").as_bytes())?;
    let templates = Templates::build(
        &drive.join("logos"),
        &Config::default().logo.features,
        &BuildOptions::default(),
    )?;
    templates.write(&out.join("logos.bin"))?;
    write_atomically(&out.join("street.forest"), STREET)?;
    Ok(())
}

/// The loop at a rate that this machine keeps up with.
fn latency_of(args: &Args, summary: &Summary, drive: &Path, config: &Path) -> bench::LatencyArgs {
    let frame_s = (summary.frame.duration.p50_us / 1e6).max(1e-4);
    let rate = (0.6 / frame_s).clamp(0.5, 30.0);
    bench::LatencyArgs {
        config: Some(config.to_path_buf()),
        drive: Some(drive.to_path_buf()),
        size: None,
        rate,
        frames: ((f64::from(args.seconds) * rate) as usize).max(4),
        seconds: None,
        warm_up: 2,
        backend: BackendChoice::Auto,
        sms: None,
        threads: None,
        contend: false,
        json: false,
        report: None,
    }
}
