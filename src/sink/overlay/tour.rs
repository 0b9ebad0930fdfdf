//! All four results in one picture: stixels, labels, what moves, logos, each with its legend.
//!
//! Four cells, two by two, each with a line above it; below them a line or more with the colours of
//! the classes. Cells are the images reduced so far that they are at most [`CELL`] columns wide;
//! text is written after that. Foreground and logos are shown on the picture that they belong to:
//! the mono camera's where there is one.
use std::{cmp::Reverse, fmt::Write as _, path::Path};

use super::{
    Announced, Canvas, FAINT, GROUND, INK, LETTER_HEIGHT, LETTER_WIDTH, LabelPanel, Overlay, PAPER,
    Panel, Ramp, SKY, View, WARNING,
    mono::{MOVING, SHADOW, TENTATIVE, TRACKED},
    palette::Palette,
};
use crate::{
    frame::{
        Foreground, ForegroundState, FrameId, FrameResult, Gap, LabelState, LogoState, Rgb, Size,
        png,
    },
    sink::{Sink, SinkError},
};

/// Most columns of a cell.
pub const CELL: usize = 512;
/// Most pictures that are kept for the animation: the first of the drive.
pub const MOST: usize = 64;
/// Between cells, px.
const GUTTER: usize = 4;
/// Rows of the line above a cell.
const TITLE: usize = LETTER_HEIGHT + 8;
/// How long a picture of the animation is shown.
const DELAY_MS: u16 = 100;

/// What there is of each result in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown {
    /// Logos that are sure.
    pub logos: usize,
    /// How sure: the sum of their confidences, 0 to 255 each.
    pub confidence: u32,
    /// Pixels that move.
    pub moving: usize,
    /// Pixels with a class.
    pub labelled: usize,
    /// Stixels.
    pub stixels: usize,
}

impl Shown {
    fn of(result: &FrameResult) -> Self {
        let count = |f: &Foreground| {
            let moving = f.mask.pixels().filter(|&&m| m == Foreground::MOVING);
            moving.count()
        };
        let sure = || {
            let all = result.logos.iter().flatten();
            all.filter(|l| l.state == LogoState::Tracked)
        };
        Self {
            logos: sure().count(),
            confidence: sure().map(|l| u32::from(l.confidence)).sum(),
            moving: result.foreground.as_ref().map_or(0, count),
            labelled: result.labels.as_ref().map_or(0, |labels| {
                let void = labels.table.void;
                labels.labels.pixels().filter(|&&l| l != void).count()
            }),
            stixels: result.street.as_ref().map_or(0, |street| {
                let s = &street.stixels;
                (0..s.columns()).map(|u| s.column(u).len()).sum()
            }),
        }
    }

    /// Whether all four results are there.
    pub fn all(&self) -> bool {
        self.logos > 0 && self.moving > 0 && self.labelled > 0 && self.stixels > 0
    }
}

/// What is needed for the frames of one shape.
struct Canvases {
    stixels: Overlay,
    labels: Option<LabelPanel>,
    /// The left image with labels, then its legend.
    labelled: Rgb,
    /// The picture of foreground and logos.
    mono: Rgb,
    /// The one that logos are drawn in.
    small: Rgb,
    left: Size,
    has_mono: bool,
    factor: [usize; 2],
    cells: [Size; 2],
    names: Vec<String>,
}

/// Draws the four of each frame, and keeps them until they are written.
#[derive(Default)]
pub struct Tour {
    at: Option<Canvases>,
    pictures: Vec<(Rgb, Shown)>,
    /// Of the picture that foreground belongs to.
    pixels: usize,
    /// Frames of another size than the first one, or beyond [`MOST`].
    left_out: usize,
}

/// How far an image is reduced to be at most [`CELL`] columns wide.
fn factor(size: Size) -> usize {
    size.width.div_ceil(CELL).max(1)
}

fn reduced(size: Size) -> Size {
    let by = factor(size);
    Size::new((size.width / by).max(1), (size.height / by).max(1))
}

/// The mean of `by` x `by` pixels for each pixel of `to`.
fn reduce(from: &Rgb, by: usize, to: &mut Rgb) {
    let n = (by * by) as u32;
    for y in 0..to.height() {
        for x in 0..to.width() {
            let mut sum = [n / 2; 3];
            for row in 0..by {
                for pixel in &from.row(y * by + row)[x * by..(x + 1) * by] {
                    for (sum, &v) in sum.iter_mut().zip(pixel) {
                        *sum += u32::from(v);
                    }
                }
            }
            to.set(x, y, sum.map(|s| (s / n) as u8));
        }
    }
}

