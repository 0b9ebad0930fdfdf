//! A camera under its ladder, and frame sets of several, on pretended devices and clocks.
use std::{cell::RefCell, rc::Rc, sync::Arc};

use proptest::prelude::*;
use rustix::io::Errno;

use super::{
    fake::{FakeDevice, FakeQueue, Fault},
    lanes::Shared,
    *,
};
use crate::frame::{CameraState, FrameId, Gap, MonoImage};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 40 * MS;

fn config(text: &str) -> CamerasConfig {
    let config: CamerasConfig = toml::from_str(text).unwrap();
    config.validate().unwrap();
    config
}

fn one() -> CamerasConfig {
    config(
        "rate_hz = 25\nstart_timeout_ms = 500\n\
         mono = { device = '/dev/m', width = 6, height = 4, format = 'GREY' }",
    )
}

fn device() -> FakeDevice {
    FakeDevice::new(PixelFormat::Grey, (6, 4), 25.0, 4)
}

/// One camera on a pretended device.
struct Rig {
    device: Rc<RefCell<FakeDevice>>,
    capture: Capture<FakeQueue, FakeQueue>,
    shared: Arc<Shared>,
}

impl Rig {
    fn new(device: FakeDevice) -> Self {
        let config = one();
        let queue = FakeQueue::new(device);
        let shared = Arc::new(Shared::new(&config));
        let camera = config.mono.as_ref().unwrap();
        let clocks = queue.clone();
        Self {
            device: Rc::clone(&queue.device),
            capture: Capture::new(
                Which::Mono,
                &config,
                camera,
                queue,
                clocks,
                Arc::clone(&shared),
            ),
            shared,
        }
    }

    fn streaming() -> Self {
        let mut rig = Self::new(device());
        rig.run(35 * PERIOD);
        rig.drain();
        assert_eq!(rig.status().state, CameraState::Streaming);
        rig
    }

    fn now(&self) -> u64 {
        self.device.borrow().now()
    }

    /// Lets the camera's thread run for so long.
    fn run(&mut self, ns: u64) {
        let end = self.now() + ns;
        for _ in 0..100_000 {
            let now = self.now();
            if now >= end {
                return;
            }
            if let Some(rest) = self.capture.turn() {
                let rest = rest.min(end - now).max(1);
                self.device.borrow_mut().pass(rest);
            }
        }
        panic!("the camera's thread spins");
    }

    fn status(&self) -> CameraStatus {
        self.shared.lock().lanes[2].as_ref().unwrap().status
    }

    /// What has come: stamps, lost frames before, first pixel.
    fn drain(&self) -> Vec<(u64, u64, u8)> {
        let mut state = self.shared.lock();
        let lane = state.lanes[2].as_mut().unwrap();
        let mut all = Vec::new();
        while let Some(picture) = lane.queue.pop_front() {
            let pixel = picture.grey.as_ref().unwrap().get(5, 3);
            all.push((picture.stamp.0, picture.lost, pixel));
            lane.free.push(picture);
        }
        all
    }

    fn inject(&self, fault: Fault) {
        self.device.borrow_mut().inject(fault);
    }

    /// Runs for so long, taking what comes as it comes.
    fn take(&mut self, ns: u64) -> Vec<(u64, u64, u8)> {
        let end = self.now() + ns;
        let mut all = Vec::new();
        while self.now() < end {
            self.run(MS);
            all.extend(self.drain());
        }
        all
    }

    fn calls(&self) -> Vec<&'static str> {
        let log = std::mem::take(&mut self.device.borrow_mut().log);
        log.into_iter()
            .filter(|c| ["open", "close", "start", "stop"].contains(c))
            .collect()
    }

    fn lawful(&self) {
        let violations = &self.device.borrow().violations;
        assert!(violations.is_empty(), "{violations:?}");
    }
}

#[test]
fn frames_come_whole_in_order_with_their_stamps() {
    let mut rig = Rig::new(device());
    let start = rig.now();
    let came = rig.take(10 * PERIOD);
    assert_eq!(came.len(), 10);
    for (n, &(stamp, lost, pixel)) in came.iter().enumerate() {
        assert_eq!(stamp, start + (n as u64 + 1) * PERIOD - MS);
        assert_eq!((lost, pixel), (0, n as u8));
    }
    let status = rig.status();
    assert_eq!((status.frames, status.opens), (10, 1));
    assert_eq!(status.period_ns, PERIOD);
    assert_eq!(rig.calls(), ["open", "start"]);
    rig.lawful();
}

