//! The reference, and the backend where there is no GPU.
use rayon::prelude::*;

use super::{
    Frame, GAIN_AFTER, Params, ParamsError, SnapshotError,
    anchor::{self, Anchor, Drift, Grid},
    clean,
    gain::{self, Ratios},
    kernel::{self, Block, LANES},
    simd::{self, Isa},
    snapshot::{self, Model},
};
use crate::{
    frame::{
        Foreground, ForegroundState, Image, Mask, MonoImage, Motion, MotionState, PixelKind, Size,
    },
    stage::{
        Stage,
        state::{StateError, StateReader, StateWriter},
    },
};

/// Goes up with every change of a saved state.
const STATE: u8 = 1;
/// Blocks that one thread takes at once.
const BAND: usize = 256;
/// What differs more from the model than this is something else, in 1/16 level.
const MOST_BRIGHTER: u32 = 24 * 16;
/// How far beyond its borders the model speaks for a picture, px.
const BEYOND: f32 = 8.0;
/// Share of the background's contrast that a wrong place may make.
const SLACK: u16 = 8;
/// Rows that one thread takes at once.
const ROWS: usize = 16;

/// What the stage reads.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The mono camera's picture, of the plan's size and kind.
    pub image: &'a MonoImage,
    /// How the camera moved since the frame before.
    pub motion: &'a Motion,
    /// Pixels that are foreground whatever the model says, and not learnt from: all but 0.
    pub known_foreground: Option<&'a Mask>,
}

/// The foreground stage for one image size and kind of pixel.
pub struct Plan {
    params: Params,
    size: Size,
    isa: Isa,
    state: State,
    /// Codes of the model's pixels, and of the picture's where they lie elsewhere.
    codes: Vec<u8>,
    moved_codes: Vec<u8>,
    skip: Vec<u8>,
    slack: Vec<u16>,
    ratios: Ratios,
    /// Pixels that may be used, and what that makes of each in `skip` while the camera rests.
    usable: Option<(Mask, Vec<u8>)>,
    learnt: u32,
    gain: f32,
    anchor: Anchor,
}

/// The model, and a picture without padding or as the model sees it.
enum State {
    Grey8(Vec<Block<1>>, Vec<u8>),
    Grey16(Vec<Block<1>>, Vec<u16>),
    Rgb8(Vec<Block<3>>, Vec<[u8; 3]>),
}

/// `$body` for each kind of model and picture.
macro_rules! each_kind {
    ($state:expr, ($model:ident, $buffer:ident) => $body:expr) => {
        match $state {
            State::Grey8($model, $buffer) => $body,
            State::Grey16($model, $buffer) => $body,
            State::Rgb8($model, $buffer) => $body,
        }
    };
}

impl Plan {
    /// A model that knows nothing.
    ///
    /// # Errors
    /// When a parameter or the size is out of range.
    pub fn new(params: &Params, kind: PixelKind, size: Size) -> Result<Self, ParamsError> {
        Self::with_mask(params, kind, size, None)
    }

