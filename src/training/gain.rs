//! Information gain in whole numbers.
//!
//! With `X(n) = n log2 n` the gain of a split, times the pixels of the node, is
//! `X(N) - sum X(n_c) - (X(L) - sum X(l_c)) - (X(R) - sum X(r_c))`.
//!
//! `log2` is taken in 1/2^32 from a table of `log2(1 + i / 2^15)`, linear between its entries
//! (within 3e-10), and `X` in 1/2^k, rounded down, with `k = min(32, 55 - bits of the root's
//! weighted pixels)`. Sums of such numbers have no order; every device gets the same ones.
//! A gain counts only beyond `N 2^-28` bits, above all that rounding can add.

/// Entries of the table.
const STEPS: usize = 1 << 15;

/// Counts whose `X` is looked up.
const SMALL: usize = 1 << 16;

/// `n log2 n` of whole numbers.
#[derive(Clone, Debug)]
pub struct Xlog {
    bits: u32,
    log: Vec<u32>,
    small: Vec<i64>,
}

impl Xlog {
    /// For trees whose root has so many (weighted) pixels; `None` above 2^45.
    pub fn new(root: u64) -> Option<Self> {
        let used = 64 - root.leading_zeros();
        let bits = 55u32.checked_sub(used).filter(|&k| k >= 10)?.min(32);
        let log = (0..STEPS)
            .map(|i| {
                let x = 1.0 + i as f64 / STEPS as f64;
                libm::round(libm::log2(x) * 4_294_967_296.0) as u32
            })
            .collect();
        let mut table = Self {
            bits,
            log,
            small: Vec::new(),
        };
        table.small = (0..SMALL as u64).map(|n| table.compute(n)).collect();
        Some(table)
    }

    /// Bits after the point.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// What a device needs: small ones, and the table of logarithms.
    #[cfg(feature = "cuda")]
    pub(super) fn tables(&self) -> (&[i64], &[u32]) {
        (&self.small, &self.log)
    }

    /// `log2 n` in 1/2^32, `n > 0`.
    fn log2(&self, n: u64) -> u64 {
        let exponent = 63 - n.leading_zeros();
        let mantissa = n << (63 - exponent);
        let i = (mantissa >> 48) as usize & (STEPS - 1);
        let rest = (mantissa >> 16) & 0xFFFF_FFFF;
        let low = u64::from(self.log[i]);
        let high = self.log.get(i + 1).map_or(1 << 32, |&v| u64::from(v));
        (u64::from(exponent) << 32) + low + (((high - low) * rest) >> 32)
    }

    fn compute(&self, n: u64) -> i64 {
        if n < 2 {
            return 0;
        }
        // n below 2^46, its logarithm below 2^38.
        ((u128::from(n) * u128::from(self.log2(n))) >> (32 - self.bits)) as i64
    }

    /// `n log2 n` in 1/2^bits.
    #[inline]
    pub fn x(&self, n: u64) -> i64 {
        match self.small.get(n as usize) {
            Some(&x) => x,
            None => self.compute(n),
        }
    }

    /// What a gain must be above, of a node of so many (weighted) pixels: `min_gain` bits a
    /// pixel and the share of rounding.
    pub fn least(&self, pixels: u64, min_gain: f64) -> i64 {
        let one = (1u64 << self.bits) as f64;
        let asked = min_gain * pixels as f64 * one;
        // At most 64 * 2^45 * 2^32 before, clamped after.
        let asked = asked.min(4.0e18) as i64;
        let rounding = ((u128::from(pixels) << self.bits) >> 28) as i64;
        asked.saturating_add(rounding).saturating_add(1)
    }
}

/// The best threshold of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// Gain times pixels, in 1/2^bits.
    pub gain: i64,
    /// Which threshold, as drawn.
    pub threshold: u16,
    /// Its rank among the sorted ones.
    pub rank: u16,
}

/// What the gain needs besides a histogram; keeps its memory.
#[derive(Debug, Default)]
pub struct Scorer {
    left: Vec<u64>,
    right: Vec<u64>,
}

