//! Reading `stixels.csv`.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{EvaluateError, lines};
use crate::{files, frame::Class};

/// The columns that the table must have, in this order.
pub const HEADER: [&str; 11] = [
    "frame",
    "column",
    "x",
    "width",
    "class",
    "top",
    "base",
    "disparity_px",
    "depth_m",
    "height_m",
    "confidence",
];

/// One stixel of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub class: Class,
    /// First image row.
    pub top: u16,
    /// Last image row, inclusive.
    pub base: u16,
    /// Mean disparity, px, where measured.
    pub disparity_px: Option<f64>,
    /// Depth, m, where there is one.
    pub depth_m: Option<f64>,
    /// 0 to 1.
    pub confidence: f64,
}

/// One frame's stixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameStixels {
    /// Width of a column, px; column `u` begins at `u * width`.
    pub width: u32,
    /// The columns that have stixels, by number, each from top to bottom. (Not a list: a table
    /// with one high number in it must not take the memory of all columns before.)
    lists: BTreeMap<u32, Vec<Row>>,
}

impl FrameStixels {
    /// Columns up to the last one that has stixels.
    pub fn columns(&self) -> usize {
        self.lists.keys().next_back().map_or(0, |&u| u as usize + 1)
    }

    /// The stixels of column `u`, top to bottom.
    pub fn column(&self, u: usize) -> &[Row] {
        let list = u32::try_from(u).ok().and_then(|u| self.lists.get(&u));
        list.map_or(&[], Vec::as_slice)
    }

    /// The columns that have stixels, from the left.
    pub fn lists(&self) -> impl Iterator<Item = (usize, &[Row])> + '_ {
        self.lists
            .iter()
            .map(|(&u, list)| (u as usize, list.as_slice()))
    }
}

/// A whole table, by frame number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StixelTable {
    /// Where it was read.
    pub path: PathBuf,
    /// Its frames.
    pub frames: BTreeMap<u64, FrameStixels>,
}

/// Reads a table, from the file itself or the folder that holds it.
///
/// # Errors
/// When it can't be read, or a line is not as [`HEADER`] and the format say, with its number.
pub fn read(path: &Path) -> Result<StixelTable, EvaluateError> {
    let path = if path.is_dir() {
        path.join("stixels.csv")
    } else {
        path.into()
    };
    let mut table = StixelTable {
        path: path.clone(),
        frames: BTreeMap::new(),
    };
    lines::read(&path, files::MAX_STIXELS, &HEADER, |record| {
        add(&mut table, record)
    })?;
    Ok(table)
}

