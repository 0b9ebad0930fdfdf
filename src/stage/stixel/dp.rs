//! The dynamic programme over one column: the best last stixel of each class for every row.
//!
//! Ground and sky cost the same wherever they begin, apart from what is fixed at the cut, so
//! their best cut is a running minimum. An object's cost depends on its mean; of its cuts those
//! are left out that can't win even if every tile of rows had its favourite disparity.
use crate::frame::Class;

use super::{
    ground::Ground,
    tables::{COARSE, IMPOSSIBLE, MISSING, TILE, Tables},
};

/// The best segmentation of the rows `0..=T` that ends in one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Best {
    pub cost: i32,
    /// First row of the last stixel.
    pub from: u32,
    /// Class of the stixel below it.
    pub previous: Class,
}

impl Best {
    pub(super) const NONE: Self = Self {
        cost: IMPOSSIBLE,
        from: 0,
        previous: Class::Ground,
    };
}

/// All that is fixed about an object that begins on one row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    sum: u64,
    count: u32,
    ground_high: i32,
    ground_low: i32,
    object_high: i32,
    object_low: i32,
    /// Costs of the rows below and the transition, by where the mean lies.
    ground: [i32; 3],
    object: [i32; 3],
    sky: i32,
}

impl Cut {
    /// Cost of all below an object of this mean and of its beginning here: after ground, object
    /// and sky. Order: (ground, object, sky).
    #[inline]
    pub(super) fn transitions(&self, mean: i32, sky_tolerance: i32) -> (i32, i32, i32) {
        let pick = |high: i32, low: i32, c: &[i32; 3]| {
            if mean > high {
                c[0]
            } else if mean < low {
                c[1]
            } else {
                c[2]
            }
        };
        (
            pick(self.ground_high, self.ground_low, &self.ground),
            pick(self.object_high, self.object_low, &self.object),
            if mean > sky_tolerance {
                self.sky
            } else {
                IMPOSSIBLE
            },
        )
    }

    /// The least that any mean costs.
    pub(super) fn least(&self) -> i32 {
        let least = |c: &[i32; 3]| c[0].min(c[1]).min(c[2]);
        least(&self.ground).min(least(&self.object)).min(self.sky)
    }
}

/// Everything that one column needs, reused for the next.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    /// Measurements, bottom row first, units or [`MISSING`].
    pub measured: Vec<i32>,
    /// The least disparity that the column can't see, px, see [`Tables::edge`].
    pub edge: usize,
    /// Mean of an object without a measurement, units.
    unseen: i32,
    /// Model disparities that a mean of this column's measurements can have: no others are summed.
    models: usize,
    /// Prefix sums over rows; `[v]` is the sum of the rows below v.
    pub sums: Vec<u64>,
    pub counts: Vec<u32>,
    pub ground: Vec<i32>,
    pub sky: Vec<i32>,
    /// Prefix sums of object costs, a row of models for each v.
    pub object: Vec<i32>,
    /// Prefix sums of each row's least object cost.
    least: Vec<i32>,
    /// Sums of coarse object costs from the start of the tile, a row of models for each row.
    tile: Vec<i16>,
    /// The least cost that one model gives all rows between a tile and that of T.
    span: Vec<i32>,
    cuts: Vec<Cut>,
    /// What the path and an object that begins on a row cost at least: in the tile of T less
    /// [`Self::least`] there, in the tiles below up to the end of their tile.
    keys: Vec<i32>,
    /// The least key of each tile below that of T.
    tile_keys: Vec<i32>,
    /// By row T: ground, object, sky.
    pub best: Vec<[Best; 3]>,
    /// Mean of the best object that ends on a row, units.
    means: Vec<i32>,
}

