//! The GPU context of one thread: everything else in this room belongs to one.
use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::rc::{Rc, Weak};

use super::device::{self, DeviceInfo};
use super::error::GpuError;
use super::graph::CaptureState;
use super::green::GreenContext;
use super::memory::Allocation;
use super::raw::{CUcontext, CUdevice, CUstream, call, value};

/// How a host thread waits for the GPU.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Spins: some 8 µs sooner, and one core busy while it waits. For the loop's own core.
    #[default]
    Spin,
    /// Spins, but lets other threads run.
    Yield,
    /// Sleeps until the device interrupts.
    Block,
}

/// What a context is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextOptions {
    /// The GPU's number, from 0.
    pub device: u32,
    /// How the host waits.
    pub wait: Wait,
    /// A slice of at least so many multiprocessors instead of the whole GPU (green context).
    pub sms: Option<u32>,
    /// Most device memory that may be allocated, in bytes.
    pub device_limit: u64,
    /// Most page-locked host memory that may be allocated, in bytes.
    pub pinned_limit: u64,
}

impl Default for ContextOptions {
    /// The first GPU, whole, spinning; 2 GiB on the device and 512 MiB page-locked.
    fn default() -> Self {
        Self {
            device: 0,
            wait: Wait::Spin,
            sms: None,
            device_limit: 2 << 30,
            pinned_limit: 512 << 20,
        }
    }
}

/// The GPU, for one thread. Clones are the same context; it ends with the last thing that was
/// made in it. It can't be sent to another thread (the driver keeps the current context by
/// thread), and neither can anything made in it.
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<roadloop::cuda::Context>();
/// ```
#[derive(Clone)]
pub struct Context {
    inner: Rc<Inner>,
}

pub(super) struct Inner {
    raw: CUcontext,
    handle: CUdevice,
    green: Option<GreenContext>,
    info: DeviceInfo,
    limits: [u64; 2],
    used: [Cell<u64>; 2],
    /// Live allocations by device address, so that a kernel's pointers can be checked.
    allocations: RefCell<Vec<(u64, Weak<Allocation>)>>,
    pub(super) capture: RefCell<Option<CaptureState>>,
    sticky: RefCell<Option<GpuError>>,
    recorded: RefCell<Option<GpuError>>,
}

/// Kinds of memory that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Device = 0,
    Pinned = 1,
}

/// The driver's code for flags of a context that is in use.
const PRIMARY_CONTEXT_ACTIVE: i32 = 708;

thread_local! {
    /// The context that this room made current on this thread.
    static CURRENT: Cell<CUcontext> = const { Cell::new(null_mut()) };
}

impl Context {
    /// Starts the driver and makes a context, current on this thread. A device's whole contexts
    /// share the driver's primary context.
    ///
    /// # Errors
    /// Of class [`NoDevice`](super::Class::NoDevice) where there is no driver or device or it
    /// can't give a slice; others from the driver.
    pub fn new(options: &ContextOptions) -> Result<Self, GpuError> {
        let (handle, info) = device::open(options.device)?;
        let flags = match options.wait {
            Wait::Spin => value::CTX_SCHED_SPIN,
            Wait::Yield => value::CTX_SCHED_YIELD,
            Wait::Block => value::CTX_SCHED_BLOCKING_SYNC,
        };
        let mut primary = null_mut();
        // SAFETY: the device was given by the driver; the context goes to a local and is released
        // in Inner's Drop, or below.
        unsafe {
            match call::cuDevicePrimaryCtxSetFlags_v2(handle, flags) {
                // Older drivers keep the flags of a primary context that is in use already.
                Err(e) if e.code() == Some(PRIMARY_CONTEXT_ACTIVE) => {}
                other => other?,
            }
            call::cuDevicePrimaryCtxRetain(&raw mut primary, handle)?;
        }
        let green = options
            .sms
            .map(|sms| GreenContext::new(handle, sms, info.driver_version));
        let green = match green.transpose() {
            Ok(green) => green,
            Err(e) => {
                // SAFETY: retained above.
                let _ = unsafe { call::cuDevicePrimaryCtxRelease_v2(handle) };
                return Err(e);
            }
        };
        let inner = Inner {
            raw: green.as_ref().map_or(primary, |g| g.context),
            handle,
            green,
            info,
            limits: [options.device_limit, options.pinned_limit],
            used: Default::default(),
            allocations: RefCell::default(),
            capture: RefCell::default(),
            sticky: RefCell::default(),
            recorded: RefCell::default(),
        };
        let context = Self {
            inner: Rc::new(inner),
        };
        context.bind()?;
        Ok(context)
    }

    /// What the GPU is.
    pub fn device(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Multiprocessors that work of this context runs on.
    pub fn sms(&self) -> u32 {
        self.inner
            .green
            .as_ref()
            .map_or(self.inner.info.sms, |g| g.sms)
    }

    /// Waits until all work of this context is done.
    ///
    /// # Errors
    /// From the driver, also those of earlier asynchronous work.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.bind()?;
        // SAFETY: the context is current.
        self.note(unsafe { call::cuCtxSynchronize() })
    }

    /// Bytes allocated now: on the device, page-locked.
    pub fn allocated(&self) -> (u64, u64) {
        (self.inner.used[0].get(), self.inner.used[1].get())
    }

