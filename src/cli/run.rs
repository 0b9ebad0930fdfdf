//! `roadloop run --config F`: live cameras through the loop; what the service starts.
use std::{
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    Failure,
    computer::Computer,
    replay::{background, configuration, configured_forest, hash_with, tell_recorded},
};
use crate::{
    calib::Rig,
    config::Config,
    files,
    frame_loop::{Clock as _, Models, Monitor, MonotonicClock, Publish},
    live::{Live, LiveError},
    realtime::{Realtime, RealtimeError},
    service::{Asked, Attendant, Device, Lifeline, Notifier, Watched, signals},
    sink::{
        Full, Sink,
        at_latency::{AtLatency, WhenReady},
        counters::Counters,
        fan_out::FanOut,
        recorder::{About, Recorder, folder_now},
        socket::ResultSocket,
        summary::write_atomically,
    },
    source::{
        FaultInjector, LiveSource, SourceKind, SyntheticCameras,
        cameras::{self, Cameras, CamerasError},
        mask_of, mono_mask_of,
    },
    stage::logo::Templates,
};

/// Live cameras to stixels, foreground, logos and labels, until it is told to stop.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Configuration (roadloop.toml)
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

impl From<LiveError> for Failure {
    fn from(e: LiveError) -> Self {
        match e {
            LiveError::Calib(e) => e.into(),
            LiveError::NoCalibration => Failure::config(e),
            LiveError::Size { .. } => Failure::data(e),
        }
    }
}

impl From<RealtimeError> for Failure {
    fn from(e: RealtimeError) -> Self {
        Failure::config(e)
    }
}

/// Runs until SIGTERM or Ctrl-C.
///
/// # Errors
/// One clear error and its exit status; what is recorded is complete.
pub fn run(args: &Args) -> Result<(), Failure> {
    live(&args.config, |config| {
        let folder = config.record.folder.as_deref();
        folder.filter(|_| config.record.enabled).map(folder_now)
    })
}

/// The loop on the configuration in a file, recorded into the folder that `record` says.
///
/// # Errors
/// As [`run`].
pub(super) fn live(
    path: &Path,
    record: impl FnOnce(&Config) -> Option<PathBuf>,
) -> Result<(), Failure> {
    let config = configuration(Some(path), None)?;
    let record = record(&config);
    let notifier = Notifier::from_environment();
    notifier.tell("STATUS=starting");
    let service = Service {
        monitor: Arc::new(Monitor {
            hang: config.fault.hang.clone(),
            slow: config.fault.slow.clone(),
            ..Monitor::default()
        }),
        asked: Arc::default(),
        notifier: &notifier,
        record,
    };
    // Before any other thread, so that no signal goes by.
    signals::listen(&service.monitor, &service.asked)
        .map_err(|e| Failure::internal(format!("no handler for signals: {e}")))?;
    signals::tell_panics(&service.monitor);
    let outcome = start(&config, path, &service);
    notifier.tell(match &outcome {
        Ok(()) => "STOPPING=1\nSTATUS=stopped",
        Err(_) => "STOPPING=1\nSTATUS=failed",
    });
    outcome
}

/// What the loop shares with the service manager and the threads beside it.
struct Service<'a> {
    monitor: Arc<Monitor>,
    asked: Arc<Asked>,
    notifier: &'a Notifier,
    /// Where a recording goes.
    record: Option<PathBuf>,
}

/// A socket's address has room for so many bytes.
const MAX_SOCKET_PATH: usize = 107;

/// Refuses places that no socket or file can be made at: before a camera is opened.
fn outputs(config: &Config) -> Result<(), Failure> {
    let wrong = |key: &str, path: &Path, why: &str| {
        Failure::config(format!("output.{key}: {}: {why}", path.display()))
    };
    let output = &config.output;
    if let (Some(socket), true) = (&output.socket, output.socket == output.metrics) {
        let text = "output.metrics is the same, expected places of their own";
        return Err(wrong("socket", socket, text));
    }
    for (key, path) in [("socket", &output.socket), ("metrics", &output.metrics)] {
        if let Some((path, why)) = path.as_ref().and_then(|p| Some((p, files::unwritable(p)?))) {
            return Err(wrong(key, path, &why));
        }
    }
    // It is replaced once a second.
    if let Some(path) = &output.metrics
        && files::present(path)
        && !path.is_file()
    {
        let text = "it is no file, expected none or one that is replaced";
        return Err(wrong("metrics", path, text));
    }
    let Some(path) = &output.socket else {
        return Ok(());
    };
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        let text = format!("{length} bytes, expected at most {MAX_SOCKET_PATH} for a socket");
        return Err(wrong("socket", path, &text));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|m| !m.file_type().is_socket()) {
        let text = "is no socket, expected none or one that an earlier process left";
        return Err(wrong("socket", path, text));
    }
    Ok(())
}

