//! Logarithm, error function and arc tangent for what depends on the frame: + - * / sqrt in a
//! fixed order and look-ups in tables that the host built, so that every backend gets the same
//! bits.

/// Costs are -ln p in this fraction of a nat.
pub const COST_PER_NAT: i32 = 2048;

/// -ln p in cost units, rounded; `ln_p` is ln p. Host only.
pub(super) fn cost_of_ln(ln_p: f64) -> i32 {
    (0.5 - ln_p * f64::from(COST_PER_NAT)).floor() as i32
}

/// -ln p in cost units, rounded. Host only.
pub(super) fn cost(p: f64) -> i32 {
    cost_of_ln(libm::log(p))
}

/// Mass of a Gaussian around `mean` within `[0, range]`, given the error function.
pub(super) fn mass_inside(erf: impl Fn(f64) -> f64, mean: f64, sigma: f64, range: f64) -> f64 {
    let root = sigma * std::f64::consts::SQRT_2;
    0.5 * (erf((range - mean) / root) - erf(-mean / root))
}

const LN_BITS: u32 = 10;
const ERF_STEPS: f64 = 512.0;
const ERF_END: usize = 6;

/// Tables of ln and erf, and what is computed with them.
#[derive(Clone, Debug)]
pub(super) struct Functions {
    pub ln: Vec<f64>,
    pub erf: Vec<f64>,
}

impl Functions {
    pub(super) fn new() -> Self {
        let n = 1usize << LN_BITS;
        Self {
            ln: (0..n).map(|i| libm::log(Self::centre(i))).collect(),
            erf: (0..=ERF_END * ERF_STEPS as usize + 1)
                .map(|i| libm::erf(i as f64 / ERF_STEPS))
                .collect(),
        }
    }

    fn centre(i: usize) -> f64 {
        1.0 + (i as f64 + 0.5) / f64::from(1u32 << LN_BITS)
    }

    /// ln of a positive normal number, within 1e-10.
    pub(super) fn ln(&self, x: f64) -> f64 {
        let bits = x.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
        let i = ((bits >> (52 - LN_BITS)) & ((1 << LN_BITS) - 1)) as usize;
        let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
        let c = Self::centre(i);
        let r = (mantissa - c) / c;
        let near = r - r * r * 0.5 + r * r * r / 3.0;
        f64::from(exponent) * std::f64::consts::LN_2 + (self.ln[i] + near)
    }

    /// The error function, within 1e-6; NaN gives 0.
    pub(super) fn erf(&self, x: f64) -> f64 {
        let steps = x.abs() * ERF_STEPS;
        let y = if steps >= ERF_END as f64 * ERF_STEPS {
            1.0
        } else {
            let i = steps as usize;
            let part = steps - i as f64;
            self.erf[i] + (self.erf[i + 1] - self.erf[i]) * part
        };
        if x.is_nan() {
            0.0
        } else if x < 0.0 {
            -y
        } else {
            y
        }
    }
}

/// Arc tangent within 1e-12: the angle halved three times, then its series.
pub(super) fn atan(t: f64) -> f64 {
    let mut t = t;
    for _ in 0..3 {
        t /= 1.0 + (1.0 + t * t).sqrt();
    }
    let q = t * t;
    let mut sum = 0.0;
    for k in (0..12).rev() {
        let term = 1.0 / f64::from(2 * k + 1);
        sum = term - q * sum;
    }
    8.0 * t * sum
}

const LOG_BITS: u32 = 12;

/// ln of whole numbers of 1/`unit` px, in cost units, in integers alone: the exponent by leading
/// zeros, the mantissa by a table.
#[derive(Clone, Debug)]
pub(super) struct LogTable {
    /// In 1/256 cost units.
    pub mantissa: Vec<i32>,
    pub ln2: i32,
    pub ln_unit: i32,
}

impl LogTable {
    pub(super) fn new(unit: u32) -> Self {
        let fine = |x: f64| (libm::log(x) * f64::from(COST_PER_NAT) * 256.0 + 0.5).floor() as i32;
        let n = 1u32 << LOG_BITS;
        Self {
            mantissa: (0..n)
                .map(|i| fine(1.0 + (f64::from(i) + 0.5) / f64::from(n)))
                .collect(),
            ln2: fine(2.0),
            ln_unit: fine(f64::from(unit)),
        }
    }

    /// ln(x / unit) in cost units; `None` where there is no logarithm.
    pub(super) fn ln(&self, x: i32) -> Option<i32> {
        if x <= 0 {
            return None;
        }
        let zeros = x.leading_zeros();
        let exponent = 31 - zeros as i32;
        let i = ((x as u32) << zeros << 1) >> (32 - LOG_BITS);
        let fine = exponent * self.ln2 + self.mantissa[i as usize] - self.ln_unit;
        Some((fine + 128) >> 8)
    }
}

/// Exact division of whole numbers below 2^47 by 1 to 65,535 without dividing.
#[derive(Clone, Debug)]
pub(super) struct Reciprocals(pub Vec<u64>);

impl Reciprocals {
    /// For divisors up to `largest`.
    pub(super) fn new(largest: usize) -> Self {
        // Rounded up by less than 1: the quotient is too large by less than s / 2^63, which is
        // below 1 / n, and so does not reach the next whole number, while s * n < 2^63.
        Self(
            (0..=largest as u64)
                .map(|n| (1u64 << 63).div_ceil(n.max(1)))
                .collect(),
        )
    }

    /// `sum / n`, rounded down.
    #[inline]
    pub(super) fn divide(&self, sum: u64, n: u32) -> u64 {
        ((u128::from(sum) * u128::from(self.0[n as usize])) >> 63) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn functions_are_close_to_libm() {
        let f = Functions::new();
        for i in 1..4000 {
            let x = f64::from(i) * 0.0137;
            assert!((f.ln(x) - libm::log(x)).abs() < 1e-10, "ln {x}");
            for x in [x, -x] {
                assert!((f.erf(x) - libm::erf(x)).abs() < 1e-6, "erf {x}");
                assert!((atan(x) - libm::atan(x)).abs() < 1e-12, "atan {x}");
            }
        }
        assert_eq!(f.erf(f64::INFINITY), 1.0);
        assert_eq!(f.erf(f64::NAN), 0.0);
    }

    #[test]
    fn integer_logarithm_is_within_a_cost_unit() {
        for unit in [256, 1280, 65280] {
            let table = LogTable::new(unit);
            for x in (1..5000).chain([i32::MAX, 1 << 24, 32768 * 255]) {
                let exact = libm::log(f64::from(x) / f64::from(unit)) * f64::from(COST_PER_NAT);
                let found = f64::from(table.ln(x).unwrap());
                assert!(
                    (exact - found).abs() < 0.9,
                    "{x}/{unit}: {found} for {exact}"
                );
            }
            assert_eq!(table.ln(0), None);
            assert_eq!(table.ln(-3), None);
        }
    }

    proptest! {
        #[test]
        fn reciprocals_divide_exactly(n in 1u32..=65_535, q in 0u64..1 << 31, r in 0u64..65_535) {
            let table = Reciprocals::new(n as usize);
            let sum = q * u64::from(n) + r % u64::from(n);
            prop_assert_eq!(table.divide(sum, n), q);
        }
    }
}
