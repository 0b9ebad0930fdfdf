//! The nouns: images, disparity, road, stixels, motion, foreground, logos, labels, frame sets and
//! results, health, and names for gaps.
mod camera;
mod decisions;
mod foreground;
mod gap;
mod health;
mod image;
mod labels;
mod logo;
mod mono;
mod motion;
pub mod png;
mod result;
mod road;
mod set;
mod stixel;
mod time;

pub use camera::Camera;
pub use decisions::Decisions;
pub use foreground::{Foreground, ForegroundState};
pub use gap::Gap;
pub use health::{CameraState, CameraStates, Health};
pub use image::{Image, Size};
pub use labels::{LabelClass, LabelState, LabelTable, Labels};
pub use logo::{Logo, LogoState, Logos, MAX_LOGOS};
pub use mono::{MonoFrame, MonoImage, PixelKind};
pub use motion::{Motion, MotionState};
pub use result::{FrameResult, GapSet, MAX_STAGES, Outcome, StageTiming, Street, Timing};
pub use road::{Road, RoadOrigin};
pub use set::{FrameId, FrameSet, StereoFrame};
pub use stixel::{Class, Stixel, Stixels};
pub use time::Timestamp;

/// Disparities: `u16` in 1/256 px, [`INVALID`] where there is no measurement.
pub type Disparity = Image<u16>;

/// An RGB image, 8 bits a channel.
pub type Rgb = Image<[u8; 3]>;

/// Which pixels may be used: 0 = never (own bonnet, outside the source image), else usable.
pub type Mask = Image<u8>;

/// The one code for "no measurement" in a [`Disparity`].
pub const INVALID: u16 = 0xFFFF;

/// One pixel of disparity in the units of a [`Disparity`].
pub const DISPARITY_ONE: u16 = 256;
