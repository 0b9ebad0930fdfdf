//! Pictures to frame sets and named gaps.
use super::{
    Which,
    lanes::{Picture, State},
    pairing::{Decision, Instant, MOST, Rules, Seen, Waiting},
};
use crate::{
    frame::{
        CameraState, FrameId, FrameSet, Gap, Image, MonoFrame, MonoImage, StereoFrame, Timestamp,
    },
    source::{LiveShape, Next},
};

/// Frame sets that go round. The loop keeps three at most.
const SETS: usize = 5;

/// Most gaps that are named one by one between two frames; more are one jump.
const MOST_GAPS: u64 = 1000;

/// What came of looking.
#[derive(Debug)]
pub(super) enum Made {
    Next(Next),
    /// Nothing, unless a picture comes, until then.
    WaitUntil(Timestamp),
}

/// Makes frame sets of what the cameras deliver.
#[derive(Debug)]
pub(super) struct Sets {
    rules: Rules,
    stall_periods: u64,
    shape: LiveShape,
    #[expect(clippy::vec_box, reason = "they travel in their boxes")]
    free: Vec<Box<FrameSet>>,
    waiting: [Waiting; 3],
    /// Index of the next frame or gap.
    next: usize,
    /// The last frame or gap that was given out.
    last: Option<Timestamp>,
    /// When something was last given out, or the start.
    heard: Timestamp,
    /// Gaps given out for silence since the last frame.
    silent: u64,
    /// Gaps that are owed before the next frame.
    owed: Option<u64>,
    skip_before: Timestamp,
}

impl Sets {
    pub fn new(rules: Rules, stall_periods: u32, shape: LiveShape, now: Timestamp) -> Self {
        let mut waiting: [Waiting; 3] = Default::default();
        waiting[0].present = shape.stereo.is_some();
        waiting[1].present = shape.stereo.is_some();
        waiting[2].present = shape.mono.is_some();
        Self {
            rules,
            stall_periods: stall_periods.into(),
            shape,
            free: std::iter::repeat_with(|| Box::new(set(shape)))
                .take(SETS)
                .collect(),
            waiting,
            next: 0,
            last: None,
            heard: now,
            silent: 0,
            owed: None,
            skip_before: Timestamp(0),
        }
    }

    pub fn skip_before(&mut self, stamp: Timestamp) {
        self.skip_before = stamp;
    }

    /// Takes a set back; one of another shape is let go.
    pub fn recycle(&mut self, mut old: Box<FrameSet>) {
        if self.free.len() < SETS && fits(&mut old, self.shape) {
            self.free.push(old);
        }
    }

    /// The next frame or gap, as far as the pictures allow.
    pub fn make(&mut self, state: &mut State, now: Timestamp) -> Made {
        loop {
            self.see(state);
            match self.rules.decide(&self.waiting, now.0) {
                Decision::Unpaired(which) => {
                    // The frames that were lost before it are lost before the next.
                    if let Some(lane) = state.lanes[which as usize].as_mut()
                        && let Some(picture) = lane.queue.pop_front()
                    {
                        lane.status.unpaired += 1;
                        if let Some(next) = lane.queue.front_mut() {
                            next.lost += picture.lost;
                        }
                        lane.free.push(picture);
                    }
                }
                Decision::Instant(instant) => {
                    return Made::Next(self.instant(&instant, state, now));
                }
                Decision::WaitUntil(until) => {
                    return self.silence(state, now, Some(Timestamp(until)));
                }
                Decision::Wait => return self.silence(state, now, None),
            }
        }
    }

    /// What the rules look at.
    fn see(&mut self, state: &State) {
        for (waiting, lane) in self.waiting.iter_mut().zip(&state.lanes) {
            waiting.pictures.clear();
            let Some(lane) = lane else { continue };
            waiting.delivers = matches!(
                lane.status.state,
                CameraState::Streaming | CameraState::Starting
            );
            let seen = |picture: &Picture| Seen {
                stamp: picture.stamp.0,
                arrived: picture.arrived.0,
            };
            let pictures = lane.queue.iter().take(MOST);
            waiting.pictures.extend(pictures.map(|p| seen(p)));
        }
    }

    /// From one frame to the next, ns: the left camera's, as far as there is one.
    fn period_ns(state: &State) -> u64 {
        let lane = state.lanes.iter().flatten().next();
        lane.map_or(0, |lane| lane.status.period_ns).max(1)
    }

    /// Nothing is there: names a gap where there should have been a frame long ago.
    fn silence(&mut self, state: &mut State, now: Timestamp, until: Option<Timestamp>) -> Made {
        let period = Self::period_ns(state);
        let bound = period.saturating_mul(self.stall_periods);
        // Before the first frame nobody knows when one is due.
        let Some(last) = self.last else {
            return Made::WaitUntil(until.unwrap_or(now.plus_ns(bound)));
        };
        let due = if self.silent == 0 {
            self.heard.plus_ns(bound)
        } else {
            self.heard.plus_ns(period)
        };
        if now < due {
            return Made::WaitUntil(until.map_or(due, |until| until.min(due)));
        }
        // The first gap of a silence stands for the frame that was due one period after the
        // last; those that follow come a period apart.
        self.silent += 1;
        let down = state
            .lanes
            .iter()
            .flatten()
            .any(|lane| lane.status.state != CameraState::Streaming);
        let gap = if down { Gap::CameraLost } else { Gap::Dropped };
        Made::Next(self.gap(last.plus_ns(period), gap, state, now))
    }

    /// Gives out a gap.
    fn gap(&mut self, stamp: Timestamp, gap: Gap, state: &mut State, now: Timestamp) -> Next {
        state.pairs.gaps += 1;
        let id = self.id(stamp, now);
        Next::Gap(id, gap)
    }

