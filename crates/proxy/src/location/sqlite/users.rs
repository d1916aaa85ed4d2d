//! Users in the database.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row, params};
use sip::digest::Credentials;

use super::super::users::{User, UserTable, Users};
use super::super::{Synchronous, Url};
use super::database::{self, DatabaseError, describe};
use super::path::path_of;

/// The users of a database file, for whoever administers them. A proxy that runs on the same file sees
/// the changes by itself, within a second or two.
#[derive(Debug)]
pub struct UserDatabase {
    connection: Connection,
    path: PathBuf,
}

/// Why users cannot be administered.
#[derive(Debug, thiserror::Error)]
pub enum UserDatabaseError {
    /// The store that was chosen keeps no users.
    #[error("{0} keeps no users; choose a database file with sqlite:PATH")]
    NoUsers(Url),
    /// The file could not be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl UserDatabase {
    /// Opens a database file; one that is not there is made, and one of an earlier version converted, unless a proxy
    /// runs on it.
    ///
    /// # Errors
    /// What is wrong with the file, in words for the operator.
    pub fn open(url: &Url) -> Result<UserDatabase, UserDatabaseError> {
        let path = path_of(url).ok_or_else(|| UserDatabaseError::NoUsers(url.clone()))?;
        let connection = database::open(&path, Synchronous::Full, None)?;
        Ok(UserDatabase { connection, path })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a user, or changes the password of one who is there. Returns whether the user is new.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn put(&self, user: &User) -> Result<bool, DatabaseError> {
        let put = || {
            let is_new = !self.contains(&user.realm, &user.username)?;
            let Credentials {
                md5,
                sha256,
                sha512_256,
            } = &user.credentials;
            self.connection.execute(
                PUT,
                params![user.realm, user.username, md5, sha256, sha512_256],
            )?;
            Ok(is_new)
        };
        put().map_err(|error| describe(&self.path, error))
    }

    /// Removes a user. Returns whether there was one.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn remove(&self, realm: &str, username: &str) -> Result<bool, DatabaseError> {
        self.connection
            .execute(REMOVE, [realm, username])
            .map(|removed| removed > 0)
            .map_err(|error| describe(&self.path, error))
    }

    /// All users, by realm and name.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn list(&self) -> Result<Vec<User>, DatabaseError> {
        let list = || {
            let mut statement = self.connection.prepare(LIST)?;
            statement
                .query_map((), read)?
                .collect::<rusqlite::Result<_>>()
        };
        list().map_err(|error| describe(&self.path, error))
    }

    fn contains(&self, realm: &str, username: &str) -> rusqlite::Result<bool> {
        let found = self
            .connection
            .query_row(CONTAINS, [realm, username], |_| Ok(()))
            .optional()?;
        Ok(found.is_some())
    }
}

const PUT: &str = "INSERT INTO users (realm, username, md5, sha256, sha512_256) VALUES (?,?,?,?,?)
    ON CONFLICT DO UPDATE SET md5 = excluded.md5, sha256 = excluded.sha256, sha512_256 = excluded.sha512_256";
const REMOVE: &str = "DELETE FROM users WHERE realm = ? AND username = ?";
const CONTAINS: &str = "SELECT 1 FROM users WHERE realm = ? AND username = ?";
const LIST: &str =
    "SELECT realm, username, md5, sha256, sha512_256 FROM users ORDER BY realm, username";
const CHANGES: &str = "SELECT users FROM changes";

/// Reads the users again when they have changed.
#[derive(Debug)]
pub(super) struct UserReader {
    connection: Connection,
    /// The count of changes at the last reading.
    seen: Option<i64>,
}

impl UserReader {
    /// With a connection of its own, so that reading never holds up the writer.
    pub(super) fn new(path: &Path) -> Result<UserReader, DatabaseError> {
        Ok(UserReader {
            connection: database::open_reader(path)?,
            seen: None,
        })
    }

    /// Brings what is in memory up to date.
    pub(super) fn refresh(&mut self, users: &Users) -> rusqlite::Result<()> {
        let changes = self.connection.query_row(CHANGES, (), |row| row.get(0))?;
        if self.seen == Some(changes) {
            return Ok(());
        }
        let mut table = UserTable::default();
        let mut statement = self.connection.prepare(LIST)?;
        for user in statement.query_map((), read)? {
            users.add(&mut table, &user?);
        }
        users.replace(table);
        self.seen = Some(changes);
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User {
        realm: row.get(0)?,
        username: row.get(1)?,
        credentials: Credentials {
            md5: row.get(2)?,
            sha256: row.get(3)?,
            sha512_256: row.get(4)?,
        },
    })
}