#[test]
fn a_frame_that_cannot_be_used_is_counted_by_its_cause_and_the_stream_goes_on() {
    for (fault, count) in [
        (Fault::Damaged, "damaged"),
        (Fault::Short(23), "short"),
        (Fault::Short(0), "short"),
        (Fault::Gap(3), "missed"),
        (Fault::Sequence(1), "disordered"),
        (Fault::Stamp(-(PERIOD as i64)), "backward"),
        (Fault::Stamp(42 * MS as i64), "future"),
        (Fault::Stamp(-1_100 * MS as i64), "stale"),
        (Fault::Call("requeue", Errno::IO), "errors"),
    ] {
        let mut rig = Rig::streaming();
        let before = rig.status();
        rig.calls();
        rig.inject(fault);
        let came = rig.take(10 * PERIOD);
        let after = rig.status();
        for ((name, before), (_, after)) in before.counts().into_iter().zip(after.counts()) {
            let expected = match (name, fault) {
                ("frames", Fault::Gap(_) | Fault::Sequence(_) | Fault::Call(..)) => 10,
                ("frames", _) => 9,
                ("missed", Fault::Gap(n)) => n.into(),
                (name, _) => u64::from(name == count),
            };
            assert_eq!(after - before, expected, "{fault:?}: {name}");
        }
        // What is left out is known to who comes after it.
        let lost: u64 = came.iter().map(|c| c.1).sum();
        let expected = match fault {
            Fault::Gap(n) => n.into(),
            Fault::Sequence(_) | Fault::Call(..) => 0,
            _ => 1,
        };
        assert_eq!(lost, expected, "{fault:?}");
        assert_eq!(rig.calls(), [""; 0], "{fault:?}");
        rig.lawful();
    }
}

#[test]
fn signals_and_false_alarms_are_nothing() {
    for fault in [
        Fault::Call("poll", Errno::INTR),
        Fault::Call("dequeue", Errno::INTR),
        Fault::Call("dequeue", Errno::AGAIN),
        Fault::FalseReady,
    ] {
        let mut rig = Rig::streaming();
        rig.inject(fault);
        let before = rig.status();
        assert_eq!(rig.take(10 * PERIOD).len(), 10, "{fault:?}");
        let after = rig.status();
        let frames = before.frames + 10;
        assert_eq!(after, CameraStatus { frames, ..before });
        rig.lawful();
    }
}

#[test]
fn a_queue_in_error_is_started_anew() {
    for fault in [
        Fault::Error,
        Fault::Call("dequeue", Errno::IO),
        Fault::Call("poll", Errno::NOMEM),
    ] {
        let mut rig = Rig::streaming();
        rig.calls();
        rig.inject(fault);
        let came = rig.take(10 * PERIOD);
        assert!(came.len() >= 8, "{fault:?} {came:?}");
        assert_eq!(rig.calls(), ["stop", "start"], "{fault:?}");
        let status = rig.status();
        assert_eq!((status.restarts, status.errors), (1, 1));
        assert_eq!(status.state, CameraState::Streaming);
        rig.lawful();
    }
}

#[test]
fn what_starting_anew_does_not_help_is_opened_anew() {
    for call in ["stop", "start"] {
        let mut rig = Rig::streaming();
        rig.calls();
        rig.inject(Fault::Call(call, Errno::BUSY));
        rig.inject(Fault::Error);
        let came = rig.take(20 * PERIOD);
        assert!(came.len() >= 10, "{call}");
        let calls = rig.calls();
        assert_eq!(
            calls[calls.len() - 3..],
            ["close", "open", "start"],
            "{call}"
        );
        assert_eq!(rig.status().opens, 2);
        rig.lawful();
    }
}

