//! The best corner of each cell of a grid.
use rayon::prelude::*;

use super::pyramid::Level;
use crate::frame::Size;

/// The most cells; larger images get larger cells.
pub(super) const MAX_CELLS: usize = 1024;
/// A cell, px of the frame.
const CELL: Size = Size::new(32, 24);
/// The structure tensor is summed over squares of twice this plus one.
pub(super) const REACH: usize = 2;
/// Corners lie at least so far from the border of the level that they are looked for in.
pub(super) const MARGIN: usize = 4;

/// A pixel of the frame worth following.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Corner {
    pub(super) x: u16,
    pub(super) y: u16,
    /// Whether the cell has one.
    pub(super) found: bool,
}

/// Cells of the level that corners are looked for in: the second, half the frame's size; the
/// first where there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) level: usize,
    /// A cell, px of that level.
    pub(super) cell: Size,
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Grid {
    pub(super) fn new(levels: &[Size]) -> Self {
        let level = usize::from(levels.len() > 1);
        let size = levels[level];
        let mut times = 1;
        loop {
            let cell = Size::new(
                (CELL.width >> level) * times,
                (CELL.height >> level) * times,
            );
            let (columns, rows) = (
                size.width.div_ceil(cell.width),
                size.height.div_ceil(cell.height),
            );
            if columns * rows <= MAX_CELLS {
                return Self {
                    level,
                    cell,
                    columns,
                    rows,
                };
            }
            times += 1;
        }
    }

    pub(super) fn cells(&self) -> usize {
        self.columns * self.rows
    }

    /// The frame's pixel for one of the level's.
    fn corner(&self, x: usize, y: usize) -> Corner {
        Corner {
            x: ((x << self.level) + self.level) as u16,
            y: ((y << self.level) + self.level) as u16,
            found: true,
        }
    }
}

/// Rows of one band of cells: sums of gradient products.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    /// xx, xy, yy of the last `2 REACH + 1` rows, each `width` long.
    products: Vec<[i32; 3]>,
    /// Their sums over these rows.
    columns: Vec<[i32; 3]>,
}

impl Scratch {
    pub(super) fn new(width: usize) -> Self {
        Self {
            products: vec![[0; 3]; (2 * REACH + 1) * width],
            columns: vec![[0; 3]; width],
        }
    }
}

/// How much of a corner a structure tensor is: its determinant over its trace. Its elements are
/// below 2^24, so exact.
#[inline]
pub(super) fn score([xx, xy, yy]: [i32; 3]) -> f32 {
    let (xx, xy, yy) = (xx as f32, xy as f32, yy as f32);
    (xx * yy - xy * xy) / (xx + yy + 1.0)
}

/// The pixel with the highest score of at least `least` in each cell, then the upper, then the
/// left one. `scratch`: one for each row of cells.
pub(super) fn find(
    level: &Level,
    grid: &Grid,
    least: f32,
    scratch: &mut [Scratch],
    corners: &mut [Corner],
) {
    corners
        .par_chunks_exact_mut(grid.columns)
        .zip(scratch)
        .enumerate()
        .for_each(|(row, (corners, scratch))| band(level, grid, least, row, scratch, corners));
}

fn band(
    level: &Level,
    grid: &Grid,
    least: f32,
    row: usize,
    scratch: &mut Scratch,
    corners: &mut [Corner],
) {
    corners.fill(Corner::default());
    let Size { width, height } = level.size;
    let first = (row * grid.cell.height).max(MARGIN);
    let end = ((row + 1) * grid.cell.height).min(height.saturating_sub(MARGIN));
    if first >= end || width <= 2 * MARGIN {
        return;
    }
    let Scratch { products, columns } = scratch;
    columns.fill([0; 3]);
    let depth = 2 * REACH + 1;
    let mut best = [least; MAX_CELLS];
    let best = &mut best[..grid.columns];
    for y in first - REACH..end + REACH {
        let slot = &mut products[y % depth * width..][..width];
        let steady = y >= first - REACH + depth;
        let (above, here, below) = (level.row(y - 1), level.row(y), level.row(y + 1));
        for x in 1..width - 1 {
            let gx = i32::from(here[x + 1]) - i32::from(here[x - 1]);
            let gy = i32::from(below[x]) - i32::from(above[x]);
            let new = [gx * gx, gx * gy, gy * gy];
            let old = if steady { slot[x] } else { [0; 3] };
            slot[x] = new;
            for i in 0..3 {
                columns[x][i] += new[i] - old[i];
            }
        }
        if y < first + REACH {
            continue;
        }
        let y = y - REACH;
        for (c, best) in best.iter_mut().enumerate() {
            let from = (c * grid.cell.width).max(MARGIN);
            let to = ((c + 1) * grid.cell.width).min(width - MARGIN);
            for x in from..to {
                let mut sum = [0; 3];
                for column in &columns[x - REACH..=x + REACH] {
                    for i in 0..3 {
                        sum[i] += column[i];
                    }
                }
                let score = score(sum);
                if score > *best {
                    *best = score;
                    corners[c] = grid.corner(x, y);
                }
            }
        }
    }
}