    /// Bytes of device memory: free now, in all.
    ///
    /// # Errors
    /// From the driver.
    pub fn free_memory(&self) -> Result<(u64, u64), GpuError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the results go to locals.
        self.note(unsafe { call::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Whether so much more would stay within the limits; nothing is allocated. For checking a
    /// whole configuration before start.
    ///
    /// # Errors
    /// [`GpuError::Limit`] for the first that would not.
    pub fn check_limits(
        &self,
        name: &str,
        device_bytes: u64,
        pinned_bytes: u64,
    ) -> Result<(), GpuError> {
        self.check_limit(Memory::Device, name, device_bytes)?;
        self.check_limit(Memory::Pinned, name, pinned_bytes)
    }

    /// The error that lost this context, if one did: the first sticky one. Whoever sees one stops
    /// publishing and ends the process.
    pub fn sticky(&self) -> Option<GpuError> {
        self.inner.sticky.borrow().clone()
    }

    /// The first error since the last call of this that had nowhere to go (a failed free in a
    /// Drop).
    ///
    /// # Errors
    /// That one.
    pub fn take_error(&self) -> Result<(), GpuError> {
        self.inner.recorded.take().map_or(Ok(()), Err)
    }

    /// Makes the context current on this thread, if it is not.
    pub(super) fn bind(&self) -> Result<(), GpuError> {
        self.inner.bind()
    }

    /// Looks at a result on its way: a sticky error is remembered.
    pub(super) fn note<T>(&self, result: Result<T, GpuError>) -> Result<T, GpuError> {
        if let Err(e) = &result {
            self.inner.remember(e);
        }
        result
    }

    /// Keeps an error that comes up where none can be returned.
    pub(super) fn record(&self, result: Result<(), GpuError>) {
        self.inner.record(result);
    }

    pub(super) fn same(&self, other: &Context, what: &'static str) -> Result<(), GpuError> {
        if Rc::ptr_eq(&self.inner, &other.inner) {
            Ok(())
        } else {
            Err(GpuError::OtherContext { what })
        }
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub(super) fn check_limit(&self, kind: Memory, name: &str, bytes: u64) -> Result<(), GpuError> {
        let (used, limit) = (
            self.inner.used[kind as usize].get(),
            self.inner.limits[kind as usize],
        );
        let needed = used.saturating_add(bytes);
        if needed <= limit {
            return Ok(());
        }
        let kind = if kind == Memory::Device {
            "device"
        } else {
            "page-locked"
        };
        Err(GpuError::Limit {
            kind,
            name: name.into(),
            needed,
            limit,
        })
    }

    /// Enters an allocation into the books.
    pub(super) fn enter(&self, kind: Option<Memory>, allocation: &Rc<Allocation>) {
        if let Some(kind) = kind {
            let used = &self.inner.used[kind as usize];
            used.set(used.get() + allocation.bytes() as u64);
        }
        let mut list = self.inner.allocations.borrow_mut();
        let at = list.partition_point(|a| a.0 < allocation.base());
        list.insert(at, (allocation.base(), Rc::downgrade(allocation)));
    }

    /// Takes an allocation out of the books; its memory is about to be freed.
    pub(super) fn leave(&self, kind: Option<Memory>, base: u64, bytes: usize) {
        if let Some(kind) = kind {
            let used = &self.inner.used[kind as usize];
            used.set(used.get().saturating_sub(bytes as u64));
        }
        self.inner
            .allocations
            .borrow_mut()
            .retain(|a| a.0 != base || a.1.strong_count() > 0);
    }

    /// The live allocation that an address lies in.
    pub(super) fn find(&self, address: u64) -> Option<Rc<Allocation>> {
        let list = self.inner.allocations.borrow();
        let at = list.partition_point(|a| a.0 <= address).checked_sub(1)?;
        let allocation = list[at].1.upgrade()?;
        // One past the end is fine: the address of an empty buffer.
        (address - allocation.base() <= allocation.bytes() as u64).then_some(allocation)
    }

    /// Whether work that is given to the stream now is recorded and not run.
    pub(super) fn is_capturing(&self, stream: CUstream) -> Result<bool, GpuError> {
        if self.inner.capture.borrow().is_none() {
            return Ok(false);
        }
        let mut status = 0;
        // SAFETY: a live stream of this context; the result goes to a local.
        self.note(unsafe { call::cuStreamIsCapturing(stream, &raw mut status) })?;
        Ok(status == value::STREAM_CAPTURE_STATUS_ACTIVE)
    }
}

impl Inner {
    fn bind(&self) -> Result<(), GpuError> {
        if CURRENT.get() != self.raw {
            // SAFETY: the context lives as long as self.
            unsafe { call::cuCtxSetCurrent(self.raw)? };
            CURRENT.set(self.raw);
        }
        Ok(())
    }

    fn remember(&self, error: &GpuError) {
        if error.is_sticky() {
            self.sticky
                .borrow_mut()
                .get_or_insert_with(|| error.clone());
        }
    }

    fn record(&self, result: Result<(), GpuError>) {
        if let Err(e) = result {
            self.remember(&e);
            log::warn!("while giving back GPU resources: {e}");
            self.recorded.borrow_mut().get_or_insert(e);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if CURRENT.get() == self.raw {
            CURRENT.set(null_mut());
            // SAFETY: no context at all is always allowed.
            self.record(unsafe { call::cuCtxSetCurrent(null_mut()) });
        }
        if let Some(green) = &self.green {
            self.record(green.destroy());
        }
        // SAFETY: retained in Context::new.
        self.record(unsafe { call::cuDevicePrimaryCtxRelease_v2(self.handle) });
    }
}
