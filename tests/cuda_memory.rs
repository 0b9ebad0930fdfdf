//! Do copies come back as they were, and is GPU memory counted, limited and never raced for?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use gpu::{add, device, host, pinned, random, setup};
use roadloop::cuda::*;

gpu_tests![
    copies_come_back_as_they_were,
    rows_are_copied_between_strides,
    fills_set_every_element,
    page_locked_memory_is_the_hosts_only_when_the_device_is_done,
    kernels_reach_page_locked_memory_in_place,
    memory_is_counted_and_limited,
];

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
