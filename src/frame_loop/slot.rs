//! The buffers that one frame in flight needs.
use crate::{
    frame::{FrameResult, FrameSet, GapSet, Image, Size, StereoFrame, Stixels, Street},
    sink::View,
    stage::rectify::Rectified,
};

/// Everything that belongs to the frame in flight. Allocated once, before the first frame.
#[derive(Debug)]
pub struct Slot {
    /// What came in.
    pub set: Box<FrameSet>,
    /// Its stereo images in the rectified camera; `None` on a mono drive.
    pub rectified: Option<Rectified>,
    /// What goes out.
    pub result: FrameResult,
}

/// What the stereo chain reads and writes.
pub(super) struct StreetSlot<'a> {
    pub set: &'a StereoFrame,
    pub rectified: &'a mut Rectified,
    pub street: &'a mut Street,
    pub gaps: &'a mut GapSet,
}

impl Slot {
    /// A slot for nothing yet; what computes adds what it needs.
    pub fn empty() -> Self {
        Self {
            set: Box::default(),
            rectified: None,
            result: FrameResult::default(),
        }
    }

    /// A slot for grey pairs of `size` that need no rectification, with
    /// `size.width / stixel_width` columns of up to `capacity` stixels.
    pub fn stereo(size: Size, stixel_width: usize, capacity: usize) -> Self {
        let black = Image::new(size.width, size.height);
        let columns = size.width / stixel_width.max(1);
        let stixels = Stixels::new(columns, stixel_width, capacity);
        Self {
            set: Box::new(FrameSet::stereo(size)),
            rectified: Some(Rectified {
                left: black.clone(),
                right: Some(black),
                left_rgb: None,
            }),
            result: Street::new(size, stixels).into(),
        }
    }

    /// What of it is the stereo chain's.
    pub(super) fn street(&mut self) -> Option<StreetSlot<'_>> {
        Some(StreetSlot {
            set: self.set.stereo.as_ref()?,
            rectified: self.rectified.as_mut()?,
            street: self.result.street.as_mut()?,
            gaps: &mut self.result.gaps,
        })
    }

    /// The frame has no stereo images: nothing of the frame before is to be seen in their place.
    pub(super) fn blank_street(&mut self) {
        if let Some(rectified) = &mut self.rectified {
            rectified.left.fill(0);
            if let Some(right) = &mut rectified.right {
                right.fill(0);
            }
            if let Some(rgb) = &mut rectified.left_rgb {
                rgb.fill([0; 3]);
            }
        }
        if let Some(street) = &mut self.result.street {
            street.skip();
        }
    }

    /// The pictures that its result belongs to.
    pub(super) fn view(&self) -> View<'_> {
        let rectified = self.rectified.as_ref();
        View {
            left: rectified.map(|r| &r.left),
            left_rgb: rectified.and_then(|r| r.left_rgb.as_ref()),
            mono: self.set.mono.as_ref().and_then(|m| m.usable()),
            set: Some(&self.set),
        }
    }
}
