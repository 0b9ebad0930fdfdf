//! Are data sets read as they are, and bad ones refused with a reason?
#[path = "common/columns.rs"]
mod columns;
mod common;
#[path = "common/toy.rs"]
mod toy;

use std::{fs, path::Path};

use roadloop::{
    frame::{Camera, Image, png},
    stage::forest::{DepthDifference, FeatureSpec, InputSpec, Norm, Region, Rgbd, ThresholdSource},
    training::{
        Job,
        data::{DataOptions, Dataset, MSRC2},
        samples::VOID,
    },
};

fn refusal(options: &DataOptions) -> String {
    let dataset = match Dataset::open(options) {
        Err(e) => return e.to_string(),
        Ok(dataset) => dataset,
    };
    dataset.scan().unwrap_err().to_string()
}

fn at(folder: &Path) -> DataOptions {
    DataOptions {
        folder: Some(folder.into()),
        ..DataOptions::default()
    }
}

#[test]
fn msrc2_as_it_is_kept() {
    let Some(dir) = common::data("msrc2") else {
        return;
    };
    let options = DataOptions {
        void: vec!["horse".into(), "mountain".into()],
        ..at(&dir.join("validation"))
    };
    let data = Dataset::open(&options).unwrap();
    assert_eq!((data.items().len(), data.classes().len()), (59, 21));
    // The table beside it is the one that is built in.
    let table = data.class_table();
    for class in table.trained().iter().chain(table.void()) {
        let (name, colour) = MSRC2[usize::from(class.index)];
        assert_eq!((class.name.as_str(), class.colour), (name, colour));
    }
    let facts = data.facts(0).unwrap();
    assert_eq!((facts.channels, facts.bits), (3, 8));
    assert!(facts.class_pixels.iter().sum::<u64>() > 0);
}

#[test]
fn camvid_as_it_is() {
    let Some(dir) = common::data("camvid_smoke") else {
        return;
    };
    for folder in [dir.clone(), dir.join("train")] {
        let data = Dataset::open(&at(&folder)).unwrap();
        assert_eq!((data.items().len(), data.classes().len()), (8, 11));
        assert_eq!(data.class_table().void_index(), 11);
        let facts = data.scan().unwrap();
        assert!(
            facts
                .iter()
                .all(|f| (f.size.width, f.size.height) == (480, 360))
        );
    }
}

/// A BMP of 24 bits.
fn bmp(path: &Path, w: usize, h: usize, colour: impl Fn(usize, usize) -> [u8; 3]) {
    let mut file = b"BM".to_vec();
    for word in [
        0,
        0,
        54,
        40,
        w as u32,
        h as u32,
        1 | 24 << 16,
        0,
        0,
        0,
        0,
        0,
        0,
    ] {
        file.extend(word.to_le_bytes());
    }
    for y in (0..h).rev() {
        let row: Vec<u8> = (0..w)
            .flat_map(|x| {
                let [r, g, b] = colour(x, y);
                [b, g, r]
            })
            .collect();
        file.extend(&row);
        file.resize(file.len() + row.len().next_multiple_of(4) - row.len(), 0);
    }
    fs::write(path, file).unwrap();
}

#[test]
fn msrc2_as_it_is_published() {
    let tmp = tempfile::tempdir().unwrap();
    for folder in ["Images", "GroundTruth"] {
        fs::create_dir(tmp.path().join(folder)).unwrap();
    }
    let class = |x: usize, y: usize| (x + 3 * y) % 24;
    bmp(&tmp.path().join("Images/1_1_s.bmp"), 7, 5, |x, y| {
        [x as u8, y as u8, 3]
    });
    bmp(
        &tmp.path().join("GroundTruth/1_1_s_GT.bmp"),
        7,
        5,
        |x, y| MSRC2[class(x, y)].1,
    );
    let data = Dataset::open(&at(tmp.path())).unwrap();
    assert_eq!(data.items()[0].name, "1_1_s");
    let labels = data.labels(0).unwrap();
    for (x, y) in (0..5).flat_map(|y| (0..7).map(move |x| (x, y))) {
        let expected = match class(x, y) {
            0 => VOID,
            class => class as u8 - 1,
        };
        assert_eq!(labels.get(x, y), expected);
    }
    let roadloop::training::data::Raster::Rgb(image) = data.raster(0).unwrap() else {
        panic!("not RGB");
    };
    assert_eq!(image.get(6, 4), [6, 4, 3]);
}

