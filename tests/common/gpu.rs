//! A test program for the GPU: one thread owns it, so tests run one after the other; without a
//! device they are skipped, visibly and with a count. Takes the arguments that `cargo test` and
//! nextest give. `ROADLOOP_REQUIRE_GPU=1`: a missing device is a failure.
#![allow(dead_code)]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use roadloop::cuda::*;

/// One test.
pub struct GpuTest {
    /// Its name.
    pub name: &'static str,
    /// What it does; a panic is a failure.
    pub run: fn(),
    /// Whether it needs a device.
    pub needs_gpu: bool,
}

/// `gpu_tests![a, b; always: c]`: the program's main function.
#[macro_export]
macro_rules! gpu_tests {
    ($($test:ident),* $(,)? $(; always: $($host:ident),* $(,)?)?) => {
        fn main() -> std::process::ExitCode {
            gpu::main(&[
                $(gpu::GpuTest { name: stringify!($test), run: $test, needs_gpu: true },)*
                $($(gpu::GpuTest { name: stringify!($host), run: $host, needs_gpu: false },)*)?
            ])
        }
    };
}

/// Runs those of the tests that the arguments select.
pub fn main(tests: &[GpuTest]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    let takes_value = ["--test-threads", "--format", "--color", "--skip", "-Z"];
    let (mut filters, mut skips) = (Vec::new(), Vec::new());
    for (i, argument) in arguments.iter().enumerate() {
        let is_value = i > 0 && takes_value.contains(&arguments[i - 1].as_str());
        if is_value && arguments[i - 1] == "--skip" {
            skips.push(argument);
        } else if !argument.starts_with('-') && !is_value {
            filters.push(argument);
        }
    }
    let selected = |test: &&GpuTest| {
        let matches = |f: &&String| {
            if has("--exact") {
                test.name == **f
            } else {
                test.name.contains(f.as_str())
            }
        };
        !has("--ignored")
            && (filters.is_empty() || filters.iter().any(matches))
            && !skips.iter().any(|s| test.name.contains(s.as_str()))
    };
    if has("--list") {
        for test in tests.iter().filter(selected) {
            println!("{}: test", test.name);
        }
        return ExitCode::SUCCESS;
    }

    let missing = match DeviceInfo::all() {
        Ok(devices) if !devices.is_empty() => {
            println!("GPU: {}", devices[0]);
            None
        }
        Ok(_) => Some("none found".to_string()),
        Err(e) if e.is_no_device() => Some(e.to_string()),
        Err(e) => {
            println!("the CUDA driver does not start: {e}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for test in tests.iter().filter(selected) {
        if test.needs_gpu && missing.is_some() {
            println!("test {} ... skipped", test.name);
            skipped += 1;
        } else if catch_unwind(AssertUnwindSafe(test.run)).is_ok() {
            println!("test {} ... ok", test.name);
            passed += 1;
        } else {
            println!("test {} ... FAILED", test.name);
            failed.push(test.name);
        }
    }
    if let Some(reason) = missing.filter(|_| skipped > 0) {
        println!("SKIPPED: {skipped} GPU tests, no CUDA device ({reason})");
        if std::env::var("ROADLOOP_REQUIRE_GPU").is_ok_and(|v| v == "1") {
            println!("ROADLOOP_REQUIRE_GPU=1: that is a failure");
            failed.push("a CUDA device");
        }
    }
    println!(
        "test result: {passed} passed; {} failed; {skipped} skipped {failed:?}",
        failed.len()
    );
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A context and a stream, as most tests need them.
pub fn setup() -> (Context, Stream) {
    let context = Context::new(&ContextOptions::default()).unwrap();
    let stream = Stream::new(&context, Priority::High).unwrap();
    (context, stream)
}

/// The kernels of `selftest.cu`, as machine code.
pub fn module(context: &Context) -> Module {
    let module = Module::load(context, "selftest").unwrap();
    assert!(
        !module.is_compiled_at_load(),
        "no machine code for this GPU: PTX of {:?}",
        module.toolkit()
    );
    module
}

/// A buffer of its own with these numbers in it.
pub fn device<T: Element>(context: &Context, stream: &Stream, numbers: &[T]) -> DeviceBuffer<T> {
    let mut layout = ArenaLayout::new();
    let slot = layout.reserve::<T>("test", numbers.len());
    let buffer = Arena::new(context, "test", layout)
        .unwrap()
        .buffer(slot)
        .unwrap();
    stream.upload(numbers, &buffer).unwrap();
    buffer
}

/// What is in a buffer.
pub fn host<T: Element>(stream: &Stream, buffer: &DeviceBuffer<T>, zero: T) -> Vec<T> {
    let mut numbers = vec![zero; buffer.len()];
    stream.download(buffer, &mut numbers).unwrap();
    numbers
}

/// Numbers without a pattern, the same on every run (splitmix64).
pub fn random(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Page-locked numbers.
pub fn pinned(context: &Context, n: usize) -> Pinned<u16> {
    Pinned::new(context, "test", n).unwrap()
}

/// `selftest_add`: numbers, how many, what to add.
pub type Add = Function<(DevicePtr<u32>, u32, u32)>;

/// The kernel that adds to numbers.
pub fn add(context: &Context) -> Add {
    module(context).function("selftest_add").unwrap()
}
