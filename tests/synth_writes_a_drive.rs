//! Is what `synth` writes the whole drive, in the formats that are stated?
use std::path::Path;

use roadloop::frame::{INVALID, Size};
use roadloop::picture::{self, Picture};
use roadloop::source::synth::{Motion, Options, STIXEL_WIDTH, Street, marks, stixels, write};

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn folders_tables_and_pictures_hold_what_was_drawn() {
    let options = Options {
        frames: 3,
        seed: 5,
        size: Size::new(203, 87),
        motion: Motion::Drive,
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deep/drive");
    write::write_drive(&options, &out, &mut |_, _| {}).unwrap();
    let street = Street::new(&options).unwrap();
    let mut rows = 0;
    let mut logos = 0;
    let mut mono_logos = 0;
    for frame in 0..options.frames {
        let r = street.render(frame);
        let read =
            |folder: &str| picture::read(&out.join(format!("{folder}/{frame:06}.png"))).unwrap();
        assert_eq!(read("image_2"), Picture::Rgb8(r.left_rgb.clone()));
        assert_eq!(read("image_3"), Picture::Rgb8(r.right_rgb.clone()));
        assert_eq!(read("mono"), Picture::Grey8(r.mono.clone()));
        assert_eq!(read("truth/labels"), Picture::Grey8(r.labels.clone()));
        assert_eq!(read("truth/moving"), Picture::Grey8(r.moving.clone()));
        assert_eq!(read("truth/depth"), Picture::Grey16(r.depth.clone()));
        let Picture::Grey16(disparity) = read("truth/disparity") else {
            panic!("disparity is not 16 bit");
        };
        for (stored, drawn) in disparity.pixels().zip(r.disparity.pixels()) {
            assert_eq!(*stored, if *drawn == INVALID { 0 } else { *drawn });
        }
        rows += stixels(&r.labels, &r.disparity, STIXEL_WIDTH).total();
        logos += r.logos.len();
        mono_logos += r.mono_logos.len();
    }
    assert_eq!(
        lines(&out.join("times.txt")),
        ["0.000000", "0.100000", "0.200000"]
    );
    assert_eq!(
        lines(&out.join("speed.csv")),
        [
            "timestamp_ns,speed_mps",
            "0,9.0000",
            "100000000,9.0000",
            "200000000,9.0000"
        ]
    );
    assert_eq!(lines(&out.join("truth/stixels.csv")).len(), rows + 1);
    assert_eq!(lines(&out.join("truth/logos.csv")).len(), logos + 1);
    assert_eq!(
        lines(&out.join("truth/logos_mono.csv")).len(),
        mono_logos + 1
    );
    for (name, picture, _) in marks(192) {
        let read = picture::read(&out.join(format!("logos/{name}.png"))).unwrap();
        assert_eq!(read, Picture::Rgb8(picture));
    }
    assert_eq!(lines(&out.join("truth/road.csv")).len(), options.frames + 1);
    assert_eq!(
        lines(&out.join("truth/classes.csv"))[9],
        "8,pole,230,180,40,object"
    );
    assert_eq!(
        lines(&out.join("calib.txt"))[3],
        "P3: 117.74 0 101 -63.5796 0 117.74 38.7 0 0 0 1 0"
    );
}

#[test]
fn any_size_and_any_frame_can_be_drawn() {
    for (width, height) in [(16, 16), (17, 33), (400, 16), (16, 375), (31, 32)] {
        for motion in [Motion::Still, Motion::Drive, Motion::Mixed] {
            let options = Options {
                frames: 36_000,
                seed: 11,
                size: Size::new(width, height),
                motion,
            };
            let street = Street::new(&options).unwrap();
            for frame in [0, 399, 35_999] {
                let r = street.render(frame);
                assert_eq!(r.left_rgb.size(), options.size);
                assert_eq!(r.disparity.size(), options.size);
            }
        }
    }
}
