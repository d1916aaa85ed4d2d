//! Answers to `/paths`, `/stats` and the like.

use std::time::Duration;

use sctp_net::{
    AssociationState, AssociationStatistics, AssociationStatus, EndpointConfig, PathStatus,
    StackStatistics,
};

use crate::command::USAGES;
use crate::notification::path_state;
use crate::parameters::PARAMETERS;
use crate::record::{Record, Subject};
use crate::session::Received;

/// A line for each path of an association.
pub(crate) fn paths(subject: Subject, status: &AssociationStatus) -> Vec<Record> {
    let is_primary = |path: &PathStatus| path.address.remote == status.primary;
    status
        .paths
        .iter()
        .map(|path| {
            Record::report("path")
                .about(subject)
                .with("address", path.address.remote)
                .with_some("encapsulation_port", path.address.encapsulation_port)
                .with_some("local", path.address.local)
                .with("primary", is_primary(path))
                .with("state", path_state(path.state))
                .with_some("srtt_ms", path.srtt.map(milliseconds))
                .with("rto_ms", milliseconds(path.rto))
                .with("congestion_control", path.congestion_control.to_string())
                .with("cwnd", path.cwnd)
                .with("ssthresh", path.ssthresh)
                .with("mtu", path.mtu)
                .with("errors", path.error_count)
                .with("outstanding_bytes", path.outstanding_bytes)
        })
        .collect()
}

/// The state of an association (RFC 9260 section 11.1.8, STATUS).
pub(crate) fn status(subject: Subject, status: &AssociationStatus) -> Record {
    let addresses: Vec<String> = status
        .local_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    Record::report("status")
        .about(subject)
        .with("state", state(status.state))
        .with("outbound_streams", status.outbound_streams)
        .with("inbound_streams", status.inbound_streams)
        .with("peer_rwnd", status.peer_rwnd)
        .with("outstanding_bytes", status.outstanding_bytes)
        .with("unacknowledged_chunks", status.unacknowledged_chunks)
        .with("unsent_messages", status.unsent_messages)
        .with("send_buffer_bytes", status.send_buffer_bytes)
        .with("receive_buffer_bytes", status.receive_buffer_bytes)
        .with("pending_receipt", status.pending_receipt)
        .with("extensions", status.extensions)
        .with("paths", status.paths.len())
        .with("primary", status.primary)
        .with_some(
            "local_addresses",
            (!addresses.is_empty()).then(|| addresses.join(",")),
        )
}

/// What an association has counted.
pub(crate) fn counters(
    subject: Subject,
    statistics: &AssociationStatistics,
    received: &Received,
) -> Record {
    let (messages, bytes) = received.totals();
    Record::report("counters")
        .about(subject)
        .with("messages_sent", statistics.messages_sent)
        .with("messages_received", messages)
        .with("bytes_received", bytes)
        .with("packets_sent", statistics.packets_sent)
        .with("packets_received", statistics.packets_received)
        .with("data_chunks_sent", statistics.data_chunks_sent)
        .with("data_chunks_received", statistics.data_chunks_received)
        .with(
            "retransmitted_by_timeout",
            statistics.retransmitted_by_timeout,
        )
        .with("retransmitted_fast", statistics.retransmitted_fast)
        .with("duplicates_received", statistics.duplicates_received)
        .with("abandoned_unsent", statistics.abandoned.total().unsent)
        .with("abandoned_sent", statistics.abandoned.total().sent)
}

/// What the stack has counted.
pub(crate) fn stack(statistics: &StackStatistics) -> Record {
    let sctp = &statistics.sctp;
    Record::report("stack")
        .with("packets_sent", sctp.packets_sent)
        .with("bytes_sent", sctp.bytes_sent)
        .with("packets_received", sctp.packets_received)
        .with("bytes_received", sctp.bytes_received)
        .with("retransmissions", statistics.retransmissions())
        .with("out_of_the_blue", statistics.out_of_the_blue)
        .with("not_for_us", statistics.not_for_us)
        .with("accept_overflows", statistics.accept_overflows)
}

/// What was dropped and why; only reasons that there were.
pub(crate) fn drops(statistics: &StackStatistics) -> Option<Record> {
    // The counters by their names, as `Debug` tells them: one that is added later is told, too.
    let drops = format!("{:?}", statistics.sctp.drops);
    let (_, fields) = drops.split_once('{')?;
    let mut counted = fields
        .trim_end_matches('}')
        .split(',')
        .map(str::trim)
        .filter(|field| !field.is_empty() && !field.ends_with(": 0"))
        .peekable();
    counted.peek()?;
    let reasons: Vec<String> = counted.map(|field| field.replace(": ", ":")).collect();
    Some(Record::report("drops").with("reasons", reasons.join(",")))
}

/// The settings that are not the default ones.
pub(crate) fn settings(config: &EndpointConfig) -> Vec<Record> {
    let defaults = EndpointConfig::default();
    PARAMETERS
        .iter()
        .filter_map(|parameter| {
            let (value, default) = (parameter.value(config), parameter.value(&defaults));
            (value != default).then(|| {
                Record::report("setting")
                    .with("name", parameter.name)
                    .with("value", value)
                    .with("default", default)
            })
        })
        .collect()
}

/// How commands are written.
pub(crate) fn help() -> Vec<Record> {
    let text = Record::report("help").with("line", "TEXT").with(
        "meaning",
        "send TEXT on stream 0; // in place of / begins a message with it",
    );
    let commands = USAGES.iter().map(|usage| {
        Record::report("help")
            .with("line", usage.line)
            .with("meaning", usage.meaning)
    });
    std::iter::once(text).chain(commands).collect()
}

/// The names of RFC 9260 section 4.
fn state(state: AssociationState) -> &'static str {
    match state {
        AssociationState::Closed => "CLOSED",
        AssociationState::CookieWait => "COOKIE-WAIT",
        AssociationState::CookieEchoed => "COOKIE-ECHOED",
        AssociationState::Established => "ESTABLISHED",
        AssociationState::ShutdownPending => "SHUTDOWN-PENDING",
        AssociationState::ShutdownSent => "SHUTDOWN-SENT",
        AssociationState::ShutdownReceived => "SHUTDOWN-RECEIVED",
        AssociationState::ShutdownAckSent => "SHUTDOWN-ACK-SENT",
    }
}

fn milliseconds(time: Duration) -> f64 {
    // Microseconds are what is measured; more digits would be made up.
    time.as_micros() as f64 / 1000.0
}
