//! Templates from pictures.
use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Descriptor, FACE_AREAS, Kind, MAX_POINTS, MAX_TEMPLATES, Patch, Point, Template, Templates,
    TemplatesError,
};
use crate::{
    frame::{Image, Size},
    picture::PictureError,
    stage::logo::{
        features::{self, FeatureParams},
        picture::Cutout,
    },
};

/// Shortest side of a picture, px.
pub(in super::super) const MIN_SIDE: usize = 16;

/// Longest side of a picture, px.
pub(in super::super) const MAX_SIDE: usize = 4096;

/// Longest name, characters.
const MAX_NAME: usize = 64;

/// How pictures become templates.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildOptions {
    /// Heights at which keypoints are looked for, px. A picture is not made larger than twice its
    /// own height, except to the smallest of these.
    pub heights: Vec<usize>,
    /// Whether it is looked at from the side too: squeezed to `SQUEEZE` of its width, and of
    /// its height.
    pub views: bool,
    /// Fewest keypoints that do.
    pub min_keypoints: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            heights: vec![256, 128, 64],
            views: true,
            min_keypoints: 12,
        }
    }
}

/// What is left of a side in a view from the side: as seen 50 degrees off.
pub const SQUEEZE: f64 = 0.64;

/// Whether a name can stand in `logos.csv`.
pub(super) fn good_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.chars().count())
        && !name
            .chars()
            .any(|c| c.is_control() || matches!(c, ',' | '"' | '\u{FFFD}'))
        && name.trim() == name
}

/// Whether a picture can become a template.
pub(super) fn good_size(Size { width, height }: Size) -> bool {
    let (short, long) = (width.min(height), width.max(height));
    short >= MIN_SIDE && long <= MAX_SIDE && long <= 8 * short
}

impl Templates {
    /// Makes a template of each `NAME.png` in a folder; NAME is the logo's. Transparency is
    /// respected: see [`crate::stage::logo`].
    ///
    /// # Errors
    /// When the folder or a picture can't be read or used; the text names the file, what was found
    /// and what was expected.
    pub fn build(
        pictures: &Path,
        features: &FeatureParams,
        options: &BuildOptions,
    ) -> Result<Self, TemplatesError> {
        let io = |source| TemplatesError::Io {
            path: pictures.into(),
            source,
        };
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(pictures).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let png = path
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("png"));
            let hidden = path
                .file_name()
                .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
            if png && !hidden {
                files.push(path);
            }
        }
        let mut named = Vec::with_capacity(files.len());
        for path in files {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !good_name(&name) {
                return Err(TemplatesError::Name { path, name });
            }
            named.push((name, path));
        }
        named.sort();
        // Two that differ in the ending's case only.
        if let Some(pair) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (name, path) = pair[1].clone();
            return Err(TemplatesError::Name { path, name });
        }
        if named.is_empty() {
            return Err(TemplatesError::Empty {
                path: pictures.into(),
            });
        }
        if named.len() > MAX_TEMPLATES {
            return Err(TemplatesError::TooMany {
                path: pictures.into(),
                found: named.len(),
            });
        }
        let list = named
            .into_iter()
            .map(|(name, path)| {
                let cutout = Cutout::read(&path).map_err(|source: PictureError| {
                    TemplatesError::Picture {
                        path: path.clone(),
                        source,
                    }
                })?;
                template(name, &path, &cutout, features, options)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            kind: Kind::of(features),
            list,
        })
    }

    /// Makes templates of pictures in memory, each with its name and, where it has any, its
    /// transparency (of the same size; 255 is opaque).
    ///
    /// # Errors
    /// As [`Templates::build`]; the name stands for the file.
    pub fn of_pictures(
        pictures: Vec<(String, Image<u8>, Option<Image<u8>>)>,
        features: &FeatureParams,
        options: &BuildOptions,
    ) -> Result<Self, TemplatesError> {
        let mut sorted = pictures;
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let list = sorted
            .into_iter()
            .map(|(name, grey, alpha)| {
                let path = PathBuf::from(&name);
                template(name, &path, &Cutout::new(grey, alpha), features, options)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            kind: Kind::of(features),
            list,
        })
    }
}

