//! MCAP files of what came in and what came out.
//!
//! | file | what |
//! |---|---|
//! | `config` | `[record]` |
//! | `scribe` | a frame as messages |
//! | `series` | files one after the other, chunks, what is due when |
//! | `disk` | the file system, counted; the oldest files deleted |
//!
//! The loop copies pictures and result into a box of a fixed pool and goes on; a thread writes.
//! Where no box is free the frame is left out of the recording and counted, in the recording too.
//! Where a file can't be written (the disk is full, or gone) the recording stops and says so, and
//! the loop goes on without it.
//!
//! Topics and messages: [`crate::recording`]. A file is whole in itself: it begins with what the
//! stages had learnt ([`Sink::state_room`]), so that it can be replayed alone.
mod config;
mod disk;
mod scribe;
mod series;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{SystemTime, UNIX_EPOCH},
};

pub use config::{Encoding, RecordConfig, RecordConfigError};
use disk::{Disk, FileSystem};
use scribe::{Constant, Scribe};
use series::Series;

use super::{
    Announced, Full, Sink, SinkError, View,
    conveyor::{Filler, Received, Writer, conveyor},
    digest::{Digest, Hash},
};
use crate::{
    frame::{FrameId, FrameResult, FrameSet, Gap, Mask, MonoImage, StereoFrame, Timestamp},
    recording::message::CameraInfo,
};

/// What is told of a recording beside its frames, in the metadata of each of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The effective configuration as a file.
    pub config: String,
    /// Its hash, of what decides of results.
    pub config_hash: String,
    /// What computes.
    pub backend: String,
    /// More, by name.
    pub more: BTreeMap<String, String>,
}

/// How a recording stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordStatus {
    /// Frames that are in it, or on their way there.
    pub frames: u64,
    /// Frames and gaps that came when no box was free, or after it had stopped.
    pub dropped: u64,
    /// Files begun.
    pub files: u32,
    /// Bytes of all files.
    pub bytes: u64,
    /// Why it stopped before its end.
    pub stopped: Option<String>,
    /// Digest of the results of the frames written so far: what a replay of the recording has.
    pub digest: Option<Hash>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    #[default]
    Frame,
    Gap(FrameId, Gap),
}

/// A box of the conveyor.
struct Job {
    kind: Kind,
    set: Box<FrameSet>,
    result: FrameResult,
    /// Begins a file.
    new_file: bool,
    /// What the stages had learnt before, where it begins a file.
    state: Vec<u8>,
    /// Frames left out before this one.
    dropped: u64,
}

impl Job {
    fn stamp(&self) -> Timestamp {
        match self.kind {
            Kind::Frame => self.result.id.timestamp,
            Kind::Gap(id, _) => id.timestamp,
        }
    }
}

#[derive(Default)]
struct Shared {
    frames: AtomicU64,
    dropped: AtomicU64,
    /// Bytes of the open file.
    file_bytes: Arc<AtomicU64>,
    stopped: AtomicBool,
    reason: Mutex<Option<String>>,
    /// The state's memory while no box has it.
    spare: Mutex<Vec<u8>>,
    /// Files begun.
    files: AtomicU32,
    /// Bytes of the files before the open one.
    earlier_bytes: AtomicU64,
    /// Of what was written. The loop never takes it.
    digest: Mutex<Digest>,
}

impl Shared {
    fn stop(&self, reason: String) {
        log::error!("the recording stopped, the loop goes on: {reason}");
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.stopped.store(true, Ordering::Release);
    }
}

/// Asks from anywhere how a recording stands.
#[derive(Clone)]
pub struct RecordMonitor(Arc<Shared>);

impl RecordMonitor {
    /// How it stands now. Takes locks that the writer holds for a part of a frame.
    pub fn status(&self) -> RecordStatus {
        let shared = &self.0;
        let stopped = shared.stopped.load(Ordering::Acquire).then(|| {
            let reason = shared.reason.lock();
            reason.unwrap_or_else(PoisonError::into_inner).clone()
        });
        let files = shared.files.load(Ordering::Relaxed);
        RecordStatus {
            frames: shared.frames.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
            files,
            bytes: shared.earlier_bytes.load(Ordering::Relaxed)
                + shared.file_bytes.load(Ordering::Relaxed),
            stopped: stopped.flatten(),
            digest: (files > 0).then(|| locked(&shared.digest).digests().whole),
        }
    }
}

