//! Which files make a data set.
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{CAMVID, ClassTable, DataError, DataOptions, Dataset, Item, MSRC2};
use crate::files;

const EXTENSIONS: [&str; 8] = ["png", "jpg", "jpeg", "ppm", "pgm", "pnm", "bmp", "dib"];

/// What a label's name may have beyond its image's.
const SUFFIXES: [&str; 4] = ["", "_GT", "_L", "_label"];

/// Folders, and the class table that goes with them.
struct Layout {
    images: Vec<PathBuf>,
    labels: PathBuf,
    classes: Table,
}

enum Table {
    File(PathBuf),
    BuiltIn(&'static [(&'static str, [u8; 3])], &'static str),
    None,
}

pub(super) fn open(options: &DataOptions) -> Result<Dataset, DataError> {
    let layout = layout(options)?;
    let classes = match (&options.classes, &layout.classes) {
        (Some(path), _) | (None, Table::File(path)) => ClassTable::read(path, &options.void)?,
        (None, Table::BuiltIn(list, name)) => ClassTable::built_in(list, name, &options.void)?,
        (None, Table::None) => {
            return Err(DataError::content(
                &layout.labels,
                "no classes.csv there nor in the folder above, and none given",
            ));
        }
    };
    let folders: Vec<_> = layout
        .images
        .iter()
        .map(|dir| pictures(dir))
        .collect::<Result<_, _>>()?;
    let labels = pictures(&layout.labels)?;
    let (depth_dir, camera) = match (&options.depth, &options.disparity) {
        (Some(_), Some(_)) => {
            return Err(DataError::Option(
                "depth and disparity at once; expected one of them".into(),
            ));
        }
        (Some(dir), None) => (Some(dir), None),
        (None, Some((dir, camera))) => (Some(dir), Some(*camera)),
        (None, None) => (None, None),
    };
    let depth = depth_dir.map(|dir| pictures(dir)).transpose()?;
    let first = &folders[0];
    let names: Vec<String> = match &options.list {
        None => first.keys().cloned().collect(),
        Some(list) => read_list(list, first, &layout.images[0])?,
    };
    if names.is_empty() {
        let what = format!("no pictures ({})", EXTENSIONS.join(", "));
        return Err(DataError::content(&layout.images[0], what));
    }
    let mut items = Vec::with_capacity(names.len());
    let mut missing: Vec<String> = Vec::new();
    for name in names {
        let found = SUFFIXES
            .iter()
            .find_map(|s| labels.get(&format!("{name}{s}")));
        let Some(label) = found else {
            missing.push(name);
            continue;
        };
        let mut images = Vec::new();
        for (folder, dir) in folders.iter().zip(&layout.images) {
            let file = folder.get(&name).ok_or_else(|| {
                DataError::content(
                    dir,
                    format!("no picture called {name}, whose other channels are there"),
                )
            })?;
            images.push(file.clone());
        }
        let depth = match (&depth, depth_dir) {
            (Some(depth), Some(dir)) => Some(depth.get(&name).cloned().ok_or_else(|| {
                DataError::content(
                    dir,
                    format!("no picture called {name}, the depth of that image"),
                )
            })?),
            _ => None,
        };
        items.push(Item {
            name,
            images,
            labels: label.clone(),
            depth,
        });
    }
    if let Some(name) = missing.first() {
        let n = missing.len();
        let what = format!("no labels for {n} images, the first is {name}");
        return Err(DataError::content(&layout.labels, what));
    }
    Ok(Dataset {
        items,
        classes,
        camera,
    })
}

fn layout(options: &DataOptions) -> Result<Layout, DataError> {
    let known = options.folder.as_deref().map(recognise).transpose()?;
    match (known, options.images.is_empty(), &options.labels) {
        (Some(mut layout), no_images, labels) => {
            if !no_images {
                layout.images = options.images.clone();
            }
            if let Some(labels) = labels {
                layout.labels = labels.clone();
            }
            Ok(layout)
        }
        (None, false, Some(labels)) => Ok(Layout {
            images: options.images.clone(),
            labels: labels.clone(),
            classes: table_near(labels),
        }),
        _ => Err(DataError::Option(
            "a data set is a folder of a known layout, or folders of images and labels".into(),
        )),
    }
}

