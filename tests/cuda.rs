//! Does the GPU room do what it says: the same bits as the CPU, copies, graphs, limits, errors?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;
use std::rc::Rc;

use roadloop::cuda::*;

gpu_tests![
    f32_has_the_bits_of_the_cpu,
    integers_are_those_of_the_cpu,
    warp_sums_are_those_of_a_loop,
    copies_come_back_as_they_were,
    rows_are_copied_between_strides,
    fills_set_every_element,
    structs_and_globals_reach_the_kernel,
    shared_memory_over_48_kib_has_to_be_allowed,
    a_graph_runs_what_was_captured_again_and_again,
    a_graph_takes_new_parameters,
    a_graph_keeps_what_it_uses,
    captures_end_whatever_happens,
    streams_join_in_a_capture,
    events_take_the_time_and_free_buffers,
    page_locked_memory_is_the_hosts_only_when_the_device_is_done,
    kernels_reach_page_locked_memory_in_place,
    memory_is_counted_and_limited,
    wrong_launches_are_refused_before_the_device_sees_them,
    a_slice_of_the_multiprocessors,
    every_way_to_wait,
    the_frame_path_allocates_nothing,
    a_lost_context_is_told_apart_and_ends_the_process;
    always: without_a_device_there_is_a_typed_error,
];

/// A context and a stream, as most tests need them.
fn setup() -> (Context, Stream) {
    let context = Context::new(&ContextOptions::default()).unwrap();
    let stream = Stream::new(&context, Priority::High).unwrap();
    (context, stream)
}

fn module(context: &Context) -> Module {
    let module = Module::load(context, "selftest").unwrap();
    assert!(
        !module.is_compiled_at_load(),
        "no machine code for this GPU: PTX of {:?}",
        module.toolkit()
    );
    module
}

/// A buffer of its own with these numbers in it.
fn device<T: Element>(context: &Context, stream: &Stream, numbers: &[T]) -> DeviceBuffer<T> {
    let mut layout = ArenaLayout::new();
    let slot = layout.reserve::<T>("test", numbers.len());
    let buffer = Arena::new(context, "test", layout)
        .unwrap()
        .buffer(slot)
        .unwrap();
    stream.upload(numbers, &buffer).unwrap();
    buffer
}

fn host<T: Element>(stream: &Stream, buffer: &DeviceBuffer<T>, zero: T) -> Vec<T> {
    let mut numbers = vec![zero; buffer.len()];
    stream.download(buffer, &mut numbers).unwrap();
    numbers
}

