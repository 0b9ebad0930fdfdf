//! Is the road of a sequence of frames on the GPU the CPU's, bit by bit?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;

use gpu::{device, host, random, setup};
use roadloop::{
    cuda::*,
    frame::{self, Camera, Disparity, INVALID, Image, Mask, RoadOrigin, Size},
    source::synth::{Motion, Options, Street},
    stage::{
        Stage as _,
        road::{
            Fixed, Params, cpu,
            cuda::{Plan, Road},
        },
    },
};

gpu_tests![
    a_drive_gives_the_same_roads,
    every_shape_gives_the_same_roads,
    a_drive_through_every_kind_of_road_gives_the_same_states,
    parameters_count_alike,
    masks_and_wide_images_count_alike,
    a_fixed_line_is_taken,
    a_thousand_runs_give_one_road,
    small_roads; always: the_host_lays_the_road_out_as_the_kernels
];

fn the_host_lays_the_road_out_as_the_kernels() {
    assert_eq!((size_of::<Road>(), align_of::<Road>()), (28, 4));
    for origin in [
        RoadOrigin::Fixed,
        RoadOrigin::Measured,
        RoadOrigin::Held,
        RoadOrigin::Assumed,
    ] {
        let road = frame::Road {
            slope: 0.25,
            offset: -10.0,
            horizon_row: 40.0,
            pitch_rad: 0.1,
            camera_height_m: 1.5,
            confidence: 0.5,
            origin,
        };
        assert_eq!(frame::Road::from(Road::from(road)), road);
    }
}

fn camera(size: Size) -> Camera {
    Camera {
        focal_px: 0.6 * size.width.max(40) as f64,
        cx: size.width as f64 / 2.0,
        cy: size.height as f64 * 0.45,
        baseline_m: 0.5,
    }
}

/// Ground of this slope and horizon, two walls, a sixteenth of holes and some noise.
fn scene(size: Size, slope: f64, horizon: f64, seed: u64) -> Disparity {
    let mut noise = random(seed);
    let Size { width, height } = size;
    Image::from_fn(width, height, |x, y| {
        let n = noise.next().unwrap();
        if n >> 60 == 0 {
            return INVALID;
        }
        let wall = if x < width / 3 { 25.0 } else { 3.0 };
        let d = (slope * (y as f64 - horizon)).max(wall) + (n & 0xFFFF) as f64 / 65536.0;
        ((d * 16.0) as u16).saturating_mul(16)
    })
}

fn noise(size: Size, seed: u64) -> Disparity {
    let mut noise = random(seed);
    Image::from_fn(size.width, size.height, |_, _| noise.next().unwrap() as u16)
}

fn bits(road: &Road) -> [u32; 7] {
    [
        road.slope,
        road.offset,
        road.horizon_row,
        road.pitch_rad,
        road.camera_height_m,
        road.confidence,
    ]
    .map(f32::to_bits)
    .iter()
    .copied()
    .chain([road.origin])
    .collect::<Vec<_>>()
    .try_into()
    .unwrap()
}

/// One plan of each kind, frame after frame.
struct Both {
    context: Context,
    stream: Stream,
    gpu: Plan,
    cpu: cpu::Plan,
    road: frame::Road,
}

impl Both {
    fn new(
        params: &Params,
        size: Size,
        camera: &Camera,
        range: usize,
        mask: Option<&Mask>,
    ) -> Self {
        let (context, stream) = setup();
        Self {
            gpu: Plan::new(&context, params, size, camera, range, mask).unwrap(),
            cpu: cpu::Plan::new(params, size, camera, range, mask).unwrap(),
            road: frame::Street::new(size, frame::Stixels::new(0, 1, 0)).road,
            context,
            stream,
        }
    }

    fn on_gpu(&self, disparity: &Disparity) -> Road {
        let pixels: Vec<u16> = disparity.pixels().copied().collect();
        let input = device(&self.context, &self.stream, &pixels);
        let out = device(&self.context, &self.stream, &[Road::default()]);
        self.gpu.enqueue(&self.stream, &input, &out).unwrap();
        host(&self.stream, &out, Road::default())[0]
    }

    fn same(&mut self, disparity: &Disparity, what: &str) -> RoadOrigin {
        self.cpu.run(disparity, &mut self.road);
        let (found, expected) = (self.on_gpu(disparity), Road::from(self.road));
        assert_eq!(
            bits(&found),
            bits(&expected),
            "{what}: {found:?}, CPU {expected:?}"
        );
        self.road.origin
    }
}

fn a_drive_gives_the_same_roads() {
    let options = Options {
        frames: 12,
        size: Size::new(640, 375),
        motion: Motion::Drive,
        ..Options::default()
    };
    let street = Street::new(&options).unwrap();
    let mut both = Both::new(
        &Params::default(),
        options.size,
        &street.camera(),
        128,
        None,
    );
    let mut measured = 0;
    for i in 0..options.frames {
        let origin = both.same(&street.render(i).disparity, &format!("frame {i}"));
        measured += usize::from(origin == RoadOrigin::Measured);
    }
    assert!(measured > 6, "{measured} frames measured");
}

fn every_shape_gives_the_same_roads() {
    let shapes = [
        (1, 1),
        (33, 31),
        (40, 32),
        (31, 33),
        (641, 375),
        (1242, 375),
        (500, 1023),
        (37, 1025),
        (300, 2160),
    ];
    for (w, h) in shapes {
        let size = Size::new(w, h);
        for range in [64, 128, 256] {
            let camera = camera(size);
            let mut both = Both::new(&Params::default(), size, &camera, range, None);
            let slope = range as f64 * 0.6 / h as f64;
            for i in 0..3u64 {
                let scene = scene(size, slope, h as f64 * 0.4 + i as f64, i);
                both.same(&scene, &format!("{size} {range}, street {i}"));
            }
            both.same(&noise(size, 9), &format!("{size} {range}, noise"));
            let nothing = Image::filled(w, h, INVALID);
            both.same(&nothing, &format!("{size} {range}, nothing"));
        }
    }
}

