//! Refusing: what is done for a request for which nothing is to be done, which has to cost next to nothing.
//!
//! While there is too much to do, most of what comes are requests to be refused and the ACKs to their refusals. If each of
//! them took as long as a request that is served, no time would be left for these. So they are peeked at; what is not
//! refused is read after that, as always.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sip::{Flow, Message, Method, Peek, Violation};

use super::Proxy;
use crate::core::common::{CommonState, OUR_TAG};
use crate::core::forwarder::Forwarder;
use crate::core::hook::Points;
use crate::core::overload::{Admission, AdmissionRequest, Challenged, Conditions, LazyChecks};
use crate::core::routing::Dropped;

impl Proxy {
    /// Whether requests are being refused, so that [`accept_octets`](Proxy::accept_octets) is worth its while.
    pub fn is_refusing(&self, now: Instant) -> bool {
        self.common.overload.may_be_acknowledged(now)
    }

    /// [`accept_message`](Proxy::accept_message) for a message that nobody has read yet: an INVITE or an ACK that came as
    /// a datagram, and is likely to be refused.
    pub fn accept_octets(&mut self, now: Instant, waited: Duration, flow: Flow, octets: Bytes) {
        // What hooks say of messages is found out by reading them.
        let peek = match self.common.hooks.are_at(Points::MESSAGE) {
            true => None,
            false => Peek::read(&octets),
        };
        // Whether the dialog of one that names one is ours is found out by reading it.
        let peek =
            peek.filter(|request| *request.method() == Method::Ack || request.to_tag().is_none());
        let mut admission = None;
        if let Some(request) = peek {
            if self.is_dropped(&flow, None) {
                return;
            }
            self.common.overload.note_waited(now, waited);
            let whole = || Message::read(octets.clone()).ok().map(Cow::Owned);
            let judged = self.judge(now, waited, &flow, (&request, &whole));
            let is_served = match judged {
                Admission::Ignore => false,
                Admission::Refuse if !self.common.transactions.knows_peeked(&request) => {
                    self.common.refuse_peeked(now, flow, &request);
                    false
                }
                Admission::Refuse | Admission::Admit => !self.is_for_nobody(now, &request),
            };
            if !is_served {
                return;
            }
            admission = Some(judged);
        }
        match (Message::read_or_return(octets), admission) {
            (Ok(message), Some(admission)) => self.accept_judged(now, flow, message, admission),
            (Ok(message), None) => self.accept_message(now, waited, flow, message),
            (Err((_, octets)), _) => self.handle_malformed(now, flow, octets),
        }
    }

    /// [`handle_message_after`](Proxy::handle_message_after) as far as the message's transaction: what that has to
    /// tell waits for [`process_accepted`](Proxy::process_accepted).
    ///
    /// A message leads through more code than the processor keeps at hand. Of many that have come together, each part of
    /// the way is best gone by all before the next.
    pub fn accept_message(&mut self, now: Instant, waited: Duration, flow: Flow, message: Message) {
        if self.is_dropped(&flow, Some(&message)) {
            return;
        }
        self.common.overload.note_waited(now, waited);
        let admission = match message.is_request() {
            true => {
                let whole = || Some(Cow::Borrowed(&message));
                self.judge(now, waited, &flow, (&message, &whole))
            }
            false => Admission::Admit,
        };
        self.accept_judged(now, flow, message, admission);
    }

    /// [`accept_message`](Proxy::accept_message) for one of which it is decided whether it is taken at all.
    fn accept_judged(&mut self, now: Instant, flow: Flow, message: Message, admission: Admission) {
        // A refusal has to cost little, or there would be no time for what is not refused: nothing is
        // looked at that need not be.
        match admission {
            Admission::Ignore => return,
            Admission::Refuse if !self.common.transactions.knows(&message) => {
                self.common.refuse_overloaded(now, flow, message);
                return;
            }
            Admission::Refuse | Admission::Admit => {}
        }
        if self.acknowledges_refusal(now, &message) {
            return;
        }
        if let Err(violation) = message.validate() {
            self.common.reject(now, &flow, &message, &violation);
            return;
        }
        if !message.is_request() {
            let is_ours = message
                .top_via()
                .is_some_and(|via| self.common.identity.is_own_sent_by(via.host(), via.port()));
            if !is_ours {
                self.common.statistics.foreign_responses += 1;
                return;
            }
        }
        if Forwarder::is_stateless(&mut self.common, &message) {
            // It overtakes none of those before it.
            self.process_accepted(now);
            self.forwarder
                .handle_stateless(&mut self.common, now, flow, message);
        } else {
            self.common.transactions.handle_message(now, flow, message);
        }
    }

