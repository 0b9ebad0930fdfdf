//! Tables as they are read back: a header line that must be the known one, then a record a line.
use std::path::Path;

use super::EvaluateError;
use crate::files;

/// Hands each record of the CSV file at `path` (at most `most` bytes) to `take`, in order.
///
/// # Errors
/// When the file can't be read, its first line is not `header`, or `take` refuses a record: with
/// the line's number.
pub(super) fn read(
    path: &Path,
    most: u64,
    header: &[&str],
    mut take: impl FnMut(&csv::StringRecord) -> Result<(), String>,
) -> Result<(), EvaluateError> {
    let file = files::open(path, most).map_err(EvaluateError::io(path))?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(file);
    let wrong = |line, what| EvaluateError::Table {
        path: path.into(),
        line,
        what,
    };
    let mut record = csv::StringRecord::new();
    let mut begun = false;
    loop {
        let more = reader.read_record(&mut record).map_err(|e| {
            let line = e.position().map_or(0, csv::Position::line);
            match e.into_kind() {
                csv::ErrorKind::Io(source) => EvaluateError::Io {
                    path: path.into(),
                    source,
                },
                csv::ErrorKind::Utf8 { err, .. } => wrong(line, err.to_string()),
                other => wrong(line, format!("{other:?}")),
            }
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        if !begun {
            if !more || !record.iter().eq(header.iter().copied()) {
                let found: Vec<&str> = record.iter().collect();
                let (found, expected) = (found.join(","), header.join(","));
                let what = format!("header is `{found}`, expected `{expected}`");
                return Err(wrong(line, what));
            }
            begun = true;
            continue;
        }
        if !more {
            return Ok(());
        }
        if record.len() != header.len() {
            let what = format!("{} fields, expected {}", record.len(), header.len());
            return Err(wrong(line, what));
        }
        take(&record).map_err(|what| wrong(line, what))?;
    }
}
