//! What label pictures mean.
use std::{collections::HashMap, path::Path};

use super::DataError;
use crate::{
    files,
    frame::Image,
    picture::Picture,
    stage::forest::{Class, MAX_CLASSES},
    training::samples::VOID,
};

/// Names of "no class", besides those that the user gives.
const VOID_NAMES: [&str; 6] = [
    "void",
    "unlabelled",
    "unlabeled",
    "unlabel",
    "background-void",
    "ignore",
];

/// MSRC-v2's classes by index: names and colours of its ground truth.
pub const MSRC2: [(&str, [u8; 3]); 24] = [
    ("void", [0, 0, 0]),
    ("building", [128, 0, 0]),
    ("grass", [0, 128, 0]),
    ("tree", [128, 128, 0]),
    ("cow", [0, 0, 128]),
    ("horse", [128, 0, 128]),
    ("sheep", [0, 128, 128]),
    ("sky", [128, 128, 128]),
    ("mountain", [64, 0, 0]),
    ("aeroplane", [192, 0, 0]),
    ("water", [64, 128, 0]),
    ("face", [192, 128, 0]),
    ("car", [64, 0, 128]),
    ("bicycle", [192, 0, 128]),
    ("flower", [64, 128, 128]),
    ("sign", [192, 128, 128]),
    ("bird", [0, 64, 0]),
    ("book", [128, 64, 0]),
    ("chair", [0, 192, 0]),
    ("road", [128, 64, 128]),
    ("cat", [0, 192, 128]),
    ("dog", [128, 192, 128]),
    ("body", [64, 64, 0]),
    ("boat", [192, 64, 0]),
];

/// CamVid's classes by index, as its version of 11 classes numbers them; colours for people.
pub const CAMVID: [(&str, [u8; 3]); 12] = [
    ("sky", [128, 128, 128]),
    ("building", [128, 0, 0]),
    ("pole", [192, 192, 128]),
    ("road", [128, 64, 128]),
    ("pavement", [60, 40, 222]),
    ("tree", [128, 128, 0]),
    ("sign", [192, 128, 128]),
    ("fence", [64, 64, 128]),
    ("car", [64, 0, 128]),
    ("pedestrian", [64, 64, 0]),
    ("bicyclist", [0, 128, 192]),
    ("void", [0, 0, 0]),
];

/// Classes with their indices and colours, and which of them are void.
#[derive(Clone, Debug)]
pub struct ClassTable {
    trained: Vec<Class>,
    void: Vec<Class>,
    /// By index: `None` unknown, `Some(VOID)` void, else the class counted from 0.
    by_index: [Option<u8>; 256],
    by_colour: HashMap<[u8; 3], u8>,
    /// What the table is called in errors.
    origin: String,
}

impl ClassTable {
    /// A table of what is built in.
    pub fn built_in(
        list: &[(&str, [u8; 3])],
        origin: &str,
        void: &[String],
    ) -> Result<Self, DataError> {
        let classes = (0..).zip(list).map(|(index, &(name, colour))| Class {
            index,
            name: name.into(),
            colour,
        });
        Self::new(classes.collect(), origin.into(), void)
    }

