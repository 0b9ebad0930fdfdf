//! House fronts.
use super::maths::{Light, band, grain, hash, noise2, ramp, rgb, split, unit};
use super::paint::Surface;

/// How a house looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facade {
    pub colour: Light,
    pub trim: Light,
    pub brick: bool,
    pub shop: bool,
    pub shutters: bool,
    pub storey: f64,
    pub bay: f64,
    pub height: f64,
    /// From the middle of the house along its front.
    pub half: f64,
    pub salt: u32,
}

fn glass(salt: u32, a: f64, b: f64, g: f32) -> Surface {
    let h = hash(0, 0, salt);
    let mut colour = rgb(38, 42, 48);
    let mut gloss = 1.0;
    match h % 4 {
        0 => {
            // Curtains drawn to the sides.
            if a.abs() > 0.28 + f64::from(unit(h)) * 0.1 {
                let fold = noise2(a * 16.0, 0.5, salt);
                colour = rgb(205, 200, 188) * (0.45 + 0.3 * fold);
                gloss = 0.5;
            }
        }
        1 => {
            // A blind, let down part of the way.
            if b > 0.45 + f64::from(unit(h)) * 0.6 {
                colour = rgb(196, 186, 160) * 0.6;
                gloss = 0.5;
            }
        }
        _ => colour = colour * (0.8 + 0.8 * noise2(a * 2.1, b * 1.7, salt)),
    }
    Surface {
        colour: colour * (1.0 + 0.3 * g),
        gloss,
        ..Surface::default()
    }
}

impl Facade {
    /// The surface at a point in the house's coordinates: `u` along the wall from its middle,
    /// `y` up; `px` is the size of a pixel there in metres.
    pub fn surface(&self, u: f64, y: f64, px: f64, front: bool) -> Surface {
        let g = grain(u, y, px, px, self.salt ^ 1);
        let stain = noise2(u * 0.5, y * 0.4, self.salt ^ 2) - 0.5;
        let streak = noise2(u * 2.2, y * 0.25, self.salt ^ 3) - 0.5;
        let mut wall = self.colour * (1.0 + 0.16 * stain + 0.12 * streak + 0.42 * g);
        if self.brick {
            wall = self.bricks(u, y, px, wall);
        }
        let plain = |colour| Surface {
            colour,
            ..Surface::default()
        };
        // Plinth, cornice, rain pipe.
        if y < 0.55 {
            let stone = self.trim * (0.62 + 0.35 * g + 0.2 * stain);
            if !(self.shop && front) {
                return plain(stone * ramp(y, -0.6, 0.5) as f32);
            }
        }
        if y > self.height - 0.38 {
            let step = band(y, self.height - 0.38, self.height - 0.3, px);
            return plain(self.trim * (0.9 - 0.35 * step + 0.2 * g));
        }
        if !front {
            return plain(wall);
        }
        if (u.abs() - (self.half - 0.12)).abs() < 0.05 {
            return plain(rgb(92, 92, 88) * (0.8 + 0.4 * g));
        }
        let (floor_no, b) = split(y / self.storey);
        let (bay_no, a) = split((u + self.half) / self.bay);
        let b = f64::from(b) * self.storey;
        let a = (f64::from(a) - 0.5) * self.bay;
        let last = (2.0 * self.half / self.bay) as i32;
        if bay_no < 0 || bay_no >= last {
            return plain(wall);
        }
        let salt = self.salt ^ hash(bay_no, floor_no, 77);
        if floor_no == 0 {
            let door = (hash(3, 1, self.salt) % last.max(1) as u32) as i32;
            if bay_no == door {
                return self.door(a, b, wall, g);
            }
            if self.shop {
                return self.shop(u, a, b, wall, g, salt);
            }
        }
        self.window(a, b, wall, g, salt)
    }

    fn bricks(&self, u: f64, y: f64, px: f64, wall: Light) -> Light {
        let row = split(y / 0.085);
        let shift = if row.0 & 1 == 0 { 0.0 } else { 0.13 };
        let col = split((u + shift) / 0.26);
        let fade = 1.0 - ramp(px, 0.02, 0.09) as f32;
        let tone = unit(hash(row.0, col.0, self.salt)) - 0.5;
        let joint = band(f64::from(row.1) * 0.085, -1.0, 0.012, px).max(band(
            f64::from(col.1) * 0.26,
            -1.0,
            0.012,
            px,
        ));
        let wall = wall * (1.0 + 0.35 * tone * fade);
        wall.mix(rgb(176, 168, 156), 0.6 * joint * fade)
    }

