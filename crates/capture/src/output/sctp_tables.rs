//! Tables of SCTP associations.

use report::{Cell, Column, Row, Table, format_count};
use sctp::packet::ChunkType;

use crate::{Association, Beginning, Direction, Ending, SctpView};

/// Associations and paths shown.
const MOST_SHOWN: usize = 50;

pub(super) fn tables(view: &SctpView) -> Vec<Table> {
    if view.packets() == 0 {
        return Vec::new();
    }
    let mut tables = vec![associations(view), paths(view)];
    tables.extend(extensions(view));
    tables.extend(changes(view));
    if view.totals().associations > MOST_SHOWN as u64 {
        tables.push(totals(view));
    }
    tables.push(chunks(view));
    tables
}

fn totals(view: &SctpView) -> Table {
    let totals = view.totals();
    let mut table = Table::new("All SCTP associations")
        .column(Column::number("associations"))
        .column(Column::number("set up"))
        .column(Column::number("shut down"))
        .column(Column::number("aborted"))
        .column(Column::number("TSNs"))
        .column(Column::number("Duplicate TSNs"))
        .column(Column::number("duplicates reported"))
        .column(Column::number("abandoned TSNs"))
        .column(Column::number("stream resets"))
        .column(Column::number("address changes"))
        .column(Column::number("samples").group("Round trip"));
    for name in ["min", "mean", "max"] {
        table = table.column(Column::number(name).group("Round trip").unit("ms"));
    }
    let round_trip = totals.round_trip.milliseconds();
    table.push(Row::new([
        totals.associations.into(),
        totals.handshakes.into(),
        totals.shut_down.into(),
        totals.aborted.into(),
        totals.tsns.into(),
        totals.retransmitted_tsns.into(),
        totals.duplicates_reported.into(),
        totals.abandoned_tsns.into(),
        totals.stream_resets.into(),
        totals.address_changes.into(),
        totals.round_trip.count.into(),
        Cell::number(round_trip.map(|(min, ..)| min), 3),
        Cell::number(round_trip.map(|(_, mean, _)| mean), 3),
        Cell::number(round_trip.map(|(.., max)| max), 3),
    ]));
    table
}

fn associations(view: &SctpView) -> Table {
    let mut table = Table::new("SCTP associations")
        .column(Column::number("No.").key())
        .column(Column::text("From"))
        .column(Column::text("To"))
        .column(Column::text("UDP ports"))
        .column(Column::text("Began"))
        .column(Column::text("Ended"));
    for way in ["From → to", "To → from"] {
        for name in ["packets", "DATA", "Duplicate TSNs", "SACK"] {
            table = table.column(Column::number(name).group(way));
        }
    }
    for (at, association) in view.associations().iter().take(MOST_SHOWN).enumerate() {
        let mut cells = vec![
            Cell::Count(at as u64 + 1),
            association.source.to_string().into(),
            association.destination.to_string().into(),
            match association.udp {
                Some((source, destination)) => format!("{source} → {destination}").into(),
                None => Cell::Absent,
            },
            beginning(association).into(),
            ending(association).into(),
        ];
        for direction in [&association.forward, &association.backward] {
            cells.extend(counts(direction).map(Cell::Count));
        }
        table.push(Row::new(cells));
    }
    let (listed, all) = (view.associations().len(), view.totals().associations);
    if all > MOST_SHOWN as u64 {
        let in_json = match listed as u64 == all {
            true => "all of them".to_owned(),
            false => format!("the first {}, and sums of all", format_count(listed as u64)),
        };
        table.note(format!(
            "The first {} of {} associations; --json FILE has {in_json}.",
            MOST_SHOWN.min(listed),
            format_count(all)
        ));
    }
    table.note(
        "DATA: DATA and I-DATA chunks; SACK: SACK and NR-SACK chunks. Duplicate TSNs: DATA chunks whose TSN the capture \
         has seen before.",
    );
    table
}

fn counts(direction: &Direction) -> [u64; 4] {
    [
        direction.packets,
        direction.chunks_of(ChunkType::DATA) + direction.chunks_of(ChunkType::I_DATA),
        direction.retransmitted_tsns,
        direction.chunks_of(ChunkType::SACK) + direction.chunks_of(ChunkType::NR_SACK),
    ]
}

fn beginning(association: &Association) -> String {
    match association.beginning {
        Beginning::Before => "before".to_owned(),
        Beginning::Init => "INIT".to_owned(),
        Beginning::Handshake(nanoseconds) => {
            let milliseconds = report::format_milliseconds(nanoseconds as f64 / 1e6);
            format!("set up in {milliseconds} ms")
        }
    }
}

fn ending(association: &Association) -> &'static str {
    match association.ending {
        Ending::Open => "–",
        Ending::ShuttingDown => "SHUTDOWN",
        Ending::Shutdown => "shut down",
        Ending::Aborted => "ABORT",
    }
}

