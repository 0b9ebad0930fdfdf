use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::ReportError;
use crate::{
    files,
    frame::Outcome,
    sink::{
        Save,
        folder::{SUMMARY, TIMING},
        summary::Summary,
        table::WHOLE,
    },
};

/// The longest duration that is believed: eleven days.
const LONGEST_US: f64 = 1e12;

/// One frame of `timing.csv`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Frame {
    pub number: u64,
    pub duration_us: f64,
    /// Index into [`Results::stages`], duration.
    pub stages: Vec<(usize, f64)>,
    /// `done`, another [`Outcome`] or, without a result, a gap.
    pub outcome: String,
}

impl Frame {
    /// Whether it has a result.
    pub fn has_result(&self) -> bool {
        use Outcome::{Done, Late, OverBudget, Skipped};
        [Done, OverBudget, Late, Skipped]
            .iter()
            .any(|o| o.name() == self.outcome)
    }
}

/// What a folder of results says.
pub(super) struct Results {
    pub summary: Summary,
    /// Names of stages in the order of the loop.
    pub stages: Vec<String>,
    pub frames: Vec<Frame>,
    /// Overlays in the order of their numbers.
    pub overlays: Vec<PathBuf>,
}

impl Results {
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let path = folder.join(SUMMARY);
        let text = match files::read_text(&path, files::MAX_LIST) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(ReportError::NoSummary { path });
            }
            Err(source) => return Err(ReportError::Io { path, source }),
        };
        let summary: Summary =
            serde_json::from_str(&text).map_err(|source| ReportError::Summary { path, source })?;
        let mut stages = summary.stages.0.iter().map(|(n, _)| n.clone()).collect();
        let frames = read_timing(&folder.join(TIMING), &mut stages)?;
        Ok(Self {
            summary,
            stages,
            frames,
            overlays: overlays(&folder.join(Save::Overlay.name())),
        })
    }
}

fn read_timing(path: &Path, stages: &mut Vec<String>) -> Result<Vec<Frame>, ReportError> {
    let bad = |line: u64, what: String| ReportError::Timing {
        path: path.into(),
        line,
        what,
    };
    let file = files::open(path, files::MAX_TIMES).map_err(|source| ReportError::Io {
        path: path.into(),
        source,
    })?;
    let mut reader = csv::Reader::from_reader(file);
    const HEADER: [&str; 6] = [
        "frame",
        "timestamp_ns",
        "stage",
        "start_us",
        "duration_us",
        "outcome",
    ];
    let header = reader.headers().map_err(|e| bad(1, e.to_string()))?;
    if header.iter().ne(HEADER) {
        let found = header.iter().collect::<Vec<_>>().join(",");
        return Err(bad(
            1,
            format!(
                "found the columns {found:?}, expected {:?}",
                HEADER.join(",")
            ),
        ));
    }
    let mut frames = Vec::new();
    let mut stage_times = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| {
            let line = e.position().map_or(0, csv::Position::line);
            bad(line, e.to_string())
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        // A record has as many fields as the header.
        let field = |i: usize| record.get(i).unwrap_or_default();
        let number = field(0)
            .parse::<u64>()
            .map_err(|_| bad(line, format!("frame is {:?}, expected a number", field(0))))?;
        let duration_us = field(4)
            .parse::<f64>()
            .ok()
            .filter(|us| (0.0..=LONGEST_US).contains(us))
            .ok_or_else(|| {
                let found = field(4);
                bad(
                    line,
                    format!("duration_us is {found:?}, expected microseconds"),
                )
            })?;
        if field(2) == WHOLE {
            frames.push(Frame {
                number,
                duration_us,
                stages: std::mem::take(&mut stage_times),
                outcome: field(5).to_owned(),
            });
        } else {
            let stage = stages.iter().position(|s| s == field(2));
            let stage = stage.unwrap_or_else(|| {
                stages.push(field(2).to_owned());
                stages.len() - 1
            });
            stage_times.push((stage, duration_us));
        }
    }
    Ok(frames)
}

/// No overlays are no error: they were not asked for.
fn overlays(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "png"))
        .collect();
    // Numbers of more than six digits come after those of six.
    paths.sort_by_key(|p| (p.as_os_str().len(), p.clone()));
    paths
}