/// Numbers without a pattern, the same on every run (splitmix64).
fn random(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

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

fn copies_come_back_as_they_were() {
    let (context, stream) = setup();
    for n in [0usize, 1, 31, 4097, 1 << 20] {
        let numbers: Vec<u16> = random(n as u64).map(|r| r as u16).take(n).collect();
        let (from, to) = (pinned(&context, n), pinned(&context, n));
        from.write().unwrap().copy_from_slice(&numbers);
        assert!(
            to.read().unwrap().iter().all(|&v| v == 0),
            "page-locked memory starts as zeros"
        );
        let (first, second) = (
            device(&context, &stream, &vec![1u16; n]),
            device(&context, &stream, &vec![2u16; n]),
        );
        stream.copy_to_device(&from, &first).unwrap();
        stream.copy_on_device(&first, &second).unwrap();
        stream.copy_to_host(&second, &to).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(&to.read().unwrap()[..], numbers, "{n}");
        if n > 10 {
            // Parts, of both sides.
            stream
                .copy_to_device(&from.slice(0..5).unwrap(), &first.slice(3..8).unwrap())
                .unwrap();
            let expected: Vec<u16> = numbers[..3]
                .iter()
                .chain(&numbers[..5])
                .chain(&numbers[8..])
                .copied()
                .collect();
            assert_eq!(host(&stream, &first, 0), expected, "{n}");
        }
        let longer = pinned(&context, n + 1);
        let refused = stream.copy_to_device(&longer, &first).unwrap_err();
        assert!(matches!(refused, GpuError::Size { .. }), "{refused}");
        let refused = first.slice(0..n + 1).err().unwrap();
        assert!(matches!(refused, GpuError::Size { .. }), "{refused}");
    }
}

fn pinned(context: &Context, n: usize) -> Pinned<u16> {
    Pinned::new(context, "test", n).unwrap()
}

fn rows_are_copied_between_strides() {
    let (context, stream) = setup();
    let (width, rows, narrow, wide) = (37, 5, 40, 64);
    let from = pinned(&context, narrow * (rows - 1) + width);
    for (i, v) in from.write().unwrap().iter_mut().enumerate() {
        *v = i as u16 + 1;
    }
    let buffer = device(&context, &stream, &vec![0u16; wide * rows]);
    stream
        .copy_rows_to_device((&from, narrow), (&buffer, wide), width, rows)
        .unwrap();
    let found = host(&stream, &buffer, 0);
    for (y, row) in found.chunks(wide).enumerate() {
        let expected = (0..wide).map(|x| {
            if x < width {
                (y * narrow + x) as u16 + 1
            } else {
                0
            }
        });
        assert!(row.iter().copied().eq(expected), "row {y}");
    }
    let back = pinned(&context, from.len());
    stream
        .copy_rows_to_host((&buffer, wide), (&back, narrow), width, rows)
        .unwrap();
    stream.synchronize().unwrap();
    for (i, &v) in back.read().unwrap().iter().enumerate() {
        assert_eq!(v, if i % narrow < width { i as u16 + 1 } else { 0 }, "{i}");
    }
    for (stride, rows) in [(width - 1, rows), (wide, rows), (narrow, rows + 1)] {
        let refused = stream.copy_rows_to_device((&from, stride), (&buffer, wide), width, rows);
        assert!(
            matches!(refused, Err(GpuError::Size { .. })),
            "{stride} {rows}"
        );
    }
}

fn fills_set_every_element() {
    let (context, stream) = setup();
    fn check<T: Number + PartialEq + std::fmt::Debug>(
        context: &Context,
        stream: &Stream,
        zero: T,
        value: T,
    ) {
        let buffer = device(context, stream, &[zero; 1001]);
        stream.fill(&buffer.slice(1..1000).unwrap(), value).unwrap();
        let found = host(stream, &buffer, zero);
        assert_eq!((found[0], found[1000]), (zero, zero));
        assert!(found[1..1000].iter().all(|&v| v == value), "{value:?}");
    }
    check(&context, &stream, 0u8, 0xa5);
    check(&context, &stream, 0i16, -2);
    check(&context, &stream, 0u16, 0xffff);
    check(&context, &stream, 0f32, -1.5);
    check(&context, &stream, 0i32, i32::MIN);
    check(&context, &stream, 1u64, 0);
    check(&context, &stream, 0i64, -1);
    let buffer = device(&context, &stream, &[0u64; 4]);
    assert!(matches!(
        stream.fill(&buffer, 1),
        Err(GpuError::Unsupported { .. })
    ));
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

type Add = Function<(DevicePtr<u32>, u32, u32)>;

fn add(context: &Context) -> Add {
    module(context).function("selftest_add").unwrap()
}

fn a_graph_runs_what_was_captured_again_and_again() {
    let (context, stream) = setup();
    let add = add(&context);
    let n = 5000u32;
    let buffer = device(&context, &stream, &vec![0u32; n as usize]);
    let (from, to) = (
        Pinned::<u32>::new(&context, "in", n as usize).unwrap(),
        Pinned::<u32>::new(&context, "out", n as usize).unwrap(),
    );
    let graph = stream
        .capture::<GpuError>(|stream| {
            stream.copy_to_device(&from, &buffer)?;
            for addend in 1..=10 {
                add.launch(
                    stream,
                    LaunchShape::covering(n as usize, 256),
                    &(buffer.ptr(), n, addend),
                )?;
            }
            stream.copy_to_host(&buffer, &to)
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap(), 12);
    let graph = graph.instantiate().unwrap();
    graph.upload(&stream).unwrap();
    stream.synchronize().unwrap();
    assert!(
        host(&stream, &buffer, 1).iter().all(|&v| v == 0),
        "a capture runs nothing"
    );
    for frame in 0..100u32 {
        for (i, v) in from.write().unwrap().iter_mut().enumerate() {
            *v = frame.wrapping_mul(7919) ^ i as u32;
        }
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        let found = to.read().unwrap();
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(i, &v)| v == (frame.wrapping_mul(7919) ^ i as u32).wrapping_add(55))
        );
    }
}

fn a_graph_takes_new_parameters() {
    let (context, stream) = setup();
    let add = add(&context);
    let shape = LaunchShape::covering(100, 32);
    let [first, second] = [(); 2].map(|()| device(&context, &stream, &[0u32; 100]));
    let capture = |addend| {
        let mut node = None;
        let graph = stream.capture::<GpuError>(|stream| {
            add.launch(stream, shape, &(first.ptr(), 100, 1000))?;
            node = Some(add.launch_node(stream, shape, &(first.ptr(), 100, addend))?);
            add.launch(stream, shape, &(first.ptr(), 100, 2000))
        });
        (graph.unwrap(), node.unwrap())
    };
    let (graph, node) = capture(1);
    let mut graph = graph.instantiate().unwrap();
    let run = |graph: &GraphExec| {
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        (host(&stream, &first, 0)[99], host(&stream, &second, 0)[99])
    };
    assert_eq!(run(&graph), (3001, 0));
    graph
        .set_kernel(&node, &add, shape, &(first.ptr(), 100, 5))
        .unwrap();
    assert_eq!(run(&graph), (6006, 0));
    graph
        .set_kernel(
            &node,
            &add,
            LaunchShape::covering(100, 64),
            &(second.ptr(), 100, 7),
        )
        .unwrap();
    assert_eq!(run(&graph), (9006, 7));
    let (other, other_node) = capture(9);
    assert!(matches!(
        graph.set_kernel(&other_node, &add, shape, &(first.ptr(), 100, 5)),
        Err(GpuError::Capture(_))
    ));
    graph.update(other).unwrap();
    assert_eq!(run(&graph), (12015, 7));
    let different = stream
        .capture::<GpuError>(|s| add.launch(s, shape, &(first.ptr(), 100, 1)))
        .unwrap();
    assert!(graph.update(different).is_err());
}

fn a_graph_keeps_what_it_uses() {
    let (context, stream) = setup();
    let to = Pinned::<u32>::new(&context, "out", 64).unwrap();
    let graph = {
        let add = add(&context);
        let buffer = device(&context, &stream, &[5u32; 64]);
        stream
            .capture::<GpuError>(|s| {
                add.launch(s, LaunchShape::linear(1, 64), &(buffer.ptr(), 64, 1))?;
                s.copy_to_host(&buffer, &to)
            })
            .unwrap()
            .instantiate()
            .unwrap()
    };
    assert!(context.allocated().0 > 0);
    for expected in [6, 7] {
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(to.read().unwrap().iter().all(|&v| v == expected));
    }
    drop(graph);
    assert_eq!(context.allocated(), (0, 256));
    context.take_error().unwrap();
}

fn captures_end_whatever_happens() {
    let (context, stream) = setup();
    let add = add(&context);
    let buffer = device(&context, &stream, &[0u32; 8]);
    let one = |s: &Stream| add.launch(s, LaunchShape::linear(1, 8), &(buffer.ptr(), 8, 1));
    let refused = stream.capture::<GpuError>(|s| one(s).and(Err(GpuError::Capture("on purpose"))));
    assert_eq!(refused.err(), Some(GpuError::Capture("on purpose")));
    // A wait is not allowed in a capture, and spoils it.
    let refused = stream.capture::<GpuError>(|s| one(s).and_then(|()| s.synchronize()));
    assert!(
        matches!(
            refused,
            Err(GpuError::Driver {
                code: 900..=908,
                ..
            })
        ),
        "{:?}",
        refused.err()
    );
    let refused = stream.capture::<GpuError>(|s| s.capture::<GpuError>(one).map(drop));
    assert!(
        matches!(refused, Err(GpuError::Capture(_))),
        "{:?}",
        refused.err()
    );
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream
            .capture::<GpuError>(|_| panic!("on purpose"))
            .map(drop)
    }));
    std::panic::set_hook(hook);
    assert!(panicked.is_err());
    one(&stream).unwrap();
    let graph = stream
        .capture::<GpuError>(one)
        .unwrap()
        .instantiate()
        .unwrap();
    graph.launch(&stream).unwrap();
    assert_eq!(host(&stream, &buffer, 0), [2; 8], "only the last two ran");
    assert!(matches!(
        add.launch_node(&stream, LaunchShape::linear(1, 8), &(buffer.ptr(), 8, 1)),
        Err(GpuError::Capture(_))
    ));
    assert_eq!(context.sticky(), None);
}

