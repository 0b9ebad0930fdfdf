//! Formats that describe one camera at a time: Kalibr (several in a file), EuRoC, ROS.
use std::path::Path;

use nalgebra::{Matrix3, Vector3};

use super::{
    checks::{self, At},
    kitti::size_of,
    yaml::{Doc, Entry, Value},
};
use crate::{
    calib::{CalibError, Distortion, Format, Given, Lens, Pair, RawPair, Rig},
    frame::Size,
    recording::message::CameraInfo,
};

/// One camera of a rig.
pub(super) struct Single<'a> {
    pub format: Format,
    /// Where its place in the rig stands.
    at: At<'a>,
    lens: Lens,
    size: Option<Size>,
    place: Place<'a>,
}

enum Place<'a> {
    /// EuRoC: rotation and translation from the camera to the body.
    Body(Matrix3<f64>, Vector3<f64>),
    /// ROS: rotation to the rectified camera, its projection matrix.
    Rectified(Matrix3<f64>, [f64; 12], At<'a>),
}

pub(super) fn euroc<'a>(doc: Doc<'a>) -> Result<Single<'a>, CalibError> {
    let t = doc.need(&["T_BS"], "a 4 x 4 transform from the camera to the body")?;
    let at = At::of(&t);
    let (rotation, translation) = checks::transform(&at, &t.matrix(4, 4)?)?;
    Ok(Single {
        format: Format::Euroc,
        at,
        lens: pinhole_lens(doc)?,
        size: resolution(doc)?,
        place: Place::Body(rotation, translation),
    })
}

pub(super) fn ros<'a>(doc: Doc<'a>) -> Result<Single<'a>, CalibError> {
    let k = doc.need(&["camera_matrix", "K", "k"], "a 3 x 3 matrix")?;
    let pinhole = checks::camera_matrix(&At::of(&k), &k.matrix(3, 3)?)?;
    let distortion = named_distortion(doc, &["distortion_coefficients", "D", "d"])?;
    let rotation = match doc.find(&["rectification_matrix", "R", "r"]) {
        Some(r) => checks::rotation(&At::of(&r), &r.matrix(3, 3)?)?,
        None => Matrix3::identity(),
    };
    let p = doc.need(
        &["projection_matrix", "P", "p"],
        "the 3 x 4 matrix of a stereo calibration (P[0,3] of the right camera is -fx B)",
    )?;
    let side = |names: &[&str]| doc.find(names).map(|e| e.count()).transpose();
    let size = match (
        side(&["image_width", "width"])?,
        side(&["image_height", "height"])?,
    ) {
        (Some(w), Some(h)) => Some(Size::new(w, h)),
        _ => None,
    };
    Ok(Single {
        format: Format::RosCameraInfo,
        at: At::of(&p),
        lens: Lens {
            pinhole,
            distortion,
        },
        size,
        place: Place::Rectified(rotation, p.matrix(3, 4)?, At::of(&p)),
    })
}

/// The rig of two cameras that messages describe, of these `topics` in `file`. `rectified`: their
/// pictures have been rectified, and only the projection matrices count.
///
/// # Errors
/// With the topic and the field, what was found and what was expected.
pub fn of_camera_infos(
    file: &Path,
    topics: [&str; 2],
    infos: [&CameraInfo; 2],
    rectified: bool,
) -> Result<Rig, CalibError> {
    let at = |i: usize, field: &str| At {
        file,
        key: format!("{} {field}", topics[i]),
    };
    let ats = [at(0, "P"), at(1, "P")];
    let [left, right] = infos.map(|info| (info.size.area() > 0).then_some(info.size));
    let size = checks::common_size(&ats[1], left, right)?;
    if rectified {
        let p = checks::projections([&ats[0], &ats[1]], [&infos[0].p, &infos[1].p], 1.0)?;
        return Ok(checks::rectified_rig(&p, size, Format::RosCameraInfo));
    }
    let single = |i: usize| -> Result<Single<'_>, CalibError> {
        let info = infos[i];
        // Drivers leave the name of an ideal lens empty, with or without zeros.
        let model = Some(info.distortion_model.as_str()).filter(|m| !m.is_empty());
        Ok(Single {
            format: Format::RosCameraInfo,
            at: ats[i].clone(),
            lens: Lens {
                pinhole: checks::camera_matrix(&at(i, "K"), &info.k)?,
                distortion: checks::distortion(&at(i, "D"), model, &info.d)?,
            },
            size,
            place: Place::Rectified(
                checks::rotation(&at(i, "R"), &info.r)?,
                info.p,
                ats[i].clone(),
            ),
        })
    };
    pair(single(0)?, single(1)?)
}

