//! A frame whose stereo camera is lost: the loop goes on, and nothing of the frame before shows.
use std::sync::atomic::AtomicBool;

use roadloop::{
    calib::Rig,
    config::Config,
    frame::{
        Camera, FrameId, FrameResult, FrameSet, Gap, INVALID, MonoFrame, MonoImage, Outcome,
        PixelKind, Size, Timestamp,
    },
    frame_loop::{Chain, CpuBackend, CpuMono, FrameLoop, MonoShape, MonotonicClock, Pace, Shape},
    sink::{Sink, SinkError, View},
    source::{Next, Source},
};

const SIZE: Size = Size::new(160, 96);

/// Frames with and without stereo.
#[expect(clippy::vec_box, reason = "frame sets change hands in their boxes")]
struct Script {
    sets: Vec<Box<FrameSet>>,
    gaps: &'static [Option<Gap>],
    next: usize,
}

impl Source for Script {
    fn next(&mut self, _wait_ns: u64) -> Next {
        let Some(&gap) = self.gaps.get(self.next) else {
            return Next::End;
        };
        let Some(mut set) = self.sets.pop() else {
            return Next::Nothing;
        };
        let index = self.next;
        self.next += 1;
        set.id = FrameId {
            index,
            number: index as u64,
            timestamp: Timestamp(index as u64 * 1_000_000),
        };
        set.stereo_gap = gap;
        if let Some(stereo) = &mut set.stereo {
            let texture = |x: usize, y: usize| ((x * 7919 + y * 104_729) >> 3) as u8;
            for y in 0..SIZE.height {
                for x in 0..SIZE.width {
                    stereo.left.set(x, y, texture(x, y));
                    let right = stereo.right.as_mut().unwrap();
                    right.set(x, y, texture(x + 8, y));
                }
            }
        }
        if let Some(mono) = &mut set.mono
            && let MonoImage::Grey8(image) = &mut mono.image
        {
            image.fill(index as u8);
        }
        Next::Frame(set)
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        // The slot's own, which comes back first, has no mono picture.
        if self
            .sets
            .iter()
            .all(|s| s.mono.is_some() == set.mono.is_some())
        {
            self.sets.push(set);
        }
    }
}

#[derive(Default)]
struct Results(Vec<FrameResult>, Vec<u8>);

impl Sink for Results {
    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.0.push(result.clone());
        let left = view.left.unwrap();
        self.1.push(left.pixels().copied().max().unwrap());
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        panic!("{id:?} {gap}");
    }
}

fn run(mono: bool) -> Results {
    let config = Config::parse("[stereo]\ndisparities = 64\n", None, "test").unwrap();
    let rig = Rig::rectified(Camera {
        focal_px: 200.0,
        cx: 80.0,
        cy: 48.0,
        baseline_m: 0.3,
    });
    let rectification = rig.rectification(SIZE).unwrap();
    let shape = Shape {
        size: SIZE,
        colour: false,
        stored_disparity: false,
        mask: None,
    };
    let street = CpuBackend::new(&config, &rectification, &shape).unwrap();
    let mut slot = street.slot();
    let shape = MonoShape {
        kind: PixelKind::Grey8,
        size: SIZE,
        foreground: true,
        logos: None,
        mask: None,
    };
    shape.furnish(&mut slot);
    let mut backend = Chain::new(Some(street), Some(CpuMono::new(&config, &shape).unwrap()));
    let mut set = FrameSet::stereo(SIZE);
    set.mono = mono.then(|| MonoFrame::new(PixelKind::Grey8, SIZE));
    let mut source = Script {
        sets: vec![Box::new(set); 3],
        gaps: &[None, Some(Gap::CameraLost), Some(Gap::Unsynchronised), None],
        next: 0,
    };
    let mut results = Results::default();
    FrameLoop::new(
        &mut backend,
        &MonotonicClock,
        slot,
        &config.frame_loop,
        Pace::Max,
    )
    .run(&mut source, &mut results, &AtomicBool::new(false))
    .unwrap();
    results
}

#[test]
fn the_mono_camera_goes_on_alone() {
    let results = run(true);
    let gaps = [None, Some(Gap::CameraLost), Some(Gap::Unsynchronised), None];
    assert_eq!(results.0.len(), gaps.len());
    for ((result, gap), brightest) in results.0.iter().zip(gaps).zip(&results.1) {
        let street = result.street.as_ref().unwrap();
        let skipped: Vec<&str> = (result.timing.stages.iter())
            .filter(|s| s.outcome == Outcome::Skipped)
            .map(|s| s.stage)
            .collect();
        let stages: Vec<&str> = result.timing.stages.iter().map(|s| s.stage).collect();
        let all = [
            "rectify",
            "stereo",
            "road",
            "stixel",
            "egomotion",
            "foreground",
        ];
        assert_eq!(stages, all);
        match gap {
            None => {
                assert!(street.disparity.pixels().any(|&d| d != INVALID));
                assert!(street.stixels.total() > 0);
                assert!(skipped.is_empty());
            }
            Some(gap) => {
                assert!(result.gaps.contains(gap));
                assert!(street.disparity.pixels().all(|&d| d == INVALID));
                assert_eq!((street.stixels.total(), *brightest), (0, 0));
                assert_eq!(skipped, all[..4]);
            }
        }
    }
    // What comes after is as if nothing had been.
    let (first, last) = (&results.0[0], &results.0[3]);
    let (first, last) = (first.street.as_ref(), last.street.as_ref());
    assert_eq!(first.map(|s| &s.disparity), last.map(|s| &s.disparity));
}

#[test]
fn without_a_mono_camera_there_is_nothing_to_look_at() {
    let results = run(false);
    for result in &results.0[1..3] {
        let mut stages = result.timing.stages.iter();
        assert!(stages.all(|s| s.outcome == Outcome::Skipped));
    }
}