impl Scorer {
    /// The best threshold of a candidate, the first as drawn among equals; `None` where each
    /// leaves all pixels on one side.
    ///
    /// `bins` has a row of counts (a class each, not weighted) for each rank, of the pixels whose
    /// response is at most that threshold and above the one before, and a last row of the rest;
    /// `totals` is the sum of its rows. `order` says which threshold, as drawn, has each rank.
    pub fn best(
        &mut self,
        xlog: &Xlog,
        weights: &[u32],
        totals: &[u32],
        bins: &[u32],
        order: &[u16],
    ) -> Option<Best> {
        let classes = totals.len();
        let weighted = |c: usize, n: u32| u64::from(n) * u64::from(weights[c]);
        self.left.clear();
        self.left.resize(classes, 0);
        self.right.clear();
        self.right
            .extend(totals.iter().enumerate().map(|(c, &n)| weighted(c, n)));
        let all: u64 = self.right.iter().sum();
        let purity: i64 = self.right.iter().map(|&n| xlog.x(n)).sum();
        let base = xlog.x(all) - purity;
        let (mut sum, mut left_all) = (purity, 0u64);
        let mut best: Option<Best> = None;
        for (rank, (row, &threshold)) in bins.chunks_exact(classes).zip(order).enumerate() {
            for (c, &n) in row.iter().enumerate() {
                if n > 0 {
                    let n = weighted(c, n);
                    let (l, r) = (self.left[c], self.right[c]);
                    sum += xlog.x(l + n) - xlog.x(l) + xlog.x(r - n) - xlog.x(r);
                    self.left[c] = l + n;
                    self.right[c] = r - n;
                    left_all += n;
                }
            }
            if left_all == 0 || left_all == all {
                continue;
            }
            let gain = base + sum - xlog.x(left_all) - xlog.x(all - left_all);
            let better =
                best.is_none_or(|b| gain > b.gain || (gain == b.gain && threshold < b.threshold));
            if better {
                best = Some(Best {
                    gain,
                    threshold,
                    rank: rank as u16,
                });
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_n_log_n() {
        for root in [1u64, 100, 70_000, 1 << 30, 1 << 44] {
            let xlog = Xlog::new(root).unwrap();
            let one = (1u64 << xlog.bits()) as f64;
            for n in [
                0, 1, 2, 3, 5, 1000, 65_535, 65_536, 65_537, 99_999, 12_345_678, root,
            ] {
                if n > root.max(2) {
                    continue;
                }
                let want = if n < 2 {
                    0.0
                } else {
                    n as f64 * libm::log2(n as f64)
                };
                let got = xlog.x(n) as f64 / one;
                let room = n as f64 * 4e-10 + 1.0 / one;
                assert!(
                    (got - want).abs() <= room,
                    "{n} of {root}: {got} for {want}"
                );
            }
        }
        assert!(Xlog::new(1 << 46).is_none());
    }

    /// Entropies as the books have them.
    fn plain(left: &[u32], right: &[u32]) -> f64 {
        let entropy = |n: &[u32]| {
            let all: u32 = n.iter().sum();
            n.iter()
                .filter(|&&n| n > 0)
                .map(|&n| -f64::from(n) * libm::log2(f64::from(n) / f64::from(all)))
                .sum::<f64>()
        };
        let both: Vec<u32> = left.iter().zip(right).map(|(l, r)| l + r).collect();
        entropy(&both) - entropy(left) - entropy(right)
    }

    #[test]
    fn gain_of_a_histogram() {
        // Three thresholds, two classes; the last row is what is above all of them.
        let bins = [10, 0, 5, 5, 0, 0, 0, 20];
        let totals = [15, 25];
        let xlog = Xlog::new(40).unwrap();
        let one = (1u64 << xlog.bits()) as f64;
        let mut scorer = Scorer::default();
        let best = scorer
            .best(&xlog, &[1, 1], &totals, &bins, &[2, 1, 0])
            .unwrap();
        // Ranks 1 and 2 give the same sides: the first as drawn counts.
        assert_eq!((best.threshold, best.rank), (0, 2));
        let want = plain(&[15, 5], &[0, 20]);
        assert!((best.gain as f64 / one - want).abs() < 1e-7);
        // Nothing to split.
        assert_eq!(
            scorer.best(&xlog, &[1, 1], &[0, 7], &[0, 0, 0, 7], &[0]),
            None
        );
        // A weight of 2 is every pixel twice.
        let double = scorer.best(&xlog, &[2, 2], &totals, &bins, &[0, 1, 2]);
        assert!((double.unwrap().gain as f64 / one - 2.0 * want).abs() < 1e-6);
        assert!(xlog.least(40, 0.0) > 0 && xlog.least(40, 1.0) >= 40 << xlog.bits());
    }
}
