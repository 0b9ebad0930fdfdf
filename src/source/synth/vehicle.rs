//! Cars, vans and lorries.
use super::labels::Label;
use super::mark::{ASPECT, MARKS};
use super::maths::{Light, Pose, Rng, V, rgb, v};
use super::paint::{Body, Paint};
use super::scene::{Builder, Contact, Content, Part, Plate};
use super::shape::Solid;

/// What kind of vehicle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Hatchback,
    Saloon,
    Estate,
    Van,
    Lorry,
}

/// A vehicle's own choice of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub kind: Kind,
    pub colour: Light,
    /// Number of its mark, for vans and lorries.
    pub mark: usize,
    /// Names its marks in the truth.
    pub id: u32,
}

const COLOURS: [(u8, u8, u8); 12] = [
    (196, 198, 202),
    (232, 232, 230),
    (44, 46, 52),
    (24, 25, 28),
    (112, 116, 122),
    (36, 62, 118),
    (150, 26, 30),
    (92, 104, 92),
    (176, 164, 140),
    (28, 84, 104),
    (204, 132, 34),
    (150, 156, 164),
];

impl Model {
    /// A car by chance.
    pub fn car(rng: &mut Rng) -> Self {
        let (r, g, b) = rng.pick(&COLOURS);
        Self {
            kind: rng.pick(&[Kind::Hatchback, Kind::Hatchback, Kind::Saloon, Kind::Estate]),
            colour: rgb(r, g, b),
            mark: 0,
            id: 0,
        }
    }

    /// A van or lorry with mark `mark`.
    pub fn marked(kind: Kind, mark: usize, id: u32) -> Self {
        let grounds = [rgb(238, 238, 234), rgb(32, 100, 76), rgb(228, 222, 206)];
        Self {
            kind,
            colour: grounds[mark % 3],
            mark: mark % MARKS.len(),
            id,
        }
    }

    /// Half its length, m.
    pub fn half_length(&self) -> f64 {
        match self.kind {
            Kind::Hatchback => 2.02,
            Kind::Saloon => 2.3,
            Kind::Estate => 2.28,
            Kind::Van => 2.75,
            Kind::Lorry => 3.9,
        }
    }

    /// Puts the vehicle in the street.
    pub fn build(&self, out: &mut Content, pose: Pose, moving: bool) {
        match self.kind {
            Kind::Van => self.van(out, pose, moving),
            Kind::Lorry => self.lorry(out, pose, moving),
            _ => self.passenger(out, pose, moving),
        }
    }

    fn contact(&self, out: &mut Content, pose: Pose, half_w: f64) {
        let half = (half_w - 0.12, self.half_length() - 0.15);
        for (soft, strength) in [(0.3, 0.72), (1.0, 0.45)] {
            out.contacts.push(Contact {
                pose,
                half,
                soft,
                strength,
            });
        }
    }

