//! The database file: opening it, and saying what is wrong with it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::super::Synchronous;
use super::schema_1;

/// Why a database file could not be used: one line that says what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The directory could not be made.
    #[error("cannot create the directory {}: {error}; choose another file with sqlite:PATH", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The file could not be opened.
    #[error("cannot open {}: {error}; it must be a file that this user may read and write", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process has the file as its location store.
    #[error("{} is in use by another proxy; stop that one, or choose another file with sqlite:PATH", .0.display())]
    InUse(PathBuf),
    /// The file is something else.
    #[error("{} is not a database of Tandem; move it away, or choose another file with sqlite:PATH", .0.display())]
    Foreign(PathBuf),
    /// The file was written by a later version of this program.
    #[error("{} was written by a newer version (schema {found}, this one knows {SCHEMA}); \
             use that version", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
    },
    /// The file was written by an earlier version of this program, and a proxy, which may be of that version, uses it.
    #[error("{} was written by an older version (schema {found}, this one writes {SCHEMA}), and a proxy runs on it; \
             restart that proxy with this version first", path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
    },
    /// The file is no longer whole.
    #[error("{} is damaged: {error}; restore a backup, or move it away to start afresh", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        error: String,
    },
    /// Anything else that SQLite says.
    #[error("{}: {error}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        error: rusqlite::Error,
    },
}

/// The version of the schema that this program writes.
const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// What leads from each version of the schema to the next, from an empty file on.
const MIGRATIONS: [fn(&Connection) -> rusqlite::Result<()>; 2] = [
    |connection| connection.execute_batch(include_str!("schema_1.sql")),
    |connection| {
        connection.execute_batch(include_str!("schema_2.sql"))?;
        schema_1::migrate(connection)?;
        connection.execute_batch("DROP VIEW current_bindings; DROP TABLE bindings")
    },
];

/// Marks a file as ours ("Tndm").
const APPLICATION_ID: i64 = 0x546e_646d;

/// How long a transaction waits for one of another process, such as a command that adds a user.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A database file that no other process has as its location store, for as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Takes the file for this process. The lock is on a file beside it and ends with the process, however
/// that ends; others may still read the database, and change its users.
pub(super) fn lock(path: &Path) -> Result<Lock, DatabaseError> {
    make_directory(path)?;
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push("-lock");
    let lock_path = PathBuf::from(lock_path);
    let open = |error| DatabaseError::Open {
        path: lock_path.clone(),
        error,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(open)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(DatabaseError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(open(error)),
    }
}

/// Opens a database for writing; a file that is not there is made, for its owner alone to read: there
/// are secrets in it. Without a lock, which another process may have, a file of an earlier version is an error while
/// there is such a process: it goes on writing as before.
pub(super) fn open(
    path: &Path,
    synchronous: Synchronous,
    held: Option<&Lock>,
) -> Result<Connection, DatabaseError> {
    make_directory(path)?;
    create(path)?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let prepare = || {
        // Readers do not wait for the writer, nor the writer for them, and a transaction is written in
        // one go to the end of a file.
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        if mode != "wal" {
            let error = io::Error::other("its file system does not allow a write-ahead log");
            return Ok(Err(DatabaseError::Open {
                path: path.to_owned(),
                error,
            }));
        }
        connection.pragma_update(None, "synchronous", synchronous.name())?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        migrate(&connection, path, held)
    };
    let prepared: rusqlite::Result<_> = prepare();
    prepared.map_err(|error| describe(path, error))??;
    Ok(connection)
}

/// Opens a second connection, which only reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection, DatabaseError> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// How long the write-ahead log grows before what is in it is brought to the pages' own places: so many
/// pages that those that are written often are brought there once.
const CHECKPOINT_PAGES: i64 = 4000;

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, DatabaseError> {
    // A connection is used by one thread only: SQLite need not lock it.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connect = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    };
    connect().map_err(|error| describe(path, error))
}

/// Brings the schema to this program's version, in one transaction.
fn migrate(
    connection: &Connection,
    path: &Path,
    held: Option<&Lock>,
) -> rusqlite::Result<Result<(), DatabaseError>> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let tables = "SELECT count(*) FROM sqlite_schema";
    let is_empty = connection.query_row(tables, (), |row| row.get::<_, i64>(0))? == 0;
    if number("application_id")? != APPLICATION_ID && !is_empty {
        return Ok(Err(DatabaseError::Foreign(path.to_owned())));
    }
    let found = number("user_version")?;
    if found > SCHEMA {
        return Ok(Err(DatabaseError::Newer {
            path: path.to_owned(),
            found,
        }));
    }
    // Until the end of the transaction nobody may begin to use it.
    let mut _taken = None;
    if found < SCHEMA && !is_empty && held.is_none() {
        _taken = match lock(path) {
            Ok(lock) => Some(lock),
            Err(DatabaseError::InUse(path)) => {
                return Ok(Err(DatabaseError::Older { path, found }));
            }
            Err(error) => return Ok(Err(error)),
        };
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        migration(connection)?;
    }
    if found != SCHEMA {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", SCHEMA)?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(Ok(()))
}

fn make_directory(path: &Path) -> Result<(), DatabaseError> {
    let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| DatabaseError::Directory {
            path: directory.to_owned(),
            error,
        })
}

fn create(path: &Path) -> Result<(), DatabaseError> {
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(DatabaseError::Open {
            path: path.to_owned(),
            error,
        }),
        _ => Ok(()),
    }
}

/// What an error of SQLite means to whoever starts the program.
pub(super) fn describe(path: &Path, error: rusqlite::Error) -> DatabaseError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => DatabaseError::Foreign(path),
        Some(ErrorCode::DatabaseCorrupt) => DatabaseError::Damaged {
            path,
            error: error.to_string(),
        },
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure,
        ) => DatabaseError::Open {
            path,
            error: io::Error::other(error.to_string()),
        },
        _ => DatabaseError::Other { path, error },
    }
}
