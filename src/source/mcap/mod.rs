//! Recordings: MCAP files of roadloop's own, and those of others with a stereo camera in them.
//!
//! | file | what |
//! |---|---|
//! | `scan` | the records of a file, whatever has happened to it |
//! | `own` | roadloop's recordings to frames |
//! | `foreign` | the two cameras in anybody's recording to frames |
//! | `image` | messages of pictures to pictures |
//! | `load` | the messages of a frame to a frame set |
//!
//! A file is read through once when it is opened; what is kept is where its messages lie.
mod foreign;
mod image;
mod load;
mod own;
mod scan;

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

pub(super) use load::RecordedLoader;

use self::scan::{At, ChunkAt};
use super::{
    Drive, DriveKind, DriveOptions, MonoFile, Segment, SourceError, StereoFiles, layout::FrameFiles,
};
use crate::frame::{Decisions, FrameId, Gap, Timestamp};

/// The most messages of a recording that are kept track of.
const MAX_MESSAGES: usize = 1 << 24;

/// Damaged places that are told one by one.
const TOLD: usize = 10;

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    file: u32,
    at: At,
}

/// A file that stays open.
#[derive(Debug)]
struct RecordedFile {
    path: PathBuf,
    file: File,
    /// Those that are compressed.
    chunks: Vec<ChunkAt>,
}

/// Where the pictures of a frame lie.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RecordedFrame {
    id: FrameId,
    gap: Option<Gap>,
    left: Option<Place>,
    right: Option<Place>,
    colour: Option<Place>,
    stored: Option<Place>,
    mono: Option<Place>,
    /// Whether a mono camera belongs to it, when it took its picture, and why that is not used.
    mono_head: Option<(Timestamp, Option<Gap>)>,
    /// Why the stereo camera's pictures, which belong to it, are not used.
    stereo_gap: Option<Gap>,
    speed_mps: Option<f32>,
    /// What the loop decided of its stages.
    decisions: Option<Decisions>,
}

impl RecordedFrame {
    fn gap(id: FrameId, gap: Gap) -> Self {
        Self {
            id,
            gap: Some(gap),
            ..Self::default()
        }
    }
}

/// What the messages with pictures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds {
    stereo: image::Kind,
    mono: image::Kind,
}

/// An opened recording.
#[derive(Debug)]
pub(super) struct Recording {
    files: Vec<RecordedFile>,
    /// By increasing index.
    frames: Vec<RecordedFrame>,
    kinds: Kinds,
    /// Pictures have gone through `[input]` and `[mono]` already.
    own: bool,
    /// What the stages had learnt before the first frame.
    state: Option<Place>,
}

impl Recording {
    fn frame(&self, index: usize) -> Option<&RecordedFrame> {
        let at = self
            .frames
            .binary_search_by_key(&index, |f| f.id.index)
            .ok()?;
        self.frames.get(at)
    }

    /// Reads a message.
    fn fetch(&self, place: Place, cache: &mut Cache, out: &mut Vec<u8>) -> Result<(), String> {
        let file = &self.files[place.file as usize];
        let at = place.at;
        let length = at.length as usize;
        if at.chunk == At::FILE {
            out.resize(length, 0);
            return file
                .file
                .read_exact_at(out, at.offset)
                .map_err(|e| e.to_string());
        }
        let this = Some((place.file, at.chunk));
        if cache.chunk != this {
            cache.chunk = None;
            let chunk = &file.chunks[at.chunk as usize];
            cache.bytes.resize(chunk.length as usize, 0);
            let read = file.file.read_exact_at(&mut cache.bytes, chunk.offset);
            read.map_err(|e| e.to_string())?;
            scan::decompress(chunk, &cache.bytes, &mut cache.records)?;
            cache.chunk = this;
        }
        let start = at.offset as usize;
        let bytes = cache.records.get(start..start.saturating_add(length));
        out.clear();
        out.extend_from_slice(bytes.ok_or("the file has changed")?);
        Ok(())
    }

