//! What a live loop shares with the threads that watch it.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{HangConfig, Probe, SlowConfig};
use crate::frame::Health;

/// Shared between the loop and the threads that watch it; nobody ever waits for anybody.
#[derive(Debug, Default)]
pub struct Monitor {
    /// Where the loop is.
    pub probe: Probe,
    /// How the device is, for the results.
    pub health: SharedHealth,
    /// A fault on purpose, for tests of the watchdog.
    pub hang: Option<HangConfig>,
    /// Another, for tests of the admission.
    pub slow: Option<SlowConfig>,
}

/// The device's part of a [`Health`], written by one thread and read by the loop. The values are
/// read one by one: they belong together only as far as a second's measurements do.
#[derive(Debug)]
pub struct SharedHealth {
    cells: [AtomicU64; 3],
    counts: [AtomicU32; 3],
}

/// No value.
const NONE: u64 = u64::MAX;
const NO_COUNT: u32 = u32::MAX;

impl Default for SharedHealth {
    fn default() -> Self {
        Self {
            cells: std::array::from_fn(|_| AtomicU64::new(NONE)),
            counts: std::array::from_fn(|_| AtomicU32::new(NO_COUNT)),
        }
    }
}

impl SharedHealth {
    /// Passes on what was measured; the cameras are left out.
    pub fn set(&self, health: &Health) {
        let values = [
            health.temperature_mdeg.map(|t| u64::from(t as u32)),
            health.cpu_khz.map(u64::from),
            health.gpu_khz.map(u64::from),
        ];
        for (cell, value) in self.cells.iter().zip(values) {
            cell.store(value.unwrap_or(NONE), Ordering::Relaxed);
        }
        let counts = [
            health.throttled.map(u32::from),
            health.throttle_events,
            health.over_current_events,
        ];
        for (cell, count) in self.counts.iter().zip(counts) {
            cell.store(count.unwrap_or(NO_COUNT), Ordering::Relaxed);
        }
    }

    /// What was measured last; without the cameras.
    pub fn get(&self) -> Health {
        let cell = |n: usize| match self.cells[n].load(Ordering::Relaxed) {
            NONE => None,
            value => Some(value as u32),
        };
        let count = |n: usize| match self.counts[n].load(Ordering::Relaxed) {
            NO_COUNT => None,
            value => Some(value),
        };
        Health {
            temperature_mdeg: cell(0).map(|t| t as i32),
            cpu_khz: cell(1),
            gpu_khz: cell(2),
            throttled: count(0).map(|n| n != 0),
            throttle_events: count(1),
            over_current_events: count(2),
            cameras: Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_passes_unchanged() {
        let shared = SharedHealth::default();
        assert_eq!(shared.get(), Health::default());
        for health in [
            Health {
                temperature_mdeg: Some(-12_500),
                cpu_khz: Some(1_510_400),
                gpu_khz: None,
                throttled: Some(true),
                throttle_events: Some(7),
                over_current_events: Some(0),
                ..Health::default()
            },
            Health {
                gpu_khz: Some(u32::MAX),
                throttled: Some(false),
                ..Health::default()
            },
        ] {
            shared.set(&health);
            assert_eq!(shared.get(), health);
        }
    }
}
