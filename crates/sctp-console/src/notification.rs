//! Notifications as lines, with the names of RFC 6458 section 6.1 without their `SCTP_`.

use std::net::SocketAddr;

use bytes::Bytes;
use sctp::packet::Causes;
use sctp_net::{
    AddressChange, Association, AuthenticationIndication, CloseCause, Notification, PathChange,
    PathState, ReConfigurationOutcome, StreamDirection,
};

use crate::record::{Record, Subject};

/// An association is up.
pub(crate) async fn communication_up(
    subject: Subject,
    association: &Association,
    incoming: bool,
) -> Record {
    let record = Record::notification("COMM_UP", subject)
        .with("incoming", incoming)
        .with("outbound_streams", association.outbound_streams());
    // One that has ended already has no status any more.
    let status = association.status().await;
    record
        .with_some(
            "inbound_streams",
            status.as_ref().map(|status| status.inbound_streams),
        )
        .with_some("paths", status.as_ref().map(|status| status.paths.len()))
        .with_some("encapsulation_port", association.peer_encapsulation_port())
}

/// An association has ended.
pub(crate) fn ended(subject: Subject, cause: &CloseCause) -> Record {
    match cause {
        CloseCause::Shutdown => Record::notification("SHUTDOWN_COMP", subject),
        CloseCause::Lost(_) | CloseCause::StackClosed => {
            Record::notification("COMM_LOST", subject).with("error", cause)
        }
    }
}

/// An association could not be begun.
pub(crate) fn cannot_start(peer: SocketAddr, error: &sctp_net::ConnectError) -> Record {
    Record::cannot_start(peer).with("error", error)
}

/// What happened while the association was up.
pub(crate) fn during(subject: Subject, notification: Notification) -> Record {
    let named = |name| Record::notification(name, subject);
    match notification {
        Notification::PathChanged {
            path,
            change,
            state,
        } => named(path_change(change))
            .with("address", path.remote)
            .with_some("encapsulation_port", path.encapsulation_port)
            .with("state", path_state(state)),
        Notification::RemoteError { causes } => {
            named("REMOTE_ERROR").with("causes", cause_names(&causes))
        }
        Notification::SendFailed {
            info,
            payload,
            was_sent,
        } => named("SEND_FAILED_EVENT")
            .with("stream", info.stream)
            .with("ppid", info.ppid)
            .with("unordered", info.unordered)
            .with("data", if was_sent { "SENT" } else { "UNSENT" })
            .with("bytes", payload.len())
            .with_payload("text", shortened(payload)),
        Notification::PeerShutdown => named("SHUTDOWN_EVENT"),
        Notification::Restarted {
            outbound_streams,
            inbound_streams,
        } => named("RESTART")
            .with("outbound_streams", outbound_streams)
            .with("inbound_streams", inbound_streams),
        Notification::SenderDry => named("SENDER_DRY_EVENT"),
        Notification::Authentication(indication) => {
            let named = named("AUTHENTICATION_EVENT");
            match indication {
                AuthenticationIndication::NewKey { key } => {
                    named.with("indication", "NEW_KEY").with("key", key)
                }
                AuthenticationIndication::FreeKey { key } => {
                    named.with("indication", "FREE_KEY").with("key", key)
                }
                AuthenticationIndication::NoAuthentication => named.with("indication", "NO_AUTH"),
                other => named.with("indication", format!("{other:?}")),
            }
        }
        Notification::AddressChangeAnswered { change, outcome } => {
            let (request, address) = match change {
                AddressChange::Add(address) => ("add", address),
                AddressChange::Delete(address) => ("delete", address),
                AddressChange::SetPeerPrimary(address) => ("peer-primary", address),
            };
            named("ADDR_CHANGE_ANSWERED")
                .with("request", request)
                .with("address", address)
                .with("performed", outcome.is_ok())
                .with_some("reason", outcome.err())
        }
        Notification::AdaptationLayer { code_point } => {
            named("ADAPTATION_INDICATION").with("code_point", code_point)
        }
        Notification::StreamReset {
            direction,
            streams,
            outcome,
        } => named("STREAM_RESET_EVENT")
            .with("direction", direction_name(direction))
            .with("streams", stream_list(&streams))
            .with("outcome", outcome_name(outcome)),
        Notification::AssociationReset {
            local_tsn,
            remote_tsn,
            outcome,
        } => named("ASSOC_RESET_EVENT")
            .with("local_tsn", local_tsn)
            .with("remote_tsn", remote_tsn)
            .with("outcome", outcome_name(outcome)),
        Notification::StreamChange {
            outbound_streams,
            inbound_streams,
            outcome,
        } => named("STREAM_CHANGE_EVENT")
            .with("outbound_streams", outbound_streams)
            .with("inbound_streams", inbound_streams)
            .with("outcome", outcome_name(outcome)),
        Notification::PartialDeliveryAborted {
            stream,
            unordered,
            ssn,
        } => named("PARTIAL_DELIVERY_EVENT")
            .with("indication", "ABORTED")
            .with("stream", stream)
            .with("unordered", unordered)
            .with_some("ssn", (!unordered).then_some(ssn)),
    }
}

