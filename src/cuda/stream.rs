//! Streams and events: the order of the device's work, and how the host waits for it.
use std::cell::RefCell;
use std::ptr::null_mut;
use std::rc::Rc;

use super::arena::DeviceBuffer;
use super::context::Context;
use super::element::{Element, Number};
use super::error::{GpuError, NOT_READY};
use super::memory::{Allocation, Progress};
use super::pinned::Pinned;
use super::raw::{CUDA_MEMCPY2D, CUevent, CUmemorytype, CUstream, call, value};

/// Which stream's kernels start first where several wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Priority {
    /// As the driver gives it: the lowest.
    #[default]
    Normal,
    /// The highest that the device has.
    High,
}

/// A queue of device work. All copies are asynchronous, from and to page-locked memory, in the
/// order given; the NULL stream is never used. While [`capture`](Self::capture) runs, what is
/// given to the stream is recorded into the graph instead of run.
pub struct Stream {
    raw: CUstream,
    context: Context,
    progress: Rc<Progress>,
}

/// One piece of work on its way to the driver.
pub(super) struct Work<'a> {
    stream: &'a Stream,
    /// The ticket, or none while capturing.
    ticket: Option<u64>,
}

impl Stream {
    /// Makes a stream.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &Context, priority: Priority) -> Result<Self, GpuError> {
        context.bind()?;
        let (mut raw, mut least, mut greatest) = (null_mut(), 0, 0);
        // SAFETY: a context is current and all results go to locals.
        unsafe {
            context.note(call::cuCtxGetStreamPriorityRange(
                &raw mut least,
                &raw mut greatest,
            ))?;
            let priority = if priority == Priority::High {
                greatest
            } else {
                least
            };
            context.note(call::cuStreamCreateWithPriority(
                &raw mut raw,
                value::STREAM_NON_BLOCKING,
                priority,
            ))?;
        }
        Ok(Self {
            raw,
            context: context.clone(),
            progress: Rc::default(),
        })
    }

    /// The context it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Copies page-locked → device; equal lengths.
    ///
    /// # Errors
    /// [`GpuError::Size`], [`GpuError::Busy`]; from the driver.
    pub fn copy_to_device<T: Element>(
        &self,
        from: &Pinned<T>,
        to: &DeviceBuffer<T>,
    ) -> Result<(), GpuError> {
        check_lengths("copy to the device, elements", from.len(), to.len())?;
        let work = self.begin()?;
        work.touch(from.block(), false)?;
        work.touch(to.block(), true)?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both sides have `bytes` bytes in live blocks; the note of the work keeps the
        // host from writing the source until it is done, and blocks are freed after it.
        self.context.note(unsafe {
            call::cuMemcpyHtoDAsync_v2(
                to.ptr().address(),
                from.host().cast(),
                from.bytes(),
                self.raw,
            )
        })
    }

    /// Copies device → page-locked; equal lengths.
    ///
    /// # Errors
    /// [`GpuError::Size`], [`GpuError::Busy`]; from the driver.
    pub fn copy_to_host<T: Element>(
        &self,
        from: &DeviceBuffer<T>,
        to: &Pinned<T>,
    ) -> Result<(), GpuError> {
        check_lengths("copy to the host, elements", from.len(), to.len())?;
        let work = self.begin()?;
        work.touch(from.block(), false)?;
        work.touch(to.block(), true)?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: as in copy_to_device; the note keeps the host from reading and writing.
        self.context.note(unsafe {
            call::cuMemcpyDtoHAsync_v2(
                to.host().cast(),
                from.ptr().address(),
                from.bytes(),
                self.raw,
            )
        })
    }

    /// Copies device → device; equal lengths, not overlapping.
    ///
    /// # Errors
    /// [`GpuError::Size`]; from the driver.
    pub fn copy_on_device<T: Element>(
        &self,
        from: &DeviceBuffer<T>,
        to: &DeviceBuffer<T>,
    ) -> Result<(), GpuError> {
        check_lengths("copy on the device, elements", from.len(), to.len())?;
        let work = self.begin()?;
        work.touch(from.block(), false)?;
        work.touch(to.block(), true)?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both sides have `bytes` bytes in live blocks of device memory.
        self.context.note(unsafe {
            call::cuMemcpyDtoDAsync_v2(
                to.ptr().address(),
                from.ptr().address(),
                from.bytes(),
                self.raw,
            )
        })
    }

    /// Copies `rows` rows of `width` elements, page-locked → device, between different strides
    /// (elements from row to row).
    ///
    /// # Errors
    /// [`GpuError::Size`] when rows overlap or pass an end; [`GpuError::Busy`]; from the driver.
    pub fn copy_rows_to_device<T: Element>(
        &self,
        (from, from_stride): (&Pinned<T>, usize),
        (to, to_stride): (&DeviceBuffer<T>, usize),
        width: usize,
        rows: usize,
    ) -> Result<(), GpuError> {
        check_rows(from.len(), from_stride, width, rows)?;
        check_rows(to.len(), to_stride, width, rows)?;
        let work = self.begin()?;
        work.touch(from.block(), false)?;
        work.touch(to.block(), true)?;
        let copy = CUDA_MEMCPY2D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: from.host().cast(),
            srcPitch: from_stride * size_of::<T>(),
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: to.ptr().address(),
            dstPitch: to_stride * size_of::<T>(),
            WidthInBytes: width * size_of::<T>(),
            Height: rows,
            ..EMPTY_COPY
        };
        self.copy_rows(&copy)
    }

    /// Copies rows device → page-locked; as [`copy_rows_to_device`](Self::copy_rows_to_device).
    ///
    /// # Errors
    /// As there.
    pub fn copy_rows_to_host<T: Element>(
        &self,
        (from, from_stride): (&DeviceBuffer<T>, usize),
        (to, to_stride): (&Pinned<T>, usize),
        width: usize,
        rows: usize,
    ) -> Result<(), GpuError> {
        check_rows(from.len(), from_stride, width, rows)?;
        check_rows(to.len(), to_stride, width, rows)?;
        let work = self.begin()?;
        work.touch(from.block(), false)?;
        work.touch(to.block(), true)?;
        let copy = CUDA_MEMCPY2D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: from.ptr().address(),
            srcPitch: from_stride * size_of::<T>(),
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: to.host().cast(),
            dstPitch: to_stride * size_of::<T>(),
            WidthInBytes: width * size_of::<T>(),
            Height: rows,
            ..EMPTY_COPY
        };
        self.copy_rows(&copy)
    }

    fn copy_rows(&self, copy: &CUDA_MEMCPY2D) -> Result<(), GpuError> {
        if copy.WidthInBytes == 0 || copy.Height == 0 {
            return Ok(());
        }
        // SAFETY: check_rows has held every row of both sides to its live block; the notes keep
        // the host away until the work is done.
        self.context
            .note(unsafe { call::cuMemcpy2DAsync_v2(copy, self.raw) })
    }

    /// Sets every element. Numbers of 8 bytes only where their two halves are the same.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for other numbers; from the driver.
    pub fn fill<T: Number>(&self, to: &DeviceBuffer<T>, value: T) -> Result<(), GpuError> {
        let work = self.begin()?;
        work.touch(to.block(), true)?;
        if to.is_empty() {
            return Ok(());
        }
        let (address, len, bits) = (to.ptr().address(), to.len(), value.bits());
        // SAFETY: `len` elements of the stated size are in the buffer's live block.
        self.context.note(unsafe {
            match size_of::<T>() {
                1 => call::cuMemsetD8Async(address, bits as u8, len, self.raw),
                2 => call::cuMemsetD16Async(address, bits as u16, len, self.raw),
                4 => call::cuMemsetD32Async(address, bits as u32, len, self.raw),
                _ if bits as u32 == (bits >> 32) as u32 => {
                    call::cuMemsetD32Async(address, bits as u32, 2 * len, self.raw)
                }
                _ => Err(GpuError::Unsupported {
                    what: "filling with this value",
                    found: format!("{bits:#x}"),
                    expected: "at most 4 bytes, or two equal halves",
                }),
            }
        })
    }

    /// Copies to the device and waits: for tables, at start.
    ///
    /// # Errors
    /// [`GpuError::Size`]; from the driver.
    pub fn upload<T: Element>(&self, from: &[T], to: &DeviceBuffer<T>) -> Result<(), GpuError> {
        check_lengths("upload, elements", from.len(), to.len())?;
        self.begin_waiting(to.block())?;
        if !from.is_empty() {
            // SAFETY: both sides have the bytes; the wait below ends the work before the borrow,
            // and where it fails, the driver has copied pageable memory to its own already.
            self.context.note(unsafe {
                call::cuMemcpyHtoDAsync_v2(
                    to.ptr().address(),
                    from.as_ptr().cast(),
                    size_of_val(from),
                    self.raw,
                )
            })?;
        }
        self.synchronize()
    }

    /// Copies to the host and waits: for tests and reports.
    ///
    /// # Errors
    /// [`GpuError::Size`]; from the driver.
    pub fn download<T: Element>(
        &self,
        from: &DeviceBuffer<T>,
        to: &mut [T],
    ) -> Result<(), GpuError> {
        check_lengths("download, elements", from.len(), to.len())?;
        self.begin_waiting(from.block())?;
        if !to.is_empty() {
            // SAFETY: both sides have the bytes; a copy to pageable memory has ended when the
            // call returns, and the wait below makes sure.
            self.context.note(unsafe {
                call::cuMemcpyDtoHAsync_v2(
                    to.as_mut_ptr().cast(),
                    from.ptr().address(),
                    size_of_val(to),
                    self.raw,
                )
            })?;
        }
        self.synchronize()
    }

    /// Marks the place in the stream; an event can be recorded any number of times. In a
    /// capture it makes dependencies between streams and can't be waited for by the host:
    /// see [`record_in_graph`](Self::record_in_graph).
    ///
    /// # Errors
    /// From the driver.
    pub fn record(&self, event: &Event) -> Result<(), GpuError> {
        self.context.same(&event.context, "event")?;
        self.context.bind()?;
        let capturing = self.context.is_capturing(self.raw)?;
        // SAFETY: a live event and stream of the current context.
        self.context
            .note(unsafe { call::cuEventRecordWithFlags(event.raw, self.raw, 0) })?;
        let mark = (!capturing).then(|| (self.progress.clone(), self.progress.submitted()));
        *event.mark.borrow_mut() = mark;
        Ok(())
    }

    /// In a capture: the graph will record the event at this place each time it runs, for
    /// timing stages inside a graph. Outside: as [`record`](Self::record).
    ///
    /// # Errors
    /// From the driver.
    pub fn record_in_graph(&self, event: &Rc<Event>) -> Result<(), GpuError> {
        self.context.same(&event.context, "event")?;
        self.context.bind()?;
        if !self.context.is_capturing(self.raw)? {
            return self.record(event);
        }
        // SAFETY: a live event and stream of the current context; the capture keeps the event.
        self.context.note(unsafe {
            call::cuEventRecordWithFlags(event.raw, self.raw, value::EVENT_RECORD_EXTERNAL)
        })?;
        if let Some(capture) = self.context.inner().capture.borrow_mut().as_mut() {
            capture.events.push(event.clone());
        }
        *event.mark.borrow_mut() = None;
        Ok(())
    }

    /// Later work of this stream waits, on the device, for the event's last record.
    ///
    /// # Errors
    /// From the driver.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.context.same(&event.context, "event")?;
        self.context.bind()?;
        // SAFETY: a live event and stream of the current context.
        self.context
            .note(unsafe { call::cuStreamWaitEvent(self.raw, event.raw, 0) })
    }

    /// Waits on the host until all work so far is done.
    ///
    /// # Errors
    /// From the driver, also those of the work.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.context.bind()?;
        let ticket = self.progress.submitted();
        // SAFETY: a live stream of the current context.
        self.context
            .note(unsafe { call::cuStreamSynchronize(self.raw) })?;
        self.progress.complete(ticket);
        Ok(())
    }

    /// Whether all work so far is done; does not wait.
    ///
    /// # Errors
    /// From the driver, also those of the work.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        self.context.bind()?;
        let ticket = self.progress.submitted();
        // SAFETY: a live stream of the current context.
        let done = ready(unsafe { call::cuStreamQuery(self.raw) });
        if self.context.note(done.clone())? {
            self.progress.complete(ticket);
        }
        done
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Starts a piece of work: context current, ticket drawn.
    pub(super) fn begin(&self) -> Result<Work<'_>, GpuError> {
        self.context.bind()?;
        let capturing = self.context.is_capturing(self.raw)?;
        Ok(Work {
            stream: self,
            ticket: (!capturing).then(|| self.progress.next()),
        })
    }

    /// Starts a copy that waits; a capture can't have one.
    fn begin_waiting(&self, block: &Rc<Allocation>) -> Result<(), GpuError> {
        let work = self.begin()?;
        if work.is_captured() {
            return Err(GpuError::Capture("a copy that waits can't be captured"));
        }
        work.touch(block, true)
    }
}

