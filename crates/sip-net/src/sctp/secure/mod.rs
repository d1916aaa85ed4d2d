//! TLS over SCTP (RFC 3436), as RFC 4168 section 5.1 wants it for SIP: ordered, the messages of a
//! transaction on one stream, different transactions on different streams.
//!
//! `session` is one TLS connection, `sessions` are those of an association.

mod session;
mod sessions;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sctp_net::Association;
use sip::FramingLimits;
use tokio::sync::Notify;

use crate::config::Limits;
use crate::incoming::CloseReason;
use crate::outbound_message::OutboundMessage;

use sessions::Settings;

pub(crate) use sessions::Role;
pub(super) use sessions::{Failure, Sessions};

/// The TLS of one association.
#[derive(Debug)]
pub(super) struct Secure {
    /// No panic can happen while the lock is held that would leave them in disorder.
    sessions: Mutex<Sessions>,
    /// Told when there are records to be sent.
    pub(super) records: Notify,
}

impl Secure {
    /// Sessions for the pairs of streams that the association has.
    pub(super) async fn new(role: Role, association: &Association, limits: &Limits) -> Secure {
        let inbound = association.status().await;
        let inbound = inbound.map_or(0, |status| status.inbound_streams);
        let handshake = match role {
            // It is a part of opening a connection.
            Role::Client(..) => limits.handshake_timeout.min(limits.connect_timeout),
            Role::Server(_) => limits.handshake_timeout,
        };
        let settings = Settings {
            pairs: association.outbound_streams().min(inbound),
            framing: FramingLimits {
                header_bytes: limits.max_header_bytes,
                body_bytes: limits.max_body_bytes,
            },
            handshake,
            partial_message: limits.partial_message_timeout,
        };
        Secure {
            sessions: Mutex::new(Sessions::new(role, settings)),
            records: Notify::new(),
        }
    }

    /// When the next thing has to have happened, and what becomes of the association otherwise.
    pub(super) fn deadline(&self) -> Option<(Instant, CloseReason)> {
        let (by, is_handshake) = self.lock().deadline()?;
        let overdue = if is_handshake {
            CloseReason::Tls("the handshake was not finished in time".to_owned())
        } else {
            CloseReason::PartialMessage
        };
        Some((by, overdue))
    }

    /// Gives up what is overdue, where the association can go on without it; tells whether it can.
    pub(super) fn give_up_overdue(&self) -> bool {
        let given_up = self.lock().give_up_overdue(Instant::now());
        self.records.notify_one();
        given_up.unwrap_or(false)
    }

    /// Says on every session that nothing more will come.
    pub(super) fn close(&self) {
        self.lock().close();
        self.records.notify_one();
    }

    /// All messages that have not been sent whole.
    pub(super) fn into_unsent(self) -> impl Iterator<Item = OutboundMessage> {
        let sessions = self.sessions.into_inner();
        sessions
            .unwrap_or_else(PoisonError::into_inner)
            .into_unsent()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
