//! What each pixel shows: the left image in the colours of its classes, and what they mean.
use super::canvas::{Canvas, LETTER_HEIGHT, LETTER_WIDTH, mixed};
use super::{INK, PAPER};
use crate::frame::{LabelTable, Labels, Rgb, Size};

/// Share of a class's colour, in 256.
pub const SHARE: u16 = 150;
/// Rows of a line of the legend.
pub const LINE: usize = LETTER_HEIGHT + 7;
/// Most lines of the legend; classes beyond are left out of it.
const LINES: usize = 6;
/// Side of a patch of colour, px.
const PATCH: usize = 11;
const MARGIN: usize = 8;

/// A class's place in the legend.
struct Entry {
    x: usize,
    line: usize,
    colour: [u8; 3],
    name: String,
}

/// The part of the overlay that shows labels: the image, then the legend.
pub(super) struct LabelPanel {
    size: Size,
    palette: [[u8; 3]; 256],
    void: u8,
    legend: Vec<Entry>,
    lines: usize,
}

impl LabelPanel {
    /// For labels of an image of `size`.
    pub fn new(size: Size, table: &LabelTable) -> Self {
        Self::of(size, size.width, table)
    }

    /// The same with a legend of another width.
    pub fn of(size: Size, legend_width: usize, table: &LabelTable) -> Self {
        let (mut x, mut line) = (MARGIN, 0);
        let mut legend = Vec::new();
        for class in &table.classes {
            let name: String = class.name.chars().filter(char::is_ascii).take(24).collect();
            let wide = PATCH + 4 + LETTER_WIDTH * name.len() + 12;
            if x + wide > legend_width && x > MARGIN {
                (x, line) = (MARGIN, line + 1);
            }
            if line == LINES {
                break;
            }
            legend.push(Entry {
                x,
                line,
                colour: class.colour,
                name,
            });
            x += wide;
        }
        Self {
            size,
            palette: table.palette(),
            void: table.void,
            lines: legend.last().map_or(0, |entry| entry.line + 1),
            legend,
        }
    }

    /// Rows of the panel.
    pub fn height(&self) -> usize {
        self.size.height + self.legend_height()
    }

    /// Rows of the legend.
    pub fn legend_height(&self) -> usize {
        self.lines * LINE
    }

    /// The colours in the legend.
    pub fn colours(&self) -> impl Iterator<Item = [u8; 3]> + '_ {
        self.legend.iter().map(|entry| entry.colour)
    }

    /// Draws the panel at row `top`, from the image that the picture has at its top.
    pub fn draw(&self, picture: &mut Rgb, top: usize, labels: &Labels) {
        self.tint(picture, top, labels);
        self.legend(picture, top + self.size.height);
    }

    /// Tints the image that begins at row `top`.
    pub fn tint(&self, picture: &mut Rgb, top: usize, labels: &Labels) {
        let Size { width, height } = self.size;
        for (y, labels) in (0..height).map(|y| (y, labels.pixels(y))) {
            for (to, label) in picture.row_mut(top + y)[..width].iter_mut().zip(labels) {
                if label != self.void {
                    *to = mixed(*to, self.palette[usize::from(label)], SHARE);
                }
            }
        }
    }

    /// Draws the legend at row `below`.
    pub fn legend(&self, picture: &mut Rgb, below: usize) {
        let mut canvas = Canvas(picture);
        let all = canvas.0.width();
        canvas.fill(0, below, all, self.lines * LINE, PAPER);
        for entry in &self.legend {
            let y = below + entry.line * LINE + 4;
            canvas.fill(entry.x, y + 1, PATCH, PATCH, entry.colour);
            let x = (entry.x + PATCH + 4) as i32;
            canvas.text(x, y as i32, &entry.name, INK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frame::LabelClass;

    fn table(classes: u8) -> LabelTable {
        LabelTable {
            classes: (1..=classes)
                .map(|index| LabelClass {
                    index,
                    name: format!("class {index}"),
                    colour: [index, 100, 200],
                })
                .collect(),
            void: 0,
        }
    }

    #[test]
    fn classes_are_tinted_and_void_is_not() {
        let (size, table) = (Size::new(200, 9), table(2));
        let panel = LabelPanel::new(size, &table);
        assert_eq!(panel.height(), 9 + LINE);
        let mut labels = Labels::new(size, 2, false, Arc::new(table));
        labels.labels.set(4, 1, 2);
        let mut picture = Rgb::filled(200, 5 + panel.height(), [50; 3]);
        panel.draw(&mut picture, 5, &labels);
        let tinted = mixed([50; 3], [2, 100, 200], SHARE);
        for (x, y, colour) in [
            (8, 7, tinted),
            (9, 8, tinted),
            (10, 7, [50; 3]),
            (8, 9, [50; 3]),
        ] {
            assert_eq!(picture.get(x, y), colour, "{x},{y}");
        }
        let legend = (14..14 + LINE).flat_map(|y| picture.row(y).to_vec());
        let legend: Vec<_> = legend.collect();
        assert!(legend.contains(&[1, 100, 200]) && legend.contains(&[2, 100, 200]));
        assert!(legend.contains(&INK));
    }

    #[test]
    fn a_legend_of_any_length_has_bounds() {
        for (width, classes) in [(1, 3), (60, 254), (1024, 254), (300, 0)] {
            let size = Size::new(width, 3);
            let table = table(classes);
            let panel = LabelPanel::new(size, &table);
            assert!(panel.height() <= 3 + LINES * LINE);
            let labels = Labels::new(size, 1, false, Arc::new(table));
            let mut picture = Rgb::new(width, panel.height());
            panel.draw(&mut picture, 0, &labels);
        }
    }
}
