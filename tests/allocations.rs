//! Once warm, the loop thread allocates nothing per frame. Meaningful in the release profile
//! (`make release-tests`); it holds in the others too.
#[path = "common/heap.rs"]
mod heap;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use heap::allocations;
use roadloop::{
    calib::{Distortion, Lens, Pinhole, RawPair, Rig},
    config::Config,
    frame::{
        Camera, FrameId, FrameResult, FrameSet, Gap, Image, MonoFrame, MonoImage, PixelKind, Size,
        StereoFrame, Timestamp, png,
    },
    frame_loop::{
        Chain, CpuBackend, CpuMono, FrameLoop, MockClock, Models, Monitor, MonoShape,
        MonotonicClock, Pace, Shape, Slot,
    },
    live::Live,
    sink::{
        Announced, FolderOptions, Full, ReplayFolder, Sink, SinkError, View,
        recorder::{About, Encoding, Recorder},
        summary::Provenance,
    },
    source::{
        FaultConfig, FaultInjector, LiveSource as _, Next, Source, SyntheticCameras,
        SyntheticConfig,
    },
    stage::{
        forest::street,
        logo::{BuildOptions, Templates, features::FeatureParams},
    },
};

const SIZE: Size = Size::new(320, 120);
const FRAMES: usize = 24;
const WARM_UP: usize = 4;

/// A noisy scene that moves from frame to frame.
#[expect(clippy::vec_box, reason = "frame sets change hands in their boxes")]
struct Moving {
    sets: Vec<Box<FrameSet>>,
    next: usize,
}