    /// The same; pixels that are 0 in `mask` are never used: background, and not learnt from.
    ///
    /// # Errors
    /// As [`Plan::new`], and for a mask of another size.
    pub fn with_mask(
        params: &Params,
        kind: PixelKind,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, ParamsError> {
        params.validate()?;
        let usable = super::usable(mask, size)?.map(|mask| {
            let skip = mask.pixels().map(|&m| u8::from(m == 0) * kernel::SKIP);
            (mask.clone(), skip.collect())
        });
        let side = 1..=usize::from(u16::MAX);
        if !side.contains(&size.width) || !side.contains(&size.height) {
            return Err(ParamsError::Size(size));
        }
        let (n, blocks) = (size.area(), size.area().div_ceil(LANES));
        Ok(Self {
            params: params.clone(),
            size,
            isa: Isa::detect(),
            state: match kind {
                PixelKind::Grey8 => State::Grey8(vec![Block::EMPTY; blocks], vec![0; n]),
                PixelKind::Grey16 => State::Grey16(vec![Block::EMPTY; blocks], vec![0; n]),
                PixelKind::Rgb8 => State::Rgb8(vec![Block::EMPTY; blocks], vec![[0; 3]; n]),
            },
            codes: vec![0; n],
            moved_codes: vec![0; n],
            skip: vec![0; n],
            slack: vec![0; n],
            ratios: Ratios::new(),
            usable,
            learnt: 0,
            gain: 1.0,
            anchor: Anchor::REST,
        })
    }

    /// What its pictures are made of.
    pub fn kind(&self) -> PixelKind {
        match self.state {
            State::Grey8(..) => PixelKind::Grey8,
            State::Grey16(..) => PixelKind::Grey16,
            State::Rgb8(..) => PixelKind::Rgb8,
        }
    }

    /// Fixes the learning rate, 0 to 1 (0 freezes the model), or lets it be automatic.
    ///
    /// # Errors
    /// When the rate is out of range.
    pub fn set_learning_rate(&mut self, rate: Option<f32>) -> Result<(), ParamsError> {
        let params = Params {
            learning_rate: rate,
            ..self.params.clone()
        };
        params.validate()?;
        self.params = params;
        Ok(())
    }

    /// Frames that the model has learnt from.
    pub fn learnt_frames(&self) -> u32 {
        self.learnt
    }

    /// The camera's gain since the model began.
    pub fn gain(&self) -> f32 {
        self.gain
    }

    /// For a frame for which the stage does not run: keeps the camera's motion for later.
    pub fn skip(&mut self, motion: &Motion) {
        match motion.state {
            MotionState::Still | MotionState::Unknown => {}
            MotionState::SmallMotion => self.follow(&motion.homography),
            MotionState::Driving => self.reset(),
        }
    }

    fn follow(&mut self, step: &Grid) {
        // A model that knows nothing begins where the picture is.
        if self.learnt == 0 {
            return;
        }
        match self.anchor.follow(step, self.size) {
            Some(anchor) => self.anchor = anchor,
            None => self.reset(),
        }
    }

    /// Corrects the place of the picture by what the model shows there.
    fn align(&mut self, image: &MonoImage) {
        if self.learnt < GAIN_AFTER {
            return;
        }
        let (grid, gain) = (self.anchor.to_picture(), self.gain);
        let mask = self.usable.as_ref().map(|(mask, _)| mask);
        let drift = match (&self.state, image) {
            (State::Grey8(model, _), MonoImage::Grey8(i)) => drift(model, i, mask, &grid, gain),
            (State::Grey16(model, _), MonoImage::Grey16(i)) => drift(model, i, mask, &grid, gain),
            (State::Rgb8(model, _), MonoImage::Rgb8(i)) => drift(model, i, mask, &grid, gain),
            _ => return,
        };
        match self.anchor.aligned(&drift, self.size) {
            Some(anchor) => self.anchor = anchor,
            None => self.reset(),
        }
    }

    /// The background in the gain and place of the model's first frame: the weighted mean of each
    /// pixel's background modes, 0 where nothing is known. `confidence` is the weight of the
    /// heaviest mode in 1/255: how settled the background is.
    ///
    /// # Panics
    /// When an image has another size or kind than the plan.
    pub fn background(&self, image: &mut MonoImage, confidence: &mut Image<u8>) {
        assert_eq!(confidence.size(), self.size, "confidence of another size");
        assert_eq!(image.size(), self.size, "background of another size");
        let enough = (self.params.background_ratio * super::ONE) as u32;
        let grey = |level: u32| ((level + 128) >> 8).min(255) as u8;
        match (&self.state, image) {
            (State::Grey8(model, _), MonoImage::Grey8(image)) => {
                background(model, image, confidence, enough, |[level]| grey(level));
            }
            (State::Grey16(model, _), MonoImage::Grey16(image)) => {
                background(model, image, confidence, enough, |[level]| level as u16);
            }
            (State::Rgb8(model, _), MonoImage::Rgb8(image)) => {
                background(model, image, confidence, enough, |levels| levels.map(grey));
            }
            (_, image) => panic!(
                "background of {:?}, plan of {:?}",
                image.kind(),
                self.kind()
            ),
        }
    }

    /// The model as bytes, for [`Plan::restore`]. The camera's gain and place are left out.
    pub fn snapshot(&self) -> Vec<u8> {
        let (mut counts, mut numbers) = (Vec::with_capacity(self.size.area()), Vec::new());
        each_kind!(&self.state, (model, _buffer) => for p in 0..self.size.area() {
            let (block, i) = (&model[p / LANES], p % LANES);
            counts.push(block.count[i]);
            for mode in &block.modes[..usize::from(block.count[i])] {
                numbers.extend([mode.weight[i], mode.variance[i]]);
                numbers.extend(mode.mean.iter().map(|mean| mean[i]));
            }
        });
        let model = Model {
            learnt: self.learnt,
            counts: counts.into(),
            numbers,
        };
        snapshot::encode(&self.params, self.kind(), self.size, model)
    }

    /// Takes the model of a snapshot.
    ///
    /// # Errors
    /// When the bytes are not a snapshot of a plan of the same size, kind and parameters; the
    /// model is then as freshly built.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.reset();
        let found = snapshot::decode(&self.params, self.kind(), self.size, bytes)?;
        self.take_model(&found);
        Ok(())
    }

