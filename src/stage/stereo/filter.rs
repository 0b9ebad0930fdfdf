//! What is done to the winners: median, speckles, gaps.
// Lanes are indices here, of several arrays at once.
#![allow(clippy::needless_range_loop)]

use crate::frame::INVALID;

/// A sorting network for 9 values.
const NETWORK: [(usize, usize); 25] = [
    (0, 3),
    (1, 7),
    (2, 5),
    (4, 8),
    (0, 7),
    (2, 4),
    (3, 8),
    (5, 6),
    (0, 2),
    (1, 3),
    (4, 5),
    (7, 8),
    (1, 4),
    (3, 6),
    (5, 7),
    (0, 1),
    (2, 4),
    (3, 5),
    (6, 8),
    (2, 3),
    (4, 5),
    (6, 7),
    (1, 2),
    (3, 4),
    (5, 6),
];

/// Median of the valid pixels of each 3x3 window of one row. The input rows have one more pixel
/// on both sides; pixels that are not there are invalid.
#[inline(always)]
pub fn median_row(rows: [&[u16]; 3], out: &mut [u16]) {
    const LANES: usize = 16;
    let w = out.len();
    let mut x = 0;
    while x + LANES <= w {
        median_lanes::<LANES>(rows, x, out);
        x += LANES;
    }
    if x < w && w >= LANES {
        median_lanes::<LANES>(rows, w - LANES, out);
        return;
    }
    while x < w {
        median_lanes::<1>(rows, x, out);
        x += 1;
    }
}

#[inline(always)]
fn median_lanes<const L: usize>(rows: [&[u16]; 3], x: usize, out: &mut [u16]) {
    let mut v = [[INVALID; L]; 9];
    let mut valid = [0u16; L];
    for i in 0..9 {
        let from = &rows[i / 3][x + i % 3..][..L];
        v[i].copy_from_slice(from);
        for lane in 0..L {
            valid[lane] += u16::from(from[lane] != INVALID);
        }
    }
    let centre = v[4];
    // Invalid is the largest value and ends up behind the valid ones.
    for (i, j) in NETWORK {
        for lane in 0..L {
            let (a, b) = (v[i][lane], v[j][lane]);
            v[i][lane] = a.min(b);
            v[j][lane] = a.max(b);
        }
    }
    let out = &mut out[x..][..L];
    for lane in 0..L {
        let n = valid[lane];
        let mut value = v[0][lane];
        value = if n > 2 { v[1][lane] } else { value };
        value = if n > 4 { v[2][lane] } else { value };
        value = if n > 6 { v[3][lane] } else { value };
        value = if n > 8 { v[4][lane] } else { value };
        out[lane] = if centre[lane] == INVALID {
            INVALID
        } else {
            value
        };
    }
}

/// A run of connected pixels of a row.
#[derive(Clone, Copy)]
struct Run {
    start: u32,
    end: u32,
    /// Another run of the same region; itself at the root.
    parent: u32,
    /// Pixels of the region, at the root.
    area: u32,
}

/// The speckle filter: runs of each row, joined to regions.
pub struct Speckles {
    runs: Vec<Run>,
    /// Where each row's runs begin; one more than rows.
    rows: Vec<usize>,
}

