//! Twelve invented marks for the benchmark: words and figures, drawn in grey.
use crate::frame::Image;

/// A mark: its figures are painted one over the other.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Its name.
    pub name: &'static str,
    /// Width by height.
    pub aspect: f64,
    /// Grey of its own ground; `None`: it stands on a vehicle's paint.
    pub ground: Option<u8>,
    /// Grey of the paint that it looks best on.
    pub paint: u8,
    parts: &'static [Part],
}

/// Lengths in heights of the mark, from its left upper corner.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Middle, outer and inner radius, grey.
    Ring(f64, f64, f64, f64, u8),
    /// Left, top, right, bottom, slant (right per up), grey.
    Bar(f64, f64, f64, f64, f64, u8),
    /// Three corners, grey.
    Triangle([[f64; 2]; 3], u8),
    /// Text, left, top, height of its letters, their advance, stroke, slant, grey.
    Word(&'static str, f64, f64, f64, f64, f64, f64, u8),
}

use Part::{Bar, Ring, Triangle, Word};

/// The marks. Invented; no such companies are known.
pub const MARKS: [Mark; 12] = [
    Mark {
        name: "alvora",
        aspect: 1.0,
        ground: None,
        paint: 236,
        parts: &[
            Ring(0.5, 0.5, 0.47, 0.39, 30),
            Triangle([[0.5, 0.16], [0.78, 0.72], [0.22, 0.72]], 40),
            Triangle([[0.5, 0.40], [0.62, 0.66], [0.36, 0.60]], 236),
            Bar(0.34, 0.76, 0.70, 0.82, 0.0, 90),
        ],
    },
    Mark {
        name: "brontek",
        aspect: 3.4,
        ground: Some(24),
        paint: 200,
        parts: &[
            Word("BRONTEK", 0.30, 0.24, 0.52, 0.40, 0.085, 0.15, 240),
            Bar(0.12, 0.12, 0.18, 0.88, 0.0, 170),
            Bar(0.30, 0.86, 3.2, 0.90, 0.0, 170),
        ],
    },
    Mark {
        name: "cisquil",
        aspect: 1.0,
        ground: Some(215),
        paint: 90,
        parts: &[
            Ring(0.36, 0.42, 0.28, 0.19, 20),
            Ring(0.66, 0.62, 0.25, 0.14, 120),
            Triangle([[0.12, 0.92], [0.40, 0.74], [0.44, 0.95]], 20),
            Bar(0.62, 0.08, 0.92, 0.20, 0.3, 20),
            Bar(0.70, 0.26, 0.92, 0.32, 0.3, 120),
        ],
    },
    Mark {
        name: "dunmarr",
        aspect: 2.2,
        ground: None,
        paint: 40,
        parts: &[
            Triangle([[0.10, 0.50], [0.46, 0.10], [0.40, 0.56]], 240),
            Triangle([[0.14, 0.60], [0.42, 0.66], [0.30, 0.92]], 180),
            Triangle([[0.56, 0.30], [0.74, 0.60], [0.48, 0.84]], 240),
            Word("DMR", 0.92, 0.20, 0.60, 0.42, 0.12, 0.0, 245),
        ],
    },
    Mark {
        name: "evolux",
        aspect: 4.5,
        ground: None,
        paint: 225,
        parts: &[
            Word("EVOLUX", 0.14, 0.18, 0.66, 0.72, 0.13, 0.0, 35),
            Triangle([[1.62, 0.02], [1.84, 0.02], [1.72, 0.14]], 110),
            Triangle([[1.88, 0.02], [2.08, 0.02], [1.96, 0.14]], 110),
        ],
    },
    Mark {
        name: "fjordal",
        aspect: 1.6,
        ground: Some(60),
        paint: 220,
        parts: &[
            Ring(0.80, 0.36, 0.26, 0.0, 225),
            Triangle([[0.16, 0.72], [0.54, 0.20], [0.92, 0.72]], 150),
            Triangle([[0.70, 0.72], [1.06, 0.34], [1.44, 0.72]], 105),
            Triangle([[0.54, 0.20], [0.64, 0.34], [0.44, 0.34]], 250),
            Word("FJO", 0.36, 0.77, 0.17, 0.34, 0.04, 0.0, 245),
        ],
    },
    Mark {
        name: "gromwell",
        aspect: 2.6,
        ground: Some(245),
        paint: 150,
        parts: &[
            Bar(0.10, 0.14, 0.24, 0.86, -0.25, 25),
            Bar(0.34, 0.14, 0.48, 0.62, -0.25, 130),
            Bar(0.58, 0.14, 0.72, 0.86, -0.25, 25),
            Word("GRW", 1.02, 0.12, 0.44, 0.50, 0.09, 0.0, 25),
            Word("LINES", 1.02, 0.68, 0.20, 0.29, 0.04, 0.0, 110),
        ],
    },
    Mark {
        name: "hexanor",
        aspect: 1.15,
        ground: None,
        paint: 205,
        parts: &[
            Triangle([[0.575, 0.04], [1.05, 0.30], [1.05, 0.74]], 45),
            Triangle([[0.575, 0.04], [1.05, 0.74], [0.575, 0.97]], 45),
            Triangle([[0.575, 0.04], [0.575, 0.97], [0.10, 0.74]], 45),
            Triangle([[0.575, 0.04], [0.10, 0.74], [0.10, 0.30]], 45),
            Word("HX", 0.30, 0.26, 0.42, 0.32, 0.075, 0.0, 235),
            Bar(0.34, 0.76, 0.80, 0.80, 0.0, 160),
        ],
    },
    Mark {
        name: "ildera",
        aspect: 3.0,
        ground: Some(180),
        paint: 60,
        parts: &[
            Word("ILDERA", 0.16, 0.16, 0.48, 0.46, 0.075, 0.22, 18),
            Bar(0.10, 0.74, 2.0, 0.82, 0.22, 235),
            Bar(0.10, 0.86, 1.4, 0.91, 0.22, 18),
            Ring(2.55, 0.72, 0.17, 0.09, 235),
        ],
    },
    Mark {
        name: "jutara",
        aspect: 0.8,
        ground: Some(35),
        paint: 210,
        parts: &[
            Ring(0.40, 0.32, 0.26, 0.16, 230),
            Triangle([[0.40, 0.14], [0.52, 0.42], [0.30, 0.36]], 230),
            Word("JTR", 0.10, 0.68, 0.20, 0.22, 0.045, 0.0, 230),
            Bar(0.10, 0.93, 0.70, 0.96, 0.0, 140),
        ],
    },
    Mark {
        name: "kolmer",
        aspect: 4.0,
        ground: Some(250),
        paint: 120,
        parts: &[
            Ring(0.50, 0.50, 0.38, 0.30, 60),
            Bar(0.44, 0.10, 0.56, 0.90, 0.4, 20),
            Word("KOLMER", 1.12, 0.14, 0.42, 0.46, 0.08, 0.0, 20),
            Word("FREIGHT", 1.12, 0.70, 0.18, 0.32, 0.035, 0.0, 100),
        ],
    },
    Mark {
        name: "lundex",
        aspect: 1.8,
        ground: None,
        paint: 70,
        parts: &[
            Ring(0.46, 0.50, 0.40, 0.33, 240),
            Ring(0.90, 0.50, 0.40, 0.33, 190),
            Ring(1.34, 0.50, 0.40, 0.33, 240),
            Triangle([[0.36, 0.36], [0.60, 0.48], [0.38, 0.66]], 240),
            Bar(1.22, 0.36, 1.48, 0.44, 0.0, 240),
            Bar(1.26, 0.56, 1.42, 0.62, 0.0, 190),
        ],
    },
];

