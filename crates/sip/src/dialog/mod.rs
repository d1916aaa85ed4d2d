//! Dialogs (RFC 3261 section 12).

use std::time::{Duration, Instant};

use crate::{Message, Method};

/// One side's state of a dialog.
#[derive(Clone, Debug)]
pub struct Dialog {}

/// Why a request is no part of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfOrder {
    /// Its sequence number is lower than an earlier one's: it is answered with 500 (12.2.2).
    #[error("CSeq is lower than that of an earlier request")]
    LowerCSeq,
}

#[expect(clippy::todo, missing_docs, unused_variables, clippy::unused_self, reason = "laid out first, filled in next")]
impl Dialog {
    /// The caller's side, from its request and a response with a To tag (101 to 299); `None` where these make no dialog.
    pub fn uac(request: &Message, response: &Message) -> Option<Dialog> { todo!() }
    /// The callee's side, from the request and the response that it is about to send.
    pub fn uas(request: &Message, response: &Message) -> Option<Dialog> { todo!() }
    pub fn is_early(&self) -> bool { todo!() }
    /// Whether a message that came belongs to this dialog.
    pub fn matches(&self, message: &Message) -> bool { todo!() }
    /// A request within the dialog, without Via and Contact (the caller adds them).
    pub fn request(&mut self, method: Method) -> Message { todo!() }
    /// The ACK to a 2xx, without Via (13.2.2.4).
    pub fn ack(&self, invite: &Message) -> Message { todo!() }
    /// Takes in a later response of the request that made the dialog, or of a request within it: confirms, refreshes the target.
    pub fn handle_response(&mut self, request: &Message, response: &Message) { todo!() }
    /// Checks the sequence number of a request that came and takes a new target from it.
    pub fn handle_request(&mut self, request: &Message) -> Result<(), OutOfOrder> { todo!() }
    /// The URI that requests of this dialog go to first: topmost Route, or the Request-URI.
    pub fn next_hop(&self) -> &str { todo!() }
    pub fn call_id(&self) -> &str { todo!() }
    pub fn local_tag(&self) -> &str { todo!() }
    pub fn remote_tag(&self) -> Option<&str> { todo!() }
    pub fn remote_target(&self) -> &str { todo!() }
    pub fn route_set(&self) -> &[String] { todo!() }
}

/// Repeats a 2xx to an INVITE until its ACK comes (13.3.1.4).
#[derive(Clone, Debug)]
pub struct AnswerRetransmitter {}

#[expect(clippy::todo, missing_docs, unused_variables, clippy::unused_self, reason = "laid out first, filled in next")]
impl AnswerRetransmitter {
    /// For a 2xx that was sent at `now`.
    pub fn new(now: Instant, t1: Duration, t2: Duration) -> AnswerRetransmitter { todo!() }
    pub fn next_timeout(&self) -> Instant { todo!() }
    /// What is to be done at `now`.
    pub fn handle_timeout(&mut self, now: Instant) -> Retransmission { todo!() }
}

/// What an [`AnswerRetransmitter`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// Nothing yet.
    Wait,
    /// Send the 2xx again.
    Send,
    /// No ACK came within 64*T1: end the session with a BYE.
    GiveUp,
}