    /// The next frame's or gap's name.
    fn id(&mut self, stamp: Timestamp, now: Timestamp) -> FrameId {
        let id = FrameId {
            index: self.next,
            number: self.next as u64,
            timestamp: stamp,
        };
        self.next += 1;
        self.last = Some(stamp);
        self.heard = now;
        id
    }

    /// Gives out a frame, or first one of the gaps before it.
    fn instant(&mut self, instant: &Instant, state: &mut State, now: Timestamp) -> Next {
        let stamp = Timestamp(instant.stamp);
        let owed = match self.owed {
            Some(owed) => owed,
            None => self.lost_before(instant, state),
        };
        if let Some(last) = self.last
            && owed > 0
        {
            self.owed = Some(owed - 1);
            let step = stamp.since(last) / (owed + 1);
            return self.gap(last.plus_ns(step), Gap::Dropped, state, now);
        }
        self.owed = None;
        self.silent = 0;
        let mut taken: [Option<Box<Picture>>; 3] = [None, None, None];
        for ((taken, lane), takes) in taken.iter_mut().zip(&mut state.lanes).zip(instant.takes) {
            if takes && let Some(lane) = lane {
                *taken = lane.queue.pop_front();
            }
        }
        let next = self.fill(instant, &mut taken, state, now);
        for (taken, lane) in taken.into_iter().zip(&mut state.lanes) {
            if let (Some(picture), Some(lane)) = (taken, lane) {
                lane.free.push(picture);
            }
        }
        next
    }

    /// Frames lost before an instant, as far as they have not been named yet.
    fn lost_before(&mut self, instant: &Instant, state: &mut State) -> u64 {
        let lane = state.lanes[instant.reference as usize].as_mut();
        let lost = lane
            .and_then(|lane| lane.queue.front_mut())
            .map_or(0, |picture| std::mem::take(&mut picture.lost))
            .saturating_sub(self.silent);
        if lost > MOST_GAPS {
            log::warn!("{lost} frames were lost; they are counted, but not named one by one");
            self.next += (lost - MOST_GAPS) as usize;
        }
        lost.min(MOST_GAPS)
    }

    fn fill(
        &mut self,
        instant: &Instant,
        taken: &mut [Option<Box<Picture>>; 3],
        state: &mut State,
        now: Timestamp,
    ) -> Next {
        let stamp = Timestamp(instant.stamp);
        let [left, right, mono] = taken;
        if let Some(gap) = instant.stereo_gap {
            for (which, picture) in [(Which::Left, &*left), (Which::Right, &*right)] {
                if let (true, Some(lane)) =
                    (picture.is_some(), state.lanes[which as usize].as_mut())
                {
                    lane.status.unpaired += 1;
                }
            }
            if mono.is_none() {
                return self.gap(stamp, gap, state, now);
            }
        }
        if stamp < self.skip_before {
            return self.gap(stamp, Gap::Dropped, state, now);
        }
        // The loop has them all.
        let Some(mut set) = self.free.pop() else {
            return self.gap(stamp, Gap::Dropped, state, now);
        };
        set.id = self.id(stamp, now);
        set.speed_mps = None;
        set.stereo_gap = instant.stereo_gap;
        if let (None, Some(frame), Some(left), Some(right)) =
            (instant.stereo_gap, &mut set.stereo, left, right)
        {
            swap(left.grey.as_mut(), Some(&mut frame.left));
            swap(left.rgb.as_mut(), frame.left_rgb.as_mut());
            swap(right.grey.as_mut(), frame.right.as_mut());
        }
        if let Some(frame) = &mut set.mono {
            frame.gap = instant.mono_gap;
            frame.timestamp = stamp;
            if let Some(mono) = mono {
                frame.timestamp = mono.stamp;
                match &mut frame.image {
                    MonoImage::Grey8(image) => swap(mono.grey.as_mut(), Some(image)),
                    MonoImage::Rgb8(image) => swap(mono.rgb.as_mut(), Some(image)),
                    MonoImage::Grey16(_) => {}
                }
            }
        }
        let pairs = &mut state.pairs;
        pairs.whole += u64::from(instant.stereo_gap.is_none());
        pairs.degraded += u64::from(instant.stereo_gap.is_some());
        pairs.without_mono += u64::from(instant.mono_gap.is_some());
        Next::Frame(set)
    }
}

/// A black set.
fn set(shape: LiveShape) -> FrameSet {
    FrameSet {
        stereo: shape.stereo.map(|(size, colour)| StereoFrame {
            left_rgb: colour.then(|| Image::new(size.width, size.height)),
            ..StereoFrame::new(size)
        }),
        mono: shape.mono.map(|(kind, size)| MonoFrame::new(kind, size)),
        ..FrameSet::default()
    }
}

/// Whether a set has that shape.
fn fits(set: &mut FrameSet, shape: LiveShape) -> bool {
    let stereo = set.stereo.as_ref().map(|frame| {
        let size = frame.left.size();
        let right = frame.right.as_ref().map(Image::size) == Some(size);
        let rgb = frame.left_rgb.as_ref().map(Image::size);
        let whole = right && rgb.is_none_or(|s| s == size) && frame.stored_disparity.is_none();
        whole.then_some((size, rgb.is_some()))
    });
    let mono = set.mono.as_ref().map(|m| (m.image.kind(), m.image.size()));
    stereo == shape.stereo.map(Some) && mono == shape.mono
}

fn swap<T>(a: Option<&mut T>, b: Option<&mut T>) {
    if let (Some(a), Some(b)) = (a, b) {
        std::mem::swap(a, b);
    }
}
