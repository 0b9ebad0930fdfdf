//! Results at a fixed latency: each is kept until its frame is so old, and then handed out.
//!
//! The loop never waits for that: it goes on with the next frame while a thread holds up to
//! [`BOXES`] results, the lists in them alone, and sleeps until the first is due.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use super::{
    Announced, Sink, SinkError, View,
    conveyor::{Filler, Received, Writer, conveyor},
    counters::Durations,
};
use crate::{
    frame::{
        Foreground, FrameId, FrameResult, Gap, Image, Outcome, Size, Stixels, Street, Timestamp,
    },
    frame_loop::Clock,
};

/// Results that wait to be handed out; for the longest latency, 1 s, at 60 Hz.
pub const BOXES: usize = 64;

/// Handed out later than this is late, ns.
pub const TOLERANCE_NS: u64 = 500_000;

/// How punctual results are handed out; read by any thread.
#[derive(Debug, Default)]
pub struct Punctuality {
    /// From a frame's arrival (live: its stamp) until its result was handed out.
    pub latency: Durations,
    /// Differences of these of one frame and the next.
    pub jitter: Durations,
    late: AtomicU64,
    lost: AtomicU64,
    last: AtomicU64,
}

impl Punctuality {
    /// Results that were handed out late, and flagged.
    pub fn late(&self) -> u64 {
        self.late.load(Relaxed)
    }

    /// Results and gaps that there was no room for.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Notes that a result was handed out.
    pub fn note(&self, latency_ns: u64) {
        let before = self.last.swap(latency_ns, Relaxed);
        if self.latency.count() > 0 {
            self.jitter.record(latency_ns.abs_diff(before));
        }
        self.latency.record(latency_ns);
    }
}

enum What {
    Result,
    Gap(FrameId, Gap),
}

/// A result, or a gap, on its way.
struct Job {
    what: What,
    result: FrameResult,
}

/// A result of the shape of `of`, for its lists.
fn lists(of: &FrameResult) -> FrameResult {
    let street = of.street.as_ref().map(|s| {
        let stixels: Stixels = s.stixels.clone();
        Street::new(Size::new(0, 0), stixels)
    });
    FrameResult {
        street,
        motion: of.motion,
        foreground: of.foreground.as_ref().map(|_| Foreground {
            mask: Image::new(0, 0),
            ..Foreground::new(Size::new(0, 0))
        }),
        logos: of.logos.clone(),
        ..FrameResult::default()
    }
}

/// Copies all but images; allocates nothing.
fn copy_lists(to: &mut FrameResult, from: &FrameResult) {
    to.id = from.id;
    if let (Some(to), Some(from)) = (&mut to.street, &from.street) {
        to.road = from.road;
        to.stixels.copy_from(&from.stixels);
    }
    to.motion = from.motion;
    if let (Some(to), Some(from)) = (&mut to.foreground, &from.foreground) {
        to.state = from.state;
    }
    if let (Some(to), Some(from)) = (&mut to.logos, &from.logos) {
        to.clone_from(from);
    }
    to.timing.clone_from(&from.timing);
    to.gaps = from.gaps;
    to.health = from.health;
}

/// Hands results to a sink when they are due: never before, and with a flag where it is late.
struct Due<S, C> {
    sink: S,
    clock: C,
    latency_ns: u64,
    punctuality: Arc<Punctuality>,
    enter: Enter,
}

/// What the thread does first.
type Enter = Box<dyn Fn() + Send>;

impl<S: Sink, C: Clock> Due<S, C> {
    /// Waits until the result is due, and hands it out.
    fn result(&mut self, result: &mut FrameResult) -> Result<(), SinkError> {
        let arrival = result.timing.start;
        let due = arrival.plus_ns(self.latency_ns);
        let mut now = self.clock.now();
        while now < due {
            self.clock.sleep_until(due);
            now = self.clock.now();
        }
        if now.since(due) > TOLERANCE_NS {
            result.gaps.insert(Gap::Late);
            result.timing.outcome = Outcome::Late;
            self.punctuality.late.fetch_add(1, Relaxed);
        }
        self.punctuality.note(now.since(arrival));
        self.sink.frame(View::default(), result)
    }