    /// What the stages had learnt before the first frame, where the recording says it.
    pub fn state(&self) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        self.fetch(self.state?, &mut Cache::default(), &mut message)
            .ok()?;
        let (_, state) = crate::recording::message::read_state(&message).ok()?;
        Some(state.to_vec())
    }

    /// The gap that a frame is, and why.
    pub fn foreseen(&self, index: usize) -> Option<(Gap, String)> {
        let frame = self.frame(index)?;
        if let Some(gap) = frame.gap {
            return Some((gap, "recorded as such, or not there".into()));
        }
        Some((
            frame.stereo_gap?,
            "no stereo pictures; what needs the mono camera alone goes on".into(),
        ))
    }

    /// The file of a frame, for messages.
    fn path_of(&self, frame: &RecordedFrame) -> &Path {
        let place = frame.left.or(frame.mono);
        let file = place.map_or(0, |p| p.file as usize);
        self.files.get(file).map_or(Path::new(""), |f| &f.path)
    }
}

/// The chunk that was decompressed last.
#[derive(Debug, Default)]
struct Cache {
    chunk: Option<(u32, u32)>,
    bytes: Vec<u8>,
    records: Vec<u8>,
}

/// What a recording comes to.
struct Opened {
    recording: Recording,
    segments: Vec<Segment>,
    calibration: String,
    mono_times: String,
    mono_drive: bool,
}

fn error(path: &Path, text: impl Into<String>) -> SourceError {
    SourceError::Recording {
        path: path.into(),
        text: text.into(),
    }
}

/// Whether a path is a recording: a file that begins as one or is called so, or a folder with
/// such files in it.
pub(super) fn is_recording(path: &Path) -> bool {
    let called = |p: &Path| p.extension().is_some_and(|e| e == "mcap");
    let Ok(meta) = fs::metadata(path) else {
        return false;
    };
    if meta.is_file() {
        let mut magic = [0; 6];
        let begins = File::open(path).and_then(|mut f| f.read_exact(&mut magic));
        return called(path) || (begins.is_ok() && magic == *b"\x89MCAP0");
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    meta.is_dir() && entries.map(|e| e.path()).any(|p| called(&p) && p.is_file())
}

/// The files of a recording, in order.
fn files_of(path: &Path) -> Result<Vec<RecordedFile>, SourceError> {
    let io = |error| SourceError::Io {
        path: path.into(),
        error,
    };
    let mut paths = Vec::new();
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(io)? {
            let entry = entry.map_err(io)?.path();
            if entry.extension().is_some_and(|e| e == "mcap") && entry.is_file() {
                paths.push(entry);
            }
        }
        paths.sort();
    } else {
        paths.push(path.to_owned());
    }
    let open = |path: PathBuf| match File::open(&path) {
        Ok(file) => Ok(RecordedFile {
            path,
            file,
            chunks: Vec::new(),
        }),
        Err(error) => Err(SourceError::Io { path, error }),
    };
    paths.into_iter().map(open).collect()
}

/// Tells of a file whose recorder was killed, or that was cut.
fn tell_unless_closed(path: &Path, scan: &scan::Scan<'_>) {
    if !scan.is_closed() {
        log::warn!(
            "{}: was not closed properly; all that is whole is read",
            path.display()
        );
    }
}

/// Tells of damage: the first places one by one.
struct Damages(usize);

impl Damages {
    fn tell(&mut self, path: &Path, bytes: &std::ops::Range<u64>, why: &str) {
        self.0 += 1;
        if self.0 <= TOLD {
            let (from, to) = (bytes.start, bytes.end);
            log::warn!(
                "{}: bytes {from} to {to} are passed by: {why}",
                path.display()
            );
        }
    }

    fn sum_up(&self) {
        if self.0 > TOLD {
            log::warn!("{} damaged places in all", self.0);
        }
    }
}

