//! `roadloop replay DRIVE --out DIR`
use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub use super::computer::BackendChoice;
use super::{Failure, computer::Computer, failure::say};
use crate::{
    config::{Config, ConfigError, Preset},
    files,
    frame::{FrameId, FrameResult, Gap},
    frame_loop::{Models, Pace, StageId},
    replay::{Replay, ReplayError},
    sink::{
        Announced, FolderOptions, Full, ReplayFolder, Save, SaveSet, Sink, SinkError, View,
        check_apart,
        digest::Hash,
        lies_in,
        recorder::{About, RecordStatus, Recorder},
        summary::{Provenance, Summary, write_atomically},
    },
    source::{Drive, DriveOptions, MaskSource, Segment, SourceError},
    stage::{foreground, forest::Forest, logo::Templates},
};

/// A recorded drive to stixels, foreground, logos, labels, pictures, timing and a digest.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder of the drive: KITTI odometry, stereo 2015 or raw, EuRoC, left/ + right/, pictures of
    /// one camera; or a recording (MCAP): a file, or the folder with all of its files
    #[arg(value_name = "DRIVE")]
    pub drive: PathBuf,
    /// Folder for the results; made if missing
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Configuration (roadloop.toml)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Calibration: KITTI, OpenCV YAML, Kalibr, EuRoC, ROS camera_info; goes before the drive's own
    #[arg(long, value_name = "FILE")]
    pub calib: Option<PathBuf>,
    /// Folder of stored disparities, used instead of computing them
    #[arg(long, value_name = "DIR")]
    pub disparity: Option<PathBuf>,
    /// Where to compute
    #[arg(long, value_enum, default_value_t)]
    pub backend: BackendChoice,
    /// Defaults for what the configuration does not state
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// Part of the drive, half-open and 0-based, such as 10..20, ..5 or 40..
    #[arg(long, value_name = "A..B", value_parser = parse_frames)]
    pub frames: Option<Range<usize>>,
    /// As fast as possible, or by time stamps under the deadline
    #[arg(long, value_enum, default_value_t)]
    pub pace: Pace,
    /// Threads that compute [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Exit with status 65 when a frame was missing, unreadable, dropped or late
    #[arg(long)]
    pub strict: bool,
    /// What to write besides tables, a list with commas: overlay, disparity, disparity-colour,
    /// foreground, labels, logos; or none
    #[arg(long, value_name = "LIST", default_value = "overlay", value_parser = parse_save)]
    pub save: SaveSet,
    /// Record the drive and its results as MCAP into this folder, as the section `record` says
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Replace the results of an earlier replay in DIR
    #[arg(long)]
    pub force: bool,
    /// Of a recording, compute also the stages that the loop skipped, or whose results came too
    /// late, when it was recorded; without, the results are those that it gave
    #[arg(long)]
    pub decide_anew: bool,
}

fn parse_frames(text: &str) -> Result<Range<usize>, String> {
    let wrong = || format!("--frames {text}: expected A..B with A below B, such as 10..20");
    let (a, b) = text.split_once("..").ok_or_else(wrong)?;
    let number = |s: &str, default| {
        if s.is_empty() {
            Ok(default)
        } else {
            s.parse().map_err(|_| wrong())
        }
    };
    let range = number(a, 0)?..number(b, usize::MAX)?;
    if range.is_empty() {
        Err(wrong())
    } else {
        Ok(range)
    }
}

fn parse_save(text: &str) -> Result<SaveSet, String> {
    let list = if text == "none" { "" } else { text };
    list.parse()
        .map_err(|e: crate::sink::SaveError| e.to_string())
}

impl From<SourceError> for Failure {
    fn from(e: SourceError) -> Self {
        match e.exit().code() {
            66 => Failure::no_input(e),
            78 => Failure::config(e),
            _ => Failure::data(e),
        }
    }
}

impl From<SinkError> for Failure {
    fn from(e: SinkError) -> Self {
        match e {
            SinkError::NotEmpty { .. }
            | SinkError::NotAFolder { .. }
            | SinkError::NotOurs { .. }
            | SinkError::Input { .. }
            | SinkError::Busy { .. } => Failure::usage(e),
            _ => Failure::internal(e),
        }
    }
}

impl From<ReplayError> for Failure {
    fn from(e: ReplayError) -> Self {
        match e {
            ReplayError::Calib(e) => e.into(),
            #[cfg(feature = "cuda")]
            ReplayError::Chain(crate::frame_loop::ChainError::Gpu(e)) => Failure::gpu(&e),
            ReplayError::Chain(e) => Failure::config(e),
            ReplayError::Threads(_) => Failure::internal(e),
            ReplayError::Sink(e) => e.into(),
            ReplayError::Backend(e) => Failure::internal(e),
            ReplayError::Missed(e) => Failure::internal(e),
        }
    }
}

