//! Stixels against a class per pixel.
use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::check_size;
use crate::{
    evaluate::{
        EvaluateError, Unmatched, files, percent, share,
        stixel_table::{FrameStixels, StixelTable},
    },
    files as inputs,
    frame::{Class, Image},
};

const CLASSES: [Class; 3] = [Class::Ground, Class::Object, Class::Sky];

/// Pixels by true class and class in the result; the fourth is "in no stixel".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion(pub [[u64; 4]; 3]);

impl Confusion {
    fn merge(&mut self, other: &Self) {
        for (row, other) in self.0.iter_mut().zip(other.0) {
            for (count, other) in row.iter_mut().zip(other) {
                *count += other;
            }
        }
    }

    /// Shares of the counts.
    pub fn scores(&self) -> Scores {
        let counts = &self.0;
        let pixels = counts.iter().flatten().sum();
        let right = (0..3).map(|c| counts[c][c]).sum();
        let class = |c: usize| {
            let hit = counts[c][c];
            let truth: u64 = counts[c].iter().sum();
            let result: u64 = counts.iter().map(|row| row[c]).sum();
            ClassScores {
                truth_pixels: truth,
                result_pixels: result,
                iou: share(hit, truth + result - hit),
                precision: share(hit, result),
                recall: share(hit, truth),
            }
        };
        let per_class = PerClass {
            ground: class(0),
            object: class(1),
            sky: class(2),
        };
        let ious: Vec<f64> = per_class.list().iter().filter_map(|c| c.iou).collect();
        Scores {
            pixels,
            accuracy: share(right, pixels),
            iou: (!ious.is_empty()).then(|| ious.iter().sum::<f64>() / ious.len() as f64),
            per_class,
        }
    }
}

/// One class's shares (0 to 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassScores {
    /// Pixels of this class in truth.
    pub truth_pixels: u64,
    /// Pixels of this class in the result.
    pub result_pixels: u64,
    /// Of the pixels of either, those of both.
    pub iou: Option<f64>,
    /// Of the result's pixels, those that are right.
    pub precision: Option<f64>,
    /// Of the true pixels, those found.
    pub recall: Option<f64>,
}

/// Shares by class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerClass {
    /// Ground.
    pub ground: ClassScores,
    /// Object.
    pub object: ClassScores,
    /// Sky.
    pub sky: ClassScores,
}

impl PerClass {
    fn list(&self) -> [ClassScores; 3] {
        [self.ground, self.object, self.sky]
    }
}

/// Agreement of labelled pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Labelled pixels in columns of stixels.
    pub pixels: u64,
    /// Share of them whose class is the stixel's.
    pub accuracy: Option<f64>,
    /// Mean over the classes that occur.
    pub iou: Option<f64>,
    /// By class.
    pub per_class: PerClass,
}

/// One true class's pixels by the class in the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// As ground.
    pub ground: u64,
    /// As object.
    pub object: u64,
    /// As sky.
    pub sky: u64,
    /// In no stixel.
    pub none: u64,
}

impl From<[u64; 4]> for Counts {
    fn from([ground, object, sky, none]: [u64; 4]) -> Self {
        Self {
            ground,
            object,
            sky,
            none,
        }
    }
}

/// Pixels by true class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConfusionCounts {
    /// Ground.
    pub ground: Counts,
    /// Object.
    pub object: Counts,
    /// Sky.
    pub sky: Counts,
}

/// One frame's agreement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameScores {
    /// Its number.
    pub frame: u64,
    /// Labelled pixels in columns of stixels.
    pub pixels: u64,
    /// Share of them whose class is the stixel's.
    pub accuracy: Option<f64>,
    /// Mean over the classes that occur.
    pub iou: Option<f64>,
}

/// Stixels against labels: totals over all pixels at the top. Pixels that are labelled `void` or
/// lie right of the last column are not judged; those in no stixel are wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Over all pixels of all frames.
    #[serde(flatten)]
    pub total: Scores,
    /// Pixels by true class, then class in the result.
    pub confusion: ConfusionCounts,
    /// Frame by frame.
    pub frames: Vec<FrameScores>,
    /// Frames without a partner.
    pub unmatched: Unmatched,
}

/// What each label is to a stixel: outer `None` unknown, inner `None` void.
type Map = [Option<Option<Class>>; 256];

