//! Green contexts: a slice of a GPU's multiprocessors, to stand in for a smaller GPU or to keep
//! work apart. Drivers from CUDA 12.4 on; looked up at run time.
use std::ptr::null_mut;

use super::error::{GpuError, check};
use super::raw::newer::{
    CtxFromGreenCtx, DevResource, DevResourceGenerateDesc, DevSmResourceSplitByCount,
    DeviceGetDevResource, GreenCtxCreate, GreenCtxDestroy, Handle, address,
};
use super::raw::{CUcontext, CUdevice};

/// A green context; destroyed by [`GreenContext::destroy`].
pub(super) struct GreenContext {
    handle: Handle,
    destroy: GreenCtxDestroy,
    /// As an ordinary context.
    pub context: CUcontext,
    /// Multiprocessors that it was given: at least what was asked for.
    pub sms: u32,
}

/// `CU_GREEN_CTX_DEFAULT_STREAM`: required by the driver.
const DEFAULT_STREAM: u32 = 1;

impl GreenContext {
    /// A slice of at least `sms` multiprocessors of the device, whose primary context is retained.
    pub fn new(device: CUdevice, sms: u32, driver_version: i32) -> Result<Self, GpuError> {
        macro_rules! find {
            ($name:literal as $type:ty) => {
                match address($name) {
                    // SAFETY: the driver's own look-up gave this address for this name and
                    // version, and the type is that version's declaration.
                    Some(function) => unsafe { std::mem::transmute::<Handle, $type>(function) },
                    None => {
                        return Err(GpuError::Unsupported {
                            what: "a slice of the multiprocessors (green context)",
                            found: format!(
                                "driver of CUDA {}.{}",
                                driver_version / 1000,
                                driver_version % 1000 / 10
                            ),
                            expected: "a driver of CUDA 12.4 or newer, or no [cuda] sms",
                        });
                    }
                }
            };
        }
        let get_resource = find!(c"cuDeviceGetDevResource" as DeviceGetDevResource);
        let split = find!(c"cuDevSmResourceSplitByCount" as DevSmResourceSplitByCount);
        let describe = find!(c"cuDevResourceGenerateDesc" as DevResourceGenerateDesc);
        let create = find!(c"cuGreenCtxCreate" as GreenCtxCreate);
        let destroy = find!(c"cuGreenCtxDestroy" as GreenCtxDestroy);
        let convert = find!(c"cuCtxFromGreenCtx" as CtxFromGreenCtx);

        let mut all = DevResource::empty();
        let mut slice = DevResource::empty();
        let mut rest = DevResource::empty();
        let (mut groups, mut description, mut handle, mut context) =
            (1, null_mut(), null_mut(), null_mut());
        // SAFETY: every pointer is to a local of the declared layout; one group is asked for and
        // there is room for one; the description is made from what the split gave.
        unsafe {
            check(
                "cuDeviceGetDevResource",
                get_resource(device, &raw mut all, DevResource::SM),
            )?;
            check(
                "cuDevSmResourceSplitByCount",
                split(
                    &raw mut slice,
                    &raw mut groups,
                    &raw const all,
                    &raw mut rest,
                    0,
                    sms,
                ),
            )?;
            if groups == 0 || slice.sm_count == 0 {
                return Err(GpuError::Unsupported {
                    what: "a slice of the multiprocessors (green context)",
                    found: format!("{} multiprocessors, {sms} asked for", all.sm_count),
                    expected: "no more than the device can split off",
                });
            }
            check(
                "cuDevResourceGenerateDesc",
                describe(&raw mut description, &raw mut slice, 1),
            )?;
            check(
                "cuGreenCtxCreate",
                create(&raw mut handle, description, device, DEFAULT_STREAM),
            )?;
            if let Err(e) = check("cuCtxFromGreenCtx", convert(&raw mut context, handle)) {
                destroy(handle);
                return Err(e);
            }
        }
        Ok(Self {
            handle,
            destroy,
            context,
            sms: slice.sm_count,
        })
    }

    /// Ends it; not current any more by then.
    pub fn destroy(&self) -> Result<(), GpuError> {
        // SAFETY: the handle is this object's own, and its owner calls this once, in its Drop.
        check("cuGreenCtxDestroy", unsafe { (self.destroy)(self.handle) })
    }
}
