//! Do the stixels of the GPU have the bytes of the CPU's?
#[path = "common/columns.rs"]
mod columns;
#[path = "common/mod.rs"]
mod common;
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use columns::{camera, noise, random, road, street};
use gpu::{device, host, setup};
use roadloop::{
    cuda::*,
    frame::{Camera, Disparity, INVALID, Road, Size, Stixels},
    picture::{self, Picture},
    stage::{
        Stage as _,
        stixel::{self, Input, InvalidPixels, Params, Reduction, RoadModel, Rounding, SigmaOf},
    },
};

gpu_tests![
    both_presets_at_all_heights,
    all_stixel_widths_and_reductions,
    models_in_between,
    roads_of_all_kinds,
    lists_that_are_too_short,
    tall_images,
    what_a_plan_refuses,
    one_graph_for_many_frames,
    recorded_drives,
    small_columns,
];

fn floats(road: &Road) -> Vec<f32> {
    vec![road.slope, road.offset, road.horizon_row]
}

/// Both backends on these images; how many stixels there were in all.
fn compare_with(
    threads: Option<u32>,
    params: &Params,
    camera: &Camera,
    disparities: usize,
    images: &[(&str, &Disparity, Road)],
) -> usize {
    let (context, stream) = setup();
    let size = images[0].1.size();
    let plan = stixel::cuda::Plan::with_threads(
        &context,
        &stream,
        params,
        size,
        camera,
        disparities,
        threads,
    )
    .unwrap();
    let mut reference = stixel::cpu::Plan::new(params, size, camera, disparities).unwrap();
    let words = device(&context, &stream, &vec![u64::MAX; plan.output_words()]);
    let (mut found, mut expected) = (plan.output(), reference.output());
    let mut total = 0;
    for (name, disparity, road) in images {
        let pixels = device(&context, &stream, disparity.data());
        let line = device(&context, &stream, &floats(road));
        plan.enqueue(&stream, &pixels, disparity.stride(), &line, &words)
            .unwrap();
        plan.decode(&host(&stream, &words, 0), &mut found);
        reference.run(Input { disparity, road }, &mut expected);
        total += expected.total();
        assert_same(
            &found,
            &expected,
            &format!("{name} {size} {disparities} {params:?}"),
        );
    }
    total
}

fn compare(
    params: &Params,
    camera: &Camera,
    d: usize,
    images: &[(&str, &Disparity, Road)],
) -> usize {
    compare_with(None, params, camera, d, images)
}

fn assert_same(found: &Stixels, expected: &Stixels, what: &str) {
    for u in 0..expected.columns() {
        assert_eq!(found.column(u), expected.column(u), "column {u} of {what}");
    }
    assert_eq!(found, expected, "{what}");
}

fn presets() -> [Params; 2] {
    [Params::default(), Params::paper()]
}

fn both_presets_at_all_heights() {
    let mut total = 0;
    for (i, height) in [
        1, 2, 31, 32, 33, 63, 64, 65, 375, 480, 768, 1023, 1025, 2160,
    ]
    .into_iter()
    .enumerate()
    {
        for params in presets() {
            let width = [123, 57, 64, 160][i % 4];
            let size = Size::new(width, height);
            let line = road(0.4, height as f32 * 0.4);
            for disparities in [64, 128, 256] {
                let drawn = street(size, &line);
                let any = random(size, disparities, i);
                let nothing = Disparity::filled(width, height, INVALID);
                let flat = Disparity::filled(width, height, 12 * 256 + 77);
                let images = [
                    ("street", &drawn, line),
                    ("random", &any, line),
                    ("nothing", &nothing, line),
                    ("flat", &flat, line),
                ];
                // What is made of random images takes long.
                let images = if height > 1025 {
                    &images[..1]
                } else {
                    &images[..]
                };
                let threads = [None, Some(96), Some(128), Some(256)][(i + disparities / 64) % 4];
                total += compare_with(threads, &params, &camera(size), disparities, images);
            }
        }
    }
    println!("{total} stixels");
}

