use crate::frame::{Camera, DISPARITY_ONE, Disparity, INVALID, Rgb};

/// Colours from near to far; brightness rises to the middle and falls again, so that the two
/// ends differ for eyes that see no red from green, too.
const STOPS: [[u8; 3]; 7] = [
    [196, 22, 42],
    [232, 80, 38],
    [248, 148, 36],
    [246, 210, 66],
    [158, 208, 78],
    [52, 170, 98],
    [10, 118, 112],
];

/// Disparity where the ramp begins (near), px.
const NEAR_PX: f64 = 96.0;
/// Disparity where it ends (far), px.
const FAR_PX: f64 = 6.0;

/// Table entries lie this many 1/256 px apart.
const STEP: u16 = 16;

/// Colours for distances, even in the logarithm: the same factor in distance is the same step
/// in colour. It spans disparities of 96 to 6 px, so it fits any rig (KITTI: 4 to 63 m).
#[derive(Clone, Debug)]
pub struct Ramp {
    camera: Camera,
    table: Vec<[u8; 3]>,
}

impl Ramp {
    /// For the distances of this camera.
    pub fn new(camera: Camera) -> Self {
        let span = libm::log(NEAR_PX / FAR_PX);
        let colour = |i: u16| {
            let px = (f64::from(i) + 0.5) * f64::from(STEP) / f64::from(DISPARITY_ONE);
            Self::at(libm::log(NEAR_PX / px) / span)
        };
        Self {
            camera,
            table: (0..=u16::MAX / STEP).map(colour).collect(),
        }
    }

    /// The colour at a place on the ramp, 0 (near) to 1 (far).
    pub fn at(place: f64) -> [u8; 3] {
        let place = place.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let i = (place as usize).min(STOPS.len() - 2);
        let share = ((place - i as f64) * 256.0) as i32;
        std::array::from_fn(|c| {
            let (a, b) = (i32::from(STOPS[i][c]), i32::from(STOPS[i + 1][c]));
            ((a * (256 - share) + b * share + 128) / 256) as u8
        })
    }

    /// The colour of a disparity in 1/256 px.
    pub fn colour(&self, disparity: u16) -> [u8; 3] {
        self.table[usize::from(disparity / STEP)]
    }

    /// Where a distance in metres lies on the ramp; outside 0..=1 when it is beyond its ends.
    pub fn place(&self, depth_m: f64) -> f64 {
        let px = self.camera.depth_m(1.0) / depth_m;
        libm::log(NEAR_PX / px) / libm::log(NEAR_PX / FAR_PX)
    }

    /// Distances to write beside it, metres: of 1, 2, 5 times the powers of ten those inside.
    pub fn marks(&self) -> impl Iterator<Item = f64> + '_ {
        [0.1, 1.0, 10.0, 100.0, 1000.0]
            .into_iter()
            .flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * power))
            .filter(|&m| (0.0..=1.0).contains(&self.place(m)))
    }
}

/// Disparities in the colours of their distances; black where there is no measurement.
/// `picture` has the size of `disparity`.
pub fn paint_disparity(ramp: &Ramp, disparity: &Disparity, picture: &mut Rgb) {
    for (to, from) in picture.rows_mut().zip(disparity.rows()) {
        for (to, &d) in to.iter_mut().zip(from) {
            *to = if d == INVALID { [0; 3] } else { ramp.colour(d) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KITTI: Camera = Camera {
        focal_px: 707.0912,
        cx: 601.8873,
        cy: 183.1104,
        baseline_m: 0.5372,
    };

    #[test]
    fn ends_and_beyond() {
        let ramp = Ramp::new(KITTI);
        assert_eq!(ramp.colour(0), STOPS[6]);
        assert_eq!(ramp.colour(3 * 256), STOPS[6]);
        assert_eq!(ramp.colour(120 * 256), STOPS[0]);
        assert_eq!(ramp.colour(0xFFFE), STOPS[0]);
        // The geometric middle of 6 and 96 px is 24 px.
        assert_eq!(Ramp::at(0.5), STOPS[3]);
        assert!(
            ramp.colour(24 * 256)
                .iter()
                .zip(STOPS[3])
                .all(|(a, b)| a.abs_diff(b) <= 1)
        );
    }

    #[test]
    fn marks_of_a_street_and_of_a_room() {
        assert_eq!(
            Ramp::new(KITTI).marks().collect::<Vec<_>>(),
            [5.0, 10.0, 20.0, 50.0]
        );
        let euroc = Camera {
            focal_px: 435.0,
            baseline_m: 0.11,
            ..KITTI
        };
        assert_eq!(
            Ramp::new(euroc).marks().collect::<Vec<_>>(),
            [0.5, 1.0, 2.0, 5.0]
        );
    }

    #[test]
    fn no_measurement_is_black() {
        let d = Disparity::from_vec(2, 1, vec![INVALID, 24 * 256]).unwrap();
        let mut picture = Rgb::new(2, 1);
        let ramp = Ramp::new(KITTI);
        paint_disparity(&ramp, &d, &mut picture);
        assert_eq!(picture.row(0), [[0; 3], ramp.colour(24 * 256)]);
    }
}
