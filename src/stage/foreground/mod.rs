//! What moves in front of a camera that stands: Zivkovic's adaptive mixture of Gaussians (ICPR
//! 2004; Pattern Recognition Letters 27(7), 2006), with the camera's gain and shake evened out.
//!
//! # The numeric contract
//! All arithmetic is `f32` with + - * / in the order written here, nothing contracted.
//! 1. **State.** A pixel has 0 to [`Params::modes`] modes, heaviest first; each has a weight in
//!    1/65535, a variance in 1/256 squared grey level and a mean a channel in 1/256 grey level,
//!    all `u16`. Grey levels are those of 8 bits; 16-bit pixels are 1/256 levels. What is not
//!    whole is rounded to the nearest after adding a small number of the frame
//!    (`Frame::dither`), so that small steps add up over the frames.
//! 2. **Motion.** The camera's motion since the model began is followed by multiplying
//!    homographies (`f64`). So that their errors do not add up, each is corrected by what the
//!    model shows: least squares for an affine motion over some 16,000 samples, in whole numbers;
//!    perspective fades by 1/16. While the camera has not moved by 1/16 px, pixel and model meet
//!    directly. Else the picture is sampled where the model's pixels lie now (position to 1/8 px,
//!    bilinear), an eighth of the background's contrast around a pixel is forgiven in both tests
//!    of 4 (so that thin edges are no foreground), and each pixel of the mask asks the model's
//!    pixel nearest to it. Driving forgets the model; so does a camera that has moved by a
//!    quarter of the picture. While the motion is unknown nothing is learnt or said.
//! 3. **Gain** g, one a frame (`gain`): ratio of pixel and heaviest mode, both summed over the
//!    channels, on a grid of some 4,000 pixels; from the samples in the 7 bins (1/256 each)
//!    around the median, sum by sum. Below half a per cent nothing is changed. The pixel enters
//!    the model as x/g; one that is saturated while g > 1 is as bright as any mode that is
//!    brighter.
//! 4. **Model.** Rate a = 1 / min(2n, T) in the n-th frame, or fixed; c the complexity prior.
//!    For each mode, heaviest first, with B the sum of updated weights before it: w becomes
//!    (w - a w) - a c; if nothing matched so far and D2 < Tb v and B < ratio, the pixel is
//!    background; if nothing matched so far and D2 < Tg v, the mode matches: w += a,
//!    k = min(1, a / w), mean += k (x - mean), v += k (D2 - v) held to its bounds. A mode with
//!    w < a c is dropped. Weights are divided by their sum. A pixel that matched nothing becomes
//!    the last mode (the lightest makes room) with weight a, the others times (1 - a). The mode
//!    that matched or is new moves up while it is at least as heavy as the one above. A single
//!    mode has weight 1. At rate 0 nothing is stored. Of a pixel without modes nothing is said.
//! 5. **Shadow** (colour): with a = x.mu / mu.mu from [`Params::shadow_ratio`] to
//!    [`Params::shadow_max_ratio`], |a mu - x|^2 < [`Params::shadow_threshold`] v a^2 for a mode
//!    of the background.
//! 6. **Median.** A pixel of the mask is no background where most codes of the window are not
//!    (beyond the borders the picture goes on as it ends), and shadow where four in five of those
//!    look like shadow. Pixels of the known foreground are set at last.
//! 7. **Mask.** Pixels that are never to be used are background in the mask; nothing else depends
//!    on them: they are not learnt from and count for neither gain nor motion, and of a moved
//!    picture nothing is taken that lies between them and others.
mod anchor;
mod clean;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod gain;
mod kernel;
mod params;
mod simd;
mod snapshot;

use crate::frame::{Mask, Size};

pub use params::{MAX_MODES, Params, ParamsError};
pub use snapshot::{SnapshotError, is_snapshot};

/// Weight of a pixel's only mode, and the brightest level.
const ONE: f32 = 65535.0;
/// Added to a number of magnitude below 2^21, leaves it rounded in the lowest bits.
const ROUND: f32 = 12_582_912.0;
/// Learnt frames before which the gain is not estimated.
const GAIN_AFTER: u32 = 2;

/// The mask, if it fits images of this size.
fn usable(mask: Option<&Mask>, size: Size) -> Result<Option<&Mask>, ParamsError> {
    match mask {
        Some(mask) if mask.size() != size => Err(ParamsError::Mask {
            found: mask.size(),
            expected: size,
        }),
        _ => Ok(mask),
    }
}

/// What holds for all pixels of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Frame {
    modes: u32,
    learns: bool,
    shadow: bool,
    /// Learning rate, and in units of weight.
    rate: f32,
    rate_weight: f32,
    /// Complexity prior times rate, in units of weight.
    prune: f32,
    /// Rate of a pixel's only mode.
    single_rate: f32,
    /// Added before rounding: between -1/2 and 1/2, another in each of 64 frames, 0 on average.
    dither: f32,
    /// 1 / gain.
    inverse_gain: f32,
    /// Saturated from here on, after the gain.
    saturated: f32,
    match_threshold: f32,
    background_threshold: f32,
    /// The same for the heaviest mode: 0 where none is background.
    first_threshold: f32,
    background_weight: f32,
    variance_init: f32,
    variance_min: f32,
    variance_max: f32,
    shadow_ratio: f32,
    shadow_max_ratio: f32,
    shadow_threshold: f32,
}

impl Frame {
    /// `learnt`: frames that the model has learnt from before this one.
    fn new(params: &Params, shadow: bool, learnt: u32, gain: f32) -> Self {
        let rate = match params.learning_rate {
            Some(rate) => rate,
            None => {
                let n = learnt.saturating_add(1).saturating_mul(2);
                1.0 / n.min(params.history_frames) as f32
            }
        };
        let rate_weight = rate * ONE;
        let prune = rate * params.complexity_prior * ONE;
        let single = ONE - rate * ONE - prune + rate_weight;
        let single = rate_weight / single;
        let inverse_gain = 1.0 / gain;
        let saturated = f32::from(gain::SATURATED) * inverse_gain;
        let turn = ((learnt % 64) as u8).reverse_bits() >> 2;
        Self {
            modes: params.modes as u32,
            learns: rate > 0.0,
            shadow,
            rate,
            rate_weight,
            prune,
            single_rate: if single < 1.0 { single } else { 1.0 },
            dither: (f32::from(turn) + 0.5) / 64.0 - 0.5,
            inverse_gain,
            saturated: if gain > 1.0 { saturated } else { f32::INFINITY },
            match_threshold: params.match_threshold,
            background_threshold: params.background_threshold,
            first_threshold: if params.background_ratio > 0.0 {
                params.background_threshold
            } else {
                0.0
            },
            background_weight: params.background_ratio * ONE,
            variance_init: params.variance_init,
            variance_min: params.variance_min,
            variance_max: params.variance_max,
            shadow_ratio: params.shadow_ratio,
            shadow_max_ratio: params.shadow_max_ratio,
            shadow_threshold: params.shadow_threshold,
        }
    }
}
