//! What is left of a recording after a power cut, and after bytes have flipped?
#[path = "common/tape.rs"]
mod tape;

use std::{fs, path::Path, process::Command};

use roadloop::frame::Gap;
use tape::{read, same, tape};

const FRAMES: usize = 12;

/// Where each chunk ends, by the lengths of the records.
fn chunk_ends(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (8, Vec::new());
    while at + 9 <= bytes.len() {
        let length = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap()) as usize;
        let end = at + 9 + length;
        if bytes[at] == 6 {
            ends.push(end);
        }
        if bytes[at] == 0x0F {
            break;
        }
        at = end;
    }
    ends
}

/// The frames that come out; each must be one that went in.
fn frames(path: &Path) -> Vec<usize> {
    let Ok(all) = read(path) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for found in all {
        match found {
            Ok(set) => {
                assert!(same(&set, set.id.index), "frame {}", set.id.index);
                out.push(set.id.index);
            }
            Err((_, gap)) => assert_eq!(gap, Gap::Missing),
        }
    }
    out
}

#[test]
fn all_whole_chunks_before_a_cut_are_read() {
    let whole = tape(FRAMES);
    let ends = chunk_ends(&whole);
    assert_eq!(ends.len(), FRAMES, "a chunk a frame");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.mcap");
    let near = ends.iter().flat_map(|&e| [e - 1, e, e + 1, e + 8, e + 9]);
    let cuts = (0..whole.len())
        .step_by(211)
        .chain(near)
        .chain([whole.len()]);
    for cut in cuts.filter(|&c| c <= whole.len()) {
        fs::write(&path, &whole[..cut]).unwrap();
        let expected = ends.iter().filter(|&&e| e <= cut).count();
        assert_eq!(
            frames(&path),
            (0..expected).collect::<Vec<_>>(),
            "cut at {cut}"
        );
    }
}

/// Killed between two chunks, a recorder leaves nothing behind that is damaged.
#[test]
fn a_recording_that_was_not_closed_is_told() {
    let whole = tape(FRAMES);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tape.mcap");
    for (length, closed) in [(whole.len(), true), (chunk_ends(&whole)[FRAMES - 1], false)] {
        fs::write(&path, &whole[..length]).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_roadloop"))
            .args(["replay", "--save", "none", "--force", "--out"])
            .arg(dir.path().join("results"))
            .arg(&path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let told = text.contains("tape.mcap: was not closed properly");
        assert_eq!(told, !closed, "{text}");
    }
}

#[test]
fn a_flipped_byte_costs_one_chunk_at_most() {
    let whole = tape(FRAMES);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped.mcap");
    let first = whole.iter().position(|&b| b == 6).unwrap();
    assert!(first > 8);
    let ends = chunk_ends(&whole);
    // Beyond the first bytes, which say what it is.
    let mut places: Vec<usize> = (8..whole.len()).step_by(97).collect();
    // Heads of records, where it hurts most.
    for &end in &ends {
        places.extend(end..end + 60);
    }
    for (n, &place) in places.iter().filter(|&&p| p < whole.len()).enumerate() {
        let mut bytes = whole.clone();
        bytes[place] ^= [0x01, 0x80, 0xFF, 0x10][n % 4];
        fs::write(&path, &bytes).unwrap();
        let left = frames(&path);
        assert!(left.len() + 1 >= FRAMES, "byte {place}: {left:?}");
    }
}

#[test]
fn what_is_between_two_damages_is_read() {
    let whole = tape(FRAMES);
    let ends = chunk_ends(&whole);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.mcap");
    let mut bytes = whole[..ends[9] + 40].to_vec();
    // The first chunk, which says what channels there are; and a hole of zeros across two more.
    bytes[ends[0] - 100] ^= 1;
    bytes[ends[3] - 50..ends[4] + 50].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(frames(&path), [1, 2, 5, 6, 7, 8, 9]);
}

#[test]
fn what_is_no_recording_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.mcap");
    for bytes in [
        &b""[..],
        b"\x89MCAP0\r\n",
        b"\x89MCAP0\r\n\x01",
        b"something else",
    ] {
        fs::write(&path, bytes).unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.contains("none.mcap"), "{error}");
    }
}
