//! One allocation, device or page-locked, and who uses it at the moment.
//!
//! The driver works on memory after a call has returned. A page-locked buffer therefore notes
//! each piece of device work that touches it as a ticket of the stream, and the host gets at its
//! bytes only when that ticket is known to be done. Nothing here allocates after start.
use std::cell::{Cell, RefCell};
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::context::{Context, Memory};
use super::error::GpuError;
use super::module::LoadedModule;
use super::raw::{CUdeviceptr, call, value};

/// Tickets of one stream: how much work it was given, and how much of that is known to be done.
#[derive(Default)]
pub(super) struct Progress {
    submitted: Cell<u64>,
    completed: Cell<u64>,
}

impl Progress {
    /// The ticket of the next piece of work.
    pub fn next(&self) -> u64 {
        self.submitted.set(self.submitted.get() + 1);
        self.submitted.get()
    }

    pub fn submitted(&self) -> u64 {
        self.submitted.get()
    }

    /// Everything up to this ticket is done.
    pub fn complete(&self, ticket: u64) {
        self.completed.set(self.completed.get().max(ticket));
    }
}

/// Device work on a page-locked buffer.
struct Flight {
    progress: Rc<Progress>,
    ticket: u64,
    writes: bool,
}

impl Flight {
    fn is_done(&self) -> bool {
        self.ticket <= self.progress.completed.get()
    }
}

/// Streams that may work on one page-locked buffer at a time.
const FLIGHTS: usize = 4;

enum Kind {
    Device,
    Pinned(NonNull<u8>),
    /// A variable of a module; freed with it.
    Global(#[allow(dead_code)] Rc<LoadedModule>),
}

/// Memory that the GPU can reach. Freed when the last buffer, view or graph that uses it goes.
pub(super) struct Allocation {
    context: Context,
    name: String,
    base: CUdeviceptr,
    bytes: usize,
    kind: Kind,
    /// Host readers, or -1 for a writer.
    guards: Cell<isize>,
    flights: RefCell<[Option<Flight>; FLIGHTS]>,
}

impl Allocation {
    /// Device memory, counted and checked against the limit first.
    pub fn device(context: &Context, name: &str, bytes: usize) -> Result<Rc<Self>, GpuError> {
        context.check_limit(Memory::Device, name, bytes as u64)?;
        context.bind()?;
        let mut base = 0;
        // SAFETY: the address goes to a local; at least one byte is asked for.
        context.note(unsafe { call::cuMemAlloc_v2(&raw mut base, bytes.max(1)) })?;
        Ok(Self::enter(context, name, base, bytes, Kind::Device))
    }

    /// Page-locked host memory, mapped for the device, zeroed; counted and checked likewise.
    /// Cached by the CPU (never write-combined), for every context.
    pub fn pinned(context: &Context, name: &str, bytes: usize) -> Result<Rc<Self>, GpuError> {
        context.check_limit(Memory::Pinned, name, bytes as u64)?;
        context.bind()?;
        let (mut host, mut base) = (null_mut(), 0);
        let flags = value::MEMHOSTALLOC_PORTABLE | value::MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the address goes to a local; the block is then as large as asked for, and
        // nobody else's.
        let host = unsafe {
            context.note(call::cuMemHostAlloc(&raw mut host, bytes.max(1), flags))?;
            let host = NonNull::new(host.cast::<u8>()).ok_or(GpuError::Driver {
                call: "cuMemHostAlloc",
                code: 2,
            })?;
            host.write_bytes(0, bytes);
            let mapped = call::cuMemHostGetDevicePointer_v2(&raw mut base, host.as_ptr().cast(), 0);
            if let Err(e) = context.note(mapped) {
                context.record(call::cuMemFreeHost(host.as_ptr().cast()));
                return Err(e);
            }
            host
        };
        Ok(Self::enter(context, name, base, bytes, Kind::Pinned(host)))
    }

    /// A module's variable.
    pub fn global(
        context: &Context,
        name: &str,
        base: u64,
        bytes: usize,
        module: Rc<LoadedModule>,
    ) -> Rc<Self> {
        Self::enter(context, name, base, bytes, Kind::Global(module))
    }