fn template(
    name: String,
    path: &Path,
    cutout: &Cutout,
    features: &FeatureParams,
    options: &BuildOptions,
) -> Result<Template, TemplatesError> {
    let size = cutout.grey.size();
    if !good_size(size) {
        return Err(TemplatesError::Size {
            path: path.into(),
            found: size,
        });
    }
    let mut found = Vec::new();
    for (height, squeeze_x, squeeze_y) in views(size.height, options) {
        look(cutout, height, (squeeze_x, squeeze_y), features, &mut found)?;
    }
    let expected = options.min_keypoints.max(1);
    if found.len() < expected {
        return Err(TemplatesError::TooFewKeypoints {
            path: path.into(),
            found: found.len(),
            expected,
        });
    }
    found.truncate(MAX_POINTS);
    let patches = FACE_AREAS.map(|area| {
        let height = (area as f64 / cutout.aspect()).sqrt();
        let side = |v: f64| ((v + 0.5) as usize).max(8);
        let size = Size::new(side(height * cutout.aspect()), side(height));
        let (grey, mask) = cutout.resized(size);
        Patch { grey, mask }
    });
    let (points, descriptors) = found.into_iter().unzip();
    Template::new(name, size, points, descriptors, patches)
        .map_err(|_| TemplatesError::Plain { path: path.into() })
}

/// Height and squeezes of each picture that is looked at: all sizes from the front, then all
/// from the sides.
fn views(height: usize, options: &BuildOptions) -> Vec<(usize, f64, f64)> {
    let smallest = options.heights.iter().copied().min();
    let heights: Vec<usize> = options
        .heights
        .iter()
        .copied()
        .filter(|h| *h <= 2 * height || Some(*h) == smallest)
        .collect();
    let mut views: Vec<_> = heights.iter().map(|h| (*h, 1.0, 1.0)).collect();
    if options.views {
        for squeeze in [(SQUEEZE, 1.0), (1.0, SQUEEZE)] {
            views.extend(heights.iter().map(|h| (*h, squeeze.0, squeeze.1)));
        }
    }
    views
}

/// Adds the keypoints of the picture at one size.
fn look(
    cutout: &Cutout,
    height: usize,
    (squeeze_x, squeeze_y): (f64, f64),
    params: &FeatureParams,
    found: &mut Vec<(Point, Descriptor)>,
) -> Result<(), TemplatesError> {
    let side = |v: f64| ((v + 0.5) as usize).max(4);
    let (full_w, full_h) = (height as f64 * cutout.aspect(), height as f64);
    let size = Size::new(side(full_w * squeeze_x), side(full_h * squeeze_y));
    // Enough that patterns of middling keypoints do not meet the canvas's end.
    let margin = (height / 2).max(16);
    let canvas = cutout.on_canvas(size, margin);
    let mut plan = features::cpu::Plan::new(params, canvas.size())?;
    let mut out = features::Features::new(params);
    plan.run(&canvas, &mut out);
    let (w, h) = (size.width as f64, size.height as f64);
    // A length of this view in heights of the picture, the mean of both directions.
    let scale = (cutout.aspect() / w * (1.0 / h)).sqrt();
    for (k, d) in out.keypoints.iter().zip(&out.descriptors) {
        let x = (f64::from(k.x) - margin as f64 + 0.5) / w;
        let y = (f64::from(k.y) - margin as f64 + 0.5) / h;
        if !(0.0..=1.0).contains(&x) || !(0.0..=1.0).contains(&y) {
            continue;
        }
        let point = Point {
            x: ((x - 0.5) * cutout.aspect()) as f32,
            y: (y - 0.5) as f32,
            sigma: (f64::from(k.sigma) * scale) as f32,
            angle: k.angle,
            sign: k.sign,
        };
        // Sizes show much the same: what is there already is not kept twice.
        let twin = found.iter().any(|(p, e)| {
            let (dx, dy) = (p.x - point.x, p.y - point.y);
            let reach = 0.5 * p.sigma.min(point.sigma);
            let ratio = p.sigma / point.sigma;
            dx * dx + dy * dy < reach * reach
                && (0.85..=1.18).contains(&ratio)
                && e.distance(d) <= 24
        });
        if !twin {
            found.push((point, *d));
        }
    }
    Ok(())
}
