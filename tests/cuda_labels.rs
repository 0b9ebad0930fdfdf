//! Do the labels of a drive come to the same results on the GPU and on the CPU, whatever its
//! pictures are, and whichever of its frames are looked at?
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;
#[path = "common/heap.rs"]
mod heap;
#[path = "common/random_forest.rs"]
mod random_forest;

use std::sync::{Arc, atomic::AtomicBool};

use gpu::setup;
use heap::allocations;
use nalgebra::{Rotation3, Vector3};
use random_forest::{depth, forest, input, region, rgbd};
use roadloop::{
    calib::{Distortion, Lens, Pinhole, RawPair, Rectification, Rig},
    config::Config,
    cuda::*,
    evaluate::logos::marks::MARKS,
    frame::{
        Camera, FrameId, FrameResult, FrameSet, Gap, Image, LabelState, Mask, Rgb, Size,
        StereoFrame, Timestamp,
    },
    frame_loop::{
        Backend, ChainError, CudaBackend, CudaLabels, FrameLoop, LabelShape, MockClock, Models,
        Monitor, MonotonicClock, Pace, Parts, Shape, Slot, Wanted,
    },
    live::Live,
    picture::grey_of,
    replay::Replay,
    sink::{
        Sink, SinkError, View,
        digest::{Digest, Part},
    },
    source::{
        Drive, DriveOptions, FaultConfig, FaultInjector, LiveSource as _, Next, Source,
        SyntheticCameras, SyntheticConfig,
        synth::{Motion, Options, Street, write::write_drive},
    },
    stage::{
        forest::{Colour, Forest, Norm, street as street_forest},
        logo::{BuildOptions, Templates, features::FeatureParams},
    },
};

gpu_tests![
    a_drive_has_one_digest,
    every_kind_of_drive_gives_the_same_labels,
    frames_without_stereo_pictures_leave_no_trace,
    a_live_loop_has_one_digest,
    the_loop_allocates_nothing,
    memory_over_the_limit_is_refused_before_the_first_frame,
    a_chain_that_keeps_no_picture_is_refused,
    small_labels; always: what_is_compared_can_be_computed
];

const SIZE: Size = Size::new(203, 131);