    fn passenger(&self, out: &mut Content, pose: Pose, moving: bool) {
        let l = self.half_length();
        let (roof, glass) = match self.kind {
            Kind::Hatchback => (1.47, (-l + 0.12, 0.98)),
            Kind::Saloon => (1.43, (-1.62, 1.0)),
            _ => (1.49, (-l + 0.12, 1.02)),
        };
        let w = 0.88;
        let waist = 0.93;
        let wheel = 0.315;
        let body = Body {
            colour: self.colour,
            half_w: w,
            half_l: l,
            axles: (-l + 0.82, l - 0.86),
            wheel,
            waist,
            roof,
            glass,
            pillar: (glass.0 + glass.1) * 0.5 - 0.05,
        };
        let mut b = Builder::new(out, pose, moving, Label::Vehicle);
        // Shell: bonnet and boot slope, corners are cut in plan, the sides lean in above and below.
        let shell = Solid::cuboid(v(-w, 0.2, -l), v(w, waist, l))
            .cut(v(0.0, waist, glass.1 - 0.1), v(0.0, 1.0, 0.2))
            .cut(v(0.0, 0.72, l - 0.06), v(0.0, 1.0, 0.75))
            .cut(v(0.0, 0.55, l), v(0.0, 0.2, 1.0))
            .cut(v(0.0, 0.42, l), v(0.0, -0.5, 1.0))
            .cut(v(0.0, waist, -l + 0.14), v(0.0, 1.0, -0.9))
            .cut(v(0.0, 0.62, -l), v(0.0, 0.16, -1.0))
            .cut(v(0.0, 0.4, -l), v(0.0, -0.55, -1.0))
            .cut_both(v(w - 0.12, 0.0, l), v(0.75, 0.0, 1.0))
            .cut_both(v(w, 0.0, l - 0.5), v(1.0, 0.0, 0.22))
            .cut_both(v(w - 0.1, 0.0, -l), v(0.8, 0.0, -1.0))
            .cut_both(v(w, 0.0, -l + 0.4), v(1.0, 0.0, -0.2))
            .cut_both(v(w, 0.62, 0.0), v(1.0, 0.16, 0.0))
            .cut_both(v(w, 0.4, 0.0), v(1.0, -0.22, 0.0));
        b.add(shell, Paint::Car(body));
        // Cabin: windscreen at about 30 degrees, tail steep or flat by kind.
        let (back_y, back_z) = match self.kind {
            Kind::Hatchback => (0.55, -1.0),
            Kind::Saloon => (1.0, -0.85),
            _ => (0.3, -1.0),
        };
        let cabin = Solid::cuboid(
            v(-w + 0.05, waist - 0.1, glass.0),
            v(w - 0.05, roof, glass.1),
        )
        .cut(v(0.0, waist, glass.1), v(0.0, 1.0, 0.62))
        .cut(v(0.0, roof - 0.07, glass.1 - 1.0), v(0.0, 1.0, 0.16))
        .cut(v(0.0, waist, glass.0), v(0.0, back_y, back_z))
        .cut(v(0.0, roof - 0.05, glass.0 + 0.7), v(0.0, 1.0, -0.09))
        .cut_both(v(w - 0.06, waist, 0.0), v(1.0, 0.36, 0.0))
        .cut_both(v(w - 0.3, roof, 0.0), v(0.8, 1.0, 0.0))
        .cut_both(v(w - 0.22, waist, glass.0), v(0.6, 0.1, -1.0));
        b.add(cabin, Paint::Cabin(body));
        for z in [body.axles.0, body.axles.1] {
            for x in [-w + 0.09, w - 0.09] {
                let axis = v(1.0, 0.0, 0.0);
                let tyre = Solid::cylinder(v(x, wheel, 0.0), axis, 0.1, wheel);
                b.add_at(tyre, Paint::Wheel(wheel), v(0.0, 0.0, z));
            }
        }
        let black = Paint::Plain {
            colour: rgb(26, 26, 28),
            gloss: 0.2,
        };
        for side in [-1.0, 1.0] {
            let mirror = Solid::ellipsoid(
                v(side * (w + 0.06), waist + 0.1, glass.1 - 0.42),
                v(0.11, 0.08, 0.07),
            );
            b.add(
                mirror,
                Paint::Plain {
                    colour: self.colour,
                    gloss: 0.6,
                },
            );
        }
        b.add(
            Solid::cuboid(v(-w + 0.25, 0.16, -l + 0.3), v(w - 0.25, 0.3, l - 0.3)),
            black,
        );
        self.contact(out, pose, w);
    }

