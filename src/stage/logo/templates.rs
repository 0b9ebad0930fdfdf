//! The logos that are looked for: from pictures to descriptors, and the file that keeps them.
//!
//! # The file
//! | bytes | what |
//! |---|---|
//! | 8 | `RL-LOGOS` |
//! | 4 | version, little-endian: [`VERSION`] |
//! | 8 | length of the rest after the checksum, little-endian |
//! | 4 | CRC-32 of that rest (IEEE), little-endian |
//! | n | [postcard](https://postcard.jamesmunns.com): which descriptors, then each template |
//!
//! A file that is cut, damaged, of another version or of another program is refused before
//! anything in it is believed.
mod build;
mod error;
mod file;

use super::{
    align::Face,
    features::{Descriptor, FeatureParams, Mode},
};
use crate::frame::{Image, Size};

pub use build::BuildOptions;
pub use error::TemplatesError;
pub use file::VERSION;

/// Most templates.
pub const MAX_TEMPLATES: usize = 256;

/// Most descriptors of a template.
pub const MAX_POINTS: usize = 4096;

/// Pixels of the pictures that are laid over frames: coarse, fine.
const FACE_AREAS: [usize; 2] = [700, 2500];

/// Which descriptors: those of frames must be of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Kind {
    /// Which detector and pattern.
    pub mode: Mode,
    /// Whether the pattern turns with the keypoint.
    pub oriented: bool,
    /// Whether it grows with the keypoint.
    pub scaled: bool,
}

impl Kind {
    /// What features of these parameters give.
    pub fn of(params: &FeatureParams) -> Self {
        Self {
            mode: params.mode,
            oriented: params.oriented,
            scaled: params.scaled,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            mode,
            oriented,
            scaled,
        } = self;
        let mode = match mode {
            Mode::ScaleSpace => "scale_space",
            Mode::Paper => "paper",
        };
        write!(f, "mode = {mode}, oriented = {oriented}, scaled = {scaled}")
    }
}

/// A keypoint of a template, in the logo's plane: origin in the middle of the picture, x to the
/// right, y down, the picture is 1 high.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Point {
    /// Place.
    pub x: f32,
    /// Place.
    pub y: f32,
    /// Scale, in heights of the picture.
    pub sigma: f32,
    /// Direction, as that of a [`super::features::Keypoint`].
    pub angle: u16,
    /// 1: darker than its surroundings; -1: brighter.
    pub sign: i8,
}

/// A picture at one size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Patch {
    pub grey: Image<u8>,
    /// 1 where it counts, else 0.
    pub mask: Image<u8>,
}

/// One logo.
#[derive(Clone, Debug)]
pub struct Template {
    name: String,
    size: Size,
    points: Vec<Point>,
    descriptors: Vec<Descriptor>,
    groups: Vec<u32>,
    patches: [Patch; FACE_AREAS.len()],
    faces: [Face; FACE_AREAS.len()],
}

impl Template {
    /// Puts together what a file or a picture gave; the text says what is wrong.
    fn new(
        name: String,
        size: Size,
        points: Vec<Point>,
        descriptors: Vec<Descriptor>,
        patches: [Patch; FACE_AREAS.len()],
    ) -> Result<Self, &'static str> {
        let aspect = size.width as f64 / size.height as f64;
        let face =
            |p: &Patch| Face::new(aspect, &p.grey, &p.mask).ok_or("a picture without contrast");
        Ok(Self {
            faces: [face(&patches[0])?, face(&patches[1])?],
            groups: groups(&points),
            name,
            size,
            points,
            descriptors,
            patches,
        })
    }

    /// Its name: that of the picture's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size of the picture it was made from, px.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Width by height of the picture.
    pub fn aspect(&self) -> f64 {
        self.size.width as f64 / self.size.height as f64
    }

    /// Its keypoints, of all sizes.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// A descriptor for each point.
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// For each point the number of the place it stands for: points of one place, found at
    /// several sizes and angles, are no rivals of each other
    /// ([`super::features::matcher::two_nearest_apart`]).
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// The coarse and the fine picture.
    pub(super) fn faces(&self) -> &[Face; FACE_AREAS.len()] {
        &self.faces
    }
}

/// Points nearer than one and a half times their smaller scale are one place, that of the first.
fn groups(points: &[Point]) -> Vec<u32> {
    let mut leaders: Vec<Point> = Vec::new();
    points
        .iter()
        .map(|p| {
            let found = leaders.iter().position(|l| {
                let (dx, dy) = (p.x - l.x, p.y - l.y);
                let reach = 1.5 * p.sigma.min(l.sigma);
                dx * dx + dy * dy < reach * reach
            });
            found.unwrap_or_else(|| {
                leaders.push(*p);
                leaders.len() - 1
            }) as u32
        })
        .collect()
}

/// All logos that are looked for, by name.
#[derive(Clone, Debug)]
pub struct Templates {
    kind: Kind,
    list: Vec<Template>,
}

impl Templates {
    /// Which descriptors.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The logos in the order of their names; [`crate::frame::Logo::template`] is the place here.
    pub fn list(&self) -> &[Template] {
        &self.list
    }

    /// Their names, in that order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(Template::name)
    }

    /// Most pixels of a coarse or fine picture.
    pub(super) fn most_samples(&self) -> usize {
        let all = self.list.iter().flat_map(|t| &t.faces);
        all.map(Face::len).max().unwrap_or(0)
    }
}
