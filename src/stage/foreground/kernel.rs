//! The model's step, written for the vectoriser: lanes are the pixels of a block.
//! [`super::simd`] compiles it once for every instruction set.
// Lanes are indices here, of several arrays at once.
#![allow(clippy::needless_range_loop)]

use super::{Frame, MAX_MODES, MAX_MODES as M, ONE, ROUND};

/// Pixels of a block.
pub const LANES: usize = 16;

/// Code of a pixel that is no background.
pub const MOVING: u8 = 1;
/// Besides, of one that looks as a shadow does.
pub const SHADOW: u8 = 2;

/// In `skip`: the pixel is background, and not learnt from.
pub const SKIP: u8 = 1;
/// In `skip`: the pixel is foreground, and not learnt from.
pub const KNOWN: u8 = 2;

/// One mode of each pixel of a block.
#[derive(Clone, Copy)]
pub struct Mode<const C: usize> {
    pub weight: [u16; LANES],
    pub variance: [u16; LANES],
    pub mean: [[u16; LANES]; C],
}

/// The model of the pixels of a block. Modes from a pixel's count on mean nothing.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Block<const C: usize> {
    pub count: [u8; LANES],
    pub modes: [Mode<C>; MAX_MODES],
}

impl<const C: usize> Block<C> {
    /// Knows nothing.
    pub const EMPTY: Self = Self {
        count: [0; LANES],
        modes: [Mode {
            weight: [0; LANES],
            variance: [0; LANES],
            mean: [[0; LANES]; C],
        }; MAX_MODES],
    };

    /// Takes one pixel's modes from another block.
    fn restore(&mut self, other: &Self, i: usize) {
        self.count[i] = other.count[i];
        for (to, from) in self.modes.iter_mut().zip(&other.modes) {
            to.weight[i] = from.weight[i];
            to.variance[i] = from.variance[i];
            for (to, from) in to.mean.iter_mut().zip(&from.mean) {
                to[i] = from[i];
            }
        }
    }
}

/// What a picture is made of.
pub trait Pixel<const C: usize>: Copy + Default + Send + Sync {
    /// A channel in 1/256 grey level.
    fn level(self, c: usize) -> u16;
}

impl Pixel<1> for u8 {
    #[inline(always)]
    fn level(self, _: usize) -> u16 {
        u16::from(self) << 8
    }
}

impl Pixel<1> for u16 {
    #[inline(always)]
    fn level(self, _: usize) -> u16 {
        self
    }
}

impl Pixel<3> for [u8; 3] {
    #[inline(always)]
    fn level(self, c: usize) -> u16 {
        u16::from(self[c]) << 8
    }
}

type Lane = [f32; LANES];

/// To the nearest whole number; what is not whole goes up or down by turns, see [`Frame::dither`].
#[inline(always)]
fn whole(value: f32, dither: f32) -> u16 {
    (value + dither + ROUND).to_bits() as u16
}

#[inline(always)]
fn held(value: f32, low: f32, high: f32) -> f32 {
    let value = if value < low { low } else { value };
    if value > high { high } else { value }
}

/// Blocks of a band, one after the other. The last may have fewer pixels than lanes. `skip` and
/// `slack` (in a moved picture: by how much a pixel may differ, 1/256 level) have a number a pixel.
#[inline(always)]
pub fn band<const C: usize, P: Pixel<C>>(
    frame: &Frame,
    pixels: &[P],
    skip: Option<&[u8]>,
    slack: Option<&[u16]>,
    blocks: &mut [Block<C>],
    codes: &mut [u8],
) {
    let pixels = pixels.chunks(LANES);
    let codes = codes.chunks_mut(LANES);
    for (b, ((block, pixels), codes)) in blocks.iter_mut().zip(pixels).zip(codes).enumerate() {
        let mut whole = [P::default(); LANES];
        let pixels: &[P; LANES] = match pixels.first_chunk() {
            Some(pixels) => pixels,
            None => {
                whole[..pixels.len()].copy_from_slice(pixels);
                &whole
            }
        };
        let skip = skip.map(|skip| &skip[b * LANES..][..codes.len()]);
        let mut allowed = [0.0; LANES];
        if let Some(slack) = slack {
            let slack = &slack[b * LANES..][..codes.len()];
            for (to, &slack) in allowed.iter_mut().zip(slack) {
                *to = f32::from(slack);
            }
        }
        let mut x = [[0.0; LANES]; C];
        for c in 0..C {
            for i in 0..LANES {
                let level = f32::from(pixels[i].level(c)) * frame.inverse_gain;
                x[c][i] = if level > ONE { ONE } else { level };
            }
        }
        let mut out = [0; LANES];
        let step = |block: &mut Block<C>, out: &mut [u8; LANES]| {
            if slack.is_some() {
                step::<C, true>(frame, &x, &allowed, block, out);
            } else {
                step::<C, false>(frame, &x, &allowed, block, out);
            }
        };
        match skip {
            Some(skip) if skip.iter().any(|&s| s != 0) => {
                let before = block.clone();
                step(block, &mut out);
                for (i, &s) in skip.iter().enumerate() {
                    if s != 0 {
                        block.restore(&before, i);
                        out[i] = if s == KNOWN { MOVING } else { 0 };
                    }
                }
            }
            _ => step(block, &mut out),
        }
        codes.copy_from_slice(&out[..codes.len()]);
    }
}