    fn door(&self, a: f64, b: f64, wall: Light, g: f32) -> Surface {
        let plain = |colour| Surface {
            colour,
            ..Surface::default()
        };
        if a.abs() < 0.62 && b < 2.42 {
            if a.abs() > 0.52 || b > 2.32 {
                return plain(self.trim * (0.95 + 0.2 * g));
            }
            if b > 1.95 {
                return glass(self.salt ^ 9, a, b - 1.95, g);
            }
            let panel =
                (a.abs() - 0.26).abs() < 0.17 && ((b - 0.5).abs() < 0.3 || (b - 1.4).abs() < 0.4);
            let h = hash(9, 9, self.salt);
            let tones = [
                rgb(40, 72, 58),
                rgb(110, 38, 34),
                rgb(42, 56, 88),
                rgb(96, 66, 40),
            ];
            let tone = tones[(h % 4) as usize];
            return plain(tone * (if panel { 0.75 } else { 1.0 } + 0.3 * g));
        }
        plain(wall)
    }

    fn shop(&self, u: f64, a: f64, b: f64, wall: Light, g: f32, salt: u32) -> Surface {
        let plain = |colour| Surface {
            colour,
            ..Surface::default()
        };
        let h = hash(5, 5, self.salt);
        let tones = [
            rgb(150, 40, 36),
            rgb(34, 84, 96),
            rgb(46, 46, 50),
            rgb(190, 150, 60),
        ];
        let tone = tones[(h >> 4 & 3) as usize];
        if b > 2.5 && b < 3.02 {
            // Signboard with strokes that pass for letters.
            let (n, f) = split(u / 0.3);
            let stroke = unit(hash(n, 1, salt ^ 40)) > 0.35
                && (b - 2.76).abs() < 0.13
                && f > 0.15
                && f < 0.8
                && noise2(f64::from(f) * 3.0 + f64::from(n) * 9.0, b * 14.0, self.salt) > 0.42;
            return plain(if stroke {
                rgb(240, 236, 220)
            } else {
                tone * (1.0 + 0.2 * g)
            });
        }
        if b < 0.45 {
            return plain(tone * (0.6 + 0.3 * g));
        }
        if b < 2.4 && a.abs() < self.bay * 0.5 - 0.09 {
            if (a.abs() - (self.bay * 0.5 - 0.13)).abs() < 0.045 || b > 2.33 {
                return plain(tone * 0.8);
            }
            let goods = noise2(u * 3.0, b * 2.5, salt);
            let shelf = noise2(u * 9.0, b * 7.0, salt ^ 3);
            let lit = rgb(210, 190, 150).mix(rgb(120, 70, 80), shelf) * (0.2 + 0.4 * goods);
            return Surface {
                colour: if b < 1.4 { lit } else { rgb(52, 50, 50) },
                gloss: 0.8,
                ..Surface::default()
            };
        }
        plain(wall * 0.9)
    }

    fn window(&self, a: f64, b: f64, wall: Light, g: f32, salt: u32) -> Surface {
        let plain = |colour| Surface {
            colour,
            ..Surface::default()
        };
        let (half, lo, hi) = (0.55, 0.95, 2.4);
        let w = a.abs();
        if w < half && b > lo && b < hi {
            // The reveal throws a shadow on the upper edge of the panes.
            let shade = if b > hi - 0.13 { 0.45 } else { 1.0 };
            let frame = w > half - 0.07
                || b < lo + 0.07
                || b > hi - 0.07
                || w < 0.035
                || (b - (lo + 0.95)).abs() < 0.03;
            if frame {
                return plain(rgb(226, 224, 216) * (shade + 0.15 * g));
            }
            let mut pane = glass(salt, a, b - lo, g);
            pane.colour = pane.colour * shade;
            return pane;
        }
        if w < half + 0.12 && b <= lo && b > lo - 0.1 {
            return plain(self.trim * (1.0 + 0.2 * g));
        }
        if w < half + 0.1 && b <= lo - 0.1 && b > lo - 0.24 {
            return plain(wall * 0.62);
        }
        if w < half + 0.14 && b > lo && b < hi + 0.16 {
            return plain(self.trim * (0.92 + 0.25 * g));
        }
        if self.shutters && w < half + 0.62 && b > lo - 0.04 && b < hi + 0.04 {
            let (_, slat) = split(b / 0.075);
            let tones = [rgb(64, 92, 78), rgb(104, 58, 48), rgb(78, 92, 116)];
            let tone = tones[(self.salt % 3) as usize];
            return plain(tone * (0.75 + 0.4 * slat.min(0.8) + 0.2 * g));
        }
        plain(wall)
    }
}
