//! The road stage on the GPU (`kernels/road.cu`).
use crate::{
    device_struct,
    frame::{self, RoadOrigin},
};

device_struct! {
    /// [`frame::Road`] as the kernels write and read it (`Road` in `kernels/common.cuh`).
    #[derive(Debug, Default, PartialEq)]
    pub struct Road {
        /// Disparity gained per row downwards, px.
        pub slope: f32,
        /// Disparity at row 0, px.
        pub offset: f32,
        /// Row where the disparity is 0.
        pub horizon_row: f32,
        /// Camera pitch in radians.
        pub pitch_rad: f32,
        /// Height of the camera above the ground, m.
        pub camera_height_m: f32,
        /// 0 to 1.
        pub confidence: f32,
        /// 0 fixed, 1 measured, 2 held, 3 assumed.
        pub origin: u32,
    }
}

impl From<frame::Road> for Road {
    fn from(road: frame::Road) -> Self {
        Self {
            slope: road.slope,
            offset: road.offset,
            horizon_row: road.horizon_row,
            pitch_rad: road.pitch_rad,
            camera_height_m: road.camera_height_m,
            confidence: road.confidence,
            origin: match road.origin {
                RoadOrigin::Fixed => 0,
                RoadOrigin::Measured => 1,
                RoadOrigin::Held => 2,
                RoadOrigin::Assumed => 3,
            },
        }
    }
}

impl From<Road> for frame::Road {
    fn from(road: Road) -> Self {
        Self {
            slope: road.slope,
            offset: road.offset,
            horizon_row: road.horizon_row,
            pitch_rad: road.pitch_rad,
            camera_height_m: road.camera_height_m,
            confidence: road.confidence,
            origin: match road.origin {
                0 => RoadOrigin::Fixed,
                1 => RoadOrigin::Measured,
                2 => RoadOrigin::Held,
                _ => RoadOrigin::Assumed,
            },
        }
    }
}
