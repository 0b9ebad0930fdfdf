//! A synthetic drive as a folder, in the layout of KITTI's odometry drives.
//!
//! ```text
//! calib.txt               P0..P3; the images are those of P2 (left) and P3 (right)
//! times.txt               seconds, one a frame
//! speed.csv               timestamp_ns,speed_mps
//! image_2/ image_3/       left and right, RGB
//! mono/                   the mono camera, grey; mono/calib.txt has its P
//! truth/disparity/        16 bit, 1/256 px, 0 = none (sky)
//! truth/depth/            16 bit, 1/256 m along the optical axis, 0 = none or from 256 m
//! truth/labels/           8 bit, the ids of truth/classes.csv
//! truth/moving/           8 bit, 255 = a moving object
//! truth/classes.csv       id,name,r,g,b,stixel_class
//! truth/stixels.csv       columns of 5 px, in the format of a replay's stixels.csv
//! truth/logos.csv         frame,id,name,state,x0,y0,...,x3,y3,confidence (the visible fraction)
//! truth/logos_mono.csv    the same in the mono image
//! logos/NAME.png          the marks that vehicles carry, with transparency
//! truth/road.csv          frame,slope,offset,horizon_row,pitch_rad,camera_height_m
//! ```
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{
    Logo, MONO_LEFT_M, Options, Rendered, STIXEL_WIDTH, Street, SynthError, labels, marks, stixels,
};
use crate::files;
use crate::frame::png;
use crate::frame::{Camera, Class, INVALID, Image, Stixels};

/// Folders that a drive consists of.
const FOLDERS: [&str; 7] = [
    "image_2",
    "image_3",
    "mono",
    "truth/disparity",
    "truth/depth",
    "truth/labels",
    "truth/moving",
];

/// Height of the marks' pictures, px.
const MARK_HEIGHT: usize = 192;

/// What else lies there; with the folders, the names by which a drive is known.
const NAMES: [&str; 8] = [
    "image_2",
    "image_3",
    "mono",
    "logos",
    "truth",
    "calib.txt",
    "times.txt",
    "speed.csv",
];

/// What no recorded drive has.
const MARKERS: [&str; 2] = ["truth/classes.csv", "speed.csv"];

const README: &str = "\
Truth of a synthetic drive, made by `roadloop synth`. All of it belongs to the left image
(image_2) and to the pixels' centres.

disparity/   16-bit PNG, 1/256 px, 0 = none (sky)
depth/       16-bit PNG, 1/256 m along the optical axis, 0 = none (sky) or from 256 m
labels/      8-bit PNG, ids as in classes.csv
moving/      8-bit PNG, 255 = an object that moves at that instant, else 0
classes.csv  id, name, colour, and what a stixel there should be
stixels.csv  columns of 5 px; class by majority of the labels, objects cut at steps of depth
logos.csv    marks on vehicles: corners in px (upper left, upper right, lower right, lower left
             as one reads it), state visible or partial, confidence = fraction that can be seen
logos_mono.csv  the same in the mono image; the marks' pictures are in ../logos
road.csv     the road plane as d(row) = slope * row + offset in px; kerbs and pavements stand
             8 cm above it
";

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SynthError + '_ {
    |source| SynthError::Io {
        path: path.to_path_buf(),
        source,
    }
}

/// Makes `out` ready for a drive: refuses a folder with something in it unless `force`, which
/// removes the pictures of an earlier synthetic drive (its tables are replaced) and nothing else.
/// A folder with names of a drive in it that is no synthetic one is refused in any case.
///
/// # Errors
/// When the folder may not be used, or can't be read or cleared.
pub fn prepare(out: &Path, force: bool) -> Result<(), SynthError> {
    match fs::read_dir(out) {
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(());
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !files::present(out) => {
            return Ok(());
        }
        Err(_) if !out.is_dir() => return Err(SynthError::NotAFolder(out.to_path_buf())),
        Err(e) => return Err(io(out)(e)),
    }
    if !force {
        return Err(SynthError::NotEmpty(out.to_path_buf()));
    }
    let ours = |name: &&str| files::present(&out.join(name));
    let missing = MARKERS.into_iter().find(|name| !out.join(name).is_file());
    if let (Some(found), Some(marker)) = (NAMES.into_iter().find(ours), missing) {
        return Err(SynthError::NotOurs {
            path: out.to_path_buf(),
            found,
            marker,
        });
    }
    // Links would lead out of the folder.
    let real = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|m| m.is_dir());
    let folders = ["truth", "logos"]
        .into_iter()
        .chain(FOLDERS)
        .map(|name| out.join(name));
    for folder in folders.filter(|path| files::present(path)) {
        if !real(&folder) {
            return Err(SynthError::NotAFolder(folder));
        }
    }
    for folder in FOLDERS
        .map(|name| out.join(name))
        .iter()
        .filter(|p| real(p))
    {
        for entry in fs::read_dir(folder).map_err(io(folder))? {
            let path = entry.map_err(io(folder))?.path();
            let ours = path.extension().is_some_and(|e| e == "png")
                && path.file_stem().is_some_and(|stem| {
                    stem.len() == 6 && stem.as_encoded_bytes().iter().all(u8::is_ascii_digit)
                });
            if ours {
                fs::remove_file(&path).map_err(io(&path))?;
            }
        }
    }
    Ok(())
}

