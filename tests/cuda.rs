//! Does the GPU give the bits of the CPU, and tell its errors apart?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use std::process::Command;

use gpu::{add, device, host, module, pinned, random, setup};
use roadloop::cuda::*;

gpu_tests![
    f32_has_the_bits_of_the_cpu,
    integers_are_those_of_the_cpu,
    warp_sums_are_those_of_a_loop,
    structs_and_globals_reach_the_kernel,
    shared_memory_over_48_kib_has_to_be_allowed,
    wrong_launches_are_refused_before_the_device_sees_them,
    a_slice_of_the_multiprocessors,
    every_way_to_wait,
    a_lost_context_is_told_apart_and_ends_the_process;
    always: without_a_device_there_is_a_typed_error,
];

type F32Arguments = (DevicePtr<f32>, DevicePtr<f32>, DevicePtr<f32>, u32);

fn f32_has_the_bits_of_the_cpu() {
    let (context, stream) = setup();
    let module = module(&context);
    let n = 200_001;
    let scaled = |seed| -> Vec<f32> {
        random(seed)
            .take(n)
            .map(|r| (r as i32 as f32) * 2f32.powi((r >> 32) as i32 % 24 - 30))
            .collect()
    };
    let (a, b) = (scaled(1), scaled(2));
    let (da, db) = (device(&context, &stream, &a), device(&context, &stream, &b));
    let out = device(&context, &stream, &vec![f32::NAN; n]);
    let chain = module.function::<F32Arguments>("selftest_f32").unwrap();
    chain
        .launch(
            &stream,
            LaunchShape::covering(n, 256),
            &(da.ptr(), db.ptr(), out.ptr(), n as u32),
        )
        .unwrap();
    let expected: Vec<u32> = a
        .iter()
        .zip(&b)
        .map(|(&x, &y)| {
            let product = x * y + x;
            let quotient = (product - y) / (y * y + 0.7);
            let root = (x * x + y * y).sqrt();
            (quotient * root + (x - y * 3.1) / (root + 1e-3)).to_bits()
        })
        .collect();
    let found: Vec<u32> = host(&stream, &out, 0.0)
        .into_iter()
        .map(f32::to_bits)
        .collect();
    assert_eq!(found, expected);
    // The check would see a contraction: some of the results differ with one.
    let fused = a
        .iter()
        .zip(&b)
        .filter(|&(&x, &y)| x * y + x != x.mul_add(y, x))
        .count();
    assert!(
        fused > n / 100,
        "only {fused} of the inputs tell a contraction"
    );

    // Each operation on any bits: denormals, infinities, zeros of both signs. Any NaN is a NaN.
    let special = [
        0.0,
        -0.0,
        1.0,
        f32::MIN_POSITIVE,
        1e-45,
        -3e-42,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    let any = |seed: u64| -> Vec<f32> {
        let bits = random(seed).map(|r| f32::from_bits(r as u32));
        special
            .iter()
            .flat_map(|&s| [s; 9])
            .chain(bits)
            .take(n)
            .collect()
    };
    let a = any(3);
    let b: Vec<f32> = special
        .iter()
        .cycle()
        .take(81)
        .copied()
        .chain(any(4).into_iter().skip(81))
        .collect();
    let (da, db) = (device(&context, &stream, &a), device(&context, &stream, &b));
    let out = device(&context, &stream, &vec![0f32; 5 * n]);
    let each = module
        .function::<F32Arguments>("selftest_f32_each")
        .unwrap();
    each.launch(
        &stream,
        LaunchShape::covering(n, 256),
        &(da.ptr(), db.ptr(), out.ptr(), n as u32),
    )
    .unwrap();
    let bits = |f: f32| if f.is_nan() { None } else { Some(f.to_bits()) };
    let found = host(&stream, &out, 0.0);
    for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
        let expected = [x + y, x - y, x * y, x / y, x.abs().sqrt()];
        let found = &found[5 * i..5 * i + 5];
        assert_eq!(
            found.iter().map(|&f| bits(f)).collect::<Vec<_>>(),
            expected.map(bits),
            "{x:e} {y:e}"
        );
    }
}

