//! From what was followed to a state: whole numbers alone.
use super::{Params, track::UNIT};
use crate::{
    frame::{MotionState, Size},
    stage::state::{StateError, StateReader, StateWriter},
};

/// Parameters as the state machine takes them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    /// Squared displacement, in units, up to which a point stands still.
    pub(super) still: u32,
    /// Likewise, up to which it hardly moves.
    pub(super) near: u32,
    /// The mean displacement of points that hardly move, in units; and added up over time.
    pub(super) drift: u32,
    pub(super) creep: u32,
    /// How far a shaking camera gets from where it was, in units.
    pub(super) sway: u32,
    pub(super) min_points: u32,
    /// Shares in 1/1024.
    pub(super) lost: u32,
    pub(super) standing: u32,
    pub(super) small: u32,
    pub(super) still_frames: u32,
    pub(super) hold_frames: u32,
    pub(super) standing_mps: f32,
}

/// Frames in a row that must show the vehicle driving, unless nothing was known.
const DRIVING_FRAMES: u32 = 2;

impl Rules {
    pub(super) fn new(params: &Params, size: Size) -> Self {
        let units = |px: f32| (px * UNIT as f32) as u32;
        let squared = |px: f32| units(px) * units(px);
        let share = |v: f32| (v * 1024.0) as u32;
        Self {
            still: squared(params.still_px),
            near: squared(params.stay_px),
            drift: units(params.drift_px),
            creep: units(params.creep_px),
            sway: units(params.sway_ratio * size.width as f32),
            min_points: params.min_points,
            lost: share(params.lost_share),
            standing: share(params.standing_share),
            small: share(params.small_motion_share),
            still_frames: params.still_frames,
            hold_frames: params.hold_frames,
            standing_mps: params.standing_mps,
        }
    }
}

/// Forgets a sixteenth, and adds.
#[inline]
fn leak(sum: i32, add: i32) -> i32 {
    sum - sum / 16 + add
}

/// What a frame shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Cells with a corner.
    pub(super) corners: u32,
    /// Those that were found in the frame before.
    pub(super) tracked: u32,
    /// Those of them that the homography explains.
    pub(super) inliers: u32,
    /// Those of them that did not move.
    pub(super) still: u32,
    /// Those that hardly moved: how many, and how far altogether, in units.
    pub(super) near: u32,
    pub(super) near_x: i32,
    pub(super) near_y: i32,
    /// Where the homography moves the points at the quarters of the picture, x and y, in units.
    pub(super) sway: [i32; 8],
}

/// How far the homography moves the points at the quarters of the picture.
pub(super) fn sway(h: &[f32; 9], size: Size) -> [i32; 8] {
    let limit = (64 * UNIT) as f32;
    let units = |px: f32| {
        let v = px * UNIT as f32;
        if v >= limit {
            limit as i32
        } else if v >= -limit {
            v as i32
        } else {
            -(limit as i32)
        }
    };
    let mut moved = [0; 8];
    for i in 0..4 {
        let at = |side: usize, far: usize| (side * (1 + 2 * far)) as f32 * 0.25;
        let (x, y) = (at(size.width, i % 2), at(size.height, i / 2));
        let w = (h[6] * x + h[7] * y) + h[8];
        moved[2 * i] = units(((h[0] * x + h[1] * y) + h[2]) / w - x);
        moved[2 * i + 1] = units(((h[3] * x + h[4] * y) + h[5]) / w - y);
    }
    moved
}

impl Measured {
    /// Takes a point's displacement into account.
    #[inline]
    pub(super) fn add(&mut self, [x, y]: [i32; 2], rules: &Rules) {
        self.tracked += 1;
        // Longer ones are neither; the square fits.
        if x.abs() > 4096 || y.abs() > 4096 {
            return;
        }
        let squared = (x * x + y * y) as u32;
        self.still += u32::from(squared <= rules.still);
        if squared <= rules.near {
            self.near += 1;
            self.near_x += x;
            self.near_y += y;
        }
    }
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Too little to see.
    Blind,
    /// Enough to see, and nothing of it was there before.
    Lost,
    /// Most of the points stand still.
    Still,
    /// One homography moves most of the points.
    Small,
    /// One homography moves at least half of the points, and the camera stays about where it is:
    /// the rest may be traffic.
    Shaky,
    /// Less than half of the points stand still, and more than a driving camera would see so.
    Crowded,
    /// None of these.
    Driving,
}

