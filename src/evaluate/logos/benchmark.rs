//! Marks laid into frames, and how many of them the logo stage finds.
use std::sync::Arc;

use super::{
    composite::{Chance, Master, Placing, add_noise, lay},
    marks::MARKS,
};
use crate::{
    frame::{Image, Logo, Logos, MonoImage, PixelKind},
    stage::{
        Stage as _,
        logo::{BuildOptions, Params, ParamsError, Templates, TemplatesError, cpu::Plan},
    },
};

/// A pose is right when its corners are this near to the true ones, px, in the mean.
pub const SUCCESS_PX: f64 = 4.0;

/// Standard deviation of the frames' noise, grey levels.
const NOISE: f64 = 3.0;

/// Heights of marks, px: each is as frequent as the others.
pub const BINS: [(f64, f64); 3] = [(50.0, 80.0), (80.0, 130.0), (130.0, 240.0)];

/// Height of the pictures that templates are made of, px.
const TEMPLATE_HEIGHT: usize = 256;

/// What a benchmark can stumble over.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// A template can't be made.
    #[error(transparent)]
    Templates(#[from] TemplatesError),
    /// Parameters that can't be used.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// No frame to lay marks into.
    #[error("no frames to lay logos into, expected at least one")]
    NoFrames,
}

/// One mark in one frame, and what became of it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How it lies.
    pub placing: Placing,
    /// Mean distance of the corners of the nearest logo of that name, px, where one was reported.
    pub error_px: Option<f64>,
    /// Logos reported that are not it: another name, or farther off than [`SUCCESS_PX`].
    pub wrong: usize,
    /// All that was reported.
    pub reported: Vec<Logo>,
}

impl Trial {
    /// Whether the mark was found where it is.
    pub fn success(&self) -> bool {
        self.error_px.is_some_and(|e| e < SUCCESS_PX)
    }
}

/// All trials.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In order.
    pub trials: Vec<Trial>,
}

impl Outcome {
    /// Share of the marks of these heights (px; from, below) that were found.
    pub fn success(&self, (low, high): (f64, f64)) -> f64 {
        let of = |t: &&Trial| t.placing.height >= low && t.placing.height < high;
        let all = self.trials.iter().filter(of).count();
        let good = self
            .trials
            .iter()
            .filter(of)
            .filter(|t| t.success())
            .count();
        good as f64 / all.max(1) as f64
    }

    /// Share of the trials in which something wrong was reported.
    pub fn wrong(&self) -> f64 {
        let wrong = self.trials.iter().filter(|t| t.wrong > 0).count();
        wrong as f64 / self.trials.len().max(1) as f64
    }
}

/// Templates of all marks.
///
/// # Errors
/// As [`Templates::of_pictures`].
pub fn templates(params: &Params, options: &BuildOptions) -> Result<Templates, TemplatesError> {
    let pictures = MARKS
        .iter()
        .map(|mark| {
            let (grey, alpha) = mark.picture(TEMPLATE_HEIGHT);
            (mark.name.to_owned(), grey, Some(alpha))
        })
        .collect();
    Templates::of_pictures(pictures, &params.features, options)
}

/// Lays `trials` marks, one at a time, into `frames` (all of one size, in turn) and looks for
/// all marks. The same arguments give the same outcome.
///
/// # Errors
/// When there is no frame, or the stage can't be built.
pub fn run(
    params: &Params,
    templates: Arc<Templates>,
    frames: &[Image<u8>],
    trials: usize,
    seed: u64,
) -> Result<Outcome, BenchmarkError> {
    let size = frames.first().ok_or(BenchmarkError::NoFrames)?.size();
    let masters: Vec<Master> = MARKS.iter().map(Master::new).collect();
    let mut plan = Plan::new(params, templates.clone(), PixelKind::Grey8, size)?;
    let names: Vec<&str> = templates.names().collect();
    let mut chance = Chance(seed);
    let mut logos = Logos::new();
    let trials = (0..trials)
        .map(|n| {
            let mark = n % MARKS.len();
            let bin = BINS[n / MARKS.len() % BINS.len()];
            let placing = Placing::by_chance(&mut chance, mark, bin, size);
            let mut frame = frames[n % frames.len()].clone();
            lay(&mut frame, &masters[mark], &placing);
            add_noise(&mut frame, &mut chance, NOISE);
            let image = MonoImage::Grey8(frame);
            plan.reset();
            plan.run(crate::stage::logo::Input { image: &image }, &mut logos);
            judge(placing, &logos, &names)
        })
        .collect();
    Ok(Outcome { trials })
}

fn judge(placing: Placing, logos: &Logos, names: &[&str]) -> Trial {
    let name = MARKS[placing.mark].name;
    let (mut nearest, mut wrong) = (None, 0);
    for logo in logos {
        let error = super::corner_error(&placing.quad, &logo.quad.map(|p| p.map(f64::from)));
        let named = names.get(usize::from(logo.template)) == Some(&name);
        if named && nearest.is_none_or(|e| error < e) {
            nearest = Some(error);
        }
        wrong += usize::from(!named || error >= SUCCESS_PX);
    }
    Trial {
        placing,
        error_px: nearest,
        wrong,
        reported: logos.to_vec(),
    }
}
