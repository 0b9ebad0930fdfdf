//! The stateless generator of candidates: a chain of MD5 compressions.
//!
//! Any thread, device or machine makes the same numbers again from tree, node and candidate
//! alone, so that none is stored or sent (Pianu et al., section 3.2.2).

const SHIFTS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// `floor(2^32 |sin(i + 1)|)` (RFC 1321, 3.4).
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xD76A_A478, 0xE8C7_B756, 0x2420_70DB, 0xC1BD_CEEE, 0xF57C_0FAF, 0x4787_C62A, 0xA830_4613, 0xFD46_9501,
    0x6980_98D8, 0x8B44_F7AF, 0xFFFF_5BB1, 0x895C_D7BE, 0x6B90_1122, 0xFD98_7193, 0xA679_438E, 0x49B4_0821,
    0xF61E_2562, 0xC040_B340, 0x265E_5A51, 0xE9B6_C7AA, 0xD62F_105D, 0x0244_1453, 0xD8A1_E681, 0xE7D3_FBC8,
    0x21E1_CDE6, 0xC337_07D6, 0xF4D5_0D87, 0x455A_14ED, 0xA9E3_E905, 0xFCEF_A3F8, 0x676F_02D9, 0x8D2A_4C8A,
    0xFFFA_3942, 0x8771_F681, 0x6D9D_6122, 0xFDE5_380C, 0xA4BE_EA44, 0x4BDE_CFA9, 0xF6BB_4B60, 0xBEBF_BC70,
    0x289B_7EC6, 0xEAA1_27FA, 0xD4EF_3085, 0x0488_1D05, 0xD9D4_D039, 0xE6DB_99E5, 0x1FA2_7CF8, 0xC4AC_5665,
    0xF429_2244, 0x432A_FF97, 0xAB94_23A7, 0xFC93_A039, 0x655B_59C3, 0x8F0C_CC92, 0xFFEF_F47D, 0x8584_5DD1,
    0x6FA8_7E4F, 0xFE2C_E6E0, 0xA301_4314, 0x4E08_11A1, 0xF753_7E82, 0xBD3A_F235, 0x2AD7_D2BB, 0xEB86_D391,
];

/// MD5 of the 16 bytes that four words are in little-endian order, as four words again.
pub fn md5(message: [u32; 4]) -> [u32; 4] {
    const START: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    let mut block = [0u32; 16];
    block[..4].copy_from_slice(&message);
    block[4] = 0x80;
    block[14] = 128;
    let [mut a, mut b, mut c, mut d] = START;
    for i in 0..64 {
        let (mix, word) = match i / 16 {
            0 => ((b & c) | (!b & d), i),
            1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), 7 * i % 16),
        };
        let sum = a
            .wrapping_add(mix)
            .wrapping_add(SINES[i])
            .wrapping_add(block[word]);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
    }
    [
        START[0].wrapping_add(a),
        START[1].wrapping_add(b),
        START[2].wrapping_add(c),
        START[3].wrapping_add(d),
    ]
}

/// What a stream of numbers is for; its fourth word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The parameters of candidate `(t, n, f)`.
    Feature = 0,
    /// The thresholds of candidate `(t, n, f)`.
    Thresholds = 1,
    /// The training pixels of an image: `(t, key of the image, class, or 0 for all)`.
    Pixels = 2,
    /// The pixels of node `(t, n, 0)` whose responses become thresholds.
    Picks = 3,
    /// Whether an image `(t, key, 0)` is in a tree's bag.
    Bag = 4,
}

/// How a word becomes a number of a range.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Mapping {
    /// `low + floor(v (high - low + 1) / 2^32)`: uniform, both ends included.
    #[default]
    Exact,
    /// `low + trunc(f32(v) / 2^32 * (high - low))` in f32, as the paper's program has it: `high`
    /// itself is reached by the 128 largest words alone.
    Padenti,
}

/// The seed of a forest: changes every stream; 0 changes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed([u32; 2], Mapping);

impl Seed {
    /// Spreads a user's seed over the two words that are changed, so that neighbouring seeds do
    /// not merely exchange trees (the finaliser of SplitMix64; 0 stays 0).
    pub fn new(seed: u64) -> Self {
        let mut z = seed;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        // The lowest 8 bits of the fourth word stay the purpose's.
        Self(
            [z as u32, (z >> 32) as u32 & 0xFFFF_FF00],
            Mapping::default(),
        )
    }

