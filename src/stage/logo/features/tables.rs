//! What the host computes once, through `libm`, for every backend: blurs, scales, angles, the
//! descriptor's pattern; and the sizes of the octaves.
use super::{ANGLES, FeatureParams, MAX_OCTAVES, Mode};
use crate::frame::Size;

/// Weights of a blur add up to this.
pub const WEIGHT_SUM: u32 = 512;

/// Most pixels on one side of a blur's centre.
pub const MAX_RADIUS: usize = 16;

/// Steps of the table of scales in a layer.
pub const SCALE_STEPS: usize = 64;

/// Most entries of a scale's row in the table of orientation weights.
pub const WINDOW: usize = 24;

/// Pairs of points in a descriptor.
pub const PAIRS: usize = 256;

/// A point of the pattern is never farther from the keypoint than this many of its scales.
pub const REACH: i32 = 12;

/// Points of the pattern are in 1/256 of the keypoint's scale.
pub const POINT_ONE: i32 = 256;

/// Levels of mode `paper`.
pub const PAPER_LEVELS: usize = 6;

/// One side of a blur, from the centre outwards: `w_0 + 2 (w_1 + w_2 + ...) = 512`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The weights; the last is not 0, unless it is the only one.
    pub half: Vec<u32>,
}

impl Weights {
    /// Pixels on one side of the centre.
    pub fn radius(&self) -> usize {
        self.half.len() - 1
    }
}

/// A Gaussian of standard deviation `sigma` px in whole numbers: each weight rounded, the centre
/// takes what is left.
pub fn weights(sigma: f64) -> Weights {
    if sigma <= 0.0 {
        return Weights {
            half: vec![WEIGHT_SUM],
        };
    }
    let value = |k: usize| libm::exp(-((k * k) as f64) / (2.0 * sigma * sigma));
    let whole = value(0) + 2.0 * (1..64).map(value).sum::<f64>();
    let mut half = vec![0];
    for k in 1..=MAX_RADIUS {
        let weight = libm::floor(value(k) / whole * f64::from(WEIGHT_SUM) + 0.5) as u32;
        if weight == 0 {
            break;
        }
        half.push(weight);
    }
    half[0] = WEIGHT_SUM - 2 * half[1..].iter().sum::<u32>();
    Weights { half }
}

/// The octaves of an image: their sizes, and where their pixels stand in the order of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Octaves {
    /// The image's size.
    pub image: Size,
    /// -1 or 0: of the first.
    pub first: i8,
    /// Sizes, the first octave's first.
    pub sizes: heapless::Vec<Size, MAX_OCTAVES>,
}

impl Octaves {
    /// The octaves of an image of `size`.
    pub fn new(params: &FeatureParams, size: Size) -> Self {
        let mut sizes = heapless::Vec::new();
        let scale_space = params.mode == Mode::ScaleSpace;
        let first = -i8::from(scale_space && params.upsample);
        let mut octave = size;
        if first < 0 {
            octave = Size::new(2 * size.width - 1, 2 * size.height - 1);
        }
        let most = match (scale_space, params.octaves) {
            (false, _) => 1,
            (true, 0) => MAX_OCTAVES,
            (true, n) => usize::from(n),
        };
        while sizes.len() < most && sizes.push(octave).is_ok() {
            octave = Size::new(octave.width.div_ceil(2), octave.height.div_ceil(2));
            if octave.width.min(octave.height) < 16 {
                break;
            }
        }
        Self {
            image: size,
            first,
            sizes,
        }
    }

    /// Pixel distance of octave `i` of this list, px.
    pub fn step(&self, i: usize) -> f32 {
        let mut step = if self.first < 0 { 0.5 } else { 1.0 };
        for _ in 0..i {
            step *= 2.0;
        }
        step
    }
}

