//! From the best of every row to a column's list.
use crate::frame::{Class, INVALID, Stixel};

use super::{
    Params,
    dp::Scratch,
    ground::Ground,
    math::COST_PER_NAT,
    tables::{IMPOSSIBLE, Tables},
};

/// Margin at which a fully measured stixel has half of the full confidence, nats.
const HALF_CONFIDENCE_NATS: i32 = 8;

/// Writes the stixels of a solved column, top to bottom, each row covered. Returns how many, and
/// whether the list was too short: it then holds the lowest stixels, and the last of them is
/// stretched to the top of the image, with no confidence.
pub(super) fn backtrack(
    tables: &Tables,
    ground: &Ground,
    solved: &Scratch,
    list: &mut [Stixel],
) -> (u16, bool) {
    let total = path(tables, solved).count();
    let skip = total.saturating_sub(list.len());
    let kept = total - skip;
    for (to, (class, from, last)) in list.iter_mut().zip(path(tables, solved).skip(skip)) {
        *to = stixel(tables, ground, solved, class, from, last + 1);
    }
    if skip > 0
        && let Some(first) = list.first_mut()
    {
        first.top = 0;
        first.confidence = 0;
    }
    (kept as u16, skip > 0)
}

/// Class, first and last row (from the bottom) of the best path's stixels, from the top.
fn path<'a>(
    tables: &Tables,
    solved: &'a Scratch,
) -> impl Iterator<Item = (Class, usize, usize)> + 'a {
    let mut next = tables.height.checked_sub(1).map(|t| {
        let [g, o, s] = solved.best[t].map(|best| best.cost);
        let class = if s < g.min(o) {
            Class::Sky
        } else if o < g {
            Class::Object
        } else {
            Class::Ground
        };
        (class, t)
    });
    std::iter::from_fn(move || {
        let (class, t) = next?;
        let best = &solved.best[t][class as usize];
        let from = best.from as usize;
        next = from.checked_sub(1).map(|t| (best.previous, t));
        Some((class, from, t))
    })
}

/// The stixel on the rows `from..to`, from the bottom.
fn stixel(
    tables: &Tables,
    ground: &Ground,
    solved: &Scratch,
    class: Class,
    from: usize,
    to: usize,
) -> Stixel {
    let sum = solved.sums[to] - solved.sums[from];
    let count = u64::from(solved.counts[to] - solved.counts[from]);
    // 1/256 px, to the nearest.
    let per_step = u64::from(tables.unit / 256);
    let disparity = match count * per_step {
        0 => INVALID,
        n => ((2 * sum + n) / (2 * n)).min(u64::from(INVALID) - 1) as u16,
    };
    let Params { sky_below_px, .. } = tables.params;
    let below = (sky_below_px * count as f64) * f64::from(tables.unit);
    let written = match class {
        Class::Object if (sum as f64) < below => Class::Sky,
        class => class,
    };
    Stixel {
        class: written,
        top: (tables.height - to) as u16,
        base: (tables.height - 1 - from) as u16,
        disparity,
        confidence: confidence(tables, ground, solved, class, from, to),
    }
}

/// How sure the class is: the margin M (nats) between the data cost of the rows `from..to` in
/// their class and in the best other class that may be there (ground below the horizon, sky
/// above it, or an object of their mean), as `255 * M / (M + 8)`, times the part of the rows
/// that is measured; 0 where the margin is negative (priors alone decided).
fn confidence(
    tables: &Tables,
    ground: &Ground,
    solved: &Scratch,
    class: Class,
    from: usize,
    to: usize,
) -> u8 {
    let part = |prefix: &[i32], from: usize, to: usize| {
        if from < to {
            prefix[to] - prefix[from]
        } else {
            0
        }
    };
    let object = solved.object_cost(tables, from, to);
    // Ground as far as it may go, sky from where it may begin, outliers between.
    let (end, begin) = (ground.end.clamp(from, to), ground.sky.clamp(from, to));
    let between = (begin.saturating_sub(end)) as i32;
    let flat = part(&solved.ground, from, end)
        + part(&solved.sky, begin.max(end), to)
        + between * tables.object_pixel.outlier;
    let (own, other) = match class {
        Class::Ground => (part(&solved.ground, from, to), object),
        Class::Sky => (part(&solved.sky, from, to), object),
        Class::Object => (object, flat),
    };
    debug_assert!(own != IMPOSSIBLE);
    let margin = (i64::from(other) - i64::from(own)).max(0);
    let half = i64::from(HALF_CONFIDENCE_NATS * COST_PER_NAT);
    let measured = i64::from(solved.counts[to] - solved.counts[from]);
    (255 * margin * measured / ((margin + half) * (to - from) as i64)) as u8
}
