//! The inner loops of [`super::kernel`] and [`super::filter`], compiled for the baseline of the
//! target and, on x86-64, again for AVX2 and for AVX-512, chosen at run time. The baseline of
//! aarch64 has NEON.
//! The code is one and the same, in whole numbers, so the results are too.
#![allow(unsafe_code)]

use super::{filter, kernel};

/// Which instructions the loops may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every processor of the target has.
    Baseline,
    /// AVX2; only [`Isa::available`] makes it.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with the instructions on bytes and words, and bit counts of bytes; only
    /// [`Isa::available`] makes it.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Those that this processor has, the best last.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(not(target_arch = "x86_64"))]
        let more = [None; 2];
        #[cfg(target_arch = "x86_64")]
        let more = {
            let popcnt = is_x86_feature_detected!("popcnt");
            let avx2 = popcnt && is_x86_feature_detected!("avx2");
            let avx512 = popcnt
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bitalg");
            [avx2.then_some(Self::Avx2), avx512.then_some(Self::Avx512)]
        };
        [Self::Baseline]
            .into_iter()
            .chain(more.into_iter().flatten())
    }

    /// The best that this processor has.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::Baseline)
    }
}

/// Each function as it is, for AVX2 and for AVX-512, behind one that chooses.
macro_rules! dispatched {
    ($($(#[$doc:meta])* fn $name:ident $(<$(const $n:ident),+>)? = $room:ident :: $inner:ident
        ($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        $(#[$doc])*
        pub fn $name $(<$(const $n: usize),+>)? (isa: Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,popcnt")]
            fn avx2 $(<$(const $n: usize),+>)? ($($arg: $type),*) {
                $room::$inner $(::<$($n),+>)? ($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512bw,avx512vl,avx512bitalg,popcnt")]
            fn avx512 $(<$(const $n: usize),+>)? ($($arg: $type),*) {
                $room::$inner $(::<$($n),+>)? ($($arg),*);
            }
            match isa {
                Isa::Baseline => $room::$inner $(::<$($n),+>)? ($($arg),*),
                // SAFETY: `available` alone makes this value, where it found these features.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { avx2 $(::<$($n),+>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => unsafe { avx512 $(::<$($n),+>)? ($($arg),*) },
            }
        }
    )*};
}

dispatched! {
    /// See [`kernel::sweep`].
    fn sweep<const D, const N> = kernel::sweep(
        frame: &kernel::Frame<'_>,
        columns: (usize, usize),
        up: bool,
        states: &mut [u8],
        checkpoints: &mut [u8],
    );
    /// See [`kernel::block`].
    fn block<const D, const N> = kernel::block(
        frame: &kernel::Frame<'_>,
        rows: (usize, usize),
        winner: kernel::Winner<'_>,
        scratch: &mut kernel::Scratch,
        out: &mut [u16],
    );
    /// See [`kernel::census_row`].
    fn census_row = kernel::census_row(rows: [&[u8]; 7], planes: &mut [u8]);
    /// See [`filter::median_row`].
    fn median_row = filter::median_row(rows: [&[u16]; 3], out: &mut [u16]);
}

/// See [`kernel::winner`].
#[inline(always)]
pub fn winner<const D: usize>(isa: Isa, sums: &[u16; D], bounds: &[u16]) -> (usize, bool) {
    match isa {
        Isa::Baseline => kernel::winner(sums, bounds),
        // SAFETY: `available` alone makes these values, where it found AVX2 (which AVX-512 implies).
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => unsafe { winner_avx2(sums, bounds) },
    }
}

/// Compares to bits, one a disparity: what the vectoriser does not do.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn winner_avx2<const D: usize>(sums: &[u16; D], bounds: &[u16]) -> (usize, bool) {
    use std::arch::x86_64::*;

    let load = |at: usize| {
        let lanes: &[u16; 16] = sums[at..].first_chunk().unwrap_or(&[u16::MAX; 16]);
        // SAFETY: 16 readable lanes of 16 bits; no alignment is asked for.
        unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
    };
    let mut least = load(0);
    for at in (16..D).step_by(16) {
        least = _mm256_min_epu16(least, load(at));
    }
    let halves = _mm_min_epu16(
        _mm256_castsi256_si128(least),
        _mm256_extracti128_si256::<1>(least),
    );
    let least = _mm_extract_epi16::<0>(_mm_minpos_epu16(halves)) as u16;
    // Bits of 32 disparities whose sum is at most `most`.
    let up_to = |most: u16, at: usize| {
        let most = _mm256_set1_epi16(most as i16);
        let within = |at: usize| {
            let sums = load(at);
            _mm256_cmpeq_epi16(_mm256_min_epu16(sums, most), sums)
        };
        let bytes = _mm256_packs_epi16(within(at), within(at + 16));
        // Packing works within halves; this restores the order.
        _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(bytes)) as u32
    };
    let mut best = 0;
    for at in (0..D).step_by(32).rev() {
        let bits = up_to(least, at);
        if bits != 0 {
            best = at + bits.trailing_zeros() as usize;
        }
    }
    let bound = bounds.get(usize::from(least)).copied().unwrap_or(0);
    let Some(most) = bound.checked_sub(1) else {
        return (best, true);
    };
    let mut below = 0;
    for at in (0..D).step_by(32) {
        below += up_to(most, at).count_ones();
    }
    let near = &sums[best.saturating_sub(1)..(best + 2).min(D)];
    let near: u32 = near.iter().map(|s| u32::from(*s <= most)).sum();
    (best, below == near)
}