    /// Reads a `classes.csv`.
    ///
    /// # Errors
    /// When it can't be read, lacks a column or has a wrong line.
    pub fn read(path: &Path, void: &[String]) -> Result<Self, DataError> {
        let file = files::open(path, files::MAX_SETTINGS).map_err(DataError::io(path))?;
        let wrong = |line: u64, what: String| DataError::Line {
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
        let find = |names: &[&str]| {
            header
                .iter()
                .position(|h| names.contains(&h))
                .ok_or_else(|| {
                    let found: Vec<&str> = header.iter().collect();
                    let names = names.join(" or ");
                    wrong(
                        1,
                        format!(
                            "columns are `{}`, expected one called {names}",
                            found.join(",")
                        ),
                    )
                })
        };
        let columns = [
            find(&["index", "id"])?,
            find(&["r"])?,
            find(&["g"])?,
            find(&["b"])?,
        ];
        let name = find(&["name"])?;
        let mut classes = Vec::new();
        for record in reader.records() {
            let record = record.map_err(csv_error)?;
            let line = record.position().map_or(1, csv::Position::line);
            let mut numbers = [0u8; 4];
            for (to, column) in numbers.iter_mut().zip(columns) {
                *to = record[column].parse().map_err(|_| {
                    let (key, found) = (&header[column], &record[column]);
                    wrong(
                        line,
                        format!("{key} is `{found}`, expected a whole number up to 255"),
                    )
                })?;
            }
            let [index, r, g, b] = numbers;
            classes.push(Class {
                index,
                name: record[name].into(),
                colour: [r, g, b],
            });
        }
        Self::new(classes, path.display().to_string(), void)
    }

    fn new(mut classes: Vec<Class>, origin: String, void: &[String]) -> Result<Self, DataError> {
        classes.sort_by_key(|c| c.index);
        let twice = classes.windows(2).find(|w| w[0].index == w[1].index);
        if let Some(pair) = twice {
            let what = format!("index {} for the second time", pair[0].index);
            return Err(DataError::content(Path::new(&origin), what));
        }
        let same = |a: &Class, b: &Class| a.name.eq_ignore_ascii_case(&b.name);
        let named = |(i, class): (usize, &Class)| classes[..i].iter().any(|c| same(c, class));
        if let Some((_, class)) = (classes.iter().enumerate()).find(|&(i, class)| named((i, class)))
        {
            let what = format!("a class called {} for the second time", class.name);
            return Err(DataError::content(Path::new(&origin), what));
        }
        let known = |name: &str| classes.iter().any(|c| c.name.eq_ignore_ascii_case(name));
        if let Some(name) = void.iter().find(|name| !known(name)) {
            let names: Vec<&str> = classes.iter().map(|c| c.name.as_str()).collect();
            return Err(DataError::Option(format!(
                "{origin}: no class is called {name}; expected one of {}",
                names.join(", ")
            )));
        }
        let is_void = |class: &Class| {
            let same = |name: &str| name.eq_ignore_ascii_case(&class.name);
            VOID_NAMES.iter().any(|n| same(n)) || void.iter().any(|n| same(n))
        };
        let (void, trained): (Vec<Class>, Vec<Class>) = classes.into_iter().partition(is_void);
        if trained.is_empty() || trained.len() > MAX_CLASSES {
            let n = trained.len();
            let what = format!("{n} classes besides void, expected 1 to {MAX_CLASSES}");
            return Err(DataError::content(Path::new(&origin), what));
        }
        let mut by_index = [None; 256];
        let mut by_colour = HashMap::new();
        let numbered = (0u8..).zip(&trained);
        for (number, class) in void.iter().map(|c| (VOID, c)).chain(numbered) {
            by_index[usize::from(class.index)] = Some(number);
            if let Some(other) = by_colour.insert(class.colour, number)
                && other != number
            {
                // Labels that are indices do without colours: told when a colour is looked up.
                by_colour.insert(class.colour, AMBIGUOUS);
            }
        }
        Ok(Self {
            trained,
            void,
            by_index,
            by_colour,
            origin,
        })
    }

    /// The classes that are learnt, by rising index.
    pub fn trained(&self) -> &[Class] {
        &self.trained
    }

    /// Those that count as void.
    pub fn void(&self) -> &[Class] {
        &self.void
    }

    /// The value for "no class" in label pictures: that of the first void class, else the
    /// largest that no class has.
    pub fn void_index(&self) -> u8 {
        let free = || {
            (0..=255u8)
                .rev()
                .find(|&i| self.by_index[usize::from(i)].is_none())
        };
        self.void
            .first()
            .map(|c| c.index)
            .or_else(free)
            .unwrap_or(0)
    }

    /// Classes counted from 0 of a label picture; [`VOID`] where there is none.
    ///
    /// # Errors
    /// When a value is not in the table, or the picture is of another kind.
    pub fn decode(&self, picture: &Picture, path: &Path) -> Result<Image<u8>, DataError> {
        let (w, h) = (picture.size().width, picture.size().height);
        let mut out = Image::filled(w, h, VOID);
        let wrong = |value: &dyn std::fmt::Debug, x: usize, y: usize| {
            let what = format!(
                "label {value:?} at ({x}, {y}) is of no class, or of several, in {}",
                self.origin
            );
            DataError::content(path, what)
        };
        for (y, row) in out.rows_mut().enumerate() {
            match picture {
                Picture::Grey8(p) => {
                    for (x, (to, &v)) in row.iter_mut().zip(p.row(y)).enumerate() {
                        *to = self.by_index[usize::from(v)].ok_or_else(|| wrong(&v, x, y))?;
                    }
                }
                Picture::Rgb8(p) => {
                    for (x, (to, colour)) in row.iter_mut().zip(p.row(y)).enumerate() {
                        let class = self.by_colour.get(colour).copied();
                        let class = class.filter(|&c| c != AMBIGUOUS);
                        *to = class.ok_or_else(|| wrong(colour, x, y))?;
                    }
                }
                Picture::Grey16(_) => {
                    let what = "16-bit grey, expected 8-bit indices or colours";
                    return Err(DataError::content(path, what));
                }
            }
        }
        Ok(out)
    }
}

/// A colour of several classes. Numbers of classes end at 254 - 1.
const AMBIGUOUS: u8 = 254;

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(values: &[u8]) -> Picture {
        Picture::Grey8(Image::from_vec(values.len(), 1, values.to_vec()).unwrap())
    }