#[inline(always)]
fn step<const C: usize, const MOVED: bool>(
    frame: &Frame,
    x: &[Lane; C],
    slack: &Lane,
    block: &mut Block<C>,
    out: &mut [u8; LANES],
) {
    let (mut least, mut most) = (u8::MAX, 0);
    for i in 0..LANES {
        least = least.min(block.count[i]);
        most = most.max(block.count[i]);
    }
    if least == 0 || !first::<C, MOVED>(frame, x, slack, block, usize::from(most)) {
        general::<C, MOVED>(frame, x, slack, block, usize::from(most), out);
    }
}

/// x - mean; what a saturated pixel lacks counts for nothing.
#[inline(always)]
fn difference(frame: &Frame, x: f32, mean: f32) -> f32 {
    let d = x - mean;
    if x >= frame.saturated && d < 0.0 {
        0.0
    } else {
        d
    }
}

/// What of a difference the place of a moved picture, which may be wrong, does not explain.
#[inline(always)]
fn unexplained(d: f32, slack: f32) -> f32 {
    let d = if d < 0.0 { -d } else { d } - slack;
    if d > 0.0 { d } else { 0.0 }
}

/// All pixels match their heaviest mode, and it is background: the order stays, and of the other
/// modes nothing but the weight is looked at. False, with nothing done, if that is not so.
#[inline(always)]
fn first<const C: usize, const MOVED: bool>(
    frame: &Frame,
    x: &[Lane; C],
    slack: &Lane,
    block: &mut Block<C>,
    top: usize,
) -> bool {
    let mode = &mut block.modes[0];
    let mut d = [[0.0; LANES]; C];
    let mut d2: Lane = [0.0; LANES];
    let mut apart: Lane = [0.0; LANES];
    let mut variance: Lane = [0.0; LANES];
    let mut missed = 0u32;
    for c in 0..C {
        for i in 0..LANES {
            let mu = f32::from(mode.mean[c][i]);
            d[c][i] = difference(frame, x[c][i], mu);
            let levels = d[c][i] * (1.0 / 256.0);
            d2[i] += levels * levels;
            if MOVED {
                let levels = unexplained(d[c][i], slack[i]) * (1.0 / 256.0);
                apart[i] += levels * levels;
            }
        }
    }
    let apart = if MOVED { &apart } else { &d2 };
    for i in 0..LANES {
        variance[i] = f32::from(mode.variance[i]) * (1.0 / 256.0);
        missed |= u32::from(apart[i] >= frame.match_threshold * variance[i]);
        missed |= u32::from(apart[i] >= frame.first_threshold * variance[i]);
    }
    if missed != 0 {
        return false;
    }
    if !frame.learns {
        return true;
    }
    let mut k: Lane = [frame.single_rate; LANES];
    if top > 1 {
        k = weights(frame, block, top);
    }
    let mode = &mut block.modes[0];
    for c in 0..C {
        for i in 0..LANES {
            let mean = f32::from(mode.mean[c][i]) + k[i] * d[c][i];
            mode.mean[c][i] = whole(held(mean, 0.0, ONE), frame.dither);
        }
    }
    for i in 0..LANES {
        let v = variance[i] + k[i] * (d2[i] - variance[i]);
        let v = held(v, frame.variance_min, frame.variance_max);
        mode.variance[i] = whole(v * 256.0, frame.dither);
    }
    true
}

