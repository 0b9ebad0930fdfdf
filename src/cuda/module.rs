//! Compiled kernels: loaded once, found by name once, launched with typed parameters.
use std::cell::Cell;
use std::ffi::{CString, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::rc::Rc;

use super::arena::DeviceBuffer;
use super::context::Context;
use super::element::{Argument, Element};
use super::error::{GpuError, code_name};
use super::graph::KernelNode;
use super::images::{TOOLKITS, Toolkit};
use super::memory::Allocation;
use super::raw::newer::{FuncGetParamInfo, address};
use super::raw::{CUfunction, CUmodule, call, value};
use super::stream::Stream;

/// The module at the driver; unloaded with the last function, graph or variable of it.
pub(super) struct LoadedModule {
    raw: CUmodule,
    context: Context,
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // SAFETY: the module is this object's own. Graphs and functions hold it, so that none of
        // its code is used after this but work in flight, which ends first.
        let done = self.context.bind().and_then(|()| unsafe {
            call::cuCtxSynchronize()?;
            call::cuModuleUnload(self.raw)
        });
        self.context.record(done);
    }
}

/// One kernel file, `kernels/<name>.cu`, on the GPU.
pub struct Module {
    loaded: Rc<LoadedModule>,
    toolkit: (u32, u32),
    compiled_at_load: bool,
}

impl Module {
    /// Loads a kernel file: machine code of the newest toolkit that the driver takes; where none
    /// has code for this GPU, PTX, which the driver compiles now (slow: logged).
    ///
    /// # Errors
    /// [`GpuError::NoSuchName`], [`GpuError::NoImage`]; from the driver.
    pub fn load(context: &Context, name: &'static str) -> Result<Self, GpuError> {
        let arch = context.device().arch();
        let (ready, other): (Vec<_>, Vec<_>) = TOOLKITS.iter().partition(|t| t.has_code_for(arch));
        let mut tried = Vec::new();
        let mut known = false;
        context.bind()?;
        for (toolkit, compile) in ready
            .into_iter()
            .map(|t| (t, false))
            .chain(other.into_iter().map(|t| (t, true)))
        {
            let Some((_, image)) = toolkit.images.iter().find(|i| i.0 == name) else {
                continue;
            };
            known = true;
            let mut raw = null_mut();
            // SAFETY: a whole fatbin, aligned, alive for ever; the module goes to a local.
            let loaded =
                unsafe { call::cuModuleLoadData(&raw mut raw, image.bytes().as_ptr().cast()) };
            match context.note(loaded) {
                Ok(()) => {
                    let loaded = Rc::new(LoadedModule {
                        raw,
                        context: context.clone(),
                    });
                    if compile {
                        log::warn!(
                            "kernels/{name}.cu: no machine code for sm_{arch}, compiled from PTX by the driver"
                        );
                    }
                    return Ok(Self {
                        loaded,
                        toolkit: toolkit.version,
                        compiled_at_load: compile,
                    });
                }
                Err(GpuError::Driver { code, .. }) if is_refusal(code) => {
                    tried.push(describe(toolkit, code))
                }
                Err(e) => return Err(e),
            }
        }
        if !known {
            return Err(GpuError::NoSuchName {
                what: "kernel file",
                name: name.into(),
            });
        }
        let driver = context.device().driver_version;
        Err(GpuError::NoImage {
            module: name,
            arch,
            driver,
            tried: tried.join("; "),
        })
    }

    /// CUDA version of the toolkit whose image is in use.
    pub fn toolkit(&self) -> (u32, u32) {
        self.toolkit
    }

    /// Whether the driver had to compile PTX.
    pub fn is_compiled_at_load(&self) -> bool {
        self.compiled_at_load
    }

