//! The folder of a replay: tables and pictures frame by frame, the summary at the end.
use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Full, PictureWriter, Save, SaveSet, Sink, SinkError, View,
    digest::Digest,
    summary::{Pictures, Provenance, Statistics, Summary},
    table::{StixelTable, TimingTable},
};
use crate::frame::{Camera, FrameId, FrameResult, Gap};

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
    stixels: StixelTable,
    timing: TimingTable,
    pictures: Option<PictureWriter>,
    /// Of the picture writers before this one.
    earlier: Pictures,
}

/// The file that says how a replay went.
pub const SUMMARY: &str = "summary.json";
/// The table of stixels.
pub const STIXELS: &str = "stixels.csv";
/// The table of times.
pub const TIMING: &str = "timing.csv";

impl ReplayFolder {
    /// Makes the folder, which must be new or empty, unless `force` is given: then the results
    /// of an earlier replay in it are removed, and nothing else.
    ///
    /// # Errors
    /// When the folder holds something, is none, or can't be written.
    pub fn create(out: &Path, options: FolderOptions) -> Result<Self, SinkError> {
        prepare(out, options.force)?;
        Ok(Self {
            out: out.to_owned(),
            digest: Digest::new(),
            statistics: Statistics::new(),
            stixels: StixelTable::create(&out.join(STIXELS))?,
            timing: TimingTable::create(&out.join(TIMING))?,
            pictures: None,
            earlier: Pictures::default(),
            options,
        })
    }

    /// The digests of what came so far.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Waits for the pictures and writes the summary: at the end, and when the replay was
    /// `interrupted`.
    ///
    /// # Errors
    /// When the summary or a picture can't be written.
    pub fn finish(mut self, interrupted: bool) -> Result<Summary, SinkError> {
        let result = self.finish_pictures();
        let mut summary = self.statistics.summary(&self.options.provenance);
        summary.pictures = self.earlier;
        summary.interrupted = interrupted;
        summary.set_digests(&self.digest.digests());
        summary.write(&self.out.join(SUMMARY))?;
        result.map(|()| summary)
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
    fn begin(
        &mut self,
        camera: &Camera,
        shape: &FrameResult,
        colour: bool,
    ) -> Result<(), SinkError> {
        self.stixels.set_camera(*camera);
        self.finish_pictures()?;
        let FolderOptions { save, full, .. } = self.options;
        if !save.is_empty() {
            let writer = PictureWriter::start(&self.out, save, full, *camera, shape, colour)?;
            self.pictures = Some(writer);
        }
        Ok(())
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.statistics.frame(&result.timing, result.gaps);
        self.digest.frame(result)?;
        self.stixels.frame(&result.id, &result.stixels)?;
        self.timing.frame(&result.id, &result.timing)?;
        match &mut self.pictures {
            Some(pictures) => pictures.frame(view, result),
            None => Ok(()),
        }
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.statistics.gap(gap);
        self.timing.gap(&id, gap)
    }
}

fn prepare(out: &Path, force: bool) -> Result<(), SinkError> {
    if out.exists() && !out.is_dir() {
        return Err(SinkError::NotAFolder { path: out.into() });
    }
    fs::create_dir_all(out).map_err(SinkError::io(out))?;
    let mut entries = fs::read_dir(out).map_err(SinkError::io(out))?;
    match entries.next() {
        None => Ok(()),
        Some(_) if force => remove_earlier(out),
        Some(entry) => Err(SinkError::NotEmpty {
            path: out.into(),
            found: entry
                .map_err(SinkError::io(out))?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        }),
    }
}

/// Removes what an earlier replay wrote: a shorter one must not leave a mixture behind.
fn remove_earlier(out: &Path) -> Result<(), SinkError> {
    let remove = |path: PathBuf| match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(SinkError::io(path)(e)),
        _ => Ok(()),
    };
    for name in [SUMMARY, STIXELS, TIMING] {
        remove(out.join(name))?;
    }
    for kind in Save::ALL {
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
                remove(path)?;
            }
        }
    }
    Ok(())
}
