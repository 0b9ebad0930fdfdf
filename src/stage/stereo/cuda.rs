//! Stand-in until the stage's kernels are merged.
use super::{Params, ParamsError};
use crate::{
    cuda::{Arena, ArenaLayout, Context, DeviceBuffer, GpuError, Stream},
    frame::{Mask, Size},
};

/// Why there is no plan for the GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The stage refuses its parameters.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The GPU does not take the plan.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Not there yet.
pub struct Reserved;

impl Reserved {
    /// Nothing.
    ///
    /// # Errors
    /// None.
    pub fn new(_: &Params, _: Size, _: bool, _: &mut ArenaLayout) -> Result<Self, ParamsError> {
        Ok(Self)
    }
}

/// Not there yet.
pub struct Plan(std::convert::Infallible);

impl Plan {
    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn new(
        _: &Context,
        _: &Stream,
        _: &Arena,
        _: &Reserved,
        _: Option<&Mask>,
    ) -> Result<Self, Error> {
        Err(GpuError::Capture("not merged yet").into())
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
