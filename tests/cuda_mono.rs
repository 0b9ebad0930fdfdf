//! Do egomotion, foreground and logos of a drive come to the same results on the GPU and on the
//! CPU, whatever its pictures are, and whichever of its frames are looked at?
mod common;
#[path = "common/gpu.rs"]
#[macro_use]
mod gpu;
#[path = "common/heap.rs"]
mod heap;

use std::{
    path::Path,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use gpu::setup;
use heap::allocations;
use roadloop::{
    calib::Rectification,
    config::Config,
    cuda::*,
    evaluate::logos::{
        composite::{Master, Placing, lay},
        marks::MARKS,
    },
    frame::{
        ForegroundState, FrameId, FrameResult, FrameSet, Gap, Image, LogoState, MonoFrame,
        MonoImage, MotionState, PixelKind, Size, StereoFrame, Timestamp,
    },
    frame_loop::{
        Backend, BackendError, Chain, ChainError, CpuBackend, CpuMono, CudaBackend, CudaMono,
        FrameLoop, Laps, MonoShape, MonotonicClock, Pace, Parts, Shape, Slot, Unit, Wanted,
    },
    maths::random::hash,
    picture::{self, Picture},
    replay::Replay,
    sink::{
        Announced, Full, Sink, SinkError, View,
        digest::{Digest, Hash},
        recorder::{About, Recorder},
    },
    source::{
        Drive, DriveOptions, Next, Source,
        synth::{Motion, Options, write::write_drive},
    },
    stage::{
        forest::{Forest, street},
        logo::{BuildOptions, Params, Templates},
    },
};

gpu_tests![
    recorded_drives_have_one_digest,
    every_kind_of_picture_gives_the_same_results,
    every_size_gives_the_same_results,
    frames_that_are_passed_by_leave_no_trace,
    a_part_of_the_stages_gives_its_part_of_the_results,
    what_the_kernels_do_not_do_is_done_on_the_cpu,
    the_left_picture_stands_in,
    a_background_goes_from_backend_to_backend,
    what_was_learnt_goes_from_backend_to_backend,
    each_file_of_a_recording_stands_alone,
    the_loop_allocates_nothing,
    memory_over_the_limit_is_refused_before_the_first_frame,
    small_mono; always: the_scenes_show_what_they_are_for, what_is_compared_can_be_computed
];

const SIZE: Size = Size::new(401, 307);
const FRAMES: usize = 44;
const KINDS: [PixelKind; 3] = [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8];
/// The mark in the pictures.
const MARK: usize = 1;

fn config() -> Config {
    let mut config = Config::default();
    config.foreground.enabled = Some(true);
    config.foreground.warm_up_frames = 3;
    config.foreground.history_frames = 30;
    config
}

fn templates() -> Arc<Templates> {
    static TEMPLATES: OnceLock<Arc<Templates>> = OnceLock::new();
    let build = || {
        let pictures = [MARK, MARK + 1].map(|i| {
            let (grey, alpha) = MARKS[i].picture(128);
            (MARKS[i].name.to_owned(), grey, Some(alpha))
        });
        let options = BuildOptions {
            heights: vec![128, 64],
            views: false,
            ..BuildOptions::default()
        };
        let params = Params::default();
        Arc::new(Templates::of_pictures(pictures.into(), &params.features, &options).unwrap())
    };
    TEMPLATES.get_or_init(build).clone()
}

/// A wall of blotches seen `(dx, dy)` px further right and down, with a block that passes and a
/// mark that rests; what is seen from a standing, a shaken and a driven camera in turn.
fn scene(size: Size, i: usize) -> Image<u8> {
    static MASTER: OnceLock<Master> = OnceLock::new();
    let n = i as u32;
    if (38..41).contains(&i) {
        // Something lies on the lens.
        return Image::filled(size.width, size.height, 9);
    }
    let (dx, dy) = match i {
        16..20 => (
            f64::from(hash(1, n, 0) % 5) - 2.0,
            f64::from(hash(1, n, 1) % 5) - 2.0,
        ),
        26..30 => (13.0 * i as f64, 0.0),
        _ => (0.0, 0.0),
    };
    let drives = (26..30).contains(&i);
    let mut image = Image::from_fn(size.width, size.height, |x, y| {
        // A driven camera sees parallax.
        let dx = if drives {
            dx * (1.0 + (y / 40) as f64)
        } else {
            dx
        };
        let (x, y) = ((x as f64 + dx) / 7.0 + 500.0, (y as f64 + dy) / 7.0 + 500.0);
        let (a, b) = (x.fract(), y.fract());
        let at = |i: u32, j: u32| f64::from(hash(1, x as u32 + i, y as u32 + j) >> 25);
        let top = at(0, 0) * (1.0 - a) + at(1, 0) * a;
        let bottom = at(0, 1) * (1.0 - a) + at(1, 1) * a;
        40 + (top * (1.0 - b) + bottom * b) as u8
    });
    let at = (i * 9) % size.width.max(1);
    for y in size.height / 2..(size.height / 2 + 40).min(size.height) {
        for x in at..(at + 30).min(size.width) {
            image.set(x, y, 230);
        }
    }
    if size.width > 250 && size.height > 150 && i % 21 < 17 {
        let (x, y, height) = (40.0 + i as f64, 20.0, 70.0);
        let width = height * MARKS[MARK].aspect;
        let placing = Placing {
            mark: MARK,
            quad: [
                [x, y],
                [x + width, y + 2.0],
                [x + width, y + 2.0 + height],
                [x, y + height],
            ],
            height,
            turn_deg: 0.0,
            gain: 0.9,
            smear: [0.0, 0.0],
        };
        lay(
            &mut image,
            MASTER.get_or_init(|| Master::new(&MARKS[MARK])),
            &placing,
        );
    }
    for y in 0..size.height {
        for x in 0..size.width {
            let noise = (hash(n + 9, x as u32, y as u32) >> 30) as u8;
            image.set(x, y, image.get(x, y).saturating_add(noise));
        }
    }
    image
}

fn as_kind(image: &Image<u8>, kind: PixelKind) -> MonoImage {
    let Size { width, height } = image.size();
    match kind {
        PixelKind::Grey8 => MonoImage::Grey8(image.clone()),
        PixelKind::Grey16 => MonoImage::Grey16(Image::from_fn(width, height, |x, y| {
            u16::from(image.get(x, y)) * 255 + 31
        })),
        PixelKind::Rgb8 => MonoImage::Rgb8(Image::from_fn(width, height, |x, y| {
            let v = image.get(x, y);
            [v, (v / 8 * 7).wrapping_add((x % 16) as u8), v]
        })),
    }
}

/// A mono drive in memory.
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
    fn new(sets: Vec<FrameSet>) -> Self {
        Self {
            spare: (0..2).map(|_| Box::new(sets[0].clone())).collect(),
            sets,
            next: 0,
            rounds: 1,
        }
    }

    fn mono(size: Size, kind: PixelKind, frames: usize) -> Self {
        let set = |i| {
            let mut mono = MonoFrame::new(kind, size);
            mono.image = as_kind(&scene(size, i), kind);
            // Some pictures are not to be looked at.
            mono.gap = (i % 11 == 5).then_some(Gap::Unsynchronised);
            FrameSet {
                mono: Some(mono),
                speed_mps: match i {
                    33..36 => Some(0.0),
                    36..38 => Some(9.0),
                    _ => None,
                },
                ..FrameSet::default()
            }
        };
        Self::new((0..frames).map(set).collect())
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
        if boxed.mono.is_some() != from.mono.is_some()
            || boxed.stereo.is_some() != from.stereo.is_some()
        {
            // The slot's own set, on its first round.
            *boxed = from.clone();
        }
        if let (Some(to), Some(from)) = (&mut boxed.mono, &from.mono) {
            to.image.copy_from(&from.image);
            to.gap = from.gap;
        }
        if let (Some(to), Some(from)) = (&mut boxed.stereo, &from.stereo) {
            to.left.copy_from(&from.left);
            if let (Some(to), Some(from)) = (&mut to.right, &from.right) {
                to.copy_from(from);
            }
            if let (Some(to), Some(from)) = (&mut to.left_rgb, &from.left_rgb) {
                to.copy_from(from);
            }
        }
        boxed.speed_mps = from.speed_mps;
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

/// Passes some units of some frames by, as a loop does that has no time for them, or finds that
/// they came too late.
struct Pressed<B>(B);

impl<B: Backend> Backend for Pressed<B> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn units(&self) -> &[Unit] {
        self.0.units()
    }

    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        let at = slot.set.id.index + 3 * unit;
        if at % 13 != 7 {
            self.0.run(unit, slot, laps)?;
        }
        if at % 13 == 7 || at % 17 == 9 {
            self.0.withdraw(unit, slot);
        }
        Ok(())
    }

    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        let at = slot.set.id.index + 3 * unit;
        Ok(at % 13 != 7 && self.0.start(unit, slot, laps)?)
    }

    fn meanwhile(&mut self, unit: usize, slot: &mut Slot, laps: &Laps<'_>) {
        self.0.meanwhile(unit, slot, laps);
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        self.0.finish(unit, slot, laps)?;
        if (slot.set.id.index + 3 * unit) % 17 == 9 {
            self.0.withdraw(unit, slot);
        }
        Ok(())
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        self.0.withdraw(unit, slot);
    }
}

