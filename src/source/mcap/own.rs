//! Roadloop's own recordings to frames.
use std::{collections::BTreeMap, path::Path};

use super::{
    Cache, Damages, Kinds, MAX_MESSAGES, Opened, Place, RecordedFile, RecordedFrame, Recording,
    error, fill_holes,
    image::{self, Kind},
    scan::{Item, Scan},
    tell_unless_closed,
};
use crate::{
    calib::Rig,
    frame::{Mask, PixelKind, Size},
    picture::Picture,
    recording::{
        FORMAT, METADATA, Topic, checksum,
        message::{self, CameraInfo},
    },
    source::{
        DriveOptions, MonoSegment, Segment, SourceError, StereoSegment, drive, prepare::Prepare,
    },
};

/// What a file of ours says beside its frames.
#[derive(Default)]
struct Head {
    /// The metadata, where its checksum is right.
    metadata: Option<BTreeMap<String, String>>,
    /// The format that it says.
    format: Option<u32>,
    /// The number of the file in its recording.
    file: Option<u32>,
    infos: [Option<CameraInfo>; 2],
    mask: Option<(Place, Kind)>,
    mono_mask: Option<(Place, Kind)>,
    state: Option<Place>,
    /// Its frames, in those of all files.
    frames: std::ops::Range<usize>,
    png: bool,
}

/// All files, read through for what is ours.
pub struct Found {
    files: Vec<RecordedFile>,
    heads: Vec<Head>,
    frames: Vec<RecordedFrame>,
    ours: bool,
    not_recorded: u64,
}

/// The pictures since the last frame.
#[derive(Default)]
struct Pending {
    sequence: u32,
    frame: RecordedFrame,
}

impl Found {
    /// Reads files through.
    pub fn of(files: Vec<RecordedFile>) -> Result<Self, SourceError> {
        let mut found = Self {
            files,
            heads: Vec::new(),
            frames: Vec::new(),
            ours: false,
            not_recorded: 0,
        };
        let mut damages = Damages(0);
        let mut messages = 0;
        for number in 0..found.files.len() {
            let mut head = Head::default();
            let first = found.frames.len();
            found.read(number, &mut head, &mut damages, &mut messages)?;
            head.frames = first..found.frames.len();
            found.heads.push(head);
        }
        damages.sum_up();
        Ok(found)
    }

    pub fn is_ours(&self) -> bool {
        self.ours
    }

    pub fn into_files(self) -> Vec<RecordedFile> {
        let empty = |f| RecordedFile {
            chunks: Vec::new(),
            ..f
        };
        self.files.into_iter().map(empty).collect()
    }