    /// Takes numbers that have been checked.
    fn take_model(&mut self, found: &Model<'_>) {
        let mut numbers = found.numbers.iter().copied();
        let mut next = || numbers.next().unwrap_or(0);
        each_kind!(&mut self.state, (model, _buffer) => for (p, &count) in found.counts.iter().enumerate() {
            let (block, i) = (&mut model[p / LANES], p % LANES);
            block.count[i] = count;
            for mode in &mut block.modes[..usize::from(count)] {
                mode.weight[i] = next();
                mode.variance[i] = next();
                for mean in &mut mode.mean {
                    mean[i] = next();
                }
            }
        });
        self.learnt = found.learnt;
    }
}

impl Stage for Plan {
    type Input<'a> = Input<'a>;
    type Output = Foreground;

    fn run(&mut self, input: Input<'_>, output: &mut Foreground) {
        assert_eq!(input.image.size(), self.size, "image of another size");
        assert_eq!(output.mask.size(), self.size, "mask of another size");
        if let Some(known) = input.known_foreground {
            assert_eq!(known.size(), self.size, "known foreground of another size");
        }
        match input.motion.state {
            MotionState::Unknown if self.learnt > 0 => {
                output.state = ForegroundState::MotionUnknown;
                output.mask.fill(0);
                return;
            }
            MotionState::Driving => {
                self.reset();
                output.state = ForegroundState::Driving;
                output.mask.fill(0);
                return;
            }
            MotionState::SmallMotion => {
                self.follow(&input.motion.homography);
                self.align(input.image);
            }
            MotionState::Unknown | MotionState::Still => {}
        }
        let shadow = self.params.shadow_of(self.kind());
        let Self { params, size, .. } = self;
        let valid = self.learnt >= params.warm_up_frames;
        let moved = !self.anchor.at_rest(*size);
        let skip = if moved {
            let grid = self.anchor.to_picture();
            let mask = self.usable.as_ref().map(|(mask, _)| mask);
            skip_outside(&grid, *size, mask, input.known_foreground, &mut self.skip);
            Some(&self.skip[..])
        } else if let Some(known) = input.known_foreground {
            for (skip, &known) in self.skip.iter_mut().zip(known.pixels()) {
                *skip = if known != 0 { kernel::KNOWN } else { 0 };
            }
            for (skip, &masked) in self
                .skip
                .iter_mut()
                .zip(self.usable.iter().flat_map(|u| &u.1))
            {
                *skip = if masked != 0 { masked } else { *skip };
            }
            Some(&self.skip[..])
        } else {
            self.usable.as_ref().map(|(_, skip)| &skip[..])
        };
        let grid = moved.then(|| self.anchor.to_picture());
        let mut work = Work {
            params,
            shadow,
            size: *size,
            isa: self.isa,
            grid,
            skip,
            slack: &mut self.slack,
            learnt: self.learnt,
            ratios: &mut self.ratios,
            codes: &mut self.codes,
        };
        let (gain, learns) = match (&mut self.state, input.image) {
            (State::Grey8(model, buffer), MonoImage::Grey8(image)) => {
                work.frame(image, buffer, model, self.gain, simd::band_grey8)
            }
            (State::Grey16(model, buffer), MonoImage::Grey16(image)) => {
                work.frame(image, buffer, model, self.gain, simd::band_grey16)
            }
            (State::Rgb8(model, buffer), MonoImage::Rgb8(image)) => {
                work.frame(image, buffer, model, self.gain, simd::band_rgb8)
            }
            (_, image) => panic!("picture of {:?}, plan of {:?}", image.kind(), self.kind()),
        };
        self.gain = gain;
        if learns {
            self.learnt = self.learnt.saturating_add(1);
        }
        if !valid {
            output.state = ForegroundState::WarmingUp;
            output.mask.fill(0);
            return;
        }
        output.state = ForegroundState::Valid;
        let codes = if moved {
            let grid = self.anchor.to_model();
            codes_of_picture(&grid, *size, &self.codes, &mut self.moved_codes);
            &self.moved_codes
        } else {
            &self.codes
        };
        write_mask(params.median_px, self.isa, codes, &mut output.mask);
        if let Some(known) = input.known_foreground {
            for (mask, known) in output.mask.rows_mut().zip(known.rows()) {
                for (mask, &known) in mask.iter_mut().zip(known) {
                    *mask = if known != 0 {
                        Foreground::MOVING
                    } else {
                        *mask
                    };
                }
            }
        }
        if let Some((usable, _)) = &self.usable {
            for (mask, usable) in output.mask.rows_mut().zip(usable.rows()) {
                for (mask, &usable) in mask.iter_mut().zip(usable) {
                    *mask = if usable != 0 { *mask } else { 0 };
                }
            }
        }
    }

