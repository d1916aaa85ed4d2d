//! The JSON document: the envelope of all of the project, and one run in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use report::{Document, Machine};
use sctp::packet::ChunkType;
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{FileSummary, Output, session_table};
use crate::{
    Association, Beginning, Count, DelaySummary, Direction, Ending, Event, MetricsSummary, Session,
    Time,
};

/// Sessions on their way into a JSON document: a line each, kept elsewhere because there may be many.
#[derive(Debug)]
pub struct JsonSessions<R>(RefCell<R>);

impl<R: BufRead> JsonSessions<R> {
    /// Sessions as [`JsonSessions::line`] has made them.
    pub fn new(lines: R) -> JsonSessions<R> {
        JsonSessions(RefCell::new(lines))
    }
}

impl JsonSessions<()> {
    /// A session as a line, with its line end. `origin` is when the capture began.
    ///
    /// # Errors
    ///
    /// None that is known; serialisation could fail in principle.
    pub fn line(session: &Session, origin: Time) -> serde_json::Result<String> {
        let milliseconds = |delay: Option<i64>| delay.map(|delay| delay as f64 / 1e6);
        let seconds = |delay: Option<i64>| delay.map(|delay| delay as f64 / 1e9);
        let timestamps = Event::ALL.map(|event| {
            let time = session.timestamps.get(event);
            (event.name(), seconds(time.map(|time| time - origin)))
        });
        let mut line = serde_json::to_string(&JsonSession {
            session: session.number,
            call_ids: &session.call_ids,
            from: &session.from,
            to: &session.to,
            transport: session_table::transport(session),
            outcome: session.outcome.text(),
            status: session.outcome.status(),
            timestamps_s: Pairs(&timestamps),
            register_delay_1_ms: milliseconds(session.register_delay_1()),
            register_delay_2_ms: milliseconds(session.register_delay_2()),
            invite_delay_ms: milliseconds(session.invite_delay()),
            call_setup_delay_ms: milliseconds(session.call_setup_delay()),
            session_request_delay_ms: milliseconds(session.session_request_delay),
            session_disconnect_delay_ms: milliseconds(session.session_disconnect_delay),
            session_duration_s: seconds(session.session_duration),
            messages: session.messages,
            retransmissions: session.retransmissions,
        })?;
        line.push('\n');
        Ok(line)
    }
}

impl Output {
    /// Writes the document: `parameters` is what was asked for, `sessions` are those of all calls.
    ///
    /// # Errors
    ///
    /// When sessions cannot be read or the document cannot be written.
    pub fn write_json<P: Serialize, R: BufRead>(
        &self,
        machine: Machine,
        seed: u64,
        parameters: P,
        sessions: &JsonSessions<R>,
        mut out: impl Write,
    ) -> io::Result<()> {
        let run = self.run(sessions);
        let document = Document::new(machine, seed, parameters, vec![run]);
        serde_json::to_writer_pretty(&mut out, &document)?;
        out.write_all(b"\n")?;
        out.flush()
    }

    fn run<'o, R: BufRead>(&'o self, sessions: &'o JsonSessions<R>) -> Run<'o, R> {
        let results = &self.results;
        let counts = |count: Count| JsonCount {
            messages: count.messages,
            retransmissions: count.retransmissions,
        };
        Run {
            files: &self.files,
            began_s: results.first.map(|first| first.0 as f64 / 1e9),
            seconds: match (results.first, results.last) {
                (Some(first), Some(last)) => Some((last - first) as f64 / 1e9),
                _ => None,
            },
            remarks: &results.remarks,
            most_open: results.most_open,
            session_count: self.sessions,
            outcomes: &results.outcomes,
            delays_ms: JsonDelays {
                register: results.delays.register.milliseconds(),
                invite_processing: results.delays.invite.milliseconds(),
                call_setup: results.delays.call_setup.milliseconds(),
            },
            lost_sessions: results.losses.lost_sessions(),
            missing_messages: results.losses.missing_messages(),
            losses: results
                .losses
                .by_message()
                .into_iter()
                .map(|loss| JsonLoss {
                    message: loss.event.name(),
                    seen: loss.seen,
                    missing: loss.missing,
                    lost_here_first: loss.first,
                })
                .collect(),
            rfc6076: results.metrics.summary(),
            registrations: results.metrics.registrations,
            session_requests: results.metrics.session_requests,
            undecided_sessions: results.metrics.undecided_sessions,
            requests: results
                .codes
                .requests()
                .map(|(method, count)| (method, counts(count)))
                .collect(),
            responses: results
                .codes
                .responses()
                .map(|(status, count)| (status, counts(count)))
                .collect(),
            transactions: results
                .codes
                .transactions()
                .map(|(method, transactions)| {
                    let transactions = JsonTransactions {
                        answered: transactions.answered,
                        unanswered: transactions.unanswered,
                        response_time_ms: transactions.delay.milliseconds(),
                    };
                    (method, transactions)
                })
                .collect(),
            sctp: JsonSctp {
                packets: results.sctp.packets(),
                octets: results.sctp.octets(),
                chunks: results
                    .sctp
                    .chunks()
                    .map(|(chunk_type, count)| (chunk_type.to_string(), count))
                    .collect(),
                associations: results
                    .sctp
                    .associations()
                    .iter()
                    .map(association)
                    .collect(),
            },
            sessions,
        }
    }
}