/// Reads a configuration, or takes the defaults of a preset.
pub(super) fn configuration(
    path: Option<&Path>,
    preset: Option<Preset>,
) -> Result<Config, Failure> {
    match path {
        Some(path) => Config::load(path, preset).map_err(|e| match e {
            ConfigError::Io { ref source, .. } if !files::is_data(source) => Failure::no_input(e),
            _ => Failure::config(e),
        }),
        None => Ok(Config::preset(preset.unwrap_or_default())),
    }
}

/// Replays and prints what came out.
///
/// # Errors
/// One clear error and its exit status; results that were finished stay written.
pub fn run(args: &Args, stop: &AtomicBool) -> Result<(), Failure> {
    shown(args, None, stop).map(drop)
}

/// The same with another sink for the frames with a result; tells what came out.
pub(super) fn shown(
    args: &Args,
    extra: Option<&mut (dyn Sink + Send)>,
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let summary = replay(args, extra, stop)?;
    say(&text(&summary, &args.out))?;
    if summary.interrupted {
        log::warn!("stopped before the end of the drive; the digest is that of a part");
    }
    let gaps: Vec<String> = (summary.gaps.0.iter())
        .filter(|(name, n)| *n > 0 && strict_gap(name))
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    if args.strict && summary.interrupted {
        return Err(Failure::data(
            "--strict: stopped before the end of the drive",
        ));
    }
    if args.strict && !gaps.is_empty() {
        return Err(Failure::data(format!("--strict: {}", gaps.join(", "))));
    }
    Ok(summary)
}

/// Whether a gap means that something of the drive or of a frame is not there; what a stage
/// says about its certainty does not count.
fn strict_gap(name: &str) -> bool {
    name != Gap::RoadHeld.name() && name != Gap::StixelOverflow.name()
}

fn replay(
    args: &Args,
    extra: Option<&mut (dyn Sink + Send)>,
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let mut config = configuration(args.config.as_deref(), args.preset)?;
    let computer = Computer::new(args.backend, &config)?;
    log::info!("computing on {computer}");
    let drive = Drive::open(
        &args.drive,
        &DriveOptions {
            input: config.input.clone(),
            source: config.source.clone(),
            mono: config.mono.clone(),
            calib: args.calib.clone(),
            disparity: args.disparity.clone(),
            camera: config.camera,
            frames: args.frames.clone(),
            zero_is_measured: config.preset == Preset::Paper,
        },
    )?;
    settle(args, &mut config, &drive)?;
    check_inputs(args, &config, &drive)?;
    let mut models = Models::default();
    if let Some(path) = &config.logo.templates {
        let templates = Templates::read(path).map_err(|e| Failure::from(e).of("logo.templates"))?;
        models.logos = Some(Arc::new(templates));
    }
    if let Some(forest) = configured_forest(&config)? {
        models.forest = Some(Arc::new(forest));
    }
    let background = background(&config)?;
    let config_hash = hash_with(&config, &models, background.as_deref());
    let replay = Replay::new(&drive)?
        .deciding_anew(args.decide_anew)
        .with_models(models)
        .with_background(background);
    let options = FolderOptions {
        save: args.save,
        force: args.force,
        full: match args.pace {
            Pace::Max => Full::Wait,
            Pace::Realtime => Full::Drop,
        },
        provenance: Provenance {
            backend: computer.name().into(),
            preset: config.preset.name().into(),
            version: env!("CARGO_PKG_VERSION").into(),
            config_hash,
            calib_hash: format!("{:016x}", replay.calib_hash()),
            drive: match &args.frames {
                Some(_) => format!("{}, {}", args.drive.display(), places(&drive)),
                None => args.drive.display().to_string(),
            },
            pace: match args.pace {
                Pace::Max => "max".into(),
                Pace::Realtime => "realtime".into(),
            },
            budgets_us: budgets(&config),
        },
    };
    let recorder = args.record.as_deref().map(|folder| {
        let about = About {
            config: config.to_toml(),
            config_hash: options.provenance.config_hash.clone(),
            backend: options.provenance.backend.clone(),
            ..About::default()
        };
        Recorder::create(folder, &config.record, about, options.full)
    });
    let mut sink = Watched {
        recorder: recorder.transpose()?,
        folder: ReplayFolder::create(&args.out, options)?,
        extra,
        bar: bar(drive.frames().len()),
    };
    let ran = computer.run(args, &replay, &config, &mut sink, stop);
    sink.bar.finish_and_clear();
    if let Some(recorder) = sink.recorder.take() {
        let folder = recorder.folder().to_owned();
        tell_recorded(&folder, &recorder.finish());
    }
    // The summary of what was finished is written also when something went wrong.
    let interrupted = ran.is_err() || stop.load(Ordering::Relaxed);
    let finished = sink.folder.finish(interrupted);
    if let (Some(snapshot), Some(path)) = (ran?, &config.foreground.snapshot) {
        write_atomically(path, &snapshot)?;
    }
    Ok(finished?)
}

