//! Writing several files so that either all of them appear or none does.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a report could not be written. Nothing of it was left behind.
#[derive(Debug)]
pub struct WriteError {
    /// The file or directory.
    pub path: PathBuf,
    /// What the operating system said.
    pub error: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let kind = self.error.kind();
        let hint = if [StorageFull, QuotaExceeded].contains(&kind) {
            "Make room on the disk, or choose another directory for the results."
        } else if [PermissionDenied, ReadOnlyFilesystem].contains(&kind) {
            "Choose a directory for the results that you may write to."
        } else {
            "Choose another directory for the results."
        };
        write!(f, "cannot write the report: {}: {}. {hint}", self.path.display(), self.error)
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Writes all `files` (name and content) into `dir`, which is made when it is missing. The files get their names only
/// when all of them are written to the disk; the last of the list gets its name last, so that its presence tells that
/// the others are complete.
pub(super) fn write_all(dir: &Path, files: &[(&str, Vec<u8>)]) -> Result<(), WriteError> {
    write_all_with(dir, files, |path| File::options().write(true).create_new(true).open(path))
}

fn write_all_with(
    dir: &Path,
    files: &[(&str, Vec<u8>)],
    open: impl Fn(&Path) -> io::Result<File>,
) -> Result<(), WriteError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| WriteError { path, error }
    };
    fs::create_dir_all(dir).map_err(at(dir))?;
    let partial = |name: &str| dir.join(format!(".{name}.{}.partial", std::process::id()));
    let written = files.iter().try_for_each(|(name, content)| {
        let path = partial(name);
        let mut file = open(&path).map_err(at(&dir.join(name)))?;
        file.write_all(content).and_then(|()| sync(&file)).map_err(at(&dir.join(name)))
    });
    let named = written.and_then(|()| {
        files.iter().try_for_each(|(name, _)| {
            let to = dir.join(name);
            fs::rename(partial(name), &to).map_err(at(&to))
        })
    });
    if named.is_err() {
        for (name, _) in files {
            // What was not written cannot be removed; the error that counts is the first one.
            let _ = fs::remove_file(partial(name));
        }
    }
    named
}

/// A full disk may show only when the content is forced out. Devices that cannot do that are no disk.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut all: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn all_files_appear() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        write_all(&inner, &[("x", b"1".to_vec()), ("y", b"2".to_vec())]).unwrap();
        write_all(&inner, &[("x", b"3".to_vec())]).unwrap();
        assert_eq!(names(&inner), ["x", "y"]);
        assert_eq!(fs::read(inner.join("x")).unwrap(), b"3");
    }

    #[test]
    fn a_full_disk_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            let full = path.to_string_lossy().contains(".y.");
            let to = if full { Path::new("/dev/full") } else { path };
            File::options().write(true).create(!full).truncate(false).open(to)
        };
        let files = [("x", b"1".to_vec()), ("y", b"2".to_vec()), ("z", b"3".to_vec())];
        let error = write_all_with(dir.path(), &files, open).unwrap_err();
        assert_eq!(error.error.kind(), io::ErrorKind::StorageFull);
        assert!(error.path.ends_with("y"));
        assert!(error.to_string().contains("Make room on the disk"), "{error}");
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = write_all(&file.join("results"), &[("x", Vec::new())]).unwrap_err();
        assert!(error.to_string().contains("file/results"), "{error}");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_name_that_is_taken_by_a_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("y")).unwrap();
        let error = write_all(dir.path(), &[("x", Vec::new()), ("y", Vec::new())]).unwrap_err();
        assert!(error.path.ends_with("y"));
        assert_eq!(names(dir.path()), ["x", "y"]);
    }
}