/// Keeps what comes, times apart.
#[derive(Default)]
struct Kept {
    results: Vec<FrameResult>,
    digest: Digest,
    /// Of each frame alone.
    each: Vec<Hash>,
}

impl Sink for Kept {
    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.digest.frame(result)?;
        let mut one = Digest::new();
        one.frame(result)?;
        self.each.push(one.digests().whole);
        let mut result = result.clone();
        result.timing = Default::default();
        self.results.push(result);
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{gap:?} at {id:?}");
    }
}

fn go(backend: &mut impl Backend, slot: Slot, source: &Frames) -> Kept {
    go_so(true, backend, slot, source)
}

/// Side by side, or one after the other.
fn go_so(overlap: bool, backend: &mut impl Backend, slot: Slot, source: &Frames) -> Kept {
    let mut sink = Kept::default();
    let mut config = Config::default().frame_loop;
    config.overlap = overlap;
    FrameLoop::new(backend, &MonotonicClock, slot, &config, Pace::Max)
        .run(&mut source.clone(), &mut sink, &AtomicBool::new(false))
        .unwrap();
    sink
}

fn furnished(shape: &MonoShape) -> Slot {
    let mut slot = Slot::empty();
    shape.furnish(&mut slot);
    slot
}

#[track_caller]
fn assert_same(found: &Kept, expected: &Kept, what: &str) {
    assert_eq!(found.results.len(), expected.results.len(), "{what}");
    for (i, (found, expected)) in found.results.iter().zip(&expected.results).enumerate() {
        assert_eq!(found.motion, expected.motion, "{what}: motion of frame {i}");
        let state = |result: &FrameResult| result.foreground.as_ref().map(|f| f.state);
        assert_eq!(state(found), state(expected), "{what}: state of frame {i}");
        assert!(
            found.foreground == expected.foreground,
            "{what}: mask of frame {i}"
        );
        assert_eq!(found.logos, expected.logos, "{what}: logos of frame {i}");
        assert_eq!(found.gaps, expected.gaps, "{what}: gaps of frame {i}");
    }
    assert_eq!(
        found.digest.digests(),
        expected.digest.digests(),
        "{what}: digest"
    );
}

