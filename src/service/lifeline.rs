//! Between the loop and who must know that it lives.
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Notifier;
use crate::{
    calib::Rig,
    frame::{
        CameraState, CameraStates, FrameId, FrameResult, FrameSet, Gap, Outcome, StageTiming,
        Timestamp,
    },
    frame_loop::{Clock, StageId},
    sink::{Sink, SinkError, View},
    source::{LiveShape, LiveSource, Next, Source},
};

/// How long the loop may be without what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From the start to the first result, ns.
    pub first_ns: u64,
    /// From one frame to the next, ns.
    pub next_ns: u64,
}

/// Signs of life, given by the loop's thread as it turns: from its own code, never by a timer, so
/// that they stop when the loop does.
#[derive(Debug)]
pub struct Lifeline<'a, C> {
    notifier: &'a Notifier,
    clock: &'a C,
    patience: Patience,
    start: Timestamp,
    last_sign: AtomicU64,
    last_frame: AtomicU64,
    ready: AtomicBool,
    gave_up: AtomicBool,
    /// Four bits a camera: 0, or its state and one.
    cameras: AtomicU32,
}

impl<'a, C: Clock> Lifeline<'a, C> {
    /// Nothing has been told yet.
    pub fn new(notifier: &'a Notifier, clock: &'a C, patience: Patience) -> Self {
        let start = clock.now();
        Self {
            notifier,
            clock,
            patience,
            start,
            last_sign: AtomicU64::new(0),
            last_frame: AtomicU64::new(start.0),
            ready: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            cameras: AtomicU32::new(0),
        }
    }

    /// Whether there has been a result.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Relaxed)
    }

    /// Whether the loop was ended because no frame came for too long.
    pub fn gave_up(&self) -> bool {
        self.gave_up.load(Relaxed)
    }

    /// What the cameras did when the loop last turned.
    pub fn cameras(&self) -> CameraStates {
        let packed = self.cameras.load(Relaxed);
        let state = |n: u32| match packed >> (4 * n) & 7 {
            0 => None,
            at => CameraState::ALL.get(at as usize - 1).copied(),
        };
        CameraStates {
            left: state(0),
            right: state(1),
            mono: state(2),
        }
    }

    fn note(&self, cameras: CameraStates) {
        let bits = |state: Option<CameraState>| state.map_or(0, |s| s as u32 + 1);
        let packed = bits(cameras.left) | bits(cameras.right) << 4 | bits(cameras.mono) << 8;
        self.cameras.store(packed, Relaxed);
    }

    /// The loop has turned. The watchdog is fed four times in its period.
    fn turned(&self) {
        let Some(watchdog) = self.notifier.watchdog() else {
            return;
        };
        let now = self.clock.now();
        let since = now.since(Timestamp(self.last_sign.load(Relaxed)));
        if since >= watchdog.as_nanos() as u64 / 4 {
            self.last_sign.store(now.0, Relaxed);
            self.notifier.tell("WATCHDOG=1");
        }
    }

    /// Whether to go on waiting for a frame.
    fn is_patient(&self) -> bool {
        let now = self.clock.now();
        if self.is_ready() {
            now.since(Timestamp(self.last_frame.load(Relaxed))) < self.patience.next_ns
        } else {
            now.since(self.start) < self.patience.first_ns
        }
    }

    fn published(&self) {
        if !self.ready.swap(true, Relaxed) {
            self.notifier.tell("READY=1");
        }
    }

    /// `source`, which gives a sign of life each time that it is asked, and ends when it has
    /// had nothing for too long.
    pub fn source<S>(&'a self, source: S) -> AttendedSource<'a, S, C> {
        AttendedSource {
            lifeline: self,
            source,
        }
    }

    /// A sink that says when there is a result.
    pub fn sink(&'a self) -> impl Sink + 'a {
        AttendedSink(self)
    }
}

/// See [`Lifeline::source`].
#[derive(Debug)]
pub struct AttendedSource<'a, S, C> {
    lifeline: &'a Lifeline<'a, C>,
    source: S,
}

impl<S: Source, C: Clock> Source for AttendedSource<'_, S, C> {
    fn next(&mut self, wait_ns: u64) -> Next {
        self.lifeline.turned();
        let next = self.source.next(wait_ns);
        self.lifeline.note(self.source.cameras());
        match &next {
            Next::Frame(_) => {
                let now = self.lifeline.clock.now();
                self.lifeline.last_frame.store(now.0, Relaxed);
            }
            _ if self.lifeline.is_patient() => {}
            _ => {
                self.lifeline.gave_up.store(true, Relaxed);
                return Next::End;
            }
        }
        next
    }

    fn skip_before(&mut self, stamp: Timestamp) {
        self.source.skip_before(stamp);
    }

    fn cameras(&self) -> CameraStates {
        self.source.cameras()
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.source.recycle(set);
    }
}

