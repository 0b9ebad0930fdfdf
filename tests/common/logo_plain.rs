//! The contract of the features as plain code, slow and obvious.
use super::*;

struct Levels {
    size: Size,
    /// `[level][y][x]`
    grey: Vec<Vec<Vec<i64>>>,
}

impl Levels {
    fn d(&self, layer: usize, y: usize, x: usize) -> i64 {
        self.grey[layer + 1][y][x] - self.grey[layer][y][x]
    }
}

fn mirror(mut i: i64, n: usize) -> usize {
    let n = n as i64;
    loop {
        if n == 1 {
            return 0;
        } else if i < 0 {
            i = -i;
        } else if i >= n {
            i = 2 * (n - 1) - i;
        } else {
            return i as usize;
        }
    }
}

fn blur(image: &[Vec<i64>], half: &[u32]) -> Vec<Vec<i64>> {
    let (h, w, r) = (image.len(), image[0].len(), half.len() as i64 - 1);
    let weight = |k: i64| i64::from(half[k.unsigned_abs() as usize]);
    let rows: Vec<Vec<i64>> = image
        .iter()
        .map(|row| {
            (0..w as i64)
                .map(|x| (-r..=r).map(|k| weight(k) * row[mirror(x + k, w)]).sum())
                .collect()
        })
        .collect();
    (0..h as i64)
        .map(|y| {
            (0..w)
                .map(|x| {
                    let sum: i64 = (-r..=r)
                        .map(|k| weight(k) * rows[mirror(y + k, h)][x])
                        .sum();
                    (sum + (1 << 17)) >> 18
                })
                .collect()
        })
        .collect()
}

fn octaves(params: &FeatureParams, tables: &Tables, image: &Image<u8>) -> Vec<Levels> {
    let octaves = Octaves::new(params, image.size());
    let step = if octaves.first < 0 { 2 } else { 1 };
    let size = octaves.sizes[0];
    let base: Vec<Vec<i64>> = (0..size.height)
        .map(|y| {
            (0..size.width)
                .map(|x| {
                    let at = |x, y| i64::from(image.get(x, y));
                    let (x0, x1) = (x / step, x.div_ceil(step));
                    let (y0, y1) = (y / step, y.div_ceil(step));
                    16 * (at(x0, y0) + at(x1, y0) + at(x0, y1) + at(x1, y1))
                })
                .collect()
        })
        .collect();
    if params.mode == Mode::Paper {
        let grey = tables.steps.iter().map(|w| blur(&base, &w.half));
        return vec![Levels {
            size,
            grey: grey.chain([base.clone()]).collect(),
        }];
    }
    let mut first = blur(&base, &tables.base.half);
    let mut all = Vec::new();
    for &size in &octaves.sizes {
        let mut grey = vec![first];
        for step in &tables.steps {
            grey.push(blur(&grey[grey.len() - 1], &step.half));
        }
        let next = &grey[usize::from(params.intervals)];
        first = next
            .iter()
            .step_by(2)
            .map(|row| row.iter().copied().step_by(2).collect())
            .collect();
        all.push(Levels { size, grey });
    }
    all
}

fn determinant(m: [[i128; 3]; 3]) -> i128 {
    let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
    m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
}

struct Found {
    /// octave, layer, y, x
    at: (usize, usize, usize, usize),
    offset: [f32; 3],
    value: f32,
}

