//! Times features of pictures: `logo_time PICTURE [runs=N] [threads=N] [out=FILE.csv] [key=value ...]`.
//! Prints minimum and median of `runs` (21) runs on `threads` (1) threads in milliseconds, points
//! found, keypoints, and the minimum of matching the descriptors with themselves. `out` has a line
//! `x,y,sigma,angle in degrees,response,octave,descriptor` a keypoint. Other keys are those of the
//! features' parameters; `paper=true` starts from those of mode `paper`.
use std::{error::Error, fmt::Write as _, path::Path, time::Instant};

use roadloop::{
    frame::Image,
    picture::{self, Picture},
    stage::logo::features::{FeatureParams, Features, cpu::Plan, matcher},
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
    let [picture] = &plain[..] else {
        return Err("expected PICTURE [key=value ...]".into());
    };
    let image = grey(picture)?;
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
    let params: FeatureParams = match keys.strip_prefix("paper=true\n") {
        Some(_) => FeatureParams::paper(),
        None => toml::from_str(&keys)?,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    let mut out = Features::new(&params);
    let mut matches = Vec::new();
    let (mut times, mut matching) = (Vec::new(), f64::MAX);
    pool.install(|| -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut plan = Plan::new(&params, image.size())?;
        for _ in 0..=runs {
            let start = Instant::now();
            plan.run(&image, &mut out);
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            matcher::two_nearest(&out.descriptors, &out.descriptors, &mut matches);
            matching = matching.min(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(())
    })
    .map_err(|e| e.to_string())?;
    // The first run meets cold memory.
    times.remove(0);
    times.sort_by(f64::total_cmp);
    println!(
        "{:.2} {:.2} {} {} {matching:.3}",
        times[0],
        times[times.len() / 2],
        out.found,
        out.keypoints.len()
    );
    if let Some(path) = out_path {
        let mut text = String::new();
        for (k, d) in out.keypoints.iter().zip(&out.descriptors) {
            let degrees = f32::from(k.angle) * (360.0 / 1024.0);
            write!(
                text,
                "{},{},{},{degrees},{},{},",
                k.x, k.y, k.sigma, k.response, k.octave
            )?;
            for word in d.0 {
                write!(text, "{word:08x}")?;
            }
            text.push('\n');
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
