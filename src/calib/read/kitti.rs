//! KITTI text files: labelled rows `KEY: numbers`, or bare rows of twelve.
use std::path::Path;

use super::{
    checks::{self, At},
    yaml::{excerpt, scalar},
};
use crate::{
    calib::{CalibError, Format, Pair, Rig},
    frame::Size,
};

/// Whether the text is one of these: the first line with content is a row of numbers, or a line
/// begins with the label of a projection matrix and a number.
pub(super) fn is_kitti(text: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.split_whitespace().count() > 1 && all_numbers(line))
        || text.lines().any(|line| {
            line.split_once(':').is_some_and(|(key, rest)| {
                is_projection(key.trim())
                    && rest
                        .split_whitespace()
                        .next()
                        .is_some_and(|n| scalar(n).is_ok())
            })
        })
}

fn is_projection(key: &str) -> bool {
    let digits = key.strip_prefix("P_rect_").or(key.strip_prefix('P'));
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

fn all_numbers(line: &str) -> bool {
    line.split_whitespace().all(|word| scalar(word).is_ok())
}

pub(super) fn read(file: &Path, text: &str, pair: Pair) -> Result<Rig, CalibError> {
    let lines = || {
        text.lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    };
    if lines().next().is_some_and(|(_, line)| all_numbers(line)) {
        let rows = lines()
            .map(|(n, line)| row(file, format!("row {n}"), n, line))
            .collect::<Result<Vec<_>, _>>()?;
        return bare(file, &rows, pair);
    }
    let find = |key: &str| {
        lines().find_map(|(n, line)| {
            let (name, rest) = line.split_once(':')?;
            (name.trim() == key).then_some((n, rest))
        })
    };
    let cam_to_cam = lines().any(|(_, line)| line.starts_with("P_rect_"));
    let name = |n: &str| match cam_to_cam {
        true => format!("P_rect_0{n}"),
        false => format!("P{n}"),
    };
    let numbers = pair.choose(["0", "1"], ["2", "3"], |n| find(&name(n)).is_some());
    let names = numbers.map(name);
    let matrix = |name: &String| -> Result<Row<'_>, CalibError> {
        let (n, rest) = find(name).ok_or_else(|| {
            CalibError::missing(file, name.clone(), "a row of 12 numbers (3 x 4)")
        })?;
        row(file, name.clone(), n, rest)
    };
    let [left, right] = [matrix(&names[0])?, matrix(&names[1])?];
    let mut sizes = [None, None];
    if cam_to_cam {
        for (size, number) in sizes.iter_mut().zip(numbers) {
            let key = format!("S_rect_0{number}");
            if let Some((n, rest)) = find(&key) {
                *size = Some(image_size(file, format!("{key} (line {n})"), rest)?);
            }
            // The images are rectified already, so this one is only looked at.
            let key = format!("R_rect_0{number}");
            if let Some((n, rest)) = find(&key) {
                let at = At {
                    file,
                    key: format!("{key} (line {n})"),
                };
                checks::rotation(&at, &fixed::<9>(&at, rest)?)?;
            }
        }
    }
    let size = checks::common_size(&right.at, sizes[0], sizes[1])?;
    let format = if cam_to_cam {
        Format::KittiCamToCam
    } else {
        Format::KittiProjections
    };
    let p = checks::projections([&left.at, &right.at], [&left.p, &right.p], 1.0)?;
    Ok(checks::rectified_rig(&p, size, format))
}

/// Two rows are the pair, whichever cameras they are; of four, `pair` chooses.
fn bare(file: &Path, rows: &[Row<'_>], pair: Pair) -> Result<Rig, CalibError> {
    let (left, right) = match (rows, pair) {
        ([left, right], _) | ([left, right, _, _], Pair::First) => (left, right),
        ([_, _, left, right], Pair::Second) => (left, right),
        _ => {
            return Err(CalibError::value(
                file,
                "rows of 12 numbers",
                rows.len().to_string(),
                "2 (P0 and P1) or 4",
            ));
        }
    };
    let p = checks::projections([&left.at, &right.at], [&left.p, &right.p], 1.0)?;
    Ok(checks::rectified_rig(&p, None, Format::KittiProjections))
}

struct Row<'a> {
    at: At<'a>,
    p: [f64; 12],
}

fn row<'a>(file: &'a Path, name: String, line: usize, text: &str) -> Result<Row<'a>, CalibError> {
    let key = if name.starts_with("row") {
        format!("line {line}")
    } else {
        format!("{name} (line {line})")
    };
    let at = At { file, key };
    let p = fixed::<12>(&at, text)?;
    Ok(Row { at, p })
}

fn fixed<const N: usize>(at: &At<'_>, text: &str) -> Result<[f64; N], CalibError> {
    let mut out = [0.0; N];
    let count = text.split_whitespace().count();
    if count != N {
        return Err(at.error(format!("{count} numbers"), format!("{N} numbers")));
    }
    for (out, word) in out.iter_mut().zip(text.split_whitespace()) {
        *out = scalar(word).map_err(|_| at.error(excerpt(word), "finite numbers"))?;
    }
    Ok(out)
}

fn image_size(file: &Path, key: String, text: &str) -> Result<Size, CalibError> {
    let at = At { file, key };
    let [w, h] = fixed::<2>(&at, text)?;
    size_of(&at, [w, h])
}

/// Width and height as whole numbers from 1 to 65,535.
pub(super) fn size_of(at: &At<'_>, [w, h]: [f64; 2]) -> Result<Size, CalibError> {
    let side = |v: f64| v.fract() == 0.0 && (1.0..=65_535.0).contains(&v);
    (side(w) && side(h))
        .then(|| Size::new(w as usize, h as usize))
        .ok_or_else(|| at.error(format!("{w} x {h}"), "whole pixels from 1 to 65535"))
}
