use std::convert::Infallible;

use embedded_graphics::{
    Drawable, Pixel,
    draw_target::DrawTarget,
    geometry::{OriginDimensions, Point},
    mono_font::{MonoFont, MonoTextStyle, ascii::FONT_7X13},
    pixelcolor::{Rgb888, RgbColor},
    text::{Baseline, Text},
};

use crate::frame::Rgb;

/// The font of all text on pictures.
const FONT: &MonoFont<'_> = &FONT_7X13;
/// Width of a letter, px.
pub const LETTER_WIDTH: usize = 7;
/// Height of a line, px.
pub const LETTER_HEIGHT: usize = 13;

/// Drawing on a picture; what lies outside is cut off.
pub struct Canvas<'a>(pub &'a mut Rgb);

impl Canvas<'_> {
    /// Mixes `share`/256 of a colour into a pixel.
    pub fn mix(&mut self, x: usize, y: usize, colour: [u8; 3], share: u16) {
        if x < self.0.width() && y < self.0.height() {
            let pixel = &mut self.0.row_mut(y)[x];
            *pixel = mixed(*pixel, colour, share);
        }
    }

    /// Sets `width` x `height` pixels from `(x, y)`.
    pub fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: [u8; 3]) {
        let (right, below) = (
            (x + width).min(self.0.width()),
            (y + height).min(self.0.height()),
        );
        for y in y..below {
            if x < right {
                self.0.row_mut(y)[x..right].fill(colour);
            }
        }
    }

    /// Writes ASCII text with its top left corner at `(x, y)`.
    pub fn text(&mut self, x: i32, y: i32, text: &str, [r, g, b]: [u8; 3]) {
        let style = MonoTextStyle::new(FONT, Rgb888::new(r, g, b));
        let Ok(_) = Text::with_baseline(text, Point::new(x, y), style, Baseline::Top).draw(self);
    }

    /// The same with a dark rim, to be read on any ground.
    pub fn rimmed_text(&mut self, x: i32, y: i32, text: &str, colour: [u8; 3]) {
        for (dx, dy) in [(-1, 0), (1, 0), (0, -1), (0, 1), (1, 1)] {
            self.text(x + dx, y + dy, text, [12, 14, 18]);
        }
        self.text(x, y, text, colour);
    }
}

/// A pixel with `share`/256 of a colour in it.
#[inline]
pub fn mixed(pixel: [u8; 3], colour: [u8; 3], share: u16) -> [u8; 3] {
    std::array::from_fn(|c| {
        let (a, b) = (u16::from(pixel[c]), u16::from(colour[c]));
        ((a * (256 - share) + b * share + 128) >> 8) as u8
    })
}

impl OriginDimensions for Canvas<'_> {
    fn size(&self) -> embedded_graphics::geometry::Size {
        embedded_graphics::geometry::Size::new(self.0.width() as u32, self.0.height() as u32)
    }
}

impl DrawTarget for Canvas<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Infallible> {
        for Pixel(Point { x, y }, c) in pixels {
            let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
                continue;
            };
            if x < self.0.width() && y < self.0.height() {
                self.0.row_mut(y)[x] = [c.r(), c.g(), c.b()];
            }
        }
        Ok(())
    }
}
