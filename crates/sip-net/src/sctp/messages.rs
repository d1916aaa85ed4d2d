//! SIP messages right in user messages (RFC 4168 section 5).

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sip::Flow;
use tokio::sync::mpsc;

use crate::connections::Outgoing;
use crate::incoming::CloseReason;
use crate::keep_alive::{is_keep_alive, is_ping};

use super::association::Carrier;
use super::streams::Streams;

impl Carrier<'_> {
    /// Hands what comes to the user until the association ends, and tells why.
    pub(super) async fn receive_messages(&self) -> CloseReason {
        while let Some(received) = self.association.receive().await {
            let now = Instant::now();
            self.activity.touch(now);
            if is_keep_alive(&received.payload) {
                self.take_keep_alive(received.stream, is_ping(&received.payload));
                continue;
            }
            let flow = Flow {
                stream: received.stream,
                ..self.flow
            };
            // After octets that are no message the next user message is one of its own: the
            // association stays.
            if let Err(reason) = self.take_message(flow, received.payload, now).await {
                return reason;
            }
        }
        self.ended().await
    }

    /// Sends what is queued until the queue is closed and empty or the association ends. What is
    /// taken from the queue is in `sending` until the association has it.
    pub(super) async fn send_messages(
        &self,
        streams: &Mutex<Streams>,
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
            let info = {
                let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
                streams.choose(outgoing, self.association.outbound_streams())
            };
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