/// What is remembered from frame to frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) state: MotionState,
    /// Frames seen, at most 1.
    pub(super) frames: u32,
    /// Frames in a row that spoke for standing still, for no more than a small motion (these
    /// include the first), for driving, and that said nothing.
    pub(super) still: u32,
    pub(super) calm: u32,
    pub(super) driving: u32,
    pub(super) blind: u32,
    /// The mean displacement of points that hardly move, added up in 1/16 units; forgets.
    pub(super) creep: [i32; 2],
    /// [`Measured::sway`] added up; forgets.
    pub(super) sway: [i32; 8],
}

impl Memory {
    pub(super) fn save(&self, to: &mut StateWriter<'_>) {
        let state = MotionState::ALL.iter().position(|&s| s == self.state);
        to.u8(state.unwrap_or(0) as u8);
        for n in [self.frames, self.still, self.calm, self.driving, self.blind] {
            to.u32(n);
        }
        for &n in self.creep.iter().chain(&self.sway) {
            to.i32(n);
        }
    }

    pub(super) fn load(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        // No sum that is leaked can come to more, nor any count.
        let sum = |n: i32| (-(1 << 28)..=1 << 28).contains(&n).then_some(n);
        let mut memory = Self::default();
        let state = usize::from(from.u8()?);
        memory.state = *(MotionState::ALL.get(state)).ok_or(from.value("state"))?;
        let counts = [
            &mut memory.frames,
            &mut memory.still,
            &mut memory.calm,
            &mut memory.driving,
            &mut memory.blind,
        ];
        for n in counts {
            *n = from.u32()?;
            if *n > 1 << 16 {
                return Err(from.value("count"));
            }
        }
        for n in memory.creep.iter_mut().chain(&mut memory.sway) {
            *n = sum(from.i32()?).ok_or(from.value("displacement"))?;
        }
        Ok(memory)
    }

    /// Takes a frame; says whether the homography is to be given.
    pub(super) fn advance(&mut self, m: &Measured, speed_mps: Option<f32>, rules: &Rules) -> bool {
        if self.frames == 0 {
            self.frames = 1;
            return false;
        }
        let (evidence, calm) = self.judge(m, rules);
        let count = |n: u32, yes: bool| if yes { (n + 1).min(1 << 16) } else { 0 };
        self.still = count(self.still, evidence == Evidence::Still);
        self.calm = count(
            self.calm,
            matches!(
                evidence,
                Evidence::Still | Evidence::Small | Evidence::Shaky
            ),
        );
        self.driving = count(self.driving, evidence == Evidence::Driving);
        self.blind = count(self.blind, evidence == Evidence::Blind);
        self.state = match speed_mps {
            Some(speed) if speed > rules.standing_mps || speed < -rules.standing_mps => {
                MotionState::Driving
            }
            Some(_) => self.standing(evidence, rules),
            None => self.seen(evidence, rules),
        };
        let moved = match evidence {
            Evidence::Small | Evidence::Shaky => true,
            Evidence::Still => !calm && half(m.inliers, m.tracked),
            _ => false,
        };
        self.state == MotionState::SmallMotion && moved
    }