#[test]
fn colour_labels_and_lists() {
    let tmp = toy::folder();
    let (plain, plain_facts) = toy::open(tmp.path());
    let colours = tmp.path().join("colours");
    fs::create_dir(&colours).unwrap();
    for (i, (w, h)) in toy::sizes().into_iter().enumerate() {
        let labels = Image::from_fn(w, h, |x, y| match toy::label(i, x, y) {
            1 => [255, 0, 0],
            4 => [0, 0, 255],
            9 => [9, 9, 9],
            _ => [0, 0, 0],
        });
        png::write_rgb(&colours.join(format!("p{i}_GT.png")), &labels).unwrap();
    }
    let list = tmp.path().join("list.txt");
    fs::write(&list, "# some\np3\n/a/b/p1.png /c/d/p1.png\n\n").unwrap();
    let options = DataOptions {
        labels: Some(colours),
        list: Some(list.clone()),
        ..at(tmp.path())
    };
    let data = Dataset::open(&options).unwrap();
    let names: Vec<&str> = data.items().iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["p1", "p3"]);
    assert_eq!(data.labels(0).unwrap(), plain.labels(1).unwrap());
    assert_eq!(data.facts(1).unwrap().digest, plain_facts[3].digest);
    fs::write(&list, "p3\nq\n").unwrap();
    let text = refusal(&options);
    assert!(
        text.contains("list.txt:2: no picture called q in"),
        "{text}"
    );
    fs::write(&list, "p3\np3\n").unwrap();
    assert!(refusal(&options).contains(":2: p3 for the second time"));
}

#[test]
fn bad_sets_are_refused_with_a_reason() {
    let tmp = toy::folder();
    let file = |name: &str| tmp.path().join(name);
    let labels = file("labels/p2.png");
    let good = fs::read(&labels).unwrap();
    // Truncated pictures name their file.
    for (name, cut) in [
        ("labels/p2.png", 60),
        ("images/p1.png", 500),
        ("images/p0.png", 0),
    ] {
        let bytes = fs::read(file(name)).unwrap();
        fs::write(file(name), &bytes[..cut]).unwrap();
        let text = refusal(&at(tmp.path()));
        assert!(text.contains(name) && text.contains("runcated"), "{text}");
        fs::write(file(name), bytes).unwrap();
    }
    png::write_grey(&labels, &Image::filled(40, 17, 77)).unwrap();
    let text = refusal(&at(tmp.path()));
    assert!(
        text.contains("p2.png: label 77 at (0, 0) is of no class"),
        "{text}"
    );
    png::write_grey(&labels, &Image::filled(17, 40, 1)).unwrap();
    let text = refusal(&at(tmp.path()));
    assert!(
        text.contains("p2.png: 17x40, expected 40x17 as the image"),
        "{text}"
    );
    // Labels of fewer bits would be stretched.
    let mut shallow = good.clone();
    shallow[24] = 4;
    fs::write(&labels, shallow).unwrap();
    assert!(refusal(&at(tmp.path())).contains("labels of 4 bits, expected 8"));
    fs::remove_file(&labels).unwrap();
    assert!(refusal(&at(tmp.path())).contains("no labels for 1 images, the first is p2"));
    fs::write(&labels, good).unwrap();
    fs::remove_file(file("classes.csv")).unwrap();
    assert!(refusal(&at(tmp.path())).contains("no classes.csv"));
    assert!(refusal(&at(&file("labels"))).contains("not known as a data set"));
    assert!(refusal(&at(&file("nothing"))).contains("nothing: "));
    assert!(refusal(&DataOptions::default()).contains("a data set is a folder"));
    let empty = tempfile::tempdir().unwrap();
    for folder in ["images", "labels"] {
        fs::create_dir(empty.path().join(folder)).unwrap();
    }
    fs::write(empty.path().join("classes.csv"), toy::CLASSES).unwrap();
    assert!(refusal(&at(empty.path())).contains("no pictures"));
}

fn write_deep(path: &Path, w: usize, h: usize, f: impl Fn(usize, usize) -> u16) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = format!("P5 {w} {h} 65535\n").into_bytes();
    for y in 0..h {
        for x in 0..w {
            file.extend(f(x, y).to_be_bytes());
        }
    }
    fs::write(path, file).unwrap();
}

/// How many training pixels a one-tree forest gets right, in a hundred.
fn learnt(data: &Dataset, feature: FeatureSpec, input: InputSpec, source: ThresholdSource) -> u64 {
    let facts = data.scan().unwrap();
    let mut job: Job<'_> = toy::job(data, &facts);
    job.feature = feature;
    job.input = input;
    job.recipe.threshold_source = source;
    job.recipe.features = 60;
    job.recipe.thresholds = 12;
    let forest = toy::quiet(&job).unwrap();
    let (mut right, mut all) = (0u64, 0u64);
    for (i, facts) in facts.iter().enumerate() {
        use roadloop::stage::{Stage as _, forest};
        let size = facts.size;
        let params = forest::Params::default();
        let mut plan = forest::cpu::Plan::new(&forest, &params, size, None).unwrap();
        let mut output = plan.output();
        let (raster, labels) = (data.raster(i).unwrap(), data.labels(i).unwrap());
        let depth = data.depth(i, size, input.depth_steps_per_m).unwrap();
        let depth = depth
            .as_ref()
            .map_or(forest::Depth::None, forest::Depth::Steps);
        let pixels = raster.pixels();
        plan.run(forest::Input { pixels, depth }, &mut output);
        for (found, &class) in output.labels.pixels().zip(labels.pixels()) {
            if class != VOID {
                all += 1;
                right += u64::from(*found == data.classes()[usize::from(class)].index);
            }
        }
    }
    100 * right / all
}