#[test]
fn a_stall_is_noticed_within_three_periods() {
    let mut rig = Rig::streaming();
    rig.calls();
    rig.device.borrow_mut().silent = true;
    let start = rig.now();
    let mut noticed = None;
    while noticed.is_none() {
        assert_eq!(rig.capture.turn(), None);
        let state = rig.status().state;
        noticed = (state == CameraState::Stalled).then(|| rig.now() - start);
        assert!(rig.now() < start + 10 * PERIOD);
    }
    assert_eq!(noticed, Some(3 * PERIOD));
    assert_eq!(rig.calls(), ["stop", "start"]);
    // That does not help: closed and opened, again and again, for ever, and never in a hurry.
    rig.run(60_000 * MS);
    let calls = rig.calls();
    let opens = calls.iter().filter(|c| **c == "open").count();
    assert!((20..=60).contains(&opens), "{opens} in a minute");
    rig.device.borrow_mut().silent = false;
    rig.run(2_600 * MS);
    assert_eq!(rig.status().state, CameraState::Streaming);
    rig.lawful();
}

#[test]
fn an_unplugged_camera_is_back_within_two_seconds() {
    for out_ms in [1, 40, 300, 5_000, 600_000] {
        let mut rig = Rig::streaming();
        rig.device.borrow_mut().unplug();
        rig.run(out_ms * MS);
        if out_ms >= 40 {
            assert_eq!(rig.status().state, CameraState::Lost, "{out_ms} ms");
            assert!(!rig.device.borrow().is_open());
        }
        rig.device.borrow_mut().plug();
        let start = rig.now();
        while rig.status().state != CameraState::Streaming {
            rig.run(MS);
            assert!(
                rig.now() - start < 2_000 * MS,
                "{out_ms} ms: {:?}",
                rig.status()
            );
        }
        rig.drain();
        assert_eq!(rig.take(5 * PERIOD).len(), 5);
        rig.lawful();
    }
}

#[test]
fn a_camera_of_another_size_than_before_is_not_used() {
    let mut rig = Rig::streaming();
    rig.device.borrow_mut().unplug();
    rig.run(100 * MS);
    rig.device.borrow_mut().negotiated.width = 8;
    rig.device.borrow_mut().plug();
    rig.run(5_000 * MS);
    assert_eq!(rig.status().state, CameraState::Lost);
    rig.device.borrow_mut().negotiated.width = 6;
    rig.run(2_000 * MS);
    assert_eq!(rig.status().state, CameraState::Streaming);
    rig.lawful();
}

#[test]
fn buffers_that_cannot_be_given_back_are_not_lost() {
    let mut rig = Rig::streaming();
    for _ in 0..2 {
        rig.inject(Fault::Call("requeue", Errno::IO));
    }
    rig.calls();
    assert_eq!(rig.take(20 * PERIOD).len(), 20);
    assert_eq!(rig.calls(), [""; 0]);
    // All of them: only starting anew gives them back.
    for _ in 0..10 {
        rig.inject(Fault::Call("requeue", Errno::IO));
    }
    rig.take(20 * PERIOD);
    assert_eq!(rig.calls()[..2], ["stop", "start"]);
    for _ in 0..40 {
        rig.take(20 * PERIOD);
    }
    assert_eq!(rig.status().state, CameraState::Streaming);
    rig.lawful();
}

#[test]
fn sequence_numbers_wrap() {
    let mut rig = Rig::streaming();
    rig.inject(Fault::Sequence(u32::MAX - 1));
    rig.take(PERIOD);
    let before = rig.status();
    assert_eq!(rig.take(10 * PERIOD).len(), 10);
    let after = rig.status();
    assert_eq!(
        (after.missed, after.disordered),
        (before.missed, before.disordered)
    );
}

#[test]
fn the_oldest_waits_for_nobody() {
    let mut rig = Rig::streaming();
    let before = rig.status().dropped;
    // The loop does not come.
    rig.run(20 * PERIOD);
    let came = rig.drain();
    let dropped = rig.status().dropped - before;
    let newest = came.last().unwrap();
    assert!(came.len() >= 3, "{came:?}");
    assert_eq!(dropped + came.len() as u64, 20);
    assert_eq!(came.iter().map(|c| c.1).sum::<u64>(), dropped);
    assert!(rig.now() - newest.0 <= PERIOD + MS);
}

