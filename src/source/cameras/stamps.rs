//! From a driver's time stamps to the loop's clock.
//!
//! Drivers stamp frames with the monotonic clock, most of them; some with another, and Tegra with
//! a counter of its own that it calls monotonic. So the clock is found out: it is the first, in
//! the order of [`ClockKind::KNOWN`], on which frames come after their stamps and not long after.
//! Where no clock fits, the offset is that of the frame that came soonest after its stamp, so that
//! such a camera seems to have no latency at best.
//!
//! A stamp is then `driver's + offset`; the offset of a known clock is measured against the
//! monotonic clock once a second, since clocks drift. A frame is refused, with a reason, whose
//! stamp does not lie after the one before it, lies more than a period in the future, or too far
//! in the past; several of them in a row, and the clock is looked for anew.
use crate::frame::Timestamp;

use super::{ClockChoice, StampFlag};

/// A clock that time stamps may be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockKind {
    /// `CLOCK_MONOTONIC`: the loop's.
    Monotonic,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
    /// The processor's counter.
    Counter,
    /// `CLOCK_REALTIME`.
    Realtime,
    /// None of these.
    Unknown,
    /// Frames are stamped when they come.
    Arrival,
}

impl ClockKind {
    /// The clocks that can be read, in the order in which they are tried.
    pub const KNOWN: [Self; 5] = [
        Self::Monotonic,
        Self::Boottime,
        Self::MonotonicRaw,
        Self::Counter,
        Self::Realtime,
    ];

    /// The name in log and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::Boottime => "boottime",
            Self::MonotonicRaw => "monotonic_raw",
            Self::Counter => "counter",
            Self::Realtime => "realtime",
            Self::Unknown => "unknown",
            Self::Arrival => "arrival",
        }
    }
}

impl ClockChoice {
    fn kind(self) -> Option<ClockKind> {
        Some(match self {
            Self::Auto => return None,
            Self::Monotonic => ClockKind::Monotonic,
            Self::MonotonicRaw => ClockKind::MonotonicRaw,
            Self::Boottime => ClockKind::Boottime,
            Self::Realtime => ClockKind::Realtime,
            Self::Counter => ClockKind::Counter,
            Self::Unknown => ClockKind::Unknown,
            Self::Arrival => ClockKind::Arrival,
        })
    }
}

/// Reads clocks.
pub trait Clocks {
    /// A clock's time, ns; `None` where it can't be read.
    fn read(&self, clock: ClockKind) -> Option<u64>;
}

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClocks;

impl Clocks for SystemClocks {
    fn read(&self, clock: ClockKind) -> Option<u64> {
        use rustix::time::{ClockId, clock_gettime};
        let id = match clock {
            ClockKind::Monotonic => ClockId::Monotonic,
            ClockKind::Boottime => ClockId::Boottime,
            ClockKind::MonotonicRaw => ClockId::MonotonicRaw,
            ClockKind::Realtime => ClockId::Realtime,
            ClockKind::Counter => return counter(),
            ClockKind::Unknown | ClockKind::Arrival => return None,
        };
        let t = clock_gettime(id);
        Some(
            (t.tv_sec as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(t.tv_nsec as u64),
        )
    }
}

#[cfg(all(feature = "v4l2", target_arch = "aarch64"))]
fn counter() -> Option<u64> {
    super::v4l2::counter_ns()
}

/// Only Tegra stamps with it.
#[cfg(not(all(feature = "v4l2", target_arch = "aarch64")))]
fn counter() -> Option<u64> {
    None
}

/// Why the stamp of a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampFault {
    /// Not after that of the frame before.
    Backward,
    /// More than a period after now.
    Future,
    /// Too long before now.
    Stale,
    /// It is not known yet which clock it is on.
    NoClock,
}

impl StampFault {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Backward => "not after the stamp before it",
            Self::Future => "more than a period in the future",
            Self::Stale => "too old",
            Self::NoClock => "the clock of the stamps is not known yet",
        }
    }
}

