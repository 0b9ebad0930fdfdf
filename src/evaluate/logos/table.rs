//! Reading `logos.csv`, of a replay or of a synthetic drive's truth.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    evaluate::{EvaluateError, lines},
    files,
};

/// The columns that the table must have, in this order.
pub const HEADER: [&str; 13] = [
    "frame",
    "id",
    "name",
    "state",
    "x0",
    "y0",
    "x1",
    "y1",
    "x2",
    "y2",
    "x3",
    "y3",
    "confidence",
];

/// One logo of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The track, or in a truth the mark of a vehicle.
    pub id: u64,
    /// Which logo.
    pub name: String,
    /// `tentative`, `tracked`, `lost`; in a truth `visible`, `partial`.
    pub state: String,
    /// Corners, px: upper left, upper right, lower right, lower left of the logo.
    pub quad: [[f64; 2]; 4],
    /// 0 to 1; in a truth the share that can be seen.
    pub confidence: f64,
}

/// A whole table, by frame number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Where it was read.
    pub path: PathBuf,
    /// Its frames.
    pub frames: BTreeMap<u64, Vec<Row>>,
}

/// Reads a table: the file itself, or from the folder that holds it: `logos.csv`, or of a
/// synthetic drive `truth/logos_mono.csv`, since logos are looked for in the mono camera's image,
/// else `truth/logos.csv`.
///
/// # Errors
/// When it can't be read, or a line is not as [`HEADER`] and the format say, with its number.
pub fn read(path: &Path) -> Result<Table, EvaluateError> {
    let path = if path.is_dir() {
        let of = |name: &&&str| path.join(name).is_file();
        let name = ["truth/logos_mono.csv", "truth/logos.csv", "logos_mono.csv"];
        path.join(name.iter().find(of).unwrap_or(&"logos.csv"))
    } else {
        path.into()
    };
    let mut frames: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    lines::read(&path, files::MAX_LIST, &HEADER, |record| {
        let (frame, row) = row(record)?;
        frames.entry(frame).or_default().push(row);
        Ok(())
    })?;
    Ok(Table { path, frames })
}

fn row(record: &csv::StringRecord) -> Result<(u64, Row), String> {
    let whole = |i: usize| -> Result<u64, String> {
        record[i]
            .parse()
            .map_err(|_| format!("{} is `{}`, expected a whole number", HEADER[i], &record[i]))
    };
    let number = |i: usize, low: f64, high: f64, expected: &str| -> Result<f64, String> {
        match record[i].parse::<f64>() {
            Ok(v) if (low..=high).contains(&v) => Ok(v),
            _ => Err(format!(
                "{} is `{}`, expected {expected}",
                HEADER[i], &record[i]
            )),
        }
    };
    const STATES: [&str; 5] = ["tentative", "tracked", "lost", "visible", "partial"];
    let state = record[3].to_owned();
    if !STATES.contains(&state.as_str()) {
        return Err(format!(
            "state is `{state}`, expected tentative, tracked, lost, visible or partial"
        ));
    }
    if record[2].is_empty() {
        return Err("name is empty, expected the logo's name".into());
    }
    let mut quad = [[0.0; 2]; 4];
    for (i, v) in quad.iter_mut().flatten().enumerate() {
        *v = number(4 + i, -1e6, 1e6, "a place in pixels")?;
    }
    let row = Row {
        id: whole(1)?,
        name: record[2].to_owned(),
        state,
        quad,
        confidence: number(12, 0.0, 1.0, "0 to 1")?,
    };
    Ok((whole(0)?, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "frame,id,name,state,x0,y0,x1,y1,x2,y2,x3,y3,confidence\n";

    fn read_text(text: &str) -> Result<Table, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("logos.csv");
        std::fs::write(&file, text).unwrap();
        read(dir.path()).map_err(|e| {
            assert_eq!(e.exit_status(), 65);
            let text = e.to_string();
            let place = format!("{}:", file.display());
            text.strip_prefix(&place)
                .expect("names the file")
                .to_owned()
        })
    }

    #[test]
    fn a_table_is_read() {
        let text = format!("{HEAD}7,1,fox,tracked,1.5,2,3,4,5,6,-7,8.25,0.900\n");
        let table = read_text(&text).unwrap();
        let row = Row {
            id: 1,
            name: "fox".into(),
            state: "tracked".into(),
            quad: [[1.5, 2.0], [3.0, 4.0], [5.0, 6.0], [-7.0, 8.25]],
            confidence: 0.9,
        };
        assert_eq!(table.frames[&7], [row]);
        assert!(read_text(HEAD).unwrap().frames.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let good = "7,1,fox,lost,1,2,3,4,5,6,7,8,0.9\n";
        let error = |line: &str| read_text(&format!("{HEAD}{good}{line}")).unwrap_err();
        for (line, text) in [
            ("7,1,fox,lost,1", "3: 5 fields, expected 13"),
            (
                "x,1,fox,lost,1,2,3,4,5,6,7,8,0.9",
                "3: frame is `x`, expected a whole number",
            ),
            (
                "7,-1,fox,lost,1,2,3,4,5,6,7,8,0.9",
                "3: id is `-1`, expected a whole number",
            ),
            (
                "7,1,fox,seen,1,2,3,4,5,6,7,8,0.9",
                "3: state is `seen`, expected tentative, tracked, lost, visible or partial",
            ),
            (
                "7,1,,lost,1,2,3,4,5,6,7,8,0.9",
                "3: name is empty, expected the logo's name",
            ),
            (
                "7,1,fox,lost,1,2,3,nan,5,6,7,8,0.9",
                "3: y1 is `nan`, expected a place in pixels",
            ),
            (
                "7,1,fox,lost,1,2,3,4,5,6,7,8,1.9",
                "3: confidence is `1.9`, expected 0 to 1",
            ),
        ] {
            assert_eq!(error(line), text);
        }
        let header = read_text("frame,id\n").unwrap_err();
        assert!(header.starts_with("1: header is `frame,id`, expected `frame,"));
        assert!(read_text("").unwrap_err().starts_with("1: header is ``"));
    }
}
