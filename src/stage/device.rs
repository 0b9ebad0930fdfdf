//! What one stage writes to device memory and another reads, as `kernels/common.cuh` has it.
use crate::{
    device_struct,
    frame::{self, MotionState},
};

device_struct! {
    /// [`frame::Motion`] as the kernels write and read it (`Motion` in `kernels/common.cuh`).
    #[derive(Debug, PartialEq)]
    pub struct Motion {
        /// Index in [`MotionState::ALL`].
        pub state: u32,
        /// Points that could be followed from the frame before.
        pub tracked: u16,
        /// Those of them that the homography explains.
        pub inliers: u16,
        /// As [`frame::Motion::homography`].
        pub homography: [f32; 9],
    }
}

impl Default for Motion {
    fn default() -> Self {
        frame::Motion::default().into()
    }
}

impl From<frame::Motion> for Motion {
    fn from(motion: frame::Motion) -> Self {
        Self {
            state: match motion.state {
                MotionState::Unknown => 0,
                MotionState::Still => 1,
                MotionState::SmallMotion => 2,
                MotionState::Driving => 3,
            },
            tracked: motion.tracked,
            inliers: motion.inliers,
            homography: motion.homography,
        }
    }
}

impl From<Motion> for frame::Motion {
    fn from(motion: Motion) -> Self {
        let state = MotionState::ALL.get(motion.state as usize);
        Self {
            state: state.copied().unwrap_or_default(),
            tracked: motion.tracked,
            inliers: motion.inliers,
            homography: motion.homography,
        }
    }
}
