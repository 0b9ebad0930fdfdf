//! Which data set.
use std::path::{Path, PathBuf};

use crate::{cli::Failure, frame::Camera, sink::check_apart, training::data::DataOptions};

/// Arguments that say where a data set lies.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DataArgs {
    /// A data set: a folder with images and labels, MSRC-v2's Images and GroundTruth, CamVid's
    /// train and trainannot, or a synthetic drive
    pub data: Option<PathBuf>,
    /// Pictures, in place of the data set's; several folders give the channels of an image
    #[arg(long, value_name = "DIR")]
    pub images: Vec<PathBuf>,
    /// Label pictures, in place of the data set's
    #[arg(long, value_name = "DIR")]
    pub labels: Option<PathBuf>,
    /// Class table (index, name, r, g, b), in place of the data set's
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,
    /// Depth: 16-bit pictures in steps (--depth-steps in a metre), 0 = missing
    #[arg(long, value_name = "DIR")]
    pub depth: Option<PathBuf>,
    /// Depth from disparity: 16-bit pictures in 1/256 px, 0 = missing
    #[arg(long, value_name = "DIR", requires_all = ["focal_px", "baseline_m"])]
    pub disparity: Option<PathBuf>,
    /// Focal length of the disparities' camera, px
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub focal_px: Option<f64>,
    /// Base line of the disparities' camera, m
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub baseline_m: Option<f64>,
    /// Names of the images to take, one a line
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Classes that count as void, besides the one called so
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub void: Vec<String>,
}

impl DataArgs {
    /// Refuses a place for results that is, holds or lies in a folder of pictures that are read.
    pub(super) fn check_apart(&self, out: &Path) -> Result<(), Failure> {
        let mut folders: Vec<PathBuf> = [&self.labels, &self.depth, &self.disparity]
            .into_iter()
            .flatten()
            .chain(&self.images)
            .cloned()
            .collect();
        if let Some(data) = &self.data {
            folders.extend(["images", "labels"].map(|name| data.join(name)));
        }
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        Ok(check_apart(out, &folders, &[])?)
    }

    /// As the data set has them.
    pub(super) fn options(&self) -> Result<DataOptions, String> {
        let camera = Camera {
            focal_px: self.focal_px.unwrap_or(1.0),
            cx: 0.0,
            cy: 0.0,
            baseline_m: self.baseline_m.unwrap_or(1.0),
        };
        for (name, found, range) in [
            ("--focal-px", camera.focal_px, Camera::FOCAL_PX),
            ("--baseline-m", camera.baseline_m, Camera::BASELINE_M),
        ] {
            if !range.contains(&found) {
                return Err(format!(
                    "{name} is {found}, expected {} to {}",
                    range.start(),
                    range.end()
                ));
            }
        }
        Ok(DataOptions {
            folder: self.data.clone(),
            images: self.images.clone(),
            labels: self.labels.clone(),
            classes: self.classes.clone(),
            depth: self.depth.clone(),
            disparity: self.disparity.clone().map(|dir| (dir, camera)),
            list: self.list.clone(),
            void: self.void.clone(),
        })
    }
}
