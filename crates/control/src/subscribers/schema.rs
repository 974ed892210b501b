//! Opening the database file: what it must be, how it is created, and the pragmas that every connection runs with.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::StoreError;
use crate::data_dir::create_private;

/// Marks the file as Busyhour's (`PRAGMA application_id`): "BHsu" in ASCII.
const APPLICATION_ID: i64 = 0x4248_7375;
/// The schema that this version writes (`PRAGMA user_version`). A version that changes the tables adds one to it and
/// brings older files up to date in [`connect`].
const SCHEMA_VERSION: i64 = 1;
/// The pause between two looks at a database that another process is writing to. SQLite's own waiting doubles its pauses,
/// and then a process that writes without rest can keep another one out for ever.
const BUSY_PAUSE: Duration = Duration::from_millis(2);
/// How often a statement looks again before it gives up, after at least ten seconds.
const BUSY_TRIES_MAX: i32 = 5000;
/// How often opening is tried when another process is just then creating the same database: the change to WAL mode
/// reports a busy database at once instead of waiting.
const OPEN_TRIES_MAX: u32 = 50;
/// The pause between two tries.
const OPEN_PAUSE: Duration = Duration::from_millis(20);

const TABLES: &str = "
    CREATE TABLE subscribers (
        realm      TEXT NOT NULL,
        user       TEXT NOT NULL,
        ha1_md5    BLOB NOT NULL CHECK (length(ha1_md5) = 16),
        ha1_sha256 BLOB NOT NULL CHECK (length(ha1_sha256) = 32),
        PRIMARY KEY (realm, user)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE cluster (
        name  TEXT PRIMARY KEY,
        value BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// A connection to the database at `path`, which is created when there is none.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    create_private(path)
        .map_err(|error| StoreError::Inaccessible { path: path.to_owned(), detail: error.to_string() })?;
    let mut tries = 1;
    loop {
        match try_connect(path) {
            Err(StoreError::Busy { .. }) if tries < OPEN_TRIES_MAX => {
                tries += 1;
                std::thread::sleep(OPEN_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn try_connect(path: &Path) -> Result<Connection, StoreError> {
    let sorted = |error| StoreError::from_sqlite(path, error);
    // Neither CREATE nor URI: the file exists by now, and a path is never anything but a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(sorted)?;
    db.busy_handler(Some(wait_for_others)).map_err(sorted)?;
    // Looked at before anything is written, so that a database of somebody else's stays as it is.
    let version = check_identity(&db, path)?;
    configure(&db, path)?;
    if version == 0 {
        create_tables(&mut db, path)?;
    }
    Ok(db)
}

fn wait_for_others(tries: i32) -> bool {
    std::thread::sleep(BUSY_PAUSE);
    tries < BUSY_TRIES_MAX
}

/// The schema version of the file, 0 for an empty one.
fn check_identity(db: &Connection, path: &Path) -> Result<i64, StoreError> {
    let read = || {
        // One transaction, so that the three figures belong to the same moment while another process creates the tables.
        let look = db.unchecked_transaction()?;
        let number = |sql| look.query_row(sql, [], |row| row.get::<_, i64>(0));
        let application = number("PRAGMA application_id")?;
        let version = number("PRAGMA user_version")?;
        Ok((application, version, number("SELECT count(*) FROM sqlite_schema")?))
    };
    let (application, version, tables) = read().map_err(|error| StoreError::from_sqlite(path, error))?;
    match (application, version, tables) {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, 1..=SCHEMA_VERSION, _) => Ok(version),
        (APPLICATION_ID, found, _) if found > SCHEMA_VERSION => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION })
        }
        (APPLICATION_ID, found, _) => Err(StoreError::Damaged {
            path: path.to_owned(),
            detail: format!("its schema version is {found}"),
        }),
        _ => Err(StoreError::Foreign { path: path.to_owned() }),
    }
}

fn configure(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let sorted = |error| StoreError::from_sqlite(path, error);
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(sorted)?;
    if mode != "wal" {
        let detail =
            format!("it stays in journal mode `{mode}`; WAL needs a local file system with shared memory");
        return Err(StoreError::Inaccessible { path: path.to_owned(), detail });
    }
    // FULL syncs the log at every commit: an acknowledged user survives a power failure too, not only a killed process.
    db.pragma_update(None, "synchronous", "FULL").map_err(sorted)?;
    // Makes SQLite report a page that contradicts itself instead of reading nonsense from it.
    db.pragma_update(None, "cell_size_check", true).map_err(sorted)?;
    // A schema made by somebody else cannot call functions with side effects.
    db.pragma_update(None, "trusted_schema", false).map_err(sorted)
}

fn create_tables(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let create = |db: &mut Connection| {
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have created the tables since the look at the version; the transaction makes it one of the two.
        if change.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? == 0 {
            change.execute_batch(TABLES)?;
            change.pragma_update(None, "application_id", APPLICATION_ID)?;
            change.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        change.commit()
    };
    create(db).map_err(|error| StoreError::from_sqlite(path, error))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    fn fresh() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("subscribers.db");
        (dir, path)
    }

    #[test]
    fn the_file_is_for_its_owner_alone_and_its_log_too() {
        let (dir, path) = fresh();
        let _db = connect(&path).unwrap();
        let modes: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777)
            .collect();
        assert!(modes.len() >= 2 && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    }

    #[test]
    fn commits_are_synced_and_logged_ahead() {
        let (_dir, path) = fresh();
        let db = connect(&path).unwrap();
        let synchronous: i64 = db.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
        let journal: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!((synchronous, journal.as_str()), (2, "wal"));
    }

    #[test]
    fn a_newer_schema_is_named_and_left_alone() {
        let (_dir, path) = fresh();
        connect(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
        let before = fs::read(&path).unwrap();
        assert_eq!(
            connect(&path).unwrap_err().to_string(),
            format!(
                "{} was written by a newer Busyhour (schema 7; this one knows schemas up to 1): run that version, or choose another directory with --data",
                path.display()
            )
        );
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_file_that_is_no_database_is_named_and_left_alone() {
        let (_dir, path) = fresh();
        let text = "not a database, but long enough to be looked at as one ".repeat(40);
        fs::write(&path, &text).unwrap();
        assert_eq!(
            connect(&path).unwrap_err().to_string(),
            format!(
                "{} is not a Busyhour subscriber database: move it out of the way, or choose another directory with --data",
                path.display()
            )
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_database_of_another_application_is_left_alone() {
        let (_dir, path) = fresh();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE subscriber (id INTEGER)").unwrap();
        let before = fs::read(&path).unwrap();
        assert!(matches!(connect(&path), Err(StoreError::Foreign { .. })));
        assert_eq!(fs::read(&path).unwrap(), before, "not even its journal mode may change");
    }

    #[test]
    fn a_directory_in_the_place_of_the_file_is_refused_with_advice() {
        let (_dir, path) = fresh();
        fs::create_dir(&path).unwrap();
        let message = connect(&path).unwrap_err().to_string();
        assert!(message.contains("read and write access"), "{message}");
    }

    #[test]
    fn many_connections_may_create_the_database_at_once() {
        for _ in 0..10 {
            let (_dir, path) = fresh();
            std::thread::scope(|scope| {
                let openers: Vec<_> = (0..8).map(|_| scope.spawn(|| connect(&path).map(drop))).collect();
                for opener in openers {
                    opener.join().unwrap().unwrap();
                }
            });
            assert!(connect(&path).is_ok());
        }
    }
}