/// Samples a pixel each way.
const FINE: usize = 3;

impl Mark {
    /// Grey at a point; the ground, or the paint, where there is no figure.
    fn grey(&self, x: f64, y: f64) -> (u8, bool) {
        let figure = self.parts.iter().rev().find_map(|p| p.at(x, y));
        match (figure, self.ground) {
            (Some(grey), _) => (grey, true),
            (None, Some(ground)) => (ground, true),
            (None, None) => (self.paint, false),
        }
    }

    /// The mark as a picture of this height, and how opaque it is (255: wholly). What is
    /// transparent has the grey of the paint.
    pub fn picture(&self, height: usize) -> (Image<u8>, Image<u8>) {
        let width = ((height as f64 * self.aspect + 0.5) as usize).max(1);
        let mut alpha = Image::new(width, height);
        let grey = Image::from_fn(width, height, |x, y| {
            let (mut sum, mut opaque) = (0u32, 0u32);
            for j in 0..FINE {
                for i in 0..FINE {
                    let part = |p: usize, k: usize| p as f64 + (k as f64 + 0.5) / FINE as f64;
                    let u = part(x, i) * self.aspect / width as f64;
                    let (grey, ink) = self.grey(u, part(y, j) / height as f64);
                    sum += u32::from(grey);
                    opaque += u32::from(ink);
                }
            }
            let n = (FINE * FINE) as u32;
            alpha.set(x, y, (255 * opaque / n) as u8);
            ((sum + n / 2) / n) as u8
        });
        (grey, alpha)
    }
}