impl Canvases {
    fn new(announced: &Announced<'_>) -> Option<Self> {
        let street = announced.shape.street.as_ref()?;
        let left = street.disparity.size();
        let mono = announced.mono.map_or(left, |(_, size)| size);
        let cells = [left, mono].map(reduced);
        let table = announced.shape.labels.as_ref().map(|l| l.table.clone());
        // The legend is as wide as the whole picture.
        let wide = Size::new(2 * cells[0].width.max(cells[1].width) + GUTTER, left.height);
        Some(Self {
            stixels: Overlay::bare(announced, left),
            labelled: Rgb::new(left.width, left.height),
            labels: table.map(|table| LabelPanel::of(left, wide.width, &table)),
            mono: Rgb::new(mono.width, mono.height),
            small: Rgb::new(cells[1].width, cells[1].height),
            left,
            has_mono: announced.mono.is_some(),
            factor: [left, mono].map(factor),
            cells,
            names: announced.logo_names.to_vec(),
        })
    }

    fn size(&self) -> Size {
        let [above, below] = self.cells;
        let legend = self.labels.as_ref().map_or(0, LabelPanel::legend_height);
        Size::new(
            2 * above.width.max(below.width) + GUTTER,
            2 * TITLE + above.height + below.height + legend + TITLE,
        )
    }

    fn draw(&mut self, view: View<'_>, result: &FrameResult) -> Rgb {
        let size = self.size();
        let mut out = Rgb::filled(size.width, size.height, PAPER);
        let [above, below] = self.cells;
        let right = above.width.max(below.width) + GUTTER;
        let lower = TITLE + above.height;
        let cell = |out: &mut Rgb, x: usize, y: usize, from: &Rgb| {
            for (row, from) in from.rows().enumerate() {
                out.row_mut(y + row)[x..x + from.len()].copy_from_slice(from);
            }
        };

        // Stixels on the left image.
        self.stixels.copy(view);
        for y in 0..self.left.height {
            let row = &self.stixels.picture.row(y)[..self.left.width];
            self.labelled.row_mut(y).copy_from_slice(row);
        }
        if let Some(street) = &result.street {
            self.stixels.stixels(&street.stixels);
        }
        let mut reduced = Rgb::new(above.width, above.height);
        reduce(&self.stixels.picture, self.factor[0], &mut reduced);
        cell(&mut out, 0, TITLE, &reduced);

        // Labels on the same.
        if let (Some(panel), Some(labels)) = (&self.labels, &result.labels) {
            panel.tint(&mut self.labelled, 0, labels);
        }
        reduce(&self.labelled, self.factor[0], &mut reduced);
        cell(&mut out, right, TITLE, &reduced);

        // What moves.
        let whole = self.mono.size();
        let mut panel = Panel {
            picture: &mut self.mono,
            top: 0,
            size: whole,
        };
        if self.has_mono {
            panel.picture(view.mono);
        } else {
            self.stixels.copy(view);
            for y in 0..whole.height {
                let row = &self.stixels.picture.row(y)[..whole.width];
                self.mono.row_mut(y).copy_from_slice(row);
            }
        }
        // Logos on the picture as it was; the lines keep their width.
        reduce(&self.mono, self.factor[1], &mut self.small);
        if let Some(logos) = &result.logos {
            let by = self.factor[1] as f32;
            let mut list = logos.clone();
            for logo in &mut list {
                // Pixel centres are whole numbers.
                logo.quad = logo.quad.map(|c| c.map(|v| (v + 0.5) / by - 0.5));
            }
            let mut panel = Panel {
                picture: &mut self.small,
                top: 0,
                size: below,
            };
            panel.logos(&list, &self.names);
        }
        cell(&mut out, right, lower + TITLE, &self.small);
        if let Some(foreground) = &result.foreground {
            let mut panel = Panel {
                picture: &mut self.mono,
                top: 0,
                size: whole,
            };
            panel.foreground(foreground);
        }
        reduce(&self.mono, self.factor[1], &mut self.small);
        cell(&mut out, 0, lower + TITLE, &self.small);

        self.text(&mut out, result, right, lower);
        out
    }

