//! Pictures of a replay, written by a thread of their own: encoding one takes longer than many
//! a frame.
//!
//! The loop copies image and result into a box from a fixed pool and passes it on; the thread
//! draws, encodes, writes in frame order and gives the box back. Nothing is allocated on the
//! loop's side. When the pool is empty, [`Full`] says whether the loop waits or goes without.
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use super::{
    Save, SaveSet, SinkError, View,
    overlay::{Overlay, paint_disparity},
    summary::Pictures,
};
use crate::frame::{Camera, FrameResult, Image, Rgb, png};

/// What to do when pictures can't be written as fast as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// Wait: every frame gets its pictures (pace max).
    #[default]
    Wait,
    /// Leave the frame's pictures out and count it: the loop never waits (pace realtime).
    Drop,
}

/// Frames that can wait for the thread.
const POOL: usize = 8;

struct Job {
    left: Image<u8>,
    left_rgb: Option<Rgb>,
    result: FrameResult,
}

#[derive(Default)]
struct Shared {
    written: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<SinkError>>,
}

/// The loop's end of the picture writer.
pub struct PictureWriter {
    full: Full,
    jobs: Option<SyncSender<Box<Job>>>,
    free: Receiver<Box<Job>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    dropped: u64,
}

impl PictureWriter {
    /// Makes the folders in `out` and starts the thread. Results have the shape of `shape`;
    /// `colour` tells whether the views come with colour.
    ///
    /// # Errors
    /// When a folder can't be made or the thread not be started.
    pub fn start(
        out: &Path,
        save: SaveSet,
        full: Full,
        camera: Camera,
        shape: &FrameResult,
        colour: bool,
    ) -> Result<Self, SinkError> {
        for kind in save.iter() {
            let folder = out.join(kind.name());
            fs::create_dir_all(&folder).map_err(SinkError::io(folder))?;
        }
        let size = shape.disparity.size();
        let (jobs, todo) = sync_channel::<Box<Job>>(POOL);
        let (done, free) = sync_channel(POOL);
        for _ in 0..POOL {
            let job = Job {
                left: Image::new(size.width, size.height),
                left_rgb: colour.then(|| Rgb::new(size.width, size.height)),
                result: shape.clone(),
            };
            // There is room for all of them.
            let _ = done.send(Box::new(job));
        }
        let shared = Arc::new(Shared::default());
        let mut painter = Painter {
            out: out.to_owned(),
            save,
            overlay: Overlay::new(size, camera),
            colour: Rgb::new(size.width, size.height),
        };
        let thread = thread::Builder::new().name("pictures".into()).spawn({
            let shared = shared.clone();
            move || {
                for job in todo {
                    if !shared.failed.load(Ordering::Relaxed)
                        && let Err(error) = painter.write(&job, &shared.written)
                    {
                        *shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        shared.failed.store(true, Ordering::Release);
                    }
                    if done.send(job).is_err() {
                        break;
                    }
                }
            }
        });
        Ok(Self {
            full,
            jobs: Some(jobs),
            free,
            shared,
            thread: Some(thread.map_err(SinkError::io(out))?),
            dropped: 0,
        })
    }

    /// Passes a frame on.
    ///
    /// # Errors
    /// What went wrong with an earlier frame's pictures, once; after that no more are written.
    ///
    /// # Panics
    /// When view or result have another shape than the one at the start.
    pub fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        let job = match self.full {
            Full::Wait => self.free.recv().map_err(|_| SinkError::WriterGone)?,
            Full::Drop => match self.free.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Empty) => {
                    self.dropped += 1;
                    return Ok(());
                }
                Err(TryRecvError::Disconnected) => return Err(SinkError::WriterGone),
            },
        };
        let mut job = job;
        job.left.copy_from(view.left);
        if let (Some(to), Some(from)) = (&mut job.left_rgb, view.left_rgb) {
            to.copy_from(from);
        }
        job.result.copy_from(result);
        match &self.jobs {
            // The queue has room for the whole pool, so this does not wait.
            Some(jobs) => jobs.send(job).map_err(|_| SinkError::WriterGone),
            None => Err(SinkError::WriterGone),
        }
    }

    fn take_error(&self) -> Option<SinkError> {
        // The lock is only taken when there is something to find.
        if !self.shared.failed.load(Ordering::Acquire) {
            return None;
        }
        let error = self.shared.error.lock();
        error.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until all that was passed on is written.
    ///
    /// # Errors
    /// What went wrong and was not told yet.
    pub fn finish(mut self) -> (Pictures, Result<(), SinkError>) {
        let joined = self.join();
        let pictures = Pictures {
            written: self.shared.written.load(Ordering::Relaxed),
            dropped: self.dropped,
        };
        (pictures, self.take_error().map_or(joined, Err))
    }

    fn join(&mut self) -> Result<(), SinkError> {
        self.jobs = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(SinkError::WriterGone),
            _ => Ok(()),
        }
    }
}

impl Drop for PictureWriter {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

struct Painter {
    out: PathBuf,
    save: SaveSet,
    overlay: Overlay,
    colour: Rgb,
}

impl Painter {
    fn write(&mut self, job: &Job, written: &AtomicU64) -> Result<(), SinkError> {
        let Job {
            left,
            left_rgb,
            result,
        } = job;
        let name = format!("{:06}.png", result.id.number);
        for kind in self.save.iter() {
            let path = self.out.join(kind.name()).join(&name);
            let file = match kind {
                Save::Overlay => {
                    let left_rgb = left_rgb.as_ref();
                    let picture = self.overlay.draw(View { left, left_rgb }, result);
                    png::write_rgb(&path, picture)
                }
                Save::Disparity => png::write_disparity(&path, &result.disparity),
                Save::DisparityColour => {
                    paint_disparity(self.overlay.ramp(), &result.disparity, &mut self.colour);
                    png::write_rgb(&path, &self.colour)
                }
            };
            file.map_err(SinkError::io(path))?;
            written.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
