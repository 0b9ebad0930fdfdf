//! Labels against labels.
//!
//! Pixels whose truth is void are not judged; a judged pixel that the result calls void is wrong.
//! `accuracy` is that of all pixels ("per-pixel", "global"); `class_accuracy` the mean over the
//! classes that occur ("per-class"); `image_accuracy` the mean over images of each one's.
//! Calibration (expected calibration error, 10 bins of the winner's posterior) where the results
//! bring `confidence/`.
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer, ser::SerializeMap as _};

use super::{EvaluateError, files, percent, share};
use crate::{
    frame::Image,
    picture::Picture,
    stage::forest::{Class, POSTERIOR_ONE},
    training::{
        data::{ClassTable, DataError},
        samples::VOID,
    },
};

/// Bins of the calibration.
const BINS: usize = 10;

/// What decides how labels are judged.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The class table; `None`: classes.csv in the truth's folder or one of the two above it.
    pub classes: Option<PathBuf>,
    /// Classes that are not judged, besides those called void.
    pub void: Vec<String>,
}

/// Counts of pixels, as images are added.
#[derive(Clone, Debug)]
pub struct Confusion {
    classes: Vec<Class>,
    /// By true class, then class in the result, of which the last is void.
    counts: Vec<u64>,
    images: Vec<ImageScores>,
    /// Of each bin of the posterior: pixels, right ones, sum of posteriors.
    bins: [(u64, u64, u64); BINS],
}

/// One image's agreement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImageScores {
    /// Its name.
    pub name: String,
    /// Judged pixels.
    pub pixels: u64,
    /// Share of them that are right.
    pub accuracy: Option<f64>,
}

/// One class's shares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassScores {
    /// Pixels of this class in truth.
    pub truth_pixels: u64,
    /// Judged pixels of this class in the result.
    pub result_pixels: u64,
    /// Of the true pixels, those found.
    pub accuracy: Option<f64>,
    /// Of the result's pixels, those that are right.
    pub precision: Option<f64>,
    /// Of the pixels of either, those of both.
    pub iou: Option<f64>,
}

/// Everything about labels and their truth; shares are 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Judged pixels.
    pub pixels: u64,
    /// Share of them that are right.
    pub accuracy: Option<f64>,
    /// Mean over the classes that occur of the share of their pixels that is found.
    pub class_accuracy: Option<f64>,
    /// Mean over images of the share of their pixels that is right.
    pub image_accuracy: Option<f64>,
    /// Mean over the classes that occur, in truth or result.
    pub iou: Option<f64>,
    /// The same, each class weighted by its true pixels.
    pub frequency_weighted_iou: Option<f64>,
    /// Expected calibration error.
    pub calibration_error: Option<f64>,
    /// By class.
    #[serde(serialize_with = "by_name")]
    pub per_class: Vec<(String, ClassScores)>,
    /// Pixels by true class, then class in the result, of which the last is void.
    pub confusion: Vec<Vec<u64>>,
    /// Image by image.
    pub frames: Vec<ImageScores>,
    /// Results without truth, and truth without results.
    pub unmatched: Unmatched,
}

/// Pictures that only one side has, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// Results without truth.
    pub results: Vec<String>,
    /// Truth without results.
    pub truth: Vec<String>,
}

fn by_name<S: Serializer>(list: &[(String, ClassScores)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(list.len()))?;
    for (name, scores) in list {
        map.serialize_entry(name, scores)?;
    }
    map.end()
}

impl Confusion {
    /// Of these classes.
    pub fn new(classes: &[Class]) -> Self {
        let n = classes.len();
        Self {
            classes: classes.to_vec(),
            counts: vec![0; n * (n + 1)],
            images: Vec::new(),
            bins: Default::default(),
        }
    }

    /// Counts an image: classes from 0, [`VOID`] where there is none; `confidence` is the
    /// winner's posterior in 1/65535.
    ///
    /// # Panics
    /// When sizes differ.
    pub fn add(
        &mut self,
        name: &str,
        result: &Image<u8>,
        truth: &Image<u8>,
        confidence: Option<&Image<u16>>,
    ) {
        assert_eq!(result.size(), truth.size(), "label sizes");
        let n = self.classes.len();
        let (mut pixels, mut right) = (0u64, 0u64);
        for y in 0..truth.height() {
            let rows = result.row(y).iter().zip(truth.row(y));
            for (x, (&found, &class)) in rows.enumerate() {
                if class == VOID {
                    continue;
                }
                let hit = found == class;
                let column = if found == VOID { n } else { found.into() };
                self.counts[usize::from(class) * (n + 1) + column] += 1;
                pixels += 1;
                right += u64::from(hit);
                if let Some(confidence) = confidence {
                    let p = confidence.get(x, y);
                    let bin = usize::from(p) * BINS / (usize::from(POSTERIOR_ONE) + 1);
                    let (all, hits, sum) = &mut self.bins[bin];
                    *all += 1;
                    *hits += u64::from(hit);
                    *sum += u64::from(p);
                }
            }
        }
        self.images.push(ImageScores {
            name: name.into(),
            pixels,
            accuracy: share(right, pixels),
        });
    }

