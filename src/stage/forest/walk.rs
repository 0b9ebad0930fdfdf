//! How pixels find their leaves.
//!
//! A tile of pixels goes down a tree together, node by node: what is asked at a node is worked out
//! once for all pixels of the tile that are there, and what they read lies close together. Where a
//! response is made of eight entries of the sum tables ([`Corners`]) and all of them lie inside
//! for the whole tile, they are read at fixed distances from the pixel's own; else the feature is
//! asked pixel by pixel, with the same result. Pixels go from one list to another and back: left
//! ones from the front, right ones from behind.
use std::ops::Range;

use super::{
    LEAF, Node, ParamsError, Planes, Theta, Tree,
    corners::{Corners, Judged},
    feature::{Feature, INVALID},
};
use crate::frame::Size;

/// A split, or a leaf of the whole forest with [`AT_LEAF`] set.
pub(super) type At = u32;

/// Set where an [`At`] is a leaf.
pub(super) const AT_LEAF: u32 = 1 << 31;

/// Cells of a tile, across and down: the more, the more pixels are together at a node; the fewer,
/// the closer what they read.
pub(super) const TILE: Size = Size::new(128, 32);

/// Pixels from which on it pays to find first what all of them read.
const MANY: usize = 12;

/// A node with where its left and its right side lead, so that a leaf is known without a look
/// at it.
pub(super) struct Split {
    corners: Option<Corners>,
    theta: Theta,
    tau: i32,
    sides: [At; 2],
    /// Whether all pixels go right for which not all corners lie inside.
    rest_goes_right: bool,
}

/// The trees of a forest, for images of one size.
#[derive(Default)]
pub(super) struct Trees {
    splits: Vec<Split>,
    /// Where each tree begins.
    pub roots: Vec<At>,
}

impl Trees {
    /// Adds a tree's splits, in the order of its nodes.
    pub fn add<F: Feature>(
        &mut self,
        feature: &F,
        planes: &Planes,
        tree: &Tree,
        first_leaf: u32,
    ) -> Result<(), ParamsError> {
        // Of each node where it goes.
        let mut next = self.splits.len() as u64;
        let mut place = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            place.push(match node.leaf_number() {
                Some(leaf) => (first_leaf + leaf) | AT_LEAF,
                None => next as At,
            });
            next += u64::from(node.left != LEAF);
        }
        if next >= AT_LEAF.into() {
            let text = format!("{next} splits, expected fewer than {AT_LEAF}");
            return Err(ParamsError::Forest(text));
        }
        let split = |node: &Node| {
            let corners = feature.corners(planes, &node.theta);
            Split {
                rest_goes_right: corners.is_some_and(|c| c.are_all()) && node.tau < INVALID,
                corners,
                theta: node.theta,
                tau: node.tau,
                sides: [place[node.left as usize], place[node.left as usize + 1]],
            }
        };
        let inner = tree.nodes.iter().filter(|node| node.left != LEAF);
        self.splits.extend(inner.map(split));
        self.roots.push(place[0]);
        Ok(())
    }
}

/// A pixel of a tile on its way.
#[derive(Clone, Copy, Default)]
struct Pixel {
    /// Its entry of the first sum table.
    entry: u32,
    /// Its cell, in the tile.
    cell: u16,
}

/// What a tile needs while it is computed.
pub(super) struct Scratch {
    /// Pixels, and the list that they go to.
    lists: [Vec<Pixel>; 2],
    /// The leaf of each cell in each tree.
    pub leaves: Vec<At>,
}

impl Scratch {
    pub fn new(trees: usize) -> Self {
        let cells = TILE.area();
        Self {
            lists: [(); 2].map(|()| vec![Pixel::default(); cells]),
            leaves: vec![0; cells * trees],
        }
    }
}

/// A tile: the judged pixels' columns and rows.
pub(super) struct Tile<'a> {
    pub xs: &'a [i32],
    pub ys: &'a [i32],
}

impl Tile<'_> {
    /// The cells whose pixels are in some columns and rows, first and last.
    #[inline(always)]
    fn within(&self, [left, right, top, bottom]: [i32; 4]) -> [Range<usize>; 2] {
        let of = |list: &[i32], first: i32, last: i32| {
            if list.first().is_some_and(|&v| first <= v) && list.last().is_some_and(|&v| v <= last)
            {
                return 0..list.len();
            }
            let begin = list.partition_point(|&v| v < first);
            begin..list.partition_point(|&v| v <= last).max(begin)
        };
        [of(self.xs, left, right), of(self.ys, top, bottom)]
    }
}

/// Pixels on their way: where they lie, and in which of the lists.
#[derive(Clone, Copy)]
struct Group {
    at: At,
    begin: u32,
    end: u32,
    second: bool,
}

/// Most splits that wait: trees have fewer levels.
const STACK: usize = super::MAX_DEPTH as usize + 1;

