//! Repeated events in the log: the first at once, then their number now and then.
use crate::frame::Timestamp;

/// One kind of event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    said: Option<Timestamp>,
    held: u64,
}

impl Throttle {
    /// Shortest time from one line to the next, ns.
    pub const EVERY_NS: u64 = 10_000_000_000;

    /// Notes `n` more events (0: none, but time has passed). Where it is time for a line, gives
    /// how many events it stands for.
    pub fn note(&mut self, n: u64, now: Timestamp) -> Option<u64> {
        self.held += n;
        let due = self
            .said
            .is_none_or(|said| now.since(said) >= Self::EVERY_NS);
        if self.held == 0 || !due {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_loop::{Clock as _, MockClock};

    #[test]
    fn the_first_is_said_at_once_and_the_rest_in_numbers() {
        let clock = MockClock::at(Timestamp(1));
        let mut throttle = Throttle::default();
        assert_eq!(throttle.note(0, clock.now()), None);
        assert_eq!(throttle.note(3, clock.now()), Some(3));
        for _ in 0..9 {
            clock.advance_ns(1_000_000_000);
            assert_eq!(throttle.note(2, clock.now()), None);
        }
        clock.advance_ns(1_000_000_000);
        assert_eq!(throttle.note(0, clock.now()), Some(18));
        // Nothing new, nothing said, however long it lasts; then at once again.
        clock.advance_ns(Throttle::EVERY_NS * 5);
        assert_eq!(throttle.note(0, clock.now()), None);
        assert_eq!(throttle.note(1, clock.now()), Some(1));
    }
}