impl Work<'_> {
    pub fn is_captured(&self) -> bool {
        self.ticket.is_none()
    }

    /// The work uses an allocation.
    pub fn touch(&self, block: &Rc<Allocation>, writes: bool) -> Result<(), GpuError> {
        let context = &self.stream.context;
        context.same(block.context(), "buffer")?;
        match self.ticket {
            Some(ticket) => block.fly(&self.stream.progress, ticket, writes),
            None => {
                if let Some(capture) = context.inner().capture.borrow_mut().as_mut() {
                    capture.touch(block, writes);
                }
                Ok(())
            }
        }
    }

    /// The work uses whatever lies at an address; how is not known, so it counts as writing.
    pub fn touch_address(&self, what: &'static str, address: u64) -> Result<(), GpuError> {
        let block = self
            .stream
            .context
            .find(address)
            .ok_or(GpuError::Dangling { what, address })?;
        self.touch(&block, true)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is this object's own; the driver ends its work first.
        let done = self
            .context
            .bind()
            .and_then(|()| unsafe { call::cuStreamDestroy_v2(self.raw) });
        self.context.record(done);
    }
}

/// A place in a stream, to wait for or to take the time at.
pub struct Event {
    raw: CUevent,
    context: Context,
    /// What is known to be done when the event is.
    mark: RefCell<Option<(Rc<Progress>, u64)>>,
}

