//! Times the foreground stage over a folder of pictures: `foreground_time FOLDER [key=value ...]`.
//! Prints minimum and median of the frames after the first `warm=N` (100), in milliseconds, and
//! the share of the last mask that moves. `size=WxH` enlarges the pictures, `kind=grey|colour|grey16`,
//! `frames=N` at most, `repeat=N` times over the pictures without the warm-up, `threads=N` (1);
//! other keys are those of the stage's parameters.
use std::{error::Error, path::PathBuf, time::Instant};

use roadloop::{
    frame::{Foreground, Image, MonoImage, Motion, MotionState, PixelKind, Rgb, Size},
    picture::{self, Picture},
    stage::{
        Stage as _,
        foreground::{
            Params,
            cpu::{Input, Plan},
        },
    },
};

fn rgb(path: &std::path::Path) -> Result<Rgb, Box<dyn Error>> {
    Ok(match picture::read(path)? {
        Picture::Rgb8(rgb) => rgb,
        Picture::Grey8(grey) => {
            Image::from_fn(grey.width(), grey.height(), |x, y| [grey.get(x, y); 3])
        }
        Picture::Grey16(_) => return Err(format!("{}: 16 bit", path.display()).into()),
    })
}

/// Bilinear, pixel centres at whole numbers and a half; weights of 1/2048 as OpenCV's resize.
fn enlarged(from: &Rgb, size: Size) -> Rgb {
    if from.size() == size {
        return from.clone();
    }
    let axis = |p: usize, n: usize, of: usize| {
        let at = ((p as f64 + 0.5) * of as f64 / n as f64 - 0.5).clamp(0.0, (of - 1) as f64);
        let first = at as usize;
        (
            first,
            (first + 1).min(of - 1),
            ((at - first as f64) * 2048.0) as u32,
        )
    };
    Rgb::from_fn(size.width, size.height, |x, y| {
        let (x0, x1, a) = axis(x, size.width, from.width());
        let (y0, y1, b) = axis(y, size.height, from.height());
        std::array::from_fn(|c| {
            let at = |x, y| u32::from(from.get(x, y)[c]);
            let top = at(x0, y0) * (2048 - a) + at(x1, y0) * a;
            let bottom = at(x0, y1) * (2048 - a) + at(x1, y1) * a;
            let sum = u64::from(top) * u64::from(2048 - b) + u64::from(bottom) * u64::from(b);
            ((sum + (1 << 21)) >> 22) as u8
        })
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (settings, plain): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|a| a.contains('='));
    let [folder] = &plain[..] else {
        return Err("expected FOLDER [key=value ...]".into());
    };
    let (mut threads, mut warm, mut frames, mut repeat) = (1, 100, usize::MAX, 1);
    let (mut kind, mut size, mut keys) = (PixelKind::Grey8, None, String::new());
    for setting in &settings {
        match setting.split_once('=') {
            Some(("threads", n)) => threads = n.parse()?,
            Some(("warm", n)) => warm = n.parse()?,
            Some(("frames", n)) => frames = n.parse()?,
            Some(("repeat", n)) => repeat = n.parse()?,
            Some(("kind", "colour")) => kind = PixelKind::Rgb8,
            Some(("kind", "grey16")) => kind = PixelKind::Grey16,
            Some(("kind", "grey")) => kind = PixelKind::Grey8,
            Some(("size", s)) => {
                let (w, h) = s.split_once('x').ok_or("size: expected WxH")?;
                size = Some(Size::new(w.parse()?, h.parse()?));
            }
            _ => keys += &format!("{setting}\n"),
        }
    }
    let params: Params = toml::from_str(&keys)?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    paths.truncate(frames);
    let mut images = Vec::new();
    for path in &paths {
        let picture = rgb(path)?;
        let size = *size.get_or_insert(picture.size());
        let picture = enlarged(&picture, size);
        let grey = |p: [u8; 3]| picture::grey_of(p);
        let at = |x, y| picture.get(x, y);
        let (w, h) = (size.width, size.height);
        images.push(match kind {
            PixelKind::Rgb8 => MonoImage::Rgb8(picture),
            PixelKind::Grey8 => MonoImage::Grey8(Image::from_fn(w, h, |x, y| grey(at(x, y)))),
            PixelKind::Grey16 => {
                MonoImage::Grey16(Image::from_fn(w, h, |x, y| u16::from(grey(at(x, y))) << 8))
            }
        });
    }
    let size = size.ok_or("no pictures")?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    let mut out = Foreground::new(size);
    let mut plan = Plan::new(&params, kind, size)?;
    let motion = Motion::of(MotionState::Still);
    let mut times = Vec::new();
    pool.install(|| {
        let later = images.iter().skip(warm);
        let order = images.iter().chain((1..repeat).flat_map(|_| later.clone()));
        for image in order {
            let start = Instant::now();
            let input = Input {
                image,
                motion: &motion,
                known_foreground: None,
            };
            plan.run(input, &mut out);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    });
    times.drain(..warm.min(times.len() - 1));
    times.sort_by(f64::total_cmp);
    let moving = out
        .mask
        .pixels()
        .filter(|&&m| m == Foreground::MOVING)
        .count();
    println!(
        "{:.3} {:.3} {:.4}",
        times[0],
        times[times.len() / 2],
        moving as f64 / size.area() as f64
    );
    Ok(())
}
