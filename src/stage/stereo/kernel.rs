//! The inner loops, written for the vectoriser: lanes are disparities, all arrays have their
//! length in the type. [`super::simd`] compiles them once for every instruction set.
//!
//! # How the work is cut
//! A full volume of costs or sums (39 MB at 640x480x128) would be bound by memory. So the paths
//! that come from above and from below are first swept alone, keeping their state only at every
//! [`BLOCK`]th row ([`sweep`]). Then blocks of rows are independent of each other: [`block`] sweeps
//! the paths from below once more, inside the block, and takes all others in one go with
//! the sums and the winner.
// Lanes are indices here, of several arrays at once.
#![allow(clippy::needless_range_loop)]

use super::{
    MAX_COST,
    simd::{self, Isa},
};
use crate::frame::INVALID;

/// Rows of a block.
pub const BLOCK: usize = 8;

/// Right pixels that are taken at once.
const TILE: usize = 64;

/// Elements of the state of one pixel on one path, `D` lanes between two sentinels.
pub const fn state_len(d: usize) -> usize {
    d + 2
}

/// What the loops read of one frame.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    pub width: usize,
    pub height: usize,
    /// Left image, packed.
    pub left: &'a [u8],
    /// Census of the left image, packed.
    pub left_census: &'a [[u8; 4]],
    /// Census of the right image: 4 planes of bytes a row, `width + D` each, mirrored, so that
    /// the byte for `x - d` is at `width - 1 - x + d`: lanes ascend with d.
    pub right_census: &'a [u8],
    /// 0 = masked; empty = nothing is.
    pub mask: &'a [u8],
    pub p1: u8,
    pub p2: &'a [u8; 256],
    /// Cost of the disparities whose match lies outside the right image.
    pub outside: u8,
}

/// The table of [`Winner`] for `percent`: with s and the winner's v, s (100 - percent) >= 100 v.
pub fn bounds(percent: u16) -> Vec<u16> {
    let bound = |sum: u32| (sum * 100).div_ceil(100 - u32::from(percent));
    let bounds = (0..=8 * 255).map(|sum| bound(sum).min(u16::MAX.into()) as u16);
    if percent == 0 {
        Vec::new()
    } else {
        bounds.collect()
    }
}

/// How winners become disparities.
#[derive(Clone, Copy)]
pub struct Winner<'a> {
    /// For each sum of a winner, what all but its neighbours must reach; empty = anything.
    pub bounds: &'a [u16],
    /// With which instructions the winner is searched for.
    pub isa: Isa,
    pub left_right_max: Option<u16>,
    pub subpixel: bool,
}

#[inline(always)]
fn lanes<T, const D: usize>(slice: &[T], at: usize) -> &[T; D] {
    match slice[at..].first_chunk() {
        Some(lanes) => lanes,
        None => short(),
    }
}

#[inline(always)]
fn lanes_mut<T, const D: usize>(slice: &mut [T], at: usize) -> &mut [T; D] {
    match slice[at..].first_chunk_mut() {
        Some(lanes) => lanes,
        None => short(),
    }
}

#[cold]
#[inline(never)]
fn short() -> ! {
    unreachable!("a buffer of the plan is too short")
}

/// Census of one row: 4 planes of bytes, each as long as the row. `rows` are those from y - 3 to
/// y + 3, each with 4 more pixels on both sides.
#[inline(always)]
pub fn census_row(rows: [&[u8]; 7], planes: &mut [u8]) {
    let w = planes.len() / 4;
    for (byte, plane) in planes.chunks_exact_mut(w).enumerate() {
        plane.fill(0);
        for bit in 8 * byte..(8 * byte + 8).min(31) {
            let (k, m) = (bit / 9, bit % 9);
            let first = &rows[k][m..][..w];
            let second = &rows[6 - k][8 - m..][..w];
            for ((to, a), b) in plane.iter_mut().zip(first).zip(second) {
                *to |= u8::from(a >= b) << (bit % 8);
            }
        }
    }
}

/// What the costs of one row are made of.
#[derive(Clone, Copy)]
struct CostRow<'a> {
    left: &'a [[u8; 4]],
    right: [&'a [u8]; 4],
    mask: &'a [u8],
    outside: u8,
}

