//! Is the model the one that `stage::foreground` states, number by number? The model here is
//! written from that text, pixel by pixel, and compared through the snapshot's bytes.
use proptest::prelude::*;
use roadloop::{
    frame::{Foreground, ForegroundState, Image, MonoImage, Motion, MotionState, PixelKind, Size},
    stage::{
        Stage as _,
        foreground::{
            Params,
            cpu::{Input, Plan},
        },
    },
};

#[derive(Clone, Debug)]
struct Mode {
    weight: f32,
    /// Squared grey levels.
    variance: f32,
    /// 1/256 grey level.
    mean: Vec<f32>,
}

/// Weights and means are whole, variances whole in 1/256, between frames.
struct Slow {
    params: Params,
    kind: PixelKind,
    size: Size,
    pixels: Vec<Vec<Mode>>,
    learnt: u32,
    gain: f32,
}

/// Channels of a pixel in 1/256 level.
fn levels(image: &MonoImage, x: usize, y: usize) -> Vec<u16> {
    match image {
        MonoImage::Grey8(i) => vec![u16::from(i.get(x, y)) * 256],
        MonoImage::Grey16(i) => vec![i.get(x, y)],
        MonoImage::Rgb8(i) => i.get(x, y).iter().map(|&c| u16::from(c) * 256).collect(),
    }
}

impl Slow {
    fn new(params: &Params, kind: PixelKind, size: Size) -> Self {
        Self {
            params: params.clone(),
            kind,
            size,
            pixels: vec![Vec::new(); size.area()],
            learnt: 0,
            gain: 1.0,
        }
    }

    /// Adds up the pixels that agree with the median of all ratios.
    fn measure(&mut self, image: &MonoImage, known: Option<&Image<u8>>) {
        let mut step = 1;
        while step * step * 4096 < self.size.area() {
            step += 1;
        }
        let mut samples = Vec::new();
        for y in (step / 2..self.size.height).step_by(step) {
            for x in (step / 2..self.size.width).step_by(step) {
                let Some(mode) = self.pixels[y * self.size.width + x].first() else {
                    continue;
                };
                let pixel = levels(image, x, y);
                let mean: u64 = mode.mean.iter().map(|&m| m as u64).sum();
                let level: u64 = pixel.iter().map(|&l| u64::from(l)).sum();
                if mode.weight < 39321.0
                    || mean < 4096 * pixel.len() as u64
                    || pixel.iter().any(|&l| l >= 64000)
                    || known.is_some_and(|k| k.get(x, y) != 0)
                {
                    continue;
                }
                let bin = ((level * 256 + mean / 2) / mean).min(1023);
                samples.push((bin, (level + 8) / 16, (mean + 8) / 16));
            }
        }
        samples.sort_unstable();
        let n = samples.len();
        if n < 64 {
            return;
        }
        let median = samples[n.div_ceil(2) - 1].0;
        if median >= 1020 {
            return;
        }
        let near: Vec<_> = samples
            .iter()
            .filter(|s| s.0.abs_diff(median) <= 3)
            .collect();
        let pixels: u64 = near.iter().map(|s| s.1).sum();
        let means: u64 = near.iter().map(|s| s.2).sum();
        if 5 * near.len() < n || pixels == 0 {
            return;
        }
        let gain = pixels as f32 / means as f32;
        if (gain - self.gain).abs() > 0.005 * self.gain {
            self.gain = gain;
        }
    }

