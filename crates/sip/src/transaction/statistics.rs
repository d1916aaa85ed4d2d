//! Counters of the transaction layer.

use derive_more::AddAssign;

/// What a transaction layer has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct TransactionStatistics {
    /// Requests given to the transport for the first time, ACKs included; and all that the user
    /// sends without a transaction, since only the user knows which of those repeat others.
    pub requests_sent: u64,
    /// Requests given to the transport again: by Timers A and E, and ACKs to repeated non-2xx
    /// responses.
    pub request_retransmissions: u64,
    /// Responses given to the transport for the first time.
    pub responses_sent: u64,
    /// Responses given to the transport again: by Timer G, to a retransmitted request, and 2xx
    /// responses to INVITE that the user repeats.
    pub response_retransmissions: u64,
    /// Requests that came, retransmissions included.
    pub requests_received: u64,
    /// Responses that came, retransmissions included.
    pub responses_received: u64,
    /// Retransmitted requests, ACKs included, that were kept from the user.
    pub requests_absorbed: u64,
    /// Retransmitted final responses that were kept from the user.
    pub responses_absorbed: u64,
    /// Responses that match no transaction.
    pub stray_responses: u64,
    /// Messages that cannot be attributed to a transaction: no Via, no CSeq or no method.
    pub malformed: u64,
    /// Transactions refused because there was no room.
    pub overloaded: u64,
    /// Completed server transactions that ended before Timer J fired, to make room.
    pub ended_early: u64,
    /// Client transactions that ended by Timer B or F.
    pub timeouts: u64,
    /// INVITE server transactions that ended by Timer H.
    pub ack_timeouts: u64,
    /// Failures to send that concerned a transaction.
    pub send_failures: u64,
}

impl TransactionStatistics {
    /// All messages given to the transport again.
    pub fn retransmissions(&self) -> u64 {
        self.request_retransmissions + self.response_retransmissions
    }
}