    fn reset(&mut self) {
        each_kind!(&mut self.state, (model, _buffer) => for block in model {
            block.count = [0; LANES];
        });
        self.learnt = 0;
        self.gain = 1.0;
        self.anchor = Anchor::REST;
    }

    fn save(&self, to: &mut StateWriter<'_>) {
        let known = (self.learnt, self.gain, self.anchor.numbers());
        write_state(to, self.kind(), self.size, known);
        let area = self.size.area();
        each_kind!(&self.state, (model, _buffer) => {
            for (block, n) in model.iter().zip(lanes(area)) {
                to.bytes(&block.count[..n]);
            }
            for (block, n) in model.iter().zip(lanes(area)) {
                for i in 0..n {
                    for mode in &block.modes[..usize::from(block.count[i])] {
                        to.u16(mode.weight[i]);
                        to.u16(mode.variance[i]);
                        mode.mean.iter().for_each(|mean| to.u16(mean[i]));
                    }
                }
            }
        });
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.reset();
        let (model, gain, anchor) = read_state(from, &self.params, self.kind(), self.size)?;
        self.take_model(&model);
        (self.gain, self.anchor) = (gain, anchor);
        Ok(())
    }
}

/// The beginning of a saved state: all but the model.
pub(super) fn write_state(
    to: &mut StateWriter<'_>,
    kind: PixelKind,
    size: Size,
    (learnt, gain, anchor): (u32, f32, [f64; 9]),
) {
    to.shape(STATE, Some(kind), size);
    to.u32(learnt);
    to.f32(gain);
    anchor.iter().for_each(|&v| to.f64(v));
}