    /// 0 background, 127, 255; without the median.
    fn frame(&mut self, image: &MonoImage, known: Option<&Image<u8>>) -> Vec<u8> {
        let p = self.params.clone();
        if p.gain_compensation && self.learnt >= 2 {
            self.measure(image, known);
        }
        let n = self.learnt + 1;
        let a = p
            .learning_rate
            .unwrap_or(1.0 / (2 * n).min(p.history_frames) as f32);
        let mut turn = 0;
        for bit in 0..6 {
            turn = 2 * turn + (self.learnt >> bit & 1);
        }
        let dither = (turn as f32 + 0.5) / 64.0 - 0.5;
        let round = |v: f32| (v + dither).round_ties_even();
        let mut mask = vec![0; self.size.area()];
        for (i, mask) in mask.iter_mut().enumerate() {
            let (x, y) = (i % self.size.width, i / self.size.width);
            if known.is_some_and(|k| k.get(x, y) != 0) {
                *mask = 255;
                continue;
            }
            let inverse = 1.0 / self.gain;
            let pixel: Vec<f32> = levels(image, x, y)
                .iter()
                .map(|&l| (f32::from(l) * inverse).min(65535.0))
                .collect();
            let bright = |x: f32| self.gain > 1.0 && x >= 64000.0 * inverse;
            let verdict = self.params.shadow_of(self.kind);
            let before = self.pixels[i].clone();
            let (code, modes) = step(&p, a, verdict, &before, &pixel, &bright);
            *mask = code;
            if a > 0.0 {
                self.pixels[i] = modes
                    .into_iter()
                    .map(|m| Mode {
                        weight: round(m.weight.clamp(0.0, 65535.0)),
                        variance: round(m.variance * 256.0) / 256.0,
                        mean: m.mean.iter().map(|&m| round(m)).collect(),
                    })
                    .collect();
            }
        }
        if a > 0.0 {
            self.learnt += 1;
        }
        mask
    }

    /// As the format says.
    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = b"RLFGMODL\x01\0\0\0".to_vec();
        let kind = match self.kind {
            PixelKind::Grey8 => 0u8,
            PixelKind::Grey16 => 1,
            PixelKind::Rgb8 => 2,
        };
        let p = &self.params;
        let parameters = [
            p.modes as f32,
            p.history_frames as f32,
            p.match_threshold,
            p.variance_init,
            p.variance_min,
            p.variance_max,
            p.complexity_prior,
        ];
        let counts: Vec<u8> = self.pixels.iter().map(|m| m.len() as u8).collect();
        let mut numbers: Vec<u16> = Vec::new();
        for mode in self.pixels.iter().flatten() {
            numbers.push(mode.weight as u16);
            numbers.push((mode.variance * 256.0) as u16);
            numbers.extend(mode.mean.iter().map(|&m| m as u16));
        }
        let (w, h) = (self.size.width as u32, self.size.height as u32);
        let record = (kind, w, h, parameters, self.learnt, counts, numbers);
        bytes.extend(postcard::to_allocvec(&record).unwrap());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }
}

/// One pixel: its code, and its modes before they are rounded.
fn step(
    p: &Params,
    a: f32,
    shadows: bool,
    before: &[Mode],
    x: &[f32],
    bright: &dyn Fn(f32) -> bool,
) -> (u8, Vec<Mode>) {
    let a_weight = a * 65535.0;
    let prune = a * p.complexity_prior * 65535.0;
    let ratio = p.background_ratio * 65535.0;
    let (mut background, mut shadow, mut matched) = (false, false, None);
    let mut sum = 0.0;
    let mut modes = Vec::new();
    for old in before {
        let mut mode = old.clone();
        mode.weight = old.weight - a * old.weight - prune;
        let d: Vec<f32> = x
            .iter()
            .zip(&old.mean)
            .map(|(&x, &mean)| if bright(x) && x < mean { 0.0 } else { x - mean })
            .collect();
        let d2 = d.iter().fold(0.0, |sum, d| sum + (d / 256.0) * (d / 256.0));
        if matched.is_none() && sum < ratio && d2 < p.background_threshold * old.variance {
            background = true;
        }
        if shadows && sum < ratio {
            shadow |= shadowed(p, x, old);
        }
        if matched.is_none() && d2 < p.match_threshold * old.variance {
            mode.weight += a_weight;
            let k = (a_weight / mode.weight).min(1.0);
            for (mean, d) in mode.mean.iter_mut().zip(&d) {
                *mean = (*mean + k * d).clamp(0.0, 65535.0);
            }
            let v = old.variance + k * (d2 - old.variance);
            mode.variance = v.clamp(p.variance_min, p.variance_max);
            matched = Some(modes.len());
        }
        if mode.weight < prune {
            mode.weight = 0.0;
        }
        sum += mode.weight;
        modes.push(mode);
    }
    let code = match (background || before.is_empty(), shadow) {
        (true, _) => 0,
        (false, true) => Foreground::SHADOW,
        (false, false) => Foreground::MOVING,
    };
    let norm = if sum > 0.0 { 65535.0 / sum } else { 0.0 };
    let kept = modes.iter().filter(|m| m.weight >= prune).count();
    for mode in &mut modes {
        mode.weight *= norm;
    }
    let mut length = kept;
    if matched.is_none() {
        let slot = kept.min(p.modes - 1);
        modes.truncate(slot);
        for mode in &mut modes {
            mode.weight *= 1.0 - a;
        }
        modes.push(Mode {
            weight: a_weight,
            variance: p.variance_init,
            mean: x.to_vec(),
        });
        matched = Some(slot);
        length = slot + 1;
    }
    let mut at = matched.unwrap();
    while at > 0 && modes[at].weight >= modes[at - 1].weight {
        modes.swap(at, at - 1);
        at -= 1;
    }
    modes.truncate(length);
    if let [only] = &mut modes[..] {
        only.weight = 65535.0;
    }
    (code, modes)
}

