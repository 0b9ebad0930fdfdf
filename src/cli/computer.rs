//! `--backend`: what computes.
use std::{fmt, sync::atomic::AtomicBool};

use super::{Failure, replay::Args};
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::{config::Config, frame_loop::MonotonicClock, replay::Replay, sink::Sink};

pub use crate::frame_loop::BackendChoice;

/// What computes.
pub(super) enum Computer {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(cuda::Context),
}

impl Computer {
    pub fn new(choice: BackendChoice, config: &Config) -> Result<Self, Failure> {
        Self::on_slice(choice, config, None)
    }

    /// The same, on so many multiprocessors of the GPU.
    #[cfg(feature = "cuda")]
    pub fn on_slice(
        choice: BackendChoice,
        config: &Config,
        sms: Option<u32>,
    ) -> Result<Self, Failure> {
        if choice == BackendChoice::Cpu {
            return Self::Cpu.whole(sms);
        }
        let options = cuda::ContextOptions {
            sms,
            ..config.cuda.options()
        };
        match cuda::Context::new(&options) {
            Ok(context) => Ok(Self::Cuda(context)),
            Err(e) if choice == BackendChoice::Auto && e.is_no_device() => {
                log::info!("no GPU to compute on: {e}");
                Self::Cpu.whole(sms)
            }
            Err(e) => Err(Failure::gpu(&e)),
        }
    }

    #[cfg(not(feature = "cuda"))]
    pub fn on_slice(
        choice: BackendChoice,
        _config: &Config,
        sms: Option<u32>,
    ) -> Result<Self, Failure> {
        if choice == BackendChoice::Cuda {
            return Err(Failure::unavailable(
                "--backend cuda: this build has no CUDA backend (feature \"cuda\"); use --backend cpu",
            ));
        }
        Self::Cpu.whole(sms)
    }

    /// A CPU has no multiprocessors to take some of.
    fn whole(self, sms: Option<u32>) -> Result<Self, Failure> {
        match sms {
            None => Ok(self),
            Some(n) => Err(Failure::usage(format!(
                "--sms {n}: a part of a GPU, but this computes on the CPU; expected --backend cuda \
                 with it"
            ))),
        }
    }

    /// The name in `summary.json`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => "cuda",
        }
    }

    /// Gives what was learnt of the background.
    pub fn run(
        &self,
        args: &Args,
        replay: &Replay<'_>,
        config: &Config,
        sink: &mut (impl Sink + Send),
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let (pace, clock) = (args.pace, &MonotonicClock);
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(args.threads.map_or(0, usize::from))
            .thread_name(|n| format!("loop-{n}"));
        let refused = |e: rayon::ThreadPoolBuildError| {
            let asked = args.threads.map_or("one a core".into(), |n| n.to_string());
            Failure::internal(format!(
                "the threads that compute ({asked}) are refused: {e}; fewer with --threads N"
            ))
        };
        match self {
            Self::Cpu => {
                let pool = threads.build().map_err(refused)?;
                // Once inside the pool the loop is one of its workers, and par_iter allocates
                // nothing.
                Ok(pool.install(|| replay.run(config, pace, clock, sink, stop))?)
            }
            // The thread that made the context is the one that may use it: it joins the pool in
            // which the stages compute that are not on the GPU.
            #[cfg(feature = "cuda")]
            Self::Cuda(context) => {
                let _pool = threads.use_current_thread().build().map_err(refused)?;
                Ok(replay.run_on(config, pace, clock, sink, stop, |parts| {
                    parts.on_cuda(context, config)
                })?)
            }
        }
    }
}

impl fmt::Display for Computer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("the CPU"),
            #[cfg(feature = "cuda")]
            Self::Cuda(context) => write!(f, "{}", context.device()),
        }
    }
}
