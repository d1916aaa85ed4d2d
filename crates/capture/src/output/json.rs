//! The JSON document: the envelope of all of the project, and one run in it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use report::{Document, Machine};
use sctp::packet::ChunkType;
use serde::Serialize;

use super::json_m3ua::JsonM3ua;
use super::rtp_tables::JsonRtp;
use super::{Blocks, Figures, FileSummary, Output, json_session};
use crate::{
    Association, Beginning, Count, DelaySummary, Direction, Ending, MetricsSummary, SctpTotals,
    Session,
};

/// A JSON document on its way into a file: sessions are written as they end, because there may be many, and
/// everything else behind them.
#[derive(Debug)]
pub struct JsonDocument<P, W> {
    out: Blocks<W>,
    machine: Machine,
    seed: u64,
    parameters: P,
    has_sessions: bool,
}

/// Stands for the sessions in what is written around them. Within a text its quotation marks would be
/// escaped, so that nothing else is taken for it.
const SESSIONS: &str = "the sessions";

impl<P: Serialize, W: Write> JsonDocument<P, W> {
    /// Begins the document: `parameters` is what was asked for.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn begin(machine: Machine, seed: u64, parameters: P, out: W) -> io::Result<Self> {
        let mut document = JsonDocument {
            out: Blocks::new(out),
            machine,
            seed,
            parameters,
            has_sessions: false,
        };
        let [before, _] = document.around(&RunBeginning { sessions: SESSIONS })?;
        document.push(&[before.as_bytes(), b"["])?;
        Ok(document)
    }

    /// Writes a session.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn session(&mut self, session: &Session, figures: &Figures) -> io::Result<()> {
        let separator: &[u8] = match std::mem::replace(&mut self.has_sessions, true) {
            true => b",\n        ",
            false => b"\n        ",
        };
        self.out.push(|text| {
            text.extend_from_slice(separator);
            json_session::push(session, figures, text);
        })
    }

    /// Hands on what was written so far.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes everything else.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn finish(mut self, output: &Output) -> io::Result<()> {
        let [_, behind] = self.around(&output.run())?;
        let end: &[u8] = if self.has_sessions {
            b"\n      ]"
        } else {
            b"]"
        };
        self.push(&[end])?;
        self.out.write_through(behind.as_bytes())?;
        self.push(&[b"\n"])?;
        self.out.flush()
    }

    fn push(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.out
            .push(|text| parts.iter().for_each(|part| text.extend_from_slice(part)))
    }

    /// The document before and behind its sessions.
    fn around(&self, run: &impl Serialize) -> io::Result<[String; 2]> {
        let document = Document::new(self.machine.clone(), self.seed, &self.parameters, vec![run]);
        let mut before = serde_json::to_string_pretty(&document)?;
        let name = "\"sessions\": ";
        let place = before
            .find(&format!("{name}\"{SESSIONS}\""))
            .ok_or_else(|| io::Error::other("the document has no place for sessions"))?
            + name.len();
        let behind = before.split_off(place);
        Ok([before, behind[SESSIONS.len() + 2..].to_owned()])
    }
}

/// What of a run is known when it begins.
#[derive(Serialize)]
struct RunBeginning {
    sessions: &'static str,
}

impl Output {
    /// The run without its sessions.
    fn run(&self) -> JsonAnalysis<'_> {
        let results = &self.results;
        let counts = |count: Count| JsonCount {
            messages: count.messages,
            retransmissions: count.retransmissions,
        };
        JsonAnalysis {
            sessions: SESSIONS,
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
            sessions_that_can_be_lost: results.losses.sessions(),
            lost_sessions: results.losses.lost_sessions(),
            missing_messages: results.losses.missing_messages(),
            losses: results
                .losses
                .by_message()
                .into_iter()
                .map(|loss| JsonLoss {
                    message: loss.milestone.name(),
                    seen: loss.seen,
                    missing: loss.missing,
                    lost_here_first: loss.first,
                })
                .collect(),
            rfc6076: results.metrics.summary(),
            registrations: results.metrics.registrations,
            session_requests: results.metrics.session_requests,
            undecided_sessions: results.metrics.undecided_sessions,
            undecided_registrations: results.metrics.undecided_registrations,
            standing_sessions: results.metrics.standing_sessions,
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
            rtp: JsonRtp::of(&results.rtp),
            m3ua: JsonM3ua::of(&results.m3ua),
            sctp: JsonSctp {
                packets: results.sctp.packets(),
                octets: results.sctp.octets(),
                chunks: results
                    .sctp
                    .chunks()
                    .map(|(chunk_type, count)| (chunk_type.to_string(), count))
                    .collect(),
                totals: totals(&results.sctp.totals()),
                associations: results
                    .sctp
                    .associations()
                    .iter()
                    .map(association)
                    .collect(),
            },
        }
    }
}

