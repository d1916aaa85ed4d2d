//! The document's table of timestamps, a row a session.

use report::{Cell, Column, Decimal, Row, Table};

use crate::{Event, Session, Time};

/// How sessions become rows: seconds since the capture began, as in the document, and the delays.
#[derive(Clone, Copy, Debug)]
pub struct SessionTable {
    /// When the capture began: second 0.
    origin: Time,
    decimal: Decimal,
}

impl SessionTable {
    /// Of a capture that began then.
    pub fn new(origin: Time, decimal: Decimal) -> SessionTable {
        SessionTable { origin, decimal }
    }

    /// The line that names the columns of [`csv_line`](SessionTable::csv_line).
    pub fn csv_header(&self) -> String {
        let mut table = Table::new("")
            .column(Column::number("session"))
            .column(Column::text("Call-ID"))
            .column(Column::text("from"))
            .column(Column::text("to"))
            .column(Column::text("transport"))
            .column(Column::number("began").unit("s since 1970"))
            .column(Column::text("outcome"))
            .column(Column::number("status"));
        for event in Event::ALL {
            table = table.column(Column::number(event.name()).unit("s"));
        }
        for (name, unit) in [
            ("REGISTER delay 1", "ms"),
            ("REGISTER delay 2", "ms"),
            ("INVITE delay", "ms"),
            ("Call set-up delay", "ms"),
            ("SRD", "ms"),
            ("SDD", "ms"),
            ("SDT", "s"),
        ] {
            table = table.column(Column::number(name).unit(unit));
        }
        table
            .column(Column::text("missing first"))
            .column(Column::number("messages"))
            .column(Column::number("retransmissions"))
            .csv_header(self.decimal)
    }

    /// A session as a line of CSV, times in full. What was not seen is empty: the document's 0 could be a
    /// time too.
    pub fn csv_line(&self, session: &Session) -> String {
        let milliseconds = |nanoseconds: Option<i64>| exact(nanoseconds, 6);
        let mut cells = vec![
            Cell::Count(session.number),
            joined(&session.call_ids).into(),
            (*session.from).into(),
            (*session.to).into(),
            transport(session).into(),
            exact(Some(session.began.0), 9),
            session.outcome.text().into(),
            session.outcome.status().map(u64::from).into(),
        ];
        for event in Event::ALL {
            let time = session.timestamps.get(event);
            cells.push(exact(time.map(|time| time - self.origin), 9));
        }
        cells.extend([
            milliseconds(session.register_delay_1()),
            milliseconds(session.register_delay_2()),
            milliseconds(session.invite_delay()),
            milliseconds(session.call_setup_delay()),
            milliseconds(session.session_request_delay),
            milliseconds(session.session_disconnect_delay),
            exact(session.session_duration, 9),
            missing_first(session).into(),
            session.messages.into(),
            session.retransmissions.into(),
        ]);
        // Whole numbers of nanoseconds as text: a floating-point number has fewer digits than a time.
        let cells = cells.into_iter().map(|cell| match cell {
            Cell::Note(number) if self.decimal == Decimal::Comma => {
                Cell::Text(number.replace('.', ","))
            }
            other => other,
        });
        Row::new(cells).to_csv(self.decimal)
    }

    /// The first sessions as a table; `all` is how many there are.
    pub fn to_table(&self, sessions: &[Session], all: u64) -> Table {
        let mut table = Table::new("Timestamps of sessions")
            .column(Column::number("Session").key())
            .column(Column::text("Outcome").key());
        for event in Event::ALL {
            let group = match event {
                Event::Register2 | Event::Ok2 | Event::Invite2 | Event::SdpOk1 => "Receiver",
                _ => "Sender",
            };
            table = table.column(Column::number(event.name()).unit("s").group(group));
        }
        for session in sessions {
            let outcome = match session.outcome.status() {
                Some(status) => format!("{} {status}", session.outcome.text()),
                None => session.outcome.text().to_owned(),
            };
            let mut cells = vec![Cell::Count(session.number), outcome.into()];
            for event in Event::ALL {
                let time = session.timestamps.get(event);
                let seconds = time.map(|time| (time - self.origin) as f64 / 1e9);
                cells.push(Cell::number(seconds, 6));
            }
            table.push(Row::new(cells));
        }
        if all > sessions.len() as u64 {
            table.note(format!(
                "The first {} of {} sessions; --csv FILE has all of them.",
                report::format_count(sessions.len() as u64),
                report::format_count(all)
            ));
        }
        table.note("Seconds since the capture began, at the server; – is what was not seen.");
        table
    }
}

/// The first message, in the order of a session, that it lacks.
fn missing_first(session: &Session) -> &'static str {
    let lacks = |event: &Event| session.timestamps.get(*event).is_none();
    let first = Event::IN_TIME.into_iter().find(lacks);
    first.map_or("", Event::name)
}

pub(super) fn transport(session: &Session) -> String {
    session
        .transport
        .map_or_else(String::new, |transport| transport.to_string())
}

pub(super) fn joined(call_ids: &[Box<str>]) -> String {
    call_ids.join(" ")
}

/// Nanoseconds as a decimal number of a unit that has 10^`digits` of them.
fn exact(nanoseconds: Option<i64>, digits: u32) -> Cell {
    let Some(nanoseconds) = nanoseconds else {
        return Cell::Absent;
    };
    let unit = 10_u64.pow(digits);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let magnitude = nanoseconds.unsigned_abs();
    let (whole, rest) = (magnitude / unit, magnitude % unit);
    let width = digits as usize;
    Cell::Note(format!("{sign}{whole}.{rest:0width$}"))
}
