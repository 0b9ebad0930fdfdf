//! A recorded drive through the loop: source → slot → stages → result → sink, segment by
//! segment.
use std::sync::atomic::AtomicBool;

use crate::{
    calib::CalibError,
    config::Config,
    frame::Camera,
    frame_loop::{ChainError, Clock, CpuBackend, FrameLoop, Pace, Shape},
    sink::{Sink, SinkError},
    source::{Drive, Prefetch},
};

/// Frame sets that go round between the decoding thread and the loop.
const FRAME_SETS: usize = 4;

/// Why a replay ended before its drive.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The rig can't be rectified.
    #[error(transparent)]
    Calib(#[from] CalibError),
    /// The stages can't be built.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// Results can't be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
}
