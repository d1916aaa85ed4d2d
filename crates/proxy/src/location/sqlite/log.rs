//! Bindings in the database: a log.
//!
//! Each change of an address of record is an entry with all its bindings; the last entry counts. All
//! entries of a transaction are one row at the end of the table. So what SQLite does for a row the changes
//! of many users share, and those that happen to come together fill a few pages, where each would touch a
//! page of its own if its row were looked up. What has been superseded is removed from the other end.
//!
//! An entry is the address of record; the length of what follows, in four octets; the number of bindings
//! and one, or zero where the address of record is not known any more; and the bindings as the
//! [`record`](super::super::record) of an address of record has them, but for their ends, which are in
//! milliseconds since 1970.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Buf;
use rusqlite::{Connection, Statement, ffi};
use sip::Flow;

use super::super::record::{put_text, read_binding, text};
use crate::core::{Binding, BindingParts, FORMER_CONNECTION};
use crate::octets::{push_number, take_number};

/// The same moment on both clocks: the one that bindings expire by here, which nobody sets, and the one
/// that goes on when the process does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    monotonic: Instant,
    /// Milliseconds since 1970.
    wall: u64,
}

impl Clocks {
    pub(super) fn now() -> Clocks {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Clocks {
            monotonic: Instant::now(),
            wall: wall.map_or(0, milliseconds),
        }
    }

    /// Rounded up: a binding is not cut short.
    fn to_wall(self, instant: Instant) -> u64 {
        match instant.checked_duration_since(self.monotonic) {
            Some(ahead) => self.wall.saturating_add(milliseconds_up(ahead)),
            None => {
                let behind = self.monotonic.saturating_duration_since(instant);
                self.wall.saturating_sub(milliseconds(behind))
            }
        }
    }

    /// What lies further back than this process can tell is as far back as it can.
    pub(super) fn to_monotonic(self, wall: u64) -> Instant {
        let difference = Duration::from_millis(wall.abs_diff(self.wall));
        if wall >= self.wall {
            self.monotonic.checked_add(difference)
        } else {
            self.monotonic.checked_sub(difference)
        }
        .unwrap_or(self.monotonic)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn milliseconds_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Appends an entry to those of a row: from now on the address of record has these bindings, and is known;
/// or it is not, where they are `None`.
pub(super) fn put_entry(
    octets: &mut Vec<u8>,
    clocks: Clocks,
    address: &str,
    bindings: Option<&[Binding]>,
) {
    put_text(octets, address);
    let start = octets.len();
    octets.extend_from_slice(&[0; LENGTH_OCTETS]);
    push_number(
        octets,
        bindings.map_or(0, |bindings| bindings.len() as u64 + 1),
    );
    for binding in bindings.unwrap_or_default() {
        binding.write(octets, clocks.to_wall(binding.expires()));
    }
    let length = octets.len() - start - LENGTH_OCTETS;
    // A registrar takes far less than this can tell.
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    octets[start..start + LENGTH_OCTETS].copy_from_slice(&length);
}

const LENGTH_OCTETS: usize = 4;

/// An entry as it is written.
struct Entry<'a> {
    address: &'a str,
    rest: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(octets: &mut &'a [u8]) -> Option<Entry<'a>> {
        let address = text(octets)?;
        let length = octets.try_get_u32_le().ok()?;
        let rest = octets.split_off(..usize::try_from(length).ok()?)?;
        Some(Entry { address, rest })
    }

    /// The bindings, whose connections were those of an earlier process; the inner `None` where the address of
    /// record is not known any more, the outer one where that cannot be read.
    fn bindings(&self, clocks: Clocks) -> Option<Option<Vec<Binding>>> {
        let mut octets = self.rest;
        let Some(count) = take_number(&mut octets)?.checked_sub(1) else {
            return octets.is_empty().then_some(None);
        };
        let mut bindings = Vec::new();
        for _ in 0..count {
            let binding = read_binding(&mut octets, |expiry| clocks.to_monotonic(expiry))?;
            let parts = binding.parts();
            bindings.push(Binding::new(&BindingParts {
                flow: parts.flow.map(|flow| Flow {
                    connection: FORMER_CONNECTION,
                    stream: 0,
                    ..flow
                }),
                ..parts
            }));
        }
        octets.is_empty().then_some(Some(bindings))
    }
}

/// The statements by which the log is written.
#[derive(Debug)]
pub(super) struct Statements<'a> {
    put: Statement<'a>,
    oldest: Statement<'a>,
    delete: Statement<'a>,
}

impl Statements<'_> {
    pub(super) fn new(connection: &Connection) -> rusqlite::Result<Statements<'_>> {
        Ok(Statements {
            put: connection.prepare(PUT)?,
            oldest: connection.prepare(LOAD)?,
            delete: connection.prepare("DELETE FROM log WHERE id <= ?")?,
        })
    }

    /// Adds a row of entries.
    pub(super) fn put(&mut self, row: u64, entries: &[u8]) -> rusqlite::Result<()> {
        let put = self.put.execute((row.cast_signed(), entries));
        put.map(drop)
    }

    /// The addresses of record of the entries of the first rows, each with its row: of so many rows that
    /// they have this number of entries, if there are as many.
    pub(super) fn oldest(&mut self, count: usize) -> rusqlite::Result<Vec<(u64, Box<str>)>> {
        let mut oldest = Vec::new();
        let mut rows = self.oldest.query(())?;
        while oldest.len() < count
            && let Some(row) = rows.next()?
        {
            let id = row_number(row.get(0)?)?;
            let mut octets = row.get_ref(1)?.as_blob()?;
            while !octets.is_empty() {
                let entry = Entry::read(&mut octets).ok_or_else(damaged)?;
                oldest.push((id, entry.address.into()));
            }
        }
        Ok(oldest)
    }

    /// Removes all rows up to this one.
    pub(super) fn remove_through(&mut self, row: u64) -> rusqlite::Result<()> {
        self.delete.execute([row.cast_signed()]).map(drop)
    }
}

