//! Does a frame of the stereo stage allocate?
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use roadloop::{
    frame::{Disparity, Image, Size},
    stage::{
        Stage as _,
        stereo::{Input, Params, cpu::Plan},
    },
};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread asks for.
struct Counting;

// SAFETY: all requests go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_calling_thread_allocates_nothing() {
    let (w, h) = (320, 100);
    let left = Image::from_fn(w, h, |x, y| (x * x + y * 37 + x * y) as u8);
    let right = Image::from_fn(w, h, |x, y| {
        ((x + 5) * (x + 5) + y * 37 + (x + 5) * y) as u8
    });
    for threads in [1, 2] {
        for paths in [4, 8] {
            let params = Params {
                paths,
                ..Params::default()
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let counted = pool.build().unwrap().install(|| {
                let mut plan = Plan::new(&params, Size::new(w, h), None).unwrap();
                let mut out = Disparity::new(w, h);
                let mut run = || {
                    plan.run(
                        Input {
                            left: &left,
                            right: &right,
                        },
                        &mut out,
                    );
                };
                run();
                let before = COUNT.get();
                for _ in 0..20 {
                    run();
                }
                COUNT.get() - before
            });
            assert_eq!(counted, 0, "{threads} threads, {paths} paths");
        }
    }
}