fn shape(kind: PixelKind, size: Size) -> MonoShape {
    MonoShape {
        kind,
        size,
        foreground: true,
        logos: Some(templates()),
        mask: None,
    }
}

/// Gives what the CPU found.
fn compare(context: &Context, config: &Config, shape: &MonoShape, source: &Frames) -> Kept {
    let what = format!("{} {}", shape.kind.name(), shape.size);
    let mut cpu = CpuMono::new(config, shape).unwrap();
    let expected = go(&mut cpu, furnished(shape), source);
    for overlap in [true, false] {
        let what = format!("{what}, side by side {overlap}");
        let mut gpu = CudaMono::new(context, config, shape).unwrap();
        let found = go_so(overlap, &mut gpu, furnished(shape), source);
        assert_same(&found, &expected, &what);
        assert!(gpu.snapshot() == cpu.snapshot(), "{what}: background");
    }
    expected
}

fn the_scenes_show_what_they_are_for() {
    for kind in KINDS {
        let source = Frames::mono(SIZE, kind, FRAMES);
        let shape = shape(kind, SIZE);
        let mut cpu = CpuMono::new(&config(), &shape).unwrap();
        let kept = go(&mut cpu, furnished(&shape), &source);
        let of = |f: &dyn Fn(&FrameResult) -> bool| kept.results.iter().filter(|r| f(r)).count();
        for state in MotionState::ALL {
            let n = of(&|r| r.motion.unwrap().state == state);
            assert!(n > 1, "{kind:?}: {n} frames {state:?}");
        }
        for state in [
            ForegroundState::WarmingUp,
            ForegroundState::Valid,
            ForegroundState::Driving,
            ForegroundState::Skipped,
        ] {
            let n = of(&|r| r.foreground.as_ref().unwrap().state == state);
            assert!(n > 0, "{kind:?}: {n} frames {state:?}");
        }
        let moving = of(&|r| {
            let pixels = r.foreground.as_ref().unwrap().mask.pixels();
            pixels.filter(|p| **p == 255).count() > 300
        });
        assert!(moving > 8, "{kind:?}: {moving} frames with foreground");
        for state in [LogoState::Tentative, LogoState::Tracked] {
            let n = of(&|r| r.logos.as_ref().unwrap().iter().any(|l| l.state == state));
            assert!(n > 0, "{kind:?}: {n} frames with {state:?} logos");
        }
    }
}

