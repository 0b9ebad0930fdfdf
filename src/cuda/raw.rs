//! The driver calls that this room uses, declared here and not taken from `cust::sys`: those
//! return a Rust enum that ends with CUDA 11.4, and a newer driver's code in it is undefined
//! behaviour. Types of handles come from `cust::sys`, which also names the library to link.
//!
//! Everything declared here exists in drivers from CUDA 11.4 (JetPack 5.1) on, so that the
//! program starts there; what came later is looked up at run time ([`newer`]).
use std::ffi::{CStr, c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

pub use cust::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction,
    CUgraph, CUgraphExec, CUgraphNode, CUmemorytype, CUmodule, CUstream,
};

use super::error::{GpuError, check};

/// Declares each call as the driver has it, and beside it one of the same name in [`call`] that
/// turns the code into a `Result`.
macro_rules! driver_calls {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        mod driver {
            use super::*;
            unsafe extern "C" {
                $(pub fn $name($($arg: $type),*) -> c_int;)*
            }
        }

        /// The calls with their code as a `Result`.
        ///
        /// # Safety
        /// As the driver's documentation says: handles live and of the current context, pointers
        /// valid for what the call reads or writes, asynchronous ones until the work is done.
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc)]
        pub mod call {
            use super::*;
            $(pub unsafe fn $name($($arg: $type),*) -> Result<(), GpuError> {
                // SAFETY: the caller keeps the call's own contract; the declaration is the
                // driver's, with the enum it returns as the int that it is in C.
                check(stringify!($name), unsafe { driver::$name($($arg),*) })
            })*
        }
    };
}

driver_calls! {
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxSynchronize();
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamQuery(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuStreamIsCapturing(stream: CUstream, status: *mut c_int);
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_int);
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    fn cuStreamGetCaptureInfo_v2(stream: CUstream, status: *mut c_int, id: *mut u64, graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode, count: *mut usize);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);
    fn cuEventSynchronize(event: CUevent);
    fn cuEventQuery(event: CUevent);
    fn cuEventElapsedTime(milliseconds: *mut c_float, start: CUevent, end: CUevent);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(pointer: CUdeviceptr);
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemHostGetDevicePointer_v2(pointer: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
    fn cuMemFreeHost(pointer: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream);
    fn cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream);
    fn cuMemsetD16Async(to: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream);
    fn cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    fn cuModuleUnload(module: CUmodule);
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuModuleGetGlobal_v2(pointer: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char);
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: CUfunction);
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize);
    fn cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        arguments: *mut *mut c_void, extra: *mut *mut c_void);
    fn cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        arguments: *mut *mut c_void);
    fn cuGraphDestroy(graph: CUgraph);
    fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    fn cuGraphExecDestroy(exec: CUgraphExec);
    fn cuGraphUpload(exec: CUgraphExec, stream: CUstream);
    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    fn cuGraphExecUpdate(exec: CUgraphExec, graph: CUgraph, error_node: *mut CUgraphNode, outcome: *mut c_int);
    fn cuGraphExecKernelNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
    fn cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64);
}