    /// The shares.
    pub fn report(&self, unmatched: Unmatched) -> Report {
        let n = self.classes.len();
        let at = |t: usize, r: usize| self.counts[t * (n + 1) + r];
        let pixels: u64 = self.counts.iter().sum();
        let scores = |c: usize| {
            let hit = at(c, c);
            let truth: u64 = (0..=n).map(|r| at(c, r)).sum();
            let result: u64 = (0..n).map(|t| at(t, c)).sum();
            ClassScores {
                truth_pixels: truth,
                result_pixels: result,
                accuracy: share(hit, truth),
                precision: share(hit, result),
                iou: share(hit, truth + result - hit),
            }
        };
        let list: Vec<ClassScores> = (0..n).map(scores).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let values: Vec<f64> = values.collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let weighted = list
            .iter()
            .map(|s| s.iou.unwrap_or(0.0) * s.truth_pixels as f64);
        let judged: u64 = self.bins.iter().map(|b| b.0).sum();
        let calibration = self.bins.iter().map(|&(_, hits, sum)| {
            let sum = sum as f64 / f64::from(POSTERIOR_ONE);
            (hits as f64 - sum).abs()
        });
        Report {
            pixels,
            accuracy: share((0..n).map(|c| at(c, c)).sum(), pixels),
            class_accuracy: mean(&mut list.iter().filter_map(|s| s.accuracy)),
            image_accuracy: mean(&mut self.images.iter().filter_map(|i| i.accuracy)),
            iou: mean(&mut list.iter().filter_map(|s| s.iou)),
            frequency_weighted_iou: (pixels > 0).then(|| weighted.sum::<f64>() / pixels as f64),
            calibration_error: (judged > 0).then(|| calibration.sum::<f64>() / judged as f64),
            per_class: self
                .classes
                .iter()
                .map(|c| c.name.clone())
                .zip(list)
                .collect(),
            confusion: self
                .counts
                .chunks_exact(n + 1)
                .map(<[u64]>::to_vec)
                .collect(),
            frames: self.images.clone(),
            unmatched,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "class            truth px   accuracy %  precision %     IoU %"
        )?;
        for (name, s) in &self.per_class {
            writeln!(
                f,
                "{name:<14} {:>10}  {:>11}  {:>11}  {:>8}",
                s.truth_pixels,
                percent(s.accuracy),
                percent(s.precision),
                percent(s.iou)
            )?;
        }
        writeln!(f, "\nimages                 {}", self.frames.len())?;
        for (what, value) in [
            ("per-pixel %", self.accuracy),
            ("per-class %", self.class_accuracy),
            ("mean over images %", self.image_accuracy),
            ("mean IoU %", self.iou),
            ("freq. weighted IoU %", self.frequency_weighted_iou),
            ("calibration error %", self.calibration_error),
        ] {
            writeln!(f, "{what:<22} {}", percent(value))?;
        }
        for (list, what) in [
            (&self.unmatched.results, "results without truth"),
            (&self.unmatched.truth, "truth without results"),
        ] {
            if !list.is_empty() {
                writeln!(f, "{} {what}: {}", list.len(), list.join(", "))?;
            }
        }
        Ok(())
    }
}

/// The pictures of a folder by name without extension.
fn stems(dir: &Path) -> Result<BTreeMap<String, PathBuf>, EvaluateError> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(EvaluateError::io(dir))? {
        let path = entry.map_err(EvaluateError::io(dir))?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let known = path.extension().is_some_and(|e| {
            let e = e.to_ascii_lowercase();
            e == "png" || e == "bmp"
        });
        if known && !stem.starts_with('.') {
            // MSRC-v2 and CamVid mark their truth.
            let stem = stem
                .strip_suffix("_GT")
                .or(stem.strip_suffix("_L"))
                .unwrap_or(&stem);
            found.insert(stem.to_owned(), path.clone());
        }
    }
    if found.is_empty() {
        return Err(EvaluateError::Empty {
            path: dir.into(),
            expected: "label pictures (8-bit PNG)",
        });
    }
    Ok(found)
}

