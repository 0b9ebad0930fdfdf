//! A camera's name in texts.
use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::Which;

/// What a camera is for, the device that the configuration names, and what that was when the
/// text was made: `left (/dev/v4l/by-path/platform-a-video-index0, which is /dev/video2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CameraName {
    /// What it is for.
    pub which: Which,
    /// As configured.
    pub device: PathBuf,
    /// What that leads to; `None` where nothing is there.
    pub node: Option<PathBuf>,
}

impl CameraName {
    /// Looks up what the device is now.
    pub fn of(which: Which, device: &Path) -> Self {
        Self {
            which,
            device: device.into(),
            node: std::fs::canonicalize(device).ok(),
        }
    }
}

impl fmt::Display for CameraName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            which,
            device,
            node,
        } = self;
        let device = device.display();
        match node {
            None => write!(f, "{which} ({device}, where nothing is)"),
            Some(node) if *node == self.device => write!(f, "{which} ({device})"),
            Some(node) => write!(f, "{which} ({device}, which is {})", node.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_link_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (node, link) = (dir.join("video7"), dir.join("by-path-0"));
        let text = |path: &Path| CameraName::of(Which::Right, path).to_string();
        let (n, l) = (node.display(), link.display());
        assert_eq!(text(&link), format!("right ({l}, where nothing is)"));
        std::fs::write(&node, "").unwrap();
        std::os::unix::fs::symlink(&node, &link).unwrap();
        assert_eq!(text(&link), format!("right ({l}, which is {n})"));
        assert_eq!(text(&node), format!("right ({n})"));
    }
}
