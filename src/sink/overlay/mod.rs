//! The picture that people know: the left image with its stixels, what moves and logos.
//!
//! Objects take the colour of their distance ([`Ramp`]), the ground is tinted violet, the sky
//! blue; what has no measurement is outlined, not coloured. A dashed line is the horizon, marks
//! at the left edge are distances on the road. Foreground is tinted ([`mono`]), logos have their
//! outline, name and number. The image keeps its place and size; below it are [`FOOTER`] rows with
//! frame, time, counts and gaps on the left and the legend on the right. Labels have the image once
//! more, below, in the colours of their classes, and a legend. A mono camera's picture, which has
//! foreground and logos then, stands above the footer; on a mono drive it is all there is.
//! The same result gives the same bytes on any machine.
mod canvas;
mod labels;
pub mod mono;
mod palette;
mod ramp;
pub mod tour;

use std::fmt::Write as _;

use canvas::{Canvas, LETTER_HEIGHT, LETTER_WIDTH, mixed};
pub use ramp::{Ramp, paint_disparity};

use super::{Announced, View};
use crate::frame::{
    Camera, Class, FrameResult, INVALID, Image, Rgb, Road, Size, Stixel, Stixels, Street,
};
use labels::LabelPanel;
use mono::Panel;

/// Rows below the image.
pub const FOOTER: usize = 40;

/// Share of an object's colour, in 256.
const OBJECT_SHARE: u16 = 150;
const GROUND: ([u8; 3], u16) = ([160, 96, 208], 60);
const SKY: ([u8; 3], u16) = ([96, 164, 248], 92);
/// Share of [`DARK`] in the rim of an object's stixel.
const RIM_SHARE: u16 = 120;
const DARK: [u8; 3] = [12, 14, 18];
const PAPER: [u8; 3] = [22, 24, 30];
const INK: [u8; 3] = [230, 232, 236];
const FAINT: [u8; 3] = [150, 156, 166];
const WARNING: [u8; 3] = [255, 190, 70];

/// Draws overlays of one shape into one picture.
pub struct Overlay {
    /// Of the left image; nothing on a mono drive.
    size: Size,
    metric: Option<(Camera, Ramp)>,
    /// Of the mono camera's picture.
    mono: Option<Size>,
    labels: Option<LabelPanel>,
    logo_names: Vec<String>,
    picture: Rgb,
}

impl Overlay {
    /// For frames as they are announced.
    pub fn new(announced: &Announced<'_>) -> Self {
        let street = announced.shape.street.as_ref();
        let size = street.map_or(Size::new(0, 0), |street| street.disparity.size());
        let mono = announced.mono.map(|(_, size)| size);
        let below = mono.unwrap_or(Size::new(0, 0));
        let labels = announced.shape.labels.as_ref();
        let labels = labels.map(|labels| LabelPanel::new(size, &labels.table));
        let labelled = labels.as_ref().map_or(0, LabelPanel::height);
        Self {
            size,
            metric: announced.camera.map(|camera| (camera, Ramp::new(camera))),
            mono,
            labels,
            logo_names: announced.logo_names.to_vec(),
            picture: Rgb::new(
                size.width.max(below.width),
                size.height + labelled + below.height + FOOTER,
            ),
        }
    }

    /// The stereo chain's part alone, on an image of `size`.
    fn bare(announced: &Announced<'_>, size: Size) -> Self {
        Self {
            size,
            metric: announced.camera.map(|camera| (camera, Ramp::new(camera))),
            mono: None,
            labels: None,
            logo_names: Vec::new(),
            picture: Rgb::new(size.width, size.height),
        }
    }

    /// The colours of distances, where there are any.
    pub fn ramp(&self) -> Option<&Ramp> {
        self.metric.as_ref().map(|(_, ramp)| ramp)
    }

    /// Draws a frame and lends the picture: the width of the wider image, the height of the
    /// images and [`FOOTER`] rows.
    pub fn draw(&mut self, view: View<'_>, result: &FrameResult) -> &Rgb {
        if let Some(mono) = self.mono
            && mono.width != self.size.width
        {
            self.picture.fill(PAPER);
        }
        self.copy(view);
        let mut top = self.size.height;
        if let (Some(panel), Some(labels)) = (&self.labels, &result.labels) {
            // Before anything is drawn on the image.
            for y in 0..self.size.height {
                copy_row(&mut self.picture, y, top + y, self.size.width);
            }
            panel.draw(&mut self.picture, top, labels);
            top += panel.height();
        }
        if let Some(street) = &result.street {
            self.stixels(&street.stixels);
            self.road(&street.road);
        }
        let mut panel = Panel {
            picture: &mut self.picture,
            top: self.mono.map_or(0, |_| top),
            size: self.mono.unwrap_or(self.size),
        };
        if self.mono.is_some() {
            panel.picture(view.mono);
        }
        if let Some(foreground) = &result.foreground {
            panel.foreground(foreground);
        }
        if let Some(logos) = &result.logos {
            panel.logos(logos, &self.logo_names);
        }
        self.footer(result);
        &self.picture
    }

