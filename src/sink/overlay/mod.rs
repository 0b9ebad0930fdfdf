//! The picture that people know: the left image with its stixels.
//!
//! Objects take the colour of their distance ([`Ramp`]), the ground is tinted violet, the sky
//! blue; what has no measurement is outlined, not coloured. A dashed line is the horizon, marks
//! at the left edge are distances on the road. The image keeps its place and size; below it are
//! [`FOOTER`] rows with frame, time, counts and gaps on the left and the legend on the right.
//! The same result gives the same bytes on any machine.
mod canvas;
mod ramp;

use std::fmt::Write as _;

use canvas::{Canvas, LETTER_HEIGHT, LETTER_WIDTH, mixed};
pub use ramp::{Ramp, paint_disparity};

use super::View;
use crate::frame::{Camera, Class, FrameResult, INVALID, Image, Rgb, Road, Size, Stixel};

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

/// Draws overlays of one image size into one picture.
pub struct Overlay {
    size: Size,
    camera: Camera,
    ramp: Ramp,
    picture: Rgb,
}

impl Overlay {
    /// For images of `size` of this camera.
    pub fn new(size: Size, camera: Camera) -> Self {
        Self {
            size,
            camera,
            ramp: Ramp::new(camera),
            picture: Rgb::new(size.width, size.height + FOOTER),
        }
    }

    /// The colours of distances.
    pub fn ramp(&self) -> &Ramp {
        &self.ramp
    }

    /// Draws a frame and lends the picture: the image's width, its height and [`FOOTER`] rows.
    pub fn draw(&mut self, view: View<'_>, result: &FrameResult) -> &Rgb {
        self.copy(view);
        let width = result.stixels.stixel_width();
        for u in 0..result.stixels.columns() {
            for stixel in result.stixels.column(u) {
                self.stixel(u * width, width, stixel);
            }
        }
        self.road(&result.road);
        self.footer(result);
        &self.picture
    }

    fn copy(&mut self, view: View<'_>) {
        match view.left_rgb {
            Some(rgb) => {
                for (to, from) in self.picture.rows_mut().take(self.size.height).zip(rgb.rows()) {
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = *from;
                    }
                }
            }
            None => copy_grey(&mut self.picture, self.size.height, view.left),
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
            Class::Object if measured => {
                Some((self.ramp.colour(stixel.disparity), OBJECT_SHARE))
            }
            Class::Object => None,
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
        for i in 0..self.ramp.marks().count() {
            let Some(metres) = self.ramp.marks().nth(i) else {
                continue;
            };
            let Some(y) = self.row_of(road, self.camera.depth_m(metres)) else {
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
        let (width, y) = (self.size.width, self.size.height);
        let legend = (width / 3).clamp(60, 320).min(width.saturating_sub(12));
        let mut canvas = Canvas(&mut self.picture);
        canvas.fill(0, y, width, FOOTER, PAPER);

        let mut counts = [0usize; 3];
        for u in 0..result.stixels.columns() {
            for s in result.stixels.column(u) {
                counts[s.class as usize] += 1;
            }
        }
        let [ground, object, sky] = counts;
        let (x, line) = (8, y as i32 + 6);
        let mut text = heapless::String::<160>::new();
        let ms = result.id.timestamp.0 / 1_000_000;
        // A text that is too long is cut, as the picture's edge would cut it.
        let _ = write!(text, "frame {:06}", result.id.number);
        canvas.text(x, line, &text, INK);
        let after = x + (LETTER_WIDTH * (text.len() + 2)) as i32;
        text.clear();
        let _ = write!(
            text,
            "{}.{:03} s   {object} objects  {ground} ground  {sky} sky",
            ms / 1000,
            ms % 1000
        );
        canvas.text(after, line, &text, FAINT);
        text.clear();
        let road = &result.road;
        let _ = write!(
            text,
            "horizon {:.1}  camera {:.2} m",
            road.horizon_row, road.camera_height_m
        );
        let line = line + LETTER_HEIGHT as i32 + 4;
        canvas.text(x, line, &text, FAINT);
        let after = x + (LETTER_WIDTH * (text.len() + 2)) as i32;
        text.clear();
        for gap in result.gaps.iter() {
            let _ = write!(text, "{} ", gap.name());
        }
        canvas.text(after, line, &text, WARNING);
        if width >= 120 {
            self.legend(width - legend - 12, y + 6, legend);
        }
    }

    fn legend(&mut self, x: usize, y: usize, width: usize) {
        const BAR: usize = 12;
        const LABEL: usize = 5 * LETTER_WIDTH;
        let Self { picture, ramp, .. } = self;
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

fn copy_grey(picture: &mut Rgb, height: usize, grey: &Image<u8>) {
    for (to, from) in picture.rows_mut().take(height).zip(grey.rows()) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = [from; 3];
        }
    }
}
