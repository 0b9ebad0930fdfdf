//! What the tests share.
use std::path::PathBuf;

/// A folder of real input beside the checkout, or at `ROADLOOP_DATA`. `None`, said aloud, where
/// there is none: the test then has nothing to judge.
pub fn data(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ROADLOOP_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("ROADLOOP_REQUIRE_DATA").is_none(),
        "no {name} in {}, and ROADLOOP_REQUIRE_DATA is set",
        root.display()
    );
    eprintln!("SKIPPED: no {name} in {}", root.display());
    None
}
