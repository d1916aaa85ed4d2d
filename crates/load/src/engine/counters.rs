//! The counters of an engine.

use std::ops::AddAssign;

/// Counters of messages since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Attempts begun by our users.
    pub begun: u64,
    /// Attempts begun by requests.
    pub accepted: u64,
    /// Messages to be sent, repetitions included.
    pub sent: u64,
    /// Octets of these.
    pub sent_octets: u64,
    /// Messages that we repeated (RFC 3261 section 17).
    pub retransmissions: u64,
    /// Messages handed in.
    pub received: u64,
    /// Octets of these.
    pub received_octets: u64,
    /// Messages that peers repeated.
    pub repeated: u64,
    /// Provisional responses.
    pub provisional_responses: u64,
    /// Final responses by class: 2xx, 3xx, 4xx, 5xx, 6xx.
    pub final_responses: [u64; 5],
    /// Messages that are not SIP, or lack mandatory header fields; dropped.
    pub malformed: u64,
    /// Responses that no session waits for, dropped: late ones, and others.
    pub stray_responses: u64,
    /// 2xx of further callees of forked INVITEs, whose dialogs were acknowledged and ended; repetitions
    /// included.
    pub forked_answers: u64,
    /// Registrations whose answer names other contacts of the user beside our own: calls to that user fork.
    pub other_bindings: u64,
    /// Requests sent to a place that a 3xx had named.
    pub redirections: u64,
    /// Requests sent by another connection, because nobody had answered on theirs or with 503.
    pub failovers: u64,
    /// Requests that belong to no session and begin none; answered as RFC 3261 has it, but for ACK.
    pub stray_requests: u64,
    /// Requests dropped because there were as many sessions as are allowed.
    pub refused_by_limit: u64,
    /// Messages that a script dropped on purpose.
    pub lost_on_purpose: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.begun += other.begun;
        self.accepted += other.accepted;
        self.sent += other.sent;
        self.sent_octets += other.sent_octets;
        self.retransmissions += other.retransmissions;
        self.received += other.received;
        self.received_octets += other.received_octets;
        self.repeated += other.repeated;
        self.provisional_responses += other.provisional_responses;
        for (own, others) in self.final_responses.iter_mut().zip(other.final_responses) {
            *own += others;
        }
        self.malformed += other.malformed;
        self.stray_responses += other.stray_responses;
        self.forked_answers += other.forked_answers;
        self.other_bindings += other.other_bindings;
        self.failovers += other.failovers;
        self.redirections += other.redirections;
        self.stray_requests += other.stray_requests;
        self.refused_by_limit += other.refused_by_limit;
        self.lost_on_purpose += other.lost_on_purpose;
    }
}
