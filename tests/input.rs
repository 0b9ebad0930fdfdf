//! What `[input]` and stored disparities do to the pixels, exactly; and keys that fit no drive.
mod common;
#[path = "common/folders.rs"]
mod folders;

use std::fs;

use folders::*;
use roadloop::{
    frame::{Gap, Image, Size},
    source::{
        CameraPair, Crop, Drive, DriveKind, DriveOptions, ExitKind, MaskSource, SourceError,
        describe,
    },
};
use tempfile::TempDir;

#[test]
fn colour_is_kept_beside_grey() {
    let dir = folder();
    colour(&dir.path().join("left/0.png"), [255, 0, 0]);
    grey(&dir.path().join("right/0.png"), 9);
    grey(&dir.path().join("left/1.png"), 8);
    colour(&dir.path().join("right/1.png"), [0, 0, 255]);
    let drive = open(dir.path(), &with_camera());
    assert!(stereo(&drive).colour);
    let mut seen = Vec::new();
    visit(&drive, |item| {
        let set = item.unwrap().stereo.as_ref().unwrap();
        let rgb = set.left_rgb.as_ref().unwrap();
        seen.push((
            set.left.get(9, 7),
            rgb.get(9, 7),
            set.right.as_ref().unwrap().get(0, 0),
        ));
    });
    assert_eq!(seen, [(77, [255, 0, 0], 9), (8, [8; 3], 29)]);
}

#[test]
fn sixteen_bit_pictures_come_down_by_the_shift() {
    let dir = folder();
    for camera in ["left", "right"] {
        deep(&dir.path().join(camera).join("0.pgm"), |x, _| {
            [0, 255, 256, 4095, 65_535][x % 5]
        });
    }
    for (shift, expected) in [(8, [0, 0, 1, 15, 255]), (4, [0, 15, 16, 255, 255])] {
        let mut options = with_camera();
        options.input.shift_bits = shift;
        visit(&open(dir.path(), &options), |item| {
            assert_eq!(
                item.unwrap().stereo.as_ref().unwrap().left.row(3)[..5],
                expected
            );
        });
    }
}

/// A drive of one pair whose left pixel at (x, y) is `f(x, y)`, the right one 255 minus that.
fn picture_drive(f: impl Fn(usize, usize) -> u8) -> TempDir {
    let dir = folder();
    for (camera, flip) in [("left", 0), ("right", 255)] {
        let image = Image::from_fn(10, 8, |x, y| f(x, y) ^ flip);
        let path = dir.path().join(camera).join("0.png");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        roadloop::frame::png::write_grey(&path, &image).unwrap();
    }
    dir
}

#[test]
fn crop_and_scale_exactly() {
    let dir = picture_drive(|x, y| (20 * y + x) as u8);
    let mut options = with_camera();
    options.input.crop = Some(Crop {
        x: 3,
        y: 2,
        width: 5,
        height: 5,
    });
    let drive = open(dir.path(), &options);
    let segment = stereo(&drive);
    assert_eq!(segment.size, Size::new(5, 5));
    let camera = segment.rig.rectified_camera().unwrap();
    assert_eq!((camera.focal_px, camera.cx, camera.cy), (700.0, 2.0, 2.0));
    visit(&drive, |item| {
        let set = item.unwrap().stereo.as_ref().unwrap();
        assert_eq!(
            set.left,
            Image::from_fn(5, 5, |x, y| (20 * (y + 2) + x + 3) as u8)
        );
        let right = set.right.as_ref().unwrap();
        assert_eq!(right.get(4, 4), 255 - (20 * 6 + 7));
    });
    options.input.scale_down = 2;
    let drive = open(dir.path(), &options);
    let segment = stereo(&drive);
    // The fifth row and column are left over.
    assert_eq!(segment.size, Size::new(2, 2));
    let camera = segment.rig.rectified_camera().unwrap();
    assert_eq!((camera.focal_px, camera.baseline_m), (350.0, 0.5));
    assert_eq!((camera.cx, camera.cy), (0.75, 0.75));
    assert!(describe(&drive).contains("pictures     2x2 (files 10x8), grey, left and right\n"));
    visit(&drive, |item| {
        // The mean of 43, 44, 63, 64 is 53.5: half up.
        let expected = vec![54, 56, 94, 96];
        assert_eq!(
            item.unwrap().stereo.as_ref().unwrap().left,
            Image::from_vec(2, 2, expected).unwrap()
        );
    });
}