/// Both cameras as a rig.
pub(super) fn pair(left: Single<'_>, right: Single<'_>) -> Result<Rig, CalibError> {
    let at = right.at;
    let size = checks::common_size(&at, left.size, right.size)?;
    let lenses = [left.lens, right.lens];
    let raw = match (left.place, right.place) {
        (Place::Body(rl, tl), Place::Body(rr, tr)) => RawPair {
            lenses,
            rotation: rr.transpose() * rl,
            translation: rr.transpose() * (tl - tr),
            given: None,
        },
        (Place::Rectified(rl, pl, atl), Place::Rectified(rr, pr, atr)) => {
            let camera = checks::projections([&atl, &atr], [&pl, &pr], 1.0)?.camera;
            RawPair {
                lenses,
                rotation: rr.transpose() * rl,
                translation: rr.transpose() * Vector3::new(-camera.baseline_m, 0.0, 0.0),
                given: Some(Given {
                    rotations: [rl, rr],
                    camera,
                }),
            }
        }
        _ => {
            return Err(at.error(
                format!("a camera in the format {}", right.format.name()),
                format!("{} as the left camera", left.format.name()),
            ));
        }
    };
    checks::raw_rig(&at, raw, size, left.format)
}

pub(super) fn kalibr(doc: Doc<'_>, pair: Pair) -> Result<Rig, CalibError> {
    let names = pair.choose(["cam0", "cam1"], ["cam2", "cam3"], |name| doc.has(&[name]));
    let camera = |name: &'static str| -> Result<Entry<'_>, CalibError> {
        doc.need(&[name], "a camera with intrinsics")
    };
    let [left, right] = [camera(names[0])?, camera(names[1])?];
    let prefixes = names.map(|n| format!("{n}."));
    let [left, right] = [(&left, &prefixes[0]), (&right, &prefixes[1])].map(|(e, prefix)| Doc {
        file: doc.file,
        node: e.node,
        prefix,
    });
    let t = right.need(
        &["T_cn_cnm1"],
        "the 4 x 4 transform from the camera before to this one",
    )?;
    let at = At::of(&t);
    let (rotation, translation) = checks::transform(&at, &t.matrix(4, 4)?)?;
    let size = checks::common_size(&at, resolution(left)?, resolution(right)?)?;
    let raw = RawPair {
        lenses: [pinhole_lens(left)?, pinhole_lens(right)?],
        rotation,
        translation,
        given: None,
    };
    checks::raw_rig(&at, raw, size, Format::Kalibr)
}

/// `camera_model: pinhole`, `intrinsics: [fx, fy, cx, cy]` and a distortion.
fn pinhole_lens(doc: Doc<'_>) -> Result<Lens, CalibError> {
    if let Some(model) = doc.find(&["camera_model"])
        && model.text()? != "pinhole"
    {
        return Err(model.error(model.text()?, "pinhole"));
    }
    let k = doc.need(&["intrinsics"], "fx, fy, cx, cy")?;
    Ok(Lens {
        pinhole: checks::pinhole(&At::of(&k), k.vector()?)?,
        distortion: named_distortion(doc, &["distortion_coeffs", "distortion_coefficients"])?,
    })
}

pub(super) fn named_distortion(doc: Doc<'_>, keys: &[&str]) -> Result<Distortion, CalibError> {
    let model = doc.find(&["distortion_model"]);
    let name = model.as_ref().map(Entry::text).transpose()?;
    match doc.find(keys) {
        Some(d) => checks::distortion(&At::of(&d), name, &d.numbers()?.data),
        None => match &model {
            Some(model) => checks::distortion(&At::of(model), name, &[]),
            None => Ok(Distortion::None),
        },
    }
}

/// `resolution: [width, height]`.
pub(super) fn resolution(doc: Doc<'_>) -> Result<Option<Size>, CalibError> {
    doc.find(&["resolution", "image_size", "imageSize", "size"])
        .filter(|e| !matches!(e.node.value, Value::Scalar(_)))
        .map(|e| size_of(&At::of(&e), e.vector()?))
        .transpose()
}
