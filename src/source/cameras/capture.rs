//! One camera: its queue under its ladder, frame by frame.
use std::{path::PathBuf, sync::Arc};

use super::{
    CameraConfig, CameraName, CamerasConfig, ClockKind, Clocks, Converter, Queue, QueueError,
    Ready, Recovery, StampFault, Stamps, Step, Which,
    lanes::{Picture, Shared},
    queue::{Buffer, Negotiated},
};
use crate::frame::{CameraState, Timestamp};

/// The longest wait: the bound within which the end is noticed.
const WAIT_NS: u64 = 50_000_000;

/// Warnings of one kind in a row, until the camera is healthy again.
const WARNINGS: u32 = 5;

/// Gets a camera's pictures to the loop, whatever the camera does. Between two calls of
/// [`Capture::turn`] it holds no lock and no buffer of the kernel's that it could give back.
pub(super) struct Capture<Q, K> {
    which: Which,
    device: PathBuf,
    queue: Q,
    clocks: K,
    shared: Arc<Shared>,
    recovery: Recovery,
    stamps: Stamps,
    converter: Converter,
    expected: (usize, usize),
    stride: usize,
    picture_bytes: usize,
    buffers: usize,
    sequence: Option<u32>,
    /// Buffers that could not be given back yet, a bit each.
    owed: u32,
    /// The picture that is filled next.
    hand: Option<Box<Picture>>,
    /// Whether it was opened before: a fault is another thing then.
    told: u32,
    differences: Vec<String>,
}

impl<Q: Queue, K: Clocks> Capture<Q, K> {
    pub fn new(
        which: Which,
        config: &CamerasConfig,
        camera: &CameraConfig,
        queue: Q,
        clocks: K,
        shared: Arc<Shared>,
    ) -> Self {
        let period = config.period_ns();
        let max_age = config.max_age_ms.saturating_mul(1_000_000);
        Self {
            which,
            device: camera.device.clone(),
            queue,
            clocks,
            shared,
            recovery: Recovery::new(config),
            stamps: Stamps::new(camera.clock, period, max_age),
            converter: Converter::new(camera.format, camera.size(), camera.shift()),
            expected: (camera.width, camera.height),
            stride: 0,
            picture_bytes: 0,
            buffers: 0,
            sequence: None,
            owed: 0,
            hand: None,
            told: 0,
            differences: Vec::new(),
        }
    }

