//! Files to rigs.
mod checks;
mod kitti;
mod opencv;
mod single;
mod yaml;

pub use single::of_camera_infos;

use std::path::{Path, PathBuf};

use self::{
    opencv::Parts,
    single::Single,
    yaml::{Doc, Node, Value},
};
use super::{CalibError, Pair, Rig};
use crate::files;

/// Files that hold a whole rig, looked for in a folder in this order.
const WHOLE: [&str; 10] = [
    "calib.txt",
    "calib_cam_to_cam.txt",
    "camchain.yaml",
    "stereo.yaml",
    "stereo.yml",
    "calibration.yaml",
    "calibration.yml",
    "calib.yaml",
    "calib.yml",
    "stereo_calibration.yml",
];

/// Files that hold a rig together, looked for in a folder after those.
const HALVES: [[&str; 2]; 8] = [
    ["mav0/cam0/sensor.yaml", "mav0/cam1/sensor.yaml"],
    ["cam0/sensor.yaml", "cam1/sensor.yaml"],
    ["left.yaml", "right.yaml"],
    ["left.yml", "right.yml"],
    ["left/camera_info.yaml", "right/camera_info.yaml"],
    ["cam0.yaml", "cam1.yaml"],
    ["intrinsics.yml", "extrinsics.yml"],
    ["intrinsics.yaml", "extrinsics.yaml"],
];

/// Words that tell the two files of a rig apart.
const SIBLINGS: [[&str; 2]; 7] = [
    ["left", "right"],
    ["Left", "Right"],
    ["cam0", "cam1"],
    ["camera0", "camera1"],
    ["camera_0", "camera_1"],
    ["cam_0", "cam_1"],
    ["intrinsics", "extrinsics"],
];

/// Reads a calibration file, recognised by its content, or the calibration in a folder.
///
/// A file that holds one camera of two (EuRoC, ROS), or the half of an OpenCV calibration, is
/// joined with its sibling, whose path has `left` and `right`, `cam0` and `cam1` or `intrinsics`
/// and `extrinsics` exchanged.
///
/// # Errors
/// With file, line or key, what was found and what was expected.
pub fn read(path: &Path, pair: Pair) -> Result<Rig, CalibError> {
    if path.is_dir() {
        return read_folder(path, pair);
    }
    let text = load(path)?;
    let tree = match recognise(path, &text, pair)? {
        Found::Rig(rig) => return Ok(*rig),
        Found::Yaml(node) => node,
    };
    match half(path, &tree)? {
        Half::Parts(parts) if !parts.is_half() => parts.rig(),
        half => match sibling(path) {
            Some([left, right]) => read_pair(&left, &right),
            None => match half {
                Half::Parts(parts) => parts.rig(),
                Half::Single(_) => Err(CalibError::OneCamera {
                    file: path.into(),
                    hint: "give the folder of both cameras, or both files".into(),
                }),
            },
        },
    }
}

/// Reads a rig kept as one file a camera (EuRoC `sensor.yaml`, ROS `camera_info`), or as
/// OpenCV's `intrinsics.yml` and `extrinsics.yml`.
///
/// # Errors
/// As [`read`].
pub fn read_pair(left: &Path, right: &Path) -> Result<Rig, CalibError> {
    let load = |path: &Path| -> Result<Box<Node>, CalibError> {
        match recognise(path, &load(path)?, Pair::First)? {
            Found::Yaml(tree) => Ok(tree),
            Found::Rig(rig) => Err(CalibError::UnknownFormat {
                file: path.into(),
                found: format!(
                    "a whole rig ({}): give this file alone",
                    rig.format().name()
                ),
            }),
        }
    };
    let trees = [load(left)?, load(right)?];
    match (half(left, &trees[0])?, half(right, &trees[1])?) {
        (Half::Single(left), Half::Single(right)) => single::pair(*left, *right),
        (Half::Parts(left), Half::Parts(right)) => left.or(*right).rig(),
        _ => Err(CalibError::UnknownFormat {
            file: right.into(),
            found: format!("another format than {}", left.display()),
        }),
    }
}

