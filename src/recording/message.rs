//! The messages of a recording to and from CDR.
use super::cdr::{CdrError, CdrReader, CdrWriter};
use crate::{
    calib::{Distortion, Rig},
    frame::{
        Camera, Decisions, FrameId, FrameResult, FrameSet, Gap, Outcome, RoadOrigin, Size,
        Timestamp,
    },
    frame_loop::StageId,
};

/// The frame of the left camera's coordinates, and of all that is in them.
pub const LEFT_FRAME: &str = "stereo_left";
/// That of the mono camera.
pub const MONO_FRAME: &str = "mono";

fn header(to: &mut CdrWriter, stamp: Timestamp, frame: &str) {
    let seconds = i32::try_from(stamp.0 / 1_000_000_000).unwrap_or(i32::MAX);
    to.begin()
        .i32(seconds)
        .u32((stamp.0 % 1_000_000_000) as u32)
        .text(frame);
}

/// The stamp and the frame of a header; the stamp in ns, 0 where it is before 0.
///
/// # Errors
/// Where the message ends before.
pub fn read_header<'a>(from: &mut CdrReader<'a>) -> Result<(Timestamp, &'a str), CdrError> {
    let seconds = from.i32("header.stamp.sec")?;
    let nanoseconds = from.u32("header.stamp.nanosec")?;
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let stamp = Timestamp(seconds * 1_000_000_000 + u64::from(nanoseconds));
    Ok((stamp, from.text("header.frame_id")?))
}

/// What pixels are and how they lie in a message of type `Image`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHead<'a> {
    /// When it was taken.
    pub stamp: Timestamp,
    /// Width and height as stated.
    pub size: Size,
    /// As `mono8`.
    pub encoding: &'a str,
    /// Whether numbers of several bytes begin with the highest.
    pub big_endian: bool,
    /// Bytes from row to row.
    pub step: usize,
    /// All rows.
    pub data: &'a [u8],
}

/// Begins a message of type `Image`; rows of `width * bytes` bytes are to be appended.
pub fn image(
    to: &mut CdrWriter,
    stamp: Timestamp,
    frame: &str,
    (encoding, bytes): (&str, usize),
    size: Size,
) {
    header(to, stamp, frame);
    let step = size.width * bytes;
    to.u32(size.height as u32)
        .u32(size.width as u32)
        .text(encoding)
        .u8(0)
        .u32(step as u32)
        .u32((step * size.height) as u32);
}

/// Reads a message of type `Image`; what it says is not checked.
///
/// # Errors
/// Where the message ends before.
pub fn read_image(message: &[u8]) -> Result<ImageHead<'_>, CdrError> {
    let mut from = CdrReader::new(message)?;
    let (stamp, _) = read_header(&mut from)?;
    let height = from.u32("height")? as usize;
    let width = from.u32("width")? as usize;
    Ok(ImageHead {
        stamp,
        size: Size::new(width, height),
        encoding: from.text("encoding")?,
        big_endian: from.bool("is_bigendian")?,
        step: from.u32("step")? as usize,
        data: from.octets("data")?,
    })
}

/// A message of type `CompressedImage` that holds a PNG file.
pub fn compressed_image(
    to: &mut CdrWriter,
    stamp: Timestamp,
    frame: &str,
    encoding: &str,
    file: &[u8],
) {
    header(to, stamp, frame);
    to.text(&format!("{encoding}; png compressed")).octets(file);
}

/// Stamp and file of a message of type `CompressedImage`.
///
/// # Errors
/// Where the message ends before.
pub fn read_compressed_image(message: &[u8]) -> Result<(Timestamp, &[u8]), CdrError> {
    let mut from = CdrReader::new(message)?;
    let (stamp, _) = read_header(&mut from)?;
    from.text("format")?;
    Ok((stamp, from.octets("data")?))
}

/// What a message of type `CameraInfo` says of a camera.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraInfo {
    /// Size of its pictures.
    pub size: Size,
    /// As `plumb_bob`.
    pub distortion_model: String,
    /// Its coefficients.
    pub d: Vec<f64>,
    /// The raw camera, row by row.
    pub k: [f64; 9],
    /// Raw to rectified camera, row by row.
    pub r: [f64; 9],
    /// The rectified camera, row by row; `p[3]` is `-fx B` of the right one.
    pub p: [f64; 12],
}

