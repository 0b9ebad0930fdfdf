//! Live cameras: V4L2 devices to frame sets.
//!
//! A thread for each camera ([`Queue`] under a [`Recovery`] ladder) converts what the driver
//! writes and hands it over; [`Cameras`], which is the loop's [`Source`], pairs it by time
//! ([`pairing`]). Pictures go round: nothing is allocated per frame. Whatever a camera does, the
//! loop goes on with what is left, and each gap has a name:
//!
//! | what is missing | how the loop hears of it |
//! |---|---|
//! | a picture of the stereo camera, the mono camera goes on | [`FrameSet::stereo_gap`] |
//! | the mono picture of a stereo frame | [`MonoFrame::gap`](crate::frame::MonoFrame::gap) |
//! | everything, for an instant | [`Next::Gap`] |
//! | frames that driver or program lost | [`Next::Gap`], [`Gap::Dropped`](crate::frame::Gap::Dropped) |
//!
//! [`Status`] counts them by cause and camera.
mod capture;
mod config;
pub mod fake;
mod format;
mod lanes;
pub mod listing;
mod name;
pub mod pairing;
mod pixels;
mod queue;
mod recovery;
mod sets;
mod stamps;
mod status;
#[cfg(test)]
mod tests;
#[cfg(feature = "v4l2")]
pub mod v4l2;

pub use config::{CameraConfig, CamerasConfig, ClockChoice, MemoryChoice, Which};
pub use format::{Bayer, Packing, PixelFormat};
pub use name::CameraName;
pub use pixels::{Converter, Short};
pub use queue::{Buffer, Negotiated, Queue, QueueError, Ready, StampFlag};
pub use recovery::{HEALTHY, Recovery, Step};
pub use stamps::{ClockKind, Clocks, StampFault, Stamps, SystemClocks};
pub use status::{CameraStatus, PairStatus, Status};

use std::{
    sync::{Arc, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use super::{LiveShape, LiveSource, Next, Source};
use crate::{
    frame::{CameraStates, FrameSet, PixelKind, Timestamp},
    frame_loop::{Clock, MonotonicClock},
};
use capture::Capture;
use lanes::Shared;
use pairing::Rules;
use sets::{Made, Sets};

/// How long the end waits for a driver.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the cameras can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CamerasError {
    /// This build has no cameras.
    #[error("this build has no cameras (feature \"v4l2\")")]
    NotBuilt,
    /// The configuration names none.
    #[error("no cameras: expected [cameras.left] and [cameras.right], or [cameras.mono]")]
    NoCameras,
    /// A camera is there, but can't be used as configured.
    #[error("camera {camera}: {error}")]
    Unusable {
        /// Which.
        camera: CameraName,
        /// Why.
        error: QueueError,
    },
    /// None of the cameras can be opened.
    #[error("no camera can be opened; {camera}: {error}")]
    NoneOpens {
        /// The first of them.
        camera: CameraName,
        /// Why.
        error: QueueError,
    },
    /// The system gives no thread.
    #[error("no thread for a camera: {0}")]
    Thread(std::io::Error),
}

/// The capture devices of this machine, by node.
///
/// # Errors
/// [`CamerasError::NotBuilt`].
pub fn list() -> Result<Vec<listing::Listed>, CamerasError> {
    #[cfg(feature = "v4l2")]
    return Ok(v4l2::list());
    #[cfg(not(feature = "v4l2"))]
    Err(CamerasError::NotBuilt)
}

/// Live cameras as a source. Frame sets are stamped on the monotonic clock.
#[derive(Debug)]
pub struct Cameras<C = MonotonicClock> {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    clock: C,
    sets: Sets,
    shape: LiveShape,
}

/// How the cameras are doing, to be asked from any thread.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Shared>);

impl Monitor {
    /// How they are doing now.
    pub fn status(&self) -> Status {
        status(&self.0)
    }
}

fn status(shared: &Shared) -> Status {
    let state = shared.lock();
    Status {
        cameras: std::array::from_fn(|at| state.lanes[at].as_ref().map(|lane| lane.status)),
        pairs: state.pairs,
    }
}

impl Cameras {
    /// Opens the cameras and starts a thread for each. `mono_tolerance_ns` is how far in time from
    /// a stereo frame its mono picture may be; half a period without.
    ///
    /// A camera that can't be opened now is tried again and again, as long as one can be.
    ///
    /// # Errors
    /// When there is no camera, none can be opened, or one can't be used as configured.
    #[cfg(feature = "v4l2")]
    pub fn open(
        config: &CamerasConfig,
        mono_tolerance_ns: Option<u64>,
    ) -> Result<Self, CamerasError> {
        Self::start(config, mono_tolerance_ns, |_, camera| {
            v4l2::Device::new(config, camera)
        })
    }

    /// This build has none.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "v4l2"))]
    pub fn open(
        _config: &CamerasConfig,
        _mono_tolerance_ns: Option<u64>,
    ) -> Result<Self, CamerasError> {
        Err(CamerasError::NotBuilt)
    }

    /// As [`Cameras::open`], with other queues than those of V4L2.
    ///
    /// # Errors
    /// As [`Cameras::open`].
    pub fn start<Q: Queue + Send + 'static>(
        config: &CamerasConfig,
        mono_tolerance_ns: Option<u64>,
        mut queue: impl FnMut(Which, &CameraConfig) -> Q,
    ) -> Result<Self, CamerasError> {
        if config.is_empty() {
            return Err(CamerasError::NoCameras);
        }
        let shared = Arc::new(Shared::new(config));
        let mut first: Option<(CameraName, QueueError)> = None;
        let mut opened = 0;
        // Before any thread: what can't be used is said at once.
        let mut captures = Vec::new();
        for (which, camera) in config.iter() {
            let shared = Arc::clone(&shared);
            let queue = queue(which, camera);
            let mut capture = Capture::new(which, config, camera, queue, SystemClocks, shared);
            match capture.open() {
                Ok(()) => opened += 1,
                Err(error @ QueueError::Unusable(_)) => {
                    let camera = CameraName::of(which, &camera.device);
                    return Err(CamerasError::Unusable { camera, error });
                }
                Err(error) => {
                    first.get_or_insert_with(|| (CameraName::of(which, &camera.device), error));
                }
            }
            captures.push((which, capture));
        }
        if opened == 0
            && let Some((camera, error)) = first
        {
            return Err(CamerasError::NoneOpens { camera, error });
        }
        let mut cameras = Self::on(config, mono_tolerance_ns, shared, MonotonicClock);
        for (which, capture) in captures {
            cameras.spawn(which, capture)?;
        }
        Ok(cameras)
    }

    fn spawn<Q: Queue + Send + 'static>(
        &mut self,
        which: Which,
        mut capture: Capture<Q, SystemClocks>,
    ) -> Result<(), CamerasError> {
        let shared = Arc::clone(&self.shared);
        shared.lock().alive += 1;
        let thread = std::thread::Builder::new()
            .name(format!("camera-{which}"))
            .spawn(move || {
                let _ward = Ward(&shared);
                while !shared.is_over() {
                    if let Some(rest_ns) = capture.turn() {
                        shared.sleep(rest_ns);
                    }
                }
            });
        match thread {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.shared.lock().alive -= 1;
                Err(CamerasError::Thread(error))
            }
        }
    }
}

