//! The folder of a replay: tables and pictures frame by frame, the summary at the end.
use std::{
    fs::{self, File, TryLockError},
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{
    Announced, Full, PictureWriter, Save, SaveSet, Sink, SinkError, View,
    digest::Digest,
    summary::{Pictures, Provenance, Statistics, Summary},
    table::{LogoTable, MotionTable, StixelTable, TimingTable},
};
use crate::{
    files,
    frame::{FrameId, FrameResult, Gap},
};

/// How results are to be kept.
#[derive(Clone, Debug)]
pub struct FolderOptions {
    /// Which pictures.
    pub save: SaveSet,
    /// Whether the results of an earlier replay may be replaced.
    pub force: bool,
    /// When pictures come too fast.
    pub full: Full,
    /// For the summary.
    pub provenance: Provenance,
}

/// Results of a replay in a folder.
///
/// Digest, statistics and tables are kept up with each frame by whoever calls, pictures by a
/// thread of their own ([`PictureWriter`]); only pictures can be left out, and only where
/// [`Full::Drop`] says so. A gap, a frame without a result, is a line in `timing.csv` and a
/// count in the summary; it has no pictures and adds nothing to the digest.
///
/// Whatever was complete when something goes wrong stays written. [`ReplayFolder::finish`]
/// writes `summary.json`; without it (an abort) there is none.
pub struct ReplayFolder {
    out: PathBuf,
    options: FolderOptions,
    digest: Digest,
    statistics: Statistics,
    tables: Option<Tables>,
    pictures: Option<PictureWriter>,
    /// Of the picture writers before this one.
    earlier: Pictures,
}

/// The tables of what is computed; which these are is known when the first frame is announced.
struct Tables {
    timing: TimingTable,
    stixels: Option<StixelTable>,
    motion: Option<MotionTable>,
    logos: Option<LogoTable>,
    /// The folder is ours as long as this is open.
    _lock: File,
}

/// The file that says how a replay went.
pub const SUMMARY: &str = "summary.json";
/// The table of stixels.
pub const STIXELS: &str = "stixels.csv";
/// The table of times.
pub const TIMING: &str = "timing.csv";
/// The table of how the vehicle moves.
pub const MOTION: &str = "motion.csv";
/// The table of logos.
pub const LOGOS: &str = "logos.csv";

const TABLES: [&str; 5] = [SUMMARY, STIXELS, TIMING, MOTION, LOGOS];

impl ReplayFolder {
    /// Results to come in a folder, which must be new or empty, unless `force` is given.
    ///
    /// The folder is made and locked when the first frame is announced ([`Sink::begin`]), and
    /// only then, with `force`, the results of an earlier replay in it are removed, and nothing
    /// else: until it is known that there will be new ones, they stay.
    ///
    /// # Errors
    /// When the folder holds something, is none, or (with `force`) what would be removed is not
    /// from a replay.
    pub fn create(out: &Path, options: FolderOptions) -> Result<Self, SinkError> {
        check(out, options.force)?;
        Ok(Self {
            out: out.to_owned(),
            digest: Digest::new(),
            statistics: Statistics::new(),
            tables: None,
            pictures: None,
            earlier: Pictures::default(),
            options,
        })
    }

    fn tables(&mut self) -> Result<&mut Tables, SinkError> {
        if self.tables.is_none() {
            let lock = take(&self.out, self.options.force)?;
            self.tables = Some(Tables {
                timing: TimingTable::create(&self.out.join(TIMING))?,
                stixels: None,
                motion: None,
                logos: None,
                _lock: lock,
            });
        }
        self.tables.as_mut().ok_or(SinkError::WriterGone)
    }

    /// The digests of what came so far.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Waits for the pictures and writes the summary: at the end, and when the replay was
    /// `interrupted`. Where no frame was ever announced, nothing is written.
    ///
    /// # Errors
    /// When the summary or a picture can't be written; of several errors the first.
    pub fn finish(mut self, interrupted: bool) -> Result<Summary, SinkError> {
        let result = self.finish_pictures();
        let mut summary = self.statistics.summary(&self.options.provenance);
        summary.pictures = self.earlier;
        summary.interrupted = interrupted;
        summary.set_digests(&self.digest.digests());
        let written = match self.tables {
            Some(_) => summary.write(&self.out.join(SUMMARY)),
            None => Ok(()),
        };
        result.and(written).map(|()| summary)
    }

    fn finish_pictures(&mut self) -> Result<(), SinkError> {
        let Some(writer) = self.pictures.take() else {
            return Ok(());
        };
        let (pictures, result) = writer.finish();
        self.earlier.written += pictures.written;
        self.earlier.dropped += pictures.dropped;
        result
    }
}

impl Sink for ReplayFolder {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        let path = |name| self.out.join(name);
        let [stixels, motion, logos] = [STIXELS, MOTION, LOGOS].map(path);
        let tables = self.tables()?;
        let shape = announced.shape;
        if shape.street.is_some() && tables.stixels.is_none() {
            tables.stixels = Some(StixelTable::create(&stixels)?);
        }
        if let (Some(stixels), Some(camera)) = (&mut tables.stixels, announced.camera) {
            stixels.set_camera(camera);
        }
        if shape.motion.is_some() && tables.motion.is_none() {
            tables.motion = Some(MotionTable::create(&motion)?);
        }
        if shape.logos.is_some() && tables.logos.is_none() {
            tables.logos = Some(LogoTable::create(&logos, announced.logo_names)?);
        }
        self.finish_pictures()?;
        let FolderOptions { save, full, .. } = self.options;
        if save.pictures().next().is_some() {
            self.pictures = Some(PictureWriter::start(&self.out, save, full, announced)?);
        }
        Ok(())
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.statistics.frame(&result.timing, result.gaps);
        self.statistics.states(result);
        self.digest.frame(result)?;
        let tables = self.tables()?;
        if let (Some(table), Some(street)) = (&mut tables.stixels, &result.street) {
            table.frame(&result.id, &street.stixels)?;
        }
        if let (Some(table), Some(motion), Some(foreground)) =
            (&mut tables.motion, &result.motion, &result.foreground)
        {
            table.frame(&result.id, motion, foreground)?;
        }
        if let (Some(table), Some(logos)) = (&mut tables.logos, &result.logos) {
            table.frame(&result.id, logos)?;
        }
        tables.timing.frame(&result.id, &result.timing)?;
        match &mut self.pictures {
            Some(pictures) => pictures.frame(view, result),
            None => Ok(()),
        }
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.statistics.gap(gap);
        self.tables()?.timing.gap(&id, gap)
    }
}