impl<'a> CostRow<'a> {
    #[inline(always)]
    fn new(frame: &Frame<'a>, y: usize, d: usize) -> Self {
        let w = frame.width;
        let plane = |i: usize| &frame.right_census[(4 * y + i) * (w + d)..][..w + d];
        let mask = if frame.mask.is_empty() {
            &[]
        } else {
            &frame.mask[y * w..][..w]
        };
        Self {
            left: &frame.left_census[y * w..][..w],
            right: [plane(0), plane(1), plane(2), plane(3)],
            mask,
            outside: frame.outside,
        }
    }

    /// Cost of one pixel for every disparity.
    #[inline(always)]
    fn cost<const D: usize>(&self, x: usize, cost: &mut [u8; D]) {
        if self.mask.get(x) == Some(&0) {
            *cost = [MAX_COST as u8; D];
            return;
        }
        let at = self.left.len() - 1 - x;
        let l = self.left[x];
        let r0: &[u8; D] = lanes(self.right[0], at);
        let r1: &[u8; D] = lanes(self.right[1], at);
        let r2: &[u8; D] = lanes(self.right[2], at);
        let r3: &[u8; D] = lanes(self.right[3], at);
        for d in 0..D {
            let n = (l[0] ^ r0[d]).count_ones() as u8;
            let n = n.wrapping_add((l[1] ^ r1[d]).count_ones() as u8);
            let n = n.wrapping_add((l[2] ^ r2[d]).count_ones() as u8);
            cost[d] = n.wrapping_add((l[3] ^ r3[d]).count_ones() as u8);
        }
        if x + 1 < D {
            for d in 0..D {
                cost[d] = if d as u8 > x as u8 {
                    self.outside
                } else {
                    cost[d]
                };
            }
        }
    }
}

/// One step of a path: `m` = M of the pixel; the state becomes that of the pixel.
#[inline(always)]
fn step<const D: usize>(state: &mut [u8], cost: &[u8; D], p1: u8, p2: u8, m: &mut [u8; D]) {
    let below: &[u8; D] = lanes(state, 0);
    let same: &[u8; D] = lanes(state, 1);
    let above: &[u8; D] = lanes(state, 2);
    for d in 0..D {
        let beside = below[d].min(above[d]).saturating_add(p1);
        m[d] = beside.min(same[d]).min(p2);
    }
    let mut path = [0; D];
    for d in 0..D {
        path[d] = m[d].wrapping_add(cost[d]);
    }
    let mut least = u8::MAX;
    for d in 0..D {
        least = least.min(path[d]);
    }
    let state: &mut [u8; D] = lanes_mut(state, 1);
    for d in 0..D {
        state[d] = path[d].wrapping_sub(least);
    }
}

/// The state before the first pixel of a path.
#[inline(always)]
fn start<const D: usize>(state: &mut [u8]) {
    lanes_mut::<u8, D>(state, 1).fill(0);
}

/// P2 for the step from the pixel at `from` to that at `to` (packed indices).
#[inline(always)]
fn p2(frame: &Frame<'_>, from: usize, to: usize) -> u8 {
    frame.p2[usize::from(frame.left[to].abs_diff(frame.left[from]))]
}

/// `N` steps from one row to the next at one pixel: straight, and with `N` = 3 from both sides.
///
/// The state of a path lies at the slot that its first pixel had (modulo the width), so
/// that every path stays where it is, and those that leave at a side free the slot of one that
/// enters at the other.
#[inline(always)]
fn step_rows<const D: usize, const N: usize>(
    frame: &Frame<'_>,
    (x0, columns): (usize, usize),
    (x, y): (usize, usize),
    up: bool,
    states: &mut [u8],
    cost: &[u8; D],
    m: &mut [[u8; D]; N],
) {
    let w = frame.width;
    let len = state_len(D);
    let to = y * w + x;
    // Rows since the first; which rows those are does not matter as long as they count on.
    let (first, rows) = if up {
        (y + 1 == frame.height, frame.height - 1 - y)
    } else {
        (y == 0, y)
    };
    let before = |dx: isize| {
        let row = if up { to + w } else { to - w };
        row.wrapping_add_signed(-dx)
    };
    let straight = &mut states[(x - x0) * len..][..len];
    let jump = if first { 0 } else { p2(frame, before(0), to) };
    step(straight, cost, frame.p1, jump, &mut m[0]);
    if N == 3 {
        let turn = rows % w;
        for (i, dx) in [(1, 1isize), (2, -1)] {
            let (slot, enters) = if dx > 0 {
                ((x + w - turn) % w, x == 0)
            } else {
                ((x + turn) % w, x + 1 == w)
            };
            let state = &mut states[(i * columns + slot) * len..][..len];
            let jump = if first || enters {
                start::<D>(state);
                0
            } else {
                p2(frame, before(dx), to)
            };
            step(state, cost, frame.p1, jump, &mut m[i]);
        }
    }
}

