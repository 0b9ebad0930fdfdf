//! A logo's picture: its grey values, which of them count, and both at other sizes.
use std::{io::Cursor, path::Path};

use crate::{
    files,
    frame::{Image, Size},
    picture::{self, MAX_FILE, Picture, PictureError, grey_of},
};

/// A standard deviation, grey levels, from which what is opaque shows something by itself.
const CONTRAST: f64 = 10.0;

/// A picture on a plain ground.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cutout {
    /// Grey, transparent parts blended with the ground.
    pub grey: Image<u8>,
    /// 255 where the picture counts, else 0.
    pub mask: Image<u8>,
    /// What lies around and behind the picture; `None` for one without transparency, whose
    /// border goes on.
    pub ground: Option<u8>,
}

impl Cutout {
    /// Reads a picture file.
    pub fn read(path: &Path) -> Result<Self, PictureError> {
        // This refuses whatever is damaged; transparency is not part of what it gives.
        let picture = picture::read(path)?;
        let bytes = files::read(path, MAX_FILE)?;
        let grey = match picture {
            Picture::Grey8(image) => image,
            Picture::Grey16(image) => Image::from_fn(image.width(), image.height(), |x, y| {
                (image.get(x, y) >> 8) as u8
            }),
            Picture::Rgb8(image) => Image::from_fn(image.width(), image.height(), |x, y| {
                grey_of(image.get(x, y))
            }),
        };
        let alpha = alpha_of(&bytes, grey.size())?;
        Ok(Self::new(grey, alpha))
    }

    /// Where `alpha` is not full, a ground takes part: white behind what is dark, black behind
    /// what is light. What is transparent (alpha below half) does not count, unless the rest is
    /// of one grey: then the ground is part of the picture.
    pub fn new(grey: Image<u8>, alpha: Option<Image<u8>>) -> Self {
        let Size { width, height } = grey.size();
        let Some(alpha) = alpha.filter(|a| a.pixels().any(|v| *v < 255)) else {
            return Self {
                mask: Image::filled(width, height, 255),
                grey,
                ground: None,
            };
        };
        let (mut n, mut sum, mut squares) = (0.0f64, 0.0f64, 0.0f64);
        for (g, _) in grey
            .pixels()
            .zip(alpha.pixels())
            .filter(|(_, a)| **a >= 128)
        {
            let g = f64::from(*g);
            n += 1.0;
            sum += g;
            squares += g * g;
        }
        let mean = if n > 0.0 { sum / n } else { 0.0 };
        let ground: u8 = if mean < 128.0 { 255 } else { 0 };
        let plain = n == 0.0 || squares / n - mean * mean < CONTRAST * CONTRAST;
        let blend = |x: usize, y: usize| {
            let (g, a) = (u32::from(grey.get(x, y)), u32::from(alpha.get(x, y)));
            ((g * a + u32::from(ground) * (255 - a) + 127) / 255) as u8
        };
        Self {
            grey: Image::from_fn(width, height, blend),
            mask: Image::from_fn(width, height, |x, y| {
                if plain || alpha.get(x, y) >= 128 {
                    255
                } else {
                    0
                }
            }),
            ground: Some(ground),
        }
    }

    /// Width by height.
    pub fn aspect(&self) -> f64 {
        self.grey.width() as f64 / self.grey.height() as f64
    }

    /// The picture and what counts of it at another size.
    pub fn resized(&self, size: Size) -> (Image<u8>, Image<u8>) {
        let grey = resize(&self.grey, size);
        let mask = resize(&self.mask, size);
        let mask = Image::from_fn(size.width, size.height, |x, y| {
            u8::from(mask.get(x, y) >= 128)
        });
        (grey, mask)
    }

    /// The picture at another size with `margin` px of its ground, or of its border, around.
    pub fn on_canvas(&self, size: Size, margin: usize) -> Image<u8> {
        let grey = resize(&self.grey, size);
        let (w, h) = (size.width, size.height);
        Image::from_fn(w + 2 * margin, h + 2 * margin, |x, y| {
            let inside = (margin..margin + w).contains(&x) && (margin..margin + h).contains(&y);
            match self.ground {
                Some(ground) if !inside => ground,
                _ => grey.get(
                    x.saturating_sub(margin).min(w - 1),
                    y.saturating_sub(margin).min(h - 1),
                ),
            }
        })
    }
}

/// The transparency of a PNG; nothing for files of other kinds and for those without any.
fn alpha_of(bytes: &[u8], size: Size) -> Result<Option<Image<u8>>, PictureError> {
    if !bytes.starts_with(b"\x89PNG") {
        return Ok(None);
    }
    let damaged = |e: png::DecodingError| PictureError::Format(format!("damaged PNG: {e}"));
    let limits = png::Limits {
        bytes: 64 * size.width + 2 * bytes.len() + (1 << 20),
    };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::ALPHA | png::Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (colour, _) = reader.output_color_type();
    let samples = colour.samples();
    if !matches!(samples, 2 | 4) {
        return Ok(None);
    }
    // The size is one that was read already, so it is one that memory may be taken for.
    let mut pixels = vec![0; samples * size.area()];
    if reader.output_buffer_size() != Some(pixels.len()) {
        return Err(PictureError::Format("damaged PNG: size changes".into()));
    }
    reader.next_frame(&mut pixels).map_err(damaged)?;
    let alpha = pixels
        .chunks_exact(samples)
        .map(|p| p[samples - 1])
        .collect();
    Ok(Image::from_vec(size.width, size.height, alpha))
}

