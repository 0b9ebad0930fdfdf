//! What each pixel shows.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Image, Size};

/// A class of labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelClass {
    /// Its value in label pictures.
    pub index: u8,
    /// Its name.
    pub name: String,
    /// Its colour in pictures for people.
    pub colour: [u8; 3],
}

/// The classes of a drive's labels; results of all frames share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelTable {
    /// By rising index.
    pub classes: Vec<LabelClass>,
    /// The value of "no class".
    pub void: u8,
}

impl LabelTable {
    /// The colour of each value of a label picture; void and what is no class are black.
    pub fn palette(&self) -> [[u8; 3]; 256] {
        let mut palette = [[0; 3]; 256];
        for class in &self.classes {
            palette[usize::from(class.index)] = class.colour;
        }
        palette
    }
}

/// Whether labels mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelState {
    /// The labels are valid.
    Valid,
    /// Invalid: there was no picture, or no time; all are void.
    #[default]
    Skipped,
}

impl LabelState {
    /// All states.
    pub const ALL: [Self; 2] = [Self::Valid, Self::Skipped];

    /// The name in results and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Skipped => "skipped",
        }
    }
}

/// The labels of one frame, on a grid: one for each cell of `step` x `step` pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Whether they are valid, and if not, why.
    pub state: LabelState,
    /// Pixels of a cell, in x and y; cells at the right and lower border may be cut.
    pub step: u32,
    /// The size of the image that they belong to, px.
    pub size: Size,
    /// The class's index in label pictures, or that of void.
    pub labels: Image<u8>,
    /// The winner's posterior, 1/65535; 0 of void.
    pub confidence: Image<u16>,
    /// The posteriors of all classes in the order of the table, cell after cell, row by row,
    /// 1/65535; empty unless wanted.
    pub posteriors: Vec<u16>,
    /// What labels mean.
    pub table: Arc<LabelTable>,
}

impl Labels {
    /// Labels to come, of images of `size`; `posteriors` makes room for those of all classes.
    pub fn new(size: Size, step: u32, posteriors: bool, table: Arc<LabelTable>) -> Self {
        let grid = Self::grid(size, step);
        let posteriors = if posteriors {
            grid.area() * table.classes.len()
        } else {
            0
        };
        Self {
            state: LabelState::default(),
            step,
            size,
            labels: Image::filled(grid.width, grid.height, table.void),
            confidence: Image::new(grid.width, grid.height),
            posteriors: vec![0; posteriors],
            table,
        }
    }

    /// Cells across and down.
    pub fn grid(size: Size, step: u32) -> Size {
        let step = step.max(1) as usize;
        Size::new(size.width.div_ceil(step), size.height.div_ceil(step))
    }

    /// There was nothing to compute them from, or no time.
    pub fn skip(&mut self) {
        self.state = LabelState::Skipped;
        self.labels.fill(self.table.void);
        self.confidence.fill(0);
        self.posteriors.fill(0);
    }

    /// Takes everything from another of the same shape; allocates nothing.
    ///
    /// # Panics
    /// When the shapes differ.
    pub fn copy_from(&mut self, other: &Self) {
        self.state = other.state;
        self.step = other.step;
        self.size = other.size;
        self.labels.copy_from(&other.labels);
        self.confidence.copy_from(&other.confidence);
        self.posteriors.copy_from_slice(&other.posteriors);
        // Shapes have one table between them.
        if !Arc::ptr_eq(&self.table, &other.table) {
            self.table = Arc::clone(&other.table);
        }
    }

    /// A row of labels with one for each pixel of the image's row `y`.
    pub fn pixels(&self, y: usize) -> impl Iterator<Item = u8> + '_ {
        let step = self.step.max(1) as usize;
        let row = self.labels.row(y / step);
        (0..self.size.width).map(move |x| row[x / step])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Arc<LabelTable> {
        let class = |index, name: &str| LabelClass {
            index,
            name: name.into(),
            colour: [index; 3],
        };
        Arc::new(LabelTable {
            classes: vec![class(1, "road"), class(7, "sky")],
            void: 3,
        })
    }

    #[test]
    fn every_pixel_has_the_label_of_its_cell() {
        let mut labels = Labels::new(Size::new(5, 3), 2, true, table());
        assert_eq!(labels.labels.size(), Size::new(3, 2));
        assert_eq!(labels.posteriors.len(), 12);
        labels.labels.set(2, 1, 7);
        labels.labels.set(0, 1, 1);
        assert!(labels.pixels(1).eq([3; 5]));
        assert!(labels.pixels(2).eq([1, 1, 3, 3, 7]));
        let mut copy = Labels::new(Size::new(5, 3), 2, true, table());
        copy.copy_from(&labels);
        assert_eq!(copy, labels);
        copy.skip();
        assert!(copy.pixels(2).eq([3; 5]));
        let palette = table().palette();
        assert_eq!((palette[7], palette[3]), ([7; 3], [0; 3]));
    }
}
