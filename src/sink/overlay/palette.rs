//! 256 colours for pictures of many, so that their files are a third as large: median cut over
//! colours of 5 bits a channel. The same pictures give the same palette.
use crate::frame::Rgb;

/// Colours told apart while the palette is made.
const CELLS: usize = 1 << 15;

/// Up to 256 colours.
#[derive(Debug)]
pub struct Palette {
    /// As a PNG's palette has them.
    pub colours: Vec<[u8; 3]>,
    /// Those that are kept as they are, at the palette's beginning.
    fixed: usize,
    /// By cell: the palette's nearest colour.
    nearest: Vec<u8>,
    /// By cell: whether a fixed colour lies in it.
    has_fixed: Vec<bool>,
}

/// Pixels of a cell.
#[derive(Clone, Copy)]
struct Cell {
    count: u64,
    sums: [u64; 3],
}

impl Cell {
    const EMPTY: Self = Self {
        count: 0,
        sums: [0; 3],
    };

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        for (a, b) in self.sums.iter_mut().zip(other.sums) {
            *a += b;
        }
    }

    fn mean(&self) -> [u8; 3] {
        self.sums
            .map(|s| ((s + self.count / 2) / self.count.max(1)) as u8)
    }
}

fn cell_of([r, g, b]: [u8; 3]) -> usize {
    usize::from(r >> 3) << 10 | usize::from(g >> 3) << 5 | usize::from(b >> 3)
}

fn level(cell: u16, channel: usize) -> u16 {
    cell >> (10 - 5 * channel) & 31
}

/// Cells that share a colour.
struct Part {
    cells: Vec<u16>,
    all: Cell,
    /// The channel along which they lie furthest apart, and how far.
    longest: (usize, u16),
}

impl Part {
    fn new(cells: Vec<u16>, table: &[Cell]) -> Self {
        let mut all = Cell::EMPTY;
        for &c in &cells {
            all.add(&table[usize::from(c)]);
        }
        let span = |channel| {
            let levels = || cells.iter().map(|&c| level(c, channel));
            levels().max().unwrap_or(0) - levels().min().unwrap_or(0)
        };
        let longest = [1, 0, 2].map(|c| (c, span(c)));
        let [g, r, b] = longest;
        let longest = [r, b]
            .into_iter()
            .fold(g, |best, next| if next.1 > best.1 { next } else { best });
        Self {
            cells,
            all,
            longest,
        }
    }

    /// How much a cut gains.
    fn weight(&self) -> u128 {
        u128::from(self.all.count.isqrt()) * u128::from(self.longest.1).pow(2)
    }

    /// Cuts where half of the pixels lie on either side.
    fn cut(mut self, table: &[Cell]) -> (Self, Self) {
        let channel = self.longest.0;
        self.cells.sort_by_key(|&c| (level(c, channel), c));
        let (mut before, mut at) = (0, 1);
        for (i, &c) in self.cells.iter().enumerate() {
            before += table[usize::from(c)].count;
            at = i + 1;
            if before * 2 >= self.all.count {
                break;
            }
        }
        let at = at.min(self.cells.len() - 1);
        let upper = self.cells.split_off(at);
        (Self::new(self.cells, table), Self::new(upper, table))
    }
}