fn recognise(dir: &Path) -> Result<Layout, DataError> {
    fs::read_dir(dir).map_err(DataError::io(dir))?;
    let has = |name: &str| dir.join(name).is_dir();
    if has("images") && has("labels") {
        let labels = dir.join("labels");
        return Ok(Layout {
            images: vec![dir.join("images")],
            classes: table_near(&labels),
            labels,
        });
    }
    if has("Images") && has("GroundTruth") {
        return Ok(Layout {
            images: vec![dir.join("Images")],
            labels: dir.join("GroundTruth"),
            classes: Table::BuiltIn(&MSRC2, "the classes of MSRC-v2"),
        });
    }
    if has("image_2") && has("truth/labels") {
        let labels = dir.join("truth/labels");
        return Ok(Layout {
            images: vec![dir.join("image_2")],
            classes: table_near(&labels),
            labels,
        });
    }
    // CamVid: the part itself, or the folder of all parts, of which the training part is taken.
    let part = |images: PathBuf| {
        let mut labels = images.clone().into_os_string();
        labels.push("annot");
        let labels = PathBuf::from(labels);
        let classes = match table_near(&labels) {
            Table::None => Table::BuiltIn(&CAMVID, "the classes of CamVid"),
            table => table,
        };
        labels.is_dir().then_some(Layout {
            images: vec![images],
            labels,
            classes,
        })
    };
    let camvid = has("train").then(|| part(dir.join("train"))).flatten();
    camvid
        .or_else(|| part(dir.components().collect()))
        .ok_or_else(|| {
            DataError::content(
                dir,
                "not known as a data set; expected images and labels, Images and GroundTruth \
             (MSRC-v2), train and trainannot (CamVid), or image_2 and truth/labels (a synthetic \
             drive)",
            )
        })
}

/// The classes.csv in the labels' folder or one of the two above it.
fn table_near(labels: &Path) -> Table {
    let near = labels
        .ancestors()
        .take(3)
        .map(|dir| dir.join("classes.csv"));
    near.into_iter()
        .find(|file| file.is_file())
        .map_or(Table::None, Table::File)
}

/// The pictures of a folder by name without extension; hidden ones are passed over.
fn pictures(dir: &Path) -> Result<BTreeMap<String, PathBuf>, DataError> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(DataError::io(dir))? {
        let path = entry.map_err(DataError::io(dir))?.path();
        let extension = path
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase());
        let wanted = extension.is_some_and(|e| EXTENSIONS.contains(&e.as_str()));
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !wanted || stem.starts_with('.') {
            continue;
        }
        if let Some(other) = found.insert(stem, path.clone()) {
            let what = format!("two pictures of one name, the other is {}", other.display());
            return Err(DataError::content(&path, what));
        }
    }
    Ok(found)
}

/// Names from a list: the first word of each line, without folder and extension.
fn read_list(
    path: &Path,
    images: &BTreeMap<String, PathBuf>,
    dir: &Path,
) -> Result<Vec<String>, DataError> {
    let text = files::read_text(path, files::MAX_LIST).map_err(DataError::io(path))?;
    let mut names = Vec::new();
    let mut seen = HashSet::new();
    for (line, text) in (1..).zip(text.lines()) {
        let wrong = |what: String| DataError::Line {
            path: path.into(),
            line,
            what,
        };
        let Some(word) = text
            .split_whitespace()
            .next()
            .filter(|w| !w.starts_with('#'))
        else {
            continue;
        };
        let file = Path::new(word);
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let stem = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let name = if images.contains_key(&name) {
            name
        } else {
            stem
        };
        if !images.contains_key(&name) {
            return Err(wrong(format!(
                "no picture called {name} in {}",
                dir.display()
            )));
        }
        if !seen.insert(name.clone()) {
            return Err(wrong(format!("{name} for the second time")));
        }
        names.push(name);
    }
    // Their order is the set's, whatever the list's: the same images give the same forest.
    names.sort();
    Ok(names)
}

/// Refuses label PNG of less than 8 bits, whose values would be stretched to 0-255.
pub(super) fn refuse_shallow(path: &Path) -> Result<(), DataError> {
    let mut head = [0u8; 26];
    let mut file = files::open(path, u64::MAX).map_err(DataError::io(path))?;
    let mut n = 0;
    while n < head.len() {
        match file.read(&mut head[n..]).map_err(DataError::io(path))? {
            0 => return Ok(()),
            more => n += more,
        }
    }
    let (bits, colour) = (head[24], head[25]);
    if head.starts_with(b"\x89PNG") && colour == 0 && bits < 8 {
        let what = format!("labels of {bits} bits, expected 8");
        return Err(DataError::content(path, what));
    }
    Ok(())
}
