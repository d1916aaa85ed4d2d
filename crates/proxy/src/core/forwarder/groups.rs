//! Static routes and groups of servers at work: where a request goes by settings, what became of it
//! there, and the probes that ask servers whether they are there.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha12Rng;
use sip::transaction::ClientId;
use sip::{Message, Method, Name, Transport};

use super::Forwarder;
use super::next_hop::{self, Resolved, add_next_hops};
use super::response_context::Forwarded;
use crate::core::common::CommonState;
use crate::core::event::{Event, HopOutcome};
use crate::core::interface::Interface;
use crate::core::pending::PendingQuery;
use crate::core::policy::Policy;
use crate::core::query::Answer;
use crate::core::routing::{
    Dispatcher, MemberHealth, MemberName, MemberState, Outcome, Probe, Probes,
};

/// The groups of servers and their probes.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) dispatcher: Dispatcher,
    probes: Probes,
    /// The Call-ID of all probes, and the CSeq number of the last.
    call: (String, u32),
}

/// The longest Retry-After that is heeded.
const MAXIMUM_RETRY_AFTER: Duration = Duration::from_secs(3600);

impl Groups {
    pub(crate) fn new(policy: &Policy, rng: ChaCha12Rng) -> Groups {
        let mut dispatcher = Dispatcher::new(rng);
        dispatcher.set_groups(&policy.routing);
        Groups {
            dispatcher,
            probes: Probes::default(),
            call: (String::new(), 0),
        }
    }

    pub(crate) fn set_policy(&mut self, now: Instant, policy: &Policy) {
        self.dispatcher.set_groups(&policy.routing);
        self.probes.reschedule(now, &self.dispatcher);
    }

    /// Begins to probe the groups whose settings say so. `call_id` is that of all probes.
    pub(crate) fn start_probing(&mut self, now: Instant, call_id: &str) {
        self.call.0 = call_id.to_owned();
        self.probes.start(now, &self.dispatcher);
    }

    /// Takes over the state of a member of a group.
    pub(crate) fn set_member_state(&mut self, group: &str, uri: &str, state: MemberState) {
        self.dispatcher.set_state(group, uri, state);
    }

    /// What is known of the members of all groups.
    pub(crate) fn member_health(&self) -> impl Iterator<Item = MemberHealth> {
        self.dispatcher.health()
    }

    /// When a probe is due, or its time is over.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.probes.next_timeout()
    }
}

impl Forwarder {
    /// How long a next hop may leave a request without any response before another one is tried.
    pub(crate) fn response_timeout(&self, member: Option<&MemberName>) -> Option<Duration> {
        let group = self.groups.dispatcher.settings(&member?.group)?;
        group.response_timeout
    }

    /// Takes in that a next hop has answered, or 503 that it cannot.
    pub(crate) fn note_response(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        member: Option<&MemberName>,
        forwarded: &Forwarded,
        response: &Message,
    ) {
        let outcome = match response.status() {
            Some(503) => HopOutcome::Unavailable {
                retry_after: retry_after(response),
            },
            // Nothing depends on it.
            _ if member.is_none() => return,
            _ => HopOutcome::Answered,
        };
        self.note_outcome(common, now, member, forwarded, outcome);
    }

    /// Takes in what became of a request at a next hop.
    pub(crate) fn note_outcome(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        member: Option<&MemberName>,
        forwarded: &Forwarded,
        outcome: HopOutcome,
    ) {
        if outcome != HopOutcome::Answered
            && let sip::Target::Address(transport, remote) = forwarded.sent_to
        {
            self.report_hop(common, transport, remote, outcome);
        }
        if let Some(member) = member {
            self.record(common, now, member, member_outcome(outcome));
        }
    }

    /// Sends the probes that are due, and ends those whose time is over.
    pub(crate) fn handle_probe_timeouts(&mut self, common: &mut CommonState, now: Instant) {
        while let Some((client, probe)) = self.groups.probes.take_expired(now) {
            common.transactions.abandon(now, client);
            self.end_probe(common, now, &probe, false);
        }
        while let Some(probe) = {
            let Groups {
                dispatcher, probes, ..
            } = &mut self.groups;
            probes.next_due(now, dispatcher)
        } {
            self.probe(common, now, probe);
        }
    }

    /// Takes a response, if it is to a probe. Returns whether it is.
    pub(crate) fn handle_probe_response(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        client: ClientId,
        response: &Message,
    ) -> bool {
        let Some(probe) = self.groups.probes.take(client) else {
            return false;
        };
        match response.status() {
            Some(status @ 200..) => {
                let group = self.groups.dispatcher.settings(&probe.member.group);
                let is_up = group
                    .and_then(|group| group.probing.as_ref())
                    .is_some_and(|probing| probing.is_up(status));
                self.end_probe(common, now, &probe, is_up);
            }
            _ => self.groups.probes.insert(client, probe),
        }
        true
    }

