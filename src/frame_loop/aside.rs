//! Threads beside the loop's: a unit's work goes to one by value, and comes back so.
//!
//! Neither side ever holds a lock while it computes, and nothing is allocated on the way: the box
//! that holds the plans, a copy of the picture and room for the result changes hands.
use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{BackendError, ChainError, Laps, StageId, Unit};
use crate::{frame::Timestamp, realtime};

/// What is computed aside.
pub(super) trait Work: Send + 'static {
    /// Computes; `done` is to be told at the end of each of the unit's stages.
    fn run(&mut self, done: &mut dyn FnMut(StageId));
}

/// The threads aside: for each unit one that waits for its work, and as many beside them as help the
/// loop's thread. They are a pool of their own, so that the loop's thread, where it waits for
/// the rest of a required stage, is never given a piece of an optional one.
///
/// They run on the processors of the thread that makes them, one step below it: under `SCHED_FIFO`
/// with a priority of one less, else (and at priority 1) in the ordinary class with a nice value of
/// [`realtime::STEP`] more.
pub(super) struct Crew(rayon::ThreadPool);

impl Crew {
    /// For so many units.
    ///
    /// # Errors
    /// When the threads are refused.
    pub fn new(units: usize) -> Result<Self, ChainError> {
        let helpers = rayon::current_num_threads().saturating_sub(1);
        let priority = realtime::own_priority();
        rayon::ThreadPoolBuilder::new()
            .num_threads(units.max(1) + helpers)
            .thread_name(|n| format!("aside-{n}"))
            .start_handler(move |_| realtime::step_below(priority))
            .build()
            .map(Self)
            .map_err(|e| ChainError::Threads(e.to_string()))
    }
}

/// What was noted of a run aside.
#[derive(Clone, Copy, Debug)]
struct Lap {
    stage: StageId,
    /// From when it was sent, ns.
    start_ns: u64,
    duration_ns: u64,
}

type Notes = heapless::Vec<Lap, { StageId::ORDER.len() }>;

/// Where the work is, seen from the loop.
enum Desk<W> {
    /// Not here.
    Empty,
    /// Sent, and not yet taken up.
    Sent(Box<W>, Instant),
    /// Done.
    Back(Box<W>, Notes),
    /// It ended in a panic, which said this.
    Broken(String),
    /// The loop is gone.
    Closed,
}

struct Shared<W> {
    desk: Mutex<Desk<W>>,
    called: Condvar,
    back: Condvar,
}

impl<W> Shared<W> {
    /// What a thread left behind that panicked is whole: it computes without the lock.
    fn lock(&self) -> MutexGuard<'_, Desk<W>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a unit's work: here, or with the thread aside.
pub(super) struct Seat<W: Work> {
    unit: Unit,
    here: Option<Box<W>>,
    aside: Option<Arc<Shared<W>>>,
    sent: Timestamp,
}

impl<W: Work> Seat<W> {
    /// Of work that is here, and never leaves without a crew.
    pub fn new(unit: Unit, work: W, crew: Option<&Crew>) -> Self {
        let aside = crew.map(|crew| {
            let shared = Arc::new(Shared {
                desk: Mutex::new(Desk::Empty),
                called: Condvar::new(),
                back: Condvar::new(),
            });
            let there = Arc::clone(&shared);
            crew.0.spawn(move || serve(&there));
            shared
        });
        Self {
            unit,
            here: Some(Box::new(work)),
            aside,
            sent: Timestamp::default(),
        }
    }

    /// The work; `None` while it is away.
    pub fn here(&self) -> Option<&W> {
        self.here.as_deref()
    }

    /// The same.
    pub fn here_mut(&mut self) -> Option<&mut W> {
        self.here.as_deref_mut()
    }

    /// Whether it can be sent.
    pub fn is_ready(&self) -> bool {
        self.here.is_some() && self.aside.is_some()
    }