/// Most coefficients that a lens may have.
const MAX_COEFFICIENTS: usize = 14;

impl CameraInfo {
    /// What there is to say of both cameras of a rig for pictures of `size`.
    pub fn of_rig(rig: &Rig, camera: Camera, size: Size) -> [Self; 2] {
        const ONE: [f64; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let Camera {
            focal_px: f,
            cx,
            cy,
            baseline_m,
        } = camera;
        let rotations = rig.rotations();
        std::array::from_fn(|i| {
            let shift = if i == 0 { 0.0 } else { -f * baseline_m };
            let p = [f, 0.0, cx, shift, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0];
            let Some(pair) = rig.raw_pair() else {
                return Self {
                    size,
                    distortion_model: "plumb_bob".into(),
                    d: vec![0.0; 5],
                    k: [f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0],
                    r: ONE,
                    p,
                };
            };
            let lens = pair.lenses[i];
            let k = lens.pinhole;
            let mut d = lens.distortion.coefficients().to_vec();
            let model = match lens.distortion {
                Distortion::Rational8(_) => "rational_polynomial",
                Distortion::Equidistant4(_) => "equidistant",
                _ => {
                    d.resize(5, 0.0);
                    "plumb_bob"
                }
            };
            Self {
                size,
                distortion_model: model.into(),
                d,
                k: [k.fx, 0.0, k.cx, 0.0, k.fy, k.cy, 0.0, 0.0, 1.0],
                r: rotations.map_or(ONE, |r| {
                    let r = r[i].transpose();
                    std::array::from_fn(|n| r.as_slice()[n])
                }),
                p,
            }
        })
    }

    /// As a message.
    pub fn write(&self, to: &mut CdrWriter, stamp: Timestamp, frame: &str) {
        header(to, stamp, frame);
        to.u32(self.size.height as u32)
            .u32(self.size.width as u32)
            .text(&self.distortion_model)
            .u32(self.d.len() as u32);
        for &v in self.d.iter().chain(&self.k).chain(&self.r).chain(&self.p) {
            to.f64(v);
        }
        // No binning, the whole picture.
        to.u32(0).u32(0).u32(0).u32(0).u32(0).u32(0).bool(false);
    }

    /// From a message.
    ///
    /// # Errors
    /// Where the message ends before.
    pub fn read(message: &[u8]) -> Result<Self, CdrError> {
        let mut from = CdrReader::new(message)?;
        read_header(&mut from)?;
        let height = from.u32("height")? as usize;
        let width = from.u32("width")? as usize;
        let distortion_model = from.text("distortion_model")?.to_owned();
        let count = from.count(8, "d")?;
        let mut info = Self {
            size: Size::new(width, height),
            distortion_model,
            d: Vec::new(),
            k: [0.0; 9],
            r: [0.0; 9],
            p: [0.0; 12],
        };
        for n in 0..count {
            let v = from.f64("d")?;
            if n < MAX_COEFFICIENTS {
                info.d.push(v);
            }
        }
        for (v, what) in (info.k.iter_mut().map(|v| (v, "k")))
            .chain(info.r.iter_mut().map(|v| (v, "r")))
            .chain(info.p.iter_mut().map(|v| (v, "p")))
        {
            *v = from.f64(what)?;
        }
        Ok(info)
    }
}

/// The message of a frame's result. `recording_dropped`: frames before it that are not in the
/// recording.
pub fn frame(
    to: &mut CdrWriter,
    set: &FrameSet,
    result: &FrameResult,
    logo_names: &[String],
    recording_dropped: u64,
) {
    let id = result.id;
    header(to, id.timestamp, LEFT_FRAME);
    to.u64(id.timestamp.0)
        .u64(id.index as u64)
        .u64(id.number)
        .u64(recording_dropped);
    to.bool(set.speed_mps.is_some())
        .f32(set.speed_mps.unwrap_or(0.0));
    let mono = set.mono.as_ref();
    to.bool(mono.is_some())
        .u64(mono.map_or(0, |m| m.timestamp.0))
        .text(mono.and_then(|m| m.gap).map_or("", Gap::name))
        .text(set.stereo_gap.map_or("", Gap::name));
    to.u32(result.gaps.len() as u32);
    for gap in result.gaps.iter() {
        to.text(gap.name());
    }
    street(to, result);
    let motion = result.motion.unwrap_or_default();
    to.bool(result.motion.is_some()).text(motion.state.name());
    motion.homography.iter().for_each(|&v| {
        to.f32(v);
    });
    to.u16(motion.tracked).u16(motion.inliers);
    let foreground = result.foreground.as_ref();
    let moving = |v: &&u8| **v == crate::frame::Foreground::MOVING;
    to.bool(foreground.is_some())
        .text(foreground.map_or("", |f| f.state.name()))
        .u32(foreground.map_or(0, |f| f.mask.pixels().filter(moving).count() as u32));
    let logos = result.logos.as_deref().unwrap_or_default();
    to.bool(result.logos.is_some()).u32(logos.len() as u32);
    for logo in logos {
        let name = logo_names.get(usize::from(logo.template));
        to.u32(logo.id)
            .u16(logo.template)
            .text(name.map_or("", String::as_str))
            .text(logo.state.name());
        for &v in logo.quad.iter().flatten().chain(&logo.velocity) {
            to.f32(v);
        }
        to.u8(logo.confidence);
    }
    let timing = &result.timing;
    to.u64(timing.start.0)
        .u64(timing.duration_ns)
        .text(timing.outcome.name())
        .u32(timing.stages.len() as u32);
    for stage in &timing.stages {
        to.text(stage.stage)
            .u64(stage.start_ns)
            .u64(stage.duration_ns)
            .text(stage.outcome.name());
    }
}

fn street(to: &mut CdrWriter, result: &FrameResult) {
    let street = result.street.as_ref();
    to.bool(street.is_some());
    let numbers = street.map_or([0.0; 6], |s| {
        let r = &s.road;
        [
            r.slope,
            r.offset,
            r.horizon_row,
            r.pitch_rad,
            r.camera_height_m,
            r.confidence,
        ]
    });
    for v in numbers {
        to.f32(v);
    }
    to.text(street.map_or("", |s| match s.road.origin {
        RoadOrigin::Fixed => "fixed",
        RoadOrigin::Measured => "measured",
        RoadOrigin::Held => "held",
        RoadOrigin::Assumed => "assumed",
    }));
    let Some(stixels) = street.map(|s| &s.stixels) else {
        to.u32(0).u32(0).u32(0).u32(0);
        return;
    };
    to.u32(stixels.stixel_width() as u32)
        .u32(stixels.columns() as u32)
        .u32(stixels.overflowed())
        .u32(stixels.total() as u32);
    for column in 0..stixels.columns() {
        for stixel in stixels.column(column) {
            to.u16(column as u16)
                .u8(stixel.class as u8)
                .u16(stixel.top)
                .u16(stixel.base)
                .u16(stixel.disparity)
                .u8(stixel.confidence);
        }
    }
}

/// What a replay needs of a frame's message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameHead {
    /// Which frame.
    pub id: FrameId,
    /// Frames before it that the recording had no time for.
    pub recording_dropped: u64,
    /// Speed of the vehicle.
    pub speed_mps: Option<f32>,
    /// Stamp of the mono picture, and why it is not used.
    pub mono: Option<(Timestamp, Option<Gap>)>,
    /// Why the stereo pictures are not used.
    pub stereo_gap: Option<Gap>,
    /// What the loop decided of its stages; `None` where the message is cut short before.
    pub decisions: Option<Decisions>,
}