#[test]
fn masks_in_the_coordinates_of_the_files() {
    let dir = picture_drive(|_, _| 0);
    let mut options = with_camera();
    // Corners count: x 2 to 4, y 1 to 3.
    let square = vec![[2.0, 1.0], [4.0, 1.0], [4.0, 3.0], [2.0, 3.0]];
    let mask = |options: &DriveOptions| {
        let drive = open(dir.path(), options);
        stereo(&drive).mask.clone().unwrap()
    };
    let inside = |x: usize, y: usize| (2..=4).contains(&x) && (1..=3).contains(&y);
    let expected = |x, y| if inside(x, y) { 0 } else { 255 };
    options.input.mask = Some(MaskSource::Polygon(square.clone()));
    assert_eq!(mask(&options), Image::from_fn(10, 8, expected));
    options.input.crop = Some(Crop {
        x: 1,
        y: 1,
        width: 8,
        height: 7,
    });
    assert_eq!(
        mask(&options),
        Image::from_fn(8, 7, |x, y| expected(x + 1, y + 1))
    );
    // Blocks of 2 x 2 from (1, 1): masked as soon as they hold a masked pixel.
    options.input.scale_down = 2;
    assert_eq!(
        mask(&options),
        Image::from_vec(
            4,
            3,
            vec![0, 0, 255, 255, 0, 0, 255, 255, 255, 255, 255, 255]
        )
        .unwrap()
    );
    // A triangle and another polygon; partly outside.
    options.input = Default::default();
    let triangle = vec![[-1.0, 7.5], [1.5, 4.9], [20.0, 7.5]];
    options.input.mask = Some(MaskSource::Polygons(vec![square, triangle]));
    let two = mask(&options);
    assert_eq!((two.get(1, 5), two.get(2, 5), two.get(0, 6)), (255, 0, 255));
    assert_eq!((two.get(0, 7), two.get(9, 7), two.get(3, 2)), (0, 0, 0));
    // A picture: black is masked.
    let path = dir.path().join("mask.png");
    let picture = Image::from_fn(10, 8, |x, y| if inside(x, y) { 0 } else { 1 });
    roadloop::frame::png::write_grey(&path, &picture).unwrap();
    options.input.mask = Some(MaskSource::Picture(path.clone()));
    assert_eq!(mask(&options), Image::from_fn(10, 8, expected));
    assert!(describe(&open(dir.path(), &options)).contains(", 9 px masked\n"));
    sized(&path, 9, 8, 0);
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "input.mask: DIR/mask.png: 9x8 px, but the left pictures have 10x8 px".into(),
            ExitKind::Configuration
        )
    );
    fs::remove_file(&path).unwrap();
    assert_eq!(
        failure(dir.path(), dir.path(), &options).0,
        "input.mask: DIR/mask.png: No such file or directory (os error 2)"
    );
}

#[test]
fn keys_that_fit_no_drive() {
    let dir = picture_drive(|_, _| 0);
    let crop = |x, y, width, height| {
        move |o: &mut DriveOptions| {
            o.input.crop = Some(Crop {
                x,
                y,
                width,
                height,
            });
        }
    };
    type Change = Box<dyn Fn(&mut DriveOptions)>;
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(crop(3, 0, 8, 8)),
            "input.crop: 8x8 px at (3, 0) reach out of a picture of 10x8 px",
        ),
        (
            Box::new(crop(usize::MAX, 0, 8, 8)),
            "input.crop: 8x8 px at (18446744073709551615, 0) reach out of a picture of 10x8 px",
        ),
        (
            Box::new(crop(0, 0, 0, 8)),
            "input.crop: 0x8 px has no pixels",
        ),
        (
            Box::new(|o| o.input.scale_down = 9),
            "input.scale_down: 9, expected 1 to 8",
        ),
        (
            Box::new(|o| o.input.scale_down = 0),
            "input.scale_down: 0, expected 1 to 8",
        ),
        (
            Box::new(move |o| {
                crop(0, 0, 3, 8)(o);
                o.input.scale_down = 4;
            }),
            "input.scale_down: 4 leaves nothing of 10x8 px",
        ),
        (
            Box::new(|o| o.input.shift_bits = 16),
            "input.shift_bits: 16, expected 0 to 15",
        ),
        (
            Box::new(|o| o.input.mask = Some(MaskSource::Polygon(vec![[0.0; 2]; 2]))),
            "input.mask: a polygon of 2 points, expected 3 or more",
        ),
        (
            Box::new(|o| o.input.mask = Some(MaskSource::Polygon(vec![[f64::NAN, 0.0]; 3]))),
            "input.mask: a point at [NaN, 0], expected -1000000 to 1000000",
        ),
        (
            Box::new(|o| o.source.rate_hz = 0.0),
            "source.rate_hz: 0, expected 0.001 to 10000",
        ),
        (
            Box::new(|o| o.source.rate_hz = f64::NAN),
            "source.rate_hz: NaN, expected 0.001 to 10000",
        ),
        (
            Box::new(|o| o.source.disparity_scale = Some(-1.0)),
            "source.disparity_scale: -1, expected above 0 and up to 256 px a unit",
        ),
    ];
    for (change, text) in cases {
        let mut options = with_camera();
        change(&mut options);
        let expected = (text.to_string(), ExitKind::Configuration);
        assert_eq!(failure(dir.path(), dir.path(), &options), expected);
    }
}

