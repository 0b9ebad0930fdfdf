//! Folders of pictures: order, numbers, holes, pairs.
use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
};

use crate::source::SourceError;

/// What the names of the pictures of a folder mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Where all stems are whole numbers they count frames: a number that is left out is a frame
    /// that is missing (see [`step_of`]).
    Consecutive,
    /// They are names only.
    Names,
    /// `NNNNNN_10`: separate pictures; others are passed over.
    KittiStereo,
}

/// A picture file.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// The name without its extension.
    pub stem: String,
    /// The number in the name, if any.
    pub number: Option<u64>,
    pub path: PathBuf,
}

/// The files of a frame, in order.
pub(super) struct Listed {
    pub number: Option<u64>,
    pub left: PathBuf,
    pub right: Option<PathBuf>,
}

const EXTENSIONS: [&str; 6] = ["png", "pgm", "ppm", "pnm", "jpg", "jpeg"];

/// The number in a file's name without its ending: the digits at its beginning, else those at
/// its end. Results are matched with truth by it.
pub fn number_of(stem: &str) -> Option<u64> {
    let is_digit = |c: char| c.is_ascii_digit();
    let head = &stem[..stem.find(|c| !is_digit(c)).unwrap_or(stem.len())];
    let tail = stem.rfind(|c| !is_digit(c)).map_or(stem, |at| {
        // One past the last character that is no digit, whatever its length in bytes.
        let rest = &stem[at..];
        &rest[rest.chars().next().map_or(0, char::len_utf8)..]
    });
    let digits = if head.is_empty() { tail } else { head };
    digits.parse().ok()
}

/// Names in the order in which people count: `2` before `10`, else by bytes.
pub(super) fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        let digits = |s: &[u8]| s.iter().take_while(|c| c.is_ascii_digit()).count();
        match (digits(x), digits(y)) {
            (n, m) if n > 0 && m > 0 => {
                let zeros = |s: &[u8]| s.iter().take_while(|&&c| c == b'0').count();
                let (p, q) = (&x[zeros(&x[..n])..n], &y[zeros(&y[..m])..m]);
                let order = p.len().cmp(&q.len()).then_with(|| p.cmp(q));
                if order != Ordering::Equal {
                    return order;
                }
                (x, y) = (&x[n..], &y[m..]);
            }
            _ => match (x.split_first(), y.split_first()) {
                (Some((p, x2)), Some((q, y2))) if p == q => (x, y) = (x2, y2),
                (Some((p, _)), Some((q, _))) => return p.cmp(q),
                // Equal but for leading zeros: by bytes, so that the order is one.
                (None, None) => return a.cmp(b),
                (None, _) => return Ordering::Less,
                (_, None) => return Ordering::Greater,
            },
        }
    }
}

