//! The model as bytes, so that a parked vehicle wakes with its background: eight bytes that name
//! the format, a postcard record, and the CRC-32 of both, little-endian.
use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Params;
use crate::frame::{PixelKind, Size};

const MAGIC: &[u8; 8] = b"RLFGMODL";

/// Whether a file is, or begins as, one of ours: damaged perhaps, but no one else's.
pub fn is_snapshot(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(MAGIC.len())];
    MAGIC.starts_with(head)
}
/// Goes up with every change of [`Record`].
const VERSION: u32 = 1;

/// Why a snapshot was refused; the model is then as freshly built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SnapshotError {
    /// It ends before it has begun.
    #[error("snapshot is cut short")]
    Short,
    /// It does not begin as a snapshot does.
    #[error("not a snapshot of the foreground's model")]
    Magic,
    /// It was written by a version with another layout.
    #[error("snapshot has version {found}, expected {expected}")]
    Version {
        /// Its version.
        found: u32,
        /// The version of this program.
        expected: u32,
    },
    /// Its bytes are not those that were written.
    #[error("snapshot is damaged: checksum is {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Checksum of the bytes.
        found: u32,
        /// Checksum that was written.
        expected: u32,
    },
    /// It can't be decoded although its checksum is right.
    #[error("snapshot can't be decoded: {0}")]
    Decode(String),
    /// It is of images of another size or kind.
    #[error("snapshot is of {found_kind:?} images of {found}, expected {kind:?} of {expected}")]
    Images {
        /// Size of its images.
        found: Size,
        /// Kind of its pixels.
        found_kind: PixelKind,
        /// Size of the plan.
        expected: Size,
        /// Kind of the plan.
        kind: PixelKind,
    },
    /// The model was learnt with other parameters.
    #[error("snapshot was made with foreground.{key} = {found}, expected {expected}")]
    Parameter {
        /// The parameter's key.
        key: &'static str,
        /// Its value in the snapshot.
        found: f64,
        /// Its value in this plan.
        expected: f64,
    },
    /// A number of the model is out of its range.
    #[error("snapshot holds {what} {found} at pixel {pixel}, which no model has")]
    State {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Index of the pixel, row by row.
        pixel: usize,
    },
}

/// The model without its layout in memory.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Model<'a> {
    /// Frames learnt from.
    pub learnt: u32,
    /// Modes a pixel, row by row.
    #[serde(borrow)]
    pub counts: Cow<'a, [u8]>,
    /// Pixel by pixel and mode by mode: weight, variance and means.
    pub numbers: Vec<u16>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record<'a> {
    kind: u8,
    width: u32,
    height: u32,
    parameters: [f32; 7],
    #[serde(borrow)]
    model: Model<'a>,
}

const KINDS: [PixelKind; 3] = [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8];

/// What the model depends on; decisions may change.
fn parameters(params: &Params) -> [(&'static str, f32); 7] {
    [
        ("modes", params.modes as f32),
        ("history_frames", params.history_frames as f32),
        ("match_threshold", params.match_threshold),
        ("variance_init", params.variance_init),
        ("variance_min", params.variance_min),
        ("variance_max", params.variance_max),
        ("complexity_prior", params.complexity_prior),
    ]
}

pub const fn channels(kind: PixelKind) -> usize {
    match kind {
        PixelKind::Grey8 | PixelKind::Grey16 => 1,
        PixelKind::Rgb8 => 3,
    }
}

pub fn encode(params: &Params, kind: PixelKind, size: Size, model: Model<'_>) -> Vec<u8> {
    let record = Record {
        kind: KINDS.iter().position(|&k| k == kind).unwrap_or(0) as u8,
        width: size.width as u32,
        height: size.height as u32,
        parameters: parameters(params).map(|p| p.1),
        model,
    };
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    // Writing to a Vec does not fail.
    let mut bytes = postcard::to_extend(&record, bytes).unwrap_or_default();
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

pub fn decode<'a>(
    params: &Params,
    kind: PixelKind,
    size: Size,
    bytes: &'a [u8],
) -> Result<Model<'a>, SnapshotError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(SnapshotError::Magic)?;
    let (rest, &checksum) = rest.split_last_chunk().ok_or(SnapshotError::Short)?;
    let (found, expected) = (
        crc32fast::hash(&bytes[..bytes.len() - checksum.len()]),
        u32::from_le_bytes(checksum),
    );
    if found != expected {
        return Err(SnapshotError::Checksum { found, expected });
    }
    let (&version, rest) = rest.split_first_chunk().ok_or(SnapshotError::Short)?;
    let version = u32::from_le_bytes(version);
    if version != VERSION {
        return Err(SnapshotError::Version {
            found: version,
            expected: VERSION,
        });
    }
    let (record, rest): (Record<'_>, _) =
        postcard::take_from_bytes(rest).map_err(|e| SnapshotError::Decode(e.to_string()))?;
    if !rest.is_empty() {
        return Err(SnapshotError::Decode(format!(
            "{} bytes too many",
            rest.len()
        )));
    }
    let found_kind = *KINDS
        .get(usize::from(record.kind))
        .ok_or_else(|| SnapshotError::Decode(format!("kind of pixels {}", record.kind)))?;
    let found = Size::new(record.width as usize, record.height as usize);
    if (found_kind, found) != (kind, size) {
        return Err(SnapshotError::Images {
            found,
            found_kind,
            expected: size,
            kind,
        });
    }
    for ((key, expected), found) in parameters(params).into_iter().zip(record.parameters) {
        if found.to_bits() != expected.to_bits() {
            return Err(SnapshotError::Parameter {
                key,
                found: found.into(),
                expected: expected.into(),
            });
        }
    }
    check(params, kind, size, &record.model)?;
    Ok(record.model)
}

/// Whether every number is one that the model could have learnt.
pub fn check(
    params: &Params,
    kind: PixelKind,
    size: Size,
    model: &Model<'_>,
) -> Result<(), SnapshotError> {
    let wrong = |what, found: usize, pixel| {
        Err(SnapshotError::State {
            what,
            found: found as u64,
            pixel,
        })
    };
    if model.counts.len() != size.area() {
        return wrong("a number of pixels", model.counts.len(), 0);
    }
    let length = 2 + channels(kind);
    let modes: usize = model.counts.iter().map(|&n| usize::from(n)).sum();
    if model.numbers.len() != length * modes {
        return wrong("a number of values", model.numbers.len(), 0);
    }
    let variance = params.variance_min * 256.0 - 1.0..=params.variance_max * 256.0 + 1.0;
    let mut rest = &model.numbers[..];
    for (pixel, &count) in model.counts.iter().enumerate() {
        if usize::from(count) > params.modes {
            return wrong("modes", count.into(), pixel);
        }
        let mut above = u16::MAX;
        for _ in 0..count {
            let (mode, more) = rest.split_at(length);
            rest = more;
            if mode[0] > above {
                return wrong("a weight", mode[0].into(), pixel);
            }
            above = mode[0];
            if !variance.contains(&f32::from(mode[1])) {
                return wrong("a variance", mode[1].into(), pixel);
            }
        }
    }
    Ok(())
}