impl Speckles {
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            runs: Vec::with_capacity(width * height),
            rows: Vec::with_capacity(height + 1),
        }
    }

    pub fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.rows.capacity() * size_of::<usize>()
    }

    fn root(&mut self, mut i: u32) -> u32 {
        while self.runs[i as usize].parent != i {
            let above = self.runs[self.runs[i as usize].parent as usize].parent;
            self.runs[i as usize].parent = above;
            i = above;
        }
        i
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            // Roots come first in the image; which one is kept changes nothing that shows.
            let (root, child) = (a.min(b), a.max(b));
            self.runs[root as usize].area += self.runs[child as usize].area;
            self.runs[child as usize].parent = root;
        }
    }

    /// Makes regions of at most `max_area` pixels invalid, in packed rows of `width`.
    pub fn remove(&mut self, disparity: &mut [u16], width: usize, max_area: u32, max_step: u16) {
        self.runs.clear();
        self.rows.clear();
        self.rows.push(0);
        let mut above: &[u16] = &[];
        for row in disparity.chunks_exact(width) {
            self.add_row(row, max_step);
            if !above.is_empty() {
                self.join_row(above, row, max_step);
            }
            above = row;
        }
        for (y, row) in disparity.chunks_exact_mut(width).enumerate() {
            for i in self.rows[y]..self.rows[y + 1] {
                let root = self.root(i as u32);
                if self.runs[root as usize].area <= max_area {
                    let run = self.runs[i];
                    row[run.start as usize..run.end as usize].fill(INVALID);
                }
            }
        }
    }

    fn add_row(&mut self, row: &[u16], max_step: u16) {
        let mut x = 0;
        while x < row.len() {
            if row[x] == INVALID {
                x += 1;
                continue;
            }
            let start = x;
            x += 1;
            while x < row.len() && row[x] != INVALID && row[x].abs_diff(row[x - 1]) <= max_step {
                x += 1;
            }
            self.runs.push(Run {
                start: start as u32,
                end: x as u32,
                parent: self.runs.len() as u32,
                area: (x - start) as u32,
            });
        }
        self.rows.push(self.runs.len());
    }

    /// Joins the runs of the last row with those of the row above.
    fn join_row(&mut self, above: &[u16], row: &[u16], max_step: u16) {
        let last = self.rows.len() - 1;
        let (mut a, a_end) = (self.rows[last - 2], self.rows[last - 1]);
        let (mut b, b_end) = (a_end, self.rows[last]);
        while a < a_end && b < b_end {
            let (upper, lower) = (self.runs[a], self.runs[b]);
            let start = upper.start.max(lower.start) as usize;
            let end = upper.end.min(lower.end) as usize;
            // The two ranges hold valid pixels only.
            if start < end {
                let mut pairs = above[start..end].iter().zip(&row[start..end]);
                if pairs.any(|(p, q)| p.abs_diff(*q) <= max_step) {
                    self.join(a as u32, b as u32);
                }
            }
            if upper.end <= lower.end {
                a += 1;
            } else {
                b += 1;
            }
        }
    }
}

/// The value `t` of `n` steps from `a` to `b`, in 1/16 px.
fn between(a: u16, b: u16, t: usize, n: usize) -> u16 {
    let (a, b) = (usize::from(a / 16), usize::from(b / 16));
    ((a * (n - t) + b * t + n / 2) / n * 16) as u16
}

/// Which gaps are closed.
#[derive(Clone, Copy)]
pub struct Gaps {
    pub max_len: usize,
    pub max_step: u16,
}

impl Gaps {
    fn closes(self, len: usize, a: u16, b: u16) -> bool {
        len <= self.max_len && a.abs_diff(b) <= self.max_step
    }

    /// Closes the gaps of one row.
    pub fn close_row(self, row: &mut [u16]) {
        let mut last = None;
        for x in 0..row.len() {
            let b = row[x];
            if b == INVALID {
                continue;
            }
            if let Some(before) = last
                && before + 1 < x
            {
                let (a, n) = (row[before], x - before);
                if self.closes(n - 1, a, b) {
                    for t in 1..n {
                        row[before + t] = between(a, b, t, n);
                    }
                }
            }
            last = Some(x);
        }
    }

    /// Closes the gaps of all columns of packed rows. `last` has an element for each column.
    pub fn close_columns(self, disparity: &mut [u16], last: &mut [u32]) {
        let w = last.len();
        last.fill(u32::MAX);
        for y in 0..disparity.len() / w {
            for x in 0..w {
                let b = disparity[y * w + x];
                if b == INVALID {
                    continue;
                }
                let before = last[x] as usize;
                last[x] = y as u32;
                if before + 1 < y && before != u32::MAX as usize {
                    let (a, n) = (disparity[before * w + x], y - before);
                    if self.closes(n - 1, a, b) {
                        for t in 1..n {
                            disparity[(before + t) * w + x] = between(a, b, t, n);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network that sorts every sequence of 0 and 1 sorts everything.
    #[test]
    fn the_network_sorts() {
        for bits in 0..512u32 {
            let mut v: [u32; 9] = std::array::from_fn(|i| bits >> i & 1);
            for (i, j) in NETWORK {
                (v[i], v[j]) = (v[i].min(v[j]), v[i].max(v[j]));
            }
            assert!(v.is_sorted(), "{bits:09b}");
        }
    }
}
