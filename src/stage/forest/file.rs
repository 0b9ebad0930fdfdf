//! The model file.
//!
//! Little-endian throughout:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `RLFOREST` |
//! | 4 | version, [`VERSION`] |
//! | 4 | `m`, length of the description |
//! | m | the description: [`Meta`] as JSON |
//! | 0-7 | noughts up to a multiple of 8 |
//! | 4 | trees |
//! | 4 | 0 |
//! | 16 a tree | nodes, leaves: 8 bytes each |
//! | 24 a node | left (4), offsets (4 x 2), sizes (4), channels (2), kind, 0, tau (4) |
//! | 4 a class | of each leaf, tree after tree: training pixels |
//! | 4 | CRC-32 (IEEE) of all bytes before |
//!
//! Nodes of all trees lie one after the other, then all counts: each block can be mapped or
//! copied to a device as it is. A checkpoint is the same file with `progress` in its description.
use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use super::{
    feature::Theta,
    model::{Forest, Meta, Node, Tree},
};
use crate::files;

/// The version that is written and read.
pub const VERSION: u32 = 1;

/// Largest model file, bytes.
pub const MAX_FILE: u64 = 1 << 34;

const MAGIC: &[u8; 8] = b"RLFOREST";
const MAX_META: usize = 1 << 22;
const NODE_BYTES: usize = 24;

/// Why a model file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// It can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no model file.
    #[error("{}: not a forest (begins with {found:?}, expected \"RLFOREST\")", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Its first bytes.
        found: String,
    },
    /// It is of another version.
    #[error("{}: a forest of version {found}, expected {VERSION}", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It ends too early, or goes on too long.
    #[error("{}: {found} bytes, expected {expected} ({what})", path.display())]
    Length {
        /// Which file.
        path: PathBuf,
        /// Bytes that are there.
        found: u64,
        /// Bytes that it should have.
        expected: u64,
        /// Up to where that is known.
        what: &'static str,
    },
    /// Its bytes have changed.
    #[error("{}: damaged: CRC {found:08x}, expected {expected:08x}", path.display())]
    Crc {
        /// Which file.
        path: PathBuf,
        /// That of its bytes.
        found: u32,
        /// The one it brings.
        expected: u32,
    },
    /// What it holds makes no sense.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What was found and expected.
        what: String,
    },
}

impl ModelError {
    /// Whether the file is there and is no good, rather than not there.
    pub fn is_data(&self) -> bool {
        match self {
            Self::Io { source, .. } => files::is_data(source),
            _ => true,
        }
    }

    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Writes what passes through, and its CRC.
struct Summed<W> {
    inner: W,
    crc: crc32fast::Hasher,
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl Forest {
    /// Writes the file to `out`.
    ///
    /// # Errors
    /// As `out` has them.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = Summed {
            inner: out,
            crc: crc32fast::Hasher::new(),
        };
        let meta = serde_json::to_vec(&self.meta)?;
        out.put(MAGIC)?;
        out.put(&VERSION.to_le_bytes())?;
        out.put(&(meta.len() as u32).to_le_bytes())?;
        out.put(&meta)?;
        out.put(&[0; 8][..padding(meta.len())])?;
        out.put(&(self.trees.len() as u32).to_le_bytes())?;
        out.put(&[0; 4])?;
        for tree in &self.trees {
            out.put(&(tree.nodes.len() as u64).to_le_bytes())?;
            out.put(&(tree.leaves() as u64).to_le_bytes())?;
        }
        for node in self.trees.iter().flat_map(|t| &t.nodes) {
            out.put(&node_bytes(node))?;
        }
        for count in self.trees.iter().flat_map(|t| &t.counts) {
            out.put(&count.to_le_bytes())?;
        }
        let crc = out.crc.clone().finalize();
        out.inner.write_all(&crc.to_le_bytes())?;
        out.inner.flush()
    }

    /// Writes the file `path`: beside it first, then in its place, so that at any instant there
    /// is the old one or the new one, whole.
    ///
    /// # Errors
    /// [`ModelError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let beside = path.with_file_name(name);
        let write = || -> io::Result<()> {
            let file = File::create(&beside)?;
            self.write(BufWriter::new(&file))?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(|e| {
            let _ = fs::remove_file(&beside);
            ModelError::io(path)(e)
        })
    }

