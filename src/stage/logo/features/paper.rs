//! The detector of the report "cu-BRIEF", for comparison (mode `paper`).
//!
//! Six blurs of the image (sigma 1/sqrt 2 to 4, each from the image itself), five differences
//! `D_i = G_(i+1) - G_i`. A pixel, 4 or more from the border, is a point of the finest level at which
//! `|D| >= 7` grey values and no pixel of the 3x3 there and in the levels beside is greater (less
//! for negative ones; equal is allowed), and it stays unless `tr^2 / det > 12` of second
//! differences at distance 2. As there, saddles (`det < 0`) stay, and a point that is left
//! out at its finest level is not looked for at coarser ones. Unlike there, blurs are the whole
//! numbers of rule 2 with reflected borders, the list is ordered, and there is a limit to its length.
use super::extrema::{Octave, Point};

/// Pixels left out at the border.
const MARGIN: usize = 4;

/// The points of a row.
pub(super) fn row(octave: &Octave<'_>, y: usize, pretest: i32, mut take: impl FnMut(Point)) {
    let (width, height) = (octave.size.width, octave.size.height);
    if y < MARGIN || y + MARGIN >= height {
        return;
    }
    let differences = octave.levels.len() - 1;
    let d = |x: usize, y: usize, layer: usize| {
        let at = y * width + x;
        i32::from(octave.levels[layer + 1][at]) - i32::from(octave.levels[layer][at])
    };
    for x in MARGIN..width.saturating_sub(MARGIN) {
        for layer in 0..differences {
            let v = d(x, y, layer);
            if v.abs() <= pretest {
                continue;
            }
            let beside = layer.saturating_sub(1)..(layer + 2).min(differences);
            let extreme = beside.into_iter().all(|layer| {
                (y - 1..=y + 1).all(|y| {
                    (x - 1..=x + 1).all(|x| {
                        let other = d(x, y, layer);
                        if v > 0 { v >= other } else { v <= other }
                    })
                })
            });
            if !extreme {
                continue;
            }
            let xx = i64::from(d(x + 2, y, layer) - 2 * v + d(x - 2, y, layer));
            let yy = i64::from(d(x, y + 2, layer) - 2 * v + d(x, y - 2, layer));
            let xy = i64::from(
                d(x + 1, y + 1, layer) - d(x - 1, y + 1, layer) - d(x + 1, y - 1, layer)
                    + d(x - 1, y - 1, layer),
            );
            let (trace, det) = (xx + yy, xx * yy - xy * xy);
            // R = trace^2 / det; a det of 0 is an R without bound.
            let reject = if det > 0 {
                trace * trace > 12 * det
            } else {
                det == 0
            };
            if !reject {
                take(Point {
                    x,
                    y,
                    layer: layer + 1,
                    offset: [0.0; 3],
                    value: v as f32,
                });
            }
            break;
        }
    }
}
