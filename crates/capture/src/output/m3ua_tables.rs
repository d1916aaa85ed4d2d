//! Tables of M3UA.

use m3ua::AspState;
use report::{Cell, Column, Row, Table, format_count};

use super::time_of_day;
use crate::{M3uaAssociation, M3uaView, SignallingState, Time};

/// Rows shown of what there may be many of.
const MOST_SHOWN: usize = 50;

/// All of them; `last` is when the capture ended.
pub(super) fn tables(view: &M3uaView, last: Time) -> Vec<Table> {
    if view.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![associations(view), messages(view)];
    tables.extend(states(view));
    tables.extend(user_messages(view));
    tables.extend(transactions(view));
    tables.extend(unanswered(view, last));
    tables
}

/// The state of an ASP in a word (RFC 4666 section 4.3.1).
pub(super) fn asp_state(state: AspState) -> &'static str {
    match state {
        AspState::Down => "ASP-DOWN",
        AspState::Inactive => "ASP-INACTIVE",
        AspState::Active => "ASP-ACTIVE",
    }
}

/// What has which state, and the routing contexts that it is about.
pub(super) fn signalling_state(state: &SignallingState) -> (String, &[u32]) {
    match state {
        SignallingState::Asp(state, contexts) => (asp_state(*state).to_owned(), contexts),
        SignallingState::AspLost => ("ASP-DOWN (association ended)".to_owned(), &[]),
        SignallingState::As(status, contexts) => (status.to_string(), contexts),
    }
}

fn associations(view: &M3uaView) -> Table {
    let mut table = Table::new("M3UA associations")
        .column(Column::number("No.").key())
        .column(Column::number("SCTP"))
        .column(Column::text("From"))
        .column(Column::text("To"))
        .column(Column::text("Began (UTC)"))
        .column(Column::text("From").group("State at the end"))
        .column(Column::text("To").group("State at the end"));
    for way in ["From → to", "To → from"] {
        for name in ["messages", "DATA"] {
            table = table.column(Column::number(name).group(way));
        }
    }
    for (at, association) in view.associations().iter().take(MOST_SHOWN).enumerate() {
        let state = |is_source| match association.asp_state(is_source) {
            Some(state) => asp_state(state).into(),
            None => Cell::Absent,
        };
        let mut cells = vec![
            Cell::Count(at as u64 + 1),
            match association.sctp {
                Some(place) => Cell::Count(place as u64 + 1),
                None => Cell::Absent,
            },
            association.source.to_string().into(),
            association.destination.to_string().into(),
            time_of_day(association.began).into(),
            state(true),
            state(false),
        ];
        for by_source in [true, false] {
            let kinds = association.messages(by_source);
            cells.push(Cell::Count(kinds.values().sum()));
            let data = kinds.get(&m3ua::message::Kind::Data).copied();
            cells.push(Cell::Count(data.unwrap_or(0)));
        }
        table.push(Row::new(cells));
    }
    note_rest(&mut table, view.associations().len(), "associations");
    table.note(
        "SCTP: the number in the table of SCTP associations. State: of an end that is an ASP, by the acknowledgements \
         that it has got.",
    );
    table
}

fn messages(view: &M3uaView) -> Table {
    let mut table = Table::new("M3UA messages")
        .column(Column::text("Message").key())
        .column(Column::number("seen"));
    for (kind, count) in view.messages() {
        table.push(Row::new([kind.name().into(), (*count).into()]));
    }
    table
}

fn states(view: &M3uaView) -> Option<Table> {
    let mut table = Table::new("States of ASPs and ASs")
        .column(Column::text("Time (UTC)").key())
        .column(Column::number("M3UA association"))
        .column(Column::text("End"))
        .column(Column::text("State"))
        .column(Column::text("Routing contexts"));
    let mut changes: Vec<_> = numbered(view)
        .flat_map(|(number, association)| {
            let changes = association.changes().0.iter();
            changes.map(move |change| (number, association, change))
        })
        .collect();
    changes.sort_by_key(|(.., change)| change.time);
    for (number, association, change) in changes.iter().take(MOST_SHOWN) {
        let (state, contexts) = signalling_state(&change.state);
        table.push(Row::new([
            time_of_day(change.time).into(),
            Cell::Count(*number),
            association.end(change.is_source).to_string().into(),
            state.into(),
            match contexts {
                [] => Cell::Absent,
                contexts => joined(contexts).into(),
            },
        ]));
    }
    let omitted: u64 = numbered(view).map(|(_, one)| one.changes().1).sum();
    let all = changes.len() + usize::try_from(omitted).unwrap_or(usize::MAX);
    note_rest(&mut table, all, "changes");
    table.note(
        "ASP: of this end, when it was acknowledged. AS: as this end was notified. Without routing contexts: all of \
         the ASP's.",
    );
    (!changes.is_empty()).then_some(table)
}