fn refine(params: &FeatureParams, levels: &Levels, start: (usize, usize, usize)) -> Option<Found> {
    let (mut layer, mut y, mut x) = start;
    for _ in 0..MAX_STEPS {
        let d = |dx: i64, dy: i64, dl: i64| {
            let add = |a: usize, b: i64| (a as i64 + b) as usize;
            i128::from(levels.d(add(layer, dl), add(y, dy), add(x, dx)))
        };
        let unit = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
        let along = |a: [i64; 3], s: i64| d(s * a[0], s * a[1], s * a[2]);
        let g = unit.map(|a| along(a, 1) - along(a, -1));
        let mut h = [[0; 3]; 3];
        for i in 0..3 {
            for j in 0..3 {
                let (a, b) = (unit[i], unit[j]);
                let sum = |s: i64, t: i64| {
                    d(
                        s * a[0] + t * b[0],
                        s * a[1] + t * b[1],
                        s * a[2] + t * b[2],
                    )
                };
                h[i][j] = if i == j {
                    4 * (along(a, 1) + along(a, -1) - 2 * d(0, 0, 0))
                } else {
                    sum(1, 1) - sum(1, -1) - sum(-1, 1) + sum(-1, -1)
                };
            }
        }
        let whole = determinant(h);
        if whole == 0 {
            return None;
        }
        let offset: [f32; 3] = std::array::from_fn(|column| {
            let mut m = h;
            for row in 0..3 {
                m[row][column] = -2 * g[row];
            }
            determinant(m) as f32 / whole as f32
        });
        let moved: Vec<i64> = offset
            .iter()
            .map(|&o| {
                if o > 0.5 {
                    1
                } else if o < -0.5 {
                    -1
                } else {
                    0
                }
            })
            .collect();
        if moved.iter().all(|&m| m == 0) {
            let g = g.map(|g| g as f32);
            let value = d(0, 0, 0) as f32
                + ((g[0] * offset[0] + g[1] * offset[1]) + g[2] * offset[2]) * 0.25;
            let curved = h[0][0] * h[1][1] - h[0][1] * h[0][1];
            let trace = (h[0][0] + h[1][1]) as f32;
            let r = params.edge_ratio;
            let good = value.abs() >= params.contrast / f32::from(params.intervals) * 16_320.0
                && curved > 0
                && trace * trace * r < (r + 1.0) * (r + 1.0) * curved as f32;
            return good.then_some(Found {
                at: (0, layer, y, x),
                offset,
                value,
            });
        }
        let go = |v: usize, by: i64| (v as i64 + by) as usize;
        (x, y, layer) = (go(x, moved[0]), go(y, moved[1]), go(layer, moved[2]));
        let Size { width, height } = levels.size;
        let inside = |v: usize, n: usize| v >= BORDER && v < n.saturating_sub(BORDER);
        if !inside(x, width) || !inside(y, height) || layer < 1 || layer > params.intervals.into() {
            return None;
        }
    }
    None
}

fn extrema(params: &FeatureParams, tables: &Tables, levels: &Levels) -> Vec<Found> {
    let Size { width, height } = levels.size;
    let mut all = Vec::new();
    for layer in 1..=usize::from(params.intervals) {
        for y in BORDER..height.saturating_sub(BORDER) {
            for x in BORDER..width.saturating_sub(BORDER) {
                let v = levels.d(layer, y, x);
                if v.abs() <= tables.pretest.into() {
                    continue;
                }
                let extreme = (layer - 1..=layer + 1).all(|l| {
                    (y - 1..=y + 1).all(|j| {
                        (x - 1..=x + 1).all(|i| {
                            let other =
                                levels.d(l, j, i).abs() * levels.d(l, j, i).signum() * v.signum();
                            match (l, j, i).cmp(&(layer, y, x)) {
                                std::cmp::Ordering::Less => v.abs() >= other,
                                std::cmp::Ordering::Equal => true,
                                std::cmp::Ordering::Greater => v.abs() > other,
                            }
                        })
                    })
                });
                if extreme {
                    all.extend(refine(params, levels, (layer, y, x)));
                }
            }
        }
    }
    all
}

fn paper_extrema(levels: &Levels) -> Vec<Found> {
    let Size { width, height } = levels.size;
    let mut all = Vec::new();
    for y in 4..height.saturating_sub(4) {
        for x in 4..width.saturating_sub(4) {
            let extreme = |layer: usize| {
                let v = levels.d(layer, y, x);
                v.abs() >= 7 * 64
                    && (layer.saturating_sub(1)..=(layer + 1).min(4)).all(|l| {
                        (y - 1..=y + 1).all(|j| {
                            (x - 1..=x + 1).all(|i| v.signum() * levels.d(l, j, i) <= v.abs())
                        })
                    })
            };
            let Some(layer) = (0..5).find(|&l| extreme(l)) else {
                continue;
            };
            let d = |dx: i64, dy: i64| {
                levels.d(layer, (y as i64 + dy) as usize, (x as i64 + dx) as usize) as f64
            };
            let (xx, yy) = (
                d(2, 0) - 2.0 * d(0, 0) + d(-2, 0),
                d(0, 2) - 2.0 * d(0, 0) + d(0, -2),
            );
            let xy = d(1, 1) - d(-1, 1) - d(1, -1) + d(-1, -1);
            let (trace, det) = (xx + yy, xx * yy - xy * xy);
            if det < 0.0 || det > 0.0 && trace * trace <= 12.0 * det {
                all.push(Found {
                    at: (0, layer, y, x),
                    offset: [0.0; 3],
                    value: d(0, 0) as f32,
                });
            }
        }
    }
    all
}

