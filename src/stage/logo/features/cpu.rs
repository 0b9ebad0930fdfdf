//! Features on the CPU: the reference, and the backend where there is no GPU.
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use rayon::prelude::*;

use super::{
    BORDER, BorderPolicy, Descriptor, FeatureError, FeatureParams, Features, Keypoint,
    MAX_INTERVALS, MAX_ORIENTATIONS, Mode, Region,
    brief::{self, Placement},
    extrema::{self, Octave, Point, Rows},
    orientation::{self, BINS, Window},
    paper,
    pyramid::{BAND, Pyramid},
    select::{Candidate, Strongest},
    simd::{self, Isa},
    tables::{Octaves, SCALE_STEPS, Tables, WINDOW},
};
use crate::frame::{Image, Mask, Size};

/// What features are looked for in.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The image, of the plan's size.
    pub image: &'a Image<u8>,
    /// The part to look at, cut at the image's borders: the result is that of the part as an image
    /// of its own, with positions in the whole image. `None`: everything.
    pub region: Option<Region>,
    /// Points at pixels where it is 0 are left out (before anything is counted); of the image's
    /// size.
    pub mask: Option<&'a Mask>,
}

impl<'a> From<&'a Image<u8>> for Input<'a> {
    fn from(image: &'a Image<u8>) -> Self {
        Self {
            image,
            region: None,
            mask: None,
        }
    }
}

/// Rows of differences of one task.
struct Band {
    /// Three rows of each difference.
    rows: Vec<i16>,
    /// Greatest of each difference's 3x3 pixels, then least.
    boxes: Vec<i16>,
    flags: Vec<u8>,
    /// Found and not yet handed over.
    found: heapless::Vec<Candidate, 64>,
}

/// Directions of a point.
type Angles = heapless::Vec<u16, MAX_ORIENTATIONS>;

/// Features of images of one size.
pub struct Plan {
    params: FeatureParams,
    tables: Tables,
    size: Size,
    isa: Isa,
    pyramid: Pyramid,
    bands: Vec<Band>,
    /// A bit for each pixel of each layer of an octave: whether a point rests there.
    claims: Vec<AtomicU32>,
    strongest: Mutex<Strongest>,
    angles: Vec<Angles>,
    places: Vec<Placement>,
}

impl Plan {
    /// A plan for images of `size`.
    ///
    /// # Errors
    /// For parameters or sizes that can't be had.
    pub fn new(params: &FeatureParams, size: Size) -> Result<Self, FeatureError> {
        Self::with_isa(params, size, Isa::detect())
    }

