//! Small labelled sets that are made on the spot.
#![allow(dead_code)]
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use roadloop::{
    frame::{Image, png},
    stage::forest::{FeatureSpec, Forest, InputSpec, Norm, Recipe, Region},
    training::{
        Job, Local, Observer, Resources, Silent, TrainError,
        data::{DataOptions, Dataset, Facts},
        train,
    },
};
use tempfile::TempDir;

use super::columns::noise;

pub const CLASSES: &str =
    "index,name,r,g,b\n0,void,0,0,0\n1,red,255,0,0\n4,blue,0,0,255\n9,flat,9,9,9\n";

/// The label of a pixel: stripes of classes with void between them.
pub fn label(image: usize, x: usize, y: usize) -> u8 {
    match (x / 5 + y / 7 + image) % 5 {
        0 | 3 => 1,
        1 => 4,
        2 => 9,
        _ => 0,
    }
}

/// A colour that goes with the label, and noise.
pub fn colour(image: usize, x: usize, y: usize) -> [u8; 3] {
    let n = noise(x + 1000 * image, y);
    let v = |shift: u32, base: u64| (base + (n >> shift) % 90) as u8;
    match label(image, x, y) {
        1 => [v(0, 120), v(8, 30), v(16, 20)],
        4 => [v(0, 40), v(8, 60), v(16, 140)],
        9 => [v(0, 70), v(8, 70), v(16, 70)],
        _ => [v(0, 0), v(8, 0), v(16, 0)],
    }
}

pub fn sizes() -> [(usize, usize); 5] {
    [(24, 20), (31, 33), (40, 17), (24, 20), (1, 32)]
}

/// Writes images/, labels/ and classes.csv; sizes differ.
pub fn write(dir: &Path) {
    for folder in ["images", "labels"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    fs::write(dir.join("classes.csv"), CLASSES).unwrap();
    for (i, (w, h)) in sizes().into_iter().enumerate() {
        let image = Image::from_fn(w, h, |x, y| colour(i, x, y));
        let labels = Image::from_fn(w, h, |x, y| label(i, x, y));
        png::write_rgb(&dir.join(format!("images/p{i}.png")), &image).unwrap();
        png::write_grey(&dir.join(format!("labels/p{i}.png")), &labels).unwrap();
    }
}

pub fn folder() -> TempDir {
    let tmp = tempfile::tempdir().unwrap();
    write(tmp.path());
    tmp
}

pub fn open(dir: &Path) -> (Dataset, Vec<Facts>) {
    let options = DataOptions {
        folder: Some(dir.into()),
        ..DataOptions::default()
    };
    let data = Dataset::open(&options).unwrap();
    let facts = data.scan().unwrap();
    (data, facts)
}

pub fn feature() -> FeatureSpec {
    FeatureSpec::Region(Region {
        offset_px: 6,
        region_px: 3,
        norm: Norm::Mean,
        single_share: 100,
        row_share: 20,
        ..Region::default()
    })
}

pub fn recipe() -> Recipe {
    Recipe {
        trees: 2,
        depth: 7,
        samples: 120,
        features: 24,
        thresholds: 5,
        min_pixels: 6,
        ..Recipe::default()
    }
}

pub fn job<'a>(data: &'a Dataset, facts: &'a [Facts]) -> Job<'a> {
    Job {
        data,
        facts,
        feature: feature(),
        input: InputSpec::default(),
        recipe: recipe(),
        allow_small_set: false,
    }
}

pub fn quiet(job: &Job<'_>) -> Result<Forest, TrainError> {
    with(job, 1 << 30, None, &Silent, &AtomicBool::new(false), None)
}

pub fn with(
    job: &Job<'_>,
    memory_limit: u64,
    checkpoint: Option<PathBuf>,
    observer: &dyn Observer,
    stop: &AtomicBool,
    resume: Option<Forest>,
) -> Result<Forest, TrainError> {
    let resources = Resources {
        memory_limit,
        stop,
        checkpoint,
        observer,
        ranks: &Local,
    };
    train(job, &resources, resume)
}
