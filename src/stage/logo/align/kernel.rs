//! The fit's inner loops: the frame under a template's samples, and the sums that a step needs.
//!
//! Samples lie in blocks of [`LANES`]. A sum has a lane for each place in a block, in `f32` over
//! [`CHUNK`] blocks; the lanes' sums are added up in `f64`, in halves, chunk after chunk. That is
//! the order on every processor, however many lanes its registers have.

/// Samples of a block.
pub const LANES: usize = 8;

/// Parameters of a homography.
pub const N: usize = 8;

/// Blocks whose sums are kept in `f32`.
const CHUNK: usize = 32;

/// Grey values are read relative to this one: sums of squares keep more of what matters.
const MIDDLE: f32 = 128.0;

/// From here on `f32` has whole numbers alone.
const WHOLE: f32 = 8_388_608.0;

/// Pixels of a template's picture; each field has one value for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Place in the logo's plane.
    pub x: [f32; LANES],
    pub y: [f32; LANES],
    /// Grey, zero mean and unit length over all samples.
    pub value: [f32; LANES],
    /// 1, or 0 behind the last.
    pub weight: [f32; LANES],
    /// How the value changes with each parameter, without what gain and offset do.
    pub descent: [[f32; LANES]; N],
}

/// A picture and how the plane lies in it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub data: &'a [u8],
    pub stride: usize,
    /// From the plane to the picture's pixels.
    pub h: [f32; 9],
    /// Where it may be read, px: from, below.
    pub x: [f32; 2],
    pub y: [f32; 2],
}

/// Sums over the samples in view, of frame (i, relative to a middle grey) and template (t).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    pub n: f64,
    pub i: f64,
    pub ii: f64,
    pub it: f64,
    /// Of frame and each parameter's descent.
    pub descent: [f64; N],
}

/// Sums of the template's own over the samples in view.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    pub n: f64,
    pub t: f64,
    pub tt: f64,
    /// Of each parameter's descent, and of that and the template.
    pub d: [f64; N],
    pub td: [f64; N],
}

type Lanes = [f32; LANES];

#[inline(always)]
fn add(to: &mut Lanes, a: &Lanes, b: &Lanes) {
    for k in 0..LANES {
        to[k] += a[k] * b[k];
    }
}

