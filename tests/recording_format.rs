//! Which formats of recordings are read?
#[path = "common/tape.rs"]
mod tape;

use std::{collections::BTreeMap, fs};

use roadloop::recording::{METADATA, Topic, checksum};
use tape::{read, same, tape};

const FRAMES: usize = 6;

/// Opcodes.
const CHANNEL: u8 = 4;
const MESSAGE: u8 = 5;
const CHUNK: u8 = 6;
const METADATA_RECORD: u8 = 12;
const DATA_END: u8 = 15;

/// The records of a file one after the other, those in its chunks among them.
fn records(bytes: &[u8], all: &mut Vec<(u8, Vec<u8>)>) {
    let mut at = 0;
    while at + 9 <= bytes.len() {
        let length = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap()) as usize;
        let body = &bytes[at + 9..at + 9 + length];
        match bytes[at] {
            // Times, size, checksum, an empty name, length.
            CHUNK => records(&body[40..], all),
            op => all.push((op, body.to_vec())),
        }
        if bytes[at] == DATA_END {
            return;
        }
        at += 9 + length;
    }
}

fn text(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u32).to_le_bytes());
    to.extend(text.as_bytes());
}

fn metadata(format: &str) -> Vec<u8> {
    let mut map = BTreeMap::from([("format".to_owned(), format.to_owned())]);
    map.insert("crc32".into(), checksum(&map));
    let mut pairs = Vec::new();
    for (key, value) in &map {
        text(&mut pairs, key);
        text(&mut pairs, value);
    }
    let mut body = Vec::new();
    text(&mut body, METADATA);
    body.extend((pairs.len() as u32).to_le_bytes());
    body.extend(pairs);
    body
}

/// A recording as the first format had it: results are on the channel 21, without `stereo_gap`.
fn earlier(format: Option<&str>) -> Vec<u8> {
    let mut all = Vec::new();
    records(&tape(FRAMES)[8..], &mut all);
    let mut bytes = b"\x89MCAP0\r\n".to_vec();
    let frame = Topic::Frame.channel(false).to_le_bytes();
    for (op, mut body) in all {
        if op == METADATA_RECORD {
            match format {
                Some(format) => body = metadata(format),
                None => continue,
            }
        }
        if (op == CHANNEL || op == MESSAGE) && body[..2] == frame {
            body[..2].copy_from_slice(&21u16.to_le_bytes());
            if op == MESSAGE {
                // Channel, sequence, times, head; then up to the empty `mono_gap` and, aligned,
                // `stereo_gap`.
                let from = 2 + 4 + 16 + 4 + 85;
                assert_eq!(body[from..from + 8], [0, 0, 0, 1, 0, 0, 0, 0]);
                body.drain(from..from + 8);
            }
        }
        bytes.push(op);
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}

#[test]
fn the_first_format_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("earlier.mcap");
    // By what the file says of itself, and by the number of the channel where that is lost.
    for format in [Some("1"), None] {
        fs::write(&path, earlier(format)).unwrap();
        let found = read(&path).unwrap();
        assert_eq!(found.len(), FRAMES, "{format:?}");
        for (n, set) in found.iter().enumerate() {
            let set = set.as_ref().unwrap();
            assert!(same(set, n), "{format:?}: frame {n}");
            assert_eq!(set.stereo_gap, None);
            let decisions = set.decisions.expect("what was decided");
            assert!(!(0..8).any(|s| decisions.skipped(s) || decisions.late(s)));
        }
    }
}

#[test]
fn a_later_format_is_refused_by_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later.mcap");
    for format in ["3", "0", "", "two"] {
        fs::write(&path, earlier(Some(format))).unwrap();
        let error = read(&path).unwrap_err();
        let expected = format!(
            "later.mcap: a recording of format {format:?}, expected 1 to 2: another version of \
             the program made it"
        );
        assert!(error.ends_with(&expected), "{error}");
    }
}
