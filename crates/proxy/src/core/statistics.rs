//! What the core counts.

use sip::transaction::TransactionStatistics;

use super::overload::OverloadStatistics;

/// The counters and gauges of a [`Proxy`](super::Proxy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// What the transaction layer counts: retransmissions and strays among them.
    pub transactions: TransactionStatistics,
    /// What the defence against overload has refused.
    pub overload: OverloadStatistics,

    /// Requests that came to the proxy or registrar; retransmissions and ACKs not counted.
    pub requests: u64,
    /// Requests refused or answered here with a final response of 300 or more.
    pub refused: u64,
    /// Requests forwarded, once a branch.
    pub forwarded: u64,
    /// ACKs to a 2xx forwarded.
    pub acknowledgements_forwarded: u64,
    /// REGISTERs answered 200.
    pub registrations: u64,
    /// INVITEs that began a call.
    pub calls_started: u64,
    /// Of these, answered with a 2xx.
    pub calls_answered: u64,
    /// Of these, ended without a 2xx.
    pub calls_failed: u64,
    /// Questions whose time was over without an answer.
    pub questions_timed_out: u64,
    /// Questions not asked because too many waited.
    pub questions_refused: u64,
    /// Requests refused, ACKs dropped and branches not begun because as many octets of messages are
    /// held as may be.
    pub octets_refused: u64,
    /// REGISTERs refused because the location store had no room.
    pub registrations_without_room: u64,

    /// Octets that were no message, and requests and responses that broke a rule.
    pub malformed: u64,
    /// Responses dropped because their top Via was not ours (RFC 3261 section 18.1.2).
    pub foreign_responses: u64,
    /// ACKs to a 2xx dropped: they had no hop left, looped, or led nowhere.
    pub acknowledgements_dropped: u64,
    /// Events dropped because nobody took them.
    pub events_dropped: u64,

    /// Now: requests that are being forwarded and have no final response.
    pub response_contexts: u64,
    /// Now: requests of ours whose responses belong to a request that is or was forwarded.
    pub branches: u64,
    /// Now: questions that wait for their answers.
    pub questions: u64,
    /// Now: octets of messages held by what is forwarded or waits for an answer.
    pub held_octets: u64,
}
