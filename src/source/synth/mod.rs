//! The synthetic street: a drive whose truth is known exactly, drawn by a small ray caster.
//!
//! Rows of houses, pavements, parked and moving vehicles, trees and people on foot, seen by a
//! rectified stereo pair and a mono camera on a vehicle. The same options give the same bytes
//! on every processor and with any number of threads: geometry is `f64`, light is `f32`, both
//! with `+ - * /` and `sqrt` in a fixed order, `sin` and `cos` through `libm`, chance from
//! hashes of whole numbers.
//!
//! Truth is that of the pixel's centre, colour is the mean over the pixel where it has edges.
//! Not modelled: motion blur, rolling shutter, lens distortion, interreflection, rain, night,
//! slopes and bends; shadows of moving objects are not in the moving mask.
mod facade;
mod furniture;
mod ground;
mod houses;
pub mod labels;
mod light;
mod mark;
mod maths;
mod paint;
mod render;
mod scene;
mod shape;
mod street;
mod truth;
mod vehicle;
pub mod write;

use std::path::PathBuf;

pub use labels::classes_csv;
pub use truth::{Logo, LogoState, stixels};

use crate::frame::{Camera, Disparity, Image, Rgb, Road, RoadOrigin, Size, Timestamp};
use light::Sky;
use maths::{Pose, V, mix32, ramp, v};
use scene::View;
use street::{FLOW, Plan, STRIP_MID};

/// Time from frame to frame, ns.
pub const FRAME_NS: u64 = 100_000_000;

/// Width of the columns of the stixel truth, px.
pub const STIXEL_WIDTH: usize = 5;

const BASELINE_M: f64 = 0.54;
const CAMERA_HEIGHT_M: f64 = 1.5;
/// The mono camera stands this far to the left of the left one, m.
const MONO_LEFT_M: f64 = 0.10;

/// How the own vehicle moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Motion {
    /// Waits at the kerb throughout.
    Still,
    /// Drives at a steady speed throughout.
    Drive,
    /// Waits for the first two fifths of the frames, then pulls out and drives.
    #[default]
    Mixed,
}

/// What kind of drive to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Number of frames, 0.1 s apart; 1 to 36,000.
    pub frames: usize,
    /// Chooses houses, vehicles, weather and noise.
    pub seed: u64,
    /// Size of every image, 16 to 4,096 px either way; the focal length goes with the width.
    pub size: Size,
    /// How the own vehicle moves.
    pub motion: Motion,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            frames: 40,
            seed: 1,
            size: Size::new(1024, 440),
            motion: Motion::Mixed,
        }
    }
}

/// What can go wrong with a synthetic drive.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// An image size outside what is drawn.
    #[error("image size {0}: width and height must be 16 to 4096 px")]
    Size(Size),
    /// A number of frames outside what is drawn.
    #[error("{0} frames: expected 1 to 36000")]
    Frames(usize),
    /// The folder to write to has something in it already.
    #[error("{}: exists and is not empty; --force replaces a drive that is there", .0.display())]
    NotEmpty(PathBuf),
    /// What should be a folder of the drive is something else.
    #[error("{}: is not a folder; expected a folder for a drive", .0.display())]
    NotAFolder(PathBuf),
    /// The folder to write to holds something that no earlier synthetic drive consists of.
    #[error(
        "{}: holds {found}, but is no synthetic drive (no {marker}); --force replaces only such a \
         drive; choose another --out", path.display()
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// What would have been replaced.
        found: &'static str,
        /// The file that is missing.
        marker: &'static str,
    },
    /// A file or folder can't be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The own vehicle at one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ego {
    /// When the frame is taken.
    pub timestamp: Timestamp,
    /// Speed over ground, m/s.
    pub speed_mps: f64,
    /// Pitch of the cameras, positive when they look down, radians.
    pub pitch_rad: f64,
    /// Place of the left camera along the street, m.
    pub z_m: f64,
    /// Place of the left camera right of the middle of the street, m.
    pub x_m: f64,
    /// Heading relative to the street as right per ahead (the tangent of the angle).
    pub heading: f64,
}

