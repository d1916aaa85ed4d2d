//! The seed of the keys under which things are signed that user agents keep for longer than a process
//! lives: flow tokens in Record-Routes, temporary GRUUs, nonces.

use rusqlite::{Connection, OptionalExtension};

/// The seed that is written down, or this one, which then is.
pub(super) fn seed(connection: &Connection, fresh: [u8; 32]) -> rusqlite::Result<[u8; 32]> {
    let select = "SELECT value FROM secrets WHERE name = 'seed'";
    let found = connection
        .query_row(select, (), |row| row.get(0))
        .optional()?;
    match found {
        Some(seed) => Ok(seed),
        None => {
            let insert = "INSERT INTO secrets (name, value) VALUES ('seed', ?)";
            connection.execute(insert, [fresh])?;
            Ok(fresh)
        }
    }
}
