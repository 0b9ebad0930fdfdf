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

fn lz4(records: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(records).unwrap();
    encoder.finish().unwrap()
}

fn zstd(records: &[u8]) -> Vec<u8> {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    compress_to_vec(records, CompressionLevel::Fastest)
}

/// Each chunk of a recording again, compressed.
fn repacked(plain: &[u8], name: &str, pack: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let (mut at, mut bytes) = (8, plain[..8].to_vec());
    while plain[at] != 0x0F {
        let length = u64::from_le_bytes(plain[at + 1..at + 9].try_into().unwrap()) as usize;
        let body = &plain[at + 9..][..length];
        if plain[at] == 6 {
            // Times, size, checksum; an empty name; the length.
            let (head, records) = (&body[..28], &body[40..]);
            let packed = pack(records);
            assert!(packed.len() < records.len(), "{name}");
            bytes.push(6);
            bytes.extend((28 + 4 + name.len() as u64 + 8 + packed.len() as u64).to_le_bytes());
            bytes.extend(head);
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend((packed.len() as u64).to_le_bytes());
            bytes.extend(packed);
        } else {
            bytes.extend(&plain[at..at + 9 + length]);
        }
        at += 9 + length;
    }
    bytes
}

type Packer = fn(&[u8]) -> Vec<u8>;
const PACKERS: [(&str, Packer); 2] = [("lz4", lz4), ("zstd", zstd)];

