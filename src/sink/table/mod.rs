//! `stixels.csv` and `timing.csv`; what comes from the mono camera: [`MotionTable`], [`LogoTable`].
//!
//! Lines end in `\n`, numbers have fixed decimals, `frame` is [`FrameId::number`]. Each frame is
//! handed to the system as soon as it is complete (one flush a frame), so what was finished
//! before an abort stays written; surviving a power cut is not promised. A frame that can't be
//! written whole (disk full) is cut off again.
mod mono;

use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
};

pub use mono::{LogoTable, MotionTable};

use super::SinkError;
use crate::calib::metric;
use crate::frame::{Camera, Class, DISPARITY_ONE, FrameId, Gap, INVALID, Stixel, Stixels, Timing};

/// A table on its way into a file: remembers the file's name for errors.
struct Table<W: Write> {
    path: PathBuf,
    lines: Lines<W>,
    /// Bytes of the frames that are written whole.
    whole: u64,
    /// Cuts the file back to a length, where it is a file.
    cut: fn(&W, u64),
}

/// Lines on their way into `writer`. Other than those of a `BufWriter` they can be given up.
struct Lines<W> {
    writer: W,
    buffer: Vec<u8>,
    /// Bytes taken so far.
    taken: u64,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() > BUFFER {
            self.writer.write_all(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.taken += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.buffer)?;
        self.buffer.clear();
        self.writer.flush()
    }
}

/// More than the stixels of a usual frame, so that a frame is one write.
const BUFFER: usize = 128 * 1024;

impl<W: Write> Table<W> {
    fn new(path: &Path, writer: W, header: &str) -> Result<Self, SinkError> {
        let mut table = Self {
            path: path.to_owned(),
            lines: Lines {
                writer,
                buffer: Vec::with_capacity(BUFFER),
                taken: 0,
            },
            whole: 0,
            cut: |_, _| {},
        };
        table.write(|w| writeln!(w, "{header}"))?;
        Ok(table)
    }

    /// Writes some whole lines and flushes them: all or, after an error, none.
    fn write(
        &mut self,
        lines: impl FnOnce(&mut Lines<W>) -> io::Result<()>,
    ) -> Result<(), SinkError> {
        match lines(&mut self.lines).and_then(|()| self.lines.flush()) {
            Ok(()) => {
                self.whole = self.lines.taken;
                Ok(())
            }
            Err(source) => {
                self.lines.buffer.clear();
                self.lines.taken = self.whole;
                (self.cut)(&self.lines.writer, self.whole);
                Err(SinkError::Io {
                    path: self.path.clone(),
                    source,
                })
            }
        }
    }
}

fn create(path: &Path) -> Result<File, SinkError> {
    File::create(path).map_err(SinkError::io(path))
}

/// Cuts off what was written beyond `len`; the error that led here is the one to tell.
fn cut(mut file: &File, len: u64) {
    let _ = file.set_len(len);
    let _ = file.seek(SeekFrom::Start(len));
}

/// Depth in metres of a disparity in 1/256 px; `None` without a measurement and at 0.
pub fn depth_m(camera: &Camera, disparity: u16) -> Option<f64> {
    (disparity != INVALID && disparity != 0)
        .then(|| camera.depth_m(f64::from(disparity) / f64::from(DISPARITY_ONE)))
}

/// Height in metres of an upright thing: its rows, seen at its distance.
pub fn height_m(camera: &Camera, stixel: &Stixel) -> Option<f64> {
    let px = f64::from(stixel.disparity) / f64::from(DISPARITY_ONE);
    metric::extent_m(camera, f64::from(stixel.top), f64::from(stixel.base), px)
}

/// `stixels.csv`: one line a stixel; columns from the left, each from top to bottom.
///
/// | column | what |
/// |---|---|
/// | `frame` | number of the frame |
/// | `column` | column of stixels, 0 is the leftmost |
/// | `x`, `width` | left edge and width, px |
/// | `class` | `ground`, `object` or `sky` |
/// | `top`, `base` | image rows, inclusive |
/// | `disparity_px` | mean of its measurements, 4 decimals; empty without any |
/// | `depth_m` | of that disparity, 2 decimals; empty for sky, without measurement and at 0 |
/// | `height_m` | object: its rows at its depth, 2 decimals; ground: 0.00; empty where depth is |
/// | `confidence` | 0 to 1, 3 decimals |
///
/// The depth of ground is that of its mean disparity: it lies between those of base and top.
pub struct StixelTable<W: Write = File> {
    table: Table<W>,
    camera: Option<Camera>,
}

