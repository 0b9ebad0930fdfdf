//! OpenCV `FileStorage` YAML of a stereo calibration.
use nalgebra::{Matrix3, Vector3};

use super::{
    checks::{self, At},
    single::{named_distortion, resolution},
    yaml::{Doc, Entry},
};
use crate::{
    calib::{CalibError, Distortion, Format, Given, Lens, RawPair, Rig},
    frame::Size,
};

const M: [&[&str]; 2] = [
    &["M1", "K1", "cameraMatrix1", "camera_matrix_1", "CM1"],
    &["M2", "K2", "cameraMatrix2", "camera_matrix_2", "CM2"],
];
const D: [&[&str]; 2] = [
    &["D1", "distCoeffs1", "dist_coeffs_1"],
    &["D2", "distCoeffs2", "dist_coeffs_2"],
];
const R: [&[&str]; 2] = [&["R1"], &["R2"]];
const P: [&[&str]; 2] = [&["P1"], &["P2"]];

/// What one file holds; OpenCV's own example keeps a rig in two.
#[derive(Default)]
pub(super) struct Parts<'a> {
    file: Option<&'a std::path::Path>,
    lenses: [Option<Lens>; 2],
    extrinsics: Option<(At<'a>, Matrix3<f64>, Vector3<f64>)>,
    rotations: [Option<Matrix3<f64>>; 2],
    projections: [Option<(At<'a>, [f64; 12])>; 2],
    q: Option<(At<'a>, [f64; 16])>,
    size: Option<Size>,
    unit_m: Option<f64>,
    warnings: Vec<String>,
}

/// Whether the file has any key of a stereo calibration.
pub(super) fn is_stereo(doc: &Doc<'_>) -> bool {
    [M, R, P].iter().flatten().any(|names| doc.has(names))
        || doc.has(&["Q"])
        || (doc.has(&["R"]) && doc.has(&["T"]))
}

pub(super) fn parts(doc: Doc<'_>) -> Result<Parts<'_>, CalibError> {
    let mut parts = Parts {
        file: Some(doc.file),
        size: size(doc)?,
        ..Parts::default()
    };
    let (unit_m, warning) = unit(doc)?;
    parts.unit_m = unit_m;
    parts.warnings.extend(warning);
    let scale = unit_m.unwrap_or(1.0);
    for i in 0..2 {
        if let Some(m) = doc.find(M[i]) {
            let pinhole = checks::camera_matrix(&At::of(&m), &m.matrix(3, 3)?)?;
            let distortion = match doc.find(D[i]) {
                Some(_) => named_distortion(doc, D[i])?,
                None => Distortion::None,
            };
            parts.lenses[i] = Some(Lens {
                pinhole,
                distortion,
            });
        }
        if let Some(r) = doc.find(R[i]) {
            parts.rotations[i] = Some(checks::rotation(&At::of(&r), &r.matrix(3, 3)?)?);
        }
        if let Some(p) = doc.find(P[i]) {
            parts.projections[i] = Some((At::of(&p), p.matrix(3, 4)?));
        }
    }
    if let Some(r) = doc.find(&["R"]) {
        let t = doc.need(&["T"], "3 numbers: the translation from left to right")?;
        let rotation = checks::rotation(&At::of(&r), &r.matrix(3, 3)?)?;
        let translation = Vector3::from(t.vector::<3>()?) * scale;
        parts.extrinsics = Some((At::of(&t), rotation, translation));
    }
    if let Some(q) = doc.find(&["Q"]) {
        parts.q = Some((At::of(&q), q.matrix(4, 4)?));
    }
    Ok(parts)
}

impl<'a> Parts<'a> {
    /// Whether it needs the other of two files.
    pub fn is_half(&self) -> bool {
        let lenses = self.lenses.iter().any(Option::is_some);
        let place = self.extrinsics.is_some() || self.rotations.iter().any(Option::is_some);
        let known = lenses || self.projections.iter().any(Option::is_some) || self.q.is_some();
        (lenses && !place) || !known || (self.extrinsics.is_some() && !lenses)
    }

    /// What is missing here is taken from the other file.
    pub fn or(self, other: Self) -> Self {
        let [l1, l2] = self.lenses;
        let [r1, r2] = self.rotations;
        let [p1, p2] = self.projections;
        let [m1, m2] = other.lenses;
        let [s1, s2] = other.rotations;
        let [q1, q2] = other.projections;
        Self {
            file: self.file,
            lenses: [l1.or(m1), l2.or(m2)],
            extrinsics: self.extrinsics.or(other.extrinsics),
            rotations: [r1.or(s1), r2.or(s2)],
            projections: [p1.or(q1), p2.or(q2)],
            q: self.q.or(other.q),
            size: self.size.or(other.size),
            unit_m: self.unit_m.or(other.unit_m),
            warnings: [self.warnings, other.warnings].concat(),
        }
    }

    pub fn rig(self) -> Result<Rig, CalibError> {
        let mut warnings = self.warnings.clone();
        let mut rig = self.build()?;
        warnings.append(&mut rig.warnings);
        rig.warnings = warnings;
        Ok(rig)
    }

    fn build(self) -> Result<Rig, CalibError> {
        let file = self.file.unwrap_or(std::path::Path::new(""));
        let unit_m = self.unit_m.unwrap_or(1.0);
        let given = match &self.projections {
            [Some((at1, p1)), Some((at2, p2))] => {
                Some(checks::projections([at1, at2], [p1, p2], unit_m)?)
            }
            [None, None] => None,
            [Some(_), None] => return Err(CalibError::missing(file, "P2", "a 3 x 4 matrix")),
            [None, Some(_)] => return Err(CalibError::missing(file, "P1", "a 3 x 4 matrix")),
        };
        let lenses = match self.lenses {
            [Some(left), Some(right)] => [left, right],
            [Some(_), None] => return Err(CalibError::missing(file, "M2", "a 3 x 3 matrix")),
            [None, Some(_)] => return Err(CalibError::missing(file, "M1", "a 3 x 3 matrix")),
            [None, None] => {
                let turned = self
                    .rotations
                    .iter()
                    .flatten()
                    .any(|r| (r - Matrix3::identity()).abs().max() > 1e-6);
                if turned || self.extrinsics.is_some() {
                    return Err(CalibError::missing(
                        file,
                        "M1",
                        "the camera matrices M1 and M2: R, T, R1 and R2 belong to raw images \
                         (OpenCV keeps them in intrinsics.yml; give both files)",
                    ));
                }
                return match (given, self.q) {
                    (Some(p), _) => Ok(checks::rectified_rig(&p, self.size, Format::OpenCv)),
                    (None, Some((at, q))) => from_q(&at, &q, unit_m, self.size),
                    (None, None) => Err(CalibError::missing(
                        file,
                        "M1",
                        "M1 D1 M2 D2 R T of raw images, or P1 P2 of rectified ones",
                    )),
                };
            }
        };
        let given = match (self.rotations, given) {
            ([Some(r1), Some(r2)], Some(p)) => Some(Given {
                rotations: [r1, r2],
                camera: p.camera,
            }),
            _ => None,
        };
        let (at, rotation, translation) = match (self.extrinsics, &given) {
            (Some(extrinsics), _) => extrinsics,
            (None, Some(Given { rotations, camera })) => {
                let [r1, r2] = rotations;
                let at = At {
                    file,
                    key: "P2".into(),
                };
                let t = Vector3::new(-camera.baseline_m, 0.0, 0.0);
                (at, r2.transpose() * r1, r2.transpose() * t)
            }
            (None, None) => {
                return Err(CalibError::missing(
                    file,
                    "R",
                    "R and T (OpenCV keeps them in extrinsics.yml; give both files), or R1 R2 P1 P2",
                ));
            }
        };
        let pair = RawPair {
            lenses,
            rotation,
            translation,
            given,
        };
        checks::raw_rig(&at, pair, self.size, Format::OpenCv)
    }
}

/// Rectified images of which only the reprojection matrix is kept:
/// `[1 0 0 -cx, 0 1 0 -cy, 0 0 0 f, 0 0 1/B (cx' - cx)/B]` up to sign of the last row's third.
fn from_q(at: &At<'_>, q: &[f64; 16], unit_m: f64, size: Option<Size>) -> Result<Rig, CalibError> {
    let (f, per) = (q[11], q[14].abs());
    if per == 0.0 {
        return Err(at.error(format!("Q[3,2] = {}", q[14]), "1 / base line"));
    }
    let shift = q[15] / per;
    let row = |cx: f64, last: f64| [f, 0.0, cx, last, 0.0, f, -q[7], 0.0, 0.0, 0.0, 1.0, 0.0];
    let (left, right) = (row(-q[3], 0.0), row(-q[3] + shift, -f / per));
    let p = checks::projections([at, at], [&left, &right], unit_m)?;
    Ok(checks::rectified_rig(&p, size, Format::OpenCv))
}

fn size(doc: Doc<'_>) -> Result<Option<Size>, CalibError> {
    let side = |names: &[&str]| doc.find(names).map(|e: Entry<'_>| e.count()).transpose();
    match (
        side(&["image_width", "width"])?,
        side(&["image_height", "height"])?,
    ) {
        (Some(w), Some(h)) => Ok(Some(Size::new(w, h))),
        _ => resolution(doc),
    }
}

/// Metres per unit of T and P2, and a warning where the unit is no length.
fn unit(doc: Doc<'_>) -> Result<(Option<f64>, Option<String>), CalibError> {
    let Some(entry) = doc.find(&["unit", "units"]) else {
        return Ok((None, None));
    };
    let text = entry.text()?.trim();
    let metres = match text.to_ascii_lowercase().as_str() {
        "m" | "metre" | "metres" | "meter" | "meters" => 1.0,
        "cm" | "centimetre" | "centimetres" | "centimeter" | "centimeters" => 0.01,
        "mm" | "millimetre" | "millimetres" | "millimeter" | "millimeters" => 0.001,
        _ => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => number,
            Ok(_) => {
                return Err(entry.error(text, "m, cm, mm or metres per unit, a number above 0"));
            }
            Err(_) => {
                let warning = format!(
                    "unit {text:?} is no known length: base line and depths are in it, not in \
                     metres (state m, cm, mm or metres per unit)"
                );
                return Ok((Some(1.0), Some(warning)));
            }
        },
    };
    Ok((Some(metres), None))
}
