//! Plain models that the programme is tested against: the recursion of the specification without
//! prefix sums, running minima or pruning, and an exhaustive search over all segmentations.
use proptest::prelude::*;

use crate::frame::{Camera, Class, Road, RoadOrigin, Size};

use super::{
    InvalidPixels, Params, Reduction, RoadModel, Rounding, SigmaOf,
    dp::{Best, Scratch},
    ground::Ground,
    tables::{IMPOSSIBLE, MISSING, Tables},
};

use Class::{Ground as G, Object as O, Sky as S};

struct Model<'a> {
    tables: &'a Tables,
    ground: &'a Ground,
    measured: &'a [i32],
    edge: usize,
}

/// A stixel: class, first and last row from the bottom.
type Piece = (Class, usize, usize);

impl Model<'_> {
    fn mean(&self, from: usize, to: usize) -> i32 {
        let rows = self.measured[from..=to].iter().filter(|&&d| d != MISSING);
        if rows.clone().count() == 0 {
            return self.tables.unseen(self.edge);
        }
        let sum: i64 = rows.clone().map(|&d| i64::from(d)).sum();
        (sum / rows.count() as i64) as i32
    }

    /// Data cost of a stixel.
    fn data(&self, (class, from, to): Piece) -> Option<i64> {
        let t = self.tables;
        let unit = t.unit as i32;
        let mean = self.mean(from, to);
        let n = match t.params.rounding {
            Rounding::Floor => mean / unit,
            Rounding::Nearest => (mean + unit / 2) / unit,
        };
        let n = (n as usize).min(t.disparities - 1);
        (from..=to)
            .map(|v| {
                let d = self.measured[v];
                let px = d as f32 / unit as f32;
                let cost = match (class, d) {
                    (G, _) if v >= self.ground.end => return None,
                    (S, _) if v < self.ground.sky => return None,
                    (G, MISSING) if self.ground.unseen(v, self.edge, t) => 0,
                    (G, MISSING) => t.ground_pixel.missing,
                    (S, MISSING) => t.sky_pixel.missing,
                    (G, _) => {
                        let gauss = self.ground.rows[v].gauss;
                        gauss.cost(px, t.ground_pixel.outlier)
                    }
                    (S, _) => t.sky.cost(px, t.sky_pixel.outlier),
                    (O, _) => i32::from(t.object_costs(t.object_row(d, self.edge))[n]),
                };
                Some(i64::from(cost))
            })
            .sum()
    }

    fn first(&self, (class, _, to): Piece) -> Option<i64> {
        let p = &self.tables.priors;
        let ln_h = self.tables.cut[0];
        let prior = match class {
            G => ln_h + p.ln_2,
            O if to as i64 <= i64::from(self.ground.horizon) => ln_h + p.ln_2 + p.ln_range,
            O => ln_h + p.ln_range,
            S if self.tables.reference_road() => return None,
            S => ln_h,
        };
        Some(i64::from(prior))
    }

    /// Prior of a stixel on one of class `below` that, if an object, has mean `pm`.
    fn later(&self, (class, from, to): Piece, below: Class, pm: i32) -> Option<i64> {
        let t = self.tables;
        let p = &t.priors;
        let r = t.cut[from];
        let range = t.disparities as i32 * t.unit as i32;
        let ln = |width: i32| t.log.ln(width);
        let m = self.mean(from, to);
        let under = (from as i64 - 1) < i64::from(self.ground.horizon);
        let prior = match (class, below) {
            (G, S) | (S, S) => return None,
            (G, _) => p.ground_next,
            (S, G) if self.ground.rows[from - 1].sky_next => 0,
            (S, G) => return None,
            (S, O) if pm < t.sky_tolerance => return None,
            (S, O) => p.ln_2,
            (O, S) if m <= t.sky_tolerance => return None,
            (O, S) => p.on_sky,
            (O, G) => {
                let on = &self.ground.rows[from - 1].on;
                let ground = on.high - t.ground_tolerance;
                let where_ = if m > on.high {
                    p.flying + ln(range - ground - t.ground_tolerance)?
                } else if m < on.low {
                    p.sunken + ln(ground - t.ground_tolerance)?
                } else {
                    p.standing
                };
                p.object_next + where_
            }
            (O, O) => {
                let dd = t.separation[(pm / t.unit as i32) as usize];
                let order = if m > pm + dd {
                    p.nearer + ln(range - pm - dd)?
                } else if m < pm - dd {
                    p.farther + ln(pm - dd)?
                } else if p.same == IMPOSSIBLE {
                    return None;
                } else {
                    p.same + ln(2 * dd)?
                };
                (if under { p.object_next } else { p.ln_2 }) + order
            }
        };
        Some(i64::from(prior + r))
    }

    /// The recursion, cut by cut in increasing order, strictly smaller replaces.
    fn recursion(&self) -> Vec<[Best; 3]> {
        let h = self.measured.len();
        let mut best: Vec<[Best; 3]> = vec![];
        for t in 0..h {
            let mut row = [Best::NONE; 3];
            for class in [G, O, S] {
                for b in 0..=t {
                    let piece = (class, b, t);
                    let Some(data) = self.data(piece) else {
                        continue;
                    };
                    let found = if b == 0 {
                        self.first(piece).map(|prior| (prior, class))
                    } else {
                        let below = &best[b - 1];
                        let pm = self.mean(below[O as usize].from as usize, b - 1);
                        let after = |c: Class| {
                            let cost = below[c as usize].cost;
                            let prior = self.later(piece, c, pm)?;
                            (cost != IMPOSSIBLE).then_some((i64::from(cost) + prior, c))
                        };
                        // Object wins ties, then ground.
                        [O, G, S]
                            .into_iter()
                            .filter_map(after)
                            .reduce(|a, c| if c.0 < a.0 { c } else { a })
                    };
                    let Some((prior, previous)) = found else {
                        continue;
                    };
                    let cost = i32::try_from(prior + data).expect("costs fit 32 bits");
                    if cost < row[class as usize].cost {
                        row[class as usize] = Best {
                            cost,
                            from: b as u32,
                            previous,
                        };
                    }
                }
            }
            best.push(row);
        }
        best
    }

    /// The least cost of all segmentations of the rows `0..=t`, by class of the last stixel. An
    /// object below an object or sky must be the best object that ends there, which is what the
    /// model says (specification 7): `objects` has its first row.
    fn exhaustive(&self, t: usize, objects: &[usize]) -> [Option<(i64, usize)>; 3] {
        let mut best = [None; 3];
        let mut pieces = vec![];
        self.extend(0, t, objects, &mut pieces, &mut best);
        best
    }

    fn extend(
        &self,
        from: usize,
        t: usize,
        objects: &[usize],
        pieces: &mut Vec<Piece>,
        best: &mut [Option<(i64, usize)>; 3],
    ) {
        if from > t {
            if let (Some(cost), Some(last)) = (self.path_cost(pieces, objects), pieces.last()) {
                let best = &mut best[last.0 as usize];
                if best.is_none_or(|b| (cost, last.1) < b) {
                    *best = Some((cost, last.1));
                }
            }
            return;
        }
        for to in from..=t {
            for class in [G, O, S] {
                pieces.push((class, from, to));
                self.extend(to + 1, t, objects, pieces, best);
                pieces.pop();
            }
        }
    }

    fn path_cost(&self, pieces: &[Piece], objects: &[usize]) -> Option<i64> {
        let mut cost = self.first(pieces[0])? + self.data(pieces[0])?;
        for pair in pieces.windows(2) {
            let [(below, from, to), piece] = [pair[0], pair[1]];
            if below == O && piece.0 != G && objects[to] != from {
                return None;
            }
            cost += self.later(piece, below, self.mean(from, to))? + self.data(piece)?;
        }
        Some(cost)
    }
}