fn shadowed(p: &Params, x: &[f32], mode: &Mode) -> bool {
    let pairs = || {
        x.iter()
            .zip(&mode.mean)
            .map(|(x, mu)| (x / 256.0, mu / 256.0))
    };
    let num = pairs().fold(0.0, |sum, (x, mu)| sum + x * mu);
    let den = pairs().fold(0.0, |sum, (_, mu)| sum + mu * mu);
    if den == 0.0 || num > p.shadow_max_ratio * den || num < p.shadow_ratio * den {
        return false;
    }
    let a = num / den;
    let e = pairs().fold(0.0, |sum, (x, mu)| sum + (a * mu - x) * (a * mu - x));
    e < p.shadow_threshold * mode.variance * a * a
}

/// Majority of the window over the borders' pixels, slowly.
fn median(codes: &[u8], size: Size, side: usize) -> Vec<u8> {
    let r = (side / 2) as isize;
    let clamped = |p: isize, n: usize| p.clamp(0, n as isize - 1) as usize;
    let mut out = Vec::new();
    for y in 0..size.height as isize {
        for x in 0..size.width as isize {
            let mut window = Vec::new();
            for dy in -r..=r {
                for dx in -r..=r {
                    let (x, y) = (clamped(x + dx, size.width), clamped(y + dy, size.height));
                    window.push(codes[y * size.width + x]);
                }
            }
            let no_background = window.iter().filter(|&&c| c != 0).count();
            let shadows = window.iter().filter(|&&c| c == Foreground::SHADOW).count();
            out.push(if 2 * no_background <= window.len() {
                0
            } else if 5 * shadows >= 4 * no_background {
                Foreground::SHADOW
            } else {
                Foreground::MOVING
            });
        }
    }
    out
}

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A ground of its own at each pixel, some noise, things that come and go, and a gain.
fn picture(kind: PixelKind, size: Size, seed: u64, t: u64) -> MonoImage {
    let mut noise = random(seed ^ (t << 32));
    let gain = [64, 64, 64, 70, 70, 55][(t as usize / 7) % 6];
    let mut level = |x: usize, y: usize, c: u64| {
        let ground = random(seed ^ (x * 7919 + y) as u64 ^ (c << 60))() % 65536;
        let n = noise();
        let ground = match n % 16 {
            0 => n >> 48,
            1 | 2 => 65535 - ground,
            3 => ground * 3 / 4,
            _ => ground + (n >> 32) % 1024,
        };
        (ground * gain / 64).min(65535) as u16
    };
    let (w, h) = (size.width, size.height);
    match kind {
        PixelKind::Grey8 => {
            MonoImage::Grey8(Image::from_fn(w, h, |x, y| (level(x, y, 0) >> 8) as u8))
        }
        PixelKind::Grey16 => MonoImage::Grey16(Image::from_fn(w, h, |x, y| level(x, y, 0))),
        PixelKind::Rgb8 => MonoImage::Rgb8(Image::from_fn(w, h, |x, y| {
            [0, 1, 2].map(|c| (level(x, y, c) >> 8) as u8)
        })),
    }
}