#[test]
fn many_channels_of_sixteen_bits() {
    // Of 16 channels of noise one is of the class.
    let tmp = toy::folder();
    let mut images = Vec::new();
    for c in 0..16 {
        let dir = tmp.path().join(format!("c{c}"));
        for (i, (w, h)) in toy::sizes().into_iter().enumerate() {
            write_deep(&dir.join(format!("p{i}.pgm")), w, h, |x, y| {
                let n = (columns::noise(x + 99 * c, y + 7 * i) % 40_000) as u16;
                match toy::label(i, x, y) {
                    1 if c == 13 => n / 8 + 60_000,
                    4 if c == 13 => n / 8 + 30_000,
                    9 if c == 13 => n / 8,
                    _ => n,
                }
            });
        }
        images.push(dir);
    }
    let options = DataOptions {
        images,
        ..at(tmp.path())
    };
    let data = Dataset::open(&options).unwrap();
    let facts = data.scan().unwrap();
    assert_eq!((facts[1].channels, facts[1].bits), (16, 16));
    let feature = FeatureSpec::Region(Region {
        channels: 16,
        offset_px: 1,
        region_px: 1,
        norm: Norm::Sum,
        shrink: true,
        single_share: 200,
        ..Region::default()
    });
    let input = InputSpec {
        channels: 16,
        bits: 16,
        ..InputSpec::default()
    };
    assert!(learnt(&data, feature, input, ThresholdSource::Responses) > 90);
    // Eight bits do not do for it, nor three channels.
    for (channels, bits, reason) in [(16, 8, "samples of 16 bits"), (3, 16, "16 channels")] {
        let input = InputSpec {
            channels,
            bits,
            ..input
        };
        let text = data.check_input(&facts, &feature, &input).unwrap_err();
        assert!(text.to_string().contains(reason), "{text}");
    }
}

/// Depth that goes with the class; images that say nothing.
fn depth_set() -> tempfile::TempDir {
    let tmp = toy::folder();
    for (i, (w, h)) in toy::sizes().into_iter().enumerate() {
        let grey = Image::filled(w, h, 100u8);
        png::write_grey(&tmp.path().join(format!("images/p{i}.png")), &grey).unwrap();
        let depth = |x, y| match toy::label(i, x, y) {
            1 => 2000,
            4 => 1000,
            9 => 500,
            _ if x % 2 == 0 => 0,
            _ => 4000,
        };
        write_deep(&tmp.path().join(format!("depth/p{i}.pgm")), w, h, depth);
        // The same as disparity of a camera with f B = 4 px m, in 1/256 px.
        let disparity = |x, y| match depth(x, y) {
            0 => 0,
            mm => (256 * 4 * 1000 / u32::from(mm)) as u16,
        };
        write_deep(
            &tmp.path().join(format!("disparity/p{i}.pgm")),
            w,
            h,
            disparity,
        );
    }
    tmp
}

#[test]
fn depth_and_disparity_are_learnt_from() {
    let tmp = depth_set();
    let from_depth = DataOptions {
        depth: Some(tmp.path().join("depth")),
        ..at(tmp.path())
    };
    let camera = Camera {
        focal_px: 40.0,
        cx: 0.0,
        cy: 0.0,
        baseline_m: 0.1,
    };
    let from_disparity = DataOptions {
        disparity: Some((tmp.path().join("disparity"), camera)),
        ..at(tmp.path())
    };
    let one = Dataset::open(&from_depth).unwrap();
    let two = Dataset::open(&from_disparity).unwrap();
    let input = InputSpec {
        channels: 1,
        ..InputSpec::default()
    };
    for i in 0..5 {
        let size = one.facts(i).unwrap().size;
        assert_eq!(
            one.depth(i, size, 1000).unwrap(),
            two.depth(i, size, 1000).unwrap()
        );
    }
    let rgbd = FeatureSpec::Rgbd(Rgbd {
        channels: 1,
        offset_px: 12,
        region_px: 2,
        shrink: true,
        depth_share: 256,
        ..Rgbd::default()
    });
    let depth = FeatureSpec::Depth(DepthDifference {
        offset_px: 12,
        reference: 1000,
        thresholds: (-2000, 2000),
        ..DepthDifference::default()
    });
    for data in [&one, &two] {
        let share = learnt(data, rgbd, input, ThresholdSource::Responses);
        assert!(share > 80, "rgbd: {share} %");
        let share = learnt(data, depth, input, ThresholdSource::Uniform);
        assert!(share > 70, "depth: {share} %");
    }
    // Without depth such a forest can't be trained.
    let none = Dataset::open(&at(tmp.path())).unwrap();
    let text = none
        .check_input(&none.scan().unwrap(), &rgbd, &input)
        .unwrap_err();
    assert!(text.to_string().contains("no depth for it"), "{text}");
}