/// What a saved state holds, checked.
pub(super) fn read_state<'a>(
    from: &mut StateReader<'a>,
    params: &Params,
    kind: PixelKind,
    size: Size,
) -> Result<(Model<'a>, f32, Anchor), StateError> {
    from.shape(STATE, Some(kind), size)?;
    let learnt = from.u32()?;
    let gain = from.f32("gain")?;
    let mut anchor = [0.0; 9];
    for v in &mut anchor {
        *v = from.f64("place")?;
    }
    let anchor = Anchor::of(anchor, size).ok_or(from.value("place"))?;
    if gain <= 0.0 {
        return Err(from.value("gain"));
    }
    let counts = from.bytes(size.area())?;
    let modes: usize = counts.iter().map(|&n| usize::from(n)).sum();
    let length = 2 + snapshot::channels(kind);
    let numbers = from.bytes(2 * length * modes)?;
    from.end()?;
    let model = Model {
        learnt,
        counts: counts.into(),
        numbers: (numbers.as_chunks().0.iter())
            .map(|&b| u16::from_le_bytes(b))
            .collect(),
    };
    snapshot::check(params, kind, size, &model).map_err(|_| from.value("model"))?;
    Ok((model, gain, anchor))
}

/// How many pixels each block of the model has.
fn lanes(area: usize) -> impl Iterator<Item = usize> {
    (0..area.div_ceil(LANES)).map(move |block| (area - block * LANES).min(LANES))
}

/// What a frame needs besides picture and model.
struct Work<'a> {
    params: &'a Params,
    shadow: bool,
    size: Size,
    isa: Isa,
    /// From the model to the picture, if they lie apart.
    grid: Option<Grid>,
    skip: Option<&'a [u8]>,
    slack: &'a mut [u16],
    learnt: u32,
    ratios: &'a mut Ratios,
    codes: &'a mut [u8],
}

type Band<P, const C: usize> =
    fn(Isa, &Frame, &[P], Option<&[u8]>, Option<&[u16]>, &mut [Block<C>], &mut [u8]);

impl Work<'_> {
    /// Codes of the model's pixels; the gain, and whether anything was learnt.
    fn frame<const C: usize, P: kernel::Pixel<C> + anchor::Mix>(
        &mut self,
        image: &Image<P>,
        buffer: &mut [P],
        model: &mut [Block<C>],
        gain: f32,
        band: Band<P, C>,
    ) -> (f32, bool) {
        let w = self.size.width;
        let pixels = if let Some(grid) = &self.grid {
            anchor::sample_all(grid, image, buffer);
            &*buffer
        } else if image.stride() == w {
            &image.data()[..buffer.len()]
        } else {
            for (to, from) in buffer.chunks_mut(w).zip(image.rows()) {
                to.copy_from_slice(from);
            }
            &*buffer
        };
        let gain = if self.params.gain_compensation && self.learnt >= GAIN_AFTER {
            self.measure(pixels, model);
            self.ratios.gain(gain)
        } else {
            gain
        };
        let frame = Frame::new(self.params, self.shadow, self.learnt, gain);
        if self.grid.is_some() {
            slacks(model, self.size, self.slack);
        }
        let (isa, skip) = (self.isa, self.skip);
        let slack = self.grid.map(|_| &*self.slack);
        model
            .par_chunks_mut(BAND)
            .zip(pixels.par_chunks(BAND * LANES))
            .zip(self.codes.par_chunks_mut(BAND * LANES))
            .enumerate()
            .for_each(|(b, ((blocks, pixels), codes))| {
                let skip = skip.map(|skip| &skip[b * BAND * LANES..]);
                let slack = slack.map(|slack| &slack[b * BAND * LANES..]);
                band(isa, &frame, pixels, skip, slack, blocks, codes);
            });
        (gain, frame.learns)
    }

    fn measure<const C: usize, P: kernel::Pixel<C>>(&mut self, pixels: &[P], model: &[Block<C>]) {
        self.ratios.clear();
        let Size { width, height } = self.size;
        let step = gain::step(self.size.area(), gain::SAMPLES);
        for y in (step / 2..height).step_by(step) {
            for x in (step / 2..width).step_by(step) {
                let p = y * width + x;
                let (block, i) = (&model[p / LANES], p % LANES);
                let mode = &block.modes[0];
                let skipped = self.skip.is_some_and(|skip| skip[p] != 0);
                if skipped || block.count[i] == 0 || mode.weight[i] < gain::MIN_WEIGHT {
                    continue;
                }
                let levels: [u16; C] = std::array::from_fn(|c| pixels[p].level(c));
                let mean: u32 = mode.mean.iter().map(|mean| u32::from(mean[i])).sum();
                let dark = mean < gain::MIN_LEVEL * C as u32;
                if dark || levels.iter().any(|&l| l >= gain::SATURATED) {
                    continue;
                }
                let level = levels.iter().map(|&l| u32::from(l)).sum();
                self.ratios.add(level, mean);
            }
        }
    }
}

