//! CDR, the encoding of ROS 2 messages: OMG CDR 1 ("plain"), as DDS-XTypes 1.3, 7.4.1 has it.
//!
//! Four bytes say which byte order; then the fields in order, each number aligned to its own
//! size counted from behind those four. A string is a `u32` length with its closing zero, then
//! the bytes; a sequence a `u32` count, then the elements.

/// Why bytes are no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdrError {
    /// It ends before the field does.
    #[error("the message ends in the middle of {0}")]
    Short(&'static str),
    /// Another encoding than plain CDR.
    #[error("the message is in encoding {0:#06x}, expected plain CDR (0x0000 or 0x0001)")]
    Encoding(u16),
    /// A string that is no UTF-8 or does not end as one.
    #[error("{0} is not a string")]
    Text(&'static str),
}

/// Writes a message, little-endian, into memory that is kept from message to message.
#[derive(Debug, Default)]
pub struct CdrWriter {
    bytes: Vec<u8>,
}

const HEAD: usize = 4;

impl CdrWriter {
    /// Begins a message.
    pub fn begin(&mut self) -> &mut Self {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0, 1, 0, 0]);
        self
    }

    /// The message so far.
    pub fn message(&self) -> &[u8] {
        &self.bytes
    }

    fn aligned(&mut self, bytes: &[u8]) -> &mut Self {
        let over = (self.bytes.len() - HEAD) % bytes.len();
        if over > 0 {
            let padded = self.bytes.len() + bytes.len() - over;
            self.bytes.resize(padded, 0);
        }
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A `bool`.
    pub fn bool(&mut self, v: bool) -> &mut Self {
        self.u8(u8::from(v))
    }

    /// A `uint8`.
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.bytes.push(v);
        self
    }

    /// A `uint16`.
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.aligned(&v.to_le_bytes())
    }

    /// A `uint32`.
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.aligned(&v.to_le_bytes())
    }

    /// An `int32`.
    pub fn i32(&mut self, v: i32) -> &mut Self {
        self.aligned(&v.to_le_bytes())
    }

    /// A `uint64`.
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.aligned(&v.to_le_bytes())
    }

    /// A `float32`.
    pub fn f32(&mut self, v: f32) -> &mut Self {
        self.aligned(&v.to_le_bytes())
    }

    /// A `float64`.
    pub fn f64(&mut self, v: f64) -> &mut Self {
        self.aligned(&v.to_le_bytes())
    }

    /// A `string`.
    pub fn text(&mut self, v: &str) -> &mut Self {
        self.u32(v.len() as u32 + 1);
        self.bytes.extend_from_slice(v.as_bytes());
        self.u8(0)
    }

    /// A `uint8[]`.
    pub fn octets(&mut self, v: &[u8]) -> &mut Self {
        self.u32(v.len() as u32).raw(v)
    }

    /// Bytes of an array that is filled piece by piece; its count was written before.
    pub fn raw(&mut self, v: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(v);
        self
    }

    /// The memory behind what was written, to be appended to.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

/// Reads a message of either byte order. Takes no memory: strings and bytes are borrowed.
#[derive(Clone, Debug)]
pub struct CdrReader<'a> {
    /// Behind the head.
    bytes: &'a [u8],
    at: usize,
    big: bool,
}

macro_rules! number {
    ($name:ident, $type:ty, $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Errors
        /// [`CdrError::Short`].
        pub fn $name(&mut self, what: &'static str) -> Result<$type, CdrError> {
            const N: usize = size_of::<$type>();
            self.at = self.at.next_multiple_of(N);
            let mut bytes = [0; N];
            bytes.copy_from_slice(self.take(N, what)?);
            Ok(if self.big {
                <$type>::from_be_bytes(bytes)
            } else {
                <$type>::from_le_bytes(bytes)
            })
        }
    };
}

