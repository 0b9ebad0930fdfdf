//! `roadloop check config|calib|drive FILE`: says what was understood of a file; `roadloop check
//! cameras` of the cameras that are there.
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use super::{Failure, failure::say, replay::configuration};
use crate::{
    calib,
    config::Preset,
    source::{
        self, Drive, DriveOptions,
        cameras::{self, CamerasError, listing},
    },
};

/// Validates a file, or the cameras, and prints what was understood.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// A configuration: prints all values that it gives, as a file
    Config {
        /// roadloop.toml
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// A calibration: cameras, baseline, rectification, field of view
    Calib {
        /// A calibration file, or the folder that holds one file a camera
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The right camera's file, where it is not found beside the left one
        #[arg(long, value_name = "FILE")]
        right: Option<PathBuf>,
    },
    /// The cameras: devices with their names, formats, sizes and rates, and whether those of a
    /// configuration can deliver what it asks of them
    Cameras {
        /// Configuration with [cameras]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// A drive: layout, frames, sizes, calibration, gaps to come
    Drive {
        /// Folder of the drive
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Configuration with [input], [source], [mono] and [camera]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Calibration; goes before the drive's own
        #[arg(long, value_name = "FILE")]
        calib: Option<PathBuf>,
        /// Folder of stored disparities
        #[arg(long, value_name = "DIR")]
        disparity: Option<PathBuf>,
    },
}

/// Prints to stdout.
///
/// # Errors
/// What is wrong with the file.
pub fn run(args: &Args) -> Result<(), Failure> {
    let text = match &args.what {
        What::Config { file } => configuration(Some(file), None)?.to_toml(),
        What::Calib { file, right } => calib::describe(file, right.as_deref())?,
        What::Cameras { config } => return check_cameras(config.as_deref()),
        What::Drive {
            dir,
            config,
            calib,
            disparity,
        } => {
            let config = configuration(config.as_deref(), None)?;
            let options = DriveOptions {
                input: config.input.clone(),
                source: config.source.clone(),
                mono: config.mono.clone(),
                calib: calib.clone(),
                disparity: disparity.clone(),
                camera: config.camera,
                frames: None,
                zero_is_measured: config.preset == Preset::Paper,
            };
            source::describe(&Drive::open(dir, &options)?)
        }
    };
    say(&text)
}

/// Prints what cameras there are, then what the configured ones can.
fn check_cameras(path: Option<&Path>) -> Result<(), Failure> {
    let devices = cameras::list().map_err(|e| {
        Failure::unavailable(format!(
            "check cameras: {e}; expected the package's build, or one with that feature"
        ))
    })?;
    let config = path
        .map(|path| configuration(Some(path), None))
        .transpose()?;
    let mut text = listing::describe(&devices);
    let Some((config, path)) = config.zip(path) else {
        return say(&text);
    };
    let of_file = |failure: Failure| failure.of(&path.display().to_string());
    let config = &config.cameras;
    if config.is_empty() {
        say(&text)?;
        return Err(of_file(CamerasError::NoCameras.into()));
    }
    let (mut unable, mut absent) = (None, None);
    text += "\n";
    for (name, verdict) in listing::judge(config, &devices) {
        let line = format!("camera {name}: {verdict}");
        text += &format!("{line}\n");
        match verdict {
            listing::Verdict::Unable(_) => unable = unable.or(Some(line)),
            listing::Verdict::Absent(_) => absent = absent.or(Some(line)),
            listing::Verdict::Able | listing::Verdict::Differs(_) => {}
        }
    }
    say(&text)?;
    let unable = unable.map(Failure::config);
    match unable.or(absent.map(Failure::unavailable)) {
        Some(failure) => Err(of_file(failure)),
        None => Ok(()),
    }
}
