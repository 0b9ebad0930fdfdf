//! Decoding ahead of the loop.
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use super::{
    Drive, FrameFiles, Next, Source,
    decode::{Fault, Loader},
};
use crate::frame::{FrameId, FrameSet, Gap};

enum Item {
    Frame(Box<FrameSet>),
    Gap(FrameId, Gap),
}

/// Decodes the frames of one segment of a drive in a thread of its own, ahead of who asks for
/// them.
///
/// There are `slots` frame sets in all, taken at the start; they go round between the decoder,
/// the queue and the caller, so [`Source::next`] allocates nothing. The decoder stops when all
/// are filled or out: a caller that keeps `slots` of them gets [`Next::Nothing`] until it gives
/// one back. Every frame of the segment is given out once and in order, as itself or as a gap.
#[derive(Debug)]
pub struct Prefetch {
    filled: Option<Receiver<Item>>,
    empty: Option<SyncSender<Box<FrameSet>>>,
    thread: Option<JoinHandle<()>>,
    frames: Arc<[FrameFiles]>,
    /// Which of `frames` comes next, and where the segment ends.
    next: usize,
    end: usize,
}

impl Prefetch {
    /// Starts decoding a segment into `slots` frame sets (at least one).
    ///
    /// # Panics
    /// When the drive has no such segment, or the system gives no thread.
    pub fn start(drive: &Drive, segment: usize, slots: usize) -> Self {
        let slots = slots.max(1);
        let segment = &drive.segments()[segment];
        let range = drive.slots(segment);
        let mut loader = Loader::new(drive, segment);
        let frames = drive.shared_frames();
        let (filled_in, filled) = sync_channel(slots);
        let (empty, empty_out) = sync_channel(slots);
        for _ in 0..slots {
            // Room for all of them was made above.
            let _ = empty.try_send(Box::new(loader.frame_set()));
        }
        let todo = Arc::clone(&frames);
        let files = range.clone();
        let thread = std::thread::Builder::new()
            .name("decode".into())
            .spawn(move || decode(&mut loader, &todo[files], &empty_out, &filled_in))
            .expect("a thread for decoding");
        Self {
            filled: Some(filled),
            empty: Some(empty),
            thread: Some(thread),
            frames,
            next: range.start,
            end: range.end,
        }
    }

    /// How many frames of the segment have not been given out yet.
    pub fn remaining(&self) -> usize {
        self.end - self.next
    }
}

/// The thread: ends when all is decoded or nobody listens.
fn decode(
    loader: &mut Loader,
    frames: &[FrameFiles],
    empty: &Receiver<Box<FrameSet>>,
    filled: &SyncSender<Item>,
) {
    let mut spare: Option<Box<FrameSet>> = None;
    for files in frames {
        let Some(mut set) = spare.take().or_else(|| empty.recv().ok()) else {
            return;
        };
        if !loader.fits(&set) {
            *set = loader.frame_set();
        }
        // Where the program unwinds, a fault of a decoder costs the frame, not the drive.
        let result = catch_unwind(AssertUnwindSafe(|| loader.load(files, &mut set)));
        let result = result.unwrap_or_else(|_| {
            Err(Fault {
                gap: Gap::Unreadable,
                text: format!("{}: the decoder failed", files.left.display()),
            })
        });
        let item = match result {
            Ok(()) => Item::Frame(set),
            Err(fault) => {
                log::warn!("frame {}: {} ({})", files.id.index, fault.text, fault.gap);
                spare = Some(set);
                Item::Gap(files.id, fault.gap)
            }
        };
        if filled.send(item).is_err() {
            return;
        }
    }
}

impl Source for Prefetch {
    fn next(&mut self, wait_ns: u64) -> Next {
        if self.next == self.end {
            return Next::End;
        }
        let Some(filled) = &self.filled else {
            return Next::End;
        };
        let next = match filled.recv_timeout(Duration::from_nanos(wait_ns)) {
            Ok(Item::Frame(set)) => Next::Frame(set),
            Ok(Item::Gap(id, gap)) => Next::Gap(id, gap),
            Err(RecvTimeoutError::Timeout) => return Next::Nothing,
            // The thread is gone before its work was done.
            Err(RecvTimeoutError::Disconnected) => {
                Next::Gap(self.frames[self.next].id, Gap::Unreadable)
            }
        };
        self.next += 1;
        next
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        if let Some(empty) = &self.empty {
            // Full only when there are sets from elsewhere: then this one is not needed.
            let _ = empty.try_send(set);
        }
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        // Without its two ends the thread stops after the picture that it has in hand.
        self.filled = None;
        self.empty = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
