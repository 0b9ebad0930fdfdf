//! From rays to pixels: one ray through each centre, more where the picture has edges, then
//! the sensor.
use rayon::prelude::*;

use super::labels::Label;
use super::light::Sky;
use super::maths::{Light, mix32};
use super::scene::{Scene, Tiles, View, What};
use crate::frame::{Image, Rgb};

/// What one camera sees at the pixels' centres, with its light averaged over each pixel.
pub(crate) struct Field {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<Pixel>,
}

/// One pixel of a [`Field`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pixel {
    pub light: Light,
    pub depth: f64,
    pub what: What,
    pub label: Label,
}

const SPREAD: [(f64, f64); 4] = [
    (-0.125, -0.375),
    (0.375, -0.125),
    (-0.375, 0.125),
    (0.125, 0.375),
];

/// Casts the rays of an image.
pub(crate) fn field(sky: &Sky, scene: &Scene, view: &View, tiles: &Tiles) -> Field {
    let (width, height) = (view.width, view.height);
    let cast = |x: f64, y: f64| {
        let (d, hit) = scene.trace(view, tiles, x, y);
        let (light, label) = sky.shade(scene, view, d, hit);
        Pixel {
            light,
            depth: hit.depth,
            what: hit.what,
            label,
        }
    };
    let centres: Vec<Pixel> = (0..width * height)
        .into_par_iter()
        .with_min_len(width)
        .map(|i| cast((i % width) as f64, (i / width) as f64))
        .collect();
    let pixels = (0..width * height)
        .into_par_iter()
        .with_min_len(width)
        .map(|i| {
            let (x, y) = (i % width, i / width);
            let mut pixel = centres[i];
            let around = [
                (x > 0).then(|| i - 1),
                (x + 1 < width).then(|| i + 1),
                (y > 0).then(|| i - width),
                (y + 1 < height).then(|| i + width),
            ];
            if around.iter().flatten().any(|&j| edge(&pixel, &centres[j])) {
                let mut sum = Light::default();
                for (dx, dy) in SPREAD {
                    sum = sum + cast(x as f64 + dx, y as f64 + dy).light;
                }
                pixel.light = sum * 0.25;
            }
            pixel
        })
        .collect();
    Field {
        width,
        height,
        pixels,
    }
}

fn edge(a: &Pixel, b: &Pixel) -> bool {
    let other = match (a.what, b.what) {
        (What::Part(i, _), What::Part(j, _)) => i != j,
        (x, y) => x != y,
    };
    let (p, q) = (a.light.luma(), b.light.luma());
    other || (p - q).abs() > 0.04 + 0.16 * (p + q)
}

/// Lens, exposure, tone curve and noise of the sensor; `salt` is the frame's and camera's own.
pub(crate) fn expose(field: &Field, gain: f32, salt: u32) -> Rgb {
    let (w, h) = (field.width, field.height);
    let (hx, hy) = ((w as f32) * 0.5, (h as f32) * 0.5);
    let corner = 1.0 / (hx * hx + hy * hy);
    let mut out = Image::filled(w, h, [0u8; 3]);
    out.data_mut()
        .par_chunks_mut(w)
        .enumerate()
        .for_each(|(y, row)| {
            for (x, to) in row.iter_mut().enumerate() {
                let (dx, dy) = (x as f32 - hx, y as f32 - hy);
                let lens = gain * (1.0 - 0.24 * (dx * dx + dy * dy) * corner);
                let light = field.pixels[y * w + x].light;
                let mut h = mix32(salt ^ mix32((y * w + x) as u32));
                for (c, l) in to.iter_mut().zip(light.0) {
                    h = mix32(h.wrapping_add(0x9E37_79B9));
                    *c = develop(l * lens, h);
                }
            }
        });
    out
}

/// Tone curve and display gamma of 2, which also makes shot noise even.
fn develop(l: f32, h: u32) -> u8 {
    let l = l.max(0.0);
    let y = l * (1.0 + l * 0.22) / (1.0 + l);
    // Four bytes make a bell: mean 510, standard deviation 147.8.
    let bytes = h.to_le_bytes();
    let sum: i32 = bytes.iter().map(|&b| i32::from(b)).sum();
    let noise = (sum - 510) as f32 * (0.95 / 147.8);
    let value = y.sqrt() * 255.0 + noise + 0.5;
    value.clamp(0.0, 255.0) as u8
}
