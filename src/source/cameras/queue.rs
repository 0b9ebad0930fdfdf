//! The kernel's queue of buffers, as much of it as capture needs: a V4L2 device, or a pretence.
//!
//! # The protocol
//! `open` → `start` → (`poll` → `dequeue` → look at `bytes` → `requeue`)* → `stop` → `start` or
//! `close`. After `start` the kernel owns all buffers; a successful `dequeue` gives one of them to
//! the program, `requeue` gives that one back, `stop` gives all to the program.
use rustix::io::Errno;

use super::PixelFormat;

/// What went wrong in a queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The system refused a call.
    #[error("{call}: {errno}")]
    Os {
        /// Which.
        call: &'static str,
        /// Why.
        errno: Errno,
    },
    /// The device is there, but can't be used as configured. Trying again is of little use.
    #[error("{0}")]
    Unusable(String),
    /// The program broke the protocol: a fault of the program.
    #[error("{0}")]
    Protocol(&'static str),
}

impl QueueError {
    /// Whether the device is gone.
    pub fn is_gone(&self) -> bool {
        matches!(
            self,
            Self::Os {
                errno: Errno::NODEV | Errno::NXIO | Errno::NOENT | Errno::BADF | Errno::NOTTY,
                ..
            }
        )
    }

    /// Whether it is none: nothing there yet, or a signal came.
    pub fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::Os {
                errno: Errno::AGAIN | Errno::INTR,
                ..
            }
        )
    }
}

/// What waiting for a frame came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A buffer can be dequeued.
    Frame,
    /// The time is over, or a signal came.
    Nothing,
    /// The queue is in an error state (POLLERR): only stopping it helps.
    Error,
    /// The device is gone (POLLHUP).
    Gone,
}

/// Which clock a driver says that its stamps are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StampFlag {
    /// It does not say.
    #[default]
    Unknown,
    /// The monotonic clock; Tegra says so of its own counter.
    Monotonic,
    /// Copied from somewhere: means nothing for a camera.
    Copied,
}

/// A buffer that the kernel gave back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Which.
    pub index: usize,
    /// Frames since the start of streaming, those that the driver dropped included.
    pub sequence: u32,
    /// The driver's stamp, ns; wraps.
    pub stamp_ns: u64,
    /// Which clock the driver says that it is on.
    pub flag: StampFlag,
    /// Whether it was taken at the end of the frame rather than at the start of exposure.
    pub end_of_frame: bool,
    /// Bytes that were written.
    pub bytes_used: usize,
    /// The contents are damaged.
    pub error: bool,
}

/// What a device made of its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Negotiated {
    /// What the pixels are.
    pub format: PixelFormat,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Frames a second, where the driver says.
    pub rate_hz: Option<f64>,
    /// Buffers in the queue.
    pub buffers: usize,
    /// Driver, card, bus and kind of memory, in words.
    pub device: String,
    /// What is other than asked for, in words; each can be lived with.
    pub differences: Vec<String>,
}

/// A camera's queue of buffers.
pub trait Queue {
    /// Opens the device, sets everything, takes buffers.
    ///
    /// # Errors
    /// [`QueueError::Unusable`] when size or format can't be had; else the system's. The device is
    /// closed then.
    fn open(&mut self) -> Result<Negotiated, QueueError>;

    /// Gives everything back. Never fails: there is nothing that could be done about it.
    fn close(&mut self);

    /// Gives all buffers to the kernel and starts streaming.
    ///
    /// # Errors
    /// The system's; [`Queue::stop`] leads back to a known state.
    fn start(&mut self) -> Result<(), QueueError>;

    /// Stops streaming and takes all buffers back.
    ///
    /// # Errors
    /// The system's; nothing but [`Queue::close`] makes sense then.
    fn stop(&mut self) -> Result<(), QueueError>;

    /// Waits for a frame, at most so long.
    ///
    /// # Errors
    /// The system's.
    fn poll(&mut self, wait_ns: u64) -> Result<Ready, QueueError>;

    /// Takes the oldest frame out of the queue.
    ///
    /// # Errors
    /// The system's; no buffer changes hands then.
    fn dequeue(&mut self) -> Result<Buffer, QueueError>;

    /// The bytes of a dequeued buffer, as many as were written; nothing of a buffer that is not
    /// the program's.
    fn bytes(&self, buffer: &Buffer) -> &[u8];

    /// Gives a dequeued buffer back to the kernel.
    ///
    /// # Errors
    /// The system's; the buffer stays with the program then, and may be tried again.
    fn requeue(&mut self, index: usize) -> Result<(), QueueError>;
}
