//! Templates to and from a file.
use std::{fs, io::Write as _, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    Descriptor, FACE_AREAS, Kind, MAX_POINTS, MAX_TEMPLATES, Patch, Point, Template, Templates,
    TemplatesError, build,
};
use crate::{
    files,
    frame::{Image, Size},
};

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"RL-LOGOS";

/// Magic, version, length, checksum.
const HEAD: usize = 8 + 4 + 8 + 4;

/// Largest file, bytes.
const MAX_FILE: u64 = 1 << 28;

#[derive(Serialize, Deserialize)]
struct Whole {
    kind: Kind,
    templates: Vec<Stored>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    width: u16,
    height: u16,
    points: Vec<(Point, Descriptor)>,
    patches: [StoredPatch; FACE_AREAS.len()],
}

#[derive(Serialize, Deserialize)]
struct StoredPatch {
    width: u16,
    height: u16,
    grey: Vec<u8>,
    mask: Vec<u8>,
}

impl Templates {
    /// The bytes of a file. The same templates give the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let patch = |p: &Patch| StoredPatch {
            width: p.grey.width() as u16,
            height: p.grey.height() as u16,
            grey: p.grey.pixels().copied().collect(),
            mask: p.mask.pixels().copied().collect(),
        };
        let whole = Whole {
            kind: self.kind,
            templates: self
                .list
                .iter()
                .map(|t| Stored {
                    name: t.name.clone(),
                    width: t.size.width as u16,
                    height: t.size.height as u16,
                    points: t
                        .points
                        .iter()
                        .copied()
                        .zip(t.descriptors.iter().copied())
                        .collect(),
                    patches: t.patches.each_ref().map(patch),
                })
                .collect(),
        };
        // Into memory nothing can fail.
        let payload = postcard::to_stdvec(&whole).unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEAD + payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes
    }

    /// Writes a file, in place of one that is there: whole or not at all.
    ///
    /// # Errors
    /// [`TemplatesError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), TemplatesError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        let write = || {
            let mut file = fs::File::create(&part)?;
            file.write_all(&self.to_bytes())?;
            file.sync_all()?;
            fs::rename(&part, path)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&part);
            TemplatesError::Io {
                path: path.into(),
                source,
            }
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it can't be read, is of another kind or version, or damaged.
    pub fn read(path: &Path) -> Result<Self, TemplatesError> {
        let bytes = files::read(path, MAX_FILE).map_err(|source| TemplatesError::Io {
            path: path.into(),
            source,
        })?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// As [`Templates::read`].
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, TemplatesError> {
        let damaged = |what: String| TemplatesError::Damaged {
            path: path.into(),
            what,
        };
        if !bytes.starts_with(MAGIC) {
            // An own file cut within its first bytes is damaged, not foreign.
            if !bytes.is_empty() && MAGIC.starts_with(bytes) {
                return Err(damaged(format!(
                    "{} bytes, expected {HEAD} or more",
                    bytes.len()
                )));
            }
            let head = &bytes[..bytes.len().min(MAGIC.len())];
            return Err(TemplatesError::Foreign {
                path: path.into(),
                found: if head.is_empty() {
                    "nothing: it is empty".into()
                } else {
                    format!("{:?}", String::from_utf8_lossy(head))
                },
            });
        }
        let number = |at: usize| -> Option<[u8; 4]> { bytes.get(at..)?.first_chunk().copied() };
        let (Some(version), Some(low), Some(high), Some(crc)) =
            (number(8), number(12), number(16), number(20))
        else {
            return Err(damaged(format!(
                "{} bytes, expected {HEAD} or more",
                bytes.len()
            )));
        };
        let version = u32::from_le_bytes(version);
        if version != VERSION {
            return Err(TemplatesError::Version {
                path: path.into(),
                found: version,
            });
        }
        let length = u64::from(u32::from_le_bytes(high)) << 32 | u64::from(u32::from_le_bytes(low));
        let payload = &bytes[HEAD..];
        if payload.len() as u64 != length {
            return Err(damaged(format!(
                "{} bytes after the head, expected {length}",
                payload.len()
            )));
        }
        let (found, expected) = (crc32fast::hash(payload), u32::from_le_bytes(crc));
        if found != expected {
            return Err(damaged(format!(
                "checksum {found:08x}, expected {expected:08x}"
            )));
        }
        let (whole, rest) = postcard::take_from_bytes::<Whole>(payload)
            .map_err(|e| damaged(format!("its contents can't be decoded: {e}")))?;
        if !rest.is_empty() {
            return Err(damaged(format!("{} bytes too many", rest.len())));
        }
        if whole.templates.is_empty() || whole.templates.len() > MAX_TEMPLATES {
            return Err(damaged(format!(
                "{} templates, expected 1 to {MAX_TEMPLATES}",
                whole.templates.len()
            )));
        }
        let kind = whole.kind;
        let mut list: Vec<Template> = Vec::with_capacity(whole.templates.len());
        for stored in whole.templates {
            let name = stored.name.clone();
            let template =
                template(stored).map_err(|what| damaged(format!("template {name:?}: {what}")))?;
            if list.last().is_some_and(|last| last.name >= template.name) {
                return Err(damaged(format!(
                    "template {name:?} is not in the order of names"
                )));
            }
            list.push(template);
        }
        Ok(Self { kind, list })
    }
}

fn template(stored: Stored) -> Result<Template, &'static str> {
    let size = Size::new(stored.width.into(), stored.height.into());
    if !build::good_name(&stored.name) {
        return Err("a name that can't stand in a table");
    }
    if !build::good_size(size) {
        return Err("a picture's size out of range");
    }
    if !(1..=MAX_POINTS).contains(&stored.points.len()) {
        return Err("a number of points out of range");
    }
    let good = |(p, _): &(Point, Descriptor)| {
        p.x.abs() <= 16.0
            && p.y.abs() <= 16.0
            && p.sigma > 0.0
            && p.sigma <= 16.0
            && p.angle < super::super::features::ANGLES
    };
    if !stored.points.iter().all(good) {
        return Err("a point out of range");
    }
    let patch = |p: StoredPatch| {
        let (w, h) = (usize::from(p.width), usize::from(p.height));
        match (Image::from_vec(w, h, p.grey), Image::from_vec(w, h, p.mask)) {
            (Some(grey), Some(mask)) if w * h > 0 && w * h <= 1 << 16 => Ok(Patch { grey, mask }),
            _ => Err("a picture of another size than it says"),
        }
    };
    let [coarse, fine] = stored.patches;
    let patches = [patch(coarse)?, patch(fine)?];
    let (points, descriptors) = stored.points.into_iter().unzip();
    Template::new(stored.name, size, points, descriptors, patches)
}
