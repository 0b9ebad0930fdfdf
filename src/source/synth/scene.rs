//! Everything that stands or moves at one instant, arranged so that a ray tests few of it.
use rayon::prelude::*;

use super::ground::{self, Face};
use super::labels::Label;
use super::maths::{Pose, V, floor, v};
use super::paint::Paint;
use super::shape::Solid;

/// A solid in the street.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub solid: Solid,
    pub pose: Pose,
    pub paint: Paint,
    pub label: Label,
    pub moving: bool,
}

/// A soft dark patch on the ground under something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contact {
    pub pose: Pose,
    pub half: (f64, f64),
    pub soft: f64,
    pub strength: f32,
}

/// A mark on a vehicle: which part carries it, and its corners from the upper left of one who
/// reads it, clockwise.
#[derive(Clone, Debug)]
pub(crate) struct Plate {
    pub id: u32,
    pub name: &'static str,
    pub part: usize,
    pub corners: [V; 4],
}

/// What a street is made of at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub parts: Vec<Part>,
    pub contacts: Vec<Contact>,
    pub plates: Vec<Plate>,
}

/// Puts the parts of one object into the street.
pub(crate) struct Builder<'a> {
    out: &'a mut Content,
    pub pose: Pose,
    moving: bool,
    pub label: Label,
}

impl<'a> Builder<'a> {
    pub fn new(out: &'a mut Content, pose: Pose, moving: bool, label: Label) -> Self {
        Self {
            out,
            pose,
            moving,
            label,
        }
    }

    /// Adds a solid in the object's coordinates.
    pub fn add(&mut self, solid: Solid, paint: Paint) {
        self.add_at(solid, paint, V::default());
    }

    /// Adds a solid whose own origin, which its paint goes by, is at `at`.
    pub fn add_at(&mut self, solid: Solid, paint: Paint, at: V) {
        let pose = Pose {
            at: self.pose.outside(at),
            ..self.pose
        };
        self.out.parts.push(Part {
            solid,
            pose,
            paint,
            label: self.label,
            moving: self.moving,
        });
    }

    /// Darkens the ground under the object.
    pub fn contact(&mut self, half: (f64, f64), soft: f64, strength: f32) {
        self.out.contacts.push(Contact {
            pose: self.pose,
            half,
            soft,
            strength,
        });
    }
}

/// A pinhole camera in the street.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub at: V,
    pub right: V,
    pub down: V,
    pub ahead: V,
    pub focal: f64,
    pub cx: f64,
    pub cy: f64,
    pub width: usize,
    pub height: usize,
}

impl View {
    /// Direction of the ray through a place of the image; its length along the optical axis
    /// is 1, so that the ray's parameter is the depth.
    pub fn ray(&self, x: f64, y: f64) -> V {
        self.ahead
            + self.right * ((x - self.cx) / self.focal)
            + self.down * ((y - self.cy) / self.focal)
    }

    /// Camera coordinates of a point: right, down, depth.
    pub fn seen(&self, p: V) -> V {
        let q = p - self.at;
        v(q.dot(self.right), q.dot(self.down), q.dot(self.ahead))
    }

    /// Image coordinates of a point in camera coordinates with positive depth.
    pub fn project(&self, c: V) -> (f64, f64) {
        (
            self.cx + self.focal * c.x / c.z,
            self.cy + self.focal * c.y / c.z,
        )
    }
}

/// What a ray meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    Sky,
    Ground(Face),
    Part(usize, u8),
}

/// Where a ray ends; `depth` is infinite in the sky.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub depth: f64,
    pub what: What,
}

const CELL: f64 = 1.0;
const TILE: usize = 16;

/// Content with its index for rays from the sun.
pub(crate) struct Scene {
    pub content: Content,
    pub sun: V,
    origin: (f64, f64),
    cells: (usize, usize),
    casters: Vec<Vec<u32>>,
    patches: Vec<Vec<u32>>,
}

/// For each tile of an image the parts that may show there, by distance.
pub(crate) struct Tiles {
    across: usize,
    lists: Vec<Vec<(f64, u32)>>,
}

fn corners(lo: V, hi: V) -> [V; 8] {
    std::array::from_fn(|i| {
        v(
            if i & 1 == 0 { lo.x } else { hi.x },
            if i & 2 == 0 { lo.y } else { hi.y },
            if i & 4 == 0 { lo.z } else { hi.z },
        )
    })
}

impl Scene {
    /// Arranges `content` around the place `near` of the camera.
    pub fn new(content: Content, sun: V, near: V) -> Self {
        let origin = (floor(near.x) - 56.0, floor(near.z) - 20.0);
        let cells = (112, 300);
        let mut scene = Self {
            content,
            sun,
            origin,
            cells,
            casters: vec![Vec::new(); cells.0 * cells.1],
            patches: vec![Vec::new(); cells.0 * cells.1],
        };
        let drop = |p: V| {
            let k = p.y / sun.y;
            (p.x - sun.x * k, p.z - sun.z * k)
        };
        for (i, part) in scene.content.parts.iter().enumerate() {
            let foot = corners(part.solid.lo, part.solid.hi).map(|c| drop(part.pose.outside(c)));
            fill(&mut scene.casters, origin, cells, &foot, i as u32);
        }
        for (i, c) in scene.content.contacts.iter().enumerate() {
            let (x, z) = (c.half.0 + c.soft, c.half.1 + c.soft);
            let foot = corners(v(-x, 0.0, -z), v(x, 0.0, z)).map(|p| {
                let p = c.pose.outside(p);
                (p.x, p.z)
            });
            fill(&mut scene.patches, origin, cells, &foot, i as u32);
        }
        scene
    }

