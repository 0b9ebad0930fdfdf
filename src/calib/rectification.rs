//! Stereo rectification after Bouguet (as described by Bradski and Kaehler, Learning OpenCV,
//! chapter 12): each camera is turned by half of the rotation between them, then both together
//! by the smallest rotation that lays the base line along the rows. No iteration, and no
//! function beyond the square root, so it gives the same bits on every platform.
use nalgebra::{Matrix3, Quaternion, Rotation3, UnitQuaternion, Vector3};

use super::{CalibError, Lens, OUTSIDE, Pinhole, RawPair, RectifyMap, Rig, rig::Model};
use crate::frame::{Camera, Size};

/// Beyond this tangent off the axis (60 degrees) a rectified image shows hardly anything but
/// stretched pixels: the view ends here at the latest.
const WIDEST: f64 = 1.732_050_807_568_877_2;

/// Maps are not made for more pixels: no camera has them, and a size may come from a file.
const LARGEST_AREA: usize = 1 << 26;

/// One camera's way from the rectified to the raw image and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    lens: Lens,
    limit: f64,
    /// Raw to rectified camera.
    rotation: Matrix3<f64>,
    /// Both images have it.
    camera: Camera,
}

impl View {
    fn new(lens: Lens, rotation: Matrix3<f64>, camera: Camera) -> Self {
        Self {
            lens,
            limit: lens.distortion.limit(),
            rotation,
            camera,
        }
    }

    /// Where a point of the rectified image lies in the raw one, px; it may lie outside of it.
    /// `None` behind the camera and beyond the lens's [limit](super::Distortion::limit).
    pub fn raw_of(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let Camera {
            focal_px, cx, cy, ..
        } = self.camera;
        let ray = Vector3::new((x - cx) / focal_px, (y - cy) / focal_px, 1.0);
        let [a, b] = normalised(self.rotation.tr_mul(&ray))?;
        if a * a + b * b > self.limit * self.limit {
            return None;
        }
        let [a, b] = self.lens.distortion.distort([a, b]);
        let Pinhole { fx, fy, cx, cy } = self.lens.pinhole;
        Some([fx * a + cx, fy * b + cy])
    }

    /// Where a point of the raw image lies in the rectified one, px. `None` when the lens can't
    /// have put it there, or it lies behind the rectified camera.
    pub fn rectified_of(&self, raw: [f64; 2]) -> Option<[f64; 2]> {
        let [a, b] = ray_of(&self.lens, self.limit, &self.rotation, raw)?;
        let Camera {
            focal_px, cx, cy, ..
        } = self.camera;
        Some([focal_px * a + cx, focal_px * b + cy])
    }

    /// The raw camera.
    pub fn lens(&self) -> &Lens {
        &self.lens
    }

    /// Rotation from the raw to the rectified camera.
    pub fn rotation(&self) -> &Matrix3<f64> {
        &self.rotation
    }
}

/// What a rig comes to for images of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Rectification {
    /// Size of the raw and of the rectified images.
    pub size: Size,
    /// The rectified camera.
    pub camera: Camera,
    /// Maps of the left and the right camera; `None` when the images are rectified already.
    pub maps: Option<[RectifyMap; 2]>,
    /// The same as functions; `None` when the images are rectified already.
    pub views: Option<[View; 2]>,
}

impl Rig {
    /// The rectified camera for images of `size` and, unless they are rectified already, the
    /// maps to them. Rectified images have the size of the raw ones.
    ///
    /// A rectification that the file gives is used; else it is computed after Bouguet, with the
    /// widest view that shows valid pixels of both cameras alone (as OpenCV's `alpha = 0`): the
    /// largest upright rectangle inside both cameras' outermost pixel centres, at one focal
    /// length, centred in the direction in which there is more than needed, and at most 60
    /// degrees off the axis.
    ///
    /// # Errors
    /// [`CalibError::ImageSize`] when the calibration states another size,
    /// [`CalibError::Unsupported`] for sizes that can't be mapped, [`CalibError::NoCommonView`].
    pub fn rectification(&self, size: Size) -> Result<Rectification, CalibError> {
        if let Some(expected) = self.size
            && expected != size
        {
            return Err(CalibError::ImageSize {
                found: size,
                expected,
            });
        }
        if self.size.is_none() {
            self.warn_of_other_size(size);
        }
        let pair = match &self.model {
            Model::Rectified(camera) => {
                return Ok(Rectification {
                    size,
                    camera: *camera,
                    maps: None,
                    views: None,
                });
            }
            Model::Raw(pair) => pair,
        };
        let supported = 1..=usize::from(u16::MAX);
        if !(supported.contains(&size.width) && supported.contains(&size.height))
            || size.area() > LARGEST_AREA
        {
            return Err(CalibError::Unsupported { found: size });
        }
        let (rotations, camera) = match &pair.given {
            Some(given) => (given.rotations, given.camera),
            None => {
                let rotations = bouguet(pair);
                (rotations, common_camera(pair, &rotations, size)?)
            }
        };
        let view = |i: usize| View::new(pair.lenses[i], rotations[i], camera);
        let views = [view(0), view(1)];
        let maps = [
            RectifyMap::new(&views[0], size),
            RectifyMap::new(&views[1], size),
        ];
        for (name, map) in ["left", "right"].iter().zip(&maps) {
            if map.entries().pixels().all(|&entry| entry == OUTSIDE) {
                return Err(CalibError::NoCommonView {
                    found: format!("no pixel of the rectified {name} image is in the raw one"),
                });
            }
        }
        Ok(Rectification {
            size,
            camera,
            maps: Some(maps),
            views: Some(views),
        })
    }

