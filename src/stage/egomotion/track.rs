//! Following a point from one frame into another: pyramidal Lucas-Kanade with a gain and an
//! offset for each window.
//!
//! Sums over a window are exact integers, so their order is free; the few operations that make
//! a step of them are `f32` in the order written here.
use super::pyramid::Level;

/// Window, px: columns `x - W/2 .. x + W/2`, rows likewise.
pub(super) const WIDTH: usize = 8;
/// See [`WIDTH`].
pub(super) const HEIGHT: usize = 8;
const AREA: usize = WIDTH * HEIGHT;
/// Parts of a pixel that displacements are counted in.
pub(super) const UNIT: i32 = 128;
/// Parts of a grey value that interpolated pixels have.
const GREY: i32 = 16;
/// Steps on each level at most.
const STEPS: u32 = 6;
/// Smaller steps are the last, in [`UNIT`]s.
const CLOSE: i32 = 2;
/// Longest step.
const LONGEST: f32 = (4 * UNIT) as f32;
/// A gain beyond this, or below its inverse, is not believed.
const MAX_GAIN: f32 = 2.0;
/// Least texture that a window needs to be aligned, as [`super::corner::score`] of its sums.
const LEAST_TEXTURE: f32 = 64.0;

/// A window of one frame, to be found in another.
struct Template {
    grey: [i16; AREA],
    gx: [i16; AREA],
    gy: [i16; AREA],
    xx: i32,
    xy: i32,
    yy: i32,
    /// Sums of the gradients and of grey.
    x: i32,
    y: i32,
    sum: i32,
    /// `AREA` times the sum of squares minus the square of the sum.
    variance: i64,
    /// Likewise, gradient with grey.
    cx: i64,
    cy: i64,
}

impl Template {
    /// Around a pixel inside the level.
    #[inline]
    fn new(level: &Level, x: i32, y: i32) -> Self {
        let (data, origin) = level.pixels();
        let stride = level.stride;
        let corner =
            origin + y as usize * stride + x as usize - (HEIGHT / 2 + 1) * stride - (WIDTH / 2 + 1);
        let mut t = Self {
            grey: [0; AREA],
            gx: [0; AREA],
            gy: [0; AREA],
            xx: 0,
            xy: 0,
            yy: 0,
            x: 0,
            y: 0,
            sum: 0,
            variance: 0,
            cx: 0,
            cy: 0,
        };
        for row in 0..HEIGHT {
            let line = |n: usize| -> &[u8; WIDTH + 2] {
                data[corner + (row + n) * stride..]
                    .first_chunk()
                    .unwrap_or(&[0; WIDTH + 2])
            };
            let (above, here, below) = (line(0), line(1), line(2));
            for i in 0..WIDTH {
                let at = row * WIDTH + i;
                t.grey[at] = i16::from(here[i + 1]);
                t.gx[at] = i16::from(here[i + 2]) - i16::from(here[i]);
                t.gy[at] = i16::from(below[i + 1]) - i16::from(above[i + 1]);
            }
        }
        let (mut squares, mut gx, mut gy) = (0, 0, 0);
        for i in 0..AREA {
            let (x, y, grey) = (t.gx[i].into(), t.gy[i].into(), i32::from(t.grey[i]));
            let (x, y): (i32, i32) = (x, y);
            t.xx += x * x;
            t.xy += x * y;
            t.yy += y * y;
            t.x += x;
            t.y += y;
            t.sum += grey;
            squares += grey * grey;
            gx += x * grey;
            gy += y * grey;
        }
        let n = AREA as i64;
        let of = |products: i32, a: i32| n * i64::from(products) - i64::from(a) * i64::from(t.sum);
        (t.variance, t.cx, t.cy) = (of(squares, t.sum), of(gx, t.x), of(gy, t.y));
        t
    }

    /// Sums with the window of `level` at a place in [`UNIT`]s.
    #[inline]
    fn compare(&self, level: &Level, x: i32, y: i32) -> Sums {
        let (data, origin) = level.pixels();
        let stride = level.stride;
        let (px, py) = ((x / UNIT) as usize, (y / UNIT) as usize);
        let (a, b) = ((x % UNIT) as i16, (y % UNIT) as i16);
        let corner = origin + py * stride + px - HEIGHT / 2 * stride - WIDTH / 2;
        // Between two pixels of a row, in 1/16 grey values.
        let line = |row: usize| -> [i16; WIDTH] {
            let line: &[u8; WIDTH + 1] = data[corner + row * stride..]
                .first_chunk()
                .unwrap_or(&[0; WIDTH + 1]);
            let mut out = [0; WIDTH];
            for i in 0..WIDTH {
                let (l, r) = (i16::from(line[i]), i16::from(line[i + 1]));
                out[i] = ((UNIT as i16 - a) * l + a * r + 4) >> 3;
            }
            out
        };
        let mut s = Sums::default();
        let mut above = line(0);
        for row in 0..HEIGHT {
            let below = line(row + 1);
            for i in 0..WIDTH {
                let at = row * WIDTH + i;
                let j = (i32::from(UNIT as i16 - b) * i32::from(above[i])
                    + i32::from(b) * i32::from(below[i])
                    + UNIT / 2)
                    >> 7;
                let j = j as i16;
                let product = |v: i16| i32::from(v) * i32::from(j);
                s.sum += i32::from(j);
                s.squares += product(j) as u32;
                s.gx += product(self.gx[at]);
                s.gy += product(self.gy[at]);
                s.grey += product(self.grey[at]);
            }
            above = below;
        }
        s
    }
}