/// Sweeps the paths that run down (or `up`) through `columns` columns from `x0`, and keeps the
/// state with which each block is entered: block `b` at `b * states.len()` of `checkpoints`.
#[inline(always)]
pub fn sweep<const D: usize, const N: usize>(
    frame: &Frame<'_>,
    (x0, columns): (usize, usize),
    up: bool,
    states: &mut [u8],
    checkpoints: &mut [u8],
) {
    let mut costs = [0; D];
    let mut m = [[0; D]; N];
    let height = frame.height;
    for state in states.chunks_exact_mut(state_len(D)) {
        start::<D>(state);
    }
    for i in 0..height {
        let y = if up { height - 1 - i } else { i };
        let enters = if up {
            y % BLOCK == BLOCK - 1 || y + 1 == height
        } else {
            y % BLOCK == 0
        };
        if enters {
            let at = y / BLOCK * states.len();
            checkpoints[at..][..states.len()].copy_from_slice(states);
            let last = if up { y < BLOCK } else { y + BLOCK >= height };
            if last {
                return;
            }
        }
        let row = CostRow::new(frame, y, D);
        for x in x0..x0 + columns {
            row.cost(x, &mut costs);
            step_rows::<D, N>(frame, (x0, columns), (x, y), up, states, &costs, &mut m);
        }
    }
}

/// A buffer that begins at a cache line, so that no vector of a multiple of 64 bytes straddles two.
struct Lines<T> {
    data: Vec<T>,
    begin: usize,
}

impl<T: Copy> Lines<T> {
    fn new(value: T, len: usize) -> Self {
        const LINE: usize = 64;
        let data = vec![value; len + LINE];
        // At most LINE elements; where an alignment can't be had the buffer is as good unaligned.
        let begin = data.as_ptr().align_offset(LINE).min(LINE);
        Self { data, begin }
    }

    /// Elements that are owned.
    fn owned(&self) -> usize {
        self.data.len()
    }
}

impl<T> std::ops::Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.data[self.begin..]
    }
}

impl<T> std::ops::DerefMut for Lines<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.begin..]
    }
}

/// Buffers of [`block`].
pub struct Scratch {
    /// Costs of the block.
    costs: Lines<u8>,
    /// Of the sums of the block what the paths from below and from the right contribute.
    partial: Lines<u16>,
    /// States of the paths from above.
    pub down_states: Vec<u8>,
    /// States of the paths from below.
    pub up_states: Vec<u8>,
    /// Sums of one row; `D` lanes a pixel between [`TILE`] of the highest value, which no
    /// right pixel takes.
    sums: Lines<u16>,
    /// Disparity of each right pixel, mirrored as the census.
    right: Vec<u16>,
    /// Of each pixel of the row: integer winner, or the highest value where it is not to be
    /// used; and by how much its neighbours' sums exceed its own.
    winners: [Vec<u16>; 3],
}

impl Scratch {
    pub fn new(width: usize, d: usize, n: usize) -> Self {
        let states = vec![u8::MAX; n * width * state_len(d)];
        Self {
            costs: Lines::new(0, BLOCK * width * d),
            partial: Lines::new(0, BLOCK * width * d),
            down_states: states.clone(),
            up_states: states,
            sums: Lines::new(u16::MAX, width * (d + TILE) + TILE),
            right: vec![0; width.next_multiple_of(TILE)],
            winners: std::array::from_fn(|_| vec![0; width]),
        }
    }

    pub fn bytes(&self) -> usize {
        let winners: usize = self.winners.iter().map(Vec::len).sum();
        self.costs.owned()
            + self.down_states.len()
            + self.up_states.len()
            + 2 * (self.partial.owned() + self.sums.owned() + self.right.len() + winners)
    }
}