    /// A hash of everything in it: of the bytes of its file.
    pub fn digest(&self) -> u64 {
        struct Hashed(xxhash_rust::xxh3::Xxh3);
        impl Write for Hashed {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.update(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut hash = Hashed(xxhash_rust::xxh3::Xxh3::new());
        // Into memory: it can't fail.
        let _ = self.write(&mut hash);
        hash.0.digest()
    }

    /// Reads the file `path` and checks all of it. It is streamed: besides the forest itself a
    /// buffer of 64 KiB is taken, and nothing that the file's length does not bear out.
    ///
    /// # Errors
    /// As [`ModelError`] says.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let file = files::open(path, MAX_FILE).map_err(ModelError::io(path))?;
        let meta = file.get_ref().metadata().map_err(ModelError::io(path))?;
        Self::read(file, meta.len(), path)
    }

    /// Reads the bytes of a file, which is called `path` in errors.
    ///
    /// # Errors
    /// As [`ModelError`] says, [`ModelError::Io`] excepted.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, ModelError> {
        Self::read(bytes, bytes.len() as u64, path)
    }

    /// Reads a file of `len` bytes that is called `path` in errors, at most 64 KiB at a time.
    ///
    /// # Errors
    /// As [`ModelError`] says.
    pub fn read(from: impl Read, len: u64, path: &Path) -> Result<Self, ModelError> {
        let mut from = Streamed::new(from, len, path);
        let content = |what: String| ModelError::Content {
            path: path.into(),
            what,
        };
        let known = len.min(8) as usize;
        let magic = from.take(known)?;
        if magic != &MAGIC[..known] || known == 0 {
            return Err(ModelError::Foreign {
                path: path.into(),
                found: String::from_utf8_lossy(magic).into_owned(),
            });
        }
        from.at_least(16, "at least, for its head")?;
        let version = from.word()?;
        if version != VERSION {
            return Err(ModelError::Version {
                path: path.into(),
                found: version,
            });
        }
        let length = from.word()? as usize;
        if length > MAX_META {
            return Err(content(format!(
                "a description of {length} bytes, expected at most {MAX_META}"
            )));
        }
        let table = 16 + length as u64 + padding(length) as u64;
        from.at_least(table + 8, "at least, for its description")?;
        let mut text = Vec::with_capacity(length);
        from.chunks(length as u64, |bytes| text.extend_from_slice(bytes))?;
        from.take(padding(length))?;
        let trees = from.word()?;
        from.word()?;
        let body = table + 8 + 16 * u64::from(trees);
        from.at_least(body, "at least, for its table of trees")?;
        let mut sizes = Vec::with_capacity(trees as usize);
        for _ in 0..trees {
            sizes.push((from.long()?, from.long()?));
        }
        // The checksum before anything that was described, sizes that the file bears out aside.
        let meta = serde_json::from_slice::<Meta>(&text);
        drop(text);
        let meta = match meta {
            Ok(meta) => meta,
            Err(e) => {
                from.at_least(body + 4, "at least, for its checksum")?;
                from.chunks(len - body - 4, |_| ())?;
                from.end()?;
                return Err(content(format!("its description: {e}")));
            }
        };
        let classes = meta.classes.len() as u64;
        let total = |f: &dyn Fn(&(u64, u64)) -> u64| {
            sizes.iter().try_fold(0u64, |sum, s| sum.checked_add(f(s)))
        };
        let expected = total(&|s| s.0)
            .and_then(|n| n.checked_mul(NODE_BYTES as u64))
            .zip(total(&|s| s.1).and_then(|n| n.checked_mul(4 * classes)))
            .and_then(|(nodes, counts)| nodes.checked_add(counts)?.checked_add(body + 4))
            .unwrap_or(u64::MAX);
        if len != expected {
            return Err(from.short(expected, "for its trees"));
        }
        let mut list = Vec::with_capacity(sizes.len());
        for &(nodes, leaves) in &sizes {
            let mut tree = Tree {
                nodes: Vec::with_capacity(nodes as usize),
                counts: Vec::with_capacity((leaves * classes) as usize),
            };
            from.records(nodes, |b: &[u8; NODE_BYTES]| tree.nodes.push(node_of(b)))?;
            list.push(tree);
        }
        for (tree, &(_, leaves)) in list.iter_mut().zip(&sizes) {
            from.records(leaves * classes, |b: &[u8; 4]| {
                tree.counts.push(u32::from_le_bytes(*b));
            })?;
        }
        from.end()?;
        let forest = Self { meta, trees: list };
        forest.validate().map_err(content)?;
        Ok(forest)
    }
}

/// A file of known length, read through a buffer; what was read is summed.
struct Streamed<'a, R> {
    inner: R,
    path: &'a Path,
    crc: crc32fast::Hasher,
    buffer: Vec<u8>,
    read: u64,
    len: u64,
}

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 16;

impl<'a, R: Read> Streamed<'a, R> {
    fn new(inner: R, len: u64, path: &'a Path) -> Self {
        Self {
            inner,
            path,
            crc: crc32fast::Hasher::new(),
            buffer: vec![0; BUFFER],
            read: 0,
            len,
        }
    }

