//! A calibration in words, for `roadloop check calib`.
use std::{
    fmt::{self, Write as _},
    path::Path,
};

use crate::{
    calib::{self, CalibError, Pair, RawPair, Rectification, Rig},
    frame::{Camera, Size},
};

/// What was understood of a calibration, for people; `right` where the rig is kept as one file a
/// camera and the second is not found beside the first. A KITTI file's colour pair follows the
/// grey one.
///
/// # Errors
/// When it can't be read or can't be true.
pub fn describe(path: &Path, right: Option<&Path>) -> Result<String, CalibError> {
    let first = match right {
        Some(right) => calib::read_pair(path, right),
        None => calib::read(path, Pair::First),
    };
    let mut text = format!("{}\n", path.display());
    let second = match right {
        Some(_) => None,
        None => calib::read(path, Pair::Second).ok(),
    };
    match (first, second) {
        (Ok(first), Some(second)) if first != second => {
            text.push_str("\ncameras 0 and 1\n");
            describe_rig(&mut text, &first)?;
            text.push_str("\ncameras 2 and 3\n");
            describe_rig(&mut text, &second)?;
        }
        (Ok(rig), _) => describe_rig(&mut text, &rig)?,
        (Err(_), Some(second)) => {
            text.push_str("\ncameras 2 and 3\n");
            describe_rig(&mut text, &second)?;
        }
        (Err(e), None) => return Err(e),
    }
    Ok(text)
}

fn describe_rig(text: &mut String, rig: &Rig) -> Result<(), CalibError> {
    let size = rig.image_size().or_else(|| likely_size(rig));
    let rectification = size.map(|size| rig.rectification(size)).transpose()?;
    // Writing to a String does not fail.
    let _ = lines(text, rig, rectification.as_ref());
    Ok(())
}

/// The size whose middle the principal point is, where the file states none.
fn likely_size(rig: &Rig) -> Option<Size> {
    let (cx, cy) = match (rig.rectified_camera(), rig.raw_pair()) {
        (Some(camera), _) => (camera.cx, camera.cy),
        (None, Some(pair)) => {
            let p = pair.lenses[0].pinhole;
            (p.cx, p.cy)
        }
        (None, None) => return None,
    };
    let side = |c: f64| (2.0 * c + 1.0).round();
    let fits = |v: f64| (1.0..=16_384.0).contains(&v);
    (fits(side(cx)) && fits(side(cy))).then(|| Size::new(side(cx) as usize, side(cy) as usize))
}

fn lines(text: &mut String, rig: &Rig, rectification: Option<&Rectification>) -> fmt::Result {
    writeln!(text, "format            {}", rig.format().name())?;
    match (rig.image_size(), rectification) {
        (Some(size), _) => writeln!(text, "image size        {size}")?,
        (None, Some(r)) => writeln!(
            text,
            "image size        not stated; figures below are for about {}",
            r.size
        )?,
        (None, None) => writeln!(text, "image size        not stated")?,
    }
    if let Some(pair) = rig.raw_pair() {
        writeln!(text, "images            raw, will be rectified")?;
        raw(text, pair)?;
    } else {
        writeln!(text, "images            rectified already")?;
    }
    if let (Some(pair), Some(r)) = (rig.raw_pair(), rectification) {
        rectified(text, pair, r)?;
    }
    let camera = rig
        .rectified_camera()
        .or_else(|| rectification.map(|r| r.camera));
    if let Some(c) = camera {
        metric(text, &c, rectification.map(|r| r.size))?;
    }
    for warning in rig.warnings() {
        writeln!(text, "WARNING           {warning}")?;
    }
    Ok(())
}

fn raw(text: &mut String, pair: &RawPair) -> fmt::Result {
    for (name, lens) in ["left camera ", "right camera"].iter().zip(&pair.lenses) {
        let p = lens.pinhole;
        writeln!(
            text,
            "{name}      fx {:.3} px, fy {:.3} px, cx {:.3}, cy {:.3}",
            p.fx, p.fy, p.cx, p.cy
        )?;
        write!(text, "  distortion      {}", lens.distortion.name())?;
        for k in lens.distortion.coefficients() {
            write!(text, " {k}")?;
        }
        writeln!(text)?;
    }
    let r = pair.rotation;
    let at = -(r.transpose() * pair.translation);
    writeln!(
        text,
        "right in left     x {:.4} m, y {:.4} m, z {:.4} m; turned by {:.3} degrees",
        at.x,
        at.y,
        at.z,
        angle(&r).to_degrees()
    )?;
    writeln!(text, "rotation          |R| = {:.6}", r.determinant())
}

