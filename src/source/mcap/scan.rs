//! The records of an MCAP file, one after the other, whatever has happened to it: what is cut
//! off or damaged is passed by, and told.
use std::{collections::BTreeMap, fs::File, io::Read as _, ops::Range, os::unix::fs::FileExt as _};

/// At the start and the end of a file.
const MAGIC: &[u8; 8] = b"\x89MCAP0\r\n";

/// The largest chunk that is read, bytes, compressed or not.
pub const MAX_CHUNK: u64 = 1 << 28;

/// The largest other record that is looked into, bytes.
const MAX_RECORD: u64 = 1 << 24;

mod op {
    pub const FOOTER: u8 = 0x02;
    pub const SCHEMA: u8 = 0x03;
    pub const CHANNEL: u8 = 0x04;
    pub const MESSAGE: u8 = 0x05;
    pub const CHUNK: u8 = 0x06;
    pub const METADATA: u8 = 0x0C;
    pub const DATA_END: u8 = 0x0F;
}

/// Opcode and length.
const HEAD: u64 = 9;

/// How a chunk is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// Where the records of a chunk lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkAt {
    /// In the file.
    pub offset: u64,
    /// Bytes there.
    pub length: u32,
    /// Bytes of the records.
    pub uncompressed: u32,
    /// How to come from the one to the other.
    pub compression: Compression,
}

/// Where the bytes of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The chunk among those found so far; `u32::MAX` where it lies in the file as it is.
    pub chunk: u32,
    /// Bytes.
    pub length: u32,
    /// In the file, or among the chunk's records.
    pub offset: u64,
}

impl At {
    /// The place of messages that lie in the file as they are.
    pub const FILE: u32 = u32::MAX;
}

/// What is found in a file.
pub enum Item<'a> {
    /// A channel: its number, that of its schema, topic and encoding of messages.
    Channel(u16, u16, &'a str, &'a str),
    /// A schema: its number and name.
    Schema(u16, &'a str),
    /// A metadata record.
    Metadata(&'a str, BTreeMap<String, String>),
    /// The next messages lie in this chunk, which is compressed.
    Chunk(ChunkAt),
    /// A message.
    Message(Message<'a>),
    /// Bytes that could not be read, and why.
    Damage(Range<u64>, String),
}

/// A message.
pub struct Message<'a> {
    /// Number of its channel.
    pub channel: u16,
    /// As its writer counted.
    pub sequence: u32,
    /// When it was recorded, ns.
    pub log_time: u64,
    /// What it says.
    pub data: &'a [u8],
    /// Where that lies.
    pub at: At,
}

/// Little-endian fields one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

/// The head of a chunk.
struct ChunkHead {
    crc: u32,
    /// Of the head, bytes.
    length: u64,
    at: ChunkAt,
}

fn chunk_head(body: &[u8], offset: u64, body_length: u64) -> Result<ChunkHead, String> {
    let short = || "its head is damaged".to_owned();
    let mut fields = Fields(body);
    let (start, end) = (fields.u64(), fields.u64());
    if start.is_none() || start > end {
        return Err(short());
    }
    let uncompressed = fields.u64().ok_or_else(short)?;
    let crc = fields.u32().ok_or_else(short)?;
    let name = fields.text().ok_or_else(short)?;
    let compression = match name {
        "" => Compression::None,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ if name.len() < 32 => return Err(format!("its compression is {name:?}")),
        _ => return Err(short()),
    };
    let length = fields.u64().ok_or_else(short)?;
    let head = (body.len() - fields.0.len()) as u64;
    if head.checked_add(length) != Some(body_length)
        || (compression == Compression::None && length != uncompressed)
    {
        return Err(short());
    }
    if length > MAX_CHUNK || uncompressed > MAX_CHUNK {
        return Err(format!(
            "{uncompressed} bytes, expected at most {MAX_CHUNK}"
        ));
    }
    Ok(ChunkHead {
        crc,
        length: head,
        at: ChunkAt {
            offset: offset + head,
            length: length as u32,
            uncompressed: uncompressed as u32,
            compression,
        },
    })
}

/// Puts the records of a chunk into `out`.
pub fn decompress(at: &ChunkAt, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    let limit = u64::from(at.uncompressed);
    let failed = |e: &dyn std::fmt::Display| format!("can't be decompressed: {e}");
    match at.compression {
        Compression::None => out.extend_from_slice(bytes),
        Compression::Lz4 => {
            let mut decoder = lz4_flex::frame::FrameDecoder::new(bytes).take(limit + 1);
            decoder.read_to_end(out).map_err(|e| failed(&e))?;
        }
        Compression::Zstd => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(bytes);
            let mut decoder = decoder.map_err(|e| failed(&e))?.take(limit + 1);
            decoder.read_to_end(out).map_err(|e| failed(&e))?;
        }
    }
    if out.len() as u64 == limit {
        Ok(())
    } else {
        Err(format!("{} bytes come out, expected {limit}", out.len()))
    }
}

