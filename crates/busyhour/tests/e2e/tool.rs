//! Programs of others that the tests use.

use std::path::PathBuf;

/// Where the program is. `None` when it is not installed: the test is to be skipped, which is said. Where CI is set, that
/// is an error: a test that is never run proves nothing.
pub(crate) fn find(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.into_iter().map(|dir| dir.join(program)).find(|file| file.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "{program} is missing: scripts/test installs it, or apt-get install {package}"
        );
        eprintln!("SKIPPED: {program} is not installed (Debian package {package}; scripts/test installs it)");
    }
    found
}

/// Ends the test early, saying why, when one of the programs is missing.
macro_rules! needs {
    ($($program:literal of $package:literal),+) => {
        if [$($crate::tool::find($program, $package)),+].iter().any(Option::is_none) {
            return;
        }
    };
}
pub(crate) use needs;