impl Part {
    fn at(&self, x: f64, y: f64) -> Option<u8> {
        match *self {
            Ring(cx, cy, outer, inner, grey) => {
                let r2 = (x - cx) * (x - cx) + (y - cy) * (y - cy);
                (r2 <= outer * outer && r2 >= inner * inner).then_some(grey)
            }
            Bar(x0, y0, x1, y1, slant, grey) => {
                let x = x - slant * (y1 - y);
                (x >= x0 && x <= x1 && y >= y0 && y <= y1).then_some(grey)
            }
            Triangle([a, b, c], grey) => {
                let side = |p: [f64; 2], q: [f64; 2]| {
                    (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0])
                };
                let s = [side(a, b), side(b, c), side(c, a)];
                (s.iter().all(|v| *v >= 0.0) || s.iter().all(|v| *v <= 0.0)).then_some(grey)
            }
            Word(text, x0, y0, height, advance, stroke, slant, grey) => {
                let v = (y - y0) / height;
                let half = 0.5 * stroke / height;
                if v < -half || v > 1.0 + half {
                    return None;
                }
                let u = (x - x0 - slant * height * (1.0 - v)) / advance;
                // A letter fills 0.72 of its advance; a stroke may stand over on either side.
                let width = 0.72 * advance / height;
                let hit = |i: i64| {
                    let Some(&letter) =
                        usize::try_from(i).ok().and_then(|i| text.as_bytes().get(i))
                    else {
                        return false;
                    };
                    let px = (u - i as f64) * advance / height;
                    strokes(letter).iter().any(|line| {
                        line.windows(2).any(|s| {
                            let place =
                                |(a, b): (u8, u8)| [f64::from(a) / 4.0 * width, f64::from(b) / 6.0];
                            near(place(s[0]), place(s[1]), [px, v], half)
                        })
                    })
                };
                // A letter reaches from -over to 0.72 + over of its place.
                let over = half * height / advance;
                let i = libm::floor(u) as i64;
                let part = u - i as f64;
                let ink = hit(i)
                    || (part < over - 0.28 && hit(i - 1))
                    || (part > 1.0 - over && hit(i + 1));
                ink.then_some(grey)
            }
        }
    }
}

