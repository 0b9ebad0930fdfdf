//! The inner loops of this folder, compiled for the baseline of the target and, on x86-64, again
//! for AVX2 and for AVX-512, chosen at run time. One code; `f32` operations whose order is
//! written: the results are the same.
#![allow(unsafe_code)]

use super::{
    align::kernel::{self, Block, LANES, N, Own, Sums, View},
    features::Isa,
    pyramid, vote,
};
use crate::frame::Size;

/// Each function as it is, for AVX2 and for AVX-512, behind one that chooses.
macro_rules! dispatched {
    ($($(#[$doc:meta])* fn $name:ident = $room:ident ($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        $(#[$doc])*
        pub fn $name(isa: Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $type),*) {
                $room::$name($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512bw,avx512vl")]
            fn avx512($($arg: $type),*) {
                $room::$name($($arg),*);
            }
            match isa {
                Isa::Baseline => $room::$name($($arg),*),
                // SAFETY: `available` alone makes this value, where it found these features.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    )*};
}

dispatched! {
    /// See [`kernel::read`].
    fn read = kernel(view: &View<'_>, blocks: &[Block], weights: &mut [[f32; LANES]], sums: &mut Sums);
    /// See [`kernel::own`].
    fn own = kernel(blocks: &[Block], weights: &[[f32; LANES]], own: &mut Own);
    /// See [`kernel::normal`].
    fn normal = kernel(blocks: &[Block], weights: &[[f32; LANES]], normal: &mut [[f64; N]; N]);
    /// See [`vote::count`].
    fn count = vote(ballot: &vote::Ballot, first: usize, votes: &mut [u32]);
    /// See [`pyramid::halve`].
    fn halve = pyramid(
        from: &[u8],
        from_stride: usize,
        to: &mut [u8],
        to_stride: usize,
        size: Size,
    );
}