    /// As [`Plan::new`], once for each set of instructions that this processor has; to compare
    /// them.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn each(params: &FeatureParams, size: Size) -> Result<Vec<Self>, FeatureError> {
        Isa::available()
            .map(|isa| Self::with_isa(params, size, isa))
            .collect()
    }

    fn with_isa(params: &FeatureParams, size: Size, isa: Isa) -> Result<Self, FeatureError> {
        params.check_size(size)?;
        let tables = Tables::new(params);
        let pyramid = Pyramid::new(params, &tables, size);
        let first = pyramid.octaves().sizes[0];
        let differences = tables.steps.len();
        let layers = match params.mode {
            Mode::ScaleSpace => usize::from(params.intervals),
            Mode::Paper => 1,
        };
        let band = || Band {
            rows: vec![0; 3 * differences * first.width],
            boxes: vec![0; 2 * differences * first.width],
            flags: vec![0; first.width],
            found: heapless::Vec::new(),
        };
        let claims = (first.area() * layers).div_ceil(32);
        Ok(Self {
            bands: (0..first.height.div_ceil(BAND)).map(|_| band()).collect(),
            claims: (0..claims).map(|_| AtomicU32::new(0)).collect(),
            strongest: Mutex::new(Strongest::new(params, size)),
            angles: vec![Angles::new(); params.max_keypoints as usize],
            places: Vec::with_capacity(params.capacity()),
            params: params.clone(),
            tables,
            size,
            isa,
            pyramid,
        })
    }

    /// The images' size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The parameters.
    pub fn params(&self) -> &FeatureParams {
        &self.params
    }

    /// The levels of the image last given.
    pub fn pyramid(&self) -> &Pyramid {
        &self.pyramid
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Writes what is found. Allocates nothing where `out` has the room of [`Features::new`].
    ///
    /// # Panics
    /// When image or mask have another size than the plan.
    pub fn run<'a>(&mut self, input: impl Into<Input<'a>>, out: &mut Features) {
        let input = input.into();
        assert_eq!(input.image.size(), self.size, "size of the image");
        if let Some(mask) = input.mask {
            assert_eq!(mask.size(), self.size, "size of the mask");
        }
        out.clear();
        let region = match input.region {
            None => Region {
                x: 0,
                y: 0,
                size: self.size,
            },
            Some(Region { x, y, size }) => {
                let (x, y) = (x.min(self.size.width), y.min(self.size.height));
                let width = size.width.min(self.size.width - x);
                let height = size.height.min(self.size.height - y);
                let size = Size::new(width, height);
                Region { x, y, size }
            }
        };
        if region.size.area() == 0 {
            return;
        }
        self.pyramid
            .fill(&self.params, &self.tables, self.isa, input.image, region);
        self.detect(region, input.mask, out);
        self.orient();
        self.expand(region, out);
        self.describe(out);
    }

    fn detect(&mut self, region: Region, mask: Option<&Mask>, out: &mut Features) {
        let Self {
            params,
            tables,
            pyramid,
            bands,
            claims,
            strongest,
            ..
        } = self;
        let (isa, strongest) = (self.isa, &*strongest);
        let lock = || strongest.lock().unwrap_or_else(PoisonError::into_inner);
        lock().begin(region);
        let found = AtomicUsize::new(0);
        let paper = params.mode == Mode::Paper;
        let mut first = 0;
        for (o, &size) in pyramid.octaves.sizes.iter().enumerate() {
            let layers = match params.mode {
                Mode::ScaleSpace => usize::from(params.intervals),
                Mode::Paper => 1,
            };
            let words = (size.area() * layers).div_ceil(32);
            let claims = &claims[..words];
            for word in claims {
                word.store(0, Ordering::Relaxed);
            }
            let scan = Scan {
                octave: Octave {
                    levels: &pyramid.levels[o],
                    size,
                    intervals: layers,
                    border: BORDER,
                },
                tables,
                least: least_value(params),
                edge: params.edge_ratio,
                isa,
            };
            let step = pyramid.octaves.step(o);
            let accept = |point: &Point| -> Option<Candidate> {
                let layer = if paper { 0 } else { point.layer - 1 };
                let at = (layer * size.height + point.y) * size.width + point.x;
                let x = (point.x as f32 + point.offset[0]) * step;
                let y = (point.y as f32 + point.offset[1]) * step;
                let (column, row) = (
                    nearest(x, region.size.width),
                    nearest(y, region.size.height),
                );
                if mask.is_some_and(|m| m.get(region.x + column, region.y + row) == 0) {
                    return None;
                }
                let bit = 1 << (at % 32);
                if claims[at / 32].fetch_or(bit, Ordering::Relaxed) & bit != 0 {
                    return None;
                }
                found.fetch_add(1, Ordering::Relaxed);
                Some(Candidate {
                    point: *point,
                    octave: o as u8,
                    position: (first + at) as u32,
                    x,
                    y,
                })
            };
            bands[..size.height.div_ceil(BAND)]
                .par_iter_mut()
                .enumerate()
                .for_each(|(i, band)| {
                    let rows = i * BAND..((i + 1) * BAND).min(size.height);
                    let mut take = |point: Point, found: &mut heapless::Vec<Candidate, 64>| {
                        if let Some(candidate) = accept(&point) {
                            if found.is_full() {
                                lock().add(found);
                                found.clear();
                            }
                            let _ = found.push(candidate);
                        }
                    };
                    match params.mode {
                        Mode::ScaleSpace => scan.band(rows, band, &mut take),
                        Mode::Paper => {
                            for y in rows {
                                paper::row(&scan.octave, y, tables.pretest, |point| {
                                    take(point, &mut band.found);
                                });
                            }
                        }
                    }
                    lock().add(&band.found);
                    band.found.clear();
                });
            first += size.area() * layers;
        }
        out.found = found.into_inner();
        out.kept = lock().finish().len();
    }

    fn orient(&mut self) {
        let chosen = self
            .strongest
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .chosen();
        if !self.params.oriented || self.params.mode == Mode::Paper {
            return;
        }
        let most = usize::from(self.params.max_orientations);
        let (pyramid, tables, isa) = (&self.pyramid, &self.tables, self.isa);
        self.angles
            .par_iter_mut()
            .zip(chosen)
            .with_min_len(16)
            .for_each(|(angles, candidate)| {
                let (level, size) = pyramid.level(candidate.octave.into(), candidate.point.layer);
                let scale = candidate.scale();
                let window = Window {
                    level,
                    size,
                    x: candidate.point.x,
                    y: candidate.point.y,
                    radius: tables.window_radius[scale].into(),
                    weights: &tables.window[scale * WINDOW..][..WINDOW],
                };
                let mut bins = [0; BINS];
                simd::histogram(isa, &window, &mut bins);
                *angles = orientation::peaks(&bins, most);
            });
    }

    /// Each orientation becomes a keypoint; the border's policy leaves some out.
    fn expand(&mut self, region: Region, out: &mut Features) {
        let Self {
            params,
            tables,
            pyramid,
            strongest,
            places,
            ..
        } = self;
        let chosen = strongest
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .chosen();
        places.clear();
        let paper = params.mode == Mode::Paper;
        let upright = paper || !params.oriented;
        let mut zero = Angles::new();
        let _ = zero.push(0);
        for (candidate, angles) in chosen.iter().zip(&self.angles) {
            let angles = if upright { &zero } else { angles };
            for &angle in angles {
                let original = out.oriented as u32;
                out.oriented += 1;
                let (place, size) = place(params, tables, &pyramid.octaves, candidate, angle);
                if params.border == BorderPolicy::Drop && !place.is_inside(size) {
                    continue;
                }
                let point = &candidate.point;
                let step = pyramid.octaves.step(candidate.octave.into());
                let last = |n: usize| (n - 1) as f32;
                out.keypoints.push(Keypoint {
                    x: candidate.x.clamp(0.0, last(region.size.width)) + region.x as f32,
                    y: candidate.y.clamp(0.0, last(region.size.height)) + region.y as f32,
                    sigma: tables.sigma[candidate.scale()] * step,
                    angle,
                    response: point.value.abs() / 64.0,
                    octave: candidate.octave as i8 + pyramid.octaves.first,
                    layer: point.layer as u8 - u8::from(paper),
                    sign: if point.value > 0.0 { 1 } else { -1 },
                });
                out.original.push(original);
                places.push(place);
            }
        }
        out.descriptors
            .resize(out.keypoints.len(), Descriptor::default());
    }

    fn describe(&mut self, out: &mut Features) {
        let (pyramid, tables, isa) = (&self.pyramid, &self.tables, self.isa);
        let (mode, scaled) = (self.params.mode, self.params.scaled);
        let (first, unscaled) = (pyramid.octaves.first, self.unscaled_level());
        out.descriptors
            .par_iter_mut()
            .zip(&out.keypoints)
            .zip(&self.places)
            .with_min_len(16)
            .for_each(|((descriptor, keypoint), place)| match mode {
                Mode::ScaleSpace => {
                    let (octave, layer) = if scaled {
                        ((keypoint.octave - first) as usize, keypoint.layer.into())
                    } else {
                        unscaled
                    };
                    let (level, size) = pyramid.level(octave, layer);
                    simd::describe(isa, level, size, place, &tables.pattern, descriptor);
                }
                Mode::Paper => {
                    let (level, size) = pyramid.base();
                    brief::describe_patch(
                        level,
                        size,
                        [place.x, place.y],
                        &tables.pattern,
                        descriptor,
                    );
                }
            });
    }

    /// Where keypoints without scale are described: the image's own octave, at the level whose blur
    /// is nearest to 2 px.
    fn unscaled_level(&self) -> (usize, usize) {
        (
            image_octave(&self.pyramid.octaves),
            unscaled_layer(&self.tables),
        )
    }
}