/// The sum of all lanes, in halves.
#[inline(always)]
fn fold(v: &Lanes) -> f64 {
    let [a, b, c, d, e, f, g, h] = v.map(f64::from);
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Below `v` of 0 to 2^22.
#[inline(always)]
fn floor(v: f32) -> f32 {
    let r = (v + WHOLE) - WHOLE;
    if r > v { r - 1.0 } else { r }
}

/// A whole number of 0 to 2^22.
#[inline(always)]
fn whole(v: f32) -> u32 {
    (v + WHOLE).to_bits() & 0x007f_ffff
}

/// Reads the frame at all samples, bilinearly. `weights` becomes 1 for each that is in view,
/// else 0.
#[inline(always)]
pub fn read(view: &View<'_>, blocks: &[Block], weights: &mut [Lanes], sums: &mut Sums) {
    let View {
        data, stride, h, ..
    } = *view;
    let ([x0, x1], [y0, y1]) = (view.x, view.y);
    *sums = Sums::default();
    for (blocks, weights) in blocks.chunks(CHUNK).zip(weights.chunks_mut(CHUNK)) {
        let (mut n, mut i, mut ii, mut it) =
            ([0.0; LANES], [0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let mut descent = [[0.0; LANES]; N];
        for (b, weight) in blocks.iter().zip(weights) {
            let (mut fx, mut fy, mut m) = ([0.0f32; LANES], [0.0f32; LANES], [0.0f32; LANES]);
            let mut at = [0u32; LANES];
            for k in 0..LANES {
                let w = 1.0 / (h[6] * b.x[k] + h[7] * b.y[k] + h[8]);
                let x = (h[0] * b.x[k] + h[1] * b.y[k] + h[2]) * w;
                let y = (h[3] * b.x[k] + h[4] * b.y[k] + h[5]) * w;
                let inside = (x >= x0) & (x < x1) & (y >= y0) & (y < y1);
                m[k] = if inside { b.weight[k] } else { 0.0 };
                let x = if inside { x } else { x0 };
                let y = if inside { y } else { y0 };
                let (column, row) = (floor(x), floor(y));
                fx[k] = x - column;
                fy[k] = y - row;
                at[k] = whole(row) * stride as u32 + whole(column);
            }
            // Two pixels a row, the left one in the lower half.
            let (mut top, mut low) = ([0i32; LANES], [0i32; LANES]);
            for k in 0..LANES {
                let at = at[k] as usize;
                if let Some(near) = data.get(at..at + stride + 2) {
                    top[k] = i32::from(u16::from_le_bytes([near[0], near[1]]));
                    low[k] = i32::from(u16::from_le_bytes([near[stride], near[stride + 1]]));
                }
            }
            let mut v = [0.0f32; LANES];
            for k in 0..LANES {
                let (a, b) = ((top[k] & 0xff) as f32, (top[k] >> 8) as f32);
                let (c, d) = ((low[k] & 0xff) as f32, (low[k] >> 8) as f32);
                let above = a + fx[k] * (b - a);
                let below = c + fx[k] * (d - c);
                v[k] = m[k] * (above + fy[k] * (below - above) - MIDDLE);
            }
            for k in 0..LANES {
                n[k] += m[k];
                i[k] += v[k];
            }
            add(&mut ii, &v, &v);
            add(&mut it, &v, &b.value);
            for (to, d) in descent.iter_mut().zip(&b.descent) {
                add(to, &v, d);
            }
            *weight = m;
        }
        sums.n += fold(&n);
        sums.i += fold(&i);
        sums.ii += fold(&ii);
        sums.it += fold(&it);
        for (to, lanes) in sums.descent.iter_mut().zip(&descent) {
            *to += fold(lanes);
        }
    }
}

/// The template's own sums over the samples in view.
#[inline(always)]
pub fn own(blocks: &[Block], weights: &[Lanes], own: &mut Own) {
    *own = Own::default();
    for (blocks, weights) in blocks.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
        let (mut n, mut t, mut tt) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let (mut d, mut td) = ([[0.0; LANES]; N], [[0.0; LANES]; N]);
        for (b, m) in blocks.iter().zip(weights) {
            let mut value = [0.0; LANES];
            for k in 0..LANES {
                value[k] = m[k] * b.value[k];
                n[k] += m[k];
                t[k] += value[k];
            }
            add(&mut tt, &value, &b.value);
            for r in 0..N {
                add(&mut d[r], m, &b.descent[r]);
                add(&mut td[r], &value, &b.descent[r]);
            }
        }
        own.n += fold(&n);
        own.t += fold(&t);
        own.tt += fold(&tt);
        for r in 0..N {
            own.d[r] += fold(&d[r]);
            own.td[r] += fold(&td[r]);
        }
    }
}

/// The normal equations of the samples in view, lower half.
#[inline(always)]
pub fn normal(blocks: &[Block], weights: &[Lanes], normal: &mut [[f64; N]; N]) {
    *normal = [[0.0; N]; N];
    for (blocks, weights) in blocks.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
        for (r, normal) in normal.iter_mut().enumerate() {
            let mut row = [[0.0; LANES]; N];
            for (b, m) in blocks.iter().zip(weights) {
                let mut seen = [0.0; LANES];
                for k in 0..LANES {
                    seen[k] = m[k] * b.descent[r][k];
                }
                for (to, d) in row.iter_mut().zip(&b.descent) {
                    add(to, &seen, d);
                }
            }
            for (to, lanes) in normal.iter_mut().zip(&row).take(r + 1) {
                *to += fold(lanes);
            }
        }
    }
}