/// Taps of one line: where they begin and their weights, which sum to 1. A triangle of half
/// width `max(1, shrinking)`: bilinear where the picture grows, a smooth mean where it shrinks.
fn taps(from: usize, to: usize) -> Vec<(usize, Vec<f64>)> {
    let step = from as f64 / to as f64;
    let reach = if step > 1.0 { step } else { 1.0 };
    (0..to)
        .map(|i| {
            let middle = (i as f64 + 0.5) * step - 0.5;
            let first = (middle - reach).max(0.0) as usize;
            let last = ((middle + reach) as usize + 1).min(from - 1);
            let mut weights: Vec<f64> = (first..=last)
                .map(|k| (1.0 - (k as f64 - middle).abs() / reach).max(0.0))
                .collect();
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= sum);
            (first, weights)
        })
        .collect()
}

/// A picture at another size.
pub(crate) fn resize(image: &Image<u8>, size: Size) -> Image<u8> {
    if image.size() == size {
        return image.clone();
    }
    let (columns, rows) = (
        taps(image.width(), size.width),
        taps(image.height(), size.height),
    );
    let wide: Vec<Vec<f64>> = image
        .rows()
        .map(|row| {
            columns
                .iter()
                .map(|(first, weights)| {
                    let part = &row[*first..][..weights.len()];
                    part.iter()
                        .zip(weights)
                        .map(|(v, w)| f64::from(*v) * w)
                        .sum()
                })
                .collect()
        })
        .collect();
    Image::from_fn(size.width, size.height, |x, y| {
        let (first, weights) = &rows[y];
        let sum: f64 = weights
            .iter()
            .enumerate()
            .map(|(k, w)| wide[first + k][x] * w)
            .sum();
        (sum + 0.5).clamp(0.0, 255.0) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_what_is_flat_and_where_things_are() {
        let flat = Image::filled(37, 11, 77);
        for (w, h) in [(1, 1), (5, 3), (74, 22), (37, 11), (100, 7)] {
            let out = resize(&flat, Size::new(w, h));
            assert!(out.pixels().all(|v| *v == 77), "{w}x{h}");
        }
        // A ramp stays a ramp, pixel centres at whole numbers + 1/2 of the edges.
        let ramp = Image::from_fn(64, 4, |x, _| (2 * x) as u8);
        let half = resize(&ramp, Size::new(32, 4));
        for x in 2..30 {
            let expected = 4 * x + 1;
            assert!(usize::from(half.get(x, 1)).abs_diff(expected) <= 1, "{x}");
        }
    }

    #[test]
    fn transparency() {
        // Dark ink of one grey: stands on white, which is part of the picture.
        let alpha = Image::from_fn(4, 1, |x, _| [0, 255, 128, 0][x]);
        let ink = Cutout::new(Image::filled(4, 1, 20), Some(alpha.clone()));
        assert_eq!(ink.grey.row(0), [255, 20, 137, 255]);
        assert_eq!(ink.mask.row(0), [255; 4]);
        assert_eq!(ink.ground, Some(255));
        // Light, with contrast of its own: stands on black, which does not count.
        let picture = Image::from_fn(4, 1, |x, _| [9, 250, 180, 9][x]);
        let badge = Cutout::new(picture, Some(alpha));
        assert_eq!(badge.grey.row(0), [0, 250, 90, 0]);
        assert_eq!(badge.mask.row(0), [0, 255, 255, 0]);
        // Opaque: no ground, the border goes on.
        let whole = Cutout::new(Image::from_fn(2, 1, |x, _| 100 * x as u8), None);
        assert_eq!(whole.ground, None);
        let canvas = whole.on_canvas(Size::new(2, 1), 1);
        assert_eq!(canvas.row(0), [0, 0, 100, 100]);
        assert_eq!(canvas.row(2), [0, 0, 100, 100]);
        let canvas = ink.on_canvas(Size::new(4, 1), 1);
        assert_eq!(canvas.row(0), [255; 6]);
        assert_eq!(canvas.row(1), [255, 255, 20, 137, 255, 255]);
    }

    #[test]
    fn transparency_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        let write = |colour, bytes: &[u8]| {
            let file = std::fs::File::create(&path).unwrap();
            let mut encoder = png::Encoder::new(file, 2, 1);
            encoder.set_color(colour);
            encoder
                .write_header()
                .unwrap()
                .write_image_data(bytes)
                .unwrap();
        };
        write(png::ColorType::Rgba, &[10, 10, 10, 255, 99, 99, 99, 0]);
        let cutout = Cutout::read(&path).unwrap();
        assert_eq!(cutout.grey.row(0), [10, 255]);
        write(png::ColorType::GrayscaleAlpha, &[10, 0, 200, 255]);
        assert_eq!(Cutout::read(&path).unwrap().grey.row(0), [0, 200]);
        write(png::ColorType::Rgb, &[10, 10, 10, 99, 99, 99]);
        let cutout = Cutout::read(&path).unwrap();
        assert_eq!((cutout.grey.row(0), cutout.ground), (&[10, 99][..], None));
    }
}