impl<S: LiveSource, C: Clock> LiveSource for AttendedSource<'_, S, C> {
    fn shape(&self) -> LiveShape {
        self.source.shape()
    }

    fn rig(&self) -> Option<Rig> {
        self.source.rig()
    }
}

struct AttendedSink<'a, C>(&'a Lifeline<'a, C>);

impl<C: Clock> Sink for AttendedSink<'_, C> {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let required = |name| {
            StageId::ORDER
                .iter()
                .any(|s| s.required() && s.name() == name)
        };
        let skipped = |t: &StageTiming| t.outcome == Outcome::Skipped && required(t.stage);
        // Without its street a result is not what the service is for.
        if !result.timing.stages.iter().any(skipped) {
            self.0.published();
        }
        Ok(())
    }

    fn gap(&mut self, _id: FrameId, _gap: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_loop::MockClock;
    use std::{os::unix::net::UnixDatagram, time::Duration};

    const PATIENCE: Patience = Patience {
        first_ns: 1_000,
        next_ns: 500,
    };

    /// A frame or nothing, as the list has it.
    struct Listed(Vec<bool>);

    impl Source for Listed {
        fn next(&mut self, _wait_ns: u64) -> Next {
            match self.0.pop() {
                Some(true) => Next::Frame(Box::default()),
                _ => Next::Nothing,
            }
        }

        fn recycle(&mut self, _set: Box<FrameSet>) {}
    }

    fn told(socket: &UnixDatagram) -> Vec<String> {
        socket.set_nonblocking(true).unwrap();
        let mut text = [0; 64];
        std::iter::from_fn(|| {
            let n = socket.recv(&mut text).ok()?;
            Some(String::from_utf8_lossy(&text[..n]).into_owned())
        })
        .collect()
    }

    #[test]
    fn signs_come_from_turns_of_the_loop_and_no_oftener_than_needed() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let notifier = Notifier::to(here, Some(Duration::from_nanos(400)));
        let clock = MockClock::at(Timestamp(1_000));
        let lifeline = Lifeline::new(&notifier, &clock, PATIENCE);
        let mut source = lifeline.source(Listed(vec![]));
        source.next(0);
        assert_eq!(told(&there), ["WATCHDOG=1"]);
        clock.advance_ns(99);
        source.next(0);
        assert!(told(&there).is_empty());
        clock.advance_ns(1);
        source.next(0);
        assert_eq!(told(&there), ["WATCHDOG=1"]);
        // No turn, no sign, however long it lasts.
        clock.advance_ns(10_000);
        assert!(told(&there).is_empty());
    }

    #[test]
    fn ready_is_told_once_and_only_after_a_result() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let notifier = Notifier::to(here, None);
        let clock = MockClock::default();
        let lifeline = Lifeline::new(&notifier, &clock, PATIENCE);
        let mut sink = lifeline.sink();
        sink.gap(FrameId::default(), Gap::Dropped).unwrap();
        let mut without_street = FrameResult::default();
        let skipped = StageTiming {
            stage: "stereo",
            start_ns: 0,
            duration_ns: 0,
            outcome: Outcome::Skipped,
        };
        without_street.timing.stages.push(skipped).unwrap();
        sink.frame(View::default(), &without_street).unwrap();
        assert!(!lifeline.is_ready() && told(&there).is_empty());
        for _ in 0..2 {
            sink.frame(View::default(), &FrameResult::default())
                .unwrap();
        }
        assert!(lifeline.is_ready());
        assert_eq!(told(&there), ["READY=1"]);
    }

    #[test]
    fn camera_states_pass_unchanged() {
        let (notifier, clock) = (Notifier::default(), MockClock::default());
        let lifeline = Lifeline::new(&notifier, &clock, PATIENCE);
        assert_eq!(lifeline.cameras(), CameraStates::default());
        for (n, state) in CameraState::ALL.into_iter().enumerate() {
            let states = CameraStates {
                left: Some(state),
                right: Some(CameraState::ALL[3 - n]),
                mono: (n % 2 == 0).then_some(state),
            };
            lifeline.note(states);
            assert_eq!(lifeline.cameras(), states);
        }
    }

    #[test]
    fn patience_ends_before_the_first_frame_and_between_frames() {
        let notifier = Notifier::default();
        let clock = MockClock::default();
        let lifeline = Lifeline::new(&notifier, &clock, PATIENCE);
        let mut source = lifeline.source(Listed(vec![true]));
        clock.advance_ns(999);
        assert!(matches!(source.next(0), Next::Frame(_)));
        assert!(matches!(source.next(0), Next::Nothing));
        lifeline.published();
        clock.advance_ns(499);
        assert!(matches!(source.next(0), Next::Nothing));
        clock.advance_ns(1);
        assert!(matches!(source.next(0), Next::End));
        assert!(lifeline.gave_up());

        let never = Lifeline::new(&notifier, &clock, PATIENCE);
        let mut source = never.source(Listed(vec![]));
        clock.advance_ns(1_000);
        assert!(matches!(source.next(0), Next::End));
    }
}
