//! Histogram, votes and fit against models that look at every pixel.
use proptest::prelude::*;

use super::*;
use crate::frame::Image;

const D: usize = 16;

fn camera() -> Camera {
    Camera {
        focal_px: 40.0,
        cx: 10.0,
        cy: 5.0,
        baseline_m: 0.9,
    }
}

fn plan(size: Size, mask: Option<&Mask>) -> Plan {
    Plan::new(&Params::default(), size, &camera(), D, mask).unwrap()
}

fn scene() -> impl Strategy<Value = (Disparity, Mask)> {
    (1usize..40, 1usize..24).prop_flat_map(|(w, h)| {
        let pixel = prop_oneof![
            4 => 0u16..(D as u16 * 256),
            1 => Just(INVALID),
            1 => any::<u16>(),
        ];
        (
            proptest::collection::vec(pixel, w * h),
            proptest::collection::vec(0u8..3, w * h),
        )
            .prop_map(move |(d, m)| {
                (
                    Image::from_vec(w, h, d).unwrap(),
                    Image::from_vec(w, h, m).unwrap(),
                )
            })
    })
}

/// Usable disparities of a row.
fn usable<'a>(d: &'a Disparity, mask: &'a Mask, y: usize) -> impl Iterator<Item = u64> + 'a {
    d.row(y)
        .iter()
        .zip(mask.row(y))
        .filter(|&(&d, &m)| m != 0 && d != INVALID && usize::from(d) < D * 256)
        .map(|(&d, _)| u64::from(d))
}

/// Pixels of a row inside the band (count, sum) and below the ground.
fn slow_band(
    d: &Disparity,
    mask: &Mask,
    y: usize,
    line: Candidate,
    least: i64,
    ratio: i64,
) -> (i64, i64, i64) {
    let at = line.slope * y as i64 + line.offset;
    let reach = least + at * ratio / 65536;
    let quarter = |v: i64| (v as f64 / 16384.0).floor() as i64;
    let (lo, hi) = (quarter(at - reach + 8192), quarter(at + reach + 8192));
    let under = quarter(at - at / 4 - 2 * least);
    let mut found = (0, 0, 0);
    for v in usable(d, mask, y) {
        let bin = v as i64 / 64;
        if bin >= lo && bin < hi {
            found.0 += 1;
            found.1 += v as i64;
        }
        if bin < under {
            found.2 += 1;
        }
    }
    found
}

proptest! {
    #[test]
    fn histogram_counts_and_sums_every_usable_pixel((d, mask) in scene()) {
        let mut plan = plan(d.size(), Some(&mask));
        plan.fill(&d);
        for y in 0..d.height() {
            for k in 0..=D * 4 {
                let below: Vec<u64> = usable(&d, &mask, y).filter(|v| v / 64 < k as u64).collect();
                let expected = ((below.len() as u64) << 32) | below.iter().sum::<u64>();
                prop_assert_eq!(plan.row(y)[k], expected, "row {} bin {}", y, k);
            }
        }
    }

    #[test]
    fn votes_and_fit_equal_a_walk_over_the_pixels(
        (d, mask) in scene(),
        slope in 1000i64..80_000,
        at_middle in -3.0f64..18.0,
        least in 16_384i64..150_000,
    ) {
        let mut plan = plan(d.size(), Some(&mask));
        plan.fill(&d);
        let h = d.height();
        let offset = (at_middle * ONE) as i64 - slope * (h as i64 / 2);
        let line = Candidate { slope, offset };
        let mut votes = Votes::default();
        let (mut w, mut wr, mut wrr, mut wd, mut wrd) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for y in 0..h {
            let at = slope * y as i64 + offset;
            if !(65536..(D as i64) << 16).contains(&at) {
                continue;
            }
            let (n, sum, below) = slow_band(&d, &mask, y, line, least, plan.inlier_ratio);
            let cap = (d.width() as i64 / 2).max(1);
            votes.rows += 1;
            votes.inside += n.min(cap);
            votes.below += below.min(cap);
            votes.ground_rows += i64::from(
                n >= (d.width() as i64 / 256).max(1) && 16 * n >= usable(&d, &mask, y).count() as i64,
            );
            if n > 0 {
                // The sum of a row is rounded to 1/256 px.
                let weight = n.min(cap) as f64;
                let mean = (weight * sum as f64 / n as f64 + 0.5).floor() / weight / 256.0;
                let r = y as f64;
                w += weight;
                wr += weight * r;
                wrr += weight * r * r;
                wd += weight * mean;
                wrd += weight * mean * r;
            }
        }
        prop_assert_eq!(plan.votes(line, least, 1), votes);
        let det = w * wrr - wr * wr;
        let a = (w * wrd - wr * wd) / det;
        match plan.refine(line, least, plan.inlier_ratio) {
            Some(fit) => {
                prop_assert!((fit.line.slope - a).abs() <= 1e-9 * (1.0 + a.abs()));
                let b = (wd - a * wr) / w;
                let got = -fit.line.slope * fit.line.horizon;
                prop_assert!((got - b).abs() <= 1e-7 * (1.0 + b.abs()), "{} {}", got, b);
            }
            None => prop_assert!(det < 0.5 || a < 2e-6, "a fit exists: {} {}", det, a),
        }
    }
}

#[test]
fn the_grid_holds_every_plausible_camera_to_half_a_step() {
    let size = Size::new(1226, 370);
    let camera = Camera {
        focal_px: 707.0912,
        cx: 601.9,
        cy: 183.1,
        baseline_m: 0.5372,
    };
    let params = Params::default();
    let (fans, step) = grid(&params, size, &camera);
    let candidates: usize = fans.iter().map(|f| f.count as usize).sum();
    assert!(
        (1000..2 * MAX_CANDIDATES).contains(&candidates),
        "{candidates}"
    );
    for (height, pitch) in [
        (0.8, 0.0),
        (1.65, 0.3),
        (1.65, -0.3),
        (3.9, 0.1),
        (1.2, -0.05),
    ] {
        let line = Line::of_camera(&camera, height, pitch);
        // Largest difference at the principal row and at the last row, over the best candidate.
        let best = fans
            .iter()
            .flat_map(|f| (0..f.count).map(move |j| (f.slope, f.first + i64::from(j) * step)))
            .map(|(slope, offset)| {
                let off = |row: f64| {
                    let d = (slope as f64 * row + offset as f64) / ONE;
                    (d - line.slope * (row - line.horizon)).abs()
                };
                off(camera.cy).max(off(369.0))
            })
            .fold(f64::MAX, f64::min);
        assert!(
            best <= step as f64 / ONE,
            "{height} {pitch}: {best} px, step {step}"
        );
    }
}