fn every_kind_of_picture_gives_the_same_results() {
    let (context, _) = setup();
    for kind in KINDS {
        let source = Frames::mono(SIZE, kind, FRAMES);
        compare(&context, &config(), &shape(kind, SIZE), &source);
    }
}

fn sizes() -> [Size; 8] {
    [
        (16, 16),
        (31, 33),
        (33, 31),
        (129, 97),
        (640, 480),
        (97, 1025),
        (1242, 375),
        (1280, 720),
    ]
    .map(|(w, h)| Size::new(w, h))
}

fn every_size_gives_the_same_results() {
    let (context, _) = setup();
    for size in sizes() {
        let (w, h) = (size.width, size.height);
        for (i, kind) in KINDS.into_iter().enumerate() {
            if w * h < 100_000 || (w + h) % 3 == i {
                let frames = if w * h < 100_000 { 20 } else { 8 };
                let source = Frames::mono(size, kind, frames);
                compare(&context, &config(), &shape(kind, size), &source);
            }
        }
    }
}

fn frames_that_are_passed_by_leave_no_trace() {
    let (context, _) = setup();
    let source = Frames::mono(SIZE, PixelKind::Grey8, FRAMES);
    let shape = shape(PixelKind::Grey8, SIZE);
    let mut cpu = Pressed(CpuMono::new(&config(), &shape).unwrap());
    let expected = go(&mut cpu, furnished(&shape), &source);
    let mut gpu = Pressed(CudaMono::new(&context, &config(), &shape).unwrap());
    let found = go(&mut gpu, furnished(&shape), &source);
    assert_same(&found, &expected, "pressed");
    assert!(gpu.0.snapshot() == cpu.0.snapshot());
    let none = MonoShape {
        logos: None,
        foreground: false,
        ..shape
    };
    assert!(
        CudaMono::new(&context, &config(), &none)
            .unwrap()
            .units()
            .is_empty()
    );
}