    fn job(&mut self, job: &mut Job) -> Result<(), SinkError> {
        match job.what {
            What::Result => self.result(&mut job.result),
            What::Gap(id, gap) => self.sink.gap(id, gap),
        }
    }
}

/// How long the thread waits for a box before it looks again.
const PATIENCE: Duration = Duration::from_secs(1);

impl<S: Sink, C: Clock> Due<S, C> {
    /// Hands out all that comes, and gives the sink back. What a sink refuses is told once, and
    /// ends it as it would in the loop.
    fn run(mut self, boxes: &Writer<Job>) -> (Self, Result<(), SinkError>) {
        (self.enter)();
        let mut failed = Ok(());
        loop {
            match boxes.next_within(PATIENCE) {
                Received::Filled(mut job) => {
                    if failed.is_ok() {
                        failed = self.job(&mut job);
                    }
                    boxes.give_back(job);
                }
                Received::Nothing => {}
                Received::Closed => return (self, failed),
            }
        }
    }
}

struct Line<S, C> {
    filler: Filler<Job>,
    thread: JoinHandle<(Due<S, C>, Result<(), SinkError>)>,
}

/// The sink that stands before one that takes lists; see the module.
pub struct AtLatency<S, C> {
    idle: Option<Due<S, C>>,
    line: Option<Line<S, C>>,
    punctuality: Arc<Punctuality>,
}

impl<S: Sink + Send + 'static, C: Clock + Send + 'static> AtLatency<S, C> {
    /// Hands results to `sink` the latency after they arrived, by `clock`, which must be the
    /// loop's.
    pub fn new(sink: S, clock: C, latency_ns: u64) -> Self {
        let punctuality = Arc::<Punctuality>::default();
        Self {
            idle: Some(Due {
                sink,
                clock,
                latency_ns,
                punctuality: Arc::clone(&punctuality),
                enter: Box::new(|| ()),
            }),
            line: None,
            punctuality,
        }
    }

    /// What its thread does first: asks for a scheduling class. Before the first frame.
    #[must_use]
    pub fn entering(mut self, enter: impl Fn() + Send + 'static) -> Self {
        if let Some(due) = &mut self.idle {
            due.enter = Box::new(enter);
        }
        self
    }

    /// How punctual it is.
    pub fn punctuality(&self) -> Arc<Punctuality> {
        Arc::clone(&self.punctuality)
    }

    /// Waits for what is on its way, which is no longer than the latency.
    fn end(&mut self) -> Result<(), SinkError> {
        let Some(Line { filler, thread }) = self.line.take() else {
            return Ok(());
        };
        drop(filler);
        match thread.join() {
            Ok((due, outcome)) => {
                self.idle = Some(due);
                outcome
            }
            Err(_) => Err(SinkError::HandOut(std::io::Error::other(
                "the thread that hands results out has died",
            ))),
        }
    }

    fn pass(&mut self, fill: impl FnOnce(&mut Job)) -> Result<(), SinkError> {
        let gone = || SinkError::HandOut(std::io::Error::other("nobody hands results out"));
        let Some(line) = &self.line else {
            return Err(gone());
        };
        match line.filler.take() {
            Ok(Some(mut job)) => {
                fill(&mut job);
                line.filler.pass(job).map_err(|_| gone())
            }
            Ok(None) => {
                self.punctuality.lost.fetch_add(1, Relaxed);
                Ok(())
            }
            Err(_) => Err(gone()),
        }
    }
}

impl<S: Sink + Send + 'static, C: Clock + Send + 'static> Sink for AtLatency<S, C> {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.end()?;
        let Some(mut due) = self.idle.take() else {
            return Ok(());
        };
        due.sink.begin(announced)?;
        let job = || Job {
            what: What::Result,
            result: lists(announced.shape),
        };
        let boxes = (0..BOXES).map(|_| Box::new(job())).collect();
        let (filler, writer) = conveyor(boxes);
        let thread = std::thread::Builder::new()
            .name("at-latency".into())
            .spawn(move || due.run(&writer))
            .map_err(SinkError::HandOut)?;
        self.line = Some(Line { filler, thread });
        Ok(())
    }

    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.pass(|job| {
            job.what = What::Result;
            copy_lists(&mut job.result, result);
        })
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.pass(|job| job.what = What::Gap(id, gap))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let ended = self.end();
        let finished = self.idle.as_mut().map_or(Ok(()), |due| due.sink.finish());
        ended.and(finished)
    }
}