/// Opens a recording.
pub(super) fn open(path: &Path, options: &DriveOptions) -> Result<Drive, SourceError> {
    if options.disparity.is_some() {
        return Err(error(path, "--disparity does not go with a recording"));
    }
    let files = files_of(path)?;
    let found = own::Found::of(files)?;
    let opened = match (
        found.is_ours() && options.source.topics.is_none(),
        &options.source,
    ) {
        (true, _) => own::open(path, found, options)?,
        (false, _) => foreign::open(path, found.into_files(), options)?,
    };
    let Opened {
        mut recording,
        mut segments,
        calibration,
        mono_times,
        mono_drive,
    } = opened;
    let total = recording.frames.len();
    let range = super::drive::part(options.frames.clone(), total)?;
    if range.start > 0 {
        // A part starts cold.
        recording.state = None;
    }
    let first = recording.frames[range.start].id.index;
    // Places among the frames, counted on from the index of the first.
    segments.retain_mut(|segment| {
        let frames = &mut segment.frames;
        let (start, end) = (frames.start.max(range.start), frames.end.min(range.end));
        *frames =
            start.saturating_sub(range.start) + first..end.saturating_sub(range.start) + first;
        start < end
    });
    recording.frames.truncate(range.end);
    recording.frames.drain(..range.start);
    let frames: Vec<FrameFiles> = (recording.frames.iter())
        .map(|frame| files_of_frame(&recording, frame, mono_drive))
        .collect();
    let kind = if mono_drive {
        DriveKind::MonoRecording
    } else {
        DriveKind::Recording
    };
    let times = times(&recording.frames);
    Ok(Drive::of_recording(
        kind,
        path,
        recording,
        frames,
        segments,
        total,
        times,
        calibration,
        mono_times,
    ))
}

/// A frame's messages as files: where they lie.
fn files_of_frame(recording: &Recording, frame: &RecordedFrame, mono_drive: bool) -> FrameFiles {
    let path = recording.path_of(frame);
    FrameFiles {
        id: frame.id,
        stereo: (!mono_drive).then(|| StereoFiles {
            left: path.into(),
            right: frame.right.map(|_| path.into()),
            disparity: frame.stored.map(|_| path.into()),
        }),
        mono: frame.mono.map(|_| MonoFile {
            file: path.into(),
            timestamp: frame.mono_head.map_or(frame.id.timestamp, |m| m.0),
        }),
        speed_mps: frame.speed_mps,
    }
}

fn times(frames: &[RecordedFrame]) -> String {
    let name = "recorded";
    match (frames.first(), frames.last()) {
        (Some(first), Some(last)) if last.id.timestamp > first.id.timestamp => {
            let ns = last.id.timestamp.since(first.id.timestamp);
            let hz = (frames.len() - 1) as f64 * 1e9 / ns as f64;
            format!("{name}: {hz:.3} Hz on average")
        }
        _ => name.into(),
    }
}

/// Puts frames that are missing in the places that the indices leave, unless there are more of
/// them than of others: then indices are names only, and stay as they are.
fn fill_holes(frames: Vec<RecordedFrame>) -> Vec<RecordedFrame> {
    let span = |frames: &[RecordedFrame]| {
        let (first, last) = (frames.first()?, frames.last()?);
        Some(last.id.index.checked_sub(first.id.index)?.saturating_add(1))
    };
    let holes = span(&frames).unwrap_or(0).saturating_sub(frames.len());
    if holes == 0 || holes > frames.len().max(1000) {
        return frames;
    }
    let mut filled: Vec<RecordedFrame> = Vec::with_capacity(frames.len() + holes);
    for frame in frames {
        if let Some(before) = filled.last().map(|f| f.id) {
            let steps = (frame.id.index - before.index) as u64;
            let ns = frame.id.timestamp.since(before.timestamp) / steps;
            for k in 1..steps {
                let id = FrameId {
                    index: before.index + k as usize,
                    number: before.number.saturating_add(k),
                    timestamp: before.timestamp.plus_ns(ns * k),
                };
                filled.push(RecordedFrame::gap(id, Gap::Missing));
            }
        }
        filled.push(frame);
    }
    filled
}
