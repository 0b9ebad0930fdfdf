//! Which cameras there are, and whether they can do what is asked of them.
use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{CameraConfig, CameraName, CamerasConfig, PixelFormat};

/// A capture device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// Its stable names, from /dev/v4l.
    pub names: Vec<PathBuf>,
    /// Its node.
    pub node: PathBuf,
    /// Driver, card and bus, or why it can't be opened.
    pub description: String,
    /// Formats that it offers, by name.
    pub formats: String,
    /// These with their sizes; `None` for a device that can't be opened.
    pub offers: Option<Vec<Offer>>,
}

/// A format that a device offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Its V4L2 code.
    pub code: [u8; 4],
    /// Sizes; none where the driver does not say.
    pub sizes: Vec<Sizes>,
}

/// Sizes of pictures, from the least to the greatest by a step, and the rates that go with the
/// greatest; where there is one size, both are the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Columns and rows.
    pub least: [u32; 2],
    /// Columns and rows.
    pub greatest: [u32; 2],
    /// Columns and rows.
    pub step: [u32; 2],
    /// Frames a second; none where the driver does not say.
    pub rates: Vec<Rates>,
}

/// Frames a second, from the least to the greatest; where there is one rate, both are the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The slowest.
    pub least: f64,
    /// The fastest.
    pub greatest: f64,
}

impl Sizes {
    fn has(&self, size: [usize; 2]) -> bool {
        (0..2).all(|i| {
            let (least, greatest) = (self.least[i] as usize, self.greatest[i] as usize);
            let step = (self.step[i] as usize).max(1);
            (least..=greatest).contains(&size[i]) && (size[i] - least).is_multiple_of(step)
        })
    }

    fn has_rate(&self, hz: f64) -> bool {
        // As near as capture takes it without a word.
        let near = hz / 100.0;
        self.rates.is_empty()
            || (self.rates.iter()).any(|r| (r.least - near..=r.greatest + near).contains(&hz))
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hz = |v: f64| (v * 1000.0).round() / 1000.0;
        match self.least == self.greatest {
            true => write!(f, "{}", hz(self.least)),
            false => write!(f, "{} to {}", hz(self.least), hz(self.greatest)),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [width, height] = self.least;
        write!(f, "{width}x{height}")?;
        if self.least != self.greatest {
            let ([width, height], [across, down]) = (self.greatest, self.step);
            write!(f, " to {width}x{height} in steps of {across}x{down}")?;
        }
        let rates: Vec<String> = self.rates.iter().map(Rates::to_string).collect();
        match rates.is_empty() {
            true => Ok(()),
            false => write!(f, ": {} Hz", rates.join(", ")),
        }
    }
}

fn name_of(code: [u8; 4]) -> (String, bool) {
    match PixelFormat::of_fourcc(code) {
        Some(format) => (format.name().into(), true),
        None => (String::from_utf8_lossy(&code).trim_end().into(), false),
    }
}

/// The devices in words, a paragraph each.
pub fn describe(devices: &[Listed]) -> String {
    let mut text = String::new();
    if devices.is_empty() {
        return "no capture devices\n".into();
    }
    // To a string this can't fail.
    for device in devices {
        let _ = writeln!(text, "{}: {}", device.node.display(), device.description);
        for name in &device.names {
            let _ = writeln!(text, "  {}", name.display());
        }
        for offer in device.offers.iter().flatten() {
            let (name, known) = name_of(offer.code);
            let aside = if known { "" } else { " (not supported here)" };
            let _ = writeln!(text, "  {name}{aside}");
            if known {
                for sizes in &offer.sizes {
                    let _ = writeln!(text, "    {sizes}");
                }
            }
        }
    }
    text
}

/// Whether a camera can deliver what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can, by what its driver says.
    Able,
    /// It can, with this difference.
    Differs(String),
    /// Its device is not there, or can't be opened.
    Absent(String),
    /// It can't.
    Unable(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Able => f.write_str("can deliver what is asked of it"),
            Self::Differs(text) => write!(f, "goes on with a difference: {text}"),
            Self::Absent(text) | Self::Unable(text) => f.write_str(text),
        }
    }
}

/// What each configured camera can.
pub fn judge(config: &CamerasConfig, devices: &[Listed]) -> Vec<(CameraName, Verdict)> {
    let all = config.iter().map(|(which, camera)| {
        let name = CameraName::of(which, &camera.device);
        let verdict = verdict(camera, config.rate_hz, &name, devices);
        (name, verdict)
    });
    all.collect()
}

fn verdict(camera: &CameraConfig, hz: f64, name: &CameraName, devices: &[Listed]) -> Verdict {
    let is = |device: &&Listed| {
        let node = name.node.as_deref();
        node == Some(&device.node) || device.names.contains(&name.device)
    };
    let Some(device) = devices.iter().find(is) else {
        return match &name.node {
            None => Verdict::Absent("there is no such device".into()),
            Some(_) => Verdict::Unable("that is no capture device".into()),
        };
    };
    let Some(offers) = &device.offers else {
        return Verdict::Absent(device.description.clone());
    };
    let Some(offer) = offers.iter().find(|o| o.code == camera.format.fourcc()) else {
        return Verdict::Unable(format!(
            "format {} is not offered; there are {}",
            camera.format, device.formats
        ));
    };
    let size = camera.size();
    let mut fitting = (offer.sizes.iter())
        .filter(|s| s.has([size.width, size.height]))
        .peekable();
    if offer.sizes.is_empty() {
        return Verdict::Differs(format!("the driver does not say whether it has {size}"));
    }
    if fitting.peek().is_none() {
        let sizes: Vec<String> = offer.sizes.iter().map(Sizes::to_string).collect();
        return Verdict::Unable(format!(
            "{size} of {} is not offered; there are {}",
            camera.format,
            sizes.join("; ")
        ));
    }
    let rates: Vec<String> = fitting.clone().map(Sizes::to_string).collect();
    if fitting.any(|s| s.has_rate(hz)) {
        return Verdict::Able;
    }
    Verdict::Differs(format!(
        "rate_hz: {hz} is not offered; there are {}",
        rates.join("; ")
    ))
}

