//! What is computed, one folder a stage.
//!
//! # The contract
//! A stage is a `Plan`: built for one image size from parameters and calibration, owner of every
//! buffer and table it needs. [`Stage::run`] reads its input, writes its whole output, allocates
//! nothing, and gives the same bytes on every backend, run and thread count. It can't fail:
//! whatever the pixels are, there is a defined result ([`crate::frame::INVALID`] where nothing
//! can be said); what can be wrong with parameters or sizes is refused when the plan is built.
//!
//! A stage knows no source, sink, clock or other stage; [`crate::frame_loop`] alone knows the
//! order. `<stage>/mod.rs` states parameters and the numeric contract, `<stage>/cpu.rs` is the
//! reference and the CPU backend, `<stage>/cuda.rs` with `kernels/<stage>*.cu` the same on a GPU.
//!
//! # A new stage
//! Besides its folder and kernels: a result in [`crate::frame`] and a field of
//! [`crate::frame::FrameResult`]; a name in [`crate::frame_loop::StageId`] with its budget and place in
//! the order; the unit that runs it in `frame_loop/cpu.rs`, `mono.rs` or `labels.rs` and in
//! `frame_loop/cuda`; a section of [`crate::config`]; and where its result goes, in
//! [`crate::sink`] (digest, save, table, overlay) and [`crate::recording`].
#[cfg(feature = "cuda")]
pub mod device;
pub mod egomotion;
pub mod foreground;
pub mod forest;
pub mod logo;
pub mod rectify;
pub mod road;
pub mod state;
pub mod stereo;
pub mod stixel;

/// One stage's plan for one image size.
pub trait Stage {
    /// What it reads, borrowed for one run.
    type Input<'a>;
    /// What it writes; allocated by the caller for the plan's size.
    type Output;

    /// Computes `output` from `input`. Sizes must be those of the plan.
    ///
    /// # Panics
    /// When an image has another size than the plan.
    fn run(&mut self, input: Self::Input<'_>, output: &mut Self::Output);

    /// Forgets everything learnt from earlier frames, as if freshly built.
    fn reset(&mut self) {}

    /// Appends what it has learnt from earlier frames; nothing where it learns nothing.
    fn save(&self, _to: &mut state::StateWriter<'_>) {}

    /// Takes up what a plan of the same shape and parameters has saved: from here on its results
    /// are the other's.
    ///
    /// # Errors
    /// Why the state is refused; the plan is as freshly built then.
    fn load(&mut self, from: &mut state::StateReader<'_>) -> Result<(), state::StateError> {
        from.end()
    }
}
