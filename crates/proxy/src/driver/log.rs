//! One line in the log for a registration and for a call. What comes from messages is quoted: it may
//! hold anything.

use std::fmt;

use sip::Flow;

use crate::core::{Call, Event, MemberState};

/// Writes an event of the core to the log.
pub(super) fn write(event: &Event) {
    match event {
        Event::Registered {
            address,
            contact,
            flow,
            expires,
        } => tracing::info!(
            user = ?address.as_str(),
            contact = ?contact,
            flow = %Along(flow),
            expires_seconds = expires.as_secs(),
            "registered"
        ),
        Event::Unregistered {
            address,
            contact,
            flow,
        } => tracing::info!(
            user = ?address.as_str(),
            contact = ?contact,
            flow = %Along(flow),
            "unregistered"
        ),
        Event::AuthenticationFailed {
            realm,
            username,
            flow,
        } => tracing::warn!(
            realm = ?realm,
            username = ?username,
            flow = %Along(flow),
            "authentication failed"
        ),
        Event::CallStarted(call) => {
            let Call {
                call_id,
                caller,
                callee,
                ..
            } = &**call;
            tracing::debug!(caller = ?caller, callee = ?callee, call_id = ?call_id, "call started");
        }
        Event::CallAnswered(answered) => {
            let Call {
                call_id,
                caller,
                callee,
                ..
            } = &*answered.call;
            tracing::info!(caller = ?caller, callee = ?callee, outcome = "answered", call_id = ?call_id, "call");
        }
        Event::CallFailed {
            call,
            status,
            reason,
        } => tracing::info!(
            caller = ?call.caller,
            callee = ?call.callee,
            outcome = ?format_args!("{status} {reason}"),
            call_id = ?call.call_id,
            "call"
        ),
        Event::NextHop {
            transport,
            remote,
            outcome,
        } => tracing::debug!(%transport, %remote, ?outcome, "next hop failed"),
        Event::Member {
            group,
            uri,
            state: MemberState::Up,
        } => tracing::info!(group = %group, member = %uri, "member is up"),
        Event::Member {
            group,
            uri,
            state: MemberState::Down { .. },
        } => tracing::warn!(group = %group, member = %uri, "member is down"),
        Event::CallEnded { call_id, .. } => tracing::debug!(call_id = ?call_id, "call ended"),
    }
}

/// A flow for readers.
struct Along<'a>(&'a Flow);

impl fmt::Display for Along<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flow {
            transport,
            remote,
            stream,
            ..
        } = self.0;
        write!(f, "{transport}:{remote}")?;
        if *stream != 0 {
            write!(f, " stream {stream}")?;
        }
        Ok(())
    }
}
