//! What a frame's results should be.
use super::labels::Label;
use super::maths::V;
use super::render::Field;
use super::scene::{Scene, Tiles, View, What};
use crate::frame::{Camera, Class, Disparity, INVALID, Image, Stixel, Stixels};

/// Images of truth.
pub(crate) struct Images {
    pub disparity: Disparity,
    pub depth: Image<u16>,
    pub labels: Image<u8>,
    pub moving: Image<u8>,
}

/// Reads the truth off the rays through the pixels' centres.
pub(crate) fn of_field(field: &Field, scene: &Scene, camera: &Camera) -> Images {
    let (w, h) = (field.width, field.height);
    let at = |x: usize, y: usize| &field.pixels[y * w + x];
    let scale = camera.focal_px * camera.baseline_m * 256.0;
    Images {
        disparity: Image::from_fn(w, h, |x, y| {
            let d = scale / at(x, y).depth + 0.5;
            // Nearer than the code reaches (256 px) can't be said; the sky's depth is infinite.
            if d < 1.0 || d >= f64::from(INVALID) {
                if at(x, y).what == What::Sky || d >= 1.0 {
                    INVALID
                } else {
                    1
                }
            } else {
                d as u16
            }
        }),
        depth: Image::from_fn(w, h, |x, y| {
            let z = at(x, y).depth * 256.0 + 0.5;
            if z < 65_536.0 { z as u16 } else { 0 }
        }),
        labels: Image::from_fn(w, h, |x, y| at(x, y).label.id()),
        moving: Image::from_fn(w, h, |x, y| match at(x, y).what {
            What::Part(i, _) if scene.content.parts[i].moving => 255,
            _ => 0,
        }),
    }
}

/// How well a mark can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoState {
    /// Wholly, but for at most a twentieth.
    Visible,
    /// In part: behind something, or across the edge of the image.
    Partial,
}

impl LogoState {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            LogoState::Visible => "visible",
            LogoState::Partial => "partial",
        }
    }
}

/// A mark on a vehicle in the left image.
#[derive(Clone, Debug, PartialEq)]
pub struct Logo {
    /// The same for the same mark of the same vehicle throughout a drive.
    pub id: u32,
    /// Which mark.
    pub name: &'static str,
    /// How well it can be seen.
    pub state: LogoState,
    /// Corners (x, y) in px: the mark's own upper left, upper right, lower right, lower left.
    pub quad: [(f64, f64); 4],
    /// Fraction of its face that can be seen, 0 to 1.
    pub visible: f64,
}

/// Marks of which at least a quarter can be seen and which span 150 px² or more.
pub(crate) fn logos(scene: &Scene, view: &View, tiles: &Tiles) -> Vec<Logo> {
    let mut found = Vec::new();
    for plate in &scene.content.plates {
        let seen = plate.corners.map(|c| view.seen(c));
        if seen.iter().any(|c| c.z < 0.3) {
            continue;
        }
        let quad = seen.map(|c| view.project(c));
        // Twice the area, positive when the corners run clockwise on screen: facing us.
        let mut area = 0.0;
        for (i, &(x0, y0)) in quad.iter().enumerate() {
            let (x1, y1) = quad[(i + 1) % 4];
            area += x0 * y1 - x1 * y0;
        }
        if area < 2.0 * 150.0 {
            continue;
        }
        let inside = |(x, y): (f64, f64)| {
            x >= 0.0 && y >= 0.0 && x <= (view.width - 1) as f64 && y <= (view.height - 1) as f64
        };
        let (across, down) = (20, 8);
        let mut hits = 0;
        for j in 0..down {
            for i in 0..across {
                let (a, b) = (
                    (f64::from(i) + 0.5) / f64::from(across),
                    (f64::from(j) + 0.5) / f64::from(down),
                );
                let [p, q, _, s] = plate.corners;
                let point: V = p + (q - p) * a + (s - p) * b;
                let at = view.project(view.seen(point));
                if inside(at) {
                    let (_, hit) = scene.trace(view, tiles, at.0, at.1);
                    hits += usize::from(matches!(hit.what, What::Part(n, _) if n == plate.part));
                }
            }
        }
        let visible = hits as f64 / f64::from(across * down);
        if visible < 0.25 {
            continue;
        }
        let whole = visible >= 0.95 && quad.iter().all(|&c| inside(c));
        found.push(Logo {
            id: plate.id,
            name: plate.name,
            state: if whole {
                LogoState::Visible
            } else {
                LogoState::Partial
            },
            quad,
            visible,
        });
    }
    found.sort_by_key(|logo| logo.id);
    found
}