/// Values of the driver's enums and flags, by the header's names without the prefix.
#[allow(missing_docs)]
pub mod value {
    use super::{c_int, c_uint};
    pub const CTX_SCHED_SPIN: c_uint = 1;
    pub const CTX_SCHED_YIELD: c_uint = 2;
    pub const CTX_SCHED_BLOCKING_SYNC: c_uint = 4;
    pub const STREAM_NON_BLOCKING: c_uint = 1;
    pub const STREAM_CAPTURE_MODE_THREAD_LOCAL: c_int = 1;
    pub const STREAM_CAPTURE_STATUS_ACTIVE: c_int = 1;
    pub const EVENT_BLOCKING_SYNC: c_uint = 1;
    pub const EVENT_DISABLE_TIMING: c_uint = 2;
    pub const EVENT_RECORD_EXTERNAL: c_uint = 1;
    pub const MEMHOSTALLOC_PORTABLE: c_uint = 1;
    pub const MEMHOSTALLOC_DEVICEMAP: c_uint = 2;
    pub const FUNC_MAX_THREADS_PER_BLOCK: c_int = 0;
    pub const FUNC_SHARED_SIZE_BYTES: c_int = 1;
    pub const FUNC_LOCAL_SIZE_BYTES: c_int = 3;
    pub const FUNC_NUM_REGS: c_int = 4;
    pub const FUNC_PTX_VERSION: c_int = 5;
    pub const FUNC_BINARY_VERSION: c_int = 6;
    pub const FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
    pub const FUNC_PREFERRED_SHARED_MEMORY_CARVEOUT: c_int = 9;
    pub const DEVICE_CLOCK_RATE: c_int = 13;
    pub const DEVICE_MULTIPROCESSOR_COUNT: c_int = 16;
    pub const DEVICE_INTEGRATED: c_int = 18;
    pub const DEVICE_MEMORY_CLOCK_RATE: c_int = 36;
    pub const DEVICE_GLOBAL_MEMORY_BUS_WIDTH: c_int = 37;
    pub const DEVICE_L2_CACHE_SIZE: c_int = 38;
    pub const DEVICE_MAX_THREADS_PER_MULTIPROCESSOR: c_int = 39;
    pub const DEVICE_COMPUTE_CAPABILITY_MAJOR: c_int = 75;
    pub const DEVICE_COMPUTE_CAPABILITY_MINOR: c_int = 76;
    pub const DEVICE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: c_int = 81;
    pub const DEVICE_MAX_REGISTERS_PER_MULTIPROCESSOR: c_int = 82;
    pub const DEVICE_COOPERATIVE_LAUNCH: c_int = 95;
    pub const DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
}

/// Calls younger than the oldest driver that the program starts with.
pub mod newer {
    use super::*;

    /// What a resource descriptor of a green context looks like from CUDA 12.4 on.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct DevResource {
        pub kind: c_int,
        padding: [u8; 92],
        pub sm_count: c_uint,
        pub sm_min_partition: c_uint,
        pub sm_alignment: c_uint,
        oversize: [u8; 36],
    }

    impl DevResource {
        /// `CU_DEV_RESOURCE_TYPE_SM`.
        pub const SM: c_int = 1;

        pub const fn empty() -> Self {
            Self {
                kind: 0,
                padding: [0; 92],
                sm_count: 0,
                sm_min_partition: 0,
                sm_alignment: 0,
                oversize: [0; 36],
            }
        }
    }
    const _: () = assert!(size_of::<DevResource>() == 144);

    pub type Handle = *mut c_void;
    pub type DeviceGetDevResource =
        unsafe extern "C" fn(CUdevice, *mut DevResource, c_int) -> c_int;
    pub type DevSmResourceSplitByCount = unsafe extern "C" fn(
        *mut DevResource,
        *mut c_uint,
        *const DevResource,
        *mut DevResource,
        c_uint,
        c_uint,
    ) -> c_int;
    pub type DevResourceGenerateDesc =
        unsafe extern "C" fn(*mut Handle, *mut DevResource, c_uint) -> c_int;
    pub type GreenCtxCreate = unsafe extern "C" fn(*mut Handle, Handle, CUdevice, c_uint) -> c_int;
    pub type GreenCtxDestroy = unsafe extern "C" fn(Handle) -> c_int;
    pub type CtxFromGreenCtx = unsafe extern "C" fn(*mut CUcontext, Handle) -> c_int;
    pub type FuncGetParamInfo =
        unsafe extern "C" fn(CUfunction, usize, *mut usize, *mut usize) -> c_int;

    /// The CUDA version that all of them came with.
    pub const VERSION: c_int = 12040;

    /// The call's address, if this driver has it.
    pub fn address(name: &CStr) -> Option<*mut c_void> {
        let mut function = std::ptr::null_mut();
        // SAFETY: the name ends with a zero, the result goes to a local.
        let found = unsafe { call::cuGetProcAddress(name.as_ptr(), &raw mut function, VERSION, 0) };
        (found.is_ok() && !function.is_null()).then_some(function)
    }
}