impl Event {
    /// An event that takes the time.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &Context) -> Result<Self, GpuError> {
        Self::with_flags(context, 0)
    }

    /// An event for order only; cheaper. The host sleeps in its `synchronize` where `blocking`.
    ///
    /// # Errors
    /// From the driver.
    pub fn for_order(context: &Context, blocking: bool) -> Result<Self, GpuError> {
        let blocking = if blocking {
            value::EVENT_BLOCKING_SYNC
        } else {
            0
        };
        Self::with_flags(context, value::EVENT_DISABLE_TIMING | blocking)
    }

    fn with_flags(context: &Context, flags: u32) -> Result<Self, GpuError> {
        context.bind()?;
        let mut raw = null_mut();
        // SAFETY: a context is current; the event goes to a local.
        context.note(unsafe { call::cuEventCreate(&raw mut raw, flags) })?;
        Ok(Self {
            raw,
            context: context.clone(),
            mark: RefCell::default(),
        })
    }

    /// Waits on the host until the work before the last record is done.
    ///
    /// # Errors
    /// From the driver, also those of the work.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: a live event of the current context.
        self.context
            .note(unsafe { call::cuEventSynchronize(self.raw) })?;
        self.complete();
        Ok(())
    }

    /// Whether that work is done; does not wait.
    ///
    /// # Errors
    /// From the driver, also those of the work.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        self.context.bind()?;
        // SAFETY: a live event of the current context.
        let done = self
            .context
            .note(ready(unsafe { call::cuEventQuery(self.raw) }))?;
        if done {
            self.complete();
        }
        Ok(done)
    }

    /// Microseconds from `start`'s last record to this one's; both done. Resolution some 0.5 µs.
    ///
    /// # Errors
    /// From the driver: not recorded, not done, or made for order only.
    pub fn microseconds_since(&self, start: &Event) -> Result<f32, GpuError> {
        self.context.same(&start.context, "event")?;
        self.context.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: live events of the current context; the result goes to a local.
        self.context.note(unsafe {
            call::cuEventElapsedTime(&raw mut milliseconds, start.raw, self.raw)
        })?;
        Ok(milliseconds * 1000.0)
    }

    fn complete(&self) {
        if let Some((progress, ticket)) = &*self.mark.borrow() {
            progress.complete(*ticket);
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is this object's own; the driver keeps what it needs of a pending one.
        let done = self
            .context
            .bind()
            .and_then(|()| unsafe { call::cuEventDestroy_v2(self.raw) });
        self.context.record(done);
    }
}