fn a_part_of_the_stages_gives_its_part_of_the_results() {
    let (context, _) = setup();
    let source = Frames::mono(SIZE, PixelKind::Rgb8, 24);
    let all = shape(PixelKind::Rgb8, SIZE);
    let alone = MonoShape {
        logos: None,
        ..all.clone()
    };
    compare(&context, &config(), &alone, &source);
    let logos = MonoShape {
        foreground: false,
        ..all
    };
    compare(&context, &config(), &logos, &source);
}

/// More keypoints than the kernels have room for.
fn crowded_config() -> Config {
    let mut config = config();
    config.logo.features.max_keypoints = 20_000;
    config
}

fn what_the_kernels_do_not_do_is_done_on_the_cpu() {
    let (context, _) = setup();
    let config = crowded_config();
    let source = Frames::mono(SIZE, PixelKind::Grey8, 6);
    compare(&context, &config, &shape(PixelKind::Grey8, SIZE), &source);
}

fn the_left_picture_stands_in() {
    let size = Size::new(323, 211);
    let (context, _) = setup();
    let camera = roadloop::frame::Camera {
        focal_px: 300.0,
        cx: 160.0,
        cy: 90.0,
        baseline_m: 0.5,
    };
    let rectification = Rectification {
        camera,
        size,
        maps: None,
        views: None,
    };
    for colour in [false, true] {
        let set = |i| {
            let left = scene(size, i);
            let mut stereo = StereoFrame::new(size);
            stereo.right = Some(Image::from_fn(size.width, size.height, |x, y| {
                left.get((x + 9).min(size.width - 1), y)
            }));
            if colour {
                let MonoImage::Rgb8(rgb) = as_kind(&left, PixelKind::Rgb8) else {
                    panic!()
                };
                stereo.left_rgb = Some(rgb);
            }
            stereo.left = left;
            FrameSet::from(stereo)
        };
        let source = Frames::new((0..20).map(set).collect());
        let street = Shape {
            size,
            colour,
            stored_disparity: false,
            mask: None,
        };
        let kind = if colour {
            PixelKind::Rgb8
        } else {
            PixelKind::Grey8
        };
        let mono = shape(kind, size);
        let config = config();
        let cpu = CpuBackend::new(&config, &rectification, &street).unwrap();
        let mut slot = cpu.slot();
        mono.furnish(&mut slot);
        let made = CpuMono::new(&config, &mono).unwrap();
        let expected = go(&mut Chain::new(Some(cpu), Some(made)), slot, &source);
        let gpu =
            CudaBackend::new(&context, &config, &rectification, &street, Wanted::ALL).unwrap();
        let mut slot = gpu.slot();
        mono.furnish(&mut slot);
        let made = CudaMono::new(&context, &config, &mono).unwrap();
        let found = go(&mut Chain::new(Some(gpu), Some(made)), slot, &source);
        assert_same(&found, &expected, &format!("left picture, colour {colour}"));
        let tracked = |r: &FrameResult| !r.logos.as_ref().unwrap().is_empty();
        assert!(expected.results.iter().any(tracked));
    }
}

