//! The files of a frame to a frame set.
use std::{io::ErrorKind, path::Path};

use super::{
    Drive, FrameFiles, Segment,
    drive::Stored,
    picture::{Picture, PictureError, PictureReader},
    prepare::Prepare,
};
use crate::frame::{FrameSet, Gap, INVALID, Image, Size};

/// Why a frame is a gap.
#[derive(Debug)]
pub(super) struct Fault {
    pub gap: Gap,
    /// Names the file.
    pub text: String,
}

impl Fault {
    /// Left out because it would be of no use any more.
    pub fn dropped() -> Self {
        Self {
            gap: Gap::Dropped,
            text: "not decoded, its deadline has passed".into(),
        }
    }
}

/// Reads the frames of one segment, keeping its memory.
pub(super) struct Loader {
    file_size: Size,
    prepare: Prepare,
    stored: StoredUnits,
    size: Size,
    colour: bool,
    has_right: bool,
    stored_disparity: bool,
    reader: PictureReader,
    // One for each kind of file, so that their memory keeps its kind and size.
    left: Picture,
    right: Picture,
    disparity: Picture,
}

impl Loader {
    pub fn new(drive: &Drive, segment: &Segment) -> Self {
        Self {
            file_size: segment.file_size,
            prepare: segment.prepare.clone(),
            stored: StoredUnits::new(drive.stored),
            size: segment.size,
            colour: segment.colour,
            has_right: segment.has_right,
            stored_disparity: segment.stored_disparity,
            reader: PictureReader::new(),
            left: Picture::default(),
            right: Picture::default(),
            disparity: Picture::default(),
        }
    }

    /// A frame set of the shape that this segment fills.
    pub fn frame_set(&self) -> FrameSet {
        let Size { width, height } = self.size;
        FrameSet {
            id: Default::default(),
            left: Image::new(width, height),
            right: self.has_right.then(|| Image::new(width, height)),
            left_rgb: self.colour.then(|| Image::new(width, height)),
            stored_disparity: self
                .stored_disparity
                .then(|| Image::filled(width, height, INVALID)),
        }
    }

    /// Whether a frame set has that shape.
    pub fn fits(&self, set: &FrameSet) -> bool {
        let of = |size: Option<Size>, wanted: bool| size == wanted.then_some(self.size);
        set.left.size() == self.size
            && of(set.right.as_ref().map(Image::size), self.has_right)
            && of(set.left_rgb.as_ref().map(Image::size), self.colour)
            && of(
                set.stored_disparity.as_ref().map(Image::size),
                self.stored_disparity,
            )
    }

    /// Fills a frame set that fits. After a fault it holds anything.
    pub fn load(&mut self, files: &FrameFiles, set: &mut FrameSet) -> Result<(), Fault> {
        set.id = files.id;
        read(
            &mut self.reader,
            &files.left,
            self.file_size,
            &mut self.left,
        )?;
        if let (Some(path), Some(_)) = (&files.right, &set.right) {
            read(&mut self.reader, path, self.file_size, &mut self.right)?;
        }
        if let (Some(path), Some(stored)) = (&files.disparity, &mut set.stored_disparity) {
            read(&mut self.reader, path, self.file_size, &mut self.disparity)?;
            self.stored
                .read(&self.prepare, &self.disparity, stored)
                .map_err(|text| Fault {
                    gap: Gap::Unreadable,
                    text: format!("{}: {text}", path.display()),
                })?;
        }
        self.prepare.grey(&self.left, &mut set.left);
        if let Some(rgb) = &mut set.left_rgb {
            self.prepare.rgb(&self.left, rgb);
        }
        if let Some(right) = &mut set.right {
            self.prepare.grey(&self.right, right);
        }
        Ok(())
    }
}

fn read(
    reader: &mut PictureReader,
    path: &Path,
    size: Size,
    picture: &mut Picture,
) -> Result<(), Fault> {
    let fault = |gap, text: &dyn std::fmt::Display| Fault {
        gap,
        text: format!("{}: {text}", path.display()),
    };
    reader
        .read_into(path, picture)
        .map_err(|error| match &error {
            PictureError::Io(e) if e.kind() == ErrorKind::NotFound => {
                fault(Gap::Missing, &"the file is missing")
            }
            _ => fault(Gap::Unreadable, &error),
        })?;
    if picture.size() != size {
        let text = format!("{} px, but the first has {size} px", picture.size());
        return Err(fault(Gap::SizeChanged, &text));
    }
    Ok(())
}

/// Stored disparities to 1/256 px.
pub(super) struct StoredUnits {
    /// For 8-bit files.
    table: Option<[u16; 256]>,
    zero_is_measured: bool,
}

impl StoredUnits {
    /// The table holds `scale * 256 * v`, rounded, at most the largest disparity.
    pub fn new(stored: Stored) -> Self {
        let unit = |scale: f64, v: usize| {
            let d = (v as f64 * scale * 256.0).round();
            d.min(f64::from(INVALID - 1)) as u16
        };
        Self {
            table: stored
                .scale
                .map(|scale| std::array::from_fn(|v| unit(scale, v))),
            zero_is_measured: stored.zero_is_measured,
        }
    }

    fn read(
        &self,
        prepare: &Prepare,
        picture: &Picture,
        out: &mut Image<u16>,
    ) -> Result<(), &'static str> {
        let keep_zero = self.zero_is_measured;
        let valid = |measured: bool, d: u16| if measured || keep_zero { d } else { INVALID };
        match (picture, &self.table) {
            // 65535 is INVALID already.
            (Picture::Grey16(image), _) => prepare.disparity(image, |v| valid(v > 0, v), out),
            (Picture::Grey8(image), Some(table)) => {
                prepare.disparity(image, |v| valid(v > 0, table[usize::from(v)]), out);
            }
            (Picture::Grey8(_), None) => {
                return Err("8-bit, but [source] disparity_scale is not set");
            }
            (Picture::Rgb8(_), _) => return Err("RGB, expected 16-bit or 8-bit grey"),
        }
        Ok(())
    }
}
