//! What goes over the socket: `docs/socket.md` is for those who read it in another language.
//!
//! A message is a head of 16 bytes and a payload, numbers low byte first: `RLFR`, version (u16),
//! kind (u16), length of the payload (u32), CRC-32 (IEEE) of the payload (u32). The payload is
//! postcard of [`Hello`], [`Frame`] or [`Missing`], field by field in their order.
use serde::{
    Deserialize, Serialize, Serializer,
    ser::{SerializeSeq as _, SerializeStruct as _},
};

use crate::frame::{
    Camera, ForegroundState, FrameId, FrameResult, Gap, Health, Logo, Motion, Outcome, Road,
    Stixel, Timing,
};

/// The first four bytes of a message.
pub const MAGIC: [u8; 4] = *b"RLFR";

/// Of the format: readers refuse any other.
pub const VERSION: u16 = 1;

/// Bytes before the payload.
pub const HEAD: usize = 16;

/// Largest message, bytes, head included.
pub const MAX_MESSAGE: usize = 64 * 1024;

const HELLO: u16 = 1;
const FRAME: u16 = 2;
const MISSING: u16 = 3;

/// Comes first to each reader: what the frames to come mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Of roadloop.
    pub version: String,
    /// The rectified camera that stixels and road belong to.
    pub camera: Option<Camera>,
    /// Width and height of the stereo images, px.
    pub stereo_size: Option<(u32, u32)>,
    /// Width and height of the mono images, px.
    pub mono_size: Option<(u32, u32)>,
    /// The logos' names, by [`Logo::template`].
    pub logo_names: Vec<String>,
}

/// Which frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Id {
    /// Place since the start, from 0, counting frames that are missing.
    pub index: u64,
    /// The source's own number.
    pub number: u64,
    /// When it was taken, ns of CLOCK_MONOTONIC.
    pub timestamp_ns: u64,
}

impl From<FrameId> for Id {
    fn from(id: FrameId) -> Self {
        Self {
            index: id.index as u64,
            number: id.number,
            timestamp_ns: id.timestamp.0,
        }
    }
}

/// When a stage ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// From [`Frame::start_ns`] on, ns.
    pub start_ns: u64,
    /// How long, ns.
    pub duration_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// The stixels of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StixelLists {
    /// Width of a column, px.
    pub stixel_width: u32,
    /// Columns that had more than their list holds.
    pub overflowed: u32,
    /// Of each column from the left, from top to bottom.
    pub columns: Vec<Vec<Stixel>>,
}

/// The result of a frame, as lists: no images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Which.
    pub id: Id,
    /// When it arrived (live: its time stamp), ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// From then to its result, ns.
    pub duration_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Its stages, in the order in which they ran.
    pub stages: Vec<Stage>,
    /// What is missing or degraded.
    pub gaps: Vec<Gap>,
    /// How device and cameras were.
    pub health: Health,
    /// The ground.
    pub road: Option<Road>,
    /// The street; `None` without a stereo camera, or where [`Frame::stixels_left_out`].
    pub stixels: Option<StixelLists>,
    /// The lists did not fit into a message of [`MAX_MESSAGE`].
    pub stixels_left_out: bool,
    /// How the vehicle moves.
    pub motion: Option<Motion>,
    /// Whether the foreground is valid.
    pub foreground: Option<ForegroundState>,
    /// Logos on vehicles.
    pub logos: Option<Vec<Logo>>,
}

/// A frame without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which; of a lost camera, the last one that came.
    pub id: Id,
    /// Why.
    pub gap: Gap,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// First to each reader.
    Hello(Hello),
    /// A result.
    Frame(Frame),
    /// A frame without one.
    Missing(Missing),
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Shorter than a head, or another length than the head says.
    #[error("{found} bytes, expected {expected}")]
    Length {
        /// What there is.
        found: usize,
        /// What there should be.
        expected: usize,
    },
    /// It begins with something else.
    #[error("begins with {0:?}, expected {MAGIC:?}")]
    Magic([u8; 4]),
    /// Written by another version.
    #[error("version {0}, expected {VERSION}")]
    Version(u16),
    /// No such kind of message.
    #[error("kind {0}, expected 1 to 3")]
    Kind(u16),
    /// The payload is damaged.
    #[error("CRC {found:08x}, expected {expected:08x}")]
    Crc {
        /// Of the payload.
        found: u32,
        /// In the head.
        expected: u32,
    },
    /// The payload is not what its kind says.
    #[error("payload of kind {kind}: {text}")]
    Payload {
        /// The kind.
        kind: u16,
        /// What is wrong.
        text: String,
    },
}