    fn short(&self, expected: u64, what: &'static str) -> ModelError {
        ModelError::Length {
            path: self.path.into(),
            found: self.len,
            expected,
            what,
        }
    }

    fn at_least(&self, expected: u64, what: &'static str) -> Result<(), ModelError> {
        if self.len < expected {
            return Err(self.short(expected, what));
        }
        Ok(())
    }

    fn fill(&mut self, n: usize) -> Result<(), ModelError> {
        let Self { inner, buffer, .. } = self;
        inner.read_exact(&mut buffer[..n]).map_err(|e| {
            if e.kind() == io::ErrorKind::UnexpectedEof {
                // It was cut while it was read.
                ModelError::Length {
                    path: self.path.into(),
                    found: self.read,
                    expected: self.len,
                    what: "as it had when it was opened",
                }
            } else {
                ModelError::io(self.path)(e)
            }
        })?;
        self.read += n as u64;
        Ok(())
    }

    /// The next bytes, at most a buffer.
    fn take(&mut self, n: usize) -> Result<&[u8], ModelError> {
        self.fill(n)?;
        self.crc.update(&self.buffer[..n]);
        Ok(&self.buffer[..n])
    }

    fn word(&mut self) -> Result<u32, ModelError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn long(&mut self) -> Result<u64, ModelError> {
        Ok(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    /// The next `n` bytes, part by part.
    fn chunks(&mut self, n: u64, mut each: impl FnMut(&[u8])) -> Result<(), ModelError> {
        let mut left = n;
        while left > 0 {
            let part = left.min(BUFFER as u64);
            each(self.take(part as usize)?);
            left -= part;
        }
        Ok(())
    }

    /// The next `n` records of `N` bytes.
    fn records<const N: usize>(
        &mut self,
        n: u64,
        mut each: impl FnMut(&[u8; N]),
    ) -> Result<(), ModelError> {
        let mut left = n;
        while left > 0 {
            let part = left.min((BUFFER / N) as u64);
            let (records, _) = self.take(part as usize * N)?.as_chunks::<N>();
            records.iter().for_each(&mut each);
            left -= part;
        }
        Ok(())
    }

    /// Checks the sum, and that nothing follows.
    fn end(&mut self) -> Result<(), ModelError> {
        let found = self.crc.clone().finalize();
        let expected = self.word()?;
        if found != expected {
            return Err(ModelError::Crc {
                path: self.path.into(),
                found,
                expected,
            });
        }
        let mut more = [0; 1];
        match self.inner.read(&mut more) {
            Ok(0) => Ok(()),
            Ok(_) => Err(ModelError::Length {
                path: self.path.into(),
                found: self.len + 1,
                expected: self.len,
                what: "as it had when it was opened",
            }),
            Err(e) => Err(ModelError::io(self.path)(e)),
        }
    }
}

/// Noughts after a description, up to a multiple of 8.
fn padding(length: usize) -> usize {
    length.wrapping_neg() % 8
}

fn node_bytes(node: &Node) -> [u8; NODE_BYTES] {
    let mut bytes = [0; NODE_BYTES];
    bytes[..4].copy_from_slice(&node.left.to_le_bytes());
    for (to, v) in bytes[4..12].chunks_exact_mut(2).zip(node.theta.offsets) {
        to.copy_from_slice(&v.to_le_bytes());
    }
    bytes[12..16].copy_from_slice(&node.theta.sizes);
    bytes[16..18].copy_from_slice(&node.theta.channels);
    bytes[18] = node.theta.kind;
    bytes[20..].copy_from_slice(&node.tau.to_le_bytes());
    bytes
}

fn node_of(b: &[u8; NODE_BYTES]) -> Node {
    let short = |i: usize| i16::from_le_bytes([b[i], b[i + 1]]);
    Node {
        left: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        theta: Theta {
            offsets: [short(4), short(6), short(8), short(10)],
            sizes: [b[12], b[13], b[14], b[15]],
            channels: [b[16], b[17]],
            kind: b[18],
        },
        tau: i32::from_le_bytes([b[20], b[21], b[22], b[23]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::forest::{
        feature::{FeatureSpec, Region},
        model::{Class, LEAF, Recipe},
        planes::InputSpec,
    };

    fn forest() -> Forest {
        let split = Node {
            left: 1,
            theta: Theta {
                offsets: [-3, 4, 500, -600],
                sizes: [1, 2, 3, 4],
                channels: [2, 1],
                kind: 0,
            },
            tau: -70_000,
        };
        let class = |index, name: &str| Class {
            index,
            name: name.into(),
            colour: [index, 2, 3],
        };
        Forest {
            meta: Meta {
                feature: FeatureSpec::Region(Region::default()),
                input: InputSpec::default(),
                classes: vec![class(1, "road"), class(7, "sky")],
                void: 0,
                recipe: Recipe::default(),
                images: 3,
                class_pixels: vec![100, 200],
                data_digest: u64::MAX,
                progress: None,
                program: "test".into(),
            },
            trees: vec![
                Tree {
                    nodes: vec![split, Node::leaf(0), Node::leaf(1)],
                    counts: vec![1, 2, 3, 4],
                },
                Tree {
                    nodes: vec![Node::leaf(0)],
                    counts: vec![5, 6],
                },
            ],
        }
    }

    fn bytes(forest: &Forest) -> Vec<u8> {
        let mut bytes = Vec::new();
        forest.write(&mut bytes).unwrap();
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Forest, ModelError> {
        Forest::parse(bytes, Path::new("f.forest"))
    }

    #[test]
    fn what_is_written_is_read() {
        let forest = forest();
        let file = bytes(&forest);
        assert_eq!(parse(&file).unwrap(), forest);
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("f.forest");
        forest.save(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), file);
        assert_eq!(Forest::load(&path).unwrap(), forest);
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1);
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused() {
        let file = bytes(&forest());
        for n in 0..file.len() {
            assert!(parse(&file[..n]).is_err(), "{n} bytes");
        }
        for n in 0..file.len() {
            let mut damaged = file.clone();
            damaged[n] ^= 0x10;
            assert!(parse(&damaged).is_err(), "byte {n}");
        }
        let mut longer = file.clone();
        longer.push(0);
        assert!(parse(&longer).is_err());
    }

    /// A reader of a file that notes the largest read, and may end early.
    struct Watched<'a>(&'a [u8], usize);

    impl Read for Watched<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1.max(to.len());
            self.0.read(to)
        }
    }

    #[test]
    fn it_is_streamed() {
        let mut forest = forest();
        forest.trees[1].counts = vec![7; 2];
        // A long list of leaves that is no tree: told at the very end.
        forest.trees[0].nodes.resize(30_000, Node::leaf(0));
        forest.trees[0].counts.resize(2 * 29_999, 5);
        let file = bytes(&forest);
        let path = Path::new("f.forest");
        let mut watched = Watched(&file, 0);
        let error = Forest::read(&mut watched, file.len() as u64, path).unwrap_err();
        assert!(matches!(error, ModelError::Content { .. }), "{error}");
        assert_eq!(watched.1, BUFFER);
        // Cut, or longer, while it is read.
        for there in [&file[..500_000], &[&file[..], &[1]].concat()] {
            let error = Forest::read(there, file.len() as u64, path).unwrap_err();
            assert!(matches!(error, ModelError::Length { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("as it had when it was opened"), "{text}");
        }
    }

    #[test]
    fn refusals_have_reasons() {
        let file = bytes(&forest());
        let text = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert_eq!(
            text(b"P6 1 2 255 "),
            "f.forest: not a forest (begins with \"P6 1 2 2\", expected \"RLFOREST\")"
        );
        let mut other = file.clone();
        other[8] = 9;
        assert_eq!(text(&other), "f.forest: a forest of version 9, expected 1");
        assert!(text(&file[..file.len() - 9]).contains("for its trees"));
        let mut damaged = file.clone();
        let n = file.len();
        damaged[n - 10] ^= 1;
        assert!(text(&damaged).contains("damaged: CRC"));
        // Counts beyond what any memory holds are never taken.
        let mut huge = file;
        let table = 16 + u32::from_le_bytes(huge[12..16].try_into().unwrap()) as usize;
        let table = table.next_multiple_of(8);
        huge[table + 8..table + 16].fill(0xFF);
        assert!(text(&huge).contains("for its trees"));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        type Change = fn(&mut Forest);
        let cases: [(Change, &str); 8] = [
            (|f| f.trees[0].nodes[0].left = 0, "children of node 0"),
            (|f| f.trees[0].nodes[0].left = 2, "children of node 0"),
            (
                |f| {
                    f.trees[0].nodes[2].left = 3;
                    f.trees[0].counts.truncate(2);
                },
                "children of node 2",
            ),
            (|f| f.trees[0].nodes[2].tau = 0, "is leaf 0, expected 1"),
            (|f| f.trees[0].nodes[0].theta.channels[0] = 3, "a channel"),
            (
                |f| {
                    f.trees[1].nodes[0].left = LEAF - 1;
                    f.trees[1].counts.clear();
                },
                "children of node 0",
            ),
            (|f| f.meta.classes[0].index = 9, "do not rise"),
            (|f| f.trees.clear(), "no tree"),
        ];
        for (change, reason) in cases {
            let mut bad = forest();
            change(&mut bad);
            let text = parse(&bytes(&bad)).unwrap_err().to_string();
            assert!(text.contains(reason), "{text}");
        }
    }
}
