//! What goes out over an association, and who gives it to that.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sctp_net::{Association, FlushGuard, SendInfo};
use sip::Flow;

use crate::activity::Activity;
use crate::asked::Asked;
use crate::connections::{Connection, Outgoing};
use crate::incoming::SendError;
use crate::shared::Shared;

use super::streams::{StreamPolicy, Streams};

/// An association to those who send along it.
///
/// Whoever has messages for it gives them to it at once, all that it has together, where nothing waits to be sent before
/// them: they share packets, and that wakes nobody, be it that the association belongs to another worker. What there is no
/// room for takes the connection's queue, behind which everything else queues then. The records of TLS are the business of
/// the association's task alone.
#[derive(Debug)]
pub(crate) struct Outbox {
    association: Association,
    flow: Flow,
    pub(super) activity: Activity,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Whether others than the association's task may send.
    is_open: bool,
    streams: Streams,
    asked: Asked,
}

impl Outbox {
    pub(super) fn new(association: Association, flow: Flow, policy: StreamPolicy) -> Arc<Outbox> {
        Arc::new(Outbox {
            association,
            flow,
            activity: Activity::new(),
            state: Mutex::new(State {
                is_open: true,
                streams: Streams::new(policy),
                asked: Asked::default(),
            }),
        })
    }

    /// Gives messages to the association, from which they leave when what is put into `departures` is dropped. Gives them
    /// back where they have to take the connection's queue: there is no room, others wait before them, or the association is
    /// about to end.
    pub(crate) fn send(
        &self,
        shared: &Arc<Shared>,
        connection: &Connection,
        mut messages: Vec<Outgoing>,
        departures: &mut Vec<FlushGuard>,
    ) -> Vec<Outgoing> {
        let mut not_sent = Vec::new();
        while !messages.is_empty() {
            let Some(infos) = self.prepare(connection, &messages) else {
                break;
            };
            let payloads = messages.iter().map(|outgoing| outgoing.payload.clone());
            let given = infos.into_iter().zip(payloads);
            let (sent, refused, departure) = self.association.queue_all(given);
            departures.push(departure);
            for outgoing in messages.drain(..sent) {
                shared.sent(&self.flow, &outgoing.payload);
            }
            match refused.map(why) {
                None => {}
                Some(Refused::Never(error)) => not_sent.push((messages.remove(0), error)),
                Some(Refused::Full | Refused::Ended) => break,
            }
        }
        for (outgoing, error) in not_sent {
            shared.not_sent(self.flow.transport, outgoing, error);
        }
        messages
    }

    /// How messages are to be sent; `None` where they have to take the connection's queue. What they ask is noted before
    /// they have left, lest the association end in between: of one that is not sent its transaction is told twice.
    fn prepare(&self, connection: &Connection, messages: &[Outgoing]) -> Option<Vec<SendInfo>> {
        let count = self.association.outbound_streams();
        let now = Instant::now();
        let mut state = self.lock();
        if !state.is_open || connection.has_queue() {
            return None;
        }
        let infos = messages.iter().map(|outgoing| {
            state.asked.sent(now, outgoing.transaction);
            state.streams.choose(outgoing, count)
        });
        let infos = infos.collect();
        self.activity.touch(now);
        Some(infos)
    }

    /// From now on nobody sends but the association's task.
    pub(super) fn close(&self) {
        self.lock().is_open = false;
    }

    /// How a message is to be sent.
    pub(super) fn choose(&self, outgoing: &Outgoing) -> SendInfo {
        let count = self.association.outbound_streams();
        self.lock().streams.choose(outgoing, count)
    }

    /// The association's task has sent a message.
    pub(super) fn sent(&self, shared: &Shared, outgoing: &Outgoing) {
        let now = Instant::now();
        self.activity.touch(now);
        self.lock().asked.sent(now, outgoing.transaction);
        shared.sent(&self.flow, &outgoing.payload);
    }

    /// Takes what was asked along the association.
    pub(super) fn take_asked(&self) -> Asked {
        mem::take(&mut self.lock().asked)
    }

    /// No panic can happen while the lock is held that would leave the state in disorder.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