/// Every kernel of the stage, small enough for the sanitizers.
fn small_roads() {
    let size = Size::new(97, 131);
    let mask = Image::from_fn(97, 131, |x, y| u8::from((x + y) % 7 > 0) * 255);
    for mask in [None, Some(&mask)] {
        let mut both = Both::new(&Params::default(), size, &camera(size), 64, mask);
        for i in 0..2 {
            let scene = scene(size, 0.4, 50.0 + i as f64, i);
            both.same(&scene, &format!("street {i}"));
        }
        both.same(&noise(size, 9), "noise");
    }
}

/// Measured, held, a jump that is believed late, and before all that nothing.
fn a_drive_through_every_kind_of_road_gives_the_same_states() {
    let size = Size::new(640, 480);
    let mut both = Both::new(&Params::default(), size, &camera(size), 128, None);
    let nothing = Image::filled(640, 480, INVALID);
    let mut origins = Vec::new();
    for i in 0..40u64 {
        let wobble = (i % 5) as f64;
        let disparity = match i {
            0..2 | 10..13 => nothing.clone(),
            13..15 => noise(size, i),
            // Another camera, for good; and one frame of a third in between.
            25 => scene(size, 0.16, 210.0, i),
            20.. => scene(size, 0.55, 170.0 + wobble, i),
            _ => scene(size, 0.3, 215.0 + wobble, i),
        };
        origins.push(both.same(&disparity, &format!("frame {i}")));
    }
    for origin in [RoadOrigin::Measured, RoadOrigin::Held, RoadOrigin::Assumed] {
        assert!(origins.contains(&origin), "no {origin:?} in {origins:?}");
    }
    both.cpu.reset();
    both.gpu.reset(&both.stream).unwrap();
    let origin = both.same(&nothing, "after a reset");
    assert_eq!(origin, RoadOrigin::Assumed);
}

fn parameters_count_alike() {
    let size = Size::new(417, 291);
    let mut numbers = random(5);
    let mut share = || (numbers.next().unwrap() >> 11) as f64 / (1u64 << 53) as f64;
    for round in 0..25 {
        let params = Params {
            camera_height_m: 0.5 + 2.0 * share(),
            pitch_rad: 0.4 * share() - 0.2,
            min_camera_height_m: 0.3 + share(),
            max_camera_height_m: 1.5 + 5.0 * share(),
            max_pitch_rad: 0.05 + 0.5 * share(),
            inlier_px: 0.25 + 3.0 * share(),
            inlier_ratio: 0.1 * share(),
            min_disparity_px: 4.0 * share(),
            min_support: 0.5 * share(),
            height_gain: 0.1 + 0.9 * share(),
            pitch_gain: 0.1 + 0.9 * share(),
            max_height_step_ratio: 0.05 + share(),
            max_pitch_step_rad: 0.01 + 0.1 * share(),
            reacquire_frames: 1 + round % 4,
            held_decay: share(),
            ..Params::default()
        };
        let camera = Camera {
            focal_px: 150.0 + 500.0 * share(),
            cx: 200.0,
            cy: 400.0 * share() - 50.0,
            baseline_m: 0.1 + share(),
        };
        let mut both = Both::new(&params, size, &camera, 64, None);
        for i in 0..4u64 {
            let slope = camera.baseline_m / (0.8 + 2.0 * share());
            let scene = scene(size, slope, camera.cy + 20.0 * share(), i + 31);
            both.same(
                &scene,
                &format!("round {round}, frame {i}: {params:?} {camera:?}"),
            );
        }
    }
}

fn masks_and_wide_images_count_alike() {
    // Wider than what the histogram counts at a time, and every alignment.
    for width in [1021, 1022, 1024, 8187, 8188, 8189, 20_001] {
        let size = Size::new(width, 67);
        let mask = Image::from_fn(width, 67, |x, y| u8::from((x * 7 + y * 3) % 11 > 2) * 255);
        for mask in [None, Some(&mask)] {
            let mut both = Both::new(&Params::default(), size, &camera(size), 128, mask);
            for i in 0..2 {
                both.same(&scene(size, 1.2, 25.0, i), &format!("{size} frame {i}"));
            }
        }
    }
}

fn a_fixed_line_is_taken() {
    let params = Params {
        fixed: Some(Fixed {
            slope: 0.3,
            horizon_row: 100.0,
        }),
        ..Params::default()
    };
    let size = Size::new(64, 48);
    let mut both = Both::new(&params, size, &camera(size), 64, None);
    assert_eq!(both.same(&noise(size, 3), "fixed"), RoadOrigin::Fixed);
}

fn a_thousand_runs_give_one_road() {
    let size = Size::new(640, 480);
    let (context, stream) = setup();
    let plan = Plan::new(&context, &Params::default(), size, &camera(size), 128, None).unwrap();
    let pixels: Vec<u16> = scene(size, 0.3, 215.0, 1).pixels().copied().collect();
    let input = device(&context, &stream, &pixels);
    let out = device(&context, &stream, &[Road::default()]);
    let graph = stream
        .capture::<GpuError>(|stream| {
            plan.reset(stream)?;
            plan.enqueue(stream, &input, &out)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    let mut first = None;
    for run in 0..1000 {
        graph.launch(&stream).unwrap();
        let road = bits(&host(&stream, &out, Road::default())[0]);
        assert_eq!(*first.get_or_insert(road), road, "run {run}");
    }
    assert_eq!(first.unwrap()[6], 1, "measured");
}
