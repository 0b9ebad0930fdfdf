use serde::{Deserialize, Serialize};

use super::{
    Disparity, Foreground, FrameId, Gap, Health, INVALID, Image, Labels, Logos, Motion, Road,
    RoadOrigin, Size, Stixels, Timestamp,
};

/// Stages that a frame's [`Timing`] has room for.
pub const MAX_STAGES: usize = 16;

/// How a stage, or a whole frame, ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Within its budget.
    #[default]
    Done,
    /// Complete, but it took longer than its budget.
    OverBudget,
    /// Complete only after the deadline.
    Late,
    /// Not started: it did not fit into what was left of the deadline.
    Skipped,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 4] = [
        Outcome::Done,
        Outcome::OverBudget,
        Outcome::Late,
        Outcome::Skipped,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::OverBudget => "over_budget",
            Outcome::Late => "late",
            Outcome::Skipped => "skipped",
        }
    }
}

/// When a stage ran in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTiming {
    /// Name of the stage.
    pub stage: &'static str,
    /// From [`Timing::start`] to its start, ns.
    pub start_ns: u64,
    /// How long it ran, ns; 0 when skipped.
    pub duration_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// When the stages of a frame ran, and the frame as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// When the loop took the frame up, on the loop's clock.
    pub start: Timestamp,
    /// From [`Timing::start`] until the result was complete, ns.
    pub duration_ns: u64,
    /// How the frame ended.
    pub outcome: Outcome,
    /// The stages in the order in which they ran.
    pub stages: heapless::Vec<StageTiming, MAX_STAGES>,
}

/// Which gaps a frame has; each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapSet(u32);

impl GapSet {
    /// No gap.
    pub const EMPTY: Self = Self(0);

    const fn bit(gap: Gap) -> u32 {
        1 << gap as u32
    }

    /// Adds a gap.
    pub fn insert(&mut self, gap: Gap) {
        self.0 |= Self::bit(gap);
    }

    /// Whether `gap` is among them.
    pub const fn contains(self, gap: Gap) -> bool {
        self.0 & Self::bit(gap) != 0
    }

    /// How many.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The gaps in the order of [`Gap::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Gap> {
        Gap::ALL.into_iter().filter(move |&g| self.contains(g))
    }
}

/// The street in front, from the stereo camera.
#[derive(Clone, Debug, PartialEq)]
pub struct Street {
    /// Disparity of the left image.
    pub disparity: Disparity,
    /// The ground.
    pub road: Road,
    /// The street as stixels.
    pub stixels: Stixels,
}

impl Street {
    /// Room for the results of images of `size`.
    pub fn new(size: Size, stixels: Stixels) -> Self {
        Self {
            disparity: Image::filled(size.width, size.height, INVALID),
            road: Road {
                slope: 0.0,
                offset: 0.0,
                horizon_row: 0.0,
                pitch_rad: 0.0,
                camera_height_m: 0.0,
                confidence: 0.0,
                origin: RoadOrigin::Assumed,
            },
            stixels,
        }
    }

    /// There were no stereo images: no measurement, no stixels, and no road that could be relied
    /// on.
    pub fn skip(&mut self) {
        self.disparity.fill(INVALID);
        self.stixels.clear();
        self.road.confidence = 0.0;
        self.road.origin = RoadOrigin::Assumed;
    }

    /// Takes everything from another of the same shape; allocates nothing.
    ///
    /// # Panics
    /// When the shapes differ.
    pub fn copy_from(&mut self, other: &Self) {
        self.disparity.copy_from(&other.disparity);
        self.road = other.road;
        self.stixels.copy_from(&other.stixels);
    }
}

/// What leaves the loop for one instant. Built once for a drive; the loop writes into it and
/// lends it to the sinks. What is not computed for a drive is `None` in all its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameResult {
    /// Which frame.
    pub id: FrameId,
    /// From the stereo camera.
    pub street: Option<Street>,
    /// How the vehicle moves; there wherever the foreground is.
    pub motion: Option<Motion>,
    /// What moves while the vehicle stands.
    pub foreground: Option<Foreground>,
    /// Logos on vehicles.
    pub logos: Option<Logos>,
    /// What each pixel of the left image shows.
    pub labels: Option<Labels>,
    /// When it was computed; never part of a digest.
    pub timing: Timing,
    /// What is missing or degraded in it; never part of a digest.
    pub gaps: GapSet,
    /// How device and cameras were; never part of a digest.
    pub health: Health,
}

impl FrameResult {
    /// Takes everything from another result of the same shape; allocates nothing.
    ///
    /// # Panics
    /// When the shapes differ.
    pub fn copy_from(&mut self, other: &Self) {
        // So that a new field can't be forgotten.
        let Self {
            id,
            street,
            motion,
            foreground,
            logos,
            labels,
            timing,
            gaps,
            health,
        } = other;
        self.id = *id;
        if let (Some(to), Some(from)) = (&mut self.street, street) {
            to.copy_from(from);
        }
        self.motion = *motion;
        if let (Some(to), Some(from)) = (&mut self.foreground, foreground) {
            to.copy_from(from);
        }
        if let (Some(to), Some(from)) = (&mut self.logos, logos) {
            to.clone_from(from);
        }
        if let (Some(to), Some(from)) = (&mut self.labels, labels) {
            to.copy_from(from);
        }
        self.timing.clone_from(timing);
        self.gaps = *gaps;
        self.health = *health;
    }
}

impl From<Street> for FrameResult {
    fn from(street: Street) -> Self {
        Self {
            street: Some(street),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Logo, LogoState, MotionState};

    #[test]
    fn every_gap_has_its_own_bit() {
        let mut set = GapSet::EMPTY;
        for (n, gap) in Gap::ALL.into_iter().enumerate() {
            assert!(!set.contains(gap));
            set.insert(gap);
            set.insert(gap);
            assert_eq!(set.len(), n + 1);
        }
        assert!(set.iter().eq(Gap::ALL));
    }

    #[test]
    fn a_copy_equals_its_original() {
        let size = Size::new(7, 3);
        let table = std::sync::Arc::new(crate::frame::LabelTable {
            classes: Vec::new(),
            void: 0,
        });
        let new = || FrameResult {
            motion: Some(Motion::default()),
            foreground: Some(Foreground::new(size)),
            logos: Some(Logos::new()),
            labels: Some(Labels::new(size, 2, false, table.clone())),
            ..Street::new(size, Stixels::new(1, 5, 4)).into()
        };
        let mut a = new();
        a.id.number = 9;
        a.street.as_mut().unwrap().disparity.set(2, 1, 77);
        a.motion = Some(Motion::of(MotionState::Driving));
        a.foreground.as_mut().unwrap().skip();
        let logo = Logo {
            id: 1,
            template: 0,
            state: LogoState::Tracked,
            quad: [[0.5; 2]; 4],
            velocity: [0.0; 2],
            confidence: 7,
        };
        a.logos.as_mut().unwrap().push(logo).unwrap();
        a.labels.as_mut().unwrap().labels.set(3, 1, 9);
        a.gaps.insert(Gap::RoadHeld);
        a.health.throttled = Some(true);
        let mut b = new();
        assert_ne!(a, b);
        b.copy_from(&a);
        assert_eq!(a, b);
    }
}