    fn read(
        &mut self,
        number: usize,
        head: &mut Head,
        damages: &mut Damages,
        messages: &mut usize,
    ) -> Result<(), SourceError> {
        let Self {
            files,
            frames,
            ours,
            not_recorded,
            ..
        } = self;
        let RecordedFile {
            path: file_path,
            file,
            chunks,
        } = &mut files[number];
        let io = |error| SourceError::Io {
            path: file_path.clone(),
            error,
        };
        let Some(mut scan) = Scan::new(file).map_err(io)? else {
            return Err(error(
                file_path,
                "not an MCAP file, or cut off in its first bytes",
            ));
        };
        // Topic, whether its pictures are files, and the format by its number.
        let mut channels: BTreeMap<u16, Option<(Topic, bool, u32)>> = BTreeMap::new();
        let paths: Vec<(String, (Topic, bool))> = (Topic::ALL.into_iter())
            .flat_map(|t| [false, true].map(|png| (t.path(png), (t, png))))
            .collect();
        let mut pending = Pending::default();
        let mut last = frames.last().map(|f: &RecordedFrame| f.id.index);
        let mut told_dropped = 0;
        scan.run::<Stop>(&mut |item| {
            match item {
                Item::Damage(bytes, why) => damages.tell(file_path, &bytes, &why),
                Item::Chunk(chunk) => chunks.push(chunk),
                Item::Schema(..) => {}
                Item::Channel(id, _, topic, encoding) => {
                    let known = paths.iter().find(|(path, _)| path == topic).map(|p| p.1);
                    let known = known.filter(|_| encoding == "cdr");
                    *ours |= known.is_some_and(|(t, _)| t == Topic::Frame);
                    // Another tool may have given it another number.
                    let format = Topic::of_channel(id).map_or(FORMAT, |(.., format)| format);
                    channels.insert(id, known.map(|(topic, png)| (topic, png, format)));
                }
                Item::Metadata(name, metadata) if name == METADATA => {
                    *ours = true;
                    if metadata.get("crc32") == Some(&checksum(&metadata)) {
                        let format = metadata.get("format").map_or("none", String::as_str);
                        match format.parse() {
                            Ok(known @ 1..=FORMAT) => head.format = Some(known),
                            _ => {
                                return Err(Stop::Refused(format!(
                                    "a recording of format {format:?}, expected 1 to {FORMAT}: \
                                     another version of the program made it"
                                )));
                            }
                        }
                        head.file = metadata.get("file").and_then(|f| f.parse().ok());
                        head.metadata = Some(metadata);
                    } else {
                        damages.tell(file_path, &(0..0), "the metadata is damaged");
                    }
                }
                Item::Metadata(..) => {}
                Item::Message(m) => {
                    *messages += 1;
                    if *messages > MAX_MESSAGES {
                        return Err(Stop::Refused(format!("more than {MAX_MESSAGES} messages")));
                    }
                    // In files of ours numbers of channels are always the same.
                    let known = channels.get(&m.channel).copied();
                    let by_number = || Topic::of_channel(m.channel).filter(|_| *ours);
                    let Some((topic, png, format)) = known.unwrap_or_else(by_number) else {
                        return Ok(());
                    };
                    let place = Place {
                        file: number as u32,
                        at: m.at,
                    };
                    if pending.sequence != m.sequence {
                        pending = Pending {
                            sequence: m.sequence,
                            ..Pending::default()
                        };
                    }
                    let kind = if png { Kind::Compressed } else { Kind::Image };
                    let slot = &mut pending.frame;
                    match topic {
                        Topic::Left => slot.left = Some(place),
                        Topic::Right => slot.right = Some(place),
                        Topic::Colour => slot.colour = Some(place),
                        Topic::Stored => slot.stored = Some(place),
                        Topic::Mono => slot.mono = Some(place),
                        Topic::Mask => head.mask = Some((place, kind)),
                        Topic::MonoMask => head.mono_mask = Some((place, kind)),
                        Topic::LeftInfo | Topic::RightInfo => {
                            let info = &mut head.infos[usize::from(topic == Topic::RightInfo)];
                            if info.is_none() {
                                *info = CameraInfo::read(m.data).ok();
                            }
                        }
                        Topic::State => {
                            head.state.get_or_insert(place);
                        }
                        Topic::Gap => {
                            if let Ok((id, gap)) = message::read_gap(m.data)
                                && last.is_none_or(|last| id.index > last)
                            {
                                last = Some(id.index);
                                frames.push(RecordedFrame::gap(id, gap));
                            }
                        }
                        Topic::Frame => {
                            let format = head.format.unwrap_or(format);
                            if let Ok(frame) = message::read_frame(m.data, format)
                                && frame.id.index as u32 == m.sequence
                                && last.is_none_or(|last| frame.id.index > last)
                            {
                                last = Some(frame.id.index);
                                told_dropped = frame.recording_dropped;
                                slot.id = frame.id;
                                slot.speed_mps = frame.speed_mps;
                                slot.mono_head = frame.mono;
                                slot.stereo_gap = frame.stereo_gap;
                                slot.decisions = frame.decisions;
                                frames.push(*slot);
                            }
                        }
                        Topic::Disparity | Topic::Foreground => {}
                    }
                    head.png |= png && !matches!(topic, Topic::Mask | Topic::MonoMask);
                }
            }
            Ok(())
        })
        .map_err(|stop| match stop {
            Stop::Io(error) => SourceError::Io {
                path: file_path.clone(),
                error,
            },
            Stop::Refused(why) => error(file_path, why),
        })?;
        tell_unless_closed(file_path, &scan);
        *not_recorded = (*not_recorded).max(told_dropped);
        Ok(())
    }
}

/// Why reading a file through ends before its end.
pub enum Stop {
    Io(std::io::Error),
    /// What it holds is not read.
    Refused(String),
}

