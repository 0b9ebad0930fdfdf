//! What is in a box, as messages in the open file.
use std::collections::BTreeMap;

use mcap::McapError;

use super::{Encoding, Job, Kind, RecordConfig, series::Series};
use crate::{
    frame::{FrameId, FrameSet, Gap, Image, Mask, MonoImage, Size, Timestamp},
    recording::{
        Topic,
        cdr::CdrWriter,
        message::{self, CameraInfo, LEFT_FRAME, MONO_FRAME},
    },
};

/// Gaps that are kept until there is a file.
const EARLY: usize = 1024;

/// What all files of a recording have in common, for frames of one shape.
pub struct Constant {
    /// The metadata record.
    pub about: BTreeMap<String, String>,
    pub infos: Option<[CameraInfo; 2]>,
    pub mask: Option<Mask>,
    pub mono_mask: Option<Mask>,
    pub logo_names: Vec<String>,
}

/// Writes boxes.
pub struct Scribe {
    constant: Constant,
    png: bool,
    disparity: bool,
    foreground: bool,
    message: CdrWriter,
    /// Samples of a picture before they are compressed, and the file.
    samples: Vec<u8>,
    file: Vec<u8>,
    early: Vec<(FrameId, Gap)>,
}

/// How a picture's pixels are written.
struct Pixels {
    /// As the message has it.
    encoding: &'static str,
    bytes: usize,
    colour: png::ColorType,
    depth: png::BitDepth,
}

const GREY8: Pixels = Pixels {
    encoding: "mono8",
    bytes: 1,
    colour: png::ColorType::Grayscale,
    depth: png::BitDepth::Eight,
};
const MONO16: Pixels = Pixels {
    encoding: "mono16",
    bytes: 2,
    depth: png::BitDepth::Sixteen,
    ..GREY8
};
const DEPTH16: Pixels = Pixels {
    encoding: "16UC1",
    ..MONO16
};
const RGB8: Pixels = Pixels {
    encoding: "rgb8",
    bytes: 3,
    colour: png::ColorType::Rgb,
    ..GREY8
};

impl Scribe {
    pub fn new(config: &RecordConfig, constant: Constant) -> Self {
        Self {
            constant,
            png: config.compression == Encoding::Png,
            disparity: config.disparity,
            foreground: config.foreground,
            message: CdrWriter::default(),
            samples: Vec::new(),
            file: Vec::new(),
            early: Vec::new(),
        }
    }

    /// Writes what is in a box.
    pub fn write(&mut self, job: &Job, to: &mut Series) -> Result<(), McapError> {
        // A chunk that this would make too long is closed before.
        to.tick(Some(job.stamp()))?;
        match job.kind {
            Kind::Gap(id, gap) if !to.is_open() => {
                // More than this at a start says nothing more.
                if self.early.len() < EARLY {
                    self.early.push((id, gap));
                }
                return Ok(());
            }
            Kind::Gap(id, gap) => self.gap(id, gap, to)?,
            Kind::Frame => {
                if job.new_file {
                    self.begin(job, to)?;
                }
                self.frame(job, to)?;
            }
        }
        to.tick(None)
    }

    fn begin(&mut self, job: &Job, to: &mut Series) -> Result<(), McapError> {
        to.rotate(&self.constant.about)?;
        let id = job.result.id;
        if let Some(mask) = self.constant.mask.take() {
            let result = self.grey(Topic::Mask, id.index, id.timestamp, &mask, to);
            self.constant.mask = Some(mask);
            result?;
        }
        if let Some(mask) = self.constant.mono_mask.take() {
            let result = self.grey(Topic::MonoMask, id.index, id.timestamp, &mask, to);
            self.constant.mono_mask = Some(mask);
            result?;
        }
        if !job.state.is_empty() {
            message::state(&mut self.message, id, &job.state);
            let message = self.message.message();
            to.write(Topic::State, false, id.index, id.timestamp, message)?;
        }
        for (id, gap) in std::mem::take(&mut self.early) {
            self.gap(id, gap, to)?;
        }
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap, to: &mut Series) -> Result<(), McapError> {
        message::gap(&mut self.message, id, gap);
        to.write(
            Topic::Gap,
            false,
            id.index,
            id.timestamp,
            self.message.message(),
        )
    }