/// Refuses a place for results that belongs to what is read: the folders, what lies in them, and
/// what holds them; and files (a calibration) that would be replaced as results.
///
/// # Errors
/// [`SinkError::Input`].
pub fn check_apart(out: &Path, folders: &[&Path], files: &[&Path]) -> Result<(), SinkError> {
    let place = whole(out);
    let near = |input: &Path| place.starts_with(input) || input.starts_with(&place);
    let folder = folders.iter().find(|input| near(&whole(input)));
    let file = || files.iter().find(|input| is_result(out, input));
    match folder.or_else(file) {
        None => Ok(()),
        Some(input) => Err(SinkError::Input {
            path: out.into(),
            input: input.to_path_buf(),
        }),
    }
}

/// Whether a file or folder, which need not be there yet, lies in a folder, or is it.
pub fn lies_in(path: &Path, folder: &Path) -> bool {
    whole(path).starts_with(whole(folder))
}

/// Whether a file is, or would be, one of the results in a folder.
pub fn is_result(folder: &Path, file: &Path) -> bool {
    let (folder, file) = (whole(folder), whole(file));
    let pictures = Save::PICTURES.map(Save::name);
    TABLES.iter().any(|name| file == folder.join(name))
        || pictures
            .iter()
            .any(|name| file.starts_with(folder.join(name)))
}

