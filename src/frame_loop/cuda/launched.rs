//! What was launched: where it lies in time, and a wait for it that ends.
use std::{cell::Cell, rc::Rc};

use crate::{
    cuda::{Event, GpuError, Stream},
    frame::Timestamp,
    frame_loop::Laps,
};

/// A graph that was launched, for what follows it on the device.
#[derive(Clone)]
pub(in crate::frame_loop) struct Launched {
    /// Behind all its work.
    pub done: Rc<Event>,
    /// Where its work begins, where the time is taken.
    pub begin: Option<Rc<Event>>,
    /// When the host began with it.
    pub staged: Rc<Cell<Timestamp>>,
    /// When it was launched.
    pub at: Rc<Cell<Timestamp>>,
}

impl Launched {
    /// What to wait for behind it.
    pub fn done(&self) -> &Event {
        &self.done
    }

    /// When, by the host's clock, an event took place that lies behind the graph; without times,
    /// when the graph was launched.
    pub fn instant_of(&self, event: &Event) -> Result<Timestamp, GpuError> {
        let at = self.at.get();
        match &self.begin {
            Some(begin) => Ok(at.plus_ns(nanoseconds(event.microseconds_since(begin)?))),
            None => Ok(at),
        }
    }
}

/// An event's microseconds.
pub(super) fn nanoseconds(us: f32) -> u64 {
    (f64::from(us) * 1000.0) as u64
}

/// Waits until all that the stream was given is done, `until` at most: whether it is.
///
/// # Errors
/// From the driver, also those of the work.
pub(super) fn wait_until(
    stream: &Stream,
    until: Timestamp,
    laps: &Laps<'_>,
) -> Result<bool, GpuError> {
    loop {
        if stream.is_done()? {
            return Ok(true);
        }
        if laps.now() >= until {
            return Ok(false);
        }
        std::thread::yield_now();
    }
}