fn read_classes(path: &Path) -> Result<Map, EvaluateError> {
    let file = inputs::open(path, inputs::MAX_SETTINGS).map_err(EvaluateError::io(path))?;
    let wrong = |line: u64, what: String| EvaluateError::Table {
        path: path.into(),
        line,
        what,
    };
    let csv_error = |e: csv::Error| {
        let line = e.position().map_or(1, csv::Position::line);
        wrong(line, e.to_string())
    };
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(file);
    let header = reader.headers().map_err(csv_error)?.clone();
    let find = |names: &[&str], expected: &str| {
        header
            .iter()
            .position(|h| names.contains(&h))
            .ok_or_else(|| {
                let found: Vec<&str> = header.iter().collect();
                wrong(
                    1,
                    format!("columns are `{}`, expected {expected}", found.join(",")),
                )
            })
    };
    let id = find(&["id", "index"], "one called id or index")?;
    let class = find(
        &["stixel_class"],
        "one called stixel_class (ground, object, sky or void)",
    )?;
    let mut map: Map = [None; 256];
    for record in reader.records() {
        let record = record.map_err(csv_error)?;
        let line = record.position().map_or(1, csv::Position::line);
        let id: u8 = record[id].parse().map_err(|_| {
            let found = &record[id];
            wrong(
                line,
                format!(
                    "{} is `{found}`, expected a whole number up to 255",
                    &header[id]
                ),
            )
        })?;
        let class = match &record[class] {
            "ground" => Some(Class::Ground),
            "object" => Some(Class::Object),
            "sky" => Some(Class::Sky),
            "void" => None,
            other => {
                return Err(wrong(
                    line,
                    format!("stixel_class is `{other}`, expected ground, object, sky or void"),
                ));
            }
        };
        if map[usize::from(id)].replace(class).is_some() {
            return Err(wrong(line, format!("{id} for the second time")));
        }
    }
    Ok(map)
}

/// Counts a frame; `Err` is the place of a label that the map does not know.
fn count(
    stixels: &FrameStixels,
    truth: &Image<u8>,
    map: &Map,
) -> Result<Confusion, (usize, usize)> {
    let mut confusion = Confusion::default();
    let mut found = vec![3usize; truth.height()];
    let width = stixels.width as usize;
    for u in 0..stixels.columns() {
        let column = stixels.column(u);
        found.fill(3);
        for s in column {
            found[usize::from(s.top)..=usize::from(s.base)].fill(s.class as usize);
        }
        for (y, &result) in found.iter().enumerate() {
            for x in u * width..(u + 1) * width {
                match map[usize::from(truth.get(x, y))] {
                    None => return Err((x, y)),
                    Some(None) => {}
                    Some(Some(class)) => confusion.0[class as usize][result] += 1,
                }
            }
        }
    }
    Ok(confusion)
}

pub(super) fn evaluate(
    results: &StixelTable,
    truth: &Path,
    classes: Option<&Path>,
) -> Result<Report, EvaluateError> {
    let path = files::inner(truth, &["truth/labels", "labels"]);
    let folder = files::Folder::read(&path, "label pictures (8-bit PNG)")?;
    let classes: PathBuf = match classes {
        Some(path) => path.into(),
        None => [Some(path.as_path()), path.parent()]
            .into_iter()
            .flatten()
            .map(|dir| dir.join("classes.csv"))
            .find(|file| file.is_file())
            .ok_or_else(|| EvaluateError::Empty {
                path: path.clone(),
                expected: "classes.csv (columns id, name, stixel_class), nor in the folder above",
            })?,
    };
    let map = read_classes(&classes)?;
    let (pairs, unmatched) = files::matched(
        (&results.path, &results.frames),
        (&folder.path, &folder.frames),
    )?;
    let mut total = Confusion::default();
    let mut frames = Vec::with_capacity(pairs.len());
    for (frame, stixels, file) in pairs {
        let truth = files::read_labels(file)?;
        check_size(results, stixels, file, truth.size())?;
        let confusion = count(stixels, &truth, &map).map_err(|(x, y)| EvaluateError::Label {
            path: file.into(),
            label: truth.get(x, y),
            x,
            y,
            classes: classes.clone(),
        })?;
        total.merge(&confusion);
        let scores = confusion.scores();
        frames.push(FrameScores {
            frame,
            pixels: scores.pixels,
            accuracy: scores.accuracy,
            iou: scores.iou,
        });
    }
    let [ground, object, sky] = total.0.map(Counts::from);
    Ok(Report {
        total: total.scores(),
        confusion: ConfusionCounts {
            ground,
            object,
            sky,
        },
        frames,
        unmatched,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "frame       label px  accuracy %  mean IoU %")?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, pixels, accuracy, iou| {
            let (accuracy, iou) = (percent(accuracy), percent(iou));
            writeln!(f, "{name:<8} {pixels:>11}  {accuracy:>10}  {iou:>10}")
        };
        for s in &self.frames {
            line(f, &s.frame.to_string(), s.pixels, s.accuracy, s.iou)?;
        }
        let t = &self.total;
        line(f, "total", t.pixels, t.accuracy, t.iou)?;
        writeln!(
            f,
            "\nclass   precision %  recall %   IoU % | as ground    as object       as sky         none"
        )?;
        let confusion = [
            self.confusion.ground,
            self.confusion.object,
            self.confusion.sky,
        ];
        for ((class, s), c) in CLASSES.iter().zip(t.per_class.list()).zip(confusion) {
            writeln!(
                f,
                "{:<8} {:>10} {:>9} {:>7} | {:>9} {:>12} {:>12} {:>12}",
                class.name(),
                percent(s.precision),
                percent(s.recall),
                percent(s.iou),
                c.ground,
                c.object,
                c.sky,
                c.none,
            )?;
        }
        write!(f, "{}", self.unmatched)
    }
}