    fn text(&self, out: &mut Rgb, result: &FrameResult, right: usize, lower: usize) {
        let edge = out.width();
        let ends = [right - GUTTER, edge];
        let mut line = Line::new(out, 0, 0, ends[0], "STIXELS");
        line.patch(GROUND.0, "ground");
        line.patch(SKY.0, "sky");
        if let Some(ramp) = self.stixels.ramp() {
            line.ramp(ramp);
        }
        let mut line = Line::new(out, right, 0, ends[1], "LABELS");
        match result.labels.as_ref().map(|l| l.state) {
            Some(LabelState::Valid) => line.say("a class for each pixel, colours below", FAINT),
            Some(LabelState::Skipped) => line.say("skipped", WARNING),
            None => line.say("not computed", FAINT),
        }
        let mut line = Line::new(out, 0, lower, ends[0], "FOREGROUND");
        line.patch(MOVING.0, "moves");
        line.patch(SHADOW.0, "its shadow");
        match result.foreground.as_ref().map(|f| f.state) {
            Some(ForegroundState::Valid) => {}
            Some(ForegroundState::WarmingUp) => line.say("learning", WARNING),
            Some(ForegroundState::Driving) => line.say("none: driving", WARNING),
            Some(state) => line.say(state.name(), WARNING),
            None => line.say("not computed", FAINT),
        }
        let mut line = Line::new(out, right, lower, ends[1], "LOGOS");
        line.patch(TRACKED, "sure");
        line.patch(TENTATIVE, "new");
        if result.logos.is_none() {
            line.say("not computed", FAINT);
        }
        let mut y = lower + TITLE + self.cells[1].height;
        if let Some(panel) = &self.labels {
            panel.legend(out, y);
            y += panel.legend_height();
        }
        let shown = Shown::of(result);
        let ms = result.id.timestamp.0 / 1_000_000;
        let mut text = heapless::String::<160>::new();
        // What is too long is cut.
        let _ = write!(
            text,
            "frame {}  {}.{:03} s  stixels: {}  logos: {}  vehicle: {}",
            result.id.number,
            ms / 1000,
            ms % 1000,
            shown.stixels,
            shown.logos,
            result.motion.map_or("unknown", |m| m.state.name())
        );
        Canvas(out).text(8, y as i32 + 4, &text, FAINT);
    }
}

/// The line above a cell, written from left to right.
struct Line<'a> {
    picture: &'a mut Rgb,
    x: usize,
    y: usize,
    end: usize,
}

impl<'a> Line<'a> {
    fn new(picture: &'a mut Rgb, x: usize, y: usize, end: usize, title: &str) -> Self {
        let mut line = Self {
            picture,
            x: x + 6,
            y: y + 4,
            end,
        };
        line.say(title, INK);
        line
    }

    /// Text, if there is room for it.
    fn say(&mut self, text: &str, colour: [u8; 3]) {
        let wide = text.len() * LETTER_WIDTH;
        if self.x + wide <= self.end {
            Canvas(self.picture).text(self.x as i32, self.y as i32, text, colour);
            self.x += wide + 14;
        }
    }

    fn patch(&mut self, colour: [u8; 3], text: &str) {
        const SIDE: usize = 11;
        if self.x + SIDE + 4 + text.len() * LETTER_WIDTH <= self.end {
            Canvas(self.picture).fill(self.x, self.y + 1, SIDE, SIDE, colour);
            self.x += SIDE + 4;
            self.say(text, FAINT);
        }
    }

    /// Colours of distances, to the line's end.
    fn ramp(&mut self, ramp: &Ramp) {
        let Some(width) = self.end.checked_sub(self.x + 6).filter(|&w| w >= 100) else {
            return;
        };
        let mut canvas = Canvas(self.picture);
        for i in 0..width {
            let place = (i as f64 + 0.5) / width as f64;
            canvas.fill(self.x + i, self.y, 1, LETTER_HEIGHT + 1, Ramp::at(place));
        }
        let mut free = 0;
        for metres in ramp.marks() {
            let mut text = heapless::String::<16>::new();
            let _ = write!(text, "{metres} m");
            let wide = text.len() * LETTER_WIDTH;
            let at = (ramp.place(metres) * (width - 1) as f64) as usize;
            let left = at.saturating_sub(wide / 2).min(width.saturating_sub(wide));
            if left >= free {
                canvas.text((self.x + left) as i32, self.y as i32, &text, super::DARK);
                free = left + wide + 7;
            }
        }
    }
}