fn all_stixel_widths_and_reductions() {
    for width in (1..=16).chain([40, 255]) {
        for params in presets() {
            for reduction in [Reduction::Mean, Reduction::Median] {
                let params = Params {
                    stixel_width: width,
                    reduction,
                    ..params.clone()
                };
                let size = Size::new(width * 9 + width / 2, 97);
                let line = road(0.9, 41.5);
                let (drawn, any) = (street(size, &line), random(size, 64, width));
                compare(
                    &params,
                    &camera(size),
                    64,
                    &[("street", &drawn, line), ("random", &any, line)],
                );
            }
        }
    }
}

fn models_in_between() {
    for case in 0..64usize {
        let pick = |i: usize| noise(case, i).is_multiple_of(2);
        let [default, paper] = presets();
        let base = if pick(0) { default } else { paper };
        let params = Params {
            p_same_depth: [0.0, 0.05, 0.3][case % 3],
            object_steps_per_px: 1 + case % 16,
            p_missing: 0.1,
            invalid_pixels: if pick(1) {
                InvalidPixels::Zero
            } else {
                InvalidPixels::Honoured
            },
            rounding: if pick(2) {
                Rounding::Floor
            } else {
                Rounding::Nearest
            },
            object_sigma_of: if pick(3) {
                SigmaOf::Measurement
            } else {
                SigmaOf::Model
            },
            road_model: if pick(4) {
                RoadModel::Reference
            } else {
                RoadModel::Exact
            },
            separation_m: if pick(5) { 10.0 } else { 0.3 },
            sky_below_px: if pick(6) { 1.5 } else { 0.0 },
            p_order: if pick(7) { 0.6 } else { 0.05 },
            ..base
        };
        let size = Size::new(90, 150 + case);
        let line = road(0.7, 50.0 + case as f32 / 3.0);
        let (drawn, any) = (street(size, &line), random(size, 128, case));
        compare(
            &params,
            &camera(size),
            128,
            &[("street", &drawn, line), ("random", &any, line)],
        );
    }
}

fn roads_of_all_kinds() {
    let size = Size::new(200, 161);
    let drawn = street(size, &road(0.6, 60.0));
    let lines = [
        (0.6, 60.0),
        (0.6, -20.0),
        (0.6, 160.0),
        (0.6, 159.99),
        (0.6, 500.0),
        (-0.5, 60.0),
        (0.0, 60.0),
        (f32::NAN, 3.0),
        (0.3, f32::INFINITY),
        (f32::INFINITY, 3.0),
        (0.3, f32::NAN),
        (1e9, 80.0),
        (1e-9, 80.0),
        (3.0, 1e9),
        (3.0, -1e9),
        (0.07, 12.25),
    ];
    let images: Vec<_> = lines.map(|(s, r)| ("street", &drawn, road(s, r))).into();
    for params in presets() {
        compare(&params, &camera(size), 128, &images);
    }
}

fn lists_that_are_too_short() {
    let size = Size::new(100, 240);
    let line = road(0.5, 100.0);
    let (drawn, any) = (street(size, &line), random(size, 64, 5));
    for params in presets() {
        for capacity in [1, 2, 3, 5] {
            let params = Params {
                max_stixels_per_column: capacity,
                ..params.clone()
            };
            compare(
                &params,
                &camera(size),
                64,
                &[("street", &drawn, line), ("random", &any, line)],
            );
        }
    }
}

/// Every kernel of the stage, small enough for the sanitizers.
fn small_columns() {
    let size = Size::new(23, 97);
    let line = road(0.5, 40.0);
    let (drawn, any) = (street(size, &line), random(size, 64, 5));
    for params in presets() {
        compare(
            &params,
            &camera(size),
            64,
            &[("street", &drawn, line), ("random", &any, line)],
        );
    }
}

fn tall_images() {
    for params in presets() {
        for (height, width, disparities) in [(5000, 40, 64), (16_500, 11, 128), (65_535, 11, 64)] {
            let size = Size::new(width, height);
            let line = road(0.01, height as f32 * 0.4);
            let drawn = street(size, &line);
            let params = Params {
                max_stixels_per_column: 500,
                ..params.clone()
            };
            compare(
                &params,
                &camera(size),
                disparities,
                &[("street", &drawn, line)],
            );
        }
        // The kernel for tall images, on a small one: its sums do not fit 32 bits.
        let params = Params {
            stixel_width: 255,
            ..params
        };
        let size = Size::new(600, 300);
        let line = road(0.4, 120.0);
        let (drawn, any) = (street(size, &line), random(size, 256, 3));
        let images = [("street", &drawn, line), ("random", &any, line)];
        compare(&params, &camera(size), 256, &images);
    }
}