fn a_background_goes_from_backend_to_backend() {
    let (context, _) = setup();
    let config = config();
    for kind in KINDS {
        let shape = shape(kind, SIZE);
        let source = Frames::mono(SIZE, kind, 14);
        let mut cpu = CpuMono::new(&config, &shape).unwrap();
        let mut gpu = CudaMono::new(&context, &config, &shape).unwrap();
        go(&mut cpu, furnished(&shape), &source);
        go(&mut gpu, furnished(&shape), &source);
        let background = cpu.snapshot().unwrap();
        assert!(gpu.snapshot().unwrap() == background);
        // Another run wakes with it; what has run already takes it up too.
        let mut fresh = CudaMono::new(&context, &config, &shape).unwrap();
        let mut other = CpuMono::new(&config, &shape).unwrap();
        for backend in [&mut gpu, &mut fresh] {
            backend.restore(&background).unwrap();
        }
        other.restore(&background).unwrap();
        let expected = go(&mut other, furnished(&shape), &source);
        let found = go(&mut fresh, furnished(&shape), &source);
        assert_same(&found, &expected, "woken");
        let state = expected.results[1].foreground.as_ref().unwrap().state;
        assert_eq!(state, ForegroundState::Valid);
        let mut damaged = background.clone();
        damaged[40] ^= 1;
        let refused = |backend: &mut dyn Backend| backend.restore(&damaged).unwrap_err();
        assert_eq!(refused(&mut fresh), refused(&mut other));
        let expected = go(&mut other, furnished(&shape), &source);
        let found = go(&mut fresh, furnished(&shape), &source);
        assert_same(&found, &expected, "after a damaged one");
    }
}

/// The frames from `first` on.
fn rest(source: &Frames, first: usize) -> Frames {
    Frames::new(source.sets[first..].to_vec())
}

fn saved(backend: &impl Backend) -> Vec<u8> {
    let mut state = vec![7];
    assert!(backend.save(&mut state));
    assert_eq!(state.remove(0), 7);
    state
}

/// Wherever a recording's file begins: in the middle of a motion, of a warm-up, of tracks.
fn what_was_learnt_goes_from_backend_to_backend() {
    let (context, _) = setup();
    let config = config();
    for kind in KINDS {
        let shape = shape(kind, SIZE);
        let all = Frames::mono(SIZE, kind, FRAMES);
        let mut states = Vec::new();
        for first in [0, 2, 18, 28] {
            let what = format!("{kind:?} from frame {first}");
            let before = Frames::new(all.sets[..first.max(1)].to_vec());
            let mut cpu = CpuMono::new(&config, &shape).unwrap();
            let mut gpu = CudaMono::new(&context, &config, &shape).unwrap();
            if first > 0 {
                go(&mut cpu, furnished(&shape), &before);
                go(&mut gpu, furnished(&shape), &before);
            }
            let state = saved(&cpu);
            assert!(saved(&gpu) == state, "{what}: state");
            let after = rest(&all, first);
            let expected = go(&mut cpu, furnished(&shape), &after);
            let found = go(&mut gpu, furnished(&shape), &after);
            assert_same(&found, &expected, &what);
            // What has run already takes it up too.
            let mut fresh = CudaMono::new(&context, &config, &shape).unwrap();
            for gpu in [&mut gpu, &mut fresh] {
                gpu.load(&state).unwrap();
                assert!(saved(gpu) == state, "{what}: loaded");
                let found = go(gpu, furnished(&shape), &after);
                assert_same(&found, &expected, &what);
            }
            states.push(state);
        }
        // Half of one is refused as on the CPU, and the backend goes on.
        let mut cpu = CpuMono::new(&config, &shape).unwrap();
        let mut gpu = CudaMono::new(&context, &config, &shape).unwrap();
        for length in [3, 40, 9000, states[2].len() / 2] {
            let short = &states[2][..length];
            let refused = |backend: &mut dyn Backend| backend.load(short).unwrap_err();
            assert_eq!(refused(&mut gpu), refused(&mut cpu));
        }
        let source = rest(&all, 20);
        let expected = go(&mut cpu, furnished(&shape), &source);
        let found = go(&mut gpu, furnished(&shape), &source);
        assert_same(&found, &expected, "after a refusal");
    }
}