#[test]
fn another_clock_is_brought_over() {
    let mut device = device();
    device.stamp_offset = 3_600_000_000_000;
    let mut rig = Rig::new(device);
    let start = rig.now();
    let came = rig.take(3 * PERIOD + 2 * MS);
    assert_eq!(came[0].0, start + PERIOD - MS);
    assert_eq!(rig.status().clock, Some(ClockKind::Boottime));
    assert_eq!(rig.status().offset_ns, -3_600_000_000_000);
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let errno = prop::sample::select(vec![
        Errno::IO,
        Errno::INTR,
        Errno::AGAIN,
        Errno::NODEV,
        Errno::INVAL,
        Errno::BUSY,
        Errno::NOMEM,
    ]);
    let call = prop::sample::select(vec!["open", "start", "stop", "poll", "dequeue", "requeue"]);
    prop_oneof![
        (call, errno).prop_map(|(call, errno)| Fault::Call(call, errno)),
        Just(Fault::Damaged),
        (0usize..30).prop_map(Fault::Short),
        (0u32..1000).prop_map(Fault::Gap),
        any::<u32>().prop_map(Fault::Sequence),
        (-3_000_000_000i64..3_000_000_000).prop_map(Fault::Stamp),
        Just(Fault::Error),
        Just(Fault::FalseReady),
    ]
}

proptest! {
    /// Whatever goes wrong, in whatever order: the protocol is kept, stamps only increase, and once
    /// it is over frames come again.
    #[test]
    fn any_faults_are_survived_lawfully(
        faults in prop::collection::vec((any_fault(), 0u64..500, 0u8..8), 0..30),
    ) {
        let mut rig = Rig::new(device());
        let mut came = Vec::new();
        for (fault, wait_ms, plug) in faults {
            match plug {
                0 => rig.device.borrow_mut().unplug(),
                1 => rig.device.borrow_mut().silent = true,
                2 => rig.device.borrow_mut().silent = false,
                _ => rig.device.borrow_mut().plug(),
            }
            rig.inject(fault);
            came.extend(rig.take(wait_ms * MS));
        }
        rig.device.borrow_mut().plug();
        rig.device.borrow_mut().silent = false;
        // Faults that are still to come are used up by trying.
        for _ in 0..60 {
            came.extend(rig.take(1_000 * MS));
        }
        let before = rig.status().frames;
        came.extend(rig.take(1_000 * MS));
        prop_assert!(rig.status().frames >= before + 20, "{:?}", rig.status());
        prop_assert!(came.windows(2).all(|w| w[0].0 < w[1].0));
        rig.lawful();
    }
}

// --- frame sets of several cameras ---------------------------------------------------------

/// The clock of a test.
#[derive(Clone, Debug)]
struct TestClock(Rc<std::cell::Cell<u64>>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.get())
    }

    fn sleep_until(&self, until: Timestamp) {
        self.0.set(self.0.get().max(until.0));
    }
}

const THREE: &str = "
    rate_hz = 25
    left = { device = '/dev/l', width = 4, height = 3, format = 'RGGB8', colour = true }
    right = { device = '/dev/r', width = 4, height = 3, format = 'GREY' }
    mono = { device = '/dev/m', width = 2, height = 2, format = 'GREY' }
";

struct Loop {
    cameras: Cameras<TestClock>,
    clock: TestClock,
}

impl Loop {
    fn new(text: &str) -> Self {
        let config = config(text);
        let clock = TestClock(Rc::new(std::cell::Cell::new(1_000 * MS)));
        let shared = Arc::new(Shared::new(&config));
        let cameras = Cameras::on(&config, None, shared, clock.clone());
        let this = Self { cameras, clock };
        for which in Which::ALL {
            this.state(which, CameraState::Streaming);
        }
        this
    }

    fn state(&self, which: Which, state: CameraState) {
        self.cameras.shared.update(which, |s| s.state = state);
    }

    fn pass(&self, ns: u64) {
        self.clock.0.set(self.clock.0.get() + ns);
    }

    /// A picture comes now, taken then, its pixels all of this value.
    fn come(&self, which: Which, stamp: u64, value: u8) {
        let shared = &self.cameras.shared;
        let mut picture = shared.take(which).unwrap();
        picture.stamp = Timestamp(stamp);
        picture.arrived = self.clock.now();
        picture.grey.iter_mut().for_each(|g| g.fill(value));
        picture.rgb.iter_mut().for_each(|g| g.fill([value; 3]));
        shared.pass(which, picture);
    }

    /// All three deliver the frame of an instant.
    fn instant(&self, n: u64) {
        let stamp = 1_000 * MS + n * PERIOD;
        self.clock.0.set(stamp + 5 * MS);
        self.come(Which::Left, stamp, n as u8);
        self.come(Which::Right, stamp + 1000, n as u8 + 100);
        self.come(Which::Mono, stamp + 2000, n as u8 + 200);
    }