    fn van(&self, out: &mut Content, pose: Pose, moving: bool) {
        let l = self.half_length();
        let (w, roof) = (0.98, 2.35);
        let body = Body {
            colour: self.colour,
            half_w: w,
            half_l: l,
            axles: (-l + 1.0, l - 0.95),
            wheel: 0.35,
            waist: 1.18,
            roof: 2.15,
            glass: (l - 2.2, l - 0.35),
            pillar: -9.0,
        };
        let mut b = Builder::new(out, pose, moving, Label::Vehicle);
        let nose = Solid::cuboid(v(-w, 0.24, l - 2.0), v(w, 1.18, l))
            .cut(v(0.0, 1.14, l - 0.55), v(0.0, 1.0, 0.42))
            .cut(v(0.0, 0.86, l - 0.03), v(0.0, 0.6, 1.0))
            .cut_both(v(w - 0.14, 0.0, l), v(0.8, 0.0, 1.0));
        b.add(nose, Paint::Car(body));
        let cab = Solid::cuboid(v(-w + 0.03, 1.05, l - 2.0), v(w - 0.03, roof, l - 0.5))
            .cut(v(0.0, 1.18, l - 0.5), v(0.0, 0.62, 1.0))
            .cut_both(v(w - 0.05, 1.2, 0.0), v(1.0, 0.13, 0.0))
            .cut(v(0.0, roof - 0.06, l - 1.3), v(0.0, 1.0, 0.25));
        b.add(cab, Paint::Cabin(body));
        let load = Solid::cuboid(v(-w, 0.24, -l), v(w, roof, l - 1.75))
            .cut_both(v(w - 0.16, roof, 0.0), v(1.0, 0.9, 0.0))
            .cut_both(v(w, 0.42, 0.0), v(1.0, -0.3, 0.0));
        b.add(load, Paint::Panel(self.colour));
        self.tail(&mut b, w, l, 0.98);
        for z in [body.axles.0, body.axles.1] {
            for side in [-1.0, 1.0] {
                let axis = v(1.0, 0.0, 0.0);
                let arch = Solid::cylinder(v(side * (w - 0.1), 0.38, 0.0), axis, 0.102, 0.42);
                let dark = rgb(14, 14, 15);
                b.add_at(
                    arch,
                    Paint::Plain {
                        colour: dark,
                        gloss: 0.0,
                    },
                    v(0.0, 0.0, z),
                );
                let tyre = Solid::cylinder(v(side * (w - 0.09), 0.35, 0.0), axis, 0.105, 0.35);
                b.add_at(tyre, Paint::Wheel(0.35), v(0.0, 0.0, z));
            }
        }
        self.contact(out, pose, w);
        // The body leans in above its middle, so the sides' marks stay low enough to lie flat.
        let middle = -0.55;
        self.plate(out, pose, moving, v(w + 0.004, 1.38, middle), 0, 0.92);
        self.plate(out, pose, moving, v(-w - 0.004, 1.38, middle), 1, 0.92);
        self.plate(out, pose, moving, v(0.0, 1.56, -l - 0.004), 2, 0.66);
    }

    fn lorry(&self, out: &mut Content, pose: Pose, moving: bool) {
        let l = self.half_length();
        let (w, roof) = (1.2, 3.15);
        let cab_colour = rgb(214, 214, 210);
        let body = Body {
            colour: cab_colour,
            half_w: w - 0.08,
            half_l: l,
            axles: (-l + 1.3, l - 0.9),
            wheel: 0.45,
            waist: 1.35,
            roof: 2.4,
            glass: (l - 1.75, l + 0.3),
            pillar: l - 1.05,
        };
        let mut b = Builder::new(out, pose, moving, Label::Vehicle);
        let cab = Solid::cuboid(v(-w + 0.08, 0.35, l - 1.75), v(w - 0.08, 2.5, l))
            .cut(v(0.0, 1.35, l), v(0.0, 0.2, 1.0))
            .cut(v(0.0, 2.35, l - 0.5), v(0.0, 1.0, 0.5))
            .cut_both(v(w - 0.2, 0.0, l), v(0.8, 0.0, 1.0));
        b.add(cab.clone(), Paint::Cabin(body));
        let lower = Solid::cuboid(
            v(-w + 0.075, 0.34, l - 1.755),
            v(w - 0.075, 1.35, l + 0.005),
        )
        .cut_both(v(w - 0.2, 0.0, l), v(0.8, 0.0, 1.0));
        b.add(
            lower,
            Paint::Plain {
                colour: cab_colour * 0.95,
                gloss: 0.4,
            },
        );
        let bumper = Solid::cuboid(v(-w + 0.1, 0.3, l - 0.3), v(w - 0.1, 0.72, l + 0.05));
        b.add(
            bumper,
            Paint::Plain {
                colour: rgb(60, 62, 66),
                gloss: 0.2,
            },
        );
        for side in [-1.0, 1.0] {
            let x = side * (w - 0.42);
            let lamp = Solid::cuboid(v(x - 0.17, 0.74, l - 0.1), v(x + 0.17, 0.92, l + 0.02));
            b.add(lamp, Paint::Glow(rgb(120, 120, 118)));
        }
        let load = Solid::cuboid(v(-w, 0.95, -l), v(w, roof, l - 1.9));
        b.add(load, Paint::Panel(self.colour));
        let frame = Solid::cuboid(v(-w + 0.25, 0.5, -l + 0.2), v(w - 0.25, 0.96, l - 0.4));
        let black = Paint::Plain {
            colour: rgb(30, 30, 32),
            gloss: 0.05,
        };
        b.add(frame, black);
        let guard = Solid::cuboid(v(-w + 0.05, 0.5, -l + 2.1), v(w - 0.05, 0.78, l - 2.0));
        b.add(
            guard,
            Paint::Plain {
                colour: rgb(120, 122, 126),
                gloss: 0.2,
            },
        );
        self.tail(&mut b, w, l, 0.8);
        for z in [body.axles.0, body.axles.1] {
            for side in [-1.0, 1.0] {
                let tyre = Solid::cylinder(
                    v(side * (w - 0.16), 0.45, 0.0),
                    v(1.0, 0.0, 0.0),
                    0.16,
                    0.45,
                );
                b.add_at(tyre, Paint::Wheel(0.45), v(0.0, 0.0, z));
            }
        }
        self.contact(out, pose, w);
        self.plate(out, pose, moving, v(w + 0.004, 2.1, -0.95), 0, 1.5);
        self.plate(out, pose, moving, v(-w - 0.004, 2.1, -0.95), 1, 1.5);
        self.plate(out, pose, moving, v(0.0, 2.25, -l - 0.004), 2, 0.85);
    }

