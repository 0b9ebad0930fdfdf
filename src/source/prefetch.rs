//! Decoding ahead of the loop.
use std::{
    collections::VecDeque,
    num::NonZero,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use super::{
    Drive, FrameFiles, Next, Source,
    decode::{Fault, Loader},
};
use crate::frame::{FrameId, FrameSet, Gap, Timestamp};

/// How many gaps of a segment are warned of one by one.
pub(super) const WARNINGS: usize = 20;

/// How long the end waits for pictures that are being read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Decodes the frames of one segment of a drive in threads of its own, ahead of who asks for
/// them.
///
/// There are `slots` frame sets in all, taken at the start; they go round between the decoders,
/// the queue and the caller, so neither [`Source::next`] nor [`Source::recycle`] allocates. The
/// decoders stop when all are filled or out: a caller that keeps `slots` of them gets
/// [`Next::Nothing`] until it gives one back. Every frame of the segment is given out once and
/// in order, as itself or as a gap, whatever the number of threads.
#[derive(Debug)]
pub struct Prefetch {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Place of the next frame in `shared.frames`.
    next: usize,
}

/// What the threads have in common. Condition variables rather than channels: a channel
/// allocates when a thread waits for the first time, whenever that is.
#[derive(Debug)]
struct Shared {
    frames: Arc<[FrameFiles]>,
    segment: Range<usize>,
    slots: usize,
    state: Mutex<State>,
    /// Something was put into the queue, or there will be no more.
    filled: Condvar,
    /// A frame set came back, the queue has room, the turn moved on, or all is over.
    moved: Condvar,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Item>,
    #[expect(clippy::vec_box, reason = "they travel in their boxes")]
    empty: Vec<Box<FrameSet>>,
    /// Place of the next frame to decode. Frame sets are handed out with it, in order, so the
    /// frame that is waited for always has one.
    ticket: usize,
    /// Place of the next frame to enter the queue.
    turn: usize,
    gaps: usize,
    /// Frames stamped earlier need not be decoded.
    skip_before: Timestamp,
    /// Nobody asks any more.
    closed: bool,
    /// A thread died before its work was done.
    failed: bool,
    /// Threads at work.
    alive: usize,
}

#[derive(Debug)]
enum Item {
    Frame(Box<FrameSet>),
    Gap(FrameId, Gap),
}

impl Prefetch {
    /// Starts decoding a segment into `slots` frame sets (at least one), in a quarter of the
    /// processor's threads, from one to four.
    ///
    /// # Errors
    /// When the system gives no thread.
    ///
    /// # Panics
    /// When the drive has no such segment.
    pub fn start(drive: &Drive, segment: usize, slots: usize) -> std::io::Result<Self> {
        let all = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::with_threads(drive, segment, slots, (all / 4).clamp(1, 4))
    }

    /// As [`Prefetch::start`], in so many threads (at least one; more than `slots` are of no
    /// use).
    ///
    /// # Errors
    /// As [`Prefetch::start`].
    ///
    /// # Panics
    /// As [`Prefetch::start`].
    pub fn with_threads(
        drive: &Drive,
        segment: usize,
        slots: usize,
        threads: usize,
    ) -> std::io::Result<Self> {
        let slots = slots.max(1);
        let segment = &drive.segments()[segment];
        let range = drive.slots(segment);
        let loader = || Loader::new(drive, segment);
        let sets = || Box::new(loader().frame_set());
        let shared = Arc::new(Shared {
            frames: drive.shared_frames(),
            segment: range.clone(),
            slots,
            state: Mutex::new(State {
                queue: VecDeque::with_capacity(slots),
                empty: std::iter::repeat_with(sets).take(slots).collect(),
                ticket: range.start,
                turn: range.start,
                gaps: 0,
                skip_before: Timestamp(0),
                closed: false,
                failed: false,
                alive: 0,
            }),
            filled: Condvar::new(),
            moved: Condvar::new(),
        });
        // Made before any thread, so that a thread that is refused ends the others.
        let mut prefetch = Self {
            shared,
            threads: Vec::new(),
            next: range.start,
        };
        for _ in 0..threads.clamp(1, slots) {
            let mut loader = loader();
            if let Err(e) = prefetch.spawn(move |shared| shared.work(&mut loader)) {
                if prefetch.threads.is_empty() {
                    return Err(e);
                }
                log::warn!("fewer threads for decoding than wanted: {e}");
                break;
            }
        }
        Ok(prefetch)
    }

    fn spawn(&mut self, work: impl FnOnce(&Shared) + Send + 'static) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        self.shared.lock().alive += 1;
        let thread = std::thread::Builder::new()
            .name("decode".into())
            .spawn(move || {
                let _ward = Ward(&shared);
                work(&shared);
            })
            .inspect_err(|_| self.shared.lock().alive -= 1)?;
        self.threads.push(thread);
        Ok(())
    }

    /// How many frames of the segment have not been given out yet.
    pub fn remaining(&self) -> usize {
        self.shared.segment.end - self.next
    }
}

impl Shared {
    /// The state; a thread that died holding it left it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change as long as `cond` holds.
    fn wait(&self, cond: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        self.moved
            .wait_while(self.lock(), cond)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A decoding thread: ends when all is decoded or nobody asks any more.
    fn work(&self, loader: &mut Loader) {
        while let Some((at, mut set)) = self.take() {
            let files = &self.frames[at];
            if files.id.timestamp < self.lock().skip_before {
                self.deliver(at, set, Err(Fault::dropped()));
                continue;
            }
            if !loader.fits(&set) {
                *set = loader.frame_set();
            }
            // Where the program unwinds, a fault of a decoder costs the frame, not the drive.
            let result = catch_unwind(AssertUnwindSafe(|| loader.load(files, &mut set)));
            let result = result.unwrap_or_else(|_| {
                Err(Fault {
                    gap: Gap::Unreadable,
                    text: format!("{}: the decoder failed", files.picture().display()),
                })
            });
            self.deliver(at, set, result);
        }
    }

    /// The next frame to decode and what to decode it into.
    fn take(&self) -> Option<(usize, Box<FrameSet>)> {
        let end = self.segment.end;
        let mut state = self.wait(|s| s.empty.is_empty() && s.ticket < end && !s.over());
        if state.ticket >= end || state.over() {
            return None;
        }
        let set = state.empty.pop()?;
        state.ticket += 1;
        Some((state.ticket - 1, set))
    }

    /// Puts a frame, or why there is none, into the queue when it is its turn.
    fn deliver(&self, at: usize, set: Box<FrameSet>, result: Result<(), Fault>) {
        let state = self.wait(|s| (s.turn != at || s.queue.len() == self.slots) && !s.over());
        if state.over() {
            return;
        }
        let id = self.frames[at].id;
        let mut gaps = state.gaps;
        // Nobody else has this turn: what is logged keeps nobody from the queue.
        drop(state);
        if let Err(fault) = &result {
            gaps += 1;
            let level = if gaps <= WARNINGS {
                log::Level::Warn
            } else {
                log::Level::Debug
            };
            log::log!(level, "frame {}: {}: {}", id.index, fault.gap, fault.text);
        }
        if at + 1 == self.segment.end && gaps > WARNINGS {
            log::warn!("{gaps} gaps in {} frames", self.segment.len());
        }
        let mut state = self.lock();
        state.gaps = gaps;
        state.turn += 1;
        match result {
            Ok(()) => state.queue.push_back(Item::Frame(set)),
            Err(fault) => {
                state.queue.push_back(Item::Gap(id, fault.gap));
                state.give_back(set, self.slots);
            }
        }
        drop(state);
        self.filled.notify_one();
        self.moved.notify_all();
    }
}

impl State {
    fn over(&self) -> bool {
        self.closed || self.failed
    }

    /// Keeps a frame set; one too many, from elsewhere, is let go.
    fn give_back(&mut self, set: Box<FrameSet>, slots: usize) {
        if self.empty.len() < slots {
            self.empty.push(set);
        }
    }
}

/// Tells the others when a thread ends, and whether it died.
struct Ward<'a>(&'a Shared);

impl Drop for Ward<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.alive -= 1;
        state.failed |= std::thread::panicking();
        drop(state);
        self.0.filled.notify_one();
        self.0.moved.notify_all();
    }
}