    /// Finds a kernel (`extern "C" __global__`) and holds its parameters against `A`, a tuple
    /// with one entry a parameter, by number and size (on drivers from CUDA 12.4 on; older ones
    /// don't tell).
    ///
    /// # Errors
    /// [`GpuError::NoSuchName`], [`GpuError::Signature`]; from the driver.
    pub fn function<A: Arguments>(&self, name: &'static str) -> Result<Function<A>, GpuError> {
        let context = &self.loaded.context;
        context.bind()?;
        let symbol = symbol(name)?;
        let mut raw = null_mut();
        // SAFETY: a live module, a name that ends with a zero; the result goes to a local.
        let found =
            unsafe { call::cuModuleGetFunction(&raw mut raw, self.loaded.raw, symbol.as_ptr()) };
        context
            .note(found)
            .map_err(|e| missing(e, "kernel", name))?;
        check_signature::<A>(raw, name)?;
        let attribute = |which: c_int| -> Result<u32, GpuError> {
            let mut value = 0;
            // SAFETY: the function just found; the result goes to a local.
            context.note(unsafe { call::cuFuncGetAttribute(&raw mut value, which, raw) })?;
            Ok(value.max(0) as u32)
        };
        let info = FunctionInfo {
            registers: attribute(value::FUNC_NUM_REGS)?,
            static_shared: attribute(value::FUNC_SHARED_SIZE_BYTES)?,
            local_bytes: attribute(value::FUNC_LOCAL_SIZE_BYTES)?,
            max_threads: attribute(value::FUNC_MAX_THREADS_PER_BLOCK)?,
            binary_arch: attribute(value::FUNC_BINARY_VERSION)?,
            ptx_arch: attribute(value::FUNC_PTX_VERSION)?,
        };
        let dynamic = Cell::new(attribute(value::FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES)?);
        Ok(Function {
            raw,
            name,
            module: self.loaded.clone(),
            info,
            dynamic,
            arguments: PhantomData,
        })
    }

    /// A variable of the module (`extern "C" __device__` or `__constant__`), to fill at start.
    ///
    /// # Errors
    /// [`GpuError::NoSuchName`], [`GpuError::Size`] when it is no whole number of elements.
    pub fn global<T: Element>(&self, name: &'static str) -> Result<DeviceBuffer<T>, GpuError> {
        let context = &self.loaded.context;
        context.bind()?;
        let symbol = symbol(name)?;
        let (mut base, mut bytes) = (0, 0);
        // SAFETY: a live module, a name that ends with a zero; the results go to locals.
        let found = unsafe {
            call::cuModuleGetGlobal_v2(
                &raw mut base,
                &raw mut bytes,
                self.loaded.raw,
                symbol.as_ptr(),
            )
        };
        context
            .note(found)
            .map_err(|e| missing(e, "global", name))?;
        let block = Allocation::global(context, name, base, bytes, self.loaded.clone());
        DeviceBuffer::<u8>::new(block, base, bytes).view()
    }
}

/// What the compiler made of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct FunctionInfo {
    /// Registers a thread.
    pub registers: u32,
    /// Static shared memory in bytes a block.
    pub static_shared: u32,
    /// Local memory in bytes a thread: spills and arrays that are indexed.
    pub local_bytes: u32,
    /// Most threads a block.
    pub max_threads: u32,
    /// Compute capability of the machine code in use.
    pub binary_arch: u32,
    /// Compute capability of the PTX that it was made from.
    pub ptx_arch: u32,
}

/// Grid, block and dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared: u32,
}

impl LaunchShape {
    /// One-dimensional.
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared: 0,
        }
    }

    /// Any; no dynamic shared memory.
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            shared: 0,
        }
    }

    /// One thread for each of `n`, in blocks of `threads`; at least one block.
    pub fn covering(n: usize, threads: u32) -> Self {
        let blocks = n.div_ceil(threads.max(1) as usize).max(1);
        Self::linear(u32::try_from(blocks).unwrap_or(u32::MAX), threads)
    }

    /// With so much dynamic shared memory.
    pub const fn with_shared(self, bytes: u32) -> Self {
        Self {
            shared: bytes,
            ..self
        }
    }
}

/// A kernel, ready to launch with parameters `A`.
///
/// What a kernel does with its parameters is its own affair: kernels are part of this program,
/// and like its other unsafe code they are trusted to stay inside the buffers they are given
/// (`compute-sanitizer` watches them in the checks). That parameters have the right number and
/// size and that their buffers are alive is checked here.
pub struct Function<A> {
    raw: CUfunction,
    name: &'static str,
    module: Rc<LoadedModule>,
    info: FunctionInfo,
    dynamic: Cell<u32>,
    arguments: PhantomData<fn(A)>,
}

impl<A: Arguments> Function<A> {
    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Registers, memory, threads.
    pub fn info(&self) -> FunctionInfo {
        self.info
    }

