//! Input files: regular ones only, of a bounded size. A pipe or a device given as a file would
//! be waited for, or read, without end.
use std::{
    fs::{self, File},
    io::{self, Read as _, Take},
    path::Path,
};

/// Largest configuration, calibration or table of classes, bytes.
pub(crate) const MAX_SETTINGS: u64 = 1 << 20;

/// Largest summary or list of points, bytes.
pub(crate) const MAX_LIST: u64 = 1 << 26;

/// Largest table of times, a line or some a frame, bytes: days at 30 Hz.
pub(crate) const MAX_TIMES: u64 = 1 << 30;

/// Largest table of stixels, bytes; in memory it takes about as much.
pub(crate) const MAX_STIXELS: u64 = 1 << 32;

/// The folder that a file to be written would lie in, where there is no such folder.
pub(crate) fn missing_folder(file: &Path) -> Option<&Path> {
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    folder.filter(|f| !f.is_dir())
}

/// Why a file can't be written at this place, as far as can be told before; `None` where nothing
/// speaks against it.
pub(crate) fn unwritable(file: &Path) -> Option<String> {
    if let Some(folder) = missing_folder(file) {
        return Some(format!("{} is no folder", folder.display()));
    }
    if file.is_dir() || file.as_os_str().is_empty() {
        return Some("it is a folder, expected the name of a file".into());
    }
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let needed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let refused = rustix::fs::access(folder, needed).err()?;
    let refused = io::Error::from(refused);
    Some(format!(
        "in {} no file can be made: {refused}",
        folder.display()
    ))
}

/// Opens a regular file of at most `most` bytes; no more are read of one that grows.
///
/// # Errors
/// As the file system has them, and those of [`is_data`].
pub(crate) fn open(path: &Path, most: u64) -> io::Result<Take<File>> {
    // Before it is opened: to open a pipe may wait for ever.
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        let found = if meta.is_dir() {
            "a folder"
        } else {
            "a pipe or device"
        };
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("not a file but {found}; expected a regular file"),
        ));
    }
    if meta.len() > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{} bytes, expected at most {most}", meta.len()),
        ));
    }
    Ok(File::open(path)?.take(most))
}

/// Reads a whole file that [`open`] accepts.
///
/// # Errors
/// As [`open`].
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, most)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read`], for text.
///
/// # Errors
/// As [`open`], and where it is no UTF-8.
pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path, most)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Whether there is a file, in a state to be read or not: a link to nothing counts.
pub(crate) fn present(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Whether an error says that something is there and is no such file, rather than that nothing
/// is there.
pub(crate) fn is_data(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidData, InvalidInput, IsADirectory};
    matches!(
        error.kind(),
        FileTooLarge | InvalidData | InvalidInput | IsADirectory
    )
}

/// A line as an error quotes it: in quotes, its first 80 characters.
pub(crate) fn quoted(line: &str) -> String {
    const MOST: usize = 80;
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}... ({} bytes)", &line[..end], line.len()),
        None => format!("{line:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_quoted_in_part() {
        assert_eq!(quoted("1,2"), "\"1,2\"");
        let long = "\u{e9}".repeat(100);
        let quoted = quoted(&long);
        assert_eq!(
            quoted,
            format!("\"{}\"... (200 bytes)", "\u{e9}".repeat(80))
        );
    }
}