fn models() -> Models {
    Models {
        logos: None,
        forest: Some(shipped()),
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.stereo.disparities = 64;
    config.cuda.labels = true;
    config
}

fn shipped() -> Arc<Forest> {
    Arc::new(street_forest().unwrap())
}

/// Two logos, of which the street shows none: what is looked for in vain is looked for, too.
fn marks() -> Arc<Templates> {
    let pictures = MARKS[..2].iter().map(|mark| {
        let (grey, alpha) = mark.picture(128);
        (mark.name.to_owned(), grey, Some(alpha))
    });
    let options = BuildOptions {
        heights: vec![64],
        views: false,
        ..BuildOptions::default()
    };
    let params = FeatureParams::default();
    Arc::new(Templates::of_pictures(pictures.collect(), &params, &options).unwrap())
}

fn street(size: Size, frames: usize) -> (Camera, Vec<StereoFrame>) {
    let street = Street::new(&Options {
        frames,
        size,
        motion: Motion::Drive,
        ..Options::default()
    })
    .unwrap();
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
fn without(sets: &[StereoFrame], colour: bool, stored: bool) -> Vec<FrameSet> {
    let one = |set: &StereoFrame| StereoFrame {
        right: set.right.clone().filter(|_| !stored),
        left_rgb: set.left_rgb.clone().filter(|_| colour),
        stored_disparity: set.stored_disparity.clone().filter(|_| stored),
        ..set.clone()
    };
    sets.iter().map(|set| one(set).into()).collect()
}

fn straight(camera: Camera, size: Size) -> Rectification {
    Rig::rectified(camera).rectification(size).unwrap()
}

fn bent(camera: Camera, size: Size) -> Rectification {
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

/// Frames in memory, round and round.
#[derive(Clone)]
struct Frames {
    sets: Vec<FrameSet>,
    next: usize,
    rounds: usize,
    /// Boxed, as the loop hands them round.
    #[expect(clippy::vec_box, reason = "frame sets change hands in their boxes")]
    spare: Vec<Box<FrameSet>>,
}

impl Frames {
    fn new(sets: Vec<FrameSet>, rounds: usize) -> Self {
        Self {
            spare: (0..2).map(|_| Box::new(sets[0].clone())).collect(),
            sets,
            next: 0,
            rounds,
        }
    }
}

fn copy<T: Copy>(to: &mut Option<Image<T>>, from: &Option<Image<T>>) {
    if let (Some(to), Some(from)) = (to, from) {
        to.copy_from(from);
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
        let set = &self.sets[index % self.sets.len()];
        let (to, from) = (boxed.stereo.as_mut().unwrap(), set.stereo.as_ref().unwrap());
        if to.stored_disparity.is_some() != from.stored_disparity.is_some()
            || to.left_rgb.is_some() != from.left_rgb.is_some()
        {
            // The slot's own set, on its first round.
            *to = from.clone();
        }
        to.left.copy_from(&from.left);
        copy(&mut to.right, &from.right);
        copy(&mut to.left_rgb, &from.left_rgb);
        copy(&mut to.stored_disparity, &from.stored_disparity);
        boxed.stereo_gap = set.stereo_gap;
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
struct Kept {
    results: Vec<FrameResult>,
    digest: Digest,
}

impl Sink for Kept {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.digest.frame(result)?;
        let mut result = result.clone();
        result.timing = Default::default();
        self.results.push(result);
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

fn go((mut backend, slot): (impl Backend, Slot), source: &Frames, sink: &mut impl Sink) {
    FrameLoop::new(
        &mut backend,
        &MonotonicClock,
        slot,
        &Config::default().frame_loop,
        Pace::Max,
    )
    .run(&mut source.clone(), sink, &AtomicBool::new(false))
    .unwrap();
}

fn parts<'a>(
    rectification: &'a Rectification,
    source: &Frames,
    mask: Option<&Mask>,
    forest: &Arc<Forest>,
) -> Parts<'a> {
    let first = source.sets[0].stereo.as_ref().unwrap();
    let shape = Shape {
        size: rectification.size,
        colour: first.left_rgb.is_some(),
        stored_disparity: first.stored_disparity.is_some(),
        mask: mask.cloned(),
    };
    let models = Models {
        logos: None,
        forest: Some(forest.clone()),
    };
    Parts::new(Some((rectification, shape)), None, false, &models)
}

#[track_caller]
fn assert_same(found: &Kept, expected: &Kept, what: &str) {
    assert_eq!(found.results.len(), expected.results.len(), "{what}");
    for (i, (found, expected)) in found.results.iter().zip(&expected.results).enumerate() {
        let [a, b] = [found, expected].map(|r| r.labels.as_ref().unwrap());
        assert_eq!(a.state, b.state, "{what}: state of frame {i}");
        assert!(a.labels == b.labels, "{what}: labels of frame {i}");
        assert!(
            a.confidence == b.confidence,
            "{what}: confidence of frame {i}"
        );
        assert!(
            a.posteriors == b.posteriors,
            "{what}: posteriors of frame {i}"
        );
        assert!(found == expected, "{what}: the rest of frame {i}");
    }
    let [a, b] = [found, expected].map(|kept| kept.digest.digests());
    assert_eq!(a, b, "{what}: digest");
}

/// Gives what the CPU found.
fn compare(
    context: &Context,
    config: &Config,
    parts: &Parts<'_>,
    source: &Frames,
    what: &str,
) -> Kept {
    let (mut expected, mut found) = (Kept::default(), Kept::default());
    go(parts.on_cpu(config).unwrap(), source, &mut expected);
    go(parts.on_cuda(context, config).unwrap(), source, &mut found);
    assert_same(&found, &expected, what);
    expected
}

fn a_drive_has_one_digest() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = tmp.path().join("drive");
    let options = Options {
        frames: 8,
        seed: 3,
        size: Size::new(407, 193),
        motion: Motion::Drive,
    };
    write_drive(&options, &folder, &mut |_, _| {}).unwrap();
    let (context, _) = setup();
    for stored in [true, false] {
        let disparity = folder.join("truth/disparity");
        let options = DriveOptions {
            disparity: stored.then_some(disparity),
            ..DriveOptions::default()
        };
        let drive = Drive::open(&folder, &options).unwrap();
        for (step, posteriors, mono) in [(1, false, false), (2, true, true)] {
            let mut config = config();
            (config.forest.step, config.forest.posteriors) = (step, posteriors);
            (config.foreground.enabled, config.cuda.mono) = (Some(mono), mono);
            let replay = Replay::new(&drive).unwrap().with_forest(shipped());
            let stop = AtomicBool::new(false);
            let (mut cpu, mut gpu) = (Kept::default(), Kept::default());
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
            assert_eq!(cpu.results.len(), 8);
            let digests = cpu.digest.digests();
            assert!(digests.parts.iter().any(|(part, _)| *part == Part::Labels));
            assert_same(&gpu, &cpu, &format!("stored {stored}, step {step}"));
        }
    }
}

/// Forests of each feature, and the one that comes with roadloop.
fn forests() -> Vec<(&'static str, Arc<Forest>)> {
    let made = |feature, channels, colour, fill| {
        Arc::new(forest(feature, input(channels, colour, fill), 3, 7, 6))
    };
    vec![
        ("street", shipped()),
        (
            "region",
            made(region(1, Norm::Mean, true), 1, Colour::Raw, false),
        ),
        (
            "lab",
            made(rgbd(3, Norm::Sum, false), 3, Colour::Lab, false),
        ),
        ("depth", made(depth(false), 3, Colour::Raw, true)),
    ]
}

fn mask(size: Size) -> Mask {
    Image::from_fn(size.width, size.height, |x, y| {
        u8::from(y < size.height / 8 * 7 || (x + y) % 7 > 0) * 255
    })
}

fn every_kind_of_drive_gives_the_same_labels() {
    let (camera, sets) = street(SIZE, 3);
    let (context, _) = setup();
    let mask = mask(SIZE);
    for (name, forest) in forests() {
        for (camera_is, rectification) in [
            ("rectified", straight(camera, SIZE)),
            ("raw", bent(camera, SIZE)),
        ] {
            for (n, (colour, stored)) in
                [(true, false), (false, false), (true, true), (false, true)]
                    .into_iter()
                    .enumerate()
            {
                let mask = (n % 2 == 0).then_some(&mask);
                let mut config = config();
                config.forest.step = 1 + n as u32;
                config.forest.posteriors = n == 1;
                config.forest.void_without_depth = n == 2;
                let source = Frames::new(without(&sets, colour, stored), 1);
                let what = format!("{name}, {camera_is}, colour {colour}, stored {stored}");
                let parts = parts(&rectification, &source, mask, &forest);
                compare(&context, &config, &parts, &source, &what);
            }
        }
    }
}

fn frames_without_stereo_pictures_leave_no_trace() {
    let (camera, sets) = street(SIZE, 6);
    let (context, _) = setup();
    let mut sets = without(&sets, true, false);
    sets[1].stereo_gap = Some(Gap::CameraLost);
    sets[4].stereo_gap = Some(Gap::Unsynchronised);
    let source = Frames::new(sets, 1);
    let rectification = straight(camera, SIZE);
    let parts = parts(&rectification, &source, None, &shipped());
    let kept = compare(&context, &config(), &parts, &source, "blind");
    let states = kept
        .results
        .iter()
        .map(|r| r.labels.as_ref().unwrap().state);
    let skipped: Vec<bool> = states.map(|s| s == LabelState::Skipped).collect();
    assert_eq!(skipped, [false, true, false, false, true, false]);
}

/// Labels and the mono chain beside the street, as `roadloop run` has them.
fn a_live_loop_has_one_digest() {
    let (context, _) = setup();
    let mut config = config();
    config.foreground.enabled = Some(true);
    config.foreground.warm_up_frames = 3;
    let street = SyntheticConfig {
        width: SIZE.width,
        height: SIZE.height,
        frames: 4,
        colour: true,
        ..SyntheticConfig::default()
    };
    let end = FaultConfig {
        end_after: 12,
        ..FaultConfig::default()
    };
    let models = Models {
        logos: Some(marks()),
        ..models()
    };
    let run = |on_gpu: Option<(bool, bool)>| {
        // Nothing takes time by it, so that nothing is ever late.
        let clock = &MockClock::at(Timestamp(1_000_000_000));
        let cameras = SyntheticCameras::new(&street, 10.0, clock).unwrap();
        let live = Live::new(cameras.shape(), cameras.rig())
            .unwrap()
            .with_models(models.clone());
        let mut source = FaultInjector::new(cameras, &end, clock);
        let (monitor, stop) = (Monitor::default(), AtomicBool::new(false));
        let (source, monitor, stop) = (&mut source, &monitor, &stop);
        let mut kept = Kept::default();
        match on_gpu {
            None => live.run(&config, clock, source, &mut kept, monitor, stop),
            Some((all, overlap)) => {
                let mut config = config.clone();
                config.frame_loop.overlap = overlap;
                (config.cuda.mono, config.cuda.labels) = (all, all);
                live.run_on(&config, clock, source, &mut kept, monitor, stop, |parts| {
                    parts.on_cuda(&context, &config)
                })
            }
        }
        .unwrap();
        kept
    };
    let expected = run(None);
    assert_eq!(expected.results.len(), 12);
    let ways = [(false, true), (false, false), (true, true), (true, false)];
    for (all, overlap) in ways {
        let what = format!("live, all {all}, side by side {overlap}");
        assert_same(&run(Some((all, overlap))), &expected, &what);
    }
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
    let (camera, sets) = street(SIZE, 4);
    let (context, _) = setup();
    let rectification = bent(camera, SIZE);
    for (colour, stored) in [(true, false), (false, true)] {
        let mut config = config();
        config.forest.posteriors = colour;
        let source = Frames::new(without(&sets, colour, stored), 10);
        let parts = parts(&rectification, &source, None, &shipped());
        let mut counts = Counts(Vec::with_capacity(100));
        let made = parts.on_cuda(&context, &config).unwrap();
        let before = context.allocated();
        go(made, &source, &mut counts);
        assert!(context.allocated() <= before);
        let each: Vec<u64> = counts.0.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(each[8..], vec![0; 31], "colour {colour}");
    }
}

fn memory_over_the_limit_is_refused_before_the_first_frame() {
    let (camera, sets) = street(SIZE, 4);
    let rectification = straight(camera, SIZE);
    let source = Frames::new(without(&sets, true, false), 1);
    let parts = parts(&rectification, &source, None, &shipped());
    let with = |device_limit| {
        let options = ContextOptions {
            device_limit,
            ..Default::default()
        };
        let context = Context::new(&options).unwrap();
        let made = parts
            .on_cuda(&context, &config())
            .map(|_made| context.allocated().0);
        made.map_err(|e| match e {
            ChainError::Gpu(e) => e,
            e => panic!("{e}"),
        })
    };
    let needed = with(1 << 40).unwrap();
    assert!(with(needed).is_ok());
    // The forest's labels come last.
    let e = with(needed - 1).unwrap_err();
    assert_eq!(e.exit_status(), 78, "{e}");
    let text = e.to_string();
    assert!(
        text.starts_with("forest: ") && text.contains(&format!("at most {}", needed - 1)),
        "{text}"
    );
}

fn a_chain_that_keeps_no_picture_is_refused() {
    let (camera, _) = street(SIZE, 4);
    let (context, _) = setup();
    let rectification = straight(camera, SIZE);
    let shape = Shape {
        size: SIZE,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    let labels = LabelShape {
        size: SIZE,
        colour: false,
        camera,
        forest: shipped(),
    };
    let (config, wanted) = (config(), Wanted::STIXELS);
    let street = CudaBackend::new(&context, &config, &rectification, &shape, wanted).unwrap();
    let e = CudaLabels::new(&context, &config, &labels, &street)
        .err()
        .unwrap();
    assert_eq!(
        e.to_string(),
        "forest: labels behind the stereo chain is not available here: no left image on the \
         device; expected a chain that keeps it there"
    );
}

/// Every kernel of the branch, small enough for the sanitizers.
fn small_labels() {
    let size = Size::new(67, 51);
    let (camera, sets) = street(size, 4);
    let (context, _) = setup();
    let rectification = bent(camera, size);
    for (n, (name, forest)) in forests().into_iter().enumerate() {
        let mut config = config();
        config.forest.posteriors = true;
        let source = Frames::new(without(&sets[..2], n != 1, n == 2), 1);
        let parts = parts(&rectification, &source, None, &forest);
        compare(&context, &config, &parts, &source, name);
    }
}

/// What the CPU refuses says nothing of a GPU; and labels that are all one compare nothing.
fn what_is_compared_can_be_computed() {
    let (camera, sets) = street(SIZE, 4);
    let rectification = bent(camera, SIZE);
    let mask = mask(SIZE);
    for (name, forest) in forests() {
        let source = Frames::new(without(&sets[..1], true, true), 1);
        let parts = parts(&rectification, &source, Some(&mask), &forest);
        let mut kept = Kept::default();
        go(parts.on_cpu(&config()).unwrap(), &source, &mut kept);
        let labels = kept.results[0].labels.as_ref().unwrap();
        assert_eq!(labels.state, LabelState::Valid);
        let mut seen: Vec<u8> = labels.labels.pixels().copied().collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 3, "{name}: {seen:?}");
    }
}
