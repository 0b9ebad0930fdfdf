//! The inner loops of this folder, compiled for the baseline of the target and, on x86-64, again
//! for AVX2 and for AVX-512, chosen at run time. One code; whole numbers, or `f32` operations
//! whose order is written: the results are the same.
#![allow(unsafe_code)]

use super::{
    Descriptor, brief,
    extrema::{self, Rows},
    matcher::{self, Pair},
    orientation, pyramid,
};
use crate::frame::Size;

/// Which instructions the loops may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every processor of the target has.
    Baseline,
    /// AVX2; only [`Isa::available`] makes it.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with bit counts of words of 32 bits; only [`Isa::available`] makes it.
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
            let avx2 = is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("avx2");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vpopcntdq");
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
    ($($(#[$doc:meta])* fn $name:ident = $room:ident ($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        $(#[$doc])*
        pub fn $name(isa: Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,popcnt")]
            fn avx2($($arg: $type),*) {
                $room::$name($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512bw,avx512vl,avx512vpopcntdq,popcnt")]
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
    /// See [`matcher::match_task`].
    fn match_task = matcher(
        query: &[Descriptor],
        train: &[Descriptor],
        groups: Option<&[u32]>,
        pairs: &mut [Pair; 64],
    );
    /// See [`pyramid::blur_rows`].
    fn blur_rows = pyramid(job: &pyramid::Blur<'_>, rows: std::ops::Range<usize>, out: &mut [u16], scratch: &mut [u32]);
    /// See [`extrema::flag_row`].
    fn flag_row = extrema(rows: &Rows<'_>, threshold: i16, flags: &mut [u8]);
    /// See [`extrema::box_row`].
    fn box_row = extrema(rows: [&[i16]; 3], most: &mut [i16], least: &mut [i16]);
    /// See [`orientation::histogram`].
    fn histogram = orientation(window: &orientation::Window<'_>, bins: &mut [u32; orientation::BINS]);
    /// See [`brief::describe`].
    fn describe = brief(
        level: &[u16],
        size: Size,
        place: &brief::Placement,
        pattern: &[[i16; 4]],
        out: &mut Descriptor,
    );
    /// See [`extrema::difference_row`].
    fn difference_row = extrema(above: &[u16], below: &[u16], out: &mut [i16]);
}
