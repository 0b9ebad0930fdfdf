//! `motion.csv` and `logos.csv`.
use std::{fs::File, io::Write, path::Path};

use super::{SinkError, Table, create, cut};
use crate::frame::{Foreground, FrameId, Logos, Motion};

/// `motion.csv`: one line a frame, wherever the foreground is computed.
///
/// | column | what |
/// |---|---|
/// | `frame`, `timestamp_ns` | number and time of the frame |
/// | `state` | `unknown`, `still`, `small_motion` or `driving` |
/// | `tracked`, `inliers` | points followed, and those that one homography explains |
/// | `foreground_state` | `warming_up`, `valid`, `driving`, `motion_unknown` or `skipped` |
pub struct MotionTable<W: Write = File> {
    table: Table<W>,
}

impl MotionTable {
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

impl<W: Write> MotionTable<W> {
    /// The columns.
    pub const HEADER: &str = "frame,timestamp_ns,state,tracked,inliers,foreground_state";

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
    pub fn frame(
        &mut self,
        id: &FrameId,
        motion: &Motion,
        foreground: &Foreground,
    ) -> Result<(), SinkError> {
        let (frame, stamp) = (id.number, id.timestamp.0);
        let Motion {
            state,
            tracked,
            inliers,
            ..
        } = motion;
        let (state, foreground) = (state.name(), foreground.state.name());
        self.table.write(|w| {
            writeln!(
                w,
                "{frame},{stamp},{state},{tracked},{inliers},{foreground}"
            )
        })
    }
}

/// `logos.csv`: one line a logo, by frame and id.
///
/// | column | what |
/// |---|---|
/// | `frame` | number of the frame |
/// | `id` | of the track, from 1 |
/// | `name` | of the template |
/// | `state` | `tentative`, `tracked` or `lost` |
/// | `x0`, `y0` ... `x3`, `y3` | corners: top left, top right, bottom right, bottom left as seen in the template; px, 3 decimals |
/// | `confidence` | 0 to 1, 3 decimals |
pub struct LogoTable<W: Write = File> {
    table: Table<W>,
    /// The templates' names as fields of a table.
    names: Vec<String>,
}

impl LogoTable {
    /// Creates the file; `names` are those of the templates.
    ///
    /// # Errors
    /// When it can't be created or written.
    pub fn create(path: &Path, names: &[String]) -> Result<Self, SinkError> {
        let mut new = Self::new(path, create(path)?, names)?;
        new.table.cut = cut;
        Ok(new)
    }
}

impl<W: Write> LogoTable<W> {
    /// The columns.
    pub const HEADER: &str = "frame,id,name,state,x0,y0,x1,y1,x2,y2,x3,y3,confidence";

    /// Begins the table in `writer`; `path` is for error messages.
    ///
    /// # Errors
    /// When the header can't be written.
    pub fn new(path: &Path, writer: W, names: &[String]) -> Result<Self, SinkError> {
        Ok(Self {
            table: Table::new(path, writer, Self::HEADER)?,
            names: names.iter().map(|name| field(name)).collect(),
        })
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn frame(&mut self, id: &FrameId, logos: &Logos) -> Result<(), SinkError> {
        let names = &self.names;
        self.table.write(|w| {
            for logo in logos {
                let name = names.get(usize::from(logo.template)).map_or("", |n| n);
                write!(w, "{},{},{name},{}", id.number, logo.id, logo.state.name())?;
                for [x, y] in logo.quad {
                    write!(w, ",{x:.3},{y:.3}")?;
                }
                writeln!(w, ",{:.3}", f64::from(logo.confidence) / 255.0)?;
            }
            Ok(())
        })
    }
}

/// A name as a field: quoted where it holds what would end one (RFC 4180).
fn field(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{ForegroundState, Logo, LogoState, MotionState, Size, Timestamp};

    fn id() -> FrameId {
        FrameId {
            index: 3,
            number: 13,
            timestamp: Timestamp(77),
        }
    }

    fn written(table: Table<Vec<u8>>) -> String {
        String::from_utf8(table.lines.writer).unwrap()
    }

    #[test]
    fn motion_to_the_letter() {
        let mut table = MotionTable::new(Path::new("t"), Vec::new()).unwrap();
        let mut foreground = Foreground::new(Size::new(1, 1));
        table.frame(&id(), &Motion::default(), &foreground).unwrap();
        let motion = Motion {
            tracked: 120,
            inliers: 99,
            ..Motion::of(MotionState::SmallMotion)
        };
        foreground.state = ForegroundState::Valid;
        table.frame(&id(), &motion, &foreground).unwrap();
        assert_eq!(
            written(table.table),
            "frame,timestamp_ns,state,tracked,inliers,foreground_state\n\
             13,77,unknown,0,0,warming_up\n\
             13,77,small_motion,120,99,valid\n"
        );
    }

    #[test]
    fn logos_to_the_letter() {
        let names = ["KRAVAG".to_owned(), "a, \"b\"".to_owned()];
        let mut table = LogoTable::new(Path::new("t"), Vec::new(), &names).unwrap();
        let logo = Logo {
            id: 1,
            template: 0,
            state: LogoState::Tracked,
            quad: [[0.0, -1.5], [10.25, 0.0], [10.0, 5.0], [0.0625, 5.0]],
            velocity: [0.0; 2],
            confidence: 255,
        };
        let mut logos = Logos::new();
        table.frame(&id(), &logos).unwrap();
        logos.push(logo).unwrap();
        let other = Logo {
            id: 2,
            template: 1,
            state: LogoState::Lost,
            confidence: 0,
            ..logo
        };
        logos.push(other).unwrap();
        table.frame(&id(), &logos).unwrap();
        assert_eq!(
            written(table.table),
            "frame,id,name,state,x0,y0,x1,y1,x2,y2,x3,y3,confidence\n\
             13,1,KRAVAG,tracked,0.000,-1.500,10.250,0.000,10.000,5.000,0.062,5.000,1.000\n\
             13,2,\"a, \"\"b\"\"\",lost,0.000,-1.500,10.250,0.000,10.000,5.000,0.062,5.000,0.000\n"
        );
    }
}