/// One frame with its truth. All images have the same size.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Left image.
    pub left_rgb: Rgb,
    /// Right image, rows coincide with the left.
    pub right_rgb: Rgb,
    /// Mono image, grey.
    pub mono: Image<u8>,
    /// Disparity of the left image; [`crate::frame::INVALID`] in the sky.
    pub disparity: Disparity,
    /// Depth along the optical axis of the left camera, 1/256 m; 0 in the sky and from 256 m.
    pub depth: Image<u16>,
    /// [`labels::Label`] of each pixel of the left image.
    pub labels: Image<u8>,
    /// 255 where a moving object is in the left image, else 0.
    pub moving: Image<u8>,
    /// Marks on vehicles that can be seen in the left image.
    pub logos: Vec<Logo>,
    /// Those that can be seen in the mono image.
    pub mono_logos: Vec<Logo>,
    /// The road plane; kerbs and pavements stand 8 cm above it.
    pub road: Road,
}

/// Name, picture of this height and opaqueness (255: wholly) of the marks that vehicles carry.
pub fn marks(height: usize) -> impl Iterator<Item = (&'static str, Rgb, Image<u8>)> {
    mark::MARKS.iter().map(move |mark| {
        let (picture, alpha) = mark.picture(height);
        (mark.name, picture, alpha)
    })
}

/// A synthetic drive: every frame of it can be drawn on its own.
#[derive(Clone, Copy, Debug)]
pub struct Street {
    options: Options,
    plan: Plan,
    sky: Sky,
}

impl Street {
    /// The street of these options.
    ///
    /// # Errors
    /// When the size or the number of frames is out of range.
    pub fn new(options: &Options) -> Result<Self, SynthError> {
        let Size { width, height } = options.size;
        if !(16..=4096).contains(&width) || !(16..=4096).contains(&height) {
            return Err(SynthError::Size(options.size));
        }
        if !(1..=36_000).contains(&options.frames) {
            return Err(SynthError::Frames(options.frames));
        }
        let mut street = Self {
            options: *options,
            plan: Plan {
                seed: options.seed,
                motion: options.motion,
                start: match options.motion {
                    Motion::Still => f64::INFINITY,
                    Motion::Drive => 0.0,
                    Motion::Mixed => (options.frames * 2 / 5) as f64 * 0.1,
                },
                end: 0.0,
            },
            sky: Sky::new(options.seed),
        };
        let far = street.ego(options.frames - 1).z_m + 150.0;
        // The street ends in the middle between two crossings.
        street.plan.end = maths::floor(far / ground::BLOCK) * ground::BLOCK + 78.0;
        Ok(street)
    }

    /// The options it was made from.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The stereo camera.
    pub fn camera(&self) -> Camera {
        let Size { width, height } = self.options.size;
        Camera {
            focal_px: 0.58 * width as f64,
            cx: (width as f64 - 1.0) * 0.5,
            cy: (height as f64 - 1.0) * 0.45,
            baseline_m: BASELINE_M,
        }
    }

    /// The own vehicle at frame `frame`.
    pub fn ego(&self, frame: usize) -> Ego {
        let t = frame as f64 * 0.1;
        const GAIN: f64 = 2.5;
        const TOP: f64 = 8.5;
        let (speed, gone) = match self.options.motion {
            Motion::Still => (0.0, 0.0),
            Motion::Drive => (FLOW, FLOW * t),
            Motion::Mixed => {
                let t = (t - self.plan.start).max(0.0);
                let rise = TOP / GAIN;
                if t < rise {
                    (GAIN * t, 0.5 * GAIN * t * t)
                } else {
                    (TOP, 0.5 * GAIN * rise * rise + TOP * (t - rise))
                }
            }
        };
        // From the strip into the lane within 11 m.
        let lane = 1.6;
        let (x, heading) = if self.options.motion == Motion::Drive {
            (lane, 0.0)
        } else {
            let step = 0.01;
            let at = |s: f64| STRIP_MID + (lane - STRIP_MID) * ramp(s, 0.0, 11.0);
            (at(gone), (at(gone + step) - at(gone - step)) / (2.0 * step))
        };
        let sway = libm::sin(6.9 * t) + 0.6 * libm::sin(11.3 * t + 1.0);
        Ego {
            timestamp: Timestamp(frame as u64 * FRAME_NS),
            speed_mps: speed,
            pitch_rad: 0.012 + 0.0022 * sway * (speed / FLOW),
            z_m: gone,
            x_m: x,
            heading,
        }
    }

