//! TLS over SCTP (RFC 3436), as RFC 4168 section 5.1 wants it for SIP: ordered, the messages of a
//! transaction on one stream, different transactions on different streams.
//!
//! `session` is one TLS connection, `sessions` are those of an association, here is the task's part:
//! records come from and go to the association, each in a user message.

mod session;
mod sessions;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sctp_net::Association;
use sip::{Flow, Frame, FramingLimits};
use tokio::sync::{Notify, mpsc};

use crate::config::Limits;
use crate::connections::Outgoing;
use crate::incoming::{CloseReason, MalformedReason};

use super::association::Carrier;
use super::streams::ordered;
use sessions::{Failure, Sessions, Settings};

pub(crate) use sessions::Role;

/// The TLS of one association.
#[derive(Debug)]
pub(super) struct Secure {
    /// No panic can happen while the lock is held that would leave them in disorder.
    sessions: Mutex<Sessions>,
    /// Told when there are records to be sent.
    records: Notify,
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
    pub(super) fn into_unsent(self) -> impl Iterator<Item = Outgoing> {
        let sessions = self.sessions.into_inner();
        sessions
            .unwrap_or_else(PoisonError::into_inner)
            .into_unsent()
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carrier<'_> {
    /// Takes what comes into the sessions and hands the messages to the user until the association
    /// ends, and tells why.
    pub(super) async fn receive_secure(&self, secure: &Secure) -> CloseReason {
        let begun = secure.lock().begin_first(Instant::now());
        if let Err(failure) = begun {
            return why(&failure);
        }
        secure.records.notify_one();
        self.deadline_moved.notify_one();
        while let Some(received) = self.association.receive().await {
            let now = Instant::now();
            self.outbox.activity.touch(now);
            let (stream, unordered) = (received.stream, received.unordered);
            let (taken, is_established, suite, names) = {
                let mut sessions = secure.lock();
                let was_established = sessions.any_is_established();
                let taken = sessions.receive(stream, unordered, &received.payload, now);
                let is_established = sessions.any_is_established();
                let begins = is_established && !was_established;
                let suite = begins.then(|| sessions.cipher_suite()).flatten();
                (taken, is_established, suite, sessions.take_names())
            };
            secure.records.notify_one();
            self.deadline_moved.notify_one();
            if is_established {
                self.opened();
            }
            if let Some(suite) = suite {
                self.shared.tls.note_cipher_suite(suite);
            }
            if let Some(names) = names {
                self.shared.identified(self.connection, names).await;
            }
            // What came before it failed counts.
            if let Err(reason) = self.take_frames(secure, stream, now).await {
                return reason;
            }
            if let Err(failure) = taken {
                return why(&failure);
            }
        }
        self.ended().await
    }

    async fn take_frames(
        &self,
        secure: &Secure,
        stream: u16,
        now: Instant,
    ) -> Result<(), CloseReason> {
        let flow = Flow {
            stream,
            ..self.flow
        };
        loop {
            let frame = secure.lock().next_frame(stream);
            match frame {
                Ok(Some(Frame::Message(octets))) => {
                    if let Some(reason) = self.take_message(flow, octets, now).await? {
                        // What has no start line has no Content-Length to be trusted either.
                        return Err(CloseReason::Framing(reason));
                    }
                }
                Ok(Some(Frame::Ping)) => self.take_keep_alive(stream, true),
                Ok(Some(Frame::Pong)) => self.take_keep_alive(stream, false),
                Ok(None) => return Ok(()),
                Err(error) => {
                    let octets = secure.lock().unframed(stream);
                    let reason = MalformedReason::Framing(error);
                    self.take_malformed(flow, octets, reason).await?;
                    return Err(CloseReason::Framing(reason));
                }
            }
        }
    }

    /// Sends what is queued, and what the sessions have to say, until the queue is closed and
    /// everything is sent, or the association ends.
    pub(super) async fn send_secure(
        &self,
        secure: &Secure,
        queue: &mut mpsc::Receiver<Outgoing>,
    ) -> CloseReason {
        let mut is_open = true;
        loop {
            if let Err(reason) = self.flush(secure).await {
                return reason;
            }
            let waiting = secure.lock().waiting();
            if !is_open && waiting == 0 {
                return CloseReason::Local;
            }
            tokio::select! {
                outgoing = queue.recv(), if is_open => match outgoing {
                    Some(outgoing) => {
                        let sent = secure.lock().send(outgoing, Instant::now());
                        self.deadline_moved.notify_one();
                        if let Err(failure) = sent {
                            return why(&failure);
                        }
                    }
                    None => is_open = false,
                },
                () = secure.records.notified() => {}
            }
        }
    }

    /// Sends all records that there are.
    pub(super) async fn flush(&self, secure: &Secure) -> Result<(), CloseReason> {
        loop {
            let first = secure.lock().first_record();
            let Some((stream, octets)) = first else {
                return Ok(());
            };
            if let Some(error) = self.put(ordered(stream), octets).await? {
                // A gap in the octets of a TLS connection is its end.
                return Err(CloseReason::Tls(error.to_string()));
            }
            let record = secure.lock().pop_record();
            if let Some(outgoing) = record.and_then(|record| record.ends) {
                self.sent(outgoing, None);
            }
        }
    }
}

fn why(failure: &Failure) -> CloseReason {
    match failure {
        Failure::AllClosed => CloseReason::Peer,
        failure => CloseReason::Tls(failure.to_string()),
    }
}