    /// Its name, for texts; looks up the device.
    fn name(&self) -> CameraName {
        CameraName::of(self.which, &self.device)
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.clocks.read(ClockKind::Monotonic).unwrap_or(0))
    }

    fn set_state(&self, state: CameraState) {
        self.shared.update(self.which, |s| s.state = state);
    }

    /// Notes an error and says it, unless it has been said too often.
    fn warn(&mut self, text: &dyn std::fmt::Display) {
        self.told = self.told.saturating_add(1);
        let now = self.now();
        self.shared.update(self.which, |s| s.last_error = Some(now));
        let level = if self.told <= WARNINGS {
            log::Level::Warn
        } else {
            log::Level::Debug
        };
        if log::log_enabled!(level) {
            log::log!(level, "camera {}: {text}", self.name());
        }
    }

    /// Does what is to be done next, waiting a bounded while for a frame at most. Gives how long
    /// nothing is to be done, ns.
    pub fn turn(&mut self) -> Option<u64> {
        let now = self.now();
        match self.recovery.step(now) {
            Step::Open => {
                // Said by `open`.
                let _ = self.open();
            }
            Step::Wait(until) => self.wait(until.since(now).min(WAIT_NS)),
            Step::Restart => self.restart(),
            Step::Close => {
                self.set_state(CameraState::Lost);
                self.close();
            }
            Step::Rest(until) => return Some(until.since(now).min(WAIT_NS)),
        }
        None
    }

    /// Opens the device and starts it.
    ///
    /// # Errors
    /// Why not; it is tried again later.
    pub fn open(&mut self) -> Result<(), QueueError> {
        let opened = self.queue.open().and_then(|negotiated| {
            let started = self
                .take_over(&negotiated)
                .and_then(|()| self.queue.start());
            started.inspect_err(|_| self.queue.close())?;
            Ok(negotiated)
        });
        let now = self.now();
        match opened {
            Ok(negotiated) => {
                log::info!(
                    "camera {}: {}; {} {}x{}, {} bytes a row, {} Hz, {} buffers",
                    self.name(),
                    negotiated.device,
                    negotiated.format,
                    negotiated.width,
                    negotiated.height,
                    negotiated.stride,
                    negotiated.rate_hz.unwrap_or(f64::NAN),
                    negotiated.buffers,
                );
                if self.differences != negotiated.differences {
                    for text in &negotiated.differences {
                        log::warn!("camera {}: {text}", self.name());
                    }
                    self.differences = negotiated.differences;
                }
                self.begin(now);
                self.shared.update(self.which, |s| {
                    s.opens += 1;
                    s.state = CameraState::Starting;
                });
                Ok(())
            }
            Err(error) => {
                self.warn(&format_args!("can't be opened: {error}"));
                self.shared.update(self.which, |s| {
                    s.open_failures += 1;
                    s.state = CameraState::Lost;
                });
                self.recovery.closed(now);
                Err(error)
            }
        }
    }

    /// Takes over what the device made of its settings.
    fn take_over(&mut self, negotiated: &Negotiated) -> Result<(), QueueError> {
        let found = (negotiated.width, negotiated.height);
        if found != self.expected {
            return Err(QueueError::Unusable(format!(
                "{}x{} from the driver, expected {}x{}",
                found.0, found.1, self.expected.0, self.expected.1
            )));
        }
        let row = negotiated.format.row_bytes(negotiated.width);
        if negotiated.stride < row {
            return Err(QueueError::Unusable(format!(
                "{} bytes a row from the driver, expected {row} or more",
                negotiated.stride
            )));
        }
        self.stride = negotiated.stride;
        self.picture_bytes = (negotiated.format).picture_bytes(
            negotiated.width,
            negotiated.height,
            negotiated.stride,
        );
        self.buffers = negotiated.buffers;
        if let Some(rate) = negotiated.rate_hz
            && (0.01..=100_000.0).contains(&rate)
        {
            let period_ns = (1e9 / rate) as u64;
            self.recovery.set_period(period_ns);
            self.stamps.set_period(period_ns);
            self.shared.update(self.which, |s| s.period_ns = period_ns);
        }
        Ok(())
    }

    /// Streaming has begun.
    fn begin(&mut self, now: Timestamp) {
        self.recovery.started(now);
        self.stamps.restart();
        self.sequence = None;
        self.owed = 0;
    }

    fn close(&mut self) {
        self.queue.close();
        self.owed = 0;
        let now = self.now();
        self.recovery.closed(now);
    }

    fn restart(&mut self) {
        self.recovery.restarting();
        self.warn(&"no frames; streaming is started anew");
        self.shared.update(self.which, |s| {
            s.state = CameraState::Stalled;
            s.restarts += 1;
        });
        match self.queue.stop().and_then(|()| self.queue.start()) {
            Ok(()) => {
                let now = self.now();
                self.begin(now);
            }
            Err(error) => {
                self.warn(&format_args!("can't be started anew: {error}"));
                self.shared.update(self.which, |s| s.errors += 1);
                self.recovery.dead();
            }
        }
    }

    /// What an error of the queue means.
    fn failed(&mut self, error: &QueueError) {
        if error.is_harmless() {
            return;
        }
        self.warn(error);
        self.shared.update(self.which, |s| s.errors += 1);
        if error.is_gone() {
            self.set_state(CameraState::Lost);
            self.recovery.dead();
        } else {
            self.recovery.broken();
        }
    }

    fn wait(&mut self, ns: u64) {
        match self.queue.poll(ns) {
            Ok(Ready::Frame) => self.dequeue(),
            Ok(Ready::Nothing) => {
                if matches!(self.recovery.step(self.now()), Step::Restart | Step::Close) {
                    self.shared.update(self.which, |s| s.stalls += 1);
                }
            }
            Ok(Ready::Error) => {
                self.warn(&"the queue is in an error state");
                self.shared.update(self.which, |s| s.errors += 1);
                self.recovery.broken();
            }
            Ok(Ready::Gone) => {
                self.warn(&"the device is gone");
                self.set_state(CameraState::Lost);
                self.recovery.dead();
            }
            Err(error) => self.failed(&error),
        }
    }

    fn dequeue(&mut self) {
        self.pay();
        match self.queue.dequeue() {
            Ok(buffer) => {
                let filled = self.look(&buffer);
                self.give_back(buffer.index);
                if filled && let Some(picture) = self.hand.take() {
                    self.shared.pass(self.which, picture);
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Tries once more to give back what is owed.
    fn pay(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        for index in (0..u32::BITS as usize).filter(|i| owed >> i & 1 == 1) {
            self.give_back(index);
        }
    }

    fn give_back(&mut self, index: usize) {
        let Err(error) = self.queue.requeue(index) else {
            return;
        };
        if error.is_gone() {
            self.failed(&error);
            return;
        }
        if let Some(bit) = 1u32.checked_shl(index as u32) {
            self.owed |= bit;
        }
        self.warn(&format_args!("a buffer can't be given back yet: {error}"));
        self.shared.update(self.which, |s| s.errors += 1);
        // One is too few: every frame would find none.
        if self.owed.count_ones() as usize + 1 >= self.buffers {
            self.recovery.broken();
        }
    }

    /// Looks at a frame; whether the picture in hand holds it now.
    fn look(&mut self, buffer: &Buffer) -> bool {
        let now = self.now();
        self.count(buffer.sequence);
        if buffer.error {
            self.refuse(&"the driver marks a frame as damaged", |s| s.damaged += 1);
            return false;
        }
        if self.queue.bytes(buffer).len() < self.picture_bytes {
            let expected = self.picture_bytes;
            let text = format_args!(
                "a frame of {} bytes, expected {expected} or more",
                buffer.bytes_used
            );
            self.refuse(&text, |s| s.short += 1);
            return false;
        }
        // A whole frame: the camera is there, whatever its clock says.
        self.recovery.frame(now);
        if !self.recovery.is_troubled() {
            self.told = 0;
        }
        let known = self.stamps.clock();
        let stamp = self
            .stamps
            .stamp(buffer.stamp_ns, buffer.flag, &self.clocks);
        let (clock, offset_ns) = (self.stamps.clock(), self.stamps.offset_ns());
        if clock != known
            && let Some(clock) = clock
        {
            log::info!(
                "camera {}: time stamps by clock {}, {offset_ns} ns from the loop's",
                self.which,
                clock.name()
            );
        }
        let stamp = match stamp {
            Ok(stamp) => stamp,
            Err(StampFault::NoClock) => {
                self.refuse_quietly(|s| s.refused(StampFault::NoClock));
                return false;
            }
            Err(fault) => {
                let text = format_args!(
                    "a frame is refused, its time stamp is {}: {} ns by the driver, now {} ns",
                    fault.name(),
                    buffer.stamp_ns,
                    now.0
                );
                self.refuse(&text, |s| s.refused(fault));
                return false;
            }
        };
        if self.hand.is_none() {
            self.hand = self.shared.take(self.which);
        }
        let Some(picture) = &mut self.hand else {
            self.refuse_quietly(|s| s.dropped += 1);
            return false;
        };
        let bytes = self.queue.bytes(buffer);
        let (grey, rgb) = (picture.grey.as_mut(), picture.rgb.as_mut());
        if self
            .converter
            .convert(bytes, self.stride, grey, rgb)
            .is_err()
        {
            self.refuse_quietly(|s| s.short += 1);
            return false;
        }
        picture.stamp = stamp;
        picture.arrived = now;
        self.shared.update(self.which, |s| {
            s.frames += 1;
            s.clock = clock;
            s.offset_ns = offset_ns;
            s.state = CameraState::Streaming;
        });
        true
    }

    /// Counts what the sequence numbers left out.
    fn count(&mut self, sequence: u32) {
        let Some(last) = self.sequence.replace(sequence) else {
            return;
        };
        let step = sequence.wrapping_sub(last);
        if step == 0 || step > u32::MAX / 2 {
            self.shared.update(self.which, |s| s.disordered += 1);
        } else if step > 1 {
            let missed = u64::from(step - 1);
            self.shared.update(self.which, |s| s.missed += missed);
            self.shared.lose(self.which, missed);
        }
    }

    fn refuse(
        &mut self,
        why: &dyn std::fmt::Display,
        count: impl FnOnce(&mut super::CameraStatus),
    ) {
        self.warn(why);
        self.refuse_quietly(count);
    }

    fn refuse_quietly(&mut self, count: impl FnOnce(&mut super::CameraStatus)) {
        self.shared.update(self.which, count);
        self.shared.lose(self.which, 1);
    }
}