/// The pictures of a folder in natural order, by the extension of the name (the content decides
/// how they are read). Hidden files are passed over; of two files with the same stem the first
/// by name is taken.
pub(super) fn pictures(dir: &Path, numbering: Numbering) -> Result<Vec<Named>, SourceError> {
    let failed = |error| SourceError::Io {
        path: dir.into(),
        error,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    let mut seen = HashSet::new();
    let mut found: Vec<Named> = paths
        .into_iter()
        .filter_map(|path| {
            let extension = path.extension()?.to_str()?.to_ascii_lowercase();
            let stem = path.file_stem()?.to_string_lossy().into_owned();
            let wanted = EXTENSIONS.contains(&extension.as_str())
                && !stem.starts_with('.')
                && (numbering != Numbering::KittiStereo || is_kitti_stereo(&stem));
            (wanted && seen.insert(stem.clone())).then(|| Named {
                number: number_of(&stem),
                stem,
                path,
            })
        })
        .collect();
    found.sort_by(|a, b| natural(&a.stem, &b.stem));
    Ok(found)
}

/// `NNNNNN_10`.
pub(super) fn is_kitti_stereo(stem: &str) -> bool {
    stem.strip_suffix("_10")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}

#[derive(PartialEq, Eq)]
struct Key(String);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        natural(&self.0, &other.0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Pairs the pictures of two folders: by equal stem; where no stem is in both folders, by equal
/// number; where that gives no pair either and the folders hold equally many, in their order. A
/// picture without partner is a frame too, which will be found missing.
pub(super) fn join(
    left: &Path,
    lefts: Vec<Named>,
    right: &Path,
    rights: Option<Vec<Named>>,
    numbering: Numbering,
) -> Vec<Listed> {
    let stereo = rights.is_some();
    let rights = rights.unwrap_or_default();
    let keys = |of: &dyn Fn(usize, &Named) -> Option<String>| -> Option<[Vec<String>; 2]> {
        let all = |list: &[Named]| -> Option<Vec<String>> {
            let keys: Option<Vec<_>> = list.iter().enumerate().map(|(i, n)| of(i, n)).collect();
            let distinct = keys.as_ref()?.iter().collect::<HashSet<_>>().len();
            keys.filter(|k| k.len() == distinct)
        };
        Some([all(&lefts)?, all(&rights)?])
    };
    let common = |k: &[Vec<String>; 2]| {
        let right: HashSet<_> = k[1].iter().collect();
        k[0].iter().any(|key| right.contains(key))
    };
    let stems = || keys(&|_, n| Some(n.stem.clone()));
    let chosen = if stereo {
        stems()
            .filter(common)
            .or_else(|| keys(&|_, n| n.number.map(|n| n.to_string())).filter(common))
            .or_else(|| keys(&|i, _| Some(i.to_string())).filter(|_| lefts.len() == rights.len()))
            .or_else(stems)
    } else {
        stems()
    };
    let [left_keys, right_keys] = chosen.unwrap_or_default();
    let mut slots: BTreeMap<Key, (Option<Named>, Option<Named>)> = BTreeMap::new();
    for (key, named) in left_keys.into_iter().zip(lefts) {
        slots.entry(Key(key)).or_default().0 = Some(named);
    }
    for (key, named) in right_keys.into_iter().zip(rights) {
        slots.entry(Key(key)).or_default().1 = Some(named);
    }
    let partner = |dir: &Path, of: &Option<Named>| {
        let name = of.as_ref().and_then(|n| n.path.file_name());
        dir.join(name.unwrap_or_default())
    };
    let mut sample = None;
    let mut numbered = true;
    let listed: Vec<Listed> = slots
        .into_values()
        .map(|(l, r)| {
            let any = l.as_ref().or(r.as_ref());
            numbered &= any.is_some_and(|n| n.stem.bytes().all(|c| c.is_ascii_digit()));
            if sample.is_none() {
                sample = any.cloned();
            }
            Listed {
                number: any.and_then(|n| n.number),
                left: l
                    .as_ref()
                    .map_or_else(|| partner(left, &r), |n| n.path.clone()),
                right: stereo.then(|| {
                    r.as_ref()
                        .map_or_else(|| partner(right, &l), |n| n.path.clone())
                }),
            }
        })
        .collect();
    match sample {
        Some(sample) if numbered && numbering == Numbering::Consecutive => {
            with_holes(listed, &sample, left, stereo.then_some(right))
        }
        _ => listed,
    }
}

/// The step between neighbouring numbers of consecutive frames, when the numbers are such: the
/// smallest difference, provided that all differences are multiples of it and there are not more
/// holes than pictures. Else the numbers are names only (time stamps, a selection).
pub(super) fn step_of(numbers: &[u64]) -> Option<u64> {
    let differences = || numbers.windows(2).map(|w| w[1].saturating_sub(w[0]));
    let step = differences().min().filter(|&step| step > 0)?;
    if differences().any(|d| d % step != 0) {
        return None;
    }
    let slots = (numbers.last()? - numbers.first()?) / step + 1;
    (slots <= 2 * numbers.len() as u64).then_some(step)
}

fn with_holes(
    listed: Vec<Listed>,
    sample: &Named,
    left: &Path,
    right: Option<&Path>,
) -> Vec<Listed> {
    let numbers: Vec<u64> = listed.iter().filter_map(|l| l.number).collect();
    let step = step_of(&numbers).filter(|_| numbers.len() == listed.len());
    let Some(step) = step else { return listed };
    let digits = sample.stem.len();
    let extension = sample
        .path
        .extension()
        .unwrap_or_default()
        .to_string_lossy();
    let mut all = Vec::with_capacity(listed.len());
    let mut expected = numbers[0];
    for frame in listed {
        while Some(expected) < frame.number {
            let name = format!("{expected:0digits$}.{extension}");
            all.push(Listed {
                number: Some(expected),
                left: left.join(&name),
                right: right.map(|dir| dir.join(&name)),
            });
            expected += step;
        }
        all.push(frame);
        expected = expected.saturating_add(step);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names() {
        for (stem, number) in [
            ("000013_10", Some(13)),
            ("000000", Some(0)),
            ("ap_000_29-02-2016_09-00-09_000002", Some(2)),
            ("left07", Some(7)),
            ("aloeL", None),
            ("", None),
            ("bild7ä", None),
            ("ä7", Some(7)),
            ("1403715273262142976", Some(1_403_715_273_262_142_976)),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(number_of(stem), number, "{stem}");
        }
    }

    #[test]
    fn natural_order() {
        let mut names = ["b2", "10", "a10", "9", "a9", "009", "a", "b02x"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["009", "9", "10", "a", "a9", "a10", "b2", "b02x"]);
    }

    #[test]
    fn holes_only_where_numbers_count() {
        assert_eq!(step_of(&[0, 1, 2, 5]), Some(1));
        assert_eq!(step_of(&[0, 5, 10, 20]), Some(5));
        assert_eq!(step_of(&[7]), None);
        assert_eq!(step_of(&[0, 2, 5]), None);
        // More holes than pictures: a selection.
        assert_eq!(step_of(&[0, 1, 100]), None);
        assert_eq!(step_of(&[0, u64::MAX]), Some(u64::MAX));
    }
}
