//! A pretence of the kernel's buffer queue, as strict as the kernel: for tests of whatever a
//! driver may do, most of which no driver does on demand.
//!
//! Time stands still but for [`Queue::poll`] and [`FakeDevice::pass`]. What breaks the protocol
//! (a buffer given back that was not dequeued, a call on a closed device) is an error as the
//! kernel's, and is noted in [`FakeDevice::violations`].
use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use rustix::io::Errno;

use super::{
    ClockKind, Clocks, PixelFormat,
    queue::{Buffer, Negotiated, Queue, QueueError, Ready, StampFlag},
};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The next call of this name fails with this error; more of them queue up.
    Call(&'static str, Errno),
    /// The next frame is marked as damaged.
    Damaged,
    /// The next frame has so many bytes only.
    Short(usize),
    /// So many sequence numbers are left out before the next frame.
    Gap(u32),
    /// The sequence number is this one from the next frame on.
    Sequence(u32),
    /// The next frame's stamp is so much later, ns; earlier where negative.
    Stamp(i64),
    /// The queue is in an error state until streaming is stopped.
    Error,
    /// The next `poll` says that there is a frame where there is none.
    FalseReady,
}

/// A camera that does what it is told.
#[derive(Debug)]
pub struct FakeDevice {
    now: u64,
    /// What the device makes of its settings.
    pub negotiated: Negotiated,
    /// From one frame to the next, ns.
    pub period_ns: u64,
    /// From a frame's stamp to when it can be dequeued, ns.
    pub lag_ns: u64,
    /// What the driver's stamps are ahead of the clock, ns; wraps.
    pub stamp_offset: u64,
    /// What the driver says of its stamps.
    pub flag: StampFlag,
    /// No frames come.
    pub silent: bool,
    /// The device is unplugged; an open one answers so until it is closed.
    pub unplugged: bool,
    open: bool,
    /// An open device was unplugged: only closing it helps.
    gone: bool,
    streaming: bool,
    error: bool,
    next_frame: u64,
    sequence: u32,
    owners: Vec<Owner>,
    queued: VecDeque<usize>,
    done: VecDeque<Buffer>,
    memory: Vec<Vec<u8>>,
    calls: BTreeMap<&'static str, VecDeque<Errno>>,
    faults: VecDeque<Fault>,
    false_ready: bool,
    /// What broke the protocol.
    pub violations: Vec<String>,
    /// Every call that was made, by name.
    pub log: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Program,
    Kernel,
}

impl FakeDevice {
    /// A camera of this format, size and rate with so many buffers.
    pub fn new(
        format: PixelFormat,
        (width, height): (usize, usize),
        rate_hz: f64,
        buffers: usize,
    ) -> Self {
        let stride = format.row_bytes(width);
        Self {
            now: 1_000_000_000,
            negotiated: Negotiated {
                format,
                width,
                height,
                stride,
                rate_hz: Some(rate_hz),
                buffers,
                device: "fake".into(),
                differences: Vec::new(),
            },
            period_ns: (1e9 / rate_hz) as u64,
            lag_ns: 1_000_000,
            stamp_offset: 0,
            flag: StampFlag::Monotonic,
            silent: false,
            unplugged: false,
            open: false,
            gone: false,
            streaming: false,
            error: false,
            next_frame: 0,
            sequence: 0,
            owners: Vec::new(),
            queued: VecDeque::new(),
            done: VecDeque::new(),
            memory: Vec::new(),
            calls: BTreeMap::new(),
            faults: VecDeque::new(),
            false_ready: false,
            violations: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Makes something go wrong.
    pub fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::Call(call, errno) => self.calls.entry(call).or_default().push_back(errno),
            Fault::Error => self.error = self.streaming,
            Fault::FalseReady => self.false_ready = true,
            fault => self.faults.push_back(fault),
        }
    }

    /// Unplugs the device.
    pub fn unplug(&mut self) {
        self.unplugged = true;
        self.gone |= self.open;
        self.streaming = false;
        self.done.clear();
    }