impl<S, C> Drop for AtLatency<S, C> {
    fn drop(&mut self) {
        if let Some(Line { filler, thread }) = self.line.take() {
            drop(filler);
            // Who has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Notes when results are handed out that are handed out when they are ready.
pub struct WhenReady<'a, S, C> {
    sink: S,
    clock: &'a C,
    punctuality: Arc<Punctuality>,
}

impl<'a, S: Sink, C: Clock> WhenReady<'a, S, C> {
    /// Passes everything on to `sink` at once.
    pub fn new(sink: S, clock: &'a C) -> Self {
        Self {
            sink,
            clock,
            punctuality: Arc::default(),
        }
    }

    /// How punctual it is.
    pub fn punctuality(&self) -> Arc<Punctuality> {
        Arc::clone(&self.punctuality)
    }
}

impl<S: Sink, C: Clock> Sink for WhenReady<'_, S, C> {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.sink.begin(announced)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let now: Timestamp = self.clock.now();
        self.punctuality.note(now.since(result.timing.start));
        self.sink.frame(view, result)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.sink.gap(id, gap)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{ForegroundState, Logo, LogoState, Logos, Road, Stixel},
        frame_loop::{MockClock, MonotonicClock},
    };
    use std::{cell::Cell, sync::Mutex};

    const MS: u64 = 1_000_000;

    /// What is handed out, with the time; shared with who looks.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<(usize, bool)>>>);

    impl Sink for Seen {
        fn frame(&mut self, _: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
            let late = result.gaps.contains(Gap::Late);
            assert_eq!(late, result.timing.outcome == Outcome::Late);
            self.0.lock().unwrap().push((result.id.index, late));
            Ok(())
        }

        fn gap(&mut self, id: FrameId, _: Gap) -> Result<(), SinkError> {
            self.0.lock().unwrap().push((id.index, true));
            Ok(())
        }
    }