#[test]
fn configuration_in_toml() {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        input: roadloop::source::InputConfig,
        #[serde(default)]
        source: roadloop::source::SourceConfig,
    }
    let text = "[input]\ncrop = { x = 1, y = 2, width = 3, height = 4 }\nscale_down = 2\n\
                mask = [[0, 1], [2.5, 3], [4, 5]]\nshift_bits = 4\n\
                [source]\nrate_hz = 20\npair = \"colour\"\ndisparity_scale = 0.5\n";
    let file: File = toml::from_str(text).unwrap();
    assert_eq!(file.input.crop.unwrap().height, 4);
    let polygon = vec![[0.0, 1.0], [2.5, 3.0], [4.0, 5.0]];
    assert_eq!(file.input.mask, Some(MaskSource::Polygon(polygon)));
    assert_eq!((file.input.scale_down, file.input.shift_bits), (2, 4));
    assert_eq!(file.source.rate_hz, 20.0);
    assert_eq!(file.source.pair, Some(CameraPair::Colour));
    assert_eq!(file.source.disparity_scale, Some(0.5));
    let mask = |text: &str| toml::from_str::<File>(text).map(|f| f.input.mask);
    assert_eq!(
        mask("[input]\nmask = \"bonnet.png\"").unwrap(),
        Some(MaskSource::Picture("bonnet.png".into()))
    );
    assert!(matches!(
        mask("[input]\nmask = [[[0, 0], [1, 0], [0, 1]]]").unwrap(),
        Some(MaskSource::Polygons(_))
    ));
    assert!(mask("[input]\nmsak = 1").is_err());
    let text = mask("[input]\nmask = 1").unwrap_err().to_string();
    assert!(
        text.contains("expected a file name, a polygon [[x, y], ...] or a list of polygons"),
        "{text}"
    );
    let file: File = toml::from_str("").unwrap();
    assert_eq!((file.input.shift_bits, file.input.scale_down), (8, 1));
    assert_eq!(file.source.rate_hz, 10.0);
}

/// The stored disparities of a drive's frames.
fn disparities(drive: &Drive) -> Vec<Result<Image<u16>, Gap>> {
    let mut seen = Vec::new();
    visit(drive, |item| {
        seen.push(match item {
            Ok(set) => {
                let set = set.stereo.as_ref().unwrap();
                assert!(set.right.is_none());
                Ok(set.stored_disparity.clone().unwrap())
            }
            Err((_, gap)) => Err(gap),
        });
    });
    seen
}

#[test]
fn stored_disparities_in_sixteen_bits() {
    let dir = folder();
    grey(&dir.path().join("left/7.png"), 0);
    deep(&dir.path().join("d/000007_10.pgm"), |x, y| {
        [0, 1, 256, 65_534, 65_535][(x + y) % 5]
    });
    let mut options = with_camera();
    options.disparity = Some(dir.path().join("d"));
    let drive = open(dir.path(), &options);
    let segment = stereo(&drive);
    assert!(!segment.has_right && segment.stored_disparity);
    assert!(describe(&drive).contains("pictures     10x8, grey, stored disparities\n"));
    let first = disparities(&drive)[0].clone().unwrap();
    assert_eq!(first.row(0)[..5], [0xFFFF, 1, 256, 65_534, 0xFFFF]);
    options.zero_is_measured = true;
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    assert_eq!(first.row(0)[..5], [0, 1, 256, 65_534, 0xFFFF]);
}

