//! The digest: whether two replays gave the same results, in 16 hexadecimal digits.
//!
//! One xxh3-64 (seed 0) per [`Part`], over the postcard encoding of that part of each frame's
//! result, in frame order, one after the other without anything in between:
//!
//! - **disparity**: width and height (varint), then the pixels from the top left, row by row,
//!   each as two bytes, low byte first (`postcard::fixint::le`), invalid as `FF FF`. A row's
//!   stride leaves no trace.
//! - **stixels**: stixel width and number of cut columns (varint), number of columns (varint),
//!   for each column the number of its stixels (varint) and for each stixel class (0 ground,
//!   1 object, 2 sky), top, base, disparity (varint, 1/256 px) and confidence (one byte).
//!
//! The whole digest is the xxh3-64 over the parts present, in the order of [`Part::ALL`]: the
//! part's name (length as varint, then the letters) and its digest as eight bytes, low byte
//! first. A part that comes later changes the whole, never an earlier part.
//!
//! Left out: times, flags of latency, paths and frame numbers. So a drive that was copied under
//! other names has the same digest, and frames `A..B` have that of a drive which holds only
//! those (a part starts cold). A frame without a result (missing, dropped) adds nothing.
use std::fmt;

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::frame::{Disparity, FrameResult, Stixels};

/// What has a digest of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Disparity of the left image.
    Disparity,
    /// Lists of stixels.
    Stixels,
    /// What moves while the vehicle stands.
    Foreground,
    /// Logos tracked on vehicles.
    Logos,
    /// The class of each pixel.
    Labels,
}

impl Part {
    /// All parts, in the order in which the whole digest and `summary.json` have them.
    pub const ALL: [Part; 5] = [
        Part::Disparity,
        Part::Stixels,
        Part::Foreground,
        Part::Logos,
        Part::Labels,
    ];

    /// The key in `summary.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Disparity => "disparity",
            Part::Stixels => "stixels",
            Part::Foreground => "foreground",
            Part::Logos => "logos",
            Part::Labels => "labels",
        }
    }
}

/// An xxh3-64 value; shown as 16 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(pub u64);

impl Hash {
    /// Of some bytes, such as those of a configuration or calibration file.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Digests of the results so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Over the parts.
    pub whole: Hash,
    /// Of each part present, in the order of [`Part::ALL`].
    pub parts: Vec<(Part, Hash)>,
}

/// Takes results in frame order, allocates nothing on the way.
#[derive(Clone)]
pub struct Digest {
    parts: [Stream; Part::ALL.len()],
}

#[derive(Clone)]
struct Stream {
    hasher: Xxh3,
    present: bool,
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl Digest {
    /// Of no results yet.
    pub fn new() -> Self {
        let stream = Stream {
            hasher: Xxh3::new(),
            present: false,
        };
        Self {
            parts: std::array::from_fn(|_| stream.clone()),
        }
    }

    fn stream(&mut self, part: Part) -> &mut Xxh3 {
        let stream = &mut self.parts[part as usize];
        stream.present = true;
        &mut stream.hasher
    }

    /// Adds every part of the next frame's result.
    ///
    /// # Errors
    /// As [`Digest::record`].
    pub fn frame(&mut self, result: &FrameResult) -> Result<(), postcard::Error> {
        self.disparity(&result.disparity)?;
        self.stixels(&result.stixels)
    }

    /// Adds the next frame's disparity.
    ///
    /// # Errors
    /// As [`Digest::record`].
    pub fn disparity(&mut self, disparity: &Disparity) -> Result<(), postcard::Error> {
        let size = disparity.size();
        self.record(
            Part::Disparity,
            &(size.width as u32, size.height as u32),
        )?;
        // The generic serialiser takes the pixels one by one; the same bytes go in by the chunk.
        const CHUNK: usize = 2048;
        let mut bytes = [0u8; 2 * CHUNK];
        let hasher = self.stream(Part::Disparity);
        for row in disparity.rows() {
            for pixels in row.chunks(CHUNK) {
                let bytes = &mut bytes[..2 * pixels.len()];
                for (to, from) in bytes.chunks_exact_mut(2).zip(pixels) {
                    to.copy_from_slice(&from.to_le_bytes());
                }
                hasher.update(bytes);
            }
        }
        Ok(())
    }

    /// Adds the next frame's stixels.
    ///
    /// # Errors
    /// As [`Digest::record`].
    pub fn stixels(&mut self, stixels: &Stixels) -> Result<(), postcard::Error> {
        self.record(Part::Stixels, stixels)
    }

    /// Adds the postcard encoding of any value to a part: for parts that come with later stages.
    ///
    /// # Errors
    /// When the value can't be encoded, as a sequence of unknown length can't.
    pub fn record<T: Serialize + ?Sized>(
        &mut self,
        part: Part,
        value: &T,
    ) -> Result<(), postcard::Error> {
        let hasher = self.stream(part);
        postcard::serialize_with_flavor(
            value,
            Feed {
                hasher,
                buffer: [0; 512],
                used: 0,
            },
        )
    }

    /// The digests of what was added so far.
    pub fn digests(&self) -> Digests {
        let mut whole = Xxh3::new();
        let parts = Part::ALL
            .into_iter()
            .zip(&self.parts)
            .filter(|(_, stream)| stream.present)
            .map(|(part, stream)| {
                let hash = stream.hasher.digest();
                let name = part.name();
                whole.update(&[name.len() as u8]);
                whole.update(name.as_bytes());
                whole.update(&hash.to_le_bytes());
                (part, Hash(hash))
            })
            .collect();
        Digests {
            whole: Hash(whole.digest()),
            parts,
        }
    }
}

/// A postcard flavour that ends in a hasher; the buffer is there because fields come byte by byte.
struct Feed<'a> {
    hasher: &'a mut Xxh3,
    buffer: [u8; 512],
    used: usize,
}

impl Feed<'_> {
    fn flush(&mut self) {
        self.hasher.update(&self.buffer[..self.used]);
        self.used = 0;
    }
}

impl Flavor for Feed<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        if self.used == self.buffer.len() {
            self.flush();
        }
        self.buffer[self.used] = byte;
        self.used += 1;
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if bytes.len() > self.buffer.len() - self.used {
            self.flush();
            if bytes.len() > self.buffer.len() {
                self.hasher.update(bytes);
                return Ok(());
            }
        }
        self.buffer[self.used..][..bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
        Ok(())
    }

    fn finalize(mut self) -> postcard::Result<()> {
        self.flush();
        Ok(())
    }
}