    /// Sleeps by so much too long.
    struct Oversleeps<'a>(&'a MockClock, Cell<u64>);

    impl Clock for Oversleeps<'_> {
        fn now(&self) -> Timestamp {
            self.0.now()
        }

        fn sleep_until(&self, until: Timestamp) {
            self.0.sleep_until(until.plus_ns(self.1.get()));
        }
    }

    fn result(index: usize, arrival: u64) -> FrameResult {
        let mut result = FrameResult::default();
        result.id.index = index;
        result.timing.start = Timestamp(arrival);
        result
    }

    #[test]
    fn results_are_handed_out_when_due_and_what_is_late_is_flagged() {
        let mock = MockClock::at(Timestamp(1000 * MS));
        let seen = Seen::default();
        let mut due = Due {
            sink: seen.clone(),
            clock: Oversleeps(&mock, Cell::new(0)),
            latency_ns: 50 * MS,
            punctuality: Arc::default(),
            enter: Box::new(|| ()),
        };
        // Ready long before, oversleeping within the tolerance and beyond, ready too late.
        for (n, (oversleeps, ready, handed_out)) in [
            (0, 10 * MS, 50 * MS),
            (TOLERANCE_NS, 10 * MS, 50 * MS + TOLERANCE_NS),
            (TOLERANCE_NS + 1, 10 * MS, 50 * MS + TOLERANCE_NS + 1),
            (0, 50 * MS, 50 * MS),
            (0, 51 * MS, 51 * MS),
        ]
        .into_iter()
        .enumerate()
        {
            due.clock.1.set(oversleeps);
            let arrival = mock.now().0 + 7;
            mock.sleep_until(Timestamp(arrival + ready));
            due.result(&mut result(n, arrival)).unwrap();
            assert_eq!(mock.now(), Timestamp(arrival + handed_out), "{n}");
        }
        let late = [false, false, true, false, true];
        assert_eq!(
            *seen.0.lock().unwrap(),
            late.into_iter().enumerate().collect::<Vec<_>>()
        );
        let punctuality = &due.punctuality;
        assert_eq!(punctuality.late(), 2);
        assert_eq!(punctuality.latency.count(), 5);
        assert_eq!(punctuality.latency.max_ns(), 51 * MS);
        // 500 us, 1 ns, 500.001 us, 1 ms.
        assert_eq!(punctuality.jitter.count(), 4);
        assert_eq!(punctuality.jitter.sum_ns(), 2 * MS + 2);
    }

    #[test]
    fn when_ready_is_at_once() {
        let clock = MockClock::at(Timestamp(1000 * MS));
        let seen = Seen::default();
        let mut sink = WhenReady::new(seen.clone(), &clock);
        for n in 0..3 {
            sink.frame(View::default(), &result(n, (1000 - n as u64) * MS))
                .unwrap();
        }
        assert_eq!(clock.now(), Timestamp(1000 * MS));
        assert_eq!(seen.0.lock().unwrap().len(), 3);
        let punctuality = sink.punctuality();
        assert_eq!(punctuality.latency.sum_ns(), 3 * MS);
        assert_eq!(punctuality.jitter.sum_ns(), 2 * MS);
    }

    #[test]
    fn in_its_thread_all_come_in_order_none_early_and_the_end_waits_for_them() {
        let seen = Seen::default();
        let mut sink = AtLatency::new(seen.clone(), MonotonicClock, 2 * MS);
        let punctuality = sink.punctuality();
        for segment in 0..2 {
            sink.begin(&Announced {
                camera: None,
                ..Announced::street(
                    crate::frame::Camera {
                        focal_px: 1.0,
                        cx: 0.0,
                        cy: 0.0,
                        baseline_m: 1.0,
                    },
                    &FrameResult::default(),
                    false,
                )
            })
            .unwrap();
            for n in 0..10 {
                let now = MonotonicClock.now().0;
                let index = 10 * segment + n;
                sink.frame(View::default(), &result(index, now)).unwrap();
            }
            let id = FrameId {
                index: 100 + segment,
                ..FrameId::default()
            };
            sink.gap(id, Gap::Dropped).unwrap();
        }
        sink.finish().unwrap();
        let order: Vec<usize> = seen.0.lock().unwrap().iter().map(|s| s.0).collect();
        let expected = (0..10).chain([100]).chain(10..20).chain([101]);
        assert!(order.into_iter().eq(expected));
        assert_eq!(punctuality.latency.count(), 20);
        let buckets = punctuality.latency.buckets();
        assert_eq!(buckets[..7].iter().sum::<u64>(), 0, "{buckets:?}");
        assert_eq!(punctuality.lost(), 0);
    }

    #[test]
    fn lists_pass_unchanged() {
        let size = Size::new(9, 5);
        let shape = FrameResult {
            motion: Some(crate::frame::Motion::default()),
            foreground: Some(Foreground::new(size)),
            logos: Some(Logos::new()),
            ..Street::new(size, Stixels::new(2, 4, 3)).into()
        };
        let mut from = shape.clone();
        let street = from.street.as_mut().unwrap();
        street.road = Road {
            slope: 0.5,
            ..street.road
        };
        let (counts, mut columns) = street.stixels.columns_mut();
        counts[1] = 1;
        columns.nth(1).unwrap()[0] = Stixel {
            class: crate::frame::Class::Object,
            top: 1,
            base: 3,
            disparity: 512,
            confidence: 9,
        };
        from.foreground.as_mut().unwrap().state = ForegroundState::ALL[1];
        let logo = Logo {
            id: 1,
            template: 0,
            state: LogoState::Tracked,
            quad: [[0.5; 2]; 4],
            velocity: [0.0; 2],
            confidence: 7,
        };
        from.logos.as_mut().unwrap().push(logo).unwrap();
        from.gaps.insert(Gap::RoadHeld);
        from.health.throttled = Some(true);
        let mut to = lists(&shape);
        copy_lists(&mut to, &from);
        let (a, b) = (to.street.as_ref().unwrap(), from.street.as_ref().unwrap());
        assert_eq!((&a.road, &a.stixels), (&b.road, &b.stixels));
        assert_eq!(
            to.foreground.unwrap().state,
            from.foreground.as_ref().unwrap().state
        );
        assert_eq!((to.logos, to.gaps), (from.logos, from.gaps));
        assert_eq!(to.health, from.health);
    }
}
