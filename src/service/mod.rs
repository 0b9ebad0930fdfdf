//! What makes a program a service: signs of life, state and log for the service manager, metrics,
//! health, and what is left to say when a stage hangs.
//!
//! The loop's thread only counts ([`crate::sink::counters`]) and marks where it is
//! ([`crate::frame_loop::Monitor`]); it feeds the watchdog as it turns ([`Lifeline`]). Everything
//! that takes time, such as files and the log, is done by a thread of its own.
//!
//! # Log levels
//! - error: what the service is for is not done: it ends, hangs, or has no cameras;
//! - warning: it goes on with less: gaps, refused privileges, a metrics file that can't be written;
//! - info: changes of state, a few lines an hour;
//! - debug: what stages say of their certainty.
//!
//! Repeated events are told at once the first time, then as a number every ten seconds
//! ([`Throttle`]).
mod attendant;
mod config;
mod device;
pub mod journal;
mod lifeline;
pub mod metrics;
mod notify;
pub mod signals;
mod throttle;

pub use attendant::{Attendant, Report, Watched};
pub use config::OutputConfig;
pub use device::Device;
pub use lifeline::{AttendedSource, Lifeline, Patience};
pub use notify::Notifier;
pub use signals::Asked;
pub use throttle::Throttle;