    fn next(&mut self) -> Next {
        self.cameras.next(0)
    }

    fn frame(&mut self) -> Box<FrameSet> {
        match self.next() {
            Next::Frame(set) => set,
            other => panic!("{other:?}"),
        }
    }

    fn gap(&mut self) -> (FrameId, Gap) {
        match self.next() {
            Next::Gap(id, gap) => (id, gap),
            other => panic!("{other:?}"),
        }
    }

    fn nothing(&mut self) {
        let next = self.next();
        assert!(matches!(next, Next::Nothing), "{next:?}");
    }
}

fn shown(set: &FrameSet) -> [u8; 4] {
    let stereo = set.stereo.as_ref().unwrap();
    let mono = match &set.mono.as_ref().unwrap().image {
        MonoImage::Grey8(image) => image.get(1, 1),
        other => panic!("{other:?}"),
    };
    [
        stereo.left.get(3, 2),
        stereo.left_rgb.as_ref().unwrap().get(3, 2)[1],
        stereo.right.as_ref().unwrap().get(3, 2),
        mono,
    ]
}

#[test]
fn sets_hold_what_belongs_together() {
    let mut l = Loop::new(THREE);
    l.nothing();
    for n in 1..20 {
        l.instant(n);
        let set = l.frame();
        assert_eq!(set.id.index, n as usize - 1);
        assert_eq!(set.id.timestamp, Timestamp(1_000 * MS + n * PERIOD));
        assert_eq!(
            shown(&set),
            [n as u8, n as u8, n as u8 + 100, n as u8 + 200]
        );
        assert_eq!(
            (set.stereo_gap, set.mono.as_ref().unwrap().gap),
            (None, None)
        );
        let mono = set.mono.as_ref().unwrap().timestamp;
        assert_eq!(mono.0, set.id.timestamp.0 + 2000);
        l.cameras.recycle(set);
        l.nothing();
    }
    let pairs = l.cameras.status().pairs;
    assert_eq!((pairs.whole, pairs.degraded, pairs.gaps), (19, 0, 0));
    assert_eq!(
        l.cameras.status().to_string(),
        "left streaming, right streaming, mono streaming"
    );
}

#[test]
fn a_lost_stereo_camera_leaves_the_mono_camera_and_comes_back() {
    for lost in [Which::Left, Which::Right] {
        let mut l = Loop::new(THREE);
        l.instant(1);
        let set = l.frame();
        l.cameras.recycle(set);
        l.state(lost, CameraState::Lost);
        for n in 2..6 {
            let stamp = 1_000 * MS + n * PERIOD;
            l.clock.0.set(stamp + 5 * MS);
            let other = if lost == Which::Left {
                Which::Right
            } else {
                Which::Left
            };
            l.come(other, stamp, 9);
            l.come(Which::Mono, stamp, n as u8);
            let set = l.frame();
            assert_eq!(set.stereo_gap, Some(Gap::CameraLost));
            assert_eq!(set.id.index, n as usize - 1);
            assert_eq!(shown(&set)[3], n as u8);
            assert!(set.mono.as_ref().unwrap().usable().is_some());
            l.cameras.recycle(set);
        }
        l.state(lost, CameraState::Streaming);
        l.instant(6);
        let set = l.frame();
        assert_eq!((set.stereo_gap, set.id.index), (None, 5));
        assert_eq!(l.cameras.status().pairs.degraded, 4);
    }
}

#[test]
fn without_any_stereo_the_mono_camera_sets_the_pace() {
    let mut l = Loop::new(THREE);
    l.state(Which::Left, CameraState::Lost);
    l.state(Which::Right, CameraState::Stalled);
    for n in 1..4 {
        l.clock.0.set(1_000 * MS + n * PERIOD + MS);
        l.come(Which::Mono, 1_000 * MS + n * PERIOD, n as u8);
        let set = l.frame();
        assert_eq!(set.stereo_gap, Some(Gap::CameraLost));
        l.cameras.recycle(set);
    }
    l.nothing();
}

