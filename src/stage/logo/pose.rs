//! Where a logo lies: the homography from its plane to the image.
//!
//! The plane of a logo has its origin in the middle of the picture, x to the right, y down; the
//! picture is 1 high and `aspect` wide, to the outer edges of its pixels. Only `+ - * /` and
//! `sqrt` in `f64`, in a fixed order.

/// Corners of the picture in the image, px: upper left, upper right, lower right, lower left.
pub(crate) type Quad = [[f64; 2]; 4];

/// A homography from a logo's plane to the image, row-major.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pose(pub [f64; 9]);

impl Pose {
    /// The homography that takes the picture's corners to `quad` (Heckbert 1989, section 2.2.3);
    /// `None` where three corners lie in a line.
    pub fn of_quad(aspect: f64, quad: &Quad) -> Option<Self> {
        let [[x0, y0], [x1, y1], [x2, y2], [x3, y3]] = *quad;
        let (sx, sy) = (x0 - x1 + x2 - x3, y0 - y1 + y2 - y3);
        let (dx1, dy1) = (x1 - x2, y1 - y2);
        let (dx2, dy2) = (x3 - x2, y3 - y2);
        let det = dx1 * dy2 - dx2 * dy1;
        if !det.is_finite() || det.abs() < 1e-9 {
            return None;
        }
        let g = (sx * dy2 - dx2 * sy) / det;
        let h = (dx1 * sy - sx * dy1) / det;
        let unit = [
            x1 - x0 + g * x1,
            x3 - x0 + h * x3,
            x0,
            y1 - y0 + g * y1,
            y3 - y0 + h * y3,
            y0,
            g,
            h,
            1.0,
        ];
        // From the plane to the unit square: u = x / aspect + 1/2, v = y + 1/2.
        let a = 1.0 / aspect;
        let mut out = [0.0; 9];
        for r in 0..3 {
            let [p, q, s] = [unit[3 * r], unit[3 * r + 1], unit[3 * r + 2]];
            out[3 * r] = p * a;
            out[3 * r + 1] = q;
            out[3 * r + 2] = (p + q) * 0.5 + s;
        }
        Self(out).normalised()
    }

    /// The similarity that turns by the unit vector `(cos, sin)`, scales by `scale` px a height
    /// and puts the plane's origin at `(x, y)`.
    #[cfg(test)]
    pub fn similarity(scale: f64, (cos, sin): (f64, f64), (x, y): (f64, f64)) -> Self {
        let (c, s) = (scale * cos, scale * sin);
        Self([c, -s, x, s, c, y, 0.0, 0.0, 1.0])
    }

    /// The same with a last element of 1; `None` where that can't be.
    pub fn normalised(self) -> Option<Self> {
        let w = self.0[8];
        if !w.is_finite() || w.abs() < 1e-12 {
            return None;
        }
        let out = self.0.map(|v| v / w);
        out.iter().all(|v| v.is_finite()).then_some(Self(out))
    }

    /// The image of a point, px. Not finite on the horizon.
    #[inline]
    pub fn map(&self, x: f64, y: f64) -> [f64; 2] {
        let h = &self.0;
        let w = 1.0 / (h[6] * x + h[7] * y + h[8]);
        [
            (h[0] * x + h[1] * y + h[2]) * w,
            (h[3] * x + h[4] * y + h[5]) * w,
        ]
    }

    /// The picture's corners in the image; `None` where one lies on or behind the horizon.
    pub fn quad(&self, aspect: f64) -> Option<Quad> {
        let h = &self.0;
        let a = 0.5 * aspect;
        let mut quad = [[0.0; 2]; 4];
        for (to, (x, y)) in quad
            .iter_mut()
            .zip([(-a, -0.5), (a, -0.5), (a, 0.5), (-a, 0.5)])
        {
            if h[6] * x + h[7] * y + h[8] <= 1e-6 {
                return None;
            }
            *to = self.map(x, y);
            if !to.iter().all(|v| v.abs() < 1e6) {
                return None;
            }
        }
        Some(quad)
    }

    /// `self` after `first`.
    pub fn after(&self, first: &[f64; 9]) -> [f64; 9] {
        let mut out = [0.0; 9];
        for r in 0..3 {
            for c in 0..3 {
                out[3 * r + c] = self.0[3 * r] * first[c]
                    + self.0[3 * r + 1] * first[3 + c]
                    + self.0[3 * r + 2] * first[6 + c];
            }
        }
        out
    }

    /// The way back, from the image to the plane.
    #[cfg(test)]
    pub fn inverse(&self) -> Option<[f64; 9]> {
        inverse(&self.0)
    }
}

/// The inverse of a 3x3 matrix by cofactors; `None` where there is none.
pub(crate) fn inverse(m: &[f64; 9]) -> Option<[f64; 9]> {
    let [a, b, c, d, e, f, g, h, i] = *m;
    let (p, q, r) = (e * i - f * h, f * g - d * i, d * h - e * g);
    let det = a * p + b * q + c * r;
    if !det.is_finite() || det.abs() < 1e-12 {
        return None;
    }
    let k = 1.0 / det;
    Some([
        p * k,
        (c * h - b * i) * k,
        (b * f - c * e) * k,
        q * k,
        (a * i - c * g) * k,
        (c * d - a * f) * k,
        r * k,
        (b * g - a * h) * k,
        (a * e - b * d) * k,
    ])
}