    fn cell(&self, x: f64, z: f64) -> Option<usize> {
        let (i, j) = ((x - self.origin.0) / CELL, (z - self.origin.1) / CELL);
        let (nx, nz) = (self.cells.0 as f64, self.cells.1 as f64);
        (i >= 0.0 && j >= 0.0 && i < nx && j < nz).then(|| j as usize * self.cells.0 + i as usize)
    }

    /// Whether the sun reaches a point.
    pub fn sunlit(&self, p: V) -> bool {
        let k = p.y / self.sun.y;
        let Some(cell) = self.cell(p.x - self.sun.x * k, p.z - self.sun.z * k) else {
            return true;
        };
        !self.casters[cell].iter().any(|&i| {
            let part = &self.content.parts[i as usize];
            let (o, d) = (part.pose.inside(p), part.pose.turn_in(self.sun));
            part.solid.hit(o, d, 1e9).is_some()
        })
    }

    /// How much sky light reaches the ground at a point, 0 to 1.
    pub fn openness(&self, p: V) -> f32 {
        let Some(cell) = self.cell(p.x, p.z) else {
            return 1.0;
        };
        let mut open = 1.0;
        for &i in &self.patches[cell] {
            let c = &self.content.contacts[i as usize];
            let q = c.pose.inside(p);
            let (dx, dz) = (
                (q.x.abs() - c.half.0).max(0.0),
                (q.z.abs() - c.half.1).max(0.0),
            );
            let r = (dx * dx + dz * dz).sqrt() / c.soft;
            if r < 1.0 {
                let k = ((1.0 - r) * (1.0 - r)) as f32;
                open *= 1.0 - c.strength * k;
            }
        }
        open
    }

    /// Sorts the parts into the tiles of a camera's image.
    pub fn tiles(&self, view: &View) -> Tiles {
        let across = view.width.div_ceil(TILE);
        let down = view.height.div_ceil(TILE);
        let mut lists = vec![Vec::new(); across * down];
        for (i, part) in self.content.parts.iter().enumerate() {
            let Some((near, x, y)) = extent(view, part) else {
                continue;
            };
            let clip = |(lo, hi): (f64, f64), n: usize| {
                let lo = ((lo - 1.5) / TILE as f64).max(0.0) as usize;
                let hi = (hi + 1.5) / TILE as f64;
                lo..if hi < 0.0 {
                    0
                } else {
                    (hi as usize + 1).min(n)
                }
            };
            for ty in clip(y, down) {
                for tx in clip(x, across) {
                    lists[ty * across + tx].push((near, i as u32));
                }
            }
        }
        lists
            .par_iter_mut()
            .for_each(|list| list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))));
        Tiles { across, lists }
    }

    /// What the ray through a place of the image meets first.
    pub fn trace(&self, view: &View, tiles: &Tiles, x: f64, y: f64) -> (V, Hit) {
        let d = view.ray(x, y);
        let mut hit = Hit {
            depth: f64::INFINITY,
            what: What::Sky,
        };
        if let Some((depth, face)) = ground::hit(view.at, d) {
            hit = Hit {
                depth,
                what: What::Ground(face),
            };
        }
        let clip = |x: f64, n: usize| (x.max(0.0) as usize).min(n - 1) / TILE;
        let tile = clip(y, view.height) * tiles.across + clip(x, view.width);
        for &(near, i) in &tiles.lists[tile] {
            if near >= hit.depth {
                break;
            }
            let part = &self.content.parts[i as usize];
            let (o, l) = (part.pose.inside(view.at), part.pose.turn_in(d));
            if let Some((depth, face)) = part.solid.hit(o, l, hit.depth) {
                hit = Hit {
                    depth,
                    what: What::Part(i as usize, face),
                };
            }
        }
        (d, hit)
    }
}

fn fill(
    lists: &mut [Vec<u32>],
    origin: (f64, f64),
    cells: (usize, usize),
    foot: &[(f64, f64)],
    item: u32,
) {
    let range = |get: fn(&(f64, f64)) -> f64, o: f64, n: usize| {
        let lo = foot.iter().map(get).fold(f64::INFINITY, f64::min);
        let hi = foot.iter().map(get).fold(f64::NEG_INFINITY, f64::max);
        let lo = ((lo - o) / CELL).max(0.0) as usize;
        let hi = (hi - o) / CELL;
        lo..if hi < 0.0 {
            0
        } else {
            (hi as usize + 1).min(n)
        }
    };
    for j in range(|p| p.1, origin.1, cells.1) {
        for i in range(|p| p.0, origin.0, cells.0) {
            lists[j * cells.0 + i].push(item);
        }
    }
}

/// From a smallest to a largest place.
type Span = (f64, f64);

/// Smallest depth and the image rectangle of a part's box; `None` behind the camera.
fn extent(view: &View, part: &Part) -> Option<(f64, Span, Span)> {
    const NEAR: f64 = 0.1;
    let at = corners(part.solid.lo, part.solid.hi).map(|c| view.seen(part.pose.outside(c)));
    let mut near = f64::INFINITY;
    let (mut x, mut y) = (
        (f64::INFINITY, f64::NEG_INFINITY),
        (f64::INFINITY, f64::NEG_INFINITY),
    );
    let mut add = |c: V| {
        let (px, py) = view.project(c);
        near = near.min(c.z);
        x = (x.0.min(px), x.1.max(px));
        y = (y.0.min(py), y.1.max(py));
    };
    for (i, &a) in at.iter().enumerate() {
        if a.z >= NEAR {
            add(a);
        }
        for bit in [1, 2, 4] {
            let b = at[i ^ bit];
            if a.z < NEAR && b.z >= NEAR {
                add(a + (b - a) * ((NEAR - a.z) / (b.z - a.z)));
            }
        }
    }
    (near < f64::INFINITY).then_some((near, x, y))
}
