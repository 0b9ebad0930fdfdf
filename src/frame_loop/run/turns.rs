//! One frame: what is launched when, what is waited for and how long, and what is said of it.
use std::mem;

use super::{FrameLoop, MAX_UNITS, Pace};
use crate::{
    frame::{Decisions, FrameId, Gap, GapSet, Outcome, StageTiming, Timestamp, Timing},
    frame_loop::{
        Advance, Backend, BackendError, Clock, Doing, Laps, StageId, Unit, backend::Watch,
    },
};

/// A unit that is under way for so long is waited for, so that whoever watches the loop sees the
/// stage that does not end.
const LONGEST_NS: u64 = 10_000_000_000;

/// A unit that was launched on a frame that has gone out without its result.
#[derive(Clone, Copy)]
pub(super) struct Overdue {
    /// The frame's.
    id: FrameId,
    launch: Launch,
    /// From its launch until the frame went out, ns.
    waited_ns: u64,
    slowed: Slowed,
}

/// How a unit was launched.
#[derive(Clone, Copy)]
struct Launch {
    before: Timestamp,
    /// What the host took for it, ns.
    took_ns: u64,
}

/// A fault on purpose: a unit that is under way is not done before `until`.
#[derive(Clone, Copy, Default)]
struct Slowed {
    until: Timestamp,
    ns: u64,
}

/// What is known of the frame in the slot before it is computed.
struct Frame {
    id: FrameId,
    arrival: Timestamp,
    deadline: Timestamp,
    /// Whether the clock decides.
    decides: bool,
    /// What was decided when it was recorded, where that is followed.
    recorded: Option<Decisions>,
    /// Without stereo images.
    blind: bool,
    all_blind: bool,
    /// When what was there was complete, where the frame goes out at its deadline without the rest.
    complete: Option<Timestamp>,
}

impl Frame {
    /// Whether a unit has nothing to run on.
    fn passes(&self, unit: &Unit) -> bool {
        self.all_blind || self.blind && unit.needs_stereo()
    }

    /// Whether one of the stages was dealt with so when the frame was recorded.
    fn was(&self, stages: &[StageId], how: fn(&Decisions, usize) -> bool) -> bool {
        let recorded = self.recorded.as_ref();
        recorded.is_some_and(|d| stages.iter().any(|&s| how(d, s as usize)))
    }
}

/// What was done about a unit before its turn.
#[derive(Clone, Copy)]
enum Ahead {
    /// Nothing. Of one that is skipped at present: what it would have had if it had been launched
    /// together with the required ones.
    Apart { room_ns: u64 },
    /// It was launched.
    Launched(Launch),
    /// It is under way still, since an earlier frame.
    Busy,
}

/// When units are launched that can be.
#[derive(Clone, Copy, PartialEq)]
enum When {
    /// Before the first is waited for.
    First,
    /// The required ones are done.
    Behind,
}

type Plan = [Ahead; MAX_UNITS];

