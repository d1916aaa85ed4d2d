//! The transaction layer: every machine of RFC 3261 section 17 with the corrections of RFC 6026.

mod config;
mod event;
mod id;
mod statistics;

use std::time::Instant;

use rand_chacha::ChaCha12Rng;

use crate::{Flow, Message, Target, Transmit};

pub use config::TransactionConfig;
pub use event::TransactionEvent;
pub use id::{ClientId, ServerId, TransactionKey};
pub use statistics::TransactionStatistics;

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRequestError {
    /// There are as many client transactions as the configuration allows.
    #[error("too many transactions")]
    Overloaded,
    /// The message is not a request with CSeq, Call-ID and a branch in its topmost Via, or it is an
    /// ACK, which makes no transaction.
    #[error("not a request that makes a transaction")]
    NoTransaction,
    /// A transaction with this branch and method is under way.
    #[error("branch in use")]
    BranchInUse,
}

/// All transactions of one owner.
#[derive(Debug)]
pub struct Transactions {}

#[expect(clippy::todo, missing_docs, unused_variables, clippy::unused_self, reason = "laid out first, filled in next")]
impl Transactions {
    pub fn new(config: TransactionConfig, rng: ChaCha12Rng) -> Transactions { todo!() }
    pub fn new_branch(&mut self) -> String { todo!() }
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) { todo!() }
    pub fn handle_send_failure(&mut self, now: Instant, transaction: TransactionKey) { todo!() }
    pub fn send_request(&mut self, now: Instant, request: Message, target: Target) -> Result<ClientId, SendRequestError> { todo!() }
    /// Sends a message outside of any transaction: the ACK to a 2xx.
    pub fn send_stateless(&mut self, now: Instant, message: Message, target: Target) { todo!() }
    /// Answers a request for which there is no transaction, along the way that its topmost Via says (18.2.2).
    pub fn respond_stateless(&mut self, now: Instant, flow: Flow, response: Message) { todo!() }
    pub fn respond(&mut self, now: Instant, transaction: ServerId, response: Message) { todo!() }
    /// Gives a client transaction up without waiting for its timers (9.1, timer C).
    pub fn abandon(&mut self, now: Instant, transaction: ClientId) { todo!() }
    pub fn poll_transmit(&mut self) -> Option<Transmit> { todo!() }
    pub fn poll_event(&mut self) -> Option<TransactionEvent> { todo!() }
    pub fn next_timeout(&self) -> Option<Instant> { todo!() }
    pub fn handle_timeout(&mut self, now: Instant) { todo!() }
    pub fn statistics(&self) -> &TransactionStatistics { todo!() }
    pub fn client_transactions(&self) -> usize { todo!() }
    pub fn server_transactions(&self) -> usize { todo!() }
}

/// Where the response to a request goes (RFC 3261 section 18.2.2, RFC 3581 section 4).
#[expect(clippy::todo, unused_variables, reason = "laid out first, filled in next")]
pub fn response_target(flow: &Flow, message: &Message) -> Target { todo!() }

/// A stable hash of a Call-ID: what a stream is chosen by where each call has its own.
#[expect(clippy::todo, unused_variables, reason = "laid out first, filled in next")]
pub fn call_hash(call_id: &str) -> u32 { todo!() }
