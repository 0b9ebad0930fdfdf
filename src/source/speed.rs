//! `speed.csv` of a drive: how fast the vehicle was, `timestamp_ns,speed_mps`.
use std::path::Path;

use super::{FrameFiles, SourceError, layout::times, pairing};
use crate::files;

/// The table's name in the folder of a drive.
pub const SPEED: &str = "speed.csv";

/// A sample counts for a frame up to this far away in time, ns: wheel speeds come at 10 Hz or
/// more, and a vehicle at rest does not move off unseen in so short a time.
pub const SPEED_TOLERANCE_NS: u64 = 200_000_000;

/// Speeds that are believed, m/s; negative ones drive backwards.
const MOST_MPS: f32 = 200.0;

/// Gives each frame the speed of the nearest sample within [`SPEED_TOLERANCE_NS`]; false where
/// the drive has no such table.
pub(super) fn attach(drive: &Path, frames: &mut [FrameFiles]) -> Result<bool, SourceError> {
    let path = drive.join(SPEED);
    if !files::present(&path) {
        return Ok(false);
    }
    let (stamps, speeds) = read(&path)?;
    for frame in &mut *frames {
        let place = pairing::nearest(&stamps, frame.id.timestamp.0, SPEED_TOLERANCE_NS);
        frame.speed_mps = place.map(|place| speeds[place]);
    }
    if frames.iter().all(|frame| frame.speed_mps.is_none()) {
        log::warn!(
            "{}: no line lies within {} ms of a frame; how the vehicle moves is told from the \
             images alone",
            path.display(),
            SPEED_TOLERANCE_NS / 1_000_000
        );
    }
    Ok(true)
}

fn read(path: &Path) -> Result<(Vec<u64>, Vec<f32>), SourceError> {
    const HEADER: &str = "timestamp_ns,speed_mps";
    let wrong = |line: usize, text: String| SourceError::Table {
        path: path.into(),
        line: Some(line),
        text,
    };
    let text = times::read(path)?;
    let mut lines = text.lines().map(str::trim).enumerate();
    let header = lines.next().map_or("", |(_, line)| line);
    if header != HEADER {
        return Err(wrong(
            1,
            format!("{}, expected {HEADER:?}", files::quoted(header)),
        ));
    }
    let (mut stamps, mut speeds) = (Vec::new(), Vec::new());
    for (n, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let sample = line.split_once(',').and_then(|(stamp, speed)| {
            let speed: f32 = speed.trim().parse().ok()?;
            let stamp: u64 = stamp.trim().parse().ok()?;
            (-MOST_MPS..=MOST_MPS)
                .contains(&speed)
                .then_some((stamp, speed))
        });
        let (stamp, speed) = sample.ok_or_else(|| {
            let expected = format!("a time in ns and a speed of -{MOST_MPS} to {MOST_MPS} m/s");
            wrong(
                n + 1,
                format!("{}, expected {expected}", files::quoted(line)),
            )
        })?;
        if stamps.last().is_some_and(|&before| stamp <= before) {
            let text = format!("{stamp} is not later than the line before");
            return Err(wrong(n + 1, text));
        }
        stamps.push(stamp);
        speeds.push(speed);
    }
    Ok((stamps, speeds))
}