/// `NOT_READY` is an answer.
fn ready(result: Result<(), GpuError>) -> Result<bool, GpuError> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.code() == Some(NOT_READY) => Ok(false),
        Err(e) => Err(e),
    }
}

fn check_lengths(what: &'static str, found: usize, expected: usize) -> Result<(), GpuError> {
    if found == expected {
        return Ok(());
    }
    Err(GpuError::Size {
        what,
        found: found as u64,
        expected: expected as u64,
    })
}

fn check_rows(len: usize, stride: usize, width: usize, rows: usize) -> Result<(), GpuError> {
    check_at_most("copy of rows, width against stride", width, stride)?;
    let needed = match rows.checked_sub(1) {
        Some(before) => before.saturating_mul(stride).saturating_add(width),
        None => 0,
    };
    check_at_most("copy of rows, elements", needed, len)
}

fn check_at_most(what: &'static str, found: usize, limit: usize) -> Result<(), GpuError> {
    if found <= limit {
        return Ok(());
    }
    Err(GpuError::Size {
        what,
        found: found as u64,
        expected: limit as u64,
    })
}

const EMPTY_COPY: CUDA_MEMCPY2D = CUDA_MEMCPY2D {
    srcXInBytes: 0,
    srcY: 0,
    srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
    srcHost: std::ptr::null(),
    srcDevice: 0,
    srcArray: null_mut(),
    srcPitch: 0,
    dstXInBytes: 0,
    dstY: 0,
    dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
    dstHost: null_mut(),
    dstDevice: 0,
    dstArray: null_mut(),
    dstPitch: 0,
    WidthInBytes: 0,
    Height: 0,
};