    /// A calibration that states no size can only be compared by its principal point.
    fn warn_of_other_size(&self, size: Size) {
        let (cx, cy) = match &self.model {
            Model::Rectified(c) => (c.cx, c.cy),
            Model::Raw(pair) => (pair.lenses[0].pinhole.cx, pair.lenses[0].pinhole.cy),
        };
        let middle = |c: f64, side: usize| {
            let side = side as f64;
            (0.25 * side..=0.75 * side).contains(&c)
        };
        if !(middle(cx, size.width) && middle(cy, size.height)) {
            log::warn!(
                "images are {size}, but the principal point is at ({cx:.1}, {cy:.1}): is the \
                 calibration for another size?"
            );
        }
    }
}

/// Rotations from the raw to the rectified cameras. The reader has checked that the right camera
/// stands to the right of the left one.
pub(super) fn bouguet(pair: &RawPair) -> [Matrix3<f64>; 2] {
    let between =
        UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(pair.rotation));
    let between = between.into_inner();
    let between = if between.w < 0.0 { -between } else { between };
    // q and 1 added and normalised is half of the rotation q.
    let half = UnitQuaternion::new_normalize(between + Quaternion::identity());
    // Direction from the left to the right centre, seen half-way.
    let base = -(half.inverse() * pair.translation).normalize();
    let level = turn(&base, &Vector3::x());
    [
        (level * half).to_rotation_matrix().into_inner(),
        (level * half.inverse()).to_rotation_matrix().into_inner(),
    ]
}

/// The smallest rotation that takes unit vector `a` to unit vector `b`; they don't oppose.
fn turn(a: &Vector3<f64>, b: &Vector3<f64>) -> UnitQuaternion<f64> {
    UnitQuaternion::new_normalize(Quaternion::from_parts(1.0 + a.dot(b), a.cross(b)))
}

fn common_camera(
    pair: &RawPair,
    rotations: &[Matrix3<f64>; 2],
    size: Size,
) -> Result<Camera, CalibError> {
    let mut x = [-WIDEST, WIDEST];
    let mut y = [-WIDEST, WIDEST];
    let [right, bottom] = [size.width as f64 - 1.0, size.height as f64 - 1.0];
    for (lens, rotation) in pair.lenses.iter().zip(rotations) {
        let limit = lens.distortion.limit();
        // A point without a ray lies beyond the lens's limit, further out than the view may go.
        let ray = |u: f64, v: f64| ray_of(lens, limit, rotation, [u, v]);
        for v in (0..size.height).map(|v| v as f64) {
            if let Some(p) = ray(0.0, v) {
                x[0] = x[0].max(p[0]);
            }
            if let Some(p) = ray(right, v) {
                x[1] = x[1].min(p[0]);
            }
        }
        for u in (0..size.width).map(|u| u as f64) {
            if let Some(p) = ray(u, 0.0) {
                y[0] = y[0].max(p[1]);
            }
            if let Some(p) = ray(u, bottom) {
                y[1] = y[1].min(p[1]);
            }
        }
    }
    // A single row or column has no extent and sets no focal length.
    let focal = |side: f64, range: [f64; 2]| side / (range[1] - range[0]);
    let open = |side: f64, range: [f64; 2]| range[1] > range[0] || (side == 0.0);
    if !(open(right, x) && open(bottom, y)) {
        return Err(CalibError::NoCommonView {
            found: format!(
                "x/z from {:.3} to {:.3}, y/z from {:.3} to {:.3}",
                x[0], x[1], y[0], y[1]
            ),
        });
    }
    let focal_px = match (right > 0.0, bottom > 0.0) {
        (true, true) => focal(right, x).max(focal(bottom, y)),
        (true, false) => focal(right, x),
        (false, true) => focal(bottom, y),
        (false, false) => pair.lenses[0].pinhole.fx,
    };
    Ok(Camera {
        focal_px,
        cx: 0.5 * right - focal_px * (0.5 * (x[0] + x[1])),
        cy: 0.5 * bottom - focal_px * (0.5 * (y[0] + y[1])),
        baseline_m: pair.translation.norm(),
    })
}

/// The rectified ray `[x / z, y / z]` of a point of a raw image.
fn ray_of(lens: &Lens, limit: f64, rotation: &Matrix3<f64>, [u, v]: [f64; 2]) -> Option<[f64; 2]> {
    let Pinhole { fx, fy, cx, cy } = lens.pinhole;
    let [a, b] = lens
        .distortion
        .undistort_within([(u - cx) / fx, (v - cy) / fy], limit)?;
    normalised(rotation * Vector3::new(a, b, 1.0))
}

fn normalised(ray: Vector3<f64>) -> Option<[f64; 2]> {
    (ray.z > 0.0).then(|| [ray.x / ray.z, ray.y / ray.z])
}
