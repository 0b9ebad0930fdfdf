use serde::{Deserialize, Serialize};

/// What a stixel is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(u8)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// On the road plane.
    #[default]
    Ground = 0,
    /// Upright, at one distance.
    Object = 1,
    /// Infinitely far.
    Sky = 2,
}

impl Class {
    /// The name in tables, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Ground => "ground",
            Class::Object => "object",
            Class::Sky => "sky",
        }
    }
}

/// A stick-like piece of one column: rows `top..=base` of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stixel {
    /// What it is.
    pub class: Class,
    /// First image row, inclusive.
    pub top: u16,
    /// Last image row, inclusive; `top <= base`.
    pub base: u16,
    /// Mean of the valid measurements, 1/256 px; [`super::INVALID`] without any.
    pub disparity: u16,
    /// 0 (a guess) to 255 (certain).
    pub confidence: u8,
}

/// The stixels of a frame: for each column a list from top to bottom that covers every row.
///
/// Memory is taken once: `columns * capacity` stixels. Equality and encoding see the lists
/// alone, never what lies behind their ends.
#[derive(Clone, Debug)]
pub struct Stixels {
    stixel_width: usize,
    capacity: usize,
    counts: Vec<u16>,
    items: Vec<Stixel>,
    overflowed: u32,
}

impl Stixels {
    /// Empty lists for `columns` columns of `stixel_width` px with up to `capacity` stixels each.
    pub fn new(columns: usize, stixel_width: usize, capacity: usize) -> Self {
        assert!(
            capacity <= usize::from(u16::MAX),
            "stixels a column: {capacity}"
        );
        Self {
            stixel_width,
            capacity,
            counts: vec![0; columns],
            items: vec![Stixel::default(); columns * capacity],
            overflowed: 0,
        }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.counts.len()
    }

    /// Width of a column, px; column `u` begins at pixel `u * stixel_width`.
    pub fn stixel_width(&self) -> usize {
        self.stixel_width
    }

    /// Stixels that a column can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The list of column `u`, top to bottom.
    pub fn column(&self, u: usize) -> &[Stixel] {
        &self.items[u * self.capacity..][..usize::from(self.counts[u])]
    }

    /// All stixels in all columns.
    pub fn total(&self) -> usize {
        self.counts.iter().map(|&n| usize::from(n)).sum()
    }

    /// Columns that were cut short because they had more stixels than `capacity`.
    pub fn overflowed(&self) -> u32 {
        self.overflowed
    }

    /// Sets the number of columns that were cut short.
    pub fn set_overflowed(&mut self, columns: u32) {
        self.overflowed = columns;
    }

    /// Empties every list.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.overflowed = 0;
    }

    /// Room and count of each column from the left, to be filled (in parallel, if wished).
    pub fn columns_mut(&mut self) -> (&mut [u16], std::slice::ChunksExactMut<'_, Stixel>) {
        (
            &mut self.counts,
            self.items.chunks_exact_mut(self.capacity.max(1)),
        )
    }

    /// Takes the lists of another of the same shape; allocates nothing.
    ///
    /// # Panics
    /// When the shapes differ.
    pub fn copy_from(&mut self, other: &Self) {
        assert_eq!(
            (self.columns(), self.capacity),
            (other.columns(), other.capacity),
            "copy between stixels of different shapes"
        );
        self.stixel_width = other.stixel_width;
        self.overflowed = other.overflowed;
        self.counts.copy_from_slice(&other.counts);
        self.items.copy_from_slice(&other.items);
    }
}

impl PartialEq for Stixels {
    fn eq(&self, other: &Self) -> bool {
        self.stixel_width == other.stixel_width
            && self.columns() == other.columns()
            && self.overflowed == other.overflowed
            && (0..self.columns()).all(|u| self.column(u) == other.column(u))
    }
}

impl Eq for Stixels {}

/// Encodes as the stixel width, the overflow count and the columns' lists.
impl Serialize for Stixels {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeTuple as _;
        let mut t = s.serialize_tuple(3)?;
        t.serialize_element(&(self.stixel_width as u32))?;
        t.serialize_element(&self.overflowed)?;
        t.serialize_element(&Lists(self))?;
        t.end()
    }
}

struct Lists<'a>(&'a Stixels);

impl Serialize for Lists<'_> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq((0..self.0.columns()).map(|u| self.0.column(u)))
    }
}