impl Tour {
    /// Writes the picture that shows most (a still at `still`) and all of them (`moving`).
    /// Returns what the still shows; nothing is written where there was no frame.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, still: &Path, moving: &Path) -> Result<Option<Shown>, SinkError> {
        // All four, something that can be seen to move, then logos as sure as there are.
        let best = self.pictures.iter().enumerate().max_by_key(|(i, picture)| {
            let (_, shown) = picture;
            let moves = shown.moving * 200 >= self.pixels;
            (shown.all(), moves, shown.confidence, Reverse(*i))
        });
        let Some((_, (best, shown))) = best else {
            return Ok(None);
        };
        let size = best.size();
        let mut fixed = vec![INK, PAPER, FAINT, WARNING, TRACKED, TENTATIVE];
        fixed.extend([MOVING.0, SHADOW.0, GROUND.0, SKY.0]);
        if let Some(panel) = self.at.as_ref().and_then(|at| at.labels.as_ref()) {
            fixed.extend(panel.colours());
        }
        let palette = Palette::of([best].into_iter(), &fixed);
        let one = [palette.indexed(best)];
        png::write_indexed(still, size, &palette.colours, &one, 0).map_err(SinkError::io(still))?;
        let all = || self.pictures.iter().map(|(picture, _)| picture);
        let palette = Palette::of(all(), &fixed);
        let all: Vec<Vec<u8>> = all().map(|picture| palette.indexed(picture)).collect();
        png::write_indexed(moving, size, &palette.colours, &all, DELAY_MS)
            .map_err(SinkError::io(moving))?;
        if self.left_out > 0 {
            log::info!("{}: the first {MOST} frames", moving.display());
        }
        Ok(Some(*shown))
    }

    /// Pictures so far, with what each shows.
    pub fn pictures(&self) -> &[(Rgb, Shown)] {
        &self.pictures
    }
}

