//! Depth difference (Shotton et al., CVPR 2011; Pianu et al., eq. 7).
//!
//! `f = d(p + o1 Z / z) - d(p + o2 Z / z)`, in steps of depth, `z = d(p)` and `Z` the reference
//! depth: offsets are in pixels at that depth. They are rounded, `sign(a) floor((2 |a| Z + z) /
//! (2 z))`. Outside the image and where depth is missing `d` is the background's constant. With
//! `one_offset`, `o1 = 0`: `f = d(p) - d(p + o)`. The response is brought into 16 bits.
//! Where the pixel itself has no depth it is invalid.
use serde::{Deserialize, Serialize};

use super::{Feature, INVALID, Theta, check_range, check_within};
use crate::stage::forest::{
    planes::{Needs, Planes},
    random::Words,
};

/// Options of the depth difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepthDifference {
    /// Largest offset in x and y at the reference depth, px.
    pub offset_px: i32,
    /// The reference depth, steps.
    pub reference: i32,
    /// Depth of what has none, steps.
    pub background: i32,
    /// Whether the first offset is always 0.
    pub one_offset: bool,
    /// Uniform thresholds, steps.
    pub thresholds: (i32, i32),
}

impl Default for DepthDifference {
    /// The paper's for hand parts: one offset of 60 px at 0.5 m, background at 10 m, 1 mm steps.
    fn default() -> Self {
        Self {
            offset_px: 60,
            reference: 500,
            background: 10_000,
            one_offset: true,
            thresholds: (-200, 200),
        }
    }
}

impl DepthDifference {
    pub(super) fn validate(&self) -> Result<(), String> {
        // Twice the product of both stays below 2^31.
        check_within("offset_px", self.offset_px.into(), 0, 16_383)?;
        check_within("reference", self.reference.into(), 1, 32_767)?;
        check_within("background", self.background.into(), 0, 65_535)?;
        check_range("thresholds", self.thresholds)
    }

    /// Depth at an offset from a pixel of depth `z`.
    #[inline(always)]
    fn at(&self, planes: &Planes, x: i32, y: i32, z: i32, [dx, dy]: [i16; 2]) -> i32 {
        let scaled = |a: i16| {
            let a = i32::from(a);
            let size = (2 * a.abs() * self.reference + z) / (2 * z);
            if a < 0 { -size } else { size }
        };
        // Offsets reach 2^30 at a depth of 1 step.
        match planes.depth_at(x + scaled(dx), y + scaled(dy)) {
            None | Some(0) => self.background,
            Some(depth) => depth.into(),
        }
    }
}

impl Feature for DepthDifference {
    fn needs(&self) -> Needs {
        Needs {
            colour: false,
            depth: true,
            depth_sums: false,
        }
    }

    /// `x1, y1, x2, y2`, or with one offset `x2, y2` alone.
    fn draw(&self, words: &mut Words) -> Theta {
        let r = self.offset_px;
        let mut theta = Theta::default();
        for i in if self.one_offset { 2..4 } else { 0..4 } {
            theta.offsets[i] = words.within(-r, r) as i16;
        }
        theta
    }

    fn threshold_range(&self, _: &Theta) -> (i32, i32) {
        self.thresholds
    }

    fn check(&self, theta: &Theta, _: usize) -> Result<(), &'static str> {
        if theta.kind != 0 {
            return Err("a kind that depth differences do not have");
        }
        if theta.offsets.iter().any(|v| v.unsigned_abs() > 16_383) {
            return Err("an offset above 16383 px");
        }
        Ok(())
    }

    #[inline(always)]
    fn response(&self, planes: &Planes, theta: &Theta, x: i32, y: i32) -> i32 {
        let z = i32::from(planes.depth(x, y));
        if z == 0 {
            return INVALID;
        }
        let [x1, y1, x2, y2] = theta.offsets;
        let f = self.at(planes, x, y, z, [x1, y1]) - self.at(planes, x, y, z, [x2, y2]);
        f.clamp(i16::MIN.into(), i16::MAX.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::Size,
        stage::forest::planes::{InputSpec, PlaneBuilder},
    };

    #[test]
    fn both_forms() {
        let feature = DepthDifference::default();
        let spec = InputSpec::default();
        let mut planes = Planes::new(Size::new(30, 20), &spec, feature.needs());
        PlaneBuilder::new(&spec).fill_depth(
            &mut planes,
            |x, y| if y == 0 { 0 } else { 1000 + 10 * x as u16 },
            false,
        );
        let at = |x: i32, y: i32, offsets| {
            feature.response(
                &planes,
                &Theta {
                    offsets,
                    ..Theta::default()
                },
                x,
                y,
            )
        };
        // 6 px at 500 mm are 3 px at 1000 mm; 5 are 2.5, rounded away from 0.
        assert_eq!(at(0, 5, [0, 0, 6, 0]), -30);
        assert_eq!(at(0, 5, [0, 0, 5, 0]), -30);
        assert_eq!(at(10, 5, [0, 0, -5, 0]), 20);
        assert_eq!(at(0, 5, [4, 0, 8, 0]), -20);
        // Outside, and missing: the background.
        assert_eq!(at(0, 5, [0, 0, -6, 0]), 1000 - 10_000);
        assert_eq!(at(0, 2, [0, 0, 0, -4]), 1000 - 10_000);
        assert_eq!(at(0, 0, [0, 0, 0, 4]), INVALID);
    }
}