fn start(config: &Config, path: &Path, service: &Service<'_>) -> Result<(), Failure> {
    outputs(config)?;
    let computer = Computer::new(config.live.backend, config)?;
    log::info!("computing on {computer}");
    let realtime = Realtime::start(&config.realtime, computer.name() == "cuda")?;
    let clock = &MonotonicClock;
    match config.source.kind {
        SourceKind::Synthetic => {
            log::info!("drawing the street that stands in for cameras");
            let cameras = SyntheticCameras::new(&config.synthetic, config.source.rate_hz, clock)
                .map_err(Failure::config)?;
            let source = FaultInjector::new(cameras, &config.fault, clock);
            attend(config, service, &computer, &realtime, source, None)
        }
        SourceKind::Cameras => {
            let cameras = open_cameras(config, path, &service.asked.stop)?;
            let capture = cameras.monitor();
            attend(
                config,
                service,
                &computer,
                &realtime,
                cameras,
                Some(capture),
            )
        }
    }
}

/// What the names of threads that capture begin with.
const CAPTURE: &str = "camera-";

/// The cameras of the configuration. Those that are not there yet are waited for, as long as a
/// first result may take.
fn open_cameras(config: &Config, path: &Path, stop: &AtomicBool) -> Result<Cameras, Failure> {
    const AGAIN: Duration = Duration::from_millis(250);
    let tolerance = config.mono.tolerance_us.map(|us| us * 1000);
    let clock = MonotonicClock;
    let patience = u64::from(config.live.first_result_s) * 1_000_000_000;
    let begun = clock.now();
    let mut told = false;
    loop {
        let error = match Cameras::open(&config.cameras, tolerance) {
            Ok(cameras) => return Ok(cameras),
            Err(error) => error,
        };
        let waits = matches!(error, CamerasError::NoneOpens { .. });
        if !waits || clock.now().since(begun) >= patience || stop.load(Ordering::Relaxed) {
            let failure = Failure::from(error);
            return Err(failure.of(&path.display().to_string()));
        }
        if !std::mem::replace(&mut told, true) {
            log::warn!("{error}; waiting for it");
        }
        thread::sleep(AGAIN);
    }
}

impl From<CamerasError> for Failure {
    fn from(e: CamerasError) -> Self {
        match e {
            CamerasError::NotBuilt => Failure::unavailable(format!(
                "source.kind is \"cameras\", but {e}; expected the package's build, or \
                 source.kind = \"synthetic\""
            )),
            CamerasError::NoneOpens { .. } => Failure::unavailable(e),
            CamerasError::NoCameras | CamerasError::Unusable { .. } => Failure::config(e),
            CamerasError::Thread(_) => Failure::internal(e),
        }
    }
}

/// The rig of the images as they enter the loop: `[calibration]`, else `[camera]`, else what the
/// source knows itself.
pub(super) fn rig(config: &Config, source: &impl LiveSource) -> Result<Option<Rig>, Failure> {
    let file = config.calibration.rig()?;
    Ok(file
        .or_else(|| config.camera.map(Rig::rectified))
        .or_else(|| source.rig()))
}

