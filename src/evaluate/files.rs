//! Folders of pictures and their frames' numbers.
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use super::{EvaluateError, Unmatched, frames_in_words};
use crate::{
    frame::Image,
    picture::{self, Picture},
    source::number_of,
};

/// The pictures of a folder by frame number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Folder {
    pub path: PathBuf,
    pub frames: BTreeMap<u64, PathBuf>,
}

impl Folder {
    /// The PNG files of a folder.
    pub fn read(path: &Path, expected: &'static str) -> Result<Self, EvaluateError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(EvaluateError::io(path))? {
            let file = entry.map_err(EvaluateError::io(path))?.path();
            let png = file
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("png"));
            let hidden = file
                .file_name()
                .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
            if png && !hidden {
                files.push(file);
            }
        }
        files.sort();
        let stems: HashSet<String> = files.iter().map(|f| stem(f)).collect();
        // Of a KITTI pair in time only the first picture has truth and results.
        files.retain(|f| {
            let stem = stem(f);
            let first = stem.strip_suffix("_11").map(|n| format!("{n}_10"));
            first.is_none_or(|first| !stems.contains(&first))
        });
        if files.is_empty() {
            return Err(EvaluateError::Empty {
                path: path.into(),
                expected,
            });
        }
        let numbered: Option<BTreeMap<u64, PathBuf>> = files
            .iter()
            .map(|f| Some((number_of(&stem(f))?, f.clone())))
            .collect();
        let frames = match numbered {
            Some(frames) if frames.len() == files.len() => frames,
            _ => (0..).zip(files).collect(),
        };
        Ok(Self {
            path: path.into(),
            frames,
        })
    }
}

fn stem(file: &Path) -> String {
    file.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The first of these sub-folders that exists, else the folder itself.
pub(super) fn inner(path: &Path, names: &[&str]) -> PathBuf {
    names
        .iter()
        .map(|name| path.join(name))
        .find(|p| p.is_dir())
        .unwrap_or_else(|| path.into())
}

/// Disparities by frame: the folder itself or where a KITTI or synthetic drive keeps them.
pub(super) fn disparities(path: &Path) -> Result<Folder, EvaluateError> {
    let path = inner(
        path,
        &[
            "training/disp_noc_0",
            "disp_noc_0",
            "training/disp_occ_0",
            "disp_occ_0",
            "truth/disparity",
            "disparity",
        ],
    );
    Folder::read(&path, "disparity pictures (16-bit PNG)")
}

/// A 16-bit picture of disparities in 1/256 px; 0 = none.
pub(super) fn read_disparity(path: &Path) -> Result<Image<u16>, EvaluateError> {
    match read(path)? {
        Picture::Grey16(image) => Ok(image),
        other => Err(wrong_kind(path, &other, "16-bit grey")),
    }
}

/// A picture of class indices.
pub(super) fn read_labels(path: &Path) -> Result<Image<u8>, EvaluateError> {
    match read(path)? {
        Picture::Grey8(image) => Ok(image),
        other => Err(wrong_kind(path, &other, "8-bit grey (class indices)")),
    }
}

pub(super) fn read(path: &Path) -> Result<Picture, EvaluateError> {
    picture::read(path).map_err(|source| EvaluateError::Picture {
        path: path.into(),
        source,
    })
}

pub(super) fn wrong_kind(path: &Path, picture: &Picture, expected: &'static str) -> EvaluateError {
    EvaluateError::Kind {
        path: path.into(),
        found: match picture {
            Picture::Grey8(_) => "8-bit grey",
            Picture::Grey16(_) => "16-bit grey",
            Picture::Rgb8(_) => "RGB",
        },
        expected,
    }
}

/// Frame number, result and truth of each pair, and what has no partner.
pub(super) type Matched<'a, A, B> = (Vec<(u64, &'a A, &'a B)>, Unmatched);

/// Matches two sides by frame number; those of one side only are named.
pub(super) fn matched<'a, A, B>(
    results: (&Path, &'a BTreeMap<u64, A>),
    truth: (&Path, &'a BTreeMap<u64, B>),
) -> Result<Matched<'a, A, B>, EvaluateError> {
    let pairs: Vec<_> = results
        .1
        .iter()
        .filter_map(|(n, a)| Some((*n, a, truth.1.get(n)?)))
        .collect();
    if pairs.is_empty() {
        let words = |numbers: Vec<u64>| frames_in_words(&numbers);
        return Err(EvaluateError::NoPartner {
            results: results.0.into(),
            results_frames: words(results.1.keys().copied().collect()),
            truth: truth.0.into(),
            truth_frames: words(truth.1.keys().copied().collect()),
        });
    }
    let only = |n: &&u64, in_other: bool| (!in_other).then_some(**n);
    let unmatched = Unmatched {
        results: results
            .1
            .keys()
            .filter_map(|n| only(&n, truth.1.contains_key(n)))
            .collect(),
        truth: truth
            .1
            .keys()
            .filter_map(|n| only(&n, results.1.contains_key(n)))
            .collect(),
    };
    Ok((pairs, unmatched))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_number_of_their_own_count_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |names: &[&str]| {
            let path = dir.path().join(names.join("-"));
            fs::create_dir(&path).unwrap();
            for name in names {
                fs::write(path.join(name), "").unwrap();
            }
            Folder::read(&path, "pictures").map(|f| f.frames.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(folder(&["0001TP_5.png", "0001TP_7.png"]).unwrap(), [0, 1]);
        assert_eq!(folder(&["7_10.png", "7_11.png", "x.txt"]).unwrap(), [7]);
        assert_eq!(folder(&["b9.PNG", "b10.png", ".b1.png"]).unwrap(), [9, 10]);
        let error = folder(&["x.txt"]).unwrap_err();
        assert!(error.to_string().ends_with("found no pictures"), "{error}");
        assert_eq!(error.exit_status(), 66);
    }
}
