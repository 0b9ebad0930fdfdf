//! Do pictures become templates, do these survive a file, and is everything else refused with its
//! reason?
use std::{fs, path::Path};

use roadloop::{
    evaluate::logos::marks::MARKS,
    frame::{Image, png::write_grey},
    stage::logo::{
        BuildOptions, Params, Templates, TemplatesError,
        features::{FeatureParams, Mode},
        templates::Kind,
    },
};

fn options() -> BuildOptions {
    BuildOptions {
        heights: vec![96, 48],
        views: false,
        ..BuildOptions::default()
    }
}

/// A folder with the pictures of two marks, one of them with transparency.
fn pictures(dir: &Path) {
    for mark in [&MARKS[1], &MARKS[3]] {
        let (grey, alpha) = mark.picture(96);
        let path = dir.join(format!("{}.png", mark.name));
        if alpha.pixels().all(|a| *a == 255) {
            write_grey(&path, &grey).unwrap();
            continue;
        }
        let file = fs::File::create(path).unwrap();
        let mut encoder = png::Encoder::new(file, grey.width() as u32, grey.height() as u32);
        encoder.set_color(png::ColorType::GrayscaleAlpha);
        let bytes: Vec<u8> = grey
            .pixels()
            .zip(alpha.pixels())
            .flat_map(|(g, a)| [*g, *a])
            .collect();
        encoder
            .write_header()
            .unwrap()
            .write_image_data(&bytes)
            .unwrap();
    }
}

fn built() -> Templates {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path());
    // Neither of these is a picture of a logo.
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    fs::write(dir.path().join(".hidden.png"), "x").unwrap();
    Templates::build(dir.path(), &FeatureParams::default(), &options()).unwrap()
}