fn integers_are_those_of_the_cpu() {
    let (context, stream) = setup();
    let n = 100_003;
    let any = |seed: u64| -> Vec<i32> {
        let edges = [0, 1, -1, i32::MAX, i32::MIN, 7, -7];
        edges
            .into_iter()
            .chain(random(seed).map(|r| (r as i32) >> ((r >> 40) % 31)))
            .take(n)
            .collect()
    };
    let (a, b) = (any(5), any(6));
    let (da, db) = (device(&context, &stream, &a), device(&context, &stream, &b));
    let out = device(&context, &stream, &vec![0i64; n]);
    type Arguments = (DevicePtr<i32>, DevicePtr<i32>, DevicePtr<i64>, u32);
    let kernel = module(&context)
        .function::<Arguments>("selftest_int")
        .unwrap();
    kernel
        .launch(
            &stream,
            LaunchShape::covering(n, 128),
            &(da.ptr(), db.ptr(), out.ptr(), n as u32),
        )
        .unwrap();
    let expected: Vec<i64> = a
        .iter()
        .zip(&b)
        .map(|(&a, &b)| {
            let (x, y) = (i64::from(a), i64::from(b));
            let divisor = if y == 0 { 1 } else { y };
            x * y
                + x / divisor
                + x % divisor
                + i64::from(a >> 3)
                + i64::from((a ^ b).count_ones())
                + i64::from(b.leading_zeros())
                + x.min(y)
        })
        .collect();
    assert_eq!(host(&stream, &out, 0), expected);
}

fn warp_sums_are_those_of_a_loop() {
    let (context, stream) = setup();
    type Arguments = (
        DevicePtr<i32>,
        DevicePtr<i32>,
        DevicePtr<i64>,
        DevicePtr<i32>,
        DevicePtr<i32>,
        u32,
    );
    let kernel = module(&context)
        .function::<Arguments>("selftest_warp")
        .unwrap();
    for n in [1usize, 31, 32, 33, 255, 1000, 1025] {
        let numbers: Vec<i32> = random(n as u64).map(|r| r as i32).take(n).collect();
        let input = device(&context, &stream, &numbers);
        let [inclusive, sums, minima] = [(); 3].map(|()| device(&context, &stream, &vec![0i32; n]));
        let exclusive = device(&context, &stream, &vec![0i64; n]);
        let arguments = (
            input.ptr(),
            inclusive.ptr(),
            exclusive.ptr(),
            sums.ptr(),
            minima.ptr(),
            n as u32,
        );
        kernel
            .launch(&stream, LaunchShape::covering(n, 256), &arguments)
            .unwrap();
        let (mut e_inclusive, mut e_exclusive, mut e_sums, mut e_minima) =
            (vec![], vec![], vec![], vec![]);
        for warp in numbers.chunks(32) {
            let (mut narrow, mut wide) = (0i32, 0i64);
            for &number in warp {
                e_exclusive.push(wide);
                narrow = narrow.wrapping_add(number);
                wide += i64::from(number);
                e_inclusive.push(narrow);
            }
            // Lanes past the end hold 0.
            let rest = if warp.len() < 32 { 0 } else { i32::MAX };
            let least = warp.iter().copied().min().unwrap().min(rest);
            e_sums.extend(warp.iter().map(|_| narrow));
            e_minima.extend(warp.iter().map(|_| least));
        }
        assert_eq!(host(&stream, &inclusive, 0), e_inclusive, "{n}");
        assert_eq!(host(&stream, &exclusive, 0), e_exclusive, "{n}");
        assert_eq!(host(&stream, &sums, 0), e_sums, "{n}");
        assert_eq!(host(&stream, &minima, 0), e_minima, "{n}");
    }
}

roadloop::device_struct! {
    /// As the kernel declares it.
    struct ScaleParams {
        numbers: DevicePtr<u32>,
        n: u32,
        factor: u16,
        shift: [u8; 2],
    }
}

fn structs_and_globals_reach_the_kernel() {
    let (context, stream) = setup();
    let module = module(&context);
    let offset = module.global::<u32>("selftest_offset").unwrap();
    stream.upload(&[10, 20, 30, 40], &offset).unwrap();
    let numbers: Vec<u32> = (0..1000).collect();
    let buffer = device(&context, &stream, &numbers);
    let scale = module.function::<(ScaleParams,)>("selftest_scale").unwrap();
    let params = ScaleParams {
        numbers: buffer.ptr(),
        n: 999,
        factor: 300,
        shift: [2, 1],
    };
    scale
        .launch(&stream, LaunchShape::covering(1000, 64), &(params,))
        .unwrap();
    let expected: Vec<u32> = numbers
        .iter()
        .map(|&i| {
            if i < 999 {
                ((i * 300) << 2 >> 1) + 10 * (i % 4 + 1)
            } else {
                i
            }
        })
        .collect();
    assert_eq!(host(&stream, &buffer, 0), expected);
    assert!(matches!(
        module.global::<u32>("nothing"),
        Err(GpuError::NoSuchName { .. })
    ));
    assert!(matches!(
        module.global::<[u32; 3]>("selftest_offset"),
        Err(GpuError::Size { .. })
    ));
}

