//! The message trace: every message at debug level, octets that are none at trace level.

use sip::{Flow, Target, Transmit};

use crate::incoming::MalformedReason;

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
