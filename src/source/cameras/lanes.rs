//! What the cameras' threads and the loop share: for each camera pictures that go round, and how
//! it is doing.
//!
//! A mutex and condition variables rather than channels: a channel allocates when a thread waits
//! for the first time.
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{CameraStatus, CamerasConfig, PairStatus, Which};
use crate::frame::{Image, Rgb, Size, Timestamp};

/// A converted picture.
#[derive(Debug)]
pub(super) struct Picture {
    pub stamp: Timestamp,
    pub arrived: Timestamp,
    /// Frames of this camera lost between the picture before and this one.
    pub lost: u64,
    /// `None` where only colour is used.
    pub grey: Option<Image<u8>>,
    pub rgb: Option<Rgb>,
}

impl Picture {
    fn new(size: Size, grey: bool, colour: bool) -> Self {
        Self {
            stamp: Timestamp(0),
            arrived: Timestamp(0),
            lost: 0,
            grey: grey.then(|| Image::new(size.width, size.height)),
            rgb: colour.then(|| Image::new(size.width, size.height)),
        }
    }
}

/// One camera's part.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "they travel in their boxes")]
pub(super) struct Lane {
    pub free: Vec<Box<Picture>>,
    /// Oldest first.
    pub queue: VecDeque<Box<Picture>>,
    pub status: CameraStatus,
    /// Lost since the newest in the queue.
    lost: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub lanes: [Option<Lane>; 3],
    pub pairs: PairStatus,
    pub closed: bool,
    /// Threads at work.
    pub alive: usize,
}

/// What the threads have in common.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// A picture came, or a camera's state changed.
    pub came: Condvar,
    /// All is over.
    over: Condvar,
}

impl Shared {
    pub fn new(config: &CamerasConfig) -> Self {
        let mut lanes = [None, None, None];
        for (which, camera) in config.iter() {
            let colour = camera.in_colour(which);
            let grey = which != Which::Mono || !colour;
            let picture = || Box::new(Picture::new(camera.size(), grey, colour));
            lanes[which as usize] = Some(Lane {
                free: std::iter::repeat_with(picture)
                    .take(config.pictures)
                    .collect(),
                queue: VecDeque::with_capacity(config.pictures),
                status: CameraStatus::new(config.period_ns()),
                lost: 0,
            });
        }
        Self {
            state: Mutex::new(State {
                lanes,
                pairs: PairStatus::default(),
                closed: false,
                alive: 0,
            }),
            came: Condvar::new(),
            over: Condvar::new(),
        }
    }

    /// The state; a thread that died holding it left it whole.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A picture to fill; the oldest that waits where no other is free.
    pub fn take(&self, which: Which) -> Option<Box<Picture>> {
        let mut state = self.lock();
        let lane = state.lanes[which as usize].as_mut()?;
        if let Some(free) = lane.free.pop() {
            return Some(free);
        }
        let oldest = lane.queue.pop_front()?;
        lane.status.dropped += 1;
        let lost = oldest.lost + 1;
        match lane.queue.front_mut() {
            Some(next) => next.lost += lost,
            None => lane.lost += lost,
        }
        Some(oldest)
    }

    /// Passes a filled picture on.
    pub fn pass(&self, which: Which, mut picture: Box<Picture>) {
        let mut state = self.lock();
        if let Some(lane) = state.lanes[which as usize].as_mut() {
            picture.lost = std::mem::take(&mut lane.lost);
            lane.queue.push_back(picture);
        }
        drop(state);
        self.came.notify_one();
    }

    /// So many frames of a camera were lost.
    pub fn lose(&self, which: Which, frames: u64) {
        if let Some(lane) = self.lock().lanes[which as usize].as_mut() {
            lane.lost += frames;
        }
    }

    /// Changes how a camera is doing.
    pub fn update(&self, which: Which, change: impl FnOnce(&mut CameraStatus)) {
        let mut state = self.lock();
        let Some(lane) = state.lanes[which as usize].as_mut() else {
            return;
        };
        let before = lane.status.state;
        change(&mut lane.status);
        let changed = lane.status.state != before;
        drop(state);
        if changed {
            self.came.notify_one();
        }
    }

    /// Sleeps, unless all is over; whether it is.
    pub fn sleep(&self, ns: u64) -> bool {
        let wait = Duration::from_nanos(ns);
        let (state, _) = self
            .over
            .wait_timeout_while(self.lock(), wait, |s| !s.closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.closed
    }

    /// Whether all is over.
    pub fn is_over(&self) -> bool {
        self.lock().closed
    }

    /// Ends all threads; waits for them so long, and says whether they ended.
    pub fn close(&self, patience: Duration) -> bool {
        self.lock().closed = true;
        self.over.notify_all();
        let (state, waited) = self
            .came
            .wait_timeout_while(self.lock(), patience, |s| s.alive > 0)
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        !waited.timed_out()
    }
}