/// Samples of how the picture lies beside the model.
fn drift<const C: usize, P: kernel::Pixel<C> + anchor::Mix>(
    model: &[Block<C>],
    image: &Image<P>,
    mask: Option<&Mask>,
    grid: &Grid,
    gain: f32,
) -> Drift {
    let size = image.size();
    let step = gain::step(size.area(), Drift::SAMPLES);
    let inverse = 1.0 / gain;
    let mut drift = Drift::default();
    // Sum of the heaviest mode's mean, in 1/16 level.
    let mean = |x: usize, y: usize| {
        let p = y * size.width + x;
        let (block, i) = (&model[p / LANES], p % LANES);
        let mean: i32 = block.modes[0]
            .mean
            .iter()
            .map(|m| i32::from(m[i] >> 4))
            .sum();
        (block.count[i] > 0).then_some(mean)
    };
    let around = |x: usize, y: usize| {
        let gx = mean(x + 1, y)? - mean(x - 1, y)?;
        let gy = mean(x, y + 1)? - mean(x, y - 1)?;
        Some(([gx, gy], mean(x, y)?))
    };
    for y in (step / 2..size.height).step_by(step) {
        for x in (step / 2..size.width).step_by(step) {
            let border = x == 0 || y == 0 || x + 1 == size.width || y + 1 == size.height;
            if border {
                continue;
            }
            let Some((gradient, mean)) = around(x, y) else {
                continue;
            };
            let Some(pixel) = anchor::sample(grid, image, x, y) else {
                continue;
            };
            if mask.is_some_and(|mask| anchor::is_masked(grid, mask, x, y)) {
                continue;
            }
            let levels: [u16; C] = std::array::from_fn(|c| pixel.level(c));
            if levels.iter().any(|&l| l >= gain::SATURATED) {
                continue;
            }
            let level: u32 = levels.iter().map(|&l| u32::from(l >> 4)).sum();
            let brighter = (level as f32 * inverse + 0.5) as i32 - mean;
            if brighter.unsigned_abs() <= MOST_BRIGHTER * C as u32 {
                drift.add((x, y), size, gradient, brighter);
            }
        }
    }
    drift
}

/// By how much a sample may differ for its place, in 1/256 level: an eighth of the contrast of
/// the background around it, as far as it is known.
fn slacks<const C: usize>(model: &[Block<C>], size: Size, slacks: &mut [u16]) {
    let known = |x: usize, y: usize| {
        let p = y * size.width + x;
        let (block, i) = (&model[p / LANES], p % LANES);
        (block.count[i] > 0).then_some((&block.modes[0], i))
    };
    slacks
        .par_chunks_mut(size.width)
        .enumerate()
        .for_each(|(y, row)| {
            let (above, below) = (y.max(1) - 1, (y + 1).min(size.height - 1));
            for (x, slack) in row.iter_mut().enumerate() {
                let (left, right) = (x.max(1) - 1, (x + 1).min(size.width - 1));
                let around = [(x, y), (left, y), (right, y), (x, above), (x, below)];
                let around = around.map(|(x, y)| known(x, y));
                let contrast = (0..C).map(|c| {
                    let means = around.iter().flatten().map(|(mode, i)| mode.mean[c][*i]);
                    let (low, high) =
                        means.fold((u16::MAX, 0), |(low, high), m| (low.min(m), high.max(m)));
                    high.max(low) - low
                });
                *slack = contrast.fold(0, u16::max) / SLACK;
            }
        });
}