/// The loop's end for frames of one shape.
struct Line {
    jobs: Filler<Job>,
    /// Taken for the frame that is being computed.
    held: Option<Box<Job>>,
    thread: JoinHandle<Series>,
}

/// Records what the loop hands out, into files in one folder.
pub struct Recorder {
    folder: PathBuf,
    config: RecordConfig,
    about: About,
    full: Full,
    line: Option<Line>,
    /// Between two shapes of frames, and before the first.
    series: Option<Series>,
    shared: Arc<Shared>,
    /// Files asked for, and when the last of them began.
    asked: u32,
    began: Timestamp,
    /// The next frame begins a file in any case.
    anew: bool,
}

impl Recorder {
    /// A recording to come in `folder`, which is made; files that are there stay.
    ///
    /// `full` says whether the loop waits when the disk can't follow (a replay at pace max) or
    /// leaves frames out (anything live).
    ///
    /// # Errors
    /// When the folder can't be made, or holds a recording already.
    pub fn create(
        folder: &Path,
        config: &RecordConfig,
        about: About,
        full: Full,
    ) -> Result<Self, SinkError> {
        Self::on(Box::new(FileSystem), folder, config, about, full)
    }

    fn on(
        disk: Box<dyn Disk>,
        folder: &Path,
        config: &RecordConfig,
        about: About,
        full: Full,
    ) -> Result<Self, SinkError> {
        fs::create_dir_all(folder).map_err(SinkError::io(folder))?;
        let first = folder.join(disk::file_name(0));
        if first.exists() {
            return Err(SinkError::NotEmpty {
                path: folder.into(),
                found: disk::file_name(0),
            });
        }
        // All recordings share the quota, unless this one lies elsewhere.
        let root = config
            .folder
            .as_deref()
            .filter(|root| folder.starts_with(root));
        let root = root.unwrap_or(folder).to_owned();
        let shared = Arc::new(Shared::default());
        let bytes = Arc::clone(&shared.file_bytes);
        let series = Series::new(disk, config.clone(), folder.into(), root, bytes);
        Ok(Self {
            folder: folder.into(),
            config: config.clone(),
            about,
            full,
            line: None,
            series: Some(series),
            shared,
            asked: 0,
            began: Timestamp(0),
            anew: true,
        })
    }

    /// Where its files go.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How it stands now.
    pub fn status(&self) -> RecordStatus {
        self.monitor().status()
    }

    /// For who wants to know how it stands while the loop has the recorder.
    pub fn monitor(&self) -> RecordMonitor {
        RecordMonitor(Arc::clone(&self.shared))
    }

    /// Waits until all is written, and ends the last file.
    pub fn finish(mut self) -> RecordStatus {
        self.end()
    }

    /// As [`Recorder::finish`]; what comes after it is not recorded.
    pub fn end(&mut self) -> RecordStatus {
        self.end_line();
        if let Some(mut series) = self.series.take() {
            if let Err(e) = series.finish()
                && !self.stopped()
            {
                self.shared.stop(e.to_string());
            }
            let bytes = series.all_bytes;
            self.shared.earlier_bytes.store(bytes, Ordering::Relaxed);
            self.shared.file_bytes.store(0, Ordering::Relaxed);
        }
        self.status()
    }

