//! Metric geometry of the rectified camera: plain functions in f64.
//!
//! Camera frame: x right, y down, z forward, metres, origin in the left optical centre.
//! A rectified pair of focal length `f` and base line `B` sees a point at
//! `Z = f B / d`, `X = (x - cx) Z / f`, `Y = (y - cy) Z / f`.
//!
//! The road is the plane behind the line `d(row) = slope row + offset`. With
//! `c = (slope cy + offset) / f` it is `slope Y + c Z = B`: its distance from the camera is
//! `B / sqrt(slope^2 + c^2)`, and the camera looks down on it by `atan(c / slope)`
//! (Labayrade, Aubert and Tarel, IV 2002, without their approximation for small pitch).
use crate::frame::{Camera, Road};

/// The point that pixel `(x, y)` with `disparity_px` shows, `[X, Y, Z]` in m; `None` unless the
/// disparity is above 0.
pub fn point_m(camera: &Camera, x: f64, y: f64, disparity_px: f64) -> Option<[f64; 3]> {
    (disparity_px > 0.0).then(|| {
        let per_px = camera.baseline_m / disparity_px;
        [
            (x - camera.cx) * per_px,
            (y - camera.cy) * per_px,
            camera.focal_px * per_px,
        ]
    })
}

/// The pixel and disparity `[x, y, d]` that show a point, px: the inverse of [`point_m`]; `None`
/// unless it lies before the camera.
pub fn pixel_of(camera: &Camera, [x, y, z]: [f64; 3]) -> Option<[f64; 3]> {
    (z > 0.0).then(|| {
        let per_m = camera.focal_px / z;
        [
            x * per_m + camera.cx,
            y * per_m + camera.cy,
            camera.baseline_m * per_m,
        ]
    })
}

/// Depth `Z` of the ground at an image row, m; `None` at and above the horizon.
pub fn ground_depth_m(camera: &Camera, road: &Road, row: f64) -> Option<f64> {
    let d = road_disparity_px(road, row);
    (d > 0.0).then(|| camera.depth_m(d))
}

/// The image row at which the ground has depth `depth_m`; `None` unless the depth is above 0
/// and the road's slope is not 0.
pub fn ground_row(camera: &Camera, road: &Road, depth_m: f64) -> Option<f64> {
    let slope = f64::from(road.slope);
    (depth_m > 0.0 && slope != 0.0)
        .then(|| (camera.focal_px * camera.baseline_m / depth_m - f64::from(road.offset)) / slope)
}

/// Height above the road of what pixel row `row` with `disparity_px` shows, m, perpendicular to
/// the road; below it is negative. `None` unless disparity and slope are above 0.
///
/// `B (d - d_road(row)) / (d sqrt(slope^2 + c^2))`, with `c` as in the text of this module.
pub fn height_above_road_m(
    camera: &Camera,
    road: &Road,
    row: f64,
    disparity_px: f64,
) -> Option<f64> {
    (disparity_px > 0.0 && road.slope > 0.0).then(|| {
        camera_height_m(camera, f64::from(road.slope), f64::from(road.offset))
            * (disparity_px - road_disparity_px(road, row))
            / disparity_px
    })
}

/// Height of a stixel's upper edge (`top` is its first row, so the edge is at `top - 0.5`) above
/// the road, m; `None` as [`height_above_road_m`].
pub fn stixel_height_m(camera: &Camera, road: &Road, top: f64, disparity_px: f64) -> Option<f64> {
    height_above_road_m(camera, road, top - 0.5, disparity_px)
}

/// How tall rows `top..=base` are at `disparity_px`, m, along the image's y axis; `None` unless
/// the disparity is above 0. Needs no road.
pub fn extent_m(camera: &Camera, top: f64, base: f64, disparity_px: f64) -> Option<f64> {
    (disparity_px > 0.0).then(|| (base + 1.0 - top) * camera.baseline_m / disparity_px)
}

/// Height of the camera above the road of this line, m.
pub fn camera_height_m(camera: &Camera, slope: f64, offset: f64) -> f64 {
    let c = (slope * camera.cy + offset) / camera.focal_px;
    camera.baseline_m / (slope * slope + c * c).sqrt()
}

/// Pitch of the camera against the road of this line, rad, positive when it looks down.
pub fn pitch_rad(camera: &Camera, slope: f64, offset: f64) -> f64 {
    libm::atan2((slope * camera.cy + offset) / camera.focal_px, slope)
}