/// Marks the model's pixels that the picture does not show or that are masked there, and those
/// that are known.
fn skip_outside(
    grid: &Grid,
    size: Size,
    mask: Option<&Mask>,
    known: Option<&Mask>,
    skip: &mut [u8],
) {
    skip.par_chunks_mut(size.width)
        .enumerate()
        .for_each(|(y, row)| {
            for (x, skip) in row.iter_mut().enumerate() {
                let masked = mask.is_some_and(|mask| anchor::is_masked(grid, mask, x, y));
                *skip = match (anchor::position(grid, x, y, size), known) {
                    (None, _) => kernel::SKIP,
                    (Some(_), _) if masked => kernel::SKIP,
                    (Some(_), None) => 0,
                    (Some(p), Some(known)) => {
                        let (x, y) = anchor::nearest(p, size);
                        if known.get(x, y) != 0 {
                            kernel::KNOWN
                        } else {
                            0
                        }
                    }
                };
            }
        });
}

/// Each pixel of the picture has the code of the model's pixel nearest to it; one that lies far
/// beyond the model is background.
fn codes_of_picture(grid: &Grid, size: Size, codes: &[u8], out: &mut [u8]) {
    out.par_chunks_mut(size.width)
        .enumerate()
        .for_each(|(y, row)| {
            for (x, out) in row.iter_mut().enumerate() {
                let place = anchor::place(grid, x, y, BEYOND, size);
                *out = place.map_or(0, |p| {
                    let (x, y) = anchor::nearest(p, size);
                    codes[y * size.width + x]
                });
            }
        });
}

fn write_mask(side: u32, isa: Isa, codes: &[u8], mask: &mut Mask) {
    let (Size { width, height }, stride) = (mask.size(), mask.stride());
    let row = |y: isize| {
        let y = y.clamp(0, height as isize - 1) as usize;
        &codes[y * width..][..width]
    };
    mask.data_mut()
        .par_chunks_mut(stride * ROWS)
        .enumerate()
        .for_each(|(b, rows)| {
            for (k, out) in rows.chunks_mut(stride).enumerate() {
                let y = (b * ROWS + k) as isize;
                let out = &mut out[..width];
                match side {
                    5 => {
                        let rows = [-2, -1, 0, 1, 2].map(|d| row(y + d));
                        simd::clean_5(isa, rows, out);
                    }
                    3 => simd::clean_3(isa, [-1, 0, 1].map(|d| row(y + d)), out),
                    _ => clean::plain(row(y), out),
                }
            }
        });
}

fn background<const C: usize, P: Copy>(
    model: &[Block<C>],
    image: &mut Image<P>,
    confidence: &mut Image<u8>,
    enough: u32,
    pixel: impl Fn([u32; C]) -> P,
) {
    let width = image.width();
    for (y, (image, confidence)) in image.rows_mut().zip(confidence.rows_mut()).enumerate() {
        for (x, (to, confidence)) in image.iter_mut().zip(confidence).enumerate() {
            let p = y * width + x;
            let (block, i) = (&model[p / LANES], p % LANES);
            let modes = &block.modes[..usize::from(block.count[i])];
            let mut weight = 0u32;
            let mut sums = [0u64; C];
            for mode in modes {
                weight += u32::from(mode.weight[i]);
                for (sum, mean) in sums.iter_mut().zip(&mode.mean) {
                    *sum += u64::from(mode.weight[i]) * u64::from(mean[i]);
                }
                if weight > enough {
                    break;
                }
            }
            let half = u64::from(weight) / 2;
            *to = pixel(sums.map(|sum| ((sum + half) / u64::from(weight.max(1))) as u32));
            let first = modes.first().map_or(0, |mode| u32::from(mode.weight[i]));
            *confidence = ((first * 255 + 32767) / 65535) as u8;
        }
    }
}