impl StixelTable {
    /// Creates the file.
    ///
    /// # Errors
    /// When it can't be created or written.
    pub fn create(path: &Path) -> Result<Self, SinkError> {
        let mut new = Self::new(path, create(path)?)?;
        new.table.cut = cut;
        Ok(new)
    }
}

impl<W: Write> StixelTable<W> {
    /// The columns.
    pub const HEADER: &str =
        "frame,column,x,width,class,top,base,disparity_px,depth_m,height_m,confidence";

    /// Begins the table in `writer`; `path` is for error messages.
    ///
    /// # Errors
    /// When the header can't be written.
    pub fn new(path: &Path, writer: W) -> Result<Self, SinkError> {
        Ok(Self {
            table: Table::new(path, writer, Self::HEADER)?,
            camera: None,
        })
    }

    /// Sets the camera that makes metres of the frames to come; without one there are none.
    pub fn set_camera(&mut self, camera: Camera) {
        self.camera = Some(camera);
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn frame(&mut self, id: &FrameId, stixels: &Stixels) -> Result<(), SinkError> {
        let Self { table, camera } = self;
        let width = stixels.stixel_width();
        table.write(|w| {
            for u in 0..stixels.columns() {
                for s in stixels.column(u) {
                    let class = s.class.name();
                    let (n, x) = (id.number, u * width);
                    write!(w, "{n},{u},{x},{width},{class},{},{},", s.top, s.base)?;
                    if s.disparity != INVALID {
                        let px = f64::from(s.disparity) / f64::from(DISPARITY_ONE);
                        write!(w, "{px:.4}")?;
                    }
                    match camera.and_then(|c| Some((c, depth_m(&c, s.disparity)?))) {
                        Some((camera, depth)) if s.class != Class::Sky => {
                            let height = match s.class {
                                Class::Object => height_m(&camera, s).unwrap_or(0.0),
                                Class::Ground | Class::Sky => 0.0,
                            };
                            write!(w, ",{depth:.2},{height:.2}")?;
                        }
                        _ => w.write_all(b",,")?,
                    }
                    writeln!(w, ",{:.3}", f64::from(s.confidence) / 255.0)?;
                }
            }
            Ok(())
        })
    }
}

/// `timing.csv`: for each frame one line a stage, then one line for the whole frame under the
/// stage name `frame`; a frame without a result has only that line, with the gap as outcome.
///
/// `timestamp_ns` is when the frame was taken; `start_us` counts from when the loop took it up;
/// microseconds have 3 decimals. Outcomes are [`crate::frame::Outcome::name`] and [`Gap::name`].
pub struct TimingTable<W: Write = File> {
    table: Table<W>,
}

impl TimingTable {
    /// Creates the file.
    ///
    /// # Errors
    /// When it can't be created or written.
    pub fn create(path: &Path) -> Result<Self, SinkError> {
        let mut new = Self::new(path, create(path)?)?;
        new.table.cut = cut;
        Ok(new)
    }
}

impl<W: Write> TimingTable<W> {
    /// The columns.
    pub const HEADER: &str = "frame,timestamp_ns,stage,start_us,duration_us,outcome";

