//! The messages of a frame to a frame set.
use std::sync::Arc;

use super::{
    Cache, Place, Recording,
    image::{self, Kind},
};
use crate::{
    frame::{FrameSet, Gap, MonoFrame, Size, StereoFrame},
    picture::Picture,
    source::{MonoSegment, StereoSegment, decode::Fault},
};

/// Reads frames of a recording, keeping its memory.
pub struct RecordedLoader {
    recording: Arc<Recording>,
    reader: Reader,
    // One for each camera, so that their memory keeps its kind and size.
    left: Picture,
    right: Picture,
    colour: Picture,
    stored: Picture,
    mono: Picture,
}

#[derive(Default)]
struct Reader {
    cache: Cache,
    message: Vec<u8>,
    line: Vec<u8>,
}

impl Reader {
    /// Decodes the message at `place` to a picture of `size`.
    fn read(
        &mut self,
        recording: &Recording,
        (place, kind, size): (Option<Place>, Kind, Size),
        picture: &mut Picture,
    ) -> Result<(), Fault> {
        let Some(place) = place else {
            return Err(Fault {
                gap: Gap::Missing,
                text: "a picture of it is not in the recording".into(),
            });
        };
        let decoded = recording
            .fetch(place, &mut self.cache, &mut self.message)
            .and_then(|()| image::decode(kind, &self.message, &mut self.line, picture));
        let path = recording.files[place.file as usize].path.display();
        if let Err(text) = decoded {
            return Err(Fault {
                gap: Gap::Unreadable,
                text: format!("{path}: {text}"),
            });
        }
        if picture.size() != size {
            return Err(Fault {
                gap: Gap::SizeChanged,
                text: format!("{path}: {} px, but the first has {size} px", picture.size()),
            });
        }
        Ok(())
    }
}

impl RecordedLoader {
    pub fn new(recording: Arc<Recording>) -> Self {
        Self {
            recording,
            reader: Reader::default(),
            left: Picture::default(),
            right: Picture::default(),
            colour: Picture::default(),
            stored: Picture::default(),
            mono: Picture::default(),
        }
    }

    /// Fills a frame set that fits. After a fault it holds anything.
    pub fn load(
        &mut self,
        index: usize,
        (stereo, mono): (Option<&StereoSegment>, Option<&MonoSegment>),
        set: &mut FrameSet,
    ) -> Result<(), Fault> {
        let recording = Arc::clone(&self.recording);
        let frame = recording.frame(index);
        let gap = frame.map_or(Some(Gap::Missing), |f| f.gap);
        let (Some(frame), None) = (frame, gap) else {
            return Err(Fault {
                gap: gap.unwrap_or(Gap::Missing),
                text: "recorded as such, or not there".into(),
            });
        };
        set.decisions = frame.decisions;
        set.stereo_gap = frame.stereo_gap;
        if let (Some(segment), Some(to), None) = (stereo, &mut set.stereo, frame.stereo_gap) {
            self.stereo(&recording, frame, segment, to)?;
        }
        let (Some(segment), Some(to)) = (mono, &mut set.mono) else {
            return Ok(());
        };
        let loaded = self.mono(&recording, frame, segment, to);
        match loaded {
            // The street does not go with the mono camera.
            Err(fault) if stereo.is_some() => {
                to.gap = Some(fault.gap);
                log::debug!(
                    "frame {index}: no mono picture: {}: {}",
                    fault.gap,
                    fault.text
                );
                Ok(())
            }
            loaded => loaded,
        }
    }

    fn stereo(
        &mut self,
        recording: &Recording,
        frame: &super::RecordedFrame,
        segment: &StereoSegment,
        to: &mut StereoFrame,
    ) -> Result<(), Fault> {
        let (kind, size) = (recording.kinds.stereo, segment.file_size);
        let prepare = &segment.prepare;
        let Self {
            reader,
            left,
            right,
            colour,
            stored,
            ..
        } = self;
        reader.read(recording, (frame.left, kind, size), left)?;
        prepare.grey(left, &mut to.left);
        if let Some(to) = &mut to.right {
            reader.read(recording, (frame.right, kind, size), right)?;
            prepare.grey(right, to);
        }
        if let Some(to) = &mut to.left_rgb {
            // In our own files colour is a topic of its own, so that the grey is what it was.
            if recording.own {
                reader.read(recording, (frame.colour, kind, size), colour)?;
                prepare.rgb(colour, to);
            } else {
                prepare.rgb(left, to);
            }
        }
        if let Some(to) = &mut to.stored_disparity {
            reader.read(recording, (frame.stored, kind, size), stored)?;
            match stored {
                Picture::Grey16(disparity) => prepare.disparity(disparity, |d| d, to),
                other => {
                    return Err(Fault {
                        gap: Gap::Unreadable,
                        text: format!("a disparity of {}", other.kind()),
                    });
                }
            }
        }
        Ok(())
    }

    fn mono(
        &mut self,
        recording: &Recording,
        frame: &super::RecordedFrame,
        segment: &MonoSegment,
        to: &mut MonoFrame,
    ) -> Result<(), Fault> {
        let (stamp, gap) = frame
            .mono_head
            .unwrap_or((frame.id.timestamp, Some(Gap::Unsynchronised)));
        to.timestamp = stamp;
        to.gap = gap;
        if gap.is_some() {
            return Ok(());
        }
        let wanted = (frame.mono, recording.kinds.mono, segment.file_size);
        self.reader.read(recording, wanted, &mut self.mono)?;
        if segment.prepare.mono(&self.mono, &mut to.image) {
            return Ok(());
        }
        Err(Fault {
            gap: Gap::Unreadable,
            text: format!(
                "{}, but the first is {}",
                self.mono.kind(),
                to.image.kind().name()
            ),
        })
    }
}