/// Frames that are looked at before a clock that is not known is given up on.
const LOOKS: u32 = 15;

/// Frames refused one after the other until the clock is looked for anew.
const REFUSED: u32 = 5;

/// Between two measurements of a known clock's offset.
const MEASURE_NS: u64 = 1_000_000_000;

/// What the stamps of one camera are on, and what they are on the loop's clock.
#[derive(Clone, Debug)]
pub struct Stamps {
    choice: ClockChoice,
    period_ns: u64,
    max_age_ns: u64,
    clock: Option<ClockKind>,
    /// Of the clock: added to a stamp, wrapping.
    offset: u64,
    measured: u64,
    /// While the clock is looked for: the least `now - stamp`, and how many frames were seen.
    soonest: Option<u64>,
    looks: u32,
    refused: u32,
    last: Option<u64>,
}

impl Stamps {
    /// For a camera of this period; frames older than `max_age_ns` when they come are refused.
    pub fn new(choice: ClockChoice, period_ns: u64, max_age_ns: u64) -> Self {
        Self {
            choice,
            period_ns,
            max_age_ns: max_age_ns.max(period_ns),
            clock: choice.kind(),
            offset: 0,
            measured: 0,
            soonest: None,
            looks: 0,
            refused: 0,
            last: None,
        }
    }

    /// The camera's own period, when it becomes known.
    pub fn set_period(&mut self, period_ns: u64) {
        self.period_ns = period_ns;
        self.max_age_ns = self.max_age_ns.max(period_ns);
    }

    /// Streaming starts (again): the driver's stamps may begin anew. What was given out stays
    /// given out.
    pub fn restart(&mut self) {
        self.clock = self.choice.kind();
        self.measured = 0;
        self.soonest = None;
        self.looks = 0;
        self.refused = 0;
    }

    /// The clock, once it is known.
    pub fn clock(&self) -> Option<ClockKind> {
        self.clock
    }

    /// What is added to the driver's stamps, ns.
    pub fn offset_ns(&self) -> i64 {
        self.offset as i64
    }

    /// The stamp of a frame that has just been dequeued, on the loop's clock.
    ///
    /// # Errors
    /// Why the frame is refused.
    pub fn stamp(
        &mut self,
        driver: u64,
        flag: StampFlag,
        clocks: &impl Clocks,
    ) -> Result<Timestamp, StampFault> {
        let now = clocks.read(ClockKind::Monotonic).unwrap_or(0);
        let clock = match self.clock {
            Some(clock) => clock,
            None => self.look(driver, flag, now, clocks)?,
        };
        match clock {
            ClockKind::Arrival => self.offset = now.wrapping_sub(driver),
            ClockKind::Unknown => {
                // A frame sooner than all before.
                let lag = now.wrapping_sub(driver);
                let least = *self.soonest.get_or_insert(lag);
                if (lag.wrapping_sub(least) as i64) < 0 {
                    self.soonest = Some(lag);
                }
                self.offset = self.soonest.unwrap_or(lag);
            }
            known => self.measure(known, now, clocks),
        }
        let stamp = driver.wrapping_add(self.offset);
        let ahead = stamp.wrapping_sub(now) as i64;
        let fault = if ahead > self.period_ns as i64 {
            StampFault::Future
        } else if ahead < -(self.max_age_ns as i64) {
            StampFault::Stale
        } else if self.last.is_some_and(|last| stamp <= last) {
            StampFault::Backward
        } else {
            self.refused = 0;
            self.last = Some(stamp);
            return Ok(Timestamp(stamp));
        };
        self.refused += 1;
        if self.refused >= REFUSED {
            self.restart();
        }
        Err(fault)
    }