    /// Goes on with a probe that brought no response, if it is one: by the next hop to the member.
    /// Returns whether it is.
    pub(crate) fn handle_probe_failure(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        client: ClientId,
    ) -> bool {
        let Some(probe) = self.groups.probes.take(client) else {
            return false;
        };
        self.probe(common, now, probe);
        true
    }

    /// Goes on with a probe when the addresses of the member are known.
    pub(crate) fn resume_probe(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        mut probe: Probe,
        answer: Answer,
    ) {
        add_next_hops(&mut probe.target, answer);
        self.probe(common, now, probe);
    }

    /// Sends a probe by the next hop to its member; where there is none, the member has failed.
    fn probe(&mut self, common: &mut CommonState, now: Instant, mut probe: Probe) {
        while let Some(hop) = probe.target.next_hop().filter(|_| now < probe.deadline) {
            let bare = Message::request(Method::Options, &probe.target.uri);
            match next_hop::resolve(common, &bare, &probe.target, &hop) {
                Some(Resolved::Send {
                    to,
                    peer,
                    interface,
                }) => {
                    let request = self.options(common, &probe.target.uri, &interface);
                    // Where we have no room, that says nothing about the member.
                    if let Ok(client) = common.transactions.send_request_to(now, request, to, peer)
                    {
                        common.statistics.probes_sent += 1;
                        self.groups.probes.insert(client, probe);
                    }
                    return;
                }
                Some(Resolved::Ask(query)) => {
                    // The next probe follows by itself.
                    let _ = common.ask(now, query, PendingQuery::Probe(Box::new(probe)));
                    return;
                }
                None => {}
            }
        }
        self.end_probe(common, now, &probe, false);
    }

    fn end_probe(&mut self, common: &mut CommonState, now: Instant, probe: &Probe, is_up: bool) {
        let outcome = if is_up {
            Outcome::Answered
        } else {
            common.statistics.probes_failed += 1;
            Outcome::Failed { retry_after: None }
        };
        self.record(common, now, &probe.member, outcome);
    }

    /// The OPTIONS of a probe. It is for the server itself, so one hop is enough.
    fn options(&mut self, common: &mut CommonState, uri: &str, interface: &Interface) -> Message {
        let branch = common.transactions.new_branch();
        let (call_id, number) = &mut self.groups.call;
        *number = number.wrapping_add(1) & i32::MAX.cast_unsigned();
        let rport = if interface.transport == Transport::Udp {
            ";rport"
        } else {
            ""
        };
        let via = format!(
            "SIP/2.0/{} {};branch={branch}{rport}",
            interface.transport.via_name(),
            interface.source
        );
        Message::request(Method::Options, uri)
            .with(Name::Via, via)
            .with(Name::MaxForwards, "1")
            .with(
                Name::From,
                format!(
                    "<sip:{}>;tag={}",
                    interface.source,
                    &branch[branch.len() / 2..]
                ),
            )
            .with(Name::To, format!("<{uri}>"))
            .with(Name::CallId, call_id.as_str())
            .with(Name::CSeq, format!("{number} OPTIONS"))
            .with(Name::Accept, "application/sdp")
    }

    fn record(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        member: &MemberName,
        outcome: Outcome,
    ) {
        if let Some(state) = self.groups.dispatcher.record(now, member, outcome) {
            common.report(Event::Member {
                group: member.group.clone(),
                uri: member.uri.clone(),
                state,
            });
        }
    }

    fn report_hop(
        &mut self,
        common: &mut CommonState,
        transport: Transport,
        remote: SocketAddr,
        outcome: HopOutcome,
    ) {
        common.statistics.next_hops_failed += 1;
        common.report(Event::NextHop {
            transport,
            remote,
            outcome,
        });
    }
}

fn member_outcome(outcome: HopOutcome) -> Outcome {
    match outcome {
        HopOutcome::Answered => Outcome::Answered,
        HopOutcome::Unavailable { retry_after } => Outcome::Failed { retry_after },
        HopOutcome::Silent | HopOutcome::Unreachable => Outcome::Failed { retry_after: None },
    }
}

/// How long the sender of a 503 wants to be left alone (RFC 3261 section 20.33).
fn retry_after(response: &Message) -> Option<Duration> {
    let text = response.header(Name::RetryAfter)?.trim_start();
    let digits = text.split(|letter: char| !letter.is_ascii_digit()).next()?;
    // More digits than a number has are a long time too.
    let seconds = match digits.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) if !digits.is_empty() => MAXIMUM_RETRY_AFTER,
        Err(_) => return None,
    };
    Some(seconds.min(MAXIMUM_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_with_or_without_more() {
        let read = |text: &str| {
            let request = Message::request(Method::Options, "sip:example.com");
            let response = Message::response_to(&request, 503, "Service Unavailable");
            retry_after(&response.with(Name::RetryAfter, text)).map(|after| after.as_secs())
        };
        for (text, expected) in [
            ("120", Some(120)),
            ("18;duration=3600", Some(18)),
            ("30 (I'm in a meeting)", Some(30)),
            ("18000", Some(3600)),
            ("99999999999999999999999", Some(3600)),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