    /// Lets launches have up to so much dynamic shared memory; needed over 48 KiB.
    ///
    /// # Errors
    /// [`GpuError::Shape`] over what a block can have on this device; from the driver.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), GpuError> {
        let limit = self
            .module
            .context
            .device()
            .shared_per_block
            .saturating_sub(self.info.static_shared);
        self.check(
            "dynamic shared memory in bytes",
            bytes.max(1).into(),
            limit.into(),
        )?;
        self.set_attribute(value::FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)?;
        self.dynamic.set(bytes);
        Ok(())
    }

    /// Prefers so many percent of the first-level cache as shared memory.
    ///
    /// # Errors
    /// From the driver.
    pub fn prefer_shared(&self, percent: u32) -> Result<(), GpuError> {
        self.set_attribute(
            value::FUNC_PREFERRED_SHARED_MEMORY_CARVEOUT,
            percent.min(100),
        )
    }

    fn set_attribute(&self, which: c_int, value: u32) -> Result<(), GpuError> {
        let context = &self.module.context;
        context.bind()?;
        // SAFETY: a live function of the current context.
        context.note(unsafe { call::cuFuncSetAttribute(self.raw, which, value as c_int) })
    }

    /// Blocks of so many threads and so much dynamic shared memory that one multiprocessor holds.
    ///
    /// # Errors
    /// From the driver.
    pub fn blocks_per_sm(&self, threads: u32, shared: u32) -> Result<u32, GpuError> {
        let context = &self.module.context;
        context.bind()?;
        let mut blocks = 0;
        // SAFETY: a live function of the current context; the result goes to a local.
        context.note(unsafe {
            call::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.raw,
                threads as c_int,
                shared as usize,
            )
        })?;
        Ok(blocks.max(0) as u32)
    }

    /// Launches, asynchronously; in a capture: adds a node.
    ///
    /// # Errors
    /// [`GpuError::Shape`], [`GpuError::Dangling`], [`GpuError::Busy`]; from the driver.
    pub fn launch(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        arguments: &A,
    ) -> Result<(), GpuError> {
        self.start(stream, shape, arguments, false)
    }

    /// Launches so that all blocks run at once and can wait for each other.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); from the driver when the blocks do not fit at once.
    pub fn launch_cooperative(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        arguments: &A,
    ) -> Result<(), GpuError> {
        self.start(stream, shape, arguments, true)
    }

    /// In a capture: adds a node, and gives it, so that its parameters can be changed between
    /// launches of the graph ([`GraphExec::set_kernel`](super::GraphExec::set_kernel)).
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`GpuError::Capture`] outside a capture.
    pub fn launch_node(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        arguments: &A,
    ) -> Result<KernelNode<A>, GpuError> {
        let context = &self.module.context;
        context.bind()?;
        if !context.is_capturing(stream.raw())? {
            return Err(GpuError::Capture("a node is only made in a capture"));
        }
        self.start(stream, shape, arguments, false)?;
        KernelNode::last(stream, self.raw, self.name, self.module.clone())
    }

    fn start(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        arguments: &A,
        together: bool,
    ) -> Result<(), GpuError> {
        let context = &self.module.context;
        context.same(stream.context(), "stream")?;
        self.check_shape(shape)?;
        let work = stream.begin()?;
        let mut alive = Ok(());
        arguments.addresses(&mut |address| {
            if alive.is_ok() {
                alive = work.touch_address(self.name, address);
            }
        });
        alive?;
        if work.is_captured()
            && let Some(capture) = context.inner().capture.borrow_mut().as_mut()
        {
            capture.modules.push(self.module.clone());
        }
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        context.note(arguments.with_pointers(|pointers| {
            // SAFETY: a live function and stream of the current context; the pointers are to one
            // value for each parameter, of its size (checked when it was found, where the driver
            // tells), and the driver copies them before it returns. Addresses in them are alive
            // and stay so until the work is done.
            unsafe {
                if together {
                    call::cuLaunchCooperativeKernel(
                        self.raw,
                        gx,
                        gy,
                        gz,
                        bx,
                        by,
                        bz,
                        shape.shared,
                        stream.raw(),
                        pointers,
                    )
                } else {
                    call::cuLaunchKernel(
                        self.raw,
                        gx,
                        gy,
                        gz,
                        bx,
                        by,
                        bz,
                        shape.shared,
                        stream.raw(),
                        pointers,
                        null_mut(),
                    )
                }
            }
        }))
    }

    pub(super) fn check_shape(&self, shape: LaunchShape) -> Result<(), GpuError> {
        let grid_limits = [i32::MAX as u64, 65_535, 65_535];
        let block_limits = [1024, 1024, 64];
        for (found, limit) in shape.grid.into_iter().zip(grid_limits) {
            self.check("blocks", found.into(), limit)?;
        }
        for (found, limit) in shape.block.into_iter().zip(block_limits) {
            self.check("threads in one direction", found.into(), limit)?;
        }
        let threads = shape.block.iter().map(|&n| u64::from(n)).product();
        self.check("threads of a block", threads, self.info.max_threads.into())?;
        if shape.shared > self.dynamic.get() {
            self.check(
                "dynamic shared memory in bytes",
                shape.shared.into(),
                self.dynamic.get().into(),
            )?;
        }
        Ok(())
    }

    fn check(&self, what: &'static str, found: u64, limit: u64) -> Result<(), GpuError> {
        if (1..=limit).contains(&found) {
            return Ok(());
        }
        Err(GpuError::Shape {
            kernel: self.name,
            what,
            found,
            limit,
        })
    }

    pub(super) fn raw(&self) -> CUfunction {
        self.raw
    }
}