/// Results in a recording, too.
struct Recorded(Kept, Recorder);

impl Sink for Recorded {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.1.begin(announced)
    }

    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        self.1.state_room(next)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.0.frame(view, result)?;
        self.1.frame(view, result)
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.0.gap(id, gap)
    }
}

/// A drive recorded on one backend, its files replayed on both.
fn each_file_of_a_recording_stands_alone() {
    let (context, _) = setup();
    let tmp = tempfile::tempdir().unwrap();
    let folder = tmp.path().join("drive");
    let options = Options {
        frames: 24,
        seed: 3,
        size: Size::new(203, 97),
        motion: Motion::Mixed,
    };
    write_drive(&options, &folder, &mut |_, _| {}).unwrap();
    let mut config = Config::default();
    config.foreground.enabled = Some(true);
    config.foreground.warm_up_frames = 4;
    (config.cuda.mono, config.cuda.labels) = (true, true);
    config.forest.step = 4;
    config.record.rotate_s = 1;
    let forest = Arc::new(street().unwrap());
    let mut files = Vec::new();
    for on_gpu in [false, true] {
        let to = tmp.path().join(format!("recorded {on_gpu}"));
        let recorder = Recorder::create(&to, &config.record, About::default(), Full::Wait).unwrap();
        let mut sink = Recorded(Kept::default(), recorder);
        through(&context, &config, &forest, &folder, on_gpu, &mut sink);
        assert_eq!(sink.1.finish().files, 3);
        let mut names: Vec<_> = std::fs::read_dir(&to)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        names.sort();
        files.push((sink.0, names));
    }
    let (expected, _) = &files[0];
    assert_same(&files[1].0, expected, "recorded");
    for (_, names) in &files {
        for (n, name) in names.iter().enumerate() {
            for on_gpu in [false, true] {
                let mut alone = Kept::default();
                through(&context, &config, &forest, name, on_gpu, &mut alone);
                let part = 10 * n..(10 * n + 10).min(24);
                assert_eq!(alone.each, expected.each[part], "file {n}, GPU {on_gpu}");
            }
        }
    }
}