/// Draws a drive and writes it to `out`, which is made if need be. `progress` hears of the
/// frames written so far and of all.
///
/// # Errors
/// When the options are out of range or something can't be written; frames written before
/// that stay.
pub fn write_drive(
    options: &Options,
    out: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), SynthError> {
    let street = Street::new(options)?;
    for name in FOLDERS.into_iter().chain(["logos"]) {
        let path = out.join(name);
        fs::create_dir_all(&path).map_err(io(&path))?;
    }
    let text = |name: &str, text: &str| {
        let path = out.join(name);
        fs::write(&path, text).map_err(io(&path))
    };
    // First what --force knows a drive by, so that it also replaces one that was cut short.
    for name in MARKERS {
        text(name, "")?;
    }
    let camera = street.camera();
    text("calib.txt", &calib(&camera))?;
    text("mono/calib.txt", &line("P", &camera, MONO_LEFT_M))?;
    text("truth/classes.csv", &labels::classes_csv())?;
    text("truth/README.txt", README)?;
    for (name, picture, alpha) in marks(MARK_HEIGHT) {
        let path = out.join(format!("logos/{name}.png"));
        png::write_rgba(&path, &picture, &alpha).map_err(io(&path))?;
    }
    let mut tables = Tables::create(out)?;
    for frame in 0..options.frames {
        let rendered = street.render(frame);
        pictures(&rendered, out, frame)?;
        tables.add(&street, frame, &rendered)?;
        progress(frame + 1, options.frames);
    }
    Ok(())
}

