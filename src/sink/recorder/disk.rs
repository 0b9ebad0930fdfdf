//! The files of a recording: made one after the other, forced onto the disk, the oldest deleted.
use std::{
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Where bytes go; in tests a disk that fills up.
pub trait Store: Write + Send {
    /// Forces what was written onto the disk.
    ///
    /// # Errors
    /// As the disk has it.
    fn sync(&mut self) -> io::Result<()>;
}

impl Store for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Makes files, and says how many bytes are free where they go.
pub trait Disk: Send {
    /// A new file; none of this name may be there.
    ///
    /// # Errors
    /// As the disk has it.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Store>>;

    /// Bytes that can still be written in this folder.
    ///
    /// # Errors
    /// As the disk has it.
    fn free(&self, folder: &Path) -> io::Result<u64>;
}

/// The file system.
pub struct FileSystem;

impl Disk for FileSystem {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Store>> {
        let file = File::create_new(path)?;
        // So that the file is there, too, after a power cut.
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(Box::new(file))
    }

    fn free(&self, folder: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 16;

/// An open file that counts. Its place can be asked for and not be changed.
pub struct Counted {
    store: Box<dyn Store>,
    buffer: Vec<u8>,
    place: u64,
    bytes: Arc<AtomicU64>,
}

impl Counted {
    /// Counts what is written into `bytes`, too.
    pub fn new(store: Box<dyn Store>, bytes: Arc<AtomicU64>) -> Self {
        Self {
            store,
            buffer: Vec::with_capacity(BUFFER),
            place: 0,
            bytes,
        }
    }

    /// Forces all that was written onto the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.store.sync()
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() > BUFFER {
            self.store.write_all(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.place += bytes.len() as u64;
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.store.write_all(&self.buffer);
        // Never twice: what a full disk took of it is not known.
        self.buffer.clear();
        result
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Current(0) => Ok(self.place),
            _ => Err(io::ErrorKind::NotSeekable.into()),
        }
    }
}

/// An open file that a writer of records holds while its owner may force it onto the disk. Never
/// contended: both are in one thread.
#[derive(Clone)]
pub struct Lent(Arc<Mutex<Counted>>);

impl Lent {
    /// Lends a file.
    pub fn new(file: Counted) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }

    fn file(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forces all that was written onto the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file().sync()
    }
}

impl Write for Lent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Seek for Lent {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file().seek(to)
    }
}

/// The name of file `number` of a recording.
pub fn file_name(number: u32) -> String {
    format!("{number:06}.mcap")
}

fn is_ours(name: &str) -> bool {
    let stem = name.strip_suffix(".mcap");
    stem.is_some_and(|s| s.len() >= 6 && s.bytes().all(|b| b.is_ascii_digit()))
}

/// The files of all recordings in `root` and in the folders right below it, oldest first: by the
/// name of their folder, which is a time, then by number. With their sizes.
pub fn recorded(root: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    gather(root, &mut found);
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            gather(&entry.path(), &mut found);
        }
    }
    found.sort();
    found
}

fn gather(folder: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(is_ours);
        if let (true, Ok(meta)) = (ours, entry.metadata())
            && meta.is_file()
        {
            found.push((entry.path(), meta.len()));
        }
    }
}

/// Deletes the oldest file of those in `root` that is not `open`, and its folder where that is
/// empty then and not the open one's; false where there is none.
pub fn delete_oldest(root: &Path, open: &Path) -> bool {
    let files = recorded(root);
    let Some((path, size)) = files.iter().find(|(path, _)| path != open) else {
        return false;
    };
    match fs::remove_file(path) {
        Ok(()) => {
            log::info!(
                "{}: deleted, {} MiB, the oldest",
                path.display(),
                size >> 20
            );
            if let Some(folder) = path.parent()
                && folder != root
                && Some(folder) != open.parent()
            {
                // Stays where something else is in it.
                let _ = fs::remove_dir(folder);
            }
            true
        }
        Err(e) => {
            log::warn!("{}: can't be deleted: {e}", path.display());
            false
        }
    }
}
