//! Does a drive come to the same results on the GPU and on the CPU, whatever it looks like?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;
#[path = "common/heap.rs"]
mod heap;

use std::sync::atomic::AtomicBool;

use gpu::setup;
use heap::allocations;
use nalgebra::{Rotation3, Vector3};
use roadloop::{
    calib::{Distortion, Lens, Pinhole, RawPair, Rectification, Rig},
    config::{Config, Preset},
    cuda::*,
    frame::{
        Camera, FrameId, FrameResult, FrameSet, Gap, Image, Mask, Rgb, Size, StereoFrame, Timestamp,
    },
    frame_loop::{
        Backend, ChainError, CpuBackend, CudaBackend, FrameLoop, MonotonicClock, Pace, Shape, Slot,
        Wanted,
    },
    picture::grey_of,
    replay::Replay,
    sink::{Sink, SinkError, View, digest::Digest},
    source::{
        Drive, DriveOptions, Next, Source,
        synth::{Motion, Options, Street, write::write_drive},
    },
    stage::road,
};

gpu_tests![
    a_drive_has_one_digest,
    every_kind_of_drive_gives_the_same_results,
    every_shape_gives_the_same_results,
    a_thousand_runs_of_a_frame_give_one_digest,
    two_runs_of_a_drive_give_one_digest,
    what_is_known_of_the_road_goes_from_backend_to_backend,
    the_loop_allocates_nothing,
    memory_over_the_limit_is_refused_before_the_first_frame,
    stages_take_their_time,
    small_drives,
];

/// Frames in memory, one after the other.
struct Frames {
    sets: Vec<StereoFrame>,
    next: usize,
    /// How often they come.
    rounds: usize,
    /// Boxed, as the loop hands them round.
    #[expect(clippy::vec_box, reason = "frame sets change hands in their boxes")]
    spare: Vec<Box<FrameSet>>,
}

impl Frames {
    fn new(sets: &[StereoFrame], rounds: usize) -> Self {
        Self {
            spare: (0..2).map(|_| Box::new(sets[0].clone().into())).collect(),
            sets: sets.to_vec(),
            next: 0,
            rounds,
        }
    }
}

impl Source for Frames {
    fn next(&mut self, _wait_ns: u64) -> Next {
        let index = self.next;
        if index == self.rounds * self.sets.len() {
            return Next::End;
        }
        let Some(mut boxed) = self.spare.pop() else {
            return Next::Nothing;
        };
        let from = &self.sets[index % self.sets.len()];
        let set = boxed.stereo.as_mut().unwrap();
        if (set.stored_disparity.is_some(), set.left_rgb.is_some())
            != (from.stored_disparity.is_some(), from.left_rgb.is_some())
        {
            // The slot's own set, on its first round.
            *set = from.clone();
        }
        set.left.copy_from(&from.left);
        if let (Some(to), Some(from)) = (&mut set.right, &from.right) {
            to.copy_from(from);
        }
        if let (Some(to), Some(from)) = (&mut set.left_rgb, &from.left_rgb) {
            to.copy_from(from);
        }
        if let (Some(to), Some(from)) = (&mut set.stored_disparity, &from.stored_disparity) {
            to.copy_from(from);
        }
        boxed.id = FrameId {
            index,
            number: index as u64,
            timestamp: Timestamp(100_000_000 * index as u64),
        };
        self.next += 1;
        Next::Frame(boxed)
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.spare.push(set);
    }
}

/// Keeps what comes, times apart.
#[derive(Default)]
struct Kept(Vec<(FrameResult, Image<u8>, Option<Rgb>)>);