#[test]
fn a_picture_without_partner_waits_a_period_and_no_longer() {
    let mut l = Loop::new(THREE);
    let stamp = l.clock.0.get();
    l.come(Which::Left, stamp, 1);
    l.come(Which::Mono, stamp, 1);
    l.pass(PERIOD - 1);
    l.nothing();
    l.pass(1);
    let set = l.frame();
    assert_eq!(set.stereo_gap, Some(Gap::Unsynchronised));
    let status = l.cameras.status();
    assert_eq!(status.of(Which::Left).unwrap().unpaired, 1);
    // The right one comes too late and stands for nothing.
    l.come(Which::Right, stamp, 1);
    l.pass(PERIOD);
    l.nothing();
    assert_eq!(l.cameras.status().of(Which::Right).unwrap().unpaired, 1);
}

#[test]
fn frames_that_were_lost_are_gaps_in_their_place() {
    let mut l = Loop::new(THREE);
    l.instant(1);
    let set = l.frame();
    l.cameras.recycle(set);
    l.cameras.shared.lose(Which::Left, 2);
    l.instant(4);
    for n in 2..4 {
        let (id, gap) = l.gap();
        assert_eq!((id.index, gap), (n as usize - 1, Gap::Dropped));
        assert_eq!(id.timestamp, Timestamp(1_000 * MS + n * PERIOD));
    }
    assert_eq!(l.frame().id.index, 3);
    assert_eq!(l.cameras.status().pairs.gaps, 2);
}

#[test]
fn silence_is_named_frame_by_frame_and_not_twice() {
    let mut l = Loop::new(THREE);
    l.instant(1);
    let set = l.frame();
    l.cameras.recycle(set);
    l.pass(3 * PERIOD - 6 * MS);
    l.nothing();
    for which in Which::ALL {
        l.state(which, CameraState::Lost);
    }
    l.pass(6 * MS);
    let (id, gap) = l.gap();
    assert_eq!((id.index, gap), (1, Gap::CameraLost));
    assert_eq!(id.timestamp, Timestamp(1_000 * MS + 2 * PERIOD));
    l.nothing();
    l.pass(PERIOD);
    let (id, _) = l.gap();
    assert_eq!(
        (id.index, id.timestamp),
        (2, Timestamp(1_000 * MS + 3 * PERIOD))
    );
    l.nothing();
    // The driver counted on: two of its four were named already.
    for which in Which::ALL {
        l.state(which, CameraState::Streaming);
    }
    l.cameras.shared.lose(Which::Left, 4);
    l.instant(6);
    assert_eq!(l.gap().1, Gap::Dropped);
    assert_eq!(l.gap().1, Gap::Dropped);
    let set = l.frame();
    assert_eq!(set.id.index, 5);
    assert_eq!(set.id.timestamp, Timestamp(1_000 * MS + 6 * PERIOD));
}

#[test]
fn a_mono_picture_that_is_not_there_is_named() {
    let mut l = Loop::new(THREE);
    let stamp = l.clock.0.get();
    l.come(Which::Left, stamp, 1);
    l.come(Which::Right, stamp, 1);
    l.nothing();
    l.pass(PERIOD);
    let set = l.frame();
    assert_eq!(set.mono.as_ref().unwrap().gap, Some(Gap::Unsynchronised));
    l.cameras.recycle(set);
    l.state(Which::Mono, CameraState::Lost);
    l.come(Which::Left, stamp + PERIOD, 1);
    l.come(Which::Right, stamp + PERIOD, 1);
    let set = l.frame();
    assert_eq!(set.mono.as_ref().unwrap().gap, Some(Gap::CameraLost));
    assert_eq!(set.stereo_gap, None);
    assert_eq!(l.cameras.status().pairs.without_mono, 2);
}

