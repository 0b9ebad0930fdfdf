//! The GPU: context, streams, events, memory, kernels and graphs, over CUDA's driver API.
//!
//! # Layers
//! `raw` declares the driver's calls and turns their codes into results; everything else is
//! safe to use. Handles' types and the link to libcuda come from `cust::sys`; the rest of `cust`
//! is not used (its error type can't hold newer codes, its streams and graphs have holes).
//!
//! # Rules
//! - One thread owns the GPU: nothing here is `Send`. The context is current on that thread and
//!   everything made in a context keeps it alive.
//! - Everything is made at start: [`ArenaLayout`] states the bytes before anything is allocated,
//!   [`Arena`] allocates once, [`Module`] and [`Function`] are found once, [`Stream::capture`]
//!   records a frame's work once. Copies, launches, [`GraphExec::launch`], [`GraphExec::set_kernel`]
//!   and waits allocate nothing on the host.
//! - Copies are asynchronous, on streams of our own, from and to [`Pinned`] memory. The host
//!   gets at that memory only when the device is known to be done with it.
//! - Drop never panics: what fails there is kept for [`Context::take_error`] and logged.
//! - A [sticky](Class::Sticky) error loses the context for good: whoever sees one stops
//!   publishing and ends the process with an error. [`Context::sticky`] has the first.
//!
//! # A stage
//! ```no_run
//! use roadloop::cuda::*;
//! # fn main() -> Result<(), GpuError> {
//! let context = Context::new(&ContextOptions::default())?;
//! let stream = Stream::new(&context, Priority::High)?;
//! let mut layout = ArenaLayout::new();
//! let slot = layout.reserve::<u32>("numbers", 1000);
//! let arena = Arena::new(&context, "example", layout)?;
//! let numbers = arena.buffer(slot)?;
//! let host = Pinned::<u32>::new(&context, "numbers on the host", 1000)?;
//!
//! let module = Module::load(&context, "selftest")?;
//! let add = module.function::<(DevicePtr<u32>, u32, u32)>("selftest_add")?;
//! let graph = stream.capture::<GpuError>(|stream| {
//!     stream.copy_to_device(&host, &numbers)?;
//!     add.launch(stream, LaunchShape::covering(1000, 256), &(numbers.ptr(), 1000, 7))?;
//!     stream.copy_to_host(&numbers, &host)
//! })?;
//! let graph = graph.instantiate()?;
//!
//! host.write()?.fill(35);
//! graph.launch(&stream)?;
//! stream.synchronize()?;
//! assert!(host.read()?.iter().all(|&n| n == 42));
//! # Ok(())
//! # }
//! ```
#![allow(unsafe_code)]

mod arena;
mod context;
mod device;
mod element;
mod error;
mod graph;
mod green;
mod images;
mod memory;
mod module;
mod pinned;
mod raw;
mod stream;

pub use arena::{ALIGNMENT, Arena, ArenaLayout, DeviceBuffer, Slot};
pub use context::{Context, ContextOptions, Wait};
pub use device::DeviceInfo;
#[doc(hidden)]
pub use element::DeviceCopy;
pub use element::{Argument, DevicePtr, Element, Number};
pub use error::{Class, GpuError, class_of, code_name};
pub use graph::{Graph, GraphExec, KernelNode};
pub use module::{Arguments, Function, FunctionInfo, LaunchShape, Module};
pub use pinned::{Pinned, PinnedMut, PinnedRef};
pub use stream::{Event, Priority, Stream};
