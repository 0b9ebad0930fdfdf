//! Lens models on the normalised image plane (`x / z`, `y / z`).
//!
//! Brown-Conrady with rational radial part: OpenCV calib3d documentation, "Detailed Description";
//! equidistant: Kannala and Brandt, PAMI 2006, with the four odd powers that OpenCV's fisheye
//! model and Kalibr use.
use libm::{atan, tan};

/// Steps of Newton's method in [`Distortion::undistort`]; never more.
const NEWTON_STEPS: usize = 24;

/// How a lens bends rays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distortion {
    /// An ideal pinhole.
    None,
    /// `k1 k2 p1 p2`.
    RadialTangential4([f64; 4]),
    /// `k1 k2 p1 p2 k3` ("plumb bob").
    RadialTangential5([f64; 5]),
    /// `k1 k2 p1 p2 k3 k4 k5 k6`: radial factor `(1 + k1 r2 + k2 r4 + k3 r6) / (1 + k4 r2 + ..)`.
    Rational8([f64; 8]),
    /// `k1 k2 k3 k4`: `theta (1 + k1 theta^2 + .. + k4 theta^8)` from the centre.
    Equidistant4([f64; 4]),
}

impl Distortion {
    /// The name for people.
    pub const fn name(&self) -> &'static str {
        match self {
            Distortion::None => "none",
            Distortion::RadialTangential4(_) => "radial-tangential 4",
            Distortion::RadialTangential5(_) => "radial-tangential 5",
            Distortion::Rational8(_) => "rational 8",
            Distortion::Equidistant4(_) => "equidistant 4",
        }
    }

    /// The coefficients in the order of the model.
    pub fn coefficients(&self) -> &[f64] {
        match self {
            Distortion::None => &[],
            Distortion::RadialTangential4(k) => k,
            Distortion::RadialTangential5(k) => k,
            Distortion::Rational8(k) => k,
            Distortion::Equidistant4(k) => k,
        }
    }

    /// Whether it bends nothing: no model, or a Brown model with coefficients that are all 0.
    pub fn is_none(&self) -> bool {
        !matches!(self, Distortion::Equidistant4(_))
            && self.coefficients().iter().all(|&k| k == 0.0)
    }

    /// Where the ray through `(x, y)` of the normalised plane arrives on it behind the lens.
    pub fn distort(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        if let Distortion::Equidistant4(k) = self {
            let r = (x * x + y * y).sqrt();
            // Below this the factor is 1 to the last bit.
            if r < 1e-9 {
                return [x, y];
            }
            let s = equidistant(k, atan(r)) / r;
            return [x * s, y * s];
        }
        let [k1, k2, p1, p2, k3, k4, k5, k6] = self.rational();
        let r2 = x * x + y * y;
        let radial =
            (1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1.0 + r2 * (k4 + r2 * (k5 + r2 * k6)));
        [
            x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
            y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
        ]
    }

    /// The ray that arrives at `(x, y)`: the inverse of [`Distortion::distort`] by at most 24
    /// steps of Newton's method. `None` where there is none within [`Distortion::limit`].
    pub fn undistort(&self, target: [f64; 2]) -> Option<[f64; 2]> {
        self.undistort_within(target, self.limit())
    }

    /// As [`Distortion::undistort`], with the limit worked out before.
    pub(super) fn undistort_within(&self, target: [f64; 2], limit: f64) -> Option<[f64; 2]> {
        let radius = |p: [f64; 2]| (p[0] * p[0] + p[1] * p[1]).sqrt();
        let found = match self {
            Distortion::None => target,
            Distortion::Equidistant4(k) => {
                let r = radius(target);
                if r < 1e-9 {
                    target
                } else {
                    let s = tan(solve_theta(k, r)?) / r;
                    [target[0] * s, target[1] * s]
                }
            }
            _ => self.newton(target, limit)?,
        };
        let back = self.distort(found);
        let error = radius([back[0] - target[0], back[1] - target[1]]);
        (error < 1e-9 * (1.0 + radius(target)) && radius(found) <= limit).then_some(found)
    }

    fn newton(&self, target: [f64; 2], limit: f64) -> Option<[f64; 2]> {
        // Central differences are exact enough: the step only steers, the residual decides.
        const H: f64 = 1e-6;
        let mut p = target;
        for _ in 0..NEWTON_STEPS {
            let at = self.distort(p);
            let e = [at[0] - target[0], at[1] - target[1]];
            if e[0] * e[0] + e[1] * e[1] < 1e-26 {
                break;
            }
            let column = |d: [f64; 2]| {
                let a = self.distort([p[0] + d[0], p[1] + d[1]]);
                let b = self.distort([p[0] - d[0], p[1] - d[1]]);
                [(a[0] - b[0]) / (2.0 * H), (a[1] - b[1]) / (2.0 * H)]
            };
            let (jx, jy) = (column([H, 0.0]), column([0.0, H]));
            let det = jx[0] * jy[1] - jy[0] * jx[1];
            let step = [
                (jy[1] * e[0] - jy[0] * e[1]) / det,
                (jx[0] * e[1] - jx[1] * e[0]) / det,
            ];
            if !(step[0].is_finite() && step[1].is_finite()) {
                return None;
            }
            p = [p[0] - step[0], p[1] - step[1]];
            // Beyond the limit the model folds back: return to it, on the same ray.
            let r = (p[0] * p[0] + p[1] * p[1]).sqrt();
            if r > limit {
                p = [p[0] * limit / r, p[1] * limit / r];
            }
        }
        Some(p)
    }

    /// The radius on the normalised plane up to which the radial part grows, at most 8 (83
    /// degrees off the axis). Beyond it the polynomial folds back and means nothing.
    pub fn limit(&self) -> f64 {
        const STEPS: u32 = 8192;
        let mut before = 0.0;
        for i in 1..=STEPS {
            let r = f64::from(i) * (8.0 / f64::from(STEPS));
            let now = self.radial(r);
            if now <= before || now.is_nan() {
                return f64::from(i - 1) * (8.0 / f64::from(STEPS));
            }
            before = now;
        }
        8.0
    }

    fn radial(&self, r: f64) -> f64 {
        if let Distortion::Equidistant4(k) = self {
            return equidistant(k, atan(r));
        }
        let [k1, k2, _, _, k3, k4, k5, k6] = self.rational();
        let r2 = r * r;
        r * (1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1.0 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    }

    fn rational(&self) -> [f64; 8] {
        match *self {
            Distortion::RadialTangential4([k1, k2, p1, p2]) => [k1, k2, p1, p2, 0.0, 0.0, 0.0, 0.0],
            Distortion::RadialTangential5([k1, k2, p1, p2, k3]) => {
                [k1, k2, p1, p2, k3, 0.0, 0.0, 0.0]
            }
            Distortion::Rational8(k) => k,
            Distortion::None | Distortion::Equidistant4(_) => [0.0; 8],
        }
    }
}

