//! Exposure, gain and other controls: set, read back, compared.
use std::os::fd::BorrowedFd;

use v4l::v4l_sys::{
    V4L2_CID_ANALOGUE_GAIN, V4L2_CID_AUTOGAIN, V4L2_CID_EXPOSURE_ABSOLUTE, V4L2_CID_EXPOSURE_AUTO,
    V4L2_CID_GAIN, V4L2_CTRL_FLAG_READ_ONLY, V4L2_CTRL_FLAG_WRITE_ONLY,
};

use super::sys::{self, Control, INTEGER_64};
use crate::source::cameras::{CameraConfig, QueueError};

/// `V4L2_EXPOSURE_MANUAL`.
const MANUAL: i64 = 1;

/// Types of controls whose value is a number: integer, boolean, menu, button, integer64, bit
/// mask, integer menu.
const NUMBERS: [u32; 7] = [1, 2, 3, 4, INTEGER_64, 8, 9];

/// A button: set, never read.
const BUTTON: u32 = 4;

/// Sets the controls of a configuration; what came out other than asked for, in words.
pub fn apply(fd: BorrowedFd<'_>, camera: &CameraConfig) -> Result<Vec<String>, QueueError> {
    let all = sys::controls(fd);
    let mut differences = Vec::new();
    let mut set = |key: &str, control: &Control, value: i64| -> Result<(), QueueError> {
        match set(fd, control, value) {
            Ok(None) => Ok(()),
            Ok(Some(text)) => {
                differences.push(format!("{key}: {text}"));
                Ok(())
            }
            Err(error) if error.is_gone() => Err(error),
            Err(error) => {
                differences.push(format!("{key} = {value}: {error}"));
                Ok(())
            }
        }
    };
    let mut missing = Vec::new();
    for (name, &value) in &camera.controls {
        match all.iter().find(|c| &c.name == name) {
            Some(control) => set(&format!("controls.{name:?}"), control, value)?,
            None => missing.push(name.clone()),
        }
    }
    let by_id = |id| all.iter().find(|c| c.id == id);
    let by_name = |names: &[&str]| all.iter().find(|c| names.contains(&c.name.as_str()));
    if let Some(us) = camera.exposure_us {
        if let Some(auto) = by_id(V4L2_CID_EXPOSURE_AUTO) {
            set("exposure_us, automatic exposure off", auto, MANUAL)?;
        }
        let us = i64::try_from(us).unwrap_or(i64::MAX);
        // In units of 100 us; or, as on Tegra, 64 bits of microseconds.
        if let Some(absolute) = by_id(V4L2_CID_EXPOSURE_ABSOLUTE) {
            set("exposure_us / 100", absolute, (us + 50) / 100)?;
        } else if let Some(control) = by_name(&["Exposure"]).filter(|c| c.kind == INTEGER_64) {
            set("exposure_us", control, us)?;
        } else {
            missing.push("exposure in units of time".into());
        }
    }
    if let Some(gain) = camera.gain {
        if let Some(auto) = by_id(V4L2_CID_AUTOGAIN) {
            set("gain, automatic gain off", auto, 0)?;
        }
        let control = by_id(V4L2_CID_GAIN)
            .or_else(|| by_id(V4L2_CID_ANALOGUE_GAIN))
            .or_else(|| by_name(&["Gain", "Analogue Gain", "Analog Gain"]));
        match control {
            Some(control) => set("gain", control, gain)?,
            None => missing.push("gain".into()),
        }
    }
    if !missing.is_empty() {
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        differences.push(format!(
            "the driver has no control {}; it has: {}",
            missing.join(", "),
            names.join(", ")
        ));
    }
    Ok(differences)
}

/// Sets one control and reads it back; in words what is other.
fn set(fd: BorrowedFd<'_>, control: &Control, value: i64) -> Result<Option<String>, QueueError> {
    if !NUMBERS.contains(&control.kind) {
        let text = format!("control {:?} is no number, not set", control.name);
        return Ok(Some(text));
    }
    if control.flags & V4L2_CTRL_FLAG_READ_ONLY != 0 {
        let text = format!("control {:?} can only be read, not set", control.name);
        return Ok(Some(text));
    }
    let range = || {
        format!(
            "{} to {} in steps of {}",
            control.minimum, control.maximum, control.step
        )
    };
    if let Err(error) = sys::set_control(fd, control, value) {
        if error.is_gone() {
            return Err(error);
        }
        let text = format!("{value} is refused ({error}), expected {}", range());
        return Ok(Some(text));
    }
    if control.kind == BUTTON || control.flags & V4L2_CTRL_FLAG_WRITE_ONLY != 0 {
        return Ok(None);
    }
    let found = sys::control(fd, control)?;
    Ok((found != value).then(|| {
        format!(
            "{value} was asked for, the driver made it {found} of {}",
            range()
        )
    }))
}
