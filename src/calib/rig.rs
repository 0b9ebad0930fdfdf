use nalgebra::{Matrix3, Vector3};

use super::Distortion;
use crate::frame::{Camera, Size};

/// How a file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Made by the program, from numbers.
    Numbers,
    /// KITTI projection matrices: `P0: ..`, or bare rows of twelve.
    KittiProjections,
    /// KITTI `calib_cam_to_cam.txt`.
    KittiCamToCam,
    /// OpenCV `FileStorage` YAML.
    OpenCv,
    /// Kalibr `camchain.yaml`.
    Kalibr,
    /// EuRoC `sensor.yaml`, one a camera.
    Euroc,
    /// ROS `camera_info`, one a camera.
    RosCameraInfo,
}

impl Format {
    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Numbers => "numbers",
            Format::KittiProjections => "KITTI projection matrices",
            Format::KittiCamToCam => "KITTI calib_cam_to_cam",
            Format::OpenCv => "OpenCV YAML",
            Format::Kalibr => "Kalibr camchain",
            Format::Euroc => "EuRoC sensor.yaml",
            Format::RosCameraInfo => "ROS camera_info",
        }
    }
}

/// A pinhole camera, all in px: `u = fx x / z + cx`, `v = fy y / z + cy`; pixel centres at whole
/// coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pinhole {
    /// Focal length in columns.
    pub fx: f64,
    /// Focal length in rows.
    pub fy: f64,
    /// Column of the principal point.
    pub cx: f64,
    /// Row of the principal point.
    pub cy: f64,
}

/// One camera as it is: pinhole and lens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lens {
    /// The pinhole.
    pub pinhole: Pinhole,
    /// The lens.
    pub distortion: Distortion,
}

/// A rectification that the file gives (OpenCV `R1 R2 P1 P2`, ROS `R P`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Given {
    /// Rotations from the raw to the rectified camera, left and right.
    pub rotations: [Matrix3<f64>; 2],
    /// The rectified camera. It is the left one's; the right one's principal column is not used:
    /// both images get the left one's, so that disparity 0 is infinitely far.
    pub camera: Camera,
}

/// Two cameras whose images must be rectified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawPair {
    /// Left and right camera.
    pub lenses: [Lens; 2],
    /// Rotation `R` of `x_right = R x_left + T`.
    pub rotation: Matrix3<f64>,
    /// Translation `T`, m.
    pub translation: Vector3<f64>,
    /// The rectification that came with them; computed where there is none.
    pub given: Option<Given>,
}

/// A stereo rig: two cameras and how they stand to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Rig {
    pub(super) model: Model,
    pub(super) size: Option<Size>,
    pub(super) format: Format,
    pub(super) warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Model {
    Rectified(Camera),
    Raw(Box<RawPair>),
}

impl Rig {
    /// A rig whose images are rectified already.
    pub fn rectified(camera: Camera) -> Self {
        Self {
            model: Model::Rectified(camera),
            size: None,
            format: Format::Numbers,
            warnings: Vec::new(),
        }
    }

    /// A rig whose images must be rectified, for images of `size` where known.
    pub fn raw(pair: RawPair, size: Option<Size>) -> Self {
        Self {
            model: Model::Raw(Box::new(pair)),
            size,
            format: Format::Numbers,
            warnings: Vec::new(),
        }
    }

    /// Whether its images are rectified already.
    pub fn is_rectified(&self) -> bool {
        matches!(self.model, Model::Rectified(_))
    }

    /// The camera of images that are rectified already; else see [`Rig::rectification`].
    pub fn rectified_camera(&self) -> Option<Camera> {
        match &self.model {
            Model::Rectified(camera) => Some(*camera),
            Model::Raw(_) => None,
        }
    }

    /// The two cameras, where the images must be rectified.
    pub fn raw_pair(&self) -> Option<&RawPair> {
        match &self.model {
            Model::Rectified(_) => None,
            Model::Raw(pair) => Some(pair),
        }
    }

    /// The image size that the file states, if it does.
    pub fn image_size(&self) -> Option<Size> {
        self.size
    }

    /// The format it was read from.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What is odd about it, one sentence each; none of it stops the program.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The rig of the images cut to `size` at `(x, y)`: principal points move by `(-x, -y)`.
    pub fn cropped(&self, x: usize, y: usize, size: Size) -> Self {
        let (x, y) = (x as f64, y as f64);
        let mut rig = self.mapped(
            |p| Pinhole {
                cx: p.cx - x,
                cy: p.cy - y,
                ..p
            },
            |c| Camera {
                cx: c.cx - x,
                cy: c.cy - y,
                ..c
            },
        );
        rig.size = Some(size);
        rig
    }

    /// The rig of the images made smaller by averaging `n` x `n` pixels (rows and columns left
    /// over at the right and bottom are dropped; `n` = 0 is taken as 1).
    ///
    /// Pixel centres lie at whole coordinates, so `cx' = (cx + 0.5) / n - 0.5`.
    pub fn scaled_down(&self, n: usize) -> Self {
        let n = n.max(1);
        let k = n as f64;
        let c = |c: f64| (c + 0.5) / k - 0.5;
        let mut rig = self.mapped(
            |p| Pinhole {
                fx: p.fx / k,
                fy: p.fy / k,
                cx: c(p.cx),
                cy: c(p.cy),
            },
            |r| Camera {
                focal_px: r.focal_px / k,
                cx: c(r.cx),
                cy: c(r.cy),
                baseline_m: r.baseline_m,
            },
        );
        rig.size = self.size.map(|s| Size::new(s.width / n, s.height / n));
        rig
    }

    fn mapped(
        &self,
        pinhole: impl Fn(Pinhole) -> Pinhole,
        camera: impl Fn(Camera) -> Camera,
    ) -> Self {
        let mut rig = self.clone();
        match &mut rig.model {
            Model::Rectified(c) => *c = camera(*c),
            Model::Raw(pair) => {
                for lens in &mut pair.lenses {
                    lens.pinhole = pinhole(lens.pinhole);
                }
                if let Some(given) = &mut pair.given {
                    given.camera = camera(given.camera);
                }
            }
        }
        rig
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAMERA: Camera = Camera {
        focal_px: 700.0,
        cx: 600.0,
        cy: 180.0,
        baseline_m: 0.5,
    };

    #[test]
    fn a_crop_moves_the_principal_point() {
        let rig = Rig::rectified(CAMERA).cropped(10, 20, Size::new(1000, 300));
        let expected = Camera {
            cx: 590.0,
            cy: 160.0,
            ..CAMERA
        };
        assert_eq!(rig.rectified_camera(), Some(expected));
        assert_eq!(rig.image_size(), Some(Size::new(1000, 300)));
    }

    #[test]
    fn scaling_keeps_the_pixel_centre_convention() {
        // The centre of a 4x4 image, (1.5, 1.5), is the centre of its 2x2 image, (0.5, 0.5).
        let camera = Camera {
            cx: 1.5,
            cy: 1.5,
            ..CAMERA
        };
        let rig = Rig::rectified(camera)
            .cropped(0, 0, Size::new(5, 4))
            .scaled_down(2);
        let half = rig.rectified_camera().unwrap();
        assert_eq!((half.cx, half.cy, half.focal_px), (0.5, 0.5, 350.0));
        assert_eq!(rig.image_size(), Some(Size::new(2, 2)));
        // Depth of a point does not change: its disparity halves with the focal length.
        assert_eq!(half.depth_m(10.0), CAMERA.depth_m(20.0));
    }
}