fn direction_name(direction: StreamDirection) -> &'static str {
    match direction {
        StreamDirection::Incoming => "incoming",
        StreamDirection::Outgoing => "outgoing",
    }
}

fn outcome_name(outcome: ReConfigurationOutcome) -> &'static str {
    match outcome {
        ReConfigurationOutcome::Performed => "performed",
        ReConfigurationOutcome::Denied => "denied",
        ReConfigurationOutcome::Failed => "failed",
    }
}

/// The streams of a reset; a peer may list very many.
fn stream_list(streams: &[u16]) -> String {
    const MAX_STREAMS: usize = 16;
    if streams.is_empty() {
        return "all".to_owned();
    }
    let shown = streams.iter().take(MAX_STREAMS);
    let mut list: Vec<String> = shown.map(u16::to_string).collect();
    if streams.len() > MAX_STREAMS {
        list.push(format!("and-{}-others", streams.len() - MAX_STREAMS));
    }
    list.join(",")
}

/// The state of a path (RFC 6458 section 8.2.2, RFC 7829 section 7.1).
pub(crate) fn path_state(state: PathState) -> &'static str {
    match state {
        PathState::Unconfirmed => "UNCONFIRMED",
        PathState::Active => "ACTIVE",
        PathState::PotentiallyFailed => "POTENTIALLY_FAILED",
        PathState::Inactive => "INACTIVE",
    }
}

/// What happened to a path (RFC 6458 section 6.1.2, RFC 7829 section 7.1).
fn path_change(change: PathChange) -> &'static str {
    match change {
        PathChange::Available => "ADDR_AVAILABLE",
        PathChange::Unreachable => "ADDR_UNREACHABLE",
        PathChange::PotentiallyFailed => "ADDR_POTENTIALLY_FAILED",
        PathChange::Confirmed => "ADDR_CONFIRMED",
        PathChange::MadePrimary => "ADDR_MADE_PRIM",
        PathChange::Added => "ADDR_ADDED",
        PathChange::Removed => "ADDR_REMOVED",
    }
}

/// The names of error causes; a peer may send very many.
fn cause_names(causes: &[u8]) -> String {
    const MAX_CAUSES: usize = 8;
    let names: Vec<String> = Causes::new(causes)
        .iter()
        .flatten()
        .take(MAX_CAUSES)
        .map(|cause| cause.code().to_string())
        .collect();
    names.join(", ")
}

/// Enough of a message to know it by: how many bytes it has is told, too.
fn shortened(payload: Bytes) -> Bytes {
    const MAX_SHOWN: usize = 64;
    payload.slice(..payload.len().min(MAX_SHOWN))
}
