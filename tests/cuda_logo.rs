//! Are features and matches on the GPU the CPU's, bit by bit?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use gpu::{device, host, random, setup};
use roadloop::{
    cuda::*,
    frame::{Image, Size},
    picture,
    source::synth::{Options, Street},
    stage::logo::features::{
        BorderPolicy, Descriptor, FeatureParams, Features, Region,
        cpu::{self, Input},
        cuda::{Counts, Keypoint, Match, Matcher, Plan, Train},
        matcher,
    },
};

gpu_tests![
    a_street_gives_the_same_features,
    every_size_gives_the_same_features,
    parameters_count_alike,
    noise_overflows_alike,
    regions_are_images_of_their_own,
    masked_points_are_left_out_alike,
    a_hundred_runs_of_a_graph_give_one_result,
    matches_are_the_same,
    lists_side_by_side_are_matched_as_alone,
    a_frame_is_matched_without_the_host,
    small_marks; always:
    the_host_lays_structs_out_as_the_kernels,
    what_is_for_the_cpu_is_refused
];

fn the_host_lays_structs_out_as_the_kernels() {
    assert_eq!(size_of::<Keypoint>(), 32);
    assert_eq!(size_of::<Counts>(), 32);
    assert_eq!(size_of::<Match>(), 16);
}

