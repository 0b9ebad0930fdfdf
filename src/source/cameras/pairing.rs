//! Which pictures make a frame set: by time alone, never by sequence numbers, which are off by one
//! after the first drop.
//!
//! - Left and right are a pair when they were taken within the tolerance of each other, the
//!   nearest ones.
//! - A picture waits for its partner for a bounded time, and not at all when the partner's camera
//!   does not deliver. A left picture without partner is a frame without stereo; the mono camera's
//!   picture goes on. A right picture without partner stands for nothing as long as the left
//!   camera delivers, else it is a frame without stereo, too.
//! - While neither delivers, the mono camera's pictures are the frames.
//! - The mono picture of a frame is, of those that are there, the nearest within its tolerance;
//!   where there is none it is waited for like a partner. Each belongs to one frame at most.
//!
//! A frame without stereo and without a mono picture is a gap.
use super::Which;
use crate::frame::Gap;

/// Most pictures of a camera that are looked at.
pub const MOST: usize = 32;

/// A picture, as far as pairing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it was taken, ns.
    pub stamp: u64,
    /// When it came, ns.
    pub arrived: u64,
}

/// The pictures of a camera that wait, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// Whether there is such a camera at all.
    pub present: bool,
    /// Whether it delivers: nothing is waited for of one that does not.
    pub delivers: bool,
    /// What it has delivered.
    pub pictures: heapless::Vec<Seen, MOST>,
}

/// How to pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Between left and right, ns, inclusive.
    pub tolerance_ns: u64,
    /// Between a frame and its mono picture, ns, inclusive.
    pub mono_tolerance_ns: u64,
    /// How long a picture waits, ns.
    pub wait_ns: u64,
}

/// What is to be done with the oldest pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They are a frame, or stand for one that can't be.
    Instant(Instant),
    /// The oldest picture of this camera belongs to nothing.
    Unpaired(Which),
    /// Nothing, unless something comes, until this instant (ns).
    WaitUntil(u64),
    /// Nothing unless something comes.
    Wait,
}

/// A frame of the oldest pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// When it was taken, ns.
    pub stamp: u64,
    /// Which of the oldest pictures are used up: left, right, mono.
    pub takes: [bool; 3],
    /// Whose stamp it has.
    pub reference: Which,
    /// Why there is no stereo, where there should be.
    pub stereo_gap: Option<Gap>,
    /// Why there is no mono picture, where there should be.
    pub mono_gap: Option<Gap>,
}

impl Rules {
    /// What is to be done at `now`.
    pub fn decide(&self, [left, right, mono]: &[Waiting; 3], now: u64) -> Decision {
        let none = [false; 3];
        if !left.present {
            return match mono.pictures.first() {
                Some(m) => alone(m.stamp, None),
                None => Decision::Wait,
            };
        }
        let over = |seen: &Seen| now >= seen.arrived.saturating_add(self.wait_ns);
        let until = |seen: &Seen| Decision::WaitUntil(seen.arrived.saturating_add(self.wait_ns));
        let l = left.pictures.first();
        let r = right.pictures.first();
        let (reference, first, takes, gap) = match (l, r) {
            (Some(l), Some(r)) => {
                let apart = l.stamp.abs_diff(r.stamp);
                if apart > self.tolerance_ns {
                    if r.stamp < l.stamp {
                        return Decision::Unpaired(Which::Right);
                    }
                    // A later left picture may be this right one's; this left one has none.
                    (
                        Which::Left,
                        l,
                        [true, false, false],
                        Some(Gap::Unsynchronised),
                    )
                } else if nearer(left, r.stamp, apart) {
                    (
                        Which::Left,
                        l,
                        [true, false, false],
                        Some(Gap::Unsynchronised),
                    )
                } else if nearer(right, l.stamp, apart) {
                    return Decision::Unpaired(Which::Right);
                } else {
                    (Which::Left, l, [true, true, false], None)
                }
            }
            (Some(l), None) if !right.delivers => {
                (Which::Left, l, [true, false, false], Some(Gap::CameraLost))
            }
            (Some(l), None) if over(l) => (
                Which::Left,
                l,
                [true, false, false],
                Some(Gap::Unsynchronised),
            ),
            (Some(l), None) => return until(l),
            (None, Some(r)) if !left.delivers => {
                (Which::Right, r, [false, true, false], Some(Gap::CameraLost))
            }
            (None, Some(r)) if over(r) => return Decision::Unpaired(Which::Right),
            (None, Some(r)) => return until(r),
            (None, None) if left.delivers || right.delivers => return Decision::Wait,
            (None, None) => {
                return match mono.pictures.first() {
                    Some(m) => alone(m.stamp, Some(Gap::CameraLost)),
                    None => Decision::Wait,
                };
            }
        };
        let mut instant = Instant {
            stamp: first.stamp,
            takes: none,
            reference,
            stereo_gap: gap,
            mono_gap: None,
        };
        instant.takes = takes;
        if !mono.present {
            return Decision::Instant(instant);
        }
        let far = |seen: &Seen| seen.stamp.abs_diff(instant.stamp);
        let best = (0..mono.pictures.len()).min_by_key(|&at| far(&mono.pictures[at]));
        match (best, mono.pictures.first(), mono.pictures.last()) {
            (Some(best), ..) if far(&mono.pictures[best]) <= self.mono_tolerance_ns => {
                if best > 0 {
                    return Decision::Unpaired(Which::Mono);
                }
                instant.takes[2] = true;
            }
            // Too old for this frame, and so for all that follow.
            (_, Some(first), _) if first.stamp < instant.stamp => {
                return Decision::Unpaired(Which::Mono);
            }
            (_, _, Some(last)) if last.stamp > instant.stamp => {
                instant.mono_gap = Some(Gap::Unsynchronised);
            }
            _ if !mono.delivers => instant.mono_gap = Some(Gap::CameraLost),
            _ if over(first) => instant.mono_gap = Some(Gap::Unsynchronised),
            _ => return until(first),
        }
        Decision::Instant(instant)
    }
}

