//! The files of a frame to a frame set.
use std::{io::ErrorKind, path::Path};

use super::{
    Drive, FrameFiles, MonoSegment, Segment, StereoFiles, StereoSegment, drive::Stored,
    mcap::RecordedLoader, prefetch::WARNINGS, prepare::Prepare,
};
use crate::frame::{FrameSet, Gap, INVALID, Image, MonoFrame, MonoImage, Size, StereoFrame};
use crate::picture::{Picture, PictureError, PictureReader};

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
    stereo: Option<StereoLoader>,
    mono: Option<MonoLoader>,
    reader: PictureReader,
    recorded: Option<RecordedLoader>,
}

struct StereoLoader {
    segment: StereoSegment,
    stored: StoredUnits,
    // One for each kind of file, so that their memory keeps its kind and size.
    left: Picture,
    right: Picture,
    disparity: Picture,
}

struct MonoLoader {
    segment: MonoSegment,
    picture: Picture,
    /// Pictures that could not be read beside a stereo frame.
    faults: usize,
}

impl Loader {
    pub fn new(drive: &Drive, segment: &Segment) -> Self {
        Self {
            stereo: segment.stereo.clone().map(|segment| StereoLoader {
                segment,
                stored: StoredUnits::new(drive.stored),
                left: Picture::default(),
                right: Picture::default(),
                disparity: Picture::default(),
            }),
            mono: segment.mono.clone().map(|segment| MonoLoader {
                segment,
                picture: Picture::default(),
                faults: 0,
            }),
            reader: PictureReader::new(),
            recorded: drive.recording.clone().map(RecordedLoader::new),
        }
    }

    /// A frame set of the shape that this segment fills.
    pub fn frame_set(&self) -> FrameSet {
        let stereo = self.stereo.as_ref().map(|s| s.segment.frame());
        FrameSet {
            stereo,
            mono: self.mono.as_ref().map(|m| m.segment.frame()),
            ..FrameSet::default()
        }
    }

    /// Whether a frame set has that shape.
    pub fn fits(&self, set: &FrameSet) -> bool {
        let stereo = match (&self.stereo, &set.stereo) {
            (Some(loader), Some(frame)) => loader.segment.fits(frame),
            (None, None) => true,
            _ => false,
        };
        let mono = match (&self.mono, &set.mono) {
            (Some(loader), Some(frame)) => loader.segment.fits(frame),
            (None, None) => true,
            _ => false,
        };
        stereo && mono
    }

    /// Fills a frame set that fits. After a fault it holds anything.
    pub fn load(&mut self, files: &FrameFiles, set: &mut FrameSet) -> Result<(), Fault> {
        set.id = files.id;
        set.speed_mps = files.speed_mps;
        if let Some(recorded) = &mut self.recorded {
            let stereo = self.stereo.as_ref().map(|s| &s.segment);
            let mono = self.mono.as_ref().map(|m| &m.segment);
            return recorded.load(files.id.index, (stereo, mono), set);
        }
        if let (Some(loader), Some(files), Some(frame)) =
            (&mut self.stereo, &files.stereo, &mut set.stereo)
        {
            loader.load(&mut self.reader, files, frame)?;
        }
        let (Some(loader), Some(frame)) = (&mut self.mono, &mut set.mono) else {
            return Ok(());
        };
        let Some(file) = &files.mono else {
            frame.gap = Some(Gap::Unsynchronised);
            return Ok(());
        };
        frame.gap = None;
        frame.timestamp = file.timestamp;
        let loaded = loader.load(&mut self.reader, &file.file, &mut frame.image);
        match loaded {
            // The street does not go with the mono camera.
            Err(fault) if self.stereo.is_some() => {
                frame.gap = Some(fault.gap);
                loader.tell(files.id.index, &fault);
                Ok(())
            }
            loaded => loaded,
        }
    }
}

/// A frame set of the shape of a segment's.
pub fn frame_set(segment: &Segment) -> FrameSet {
    FrameSet {
        stereo: segment.stereo.as_ref().map(StereoSegment::frame),
        mono: segment.mono.as_ref().map(MonoSegment::frame),
        ..FrameSet::default()
    }
}

impl StereoLoader {
    fn load(
        &mut self,
        reader: &mut PictureReader,
        files: &StereoFiles,
        frame: &mut StereoFrame,
    ) -> Result<(), Fault> {
        let StereoSegment {
            file_size, prepare, ..
        } = &self.segment;
        read(reader, &files.left, *file_size, &mut self.left)?;
        if let (Some(path), Some(_)) = (&files.right, &frame.right) {
            read(reader, path, *file_size, &mut self.right)?;
        }
        if let (Some(path), Some(stored)) = (&files.disparity, &mut frame.stored_disparity) {
            read(reader, path, *file_size, &mut self.disparity)?;
            self.stored
                .read(prepare, &self.disparity, stored)
                .map_err(|text| Fault {
                    gap: Gap::Unreadable,
                    text: format!("{}: {text}", path.display()),
                })?;
        }
        prepare.grey(&self.left, &mut frame.left);
        if let Some(rgb) = &mut frame.left_rgb {
            prepare.rgb(&self.left, rgb);
        }
        if let Some(right) = &mut frame.right {
            prepare.grey(&self.right, right);
        }
        Ok(())
    }
}

impl MonoLoader {
    fn load(
        &mut self,
        reader: &mut PictureReader,
        path: &Path,
        image: &mut MonoImage,
    ) -> Result<(), Fault> {
        let MonoSegment {
            file_size, prepare, ..
        } = &self.segment;
        read(reader, path, *file_size, &mut self.picture)?;
        if prepare.mono(&self.picture, image) {
            return Ok(());
        }
        let (found, first) = (self.picture.kind(), image.kind().name());
        Err(Fault {
            gap: Gap::Unreadable,
            text: format!("{}: {found}, but the first is {first}", path.display()),
        })
    }

    fn tell(&mut self, frame: usize, fault: &Fault) {
        self.faults += 1;
        let level = if self.faults <= WARNINGS {
            log::Level::Warn
        } else {
            log::Level::Debug
        };
        log::log!(
            level,
            "frame {frame}: no mono picture: {}: {}",
            fault.gap,
            fault.text
        );
    }
}

impl StereoSegment {
    fn frame(&self) -> StereoFrame {
        let Size { width, height } = self.size;
        StereoFrame {
            left: Image::new(width, height),
            right: self.has_right.then(|| Image::new(width, height)),
            left_rgb: self.colour.then(|| Image::new(width, height)),
            stored_disparity: self
                .stored_disparity
                .then(|| Image::filled(width, height, INVALID)),
        }
    }

    fn fits(&self, frame: &StereoFrame) -> bool {
        let of = |size: Option<Size>, wanted: bool| size == wanted.then_some(self.size);
        frame.left.size() == self.size
            && of(frame.right.as_ref().map(Image::size), self.has_right)
            && of(frame.left_rgb.as_ref().map(Image::size), self.colour)
            && of(
                frame.stored_disparity.as_ref().map(Image::size),
                self.stored_disparity,
            )
    }
}

impl MonoSegment {
    fn frame(&self) -> MonoFrame {
        MonoFrame::new(self.kind, self.size)
    }

    fn fits(&self, frame: &MonoFrame) -> bool {
        (frame.image.kind(), frame.image.size()) == (self.kind, self.size)
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