fn compare(params: &Params, kind: PixelKind, size: Size, frames: u64, seed: u64, known: bool) {
    let mut slow = Slow::new(params, kind, size);
    let mut plan = Plan::new(params, kind, size).unwrap();
    let mut out = Foreground::new(size);
    let motion = Motion::of(MotionState::Still);
    for t in 0..frames {
        let image = picture(kind, size, seed, t);
        let mut bits = random(seed ^ t);
        let known = known.then(|| {
            Image::from_fn(size.width, size.height, |_, _| {
                u8::from(bits().is_multiple_of(8))
            })
        });
        let input = Input {
            image: &image,
            motion: &motion,
            known_foreground: known.as_ref(),
        };
        let ready = slow.learnt >= params.warm_up_frames;
        let codes = slow.frame(&image, known.as_ref());
        plan.run(input, &mut out);
        let what = format!("{kind:?} {size} frame {t} seed {seed}");
        assert_eq!(plan.gain(), slow.gain, "gain of {what}");
        assert!(plan.snapshot() == slow.snapshot(), "model of {what}");
        if !ready {
            assert_eq!(out.state, ForegroundState::WarmingUp, "{what}");
            assert!(out.mask.pixels().all(|&m| m == 0), "{what}");
            continue;
        }
        let side = params.median_px.max(1) as usize;
        let mut mask = median(&codes, size, side);
        if let Some(known) = &known {
            for (mask, &known) in mask.iter_mut().zip(known.pixels()) {
                *mask = if known != 0 { 255 } else { *mask };
            }
        }
        assert_eq!(out.state, ForegroundState::Valid, "{what}");
        assert!(out.mask.pixels().eq(&mask), "mask of {what}");
    }
}

const KINDS: [PixelKind; 3] = [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8];

#[test]
fn every_shape_gives_the_stated_model() {
    let params = Params {
        warm_up_frames: 3,
        ..Params::default()
    };
    let sizes = [
        (1, 1),
        (1, 33),
        (37, 1),
        (16, 16),
        (31, 7),
        (33, 32),
        (131, 5),
        (300, 20),
    ];
    for (w, h) in sizes {
        for kind in KINDS {
            compare(&params, kind, Size::new(w, h), 40, 7 * w as u64, false);
        }
    }
}

#[test]
fn known_foreground_is_foreground_and_not_learnt() {
    for kind in KINDS {
        compare(&Params::default(), kind, Size::new(45, 13), 30, 3, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_parameter_counts_as_stated(
        modes in 1usize..=5,
        history_frames in 1u32..60,
        rate in prop::option::weighted(0.4, prop::sample::select(vec![0.0f32, 0.001, 0.05, 0.5, 1.0])),
        thresholds in (1.0f32..40.0, 1.0f32..60.0),
        background_ratio in 0.0f32..=1.0,
        variance_init in 4.0f32..60.0,
        complexity_prior in 0.0f32..=0.5,
        shadow in prop::option::of(any::<bool>()),
        median_px in prop::sample::select(vec![0u32, 3, 5]),
        gain_compensation in any::<bool>(),
        kind in prop::sample::select(KINDS.to_vec()),
        width in 1usize..80,
        height in 1usize..12,
        seed in any::<u64>(),
    ) {
        let params = Params {
            modes,
            history_frames,
            learning_rate: rate,
            match_threshold: thresholds.0,
            background_threshold: thresholds.1,
            background_ratio,
            variance_init,
            complexity_prior,
            shadow,
            median_px,
            gain_compensation,
            warm_up_frames: 2,
            ..Params::default()
        };
        compare(&params, kind, Size::new(width, height), 24, seed, false);
    }
}
