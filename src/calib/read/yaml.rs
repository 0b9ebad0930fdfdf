//! A bounded tree of YAML with line numbers, and what calibrations hold in it: numbers, lists,
//! matrices.
use std::path::Path;

use saphyr_parser::{Event, Parser, Span};

use crate::calib::CalibError;

/// Nesting of the deepest known format is 4.
const DEPTH: usize = 16;
/// Values in a file; the largest known calibrations hold some hundreds.
const NODES: usize = 100_000;

#[derive(Debug)]
pub(super) struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A mapping of a file: the place where keys are looked up.
#[derive(Clone, Copy)]
pub(super) struct Doc<'a> {
    pub file: &'a Path,
    pub node: &'a Node,
    /// Keys above it, for messages: `cam0.`
    pub prefix: &'a str,
}

/// A found value with the name to use in messages.
pub(super) struct Entry<'a> {
    pub file: &'a Path,
    pub label: String,
    pub node: &'a Node,
}

/// Numbers and, where the file states it, their shape.
pub(super) struct Numbers {
    pub data: Vec<f64>,
    pub shape: Option<(usize, usize)>,
}

/// The first document that is not empty.
pub(super) fn parse(file: &Path, text: &str) -> Result<Node, CalibError> {
    // Directives: OpenCV writes `%YAML:1.0`, which is none. Tags such as `!!opencv-matrix` need
    // none of them.
    let plain: String = text
        .split_inclusive('\n')
        .map(|line| if line.starts_with('%') { "\n" } else { line })
        .collect();
    let mut parser = Parser::new_from_str(&plain);
    let mut builder = Builder {
        file,
        open: Vec::new(),
        root: None,
        nodes: 0,
    };
    while builder.root.is_none() {
        match parser.next_event() {
            None => break,
            Some(Ok((event, span))) => builder.event(event, span)?,
            Some(Err(e)) => {
                return Err(builder.error(
                    e.marker().line(),
                    e.info().to_string(),
                    "well-formed YAML",
                ));
            }
        }
    }
    builder.root.ok_or_else(|| CalibError::UnknownFormat {
        file: file.into(),
        found: "an empty file".into(),
    })
}

struct Builder<'a> {
    file: &'a Path,
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
}

enum Open {
    List(usize, Vec<Node>),
    /// Line, pairs, and the key whose value comes next.
    Map(usize, Vec<(String, Node)>, Option<String>),
}

impl Builder<'_> {
    fn error(&self, line: usize, found: impl Into<String>, expected: &str) -> CalibError {
        CalibError::Syntax {
            file: self.file.into(),
            line,
            found: found.into(),
            expected: expected.into(),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), CalibError> {
        let line = span.start.line();
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Alias(_) => Err(self.error(line, "an alias", "plain values")),
            Event::Scalar(text, ..) => {
                // An empty document is one empty scalar.
                if self.open.is_empty() && (text.is_empty() || text == "~") {
                    return Ok(());
                }
                self.close(Node {
                    line,
                    value: Value::Scalar(text.into_owned()),
                })
            }
            Event::SequenceStart(..) => self.begin(line, Open::List(line, Vec::new())),
            Event::MappingStart(..) => self.begin(line, Open::Map(line, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(line, items)) => self.close(Node {
                    line,
                    value: Value::List(items),
                }),
                Some(Open::Map(line, pairs, _)) => self.close(Node {
                    line,
                    value: Value::Map(pairs),
                }),
                None => Ok(()),
            },
        }
    }

    fn begin(&mut self, line: usize, open: Open) -> Result<(), CalibError> {
        if self.open.len() >= DEPTH {
            return Err(self.error(
                line,
                format!("more than {DEPTH} levels of nesting"),
                "a calibration",
            ));
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, node: Node) -> Result<(), CalibError> {
        self.nodes += 1;
        if self.nodes > NODES {
            let found = format!("more than {NODES} values");
            return Err(self.error(node.line, found, "a calibration"));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, pairs, key)) => match key.take() {
                Some(key) => pairs.push((key, node)),
                None => {
                    let Value::Scalar(name) = node.value else {
                        return Err(self.error(node.line, "a list or mapping as key", "a name"));
                    };
                    if pairs.iter().any(|(k, _)| *k == name) {
                        let found = format!("key {name} for the second time");
                        return Err(self.error(node.line, found, "each key once"));
                    }
                    *key = Some(name);
                }
            },
        }
        Ok(())
    }
}

impl<'a> Doc<'a> {
    /// The value of the first of these names that is there; a value of `null` is not.
    pub fn find(&self, names: &[&str]) -> Option<Entry<'a>> {
        let Value::Map(pairs) = &self.node.value else {
            return None;
        };
        let there = |node: &Node| !matches!(&node.value, Value::Scalar(s) if s.is_empty() || s == "~" || s == "null");
        names.iter().find_map(|name| {
            let (key, node) = pairs.iter().find(|(k, node)| k == name && there(node))?;
            Some(Entry {
                file: self.file,
                label: format!("{}{key} (line {})", self.prefix, node.line),
                node,
            })
        })
    }

    /// Whether any of these names is there.
    pub fn has(&self, names: &[&str]) -> bool {
        self.find(names).is_some()
    }

    /// As [`Doc::find`]; an error names the first.
    pub fn need(&self, names: &[&str], expected: &str) -> Result<Entry<'a>, CalibError> {
        self.find(names).ok_or_else(|| {
            CalibError::missing(self.file, format!("{}{}", self.prefix, names[0]), expected)
        })
    }

    /// The keys, for messages.
    pub fn keys(&self) -> Vec<&'a str> {
        match &self.node.value {
            Value::Map(pairs) => pairs.iter().map(|(k, _)| k.as_str()).collect(),
            _ => Vec::new(),
        }
    }
}

