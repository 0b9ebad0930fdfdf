//! `roadloop demo`: everything once, from nothing.
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use super::{
    Failure,
    failure::say,
    replay::{self, BackendChoice},
    report, synth,
};
use crate::{
    frame_loop::Pace,
    sink::{Save, SaveSet},
    source::synth::Motion,
};

/// A synthetic drive, replayed, with pictures and a report.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder for the drive, the results and the report
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub out: PathBuf,
    /// Number of frames
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub frames: usize,
    /// Chooses the street
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Replace an earlier demo in DIR
    #[arg(long)]
    pub force: bool,
}

/// Makes the drive, replays it and writes the report.
///
/// # Errors
/// As `synth`, `replay` and `report`.
pub fn run(
    args: &Args,
    stop_flag: impl FnOnce() -> Result<Arc<AtomicBool>, Failure>,
) -> Result<(), Failure> {
    let [drive, results] = ["drive", "results"].map(|name| args.out.join(name));
    log::info!("making a synthetic street of {} frames", args.frames);
    synth::run(&synth::Args {
        out: drive.clone(),
        frames: args.frames,
        seed: args.seed,
        width: 1024,
        height: 440,
        motion: Motion::Mixed,
        force: args.force,
    })?;
    log::info!("replaying it");
    // From here on Ctrl-C ends in good order; until here it just ends.
    let stop = stop_flag()?;
    replay::run(
        &replay::Args {
            record: None,
            drive: drive.clone(),
            out: results.clone(),
            config: None,
            calib: None,
            disparity: None,
            backend: BackendChoice::Auto,
            preset: None,
            frames: None,
            pace: Pace::Max,
            threads: None,
            strict: true,
            save: SaveSet::NONE.with(Save::Overlay).with(Save::Disparity),
            force: args.force,
            decide_anew: false,
            street_forest: true,
        },
        &stop,
    )?;
    let page = args.out.join("report.html");
    report::run(&report::Args {
        results: results.clone(),
        out: page.clone(),
        pictures: 4,
    })?;
    say(&format!(
        "pictures: {}\nreport: {}\ntruth: {}\n",
        results.join("overlay").display(),
        page.display(),
        drive.join("truth").display()
    ))
}