/// Judges the labels of a replay's folder (its `labels/`), or of a folder of label pictures,
/// against a folder of true ones (its `truth/labels`, `labels` or `GroundTruth`). Pictures are
/// matched by name; where no name is in both, by number or place, as other results are.
///
/// # Errors
/// As [`EvaluateError`] says.
pub fn evaluate(results: &Path, truth: &Path, options: &Options) -> Result<Report, EvaluateError> {
    let results_dir = files::inner(results, &["labels"]);
    let truth_dir = files::inner(truth, &["truth/labels", "labels", "GroundTruth"]);
    let table = class_table(&truth_dir, options)?;
    let (found, wanted) = (stems(&results_dir)?, stems(&truth_dir)?);
    let common = found
        .keys()
        .filter(|name| wanted.contains_key(*name))
        .count();
    let mut pairs: Vec<(String, PathBuf, PathBuf)> = Vec::new();
    let unmatched;
    if common > 0 {
        let alone = |these: &BTreeMap<String, PathBuf>, those: &BTreeMap<String, PathBuf>| {
            let names = these.keys().filter(|name| !those.contains_key(*name));
            names.cloned().collect()
        };
        unmatched = Unmatched {
            results: alone(&found, &wanted),
            truth: alone(&wanted, &found),
        };
        for (name, result) in found {
            if let Some(truth) = wanted.get(&name) {
                pairs.push((name, result, truth.clone()));
            }
        }
    } else {
        let read = |dir| files::Folder::read(dir, "label pictures (8-bit PNG)");
        let (results, truth) = (read(&results_dir)?, read(&truth_dir)?);
        let (list, alone) = files::matched(
            (&results.path, &results.frames),
            (&truth.path, &truth.frames),
        )?;
        for (frame, result, truth) in list {
            pairs.push((frame.to_string(), result.clone(), truth.clone()));
        }
        let text = |list: Vec<u64>| list.iter().map(u64::to_string).collect();
        unmatched = Unmatched {
            results: text(alone.results),
            truth: text(alone.truth),
        };
    }
    let confidences = results_dir.with_file_name("confidence");
    let mut confusion = Confusion::new(table.trained());
    for (name, result, truth) in pairs {
        let read = |path: &Path| -> Result<Image<u8>, EvaluateError> {
            Ok(table.decode(&files::read(path)?, path)?)
        };
        let (labels, expected) = (read(&result)?, read(&truth)?);
        let check = |path: &Path, found| {
            if found == expected.size() {
                return Ok(());
            }
            Err(EvaluateError::Size {
                path: path.into(),
                found,
                truth: truth.clone(),
                expected: expected.size(),
            })
        };
        check(&result, labels.size())?;
        let file = confidences.join(result.file_name().unwrap_or_default());
        let confidence = match file.is_file().then(|| files::read(&file)).transpose()? {
            Some(Picture::Grey16(image)) => {
                check(&file, image.size())?;
                Some(image)
            }
            _ => None,
        };
        confusion.add(&name, &labels, &expected, confidence.as_ref());
    }
    Ok(confusion.report(unmatched))
}

fn class_table(labels: &Path, options: &Options) -> Result<ClassTable, EvaluateError> {
    let near = labels
        .ancestors()
        .take(3)
        .map(|dir| dir.join("classes.csv"))
        .find(|file| file.is_file());
    let path = options.classes.clone().or(near);
    let path = path.ok_or_else(|| {
        EvaluateError::Data(DataError::Content {
            path: labels.into(),
            what: "no classes.csv there nor in the two folders above, and none given".into(),
        })
    })?;
    Ok(ClassTable::read(&path, &options.void)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(index: u8, name: &str) -> Class {
        Class {
            index,
            name: name.into(),
            colour: [index; 3],
        }
    }

    fn row(values: &[u8]) -> Image<u8> {
        Image::from_vec(values.len(), 1, values.to_vec()).unwrap()
    }

    #[test]
    fn known_shares() {
        let mut confusion = Confusion::new(&[class(1, "a"), class(2, "b"), class(3, "c")]);
        // Truth a: 3 of 4 found; b: 1 of 2, the other void in the result; void is not judged.
        let truth = row(&[0, 0, 0, 0, 1, 1, VOID]);
        let result = row(&[0, 0, 0, 1, 1, VOID, 2]);
        let confidence = Image::filled(7, 1, POSTERIOR_ONE);
        confusion.add("one", &result, &truth, Some(&confidence));
        confusion.add("two", &row(&[1, 1]), &row(&[1, 1]), None);
        let report = confusion.report(Unmatched::default());
        assert_eq!(report.pixels, 8);
        assert_eq!(report.accuracy, Some(6.0 / 8.0));
        assert_eq!(report.class_accuracy, Some((3.0 / 4.0 + 3.0 / 4.0) / 2.0));
        assert_eq!(report.image_accuracy, Some((4.0 / 6.0 + 1.0) / 2.0));
        // a: 3 of 4; b: 3 of 5; c is in neither.
        assert_eq!(report.iou, Some((3.0 / 4.0 + 3.0 / 5.0) / 2.0));
        assert_eq!(report.per_class[2].1.iou, None);
        assert_eq!(report.confusion[1], [0, 3, 0, 1]);
        // All in the highest bin: sure of 6, right of 4.
        assert!((report.calibration_error.unwrap() - 2.0 / 6.0).abs() < 1e-12);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["per_class"]["a"]["truth_pixels"], 4);
    }

    #[test]
    fn nothing_judged_is_no_number() {
        let mut confusion = Confusion::new(&[class(1, "a")]);
        confusion.add("one", &row(&[0]), &row(&[VOID]), None);
        let report = confusion.report(Unmatched::default());
        assert_eq!((report.accuracy, report.iou), (None, None));
        assert!(report.to_string().contains("per-pixel %            -"));
    }
}