/// Whether a point lies within `reach` of a segment.
fn near(a: [f64; 2], b: [f64; 2], p: [f64; 2], reach: f64) -> bool {
    let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
    let (px, py) = (p[0] - a[0], p[1] - a[1]);
    let t = ((px * dx + py * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
    let (ex, ey) = (px - t * dx, py - t * dy);
    ex * ex + ey * ey <= reach * reach
}

/// Strokes of a letter on a grid 4 wide and 6 high.
fn strokes(letter: u8) -> &'static [&'static [(u8, u8)]] {
    match letter {
        b'A' => &[&[(0, 6), (2, 0), (4, 6)], &[(1, 4), (3, 4)]],
        b'B' => &[
            &[(0, 0), (0, 6), (3, 6), (4, 5), (4, 4), (3, 3), (0, 3)],
            &[(3, 3), (4, 2), (4, 1), (3, 0), (0, 0)],
        ],
        b'D' => &[&[(0, 0), (0, 6), (2, 6), (4, 4), (4, 2), (2, 0), (0, 0)]],
        b'E' => &[&[(4, 0), (0, 0), (0, 6), (4, 6)], &[(0, 3), (3, 3)]],
        b'F' => &[&[(4, 0), (0, 0), (0, 6)], &[(0, 3), (3, 3)]],
        b'G' => &[&[
            (4, 1),
            (3, 0),
            (1, 0),
            (0, 2),
            (0, 4),
            (1, 6),
            (3, 6),
            (4, 5),
            (4, 3),
            (2, 3),
        ]],
        b'H' => &[&[(0, 0), (0, 6)], &[(4, 0), (4, 6)], &[(0, 3), (4, 3)]],
        b'I' => &[&[(2, 0), (2, 6)]],
        b'J' => &[&[(4, 0), (4, 4), (3, 6), (1, 6), (0, 5)]],
        b'K' => &[&[(0, 0), (0, 6)], &[(4, 0), (0, 4)], &[(1, 3), (4, 6)]],
        b'L' => &[&[(0, 0), (0, 6), (4, 6)]],
        b'M' => &[&[(0, 6), (0, 0), (2, 4), (4, 0), (4, 6)]],
        b'N' => &[&[(0, 6), (0, 0), (4, 6), (4, 0)]],
        b'O' => &[&[
            (1, 0),
            (3, 0),
            (4, 2),
            (4, 4),
            (3, 6),
            (1, 6),
            (0, 4),
            (0, 2),
            (1, 0),
        ]],
        b'R' => &[
            &[(0, 6), (0, 0), (3, 0), (4, 1), (4, 2), (3, 3), (0, 3)],
            &[(2, 3), (4, 6)],
        ],
        b'S' => &[&[
            (4, 1),
            (3, 0),
            (1, 0),
            (0, 1),
            (0, 2),
            (4, 4),
            (4, 5),
            (3, 6),
            (1, 6),
            (0, 5),
        ]],
        b'T' => &[&[(0, 0), (4, 0)], &[(2, 0), (2, 6)]],
        b'U' => &[&[(0, 0), (0, 5), (1, 6), (3, 6), (4, 5), (4, 0)]],
        b'V' => &[&[(0, 0), (2, 6), (4, 0)]],
        b'W' => &[&[(0, 0), (1, 6), (2, 2), (3, 6), (4, 0)]],
        b'X' => &[&[(0, 0), (4, 6)], &[(4, 0), (0, 6)]],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_names_of_their_own_and_show_something() {
        for (i, mark) in MARKS.iter().enumerate() {
            assert!(MARKS[..i].iter().all(|m| m.name < mark.name));
            let (grey, alpha) = mark.picture(64);
            assert_eq!(grey.size(), alpha.size());
            assert_eq!(alpha.pixels().all(|a| *a == 255), mark.ground.is_some());
            let (low, high) = (grey.pixels().min(), grey.pixels().max());
            assert!(high.unwrap() - low.unwrap() > 100, "{}", mark.name);
            for part in mark.parts {
                if let Word(text, ..) = part {
                    assert!(text.bytes().all(|l| !strokes(l).is_empty()), "{text}");
                }
            }
        }
    }
}
