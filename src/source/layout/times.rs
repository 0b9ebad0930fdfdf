//! Tables of times.
use std::path::{Path, PathBuf};

use super::Times;
use crate::{files, source::SourceError};

pub(in crate::source) fn read(path: &Path) -> Result<String, SourceError> {
    // Lossy: whatever is in the file, the line that can't be read will be named.
    files::read(path, files::MAX_TIMES)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| SourceError::Io {
            path: path.into(),
            error,
        })
}

fn wrong(path: &Path, line: usize, text: String) -> SourceError {
    SourceError::Table {
        path: path.into(),
        line: Some(line),
        text,
    }
}

/// `times.txt` of KITTI odometry: seconds, a line a frame.
pub(super) fn seconds_if_there(path: &Path, numbers: &[u64]) -> Result<Times, SourceError> {
    lines_if_there(path, numbers, "times.txt", |text| {
        let seconds: f64 = text.parse().ok()?;
        (0.0..1.8e10)
            .contains(&seconds)
            .then(|| (seconds * 1e9).round() as u64)
    })
}

/// `timestamps.txt` of KITTI raw: `2011-09-26 13:02:25.964389445`, a line a frame, taken as UTC.
pub(super) fn dates_if_there(path: &Path, numbers: &[u64]) -> Result<Times, SourceError> {
    lines_if_there(path, numbers, "timestamps.txt", nanoseconds_of_date)
}

/// One stamp a line. Where there are as many lines as frames (given by their numbers), in their
/// order; else the line of the frame's number, counted from 0.
fn lines_if_there(
    path: &Path,
    numbers: &[u64],
    name: &'static str,
    parse: impl Fn(&str) -> Option<u64>,
) -> Result<Times, SourceError> {
    if !files::present(path) {
        return Ok(Times::Rate);
    }
    let text = read(path)?;
    let mut stamps: Vec<u64> = Vec::new();
    for (n, line) in text.trim_end().lines().enumerate() {
        let line = line.trim();
        let stamp = parse(line).ok_or_else(|| {
            let text = format!("{}, expected a time", files::quoted(line));
            wrong(path, n + 1, text)
        })?;
        if stamps.last().is_some_and(|&before| stamp <= before) {
            let text = format!("{line:?} is not later than the line before");
            return Err(wrong(path, n + 1, text));
        }
        stamps.push(stamp);
    }
    if stamps.len() == numbers.len() {
        return Ok(Times::Stamps(stamps, name));
    }
    let of_number = |number: &u64| stamps.get(usize::try_from(*number).ok()?).copied();
    match numbers.iter().map(of_number).collect() {
        Some(stamps) => Ok(Times::Stamps(stamps, name)),
        None => Err(SourceError::Table {
            path: path.into(),
            line: None,
            text: format!(
                "{} times for {} frames with numbers up to {}",
                stamps.len(),
                numbers.len(),
                numbers.last().unwrap_or(&0)
            ),
        }),
    }
}

/// `data.csv` of EuRoC: `stamp [ns],file name`.
pub(super) fn euroc_table(path: &Path, data: &Path) -> Result<Vec<(u64, PathBuf)>, SourceError> {
    let mut rows: Vec<(u64, PathBuf)> = Vec::new();
    for (n, line) in read(path)?.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let row = line.split_once(',').and_then(|(stamp, name)| {
            let name = name.trim();
            let plain = !name.is_empty() && !name.contains(['/', '\\', ',']);
            Some((stamp.trim().parse().ok()?, data.join(name))).filter(|_| plain)
        });
        let row = row.ok_or_else(|| {
            wrong(
                path,
                n + 1,
                format!(
                    "{}, expected \"stamp in ns,file name\"",
                    files::quoted(line)
                ),
            )
        })?;
        if rows.last().is_some_and(|before| row.0 <= before.0) {
            let text = format!("{} is not later than the line before", row.0);
            return Err(wrong(path, n + 1, text));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Nanoseconds since 1970 of `YYYY-MM-DD hh:mm:ss.fraction`.
fn nanoseconds_of_date(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let all: Option<Vec<u64>> = text
            .split(by)
            .map(|n| {
                n.parse()
                    .ok()
                    .filter(|_| n.bytes().all(|c| c.is_ascii_digit()))
            })
            .collect();
        all?.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    let fits = (1970..2500).contains(&year) && hour < 24 && minute < 60 && second <= 60;
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let february = if leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = usize::try_from(month).ok()?.checked_sub(1)?;
    let in_month = (1..=*months.get(month)?).contains(&day);
    let digits = fraction.get(..fraction.len().min(9))?;
    if !fits || !in_month || digits.is_empty() || !fraction.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let days = (1970..year)
        .map(|y| if leap(y) { 366 } else { 365 })
        .sum::<u64>()
        + months[..month].iter().sum::<u64>()
        + (day - 1);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    let nanoseconds = digits.parse::<u64>().ok()? * 10u64.pow(9 - digits.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let ns = nanoseconds_of_date("2011-09-26 13:02:25.964389445");
        assert_eq!(ns, Some(1_317_042_145_964_389_445));
        assert_eq!(nanoseconds_of_date("1970-01-01 00:00:00"), Some(0));
        assert_eq!(
            nanoseconds_of_date("2000-03-01T00:00:00.5"),
            Some(951_868_800_500_000_000)
        );
        for bad in [
            "",
            "2011-09-26",
            "2011-02-29 00:00:00",
            "2011-13-01 00:00:00",
            "2011-00-01 00:00:00",
            "2011-01-01 24:00:00",
            "2011-01-01 00:00:00.",
            "2011-01-01 00:00:00.12345678ä",
            "2011-01-01 00:00:+1.0",
        ] {
            assert_eq!(nanoseconds_of_date(bad), None, "{bad}");
        }
    }
}