/// Squares of several sizes over a little noise.
fn picture(size: Size, seed: u64) -> Image<u8> {
    let hash = |a: usize, b: usize, c: usize| {
        let mut v = seed ^ (a as u64) << 40 ^ (b as u64) << 20 ^ c as u64;
        for _ in 0..3 {
            v = (v ^ v >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        v >> 32
    };
    Image::from_fn(size.width, size.height, |x, y| {
        let grey: u64 = [4, 11, 23, 57]
            .map(|n| hash(x / n, y / n, n) % 48)
            .iter()
            .sum();
        (20 + grey + hash(x, y, 1) % 6) as u8
    })
}

fn noise(size: Size, seed: u64) -> Image<u8> {
    let mut noise = random(seed);
    Image::from_fn(size.width, size.height, |_, _| noise.next().unwrap() as u8)
}

fn street(size: Size) -> Image<u8> {
    let options = Options {
        frames: 8,
        seed: 3,
        size,
        ..Options::default()
    };
    let frame = Street::new(&options).unwrap().render(5);
    let rgb = &frame.left_rgb;
    Image::from_fn(size.width, size.height, |x, y| {
        picture::grey_of(rgb.get(x, y))
    })
}

fn assert_same(a: &Features, b: &Features, what: &str) {
    assert_eq!(
        (a.found, a.kept, a.oriented, a.keypoints.len()),
        (b.found, b.kept, b.oriented, b.keypoints.len()),
        "{what}: found, kept, oriented, in the list"
    );
    for (i, (a, b)) in a.keypoints.iter().zip(&b.keypoints).enumerate() {
        assert_eq!(a, b, "{what}: keypoint {i}");
    }
    assert!(a.descriptors == b.descriptors, "{what}: descriptors");
    assert!(a.original == b.original, "{what}: original");
}

fn check(params: &FeatureParams, image: &Image<u8>) -> usize {
    let (context, stream) = setup();
    let size = image.size();
    let mut expected = Features::new(params);
    cpu::Plan::new(params, size)
        .unwrap()
        .run(image, &mut expected);
    let plan = Plan::new(&context, params, size).unwrap();
    let pixels: Vec<u8> = image.pixels().copied().collect();
    let pixels = device(&context, &stream, &pixels);
    let graph = stream
        .capture::<GpuError>(|stream| plan.enqueue(stream, &pixels))
        .unwrap();
    let graph = graph.instantiate().unwrap();
    let mut out = Features::new(params);
    for run in 0..2 {
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        plan.found().download(&stream, &mut out).unwrap();
        assert_same(&out, &expected, &format!("{size}, run {run}, {params:?}"));
    }
    expected.keypoints.len()
}

fn masked_points_are_left_out_alike() {
    let (context, stream) = setup();
    let upsample = FeatureParams {
        sigma0: 1.6,
        upsample: true,
        cell_px: 64,
        ..FeatureParams::default()
    };
    for (params, size) in [
        (FeatureParams::default(), Size::new(401, 307)),
        (FeatureParams::default(), Size::new(33, 40)),
        (upsample, Size::new(320, 240)),
    ] {
        let image = picture(size, 3);
        let mask = Image::from_fn(size.width, size.height, |x, y| {
            u8::from((x / 23 + y / 19) % 3 != 0)
        });
        let mut all = Features::new(&params);
        let mut expected = Features::new(&params);
        let mut reference = cpu::Plan::new(&params, size).unwrap();
        reference.run(&image, &mut all);
        let input = Input {
            image: &image,
            region: None,
            mask: Some(&mask),
        };
        reference.run(input, &mut expected);
        assert!(expected.found < all.found);
        let plan = Plan::with_mask(&context, &params, size, Some(&mask)).unwrap();
        let pixels: Vec<u8> = image.pixels().copied().collect();
        let pixels = device(&context, &stream, &pixels);
        plan.enqueue(&stream, &pixels).unwrap();
        let mut out = Features::new(&params);
        plan.found().download(&stream, &mut out).unwrap();
        assert_same(&out, &expected, &format!("{size}, masked"));
    }
    let wrong = Plan::with_mask(
        &context,
        &FeatureParams::default(),
        Size::new(64, 64),
        Some(&Image::new(3, 2)),
    );
    let said = wrong.err().unwrap().to_string();
    assert!(said.contains("pixels of the mask"), "{said}");
}

fn what_is_for_the_cpu_is_refused() {
    let Ok(context) = Context::new(&ContextOptions::default()) else {
        return;
    };
    let size = Size::new(64, 64);
    let refused = Plan::new(&context, &FeatureParams::paper(), size)
        .err()
        .unwrap();
    assert_eq!(
        refused.to_string(),
        "logo.features.mode: paper is for the CPU alone; on the GPU scale_space"
    );
}

fn a_street_gives_the_same_features() {
    let image = street(Size::new(1280, 720));
    assert!(check(&FeatureParams::default(), &image) > 300);
    let upsample = FeatureParams {
        sigma0: 1.6,
        upsample: true,
        ..FeatureParams::default()
    };
    assert!(check(&upsample, &image) > 300);
}

fn every_size_gives_the_same_features() {
    let params = FeatureParams::default();
    for (w, h) in [
        (1, 1),
        (1, 50),
        (50, 1),
        (2, 2),
        (16, 16),
        (11, 11),
        (31, 33),
        (64, 32),
        (65, 33),
        (129, 257),
        (333, 251),
        (1023, 67),
        (97, 1025),
        (640, 480),
        (1242, 375),
    ] {
        let size = Size::new(w, h);
        for image in [picture(size, 1), noise(size, 2), Image::filled(w, h, 77)] {
            check(&params, &image);
        }
    }
}

fn parameters_count_alike() {
    let image = picture(Size::new(301, 203), 7);
    let default = FeatureParams::default();
    let mut all = Vec::new();
    for intervals in 2..=5 {
        for (sigma0, upsample) in [
            (0.8, false),
            (1.0, true),
            (1.3, false),
            (1.6, true),
            (2.0, false),
            (2.0, true),
        ] {
            all.push(FeatureParams {
                intervals,
                sigma0,
                upsample,
                input_blur: 0.3,
                ..default.clone()
            });
        }
    }
    for octaves in 1..4 {
        for upsample in [false, true] {
            let scaled = octaves == 3;
            all.push(FeatureParams {
                octaves,
                upsample,
                input_blur: 0.3,
                scaled,
                ..default.clone()
            });
        }
    }
    for max_keypoints in [1, 31, 32, 33, 100, 257, 5000] {
        for (cell_px, cell_budget) in [(0, 1), (40, 3), (8, 1), (999, 50)] {
            all.push(FeatureParams {
                max_keypoints,
                cell_px,
                cell_budget,
                contrast: 0.01,
                ..default.clone()
            });
        }
    }
    for max_orientations in 1..=4 {
        for border in [BorderPolicy::Drop, BorderPolicy::Clamp] {
            for scaled in [false, true] {
                all.push(FeatureParams {
                    max_orientations,
                    border,
                    scaled,
                    ..default.clone()
                });
            }
        }
    }
    all.push(FeatureParams {
        oriented: false,
        ..default.clone()
    });
    all.push(FeatureParams {
        edge_ratio: 3.0,
        contrast: 0.0,
        max_keypoints: 16_384,
        ..default
    });
    for params in &all {
        check(params, &image);
    }
}

fn noise_overflows_alike() {
    let size = Size::new(1280, 720);
    let params = FeatureParams {
        contrast: 0.0,
        edge_ratio: 1000.0,
        ..FeatureParams::default()
    };
    check(&params, &noise(size, 5));
    let cells = FeatureParams {
        cell_px: 64,
        ..params
    };
    check(&cells, &noise(size, 6));
}

fn regions_are_images_of_their_own() {
    let (context, stream) = setup();
    let size = Size::new(400, 300);
    let image = picture(size, 9);
    let params = FeatureParams {
        cell_px: 50,
        cell_budget: 9,
        ..FeatureParams::default()
    };
    let plan = Plan::new(&context, &params, size).unwrap();
    let pixels: Vec<u8> = image.pixels().copied().collect();
    let pixels = device(&context, &stream, &pixels);
    let mut reference = cpu::Plan::new(&params, size).unwrap();
    let (mut expected, mut out) = (Features::new(&params), Features::new(&params));
    let mut total = 0;
    for [x, y, w, h] in [
        [0, 0, 400, 300],
        [37, 21, 101, 90],
        [0, 0, 16, 300],
        [399, 0, 1, 300],
        [200, 150, 200, 150],
        [3, 5, 33, 31],
        [9, 9, 0, 0],
        [0, 0, 400, 300],
    ] {
        stream.upload(&[[x, y, w, h]], plan.region()).unwrap();
        plan.enqueue(&stream, &pixels).unwrap();
        plan.found().download(&stream, &mut out).unwrap();
        let region = Region {
            x: x as usize,
            y: y as usize,
            size: Size::new(w as usize, h as usize),
        };
        let input = Input {
            image: &image,
            region: Some(region),
            mask: None,
        };
        reference.run(input, &mut expected);
        assert_same(&out, &expected, &format!("{region:?}"));
        total += out.keypoints.len();
    }
    assert!(total > 300);
}

fn a_hundred_runs_of_a_graph_give_one_result() {
    let (context, stream) = setup();
    let image = picture(Size::new(1280, 720), 4);
    let params = FeatureParams {
        max_keypoints: 500,
        ..FeatureParams::default()
    };
    let plan = Plan::new(&context, &params, image.size()).unwrap();
    let pixels: Vec<u8> = image.pixels().copied().collect();
    let pixels = device(&context, &stream, &pixels);
    let graph = stream
        .capture::<GpuError>(|stream| plan.enqueue(stream, &pixels))
        .unwrap();
    let graph = graph.instantiate().unwrap();
    let (mut first, mut out) = (Features::new(&params), Features::new(&params));
    for run in 0..100 {
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        plan.found().download(&stream, &mut out).unwrap();
        if run == 0 {
            first = out.clone();
        }
        assert_same(&out, &first, &format!("run {run}"));
    }
}

/// Descriptors of few bits: many ties.
fn descriptors(n: usize, seed: u64, bits: u32) -> Vec<[u32; 8]> {
    let mut noise = random(seed);
    let mut word = || noise.next().unwrap() as u32 & bits;
    (0..n).map(|_| std::array::from_fn(|_| word())).collect()
}

fn same_matches(found: &[Match], query: &[[u32; 8]], train: &[[u32; 8]], groups: Option<&[u32]>) {
    let of = |d: &[[u32; 8]]| -> Vec<Descriptor> { d.iter().copied().map(Descriptor).collect() };
    let mut expected = Vec::new();
    match groups {
        None => matcher::two_nearest(&of(query), &of(train), &mut expected),
        Some(g) => matcher::two_nearest_apart(&of(query), &of(train), g, &mut expected),
    }
    let there = |m: &&Match| m.second_distance <= 256;
    assert_eq!(found.iter().filter(there).count(), expected.len());
    for e in &expected {
        let m = &found[e.query as usize];
        let expected = (e.train, e.distance, e.second, e.second_distance);
        assert_eq!((m.train, m.distance, m.second, m.second_distance), expected);
    }
}

fn matches_are_the_same() {
    let (context, stream) = setup();
    let matcher = Matcher::new(&context).unwrap();
    for (queries, trains) in [(1, 1), (1, 2), (7, 33), (100, 31), (1000, 1000), (33, 4099)] {
        for bits in [u32::MAX, 0x0101_0101, 1, 0] {
            let query = descriptors(queries, 1, bits);
            let train = descriptors(trains, 2, bits);
            let groups: Vec<u32> = (0..trains as u32).map(|i| i * 7 % 40).collect();
            let (q, t) = (
                device(&context, &stream, &query),
                device(&context, &stream, &train),
            );
            let (nq, nt) = (
                device(&context, &stream, &[queries as u32]),
                device(&context, &stream, &[trains as u32]),
            );
            let g = device(&context, &stream, &groups);
            let out = device(&context, &stream, &vec![Match::default(); queries]);
            for apart in [false, true] {
                let train_of = Train {
                    descriptors: &t,
                    count: &nt,
                    groups: apart.then_some(&g),
                };
                matcher
                    .enqueue_lists(&stream, &q, &nq, train_of, &out)
                    .unwrap();
                let found = host(&stream, &out, Match::default());
                same_matches(&found, &query, &train, apart.then_some(&groups));
            }
        }
    }
}

fn a_frame_is_matched_without_the_host() {
    let (context, stream) = setup();
    let image = picture(Size::new(640, 480), 4);
    let params = FeatureParams::default();
    let plan = Plan::new(&context, &params, image.size()).unwrap();
    let matcher = Matcher::new(&context).unwrap();
    let pixels: Vec<u8> = image.pixels().copied().collect();
    let pixels = device(&context, &stream, &pixels);
    let train = descriptors(777, 5, u32::MAX);
    let (t, n) = (
        device(&context, &stream, &train),
        device(&context, &stream, &[700u32]),
    );
    let out = device(
        &context,
        &stream,
        &vec![Match::default(); params.capacity()],
    );
    let graph = stream
        .capture::<GpuError>(|stream| {
            plan.enqueue(stream, &pixels)?;
            let train = Train {
                descriptors: &t,
                count: &n,
                groups: None,
            };
            matcher.enqueue(stream, plan.found(), train, &out)
        })
        .unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let mut features = Features::new(&params);
    plan.found().download(&stream, &mut features).unwrap();
    let query: Vec<[u32; 8]> = features.descriptors.iter().map(|d| d.0).collect();
    assert!(query.len() > 100);
    let found = host(&stream, &out, Match::default());
    same_matches(&found[..query.len()], &query, &train[..700], None);
}

/// More lists than a launch has room for, of several lengths, with groups and without.
fn lists_side_by_side_are_matched_as_alone() {
    let (context, stream) = setup();
    let image = picture(Size::new(320, 240), 4);
    let params = FeatureParams::default();
    let plan = Plan::new(&context, &params, image.size()).unwrap();
    let matcher = Matcher::new(&context).unwrap();
    let pixels: Vec<u8> = image.pixels().copied().collect();
    plan.enqueue(&stream, &device(&context, &stream, &pixels))
        .unwrap();
    let mut features = Features::new(&params);
    plan.found().download(&stream, &mut features).unwrap();
    let query: Vec<[u32; 8]> = features.descriptors.iter().map(|d| d.0).collect();
    assert!(query.len() > 100);
    let empty = vec![Match::default(); params.capacity()];
    let lists: Vec<_> = (0..11usize)
        .map(|n| {
            let train = descriptors(2 + 97 * n, n as u64, u32::MAX);
            let groups: Vec<u32> = (0..train.len() as u32).map(|i| i / 3).collect();
            let on_device = (
                device(&context, &stream, &train),
                device(&context, &stream, &groups),
                device(&context, &stream, &[train.len() as u32]),
                device(&context, &stream, &empty),
            );
            (train, groups, on_device)
        })
        .collect();
    let given: Vec<_> = (lists.iter().enumerate())
        .map(|(n, (_, _, (descriptors, groups, count, out)))| {
            let groups = (n % 3 != 1).then_some(groups);
            let train = Train {
                descriptors,
                count,
                groups,
            };
            (train, out)
        })
        .collect();
    matcher.enqueue_all(&stream, plan.found(), &given).unwrap();
    for (n, (train, groups, (.., out))) in lists.iter().enumerate() {
        let found = host(&stream, out, Match::default());
        let groups = (n % 3 != 1).then_some(&groups[..]);
        same_matches(&found[..query.len()], &query, train, groups);
    }
}

/// Every kernel, small enough for the sanitizers.
fn small_marks() {
    let params = FeatureParams {
        max_keypoints: 60,
        contrast: 0.01,
        ..FeatureParams::default()
    };
    let cells = FeatureParams {
        cell_px: 20,
        cell_budget: 3,
        upsample: true,
        sigma0: 1.6,
        ..params.clone()
    };
    for size in [Size::new(97, 71), Size::new(33, 130)] {
        check(&params, &picture(size, 3));
        check(&cells, &picture(size, 4));
    }
    let (context, stream) = setup();
    let matcher = Matcher::new(&context).unwrap();
    let (query, train) = (descriptors(37, 1, u32::MAX), descriptors(65, 2, u32::MAX));
    let groups: Vec<u32> = (0..65).map(|i| i / 3).collect();
    let out = device(&context, &stream, &vec![Match::default(); query.len()]);
    let (q, t) = (
        device(&context, &stream, &query),
        device(&context, &stream, &train),
    );
    let counts = [37u32, 65].map(|n| device(&context, &stream, &[n]));
    let g = device(&context, &stream, &groups);
    let train_of = Train {
        descriptors: &t,
        count: &counts[1],
        groups: Some(&g),
    };
    matcher
        .enqueue_lists(&stream, &q, &counts[0], train_of, &out)
        .unwrap();
    let found = host(&stream, &out, Match::default());
    same_matches(&found, &query, &train, Some(&groups));
}
