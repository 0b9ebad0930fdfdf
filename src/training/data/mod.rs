//! Data sets: images with a class for each pixel, perhaps with depth.
//!
//! Labels are 8-bit pictures of class indices, or colour pictures; `classes.csv` (columns `index`
//! or `id`, `name`, `r`, `g`, `b`) says what they mean. Images are grey (8 or 16 bits) or RGB;
//! several folders of pictures of the same names make images of up to 16 channels. Sizes may
//! differ from image to image.
mod bmp;
mod classes;
mod layout;

use std::{
    io,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::Xxh3;

pub use classes::{CAMVID, ClassTable, MSRC2};

use super::samples::VOID;
use crate::{
    frame::{Camera, Image, Rgb, Size},
    picture::{Picture, PictureError},
    stage::forest::{Class, Colour, FeatureSpec, InputSpec, MAX_CHANNELS, Pixels},
};

/// Why a data set can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file or folder can't be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A picture is damaged.
    #[error("{}: {source}", path.display())]
    Picture {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: PictureError,
    },
    /// A file or folder is there and does not do.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What was found and what was expected.
        what: String,
    },
    /// A table or list has a wrong line.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// The options contradict each other or the data.
    #[error("{0}")]
    Option(String),
}

impl DataError {
    /// Whether something is there and no good, rather than not there.
    pub fn is_data(&self) -> bool {
        match self {
            Self::Io { source, .. } => crate::files::is_data(source),
            Self::Picture {
                source: PictureError::Io(source),
                ..
            } => crate::files::is_data(source),
            _ => true,
        }
    }

    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    fn content(path: &Path, what: impl Into<String>) -> Self {
        Self::Content {
            path: path.into(),
            what: what.into(),
        }
    }
}

/// Where a data set lies.
#[derive(Clone, Debug, Default)]
pub struct DataOptions {
    /// A folder of a known layout: `images` and `labels`; MSRC-v2's `Images` and `GroundTruth`;
    /// CamVid's `train` and `trainannot`; a synthetic drive.
    pub folder: Option<PathBuf>,
    /// Folders of pictures whose channels make an image, in place of the layout's.
    pub images: Vec<PathBuf>,
    /// The folder of labels, in place of the layout's.
    pub labels: Option<PathBuf>,
    /// The class table, in place of the layout's.
    pub classes: Option<PathBuf>,
    /// Depth: a folder of 16-bit pictures in the forest's steps, 0 = missing.
    pub depth: Option<PathBuf>,
    /// Depth from disparity: a folder of 16-bit pictures in 1/256 px, 0 = missing, and its camera.
    pub disparity: Option<(PathBuf, Camera)>,
    /// A list of the images to take, a name a line.
    pub list: Option<PathBuf>,
    /// Classes that count as void, by name, besides those called void or unlabelled.
    pub void: Vec<String>,
}

/// One image's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The name without extension.
    pub name: String,
    /// A file for each folder of images.
    pub images: Vec<PathBuf>,
    /// Its labels.
    pub labels: PathBuf,
    /// Its depth or disparity.
    pub depth: Option<PathBuf>,
}

/// A data set: what is read, and not yet the pixels.
#[derive(Clone, Debug)]
pub struct Dataset {
    items: Vec<Item>,
    classes: ClassTable,
    camera: Option<Camera>,
}

/// The pixels of an image.
#[derive(Clone, Debug)]
pub enum Raster {
    /// 8-bit grey.
    Grey(Image<u8>),
    /// 8-bit colour.
    Rgb(Rgb),
    /// Any other channels.
    Channels(Vec<Image<u16>>),
}

impl Raster {
    /// As the forest reads it.
    pub fn pixels(&self) -> Pixels<'_> {
        match self {
            Self::Grey(image) => Pixels::Grey(image),
            Self::Rgb(image) => Pixels::Rgb(image),
            Self::Channels(list) => Pixels::Channels(list),
        }
    }

    /// Channels; 1 of grey.
    pub fn channels(&self) -> usize {
        match self {
            Self::Grey(_) => 1,
            Self::Rgb(_) => 3,
            Self::Channels(list) => list.len(),
        }
    }
}

