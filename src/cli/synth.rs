//! `roadloop synth`: a synthetic drive as a folder.
use std::path::PathBuf;

use indicatif::ProgressBar;

use super::Failure;
use crate::frame::Size;
use crate::source::synth::{Motion, Options, SynthError, write};

/// Makes a synthetic drive with exact truth.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Folder to write to
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Number of frames, 0.1 s apart
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub frames: usize,
    /// Chooses houses, vehicles, weather and noise
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Image width, px; the focal length goes with it
    #[arg(long, value_name = "W", default_value_t = 1024)]
    pub width: usize,
    /// Image height, px
    #[arg(long, value_name = "H", default_value_t = 440)]
    pub height: usize,
    /// How the own vehicle moves; mixed waits at the kerb first, then drives
    #[arg(long, value_enum, default_value_t = Motion::Mixed)]
    pub motion: Motion,
    /// Replace a drive that is in DIR already
    #[arg(long)]
    pub force: bool,
}

impl Args {
    /// The drive that these arguments ask for.
    pub fn options(&self) -> Options {
        Options {
            frames: self.frames,
            seed: self.seed,
            size: Size::new(self.width, self.height),
            motion: self.motion,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When the arguments are out of range, the folder is not empty (without `--force`), or
/// something can't be written.
pub fn run(args: &Args) -> Result<(), SynthError> {
    let options = args.options();
    // Out-of-range options must not cost the drive that --force would replace.
    crate::source::synth::Street::new(&options)?;
    write::prepare(&args.out, args.force)?;
    // Drawn on a terminal only.
    let bar = ProgressBar::new(options.frames as u64).with_message("synth");
    let result = write::write_drive(&options, &args.out, &mut |done, _| {
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    result?;
    log::info!("{} frames in {}", options.frames, args.out.display());
    Ok(())
}

impl From<SynthError> for Failure {
    fn from(e: SynthError) -> Self {
        match e {
            SynthError::Io { .. } => Failure::internal(e),
            _ => Failure::usage(e),
        }
    }
}
