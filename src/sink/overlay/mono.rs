//! What belongs to the mono image: moving foreground and logos.
use std::fmt::Write as _;

use super::canvas::{Canvas, LETTER_HEIGHT, LETTER_WIDTH, mixed};
use crate::frame::{Foreground, Image, Logo, LogoState, Logos, MonoImage, Rgb, Size};

/// Colour of what moves and its share, in 256.
pub const MOVING: ([u8; 3], u16) = ([255, 60, 30], 140);
/// Colour of the shadow of what moves and its share, in 256.
pub const SHADOW: ([u8; 3], u16) = ([110, 90, 255], 110);

/// Colour of logos that are sure.
pub const TRACKED: [u8; 3] = [70, 255, 120];
/// Of those that are new.
pub const TENTATIVE: [u8; 3] = [255, 220, 60];
/// Of those that are gone.
const LOST: [u8; 3] = [150, 156, 166];

/// The part of the overlay that shows the mono image; drawing stays within it.
pub(super) struct Panel<'a> {
    pub picture: &'a mut Rgb,
    /// Its first row.
    pub top: usize,
    pub size: Size,
}

impl Panel<'_> {
    /// The picture itself, of 16 bits the upper 8; black without one.
    pub fn picture(&mut self, image: Option<&MonoImage>) {
        match image {
            Some(MonoImage::Grey8(image)) => self.copy(image, |v| [v; 3]),
            Some(MonoImage::Grey16(image)) => self.copy(image, |v| [(v >> 8) as u8; 3]),
            Some(MonoImage::Rgb8(image)) => self.copy(image, |v| v),
            None => {
                for row in self
                    .picture
                    .rows_mut()
                    .skip(self.top)
                    .take(self.size.height)
                {
                    row[..self.size.width].fill([0; 3]);
                }
            }
        }
    }

    fn copy<T: Copy>(&mut self, image: &Image<T>, colour: impl Fn(T) -> [u8; 3]) {
        for (to, from) in self.picture.rows_mut().skip(self.top).zip(image.rows()) {
            for (to, &from) in to.iter_mut().zip(from) {
                *to = colour(from);
            }
        }
    }

    /// Tints what moves, and its shadows.
    pub fn foreground(&mut self, foreground: &Foreground) {
        let rows = self.picture.rows_mut().skip(self.top);
        for (to, mask) in rows.zip(foreground.mask.rows()) {
            for (pixel, &mask) in to.iter_mut().zip(mask) {
                let (colour, share) = match mask {
                    Foreground::MOVING => MOVING,
                    Foreground::SHADOW => SHADOW,
                    _ => continue,
                };
                *pixel = mixed(*pixel, colour, share);
            }
        }
    }

    /// Outlines logos, with name and number at the first corner.
    pub fn logos(&mut self, logos: &Logos, names: &[String]) {
        for logo in logos {
            let colour = match logo.state {
                LogoState::Tracked => TRACKED,
                LogoState::Tentative => TENTATIVE,
                LogoState::Lost => LOST,
            };
            for corner in 0..4 {
                self.line(logo.quad[corner], logo.quad[(corner + 1) % 4], colour);
            }
            self.name(logo, names, colour);
        }
    }

    /// A line two pixels wide, by steps of at most a pixel. What is not a number, or too far
    /// outside to be a logo, is left out.
    fn line(&mut self, from: [f32; 2], to: [f32; 2], colour: [u8; 3]) {
        let bound = 4.0 * (self.size.width + self.size.height) as f32;
        let fits = |v: &f32| v.is_finite() && v.abs() <= bound;
        if !from.iter().chain(&to).all(fits) {
            return;
        }
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let steps = (dx.abs().max(dy.abs()) as usize).max(1);
        for step in 0..=steps {
            let at = step as f32 / steps as f32;
            let x = (from[0] + at * dx + 0.5) as i64;
            let y = (from[1] + at * dy + 0.5) as i64;
            for (x, y) in [(x, y), (x + 1, y), (x, y + 1)] {
                self.set(x, y, colour);
            }
        }
    }

    fn set(&mut self, x: i64, y: i64, colour: [u8; 3]) {
        if let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y))
            && x < self.size.width
            && y < self.size.height
        {
            self.picture.row_mut(self.top + y)[x] = colour;
        }
    }

    /// Above the quad, moved to where it can be read whole.
    fn name(&mut self, logo: &Logo, names: &[String], colour: [u8; 3]) {
        let mut text = heapless::String::<64>::new();
        // What is too long is cut.
        let name = names.get(usize::from(logo.template)).map_or("?", |n| n);
        for c in name.chars().filter(char::is_ascii).take(48) {
            let _ = text.push(c);
        }
        let _ = write!(text, " #{}", logo.id);
        let least = |axis: usize| logo.quad.iter().map(|c| c[axis]).fold(f32::MAX, f32::min);
        let place = |at: f32, room: usize| at.clamp(0.0, room as f32) as i32;
        let wide = LETTER_WIDTH * text.len();
        let x = place(least(0), self.size.width.saturating_sub(wide));
        let y = place(
            least(1) - LETTER_HEIGHT as f32 - 2.0,
            self.size.height.saturating_sub(LETTER_HEIGHT),
        );
        Canvas(self.picture).rimmed_text(x, self.top as i32 + y, &text, colour);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(60, 40);

    fn logo(quad: [[f32; 2]; 4]) -> Logos {
        let mut logos = Logos::new();
        let logo = Logo {
            id: 7,
            template: 0,
            state: LogoState::Tracked,
            quad,
            velocity: [0.0; 2],
            confidence: 1,
        };
        logos.push(logo).unwrap();
        logos
    }

    #[test]
    fn moving_and_shadow_are_tinted() {
        let mut picture = Rgb::filled(60, 100, [100; 3]);
        let mut foreground = Foreground::new(SIZE);
        foreground.mask.set(3, 4, Foreground::MOVING);
        foreground.mask.set(5, 4, Foreground::SHADOW);
        let mut panel = Panel {
            picture: &mut picture,
            top: 20,
            size: SIZE,
        };
        panel.foreground(&foreground);
        assert_eq!(picture.get(3, 24), mixed([100; 3], MOVING.0, MOVING.1));
        assert_eq!(picture.get(5, 24), mixed([100; 3], SHADOW.0, SHADOW.1));
        let others = picture.pixels().filter(|&&p| p == [100; 3]).count();
        assert_eq!(others, 6000 - 2);
    }

    #[test]
    fn a_quad_stays_in_its_panel() {
        let mut picture = Rgb::filled(60, 100, [0; 3]);
        let mut panel = Panel {
            picture: &mut picture,
            top: 20,
            size: SIZE,
        };
        let quad = [[10.0, -30.0], [50.0, -30.0], [50.0, 70.0], [10.0, 70.0]];
        panel.logos(&logo(quad), &["A".into()]);
        let drawn = |y: usize| picture.row(y).contains(&TRACKED);
        assert!((0..100).all(|y| drawn(y) == (20..60).contains(&y)));
        assert_eq!(picture.get(50, 40), TRACKED);
    }

    #[test]
    fn corners_that_make_no_sense() {
        let mut picture = Rgb::filled(60, 40, [0; 3]);
        for bad in [f32::NAN, f32::INFINITY, 1e30, -1e30] {
            let mut panel = Panel {
                picture: &mut picture,
                top: 0,
                size: SIZE,
            };
            panel.logos(&logo([[bad, 1.0], [2.0, bad], [bad; 2], [1.0, 1.0]]), &[]);
        }
    }
}