fn id(from: &mut CdrReader<'_>) -> Result<FrameId, CdrError> {
    let timestamp = Timestamp(from.u64("timestamp_ns")?);
    let index = usize::try_from(from.u64("index")?).unwrap_or(usize::MAX);
    Ok(FrameId {
        index,
        number: from.u64("number")?,
        timestamp,
    })
}

/// The gap of this name; one that this version does not know is [`Gap::Missing`].
fn gap_of(name: &str) -> Gap {
    let mut all = Gap::ALL.into_iter();
    all.find(|g| g.name() == name).unwrap_or(Gap::Missing)
}

/// How the stages of a frame ended, which its message tells last.
fn decisions(from: &mut CdrReader<'_>) -> Result<Decisions, CdrError> {
    // All that stands before, in the order in which it is written.
    let mut any_skipped = false;
    for _ in 0..from.count(4, "gaps")? {
        any_skipped |= from.text("gaps")? == Gap::Skipped.name();
    }
    from.bool("has_street")?;
    for _ in 0..6 {
        from.f32("road")?;
    }
    from.text("road.origin")?;
    for what in ["stixel_width", "columns", "cut_columns"] {
        from.u32(what)?;
    }
    for _ in 0..from.count(10, "stixels")? {
        from.u16("column")?;
        from.u8("class_id")?;
        for what in ["top", "base", "disparity"] {
            from.u16(what)?;
        }
        from.u8("confidence")?;
    }
    from.bool("has_motion")?;
    from.text("motion.state")?;
    for _ in 0..9 {
        from.f32("homography")?;
    }
    from.u16("tracked")?;
    from.u16("inliers")?;
    from.bool("has_foreground")?;
    from.text("foreground_state")?;
    from.u32("foreground_pixels")?;
    from.bool("has_logos")?;
    for _ in 0..from.count(4, "logos")? {
        from.u32("id")?;
        from.u16("template_index")?;
        from.text("name")?;
        from.text("state")?;
        for _ in 0..10 {
            from.f32("quad")?;
        }
        from.u8("confidence")?;
    }
    from.u64("start_ns")?;
    from.u64("duration_ns")?;
    from.text("outcome")?;
    let mut decisions = Decisions::default();
    for _ in 0..from.count(4, "stages")? {
        let stage = StageId::named(from.text("stage")?);
        from.u64("start_ns")?;
        from.u64("duration_ns")?;
        let outcome = from.text("outcome")?;
        let outcome = Outcome::ALL.into_iter().find(|o| o.name() == outcome);
        // Without that gap a stage had nothing to run on: nobody has decided that.
        let outcome = outcome.filter(|o| any_skipped || *o != Outcome::Skipped);
        if let (Some(stage), Some(outcome)) = (stage, outcome) {
            decisions.insert(stage as usize, outcome);
        }
    }
    Ok(decisions)
}

