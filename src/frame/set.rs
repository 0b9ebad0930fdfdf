use super::{Decisions, Disparity, Gap, Image, MonoFrame, Rgb, Size, Timestamp};

/// Which frame of its drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameId {
    /// Place in the drive, 0-based, counting frames that are missing.
    pub index: usize,
    /// The source file's own number where it has one, else `index`; names files of results.
    pub number: u64,
    /// When it was taken.
    pub timestamp: Timestamp,
}

/// What enters the loop for one instant. What a drive does not have is `None` in all its sets:
/// a mono drive has no `stereo`, a drive without a mono camera no `mono`.
#[derive(Clone, Debug, Default)]
pub struct FrameSet {
    /// Which frame.
    pub id: FrameId,
    /// The stereo camera's images.
    pub stereo: Option<StereoFrame>,
    /// Why `stereo` is not to be looked at, where a live drive goes on without it: a camera is
    /// lost, or its picture has no partner in time.
    pub stereo_gap: Option<Gap>,
    /// The mono camera's image, or why there is none that belongs here.
    pub mono: Option<MonoFrame>,
    /// Speed of the vehicle, m/s, where it is recorded and known for this instant.
    pub speed_mps: Option<f32>,
    /// What the loop that recorded it decided of its stages, where that is known.
    pub decisions: Option<Decisions>,
}

/// The stereo camera's images of an instant, all of one size.
#[derive(Clone, Debug)]
pub struct StereoFrame {
    /// Left image, grey.
    pub left: Image<u8>,
    /// Right image, grey; absent where disparities are stored.
    pub right: Option<Image<u8>>,
    /// The left image in colour, where the source has colour.
    pub left_rgb: Option<Rgb>,
    /// Disparities stored with the drive, in place of a right image; already rectified.
    pub stored_disparity: Option<Disparity>,
}

impl StereoFrame {
    /// A black pair of this size, without colour.
    pub fn new(size: Size) -> Self {
        let black = Image::new(size.width, size.height);
        Self {
            left: black.clone(),
            right: Some(black),
            left_rgb: None,
            stored_disparity: None,
        }
    }
}

impl FrameSet {
    /// A black stereo pair of this size, without colour, alone.
    pub fn stereo(size: Size) -> Self {
        StereoFrame::new(size).into()
    }
}

impl From<StereoFrame> for FrameSet {
    fn from(stereo: StereoFrame) -> Self {
        Self {
            stereo: Some(stereo),
            ..Self::default()
        }
    }
}