/// The weights where all pixels match their heaviest mode; the rates of these.
#[inline(always)]
fn weights<const C: usize>(frame: &Frame, block: &mut Block<C>, top: usize) -> Lane {
    let mut w = [[0.0f32; LANES]; M];
    let mut k: Lane = [0.0; LANES];
    let mut sum: Lane = [0.0; LANES];
    let mut count = [1u8; LANES];
    for i in 0..LANES {
        let old = f32::from(block.modes[0].weight[i]);
        let weight = old - frame.rate * old - frame.prune + frame.rate_weight;
        let rate = frame.rate_weight / weight;
        k[i] = if rate < 1.0 { rate } else { 1.0 };
        w[0][i] = weight;
        sum[i] = weight;
    }
    for m in 1..top {
        for i in 0..LANES {
            let old = f32::from(block.modes[m].weight[i]);
            let decayed = old - frame.rate * old - frame.prune;
            let keep = ((m as u8) < block.count[i]) & (decayed >= frame.prune);
            let weight = if keep { decayed } else { 0.0 };
            count[i] += u8::from(keep);
            w[m][i] = weight;
            sum[i] += weight;
        }
    }
    let mut norm: Lane = [0.0; LANES];
    for i in 0..LANES {
        norm[i] = ONE / sum[i];
        let weight = held(w[0][i] * norm[i], 0.0, ONE);
        let weight = if count[i] == 1 { ONE } else { weight };
        block.modes[0].weight[i] = whole(weight, frame.dither);
    }
    for m in 1..top {
        for i in 0..LANES {
            block.modes[m].weight[i] = whole(w[m][i] * norm[i], frame.dither);
        }
    }
    block.count = count;
    k
}

/// Nothing matched.
const NONE: u32 = u32::MAX;

#[inline(always)]
fn general<const C: usize, const MOVED: bool>(
    frame: &Frame,
    x: &[Lane; C],
    slack: &Lane,
    block: &mut Block<C>,
    top: usize,
    out: &mut [u8; LANES],
) {
    let mut w = [[0.0f32; LANES]; M];
    let mut v = [[0.0f32; LANES]; M];
    let mut mean = [[[0.0f32; LANES]; C]; M];
    let mut before: Lane = [0.0; LANES];
    let mut place = [NONE; LANES];
    let mut background = [0u32; LANES];
    let mut shadow = [0u32; LANES];
    let mut kept = [0u32; LANES];
    let mut count = [0u32; LANES];
    for i in 0..LANES {
        count[i] = u32::from(block.count[i]);
    }
    for m in 0..top {
        let mode = &block.modes[m];
        let mut d2: Lane = [0.0; LANES];
        let mut apart: Lane = [0.0; LANES];
        let mut d = [[0.0f32; LANES]; C];
        for c in 0..C {
            for i in 0..LANES {
                let mu = f32::from(mode.mean[c][i]);
                mean[m][c][i] = mu;
                d[c][i] = difference(frame, x[c][i], mu);
                let levels = d[c][i] * (1.0 / 256.0);
                d2[i] += levels * levels;
                if MOVED {
                    let levels = unexplained(d[c][i], slack[i]) * (1.0 / 256.0);
                    apart[i] += levels * levels;
                }
            }
        }
        let apart = if MOVED { &apart } else { &d2 };
        for i in 0..LANES {
            v[m][i] = f32::from(mode.variance[i]) * (1.0 / 256.0);
        }
        if frame.shadow {
            for i in 0..LANES {
                let (mut num, mut den) = (0.0, 0.0);
                for c in 0..C {
                    let (x, mu) = (x[c][i] * (1.0 / 256.0), mean[m][c][i] * (1.0 / 256.0));
                    num += x * mu;
                    den += mu * mu;
                }
                let a = num / if den > 0.0 { den } else { 1.0 };
                let mut e = 0.0;
                for c in 0..C {
                    let (x, mu) = (x[c][i] * (1.0 / 256.0), mean[m][c][i] * (1.0 / 256.0));
                    let q = a * mu - x;
                    e += q * q;
                }
                let darker = (den > 0.0)
                    & (num <= frame.shadow_max_ratio * den)
                    & (num >= frame.shadow_ratio * den);
                let alike = e < frame.shadow_threshold * v[m][i] * a * a;
                let ground = ((m as u32) < count[i]) & (before[i] < frame.background_weight);
                shadow[i] |= u32::from(darker & alike & ground);
            }
        }
        for i in 0..LANES {
            let old = f32::from(mode.weight[i]);
            let decayed = old - frame.rate * old - frame.prune;
            let valid = (m as u32) < count[i];
            let open = valid & (place[i] == NONE);
            let ground = open & (before[i] < frame.background_weight);
            let near = apart[i] < frame.background_threshold * v[m][i];
            background[i] |= u32::from(ground & near);
            let fits = open & (apart[i] < frame.match_threshold * v[m][i]);
            let weight = if fits {
                decayed + frame.rate_weight
            } else {
                decayed
            };
            let k = frame.rate_weight / weight;
            let k = if k < 1.0 { k } else { 1.0 };
            let k = if fits { k } else { 0.0 };
            let learnt = v[m][i] + k * (d2[i] - v[m][i]);
            let learnt = held(learnt, frame.variance_min, frame.variance_max);
            v[m][i] = if fits { learnt } else { v[m][i] };
            for c in 0..C {
                let mu = held(mean[m][c][i] + k * d[c][i], 0.0, ONE);
                mean[m][c][i] = if fits { mu } else { mean[m][c][i] };
            }
            let keep = valid & (weight >= frame.prune);
            let weight = if keep { weight } else { 0.0 };
            kept[i] += u32::from(keep);
            place[i] = if fits { m as u32 } else { place[i] };
            w[m][i] = weight;
            before[i] += weight;
        }
    }
    for i in 0..LANES {
        // Of what was never seen before nothing is said.
        out[i] = if (background[i] != 0) | (count[i] == 0) {
            0
        } else {
            MOVING | if shadow[i] != 0 { SHADOW } else { 0 }
        };
    }
    if frame.learns {
        learn(frame, x, block, top, (w, v, mean), before, place, kept);
    }
}

