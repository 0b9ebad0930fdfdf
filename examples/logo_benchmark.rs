//! Marks laid into synthetic street frames: how many does the logo stage find?
//!
//! `cargo run --release --example logo_benchmark -- [TRIALS] [SEED] [FOLDER OF FRAMES] [FOLDER FOR PICTURES]`
use std::{path::Path, sync::Arc};

use roadloop::{
    evaluate::logos::{
        benchmark::{self, BINS},
        marks::MARKS,
    },
    frame::{Image, Size, png},
    picture::{self, Picture},
    source::synth::{Options, Street},
    stage::logo::{BuildOptions, Params},
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let frames = match args.get(2).filter(|p| Path::new(p).is_dir()) {
        Some(folder) => read(Path::new(folder)),
        None => render(8),
    };
    if let Some(folder) = args.get(2).filter(|p| !Path::new(p).exists()) {
        std::fs::create_dir_all(folder).unwrap();
        for (i, frame) in frames.iter().enumerate() {
            png::write_grey(&Path::new(folder).join(format!("{i:06}.png")), frame).unwrap();
        }
    }
    let mut params = Params::default();
    if let Ok(text) = std::env::var("LOGO") {
        params = toml::from_str(&text).unwrap();
    }
    let templates = Arc::new(benchmark::templates(&params, &BuildOptions::default()).unwrap());
    for t in templates.list() {
        eprintln!("{}: {} points", t.name(), t.points().len());
    }
    let begin = std::time::Instant::now();
    let outcome = benchmark::run(
        &params,
        templates.clone(),
        &frames,
        number(0, 144) as usize,
        number(1, 1),
    )
    .unwrap();
    eprintln!("{:.1} s", begin.elapsed().as_secs_f64());
    for (n, t) in outcome.trials.iter().enumerate() {
        let others: Vec<String> = t
            .reported
            .iter()
            .map(|l| {
                format!(
                    "{} {}",
                    templates.list()[usize::from(l.template)].name(),
                    l.confidence
                )
            })
            .collect();
        eprintln!(
            "{n:3} {:9} h {:3.0} turn {:4.0} smear {:.1} gain {:.2}: {} {}{}",
            MARKS[t.placing.mark].name,
            t.placing.height,
            t.placing.turn_deg,
            (t.placing.smear[0].powi(2) + t.placing.smear[1].powi(2)).sqrt(),
            t.placing.gain,
            t.error_px.map_or("-".into(), |e| format!("{e:.2}")),
            if t.wrong > 0 { "WRONG " } else { "" },
            others.join(", "),
        );
    }
    println!("all {:.3}", outcome.success((0.0, 1e9)));
    for bin in BINS {
        println!("{:.0}-{:.0} px {:.3}", bin.0, bin.1, outcome.success(bin));
    }
    println!("wrong {:.3}", outcome.wrong());
}

fn render(count: u64) -> Vec<Image<u8>> {
    (0..count)
        .map(|i| {
            let options = Options {
                frames: 40,
                seed: 11 + i,
                size: Size::new(1280, 720),
                ..Options::default()
            };
            Street::new(&options).unwrap().render(4 * i as usize).mono
        })
        .collect()
}

fn read(folder: &Path) -> Vec<Image<u8>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .filter_map(|f| match picture::read(f) {
            Ok(Picture::Grey8(image)) => Some(image),
            Ok(Picture::Rgb8(image)) => {
                Some(Image::from_fn(image.width(), image.height(), |x, y| {
                    picture::grey_of(image.get(x, y))
                }))
            }
            _ => None,
        })
        .collect()
}