impl Message {
    /// Reads one message, which is all of `bytes`.
    ///
    /// # Errors
    /// What is wrong with them. Memory is bounded by their length.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (head, payload) = bytes.split_at_checked(HEAD).ok_or(WireError::Length {
            found: bytes.len(),
            expected: HEAD,
        })?;
        let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let u32_at =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..4] != MAGIC {
            return Err(WireError::Magic([head[0], head[1], head[2], head[3]]));
        }
        if u16_at(4) != VERSION {
            return Err(WireError::Version(u16_at(4)));
        }
        let expected = HEAD + u32_at(8) as usize;
        if bytes.len() != expected || expected > MAX_MESSAGE {
            return Err(WireError::Length {
                found: bytes.len(),
                expected: expected.min(MAX_MESSAGE),
            });
        }
        let (found, expected) = (crc32fast::hash(payload), u32_at(12));
        if found != expected {
            return Err(WireError::Crc { found, expected });
        }
        let kind = u16_at(6);
        match kind {
            HELLO => whole(kind, payload).map(Self::Hello),
            FRAME => whole(kind, payload).map(Self::Frame),
            MISSING => whole(kind, payload).map(Self::Missing),
            _ => Err(WireError::Kind(kind)),
        }
    }
}

fn whole<'a, T: Deserialize<'a>>(kind: u16, payload: &'a [u8]) -> Result<T, WireError> {
    let wrong = |text: String| WireError::Payload { kind, text };
    let (value, rest) = postcard::take_from_bytes(payload).map_err(|e| wrong(e.to_string()))?;
    match rest.len() {
        0 => Ok(value),
        n => Err(wrong(format!("{n} bytes too many"))),
    }
}

/// A buffer for messages, taken once.
#[derive(Debug)]
pub struct Encoder(Box<[u8]>);

impl Default for Encoder {
    fn default() -> Self {
        Self(vec![0; MAX_MESSAGE].into())
    }
}

impl Encoder {
    /// The message of a greeting; `None` where it does not fit.
    pub fn hello(&mut self, hello: &Hello) -> Option<&[u8]> {
        self.message(HELLO, hello)
    }

    /// The message of a frame without a result.
    pub fn missing(&mut self, id: FrameId, gap: Gap) -> Option<&[u8]> {
        self.message(MISSING, &Missing { id: id.into(), gap })
    }

    /// The message of a result; where the stixels don't fit, without them.
    pub fn frame(&mut self, result: &FrameResult) -> Option<&[u8]> {
        let whole = Lists {
            result,
            stixels: true,
        };
        if result.street.is_some() && self.payload(&whole).is_none() {
            let stixels = false;
            return self.message(FRAME, &Lists { result, stixels });
        }
        self.message(FRAME, &whole)
    }

    fn payload(&mut self, value: &impl Serialize) -> Option<usize> {
        let payload = postcard::to_slice(value, &mut self.0[HEAD..]).ok()?;
        Some(payload.len())
    }

    fn message(&mut self, kind: u16, value: &impl Serialize) -> Option<&[u8]> {
        let length = self.payload(value)?;
        let (head, payload) = self.0.split_at_mut(HEAD);
        head[..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&VERSION.to_le_bytes());
        head[6..8].copy_from_slice(&kind.to_le_bytes());
        head[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        let crc = crc32fast::hash(&payload[..length]);
        head[12..16].copy_from_slice(&crc.to_le_bytes());
        Some(&self.0[..HEAD + length])
    }
}

/// A result as [`Frame`], without taking memory: the same bytes.
struct Lists<'a> {
    result: &'a FrameResult,
    stixels: bool,
}

impl Serialize for Lists<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let r = self.result;
        let street = r.street.as_ref();
        let mut t = s.serialize_struct("Frame", 13)?;
        t.serialize_field("id", &Id::from(r.id))?;
        t.serialize_field("start_ns", &r.timing.start.0)?;
        t.serialize_field("duration_ns", &r.timing.duration_ns)?;
        t.serialize_field("outcome", &r.timing.outcome)?;
        t.serialize_field("stages", &Stages(&r.timing))?;
        t.serialize_field("gaps", &Gaps(r))?;
        t.serialize_field("health", &r.health)?;
        t.serialize_field("road", &street.map(|s| s.road))?;
        let stixels = street.map(|s| &s.stixels).filter(|_| self.stixels);
        t.serialize_field("stixels", &stixels)?;
        t.serialize_field("stixels_left_out", &(street.is_some() && !self.stixels))?;
        t.serialize_field("motion", &r.motion)?;
        t.serialize_field("foreground", &r.foreground.as_ref().map(|f| f.state))?;
        t.serialize_field("logos", &r.logos.as_ref().map(|l| l.as_slice()))?;
        t.end()
    }
}

struct Stages<'a>(&'a Timing);

impl Serialize for Stages<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(
            (self.0.stages.iter()).map(|s| (s.stage, s.start_ns, s.duration_ns, s.outcome)),
        )
    }
}

struct Gaps<'a>(&'a FrameResult);

impl Serialize for Gaps<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(Some(self.0.gaps.len()))?;
        self.0
            .gaps
            .iter()
            .try_for_each(|gap| seq.serialize_element(&gap))?;
        seq.end()
    }
}