/// The forest that is configured.
pub(super) fn configured_forest(config: &Config) -> Result<Option<Forest>, Failure> {
    let Some(path) = &config.forest.model else {
        return Ok(None);
    };
    let forest = Forest::load(path)?;
    if forest.meta.progress.is_some() {
        log::warn!("{}: an unfinished forest", path.display());
    }
    Ok(Some(forest))
}

/// The largest file of a background that is read, bytes.
const MAX_BACKGROUND: u64 = 1 << 32;

/// What is computed of this drive: what the configuration and `--save` ask for.
fn settle(args: &Args, config: &mut Config, drive: &Drive) -> Result<(), Failure> {
    let mono = drive.is_mono();
    if args.save.contains(Save::Foreground) && !config.wants_foreground(mono) {
        config.foreground.enabled = Some(true);
    }
    let logos = config.logo.templates.is_some();
    if args.save.contains(Save::Logos) && !logos {
        return Err(Failure::config(
            "logo.templates is not set, expected the file that roadloop logos build wrote: \
             --save logos needs it",
        ));
    }
    let forest = config.forest.model.is_some();
    if args.save.contains(Save::Labels) && !forest {
        return Err(Failure::config(
            "forest.model is not set, expected the file that roadloop forest train wrote: \
             --save labels needs it",
        ));
    }
    if !mono {
        return Ok(());
    }
    if forest {
        log::warn!("a mono drive: nothing is labelled, that needs stereo pictures");
    }
    for kind in [Save::Disparity, Save::DisparityColour, Save::Labels] {
        if args.save.contains(kind) {
            let text = format!(
                "--save {}: {} has no stereo pictures",
                kind.name(),
                drive.path().display()
            );
            return Err(Failure::usage(text));
        }
    }
    if !config.wants_foreground(mono) && !logos {
        return Err(Failure::config(
            "foreground.enabled is false and logo.templates is not set: there is nothing to \
             compute of a mono drive",
        ));
    }
    Ok(())
}

/// The background that an earlier run left; what can't be read is told, and learnt afresh.
pub(super) fn background(config: &Config) -> Result<Option<Vec<u8>>, Failure> {
    let Some(path) = &config.foreground.snapshot else {
        return Ok(None);
    };
    if let Some(why) = files::unwritable(path) {
        return Err(Failure::config(format!(
            "foreground.snapshot: {}: {why}",
            path.display()
        )));
    }
    match files::read(path, MAX_BACKGROUND) {
        Ok(bytes) if bytes.is_empty() || foreground::is_snapshot(&bytes) => Ok(Some(bytes)),
        // It is to be replaced at the end.
        Ok(_) => Err(Failure::config(format!(
            "foreground.snapshot: {}: it holds something else, expected a background that roadloop \
             wrote, or no file",
            path.display()
        ))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::config(format!(
            "foreground.snapshot: {}: {e}",
            path.display()
        ))),
    }
}

/// What each stage, and a frame as a whole, may take.
fn budgets(config: &Config) -> BTreeMap<String, u64> {
    let budget = &config.frame_loop.budget_us;
    let stages = StageId::ORDER.map(|s| (s.name().to_owned(), budget.ns(s) / 1000));
    let frame = ("frame".to_owned(), config.frame_loop.deadline_us);
    stages.into_iter().chain([frame]).collect()
}

/// The hash of a configuration and of what else decides of results, as results state it.
pub(super) fn hash_with(config: &Config, models: &Models, background: Option<&[u8]>) -> String {
    let with = |hash: u64, bytes: &[u8]| {
        let mut both = hash.to_le_bytes().to_vec();
        both.extend(Hash::of(bytes).0.to_le_bytes());
        Hash::of(&both).0
    };
    let mut hash = config.hash();
    if let Some(logos) = &models.logos {
        hash = with(hash, &logos.to_bytes());
    }
    if let Some(forest) = &models.forest {
        hash = with(hash, &forest.digest().to_le_bytes());
    }
    if let Some(background) = background {
        hash = with(hash, background);
    }
    format!("{hash:016x}")
}