impl Source for Prefetch {
    fn next(&mut self, wait_ns: u64) -> Next {
        let shared = &*self.shared;
        if self.next == shared.segment.end {
            return Next::End;
        }
        let wait = Duration::from_nanos(wait_ns);
        let waiting = |s: &mut State| s.queue.is_empty() && !s.failed;
        let (mut state, _) = shared
            .filled
            .wait_timeout_while(shared.lock(), wait, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        let next = match state.queue.pop_front() {
            Some(Item::Frame(set)) => Next::Frame(set),
            Some(Item::Gap(id, gap)) => Next::Gap(id, gap),
            None if state.failed => Next::Gap(shared.frames[self.next].id, Gap::Unreadable),
            None => return Next::Nothing,
        };
        drop(state);
        self.next += 1;
        shared.moved.notify_all();
        next
    }

    fn skip_before(&mut self, stamp: Timestamp) {
        self.shared.lock().skip_before = stamp;
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.shared.lock().give_back(set, self.shared.slots);
        self.shared.moved.notify_all();
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        // The threads stop after the frame that they have in hand. One that a file system holds
        // is left to itself: what it uses is its own or shared.
        self.shared.lock().closed = true;
        self.shared.moved.notify_all();
        let (state, waited) = self
            .shared
            .filled
            .wait_timeout_while(self.shared.lock(), PATIENCE, |s| s.alive > 0)
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        if waited.timed_out() {
            log::warn!("a picture takes too long to read; not waited for");
            return;
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{Camera, Image, png},
        source::DriveOptions,
    };

    #[test]
    fn the_end_does_not_wait_for_a_picture_that_never_comes() {
        let dir = tempfile::tempdir().unwrap();
        let picture = Image::filled(10, 8, 1);
        for name in ["left", "right"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            png::write_grey(&dir.path().join(name).join("0.png"), &picture).unwrap();
        }
        let options = DriveOptions {
            camera: Some(Camera {
                focal_px: 700.0,
                cx: 5.0,
                cy: 4.0,
                baseline_m: 0.5,
            }),
            ..DriveOptions::default()
        };
        let drive = Drive::open(dir.path(), &options).unwrap();
        let mut prefetch = Prefetch::start(&drive, 0, 1).unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        prefetch
            .spawn(move |_| {
                let _ = held.recv();
            })
            .unwrap();
        drop(prefetch);
        // The thread was there to the end.
        hold.send(()).unwrap();
    }
}
