//! Is a small mark on a real lorry found, cut by the image's edge, and not where there is none?
mod common;

use std::{path::Path, sync::Arc};

use roadloop::{
    frame::{Image, LogoState, Logos, MonoImage, PixelKind, Rgb},
    picture::{self, Picture},
    stage::{
        Stage as _,
        logo::{BuildOptions, Input, Params, Templates, cpu::Plan},
    },
};

fn rgb(path: &Path) -> Rgb {
    match picture::read(path).unwrap() {
        Picture::Rgb8(image) => image,
        other => panic!("{}: {}", path.display(), other.kind()),
    }
}

/// Boxes by frame; none where the mark is not in the picture.
fn boxes(path: &Path) -> Vec<(u32, Option<[f64; 4]>)> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let numbers: Vec<f64> = fields[1..5].iter().filter_map(|f| f.parse().ok()).collect();
            (fields[0].parse().unwrap(), numbers.try_into().ok())
        })
        .collect()
}

fn clipped(b: [f64; 4], image: &Rgb) -> [f64; 4] {
    let (w, h) = (image.width() as f64, image.height() as f64);
    [
        b[0].clamp(0.0, w),
        b[1].clamp(0.0, h),
        b[2].clamp(0.0, w),
        b[3].clamp(0.0, h),
    ]
}

fn iou(a: [f64; 4], b: [f64; 4]) -> f64 {
    let w = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let h = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let area = |r: [f64; 4]| (r[2] - r[0]) * (r[3] - r[1]);
    w * h / (area(a) + area(b) - w * h)
}

#[test]
fn the_mark_on_the_lorry() {
    let Some(data) = common::data("logo_kravag_truck") else {
        return;
    };
    let reference = rgb(&data.join("reference/DERIVED_kravag_from_frame77.png"));
    let grey = Image::from_fn(reference.width(), reference.height(), |x, y| {
        picture::grey_of(reference.get(x, y))
    });
    let params = Params::default();
    let pictures = vec![("kravag".to_owned(), grey, None)];
    let templates =
        Templates::of_pictures(pictures, &params.features, &BuildOptions::default()).unwrap();
    let templates = Arc::new(templates);
    let mut plan: Option<Plan> = None;
    let mut logos = Logos::new();
    for (frame, truth) in boxes(&data.join("DERIVED_kravag_boxes_dev.csv")) {
        let image = rgb(&data.join(format!("frames/{frame:010}.png")));
        let plan = plan.get_or_insert_with(|| {
            Plan::new(&params, templates.clone(), PixelKind::Rgb8, image.size()).unwrap()
        });
        let picture = MonoImage::Rgb8(image.clone());
        plan.run(Input { image: &picture }, &mut logos);
        let Some(truth) = truth else {
            assert!(logos.is_empty(), "frame {frame}: {logos:?}");
            continue;
        };
        assert_eq!(logos.len(), 1, "frame {frame}");
        let logo = &logos[0];
        assert_eq!((logo.id, logo.template), (1, 0));
        let expected = if frame == 62 {
            LogoState::Tentative
        } else {
            LogoState::Tracked
        };
        assert_eq!(logo.state, expected, "frame {frame}");
        let (xs, ys) = (
            logo.quad.map(|p| f64::from(p[0])),
            logo.quad.map(|p| f64::from(p[1])),
        );
        let least = |v: [f64; 4]| v.into_iter().fold(f64::INFINITY, f64::min);
        let most = |v: [f64; 4]| v.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let found = [least(xs), least(ys), most(xs), most(ys)];
        let overlap = iou(clipped(found, &image), clipped(truth, &image));
        eprintln!(
            "frame {frame}: IoU {overlap:.3}, confidence {}",
            logo.confidence
        );
        assert!(
            overlap >= 0.7,
            "frame {frame}: {overlap}, {found:?}, {truth:?}"
        );
    }
}

#[test]
fn each_frame_by_itself() {
    let Some(data) = common::data("logo_kravag_truck") else {
        return;
    };
    let reference = rgb(&data.join("reference/DERIVED_kravag_from_frame77.png"));
    let grey = Image::from_fn(reference.width(), reference.height(), |x, y| {
        picture::grey_of(reference.get(x, y))
    });
    let params = Params::default();
    let pictures = vec![("kravag".to_owned(), grey, None)];
    let templates =
        Templates::of_pictures(pictures, &params.features, &BuildOptions::default()).unwrap();
    let templates = Arc::new(templates);
    let mut logos = Logos::new();
    for frame in [62, 63, 64, 65] {
        let image = rgb(&data.join(format!("frames/{frame:010}.png")));
        let size = image.size();
        let mut plan = Plan::new(&params, templates.clone(), PixelKind::Rgb8, size).unwrap();
        plan.run(
            Input {
                image: &MonoImage::Rgb8(image),
            },
            &mut logos,
        );
        assert_eq!(logos.len(), 1, "frame {frame}");
        assert_eq!(logos[0].state, LogoState::Tentative);
    }
}
