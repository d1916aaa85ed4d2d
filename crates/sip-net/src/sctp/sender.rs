//! How the messages in a connection's queue are given to an association.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sctp_net::{Association, SendInfo};
use sip::Flow;

use crate::config::StreamPolicy;
use crate::connections::{Connection, Flush};
use crate::incoming::SendError;
use crate::message_log::MessageLog;
use crate::outbound_message::OutboundMessage;
use crate::send_queue::Flushed;

use super::streams::Streams;

/// Gives the messages in a connection's queue to its association, all that are there together, so that they share packets.
/// The records of TLS are the business of the association's task alone.
#[derive(Debug)]
pub(super) struct AssociationSender {
    association: Association,
    flow: Flow,
    log: Arc<MessageLog>,
    streams: Mutex<Streams>,
}

impl Flush for AssociationSender {
    fn flush(&self, connection: &Connection, flushed: &mut Flushed) {
        let Some(mut queue) = connection.queue.begin_flush() else {
            return;
        };
        let count = self.association.outbound_streams();
        while !queue.is_empty() {
            let now = Instant::now();
            let (sent, refused, guard) = {
                let mut streams = self.streams();
                self.association.queue_all(queue.iter().map(|message| {
                    let info = streams.choose(message, count);
                    (info, message.payload.clone())
                }))
            };
            flushed.guards.push(guard);
            let messages = || queue.iter().take(sent);
            connection.sent(now, messages());
            self.log
                .sent(self.flow.transport, messages(), |_| self.flow);
            queue.drain(..sent);
            match refused.map(why) {
                None => {}
                Some(Refused::Never(error)) => {
                    let message = queue.pop_front();
                    let failed = &mut flushed.failed;
                    failed.extend(message.map(|message| message.failed(error)));
                }
                Some(Refused::Full | Refused::Ended) => {
                    queue.block(&mut flushed.failed);
                    break;
                }
            }
        }
    }
}

impl AssociationSender {
    pub(super) fn new(
        association: Association,
        flow: Flow,
        log: Arc<MessageLog>,
        policy: StreamPolicy,
    ) -> Arc<AssociationSender> {
        Arc::new(AssociationSender {
            association,
            flow,
            log,
            streams: Mutex::new(Streams::new(policy)),
        })
    }

    /// How a message is to be sent.
    pub(super) fn choose(&self, message: &OutboundMessage) -> SendInfo {
        let count = self.association.outbound_streams();
        self.streams().choose(message, count)
    }

    /// No panic can happen while the lock is held that would leave them in disorder.
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an association did not take a message.
pub(super) enum Refused {
    /// There is no room now.
    Full,
    /// It is ending or has ended, which is told where it is received from.
    Ended,
    /// It will never take this one.
    Never(SendError),
}

pub(super) fn why(error: sctp_net::SendError) -> Refused {
    match error {
        sctp_net::SendError::BufferFull => Refused::Full,
        sctp_net::SendError::UnknownAssociation | sctp_net::SendError::ShuttingDown => {
            Refused::Ended
        }
        sctp_net::SendError::TooLarge => Refused::Never(SendError::TooLarge),
        error => Refused::Never(SendError::Sctp(error.to_string())),
    }
}
