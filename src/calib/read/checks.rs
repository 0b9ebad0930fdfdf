//! What every format's numbers must satisfy.
use std::path::Path;

use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};

use super::yaml::Entry;
use crate::{
    calib::{CalibError, Distortion, Format, Given, Lens, Pinhole, RawPair, Rig, rig::Model},
    frame::{Camera, Size},
};

/// How far `R Rt` may be from 1, per element: files with three decimals pass.
const ORTHOGONAL: f64 = 2e-3;
/// How far two values may differ that are the same in truth, px.
const SAME_PX: f64 = 0.01;
/// Base lines outside of this are odd, m: a wrong unit, mostly.
const USUAL_BASELINE_M: std::ops::RangeInclusive<f64> = 0.01..=5.0;

/// A value's place, for messages.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    pub file: &'a Path,
    pub key: String,
}

impl<'a> At<'a> {
    pub fn of(entry: &Entry<'a>) -> Self {
        Self {
            file: entry.file,
            key: entry.label.clone(),
        }
    }

    pub fn error(&self, found: impl Into<String>, expected: impl Into<String>) -> CalibError {
        CalibError::value(self.file, self.key.clone(), found, expected)
    }
}

/// A camera matrix, row by row.
pub(super) fn camera_matrix(at: &At<'_>, m: &[f64; 9]) -> Result<Pinhole, CalibError> {
    let [fx, skew, cx, zero, fy, cy, ..] = *m;
    if m[6..] != [0.0, 0.0, 1.0] || zero != 0.0 {
        return Err(at.error(format!("{m:?}"), "[fx 0 cx, 0 fy cy, 0 0 1]"));
    }
    if skew.abs() > 1e-6 * fx.abs() {
        return Err(at.error(format!("skew {skew}"), "0"));
    }
    pinhole(at, [fx, fy, cx, cy])
}

/// `fx fy cx cy`.
pub(super) fn pinhole(at: &At<'_>, [fx, fy, cx, cy]: [f64; 4]) -> Result<Pinhole, CalibError> {
    let range = Camera::FOCAL_PX;
    if !(range.contains(&fx) && range.contains(&fy)) {
        return Err(at.error(
            format!("focal lengths {fx} and {fy}"),
            format!("focal lengths of {} to {} px", range.start(), range.end()),
        ));
    }
    let range = Camera::PRINCIPAL_PX;
    if !(range.contains(&cx) && range.contains(&cy)) {
        return Err(at.error(
            format!("principal point ({cx}, {cy})"),
            format!("one from {} to {} px", range.start(), range.end()),
        ));
    }
    Ok(Pinhole { fx, fy, cx, cy })
}

/// A rotation, row by row; what is left of rounding in the file is taken away.
pub(super) fn rotation(at: &At<'_>, m: &[f64; 9]) -> Result<Matrix3<f64>, CalibError> {
    let r = Matrix3::from_row_slice(m);
    let off = (r * r.transpose() - Matrix3::identity()).abs().max();
    let det = r.determinant();
    // Written so that what is not a number is refused too.
    if !(off <= ORTHOGONAL && det > 0.0) {
        return Err(at.error(
            format!("determinant {det:.4}, rows off orthonormal by {off:.2e}"),
            format!("a rotation (determinant 1, off by at most {ORTHOGONAL:.0e})"),
        ));
    }
    let exact = UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(r));
    let exact = UnitQuaternion::new_normalize(exact.into_inner());
    Ok(exact.to_rotation_matrix().into_inner())
}

/// A homogeneous transform, row by row, as rotation and translation.
pub(super) fn transform(
    at: &At<'_>,
    m: &[f64; 16],
) -> Result<(Matrix3<f64>, Vector3<f64>), CalibError> {
    if m[12..] != [0.0, 0.0, 0.0, 1.0] {
        return Err(at.error(format!("last row {:?}", &m[12..]), "0 0 0 1"));
    }
    let r = [m[0], m[1], m[2], m[4], m[5], m[6], m[8], m[9], m[10]];
    Ok((rotation(at, &r)?, Vector3::new(m[3], m[7], m[11])))
}