    fn drop_one(&self) {
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the thread and takes its files back.
    fn end_line(&mut self) {
        let Some(Line { jobs, held, thread }) = self.line.take() else {
            return;
        };
        drop(held);
        drop(jobs);
        match thread.join() {
            Ok(series) => self.series = Some(series),
            Err(_) => self.shared.stop("its thread died".into()),
        }
    }

    fn constant(&self, announced: &Announced<'_>) -> Constant {
        let mut about = self.about.more.clone();
        let mut tell = |key: &str, value: String| about.insert(key.into(), value);
        tell("version", env!("CARGO_PKG_VERSION").into());
        tell("config", self.about.config.clone());
        tell("config_hash", self.about.config_hash.clone());
        tell("backend", self.about.backend.clone());
        let set = announced.set;
        let stereo = set.and_then(|s| s.stereo.as_ref());
        let mut infos = None;
        if let (Some(rig), Some(stereo), Some(camera)) = (announced.rig, stereo, announced.camera) {
            tell("rig", rig.to_line());
            infos = Some(CameraInfo::of_rig(rig, camera, stereo.left.size()));
        }
        // What a file says that has no picture of a camera, which was lost all the while.
        if let Some(stereo) = stereo {
            tell("stereo", stereo_shape(stereo));
        }
        if let Some(mono) = set.and_then(|s| s.mono.as_ref()) {
            let (kind, size) = (mono.image.kind(), mono.image.size());
            tell(
                "mono",
                format!("{} {} {}", size.width, size.height, kind.name()),
            );
        }
        Constant {
            about,
            infos,
            mask: announced.mask.map(packed),
            mono_mask: announced.mono_mask.map(packed),
            logo_names: announced.logo_names.to_vec(),
        }
    }

    /// A box for the next frame, where there is one.
    fn take(&mut self) -> Option<Box<Job>> {
        let line = self.line.as_mut()?;
        if let Some(held) = line.held.take() {
            return Some(held);
        }
        let taken = match self.full {
            Full::Wait => line.jobs.wait().map(Some),
            Full::Drop => line.jobs.take(),
        };
        taken.ok().flatten()
    }

    fn stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// Whether the frame `next` is to begin a file.
    fn due(&self, next: FrameId) -> bool {
        // While a file that was asked for is not begun yet, the bytes are another's.
        let begun = self.shared.files.load(Ordering::Acquire) == self.asked;
        let bytes = self.shared.file_bytes.load(Ordering::Relaxed);
        self.anew
            || (begun && bytes >= self.config.rotate_mib << 20)
            || next.timestamp.since(self.began) >= self.config.rotate_s * 1_000_000_000
    }

    fn pass(&mut self, job: Box<Job>) {
        if let Some(line) = &self.line
            && line.jobs.pass(job).is_err()
        {
            self.drop_one();
        }
    }
}

/// Columns, rows, and what there is beside the left picture.
fn stereo_shape(stereo: &StereoFrame) -> String {
    let size = stereo.left.size();
    let mut text = format!("{} {}", size.width, size.height);
    for (there, name) in [
        (stereo.right.is_some(), " right"),
        (stereo.left_rgb.is_some(), " colour"),
        (stereo.stored_disparity.is_some(), " disparity"),
    ] {
        text += if there { name } else { "" };
    }
    text
}

fn packed(mask: &Mask) -> Mask {
    let size = mask.size();
    let mut copy = Mask::new(size.width, size.height);
    copy.copy_from(mask);
    copy
}

impl Sink for Recorder {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.end_line();
        self.anew = true;
        let Some(mut series) = self.series.take() else {
            return Ok(());
        };
        let job = || {
            Box::new(Job {
                kind: Kind::Frame,
                set: Box::new(announced.set.cloned().unwrap_or_default()),
                result: announced.shape.clone(),
                new_file: false,
                state: Vec::new(),
                dropped: 0,
            })
        };
        let boxes = (0..self.config.queue_frames).map(|_| job()).collect();
        let (jobs, todo) = conveyor(boxes);
        let mut scribe = Scribe::new(&self.config, self.constant(announced));
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name("recorder".into())
            .spawn(move || {
                write_all(&todo, &mut scribe, &mut series, &shared);
                series
            });
        match thread {
            Ok(thread) => {
                self.line = Some(Line {
                    jobs,
                    held: None,
                    thread,
                });
            }
            Err(e) => self.shared.stop(format!("no thread to record with: {e}")),
        }
        Ok(())
    }

    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        if self.stopped() || !self.due(next) {
            return None;
        }
        let mut job = self.take()?;
        // Never waited for: the writer holds it for an instant, once a file.
        if let Ok(mut spare) = self.shared.spare.try_lock()
            && job.state.capacity() < spare.capacity()
        {
            std::mem::swap(&mut *spare, &mut job.state);
        }
        let held = &mut self.line.as_mut()?.held;
        Some(&mut held.insert(job).state)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        if self.stopped() {
            self.drop_one();
            return Ok(());
        }
        let Some(set) = view.set else {
            return Ok(());
        };
        let due = self.due(result.id);
        let Some(mut job) = self.take() else {
            self.drop_one();
            return Ok(());
        };
        if due {
            self.anew = false;
            self.asked += 1;
            self.began = result.id.timestamp;
        } else {
            job.state.clear();
        }
        job.kind = Kind::Frame;
        job.new_file = due;
        job.dropped = self.shared.dropped.load(Ordering::Relaxed);
        copy_set(&mut job.set, set);
        job.result.copy_from(result);
        self.shared.frames.fetch_add(1, Ordering::Relaxed);
        self.pass(job);
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        if self.stopped() || self.line.is_none() {
            return Ok(());
        }
        let Some(mut job) = self.take() else {
            self.drop_one();
            return Ok(());
        };
        job.kind = Kind::Gap(id, gap);
        job.new_file = false;
        self.pass(job);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.end();
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
    }
}

