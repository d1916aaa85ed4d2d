//! Bindings as rows of the database: a log.
//!
//! Each change of an address of record is an entry at the end of the table, with all its bindings; the
//! last entry counts. So the changes of many users that happen to come together fill a few pages at the
//! end, where each would touch a page of its own if its row were looked up. What has been superseded is
//! removed from the other end, where pages become free as a whole.

use std::fmt::{self, Write};
use std::num::NonZeroU32;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Row, Statement};
use sip::{Flow, Transport};

use crate::core::{Binding, BindingParts, FORMER_CONNECTION};

/// How many bindings of one entry have room in the numbering of rows.
pub(super) const MAXIMUM_PLACES: usize = 1 << PLACE_BITS;

const PLACE_BITS: u32 = 16;

/// The same moment on both clocks: the one that bindings expire by here, which nobody sets, and the one
/// that goes on when the process does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    monotonic: Instant,
    /// Milliseconds since 1970.
    wall: i64,
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
    fn to_wall(self, instant: Instant) -> i64 {
        match instant.checked_duration_since(self.monotonic) {
            Some(ahead) => self.wall.saturating_add(milliseconds_up(ahead)),
            None => {
                let behind = self.monotonic.saturating_duration_since(instant);
                self.wall.saturating_sub(milliseconds(behind))
            }
        }
    }

    /// What lies further back than this process can tell is as far back as it can.
    fn to_monotonic(self, wall: i64) -> Instant {
        let difference = Duration::from_millis(wall.abs_diff(self.wall));
        if wall >= self.wall {
            self.monotonic.checked_add(difference)
        } else {
            self.monotonic.checked_sub(difference)
        }
        .unwrap_or(self.monotonic)
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn milliseconds_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// The statements by which the log is written.
#[derive(Debug)]
pub(super) struct Statements<'a> {
    put: Statement<'a>,
    oldest: Statement<'a>,
    delete: Statement<'a>,
    /// What a flow is written in.
    flow: String,
}

/// What an address of record has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
enum State {
    /// It has bindings; the row is one of them.
    Bound = 0,
    /// It is known, without a binding.
    Known = 1,
    /// It is not known any more.
    Forgotten = 2,
}

impl Statements<'_> {
    pub(super) fn new(connection: &Connection) -> rusqlite::Result<Statements<'_>> {
        Ok(Statements {
            put: connection.prepare(PUT)?,
            oldest: connection.prepare(OLDEST)?,
            delete: connection.prepare(DELETE)?,
            flow: String::new(),
        })
    }

    /// Adds an entry: from now on the address of record has these bindings, and is known. Returns the
    /// number of rows.
    pub(super) fn append(
        &mut self,
        clocks: Clocks,
        entry: u64,
        address: &str,
        bindings: &[Binding],
    ) -> rusqlite::Result<usize> {
        for (place, binding) in bindings.iter().enumerate() {
            self.put(clocks, row_id(entry, place), address, binding)?;
        }
        if bindings.is_empty() {
            self.put_state(entry, address, State::Known)?;
        }
        Ok(bindings.len().max(1))
    }

    /// Adds an entry of one row: from now on the address of record is not known.
    pub(super) fn append_forgotten(&mut self, entry: u64, address: &str) -> rusqlite::Result<()> {
        self.put_state(entry, address, State::Forgotten)
    }

    /// The first rows of the log, each with its entry and address of record.
    pub(super) fn oldest(&mut self, limit: usize) -> rusqlite::Result<Vec<(u64, Box<str>)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.oldest
            .query_map([limit], |row| Ok((entry_of(row.get(0)?), row.get(1)?)))?
            .collect()
    }

    /// Removes all entries up to this one. Returns the number of rows.
    pub(super) fn remove_through(&mut self, entry: u64) -> rusqlite::Result<usize> {
        self.delete.execute([row_id(entry, MAXIMUM_PLACES - 1)])
    }

    fn put(
        &mut self,
        clocks: Clocks,
        id: i64,
        address: &str,
        binding: &Binding,
    ) -> rusqlite::Result<()> {
        let parts = binding.parts();
        self.flow.clear();
        let flow = parts.flow.map(|flow| {
            // Writing into a String cannot fail.
            let _ = write_flow(&mut self.flow, &flow);
            &*self.flow
        });
        let put = &mut self.put;
        put.raw_bind_parameter(1, id)?;
        put.raw_bind_parameter(2, address)?;
        put.raw_bind_parameter(3, State::Bound as i64)?;
        put.raw_bind_parameter(4, parts.contact)?;
        put.raw_bind_parameter(5, parts.parameters)?;
        put.raw_bind_parameter(6, parts.q)?;
        put.raw_bind_parameter(7, clocks.to_wall(parts.expires))?;
        put.raw_bind_parameter(8, parts.lifetime.as_secs().cast_signed())?;
        put.raw_bind_parameter(9, parts.call_id)?;
        put.raw_bind_parameter(10, parts.cseq)?;
        put.raw_bind_parameter(11, parts.reg_id)?;
        put.raw_bind_parameter(12, parts.gruus.cast_signed())?;
        put.raw_bind_parameter(13, flow)?;
        put.raw_bind_parameter(14, parts.path)?;
        put.raw_bind_parameter(15, parts.user_agent)?;
        put.raw_execute().map(drop)
    }

    fn put_state(&mut self, entry: u64, address: &str, state: State) -> rusqlite::Result<()> {
        self.put.raw_bind_parameter(1, row_id(entry, 0))?;
        self.put.raw_bind_parameter(2, address)?;
        self.put.raw_bind_parameter(3, state as i64)?;
        for column in 4..=15 {
            self.put.raw_bind_parameter(column, rusqlite::types::Null)?;
        }
        self.put.raw_execute().map(drop)
    }
}

