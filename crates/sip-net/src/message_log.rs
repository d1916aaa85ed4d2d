//! Every message that passes: counted, shown in the log, written into the capture.

use std::sync::Arc;

use bytes::Bytes;
use sip::stun::is_stun;
use sip::{Flow, Transmit, Transport};
use tap::{Direction, MessageTap};

use crate::incoming::MalformedReason;
use crate::keep_alive::is_keep_alive;
use crate::outbound_message::OutboundMessage;
use crate::statistics::{AllCounters, Counters};
use crate::trace;

/// Counts messages, shows them in the log, and writes them into the capture.
#[derive(Debug)]
pub(crate) struct MessageLog {
    counters: AllCounters,
    capture: Option<MessageTap>,
}

impl MessageLog {
    pub(crate) fn new(capture: Option<MessageTap>) -> Arc<MessageLog> {
        Arc::new(MessageLog {
            counters: AllCounters::default(),
            capture,
        })
    }

    pub(crate) fn counters(&self, transport: Transport) -> &Counters {
        self.counters.of(transport)
    }

    /// The octets of a message that is being received, where they are wanted.
    pub(crate) fn shown(&self, message: &Bytes) -> Option<Bytes> {
        let is_shown = self.has_capture() || trace::is_on();
        is_shown.then(|| message.clone())
    }

    fn has_capture(&self) -> bool {
        self.capture.is_some()
    }

    /// A message has come.
    pub(crate) fn received(&self, flow: &Flow, shown: Option<&Bytes>) {
        let counters = self.counters(flow.transport);
        counters.messages_received.increment();
        if let Some(message) = shown {
            trace::received(flow, message);
            self.capture(flow, Direction::Inbound, message);
        }
    }

    /// A keep-alive has come.
    pub(crate) fn keep_alive(&self, transport: Transport) {
        self.counters(transport).keep_alives.increment();
    }

    /// Octets have come that are no message.
    pub(crate) fn malformed(&self, flow: &Flow, octets: &[u8], reason: MalformedReason) {
        self.counters(flow.transport).malformed.increment();
        trace::malformed(flow, octets, reason);
    }

    /// A message is to be sent.
    pub(crate) fn sending(&self, transmit: &Transmit) {
        trace::sending(transmit);
    }

    /// Messages have been sent together. `flow_of` is asked where they are captured.
    pub(crate) fn sent<'a>(
        &self,
        transport: Transport,
        messages: impl Iterator<Item = &'a OutboundMessage>,
        flow_of: impl Fn(&OutboundMessage) -> Flow,
    ) {
        let mut count = 0;
        let is_message = |payload: &[u8]| !is_keep_alive(payload) && !is_stun(payload);
        for message in messages.filter(|message| is_message(&message.payload)) {
            count += 1;
            if self.has_capture() {
                self.capture(&flow_of(message), Direction::Outbound, &message.payload);
            }
        }
        // One counter for all threads is dear: it is changed once.
        self.counters(transport).messages_sent.add(count);
    }

    fn capture(&self, flow: &Flow, direction: Direction, message: &[u8]) {
        if let Some(capture) = &self.capture {
            trace::capture(capture, flow, direction, message);
        }
    }
}