fn streams_join_in_a_capture() {
    let (context, stream) = setup();
    let side = Stream::new(&context, Priority::Normal).unwrap();
    let add = add(&context);
    let shape = LaunchShape::linear(1, 8);
    let [a, b] = [(); 2].map(|()| device(&context, &stream, &[0u32; 8]));
    let (fork, join) = (
        Event::for_order(&context, false).unwrap(),
        Event::for_order(&context, false).unwrap(),
    );
    let [start, middle, end] = [(); 3].map(|()| Rc::new(Event::new(&context).unwrap()));
    let graph = stream
        .capture::<GpuError>(|stream| {
            stream.record_in_graph(&start)?;
            stream.record(&fork)?;
            side.wait(&fork)?;
            add.launch(&side, shape, &(b.ptr(), 8, 2))?;
            add.launch(stream, shape, &(a.ptr(), 8, 1))?;
            stream.record_in_graph(&middle)?;
            side.record(&join)?;
            stream.wait(&join)?;
            add.launch(stream, shape, &(b.ptr(), 8, 40))?;
            stream.record_in_graph(&end)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(
        (host(&stream, &a, 0), host(&stream, &b, 0)),
        (vec![1; 8], vec![42; 8])
    );
    let (first, whole) = (
        middle.microseconds_since(&start).unwrap(),
        end.microseconds_since(&start).unwrap(),
    );
    assert!(first > 0.0 && whole > first, "{first} {whole}");
}

fn events_take_the_time_and_free_buffers() {
    let (context, stream) = setup();
    let (start, end) = (Event::new(&context).unwrap(), Event::new(&context).unwrap());
    let buffer = device(&context, &stream, &vec![0u16; 1 << 22]);
    let to = pinned(&context, 1 << 22);
    for _ in 0..3 {
        stream.record(&start).unwrap();
        stream.fill(&buffer, 77).unwrap();
        stream.copy_to_host(&buffer, &to).unwrap();
        stream.record(&end).unwrap();
        // The event is enough to know; the stream need not be waited for.
        assert!(matches!(
            to.read().err(),
            Some(GpuError::Busy { by: "device", .. })
        ));
        end.synchronize().unwrap();
        assert!(to.read().unwrap().iter().all(|&v| v == 77));
        let elapsed = end.microseconds_since(&start).unwrap();
        assert!(elapsed > 1.0, "8 MiB in {elapsed} µs");
        assert!(start.is_done().unwrap() && end.is_done().unwrap());
        while !stream.is_done().unwrap() {}
    }
    let untimed = Event::for_order(&context, true).unwrap();
    stream.record(&untimed).unwrap();
    untimed.synchronize().unwrap();
    assert!(end.microseconds_since(&untimed).is_err());
    // Order between streams.
    let other = Stream::new(&context, Priority::Normal).unwrap();
    stream.fill(&buffer, 5).unwrap();
    stream.record(&end).unwrap();
    other.wait(&end).unwrap();
    other.copy_to_host(&buffer, &to).unwrap();
    other.synchronize().unwrap();
    assert!(to.read().unwrap().iter().all(|&v| v == 5));
}

fn page_locked_memory_is_the_hosts_only_when_the_device_is_done() {
    let (context, stream) = setup();
    let buffer = device(&context, &stream, &[3u16; 100]);
    let memory = pinned(&context, 100);
    let busy =
        |by: &'static str| move |e: GpuError| matches!(e, GpuError::Busy { by: b, .. } if b == by);
    {
        let reader = memory.read().unwrap();
        stream.copy_to_device(&memory, &buffer).unwrap();
        assert!(
            stream
                .copy_to_host(&buffer, &memory)
                .is_err_and(busy("host"))
        );
        assert_eq!(reader[0], 0);
        assert!(memory.write().err().is_some_and(busy("device")));
    }
    stream.synchronize().unwrap();
    {
        let _writer = memory.write().unwrap();
        assert!(memory.read().err().is_some_and(busy("host")));
        assert!(
            stream
                .copy_to_device(&memory, &buffer)
                .is_err_and(busy("host"))
        );
    }
    stream.copy_to_host(&buffer, &memory).unwrap();
    assert!(
        memory
            .slice(0..1)
            .unwrap()
            .read()
            .err()
            .is_some_and(busy("device"))
    );
    while !stream.is_done().unwrap() {}
    drop(memory.read().unwrap());

    // A graph's buffers count as in use from its launch on.
    let graph = stream
        .capture::<GpuError>(|s| s.copy_to_host(&buffer, &memory))
        .unwrap()
        .instantiate()
        .unwrap();
    drop(memory.read().unwrap());
    {
        let _reader = memory.read().unwrap();
        assert!(graph.launch(&stream).is_err_and(busy("host")));
    }
    graph.launch(&stream).unwrap();
    assert!(memory.read().err().is_some_and(busy("device")));
    stream.synchronize().unwrap();
    drop(memory.write().unwrap());
}

fn kernels_reach_page_locked_memory_in_place() {
    let (context, stream) = setup();
    let add = add(&context);
    let memory = Pinned::<u32>::new(&context, "mapped", 1000).unwrap();
    memory.write().unwrap().fill(1);
    let part = memory.slice(10..20).unwrap();
    add.launch(&stream, LaunchShape::linear(1, 32), &(part.ptr(), 10, 41))
        .unwrap();
    assert!(matches!(memory.read().err(), Some(GpuError::Busy { .. })));
    stream.synchronize().unwrap();
    let found = memory.read().unwrap();
    assert!(
        found
            .iter()
            .enumerate()
            .all(|(i, &v)| v == if (10..20).contains(&i) { 42 } else { 1 })
    );
}

fn memory_is_counted_and_limited() {
    let options = ContextOptions {
        device_limit: 1 << 20,
        pinned_limit: 1000,
        ..Default::default()
    };
    let context = Context::new(&options).unwrap();
    context.check_limits("all", 1 << 20, 1000).unwrap();
    let refused = context.check_limits("all", (1 << 20) + 1, 0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "device memory: all takes the total to 1048577 bytes; expected at most 1048576"
    );
    assert_eq!(refused.exit_status(), 78);

    let mut layout = ArenaLayout::new();
    let small = layout.reserve::<u32>("small", 3);
    let large = layout.reserve::<u16>("large", 256 * 1024);
    assert_eq!(layout.bytes(), 512 * 1024 + 256);
    let arena = Arena::new(&context, "first", layout).unwrap();
    assert_eq!(context.allocated(), (512 * 1024 + 256, 0));
    let (small, large) = (arena.buffer(small).unwrap(), arena.buffer(large).unwrap());
    assert_eq!(large.ptr().address() - small.ptr().address(), 256);
    assert_eq!(large.ptr().address() % ALIGNMENT as u64, 0);
    assert_eq!(large.view::<u64>().unwrap().len(), 64 * 1024);
    assert!(
        small.view::<u64>().is_err(),
        "12 bytes are no whole number of them"
    );

    let mut layout = ArenaLayout::new();
    let other = layout.reserve::<u8>("other", 600 * 1024);
    assert!(matches!(
        arena.buffer(other),
        Err(GpuError::NoSuchName { .. })
    ));
    let refused = Arena::new(&context, "second", layout).err().unwrap();
    assert!(
        matches!(&refused, GpuError::Limit { name, .. } if name == "second"),
        "{refused}"
    );
    drop(arena);
    drop(small);
    assert!(
        context.allocated().0 > 0,
        "a buffer keeps its arena's memory"
    );
    drop(large);
    assert_eq!(context.allocated(), (0, 0));
    let mut layout = ArenaLayout::new();
    layout.reserve::<u8>("other", 600 * 1024);
    Arena::new(&context, "second", layout).unwrap();

    let _pinned = Pinned::<u64>::new(&context, "a", 125).unwrap();
    assert!(matches!(
        Pinned::<u8>::new(&context, "b", 1),
        Err(GpuError::Limit { needed: 1001, .. })
    ));
    assert!(matches!(
        Pinned::<u64>::new(&context, "c", usize::MAX),
        Err(GpuError::Limit { .. })
    ));
    let (free, total) = context.free_memory().unwrap();
    assert!(free <= total && total > 0);
    context.take_error().unwrap();
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

/// Counts allocations of the thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn the_frame_path_allocates_nothing() {
    let (context, stream) = setup();
    let add = add(&context);
    let shape = LaunchShape::linear(4, 256);
    let buffer = device(&context, &stream, &[0u32; 1024]);
    let (from, to) = (
        Pinned::<u32>::new(&context, "in", 1024).unwrap(),
        Pinned::<u32>::new(&context, "out", 1024).unwrap(),
    );
    let (start, end) = (Event::new(&context).unwrap(), Event::new(&context).unwrap());
    let mut node = None;
    let mut graph = stream
        .capture::<GpuError>(|stream| {
            stream.copy_to_device(&from, &buffer)?;
            node = Some(add.launch_node(stream, shape, &(buffer.ptr(), 1024, 1))?);
            for _ in 0..9 {
                add.launch(stream, shape, &(buffer.ptr(), 1024, 1))?;
            }
            stream.copy_to_host(&buffer, &to)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    let node = node.unwrap();
    let mut frame = |n: u32| -> Result<u32, GpuError> {
        from.write()?.fill(n);
        stream.record(&start)?;
        graph.set_kernel(&node, &add, shape, &(buffer.ptr(), 1024, n))?;
        graph.launch(&stream)?;
        add.launch(&stream, shape, &(buffer.ptr(), 1024, n))?;
        stream.copy_on_device(&buffer.slice(0..10)?, &buffer.slice(10..20)?)?;
        stream.record(&end)?;
        end.synchronize()?;
        let _ = end.microseconds_since(&start)?;
        Ok(to.read()?[1023])
    };
    for n in 0..10 {
        assert_eq!(frame(n), Ok(2 * n + 9));
    }
    let before = ALLOCATIONS.get();
    let mut right = 0;
    for n in 0..1000 {
        right += u32::from(frame(n) == Ok(2 * n + 9));
    }
    let made = ALLOCATIONS.get() - before;
    assert_eq!(
        (right, made),
        (1000, 0),
        "(frames that are right, allocations)"
    );
    if std::env::var_os("ROADLOOP_LATENCY").is_some() {
        latency(&context, &stream, &add, &buffer);
    }
}

/// For information, on request: what this room adds to the driver's own times.
fn latency(context: &Context, stream: &Stream, add: &Add, buffer: &DeviceBuffer<u32>) {
    let shape = LaunchShape::linear(4, 256);
    let graph = stream
        .capture::<GpuError>(|s| {
            (0..12).try_for_each(|_| add.launch(s, shape, &(buffer.ptr(), 1024, 1)))
        })
        .unwrap()
        .instantiate()
        .unwrap();
    let time = |name: &str, work: &dyn Fn()| {
        let mut times: Vec<u128> = (0..5000)
            .map(|_| {
                let start = std::time::Instant::now();
                work();
                start.elapsed().as_nanos()
            })
            .collect();
        context.synchronize().unwrap();
        times.sort_unstable();
        println!("{name}: median {} ns, p99 {} ns", times[2500], times[4950]);
    };
    let sync = || stream.synchronize().unwrap();
    time("launch + wait, one kernel", &|| {
        add.launch(stream, shape, &(buffer.ptr(), 1024, 1)).unwrap();
        sync();
    });
    time("launch + wait, graph of 12", &|| {
        graph.launch(stream).unwrap();
        sync();
    });
    time("wait with nothing to do", &sync);
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