/// Twice the signed area; positive where the corners run clockwise on the screen.
pub(crate) fn twice_area(quad: &Quad) -> f64 {
    let mut sum = 0.0;
    for (i, [x0, y0]) in quad.iter().enumerate() {
        let [x1, y1] = quad[(i + 1) % 4];
        sum += x0 * y1 - x1 * y0;
    }
    sum
}

/// Whether the corners make a convex figure that runs clockwise on the screen, as the picture's
/// own do: seen from its front.
pub(crate) fn convex(quad: &Quad) -> bool {
    (0..4).all(|i| {
        let ([ax, ay], [bx, by], [cx, cy]) = (quad[i], quad[(i + 1) % 4], quad[(i + 2) % 4]);
        (bx - ax) * (cy - by) - (by - ay) * (cx - bx) > 0.0
    })
}

/// Mean width and mean height of a quad, px.
pub(crate) fn sides(quad: &Quad) -> (f64, f64) {
    let side = |i: usize, j: usize| {
        let (dx, dy) = (quad[j][0] - quad[i][0], quad[j][1] - quad[i][1]);
        (dx * dx + dy * dy).sqrt()
    };
    (
        0.5 * (side(0, 1) + side(3, 2)),
        0.5 * (side(0, 3) + side(1, 2)),
    )
}

/// The mean of the corners.
pub(crate) fn centre(quad: &Quad) -> [f64; 2] {
    let sum = |k: usize| quad[0][k] + quad[1][k] + quad[2][k] + quad[3][k];
    [0.25 * sum(0), 0.25 * sum(1)]
}

/// The smallest upright box, `[x0, y0, x1, y1]`.
pub(crate) fn bounds(quad: &Quad) -> [f64; 4] {
    let mut b = [quad[0][0], quad[0][1], quad[0][0], quad[0][1]];
    for [x, y] in quad {
        b[0] = b[0].min(*x);
        b[1] = b[1].min(*y);
        b[2] = b[2].max(*x);
        b[3] = b[3].max(*y);
    }
    b
}

/// Area in common of two upright boxes by the area of both together.
pub(crate) fn box_iou(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let w = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let h = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let area = |r: &[f64; 4]| (r[2] - r[0]).max(0.0) * (r[3] - r[1]).max(0.0);
    let both = area(a) + area(b) - w * h;
    if both > 0.0 { w * h / both } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_similarity_by_hand() {
        // 10 px high, 20 wide, turned a quarter clockwise, at (100, 50).
        let pose = Pose::similarity(10.0, (0.0, 1.0), (100.0, 50.0));
        let quad = pose.quad(2.0).unwrap();
        assert_eq!(
            quad,
            [[105.0, 40.0], [105.0, 60.0], [95.0, 60.0], [95.0, 40.0]]
        );
        assert!(convex(&quad));
        assert_eq!(twice_area(&quad), 400.0);
        assert_eq!(sides(&quad), (20.0, 10.0));
        assert_eq!(centre(&quad), [100.0, 50.0]);
        assert_eq!(bounds(&quad), [95.0, 40.0, 105.0, 60.0]);
    }

    #[test]
    fn what_is_no_front_view() {
        let mirrored = [[10.0, 0.0], [0.0, 0.0], [0.0, 10.0], [10.0, 10.0]];
        assert!(!convex(&mirrored));
        let crossed = [[0.0, 0.0], [10.0, 10.0], [10.0, 0.0], [0.0, 10.0]];
        assert!(!convex(&crossed));
        let line = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]];
        assert!(!convex(&line));
        assert_eq!(Pose::of_quad(1.0, &line), None);
    }

    #[test]
    fn boxes_in_common() {
        let a = [0.0, 0.0, 10.0, 10.0];
        assert_eq!(box_iou(&a, &a), 1.0);
        assert_eq!(box_iou(&a, &[5.0, 0.0, 15.0, 10.0]), 1.0 / 3.0);
        assert_eq!(box_iou(&a, &[20.0, 0.0, 30.0, 10.0]), 0.0);
        assert_eq!(box_iou(&[0.0; 4], &[0.0; 4]), 0.0);
    }

    proptest! {
        #[test]
        fn a_quad_gives_the_pose_that_gives_the_quad(
            aspect in 0.2f64..5.0, c in prop::array::uniform8(-20.0f64..20.0)
        ) {
            let mut quad = [[0.0, 0.0], [200.0, 0.0], [200.0, 100.0], [0.0, 100.0]];
            for (i, v) in c.iter().enumerate() {
                quad[i / 2][i % 2] += v;
            }
            let pose = Pose::of_quad(aspect, &quad).unwrap();
            let back = pose.quad(aspect).unwrap();
            let inverse = pose.inverse().unwrap();
            for (p, q) in quad.iter().flatten().zip(back.iter().flatten()) {
                prop_assert!((p - q).abs() < 1e-6, "{p} {q}");
            }
            let identity = pose.after(&inverse);
            for (i, v) in identity.iter().enumerate() {
                let expected = if i % 4 == 0 { identity[8] } else { 0.0 };
                prop_assert!((v - expected).abs() < 1e-6 * identity[8].abs().max(1.0));
            }
        }
    }
}