fn noise(x: usize, y: usize) -> u8 {
    let mut h = (x as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (y as u64).rotate_left(32);
    h = (h ^ (h >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (h >> 56) as u8
}

impl Source for Moving {
    fn next(&mut self, _wait_ns: u64) -> Next {
        if self.next == FRAMES {
            return Next::End;
        }
        let Some(mut set) = self.sets.pop() else {
            return Next::Nothing;
        };
        let index = self.next;
        self.next += 1;
        set.id = FrameId {
            index,
            number: index as u64,
            // A microsecond apart: whatever the pace, no time is spent waiting.
            timestamp: Timestamp(index as u64 * 1000),
        };
        if let Some(mono) = &mut set.mono {
            // Now and then there is no picture that belongs here.
            mono.gap = index.is_multiple_of(5).then_some(Gap::Unsynchronised);
            if let MonoImage::Rgb8(image) = &mut mono.image {
                for (y, row) in image.rows_mut().enumerate() {
                    for (x, pixel) in row.iter_mut().enumerate() {
                        *pixel = [noise(x + index % 3, y), noise(x, y + 9), 99];
                    }
                }
            }
        }
        let Some(stereo) = &mut set.stereo else {
            return Next::Frame(set);
        };
        let fill = |image: &mut Image<u8>, shift: usize| {
            for (y, row) in image.rows_mut().enumerate() {
                for (x, pixel) in row.iter_mut().enumerate() {
                    *pixel = noise(x + shift + 7 * index, y);
                }
            }
        };
        fill(&mut stereo.left, 0);
        if let Some(right) = &mut stereo.right {
            fill(right, 12);
        }
        Next::Frame(set)
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.sets.push(set);
    }
}

/// Notes the loop thread's allocation count at each frame, and hands the frame on.
struct Counts<S>(Vec<u64>, S);

impl<S: Sink> Sink for Counts<S> {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.1.begin(announced)
    }

    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        self.1.state_room(next)
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.1.frame(view, result)?;
        self.0.push(allocations());
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.1.gap(id, gap)?;
        self.0.push(allocations());
        Ok(())
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn frame(&mut self, _view: View<'_>, _result: &FrameResult) -> Result<(), SinkError> {
        Ok(())
    }

    fn gap(&mut self, _id: FrameId, _gap: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    threads: usize,
    pace: Pace,
    /// Rectification, colour and a mask.
    raw: bool,
    stored: bool,
    /// The mono chain too, on the left image.
    mono: bool,
}

/// A template, of noise.
fn logos() -> Arc<Templates> {
    let dir = tempfile::tempdir().unwrap();
    let picture = Image::from_fn(96, 64, |x, y| noise(x / 6, y / 6));
    png::write_grey(&dir.path().join("sign.png"), &picture).unwrap();
    let built = Templates::build(
        dir.path(),
        &FeatureParams::default(),
        &BuildOptions::default(),
    );
    Arc::new(built.unwrap())
}

fn mono_shape(kind: PixelKind) -> MonoShape {
    MonoShape {
        kind,
        size: SIZE,
        foreground: true,
        logos: Some(logos()),
        mask: None,
    }
}

/// A rig whose right camera is turned a little: its images must be remapped.
fn raw_rig() -> Rig {
    let lens = Lens {
        pinhole: Pinhole {
            fx: 200.0,
            fy: 200.0,
            cx: 160.0,
            cy: 60.0,
        },
        distortion: Distortion::None,
    };
    let (sin, cos) = (0.01, (1.0f64 - 0.0001).sqrt());
    let pair = RawPair {
        lenses: [lens; 2],
        rotation: nalgebra::Matrix3::new(1.0, 0.0, 0.0, 0.0, cos, -sin, 0.0, sin, cos),
        translation: nalgebra::Vector3::new(-0.5, 0.0, 0.0),
        given: None,
    };
    Rig::raw(pair, Some(SIZE))
}

/// Allocations of the loop thread from each frame (or gap) to the next.
fn per_frame(case: Case, sink: impl Sink + Send) -> Vec<u64> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(case.threads)
        .build()
        .unwrap();
    pool.install(|| {
        let camera = Camera {
            focal_px: 200.0,
            cx: 160.0,
            cy: 60.0,
            baseline_m: 0.5,
        };
        let rig = if case.raw {
            raw_rig()
        } else {
            Rig::rectified(camera)
        };
        let mask = Image::from_fn(
            SIZE.width,
            SIZE.height,
            |_, y| if y > 100 { 0 } else { 255 },
        );
        let shape = Shape {
            size: SIZE,
            colour: case.raw,
            stored_disparity: case.stored,
            mask: case.raw.then_some(mask),
        };
        let rectification = rig.rectification(SIZE).unwrap();
        let mut config = Config::default();
        // Both numbers of paths get their turn.
        config.stereo.paths = if case.raw { 8 } else { 4 };
        let street = CpuBackend::new(&config, &rectification, &shape).unwrap();
        let mut slot = street.slot();
        let mono = case.mono.then(|| {
            let kind = if case.raw {
                PixelKind::Rgb8
            } else {
                PixelKind::Grey8
            };
            let shape = mono_shape(kind);
            shape.furnish(&mut slot);
            CpuMono::new(&config, &shape).unwrap()
        });
        let mut backend = Chain::new(Some(street), mono);
        let mut set = StereoFrame::new(SIZE);
        set.left_rgb = case
            .raw
            .then(|| Image::filled(SIZE.width, SIZE.height, [9, 99, 199]));
        if case.stored {
            set.right = None;
            set.stored_disparity = Some(Image::from_fn(SIZE.width, SIZE.height, |x, y| {
                (x * 31 + y * 97) as u16
            }));
        }
        let mut source = Moving {
            sets: vec![Box::new(set.into()); 3],
            next: 0,
        };
        let mut counts = Counts(Vec::with_capacity(FRAMES), sink);
        counts
            .begin(&Announced::street(camera, &slot.result, case.raw))
            .unwrap();
        FrameLoop::new(
            &mut backend,
            &MonotonicClock,
            slot,
            &config.frame_loop,
            case.pace,
        )
        .run(&mut source, &mut counts, &AtomicBool::new(false))
        .unwrap();
        counts.0.windows(2).map(|w| w[1] - w[0]).collect()
    })
}

#[test]
fn the_counter_counts() {
    let before = allocations();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(allocations() - before, 1);
}

#[test]
fn the_loop_thread_allocates_nothing_once_warm() {
    for threads in [1, 2] {
        for pace in [Pace::Max, Pace::Realtime] {
            for (raw, stored) in [(false, false), (true, false), (false, true)] {
                let case = Case {
                    threads,
                    pace,
                    raw,
                    stored,
                    mono: false,
                };
                let counts = per_frame(case, Nowhere);
                assert_eq!(counts.len(), FRAMES - 1, "{case:?}");
                assert_eq!(counts[WARM_UP..], [0; FRAMES - 1 - WARM_UP], "{case:?}");
            }
        }
    }
}

#[test]
fn nor_does_it_where_results_are_written() {
    let tmp = tempfile::tempdir().unwrap();
    let options = FolderOptions {
        save: "overlay,disparity".parse().unwrap(),
        force: false,
        full: Full::Wait,
        provenance: Provenance::default(),
    };
    let folder = ReplayFolder::create(tmp.path(), options).unwrap();
    let case = Case {
        threads: 2,
        pace: Pace::Max,
        raw: true,
        stored: false,
        mono: false,
    };
    let counts = per_frame(case, folder);
    assert_eq!(counts[WARM_UP..], [0; FRAMES - 1 - WARM_UP]);
}

fn written(folder: &Path, save: &str) -> ReplayFolder {
    let options = FolderOptions {
        save: save.parse().unwrap(),
        force: false,
        full: Full::Wait,
        provenance: Provenance::default(),
    };
    ReplayFolder::create(folder, options).unwrap()
}

#[test]
fn nor_with_the_mono_chain_on_the_left_image() {
    for (threads, raw) in [(1, true), (2, true), (2, false)] {
        let tmp = tempfile::tempdir().unwrap();
        let case = Case {
            threads,
            pace: Pace::Max,
            raw,
            stored: true,
            mono: true,
        };
        let counts = per_frame(case, written(tmp.path(), "overlay,foreground"));
        assert_eq!(counts[WARM_UP..], [0; FRAMES - 1 - WARM_UP], "{case:?}");
    }
}

#[test]
fn nor_on_a_mono_drive() {
    for threads in [1, 2] {
        let tmp = tempfile::tempdir().unwrap();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let config = Config::default();
        let counts = pool.install(|| {
            let shape = mono_shape(PixelKind::Rgb8);
            let mut slot = Slot::empty();
            shape.furnish(&mut slot);
            let mono = CpuMono::new(&config, &shape).unwrap();
            let mut backend = Chain::<CpuBackend, _>::new(None, Some(mono));
            let set = FrameSet {
                mono: Some(MonoFrame::new(PixelKind::Rgb8, SIZE)),
                ..FrameSet::default()
            };
            let mut source = Moving {
                sets: vec![Box::new(set); 3],
                next: 0,
            };
            let sink = written(tmp.path(), "overlay,foreground");
            let mut counts = Counts(Vec::with_capacity(FRAMES), sink);
            counts
                .begin(&Announced {
                    camera: None,
                    shape: &slot.result,
                    colour: false,
                    mono: Some((PixelKind::Rgb8, SIZE)),
                    logo_names: &["sign".into()],
                    set: None,
                    rig: None,
                    mask: None,
                    mono_mask: None,
                })
                .unwrap();
            FrameLoop::new(
                &mut backend,
                &MonotonicClock,
                slot,
                &config.frame_loop,
                Pace::Max,
            )
            .run(&mut source, &mut counts, &AtomicBool::new(false))
            .unwrap();
            counts.0
        });
        let counts: Vec<u64> = counts.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(
            counts[WARM_UP + 2..],
            [0; FRAMES - 3 - WARM_UP],
            "{threads}"
        );
    }
}

/// Files begin meanwhile, each with what the stages have learnt.
#[test]
fn nor_where_frames_are_labelled_and_recorded() {
    for (threads, colour, compression) in [(1, true, Encoding::Raw), (2, false, Encoding::Png)] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let text = "[stereo]\ndisparities = 64\n[foreground]\nenabled = true\n\
                    [forest]\nstep = 2\n[record]\nrotate_s = 1\nqueue_frames = 2\n";
        let mut config = Config::parse(text, None, "test").unwrap();
        config.record.compression = compression;
        let tmp = tempfile::tempdir().unwrap();
        // By this clock nothing takes time: no frame is late. The recorder is waited for, with
        // two boxes: what a file begins with is written before the next one needs its memory.
        let about = About::default();
        let folder = tmp.path().join("recorded");
        let recorder = Recorder::create(&folder, &config.record, about, Full::Wait).unwrap();
        let status = recorder.monitor();
        let mut counts = Counts(Vec::with_capacity(2 * FRAMES), recorder);
        let counts = pool.install(|| {
            let clock = &MockClock::at(Timestamp(1_000_000_000));
            let options = SyntheticConfig {
                width: 160,
                height: 96,
                frames: 6,
                colour,
                ..SyntheticConfig::default()
            };
            let cameras = SyntheticCameras::new(&options, 5.0, clock).unwrap();
            let models = Models {
                logos: Some(logos()),
                forest: Some(Arc::new(street().unwrap())),
            };
            let live = Live::new(cameras.shape(), cameras.rig())
                .unwrap()
                .with_models(models);
            let end = FaultConfig {
                end_after: FRAMES,
                ..FaultConfig::default()
            };
            let mut source = FaultInjector::new(cameras, &end, clock);
            let (monitor, stop) = (Monitor::default(), AtomicBool::new(false));
            live.run(&config, clock, &mut source, &mut counts, &monitor, &stop)
                .unwrap();
            counts
        });
        drop(counts.1);
        let status = status.status();
        assert_eq!((status.frames, status.dropped), (FRAMES as u64, 0));
        assert_eq!((status.files, status.stopped), (5, None));
        let spent: Vec<u64> = counts.0.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(spent.len(), FRAMES - 1);
        // The second file's state, too, is still among the first frames.
        assert_eq!(spent[6..], [0; FRAMES - 1 - 6], "{threads} {spent:?}");
    }
}