    /// What the frame says, and whether its points hardly move on the average.
    fn judge(&mut self, m: &Measured, rules: &Rules) -> (Evidence, bool) {
        let share = |part: u32, of: u32, least: u32| 1024 * part >= least * of;
        if m.corners < rules.min_points {
            return (Evidence::Blind, false);
        }
        if m.tracked < rules.min_points || !share(m.tracked, m.corners, rules.lost) {
            return (Evidence::Lost, false);
        }
        let near = m.near.max(1) as i32;
        let mean = [16 * m.near_x / near, 16 * m.near_y / near];
        for (sum, add) in self.creep.iter_mut().zip(mean) {
            *sum = leak(*sum, add);
        }
        if half(m.inliers, m.tracked) {
            for (sum, add) in self.sway.iter_mut().zip(m.sway) {
                *sum = leak(*sum, add);
            }
        }
        let within = |v: &i32, limit: u32| v.unsigned_abs() <= limit;
        // One alone may be a homography that stretches to reach some traffic.
        let far = |p: &&[i32; 2]| !p.iter().all(|v| within(v, rules.sway));
        let wandered = self.sway.as_chunks().0.iter().filter(far).count();
        let calm = mean.iter().all(|v| within(v, 16 * rules.drift));
        // A camera that stands takes more to count as moving.
        let still = if self.state == MotionState::Still {
            m.near
        } else {
            m.still
        };
        let evidence =
            if half(still, m.tracked) && self.creep.iter().all(|v| within(v, 16 * rules.creep)) {
                Evidence::Still
            } else if share(m.inliers, m.tracked, rules.small) {
                Evidence::Small
            } else if share(m.still, m.tracked, rules.standing) {
                Evidence::Crowded
            } else if half(m.inliers, m.tracked) && wandered < 2 {
                Evidence::Shaky
            } else {
                Evidence::Driving
            };
        (evidence, calm)
    }

    /// The vehicle is known to stand.
    fn standing(&self, evidence: Evidence, rules: &Rules) -> MotionState {
        use MotionState::{SmallMotion, Still, Unknown};
        match (self.state, evidence) {
            (_, Evidence::Lost) => Unknown,
            (_, Evidence::Small | Evidence::Shaky) => SmallMotion,
            (SmallMotion, Evidence::Still) if self.still >= rules.still_frames => Still,
            (SmallMotion, _) => SmallMotion,
            _ => Still,
        }
    }

    /// Only the picture is known.
    fn seen(&self, evidence: Evidence, rules: &Rules) -> MotionState {
        use MotionState::{Driving, SmallMotion, Still, Unknown};
        match (self.state, evidence) {
            (_, Evidence::Blind) if self.blind > rules.hold_frames => Unknown,
            (state, Evidence::Blind) => state,

            (Driving, Evidence::Lost) => Driving,
            (_, Evidence::Lost) => Unknown,

            (Unknown, Evidence::Still | Evidence::Crowded) => Still,
            (Unknown, Evidence::Small) => SmallMotion,
            (Unknown, Evidence::Shaky | Evidence::Driving) => Driving,

            (state, Evidence::Driving) if self.driving < DRIVING_FRAMES => state,
            (_, Evidence::Driving) => Driving,
            (state, Evidence::Crowded) => state,

            (Still, Evidence::Still) => Still,
            (Driving, _) if self.calm < rules.still_frames => Driving,
            (_, Evidence::Still) if self.still >= rules.still_frames => Still,
            _ => SmallMotion,
        }
    }
}

/// Whether a part is at least half.
#[inline]
fn half(part: u32, of: u32) -> bool {
    2 * part >= of
}

#[cfg(test)]
mod tests {
    use super::*;
    use MotionState::{Driving, SmallMotion, Still, Unknown};

    const SIZE: Size = Size::new(640, 480);

    /// 100 points, and what they say.
    fn showing(evidence: Evidence) -> Measured {
        let seen = Measured {
            corners: 120,
            tracked: 100,
            ..Measured::default()
        };
        let (still, inliers, sway) = match evidence {
            Evidence::Blind => return Measured::default(),
            Evidence::Lost => {
                return Measured {
                    tracked: 20,
                    ..seen
                };
            }
            Evidence::Still => (60, 60, 0),
            Evidence::Small => (10, 85, 0),
            Evidence::Crowded => (25, 60, 0),
            Evidence::Shaky => (10, 60, 200),
            Evidence::Driving => (3, 40, 0),
        };
        Measured {
            still,
            near: still,
            inliers,
            sway: [sway; 8],
            ..seen
        }
    }

    fn states(memory: &mut Memory, evidence: Evidence, frames: usize) -> Vec<MotionState> {
        let rules = Rules::new(&Params::default(), SIZE);
        let mut next = || {
            memory.advance(&showing(evidence), None, &rules);
            memory.state
        };
        (0..frames).map(|_| next()).collect()
    }

