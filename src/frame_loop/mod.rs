//! Clock, slots, budgets, admission, deadlines; the one place that knows the order of the stages.
//!
//! # A frame's way
//! A [`Source`](crate::source::Source) hands over a frame set. The required stages (the stereo
//! chain) run on it; each optional stage is admitted only where what is left of the deadline
//! holds what it is expected to take (the p99 of its last runs), the most important first, else it
//! is skipped and the result says so. The result goes
//! to a [`Sink`](crate::sink::Sink), the buffers go back, and the next frame begins: one frame is
//! in flight (an optional unit may be overdue beside it), so that lateness never piles up.
//!
//! Units that need not wait for each other are under way at once where the backend can
//! ([`Backend::start`]): they are launched in the order of admission and finished in the same, so
//! that results, their order and the recorded decisions are those of one after the other.
//!
//! What computes is a [`Chain`] that [`Parts`] puts together: the stereo chain's backend, then the
//! mono chain's ([`CpuMono`], on a GPU perhaps `CudaMono`), and behind both the forest
//! ([`CpuLabels`], on a GPU perhaps `CudaLabels`), which reads what the stereo chain gave.
//! Egomotion and foreground are one unit, so that there is never the one without the other. A
//! frame without a usable mono picture passes that unit by, under the gap that its set names.
//!
//! # Pace
//! [`Pace::Max`] runs every stage of every frame, however long it takes. [`Pace::Realtime`]
//! lets each frame arrive at its timestamp, as a camera would, and then:
//! - a frame that a newer one has overtaken before it was started is dropped;
//! - a frame whose deadline has passed before it was started is dropped;
//! - an optional stage that does not fit is skipped;
//! - an optional result that comes after the deadline is dropped;
//! - required results that come after the deadline are published, flagged late.
//!
//! Each of these is counted under its [`Gap`](crate::frame::Gap).
//!
//! What was skipped or thrown away stands in the result and in a recording. A recording that is
//! replayed at [`Pace::Max`] brings these decisions with its frames, and they are followed: the
//! results are those that the loop gave.
//!
//! A live loop ([`FrameLoop::live`]) has the same rules, but a frame has arrived when it is there:
//! its time stamp is on the loop's own clock, and deadline and durations count from the stamp.
//! [`FrameLoop::watched`] tells a [`Monitor`] at any time which stage of which frame runs.
mod admission;
mod aside;
mod backend;
mod chain;
mod clock;
mod config;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod fault;
mod labels;
mod monitor;
mod mono;
mod order;
mod parts;
mod probe;
mod run;
mod slot;
mod window;

pub use backend::{Advance, Backend, BackendError, Laps, Unit};
pub use chain::Chain;
pub use clock::{Clock, MockClock, MonotonicClock};
pub use config::{AdmissionConfig, BackendChoice, Budgets, LoopConfig, LoopConfigError, Publish};
pub use cpu::{ChainError, CpuBackend, Shape};
#[cfg(feature = "cuda")]
pub use cuda::{CudaBackend, CudaLabels, CudaMono, LeftImage, Wanted};
pub use fault::{HangConfig, SlowConfig};
pub use labels::{CpuLabels, LabelShape};
pub use monitor::{Monitor, SharedHealth};
pub use mono::{CpuMono, MonoShape};
pub use order::StageId;
pub use parts::{AllParts, Models, Parts};
pub use probe::{Doing, Probe, Sight};
pub use run::{FrameLoop, LoopError, Pace};
pub use slot::Slot;
