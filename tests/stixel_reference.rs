//! Does the `paper` preset reproduce the stixels that the paper's authors' program made of its
//! own example?
use roadloop::{
    frame::{Camera, Class, Image, Road, RoadOrigin, Stixels},
    picture::{self, Picture},
    stage::{Stage as _, stixel},
};

mod common;

/// A model in exact sums reaches 182 columns and 30 px.
const COLUMNS: usize = 204;
const LEAST_EQUAL_COLUMNS: usize = 175;
const MOST_OTHER_PIXELS: usize = 60;
const STIXELS: std::ops::RangeInclusive<usize> = 960..=975;

const CAMERA: Camera = Camera {
    focal_px: 704.7082,
    cx: 512.0,
    cy: 384.0,
    baseline_m: 0.8,
};

/// As the reference estimated it.
const ROAD: Road = Road {
    slope: 0.230868,
    offset: -0.230868 * 303.0,
    horizon_row: 303.0,
    pitch_rad: 0.114_436,
    camera_height_m: 3.44212,
    confidence: 1.0,
    origin: RoadOrigin::Fixed,
};

/// Class, top, base in image rows, from top to bottom.
type Column = Vec<(Class, u16, u16)>;

fn stored(text: &str, height: u16) -> Vec<Column> {
    let stixel = |s: &str| {
        let mut parts = s.split(',').map(|p| p.parse::<f64>().unwrap());
        let class = [Class::Ground, Class::Object, Class::Sky][parts.next().unwrap() as usize];
        let base = height - 1 - parts.next().unwrap() as u16;
        let top = height - 1 - parts.next().unwrap() as u16;
        (class, top, base)
    };
    text.lines()
        .map(|line| {
            line.split(';')
                .filter(|s| !s.trim().is_empty())
                .map(stixel)
                .collect()
        })
        .collect()
}

fn found(stixels: &Stixels) -> Vec<Column> {
    (0..stixels.columns())
        .map(|u| {
            let column = stixels.column(u).iter();
            column.map(|s| (s.class, s.top, s.base)).collect()
        })
        .collect()
}

fn rows(column: &Column) -> Vec<Class> {
    let repeated = column
        .iter()
        .map(|&(class, top, base)| vec![class; usize::from(base - top) + 1]);
    repeated.flatten().collect()
}

#[test]
fn paper_preset_gives_the_reference_s_stixels() {
    let Some(data) = common::data("stixel_reference") else {
        return;
    };
    let name = "ap_000_29-02-2016_09-00-09_000002.png";
    let disparity = match picture::read(&data.join("disparities").join(name)).unwrap() {
        Picture::Grey16(image) => image,
        other => panic!("expected 16-bit grey, found {other:?}"),
    };
    let text = std::fs::read_to_string(data.join(format!("stixels/{name}.stixels"))).unwrap();
    let mut plan =
        stixel::cpu::Plan::new(&stixel::Params::paper(), disparity.size(), &CAMERA, 128).unwrap();
    let mut stixels = plan.output();
    let input = stixel::Input {
        disparity: &disparity,
        road: &ROAD,
    };
    plan.run(input, &mut stixels);

    let expected = stored(&text, disparity.height() as u16);
    let found = found(&stixels);
    assert_eq!((expected.len(), found.len()), (COLUMNS, COLUMNS));
    let equal = expected.iter().zip(&found).filter(|(e, f)| e == f).count();
    let other: usize = expected
        .iter()
        .zip(&found)
        .map(|(e, f)| {
            let (e, f) = (rows(e), rows(f));
            assert_eq!((e.len(), f.len()), (disparity.height(), disparity.height()));
            e.iter().zip(&f).filter(|(e, f)| e != f).count()
        })
        .sum();
    let total = stixels.total();
    println!("{equal} of {COLUMNS} columns equal, {other} px of another class, {total} stixels");
    assert!(equal >= LEAST_EQUAL_COLUMNS, "{equal} columns equal");
    assert!(other <= MOST_OTHER_PIXELS, "{other} px of another class");
    assert!(STIXELS.contains(&total), "{total} stixels");
    assert_eq!(stixels.overflowed(), 0);
    // An image of 0 is a defined result too.
    let zero = Image::new(disparity.width(), disparity.height());
    let input = stixel::Input {
        disparity: &zero,
        ..input
    };
    plan.run(input, &mut stixels);
    assert_eq!(stixels.overflowed(), 0);
}