impl From<std::io::Error> for Stop {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

/// What the frames of a file look like.
#[derive(Clone, PartialEq)]
struct Shape {
    stereo: Option<(Rig, Size, bool, bool, bool)>,
    mask: Option<Mask>,
    mono: Option<(PixelKind, Size)>,
    mono_mask: Option<Mask>,
}

/// The frames of our own recording.
pub fn open(path: &Path, found: Found, options: &DriveOptions) -> Result<Opened, SourceError> {
    let Found {
        files,
        heads,
        frames,
        not_recorded,
        ..
    } = found;
    let none = frames.iter().all(|f| f.gap.is_some());
    if none {
        return Err(error(path, "no whole frame in this recording"));
    }
    if not_recorded > 0 {
        log::warn!("{not_recorded} frames are not in the recording: the disk could not follow");
    }
    if options.input != super::super::InputConfig::default()
        || options.mono != super::super::MonoConfig::default()
    {
        log::info!("[input] and [mono] have had their effect before the recording");
    }
    for pair in heads.windows(2) {
        if let (Some(a), Some(b)) = (pair[0].file, pair[1].file)
            && b != a.saturating_add(1)
        {
            log::warn!("files {a} and {b} of the recording follow each other: some are missing");
        }
    }
    let png = heads.iter().any(|h| h.png);
    let kind = if png { Kind::Compressed } else { Kind::Image };
    let mut recording = Recording {
        files,
        frames: Vec::new(),
        kinds: Kinds {
            stereo: kind,
            mono: kind,
        },
        own: true,
        state: heads.first().and_then(|h| h.state),
    };
    let mut calibration = "recorded".to_owned();
    let given = given_rig(options)?;
    let mut parts: Vec<(usize, Shape)> = Vec::new();
    for head in &heads {
        let of_file = &frames[head.frames.clone()];
        if of_file.iter().all(|f| f.gap.is_some()) {
            continue;
        }
        let mut shape = shape(&recording, head, of_file, path)?;
        if let (Some((rig, size, ..)), Some((given, name))) = (&mut shape.stereo, &given) {
            if let Some(expected) = given.image_size()
                && expected != *size
            {
                return Err(SourceError::CalibrationSize {
                    path: path.into(),
                    found: *size,
                    expected,
                });
            }
            *rig = given.clone();
            calibration.clone_from(name);
        }
        if parts.last().is_none_or(|(_, before)| *before != shape) {
            parts.push((head.frames.start, shape));
        }
    }
    // Places among the frames once the holes are filled.
    let index = |at: usize| frames[at].id.index;
    let starts: Vec<usize> = parts.iter().map(|(at, _)| index(*at)).collect();
    let frames = fill_holes(frames);
    let place = |i: &usize| frames.partition_point(|f| f.id.index < *i);
    let mut starts: Vec<usize> = starts.iter().map(place).collect();
    if let Some(first) = starts.first_mut() {
        *first = 0;
    }
    starts.push(frames.len());
    let mono_drive = parts.iter().all(|(_, s)| s.stereo.is_none());
    let mut segments = Vec::new();
    for ((_, shape), places) in parts.into_iter().zip(starts.windows(2)) {
        segments.push(segment(shape, places[0]..places[1]));
    }
    recording.frames = frames;
    let mono_times = if !mono_drive && segments.iter().any(|s| s.mono.is_some()) {
        "recorded".into()
    } else {
        String::new()
    };
    if mono_drive {
        calibration = "none: no stereo".into();
    }
    Ok(Opened {
        recording,
        segments,
        calibration,
        mono_times,
        mono_drive,
    })
}

/// The calibration that goes before the recording's own.
pub fn given_rig(options: &DriveOptions) -> Result<Option<(Rig, String)>, SourceError> {
    if let Some(path) = &options.calib {
        let pair = options
            .source
            .pair
            .map_or_else(Default::default, Into::into);
        let rig = drive::read_rig(path, pair)?;
        return Ok(Some((rig, path.display().to_string())));
    }
    let rectified = |camera| (Rig::rectified(camera), "[camera]".to_owned());
    Ok(options.camera.map(rectified))
}

fn segment(shape: Shape, frames: std::ops::Range<usize>) -> Segment {
    Segment {
        frames,
        stereo: shape
            .stereo
            .map(|(rig, size, has_right, colour, stored)| StereoSegment {
                rig,
                size,
                mask: shape.mask,
                colour,
                has_right,
                stored_disparity: stored,
                file_size: size,
                prepare: Prepare::nothing(size),
            }),
        mono: shape.mono.map(|(kind, size)| MonoSegment {
            kind,
            size,
            mask: shape.mono_mask,
            file_size: size,
            prepare: Prepare::nothing(size),
        }),
    }
}

/// What stereo frames look like, as a file's metadata say it: size, and whether there is a right
/// picture, one in colour, a stored disparity.
fn told_stereo(line: &str) -> Option<(Size, bool, bool, bool)> {
    let mut words = line.split(' ');
    let size = told_size(&mut words)?;
    let has = |name| line.split(' ').any(|word| word == name);
    Some((size, has("right"), has("colour"), has("disparity")))
}

/// What mono pictures look like, as a file's metadata say it.
fn told_mono(line: &str) -> Option<(PixelKind, Size)> {
    let mut words = line.splitn(3, ' ');
    let size = told_size(&mut words)?;
    let kind = words.next()?;
    let all = [PixelKind::Grey8, PixelKind::Grey16, PixelKind::Rgb8];
    let kind = all.into_iter().find(|k| k.name() == kind)?;
    Some((kind, size))
}

fn told_size<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Size> {
    let mut number = || {
        words
            .next()?
            .parse()
            .ok()
            .filter(|n| (1..=1 << 16).contains(n))
    };
    let size = Size::new(number()?, number()?);
    (size.area() <= drive::MAX_STAGE_PIXELS).then_some(size)
}

/// What the frames of a file look like, by its head and the first of its pictures.
fn shape(
    recording: &Recording,
    head: &Head,
    frames: &[RecordedFrame],
    path: &Path,
) -> Result<Shape, SourceError> {
    let kinds = recording.kinds;
    let picture = |place: Place, kind: Kind| -> Result<Picture, SourceError> {
        let mut message = Vec::new();
        let mut picture = Picture::default();
        let decoded = recording
            .fetch(place, &mut Cache::default(), &mut message)
            .and_then(|()| image::decode(kind, &message, &mut Vec::new(), &mut picture));
        let file = &recording.files[place.file as usize].path;
        decoded.map_err(|text| error(file, format!("the first picture: {text}")))?;
        if picture.size().area() > drive::MAX_STAGE_PIXELS {
            return Err(SourceError::TooLarge {
                path: file.clone(),
                found: picture.size(),
                section: "input",
            });
        }
        Ok(picture)
    };
    let mut shape = Shape {
        stereo: None,
        mask: None,
        mono: None,
        mono_mask: None,
    };
    let told = |key| head.metadata.as_ref().and_then(|m| m.get(key));
    let stereo = match frames.iter().find_map(|f| Some((f, f.left?))) {
        Some((first, left)) => Some((
            picture(left, kinds.stereo)?.size(),
            first.right.is_some(),
            first.colour.is_some(),
            first.stored.is_some(),
        )),
        // A camera was lost all the while.
        None => told("stereo").and_then(|line| told_stereo(line)),
    };
    if let Some((size, has_right, colour, stored)) = stereo {
        let rig = match (told("rig").map(|line| Rig::from_line(line)), &head.infos) {
            (Some(Some(rig)), _) => rig,
            (_, [Some(left), Some(right)]) => {
                log::warn!("{}: the rig is read from its CameraInfo", path.display());
                let topics = [Topic::LeftInfo.name(), Topic::RightInfo.name()];
                crate::calib::of_camera_infos(path, topics, [left, right], false)?
            }
            _ => return Err(error(path, "no camera in it; give --calib FILE")),
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
        shape.stereo = Some((rig, size, has_right, colour, stored));
        if let Some((mask, kind)) = head.mask {
            match picture(mask, kind)? {
                Picture::Grey8(mask) if mask.size() == size => shape.mask = Some(mask),
                _ => {
                    return Err(error(
                        path,
                        "the mask is no grey picture of the left one's size",
                    ));
                }
            }
        }
    }
    // A frame whose mono picture is not used has none in the recording.
    shape.mono = match frames.iter().find_map(|f| f.mono) {
        Some(mono) => {
            let picture = picture(mono, kinds.mono)?;
            let kind = match picture {
                Picture::Grey8(_) => PixelKind::Grey8,
                Picture::Grey16(_) => PixelKind::Grey16,
                Picture::Rgb8(_) => PixelKind::Rgb8,
            };
            Some((kind, picture.size()))
        }
        None => told("mono").and_then(|line| told_mono(line)),
    };
    if let (Some((_, size)), Some((mask, kind))) = (shape.mono, head.mono_mask) {
        match picture(mask, kind)? {
            Picture::Grey8(mask) if mask.size() == size => shape.mono_mask = Some(mask),
            _ => {
                return Err(error(
                    path,
                    "the mask of the mono pictures is no grey picture of their size",
                ));
            }
        }
    }
    if shape.stereo.is_none() && shape.mono.is_none() {
        return Err(error(path, "no frame has pictures"));
    }
    Ok(shape)
}
