//! Line and camera: from one to the other with `+ - * / sqrt` alone, in this order.
use crate::frame::{Camera, Road, RoadOrigin};

/// A ground line as slope (px per row) and horizon row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub slope: f64,
    pub horizon: f64,
}

impl Line {
    /// The line that a camera of this height and pitch sees. For plans: uses the host's tables.
    pub fn of_camera(camera: &Camera, height_m: f64, pitch_rad: f64) -> Self {
        Self {
            slope: camera.baseline_m / height_m * libm::cos(pitch_rad),
            horizon: camera.cy - camera.focal_px * libm::tan(pitch_rad),
        }
    }

    /// Tangent of the pitch.
    pub fn tan_pitch(&self, camera: &Camera) -> f64 {
        (camera.cy - self.horizon) / camera.focal_px
    }

    /// Camera height, m.
    pub fn height_m(&self, camera: &Camera) -> f64 {
        let t = self.tan_pitch(camera);
        camera.baseline_m / (self.slope * (1.0 + t * t).sqrt())
    }

    /// The same as a result.
    pub fn road(&self, camera: &Camera, confidence: f64, origin: RoadOrigin) -> Road {
        Road {
            slope: self.slope as f32,
            offset: (-self.slope * self.horizon) as f32,
            horizon_row: self.horizon as f32,
            pitch_rad: atan(self.tan_pitch(camera)) as f32,
            camera_height_m: self.height_m(camera) as f32,
            confidence: confidence as f32,
            origin,
        }
    }
}

/// Arc tangent for `|t| < 1e150`: the angle is halved four times,
/// `tan(a/2) = t / (1 + sqrt(1 + t^2))`, then the series to the 9th power.
///
/// Exact to 1e-13 for `|t| <= 1` (the series' argument is at most 0.0491 there, its first term
/// left out 3.7e-16, times 16) and to 2e-11 for any `t`.
pub(super) fn atan(t: f64) -> f64 {
    let mut u = t;
    for _ in 0..4 {
        u = u / (1.0 + (1.0 + u * u).sqrt());
    }
    let s = u * u;
    16.0 * (u * (1.0 + s * (-1.0 / 3.0 + s * (1.0 / 5.0 + s * (-1.0 / 7.0 + s * (1.0 / 9.0))))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atan_keeps_its_stated_accuracy() {
        for i in -4000..=4000 {
            let t = f64::from(i) / 4000.0;
            assert!((atan(t) - libm::atan(t)).abs() < 1e-13, "{t}");
            let t = t * 1e5;
            assert!((atan(t) - libm::atan(t)).abs() < 2e-11, "{t}");
        }
        assert_eq!(atan(0.0), 0.0);
    }

    #[test]
    fn camera_to_line_and_back() {
        let camera = Camera {
            focal_px: 707.0,
            cx: 600.0,
            cy: 183.0,
            baseline_m: 0.537,
        };
        for (h, a) in [(1.65, 0.0), (1.2, 0.2), (3.4, -0.115)] {
            let line = Line::of_camera(&camera, h, a);
            assert!((line.height_m(&camera) - h).abs() < 1e-12);
            assert!((atan(line.tan_pitch(&camera)) - a).abs() < 1e-10);
            // Looking down lifts the horizon.
            assert_eq!(a > 0.0, line.horizon < camera.cy);
        }
    }
}