type Modes<const C: usize> = ([Lane; M], [Lane; M], [[Lane; C]; M]);

/// Normalises, inserts, sorts and stores.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn learn<const C: usize>(
    frame: &Frame,
    x: &[Lane; C],
    block: &mut Block<C>,
    top: usize,
    (mut w, mut v, mut mean): Modes<C>,
    sum: Lane,
    mut place: [u32; LANES],
    kept: [u32; LANES],
) {
    for i in 0..LANES {
        let norm = if sum[i] > 0.0 { ONE / sum[i] } else { 0.0 };
        for m in 0..top {
            w[m][i] *= norm;
        }
    }
    let mut count = kept;
    let mut missed = 0;
    for i in 0..LANES {
        missed |= u32::from(place[i] == NONE);
    }
    let mut top = top;
    if missed != 0 {
        let last = frame.modes - 1;
        top = (top + 1).min(frame.modes as usize);
        let mut slot = [0; LANES];
        let mut new = [0; LANES];
        for i in 0..LANES {
            new[i] = u32::from(place[i] == NONE);
            slot[i] = kept[i].min(last);
            count[i] = if new[i] != 0 { slot[i] + 1 } else { kept[i] };
            place[i] = if new[i] != 0 { slot[i] } else { place[i] };
        }
        for m in 0..top {
            for i in 0..LANES {
                let here = (new[i] != 0) & (slot[i] == m as u32);
                let above = (new[i] != 0) & (slot[i] > m as u32);
                let less = w[m][i] * (1.0 - frame.rate);
                let weight = if above { less } else { w[m][i] };
                w[m][i] = if here { frame.rate_weight } else { weight };
                v[m][i] = if here { frame.variance_init } else { v[m][i] };
                for c in 0..C {
                    mean[m][c][i] = if here { x[c][i] } else { mean[m][c][i] };
                }
            }
        }
    }
    for m in (1..top).rev() {
        let mut any = 0;
        let mut moves = [0u32; LANES];
        for i in 0..LANES {
            moves[i] = u32::from((place[i] == m as u32) & (w[m][i] >= w[m - 1][i]));
            any |= moves[i];
        }
        if any == 0 {
            continue;
        }
        swap(&moves, &mut w, m);
        swap(&moves, &mut v, m);
        for c in 0..C {
            for i in 0..LANES {
                let (a, b) = (mean[m - 1][c][i], mean[m][c][i]);
                mean[m - 1][c][i] = if moves[i] != 0 { b } else { a };
                mean[m][c][i] = if moves[i] != 0 { a } else { b };
            }
        }
        for i in 0..LANES {
            place[i] -= moves[i];
        }
    }
    for i in 0..LANES {
        w[0][i] = if count[i] == 1 { ONE } else { w[0][i] };
        block.count[i] = count[i] as u8;
    }
    for m in 0..top {
        let mode = &mut block.modes[m];
        for i in 0..LANES {
            mode.weight[i] = whole(held(w[m][i], 0.0, ONE), frame.dither);
            mode.variance[i] = whole(v[m][i] * 256.0, frame.dither);
        }
        for c in 0..C {
            for i in 0..LANES {
                mode.mean[c][i] = whole(mean[m][c][i], frame.dither);
            }
        }
    }
}

#[inline(always)]
fn swap(moves: &[u32; LANES], lanes: &mut [Lane; M], m: usize) {
    for i in 0..LANES {
        let (a, b) = (lanes[m - 1][i], lanes[m][i]);
        lanes[m - 1][i] = if moves[i] != 0 { b } else { a };
        lanes[m][i] = if moves[i] != 0 { a } else { b };
    }
}
