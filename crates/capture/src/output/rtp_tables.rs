//! RTP streams in tables, ladders and JSON.

use std::time::Duration;

use report::{Cell, Column, Row, Table, format_count, format_number};
use serde::Serialize;

use super::time_of_day;
use crate::{RtpStream, RtpTotals, Session};

/// Streams shown.
const MOST_SHOWN: usize = 50;

/// The streams of sessions, each with the number of its session.
pub(super) fn streams_of_sessions(sessions: &[Session]) -> Option<Table> {
    let mut table = with_stream_columns(
        Table::new("RTP streams of sessions").column(Column::number("Session").key()),
    );
    let streams: Vec<(u64, &RtpStream)> = sessions
        .iter()
        .flat_map(|session| session.rtp.iter().map(|stream| (session.number, stream)))
        .collect();
    for (number, stream) in streams.iter().take(MOST_SHOWN) {
        let mut cells = vec![Cell::Count(*number)];
        cells.extend(stream_cells(stream));
        table.push(Row::new(cells));
    }
    if streams.len() > MOST_SHOWN {
        table.note(format!(
            "The first {MOST_SHOWN} of {}.",
            format_count(streams.len() as u64)
        ));
    }
    table.note(NOTE);
    (!streams.is_empty()).then_some(table)
}

/// The streams of one call.
pub fn rtp_table(streams: &[RtpStream]) -> Table {
    let mut table = with_stream_columns(Table::new("RTP streams"));
    for stream in streams {
        table.push(Row::new(stream_cells(stream)));
    }
    table.note(NOTE);
    table
}

/// All streams together; `None` where there is none.
pub(super) fn totals(totals: &RtpTotals) -> Option<Table> {
    let mut table = Table::new("RTP of all sessions")
        .column(Column::number("streams"))
        .column(Column::number("packets"))
        .column(Column::number("lost"))
        .column(Column::number("lost").unit("%"))
        .column(Column::number("duplicates"))
        .column(Column::number("reordered"));
    for name in ["mean", "p50", "p95", "max"] {
        table = table.column(Column::number(name).unit("ms").group("Jitter of a stream"));
    }
    let jitter = totals.jitter.milliseconds();
    let mut cells = vec![
        Cell::Count(totals.streams),
        totals.packets.into(),
        totals.lost.into(),
        Cell::number(lost_percent(totals), 2),
        totals.duplicates.into(),
        totals.reordered.into(),
    ];
    let jitters = [jitter.mean, jitter.p50, jitter.p95, jitter.max];
    cells.extend(jitters.map(|number| Cell::number(number, 3)));
    table.push(Row::new(cells));
    (totals.streams > 0).then_some(table)
}

/// A stream in a line of a ladder.
pub(crate) fn stream_label(stream: &RtpStream) -> String {
    let mut label = format!("RTP {} {}", stream.codec, format_count(stream.packets));
    if stream.lost() > 0 {
        label.push_str(&format!(
            " lost {}%",
            format_number(stream.lost_percent(), 1)
        ));
    }
    if let Some((mean, _)) = stream.jitter {
        let jitter = format_number(milliseconds(mean), 1);
        label.push_str(&format!(" jitter {jitter} ms"));
    }
    label
}

/// A stream in the JSON document.
#[derive(Serialize)]
pub(super) struct JsonStream<'s> {
    source: String,
    destination: String,
    ssrc: u32,
    codec: &'s str,
    began_s: f64,
    seconds: f64,
    packets: u64,
    lost: u64,
    lost_percent: f64,
    duplicates: u64,
    reordered: u64,
    jitter_mean_ms: Option<f64>,
    jitter_max_ms: Option<f64>,
    longest_gap_ms: f64,
}

impl<'s> JsonStream<'s> {
    pub(super) fn of(stream: &'s RtpStream) -> JsonStream<'s> {
        JsonStream {
            source: stream.source.to_string(),
            destination: stream.destination.to_string(),
            ssrc: stream.ssrc,
            codec: &stream.codec,
            began_s: stream.began.0 as f64 / 1e9,
            seconds: (stream.latest - stream.began) as f64 / 1e9,
            packets: stream.packets,
            lost: stream.lost(),
            lost_percent: stream.lost_percent(),
            duplicates: stream.duplicates,
            reordered: stream.reordered,
            jitter_mean_ms: stream.jitter.map(|(mean, _)| milliseconds(mean)),
            jitter_max_ms: stream.jitter.map(|(_, max)| milliseconds(max)),
            longest_gap_ms: milliseconds(stream.longest_gap),
        }
    }
}

/// All streams together in the JSON document.
#[derive(Serialize)]
pub(super) struct JsonRtp {
    streams: u64,
    packets: u64,
    lost: u64,
    lost_percent: Option<f64>,
    duplicates: u64,
    reordered: u64,
    jitter_ms: crate::DelaySummary,
}

impl JsonRtp {
    pub(super) fn of(totals: &RtpTotals) -> JsonRtp {
        JsonRtp {
            streams: totals.streams,
            packets: totals.packets,
            lost: totals.lost,
            lost_percent: lost_percent(totals),
            duplicates: totals.duplicates,
            reordered: totals.reordered,
            jitter_ms: totals.jitter.milliseconds(),
        }
    }
}

const NOTE: &str = "Jitter: RFC 3550 section 6.4.1, the mean and the largest over all packets. Gap: the longest time \
                    from one packet to the next. At the place of the capture.";

fn with_stream_columns(table: Table) -> Table {
    table
        .column(Column::text("From"))
        .column(Column::text("To"))
        .column(Column::text("SSRC"))
        .column(Column::text("Codec"))
        .column(Column::text("Began (UTC)"))
        .column(Column::number("Lasted").unit("s"))
        .column(Column::number("packets"))
        .column(Column::number("lost"))
        .column(Column::number("lost").unit("%"))
        .column(Column::number("duplicates"))
        .column(Column::number("reordered"))
        .column(Column::number("mean").unit("ms").group("Jitter"))
        .column(Column::number("max").unit("ms").group("Jitter"))
        .column(Column::number("Gap").unit("ms"))
}

fn stream_cells(stream: &RtpStream) -> Vec<Cell> {
    vec![
        stream.source.to_string().into(),
        stream.destination.to_string().into(),
        format!("{:08x}", stream.ssrc).into(),
        (*stream.codec).into(),
        time_of_day(stream.began).into(),
        Cell::number(Some((stream.latest - stream.began) as f64 / 1e9), 3),
        stream.packets.into(),
        stream.lost().into(),
        Cell::number(Some(stream.lost_percent()), 2),
        stream.duplicates.into(),
        stream.reordered.into(),
        Cell::number(stream.jitter.map(|(mean, _)| milliseconds(mean)), 3),
        Cell::number(stream.jitter.map(|(_, max)| milliseconds(max)), 3),
        Cell::number(Some(milliseconds(stream.longest_gap)), 3),
    ]
}

fn lost_percent(totals: &RtpTotals) -> Option<f64> {
    let expected = totals.packets + totals.lost;
    (expected > 0).then(|| 100.0 * totals.lost as f64 / expected as f64)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