    /// Takes octets that are no whole message: answered 400 where they are enough of a request for
    /// that, dropped otherwise.
    pub fn handle_malformed(&mut self, now: Instant, flow: Flow, octets: Bytes) {
        if self.is_dropped(&flow, None) {
            return;
        }
        let violation = Violation {
            status: 400,
            reason: "Bad Request",
        };
        match Message::read(octets) {
            Ok(message) => self.common.reject(now, &flow, &message, &violation),
            Err(_) => self.common.statistics.malformed += 1,
        }
    }

    /// Whether something that has come is dropped, which is counted. `message`: what it is, where it has been read.
    fn is_dropped(&mut self, flow: &Flow, message: Option<&Message>) -> bool {
        let CommonState {
            hooks, statistics, ..
        } = &mut self.common;
        let dropped = hooks
            .on_source(flow.remote.ip())
            .or_else(|| hooks.on_message(message?));
        match dropped {
            Some(Dropped::Address) => statistics.dropped_addresses += 1,
            Some(Dropped::UserAgent) => statistics.dropped_user_agents += 1,
            None => {}
        }
        dropped.is_some()
    }

    /// Judges a request by itself and by what is known besides. `whole` reads it where that has to be done.
    fn judge<'a>(
        &mut self,
        now: Instant,
        waited: Duration,
        flow: &Flow,
        (request, whole): (
            &impl AdmissionRequest,
            &dyn Fn() -> Option<Cow<'a, Message>>,
        ),
    ) -> Admission {
        let authentication = &self.common.policy.authentication;
        let is_asked = (authentication.register || authentication.calls)
            && !authentication.is_exempt(flow.remote.ip());
        let around = Conditions {
            from: flow.remote.ip(),
            is_trusted: self.common.trust.is_trusted(flow),
            challenged: Challenged {
                registers: is_asked && authentication.register,
                calls: is_asked && authentication.calls,
                in_dialogs: is_asked && authentication.in_dialogs,
            },
            waited,
            transactions: (
                self.common.transactions.server_transactions_in_progress(),
                self.common.timings.maximum_transactions,
            ),
        };
        let common = &mut self.common;
        let dialogs = &self.forwarder.dialogs;
        let own = self.forwarder.own_routes(&common.identity, &common.tokens);
        let lifetime = common.policy.forwarding.dialog_lifetime;
        let proofs = LazyChecks {
            is_of_our_dialog: &|| {
                whole()
                    .is_some_and(|request| dialogs.have_as_received(request, flow, own, lifetime))
            },
            has_nonce_of_ours: &|| {
                whole().is_some_and(|request| self.authenticator.has_nonce_of_ours(&request))
            },
        };
        common.overload.judge(now, request, &around, &proofs)
    }

    /// Whether a message is an ACK to a response that was sent without a transaction, to refuse a call:
    /// it is for nobody.
    fn acknowledges_refusal(&mut self, now: Instant, message: &Message) -> bool {
        if message.method() != Some(&Method::Ack) || !self.common.overload.may_be_acknowledged(now)
        {
            return false;
        }
        self.common.has_our_tag(message) && !self.common.transactions.knows(message)
    }

    /// [`acknowledges_refusal`](Proxy::acknowledges_refusal) for a request that was peeked at.
    fn is_for_nobody(&mut self, now: Instant, request: &Peek<'_>) -> bool {
        if *request.method() != Method::Ack || !self.common.overload.may_be_acknowledged(now) {
            return false;
        }
        let tag = request.to_tag().filter(|tag| tag.len() == OUR_TAG);
        tag.is_some_and(|tag| {
            let ours = self
                .common
                .tag_of(Some(request.call_id()), Some(request.cseq_number()));
            tag == ours.as_str()
        }) && !self.common.transactions.knows_peeked(request)
    }
}