#[test]
fn a_loop_that_keeps_all_sets_or_falls_behind_hears_of_dropped_frames() {
    let mut l = Loop::new(THREE);
    let mut kept = Vec::new();
    let mut gaps = 0;
    for n in 1..12 {
        l.instant(n);
        match l.next() {
            Next::Frame(set) => kept.push(set),
            Next::Gap(_, gap) => {
                assert_eq!(gap, Gap::Dropped);
                gaps += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((kept.len(), gaps), (5, 6));
    kept.into_iter().for_each(|set| l.cameras.recycle(set));
    // One of another shape, such as the loop begins with, is not taken.
    l.cameras.recycle(Box::default());
    l.cameras.skip_before(Timestamp(1_000 * MS + 13 * PERIOD));
    l.instant(12);
    assert_eq!(l.gap().1, Gap::Dropped);
    l.instant(13);
    l.frame();
}

#[test]
fn a_mono_camera_alone() {
    let mut l = Loop::new(
        "rate_hz = 25\nmono = { device = '/dev/m', width = 2, height = 2, format = 'YUYV' }",
    );
    assert_eq!(l.cameras.shape().stereo, None);
    assert_eq!(l.cameras.shape().mono.unwrap().0, PixelKind::Rgb8);
    l.come(Which::Mono, 900 * MS, 7);
    let set = l.frame();
    assert!(set.stereo.is_none());
    assert_eq!(set.stereo_gap, None);
    let MonoImage::Rgb8(image) = &set.mono.as_ref().unwrap().image else {
        panic!("grey");
    };
    assert_eq!(image.get(1, 1), [7; 3]);
    assert_eq!(l.cameras.cameras().mono, Some(CameraState::Streaming));
}

#[test]
fn no_cameras_are_no_source() {
    let error = Cameras::open(&CamerasConfig::default(), None).unwrap_err();
    assert!(!error.to_string().is_empty());
}

/// A device that can't be opened.
struct Refusing(QueueError);

impl Queue for Refusing {
    fn open(&mut self) -> Result<Negotiated, QueueError> {
        Err(self.0.clone())
    }

    fn close(&mut self) {}

    fn start(&mut self) -> Result<(), QueueError> {
        Err(self.0.clone())
    }

    fn stop(&mut self) -> Result<(), QueueError> {
        Err(self.0.clone())
    }

    fn poll(&mut self, _wait_ns: u64) -> Result<Ready, QueueError> {
        Err(self.0.clone())
    }

    fn dequeue(&mut self) -> Result<Buffer, QueueError> {
        Err(self.0.clone())
    }

    fn bytes(&self, _buffer: &Buffer) -> &[u8] {
        &[]
    }

    fn requeue(&mut self, _index: usize) -> Result<(), QueueError> {
        Err(self.0.clone())
    }
}

#[test]
fn errors_name_the_camera_its_device_and_what_that_leads_to() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let (node, link) = (dir.join("video3"), dir.join("by-path-1"));
    std::fs::write(&node, "").unwrap();
    std::os::unix::fs::symlink(&node, &link).unwrap();
    let (node, link) = (node.display(), link.display());
    let config = config(&format!(
        "left = {{ device = '{link}', width = 6, height = 4, format = 'GREY' }}
         right = {{ device = '/dev/none-such', width = 6, height = 4, format = 'GREY' }}"
    ));
    let start = |broken: Which, error: QueueError| {
        let refusing = |which, _: &CameraConfig| {
            let (call, errno) = ("open", Errno::NOENT);
            Refusing(match which == broken {
                true => error.clone(),
                false => QueueError::Os { call, errno },
            })
        };
        Cameras::start(&config, None, refusing)
            .unwrap_err()
            .to_string()
    };
    let (call, errno) = ("VIDIOC_S_FMT", Errno::BUSY);
    let busy = QueueError::Os { call, errno };
    assert_eq!(
        start(Which::Left, busy),
        format!(
            "no camera can be opened; left ({link}, which is {node}): VIDIOC_S_FMT: Device or \
             resource busy (os error 16)"
        )
    );
    let unusable = QueueError::Unusable("format Y16 is not offered; there are GREY".into());
    assert_eq!(
        start(Which::Right, unusable),
        "camera right (/dev/none-such, where nothing is): format Y16 is not offered; there are GREY"
    );
}

#[test]
fn the_last_error_has_its_time() {
    let mut rig = Rig::streaming();
    assert_eq!(rig.status().last_error, None);
    rig.inject(Fault::Damaged);
    rig.run(2 * PERIOD);
    let status = rig.status();
    let at = status.last_error.expect("a time");
    assert!(rig.now() - at.0 <= 2 * PERIOD, "{at}");
    assert_eq!(status.error_age_ns(at.plus_ns(5)), Some(5));
    let troubles = status.troubles(at.plus_ns(3_000_000_000));
    assert!(
        troubles.ends_with("damaged 1, last error 3 s ago"),
        "{troubles}"
    );
    rig.lawful();
}