    /// Plugs it in again. What was open stays gone until it is closed.
    pub fn plug(&mut self) {
        self.unplugged = false;
    }

    /// Now, ns.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Lets time pass.
    pub fn pass(&mut self, ns: u64) {
        let until = self.now.saturating_add(ns);
        while self.streaming && self.next_frame <= until {
            self.now = self.now.max(self.next_frame);
            self.frame();
        }
        self.now = until;
    }

    /// A frame is due.
    fn frame(&mut self) {
        let stamp = self.next_frame.saturating_sub(self.lag_ns);
        self.next_frame += self.period_ns;
        let sequence = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        if self.silent || self.error {
            return;
        }
        // Without a buffer the frame is lost.
        let Some(index) = self.queued.pop_front() else {
            return;
        };
        let bytes = self.memory[index].len();
        let mut buffer = Buffer {
            index,
            sequence,
            stamp_ns: stamp.wrapping_add(self.stamp_offset),
            flag: self.flag,
            end_of_frame: false,
            bytes_used: bytes,
            error: false,
        };
        match self.faults.pop_front() {
            Some(Fault::Damaged) => buffer.error = true,
            Some(Fault::Short(bytes)) => buffer.bytes_used = bytes.min(buffer.bytes_used),
            Some(Fault::Gap(n)) => {
                buffer.sequence = sequence.wrapping_add(n);
                self.sequence = buffer.sequence.wrapping_add(1);
            }
            Some(Fault::Sequence(n)) => {
                buffer.sequence = n;
                self.sequence = n.wrapping_add(1);
            }
            Some(Fault::Stamp(ns)) => buffer.stamp_ns = buffer.stamp_ns.wrapping_add(ns as u64),
            _ => {}
        }
        // What a frame shows: its number, in every byte.
        self.memory[index].fill(buffer.sequence as u8);
        self.done.push_back(buffer);
    }

    /// A call begins: whether it fails.
    fn call(&mut self, name: &'static str) -> Result<(), QueueError> {
        self.log.push(name);
        let os = |errno| QueueError::Os { call: name, errno };
        if self.gone && name != "open" {
            return Err(os(Errno::NODEV));
        }
        match self.calls.get_mut(name).and_then(VecDeque::pop_front) {
            Some(errno) => Err(os(errno)),
            None => Ok(()),
        }
    }

    fn violation(&mut self, text: &'static str) -> QueueError {
        self.violations.push(text.into());
        QueueError::Protocol(text)
    }

    fn need(&mut self, streaming: bool) -> Result<(), QueueError> {
        if !self.open {
            return Err(self.violation("a call on a closed device"));
        }
        if streaming && !self.streaming && !self.error && !self.gone {
            return Err(self.violation("streaming is needed, but was not started"));
        }
        Ok(())
    }
}

/// The queue of a [`FakeDevice`], and its clock.
#[derive(Clone, Debug)]
pub struct FakeQueue {
    /// What the test tells what to do.
    pub device: Rc<RefCell<FakeDevice>>,
    /// What a dequeued buffer holds; the kernel's memory can't be lent out of a cell.
    seen: Vec<u8>,
}

impl FakeQueue {
    /// The queue of this device.
    pub fn new(device: FakeDevice) -> Self {
        Self {
            device: Rc::new(RefCell::new(device)),
            seen: Vec::new(),
        }
    }
}

impl Clocks for FakeQueue {
    fn read(&self, clock: ClockKind) -> Option<u64> {
        match clock {
            ClockKind::Monotonic => Some(self.device.borrow().now),
            ClockKind::Boottime => Some(self.device.borrow().now + 3_600_000_000_000),
            _ => None,
        }
    }
}

