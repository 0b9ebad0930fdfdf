//! Stand-in until the stage's kernels are merged.
use super::{Params, ParamsError};
use crate::{
    cuda::{Context, DeviceBuffer, GpuError, Stream},
    frame::{Mask, Size},
};

/// Why there is no plan for the GPU.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The stage refuses its parameters.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU does not take the plan.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Not there yet.
pub struct Plan(std::convert::Infallible);

impl Plan {
    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &Context, _: &Params, _: Size, _: Option<&Mask>) -> Result<Self, PlanError> {
        Err(GpuError::Capture("not merged yet").into())
    }

    /// None.
    pub fn device_bytes(&self) -> u64 {
        match self.0 {}
    }

    /// None.
    ///
    /// # Errors
    /// None.
    pub fn enqueue(
        &self,
        _: &Stream,
        _: &DeviceBuffer<u8>,
        _: &DeviceBuffer<u8>,
        _: &DeviceBuffer<u16>,
    ) -> Result<(), GpuError> {
        match self.0 {}
    }
}