fn rectified(text: &mut String, pair: &RawPair, r: &Rectification) -> fmt::Result {
    let (Some(views), Some(maps)) = (&r.views, &r.maps) else {
        return Ok(());
    };
    let how = match pair.given {
        Some(_) => "given by the file",
        None => "computed (Bouguet; only what both cameras see)",
    };
    let [left, right] = [0, 1].map(|i| angle(views[i].rotation()).to_degrees());
    writeln!(text, "rectification     {how}")?;
    writeln!(
        text,
        "                  turns the left camera by {left:.3}, the right one by {right:.3} degrees"
    )?;
    writeln!(
        text,
        "                  rows agree with R and T within {:.3} px",
        row_error(pair, r)
    )?;
    let outside = |i: usize| {
        let entries = maps[i].entries();
        let n = entries.pixels().filter(|&&e| e == calib::OUTSIDE).count();
        100.0 * n as f64 / r.size.area().max(1) as f64
    };
    writeln!(
        text,
        "                  not seen by the left camera {:.2} %, by the right one {:.2} %",
        outside(0),
        outside(1)
    )
}

fn metric(text: &mut String, c: &Camera, size: Option<Size>) -> fmt::Result {
    writeln!(
        text,
        "rectified camera  f {:.3} px, cx {:.3}, cy {:.3}",
        c.focal_px, c.cx, c.cy
    )?;
    writeln!(text, "base line         {:.4} m", c.baseline_m)?;
    if let Some(size) = size {
        // From edge to edge of the outermost pixels.
        let view = |side: usize, centre: f64| {
            let low = libm::atan((centre + 0.5) / c.focal_px);
            let high = libm::atan((side as f64 - 0.5 - centre) / c.focal_px);
            (low + high).to_degrees()
        };
        writeln!(
            text,
            "field of view     {:.1} x {:.1} degrees",
            view(size.width, c.cx),
            view(size.height, c.cy)
        )?;
    }
    let depth = |d: f64| c.depth_m(d);
    writeln!(
        text,
        "depth             {:.1} m at 1 px, {:.2} m at 64 px, {:.2} m at 128 px, {:.2} m at 256 px",
        depth(1.0),
        depth(64.0),
        depth(128.0),
        depth(256.0)
    )
}

/// By how many rows the rectified images of points far away and 20 base lines near differ at
/// most, on a grid over the image.
fn row_error(pair: &RawPair, r: &Rectification) -> f64 {
    let Some([left, right]) = &r.views else {
        return 0.0;
    };
    let c = &r.camera;
    let mut worst: f64 = 0.0;
    for i in 0..=8 {
        for j in 0..=8 {
            let x = f64::from(i) / 8.0 * (r.size.width as f64 - 1.0);
            let y = f64::from(j) / 8.0 * (r.size.height as f64 - 1.0);
            let ray = nalgebra::Vector3::new((x - c.cx) / c.focal_px, (y - c.cy) / c.focal_px, 1.0);
            for depth in [20.0, 1e6].map(|n| n * c.baseline_m) {
                let in_left = left.rotation().transpose() * ray * depth;
                let in_right = pair.rotation * in_left + pair.translation;
                let p = right.rotation() * in_right;
                if p.z > 0.0 {
                    worst = worst.max((c.focal_px * p.y / p.z + c.cy - y).abs());
                }
            }
        }
    }
    worst
}

/// The angle of a rotation, rad; exact for small ones too.
fn angle(r: &nalgebra::Matrix3<f64>) -> f64 {
    let (a, b, c) = (
        r[(2, 1)] - r[(1, 2)],
        r[(0, 2)] - r[(2, 0)],
        r[(1, 0)] - r[(0, 1)],
    );
    libm::atan2((a * a + b * b + c * c).sqrt(), r.trace() - 1.0)
}
