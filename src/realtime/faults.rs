//! Page faults, as the kernel counts them in `/proc`.
use std::fs;

/// Page faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFaults {
    /// Without reading from disk.
    pub minor: u64,
    /// With.
    pub major: u64,
}

/// Those of a thread of this process by its number; of the whole process with `None`. `None`
/// where the kernel does not tell.
pub fn page_faults(thread: Option<u32>) -> Option<PageFaults> {
    let path = match thread {
        Some(thread) => format!("/proc/self/task/{thread}/stat"),
        None => "/proc/self/stat".into(),
    };
    of_stat(&fs::read_to_string(path).ok()?)
}

/// Fields 10 and 12 of proc(5)'s `stat`, counted after the name, which may hold anything.
fn of_stat(stat: &str) -> Option<PageFaults> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(7);
    let minor = fields.next()?.parse().ok()?;
    let major = fields.nth(1)?.parse().ok()?;
    Some(PageFaults { minor, major })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 777 8 999 10 11 12 13\n";
        let faults = PageFaults {
            minor: 777,
            major: 999,
        };
        assert_eq!(of_stat(stat), Some(faults));
        assert_eq!(of_stat(""), None);
        assert_eq!(of_stat("1 (x) S 1"), None);
    }

    #[test]
    fn a_thread_has_no_more_than_its_process() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mine = page_faults(Some(thread)).unwrap();
        let all = page_faults(None).unwrap();
        assert!(all.minor >= mine.minor);
    }
}