impl<'a> CdrReader<'a> {
    /// Begins to read a message.
    ///
    /// # Errors
    /// [`CdrError::Short`], [`CdrError::Encoding`].
    pub fn new(message: &'a [u8]) -> Result<Self, CdrError> {
        let (&[a, b, _, _], bytes) = message.split_first_chunk().ok_or(CdrError::Short("head"))?;
        let encoding = u16::from_be_bytes([a, b]);
        if encoding > 1 {
            return Err(CdrError::Encoding(encoding));
        }
        let big = encoding == 0;
        Ok(Self { bytes, at: 0, big })
    }

    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], CdrError> {
        let short = CdrError::Short(what);
        let end = self.at.checked_add(n).ok_or(short)?;
        let taken = self.bytes.get(self.at..end).ok_or(short)?;
        self.at = end;
        Ok(taken)
    }

    number!(u8, u8, "A `uint8`.");
    number!(u16, u16, "A `uint16`.");
    number!(u32, u32, "A `uint32`.");
    number!(i32, i32, "An `int32`.");
    number!(u64, u64, "A `uint64`.");
    number!(f32, f32, "A `float32`.");
    number!(f64, f64, "A `float64`.");

    /// A `bool`: anything but 0 is true.
    ///
    /// # Errors
    /// [`CdrError::Short`].
    pub fn bool(&mut self, what: &'static str) -> Result<bool, CdrError> {
        Ok(self.u8(what)? != 0)
    }

    /// A `string`.
    ///
    /// # Errors
    /// [`CdrError::Short`], [`CdrError::Text`].
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, CdrError> {
        let length = self.u32(what)? as usize;
        let bytes = self.take(length, what)?;
        // Some writers leave the closing zero out.
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        std::str::from_utf8(bytes).map_err(|_| CdrError::Text(what))
    }

    /// A `uint8[]`.
    ///
    /// # Errors
    /// [`CdrError::Short`].
    pub fn octets(&mut self, what: &'static str) -> Result<&'a [u8], CdrError> {
        let length = self.u32(what)? as usize;
        self.take(length, what)
    }

    /// The count of a sequence whose elements take `least` bytes or more: never more than what
    /// is left can hold, so that memory can be taken for it.
    ///
    /// # Errors
    /// [`CdrError::Short`].
    pub fn count(&mut self, least: usize, what: &'static str) -> Result<usize, CdrError> {
        let count = self.u32(what)? as usize;
        let room = self.bytes.len().saturating_sub(self.at) / least.max(1);
        if count > room {
            return Err(CdrError::Short(what));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_aligned_from_behind_the_head() {
        let mut w = CdrWriter::default();
        w.begin()
            .u8(1)
            .u32(2)
            .u8(3)
            .u64(4)
            .text("ab")
            .u16(5)
            .f32(1.0);
        let expected: Vec<u8> = [
            &[0, 1, 0, 0][..],
            &[1, 0, 0, 0],
            &[2, 0, 0, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[4, 0, 0, 0, 0, 0, 0, 0],
            &[3, 0, 0, 0, b'a', b'b', 0, 0],
            &[5, 0, 0, 0],
            &[0, 0, 0x80, 0x3f],
        ]
        .concat();
        assert_eq!(w.message(), expected);
        let mut r = CdrReader::new(w.message()).unwrap();
        assert_eq!(r.u8("a"), Ok(1));
        assert_eq!(r.u32("b"), Ok(2));
        assert_eq!(r.u8("c"), Ok(3));
        assert_eq!(r.u64("d"), Ok(4));
        assert_eq!(r.text("e"), Ok("ab"));
        assert_eq!(r.u16("f"), Ok(5));
        assert_eq!(r.f32("g"), Ok(1.0));
        assert_eq!(r.u8("h"), Err(CdrError::Short("h")));
    }

    #[test]
    fn big_endian_messages_are_read() {
        let message = [0, 0, 0, 0, 0, 0, 1, 2, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0];
        let mut r = CdrReader::new(&message[..8]).unwrap();
        assert_eq!(r.u32("n"), Ok(258));
        let double = [&message[..4], &message[8..]].concat();
        let mut r = CdrReader::new(&double).unwrap();
        assert_eq!(r.f64("n"), Ok(1.0));
    }

    #[test]
    fn other_encodings_are_refused() {
        assert_eq!(
            CdrReader::new(&[0, 7, 0, 0]).err(),
            Some(CdrError::Encoding(7))
        );
        assert_eq!(
            CdrReader::new(&[0, 1, 0]).err(),
            Some(CdrError::Short("head"))
        );
    }

    proptest! {
        #[test]
        fn hostile_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..64), ops in prop::collection::vec(0..8u8, 0..20)) {
            let mut bytes = bytes;
            if bytes.len() >= 2 {
                (bytes[0], bytes[1]) = (0, bytes[1] & 1);
            }
            if let Ok(mut r) = CdrReader::new(&bytes) {
                for op in ops {
                    match op {
                        0 => { let _ = r.u8("x"); }
                        1 => { let _ = r.u16("x"); }
                        2 => { let _ = r.u32("x"); }
                        3 => { let _ = r.f64("x"); }
                        4 => { let _ = r.text("x"); }
                        5 => { let _ = r.octets("x"); }
                        6 => prop_assert!(r.count(3, "x").unwrap_or(0) <= 21),
                        _ => { let _ = r.bool("x"); }
                    }
                }
            }
        }
    }
}