/// A path without links and dots, also where its end does not exist yet.
fn whole(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut there = path;
    loop {
        let start = if there.as_os_str().is_empty() {
            Path::new(".")
        } else {
            there
        };
        if let Ok(known) = start.canonicalize() {
            return rest.iter().rev().fold(known, |path, part| path.join(part));
        }
        match (there.file_name(), there.parent()) {
            (Some(name), Some(parent)) => {
                rest.push(name);
                there = parent;
            }
            _ => return path.into(),
        }
    }
}

/// Refuses a folder that can't take results; what is in it stays as it is.
fn check(out: &Path, force: bool) -> Result<(), SinkError> {
    let not_a_folder = |path: PathBuf| Err(SinkError::NotAFolder { path });
    if !files::present(out) {
        return Ok(());
    }
    if !out.is_dir() {
        return not_a_folder(out.into());
    }
    let mut entries = fs::read_dir(out).map_err(SinkError::io(out))?;
    let Some(entry) = entries.next() else {
        return Ok(());
    };
    let found = |path: &Path| path.strip_prefix(out).unwrap_or(path).display().to_string();
    if !force {
        let entry = entry.map_err(SinkError::io(out))?;
        return Err(SinkError::NotEmpty {
            path: out.into(),
            found: found(&entry.path()),
        });
    }
    // A link would lead out of the folder.
    let is_folder = |p: &Path| fs::symlink_metadata(p).is_ok_and(|m| m.is_dir());
    let folders = Save::PICTURES.map(|kind| out.join(kind.name()));
    if let Some(path) = folders
        .into_iter()
        .find(|p| files::present(p) && !is_folder(p))
    {
        return not_a_folder(path);
    }
    match earlier(out)?.first() {
        Some(file) if !holds_results(out) => Err(SinkError::NotOurs {
            path: out.into(),
            found: found(file),
        }),
        _ => Ok(()),
    }
}

/// Whether a replay wrote here, be it to its end or not.
fn holds_results(out: &Path) -> bool {
    let head = |name: &str| -> Option<Vec<u8>> {
        let mut head = Vec::new();
        let file = files::open(&out.join(name), u64::MAX).ok()?;
        let most = TimingTable::<File>::HEADER.len() as u64;
        file.take(most).read_to_end(&mut head).ok()?;
        Some(head)
    };
    let timing =
        head(TIMING).is_some_and(|h| TimingTable::<File>::HEADER.as_bytes().starts_with(&h));
    let summary = || files::read(&out.join(SUMMARY), files::MAX_LIST).ok();
    timing || summary().is_some_and(|s| serde_json::from_slice::<Summary>(&s).is_ok())
}

/// The files of an earlier replay: all must go, a shorter one must not leave a mixture behind.
fn earlier(out: &Path) -> Result<Vec<PathBuf>, SinkError> {
    let mut files: Vec<PathBuf> = TABLES.iter().map(|name| out.join(name)).collect();
    files.retain(|path| files::present(path));
    for kind in Save::PICTURES {
        let folder = out.join(kind.name());
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.map_err(SinkError::io(&folder))?.path();
            let ours = path.extension().is_some_and(|e| e == "png")
                && path.file_stem().is_some_and(|stem| {
                    stem.len() >= 6 && stem.as_encoded_bytes().iter().all(u8::is_ascii_digit)
                });
            if ours {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Takes the folder for this replay alone, as long as the lock is kept, and clears it.
fn take(out: &Path, force: bool) -> Result<File, SinkError> {
    fs::create_dir_all(out).map_err(SinkError::io(out))?;
    let lock = File::open(out).map_err(SinkError::io(out))?;
    // Where a file system knows no locks, results are as safe as without one.
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        return Err(SinkError::Busy { path: out.into() });
    }
    check(out, force)?;
    for path in earlier(out)? {
        fs::remove_file(&path).map_err(SinkError::io(path))?;
    }
    Ok(lock)
}
