//! Why a stage's plan can't be made on a GPU, as the chain says it.
use crate::{
    cuda::GpuError,
    frame_loop::{BackendError, ChainError},
    stage::{
        egomotion, foreground, forest,
        logo::{self, features},
        rectify, road, stereo, stixel,
    },
};

/// A device that can't go on.
pub(super) fn failed(e: GpuError) -> BackendError {
    BackendError {
        backend: "cuda",
        message: e.to_string(),
    }
}

impl From<rectify::cuda::PlanError> for ChainError {
    fn from(e: rectify::cuda::PlanError) -> Self {
        match e {
            rectify::cuda::PlanError::Rectify(e) => e.into(),
            rectify::cuda::PlanError::Gpu(e) => e.in_stage("rectify").into(),
        }
    }
}

impl From<stereo::cuda::Error> for ChainError {
    fn from(e: stereo::cuda::Error) -> Self {
        match e {
            stereo::cuda::Error::Params(e) => e.into(),
            stereo::cuda::Error::Gpu(e) => e.in_stage("stereo").into(),
        }
    }
}

impl From<road::cuda::PlanError> for ChainError {
    fn from(e: road::cuda::PlanError) -> Self {
        match e {
            road::cuda::PlanError::Params(e) => e.into(),
            road::cuda::PlanError::Gpu(e) => e.in_stage("road").into(),
        }
    }
}

impl From<stixel::cuda::PlanError> for ChainError {
    fn from(e: stixel::cuda::PlanError) -> Self {
        match e {
            stixel::cuda::PlanError::Params(e) => e.into(),
            stixel::cuda::PlanError::Gpu(e) => e.in_stage("stixel").into(),
        }
    }
}

impl From<egomotion::cuda::PlanError> for ChainError {
    fn from(e: egomotion::cuda::PlanError) -> Self {
        match e {
            egomotion::cuda::PlanError::Params(e) => e.into(),
            egomotion::cuda::PlanError::Gpu(e) => e.in_stage("egomotion").into(),
        }
    }
}

impl From<foreground::cuda::PlanError> for ChainError {
    fn from(e: foreground::cuda::PlanError) -> Self {
        match e {
            foreground::cuda::PlanError::Params(e) => e.into(),
            foreground::cuda::PlanError::Gpu(e) => e.in_stage("foreground").into(),
        }
    }
}

impl From<features::cuda::PlanError> for ChainError {
    fn from(e: features::cuda::PlanError) -> Self {
        use features::cuda::PlanError;
        match e {
            PlanError::Params(e) => logo::ParamsError::from(e).into(),
            PlanError::Gpu(e) => e.in_stage("logo").into(),
            PlanError::CpuOnly { key, found, .. } => GpuError::Unsupported {
                what: key,
                found,
                expected: "what is computed on the GPU",
            }
            .in_stage("logo")
            .into(),
        }
    }
}

impl From<forest::cuda::PlanError> for ChainError {
    fn from(e: forest::cuda::PlanError) -> Self {
        match e {
            forest::cuda::PlanError::Params(e) => e.into(),
            forest::cuda::PlanError::Gpu(e) => e.in_stage("forest").into(),
        }
    }
}
