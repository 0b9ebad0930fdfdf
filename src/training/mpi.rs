//! Ranks over MPI (feature `mpi`).
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mpi::{
    collective::SystemOperation,
    datatype::Equivalence,
    environment::{Threading, Universe},
    topology::SimpleCommunicator,
    traits::{Communicator, CommunicatorCollectives},
};

use super::reduce::{RankError, Reducer};

/// Numbers that travel at a time: counts are `c_int`, and MPI's own buffers stay small.
const AT_ONCE: usize = 1 << 22;

/// Tests of a sum before the thread sleeps in between.
const SPINS: u32 = 2000;

/// How long a sum may go on once this rank was told to stop: `mpirun` tells so when a rank is
/// lost, and ends the others a second later.
const PATIENCE: Duration = Duration::from_millis(500);

/// All ranks of `MPI_COMM_WORLD`. There is one in a process; with it MPI ends.
pub struct Ranks {
    _universe: Universe,
    rank: usize,
    ranks: usize,
    stop: Arc<AtomicBool>,
}

impl Ranks {
    /// Starts MPI; `stop` is what tells the process to end. `None` where MPI can't be used from
    /// a thread other than the one that started it, or was started before.
    pub fn start(stop: Arc<AtomicBool>) -> Option<Self> {
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized)?;
        if threading < Threading::Serialized {
            return None;
        }
        let world = universe.world();
        Some(Self {
            rank: world.rank() as usize,
            ranks: world.size() as usize,
            _universe: universe,
            stop,
        })
    }

    /// Ends all ranks at once, this one with `status`: for an error that the others can't know.
    pub fn abort(&self, status: u8) -> ! {
        SimpleCommunicator::world().abort(status.into())
    }

    fn sum<T: Equivalence + Copy + Default>(&self, values: &mut [T]) {
        let world = SimpleCommunicator::world();
        let mut sums = vec![T::default(); values.len().min(AT_ONCE)];
        for part in values.chunks_mut(AT_ONCE) {
            let sums = &mut sums[..part.len()];
            let (mine, to) = (&*part, &mut *sums);
            mpi::request::scope(|scope| {
                let operation = SystemOperation::sum();
                let mut request = world.immediate_all_reduce_into(scope, mine, to, operation);
                let (mut tests, mut told) = (0, None::<Instant>);
                while let Err(unfinished) = request.test() {
                    request = unfinished;
                    tests += 1;
                    if tests > SPINS {
                        thread::sleep(Duration::from_micros(200));
                    }
                    if self.stop.load(Ordering::Relaxed) {
                        let since = *told.get_or_insert_with(Instant::now);
                        if since.elapsed() > PATIENCE {
                            // The request can't be taken back: nothing of MPI can go on.
                            log::error!(
                                "rank {}: another rank is lost, or ended without this one; the \
                                 checkpoint stands, --resume goes on from it",
                                self.rank
                            );
                            self.abort(70);
                        }
                    }
                }
            });
            part.copy_from_slice(sums);
        }
    }
}

impl Reducer for Ranks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn sum_u32(&self, values: &mut [u32]) -> Result<(), RankError> {
        self.sum(values);
        Ok(())
    }

    fn sum_u64(&self, values: &mut [u64]) -> Result<(), RankError> {
        self.sum(values);
        Ok(())
    }
}