fn read_folder(folder: &Path, pair: Pair) -> Result<Rig, CalibError> {
    for name in WHOLE {
        let path = folder.join(name);
        if path.is_file() {
            return read(&path, pair);
        }
    }
    for names in HALVES {
        let [left, right] = names.map(|name| folder.join(name));
        if left.is_file() && right.is_file() {
            return read_pair(&left, &right);
        }
    }
    // Kalibr names its file after the recording.
    let entries = std::fs::read_dir(folder).map_err(|source| CalibError::Io {
        file: folder.into(),
        source,
    })?;
    let chain = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.contains("camchain") && name.ends_with(".yaml"))
        .min();
    match chain {
        Some(name) => read(&folder.join(name), pair),
        None => Err(CalibError::UnknownFormat {
            file: folder.into(),
            found: "a folder without a calibration of a known name".into(),
        }),
    }
}

fn load(path: &Path) -> Result<String, CalibError> {
    let bytes = files::read(path, files::MAX_SETTINGS).map_err(|source| CalibError::Io {
        file: path.into(),
        source,
    })?;
    // Comments in other encodings do no harm.
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

enum Found {
    Rig(Box<Rig>),
    Yaml(Box<Node>),
}

enum Half<'a> {
    Single(Box<Single<'a>>),
    Parts(Box<Parts<'a>>),
}

fn recognise(file: &Path, text: &str, pair: Pair) -> Result<Found, CalibError> {
    if kitti::is_kitti(text) {
        return kitti::read(file, text, pair).map(|rig| Found::Rig(Box::new(rig)));
    }
    if text.trim_start().starts_with('<') {
        return Err(CalibError::UnknownFormat {
            file: file.into(),
            found: "XML".into(),
        });
    }
    let node = yaml::parse(file, text)?;
    let doc = Doc {
        file,
        node: &node,
        prefix: "",
    };
    if let Some(camera) = doc.find(&["cam0", "cam1", "cam2"])
        && matches!(camera.node.value, Value::Map(_))
    {
        return single::kalibr(doc, pair).map(|rig| Found::Rig(Box::new(rig)));
    }
    Ok(Found::Yaml(Box::new(node)))
}

fn half<'a>(file: &'a Path, node: &'a Node) -> Result<Half<'a>, CalibError> {
    let doc = Doc {
        file,
        node,
        prefix: "",
    };
    if doc.has(&["T_BS"]) {
        return single::euroc(doc).map(|camera| Half::Single(Box::new(camera)));
    }
    if doc.has(&["projection_matrix"])
        || (doc.has(&["K", "k"]) && doc.has(&["P", "p"]))
        || (doc.has(&["camera_matrix"]) && doc.has(&["camera_name", "rectification_matrix"]))
    {
        return single::ros(doc).map(|camera| Half::Single(Box::new(camera)));
    }
    if opencv::is_stereo(&doc) {
        return opencv::parts(doc).map(|parts| Half::Parts(Box::new(parts)));
    }
    if doc.has(&["camera_matrix", "intrinsics"]) {
        return Err(CalibError::OneCamera {
            file: file.into(),
            hint: "a camera calibrated alone says nothing of where the other one stands; run a \
                   stereo calibration"
                .into(),
        });
    }
    let keys = doc.keys();
    let found = match (&doc.node.value, keys.as_slice()) {
        (Value::Scalar(text), _) => format!("the text {}", yaml::excerpt(text)),
        (_, []) => "no keys".into(),
        (_, keys) => {
            let first: Vec<_> = keys.iter().take(6).map(|k| yaml::excerpt(k)).collect();
            format!("the keys {}", first.join(", "))
        }
    };
    Err(CalibError::UnknownFormat {
        file: file.into(),
        found,
    })
}

/// Both files of a rig, left or intrinsics first, when the other one exists: the word is
/// exchanged in the last part of the path that has one, among the last four.
fn sibling(path: &Path) -> Option<[PathBuf; 2]> {
    let parts: Vec<_> = path.components().map(|c| c.as_os_str()).collect();
    for at in (parts.len().saturating_sub(4)..parts.len()).rev() {
        let Some(name) = parts[at].to_str() else {
            continue;
        };
        for [first, second] in SIBLINGS {
            for (from, to) in [(first, second), (second, first)] {
                let Some(start) = name.rfind(from) else {
                    continue;
                };
                let mut other = name.to_owned();
                other.replace_range(start..start + from.len(), to);
                let other: PathBuf = parts[..at]
                    .iter()
                    .copied()
                    .chain([other.as_ref()])
                    .chain(parts[at + 1..].iter().copied())
                    .collect();
                if other.is_file() {
                    return Some(if from == first {
                        [path.to_owned(), other]
                    } else {
                        [other, path.to_owned()]
                    });
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::Size;

    const SAMPLES: [&str; 6] = [
        include_str!("../../../calib/kitti_odometry_06.txt"),
        include_str!("../../../calib/kitti_2015.txt"),
        include_str!("../../../calib/euroc_v1.yaml"),
        include_str!("../../../calib/template.yaml"),
        "%YAML:1.0\nsensor_type: camera\nT_BS:\n  cols: 4\n  rows: 4\n  data: [0, -1, 0, -0.02,\n    \
         1, 0, 0, -0.06,\n    0, 0, 1, 0.0098,\n    0.0, 0.0, 0.0, 1.0]\nrate_hz: 20\n\
         resolution: [752, 480]\ncamera_model: pinhole\n\
         intrinsics: [458.654, 457.296, 367.215, 248.375] #fu, fv, cu, cv\n\
         distortion_model: radial-tangential\n\
         distortion_coefficients: [-0.28340811, 0.07395907, 0.00019359, 1.76e-05]\n",
        "image_width: 640\nimage_height: 480\ncamera_name: left\ncamera_matrix:\n  rows: 3\n  \
         cols: 3\n  data: [500, 0, 320, 0, 500, 240, 0, 0, 1]\ndistortion_model: plumb_bob\n\
         distortion_coefficients:\n  rows: 1\n  cols: 5\n  data: [-0.1, 0.01, 0, 0, 0]\n\
         rectification_matrix:\n  rows: 3\n  cols: 3\n  data: [1, 0, 0, 0, 1, 0, 0, 0, 1]\n\
         projection_matrix:\n  rows: 3\n  cols: 4\n  \
         data: [480, 0, 310, -96, 0, 480, 230, 0, 0, 0, 1, 0]\n",
    ];

    /// Everything that happens to a text, without looking for other files. Whether it is
    /// understood as a rig, or as one camera of it.
    fn survives(text: &str) -> bool {
        let file = Path::new("fuzz");
        let mut good = false;
        for pair in [Pair::First, Pair::Second] {
            let rig = match recognise(file, text, pair) {
                Ok(Found::Rig(rig)) => Ok(*rig),
                Ok(Found::Yaml(tree)) => match half(file, &tree) {
                    Ok(Half::Parts(parts)) => parts.rig(),
                    Ok(Half::Single(camera)) => {
                        let second = half(file, &tree);
                        match second {
                            // With itself: the base line is 0.
                            Ok(Half::Single(second)) => {
                                good = true;
                                single::pair(*camera, *second)
                            }
                            _ => continue,
                        }
                    }
                    Err(e) => Err(e),
                },
                Err(e) => Err(e),
            };
            match rig {
                Ok(rig) => {
                    good = true;
                    for rig in [rig.clone(), rig.scaled_down(3), rig.scaled_down(0)] {
                        let _ = rig
                            .cropped(1, 2, Size::new(5, 4))
                            .rectification(Size::new(5, 4));
                    }
                }
                Err(e) => assert!(e.to_string().starts_with("fuzz"), "{e}"),
            }
        }
        good
    }

    #[test]
    fn files_cut_off_anywhere() {
        for sample in SAMPLES {
            assert!(survives(sample));
            for end in 0..sample.len() {
                survives(&String::from_utf8_lossy(&sample.as_bytes()[..end]));
            }
        }
    }

    #[test]
    fn lines_lost_anywhere() {
        for sample in SAMPLES {
            let lines: Vec<_> = sample.lines().collect();
            for i in 0..lines.len() {
                let mut rest = lines.clone();
                rest.remove(i);
                survives(&rest.join("\n"));
            }
        }
    }

    #[test]
    fn endless_repetition() {
        for word in [
            "? ", "{", "a: ", "a:\n", "- a\n", "'", "\"", "!x ", "&a ", ": ", "\t", "|\n", "%",
            "P0: 1\n", "1 ",
        ] {
            survives(&word.repeat(20_000));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn bytes_changed(
            sample in 0..SAMPLES.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = SAMPLES[sample].as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            survives(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn characters_changed(
            sample in 0..SAMPLES.len(),
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), "[-0-9.eE:,&*#?!|>%'\"{}\\[\\] \n\t]"), 1..6),
        ) {
            let mut bytes = SAMPLES[sample].as_bytes().to_vec();
            for (at, c) in changes {
                let at = at.index(bytes.len());
                bytes[at] = c.as_bytes()[0];
            }
            survives(&String::from_utf8_lossy(&bytes));
        }
    }
}