/// All tables.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Blur of the base.
    pub base: Weights,
    /// Blurs of levels 1 to `intervals + 2` from the one before; in mode `paper` of all levels
    /// from the image.
    pub steps: Vec<Weights>,
    /// Scale by `layer * 64 + offset`, pixels of the octave, from layer 0 to `intervals + 1`.
    pub sigma: Vec<f32>,
    /// The same in 1/1024.
    pub sigma_fixed: Vec<i32>,
    /// Weights of the orientation window by scale and distance from the centre: [`WINDOW`] a
    /// scale, 256 is 1.
    pub window: Vec<u16>,
    /// Pixels on one side of the orientation window, by scale.
    pub window_radius: Vec<u8>,
    /// Cosines by angle, 1/16384.
    pub cos: Vec<i32>,
    /// Sines.
    pub sin: Vec<i32>,
    /// The pattern: `x0, y0, x1, y1` a pair, in 1/256 of the keypoint's scale; in mode `paper`
    /// in pixels.
    pub pattern: Vec<[i16; 4]>,
    /// A candidate's `|D|` is above this, 1/64 grey.
    pub pretest: i32,
}

impl Tables {
    /// The tables of validated parameters.
    pub fn new(params: &FeatureParams) -> Self {
        let (s, sigma0) = (usize::from(params.intervals), f64::from(params.sigma0));
        let input = f64::from(params.input_blur) * if params.upsample { 2.0 } else { 1.0 };
        let difference = |to: f64, from: f64| libm::sqrt((to * to - from * from).max(0.0));
        let level = |i: f64| sigma0 * libm::pow(2.0, i / s as f64);
        let (base, steps) = match params.mode {
            Mode::ScaleSpace => (
                weights(difference(sigma0, input)),
                (1..s + 3)
                    .map(|i| weights(difference(level(i as f64), level(i as f64 - 1.0))))
                    .collect(),
            ),
            Mode::Paper => (weights(0.0), (0..PAPER_LEVELS).map(paper_weights).collect()),
        };
        let entries = 0..=(s + 1) * SCALE_STEPS;
        let sigma: Vec<f64> = match params.mode {
            Mode::ScaleSpace => entries
                .map(|q| level(q as f64 / SCALE_STEPS as f64))
                .collect(),
            Mode::Paper => (0..PAPER_LEVELS * SCALE_STEPS)
                .map(|q| paper_sigma((q / SCALE_STEPS).saturating_sub(1) as f64))
                .collect(),
        };
        let mut window = vec![0; sigma.len() * WINDOW];
        let mut window_radius = vec![0; sigma.len()];
        for ((row, radius), sigma) in window
            .chunks_mut(WINDOW)
            .zip(&mut window_radius)
            .zip(&sigma)
        {
            let deviation = 1.5 * sigma;
            let reach = (libm::floor(3.0 * deviation + 0.5) as usize).min(WINDOW - 1);
            *radius = reach as u8;
            for (k, w) in row.iter_mut().enumerate().take(reach + 1) {
                let value = libm::exp(-((k * k) as f64) / (2.0 * deviation * deviation));
                *w = libm::floor(value * 256.0 + 0.5) as u16;
            }
        }
        let turn = |f: fn(f64) -> f64| {
            (0..ANGLES)
                .map(|a| {
                    let angle = f64::from(a) * (std::f64::consts::TAU / f64::from(ANGLES));
                    libm::round(f(angle) * 16_384.0) as i32
                })
                .collect()
        };
        let s = s as f64;
        let pretest = 0.5 * f64::from(params.contrast) / s * 255.0 * 64.0;
        Self {
            base,
            steps,
            sigma_fixed: sigma
                .iter()
                .map(|v| libm::floor(v * 1024.0 + 0.5) as i32)
                .collect(),
            sigma: sigma.iter().map(|&v| v as f32).collect(),
            window,
            window_radius,
            cos: turn(libm::cos),
            sin: turn(libm::sin),
            pattern: match params.mode {
                Mode::ScaleSpace => pattern(),
                Mode::Paper => paper_pattern(),
            },
            pretest: match params.mode {
                Mode::ScaleSpace => libm::floor(pretest) as i32,
                // |D| >= 7 grey values.
                Mode::Paper => 7 * 64 - 1,
            },
        }
    }
}

/// Blur of level `i` of mode `paper`, px.
fn paper_sigma(i: f64) -> f64 {
    libm::pow(2.0, (i - 1.0) / 2.0)
}

/// The report's windows are `floor(6 sigma + 0.001) + 1` pixels wide, all odd.
fn paper_weights(i: usize) -> Weights {
    let sigma = paper_sigma(i as f64);
    let radius = (libm::floor(6.0 * sigma + 0.001) as usize) / 2;
    let mut weights = weights(sigma);
    weights.half.truncate(radius + 1);
    weights.half[0] = WEIGHT_SUM - 2 * weights.half[1..].iter().sum::<u32>();
    weights
}