fn add(table: &mut StixelTable, record: &csv::StringRecord) -> Result<(), String> {
    let whole = |i: usize, most: u64| -> Result<u64, String> {
        record[i]
            .parse::<u64>()
            .ok()
            .filter(|&v| v <= most)
            .ok_or_else(|| {
                let expected = if most == u64::MAX {
                    "a whole number".into()
                } else {
                    format!("a whole number up to {most}")
                };
                format!("{} is `{}`, expected {expected}", HEADER[i], &record[i])
            })
    };
    let number = |i: usize| -> Result<Option<f64>, String> {
        if record[i].is_empty() {
            return Ok(None);
        }
        match record[i].parse::<f64>() {
            Ok(v) if v.is_finite() && v >= 0.0 => Ok(Some(v)),
            _ => Err(format!(
                "{} is `{}`, expected a number, 0 or more, or nothing",
                HEADER[i], &record[i]
            )),
        }
    };
    let frame = whole(0, u64::MAX)?;
    let column = whole(1, 65535)?;
    let x = whole(2, 65535)?;
    let width = whole(3, 65535)?;
    let class = match &record[4] {
        "ground" => Class::Ground,
        "object" => Class::Object,
        "sky" => Class::Sky,
        other => {
            return Err(format!(
                "class is `{other}`, expected ground, object or sky"
            ));
        }
    };
    let (top, base) = (whole(5, 65535)? as u16, whole(6, 65535)? as u16);
    if top > base {
        return Err(format!("top is {top}, expected at most base, {base}"));
    }
    let row = Row {
        class,
        top,
        base,
        disparity_px: number(7)?,
        depth_m: number(8)?,
        confidence: number(10)?.unwrap_or(0.0),
    };
    number(9)?;
    if width == 0 || x != column * width {
        return Err(format!(
            "x is {x}, expected column * width, {column} * {width}"
        ));
    }
    let stixels = table.frames.entry(frame).or_insert_with(|| FrameStixels {
        width: width as u32,
        lists: BTreeMap::new(),
    });
    if u64::from(stixels.width) != width {
        return Err(format!(
            "width is {width}, expected {} as in the frame's first line",
            stixels.width
        ));
    }
    let list = stixels.lists.entry(column as u32).or_default();
    if let Some(last) = list.last()
        && top <= last.base
    {
        return Err(format!(
            "top is {top}, expected more than {}, the base of the stixel above",
            last.base
        ));
    }
    list.push(row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<StixelTable, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stixels.csv");
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

    const HEAD: &str =
        "frame,column,x,width,class,top,base,disparity_px,depth_m,height_m,confidence\n";

    #[test]
    fn a_table_is_read() {
        let text = format!(
            "{HEAD}7,0,0,5,sky,0,9,,,,0.5\n7,0,0,5,object,10,19,12.5000,30.39,1.20,0.900\n\
             7,2,10,5,ground,3,4,1.0000,,0.00,1.000\n"
        );
        let table = read_text(&text).unwrap();
        assert_eq!(table.frames.len(), 1);
        let frame = &table.frames[&7];
        assert_eq!((frame.width, frame.columns()), (5, 3));
        assert_eq!(
            frame.column(0),
            [
                Row {
                    class: Class::Sky,
                    top: 0,
                    base: 9,
                    disparity_px: None,
                    depth_m: None,
                    confidence: 0.5
                },
                Row {
                    class: Class::Object,
                    top: 10,
                    base: 19,
                    disparity_px: Some(12.5),
                    depth_m: Some(30.39),
                    confidence: 0.9
                },
            ]
        );
        assert!(frame.column(1).is_empty() && frame.column(9).is_empty());
        assert_eq!(frame.column(2)[0].class, Class::Ground);
        assert!(read_text(HEAD).unwrap().frames.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let good = "7,0,0,5,sky,0,9,,,,0.5\n";
        let error = |line: &str| read_text(&format!("{HEAD}{good}{line}")).unwrap_err();
        for (line, text) in [
            ("7,0,0,5,sky,10", "3: 6 fields, expected 11"),
            (
                "x,0,0,5,sky,10,19,,,,1",
                "3: frame is `x`, expected a whole number",
            ),
            (
                "7,1,5,5,tree,0,9,,,,1",
                "3: class is `tree`, expected ground, object or sky",
            ),
            (
                "7,1,5,5,sky,9,8,,,,1",
                "3: top is 9, expected at most base, 8",
            ),
            (
                "7,1,5,5,sky,0,70000,,,,1",
                "3: base is `70000`, expected a whole number up to 65535",
            ),
            (
                "7,1,6,5,sky,0,9,,,,1",
                "3: x is 6, expected column * width, 1 * 5",
            ),
            (
                "7,1,8,8,sky,0,9,,,,1",
                "3: width is 8, expected 5 as in the frame's first line",
            ),
            (
                "7,0,0,5,ground,9,12,,,,1",
                "3: top is 9, expected more than 9, the base of the stixel above",
            ),
            (
                "7,1,5,5,sky,0,9,nan,,,1",
                "3: disparity_px is `nan`, expected a number, 0 or more, or nothing",
            ),
        ] {
            assert_eq!(error(line), text);
        }
        let header = read_text("frame,column\n").unwrap_err();
        assert!(
            header.starts_with("1: header is `frame,column`, expected `frame,"),
            "{header}"
        );
        assert!(read_text("").unwrap_err().starts_with("1: header is ``"));
    }

    #[test]
    fn a_missing_table_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(
            error.to_string().contains("stixels.csv: No such file"),
            "{error}"
        );
        assert_eq!(error.exit_status(), 66);
    }
}
