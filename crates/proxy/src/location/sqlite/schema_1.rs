//! Bindings as files of schema 1 have them, a row each: read once, when such a file is opened.

use std::num::NonZeroU32;
use std::time::Duration;

use rusqlite::{Connection, Row};
use sip::{Flow, Transport};

use super::log::{Clocks, Statements, put_entry};
use crate::core::{Binding, BindingParts, FORMER_CONNECTION};

/// The bits of a row's number that have the place of the binding in its entry.
const PLACE_BITS: u32 = 16;

/// What the state of a row says: it is a binding, or the address of record is not known any more. Any other one: it
/// is known, without a binding.
const BOUND: i64 = 0;
const FORGOTTEN: i64 = 2;

const LOAD: &str =
    "SELECT id, address, state, contact, parameters, q, expires, lifetime, call_id, cseq,
    reg_id, gruus, flow, path, user_agent FROM bindings ORDER BY id";

/// How many entries become one row.
const ENTRIES_OF_A_ROW: usize = 1000;

/// An entry: rows that follow each other.
#[derive(Debug, Default)]
struct Entry {
    number: u64,
    address: String,
    /// `None`: the address of record is not known any more.
    bindings: Option<Vec<Binding>>,
}

/// Writes all bindings into the [`log`](super::log).
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let clocks = Clocks::now();
    let mut log = Statements::new(connection)?;
    let (mut octets, mut entries, mut row_number) = (Vec::new(), 0, 0);
    let mut put = |entry: &Entry, is_last: bool| -> rusqlite::Result<()> {
        put_entry(
            &mut octets,
            clocks,
            &entry.address,
            entry.bindings.as_deref(),
        );
        entries += 1;
        if entries == ENTRIES_OF_A_ROW || is_last {
            row_number += 1;
            log.put(row_number, &octets)?;
            octets.clear();
            entries = 0;
        }
        Ok(())
    };
    let mut statement = connection.prepare(LOAD)?;
    let mut rows = statement.query(())?;
    let mut last: Option<Entry> = None;
    while let Some(row) = rows.next()? {
        let number = row.get::<_, i64>(0)?.cast_unsigned() >> PLACE_BITS;
        let state: i64 = row.get(2)?;
        if last.as_ref().is_none_or(|last| last.number != number) {
            let entry = Entry {
                number,
                address: row.get(1)?,
                bindings: (state != FORGOTTEN).then(Vec::new),
            };
            if let Some(before) = last.replace(entry) {
                put(&before, false)?;
            }
        }
        if let Some(bindings) = last.as_mut().and_then(|entry| entry.bindings.as_mut())
            && state == BOUND
        {
            bindings.push(read(clocks, row)?);
        }
    }
    match last {
        Some(last) => put(&last, true),
        None => Ok(()),
    }
}

/// The binding of a row.
fn read(clocks: Clocks, row: &Row<'_>) -> rusqlite::Result<Binding> {
    let text = |column: usize| -> rusqlite::Result<&str> {
        Ok(row.get_ref(column)?.as_str_or_null()?.unwrap_or_default())
    };
    let expires = u64::try_from(row.get::<_, i64>(6)?).unwrap_or(0);
    Ok(Binding::new(&BindingParts {
        contact: text(3)?,
        parameters: text(4)?,
        q: row.get(5)?,
        expires: clocks.to_monotonic(expires),
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

/// Transport, our address and the peer's. Which connection it was means nothing any more.
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