fn shared_memory_over_48_kib_has_to_be_allowed() {
    let (context, stream) = setup();
    let words = 60 * 1024 / 4;
    let numbers: Vec<u32> = (0..words).collect();
    let buffer = device(&context, &stream, &numbers);
    let reverse = module(&context)
        .function::<(DevicePtr<u32>, u32)>("selftest_shared")
        .unwrap();
    let shape = LaunchShape::linear(1, 256).with_shared(4 * words);
    let refused = reverse
        .launch(&stream, shape, &(buffer.ptr(), words))
        .unwrap_err();
    assert!(matches!(refused, GpuError::Shape { .. }), "{refused}");
    reverse.allow_shared(4 * words).unwrap();
    reverse
        .launch(&stream, shape, &(buffer.ptr(), words))
        .unwrap();
    assert!(
        host(&stream, &buffer, 0)
            .iter()
            .copied()
            .eq((0..words).rev())
    );
    assert!(reverse.blocks_per_sm(256, 4 * words).unwrap() >= 1);
    assert!(matches!(
        reverse.allow_shared(1 << 20),
        Err(GpuError::Shape { .. })
    ));
    assert!(reverse.info().registers > 0);
}

fn wrong_launches_are_refused_before_the_device_sees_them() {
    let (context, stream) = setup();
    let module = module(&context);
    let add = add(&context);
    let buffer = device(&context, &stream, &[0u32; 8]);
    let gone = device(&context, &stream, &[0u32; 1 << 20]).ptr();
    let shape = LaunchShape::linear(1, 8);
    let refused = add.launch(&stream, shape, &(gone, 8, 1)).unwrap_err();
    assert!(
        matches!(
            refused,
            GpuError::Dangling {
                what: "selftest_add",
                ..
            }
        ),
        "{refused}"
    );
    assert!(
        add.launch(&stream, shape, &(DevicePtr::NULL, 0, 1)).is_ok(),
        "no buffer is allowed"
    );
    for shape in [
        LaunchShape::linear(0, 8),
        LaunchShape::linear(1, 0),
        LaunchShape::linear(1, 1025),
        LaunchShape::new([1, 65_536, 1], [8, 1, 1]),
        LaunchShape::new([1, 1, 1], [32, 33, 1]),
        LaunchShape::new([1, 1, 1], [1, 1, 65]),
        LaunchShape::linear(1, 8).with_shared(48 * 1024 + 1),
    ] {
        let refused = add
            .launch(&stream, shape, &(buffer.ptr(), 8, 1))
            .unwrap_err();
        assert!(
            matches!(refused, GpuError::Shape { .. }),
            "{shape:?}: {refused}"
        );
    }
    assert!(matches!(
        module.function::<()>("nothing"),
        Err(GpuError::NoSuchName { .. })
    ));
    assert!(matches!(
        Module::load(&context, "nothing"),
        Err(GpuError::NoSuchName { .. })
    ));
    if context.device().driver_version >= 12_040 {
        let signature = |index| move |e: GpuError| matches!(e, GpuError::Signature { index: i, .. } if i == index);
        let name = "selftest_add";
        assert!(
            module
                .function::<(DevicePtr<u32>, u32)>(name)
                .err()
                .is_some_and(signature(2))
        );
        assert!(
            module
                .function::<(DevicePtr<u32>, u32, u64)>(name)
                .err()
                .is_some_and(signature(2))
        );
        assert!(
            module
                .function::<(DevicePtr<u32>, u32, u32, u32)>(name)
                .err()
                .is_some_and(signature(3))
        );
        assert!(
            module
                .function::<(u32, u32, u32)>(name)
                .err()
                .is_some_and(signature(0))
        );
    }
    let other = Context::new(&ContextOptions {
        sms: None,
        ..Default::default()
    })
    .unwrap();
    let foreign = Stream::new(&other, Priority::Normal).unwrap();
    let refused = add
        .launch(&foreign, shape, &(buffer.ptr(), 8, 1))
        .unwrap_err();
    assert_eq!(refused, GpuError::OtherContext { what: "stream" });
    assert_eq!(context.sticky(), None);
    stream.synchronize().unwrap();
}