    fn copy(&mut self, view: View<'_>) {
        match view.left_rgb {
            Some(rgb) => {
                for (to, from) in self
                    .picture
                    .rows_mut()
                    .take(self.size.height)
                    .zip(rgb.rows())
                {
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = *from;
                    }
                }
            }
            None => {
                if let Some(left) = view.left {
                    copy_grey(&mut self.picture, self.size.height, left);
                }
            }
        }
    }

    fn stixels(&mut self, stixels: &Stixels) {
        let width = stixels.stixel_width();
        for u in 0..stixels.columns() {
            for stixel in stixels.column(u) {
                self.stixel(u * width, width, stixel);
            }
        }
    }

    fn stixel(&mut self, x: usize, width: usize, stixel: &Stixel) {
        let right = (x + width).min(self.size.width);
        let (top, base) = (usize::from(stixel.top), usize::from(stixel.base));
        let below = (base + 1).min(self.size.height);
        let object = stixel.class == Class::Object;
        let measured = stixel.disparity != INVALID;
        let tint = match stixel.class {
            Class::Ground => Some(GROUND),
            Class::Sky => Some(SKY),
            Class::Object => (self.ramp().filter(|_| measured))
                .map(|ramp| (ramp.colour(stixel.disparity), OBJECT_SHARE)),
        };
        for y in top..below {
            let Some(row) = self.picture.row_mut(y).get_mut(x..right) else {
                continue;
            };
            if let Some((colour, share)) = tint {
                for pixel in &mut *row {
                    *pixel = mixed(*pixel, colour, share);
                }
            }
            if object {
                // Thin columns would be all rim.
                let rim = if y == base {
                    row.len()
                } else {
                    usize::from(width > 3)
                };
                for pixel in row.iter_mut().take(rim) {
                    *pixel = mixed(*pixel, DARK, RIM_SHARE);
                }
            }
        }
    }

    /// The row where the road has a disparity, if it lies in the image.
    fn row_of(&self, road: &Road, disparity_px: f64) -> Option<usize> {
        let row = (disparity_px - f64::from(road.offset)) / f64::from(road.slope);
        (road.slope > 0.0 && row >= 0.0 && row < self.size.height as f64).then_some(row as usize)
    }

    fn road(&mut self, road: &Road) {
        if let Some(y) = self.row_of(road, 0.0) {
            for x in (0..self.size.width).filter(|x| x % 12 < 7) {
                Canvas(&mut self.picture).mix(x, y, [255; 3], 170);
            }
        }
        let mut free = self.size.height as i32;
        let marks = self.ramp().map_or(0, |ramp| ramp.marks().count());
        for i in 0..marks {
            let mark = (self.metric.as_ref())
                .and_then(|(camera, ramp)| Some((*camera, ramp.marks().nth(i)?)));
            let Some((camera, metres)) = mark else {
                continue;
            };
            let Some(y) = self.row_of(road, camera.depth_m(metres)) else {
                continue;
            };
            let mut canvas = Canvas(&mut self.picture);
            for x in 0..14 {
                canvas.mix(x, y, [255; 3], 220);
            }
            // Far marks crowd together: a label only where there is room for it.
            let at = y as i32 - LETTER_HEIGHT as i32 / 2;
            if at + LETTER_HEIGHT as i32 <= free && self.size.width >= 160 {
                let mut text = heapless::String::<16>::new();
                let _ = write!(text, "{metres} m");
                canvas.rimmed_text(18, at, &text, INK);
                free = at;
            }
        }
    }

    fn footer(&mut self, result: &FrameResult) {
        let width = self.picture.width();
        let y = self.picture.height() - FOOTER;
        let legend = (width / 3).clamp(60, 320).min(width.saturating_sub(12));
        let mut canvas = Canvas(&mut self.picture);
        canvas.fill(0, y, width, FOOTER, PAPER);

        let (x, line) = (8, y as i32 + 6);
        let mut text = heapless::String::<160>::new();
        let ms = result.id.timestamp.0 / 1_000_000;
        // A text that is too long is cut, as the picture's edge would cut it.
        let _ = write!(text, "frame {:06}", result.id.number);
        canvas.text(x, line, &text, INK);
        let after = x + (LETTER_WIDTH * (text.len() + 2)) as i32;
        text.clear();
        let _ = write!(text, "{}.{:03} s ", ms / 1000, ms % 1000);
        if let Some(Street { stixels, .. }) = &result.street {
            let mut counts = [0usize; 3];
            for u in 0..stixels.columns() {
                for s in stixels.column(u) {
                    counts[s.class as usize] += 1;
                }
            }
            let [ground, object, sky] = counts;
            let _ = write!(text, "  {object} objects  {ground} ground  {sky} sky");
        }
        if let Some(logos) = &result.logos {
            let _ = write!(text, "  {} logos", logos.len());
        }
        canvas.text(after, line, &text, FAINT);
        text.clear();
        if let Some(Street { road, .. }) = &result.street {
            let (horizon, height) = (road.horizon_row, road.camera_height_m);
            let _ = write!(text, "horizon {horizon:.1}  camera {height:.2} m  ");
        }
        if let Some(foreground) = &result.foreground {
            let motion = result.motion.unwrap_or_default().state.name();
            let state = foreground.state.name();
            let _ = write!(text, "motion {motion}  foreground {state}  ");
        }
        if let Some(labels) = &result.labels {
            let _ = write!(text, "labels {}", labels.state.name());
        }
        let line = line + LETTER_HEIGHT as i32 + 4;
        canvas.text(x, line, &text, FAINT);
        let after = x + (LETTER_WIDTH * (text.len() + 2)) as i32;
        text.clear();
        for gap in result.gaps.iter() {
            let _ = write!(text, "{} ", gap.name());
        }
        canvas.text(after, line, &text, WARNING);
        if width >= 120 && self.metric.is_some() {
            self.legend(width - legend - 12, y + 6, legend);
        }
    }

    fn legend(&mut self, x: usize, y: usize, width: usize) {
        const BAR: usize = 12;
        const LABEL: usize = 5 * LETTER_WIDTH;
        let Self {
            picture, metric, ..
        } = self;
        let Some((_, ramp)) = metric else {
            return;
        };
        let mut canvas = Canvas(picture);
        // Its own ground, so that a long text does not run into it.
        canvas.fill(x.saturating_sub(10), y, width + 22, FOOTER - 6, PAPER);
        for i in 0..width {
            let place = (i as f64 + 0.5) / width as f64;
            canvas.fill(x + i, y, 1, BAR, Ramp::at(place));
        }
        let mut free = 0;
        for metres in ramp.marks() {
            let at = x + (ramp.place(metres) * (width - 1) as f64) as usize;
            canvas.fill(at, y + BAR, 1, 3, INK);
            let mut text = heapless::String::<16>::new();
            let _ = write!(text, "{metres} m");
            let left = at.saturating_sub(text.len() * LETTER_WIDTH / 2);
            if left >= free {
                canvas.text(left as i32, (y + BAR + 4) as i32, &text, INK);
                free = left + LABEL;
            }
        }
    }
}