const PUT: &str =
    "INSERT INTO bindings (id, address, state, contact, parameters, q, expires, lifetime,
    call_id, cseq, reg_id, gruus, flow, path, user_agent) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
const OLDEST: &str = "SELECT id, address FROM bindings ORDER BY id LIMIT ?";
const DELETE: &str = "DELETE FROM bindings WHERE id <= ?";
const LOAD: &str =
    "SELECT id, address, state, contact, parameters, q, expires, lifetime, call_id, cseq,
    reg_id, gruus, flow, path, user_agent FROM bindings ORDER BY id";

/// How much a log had in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loaded {
    pub(super) last_entry: u64,
    pub(super) rows: usize,
}

/// An entry of the log.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) address: String,
    /// `None`: the address of record is not known any more.
    pub(super) bindings: Option<Vec<Binding>>,
}

/// Reads the whole log and hands its entries to `take`, the oldest first.
pub(super) fn load(
    connection: &Connection,
    mut take: impl FnMut(&Entry),
) -> rusqlite::Result<Loaded> {
    let clocks = Clocks::now();
    let mut statement = connection.prepare(LOAD)?;
    let mut rows = statement.query(())?;
    let mut loaded = Loaded::default();
    let mut entry = Entry::default();
    while let Some(row) = rows.next()? {
        let number = entry_of(row.get(0)?);
        if loaded.rows == 0 || number != entry.number {
            if loaded.rows > 0 {
                take(&entry);
            }
            entry.number = number;
            entry.address.clear();
            entry.address.push_str(row.get_ref(1)?.as_str()?);
            let is_known = row.get::<_, i64>(2)? != State::Forgotten as i64;
            entry.bindings = is_known.then(Vec::new);
        }
        if let Some(bindings) = &mut entry.bindings
            && row.get::<_, i64>(2)? == State::Bound as i64
        {
            bindings.push(read(clocks, row)?);
        }
        loaded.rows += 1;
    }
    if loaded.rows > 0 {
        take(&entry);
        loaded.last_entry = entry.number;
    }
    Ok(loaded)
}

/// The binding of a row.
fn read(clocks: Clocks, row: &Row<'_>) -> rusqlite::Result<Binding> {
    let text = |column: usize| -> rusqlite::Result<&str> {
        Ok(row.get_ref(column)?.as_str_or_null()?.unwrap_or_default())
    };
    Ok(Binding::new(&BindingParts {
        contact: text(3)?,
        parameters: text(4)?,
        q: row.get(5)?,
        expires: clocks.to_monotonic(row.get(6)?),
        lifetime: Duration::from_secs(row.get::<_, u32>(7)?.into()),
        call_id: text(8)?,
        cseq: row.get(9)?,
        reg_id: row.get::<_, Option<u32>>(10)?.and_then(NonZeroU32::new),
        gruus: row.get::<_, i64>(11)?.cast_unsigned(),
        flow: read_flow(text(12)?),
        path: text(13)?,
        user_agent: text(14)?,
    }))
}

fn row_id(entry: u64, place: usize) -> i64 {
    (entry << PLACE_BITS | place as u64).cast_signed()
}

fn entry_of(id: i64) -> u64 {
    id.cast_unsigned() >> PLACE_BITS
}

/// Writes what of a flow can be found again after a restart: which connection it was means nothing
/// then.
fn write_flow(text: &mut String, flow: &Flow) -> fmt::Result {
    write!(text, "{} {} {}", flow.transport, flow.local, flow.remote)
}

fn read_flow(text: &str) -> Option<Flow> {
    let mut words = text.split(' ');
    Some(Flow {
        transport: words.next()?.parse::<Transport>().ok()?,
        local: words.next()?.parse().ok()?,
        remote: words.next()?.parse().ok()?,
        connection: FORMER_CONNECTION,
        stream: 0,
    })
}