/// What is known of an image after it was read once.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Width and height.
    pub size: Size,
    /// Channels, 1 where it is grey.
    pub channels: usize,
    /// Bits of a sample.
    pub bits: u8,
    /// Names the image's content in random streams.
    pub key: u32,
    /// xxh3-64 of size, pixels, depth and classes.
    pub digest: u64,
    /// Pixels of each class.
    pub class_pixels: Vec<u64>,
}

impl Dataset {
    /// Lists a data set.
    ///
    /// # Errors
    /// When folders, lists or the class table can't be read, or an image has no labels.
    pub fn open(options: &DataOptions) -> Result<Self, DataError> {
        layout::open(options)
    }

    /// Its images.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// What labels mean.
    pub fn class_table(&self) -> &ClassTable {
        &self.classes
    }

    /// The classes that are learnt.
    pub fn classes(&self) -> &[Class] {
        self.classes.trained()
    }

    /// Whether there is depth for each image.
    pub fn has_depth(&self) -> bool {
        !self.items.is_empty() && self.items.iter().all(|i| i.depth.is_some())
    }

    /// The classes of an image's pixels, counted from 0; [`VOID`] where there is none.
    ///
    /// # Errors
    /// When the picture can't be read or has a value that the class table does not know.
    pub fn labels(&self, i: usize) -> Result<Image<u8>, DataError> {
        let path = &self.items[i].labels;
        layout::refuse_shallow(path)?;
        self.classes.decode(&read(path)?, path)
    }

    /// An image's pixels.
    ///
    /// # Errors
    /// When a picture can't be read, or sizes and channels do not fit together.
    pub fn raster(&self, i: usize) -> Result<Raster, DataError> {
        let paths = &self.items[i].images;
        if let [path] = paths.as_slice() {
            return Ok(match read(path)? {
                Picture::Grey8(image) => Raster::Grey(image),
                Picture::Rgb8(image) => Raster::Rgb(image),
                Picture::Grey16(image) => Raster::Channels(vec![image]),
            });
        }
        let mut list: Vec<Image<u16>> = Vec::new();
        for path in paths {
            let picture = read(path)?;
            let size = picture.size();
            let expected = list.first().map_or(size, Image::size);
            if size != expected {
                let what = format!("{size}, expected {expected} as the channels before it");
                return Err(DataError::content(path, what));
            }
            let (w, h) = (size.width, size.height);
            match picture {
                Picture::Grey16(image) => list.push(image),
                Picture::Grey8(p) => list.push(Image::from_fn(w, h, |x, y| p.get(x, y).into())),
                Picture::Rgb8(p) => {
                    for c in 0..3 {
                        list.push(Image::from_fn(w, h, |x, y| p.get(x, y)[c].into()));
                    }
                }
            }
            if list.len() > MAX_CHANNELS {
                let what = format!("more than {MAX_CHANNELS} channels with it");
                return Err(DataError::content(path, what));
            }
        }
        Ok(Raster::Channels(list))
    }

    /// An image's depth in steps, 0 = missing; `None` where there is none.
    ///
    /// # Errors
    /// When the picture can't be read or is of another size or kind.
    pub fn depth(
        &self,
        i: usize,
        size: Size,
        steps_per_m: u32,
    ) -> Result<Option<Image<u16>>, DataError> {
        let Some(path) = &self.items[i].depth else {
            return Ok(None);
        };
        let image = match read(path)? {
            Picture::Grey16(image) => image,
            other => {
                let what = format!("{}, expected 16-bit grey", other.kind());
                return Err(DataError::content(path, what));
            }
        };
        if image.size() != size {
            let what = format!("{}, expected {size} as the image", image.size());
            return Err(DataError::content(path, what));
        }
        Ok(Some(match &self.camera {
            None => image,
            Some(camera) => {
                let table = crate::stage::forest::cpu::depth_table(camera, steps_per_m);
                let invalid = |d| if d == 0 { crate::frame::INVALID } else { d };
                Image::from_fn(size.width, size.height, |x, y| {
                    table[usize::from(invalid(image.get(x, y)))]
                })
            }
        }))
    }

