//! A drive in words, for `roadloop check drive`.
use std::{fmt::Write as _, io::ErrorKind, path::Path};

use super::{Drive, FrameFiles, MonoSegment, SPEED, Segment, StereoSegment, mcap::Recording};
use crate::picture::{self, PictureError};
use crate::{
    calib::Rig,
    frame::{Gap, Size},
};

/// How many gaps are listed one by one.
const LISTED: usize = 10;

/// What was understood of a drive, in lines: layout, frames, sizes, calibration, and the gaps
/// that the heads of the files show. Reads the head of every file.
pub fn describe(drive: &Drive) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{key:<13}{value}");
    };
    line("drive", &drive.path().display().to_string());
    line("layout", &drive.kind().to_string());
    let frames = drive.frames();
    let mut count = format!("{}", frames.len());
    if frames.len() != drive.total()
        && let (Some(first), Some(last)) = (frames.first(), frames.last())
    {
        let total = drive.total();
        count += &format!(" ({}..{} of {total})", first.id.index, last.id.index + 1);
    }
    line("frames", &count);
    line("times", drive.times());
    line("calibration", drive.calibration());
    for (n, segment) in drive.segments().iter().enumerate() {
        if drive.segments().len() > 1 {
            let places = format!(
                "{n}: frames {}..{}",
                segment.frames.start, segment.frames.end
            );
            line("segment", &places);
        }
        if let Some(stereo) = &segment.stereo {
            line("pictures", &pictures(stereo));
            line("camera", &camera(&stereo.rig));
            for warning in stereo.rig.warnings() {
                line("warning", warning);
            }
        }
        if let Some(camera) = &segment.mono {
            line("mono", &mono(camera));
        }
    }
    if !drive.mono_times().is_empty() {
        line("mono times", drive.mono_times());
    }
    if drive.has_speeds() {
        let known = frames.iter().filter(|f| f.speed_mps.is_some()).count();
        line(
            "speed",
            &format!("{SPEED}: known for {known} of {} frames", frames.len()),
        );
    }
    let recording = drive.recording.as_deref();
    let gaps: Vec<_> = drive
        .segments()
        .iter()
        .flat_map(|s| frames[drive.slots(s)].iter().map(move |f| (s, f)))
        .filter_map(|(segment, files)| Some((files, foreseen(recording, segment, files)?)))
        .collect();
    let told = if recording.is_some() {
        "as recorded; what is damaged inside shows in a replay"
    } else {
        "by names and heads of the files; what is damaged inside shows in a replay"
    };
    line("gaps", &format!("{} ({told})", gaps.len()));
    for (files, (gap, reason)) in gaps.iter().take(LISTED) {
        line("", &format!("frame {}: {gap}: {reason}", files.id.index));
    }
    if gaps.len() > LISTED {
        line("", &format!("and {} more", gaps.len() - LISTED));
    }
    text
}

fn pictures(segment: &StereoSegment) -> String {
    let mut text = segment.size.to_string();
    if segment.size != segment.file_size {
        text += &format!(" (files {})", segment.file_size);
    }
    text += if segment.colour { ", colour" } else { ", grey" };
    text += if segment.stored_disparity {
        ", stored disparities"
    } else if segment.has_right {
        ", left and right"
    } else {
        ", left only"
    };
    if let Some(mask) = &segment.mask {
        let masked = mask.pixels().filter(|&&m| m == 0).count();
        text += &format!(", {masked} px masked");
    }
    text
}

fn mono(segment: &MonoSegment) -> String {
    let mut text = segment.size.to_string();
    if segment.size != segment.file_size {
        text += &format!(" (files {})", segment.file_size);
    }
    text + ", " + segment.kind.name()
}

fn camera(rig: &Rig) -> String {
    if let Some(c) = rig.rectified_camera() {
        return format!(
            "rectified, f {:.3} px, centre ({:.3}, {:.3}), baseline {:.4} m",
            c.focal_px, c.cx, c.cy, c.baseline_m
        );
    }
    rig.raw_pair().map_or_else(String::new, |pair| {
        let [l, r] = pair.lenses.map(|lens| lens.pinhole.fx);
        let baseline = pair.translation.norm();
        format!("to be rectified, f {l:.3} and {r:.3} px, baseline {baseline:.4} m")
    })
}

/// The gap that the heads of a frame's files show.
fn foreseen(
    recording: Option<&Recording>,
    segment: &Segment,
    files: &FrameFiles,
) -> Option<(Gap, String)> {
    let check = |path: &Path, expected: Size| {
        let (gap, reason) = match picture::size(path) {
            Ok(size) if size == expected => return None,
            Ok(size) => (Gap::SizeChanged, format!("{size} px")),
            Err(PictureError::Io(e)) if e.kind() == ErrorKind::NotFound => {
                (Gap::Missing, "not there".into())
            }
            Err(error) => (Gap::Unreadable, error.to_string()),
        };
        Some((gap, format!("{}: {reason}", path.display())))
    };
    if let Some(recording) = recording {
        return recording.foreseen(files.id.index);
    }
    let stereo = segment.stereo.as_ref().zip(files.stereo.as_ref());
    let stereo = stereo.and_then(|(segment, files)| {
        [
            Some(&files.left),
            files.right.as_ref(),
            files.disparity.as_ref(),
        ]
        .into_iter()
        .flatten()
        .find_map(|path| check(path, segment.file_size))
    });
    stereo.or_else(|| {
        let segment = segment.mono.as_ref()?;
        match &files.mono {
            Some(mono) => check(&mono.file, segment.file_size),
            None => Some((
                Gap::Unsynchronised,
                "no mono picture near enough in time".into(),
            )),
        }
    })
}