/// Coefficients of a model, by its name where the file states one, else by their number.
pub(super) fn distortion(
    at: &At<'_>,
    model: Option<&str>,
    k: &[f64],
) -> Result<Distortion, CalibError> {
    let brown = |k: &[f64]| -> Option<Distortion> {
        Some(match *k {
            [] => Distortion::None,
            [a, b, c, d] => Distortion::RadialTangential4([a, b, c, d]),
            [a, b, c, d, e] => Distortion::RadialTangential5([a, b, c, d, e]),
            [a, b, c, d, e, f, g, h] => Distortion::Rational8([a, b, c, d, e, f, g, h]),
            // Thin prism and tilt, which OpenCV appends, only where they do nothing.
            [a, b, c, d, e, f, g, h, ref rest @ ..]
                if matches!(rest.len(), 4 | 6) && rest.iter().all(|&r| r == 0.0) =>
            {
                Distortion::Rational8([a, b, c, d, e, f, g, h])
            }
            _ => return None,
        })
    };
    let name = model.map(|m| m.trim().to_ascii_lowercase().replace(['-', ' '], "_"));
    match name.as_deref() {
        None | Some("") => brown(k).ok_or("0, 4, 5 or 8 coefficients"),
        Some("none") if k.iter().all(|&k| k == 0.0) => Ok(Distortion::None),
        Some("none") => Err("no coefficients with distortion model none"),
        Some("plumb_bob" | "radtan" | "radial_tangential" | "brown" | "brown_conrady") => {
            match k.len() {
                0 | 4 | 5 => brown(k).ok_or("4 or 5 coefficients"),
                _ => Err("4 or 5 coefficients"),
            }
        }
        Some("rational_polynomial" | "rational") => {
            brown(k).ok_or("4, 5 or 8 coefficients (12 or 14 when the rest is 0)")
        }
        Some("equidistant" | "fisheye" | "equi") => <[f64; 4]>::try_from(k)
            .map(Distortion::Equidistant4)
            .map_err(|_| "4 coefficients"),
        Some(_) => {
            return Err(at.error(
                format!(
                    "distortion model {}",
                    super::yaml::excerpt(model.unwrap_or(""))
                ),
                "none, plumb_bob, radtan, radial-tangential, rational_polynomial or equidistant",
            ));
        }
    }
    .map_err(|expected| at.error(format!("{} coefficients {k:?}", k.len()), expected))
}

/// Two projection matrices of a rectified pair.
pub(super) struct Projections {
    pub camera: Camera,
    pinholes: [Pinhole; 2],
}

/// Reads two 3x4 projection matrices. The base line is `(P1[0,3] - P2[0,3]) / f` times `unit_m`.
pub(super) fn projections(
    at: [&At<'_>; 2],
    p: [&[f64; 12]; 2],
    unit_m: f64,
) -> Result<Projections, CalibError> {
    let one = |at: &At<'_>, p: &[f64; 12]| {
        pinhole(at, [p[0], p[5], p[2], p[6]]).and_then(|pinhole| {
            let off = [p[1], p[4], p[8], p[9]].iter().any(|&v| v != 0.0) || p[10] != 1.0;
            if off {
                let row = |i: usize| [p[i], p[i + 1], p[i + 2]];
                let found = format!("{:?} {:?} {:?}", row(0), row(4), row(8));
                return Err(at.error(found, "[f 0 cx, 0 f cy, 0 0 1] and a last column"));
            }
            Ok(pinhole)
        })
    };
    let [left, right] = [one(at[0], p[0])?, one(at[1], p[1])?];
    for (name, a, b) in [
        ("fx", left.fx, right.fx),
        ("fy", left.fy, right.fy),
        ("cy", left.cy, right.cy),
    ] {
        if (a - b).abs() > SAME_PX {
            return Err(at[1].error(
                format!("{name} {b}"),
                format!("{a} as in {}: rectified cameras share it", at[0].key),
            ));
        }
    }
    let baseline_m = (p[0][3] - p[1][3]) / left.fx * unit_m;
    if !(baseline_m > 0.0 && baseline_m.is_finite()) {
        return Err(at[1].error(
            format!(
                "base line {baseline_m:.4} m from {} = {} and {}",
                "P[0,3]", p[0][3], p[1][3]
            ),
            "one above 0: P[0,3] of the right camera is -f B (are left and right swapped?)",
        ));
    }
    check_baseline(at[1], baseline_m)?;
    let rise = ((p[0][7] - p[1][7]) / left.fy * unit_m).abs();
    if rise > 0.1 * baseline_m {
        return Err(at[1].error(
            format!("cameras {rise:.4} m apart along the columns"),
            format!("less than a tenth of the base line {baseline_m:.4} m"),
        ));
    }
    Ok(Projections {
        camera: Camera {
            focal_px: left.fx,
            cx: left.cx,
            cy: left.cy,
            baseline_m,
        },
        pinholes: [left, right],
    })
}