#[derive(Serialize)]
struct JsonAnalysis<'o> {
    /// Where the sessions are put.
    sessions: &'static str,
    files: &'o [FileSummary],
    began_s: Option<f64>,
    seconds: Option<f64>,
    remarks: &'o [String],
    most_open: usize,
    session_count: u64,
    outcomes: &'o BTreeMap<&'static str, u64>,
    delays_ms: JsonDelays,
    sessions_that_can_be_lost: u64,
    lost_sessions: u64,
    missing_messages: u64,
    losses: Vec<JsonLoss>,
    rfc6076: MetricsSummary,
    registrations: u64,
    session_requests: u64,
    undecided_sessions: u64,
    undecided_registrations: u64,
    standing_sessions: u64,
    requests: BTreeMap<&'static str, JsonCount>,
    responses: BTreeMap<u16, JsonCount>,
    transactions: BTreeMap<&'static str, JsonTransactions>,
    rtp: JsonRtp,
    m3ua: JsonM3ua,
    sctp: JsonSctp,
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
    totals: JsonTotals,
    /// The first ones.
    associations: Vec<JsonAssociation>,
}

#[derive(Serialize)]
struct JsonTotals {
    associations: u64,
    handshakes: u64,
    shut_down: u64,
    aborted: u64,
    tsns: u64,
    retransmitted_tsns: u64,
    duplicates_reported: u64,
    abandoned_tsns: u64,
    stream_resets: u64,
    stream_additions: u64,
    address_changes: u64,
    round_trips: u64,
    round_trip_min_ms: Option<f64>,
    round_trip_mean_ms: Option<f64>,
    round_trip_max_ms: Option<f64>,
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
    /// Changes of addresses and streams: the first ones.
    changes: Vec<JsonChange>,
}

#[derive(Serialize)]
struct JsonChange {
    /// Seconds since the first packet of the association.
    at_s: f64,
    by: String,
    request: String,
    /// `null` while there is no answer.
    outcome: Option<String>,
}

#[derive(Serialize)]
struct JsonDirection {
    packets: u64,
    octets: u64,
    tsns: u64,
    retransmitted_tsns: u64,
    duplicates_reported: u64,
    abandoned_tsns: u64,
    stream_resets: u64,
    stream_additions: u64,
    address_changes: u64,
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

fn totals(totals: &SctpTotals) -> JsonTotals {
    let round_trip = totals.round_trip.milliseconds();
    JsonTotals {
        associations: totals.associations,
        handshakes: totals.handshakes,
        shut_down: totals.shut_down,
        aborted: totals.aborted,
        tsns: totals.tsns,
        retransmitted_tsns: totals.retransmitted_tsns,
        duplicates_reported: totals.duplicates_reported,
        abandoned_tsns: totals.abandoned_tsns,
        stream_resets: totals.stream_resets,
        stream_additions: totals.stream_additions,
        address_changes: totals.address_changes,
        round_trips: totals.round_trip.count,
        round_trip_min_ms: round_trip.map(|(min, ..)| min),
        round_trip_mean_ms: round_trip.map(|(_, mean, _)| mean),
        round_trip_max_ms: round_trip.map(|(.., max)| max),
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
        changes: association
            .changes()
            .iter()
            .map(|change| JsonChange {
                at_s: (change.time - association.began) as f64 / 1e9,
                by: match change.is_forward {
                    true => association.source.to_string(),
                    false => association.destination.to_string(),
                },
                request: change.request.to_string(),
                outcome: change.outcome.as_ref().map(ToString::to_string),
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
        abandoned_tsns: direction.abandoned_tsns,
        stream_resets: direction.stream_resets,
        stream_additions: direction.stream_additions,
        address_changes: direction.address_changes,
        chunks: direction
            .chunks
            .iter()
            .map(|(chunk_type, count)| (ChunkType(*chunk_type).to_string(), *count))
            .collect(),
    }
}
