//! Are homographies found exactly where they can be, and in spite of noise and wrong pairs?
use proptest::prelude::*;
use roadloop::maths::{
    homography::{Homography, Pair, Ransac, Scorer, refit},
    random::hash,
};

/// A number from -1 to 1.
fn unit(seed: u32, index: u32, draw: u32) -> f64 {
    f64::from(hash(seed, index, draw)) / f64::from(1u32 << 31) - 1.0
}

/// A plausible view of a plane: a few px of everything over a picture of 1000 px.
fn view(seed: u32) -> Homography {
    let r = |i, scale: f64| unit(seed, 1000, i) * scale;
    Homography([
        1.0 + r(0, 0.2),
        r(1, 0.2),
        r(2, 40.0),
        r(3, 0.2),
        1.0 + r(4, 0.2),
        r(5, 40.0),
        r(6, 2e-4),
        r(7, 2e-4),
        1.0,
    ])
}

/// `n` pairs of a map, of which the first `wrong` go anywhere; gaussian-like noise.
fn pairs(h: &Homography, n: u32, wrong: u32, noise_px: f64, seed: u32) -> Vec<Pair> {
    (0..n)
        .map(|i| {
            let from = [
                500.0 + 500.0 * unit(seed, i, 0),
                300.0 + 300.0 * unit(seed, i, 1),
            ];
            let from = from.map(|v| v as f32);
            let to = if i < wrong {
                [
                    500.0 + 500.0 * unit(seed, i, 2),
                    300.0 + 300.0 * unit(seed, i, 3),
                ]
            } else {
                let [u, v] = h.apply(from[0].into(), from[1].into()).unwrap();
                let jitter =
                    |k| noise_px * (unit(seed, i, k) + unit(seed, i, k + 1) + unit(seed, i, k + 2));
                [u + jitter(4), v + jitter(7)]
            };
            Pair {
                from,
                to: to.map(|v| v as f32),
            }
        })
        .collect()
}

/// The greatest distance between two maps over a picture of 1000x600.
fn difference(a: &Homography, b: &Homography) -> f64 {
    let mut worst: f64 = 0.0;
    for y in [0.0, 300.0, 600.0] {
        for x in [0.0, 500.0, 1000.0] {
            let (a, b) = (a.apply(x, y).unwrap(), b.apply(x, y).unwrap());
            worst = worst.max((a[0] - b[0]).hypot(a[1] - b[1]));
        }
    }
    worst
}

/// The obvious way: eight linear equations, Gauss-Jordan with full row pivoting.
fn by_elimination(pairs: &[Pair; 4]) -> Option<Homography> {
    let mut m = [[0.0f64; 9]; 8];
    for (i, p) in pairs.iter().enumerate() {
        let [x, y] = p.from.map(f64::from);
        let [u, v] = p.to.map(f64::from);
        m[2 * i] = [x, y, 1.0, 0.0, 0.0, 0.0, -x * u, -y * u, u];
        m[2 * i + 1] = [0.0, 0.0, 0.0, x, y, 1.0, -x * v, -y * v, v];
    }
    for c in 0..8 {
        let pivot = (c..8).max_by(|&a, &b| m[a][c].abs().total_cmp(&m[b][c].abs()))?;
        m.swap(c, pivot);
        if m[c][c].abs() < 1e-9 {
            return None;
        }
        for r in 0..8 {
            if r != c {
                let (f, pivot) = (m[r][c] / m[c][c], m[c]);
                for (v, p) in m[r].iter_mut().zip(pivot) {
                    *v -= f * p;
                }
            }
        }
    }
    let mut h = [1.0; 9];
    for i in 0..8 {
        h[i] = m[i][8] / m[i][i];
    }
    Some(Homography(h))
}

fn pair(from: [f32; 2], to: [f32; 2]) -> Pair {
    Pair { from, to }
}

const SQUARE: [[f32; 2]; 4] = [[0.0, 0.0], [100.0, 0.0], [100.0, 100.0], [0.0, 100.0]];

#[test]
fn four_points_give_the_map_that_moved_them() {
    for seed in 0..200 {
        let truth = view(seed);
        let four: [Pair; 4] = pairs(&truth, 4, 0, 0.0, seed).try_into().unwrap();
        let Some(found) = Homography::through(&four, 2000.0) else {
            continue;
        };
        for p in four {
            let [u, v] = found.apply(p.from[0].into(), p.from[1].into()).unwrap();
            let [a, b] = p.to.map(f64::from);
            assert!((u - a).hypot(v - b) < 1e-8, "{found:?}");
        }
    }
}

