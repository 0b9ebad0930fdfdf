//! The two cameras in anybody's recording to frames.
//!
//! A camera is a topic of `CameraInfo` with a topic of pictures beside it. The right one is that
//! whose `P[3]` is below 0, the left one that of the same focal length whose `P[3]` is 0; the
//! nearest by name where there are several. Pictures of a topic with `rect` in its name have been
//! rectified. Frames are the left pictures, paired by the stamps in their headers.
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use super::{
    Cache, Damages, Kinds, MAX_MESSAGES, Opened, Place, RecordedFile, RecordedFrame, Recording,
    error, fill_holes,
    image::{self, Kind},
    own::{Stop, given_rig},
    scan::{Item, Scan},
};
use crate::{
    calib::of_camera_infos,
    frame::{FrameId, Gap, PixelKind, Timestamp},
    picture::Picture,
    recording::{
        cdr::CdrReader,
        message::{self, CameraInfo},
    },
    source::{
        DriveOptions, MonoSegment, Segment, SourceError, StereoSegment, Topics, drive,
        pairing::{half_period, nearest},
    },
};

/// A picture's message.
#[derive(Clone, Copy)]
struct Shot {
    stamp: u64,
    sequence: u32,
    place: Place,
}

/// Topics of pictures and of cameras.
#[derive(Default)]
struct Content {
    pictures: BTreeMap<String, (Kind, Vec<Shot>)>,
    infos: BTreeMap<String, CameraInfo>,
}

/// What messages of a channel are to us.
#[derive(Clone)]
enum Use {
    Pictures(String, Kind),
    Info(String),
    Nothing,
}

fn read(path: &Path, files: &mut [RecordedFile]) -> Result<Content, SourceError> {
    let mut content = Content::default();
    let mut damages = Damages(0);
    let mut messages = 0;
    for (number, recorded) in files.iter_mut().enumerate() {
        let RecordedFile {
            path: file_path,
            file,
            chunks,
        } = recorded;
        let mut schemas: HashMap<u16, String> = HashMap::new();
        let mut channels: HashMap<u16, Use> = HashMap::new();
        let io = |error| SourceError::Io {
            path: file_path.clone(),
            error,
        };
        let Some(mut scan) = Scan::new(file).map_err(io)? else {
            return Err(error(file_path, "not an MCAP file"));
        };
        scan.run::<Stop>(&mut |item| {
            match item {
                Item::Damage(bytes, why) => damages.tell(file_path, &bytes, &why),
                Item::Chunk(chunk) => chunks.push(chunk),
                Item::Schema(id, name) => {
                    schemas.insert(id, name.to_owned());
                }
                Item::Channel(id, schema, topic, encoding) => {
                    let schema = schemas.get(&schema).map_or("", String::as_str);
                    let topic = topic.to_owned();
                    let of = match (encoding, schema) {
                        ("cdr", "sensor_msgs/msg/Image") => Use::Pictures(topic, Kind::Image),
                        ("cdr", "sensor_msgs/msg/CompressedImage") => {
                            Use::Pictures(topic, Kind::Compressed)
                        }
                        ("cdr", "sensor_msgs/msg/CameraInfo") => Use::Info(topic),
                        _ => Use::Nothing,
                    };
                    channels.insert(id, of);
                }
                Item::Metadata(..) => {}
                Item::Message(m) => match channels.get(&m.channel) {
                    Some(Use::Pictures(topic, kind)) => {
                        messages += 1;
                        if messages > MAX_MESSAGES {
                            return Err(Stop::Refused(format!(
                                "more than {MAX_MESSAGES} pictures"
                            )));
                        }
                        let header = CdrReader::new(m.data)
                            .and_then(|mut r| message::read_header(&mut r).map(|h| h.0));
                        let Ok(stamp) = header else {
                            return Ok(());
                        };
                        // Some drivers do not fill it in.
                        let stamp = if stamp.0 == 0 { m.log_time } else { stamp.0 };
                        let place = Place {
                            file: number as u32,
                            at: m.at,
                        };
                        let shot = Shot {
                            stamp,
                            sequence: m.sequence,
                            place,
                        };
                        match content.pictures.get_mut(topic) {
                            Some((_, shots)) => shots.push(shot),
                            None => {
                                content.pictures.insert(topic.clone(), (*kind, vec![shot]));
                            }
                        }
                    }
                    Some(Use::Info(topic)) if !content.infos.contains_key(topic) => {
                        if let Ok(info) = CameraInfo::read(m.data) {
                            content.infos.insert(topic.clone(), info);
                        }
                    }
                    _ => {}
                },
            }
            Ok(())
        })
        .map_err(|stop| match stop {
            Stop::Io(e) => io(e),
            Stop::Refused(why) => error(path, why),
        })?;
    }
    damages.sum_up();
    for (_, shots) in content.pictures.values_mut() {
        shots.sort_by_key(|s| s.stamp);
        shots.dedup_by_key(|s| s.stamp);
    }
    Ok(content)
}

