use super::{MAX_STAGES, Outcome};

/// What a loop once decided of the optional stages of a frame: a recording has it, so that a replay
/// gives what the loop gave. Stages go by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    skipped: u16,
    late: u16,
}

impl Decisions {
    fn bit(stage: usize) -> u16 {
        if stage < MAX_STAGES { 1 << stage } else { 0 }
    }

    /// Notes how a stage ended.
    pub fn insert(&mut self, stage: usize, outcome: Outcome) {
        match outcome {
            Outcome::Skipped => self.skipped |= Self::bit(stage),
            Outcome::Late => self.late |= Self::bit(stage),
            Outcome::Done | Outcome::OverBudget => {}
        }
    }

    /// Whether it was not run.
    pub fn skipped(&self, stage: usize) -> bool {
        self.skipped & Self::bit(stage) != 0
    }

    /// Whether it was run and its result thrown away, for it came after the deadline.
    pub fn late(&self, stage: usize) -> bool {
        self.late & Self::bit(stage) != 0
    }
}
