//! [`super::kernel`] and [`super::clean`], compiled for the baseline of the target and, on
//! x86-64, again for AVX2 and for AVX-512, chosen at run time. The baseline of aarch64 has NEON.
//! The code is one and the same and nothing in it is contracted or reordered, so the results
//! are too.
#![allow(unsafe_code)]

use super::{Frame, clean, kernel};

/// Which instructions the loops may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every processor of the target has.
    Baseline,
    /// AVX2; only [`Isa::available`] makes it.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with the instructions on bytes and words; only [`Isa::available`] makes it.
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
            let avx2 = is_x86_feature_detected!("avx2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq");
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
    ($($(#[$doc:meta])* fn $name:ident $(<$(const $n:ident),+>)? = $inner:path
        [($($arg:ident: $type:ty),* $(,)?)];)*) => {$(
        $(#[$doc])*
        pub fn $name $(<$(const $n: usize),+>)? (isa: Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2 $(<$(const $n: usize),+>)? ($($arg: $type),*) {
                $inner($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
            fn avx512 $(<$(const $n: usize),+>)? ($($arg: $type),*) {
                $inner($($arg),*);
            }
            match isa {
                Isa::Baseline => $inner($($arg),*),
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
    /// See [`kernel::band`].
    fn band_grey8 = kernel::band::<1, u8>[(
        frame: &Frame,
        pixels: &[u8],
        skip: Option<&[u8]>,
        slack: Option<&[u16]>,
        blocks: &mut [kernel::Block<1>],
        codes: &mut [u8],
    )];
    /// See [`kernel::band`].
    fn band_grey16 = kernel::band::<1, u16>[(
        frame: &Frame,
        pixels: &[u16],
        skip: Option<&[u8]>,
        slack: Option<&[u16]>,
        blocks: &mut [kernel::Block<1>],
        codes: &mut [u8],
    )];
    /// See [`kernel::band`].
    fn band_rgb8 = kernel::band::<3, [u8; 3]>[(
        frame: &Frame,
        pixels: &[[u8; 3]],
        skip: Option<&[u8]>,
        slack: Option<&[u16]>,
        blocks: &mut [kernel::Block<3>],
        codes: &mut [u8],
    )];
    /// See [`clean::row`].
    fn clean_3 = clean::row::<3>[(rows: [&[u8]; 3], out: &mut [u8])];
    /// See [`clean::row`].
    fn clean_5 = clean::row::<5>[(rows: [&[u8]; 5], out: &mut [u8])];
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Params, kernel::Block},
        *,
    };

    #[test]
    fn every_instruction_set_gives_the_same_bytes() {
        let n: usize = 16 * 40 + 5;
        let run = |isa| {
            let mut blocks = vec![Block::<3>::EMPTY; n.div_ceil(kernel::LANES)];
            let (mut codes, mut mask, mut all) = (vec![0; n], vec![0; n], Vec::new());
            for t in 0..60u32 {
                let byte = |i: usize, c: usize| {
                    let mix = |n: u32| (n ^ n >> 15).wrapping_mul(0x2C1B_3C6D) >> 11;
                    let noise = mix(mix((3 * i + c) as u32) ^ t.wrapping_mul(0x9E37_79B9));
                    let ground = mix((3 * i + c) as u32) % 200;
                    let wild = noise % 64 < 1 + i as u32 % 9;
                    (if wild { noise >> 6 } else { ground + noise % 9 }) as u8
                };
                let pixels: Vec<_> = (0..n).map(|i| [0, 1, 2].map(|c| byte(i, c))).collect();
                let frame = Frame::new(&Params::default(), true, t, 1.02);
                let slack: Option<Vec<u16>> = (t % 7 == 6).then(|| vec![300; n]);
                band_rgb8(
                    isa,
                    &frame,
                    &pixels,
                    None,
                    slack.as_deref(),
                    &mut blocks,
                    &mut codes,
                );
                clean_5(isa, [&codes; 5], &mut mask);
                all.extend_from_slice(&codes);
                all.extend_from_slice(&mask);
            }
            let model: Vec<_> = (0..n)
                .map(|p| (&blocks[p / kernel::LANES], p % kernel::LANES))
                .flat_map(|(block, i)| {
                    let modes = &block.modes[..usize::from(block.count[i])];
                    modes.iter().map(move |mode| {
                        let mean = mode.mean.each_ref().map(|mean| mean[i]);
                        (mode.weight[i], mode.variance[i], mean)
                    })
                })
                .collect();
            (all, model)
        };
        let baseline = run(Isa::Baseline);
        assert!(baseline.0.iter().any(|&c| c != 0));
        for isa in Isa::available() {
            assert!(run(isa) == baseline, "{isa:?}");
        }
    }
}