/// A topic without its last name, with the slash.
fn base(topic: &str) -> &str {
    topic.rfind('/').map_or("", |at| &topic[..=at])
}

/// Which topic of pictures beside a camera is the best: raw before rectified, grey before
/// colour, plain before files.
fn rank(name: &str) -> usize {
    const NAMES: [&str; 6] = [
        "image_raw",
        "image_mono",
        "image",
        "image_color",
        "image_rect",
        "image_rect_color",
    ];
    let plain = name.strip_suffix(crate::recording::COMPRESSED);
    let of = |n: &str| {
        NAMES
            .iter()
            .position(|known| *known == n)
            .unwrap_or(NAMES.len())
    };
    match plain {
        Some(plain) => 10 + of(plain),
        None => of(name),
    }
}

impl Content {
    /// The pictures beside a camera.
    fn beside(&self, info: &str) -> Option<&str> {
        let base = base(info);
        let near = self
            .pictures
            .keys()
            .filter_map(|t| Some((rank(t.strip_prefix(base)?), t)));
        near.min().map(|(_, topic)| topic.as_str())
    }

    fn list(&self) -> String {
        let mut all: Vec<String> = self.pictures.keys().take(20).cloned().collect();
        let infos = self.infos.iter().take(20);
        all.extend(infos.map(|(t, i)| format!("{t} (P[3] = {})", i.p[3])));
        if all.is_empty() {
            "none".into()
        } else {
            all.join(", ")
        }
    }

    /// The cameras: those that are named, else those that are found.
    fn choose(&self, path: &Path, named: Option<&Topics>) -> Result<Topics, SourceError> {
        if let Some(named) = named {
            let all = [Some(&named.left), Some(&named.right), named.mono.as_ref()];
            for topic in all.into_iter().flatten() {
                if !self.pictures.contains_key(topic) {
                    return Err(SourceError::Config {
                        section: "source",
                        key: "topics",
                        text: format!("{topic} has no pictures; there are {}", self.list()),
                    });
                }
            }
            let info = |given: &Option<String>, pictures: &str| {
                given.clone().or_else(|| {
                    let plain = pictures.strip_suffix(crate::recording::COMPRESSED);
                    let beside = format!("{}camera_info", base(plain.unwrap_or(pictures)));
                    self.infos.contains_key(&beside).then_some(beside)
                })
            };
            return Ok(Topics {
                left_info: info(&named.left_info, &named.left),
                right_info: info(&named.right_info, &named.right),
                ..named.clone()
            });
        }
        let cameras: Vec<(&str, &str, &CameraInfo)> = (self.infos.iter())
            .filter_map(|(topic, info)| Some((topic.as_str(), self.beside(topic)?, info)))
            .collect();
        let mut pairs = Vec::new();
        for right in cameras.iter().filter(|c| c.2.p[3] < 0.0) {
            for left in cameras.iter().filter(|c| c.2.p[3] == 0.0) {
                let same = (left.2.p[0] - right.2.p[0]).abs() < 0.01;
                if same && left.1 != right.1 {
                    let common = left.0.bytes().zip(right.0.bytes());
                    pairs.push((common.take_while(|(a, b)| a == b).count(), left, right));
                }
            }
        }
        let best = pairs.iter().map(|p| p.0).max();
        let mut best = pairs.iter().filter(|p| Some(p.0) == best);
        let ask = "name them: [source] topics = { left = \"...\", right = \"...\" }";
        match (best.next(), best.next()) {
            (Some((_, left, right)), None) => Ok(Topics {
                left: left.1.into(),
                right: right.1.into(),
                left_info: Some(left.0.into()),
                right_info: Some(right.0.into()),
                mono: None,
            }),
            (Some(_), Some(_)) => Err(error(
                path,
                format!("several stereo cameras: {}; {ask}", self.list()),
            )),
            (None, _) => Err(error(
                path,
                format!(
                    "no stereo camera is found: expected two topics of sensor_msgs/msg/Image or \
                     CompressedImage with a CameraInfo beside each, P[3] = 0 of the left and -fx B \
                     of the right one; found {}; {ask}",
                    self.list()
                ),
            )),
        }
    }
}

