//! Log lines as systemd's journal wants them.
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
};

use log::{Level, Record};

/// Whether stderr goes to the journal: `JOURNAL_STREAM` names its device and inode.
pub fn is_journal() -> bool {
    let Ok(stderr) = fs::metadata("/proc/self/fd/2") else {
        return false;
    };
    std::env::var("JOURNAL_STREAM")
        .is_ok_and(|name| name == format!("{}:{}", stderr.dev(), stderr.ino()))
}

/// `<N>` before each line, as in `sd-daemon(3)`: 3 error, 4 warning, 6 info, 7 debug. Time and
/// program are added by the journal.
///
/// # Errors
/// As the stream has them.
pub fn format(to: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
    let priority = match record.level() {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    };
    let text = record.args().to_string();
    for line in text.lines() {
        writeln!(to, "<{priority}>{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_priority() {
        for (level, text, expected) in [
            (Level::Error, "gone", "<3>gone\n"),
            (Level::Warn, "late", "<4>late\n"),
            (Level::Info, "two\nlines", "<6>two\n<6>lines\n"),
            (Level::Debug, "x", "<7>x\n"),
        ] {
            let mut line = Vec::new();
            let args = format_args!("{text}");
            format(
                &mut line,
                &Record::builder().level(level).args(args).build(),
            )
            .unwrap();
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
    }
}
