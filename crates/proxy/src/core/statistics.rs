//! What the core counts.

use derive_more::AddAssign;
use sip::transaction::TransactionStatistics;

use super::overload::OverloadStatistics;

/// The counters and gauges of a [`Proxy`](super::Proxy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct Statistics {
    /// What the transaction layer counts: retransmissions and strays among them.
    pub transactions: TransactionStatistics,
    /// What overload control has refused.
    pub overload: OverloadStatistics,

    /// Requests that came to the proxy or registrar; retransmissions and ACKs not counted.
    pub requests: u64,
    /// Requests refused or answered here with a final response of 300 or more.
    pub refused: u64,
    /// Requests forwarded, once a branch.
    pub forwarded: u64,
    /// Requests forwarded without state; ACKs not counted.
    pub passed_on: u64,
    /// Responses forwarded without state.
    pub responses_passed_on: u64,
    /// Requests answered 302 with where the user is.
    pub redirected: u64,
    /// Next hops that did not serve a request: no answer, 503, no connection.
    pub next_hops_failed: u64,
    /// Branches that went on by another way, or were passed over for their silence (RFC 3263 section 4.3).
    pub failovers: u64,
    /// Targets added to requests that were being forwarded, because they had registered meanwhile.
    pub targets_added: u64,
    /// Requests sent over a stream transport because they are too large for UDP (RFC 3261 section
    /// 18.1.1).
    pub switched_to_stream: u64,
    /// Of these, sent over UDP nonetheless because the connection was refused.
    pub fell_back_to_datagram: u64,
    /// OPTIONS sent to members of groups.
    pub probes_sent: u64,
    /// Of these, those without the answer of a server that is up.
    pub probes_failed: u64,
    /// Messages dropped because their sender's address is on the list.
    pub dropped_addresses: u64,
    /// Requests dropped because their User-Agent is on the list.
    pub dropped_user_agents: u64,
    /// ACKs to a 2xx forwarded.
    pub acknowledgements_forwarded: u64,
    /// Requests answered 401 or 407 with a challenge.
    pub challenged: u64,
    /// Requests and ACKs refused because they were from strangers, to strangers (see
    /// [`Relay`](super::Relay)).
    pub relays_denied: u64,
    /// Requests whose senders have proved who they are.
    pub authenticated: u64,
    /// Requests refused because the password was wrong, or nobody has that name.
    pub authentication_failures: u64,
    /// Requests challenged anew because a nonce came with a count that it had come with before.
    pub nonces_replayed: u64,
    /// Nonces that are not taken any more because there were too many.
    pub nonces_forgotten: u64,
    /// Keep-alives sent to user agents behind NATs.
    pub keep_alives_sent: u64,
    /// Flows that are not kept open because so many are.
    pub keep_alives_refused: u64,
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
    /// Now: nonces whose counts are remembered.
    pub nonces: u64,
    /// Now: flows that are kept open by keep-alives.
    pub keep_alives: u64,
    /// Now: octets of messages held by what is forwarded or waits for an answer.
    pub held_octets: u64,
}