    /// Sends the work, which is ready for it, to the thread aside.
    pub fn send(&mut self, laps: &Laps<'_>) -> bool {
        let Some(shared) = &self.aside else {
            return false;
        };
        let Some(work) = self.here.take() else {
            return false;
        };
        self.sent = laps.now();
        *shared.lock() = Desk::Sent(work, Instant::now());
        shared.called.notify_one();
        true
    }

    /// Waits until it is back, `until` at most; whether it is.
    pub fn wait(&self, until: Timestamp, laps: &Laps<'_>) -> bool {
        let (None, Some(shared)) = (&self.here, &self.aside) else {
            return true;
        };
        let mut desk = shared.lock();
        loop {
            if matches!(*desk, Desk::Back(..) | Desk::Broken(_)) {
                return true;
            }
            let left_ns = until.since(laps.now());
            if left_ns == 0 {
                return false;
            }
            // The loop's clock may be another one than that of the wait.
            let waited = shared
                .back
                .wait_timeout(desk, Duration::from_nanos(left_ns));
            desk = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until it is back, notes its stages, and gives it.
    ///
    /// # Errors
    /// When it panicked.
    pub fn take_back(&mut self, laps: &mut Laps<'_>) -> Result<Option<&mut W>, BackendError> {
        self.wait(Timestamp(u64::MAX), laps);
        if let (None, Some(shared)) = (&self.here, &self.aside) {
            let came = mem::replace(&mut *shared.lock(), Desk::Empty);
            match came {
                Desk::Back(work, notes) => {
                    self.here = Some(work);
                    laps.arrived();
                    // By the loop's clock, which may be a slower one than that of the threads.
                    let passed_ns = laps.now().since(self.sent);
                    for lap in notes {
                        let start_ns = lap.start_ns.min(passed_ns);
                        let duration_ns = lap.duration_ns.min(passed_ns - start_ns);
                        laps.note(lap.stage, self.sent.plus_ns(start_ns), duration_ns);
                    }
                }
                Desk::Broken(said) => {
                    let message = format!("stage {} panicked: {said}", names(self.unit));
                    *shared.lock() = Desk::Broken(said);
                    return Err(BackendError {
                        backend: "cpu",
                        message,
                    });
                }
                other => *shared.lock() = other,
            }
        }
        Ok(self.here.as_deref_mut())
    }
}

impl<W: Work> Drop for Seat<W> {
    /// Nobody waits for a thread that is still at work: it ends after that.
    fn drop(&mut self) {
        if let Some(shared) = &self.aside {
            *shared.lock() = Desk::Closed;
            shared.called.notify_one();
        }
    }
}

fn names(unit: Unit) -> String {
    let names: Vec<&str> = unit.stages.iter().map(|s| s.name()).collect();
    names.join(" or ")
}

/// What the thread aside does, until the seat is gone or the work panics.
fn serve<W: Work>(shared: &Shared<W>) {
    loop {
        let mut desk = shared.lock();
        let (mut work, sent) = loop {
            match mem::replace(&mut *desk, Desk::Empty) {
                Desk::Sent(work, sent) => break (work, sent),
                Desk::Closed => return,
                other => *desk = other,
            }
            desk = (shared.called.wait(desk)).unwrap_or_else(PoisonError::into_inner);
        };
        drop(desk);
        let mut notes = Notes::new();
        let mut from = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            work.run(&mut |stage| {
                let now = Instant::now();
                // Room for more stages than there are.
                let _ = notes.push(Lap {
                    stage,
                    start_ns: nanoseconds(from - sent),
                    duration_ns: nanoseconds(now - from),
                });
                from = now;
            });
        }));
        let mut desk = shared.lock();
        if matches!(*desk, Desk::Closed) {
            return;
        }
        let broken = ran.is_err();
        *desk = match ran {
            Ok(()) => Desk::Back(work, notes),
            Err(panic) => Desk::Broken(said(&*panic)),
        };
        shared.back.notify_one();
        if broken {
            return;
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "nothing".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frame::Timing, frame_loop::MonotonicClock};

