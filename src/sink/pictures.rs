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
    },
    thread::{self, JoinHandle},
};

use super::{
    Announced, Save, SaveSet, SinkError, View,
    conveyor::{Filler, conveyor},
    overlay::{Overlay, paint_disparity},
    summary::Pictures,
};
use crate::frame::{FrameResult, Image, MonoImage, Rgb, Size, png};

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
    left: Option<Image<u8>>,
    left_rgb: Option<Rgb>,
    mono: Option<MonoImage>,
    /// Whether this frame has a mono picture.
    mono_there: bool,
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
    jobs: Option<Filler<Job>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    dropped: u64,
}

impl PictureWriter {
    /// Makes the folders in `out` and starts the thread. What the frames to come do not have
    /// gets no pictures.
    ///
    /// # Errors
    /// When a folder can't be made or the thread not be started.
    pub fn start(
        out: &Path,
        save: SaveSet,
        full: Full,
        announced: &Announced<'_>,
    ) -> Result<Self, SinkError> {
        let Announced {
            shape,
            colour,
            mono,
            ..
        } = *announced;
        let kinds: Vec<Save> = save.pictures().filter(|kind| kind.is_in(shape)).collect();
        for kind in &kinds {
            let folder = out.join(kind.name());
            fs::create_dir_all(&folder).map_err(SinkError::io(folder))?;
        }
        let size = shape.street.as_ref().map(|street| street.disparity.size());
        // Only the overlay shows pictures.
        let shown = |size: Option<Size>| size.filter(|_| kinds.contains(&Save::Overlay));
        let mono = mono.filter(|_| kinds.contains(&Save::Overlay));
        let job = || {
            Box::new(Job {
                left: shown(size).map(|s| Image::new(s.width, s.height)),
                left_rgb: shown(size.filter(|_| colour)).map(|s| Rgb::new(s.width, s.height)),
                mono: mono.map(|(kind, size)| MonoImage::new(kind, size)),
                mono_there: false,
                result: shape.clone(),
            })
        };
        let (jobs, todo) = conveyor((0..POOL).map(|_| job()).collect());
        let shared = Arc::new(Shared::default());
        let mut painter = Painter {
            out: out.to_owned(),
            kinds,
            overlay: Overlay::new(announced),
            colour: size.map(|s| Rgb::new(s.width, s.height)),
        };
        let thread = thread::Builder::new().name("pictures".into()).spawn({
            let shared = shared.clone();
            move || {
                for job in &todo {
                    if !shared.failed.load(Ordering::Relaxed)
                        && let Err(error) = painter.write(&job, &shared.written)
                    {
                        *shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        shared.failed.store(true, Ordering::Release);
                    }
                    todo.give_back(job);
                }
            }
        });
        Ok(Self {
            full,
            jobs: Some(jobs),
            shared,
            thread: Some(thread.map_err(SinkError::Thread)?),
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
        let jobs = self.jobs.as_ref().ok_or(SinkError::WriterGone)?;
        let free = match self.full {
            Full::Wait => jobs.wait().map(Some),
            Full::Drop => jobs.take(),
        };
        let Some(mut job) = free.map_err(|_| SinkError::WriterGone)? else {
            self.dropped += 1;
            return Ok(());
        };
        if let (Some(to), Some(from)) = (&mut job.left, view.left) {
            to.copy_from(from);
        }
        if let (Some(to), Some(from)) = (&mut job.left_rgb, view.left_rgb) {
            to.copy_from(from);
        }
        job.mono_there = view.mono.is_some();
        if let (Some(to), Some(from)) = (&mut job.mono, view.mono) {
            to.copy_from(from);
        }
        job.result.copy_from(result);
        jobs.pass(job).map_err(|_| SinkError::WriterGone)
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
    kinds: Vec<Save>,
    overlay: Overlay,
    colour: Option<Rgb>,
}

impl Painter {
    fn write(&mut self, job: &Job, written: &AtomicU64) -> Result<(), SinkError> {
        let Job { result, .. } = job;
        let name = format!("{:06}.png", result.id.number);
        for &kind in &self.kinds {
            let path = self.out.join(kind.name()).join(&name);
            if kind == Save::Labels {
                if let Some(labels) = &result.labels {
                    png::write_labels(&path, labels).map_err(SinkError::io(path))?;
                    written.fetch_add(1, Ordering::Relaxed);
                }
                continue;
            }
            let file = match (kind, &result.street, &result.foreground) {
                (Save::Overlay, ..) => {
                    let view = View {
                        left: job.left.as_ref(),
                        left_rgb: job.left_rgb.as_ref(),
                        mono: job.mono.as_ref().filter(|_| job.mono_there),
                        set: None,
                    };
                    png::write_rgb(&path, self.overlay.draw(view, result))
                }
                (Save::Disparity, Some(street), _) => {
                    png::write_disparity(&path, &street.disparity)
                }
                (Save::DisparityColour, Some(street), _) => {
                    match (self.overlay.ramp(), &mut self.colour) {
                        (Some(ramp), Some(colour)) => {
                            paint_disparity(ramp, &street.disparity, colour);
                            png::write_rgb(&path, colour)
                        }
                        _ => continue,
                    }
                }
                (Save::Foreground, _, Some(foreground)) => png::write_grey(&path, &foreground.mask),
                _ => continue,
            };
            file.map_err(SinkError::io(path))?;
            written.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
