//! Responses that are sums over the corners of one or two regions, for images of one size.
use super::{Planes, feature::LARGEST};

/// A region: where its corners lie, and what its sum becomes.
#[derive(Clone, Copy, Debug)]
struct Area {
    /// From the pixel's entry of the first sum table to those at the bottom right, top right,
    /// bottom left and top left; modulo 2^32.
    at: [u32; 4],
    /// Pixels in it.
    n: u16,
    /// What is in each sample beyond its value.
    bias: u16,
}

/// A question about one region or the difference of two, wherever they lie inside the image.
#[derive(Clone, Copy, Debug)]
pub struct Corners {
    one: Area,
    two: Option<Area>,
    means: bool,
    /// The pixels for which all corners lie inside: first and last column, first and last row.
    reach: [i16; 4],
    /// Whether all other pixels have no answer.
    alone: bool,
}

/// A region as a question states it: offsets and half sizes, px, and the channel.
pub type Stated = ([i32; 2], [i32; 2], usize);

impl Corners {
    /// Of the sums, or with `means` the means in 1/256, of one region, less those of a second.
    /// `None` where distances do not fit into 32 bits, or no pixel has all corners inside.
    pub fn new(planes: &Planes, means: bool, one: Stated, two: Option<Stated>) -> Option<Self> {
        let size = planes.size();
        let (width, height) = (size.width as i64, size.height as i64);
        let mut reach = [0, width - 1, 0, height - 1];
        let mut area = |([x, y], [w, h], channel): Stated| -> Option<Area> {
            let (x, y, w, h) = (i64::from(x), i64::from(y), i64::from(w), i64::from(h));
            // l >= 0, r < width, u >= 0, d < height, as regions have it.
            reach[0] = reach[0].max(w - x);
            reach[1] = reach[1].min(width - 1 - x - w);
            reach[2] = reach[2].max(h - y);
            reach[3] = reach[3].min(height - 1 - y - h);
            let (stride, first) = planes.layout(channel)?;
            let to = |dx: i64, dy: i64| (first as i64 + dy * stride as i64 + dx) as u32;
            let (left, right, top, bottom) = (x - w + 1, x + w + 1, y - h + 1, y + h + 1);
            Some(Area {
                at: [
                    to(right, bottom),
                    to(right, top),
                    to(left, bottom),
                    to(left, top),
                ],
                n: u16::try_from(4 * w * h).ok()?,
                bias: planes.bias(channel) as u16,
            })
        };
        let (one, two) = (area(one)?, two.map(&mut area));
        let two = match two {
            Some(two) => Some(two?),
            None => None,
        };
        if reach[0] > reach[1] || reach[2] > reach[3] {
            return None;
        }
        let reach = reach.map(|v| i16::try_from(v).ok());
        let [Some(a), Some(b), Some(c), Some(d)] = reach else {
            return None;
        };
        Some(Self {
            one,
            two,
            means,
            reach: [a, b, c, d],
            alone: false,
        })
    }

    /// Says that a pixel for which not all corners lie inside has no answer
    /// ([`INVALID`](super::feature::INVALID)), so that it need not be asked.
    pub fn or_invalid(self) -> Self {
        Self {
            alone: true,
            ..self
        }
    }

    /// Whether [`Corners::or_invalid`] was said.
    #[inline(always)]
    pub fn are_all(&self) -> bool {
        self.alone
    }

    /// The pixels for which all corners lie inside: first and last column, first and last row.
    #[inline(always)]
    pub fn reach(&self) -> [i32; 4] {
        self.reach.map(i32::from)
    }

    /// Whether all corners lie inside for the pixels of some columns and rows, first and last.
    #[inline(always)]
    pub fn hold(&self, [x0, x1, y0, y1]: [i32; 4]) -> bool {
        let [left, right, top, bottom] = self.reach.map(i32::from);
        left <= x0 && x1 <= right && top <= y0 && y1 <= bottom
    }

    /// What the sums are compared with, for a threshold.
    #[inline(always)]
    pub fn limit(&self, tau: i32) -> i64 {
        let bias = |area: &Area| {
            let each = i64::from(area.bias);
            each * if self.means { 256 } else { area.n.into() }
        };
        let bias = bias(&self.one) - self.two.as_ref().map_or(0, bias);
        // The largest response goes left at the largest threshold, whatever it would be without
        // the clamp of sums.
        if tau == LARGEST && !self.means {
            i64::MAX
        } else {
            i64::from(tau) + bias
        }
    }

    /// Runs `f` with whether the response at a pixel, given by its entry, is above a limit.
    #[inline(always)]
    pub fn judged<R>(&self, planes: &Planes, limit: i64, f: impl Judged<R>) -> R {
        let sum = |area: &Area, entry: u32| planes.corner_sum(&area.at, entry);
        let (one, two) = (&self.one, self.two.as_ref());
        let two = two.map(|two| (two, |entry| sum(two, entry)));
        self.compared(limit, |entry| sum(one, entry), two, f)
    }

    /// The same of many pixels whose entries are `n` at most from the `first` one: what they
    /// read is found once. All corners of both must lie inside.
    #[inline(always)]
    pub fn judged_among<R>(
        &self,
        planes: &Planes,
        limit: i64,
        (first, n): (u32, usize),
        f: impl Judged<R>,
    ) -> R {
        let sum = |area: &Area| {
            let [a, b, c, d] = planes.corner_tables(&area.at, first, n);
            move |entry: u32| {
                let i = entry.wrapping_sub(first) as usize;
                // Known to be inside; said once for all four.
                if i >= n {
                    return 0;
                }
                a[i].wrapping_sub(b[i])
                    .wrapping_sub(c[i])
                    .wrapping_add(d[i])
            }
        };
        let two = self.two.as_ref().map(|two| (two, sum(two)));
        self.compared(limit, sum(&self.one), two, f)
    }

    #[inline(always)]
    fn compared<R>(
        &self,
        limit: i64,
        one: impl Fn(u32) -> u32,
        two: Option<(&Area, impl Fn(u32) -> u32)>,
        f: impl Judged<R>,
    ) -> R {
        let mean =
            |sum: u32, area: &Area| i64::from(super::feature::region::mean(sum, area.n.into()));
        let first = &self.one;
        match (self.means, two) {
            (false, Some((_, two))) => {
                f.with(|entry| i64::from(one(entry)) - i64::from(two(entry)) > limit)
            }
            (false, None) => f.with(|entry| i64::from(one(entry)) > limit),
            (true, Some((second, two))) => {
                f.with(|entry| mean(one(entry), first) - mean(two(entry), second) > limit)
            }
            (true, None) => f.with(|entry| mean(one(entry), first) > limit),
        }
    }
}

/// What is done with a judgement: a closure that takes a closure.
pub trait Judged<R> {
    /// Does it.
    fn with(self, above: impl Fn(u32) -> bool) -> R;
}