fn copy_row(picture: &mut Rgb, from: usize, to: usize, width: usize) {
    let stride = picture.stride();
    let start = from * stride;
    picture
        .data_mut()
        .copy_within(start..start + width, to * stride);
}

fn copy_grey(picture: &mut Rgb, height: usize, grey: &Image<u8>) {
    for (to, from) in picture.rows_mut().take(height).zip(grey.rows()) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = [from; 3];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Gap;

    const CAMERA: Camera = Camera {
        focal_px: 707.0912,
        cx: 601.8873,
        cy: 183.1104,
        baseline_m: 0.5372,
    };

    /// Sky, an object at 24 px, one without measurement, ground; in every column.
    fn street(size: Size, stixel_width: usize) -> FrameResult {
        let columns = size.width / stixel_width;
        let mut street = Street::new(size, Stixels::new(columns, stixel_width, 4));
        let quarter = size.height.div_ceil(4).max(1);
        let (counts, lists) = street.stixels.columns_mut();
        for (count, list) in counts.iter_mut().zip(lists) {
            let classes = [
                (Class::Sky, 0),
                (Class::Object, 24 * 256),
                (Class::Object, INVALID),
                (Class::Ground, 40 * 256),
            ];
            for (i, (class, disparity)) in classes.into_iter().enumerate() {
                list[i] = Stixel {
                    class,
                    top: (i * quarter) as u16,
                    base: ((i + 1) * quarter - 1) as u16,
                    disparity,
                    confidence: 99,
                };
            }
            *count = 4;
        }
        street.road = Road {
            slope: 0.325,
            offset: -0.325 * size.height as f32 / 2.0,
            horizon_row: size.height as f32 / 2.0,
            camera_height_m: 1.65,
            ..street.road
        };
        let mut result = FrameResult::from(street);
        result.gaps.insert(Gap::RoadHeld);
        result
    }

    fn drawn(size: Size, stixel_width: usize, grey: u8) -> Rgb {
        let left = Image::filled(size.width, size.height, grey);
        let view = View {
            left: Some(&left),
            ..View::default()
        };
        let street = street(size, stixel_width);
        let mut overlay = Overlay::new(&Announced::street(CAMERA, &street, false));
        overlay.draw(view, &street).clone()
    }

    #[test]
    fn a_pixel_of_each_class() {
        let size = Size::new(203, 80);
        let picture = drawn(size, 5, 100);
        assert_eq!(picture.size(), Size::new(203, 80 + FOOTER));
        let grey = [100; 3];
        // Clear of the marks at the left edge and of the rims at x % 5 == 0.
        assert_eq!(picture.get(102, 10), mixed(grey, SKY.0, SKY.1));
        let colour = Ramp::new(CAMERA).colour(24 * 256);
        let object = mixed(grey, colour, OBJECT_SHARE);
        assert_eq!(picture.get(102, 30), object);
        assert_eq!(picture.get(100, 30), mixed(object, DARK, RIM_SHARE));
        assert_eq!(picture.get(102, 39), mixed(object, DARK, RIM_SHARE));
        assert_eq!(picture.get(102, 50), grey, "no measurement, no colour");
        assert_eq!(picture.get(102, 75), mixed(grey, GROUND.0, GROUND.1));
        assert_eq!(picture.get(202, 10), grey, "beyond the last whole column");
    }

    #[test]
    fn nearer_is_redder() {
        let ramp = Ramp::new(CAMERA);
        let red_over_green = |px: u16| {
            let [r, g, _] = ramp.colour(px * 256);
            i32::from(r) - i32::from(g)
        };
        let order = [96, 48, 24, 12, 6].map(red_over_green);
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
    }

    #[test]
    fn the_legend_shows_the_ramp() {
        let picture = drawn(Size::new(1226, 370), 5, 0);
        let y = 370 + 8;
        assert_eq!(picture.get(1226 - 12 - 320, y), Ramp::at(0.5 / 320.0));
        assert_eq!(picture.get(1226 - 12 - 1, y), Ramp::at(319.5 / 320.0));
        let inked = |x: std::ops::Range<usize>| {
            (370..370 + FOOTER).any(|y| picture.row(y)[x.clone()].contains(&INK))
        };
        assert!(inked(8..100), "the frame's number");
        assert!(inked(1226 - 12 - 320..1214), "the legend's metres");
        assert!(
            (370..410).any(|y| picture.row(y).contains(&WARNING)),
            "the gap"
        );
    }

    #[test]
    fn colour_under_the_tint() {
        let size = Size::new(20, 8);
        let (left, rgb) = (
            Image::filled(20, 8, 9),
            Image::filled(20, 8, [200, 100, 50]),
        );
        let view = View {
            left: Some(&left),
            left_rgb: Some(&rgb),
            ..View::default()
        };
        let street = street(size, 5);
        let mut overlay = Overlay::new(&Announced::street(CAMERA, &street, true));
        let picture = overlay.draw(view, &street);
        assert_eq!(picture.get(17, 0), mixed([200, 100, 50], SKY.0, SKY.1));
    }

    #[test]
    fn any_shape() {
        for (w, h) in [
            (0, 0),
            (1, 1),
            (33, 7),
            (7, 33),
            (121, 3),
            (160, 120),
            (1025, 31),
        ] {
            for width in [1, 2, 5, 40] {
                let picture = drawn(Size::new(w, h), width, 50);
                assert_eq!(picture.size(), Size::new(w, h + FOOTER));
            }
        }
    }

    #[test]
    fn a_road_that_makes_no_sense() {
        let size = Size::new(200, 50);
        let left = Image::new(200, 50);
        let view = View {
            left: Some(&left),
            ..View::default()
        };
        let mut overlay = Overlay::new(&Announced::street(CAMERA, &street(size, 5), false));
        for slope in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE] {
            for offset in [0.0, f32::NAN, f32::NEG_INFINITY, 1e30] {
                let mut result = street(size, 5);
                let road = &mut result.street.as_mut().unwrap().road;
                road.slope = slope;
                road.offset = offset;
                overlay.draw(view, &result);
            }
        }
    }
}
