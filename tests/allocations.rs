//! Once warm, the loop thread allocates nothing per frame. Meaningful in the release profile
//! (`make release-tests`); it holds in the others too.
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::AtomicBool,
};

use roadloop::{
    calib::Rig,
    config::Config,
    frame::{Camera, FrameId, FrameResult, FrameSet, Gap, Image, Size, Timestamp},
    frame_loop::{CpuBackend, FrameLoop, MonotonicClock, Pace, Shape},
    sink::{Sink, SinkError, View},
    source::{Next, Source},
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what each thread allocates.
struct Counting;

fn count() {
    // A thread at its end has no counter any more.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: hands everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

const SIZE: Size = Size::new(320, 120);
const FRAMES: usize = 24;
const WARM_UP: usize = 4;

/// A noisy scene that moves from frame to frame.
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
            timestamp: Timestamp(index as u64),
        };
        let fill = |image: &mut Image<u8>, shift: usize| {
            for (y, row) in image.rows_mut().enumerate() {
                for (x, pixel) in row.iter_mut().enumerate() {
                    *pixel = noise(x + shift + 7 * index, y);
                }
            }
        };
        fill(&mut set.left, 0);
        if let Some(right) = &mut set.right {
            fill(right, 12);
        }
        Next::Frame(set)
    }

    fn recycle(&mut self, set: Box<FrameSet>) {
        self.sets.push(set);
    }
}

/// Notes the loop thread's allocation count at each frame.
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

fn per_frame(threads: usize, pace: Pace) -> Vec<u64> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| {
        let camera = Camera {
            focal_px: 200.0,
            cx: 160.0,
            cy: 60.0,
            baseline_m: 0.5,
        };
        let shape = Shape {
            size: SIZE,
            colour: false,
            stored_disparity: false,
            mask: None,
        };
        let rectification = Rig::rectified(camera).rectification(SIZE).unwrap();
        let config = Config::default();
        let mut backend = CpuBackend::new(&config, &rectification, &shape).unwrap();
        let slot = backend.slot();
        let sets = (0..3).map(|_| Box::new(FrameSet::stereo(SIZE))).collect();
        let mut source = Moving { sets, next: 0 };
        let mut counts = Counts(Vec::with_capacity(FRAMES));
        FrameLoop::new(
            &mut backend,
            &MonotonicClock,
            slot,
            &config.frame_loop,
            pace,
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
        let counts = per_frame(threads, Pace::Max);
        assert_eq!(counts.len(), FRAMES - 1);
        assert_eq!(
            counts[WARM_UP..],
            [0; FRAMES - 1 - WARM_UP],
            "{threads} threads"
        );
    }
}
