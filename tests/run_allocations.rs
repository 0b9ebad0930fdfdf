//! Once it is ready, a live loop with everything around it allocates nothing per frame. What the
//! release profile shows counts (`make release-tests`); it holds in the others too.
#[path = "common/heap.rs"]
mod heap;

use std::{os::unix::net::UnixDatagram, sync::atomic::AtomicBool, time::Duration};

use roadloop::{
    config::Config,
    frame::{FrameId, FrameResult, Gap},
    frame_loop::{Monitor, MonotonicClock},
    live::Live,
    service::{Lifeline, Notifier, Patience},
    sink::{
        Sink, SinkError, View, at_latency::AtLatency, counters::Counters, fan_out::FanOut,
        socket::ResultSocket,
    },
    source::{FaultConfig, FaultInjector, LiveSource as _, SyntheticCameras, SyntheticConfig},
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

const FRAMES: usize = 40;
const WARM_UP: usize = 8;

/// Notes the loop thread's allocations so far.
struct Counts<'a>(&'a mut Vec<u64>);

impl Sink for Counts<'_> {
    fn frame(&mut self, _: View<'_>, _: &FrameResult) -> Result<(), SinkError> {
        self.0.push(heap::allocations());
        Ok(())
    }

    fn gap(&mut self, _: FrameId, _: Gap) -> Result<(), SinkError> {
        self.0.push(heap::allocations());
        Ok(())
    }
}

#[test]
fn a_live_loop_allocates_nothing_once_ready() {
    let mut config = Config::default();
    config.stereo.disparities = 64;
    config.foreground.enabled = Some(true);
    let clock = &MonotonicClock;
    let street = SyntheticConfig {
        width: 96,
        height: 64,
        frames: 4,
        ..SyntheticConfig::default()
    };
    let cameras = SyntheticCameras::new(&street, 100.0, clock).unwrap();
    // Gaps take their way, too.
    let faults = FaultConfig {
        drop_every: 5,
        unsynchronised_every: 3,
        end_after: FRAMES,
        ..FaultConfig::default()
    };
    let live = Live::new(cameras.shape(), cameras.rig()).unwrap();
    let (here, _there) = UnixDatagram::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let notifier = Notifier::to(here, Some(Duration::from_millis(40)));
    let patience = Patience {
        first_ns: u64::MAX,
        next_ns: u64::MAX,
    };
    let lifeline = Lifeline::new(&notifier, clock, patience);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.sock");
    let socket = ResultSocket::bind(&path).unwrap();
    let kind = SocketType::SEQPACKET;
    let reader =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&reader, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let (counters, monitor) = (Counters::default(), Monitor::default());
    let mut counts = Vec::with_capacity(1 << 16);
    let mut sinks = FanOut::new()
        .with("counters", &counters)
        .with("socket", AtLatency::new(socket, MonotonicClock, 20_000_000))
        .with("service manager", lifeline.sink())
        .with("counts", Counts(&mut counts));
    let mut source = lifeline.source(FaultInjector::new(cameras, &faults, clock));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    let stop = AtomicBool::new(false);
    pool.install(|| live.run(&config, clock, &mut source, &mut sinks, &monitor, &stop))
        .unwrap();
    drop(sinks);
    assert!(counts.len() >= FRAMES, "{}", counts.len());
    assert!(lifeline.is_ready());
    let spent: Vec<u64> = counts.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(spent[WARM_UP..].iter().all(|&n| n == 0), "{spent:?}");
}
