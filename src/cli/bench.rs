//! `roadloop bench`: what the loop takes.
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Failure,
    computer::{BackendChoice, Computer},
    failure::say,
    replay::{background, configuration, configured_forest},
    run::rig,
};
use crate::{
    bench::{
        contend::Competitor,
        input::{Input, InputError},
        machine::Machine,
        meter::{HandOut, HandedOut, Meter},
        page,
        report::{Provenance, Report, Settings},
    },
    config::Config,
    frame::{FrameId, FrameResult, Gap, Size},
    frame_loop::{Clock, Models, Monitor, MonotonicClock, Publish},
    live::Live,
    realtime::Realtime,
    sink::{
        Announced, Sink, SinkError, View,
        at_latency::{AtLatency, WhenReady},
        report::check_page,
        summary::write_atomically,
    },
    source::{Drive, DriveOptions, LiveSource as _, mask_of},
    stage::logo::Templates,
};

/// Measures the loop.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// The whole loop at a rate, as live: percentiles of stages, frames and jitter, misses, skips
    Latency(LatencyArgs),
}

/// The whole loop at a rate.
#[derive(Clone, Debug, clap::Args)]
pub struct LatencyArgs {
    /// Configuration (roadloop.toml); without, the defaults with the foreground
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A drive whose first frames (up to 64) go round; without, the synthetic street
    #[arg(long, value_name = "DIR")]
    pub drive: Option<PathBuf>,
    /// Size of the synthetic street's images [default: that of the configuration]
    #[arg(long, value_name = "WxH", value_parser = parse_size, conflicts_with = "drive")]
    pub size: Option<Size>,
    /// Frames a second, 0.1 to 1000
    #[arg(long, value_name = "HZ", default_value = "30", value_parser = parse_rate)]
    pub rate: f64,
    /// Frames that count
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse_count)]
    pub frames: usize,
    /// The same as a time, s
    #[arg(long, value_name = "S", conflicts_with = "frames", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// Frames before the first that counts
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = parse_warm_up)]
    pub warm_up: usize,
    /// Where to compute
    #[arg(long, value_enum, default_value_t)]
    pub backend: BackendChoice,
    /// Multiprocessors of the GPU that the loop may use: stands in for a smaller GPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub sms: Option<u32>,
    /// Threads that compute [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Another load beside the loop: a busy thread, or on a GPU a stereo chain over and over
    #[arg(long)]
    pub contend: bool,
    /// JSON in place of the table
    #[arg(long)]
    pub json: bool,
    /// An HTML page with the histograms against the budgets; of what is there already, only a page
    /// of roadloop's is replaced
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

pub(super) fn parse_size(text: &str) -> Result<Size, String> {
    (text.split_once('x'))
        .and_then(|(w, h)| Some(Size::new(w.parse().ok()?, h.parse().ok()?)))
        .ok_or_else(|| format!("--size {text}: expected WxH, such as 1280x720"))
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    rate.filter(|hz| (0.1..=1000.0).contains(hz))
        .ok_or_else(|| format!("--rate {text}: expected 0.1 to 1000 frames a second"))
}

fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    count
        .filter(|n| (1..=100_000_000).contains(n))
        .ok_or_else(|| format!("--frames {text}: expected 1 to 100000000"))
}

fn parse_warm_up(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    count
        .filter(|n| *n <= 100_000_000)
        .ok_or_else(|| format!("--warm-up {text}: expected at most 100000000"))
}

impl LatencyArgs {
    /// Frames that count.
    fn counted(&self) -> usize {
        match self.seconds {
            Some(s) => ((f64::from(s) * self.rate).ceil() as usize).max(1),
            None => self.frames,
        }
    }

    fn configuration(&self) -> Result<Config, Failure> {
        let mut config = configuration(self.config.as_deref(), None)?;
        if self.config.is_none() {
            config.foreground.enabled = Some(true);
        }
        if let Some(size) = self.size {
            (config.synthetic.width, config.synthetic.height) = (size.width, size.height);
        }
        config.live.threads = self.threads.or(config.live.threads);
        config
            .validate("the command line")
            .map_err(Failure::usage)?;
        Ok(config)
    }
}