/// Copies what came in into a set of the same shape; allocates nothing.
fn copy_set(to: &mut FrameSet, from: &FrameSet) {
    to.id = from.id;
    to.speed_mps = from.speed_mps;
    to.stereo_gap = from.stereo_gap;
    if let (Some(to), Some(from), None) = (&mut to.stereo, &from.stereo, from.stereo_gap) {
        to.left.copy_from(&from.left);
        if let (Some(to), Some(from)) = (&mut to.right, &from.right) {
            to.copy_from(from);
        }
        if let (Some(to), Some(from)) = (&mut to.left_rgb, &from.left_rgb) {
            to.copy_from(from);
        }
        if let (Some(to), Some(from)) = (&mut to.stored_disparity, &from.stored_disparity) {
            to.copy_from(from);
        }
    }
    if let (Some(to), Some(from)) = (&mut to.mono, &from.mono) {
        to.timestamp = from.timestamp;
        to.gap = from.gap;
        if from.gap.is_none() {
            MonoImage::copy_from(&mut to.image, &from.image);
        }
    }
}

/// The thread.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a frame that was written to the digest.
fn note(job: &Job, shared: &Shared) {
    if let Kind::Frame = job.kind
        && let Err(e) = locked(&shared.digest).frame(&job.result)
    {
        log::warn!(
            "the recording's digest lacks frame {}: {e}",
            job.result.id.index
        );
    }
}

fn write_all(todo: &Writer<Job>, scribe: &mut Scribe, series: &mut Series, shared: &Shared) {
    loop {
        let result = match todo.next_within(series.patience()) {
            Received::Closed => return,
            Received::Nothing if shared.stopped.load(Ordering::Relaxed) => Ok(()),
            Received::Nothing => series.tick(None),
            Received::Filled(mut job) => {
                let mut result = Ok(());
                if !shared.stopped.load(Ordering::Relaxed) {
                    result = scribe.write(&job, series).map(|()| note(&job, shared));
                    shared
                        .earlier_bytes
                        .store(series.all_bytes, Ordering::Relaxed);
                    shared.files.store(series.files(), Ordering::Release);
                }
                if job.new_file {
                    let mut spare = shared.spare.lock().unwrap_or_else(PoisonError::into_inner);
                    std::mem::swap(&mut *spare, &mut job.state);
                }
                todo.give_back(job);
                result
            }
        };
        if let Err(e) = result {
            shared.stop(e.to_string());
            // What is there stays; the end of the file is missing if the disk is full.
            let _ = series.finish();
        }
    }
}

/// The folder for a recording that begins now: `root` and the time in UTC, as
/// `2026-11-30T06-45-12Z`; with a number behind it where there is one of that name.
pub fn folder_now(root: &Path) -> PathBuf {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let name = utc(now);
    let plain = root.join(&name);
    if !plain.exists() {
        return plain;
    }
    let numbered = |n| root.join(format!("{name}-{n}"));
    (2..1000)
        .map(numbered)
        .find(|p| !p.exists())
        .unwrap_or(plain)
}

/// Seconds since 1970 as date and time, by the civil calendar (no leap seconds, as POSIX has it).
fn utc(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}-{minute:02}-{second:02}Z",
        days + 1
    )
}

#[cfg(test)]
mod tests;