/// Reads of a frame's message what a replay needs. `format` is that of the file.
///
/// # Errors
/// Where the message ends before its pictures are known; a damaged end costs the decisions alone.
pub fn read_frame(message: &[u8], format: u32) -> Result<FrameHead, CdrError> {
    let mut from = CdrReader::new(message)?;
    read_header(&mut from)?;
    let id = id(&mut from)?;
    let recording_dropped = from.u64("recording_dropped")?;
    let has_speed = from.bool("has_speed")?;
    let speed = from.f32("speed_mps")?;
    let has_mono = from.bool("has_mono")?;
    let stamp = Timestamp(from.u64("mono_timestamp_ns")?);
    let named = |gap: &str| (!gap.is_empty()).then(|| gap_of(gap));
    let mono_gap = named(from.text("mono_gap")?);
    let stereo_gap = match format {
        ..2 => None,
        2.. => named(from.text("stereo_gap")?),
    };
    Ok(FrameHead {
        id,
        recording_dropped,
        speed_mps: has_speed.then_some(speed),
        mono: has_mono.then_some((stamp, mono_gap)),
        stereo_gap,
        decisions: decisions(&mut from).ok(),
    })
}

/// The message of a frame without a result.
pub fn gap(to: &mut CdrWriter, id: FrameId, gap: Gap) {
    header(to, id.timestamp, LEFT_FRAME);
    to.u64(id.timestamp.0)
        .u64(id.index as u64)
        .u64(id.number)
        .text(gap.name());
}

/// Reads it.
///
/// # Errors
/// Where the message ends before.
pub fn read_gap(message: &[u8]) -> Result<(FrameId, Gap), CdrError> {
    let mut from = CdrReader::new(message)?;
    read_header(&mut from)?;
    let id = id(&mut from)?;
    Ok((id, gap_of(from.text("gap")?)))
}

/// The message of what the stages had learnt before the frame `next`.
pub fn state(to: &mut CdrWriter, next: FrameId, state: &[u8]) {
    header(to, next.timestamp, LEFT_FRAME);
    to.u64(next.index as u64).octets(state);
}

/// Reads it: the index of the frame that comes next, and the state.
///
/// # Errors
/// Where the message ends before.
pub fn read_state(message: &[u8]) -> Result<(usize, &[u8]), CdrError> {
    let mut from = CdrReader::new(message)?;
    read_header(&mut from)?;
    let index = usize::try_from(from.u64("index")?).unwrap_or(usize::MAX);
    Ok((index, from.octets("data")?))
}
