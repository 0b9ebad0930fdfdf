//! The processes that train a forest together.
use std::sync::{Arc, atomic::AtomicBool};

use super::Failure;
use crate::training::{Local, Reducer};

/// What MPI's launchers say to a process that they start: the number of ranks, or that there are
/// some.
const LAUNCHED: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"];

/// This process alone, or with others.
pub(super) enum Ranks {
    /// Alone.
    Local(Local),
    /// Started by `mpirun` or `srun`.
    #[cfg(feature = "mpi")]
    Mpi(crate::training::mpi::Ranks),
}

impl Ranks {
    /// Looks whether a launcher has started several.
    #[cfg(feature = "mpi")]
    pub fn start(stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        if launched().is_none() {
            return Ok(Self::Local(Local));
        }
        let ranks = crate::training::mpi::Ranks::start(Arc::clone(stop));
        ranks.map(Self::Mpi).ok_or_else(|| {
            Failure::unavailable("MPI does not start, or not for programs with threads")
        })
    }

    /// The same of a build without MPI, which can't train with others.
    #[cfg(not(feature = "mpi"))]
    pub fn start(_stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        match launched() {
            Some((name, value)) if value != "1" => Err(Failure::unavailable(format!(
                "started as one of several ranks ({name} is {value}), but this build has no MPI \
                 (feature \"mpi\")"
            ))),
            _ => Ok(Self::Local(Local)),
        }
    }

    /// What adds up.
    pub fn reducer(&self) -> &dyn Reducer {
        match self {
            Self::Local(local) => local,
            #[cfg(feature = "mpi")]
            Self::Mpi(ranks) => ranks,
        }
    }

    /// Ends all ranks, where there are others, for an error that they may not know of.
    pub fn fail(&self, failure: Failure) -> Failure {
        #[cfg(feature = "mpi")]
        if let Self::Mpi(ranks) = self
            && ranks.ranks() > 1
        {
            log::error!("rank {}: {}", ranks.rank(), failure.message);
            ranks.abort(failure.status);
        }
        failure
    }
}

fn launched() -> Option<(&'static str, String)> {
    let said = |name| Some((name, std::env::var(name).ok()?));
    LAUNCHED.into_iter().find_map(said)
}

/// Which of the ranks on this machine this is.
#[cfg(feature = "cuda")]
pub(super) fn on_this_machine() -> usize {
    let names = [
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "SLURM_LOCALID",
    ];
    let said = |name: &str| std::env::var(name).ok()?.parse().ok();
    names.into_iter().find_map(said).unwrap_or(0)
}