/// Frames of the left pictures: paired by time, with holes where the writer's count has some.
fn frames(left: &[Shot], right: &[Shot], mono: Option<(&[Shot], u64)>) -> Vec<RecordedFrame> {
    let stamps = |shots: &[Shot]| shots.iter().map(|s| s.stamp).collect::<Vec<u64>>();
    let half = half_period(left.iter().map(|s| s.stamp)).unwrap_or(u64::MAX / 2);
    // Pictures of one instant are nearer to each other than to any others.
    let tolerance = half / 2;
    let rights = stamps(right);
    let monos = mono.map(|(shots, tolerance)| (stamps(shots), shots, tolerance));
    let counted = counted(left);
    let mut frames = Vec::with_capacity(left.len());
    for (n, shot) in left.iter().enumerate() {
        let index = counted.as_ref().map_or(n, |c| c[n]);
        let id = FrameId {
            index,
            number: index as u64,
            timestamp: Timestamp(shot.stamp),
        };
        let Some(partner) = nearest(&rights, shot.stamp, tolerance) else {
            // A drive begins with a whole frame.
            if !frames.is_empty() {
                frames.push(RecordedFrame::gap(id, Gap::Unsynchronised));
            }
            continue;
        };
        let mut frame = RecordedFrame {
            id,
            left: Some(shot.place),
            right: Some(right[partner].place),
            ..RecordedFrame::default()
        };
        if let Some((stamps, shots, tolerance)) = &monos {
            let found = nearest(stamps, shot.stamp, *tolerance).map(|at| shots[at]);
            frame.mono = found.map(|s| s.place);
            frame.mono_head = Some(match found {
                Some(s) => (Timestamp(s.stamp), None),
                None => (id.timestamp, Some(Gap::Unsynchronised)),
            });
        }
        frames.push(frame);
    }
    fill_holes(frames)
}

/// Places by the writer's own count, where it is one: increasing, by the same step mostly.
fn counted(shots: &[Shot]) -> Option<Vec<usize>> {
    let steps: Vec<u32> = shots
        .windows(2)
        .map(|w| w[1].sequence.checked_sub(w[0].sequence))
        .collect::<Option<_>>()?;
    let step = steps.iter().copied().min().filter(|&s| s > 0)?;
    if steps.iter().any(|s| s % step != 0) {
        return None;
    }
    let first = shots.first()?.sequence;
    Some(
        shots
            .iter()
            .map(|s| ((s.sequence - first) / step) as usize)
            .collect(),
    )
}