impl From<InputError> for Failure {
    fn from(e: InputError) -> Self {
        match e {
            InputError::Synth(_) => Failure::config(e),
            InputError::Threads(_) => Failure::internal(e),
            InputError::Stored(_) | InputError::Few { .. } => Failure::data(e),
        }
    }
}

/// Measures, and prints what was measured.
///
/// # Errors
/// One clear error and its exit status.
pub fn run(
    args: &Args,
    stop_flag: impl FnOnce() -> Result<Arc<AtomicBool>, Failure>,
) -> Result<(), Failure> {
    let What::Latency(args) = &args.what;
    let config = args.configuration()?;
    // What can't be written is said before a measurement of minutes, not after it.
    if let Some(path) = &args.report {
        check_page("--report", path).map_err(Failure::usage)?;
    }
    let report = latency(args, &config, stop_flag)?;
    say(&if args.json {
        report.to_json()
    } else {
        report.table()
    })?;
    if let Some(path) = &args.report {
        write_atomically(path, page::html(&report).as_bytes())?;
    }
    match report.stopped {
        true => Err(stopped(&format!(
            "the figures are those of {} frames of {}",
            report.frames,
            args.counted()
        ))),
        false => Ok(()),
    }
}

/// As a shell has it for what Ctrl-C ended.
fn stopped(what: &str) -> Failure {
    Failure {
        status: 130,
        message: format!("stopped before the end: {what}"),
    }
}

/// Frames, not yet through the loop, that what is measured is made of.
fn input<'a, C: Clock>(
    args: &LatencyArgs,
    config: &Config,
    clock: &'a C,
) -> Result<Input<'a, C>, Failure> {
    let pace = (args.rate, args.warm_up.saturating_add(args.counted()));
    let Some(path) = &args.drive else {
        let mut input = Input::synthetic(config, pace, clock)?;
        if let Some((size, _)) = input.cameras.shape().stereo {
            input.mask = mask_of(&config.input, size)?;
        }
        return Ok(input);
    };
    let drive = Drive::open(
        path,
        &DriveOptions {
            input: config.input.clone(),
            source: config.source.clone(),
            mono: config.mono.clone(),
            camera: config.camera,
            ..DriveOptions::default()
        },
    )?;
    Ok(Input::recorded(&drive, pace, clock)?)
}

/// Measures, and gives what was measured.
///
/// # Errors
/// As [`run`].
pub(super) fn measured(args: &LatencyArgs, stop: &Arc<AtomicBool>) -> Result<Report, Failure> {
    latency(args, &args.configuration()?, || Ok(Arc::clone(stop)))
}