/// The octave of the image's own pixels, where there is one.
pub(super) fn image_octave(octaves: &Octaves) -> usize {
    usize::from(octaves.first < 0).min(octaves.sizes.len() - 1)
}

/// Where the descriptor of a keypoint reads, and the size of that level.
fn place(
    params: &FeatureParams,
    tables: &Tables,
    octaves: &Octaves,
    candidate: &Candidate,
    angle: u16,
) -> (Placement, Size) {
    let point = &candidate.point;
    let turn = [&tables.cos, &tables.sin].map(|t| t[usize::from(angle)]);
    let (x, y) = (point.x as i32, point.y as i32);
    let [dx, dy, _] = point.offset;
    if params.mode == Mode::Paper {
        let place = Placement {
            x,
            y,
            reach: 4,
            ..Placement::default()
        };
        return (place, octaves.sizes[0]);
    }
    if params.scaled {
        let scale = tables.sigma_fixed[candidate.scale()];
        let size = octaves.sizes[usize::from(candidate.octave)];
        return (Placement::new(x, y, [dx, dy], scale, turn), size);
    }
    // At the image's own pixels.
    let octave = image_octave(octaves);
    let at = [candidate.x, candidate.y].map(|v| v / octaves.step(octave));
    let pixel = at.map(|v| (v + 0.5) as i32);
    let offset = [at[0] - pixel[0] as f32, at[1] - pixel[1] as f32];
    let place = Placement::new(pixel[0], pixel[1], offset, brief::UNSCALED, turn);
    (place, octaves.sizes[octave])
}