impl Palette {
    /// For these pictures; `fixed` colours (at most 128) stay as they are.
    pub fn of<'a>(pictures: impl Iterator<Item = &'a Rgb>, fixed: &[[u8; 3]]) -> Self {
        let mut table = vec![Cell::EMPTY; CELLS];
        for pixel in pictures.flat_map(|p| p.pixels()) {
            let cell = &mut table[cell_of(*pixel)];
            cell.add(&Cell {
                count: 1,
                sums: pixel.map(u64::from),
            });
        }
        let mut colours: Vec<[u8; 3]> = Vec::with_capacity(256);
        let mut has_fixed = vec![false; CELLS];
        for &colour in fixed.iter().take(128) {
            if !colours.contains(&colour) {
                colours.push(colour);
                has_fixed[cell_of(colour)] = true;
            }
        }
        let fixed = colours.len();
        let used = (0..CELLS as u16).filter(|&c| table[usize::from(c)].count > 0);
        let mut parts = vec![Part::new(used.collect(), &table)];
        while parts.len() < 256 - fixed {
            // The first of equals.
            let best = (0..parts.len()).rev().max_by_key(|&i| parts[i].weight());
            let Some(best) = best.filter(|&i| parts[i].weight() > 0) else {
                break;
            };
            let (a, b) = parts.swap_remove(best).cut(&table);
            parts.extend([a, b]);
        }
        colours.extend(
            (parts.iter())
                .filter(|p| p.all.count > 0)
                .map(|p| p.all.mean()),
        );
        if colours.is_empty() {
            colours.push([0; 3]);
        }
        let nearest = (0..CELLS as u16).map(|c| {
            let cell = &table[usize::from(c)];
            let [r, g, b] = if cell.count > 0 {
                cell.mean().map(i32::from)
            } else {
                [0, 1, 2].map(|k| i32::from(level(c, k)) * 8 + 4)
            };
            let far = |&[x, y, z]: &[u8; 3]| {
                let [dr, dg, db] = [r - i32::from(x), g - i32::from(y), b - i32::from(z)];
                3 * dr * dr + 4 * dg * dg + 2 * db * db
            };
            let all = colours.iter().enumerate();
            all.min_by_key(|(_, colour)| far(colour))
                .map_or(0, |(i, _)| i as u8)
        });
        Self {
            nearest: nearest.collect(),
            colours,
            fixed,
            has_fixed,
        }
    }

    /// The place of a colour's nearest in the palette.
    pub fn index(&self, colour: [u8; 3]) -> u8 {
        let cell = cell_of(colour);
        let fixed = || {
            let at = self.colours[..self.fixed]
                .iter()
                .position(|&c| c == colour)?;
            Some(at as u8)
        };
        (self.has_fixed[cell].then(fixed).flatten()).unwrap_or(self.nearest[cell])
    }

    /// A picture by places in the palette, row by row.
    pub fn indexed(&self, picture: &Rgb) -> Vec<u8> {
        picture.pixels().map(|&p| self.index(p)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_colours_are_kept() {
        let picture = Rgb::from_fn(40, 30, |x, y| [(x * 6) as u8, 8 * (y / 10) as u8, 200]);
        let palette = Palette::of([&picture].into_iter(), &[[1, 2, 3], [1, 2, 3], [250, 0, 0]]);
        assert_eq!(palette.colours[..2], [[1, 2, 3], [250, 0, 0]]);
        assert!(palette.colours.len() <= 256);
        for &pixel in picture.pixels() {
            let got = palette.colours[usize::from(palette.index(pixel))];
            for (a, b) in got.into_iter().zip(pixel) {
                assert!(a.abs_diff(b) < 8, "{pixel:?} became {got:?}");
            }
        }
        assert_eq!(palette.index([1, 2, 3]), 0);
    }

    #[test]
    fn many_colours_are_near() {
        let picture = Rgb::from_fn(256, 256, |x, y| [x as u8, y as u8, ((x * y) >> 8) as u8]);
        let palette = Palette::of([&picture].into_iter(), &[]);
        assert_eq!(palette.colours.len(), 256);
        let worst = picture.pixels().map(|&pixel| {
            let got = palette.colours[usize::from(palette.index(pixel))];
            let far = got.into_iter().zip(pixel).map(|(a, b)| a.abs_diff(b));
            far.max().unwrap_or(0)
        });
        assert!(worst.max().unwrap_or(0) < 48);
    }

    #[test]
    fn no_picture_has_a_palette() {
        let palette = Palette::of([].into_iter(), &[]);
        assert_eq!(palette.colours, [[0; 3]]);
        assert_eq!(palette.index([9, 9, 9]), 0);
    }
}