fn paths(view: &SctpView) -> Table {
    let mut table = Table::new("SCTP paths")
        .column(Column::number("Association").key())
        .column(Column::text("From"))
        .column(Column::text("To"))
        .column(Column::number("packets"))
        .column(Column::number("DATA"))
        .column(Column::number("Duplicate TSNs"))
        .column(Column::number("sent").group("HEARTBEAT"))
        .column(Column::number("answered").group("HEARTBEAT"))
        .column(Column::number("samples").group("Round trip"));
    for name in ["min", "mean", "max"] {
        table = table.column(Column::number(name).group("Round trip").unit("ms"));
    }
    for (at, association) in view.associations().iter().take(MOST_SHOWN).enumerate() {
        for path in association.paths() {
            let round_trip = path.round_trip.milliseconds();
            table.push(Row::new([
                Cell::Count(at as u64 + 1),
                path.source.to_string().into(),
                path.destination.to_string().into(),
                path.packets.into(),
                path.data_chunks.into(),
                path.retransmitted_tsns.into(),
                path.heartbeats.into(),
                path.heartbeats_answered.into(),
                path.round_trip.count.into(),
                Cell::number(round_trip.map(|(min, ..)| min), 3),
                Cell::number(round_trip.map(|(_, mean, _)| mean), 3),
                Cell::number(round_trip.map(|(.., max)| max), 3),
            ]));
        }
    }
    table.note(
        "Round trip: from a DATA chunk that was sent once, or a HEARTBEAT, to its acknowledgement, at the place of \
         the capture. At the receiver, it is the delay of acknowledgements.",
    );
    table
}

/// What extensions did; `None` where no association that is shown has used one of them.
fn extensions(view: &SctpView) -> Option<Table> {
    let mut table = Table::new("SCTP extensions")
        .column(Column::number("Association").key())
        .column(Column::text("From"))
        .column(Column::text("To"))
        .column(Column::number("I-DATA"))
        .column(Column::number("NR-SACK"))
        .column(Column::number("AUTH"))
        .column(Column::number("abandoned TSNs"))
        .column(Column::number("stream resets"))
        .column(Column::number("stream additions"))
        .column(Column::number("address changes"));
    let mut is_empty = true;
    for (at, association) in view.associations().iter().take(MOST_SHOWN).enumerate() {
        let (source, destination) = (association.source, association.destination);
        for (direction, from, to) in [
            (&association.forward, source, destination),
            (&association.backward, destination, source),
        ] {
            let counts = [
                direction.chunks_of(ChunkType::I_DATA),
                direction.chunks_of(ChunkType::NR_SACK),
                direction.chunks_of(ChunkType::AUTH),
                direction.abandoned_tsns,
                direction.stream_resets,
                direction.stream_additions,
                direction.address_changes,
            ];
            if counts == [0; 7] {
                continue;
            }
            is_empty = false;
            let mut cells = vec![
                Cell::Count(at as u64 + 1),
                from.to_string().into(),
                to.to_string().into(),
            ];
            cells.extend(counts.map(Cell::Count));
            table.push(Row::new(cells));
        }
    }
    table.note(
        "Abandoned TSNs: those that FORWARD-TSN or I-FORWARD-TSN skips and that were not acknowledged. Requests that \
         are sent again are counted once.",
    );
    (!is_empty).then_some(table)
}

/// Changes of addresses and streams; `None` where there is none.
fn changes(view: &SctpView) -> Option<Table> {
    let mut table = Table::new("SCTP address and stream changes")
        .column(Column::number("Association").key())
        .column(Column::number("Time").unit("s"))
        .column(Column::text("By"))
        .column(Column::text("Request"))
        .column(Column::text("Outcome"));
    let mut shown = 0;
    for (at, association) in view.associations().iter().take(MOST_SHOWN).enumerate() {
        for change in association.changes().iter().take(MOST_SHOWN - shown) {
            shown += 1;
            let by = match change.is_forward {
                true => association.source,
                false => association.destination,
            };
            let seconds = (change.time - association.began) as f64 / 1e9;
            table.push(Row::new([
                Cell::Count(at as u64 + 1),
                Cell::number(Some(seconds), 6),
                by.to_string().into(),
                change.request.to_string().into(),
                match &change.outcome {
                    Some(outcome) => outcome.to_string().into(),
                    None => Cell::Absent,
                },
            ]));
        }
    }
    table.note("Time: since the first packet of the association.");
    (shown > 0).then_some(table)
}

fn chunks(view: &SctpView) -> Table {
    let mut table = Table::new("SCTP chunks")
        .column(Column::text("Chunk").key())
        .column(Column::number("seen"));
    for (chunk_type, count) in view.chunks() {
        table.push(Row::new([chunk_type.to_string().into(), count.into()]));
    }
    table.note(format!(
        "{} packets of {} bytes.",
        format_count(view.packets()),
        format_count(view.octets())
    ));
    table
}