fn equidistant(k: &[f64; 4], theta: f64) -> f64 {
    let t2 = theta * theta;
    theta * (1.0 + t2 * (k[0] + t2 * (k[1] + t2 * (k[2] + t2 * k[3]))))
}

/// The smallest angle that the lens puts at radius `r`: bisection of the growing part, which
/// ends after a fixed number of halvings.
fn solve_theta(k: &[f64; 4], r: f64) -> Option<f64> {
    const STEPS: u32 = 256;
    let end = std::f64::consts::FRAC_PI_2;
    let mut low = 0.0;
    let mut high = None;
    for i in 1..=STEPS {
        let theta = end * f64::from(i) / f64::from(STEPS);
        if equidistant(k, theta) >= r {
            high = Some(theta);
            break;
        }
        low = theta;
    }
    let mut high = high?;
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if equidistant(k, middle) < r {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values() {
        let p = [0.3, -0.2];
        assert_eq!(Distortion::None.distort(p), p);
        // r2 = 0.13, radial = 1 - 0.2 * 0.13 = 0.974, by hand.
        let d = Distortion::RadialTangential4([-0.2, 0.0, 0.01, 0.0]).distort(p);
        assert!((d[0] - (0.3 * 0.974 + 2.0 * 0.01 * 0.3 * -0.2)).abs() < 1e-15);
        assert!((d[1] - (-0.2 * 0.974 + 0.01 * (0.13 + 2.0 * 0.04))).abs() < 1e-15);
        // 45 degrees off the axis.
        let d = Distortion::Equidistant4([0.0; 4]).distort([1.0, 0.0]);
        assert!((d[0] - std::f64::consts::FRAC_PI_4).abs() < 1e-15 && d[1] == 0.0);
    }

    #[test]
    fn a_lens_that_folds_back_has_a_limit() {
        // r - r^3 / 3 has its top at 1.
        let lens = Distortion::RadialTangential4([-1.0 / 3.0, 0.0, 0.0, 0.0]);
        assert!((lens.limit() - 1.0).abs() < 2e-3);
        assert_eq!(lens.undistort([0.7, 0.0]), None);
        let p = lens.undistort([0.5, 0.0]).unwrap();
        assert!((p[0] - p[0] * p[0] * p[0] / 3.0 - 0.5).abs() < 1e-9);
        assert_eq!(Distortion::None.limit(), 8.0);
    }

    fn lens() -> impl Strategy<Value = Distortion> {
        let k = || {
            (
                -0.35..0.35f64,
                -0.1..0.15f64,
                -2e-3..2e-3f64,
                -2e-3..2e-3f64,
            )
        };
        prop_oneof![
            Just(Distortion::None),
            k().prop_map(|(a, b, c, d)| Distortion::RadialTangential4([a, b, c, d])),
            (k(), -0.03..0.03f64)
                .prop_map(|((a, b, c, d), e)| Distortion::RadialTangential5([a, b, c, d, e])),
            (k(), -0.02..0.02f64, 0.0..0.3f64, 0.0..0.1f64, 0.0..0.02f64).prop_map(
                |((a, b, c, d), e, f, g, h)| Distortion::Rational8([a, b, c, d, e, f, g, h])
            ),
            (
                -0.05..0.05f64,
                -0.02..0.02f64,
                -5e-3..5e-3f64,
                -1e-3..1e-3f64
            )
                .prop_map(|(a, b, c, d)| Distortion::Equidistant4([a, b, c, d])),
        ]
    }

    proptest! {
        #[test]
        fn undistorting_what_was_distorted_is_the_identity(
            lens in lens(), angle in 0.0..6.2f64, share in 0.0..0.85f64,
        ) {
            let r = share * lens.limit().min(1.2);
            let p = [r * libm::cos(angle), r * libm::sin(angle)];
            let back = lens.undistort(lens.distort(p));
            let back = back.ok_or_else(|| TestCaseError::fail(format!("{lens:?} {p:?}: none")))?;
            prop_assert!((back[0] - p[0]).abs() < 1e-7 && (back[1] - p[1]).abs() < 1e-7,
                "{lens:?} {p:?} {back:?}");
        }

        #[test]
        fn no_coefficients_make_it_panic_or_hang(
            k in proptest::array::uniform8(proptest::num::f64::ANY),
            p in proptest::array::uniform2(proptest::num::f64::ANY),
        ) {
            for lens in [
                Distortion::Rational8(k),
                Distortion::Equidistant4([k[0], k[1], k[2], k[3]]),
            ] {
                lens.distort(p);
                lens.undistort(p);
            }
        }
    }
}