    fn frame(&mut self, job: &Job, to: &mut Series) -> Result<(), McapError> {
        let (id, result) = (job.result.id, &job.result);
        let (index, stamp) = (id.index, id.timestamp);
        let FrameSet { stereo, mono, .. } = &*job.set;
        // Those of a frame that the mono camera alone has seen are an earlier frame's.
        if let (Some(stereo), None) = (stereo, job.set.stereo_gap) {
            for (n, topic) in [Topic::LeftInfo, Topic::RightInfo].into_iter().enumerate() {
                if let Some(infos) = &self.constant.infos {
                    infos[n].write(&mut self.message, stamp, LEFT_FRAME);
                    to.write(topic, false, index, stamp, self.message.message())?;
                }
            }
            self.grey(Topic::Left, index, stamp, &stereo.left, to)?;
            if let Some(right) = &stereo.right {
                self.grey(Topic::Right, index, stamp, right, to)?;
            }
            if let Some(rgb) = &stereo.left_rgb {
                let rows = rgb.rows().map(|r| r.as_flattened());
                self.picture(Topic::Colour, index, stamp, (&RGB8, rgb.size()), rows, to)?;
            }
            if let Some(stored) = &stereo.stored_disparity {
                self.deep(Topic::Stored, index, stamp, (&DEPTH16, stored), to)?;
            }
        }
        if let Some(mono) = mono.as_ref().filter(|m| m.gap.is_none()) {
            let stamp = mono.timestamp;
            match &mono.image {
                MonoImage::Grey8(grey) => self.grey(Topic::Mono, index, stamp, grey, to)?,
                MonoImage::Grey16(grey) => {
                    self.deep(Topic::Mono, index, stamp, (&MONO16, grey), to)?;
                }
                MonoImage::Rgb8(rgb) => {
                    let rows = rgb.rows().map(|r| r.as_flattened());
                    self.picture(Topic::Mono, index, stamp, (&RGB8, rgb.size()), rows, to)?;
                }
            }
        }
        if let (true, Some(street)) = (self.disparity, &result.street) {
            let image = (&DEPTH16, &street.disparity);
            self.deep(Topic::Disparity, index, stamp, image, to)?;
        }
        if let (true, Some(foreground)) = (self.foreground, &result.foreground) {
            self.grey(Topic::Foreground, index, stamp, &foreground.mask, to)?;
        }
        let names = &self.constant.logo_names;
        message::frame(&mut self.message, &job.set, result, names, job.dropped);
        to.write(Topic::Frame, false, index, stamp, self.message.message())
    }

    fn grey(
        &mut self,
        topic: Topic,
        index: usize,
        stamp: Timestamp,
        image: &Image<u8>,
        to: &mut Series,
    ) -> Result<(), McapError> {
        self.picture(
            topic,
            index,
            stamp,
            (&GREY8, image.size()),
            image.rows(),
            to,
        )
    }

    /// 16 bits a pixel, low byte first as everything in these files, or in a PNG, which has the
    /// high byte first.
    fn deep(
        &mut self,
        topic: Topic,
        index: usize,
        stamp: Timestamp,
        (pixels, image): (&Pixels, &Image<u16>),
        to: &mut Series,
    ) -> Result<(), McapError> {
        let mut samples = std::mem::take(&mut self.samples);
        samples.clear();
        for &v in image.pixels() {
            samples.extend_from_slice(&if self.png {
                v.to_be_bytes()
            } else {
                v.to_le_bytes()
            });
        }
        let rows = samples.chunks_exact(2 * image.width().max(1));
        let result = self.picture(topic, index, stamp, (pixels, image.size()), rows, to);
        self.samples = samples;
        result
    }

    fn picture<'a>(
        &mut self,
        topic: Topic,
        index: usize,
        stamp: Timestamp,
        (pixels, size): (&Pixels, Size),
        rows: impl Iterator<Item = &'a [u8]>,
        to: &mut Series,
    ) -> Result<(), McapError> {
        let frame = if topic == Topic::Mono {
            MONO_FRAME
        } else {
            LEFT_FRAME
        };
        if self.png {
            self.file.clear();
            let mut encoder =
                png::Encoder::new(&mut self.file, size.width as u32, size.height as u32);
            encoder.set_color(pixels.colour);
            encoder.set_depth(pixels.depth);
            encoder.set_compression(png::Compression::Fast);
            let packed: Vec<u8> = rows.flatten().copied().collect();
            let encoded = encoder.write_header().and_then(|mut writer| {
                writer.write_image_data(&packed)?;
                writer.finish()
            });
            encoded.map_err(std::io::Error::from)?;
            let Self { message, file, .. } = self;
            message::compressed_image(message, stamp, frame, pixels.encoding, file);
        } else {
            let layout = (pixels.encoding, pixels.bytes);
            message::image(&mut self.message, stamp, frame, layout, size);
            for row in rows {
                self.message.raw(row);
            }
        }
        to.write(topic, self.png, index, stamp, self.message.message())
    }
}