impl Scratch {
    pub(super) fn new(height: usize, disparities: usize) -> Self {
        let n = height + 1;
        Self {
            measured: vec![0; height],
            edge: disparities,
            unseen: 0,
            models: disparities,
            sums: vec![0; n],
            counts: vec![0; n],
            ground: vec![0; n],
            sky: vec![0; n],
            object: vec![0; n * disparities],
            least: vec![0; n],
            cuts: vec![Cut::default(); height],
            tile: vec![0; (TILE + 1) * disparities],
            span: vec![0; height.div_ceil(TILE)],
            keys: vec![IMPOSSIBLE; height.next_multiple_of(TILE)],
            tile_keys: vec![IMPOSSIBLE; height.div_ceil(TILE)],
            best: vec![[Best::NONE; 3]; height],
            means: vec![0; height],
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let h = self.measured.len();
        self.object.len() * 4 + h * (size_of::<Cut>() + size_of::<[Best; 3]>() + 40)
    }

    /// Mean of the rows `from..to`, units.
    #[inline]
    pub(super) fn mean(&self, tables: &Tables, from: usize, to: usize) -> i32 {
        tables.mean(
            self.sums[to] - self.sums[from],
            self.counts[to] - self.counts[from],
            self.unseen,
        )
    }

    /// Data cost of the rows `from..to` as an object of their mean.
    pub(super) fn object_cost(&self, tables: &Tables, from: usize, to: usize) -> i32 {
        let n = tables.model(self.mean(tables, from, to));
        let d = self.models;
        self.object[to * d + n] - self.object[from * d + n]
    }

    /// Solves the column in `measured` with its `edge`.
    pub(super) fn solve(&mut self, tables: &Tables, ground: &Ground) {
        self.unseen = tables.unseen(self.edge);
        let largest = self.measured.iter().fold(self.unseen, |a, &d| a.max(d));
        // Whole vectors.
        self.models = (tables.model(largest) + 1)
            .next_multiple_of(16)
            .min(tables.disparities);
        self.object[..self.models].fill(0);
        self.tile[..self.models].fill(0);
        self.prefix_sums(tables, ground);
        self.keys.fill(IMPOSSIBLE);
        // Best beginnings of a ground and a sky, less the prefix sum there.
        let (mut ground_run, mut sky_run) = (Best::NONE, Best::NONE);
        for t in 0..tables.height {
            self.add_object_row(tables, t);
            if t % TILE == 0 {
                self.measure_spans(t);
            }
            if t > 0 {
                self.add_cut(tables, ground, t);
            }
            self.begin_ground(tables, ground, t, &mut ground_run);
            self.begin_sky(tables, ground, t, &mut sky_run);
            let ended = |run: &Best, allowed: bool, prefix: i32| {
                if !allowed || run.cost == IMPOSSIBLE {
                    return Best::NONE;
                }
                Best {
                    cost: run.cost + prefix,
                    ..*run
                }
            };
            self.best[t][Class::Ground as usize] =
                ended(&ground_run, t < ground.end, self.ground[t + 1]);
            self.best[t][Class::Sky as usize] = ended(&sky_run, true, self.sky[t + 1]);
            let object = self.best_object(tables, ground, t);
            self.means[t] = self.mean(tables, object.from as usize, t + 1);
            self.best[t][Class::Object as usize] = object;
            if (t + 1) % TILE == 0 {
                self.close_tile(t / TILE);
            }
        }
    }

    fn prefix_sums(&mut self, tables: &Tables, ground: &Ground) {
        let unit = tables.unit as f32;
        let h = self.measured.len();
        let top = self.measured.iter().rposition(|&d| d != MISSING);
        // A gap that reaches down to the horizon is more likely something very near.
        let clear = top.map_or(h, |top| top + 1);
        let clear = if clear > ground.sky { clear } else { h };
        let (mut sum, mut count, mut cg, mut cs) = (0, 0, 0, 0);
        for (v, &d) in self.measured.iter().enumerate() {
            if d == MISSING {
                if !ground.unseen(v, self.edge, tables) {
                    cg += tables.ground_pixel.missing;
                }
                cs += if v >= clear {
                    tables.sky_missing_at_top
                } else {
                    tables.sky_pixel.missing
                };
            } else {
                sum += d as u64;
                count += 1;
                let px = d as f32 / unit;
                if v < ground.end {
                    let row = &ground.rows[v];
                    cg += row.gauss.cost(px, tables.ground_pixel.outlier);
                }
                if v >= ground.sky {
                    cs += tables.sky.cost(px, tables.sky_pixel.outlier);
                }
            }
            self.sums[v + 1] = sum;
            self.counts[v + 1] = count;
            self.ground[v + 1] = cg;
            self.sky[v + 1] = cs;
        }
    }

    /// The prefix sums of object costs up to and with row `t`.
    fn add_object_row(&mut self, tables: &Tables, t: usize) {
        let d = self.models;
        let row = tables.object_row(self.measured[t], self.edge);
        self.least[t + 1] = self.least[t] + tables.object_least(row);
        let (below, above) = self.object[t * d..][..2 * d].split_at_mut(d);
        let costs = &tables.object_costs(row)[..d];
        for ((above, &below), &cost) in above.iter_mut().zip(&*below).zip(costs) {
            *above = below + i32::from(cost);
        }
        let (below, above) = self.tile[t % TILE * d..][..2 * d].split_at_mut(d);
        let costs = &tables.object_coarse(row)[..d];
        for ((above, &below), &cost) in above.iter_mut().zip(&*below).zip(costs) {
            *above = below + cost;
        }
    }

    /// Gives the cuts of a tile that is full the keys that later tiles compare.
    fn close_tile(&mut self, tile: usize) {
        let d = self.models;
        let first = tile * TILE;
        let (rows, end) = self.tile[..(TILE + 1) * d].split_at(TILE * d);
        let mut tile_key = IMPOSSIBLE;
        for (i, row) in rows.chunks_exact(d).enumerate() {
            let key = &mut self.keys[first + i];
            if *key != IMPOSSIBLE {
                // What the rows from here to the end of the tile cost with their best model.
                let rest = i32::from(least_difference(end, row)) * i32::from(COARSE);
                *key += self.least[first + i] + rest;
                tile_key = tile_key.min(*key);
            }
        }
        self.tile_keys[tile] = tile_key;
    }

    /// What lies between each tile below and the one that begins on row `t`.
    fn measure_spans(&mut self, t: usize) {
        let d = self.models;
        let here = &self.object[t * d..][..d];
        for (j, span) in self.span[..t / TILE].iter_mut().enumerate() {
            let there = &self.object[(j + 1) * TILE * d..][..d];
            *span = here
                .iter()
                .zip(there)
                .fold(i32::MAX, |least, (&to, &from)| least.min(to - from));
        }
    }

    fn begin_ground(&self, tables: &Tables, ground: &Ground, b: usize, run: &mut Best) {
        if b >= ground.end {
            return;
        }
        let begin = if b == 0 {
            Best {
                cost: tables.priors.ln_2 + tables.cut[0],
                from: 0,
                previous: Class::Ground,
            }
        } else {
            let [g, o, _] = &self.best[b - 1];
            let (previous, below) = if g.cost < o.cost {
                (Class::Ground, g.cost)
            } else {
                (Class::Object, o.cost)
            };
            if below == IMPOSSIBLE {
                return;
            }
            Best {
                cost: below + tables.priors.ground_next + tables.cut[b] - self.ground[b],
                from: b as u32,
                previous,
            }
        };
        if begin.cost < run.cost {
            *run = begin;
        }
    }

    fn begin_sky(&self, tables: &Tables, ground: &Ground, b: usize, run: &mut Best) {
        if b < ground.sky {
            return;
        }
        let begin = if b == 0 {
            if tables.reference_road() {
                return;
            }
            Best {
                cost: tables.cut[0],
                from: 0,
                previous: Class::Sky,
            }
        } else {
            let [g, o, _] = &self.best[b - 1];
            let far = self.means[b - 1] < tables.sky_tolerance;
            let o = if o.cost == IMPOSSIBLE || far {
                IMPOSSIBLE
            } else {
                o.cost + tables.priors.ln_2
            };
            let g = if ground.rows[b - 1].sky_next {
                g.cost
            } else {
                IMPOSSIBLE
            };
            let (previous, below) = if g < o {
                (Class::Ground, g)
            } else {
                (Class::Object, o)
            };
            if below == IMPOSSIBLE {
                return;
            }
            Best {
                cost: below + tables.cut[b] - self.sky[b],
                from: b as u32,
                previous,
            }
        };
        if begin.cost < run.cost {
            *run = begin;
        }
    }

    /// What an object that begins on row `b` follows, from the best of the row below.
    fn add_cut(&mut self, tables: &Tables, ground: &Ground, b: usize) {
        let [g, o, s] = self.best[b - 1].map(|best| best.cost);
        let cut = make_cut(tables, ground, b, [g, o, s], self.means[b - 1]);
        let cut = Cut {
            sum: self.sums[b],
            count: self.counts[b],
            ..cut
        };
        self.cuts[b] = cut;
        let least = cut.least();
        if least != IMPOSSIBLE {
            self.keys[b] = least - self.least[b];
        }
    }

    fn best_object(&self, tables: &Tables, ground: &Ground, t: usize) -> Best {
        let mut cost = first_object(tables, ground, t) + self.object_cost(tables, 0, t + 1);
        let mut from = 0;
        let d = self.models;
        let (below, here) = self.object[..(t + 2) * d].split_at((t + 1) * d);
        let (sum, count) = (self.sums[t + 1], self.counts[t + 1]);
        // Cost of the best path whose last stixel is an object on the rows `b..=t`.
        let candidate = |b: usize| {
            let cut = &self.cuts[b];
            let mean = tables.mean(sum - cut.sum, count - cut.count, self.unseen);
            let (g, o, s) = cut.transitions(mean, tables.sky_tolerance);
            let prior = g.min(o).min(s);
            if prior == IMPOSSIBLE {
                return IMPOSSIBLE;
            }
            let n = tables.model(mean);
            prior + (here[n] - below[b * d + n])
        };
        // The winner of the row below is a good guess, and a good guess leaves few cuts.
        let guess = t
            .checked_sub(1)
            .map_or(0, |p| self.best[p][Class::Object as usize].from as usize);
        for b in [guess, t] {
            if b > 0 {
                let c = candidate(b);
                if c < cost || c == cost && b < from {
                    (cost, from) = (c, b);
                }
            }
        }
        // The tile of T, then whole tiles. Equal cost: the lowest cut wins, so equal keys are
        // looked at.
        let tile = t / TILE;
        let mut look = |first: usize, keys: &[i32], floor: i32| {
            let mut limit = cost - floor;
            for (b, &key) in (first..).zip(keys) {
                if key <= limit {
                    let c = candidate(b);
                    if c < cost || c == cost && b < from {
                        (cost, from) = (c, b);
                        limit = cost - floor;
                    }
                }
            }
            cost
        };
        let mut best = look(tile * TILE, &self.keys[tile * TILE..=t], self.least[t + 1]);
        let (start, rows) = self.tile.split_at(d);
        let least = least_difference(&rows[t % TILE * d..][..d], start);
        let least = i32::from(least) * i32::from(COARSE);
        let tiles = self.tile_keys.iter().zip(&self.span).take(tile);
        for (i, (&tile_key, &span)) in tiles.enumerate().rev() {
            let floor = span + least;
            if tile_key <= best - floor {
                let first = i * TILE;
                best = look(first, &self.keys[first..first + TILE], floor);
            }
        }
        let previous = if from == 0 {
            Class::Object
        } else {
            let mean = self.mean(tables, from, t + 1);
            let (g, o, s) = self.cuts[from].transitions(mean, tables.sky_tolerance);
            cheapest_previous(g, o, s)
        };
        Best {
            cost,
            from: from as u32,
            previous,
        }
    }
}

/// The least of `to - from` over the models.
fn least_difference(to: &[i16], from: &[i16]) -> i16 {
    to.iter()
        .zip(from)
        .fold(i16::MAX, |least, (&to, &from)| least.min(to - from))
}

/// Ties: object before ground before sky.
pub(super) fn cheapest_previous(g: i32, o: i32, s: i32) -> Class {
    if s < g.min(o) {
        Class::Sky
    } else if g < o {
        Class::Ground
    } else {
        Class::Object
    }
}

/// Prior of an object on the rows `0..=t`.
pub(super) fn first_object(tables: &Tables, ground: &Ground, t: usize) -> i32 {
    let priors = &tables.priors;
    let below = if t as i64 <= i64::from(ground.horizon) {
        priors.ln_2
    } else {
        0
    };
    tables.cut[0] + below + priors.ln_range
}

/// Transitions to an object that begins on row `b >= 1`, from the costs of ground, object and
/// sky on the row below and the mean of the best object there (specification 7).
pub(super) fn make_cut(
    tables: &Tables,
    ground: &Ground,
    b: usize,
    [g, o, s]: [i32; 3],
    mean: i32,
) -> Cut {
    let priors = &tables.priors;
    let r = tables.cut[b];
    let add = |a: i32, c: i32| {
        if a == IMPOSSIBLE || c == IMPOSSIBLE {
            IMPOSSIBLE
        } else {
            a + c
        }
    };
    let on = &ground.rows[b - 1].on;
    let below_horizon = (b as i64 - 1) < i64::from(ground.horizon);
    let object_next = if below_horizon {
        priors.object_next
    } else {
        priors.ln_2
    };
    let separation = tables.separation[mean as usize / tables.unit as usize];
    let (high, low) = (mean + separation, mean - separation);
    let after_object =
        |prior, width| add(add(o, object_next + r), tables.spread_over(prior, width));
    Cut {
        sum: 0,
        count: 0,
        ground_high: on.high,
        ground_low: on.low,
        object_high: high,
        object_low: low,
        ground: [add(g, on.nearer), add(g, on.farther), add(g, on.standing)],
        object: [
            after_object(priors.nearer, tables.largest() + 1 - high),
            after_object(priors.farther, low),
            after_object(priors.same, 2 * separation),
        ],
        sky: add(s, priors.on_sky + r),
    }
}
