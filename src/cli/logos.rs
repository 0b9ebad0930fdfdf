//! `roadloop logos build`: pictures of logos to a file of templates.
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::{Failure, failure::say, replay::configuration};
use crate::{
    files,
    sink::check_apart,
    stage::logo::{BuildOptions, Templates, TemplatesError},
};

/// Makes the templates that the logo stage looks for.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// From a folder of pictures, NAME.png each; transparency is respected
    Build {
        /// Folder of the pictures
        #[arg(value_name = "PICTURES")]
        pictures: PathBuf,
        /// The file to write; `[logo] templates` names it
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Configuration with [logo.features]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Builds, writes, and says what was found.
///
/// # Errors
/// What is wrong with a picture, and when the file can't be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let What::Build {
        pictures,
        out,
        config,
    } = &args.what;
    let config = configuration(config.as_deref(), None)?;
    check_apart(out, &[pictures.as_path()], &[])?;
    if let Some(folder) = files::missing_folder(out) {
        return Err(Failure::usage(format!(
            "--out {}: {} is no folder",
            out.display(),
            folder.display()
        )));
    }
    // Templates are made anew from their pictures; nothing else is replaced.
    if files::present(out) && Templates::read(out).is_err() {
        return Err(Failure::usage(format!(
            "--out {}: it is there and holds no templates; expected a new file, or templates to replace",
            out.display()
        )));
    }
    let built = Templates::build(pictures, &config.logo.features, &BuildOptions::default())?;
    built
        .write(out)
        .map_err(|e| Failure::internal(format!("--out: {e}")))?;
    let mut text = String::new();
    for template in built.list() {
        let (name, size, points) = (template.name(), template.size(), template.points().len());
        text += &format!("logo {name}: {size} px, {points} keypoints\n");
    }
    say(&format!("{text}templates: {}\n", out.display()))
}

impl From<TemplatesError> for Failure {
    fn from(e: TemplatesError) -> Self {
        match &e {
            TemplatesError::Io { source, .. } if !files::is_data(source) => Failure::no_input(e),
            TemplatesError::Empty { .. } => Failure::no_input(e),
            _ => Failure::data(e),
        }
    }
}
