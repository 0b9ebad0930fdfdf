//! Once warm, neither the cameras' threads nor the loop's allocate for a frame.
#[path = "common/heap.rs"]
mod heap;

use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};
use std::time::Duration;

use heap::allocations;
use roadloop::{
    frame_loop::{Clock, MonotonicClock},
    source::{
        Next, Source,
        cameras::{
            Buffer, Cameras, CamerasConfig, Negotiated, PixelFormat, Queue, QueueError, Ready,
            StampFlag,
        },
    },
};

/// The trigger of all cameras: number and time of the frame that was last taken.
type Trigger = Arc<(Mutex<(u32, u64)>, Condvar)>;

/// A camera that delivers at once when it is triggered, and notes what its thread allocates.
struct Triggered {
    trigger: Trigger,
    seen: u32,
    format: PixelFormat,
    bytes: Vec<u8>,
    allocated: Arc<AtomicU64>,
}

const WIDTH: usize = 64;
const HEIGHT: usize = 48;

impl Queue for Triggered {
    fn open(&mut self) -> Result<Negotiated, QueueError> {
        Ok(Negotiated {
            format: self.format,
            width: WIDTH,
            height: HEIGHT,
            stride: self.format.row_bytes(WIDTH),
            rate_hz: Some(1.0),
            buffers: 2,
            device: "triggered".into(),
            differences: Vec::new(),
        })
    }

    fn close(&mut self) {}

    fn start(&mut self) -> Result<(), QueueError> {
        Ok(())
    }

    fn stop(&mut self) -> Result<(), QueueError> {
        Ok(())
    }

    fn poll(&mut self, wait_ns: u64) -> Result<Ready, QueueError> {
        let (state, changed) = &*self.trigger;
        let wait = Duration::from_nanos(wait_ns);
        let (state, _) = changed
            .wait_timeout_while(state.lock().unwrap(), wait, |s| s.0 == self.seen)
            .unwrap();
        self.allocated.store(allocations(), SeqCst);
        Ok(if state.0 == self.seen {
            Ready::Nothing
        } else {
            Ready::Frame
        })
    }

    fn dequeue(&mut self) -> Result<Buffer, QueueError> {
        let (number, stamp_ns) = *self.trigger.0.lock().unwrap();
        self.seen = number;
        Ok(Buffer {
            index: 0,
            sequence: number,
            stamp_ns,
            flag: StampFlag::Monotonic,
            bytes_used: self.bytes.len(),
            ..Buffer::default()
        })
    }

    fn bytes(&self, _buffer: &Buffer) -> &[u8] {
        &self.bytes
    }

    fn requeue(&mut self, _index: usize) -> Result<(), QueueError> {
        Ok(())
    }
}

#[test]
fn nothing_is_allocated_per_frame() {
    let config: CamerasConfig = toml::from_str(
        "rate_hz = 1
         left = { device = '/dev/l', width = 64, height = 48, format = 'RGGB10', colour = true }
         right = { device = '/dev/r', width = 64, height = 48, format = 'NV12' }
         mono = { device = '/dev/m', width = 64, height = 48, format = 'YUYV' }",
    )
    .unwrap();
    config.validate().unwrap();
    let trigger = Trigger::default();
    let mut counters = Vec::new();
    let mut cameras = Cameras::start(&config, None, |_, camera| {
        let allocated = Arc::new(AtomicU64::new(0));
        counters.push(Arc::clone(&allocated));
        Triggered {
            trigger: Arc::clone(&trigger),
            seen: 0,
            format: camera.format,
            bytes: vec![
                77;
                camera
                    .format
                    .picture_bytes(WIDTH, HEIGHT, camera.format.row_bytes(WIDTH))
            ],
            allocated,
        }
    })
    .unwrap();
    let mut counts = Vec::with_capacity(200);
    for number in 1..=200 {
        *trigger.0.lock().unwrap() = (number, MonotonicClock.now().0);
        trigger.1.notify_all();
        let set = match cameras.next(10_000_000_000) {
            Next::Frame(set) => set,
            other => panic!("{other:?} {:#?}", cameras.status()),
        };
        assert_eq!(set.id.index, number as usize - 1);
        assert!(set.stereo_gap.is_none());
        cameras.recycle(set);
        let threads: u64 = counters.iter().map(|c| c.load(SeqCst)).sum();
        counts.push((allocations(), threads));
    }
    let warm = 20;
    let (ours, theirs) = (
        counts[199].0 - counts[warm].0,
        counts[199].1 - counts[warm].1,
    );
    assert_eq!((ours, theirs), (0, 0));
}
