//! Is the stereo camera found in other people's recordings, however its pictures are stored?
#[path = "common/tape.rs"]
mod tape;

use std::{collections::BTreeMap, fs, io::Cursor, path::Path};

use roadloop::{
    calib::Rig,
    frame::{Camera, Gap, Image, Timestamp},
    recording::{
        cdr::CdrWriter,
        message::{CameraInfo, compressed_image, image},
        schema::{CAMERA_INFO, COMPRESSED_IMAGE, IMAGE},
    },
    source::{Drive, DriveOptions, SourceConfig, Topics},
};
use tape::{CAMERA, SIZE, read, read_with};

/// A writer of files as a bag recorder makes them.
struct Bag {
    writer: mcap::Writer<Cursor<Vec<u8>>>,
    channels: BTreeMap<String, u16>,
    message: CdrWriter,
}

impl Bag {
    fn new(chunks: bool) -> Self {
        let options = mcap::WriteOptions::new().compression(None).profile("ros2");
        let options = options.use_chunks(chunks);
        Self {
            writer: options.create(Cursor::new(Vec::new())).unwrap(),
            channels: BTreeMap::new(),
            message: CdrWriter::default(),
        }
    }

    fn write(&mut self, topic: &str, schema: (&str, &str), sequence: u32, time: u64) {
        let Self {
            writer, channels, ..
        } = self;
        let id = *channels.entry(topic.into()).or_insert_with(|| {
            let schema = writer
                .add_schema(schema.0, "ros2msg", schema.1.as_bytes())
                .unwrap();
            writer
                .add_channel(schema, topic, "cdr", &BTreeMap::new())
                .unwrap()
        });
        let header = mcap::records::MessageHeader {
            channel_id: id,
            sequence,
            log_time: time,
            publish_time: time,
        };
        writer
            .write_to_known_channel(&header, self.message.message())
            .unwrap();
    }

    fn picture(&mut self, topic: &str, encoding: &str, (sequence, time): (u32, u64), value: u8) {
        let bytes = match encoding {
            "16UC1" => 2,
            "bgr8" | "rgb8" => 3,
            _ => 1,
        };
        image(
            &mut self.message,
            Timestamp(time),
            "camera",
            (encoding, bytes),
            SIZE,
        );
        self.message.raw(&vec![value; SIZE.area() * bytes]);
        self.write(topic, (IMAGE.name, IMAGE.text), sequence, time + 1000);
    }

    fn png(&mut self, topic: &str, time: u64, value: u8) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.png");
        let picture = Image::filled(SIZE.width, SIZE.height, value);
        roadloop::frame::png::write_grey(&path, &picture).unwrap();
        let file = fs::read(path).unwrap();
        compressed_image(&mut self.message, Timestamp(time), "camera", "mono8", &file);
        self.write(
            topic,
            (COMPRESSED_IMAGE.name, COMPRESSED_IMAGE.text),
            0,
            time,
        );
    }

    fn infos(&mut self, topics: [&str; 2], camera: Camera) {
        let infos = CameraInfo::of_rig(&Rig::rectified(camera), camera, SIZE);
        for (topic, info) in topics.into_iter().zip(infos) {
            info.write(&mut self.message, Timestamp(5), "camera");
            self.write(topic, (CAMERA_INFO.name, CAMERA_INFO.text), 0, 5);
        }
    }

    fn save(mut self, path: &Path) {
        self.writer.finish().unwrap();
        fs::write(path, self.writer.into_inner().into_inner()).unwrap();
    }
}

const MS: u64 = 1_000_000;

/// `front` with its right camera first by name, and a mono camera beside it.
fn pictures(bag: &mut Bag, encoding: &str) {
    for n in 0..4u32 {
        let time = 1_000_000_000 + u64::from(n) * 100 * MS;
        let value = 10 * n as u8;
        bag.picture("/front/b/image_raw", encoding, (n, time), value + 1);
        bag.picture("/front/a/image_raw", encoding, (n, time + MS), value + 2);
        bag.picture("/front/b/image_rect", encoding, (n, time), 99);
    }
}

const INFOS: [&str; 2] = ["/front/b/camera_info", "/front/a/camera_info"];

#[test]
fn cameras_are_found_by_what_they_say_of_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bag.mcap");
    for (encoding, chunks) in [
        ("mono8", true),
        ("mono8", false),
        ("rgb8", true),
        ("bgr8", true),
        ("16UC1", true),
        ("bayer_grbg8", true),
    ] {
        let mut bag = Bag::new(chunks);
        bag.infos(INFOS, CAMERA);
        pictures(&mut bag, encoding);
        bag.save(&path);
        let drive = Drive::open(&path, &DriveOptions::default()).unwrap();
        let stereo = drive.segments()[0].stereo.as_ref().unwrap();
        let camera = stereo.rig.rectified_camera().unwrap();
        assert!((camera.baseline_m - CAMERA.baseline_m).abs() < 1e-12);
        assert_eq!(stereo.colour, !matches!(encoding, "mono8" | "16UC1"));
        let frames = read(&path).unwrap();
        assert_eq!(frames.len(), 4);
        for (n, frame) in frames.into_iter().enumerate() {
            let set = frame.unwrap();
            assert_eq!(
                set.id.timestamp,
                Timestamp(1_000_000_000 + n as u64 * 100 * MS)
            );
            let stereo = set.stereo.unwrap();
            let grey = |v: usize| Image::filled(SIZE.width, SIZE.height, v as u8);
            // 16 bits: both bytes are the value, the higher one stays.
            assert_eq!(stereo.left, grey(10 * n + 1), "{encoding}");
            assert_eq!(stereo.right, Some(grey(10 * n + 2)), "{encoding}");
        }
    }
}

