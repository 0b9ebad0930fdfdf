//! Which points stay: the strongest of each cell, then the strongest of all (rule 5 of the
//! contract). What stays depends on the set of points alone, not on the order in which they come.
use super::{FeatureParams, Region, extrema::Point, tables::SCALE_STEPS};
use crate::frame::Size;

/// A point that the detector accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) point: Point,
    /// From the first.
    pub(super) octave: u8,
    /// In the order (octave, layer, y, x); of one point only.
    pub(super) position: u32,
    /// In pixels of the region.
    pub(super) x: f32,
    pub(super) y: f32,
}

impl Candidate {
    /// The stronger, and of equals the earlier, has the greater key; no two have the same.
    fn key(&self) -> u64 {
        u64::from(self.point.value.abs().to_bits()) << 32 | u64::from(!self.position)
    }

    /// Its row in the tables by scale.
    pub(super) fn scale(&self) -> usize {
        let scale = (self.point.layer as f32 + self.point.offset[2]) * SCALE_STEPS as f32;
        (scale + 0.5) as usize
    }
}

/// The strongest so far.
pub(super) struct Strongest {
    most: usize,
    cell: u32,
    budget: usize,
    /// Cells in a row.
    columns: u32,
    rows: u32,
    points: Vec<Candidate>,
}

impl Strongest {
    pub(super) fn new(params: &FeatureParams, size: Size) -> Self {
        let most = params.max_keypoints as usize;
        let mut new = Self {
            most,
            cell: params.cell_px,
            budget: params.cell_budget as usize,
            columns: 1,
            rows: 1,
            points: Vec::with_capacity(2 * most + 256),
        };
        new.begin(Region { x: 0, y: 0, size });
        new
    }

    /// Forgets all.
    pub(super) fn begin(&mut self, region: Region) {
        self.points.clear();
        if self.cell > 0 {
            self.columns = (region.size.width as u32).div_ceil(self.cell);
            self.rows = (region.size.height as u32).div_ceil(self.cell);
        }
    }

    fn cell(&self, candidate: &Candidate) -> u32 {
        let along = |v: f32, n: u32| ((v.max(0.0) as u32) / self.cell).min(n - 1);
        along(candidate.y, self.rows) * self.columns + along(candidate.x, self.columns)
    }

    /// More candidates; room is made by leaving out what can't stay.
    pub(super) fn add(&mut self, more: &[Candidate]) {
        if self.points.len() + more.len() > self.points.capacity() {
            self.cut();
        }
        self.points.extend_from_slice(more);
    }

    /// A cell that is full only ever gets stronger points in place of weaker ones, and so does the
    /// whole: what is cut here would be cut at the end.
    fn cut(&mut self) {
        let mut points = std::mem::take(&mut self.points);
        if self.cell > 0 {
            points.sort_unstable_by_key(|c| (self.cell(c), !c.key()));
            let (mut cell, mut taken) = (u32::MAX, 0);
            points.retain(|c| {
                let of = self.cell(c);
                taken = if of == cell { taken + 1 } else { 1 };
                cell = of;
                taken <= self.budget
            });
        }
        if points.len() > self.most {
            points.select_nth_unstable_by_key(self.most, |c| !c.key());
            points.truncate(self.most);
        }
        self.points = points;
    }

    /// Those that stay, in the order of their positions.
    pub(super) fn finish(&mut self) -> &[Candidate] {
        self.cut();
        self.points.sort_unstable_by_key(|c| c.position);
        &self.points
    }

    /// What [`Self::finish`] gave.
    pub(super) fn chosen(&self) -> &[Candidate] {
        &self.points
    }
}