    #[test]
    fn states_follow_the_table() {
        use Evidence::{Blind, Crowded, Lost, Shaky, Small};
        let table = [
            (Unknown, Blind, [Unknown, Unknown]),
            (Unknown, Lost, [Unknown, Unknown]),
            (Unknown, Evidence::Still, [Still, Still]),
            (Unknown, Small, [SmallMotion, SmallMotion]),
            (Unknown, Crowded, [Still, Still]),
            (Unknown, Shaky, [Driving, Driving]),
            (Unknown, Evidence::Driving, [Driving, Driving]),
            (Still, Blind, [Still, Still]),
            (Still, Lost, [Unknown, Unknown]),
            (Still, Evidence::Still, [Still, Still]),
            (Still, Small, [SmallMotion, SmallMotion]),
            (Still, Crowded, [Still, Still]),
            (Still, Shaky, [SmallMotion, SmallMotion]),
            (Still, Evidence::Driving, [Still, Driving]),
            (SmallMotion, Blind, [SmallMotion, SmallMotion]),
            (SmallMotion, Lost, [Unknown, Unknown]),
            (SmallMotion, Evidence::Still, [SmallMotion, SmallMotion]),
            (SmallMotion, Small, [SmallMotion, SmallMotion]),
            (SmallMotion, Crowded, [SmallMotion, SmallMotion]),
            (SmallMotion, Shaky, [SmallMotion, SmallMotion]),
            (SmallMotion, Evidence::Driving, [SmallMotion, Driving]),
            (Driving, Blind, [Driving, Driving]),
            (Driving, Lost, [Driving, Driving]),
            (Driving, Evidence::Still, [Driving, Driving]),
            (Driving, Small, [Driving, Driving]),
            (Driving, Crowded, [Driving, Driving]),
            (Driving, Shaky, [Driving, Driving]),
            (Driving, Evidence::Driving, [Driving, Driving]),
        ];
        for (state, evidence, expected) in table {
            let mut memory = Memory {
                state,
                frames: 1,
                ..Memory::default()
            };
            let found = states(&mut memory, evidence, 2);
            assert_eq!(found, expected, "{state:?}, {evidence:?}");
        }
    }

    #[test]
    fn calm_frames_end_a_drive_and_darkness_ends_everything() {
        let from = |state| Memory {
            state,
            frames: 1,
            ..Memory::default()
        };
        let after =
            |state, evidence, frames| states(&mut from(state), evidence, frames)[frames - 1];
        for (state, evidence, expected) in [
            (Driving, Evidence::Still, Still),
            (Driving, Evidence::Small, SmallMotion),
            (Driving, Evidence::Shaky, SmallMotion),
            (SmallMotion, Evidence::Still, Still),
        ] {
            assert_eq!(after(state, evidence, 4), state);
            assert_eq!(after(state, evidence, 5), expected);
        }
        for state in MotionState::ALL {
            assert_eq!(after(state, Evidence::Blind, 10), state);
            assert_eq!(after(state, Evidence::Blind, 11), Unknown);
        }
        // A camera that sways farther than it can shake drives.
        assert_eq!(after(SmallMotion, Evidence::Shaky, 60), Driving);
    }

    #[test]
    fn a_known_speed_leaves_little_to_the_picture() {
        let rules = Rules::new(&Params::default(), SIZE);
        for state in MotionState::ALL {
            for (evidence, standing) in [
                (Evidence::Lost, Some(Unknown)),
                (Evidence::Small, Some(SmallMotion)),
                (Evidence::Driving, None),
            ] {
                let from = Memory {
                    state,
                    frames: 1,
                    ..Memory::default()
                };
                let mut memory = from;
                memory.advance(&showing(evidence), Some(7.0), &rules);
                assert_eq!(memory.state, Driving);
                let mut memory = from;
                memory.advance(&showing(evidence), Some(0.05), &rules);
                match standing {
                    Some(expected) => assert_eq!(memory.state, expected),
                    None => assert_ne!(memory.state, Driving),
                }
            }
        }
    }
}