    /// Adds up; panics at 13.
    struct Sum {
        next: u64,
        sum: u64,
    }

    impl Work for Sum {
        fn run(&mut self, done: &mut dyn FnMut(StageId)) {
            assert_ne!(self.next, 13, "thirteen");
            self.sum += self.next;
            done(StageId::Egomotion);
            done(StageId::Foreground);
        }
    }

    const UNIT: Unit = Unit {
        stages: &[StageId::Egomotion, StageId::Foreground],
    };

    fn seat(crew: Option<&Crew>) -> Seat<Sum> {
        Seat::new(UNIT, Sum { next: 0, sum: 0 }, crew)
    }

    #[test]
    fn work_comes_back_with_its_times() {
        let crew = Crew::new(1).unwrap();
        let mut seat = seat(Some(&crew));
        let mut timing = Timing::default();
        for n in 0..100 {
            timing.stages.clear();
            let mut laps = Laps::new(&MonotonicClock, Timestamp(0), &mut timing);
            seat.here_mut().unwrap().next = n % 10;
            assert!(seat.send(&laps));
            // A second time it is not there.
            assert!(!seat.send(&laps) && !seat.is_ready());
            let back = seat.take_back(&mut laps).unwrap().unwrap();
            assert_eq!(back.next, n % 10);
            let stages: Vec<&str> = timing.stages.iter().map(|s| s.stage).collect();
            assert_eq!(stages, ["egomotion", "foreground"]);
            assert!(timing.stages[1].start_ns >= timing.stages[0].start_ns);
        }
        assert_eq!(seat.here().unwrap().sum, 450);
    }

    #[test]
    fn without_threads_it_stays() {
        let mut timing = Timing::default();
        let mut laps = Laps::new(&MonotonicClock, Timestamp(0), &mut timing);
        let mut seat = seat(None);
        assert!(!seat.send(&laps) && !seat.is_ready());
        assert!(seat.wait(Timestamp(0), &laps));
        assert!(seat.take_back(&mut laps).unwrap().is_some());
    }

    #[test]
    fn a_panic_is_an_error_that_names_the_stages() {
        let crew = Crew::new(1).unwrap();
        let mut seat = seat(Some(&crew));
        let mut timing = Timing::default();
        let mut laps = Laps::new(&MonotonicClock, Timestamp(0), &mut timing);
        seat.here_mut().unwrap().next = 13;
        assert!(seat.send(&laps));
        let error = seat.take_back(&mut laps).err().unwrap().to_string();
        let begins = "cpu: stage egomotion or foreground panicked: ";
        assert!(
            error.starts_with(begins) && error.contains("thirteen"),
            "{error}"
        );
        // Nor is it waited for again.
        assert!(seat.take_back(&mut laps).is_err());
    }

    /// A wait without time says at once whether it is back.
    #[test]
    fn a_bounded_wait_ends() {
        struct Gate(Arc<Mutex<()>>);
        impl Work for Gate {
            fn run(&mut self, _done: &mut dyn FnMut(StageId)) {
                drop(self.0.lock());
            }
        }
        let crew = Crew::new(1).unwrap();
        let gate = Arc::new(Mutex::new(()));
        let mut seat = Seat::new(UNIT, Gate(Arc::clone(&gate)), Some(&crew));
        let mut timing = Timing::default();
        let mut laps = Laps::new(&MonotonicClock, Timestamp(0), &mut timing);
        let shut = gate.lock().unwrap();
        assert!(seat.send(&laps));
        let soon = laps.now().plus_ns(1_000_000);
        assert!(!seat.wait(Timestamp(0), &laps) && !seat.wait(soon, &laps));
        drop(shut);
        assert!(seat.take_back(&mut laps).unwrap().is_some());
        // Nor is a seat that is dropped kept by what is under way.
        let shut = gate.lock().unwrap();
        assert!(seat.send(&laps));
        drop(seat);
        drop(shut);
    }
}