#[test]
fn stored_disparities_cropped_and_scaled() {
    let dir = folder();
    grey(&dir.path().join("left/0.png"), 0);
    let rows: [[u16; 6]; 2] = [[100, 200, 0, 0, 0, 7], [300, 901, 0, 50, 0, 9]];
    deep(&dir.path().join("d/0.pgm"), |x, y| {
        if (1..3).contains(&y) && (2..8).contains(&x) {
            rows[y - 1][x - 2]
        } else {
            9999
        }
    });
    let mut options = with_camera();
    options.disparity = Some(dir.path().join("d"));
    options.input.crop = Some(Crop {
        x: 2,
        y: 1,
        width: 6,
        height: 2,
    });
    options.input.scale_down = 2;
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    // The lower median 200 by 2; one of four is too few; 7 by 2 is 3.5, half up.
    assert_eq!(first, Image::from_vec(3, 1, vec![100, 0xFFFF, 4]).unwrap());
    options.zero_is_measured = true;
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    assert_eq!(first, Image::from_vec(3, 1, vec![100, 0, 0]).unwrap());
}

#[test]
fn stored_disparities_in_eight_bits_need_their_scale() {
    let dir = folder();
    grey(&dir.path().join("left/1.png"), 0);
    grey(&dir.path().join("left/2.png"), 0);
    grey(&dir.path().join("left/3.png"), 0);
    grey(&dir.path().join("d/1.png"), 3);
    sized(&dir.path().join("d/3.png"), 9, 8, 3);
    let mut options = with_camera();
    options.disparity = Some(dir.path().join("d"));
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "source.disparity_scale: DIR/d/1.png is 8-bit; state how many px of disparity one \
             unit stands for"
                .into(),
            ExitKind::Configuration
        )
    );
    options.source.disparity_scale = Some(0.5);
    let drive = open(dir.path(), &options);
    assert_eq!(
        disparities(&drive),
        [
            Ok(Image::filled(10, 8, 384)),
            Err(Gap::Missing),
            Err(Gap::SizeChanged)
        ]
    );
    options.source.disparity_scale = Some(256.0);
    let first = disparities(&open(dir.path(), &options))[0].clone().unwrap();
    assert_eq!(first.get(0, 0), 0xFFFE);
    colour(&dir.path().join("d/1.png"), [1; 3]);
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "DIR/d/1.png: RGB; stored disparities are 16-bit grey (1/256 px) or 8-bit grey".into(),
            ExitKind::Data
        )
    );
    fs::remove_file(dir.path().join("d/1.png")).unwrap();
    assert_eq!(
        failure(dir.path(), dir.path(), &options),
        (
            "no first frame: DIR/d/1.png is missing".into(),
            ExitKind::NoInput
        )
    );
    options.disparity = Some(dir.path().join("e"));
    let (text, exit) = failure(dir.path(), dir.path(), &options);
    assert_eq!(text, "DIR/e: No such file or directory (os error 2)");
    assert_eq!(exit, ExitKind::NoInput);
}

#[test]
fn real_stored_disparities() {
    if let Some(path) = common::data("sgm_reference") {
        let mut options = with_camera();
        let drive = open(&path, &options);
        assert_eq!((drive.kind(), drive.total()), (DriveKind::Plain, 2));
        assert_eq!(stereo(&drive).size, Size::new(1280, 480));
        options.disparity = Some(path.join("disparities"));
        options.source.disparity_scale = Some(1.0);
        assert!(
            disparities(&open(&path, &options))
                .iter()
                .all(Result::is_ok)
        );
        options.camera = None;
        let error = Drive::open(&path, &options).unwrap_err();
        assert!(
            matches!(error, SourceError::NoCalibration { .. }),
            "{error}"
        );
    }
    if let Some(path) = common::data("stixel_reference") {
        let options = DriveOptions {
            disparity: Some(path.join("disparities")),
            ..with_camera()
        };
        let drive = open(&path, &options);
        assert_eq!(drive.frames()[0].id.number, 2);
        let first = disparities(&drive)[0].clone().unwrap();
        assert_eq!(first.size(), Size::new(1024, 768));
    }
}