#[test]
fn whole_pixel_shifts_are_exact() {
    let four = SQUARE.map(|p| pair(p, [p[0] + 3.0, p[1] - 2.0]));
    let h = Homography::through(&four, 1.0)
        .unwrap()
        .normalised()
        .unwrap();
    assert_eq!(h.0, [1.0, 0.0, 3.0, 0.0, 1.0, -2.0, 0.0, 0.0, 1.0]);
}

#[test]
fn degenerate_samples_are_refused() {
    let same = |points: [[f32; 2]; 4]| points.map(|p| pair(p, p));
    assert!(Homography::through(&same(SQUARE), 0.0).is_some());
    let in_line = [[0.0, 0.0], [50.0, 50.0], [100.0, 100.0], [0.0, 100.0]];
    for turn in 0..4 {
        let mut points = in_line;
        points.rotate_left(turn);
        assert!(
            Homography::through(&same(points), 0.0).is_none(),
            "three in line"
        );
        let to_line = [0, 1, 2, 3].map(|i| pair(SQUARE[i], points[i]));
        assert!(
            Homography::through(&to_line, 0.0).is_none(),
            "mapped into a line"
        );
    }
    let twice = [[0.0, 0.0], [0.0, 0.0], [100.0, 100.0], [0.0, 100.0]];
    assert!(
        Homography::through(&same(twice), 0.0).is_none(),
        "a point twice"
    );
    let mirrored = SQUARE.map(|p| pair(p, [-p[0], p[1]]));
    assert!(
        Homography::through(&mirrored, 0.0).is_none(),
        "a mirror image"
    );
    let mut crossed = SQUARE.map(|p| pair(p, p));
    crossed[2].to = SQUARE[3];
    crossed[3].to = SQUARE[2];
    assert!(Homography::through(&crossed, 0.0).is_none(), "a bow tie");
    let mut folded = SQUARE.map(|p| pair(p, p));
    folded[2].to = [20.0, 20.0];
    assert!(
        Homography::through(&folded, 0.0).is_none(),
        "a corner pushed in"
    );
    assert!(
        Homography::through(&same(SQUARE), 10_001.0).is_none(),
        "too small"
    );
}

#[test]
fn the_way_back_leads_back() {
    for seed in 0..50 {
        let h = view(seed);
        let there_and_back = h.then(&h.inverse().unwrap());
        assert!(difference(&there_and_back, &Homography::IDENTITY) < 1e-9);
    }
    assert_eq!(Homography([1.0; 9]).inverse(), None);
}

#[test]
fn points_behind_the_horizon_go_nowhere() {
    let h = Homography([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -0.01, 0.0, 1.0]);
    assert!(h.apply(99.0, 0.0).is_some());
    assert_eq!(h.apply(100.0, 0.0), None);
    assert_eq!(h.apply(200.0, 0.0), None);
    assert!(!Scorer::new(&h, 1e6).fits(&pair([200.0, 0.0], [-200.0, 0.0])));
}

#[test]
fn exact_pairs_give_the_exact_map() {
    for seed in 0..20 {
        let truth = view(seed);
        let pairs = pairs(&truth, 100, 0, 0.0, seed);
        let mut inliers = [false; 100];
        let found = Ransac::default().estimate(&pairs, &mut inliers).unwrap();
        assert_eq!(found.inliers, 100);
        assert!(inliers.iter().all(|i| *i));
        // The pairs themselves are rounded to f32.
        assert!(difference(&found.homography, &truth) < 1e-3);
    }
}

#[test]
fn sixty_percent_of_wrong_pairs_do_no_harm() {
    for seed in 0..20 {
        let truth = view(seed);
        let pairs = pairs(&truth, 200, 120, 0.0, seed);
        let mut inliers = [false; 200];
        let ransac = Ransac {
            hypotheses: 512,
            seed,
            ..Ransac::default()
        };
        let found = ransac.estimate(&pairs, &mut inliers).unwrap();
        assert!(inliers[120..].iter().all(|i| *i), "seed {seed}: {found:?}");
        assert!(found.inliers < 84);
        assert!(difference(&found.homography, &truth) < 0.5, "seed {seed}");
    }
}

#[test]
fn noise_is_averaged_out() {
    for seed in 0..20 {
        let truth = view(seed);
        // Standard deviation 0.3 px: 3 uniform numbers of -0.3..0.3.
        let pairs = pairs(&truth, 400, 100, 0.3, seed);
        let mut inliers = [false; 400];
        let ransac = Ransac {
            threshold_px: 1.5,
            ..Ransac::default()
        };
        let found = ransac.estimate(&pairs, &mut inliers).unwrap();
        assert!(found.inliers >= 300);
        assert!(difference(&found.homography, &truth) < 0.6, "seed {seed}");
    }
}