fn angles(
    params: &FeatureParams,
    tables: &Tables,
    levels: &Levels,
    found: &Found,
    scale: usize,
) -> Vec<u16> {
    let (_, layer, y, x) = found.at;
    let radius = i64::from(tables.window_radius[scale]);
    let mut bins = [0; orientation::BINS];
    for dy in -radius..=radius {
        for dx in -radius..=radius {
            let (x, y) = (x as i64 + dx, y as i64 + dy);
            let Size { width, height } = levels.size;
            if x < 1 || y < 1 || x > width as i64 - 2 || y > height as i64 - 2 {
                continue;
            }
            let grey = |x: i64, y: i64| levels.grey[layer][y as usize][x as usize] as i32;
            let (bin, length) = orientation::direction(
                grey(x + 1, y) - grey(x - 1, y),
                grey(x, y + 1) - grey(x, y - 1),
            );
            let weight =
                |d: i64| u64::from(tables.window[scale * WINDOW + d.unsigned_abs() as usize]);
            bins[bin as usize] += ((u64::from(length) * weight(dx) * weight(dy)) >> 12) as u32;
        }
    }
    orientation::peaks(&bins, params.max_orientations.into()).to_vec()
}

fn sample(grey: &[Vec<i64>], x: i64, y: i64) -> i64 {
    let one = 1 << 18;
    let at = |x: i64, y: i64| {
        grey[y.clamp(0, grey.len() as i64 - 1) as usize]
            [x.clamp(0, grey[0].len() as i64 - 1) as usize]
    };
    let (i, j) = (x.div_euclid(one), y.div_euclid(one));
    let (u, v) = (x.rem_euclid(one) >> 10, y.rem_euclid(one) >> 10);
    (at(i, j) * (256 - u) + at(i + 1, j) * u) * (256 - v)
        + (at(i, j + 1) * (256 - u) + at(i + 1, j + 1) * u) * v
}