impl<B: Backend, C: Clock> FrameLoop<'_, B, C> {
    /// Runs the units of the frame in the slot and judges them by the clock: what can be under way
    /// at once is launched first, then each has its turn.
    pub(super) fn compute(&mut self, arrival: Timestamp) -> Result<(), BackendError> {
        let decides = self.pace == Pace::Realtime;
        self.slot.result.id = self.slot.set.id;
        self.slot.result.gaps = GapSet::EMPTY;
        if let Some(gap) = self.slot.set.mono.as_ref().and_then(|mono| mono.gap) {
            self.slot.result.gaps.insert(gap);
        }
        let blind = self.slot.set.stereo_gap;
        if let Some(gap) = blind {
            self.slot.result.gaps.insert(gap);
            self.slot.blank_street();
        }
        let mut frame = Frame {
            id: self.slot.set.id,
            arrival,
            deadline: arrival.plus_ns(self.config.deadline_ns()),
            decides,
            recorded: self.slot.set.decisions.filter(|_| self.follows && !decides),
            blind: blind.is_some(),
            // Where there is no mono camera the other stages, too, look at the stereo camera's
            // image.
            all_blind: blind.is_some() && self.slot.set.mono.is_none(),
            complete: None,
        };
        // Timing is lent out while the backend writes the rest of the result.
        let mut timing = mem::take(&mut self.slot.result.timing);
        timing.start = arrival;
        timing.stages.clear();
        let mut plan = [Ahead::Apart { room_ns: 0 }; MAX_UNITS];
        for (ahead, overdue) in plan.iter_mut().zip(&self.overdue) {
            if overdue.is_some() {
                *ahead = Ahead::Busy;
            }
        }
        self.launch(&frame, When::First, &mut plan, &mut timing)?;
        self.advance(&frame, &mut plan, &mut timing)?;
        let required = |this: &Self, at: &usize| this.backend.units()[this.order[*at]].required();
        let optional = (0..self.order.len()).find(|at| !required(self, at));
        let optional = optional.unwrap_or(self.order.len());
        let mut required_ran = None;
        for at in 0..optional {
            let unit = self.order[at];
            let ran = self.turn(&mut frame, unit, plan[unit], &mut timing)?;
            required_ran = ran.or(required_ran);
        }
        self.launch(&frame, When::Behind, &mut plan, &mut timing)?;
        for at in optional..self.order.len() {
            let unit = self.order[at];
            self.turn(&mut frame, unit, plan[unit], &mut timing)?;
        }
        if let Some(complete) = required_ran {
            let missed = decides && complete > frame.deadline;
            self.misses = if missed { self.misses + 1 } else { 0 };
        }
        let now = self.clock.now();
        timing.duration_ns = now.since(arrival);
        timing.outcome = Outcome::Done;
        if decides && frame.complete.unwrap_or(now) > frame.deadline {
            timing.outcome = Outcome::Late;
            self.slot.result.gaps.insert(Gap::Late);
        }
        self.slot.result.timing = timing;
        Ok(())
    }

    /// Takes back what was launched on frames that have gone out without it, as far as it is done,
    /// or all of it: it has learnt from its frame, its result is thrown away.
    pub(super) fn settle(&mut self, all: bool) -> Result<(), BackendError> {
        for unit in 0..self.backend.units().len() {
            let Some(overdue) = self.overdue[unit] else {
                continue;
            };
            let Overdue { launch, slowed, .. } = overdue;
            let now = self.clock.now();
            let waits = all || now.since(launch.before) > LONGEST_NS;
            if waits && let Some(&stage) = self.backend.units()[unit].stages.first() {
                self.mark(Doing::Stage(stage), overdue.id);
            }
            let until = if waits { Timestamp(u64::MAX) } else { now };
            let mut timing = Timing::default();
            let mut laps = Laps::new(self.clock, launch.before, &mut timing);
            if !self.backend.wait(unit, until, &laps)? {
                continue;
            }
            if waits {
                self.clock.sleep_until(slowed.until);
            } else if now < slowed.until {
                continue;
            }
            self.backend.finish(unit, &mut self.slot, &mut laps)?;
            let (arrived, own_ns) = laps.noted();
            self.backend.withdraw(unit, &mut self.slot);
            let host_ns = arrived.map_or(0, |arrived| self.clock.now().since(arrived));
            let stages_ns: u64 = timing.stages.iter().map(|lap| lap.duration_ns).sum();
            let took_ns = own_ns.unwrap_or(launch.took_ns + stages_ns + host_ns) + slowed.ns;
            self.expected[unit].measured(took_ns);
            self.together[unit].measured(took_ns.max(overdue.waited_ns + 1));
            self.overdue[unit] = None;
        }
        Ok(())
    }

    /// Launches what can be under way at once.
    ///
    /// First the required units, and beside and behind them the optional ones that are
    /// expected to be done in time so. Where one does not fit, it and those that are less important
    /// wait until the required ones are done, and what is left is known; those that are skipped at
    /// present keep nobody waiting.
    ///
    /// Then, behind the required ones, what had to wait for them, beside what is under way. What
    /// finds nothing under way has its turn, one after the other, where the clock decides: what
    /// each takes alone is known better than what they take together.
    fn launch(
        &mut self,
        frame: &Frame,
        when: When,
        plan: &mut Plan,
        timing: &mut Timing,
    ) -> Result<(), BackendError> {
        if !self.config.overlap {
            return Ok(());
        }
        let order = self.order.clone();
        let launched = |ahead: &Ahead| matches!(ahead, Ahead::Launched(_));
        if when == When::Behind && frame.decides && !plan.iter().any(launched) {
            return Ok(());
        }
        let (mut required_ns, behind) = (0u64, when == When::Behind);
        // Whether all required ones were launched: what needs them can follow on the device.
        let mut whole = true;
        let mut new = [false; MAX_UNITS];
        for unit in order {
            let this = self.backend.units()[unit];
            let required = this.required();
            if frame.passes(&this)
                || !matches!(plan[unit], Ahead::Apart { .. })
                || required && behind
                || !required && !behind && this.needs_stereo() && !whole
            {
                continue;
            }
            let before = self.clock.now();
            let (expected, together) = (&self.expected[unit], &self.together[unit]);
            let decides = frame.decides && !required;
            let mut room_ns = 0;
            if required {
                required_ns = required_ns.saturating_add(expected.expected_ns());
            } else if decides {
                let left_ns = frame.deadline.since(before);
                room_ns = match left_ns.checked_sub(required_ns) {
                    Some(behind_ns) if this.needs_stereo() => behind_ns,
                    Some(_) => left_ns,
                    None => 0,
                };
                if !expected.would_admit(room_ns) || !together.fits(left_ns) {
                    if expected.runs() {
                        break;
                    }
                    if together.is_able() && !behind {
                        plan[unit] = Ahead::Apart { room_ns };
                    }
                    continue;
                }
            } else if frame.was(this.stages, Decisions::skipped) {
                continue;
            }
            let began = self.begin(frame, unit, behind, before, timing)?;
            if !behind {
                self.together[unit].tried(began);
            }
            if began {
                if decides {
                    self.expected[unit].admits(room_ns);
                }
                let took_ns = self.clock.now().since(before);
                plan[unit] = Ahead::Launched(Launch { before, took_ns });
                new[unit] = true;
            }
            whole &= began || !required;
        }
        for at in 0..self.order.len() {
            let unit = self.order[at];
            if let (true, Ahead::Launched(launch)) = (new[unit], &mut plan[unit]) {
                launch.took_ns += self.meanwhile(frame, unit, timing);
            }
        }
        Ok(())
    }

    /// Launches a unit; false where it can't be.
    fn begin(
        &mut self,
        frame: &Frame,
        unit: usize,
        behind: bool,
        now: Timestamp,
        timing: &mut Timing,
    ) -> Result<bool, BackendError> {
        let stage = self.backend.units()[unit].stages.first();
        if let (Some(monitor), Some(&stage)) = (self.monitor, stage) {
            monitor.probe.mark(Doing::Stage(stage), frame.id, now);
        }
        let mut laps = Laps::new(self.clock, frame.arrival, timing);
        if behind {
            self.backend.start_behind(unit, &mut self.slot, &mut laps)
        } else {
            self.backend.start(unit, &mut self.slot, &mut laps)
        }
    }

    /// What the host does for a unit that is under way, and how long, ns.
    fn meanwhile(&mut self, frame: &Frame, unit: usize, timing: &mut Timing) -> u64 {
        let before = self.clock.now();
        let laps = Laps::new(self.clock, frame.arrival, timing);
        self.backend.meanwhile(unit, &mut self.slot, &laps);
        self.clock.now().since(before)
    }

    /// While the required units are under way, the host does what it has to for others whose device's
    /// part is done: where the deadline leaves room for it even behind all the required ones take.
    fn advance(
        &mut self,
        frame: &Frame,
        plan: &mut Plan,
        timing: &mut Timing,
    ) -> Result<(), BackendError> {
        let units = self.backend.units().len();
        let (mut required, mut open) = ([false; MAX_UNITS], [false; MAX_UNITS]);
        let mut required_ns = 0u64;
        for unit in (0..units).filter(|&unit| matches!(plan[unit], Ahead::Launched(_))) {
            let needed = self.backend.units()[unit].required();
            required[unit] = needed;
            open[unit] = !needed;
            if needed {
                required_ns = required_ns.saturating_add(self.expected[unit].expected_ns());
            }
        }
        loop {
            let mut under_way = false;
            for unit in (0..units).filter(|&unit| required[unit]) {
                let laps = Laps::new(self.clock, frame.arrival, timing);
                under_way |= !self.backend.wait(unit, self.clock.now(), &laps)?;
            }
            let mut waits = false;
            for (unit, open) in open.iter_mut().enumerate() {
                if !under_way || !*open {
                    continue;
                }
                let before = self.clock.now();
                let all_ns = required_ns.saturating_add(self.expected[unit].expected_ns());
                if frame.decides && frame.deadline.since(before) < all_ns {
                    continue;
                }
                let laps = Laps::new(self.clock, frame.arrival, timing);
                *open = self.backend.advance(unit, &mut self.slot, &laps)? == Advance::Waits;
                waits |= *open;
            }
            if !waits {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// A unit's turn: it is finished where it was launched, else run, or skipped. Says when it was
    /// done, where it was.
    fn turn(
        &mut self,
        frame: &mut Frame,
        unit: usize,
        ahead: Ahead,
        timing: &mut Timing,
    ) -> Result<Option<Timestamp>, BackendError> {
        let this = self.backend.units()[unit];
        let (stages, required) = (this.stages, this.required());
        if frame.passes(&this) {
            let mut laps = Laps::new(self.clock, frame.arrival, timing);
            stages.iter().for_each(|&stage| laps.skip(stage));
            self.backend.withdraw(unit, &mut self.slot);
            return Ok(None);
        }
        let before = self.clock.now();
        let admitted = match ahead {
            Ahead::Launched(_) => true,
            Ahead::Apart { room_ns } => {
                self.together[unit].waited();
                if frame.decides && !required {
                    let left_ns = frame.deadline.since(before).max(room_ns);
                    self.expected[unit].admits(left_ns)
                } else {
                    required || !frame.was(stages, Decisions::skipped)
                }
            }
            Ahead::Busy => false,
        };
        if !admitted {
            self.leave_out(frame, unit, Outcome::Skipped, before, 0, timing);
            return Ok(None);
        }
        let mut launch = match ahead {
            Ahead::Launched(launch) => Some(launch),
            _ => None,
        };
        let alone = launch.is_none();
        if alone && !required && self.config.overlap {
            // So that it need not be waited for.
            if self.begin(frame, unit, true, before, timing)? {
                let took_ns = self.clock.now().since(before) + self.meanwhile(frame, unit, timing);
                launch = Some(Launch { before, took_ns });
            }
        }
        let slowed = self.strike(frame, stages, before, launch.is_some() && !required);
        if let Some(launch) = launch
            && !self.is_done(frame, unit, slowed, timing)?
        {
            let now = self.clock.now();
            frame.complete = frame.complete.or(Some(before));
            let waited_ns = now.since(launch.before);
            self.leave_out(frame, unit, Outcome::Late, launch.before, waited_ns, timing);
            self.overdue[unit] = Some(Overdue {
                id: frame.id,
                launch,
                waited_ns,
                slowed,
            });
            return Ok(None);
        }
        let first = timing.stages.len();
        let watch = self.monitor.map(|monitor| Watch {
            probe: &monitor.probe,
            frame: frame.id,
            stages,
        });
        let mut laps = Laps::new(self.clock, frame.arrival, timing).watched(watch);
        match launch {
            Some(_) => self.backend.finish(unit, &mut self.slot, &mut laps)?,
            None => self.backend.run(unit, &mut self.slot, &mut laps)?,
        }
        let (arrived, own_ns) = laps.noted();
        let after = self.clock.now();
        if let Some(lap) = timing.stages.get_mut(first) {
            if launch.is_none() {
                lap.start_ns = lap.start_ns.saturating_sub(slowed.ns);
            }
            lap.duration_ns += slowed.ns;
        }
        let laps = &timing.stages[first..];
        if laps.iter().all(|lap| lap.outcome == Outcome::Skipped) {
            // There was nothing to run on: that says nothing of what it takes.
            self.expected[unit].idle();
            return Ok(None);
        }
        let took_ns = match launch {
            // What it waited for others is not its own.
            Some(launch) => {
                if !alone {
                    self.together[unit].measured(after.since(launch.before));
                }
                let host_ns = arrived.map_or(0, |arrived| after.since(arrived));
                let stages_ns: u64 = laps.iter().map(|lap| lap.duration_ns).sum();
                match own_ns {
                    Some(own_ns) => own_ns + slowed.ns,
                    None => launch.took_ns + stages_ns + host_ns,
                }
            }
            None => after.since(before),
        };
        self.expected[unit].measured(took_ns);
        // Where the frame goes out without another, what is done by then is in time.
        let overran = frame.decides && frame.complete.is_none() && after > frame.deadline;
        let late = !required && (overran || frame.was(stages, Decisions::late));
        for (ran, &stage) in timing.stages[first..].iter_mut().zip(stages) {
            if late {
                ran.outcome = Outcome::Late;
                self.slot.result.gaps.insert(Gap::Late);
            } else if ran.duration_ns > self.config.budget_us.ns(stage) {
                ran.outcome = Outcome::OverBudget;
            }
        }
        if late {
            self.backend.withdraw(unit, &mut self.slot);
        }
        Ok(Some(after))
    }

    /// Faults on purpose: one that never returns, one that takes time. The time of a unit that
    /// need not be waited for passes beside the loop.
    fn strike(&self, frame: &Frame, stages: &[StageId], before: Timestamp, aside: bool) -> Slowed {
        let (Some(monitor), Some(&stage)) = (self.monitor, stages.first()) else {
            return Slowed::default();
        };
        monitor.probe.mark(Doing::Stage(stage), frame.id, before);
        if let Some(hang) = &monitor.hang {
            hang.strike(stages, frame.id.index);
        }
        let Some(slow) = &monitor.slow else {
            return Slowed::default();
        };
        if aside {
            let ns = slow.ns(stages, frame.id.index);
            let until = if ns == 0 {
                Timestamp(0)
            } else {
                before.plus_ns(ns)
            };
            return Slowed { until, ns };
        }
        let ns = slow.strike(stages, frame.id.index, self.clock);
        Slowed {
            until: Timestamp(0),
            ns,
        }
    }

    /// Whether a unit that was launched can be finished: an optional one is waited for until the
    /// frame's deadline where the clock decides, else for as long as it takes.
    fn is_done(
        &mut self,
        frame: &Frame,
        unit: usize,
        slowed: Slowed,
        timing: &mut Timing,
    ) -> Result<bool, BackendError> {
        let bounded = frame.decides && !self.backend.units()[unit].required();
        if !bounded {
            self.clock.sleep_until(slowed.until);
            return Ok(true);
        }
        let laps = Laps::new(self.clock, frame.arrival, timing);
        if !self.backend.wait(unit, frame.deadline, &laps)? {
            return Ok(false);
        }
        self.clock.sleep_until(slowed.until.min(frame.deadline));
        Ok(slowed.until <= frame.deadline)
    }

    /// A unit's result is not in this frame.
    fn leave_out(
        &mut self,
        frame: &Frame,
        unit: usize,
        outcome: Outcome,
        from: Timestamp,
        duration_ns: u64,
        timing: &mut Timing,
    ) {
        let mut duration_ns = duration_ns;
        for stage in self.backend.units()[unit].stages {
            // Room for more stages than there are. The first carries the time.
            let _ = timing.stages.push(StageTiming {
                stage: stage.name(),
                start_ns: from.since(frame.arrival),
                duration_ns: mem::take(&mut duration_ns),
                outcome,
            });
        }
        self.slot.result.gaps.insert(match outcome {
            Outcome::Late => Gap::Late,
            _ => Gap::Skipped,
        });
        self.backend.withdraw(unit, &mut self.slot);
    }
}