    /// The road plane at frame `frame`:
    /// `d = baseline / height * ((row - cy) cos(pitch) + focal sin(pitch))`.
    pub fn road(&self, frame: usize) -> Road {
        let (camera, ego) = (self.camera(), self.ego(frame));
        let (sin, cos) = (libm::sin(ego.pitch_rad), libm::cos(ego.pitch_rad));
        let k = camera.baseline_m / CAMERA_HEIGHT_M;
        let slope = k * cos;
        let offset = k * (camera.focal_px * sin - camera.cy * cos);
        Road {
            slope: slope as f32,
            offset: offset as f32,
            horizon_row: (-offset / slope) as f32,
            pitch_rad: ego.pitch_rad as f32,
            camera_height_m: CAMERA_HEIGHT_M as f32,
            confidence: 1.0,
            origin: RoadOrigin::Fixed,
        }
    }

    /// A camera `right` metres right of the left one.
    fn view(&self, frame: usize, right: f64) -> View {
        let (camera, ego) = (self.camera(), self.ego(frame));
        let pose = Pose::facing(v(ego.x_m, CAMERA_HEIGHT_M, ego.z_m), ego.heading, 1.0);
        let (sin, cos) = (libm::sin(ego.pitch_rad), libm::cos(ego.pitch_rad));
        let turn = |p: V| pose.turn_out(p);
        View {
            at: pose.outside(v(right, 0.0, 0.0)),
            right: turn(v(1.0, 0.0, 0.0)),
            down: turn(v(0.0, -cos, -sin)),
            ahead: turn(v(0.0, -sin, cos)),
            focal: camera.focal_px,
            cx: camera.cx,
            cy: camera.cy,
            width: self.options.size.width,
            height: self.options.size.height,
        }
    }

    /// Draws frame `frame` with its truth.
    pub fn render(&self, frame: usize) -> Rendered {
        let ego = self.ego(frame);
        let content = self.plan.content(ego.z_m, frame as f64 * 0.1);
        let scene = scene::Scene::new(content, self.sky.sun, v(ego.x_m, 0.0, ego.z_m));
        let salt = mix32(self.options.seed as u32 ^ mix32(frame as u32 ^ 0x5EED));
        // Exposure control breathes a little.
        let t = frame as f64 * 0.1;
        let gain = 1.0 + 0.02 * libm::sin(1.3 * t) as f32;
        let draw = |right: f64, camera: u32| {
            let view = self.view(frame, right);
            let tiles = scene.tiles(&view);
            let field = render::field(&self.sky, &scene, &view, &tiles);
            let colour = render::expose(&field, gain, mix32(salt ^ camera));
            (view, tiles, field, colour)
        };
        let (view, tiles, field, left_rgb) = draw(0.0, 1);
        let (_, _, _, right_rgb) = draw(BASELINE_M, 2);
        let (mono_view, mono_tiles, _, mono_rgb) = draw(-MONO_LEFT_M, 3);
        let Size { width, height } = self.options.size;
        let mono = Image::from_fn(width, height, |x, y| {
            crate::picture::grey_of(mono_rgb.get(x, y))
        });
        let truth = truth::of_field(&field, &scene, &self.camera());
        Rendered {
            left_rgb,
            right_rgb,
            mono,
            disparity: truth.disparity,
            depth: truth.depth,
            labels: truth.labels,
            moving: truth.moving,
            logos: truth::logos(&scene, &view, &tiles),
            mono_logos: truth::logos(&scene, &mono_view, &mono_tiles),
            road: self.road(frame),
        }
    }
}