/// Everything.
pub fn features(params: &FeatureParams, image: &Image<u8>, mask: Option<&Mask>) -> Features {
    let tables = Tables::new(params);
    let octaves_of = Octaves::new(params, image.size());
    let all = octaves(params, &tables, image);
    let paper = params.mode == Mode::Paper;
    let mut points: Vec<Found> = Vec::new();
    let mut places = HashSet::new();
    let Size { width, height } = image.size();
    let full = |f: &Found| {
        let step = octaves_of.step(f.at.0);
        (
            (f.at.3 as f32 + f.offset[0]) * step,
            (f.at.2 as f32 + f.offset[1]) * step,
        )
    };
    for (octave, levels) in all.iter().enumerate() {
        let found = if paper {
            paper_extrema(levels)
        } else {
            extrema(params, &tables, levels)
        };
        for mut found in found {
            found.at.0 = octave;
            let (x, y) = full(&found);
            let nearest = |v: f32, n: usize| ((v + 0.5) as usize).min(n - 1);
            let usable = mask.is_none_or(|m| m.get(nearest(x, width), nearest(y, height)) != 0);
            if usable && places.insert(found.at) {
                points.push(found);
            }
        }
    }
    let mut out = Features {
        found: points.len(),
        ..Features::default()
    };
    let order = |f: &Found| if paper { (0, 0, f.at.2, f.at.3) } else { f.at };
    points.sort_by(|a, b| {
        let strength = b.value.abs().total_cmp(&a.value.abs());
        strength.then(order(a).cmp(&order(b)))
    });
    if params.cell_px > 0 {
        let mut cells = std::collections::HashMap::new();
        points.retain(|f| {
            let (x, y) = full(f);
            let n = cells
                .entry((x as u32 / params.cell_px, y as u32 / params.cell_px))
                .or_insert(0);
            *n += 1;
            *n <= params.cell_budget
        });
    }
    points.truncate(params.max_keypoints as usize);
    points.sort_by_key(order);
    out.kept = points.len();
    for found in &points {
        let (octave, layer, y, x) = found.at;
        let levels = &all[octave];
        let scale = if paper {
            (layer + 1) * 64
        } else {
            ((layer as f32 + found.offset[2]) * 64.0 + 0.5) as usize
        };
        let angles = if params.oriented && !paper {
            angles(params, &tables, levels, found, scale)
        } else {
            vec![0]
        };
        for angle in angles {
            out.oriented += 1;
            let (fx, fy) = full(found);
            let mut bits = Descriptor::default();
            let inside: bool;
            if paper {
                inside = x >= 4 && y >= 4 && x + 4 < width && y + 4 < height;
                let base = &levels.grey[levels.grey.len() - 1];
                for (i, p) in tables.pattern.iter().enumerate() {
                    let at = |u: i16, v: i16| {
                        let x = (x as i64 + i64::from(u)).clamp(0, width as i64 - 1);
                        base[(y as i64 + i64::from(v)).clamp(0, height as i64 - 1) as usize]
                            [x as usize]
                    };
                    bits.0[i / 32] |= u32::from(at(p[0], p[1]) < at(p[2], p[3])) << (i % 32);
                }
            } else {
                let (octave, layer, size, x, y, offset) = if params.scaled {
                    let scale = i64::from(tables.sigma_fixed[scale]);
                    (
                        octave,
                        layer,
                        scale,
                        x,
                        y,
                        [found.offset[0], found.offset[1]],
                    )
                } else {
                    let image_octave = usize::from(params.upsample).min(all.len() - 1);
                    let step = octaves_of.step(image_octave);
                    let nearest = (0..params.intervals as usize + 2)
                        .min_by(|&a, &b| {
                            let off = |i: usize| (tables.sigma[i * 64] - 2.0).abs();
                            off(a).total_cmp(&off(b)).then(a.cmp(&b))
                        })
                        .unwrap();
                    let (u, v) = (fx / step, fy / step);
                    let (x, y) = ((u + 0.5) as usize, (v + 0.5) as usize);
                    (
                        image_octave,
                        nearest,
                        2048,
                        x,
                        y,
                        [u - x as f32, v - y as f32],
                    )
                };
                let grey = &all[octave].grey[layer];
                let turn = |t: &[i32]| (size * i64::from(t[usize::from(angle)]) + 8192) >> 14;
                let (cos, sin) = (turn(&tables.cos), turn(&tables.sin));
                let part = offset.map(|o| (o * 262_144.0) as i64);
                let value = |u: i16, v: i16| {
                    let (u, v) = (i64::from(u), i64::from(v));
                    sample(
                        grey,
                        ((x as i64) << 18) + part[0] + cos * u - sin * v,
                        ((y as i64) << 18) + part[1] + sin * u + cos * v,
                    )
                };
                for (i, p) in tables.pattern.iter().enumerate() {
                    bits.0[i / 32] |= u32::from(value(p[0], p[1]) < value(p[2], p[3])) << (i % 32);
                }
                let reach = ((12 * size as usize) >> 10) + 2;
                let within = |v: usize, n: usize| v >= reach && v + reach < n;
                inside = within(x, grey[0].len()) && within(y, grey.len());
            }
            if params.border == BorderPolicy::Drop && !inside {
                continue;
            }
            out.original.push(out.oriented as u32 - 1);
            out.descriptors.push(bits);
            out.keypoints.push(Keypoint {
                x: fx,
                y: fy,
                sigma: tables.sigma[scale] * octaves_of.step(octave),
                angle,
                response: found.value.abs() / 64.0,
                octave: octave as i8 - i8::from(octaves_of.first < 0),
                layer: layer as u8,
                sign: if found.value > 0.0 { 1 } else { -1 },
            });
        }
    }
    out
}

/// All pairs.
pub fn matches(query: &[Descriptor], train: &[Descriptor], groups: Option<&[u32]>) -> Vec<Match> {
    let mut out = Vec::new();
    for (q, descriptor) in query.iter().enumerate() {
        let mut order: Vec<(u32, u32)> = (0..train.len())
            .map(|i| (descriptor.distance(&train[i]), i as u32))
            .collect();
        order.sort_unstable();
        let Some(&(distance, best)) = order.first() else {
            continue;
        };
        let rival = order.iter().find(|(_, i)| match groups {
            None => *i != best,
            Some(groups) => groups[*i as usize] != groups[best as usize],
        });
        if let Some(&(second_distance, second)) = rival {
            out.push(Match {
                query: q as u32,
                train: best,
                distance,
                second,
                second_distance,
            });
        }
    }
    out
}
