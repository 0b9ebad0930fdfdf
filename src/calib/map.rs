use super::View;
use crate::frame::{Image, Size};

/// One pixel in the units of a [`RectifyMap`].
pub const MAP_ONE: i32 = 256;

/// The map's code for a pixel that no pixel of the source shows.
pub const OUTSIDE: [i32; 2] = [i32::MIN; 2];

/// For each rectified pixel, where it lies in the raw image: `[x, y]` in 1/256 px, rounded to
/// the nearest, within `0..=256 (width - 1)` and `0..=256 (height - 1)`; or [`OUTSIDE`].
///
/// What lies up to half a pixel beyond the outermost pixel centres, still on these pixels, is
/// moved to them; what lies further out is [`OUTSIDE`].
#[derive(Clone, Debug, PartialEq)]
pub struct RectifyMap {
    source: Size,
    entries: Image<[i32; 2]>,
}

impl RectifyMap {
    /// The map of one camera's view to an image of `size`.
    pub(super) fn new(view: &View, size: Size) -> Self {
        let entries = Image::from_fn(size.width, size.height, |x, y| {
            view.raw_of([x as f64, y as f64])
                .and_then(|[u, v]| Some([fixed(u, size.width)?, fixed(v, size.height)?]))
                .unwrap_or(OUTSIDE)
        });
        Self {
            source: size,
            entries,
        }
    }

    /// Size of the raw image.
    pub fn source_size(&self) -> Size {
        self.source
    }

    /// The entries, one a rectified pixel.
    pub fn entries(&self) -> &Image<[i32; 2]> {
        &self.entries
    }

    /// Where the rectified pixel `(x, y)` lies in the raw image, in 1/256 px; `None` outside.
    ///
    /// # Panics
    /// When `(x, y)` is not in the rectified image.
    pub fn source_of(&self, x: usize, y: usize) -> Option<[i32; 2]> {
        let entry = self.entries.get(x, y);
        (entry != OUTSIDE).then_some(entry)
    }
}

fn fixed(at: f64, side: usize) -> Option<i32> {
    let end = side as f64 - 1.0;
    (at >= -0.5 && at <= end + 0.5)
        .then(|| (at.clamp(0.0, end) * f64::from(MAP_ONE) + 0.5).floor() as i32)
}