fn pictures(r: &Rendered, out: &Path, frame: usize) -> Result<(), SynthError> {
    let path = |folder: &str| out.join(folder).join(format!("{frame:06}.png"));
    type Job<'a> = Box<dyn Fn(&Path) -> std::io::Result<()> + Send + Sync + 'a>;
    let jobs: [(PathBuf, Job<'_>); 7] = [
        (
            path(FOLDERS[0]),
            Box::new(|p| png::write_rgb(p, &r.left_rgb)),
        ),
        (
            path(FOLDERS[1]),
            Box::new(|p| png::write_rgb(p, &r.right_rgb)),
        ),
        (path(FOLDERS[2]), Box::new(|p| png::write_grey(p, &r.mono))),
        (
            path(FOLDERS[3]),
            Box::new(|p| png::write_disparity(p, &r.disparity)),
        ),
        // Depth has the same code: 16 bit, 0 = none; its own 0 must stay 0.
        (
            path(FOLDERS[4]),
            Box::new(|p| png::write_disparity(p, &none_as_invalid(&r.depth))),
        ),
        (
            path(FOLDERS[5]),
            Box::new(|p| png::write_grey(p, &r.labels)),
        ),
        (
            path(FOLDERS[6]),
            Box::new(|p| png::write_grey(p, &r.moving)),
        ),
    ];
    jobs.par_iter()
        .map(|(path, job)| job(path).map_err(io(path)))
        .collect()
}

fn none_as_invalid(depth: &Image<u16>) -> Image<u16> {
    Image::from_fn(depth.width(), depth.height(), |x, y| {
        match depth.get(x, y) {
            0 => INVALID,
            z => z,
        }
    })
}

/// A projection matrix of a camera `left` metres to the left of the left one.
fn line(name: &str, c: &Camera, left: f64) -> String {
    let (f, cx, cy) = (c.focal_px, c.cx, c.cy);
    format!("{name}: {f} 0 {cx} {} 0 {f} {cy} 0 0 0 1 0\n", f * left)
}

fn calib(camera: &Camera) -> String {
    let right = -camera.baseline_m;
    [("P0", 0.0), ("P1", right), ("P2", 0.0), ("P3", right)]
        .map(|(name, left)| line(name, camera, left))
        .concat()
}

/// The tables of a drive; they grow frame by frame, so that a drive cut short is whole up to
/// there.
struct Tables {
    times: Table,
    speed: Table,
    stixels: Table,
    logos: Table,
    mono_logos: Table,
    road: Table,
}

/// Columns of a table of logos.
const LOGOS: &str = "frame,id,name,state,x0,y0,x1,y1,x2,y2,x3,y3,confidence\n";

struct Table {
    path: PathBuf,
    file: File,
}

impl Table {
    fn create(out: &Path, name: &str, header: &str) -> Result<Self, SynthError> {
        let path = out.join(name);
        let file = File::create(&path).map_err(io(&path))?;
        let mut table = Self { path, file };
        table.append(header)?;
        Ok(table)
    }

    fn append(&mut self, text: &str) -> Result<(), SynthError> {
        self.file.write_all(text.as_bytes()).map_err(io(&self.path))
    }
}

impl Tables {
    fn create(out: &Path) -> Result<Self, SynthError> {
        let table = |name, header| Table::create(out, name, header);
        Ok(Self {
            times: table("times.txt", "")?,
            speed: table("speed.csv", "timestamp_ns,speed_mps\n")?,
            stixels: table(
                "truth/stixels.csv",
                "frame,column,x,width,class,top,base,disparity_px,depth_m,height_m,confidence\n",
            )?,
            logos: table("truth/logos.csv", LOGOS)?,
            mono_logos: table("truth/logos_mono.csv", LOGOS)?,
            road: table(
                "truth/road.csv",
                "frame,slope,offset,horizon_row,pitch_rad,camera_height_m\n",
            )?,
        })
    }

    fn add(&mut self, street: &Street, frame: usize, r: &Rendered) -> Result<(), SynthError> {
        let ego = street.ego(frame);
        let time = ego.timestamp.0;
        self.times.append(&format!("{:.6}\n", time as f64 / 1e9))?;
        self.speed
            .append(&format!("{time},{:.4}\n", ego.speed_mps))?;
        let list = stixels(&r.labels, &r.disparity, STIXEL_WIDTH);
        self.stixels
            .append(&stixel_rows(frame, &list, &street.camera()))?;
        self.logos.append(&logo_rows(frame, &r.logos))?;
        self.mono_logos.append(&logo_rows(frame, &r.mono_logos))?;
        let road = &r.road;
        self.road.append(&format!(
            "{frame},{:.8},{:.6},{:.5},{:.7},{:.4}\n",
            road.slope, road.offset, road.horizon_row, road.pitch_rad, road.camera_height_m
        ))
    }
}

fn logo_rows(frame: usize, list: &[Logo]) -> String {
    let mut text = String::new();
    for logo in list {
        let corners = logo.quad.map(|(x, y)| format!("{x:.3},{y:.3}")).join(",");
        let (id, name, state) = (logo.id, logo.name, logo.state.name());
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "{frame},{id},{name},{state},{corners},{:.3}",
            logo.visible
        );
    }
    text
}

fn stixel_rows(frame: usize, list: &Stixels, camera: &Camera) -> String {
    let mut text = String::new();
    let width = list.stixel_width();
    for u in 0..list.columns() {
        for s in list.column(u) {
            let place = format!("{frame},{u},{},{width},{}", u * width, s.class.name());
            // Writing to a String can't fail.
            let _ = write!(text, "{place},{},{}", s.top, s.base);
            let _ = match (s.class, s.disparity) {
                (Class::Sky, _) => writeln!(text, ",0.0000,,,1.000"),
                (_, INVALID) => writeln!(text, ",,,,1.000"),
                (_, d) => {
                    let d = f64::from(d) / 256.0;
                    let z = camera.depth_m(d.max(1.0 / 256.0));
                    let h = f64::from(s.base - s.top + 1) * z / camera.focal_px;
                    writeln!(text, ",{d:.4},{z:.3},{h:.3},1.000")
                }
            };
        }
    }
    text
}
