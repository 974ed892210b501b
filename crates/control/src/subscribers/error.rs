//! Why the subscriber database cannot do what was asked, in sentences that say what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::{BadInput, Domain, UserName};

/// What went wrong with the subscriber database, sorted by whose fault it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The user to be added is there already, and replacing was not asked for.
    UserExists {
        /// The user.
        user: UserName,
        /// The user's realm.
        realm: Domain,
    },
    /// A user to be removed is not there.
    UserUnknown {
        /// The user.
        user: UserName,
        /// The realm in which the user was looked for.
        realm: Domain,
    },
    /// What was to be stored is not well formed.
    BadInput(BadInput),
    /// The database was written by a version of Busyhour that comes after this one.
    Newer {
        /// The database file.
        path: PathBuf,
        /// The schema version in the file.
        found: i64,
        /// The highest schema version that this program knows.
        known: i64,
    },
    /// The file is no SQLite database, or that of another application.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is Busyhour's database, but its content contradicts itself.
    Damaged {
        /// The database file.
        path: PathBuf,
        /// What is wrong in it.
        detail: String,
    },
    /// The operating system refuses to open or to write the file.
    Inaccessible {
        /// The database file.
        path: PathBuf,
        /// What the operating system or SQLite says.
        detail: String,
    },
    /// Another process kept the database locked for longer than is waited for it.
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// The disk is full, or the quota is used up.
    Full {
        /// The database file.
        path: PathBuf,
    },
    /// SQLite failed in a way that has no better name.
    Failed {
        /// The database file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Sorts what SQLite reported about the database at `path`.
    pub(super) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = source.to_string();
        let Some(code) = source.sqlite_error_code() else {
            // Everything that is not SQLite's own code comes from a row that does not have the shape of the schema.
            return StoreError::Damaged { path, detail };
        };
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the enum is open, and the rest are mistakes of this crate"
        )]
        match code {
            ErrorCode::NotADatabase => StoreError::Foreign { path },
            ErrorCode::DatabaseCorrupt | ErrorCode::TypeMismatch => StoreError::Damaged { path, detail },
            ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::SystemIoFailure
            | ErrorCode::NoLargeFileSupport
            | ErrorCode::FileLockingProtocolFailed => StoreError::Inaccessible { path, detail },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { path },
            ErrorCode::DiskFull => StoreError::Full { path },
            _ => StoreError::Failed { path, source },
        }
    }
}

impl From<BadInput> for StoreError {
    fn from(input: BadInput) -> Self {
        StoreError::BadInput(input)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::UserExists { user, realm } => write!(
                f,
                "the user {user} of {realm} exists already: add --replace to give them the new password"
            ),
            StoreError::UserUnknown { user, realm } => write!(
                f,
                "there is no user {user} of {realm}, so nothing was removed: `busyhour user list` shows who there is"
            ),
            StoreError::BadInput(input) => input.fmt(f),
            StoreError::Newer { path, found, known } => write!(
                f,
                "{} was written by a newer Busyhour (schema {found}; this one knows schemas up to {known}): run that version, or choose another directory with --data",
                path.display()
            ),
            StoreError::Foreign { path } => write!(
                f,
                "{} is not a Busyhour subscriber database: move it out of the way, or choose another directory with --data",
                path.display()
            ),
            StoreError::Damaged { path, detail } => write!(
                f,
                "the subscriber database {} is damaged ({detail}): restore it from a backup, or move it away and add the users again",
                path.display()
            ),
            StoreError::Inaccessible { path, detail } => write!(
                f,
                "cannot use the subscriber database {} ({detail}): give this user read and write access to the file and its directory, or choose another directory with --data",
                path.display()
            ),
            StoreError::Busy { path } => write!(
                f,
                "another process keeps the subscriber database {} locked: try again, or find that process with `fuser {}`",
                path.display(),
                path.display()
            ),
            StoreError::Full { path } => write!(
                f,
                "no space left for the subscriber database {}: free some, then repeat the command",
                path.display()
            ),
            StoreError::Failed { path, source } => {
                write!(f, "the subscriber database {} failed: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Failed { source, .. } => Some(source),
            StoreError::BadInput(input) => Some(input),
            StoreError::UserExists { .. }
            | StoreError::UserUnknown { .. }
            | StoreError::Newer { .. }
            | StoreError::Foreign { .. }
            | StoreError::Damaged { .. }
            | StoreError::Inaccessible { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. } => None,
        }
    }
}