/// Results must not go where input comes from, nor need more memory than is reasonable.
fn check_inputs(args: &Args, config: &Config, drive: &Drive) -> Result<(), Failure> {
    let first = drive.frames().first();
    // A recording that is one file may lie beside its results.
    let pictures = first.into_iter().flat_map(|f| {
        f.all()
            .filter(|&picture| picture != drive.path())
            .filter_map(Path::parent)
    });
    let folders: Vec<&Path> = [Some(drive.path()), args.disparity.as_deref()]
        .into_iter()
        .flatten()
        .chain(pictures)
        .collect();
    let picture = |mask: &Option<MaskSource>| match mask {
        Some(MaskSource::Picture(path)) => Some(path.clone()),
        _ => None,
    };
    let masks = [picture(&config.input.mask), picture(&config.mono.mask)];
    let files = [
        args.config.as_deref(),
        args.calib.as_deref(),
        masks[0].as_deref(),
        masks[1].as_deref(),
        config.logo.templates.as_deref(),
        config.foreground.snapshot.as_deref(),
        config.forest.model.as_deref(),
    ];
    let files: Vec<&Path> = files.into_iter().flatten().collect();
    check_apart(&args.out, &folders, &files)?;
    if let Some(record) = &args.record {
        check_apart(record, &folders, &files)?;
        if lies_in(record, &args.out) || lies_in(&args.out, record) {
            return Err(Failure::usage(format!(
                "--record {}: lies in --out {}, or that in it; expected a folder beside it",
                record.display(),
                args.out.display()
            )));
        }
    }
    for stereo in drive.segments().iter().filter_map(|s| s.stereo.as_ref()) {
        config.check_size(stereo.size).map_err(Failure::config)?;
    }
    Ok(())
}

/// Which of its frames are replayed, such as `frames 10..20`.
fn places(drive: &Drive) -> String {
    let at = |s: &Segment| (s.frames.start, s.frames.end);
    match (
        drive.segments().first().map(at),
        drive.segments().last().map(at),
    ) {
        (Some((start, _)), Some((_, end))) => format!("frames {start}..{end}"),
        _ => "no frames".into(),
    }
}

fn bar(frames: usize) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(10)
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} frames, {per_sec}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(frames as u64), target).with_style(style)
}

/// The folder, with a progress bar.
struct Watched<'a> {
    folder: ReplayFolder,
    extra: Option<&'a mut (dyn Sink + Send)>,
    recorder: Option<Recorder>,
    bar: ProgressBar,
}

impl Sink for Watched<'_> {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(announced)?;
        }
        if let Some(extra) = &mut self.extra {
            extra.begin(announced)?;
        }
        self.folder.begin(announced)
    }

    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        self.recorder.as_mut()?.state_room(next)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.bar.inc(1);
        if let Some(recorder) = &mut self.recorder {
            recorder.frame(view, result)?;
        }
        if let Some(extra) = &mut self.extra {
            extra.frame(view, result)?;
        }
        self.folder.frame(view, result)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        // A lost camera is an event; its frames are counted when they come, or do not.
        self.bar.inc(u64::from(gap != Gap::CameraLost));
        if let Some(recorder) = &mut self.recorder {
            recorder.gap(id, gap)?;
        }
        self.folder.gap(id, gap)
    }
}

/// What became of a recording.
pub(super) fn tell_recorded(folder: &Path, status: &RecordStatus) {
    let folder = folder.display();
    let digest = status.digest.map(|d| format!(", digest {d}"));
    log::info!(
        "{folder}: {} frames in {} files, {} MiB{}",
        status.frames,
        status.files,
        status.bytes >> 20,
        digest.unwrap_or_default()
    );
    if status.dropped > 0 {
        log::warn!(
            "{folder}: {} frames are not in the recording",
            status.dropped
        );
    }
}

/// What came out, for people and scripts: `name: value` lines.
fn text(summary: &Summary, out: &Path) -> String {
    let mut text = format!("frames: {}\ndigest: {}\n", summary.frames, summary.digest);
    let states = [
        ("gap", Some(&summary.gaps)),
        ("motion", summary.motion.as_ref()),
        ("foreground", summary.foreground.as_ref()),
        ("labels", summary.labels.as_ref()),
    ];
    for (what, counts) in states {
        for (name, n) in counts.iter().flat_map(|c| &c.0).filter(|(_, n)| *n > 0) {
            text += &format!("{what} {name}: {n}\n");
        }
    }
    let stages = summary
        .stages
        .0
        .iter()
        .map(|(name, s)| (name.as_str(), &s.duration));
    for (name, d) in stages.chain([("frame", &summary.frame.duration)]) {
        let (p50, p99, max) = (d.p50_us, d.p99_us, d.max_us);
        text += &format!("{name}: p50 {p50:.0} us, p99 {p99:.0} us, max {max:.0} us\n");
    }
    text + &format!("results: {}\n", out.display())
}