impl Sink for Tour {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        self.at = Canvases::new(announced);
        if let Some(at) = &self.at {
            self.pixels = at.mono.width() * at.mono.height();
        }
        Ok(())
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        let Some(at) = &mut self.at else {
            return Ok(());
        };
        let fits = (self.pictures.first()).is_none_or(|(first, _)| first.size() == at.size());
        if self.pictures.len() < MOST && fits {
            let picture = at.draw(view, result);
            self.pictures.push((picture, Shown::of(result)));
        } else {
            self.left_out += 1;
        }
        Ok(())
    }

    fn gap(&mut self, _: FrameId, _: Gap) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        frame::{
            Camera, Class, Image, LabelClass, LabelTable, Labels, Logo, MonoImage, PixelKind,
            Stixel, Stixels, Street,
        },
        sink::overlay::mixed,
    };

    const LEFT: Size = Size::new(600, 40);
    const MONO: Size = Size::new(90, 30);
    const NAMES: &[&str] = &["mark"];

    /// A stixel of ground and an object in each column, a class on the left half, a moving corner,
    /// a logo.
    fn result() -> FrameResult {
        let mut street = Street::new(LEFT, Stixels::new(LEFT.width / 5, 5, 2));
        let (counts, lists) = street.stixels.columns_mut();
        for (count, list) in counts.iter_mut().zip(lists) {
            let of = |class, top, base, disparity| Stixel {
                class,
                top,
                base,
                disparity,
                confidence: 9,
            };
            list[0] = of(Class::Object, 0, 19, 40 * 256);
            list[1] = of(Class::Ground, 20, 39, 30 * 256);
            *count = 2;
        }
        let mut result = FrameResult::from(street);
        let table = LabelTable {
            classes: vec![LabelClass {
                index: 1,
                name: "road".into(),
                colour: [10, 200, 90],
            }],
            void: 0,
        };
        let mut labels = Labels::new(LEFT, 2, false, Arc::new(table));
        for y in 0..20 {
            for x in 0..150 {
                labels.labels.set(x, y, 1);
            }
        }
        result.labels = Some(labels);
        let mut foreground = Foreground::new(MONO);
        foreground.state = ForegroundState::Valid;
        for y in 0..10 {
            for x in 0..20 {
                foreground.mask.set(x, y, Foreground::MOVING);
            }
        }
        result.foreground = Some(foreground);
        let mut logos = crate::frame::Logos::new();
        let quad = [[40.0, 20.0], [60.0, 20.0], [60.0, 27.0], [40.0, 27.0]];
        let logo = Logo {
            id: 1,
            template: 0,
            state: LogoState::Tracked,
            quad,
            velocity: [0.0; 2],
            confidence: 200,
        };
        logos.push(logo).unwrap();
        result.logos = Some(logos);
        result
    }

    fn tour(results: &[FrameResult]) -> Tour {
        let names: Vec<String> = NAMES.iter().map(|n| (*n).to_owned()).collect();
        let camera = Camera {
            focal_px: 700.0,
            cx: 300.0,
            cy: 20.0,
            baseline_m: 0.5,
        };
        let shape = result();
        let announced = Announced {
            mono: Some((PixelKind::Grey8, MONO)),
            logo_names: &names,
            ..Announced::street(camera, &shape, false)
        };
        let mut tour = Tour::default();
        tour.begin(&announced).unwrap();
        let left = Image::filled(LEFT.width, LEFT.height, 100);
        let mono = MonoImage::Grey8(Image::filled(MONO.width, MONO.height, 60));
        for result in results {
            let view = View {
                left: Some(&left),
                mono: Some(&mono),
                ..View::default()
            };
            tour.frame(view, result).unwrap();
        }
        tour
    }

    #[test]
    fn each_result_is_in_its_cell() {
        let tour = tour(&[result()]);
        let (picture, shown) = &tour.pictures()[0];
        assert!(shown.all(), "{shown:?}");
        assert_eq!((shown.logos, shown.moving, shown.stixels), (1, 200, 240));
        // Left images reduced by two, to 300 columns; the mono picture as it is.
        assert_eq!(picture.width(), 2 * 300 + GUTTER);
        let (right, lower) = (300 + GUTTER, TITLE + 20 + TITLE);
        let grey = [100; 3];
        let at = |x, y| picture.get(x, y);
        assert_eq!(at(7, TITLE + 15), mixed(grey, GROUND.0, GROUND.1));
        assert_ne!(at(7, TITLE + 4), grey, "an object's colour");
        let class = mixed(grey, [10, 200, 90], super::super::labels::SHARE);
        assert_eq!(at(right + 149, TITLE + 4), class);
        assert_eq!(at(right + 150, TITLE + 4), grey, "without a class");
        let moving = mixed([60; 3], MOVING.0, MOVING.1);
        assert_eq!(at(19, lower + 9), moving);
        assert_eq!(at(20, lower + 9), [60; 3]);
        assert_eq!(at(right + 50, lower + 20), TRACKED);
        assert_eq!(at(50, lower + 20), [60; 3], "logos in their cell only");
        assert_eq!(
            at(right + 3, lower + 3),
            [60; 3],
            "what moves in its cell only"
        );
    }

    #[test]
    fn the_still_shows_all_four_and_the_animation_every_frame() {
        let mut without = result();
        without.logos = None;
        let tour = tour(&[without.clone(), result(), without]);
        let folder = tempfile::tempdir().unwrap();
        let [still, moving] = ["still.png", "moving.png"].map(|name| folder.path().join(name));
        let shown = tour.write(&still, &moving).unwrap().unwrap();
        assert!(shown.all(), "{shown:?}");
        let reader = |path: &Path| {
            let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
            ::png::Decoder::new(file).read_info().unwrap()
        };
        assert!(reader(&still).info().animation_control.is_none());
        let control = reader(&moving).info().animation_control;
        assert_eq!(control.map(|c| (c.num_frames, c.num_plays)), Some((3, 0)));
        let size = reader(&still).info().size();
        let picture = &tour.pictures()[0].0;
        assert_eq!(size, (picture.width() as u32, picture.height() as u32));
    }

    #[test]
    fn a_drive_without_stereo_has_no_picture() {
        let mut tour = Tour::default();
        let shape = FrameResult {
            street: None,
            ..result()
        };
        let camera = None;
        let announced = Announced {
            camera,
            ..Announced::street(
                Camera {
                    focal_px: 1.0,
                    cx: 0.0,
                    cy: 0.0,
                    baseline_m: 1.0,
                },
                &shape,
                false,
            )
        };
        tour.begin(&announced).unwrap();
        tour.frame(View::default(), &shape).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        assert_eq!(tour.write(&path, &path).unwrap(), None);
        assert!(!path.exists());
    }
}