#[derive(Serialize)]
#[serde(bound = "")]
struct Run<'o, R: BufRead> {
    files: &'o [FileSummary],
    began_s: Option<f64>,
    seconds: Option<f64>,
    remarks: &'o [String],
    most_open: usize,
    session_count: u64,
    outcomes: &'o BTreeMap<&'static str, u64>,
    delays_ms: JsonDelays,
    lost_sessions: u64,
    missing_messages: u64,
    losses: Vec<JsonLoss>,
    rfc6076: MetricsSummary,
    registrations: u64,
    session_requests: u64,
    undecided_sessions: u64,
    requests: BTreeMap<&'static str, JsonCount>,
    responses: BTreeMap<u16, JsonCount>,
    transactions: BTreeMap<&'static str, JsonTransactions>,
    sctp: JsonSctp,
    sessions: &'o JsonSessions<R>,
}

#[derive(Serialize)]
struct JsonDelays {
    register: DelaySummary,
    invite_processing: DelaySummary,
    call_setup: DelaySummary,
}

#[derive(Serialize)]
struct JsonLoss {
    message: &'static str,
    seen: u64,
    missing: u64,
    lost_here_first: u64,
}

#[derive(Serialize)]
struct JsonCount {
    messages: u64,
    retransmissions: u64,
}

#[derive(Serialize)]
struct JsonTransactions {
    answered: u64,
    unanswered: u64,
    response_time_ms: DelaySummary,
}

#[derive(Serialize)]
struct JsonSctp {
    packets: u64,
    octets: u64,
    chunks: BTreeMap<String, u64>,
    associations: Vec<JsonAssociation>,
}

#[derive(Serialize)]
struct JsonAssociation {
    source: String,
    destination: String,
    udp_ports: Option<(u16, u16)>,
    began: &'static str,
    set_up_ms: Option<f64>,
    ended: &'static str,
    forward: JsonDirection,
    backward: JsonDirection,
    paths: Vec<JsonPath>,
}

#[derive(Serialize)]
struct JsonDirection {
    packets: u64,
    octets: u64,
    tsns: u64,
    retransmitted_tsns: u64,
    duplicates_reported: u64,
    chunks: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct JsonPath {
    source: String,
    destination: String,
    packets: u64,
    data_chunks: u64,
    retransmitted_tsns: u64,
    heartbeats: u64,
    heartbeats_answered: u64,
    round_trips: u64,
    round_trip_min_ms: Option<f64>,
    round_trip_mean_ms: Option<f64>,
    round_trip_max_ms: Option<f64>,
}

#[derive(Serialize)]
struct JsonSession<'s> {
    session: u64,
    call_ids: &'s [Box<str>],
    from: &'s str,
    to: &'s str,
    transport: String,
    outcome: &'static str,
    status: Option<u16>,
    timestamps_s: Pairs<'s>,
    register_delay_1_ms: Option<f64>,
    register_delay_2_ms: Option<f64>,
    invite_delay_ms: Option<f64>,
    call_setup_delay_ms: Option<f64>,
    session_request_delay_ms: Option<f64>,
    session_disconnect_delay_ms: Option<f64>,
    session_duration_s: Option<f64>,
    messages: u64,
    retransmissions: u64,
}

/// An object with its members in this order.
struct Pairs<'s>(&'s [(&'static str, Option<f64>)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<R: BufRead> Serialize for JsonSessions<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines = self.0.borrow_mut();
        let mut sequence = serializer.serialize_seq(None)?;
        let mut line = String::new();
        while lines.read_line(&mut line).map_err(S::Error::custom)? > 0 {
            let session: &RawValue = serde_json::from_str(&line).map_err(S::Error::custom)?;
            sequence.serialize_element(session)?;
            line.clear();
        }
        sequence.end()
    }
}

fn association(association: &Association) -> JsonAssociation {
    JsonAssociation {
        source: association.source.to_string(),
        destination: association.destination.to_string(),
        udp_ports: association.udp,
        began: match association.beginning {
            Beginning::Before => "before the capture",
            Beginning::Init => "INIT",
            Beginning::Handshake(_) => "handshake",
        },
        set_up_ms: match association.beginning {
            Beginning::Handshake(nanoseconds) => Some(nanoseconds as f64 / 1e6),
            _ => None,
        },
        ended: match association.ending {
            Ending::Open => "open",
            Ending::ShuttingDown => "shutting down",
            Ending::Shutdown => "shut down",
            Ending::Aborted => "aborted",
        },
        forward: direction(&association.forward),
        backward: direction(&association.backward),
        paths: association
            .paths()
            .iter()
            .map(|path| {
                let round_trip = path.round_trip.milliseconds();
                JsonPath {
                    source: path.source.to_string(),
                    destination: path.destination.to_string(),
                    packets: path.packets,
                    data_chunks: path.data_chunks,
                    retransmitted_tsns: path.retransmitted_tsns,
                    heartbeats: path.heartbeats,
                    heartbeats_answered: path.heartbeats_answered,
                    round_trips: path.round_trip.count,
                    round_trip_min_ms: round_trip.map(|(min, ..)| min),
                    round_trip_mean_ms: round_trip.map(|(_, mean, _)| mean),
                    round_trip_max_ms: round_trip.map(|(.., max)| max),
                }
            })
            .collect(),
    }
}

fn direction(direction: &Direction) -> JsonDirection {
    JsonDirection {
        packets: direction.packets,
        octets: direction.octets,
        tsns: direction.tsns,
        retransmitted_tsns: direction.retransmitted_tsns,
        duplicates_reported: direction.duplicates_reported,
        chunks: direction
            .chunks
            .iter()
            .map(|(chunk_type, count)| (ChunkType(*chunk_type).to_string(), *count))
            .collect(),
    }
}