    fn enter(context: &Context, name: &str, base: u64, bytes: usize, kind: Kind) -> Rc<Self> {
        let allocation = Rc::new(Self {
            context: context.clone(),
            name: name.into(),
            base,
            bytes,
            kind,
            guards: Cell::new(0),
            flights: RefCell::default(),
        });
        context.enter(allocation.counted(), &allocation);
        allocation
    }

    fn counted(&self) -> Option<Memory> {
        match self.kind {
            Kind::Device => Some(Memory::Device),
            Kind::Pinned(_) => Some(Memory::Pinned),
            Kind::Global(_) => None,
        }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The host's address of page-locked memory.
    pub fn host(&self) -> Option<NonNull<u8>> {
        match self.kind {
            Kind::Pinned(host) => Some(host),
            _ => None,
        }
    }

    /// Notes device work that is about to be started. Plain device memory needs no note.
    pub fn fly(&self, progress: &Rc<Progress>, ticket: u64, writes: bool) -> Result<(), GpuError> {
        if self.host().is_none() {
            return Ok(());
        }
        self.check_guards(writes)?;
        let mut flights = self.flights.borrow_mut();
        let own = flights.iter().position(|f| {
            f.as_ref()
                .is_some_and(|f| Rc::ptr_eq(&f.progress, progress))
        });
        if let Some(flight) = own.and_then(|i| flights[i].as_mut()) {
            flight.writes = writes || (flight.writes && !flight.is_done());
            flight.ticket = ticket;
            return Ok(());
        }
        let free = flights
            .iter_mut()
            .find(|f| f.as_ref().is_none_or(Flight::is_done));
        match free {
            Some(slot) => {
                *slot = Some(Flight {
                    progress: progress.clone(),
                    ticket,
                    writes,
                });
                Ok(())
            }
            None => Err(self.busy("device, on too many streams")),
        }
    }

    fn check_guards(&self, writes: bool) -> Result<(), GpuError> {
        let guards = self.guards.get();
        if guards < 0 || (writes && guards > 0) {
            Err(self.busy("host"))
        } else {
            Ok(())
        }
    }

    /// The host starts to read.
    pub fn lock_shared(&self) -> Result<(), GpuError> {
        if self.in_flight(|f| f.writes) {
            return Err(self.busy("device"));
        }
        match self.guards.get() {
            guards @ 0.. => self.guards.set(guards + 1),
            _ => return Err(self.busy("host")),
        }
        Ok(())
    }

    /// The host starts to write.
    pub fn lock_exclusive(&self) -> Result<(), GpuError> {
        if self.in_flight(|_| true) {
            return Err(self.busy("device"));
        }
        if self.guards.get() != 0 {
            return Err(self.busy("host"));
        }
        self.guards.set(-1);
        Ok(())
    }

    pub fn unlock_shared(&self) {
        self.guards.set(self.guards.get() - 1);
    }

    pub fn unlock_exclusive(&self) {
        self.guards.set(0);
    }

    fn in_flight(&self, which: impl Fn(&Flight) -> bool) -> bool {
        self.flights
            .borrow()
            .iter()
            .flatten()
            .any(|f| which(f) && !f.is_done())
    }

    fn busy(&self, by: &'static str) -> GpuError {
        GpuError::Busy {
            name: self.name.clone(),
            by,
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.context.leave(self.counted(), self.base, self.bytes);
        if matches!(self.kind, Kind::Global(_)) {
            return;
        }
        // Work that still uses the memory ends first; a lost context can't, and frees nothing.
        let free = self.context.bind().and_then(|()| {
            // SAFETY: the context is current; the block is this object's own and freed once, in
            // the way that goes with how it was allocated.
            unsafe {
                call::cuCtxSynchronize()?;
                match self.kind {
                    Kind::Pinned(host) => call::cuMemFreeHost(host.as_ptr().cast()),
                    _ => call::cuMemFree_v2(self.base),
                }
            }
        });
        self.context.record(free);
    }
}