    /// The same seed with another mapping.
    pub fn mapped(self, mapping: Mapping) -> Self {
        Self(self.0, mapping)
    }

    /// What is changed in the first word of a stream's start, and in its fourth; the mapping.
    #[cfg(feature = "cuda")]
    pub(crate) fn parts(self) -> ([u32; 2], Mapping) {
        (self.0, self.1)
    }

    /// The stream of `(t, n, f)` for a purpose.
    pub fn stream(self, purpose: Purpose, t: u32, n: u32, f: u32) -> Words {
        let mut words = Words::new([t ^ self.0[0], n, f, purpose as u32 ^ self.0[1]]);
        words.mapping = self.1;
        words
    }
}

/// A stream of 32-bit words: those of `s_1, s_2, ...` with `s_(k+1) = md5(s_k)`.
#[derive(Clone, Debug)]
pub struct Words {
    state: [u32; 4],
    used: usize,
    mapping: Mapping,
}

impl Words {
    /// The stream after `s_0`.
    pub fn new(state: [u32; 4]) -> Self {
        Self {
            state,
            used: 4,
            mapping: Mapping::Exact,
        }
    }

    /// The next word.
    pub fn word(&mut self) -> u32 {
        if self.used == 4 {
            self.state = md5(self.state);
            self.used = 0;
        }
        self.used += 1;
        self.state[self.used - 1]
    }

    /// A number of `0..n`, `floor(v n / 2^32)`; 0 where `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(n)) >> 32) as u32
    }

    /// A number of `low..=high` ([`Mapping`]).
    pub fn within(&mut self, low: i32, high: i32) -> i32 {
        if self.mapping == Mapping::Padenti {
            let u = self.word() as f32 / 4_294_967_296.0;
            let step = (u * (i64::from(high) - i64::from(low)) as f32) as i64;
            return (i64::from(low) + step).min(high.into()) as i32;
        }
        let span = (i64::from(high) - i64::from(low) + 1).max(1) as u64;
        // Below 2^32 * 2^32; the sum is at most `high`.
        let step = ((u128::from(self.word()) * u128::from(span)) >> 32) as i64;
        (i64::from(low) + step) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(words: [u32; 4]) -> String {
        words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .map(|b| format!("{b:02x}"))
            .collect()
    }

    #[test]
    fn it_is_md5_of_sixteen_bytes() {
        assert_eq!(
            md5([0; 4]),
            [0x3613_e74a, 0xbff9_4be4, 0x2e75_d279, 0xa518_4823]
        );
        assert_eq!(hex(md5([0; 4])), "4ae71336e44bf9bf79d2752e234818a5");
        // md5 of "0123456789abcdef" as md5sum has it.
        let text = *b"0123456789abcdef";
        let (words, _) = text.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|w| u32::from_le_bytes(*w)).collect();
        assert_eq!(
            hex(md5([words[0], words[1], words[2], words[3]])),
            "4032af8d61035123906e58e067140cc5"
        );
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut seen = [false; 5];
        let mut words = Seed::new(7).stream(Purpose::Feature, 1, 2, 3);
        for _ in 0..200 {
            seen[(words.within(-2, 2) + 2) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(words.within(9, 9), 9);
        for _ in 0..50 {
            words.within(i32::MIN, i32::MAX);
        }
    }

    #[test]
    fn the_papers_mapping_leaves_the_upper_end_out() {
        let seed = Seed::new(0).mapped(Mapping::Padenti);
        let mut seen = [0; 3];
        let mut words = seed.stream(Purpose::Feature, 1, 2, 3);
        for _ in 0..300 {
            seen[words.within(0, 2) as usize] += 1;
        }
        assert!(seen[0] > 100 && seen[1] > 100 && seen[2] == 0);
        for (low, high) in [(i32::MIN, i32::MAX), (-7, -7), (i32::MAX - 1, i32::MAX)] {
            assert!((low..=high).contains(&words.within(low, high)));
        }
    }

    #[test]
    fn seed_nought_is_the_papers_stream() {
        let mut words = Seed::new(0).stream(Purpose::Thresholds, 4, 5, 6);
        let first = md5([4, 5, 6, 1]);
        let second = md5(first);
        let got: Vec<u32> = (0..8).map(|_| words.word()).collect();
        assert_eq!(got, [first, second].concat());
        // Neighbouring seeds do not exchange trees.
        let of = |seed, tree| Seed::new(seed).stream(Purpose::Feature, tree, 0, 0).word();
        assert_ne!(of(0, 1), of(1, 0));
    }
}
