//! SIP messages right in user messages (RFC 4168 section 5).

use std::time::Instant;

use sip::{Flow, Message};
use tokio::sync::mpsc;

use crate::connections::Outgoing;
use crate::incoming::{CloseReason, MalformedReason};
use crate::keep_alive::{is_keep_alive, is_ping};
use crate::shared::{Delivery, NobodyListens};
use crate::trace;

use super::association::Carrier;

impl Carrier<'_> {
    /// Hands what comes to the user until the association ends, and tells why. What has come together is handed over
    /// together: another worker is woken once, and finds all of it.
    pub(super) async fn receive_messages(&self) -> CloseReason {
        let mut received = Vec::new();
        let mut deliveries = Vec::new();
        while self.association.receive_all(&mut received).await > 0 {
            let now = Instant::now();
            self.outbox.activity.touch(now);
            for message in received.drain(..) {
                // However much has come, others get their turn.
                tokio::task::coop::consume_budget().await;
                if is_keep_alive(&message.payload) {
                    self.take_keep_alive(message.stream, is_ping(&message.payload));
                    continue;
                }
                let flow = Flow {
                    stream: message.stream,
                    ..self.flow
                };
                deliveries.push(match Message::read_or_return(message.payload) {
                    Ok(message) => {
                        self.has_heard();
                        if trace::is_on() {
                            trace::received(&flow, &message.to_bytes());
                        }
                        self.shared.delivery(flow, message, now)
                    }
                    // After octets that are no message the next user message is one of its own: the
                    // association stays.
                    Err((error, octets)) => {
                        let reason = MalformedReason::Read(error);
                        self.shared.delivery_of_malformed(flow, octets, reason)
                    }
                });
            }
            if let Err(NobodyListens) = self.deliver(&mut deliveries).await {
                return CloseReason::Local;
            }
        }
        self.ended().await
    }

    async fn deliver(&self, deliveries: &mut Vec<Delivery>) -> Result<(), NobodyListens> {
        let ways_in = self.shared.ways_in().ok_or(NobodyListens)?;
        for delivery in deliveries.drain(..) {
            self.shared.put_by(&ways_in, delivery).await?;
        }
        Ok(())
    }

    /// Sends what is queued until the queue is closed and empty or the association ends. What is
    /// taken from the queue is in `sending` until the association has it.
    pub(super) async fn send_messages(
        &self,
        queue: &mut mpsc::Receiver<Outgoing>,
        sending: &mut Option<Outgoing>,
    ) -> CloseReason {
        loop {
            if sending.is_none() {
                *sending = queue.recv().await;
            }
            let Some(outgoing) = sending.as_ref() else {
                return CloseReason::Local;
            };
            let info = self.outbox.choose(outgoing);
            let refused = match self.put(info, outgoing.payload.clone()).await {
                Ok(refused) => refused,
                Err(reason) => return reason,
            };
            if let Some(outgoing) = sending.take() {
                self.sent(outgoing, refused);
            }
        }
    }
}
