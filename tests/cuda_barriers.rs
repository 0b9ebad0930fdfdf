//! Does each way in which warps may meet give the right sum? Above all a question to the sanitizers:
//! which of these ways do they take for an order? (`kernels/barriers.cu`; one way a test, so that
//! each can be run alone.)
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use gpu::{device, host, setup};
use roadloop::cuda::*;

gpu_tests![two_places, not_aligned, one_place, one_loop];

const ROUNDS: i32 = 9;
const THREADS: u32 = 160;

fn check(kernel: &'static str) {
    let (context, stream) = setup();
    let module = Module::load(&context, "barriers").unwrap();
    let kernel = module.function::<(DevicePtr<u32>, i32)>(kernel).unwrap();
    let out = device(&context, &stream, &[0u32]);
    let shape = LaunchShape::linear(1, THREADS);
    kernel.launch(&stream, shape, &(out.ptr(), ROUNDS)).unwrap();
    let mut sum = 0u32;
    for round in 0..ROUNDS as u32 {
        let from = if round == 0 { 0 } else { sum };
        sum = (32..THREADS).fold(0u32, |all, tid| {
            all.wrapping_add(from).wrapping_add(tid * round)
        });
    }
    assert_eq!(host(&stream, &out, 0), [sum]);
}

fn two_places() {
    check("barriers_two_places");
}

fn not_aligned() {
    check("barriers_not_aligned");
}

fn one_place() {
    check("barriers_one_place");
}

fn one_loop() {
    check("barriers_one_loop");
}