fn a_slice_of_the_multiprocessors() {
    let (whole, stream) = setup();
    let context = match Context::new(&ContextOptions {
        sms: Some(8),
        ..Default::default()
    }) {
        Ok(context) => context,
        Err(e @ GpuError::Unsupported { .. }) => return println!("not tried: {e}"),
        Err(e) => panic!("{e}"),
    };
    println!(
        "slice of 8: {} of {} multiprocessors",
        context.sms(),
        context.device().sms
    );
    assert!((8..=whole.sms()).contains(&context.sms()));
    let sliced = Stream::new(&context, Priority::High).unwrap();
    // Both contexts by turns on one thread.
    for (context, stream) in [(&context, &sliced), (&whole, &stream), (&context, &sliced)] {
        let buffer = device(context, stream, &vec![1u32; 100_000]);
        let add = add(context);
        let graph = stream
            .capture::<GpuError>(|s| {
                add.launch(
                    s,
                    LaunchShape::covering(100_000, 256),
                    &(buffer.ptr(), 100_000, 1),
                )
            })
            .unwrap()
            .instantiate()
            .unwrap();
        graph.launch(stream).unwrap();
        assert!(host(stream, &buffer, 0).iter().all(|&v| v == 2));
    }
    drop(sliced);
    let too_many = Context::new(&ContextOptions {
        sms: Some(100_000),
        ..Default::default()
    });
    assert!(too_many.is_err());
}

fn every_way_to_wait() {
    for wait in [Wait::Block, Wait::Yield, Wait::Spin] {
        let context = Context::new(&ContextOptions {
            wait,
            ..Default::default()
        })
        .unwrap();
        let stream = Stream::new(&context, Priority::Normal).unwrap();
        let buffer = device(&context, &stream, &[1u32; 8]);
        add(&context)
            .launch(&stream, LaunchShape::linear(1, 8), &(buffer.ptr(), 8, 1))
            .unwrap();
        context.synchronize().unwrap();
        assert_eq!(host(&stream, &buffer, 0), [2; 8], "{wait:?}");
    }
}

fn without_a_device_there_is_a_typed_error() {
    match Context::new(&ContextOptions {
        device: 9999,
        ..Default::default()
    }) {
        Ok(_) => panic!("no machine has so many"),
        Err(e) => {
            assert!(e.is_no_device(), "{e}");
            assert!(!e.is_sticky());
            assert_eq!(e.exit_status(), 69);
            assert!(!e.to_string().is_empty());
        }
    }
}

/// Set in the child process that is to lose its context.
const FAULT: &str = "ROADLOOP_TEST_FAULT";

fn a_lost_context_is_told_apart_and_ends_the_process() {
    if std::env::var_os(FAULT).is_some() {
        fault();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_lost_context_is_told_apart_and_ends_the_process",
        ])
        .env(FAULT, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(70), "{text}");
    assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{text}");
    assert!(text.contains("every object dropped"), "{text}");
}

/// What a program does that loses its context.
fn fault() -> ! {
    let status = {
        let context = Context::new(&ContextOptions::default()).unwrap();
        let stream = Stream::new(&context, Priority::Normal).unwrap();
        let memory = pinned(&context, 8);
        let buffer = device(&context, &stream, &[0u32; 8]);
        let graph_add = add(&context);
        let fault = module(&context)
            .function::<(DevicePtr<u32>, u64)>("selftest_fault")
            .unwrap();
        fault
            .launch(&stream, LaunchShape::linear(1, 1), &(buffer.ptr(), 1 << 40))
            .unwrap();
        let error = stream.synchronize().unwrap_err().in_stage("selftest");
        eprintln!("{error}");
        assert!(error.is_sticky());
        assert!(context.sticky().is_some_and(|e| e.is_sticky()));
        // Everything else fails too, and says so.
        assert!(
            stream
                .fill(&buffer, 1)
                .and_then(|()| stream.synchronize())
                .is_err()
        );
        assert!(Stream::new(&context, Priority::Normal).is_err());
        drop((memory, buffer, graph_add, fault, stream));
        assert!(context.take_error().is_err());
        error.exit_status()
    };
    eprintln!("every object dropped");
    std::process::exit(status.into())
}
