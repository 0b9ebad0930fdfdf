//! The writing end of a recording: one MCAP file after the other.
use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mcap::{McapError, WriteOptions, records};

use super::{
    RecordConfig,
    disk::{Counted, Disk, Lent, delete_oldest, file_name, recorded},
};
use crate::{
    frame::Timestamp,
    recording::{FORMAT, METADATA, Topic, checksum},
};

/// A chunk is closed at this size, too.
const CHUNK: u64 = 8 << 20;

struct Open {
    writer: mcap::Writer<Lent>,
    file: Lent,
    path: PathBuf,
    /// Whether the channel of each topic, raw and as PNG, is in it; they come when first used.
    channels: [[bool; 2]; Topic::ALL.len()],
}

/// When the chunk that is open was begun: on our clock, and by its first message.
#[derive(Clone, Copy)]
struct Chunk {
    begun: Instant,
    first: Timestamp,
}

/// The files of one recording.
pub struct Series {
    disk: Box<dyn Disk>,
    config: RecordConfig,
    /// Where its files go, and where all recordings are that share the quota.
    folder: PathBuf,
    root: PathBuf,
    next: u32,
    open: Option<Open>,
    chunk: Option<Chunk>,
    synced: Instant,
    /// Whether something was written since.
    dirty: bool,
    /// Bytes of the open file; and of all files.
    pub file_bytes: Arc<AtomicU64>,
    pub all_bytes: u64,
}

impl Series {
    pub fn new(
        disk: Box<dyn Disk>,
        config: RecordConfig,
        folder: PathBuf,
        root: PathBuf,
        file_bytes: Arc<AtomicU64>,
    ) -> Self {
        Self {
            disk,
            config,
            folder,
            root,
            next: 0,
            open: None,
            chunk: None,
            synced: Instant::now(),
            dirty: false,
            file_bytes,
            all_bytes: 0,
        }
    }

    /// Files begun so far.
    pub fn files(&self) -> u32 {
        self.next
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Ends the open file, if there is one, and begins the next. `about` is kept in it.
    pub fn rotate(&mut self, about: &BTreeMap<String, String>) -> Result<(), McapError> {
        self.finish()?;
        let path = self.folder.join(file_name(self.next));
        self.make_room(&path)?;
        let store = self.disk.create(&path)?;
        self.file_bytes.store(0, Ordering::Relaxed);
        let file = Lent::new(Counted::new(store, Arc::clone(&self.file_bytes)));
        let mut writer = WriteOptions::new()
            .profile("ros2")
            .library(concat!("roadloop ", env!("CARGO_PKG_VERSION")))
            .compression(None)
            .chunk_size(Some(CHUNK))
            // Chunks are written whole: nothing in the file changes once it is there.
            .disable_seeking(true)
            .create(file.clone())?;
        let mut metadata = about.clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        metadata.extend([
            ("format".into(), FORMAT.to_string()),
            ("file".into(), self.next.to_string()),
            (
                "wall_clock_ns".into(),
                now.map_or(0, |d| d.as_nanos()).to_string(),
            ),
        ]);
        metadata.insert("crc32".into(), checksum(&metadata));
        writer.write_metadata(&records::Metadata {
            name: METADATA.into(),
            metadata,
        })?;
        self.open = Some(Open {
            writer,
            file,
            path,
            channels: [[false; 2]; Topic::ALL.len()],
        });
        self.next += 1;
        self.chunk = None;
        Ok(())
    }

    /// Writes a message; nothing where no file is open.
    pub fn write(
        &mut self,
        topic: Topic,
        png: bool,
        sequence: usize,
        stamp: Timestamp,
        message: &[u8],
    ) -> Result<(), McapError> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let known = &mut open.channels[topic as usize][usize::from(png)];
        if !*known {
            channel(&mut open.writer, topic, png)?;
            *known = true;
        }
        let header = records::MessageHeader {
            channel_id: topic.channel(png),
            sequence: sequence as u32,
            log_time: stamp.0,
            publish_time: stamp.0,
        };
        open.writer.write_to_known_channel(&header, message)?;
        self.chunk.get_or_insert(Chunk {
            begun: Instant::now(),
            first: stamp,
        });
        Ok(())
    }

    /// Closes the chunk when it is old enough, by the clock or by its messages, the next of
    /// which is of `now`; and forces what was written onto the disk when that is due.
    pub fn tick(&mut self, now: Option<Timestamp>) -> Result<(), McapError> {
        let (chunk_ms, fsync_ms) = (self.config.chunk_ms, self.config.fsync_ms);
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let long = Duration::from_millis(chunk_ms);
        let spans =
            |first| now.is_some_and(|now: Timestamp| now.since(first) >= chunk_ms * 1_000_000);
        if self
            .chunk
            .is_some_and(|c| c.begun.elapsed() >= long || spans(c.first))
        {
            open.writer.flush()?;
            self.chunk = None;
            self.dirty = true;
        }
        if self.dirty && self.synced.elapsed() >= Duration::from_millis(fsync_ms) {
            open.file.sync()?;
            let path = open.path.clone();
            self.synced = Instant::now();
            self.dirty = false;
            self.make_room(&path)?;
        }
        Ok(())
    }

    /// How long nothing need be done.
    pub fn patience(&self) -> Duration {
        let least = [self.config.chunk_ms, self.config.fsync_ms.max(10)];
        Duration::from_millis(least.into_iter().min().unwrap_or(10) / 4 + 1)
    }

    /// Deletes the oldest files beyond the quota; stops where the disk is about full.
    fn make_room(&mut self, open: &std::path::Path) -> io::Result<()> {
        let quota = self.config.quota_mib << 20;
        if quota > 0 {
            let mut all: u64 = recorded(&self.root).iter().map(|f| f.1).sum();
            while all > quota && delete_oldest(&self.root, open) {
                all = recorded(&self.root).iter().map(|f| f.1).sum();
            }
        }
        let least = self.config.min_free_mib << 20;
        while self.disk.free(&self.folder)? < least {
            if quota == 0 || !delete_oldest(&self.root, open) {
                let text = format!(
                    "fewer than {} MiB are free (record.min_free_mib)",
                    self.config.min_free_mib
                );
                return Err(io::Error::new(io::ErrorKind::StorageFull, text));
            }
        }
        Ok(())
    }

    /// Ends the open file.
    pub fn finish(&mut self) -> Result<(), McapError> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let result = open.writer.finish().map(|_| ());
        self.all_bytes += self.file_bytes.swap(0, Ordering::Relaxed);
        self.dirty = false;
        result?;
        Ok(open.file.sync()?)
    }
}

/// Schema and channel have the numbers that they have in all files: so a damaged file is read
/// without the records that say so.
fn channel(writer: &mut mcap::Writer<Lent>, topic: Topic, png: bool) -> Result<(), McapError> {
    let (schema, id) = (topic.schema(png), topic.channel(png));
    writer.add_schema_with_id(
        schema.number,
        schema.name,
        "ros2msg",
        schema.text.as_bytes(),
    )?;
    // rosbag2 looks for the quality of service of a channel; an empty text is the default one.
    let metadata = BTreeMap::from([("offered_qos_profiles".to_owned(), String::new())]);
    writer.add_channel_with_id(id, schema.number, &topic.path(png), "cdr", &metadata)?;
    Ok(())
}