#[test]
fn pictures_as_files_and_named_topics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bag.mcap");
    let mut bag = Bag::new(true);
    bag.infos(["/l/camera_info", "/r/camera_info"], CAMERA);
    for n in 0..3u64 {
        bag.png("/l/image_raw/compressed", n * 50 * MS + 1, 3 * n as u8);
        bag.png("/r/image_raw/compressed", n * 50 * MS + 1, 7);
        bag.png("/thermal", n * 50 * MS + 9 * MS, 200);
    }
    bag.save(&path);
    let lefts = |options: &DriveOptions| -> Vec<(u8, bool)> {
        let frames = read_with(&path, options).unwrap();
        let sets = frames.into_iter().map(Result::unwrap);
        sets.map(|s| (s.stereo.unwrap().left.get(3, 3), s.mono.is_some()))
            .collect()
    };
    let found = lefts(&DriveOptions::default());
    assert_eq!(found, [(0, false), (3, false), (6, false)]);
    let named = |left: &str, right: &str| DriveOptions {
        source: SourceConfig {
            topics: Some(Topics {
                left: left.into(),
                right: right.into(),
                left_info: Some("/l/camera_info".into()),
                right_info: Some("/r/camera_info".into()),
                mono: Some("/thermal".into()),
            }),
            ..SourceConfig::default()
        },
        ..DriveOptions::default()
    };
    let swapped = named("/r/image_raw/compressed", "/l/image_raw/compressed");
    assert_eq!(lefts(&swapped), [(7, true), (7, true), (7, true)]);
    let error = read_with(&path, &named("/l/none", "/r/image_raw/compressed")).unwrap_err();
    assert!(
        error.starts_with("source.topics: /l/none has no pictures"),
        "{error}"
    );
}

#[test]
fn pictures_without_partner_and_numbers_left_out_are_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bag.mcap");
    let mut bag = Bag::new(true);
    bag.infos(INFOS, CAMERA);
    for n in (0..9u32).filter(|&n| n != 6) {
        let time = u64::from(n) * 100 * MS + 7;
        bag.picture("/front/b/image_raw", "mono8", (n, time), 1);
        if n != 0 && n != 3 {
            bag.picture("/front/a/image_raw", "mono8", (n, time), 1);
        }
    }
    bag.save(&path);
    let gaps: Vec<(usize, Gap)> = read(&path)
        .unwrap()
        .into_iter()
        .filter_map(Result::err)
        .map(|(id, gap)| (id.index, gap))
        .collect();
    assert_eq!(gaps, [(3, Gap::Unsynchronised), (6, Gap::Missing)]);
}

#[test]
fn compressed_chunks_are_read() {
    use std::io::Write as _;
    let plain = tape::tape(4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lz4.mcap");
    // Each chunk again, compressed.
    let (mut at, mut bytes) = (8, plain[..8].to_vec());
    while plain[at] != 0x0F {
        let length = u64::from_le_bytes(plain[at + 1..at + 9].try_into().unwrap()) as usize;
        let body = &plain[at + 9..][..length];
        if plain[at] == 6 {
            // Times, size, checksum; an empty name; the length.
            let (head, records) = (&body[..28], &body[40..]);
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(records).unwrap();
            let packed = encoder.finish().unwrap();
            bytes.push(6);
            bytes.extend((28 + 4 + 3 + 8 + packed.len() as u64).to_le_bytes());
            bytes.extend(head);
            bytes.extend(3u32.to_le_bytes());
            bytes.extend(b"lz4");
            bytes.extend((packed.len() as u64).to_le_bytes());
            bytes.extend(packed);
        } else {
            bytes.extend(&plain[at..at + 9 + length]);
        }
        at += 9 + length;
    }
    fs::write(&path, &bytes).unwrap();
    let frames = read(&path).unwrap();
    assert_eq!(frames.len(), 4);
    for (n, set) in frames.into_iter().enumerate() {
        assert!(tape::same(&set.unwrap(), n));
    }
}

#[test]
fn what_has_no_stereo_camera_says_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bag.mcap");
    let mut bag = Bag::new(true);
    bag.picture("/cam/image_raw", "mono8", (0, 5), 1);
    bag.save(&path);
    let error = read(&path).unwrap_err();
    for part in [
        "bag.mcap: no stereo camera",
        "/cam/image_raw",
        "[source] topics",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // Two of them, of which none is the one.
    let mut bag = Bag::new(true);
    for rig in ["/p", "/q"] {
        let topics = ["left", "right"].map(|side| format!("{rig}/{side}"));
        let infos = topics.clone().map(|t| format!("{t}/camera_info"));
        bag.infos([&infos[0], &infos[1]], CAMERA);
        topics
            .iter()
            .for_each(|t| bag.picture(&format!("{t}/image_raw"), "mono8", (0, 5), 1));
    }
    bag.save(&path);
    let error = read(&path).unwrap_err();
    assert!(error.contains("several stereo cameras"), "{error}");
}