impl Queue for FakeQueue {
    fn open(&mut self) -> Result<Negotiated, QueueError> {
        let mut device = self.device.borrow_mut();
        if device.open {
            return Err(device.violation("opened twice"));
        }
        device.call("open")?;
        if device.unplugged {
            let (call, errno) = ("open", Errno::NOENT);
            return Err(QueueError::Os { call, errno });
        }
        let n = device.negotiated.clone();
        let bytes = n.format.picture_bytes(n.width, n.height, n.stride);
        device.open = true;
        device.gone = false;
        device.owners = vec![Owner::Program; n.buffers];
        device.memory = vec![vec![0; bytes]; n.buffers];
        Ok(n)
    }

    fn close(&mut self) {
        let mut device = self.device.borrow_mut();
        device.log.push("close");
        device.open = false;
        device.gone = false;
        device.streaming = false;
        device.error = false;
        device.queued.clear();
        device.done.clear();
    }

    fn start(&mut self) -> Result<(), QueueError> {
        let mut device = self.device.borrow_mut();
        device.need(false)?;
        if device.streaming {
            return Err(device.violation("started twice"));
        }
        device.call("start")?;
        if device.owners.contains(&Owner::Kernel) {
            return Err(device.violation("started with buffers that the kernel holds already"));
        }
        device.owners.fill(Owner::Kernel);
        device.queued = (0..device.owners.len()).collect();
        device.streaming = true;
        device.sequence = 0;
        device.next_frame = device.now + device.period_ns;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), QueueError> {
        let mut device = self.device.borrow_mut();
        device.need(false)?;
        device.call("stop")?;
        device.streaming = false;
        device.error = false;
        device.owners.fill(Owner::Program);
        device.queued.clear();
        device.done.clear();
        Ok(())
    }

    fn poll(&mut self, wait_ns: u64) -> Result<Ready, QueueError> {
        let mut device = self.device.borrow_mut();
        device.need(true)?;
        if device.gone {
            device.log.push("poll");
            return Ok(Ready::Gone);
        }
        device.call("poll")?;
        if std::mem::take(&mut device.false_ready) {
            return Ok(Ready::Frame);
        }
        if device.error {
            return Ok(Ready::Error);
        }
        let until = device.now.saturating_add(wait_ns);
        while device.done.is_empty() && device.now < until {
            let step = device.next_frame.clamp(device.now + 1, until) - device.now;
            device.pass(step);
        }
        Ok(if device.done.is_empty() {
            Ready::Nothing
        } else {
            Ready::Frame
        })
    }

    fn dequeue(&mut self) -> Result<Buffer, QueueError> {
        let mut device = self.device.borrow_mut();
        device.need(true)?;
        device.call("dequeue")?;
        let (call, errno) = if device.error {
            ("dequeue", Errno::IO)
        } else {
            ("dequeue", Errno::AGAIN)
        };
        if device.error {
            return Err(QueueError::Os { call, errno });
        }
        let Some(buffer) = device.done.pop_front() else {
            return Err(QueueError::Os { call, errno });
        };
        device.owners[buffer.index] = Owner::Program;
        let memory = &device.memory[buffer.index][..buffer.bytes_used];
        self.seen.clear();
        self.seen.extend_from_slice(memory);
        Ok(buffer)
    }

    fn bytes(&self, buffer: &Buffer) -> &[u8] {
        match self.device.borrow().owners.get(buffer.index) {
            Some(Owner::Program) => &self.seen,
            _ => &[],
        }
    }

    fn requeue(&mut self, index: usize) -> Result<(), QueueError> {
        let mut device = self.device.borrow_mut();
        device.need(true)?;
        match device.owners.get(index) {
            Some(Owner::Program) => {}
            Some(Owner::Kernel) if device.gone => {}
            Some(Owner::Kernel) => {
                return Err(device.violation("a buffer given back that the kernel holds"));
            }
            None => return Err(device.violation("no such buffer")),
        }
        device.call("requeue")?;
        device.owners[index] = Owner::Kernel;
        device.queued.push_back(index);
        Ok(())
    }
}