fn user_messages(view: &M3uaView) -> Option<Table> {
    let mut table = Table::new("M3UA user messages")
        .column(Column::text("DPC").key())
        .column(Column::text("User").key())
        .column(Column::text("Message"))
        .column(Column::number("messages"))
        .column(Column::number("bytes"));
    let mut rows: Vec<_> = view.user_messages().collect();
    let all = rows.len();
    rows.sort_by_key(|(_, counted)| std::cmp::Reverse(counted.messages));
    rows.truncate(MOST_SHOWN);
    rows.sort_by_key(|(kind, _)| **kind);
    for (kind, counted) in &rows {
        table.push(Row::new([
            view.variant().write(kind.dpc).to_string().into(),
            kind.user().into(),
            match kind.name() {
                name if name.is_empty() => Cell::Absent,
                name => name.into(),
            },
            counted.messages.into(),
            counted.octets.into(),
        ]));
    }
    if all > MOST_SHOWN {
        table.note(format!(
            "The {MOST_SHOWN} most frequent of {}; --json FILE has all of them.",
            format_count(all as u64)
        ));
    }
    let others = view.other_user_messages().messages;
    if others > 0 {
        table.note(format!(
            "{} more messages of further destinations and users.",
            format_count(others)
        ));
    }
    (all > 0).then_some(table)
}

fn transactions(view: &M3uaView) -> Option<Table> {
    let transactions = view.transactions();
    let mut table = Table::new("M3UA requests")
        .column(Column::text("Request").key())
        .column(Column::number("answered"))
        .column(Column::number("refused"))
        .column(Column::number("unanswered"));
    for name in ["min", "mean", "p50", "p95", "p99", "max"] {
        table = table.column(Column::number(name).unit("ms").group("To the answer"));
    }
    for (kind, counted) in &transactions {
        let delay = counted.delay.milliseconds();
        let mut cells = vec![
            Cell::from(kind.name()),
            counted.answered.into(),
            counted.refused.into(),
            counted.unanswered.into(),
        ];
        let delays = [
            delay.min, delay.mean, delay.p50, delay.p95, delay.p99, delay.max,
        ];
        cells.extend(delays.map(|number| Cell::number(number, 3)));
        table.push(Row::new(cells));
    }
    table.note(
        "REG REQ: each routing key; DEREG REQ: each routing context; DAUD: each destination. Refused: by an ERR. What \
         is sent again counts once.",
    );
    (!transactions.is_empty()).then_some(table)
}

fn unanswered(view: &M3uaView, last: Time) -> Option<Table> {
    let mut table = Table::new("M3UA requests without an answer")
        .column(Column::text("Time (UTC)").key())
        .column(Column::number("M3UA association"))
        .column(Column::number("Packet"))
        .column(Column::text("By"))
        .column(Column::text("Request"))
        .column(Column::number("sent again"))
        .column(Column::number("Until the end of the capture").unit("s"));
    let mut requests: Vec<_> = numbered(view)
        .flat_map(|(number, association)| {
            let requests = association.unanswered();
            requests.map(move |request| (number, association, request))
        })
        .collect();
    requests.sort_by_key(|(.., request)| request.time);
    for (number, association, request) in requests.iter().take(MOST_SHOWN) {
        table.push(Row::new([
            time_of_day(request.time).into(),
            Cell::Count(*number),
            Cell::Count(request.packet),
            association.end(request.by_source).to_string().into(),
            request.request.as_str().into(),
            request.repeats.into(),
            Cell::number(Some((last - request.time) as f64 / 1e9), 3),
        ]));
    }
    note_rest(&mut table, requests.len(), "requests");
    (!requests.is_empty()).then_some(table)
}

fn numbered(view: &M3uaView) -> impl Iterator<Item = (u64, &M3uaAssociation)> {
    (1..).zip(view.associations())
}

fn note_rest(table: &mut Table, all: usize, what: &str) {
    if all > MOST_SHOWN {
        table.note(format!(
            "The first {MOST_SHOWN} of {} {what}; --json FILE has more of them.",
            format_count(all as u64)
        ));
    }
}

fn joined(contexts: &[u32]) -> String {
    let contexts = contexts.iter().map(u32::to_string);
    contexts.collect::<Vec<_>>().join(", ")
}