/// Rows `y0..y1`, a block whose entering states are in `scratch`, to disparities before the
/// filters, in `out`: rows of `width + 2`, of which the first and last element stay as they are.
#[inline(always)]
pub fn block<const D: usize, const N: usize>(
    frame: &Frame<'_>,
    (y0, y1): (usize, usize),
    how: Winner<'_>,
    scratch: &mut Scratch,
    out: &mut [u16],
) {
    let w = frame.width;
    for y in (y0..y1).rev() {
        up_and_back::<D, N>(frame, y, (y - y0) * w * D, scratch);
    }
    for y in y0..y1 {
        let out = &mut out[(y - y0) * (w + 2) + 1..][..w];
        down_and_along::<D, N>(frame, y, (y - y0) * w * D, how.bounds, how.isa, scratch);
        let [winners, before, after] = &scratch.winners;
        if how.subpixel {
            refine(winners, before, after, out);
        } else {
            for (out, d) in out.iter_mut().zip(winners) {
                *out = d.wrapping_mul(256);
            }
        }
        if how.left_right_max.is_some() {
            right_winners::<D>(w, &scratch.sums, &mut scratch.right);
        }
        for (x, (out, &d)) in out.iter_mut().zip(winners).enumerate() {
            if usize::from(d) > x {
                *out = INVALID;
            } else if let Some(max) = how.left_right_max
                && scratch.right[w - 1 - x + usize::from(d)].abs_diff(d) > max
            {
                *out = INVALID;
            }
        }
    }
}

/// Costs of one row, and what the paths from below and from the right contribute to its sums.
#[inline(always)]
fn up_and_back<const D: usize, const N: usize>(
    frame: &Frame<'_>,
    y: usize,
    at: usize,
    scratch: &mut Scratch,
) {
    let w = frame.width;
    let row = CostRow::new(frame, y, D);
    // Sentinels around D lanes; the length D + 2 is not to be had as a type.
    let mut state = [u8::MAX; 2 + 256];
    start::<D>(&mut state);
    let (mut up, mut back) = ([[0; D]; N], [0; D]);
    for x in (0..w).rev() {
        let to = y * w + x;
        let costs: &mut [u8; D] = lanes_mut(&mut scratch.costs, at + x * D);
        row.cost(x, costs);
        let states = &mut scratch.up_states;
        step_rows::<D, N>(frame, (0, w), (x, y), true, states, costs, &mut up);
        let jump = if x + 1 == w { 0 } else { p2(frame, to + 1, to) };
        step::<D>(&mut state, costs, frame.p1, jump, &mut back);
        let mut partial = [0u16; D];
        let paths = 2 + 2 * N as u16;
        for d in 0..D {
            partial[d] = u16::from(costs[d]).wrapping_mul(paths);
        }
        *lanes_mut(&mut scratch.partial, at + x * D) = add(&partial, &back, &up);
    }
}

/// `sums` and M of one path of the row and `N` from another row.
#[inline(always)]
fn add<const D: usize, const N: usize>(
    sums: &[u16; D],
    of_row: &[u8; D],
    paths: &[[u8; D]; N],
) -> [u16; D] {
    let mut all = [0; D];
    for d in 0..D {
        let two = u16::from(of_row[d]).wrapping_add(u16::from(paths[0][d]));
        all[d] = sums[d].wrapping_add(two);
    }
    for path in &paths[1..] {
        for d in 0..D {
            all[d] = all[d].wrapping_add(u16::from(path[d]));
        }
    }
    all
}