#[derive(Default)]
struct Sums {
    sum: i32,
    squares: u32,
    gx: i32,
    gy: i32,
    grey: i32,
}

impl Sums {
    /// As [`Template::variance`], of the other window, in 1/16 grey values.
    #[inline]
    fn variance(&self) -> i64 {
        AREA as i64 * i64::from(self.squares) - i64::from(self.sum) * i64::from(self.sum)
    }
}

/// A displacement in [`UNIT`]s.
pub(super) type Shift = [i32; 2];

/// Aligns on one level. `None`: not there (too little texture, or outside).
#[inline]
fn align(template: &Template, to: &Level, x: i32, y: i32, mut shift: Shift) -> Option<Shift> {
    let t = template;
    let (xx, xy, yy) = (t.xx as f32, t.xy as f32, t.yy as f32);
    let determinant = xx * yy - xy * xy;
    if determinant < LEAST_TEXTURE * (xx + yy + 1.0) {
        return None;
    }
    for _ in 0..STEPS {
        let [px, py] = place(to, x, y, shift)?;
        let s = t.compare(to, px, py);
        let covariance = |products: i32, a: i32| {
            (AREA as i64 * i64::from(products) - i64::from(a) * i64::from(s.sum)) as f32
        };
        let (jx, jy) = (covariance(s.gx, t.x), covariance(s.gy, t.y));
        let gain = gain(t.variance, s.variance());
        let one = GREY as f32;
        let bx = one * (t.cx as f32) - gain * jx;
        let by = one * (t.cy as f32) - gain * jy;
        // Gradients are differences over two pixels.
        let scale = (2 * UNIT) as f32 / (GREY as f32 * AREA as f32);
        let step = [
            round((yy * bx - xy * by) / determinant * scale),
            round((xx * by - xy * bx) / determinant * scale),
        ];
        shift = [shift[0] + step[0], shift[1] + step[1]];
        if step[0].abs() <= CLOSE && step[1].abs() <= CLOSE {
            break;
        }
    }
    Some(shift)
}

/// What the other window's contrast is to be multiplied with.
#[inline]
fn gain(own: i64, other: i64) -> f32 {
    let (own, other) = (own as f32 * (GREY * GREY) as f32, other as f32);
    if own >= MAX_GAIN * MAX_GAIN * other {
        MAX_GAIN
    } else if other >= MAX_GAIN * MAX_GAIN * own {
        1.0 / MAX_GAIN
    } else {
        (own / other).sqrt()
    }
}

/// To the nearest whole number, halves away from 0.
#[inline]
fn round(v: f32) -> i32 {
    if v >= LONGEST {
        LONGEST as i32
    } else if v <= -LONGEST {
        -(LONGEST as i32)
    } else if v >= 0.0 {
        (v + 0.5) as i32
    } else {
        -((0.5 - v) as i32)
    }
}

/// The shifted pixel in [`UNIT`]s, if it lies in the level.
#[inline]
fn place(level: &Level, x: i32, y: i32, shift: Shift) -> Option<[i32; 2]> {
    let (px, py) = (x * UNIT + shift[0], y * UNIT + shift[1]);
    let last = |side: usize| (side as i32 - 1) * UNIT;
    let inside =
        px >= 0 && py >= 0 && px <= last(level.size.width) && py <= last(level.size.height);
    inside.then_some([px, py])
}

/// Where the window around the pixel `(x, y)` of `from` went in `to`, if it is found there with a
/// correlation of at least `correlation`, and back from there at most `max_return` away.
pub(super) fn follow(
    from: &[Level],
    to: &[Level],
    x: i32,
    y: i32,
    correlation: f32,
    max_return: i32,
) -> Option<Shift> {
    let mut shift = [0, 0];
    for l in (1..from.len()).rev() {
        let (x, y) = (x >> l, y >> l);
        let (x, y) = (
            x.min(from[l].size.width as i32 - 1),
            y.min(from[l].size.height as i32 - 1),
        );
        let template = Template::new(&from[l], x, y);
        shift = align(&template, &to[l], x, y, shift).unwrap_or(shift);
        shift = [2 * shift[0], 2 * shift[1]];
    }
    let template = Template::new(&from[0], x, y);
    let shift = align(&template, &to[0], x, y, shift)?;
    let [px, py] = place(&to[0], x, y, shift)?;
    let s = template.compare(&to[0], px, py);
    let covariance =
        (AREA as i64 * i64::from(s.grey) - i64::from(template.sum) * i64::from(s.sum)) as f32;
    let limit = (correlation * correlation) * (template.variance as f32 * s.variance() as f32);
    if covariance <= 0.0 || covariance * covariance < limit {
        return None;
    }
    let (bx, by) = ((px + UNIT / 2) / UNIT, (py + UNIT / 2) / UNIT);
    let back = align(
        &Template::new(&to[0], bx, by),
        &from[0],
        bx,
        by,
        [-shift[0], -shift[1]],
    )?;
    let near = |i: usize| (back[i] + shift[i]).abs() <= max_return;
    (near(0) && near(1)).then_some(shift)
}