impl Trees {
    /// The leaf of each pixel in each tree: `leaves[tree * area + cell]`, with [`AT_LEAF`] set;
    /// `area` and the rows of cells are those of a whole [`TILE`].
    pub fn walk<F: Feature>(
        &self,
        feature: &F,
        planes: &Planes,
        tile: &Tile<'_>,
        scratch: &mut Scratch,
    ) {
        let Scratch { lists, leaves } = scratch;
        let [first, second] = lists;
        let (columns, rows) = (tile.xs.len(), tile.ys.len());
        for (&root, leaves) in self.roots.iter().zip(leaves.chunks_exact_mut(TILE.area())) {
            for (row, &y) in tile.ys.iter().enumerate() {
                let entry = planes.entry(0, y);
                let pixels = &mut first[row * columns..][..columns];
                for ((to, &x), cell) in pixels.iter_mut().zip(tile.xs).zip(row * TILE.width..) {
                    *to = Pixel {
                        entry: entry + x as u32,
                        cell: cell as u16,
                    };
                }
            }
            // Right sides wait here until all left of them is done.
            let mut waiting = heapless::Vec::<Group, STACK>::new();
            let mut next = Some(Group {
                at: root,
                begin: 0,
                end: (columns * rows) as u32,
                second: false,
            });
            while let Some(group) = next {
                let range = group.begin as usize..group.end as usize;
                let (list, to) = if group.second {
                    (&second[range.clone()], &mut first[range])
                } else {
                    (&first[range.clone()], &mut second[range])
                };
                if group.at & AT_LEAF != 0 {
                    for pixel in list {
                        leaves[usize::from(pixel.cell)] = group.at;
                    }
                    next = waiting.pop();
                    continue;
                }
                let split = &self.splits[group.at as usize];
                let [l, r] = split.sides;
                let Some(left) = split.part(feature, planes, tile, list, to) else {
                    next = Some(Group { at: r, ..group });
                    continue;
                };
                let middle = group.begin + left as u32;
                let second = !group.second;
                let side = |at, begin, end| Group {
                    at,
                    begin,
                    end,
                    second,
                };
                let (left, right) = (side(l, group.begin, middle), side(r, middle, group.end));
                next = match (group.begin < middle, middle < group.end) {
                    (true, true) => {
                        // As deep as the tree at most, which has room.
                        let _ = waiting.push(right);
                        Some(left)
                    }
                    (true, false) => Some(left),
                    _ => Some(right),
                };
            }
        }
    }
}

impl Split {
    /// Parts pixels into those that go left and those that go right; how many go left. `None`
    /// where all go right and nothing was done.
    #[inline(always)]
    fn part<F: Feature>(
        &self,
        feature: &F,
        planes: &Planes,
        tile: &Tile<'_>,
        list: &[Pixel],
        to: &mut [Pixel],
    ) -> Option<usize> {
        let ask = |p: Pixel| {
            let cell = usize::from(p.cell);
            let (x, y) = (tile.xs[cell % TILE.width], tile.ys[cell / TILE.width]);
            feature.response(planes, &self.theta, x, y) > self.tau
        };
        let Some(corners) = &self.corners else {
            return Some(part(list, to, ask));
        };
        let limit = corners.limit(self.tau);
        let [columns, rows] = tile.within(corners.reach());
        if columns.is_empty() || rows.is_empty() {
            return (!self.rest_goes_right).then(|| part(list, to, ask));
        }
        if columns.len() == tile.xs.len() && rows.len() == tile.ys.len() {
            if list.len() < MANY {
                return Some(corners.judged(planes, limit, Inside { list, to }));
            }
            let first = planes.entry(tile.xs[0], tile.ys[0]);
            let last = planes.entry(tile.xs[columns.end - 1], tile.ys[rows.end - 1]);
            let among = (first, (last - first) as usize + 1);
            return Some(corners.judged_among(planes, limit, among, Inside { list, to }));
        }
        let (across, down) = (columns.len(), rows.len());
        let ask = |p: Pixel| {
            let cell = usize::from(p.cell);
            let (column, row) = (cell % TILE.width, cell / TILE.width);
            let inside =
                column.wrapping_sub(columns.start) < across && row.wrapping_sub(rows.start) < down;
            (!inside).then(|| self.rest_goes_right || ask(p))
        };
        Some(corners.judged(planes, limit, Partly { list, to, ask }))
    }
}

/// Parts pixels whose regions lie inside.
struct Inside<'a> {
    list: &'a [Pixel],
    to: &'a mut [Pixel],
}

impl Judged<usize> for Inside<'_> {
    #[inline(always)]
    fn with(self, above: impl Fn(u32) -> bool) -> usize {
        part(self.list, self.to, |p| above(p.entry))
    }
}

/// Parts pixels of which some have to be asked.
struct Partly<'a, A> {
    list: &'a [Pixel],
    to: &'a mut [Pixel],
    /// Says nothing of a pixel whose regions lie inside.
    ask: A,
}

impl<A: Fn(Pixel) -> Option<bool>> Judged<usize> for Partly<'_, A> {
    #[inline(always)]
    fn with(self, above: impl Fn(u32) -> bool) -> usize {
        part(self.list, self.to, |p| {
            (self.ask)(p).unwrap_or_else(|| above(p.entry))
        })
    }
}

/// Brings the pixels that go left to the front and those that go right to the end, in turned
/// order; returns how many go left.
#[inline(always)]
fn part(list: &[Pixel], to: &mut [Pixel], goes_right: impl Fn(Pixel) -> bool) -> usize {
    let (mut left, n) = (0, list.len());
    let to = &mut to[..n];
    for (i, &pixel) in list.iter().enumerate() {
        let goes = goes_right(pixel);
        // Both, so that nothing has to be guessed; the one that is wrong is written over.
        to[left] = pixel;
        to[n - 1 - (i - left)] = pixel;
        left += usize::from(!goes);
    }
    left
}