/// The paths from above and from the left through one row, its sums, and the winners.
#[inline(always)]
fn down_and_along<const D: usize, const N: usize>(
    frame: &Frame<'_>,
    y: usize,
    at: usize,
    bounds: &[u16],
    isa: Isa,
    scratch: &mut Scratch,
) {
    let w = frame.width;
    let mut state = [u8::MAX; 2 + 256];
    start::<D>(&mut state);
    let (mut down, mut along) = ([[0; D]; N], [0; D]);
    let [winners, before, after] = &mut scratch.winners;
    for x in 0..w {
        let to = y * w + x;
        let costs: &[u8; D] = lanes(&scratch.costs, at + x * D);
        let jump = if x == 0 { 0 } else { p2(frame, to - 1, to) };
        step(&mut state, costs, frame.p1, jump, &mut along);
        let states = &mut scratch.down_states;
        step_rows::<D, N>(frame, (0, w), (x, y), false, states, costs, &mut down);
        let sums = add(lanes(&scratch.partial, at + x * D), &along, &down);
        let to_right: &mut [u16; D] = lanes_mut(&mut scratch.sums, TILE + x * (D + TILE));
        if frame.mask.get(to) == Some(&0) {
            *to_right = [u16::MAX; D];
            winners[x] = u16::MAX;
            continue;
        }
        *to_right = sums;
        let (best, unique) = simd::winner(isa, &sums, bounds);
        winners[x] = if unique { best as u16 } else { u16::MAX };
        (before[x], after[x]) = (0, 0);
        if 0 < best && best + 1 < D {
            before[x] = sums[best - 1] - sums[best];
            after[x] = sums[best + 1] - sums[best];
        }
    }
}

/// Disparities in 1/256 px from the parabolas through the winners and their neighbours.
#[inline(always)]
fn refine(winners: &[u16], before: &[u16], after: &[u16], out: &mut [u16]) {
    for (((out, d), &before), &after) in out.iter_mut().zip(winners).zip(before).zip(after) {
        // The quotient (16 |b - a| + q) / (2 q) is at most 8: counted, for there are no lanes
        // that divide. With sums of at most 8 * 255, all of it stays within 16 bits.
        let q = before.wrapping_add(after).max(1);
        let numerator = before.abs_diff(after).wrapping_mul(16).wrapping_add(q);
        let mut size = 0;
        for k in 1..=8u16 {
            size += u16::from(numerator >= q.wrapping_mul(2 * k));
        }
        let towards = if before > after {
            size
        } else {
            size.wrapping_neg()
        };
        *out = d.wrapping_mul(16).wrapping_add(towards).wrapping_mul(16);
    }
}

/// The disparity of the smallest sum for each right pixel of a row.
#[inline(always)]
fn right_winners<const D: usize>(w: usize, sums: &[u16], right: &mut [u16]) {
    for (tile, right) in right.chunks_exact_mut(TILE).enumerate() {
        // Lane i is the right pixel w - 1 - j, j = TILE * tile + i, with d = j - (w - 1 - x).
        let j = TILE * tile;
        let mut least = [u16::MAX; TILE];
        // The x of the smallest sum, so far; a larger x is a larger d.
        let mut from = [0u16; TILE];
        let first = (w - 1).saturating_sub(j + TILE - 1);
        let last = (w - 1 - j + D - 1).min(w - 1);
        for x in first..=last {
            let at = TILE + x * (D + TILE) + j + x + 1 - w;
            let sums: &[u16; TILE] = lanes(sums, at);
            for i in 0..TILE {
                from[i] = if sums[i] < least[i] {
                    x as u16
                } else {
                    from[i]
                };
                least[i] = least[i].min(sums[i]);
            }
        }
        for i in 0..TILE {
            right[i] = (from[i] as usize + j + i).wrapping_sub(w - 1) as u16;
        }
    }
}

/// The place of the smallest sum, the first among equals; and whether no sum but its own and its
/// two neighbours' is below its bound.
#[inline(always)]
pub fn winner<const D: usize>(sums: &[u16; D], bounds: &[u16]) -> (usize, bool) {
    // Sum and place in one number, and explicit lanes: a search for the place would become a
    // loop of branches.
    const L: usize = 8;
    let mut least = [u32::MAX; L];
    for g in 0..D / L {
        let sums: &[u16; L] = lanes(sums, g * L);
        let mut keys = [0; L];
        for i in 0..L {
            keys[i] = u32::from(sums[i]) << 8 | (g * L + i) as u32;
        }
        for i in 0..L {
            least[i] = least[i].min(keys[i]);
        }
    }
    let mut first = u32::MAX;
    for i in 0..L {
        first = first.min(least[i]);
    }
    let best = (first & 255) as usize;
    if bounds.is_empty() {
        return (best, true);
    }
    let bound = bounds[usize::from(sums[best])];
    let mut below = 0u16;
    for d in 0..D {
        below += u16::from(sums[d] < bound);
    }
    let near = &sums[best.saturating_sub(1)..(best + 2).min(D)];
    let near: u16 = near.iter().map(|s| u16::from(*s < bound)).sum();
    (best, below == near)
}