/// The stixels that labels and disparities of the pixels amount to.
///
/// A row of a column has the class that most of its labelled pixels have (object before ground
/// before sky on a tie; the class of the row above where nothing is labelled, ground at the
/// top) and the mean disparity of the pixels of that class. Rows of one class are one stixel,
/// except that an object ends where a row's disparity differs from the mean so far by more than
/// 1 px and more than 6 %. A column at the right edge that is not of full width is left out.
/// Disparity is the mean over the stixel's rows; 0 for sky.
pub fn stixels(labels: &Image<u8>, disparity: &Disparity, stixel_width: usize) -> Stixels {
    let columns = labels.width() / stixel_width.max(1);
    let lists: Vec<Vec<Stixel>> = (0..columns)
        .map(|u| column(labels, disparity, u * stixel_width, stixel_width))
        .collect();
    let capacity = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = Stixels::new(columns, stixel_width, capacity.min(usize::from(u16::MAX)));
    let (counts, rooms) = out.columns_mut();
    for ((count, room), list) in counts.iter_mut().zip(rooms).zip(&lists) {
        *count = list.len() as u16;
        room[..list.len()].copy_from_slice(list);
    }
    out
}

/// A stixel in the making.
struct Run {
    class: Class,
    top: usize,
    /// Sum and number of the rows' mean disparities, 1/256 px.
    sum: u64,
    rows: u64,
}

impl Run {
    fn close(&self, end: usize) -> Stixel {
        let disparity = match (self.class, self.rows) {
            (Class::Sky, _) => 0,
            (_, 0) => INVALID,
            (_, n) => ((self.sum + n / 2) / n) as u16,
        };
        Stixel {
            class: self.class,
            top: self.top as u16,
            base: (end - 1) as u16,
            disparity,
            confidence: 255,
        }
    }
}

fn column(labels: &Image<u8>, disparity: &Disparity, x: usize, width: usize) -> Vec<Stixel> {
    let mut list = Vec::new();
    let mut run: Option<Run> = None;
    for y in 0..labels.height() {
        let class_of = |id: u8| Label::from_id(id).and_then(Label::stixel_class);
        let row = &labels.row(y)[x..x + width];
        let votes = |class| {
            row.iter()
                .filter(|&&id| class_of(id) == Some(class))
                .count()
        };
        let mut best = (0, run.as_ref().map_or(Class::Ground, |r| r.class));
        for class in [Class::Object, Class::Ground, Class::Sky] {
            let n = votes(class);
            if n > best.0 {
                best = (n, class);
            }
        }
        let class = best.1;
        let (mut sum, mut n) = (0u64, 0u64);
        for (&id, &d) in row.iter().zip(&disparity.row(y)[x..x + width]) {
            if class_of(id) == Some(class) && d != INVALID {
                sum += u64::from(d);
                n += 1;
            }
        }
        let d = (n > 0).then(|| (sum + n / 2) / n);
        let cut = run.as_ref().is_some_and(|r| {
            r.class != class
                || match d {
                    Some(d) if class == Class::Object && r.rows > 0 => {
                        let mean = r.sum / r.rows;
                        let gap = d.abs_diff(mean);
                        gap > 256 && gap * 100 > mean * 6
                    }
                    _ => false,
                }
        });
        if cut {
            list.extend(run.take().map(|r| r.close(y)));
        }
        let r = run.get_or_insert(Run {
            class,
            top: y,
            sum: 0,
            rows: 0,
        });
        if let Some(d) = d {
            r.sum += d;
            r.rows += 1;
        }
    }
    list.extend(run.map(|r| r.close(labels.height())));
    list
}