#[test]
fn compressed_chunks_are_read() {
    let plain = tape::tape(4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packed.mcap");
    for (name, pack) in PACKERS {
        fs::write(&path, repacked(&plain, name, pack)).unwrap();
        let frames = read(&path).unwrap();
        assert_eq!(frames.len(), 4, "{name}");
        for (n, set) in frames.into_iter().enumerate() {
            assert!(tape::same(&set.unwrap(), n), "{name}");
        }
    }
}

/// A flipped byte in a compressed chunk costs that chunk and no other.
#[test]
fn damage_in_a_compressed_chunk_costs_that_chunk() {
    let plain = tape::tape(4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packed.mcap");
    for (name, pack) in PACKERS {
        let whole = repacked(&plain, name, pack);
        let mut chunks = Vec::new();
        let mut at = 8;
        while at < whole.len() {
            let length = u64::from_le_bytes(whole[at + 1..at + 9].try_into().unwrap()) as usize;
            if whole[at] == 6 {
                chunks.push(at + 9..at + 9 + length);
            }
            at += 9 + length;
        }
        assert_eq!(chunks.len(), 4, "a chunk a frame");
        let chunk = chunks[2].clone();
        for place in chunk.clone().step_by(chunk.len() / 40 + 1) {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x15;
            fs::write(&path, &bytes).unwrap();
            let found = read(&path).unwrap();
            let whole: Vec<usize> = (found.iter().flatten())
                .filter(|set| tape::same(set, set.id.index))
                .map(|set| set.id.index)
                .collect();
            assert_eq!(
                whole.len(),
                found.iter().flatten().count(),
                "{name} {place}"
            );
            assert!(
                [&[0, 1, 3][..], &[0, 1, 2, 3]].contains(&&whole[..]),
                "{name} {place} {whole:?}"
            );
        }
    }
}

/// A grey baseline JPEG of blocks of 8 x 8 pixels of one value each: every coefficient but the
/// first is 0, and that one is the value less 128.
fn jpeg((across, down): (usize, usize), value: impl Fn(usize, usize) -> u8) -> Vec<u8> {
    let (height, width) = ((8 * down) as u16, (8 * across) as u16);
    let mut file = vec![0xFF, 0xD8];
    let mut segment = |marker: u8, body: &[u8]| {
        file.extend([0xFF, marker]);
        file.extend((body.len() as u16 + 2).to_be_bytes());
        file.extend(body);
    };
    // A step of 8 undoes the scale of the transform.
    segment(0xDB, &[&[0][..], &[8; 64]].concat());
    let [h, w] = [height, width].map(u16::to_be_bytes);
    segment(0xC0, &[8, h[0], h[1], w[0], w[1], 1, 1, 0x11, 0]);
    // First coefficients: the nine categories, four bits each; the others: the end of the block.
    let counts = |length: usize, n: u8| {
        let mut counts = [0u8; 16];
        counts[length - 1] = n;
        counts
    };
    segment(
        0xC4,
        &[&[0x00][..], &counts(4, 9), &[0, 1, 2, 3, 4, 5, 6, 7, 8]].concat(),
    );
    segment(0xC4, &[&[0x10][..], &counts(1, 1), &[0]].concat());
    segment(0xDA, &[1, 1, 0x00, 0, 63, 0]);
    let (mut bits, mut before) = (Vec::new(), 0i32);
    for y in 0..down {
        for x in 0..across {
            let now = i32::from(value(x, y)) - 128;
            let step = now - before;
            before = now;
            let category = 32 - step.unsigned_abs().leading_zeros();
            bits.extend((0..4).rev().map(|b| category >> b & 1));
            let low = if step < 0 { step - 1 } else { step };
            bits.extend((0..category).rev().map(|b| (low >> b & 1) as u32));
            bits.push(0);
        }
    }
    bits.resize(bits.len().next_multiple_of(8), 1);
    for byte in bits.chunks(8) {
        let byte = byte.iter().fold(0, |all, bit| all << 1 | bit) as u8;
        file.push(byte);
        if byte == 0xFF {
            file.push(0);
        }
    }
    file.extend([0xFF, 0xD9]);
    file
}

#[test]
fn jpeg_pictures_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bag.mcap");
    let blocks = (SIZE.width / 8, SIZE.height / 8);
    let value =
        |side: usize, n: usize, x: usize, y: usize| (side * 90 + n * 37 + x * 53 + y * 11) as u8;
    let mut bag = Bag::new(true);
    bag.infos(["/l/camera_info", "/r/camera_info"], CAMERA);
    for n in 0..3usize {
        for (side, topic) in ["/l/image_raw/compressed", "/r/image_raw/compressed"]
            .into_iter()
            .enumerate()
        {
            let file = jpeg(blocks, |x, y| value(side, n, x, y));
            let time = n as u32 * 50_000_000;
            let message = bag.message.begin().i32(1).u32(time).text("camera");
            // As a driver of a USB camera has it.
            message.text("jpeg").octets(&file);
            let schema = (COMPRESSED_IMAGE.name, COMPRESSED_IMAGE.text);
            bag.write(topic, schema, n as u32, 1_000_000_000 + u64::from(time));
        }
    }
    bag.save(&path);
    let frames = read(&path).unwrap();
    assert_eq!(frames.len(), 3);
    for (n, set) in frames.into_iter().enumerate() {
        let stereo = set.unwrap().stereo.unwrap();
        for (side, picture) in [Some(stereo.left), stereo.right].into_iter().enumerate() {
            let expected =
                Image::from_fn(SIZE.width, SIZE.height, |x, y| value(side, n, x / 8, y / 8));
            assert_eq!(picture.unwrap(), expected, "{side} {n}");
        }
    }
}

#[test]
fn a_picture_file_that_is_cut_is_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bag.mcap");
    let blocks = (SIZE.width / 8, SIZE.height / 8);
    let mut bag = Bag::new(true);
    bag.infos(["/l/camera_info", "/r/camera_info"], CAMERA);
    for n in 0..3u32 {
        for topic in ["/l/image_raw/compressed", "/r/image_raw/compressed"] {
            let mut file = jpeg(blocks, |x, y| (x + y) as u8);
            if n == 1 && topic.starts_with("/r") {
                file.truncate(file.len() - 6);
            }
            let message = bag
                .message
                .begin()
                .i32(1)
                .u32(n * 50_000_000)
                .text("camera");
            message.text("jpeg").octets(&file);
            let schema = (COMPRESSED_IMAGE.name, COMPRESSED_IMAGE.text);
            bag.write(topic, schema, n, 5);
        }
    }
    bag.save(&path);
    let found = read(&path).unwrap();
    let gaps: Vec<_> = (found.into_iter().filter_map(Result::err))
        .map(|(id, gap)| (id.index, gap))
        .collect();
    assert_eq!(gaps, [(1, Gap::Unreadable)]);
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
