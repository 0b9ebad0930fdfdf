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
//! - **foreground**: state (0 warming up, 1 valid, 2 driving, 3 motion unknown, 4 skipped), width
//!   and height (varint), then the mask from the top left, a byte a pixel.
//! - **logos**: number of logos (varint), and for each id and template (varint), state (0
//!   tentative, 1 tracked, 2 lost), the quad's x and y corner by corner and the velocity's x and y
//!   (four bytes each, low byte first), and confidence (one byte).
//! - **labels**: state (0 valid, 1 skipped), step, width and height of the grid (varint), then for
//!   each row of the grid its labels, a byte each, and its confidences, two bytes each, low byte
//!   first.
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

use crate::frame::{Disparity, Foreground, FrameResult, Labels, Logos, Size, Stixels};

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
        if let Some(street) = &result.street {
            self.disparity(&street.disparity)?;
            self.stixels(&street.stixels)?;
        }
        if let Some(foreground) = &result.foreground {
            self.foreground(foreground)?;
        }
        if let Some(logos) = &result.logos {
            self.logos(logos)?;
        }
        match &result.labels {
            Some(labels) => self.labels(labels),
            None => Ok(()),
        }
    }

    /// Adds the next frame's foreground.
    ///
    /// # Errors
    /// As [`Digest::record`].
    pub fn foreground(&mut self, foreground: &Foreground) -> Result<(), postcard::Error> {
        let Size { width, height } = foreground.mask.size();
        let head = (foreground.state, width as u32, height as u32);
        self.record(Part::Foreground, &head)?;
        let hasher = self.stream(Part::Foreground);
        for row in foreground.mask.rows() {
            hasher.update(row);
        }
        Ok(())
    }

    /// Adds the next frame's logos.
    ///
    /// # Errors
    /// As [`Digest::record`].
    pub fn logos(&mut self, logos: &Logos) -> Result<(), postcard::Error> {
        self.record(Part::Logos, logos.as_slice())
    }

    /// Adds the next frame's labels.
    ///
    /// # Errors
    /// As [`Digest::record`].
    pub fn labels(&mut self, labels: &Labels) -> Result<(), postcard::Error> {
        let Size { width, height } = labels.labels.size();
        let head = (labels.state, labels.step, width as u32, height as u32);
        self.record(Part::Labels, &head)?;
        let hasher = self.stream(Part::Labels);
        for (row, confidence) in labels.labels.rows().zip(labels.confidence.rows()) {
            hasher.update(row);
            words(hasher, confidence);
        }
        Ok(())
    }

    /// Adds the next frame's disparity.
    ///
    /// # Errors
    /// As [`Digest::record`].
    pub fn disparity(&mut self, disparity: &Disparity) -> Result<(), postcard::Error> {
        let size = disparity.size();
        self.record(Part::Disparity, &(size.width as u32, size.height as u32))?;
        let hasher = self.stream(Part::Disparity);
        for row in disparity.rows() {
            words(hasher, row);
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

/// Adds words, low byte first: the generic serialiser takes them one by one, here the same bytes
/// go in by the chunk.
fn words(hasher: &mut Xxh3, row: &[u16]) {
    const CHUNK: usize = 2048;
    let mut bytes = [0u8; 2 * CHUNK];
    for pixels in row.chunks(CHUNK) {
        let bytes = &mut bytes[..2 * pixels.len()];
        for (to, from) in bytes.chunks_exact_mut(2).zip(pixels) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        hasher.update(bytes);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{Class, ForegroundState, INVALID, Image, Logo, LogoState, Stixel, Street};

    fn stixels() -> Stixels {
        let list = [
            (Class::Sky, 0, 99, INVALID, 255),
            (Class::Object, 100, 199, 5000, 200),
            (Class::Ground, 200, 374, 300, 1),
        ];
        let mut stixels = Stixels::new(2, 5, 8);
        let (counts, mut columns) = stixels.columns_mut();
        counts[0] = 3;
        for (to, (class, top, base, disparity, confidence)) in
            columns.next().unwrap().iter_mut().zip(list)
        {
            *to = Stixel {
                class,
                top,
                base,
                disparity,
                confidence,
            };
        }
        stixels
    }

    /// Values from a separate program (Python, struct and xxhash) after the module's text.
    #[test]
    fn golden_values() {
        let mut digest = Digest::new();
        let first = Image::from_fn(300, 2, |x, y| match x % 3 {
            0 => INVALID,
            _ => (x * 7 + y * 1000) as u16,
        });
        for disparity in [first, Image::filled(1, 1, 0)] {
            digest.disparity(&disparity).unwrap();
            digest.stixels(&stixels()).unwrap();
        }
        let digests = digest.digests();
        let parts: Vec<_> = digests
            .parts
            .iter()
            .map(|(p, h)| (p.name(), h.to_string()))
            .collect();
        assert_eq!(
            parts,
            [
                ("disparity", "b6c499402a564c4b".to_owned()),
                ("stixels", "4f85309fb0d22426".to_owned()),
            ]
        );
        assert_eq!(digests.whole.to_string(), "e4fc47c01b2d7869");
    }

    /// The bytes as the module's text has them, written by hand.
    #[test]
    fn foreground_and_logos_to_the_byte() {
        let mut foreground = Foreground::new(Size::new(3, 2));
        foreground.state = ForegroundState::Driving;
        foreground.mask.set(1, 1, Foreground::MOVING);
        let logo = Logo {
            id: 300,
            template: 2,
            state: LogoState::Lost,
            quad: [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.5]],
            velocity: [-1.0, 0.25],
            confidence: 200,
        };
        let mut logos = Logos::new();
        let mut digest = Digest::new();
        digest.logos(&logos).unwrap();
        logos.push(logo).unwrap();
        digest.foreground(&foreground).unwrap();
        digest.logos(&logos).unwrap();
        let mut bytes = vec![0u8, 1, 0xAC, 0x02, 2, 2];
        for value in [0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5, -1.0, 0.25] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.push(200);
        assert_eq!(
            digest.digests().parts,
            [
                (Part::Foreground, Hash::of(&[2, 3, 2, 0, 0, 0, 0, 255, 0])),
                (Part::Logos, Hash::of(&bytes)),
            ]
        );
    }

    /// As above.
    #[test]
    fn labels_to_the_byte() {
        let table = crate::frame::LabelTable {
            classes: Vec::new(),
            void: 9,
        };
        let mut labels = Labels::new(Size::new(5, 3), 2, false, std::sync::Arc::new(table));
        let mut digest = Digest::new();
        digest.labels(&labels).unwrap();
        labels.state = crate::frame::LabelState::Valid;
        labels.labels.set(1, 0, 4);
        labels.confidence.set(1, 0, 0xABCD);
        digest.labels(&labels).unwrap();
        let mut bytes = Vec::new();
        bytes.extend([1, 2, 3, 2]);
        bytes.extend([9, 9, 9, 0, 0, 0, 0, 0, 0].repeat(2));
        bytes.extend([0, 2, 3, 2]);
        bytes.extend([9, 4, 9, 0, 0, 0xCD, 0xAB, 0, 0]);
        bytes.extend([9, 9, 9, 0, 0, 0, 0, 0, 0]);
        let expected = [(Part::Labels, Hash::of(&bytes))];
        assert_eq!(digest.digests().parts, expected);
    }

    #[test]
    fn nothing_has_a_digest_too() {
        let digests = Digest::new().digests();
        assert_eq!(digests.parts, []);
        assert_eq!(digests.whole.to_string(), "2d06800538d394c2");
    }

    #[test]
    fn a_later_part_changes_the_whole_alone() {
        let mut digest = Digest::new();
        digest.stixels(&stixels()).unwrap();
        let before = digest.digests();
        digest.record(Part::Labels, &[1u8, 2, 3][..]).unwrap();
        let after = digest.digests();
        assert_eq!(before.parts[0], after.parts[0]);
        assert_eq!(after.parts.len(), 2);
        assert_ne!(before.whole, after.whole);
    }

    #[test]
    fn times_and_flags_leave_no_trace() {
        let size = Size::new(5, 4);
        let mut result = FrameResult::from(Street::new(size, Stixels::new(1, 5, 4)));
        let digest = |result: &FrameResult| {
            let mut digest = Digest::new();
            digest.frame(result).unwrap();
            digest.digests()
        };
        let before = digest(&result);
        result.id.number = 7;
        result.id.timestamp.0 = 8;
        result.timing.duration_ns = 9;
        result.timing.outcome = crate::frame::Outcome::Late;
        result.gaps.insert(crate::frame::Gap::RoadHeld);
        assert_eq!(digest(&result), before);
        result.street.as_mut().unwrap().disparity.set(4, 3, 1);
        assert_ne!(digest(&result), before);
    }

    proptest! {
        /// The fast path feeds what the generic serialiser would write, whatever the stride.
        #[test]
        fn disparity_as_the_generic_serialiser_has_it(
            (width, height, padding) in (0usize..40, 0usize..5, 0usize..9), seed in any::<u16>()
        ) {
            #[derive(serde::Serialize)]
            struct Pixel(#[serde(with = "postcard::fixint::le")] u16);

            let value = |x: usize, y: usize| seed.wrapping_mul((1 + x * 31 + y * 77) as u16);
            let mut image = Disparity::with_stride(width, height, width + padding, 0x5555);
            for (y, row) in image.rows_mut().enumerate() {
                row.iter_mut().enumerate().for_each(|(x, to)| *to = value(x, y));
            }
            let mut bytes = postcard::to_stdvec(&(width as u32, height as u32)).unwrap();
            for y in 0..height {
                for x in 0..width {
                    bytes.extend(postcard::to_stdvec(&Pixel(value(x, y))).unwrap());
                }
            }
            let mut digest = Digest::new();
            digest.disparity(&image).unwrap();
            prop_assert_eq!(digest.digests().parts, [(Part::Disparity, Hash::of(&bytes))]);
        }

        /// Long and short pieces come out of the buffer in order.
        #[test]
        fn feeding_in_pieces(pieces in prop::collection::vec((any::<u8>(), 0usize..1200), 0..12)) {
            let mut hasher = Xxh3::new();
            let mut feed = Feed { hasher: &mut hasher, buffer: [0; 512], used: 0 };
            let mut all = Vec::new();
            for (byte, n) in pieces {
                feed.try_push(byte).unwrap();
                feed.try_extend(&vec![byte ^ 0x5A; n]).unwrap();
                all.push(byte);
                all.resize(all.len() + n, byte ^ 0x5A);
            }
            feed.finalize().unwrap();
            prop_assert_eq!(Hash(hasher.digest()), Hash::of(&all));
        }
    }
}