/// The road line `(slope, offset)` of a camera `height_m` above the ground that looks down by
/// `pitch_rad`: the inverse of [`camera_height_m`] and [`pitch_rad`].
pub fn road_line(camera: &Camera, height_m: f64, pitch_rad: f64) -> (f64, f64) {
    let norm = camera.baseline_m / height_m;
    let slope = norm * libm::cos(pitch_rad);
    let c = norm * libm::sin(pitch_rad);
    (slope, c * camera.focal_px - slope * camera.cy)
}

fn road_disparity_px(road: &Road, row: f64) -> f64 {
    f64::from(road.slope) * row + f64::from(road.offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RoadOrigin;

    const CAMERA: Camera = Camera {
        focal_px: 700.0,
        cx: 600.0,
        cy: 180.0,
        baseline_m: 0.5,
    };

    fn road(slope: f64, offset: f64) -> Road {
        Road {
            slope: slope as f32,
            offset: offset as f32,
            horizon_row: (-offset / slope) as f32,
            pitch_rad: pitch_rad(&CAMERA, slope, offset) as f32,
            camera_height_m: camera_height_m(&CAMERA, slope, offset) as f32,
            confidence: 1.0,
            origin: RoadOrigin::Fixed,
        }
    }

    #[test]
    fn a_level_camera() {
        // d = B / h (row - cy): h = 0.5 / 0.25 = 2 m, horizon at the principal row.
        let road = road(0.25, -45.0);
        assert_eq!(camera_height_m(&CAMERA, 0.25, -45.0), 2.0);
        assert_eq!(pitch_rad(&CAMERA, 0.25, -45.0), 0.0);
        // Row 320 is 140 px below: d = 35 px, Z = 10 m.
        assert_eq!(ground_depth_m(&CAMERA, &road, 320.0), Some(10.0));
        assert_eq!(ground_row(&CAMERA, &road, 10.0), Some(320.0));
        assert_eq!(ground_depth_m(&CAMERA, &road, 180.0), None);
        // At 10 m a px is 1/70 m: what shows at row 180 is as high as the camera.
        assert_eq!(height_above_road_m(&CAMERA, &road, 180.0, 35.0), Some(2.0));
        assert_eq!(height_above_road_m(&CAMERA, &road, 320.0, 35.0), Some(0.0));
        assert_eq!(stixel_height_m(&CAMERA, &road, 180.5, 35.0), Some(2.0));
        assert_eq!(extent_m(&CAMERA, 251.0, 320.0, 35.0), Some(1.0));
        assert_eq!(height_above_road_m(&CAMERA, &road, 180.0, 0.0), None);
    }

    #[test]
    fn points_and_pixels_are_inverse() {
        assert_eq!(
            point_m(&CAMERA, 670.0, 110.0, 35.0),
            Some([1.0, -1.0, 10.0])
        );
        assert_eq!(
            pixel_of(&CAMERA, [1.0, -1.0, 10.0]),
            Some([670.0, 110.0, 35.0])
        );
        assert_eq!(point_m(&CAMERA, 0.0, 0.0, 0.0), None);
        assert_eq!(point_m(&CAMERA, 0.0, 0.0, f64::NAN), None);
        assert_eq!(pixel_of(&CAMERA, [0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn a_pitched_camera_sees_heights_perpendicular_to_the_road() {
        let (height, pitch) = (1.65, 0.05);
        let (slope, offset) = road_line(&CAMERA, height, pitch);
        assert!((camera_height_m(&CAMERA, slope, offset) - height).abs() < 1e-12);
        assert!((pitch_rad(&CAMERA, slope, offset) - pitch).abs() < 1e-12);
        let road = road(slope, offset);
        // A point 12 m ahead on the road and 3 m above it, turned into the camera's frame.
        let (up, ahead) = (3.0 - height, 12.0);
        let (s, c) = (libm::sin(pitch), libm::cos(pitch));
        let point = [0.4, -up * c - ahead * s, ahead * c - up * s];
        let [_, row, d] = pixel_of(&CAMERA, point).unwrap();
        let found = height_above_road_m(&CAMERA, &road, row, d).unwrap();
        assert!((found - 3.0).abs() < 1e-4, "{found}");
    }
}
