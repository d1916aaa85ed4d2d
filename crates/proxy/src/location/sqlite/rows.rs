//! Bindings as rows of the database.

use std::fmt::{self, Write};
use std::num::NonZeroU32;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Row, Statement};
use sip::{Flow, Transport};

use crate::core::{Binding, BindingParts, FORMER_CONNECTION};

/// How many bindings of one address of record have room in the numbering of rows.
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
            wall: wall.map_or(0, |wall| milliseconds(wall)),
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

/// The statements by which bindings are changed.
#[derive(Debug)]
pub(super) struct Statements<'a> {
    put: Statement<'a>,
    delete: Statement<'a>,
    /// What a flow is written in.
    flow: String,
}

impl Statements<'_> {
    pub(super) fn new(connection: &Connection) -> rusqlite::Result<Statements<'_>> {
        Ok(Statements {
            put: connection.prepare(PUT)?,
            delete: connection.prepare(DELETE)?,
            flow: String::new(),
        })
    }

    /// Writes what has changed of the bindings of the address of record with this number. `old` is
    /// `None` where it was not known.
    pub(super) fn change(
        &mut self,
        clocks: Clocks,
        number: u64,
        address: &str,
        old: Option<&[Binding]>,
        new: &[Binding],
    ) -> rusqlite::Result<()> {
        let before = old.unwrap_or_default();
        for (place, binding) in new.iter().enumerate() {
            if before.get(place) != Some(binding) {
                self.put(clocks, row_id(number, place), address, binding)?;
            }
        }
        if new.is_empty() && old.is_none_or(|old| !old.is_empty()) {
            self.put_known(row_id(number, 0), address)?;
        }
        // The first row stays, to say that the address of record is known.
        for place in new.len().max(1)..before.len() {
            self.delete.execute([row_id(number, place)])?;
        }
        Ok(())
    }

    /// Removes all that is written of an address of record without bindings.
    pub(super) fn forget(&mut self, number: u64) -> rusqlite::Result<()> {
        self.delete.execute([row_id(number, 0)]).map(drop)
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
        put.raw_bind_parameter(3, parts.contact)?;
        put.raw_bind_parameter(4, parts.parameters)?;
        put.raw_bind_parameter(5, parts.q)?;
        put.raw_bind_parameter(6, clocks.to_wall(parts.expires))?;
        put.raw_bind_parameter(7, parts.lifetime.as_secs().cast_signed())?;
        put.raw_bind_parameter(8, parts.call_id)?;
        put.raw_bind_parameter(9, parts.cseq)?;
        put.raw_bind_parameter(10, parts.reg_id)?;
        put.raw_bind_parameter(11, parts.gruus.cast_signed())?;
        put.raw_bind_parameter(12, flow)?;
        put.raw_bind_parameter(13, parts.path)?;
        put.raw_bind_parameter(14, parts.user_agent)?;
        put.raw_execute().map(drop)
    }

    fn put_known(&mut self, id: i64, address: &str) -> rusqlite::Result<()> {
        self.put.raw_bind_parameter(1, id)?;
        self.put.raw_bind_parameter(2, address)?;
        for column in 3..=14 {
            self.put.raw_bind_parameter(column, rusqlite::types::Null)?;
        }
        self.put.raw_execute().map(drop)
    }
}

const PUT: &str =
    "INSERT OR REPLACE INTO bindings (id, address, contact, parameters, q, expires, lifetime,
    call_id, cseq, reg_id, gruus, flow, path, user_agent) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
const DELETE: &str = "DELETE FROM bindings WHERE id = ?";
const LOAD: &str =
    "SELECT id, address, contact, parameters, q, expires, lifetime, call_id, cseq, reg_id,
    gruus, flow, path, user_agent FROM bindings ORDER BY id";

/// Reads all addresses of record, each with its number and its bindings, and hands them to `take`.
/// Returns the highest number.
pub(super) fn load(
    connection: &Connection,
    mut take: impl FnMut(&str, u64, &[Binding]),
) -> rusqlite::Result<u64> {
    let clocks = Clocks::now();
    let mut statement = connection.prepare(LOAD)?;
    let mut rows = statement.query(())?;
    let mut number = 0;
    let mut address = String::new();
    let mut bindings = Vec::new();
    while let Some(row) = rows.next()? {
        let of = number_of(row.get(0)?);
        if of != number {
            if number != 0 {
                take(&address, number, &bindings);
            }
            number = of;
            address.clear();
            address.push_str(row.get_ref(1)?.as_str()?);
            bindings.clear();
        }
        bindings.extend(read(clocks, row)?);
    }
    if number != 0 {
        take(&address, number, &bindings);
    }
    Ok(number)
}

/// The binding of a row; `None` where the address of record is only known.
fn read(clocks: Clocks, row: &Row<'_>) -> rusqlite::Result<Option<Binding>> {
    let text = |column: usize| -> rusqlite::Result<&str> {
        Ok(row.get_ref(column)?.as_str_or_null()?.unwrap_or_default())
    };
    let Some(contact) = row.get_ref(2)?.as_str_or_null()? else {
        return Ok(None);
    };
    Ok(Some(Binding::new(&BindingParts {
        contact,
        parameters: text(3)?,
        q: row.get(4)?,
        expires: clocks.to_monotonic(row.get(5)?),
        lifetime: Duration::from_secs(row.get::<_, u32>(6)?.into()),
        call_id: text(7)?,
        cseq: row.get(8)?,
        reg_id: row.get::<_, Option<u32>>(9)?.and_then(NonZeroU32::new),
        gruus: row.get::<_, i64>(10)?.cast_unsigned(),
        flow: read_flow(text(11)?),
        path: text(12)?,
        user_agent: text(13)?,
    })))
}

/// Numbers of addresses of record begin with 1.
fn row_id(number: u64, place: usize) -> i64 {
    (number << PLACE_BITS | place as u64).cast_signed()
}

fn number_of(id: i64) -> u64 {
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
