//! What makes a program a service: signs of life, state and log for the service manager, metrics,
//! health, and what is left to say when a stage hangs.
//!
//! The loop's thread only counts ([`crate::sink::counters`]) and marks where it is
//! ([`crate::frame_loop::Monitor`]); it feeds the watchdog as it turns ([`Lifeline`]). Everything
//! that takes time, such as files and the log, is done by a thread of its own.
mod lifeline;
mod notify;

pub use lifeline::{AttendedSource, Lifeline, Patience};
pub use notify::Notifier;