/// The rig of images that these matrices project to. Where both are not the one camera that
/// disparities need (pixels that are not square, different principal columns), the images are
/// resampled to it.
pub(super) fn rectified_rig(p: &Projections, size: Option<Size>, format: Format) -> Rig {
    let [left, right] = p.pinholes;
    let square = (left.fx - left.fy).abs() <= 1e-4 * left.fx;
    let level = (left.cx - right.cx).abs() <= SAME_PX;
    let model = if square && level {
        Model::Rectified(p.camera)
    } else {
        let lens = |pinhole| Lens {
            pinhole,
            distortion: Distortion::None,
        };
        Model::Raw(Box::new(RawPair {
            lenses: [lens(left), lens(right)],
            rotation: Matrix3::identity(),
            translation: Vector3::new(-p.camera.baseline_m, 0.0, 0.0),
            given: Some(Given {
                rotations: [Matrix3::identity(); 2],
                camera: p.camera,
            }),
        }))
    };
    let mut rig = Rig {
        model,
        size,
        format,
        warnings: Vec::new(),
    };
    if !square {
        rig.warnings.push(format!(
            "pixels are not square (fx {}, fy {}): images are resampled",
            left.fx, left.fy
        ));
    }
    if !level {
        rig.warnings.push(format!(
            "principal columns differ ({} and {}): the right image is moved so that disparity 0 is infinitely far",
            left.cx, right.cx
        ));
    }
    odd_baseline(&mut rig.warnings, p.camera.baseline_m);
    rig
}

/// The rig of raw cameras; `at` is where the translation stands.
pub(super) fn raw_rig(
    at: &At<'_>,
    pair: RawPair,
    size: Option<Size>,
    format: Format,
) -> Result<Rig, CalibError> {
    let t = pair.translation;
    let baseline = t.norm();
    if !(baseline > 0.0 && baseline.is_finite()) {
        return Err(at.error(
            format!("base line {baseline} m"),
            "cameras that stand apart",
        ));
    }
    check_baseline(at, baseline)?;
    // Direction from the left to the right centre, in the left camera.
    let towards = -(pair.rotation.transpose() * t) / baseline;
    if towards.x < 0.7 {
        let found = format!(
            "the second camera at ({:.3}, {:.3}, {:.3}) m of the first",
            towards.x * baseline,
            towards.y * baseline,
            towards.z * baseline
        );
        let expected = if towards.x < -0.7 {
            "it to the right (x > 0): are left and right swapped?"
        } else {
            "it to the right (x > 0) within 45 degrees: only side-by-side rigs are known"
        };
        return Err(at.error(found, expected));
    }
    // What R turns, without the half-way frame: more than this shares no view.
    if pair.rotation.trace() < 1.0 {
        return Err(at.error(
            "cameras turned by more than 90 degrees against each other",
            "cameras that look the same way",
        ));
    }
    let mut warnings = Vec::new();
    odd_baseline(&mut warnings, baseline);
    for (name, lens) in ["left", "right"].iter().zip(&pair.lenses) {
        let Pinhole { fx, fy, cx, cy } = lens.pinhole;
        if (fx - fy).abs() > 0.1 * fx {
            warnings.push(format!("{name} camera: fx {fx} and fy {fy} differ much"));
        }
        if let Some(size) = size
            && !((0.0..size.width as f64).contains(&cx) && (0.0..size.height as f64).contains(&cy))
        {
            warnings.push(format!(
                "{name} camera: principal point ({cx}, {cy}) outside the image of {size}"
            ));
        }
    }
    if let Some(given) = &pair.given {
        check_given(at, &pair, given, &mut warnings)?;
        let plain = |i: usize| {
            let Lens {
                pinhole: p,
                distortion,
            } = &pair.lenses[i];
            let c = &given.camera;
            let same = |a: f64, b: f64| (a - b).abs() <= SAME_PX;
            distortion.is_none()
                && (given.rotations[i] - Matrix3::identity()).abs().max() < 1e-6
                && same(p.fx, c.focal_px)
                && same(p.fy, c.focal_px)
                && same(p.cx, c.cx)
                && same(p.cy, c.cy)
        };
        if plain(0) && plain(1) {
            return Ok(Rig {
                model: Model::Rectified(given.camera),
                size,
                format,
                warnings,
            });
        }
    }
    Ok(Rig {
        model: Model::Raw(Box::new(pair)),
        size,
        format,
        warnings,
    })
}