fn what_a_plan_refuses() {
    let (context, stream) = setup();
    let plan = |height, d| {
        let size = Size::new(50, height);
        stixel::cuda::Plan::new(
            &context,
            &stream,
            &Params::default(),
            size,
            &camera(size),
            d,
        )
        .map(|_| ())
    };
    assert!(
        plan(65_536, 128)
            .unwrap_err()
            .to_string()
            .contains("65536 rows")
    );
    assert!(plan(0, 128).is_err());
    assert!(plan(100, 100).unwrap_err().to_string().contains("100 px"));
    assert!(plan(100, 128).is_ok());
    let size = Size::new(3, 20);
    let none = stixel::cuda::Plan::new(
        &context,
        &stream,
        &Params::default(),
        size,
        &camera(size),
        64,
    )
    .unwrap();
    assert_eq!(none.columns(), 0);
    let image = Disparity::new(3, 20);
    compare(
        &Params::default(),
        &camera(size),
        64,
        &[("no column", &image, road(1.0, 3.0))],
    );
}

fn one_graph_for_many_frames() {
    let (context, stream) = setup();
    let size = Size::new(640, 375);
    let params = Params::default();
    let plan =
        stixel::cuda::Plan::new(&context, &stream, &params, size, &camera(size), 128).unwrap();
    let mut reference = stixel::cpu::Plan::new(&params, size, &camera(size), 128).unwrap();
    let stride = 704;
    let pixels = device(&context, &stream, &vec![0u16; stride * size.height]);
    let line = device(&context, &stream, &[0f32; 3]);
    let words = device(&context, &stream, &vec![u64::MAX; plan.output_words()]);
    let graph = stream
        .capture::<GpuError>(|s| plan.enqueue(s, &pixels, stride, &line, &words))
        .unwrap()
        .instantiate()
        .unwrap();
    let (mut found, mut expected) = (plan.output(), reference.output());
    for frame in 0..6 {
        let road = road(0.3 + 0.02 * frame as f32, 150.0 + 3.3 * frame as f32);
        let drawn = if frame == 3 {
            random(size, 128, 9)
        } else {
            street(size, &road)
        };
        let mut wide = Disparity::with_stride(size.width, size.height, stride, 99);
        wide.copy_from(&drawn);
        let mut data = wide.data().to_vec();
        data.resize(stride * size.height, 0);
        stream.upload(&data, &pixels).unwrap();
        stream.upload(&floats(&road), &line).unwrap();
        graph.launch(&stream).unwrap();
        let first = host(&stream, &words, 0);
        plan.decode(&first, &mut found);
        let input = Input {
            disparity: &drawn,
            road: &road,
        };
        reference.run(input, &mut expected);
        assert_same(&found, &expected, &format!("frame {frame}"));
        let again = if frame < 2 { 500 } else { 20 };
        for _ in 0..again {
            graph.launch(&stream).unwrap();
            plan.decode(&host(&stream, &words, 0), &mut found);
            assert!(found == expected, "frame {frame} again");
        }
    }
}

fn recorded_drives() {
    let mut files = Vec::new();
    for folder in [
        "stixel_reference/disparities",
        "kitti2015/training/disp_noc_0",
    ] {
        if let Some(path) = common::data(folder) {
            let mut found: Vec<_> = std::fs::read_dir(path)
                .unwrap()
                .map(|e| e.unwrap().path())
                .collect();
            found.sort();
            files.extend(found.into_iter().take(6));
        }
    }
    for file in files {
        let Ok(Picture::Grey16(mut image)) = picture::read(&file) else {
            continue;
        };
        let size = image.size();
        for params in presets() {
            let line = road(0.230868, size.height as f32 * 0.4);
            compare(&params, &camera(size), 128, &[("recorded", &image, line)]);
            for v in image.data_mut() {
                if *v == 0 {
                    *v = INVALID;
                }
            }
        }
        println!("{} {size}", file.display());
    }
}