impl<'a> Entry<'a> {
    pub fn error(&self, found: impl Into<String>, expected: impl Into<String>) -> CalibError {
        CalibError::value(self.file, self.label.clone(), found, expected)
    }

    pub fn text(&self) -> Result<&'a str, CalibError> {
        match &self.node.value {
            Value::Scalar(s) => Ok(s),
            other => Err(self.error(other.kind(), "a word")),
        }
    }

    pub fn number(&self) -> Result<f64, CalibError> {
        scalar(self.text()?).map_err(|found| self.error(found, "a finite number"))
    }

    /// A whole number of at most 65,535.
    pub fn count(&self) -> Result<usize, CalibError> {
        let expected = "a whole number from 1 to 65535";
        let number = self.number()?;
        let whole = number.fract() == 0.0 && (1.0..=65_535.0).contains(&number);
        whole
            .then_some(number as usize)
            .ok_or_else(|| self.error(number.to_string(), expected))
    }

    /// A list (of lists) of numbers, or a matrix with `rows`, `cols` and `data`.
    pub fn numbers(&self) -> Result<Numbers, CalibError> {
        let Value::Map(_) = &self.node.value else {
            let mut data = Vec::new();
            self.flatten(self.node, &mut data)?;
            return Ok(Numbers {
                data,
                shape: self.shape_of_lists(),
            });
        };
        let doc = Doc {
            file: self.file,
            node: self.node,
            prefix: "",
        };
        let mut data = Vec::new();
        match doc.find(&["data"]) {
            Some(list) => self.flatten(list.node, &mut data)?,
            None => return Err(self.error("a mapping without data", "rows, cols and data")),
        }
        let side = |name: &str| -> Result<Option<usize>, CalibError> {
            let Some(entry) = doc.find(&[name]) else {
                return Ok(None);
            };
            let text = entry.text()?;
            let expected = || self.error(format!("{name} {text}"), "a whole number");
            text.parse().map(Some).map_err(|_| expected())
        };
        let shape = match (side("rows")?, side("cols")?) {
            (Some(rows), Some(cols)) => {
                if rows.checked_mul(cols) != Some(data.len()) {
                    return Err(self.error(
                        format!("{} numbers", data.len()),
                        format!("{rows} x {cols} of them"),
                    ));
                }
                Some((rows, cols))
            }
            _ => None,
        };
        Ok(Numbers { data, shape })
    }

    /// Exactly `N` numbers in any shape.
    pub fn vector<const N: usize>(&self) -> Result<[f64; N], CalibError> {
        let data = self.numbers()?.data;
        let found = format!("{} numbers", data.len());
        data.try_into()
            .map_err(|_| self.error(found, format!("{N} numbers")))
    }

    /// Exactly `rows` x `cols` = `N` numbers, row by row; the shape must fit where it is stated.
    pub fn matrix<const N: usize>(&self, rows: usize, cols: usize) -> Result<[f64; N], CalibError> {
        let Numbers { data, shape, .. } = self.numbers()?;
        let found = match shape {
            Some((r, c)) => format!("{r} x {c} numbers"),
            None => format!("{} numbers", data.len()),
        };
        let fits = shape.is_none_or(|s| s == (rows, cols));
        let expected = format!("{rows} x {cols} numbers");
        match data.try_into() {
            Ok(data) if fits => Ok(data),
            _ => Err(self.error(found, expected)),
        }
    }

    fn flatten(&self, node: &Node, data: &mut Vec<f64>) -> Result<(), CalibError> {
        match &node.value {
            Value::Scalar(text) => {
                data.push(scalar(text).map_err(|found| self.error(found, "finite numbers"))?);
                Ok(())
            }
            Value::List(items) => items.iter().try_for_each(|n| self.flatten(n, data)),
            Value::Map(_) => Err(self.error("a mapping inside a list", "numbers")),
        }
    }

    /// Rows and columns of a list of lists of equal length.
    fn shape_of_lists(&self) -> Option<(usize, usize)> {
        let Value::List(rows) = &self.node.value else {
            return None;
        };
        let length = |row: &Node| match &row.value {
            Value::List(items) => Some(items.len()),
            _ => None,
        };
        let cols = length(rows.first()?)?;
        rows.iter()
            .all(|row| length(row) == Some(cols))
            .then_some((rows.len(), cols))
    }
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Scalar(_) => "a word",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// A finite number, or what stands there instead.
pub(super) fn scalar(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(excerpt(text)),
    }
}

/// The start of a text that a message quotes.
pub(super) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    format!("{short:?}")
}