#[test]
fn a_folder_becomes_a_file_and_comes_back() {
    let templates = built();
    assert_eq!(
        templates.names().collect::<Vec<_>>(),
        ["brontek", "dunmarr"]
    );
    for t in templates.list() {
        assert!(t.points().len() >= 12);
        assert_eq!(t.points().len(), t.descriptors().len());
        assert_eq!(t.points().len(), t.groups().len());
        let a = t.aspect() as f32;
        for p in t.points() {
            assert!(
                p.x.abs() <= 0.5 * a + 1e-4 && p.y.abs() <= 0.5 + 1e-4,
                "{p:?}"
            );
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("logos.bin");
    templates.write(&path).unwrap();
    let back = Templates::read(&path).unwrap();
    assert_eq!(back.to_bytes(), templates.to_bytes());
    assert_eq!(back.kind(), Kind::of(&FeatureParams::default()));
    for (a, b) in templates.list().iter().zip(back.list()) {
        assert_eq!(a.points(), b.points());
        assert_eq!(a.descriptors(), b.descriptors());
        assert_eq!(a.groups(), b.groups());
        assert_eq!((a.name(), a.size()), (b.name(), b.size()));
    }
    // Over one that is there; nothing else is left behind.
    templates.write(&path).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // The same again gives the same bytes.
    assert_eq!(built().to_bytes(), fs::read(&path).unwrap());
}

#[test]
fn a_cut_file_is_refused_wherever_it_is_cut() {
    let bytes = built().to_bytes();
    let path = Path::new("logos.bin");
    let step = (bytes.len() / 200).max(1);
    for len in (0..64).chain((64..bytes.len()).step_by(step)) {
        let error = Templates::from_bytes(&bytes[..len], path).unwrap_err();
        assert!(error.to_string().starts_with("logos.bin: "), "{error}");
        match error {
            TemplatesError::Foreign { .. } => assert_eq!(len, 0),
            TemplatesError::Damaged { .. } => {}
            other => panic!("{len}: {other}"),
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let error = Templates::from_bytes(&longer, path).unwrap_err();
    let expected = format!(
        "logos.bin: damaged: {} bytes after the head, expected {}",
        longer.len() - 24,
        bytes.len() - 24
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_changed_byte_is_noticed() {
    let bytes = built().to_bytes();
    let path = Path::new("logos.bin");
    let step = (bytes.len() / 300).max(1);
    for at in (0..32).chain((32..bytes.len()).step_by(step)) {
        for bit in [0x01, 0x80] {
            let mut bytes = bytes.clone();
            bytes[at] ^= bit;
            let error = Templates::from_bytes(&bytes, path).unwrap_err();
            match at {
                0..8 => assert!(matches!(error, TemplatesError::Foreign { .. }), "{error}"),
                8..12 => assert!(matches!(error, TemplatesError::Version { .. }), "{error}"),
                _ => assert!(matches!(error, TemplatesError::Damaged { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn contents_that_pass_the_checksum_are_still_judged() {
    let bytes = built().to_bytes();
    let path = Path::new("logos.bin");
    // A payload of no sense, with a checksum that fits it.
    let forged = |payload: &[u8]| {
        let mut file = bytes[..12].to_vec();
        file.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        file.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
        file.extend_from_slice(payload);
        Templates::from_bytes(&file, path)
    };
    for payload in [
        &[][..],
        &[0; 40],
        &[0xFF; 40],
        &[0, 1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
    ] {
        let error = forged(payload).unwrap_err();
        assert!(matches!(error, TemplatesError::Damaged { .. }), "{error}");
    }
    // Every single byte of the real one changed in turn: an error or templates, never a panic.
    let payload = &bytes[24..];
    let step = (payload.len() / 400).max(1);
    for at in (0..200).chain((200..payload.len()).step_by(step)) {
        for value in [0, 0x7F, 0xFF] {
            let mut payload = payload.to_vec();
            payload[at] = value;
            let _ = forged(&payload);
        }
    }
}

#[test]
fn foreign_files_and_other_versions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let error = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let text = Templates::read(&path).unwrap_err().to_string();
        text.strip_prefix(&format!("{}: ", path.display()))
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        error(b"PNG, or so it says"),
        "not a file of logo templates (begins with \"PNG, or \")"
    );
    assert_eq!(
        error(b""),
        "not a file of logo templates (begins with nothing: it is empty)"
    );
    assert_eq!(error(b"RL-LO"), "damaged: 5 bytes, expected 24 or more");
    let mut bytes = built().to_bytes();
    bytes[8] = 9;
    assert_eq!(
        error(&bytes),
        "version 9, expected 1; build the templates again"
    );
    let missing = Templates::read(&dir.path().join("none")).unwrap_err();
    assert!(
        missing.to_string().contains("none: No such file"),
        "{missing}"
    );
    let folder = Templates::read(dir.path()).unwrap_err();
    assert!(
        folder.to_string().contains("not a file but a folder"),
        "{folder}"
    );
}

#[test]
fn pictures_that_can_not_be_templates_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let build = || {
        let error =
            Templates::build(dir.path(), &FeatureParams::default(), &options()).unwrap_err();
        let text = error.to_string();
        let start = format!("{}", dir.path().display());
        text.strip_prefix(&start)
            .expect("names the file")
            .to_owned()
    };
    assert_eq!(
        build(),
        ": found no PNG files, expected one picture a logo, named as the logo"
    );
    let one = |name: &str, image: &Image<u8>| {
        for entry in fs::read_dir(dir.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        write_grey(&dir.path().join(name), image).unwrap();
    };
    one("plain.png", &Image::filled(64, 64, 9));
    assert_eq!(
        build(),
        "/plain.png: 0 keypoints, expected at least 12; a larger picture, or one with more \
         contrast and detail, has more"
    );
    one("tiny.png", &Image::filled(8, 8, 9));
    assert_eq!(
        build(),
        "/tiny.png: 8x8, expected sides of 16 to 4096 px and at most 8 to 1 of them"
    );
    one("long.png", &Image::filled(900, 16, 9));
    assert!(build().starts_with("/long.png: 900x16, expected sides"));
    one("a,b.png", &Image::filled(64, 64, 9));
    assert!(build().starts_with("/a,b.png: the name is \"a,b\", expected 1 to 64"));
    fs::remove_file(dir.path().join("a,b.png")).unwrap();
    fs::write(dir.path().join("cut.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    assert!(build().starts_with("/cut.png: "));
    let none = Templates::build(
        &dir.path().join("none"),
        &FeatureParams::default(),
        &options(),
    );
    assert!(none.unwrap_err().to_string().contains("none: No such file"));
}

#[test]
fn templates_of_other_descriptors_make_no_plan() {
    use roadloop::{
        frame::{PixelKind, Size},
        stage::logo::cpu::Plan,
    };
    let templates = std::sync::Arc::new(built());
    let mut params = Params::default();
    params.features.oriented = false;
    let plan = Plan::new(&params, templates, PixelKind::Grey8, Size::new(64, 64));
    assert_eq!(
        plan.err().unwrap().to_string(),
        "logo.templates were built with mode = scale_space, oriented = true, scaled = true, \
         logo.features expects mode = scale_space, oriented = false, scaled = true; build them \
         again"
    );
    assert_eq!(params.features.mode, Mode::ScaleSpace);
}
