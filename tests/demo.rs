//! Does the demo show what roadloop does: all four results in one picture, in motion, and pages whose
//! links lead somewhere?
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn demo(out: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(["demo", "--out"])
        .arg(out)
        .args(args)
        .output()
        .unwrap()
}

#[track_caller]
fn refused(out: &Path, args: &[&str], says: &str) {
    let output = demo(out, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains(says), "no {says:?} in {said}");
}

/// Width, pixels row by row, and the number of pictures.
fn decoded(path: &Path) -> (usize, Vec<[u8; 3]>, u32) {
    let mut decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(path).unwrap()));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let width = reader.next_frame(&mut bytes).unwrap().width as usize;
    let pictures = reader.info().animation_control.map_or(1, |c| c.num_frames);
    (width, bytes.as_chunks::<3>().0.to_vec(), pictures)
}

#[test]
fn all_four_results_are_in_one_picture() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("demo");
    // Eight frames at the kerb: the foreground is learnt in six.
    let args = ["--size", "512x220", "--frames", "20", "--seconds", "1"];
    let output = demo(&out, &args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("index.html"), "{told}");

    // In the results.
    let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let summary: Value = serde_json::from_str(&text("results/summary.json")).unwrap();
    assert_eq!(summary["frames"], 20);
    assert_eq!(summary["labels"]["valid"], 20);
    assert!(summary["foreground"]["valid"].as_u64().unwrap() > 0);
    assert!(summary["foreground"]["driving"].as_u64().unwrap() > 0);
    assert!(text("results/logos.csv").contains(",tracked,"));
    assert!(text("results/stixels.csv").contains(",object,"));

    // In the picture: two cells of 512 columns, 4 between them, a line above each.
    let (width, pixels, pictures) = decoded(&out.join("tour.png"));
    assert_eq!((width, pictures), (1028, 1));
    let line = 21;
    let cell = |x: usize, y: usize| {
        let rows = (y + line..y + line + 220).map(move |y| y * width + x);
        let pixels = &pixels;
        rows.flat_map(move |from| pixels[from..from + 512].iter().copied())
            .collect::<Vec<_>>()
    };
    let count = |cell: &[[u8; 3]], is: fn([i32; 3]) -> bool| {
        let is = |p: &&[u8; 3]| is(p.map(i32::from));
        cell.iter().filter(is).count()
    };
    let [stixels, labels] = [cell(0, 0), cell(516, 0)];
    let [foreground, logos] = [cell(0, 220 + line), cell(516, 220 + line)];
    // Near objects are red to yellow, vehicles blue, what moves is red, an outline of a logo green;
    // the mono camera knows no colours of its own.
    let warm = |[r, _, b]: [i32; 3]| r - b > 60;
    let blue = |[r, _, b]: [i32; 3]| b - r > 60;
    let red = |[r, g, _]: [i32; 3]| r - g > 60;
    let green = |[r, g, b]: [i32; 3]| [r, g, b] == [70, 255, 120];
    assert!(count(&stixels, warm) > 5000, "{}", count(&stixels, warm));
    assert!(count(&labels, blue) > 2000, "{}", count(&labels, blue));
    let moving = count(&foreground, red);
    assert!(moving > 500, "{moving}");
    assert!(count(&logos, green) > 50, "{}", count(&logos, green));
    assert_eq!((count(&foreground, green), count(&logos, red)), (0, 0));
    assert!(fs::metadata(out.join("tour.png")).unwrap().len() < 400_000);
    assert_eq!(decoded(&out.join("tour.apng")).2, 20);

    // On the pages.
    let page = text("index.html");
    assert!(page.contains("src=\"tour.apng\""));
    let mut links = 0;
    for part in page.split("href=\"").skip(1) {
        let link = part.split('"').next().unwrap();
        assert!(out.join(link).exists(), "{link}");
        links += 1;
    }
    assert!(links >= 6, "{links}");
    assert!(text("latency.html").contains("whole frame"));

    // What is there is not replaced unasked.
    refused(
        &out,
        &args,
        "roadloop.toml: an earlier demo's, expected --force",
    );
    fs::write(out.join("roadloop.toml"), "[stereo]\n").unwrap();
    refused(&out, &["--force"], "roadloop.toml: it is no earlier demo's");
}

#[test]
fn what_is_no_demos_is_not_replaced_and_nothing_is_begun() {
    for name in ["tour.png", "street.forest", "index.html"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), "mine").unwrap();
        let says = format!("{name}: it is no earlier demo's, expected another --out");
        refused(dir.path(), &["--force"], &says);
        assert_eq!(fs::read(dir.path().join(name)).unwrap(), b"mine");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    let dir = tempfile::tempdir().unwrap();
    refused(dir.path(), &["--frames", "3"], "expected 4 or more");
}