    #[test]
    fn indices_and_colours_mean_the_same() {
        let void = ["horse".into(), "Mountain".into()];
        let table = ClassTable::built_in(&MSRC2, "MSRC-v2", &void).unwrap();
        assert_eq!(table.trained().len(), 21);
        assert_eq!(table.void_index(), 0);
        let path = Path::new("a.png");
        let indices: Vec<u8> = (0..24).collect();
        let a = table.decode(&picture(&indices), path).unwrap();
        let colours = MSRC2.iter().map(|c| c.1).collect();
        let colours = Picture::Rgb8(Image::from_vec(24, 1, colours).unwrap());
        assert_eq!(a, table.decode(&colours, path).unwrap());
        assert_eq!(a.row(0)[..9], [VOID, 0, 1, 2, 3, VOID, 4, 5, VOID]);
        let error = table.decode(&picture(&[1, 99]), path).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.png: label 99 at (1, 0) is of no class, or of several, in MSRC-v2"
        );
    }

    #[test]
    fn wrong_tables_are_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("classes.csv");
        let text = |csv: &str, void: &[String]| {
            std::fs::write(&path, csv).unwrap();
            ClassTable::read(&path, void).unwrap_err().to_string()
        };
        assert!(text("a,b\n1,2\n", &[]).contains(":1: columns are `a,b`"));
        assert!(text("id,name,r,g,b\n1,x,0,0,300\n", &[]).contains(":2: b is `300`"));
        assert!(text("id,name,r,g,b\n1,x,0,0,3\n1,y,0,0,4\n", &[]).contains("second time"));
        let twice = text("id,name,r,g,b\n1,x,0,0,3\n2,X,0,0,4\n", &[]);
        assert!(twice.contains("a class called X for the second time"));
        assert!(text("id,name,r,g,b\n0,void,0,0,3\n", &[]).contains("0 classes besides void"));
        let gone = text("id,name,r,g,b\n1,x,0,0,3\n", &["y".into()]);
        assert!(gone.contains("no class is called y; expected one of x"));
    }
}
