//! What can go wrong on the GPU: our own names for the driver's codes, and what each means for
//! the process. `cust`'s error type is not used: it has no room for newer codes, and printing
//! it can panic.
use std::ffi::c_int;
use std::fmt;

/// The driver's code for work that is not done yet; an answer, not an error.
pub(super) const NOT_READY: i32 = 600;

/// What can go wrong in this room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The driver refused a call, or reports that earlier work failed.
    #[error("{call}: {} ({code}){}", code_name(*.code), class_of(*.code).consequence())]
    Driver {
        /// The call that answered so. Asynchronous work fails in a later call.
        call: &'static str,
        /// `CUresult`, as the driver gave it.
        code: i32,
    },
    /// There is no GPU with this number.
    #[error(
        "no CUDA device {ordinal}: {count} found; expected a number below that in [cuda] device"
    )]
    NoSuchDevice {
        /// As configured.
        ordinal: u32,
        /// Devices that there are.
        count: u32,
    },
    /// The driver or device cannot do something that was asked for.
    #[error("{what} is not available here: {found}; expected {expected}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What is there.
        found: String,
        /// What it needs.
        expected: &'static str,
    },
    /// None of the compiled kernel images runs on this device and driver.
    #[error(
        "no image of kernels/{module}.cu loads on this GPU (sm_{arch}, driver CUDA {}.{}): {tried}; \
         build with ROADLOOP_CUDA_ARCHS={arch} and a toolkit no newer than the driver", .driver / 1000, .driver % 1000 / 10
    )]
    NoImage {
        /// Kernel file.
        module: &'static str,
        /// Compute capability, such as 87.
        arch: u32,
        /// The driver's CUDA version, such as 12040.
        driver: i32,
        /// Each toolkit's image and what the driver said to it.
        tried: String,
    },
    /// There is no kernel file, kernel or global of this name.
    #[error("no {what} {name:?} among the compiled kernels")]
    NoSuchName {
        /// File, kernel or global.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A kernel takes other parameters than the host declares.
    #[error(
        "kernel {kernel}: parameter {index} (from 0): found {found} bytes on the device, expected {expected}; 0 is none"
    )]
    Signature {
        /// The kernel.
        kernel: &'static str,
        /// The first parameter that differs.
        index: usize,
        /// Bytes that the kernel takes.
        found: usize,
        /// Bytes that the host passes.
        expected: usize,
    },
    /// A launch shape that the kernel or device can't have.
    #[error("kernel {kernel}: {what}: found {found}, expected at most {limit} and at least 1")]
    Shape {
        /// The kernel.
        kernel: &'static str,
        /// Which number.
        what: &'static str,
        /// As asked for.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// More memory than the configuration allows.
    #[error("{kind} memory: {name} takes the total to {needed} bytes; expected at most {limit}")]
    Limit {
        /// Device or page-locked.
        kind: &'static str,
        /// What was to be allocated.
        name: String,
        /// The total with it.
        needed: u64,
        /// The limit from the configuration.
        limit: u64,
    },
    /// Two sides of a copy, or a view and what it looks at, do not fit.
    #[error("{what}: found {found}, expected {expected}")]
    Size {
        /// What was done.
        what: &'static str,
        /// The number given.
        found: u64,
        /// The number needed.
        expected: u64,
    },
    /// A pointer that belongs to no live allocation of this context.
    #[error("{what}: the address {address:#x} is in no live buffer of this context")]
    Dangling {
        /// The kernel or copy.
        what: &'static str,
        /// The address.
        address: u64,
    },
    /// A page-locked buffer is in use: by the device for work not yet waited for, or by the host
    /// while device work that writes it was to be started.
    #[error("page-locked buffer {name} is in use by the {by}")]
    Busy {
        /// The buffer.
        name: String,
        /// Host or device.
        by: &'static str,
    },
    /// Stream, event, function, graph or buffer of another context.
    #[error("{what} of another context")]
    OtherContext {
        /// Which.
        what: &'static str,
    },
    /// Graph capture was used out of order.
    #[error("graph capture: {0}")]
    Capture(&'static str),
    /// An error with the stage in which it came up.
    #[error("{stage}: {source}")]
    Stage {
        /// The stage.
        stage: &'static str,
        /// The error.
        source: Box<GpuError>,
    },
}

/// What an error means for the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The call did nothing; the context works on.
    Recoverable,
    /// The context is lost and every later call fails too: stop publishing and exit with an
    /// error at once. Only a new process helps.
    Sticky,
    /// No usable driver or device.
    NoDevice,
}