/// Runs the loop, with everything around it that makes it a service.
fn attend(
    config: &Config,
    service: &Service<'_>,
    computer: &Computer,
    realtime: &Realtime,
    source: impl LiveSource + Send,
    capture: Option<cameras::Monitor>,
) -> Result<(), Failure> {
    let shape = source.shape();
    if let Some((size, _)) = shape.stereo {
        config.check_size(size).map_err(Failure::config)?;
    }
    let mut models = Models::default();
    if let Some(path) = &config.logo.templates {
        models.logos = Some(Arc::new(Templates::read(path)?));
    }
    // Cameras give what they are asked for; nothing is cut off or averaged on the way.
    if config.input.changes_geometry() {
        return Err(Failure::config(
            "input.crop and input.scale_down are for recorded drives, expected neither with live \
             cameras: ask the cameras for a smaller format",
        ));
    }
    let mask = match shape.stereo {
        Some((size, _)) => mask_of(&config.input, size)?,
        None => None,
    };
    let mono_mask = match shape.mono {
        Some((_, size)) => mono_mask_of(&config.mono, size)?,
        None => None,
    };
    models.forest = configured_forest(config)?.map(Arc::new);
    if models.forest.is_some() && shape.stereo.is_none() {
        log::warn!("a mono camera alone: nothing is labelled, that needs stereo pictures");
    }
    let background = background(config)?;
    let config_hash = hash_with(config, &models, background.as_deref());
    let live = Live::new(shape, rig(config, &source)?)?
        .with_mask(mask)
        .with_mono_mask(mono_mask)
        .with_models(models)
        .with_background(background);
    if live.is_idle(config) {
        return Err(Failure::config(
            "foreground.enabled is false and logo.templates is not set: there is nothing to \
             compute of a mono camera",
        ));
    }
    let (clock, counters) = (&MonotonicClock, Counters::default());
    let lifeline = Lifeline::new(service.notifier, clock, config.live.patience());
    let mut source = lifeline.source(source);
    let mut sinks = FanOut::new().with("counters", &counters);
    let mut traffic = None;
    let mut punctuality = None;
    if let Some(path) = &config.output.socket {
        let socket = ResultSocket::bind(path)?;
        traffic = Some(socket.traffic());
        sinks = match config.frame_loop.publish {
            Publish::WhenReady => {
                let socket = WhenReady::new(socket, clock);
                punctuality = Some(socket.punctuality());
                sinks.with("socket", socket)
            }
            Publish::AtLatency => {
                let latency_ns = config.frame_loop.latency_us * 1000;
                let above = realtime.clone();
                let socket = AtLatency::new(socket, MonotonicClock, latency_ns)
                    .entering(move || above.enter_above());
                punctuality = Some(socket.punctuality());
                sinks.with("socket", socket)
            }
        };
    }
    let mut recording = None;
    if let Some(folder) = &service.record {
        let about = About {
            config: config.to_toml(),
            config_hash,
            backend: computer.name().into(),
            ..About::default()
        };
        let recorder = Recorder::create(folder, &config.record, about, Full::Drop)?;
        log::info!("recording into {}", folder.display());
        recording = Some(recorder.monitor());
        sinks = sinks.with("recorder", recorder);
    }
    // Last: who is told that it is ready finds the result where it belongs.
    sinks = sinks.with("service manager", lifeline.sink());
    let watched = Watched {
        monitor: &service.monitor,
        counters: &counters,
        lifeline: &lifeline,
        traffic: traffic.as_deref(),
        punctuality: punctuality.as_deref(),
        capture: capture.as_ref(),
        recording: recording.as_ref(),
        asked: &service.asked,
    };
    let attendant = Attendant::new(
        watched,
        service.notifier,
        clock,
        Device::find(Path::new("/sys")),
        config.output.metrics.clone(),
    );
    let ended = AtomicBool::new(false);
    realtime.raise(CAPTURE)?;
    let background = thread::scope(|scope| {
        let beside = thread::Builder::new()
            .name("attendant".into())
            .spawn_scoped(scope, || attendant.run(&ended))
            .map_err(|e| Failure::internal(format!("no thread for metrics and log: {e}")))?;
        let ran = computer.run_live(
            config,
            realtime,
            &live,
            &mut source,
            &mut sinks,
            &service.monitor,
            &service.asked.stop,
        );
        ended.store(true, Ordering::Relaxed);
        beside.thread().unpark();
        ran
    });
    if let (Some(folder), Some(recording)) = (&service.record, &recording) {
        tell_recorded(folder, &recording.status());
    }
    let background = background?;
    if let (Some(snapshot), Some(path)) = (background, &config.foreground.snapshot) {
        write_atomically(path, &snapshot)?;
    }
    if lifeline.gave_up() {
        let text = if lifeline.is_ready() {
            format!("no frame for {} s (live.silence_s)", config.live.silence_s)
        } else {
            format!(
                "no result within {} s of the start (live.first_result_s)",
                config.live.first_result_s
            )
        };
        return Err(Failure::unavailable(format!("cameras: {text}")));
    }
    Ok(())
}

impl Computer {
    /// Gives what was learnt of the background.
    #[expect(clippy::too_many_arguments, reason = "the parts of a loop")]
    pub(super) fn run_live(
        &self,
        config: &Config,
        realtime: &Realtime,
        live: &Live,
        source: &mut (impl LiveSource + Send),
        sink: &mut (impl Sink + Send),
        monitor: &Monitor,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let clock = &MonotonicClock;
        let threads = config.live.threads.map(usize::from).or(realtime.threads());
        // Tried once here, where a refusal can be judged.
        realtime.enter()?;
        let for_pool = realtime.clone();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or(0))
            .thread_name(|n| format!("loop-{n}"))
            .start_handler(move |_| {
                if let Err(e) = for_pool.enter() {
                    log::error!("{e}");
                }
            });
        let refused = |e: rayon::ThreadPoolBuildError| {
            Failure::internal(format!("the threads that compute are refused: {e}"))
        };
        match self {
            Self::Cpu => {
                let pool = pool.build().map_err(refused)?;
                Ok(pool.install(|| live.run(config, clock, source, sink, monitor, stop))?)
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(context) => {
                let _pool = pool.use_current_thread().build().map_err(refused)?;
                Ok(
                    live.run_on(config, clock, source, sink, monitor, stop, |parts| {
                        parts.on_cuda(context, config)
                    })?,
                )
            }
        }
    }
}
