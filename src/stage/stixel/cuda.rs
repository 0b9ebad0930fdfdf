//! Stand-in until the stage's kernels are merged.
use super::{Params, ParamsError};
use crate::{
    cuda::{Context, DeviceBuffer, GpuError, Stream},
    frame::{Camera, Size, Stixels},
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
    pub fn new(
        _: &Context,
        _: &Stream,
        _: &Params,
        _: Size,
        _: &Camera,
        _: usize,
    ) -> Result<Self, PlanError> {
        Err(GpuError::Capture("not merged yet").into())
    }

    /// None.
    pub fn device_bytes(&self) -> u64 {
        match self.0 {}
    }

    /// None.
    pub fn output_words(&self) -> usize {
        match self.0 {}
    }

    /// None.
    ///
    /// # Errors
    /// None.
    pub fn enqueue(
        &self,
        _: &Stream,
        _: &DeviceBuffer<u16>,
        _: usize,
        _: &DeviceBuffer<f32>,
        _: &DeviceBuffer<u64>,
    ) -> Result<(), GpuError> {
        match self.0 {}
    }

    /// None.
    pub fn output(&self) -> Stixels {
        match self.0 {}
    }

    /// None.
    pub fn decode(&self, _: &[u64], _: &mut Stixels) {
        match self.0 {}
    }
}
