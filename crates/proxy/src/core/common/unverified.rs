//! Requests of which nobody has proved who sends them: datagrams, whose source is easily forged. What we answer goes to
//! that source, so that others could aim our answers at whomever they like.
//!
//! Such a request is refused once, without retransmissions (RFC 3261 sections 16.11 and 26.3.2.4), its refusals have a
//! rate, and no answer of ours is more than three times as long as what came.

use std::net::IpAddr;
use std::time::Instant;

use sip::transaction::ServerId;
use sip::{ConnectionId, Flow, Message, Method};

use super::{CommonState, OUR_TAG};

/// How many times as long as the request an answer to it may be.
const LONGEST_ANSWER: usize = 3;

/// How many octets of it are our tag in To.
const TAG_PARAMETER: usize = ";tag=".len() + OUR_TAG;

/// How many connections are remembered until somebody asks.
const MAXIMUM_KNOWN: usize = 4096;

impl CommonState {
    /// Whether anybody may have sent what came along a flow.
    fn is_unverified(&self, flow: &Flow) -> bool {
        !flow.transport.is_reliable()
            && !self.policy.authentication.is_exempt(flow.remote.ip())
            && !self.trust.is_trusted(flow)
    }

    /// Takes notice of a request that has begun a server transaction.
    pub(crate) fn note_source(&mut self, server: ServerId, request: &Message, arrival: &Flow) {
        if self.is_unverified(arrival) {
            let length = request.wire_length();
            self.transactions.set_unproved(server, length);
        } else if self.trust.is_trusted(arrival) {
            self.note_known(arrival);
        }
    }

    /// The peer of a connection is known: a user of ours, or one that is trusted.
    pub(crate) fn note_known(&mut self, flow: &Flow) {
        let is_new = self.known_connections.last() != Some(&flow.connection);
        if flow.transport.is_reliable() && is_new && self.known_connections.len() < MAXIMUM_KNOWN {
            self.known_connections.push(flow.connection);
        }
    }

    /// A connection whose peer has registered or authenticated by it, or is trusted: one that is not to give way to others.
    /// It may be told more than once.
    pub(crate) fn poll_known_connection(&mut self) -> Option<ConnectionId> {
        self.known_connections.pop()
    }

    /// How long our answer to a request may be before it has a tag.
    pub(crate) fn longest_answer(&self, request: &Message, arrival: &Flow) -> usize {
        match self.is_unverified(arrival) {
            true => LONGEST_ANSWER * request.wire_length() - TAG_PARAMETER,
            false => usize::MAX,
        }
    }

    /// Whether a response in a transaction may be sent, which is counted.
    pub(crate) fn may_respond(
        &mut self,
        now: Instant,
        server: ServerId,
        response: &Message,
    ) -> bool {
        if response.status().is_none_or(|status| status < 300) {
            return true;
        }
        match (self.transactions.unproved(server), response.cseq()) {
            (Some(source), Some((_, method))) => self.may_refuse(now, source, &method),
            _ => true,
        }
    }

    /// Whether a request that has no transaction may be refused, which is counted.
    pub(crate) fn may_refuse_stateless(
        &mut self,
        now: Instant,
        arrival: &Flow,
        request: &Message,
    ) -> bool {
        match request.method() {
            Some(method) if self.is_unverified(arrival) => {
                self.may_refuse(now, arrival.remote.ip(), method)
            }
            _ => true,
        }
    }

    fn may_refuse(&mut self, now: Instant, source: IpAddr, method: &Method) -> bool {
        // These were counted when they came.
        matches!(method, Method::Options | Method::Register)
            || self.overload.take_refusal(now, source)
    }
}