/// The oldest mono picture is a frame.
fn alone(stamp: u64, stereo_gap: Option<Gap>) -> Decision {
    Decision::Instant(Instant {
        stamp,
        takes: [false, false, true],
        reference: Which::Mono,
        stereo_gap,
        mono_gap: None,
    })
}

/// Whether the second picture of a camera is nearer than its first, which is `apart` from
/// `stamp`.
fn nearer(camera: &Waiting, stamp: u64, apart: u64) -> bool {
    let second = camera.pictures.get(1);
    second.is_some_and(|s| s.stamp.abs_diff(stamp) < apart)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: Rules = Rules {
        tolerance_ns: 5,
        mono_tolerance_ns: 16,
        wait_ns: 33,
    };

    fn camera(delivers: bool, pictures: &[(u64, u64)]) -> Waiting {
        Waiting {
            present: true,
            delivers,
            pictures: pictures
                .iter()
                .map(|&(stamp, arrived)| Seen { stamp, arrived })
                .collect(),
        }
    }

    fn on(pictures: &[(u64, u64)]) -> Waiting {
        camera(true, pictures)
    }

    fn off(pictures: &[(u64, u64)]) -> Waiting {
        camera(false, pictures)
    }

    fn frame(stamp: u64, takes: [bool; 3], gaps: [Option<Gap>; 2]) -> Decision {
        Decision::Instant(Instant {
            stamp,
            takes,
            reference: match takes {
                [true, ..] => Which::Left,
                [_, true, _] => Which::Right,
                _ => Which::Mono,
            },
            stereo_gap: gaps[0],
            mono_gap: gaps[1],
        })
    }

    #[test]
    fn decisions_by_hand() {
        use Gap::{CameraLost, Unsynchronised};
        let none = Waiting::default;
        let unpaired = |gap| frame(100, [true, false, false], [Some(gap), None]);
        for (what, cameras, now, expected) in [
            (
                "nothing there",
                [on(&[]), on(&[]), none()],
                0,
                Decision::Wait,
            ),
            (
                "a pair",
                [on(&[(100, 110)]), on(&[(105, 111)]), none()],
                111,
                frame(100, [true, true, false], [None, None]),
            ),
            (
                "too far apart: the left has none",
                [on(&[(100, 110)]), on(&[(106, 111)]), none()],
                111,
                unpaired(Unsynchronised),
            ),
            (
                "too far apart: the right stands for nothing",
                [on(&[(106, 110)]), on(&[(100, 111)]), none()],
                111,
                Decision::Unpaired(Which::Right),
            ),
            (
                "a nearer left",
                [on(&[(100, 110), (104, 112)]), on(&[(105, 111)]), none()],
                112,
                unpaired(Unsynchronised),
            ),
            (
                "a nearer right",
                [on(&[(105, 110)]), on(&[(101, 111), (104, 111)]), none()],
                112,
                Decision::Unpaired(Which::Right),
            ),
            (
                "the right may still come",
                [on(&[(100, 110)]), on(&[]), none()],
                142,
                Decision::WaitUntil(143),
            ),
            (
                "it did not",
                [on(&[(100, 110)]), on(&[]), none()],
                143,
                unpaired(Unsynchronised),
            ),
            (
                "its camera is lost",
                [on(&[(100, 110)]), off(&[]), none()],
                110,
                unpaired(CameraLost),
            ),
            (
                "the left may still come",
                [on(&[]), on(&[(100, 110)]), none()],
                142,
                Decision::WaitUntil(143),
            ),
            (
                "it did not, either",
                [on(&[]), on(&[(100, 110)]), none()],
                143,
                Decision::Unpaired(Which::Right),
            ),
            (
                "the left camera is lost",
                [off(&[]), on(&[(100, 110)]), none()],
                110,
                frame(100, [false, true, false], [Some(CameraLost), None]),
            ),
            (
                "mono waits for stereo",
                [on(&[]), off(&[]), on(&[(100, 110)])],
                500,
                Decision::Wait,
            ),
            (
                "mono alone",
                [off(&[]), off(&[]), on(&[(100, 110)])],
                110,
                frame(100, [false, false, true], [Some(CameraLost), None]),
            ),
            (
                "a mono drive",
                [none(), none(), on(&[(100, 110)])],
                110,
                frame(100, [false, false, true], [None, None]),
            ),
            (
                "mono before",
                [on(&[(100, 110)]), on(&[(100, 110)]), on(&[(84, 90)])],
                110,
                frame(100, [true; 3], [None, None]),
            ),
            (
                "mono too far before",
                [on(&[(100, 110)]), on(&[(100, 110)]), on(&[(83, 90)])],
                110,
                Decision::Unpaired(Which::Mono),
            ),
            (
                "mono may come",
                [on(&[(100, 110)]), on(&[(100, 110)]), on(&[])],
                110,
                Decision::WaitUntil(143),
            ),
            (
                "mono did not come",
                [on(&[(100, 110)]), on(&[(100, 110)]), on(&[])],
                143,
                frame(100, [true, true, false], [None, Some(Unsynchronised)]),
            ),
            (
                "mono is lost",
                [on(&[(100, 110)]), on(&[(100, 110)]), off(&[])],
                110,
                frame(100, [true, true, false], [None, Some(CameraLost)]),
            ),
            (
                "mono is for a later one",
                [on(&[(100, 110)]), on(&[(100, 110)]), on(&[(117, 118)])],
                118,
                frame(100, [true, true, false], [None, Some(Unsynchronised)]),
            ),
            (
                "the nearest mono",
                [
                    on(&[(100, 110)]),
                    on(&[(100, 110)]),
                    on(&[(90, 95), (104, 105)]),
                ],
                110,
                Decision::Unpaired(Which::Mono),
            ),
            (
                "mono beside an unpaired left",
                [on(&[(100, 110)]), off(&[]), on(&[(104, 105)])],
                110,
                frame(100, [true, false, true], [Some(CameraLost), None]),
            ),
        ] {
            assert_eq!(RULES.decide(&cameras, now), expected, "{what}");
        }
    }

    /// Plays deliveries to the rules and notes what became of each picture.
    fn play(deliveries: &mut [(u64, usize, u64)], end: u64) -> (Vec<Instant>, [usize; 3]) {
        deliveries.sort_unstable();
        let mut cameras: [Waiting; 3] = std::array::from_fn(|_| on(&[]));
        let (mut frames, mut used) = (Vec::new(), [0; 3]);
        let mut coming = deliveries.iter().peekable();
        let mut now = 0;
        while now <= end {
            while let Some(&&(arrived, which, stamp)) = coming.peek() {
                if arrived > now {
                    break;
                }
                let _ = cameras[which].pictures.push(Seen { stamp, arrived });
                coming.next();
            }
            match RULES.decide(&cameras, now) {
                Decision::Instant(i) => {
                    assert_ne!(i.takes, [false; 3]);
                    for (at, _) in i.takes.iter().enumerate().filter(|t| *t.1) {
                        cameras[at].pictures.remove(0);
                        used[at] += 1;
                    }
                    frames.push(i);
                }
                Decision::Unpaired(which) => {
                    cameras[which as usize].pictures.remove(0);
                    used[which as usize] += 1;
                }
                Decision::WaitUntil(until) => {
                    assert!(until > now, "waits for what is over");
                    now += 1;
                }
                Decision::Wait => now += 1,
            }
        }
        (frames, used)
    }

    proptest! {
        /// With drops, jitter and late arrivals: whatever was taken together is paired, by time.
        #[test]
        fn pairs_whatever_is_lost(
            there in prop::collection::vec((any::<[bool; 3]>(), 0u64..5, 0u64..15), 1..20),
        ) {
            let mut deliveries = Vec::new();
            let mut expected = Vec::new();
            for (n, &(there, jitter, delay)) in there.iter().enumerate() {
                let at = 1000 + 33 * n as u64;
                let stamps = [at, at + jitter, at + jitter / 2];
                for which in (0..3).filter(|&w| there[w]) {
                    deliveries.push((stamps[which] + 3 + delay * which as u64 / 2, which, stamps[which]));
                }
                if there[0] {
                    expected.push((at, there[1], there[2]));
                }
            }
            let (frames, used) = play(&mut deliveries, 3000);
            let found: Vec<_> = frames.iter()
                .map(|f| (f.stamp, f.stereo_gap.is_none(), f.mono_gap.is_none())).collect();
            prop_assert_eq!(found, expected);
            for (which, used) in used.into_iter().enumerate().take(2) {
                prop_assert_eq!(used, there.iter().filter(|t| t.0[which]).count());
            }
        }
    }
}