/// A given rectification must undo R and lay T along the rows.
fn check_given(
    at: &At<'_>,
    pair: &RawPair,
    given: &Given,
    warnings: &mut Vec<String>,
) -> Result<(), CalibError> {
    let [r1, r2] = given.rotations;
    let rest = r2 * pair.rotation * r1.transpose();
    let turned = (rest - Matrix3::identity()).norm() / std::f64::consts::SQRT_2;
    let along = r2 * pair.translation;
    let tilt = (along.y * along.y + along.z * along.z).sqrt() / along.norm();
    let rows_px = turned.max(tilt) * given.camera.focal_px;
    if !(turned < 0.05 && tilt < 0.05 && along.x < 0.0) {
        return Err(at.error(
            format!(
                "R and T off the given rectification by {turned:.4} and {tilt:.4} rad, base line \
                 along {:.2} {:.2} {:.2}",
                -along.x, -along.y, -along.z
            ),
            "R1, R2 and P2 of the same calibration",
        ));
    }
    if rows_px > 0.5 {
        warnings.push(format!(
            "R and T don't agree with the given rectification: rows may differ by {rows_px:.2} px"
        ));
    }
    let ratio = given.camera.baseline_m / pair.translation.norm();
    if !(0.99..=1.01).contains(&ratio) {
        warnings.push(format!(
            "base line {:.4} m in the projection matrix, {:.4} m in T: the first is used",
            given.camera.baseline_m,
            pair.translation.norm()
        ));
    }
    Ok(())
}

fn check_baseline(at: &At<'_>, baseline_m: f64) -> Result<(), CalibError> {
    let range = Camera::BASELINE_M;
    if range.contains(&baseline_m) {
        return Ok(());
    }
    Err(at.error(
        format!("base line {baseline_m:?} m"),
        format!(
            "one of {} to {} m (OpenCV YAML: state `unit: mm` where it is)",
            range.start(),
            range.end()
        ),
    ))
}

fn odd_baseline(warnings: &mut Vec<String>, baseline_m: f64) {
    if !USUAL_BASELINE_M.contains(&baseline_m) {
        warnings.push(format!(
            "base line {baseline_m} m is unusual: is it in metres? (OpenCV YAML: state `unit: mm`)"
        ));
    }
}

/// The size of both cameras, which must be equal where both state it.
pub(super) fn common_size(
    at: &At<'_>,
    left: Option<Size>,
    right: Option<Size>,
) -> Result<Option<Size>, CalibError> {
    match (left, right) {
        (Some(l), Some(r)) if l != r => {
            Err(at.error(format!("size {r}"), format!("{l} as the left camera")))
        }
        _ => Ok(left.or(right)),
    }
}
