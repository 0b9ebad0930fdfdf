//! One line over time: gains, a gate against jumps, hold and reacquisition.
use super::{Params, geometry::Line};
use crate::{
    frame::{Camera, Road, RoadOrigin},
    stage::state::{StateError, StateReader, StateWriter},
};

/// What the fit found in one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    pub line: Line,
    /// Mean row and disparity (px) of the inliers: the point that the line turns about.
    pub mean_row: f64,
    pub mean_px: f64,
    pub confidence: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tracked {
    pub line: Line,
    pub confidence: f64,
    /// Frames in a row without any measurement: each widens the gate.
    pub blind: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Tracker {
    camera: Camera,
    assumed: Line,
    height_gain: f64,
    pitch_gain: f64,
    height_step: f64,
    pitch_step: f64,
    reacquire: u32,
    decay: f64,
    pub(super) state: Option<Tracked>,
    /// A line outside the gate, and how many frames in a row have shown it.
    pub(super) pending: Option<(Line, u32)>,
}

impl Tracker {
    pub fn new(params: &Params, camera: &Camera) -> Self {
        Self {
            camera: *camera,
            assumed: Line::of_camera(camera, params.camera_height_m, params.pitch_rad),
            height_gain: params.height_gain,
            pitch_gain: params.pitch_gain,
            height_step: params.max_height_step_ratio,
            pitch_step: params.max_pitch_step_rad,
            reacquire: params.reacquire_frames,
            decay: params.held_decay,
            state: None,
            pending: None,
        }
    }

    pub fn reset(&mut self) {
        self.state = None;
        self.pending = None;
    }

    pub fn save(&self, to: &mut StateWriter<'_>) {
        to.u8(u8::from(self.state.is_some()));
        if let Some(state) = &self.state {
            to.f64(state.line.slope);
            to.f64(state.line.horizon);
            to.f64(state.confidence);
            to.u32(state.blind);
        }
        to.u8(u8::from(self.pending.is_some()));
        if let Some((line, seen)) = &self.pending {
            to.f64(line.slope);
            to.f64(line.horizon);
            to.u32(*seen);
        }
    }

    pub fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let line = |from: &mut StateReader<'_>| {
            let line = Line {
                slope: from.f64("slope")?,
                horizon: from.f64("horizon")?,
            };
            if line.slope > 0.0 {
                Ok(line)
            } else {
                Err(from.value("slope"))
            }
        };
        let mut state = None;
        if from.u8()? != 0 {
            state = Some(Tracked {
                line: line(from)?,
                confidence: from.f64("confidence")?,
                blind: from.u32()?.min(1000),
            });
        }
        let mut pending = None;
        if from.u8()? != 0 {
            pending = Some((line(from)?, from.u32()?.min(1 << 16)));
        }
        from.end()?;
        (self.state, self.pending) = (state, pending);
        Ok(())
    }

    /// The tracked line, if there is one.
    pub fn line(&self) -> Option<Line> {
        self.state.map(|s| s.line)
    }

    fn near(&self, a: &Line, b: &Line, times: f64) -> bool {
        (a.slope - b.slope).abs() <= self.height_step * times * b.slope
            && (a.tan_pitch(&self.camera) - b.tan_pitch(&self.camera)).abs()
                <= self.pitch_step * times
    }

    /// The road until one is measured.
    pub fn assumed(&self) -> Road {
        self.assumed.road(&self.camera, 0.0, RoadOrigin::Assumed)
    }

    /// The road of this frame.
    pub fn update(&mut self, fit: Option<Fit>) -> Road {
        let accepted = fit.and_then(|fit| {
            let Some(state) = &self.state else {
                return Some(fit.line).zip(Some(fit.confidence));
            };
            // What was not seen for a while may have moved on.
            let times = f64::from(state.blind + 1);
            if self.near(&fit.line, &state.line, times) {
                let gain = |g: f64| (g * times).min(1.0);
                let slope =
                    state.line.slope + gain(self.height_gain) * (fit.line.slope - state.line.slope);
                // With the slope given, the inliers' mean says where the horizon is.
                let horizon = fit.mean_row - fit.mean_px / slope;
                let horizon =
                    state.line.horizon + gain(self.pitch_gain) * (horizon - state.line.horizon);
                return Some((Line { slope, horizon }, fit.confidence));
            }
            let seen = match &self.pending {
                Some((line, n)) if self.near(&fit.line, line, 1.0) => n + 1,
                _ => 1,
            };
            self.pending = Some((fit.line, seen));
            (seen >= self.reacquire).then_some((fit.line, fit.confidence))
        });
        if let Some((line, confidence)) = accepted {
            self.pending = None;
            self.state = Some(Tracked {
                line,
                confidence,
                blind: 0,
            });
            return line.road(&self.camera, confidence, RoadOrigin::Measured);
        }
        match &mut self.state {
            Some(state) => {
                state.blind = if fit.is_some() {
                    0
                } else {
                    (state.blind + 1).min(1000)
                };
                state.confidence *= self.decay;
                state
                    .line
                    .road(&self.camera, state.confidence, RoadOrigin::Held)
            }
            None => self.assumed(),
        }
    }
}
