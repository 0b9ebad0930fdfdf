//! Times the stereo stage on a pair: `stereo_time LEFT.png RIGHT.png [X Y WIDTH HEIGHT] [key=value ...]`.
//! Prints minimum and median of `runs=N` (21) runs on `threads=N` (1) threads, in milliseconds.
//! `out=FILE.png` writes the disparity; other keys are those of the stereo stage's parameters.
use std::{error::Error, path::Path, time::Instant};

use roadloop::{
    frame::{Disparity, Image, Size},
    picture::{self, Picture},
    stage::{
        Stage as _,
        stereo::{Input, Params, cpu::Plan},
    },
};

fn grey(path: &str) -> Result<Image<u8>, Box<dyn Error>> {
    Ok(match picture::read(Path::new(path))? {
        Picture::Grey8(image) => image,
        Picture::Rgb8(rgb) => Image::from_fn(rgb.width(), rgb.height(), |x, y| {
            picture::grey_of(rgb.get(x, y))
        }),
        Picture::Grey16(_) => return Err(format!("{path}: 16 bit, expected 8").into()),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (settings, plain): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|a| a.contains('='));
    let [left, right, crop @ ..] = &plain[..] else {
        return Err("expected LEFT.png RIGHT.png [X Y WIDTH HEIGHT] [key=value ...]".into());
    };
    let (mut left, mut right) = (grey(left)?, grey(right)?);
    if let [x0, y0, w, h] = crop {
        let (x0, y0, w, h): (usize, usize, usize, usize) =
            (x0.parse()?, y0.parse()?, w.parse()?, h.parse()?);
        for image in [&mut left, &mut right] {
            *image = Image::from_fn(w, h, |x, y| image.get(x0 + x, y0 + y));
        }
    }
    let (mut threads, mut runs, mut out_path) = (1, 21, None);
    let mut keys = String::new();
    for setting in &settings {
        match setting.split_once('=') {
            Some(("threads", n)) => threads = n.parse()?,
            Some(("runs", n)) => runs = n.parse::<usize>()?.max(1),
            Some(("out", path)) => out_path = Some(path),
            _ => keys += &format!("{setting}\n"),
        }
    }
    let params: Params = toml::from_str(&keys)?;
    let Size { width, height } = left.size();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    let mut out = Disparity::new(width, height);
    let mut times = pool
        .install(|| -> Result<_, Box<dyn Error + Send + Sync>> {
            let mut plan = Plan::new(&params, left.size(), None)?;
            let mut times = Vec::new();
            for _ in 0..=runs {
                let start = Instant::now();
                plan.run(
                    Input {
                        left: &left,
                        right: &right,
                    },
                    &mut out,
                );
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times)
        })
        .map_err(|e| e.to_string())?;
    // The first run meets cold memory.
    times.remove(0);
    times.sort_by(f64::total_cmp);
    println!("{:.1} {:.1}", times[0], times[times.len() / 2]);
    if let Some(path) = out_path {
        roadloop::frame::png::write_disparity(Path::new(path), &out)?;
    }
    Ok(())
}