/// Numbers without a pattern (splitmix64, Steele et al. 2014), from a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Above 0, up to 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Two independent normal numbers (Box and Muller 1958).
    fn normal(&mut self) -> [f64; 2] {
        let length = libm::sqrt(-2.0 * libm::log(self.unit()));
        let angle = std::f64::consts::TAU * self.unit();
        [length * libm::cos(angle), length * libm::sin(angle)]
    }
}

/// The pattern: both points of a pair normally distributed about the keypoint with a deviation
/// of 4.8 scales (a fifth of a patch of 24, the paper's layout II), none farther than [`REACH`], the
/// two at least one scale apart, no pair like another.
fn pattern() -> Vec<[i16; 4]> {
    let mut random = Random(0x0B21_EF25_6A11_CE01);
    let mut point = move || loop {
        let [x, y] = random.normal().map(|v| 4.8 * v);
        if x * x + y * y < f64::from(REACH * REACH) {
            return [x, y];
        }
    };
    let whole = |v: f64| libm::round(v) as i32;
    let mut pairs = Vec::new();
    let mut cells: Vec<[i32; 4]> = Vec::new();
    while pairs.len() < PAIRS {
        let ([x0, y0], [x1, y1]) = (point(), point());
        let apart = (x0 - x1) * (x0 - x1) + (y0 - y1) * (y0 - y1) >= 1.0;
        let cell = [x0, y0, x1, y1].map(whole);
        let [a, b, c, d] = cell;
        if apart && !cells.contains(&cell) && !cells.contains(&[c, d, a, b]) {
            cells.push(cell);
            pairs.push([x0, y0, x1, y1].map(|v| whole(v * f64::from(POINT_ONE)) as i16));
        }
    }
    pairs
}

/// 256 different pairs of different points of a 9x9 patch. The report's own table is not used (it
/// has pairs of a point with itself, and pairs twice); this one is drawn evenly from a fixed seed.
fn paper_pattern() -> Vec<[i16; 4]> {
    let mut random = Random(0x0B21_EF09_09A1_1CE1);
    let mut pairs: Vec<[i16; 4]> = Vec::new();
    while pairs.len() < PAIRS {
        let mut offset = || (random.next() % 9) as i16 - 4;
        let pair @ [a, b, c, d] = [offset(), offset(), offset(), offset()];
        if [a, b] != [c, d] && !pairs.contains(&pair) && !pairs.contains(&[c, d, a, b]) {
            pairs.push(pair);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_and_have_the_variance() {
        for sigma in [0.6, 1.0, 1.226, 1.52, 1.946, 2.45, 3.09, 4.0] {
            let w = weights(sigma);
            let sum = w.half[0] + 2 * w.half[1..].iter().sum::<u32>();
            assert_eq!(sum, WEIGHT_SUM);
            assert!(w.half.windows(2).all(|p| p[0] >= p[1]), "{w:?}");
            let variance: f64 = (1..w.half.len())
                .map(|k| 2.0 * (k * k) as f64 * f64::from(w.half[k]) / 512.0)
                .sum();
            let off = variance.sqrt() / sigma - 1.0;
            assert!(off.abs() < 0.03, "sigma {sigma}: {off}");
        }
        assert_eq!(weights(0.0).half, [512]);
    }

    #[test]
    fn pairs_differ_and_stay_within_reach() {
        let pattern = pattern();
        assert_eq!(pattern.len(), PAIRS);
        for [a, b, c, d] in pattern {
            let reach = i32::from(a).pow(2) + i32::from(b).pow(2);
            assert!(reach <= (REACH * POINT_ONE + 1).pow(2));
            assert_ne!([a, b], [c, d]);
        }
        assert!(paper_pattern().iter().flatten().all(|v| v.abs() <= 4));
    }

    #[test]
    fn octaves_halve_until_16() {
        let sizes = |w, h| Octaves::new(&FeatureParams::default(), Size::new(w, h)).sizes;
        assert_eq!(sizes(1, 9).len(), 1);
        assert_eq!(sizes(16, 16).len(), 1);
        assert_eq!(
            &sizes(64, 33)[..],
            [(64, 33), (32, 17)].map(|(w, h)| Size::new(w, h))
        );
        assert_eq!(sizes(1280, 720).len(), 6);
    }
}
