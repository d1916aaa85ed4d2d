//! Adnan 2012's table of timestamps, a row a session.

use report::{Cell, Column, CsvRecord, Decimal, Row, Table};

use sip::Transport;

use super::{Figures, time_of_day};
use crate::{Milestone, Session, Time};

/// How sessions become rows: seconds since the capture began, as in Adnan 2012, and the delays.
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

    /// The line that names the columns of [`push_csv_line`](SessionTable::push_csv_line).
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
        // As Adnan 2012 names them, without their unit.
        for milestone in Milestone::ALL {
            table = table.column(Column::number(milestone.name()));
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

    /// Appends a session as a line of CSV, times in full. What was not seen is empty: Adnan 2012's 0 could
    /// be a time too.
    pub fn push_csv_line(&self, session: &Session, figures: &Figures, out: &mut Vec<u8>) {
        let mut record = CsvRecord::new(out, self.decimal);
        record.count(session.number);
        match &session.call_ids[..] {
            [one] => record.text(one),
            several => record.text(&joined(several)),
        };
        record
            .text(&session.from)
            .text(&session.to)
            .plain(transport(session))
            .written(Some(&figures.began))
            .plain(session.outcome.text());
        match session.outcome.status() {
            Some(status) => record.count(status.into()),
            None => record.absent(),
        };
        for milestone in Milestone::ALL {
            record.written(figures.timestamp(milestone));
        }
        for delay in [
            &figures.register_delay_1,
            &figures.register_delay_2,
            &figures.invite_delay,
            &figures.call_setup_delay,
            &figures.session_request_delay,
            &figures.session_disconnect_delay,
            &figures.session_duration,
        ] {
            record.written(delay.as_ref());
        }
        record
            .plain(missing_first(session))
            .count(session.messages)
            .count(session.retransmissions);
        record.end();
    }

    /// The first sessions as a table; `all` is how many there are.
    pub fn to_table(&self, sessions: &[Session], all: u64) -> Table {
        let mut table = Table::new("Timestamps of sessions")
            .column(Column::number("Session").key())
            .column(Column::text("Outcome").key());
        for milestone in Milestone::ALL {
            let group = match milestone {
                Milestone::Register2 | Milestone::Ok2 | Milestone::Invite2 | Milestone::SdpOk1 => {
                    "Receiver"
                }
                _ => "Sender",
            };
            table = table.column(Column::number(milestone.name()).unit("s").group(group));
        }
        for session in sessions {
            let mut cells = vec![Cell::Count(session.number), status(session).into()];
            for milestone in Milestone::ALL {
                let time = session.timestamps.get(milestone);
                let seconds = time.map(|time| (time - self.origin) as f64 / 1e9);
                cells.push(Cell::number(seconds, 6));
            }
            table.push(Row::new(cells));
        }
        note_rest(&mut table, sessions, all);
        table.note("Seconds since the capture began, at the server; – if missing.");
        table
    }
}

/// Letters of a Call-ID that are shown: enough to tell calls apart.
const SHORT_CALL_ID: usize = 16;

/// The first sessions as people look for them: when, who calls whom, how it went. `all` is how many there are.
pub(super) fn calls(sessions: &[Session], all: u64) -> Table {
    let mut table = Table::new("Sessions")
        .column(Column::number("Session").key())
        .column(Column::text("Time (UTC)").key())
        .column(Column::text("From"))
        .column(Column::text("To"))
        .column(Column::text("Call-ID"))
        .column(Column::text("Status"))
        .column(Column::number("Ringing after").unit("s"))
        .column(Column::number("Set up after").unit("s"))
        .column(Column::number("Lasted").unit("s"));
    for session in sessions {
        let seconds = |delay: Option<i64>| Cell::number(delay.map(|delay| delay as f64 / 1e9), 3);
        table.push(Row::new([
            Cell::Count(session.number),
            time_of_day(session.began).into(),
            (*session.from).into(),
            (*session.to).into(),
            match session.call_ids.first() {
                Some(call_id) => short_call_id(call_id).into(),
                None => Cell::Absent,
            },
            status(session).into(),
            seconds(session.session_request_delay),
            seconds(session.call_setup_delay()),
            seconds(session.session_duration),
        ]));
    }
    note_rest(&mut table, sessions, all);
    table
}

/// The outcome, with the status code of a refusal.
fn status(session: &Session) -> String {
    match session.outcome.status() {
        Some(status) => format!("{} {status}", session.outcome.text()),
        None => session.outcome.text().to_owned(),
    }
}

fn short_call_id(call_id: &str) -> String {
    match call_id.char_indices().nth(SHORT_CALL_ID) {
        Some((end, _)) => format!("{}…", call_id.get(..end).unwrap_or_default()),
        None => call_id.to_owned(),
    }
}

fn note_rest(table: &mut Table, sessions: &[Session], all: u64) {
    if all > sessions.len() as u64 {
        table.note(format!(
            "The first {} of {} sessions; --csv FILE has all of them.",
            report::format_count(sessions.len() as u64),
            report::format_count(all)
        ));
    }
}

/// The first message, in the order of a session, that it lacks, if that was lost.
fn missing_first(session: &Session) -> &'static str {
    if !session.can_be_lost() {
        return "";
    }
    let lacks = |milestone: &Milestone| session.timestamps.get(*milestone).is_none();
    let first = Milestone::IN_TIME.into_iter().find(lacks);
    first.map_or("", Milestone::name)
}

pub(super) fn transport(session: &Session) -> &'static str {
    session.transport.map_or("", Transport::name)
}

pub(super) fn joined(call_ids: &[Box<str>]) -> String {
    call_ids.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Timestamps};

    #[test]
    fn lines_have_the_columns_that_are_named_and_no_formula() {
        let mut session = Session {
            number: 1,
            call_ids: vec!["-cmd|' /C calc'!A0".into()],
            from: "=HYPERLINK(\"a\")@example.org".into(),
            to: "+4930123@example.org".into(),
            transport: None,
            began: Time::default(),
            outcome: Outcome::Unanswered,
            timestamps: Timestamps::default(),
            session_request_delay: None,
            session_disconnect_delay: None,
            session_duration: None,
            messages: 1,
            retransmissions: 0,
            rtp: Vec::new(),
        };
        let figures = Figures::of(&session, Time::default());
        let mut line = Vec::new();
        SessionTable::new(Time::default(), Decimal::Point)
            .push_csv_line(&session, &figures, &mut line);
        let line = String::from_utf8(line).unwrap();
        let header = SessionTable::new(Time::default(), Decimal::Comma).csv_header();
        let names =
            ";REGISTER1;200OK1;INVITE1;RINGING;SDP_OK2;ACK;REGISTER2;200OK2;INVITE2;SDP_OK1;";
        assert!(header.contains(names), "{header}");
        let begins =
            "1,'-cmd|' /C calc'!A0,\"'=HYPERLINK(\"\"a\"\")@example.org\",+4930123@example.org,,";
        assert!(line.starts_with(begins), "{line}");
        assert!(line.ends_with(",REGISTER1,1,0\r\n"), "{line}");

        session.outcome = Outcome::Refused(486);
        let mut line = Vec::new();
        SessionTable::new(Time::default(), Decimal::Point)
            .push_csv_line(&session, &figures, &mut line);
        let line = String::from_utf8(line).unwrap();
        assert!(line.ends_with(",,1,0\r\n"), "{line}");
    }
}