impl Sink for Kept {
    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let mut result = result.clone();
        result.timing = Default::default();
        self.0
            .push((result, view.left.unwrap().clone(), view.left_rgb.cloned()));
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

#[derive(Default)]
struct Digesting {
    digest: Digest,
    each: Vec<String>,
}

impl Sink for Digesting {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let mut one = Digest::default();
        one.frame(result)?;
        self.each.push(format!("{:?}", one.digests()));
        Ok(self.digest.frame(result)?)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

fn go<B: Backend>(mut backend: B, slot: Slot, source: &mut Frames, sink: &mut impl Sink) {
    go_on(&mut backend, slot, source, sink);
}

fn go_on(backend: &mut impl Backend, slot: Slot, source: &mut Frames, sink: &mut impl Sink) {
    let config = Config::default();
    FrameLoop::new(
        backend,
        &MonotonicClock,
        slot,
        &config.frame_loop,
        Pace::Max,
    )
    .run(source, sink, &AtomicBool::new(false))
    .unwrap();
}

fn on_gpu(
    context: &Context,
    config: &Config,
    rectification: &Rectification,
    shape: &Shape,
    source: &mut Frames,
    sink: &mut impl Sink,
) {
    let backend = CudaBackend::new(context, config, rectification, shape, Wanted::ALL).unwrap();
    let slot = backend.slot();
    go(backend, slot, source, sink);
}

fn compare(
    context: &Context,
    config: &Config,
    rectification: &Rectification,
    mask: Option<&Mask>,
    sets: &[StereoFrame],
    what: &str,
) {
    let shape = Shape {
        size: rectification.size,
        colour: sets[0].left_rgb.is_some(),
        stored_disparity: sets[0].stored_disparity.is_some(),
        mask: mask.cloned(),
    };
    let (mut expected, mut found) = (Kept::default(), Kept::default());
    let cpu = CpuBackend::new(config, rectification, &shape).unwrap();
    let slot = cpu.slot();
    go(cpu, slot, &mut Frames::new(sets, 1), &mut expected);
    on_gpu(
        context,
        config,
        rectification,
        &shape,
        &mut Frames::new(sets, 1),
        &mut found,
    );
    assert_eq!(found.0.len(), expected.0.len());
    for (i, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
        let streets = [found, expected].map(|f| f.0.street.as_ref().unwrap());
        assert!(
            streets[0].disparity == streets[1].disparity,
            "{what}: disparity of frame {i}"
        );
        assert_eq!(
            streets[0].road, streets[1].road,
            "{what}: road of frame {i}"
        );
        assert!(
            streets[0].stixels == streets[1].stixels,
            "{what}: stixels of frame {i}"
        );
        assert_eq!(found.0.gaps, expected.0.gaps, "{what}: gaps of frame {i}");
        assert!(found.1 == expected.1, "{what}: picture of frame {i}");
        assert!(found.2 == expected.2, "{what}: colour picture of frame {i}");
    }
}

fn street(size: Size, frames: usize) -> (Camera, Vec<StereoFrame>) {
    let options = Options {
        frames,
        size,
        motion: Motion::Drive,
        ..Options::default()
    };
    let street = Street::new(&options).unwrap();
    let grey =
        |image: &Rgb| Image::from_fn(size.width, size.height, |x, y| grey_of(image.get(x, y)));
    let set = |i| {
        let rendered = street.render(i);
        let mut set = StereoFrame::new(size);
        set.left = grey(&rendered.left_rgb);
        set.right = Some(grey(&rendered.right_rgb));
        set.left_rgb = Some(rendered.left_rgb);
        set.stored_disparity = Some(rendered.disparity);
        set
    };
    (street.camera(), (0..frames).map(set).collect())
}

/// The same frames without what a kind of drive does not have.
fn without(sets: &[StereoFrame], colour: bool, stored: bool) -> Vec<StereoFrame> {
    let one = |set: &StereoFrame| StereoFrame {
        right: set.right.clone().filter(|_| !stored),
        left_rgb: set.left_rgb.clone().filter(|_| colour),
        stored_disparity: set.stored_disparity.clone().filter(|_| stored),
        ..set.clone()
    };
    sets.iter().map(one).collect()
}

fn straight(camera: Camera, size: Size) -> Rectification {
    Rig::rectified(camera).rectification(size).unwrap()
}

fn bent(camera: &Camera, size: Size) -> Rectification {
    let lens = Lens {
        pinhole: Pinhole {
            fx: camera.focal_px,
            fy: camera.focal_px,
            cx: camera.cx,
            cy: camera.cy,
        },
        distortion: Distortion::RadialTangential4([-0.15, 0.03, 0.001, -0.001]),
    };
    let pair = RawPair {
        lenses: [lens; 2],
        rotation: *Rotation3::from_euler_angles(0.004, -0.006, 0.003).matrix(),
        translation: Vector3::new(-camera.baseline_m, 0.001, 0.002),
        given: None,
    };
    Rig::raw(pair, None).rectification(size).unwrap()
}

fn a_drive_has_one_digest() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = tmp.path().join("drive");
    let options = Options {
        frames: 10,
        seed: 3,
        size: Size::new(407, 193),
        motion: Motion::Drive,
    };
    write_drive(&options, &folder, &mut |_, _| {}).unwrap();
    let (context, _) = setup();
    for stored in [true, false] {
        for preset in [Preset::Default, Preset::Paper] {
            let disparity = folder.join("truth/disparity");
            let drive = Drive::open(
                &folder,
                &DriveOptions {
                    disparity: stored.then_some(disparity),
                    ..DriveOptions::default()
                },
            )
            .unwrap();
            let config = Config::preset(preset);
            let replay = Replay::new(&drive).unwrap();
            let stop = AtomicBool::new(false);
            let (mut cpu, mut gpu) = (Digesting::default(), Digesting::default());
            replay
                .run(&config, Pace::Max, &MonotonicClock, &mut cpu, &stop)
                .unwrap();
            replay
                .run_on(
                    &config,
                    Pace::Max,
                    &MonotonicClock,
                    &mut gpu,
                    &stop,
                    |parts| parts.on_cuda(&context, &config),
                )
                .unwrap();
            assert_eq!(cpu.each.len(), 10);
            assert_eq!(
                gpu.digest.digests(),
                cpu.digest.digests(),
                "{preset:?}, stored {stored}"
            );
        }
    }
}

fn what_is_known_of_the_road_goes_from_backend_to_backend() {
    let size = Size::new(203, 131);
    let (camera, mut sets) = street(size, 6);
    let (context, _) = setup();
    // Nothing to be seen, and another road than before: held, and pending.
    sets[2] = StereoFrame::new(size);
    for set in &mut sets[4..] {
        set.left = Image::from_fn(size.width, size.height, |x, y| {
            set.left.get((x + y / 20).min(size.width - 1), y)
        });
    }
    let sets: Vec<StereoFrame> = without(&sets, false, false);
    let rectification = straight(camera, size);
    let shape = Shape {
        size,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    for fixed in [false, true] {
        let mut config = Config::default();
        config.stereo.disparities = 64;
        if fixed {
            let (slope, horizon_row) = (0.2, 60.0);
            config.road.fixed = Some(road::Fixed { slope, horizon_row });
        }
        let on_cpu = || CpuBackend::new(&config, &rectification, &shape).unwrap();
        let on_gpu =
            || CudaBackend::new(&context, &config, &rectification, &shape, Wanted::ALL).unwrap();
        let saved = |backend: &dyn Backend| {
            let mut state = Vec::new();
            assert!(backend.save(&mut state));
            state
        };
        for first in if fixed { 1..2 } else { 0..sets.len() } {
            let what = format!("fixed {fixed}, from frame {first}");
            let (mut cpu, mut gpu, mut fresh) = (on_cpu(), on_gpu(), on_gpu());
            if first > 0 {
                let before = || Frames::new(&sets[..first], 1);
                let (slot, nowhere) = (cpu.slot(), &mut Digesting::default());
                go_on(&mut cpu, slot, &mut before(), nowhere);
                let slot = gpu.slot();
                go_on(&mut gpu, slot, &mut before(), nowhere);
            }
            let state = saved(&cpu);
            assert_eq!(saved(&gpu), state, "{what}");
            fresh.load(&state).unwrap();
            assert_eq!(saved(&fresh), state, "{what}");
            let mut sinks: [Digesting; 3] = Default::default();
            let after = || Frames::new(&sets[first..], 1);
            let slot = cpu.slot();
            go(cpu, slot, &mut after(), &mut sinks[0]);
            for (gpu, sink) in [gpu, fresh].into_iter().zip(&mut sinks[1..]) {
                let slot = gpu.slot();
                go(gpu, slot, &mut after(), sink);
            }
            assert_eq!(sinks[1].each, sinks[0].each, "{what}");
            assert_eq!(sinks[2].each, sinks[0].each, "{what}, loaded");
        }
        let state = saved(&on_cpu());
        let refused = |backend: &mut dyn Backend| backend.load(&state[..7]).unwrap_err();
        assert_eq!(refused(&mut on_gpu()), refused(&mut on_cpu()));
    }
}

fn every_kind_of_drive_gives_the_same_results() {
    let size = Size::new(323, 211);
    let (camera, sets) = street(size, 3);
    let (context, _) = setup();
    let mask = Image::from_fn(size.width, size.height, |x, y| {
        u8::from(y < 180 || (x + y) % 7 > 0) * 255
    });
    for stored in [true, false] {
        for (name, rectification) in [
            ("rectified", straight(camera, size)),
            ("raw", bent(&camera, size)),
        ] {
            for mask in [None, Some(&mask)] {
                for colour in [false, true] {
                    let sets = without(&sets, colour, stored);
                    let what = format!(
                        "{name}, mask {}, colour {colour}, stored {stored}",
                        mask.is_some()
                    );
                    compare(
                        &context,
                        &Config::default(),
                        &rectification,
                        mask,
                        &sets,
                        &what,
                    );
                }
            }
        }
    }
}

fn every_shape_gives_the_same_results() {
    let (context, _) = setup();
    let noise = |size: Size| {
        let mut numbers = gpu::random(size.area() as u64);
        let mut grey = || {
            Image::from_fn(size.width, size.height, |_, _| {
                numbers.next().unwrap() as u8
            })
        };
        let mut set = StereoFrame::new(size);
        set.left = grey();
        set.right = Some(grey());
        set
    };
    for (w, h) in [(1, 1), (3, 31), (65, 32), (131, 33), (97, 375), (41, 1025)] {
        let size = Size::new(w, h);
        let camera = Camera {
            focal_px: 0.6 * w.max(40) as f64,
            cx: w as f64 / 2.0,
            cy: h as f64 * 0.45,
            baseline_m: 0.5,
        };
        for paths in [4, 8] {
            let mut config = Config::default();
            config.stereo.paths = paths;
            let sets = [noise(size), StereoFrame::new(size)];
            let what = format!("{size}, {paths} paths");
            compare(
                &context,
                &config,
                &straight(camera, size),
                None,
                &sets,
                &what,
            );
        }
    }
}

/// Every kernel of the chain, small enough for the sanitizers.
fn small_drives() {
    let size = Size::new(131, 67);
    let (camera, sets) = street(size, 2);
    let (context, _) = setup();
    let mask = Image::from_fn(size.width, size.height, |x, y| {
        u8::from((x + y) % 7 > 0) * 255
    });
    for (stored, paths) in [(false, 4), (false, 8), (true, 4)] {
        let mut config = Config::default();
        config.stereo.paths = paths;
        config.stereo.disparities = 64;
        compare(
            &context,
            &config,
            &bent(&camera, size),
            Some(&mask),
            &without(&sets, true, stored),
            &format!("{paths} paths, stored {stored}"),
        );
    }
}

fn a_thousand_runs_of_a_frame_give_one_digest() {
    let size = Size::new(512, 256);
    let (camera, sets) = street(size, 1);
    let sets = without(&sets, false, false);
    let (context, _) = setup();
    let mut config = Config::default();
    // What is known from earlier frames would change the road.
    config.road.fixed = Some(road::Fixed {
        slope: 0.35,
        horizon_row: 100.0,
    });
    let shape = Shape {
        size,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    let rectification = straight(camera, size);
    let mut sink = Digesting::default();
    let mut source = Frames::new(&sets, 1000);
    on_gpu(
        &context,
        &config,
        &rectification,
        &shape,
        &mut source,
        &mut sink,
    );
    assert_eq!(sink.each.len(), 1000);
    // The frame's number is no part of a digest of a result.
    let different = sink.each.iter().filter(|d| **d != sink.each[0]).count();
    assert_eq!(different, 0, "of 1000 runs");
    let mut cpu = Digesting::default();
    let backend = CpuBackend::new(&config, &rectification, &shape).unwrap();
    let slot = backend.slot();
    go(backend, slot, &mut Frames::new(&sets, 1), &mut cpu);
    assert_eq!(sink.each[0], cpu.each[0]);
}

fn two_runs_of_a_drive_give_one_digest() {
    let size = Size::new(323, 211);
    let (camera, sets) = street(size, 4);
    let sets = without(&sets, false, false);
    let (context, _) = setup();
    let shape = Shape {
        size,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    let run = || {
        let mut sink = Digesting::default();
        let mut source = Frames::new(&sets, 50);
        let rectification = straight(camera, size);
        on_gpu(
            &context,
            &Config::default(),
            &rectification,
            &shape,
            &mut source,
            &mut sink,
        );
        sink.digest.digests()
    };
    assert_eq!(run(), run());
}

struct Counts(Vec<u64>);

impl Sink for Counts {
    fn frame(&mut self, _view: View<'_>, _result: &FrameResult) -> Result<(), SinkError> {
        self.0.push(allocations());
        Ok(())
    }

    fn gap(&mut self, _id: FrameId, _gap: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

fn the_loop_allocates_nothing() {
    let size = Size::new(323, 211);
    let (camera, sets) = street(size, 3);
    let (context, _) = setup();
    for stored in [true, false] {
        let sets = without(&sets, true, stored);
        let shape = Shape {
            size,
            colour: true,
            stored_disparity: stored,
            mask: None,
        };
        let mut counts = Counts(Vec::with_capacity(100));
        let mut source = Frames::new(&sets, 20);
        let rectification = bent(&camera, size);
        on_gpu(
            &context,
            &Config::default(),
            &rectification,
            &shape,
            &mut source,
            &mut counts,
        );
        let each: Vec<u64> = counts.0.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(each[9..], vec![0; 50], "stored {stored}");
    }
}

fn memory_over_the_limit_is_refused_before_the_first_frame() {
    let size = Size::new(640, 480);
    let (camera, _) = street(Size::new(64, 48), 1);
    let context = Context::new(&ContextOptions {
        device_limit: 1 << 20,
        ..Default::default()
    })
    .unwrap();
    let shape = Shape {
        size,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    let refused = CudaBackend::new(
        &context,
        &Config::default(),
        &straight(camera, size),
        &shape,
        Wanted::ALL,
    );
    match refused.err() {
        Some(ChainError::Gpu(e)) => {
            assert_eq!(e.exit_status(), 78, "{e}");
            assert!(e.to_string().contains("1048576"), "{e}");
        }
        other => panic!("{other:?}"),
    }
}

fn stages_take_their_time() {
    let size = Size::new(323, 211);
    let (camera, sets) = street(size, 1);
    let sets = without(&sets, false, false);
    let (context, _) = setup();
    let shape = Shape {
        size,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    struct Stages(Vec<Vec<&'static str>>);
    impl Sink for Stages {
        fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
            let stages = &result.timing.stages;
            assert!(stages.iter().all(|s| s.duration_ns > 0));
            self.0.push(stages.iter().map(|s| s.stage).collect());
            Ok(())
        }
        fn gap(&mut self, _id: FrameId, _gap: Gap) -> Result<(), SinkError> {
            Ok(())
        }
    }
    let mut sink = Stages(Vec::new());
    let mut source = Frames::new(&sets, 3);
    let rectification = straight(camera, size);
    on_gpu(
        &context,
        &Config::default(),
        &rectification,
        &shape,
        &mut source,
        &mut sink,
    );
    assert_eq!(sink.0, vec![vec!["rectify", "stereo", "road", "stixel"]; 3]);
}