/// The level of an octave whose blur is nearest to 2 px; the first of equals.
pub(super) fn unscaled_layer(tables: &Tables) -> usize {
    let off = |layer: usize| (tables.sigma[layer * SCALE_STEPS] - 2.0).abs();
    let layers = tables.sigma.len().div_ceil(SCALE_STEPS);
    (0..layers.min(MAX_INTERVALS + 2)).fold(
        0,
        |best, layer| {
            if off(layer) < off(best) { layer } else { best }
        },
    )
}

/// Least `|D|` of a refined point, 1/64 grey.
pub(super) fn least_value(params: &FeatureParams) -> f32 {
    params.contrast / f32::from(params.intervals) * (255.0 * 64.0)
}

/// The pixel nearest to a coordinate.
fn nearest(v: f32, n: usize) -> usize {
    ((v + 0.5) as usize).min(n - 1)
}

/// A search through one octave.
struct Scan<'a> {
    octave: Octave<'a>,
    tables: &'a Tables,
    least: f32,
    edge: f32,
    isa: Isa,
}

impl Scan<'_> {
    fn band(
        &self,
        rows: std::ops::Range<usize>,
        band: &mut Band,
        take: &mut impl FnMut(Point, &mut heapless::Vec<Candidate, 64>),
    ) {
        let Size { width, height } = self.octave.size;
        let first = rows.start.max(BORDER);
        let end = rows.end.min(height.saturating_sub(BORDER));
        if first >= end || width <= 2 * BORDER {
            return;
        }
        let differences = self.octave.intervals + 2;
        let Band {
            rows: ring,
            boxes,
            flags,
            found,
        } = band;
        let (most, least) = boxes.split_at_mut(differences * width);
        let fill = |ring: &mut [i16], y: usize| {
            let slot = y % 3;
            for d in 0..differences {
                let [above, below] =
                    [d + 1, d].map(|l| &self.octave.levels[l][y * width..][..width]);
                let out = &mut ring[(slot * differences + d) * width..][..width];
                simd::difference_row(self.isa, above, below, out);
            }
        };
        fill(ring, first - 1);
        fill(ring, first);
        for y in first..end {
            fill(ring, y + 1);
            let row = |d: usize, y: usize| &ring[(y % 3 * differences + d) * width..][..width];
            for d in 0..differences {
                let at = d * width..(d + 1) * width;
                simd::box_row(
                    self.isa,
                    [row(d, y - 1), row(d, y), row(d, y + 1)],
                    &mut most[at.clone()],
                    &mut least[at],
                );
            }
            for layer in 1..=self.octave.intervals {
                let rows = Rows {
                    at: row(layer, y),
                    above: row(layer, y - 1),
                    below: row(layer, y + 1),
                    most_before: &most[(layer - 1) * width..][..width],
                    least_before: &least[(layer - 1) * width..][..width],
                    most_after: &most[(layer + 1) * width..][..width],
                    least_after: &least[(layer + 1) * width..][..width],
                };
                let flags = &mut flags[..width];
                simd::flag_row(self.isa, &rows, self.tables.pretest as i16, flags);
                let mut x = BORDER;
                while x < width - BORDER {
                    if let Some(many) = flags[x..width - BORDER].first_chunk::<8>()
                        && u64::from_ne_bytes(*many) == 0
                    {
                        x += 8;
                        continue;
                    }
                    if flags[x] != 0
                        && let Some(point) =
                            extrema::refine(&self.octave, x, y, layer, self.least, self.edge)
                    {
                        take(point, found);
                    }
                    x += 1;
                }
            }
        }
    }
}
