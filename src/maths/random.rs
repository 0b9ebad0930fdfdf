//! Random numbers by counter: each is a hash of where it is used, so that threads in any order
//! draw the same ones.

/// Spreads each bit over all of them (the finaliser of MurmurHash3).
#[inline]
const fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85EB_CA6B);
    x ^= x >> 13;
    x = x.wrapping_mul(0xC2B2_AE35);
    x ^ x >> 16
}

/// Number `draw` of the item `index` under `seed`; uniform in 32 bits.
#[inline]
pub const fn hash(seed: u32, index: u32, draw: u32) -> u32 {
    let a = mix(seed ^ 0x9E37_79B9);
    let b = mix(a.wrapping_add(index.wrapping_mul(0x9E37_79B1)));
    mix(b ^ draw.wrapping_mul(0x85EB_CA77).wrapping_add(0xC2B2_AE3D))
}

/// Four different numbers below `n`, in the order drawn; `n` is at least 4.
#[inline]
pub fn four_of(n: u32, seed: u32, index: u32) -> [u32; 4] {
    let mut drawn = [0; 4];
    // The ones drawn before, sorted.
    let mut taken = [u32::MAX; 4];
    for (k, drawn) in drawn.iter_mut().enumerate() {
        let left = n - k as u32;
        // The r-th of those that are left; a multiplication instead of a remainder.
        let mut r = ((u64::from(hash(seed, index, k as u32)) * u64::from(left)) >> 32) as u32;
        let mut at = 0;
        while at < k && r >= taken[at] {
            r += 1;
            at += 1;
        }
        for i in (at..k).rev() {
            taken[i + 1] = taken[i];
        }
        taken[at] = r;
        *drawn = r;
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_are_always_different_and_in_range() {
        for n in [4, 5, 6, 7, 100, 65_535] {
            for index in 0..2000 {
                let mut four = four_of(n, 7, index);
                four.sort_unstable();
                assert!(four[3] < n, "{four:?} of {n}");
                assert!(four.windows(2).all(|w| w[0] < w[1]), "{four:?} of {n}");
            }
        }
    }

    #[test]
    fn every_number_is_drawn_as_often_as_any_other() {
        let mut counts = [0u32; 20];
        for index in 0..10_000 {
            for i in four_of(20, 3, index) {
                counts[i as usize] += 1;
            }
        }
        // 2,000 each, standard deviation 40.
        assert!(counts.iter().all(|c| c.abs_diff(2000) < 200), "{counts:?}");
    }

    #[test]
    fn seeds_give_other_numbers() {
        let same = (0..1000)
            .filter(|&i| four_of(1000, 1, i) == four_of(1000, 2, i))
            .count();
        assert_eq!(same, 0);
    }
}
