//! Time is injected: the loop asks a [`Clock`] and nothing else.
use std::cell::Cell;

use crate::frame::Timestamp;

/// A monotonic clock.
pub trait Clock {
    /// Now, on the same scale as the frames' timestamps.
    fn now(&self) -> Timestamp;

    /// Returns at `until` or later; at once when that has passed.
    fn sleep_until(&self, until: Timestamp);
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Timestamp {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Timestamp(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
    }

    fn sleep_until(&self, until: Timestamp) {
        loop {
            let left = until.since(self.now());
            if left == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_nanos(left));
        }
    }
}

/// A clock that moves only when told to, for tests and fault injection.
#[derive(Debug, Default)]
pub struct MockClock {
    now: Cell<u64>,
}

impl MockClock {
    /// A clock that stands at `start`.
    pub fn at(start: Timestamp) -> Self {
        Self {
            now: Cell::new(start.0),
        }
    }

    /// Moves the clock on.
    pub fn advance_ns(&self, ns: u64) {
        self.now.set(self.now.get().saturating_add(ns));
    }
}

impl Clock for MockClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.get())
    }

    fn sleep_until(&self, until: Timestamp) {
        self.now.set(self.now.get().max(until.0));
    }
}