fn latency(
    args: &LatencyArgs,
    config: &Config,
    stop_flag: impl FnOnce() -> Result<Arc<AtomicBool>, Failure>,
) -> Result<Report, Failure> {
    let computer = Computer::on_slice(args.backend, config, args.sms)?;
    log::info!("computing on {computer}");
    let realtime = Realtime::start(&config.realtime, computer.name() == "cuda")?;
    let clock: &'static MonotonicClock = &MonotonicClock;
    let Input {
        cameras: mut source,
        mask,
        what,
    } = input(args, config, clock)?;
    let shape = source.shape();
    if let Some((size, _)) = shape.stereo {
        config.check_size(size).map_err(Failure::config)?;
    }
    let models = Models {
        logos: match &config.logo.templates {
            Some(path) => Some(Arc::new(Templates::read(path)?)),
            None => None,
        },
        forest: configured_forest(config)?.map(Arc::new),
    };
    let live = Live::new(shape, rig(config, &source)?)?
        .with_mask(mask)
        .with_models(models)
        .with_background(background(config)?);
    if live.is_idle(config) {
        return Err(Failure::config(
            "foreground.enabled is false and logo.templates is not set: there is nothing to \
             compute of a mono drive",
        ));
    }
    let settings = Settings {
        input: what,
        rate_hz: args.rate,
        warm_up: args.warm_up,
        contend: args.contend,
        ..Settings::of(config)
    };
    let times = Arc::<Mutex<HandedOut>>::default();
    let latency_ns = settings.latency_us.unwrap_or(0) * 1000;
    let last = HandOut::new(MonotonicClock, args.warm_up, latency_ns, &times);
    let mut sink = Measured {
        meter: Meter::new(args.warm_up, config.frame_loop.deadline_ns()),
        out: match config.frame_loop.publish {
            Publish::WhenReady => Out::WhenReady(WhenReady::new(last, clock)),
            Publish::AtLatency => {
                let above = realtime.clone();
                Out::AtLatency(
                    AtLatency::new(last, MonotonicClock, latency_ns)
                        .entering(move || above.enter_above()),
                )
            }
        },
    };
    let competitor = args.contend.then(|| computer.competitor(config));
    let competitor = competitor
        .transpose()
        .map_err(|e| Failure::internal(format!("no thread for --contend: {e}")))?;
    // Until here, while the street is drawn or the drive read, there is nothing to be finished:
    // Ctrl-C ends the program as it ends any.
    let stop = stop_flag()?;
    let watch = Machine::default().watch();
    let monitor = Monitor {
        slow: config.fault.slow.clone(),
        ..Monitor::default()
    };
    let frames = args.counted();
    log::info!(
        "{frames} frames at {} Hz: {:.0} s",
        page::rounded(args.rate),
        (frames + args.warm_up) as f64 / args.rate
    );
    computer.run_live(
        config,
        &realtime,
        &live,
        &mut source,
        &mut sink,
        &monitor,
        &stop,
    )?;
    let stopped_early = stop.load(Ordering::Relaxed);
    let machine = watch.facts();
    drop(competitor);
    let (gpu, sms) = computer.gpu();
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: std::env::var("ROADLOOP_COMMIT").unwrap_or_else(|_| "unknown".into()),
        backend: computer.name().into(),
        gpu,
        sms,
        config_hash: format!("{:016x}", config.hash()),
        optimised: !cfg!(debug_assertions),
        machine,
    };
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let mut report = Report::new(provenance, settings, config, &sink.meter, &times);
    // The last frame may have come before it.
    let due = report.frames + report.misses.without_result;
    report.stopped = stopped_early && due < frames as u64;
    if report.stopped && report.frames == 0 {
        return Err(stopped("no frame that counts has a result yet"));
    }
    if report.stopped {
        let text = format!("stopped after {due} of {frames} frames");
        report.doubts.insert(0, text);
    }
    if report.frames == 0 {
        return Err(Failure::internal(format!(
            "no frame of {frames} has a result: {} were dropped; a lower --rate, a smaller --size \
             or a longer frame_loop.deadline_us",
            report.misses.without_result
        )));
    }
    Ok(report)
}

/// What results are handed out to.
enum Out {
    WhenReady(WhenReady<'static, HandOut<MonotonicClock>, MonotonicClock>),
    AtLatency(AtLatency<HandOut<MonotonicClock>, MonotonicClock>),
}

impl Out {
    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Self::WhenReady(sink) => sink,
            Self::AtLatency(sink) => sink,
        }
    }
}

/// Measures what the loop gives, then hands it out.
struct Measured {
    meter: Meter,
    out: Out,
}

impl Sink for Measured {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.out.sink().begin(announced)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.out.sink().frame(view, result)?;
        self.meter.frame(view, result)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.out.sink().gap(id, gap)?;
        self.meter.gap(id, gap)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.out.sink().finish()
    }
}

impl Computer {
    /// Another load on what computes.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "the GPU's"))]
    fn competitor(&self, config: &Config) -> std::io::Result<Competitor> {
        match self {
            Self::Cpu => Competitor::on_cpu(),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => Competitor::on_gpu(config.clone()),
        }
    }

    /// The GPU, and the multiprocessors that work runs on.
    fn gpu(&self) -> (Option<String>, Option<u32>) {
        match self {
            Self::Cpu => (None, None),
            #[cfg(feature = "cuda")]
            Self::Cuda(context) => (Some(context.device().to_string()), Some(context.sms())),
        }
    }
}