fn params() -> impl Strategy<Value = Params> {
    let paper = prop::sample::select(vec![false, true]);
    let odd = (any::<[bool; 6]>(), 0.0..0.3f64, 1usize..9);
    (paper, prop::option::of(odd)).prop_map(|(paper, odd)| {
        let base = if paper {
            Params::paper()
        } else {
            Params::default()
        };
        let Some((flags, p_same_depth, object_steps_per_px)) = odd else {
            return base;
        };
        let pick = |i: usize| flags[i];
        Params {
            p_same_depth,
            object_steps_per_px,
            p_missing: 0.1,
            reduction: if pick(0) {
                Reduction::Mean
            } else {
                Reduction::Median
            },
            invalid_pixels: if pick(1) {
                InvalidPixels::Zero
            } else {
                InvalidPixels::Honoured
            },
            rounding: if pick(2) {
                Rounding::Floor
            } else {
                Rounding::Nearest
            },
            object_sigma_of: if pick(3) {
                SigmaOf::Measurement
            } else {
                SigmaOf::Model
            },
            road_model: if pick(4) {
                RoadModel::Reference
            } else {
                RoadModel::Exact
            },
            separation_m: if pick(5) { 10.0 } else { 0.3 },
            ..base
        }
    })
}

fn road() -> impl Strategy<Value = (f32, f32)> {
    prop_oneof![
        6 => (0.05f32..6.0, -5.0f32..40.0),
        1 => (-1.0f32..0.0, 0.0f32..9.0),
        1 => Just((f32::NAN, 3.0)),
        1 => Just((0.3, f32::INFINITY)),
        1 => (0.0001f32..1e9, -1e9f32..1e9),
    ]
}