/// The stable names that lead to a node.
pub fn names_of(node: &Path, links: &[(PathBuf, PathBuf)]) -> Vec<PathBuf> {
    let to = links.iter().filter(|(to, _)| to == node);
    to.map(|(_, link)| link.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::Which, *};

    fn sizes(width: u32, height: u32, rates: &[f64]) -> Sizes {
        Sizes {
            least: [width, height],
            greatest: [width, height],
            step: [1, 1],
            rates: (rates.iter())
                .map(|&hz| Rates {
                    least: hz,
                    greatest: hz,
                })
                .collect(),
        }
    }

    fn devices() -> Vec<Listed> {
        let able = Listed {
            names: vec!["/dev/v4l/by-path/one".into(), "/dev/v4l/by-id/one".into()],
            node: "/dev/video90".into(),
            description: "vivid, vivid, platform:vivid.000".into(),
            formats: "GREY, YUYV, MJPG".into(),
            offers: Some(vec![
                Offer {
                    code: *b"GREY",
                    sizes: vec![
                        sizes(640, 480, &[30.0, 25.0]),
                        sizes(1280, 720, &[1000.0 / 99.0]),
                    ],
                },
                Offer {
                    code: *b"YUYV",
                    sizes: vec![Sizes {
                        least: [32, 16],
                        greatest: [1920, 1080],
                        step: [16, 8],
                        rates: vec![Rates {
                            least: 1.0,
                            greatest: 60.0,
                        }],
                    }],
                },
                Offer {
                    code: *b"MJPG",
                    sizes: vec![sizes(640, 480, &[])],
                },
            ]),
        };
        let shut = Listed {
            names: vec!["/dev/v4l/by-path/two".into()],
            node: "/dev/video91".into(),
            description: "open: Permission denied (os error 13)".into(),
            ..Listed::default()
        };
        vec![able, shut]
    }

    fn judged(device: &str, format: &str, (width, height): (u32, u32), hz: f64) -> Verdict {
        let text = format!(
            "rate_hz = {hz:?}\nmono = {{ device = '{device}', width = {width}, height = {height}, \
             format = '{format}' }}"
        );
        let config: CamerasConfig = toml::from_str(&text).unwrap();
        let [(name, verdict)] = &judge(&config, &devices())[..] else {
            panic!("one camera");
        };
        assert_eq!(name.which, Which::Mono);
        verdict.clone()
    }

    #[test]
    fn what_is_offered_can_be_delivered() {
        let one = "/dev/v4l/by-path/one";
        assert_eq!(judged(one, "GREY", (640, 480), 30.0), Verdict::Able);
        assert_eq!(judged(one, "GREY", (1280, 720), 10.1), Verdict::Able);
        assert_eq!(judged(one, "YUYV", (48, 1080), 59.9), Verdict::Able);
        assert_eq!(
            judged("/dev/v4l/by-id/one", "YUYV", (32, 16), 1.0),
            Verdict::Able
        );
    }

    #[test]
    fn what_is_not_offered_is_said_with_what_is() {
        let one = "/dev/v4l/by-path/one";
        let unable = |text: &str| Verdict::Unable(text.into());
        assert_eq!(
            judged(one, "Y10", (640, 480), 30.0),
            unable("format Y10 is not offered; there are GREY, YUYV, MJPG")
        );
        assert_eq!(
            judged(one, "GREY", (640, 481), 30.0),
            unable(
                "640x481 of GREY is not offered; there are 640x480: 30, 25 Hz; 1280x720: 10.101 Hz"
            )
        );
        assert_eq!(
            judged(one, "YUYV", (40, 16), 30.0),
            unable(
                "40x16 of YUYV is not offered; there are 32x16 to 1920x1080 in steps of 16x8: \
                 1 to 60 Hz"
            )
        );
        assert_eq!(
            judged(one, "GREY", (640, 480), 60.0),
            Verdict::Differs("rate_hz: 60 is not offered; there are 640x480: 30, 25 Hz".into())
        );
        assert_eq!(
            judged("/dev/v4l/by-path/two", "GREY", (640, 480), 60.0),
            Verdict::Absent("open: Permission denied (os error 13)".into())
        );
        assert_eq!(
            judged("/dev/v4l/by-path/none", "GREY", (640, 480), 60.0),
            Verdict::Absent("there is no such device".into())
        );
        assert_eq!(
            judged("/dev/null", "GREY", (640, 480), 60.0),
            unable("that is no capture device")
        );
    }

    #[test]
    fn devices_in_words() {
        assert_eq!(describe(&[]), "no capture devices\n");
        assert_eq!(
            describe(&devices()),
            "/dev/video90: vivid, vivid, platform:vivid.000
  /dev/v4l/by-path/one
  /dev/v4l/by-id/one
  GREY
    640x480: 30, 25 Hz
    1280x720: 10.101 Hz
  YUYV
    32x16 to 1920x1080 in steps of 16x8: 1 to 60 Hz
  MJPG (not supported here)
/dev/video91: open: Permission denied (os error 13)
  /dev/v4l/by-path/two
"
        );
    }
}
