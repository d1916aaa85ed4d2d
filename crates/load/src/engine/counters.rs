//! What an engine counts.

/// Messages and what was odd about them, since the engine was made.
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
    /// What is no SIP message, or lacks what an answer needs; dropped.
    pub malformed: u64,
    /// Responses that no run waits for, dropped: those that came late, and those that belong to nothing.
    pub stray_responses: u64,
    /// Requests that belong to no run and begin none; answered as RFC 3261 has it, but for ACK.
    pub stray_requests: u64,
    /// Requests dropped because there were as many runs as are allowed.
    pub refused_by_limit: u64,
    /// Messages that a script dropped on purpose.
    pub lost_on_purpose: u64,
}
