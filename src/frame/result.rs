use super::{Disparity, FrameId, Gap, INVALID, Image, Road, RoadOrigin, Size, Stixels, Timestamp};

/// Stages that a frame's [`Timing`] has room for.
pub const MAX_STAGES: usize = 16;

/// How a stage, or a whole frame, ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// What leaves the loop for one instant. Built once for a drive; the loop writes into it and
/// lends it to the sinks.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameResult {
    /// Which frame.
    pub id: FrameId,
    /// Disparity of the left image.
    pub disparity: Disparity,
    /// The ground.
    pub road: Road,
    /// The street as stixels.
    pub stixels: Stixels,
    /// When it was computed; never part of a digest.
    pub timing: Timing,
    /// What is missing or degraded in it; never part of a digest.
    pub gaps: GapSet,
}

impl FrameResult {
    /// Room for the results of images of `size`, with `columns` columns of `stixel_width` px
    /// and up to `capacity` stixels each.
    pub fn new(size: Size, columns: usize, stixel_width: usize, capacity: usize) -> Self {
        Self {
            id: FrameId::default(),
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
            stixels: Stixels::new(columns, stixel_width, capacity),
            timing: Timing::default(),
            gaps: GapSet::EMPTY,
        }
    }

    /// Takes everything from another result of the same shape; allocates nothing.
    ///
    /// # Panics
    /// When the shapes differ.
    pub fn copy_from(&mut self, other: &Self) {
        self.id = other.id;
        self.disparity.copy_from(&other.disparity);
        self.road = other.road;
        self.stixels.copy_from(&other.stixels);
        self.timing.clone_from(&other.timing);
        self.gaps = other.gaps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut a = FrameResult::new(Size::new(7, 3), 1, 5, 4);
        a.id.number = 9;
        a.disparity.set(2, 1, 77);
        a.gaps.insert(Gap::RoadHeld);
        let mut b = FrameResult::new(Size::new(7, 3), 1, 5, 4);
        assert_ne!(a, b);
        b.copy_from(&a);
        assert_eq!(a, b);
    }
}
