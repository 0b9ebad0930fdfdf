//! What the kernel is asked for once, at the start: memory that stays, a scheduling class,
//! processors. Refused, it is a warning or an error, as `[realtime] policy` has it.
mod faults;
mod sys;

use rustix::{
    mm::{MlockAllFlags, mlockall},
    process::{Resource, getrlimit},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use serde::{Deserialize, Serialize};

pub use faults::{PageFaults, page_faults};

/// What happens when something is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// A warning; the loop runs without it.
    #[default]
    Warn,
    /// An error, status 78.
    Strict,
}

/// `[realtime]`. Nothing is asked for by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RealtimeConfig {
    /// What happens when something is refused.
    pub policy: Policy,
    /// All memory, present and future, stays in RAM. Needs `LimitMEMLOCK=infinity`.
    pub lock_memory: bool,
    /// `SCHED_FIFO` priority of the threads that compute, 1 to 98; 0: the ordinary class. Needs
    /// `LimitRTPRIO=`. Capture threads run one above it, those that compute optional results beside
    /// the loop one below, all others in the ordinary class.
    pub priority: u8,
    /// Processors of the threads that compute, by number; empty: all that the process may use.
    pub cpus: Vec<usize>,
}

/// Something of `[realtime]` that can't be used, or is refused under `policy = "strict"`.
#[derive(Debug, thiserror::Error)]
pub enum RealtimeError {
    /// No such priority.
    #[error("realtime.priority is {0}, expected 0 (ordinary) to 98")]
    Priority(u8),
    /// No such processor.
    #[error("realtime.cpus has {0}, expected 0 to {max}", max = CpuSet::MAX_CPU - 1)]
    Cpu(usize),
    /// Refused by the kernel.
    #[error("realtime.{key}: {text}")]
    Refused {
        /// The key.
        key: &'static str,
        /// What was asked, what came back, what would grant it.
        text: String,
    },
}

impl RealtimeConfig {
    /// Refuses values that can't be used.
    ///
    /// # Errors
    /// With the key, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), RealtimeError> {
        if self.priority > 98 {
            return Err(RealtimeError::Priority(self.priority));
        }
        match self.cpus.iter().find(|&&cpu| cpu >= CpuSet::MAX_CPU) {
            Some(&cpu) => Err(RealtimeError::Cpu(cpu)),
            None => Ok(()),
        }
    }
}

/// What was asked for, for each thread to take its part.
#[derive(Clone, Debug, Default)]
pub struct Realtime {
    config: RealtimeConfig,
    /// What the process may use, before any thread was bound.
    all: Option<CpuSet>,
}

impl Realtime {
    /// Locks the memory, and tries what the threads will ask for. Call it first, in the main
    /// thread. `on_fault`: pages are locked when they are first used; for a process that reserves
    /// much more than it uses, as CUDA does.
    ///
    /// # Errors
    /// What is refused, under `strict`; else it is logged.
    pub fn start(config: &RealtimeConfig, on_fault: bool) -> Result<Self, RealtimeError> {
        let realtime = Self {
            config: config.clone(),
            all: sched_getaffinity(None).ok(),
        };
        if config.lock_memory {
            realtime.judge(lock(on_fault))?;
        }
        Ok(realtime)
    }

    /// Makes the calling thread one that computes.
    ///
    /// # Errors
    /// As [`Realtime::start`].
    pub fn enter(&self) -> Result<(), RealtimeError> {
        self.judge(bind(&self.config.cpus))?;
        self.judge(fifo(0, self.config.priority))
    }

    /// Makes the calling thread one that hands results out at their time: one step above those that
    /// compute, which would keep it waiting. Only logged where it is refused: the others have it.
    pub fn enter_above(&self) {
        self.unbind();
        if self.config.priority > 0
            && let Err(e) = fifo(0, self.config.priority + 1)
        {
            log::warn!("{e}; results may be handed out late");
        }
    }

    /// Makes the threads whose names begin so ones that capture: one step above those that
    /// compute, which would keep their frames waiting.
    ///
    /// # Errors
    /// As [`Realtime::start`].
    pub fn raise(&self, names: &str) -> Result<(), RealtimeError> {
        let priority = match self.config.priority {
            0 => return Ok(()),
            priority => priority + 1,
        };
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        for thread in threads.flatten() {
            let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            let number = thread.file_name().to_str().and_then(|n| n.parse().ok());
            if let Some(number) = number.filter(|_| name.starts_with(names)) {
                self.judge(fifo(number, priority))?;
            }
        }
        Ok(())
    }

