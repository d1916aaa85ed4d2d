//! The message trace: every message at debug level, octets that are none at trace level; and the
//! capture of messages.

use std::time::SystemTime;

use sip::{Flow, Target, Transmit, Transport};
use tap::{Direction, PortKind, SipRecord, SipTap};

use crate::incoming::MalformedReason;

/// Whether messages are shown.
pub(crate) fn is_on() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// A message that came in.
pub(crate) fn received(flow: &Flow, message: &[u8]) {
    tracing::debug!(
        transport = %flow.transport,
        from = %flow.remote,
        to = %flow.local,
        connection = flow.connection.0,
        stream = flow.stream,
        "received {} bytes\n{}",
        message.len(),
        String::from_utf8_lossy(message),
    );
}

/// A message that is to go out.
pub(crate) fn sending(transmit: &Transmit) {
    let message = &transmit.payload;
    match transmit.target {
        Target::Flow(flow) | Target::FlowOrAddress(flow, _) => tracing::debug!(
            transport = %flow.transport,
            from = %flow.local,
            to = %flow.remote,
            connection = flow.connection.0,
            stream = flow.stream,
            "sending {} bytes\n{}",
            message.len(),
            String::from_utf8_lossy(message),
        ),
        Target::Address(transport, remote) => tracing::debug!(
            %transport,
            to = %remote,
            "sending {} bytes\n{}",
            message.len(),
            String::from_utf8_lossy(message),
        ),
    }
}

/// Octets that are no message.
pub(crate) fn malformed(flow: &Flow, bytes: &[u8], reason: MalformedReason) {
    tracing::debug!(
        transport = %flow.transport,
        from = %flow.remote,
        to = %flow.local,
        connection = flow.connection.0,
        bytes = bytes.len(),
        %reason,
        "malformed",
    );
    tracing::trace!("{}", bytes.escape_ascii());
}

/// Records a message.
pub(crate) fn capture(tap: &SipTap, flow: &Flow, direction: Direction, message: &[u8]) {
    let (source, destination) = match direction {
        Direction::Inbound => (flow.remote, flow.local),
        Direction::Outbound => (flow.local, flow.remote),
    };
    let ports = match flow.transport {
        Transport::Udp => PortKind::Udp,
        Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => PortKind::Tcp,
        Transport::Sctp | Transport::TlsSctp => PortKind::Sctp,
    };
    tap.record(&SipRecord {
        time: SystemTime::now(),
        direction,
        ports,
        transport: flow.transport.via_name(),
        source,
        destination,
        message,
    });
}