/// The parameters of a kernel: a tuple of [`Argument`]s, up to 24; `()` for none.
pub trait Arguments {
    /// Bytes of each.
    const SIZES: &'static [usize];

    /// Names every device address in them.
    fn addresses(&self, visit: &mut dyn FnMut(u64));

    /// Calls `f` with an array of pointers to each. For this room.
    #[doc(hidden)]
    fn with_pointers<Out>(&self, f: impl FnOnce(*mut *mut c_void) -> Out) -> Out;
}

macro_rules! arguments {
    ($($name:ident)*) => {
        impl<$($name: Argument),*> Arguments for ($($name,)*) {
            const SIZES: &'static [usize] = &[$(size_of::<$name>()),*];

            fn addresses(&self, visit: &mut dyn FnMut(u64)) {
                let _ = &visit;
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                $($name.addresses(visit);)*
            }

            fn with_pointers<Out>(&self, f: impl FnOnce(*mut *mut c_void) -> Out) -> Out {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                // One more in front, so that the array has a type also where there are none.
                let mut pointers = [null_mut::<c_void>(), $((&raw const *$name).cast_mut().cast()),*];
                f(pointers[1..].as_mut_ptr())
            }
        }
    };
}
macro_rules! all_arguments {
    ($($first:ident $($rest:ident)*)?) => {
        arguments!($($first $($rest)*)?);
        $(all_arguments!($($rest)*);)?
    };
}
all_arguments!(A B C D E F G H I J K L M N O P Q R S T U V W X);

/// Holds the host's idea of a kernel's parameters against the device's.
fn check_signature<A: Arguments>(
    function: CUfunction,
    kernel: &'static str,
) -> Result<(), GpuError> {
    let Some(address) = address(c"cuFuncGetParamInfo") else {
        return Ok(());
    };
    // SAFETY: the driver's own look-up gave this address for this name and version, and the type
    // is that version's declaration.
    let param_info = unsafe { std::mem::transmute::<*mut c_void, FuncGetParamInfo>(address) };
    for index in 0..=A::SIZES.len() {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: a live function; the results go to locals. Past the last it answers an error.
        let code = unsafe { param_info(function, index, &raw mut offset, &raw mut size) };
        let found = if code == 0 { size } else { 0 };
        let expected = A::SIZES.get(index).copied().unwrap_or(0);
        if found != expected {
            return Err(GpuError::Signature {
                kernel,
                index,
                found,
                expected,
            });
        }
    }
    Ok(())
}

/// Codes by which a driver says that an image is not for it.
fn is_refusal(code: i32) -> bool {
    matches!(code, 200 | 209 | 218 | 221 | 222 | 223 | 225 | 300 | 801)
}

fn describe(toolkit: &Toolkit, code: i32) -> String {
    let (major, minor) = toolkit.version;
    let ptx = toolkit
        .ptx
        .map(|p| format!(" and PTX {p}"))
        .unwrap_or_default();
    format!(
        "CUDA {major}.{minor} for {:?}{ptx}: {}",
        toolkit.archs,
        code_name(code)
    )
}

fn symbol(name: &str) -> Result<CString, GpuError> {
    CString::new(name).map_err(|_| GpuError::NoSuchName {
        what: "name",
        name: name.into(),
    })
}

fn missing(error: GpuError, what: &'static str, name: &str) -> GpuError {
    if error.code() == Some(500) {
        GpuError::NoSuchName {
            what,
            name: name.into(),
        }
    } else {
        error
    }
}