impl<C: Clock> Cameras<C> {
    fn on(
        config: &CamerasConfig,
        mono_tolerance_ns: Option<u64>,
        shared: Arc<Shared>,
        clock: C,
    ) -> Self {
        let stereo = config.left.as_ref();
        let mono = config.mono.as_ref();
        let shape = LiveShape {
            stereo: stereo.map(|camera| (camera.size(), camera.in_colour(Which::Left))),
            mono: mono.map(|camera| {
                let colour = camera.in_colour(Which::Mono);
                let kind = if colour {
                    PixelKind::Rgb8
                } else {
                    PixelKind::Grey8
                };
                (kind, camera.size())
            }),
        };
        let rules = Rules {
            tolerance_ns: config.tolerance_us.saturating_mul(1000),
            mono_tolerance_ns: mono_tolerance_ns.unwrap_or(config.period_ns() / 2),
            wait_ns: config.pair_wait_ns(),
        };
        Self {
            shared,
            threads: Vec::new(),
            sets: Sets::new(rules, config.stall_periods, shape, clock.now()),
            clock,
            shape,
        }
    }

    /// How the cameras are doing.
    pub fn status(&self) -> Status {
        status(&self.shared)
    }

    /// The same for another thread.
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.shared))
    }
}

impl<C: Clock> Source for Cameras<C> {
    fn next(&mut self, wait_ns: u64) -> Next {
        let end = self.clock.now().plus_ns(wait_ns);
        let mut state = self.shared.lock();
        loop {
            let now = self.clock.now();
            let until = match self.sets.make(&mut state, now) {
                Made::Next(next) => return next,
                Made::WaitUntil(until) => until.min(end),
            };
            if now >= end {
                return Next::Nothing;
            }
            let wait = Duration::from_nanos(until.since(now).max(1));
            let waited = self.shared.came.wait_timeout(state, wait);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn skip_before(&mut self, stamp: Timestamp) {
        self.sets.skip_before(stamp);
    }

    fn cameras(&self) -> CameraStates {
        let state = self.shared.lock();
        let of = |which: Which| {
            let lane = state.lanes[which as usize].as_ref();
            lane.map(|lane| lane.status.state)
        };
        CameraStates {
            left: of(Which::Left),
            right: of(Which::Right),
            mono: of(Which::Mono),
        }
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.sets.recycle(set);
    }
}

impl<C: Clock> LiveSource for Cameras<C> {
    fn shape(&self) -> LiveShape {
        self.shape
    }
}

impl<C> Drop for Cameras<C> {
    fn drop(&mut self) {
        if !self.shared.close(PATIENCE) {
            log::warn!("a camera's driver takes too long; not waited for");
            return;
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Tells the others when a thread ends: a camera whose thread died is lost.
struct Ward<'a>(&'a Shared);

impl Drop for Ward<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.alive -= 1;
        drop(state);
        self.0.came.notify_all();
    }
}
