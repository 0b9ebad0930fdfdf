use std::{
    io::{self, Write},
    sync::atomic::AtomicUsize,
};

use super::*;
use crate::{
    calib::Rig,
    frame::{Camera, Size, StereoFrame, Stixels, Street},
};

const SIZE: Size = Size::new(64, 48);

/// A disk that takes so many bytes in all, and no more after the first that did not fit.
struct Small(Arc<AtomicU64>, Arc<AtomicUsize>);

struct Part(Arc<AtomicU64>, std::fs::File, Arc<AtomicUsize>);

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.0.load(Ordering::Relaxed);
        if left < bytes.len() as u64 {
            self.0.store(0, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.store(left - bytes.len() as u64, Ordering::Relaxed);
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl disk::Store for Part {
    fn sync(&mut self) -> io::Result<()> {
        self.2.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Disk for Small {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn disk::Store>> {
        let file = std::fs::File::create_new(path)?;
        Ok(Box::new(Part(
            Arc::clone(&self.0),
            file,
            Arc::clone(&self.1),
        )))
    }

    fn free(&self, _: &Path) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }
}

fn config() -> RecordConfig {
    RecordConfig {
        chunk_ms: 10,
        fsync_ms: 0,
        min_free_mib: 0,
        queue_frames: 4,
        ..RecordConfig::default()
    }
}

fn set(n: usize) -> FrameSet {
    let mut set: FrameSet = StereoFrame::new(SIZE).into();
    set.id.index = n;
    set.id.timestamp = Timestamp(n as u64 * 100_000_000);
    set
}

fn result(n: usize) -> FrameResult {
    let mut result: FrameResult = Street::new(SIZE, Stixels::new(12, 5, 3)).into();
    result.id = set(n).id;
    result
}

fn begin(recorder: &mut Recorder) {
    let camera = Camera {
        focal_px: 70.0,
        cx: 31.0,
        cy: 23.0,
        baseline_m: 0.1,
    };
    let (set, shape, rig) = (set(0), result(0), Rig::rectified(camera));
    let announced = Announced {
        set: Some(&set),
        rig: Some(&rig),
        ..Announced::street(camera, &shape, false)
    };
    recorder.begin(&announced).unwrap();
}

fn hand(recorder: &mut Recorder, n: usize) {
    let set = set(n);
    if let Some(room) = recorder.state_room(set.id) {
        room.clear();
        room.resize(1000, 7);
    }
    let view = View {
        set: Some(&set),
        ..View::default()
    };
    recorder.frame(view, &result(n)).unwrap();
}

#[test]
fn a_full_disk_stops_the_recording_and_not_the_loop() {
    let dir = tempfile::tempdir().unwrap();
    let left = Arc::new(AtomicU64::new(100_000));
    let disk = Box::new(Small(Arc::clone(&left), Arc::default()));
    let about = About::default();
    let mut recorder = Recorder::on(disk, dir.path(), &config(), about, Full::Wait).unwrap();
    begin(&mut recorder);
    for n in 0..50 {
        hand(&mut recorder, n);
        recorder.gap(set(n).id, Gap::Late).unwrap();
    }
    let status = recorder.finish();
    assert!(status.stopped.is_some(), "{status:?}");
    assert!(status.dropped > 0 && status.frames < 50, "{status:?}");
    assert!(status.frames >= 10, "{status:?}");
}

#[test]
fn a_disk_that_does_not_follow_costs_frames_that_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder =
        Recorder::create(dir.path(), &config(), About::default(), Full::Drop).unwrap();
    begin(&mut recorder);
    // Boxes that are away, as if their writer were held up.
    let line = recorder.line.as_ref().unwrap();
    let mut away: Vec<_> = (0..4).filter_map(|_| line.jobs.take().unwrap()).collect();
    assert_eq!(away.len(), 4);
    for n in 0..3 {
        hand(&mut recorder, n);
    }
    assert_eq!(recorder.status().dropped, 3);
    // Then one comes back. It begins the file, with the state before its frame.
    recorder.line.as_mut().unwrap().held = away.pop();
    hand(&mut recorder, 3);
    let status = recorder.finish();
    assert_eq!((status.frames, status.dropped, status.files), (1, 3, 1));
}

#[test]
fn the_oldest_files_make_room_and_other_files_stay() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let old = root.join("2020-01-01T00-00-00Z");
    fs::create_dir_all(&old).unwrap();
    for n in 0..3 {
        fs::write(old.join(disk::file_name(n)), vec![0; 1 << 20]).unwrap();
    }
    fs::write(root.join("notes.mcap"), vec![0; 4 << 20]).unwrap();
    let config = RecordConfig {
        folder: Some(root.into()),
        quota_mib: 2,
        ..config()
    };
    let folder = folder_now(root);
    let mut recorder = Recorder::create(&folder, &config, About::default(), Full::Wait).unwrap();
    begin(&mut recorder);
    (0..5).for_each(|n| hand(&mut recorder, n));
    assert_eq!(recorder.finish().stopped, None);
    let left: Vec<bool> = (0..3)
        .map(|n| old.join(disk::file_name(n)).exists())
        .collect();
    // Two and what is new are more than two.
    assert_eq!(left, [false, false, true]);
    assert!(root.join("notes.mcap").exists());
    assert!(folder.join(disk::file_name(0)).exists());
}

#[test]
fn files_are_forced_onto_the_disk_while_they_grow() {
    let dir = tempfile::tempdir().unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let disk = Box::new(Small(Arc::new(AtomicU64::new(1 << 30)), Arc::clone(&syncs)));
    let mut recorder =
        Recorder::on(disk, dir.path(), &config(), About::default(), Full::Wait).unwrap();
    begin(&mut recorder);
    (0..8).for_each(|n| hand(&mut recorder, n));
    assert_eq!(recorder.finish().stopped, None);
    // Each frame is 100 ms after the one before, a chunk 10 ms.
    assert!(syncs.load(Ordering::Relaxed) >= 7, "{syncs:?}");
}

#[test]
fn a_recording_that_is_there_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(disk::file_name(0)), b"mine").unwrap();
    let error = Recorder::create(dir.path(), &config(), About::default(), Full::Wait);
    assert!(matches!(error.err(), Some(SinkError::NotEmpty { .. })));
}

#[test]
fn dates() {
    assert_eq!(utc(0), "1970-01-01T00-00-00Z");
    assert_eq!(utc(951_782_400), "2000-02-29T00-00-00Z");
    assert_eq!(utc(1_796_021_112), "2026-11-30T06-45-12Z");
    assert_eq!(utc(4_107_542_399), "2100-02-28T23-59-59Z");
    assert_eq!(utc(4_107_542_400), "2100-03-01T00-00-00Z");
}

#[test]
fn values_of_the_section() {
    let wrong = |f: &dyn Fn(&mut RecordConfig)| {
        let mut config = RecordConfig::default();
        f(&mut config);
        config.validate().unwrap_err().to_string()
    };
    assert_eq!(
        wrong(&|c| (c.chunk_ms, c.fsync_ms) = (600, 500)),
        "record.chunk_ms and record.fsync_ms are 1100 together, expected at most 1000"
    );
    assert_eq!(
        wrong(&|c| c.rotate_s = 0),
        "record.rotate_s is 0, expected 1 to 86400"
    );
    assert_eq!(
        wrong(&|c| c.enabled = true),
        "record.folder is not set, expected a folder: record.enabled is true"
    );
    assert_eq!(RecordConfig::default().validate(), Ok(()));
}
