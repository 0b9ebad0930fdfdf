//! The best corner of each cell of a grid.
use rayon::prelude::*;

use super::pyramid::Level;
use crate::frame::{Image, Mask, Size};

/// The most cells; larger images get larger cells.
pub(super) const MAX_CELLS: usize = 1024;
/// A cell, px of the frame.
const CELL: Size = Size::new(32, 24);
/// The structure tensor is summed over squares of twice this plus one.
pub(super) const REACH: usize = 2;
/// Corners lie at least so far from the border of the level that they are looked for in.
pub(super) const MARGIN: usize = 4;
/// No pixel that is masked lies so near to a corner in columns and in rows, px of the frame: what
/// makes it a corner, and its window at full size, are free of them.
const CLEAR: usize = 7;

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

    /// Which of the level's pixels may be corners: all but 0.
    pub(super) fn allowed(&self, size: Size, mask: &Mask) -> Mask {
        let Size { width, height } = mask.size();
        // Masked pixels up to each row and column, exclusive.
        let mut sums = Image::filled(width + 1, height + 1, 0u32);
        for y in 0..height {
            let mut row = 0;
            for x in 0..width {
                row += u32::from(mask.get(x, y) == 0);
                sums.set(x + 1, y + 1, row + sums.get(x + 1, y));
            }
        }
        Mask::from_fn(size.width, size.height, |x, y| {
            let corner = self.corner(x, y);
            let span = |c: u16, n: usize| {
                let c = usize::from(c);
                (c.saturating_sub(CLEAR).min(n), (c + CLEAR + 1).min(n))
            };
            let ((x0, x1), (y0, y1)) = (span(corner.x, width), span(corner.y, height));
            let masked = sums.get(x1, y1) + sums.get(x0, y0) - sums.get(x0, y1) - sums.get(x1, y0);
            if masked == 0 { 255 } else { 0 }
        })
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

/// Of one row of cells: products of gradients xx, xy, yy, one plane each.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    /// Of the last `2 REACH + 1` rows.
    products: [Vec<i32>; 3],
    /// Their sums over these rows.
    columns: [Vec<i32>; 3],
    scores: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(width: usize) -> Self {
        let planes = |rows: usize| [(); 3].map(|()| vec![0; rows * width]);
        Self {
            products: planes(2 * REACH + 1),
            columns: planes(1),
            scores: vec![0.0; width],
        }
    }

    /// Takes in row `y`, in the place of the oldest.
    fn advance(&mut self, level: &Level, y: usize) {
        let n = level.size.width - 2;
        let here = level.row(y);
        let (left, right) = (&here[..n], &here[2..]);
        let (above, below) = (&level.row(y - 1)[1..][..n], &level.row(y + 1)[1..][..n]);
        let slot = y % (2 * REACH + 1) * level.size.width + 1;
        let [xx, xy, yy] = &mut self.products;
        let [xx, xy, yy] = [xx, xy, yy].map(|plane| &mut plane[slot..][..n]);
        let [sum_xx, sum_xy, sum_yy] = &mut self.columns;
        let [sum_xx, sum_xy, sum_yy] = [sum_xx, sum_xy, sum_yy].map(|plane| &mut plane[1..][..n]);
        for i in 0..n {
            let gx = i16::from(right[i]) - i16::from(left[i]);
            let gy = i16::from(below[i]) - i16::from(above[i]);
            let (gx, gy) = (i32::from(gx), i32::from(gy));
            sum_xx[i] += gx * gx - xx[i];
            sum_xy[i] += gx * gy - xy[i];
            sum_yy[i] += gy * gy - yy[i];
            xx[i] = gx * gx;
            xy[i] = gx * gy;
            yy[i] = gy * gy;
        }
    }

    /// The scores of the row in the middle.
    fn score(&mut self, width: usize) {
        const REACHED: usize = 2 * REACH;
        let n = width - REACHED;
        let shifted = |plane: usize| {
            let plane = &self.columns[plane];
            [0, 1, 2, 3, 4].map(|by: usize| &plane[by..][..n])
        };
        let (xx, xy, yy) = (shifted(0), shifted(1), shifted(2));
        let scores = &mut self.scores[REACH..][..n];
        for i in 0..n {
            let sum = |p: &[&[i32]; REACHED + 1]| p[0][i] + p[1][i] + p[2][i] + p[3][i] + p[4][i];
            scores[i] = score([sum(&xx), sum(&xy), sum(&yy)]);
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
/// left one. `allowed`: see [`Grid::allowed`]. `scratch`: one for each row of cells.
pub(super) fn find(
    level: &Level,
    grid: &Grid,
    allowed: Option<&Mask>,
    least: f32,
    scratch: &mut [Scratch],
    corners: &mut [Corner],
) {
    corners
        .par_chunks_exact_mut(grid.columns)
        .zip(scratch)
        .enumerate()
        .for_each(|(row, (corners, scratch))| {
            band(level, grid, allowed, least, row, scratch, corners);
        });
}

fn band(
    level: &Level,
    grid: &Grid,
    allowed: Option<&Mask>,
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
    for plane in scratch.products.iter_mut().chain(&mut scratch.columns) {
        plane.fill(0);
    }
    let mut best = [least; MAX_CELLS];
    let best = &mut best[..grid.columns];
    for y in first - REACH..end + REACH {
        scratch.advance(level, y);
        if y < first + REACH {
            continue;
        }
        scratch.score(width);
        let allowed = allowed.map(|allowed| allowed.row(y - REACH));
        for (c, best) in best.iter_mut().enumerate() {
            let from = (c * grid.cell.width).max(MARGIN);
            let to = ((c + 1) * grid.cell.width).min(width - MARGIN);
            for (x, score) in (from..to).zip(&scratch.scores[from.min(to)..to]) {
                if *score > *best && allowed.is_none_or(|allowed| allowed[x] != 0) {
                    *best = *score;
                    corners[c] = grid.corner(x, y - REACH);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{Image, MonoImage},
        maths::random::hash,
        stage::egomotion::pyramid::Pyramid,
    };

    /// Pixel by pixel, cell by cell.
    fn slowly(level: &Level, grid: &Grid, least: f32) -> Vec<Corner> {
        let Size { width, height } = level.size;
        let at = |x: usize, y: usize| i32::from(level.row(y)[x]);
        let score = |x: usize, y: usize| {
            let mut sum = [0; 3];
            for y in y - 2..=y + 2 {
                for x in x - 2..=x + 2 {
                    let (gx, gy) = (at(x + 1, y) - at(x - 1, y), at(x, y + 1) - at(x, y - 1));
                    sum = [sum[0] + gx * gx, sum[1] + gx * gy, sum[2] + gy * gy];
                }
            }
            score(sum)
        };
        let mut corners = vec![Corner::default(); grid.cells()];
        for (c, corner) in corners.iter_mut().enumerate() {
            let mut best = least;
            let (x0, y0) = (
                c % grid.columns * grid.cell.width,
                c / grid.columns * grid.cell.height,
            );
            for y in y0.max(4)..(y0 + grid.cell.height).min(height.saturating_sub(4)) {
                for x in x0.max(4)..(x0 + grid.cell.width).min(width.saturating_sub(4)) {
                    if score(x, y) > best {
                        best = score(x, y);
                        *corner = grid.corner(x, y);
                    }
                }
            }
        }
        corners
    }

    #[test]
    fn the_best_corner_of_each_cell_is_found() {
        let sizes = [
            (64, 48),
            (67, 101),
            (31, 33),
            (9, 9),
            (8, 60),
            (1300, 70),
            (1, 1),
        ];
        for (width, height) in sizes {
            for bits in [32, 26, 24] {
                let image = Image::from_fn(width, height, |x, y| {
                    (hash(bits, (x / 3) as u32, (y / 2) as u32) >> bits.min(31)) as u8
                });
                let mut pyramid = Pyramid::new(image.size());
                pyramid.build(&MonoImage::Grey8(image), 8, None);
                let sizes: Vec<Size> = pyramid.levels.iter().map(|l| l.size).collect();
                let grid = Grid::new(&sizes);
                let level = &pyramid.levels[grid.level];
                let mut scratch = vec![Scratch::new(level.size.width); grid.rows];
                let mut corners = vec![Corner::default(); grid.cells()];
                // Twice: the scratch is used again.
                for _ in 0..2 {
                    find(level, &grid, None, 400.0, &mut scratch, &mut corners);
                }
                assert_eq!(corners, slowly(level, &grid, 400.0), "{width}x{height}");
            }
        }
    }

    #[test]
    fn large_images_get_larger_cells() {
        let cells = |w, h| {
            let grid = Grid::new(&crate::stage::egomotion::pyramid::levels(Size::new(w, h)));
            (grid.cell, grid.columns, grid.rows)
        };
        assert_eq!(cells(1280, 480), (Size::new(16, 12), 40, 20));
        assert_eq!(cells(1920, 1080), (Size::new(32, 24), 30, 23));
        assert_eq!(cells(20, 20), (Size::new(32, 24), 1, 1));
        for (w, h) in [(16_384, 16_384), (16_384, 1), (1, 16_384), (3840, 2160)] {
            let (_, columns, rows) = cells(w, h);
            assert!(columns * rows <= MAX_CELLS);
        }
    }
}