pub(super) fn road_of((slope, horizon_row): (f32, f32)) -> Road {
    Road {
        slope,
        offset: -slope * horizon_row,
        horizon_row,
        pitch_rad: 0.0,
        camera_height_m: 1.5,
        confidence: 1.0,
        origin: RoadOrigin::Fixed,
    }
}

const CAMERA: Camera = Camera {
    focal_px: 700.0,
    cx: 300.0,
    cy: 15.0,
    baseline_m: 0.54,
};

/// Measurements in px of runs of one disparity with noise, holes and outliers.
fn column(most: usize) -> impl Strategy<Value = Vec<Option<f64>>> {
    let run = (0.0..64.0f64, 1usize..12, any::<u8>());
    prop::collection::vec(run, 1..20).prop_map(move |runs| {
        let rows = runs.into_iter().flat_map(|(d, n, seed)| {
            (0..n).map(move |i| match (usize::from(seed) + 7 * i) % 16 {
                0 => None,
                1 => Some((d * 3.7) % 64.0),
                k => Some(d + (k as f64 - 8.0) / 8.0),
            })
        });
        rows.take(most).collect()
    })
}

fn measured(tables: &Tables, rows: &[Option<f64>]) -> Vec<i32> {
    let as_zero = tables.params.invalid_pixels == InvalidPixels::Zero;
    rows.iter()
        .map(|d| match d {
            None if as_zero => 0,
            None => MISSING,
            Some(px) => ((px * f64::from(tables.unit)) as i32).clamp(0, tables.largest()),
        })
        .collect()
}

fn set_up(params: &Params, road: (f32, f32), rows: &[Option<f64>]) -> (Tables, Ground, Scratch) {
    let h = rows.len();
    let tables = Tables::new(params, Size::new(5, h), &CAMERA, 64).unwrap();
    let mut ground = Ground::new(h);
    ground.set(&tables, &road_of(road));
    let mut scratch = Scratch::new(h, 64);
    scratch.edge = tables.edge(h % 16);
    scratch.measured = measured(&tables, rows);
    scratch.solve(&tables, &ground);
    (tables, ground, scratch)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn programme_is_the_plain_recursion(p in params(), road in road(), rows in column(100)) {
        let (tables, ground, scratch) = set_up(&p, road, &rows);
        let measured = &scratch.measured;
        let model = Model { tables: &tables, ground: &ground, measured, edge: scratch.edge };
        let plain = model.recursion();
        for (t, (found, expected)) in scratch.best.iter().zip(&plain).enumerate() {
            for class in [G, O, S] {
                let (f, e) = (found[class as usize], expected[class as usize]);
                prop_assert_eq!(f.cost, e.cost, "{:?} at {}", class, t);
                if f.cost != IMPOSSIBLE {
                    prop_assert_eq!(f.from, e.from, "{:?} at {}", class, t);
                    if f.from > 0 {
                        prop_assert_eq!(f.previous, e.previous, "{:?} at {}", class, t);
                    }
                }
            }
        }
    }

    #[test]
    fn programme_finds_the_best_of_all_segmentations(
        p in params(), road in road(), rows in column(6),
    ) {
        let (tables, ground, scratch) = set_up(&p, road, &rows);
        let measured = &scratch.measured;
        let model = Model { tables: &tables, ground: &ground, measured, edge: scratch.edge };
        let mut objects = vec![];
        for (t, found) in scratch.best.iter().enumerate() {
            let best = model.exhaustive(t, &objects);
            for class in [G, O, S] {
                let found = found[class as usize];
                let found = (found.cost != IMPOSSIBLE)
                    .then_some((i64::from(found.cost), found.from as usize));
                prop_assert_eq!(found, best[class as usize], "{:?} at {}", class, t);
            }
            objects.push(best[O as usize].map_or(0, |(_, from)| from));
        }
    }

    #[test]
    fn prefix_sums_are_sums(p in params(), road in road(), rows in column(60)) {
        let (tables, ground, scratch) = set_up(&p, road, &rows);
        let measured = &scratch.measured;
        let model = Model { tables: &tables, ground: &ground, measured, edge: scratch.edge };
        let h = rows.len();
        for (from, to) in [(0, h - 1), (h / 3, h / 2), (h / 2, h - 1)] {
            prop_assert_eq!(scratch.mean(&tables, from, to + 1), model.mean(from, to));
            let object = i64::from(scratch.object_cost(&tables, from, to + 1));
            prop_assert_eq!(Some(object), model.data((O, from, to)));
            if let Some(cost) = model.data((G, from, to)) {
                prop_assert_eq!(i64::from(scratch.ground[to + 1] - scratch.ground[from]), cost);
            }
            if let Some(cost) = model.data((S, from, to)) {
                prop_assert_eq!(i64::from(scratch.sky[to + 1] - scratch.sky[from]), cost);
            }
        }
    }
}