    /// Finds the clock of a stamp.
    fn look(
        &mut self,
        driver: u64,
        flag: StampFlag,
        now: u64,
        clocks: &impl Clocks,
    ) -> Result<ClockKind, StampFault> {
        // A stamp of nothing says nothing.
        let silent = driver == 0 || flag == StampFlag::Copied;
        self.looks += 1;
        let plausible = |clock: &ClockKind| {
            clocks.read(*clock).is_some_and(|its| {
                let lag = its.wrapping_sub(driver) as i64;
                (-(self.period_ns as i64)..=self.max_age_ns as i64).contains(&lag)
            })
        };
        let found = ClockKind::KNOWN.into_iter().find(plausible);
        let found = match found {
            Some(clock) if !silent => clock,
            _ => {
                let lag = now.wrapping_sub(driver);
                let least = self.soonest.unwrap_or(lag);
                self.soonest = Some(if (lag.wrapping_sub(least) as i64) < 0 {
                    lag
                } else {
                    least
                });
                if self.looks < LOOKS {
                    return Err(StampFault::NoClock);
                }
                if silent {
                    ClockKind::Arrival
                } else {
                    ClockKind::Unknown
                }
            }
        };
        self.clock = Some(found);
        self.measured = 0;
        Ok(found)
    }

    /// Measures the offset of a clock where it is time.
    fn measure(&mut self, clock: ClockKind, now: u64, clocks: &impl Clocks) {
        if clock == ClockKind::Monotonic {
            self.offset = 0;
            return;
        }
        if self.measured != 0 && now.wrapping_sub(self.measured) < MEASURE_NS {
            return;
        }
        // The reading that took the shortest time is the best.
        let mut best: Option<(u64, u64)> = None;
        for _ in 0..3 {
            let read = || {
                let before = clocks.read(ClockKind::Monotonic)?;
                let its = clocks.read(clock)?;
                let after = clocks.read(ClockKind::Monotonic)?;
                let width = after.wrapping_sub(before);
                Some((width, before.wrapping_add(width / 2).wrapping_sub(its)))
            };
            best = best.into_iter().chain(read()).min_by_key(|b| b.0);
        }
        if let Some((_, offset)) = best {
            self.offset = offset;
        }
        self.measured = now.max(1);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MS: u64 = 1_000_000;
    const PERIOD: u64 = 33 * MS;

    /// Clocks that stand apart by so much.
    struct Fake {
        now: Cell<u64>,
        counter: Cell<u64>,
    }

    impl Fake {
        fn new() -> Self {
            Self {
                now: Cell::new(1_000_000 * MS),
                counter: Cell::new(18_000 * MS),
            }
        }

        fn pass(&self, ns: u64) {
            self.now.set(self.now.get() + ns);
        }
    }

    impl Clocks for Fake {
        fn read(&self, clock: ClockKind) -> Option<u64> {
            let now = self.now.get();
            Some(match clock {
                ClockKind::Monotonic => now,
                ClockKind::Boottime => now + 3_600_000 * MS,
                ClockKind::MonotonicRaw => now - 5_000 * MS,
                ClockKind::Realtime => now + 1_700_000_000_000 * MS,
                ClockKind::Counter => now + self.counter.get(),
                _ => return None,
            })
        }
    }

    fn stamps(choice: ClockChoice) -> Stamps {
        Stamps::new(choice, PERIOD, 1_000 * MS)
    }

    #[test]
    fn each_clock_is_found_and_its_stamps_brought_over() {
        for clock in ClockKind::KNOWN {
            let fake = Fake::new();
            let mut stamps = stamps(ClockChoice::Auto);
            for _ in 0..10 {
                fake.pass(PERIOD);
                // Taken 20 ms ago.
                let driver = fake.read(clock).unwrap() - 20 * MS;
                let stamp = stamps.stamp(driver, StampFlag::Monotonic, &fake);
                assert_eq!(stamp, Ok(Timestamp(fake.now.get() - 20 * MS)));
                assert_eq!(stamps.clock(), Some(clock));
            }
        }
    }

    #[test]
    fn a_drifting_counter_is_followed() {
        let fake = Fake::new();
        let mut stamps = stamps(ClockChoice::Auto);
        for n in 0..300u64 {
            fake.pass(PERIOD);
            fake.counter.set(18_000 * MS + n * 1000);
            let driver = fake.read(ClockKind::Counter).unwrap() - 5 * MS;
            let stamp = stamps.stamp(driver, StampFlag::Monotonic, &fake).unwrap();
            let error = stamp.0.abs_diff(fake.now.get() - 5 * MS);
            // At most what it drifts in a second.
            assert!(error <= 31_000, "{n} {error}");
        }
    }

    #[test]
    fn backward_future_and_stale_stamps_are_refused() {
        let fake = Fake::new();
        let mut stamps = stamps(ClockChoice::Monotonic);
        let mut at = |driver| stamps.stamp(driver, StampFlag::Monotonic, &fake);
        let now = fake.now.get();
        assert!(at(now - 10 * MS).is_ok());
        assert_eq!(at(now - 10 * MS), Err(StampFault::Backward));
        assert_eq!(at(now - 11 * MS), Err(StampFault::Backward));
        assert_eq!(at(now + PERIOD + 1), Err(StampFault::Future));
        assert!(at(now + PERIOD).is_ok());
        assert_eq!(at(now - 1_001 * MS), Err(StampFault::Stale));
        fake.pass(2 * PERIOD);
        assert!(at(now + PERIOD + 1).is_ok());
    }

    #[test]
    fn a_clock_that_nobody_knows_is_taken_by_its_soonest_frame() {
        let fake = Fake::new();
        let mut stamps = stamps(ClockChoice::Auto);
        // About to wrap.
        let base = u64::MAX - fake.now.get() - 20 * PERIOD;
        let lags = [30, 12, 25, 10, 40];
        for n in 0..60u64 {
            fake.pass(PERIOD);
            let lag = lags[n as usize % 5] * MS;
            let taken = fake.now.get() - lag;
            let driver = base.wrapping_add(taken);
            let stamp = stamps.stamp(driver, StampFlag::Monotonic, &fake);
            if n < 14 {
                assert_eq!(stamp, Err(StampFault::NoClock));
            } else {
                // The soonest took 10 ms.
                assert_eq!(stamp, Ok(Timestamp(taken + 10 * MS)), "{n}");
                assert_eq!(stamps.clock(), Some(ClockKind::Unknown));
            }
        }
    }

    #[test]
    fn no_stamps_at_all_are_times_of_arrival() {
        let fake = Fake::new();
        let mut stamps = stamps(ClockChoice::Auto);
        for n in 0..20 {
            fake.pass(PERIOD);
            let stamp = stamps.stamp(0, StampFlag::Unknown, &fake);
            if n >= 14 {
                assert_eq!(stamp, Ok(Timestamp(fake.now.get())));
            }
        }
        assert_eq!(stamps.clock(), Some(ClockKind::Arrival));
    }

    #[test]
    fn a_clock_that_jumps_is_looked_for_anew() {
        let fake = Fake::new();
        let mut stamps = stamps(ClockChoice::Auto);
        fake.pass(PERIOD);
        let driver = |clock| fake.read(clock).unwrap() - MS;
        assert!(
            stamps
                .stamp(driver(ClockKind::Monotonic), StampFlag::Monotonic, &fake)
                .is_ok()
        );
        let mut refused = 0;
        for _ in 0..10 {
            fake.pass(PERIOD);
            let driver = fake.read(ClockKind::Boottime).unwrap() - MS;
            match stamps.stamp(driver, StampFlag::Monotonic, &fake) {
                Ok(stamp) => assert_eq!(stamp.0, fake.now.get() - MS),
                Err(fault) => {
                    assert_eq!(fault, StampFault::Future);
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, REFUSED);
        assert_eq!(stamps.clock(), Some(ClockKind::Boottime));
    }
}
