//! Disparities for the stixel stage that are made on the spot.
#![allow(dead_code)]
use roadloop::frame::{Camera, Disparity, INVALID, Road, RoadOrigin, Size};

/// A number without a pattern for each pixel.
pub fn noise(x: usize, y: usize) -> u64 {
    let mut z = (x as u64) << 32 ^ y as u64;
    for _ in 0..3 {
        z = (z ^ z >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    z ^ z >> 32
}

/// A road with this slope, px a row, and horizon.
pub fn road(slope: f32, horizon_row: f32) -> Road {
    Road {
        slope,
        offset: -slope * horizon_row,
        horizon_row,
        pitch_rad: 0.0,
        camera_height_m: 1.64,
        confidence: 1.0,
        origin: RoadOrigin::Fixed,
    }
}

/// A camera for images of this size.
pub fn camera(size: Size) -> Camera {
    Camera {
        focal_px: 707.0,
        cx: size.width as f64 / 2.0,
        cy: size.height as f64 / 2.0,
        baseline_m: 0.54,
    }
}

/// A drawn street with noise, holes and several objects in each column.
pub fn street(size: Size, road: &Road) -> Disparity {
    let horizon = road.horizon_row as usize;
    Disparity::from_fn(size.width, size.height, |x, y| {
        let n = noise(x, y);
        if n.is_multiple_of(16) || noise(x / 24, y / 24).is_multiple_of(9) {
            return INVALID;
        }
        let ground = f64::from(road.slope) * (y as f64 - f64::from(road.horizon_row));
        // Something every 40 columns, nearer and taller from one to the next.
        let at = x / 40 % 7;
        let object = 4.0 + 9.0 * at as f64;
        let (top, house) = (horizon.saturating_sub(10 * at), horizon.saturating_sub(120));
        let wall = match y {
            y if y >= top => object,
            y if y >= house => 6.0,
            _ => 0.0,
        };
        let jitter = (n >> 8) as f64 % 256.0 - 128.0;
        (ground.max(wall) * 256.0 + jitter).max(0.0) as u16
    })
}

/// Any disparity anywhere, a quarter missing.
pub fn random(size: Size, disparities: usize, seed: usize) -> Disparity {
    Disparity::from_fn(size.width, size.height, |x, y| {
        let n = noise(x + 7919 * seed, y);
        if n.is_multiple_of(4) {
            INVALID
        } else {
            ((n >> 8) % (disparities as u64 * 256 + 300)) as u16
        }
    })
}
