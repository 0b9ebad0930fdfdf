//! The camera's gain since the model was learnt, from the ratios of pixels to their heaviest
//! modes.

/// Bins of a ratio, 1/256 each; the last takes all that is larger.
pub const BINS: usize = 1024;
/// Samples below which nothing is estimated.
pub const MIN_SAMPLES: u32 = 64;
/// Most pixels that are sampled for the gain, about.
pub const SAMPLES: usize = 4096;
/// Bins on both sides of the median whose pixels agree with it.
const REACH: usize = 3;
/// Least weight of a mode that is compared with, in 1/65535.
pub const MIN_WEIGHT: u16 = 39321;
/// Least mean that is compared with, in 1/256 grey level; noise rules below.
pub const MIN_LEVEL: u32 = 16 * 256;
/// From here on a pixel is saturated, in 1/256 grey level.
pub const SATURATED: u16 = 250 * 256;
/// Changes of the gain below this share are left to the model.
const DEAD_BAND: f32 = 0.005;

/// From one sampled column or row to the next, for about so many samples.
pub fn step(area: usize, samples: usize) -> usize {
    let mut step = 1;
    while step * step * samples < area {
        step += 1;
    }
    step
}

/// Ratios of the samples: how many, and the sums of pixel and mean in 1/16 level.
pub struct Ratios {
    bins: Vec<[u32; 3]>,
}

impl Ratios {
    pub fn new() -> Self {
        Self {
            bins: vec![[0; 3]; BINS],
        }
    }

    pub fn clear(&mut self) {
        self.bins.fill([0; 3]);
    }

    /// `pixel` and `mean` are sums over the channels, in 1/256 level; `mean` is not 0.
    pub fn add(&mut self, pixel: u32, mean: u32) {
        let bin = ((pixel * 256 + mean / 2) / mean).min(BINS as u32 - 1);
        let [count, pixels, means] = &mut self.bins[bin as usize];
        *count += 1;
        *pixels += (pixel + 8) >> 4;
        *means += (mean + 8) >> 4;
    }

    /// The gain: that of the samples around the median where a fifth of all agree, and `before`
    /// where not, or where it is as good.
    pub fn gain(&self, before: f32) -> f32 {
        let total: u32 = self.bins.iter().map(|b| b[0]).sum();
        if total < MIN_SAMPLES {
            return before;
        }
        let mut below = 0;
        let median = self.bins.iter().position(|b| {
            below += b[0];
            2 * below >= total
        });
        let median = median.unwrap_or(0);
        if median + REACH >= BINS - 1 {
            return before;
        }
        let near = &self.bins[median.saturating_sub(REACH)..=median + REACH];
        let sum = |k: usize| near.iter().map(|b| u64::from(b[k])).sum::<u64>();
        let (count, pixels, means) = (sum(0), sum(1), sum(2));
        if 5 * count < u64::from(total) || pixels == 0 || means == 0 {
            return before;
        }
        let gain = pixels as f32 / means as f32;
        let change = gain - before;
        let change = if change < 0.0 { -change } else { change };
        if change > DEAD_BAND * before {
            gain
        } else {
            before
        }
    }
}
