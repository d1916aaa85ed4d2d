//! What a peer has asked along a connection and not been answered yet.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sip::{Message, Method};
use tokio::sync::Notify;

use crate::outbound_message::OutboundMessage;

/// Counts requests without a final response, shared by the halves of a connection.
///
/// A peer can mislead it, by a request that is no longer answered for instance; nothing but how
/// long a half-closed connection stays, which has a limit, depends on it.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    requests: AtomicUsize,
    none_left: Notify,
}

impl Unanswered {
    /// A message has come.
    pub(super) fn received(&self, message: &Message) {
        // An ACK has no response (RFC 3261 section 17).
        if message
            .method()
            .is_some_and(|method| *method != Method::Ack)
        {
            self.requests.fetch_add(1, Relaxed);
        }
    }

    /// A message has gone out.
    pub(super) fn sent(&self, message: &OutboundMessage) {
        // A 2xx to an INVITE is repeated (RFC 3261 section 13.3.1.4): there may be more answers
        // than requests.
        if message.is_final_response() {
            let one_less = |count: usize| count.checked_sub(1);
            if self.requests.fetch_update(Relaxed, Relaxed, one_less) == Ok(1) {
                self.none_left.notify_one();
            }
        }
    }

    /// Ends when every request has its final response.
    pub(super) async fn none(&self) {
        while self.requests.load(Relaxed) > 0 {
            self.none_left.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;

    use super::*;

    fn is_none(unanswered: &Unanswered) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(unanswered.none()).poll(&mut context) == Poll::Ready(())
    }

    fn sent(unanswered: &Unanswered, payload: &'static [u8]) {
        let remote = ([192, 0, 2, 1], 5060).into();
        unanswered.sent(&OutboundMessage::new(Bytes::from_static(payload), remote));
    }

    fn message(start_line: &str) -> Message {
        let octets = format!("{start_line}\r\nCall-ID: a\r\n\r\n");
        Message::read(Bytes::from(octets)).expect("a message")
    }

    #[test]
    fn each_request_waits_for_its_final_response() {
        let unanswered = Unanswered::default();
        assert!(is_none(&unanswered));
        sent(&unanswered, b"SIP/2.0 200 OK\r\n\r\n");
        unanswered.received(&message("ACK sip:a SIP/2.0"));
        unanswered.received(&message("SIP/2.0 200 OK"));
        assert!(is_none(&unanswered));

        unanswered.received(&message("INVITE sip:a SIP/2.0"));
        unanswered.received(&message("CANCEL sip:a SIP/2.0"));
        sent(&unanswered, b"SIP/2.0 180 Ringing\r\n\r\n");
        sent(&unanswered, b"BYE sip:a SIP/2.0\r\n\r\n");
        sent(&unanswered, b"SIP/2.0 200 OK\r\n\r\n");
        assert!(!is_none(&unanswered));
        sent(&unanswered, b"SIP/2.0 487 Request Terminated\r\n\r\n");
        assert!(is_none(&unanswered));
    }
}
