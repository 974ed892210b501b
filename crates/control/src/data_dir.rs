//! The data directory of a cluster: creating it, and locking it against a second cluster.
//!
//! The lock is the operating system's (`flock` on `<data>/lock`), so it ends with the process that holds it, however that
//! process ends; the file itself stays and means nothing. It guards the directory against two clusters, not against
//! commands such as `user add`, which work on the database while a cluster runs.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A directory that exists and holds what one cluster keeps between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// The directory at `path`, created (with its parents, mode 0700) when there is none. An existing directory keeps its mode.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let path = path.into();
        match DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Ok(()) => Ok(DataDir { path }),
            Err(_) if path.exists() && !path.is_dir() => Err(DataDirError::NotADirectory { path }),
            Err(source) => Err(DataDirError::Inaccessible { path, source }),
        }
    }

    /// The directory at `path` that a cluster or `user add` has been using: nothing is created, so that a mistyped path is
    /// an error and not an empty cluster.
    pub fn existing(path: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let data = DataDir { path: path.into() };
        match fs::metadata(data.subscribers_path()) {
            Ok(_) => Ok(data),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(DataDirError::Empty { path: data.path })
            }
            Err(source) => Err(DataDirError::Inaccessible { path: data.subscribers_path(), source }),
        }
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The subscriber database in this directory.
    pub fn subscribers_path(&self) -> PathBuf {
        self.path.join("subscribers.db")
    }

    /// Takes the directory for this process alone, until the returned lock is dropped or the process ends.
    ///
    /// # Errors
    /// [`DataDirError::InUse`] at once, without waiting, when another process (or another lock in this one) has it.
    pub fn lock_exclusive(&self) -> Result<DirLock, DataDirError> {
        let path = self.path.join("lock");
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = open.map_err(|source| DataDirError::Inaccessible { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder_pid = read_pid(&mut file);
                return Err(DataDirError::InUse { path: self.path.clone(), holder_pid });
            }
            Err(TryLockError::Error(source)) => return Err(DataDirError::Inaccessible { path, source }),
        }
        write_pid(&mut file).map_err(|source| DataDirError::Inaccessible { path, source })?;
        Ok(DirLock { file })
    }
}

/// The right to be the one cluster of a data directory; given back when it is dropped.
#[derive(Debug)]
#[must_use = "the directory is free again as soon as the lock is dropped"]
pub struct DirLock {
    file: File,
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing the file is what frees the directory. An emptied file spares the next reader a process id of the past;
        // when that fails, the lock is free all the same.
        let _ = self.file.set_len(0);
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The process id in the lock file; `None` in the moment between another process's lock and its writing.
fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim_end().parse().ok()
}

/// Why a data directory cannot be used. Its text is one sentence that says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum DataDirError {
    /// Another process runs a cluster on this directory.
    InUse {
        /// The data directory.
        path: PathBuf,
        /// The process that has it, when it is known.
        holder_pid: Option<u32>,
    },
    /// There is something at the path that is not a directory.
    NotADirectory {
        /// What was meant to be the data directory.
        path: PathBuf,
    },
    /// There is no subscriber database at the path, nor perhaps a directory.
    Empty {
        /// What was meant to be the data directory.
        path: PathBuf,
    },
    /// The operating system refuses the directory or the lock file in it.
    Inaccessible {
        /// The directory or file that is refused.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

impl fmt::Display for DataDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataDirError::InUse { path, holder_pid } => {
                write!(f, "the data directory {} is in use by ", path.display())?;
                match holder_pid {
                    Some(pid) => write!(f, "process {pid}")?,
                    None => write!(f, "another process")?,
                }
                write!(f, ": stop that process, or choose another directory with --data")
            }
            DataDirError::NotADirectory { path } => {
                write!(f, "{} is not a directory: choose another data directory with --data", path.display())
            }
            DataDirError::Empty { path } => write!(
                f,
                "there are no subscribers in {} yet: add one with `busyhour user add`, or name another data directory with --data",
                path.display()
            ),
            DataDirError::Inaccessible { path, source } => write!(
                f,
                "cannot use {}: {source}: give this user read and write access to it, or choose another data directory with --data",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DataDirError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DataDirError::Inaccessible { source, .. } => Some(source),
            DataDirError::InUse { .. } | DataDirError::NotADirectory { .. } | DataDirError::Empty { .. } => {
                None
            }
        }
    }
}

/// Creates `path` as an empty file that only its owner may read, unless it exists.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::metadata(path).map(drop),
        made => made.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_missing_directory_is_created_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        DataDir::open(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn an_existing_directory_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o750)).unwrap();
        DataDir::open(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o750);
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        fs::write(&path, "").unwrap();
        let message = DataDir::open(&path).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("{} is not a directory: choose another data directory with --data", path.display())
        );
    }

    #[test]
    fn looking_creates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("typo");
        let message = DataDir::existing(&path).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("there are no subscribers in {} yet", path.display())),
            "{message}"
        );
        assert!(!path.exists());
        let data = DataDir::open(&path).unwrap();
        assert!(DataDir::existing(&path).is_err());
        crate::subscribers::SubscriberStore::open(&data).unwrap();
        assert_eq!(DataDir::existing(&path).unwrap(), data);
    }

    #[test]
    fn a_directory_below_a_file_is_refused_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let message = DataDir::open(dir.path().join("file/data")).unwrap_err().to_string();
        assert!(message.contains("choose another data directory with --data"), "{message}");
    }

    #[test]
    fn the_second_lock_is_refused_and_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(dir.path()).unwrap();
        let lock = data.lock_exclusive().unwrap();
        let message = data.lock_exclusive().unwrap_err().to_string();
        let expected = format!(
            "the data directory {} is in use by process {}: stop that process, or choose another directory with --data",
            dir.path().display(),
            std::process::id()
        );
        assert_eq!(message, expected);
        drop(lock);
        let _lock = data.lock_exclusive().unwrap();
    }

    #[test]
    fn a_process_id_of_the_past_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("lock"), "999999999999\n").unwrap();
        let _lock = DataDir::open(dir.path()).unwrap().lock_exclusive().unwrap();
        let written = fs::read_to_string(dir.path().join("lock")).unwrap();
        assert_eq!(written, format!("{}\n", std::process::id()));
    }
}
