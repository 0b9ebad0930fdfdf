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