    /// Begins the table in `writer`; `path` is for error messages.
    ///
    /// # Errors
    /// When the header can't be written.
    pub fn new(path: &Path, writer: W) -> Result<Self, SinkError> {
        Ok(Self {
            table: Table::new(path, writer, Self::HEADER)?,
        })
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn frame(&mut self, id: &FrameId, timing: &Timing) -> Result<(), SinkError> {
        self.table.write(|w| {
            for s in &timing.stages {
                line(w, id, s.stage, s.start_ns, s.duration_ns, s.outcome.name())?;
            }
            line(w, id, WHOLE, 0, timing.duration_ns, timing.outcome.name())
        })
    }

    /// Adds a frame without a result.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn gap(&mut self, id: &FrameId, gap: Gap) -> Result<(), SinkError> {
        self.table.write(|w| line(w, id, WHOLE, 0, 0, gap.name()))
    }
}

/// What stands under `stage` for a frame as a whole.
pub const WHOLE: &str = "frame";

fn line(
    w: &mut impl Write,
    id: &FrameId,
    stage: &str,
    start_ns: u64,
    duration_ns: u64,
    outcome: &str,
) -> io::Result<()> {
    let (frame, stamp) = (id.number, id.timestamp.0);
    writeln!(
        w,
        "{frame},{stamp},{stage},{}.{:03},{}.{:03},{outcome}",
        start_ns / 1000,
        start_ns % 1000,
        duration_ns / 1000,
        duration_ns % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Outcome, StageTiming, Timestamp};

    const CAMERA: Camera = Camera {
        focal_px: 700.0,
        cx: 600.0,
        cy: 180.0,
        baseline_m: 0.5,
    };

    fn written(table: Table<Vec<u8>>) -> String {
        String::from_utf8(table.lines.writer).unwrap()
    }

    fn id() -> FrameId {
        FrameId {
            index: 3,
            number: 13,
            timestamp: Timestamp(1_403_636_579_763_555_584),
        }
    }

    #[test]
    fn stixels_to_the_letter() {
        let mut stixels = Stixels::new(2, 5, 8);
        let (counts, columns) = stixels.columns_mut();
        let lists = [
            vec![
                (Class::Sky, 0, 99, 0, 255),
                (Class::Object, 100, 199, 2570, 128),
                (Class::Ground, 200, 369, 10_240, 0),
            ],
            vec![
                (Class::Sky, 0, 9, INVALID, 1),
                (Class::Object, 10, 10, INVALID, 2),
                (Class::Object, 11, 12, 0, 3),
                (Class::Ground, 13, 369, INVALID, 4),
            ],
        ];
        for ((count, to), list) in counts.iter_mut().zip(columns).zip(lists) {
            *count = list.len() as u16;
            for (to, (class, top, base, disparity, confidence)) in to.iter_mut().zip(list) {
                *to = Stixel {
                    class,
                    top,
                    base,
                    disparity,
                    confidence,
                };
            }
        }
        let mut table = StixelTable::new(Path::new("t"), Vec::new()).unwrap();
        table.set_camera(CAMERA);
        table.frame(&id(), &stixels).unwrap();
        // Object: 350 / 10.0390625 = 34.86 m; 100 rows * 34.86 / 700 = 4.98 m.
        assert_eq!(
            written(table.table),
            "frame,column,x,width,class,top,base,disparity_px,depth_m,height_m,confidence\n\
             13,0,0,5,sky,0,99,0.0000,,,1.000\n\
             13,0,0,5,object,100,199,10.0391,34.86,4.98,0.502\n\
             13,0,0,5,ground,200,369,40.0000,8.75,0.00,0.000\n\
             13,1,5,5,sky,0,9,,,,0.004\n\
             13,1,5,5,object,10,10,,,,0.008\n\
             13,1,5,5,object,11,12,0.0000,,,0.012\n\
             13,1,5,5,ground,13,369,,,,0.016\n"
        );
    }

    #[test]
    fn times_to_the_letter() {
        let mut timing = Timing {
            duration_ns: 81_000_999,
            outcome: Outcome::Late,
            ..Timing::default()
        };
        for (stage, start_ns, duration_ns, outcome) in [
            ("stereo", 1_005, 70_000_000, Outcome::OverBudget),
            ("road", 70_001_005, 80, Outcome::Done),
            ("stixel", 70_002_000, 0, Outcome::Skipped),
        ] {
            let stage = StageTiming {
                stage,
                start_ns,
                duration_ns,
                outcome,
            };
            timing.stages.push(stage).unwrap();
        }
        let mut table = TimingTable::new(Path::new("t"), Vec::new()).unwrap();
        table.frame(&id(), &timing).unwrap();
        table.gap(&FrameId::default(), Gap::Unreadable).unwrap();
        assert_eq!(
            written(table.table),
            "frame,timestamp_ns,stage,start_us,duration_us,outcome\n\
             13,1403636579763555584,stereo,1.005,70000.000,over_budget\n\
             13,1403636579763555584,road,70001.005,0.080,done\n\
             13,1403636579763555584,stixel,70002.000,0.000,skipped\n\
             13,1403636579763555584,frame,0.000,81000.999,late\n\
             0,0,frame,0.000,0.000,unreadable\n"
        );
    }

    #[test]
    fn a_full_disk_names_the_file() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = TimingTable::new(Path::new("out/timing.csv"), Full)
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "out/timing.csv: no storage space");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_without_room() {
        let full = Path::new("/dev/full");
        let error = StixelTable::create(full).err().unwrap();
        assert!(error.to_string().starts_with("/dev/full: "), "{error}");
    }
}