    /// Reads an image once, for what has to be known of it before it is used.
    ///
    /// # Errors
    /// As [`Dataset::labels`] and [`Dataset::raster`], and when their sizes differ.
    pub fn facts(&self, i: usize) -> Result<Facts, DataError> {
        let raster = self.raster(i)?;
        let size = raster.pixels().size();
        let labels = self.labels(i)?;
        if labels.size() != size {
            let what = format!("{}, expected {size} as the image", labels.size());
            return Err(DataError::content(&self.items[i].labels, what));
        }
        let mut hash = Xxh3::new();
        hash.update(&(size.width as u64).to_le_bytes());
        hash.update(&(size.height as u64).to_le_bytes());
        let mut bits = 8;
        match &raster {
            Raster::Grey(image) => image.rows().for_each(|row| hash.update(row)),
            Raster::Rgb(image) => image.rows().for_each(|row| hash.update(row.as_flattened())),
            Raster::Channels(list) => {
                // A channel of bytes is one of 8 bits whatever it was stored in.
                let deep = list.iter().any(|c| c.pixels().any(|&v| v > 255));
                bits = if deep || list.len() == 1 { 16 } else { 8 };
                for &v in list.iter().flat_map(Image::pixels) {
                    hash.update(&v.to_le_bytes());
                }
            }
        }
        let key = hash.digest() as u32;
        let steps = InputSpec::default().depth_steps_per_m;
        if let Some(depth) = self.depth(i, size, steps)? {
            for &v in depth.pixels() {
                hash.update(&v.to_le_bytes());
            }
        }
        let mut class_pixels = vec![0; self.classes().len()];
        for row in labels.rows() {
            hash.update(row);
            for &class in row {
                if class != VOID {
                    class_pixels[usize::from(class)] += 1;
                }
            }
        }
        Ok(Facts {
            size,
            channels: raster.channels(),
            bits,
            key,
            digest: hash.digest(),
            class_pixels,
        })
    }

    /// Reads all images once ([`Dataset::facts`]), in parallel.
    ///
    /// # Errors
    /// That of the first image that has one.
    pub fn scan(&self) -> Result<Vec<Facts>, DataError> {
        self.scan_part(0..self.items.len())
    }

    /// The same of some of them.
    pub(super) fn scan_part(&self, part: std::ops::Range<usize>) -> Result<Vec<Facts>, DataError> {
        use rayon::prelude::*;
        let all: Vec<_> = part.into_par_iter().map(|i| self.facts(i)).collect();
        all.into_iter().collect()
    }

    /// Checks that images can be read by a forest; grey ones stand for any number of channels.
    ///
    /// # Errors
    /// The first that can't.
    pub fn check_input(
        &self,
        facts: &[Facts],
        feature: &FeatureSpec,
        input: &InputSpec,
    ) -> Result<(), DataError> {
        let needs = feature.needs();
        let wanted = usize::from(input.channels);
        for (item, f) in self.items.iter().zip(facts) {
            let path = &item.images[0];
            if needs.colour && f.channels != wanted && (f.channels != 1 || f.bits != 8) {
                let what = format!("{} channels, expected {wanted}", f.channels);
                return Err(DataError::content(path, what));
            }
            if needs.colour && f.bits > input.bits {
                let what = format!("samples of {} bits, expected {}", f.bits, input.bits);
                return Err(DataError::content(path, what));
            }
            if needs.colour && input.colour == Colour::Lab && f.bits != 8 {
                let what = "16-bit samples, expected 8-bit grey or RGB for Lab";
                return Err(DataError::content(path, what));
            }
            if needs.depth && item.depth.is_none() {
                let what = "no depth for it, and the feature reads depth";
                return Err(DataError::content(path, what));
            }
            let side = crate::stage::forest::MAX_SIDE;
            if f.size.width > side || f.size.height > side {
                let what = format!("{}, expected up to {side} px a side", f.size);
                return Err(DataError::content(path, what));
            }
        }
        Ok(())
    }
}

/// Reads a picture of any kind that is known, BMP besides.
fn read(path: &Path) -> Result<Picture, DataError> {
    let error = |source| DataError::Picture {
        path: path.into(),
        source,
    };
    let is_bmp = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("bmp"));
    if is_bmp {
        let most = crate::picture::MAX_FILE;
        let bytes = crate::files::read(path, most).map_err(|e| error(e.into()))?;
        return bmp::decode(&bytes).map(Picture::Rgb8).map_err(error);
    }
    crate::picture::read(path).map_err(error)
}