const PUT: &str = "INSERT INTO log (id, entries) VALUES (?, ?)";
const LOAD: &str = "SELECT id, entries FROM log ORDER BY id";

/// How much a log has in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) last_row: u64,
    pub(super) entries: usize,
}

/// Reads the whole log and hands its entries to `take`, the oldest first: the row, the address of record, and its
/// bindings, `None` where it is not known any more.
pub(super) fn load(
    connection: &Connection,
    mut take: impl FnMut(u64, &str, Option<&[Binding]>),
) -> rusqlite::Result<Extent> {
    let clocks = Clocks::now();
    let mut statement = connection.prepare(LOAD)?;
    let mut rows = statement.query(())?;
    let mut extent = Extent::default();
    while let Some(row) = rows.next()? {
        extent.last_row = row_number(row.get(0)?)?;
        let mut octets = row.get_ref(1)?.as_blob()?;
        while !octets.is_empty() {
            let entry = Entry::read(&mut octets).ok_or_else(damaged)?;
            let bindings = entry.bindings(clocks).ok_or_else(damaged)?;
            take(extent.last_row, entry.address, bindings.as_deref());
            extent.entries += 1;
        }
    }
    Ok(extent)
}

/// The number of a row: as many as a [`record`](super::super::record) can name.
fn row_number(id: i64) -> rusqlite::Result<u64> {
    let number = u64::try_from(id).ok().filter(|id| *id < 1 << 47);
    number.ok_or_else(damaged)
}

/// A row is not what was written here.
fn damaged() -> rusqlite::Error {
    let error = ffi::Error::new(ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(error, Some("bindings that cannot be read".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;
    use sip::{ConnectionId, Transport};

    use super::*;

    fn binding(contact: &str, cseq: u32, reg_id: u32, expires: Instant) -> Binding {
        Binding::new(&BindingParts {
            contact,
            parameters: ";a=\"\u{fc}\"",
            q: 1000,
            expires,
            lifetime: Duration::from_secs(3600),
            call_id: "x@y",
            cseq,
            reg_id: NonZeroU32::new(reg_id),
            gruus: u64::from(cseq) << 7,
            flow: (reg_id > 0).then(|| Flow {
                transport: Transport::Sctp,
                local: "[2001:db8::1]:5060".parse().expect("an address"),
                remote: "192.0.2.1:65535".parse().expect("an address"),
                connection: ConnectionId(7),
                stream: 3,
            }),
            path: "",
            user_agent: "",
        })
    }

    proptest! {
        /// Entries are read back as they were written; of octets that are cut or altered nothing is made that
        /// they have no room for.
        #[test]
        fn entries_are_read_back(
            contacts in proptest::collection::vec(("[ -~]{0,40}", any::<u32>(), 0u32..3), 0..4),
            is_known: bool,
            at: prop::sample::Index,
            octet: u8,
        ) {
            let clocks = Clocks::now();
            let expires = clocks.monotonic + Duration::from_secs(60);
            let bindings: Vec<Binding> = contacts
                .iter()
                .map(|(contact, cseq, reg_id)| binding(contact, *cseq, *reg_id, expires))
                .collect();
            let mut octets = Vec::new();
            put_entry(&mut octets, clocks, "bob@example.com", is_known.then_some(&bindings[..]));
            let whole = octets.len();
            put_entry(&mut octets, clocks, "alice@example.com", None);
            let mut rest = &octets[..];
            let entry = Entry::read(&mut rest).expect("an entry");
            prop_assert_eq!(rest.len(), octets.len() - whole);
            prop_assert_eq!(entry.address, "bob@example.com");
            let read = entry.bindings(clocks).expect("bindings");
            prop_assert_eq!(read.is_some(), is_known);
            let read = read.unwrap_or_default();
            prop_assert_eq!(read.len(), if is_known { bindings.len() } else { 0 });
            for (read, written) in read.iter().zip(&bindings) {
                let flow = written.flow().map(|flow| Flow {
                    connection: FORMER_CONNECTION,
                    stream: 0,
                    ..flow
                });
                prop_assert_eq!(read.parts(), BindingParts { flow, ..written.parts() });
            }
            let cut = at.index(whole);
            prop_assert!(Entry::read(&mut &octets[..cut]).is_none());
            octets[cut] = octet;
            if let Some(entry) = Entry::read(&mut &octets[..]) {
                let count = entry.bindings(clocks).flatten().map_or(0, |bindings| bindings.len());
                prop_assert!(count <= octets.len());
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_damage() {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("schema_2.sql"))
            .expect("a table");
        let mut statements = Statements::new(&connection).expect("prepared");
        let mut entries = Vec::new();
        put_entry(&mut entries, Clocks::now(), "a@b", Some(&[]));
        statements.put(1, &entries).expect("written");
        let extent = load(&connection, |row, address, bindings| {
            assert_eq!((row, address, bindings), (1, "a@b", Some(&[][..])));
        });
        let extent = extent.expect("it is whole");
        assert_eq!((extent.last_row, extent.entries), (1, 1));
        entries.pop();
        statements.put(2, &entries).expect("written");
        let error = load(&connection, |_, _, _| {}).expect_err("it is cut");
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseCorrupt)
        );
        assert!(statements.oldest(10).is_err());
        let oldest = statements.oldest(1).expect("the first is whole");
        assert_eq!(oldest, [(1, "a@b".into())]);
    }
}