/// A file that is being read through.
pub struct Scan<'a> {
    file: &'a File,
    length: u64,
    at: u64,
    body: Vec<u8>,
    records: Vec<u8>,
    /// Chunks passed on so far.
    chunks: u32,
    closed: bool,
}

impl<'a> Scan<'a> {
    /// Begins at the start of a file; `None` where it is not one.
    ///
    /// # Errors
    /// As the file system has them.
    pub fn new(file: &'a File) -> std::io::Result<Option<Self>> {
        let length = file.metadata()?.len();
        let mut magic = [0; MAGIC.len()];
        if length < MAGIC.len() as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut magic, 0)?;
        Ok((magic == *MAGIC).then_some(Self {
            file,
            length,
            at: MAGIC.len() as u64,
            body: Vec::new(),
            records: Vec::new(),
            chunks: 0,
            closed: false,
        }))
    }

    /// Reads through to the end.
    ///
    /// # Errors
    /// As the file system has them; and what `visit` says.
    pub fn run<E: From<std::io::Error>>(
        &mut self,
        visit: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.at < self.length {
            match self.record(visit)? {
                Step::Next(at) => self.at = at,
                Step::End => {
                    self.closed = true;
                    return Ok(());
                }
                Step::Damaged(why) => {
                    let from = self.at;
                    self.at = self.next_chunk(from + 1)?;
                    visit(Item::Damage(from..self.at, why))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the file was read to the end that a recorder writes when it closes it.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Reads `n` bytes at `offset` into the body.
    fn read(&mut self, offset: u64, n: u64) -> std::io::Result<()> {
        self.body.resize(n as usize, 0);
        self.file.read_exact_at(&mut self.body, offset)
    }

    fn record<E: From<std::io::Error>>(
        &mut self,
        visit: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<Step, E> {
        let left = self.length - self.at;
        if left < HEAD {
            return Ok(Step::Damaged("the file ends here".into()));
        }
        let mut head = [0; HEAD as usize];
        self.file.read_exact_at(&mut head, self.at)?;
        let [op, length @ ..] = head;
        let length = u64::from_le_bytes(length);
        let start = self.at + HEAD;
        if op == 0 || (0x10..0x80).contains(&op) {
            return Ok(Step::Damaged("no record begins here".into()));
        }
        if length > left - HEAD {
            return Ok(Step::Damaged(
                "the file ends in the middle of a record".into(),
            ));
        }
        let next = Step::Next(start + length);
        match op {
            op::DATA_END | op::FOOTER => return Ok(Step::End),
            op::CHUNK => return self.chunk(start, length, visit),
            op::SCHEMA | op::CHANNEL | op::METADATA | op::MESSAGE => {}
            // Indices, attachments and what is private: passed by.
            _ => return Ok(next),
        }
        if length
            > if op == op::MESSAGE {
                MAX_CHUNK
            } else {
                MAX_RECORD
            }
        {
            return Ok(Step::Damaged(format!("a record of {length} bytes")));
        }
        self.read(start, length)?;
        if one(op, &self.body, (At::FILE, start), visit)? {
            return Ok(next);
        }
        Ok(Step::Damaged("a record is damaged".into()))
    }

    fn chunk<E: From<std::io::Error>>(
        &mut self,
        start: u64,
        length: u64,
        visit: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<Step, E> {
        let damaged = |why: String| Ok(Step::Damaged(format!("a chunk is lost: {why}")));
        if length > MAX_CHUNK + 64 {
            return damaged(format!("{length} bytes, expected at most {MAX_CHUNK}"));
        }
        self.read(start, length)?;
        let head = match chunk_head(&self.body, start, length) {
            Ok(head) => head,
            Err(why) => return damaged(why),
        };
        let bytes = &self.body[head.length as usize..];
        let plain = head.at.compression == Compression::None;
        if !plain && let Err(why) = decompress(&head.at, bytes, &mut self.records) {
            return damaged(why);
        }
        let records = if plain { bytes } else { &self.records[..] };
        // 0 says that there is none.
        if head.crc != 0 && crc32fast::hash(records) != head.crc {
            return damaged("its checksum is wrong".into());
        }
        let (number, base) = if plain {
            (At::FILE, head.at.offset)
        } else {
            visit(Item::Chunk(head.at))?;
            self.chunks += 1;
            (self.chunks - 1, 0)
        };
        let mut at = 0;
        while let Some((&[op, ref length @ ..], _)) = records[at..].split_first_chunk::<9>() {
            let body = at + HEAD as usize;
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let Some(end) = body.checked_add(length).filter(|&end| end <= records.len()) else {
                break;
            };
            if !one(op, &records[body..end], (number, base + body as u64), visit)? {
                break;
            }
            at = end;
        }
        if at < records.len() {
            let here = self.at..start + length;
            visit(Item::Damage(here, "a record in a chunk is damaged".into()))?;
        }
        Ok(Step::Next(start + length))
    }

    /// Where the next whole chunk begins, from `from` on; the end of the file where there is none.
    fn next_chunk(&self, from: u64) -> std::io::Result<u64> {
        const WINDOW: u64 = 1 << 16;
        // More than what is looked at of a chunk.
        const OVERLAP: u64 = 64;
        let mut window = Vec::new();
        let mut bytes = Vec::new();
        // What looks like a chunk and has another checksum costs time: no file makes it cost much.
        let mut tries = 256;
        let mut at = from;
        while at + HEAD < self.length {
            window.resize(WINDOW.min(self.length - at) as usize, 0);
            self.file.read_exact_at(&mut window, at)?;
            let last = at + window.len() as u64 == self.length;
            let end = if last {
                window.len()
            } else {
                window.len() - OVERLAP as usize
            };
            for (i, _) in window[..end]
                .iter()
                .enumerate()
                .filter(|(_, b)| **b == op::CHUNK)
            {
                let Some((length, body)) = window[i + 1..].split_first_chunk() else {
                    break;
                };
                let length = u64::from_le_bytes(*length);
                let start = at + i as u64 + HEAD;
                if length > MAX_CHUNK || length > self.length - start {
                    continue;
                }
                // The texts that are taken are short: the head lies in the window.
                let Ok(head) = chunk_head(&body[..body.len().min(OVERLAP as usize)], start, length)
                else {
                    continue;
                };
                if tries == 0 {
                    return Ok(self.length);
                }
                tries -= 1;
                if head.at.compression == Compression::None && head.crc != 0 {
                    bytes.resize(head.at.length as usize, 0);
                    self.file.read_exact_at(&mut bytes, head.at.offset)?;
                    if crc32fast::hash(&bytes) != head.crc {
                        continue;
                    }
                }
                return Ok(start - HEAD);
            }
            if last {
                break;
            }
            at += end as u64;
        }
        Ok(self.length)
    }
}

enum Step {
    /// The next record begins there.
    Next(u64),
    /// There are no more messages.
    End,
    /// What begins here can't be read.
    Damaged(String),
}

/// Passes a record on; false where it is damaged. `base`: where it lies.
fn one<E>(
    op: u8,
    body: &[u8],
    (chunk, offset): (u32, u64),
    visit: &mut impl FnMut(Item<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    let mut fields = Fields(body);
    let item = match op {
        op::SCHEMA => (|| Some(Item::Schema(fields.u16()?, fields.text()?)))(),
        op::CHANNEL => (|| {
            let (id, schema) = (fields.u16()?, fields.u16()?);
            Some(Item::Channel(id, schema, fields.text()?, fields.text()?))
        })(),
        op::METADATA => (|| {
            let name = fields.text()?;
            let length = fields.u32()? as usize;
            let mut pairs = Fields(fields.take(length)?);
            let mut map = BTreeMap::new();
            while !pairs.0.is_empty() {
                map.insert(pairs.text()?.to_owned(), pairs.text()?.to_owned());
            }
            Some(Item::Metadata(name, map))
        })(),
        op::MESSAGE => (|| {
            let (channel, sequence) = (fields.u16()?, fields.u32()?);
            let (log_time, _) = (fields.u64()?, fields.u64()?);
            let data = fields.0;
            let at = At {
                chunk,
                length: data.len() as u32,
                offset: offset + (body.len() - data.len()) as u64,
            };
            Some(Item::Message(Message {
                channel,
                sequence,
                log_time,
                data,
                at,
            }))
        })(),
        _ => return Ok(true),
    };
    match item {
        Some(item) => visit(item).map(|()| true),
        None => Ok(false),
    }
}
