//! How pixels find their leaves.
//!
//! A tile of pixels goes down a tree together, node by node: what is asked at a node is worked out
//! once for all pixels of the tile that are there, and what they read lies close together. Where a
//! response is made of eight entries of the sum tables ([`Corners`]) and all of them lie inside
//! for the whole tile, they are read at fixed distances from the pixel's own; else the feature is
//! asked pixel by pixel, with the same result.
use super::{
    LEAF, Node, ParamsError, Planes, Theta, Tree,
    corners::{Corners, Judged},
    feature::Feature,
};
use crate::frame::Size;

/// A split, or a leaf of the whole forest with [`AT_LEAF`] set.
pub(super) type At = u32;

/// Set where an [`At`] is a leaf.
pub(super) const AT_LEAF: u32 = 1 << 31;

/// Cells of a tile, across and down.
pub(super) const TILE: Size = Size::new(128, 16);

/// A node with where its left and its right side lead, so that a leaf is known without a look
/// at it.
pub(super) struct Split {
    corners: Option<Corners>,
    theta: Theta,
    tau: i32,
    sides: [At; 2],
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
        let split = |node: &Node| Split {
            corners: feature.corners(planes, &node.theta),
            theta: node.theta,
            tau: node.tau,
            sides: [place[node.left as usize], place[node.left as usize + 1]],
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
    pixels: Vec<Pixel>,
    /// Those that go right.
    right: Vec<Pixel>,
    /// The leaf of each cell in each tree.
    pub leaves: Vec<At>,
}

impl Scratch {
    pub fn new(trees: usize) -> Self {
        let cells = TILE.area();
        Self {
            pixels: vec![Pixel::default(); cells],
            right: vec![Pixel::default(); cells],
            leaves: vec![0; cells * trees],
        }
    }
}

/// A tile: the judged pixels' columns and rows.
pub(super) struct Tile<'a> {
    pub xs: &'a [i32],
    pub ys: &'a [i32],
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
        let Scratch {
            pixels,
            right,
            leaves,
        } = scratch;
        let ends = |list: &[i32]| [list[0], list[list.len() - 1]];
        let ([x0, x1], [y0, y1]) = (ends(tile.xs), ends(tile.ys));
        let cells = tile.xs.len() * tile.ys.len();
        for (&root, leaves) in self.roots.iter().zip(leaves.chunks_exact_mut(TILE.area())) {
            for (row, &y) in tile.ys.iter().enumerate() {
                let first = planes.entry(0, y);
                let pixels = &mut pixels[row * tile.xs.len()..][..tile.xs.len()];
                for ((to, &x), cell) in pixels.iter_mut().zip(tile.xs).zip(row * TILE.width..) {
                    *to = Pixel {
                        entry: first + x as u32,
                        cell: cell as u16,
                    };
                }
            }
            // Right sides wait here until all left of them is done.
            let mut waiting = heapless::Vec::<(At, usize, usize), STACK>::new();
            let mut next = Some((root, 0, cells));
            while let Some((at, begin, end)) = next {
                let list = &mut pixels[begin..end];
                if at & AT_LEAF != 0 {
                    for pixel in list {
                        leaves[usize::from(pixel.cell)] = at;
                    }
                    next = waiting.pop();
                    continue;
                }
                let split = &self.splits[at as usize];
                let place = |p: Pixel| {
                    let cell = usize::from(p.cell);
                    (tile.xs[cell % TILE.width], tile.ys[cell / TILE.width])
                };
                let ask = |(x, y)| feature.response(planes, &split.theta, x, y) > split.tau;
                let left = match &split.corners {
                    Some(corners) => {
                        let limit = corners.limit(split.tau);
                        if corners.hold([x0, x1, y0, y1]) {
                            corners.judged(planes, limit, Inside { list, right })
                        } else {
                            let ask = |p: Pixel| {
                                let (x, y) = place(p);
                                (!corners.hold([x, x, y, y])).then(|| ask((x, y)))
                            };
                            corners.judged(planes, limit, Partly { list, right, ask })
                        }
                    }
                    None => part(list, right, |p| ask(place(p))),
                };
                let [l, r] = split.sides;
                let middle = begin + left;
                next = match (left > 0, middle < end) {
                    (true, true) => {
                        // As deep as the tree at most, which has room.
                        let _ = waiting.push((r, middle, end));
                        Some((l, begin, middle))
                    }
                    (true, false) => Some((l, begin, end)),
                    _ => Some((r, begin, end)),
                };
            }
        }
    }
}

/// Parts pixels whose regions lie inside.
struct Inside<'a> {
    list: &'a mut [Pixel],
    right: &'a mut [Pixel],
}

impl Judged<usize> for Inside<'_> {
    #[inline(always)]
    fn with(self, above: impl Fn(u32) -> bool) -> usize {
        part(self.list, self.right, |p| above(p.entry))
    }
}

/// Parts pixels of which some have to be asked.
struct Partly<'a, A> {
    list: &'a mut [Pixel],
    right: &'a mut [Pixel],
    /// Says nothing of a pixel whose regions lie inside.
    ask: A,
}

impl<A: Fn(Pixel) -> Option<bool>> Judged<usize> for Partly<'_, A> {
    #[inline(always)]
    fn with(self, above: impl Fn(u32) -> bool) -> usize {
        part(self.list, self.right, |p| {
            (self.ask)(p).unwrap_or_else(|| above(p.entry))
        })
    }
}

/// Brings the pixels that go left before those that go right; returns how many those are.
#[inline(always)]
fn part(list: &mut [Pixel], right: &mut [Pixel], goes_right: impl Fn(Pixel) -> bool) -> usize {
    let (mut l, mut r) = (0, 0);
    let right = &mut right[..list.len()];
    for i in 0..list.len() {
        let pixel = list[i];
        let goes = goes_right(pixel);
        // Both, so that nothing has to be guessed; the one that is wrong is written over.
        list[l] = pixel;
        right[r] = pixel;
        l += usize::from(!goes);
        r += usize::from(goes);
    }
    list[l..].copy_from_slice(&right[..r]);
    l
}
