//! Ranks that are threads of one process.
use std::sync::{Barrier, Mutex};

use roadloop::training::{RankError, Reducer};

/// What ranks that are threads share.
pub struct Board {
    barrier: Barrier,
    sums: Mutex<Vec<u64>>,
}

/// One of them.
pub struct Rank<'a> {
    pub rank: usize,
    pub ranks: usize,
    pub board: &'a Board,
}

impl Board {
    pub fn new(ranks: usize) -> Self {
        Self {
            barrier: Barrier::new(ranks),
            sums: Mutex::default(),
        }
    }
}

impl Rank<'_> {
    fn sum(&self, values: &mut [u64]) {
        let board = self.board;
        {
            let mut sums = board.sums.lock().unwrap();
            sums.resize(values.len(), 0);
            for (sum, v) in sums.iter_mut().zip(values.iter()) {
                *sum = sum.checked_add(*v).unwrap();
            }
        }
        board.barrier.wait();
        values.copy_from_slice(&board.sums.lock().unwrap());
        if board.barrier.wait().is_leader() {
            board.sums.lock().unwrap().clear();
        }
        board.barrier.wait();
    }
}

impl Reducer for Rank<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn sum_u32(&self, values: &mut [u32]) -> Result<(), RankError> {
        let mut wide: Vec<u64> = values.iter().map(|&v| v.into()).collect();
        self.sum(&mut wide);
        for (to, v) in values.iter_mut().zip(wide) {
            *to = u32::try_from(v).expect("a sum that 32 bits hold");
        }
        Ok(())
    }

    fn sum_u64(&self, values: &mut [u64]) -> Result<(), RankError> {
        self.sum(values);
        Ok(())
    }
}
