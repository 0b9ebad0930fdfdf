//! What GPUs there are, and what each can do.
use std::ffi::{c_char, c_int};
use std::fmt;

use super::error::GpuError;
use super::raw::{CUdevice, call, value};

/// One GPU, as the driver describes it; goes into the provenance of every measurement.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub ordinal: u32,
    /// Marketing name.
    pub name: String,
    /// Compute capability, major and minor: (8, 7) for Orin.
    pub compute: (u32, u32),
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Memory in bytes; on a Jetson the system's.
    pub memory_bytes: u64,
    /// Second-level cache in bytes.
    pub l2_bytes: u32,
    /// Peak clock of the multiprocessors in kHz; 0 where the driver does not tell.
    pub clock_khz: u32,
    /// Peak clock of the memory in kHz; 0 where the driver does not tell.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
    /// Most shared memory that one block can have, in bytes, if its kernel opts in.
    pub shared_per_block: u32,
    /// Shared memory of one multiprocessor in bytes.
    pub shared_per_sm: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_sm: u32,
    /// Threads that one multiprocessor can hold.
    pub threads_per_sm: u32,
    /// Shares its memory with the host (Jetson).
    pub integrated: bool,
    /// Can launch cooperative kernels.
    pub cooperative: bool,
    /// CUDA version of the driver: 1000 * major + 10 * minor.
    pub driver_version: i32,
}

impl DeviceInfo {
    /// All GPUs that the driver shows to this process.
    ///
    /// # Errors
    /// [`GpuError::Driver`] of class [`NoDevice`](super::Class::NoDevice) without driver or device.
    pub fn all() -> Result<Vec<Self>, GpuError> {
        (0..count()?).map(|ordinal| Ok(open(ordinal)?.1)).collect()
    }

    /// Compute capability as one number, such as 87.
    pub fn arch(&self) -> u32 {
        10 * self.compute.0 + self.compute.1
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (major, minor) = (self.driver_version / 1000, self.driver_version % 1000 / 10);
        write!(
            f,
            "{} (sm_{}, {} SMs, {} MiB, driver CUDA {major}.{minor})",
            self.name,
            self.arch(),
            self.sms,
            self.memory_bytes >> 20
        )
    }
}

fn count() -> Result<u32, GpuError> {
    let mut count = 0;
    // SAFETY: cuInit may be called any number of times; the count goes to a local.
    unsafe {
        call::cuInit(0)?;
        call::cuDeviceGetCount(&raw mut count)?;
    }
    Ok(count.max(0) as u32)
}

/// Starts the driver and describes a device.
pub(super) fn open(ordinal: u32) -> Result<(CUdevice, DeviceInfo), GpuError> {
    let count = count()?;
    if ordinal >= count {
        return Err(GpuError::NoSuchDevice { ordinal, count });
    }
    let (mut device, mut driver_version, mut memory) = (0, 0, 0usize);
    let mut name = [0u8; 128];
    // SAFETY: all results go to locals, and the name's length is that of its buffer.
    unsafe {
        call::cuDeviceGet(&raw mut device, ordinal as c_int)?;
        call::cuDriverGetVersion(&raw mut driver_version)?;
        call::cuDeviceTotalMem_v2(&raw mut memory, device)?;
        call::cuDeviceGetName(
            name.as_mut_ptr().cast::<c_char>(),
            name.len() as c_int,
            device,
        )?;
    }
    let attribute = |which: c_int| -> Result<u32, GpuError> {
        let mut value = 0;
        // SAFETY: the device was given by the driver, the result goes to a local.
        unsafe { call::cuDeviceGetAttribute(&raw mut value, which, device)? };
        Ok(value.max(0) as u32)
    };
    let info = DeviceInfo {
        ordinal,
        name: String::from_utf8_lossy(name.split(|&b| b == 0).next().unwrap_or(&[])).into_owned(),
        compute: (
            attribute(value::DEVICE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(value::DEVICE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sms: attribute(value::DEVICE_MULTIPROCESSOR_COUNT)?,
        memory_bytes: memory as u64,
        l2_bytes: attribute(value::DEVICE_L2_CACHE_SIZE)?,
        clock_khz: attribute(value::DEVICE_CLOCK_RATE).unwrap_or(0),
        memory_clock_khz: attribute(value::DEVICE_MEMORY_CLOCK_RATE).unwrap_or(0),
        memory_bus_bits: attribute(value::DEVICE_GLOBAL_MEMORY_BUS_WIDTH).unwrap_or(0),
        shared_per_block: attribute(value::DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_per_sm: attribute(value::DEVICE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        registers_per_sm: attribute(value::DEVICE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        threads_per_sm: attribute(value::DEVICE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        integrated: attribute(value::DEVICE_INTEGRATED)? != 0,
        cooperative: attribute(value::DEVICE_COOPERATIVE_LAUNCH)? != 0,
        driver_version,
    };
    Ok((device, info))
}
