//! Do graphs run what was captured, with new parameters, and without an allocation?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;
#[path = "common/heap.rs"]
mod heap;

use std::rc::Rc;

use gpu::{Add, add, device, host, pinned, setup};
use heap::allocations;
use roadloop::cuda::*;

gpu_tests![
    a_graph_runs_what_was_captured_again_and_again,
    a_graph_takes_new_parameters,
    a_graph_keeps_what_it_uses,
    captures_end_whatever_happens,
    streams_join_in_a_capture,
    events_take_the_time_and_free_buffers,
    the_frame_path_allocates_nothing,
];

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
    let before = allocations();
    let mut right = 0;
    for n in 0..1000 {
        right += u32::from(frame(n) == Ok(2 * n + 9));
    }
    let made = allocations() - before;
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