    /// Lets the calling thread, an ordinary one, run on any processor again: it was perhaps
    /// started by one that is bound.
    pub fn unbind(&self) {
        if let Some(all) = &self.all {
            // The process could use them before.
            let _ = sched_setaffinity(None, all);
        }
    }

    /// Threads that compute, where the configuration does not say: one a processor that they may
    /// use; `None` leaves it to the pool.
    pub fn threads(&self) -> Option<usize> {
        (!self.config.cpus.is_empty()).then_some(self.config.cpus.len())
    }

    fn judge(&self, outcome: Result<(), RealtimeError>) -> Result<(), RealtimeError> {
        match outcome {
            Err(e) if self.config.policy == Policy::Warn => {
                log::warn!("{e}; going on without");
                Ok(())
            }
            other => other,
        }
    }
}

/// By how much the nice value of threads is raised that compute optional results.
pub const STEP: i32 = 5;

/// The calling thread's `SCHED_FIFO` priority; 0 in any other class.
pub fn own_priority() -> u8 {
    sys::own_priority()
}

/// Makes the calling thread one that gives way to those of this priority: of one less, or where
/// there is none, an ordinary one that is [`STEP`] nicer. Where that is refused it stays as it is.
pub fn step_below(priority: u8) {
    let stepped = match priority {
        0 | 1 => rustix::process::nice(STEP).map(|_| ()).map_err(Into::into),
        _ => sys::fifo(0, priority - 1),
    };
    if let Err(e) = stepped {
        log::warn!("optional stages have the same priority as the required ones: {e}");
    }
}

fn refused(key: &'static str, text: String) -> RealtimeError {
    RealtimeError::Refused { key, text }
}

fn lock(on_fault: bool) -> Result<(), RealtimeError> {
    // With a limit, the first allocation beyond it would end the process much later.
    if let Some(limit) = getrlimit(Resource::Memlock).current
        && !rustix::process::geteuid().is_root()
    {
        let text =
            format!("{limit} bytes may be locked, expected no limit (LimitMEMLOCK=infinity)");
        return Err(refused("lock_memory", text));
    }
    let mut flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    flags.set(MlockAllFlags::ONFAULT, on_fault);
    mlockall(flags).map_err(|e| refused("lock_memory", format!("mlockall: {e}")))
}

fn bind(cpus: &[usize]) -> Result<(), RealtimeError> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).map_err(|e| refused("cpus", format!("{cpus:?}: {e}")))
}

fn fifo(thread: i32, priority: u8) -> Result<(), RealtimeError> {
    if priority == 0 {
        return Ok(());
    }
    sys::fifo(thread, priority).map_err(|e| {
        let text = format!("SCHED_FIFO {priority}: {e}; LimitRTPRIO= of the service grants it");
        refused("priority", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_nothing_is_asked_for() {
        let realtime = Realtime::start(&RealtimeConfig::default(), false).unwrap();
        realtime.enter().unwrap();
        realtime.raise("").unwrap();
        assert_eq!(realtime.threads(), None);
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_name() {
        let refused = |config: RealtimeConfig| config.validate().unwrap_err().to_string();
        let priority = refused(RealtimeConfig {
            priority: 99,
            ..RealtimeConfig::default()
        });
        assert_eq!(
            priority,
            "realtime.priority is 99, expected 0 (ordinary) to 98"
        );
        let cpus = refused(RealtimeConfig {
            cpus: vec![0, 5000],
            ..RealtimeConfig::default()
        });
        assert!(cpus.starts_with("realtime.cpus has 5000"), "{cpus}");
    }

    #[test]
    fn what_is_refused_is_an_error_only_under_strict() {
        // No machine has this processor, so that it is refused to every user.
        let config = |policy| RealtimeConfig {
            policy,
            cpus: vec![CpuSet::MAX_CPU - 1],
            ..RealtimeConfig::default()
        };
        let warn = Realtime::start(&config(Policy::Warn), false).unwrap();
        warn.enter().unwrap();
        let strict = Realtime::start(&config(Policy::Strict), false).unwrap();
        let error = strict.enter().unwrap_err().to_string();
        assert!(error.starts_with("realtime.cpus: [1023]"), "{error}");
    }

    #[test]
    fn a_bound_thread_can_be_unbound() {
        let all = sched_getaffinity(None).unwrap();
        let one = (0..CpuSet::MAX_CPU).find(|&n| all.is_set(n)).unwrap();
        let config = RealtimeConfig {
            cpus: vec![one],
            ..RealtimeConfig::default()
        };
        let realtime = Realtime::start(&config, false).unwrap();
        assert_eq!(realtime.threads(), Some(1));
        realtime.enter().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        realtime.unbind();
        assert_eq!(sched_getaffinity(None).unwrap(), all);
    }
}