    /// Rear lamps, number plate, bumper and door seam.
    fn tail(&self, b: &mut Builder<'_>, w: f64, l: f64, y: f64) {
        let red = Paint::Glow(rgb(120, 12, 12));
        for side in [-1.0, 1.0] {
            let x = side * (w - 0.12);
            b.add(
                Solid::cuboid(
                    v(x - 0.09, y - 0.2, -l - 0.03),
                    v(x + 0.09, y + 0.2, -l + 0.02),
                ),
                red,
            );
        }
        let dark = Paint::Plain {
            colour: rgb(40, 40, 42),
            gloss: 0.1,
        };
        b.add(
            Solid::cuboid(v(-w + 0.02, 0.36, -l - 0.08), v(w - 0.02, 0.56, -l + 0.1)),
            dark,
        );
        b.add(
            Solid::cuboid(v(-0.012, 0.6, -l - 0.012), v(0.012, y + 0.16, -l + 0.02)),
            dark,
        );
        let plate = Paint::Plain {
            colour: rgb(225, 218, 170),
            gloss: 0.1,
        };
        b.add(
            Solid::cuboid(v(-0.26, 0.62, -l - 0.025), v(0.26, 0.73, -l + 0.02)),
            plate,
        );
    }

    /// A mark on the right (0), left (1) or rear (2); `at` is its middle.
    fn plate(&self, out: &mut Content, pose: Pose, moving: bool, at: V, face: u32, height: f64) {
        let (h, w) = (height * 0.5, height * ASPECT * 0.5);
        let thin = 0.004;
        let (half, along) = match face {
            0 => (v(thin, h, w), v(0.0, 0.0, 1.0)),
            1 => (v(thin, h, w), v(0.0, 0.0, -1.0)),
            _ => (v(w, h, thin), v(1.0, 0.0, 0.0)),
        };
        let outward = match face {
            0 => v(thin, 0.0, 0.0),
            1 => v(-thin, 0.0, 0.0),
            _ => v(0.0, 0.0, -thin),
        };
        let (a, up) = (along * w, v(0.0, h, 0.0));
        let middle = at + outward;
        let corners = [up - a, up + a, a - up, -up - a].map(|c| pose.outside(middle + c));
        out.plates.push(Plate {
            id: self.id * 4 + face,
            name: MARKS[self.mark].name,
            part: out.parts.len(),
            corners,
        });
        out.parts.push(Part {
            solid: Solid::cuboid(-half, half),
            pose: Pose {
                at: pose.outside(at),
                ..pose
            },
            paint: Paint::Mark(self.mark, height, self.colour),
            label: Label::Vehicle,
            moving,
        });
    }
}