fn through(
    context: &Context,
    config: &Config,
    forest: &Arc<Forest>,
    path: &Path,
    on_gpu: bool,
    sink: &mut impl Sink,
) {
    let drive = Drive::open(path, &DriveOptions::default()).unwrap();
    let replay = Replay::new(&drive).unwrap().with_forest(forest.clone());
    let (pace, clock, stop) = (Pace::Max, &MonotonicClock, AtomicBool::new(false));
    if on_gpu {
        let make = |parts: &Parts<'_>| parts.on_cuda(context, config);
        replay
            .run_on(config, pace, clock, sink, &stop, make)
            .unwrap();
    } else {
        replay.run(config, pace, clock, sink, &stop).unwrap();
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
    let (context, _) = setup();
    for kind in KINDS {
        let mut source = Frames::mono(SIZE, kind, FRAMES);
        source.rounds = 2;
        let shape = shape(kind, SIZE);
        let mut gpu = CudaMono::new(&context, &config(), &shape).unwrap();
        let mut counts = Counts(Vec::with_capacity(200));
        let defaults = Config::default();
        FrameLoop::new(
            &mut gpu,
            &MonotonicClock,
            furnished(&shape),
            &defaults.frame_loop,
            Pace::Max,
        )
        .run(&mut source, &mut counts, &AtomicBool::new(false))
        .unwrap();
        let each: Vec<u64> = counts.0.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(each[FRAMES..], vec![0; FRAMES - 1], "{kind:?}");
    }
}

fn memory_over_the_limit_is_refused_before_the_first_frame() {
    let context = Context::new(&ContextOptions {
        device_limit: 1 << 20,
        ..Default::default()
    })
    .unwrap();
    let shape = shape(PixelKind::Rgb8, Size::new(1280, 720));
    match CudaMono::new(&context, &config(), &shape).err() {
        Some(ChainError::Gpu(e)) => {
            assert_eq!(e.exit_status(), 78, "{e}");
            assert!(e.to_string().contains("1048576"), "{e}");
        }
        other => panic!("{other:?}"),
    }
}

const SMALL: Size = Size::new(67, 51);

fn small_config() -> Config {
    let mut config = config();
    config.egomotion.hypotheses = 64;
    config.logo.features.max_keypoints = 40;
    config
}

/// Every kernel of the chain, small enough for the sanitizers.
fn small_mono() {
    let (context, _) = setup();
    for kind in KINDS {
        let source = Frames::mono(SMALL, kind, 7);
        compare(&context, &small_config(), &shape(kind, SMALL), &source);
    }
}

fn recorded(context: &Context, drive: &Drive, logos: Option<Arc<Templates>>, what: &str) {
    let mut config = Config::default();
    config.foreground.enabled = Some(true);
    config.cuda.mono = true;
    let mut replay = Replay::new(drive).unwrap();
    if let Some(logos) = logos {
        replay = replay.with_logos(logos);
    }
    let stop = AtomicBool::new(false);
    let (mut expected, mut found) = (Kept::default(), Kept::default());
    replay
        .run(&config, Pace::Max, &MonotonicClock, &mut expected, &stop)
        .unwrap();
    replay
        .run_on(
            &config,
            Pace::Max,
            &MonotonicClock,
            &mut found,
            &stop,
            |parts| parts.on_cuda(context, &config),
        )
        .unwrap();
    assert_same(&found, &expected, what);
    println!("{what}: {} frames, one digest", expected.results.len());
}

/// Those that are there, with the logos that are looked for.
fn recorded_drives() -> Vec<(&'static str, Drive, Arc<Templates>)> {
    let mut drives = Vec::new();
    for (name, frames) in [("cdnet_highway", 0..160), ("kitti_odom_06", 0..8)] {
        let Some(folder) = common::data(name) else {
            continue;
        };
        let options = DriveOptions {
            frames: Some(frames),
            ..DriveOptions::default()
        };
        let drive = Drive::open(&folder, &options).unwrap();
        drives.push((name, drive, templates()));
    }
    let name = "logo_kravag_truck";
    if let Some(folder) = common::data(name) {
        let reference = folder.join("reference/DERIVED_kravag_from_frame77.png");
        let Picture::Rgb8(reference) = picture::read(&reference).unwrap() else {
            panic!("the reference has colour");
        };
        let grey = Image::from_fn(reference.width(), reference.height(), |x, y| {
            picture::grey_of(reference.get(x, y))
        });
        let params = Params::default();
        let options = BuildOptions::default();
        let pictures = vec![("kravag".to_owned(), grey, None)];
        let templates = Templates::of_pictures(pictures, &params.features, &options).unwrap();
        let drive = Drive::open(&folder, &DriveOptions::default()).unwrap();
        drives.push((name, drive, Arc::new(templates)));
    }
    drives
}

fn recorded_drives_have_one_digest() {
    let (context, _) = setup();
    for (name, drive, templates) in recorded_drives() {
        recorded(&context, &drive, Some(templates), name);
    }
}

/// What the CPU refuses says nothing of a GPU.
fn what_is_compared_can_be_computed() {
    for (name, drive, _) in recorded_drives() {
        println!("{name}: {}", drive.kind());
    }
    for kind in KINDS {
        for size in sizes() {
            CpuMono::new(&config(), &shape(kind, size)).unwrap();
        }
        CpuMono::new(&small_config(), &shape(kind, SMALL)).unwrap();
    }
    CpuMono::new(&crowded_config(), &shape(PixelKind::Grey8, SIZE)).unwrap();
}