impl Class {
    const fn consequence(self) -> &'static str {
        match self {
            Class::Recoverable => "",
            Class::Sticky => "; the GPU context is lost, the process has to end",
            Class::NoDevice => {
                "; no usable CUDA driver or device (nvidia-smi or tegrastats should show one)"
            }
        }
    }
}

impl GpuError {
    /// What it means for the process.
    pub fn class(&self) -> Class {
        match self {
            Self::Driver { code, .. } => class_of(*code),
            Self::NoSuchDevice { .. } | Self::NoImage { .. } | Self::Unsupported { .. } => {
                Class::NoDevice
            }
            Self::Stage { source, .. } => source.class(),
            _ => Class::Recoverable,
        }
    }

    /// Whether the context is lost ([`Class::Sticky`]).
    pub fn is_sticky(&self) -> bool {
        self.class() == Class::Sticky
    }

    /// Whether there is no usable device ([`Class::NoDevice`]): exit status 69, or the CPU
    /// backend where `auto` was asked for.
    pub fn is_no_device(&self) -> bool {
        self.class() == Class::NoDevice
    }

    /// The exit status that goes with it: 69 device unavailable, 78 configuration (memory
    /// limits), 70 internal.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Limit { .. } => 78,
            Self::Stage { source, .. } => source.exit_status(),
            _ if self.is_no_device() => 69,
            _ => 70,
        }
    }

    /// The same error, with the stage in which it came up.
    pub fn in_stage(self, stage: &'static str) -> Self {
        Self::Stage {
            stage,
            source: Box::new(self),
        }
    }

    pub(super) fn code(&self) -> Option<i32> {
        match self {
            Self::Driver { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// A driver's answer as a `Result`.
pub(super) fn check(call: &'static str, code: c_int) -> Result<(), GpuError> {
    if code == 0 {
        Ok(())
    } else {
        Err(GpuError::Driver { call, code })
    }
}

/// The class of a driver's code. What is unknown counts as recoverable, except for the block of
/// codes that kernels end with, and the driver's own "unknown".
pub fn class_of(code: i32) -> Class {
    match code {
        // Driver missing, too old, a stub; no device, busy, not licensed; MPS not there.
        34 | 35 | 36 | 46 | 100 | 101 | 102 | 802..=809 => Class::NoDevice,
        // Refused launches and peer access among the codes of the 7xx block.
        701 | 703..=708 | 711..=713 | 720 => Class::Recoverable,
        // Uncorrectable memory or link, contained fault; destroyed context; MPS client ended.
        4 | 214 | 220 | 226 | 810 | 999 | 700..=799 => Class::Sticky,
        _ => Class::Recoverable,
    }
}

/// The name of a driver's code.
pub fn code_name(code: i32) -> impl fmt::Display {
    match NAMES.binary_search_by_key(&code, |n| n.0) {
        Ok(i) => NAMES[i].1,
        Err(_) => "code unknown to this program",
    }
}

/// `CUresult` up to CUDA 13.0, by code.
#[rustfmt::skip]
const NAMES: &[(i32, &str)] = &[
    (1, "CUDA_ERROR_INVALID_VALUE"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY"),
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (4, "CUDA_ERROR_DEINITIALIZED"),
    (5, "CUDA_ERROR_PROFILER_DISABLED"),
    (6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED"),
    (7, "CUDA_ERROR_PROFILER_ALREADY_STARTED"),
    (8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED"),
    (34, "CUDA_ERROR_STUB_LIBRARY"),
    (35, "CUDA_ERROR_INSUFFICIENT_DRIVER"),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (102, "CUDA_ERROR_DEVICE_NOT_LICENSED"),
    (200, "CUDA_ERROR_INVALID_IMAGE"),
    (201, "CUDA_ERROR_INVALID_CONTEXT"),
    (202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT"),
    (205, "CUDA_ERROR_MAP_FAILED"),
    (206, "CUDA_ERROR_UNMAP_FAILED"),
    (207, "CUDA_ERROR_ARRAY_IS_MAPPED"),
    (208, "CUDA_ERROR_ALREADY_MAPPED"),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (210, "CUDA_ERROR_ALREADY_ACQUIRED"),
    (211, "CUDA_ERROR_NOT_MAPPED"),
    (212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY"),
    (213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER"),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE"),
    (215, "CUDA_ERROR_UNSUPPORTED_LIMIT"),
    (216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE"),
    (217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
    (218, "CUDA_ERROR_INVALID_PTX"),
    (219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT"),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"),
    (224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY"),
    (225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC"),
    (226, "CUDA_ERROR_CONTAINED"),
    (300, "CUDA_ERROR_INVALID_SOURCE"),
    (301, "CUDA_ERROR_FILE_NOT_FOUND"),
    (302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND"),
    (303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED"),
    (304, "CUDA_ERROR_OPERATING_SYSTEM"),
    (400, "CUDA_ERROR_INVALID_HANDLE"),
    (401, "CUDA_ERROR_ILLEGAL_STATE"),
    (402, "CUDA_ERROR_LOSSY_QUERY"),
    (500, "CUDA_ERROR_NOT_FOUND"),
    (600, "CUDA_ERROR_NOT_READY"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING"),
    (704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    (705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"),
    (708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"),
    (709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    (710, "CUDA_ERROR_ASSERT"),
    (711, "CUDA_ERROR_TOO_MANY_PEERS"),
    (712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
    (713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    (718, "CUDA_ERROR_INVALID_PC"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (800, "CUDA_ERROR_NOT_PERMITTED"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (805, "CUDA_ERROR_MPS_CONNECTION_FAILED"),
    (806, "CUDA_ERROR_MPS_RPC_FAILURE"),
    (807, "CUDA_ERROR_MPS_SERVER_NOT_READY"),
    (808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"),
    (809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (811, "CUDA_ERROR_CDP_NOT_SUPPORTED"),
    (812, "CUDA_ERROR_CDP_VERSION_MISMATCH"),
    (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
    (902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"),
    (903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"),
    (904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
    (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
    (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    (907, "CUDA_ERROR_CAPTURED_EVENT"),
    (908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
    (909, "CUDA_ERROR_TIMEOUT"),
    (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE"),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    (913, "CUDA_ERROR_FUNCTION_NOT_LOADED"),
    (914, "CUDA_ERROR_INVALID_RESOURCE_TYPE"),
    (915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"),
    (916, "CUDA_ERROR_KEY_ROTATION"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_code() {
        assert!(NAMES.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn codes_have_names_and_classes() {
        for (code, name, class) in [
            (1, "CUDA_ERROR_INVALID_VALUE", Class::Recoverable),
            (2, "CUDA_ERROR_OUT_OF_MEMORY", Class::Recoverable),
            (100, "CUDA_ERROR_NO_DEVICE", Class::NoDevice),
            (
                222,
                "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
                Class::Recoverable,
            ),
            (700, "CUDA_ERROR_ILLEGAL_ADDRESS", Class::Sticky),
            (
                701,
                "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
                Class::Recoverable,
            ),
            (716, "CUDA_ERROR_MISALIGNED_ADDRESS", Class::Sticky),
            (719, "CUDA_ERROR_LAUNCH_FAILED", Class::Sticky),
            (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", Class::NoDevice),
            // What the bindings of 2022 do not know.
            (
                915,
                "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
                Class::Recoverable,
            ),
            (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", Class::Sticky),
            (798, "code unknown to this program", Class::Sticky),
            (12345, "code unknown to this program", Class::Recoverable),
            (-7, "code unknown to this program", Class::Recoverable),
        ] {
            assert_eq!(code_name(code).to_string(), name, "{code}");
            assert_eq!(class_of(code), class, "{code}");
        }
    }

    #[test]
    fn every_error_can_be_printed_and_says_what_to_do() {
        let lost = GpuError::Driver {
            call: "cuStreamSynchronize",
            code: 700,
        }
        .in_stage("stereo");
        assert_eq!(
            lost.to_string(),
            "stereo: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700); \
             the GPU context is lost, the process has to end"
        );
        assert!(lost.is_sticky());
        assert_eq!(lost.exit_status(), 70);
        let missing = GpuError::Driver {
            call: "cuInit",
            code: 100,
        };
        assert_eq!(missing.exit_status(), 69);
        let limit = GpuError::Limit {
            kind: "device",
            name: "x".into(),
            needed: 2,
            limit: 1,
        };
        assert_eq!(limit.in_stage("stereo").exit_status(), 78);
    }
}