/// The frames of a recording of others.
pub fn open(
    path: &Path,
    mut files: Vec<RecordedFile>,
    options: &DriveOptions,
) -> Result<Opened, SourceError> {
    let content = read(path, &mut files)?;
    let topics = content.choose(path, options.source.topics.as_ref())?;
    let shots = |topic: &str| content.pictures.get(topic).map(|(k, s)| (*k, s.as_slice()));
    let none = (Kind::Image, &[][..]);
    let (left_kind, left) = shots(&topics.left).unwrap_or(none);
    let (right_kind, right) = shots(&topics.right).unwrap_or(none);
    if left_kind != right_kind {
        return Err(error(
            path,
            format!(
                "{} and {}: one is compressed, the other is not",
                topics.left, topics.right
            ),
        ));
    }
    let mono = topics.mono.as_deref().and_then(shots);
    let half = half_period(left.iter().map(|s| s.stamp));
    let near = options.mono.tolerance_us.map_or_else(
        || half.unwrap_or(crate::source::MonoConfig::TOLERANCE_OF_ONE_NS),
        |us| us * 1000,
    );
    let frames = frames(left, right, mono.map(|m| (m.1, near)));
    let Some(first) = frames.first().copied() else {
        return Err(error(
            path,
            format!(
                "no picture of {} has a partner in time in {}",
                topics.left, topics.right
            ),
        ));
    };
    let recording = Recording {
        files,
        frames,
        kinds: Kinds {
            stereo: left_kind,
            mono: mono.map_or(left_kind, |m| m.0),
        },
        own: false,
        state: None,
    };
    let picture = |place: Option<Place>, kind, topic: &str| {
        let mut message = Vec::new();
        let mut picture = Picture::default();
        let place = place.ok_or_else(|| error(path, format!("{topic}: no picture")))?;
        recording
            .fetch(place, &mut Cache::default(), &mut message)
            .and_then(|()| image::decode(kind, &message, &mut Vec::new(), &mut picture))
            .map(|()| picture)
            .map_err(|text| error(path, format!("{topic}: the first picture: {text}")))
    };
    let first_left = picture(first.left, left_kind, &topics.left)?;
    let first_right = picture(first.right, left_kind, &topics.right)?;
    let size = first_left.size();
    if first_right.size() != size {
        let text = format!(
            "{}: {} px, but {} has {size} px",
            topics.right,
            first_right.size(),
            topics.left
        );
        return Err(error(path, text));
    }
    let (rig, calibration) = match given_rig(options)? {
        Some(given) => given,
        None => {
            let (Some(left), Some(right)) = (&topics.left_info, &topics.right_info) else {
                return Err(error(
                    path,
                    "no CameraInfo of the two cameras; give --calib FILE, [camera], or \
                     [source] topics with left_info and right_info",
                ));
            };
            let info = |topic: &String| {
                let missing = || error(path, format!("{topic}: no CameraInfo there"));
                content.infos.get(topic).ok_or_else(missing)
            };
            let rectified = topics.left.contains("rect");
            let infos = [info(left)?, info(right)?];
            let rig = of_camera_infos(path, [left.as_str(), right.as_str()], infos, rectified)?;
            (rig, format!("{left}, {right}"))
        }
    };
    if let Some(expected) = rig.image_size()
        && expected != size
    {
        return Err(SourceError::CalibrationSize {
            path: path.into(),
            found: size,
            expected,
        });
    }
    let prepare = drive::within_bounds(options.input.prepare(size)?, path, "input")?;
    let stereo = StereoSegment {
        rig: drive::adjusted(&rig, size, &prepare),
        size: prepare.size(),
        mask: drive::Masks::new("input", options.input.mask.as_ref())?.of(size, &prepare)?,
        colour: matches!(first_left, Picture::Rgb8(_)),
        has_right: true,
        stored_disparity: false,
        file_size: size,
        prepare,
    };
    let mut mono_segment = None;
    if let (Some((kind, _)), Some(topic)) = (mono, &topics.mono) {
        let place = recording.frames.iter().find_map(|f| f.mono);
        let first = picture(place, kind, topic)?;
        let prepare = drive::within_bounds(options.mono.prepare(first.size())?, path, "mono")?;
        mono_segment = Some(MonoSegment {
            kind: match first {
                Picture::Grey8(_) => PixelKind::Grey8,
                Picture::Grey16(_) => PixelKind::Grey16,
                Picture::Rgb8(_) => PixelKind::Rgb8,
            },
            size: prepare.size(),
            mask: drive::Masks::new("mono", options.mono.mask.as_ref())?
                .of(first.size(), &prepare)?,
            file_size: first.size(),
            prepare,
        });
    }
    let mono_times = match &topics.mono {
        Some(topic) => format!("{topic}, within {:.3} ms", near as f64 / 1e6),
        None => String::new(),
    };
    let segment = Segment {
        frames: 0..recording.frames.len(),
        stereo: Some(stereo),
        mono: mono_segment,
    };
    Ok(Opened {
        recording,
        segments: vec![segment],
        calibration,
        mono_times,
        mono_drive: false,
    })
}