#[test]
fn best_first_order_finds_few_good_among_many_bad() {
    let truth = view(5);
    let mut sorted = pairs(&truth, 300, 260, 0.0, 5);
    sorted.reverse();
    let ransac = Ransac {
        hypotheses: 64,
        progressive: true,
        ..Ransac::default()
    };
    let mut inliers = [false; 300];
    let found = ransac.estimate(&sorted, &mut inliers).unwrap();
    assert!(found.inliers >= 40);
    assert!(difference(&found.homography, &truth) < 0.5);
}

#[test]
fn few_or_useless_pairs_give_nothing() {
    let ransac = Ransac::default();
    let three = pairs(&view(1), 3, 0, 0.0, 1);
    let mut inliers = [true; 50];
    assert_eq!(ransac.estimate(&three, &mut inliers), None);
    assert_eq!(inliers[..4], [false, false, false, true]);
    let line: Vec<Pair> = (0..50)
        .map(|i| pair([i as f32, 3.0], [i as f32, 3.0]))
        .collect();
    assert_eq!(ransac.estimate(&line, &mut inliers), None);
    assert!(refit(&Homography::IDENTITY, &line, &[true; 50], 2).is_none());
    assert!(refit(&Homography::IDENTITY, &three, &[true; 3], 2).is_none());
    let nowhere = vec![pair([f32::NAN; 2], [f32::INFINITY; 2]); 50];
    assert_eq!(ransac.estimate(&nowhere, &mut inliers), None);
    assert!(inliers.iter().all(|i| !i));
}

proptest! {
    #[test]
    fn four_points_agree_with_elimination(
        corners in prop::array::uniform4((-40.0f32..40.0, -40.0f32..40.0)),
        moved in prop::array::uniform4((-40.0f32..40.0, -40.0f32..40.0)),
    ) {
        let base = [[100.0, 100.0], [700.0, 120.0], [680.0, 500.0], [90.0, 480.0]];
        let four = [0, 1, 2, 3].map(|i| {
            let ((a, b), (c, d)) = (corners[i], moved[i]);
            pair([base[i][0] + a, base[i][1] + b], [base[i][0] + c, base[i][1] + d])
        });
        let found = Homography::through(&four, 1.0).unwrap();
        let slow = by_elimination(&four).unwrap();
        for (x, y) in [(100.0, 100.0), (400.0, 300.0), (650.0, 200.0)] {
            let (a, b) = (found.apply(x, y).unwrap(), slow.apply(x, y).unwrap());
            prop_assert!((a[0] - b[0]).hypot(a[1] - b[1]) < 1e-7);
        }
    }

    #[test]
    fn the_winner_is_the_first_with_the_most_inliers(seed in 0u32..1000, n in 4u32..60) {
        let pairs = pairs(&view(seed), n, n / 2, 0.2, seed);
        let ransac = Ransac { hypotheses: 40, refits: 0, seed, ..Ransac::default() };
        // With divisions, and every hypothesis kept.
        let counts: Vec<usize> = (0..40)
            .filter_map(|t| ransac.hypothesis(&pairs, t))
            .map(|h| {
                let near = |p: &&Pair| h.apply(p.from[0].into(), p.from[1].into()).is_some_and(|q| {
                    let (dx, dy) = (q[0] - f64::from(p.to[0]), q[1] - f64::from(p.to[1]));
                    dx * dx + dy * dy <= 1.0
                });
                pairs.iter().filter(near).count()
            })
            .collect();
        let mut inliers = vec![false; n as usize];
        let found = ransac.estimate(&pairs, &mut inliers);
        // A pair at the very limit may fall to either side in f32.
        prop_assert!(found.map_or(0, |f| f.inliers as usize).abs_diff(counts.into_iter().max().unwrap_or(0)) <= 1);
        prop_assert_eq!(inliers.iter().filter(|i| **i).count(), found.map_or(0, |f| f.inliers as usize));
    }

    #[test]
    fn a_refit_never_fits_worse_than_its_start(seed in 0u32..500) {
        let truth = view(seed);
        let pairs = pairs(&truth, 60, 0, 0.3, seed);
        let squares = |h: &Homography| pairs.iter().map(|p| {
            let q = h.apply(p.from[0].into(), p.from[1].into()).unwrap();
            (q[0] - f64::from(p.to[0])).powi(2) + (q[1] - f64::from(p.to[1])).powi(2)
        }).sum::<f64>();
        let found = refit(&truth, &pairs, &[true; 60], 3).unwrap();
        prop_assert!(squares(&found) <= squares(&truth) * (1.0 + 1e-6));
    }
}
